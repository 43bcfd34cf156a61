//! Visits: what is done in the background to one granule, under its lock, step by step.
//!
//! A visit looks at rows of its granule, each step being one operation (restore, probe or compare) on a run of them. Where
//! a run can't be restored or compared because something in it can't be read, its rows are taken one by one, for bad blocks
//! seldom lie in the same rows of two units:
//! ```text
//! rebuild, read error   rows ─► restore ──────────────────────────────► next rows
//!                                 └ fails: row by row ─► fails: probe the row where it stands (a read error only)
//!                                                          └ fails: the row is lost, a bad block
//! check, repair         rows ─► compare ──────────────────────────────► next rows
//!                                 └ data unreadable: restore it, compare again
//! resync                rows ─► compare, rewriting what differs ──────► next rows
//!                                 └ data unreadable: row by row ─► lost: a bad block, and so is parity there;
//!                                                                    with tags: probe the rest of the data
//! ```
//! The probes give new tags to data that is believed because the granule is unsynced: later nobody would believe it.
//!
//! Invariant: while a visit has its granule locked, no other operation runs there. A visit never waits for another granule.

use crate::controller::Controller;
use crate::granule::WaitKind;
use crate::members::DeviceState;
use crate::request::{Fragment, Rows};
use crate::restore::ReadError;
use crate::state::StateWaiter;
use crate::stripe_op::OpKind;
use raidlab_units::{BlockCount, MemberIndex};

/// What a visit is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To restore what a read could not get.
    #[default]
    ReadError,
    /// To give the target of a rebuild its unit.
    Rebuild,
    Check,
    Repair,
    Resync,
    /// To resync the granule because the host wants it.
    SyncFirst,
}

