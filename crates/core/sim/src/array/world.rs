//! The world between the workload driver, the controller and the drives: who is told what, and when.

use super::members::{Member, MemberIos, Places};
use super::servers::{BusyServer, ServerPool};
use super::spec::{SimError, SimulatedArray, SimulationLoad, SimulationOutcome};
use super::utilisation::Utilisation;
use crate::queue::{Due, EventQueue};
use raidlab_controller::{Action, Controller, HostCompletion, HostOp, HostRequest, HostTag, MemberCache};
use raidlab_controller::{MemberIo, MemberIoId, MemberOp, MemoryKind, MemoryTask, MemoryTaskId, TimerId};
use raidlab_hardware::{ControllerModel, Drive, DriveOptions, HostOpKind, MemoryWork};
use raidlab_units::{BlockSize, ByteCount, Lba, NanoSpan, Nanos};
use raidlab_workload::{Driver, DriverIo, DriverStep, IoOp, Rng};
use std::cmp::Ordering;

/// Spindles are up to this much apart: many turns of any drive.
const SPINDLE_SPREAD: NanoSpan = NanoSpan::from_secs(1);

/// The next step of a request or task, when a resource has finished with it.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A host write's data has come over the host link.
    HostDataIn(u32),
    /// The processor has taken in a host command.
    HostAccepted(u32),
    /// A host read's data has gone over the host link; whether the read succeeded.
    HostDataOut(u32, bool),
    /// The processor has made a member command.
    MemberCommand(MemberIoId),
    /// A member write's data has come over the member link.
    MemberDataIn(MemberIoId),
    /// A member read's data has come over the member link.
    MemberDataOut(MemberIoId),
    /// The processor has done a memory task.
    MemoryDone(MemoryTaskId),
}

/// Busy times of all resources at one instant.
#[derive(Clone, Debug, Default)]
struct BusyTimes {
    drives: Vec<NanoSpan>,
    processors: NanoSpan,
    parity: NanoSpan,
    host_link: NanoSpan,
    member_link: NanoSpan,
}

/// Everything that happens in one simulation.
#[derive(Debug)]
pub(super) struct World<'a> {
    model: &'a ControllerModel,
    block_size: BlockSize,
    controller: Controller,
    driver: Driver,
    queue: EventQueue<Event>,
    /// The driver's I/O in each slot; slots serve as host tags.
    host_ios: Vec<DriverIo>,
    members: Vec<Member>,
    member_ios: MemberIos,
    processors: ServerPool,
    host_link: BusyServer,
    member_link: BusyServer,
    parity: NanoSpan,
    host_requests: u64,
    finished: bool,
    /// The measured window: busy times are noted when the clock passes its start and its end.
    window: [Nanos; 2],
    noted: Vec<BusyTimes>,
}

impl<'a> World<'a> {
    pub(super) fn new(
        array: &'a SimulatedArray,
        controller: Controller,
        driver: Driver,
        load: &SimulationLoad,
    ) -> Self {
        let model = &array.controller;
        let options = DriveOptions {
            write_cache: Some(array.config.member_cache == MemberCache::On),
            ..DriveOptions::default()
        };
        let mut random = Rng::new(raidlab_workload::derived_seed(load.seed, 1));
        let member = |_| {
            let ahead = NanoSpan(random.below(SPINDLE_SPREAD.0));
            Member::new(Drive::new(&array.drive, options), ahead, model.member_queue_depth)
        };
        let members: Vec<_> =
            (0..array.config.members + array.config.resilience.spares).map(member).collect();
        let idle = DriverIo { slot: 0, op: IoOp::Read, offset_bytes: 0, bytes: 0 };
        let start = Nanos::ZERO + load.ramp;
        Self {
            model,
            block_size: array.config.block_size,
            controller,
            driver,
            queue: EventQueue::new(members.len() as u32 + 1 + Controller::TIMERS),
            host_ios: vec![idle; load.iodepth as usize],
            members,
            member_ios: MemberIos::default(),
            processors: ServerPool::new(model.processors),
            host_link: BusyServer::default(),
            member_link: BusyServer::default(),
            parity: NanoSpan::ZERO,
            host_requests: 0,
            finished: false,
            window: [start, start + load.run],
            noted: Vec::with_capacity(2),
        }
    }

