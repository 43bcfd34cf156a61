//! Work on memory under way: copies, parity and digests, and who waits for each.
//!
//! Invariant: a task keeps its number until the end of it has been seen to, so that what comes of it begins others. Left out:
//! how parity is computed (`stripe_engine/steps.rs`).

use crate::api::{
    BufferRef, BufferSpace, HostTag, MemoryKind, MemoryStep, MemorySteps, MemoryTask, MemoryTaskId, NOWHERE,
    Segment,
};
use crate::ids::{OpId, SlotIndex};
use crate::outbox::Outbox;
use crate::table::Slab;
use raidlab_raid::code::PARITIES_MAX;

/// Who waits for a memory task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TaskOwner {
    #[default]
    Nobody,
    /// A host write into the cache.
    CopyIn { request: HostTag },
    /// A host read from the cache.
    CopyOut { request: HostTag },
    /// Parity, or recovered data, of a stripe operation.
    Parity { op: OpId },
    /// Checksums of a log record's payload.
    Record { sequence: u64 },
    /// Checksums of rows that are compared with those of a record.
    Replay,
    /// Parity that is made by a record.
    ReplayParity,
    /// A log record on its way to NVRAM.
    NvramRecord { sequence: u64 },
    /// The label of NVRAM.
    NvramLabel,
    /// Digests by which an operation compares.
    Digest { op: OpId },
    /// Checksums of blocks that are read or written with theirs.
    Checksums { check: u32 },
}

/// One contiguous copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: BufferRef,
    pub(crate) to: BufferRef,
    pub(crate) bytes: u64,
}

/// What a copy into the cache makes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) slot: SlotIndex,
    pub(crate) valid: u64,
    pub(crate) dirty: u64,
    /// Completes what the slot takes over from its shadow.
    pub(crate) replaces: bool,
}

/// A memory task under way.
#[derive(Debug, Default)]
struct TaskState {
    owner: TaskOwner,
    /// Copies, in order.
    moves: Vec<Move>,
    /// Copies that go into the second controller's memory, too.
    mirrored: Vec<Move>,
    /// Slots that the copies go into.
    arrivals: Vec<Arrival>,
    /// Slots that the copies come from.
    pinned: Vec<SlotIndex>,
    /// Rows to digest, one behind the other.
    rows: Vec<Segment>,
}

/// The memory tasks under way.
#[derive(Debug)]
pub(crate) struct MemoryTasks {
    tasks: Slab<TaskState>,
}

impl MemoryTasks {
    pub(crate) const fn new() -> Self {
        Self { tasks: Slab::new() }
    }

