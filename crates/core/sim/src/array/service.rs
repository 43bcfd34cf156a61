//! One volume at work: what the hosts, the controller and the members do to each other, and which resource is asked for
//! how long. Everything in here is per I/O.

use super::event::{Event, Step};
use super::head::Hardware;
use super::members::Places;
use super::volume::{Phase, Volume};
use crate::queue::EventQueue;
use raidlab_controller::{Action, HostCompletion, HostOp, HostRequest, HostTag, Keep};
use raidlab_controller::{MemberIo, MemberIoId, MemberOp, MemoryTask, MemoryTaskId, TimerId};
use raidlab_hardware::HostOpKind;
use raidlab_units::{ByteCount, Lba, Nanos};
use raidlab_workload::{DriverIo, DriverStep, IoOp};
use std::cmp::Ordering;

/// A volume with what it works with, for the time of one event.
pub(super) struct Service<'w, 'a> {
    pub(super) volume: &'w mut Volume,
    pub(super) hardware: &'w mut Hardware<'a>,
    pub(super) queue: &'w mut EventQueue<Event>,
}

impl Service<'_, '_> {
    #[inline]
    pub(super) fn handle_event(&mut self, now: Nanos, event: Event) {
        if event.life != self.volume.life {
            return self.volume.drop_step(now, event);
        }
        match event.step {
            Step::HostDataIn => self.take_in(now, event.id),
            Step::HostAccepted => self.request(now, event.id),
            Step::HostAnswered { succeeded } => self.answer(now, event.id, succeeded),
            Step::MemberCommand => self.enqueue(now, event.member_io()),
            Step::MemberDataIn => self.start_drive(now, event.member_io()),
            Step::MemberDataOut => {
                self.volume.controller.handle_member_completion(now, event.member_io(), Ok(()));
            }
            Step::MemoryDone => self.memory_done(now, event.task()),
        }
    }

    #[inline]
    pub(super) fn handle_deadline(&mut self, now: Nanos, slot: u32) {
        let driver = self.volume.driver_slot();
        match slot.cmp(&driver) {
            Ordering::Less => {
                let member = slot - self.volume.first_slot;
                self.volume.members[member as usize].handle_deadline(now);
                self.settle_drive(now, member);
            }
            Ordering::Equal => self.poll_driver(now),
            Ordering::Greater => self.volume.controller.handle_timer(now, TimerId(slot - driver - 1)),
        }
    }

    // The host's side.

    /// Issues what the driver wants issued.
    #[inline]
    pub(super) fn poll_driver(&mut self, now: Nanos) {
        let wake = loop {
            match self.volume.driver.poll_step(now) {
                DriverStep::Issue(io) => {
                    self.volume.host_ios[io.slot as usize] = io;
                    if self.volume.phase == Phase::Serving {
                        self.issue(now, io);
                    }
                }
                DriverStep::WaitUntil(at) => break Some(at),
                DriverStep::WaitForCompletion => break None,
                DriverStep::Finished => {
                    self.volume.is_finished = true;
                    break None;
                }
            }
        };
        self.queue.set_deadline(self.volume.driver_slot(), wake);
    }

    /// Sends a request to the volume's controller.
    #[inline]
    pub(super) fn issue(&mut self, now: Nanos, io: DriverIo) {
        if io.op == IoOp::Read {
            return self.take_in(now, io.slot);
        }
        let span = self.hardware.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
        let end = self.hardware.head(self.volume.owner).host_link.serve(now, span);
        if end == now {
            self.take_in(now, io.slot);
        } else {
            self.queue.push(end, self.volume.event(Step::HostDataIn, io.slot));
        }
    }

    #[inline]
    fn take_in(&mut self, now: Nanos, slot: u32) {
        let io = self.volume.host_ios[slot as usize];
        let kind = match io.op {
            IoOp::Read => HostOpKind::Read,
            IoOp::Write => HostOpKind::Write,
        };
        let span = self.hardware.model.host_command_cost(kind, ByteCount(u64::from(io.bytes)));
        let end = self.hardware.head(self.volume.owner).processors.serve(now, span);
        if end == now {
            self.request(now, slot);
        } else {
            self.queue.push(end, self.volume.event(Step::HostAccepted, slot));
        }
    }

    #[inline]
    fn request(&mut self, now: Nanos, slot: u32) {
        let io = self.volume.host_ios[slot as usize];
        let block_bytes = self.volume.block_size.bytes();
        debug_assert!(io.offset_bytes.is_multiple_of(block_bytes), "the driver keeps to blocks");
        let blocks = self.volume.block_size.blocks_in(ByteCount(u64::from(io.bytes)));
        let request = HostRequest {
            tag: HostTag(slot),
            op: match io.op {
                IoOp::Read => HostOp::Read,
                IoOp::Write => HostOp::Write { fua: false },
            },
            lba: Lba(io.offset_bytes / block_bytes),
            blocks: blocks.expect("the driver keeps to blocks"),
        };
        self.volume.controller.handle_host_request(now, request);
    }

    #[inline]
    fn complete(&mut self, now: Nanos, completion: HostCompletion) {
        let slot = completion.tag.0;
        let succeeded = completion.result.is_ok();
        let io = self.volume.host_ios[slot as usize];
        let end = if io.op == IoOp::Write || !succeeded {
            self.volume.kept_at.max(now)
        } else {
            let span = self.hardware.model.host_link.transfer_time(ByteCount(u64::from(io.bytes)));
            self.hardware.head(self.volume.owner).host_link.serve(now, span)
        };
        if end == now {
            self.answer(now, slot, succeeded);
        } else {
            self.queue.push(end, self.volume.event(Step::HostAnswered { succeeded }, slot));
        }
    }

