//! Sweeps: the walk over all stripes in the background, for rebuild, resync, check and repair.
//!
//! A sweep has up to `sweep_iodepth` visits under way, begun in order of address and under a rate bound. A rebuild walks over
//! the strips of its target, the others over granules:
//! ```text
//! target    strip 0   1   2   3   4   5   6
//!           passed ───────┤ under way │ not yet begun
//!                      boundary: moves over strips in order; those restored before their turn stay locked
//! ```
//! **One at a time.** A rebuild goes first: a check, repair or resync rests, when what it has under way has ended, and goes
//! on after it. Several rebuilds run one after the other. The operator's sweep is refused while any other runs or rests. No
//! sweep runs while a device is lost; a rebuild that is broken off by that, or by the loss of its target, has ended.
//!
//! **The boundary** is written down (the state is changed) every [`KEPT_STRIPS`] strips and at the end. Where members have
//! caches of their own it is written down, and the target called in sync, only after a flush of all members: the target must
//! have what it was given, and the others what that was made of. A write that found no parity to change left no record, so a
//! power loss could take it back from under the parity that was then made of it.
//!
//! **The rate bound** counts what is walked over on each member: a strip of the target in a rebuild, else a granule's units
//! shared out over all members.

use crate::api::{MemberError, Notice, Sweep, SweepCounts, SweepEnd, SweepProgress, TimerId};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::geometry::UnitRow;
use crate::io::IoOwner;
use crate::members::DeviceState;
use crate::visit::{Purpose, Visit, VisitEnd};
use raidlab_units::{ByteCount, MemberIndex, MemberLba, NanoSpan, Nanos};
use std::collections::VecDeque;

/// The timer for the rate bound.
pub(crate) const SWEEP_TIMER: TimerId = TimerId(1);

/// Strips after which the boundary of a rebuild is written down.
const KEPT_STRIPS: u64 = 64;

/// Visits begun with one event; where there is nothing to do they end at once, and others want their turn.
const STARTS_MAX: u32 = 256;

/// Why a sweep does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepRefused {
    /// Sweeps run one at a time.
    #[error("a sweep is under way ({sweep:?}): wait for its end, or stop it")]
    Busy {
        /// The one that runs, or rests for a rebuild.
        sweep: Sweep,
    },
    /// Rebuilds and resyncs begin when they are needed.
    #[error("a rebuild or resync can't be asked for: it begins by itself when it is needed")]
    NotOnDemand,
    /// The level keeps nothing to compare.
    #[error("the level has no redundancy to compare")]
    NoRedundancy,
    /// More members are lost than the level survives.
    #[error("more members are lost than the level survives: start the array again with them first")]
    MembersLost,
}

/// A sweep that has begun.
#[derive(Debug)]
struct Running {
    sweep: Sweep,
    number: u32,
    /// Strip or granule to visit next, and the one after the last.
    next: u64,
    end: u64,
    done: u64,
    total: u64,
    under_way: u32,
    /// Visits of a rebuild whose strips the boundary has not passed, in order.
    line: VecDeque<u32>,
    counts: SweepCounts,
    /// Strips below the boundary that was written down last.
    kept: u64,
    /// Member flushes under way before the boundary is written down, how far it is then, and whether that of the target
    /// has failed.
    flushing: u32,
    flushed_to: MemberLba,
    flush_failed: bool,
    stopping: bool,
}

impl Running {
    const fn progress(&self) -> SweepProgress {
        let Self { number, sweep, done, total, counts, .. } = *self;
        SweepProgress { number, sweep, done, total, counts }
    }
}

/// All about sweeps.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    current: Option<Running>,
    /// Rests until the rebuilds are over.
    parked: Option<Running>,
    last_number: u32,
    /// Something has changed that may begin or end a sweep.
    pub(crate) attention: bool,
    /// Granules have become unsynced, or can be resynced now, since a resync looked at all.
    pub(crate) resync_due: bool,
    /// They rest while the array starts and stops.
    pub(crate) held: bool,
    /// The rate bound lets no visit begin before this.
    free_at: Nanos,
    timer_at: Option<Nanos>,
}

