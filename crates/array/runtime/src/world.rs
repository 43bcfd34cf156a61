//! The event loop: one thread that turns requests, completions and timers into the controller's events, and its
//! actions into member I/O and work on memory.
//!
//! One turn:
//! ```text
//! clock ─► completions of members, timers due ─► actions ─► clock ─► tell the host, ask it for requests ─► actions
//!   ▲                                                                                                        │
//!   └────────────── submit; wait for a completion, the next timer or the host's time ◄───────────────────────┘
//! ```
//! The clock is read twice per turn, before the members' completions and before the host's, so that the time spent on
//! parity in between is part of the host's latency.
//!
//! With the members' caches configured off, every member write is durable on completion (`RWF_DSYNC`, or a flush behind
//! it): that is what "off" promises, whatever cache the device under the file has.

use crate::begin::Parts;
use crate::command::Commands;
use crate::error::{ArrayError, RingError};
use crate::events::{Event, EventLevel, Kind};
use crate::host::{HostPort, ScriptHost, ScriptOp};
use crate::member_io::MemberPort;
use crate::memory::Memory;
use crate::panic::AbortOnPanic;
use crate::ring::{Done, ENTRIES_PER_BATCH, Owner, Ring};
use crate::serving::{ForHost, HostFront, Served, serve_until_finished};
use crate::status::Tally;
use crate::workers::{Finished, Workers};
use raidlab_controller::{
    Action, Controller, Counters, DeviceState, HostRequest, MemberCache, MemberIo, MemberOp, MemoryKind,
    MemorySteps, MemoryTask, Notice, Scan, Segment, TimerId,
};
use raidlab_format::ArrayName;
use raidlab_raid::FailuresSurvived;
use raidlab_units::{BlockCount, BlockSize, ByteCount, NanoSpan, Nanos};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait before the request to stop is looked at.
const PATIENCE: NanoSpan = NanoSpan::from_millis(50);
/// Longest wait at a stop until the devices were looked at.
const LOOK_PATIENCE: NanoSpan = NanoSpan::from_millis(5000);
/// How often it is looked whether something that was counted is to be told.
const EVENTS_EVERY: NanoSpan = NanoSpan::from_millis(100);
/// Notices that are kept.
const NOTICES_MAX: usize = 1024;

/// A real array: a controller over real devices. It stays on the thread that made it.
///
/// Dropped without [`ArrayWorld::stop`] it is left as after a crash: what was acknowledged is kept as far as its settings
/// promise, and the next start goes on from there.
#[derive(Debug)]
pub struct ArrayWorld {
    // Dropped first: it waits for all I/O on the memory below.
    pub(crate) ring: Ring,
    pub(crate) members: MemberPort,
    front: HostFront,
    // Dropped before the memory that its jobs are on.
    workers: Workers,
    pub(crate) memory: Memory,
    // Its own memory is a part of that above, and stays where I/O is left to the kernel.
    pub(crate) controller: ManuallyDrop<Controller>,
    pub(crate) name: ArrayName,
    block_size: BlockSize,
    member_cache: MemberCache,
    /// When each timer is due, by its id.
    timers: Vec<Nanos>,
    /// Requests by their tags, while they are in flight.
    requests: Vec<Option<HostRequest>>,
    /// I/Os that wait until memory has been moved.
    held: VecDeque<MemberIo>,
    pub(crate) tally: Tally,
    pub(crate) notices: VecDeque<Notice>,
    is_stopped: bool,
    pub(crate) commands: Commands,
    /// When it is looked at events again.
    events_at: Nanos,
    /// The last wait was left out.
    left_out: bool,
    // Tables that serve every turn, so that none allocates.
    done: Vec<Done>,
    segments: Vec<Segment>,
    steps: MemorySteps,
    digests: Vec<u32>,
}

impl Drop for ArrayWorld {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // The ring waits for all entries, and servers may be silent for ever.
        self.members.hang_up();
        if self.ring.quiesce_within(Some(self.members.patience_at_end())) {
            // SAFETY: it is used no more: what is dropped after this is memory that only names addresses in it.
            unsafe { ManuallyDrop::drop(&mut self.controller) };
        } else {
            self.members.leak();
            self.memory.leak();
        }
    }
}

