//! The workload driver: a pure state machine that says which request to start when, and counts what came of it.
//!
//! In its plain form it is a closed loop that keeps `iodepth` requests in flight; the loops of [`paced`] have arrivals, limits,
//! think times and several streams of requests.
//!
//! ```text
//! first poll_step      window starts                      window ends        Finished
//!        │──── ramp ────────│──────────── run ─────────────────│──── drain ─────│
//!        issues, not counted   issues; completions are counted   issues no more
//! ```
//! A world calls [`Driver::poll_step`] until it says to wait, does the I/Os it was handed, and reports each with
//! [`Driver::handle_completion`]; `now` never goes backwards.
//!
//! **What counts:** an I/O counts when it *completes* at a time t with window start <= t <= window end, whenever it
//! was issued: so throughput is what the target delivered in the window, and neither the ramp nor the drain is in
//! it. Its latency runs to its completion from the `poll_step` that handed it out, or, in an open loop, from its arrival. With
//! [`DriverConfig::max_requests`] the window ends with the completion that reaches that count, and what completes
//! later, even at the same instant, is not counted.
//!
//! **Flushes, trims and writes of zeroes** are requests like others: they take a place in flight and are timed. They move no
//! bytes, so they stand beside reads and writes in the figures, and do not count towards [`DriverConfig::max_requests`].
//!
//! **How it ends:** from the end of the window on nothing starts; requests in flight are waited for, but are not in the
//! figures. Arrivals of an open loop that found no place until then are counted as unserved. A replay ends with its trace: the
//! window then ends with the completion of its last request.

mod paced;
mod trace;

use crate::data::DataSpec;
use crate::op::{IoOp, OpSet};
use crate::replay::ReplayError;
use crate::result::{Measurement, OpStats, OtherStats};
use crate::rng::derived_seed;
use crate::series::{Series, Track};
use crate::spec::{AccessSpec, SpecError};
use crate::split::SplitStats;
use crate::stream::{Request, RequestStream};
use paced::{Pacer, Turn};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// An I/O that the driver wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverIo {
    /// Which of the `iodepth` places it takes; free again after its completion. Dense from 0.
    pub slot: u32,
    /// What it does.
    pub op: IoOp,
    /// First byte, counted from the start of the target; zero for a flush.
    pub offset_bytes: u64,
    /// Length in bytes; zero for a flush.
    pub bytes: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverStep {
    /// Do this I/O now.
    Issue(DriverIo),
    /// Nothing to do before this time, or the next completion.
    WaitUntil(Nanos),
    /// All places are taken, or the window is over: wait for a completion.
    WaitForCompletion,
    /// The window is over and nothing is in flight.
    Finished,
}

/// What to drive.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Part of the target in use, from its start; offsets stay within it.
    pub region: ByteCount,
    /// Offsets and lengths are multiples of this (the target's block size).
    pub block_bytes: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
    pub run: NanoSpan,
    /// Where the sequential stream starts, from the start of the region.
    pub start_offset: ByteCount,
    /// Ends the window when so many requests were counted, failed ones too; `None` leaves it to `run`.
    pub max_requests: Option<u64>,
    /// Which share of the specification's own numbers (rates, requests in flight) this driver has.
    pub worker: Worker,
}

/// One of several workers that share a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which, from 0.
    pub index: u32,
    /// How many there are; at least 1.
    pub count: u32,
}

impl Worker {
    /// The only one.
    pub const ALONE: Self = Self { index: 0, count: 1 };

    /// Returns its share of `total`; the shares of all workers add up to it.
    pub const fn share_of(self, total: u64) -> u64 {
        let count = self.count as u64;
        total / count + ((self.index as u64) < total % count) as u64
    }
}