impl Sweeps {
    pub(crate) fn new() -> Self {
        Self { attention: true, ..Self::default() }
    }

    /// True for the number of the sweep that runs.
    pub(crate) fn is_current(&self, number: u32) -> bool {
        self.current.as_ref().is_some_and(|running| running.number == number)
    }
}

impl Controller {
    /// How far the sweep is that runs, or rests.
    pub fn sweep_progress(&self) -> Option<SweepProgress> {
        self.sweeps.current.as_ref().or(self.sweeps.parked.as_ref()).map(Running::progress)
    }

    /// How far the check, repair or resync is that waits until the rebuild that runs is over.
    pub fn parked_sweep_progress(&self) -> Option<SweepProgress> {
        self.sweeps.current.as_ref().and(self.sweeps.parked.as_ref()).map(Running::progress)
    }

    /// True while sweeps rest: at a start, at a stop, and under a rate bound of 0.
    fn sweeps_held(&self) -> bool {
        self.sweeps.held || self.config.resilience.sweep_bytes_per_sec == Some(ByteCount::ZERO)
    }

    /// True when nothing is under way here.
    pub(crate) fn sweeps_rest(&self) -> bool {
        let rests = |running: &Running| self.sweeps_held() && running.under_way == 0 && running.flushing == 0;
        self.restores.is_empty() && self.sweeps.current.as_ref().is_none_or(rests)
    }

    pub(crate) fn ask_for_sweep(&mut self, sweep: Sweep) -> Result<(), SweepRefused> {
        if matches!(sweep, Sweep::Rebuild { .. } | Sweep::Resync) {
            return Err(SweepRefused::NotOnDemand);
        }
        if !self.geometry.is_redundant() {
            return Err(SweepRefused::NoRedundancy);
        }
        if self.members.any_lost() {
            return Err(SweepRefused::MembersLost);
        }
        if let Some(SweepProgress { sweep, .. }) = self.sweep_progress() {
            return Err(SweepRefused::Busy { sweep });
        }
        self.begin_sweep_of(sweep, 0, self.granule_count());
        Ok(())
    }

    /// Lets the next visit begin at once, under the bound that there is now.
    pub(crate) fn lift_sweep_bound(&mut self) {
        self.sweeps.free_at = self.now;
        self.sweeps.attention = true;
        if self.sweeps.timer_at.take().is_some() {
            self.set_sweep_timer(self.now);
        }
    }

    /// Ends the check or repair that runs or is parked, and returns which it is.
    pub(crate) fn stop_sweep(&mut self) -> Option<Sweep> {
        let on_demand = |running: &Running| matches!(running.sweep, Sweep::Check | Sweep::Repair);
        if let Some(running) = self.sweeps.current.as_mut().filter(|running| on_demand(running)) {
            running.stopping = true;
            return Some(running.sweep);
        }
        let parked = self.sweeps.parked.take_if(|running| on_demand(running))?;
        self.outbox.notify(Notice::SweepEnded { progress: parked.progress(), end: SweepEnd::Stopped });
        Some(parked.sweep)
    }

    /// Takes in that the rate bound lets the next visit begin.
    pub(crate) fn sweep_timer_due(&mut self) {
        self.sweeps.timer_at = None;
    }

    /// Begins, goes on with and ends sweeps and restores, as far as there is something to do.
    #[inline]
    pub(crate) fn pump_sweeps(&mut self) {
        let idle = !self.sweeps.attention && self.sweeps.current.is_none() && self.restores.is_empty();
        if !idle && self.start.is_serving() {
            self.move_sweeps_on();
        }
    }

    #[inline(never)]
    fn move_sweeps_on(&mut self) {
        if core::mem::take(&mut self.sweeps.attention) {
            // A target that has left and answers again begins anew.
            if self.sweeps.current.as_ref().is_some_and(|running| !self.has_target(running.sweep)) {
                self.break_off(SweepEnd::BrokenOff);
            }
            self.take_spares();
        }
        self.start_restores();
        for _ in 0..STARTS_MAX {
            while self.change_sweep() {}
            if !self.start_next_visit() {
                return;
            }
        }
        self.set_sweep_timer(self.now);
    }

