//! Loops beyond the plain one: arrivals, limits, think time, and several streams of requests at once.
//!
//! ```text
//! weights     loop ── draws ──► part a, part b, ...      one loop, its places shared
//! no weights  loop ──► part a                            each part a loop, with its own places
//!             loop ──► part b
//! ```
//! A loop may put a flush behind every so many of its writes. It takes a place like any other request, waits for no
//! arrival and is started before the loop's next request, which does not wait for it.
//!
//! The requests of a trace are a loop, too, with their own times if these are kept.
//!
//! A [`Loop`] says when it could start its next request; the [`Pacer`] starts the one that is due first. Loops have
//! separate places, so a slow one never blocks another.
//!
//! Invariants: a loop never has more in flight than its places; the requests of an open loop start in the order of
//! their arrival. No allocation per request: the queue of idle places has room for all of them.

use super::actors::ActorState;
use super::trace::{Next, TraceStream};
use super::{DriverConfig, DriverError, Worker};
use crate::actor::{Actor, Phase};
use crate::histogram::LatencyHistogram;
use crate::op::IoOp;
use crate::pacing::{ClosedLoop, FlushRule, Pacing};
use crate::replay::{Replay, ReplayError, Timing};
use crate::result::{ActorMeasurement, Counts, LagStats, OpStats, PartMeasurement};
use crate::rhythm::{Rhythm, Tempo};
use crate::rng::{Rng, derived_seed};
use crate::schedule::{Schedule, Throttle};
use crate::spec::{AccessLine, AccessSpec, MixPart, loop_iodepth};
use crate::stream::{Request, RequestStream};
use raidlab_units::{NanoSpan, Nanos};
use std::collections::VecDeque;

/// Streams of random numbers of a driver: parts, weights and arrivals from these on.
const PARTS_STREAM: u64 = 500;
const WEIGHTS_STREAM: u64 = 700;
const ARRIVALS_STREAM: u64 = 800;
const TEMPO_STREAM: u64 = 900;

/// A batch of a trace that is not there yet is looked for again after so long.
const READ_AGAIN_AFTER: NanoSpan = NanoSpan(50_000);

/// All loops of a driver.
#[derive(Debug)]
pub(super) struct Pacer {
    loops: Vec<Loop>,
    parts: Vec<Part>,
    /// The loop that is asked first, so that none is always last.
    first: usize,
    /// Actors that wait on other parts or make them wait.
    links: Vec<Link>,
    /// Whether parts have figures of their own: there are several, or others run on other targets.
    has_figures: bool,
}

/// One part that looks at another.
#[derive(Clone, Copy, Debug)]
struct Link {
    part: usize,
    other: usize,
    /// Bytes that the other has started to write, where they are counted.
    written_bytes: u64,
    is_pause: bool,
}

/// What a loop could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Start a request at this time, if that is not in the future.
    At(Nanos),
    /// Nothing before one of its requests ends.
    AfterCompletion,
    /// Nothing any more.
    Never,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Start `request` of the part `part`, which was due at `due`.
    Start { request: Request, due: Nanos, part: u16 },
    /// Start the flush `request`, which follows writes of the part `part`.
    Flush { request: Request, part: u16 },
    /// Nothing before this time, or the next completion.
    WaitUntil(Nanos),
    /// Nothing before the next completion.
    WaitForCompletion,
    /// Nothing any more: all traces have ended.
    Ended,
}

/// When the requests of a loop start.
#[derive(Debug)]
enum Pace {
    Closed {
        think: NanoSpan,
        throttle: Throttle,
    },
    Open(Schedule),
    /// At the times of the trace, counted from here.
    Traced(Nanos),
}

/// Where the requests of a part come from.
#[derive(Debug)]
enum Source {
    Lines(RequestStream),
    Trace(TraceStream),
    Actor(ActorState),
}

/// How late requests of an open loop started, and how long they took from then on.
#[derive(Debug)]
struct Late {
    lag: LatencyHistogram,
    service: LatencyHistogram,
}

