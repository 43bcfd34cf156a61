//! Visits: what the background does to one stripe, under its lock, step by step.
//!
//! A visit looks at rows of its stripe; each step is one operation (restore, probe or compare) on a run of them. Where
//! a run can't be restored or compared because something in it can't be read, its rows are taken one by one, for bad blocks
//! seldom lie in the same rows of two units:
//! ```text
//! rebuild, read error,  rows ─► restore ──────────────────────────────► next rows
//! recovery                        └ fails: row by row ─► fails: probe the row where it stands (no rebuild does)
//!                                                          └ fails: the row is lost, a bad block
//! check, repair         rows ─► compare ──────────────────────────────► next rows
//!                                 └ data unreadable: restore it, compare again; of copies: row by row
//! resync                rows ─► compare, rewriting what differs ──────► next rows
//!                                 └ data unreadable: row by row ─► lost: a bad block, and so is parity there;
//!                                                                    with checksums: probe the rest of the data
//! ```
//! The probes give new checksums to data that is believed because the stripe is out of sync: later nobody would believe it.
//!
//! Invariant: while a visit has its stripe locked, no other operation runs there. A visit never waits for another stripe.

use super::read_repair::ReadError;
use super::{BackgroundScan, Surroundings};
use crate::geometry::Geometry;
use crate::ids::{LockKey, VisitId};
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::stripe_engine::StripeOp;
use raidlab_format::BadReason;
use raidlab_units::{BlockCount, MemberIndex};

/// What a visit is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To restore what a read could not get.
    #[default]
    ReadError,
    /// To try what is a bad block once more.
    Recover,
    /// To give the target of a rebuild its unit.
    Rebuild,
    Check,
    Repair,
    RepairFromData,
    Resync,
    /// To resync the stripe because the host wants it.
    SyncFirst,
}

impl Purpose {
    /// True if redundancy that differs is rewritten.
    pub(crate) const fn makes_agree(self) -> bool {
        !matches!(self, Self::Check)
    }

    /// True if parity is made from data and copies from the first, whatever the evidence: after a crash none of them is wrong.
    pub(crate) const fn trusts_data(self) -> bool {
        matches!(self, Self::Resync | Self::SyncFirst | Self::RepairFromData)
    }

    pub(crate) const fn syncs(self) -> bool {
        matches!(self, Self::Resync | Self::SyncFirst)
    }
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VisitEnd {
    Done,
    /// What it was for is gone, or can't be done without a device that is missing.
    Abandoned,
}

/// Rows taken run by run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowWalk {
    /// The run being looked at.
    run: Rows,
    /// What comes after it.
    rest: Rows,
    /// Rows before this are taken one by one.
    single_to: u32,
}

impl RowWalk {
    const fn over(rows: Rows) -> Self {
        Self { run: Rows::NONE, rest: rows, single_to: 0 }
    }

    /// Goes on to the next run, of `longest` rows at most. Returns false at the end.
    fn advance(&mut self, longest: u32) -> bool {
        let longest = if self.rest.first < self.single_to { 1 } else { longest };
        let (first, end) = (self.rest.first, self.rest.end());
        let cut = first + longest.min(self.rest.count);
        self.run = Rows::between(first, cut);
        self.rest = Rows::between(cut, end);
        !self.run.is_empty()
    }

    /// Takes the run once more.
    fn again(&mut self) {
        self.rest = self.run.hull(self.rest);
    }

    /// Takes the run once more, row by row. Returns false if it is one row.
    fn again_singly(&mut self) -> bool {
        if self.run.count > 1 {
            self.single_to = self.run.end();
            self.again();
        }
        self.run.count > 1
    }
}

/// What a visit is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Comparing,
    /// Restores its unit.
    Restoring,
    /// Looks whether the unit, which can't be restored, can be read.
    Probing,
    /// Gives new tags to what was left of a run that was given up, unit by unit.
    Tagging,
}

