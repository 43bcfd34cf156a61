//! The event loop: one thread that turns requests, completions and timers into the controller's events, and its
//! actions into member I/O and work on memory.
//!
//! One turn:
//! ```text
//! clock ─► completions of members, timers due ─► actions ─► clock ─► tell the host, ask it for requests ─► actions
//!   ▲                                                                                                        │
//!   └────────────── submit; wait for a completion, the next timer or the host's time ◄───────────────────────┘
//! ```
//! The clock is read twice per turn, before the members' news and before the host's, so that the time spent on
//! parity between the two is part of the host's latency.
//!
//! With the members' caches configured off, every member write is durable on completion (`RWF_DSYNC`): that is what
//! "off" promises, whatever cache the device under the file has.

use crate::error::{ArrayError, RingError};
use crate::host::{DriverHost, HostPort, HostStep, ScriptHost, ScriptOp, StopWish};
use crate::member_io::MemberPort;
use crate::members::Members;
use crate::memory::Memory;
use crate::port_ring::{PortEntries, PortRing};
use crate::ring::{Done, Owner, Ring};
use raidlab_controller::{
    Action, ArrayConfig, Controller, Counters, HostCompletion, HostRequest, MemberCache, MemberIo, MemberOp,
    MemoryKind, MemorySteps, MemoryTask, MetadataPolicy, Notice, Resilience, Segment, TimerId,
};
use raidlab_raid::FailuresSurvived;
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, NanoSpan, Nanos};
use raidlab_workload::{Driver, Measurement, WindowProgress};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Longest wait before the request to stop is looked at.
const PATIENCE: NanoSpan = NanoSpan::from_millis(50);
/// Entries that are submitted at once at most, so that members start while parity is still being computed.
const ENTRIES_PER_BATCH: u32 = 16;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct ArrayOutcome {
    /// What the driver counted.
    pub measurement: Measurement,
    /// What the controller counted from the start of the run to the end of the drain.
    pub counters: Counters,
    /// Processor time of this process from the start of the run to the end of the drain.
    pub cpu: NanoSpan,
    /// Wall-clock time of ramp, window and the end of what was in flight.
    pub wall: NanoSpan,
    /// Wall-clock time that the dirty blocks left in the cache took to reach the members after the run.
    pub drain: NanoSpan,
    /// What happened to the array meanwhile.
    pub notices: Vec<Notice>,
}

/// A real array: a controller over real members. It stays on the thread that made it.
#[derive(Debug)]
pub struct ArrayWorld {
    // Dropped first: it waits for all I/O on the memory below.
    ring: Ring,
    members: MemberPort,
    port_entries: PortEntries,
    memory: Memory,
    controller: Controller,
    block_size: BlockSize,
    member_cache: MemberCache,
    started: Instant,
    /// When each timer is due, by its id.
    timers: Vec<Nanos>,
    /// Completions that the host was not told yet.
    completions: Vec<HostCompletion>,
    host_in_flight: u32,
    notices: Vec<Notice>,
    /// The last wait was left out.
    left_out: bool,
    // Tables that serve every turn, so that none allocates.
    done: Vec<Done>,
    segments: Vec<Segment>,
    steps: MemorySteps,
    digests: Vec<u32>,
}

/// What the host wants after it was asked.
enum HostWish {
    Nothing,
    AskAt(Nanos),
    Finished,
}

impl ArrayWorld {
    /// Puts a controller of `config` over `members`, whose data areas must be at least as long as it says. They must
    /// be as [`Members::create`] or [`Members::clear`] left them, or as an array of the same configuration did.
    ///
    /// # Errors
    /// [`ArrayError`]: no valid configuration, members that do not fit it, no memory, no `io_uring`.
    pub fn new(config: &ArrayConfig, members: Members) -> Result<Self, ArrayError> {
        let controller = Controller::new(config)?;
        check_members(config, &members)?;
        let mut ring = Ring::new(config.members)?;
        let members = MemberPort::new(members, config.block_size, &mut ring)?;
        let memory = Memory::new(&controller.memory_needs(), &mut ring)?;
        Ok(Self {
            ring,
            members,
            port_entries: PortEntries::default(),
            done: Vec::new(),
            memory,
            controller,
            block_size: config.block_size,
            member_cache: config.member_cache,
            started: Instant::now(),
            timers: Vec::new(),
            completions: Vec::new(),
            host_in_flight: 0,
            notices: Vec::new(),
            left_out: false,
            segments: Vec::new(),
            steps: MemorySteps::default(),
            digests: Vec::new(),
        })
    }

