//! The background scan: the walk over all stripes for rebuild, resync, check and repair, and read repair beside it.
//!
//! A scan has up to `scan_iodepth` visits under way (`visit.rs`), begun in order of address and under a rate bound. A rebuild
//! walks over the strips of its target, the others over stripes:
//! ```text
//! target    strip 0   1   2   3   4   5   6
//!           passed ───────┤ under way │ not yet begun
//!                      boundary: moves over strips in order; those restored before their turn stay locked
//! ```
//! **One at a time.** A rebuild goes first: a check, repair or resync rests, when what it has under way has ended, and goes
//! on after it. Several rebuilds run one after the other. The operator's scan is refused while any other runs or rests. No
//! scan runs while a device is lost; a rebuild that is broken off by that, or by the loss of its target, has ended.
//!
//! **The boundary** is written down (the superblock is changed) every [`KEPT_STRIPS`] strips and at the end. Where members have
//! caches of their own, that and the end of the rebuild wait for a flush of all members: the target must have what it was
//! given, and the others what that was made of. A write that found no parity to change left no record, so a power loss could
//! take it back from under the parity that was then made of it.
//!
//! **A recovery** tries each bad block once more, at a start, after a rebuild or a repair, and when it is asked for: again from the
//! first if some came back, because others may be made up with them.
//!
//! **The rate bound** counts what is walked over on each member: a strip of the target in a rebuild, else a stripe's units
//! shared out over all members. A share of the time (`slices.rs`) is the scan's alone instead.
//!
//! Left out: locks of stripes and the operations of a visit. The controller lines visits up, carries out their operations
//! and tells how they ended.

mod pace;
mod read_repair;
mod slices;
mod undecided;
mod visit;

pub(crate) use visit::{NextStep, Purpose, StepKind, VisitEnd};

use crate::api::{MemberError, Notice, Scan, ScanCounts, ScanEnd, ScanProgress, TimerId};
use crate::config::{ArrayConfig, MemberCache};
use crate::geometry::{Geometry, UnitRow};
use crate::ids::{LockKey, VisitId};
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::request::Rows;
use crate::table::Slab;
use pace::Pace;
use raidlab_units::{ByteCount, MemberIndex, MemberLba, NanoSpan, Nanos};
use read_repair::ReadRepair;
use slices::Slices;
use std::collections::VecDeque;
use undecided::UndecidedList;
use visit::Visit;

/// The timer for the rate bound.
pub(crate) const SCAN_TIMER: TimerId = TimerId(1);

/// Strips after which the boundary of a rebuild is written down.
const KEPT_STRIPS: u64 = 64;

/// Visits begun with one event; where there is nothing to do they end at once, and others want their turn.
pub(crate) const STARTS_MAX: u32 = 256;

/// Why a scan does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanRefused {
    /// Scans run one at a time.
    #[error("a scan is under way ({scan:?}): wait for its end, or stop it")]
    Busy {
        /// The one that runs, or rests for a rebuild.
        scan: Scan,
    },
    /// Rebuilds and resyncs begin when they are needed.
    #[error("a rebuild or resync can't be asked for: it begins by itself when it is needed")]
    NotOnDemand,
    /// The level keeps nothing to compare, and blocks have no checksums.
    #[error("the level has no redundancy to compare, and the array no block checksums")]
    NoRedundancy,
    /// More members are lost than the level survives.
    #[error("more members are lost than the level survives: start the array again with them first")]
    MembersLost,
}

/// What a scan looks at and changes of the rest of the controller.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) metadata: &'a mut Metadata,
    pub(crate) outbox: &'a mut Outbox,
}

/// What has changed about which scan runs.
#[derive(Debug)]
pub(crate) enum ScanChange {
    Nothing,
    /// One has begun or parked: there may be more to change.
    Begun,
    /// One has ended. Its visits that stood in line behind the boundary; those that have ended leave their stripes.
    Ended(VecDeque<VisitId>),
    /// All members that answer are to be flushed for the scan with this number.
    Flush(u32),
}

/// What came of the attempt to begin a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// No visit may begin now.
    Nothing,
    /// There was nothing to visit up to the end of the scan.
    Passed,
    Visit(VisitId),
}

