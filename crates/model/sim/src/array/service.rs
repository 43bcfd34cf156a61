//! One volume at work: the interaction of hosts, controller and members, and the time on each resource. Everything here
//! is per I/O.

use super::attribution::{Station, Visit};
use super::event::{Event, Step};
use super::head::Hardware;
use super::load::{HostAnswer, HostIo, Load};
use super::members::Places;
use super::spec::SimulatedEnclosure;
use super::stripe_threads::StripeIo;
use super::volume::{Phase, Volume};
use crate::queue::EventQueue;
use raidlab_controller::{Action, Area, BufferSpace, HostCompletion, HostOp, HostRequest, HostTag};
use raidlab_controller::{
    MemberError, MemberIo, MemberIoId, MemberOp, MemoryTask, MemoryTaskId, Segment, TimerId, WritePolicy,
};
use raidlab_hardware::{FabricModel, HostOpKind, MemberPath, PAGE_BYTES};
use raidlab_units::{ByteCount, Lba, MemberIndex, NanoSpan, Nanos};
use raidlab_workload::DriverStep;
use std::cmp::Ordering;

/// What volumes share: time, hardware, and when they are done.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) hardware: Hardware<'a>,
    pub(super) queue: EventQueue<Event>,
    /// Volumes whose load is not over. Counting beats asking all of them after each event once the first ones are done.
    pub(super) unfinished: usize,
}

impl<'a> Shared<'a> {
    /// What `volumes` volumes with `slots` deadline slots share.
    pub(super) fn new(enclosure: &'a SimulatedEnclosure, slots: u32, volumes: usize) -> Self {
        Self { hardware: Hardware::new(enclosure), queue: EventQueue::new(slots), unfinished: volumes }
    }
}

impl<const FOLLOWED: bool> Volume<FOLLOWED> {
    #[inline]
    pub(super) fn handle_event(&mut self, shared: &mut Shared<'_>, now: Nanos, event: Event) {
        if event.life != self.life {
            return self.drop_step(now, event);
        }
        match event.step {
            Step::HostDataIn => self.take_in(shared, now, event.id),
            Step::HostAccepted => self.request(now, event.id),
            Step::HostAnswered { succeeded } => self.answer(shared, now, event.id, succeeded),
            Step::MemberCommand => self.enqueue(shared, now, event.member_io()),
            Step::MemberDataIn => self.start_drive(shared, now, event.member_io()),
            Step::MemberDataOut => self.end_member_io(now, event.member_io()),
            Step::MemoryDone => {
                if let Some(times) = self.times.get() {
                    times.end_task(event.task());
                }
                self.memory_done(now, event.task());
            }
            Step::Unplug => self.unplug(shared, now),
        }
    }

    #[inline]
    pub(super) fn handle_deadline(&mut self, shared: &mut Shared<'_>, now: Nanos, slot: u32) {
        let driver = self.driver_slot();
        match slot.cmp(&driver) {
            Ordering::Less => {
                let member = slot - self.first_slot;
                self.members[member as usize].handle_deadline(now);
                self.settle_drive(shared, now, member);
            }
            Ordering::Equal => self.poll_driver(shared, now),
            Ordering::Greater => {
                if let Some(times) = self.times.get() {
                    times.begin(now, Station::Gathering);
                }
                self.controller.handle_timer(now, TimerId(slot - driver - 1));
            }
        }
    }

    // The host's side.

    /// Issues what the driver wants issued.
    #[inline]
    pub(super) fn poll_driver(&mut self, shared: &mut Shared<'_>, now: Nanos) {
        let wake = loop {
            let Load::Driver(driver) = &mut self.load else { return };
            match driver.poll_step(now) {
                DriverStep::Issue(io) => {
                    let io = HostIo::from(io);
                    self.host_ios[io.slot as usize] = io;
                    if self.phase == Phase::Serving {
                        self.issue(shared, now, io);
                    }
                }
                DriverStep::WaitUntil(at) => break Some(at),
                DriverStep::WaitForCompletion => break None,
                DriverStep::Finished => {
                    shared.unfinished -= usize::from(!self.is_finished);
                    self.is_finished = true;
                    break None;
                }
            }
        };
        shared.queue.set_deadline(self.driver_slot(), wake);
    }

