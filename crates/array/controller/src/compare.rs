//! Comparing: whether the redundancy of a stripe agrees with its data, and making it agree.
//!
//! ```text
//! parity:  read D0 D1 .. and P Q ─► compute P' Q' ─► digest P' Q' P Q ─► rows that differ: write P' Q' there
//! copies:  read all copies ───────────────────────► digest all copies ─► rows that differ: write the first copy there
//! ```
//! The first copy is the lowest that can be read. Nothing here looks at the cache: it holds what is newer than the members,
//! which does not make them disagree. Parity and copies that can't be read are written like those that differ. Data of a
//! parity stripe must be readable whole; where it is not the visit sees to it first.
//!
//! Rows are compared by their CRC32C, so a difference goes unnoticed once in 2^32. A world that carries no bytes gives no
//! digests, and finds no difference.

use crate::controller::Controller;
use crate::memory_task::TaskOwner;
use crate::plan::{BeyondRedundancy, Plan};
use crate::request::Rows;
use crate::table::NIL;
use crate::units::UnitUse;

impl Controller {
    /// Whether there is something to compare with: all data, or a copy.
    pub(crate) fn comparison_possible(&self, id: u32) -> Result<Plan, BeyondRedundancy> {
        let views = &self.ops[id].views;
        let possible = if self.geometry.parities() > 0 {
            views[..self.geometry.data_strips()].iter().all(|view| view.readable)
        } else {
            views.iter().any(|view| view.readable)
        };
        if possible { Ok(Plan::ReconstructWrite) } else { Err(BeyondRedundancy) }
    }

    /// Decides what a comparison reads. Behind the units of the stripe stand those that parity is computed into.
    pub(crate) fn assign_comparison(&mut self, id: u32) {
        let (parities, data_strips, units) =
            (self.geometry.parities(), self.geometry.data_strips(), self.geometry.lock_units());
        let op = &mut self.ops[id];
        op.units.clear();
        let first_copy = op.views.iter().position(|view| view.readable).unwrap_or(0) as u16;
        let reference = |unit: usize| if parities == 0 { first_copy } else { unit as u16 + parities as u16 };
        // Without a parity that is stored, or without a second copy, there is nothing to read for.
        let redundancy = if parities == 0 { 0 } else { data_strips };
        let others = op.views[redundancy..].iter().filter(|view| view.stored).count();
        // Reading is enough to make tags agree where they may not.
        let makes_tags = self.checksums.is_on() && self.scan.purpose(op.target.request).syncs();
        let any = makes_tags || if parities == 0 { others > 1 } else { others > 0 };
        for (unit, view) in op.views.iter().enumerate().filter(|_| any) {
            let mut uses = UnitUse::IDLE;
            if view.readable {
                (uses.read, uses.staged) = (op.hull, true);
            } else if view.stored {
                uses.write = op.hull;
            }
            uses.from = reference(unit);
            op.units.push(uses);
        }
        op.units.resize(usize::from(units) + parities, UnitUse::IDLE);
        for parity in 0..if any { parities } else { 0 } {
            op.units[usize::from(units) + parity].staged = op.views[data_strips + parity].stored;
        }
    }

    /// Bytes that the parity of a comparison takes in and gives out.
    pub(crate) fn comparison_volume(&self, id: u32) -> (u64, u64) {
        let op = &self.ops[id];
        let hull_bytes = u64::from(op.hull.count) * self.geometry.block_bytes();
        let spare = op.units[usize::from(self.geometry.lock_units())..].iter();
        let computed = spare.filter(|unit| unit.staging != NIL).count() as u64;
        if computed == 0 {
            (0, 0)
        } else {
            (self.geometry.data_strips() as u64 * hull_bytes, computed * hull_bytes)
        }
    }

    /// True for a unit that a comparison compares: redundancy that was read.
    fn is_compared(&self, id: u32, unit: u16) -> bool {
        let uses = &self.ops[id].units[usize::from(unit)];
        let is_redundancy = if self.geometry.parities() > 0 {
            usize::from(unit) >= self.geometry.data_strips()
        } else {
            unit != uses.from
        };
        is_redundancy && !uses.read.is_empty()
    }

    /// Asks for the digests of what is to be compared: what the redundancy should be, then what it is.
    pub(crate) fn start_comparison(&mut self, id: u32) {
        let units = self.geometry.lock_units();
        let Some(first) = (0..units).find(|&unit| self.is_compared(id, unit)) else {
            return self.start_rewrites(id);
        };
        let task = self.tasks.new_digest(TaskOwner::Digest { op: id });
        let hull = self.ops[id].hull;
        for unit in 0..units {
            if self.is_compared(id, unit) && (self.geometry.parities() > 0 || unit == first) {
                let from = self.ops[id].units[usize::from(unit)].from;
                let buffer = self.staged(id, from, hull.first);
                self.add_to_digest(task, buffer, hull.count);
            }
        }
        for unit in 0..units {
            if self.is_compared(id, unit) {
                let buffer = self.staged(id, unit, hull.first);
                self.add_to_digest(task, buffer, hull.count);
            }
        }
        self.tasks.start_digest(task, &mut self.outbox);
    }

    /// Takes in the digests of a comparison; none from a world that carries no bytes.
    pub(crate) fn op_digested(&mut self, id: u32, digests: &[u32]) {
        let hull = self.ops[id].hull;
        let visit = self.ops[id].target.request;
        let rows = hull.count as usize;
        let compared = (0..self.geometry.lock_units()).filter(|&unit| self.is_compared(id, unit)).count();
        let references = if self.geometry.parities() > 0 { compared } else { 1 };
        assert!(
            digests.is_empty() || digests.len() == (references + compared) * rows,
            "{} digests of {compared} units and {references} references, {rows} rows each",
            digests.len()
        );
        let mut index = 0;
        for unit in 0..self.geometry.lock_units() {
            if digests.is_empty() || !self.is_compared(id, unit) {
                continue;
            }
            let reference = if self.geometry.parities() > 0 { index } else { 0 };
            let should = &digests[reference * rows..][..rows];
            let is = &digests[(references + index) * rows..][..rows];
            index += 1;
            let differ = (0..hull.count).filter(|&row| should[row as usize] != is[row as usize]);
            let differing = differ.clone().count() as u64;
            self.scan.count(visit, |counts| counts.mismatched_rows += differing);
            if self.scan.purpose(visit).makes_agree() {
                let hull_of =
                    |write: Rows, row| write.hull(Rows::between(hull.first + row, hull.first + row + 1));
                self.ops[id].units[usize::from(unit)].write = differ.fold(Rows::NONE, hull_of);
            }
        }
        self.start_rewrites(id);
    }
}
