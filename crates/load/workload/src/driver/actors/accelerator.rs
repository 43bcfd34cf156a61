//! Accelerators in training, and the loader threads that feed them.
//!
//! ```text
//! thread       [open][read][make sample] [read][make] ...  idle while enough is loaded ahead
//! accelerator  |..wait..|step|=== compute ===|.barrier.|..wait..|step|=== compute ===|
//! ```
//! Utilisation (AU) is compute over compute and wait, added up over all accelerators; what is left of a step, the
//! barrier too, counts as waiting, as DLIO has it. While a checkpoint makes training wait, that time is a pause of its own.
//! Samples and their bytes count like that time: of a batch that an end of the window cuts, the share that was computed in it.
//!
//! Batches are taken in the order in which their samples arrive, of whichever thread; DLIO's `PyTorch` loader hands them
//! out in the order of their threads, which is the same where all threads are alike.

use super::{Due, Extent, Lengths, Timers, Window, request};
use crate::actor::{Accelerator, LoaderUnit};
use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::places::Places;
use crate::result::AcceleratorStats;
use crate::rng::{Rng, derived_seed};
use crate::sample_files::SampleFiles;
use crate::sampler::{PositiveNormal, Sampler};
use crate::stream::Request;
use raidlab_units::Nanos;
use std::collections::VecDeque;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread has made its sample.
    SampleMade(u32),
    /// An accelerator starts to compute.
    ComputeStarts(u32),
    /// And has ended.
    ComputeEnds(u32),
}

/// What an accelerator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Waiting,
    /// It has its batch and gets it into place.
    Stepping,
    Computing,
    /// It has computed and waits for the others.
    AtBarrier,
}

#[derive(Debug)]
struct Rank {
    doing: Doing,
    since: Nanos,
    /// Samples that are there with their bytes, and those that threads are at.
    ready: u32,
    ready_bytes: u64,
    loading: u32,
    /// Bytes of the batch that it has, and how long that is computed for.
    batch_bytes: u64,
    batch_ns: u64,
    /// Threads that do nothing.
    idle: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    rank: u32,
    /// Samples that it is still to load of its unit.
    samples_left: u32,
    /// Bytes of the samples that it has made of its unit.
    unit_bytes: u64,
    /// Where the next read starts, and what is left of the sample.
    offset: u64,
    bytes_left: u64,
    sample_bytes: u64,
    in_flight: u32,
    /// Samples left of its file, and bytes where it is a file of its own.
    file_left: u32,
    file_bytes_left: u64,
    has_opened: bool,
}

/// Accelerators at work.
#[derive(Debug)]
pub(in crate::driver) struct Training {
    it: Accelerator,
    extent: Extent,
    lengths: Lengths,
    compute: PositiveNormal,
    file_bytes: u64,
    files: u64,
    /// The real files, where samples do not just lie on the target.
    real: Option<SampleFiles>,
    sampler: Option<Box<Sampler>>,
    rng: Rng,
    ranks: Vec<Rank>,
    threads: Vec<Thread>,
    /// Threads with a read to start.
    reads: VecDeque<u32>,
    /// Samples that wait for a processor: their threads.
    to_make: VecDeque<u32>,
    processors_free: u32,
    timers: Timers<Event>,
    /// The thread of each slot, and the bytes of samples that its read is for.
    owners: Vec<(u32, u32)>,
    arrived: u32,
    is_paused: bool,
    paused_since: Nanos,
    window: Window,
    stats: AcceleratorStats,
}