    /// Begins, breaks off, parks or ends a sweep, if that is due. Returns true if it did.
    fn change_sweep(&mut self) -> bool {
        if self.members.any_lost()
            && let Some(parked) = self.sweeps.parked.take()
        {
            self.outbox.notify(Notice::SweepEnded { progress: parked.progress(), end: SweepEnd::BrokenOff });
        }
        let Some(running) = &self.sweeps.current else { return self.begin_next_sweep() };
        if self.members.any_lost() || !self.has_target(running.sweep) {
            self.break_off(SweepEnd::BrokenOff);
            return true;
        }
        if running.under_way > 0 {
            return false;
        }
        let is_over = running.next >= running.end;
        match running.sweep {
            Sweep::Rebuild { target } => is_over && self.finish_rebuild(target),
            _ if is_over || running.stopping => {
                self.end_sweep(if is_over { SweepEnd::Through } else { SweepEnd::Stopped });
                true
            }
            sweep if self.next_target().is_some() => {
                self.sweeps.parked = self.sweeps.current.take();
                self.outbox.notify(Notice::SweepParked { sweep });
                true
            }
            _ => false,
        }
    }

    /// False for a rebuild whose target is gone.
    fn has_target(&self, sweep: Sweep) -> bool {
        let Sweep::Rebuild { target } = sweep else { return true };
        matches!(self.members.state(target), DeviceState::Rebuilding { .. })
    }

    /// The device that a rebuild is due for.
    fn next_target(&self) -> Option<MemberIndex> {
        let waits = |state| matches!(state, DeviceState::Rebuilding { .. });
        self.members.first(waits).filter(|_| !self.sweeps_held())
    }

    fn begin_next_sweep(&mut self) -> bool {
        if self.sweeps_held() || self.members.any_lost() {
            return false;
        }
        if let Some(target) = self.next_target() {
            let DeviceState::Rebuilding { boundary, .. } = self.members.state(target) else {
                unreachable!("a target is being rebuilt")
            };
            let strips = self.config.member_size.0 / (self.tags.pitch() * self.geometry.block_bytes());
            let first = boundary.0 / u64::from(self.geometry.strip_rows());
            self.begin_sweep_of(Sweep::Rebuild { target }, first, strips);
        } else if let Some(parked) = self.sweeps.parked.take() {
            self.outbox.notify(Notice::SweepResumed { sweep: parked.sweep });
            self.sweeps.current = Some(parked);
        } else if core::mem::take(&mut self.sweeps.resync_due) && !self.unsynced.is_empty() {
            self.begin_sweep_of(Sweep::Resync, 0, self.granule_count());
        } else {
            return false;
        }
        true
    }

    fn begin_sweep_of(&mut self, sweep: Sweep, next: u64, end: u64) {
        self.sweeps.last_number += 1;
        self.sweeps.current = Some(Running {
            sweep,
            number: self.sweeps.last_number,
            next,
            end,
            done: next,
            total: if sweep == Sweep::Resync { self.unsynced.count() } else { end },
            under_way: 0,
            line: VecDeque::new(),
            counts: SweepCounts::default(),
            kept: next,
            flushing: 0,
            flushed_to: MemberLba::ZERO,
            flush_failed: false,
            stopping: false,
        });
        self.outbox.notify(Notice::SweepStarted { sweep });
    }

    /// Ends the sweep that runs. Visits that it still has under way belong to none.
    fn break_off(&mut self, end: SweepEnd) {
        let Some(running) = self.sweeps.current.take() else { return };
        self.outbox.notify(Notice::SweepEnded { progress: running.progress(), end });
        self.sweeps.attention = true;
        for visit in running.line {
            if self.visits[visit].end.is_some() {
                self.leave_granule(visit);
            }
        }
    }

    fn end_sweep(&mut self, end: SweepEnd) {
        if self.sweeps.current.as_ref().is_some_and(|running| running.sweep == Sweep::Resync) {
            self.resync_done();
        }
        self.break_off(end);
    }