/// A loop: its places, its pace, and the parts that it draws from.
#[derive(Debug)]
struct Loop {
    pacing: Pacing,
    rhythm: Rhythm,
    /// Its requests are those of a trace, and start at their times.
    is_traced: bool,
    pace: Option<Pace>,
    worker: Worker,
    seed: u64,
    tempo_seed: u64,
    /// Places that are neither in flight nor idle.
    ready: u32,
    /// When each idle place is ready again, in order.
    idle: VecDeque<Nanos>,
    /// No request starts before this, after a burst with a delay.
    next_burst_at: Nanos,
    first_part: usize,
    /// A flush follows so many writes, where it does.
    flush: Option<FlushRule>,
    /// Writes since the last one, and the part that the last of them was of.
    writes: u32,
    last_writer: u16,
    /// Weights of its parts, each added to those before; empty where it has one part only.
    weights: Vec<u64>,
    rng: Rng,
    /// When it is at work, from its start on.
    phase: Phase,
    has_phases: bool,
    started_at: Nanos,
}

/// A stream of requests, and what came of it.
#[derive(Debug)]
struct Part {
    name: String,
    source: Source,
    loop_index: usize,
    ops: Counts,
    late: Option<Late>,
}

impl Pacer {
    /// Returns the loops of `spec`, which is valid; none where one plain loop is all there is.
    pub(super) fn new(spec: &AccessSpec, config: &DriverConfig) -> Result<Option<Self>, DriverError> {
        if let Some(replay) = &spec.trace {
            return Ok(Some(Self::of_trace(&spec.name, replay, config)?));
        }
        if spec.parts.is_empty() && spec.pacing == Pacing::default() && spec.flush.is_none() {
            return Ok(None);
        }
        let has_figures = spec.parts.len() > 1 || spec.targets().is_some();
        let mut pacer =
            Self { loops: Vec::new(), parts: Vec::new(), first: 0, links: links(spec), has_figures };
        let is_one_loop = spec.parts.is_empty() || spec.has_weights();
        if is_one_loop {
            let weights = spec.parts.iter().scan(0, |sum, part| {
                *sum += u64::from(part.weight.unwrap_or(0));
                Some(*sum)
            });
            let how = (spec.pacing, spec.iodepth, spec.flush);
            let plain = Loop::new(how, weights.collect(), config, 0);
            pacer.loops.push(Loop { rhythm: spec.rhythm.clone(), ..plain });
        }
        for (index, (name, lines, places)) in (0..).zip(spec.streams()) {
            let is_alone = spec.parts.is_empty();
            let seed = if is_alone { config.seed } else { derived_seed(config.seed, PARTS_STREAM + index) };
            let config = DriverConfig { seed, ..config.clone() };
            if let Some(actor) = spec.parts.get(index as usize).and_then(|part| part.actor.as_ref()) {
                let state = ActorState::new(name, actor, places, &config)?;
                let part = &spec.parts[index as usize];
                let how = (Pacing::default(), Some(0), None);
                let plain = Loop::new(how, Vec::new(), &config, index);
                let (ready, idle) = (state.places(), VecDeque::new());
                pacer.loops.push(Loop { ready, idle, phase: part.phase, ..plain });
                pacer.parts.push(Part::of_actor(name, actor, state, pacer.loops.len() - 1));
                continue;
            }
            let stream = RequestStream::new(name, lines, places, &config)?;
            if !is_one_loop {
                let part = &spec.parts[index as usize];
                let how = (part.pacing, part.iodepth, part.flush);
                let plain = Loop::new(how, Vec::new(), &config, index);
                pacer.loops.push(Loop { phase: part.phase, rhythm: part.rhythm.clone(), ..plain });
            }
            let is_open =
                if is_one_loop { spec.pacing.is_open() } else { spec.parts[index as usize].pacing.is_open() };
            pacer.parts.push(Part::new(name, lines, stream, pacer.loops.len() - 1, is_open));
        }
        Ok(Some(pacer))
    }