/// Why a workload can't be driven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The region holds less than one request.
    #[error("the region of {region} is smaller than one request of {request_bytes} bytes")]
    RegionTooSmall {
        /// Region given.
        region: ByteCount,
        /// Largest request of the specification.
        request_bytes: u32,
    },
    /// The access specification itself is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The trace does not fit the target.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The target has no such requests.
    #[error(
        "there are {ops} in workload '{spec}', and arrays have no such requests: leave them out, or load another target"
    )]
    CannotDo {
        /// Name of the specification.
        spec: String,
        /// What it can't do.
        ops: OpSet,
    },
    /// A length does not fit the blocks of the target.
    #[error(
        "line {line} of workload '{spec}' has {column} = {bytes}: \
         make it a multiple of the target's block of {block_bytes} bytes"
    )]
    NotInBlocks {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
        /// What was given.
        bytes: u32,
        /// Block size of the target.
        block_bytes: u32,
    },
    /// A reply on a target that has none.
    #[error(
        "line {line} of workload '{spec}' has reply = {reply_bytes}: \
         replies exist on network targets only, leave it out for storage"
    )]
    ReplyOnStorage {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// What was given.
        reply_bytes: u32,
    },
    /// The part of the target that the workload uses is not within the region.
    #[error(
        "workload '{spec}' uses {} from {start} on, but its region has only {region}: make it smaller",
        size.map_or_else(|| "the rest".into(), |size| size.to_string())
    )]
    PlacesOutside {
        /// Name of the specification, or of the part.
        spec: String,
        /// Where its part of the target starts.
        start: ByteCount,
        /// Length of that part, where it is given.
        size: Option<ByteCount>,
        /// Region given.
        region: ByteCount,
    },
    /// A number that must be above zero is zero.
    #[error("{what} is 0: give at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// The sequential stream would start outside the region or between blocks.
    #[error(
        "the sequential stream can't start at byte {start_offset_bytes}: \
         give a multiple of {block_bytes} below the region's {region_bytes} bytes"
    )]
    StartOffset {
        /// Start given.
        start_offset_bytes: u64,
        /// Block size of the target.
        block_bytes: u32,
        /// Region given.
        region_bytes: u64,
    },
}

/// I/Os handed out since the start, in ramp, window and drain together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssuedCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, trims and writes of zeroes.
    pub others: u64,
    /// Bytes of reads and writes.
    pub bytes: ByteCount,
}

impl IssuedCounts {
    /// All of them.
    pub const fn requests(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// Adds what another worker handed out.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.bytes += other.bytes;
    }
}

/// How far the window has come, for progress displays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowProgress {
    /// Share of ramp and window that is over, from 0 to 1; counts requests where those end the window sooner.
    pub fraction: f64,
    /// True before the window starts.
    pub in_ramp: bool,
    /// Requests counted so far, without the failed ones.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: ByteCount,
    /// Failed requests so far.
    pub errors: u64,
    /// Requests in flight now.
    pub in_flight: u32,
}

/// A place for an I/O in flight.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Where its latency begins: when it was handed out, or when it arrived.
    issued_at: Nanos,
    /// When it was handed out.
    started_at: Nanos,
    bytes: u32,
    part: u16,
    op: IoOp,
    in_flight: bool,
}

/// Requests that ended alike, one after the other: at the same time, of the same direction and length, after the same
/// latency. Those that one call brings back are, where one call had taken them; they are counted together.
#[derive(Clone, Copy, Debug)]
struct Alike {
    at: Nanos,
    /// None where they failed.
    lat: Option<NanoSpan>,
    bytes: u32,
    op: IoOp,
    /// How many.
    times: u32,
}

impl Alike {
    const NONE: Self = Self { at: Nanos::ZERO, lat: None, bytes: 0, op: IoOp::Read, times: 0 };

    /// Whether both are of the same kind, however many of each there are.
    #[inline]
    fn is_like(&self, other: &Self) -> bool {
        self.at == other.at && self.lat == other.lat && self.bytes == other.bytes && self.op == other.op
    }

    /// Counts them.
    #[inline]
    fn count_into(&self, read: &mut OpStats, write: &mut OpStats, series: &mut Series) {
        if self.times > 0 {
            let is_read = self.op == IoOp::Read;
            let (stats, track) = if is_read { (read, Track::Read) } else { (write, Track::Write) };
            stats.count(self.bytes, self.lat, u64::from(self.times));
            series.record(self.at, track, self.bytes, self.lat, self.times);
        }
    }
}

