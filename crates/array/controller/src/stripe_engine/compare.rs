//! Comparing: whether the redundancy of a stripe agrees with its data, and making it agree.
//!
//! ```text
//! parity:  read D0 D1 .. and P Q ─► compute P' Q' ─► digest P' Q' P Q ─► rows that differ: write P' Q' there
//! copies:  read all copies ───────────────────────► digest all copies ─► rows that differ: write the first copy there
//! ```
//! So it is after a crash, when each side may be right, and where the operator trusts the data. Else what differs is decided by the
//! evidence (`evidence.rs`), and where that doesn't say what is wrong nothing is written. The first copy of a row is the lowest that
//! can be read. Nothing here looks at the cache: it holds what is newer than the
//! members, which does not make them disagree. Parity and copies that can't be read are written like those that differ. Data of a
//! parity stripe must be readable whole; where it is not the visit sees to it first.
//!
//! Rows are compared by their CRC32C, so a difference goes unnoticed once in 2^32. A world that carries no bytes gives no
//! digests, and finds no difference.

use super::evidence::{Compared, Finding, Settled, Verdict};
use super::op::{Comparison, StripeOp};
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
    pub(super) fn assign_comparison(&mut self, has_checksums: bool, geometry: &Geometry) {
        let (parities, data_strips, unit_count) =
            (geometry.parities(), geometry.data_strips(), usize::from(geometry.lock_units()));
        let Self { views, units, hull, .. } = self;
        units.clear();
        let first_copy = views.iter().position(|view| view.readable).unwrap_or(0) as u16;
        let reference = |unit: usize| if parities == 0 { first_copy } else { unit as u16 + parities as u16 };
        // Without a parity that is stored, or without a second copy, there is nothing to read for.
        let redundancy = if parities == 0 { 0 } else { data_strips };
        let others = views[redundancy..].iter().filter(|view| view.stored).count();
        // Reading is enough to compare tags, and to make them agree after a crash.
        let any = has_checksums || if parities == 0 { others > 1 } else { others > 0 };
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

    /// Takes in the digests of a comparison; none from a world that carries no bytes.
    pub(super) fn take_digests(
        &mut self,
        geometry: &Geometry,
        digests: &[u32],
        makes_agree: bool,
    ) -> Finding {
        if digests.is_empty() {
            return Finding::Settled(Settled::default());
        }
        let Comparison { trusts_data, has_restored, .. } = *self.comparison();
        let rows = self.hull.count as usize;
        let compared = Compared::new(geometry.parities() > 0, rows, self.compared(geometry).count(), digests)
            .with_restored(has_restored);
        match compared.verdict(trusts_data) {
            Verdict::Mixed => Finding::Mixed,
            // Only what is undecided is told, and what can't be read is written where the others agree.
            Verdict::Undecided if compared.any_agrees() => Finding::Mixed,
            Verdict::Undecided => {
                Finding::Settled(self.settle_undecided(compared.mismatched(0), compared.differing()))
            }
            Verdict::DataOrBoth => {
                // They differ in the same rows.
                let differing = self.rows_of_run(compared.wrong_rows(0, 0));
                self.begin_trials(rows - compared.differing(), differing);
                Finding::Suspects
            }
            Verdict::Decided { right } => {
                Finding::Settled(self.settle_decided(geometry, (&compared, right), makes_agree))
            }
        }
    }

    /// Has what is wrong written, each unit the hull of its rows.
    fn settle_decided(
        &mut self,
        geometry: &Geometry,
        (compared, right): (&Compared<'_>, usize),
        makes_agree: bool,
    ) -> Settled {
        let right_unit = self.unit_of_digest(geometry, right);
        for number in 0..compared.units {
            let unit = self.unit_of_digest(geometry, number);
            let wrong = compared.wrong_rows(number, right);
            let wrong = self.rows_of_run(wrong);
            let uses = &mut self.units[usize::from(unit)];
            uses.wrong = wrong;
            if makes_agree {
                uses.write = uses.wrong;
            }
        }
        if geometry.parities() == 0 {
            self.units.iter_mut().for_each(|uses| uses.from = right_unit);
        }
        Settled { mismatched: compared.mismatched(right), undecided: 0 }
    }

    /// Rows of the run as rows of the strip.
    const fn rows_of_run(&self, rows: Rows) -> Rows {
        Rows { first: self.hull.first + rows.first, ..rows }
    }

    /// The unit whose digests have this number.
    fn unit_of_digest(&self, geometry: &Geometry, number: usize) -> u16 {
        if geometry.parities() > 0 {
            self.compared(geometry).nth(number).expect("it was digested")
        } else if number == 0 {
            self.units[0].from
        } else {
            self.compared(geometry).nth(number - 1).expect("it was digested")
        }
    }
}