/// A strip of the target that the boundary has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedStrip {
    /// The visit that restored it, whose stripe is free now.
    pub(crate) visit: VisitId,
    /// The scan for which all members that answer are to be flushed before.
    pub(crate) flush: Option<u32>,
}

/// A scan that has begun.
#[derive(Debug)]
struct Running {
    scan: Scan,
    number: u32,
    /// Strip or stripe to visit next, and the one after the last.
    next: u64,
    end: u64,
    done: u64,
    total: u64,
    under_way: u32,
    /// Visits of a rebuild whose strips the boundary has not passed, in order.
    line: VecDeque<VisitId>,
    counts: ScanCounts,
    /// Strips below the boundary that was written down last.
    kept: u64,
    /// Member flushes under way before the boundary is written down, how far it is then, and whether that of the target
    /// has failed.
    flushing: u32,
    flushed_to: MemberLba,
    flush_failed: bool,
    stopping: bool,
    /// Bad blocks when a recovery began, and when its present walk over them did.
    bad: (u64, u64),
    /// How it makes way for the host, from its first visit on.
    pace: Option<Pace>,
    /// What it walks over between two rests, where it has a share of the time.
    slices: Slices,
}

impl Running {
    const fn progress(&self) -> ScanProgress {
        let Self { number, scan, done, total, counts, .. } = *self;
        ScanProgress { number, scan, done, total, counts }
    }

    /// True unless its target is gone.
    fn has_target(&self, metadata: &Metadata) -> bool {
        let Scan::Rebuild { target } = self.scan else { return true };
        metadata.rebuild_boundary(target).is_some()
    }

    const fn is_on_demand(&self) -> bool {
        matches!(self.scan, Scan::Check | Scan::Repair | Scan::RepairFromData | Scan::Recover)
    }

    /// Begins to flush members, so that the boundary may be written down at `to`. Returns its number unless a flush is under
    /// way.
    fn begin_flush(&mut self, metadata: &Metadata, to: MemberLba) -> Option<u32> {
        if self.flushing > 0 {
            return None;
        }
        (self.flushing, self.flushed_to) = (metadata.answering().count() as u32, to);
        self.flush_failed = false;
        Some(self.number)
    }
}

/// All about the background scan.
#[derive(Debug)]
pub(crate) struct BackgroundScan {
    current: Option<Running>,
    /// Rests until the rebuilds are over.
    parked: Option<Running>,
    last_number: u32,
    visits: Slab<Visit, VisitId>,
    undecided: UndecidedList,
    /// Rows that the latest check found wrong.
    wrong_rows: u64,
    read_repair: ReadRepair,
    due: Due,
    /// Changes of membership that have been looked at.
    seen_membership: u64,
    /// Scans rest while the array starts and stops.
    is_held: bool,
    /// The rate bound lets no visit begin before this.
    free_at: Nanos,
    timer_at: Option<Nanos>,
    settings: Settings,
}

/// What is due.
#[derive(Debug)]
struct Due {
    /// Something has changed that may begin or end a scan.
    look: bool,
    /// Stripes are out of sync, or can be resynced now, since a resync looked at all.
    resync: bool,
    /// Bad blocks are to be tried once more.
    recovery: bool,
}

/// What the configuration says about it.
#[derive(Debug)]
struct Settings {
    /// Most bytes that are walked over on each member in a second.
    bytes_per_sec: Option<ByteCount>,
    /// Visits at once.
    iodepth: u32,
    /// Strips of a device.
    strips_each: u64,
    member_cache: MemberCache,
    has_checksums: bool,
    /// Above this rate a scan makes way for the host, where that is followed.
    floor: Option<ByteCount>,
    /// Percent of the time that scans have, where that is bounded.
    share_pct: Option<u8>,
}

impl BackgroundScan {
    /// The scan of an array whose devices have `strips_each` strips.
    pub(crate) fn new(config: &ArrayConfig, strips_each: u64) -> Self {
        Self {
            current: None,
            parked: None,
            last_number: 0,
            visits: Slab::new(),
            undecided: UndecidedList::default(),
            wrong_rows: 0,
            read_repair: ReadRepair::default(),
            due: Due { look: true, resync: false, recovery: false },
            seen_membership: 0,
            is_held: false,
            free_at: Nanos::ZERO,
            timer_at: None,
            settings: Settings {
                bytes_per_sec: config.resilience.scan_bytes_per_sec,
                iodepth: config.resilience.scan_iodepth.max(1),
                strips_each,
                member_cache: config.member_cache,
                has_checksums: config.resilience.integrity,
                floor: config.cache.rules.scan_floor,
                share_pct: config.cache.rules.scan_share_pct,
            },
        }
    }