impl Training {
    pub(super) fn new(
        name: &str,
        it: &Accelerator,
        (extent, places): (Extent, &Places),
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let count = config.worker.share_of(u64::from(it.count)) as u32;
        let it = Accelerator {
            count,
            processors: it.processors.map(|all| share_of_processors(all, config)),
            ..it.clone()
        };
        extent.check_blocks(name, "request_size", it.request_bytes)?;
        let mean = it.sample.mean_bytes() as u64;
        let real = config.files.clone();
        let of_mean = extent.whole_blocks(mean.saturating_mul(u64::from(it.samples_per_file)));
        let file_bytes = real.as_ref().map_or(of_mean, |files| files.stride_bytes);
        let files = extent.bytes / file_bytes;
        let threads = count as usize * it.read_threads as usize;
        let rank = |index: u32| Rank {
            doing: Doing::Waiting,
            since: Nanos::ZERO,
            ready: 0,
            ready_bytes: 0,
            loading: 0,
            batch_bytes: 0,
            batch_ns: 0,
            idle: (index * it.read_threads..(index + 1) * it.read_threads).rev().collect(),
        };
        Ok(Self {
            lengths: Lengths::new(&it.sample),
            compute: PositiveNormal::new(it.compute.get() as f64, it.compute_deviation.get() as f64),
            sampler: Sampler::new(places, files, derived_seed(config.seed, SAMPLER_STREAM)).map(Box::new),
            rng: Rng::new(derived_seed(config.seed, DRAWS_STREAM)),
            ranks: (0..count).map(rank).collect(),
            threads: (0..threads as u32)
                .map(|index| Thread { rank: index / it.read_threads, ..Thread::default() })
                .collect(),
            reads: VecDeque::with_capacity(threads),
            to_make: VecDeque::with_capacity(threads),
            processors_free: it.processors.unwrap_or(u32::MAX),
            timers: Timers::with_capacity(threads + count as usize),
            owners: Vec::new(),
            arrived: 0,
            is_paused: false,
            paused_since: Nanos::ZERO,
            window: Window::default(),
            stats: AcceleratorStats {
                accelerators: count,
                au_goal_pct: it.au_goal_pct,
                ..AcceleratorStats::default()
            },
            file_bytes,
            files,
            real,
            extent,
            it,
        })
    }

    pub(super) fn places(&self) -> u32 {
        self.it.count * self.it.read_threads * self.it.requests_per_thread
    }

    pub(super) fn start(&mut self, now: Nanos, window: Window, slots: usize) {
        self.window = window;
        self.owners = vec![(0, 0); slots];
        for rank in 0..self.ranks.len() as u32 {
            self.ranks[rank as usize].since = now;
            self.load_ahead(rank);
        }
    }

    pub(super) fn due(&mut self, now: Nanos) -> Due {
        while let Some((at, event)) = self.timers.pop_due(now) {
            self.handle(at, event);
        }
        if self.reads.is_empty() { self.timers.next() } else { Due::At(now) }
    }

    pub(super) fn take(&mut self, slot: u32) -> Request {
        let index = self.reads.pop_front().expect("a read is taken only when one is due");
        let thread = &mut self.threads[index as usize];
        let bytes = thread.bytes_left.min(u64::from(self.it.request_bytes));
        let whole = bytes.next_multiple_of(self.extent.block) as u32;
        let read = request(IoOp::Read, thread.offset, whole);
        thread.offset += u64::from(whole);
        thread.bytes_left -= bytes;
        thread.in_flight += 1;
        if thread.bytes_left > 0 && thread.in_flight < self.it.requests_per_thread {
            self.reads.push_back(index);
        }
        self.owners[slot as usize] = (index, bytes as u32);
        read
    }

    pub(super) fn ended(&mut self, now: Nanos, slot: u32) {
        let (index, bytes) = self.owners[slot as usize];
        if self.window.has(now) {
            self.stats.read_bytes += u64::from(bytes);
        }
        let depth = self.it.requests_per_thread;
        let thread = &mut self.threads[index as usize];
        let was_full = thread.in_flight == depth;
        thread.in_flight -= 1;
        if thread.bytes_left > 0 {
            if was_full {
                self.reads.push_back(index);
            }
        } else if thread.in_flight == 0 {
            self.to_make.push_back(index);
            self.make_samples(now);
        }
    }

    /// While a checkpoint is written no step starts, and what is under way ends.
    pub(super) fn pause(&mut self, now: Nanos, is_paused: bool) {
        if self.is_paused == is_paused {
            return;
        }
        self.is_paused = is_paused;
        if is_paused {
            self.paused_since = now;
            return;
        }
        let from = self.paused_since;
        for rank in 0..self.ranks.len() as u32 {
            let own = &mut self.ranks[rank as usize];
            if own.doing == Doing::Waiting {
                // What it waited for before counts as waiting, the rest as the pause.
                self.stats.wait_ns += self.window.within(own.since, from.max(own.since));
                self.stats.pause_ns += self.window.within(from.max(own.since), now);
                own.since = now;
                self.take_batch(now, rank);
            }
        }
    }