/// The driver.
#[derive(Debug)]
pub struct Driver {
    /// The requests of the plain loop, where that is all there is.
    stream: Option<RequestStream>,
    /// All loops, where there is more than the plain one.
    pacer: Option<Box<Pacer>>,
    data: DataSpec,
    slots: Vec<Slot>,
    /// When the request of each slot was handed on; empty where latency is not cut in two.
    handed_on_at: Vec<Nanos>,
    /// Slots that are free; the one freed last is taken first.
    free: Vec<u32>,
    region: ByteCount,
    block_bytes: u32,
    request_bytes_max: u32,
    ramp: NanoSpan,
    run: NanoSpan,
    /// Set by the first poll.
    started_at: Option<Nanos>,
    window_start: Nanos,
    window_end: Nanos,
    /// No I/O is issued before this; later than now only between bursts with a delay.
    next_burst_at: Nanos,
    /// Requests that may still be counted.
    requests_left: u64,
    max_requests: Option<u64>,
    /// Latest time seen.
    now: Nanos,
    read: OpStats,
    write: OpStats,
    others: OtherStats,
    /// Reads and writes, second by second.
    series: Series,
    /// What is to be added to these.
    alike: Alike,
    issued: IssuedCounts,
}

impl DriverConfig {
    /// Returns the part of worker `worker` (from 0) of `workers` that share this load: its share of the requests
    /// in flight and of `max_requests`, its own seed, and its sequential stream started so that the workers'
    /// streams are spread evenly over the region. With more workers than requests in flight the last ones get none,
    /// which [`Driver::new`] refuses.
    #[must_use]
    pub fn for_worker(&self, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} of {workers}");
        let (index, count) = (u64::from(worker), u64::from(workers));
        let part = Worker { index: worker, count: workers };
        let spread_bytes = (u128::from(self.region.get()) * u128::from(index) / u128::from(count)) as u64;
        let block_bytes = u64::from(self.block_bytes.max(1));
        let start_bytes = self.start_offset.get() + spread_bytes / block_bytes * block_bytes;
        Self {
            iodepth: part.share_of(u64::from(self.iodepth)) as u32,
            seed: derived_seed(self.seed, index),
            start_offset: ByteCount(start_bytes % self.region.get().max(1)),
            max_requests: self.max_requests.map(|max| part.share_of(max)),
            worker: Worker {
                index: self.worker.index * workers + worker,
                count: self.worker.count * workers,
            },
            ..self.clone()
        }
    }

    /// Checks the numbers; `places` is the number of requests that this driver will have in flight.
    fn validate(&self, places: u32) -> Result<(), DriverError> {
        let numbers = [
            ("the number of requests in flight", u64::from(places)),
            ("the length of the measured window", self.run.get()),
            ("the number of requests that ends the window", self.max_requests.unwrap_or(1)),
        ];
        if let Some(&(what, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(DriverError::Zero { what });
        }
        let start_offset_bytes = self.start_offset.get();
        let region_bytes = self.region.get();
        let in_blocks = start_offset_bytes.is_multiple_of(u64::from(self.block_bytes));
        if in_blocks && (start_offset_bytes == 0 || start_offset_bytes < region_bytes) {
            return Ok(());
        }
        Err(DriverError::StartOffset { start_offset_bytes, block_bytes: self.block_bytes, region_bytes })
    }
}