    /// Sends a request to the volume's controller.
    #[inline]
    pub(super) fn issue(&mut self, shared: &mut Shared<'_>, now: Nanos, io: HostIo) {
        if let (Some(times), Load::Driver(driver)) = (self.times.get(), &self.load) {
            times.send(io.slot, driver.issued_at(io.slot), now);
        }
        if !matches!(io.op, HostOp::Write { .. }) {
            return self.take_in(shared, now, io.slot);
        }
        let span = shared.hardware.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
        let end = shared.hardware.head(self.owner).host_link.serve(now, span);
        if let Some(times) = self.times.get() {
            times.visit(io.slot, Visit { station: Station::HostLink, now, span, end });
        }
        if end == now {
            self.take_in(shared, now, io.slot);
        } else {
            shared.queue.push(end, self.event(Step::HostDataIn, io.slot));
        }
    }

    #[inline]
    fn take_in(&mut self, shared: &mut Shared<'_>, now: Nanos, slot: u32) {
        let io = self.host_ios[slot as usize];
        let kind = match io.op {
            HostOp::Read => HostOpKind::Read,
            HostOp::Write { .. } => HostOpKind::Write,
            HostOp::Flush | HostOp::Discard => HostOpKind::Flush,
        };
        let model = shared.hardware.model;
        // A discard names a range and moves none of its pages.
        let (offset_bytes, bytes) =
            if io.op == HostOp::Discard { (0, 0) } else { (io.offset_bytes, io.bytes) };
        let mut span = model.host_command_cost(kind, offset_bytes, ByteCount(u64::from(bytes)));
        if kind == HostOpKind::Write && self.write_policy != WritePolicy::WriteThrough {
            span += model.cache.write_in;
        }
        let head = shared.hardware.head(self.owner);
        let end = match &model.md {
            None => head.decide(now, span),
            Some(md) => {
                span += md.engine_cost();
                if kind == HostOpKind::Write && self.has_parity {
                    span += md.costs.add_page * u64::from(io.bytes).div_ceil(PAGE_BYTES);
                }
                let alone = head.raid10_lock.serve(now, self.raid10_lock);
                head.processors.serve_when_ready(now, alone, span)
            }
        };
        if let Some(times) = self.times.get() {
            times.visit(slot, Visit { station: Station::Processors, now, span, end });
        }
        if end == now {
            self.request(now, slot);
        } else {
            shared.queue.push(end, self.event(Step::HostAccepted, slot));
        }
    }

    #[inline]
    fn request(&mut self, now: Nanos, slot: u32) {
        let io = self.host_ios[slot as usize];
        let block_bytes = self.block_size.bytes();
        debug_assert!(io.offset_bytes.is_multiple_of(block_bytes), "the driver keeps to blocks");
        let blocks = self.block_size.blocks_in(ByteCount(u64::from(io.bytes)));
        let request = HostRequest {
            tag: HostTag(slot),
            op: io.op,
            lba: Lba(io.offset_bytes / block_bytes),
            blocks: blocks.expect("the driver keeps to blocks"),
        };
        if let Some(times) = self.times.get() {
            times.accept(slot, now);
        }
        self.controller.handle_host_request(now, request);
    }

    #[inline(never)]
    fn complete(&mut self, shared: &mut Shared<'_>, now: Nanos, completion: HostCompletion) {
        let slot = completion.tag.0;
        let succeeded = completion.result.is_ok();
        let io = self.host_ios[slot as usize];
        let (station, span, end) = if io.op != HostOp::Read || !succeeded {
            self.send_kept(shared, now);
            let end = self.kept_at.max(now);
            (Station::MirrorLink, end - now, end)
        } else {
            let span = shared.hardware.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
            (Station::HostLink, span, shared.hardware.head(self.owner).host_link.serve(now, span))
        };
        if let Some(times) = self.times.get() {
            times.complete(slot, Visit { station, now, span, end });
        }
        if end == now {
            self.answer(shared, now, slot, succeeded);
        } else {
            shared.queue.push(end, self.event(Step::HostAnswered { succeeded }, slot));
        }
    }