    /// How far the scan is that runs, or rests.
    pub(crate) fn progress(&self) -> Option<ScanProgress> {
        self.current.as_ref().or(self.parked.as_ref()).map(Running::progress)
    }

    /// How far the check, repair or resync is that waits until the rebuild that runs is over.
    pub(crate) fn parked_progress(&self) -> Option<ScanProgress> {
        self.current.as_ref().and(self.parked.as_ref()).map(Running::progress)
    }

    /// True when something has changed that may begin or end a scan.
    #[inline]
    pub(crate) const fn is_due(&self, metadata: &Metadata) -> bool {
        self.due.look || self.seen_membership != metadata.membership_changes()
    }

    /// True when there is nothing to look at, and nothing to go on with.
    #[inline]
    pub(crate) fn is_quiet(&self, metadata: &Metadata) -> bool {
        !self.is_due(metadata) && self.current.is_none() && self.read_repair.is_empty()
    }

    /// True while scans rest: at a start, at a stop, and under a rate bound of 0.
    fn rests(&self) -> bool {
        self.is_held || self.settings.bytes_per_sec == Some(ByteCount::ZERO)
    }

    /// True in a slice of a scan that has a share of the time: the host waits for its end.
    pub(crate) fn holds_host(&self) -> bool {
        self.settings.share_pct.is_some()
            && self.current.as_ref().is_some_and(|running| running.under_way > 0)
    }

    /// True when nothing is under way here.
    pub(crate) fn is_idle(&self) -> bool {
        let rests = |running: &Running| self.rests() && running.under_way == 0 && running.flushing == 0;
        self.read_repair.is_empty() && self.current.as_ref().is_none_or(rests)
    }

    /// Lets scans rest.
    pub(crate) const fn hold(&mut self) {
        self.is_held = true;
    }

    /// Lets scans go on, unless they are `held` for another reason.
    pub(crate) const fn release(&mut self, held: bool) {
        (self.is_held, self.due.look) = (held, true);
    }

    /// Takes in that stripes are out of sync that a resync may not have looked at.
    pub(crate) const fn note_out_of_sync(&mut self) {
        (self.due.resync, self.due.look) = (true, true);
    }

    /// Has bad blocks tried once more when nothing else is due.
    pub(crate) const fn note_recovery(&mut self) {
        (self.due.recovery, self.due.look) = (true, true);
    }

    /// Begins a check, a repair or a recovery.
    ///
    /// # Errors
    /// [`ScanRefused`] while another scan runs, and where it can't be.
    pub(crate) fn ask(
        &mut self,
        geometry: &Geometry,
        metadata: &Metadata,
        scan: Scan,
        outbox: &mut Outbox,
    ) -> Result<(), ScanRefused> {
        if matches!(scan, Scan::Rebuild { .. } | Scan::Resync) {
            return Err(ScanRefused::NotOnDemand);
        }
        let has_any = geometry.is_redundant() || self.settings.has_checksums;
        if !has_any && scan != Scan::Recover {
            return Err(ScanRefused::NoRedundancy);
        }
        if metadata.any_lost() {
            return Err(ScanRefused::MembersLost);
        }
        if let Some(ScanProgress { scan, .. }) = self.progress() {
            return Err(ScanRefused::Busy { scan });
        }
        if scan == Scan::Recover {
            self.begin_recovery(metadata, outbox);
        } else {
            let end = geometry.lock_count();
            self.undecided.clear();
            self.wrong_rows = 0;
            self.begin(scan, (0, end), end, outbox);
        }
        Ok(())
    }

    /// Bounds the rate from here on. The next visit may begin at once.
    pub(crate) fn set_rate(&mut self, now: Nanos, bytes_per_sec: Option<ByteCount>, outbox: &mut Outbox) {
        self.settings.bytes_per_sec = bytes_per_sec;
        self.free_at = now;
        self.due.look = true;
        if self.timer_at.take().is_some() {
            self.set_timer(now, outbox);
        }
    }