impl Driver {
    /// Returns the driver of `spec` as `config` says. Its clock starts with the first [`Driver::poll_step`].
    ///
    /// # Errors
    /// [`DriverError`] when the specification or a number is wrong, or does not fit the target.
    pub fn new(spec: &AccessSpec, config: &DriverConfig) -> Result<Self, DriverError> {
        if config.block_bytes == 0 {
            return Err(DriverError::Zero { what: "the target's block size" });
        }
        spec.validate()?;
        let pacer = Pacer::new(spec, config)?;
        let own = spec.iodepth.map(|own| config.worker.share_of(u64::from(own)) as u32);
        let places = pacer.as_ref().map_or(own.unwrap_or(config.iodepth), Pacer::places);
        config.validate(places)?;
        let plain = |(name, lines, places)| RequestStream::new(name, lines, places, config);
        let stream = if pacer.is_some() { None } else { spec.streams().next().map(plain).transpose()? };
        let empty = Slot {
            issued_at: Nanos::ZERO,
            started_at: Nanos::ZERO,
            bytes: 0,
            part: 0,
            op: IoOp::Read,
            in_flight: false,
        };
        let stats = |used: bool| if used { OpStats::allocated() } else { OpStats::default() };
        Ok(Self {
            stream,
            pacer: pacer.map(Box::new),
            data: spec.data,
            slots: vec![empty; places as usize],
            handed_on_at: Vec::new(),
            free: (0..places).rev().collect(),
            region: config.region,
            block_bytes: config.block_bytes,
            request_bytes_max: spec.request_bytes_max(),
            ramp: config.ramp,
            run: config.run,
            started_at: None,
            window_start: Nanos::ZERO,
            window_end: Nanos::FAR_FUTURE,
            next_burst_at: Nanos::ZERO,
            requests_left: config.max_requests.unwrap_or(u64::MAX),
            max_requests: config.max_requests,
            now: Nanos::ZERO,
            read: stats(spec.reads()),
            write: stats(spec.writes()),
            others: OtherStats::default(),
            series: match spec.trace {
                Some(_) => Series::growing(spec.reads(), spec.writes()),
                None => Series::allocated(config.run, spec.reads(), spec.writes()),
            },
            alike: Alike::NONE,
            issued: IssuedCounts::default(),
        })
    }

    /// Returns the same driver, which also counts both parts of latency apart ([`SplitStats`]). The world then calls
    /// [`Driver::handle_submitted`] for each I/O.
    #[must_use]
    pub fn with_latency_split(mut self) -> Self {
        self.handed_on_at = vec![Nanos::ZERO; self.slots.len()];
        self.read.split = Some(Box::new(SplitStats::allocated()));
        self.write.split = Some(Box::new(SplitStats::allocated()));
        self
    }

    /// Takes in that the I/O in `slot` is handed on at `now`; of no effect where latency is not cut in two.
    #[inline]
    pub fn handle_submitted(&mut self, now: Nanos, slot: u32) {
        if let Some(handed_on_at) = self.handed_on_at.get_mut(slot as usize) {
            *handed_on_at = now;
        }
    }

    /// Returns what to do next at `now`. An I/O that it hands out is in flight from then on.
    #[inline]
    pub fn poll_step(&mut self, now: Nanos) -> DriverStep {
        self.now = self.now.max(now);
        if self.started_at.is_none() {
            self.start(now);
        }
        if self.is_window_over(now) {
            let idle = self.free.len() == self.slots.len();
            return if idle { DriverStep::Finished } else { DriverStep::WaitForCompletion };
        }
        let Some(stream) = &mut self.stream else { return self.poll_paced(now) };
        if now < self.next_burst_at {
            return DriverStep::WaitUntil(self.next_burst_at.min(self.window_end));
        }
        match self.free.pop() {
            Some(slot) => {
                let request = stream.next_request();
                if request.delay_after != NanoSpan::ZERO {
                    self.next_burst_at = Nanos(now.get().saturating_add(request.delay_after.get()));
                }
                DriverStep::Issue(self.issue(&request, slot, now, 0))
            }
            None => DriverStep::WaitForCompletion,
        }
    }

    /// The next step of loops that are not the plain one; apart, so that the plain one stays short.
    #[inline(never)]
    fn poll_paced(&mut self, now: Nanos) -> DriverStep {
        let pacer = self.pacer.as_mut().expect("a driver has a plain stream or a pacer");
        match pacer.next_turn(now) {
            Turn::Start { request, due, part } => {
                if now >= self.window_start {
                    pacer.note_lag(part, now.saturating_since(due));
                }
                let slot = self.free.pop().expect("a loop has a slot for each of its places");
                let moves_bytes = request.op.moves_bytes();
                let issue = if moves_bytes { Self::issue } else { Self::issue_other };
                DriverStep::Issue(issue(self, &request, slot, due, part))
            }
            Turn::Flush { request, part } => {
                let slot = self.free.pop().expect("a loop has a slot for each of its places");
                DriverStep::Issue(self.issue_other(&request, slot, now, part))
            }
            Turn::WaitUntil(at) => DriverStep::WaitUntil(at.min(self.window_end)),
            Turn::Ended if self.free.len() == self.slots.len() => {
                self.window_end = self.window_end.min(self.now);
                DriverStep::Finished
            }
            Turn::WaitForCompletion | Turn::Ended => DriverStep::WaitForCompletion,
        }
    }

