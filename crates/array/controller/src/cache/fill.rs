//! Fills: cache blocks read from members, for the cached I/O policy and for read-ahead.
//!
//! A fill reads a run of whole cache blocks of one strip into slots. Host reads that want those blocks meanwhile wait
//! for it instead of reading them again. A write to a block under fill takes a new slot, so old data that arrives late
//! is only ever given to reads that began before the write.

use super::CacheEngine;
use crate::api::{HostTag, Segment};
use crate::config::ReadPolicy;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::ids::SlotIndex;
use crate::memory_task::{MemoryTasks, Move, TaskOwner};
use crate::outbox::Outbox;
use crate::request::{Fragment, Rows};
use crate::table::NIL;
use raidlab_units::{BlockCount, Lba};

/// Streams whose position is remembered; the least recently used one makes room.
const STREAMS: usize = 32;

/// One fill under way.
#[derive(Debug, Default)]
pub(super) struct Fill {
    /// A slot for each cache block of the run.
    slots: Vec<SlotIndex>,
    rows: Rows,
    waiters: Vec<Fragment>,
}

/// A host that may be reading in sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    /// Accesses in sequence so far.
    run: u32,
    /// End of what has been read ahead.
    ahead_to: u64,
    /// End of the reads that have ended, as far as that is noted.
    ended_to: u64,
}

/// All streams. Most reads continue none, so the low halves of where each goes on are compared first, all of them at once.
#[derive(Debug)]
pub(super) struct Streams {
    all: [Stream; STREAMS],
    next_low: [u32; STREAMS],
    /// Their numbers, from the one used longest ago to the one used last.
    by_use: [u8; STREAMS],
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            all: [Stream::default(); STREAMS],
            next_low: [0; STREAMS],
            by_use: core::array::from_fn(|number| number as u8),
        }
    }
}

impl Streams {
    /// Notes a read and returns the number of the stream that it belongs to, one that it continues, or the oldest, begun anew.
    fn note(&mut self, first: u64, end: u64) -> usize {
        let index = self.continued(first).unwrap_or_else(|| {
            let oldest = usize::from(self.by_use[0]);
            self.all[oldest] = Stream { ahead_to: end, ended_to: first, ..Stream::default() };
            oldest
        });
        self.touch(index);
        self.next_low[index] = end as u32;
        let stream = &mut self.all[index];
        stream.run += 1;
        stream.next = end;
        index
    }

    /// The stream that goes on at `first`.
    fn continued(&self, first: u64) -> Option<usize> {
        let may_be: u32 = self.next_low.iter().map(|next| u32::from(*next == first as u32)).sum();
        let goes_on = |stream: &Stream| stream.next == first && stream.run > 0;
        if may_be > 0 { self.all.iter().position(goes_on) } else { None }
    }

    fn touch(&mut self, index: usize) {
        let place = self.by_use.iter().position(|other| usize::from(*other) == index).expect("named once");
        self.by_use.copy_within(place + 1.., place);
        self.by_use[STREAMS - 1] = index as u8;
    }
}

impl CacheEngine {
    /// Adds where the bytes of a fill go.
    pub(crate) fn fill_segments(&self, geometry: &Geometry, fill: u32, out: &mut Vec<Segment>) {
        let bytes = geometry.cache_block_bytes();
        let slots = self.fills[fill].slots.iter();
        out.extend(slots.map(|&slot| Segment { buffer: self.slots.buffer(slot, 0), bytes }));
    }

    /// Begins to fill slots with the whole cache blocks of `run`. Returns the fill; none where a block is cached already, or there
    /// is no room.
    pub(crate) fn begin_fill(&mut self, geometry: &Geometry, run: &Fragment) -> Option<u32> {
        let fill = self.fills.take();
        self.fills[fill].slots.clear();
        self.fills[fill].waiters.clear();
        self.fills[fill].rows = run.rows;
        let mut row = run.rows.first;
        while row < run.rows.end() {
            let block = geometry.cache_block_at(run, row);
            let free = self.slots.lookup(block.key).is_none();
            let Some(slot) = free.then(|| self.slots.allocate(block.key)).flatten() else {
                self.abandon_fill(fill);
                return None;
            };
            self.slots.start_fill(slot);
            self.slots[slot].first_waiter = fill;
            self.fills[fill].slots.push(slot);
            row = block.rows_end;
        }
        Some(fill)
    }

    fn abandon_fill(&mut self, fill: u32) {
        while let Some(slot) = self.fills[fill].slots.pop() {
            self.slots[slot].first_waiter = NIL;
            self.slots.finish_fill(slot, 0);
        }
        self.fills.give(fill);
    }

    /// Lets `part` of a request, within one slot, wait for the fill of that slot.
    pub(super) fn wait_for_fill(&mut self, slot: SlotIndex, part: Fragment, host: &mut HostFront) {
        let fill = self.slots[slot].first_waiter;
        // A run of slots under the same fill is given to the host in one copy.
        if let Some(last) = self.fills[fill].waiters.last_mut()
            && last.request == part.request
            && last.strip == part.strip
            && last.rows.end() == part.rows.first
        {
            last.rows.count += part.rows.count;
            return;
        }
        self.join_fill(fill, part, host);
    }

