//! The units of a stripe operation: what it finds at each, and, by the plan, what it reads and what it needs room for.
//!
//! ```text
//! pieces, losses ─► views (readable? stored? touched, gap) ─► plan (`plan.rs`) ─► uses (read, staged, erased)
//! ```
//! Invariant: views and uses are made anew whenever an operation is planned again, so that a unit that failed to read meanwhile is
//! found unreadable. Units of operations in the background are chosen in `restore.rs` and `compare.rs`.

use super::Surroundings;
use super::op::{Job, StripeOp};
use super::plan::{BeyondRedundancy, Plan, UnitView};
use super::writing::Piece;
use crate::request::Rows;
use crate::table::NIL;

/// What an operation does with one unit of its stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitUse {
    /// Rows read before anything is written.
    pub(crate) read: Rows,
    /// Staging place that holds the unit, or [`NIL`].
    pub(crate) staging: u32,
    /// Place of its tags, kept from when it was read to when it is written, or [`NIL`].
    pub(crate) tags: u32,
    /// Needs a staging place.
    pub(crate) staged: bool,
    /// Is an erasure: recovered, not read.
    pub(crate) erased: bool,
    /// Rows that an operation in the background writes to the unit.
    pub(crate) write: Rows,
    /// The unit in whose staging place those rows are.
    pub(crate) from: u16,
    /// Rows that a comparison has found wrong.
    pub(crate) wrong: Rows,
}

impl UnitUse {
    pub(crate) const IDLE: Self = Self {
        read: Rows::NONE,
        staging: NIL,
        tags: NIL,
        staged: false,
        erased: false,
        write: Rows::NONE,
        from: 0,
        wrong: Rows::NONE,
    };
}

impl StripeOp {
    /// Looks at each unit of the stripe. For a write without parity there is nothing to look at: pieces go to every copy.
    pub(super) fn view_units(&mut self, Surroundings { geometry, metadata, .. }: Surroundings<'_>) {
        let of_pieces = || self.pieces().iter().fold(Rows::NONE, |hull, piece| hull.hull(piece.rows));
        let hull = self.job.rows().unwrap_or_else(of_pieces);
        let is_plain = self.is_write() && geometry.parities() == 0;
        let unit_count = if is_plain { 0 } else { geometry.lock_units() };
        let untouched =
            UnitView { readable: true, stored: true, touched: Rows::NONE, gap: hull, held: false };
        let Self { views, writing, places, unreadable, .. } = self;
        views.clear();
        views.resize(geometry.data_strips().min(unit_count.into()), untouched);
        views.resize(unit_count.into(), UnitView { gap: Rows::NONE, ..untouched });
        if unit_count > 0 {
            for pieces in writing.pieces.chunk_by(|one, next| one.strip == next.strip) {
                let view = &mut views[usize::from(pieces[0].strip)];
                (view.touched, view.gap) = coverage(pieces, hull);
            }
        }
        if metadata.any_incomplete() || metadata.any_bad() || !unreadable.is_empty() {
            for (unit, (view, place)) in views.iter_mut().zip(places).enumerate() {
                view.stored = metadata.holds(*place);
                view.readable = view.stored
                    && !unreadable.contains(&(unit as u16))
                    && (!metadata.is_bad(*place, hull)
                        || (self.dares && metadata.may_be_read_again(self.key, *place, hull)));
            }
        }
        self.hull = hull;
    }

    /// Whether the operation is to try what it could not read once more, and unreadable blocks, because too little is left without
    /// them. True once for what it does.
    pub(super) fn begins_to_dare(&mut self, Surroundings { metadata, .. }: Surroundings<'_>) -> bool {
        if self.dares {
            return false;
        }
        let Self { views, places, unreadable, hull, key, job, .. } = self;
        // What is to be made up is read elsewhere: by the last round of a read, or a probe.
        let made_up = job.made_up();
        let is_its_own = |unit: &u16| made_up == Some(*unit);
        let had = unreadable.len();
        unreadable.retain(is_its_own);
        let may_be_read = |(unit, view): (usize, &UnitView)| {
            !view.readable
                && !is_its_own(&(unit as u16))
                && metadata.may_be_read_again(*key, places[unit], *hull)
        };
        self.dares = unreadable.len() < had || views.iter().enumerate().any(may_be_read);
        self.dares
    }

    /// Whether what can't be read can be made up; never where parity may disagree with the data.
    pub(super) fn recovery_possible(
        &self,
        Surroundings { geometry, metadata, .. }: Surroundings<'_>,
    ) -> Result<Plan, BeyondRedundancy> {
        if metadata.is_out_of_sync(self.key) {
            return Err(BeyondRedundancy);
        }
        let (data, parity) = self.views.split_at(geometry.data_strips());
        let erased = data.iter().filter(|unit| !unit.readable).count();
        let usable = parity.iter().filter(|unit| unit.readable).count();
        if erased > usable { Err(BeyondRedundancy) } else { Ok(Plan::Recover) }
    }

    /// Decides for each unit what is read and what needs a staging place, by the plan.
    pub(super) fn assign_units(&mut self, around: Surroundings<'_>) {
        match self.job {
            Job::Write | Job::Recover(_) => {}
            Job::Restore(step) => return self.assign_restore(step.unit, around),
            Job::Probe(step) => return self.assign_probe(step.unit),
            Job::Compare(_, comparison) => {
                return self.assign_comparison(comparison.has_checksums, around.geometry);
            }
        }
        let data_strips = around.geometry.data_strips();
        let writes = self.is_write();
        let Self { plan, hull, views, units, .. } = self;
        units.clear();
        let mut parity_wanted =
            views[..data_strips.min(views.len())].iter().filter(|view| !view.readable).count();
        units.extend(views.iter().enumerate().map(|(unit, view)| {
            let mut uses = UnitUse::IDLE;
            let is_data = unit < data_strips;
            match *plan {
                Plan::ReadModifyWrite if is_data => uses.read = view.touched,
                Plan::ReadModifyWrite if view.stored => uses.read = *hull,
                Plan::ReconstructWrite if is_data => uses.read = view.gap,
                Plan::Recover if is_data && view.readable => uses.read = *hull,
                Plan::Recover if is_data => uses.erased = true,
                Plan::Recover if view.readable && parity_wanted > 0 => {
                    parity_wanted -= 1;
                    uses.read = *hull;
                }
                _ => {}
            }
            if view.held && *plan != Plan::Recover {
                uses.read = Rows::NONE;
            }
            let parity_result = !is_data && writes && view.stored && plan.computes_parity();
            // A recovery for a read goes straight into the host's buffer.
            uses.staged = !uses.read.is_empty() || parity_result || (uses.erased && writes);
            uses
        }));
    }
}

/// Returns the hull of what `pieces` (sorted, of one strip) write and the hull of what they leave out of `hull`.
fn coverage(pieces: &[Piece], hull: Rows) -> (Rows, Rows) {
    let mut touched = Rows::NONE;
    let mut gap = Rows::NONE;
    let mut covered_to = hull.first;
    for piece in pieces {
        if piece.rows.first > covered_to {
            gap = gap.hull(Rows::between(covered_to, piece.rows.first));
        }
        covered_to = piece.rows.end();
        touched = touched.hull(piece.rows);
    }
    if covered_to < hull.end() {
        gap = gap.hull(Rows::between(covered_to, hull.end()));
    }
    (touched, gap)
}