    /// Takes in that the I/O in `slot` ended.
    ///
    /// The slot must be in flight: a completion that belongs to no I/O is a fault of the world and panics.
    #[inline]
    pub fn handle_completion(&mut self, now: Nanos, slot: u32, succeeded: bool) {
        self.now = self.now.max(now);
        let done = &mut self.slots[slot as usize];
        assert!(done.in_flight, "slot {slot} completed but was not in flight");
        done.in_flight = false;
        self.free.push(slot);
        if let Some(pacer) = &mut self.pacer {
            pacer.give_place(now, done.part);
            if !done.op.moves_bytes() {
                return self.count_other(now, slot, succeeded);
            }
        }
        if now < self.window_start || now > self.window_end || self.requests_left == 0 {
            return;
        }
        let lat = succeeded.then(|| now.saturating_since(done.issued_at));
        let ended = Alike { at: now, lat, bytes: done.bytes, op: done.op, times: 1 };
        if ended.is_like(&self.alike) {
            self.alike.times += 1;
        } else {
            self.alike.count_into(&mut self.read, &mut self.write, &mut self.series);
            self.alike = ended;
        }
        if self.pacer.is_some() || !self.handed_on_at.is_empty() {
            self.count_parts(now, slot, lat);
        }
        self.requests_left -= 1;
        if self.requests_left == 0 {
            self.window_end = now;
        }
    }

    /// Counts a request that moves no bytes, which ended now.
    #[cold]
    fn count_other(&mut self, now: Nanos, slot: u32, succeeded: bool) {
        if now < self.window_start || now > self.window_end || self.requests_left == 0 {
            return;
        }
        let done = &self.slots[slot as usize];
        let lat = succeeded.then(|| now.saturating_since(done.issued_at));
        self.others.of_mut(done.op).count(done.bytes, lat, 1);
        if let Some(pacer) = &mut self.pacer {
            if succeeded {
                pacer.note_service_of_trace(done.part, now.saturating_since(done.started_at));
            }
            if let Some(others) = pacer.others(done.part) {
                others.of_mut(done.op).count(done.bytes, lat, 1);
            }
        }
    }

    /// Counts the request of `slot`, which ended now, for its part of a mix, and cuts its latency in two.
    #[inline(never)]
    fn count_parts(&mut self, now: Nanos, slot: u32, lat: Option<NanoSpan>) {
        let done = &self.slots[slot as usize];
        if let Some(pacer) = &mut self.pacer {
            if lat.is_some() {
                pacer.note_service(done.part, now.saturating_since(done.started_at));
            }
            if let Some(stats) = pacer.stats(done.part, done.op) {
                stats.count(done.bytes, lat, 1);
            }
        }
        let stats = if done.op == IoOp::Read { &mut self.read } else { &mut self.write };
        if let (Some(split), Some(lat)) = (&mut stats.split, lat) {
            let slat = self.handed_on_at[slot as usize].saturating_since(done.issued_at);
            split.count(slat, NanoSpan(lat.get().saturating_sub(slat.get())));
        }
    }

    /// Ends ramp or window at `now`, for a user's stop: nothing more is issued, what is in flight drains.
    pub fn handle_stop(&mut self, now: Nanos) {
        if self.started_at.is_none() {
            self.start(now);
        }
        self.now = self.now.max(now);
        self.window_end = self.window_end.min(now);
        self.window_start = self.window_start.min(self.window_end);
        self.requests_left = 0;
    }

    /// Requests in flight at most; slots are below it.
    pub fn iodepth(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The slots of the requests in flight, for a world that has to ask for them again.
    pub fn slots_in_flight(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.in_flight).map(|(number, _)| number)
    }

    /// Part of the target in use, from its start.
    pub fn region(&self) -> ByteCount {
        self.region
    }

    /// What writes are to carry.
    pub fn data(&self) -> DataSpec {
        self.data
    }

    /// Offsets and lengths are multiples of this many bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Length of the longest request in bytes.
    pub fn request_bytes_max(&self) -> u32 {
        self.request_bytes_max
    }