impl ArrayWorld {
    /// Puts a world around a controller and its devices.
    pub(crate) fn of_parts(parts: Parts) -> Self {
        let Parts { ring, members, workers, memory, controller, name, commands, tally } = parts;
        Self {
            ring,
            members,
            front: HostFront::default(),
            workers,
            memory,
            name,
            block_size: controller.config().block_size,
            member_cache: controller.config().member_cache,
            controller: ManuallyDrop::new(controller),
            timers: Vec::new(),
            requests: Vec::new(),
            held: VecDeque::new(),
            tally,
            notices: VecDeque::new(),
            is_stopped: false,
            commands,
            done: Vec::new(),
            events_at: Nanos::ZERO,
            left_out: false,
            segments: Vec::new(),
            steps: MemorySteps::default(),
            digests: Vec::new(),
        }
    }

    /// Waits until what a crash left is on the members and the host is served. A host may ask before; it is answered then.
    ///
    /// # Errors
    /// [`ArrayError::NotServing`] when devices failed meanwhile and it will never be, [`ArrayError::Cancelled`], or a
    /// failing ring.
    pub fn await_serving(&mut self, cancel: &AtomicBool) -> Result<(), ArrayError> {
        self.run_until(cancel, |world| world.controller.is_serving())
    }

    /// Stops the array cleanly: everything reaches the devices, and they know that they agree. Commands are answered
    /// meanwhile, those to stop when it is done.
    ///
    /// # Errors
    /// [`ArrayError::NotServing`] when devices failed meanwhile, [`ArrayError::Cancelled`], or a failing ring. The array is
    /// then as after a crash. [`ArrayError::WritesLost`]: it is stopped, but not all that was acknowledged is on its devices.
    pub fn stop(&mut self, cancel: &AtomicBool) -> Result<(), ArrayError> {
        self.is_stopped = false;
        self.commands.is_stopping = true;
        self.look_before_stop(cancel)?;
        let now = self.now();
        self.controller.handle_stop(now);
        self.run_actions(now)?;
        let lost = |world: &Self| world.controller.untold_loss().map(|lba| ArrayError::WritesLost { lba });
        let stopped = self.run_until(cancel, |world| world.is_stopped);
        let stopped = stopped.and_then(|()| lost(self).map_or(Ok(()), Err));
        self.end_line(&stopped);
        stopped
    }

    /// Has the devices looked at before states are written over what they hold: one that was put back to an earlier copy would count as in
    /// sync from then on. A device that does not answer in time is not looked at.
    fn look_before_stop(&mut self, cancel: &AtomicBool) -> Result<(), ArrayError> {
        if !self.controller.is_serving() {
            return Ok(());
        }
        let _guard = AbortOnPanic;
        self.look_at_copies()?;
        let until = self.now() + LOOK_PATIENCE;
        while self.commands.is_looking && self.now() < until && !cancel.load(Ordering::Relaxed) {
            self.wait(self.now(), Nanos::FAR_FUTURE)?;
            self.take_in_members()?;
            self.hear_operator()?;
        }
        Ok(())
    }

    /// Turns the loop without a host until `is_there`.
    fn run_until(&mut self, cancel: &AtomicBool, is_there: impl Fn(&Self) -> bool) -> Result<(), ArrayError> {
        let _guard = AbortOnPanic;
        loop {
            self.take_in_members()?;
            self.hear_operator()?;
            if is_there(self) {
                return Ok(());
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(ArrayError::Cancelled);
            }
            let waits = self.timers.iter().any(|at| *at < Nanos::FAR_FUTURE);
            let idle = self.commands.in_flight() + self.members.idle_entries();
            let works = self.members.has_news() || self.members.waits_for_room() || self.workers.out() > 0;
            if !waits && self.ring.in_flight() == idle && !works {
                let reason = "too many devices failed on the way; the log says which".to_owned();
                return Err(ArrayError::NotServing { reason });
            }
            self.wait(self.now(), Nanos::FAR_FUTURE)?;
        }
    }