    /// Drives a workload against the volume, then drains the cache. `progress` is called about ten times per second.
    /// Dirty blocks that a stopped run left behind are drained first and are no part of the outcome.
    ///
    /// # Errors
    /// [`ArrayError`]: a driver made for another volume, a failing ring, a cache that can't be drained, or `cancel`.
    pub fn run(
        &mut self,
        driver: &mut Driver,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(WindowProgress),
    ) -> Result<ArrayOutcome, ArrayError> {
        let mut host = DriverHost::new(driver, self.block_size, self.volume_bytes(), progress)?;
        if !self.controller.is_idle() {
            self.drain(cancel)?;
        }
        self.notices.clear();
        let (counters, cpu, start) = (self.controller.counters(), cpu_time(), self.now());
        self.serve(&mut host, cancel)?;
        let wall = self.now() - start;
        let drain = self.drain(cancel)?;
        Ok(ArrayOutcome {
            measurement: driver.measurement(),
            counters: since(self.controller.counters(), counters),
            cpu: cpu_time() - cpu,
            wall,
            drain,
            notices: std::mem::take(&mut self.notices),
        })
    }

    /// Serves `port` until it is finished and nothing of it is in flight. What the controller does on its own, such
    /// as destaging, may go on afterwards: [`ArrayWorld::drain`] waits for that.
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
        // Whatever happens, the port's memory is its own again when this returns.
        let served = catch_unwind(AssertUnwindSafe(|| self.serve_until_finished(port, cancel)));
        self.port_entries.end_all(&mut self.ring, &mut self.done);
        served.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn serve_until_finished<P: HostPort + ?Sized>(
        &mut self,
        port: &mut P,
        cancel: &AtomicBool,
    ) -> Result<(), ArrayError> {
        let mut stop = None;
        loop {
            let cancelled = cancel.load(Ordering::Relaxed);
            self.take_in_members()?;
            let now = self.now();
            self.tell_host(port, now);
            if cancelled && stop.is_none() {
                stop = Some(port.handle_stop(now));
            }
            let ends_now = stop == Some(StopWish::EndNow);
            let wish = if ends_now { HostWish::Finished } else { self.ask_host(port, now) };
            self.run_actions(now)?;
            if matches!(wish, HostWish::Finished) && self.host_in_flight == 0 {
                return if stop.is_some() { Err(ArrayError::Cancelled) } else { Ok(()) };
            }
            let ask_at = if let HostWish::AskAt(at) = wish { at } else { Nanos::FAR_FUTURE };
            self.wait(now, ask_at)?;
        }
    }

    /// Writes all dirty blocks to the members and makes them durable. Returns how long it took.
    ///
    /// # Errors
    /// [`ArrayError::DrainFailed`] if too few members are left to hold the data, [`ArrayError::Cancelled`], or a
    /// failing ring.
    pub fn drain(&mut self, cancel: &AtomicBool) -> Result<NanoSpan, ArrayError> {
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

    /// Takes a member out of the array, as if it had been pulled.
    ///
    /// # Errors
    /// [`ArrayError::Ring`] if the I/O that follows from it can't be submitted.
    pub fn fail_member(&mut self, member: MemberIndex) -> Result<(), ArrayError> {
        let now = self.now();
        self.controller.handle_member_loss(now, member);
        Ok(self.run_actions(now)?)
    }

    /// Returns the members after everything in flight has ended. Dirty blocks that were not drained are lost.
    pub fn into_members(mut self) -> Members {
        self.ring.quiesce();
        self.members.into_members()
    }

    /// The members.
    pub const fn members(&self) -> &Members {
        self.members.members()
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

    /// What happened to the array since it was made or since the last run.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Whether member I/O works on registered buffers; where `RLIMIT_MEMLOCK` is too low it costs more per I/O.
    pub fn has_registered_buffers(&self) -> bool {
        self.memory.is_registered()
    }

    fn now(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
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
                Owner::Port => self.port_entries.take(done),
            }
        }
        for index in 0..self.timers.len() {
            if self.timers[index] <= now {
                self.timers[index] = Nanos::FAR_FUTURE;
                self.controller.handle_timer(now, TimerId(index as u32));
            }
        }
        self.run_actions(now)
    }

    fn tell_host<P: HostPort + ?Sized>(&mut self, port: &mut P, now: Nanos) {
        for completion in self.completions.drain(..) {
            self.host_in_flight -= 1;
            port.handle_completion(now, completion, &self.memory.host);
        }
        for end in self.port_entries.drain() {
            port.handle_entry(now, end);
        }
    }

    fn ask_host<P: HostPort + ?Sized>(&mut self, port: &mut P, now: Nanos) -> HostWish {
        loop {
            let mut ring = PortRing { ring: &mut self.ring, entries: &mut self.port_entries };
            match port.poll_step(now, &mut self.memory.host, &mut ring) {
                HostStep::Submit(request) => self.begin_request(now, request),
                HostStep::WaitUntil(at) => return HostWish::AskAt(at),
                HostStep::WaitForCompletion => return HostWish::Nothing,
                HostStep::Finished => return HostWish::Finished,
            }
        }
    }