    /// Runs until the driver is done. `seed` is for the message only.
    pub(super) fn run(&mut self, seed: u64) -> Result<(), SimError> {
        self.poll_driver(Nanos::ZERO);
        loop {
            self.pump();
            if self.finished {
                self.note_busy_times(Nanos::FAR_FUTURE);
                return Ok(());
            }
            let Some((now, due)) = self.queue.pop() else {
                return Err(SimError::Stalled { at: self.queue.now(), seed });
            };
            self.note_busy_times(now);
            match due {
                Due::Event(event) => self.handle_event(now, event),
                Due::Deadline(slot) => self.handle_deadline(now, slot),
            }
        }
    }

    #[inline]
    fn handle_event(&mut self, now: Nanos, event: Event) {
        match event {
            Event::HostDataIn(slot) => self.take_in(now, slot),
            Event::HostAccepted(slot) => self.request(now, slot),
            Event::HostDataOut(slot, succeeded) => self.answer(now, slot, succeeded),
            Event::MemberCommand(id) => self.enqueue(now, id),
            Event::MemberDataIn(id) => self.start_drive(now, id),
            Event::MemberDataOut(id) => self.controller.handle_member_completion(now, id, Ok(())),
            Event::MemoryDone(id) => self.memory_done(now, id),
        }
    }

    // Deadline slots: the members, then the driver, then the controller's timers.

    fn driver_slot(&self) -> u32 {
        self.members.len() as u32
    }

    #[inline]
    fn handle_deadline(&mut self, now: Nanos, slot: u32) {
        let driver = self.driver_slot();
        match slot.cmp(&driver) {
            Ordering::Less => {
                self.members[slot as usize].handle_deadline(now);
                self.settle_drive(now, slot);
            }
            Ordering::Equal => self.poll_driver(now),
            Ordering::Greater => self.controller.handle_timer(now, TimerId(slot - driver - 1)),
        }
    }

    // The host's side.

    /// Issues what the driver wants issued.
    #[inline]
    fn poll_driver(&mut self, now: Nanos) {
        let wake = loop {
            match self.driver.poll_step(now) {
                DriverStep::Issue(io) => self.issue(now, io),
                DriverStep::WaitUntil(at) => break Some(at),
                DriverStep::WaitForCompletion => break None,
                DriverStep::Finished => {
                    self.finished = true;
                    break None;
                }
            }
        };
        self.queue.set_deadline(self.driver_slot(), wake);
    }

    #[inline]
    fn issue(&mut self, now: Nanos, io: DriverIo) {
        self.host_ios[io.slot as usize] = io;
        if io.op == IoOp::Read {
            return self.take_in(now, io.slot);
        }
        let span = self.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
        let end = self.host_link.serve(now, span);
        if end == now { self.take_in(now, io.slot) } else { self.queue.push(end, Event::HostDataIn(io.slot)) }
    }

    #[inline]
    fn take_in(&mut self, now: Nanos, slot: u32) {
        let io = self.host_ios[slot as usize];
        let kind = match io.op {
            IoOp::Read => HostOpKind::Read,
            IoOp::Write => HostOpKind::Write,
        };
        let span = self.model.host_command_cost(kind, ByteCount(u64::from(io.bytes)));
        let end = self.processors.serve(now, span);
        if end == now { self.request(now, slot) } else { self.queue.push(end, Event::HostAccepted(slot)) }
    }