    #[inline]
    fn answer(&mut self, now: Nanos, slot: u32, succeeded: bool) {
        self.volume.host_requests += 1;
        self.volume.driver.handle_completion(now, slot, succeeded);
        self.poll_driver(now);
    }

    // The controller's actions.

    #[inline]
    pub(super) fn pump(&mut self) {
        let now = self.queue.now();
        while let Some(action) = self.volume.controller.poll_action() {
            match action {
                Action::Member(io) => self.command_member(now, io),
                Action::Memory(task) => self.work_on_memory(now, task),
                Action::Complete(completion) => self.complete(now, completion),
                Action::Timer { id, at } => {
                    let slot = self.volume.driver_slot() + 1 + id.0;
                    self.queue.set_deadline(slot, Some(at));
                }
                Action::Keep(keep) if keep.mirrored => self.keep_at_peer(now, &keep),
                // A controller loses nothing from its own memory in this world but with itself, storing so few bytes there
                // takes no time that counts, and there is nothing that an operator should know.
                Action::Keep(_) | Action::Notice(_) => {}
            }
        }
    }

    /// Sends an entry of the directory to the other controller. Writes are answered when it is there.
    fn keep_at_peer(&mut self, now: Nanos, keep: &Keep) {
        let bytes = ByteCount(keep.entry.len() as u64);
        let end = self.hardware.serve_mirror(now, now, self.volume.owner, bytes);
        self.volume.kept_at = self.volume.kept_at.max(end);
        self.volume.keep_at_peer(keep);
    }

    #[inline]
    fn work_on_memory(&mut self, now: Nanos, task: MemoryTask) {
        let end = self.hardware.serve_memory(now, self.volume.owner, &task);
        if end == now {
            self.memory_done(now, task.id);
        } else {
            self.queue.push(end, self.volume.event(Step::MemoryDone, task.id.0));
        }
    }

    #[inline]
    fn memory_done(&mut self, now: Nanos, id: MemoryTaskId) {
        self.volume.controller.handle_memory_completion(now, id);
    }

    #[inline]
    fn command_member(&mut self, now: Nanos, io: MemberIo) {
        self.volume.member_ios.insert(io);
        let kind = match io.op {
            MemberOp::Read => HostOpKind::Read,
            MemberOp::Write { .. } => HostOpKind::Write,
            MemberOp::Flush => HostOpKind::Flush,
        };
        let bytes = self.volume.block_size.bytes_of(io.blocks);
        let span = self.hardware.model.member_command_cost(kind, bytes);
        let end = self.hardware.head(self.volume.owner).processors.serve(now, span);
        if end == now {
            self.enqueue(now, io.id);
        } else {
            self.queue.push(end, self.volume.event(Step::MemberCommand, io.id.0));
        }
    }

    // The members' side.

    #[inline]
    fn enqueue(&mut self, now: Nanos, id: MemberIoId) {
        let member = self.volume.member_ios.get(id).member.0;
        self.volume.members[usize::from(member)].enqueue(&mut self.volume.member_ios, id);
        self.admit(now, member);
    }

    /// Sends waiting commands on their way while the drive has room.
    #[inline]
    fn admit(&mut self, now: Nanos, member: u16) {
        while let Some(id) = self.volume.members[usize::from(member)].admit(now, &self.volume.member_ios) {
            let io = self.volume.member_ios.get(id);
            if !matches!(io.op, MemberOp::Write { .. }) {
                self.start_drive(now, id);
                continue;
            }
            let bytes = self.volume.block_size.bytes_of(io.blocks);
            let span = self.hardware.model.member_link.transfer_time(bytes);
            let end = self.hardware.member_link(self.volume.owner).serve(now, span);
            if end == now {
                self.start_drive(now, id);
            } else {
                self.queue.push(end, self.volume.event(Step::MemberDataIn, id.0));
            }
        }
    }

    #[inline]
    fn start_drive(&mut self, now: Nanos, id: MemberIoId) {
        let metadata_blocks = self.volume.controller.metadata_blocks();
        let places = Places { block_size: self.volume.block_size, metadata_blocks };
        let io = self.volume.member_ios.get(id);
        let member = io.member.0;
        self.volume.members[usize::from(member)].start(now, io, places, self.volume.life);
        self.settle_drive(now, u32::from(member));
    }

    /// Takes what the drive has finished, fills its room, and notes when it wants to be woken.
    #[inline]
    fn settle_drive(&mut self, now: Nanos, member: u32) {
        let mut finished = false;
        while let Some((id, life)) = self.volume.members[member as usize].poll_completion(now) {
            finished = true;
            if life == self.volume.life {
                self.finish_member(now, id);
            }
        }
        let at = self.volume.members[member as usize].poll_deadline();
        self.queue.set_deadline(self.volume.first_slot + member, at);
        if finished {
            self.admit(now, member as u16);
        }
    }

    #[inline]
    fn finish_member(&mut self, now: Nanos, id: MemberIoId) {
        let io = self.volume.member_ios.get(id);
        if io.op != MemberOp::Read {
            return self.volume.controller.handle_member_completion(now, id, Ok(()));
        }
        let bytes = self.volume.block_size.bytes_of(io.blocks);
        let span = self.hardware.model.member_link.transfer_time(bytes);
        let end = self.hardware.member_link(self.volume.owner).serve(now, span);
        if end == now {
            self.volume.controller.handle_member_completion(now, id, Ok(()));
        } else {
            self.queue.push(end, self.volume.event(Step::MemberDataOut, id.0));
        }
    }
}