    /// The loop that replays a trace.
    fn of_trace(name: &str, replay: &Replay, config: &DriverConfig) -> Result<Self, DriverError> {
        let is_traced = replay.timing != Timing::None;
        let one = Loop { is_traced, ..Loop::new((Pacing::default(), None, None), Vec::new(), config, 0) };
        let part = Part {
            name: name.into(),
            source: Source::Trace(TraceStream::new(replay, config)?),
            loop_index: 0,
            ops: Counts::allocated(replay.has(|device| device.reads), replay.has(|device| device.writes)),
            late: is_traced.then(Late::allocated),
        };
        Ok(Self { loops: vec![one], parts: vec![part], first: 0, links: Vec::new(), has_figures: false })
    }

    /// The trace that is replayed, if one is.
    fn trace(&self) -> Option<&TraceStream> {
        self.parts.iter().find_map(|part| match &part.source {
            Source::Trace(trace) => Some(trace),
            Source::Lines(_) | Source::Actor(_) => None,
        })
    }

    /// Why the trace could not be read to its end.
    pub(super) fn trace_fault(&self) -> Option<&ReplayError> {
        self.trace()?.fault()
    }

    /// Share of the trace that is over, where one is replayed.
    pub(super) fn trace_fraction(&self) -> Option<f64> {
        self.trace().map(TraceStream::fraction)
    }

    /// Places of all loops together.
    pub(super) fn places(&self) -> u32 {
        self.loops.iter().map(|each| each.ready).fold(0, u32::saturating_add)
    }

    /// Starts the clock of all loops; what ends in `window` counts. The driver has `slots`.
    pub(super) fn start(&mut self, now: Nanos, window: (Nanos, Nanos), slots: usize) {
        self.loops.iter_mut().for_each(|each| each.start(now));
        for part in &mut self.parts {
            if let Source::Actor(actor) = &mut part.source {
                actor.start(now, window, slots);
            }
        }
    }

    /// Tells actors what has become of the parts that they look at.
    fn tell_others(&mut self, now: Nanos) {
        for link in &self.links {
            let is_saving = matches!(&self.parts[link.part].source, Source::Actor(it) if it.is_saving());
            let (told, is_pause) = if link.is_pause { (link.other, true) } else { (link.part, false) };
            let Source::Actor(actor) = &mut self.parts[told].source else { continue };
            if is_pause {
                actor.pause(now, is_saving);
            } else {
                actor.follow(now, link.written_bytes);
            }
        }
    }

    /// Returns what to do at `now`. A request that is to start has taken a place of its loop.
    pub(super) fn next_turn(&mut self, now: Nanos, slot: u32) -> Turn {
        if !self.links.is_empty() {
            self.tell_others(now);
        }
        let mut wake = None::<Nanos>;
        let mut best = None::<(Nanos, usize)>;
        let count = self.loops.len();
        let mut ended = 0;
        for turn in 0..count {
            let index = if self.first + turn < count { self.first + turn } else { self.first + turn - count };
            let each = &mut self.loops[index];
            match each.due(now, &mut self.parts[each.first_part].source) {
                Due::At(at) if at > now => wake = Some(wake.map_or(at, |wake| wake.min(at))),
                Due::At(at) if best.is_none_or(|(earliest, _)| at < earliest) => best = Some((at, index)),
                Due::At(_) | Due::AfterCompletion => {}
                Due::Never => ended += 1,
            }
        }
        let Some((due, index)) = best else {
            let rest = if ended == count { Turn::Ended } else { Turn::WaitForCompletion };
            return wake.map_or(rest, Turn::WaitUntil);
        };
        self.first = if index + 1 < count { index + 1 } else { 0 };
        if self.loops[index].owes_flush() {
            let (request, part) = self.loops[index].take_flush();
            return Turn::Flush { request, part };
        }
        let part = self.loops[index].draw_part();
        let request = self.parts[part].source.next_request(now, slot);
        if request.op == IoOp::Write && !self.links.is_empty() {
            let followers = self.links.iter_mut().filter(|link| link.other == part && !link.is_pause);
            followers.for_each(|link| link.written_bytes += u64::from(request.bytes));
        }
        self.loops[index].take_place(now, &request, part as u16);
        Turn::Start { request, due, part: part as u16 }
    }