    pub(super) fn stats(&self, now: Nanos) -> AcceleratorStats {
        let mut stats = self.stats.clone();
        for rank in &self.ranks {
            let open = self.window.within(rank.since, now);
            match rank.doing {
                Doing::Computing => {
                    stats.compute_ns += open;
                    self.count_batch(&mut stats, rank, open);
                }
                Doing::Waiting if self.is_paused => {
                    let from = self.paused_since.max(rank.since).min(now);
                    stats.wait_ns += self.window.within(rank.since, from);
                    stats.pause_ns += self.window.within(from, now);
                }
                Doing::Waiting | Doing::Stepping | Doing::AtBarrier => stats.wait_ns += open,
            }
        }
        stats
    }

    fn handle(&mut self, at: Nanos, event: Event) {
        match event {
            Event::SampleMade(thread) => {
                self.processors_free = self.processors_free.saturating_add(1);
                self.sample_made(at, thread);
                self.make_samples(at);
            }
            Event::ComputeStarts(rank) => {
                let own = &mut self.ranks[rank as usize];
                self.stats.wait_ns += self.window.within(own.since, at);
                (own.doing, own.since) = (Doing::Computing, at);
                let compute = self.compute.draw(&mut self.rng);
                own.batch_ns = compute;
                self.timers.add(Nanos(at.get().saturating_add(compute)), Event::ComputeEnds(rank));
            }
            Event::ComputeEnds(rank) => self.computed(at, rank),
        }
    }

    fn computed(&mut self, at: Nanos, rank: u32) {
        let own = &self.ranks[rank as usize];
        let in_window = self.window.within(own.since, at);
        let mut stats = std::mem::take(&mut self.stats);
        stats.compute_ns += in_window;
        stats.steps += u64::from(self.window.has(at));
        self.count_batch(&mut stats, own, in_window);
        self.stats = stats;
        let own = &mut self.ranks[rank as usize];
        own.since = at;
        if !self.it.barrier {
            own.doing = Doing::Waiting;
            return self.take_batch(at, rank);
        }
        own.doing = Doing::AtBarrier;
        self.arrived += 1;
        if self.arrived < self.it.count {
            return;
        }
        self.arrived = 0;
        for rank in 0..self.ranks.len() as u32 {
            let own = &mut self.ranks[rank as usize];
            self.stats.wait_ns += self.window.within(own.since, at);
            (own.doing, own.since) = (Doing::Waiting, at);
            self.take_batch(at, rank);
        }
    }

    /// Counts the batch of `rank`, `in_window` of whose time is in the window.
    fn count_batch(&self, stats: &mut AcceleratorStats, rank: &Rank, in_window: u64) {
        let share = (in_window as f64 / rank.batch_ns.max(1) as f64).min(1.0);
        stats.samples += share * f64::from(self.it.batch);
        stats.trained_bytes += share * rank.batch_bytes as f64;
    }

    /// Gives an accelerator that waits its batch, if that is there.
    fn take_batch(&mut self, now: Nanos, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        if own.doing != Doing::Waiting || own.ready < self.it.batch || self.is_paused {
            return;
        }
        own.batch_bytes = own.ready_bytes * u64::from(self.it.batch) / u64::from(own.ready);
        own.ready_bytes -= own.batch_bytes;
        own.ready -= self.it.batch;
        self.stats.wait_ns += self.window.within(own.since, now);
        (own.doing, own.since) = (Doing::Stepping, now);
        self.timers.add(now + self.it.per_step, Event::ComputeStarts(rank));
        self.load_ahead(rank);
    }

    /// Puts idle threads of an accelerator to work, as far as it may load ahead.
    fn load_ahead(&mut self, rank: u32) {
        let unit = match self.it.loader {
            LoaderUnit::Sample => 1,
            LoaderUnit::Batch => self.it.batch,
        };
        let ahead = u64::from(self.it.prefetch) * u64::from(self.it.batch);
        // A thread works on a unit of its own, however few batches are asked for ahead.
        let most = ahead.max(u64::from(unit) * u64::from(self.it.read_threads));
        loop {
            let own = &mut self.ranks[rank as usize];
            if u64::from(own.ready) + u64::from(own.loading) + u64::from(unit) > most {
                return;
            }
            let Some(thread) = own.idle.pop() else { return };
            own.loading += unit;
            let idle = &mut self.threads[thread as usize];
            (idle.samples_left, idle.unit_bytes) = (unit, 0);
            self.begin_sample(thread);
        }
    }