    #[inline]
    fn request(&mut self, now: Nanos, slot: u32) {
        let io = self.host_ios[slot as usize];
        let block_bytes = self.block_size.bytes();
        debug_assert!(io.offset_bytes.is_multiple_of(block_bytes), "the driver keeps to blocks");
        let blocks = self.block_size.blocks_in(ByteCount(u64::from(io.bytes)));
        let request = HostRequest {
            tag: HostTag(slot),
            op: match io.op {
                IoOp::Read => HostOp::Read,
                IoOp::Write => HostOp::Write { fua: false },
            },
            lba: Lba(io.offset_bytes / block_bytes),
            blocks: blocks.expect("the driver keeps to blocks"),
        };
        self.controller.handle_host_request(now, request);
    }

    #[inline]
    fn complete(&mut self, now: Nanos, completion: HostCompletion) {
        let slot = completion.tag.0;
        let succeeded = completion.result.is_ok();
        let io = self.host_ios[slot as usize];
        if io.op == IoOp::Write || !succeeded {
            return self.answer(now, slot, succeeded);
        }
        let span = self.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
        let end = self.host_link.serve(now, span);
        if end == now {
            self.answer(now, slot, succeeded);
        } else {
            self.queue.push(end, Event::HostDataOut(slot, succeeded));
        }
    }

    #[inline]
    fn answer(&mut self, now: Nanos, slot: u32, succeeded: bool) {
        self.host_requests += 1;
        self.driver.handle_completion(now, slot, succeeded);
        self.poll_driver(now);
    }

    // The controller's actions.