/// One visit.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    purpose: Purpose,
    /// The lock of its stripe.
    key: LockKey,
    /// Number of the scan that it belongs to; 0 if none.
    scan: u32,
    /// The strip of the target that a rebuild restores, counted along the device.
    strip_number: u64,
    end: Option<VisitEnd>,
    /// The unit that is restored, and the device that should hold it.
    unit: u16,
    device: MemberIndex,
    step: Step,
    restore: RowWalk,
    compare: RowWalk,
    /// Rows to compare after those, the last first.
    compare_later: Vec<Rows>,
    /// Units restored for the run under comparison.
    restored: Vec<u16>,
    /// Rows before this have been looked at after that.
    restored_to: u32,
    /// Units of the latest operation that could not be read.
    unreadable: Vec<u16>,
    /// How the latest operation ended, until that has been looked at.
    outcome: Option<bool>,
    launching: bool,
}

impl Visit {
    /// A visit that restores what a read could not get.
    pub(super) fn of_read_error(error: &ReadError) -> Self {
        let restore = RowWalk::over(error.rows);
        Self { key: error.key, unit: error.unit, device: error.device, restore, ..Self::default() }
    }

    /// A visit that tries bad blocks of a unit of `device` once more.
    pub(super) fn of_recovery((key, unit): (LockKey, u16), device: MemberIndex, rows: Rows) -> Self {
        let restore = RowWalk::over(rows);
        Self { purpose: Purpose::Recover, key, unit, device, restore, ..Self::default() }
    }

    /// A visit of a scan that restores a strip of `device`.
    pub(super) fn of_rebuild(key: LockKey, unit: u16, device: MemberIndex) -> Self {
        Self { purpose: Purpose::Rebuild, key, unit, device, ..Self::default() }
    }

    /// This visit as part of a scan, at the strip of the target or the stripe that it has come to.
    pub(super) fn of_scan(self, scan: u32, strip_number: u64) -> Self {
        Self { scan, strip_number, ..self }
    }

    /// A visit that compares.
    pub(super) fn of_comparison(key: LockKey, purpose: Purpose) -> Self {
        Self { purpose, key, ..Self::default() }
    }

    /// What it is for, and the number of the scan that it belongs to.
    pub(super) const fn belongs_to(&self) -> (Purpose, u32) {
        (self.purpose, self.scan)
    }

    /// True if it has done all that it was for.
    pub(super) fn is_done(&self) -> bool {
        self.end == Some(VisitEnd::Done)
    }

    /// The target of a rebuild, and the strip that it restores there.
    pub(super) const fn restored_strip(&self) -> (MemberIndex, u64) {
        (self.device, self.strip_number)
    }
}

/// What a step of a visit does with its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// Makes them up from the others and writes them.
    Restore,
    /// Reads them, to see whether they can be read.
    Probe,
    /// Compares redundancy with data.
    Compare,
}

/// What a visit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// An operation on rows of a unit of its stripe.
    Op {
        kind: StepKind,
        unit: u16,
        rows: Rows,
    },
    End(VisitEnd),
}

impl BackgroundScan {
    /// Keeps a new visit.
    pub(super) fn keep_visit(&mut self, visit: Visit) -> VisitId {
        let id = self.visits.take();
        let old = core::mem::replace(&mut self.visits[id], visit);
        let visit = &mut self.visits[id];
        (visit.restored, visit.unreadable) = (old.restored, old.unreadable);
        visit.compare_later = old.compare_later;
        visit.restored.clear();
        visit.compare_later.clear();
        visit.unreadable.clear();
        id
    }

    /// A visit that resyncs rows of a stripe before the host has it.
    pub(crate) fn new_sync_first(&mut self, key: LockKey, rows: &[Rows]) -> VisitId {
        let id = self.keep_visit(Visit::of_comparison(key, Purpose::SyncFirst));
        self.visits[id].compare_later.extend(rows.iter().rev());
        id
    }

    /// The lock of the stripe that is visited.
    pub(crate) fn stripe_of(&self, id: VisitId) -> LockKey {
        self.visits[id].key
    }

    /// What a visit is for.
    pub(crate) fn purpose(&self, id: VisitId) -> Purpose {
        self.visits[id].purpose
    }

