//! The members' side of the world: takes the controller's actions, and carries them out in the order of the seed.

use super::checkers::protocol::{Access, Use, task_accesses};
use super::flights::{FinishOrder, Flight, Work};
use super::members::Presence;
use super::trace::TraceEvent;
use super::violation::Failure;
use super::world::TortureWorld;
use raidlab_controller::{Action, Area, MemberError, MemberIo, MemberOp, MemoryKind, MemoryTask, TimerId};
use raidlab_units::Nanos;

impl TortureWorld {
    /// Takes all actions that the controller has to hand out.
    pub(super) fn pump(&mut self) -> Result<(), Failure> {
        while !self.moments.is_sprung
            && let Some(action) = self.controller.poll_action()
        {
            self.note(TraceEvent::Action(action));
            match action {
                Action::Member(io) => self.issue_member(io)?,
                Action::Memory(task) => self.issue_memory(task)?,
                Action::Complete(completion) => self.complete(completion)?,
                Action::Timer { id, at } => self.timers[id.0 as usize] = Some(at),
                Action::Keep(keep) => self.memories.keep(&keep),
                Action::Notice(notice) => self.take_notice(notice)?,
            }
            if self.moments.may_spring {
                self.look_at_action(&action);
            }
        }
        Ok(())
    }

    fn issue_member(&mut self, io: MemberIo) -> Result<(), Failure> {
        self.report.member_ios += 1;
        if !self.absence.late.is_empty() {
            self.drop_late(&io);
        }
        let (entry, mut flight) = self.flights.blank();
        flight.work = Work::Member(io);
        if io.op == MemberOp::Flush {
            let device = &self.devices[usize::from(io.member.0)];
            flight.mark = [device.data.mark(), device.metadata.mark()];
        } else {
            self.controller.member_io_segments(io.id, &mut flight.segments);
            self.member_accesses(&io, &mut flight)?;
            if io.area == Area::Metadata {
                self.look_at_records(&io, &mut flight).map_err(|violation| self.failure(violation))?;
            }
        }
        self.claim(&mut flight, Action::Member(io))?;
        self.flights.put(entry, flight);
        Ok(())
    }

    fn issue_memory(&mut self, task: MemoryTask) -> Result<(), Failure> {
        let (entry, mut flight) = self.flights.blank();
        flight.work = Work::Memory(task);
        if task.kind == MemoryKind::Digest {
            self.controller.digest_rows(task.id, &mut flight.segments);
            let rows = flight.segments.iter();
            flight.accesses.extend(rows.map(|it| Access::memory(it.buffer, it.bytes, Use::Read)));
        } else {
            self.controller.memory_steps(task.id, &mut flight.steps);
            task_accesses(task.kind, &flight.steps, &mut flight.accesses);
        }
        self.claim(&mut flight, Action::Memory(task))?;
        self.flights.put(entry, flight);
        Ok(())
    }

    // What finishes.

    pub(super) fn next_timer(&self) -> Option<(TimerId, Nanos)> {
        let set = |(index, at): (usize, &Option<Nanos>)| at.map(|at| (TimerId(index as u32), at));
        self.timers.iter().enumerate().filter_map(set).min_by_key(|(_, at)| *at)
    }

    pub(super) fn fire(&mut self, timer: TimerId, at: Nanos) -> Result<(), Failure> {
        self.now = self.now.max(at);
        self.tick(TraceEvent::TimerDue(timer, at));
        self.timers[timer.0 as usize] = None;
        self.controller.handle_timer(self.now, timer);
        self.pump()
    }

    pub(super) fn finish_one(&mut self) -> Result<(), Failure> {
        let order = self.absence.hung.map_or(self.order, |hung| FinishOrder::Silent(hung.member));
        let index = self.flights.pick(order, &mut self.random);
        let (entry, flight) = self.flights.take(index);
        self.claims.release(&flight.accesses);
        match flight.work {
            Work::Member(io) => {
                let result = self.carry_out(&io, &flight);
                self.flights.give(entry, flight);
                self.tick(TraceEvent::MemberDone(io.id, result));
                self.controller.handle_member_completion(self.now, io.id, result);
            }
            Work::Memory(task) => {
                self.tick(TraceEvent::MemoryDone(task.id));
                self.finish_memory(&task, &flight);
                self.flights.give(entry, flight);
            }
            Work::Idle => unreachable!("an idle entry is not in flight"),
        }
        self.pump()
    }

    fn finish_memory(&mut self, task: &MemoryTask, flight: &Flight) {
        if task.kind == MemoryKind::Digest {
            let row_bytes = self.config.block_size.bytes() as usize;
            self.memories.digests(
                self.controller.own_memory(),
                &flight.segments,
                row_bytes,
                &mut self.digests,
            );
            self.controller.handle_digests(self.now, task.id, &self.digests);
        } else {
            self.memories.execute(self.controller.own_memory(), &flight.steps);
            self.controller.handle_memory_completion(self.now, task.id);
        }
    }

    fn carry_out(&mut self, io: &MemberIo, flight: &Flight) -> Result<(), MemberError> {
        if self.devices[usize::from(io.member.0)].presence == Presence::Gone || flight.is_cut_off {
            if flight.is_done_all_the_same {
                self.write_all_the_same(io, &flight.segments);
            }
            return Err(MemberError::Gone);
        }
        if matches!(io.op, MemberOp::Write { .. }) && io.area == Area::Data {
            self.note_lost_rows(io);
            if !self.armed.is_empty() && self.lie_about(io, flight) {
                return Ok(());
            }
        }
        if let Presence::Doomed(doom) = self.devices[usize::from(io.member.0)].presence
            && doom.meets(io.op)
        {
            self.fail_as_doomed(doom, io, flight);
            return Err(MemberError::Medium);
        }
        if (!self.media.failing_reads.is_empty() && self.fails_once(io)) || self.meets_outage(io) {
            return Err(MemberError::Medium);
        }
        let device = &mut self.devices[usize::from(io.member.0)];
        match io.op {
            MemberOp::Read => {
                let area = device.area_mut(io.area);
                let bytes = area.read(io.lba.0, io.blocks.0).ok_or(MemberError::Medium)?;
                self.memories.scatter(self.controller.own_memory_mut(), bytes, &flight.segments);
            }
            MemberOp::Write { fua } => {
                let area = device.area_mut(io.area);
                let bytes = area.write(io.lba.0, io.blocks.0, fua);
                self.memories.gather(self.controller.own_memory(), bytes, &flight.segments);
                match io.area {
                    Area::Data => self.note_written(io),
                    Area::Metadata => {
                        self.write_tail(io);
                        self.note_metadata_written(flight);
                    }
                }
            }
            MemberOp::Flush => {
                let [data, metadata] = flight.mark;
                device.data.flush(data);
                device.metadata.flush(metadata);
                device.tail_before.clear();
            }
            // A hint, which these devices have no use for: what the host has written must stay.
            MemberOp::Discard => {}
        }
        Ok(())
    }

    /// Has the controller pass discards on, where devices take them.
    pub(super) fn take_discards(&mut self) {
        if self.members_discard {
            self.controller.pass_discards();
        }
    }
}

/// The first `bytes` of the segments.
pub(super) fn cut(
    segments: &[raidlab_controller::Segment],
    mut bytes: u64,
) -> Vec<raidlab_controller::Segment> {
    let mut front = Vec::new();
    for segment in segments {
        let len = segment.bytes.min(bytes);
        bytes -= len;
        front.push(raidlab_controller::Segment { bytes: len, ..*segment });
    }
    front
}
