//! The members' side of the world: issues the controller's actions, and finishes them in the order of the seed.

use super::memory::{Access, Place, task_accesses};
use super::violation::{Failure, TraceEvent, Violation};
use super::world::ByteWorld;
use raidlab_controller::{
    Action, MemberError, MemberIo, MemberOp, MemoryKind, MemorySteps, MemoryTask, Notice, Segment,
};
use raidlab_controller::{MemberCache, TimerId};
use raidlab_units::{Lba, MemberIndex, Nanos};
use raidlab_workload::Rng;

/// An action in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    action: Action,
    segments: Vec<Segment>,
    steps: MemorySteps,
    pub(super) accesses: Vec<Access>,
}

/// In which order actions in flight finish.
#[derive(Clone, Copy, Debug)]
pub(super) enum FinishOrder {
    Any,
    OldestFirst,
    NewestFirst,
    /// One member answers last.
    SlowMember(MemberIndex),
    /// Memory work is done last.
    SlowMemory,
}

impl FinishOrder {
    pub(super) fn draw(random: &mut Rng, members: u16) -> Self {
        match random.below(8) {
            0 => Self::OldestFirst,
            1 => Self::NewestFirst,
            2 | 3 => Self::SlowMember(MemberIndex(random.below(u64::from(members)) as u16)),
            4 => Self::SlowMemory,
            _ => Self::Any,
        }
    }
}

impl ByteWorld {
    pub(super) fn pump(&mut self) -> Result<(), Failure> {
        while let Some(action) = self.controller.poll_action() {
            self.note(TraceEvent::Action(action));
            match action {
                Action::Member(io) => self.issue_member(io)?,
                Action::Memory(task) => self.issue_memory(task)?,
                Action::Complete(completion) => self.complete(completion)?,
                Action::Timer { id, at } => self.set_timer(id, at),
                Action::Keep(_) => {}
                Action::Notice(notice) => self.take_notice(notice)?,
            }
        }
        Ok(())
    }

    fn issue_member(&mut self, io: MemberIo) -> Result<(), Failure> {
        let block_bytes = self.config.block_size.bytes();
        let (mut segments, mut accesses) = (Vec::new(), Vec::new());
        if io.op != MemberOp::Flush {
            self.controller.member_io_segments(io.id, &mut segments);
            let reads = io.op == MemberOp::Read;
            accesses.extend(segments.iter().map(|it| Access::memory(it.buffer, it.bytes, reads)));
            let whole = Access {
                place: Place::Member(io.member),
                start_bytes: io.lba.0 * block_bytes,
                len_bytes: io.blocks.0 * block_bytes,
                writes: !reads,
            };
            accesses.push(whole);
            let segment_bytes = segments.iter().map(|segment| segment.bytes).sum::<u64>();
            if segment_bytes != whole.len_bytes || whole.len_bytes == 0 {
                let action = Action::Member(io);
                let violation = Violation::Malformed { action, access: whole, limit_bytes: segment_bytes };
                return Err(self.failure(violation));
            }
        }
        let steps = MemorySteps::default();
        self.issue(InFlight { action: Action::Member(io), segments, steps, accesses })
    }

    fn issue_memory(&mut self, task: MemoryTask) -> Result<(), Failure> {
        let (mut steps, mut accesses) = (MemorySteps::default(), Vec::new());
        self.controller.memory_steps(task.id, &mut steps);
        task_accesses(&steps, &mut accesses);
        self.issue(InFlight { action: Action::Memory(task), segments: Vec::new(), steps, accesses })
    }

    /// Checks what a new action accesses and puts it in flight.
    fn issue(&mut self, new: InFlight) -> Result<(), Failure> {
        let action = new.action;
        if self.in_flight.iter().any(|old| same_name(&old.action, &action)) {
            return Err(self.failure(Violation::NameInUse { action }));
        }
        let shape = self.layout.shape();
        let redundant = shape.copies > 1 || shape.parities > 0;
        for access in &new.accesses {
            let limit_bytes = match access.place {
                Place::Memory(space) => self.memories.len_bytes(space),
                Place::Member(member) => {
                    self.members.get(usize::from(member.0)).map_or(0, |member| member.bytes.len() as u64)
                }
            };
            if access.start_bytes + access.len_bytes > limit_bytes {
                return Err(self.failure(Violation::Malformed { action, access: *access, limit_bytes }));
            }
            for old in self.in_flight.iter().filter(|old| !(is_copy(&old.action) && is_copy(&action))) {
                let conflict = old.accesses.iter().find(|other| access.conflicts(other, redundant));
                if let Some(other_access) = conflict {
                    let (access, other, other_access) = (*access, old.action, *other_access);
                    return Err(self.failure(Violation::Conflict { action, access, other, other_access }));
                }
            }
        }
        self.in_flight.push(new);
        Ok(())
    }