    /// Takes in by how much a request that counts started late.
    #[inline]
    pub(super) fn note_lag(&mut self, part: u16, lag: NanoSpan) {
        if let Some(late) = &mut self.parts[usize::from(part)].late {
            late.lag.record_ns(lag.get());
        }
    }

    /// Takes in how long a request that counts took from its start.
    #[inline]
    pub(super) fn note_service(&mut self, part: u16, service: NanoSpan) {
        if let Some(late) = &mut self.parts[usize::from(part)].late {
            late.service.record_ns(service.get());
        }
    }

    /// The same of a request that moves no bytes, if it is one of a trace: those that a loop puts in between are never late.
    pub(super) fn note_service_of_trace(&mut self, part: u16, service: NanoSpan) {
        if matches!(self.parts[usize::from(part)].source, Source::Trace(_)) {
            self.note_service(part, service);
        }
    }

    /// Takes in that a request of `part` ended: its place is idle or ready.
    #[inline]
    pub(super) fn give_place(&mut self, now: Nanos, part: u16, slot: u32) {
        let part = &mut self.parts[usize::from(part)];
        if let Source::Actor(actor) = &mut part.source {
            actor.ended(now, slot);
        }
        self.loops[part.loop_index].give_place(now);
    }

    /// The figures of one operation of `part`, where it has figures of its own.
    #[inline]
    pub(super) fn stats(&mut self, part: u16, op: IoOp) -> Option<&mut OpStats> {
        self.has_figures.then(|| self.parts[usize::from(part)].ops.of_mut(op))
    }

    /// What was counted of each part, where there are several.
    pub(super) fn part_measurements(&self, window_end: Nanos) -> Vec<PartMeasurement> {
        let parts = if self.has_figures { &self.parts[..] } else { &[] };
        let measure = |(index, part): (usize, &Part)| PartMeasurement {
            name: part.name.clone(),
            ops: part.ops.clone(),
            lag: self.lag_of(index, window_end),
        };
        parts.iter().enumerate().map(measure).collect()
    }

    /// What each actor did up to `over_at`.
    pub(super) fn actor_measurements(&self, over_at: Nanos) -> Vec<ActorMeasurement> {
        let of = |part: &Part| match &part.source {
            Source::Actor(actor) => {
                Some(ActorMeasurement { name: part.name.clone(), stats: actor.stats(over_at) })
            }
            Source::Lines(_) | Source::Trace(_) => None,
        };
        self.parts.iter().filter_map(of).collect()
    }

    /// How late requests started, of all open loops together; none without any.
    pub(super) fn lag(&self, window_end: Nanos) -> Option<LagStats> {
        let mut all: Option<LagStats> = None;
        for index in 0..self.parts.len() {
            let lag = self.lag_of(index, window_end);
            all = LagStats::merged(all, lag.as_ref());
        }
        all
    }

    /// How late requests of a part started. What a loop of several parts did not serve is the first part's.
    fn lag_of(&self, index: usize, window_end: Nanos) -> Option<LagStats> {
        let part = &self.parts[index];
        let owner = &self.loops[part.loop_index];
        let Late { lag, service } = part.late.as_ref()?;
        let is_first = self.parts.iter().position(|other| other.loop_index == part.loop_index) == Some(index);
        let unserved = if is_first { owner.unserved(window_end, &part.source) } else { 0 };
        Some(LagStats { lag: lag.clone(), service: service.clone(), unserved })
    }
}