    #[inline]
    fn answer(&mut self, shared: &mut Shared<'_>, now: Nanos, slot: u32, succeeded: bool) {
        self.host_requests += 1;
        match &mut self.load {
            Load::Driver(driver) => {
                if let Some(times) = self.times.get() {
                    let moves_bytes = self.host_ios[slot as usize].op != HostOp::Flush;
                    times.answer(slot, now, succeeded && moves_bytes && driver.counts(now));
                }
                driver.handle_completion(now, slot, succeeded);
                self.poll_driver(shared, now);
            }
            Load::Host(answers) => answers.push_back(HostAnswer { slot, at: now, succeeded }),
        }
    }

    // The controller's actions.

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is the inner loop of the world, in one place but for what is seldom"
    )]
    pub(super) fn pump(&mut self, shared: &mut Shared<'_>) {
        let now = shared.queue.now();
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => self.command_member(shared, now, io),
                Action::Memory(task) => self.work_on_memory(shared, now, task),
                Action::Complete(completion) => self.complete(shared, now, completion),
                Action::Timer { id, at } => {
                    let slot = self.driver_slot() + 1 + id.0;
                    shared.queue.set_deadline(slot, Some(at));
                }
                Action::Keep(keep) if keep.mirrored => self.keep_at_peer(&keep),
                // A controller loses nothing from its own memory in this world but with itself, and storing so few bytes
                // there takes no time that counts.
                Action::Keep(_) => {}
                Action::Notice(notice) => {
                    if let Some(notices) = &mut self.notices {
                        notices.push_back(notice);
                    }
                }
            }
        }
        self.send_kept(shared, now);
        if let Some(times) = self.times.get() {
            times.settle();
        }
    }

    /// [`Volume::pump`] where it is not worth to have it in place.
    #[cold]
    #[inline(never)]
    pub(super) fn pump_seldom(&mut self, shared: &mut Shared<'_>) {
        self.pump(shared);
    }

    /// Sends the entries of the directory that are new, in one message, to the other controller. Writes are answered when
    /// it is there.
    #[inline]
    fn send_kept(&mut self, shared: &mut Shared<'_>, now: Nanos) {
        if self.unsent_kept != ByteCount::ZERO {
            let bytes = core::mem::take(&mut self.unsent_kept);
            let end = shared.hardware.serve_mirror(now, now, self.owner, bytes);
            self.kept_at = self.kept_at.max(end);
        }
    }

    #[inline]
    fn work_on_memory(&mut self, shared: &mut Shared<'_>, now: Nanos, task: MemoryTask) {
        let model = shared.hardware.model;
        let visit = match (self.stripes, &model.md, &mut shared.hardware.head(self.owner).stripe_threads) {
            (Some(volume), Some(md), Some(threads)) => {
                Some(threads.serve_task(now, (model, md), volume, &task))
            }
            _ => None,
        };
        let end = match visit {
            Some(visit) => {
                let bytes = ByteCount(task.bytes_in + task.bytes_out);
                visit.end.max(shared.hardware.pass_memory(now, self.owner, bytes))
            }
            None => shared.hardware.serve_memory(now, self.owner, &task),
        };
        if end == now {
            self.memory_done(now, task.id);
        } else {
            if let Some(times) = self.times.get() {
                let none = |end| Visit { station: Station::MirrorLink, now: end, span: NanoSpan::ZERO, end };
                let visits = match visit {
                    Some(visit) => [Visit { end, ..visit }, none(end)],
                    None => shared.hardware.memory_visits(now, end, &task),
                };
                times.compute(task.id, visits);
            }
            shared.queue.push(end, self.event(Step::MemoryDone, task.id.0));
        }
    }

    #[inline]
    fn memory_done(&mut self, now: Nanos, id: MemoryTaskId) {
        self.controller.handle_memory_completion(now, id);
    }

    #[inline(never)]
    fn command_member(&mut self, shared: &mut Shared<'_>, now: Nanos, io: MemberIo) {
        self.member_ios.insert(io, self.block_size);
        let kind = kind_of(io.op);
        let bytes = self.member_ios.bytes(io.id);
        let visit = if let Some(visit) = self.serve_by_stripe_threads(shared, now, &io) {
            return self.plug_in(shared, &io, visit);
        } else {
            let path = self.path_of(shared, &io);
            let span = shared.hardware.model.member_command_cost(path, kind, bytes)
                + shared.hardware.remote_cost(&io);
            let end = shared.hardware.head(self.owner).command(now, span);
            Visit { station: Station::Processors, now, span, end }
        };
        let end = visit.end;
        if let Some(times) = self.times.get() {
            times.command(io.id, visit);
        }
        if end == now {
            self.enqueue(shared, now, io.id);
        } else {
            shared.queue.push(end, self.event(Step::MemberCommand, io.id.0));
        }
    }

    /// Has md's stripe threads make a member command, if that is theirs: what the host reads within a chunk is not.
    #[inline]
    fn serve_by_stripe_threads(
        &mut self,
        shared: &mut Shared<'_>,
        now: Nanos,
        io: &MemberIo,
    ) -> Option<Visit> {
        let stripes = self.stripes?;
        if matches!(io.op, MemberOp::Flush | MemberOp::Discard)
            || (io.area == Area::Metadata && !stripes.has_write_log)
        {
            return None;
        }
        self.segments.clear();
        // A unit of a write log is of pages that are there already, and its write carries no bytes in this world.
        if io.area == Area::Data {
            self.controller.member_io_segments(io.id, &mut self.segments);
        }
        let is_hosts = self.segments.iter().all(|it| matches!(it.buffer.space, BufferSpace::Host(_)));
        let stripe_io = match io.op {
            MemberOp::Write { .. } if io.area == Area::Metadata => StripeIo::WriteParity,
            MemberOp::Read if is_hosts => return None,
            MemberOp::Read => StripeIo::Read,
            _ if is_hosts => StripeIo::WriteData,
            _ => StripeIo::WriteParity,
        };
        let (model, bytes) = (shared.hardware.model, self.block_size.bytes_of(io.blocks));
        let md = model.md.as_ref()?;
        let (remote, is_copied) =
            (shared.hardware.remote_cost(io), stripe_io == StripeIo::WriteData && !md.skip_copy);
        let threads = shared.hardware.head(self.owner).stripe_threads.as_mut()?;
        let visit = threads.serve_io(now, (model, md), (stripe_io, bytes, remote));
        // A copy reads and writes each byte.
        let copied = if is_copied { bytes + bytes } else { ByteCount::ZERO };
        let end = visit.end.max(shared.hardware.pass_memory(now, self.owner, copied));
        Some(Visit { end, ..visit })
    }

    /// The way of a member command through the firmware. What is cut through is a host command that one command to a member
    /// serves, or one to each copy: one that lies within a strip, and changes no parity.
    ///
    /// Source: Linux, `drivers/scsi/megaraid/megaraid_sas_fp.c`, `MR_BuildRaidContext`, for the maker's next controllers: a
    /// command takes the fast path only where it touches one strip (`num_strips == 1`), unless the firmware's map of the volume
    /// allows more (`fpReadAcrossStripe`, `fpWriteAcrossStripe`), which is not modelled.
    #[inline]
    fn path_of(&mut self, shared: &Shared<'_>, io: &MemberIo) -> MemberPath {
        if !self.passes_through || shared.hardware.model.cut_through.is_none() {
            return MemberPath::Firmware;
        }
        let may_be_direct = match io.op {
            MemberOp::Read => true,
            MemberOp::Write { .. } => !self.has_parity,
            MemberOp::Flush | MemberOp::Discard => false,
        };
        if !may_be_direct {
            return MemberPath::Firmware;
        }
        self.segments.clear();
        self.controller.member_io_segments(io.id, &mut self.segments);
        let bytes = self.block_size.bytes_of(io.blocks);
        // What is read to change parity goes elsewhere.
        let is_all_of = |segment: &Segment| match segment.buffer.space {
            BufferSpace::Host(tag) => u64::from(self.host_ios[tag.0 as usize].bytes) == bytes.0,
            _ => false,
        };
        if self.segments.iter().all(is_all_of) { MemberPath::CutThrough } else { MemberPath::Firmware }
    }

    // The members' side.

    /// Ends what waits for a member that was pulled.
    pub(super) fn fail_line(&mut self, now: Nanos, member: MemberIndex) {
        while let Some(id) = self.members[member.index()].pop_line(&self.member_ios) {
            self.end_member_io(now, id);
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, shared: &mut Shared<'_>, now: Nanos, id: MemberIoId) {
        let member = self.member_ios.get(id).member.0;
        if self.members[usize::from(member)].is_gone {
            return self.end_member_io(now, id);
        }
        self.members[usize::from(member)].enqueue(&mut self.member_ios, id);
        self.admit(shared, now, member);
    }

    /// Sends waiting commands on their way while the drive has room.
    #[inline]
    fn admit(&mut self, shared: &mut Shared<'_>, now: Nanos, member: u16) {
        while let Some(id) = self.members[usize::from(member)].admit(now, &self.member_ios) {
            if let Some(times) = self.times.get() {
                self.member_ios.merged(id).for_each(|id| times.admit(id, now));
            }
            if let Some(fabric) = shared.hardware.model.fabric {
                self.send_over(fabric, shared, now, id);
                continue;
            }
            let io = self.member_ios.get(id);
            if !matches!(io.op, MemberOp::Write { .. }) {
                self.start_drive(shared, now, id);
                continue;
            }
            let bytes = self.member_ios.bytes(id);
            let span = shared.hardware.model.member_write_time(bytes);
            let end = shared.hardware.member_link(self.owner).serve(now, span);
            let end = end.max(self.pass_host(shared, now, id));
            self.follow_transfer(id, Visit { station: Station::MemberLink, now, span, end });
            if end == now {
                self.start_drive(shared, now, id);
            } else {
                shared.queue.push(end, self.event(Step::MemberDataIn, id.0));
            }
        }
    }

    /// Sends a command to a drive behind a network: the initiator's processor makes it, a write's data pass the link, and it
    /// is on its way for a while that nobody else waits for.
    #[cold]
    fn send_over(&mut self, fabric: FabricModel, shared: &mut Shared<'_>, now: Nanos, id: MemberIoId) {
        let (kind, bytes) = (kind_of(self.member_ios.get(id).op), self.member_ios.bytes(id));
        let span = fabric.initiator.of(kind, bytes);
        let made = shared.hardware.head(self.owner).command(now, span);
        self.follow_transfer(id, Visit { station: Station::Processors, now, span, end: made });
        let (span, passed) = if kind == HostOpKind::Write {
            let span = shared.hardware.model.member_write_time(bytes);
            let passed = shared.hardware.member_link(self.owner).serve_when_ready(now, made, span);
            (span, passed.max(self.pass_host(shared, now, id)))
        } else {
            (NanoSpan::ZERO, made)
        };
        let (span, end) = (span + fabric.outward(), passed + fabric.outward());
        self.follow_transfer(id, Visit { station: Station::MemberLink, now: made, span, end });
        shared.queue.push(end, self.event(Step::MemberDataIn, id.0));
    }

    /// A command's data pass the host on their way between a drive and its memory; returns when they have.
    #[inline]
    fn pass_host(&self, shared: &mut Shared<'_>, now: Nanos, id: MemberIoId) -> Nanos {
        if shared.hardware.model.host.is_none() {
            return now;
        }
        let io = self.member_ios.get(id);
        let data = (self.member_ios.bytes(id), io.op != MemberOp::Read, shared.hardware.is_remote(io));
        shared.hardware.pass_host(now, self.owner, data)
    }

    /// Notes where the time of a command goes on its way, if that is asked.
    #[inline]
    fn follow_transfer(&mut self, id: MemberIoId, visit: Visit) {
        if let Some(times) = self.times.get() {
            self.member_ios.merged(id).for_each(|id| times.transfer(id, visit));
        }
    }

    #[inline]
    fn start_drive(&mut self, shared: &mut Shared<'_>, now: Nanos, id: MemberIoId) {
        let metadata_blocks = self.controller.metadata_blocks();
        let places = Places { block_size: self.block_size, metadata_blocks };
        let io = self.member_ios.get(id);
        let member = io.member.0;
        self.members[usize::from(member)].start(now, io, places, self.life);
        self.settle_drive(shared, now, u32::from(member));
    }

    /// Takes what the drive has finished, fills its room, and notes when it wants to be woken.
    #[inline]
    fn settle_drive(&mut self, shared: &mut Shared<'_>, now: Nanos, member: u32) {
        let mut finished = false;
        while let Some((id, life)) = self.members[member as usize].poll_completion() {
            finished = true;
            let ios = if life == self.life { &self.member_ios } else { &self.abandoned };
            self.members[member as usize].free_room(now, ios.bytes(id));
            if let Some(times) = self.times.get() {
                let spent = self.members[member as usize].poll_times();
                if life == self.life {
                    self.member_ios.merged(id).for_each(|id| times.leave_drive(id, now, spent));
                }
            }
            if life == self.life {
                self.finish_member(shared, now, id);
            }
        }
        let at = self.members[member as usize].poll_deadline();
        shared.queue.set_deadline(self.first_slot + member, at);
        if finished {
            self.admit(shared, now, member as u16);
        }
    }

    #[inline]
    fn finish_member(&mut self, shared: &mut Shared<'_>, now: Nanos, id: MemberIoId) {
        let io = self.member_ios.get(id);
        let fabric = shared.hardware.model.fabric;
        if io.op != MemberOp::Read && fabric.is_none() {
            return self.end_member_io(now, id);
        }
        let (mut span, mut end) = (NanoSpan::ZERO, now);
        if io.op == MemberOp::Read {
            span = shared.hardware.model.member_read_time(self.member_ios.bytes(id));
            end = shared.hardware.member_link(self.owner).serve(now, span);
            end = end.max(self.pass_host(shared, now, id));
        }
        if let Some(fabric) = fabric {
            (span, end) = (span + fabric.homeward(), end + fabric.homeward());
        }
        self.follow_transfer(id, Visit { station: Station::MemberLink, now, span, end });
        if end == now {
            self.end_member_io(now, id);
        } else {
            shared.queue.push(end, self.event(Step::MemberDataOut, id.0));
        }
    }

    /// Tells the controller that a member I/O has ended: well, unless the member has been pulled.
    #[inline]
    fn end_member_io(&mut self, now: Nanos, id: MemberIoId) {
        let MemberIo { member, class, .. } = *self.member_ios.get(id);
        let member = usize::from(member.0);
        let result = if self.members[member].is_gone { Err(MemberError::Gone) } else { Ok(()) };
        let mut next = Some(id);
        while let Some(id) = next {
            next = self.member_ios.next_merged(id);
            if let Some(times) = self.times.get() {
                times.end_io(id, class, now);
            }
            self.controller.handle_member_completion(now, id, result);
        }
    }
}

/// What a member command is to whoever makes it.
const fn kind_of(op: MemberOp) -> HostOpKind {
    match op {
        MemberOp::Read => HostOpKind::Read,
        MemberOp::Write { .. } => HostOpKind::Write,
        MemberOp::Flush | MemberOp::Discard => HostOpKind::Flush,
    }
}