    /// Serves `port` until it is finished, or an operator wants the array to stop ([`ArrayWorld::is_to_stop`]), and nothing
    /// of it is in flight. What the controller does on its own, such as destaging, may go on afterwards:
    /// [`ArrayWorld::drain`] waits for that, [`ArrayWorld::stop`] ends it.
    ///
    /// # Errors
    /// [`ArrayError::Cancelled`] when `cancel` is set: nothing of the port is in flight then. Otherwise no memory for
    /// the port's buffers, or a failing ring.
    pub fn serve<P: HostPort + ?Sized>(
        &mut self,
        port: &mut P,
        cancel: &AtomicBool,
    ) -> Result<(), ArrayError> {
        let needs = port.needs();
        self.memory.provide_host(needs.slots, needs.slot_bytes.get(), &mut self.ring)?;
        let _guard = AbortOnPanic;
        let served = serve_until_finished(self, port, cancel);
        self.front.end_entries(&mut self.ring, &mut self.done);
        if served? { Err(ArrayError::Cancelled) } else { Ok(()) }
    }

    /// Writes all dirty blocks to the members and makes them durable. Returns how long it took.
    ///
    /// # Errors
    /// [`ArrayError::DrainFailed`] if too few members are left to hold the data, [`ArrayError::Cancelled`], or a
    /// failing ring.
    pub fn drain(&mut self, cancel: &AtomicBool) -> Result<NanoSpan, ArrayError> {
        let _guard = AbortOnPanic;
        let start = self.now();
        self.controller.handle_destage_all(start);
        self.run_actions(start)?;
        while !self.controller.is_idle() {
            if cancel.load(Ordering::Relaxed) {
                return Err(ArrayError::Cancelled);
            }
            self.wait(self.now(), Nanos::FAR_FUTURE)?;
            self.take_in_members()?;
        }
        let mut flush = ScriptHost::new(vec![ScriptOp::Flush], self.block_size, 1);
        self.serve(&mut flush, cancel)?;
        for result in flush.into_results().into_iter().flatten() {
            result.map_err(ArrayError::DrainFailed)?;
        }
        Ok(self.now() - start)
    }

    /// Whether an operator wants the array to stop; [`ArrayWorld::stop`] does it.
    pub const fn is_to_stop(&self) -> bool {
        self.commands.is_stopping
    }