    /// Ends the check or repair that runs or is parked, and returns which it is.
    pub(crate) fn stop(&mut self, outbox: &mut Outbox) -> Option<Scan> {
        if let Some(running) = self.current.as_mut().filter(|running| running.is_on_demand()) {
            running.stopping = true;
            return Some(running.scan);
        }
        let parked = self.parked.take_if(|running| running.is_on_demand())?;
        outbox.notify(Notice::ScanEnded { progress: parked.progress(), end: ScanEnd::Stopped });
        Some(parked.scan)
    }

    /// Takes in that the rate bound lets the next visit begin.
    pub(crate) const fn timer_due(&mut self) {
        self.timer_at = None;
    }

    /// Asks to be called at `at`, unless that is asked for already.
    pub(crate) fn set_timer(&mut self, at: Nanos, outbox: &mut Outbox) {
        if self.timer_at.is_none_or(|set| set > at) {
            self.timer_at = Some(at);
            outbox.set_timer(SCAN_TIMER, at);
        }
    }

    /// Takes in what has changed. Returns the line of a rebuild that is broken off because its target has left: one that
    /// answers again begins anew.
    pub(crate) fn look(&mut self, metadata: &Metadata, outbox: &mut Outbox) -> Option<VecDeque<VisitId>> {
        self.due.look = false;
        self.seen_membership = metadata.membership_changes();
        let is_targetless = |running: &Running| !running.has_target(metadata);
        let ends = self.current.as_ref().is_some_and(is_targetless);
        if ends { self.end(ScanEnd::BrokenOff, outbox) } else { None }
    }

    /// Begins, breaks off, parks or ends a scan, if that is due.
    pub(crate) fn change(&mut self, around: &mut Surroundings<'_>) -> ScanChange {
        let Surroundings { metadata, outbox, .. } = around;
        if metadata.any_lost()
            && let Some(parked) = self.parked.take()
        {
            outbox.notify(Notice::ScanEnded { progress: parked.progress(), end: ScanEnd::BrokenOff });
        }
        let Some(running) = &self.current else { return self.begin_next(around) };
        if metadata.any_lost() || !running.has_target(metadata) {
            return self.ended(ScanEnd::BrokenOff, outbox);
        }
        if running.under_way > 0 {
            return ScanChange::Nothing;
        }
        let Running { scan, stopping, next, end, .. } = *running;
        let is_over = next >= end;
        match scan {
            Scan::Rebuild { target } if is_over => self.finish_rebuild(target, around),
            Scan::Rebuild { .. } => ScanChange::Nothing,
            Scan::Recover if is_over && !stopping && self.recovers_more(metadata) => ScanChange::Begun,
            scan if is_over || stopping => {
                match scan {
                    Scan::Resync => metadata.note_if_all_in_sync(),
                    // It compares nothing where a member is missing.
                    Scan::Repair if is_over => self.due.recovery = true,
                    Scan::Recover => self.count_recovered(metadata),
                    _ => {}
                }
                self.ended(if is_over { ScanEnd::Through } else { ScanEnd::Stopped }, outbox)
            }
            scan if self.next_target(metadata).is_some() => {
                self.parked = self.current.take();
                outbox.notify(Notice::ScanParked { scan });
                ScanChange::Begun
            }
            _ => ScanChange::Nothing,
        }
    }

    /// The device that a rebuild is due for.
    fn next_target(&self, metadata: &Metadata) -> Option<MemberIndex> {
        metadata.rebuild_target().filter(|_| !self.rests())
    }

    fn begin_next(&mut self, around: &mut Surroundings<'_>) -> ScanChange {
        let Surroundings { geometry, metadata, outbox } = around;
        if self.rests() || metadata.any_lost() {
            return ScanChange::Nothing;
        }
        if let Some(target) = self.next_target(metadata) {
            let boundary = metadata.rebuild_boundary(target).expect("a target is being rebuilt");
            let first = boundary.0 / u64::from(geometry.strip_rows());
            let end = self.settings.strips_each;
            self.begin(Scan::Rebuild { target }, (first, end), end, outbox);
        } else if let Some(parked) = self.parked.take() {
            outbox.notify(Notice::ScanResumed { scan: parked.scan });
            self.current = Some(parked);
        } else if core::mem::take(&mut self.due.resync) && metadata.any_out_of_sync() {
            self.begin(Scan::Resync, (0, geometry.lock_count()), metadata.out_of_sync_count(), outbox);
        } else if core::mem::take(&mut self.due.recovery) && metadata.any_bad() {
            self.begin_recovery(metadata, outbox);
        } else {
            return ScanChange::Nothing;
        }
        ScanChange::Begun
    }