    fn begin_sample(&mut self, index: u32) {
        if self.real.is_some() {
            return self.begin_sample_of_file(index);
        }
        let wanted = self.lengths.draw(&mut self.rng).min(self.extent.bytes);
        let bytes = self.extent.whole_blocks(wanted).min(self.extent.bytes);
        let thread = &mut self.threads[index as usize];
        thread.has_opened = thread.file_left == 0;
        if thread.has_opened {
            let file = draw_file(self.sampler.as_deref_mut(), self.files, &mut self.rng);
            thread.offset = self.extent.start + file * self.file_bytes;
            thread.file_left = self.it.samples_per_file;
        }
        thread.file_left -= 1;
        let end = self.extent.start + self.extent.bytes;
        if thread.offset + bytes > end {
            thread.offset = end - bytes;
        }
        // Several samples of a file share blocks: what is read of it is its length, whole blocks at a time.
        thread.bytes_left = wanted;
        thread.sample_bytes = wanted;
        self.reads.push_back(index);
    }

    /// The same where files are real: a sample is a file, or the next part of one, and ends with it.
    fn begin_sample_of_file(&mut self, index: u32) {
        let thread = &mut self.threads[index as usize];
        thread.has_opened = thread.file_left == 0 || thread.file_bytes_left == 0;
        if thread.has_opened {
            let file = draw_file(self.sampler.as_deref_mut(), self.files, &mut self.rng);
            let length = self.real.as_ref().and_then(|real| real.lengths.get(file as usize)).copied();
            thread.offset = file * self.file_bytes;
            (thread.file_left, thread.file_bytes_left) = (self.it.samples_per_file, length.unwrap_or(1));
        }
        let is_last = thread.file_left == 1;
        let drawn = if is_last { u64::MAX } else { self.lengths.draw(&mut self.rng) };
        let wanted = drawn.min(thread.file_bytes_left);
        thread.file_left -= 1;
        thread.file_bytes_left -= wanted;
        thread.bytes_left = wanted;
        thread.sample_bytes = wanted;
        self.reads.push_back(index);
    }

    /// Starts to make samples, as far as there are processors.
    fn make_samples(&mut self, now: Nanos) {
        while self.processors_free > 0 {
            let Some(index) = self.to_make.pop_front() else { return };
            self.processors_free -= u32::from(self.it.processors.is_some());
            let thread = &self.threads[index as usize];
            let open = if thread.has_opened { self.it.per_file.get() } else { 0 };
            let of_bytes = self
                .it
                .load_bytes_per_sec
                .map_or(0, |rate| (thread.sample_bytes as f64 * 1e9 / rate.get() as f64) as u64);
            let took = open + self.it.per_sample.get() + of_bytes;
            self.timers.add(Nanos(now.get().saturating_add(took)), Event::SampleMade(index));
        }
    }

    fn sample_made(&mut self, now: Nanos, index: u32) {
        let thread = &mut self.threads[index as usize];
        thread.samples_left -= 1;
        thread.unit_bytes += thread.sample_bytes;
        let (rank, left, bytes) = (thread.rank, thread.samples_left, thread.unit_bytes);
        let of_batch = self.it.loader == LoaderUnit::Batch;
        if left > 0 {
            return self.begin_sample(index);
        }
        let unit = if of_batch { self.it.batch } else { 1 };
        let own = &mut self.ranks[rank as usize];
        own.loading -= unit;
        own.ready += unit;
        own.ready_bytes += bytes;
        own.idle.push(index);
        self.take_batch(now, rank);
        self.load_ahead(rank);
    }
}

/// Draws a file by the places of the part.
fn draw_file(sampler: Option<&mut Sampler>, files: u64, rng: &mut Rng) -> u64 {
    match sampler {
        Some(sampler) => sampler.draw(rng),
        None => rng.below(files),
    }
}

/// A worker's share of the processors, at least one.
fn share_of_processors(all: u32, config: &DriverConfig) -> u32 {
    (config.worker.share_of(u64::from(all)) as u32).max(1)
}

const SAMPLER_STREAM: u64 = 910;
const DRAWS_STREAM: u64 = 911;