    /// Lets `part` of a request, which lies within a fill, wait for it.
    pub(crate) fn join_fill(&mut self, fill: u32, part: Fragment, host: &mut HostFront) {
        host.add_parts(part.request, 1);
        self.fills[fill].waiters.push(part);
    }

    /// Takes those who wait for a fill that has ended.
    pub(crate) fn take_waiters(&mut self, fill: u32) -> Vec<Fragment> {
        core::mem::take(&mut self.fills[fill].waiters)
    }

    /// Gives the host `part` of a request from what a fill has read.
    pub(crate) fn copy_from_fill(
        &mut self,
        geometry: &Geometry,
        fill: u32,
        part: Fragment,
        tasks: &mut MemoryTasks,
        outbox: &mut Outbox,
    ) {
        let Self { slots, fills, .. } = self;
        let Fill { slots: filled, rows, .. } = &fills[fill];
        let task = tasks.new_copies(TaskOwner::CopyOut { request: part.request });
        let unit = geometry.cache_block_rows();
        let mut row = part.rows.first;
        while row < part.rows.end() {
            let slot = filled[((row - rows.first) / unit) as usize];
            let end = part.rows.end().min(row - row % unit + unit);
            let from = slots.buffer(slot, u64::from(row % unit) * geometry.block_bytes());
            let to = part.part(Rows::between(row, end), geometry.block_bytes()).host_buffer();
            let bytes = u64::from(end - row) * geometry.block_bytes();
            tasks.add_copy(task, Move { from, to, bytes }, false);
            tasks.add_pin(task, slot);
            slots.pin(slot);
            row = end;
        }
        tasks.start_copies(task, outbox);
    }

    /// Ends a fill, and takes back the list of those who waited for it.
    pub(crate) fn end_fill(&mut self, geometry: &Geometry, fill: u32, is_read: bool, waiters: Vec<Fragment>) {
        let Self { slots, fills, .. } = self;
        let valid = if is_read { u64::MAX >> (64 - geometry.cache_block_rows()) } else { 0 };
        for slot in fills[fill].slots.drain(..) {
            slots[slot].first_waiter = NIL;
            slots.finish_fill(slot, valid);
        }
        fills[fill].waiters = waiters;
        fills.give(fill);
    }

    /// Takes in a host read. Returns what to read on behind it, if the policy and the host's habits ask for it.
    #[inline]
    pub(crate) fn note_read(
        &mut self,
        geometry: &Geometry,
        (tag, lba, blocks): (HostTag, Lba, BlockCount),
        host: &mut HostFront,
    ) -> Option<(Lba, BlockCount)> {
        let wanted_run = match self.config.read_policy {
            ReadPolicy::NoReadAhead => return None,
            ReadPolicy::ReadAhead => 1,
            ReadPolicy::Adaptive => 2,
        };
        let most = self.config.read_ahead.0 / geometry.block_bytes();
        let end = lba.0 + blocks.0;
        let volume_end = geometry.layout().volume_blocks().0;
        let number = self.streams.note(lba.0, end);
        let stream = &mut self.streams.all[number];
        let mut queued = 0;
        if self.config.read_ahead_with_queue {
            host.set_stream(tag, number as u8);
            queued = lba.0 - stream.ended_to;
        }
        let is_hit = lba.0 < stream.ahead_to;
        if stream.run < wanted_run || (is_hit && self.config.read_ahead_on_miss) {
            return None;
        }
        // A host that goes on earns more each time; two accesses in sequence by chance cost little.
        let earned = blocks.0.saturating_mul(1 << (stream.run - wanted_run).min(32)).min(most);
        let distance = earned.saturating_sub(queued);
        let from = stream.ahead_to.max(end);
        let to = (end + distance).min(volume_end);
        // Half the distance at a time, so that read-ahead comes in large reads and not in crumbs.
        if from >= to || (from - end) * 2 > distance {
            return None;
        }
        stream.ahead_to = to;
        Some((Lba(from), BlockCount(to - from)))
    }

    /// Takes in that a host read of a stream has ended, up to block `end`.
    pub(crate) fn note_read_ended(&mut self, stream: u8, end: u64) {
        let stream = &mut self.streams.all[usize::from(stream)];
        // The stream may have been begun anew meanwhile.
        if (stream.ended_to..=stream.next).contains(&end) {
            stream.ended_to = end;
        }
    }

    /// Takes the first run of cache blocks that no slot stands for off `rows` of a strip, whole cache blocks.
    pub(crate) fn next_unknown(
        &self,
        geometry: &Geometry,
        fragment: &Fragment,
        rows: &mut Rows,
    ) -> Option<Rows> {
        let (unit, end) = (geometry.cache_block_rows(), rows.end());
        let is_known = |row: &u32| {
            let block = geometry.cache_block_at(fragment, *row);
            self.slots.lookup(block.key).is_some()
        };
        let mut blocks = (rows.first..end).step_by(unit as usize);
        let first = blocks.find(|row| !is_known(row))?;
        let run_end = blocks.find(is_known).unwrap_or(end);
        *rows = Rows::between((run_end + unit).min(end), end);
        Some(Rows::between(first, run_end))
    }
}