    fn begin_request(&mut self, now: Nanos, request: HostRequest) {
        self.memory.host.begin(request.tag, self.block_size.bytes_of(request.blocks).get());
        self.host_in_flight += 1;
        self.controller.handle_host_request(now, request);
    }

    /// Does all actions that the controller has.
    fn run_actions(&mut self, now: Nanos) -> Result<(), RingError> {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => self.issue(io)?,
                Action::Memory(task) => self.run_task(now, task),
                Action::Complete(completion) => {
                    self.memory.host.end(completion.tag);
                    self.completions.push(completion);
                }
                Action::Timer { id, at } => self.set_timer(id, at),
                // The cache is memory of this process and gone with it; so would its directory be.
                Action::Keep(_) => {}
                Action::Notice(notice) => {
                    tracing::warn!(?notice, "the array changed");
                    self.notices.push(notice);
                }
            }
        }
        Ok(())
    }

    fn issue(&mut self, mut io: MemberIo) -> Result<(), RingError> {
        if let (MemberOp::Write { .. }, MemberCache::Off) = (io.op, self.member_cache) {
            io.op = MemberOp::Write { fua: true };
        }
        self.controller.member_io_segments(io.id, &mut self.segments);
        self.members.issue(&io, &self.segments, &self.memory, &mut self.ring)?;
        if self.ring.unsubmitted() >= ENTRIES_PER_BATCH {
            self.ring.enter(None)?;
        }
        Ok(())
    }

    fn run_task(&mut self, now: Nanos, task: MemoryTask) {
        if task.kind == MemoryKind::Digest {
            self.controller.digest_rows(task.id, &mut self.segments);
            self.memory.digest_blocks(&self.segments, self.block_size.bytes(), &mut self.digests);
            return self.controller.handle_digests(now, task.id, &self.digests);
        }
        self.controller.memory_steps(task.id, &mut self.steps);
        self.memory.run_steps(&self.steps);
        self.controller.handle_memory_completion(now, task.id);
    }

    fn set_timer(&mut self, id: TimerId, at: Nanos) {
        let index = id.0 as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, Nanos::FAR_FUTURE);
        }
        self.timers[index] = at;
    }

    /// Submits what is queued and waits for something to happen; not at all where the host has news to hear.
    fn wait(&mut self, now: Nanos, ask_at: Nanos) -> Result<(), RingError> {
        let news = !self.completions.is_empty() || self.port_entries.has_news() || !self.done.is_empty();
        // Once in a row, so that completions that the kernel holds back do not wait for news to run out.
        self.left_out = news && !self.left_out && self.ring.unsubmitted() == 0;
        if news && (self.left_out || self.ring.in_flight() == 0) {
            return Ok(());
        }
        let wake_at = self.timers.iter().copied().fold(ask_at, Nanos::min);
        let span = wake_at.saturating_since(now).min(PATIENCE);
        self.ring.enter(Some(if news { NanoSpan::ZERO } else { span }))
    }
}

fn check_members(config: &ArrayConfig, members: &Members) -> Result<(), ArrayError> {
    let Resilience { metadata, integrity, spares, .. } = config.resilience;
    for (what, wanted) in [
        ("metadata on members", metadata != MetadataPolicy::None),
        ("block integrity", integrity),
        ("hot spares", spares > 0),
    ] {
        if wanted {
            return Err(ArrayError::NeedsMetadata { what });
        }
    }
    if members.count() != usize::from(config.members) {
        return Err(ArrayError::MemberCount { wanted: config.members, found: members.count() });
    }
    for member in members.indexes() {
        let path = || members.path(member).to_owned();
        let found = members.data_bytes(member);
        if found < config.member_size {
            return Err(ArrayError::MemberTooSmall { path: path(), found, wanted: config.member_size });
        }
        let needed = members.direct_io_unit(member);
        let block = ByteCount(config.block_size.bytes());
        if needed > block {
            return Err(ArrayError::BlockTooSmall { path: path(), block, needed });
        }
    }
    Ok(())
}

/// Processor time of this process so far, all its threads and the kernel's work for them.
fn cpu_time() -> NanoSpan {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    NanoSpan(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What was counted between two looks at the counters.
fn since(now: Counters, before: Counters) -> Counters {
    Counters {
        member_reads: now.member_reads - before.member_reads,
        member_writes: now.member_writes - before.member_writes,
        member_flushes: now.member_flushes - before.member_flushes,
        cache_hit_blocks: now.cache_hit_blocks - before.cache_hit_blocks,
        copy_bytes: now.copy_bytes - before.copy_bytes,
        parity_bytes: now.parity_bytes - before.parity_bytes,
        metadata_writes: now.metadata_writes - before.metadata_writes,
        mismatched_blocks: now.mismatched_blocks - before.mismatched_blocks,
    }
}