    /// The device that should hold what a visit restores.
    pub(crate) fn device(&self, id: VisitId) -> MemberIndex {
        self.visits[id].device
    }

    /// The rows that a visit is looking at and those that it has still to come to.
    pub(crate) fn rows_ahead(&self, id: VisitId) -> Rows {
        let Visit { restore, compare, compare_later, .. } = &self.visits[id];
        let now = restore.run.hull(restore.rest).hull(compare.run.hull(compare.rest));
        compare_later.iter().fold(now, |ahead, rows| ahead.hull(*rows))
    }

    /// True while the target of the visit's rebuild is to be rebuilt.
    pub(super) fn is_rebuilding(&self, metadata: &Metadata, id: VisitId) -> bool {
        let Visit { scan, device, .. } = self.visits[id];
        self.is_current(scan) && metadata.rebuild_boundary(device).is_some() && !metadata.any_lost()
    }

    /// Starts a visit whose stripe is locked for it. Returns true if it resyncs that.
    pub(crate) fn start_visit(&mut self, id: VisitId, around: &mut Surroundings<'_>) -> bool {
        let geometry = around.geometry;
        let whole = Rows { first: 0, count: geometry.strip_rows() };
        let Visit { purpose, key, unit, device, scan, .. } = self.visits[id];
        let place = geometry.lock_place(key, unit);
        let mut end = None;
        match purpose {
            Purpose::ReadError | Purpose::Recover if around.metadata.holder(place) == Some(device) => {
                self.visits[id].step = Step::Restoring;
            }
            Purpose::Rebuild if self.is_rebuilding(around.metadata, id) => {
                if !around.metadata.is_out_of_sync(key) {
                    self.visits[id].restore = RowWalk::over(whole);
                    self.visits[id].step = Step::Restoring;
                } else if geometry.parities() > 0 && usize::from(unit) < geometry.data_strips() {
                    // Parity may disagree, and no device has the data: it can't be told any more.
                    self.lose_run(id, (device, unit), whole, around);
                }
                // Parity of such a stripe is not used until it has been resynced, which makes it anew.
            }
            Purpose::Check | Purpose::Repair | Purpose::RepairFromData if self.is_current(scan) => {
                self.visits[id].compare = RowWalk::over(whole);
                let is_held = |unit| around.metadata.holds(geometry.lock_place(key, unit));
                let is_whole = (0..geometry.lock_units()).all(is_held);
                self.count(id, |counts| counts.incomplete_stripes += u64::from(!is_whole));
            }
            Purpose::Resync if around.metadata.needs_resync(geometry, key) => {
                self.visits[id].compare = RowWalk::over(whole);
            }
            Purpose::SyncFirst if around.metadata.needs_resync(geometry, key) => {}
            _ => end = Some(VisitEnd::Abandoned),
        }
        self.visits[id].end = end;
        purpose.syncs() && end.is_none()
    }

    /// Takes in the end of an operation of the visit, and the units that it could not read. Returns true if the visit is to go
    /// on from here; while a step is being begun, whoever begins it goes on.
    pub(crate) fn end_step(&mut self, id: VisitId, succeeded: bool) -> bool {
        self.visits[id].outcome = Some(succeeded);
        !self.visits[id].launching
    }

    /// True if data of the rows that a visit compares has been made up for that.
    pub(crate) fn has_restored(&self, id: VisitId) -> bool {
        let Visit { restored, restored_to, compare, .. } = &self.visits[id];
        !restored.is_empty() && compare.run.first < *restored_to
    }

    /// Has the rows that the visit has compared looked at once more, one by one.
    pub(crate) fn compare_singly(&mut self, id: VisitId) {
        let has_several = self.visits[id].compare.again_singly();
        debug_assert!(has_several, "one row differs from itself in nothing");
    }

    /// Takes over the units that an operation of the visit could not read.
    pub(crate) fn take_unreadable(&mut self, id: VisitId, op: &mut StripeOp) {
        op.swap_unreadable(&mut self.visits[id].unreadable);
    }

    /// True if the step that was begun has ended already.
    pub(crate) fn has_step_ended(&mut self, id: VisitId) -> bool {
        self.visits[id].launching = false;
        self.visits[id].outcome.is_some()
    }