    fn set_timer(&mut self, id: TimerId, at: Nanos) {
        let index = id.0 as usize;
        if index >= self.timers.len() {
            self.timers.resize(index + 1, None);
        }
        self.timers[index] = Some(at);
    }

    fn take_notice(&mut self, notice: Notice) -> Result<(), Failure> {
        let Notice::WriteLost { lba, blocks } = notice else { return Ok(()) };
        if !self.stripes().is_range_failed(&self.members, lba, blocks) {
            return Err(self.failure(Violation::NeedlessLoss { lba }));
        }
        (lba.0..lba.0 + blocks.0).for_each(|lba| self.volume.lose(Lba(lba)));
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
        let index = self.pick();
        let done = self.in_flight.remove(index);
        match done.action {
            Action::Member(io) => {
                let result = self.carry_out(&io, &done.segments);
                self.tick(TraceEvent::MemberDone(io.id, result));
                self.controller.handle_member_completion(self.now, io.id, result);
            }
            Action::Memory(task) => {
                self.memories.execute(&done.steps);
                self.tick(TraceEvent::MemoryDone(task.id));
                self.controller.handle_memory_completion(self.now, task.id);
            }
            other => unreachable!("{other:?} is never in flight"),
        }
        self.pump()
    }

    fn carry_out(&mut self, io: &MemberIo, segments: &[Segment]) -> Result<(), MemberError> {
        let block_bytes = self.config.block_size.bytes() as usize;
        let member = &mut self.members[usize::from(io.member.0)];
        if member.is_lost() {
            return Err(MemberError::Gone);
        }
        let start = io.lba.0 as usize * block_bytes;
        let range = start..start + io.blocks.0 as usize * block_bytes;
        let blocks = io.lba.0..io.lba.0 + io.blocks.0;
        let write_through = self.config.member_cache == MemberCache::Off;
        match io.op {
            MemberOp::Read if member.bad_blocks.range(blocks.clone()).next().is_some() => {
                return Err(MemberError::Medium);
            }
            MemberOp::Read => self.memories.scatter(&member.bytes[range], segments),
            MemberOp::Write { fua } => {
                self.memories.gather(&mut member.bytes[range.clone()], segments);
                member.bad_blocks.retain(|block| !blocks.contains(block));
                if fua || write_through {
                    member.durable[range.clone()].copy_from_slice(&member.bytes[range]);
                }
            }
            MemberOp::Flush => member.durable.copy_from_slice(&member.bytes),
        }
        Ok(())
    }

    /// Picks the next action to finish, as the run's order has it; now and then any.
    fn pick(&mut self) -> usize {
        let count = self.in_flight.len();
        let any = self.random.below(count as u64) as usize;
        let is_slow = |order: FinishOrder, it: &InFlight| match (order, it.action) {
            (FinishOrder::SlowMember(slow), Action::Member(io)) => io.member == slow,
            (FinishOrder::SlowMemory, Action::Memory(_)) => true,
            _ => false,
        };
        if self.random.chance_pct(3) {
            return any;
        }
        match self.order {
            FinishOrder::OldestFirst => 0,
            FinishOrder::NewestFirst => count - 1,
            order => {
                let round = (any..count).chain(0..any);
                round.clone().find(|index| !is_slow(order, &self.in_flight[*index])).unwrap_or(any)
            }
        }
    }
}

fn is_copy(action: &Action) -> bool {
    matches!(action, Action::Memory(task) if task.kind == MemoryKind::Copy)
}

fn same_name(old: &Action, new: &Action) -> bool {
    match (old, new) {
        (Action::Member(old), Action::Member(new)) => old.id == new.id,
        (Action::Memory(old), Action::Memory(new)) => old.id == new.id,
        _ => false,
    }
}
