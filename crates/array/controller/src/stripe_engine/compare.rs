//! Comparing: whether the redundancy of a stripe agrees with its data, and making it agree.
//!
//! ```text
//! parity:  read D0 D1 .. and P Q ─► compute P' Q' ─► digest P' Q' P Q ─► rows that differ: write P' Q' there
//! copies:  read all copies ───────────────────────► digest all copies ─► rows that differ: write the first copy there
//! ```
//! The first copy of a row is the lowest that can be read. Nothing here looks at the cache: it holds what is newer than the
//! members, which does not make them disagree. Parity and copies that can't be read are written like those that differ. Data of a
//! parity stripe must be readable whole; where it is not the visit sees to it first.
//!
//! Rows are compared by their CRC32C, so a difference goes unnoticed once in 2^32. A world that carries no bytes gives no
//! digests, and finds no difference.

use super::op::StripeOp;
use super::plan::{BeyondRedundancy, Plan};
use super::units::UnitUse;
use crate::api::BufferRef;
use crate::geometry::Geometry;
use crate::request::Rows;
use crate::table::NIL;

impl StripeOp {
    /// Whether there is something to compare with: all data, or a copy.
    pub(super) fn comparison_possible(&self, geometry: &Geometry) -> Result<Plan, BeyondRedundancy> {
        let views = &self.views;
        let possible = if geometry.parities() > 0 {
            views[..geometry.data_strips()].iter().all(|view| view.readable)
        } else {
            // Where some rows of a copy can't be read, the others still count: only row by row is it known which.
            let is_known = self.unreadable.is_empty() || self.hull.count == 1;
            is_known && views.iter().any(|view| view.readable)
        };
        if possible { Ok(Plan::ReconstructWrite) } else { Err(BeyondRedundancy) }
    }

    /// Decides what a comparison reads. Behind the units of the stripe stand those that parity is computed into.
    pub(super) fn assign_comparison(&mut self, geometry: &Geometry) {
        let (parities, data_strips, unit_count) =
            (geometry.parities(), geometry.data_strips(), usize::from(geometry.lock_units()));
        let makes_tags = self.makes_checksums;
        let Self { views, units, hull, .. } = self;
        units.clear();
        let first_copy = views.iter().position(|view| view.readable).unwrap_or(0) as u16;
        let reference = |unit: usize| if parities == 0 { first_copy } else { unit as u16 + parities as u16 };
        // Without a parity that is stored, or without a second copy, there is nothing to read for.
        let redundancy = if parities == 0 { 0 } else { data_strips };
        let others = views[redundancy..].iter().filter(|view| view.stored).count();
        // Reading is enough to make tags agree where they may not.
        let any = makes_tags || if parities == 0 { others > 1 } else { others > 0 };
        for (unit, view) in views.iter().enumerate().filter(|_| any) {
            let mut uses = UnitUse::IDLE;
            if view.readable {
                (uses.read, uses.staged) = (*hull, true);
            } else if view.stored {
                uses.write = *hull;
            }
            uses.from = reference(unit);
            units.push(uses);
        }
        units.resize(unit_count + parities, UnitUse::IDLE);
        for parity in 0..if any { parities } else { 0 } {
            units[unit_count + parity].staged = views[data_strips + parity].stored;
        }
    }

    /// Bytes that the parity of a comparison takes in and gives out.
    pub(super) fn comparison_volume(&self, geometry: &Geometry) -> (u64, u64) {
        let hull_bytes = u64::from(self.hull.count) * geometry.block_bytes();
        let spare = self.units[usize::from(geometry.lock_units())..].iter();
        let computed = spare.filter(|unit| unit.staging != NIL).count() as u64;
        if computed == 0 {
            (0, 0)
        } else {
            (geometry.data_strips() as u64 * hull_bytes, computed * hull_bytes)
        }
    }

    /// The units that a comparison compares: redundancy that was read.
    fn compared(&self, geometry: &Geometry) -> impl Iterator<Item = u16> {
        (0..geometry.lock_units()).filter(|&unit| self.is_compared(geometry, unit))
    }

    fn is_compared(&self, geometry: &Geometry, unit: u16) -> bool {
        let uses = &self.units[usize::from(unit)];
        let is_redundancy = if geometry.parities() > 0 {
            usize::from(unit) >= geometry.data_strips()
        } else {
            unit != uses.from
        };
        is_redundancy && !uses.read.is_empty()
    }

    /// True if there is something to compare.
    pub(crate) fn compares_any(&self, geometry: &Geometry) -> bool {
        self.compared(geometry).next().is_some()
    }

    /// Calls `each` with where the rows lie that are to be digested: what the redundancy should be, then what it is.
    pub(crate) fn for_each_compared(&self, geometry: &Geometry, mut each: impl FnMut(BufferRef)) {
        let references = if geometry.parities() > 0 { usize::MAX } else { 1 };
        for unit in self.compared(geometry).take(references) {
            let from = self.units[usize::from(unit)].from;
            each(self.staged(geometry, from, self.hull.first));
        }
        for unit in self.compared(geometry) {
            each(self.staged(geometry, unit, self.hull.first));
        }
    }

    /// Takes in the digests of a comparison; none from a world that carries no bytes. What differs is written where redundancy
    /// is to agree. Returns how many rows differ.
    pub(crate) fn take_digests(&mut self, geometry: &Geometry, digests: &[u32], makes_agree: bool) -> u64 {
        let hull = self.hull;
        let rows = hull.count as usize;
        let compared = self.compared(geometry).count();
        let references = if geometry.parities() > 0 { compared } else { 1 };
        assert!(
            digests.is_empty() || digests.len() == (references + compared) * rows,
            "{} digests of {compared} units and {references} references, {rows} rows each",
            digests.len()
        );
        if digests.is_empty() {
            return 0;
        }
        let (should, is) = digests.split_at(references * rows);
        let mut mismatched = 0;
        let mut next = 0;
        for unit in 0..geometry.lock_units() {
            if !self.is_compared(geometry, unit) {
                continue;
            }
            let reference = if geometry.parities() > 0 { next } else { 0 };
            let pairs = should[reference * rows..].iter().zip(&is[next * rows..][..rows]);
            let differ = pairs.zip(hull.first..).filter(|((should, is), _)| should != is);
            let (count, hull_of_them) = differ.fold((0, Rows::NONE), |(count, hull), (_, row)| {
                (count + 1, hull.hull(Rows::between(row, row + 1)))
            });
            mismatched += count;
            if makes_agree {
                self.units[usize::from(unit)].write = hull_of_them;
            }
            next += 1;
        }
        mismatched
    }
}