impl Part {
    fn new(
        name: &str,
        lines: &[AccessLine],
        stream: RequestStream,
        loop_index: usize,
        is_open: bool,
    ) -> Self {
        let drawn =
            |wanted: fn(&AccessLine) -> bool| lines.iter().any(|line| line.share_pct > 0 && wanted(line));
        Self {
            name: name.into(),
            source: Source::Lines(stream),
            loop_index,
            ops: Counts::allocated(drawn(|line| line.read_pct > 0), drawn(|line| line.read_pct < 100)),
            late: is_open.then(Late::allocated),
        }
    }
}

impl Part {
    fn of_actor(name: &str, actor: &Actor, state: ActorState, loop_index: usize) -> Self {
        let ops = actor.ops();
        Self {
            name: name.into(),
            source: Source::Actor(state),
            loop_index,
            ops: Counts::allocated(ops.has(IoOp::Read), ops.has(IoOp::Write)),
            late: None,
        }
    }
}

/// Which parts of `spec` look at which others.
fn links(spec: &AccessSpec) -> Vec<Link> {
    let index_of = |name: &str| spec.parts.iter().position(|part| part.name == name);
    let of = |(part, own): (usize, &MixPart)| {
        let (key, name) = own.actor.as_ref()?.other_part()?;
        Some(Link { part, other: index_of(name)?, written_bytes: 0, is_pause: key == "pauses" })
    };
    spec.parts.iter().enumerate().filter_map(of).collect()
}

impl Late {
    fn allocated() -> Self {
        Self { lag: LatencyHistogram::allocated(), service: LatencyHistogram::allocated() }
    }
}

impl Source {
    #[inline]
    fn next_request(&mut self, now: Nanos, slot: u32) -> Request {
        match self {
            Self::Lines(stream) => stream.next_request(),
            Self::Trace(trace) => trace.take(),
            Self::Actor(actor) => actor.take(now, slot),
        }
    }
}

impl Loop {
    fn new(
        (pacing, iodepth, flush): (Pacing, Option<u32>, Option<FlushRule>),
        weights: Vec<u64>,
        config: &DriverConfig,
        first_part: u64,
    ) -> Self {
        // The run's number is this worker's share already.
        let fixed = iodepth.or(pacing.is_open().then(|| loop_iodepth(None, pacing, 0)));
        let ready = fixed.map_or(config.iodepth, |places| config.worker.share_of(u64::from(places)) as u32);
        // With fewer places than workers, those that have one share the rate.
        let count = fixed.map_or(config.worker.count, |places| config.worker.count.min(places));
        Self {
            pacing,
            rhythm: Rhythm::default(),
            is_traced: false,
            pace: None,
            worker: Worker { index: config.worker.index, count: count.max(1) },
            seed: derived_seed(config.seed, ARRIVALS_STREAM + first_part),
            tempo_seed: derived_seed(config.shared_seed.unwrap_or(config.seed), TEMPO_STREAM + first_part),
            ready,
            idle: VecDeque::with_capacity(ready as usize),
            next_burst_at: Nanos::ZERO,
            first_part: first_part as usize,
            flush,
            writes: 0,
            last_writer: first_part as u16,
            weights,
            rng: Rng::new(derived_seed(config.seed, WEIGHTS_STREAM)),
            phase: Phase::default(),
            has_phases: false,
            started_at: Nanos::ZERO,
        }
    }

    fn start(&mut self, now: Nanos) {
        let Worker { index, count } = self.worker;
        (self.started_at, self.has_phases) = (now, self.phase != Phase::default());
        self.pace = Some(match self.pacing {
            _ if self.is_traced => Pace::Traced(now),
            Pacing::Open(arrivals) => {
                let schedule = Schedule::new(&arrivals, (index, count), self.seed, now);
                Pace::Open(schedule.with_tempo(Tempo::new(&self.rhythm, self.tempo_seed, now)))
            }
            Pacing::Closed(closed @ ClosedLoop { think, .. }) => {
                Pace::Closed { think, throttle: Throttle::new(&closed, count, now) }
            }
        });
    }

