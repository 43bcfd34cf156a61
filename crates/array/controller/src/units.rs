//! The units of a stripe operation: what it finds at each, and, by the plan, what it reads and what it needs room for.
//!
//! ```text
//! pieces, losses ─► views (readable? stored? touched, gap) ─► plan (`plan.rs`) ─► uses (read, staged, erased)
//! ```
//! Invariant: views and uses are made anew whenever an operation is planned again, so that a unit that failed to read meanwhile is
//! found unreadable. Units of operations in the background are chosen in `restore.rs` and `compare.rs`.

use crate::controller::Controller;
use crate::plan::{BeyondRedundancy, Plan, UnitView};
use crate::request::Rows;
use crate::stripe_op::{OpKind, Piece};
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
    };
}

impl Controller {
    /// Looks at each unit of the stripe. For a write without parity there is nothing to look at: pieces go to every copy.
    pub(crate) fn view_units(&mut self, id: u32) {
        let op = &self.ops[id];
        let hull = match op.kind {
            OpKind::Write => op.pieces.iter().fold(Rows::NONE, |hull, piece| hull.hull(piece.rows)),
            _ => op.target.rows,
        };
        let unit_count = if op.kind == OpKind::Write && self.geometry.parities() == 0 {
            0
        } else {
            self.geometry.lock_units()
        };
        let mut views = core::mem::take(&mut self.ops[id].views);
        let op = &self.ops[id];
        let untouched =
            UnitView { readable: true, stored: true, touched: Rows::NONE, gap: hull, held: false };
        views.clear();
        views.resize(self.geometry.data_strips().min(unit_count.into()), untouched);
        views.resize(unit_count.into(), UnitView { gap: Rows::NONE, ..untouched });
        if unit_count > 0 {
            for pieces in op.pieces.chunk_by(|one, next| one.strip == next.strip) {
                let view = &mut views[usize::from(pieces[0].strip)];
                (view.touched, view.gap) = coverage(pieces, hull);
            }
        }
        if self.metadata.any_incomplete() || self.metadata.any_bad() || !op.unreadable.is_empty() {
            for (unit, (view, place)) in views.iter_mut().zip(&op.places).enumerate() {
                view.stored = self.metadata.holds(*place);
                view.readable = view.stored
                    && !op.unreadable.contains(&(unit as u16))
                    && !self.metadata.is_bad(*place, hull);
            }
        }
        let op = &mut self.ops[id];
        op.views = views;
        op.hull = hull;
        self.view_pages(id);
    }

    /// Whether what can't be read can be made up; never where parity may disagree with the data.
    pub(crate) fn recovery_possible(&self, id: u32) -> Result<Plan, BeyondRedundancy> {
        if self.metadata.is_out_of_sync(self.ops[id].key) {
            return Err(BeyondRedundancy);
        }
        let (data, parity) = self.ops[id].views.split_at(self.geometry.data_strips());
        let erased = data.iter().filter(|unit| !unit.readable).count();
        let usable = parity.iter().filter(|unit| unit.readable).count();
        if erased > usable { Err(BeyondRedundancy) } else { Ok(Plan::Recover) }
    }

    /// Decides for each unit what is read and what needs a staging place, by the plan.
    pub(crate) fn assign_units(&mut self, id: u32) {
        match self.ops[id].kind {
            OpKind::Write | OpKind::Recover => {}
            OpKind::Restore | OpKind::Probe => return self.assign_restore(id),
            OpKind::Compare => return self.assign_comparison(id),
        }
        let data_strips = self.geometry.data_strips();
        let op = &mut self.ops[id];
        let (plan, hull, writes) = (op.plan, op.hull, op.kind == OpKind::Write);
        op.units.clear();
        let mut parity_wanted =
            op.views[..data_strips.min(op.views.len())].iter().filter(|view| !view.readable).count();
        op.units.extend(op.views.iter().enumerate().map(|(unit, view)| {
            let mut uses = UnitUse::IDLE;
            let is_data = unit < data_strips;
            match plan {
                Plan::ReadModifyWrite if is_data => uses.read = view.touched,
                Plan::ReadModifyWrite if view.stored => uses.read = hull,
                Plan::ReconstructWrite if is_data => uses.read = view.gap,
                Plan::Recover if is_data && view.readable => uses.read = hull,
                Plan::Recover if is_data => uses.erased = true,
                Plan::Recover if view.readable && parity_wanted > 0 => {
                    parity_wanted -= 1;
                    uses.read = hull;
                }
                _ => {}
            }
            if view.held && plan != Plan::Recover {
                uses.read = Rows::NONE;
            }
            let parity_result = !is_data && writes && view.stored && plan.computes_parity();
            // A recovery for a read goes straight into the host's buffer.
            uses.staged = !uses.read.is_empty() || parity_result || (uses.erased && writes);
            uses
        }));
    }

    /// Notes that the strip itself can't be read for this operation.
    pub(crate) fn hold_unreadable(&mut self, op: u32, strip: u16) {
        self.ops[op].unreadable.push(strip);
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