    /// Returns what was counted so far; the window is as long as it has lasted up to the latest event.
    pub fn measurement(&self) -> Measurement {
        let over_at = self.now.min(self.window_end);
        let (mut read, mut write, mut series) = (self.read.clone(), self.write.clone(), self.series.clone());
        self.alike.count_into(&mut read, &mut write, &mut series);
        Measurement {
            window: over_at.saturating_since(self.window_start),
            read,
            write,
            others: self.others.clone(),
            parts: self.pacer.as_ref().map_or_else(Vec::new, |pacer| pacer.part_measurements(over_at)),
            lag: self.pacer.as_ref().and_then(|pacer| pacer.lag(over_at)),
            series,
        }
    }

    /// Returns how many I/Os were handed out since the start, counted or not.
    pub fn issued(&self) -> IssuedCounts {
        self.issued
    }

    /// Why the trace that is replayed could not be read to its end, if it could not.
    pub fn trace_fault(&self) -> Option<&ReplayError> {
        self.pacer.as_ref()?.trace_fault()
    }

    /// Returns how far the window has come at `now`.
    pub fn window_progress(&self, now: Nanos) -> WindowProgress {
        let started_at = self.started_at.unwrap_or(now);
        let length_ns = self.ramp.get() as f64 + self.run.get() as f64;
        let by_time = now.saturating_since(started_at).get() as f64 / length_ns;
        let by_trace = self.pacer.as_ref().and_then(|pacer| pacer.trace_fraction()).unwrap_or(0.0);
        let by_requests = self.max_requests.map_or(0.0, |max| (max - self.requests_left) as f64 / max as f64);
        let over = self.started_at.is_some() && self.is_window_over(now);
        let Alike { lat, bytes, times, .. } = self.alike;
        let (good, bad) = if lat.is_some() { (u64::from(times), 0) } else { (0, u64::from(times)) };
        let (others_good, others_bad) = self.others.counts();
        WindowProgress {
            fraction: if over { 1.0 } else { by_time.max(by_requests).max(by_trace).min(1.0) },
            in_ramp: self.started_at.is_none() || now < self.window_start,
            requests: self.read.requests + self.write.requests + others_good + good,
            bytes: self.read.bytes + self.write.bytes + ByteCount(u64::from(bytes) * good),
            errors: self.read.errors + self.write.errors + others_bad + bad,
            in_flight: (self.slots.len() - self.free.len()) as u32,
        }
    }

    #[cold]
    fn start(&mut self, now: Nanos) {
        self.started_at = Some(now);
        self.window_start = Nanos(now.get().saturating_add(self.ramp.get()));
        self.window_end = Nanos(self.window_start.get().saturating_add(self.run.get()));
        if let Some(pacer) = &mut self.pacer {
            pacer.start(now);
        }
        self.series.start(self.window_start);
    }

    #[inline]
    fn is_window_over(&self, now: Nanos) -> bool {
        now >= self.window_end || self.requests_left == 0
    }

    /// Puts a read or write in flight whose latency runs from `issued_at`.
    #[inline]
    fn issue(&mut self, request: &Request, slot: u32, issued_at: Nanos, part: u16) -> DriverIo {
        if request.op == IoOp::Read {
            self.issued.reads += 1;
        } else {
            self.issued.writes += 1;
        }
        self.issued.bytes += ByteCount(u64::from(request.bytes));
        self.put_in_flight(request, slot, issued_at, part)
    }

    /// The same of a request that moves no bytes.
    #[cold]
    fn issue_other(&mut self, request: &Request, slot: u32, issued_at: Nanos, part: u16) -> DriverIo {
        self.issued.others += 1;
        self.put_in_flight(request, slot, issued_at, part)
    }

    #[inline]
    fn put_in_flight(&mut self, request: &Request, slot: u32, issued_at: Nanos, part: u16) -> DriverIo {
        self.slots[slot as usize] = Slot {
            issued_at,
            started_at: self.now,
            bytes: request.bytes,
            part,
            op: request.op,
            in_flight: true,
        };
        DriverIo { slot, op: request.op, offset_bytes: request.offset_bytes, bytes: request.bytes }
    }
}

#[cfg(test)]
mod tests;
