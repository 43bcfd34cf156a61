//! The actions in flight, and in which order they finish.

use super::checkers::protocol::Access;
use raidlab_controller::{Area, MemberIo, MemorySteps, MemoryTask, Segment};
use raidlab_units::MemberIndex;
use raidlab_workload::Rng;

/// What is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Work {
    #[default]
    Idle,
    Member(MemberIo),
    Memory(MemoryTask),
}

/// An action in flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    pub(super) work: Work,
    /// Bytes of a member I/O, or rows of a digest task.
    pub(super) segments: Vec<Segment>,
    /// Steps of a memory task.
    pub(super) steps: MemorySteps,
    /// What it claims.
    pub(super) accesses: Vec<Access>,
    /// For a flush: how far the writes to each area of the device had come when it was asked for.
    pub(super) mark: [u64; 2],
    /// The tail of the log that a write of metadata names.
    pub(super) named_tail: u64,
    /// The device went and came back meanwhile: this ends in an error.
    pub(super) is_cut_off: bool,
    /// The device does it, though it is told to be gone.
    pub(super) is_done_all_the_same: bool,
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
    /// Writes of the state, which are below this block of the metadata, are done last.
    SlowState(u64),
    /// One member does not answer.
    Silent(MemberIndex),
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

    fn is_slow(self, work: &Work) -> bool {
        match (self, work) {
            (Self::SlowMember(slow) | Self::Silent(slow), Work::Member(io)) => io.member == slow,
            (Self::SlowMemory, Work::Memory(_)) => true,
            (Self::SlowState(end), Work::Member(io)) => io.area == Area::Metadata && io.lba.0 < end,
            _ => false,
        }
    }
}

/// All actions in flight. Entries keep what they had allocated.
#[derive(Debug, Default)]
pub(super) struct Flights {
    entries: Vec<Flight>,
    free: Vec<u32>,
    /// Entries in flight, the oldest first.
    order: Vec<u32>,
    member_names: Vec<bool>,
    task_names: Vec<bool>,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.order.iter().map(|&entry| &self.entries[entry as usize])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        let Self { entries, order, .. } = self;
        entries.iter_mut().enumerate().filter(|(entry, _)| order.contains(&(*entry as u32))).map(|it| it.1)
    }

    /// Marks the name of `work` as in use. Returns false if it is.
    pub(super) fn take_name(&mut self, work: &Work) -> bool {
        self.name(work).is_some_and(|in_use| !core::mem::replace(in_use, true))
    }

    fn name(&mut self, work: &Work) -> Option<&mut bool> {
        let (names, id) = match work {
            Work::Member(io) => (&mut self.member_names, io.id.0),
            Work::Memory(task) => (&mut self.task_names, task.id.0),
            Work::Idle => return None,
        };
        let index = id as usize;
        if index >= names.len() {
            names.resize(index + 1, false);
        }
        Some(&mut names[index])
    }

    /// An entry to fill, emptied, to be given back with [`Flights::put`] or [`Flights::give`].
    pub(super) fn blank(&mut self) -> (u32, Flight) {
        let entry = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Flight::default());
            (self.entries.len() - 1) as u32
        });
        let mut flight = core::mem::take(&mut self.entries[entry as usize]);
        flight.segments.clear();
        flight.accesses.clear();
        flight.steps.steps.clear();
        (flight.is_cut_off, flight.is_done_all_the_same, flight.named_tail) = (false, false, 0);
        (entry, flight)
    }

    /// Puts an entry in flight.
    pub(super) fn put(&mut self, entry: u32, flight: Flight) {
        self.entries[entry as usize] = flight;
        self.order.push(entry);
    }

    /// Takes what stands at `index` in the order of age out of flight; its name is free again.
    pub(super) fn take(&mut self, index: usize) -> (u32, Flight) {
        let entry = self.order.remove(index);
        let flight = core::mem::take(&mut self.entries[entry as usize]);
        if let Some(in_use) = self.name(&flight.work) {
            *in_use = false;
        }
        (entry, flight)
    }

    /// Gives an entry back that is no longer in flight.
    pub(super) fn give(&mut self, entry: u32, flight: Flight) {
        self.entries[entry as usize] = flight;
        self.free.push(entry);
    }

    /// True if something else than I/O of a member is in flight.
    pub(super) fn any_but(&self, silent: MemberIndex) -> bool {
        self.iter().any(|flight| !FinishOrder::SlowMember(silent).is_slow(&flight.work))
    }

    /// Picks the next to finish, as the run's order has it; now and then any.
    pub(super) fn pick(&self, order: FinishOrder, random: &mut Rng) -> usize {
        let count = self.order.len();
        let any = random.below(count as u64) as usize;
        match order {
            FinishOrder::Any => any,
            FinishOrder::OldestFirst
            | FinishOrder::NewestFirst
            | FinishOrder::SlowMember(_)
            | FinishOrder::SlowMemory
            | FinishOrder::SlowState(_)
                if random.chance_pct(3) =>
            {
                any
            }
            FinishOrder::OldestFirst => 0,
            FinishOrder::NewestFirst => count - 1,
            FinishOrder::SlowMember(_)
            | FinishOrder::SlowMemory
            | FinishOrder::SlowState(_)
            | FinishOrder::Silent(_) => {
                let mut round = (any..count).chain(0..any);
                let is_quick = |index: &usize| {
                    let entry = self.order[*index] as usize;
                    !order.is_slow(&self.entries[entry].work)
                };
                round.find(is_quick).unwrap_or(any)
            }
        }
    }
}