    #[inline]
    fn pump(&mut self) {
        let now = self.queue.now();
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => self.command_member(now, io),
                Action::Memory(task) => self.work_on_memory(now, task),
                Action::Complete(completion) => self.complete(now, completion),
                Action::Timer { id, at } => {
                    let slot = self.driver_slot() + 1 + id.0;
                    self.queue.set_deadline(slot, Some(at));
                }
                // Nothing is lost in this world, storing so few bytes takes no time that counts, and there is nothing
                // that an operator should know.
                Action::Keep(_) | Action::Notice(_) => {}
            }
        }
    }

    #[inline]
    fn work_on_memory(&mut self, now: Nanos, task: MemoryTask) {
        let work = match task.kind {
            MemoryKind::Copy => MemoryWork::Copy,
            // A checksum reads its input once, as parity does.
            MemoryKind::Parity | MemoryKind::Digest => MemoryWork::Parity,
        };
        let span = self.model.memory_cost(work, ByteCount(task.bytes_in), ByteCount(task.bytes_out));
        if work == MemoryWork::Parity {
            self.parity += span;
        }
        let end = self.processors.serve(now, span);
        if end == now {
            self.memory_done(now, task.id);
        } else {
            self.queue.push(end, Event::MemoryDone(task.id));
        }
    }

    #[inline]
    fn memory_done(&mut self, now: Nanos, id: MemoryTaskId) {
        self.controller.handle_memory_completion(now, id);
    }

    #[inline]
    fn command_member(&mut self, now: Nanos, io: MemberIo) {
        self.member_ios.insert(io);
        let kind = match io.op {
            MemberOp::Read => HostOpKind::Read,
            MemberOp::Write { .. } => HostOpKind::Write,
            MemberOp::Flush => HostOpKind::Flush,
        };
        let span = self.model.member_command_cost(kind, self.block_size.bytes_of(io.blocks));
        let end = self.processors.serve(now, span);
        if end == now { self.enqueue(now, io.id) } else { self.queue.push(end, Event::MemberCommand(io.id)) }
    }

    // The members' side.

    #[inline]
    fn enqueue(&mut self, now: Nanos, id: MemberIoId) {
        let member = self.member_ios.get(id).member.0;
        self.members[usize::from(member)].enqueue(&mut self.member_ios, id);
        self.admit(now, member);
    }

    /// Sends waiting commands on their way while the drive has room.
    #[inline]
    fn admit(&mut self, now: Nanos, member: u16) {
        while let Some(id) = self.members[usize::from(member)].admit(now, &self.member_ios) {
            let io = self.member_ios.get(id);
            if !matches!(io.op, MemberOp::Write { .. }) {
                self.start_drive(now, id);
                continue;
            }
            let span = self.model.member_link.transfer_time(self.block_size.bytes_of(io.blocks));
            let end = self.member_link.serve(now, span);
            if end == now { self.start_drive(now, id) } else { self.queue.push(end, Event::MemberDataIn(id)) }
        }
    }

    #[inline]
    fn start_drive(&mut self, now: Nanos, id: MemberIoId) {
        let metadata_blocks = self.controller.metadata_blocks();
        let places = Places { block_size: self.block_size, metadata_blocks };
        let io = self.member_ios.get(id);
        let member = io.member.0;
        self.members[usize::from(member)].start(now, io, places);
        self.settle_drive(now, u32::from(member));
    }

    /// Takes what the drive has finished, fills its room, and notes when it wants to be woken.
    #[inline]
    fn settle_drive(&mut self, now: Nanos, member: u32) {
        let mut finished = false;
        while let Some(id) = self.members[member as usize].poll_completion(now) {
            finished = true;
            self.finish_member(now, id);
        }
        let at = self.members[member as usize].poll_deadline();
        self.queue.set_deadline(member, at);
        if finished {
            self.admit(now, member as u16);
        }
    }

    #[inline]
    fn finish_member(&mut self, now: Nanos, id: MemberIoId) {
        let io = self.member_ios.get(id);
        if io.op != MemberOp::Read {
            return self.controller.handle_member_completion(now, id, Ok(()));
        }
        let span = self.model.member_link.transfer_time(self.block_size.bytes_of(io.blocks));
        let end = self.member_link.serve(now, span);
        if end == now {
            self.controller.handle_member_completion(now, id, Ok(()));
        } else {
            self.queue.push(end, Event::MemberDataOut(id));
        }
    }

    // What is counted.

    /// Notes the busy times at the edges of the window that lie before `now`, the time of the next event.
    #[inline]
    fn note_busy_times(&mut self, now: Nanos) {
        while let Some(edge) = self.window.get(self.noted.len()).filter(|edge| **edge <= now) {
            let at = *edge;
            self.noted.push(self.busy_times(at));
        }
    }

    fn busy_times(&self, at: Nanos) -> BusyTimes {
        BusyTimes {
            drives: self.members.iter().map(|member| member.busy_until_now(at)).collect(),
            processors: self.processors.busy_until_now(at),
            parity: self.parity,
            host_link: self.host_link.busy_until_now(at),
            member_link: self.member_link.busy_until_now(at),
        }
    }

    pub(super) fn outcome(&self, volume: ByteCount) -> SimulationOutcome {
        SimulationOutcome {
            measurement: self.driver.measurement(),
            counters: self.controller.counters(),
            host_requests: self.host_requests,
            issued: self.driver.issued(),
            events: self.queue.scheduled_count(),
            virtual_time: self.queue.now() - Nanos::ZERO,
            utilisation: self.utilisation(),
            volume,
        }
    }

    fn utilisation(&self) -> Utilisation {
        let [start, end] = self.noted.as_slice() else { return Utilisation::default() };
        let window = (self.window[1] - self.window[0]).as_secs_f64();
        let share = |from: NanoSpan, to: NanoSpan| (to - from).as_secs_f64() / window;
        let drives = || start.drives.iter().zip(&end.drives).map(|(from, to)| share(*from, *to));
        Utilisation {
            drives_mean: drives().sum::<f64>() / self.members.len() as f64,
            drives_max: drives().fold(0.0, f64::max),
            processors: share(start.processors, end.processors),
            parity: share(start.parity, end.parity) / f64::from(self.model.processors),
            host_link: share(start.host_link, end.host_link),
            member_link: share(start.member_link, end.member_link),
        }
    }
}