    /// True when none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.in_use() == 0
    }

    /// Asks for parity work.
    pub(crate) fn start_parity(
        &mut self,
        owner: TaskOwner,
        (bytes_in, bytes_out): (u64, u64),
        outbox: &mut Outbox,
    ) {
        let id = self.tasks.take();
        self.tasks[id].owner = owner;
        outbox.memory(MemoryTask { id: MemoryTaskId(id), kind: MemoryKind::Parity, bytes_in, bytes_out });
    }

    /// Takes a task to collect copies in; [`MemoryTasks::start_copies`] asks for it.
    pub(crate) fn new_copies(&mut self, owner: TaskOwner) -> u32 {
        let id = self.tasks.take();
        let task = &mut self.tasks[id];
        task.owner = owner;
        task.moves.clear();
        task.mirrored.clear();
        task.arrivals.clear();
        task.pinned.clear();
        id
    }

    /// Adds a copy; into the second controller's memory, too, where it is `mirrored`.
    pub(crate) fn add_copy(&mut self, id: u32, copy: Move, mirrored: bool) {
        let task = &mut self.tasks[id];
        let copies = if mirrored { &mut task.mirrored } else { &mut task.moves };
        copies.push(copy);
    }

    /// Notes that copies come from a slot, which the caller has pinned until the task ends.
    pub(crate) fn add_pin(&mut self, id: u32, slot: SlotIndex) {
        self.tasks[id].pinned.push(slot);
    }

    /// Notes what a copy makes of a slot.
    pub(crate) fn add_arrival(&mut self, id: u32, arrival: Arrival) {
        self.tasks[id].arrivals.push(arrival);
    }

    /// Asks for the copies collected in a task.
    pub(crate) fn start_copies(&mut self, id: u32, outbox: &mut Outbox) {
        let sum = |copies: &[Move]| copies.iter().map(|copy| copy.bytes).sum::<u64>();
        let mirrored = sum(&self.tasks[id].mirrored);
        let bytes_in = sum(&self.tasks[id].moves) + mirrored;
        let kind = MemoryKind::Copy;
        outbox.memory(MemoryTask { id: MemoryTaskId(id), kind, bytes_in, bytes_out: bytes_in + mirrored });
    }

    /// Takes a task to collect rows to digest in; [`MemoryTasks::start_digest`] asks for it.
    pub(crate) fn new_digest(&mut self, owner: TaskOwner) -> u32 {
        let id = self.new_copies(owner);
        self.tasks[id].rows.clear();
        id
    }

    /// Adds the steps of the copies of a task.
    pub(crate) fn copy_steps(&self, id: u32, out: &mut MemorySteps) {
        for copy in &self.tasks[id].moves {
            out.copy(copy, &[copy.to]);
        }
        for copy in &self.tasks[id].mirrored {
            let space = match copy.to.space {
                BufferSpace::Cache => BufferSpace::PeerCache,
                BufferSpace::NvramLog => BufferSpace::PeerNvramLog,
                other => unreachable!("{other:?} is not mirrored"),
            };
            let peer = BufferRef { space, ..copy.to };
            out.copy(copy, &[copy.to, peer]);
        }
    }

    /// Adds blocks to a digest.
    pub(crate) fn add_rows(&mut self, id: u32, rows: Segment) {
        push_joined(&mut self.tasks[id].rows, rows);
    }

    /// Asks for the digests of the rows collected in a task.
    pub(crate) fn start_digest(&mut self, id: u32, outbox: &mut Outbox) {
        let bytes: u64 = self.tasks[id].rows.iter().map(|rows| rows.bytes).sum();
        let kind = MemoryKind::Digest;
        outbox.memory(MemoryTask { id: MemoryTaskId(id), kind, bytes_in: bytes, bytes_out: 0 });
    }

    /// Who waits for a task (that somebody does is asserted).
    pub(crate) fn owner(&self, id: u32) -> TaskOwner {
        let owner = self.tasks[id].owner;
        assert!(owner != TaskOwner::Nobody, "memory task {id} is not under way");
        owner
    }

    /// The rows of a digest.
    pub(crate) fn rows(&self, id: u32) -> &[Segment] {
        &self.tasks[id].rows
    }

    /// Takes in the end of a task (asserted to be under way), and returns its owner. Its number stays taken until
    /// [`MemoryTasks::give`].
    pub(crate) fn end(&mut self, id: u32) -> TaskOwner {
        let owner = self.owner(id);
        self.tasks[id].owner = TaskOwner::Nobody;
        owner
    }

    /// Takes the slots that the copies of a task came from, in order.
    pub(crate) fn take_pins(&mut self, id: u32) -> Vec<SlotIndex> {
        core::mem::take(&mut self.tasks[id].pinned)
    }

    /// Takes back the list of slots of a task that has ended, for the next.
    pub(crate) fn return_pins(&mut self, id: u32, pins: Vec<SlotIndex>) {
        self.tasks[id].pinned = pins;
    }

    /// Takes what the copies of a task made of slots.
    pub(crate) fn take_arrivals(&mut self, id: u32) -> Vec<Arrival> {
        core::mem::take(&mut self.tasks[id].arrivals)
    }

    /// Takes back the list of arrivals of a task that has ended, for the next.
    pub(crate) fn return_arrivals(&mut self, id: u32, arrivals: Vec<Arrival>) {
        self.tasks[id].arrivals = arrivals;
    }

    /// Lets the number of a task that has ended be used again.
    pub(crate) fn give(&mut self, id: u32) {
        self.tasks.give(id);
    }
}