    /// When its next request, which is one of `source`, is due: when it arrives, or when the loop may have one.
    #[inline]
    fn due(&mut self, now: Nanos, source: &mut Source) -> Due {
        while self.idle.front().is_some_and(|ready_at| *ready_at <= now) {
            self.idle.pop_front();
            self.ready += 1;
        }
        if self.has_phases {
            match self.phase.next_on(now.saturating_since(self.started_at)) {
                None => return Due::Never,
                Some(on) if self.started_at + on > now => return Due::At(self.started_at + on),
                Some(_) => {}
            }
        }
        let after = match source {
            Source::Actor(actor) => return actor.due(now),
            Source::Lines(_) if self.owes_flush() => return self.when_ready(now),
            Source::Lines(_) => NanoSpan::ZERO,
            Source::Trace(trace) => match trace.peek() {
                Next::At(after) => after,
                Next::NotYet => return Due::At(now + READ_AGAIN_AFTER),
                Next::Ended => return Due::Never,
            },
        };
        let pace_due = match &self.pace {
            Some(Pace::Traced(start)) => Nanos(start.get().saturating_add(after.get())),
            Some(Pace::Open(schedule)) => schedule.due(),
            // What may start now is due now: only arrivals are late.
            Some(Pace::Closed { throttle, .. }) => throttle.due().max(self.next_burst_at).max(now),
            None => return Due::AfterCompletion,
        };
        self.when_ready(pace_due)
    }

    /// From `at` on, or when it has a place.
    #[inline]
    fn when_ready(&self, at: Nanos) -> Due {
        match (self.ready, self.idle.front()) {
            (0, None) => Due::AfterCompletion,
            (0, Some(ready_at)) => Due::At(at.max(*ready_at)),
            _ => Due::At(at),
        }
    }

    /// The part that the next request is of.
    #[inline]
    fn draw_part(&mut self) -> usize {
        let Some(total) = self.weights.last() else { return self.first_part };
        let drawn = self.rng.below(*total);
        self.weights.partition_point(|until| *until <= drawn)
    }

    /// Whether so many writes have started that a flush is to follow.
    #[inline]
    fn owes_flush(&self) -> bool {
        self.flush.is_some_and(|rule| self.writes >= rule.every.get())
    }

    /// Hands out the flush that follows the writes since the last one, and the part that it is of.
    fn take_flush(&mut self) -> (Request, u16) {
        self.ready -= 1;
        self.writes = 0;
        let with_metadata = self.flush.is_some_and(|rule| rule.with_metadata);
        let op = if with_metadata { IoOp::Flush } else { IoOp::FlushData };
        (Request { op, offset_bytes: 0, bytes: 0, delay_after: NanoSpan::ZERO }, self.last_writer)
    }

    #[inline]
    fn take_place(&mut self, now: Nanos, request: &Request, part: u16) {
        self.ready -= 1;
        if request.op == IoOp::Write {
            self.writes = self.writes.saturating_add(1);
            self.last_writer = part;
        }
        match &mut self.pace {
            Some(Pace::Traced(_)) => {}
            Some(Pace::Open(schedule)) => schedule.advance(),
            Some(Pace::Closed { throttle, .. }) => throttle.advance(now, request.bytes),
            None => unreachable!("a loop that has not started is never due"),
        }
        if request.delay_after > NanoSpan::ZERO {
            self.next_burst_at = Nanos(now.get().saturating_add(request.delay_after.get()));
        }
    }

    #[inline]
    fn give_place(&mut self, now: Nanos) {
        match self.pace {
            Some(Pace::Closed { think, .. }) if think > NanoSpan::ZERO => self.idle.push_back(now + think),
            _ => self.ready += 1,
        }
    }

    /// Requests that arrived before `window_end` and never started. Of a trace those that are known so far.
    fn unserved(&self, window_end: Nanos, source: &Source) -> u64 {
        match (&self.pace, source) {
            (Some(Pace::Open(schedule)), _) => schedule.count_before(window_end),
            (Some(Pace::Traced(start)), Source::Trace(trace)) => {
                trace.due_before(window_end.saturating_since(*start))
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