    fn begin_recovery(&mut self, metadata: &Metadata, outbox: &mut Outbox) {
        let bad = metadata.bad_count();
        self.begin(Scan::Recover, (0, u64::MAX), bad, outbox);
        if let Some(running) = &mut self.current {
            running.bad = (bad, bad);
        }
    }

    /// Lets a recovery walk over the bad blocks once more if some have come back: with them others may be made up.
    fn recovers_more(&mut self, metadata: &Metadata) -> bool {
        let Some(running) = &mut self.current else { return false };
        let bad = metadata.bad_count();
        let more = bad > 0 && bad < running.bad.1;
        if more {
            (running.next, running.done, running.total, running.bad.1) = (0, 0, bad, bad);
        }
        more
    }

    fn count_recovered(&mut self, metadata: &Metadata) {
        if let Some(running) = &mut self.current {
            running.counts.recovered_rows = running.bad.0.saturating_sub(metadata.bad_count());
            running.done = running.total;
        }
    }

    fn begin(&mut self, scan: Scan, (next, end): (u64, u64), total: u64, outbox: &mut Outbox) {
        self.last_number += 1;
        self.current = Some(Running {
            scan,
            number: self.last_number,
            next,
            end,
            done: next,
            total,
            under_way: 0,
            line: VecDeque::new(),
            counts: ScanCounts::default(),
            kept: next,
            flushing: 0,
            flushed_to: MemberLba::ZERO,
            flush_failed: false,
            stopping: false,
            bad: (0, 0),
            pace: None,
            slices: Slices::default(),
        });
        outbox.notify(Notice::ScanStarted { scan });
    }

    /// Ends the scan that runs, and returns its line. Visits that it still has under way belong to none.
    fn end(&mut self, end: ScanEnd, outbox: &mut Outbox) -> Option<VecDeque<VisitId>> {
        let running = self.current.take()?;
        outbox.notify(Notice::ScanEnded { progress: running.progress(), end });
        self.due.look = true;
        Some(running.line)
    }

    fn ended(&mut self, end: ScanEnd, outbox: &mut Outbox) -> ScanChange {
        self.end(end, outbox).map_or(ScanChange::Nothing, ScanChange::Ended)
    }

    /// Begins one more visit, if the depth, the rate bound and the host, which has made so many requests, allow it.
    pub(crate) fn begin_visit(
        &mut self,
        now: Nanos,
        host_requests: u64,
        geometry: &Geometry,
        metadata: &Metadata,
        outbox: &mut Outbox,
    ) -> Begun {
        let Some(running) = &self.current else { return Begun::Nothing };
        let Running { scan, number, next, end, under_way, stopping, .. } = *running;
        let yields = !matches!(scan, Scan::Rebuild { .. }) && self.next_target(metadata).is_some();
        if self.rests() || stopping || yields || under_way >= self.settings.iodepth || next >= end {
            return Begun::Nothing;
        }
        if !self.has_slice(now, under_way) {
            return Begun::Nothing;
        }
        if now < self.free_at {
            self.set_timer(self.free_at, outbox);
            return Begun::Nothing;
        }
        if !self.makes_no_way(now, host_requests, visit_bytes(geometry, scan)) {
            return Begun::Nothing;
        }
        let (at, visit) = visit_from(geometry, metadata, scan, next..end);
        let running = self.current.as_mut().expect("it runs");
        running.next = at + 1;
        let Some(visit) = visit else { return Begun::Passed };
        running.under_way += 1;
        let id = self.keep_visit(visit.of_scan(number, at));
        if matches!(scan, Scan::Rebuild { .. }) {
            self.current.as_mut().expect("it runs").line.push_back(id);
        }
        self.charge(now, geometry, scan);
        Begun::Visit(id)
    }

    /// True unless the slice that the scan is in has all its visits. When these have ended, it rests.
    fn has_slice(&mut self, now: Nanos, under_way: u32) -> bool {
        let Some(share_pct) = self.settings.share_pct else { return true };
        let slices = &mut self.current.as_mut().expect("it runs").slices;
        if slices.has_room() {
            return true;
        }
        if under_way > 0 {
            return false;
        }
        self.free_at = self.free_at.max(slices.end(now, share_pct));
        true
    }