    /// What people call the array.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Length of a block.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// What each device is to the array, members first, then spares.
    pub fn device_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.controller.device_states()
    }

    /// Size of the volume in blocks.
    pub fn volume_blocks(&self) -> BlockCount {
        self.controller.volume_blocks()
    }

    /// Size of the volume in bytes.
    pub fn volume_bytes(&self) -> ByteCount {
        self.block_size.bytes_of(self.controller.volume_blocks())
    }

    /// How many members may fail.
    pub fn failures_survived(&self) -> FailuresSurvived {
        self.controller.failures_survived()
    }

    /// What the controller counted since it was made.
    pub fn counters(&self) -> Counters {
        self.controller.counters()
    }

    /// What happened to the array since it was started or since the last run; only the latest are kept.
    pub fn notices(&self) -> impl Iterator<Item = Notice> + '_ {
        self.notices.iter().copied()
    }

    /// Whether member I/O works on registered buffers; where `RLIMIT_MEMLOCK` is too low it costs more per I/O.
    pub fn has_registered_buffers(&self) -> bool {
        self.memory.is_registered()
    }

    /// Tasks that parity threads have done since the start.
    pub const fn parity_thread_tasks(&self) -> u64 {
        self.workers.done()
    }

    /// Entries of members' I/O that threads beside the array's own have done since the start.
    pub fn io_thread_entries(&self) -> u64 {
        self.ring.io_thread_entries()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.ring.now()
    }

    /// Hands the controller the ends of member I/Os and the timers that are due, and does what follows.
    fn take_in_members(&mut self) -> Result<(), RingError> {
        let now = self.now();
        self.ring.reap(&mut self.done);
        for done in self.done.drain(..) {
            match done.owner {
                Owner::Member => {
                    if let Some(end) = self.members.take(done, &mut self.ring)? {
                        self.controller.handle_member_completion(now, end.id, end.result);
                    }
                }
                Owner::Port => self.front.take_entry(done),
                Owner::Line => self.commands.take(done.number),
                Owner::Link => self.members.take_link(now, done, &mut self.ring)?,
                Owner::Cancel => {}
            }
        }
        self.take_in_workers(now);
        self.members.look(now, &mut self.ring)?;
        self.part_from_hung(now)?;
        while let Some(end) = self.members.poll_end() {
            self.controller.handle_member_completion(now, end.id, end.result);
        }
        while let Some(member) = self.members.poll_loss() {
            self.controller.handle_member_loss(now, member);
        }
        for index in 0..self.timers.len() {
            if self.timers[index] <= now {
                self.timers[index] = Nanos::FAR_FUTURE;
                self.controller.handle_timer(now, TimerId(index as u32));
            }
        }
        self.run_actions(now)?;
        if now >= self.events_at { self.look_after_events(now) } else { Ok(()) }
    }

    /// Tells what was counted, and does what waits for the devices' state to be kept.
    #[inline(never)]
    fn look_after_events(&mut self, now: Nanos) -> Result<(), RingError> {
        self.events_at = now + EVENTS_EVERY;
        for member in self.members.members() {
            let (errors, waits) = (self.members.take_new_errors(member), self.members.take_new_waits(member));
            let number = member.0;
            let counted = [
                (errors, Kind::DeviceErrors, format!("{errors} I/Os of device {number} failed")),
                (
                    waits,
                    Kind::NoRoom,
                    format!("{waits} writes wait for room on device {number}: its disk is full"),
                ),
            ];
            for (count, kind, text) in counted.into_iter().filter(|(count, ..)| *count > 0) {
                let path = self.members.path(member).map(|path| path.display().to_string());
                let event = Event::new(kind, EventLevel::Warn, text);
                self.tally.chronicle.tell(now, event.of_device(member, path).with_count(count));
            }
        }
        self.tally.chronicle.poll(now);
        self.renew_states(now)
    }

    /// Does all actions that the controller has.
    pub(crate) fn run_actions(&mut self, now: Nanos) -> Result<(), RingError> {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => self.issue(now, io)?,
                Action::Memory(task) => self.run_task(now, task),
                Action::Complete(completion) => {
                    self.memory.host.end(completion.tag);
                    let request = self.requests[completion.tag.0 as usize].take();
                    let request = request.expect("only requests in flight are completed");
                    self.tally.count(&request, completion.result.is_ok(), self.block_size);
                    self.front.complete(completion);
                }
                Action::Timer { id, at } => self.set_timer(id, at),
                Action::Keep(keep) => self.memory.keep(&keep),
                Action::Notice(notice) => self.note(now, notice)?,
            }
        }
        self.members.pump(now, &mut self.ring)
    }

    fn note(&mut self, now: Nanos, notice: Notice) -> Result<(), RingError> {
        self.is_stopped |= notice == Notice::Stopped;
        if let Notice::MemberFailed { member } = notice {
            self.members.let_go(member, &mut self.ring)?;
        }
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
        let progress = self.controller.scan_progress();
        let members = &self.members;
        self.tally.note(now, &notice, progress, |member| {
            members.path(member).map(|path| path.display().to_string())
        });
        if let Notice::ScanStarted { scan: Scan::Check | Scan::Repair | Scan::RepairFromData } = notice {
            self.look_at_copies()?;
        }
        Ok(())
    }

    /// Moves memory away from I/O that does not end, as soon as there is no other; new I/O is held meanwhile.
    fn part_from_hung(&mut self, now: Nanos) -> Result<(), RingError> {
        if !self.members.has_strays() {
            self.memory.release_parted();
        }
        if !self.members.is_parting() || self.members.has_others_in_flight() || self.workers.out() > 0 {
            return Ok(());
        }
        self.members.part(&mut self.memory, &mut self.controller, &mut self.ring)?;
        while let Some(io) = self.held.pop_front() {
            self.issue(now, io)?;
        }
        Ok(())
    }

    fn issue(&mut self, now: Nanos, mut io: MemberIo) -> Result<(), RingError> {
        if self.members.is_parting() {
            self.held.push_back(io);
            return Ok(());
        }
        if let (MemberOp::Write { .. }, MemberCache::Off) = (io.op, self.member_cache) {
            io.op = MemberOp::Write { fua: true };
        }
        self.controller.member_io_segments(io.id, &mut self.segments);
        self.members.issue(now, &io, &self.segments, &self.memory, &mut self.ring)?;
        if self.ring.unsubmitted() >= ENTRIES_PER_BATCH {
            self.ring.enter(None)?;
        }
        Ok(())
    }

    /// Does a task, or has a worker do it while there is more to do here.
    fn run_task(&mut self, now: Nanos, task: MemoryTask) {
        let is_free = !self.members.is_parting() && self.workers.has_room(task.bytes_in);
        let may_wait = task.kind != MemoryKind::Copy && is_free;
        if may_wait && (self.workers.out() > 0 || self.members.is_busy()) {
            return self.hand_out(task);
        }
        if task.kind == MemoryKind::Digest {
            self.controller.digest_rows(task.id, &mut self.segments);
            self.memory.digest_blocks(&self.segments, self.block_size.bytes(), &mut self.digests);
            return self.controller.handle_digests(now, task.id, &self.digests);
        }
        self.controller.memory_steps(task.id, &mut self.steps);
        self.memory.run_steps(&self.steps);
        self.controller.handle_memory_completion(now, task.id);
    }

    fn hand_out(&mut self, task: MemoryTask) {
        if task.kind == MemoryKind::Digest {
            self.controller.digest_rows(task.id, &mut self.segments);
            let block_bytes = self.block_size.bytes();
            return self.workers.take_rows(task.id, &self.segments, block_bytes, &self.memory);
        }
        self.controller.memory_steps(task.id, &mut self.steps);
        self.workers.take_steps(task.id, &self.steps, &self.memory);
    }

    /// Hands the controller the ends of tasks that workers have done.
    fn take_in_workers(&mut self, now: Nanos) {
        while let Some(Finished { id, is_digest }) = self.workers.poll_finished(&mut self.digests) {
            if is_digest {
                self.controller.handle_digests(now, id, &self.digests);
            } else {
                self.controller.handle_memory_completion(now, id);
            }
        }
    }

    fn set_timer(&mut self, id: TimerId, at: Nanos) {
        let index = id.0 as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, Nanos::FAR_FUTURE);
        }
        self.timers[index] = at;
    }
}