    /// Takes in how the latest operation ended, if that has not been looked at, and says what is next.
    pub(crate) fn next_step(&mut self, id: VisitId, around: &mut Surroundings<'_>) -> NextStep {
        if let Some(succeeded) = self.visits[id].outcome.take() {
            match self.visits[id].step {
                Step::Restoring | Step::Probing => self.restore_step_done(id, succeeded, around),
                Step::Tagging => self.tag_step_done(id, succeeded, around),
                Step::Comparing if succeeded => {}
                Step::Comparing => self.compare_step_failed(id, around),
            }
        }
        if let Some(end) = self.visits[id].end {
            return NextStep::End(end);
        }
        let op = self.next_op(id, around.geometry, around.metadata);
        self.visits[id].launching = op.is_some();
        let Some((kind, unit, rows)) = op else {
            self.visits[id].end = Some(VisitEnd::Done);
            return NextStep::End(VisitEnd::Done);
        };
        NextStep::Op { kind, unit, rows }
    }

    /// The operation that comes next, on rows of a unit; none at the end.
    fn next_op(
        &mut self,
        id: VisitId,
        geometry: &Geometry,
        metadata: &Metadata,
    ) -> Option<(StepKind, u16, Rows)> {
        let visit = &mut self.visits[id];
        if matches!(visit.step, Step::Restoring | Step::Probing) {
            if visit.restore.advance(u32::MAX) {
                let kind = if visit.step == Step::Probing { StepKind::Probe } else { StepKind::Restore };
                return Some((kind, visit.unit, visit.restore.run));
            }
            visit.step = Step::Comparing;
        }
        if visit.step == Step::Tagging
            && let Some((unit, rows)) = visit.next_to_tag(geometry, metadata)
        {
            return Some((StepKind::Probe, unit, rows));
        }
        loop {
            let longest = visit.longest_run(geometry, metadata);
            if visit.compare.advance(longest) {
                return Some((StepKind::Compare, 0, visit.compare.run));
            }
            visit.compare = RowWalk::over(visit.compare_later.pop()?);
        }
    }

    fn restore_step_done(&mut self, id: VisitId, succeeded: bool, around: &mut Surroundings<'_>) {
        let Visit { purpose, key, unit, device, step, .. } = self.visits[id];
        self.visits[id].step = Step::Restoring;
        if succeeded {
            return;
        }
        let Surroundings { geometry, metadata, .. } = around;
        let role = geometry.lock_place(key, unit).member;
        if metadata.player(role) != Some(device) || metadata.touches_lost(geometry, key) {
            self.visits[id].end = Some(VisitEnd::Abandoned);
        } else if !self.visits[id].restore.again_singly() {
            if step == Step::Probing || purpose == Purpose::Rebuild {
                let run = self.visits[id].restore.run;
                self.lose_run(id, (device, unit), run, around);
            } else {
                self.visits[id].restore.again();
                self.visits[id].step = Step::Probing;
            }
        }
    }

    fn lose_run(
        &mut self,
        id: VisitId,
        (device, unit): (MemberIndex, u16),
        rows: Rows,
        around: &mut Surroundings<'_>,
    ) {
        let Surroundings { geometry, metadata, .. } = around;
        let Visit { key, purpose, .. } = self.visits[id];
        let place = geometry.lock_place(key, unit);
        self.count(id, |counts| counts.unreadable_rows += u64::from(rows.count));
        // Parity could have made up a bad block until it came to be in doubt.
        let is_news = purpose.syncs() && geometry.parities() > 0 && metadata.is_bad(place, rows);
        // What a rebuild can't restore has never been there. Copies in doubt may differ: if all are read again, one may count.
        let is_later_copy = purpose.syncs() && geometry.parities() == 0 && unit > first_copy(key, around);
        let reason = if purpose == Purpose::Rebuild || is_later_copy {
            BadReason::Lost
        } else {
            BadReason::Unreadable
        };
        let Surroundings { geometry, metadata, outbox } = around;
        let lost = (device, place.start + BlockCount(u64::from(rows.first)), rows.count);
        metadata.lose_rows(geometry, lost, (reason, is_news), outbox);
    }