    /// Begins one more visit, if the depth and the rate bound allow it. Returns true if there may be more to do.
    fn start_next_visit(&mut self) -> bool {
        let depth = self.config.resilience.sweep_iodepth.max(1);
        let Some(running) = &self.sweeps.current else { return false };
        let Running { sweep, number, next, end, under_way, stopping, .. } = *running;
        let yields = !matches!(sweep, Sweep::Rebuild { .. }) && self.next_target().is_some();
        if self.sweeps_held() || stopping || yields || under_way >= depth || next >= end {
            return false;
        }
        if self.now < self.sweeps.free_at {
            self.set_sweep_timer(self.sweeps.free_at);
            return false;
        }
        let (at, visit) = self.visit_from(sweep, next, end);
        let running = self.sweeps.current.as_mut().expect("it runs");
        running.next = at + 1;
        let Some(visit) = visit else { return true };
        running.under_way += 1;
        let id = self.new_visit(visit.of_sweep(number, at));
        if matches!(sweep, Sweep::Rebuild { .. }) {
            self.sweeps.current.as_mut().expect("it runs").line.push_back(id);
        }
        self.charge_visit(sweep);
        self.line_up_visit(id);
        true
    }

    /// The next visit of a sweep from `next` on, and where it is; none past the last.
    fn visit_from(&self, sweep: Sweep, next: u64, end: u64) -> (u64, Option<Visit>) {
        let purpose = match sweep {
            Sweep::Rebuild { target } => return self.rebuild_visit(target, next, end),
            Sweep::Resync => Purpose::Resync,
            Sweep::Check => Purpose::Check,
            Sweep::Repair => Purpose::Repair,
        };
        let key = if purpose == Purpose::Resync { self.unsynced.next(next) } else { Some(next) };
        key.map_or((end, None), |key| (key, Some(Visit::of_comparison(key, purpose))))
    }

    fn rebuild_visit(&self, target: MemberIndex, next: u64, end: u64) -> (u64, Option<Visit>) {
        let Some(role) = self.members.role(target) else { return (end, None) };
        let place_of = |strip: u64| {
            let found =
                self.geometry.unit_at(role, MemberLba(strip * u64::from(self.geometry.strip_rows())))?;
            Some((strip, found))
        };
        let Some((at, UnitRow { key, unit, .. })) = (next..end).find_map(place_of) else {
            return (end, None);
        };
        (at, Some(Visit::of_rebuild(key, unit, target)))
    }

    /// Puts the next visit off for as long as the rate bound gives what this one walks over.
    fn charge_visit(&mut self, sweep: Sweep) {
        let Some(rate) = self.config.resilience.sweep_bytes_per_sec else { return };
        let strip = u128::from(u64::from(self.geometry.strip_rows()) * self.geometry.block_bytes());
        let bytes = match sweep {
            Sweep::Rebuild { .. } => strip,
            _ => {
                strip * u128::from(self.geometry.granule_units())
                    / u128::from(self.geometry.layout().member_count())
            }
        };
        let span = NanoSpan((bytes * 1_000_000_000 / u128::from(rate.0)) as u64);
        self.sweeps.free_at = self.sweeps.free_at.max(self.now) + span;
    }

    fn set_sweep_timer(&mut self, at: Nanos) {
        if self.sweeps.timer_at.is_none_or(|set| set > at) {
            self.sweeps.timer_at = Some(at);
            self.outbox.set_timer(SWEEP_TIMER, at);
        }
    }

    /// Counts for the sweep that a visit belongs to; what the host has resynced first counts for the resync.
    pub(crate) fn count_for(&mut self, visit: u32, count: impl FnOnce(&mut SweepCounts)) {
        let Visit { purpose, sweep, .. } = self.visits[visit];
        let Some(running) = &mut self.sweeps.current else { return };
        if running.number == sweep || (purpose == Purpose::SyncFirst && running.sweep == Sweep::Resync) {
            count(&mut running.counts);
        }
    }

    /// Takes in that a visit that compares has ended.
    pub(crate) fn granule_swept(&mut self, number: u32) {
        if let Some(running) = self.sweeps.current.as_mut().filter(|running| running.number == number) {
            running.under_way -= 1;
            running.done += 1;
            running.counts.granules += 1;
        }
    }

