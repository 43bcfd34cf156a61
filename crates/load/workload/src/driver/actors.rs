//! Actors at work: each a state machine that is asked what it would start, and told what has ended.
//!
//! ```text
//! due(now) ─► At(time) ─► take() ─► Request, started(slot) ─ ... ─► ended(slot)
//! ```
//! An actor first takes in what has become due of its own (a batch that is computed, a group that has waited), then says
//! whether it has a request. No allocation per request: lines and heaps have room for all that can be under way.
//!
//! Invariants: never more in flight than [`ActorState::places`]; times that count are cut at the window's ends.

mod accelerator;
mod cache;
mod checkpoint;
mod compaction;
mod log;

use super::paced::Due;
use super::{DriverConfig, DriverError};
use crate::actor::{Actor, SizeLaw};
use crate::op::IoOp;
use crate::places::Places;
use crate::result::ActorStats;
use crate::rng::Rng;
use crate::sampler::PositiveNormal;
use crate::stream::Request;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An actor of any kind.
#[derive(Debug)]
pub(super) enum ActorState {
    Accelerator(Box<accelerator::Training>),
    Checkpoint(Box<checkpoint::Saving>),
    Log(Box<log::Logging>),
    Compaction(Box<compaction::Merging>),
    Cache(Box<cache::Caching>),
}

/// The measured window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    start: Nanos,
    end: Nanos,
}

impl Window {
    /// Time of the window between two times.
    fn within(self, from: Nanos, to: Nanos) -> u64 {
        to.min(self.end).saturating_since(from.max(self.start)).get()
    }

    /// Whether what ends at `now` counts.
    fn has(self, now: Nanos) -> bool {
        now >= self.start && now <= self.end
    }
}

/// Where an actor's bytes lie: its working set in whole blocks.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    bytes: u64,
    block: u64,
}

impl Extent {
    /// The working set of `places` in the region of `config`, which holds `what`, of length `needs`, at least.
    fn new(
        name: &str,
        places: &Places,
        config: &DriverConfig,
        (what, needs): (&'static str, ByteCount),
    ) -> Result<Self, DriverError> {
        let outside = || DriverError::PlacesOutside {
            spec: name.into(),
            start: places.start,
            size: places.size,
            region: config.region,
        };
        let (start, end) = places.working_set(config.region).ok_or_else(outside)?;
        let block = u64::from(config.block_bytes);
        let start = start.next_multiple_of(block);
        let bytes = end.saturating_sub(start) / block * block;
        let extent = Self { start, bytes, block };
        extent.check_holds(name, what, needs)?;
        Ok(extent)
    }

    fn check_holds(&self, name: &str, what: &'static str, needs: ByteCount) -> Result<(), DriverError> {
        let has = ByteCount(self.bytes);
        if has < needs || self.bytes == 0 {
            return Err(DriverError::TooLarge { spec: name.into(), what, needs, has });
        }
        Ok(())
    }

    fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(self.block)
    }

    /// The part `index` of `count` equal ones.
    fn part(&self, index: u64, count: u64) -> Self {
        let bytes = (self.bytes / count / self.block * self.block).max(self.block);
        Self { start: self.start + (index * bytes).min(self.bytes - self.block), bytes, block: self.block }
    }

    /// Checks that a length of the key `column` is whole blocks.
    fn check_blocks(&self, spec: &str, column: &'static str, bytes: u32) -> Result<(), DriverError> {
        if u64::from(bytes).is_multiple_of(self.block) {
            return Ok(());
        }
        let (spec, block_bytes) = (spec.into(), self.block as u32);
        Err(DriverError::NotInBlocks { spec, line: 1, column, bytes, block_bytes })
    }
}

/// Draws lengths.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    normal: PositiveNormal,
    /// Shares, each added to those before, with the length.
    table: Vec<(f64, u64)>,
}

impl Lengths {
    pub(crate) fn new(law: &SizeLaw) -> Self {
        let shares = law.table.iter().scan(0.0, |sum, (bytes, pct)| {
            *sum += pct / 100.0;
            Some((*sum, bytes.get()))
        });
        let normal = PositiveNormal::new(law.mean.get() as f64, law.deviation.get() as f64);
        Self { normal, table: shares.collect() }
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        if let Some((_, last)) = self.table.last() {
            let drawn = rng.unit_f64();
            return self.table.iter().find(|(until, _)| drawn < *until).map_or(*last, |(_, bytes)| *bytes);
        }
        self.normal.draw(rng)
    }
}

/// What is due at a time, the earliest first and equal ones in their order.
#[derive(Debug)]
struct Timers<T> {
    heap: BinaryHeap<Reverse<(Nanos, u64, T)>>,
    sequence: u64,
}

impl<T: Ord + Copy> Timers<T> {
    fn with_capacity(count: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(count), sequence: 0 }
    }

    fn add(&mut self, at: Nanos, what: T) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, what)));
    }

    /// The next that is due at `now`, with the time that it was due at.
    fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        let Reverse((at, _, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }

    /// What is due next, as a step.
    fn next(&self) -> Due {
        self.heap.peek().map_or(Due::AfterCompletion, |Reverse((at, _, _))| Due::At(*at))
    }
}

