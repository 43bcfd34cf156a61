//! Fills: cache blocks read from members, for the cached I/O policy and for read-ahead.
//!
//! A fill reads a run of whole cache blocks of one strip into slots. Host reads that want those blocks meanwhile wait
//! for it instead of reading them again. A write to a block under fill takes a new slot, so old data that arrives late
//! is only ever given to reads that began before the write.

use super::CacheEngine;
use crate::api::{IoClass, MemberError, Segment};
use crate::config::ReadPolicy;
use crate::controller::Controller;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::member_io::IoOwner;
use crate::memory_task::MemoryTasks;
use crate::memory_task::{Move, TaskOwner};
use crate::outbox::Outbox;
use crate::request::{CopySet, Fragment, FragmentWalk, Rows};
use crate::table::NIL;
use raidlab_units::{BlockCount, Lba};

/// Streams whose position is remembered; the least recently used one makes room.
const STREAMS: usize = 32;

/// One fill under way.
#[derive(Debug, Default)]
pub(super) struct Fill {
    /// A slot for each cache block of the run.
    slots: Vec<u32>,
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
    /// Notes a read and returns the stream that it belongs to: one that it continues, or the oldest, begun anew.
    fn note(&mut self, first: u64, end: u64) -> &mut Stream {
        let index = self.continued(first).unwrap_or_else(|| {
            let oldest = usize::from(self.by_use[0]);
            self.all[oldest] = Stream { ahead_to: end, ..Stream::default() };
            oldest
        });
        self.touch(index);
        self.next_low[index] = end as u32;
        let stream = &mut self.all[index];
        stream.run += 1;
        stream.next = end;
        stream
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

    pub(super) fn abandon_fill(&mut self, fill: u32) {
        while let Some(slot) = self.fills[fill].slots.pop() {
            self.slots[slot].first_waiter = NIL;
            self.slots.finish_fill(slot, 0);
        }
        self.fills.give(fill);
    }

    /// Lets `part` of a request, within one slot, wait for the fill of that slot.
    pub(super) fn wait_for_fill(&mut self, slot: u32, part: Fragment, host: &mut HostFront) {
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
        host.add_parts(part.request, 1);
        self.fills[fill].waiters.push(part);
    }

    pub(super) fn copy_from_fill(
        &mut self,
        geometry: &Geometry,
        slots: &[u32],
        rows: Rows,
        part: Fragment,
        tasks: &mut MemoryTasks,
        outbox: &mut Outbox,
    ) {
        let task = tasks.new_copies(TaskOwner::CopyOut { request: part.request });
        let unit = geometry.cache_block_rows();
        let mut row = part.rows.first;
        while row < part.rows.end() {
            let slot = slots[((row - rows.first) / unit) as usize];
            let end = part.rows.end().min(row - row % unit + unit);
            let from = self.slots.buffer(slot, u64::from(row % unit) * geometry.block_bytes());
            let to = part.part(Rows::between(row, end), geometry.block_bytes()).host_buffer();
            let bytes = u64::from(end - row) * geometry.block_bytes();
            tasks.add_copy(task, Move { from, to, bytes }, false);
            tasks.add_pin(task, slot);
            self.slots.pin(slot);
            row = end;
        }
        tasks.start_copies(task, outbox);
    }
}

impl Controller {
    /// Reads the blocks of `fragment` into the cache and gives the host its part. Returns false, having done
    /// nothing, where that can't be: a block is cached already, there is no room, or no copy to read from.
    pub(crate) fn fill_for(&mut self, fragment: Fragment) -> bool {
        let rows = self.geometry.rounded_out(fragment.rows);
        let whole = Fragment { rows, ..fragment };
        let Some(fill) = self.start_fill(&whole, IoClass::Host) else { return false };
        self.host.add_parts(fragment.request, 1);
        self.cache.fills[fill].waiters.push(fragment);
        true
    }