    /// True unless the scan has to make way for the host.
    fn makes_no_way(&mut self, now: Nanos, host_requests: u64, visit_bytes: u64) -> bool {
        let Some(floor) = self.settings.floor else { return true };
        let running = self.current.as_mut().expect("it runs");
        let under_way = ByteCount(u64::from(running.under_way) * visit_bytes);
        let pace = running.pace.get_or_insert_with(|| Pace::new(now));
        pace.may_go_on(now, floor, under_way, host_requests)
    }

    /// Puts the next visit off for as long as the rate bound gives what this one walks over.
    fn charge(&mut self, now: Nanos, geometry: &Geometry, scan: Scan) {
        let bytes = visit_bytes(geometry, scan);
        if let Some(running) = &mut self.current {
            running.slices.walk(now, bytes);
            if let Some(pace) = &mut running.pace {
                pace.walk(bytes);
            }
        }
        let Some(rate) = self.settings.bytes_per_sec else { return };
        let span = NanoSpan((u128::from(bytes) * 1_000_000_000 / u128::from(rate.0)) as u64);
        self.free_at = self.free_at.max(now) + span;
    }

    /// True for the number of the scan that runs.
    fn is_current(&self, number: u32) -> bool {
        self.current.as_ref().is_some_and(|running| running.number == number)
    }

    /// Counts for the scan that a visit belongs to; what the host has resynced first counts for the resync.
    pub(crate) fn count(&mut self, visit: VisitId, count: impl FnOnce(&mut ScanCounts)) {
        let (purpose, scan) = self.visits[visit].belongs_to();
        let Some(running) = &mut self.current else { return };
        if running.number == scan || (purpose == Purpose::SyncFirst && running.scan == Scan::Resync) {
            count(&mut running.counts);
        }
    }

    /// Takes in that a visit that compares has ended.
    fn stripe_compared(&mut self, number: u32) {
        if let Some(running) = self.current.as_mut().filter(|running| running.number == number) {
            running.under_way -= 1;
            running.done += 1;
            running.counts.stripes += 1;
        }
    }

    /// Moves the boundary of the rebuild over the next strip, if that has been restored, and has the boundary written down now
    /// and then.
    pub(crate) fn pass_strip(&mut self, geometry: &Geometry, metadata: &mut Metadata) -> Option<PassedStrip> {
        let &visit = self.current.as_ref()?.line.front()?;
        if !self.visits[visit].is_done() || !self.is_rebuilding(metadata, visit) {
            return None;
        }
        let (target, strip) = self.visits[visit].restored_strip();
        let strips = strip + 1;
        let running = self.current.as_mut()?;
        running.line.pop_front();
        running.under_way -= 1;
        running.done = strips;
        running.counts.stripes += 1;
        let boundary = MemberLba(strips * u64::from(geometry.strip_rows()));
        metadata.advance_boundary(target, boundary);
        let is_due = strips >= running.kept + KEPT_STRIPS;
        let mut flush = None;
        if self.settings.member_cache == MemberCache::Off {
            metadata.keep_boundary(target, boundary);
            if is_due {
                running.kept = strips;
                metadata.change();
            }
        } else if is_due {
            flush = running.begin_flush(metadata, boundary);
        }
        Some(PassedStrip { visit, flush })
    }

    /// Takes in the end of one member flush of a rebuild. After the last, what the target holds below the boundary survives
    /// a power loss, unless its own flush failed.
    pub(crate) fn boundary_flushed(
        &mut self,
        geometry: &Geometry,
        metadata: &mut Metadata,
        (number, device): (u32, MemberIndex),
        result: Result<(), MemberError>,
    ) {
        let Some(running) = self.current.as_mut().filter(|running| running.number == number) else { return };
        let Scan::Rebuild { target } = running.scan else { unreachable!("only a rebuild has a boundary") };
        running.flushing -= 1;
        running.flush_failed |= device == target && result.is_err();
        if running.flushing > 0 || running.flush_failed {
            return;
        }
        let boundary = running.flushed_to;
        running.kept = boundary.0 / u64::from(geometry.strip_rows());
        metadata.keep_boundary(target, boundary);
        metadata.change();
    }