impl Served for ArrayWorld {
    fn take_in(&mut self) -> Result<Nanos, ArrayError> {
        self.take_in_members()?;
        self.hear_operator()?;
        Ok(self.now())
    }

    #[inline]
    fn for_host(&mut self) -> ForHost<'_> {
        ForHost { front: &mut self.front, buffers: &mut self.memory.host, ring: &mut self.ring }
    }

    fn begin(&mut self, now: Nanos, request: HostRequest) -> Result<(), RingError> {
        let bytes = self.block_size.bytes_of(request.blocks).get();
        self.memory.host.begin(request.tag, bytes);
        let index = request.tag.0 as usize;
        if self.requests.len() <= index {
            self.requests.resize(index + 1, None);
        }
        self.requests[index] = Some(request);
        self.controller.handle_host_request(now, request);
        Ok(())
    }

    fn act(&mut self, now: Nanos) -> Result<(), RingError> {
        self.run_actions(now)
    }

    fn is_stopping(&self) -> bool {
        self.commands.is_stopping
    }

    // Not at all where the host has news to hear.
    fn wait(&mut self, now: Nanos, ask_at: Nanos) -> Result<(), RingError> {
        let news = self.front.has_news()
            || self.members.has_news()
            || self.workers.has_news()
            || self.ring.has_ends_of_threads()
            || !self.done.is_empty();
        // Once in a row, so that completions that the kernel holds back do not wait for news to run out.
        self.left_out = news && !self.left_out && self.ring.unsubmitted() == 0;
        if news && (self.left_out || self.ring.in_flight() == 0) {
            return Ok(());
        }
        let wake_at = self.timers.iter().copied().fold(ask_at, Nanos::min);
        let span = wake_at.saturating_since(now).min(PATIENCE);
        self.ring.enter_beside(&self.workers, if news { NanoSpan::ZERO } else { span })
    }
}