impl MemorySteps {
    /// Forgets all steps.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.sources.clear();
        self.coefficients.clear();
    }

    fn copy(&mut self, copy: &Move, to: &[BufferRef]) {
        self.begin(copy.bytes, to, false);
        self.sources.push(copy.from);
        self.end(|_, _| 1);
    }

    /// Begins a step. Its sources are pushed until [`MemorySteps::end`].
    pub(crate) fn begin(&mut self, bytes: u64, destinations: &[BufferRef], accumulate: bool) {
        assert!(!destinations.is_empty(), "a step must have a result");
        let mut places = [NOWHERE; PARITIES_MAX];
        places[..destinations.len()].copy_from_slice(destinations);
        self.steps.push(MemoryStep {
            bytes,
            destinations: places,
            destination_count: destinations.len() as u8,
            accumulate,
            first_source: self.sources.len() as u32,
            source_count: 0,
            first_coefficient: self.coefficients.len() as u32,
        });
    }

    /// Ends a step; `coefficient` is that of a source, by its number, for a destination.
    pub(crate) fn end(&mut self, coefficient: impl Fn(usize, usize) -> u8) {
        let step = self.steps.last_mut().expect("begun");
        let sources = self.sources.len() - step.first_source as usize;
        step.source_count = sources as u32;
        for row in 0..usize::from(step.destination_count) {
            self.coefficients.extend((0..sources).map(|source| coefficient(row, source)));
        }
    }
}

/// Adds a segment, as part of the last one where it follows on from it.
pub(crate) fn push_joined(out: &mut Vec<Segment>, segment: Segment) {
    if let Some(last) = out.last_mut()
        && last.buffer.space == segment.buffer.space
        && last.buffer.offset + last.bytes == segment.buffer.offset
    {
        last.bytes += segment.bytes;
        return;
    }
    out.push(segment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Action, BufferSpace};

    const fn at(offset: u64) -> BufferRef {
        BufferRef { space: BufferSpace::Cache, offset }
    }

    #[test]
    fn copies_that_are_mirrored_count_as_output_twice() {
        let (mut tasks, mut outbox) = (MemoryTasks::new(), Outbox::default());
        let id = tasks.new_copies(TaskOwner::CopyIn { request: HostTag(3) });
        tasks.add_copy(id, Move { from: at(0), to: at(64), bytes: 10 }, false);
        tasks.add_copy(id, Move { from: at(0), to: at(128), bytes: 7 }, true);
        tasks.add_pin(id, SlotIndex(5));
        tasks.start_copies(id, &mut outbox);
        let (kind, id_out) = (MemoryKind::Copy, MemoryTaskId(id));
        let task = MemoryTask { id: id_out, kind, bytes_in: 17, bytes_out: 24 };
        assert_eq!(outbox.poll(), Some(Action::Memory(task)));
        assert_eq!(tasks.end(id), TaskOwner::CopyIn { request: HostTag(3) });
        assert_eq!(tasks.take_pins(id), [SlotIndex(5)]);
        assert!(!tasks.is_empty(), "its number is still taken");
        tasks.give(id);
        assert!(tasks.is_empty());
    }

    #[test]
    fn rows_that_follow_on_from_each_other_are_one_segment() {
        let (mut tasks, mut outbox) = (MemoryTasks::new(), Outbox::default());
        let id = tasks.new_digest(TaskOwner::Digest { op: OpId(0) });
        for (offset, bytes) in [(0, 8), (8, 8), (32, 8)] {
            tasks.add_rows(id, Segment { buffer: at(offset), bytes });
        }
        assert_eq!(tasks.rows(id).len(), 2);
        tasks.start_digest(id, &mut outbox);
        let (kind, id) = (MemoryKind::Digest, MemoryTaskId(id));
        assert_eq!(outbox.poll(), Some(Action::Memory(MemoryTask { id, kind, bytes_in: 24, bytes_out: 0 })));
    }

    #[test]
    #[should_panic(expected = "is not under way")]
    fn what_is_not_under_way_does_not_end() {
        let (mut tasks, mut outbox) = (MemoryTasks::new(), Outbox::default());
        tasks.start_parity(TaskOwner::Parity { op: OpId(1) }, (2, 1), &mut outbox);
        assert_eq!(tasks.end(0), TaskOwner::Parity { op: OpId(1) });
        tasks.end(0);
    }
}