    /// Calls the target in sync when all that it holds would survive a power loss.
    fn finish_rebuild(&mut self, target: MemberIndex, around: &mut Surroundings<'_>) -> ScanChange {
        let Surroundings { geometry, metadata, outbox } = around;
        let rests = self.rests();
        let Some(running) = &mut self.current else { return ScanChange::Nothing };
        if self.settings.member_cache == MemberCache::On && running.kept < running.end {
            if running.flushing > 0 || rests {
                return ScanChange::Nothing;
            }
            // What the layout leaves unused behind the last strip is passed, too.
            let boundary = MemberLba(running.end * u64::from(geometry.strip_rows()));
            metadata.advance_boundary(target, boundary);
            return running.begin_flush(metadata, boundary).map_or(ScanChange::Nothing, ScanChange::Flush);
        }
        // What the layout leaves unused behind the last strip is passed, too.
        running.done = running.end;
        metadata.finish_rebuild(target);
        // Stripes that lacked what stands here now can be resynced, and bad blocks may be made up with it.
        (self.due.resync, self.due.recovery) = (true, true);
        self.ended(ScanEnd::Through, outbox)
    }
}

/// What a visit walks over on each member.
fn visit_bytes(geometry: &Geometry, scan: Scan) -> u64 {
    let strip = u64::from(geometry.strip_rows()) * geometry.block_bytes();
    if let Scan::Rebuild { .. } = scan {
        return strip;
    }
    let units = u128::from(strip) * u128::from(geometry.lock_units());
    (units / u128::from(geometry.layout().member_count())) as u64
}

/// The next visit of a scan among `range`, and where it is; none past the last.
fn visit_from(
    geometry: &Geometry,
    metadata: &Metadata,
    scan: Scan,
    range: core::ops::Range<u64>,
) -> (u64, Option<Visit>) {
    let purpose = match scan {
        Scan::Rebuild { target } => return rebuild_visit(geometry, metadata, target, range),
        Scan::Resync => Purpose::Resync,
        Scan::Check => Purpose::Check,
        Scan::Repair => Purpose::Repair,
        Scan::RepairFromData => Purpose::RepairFromData,
        Scan::Recover => return recovery_visit(geometry, metadata, range),
    };
    let next = LockKey(range.start);
    let key = if purpose == Purpose::Resync { metadata.next_out_of_sync(next) } else { Some(next) };
    key.map_or((range.end, None), |key| (key.0, Some(Visit::of_comparison(key, purpose))))
}

/// The next bad blocks in one strip. A walk over them counts device by device, in blocks of 48 bits.
fn recovery_visit(
    geometry: &Geometry,
    metadata: &Metadata,
    range: core::ops::Range<u64>,
) -> (u64, Option<Visit>) {
    let (end, mut at) = (range.end, range.start);
    let place = |device: MemberIndex, lba: u64| (u64::from(device.0) << 48) + lba;
    while let Some((device, first, count)) =
        metadata.next_bad(MemberIndex((at >> 48) as u16), MemberLba(at & ((1 << 48) - 1)))
    {
        let found = metadata.role(device).and_then(|role| geometry.unit_at(role, first));
        if let Some(UnitRow { key, unit, row }) = found {
            let rows = Rows { first: row, count: count.min(u64::from(geometry.strip_rows() - row)) as u32 };
            let last = place(device, first.0 + u64::from(rows.count) - 1);
            return (last, Some(Visit::of_recovery((key, unit), device, rows)));
        }
        at = place(device, first.0 + count);
    }
    (end - 1, None)
}

fn rebuild_visit(
    geometry: &Geometry,
    metadata: &Metadata,
    target: MemberIndex,
    mut range: core::ops::Range<u64>,
) -> (u64, Option<Visit>) {
    let end = range.end;
    let Some(role) = metadata.role(target) else { return (end, None) };
    let place_of = |strip: u64| {
        let found = geometry.unit_at(role, MemberLba(strip * u64::from(geometry.strip_rows())))?;
        Some((strip, found))
    };
    let Some((at, UnitRow { key, unit, .. })) = range.find_map(place_of) else { return (end, None) };
    (at, Some(Visit::of_rebuild(key, unit, target)))
}

#[cfg(test)]
mod tests;