    /// Takes in that a run could not be compared: data of a parity stripe, or all copies, can't be read in it.
    fn compare_step_failed(&mut self, id: VisitId, around: &mut Surroundings<'_>) {
        let Surroundings { geometry, metadata, .. } = around;
        let Visit { purpose, key, compare: RowWalk { run, .. }, .. } = self.visits[id];
        if !metadata.has_all_data(geometry, key) {
            // Without all data there is nothing to compare with; a stripe out of sync stays so.
            let end = if purpose.syncs() { VisitEnd::Abandoned } else { VisitEnd::Done };
            self.visits[id].end = Some(end);
            return;
        }
        let mut units = (0..compared_with(geometry)).map(|unit| geometry.lock_place(key, unit));
        let is_bad = |place| metadata.is_bad(place, run);
        // No row of the run is better than the others.
        let all_bad = if geometry.parities() > 0 {
            units.any(is_bad)
        } else {
            units.filter(|place| metadata.holds(*place)).all(is_bad)
        };
        if geometry.parities() > 0 && !purpose.syncs() {
            self.visits[id].restore_for_comparison(geometry, metadata);
        } else if all_bad || !self.visits[id].compare.again_singly() {
            self.give_run_up(id, around);
        }
    }

    /// Makes bad blocks of what can't be read in the run of a resync, or of all copies, and of the parity there.
    fn give_run_up(&mut self, id: VisitId, around: &mut Surroundings<'_>) {
        let Visit { key, compare: RowWalk { run, .. }, .. } = self.visits[id];
        for unit in 0..compared_with(around.geometry) {
            let place = around.geometry.lock_place(key, unit);
            let unreadable = self.visits[id].unreadable.contains(&unit) || around.metadata.is_bad(place, run);
            if let Some(device) = around.metadata.holder(place)
                && unreadable
            {
                self.lose_run(id, (device, unit), run, around);
            }
        }
        let Surroundings { geometry, metadata, outbox } = around;
        if geometry.parities() == 0 {
            return;
        }
        metadata.spoil_parity(geometry, key, run, outbox);
        if self.settings.has_checksums {
            let visit = &mut self.visits[id];
            (visit.step, visit.unit, visit.restore) = (Step::Tagging, 0, RowWalk::over(run));
        }
    }

    fn tag_step_done(&mut self, id: VisitId, succeeded: bool, around: &mut Surroundings<'_>) {
        let Visit { key, unit, restore: RowWalk { run, .. }, .. } = self.visits[id];
        if !around.metadata.has_all_data(around.geometry, key) {
            self.visits[id].end = Some(VisitEnd::Abandoned);
        } else if !succeeded && !self.visits[id].restore.again_singly() {
            let place = around.geometry.lock_place(key, unit);
            let device = around.metadata.holder(place).expect("all data is held");
            self.lose_run(id, (device, unit), run, around);
        }
    }

    /// Takes in that a visit is over. Returns true if it leaves its stripe; that of a rebuild stays locked until the boundary
    /// has passed it.
    pub(crate) fn end_visit(&mut self, id: VisitId) -> bool {
        let Visit { purpose, key, device, scan, .. } = self.visits[id];
        match purpose {
            Purpose::ReadError => self.read_repair.end(key, device),
            Purpose::Rebuild => return !self.is_current(scan),
            Purpose::SyncFirst => {}
            Purpose::Check
            | Purpose::Repair
            | Purpose::RepairFromData
            | Purpose::Resync
            | Purpose::Recover => {
                self.stripe_compared(scan);
            }
        }
        true
    }

    /// True if a visit is over.
    pub(crate) fn has_visit_ended(&self, id: VisitId) -> bool {
        self.visits[id].end.is_some()
    }

    /// Forgets a visit that is over.
    pub(crate) fn forget_visit(&mut self, id: VisitId) {
        self.visits.give(id);
    }
}