impl Purpose {
    /// True if redundancy that differs is rewritten.
    pub(crate) const fn makes_agree(self) -> bool {
        !matches!(self, Self::Check)
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
pub(crate) struct Visit {
    pub(crate) purpose: Purpose,
    pub(crate) key: u64,
    /// Number of the sweep that it belongs to; 0 if none.
    pub(crate) sweep: u32,
    /// The strip of the target that a rebuild restores, counted along the device.
    pub(crate) strip_number: u64,
    pub(crate) end: Option<VisitEnd>,
    /// The unit that is restored, and the device that should hold it.
    unit: u16,
    pub(crate) device: MemberIndex,
    step: Step,
    restore: RowWalk,
    compare: RowWalk,
    /// Units restored for the run under comparison.
    restored: Vec<u16>,
    /// Rows before this have been looked at after that.
    restored_to: u32,
    /// Units of the latest operation that could not be read.
    pub(crate) unreadable: Vec<u16>,
    /// How the latest operation ended, until that has been looked at.
    outcome: Option<bool>,
    launching: bool,
}

impl Visit {
    /// The rows that it is looking at and those that it has still to come to.
    pub(crate) fn rows_ahead(&self) -> Rows {
        let Self { restore, compare, .. } = self;
        restore.run.hull(restore.rest).hull(compare.run.hull(compare.rest))
    }

    /// A visit that restores what a read could not get.
    pub(crate) fn of_read_error(error: &ReadError) -> Self {
        let restore = RowWalk::over(error.rows);
        Self { key: error.key, unit: error.unit, device: error.device, restore, ..Self::default() }
    }

    /// A visit of a sweep that restores a strip of `device`.
    pub(crate) fn of_rebuild(key: u64, unit: u16, device: MemberIndex) -> Self {
        Self { purpose: Purpose::Rebuild, key, unit, device, ..Self::default() }
    }

    /// This visit as part of a sweep, at the strip of the target or the granule that it has come to.
    pub(crate) fn of_sweep(self, sweep: u32, strip_number: u64) -> Self {
        Self { sweep, strip_number, ..self }
    }

    /// A visit that compares.
    pub(crate) fn of_comparison(key: u64, purpose: Purpose) -> Self {
        Self { purpose, key, ..Self::default() }
    }
}

impl Controller {
    /// Keeps a new visit.
    pub(crate) fn new_visit(&mut self, visit: Visit) -> u32 {
        let id = self.visits.take();
        let old = core::mem::replace(&mut self.visits[id], visit);
        let visit = &mut self.visits[id];
        (visit.restored, visit.unreadable) = (old.restored, old.unreadable);
        visit.restored.clear();
        visit.unreadable.clear();
        id
    }

    /// Starts a visit when its granule is free.
    pub(crate) fn line_up_visit(&mut self, id: u32) {
        let Visit { key, purpose, .. } = self.visits[id];
        let waiter = Fragment { request: id, ..Fragment::default() };
        if purpose == Purpose::Resync && self.granules.get(key).is_none_or(|granule| !granule.locked) {
            self.granules.obtain(key).locked = true;
            self.start_visit(id);
        } else if self.lock_or_wait(key, WaitKind::Visit, waiter) {
            self.start_visit(id);
        }
    }

    /// Resyncs a granule, which is locked, before the host has it.
    pub(crate) fn sync_granule(&mut self, key: u64) {
        let id = self.new_visit(Visit::of_comparison(key, Purpose::SyncFirst));
        self.start_visit(id);
    }

    /// Starts a visit whose granule is locked for it.
    pub(crate) fn start_visit(&mut self, id: u32) {
        let whole = Rows { first: 0, count: self.geometry.strip_rows() };
        let Visit { purpose, key, unit, device, .. } = self.visits[id];
        let place = self.geometry.granule_place(key, unit);
        let mut end = None;
        match purpose {
            Purpose::ReadError if self.members.holder(place) == Some(device) => {
                self.visits[id].step = Step::Restoring;
            }
            Purpose::Rebuild if self.is_rebuilding(id) => {
                if !self.unsynced.contains(key) {
                    self.visits[id].restore = RowWalk::over(whole);
                    self.visits[id].step = Step::Restoring;
                } else if self.geometry.parities() > 0 && usize::from(unit) < self.geometry.data_strips() {
                    // Parity may disagree, and no device has the data: it can't be told any more.
                    self.lose_run(id, device, unit, whole);
                }
                // Parity of such a stripe is not used until it has been resynced, which makes it anew.
            }
            Purpose::Check | Purpose::Repair if self.sweeps.is_current(self.visits[id].sweep) => {
                self.visits[id].compare = RowWalk::over(whole);
                let is_held = |unit| self.members.holds(self.geometry.granule_place(key, unit));
                let is_whole = (0..self.geometry.granule_units()).all(is_held);
                self.count_for(id, |counts| counts.incomplete_granules += u64::from(!is_whole));
            }
            Purpose::Resync | Purpose::SyncFirst if self.needs_resync(key) => {
                self.granules.obtain(key).syncing = true;
                self.visits[id].compare = RowWalk::over(whole);
            }
            _ => end = Some(VisitEnd::Abandoned),
        }
        self.visits[id].end = end;
        self.drive_visit(id);
    }

    /// True while the target of the visit's rebuild is to be rebuilt.
    pub(crate) fn is_rebuilding(&self, id: u32) -> bool {
        let Visit { sweep, device, .. } = self.visits[id];
        self.sweeps.is_current(sweep)
            && matches!(self.members.state(device), DeviceState::Rebuilding { .. })
            && !self.members.any_lost()
    }

    /// Takes in the end of an operation of the visit.
    pub(crate) fn visit_step_done(&mut self, id: u32, succeeded: bool) {
        self.visits[id].outcome = Some(succeeded);
        if !self.visits[id].launching {
            self.drive_visit(id);
        }
    }

    /// Goes from step to step, until one takes time or the visit has ended.
    fn drive_visit(&mut self, id: u32) {
        loop {
            if let Some(succeeded) = self.visits[id].outcome.take() {
                match self.visits[id].step {
                    Step::Restoring | Step::Probing => self.restore_step_done(id, succeeded),
                    Step::Tagging => self.tag_step_done(id, succeeded),
                    Step::Comparing if succeeded => {}
                    Step::Comparing => self.compare_step_failed(id),
                }
            }
            if let Some(end) = self.visits[id].end {
                return self.visit_ended(id, end);
            }
            self.visits[id].launching = true;
            self.launch_step(id);
            self.visits[id].launching = false;
            if self.visits[id].outcome.is_none() && self.visits[id].end.is_none() {
                return;
            }
        }
    }

    fn launch_step(&mut self, id: u32) {
        let visit = &mut self.visits[id];
        if matches!(visit.step, Step::Restoring | Step::Probing) {
            if visit.restore.advance(u32::MAX) {
                let kind = if visit.step == Step::Probing { OpKind::Probe } else { OpKind::Restore };
                let (unit, run) = (visit.unit, visit.restore.run);
                return self.launch_step_op(id, kind, unit, run);
            }
            visit.step = Step::Comparing;
        }
        if visit.step == Step::Tagging && self.launch_tag_step(id) {
            return;
        }
        let longest = self.longest_run(id);
        let visit = &mut self.visits[id];
        if visit.compare.advance(longest) {
            let run = visit.compare.run;
            self.launch_step_op(id, OpKind::Compare, 0, run);
        } else {
            visit.end = Some(VisitEnd::Done);
        }
    }

    /// How many of the next rows to compare are, in each unit, all bad blocks or all not.
    fn longest_run(&self, id: u32) -> u32 {
        if self.bad.is_empty() {
            return u32::MAX;
        }
        let Visit { key, compare: RowWalk { rest, .. }, .. } = self.visits[id];
        let stretch = |unit| {
            let place = self.geometry.granule_place(key, unit);
            let device = self.members.holder(place)?;
            let first = place.start + BlockCount(u64::from(rest.first));
            Some(self.bad.stretch(device, first, u64::from(rest.count)).blocks as u32)
        };
        (0..self.geometry.granule_units()).filter_map(stretch).min().unwrap_or(u32::MAX)
    }

    fn restore_step_done(&mut self, id: u32, succeeded: bool) {
        let Visit { purpose, key, unit, device, step, .. } = self.visits[id];
        self.visits[id].step = Step::Restoring;
        if succeeded {
            return;
        }
        let role = self.geometry.granule_place(key, unit).member;
        if self.members.player(role) != Some(device) || self.touches_lost(key) {
            self.visits[id].end = Some(VisitEnd::Abandoned);
        } else if !self.visits[id].restore.again_singly() {
            if step == Step::Probing || purpose == Purpose::Rebuild {
                let run = self.visits[id].restore.run;
                self.lose_run(id, device, unit, run);
            } else {
                self.visits[id].restore.again();
                self.visits[id].step = Step::Probing;
            }
        }
    }

    fn lose_run(&mut self, id: u32, device: MemberIndex, unit: u16, rows: Rows) {
        let place = self.geometry.granule_place(self.visits[id].key, unit);
        self.count_for(id, |counts| counts.unreadable_rows += u64::from(rows.count));
        let Visit { key, purpose, .. } = self.visits[id];
        // Parity could have made up a bad block until it came to be in doubt.
        let is_news = purpose.syncs()
            && self.geometry.parities() > 0
            && self.is_bad(self.geometry.granule_place(key, unit), rows);
        self.lose_rows(device, place.start + BlockCount(u64::from(rows.first)), rows.count, is_news);
    }

    /// Takes in that a run could not be compared: data of a parity stripe, or all copies, can't be read in it.
    fn compare_step_failed(&mut self, id: u32) {
        let Visit { purpose, key, compare: RowWalk { run, .. }, .. } = self.visits[id];
        if !self.has_all_data(key) {
            // Without all data there is nothing to compare with; a granule to be resynced stays so.
            let end = if purpose.syncs() { VisitEnd::Abandoned } else { VisitEnd::Done };
            self.visits[id].end = Some(end);
            return;
        }
        let mut units = (0..self.compared_with()).map(|unit| self.geometry.granule_place(key, unit));
        let is_bad = |place| self.is_bad(place, run);
        // No row of the run is better than the others.
        let all_bad = if self.geometry.parities() > 0 {
            units.any(is_bad)
        } else {
            units.filter(|place| self.members.holds(*place)).all(is_bad)
        };
        if self.geometry.parities() > 0 && !purpose.syncs() {
            self.restore_for_comparison(id);
        } else if all_bad || !self.visits[id].compare.again_singly() {
            self.give_run_up(id);
        }
    }

    /// Units that a comparison needs: the data, or any of the copies.
    fn compared_with(&self) -> u16 {
        if self.geometry.parities() > 0 { self.geometry.data_strips() as u16 } else { self.geometry.copies() }
    }

    /// Restores the next unit that keeps the run from being compared, or passes the run over if all were tried.
    fn restore_for_comparison(&mut self, id: u32) {
        let Visit { key, compare: RowWalk { run, .. }, restored_to, .. } = self.visits[id];
        // A run that was ended by a bad block is longer after that has been restored.
        if run.end() > restored_to {
            self.visits[id].restored.clear();
            self.visits[id].restored_to = run.end();
        }
        let visit = &self.visits[id];
        let unit = (0..self.compared_with()).find(|unit| {
            let place = self.geometry.granule_place(key, *unit);
            !visit.restored.contains(unit) && (visit.unreadable.contains(unit) || self.is_bad(place, run))
        });
        let Some(unit) = unit else { return };
        let holder = self.members.holder(self.geometry.granule_place(key, unit));
        let visit = &mut self.visits[id];
        visit.restored.push(unit);
        visit.unit = unit;
        visit.device = holder.expect("all data has been found to be held");
        visit.restore = RowWalk::over(run);
        visit.step = Step::Restoring;
        visit.compare.again();
    }

    /// Makes bad blocks of what can't be read in the run of a resync, or of all copies, and of the parity there.
    fn give_run_up(&mut self, id: u32) {
        let Visit { key, compare: RowWalk { run, .. }, .. } = self.visits[id];
        for unit in 0..self.compared_with() {
            let place = self.geometry.granule_place(key, unit);
            let unreadable = self.visits[id].unreadable.contains(&unit) || self.is_bad(place, run);
            if let Some(device) = self.members.holder(place)
                && unreadable
            {
                self.lose_run(id, device, unit, run);
            }
        }
        if self.geometry.parities() > 0 {
            self.spoil_parity(key, run);
        }
        if self.geometry.parities() > 0 && self.tags.is_on() {
            let visit = &mut self.visits[id];
            (visit.step, visit.unit, visit.restore) = (Step::Tagging, 0, RowWalk::over(run));
        }
    }

    /// Reads the next of what data is left in a run that was given up. Returns false when all was read.
    fn launch_tag_step(&mut self, id: u32) -> bool {
        let data_strips = self.geometry.data_strips();
        loop {
            let visit = &mut self.visits[id];
            if !visit.restore.advance(u32::MAX) {
                (visit.unit, visit.restore) = (visit.unit + 1, RowWalk::over(visit.compare.run));
                if usize::from(visit.unit) < data_strips {
                    continue;
                }
                visit.step = Step::Comparing;
                return false;
            }
            let Visit { key, unit, restore: RowWalk { run, .. }, .. } = *visit;
            let place = self.geometry.granule_place(key, unit);
            if self.members.holds(place) && !self.is_bad(place, run) {
                self.launch_step_op(id, OpKind::Probe, unit, run);
                return true;
            }
            self.visits[id].restore.again_singly();
        }
    }

    fn tag_step_done(&mut self, id: u32, succeeded: bool) {
        let Visit { key, unit, restore: RowWalk { run, .. }, .. } = self.visits[id];
        if !self.has_all_data(key) {
            self.visits[id].end = Some(VisitEnd::Abandoned);
        } else if !succeeded && !self.visits[id].restore.again_singly() {
            let device =
                self.members.holder(self.geometry.granule_place(key, unit)).expect("all data is held");
            self.lose_run(id, device, unit, run);
        }
    }

    /// Gives the granule of a visit that is over to who waits for it.
    pub(crate) fn leave_granule(&mut self, id: u32) {
        let key = self.visits[id].key;
        self.visits.give(id);
        self.granules.obtain(key).syncing = false;
        self.unlock(key);
    }

    /// Ends a visit, or lets it wait until the devices know who is missing.
    pub(crate) fn visit_ended(&mut self, id: u32, end: VisitEnd) {
        let Visit { purpose, key, device, sweep, .. } = self.visits[id];
        if purpose.syncs() && end == VisitEnd::Done {
            if self.lacks_copy_unknown(key) {
                return self.wait_for_state(StateWaiter::Visit(id));
            }
            if self.geometry.parities() > 0 || !self.touches_lost(key) {
                self.granule_synced(key);
            }
        }
        match purpose {
            Purpose::ReadError => self.restores.end(key, device),
            // Its granule stays locked until the boundary has passed it.
            Purpose::Rebuild if self.sweeps.is_current(sweep) => return self.strips_restored(),
            Purpose::Rebuild | Purpose::SyncFirst => {}
            Purpose::Check | Purpose::Repair | Purpose::Resync => self.granule_swept(sweep),
        }
        self.leave_granule(id);
    }
}