    fn start_fill(&mut self, whole: &Fragment, class: IoClass) -> Option<u32> {
        if self.metadata.any_out_of_sync() {
            let key = self.geometry.lock_key(whole);
            if self.metadata.needs_resync(&self.geometry, key) || self.is_being_synced(key) {
                return None;
            }
        }
        let (_, place) = self.best_copy(whole, CopySet::NONE)?;
        let fill = self.cache.fills.take();
        self.cache.fills[fill].slots.clear();
        self.cache.fills[fill].waiters.clear();
        self.cache.fills[fill].rows = whole.rows;
        let mut row = whole.rows.first;
        while row < whole.rows.end() {
            let block = self.geometry.cache_block_at(whole, row);
            let free = self.cache.slots.lookup(block.key).is_none();
            let Some(slot) = free.then(|| self.cache.slots.allocate(block.key)).flatten() else {
                self.cache.abandon_fill(fill);
                return None;
            };
            self.cache.slots.start_fill(slot);
            self.cache.slots[slot].first_waiter = fill;
            self.cache.fills[fill].slots.push(slot);
            row = block.rows_end;
        }
        self.member_read(place, whole.rows, class, IoOwner::Fill { fill });
        Some(fill)
    }

    /// Takes in the end of a fill.
    pub(crate) fn fill_done(&mut self, id: u32, result: Result<(), MemberError>) {
        let mut fill = core::mem::take(&mut self.cache.fills[id]);
        for part in fill.waiters.drain(..) {
            match result {
                Ok(()) => self.cache.copy_from_fill(
                    &self.geometry,
                    &fill.slots,
                    fill.rows,
                    part,
                    &mut self.tasks,
                    &mut self.outbox,
                ),
                Err(_) => self.read_from_members(part, CopySet::NONE),
            }
        }
        let all = u64::MAX >> (64 - self.geometry.cache_block_rows());
        for slot in fill.slots.drain(..) {
            self.cache.slots[slot].first_waiter = NIL;
            self.cache.slots.finish_fill(slot, if result.is_ok() { all } else { 0 });
        }
        self.cache.fills[id] = fill;
        self.cache.fills.give(id);
    }

    /// Reads on behind a host read, if the policy and the host's habits ask for it.
    pub(crate) fn read_ahead(&mut self, lba: Lba, blocks: BlockCount) {
        let wanted_run = match self.config.cache.read_policy {
            ReadPolicy::NoReadAhead => return,
            ReadPolicy::ReadAhead => 1,
            ReadPolicy::Adaptive => 2,
        };
        let most = self.config.cache.read_ahead.0 / self.geometry.block_bytes();
        let end = lba.0 + blocks.0;
        let volume_end = self.volume_blocks().0;
        let stream = self.cache.streams.note(lba.0, end);
        let is_hit = lba.0 < stream.ahead_to;
        if stream.run < wanted_run || (is_hit && self.config.cache.read_ahead_on_miss) {
            return;
        }
        // A host that goes on earns more each time; two accesses in sequence by chance cost little.
        let distance = blocks.0.saturating_mul(1 << (stream.run - wanted_run).min(32)).min(most);
        let from = stream.ahead_to.max(end);
        let to = (end + distance).min(volume_end);
        // Half the distance at a time, so that read-ahead comes in large reads and not in crumbs.
        if from >= to || (from - end) * 2 > distance {
            return;
        }
        stream.ahead_to = to;
        self.prefetch(Lba(from), BlockCount(to - from));
    }

    fn prefetch(&mut self, lba: Lba, blocks: BlockCount) {
        let unit = self.geometry.cache_block_rows();
        let mut walk =
            FragmentWalk::new(0, lba, blocks, self.geometry.block_bytes(), self.geometry.strip_rows());
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            let rows = self.geometry.rounded_out(fragment.rows);
            let mut first = rows.first;
            for row in (rows.first..=rows.end()).step_by(unit as usize) {
                let known = row == rows.end() || {
                    let block = self.geometry.cache_block_at(&fragment, row);
                    self.cache.slots.lookup(block.key).is_some()
                };
                if known {
                    if first < row {
                        let run = Fragment { rows: Rows::between(first, row), ..fragment };
                        self.start_fill(&run, IoClass::ReadAhead);
                    }
                    first = row + unit;
                }
            }
        }
    }
}
