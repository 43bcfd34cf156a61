//! The workload driver: a pure state machine that decides which request to start when, and counts the results.
//!
//! In its plain form it is a closed loop that keeps `iodepth` requests in flight. The loops of [`paced`] have arrivals,
//! limits, think times and several streams of requests.
//!
//! ```text
//! first poll_step      window starts                      window ends        Finished
//!        │──── ramp ────────│──────────── run ─────────────────│──── drain ─────│
//!        issues, not counted   issues; completions are counted   issues no more
//! ```
//! A world calls [`Driver::poll_step`] until it says to wait, does the returned I/Os, and reports each with
//! [`Driver::handle_completion`]; `now` never goes backwards.
//!
//! **What counts:** an I/O counts if it *completes* at a time t with window start <= t <= window end, whenever it was
//! issued: so throughput is what the target delivered in the window, without ramp and drain. Its latency runs to its
//! completion from the `poll_step` that issued it, or, in an open loop, from its arrival. With
//! [`DriverConfig::max_requests`] the window ends with the completion that reaches that count, and later completions,
//! even at the same instant, are not counted.
//!
//! **Flushes, trims and writes of zeroes** are requests like others: they take a place in flight and are timed. They
//! move no bytes, so their figures are separate from reads and writes, and they do not count towards
//! [`DriverConfig::max_requests`].
//!
//! **How it ends:** after the end of the window nothing starts; requests in flight are awaited, but not counted.
//! Arrivals of an open loop that found no place until then are counted as unserved. A replay ends with its trace: the
//! window then ends with the completion of its last request.

mod actors;
mod config;
mod count;
mod paced;
mod trace;

pub(crate) use actors::Lengths;
pub use config::{DriverConfig, DriverError, Worker};
pub use count::{IssuedCounts, WindowProgress};

use crate::data::DataSpec;
use crate::histogram::LatencySteps;
use crate::op::IoOp;
use crate::replay::ReplayError;
use crate::result::{Counts, Measurement};
use crate::series::Series;
use crate::spec::AccessSpec;
use crate::split::SplitStats;
use crate::stream::{Request, RequestStream};
use count::Alike;
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
    ops: Counts,
    /// Reads and writes, second by second.
    series: Series,
    /// What is to be added to these.
    alike: Alike,
    issued: IssuedCounts,
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
        spec.check_targets(1)?;
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
            ops: Counts::allocated(spec.reads(), spec.writes()),
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
        self.ops.read.split = Some(Box::new(SplitStats::allocated()));
        self.ops.write.split = Some(Box::new(SplitStats::allocated()));
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
        let free = self.free.last().copied().unwrap_or(u32::MAX);
        match pacer.next_turn(now, free) {
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

    /// Which part of the workload the I/O in `slot` is of, from 0.
    pub fn part_of(&self, slot: u32) -> u16 {
        self.slots[slot as usize].part
    }

    /// When the latency of the I/O in `slot` began.
    pub fn issued_at(&self, slot: u32) -> Nanos {
        self.slots[slot as usize].issued_at
    }

    /// Whether an I/O that ends at `now` is counted.
    pub fn counts(&self, now: Nanos) -> bool {
        now >= self.window_start && now <= self.window_end && self.requests_left > 0
    }

    /// Takes in that the I/O in `slot` ended.
    ///
    /// The slot must be in flight: a completion that belongs to no I/O is a fault of the world and panics.
    ///
    /// # Panics
    /// If no request is in flight in `slot`.
    #[inline]
    pub fn handle_completion(&mut self, now: Nanos, slot: u32, succeeded: bool) {
        self.now = self.now.max(now);
        let done = &mut self.slots[slot as usize];
        assert!(done.in_flight, "slot {slot} completed but was not in flight");
        done.in_flight = false;
        self.free.push(slot);
        if let Some(pacer) = &mut self.pacer {
            pacer.give_place(now, done.part, slot);
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
            self.alike.count_into(&mut self.ops, &mut self.series);
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
        self.ops.of_mut(done.op).count(done.bytes, lat, 1);
        if let Some(pacer) = &mut self.pacer {
            if succeeded {
                pacer.note_service_of_trace(done.part, now.saturating_since(done.started_at));
            }
            if let Some(stats) = pacer.stats(done.part, done.op) {
                stats.count(done.bytes, lat, 1);
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
        if let (Some(split), Some(lat)) = (&mut self.ops.of_mut(done.op).split, lat) {
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
        let (mut ops, mut series) = (self.ops.clone(), self.series.clone());
        self.alike.count_into(&mut ops, &mut series);
        Measurement {
            window: over_at.saturating_since(self.window_start),
            ops,
            parts: self.pacer.as_ref().map_or_else(Vec::new, |pacer| pacer.part_measurements(over_at)),
            actors: self.pacer.as_ref().map_or_else(Vec::new, |pacer| pacer.actor_measurements(over_at)),
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
        let Counts { read, write, others } = &self.ops;
        let (others_good, others_bad) = others.counts();
        let mut lats = LatencySteps::default();
        lats.add_histogram(&read.lat);
        lats.add_histogram(&write.lat);
        WindowProgress {
            fraction: if over { 1.0 } else { by_time.max(by_requests).max(by_trace).min(1.0) },
            in_ramp: self.started_at.is_none() || now < self.window_start,
            requests: read.requests + write.requests + others_good + good,
            bytes: read.bytes + write.bytes + ByteCount(u64::from(bytes) * good),
            errors: read.errors + write.errors + others_bad + bad,
            in_flight: (self.slots.len() - self.free.len()) as u32,
            lat: lats,
        }
    }

    #[cold]
    fn start(&mut self, now: Nanos) {
        self.started_at = Some(now);
        self.window_start = Nanos(now.get().saturating_add(self.ramp.get()));
        self.window_end = Nanos(self.window_start.get().saturating_add(self.run.get()));
        if let Some(pacer) = &mut self.pacer {
            pacer.start(now, (self.window_start, self.window_end), self.slots.len());
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