    /// Takes in that a visit of the rebuild has ended, and moves the boundary over all that are restored without a gap.
    pub(crate) fn strips_restored(&mut self) {
        while let Some(running) = &mut self.sweeps.current
            && let Some(&visit) = running.line.front()
            && self.visits[visit].end == Some(VisitEnd::Done)
            && self.is_rebuilding(visit)
        {
            let Visit { device, strip_number, .. } = self.visits[visit];
            let running = self.sweeps.current.as_mut().expect("it runs");
            running.line.pop_front();
            running.under_way -= 1;
            running.done = strip_number + 1;
            running.counts.granules += 1;
            self.move_boundary(device, strip_number + 1);
            self.leave_granule(visit);
        }
    }

    /// Moves the boundary to before strip `strips`, and has it written down now and then.
    fn move_boundary(&mut self, target: MemberIndex, strips: u64) {
        let boundary = MemberLba(strips * u64::from(self.geometry.strip_rows()));
        self.members.advance_boundary(target, boundary);
        let Some(running) = &mut self.sweeps.current else { return };
        let is_due = strips >= running.kept + KEPT_STRIPS;
        if self.config.member_cache == MemberCache::Off {
            self.members.keep_boundary(target, boundary);
            if is_due {
                running.kept = strips;
                self.change_state();
            }
        } else if is_due {
            self.flush_boundary(boundary);
        }
    }

    fn flush_boundary(&mut self, boundary: MemberLba) {
        let Some(running) = self.sweeps.current.as_mut().filter(|running| running.flushing == 0) else {
            return;
        };
        let mut devices = core::mem::take(&mut self.member_scratch);
        devices.clear();
        devices.extend(self.members.answering());
        (running.flushing, running.flushed_to) = (devices.len() as u32, boundary);
        running.flush_failed = false;
        let sweep = running.number;
        for &device in &devices {
            self.member_flush(device, IoOwner::BoundaryFlush { sweep });
        }
        self.member_scratch = devices;
    }

    /// Takes in the end of one member flush of a rebuild. After the last, what the target holds below the boundary survives
    /// a power loss, unless its own flush failed.
    pub(crate) fn boundary_flushed(
        &mut self,
        sweep: u32,
        device: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        let strip_rows = u64::from(self.geometry.strip_rows());
        let ours = |running: &&mut Running| running.number == sweep;
        let Some(running) = self.sweeps.current.as_mut().filter(ours) else { return };
        let Sweep::Rebuild { target } = running.sweep else { unreachable!("only a rebuild has a boundary") };
        running.flushing -= 1;
        running.flush_failed |= device == target && result.is_err();
        if running.flushing > 0 || running.flush_failed {
            return;
        }
        let boundary = running.flushed_to;
        running.kept = boundary.0 / strip_rows;
        self.members.keep_boundary(target, boundary);
        self.change_state();
    }

    /// Calls the target in sync when all that it holds would survive a power loss. Returns false if that takes time.
    fn finish_rebuild(&mut self, target: MemberIndex) -> bool {
        let Some(&Running { end, kept, flushing, .. }) = self.sweeps.current.as_ref() else { return false };
        if self.config.member_cache == MemberCache::On && kept < end {
            if flushing == 0 && !self.sweeps_held() {
                // What the layout leaves unused behind the last strip is passed, too.
                let boundary = MemberLba(end * u64::from(self.geometry.strip_rows()));
                self.members.advance_boundary(target, boundary);
                self.flush_boundary(boundary);
            }
            return false;
        }
        // What the layout leaves unused behind the last strip is passed, too.
        self.sweeps.current.as_mut().expect("it runs").done = end;
        let role = self.members.role(target).expect("it is being rebuilt");
        self.members.set_state(target, DeviceState::InSync { role });
        self.change_state();
        // Stripes that lacked what stands here now can be resynced.
        self.sweeps.resync_due = true;
        self.end_sweep(SweepEnd::Through);
        true
    }
}