/// A request of `op`.
const fn request(op: IoOp, offset_bytes: u64, bytes: u32) -> Request {
    Request { op, offset_bytes, bytes, delay_after: NanoSpan::ZERO }
}

/// The flush that actors ask for: of the data.
const FLUSH: Request = request(IoOp::FlushData, 0, 0);

impl ActorState {
    /// Returns `actor`, which is valid, called `name`, over `places`, with the seed and the share of `config`.
    pub(super) fn new(
        name: &str,
        actor: &Actor,
        places: &Places,
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let (what, needs) = actor.room(config.block_bytes);
        let extent = match &config.files {
            Some(files) => {
                Extent { start: 0, bytes: files.region().get(), block: u64::from(config.block_bytes) }
            }
            None => Extent::new(name, places, config, (what, needs))?,
        };
        // Each worker has a log, or a merge, of its own: none writes where another does.
        let own = || {
            let own = extent.part(u64::from(config.worker.index), u64::from(config.worker.count));
            own.check_holds(name, what, needs).map(|()| own)
        };
        Ok(match actor {
            Actor::Accelerator(it) => {
                Self::Accelerator(Box::new(accelerator::Training::new(name, it, (extent, places), config)?))
            }
            Actor::Checkpoint(it) => {
                Self::Checkpoint(Box::new(checkpoint::Saving::new(name, it, extent, config)?))
            }
            Actor::Log(it) => Self::Log(Box::new(log::Logging::new(it, own()?, config))),
            Actor::Compaction(it) => {
                Self::Compaction(Box::new(compaction::Merging::new(name, it, own()?, config)?))
            }
            Actor::Cache(it) => {
                Self::Cache(Box::new(cache::Caching::new(name, it, (extent, places), config)?))
            }
        })
    }

    /// Requests in flight at most; none where this worker has no share.
    pub(super) fn places(&self) -> u32 {
        match self {
            Self::Accelerator(it) => it.places(),
            Self::Checkpoint(it) => it.places(),
            Self::Log(it) => it.places(),
            Self::Compaction(it) => it.places(),
            Self::Cache(it) => it.places(),
        }
    }

    /// Starts at `now`; what ends from `window_start` to `window_end` counts. `slots` is how many the driver has.
    pub(super) fn start(&mut self, now: Nanos, (start, end): (Nanos, Nanos), slots: usize) {
        let window = Window { start, end };
        match self {
            Self::Accelerator(it) => it.start(now, window, slots),
            Self::Checkpoint(it) => it.start(now, window, slots),
            Self::Log(it) => it.start(now, window),
            Self::Compaction(it) => it.start(now, window),
            Self::Cache(it) => it.start(window),
        }
    }

    /// When it has its next request, or something of its own to do.
    #[inline]
    pub(super) fn due(&mut self, now: Nanos) -> Due {
        match self {
            Self::Accelerator(it) => it.due(now),
            Self::Checkpoint(it) => it.due(now),
            Self::Log(it) => it.due(now),
            Self::Compaction(it) => it.due(now),
            Self::Cache(it) => it.due(now),
        }
    }

    /// The request that was due, which takes `slot`.
    #[inline]
    pub(super) fn take(&mut self, now: Nanos, slot: u32) -> Request {
        match self {
            Self::Accelerator(it) => it.take(slot),
            Self::Checkpoint(it) => it.take(slot),
            Self::Log(it) => it.take(),
            Self::Compaction(it) => it.take(now),
            Self::Cache(it) => it.take(),
        }
    }

    /// The request in `slot` ended. A failed one counts as done: a run shows errors and goes on.
    #[inline]
    pub(super) fn ended(&mut self, now: Nanos, slot: u32) {
        match self {
            Self::Accelerator(it) => it.ended(now, slot),
            Self::Checkpoint(it) => it.ended(now, slot),
            Self::Log(it) => it.ended(now),
            Self::Compaction(it) => it.ended(),
            Self::Cache(it) => it.ended(),
        }
    }

    /// Whether others are to wait for it now.
    pub(super) fn is_saving(&self) -> bool {
        matches!(self, Self::Checkpoint(it) if it.is_saving())
    }

    /// Makes accelerators wait, or go on.
    pub(super) fn pause(&mut self, now: Nanos, is_paused: bool) {
        if let Self::Accelerator(it) = self {
            it.pause(now, is_paused);
        }
    }

    /// Takes in that the part that it follows has written so many bytes in all.
    pub(super) fn follow(&mut self, now: Nanos, written_bytes: u64) {
        if let Self::Compaction(it) = self {
            it.follow(now, written_bytes);
        }
    }

    /// What it counted in the window, as far as it has come at `now`.
    pub(super) fn stats(&self, now: Nanos) -> ActorStats {
        match self {
            Self::Accelerator(it) => ActorStats::Accelerator(it.stats(now)),
            Self::Checkpoint(it) => ActorStats::Checkpoint(it.stats(now)),
            Self::Log(it) => ActorStats::Log(it.stats()),
            Self::Compaction(it) => ActorStats::Compaction(it.stats()),
            Self::Cache(it) => ActorStats::Cache(it.stats()),
        }
    }
}

#[cfg(test)]
mod tests;