impl Visit {
    /// How many of the next rows to compare are, in each unit, all bad blocks or all not.
    fn longest_run(&self, geometry: &Geometry, metadata: &Metadata) -> u32 {
        if !metadata.any_bad() {
            return u32::MAX;
        }
        let Self { key, compare: RowWalk { rest, .. }, .. } = self;
        let stretch = |unit| {
            let place = geometry.lock_place(*key, unit);
            let device = metadata.holder(place)?;
            let first = place.start + BlockCount(u64::from(rest.first));
            Some(metadata.bad_stretch(device, first, u64::from(rest.count)).blocks as u32)
        };
        (0..geometry.lock_units()).filter_map(stretch).min().unwrap_or(u32::MAX)
    }

    /// Restores the next unit that keeps the run from being compared, or passes the run over if all were tried.
    fn restore_for_comparison(&mut self, geometry: &Geometry, metadata: &Metadata) {
        let Self { key, compare: RowWalk { run, .. }, restored_to, .. } = *self;
        // A run that was ended by a bad block is longer after that has been restored.
        if run.end() > restored_to {
            self.restored.clear();
            self.restored_to = run.end();
        }
        let unit = (0..compared_with(geometry)).find(|unit| {
            let place = geometry.lock_place(key, *unit);
            !self.restored.contains(unit) && (self.unreadable.contains(unit) || metadata.is_bad(place, run))
        });
        let Some(unit) = unit else { return };
        let holder = metadata.holder(geometry.lock_place(key, unit));
        self.restored.push(unit);
        self.unit = unit;
        self.device = holder.expect("all data has been found to be held");
        self.restore = RowWalk::over(run);
        self.step = Step::Restoring;
        self.compare.again();
    }

    /// The next of what data is left in a run that was given up; none when all was read.
    fn next_to_tag(&mut self, geometry: &Geometry, metadata: &Metadata) -> Option<(u16, Rows)> {
        loop {
            if !self.restore.advance(u32::MAX) {
                (self.unit, self.restore) = (self.unit + 1, RowWalk::over(self.compare.run));
                if usize::from(self.unit) < geometry.data_strips() {
                    continue;
                }
                self.step = Step::Comparing;
                return None;
            }
            let (unit, run) = (self.unit, self.restore.run);
            let place = geometry.lock_place(self.key, unit);
            if metadata.holds(place) && !metadata.is_bad(place, run) {
                return Some((unit, run));
            }
            self.restore.again_singly();
        }
    }
}

/// The first copy under a lock that some device holds.
fn first_copy(key: LockKey, Surroundings { geometry, metadata, .. }: &Surroundings<'_>) -> u16 {
    let is_held = |unit: &u16| metadata.holds(geometry.lock_place(key, *unit));
    (0..geometry.lock_units()).find(is_held).unwrap_or(0)
}

/// Units that a comparison needs: the data, or any of the copies.
fn compared_with(geometry: &Geometry) -> u16 {
    if geometry.parities() > 0 { geometry.data_strips() as u16 } else { geometry.copies() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All runs of a walk, of `longest` rows each; the runs that begin at `failing` are taken again row by row.
    fn runs(longest: u32, failing: &[u32]) -> Vec<(u32, u32)> {
        let mut walk = RowWalk::over(Rows { first: 2, count: 8 });
        let mut runs = Vec::new();
        while walk.advance(longest) {
            runs.push((walk.run.first, walk.run.count));
            if failing.contains(&walk.run.first) && walk.run.count > 1 {
                assert!(walk.again_singly(), "it has several rows");
            }
        }
        runs
    }

    #[test]
    fn rows_are_taken_run_by_run_and_one_by_one_where_a_run_fails() {
        assert_eq!(runs(u32::MAX, &[]), [(2, 8)]);
        assert_eq!(runs(3, &[]), [(2, 3), (5, 3), (8, 2)]);
        assert_eq!(runs(3, &[5]), [(2, 3), (5, 3), (5, 1), (6, 1), (7, 1), (8, 2)]);
        let mut walk = RowWalk::over(Rows { first: 0, count: 1 });
        assert!(walk.advance(4));
        assert!(!walk.again_singly(), "one row is no run");
    }
}
