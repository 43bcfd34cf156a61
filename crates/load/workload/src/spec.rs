//! Access specifications: a workload's requests, with Iometer's meaning of every column.
//!
//! A specification is a list of lines. For every burst one line is drawn, by share; for every I/O of the burst the
//! line's percentages decide whether it reads or writes, and whether it is random or sequential:
//! ```text
//! size   share  read  random  delay  burst  align
//! 8 KiB   100%   67%   100%    0 s      1    8 KiB      one line: StorageBench "database"
//! ```
//! - **sequential** continues where the last I/O of this driver ended, of whichever kind (Iometer keeps one position
//!   per worker and target), rounded up to the alignment; at the end of the region it starts over.
//! - **random** draws every aligned place in the region with the same probability.
//! - **delay** is waited after the last I/O of a burst was issued (not completed) before the next burst starts; the
//!   delay is that of the line whose burst just ended.
//! - **align** is a length in bytes, the length of the I/O, or (0) the block size of the target, Iometer's "sector
//!   boundaries".
//! - **reply** is the answer's size on network targets; storage targets refuse it. (On a disk, Iometer does a second
//!   I/O of that size and the same direction at a separate place, and its guide says to leave it out there.)
//!
//! Around the lines a specification says where its requests go ([`Places`]), when they start ([`Pacing`]) and what data
//! writes carry ([`DataSpec`]). Instead of lines it can have *parts* that run at once, each with its own lines, places
//! and pacing. Parts with *weights* share one loop, and each request is drawn from one of them by weight; parts without
//! run in separate loops. These may name one of the run's *targets*, and then run on that alone: what is asked of one target
//! ([`AccessSpec::on_target`]) has a driver of its own.
//!
//! **Differs from Iometer:** its dynamo waits the next burst's delay, before it; here the delay of the burst that ended
//! is waited, as its guide says. With one delay for all lines, or one line, both are the same.
//!
//! Source: Iometer User's Guide, "Access Specifications tab"; its `IOGrunt.cpp` and `IOTargetDisk.cpp` for the
//! behaviour.

mod check;

pub use check::SpecError;

use crate::actor::{Actor, Phase};
use crate::data::DataSpec;
use crate::driver::DriverError;
use crate::op::{IoOp, OpSet};
use crate::pacing::{FlushRule, OPEN_IODEPTH_DEFAULT, Pacing};
use crate::places::Places;
use crate::replay::{Replay, Timing};
use crate::rhythm::Rhythm;
use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::num::NonZeroU32;

/// A time as a number of nanoseconds, which results have where a workload's file has a text with a unit.
mod in_ns {
    use raidlab_units::NanoSpan;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(span: &NanoSpan, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(span.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NanoSpan, D::Error> {
        u64::deserialize(from).map(NanoSpan)
    }
}

/// One line of an access specification; results have it, too, so that they name their workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccessLine {
    /// Length of an I/O.
    pub bytes: u32,
    /// Share of all bursts, in percent; the lines add up to 100.
    pub share_pct: u8,
    /// Share of its I/Os that read; the others write.
    pub read_pct: u8,
    /// Share of its I/Os that go to a random place; the others go on from the last.
    pub random_pct: u8,
    /// Wait between the last I/O of a burst and the first of the next.
    #[serde(rename = "delay_ns", with = "in_ns")]
    #[schemars(with = "u64")]
    pub delay: NanoSpan,
    /// I/Os per burst; at least 1.
    pub burst: u32,
    /// Offsets are multiples of this; `None` is the length of the I/O, 0 the target's block.
    pub align_bytes: Option<u32>,
    /// Length of the reply; only network targets have one.
    pub reply_bytes: u32,
}

/// An access specification.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessSpec {
    /// Name, as in the workload files and the published tables.
    pub name: String,
    /// Lines; at least one, unless there are parts or a trace.
    pub lines: Vec<AccessLine>,
    /// Where requests go; with parts, each has places of its own.
    pub places: Places,
    /// When requests start. With parts, of those that share a loop by weight.
    pub pacing: Pacing,
    /// How the rate of arrivals changes.
    pub rhythm: Rhythm,
    /// Requests in flight that the specification itself asks for, instead of those of the run.
    pub iodepth: Option<u32>,
    /// A flush behind every so many writes. With parts, of those that share a loop by weight.
    pub flush: Option<FlushRule>,
    /// What writes carry.
    pub data: DataSpec,
    /// What runs at once, where that is more than one stream of requests; else empty.
    pub parts: Vec<MixPart>,
    /// A trace whose requests are made instead of those of lines and parts. It has places and times of its own.
    pub trace: Option<Replay>,
}

/// One of several streams of requests that run at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixPart {
    /// Name, for its results.
    pub name: String,
    /// Its share of the requests of the loop that parts with weights share; none for a loop of its own.
    pub weight: Option<u32>,
    /// Lines; at least one, unless there is an actor.
    pub lines: Vec<AccessLine>,
    /// The target of the run that it is for, from 1; none for each of them.
    pub target: Option<NonZeroU32>,
    /// What makes its requests instead of lines. It has a pace and requests in flight of its own.
    pub actor: Option<Actor>,
    /// When it is at work; in a loop of its own.
    pub phase: Phase,
    /// Where its requests go.
    pub places: Places,
    /// When its requests start, in a loop of its own.
    pub pacing: Pacing,
    /// How the rate of its arrivals changes.
    pub rhythm: Rhythm,
    /// Requests in flight in a loop of its own, instead of those of the run.
    pub iodepth: Option<u32>,
    /// A flush behind every so many writes, in a loop of its own.
    pub flush: Option<FlushRule>,
}

impl AccessLine {
    /// `random 67/33, 8 KiB`: order, percent of reads and writes, length.
    pub fn in_words(&self) -> String {
        let order = match self.random_pct {
            0 => "sequential".to_owned(),
            100 => "random".to_owned(),
            pct => format!("{pct}% random"),
        };
        format!("{order} {}/{}, {}", self.read_pct, 100 - self.read_pct, ByteCount(u64::from(self.bytes)))
    }

    /// Returns a line of full share, without delay, in bursts of one, aligned to its own length.
    pub const fn plain(bytes: u32, read_pct: u8, random_pct: u8) -> Self {
        Self {
            bytes,
            share_pct: 100,
            read_pct,
            random_pct,
            delay: NanoSpan::ZERO,
            burst: 1,
            align_bytes: None,
            reply_bytes: 0,
        }
    }

    /// Offsets of this line are multiples of so many bytes on a target with blocks of `block_bytes`.
    pub fn alignment_bytes(&self, block_bytes: u32) -> u32 {
        match self.align_bytes {
            None => self.bytes,
            Some(0) => block_bytes,
            Some(align_bytes) => align_bytes,
        }
    }
}

impl AccessSpec {
    /// Returns the specification of `lines` over all of a target, evenly, in a closed loop, with incompressible data.
    pub fn new(name: impl Into<String>, lines: Vec<AccessLine>) -> Self {
        Self { name: name.into(), lines, ..Self::default() }
    }

    /// The actors among its parts, with the parts' names.
    pub fn actors(&self) -> impl Iterator<Item = (&str, &Actor)> {
        self.parts.iter().filter_map(|part| Some((part.name.as_str(), part.actor.as_ref()?)))
    }

    /// Whether any part is an actor's or has phases.
    pub fn has_actors(&self) -> bool {
        self.parts.iter().any(|part| part.actor.is_some() || part.phase != Phase::default())
    }

    /// Whether what it asks for changes over time, whatever the target does: by a rhythm, phases, the rests between checkpoints, or as a
    /// trace did.
    pub fn is_uneven(&self) -> bool {
        let of_part = |part: &MixPart| {
            let saves = matches!(part.actor, Some(Actor::Checkpoint(_)));
            saves || !part.rhythm.is_steady() || part.phase != Phase::default()
        };
        self.trace.is_some() || !self.rhythm.is_steady() || self.parts.iter().any(of_part)
    }

    /// The same at its busiest, where it changes over more than `longer`: parts are at work all the time, and requests arrive at the
    /// highest rate; none where nothing changes.
    pub fn at_its_busiest(&self, longer: NanoSpan) -> Option<Self> {
        let mut busiest = self.clone();
        let own = std::iter::once((&mut busiest.rhythm, &mut busiest.pacing));
        let of_parts = busiest.parts.iter_mut().map(|part| {
            if part.phase.every.is_none_or(|every| every > longer) {
                part.phase = Phase::default();
            }
            (&mut part.rhythm, &mut part.pacing)
        });
        for (rhythm, pacing) in own.chain(of_parts) {
            let (steady, times) = rhythm.at_its_busiest(longer);
            *rhythm = steady;
            if let Pacing::Open(arrivals) = pacing {
                arrivals.rate = arrivals.rate.times(times);
            }
        }
        (busiest != *self).then_some(busiest)
    }

    /// The longest of the times in which it changes and is again as it was; zero where it is steady.
    pub fn cycle(&self) -> NanoSpan {
        let of_part = |part: &MixPart| part.rhythm.cycle().max(part.phase.every.unwrap_or_default());
        self.parts.iter().map(of_part).fold(self.rhythm.cycle(), NanoSpan::max)
    }

    /// The same with so many times the arrivals.
    #[must_use]
    pub fn with_arrivals(mut self, times: f64) -> Self {
        let of_parts = self.parts.iter_mut().map(|part| &mut part.pacing);
        for pacing in std::iter::once(&mut self.pacing).chain(of_parts) {
            if let Pacing::Open(arrivals) = pacing {
                arrivals.rate = arrivals.rate.times(times);
            }
        }
        self
    }

    /// Whether all that it does is to train: accelerators that read, and checkpoints.
    pub fn is_training(&self) -> bool {
        let trains =
            |part: &MixPart| matches!(part.actor, Some(Actor::Accelerator(_) | Actor::Checkpoint(_)));
        !self.parts.is_empty() && self.parts.iter().all(trains)
    }

    /// Returns the same specification with `count` accelerators in each part that has such; none if no part has.
    #[must_use]
    pub fn with_accelerators(&self, count: u32) -> Option<Self> {
        let mut spec = self.clone();
        let mut found = false;
        for part in &mut spec.parts {
            if let Some(Actor::Accelerator(it)) = &mut part.actor {
                (it.count, found) = (count, true);
            }
        }
        found.then_some(spec)
    }

    /// How many targets its parts are for; none where they name none, and each is for all.
    pub fn targets(&self) -> Option<u32> {
        self.parts.iter().filter_map(|part| part.target).max().map(NonZeroU32::get)
    }

    /// Checks that it can be run on `count` targets: there is one for each part, and each has a part.
    ///
    /// # Errors
    /// [`SpecError::Targets`] where it can't.
    pub fn check_targets(&self, count: u32) -> Result<(), SpecError> {
        let is_for_all = self.parts.iter().any(|part| part.target.is_none());
        match self.targets() {
            Some(needs) if needs > count || (needs < count && !is_for_all) => {
                Err(SpecError::Targets { spec: self.name.clone(), needs, count })
            }
            _ => Ok(()),
        }
    }

    /// What is asked of target number `index`, from 0, of `count`: that is then the only one there is.
    ///
    /// # Errors
    /// [`SpecError::Targets`] where parts are for more targets or fewer.
    pub fn on_target(&self, index: u32, count: u32) -> Result<Cow<'_, Self>, SpecError> {
        self.check_targets(count)?;
        if self.targets().is_none() {
            return Ok(Cow::Borrowed(self));
        }
        let mut own = self.clone();
        own.parts.retain(|part| part.target.is_none_or(|target| target.get() == index + 1));
        own.parts.iter_mut().for_each(|part| part.target = Some(NonZeroU32::MIN));
        Ok(Cow::Owned(own))
    }

    /// Whether its parts share a loop by weight.
    pub fn has_weights(&self) -> bool {
        self.parts.iter().any(|part| part.weight.is_some())
    }

    /// Lines, places and pacing of each stream of requests; the parts, or the one that there is.
    pub fn streams(&self) -> impl Iterator<Item = (&str, &[AccessLine], &Places)> {
        let own = self.parts.is_empty().then_some((self.name.as_str(), &self.lines[..], &self.places));
        own.into_iter()
            .chain(self.parts.iter().map(|part| (part.name.as_str(), &part.lines[..], &part.places)))
    }

    /// All lines, of all parts.
    pub fn all_lines(&self) -> impl Iterator<Item = &AccessLine> {
        self.lines.iter().chain(self.parts.iter().flat_map(|part| &part.lines))
    }

    /// All lines with their shares of all requests, which add up to one. Parts with weights have these. Loops with rates of their own have
    /// shares by these where all are so; else nobody knows, and they count alike.
    pub fn line_shares(&self) -> impl Iterator<Item = (f64, &AccessLine)> {
        let weights: f64 = self.parts.iter().filter_map(|part| part.weight).map(f64::from).sum();
        let own = if weights > 0.0 || self.parts.is_empty() { Some(self.pacing) } else { None };
        let loops = self.parts.iter().filter(|part| part.weight.is_none() && !part.lines.is_empty());
        let loops = || own.into_iter().chain(loops.clone().map(|part| part.pacing));
        let has_rates = loops().all(Pacing::is_open);
        let of_loop = move |pacing: Pacing| match pacing {
            Pacing::Open(arrivals) if has_rates => arrivals.rate.per_second(),
            _ => 1.0,
        };
        let all: f64 = loops().map(of_loop).sum();
        let of_part = move |part: &MixPart| match part.weight {
            Some(weight) => of_loop(self.pacing) * f64::from(weight) / weights,
            None => of_loop(part.pacing),
        };
        let streams = std::iter::once((of_loop(self.pacing), &self.lines[..]));
        let streams = streams.chain(self.parts.iter().map(move |part| (of_part(part), &part.lines[..])));
        streams.flat_map(move |(share, lines)| {
            let requests = |line: &AccessLine| f64::from(line.share_pct) * f64::from(line.burst);
            let of_stream: f64 = lines.iter().map(requests).sum();
            lines.iter().map(move |line| (share / all * requests(line) / of_stream, line))
        })
    }

    /// Requests in flight at most in a run that asks for `run` of them: its own number where it has one, and the sum
    /// over the parts that run in loops of their own.
    pub fn iodepth(&self, run: u32) -> u32 {
        if self.parts.is_empty() || self.has_weights() {
            return loop_iodepth(self.iodepth, self.pacing, run);
        }
        let each = self.parts.iter().map(|part| match &part.actor {
            Some(actor) => actor.iodepth(),
            None => loop_iodepth(part.iodepth, part.pacing, run),
        });
        each.fold(0, u32::saturating_add)
    }

    /// Requests in flight at most on each of `targets`, which [`AccessSpec::check_targets`] allows, where each of `workers` is asked for
    /// `run` of them.
    pub fn iodepths_on(&self, targets: u32, run: u32, workers: u32) -> Vec<u32> {
        let own = (0..targets).filter_map(|index| self.on_target(index, targets).ok());
        own.map(|spec| spec.iodepth_of_workers(run, workers)).collect()
    }

    /// Requests in flight at most where each of `workers` is asked for `run` of them: they share its own numbers.
    pub fn iodepth_of_workers(&self, run: u32, workers: u32) -> u32 {
        let loops = self.iodepth(2).saturating_sub(self.iodepth(1));
        self.iodepth(run).saturating_add(loops.saturating_mul(run).saturating_mul(workers.saturating_sub(1)))
    }

    /// Whether the number in flight of a run makes no difference to it.
    pub fn has_own_iodepth(&self) -> bool {
        self.iodepth(1) == self.iodepth(2)
    }

    /// Whether any loop of it is open.
    pub fn is_open(&self) -> bool {
        let is_timed = self.trace.as_ref().is_some_and(|trace| trace.timing != Timing::None);
        is_timed || self.pacing.is_open() || self.parts.iter().any(|part| part.pacing.is_open())
    }

    /// Returns the same specification with I/Os of `bytes`. An explicit alignment stays.
    ///
    /// # Errors
    /// [`SpecError::MixedSizes`] when the lines differ in size, [`SpecError::OfActor`] where an actor has its own, [`SpecError::Zero`] for
    /// no bytes.
    pub fn with_block_bytes(&self, bytes: u32) -> Result<Self, SpecError> {
        let sizes: std::collections::BTreeSet<u32> = self.all_lines().map(|line| line.bytes).collect();
        self.without_actors("block size")?;
        if sizes.len() > 1 {
            return Err(SpecError::MixedSizes { spec: self.name.clone(), sizes: sizes.len() });
        }
        if bytes == 0 {
            return Err(SpecError::Zero { spec: self.name.clone(), line: 1, column: "size" });
        }
        let mut spec = self.clone();
        let parts = spec.parts.iter_mut().flat_map(|part| &mut part.lines);
        spec.lines.iter_mut().chain(parts).for_each(|line| line.bytes = bytes);
        Ok(spec)
    }

    /// Returns the same specification with `read_pct` of each line's I/Os reading, and all others writing.
    ///
    /// # Errors
    /// [`SpecError::OfActor`] where an actor reads and writes what it has to.
    ///
    /// # Panics
    /// If `read_pct` is above 100.
    pub fn with_read_pct(&self, read_pct: u8) -> Result<Self, SpecError> {
        assert!(read_pct <= 100, "{read_pct} percent");
        self.without_actors("read share")?;
        let mut spec = self.clone();
        let parts = spec.parts.iter_mut().flat_map(|part| &mut part.lines);
        spec.lines.iter_mut().chain(parts).for_each(|line| line.read_pct = read_pct);
        Ok(spec)
    }

    /// Checks that no actor keeps a `what` of its own where that of all is to be replaced.
    fn without_actors(&self, what: &'static str) -> Result<(), SpecError> {
        let Some((part, actor)) = self.actors().next() else { return Ok(()) };
        let (spec, part) = (self.name.clone(), part.to_owned());
        Err(SpecError::OfActor { spec, what, part, kind: actor.kind() })
    }

    /// Length of the largest I/O; zero without lines.
    pub fn request_bytes_max(&self) -> u32 {
        let of_trace = self.trace.as_ref().map(Replay::request_bytes_max);
        let of_actors = self.actors().map(|(_, actor)| actor.request_bytes_max());
        self.all_lines().map(|line| line.bytes).chain(of_trace).chain(of_actors).max().unwrap_or(0)
    }

    /// All that its I/Os may do.
    pub fn ops(&self) -> OpSet {
        let rules = self.parts.iter().map(|part| part.flush).chain([self.flush]).flatten();
        let flush = |rule: FlushRule| if rule.with_metadata { IoOp::Flush } else { IoOp::FlushData };
        let flushes = rules.fold(OpSet::NONE, |set, rule| set.with(flush(rule)));
        let of_trace = self.trace.as_ref().map_or(OpSet::NONE, Replay::ops);
        let drawn =
            |wanted: fn(&AccessLine) -> bool| self.all_lines().any(|line| line.share_pct > 0 && wanted(line));
        let transfers = OpSet::NONE
            .with_if(IoOp::Read, drawn(|line| line.read_pct > 0))
            .with_if(IoOp::Write, drawn(|line| line.read_pct < 100));
        let of_actors = self.actors().fold(OpSet::NONE, |set, (_, actor)| set.and(actor.ops()));
        transfers.and(flushes).and(of_trace).and(of_actors)
    }

    /// Checks that a target which can do `can` is asked for nothing else.
    ///
    /// # Errors
    /// [`DriverError::CannotDo`] names the rest.
    pub fn check_ops(&self, can: OpSet) -> Result<(), DriverError> {
        let ops = self.ops().without(can);
        if ops.is_empty() { Ok(()) } else { Err(DriverError::CannotDo { spec: self.name.clone(), ops }) }
    }

    /// Whether any I/O changes what is stored: writes, trims and writes of zeroes do.
    pub fn writes(&self) -> bool {
        self.ops().iter().any(IoOp::changes_data)
    }

    /// Whether all that is written is written in sequence; none where nothing is written. Nobody knows it of a trace, and then it is not.
    pub fn writes_in_sequence(&self) -> Option<bool> {
        let in_sequence = || {
            let actors = self.actors().all(|(_, actor)| !matches!(actor, Actor::Cache(_)));
            let lines = self.all_lines().all(|line| line.read_pct == 100 || line.random_pct == 0);
            self.trace.is_none() && actors && lines
        };
        self.writes().then(in_sequence)
    }

    /// Whether any I/O reads.
    pub fn reads(&self) -> bool {
        self.ops().has(IoOp::Read)
    }
}

/// Requests in flight of one loop.
pub(crate) fn loop_iodepth(own: Option<u32>, pacing: Pacing, run: u32) -> u32 {
    own.unwrap_or(if pacing.is_open() { OPEN_IODEPTH_DEFAULT } else { run })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::{ArrivalProcess, Arrivals, RequestRate};
    use crate::rhythm::{OnOff, SpanLaw};

    fn spec(lines: Vec<AccessLine>) -> AccessSpec {
        AccessSpec::new("made-up", lines)
    }

    #[test]
    fn one_size_can_be_replaced_and_a_mix_cannot() {
        let small = AccessLine { share_pct: 40, ..AccessLine::plain(4096, 100, 0) };
        let large = AccessLine { share_pct: 60, ..AccessLine::plain(65536, 100, 0) };
        let replaced =
            spec(vec![small, AccessLine { share_pct: 60, ..small }]).with_block_bytes(8192).unwrap();
        assert!(replaced.lines.iter().all(|line| line.bytes == 8192));
        assert_eq!(replaced.lines[0].alignment_bytes(512), 8192);
        let mixed = spec(vec![small, large]).with_block_bytes(8192);
        assert_eq!(mixed, Err(SpecError::MixedSizes { spec: "made-up".into(), sizes: 2 }));
        assert!(spec(vec![small]).with_block_bytes(0).is_err());
        assert_eq!(spec(vec![small, large]).request_bytes_max(), 65536);
    }

    /// What changes by itself is no sign of a target that is not steady.
    #[test]
    fn loads_that_change_by_themselves_are_known() {
        let is_uneven = |name| crate::builtin_workload(name).unwrap().spec.is_uneven();
        let even = ["md1200-oltp", "mlperf-unet3d-h100", "kv-cache", "rocksdb-overwrite"];
        assert_eq!(even.map(is_uneven), [false; 4]);
        assert!(is_uneven("checkpoint-llama3-8b"));
        let hour = NanoSpan::from_secs(3600);
        let rhythm = Rhythm { steps: vec![(hour, 1.0), (hour, 9.0)], ..Rhythm::default() };
        let phase = Phase { lasts: Some(hour), ..Phase::default() };
        let of = |part: MixPart| AccessSpec { parts: vec![part], ..AccessSpec::default() }.is_uneven();
        assert!(AccessSpec { rhythm: rhythm.clone(), ..AccessSpec::default() }.is_uneven());
        assert!(of(MixPart { rhythm, ..MixPart::default() }));
        assert!(of(MixPart { phase, ..MixPart::default() }));
        assert!(!of(MixPart::default()));
    }

    fn open(rate: f64) -> Pacing {
        let rate = RequestRate::new(rate).expect("a rate");
        Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 })
    }

    fn part(weight: Option<u32>, pacing: Pacing, lines: &[AccessLine]) -> MixPart {
        MixPart { weight, pacing, lines: lines.to_vec(), ..MixPart::default() }
    }

    /// A recorder writes 381 times a second and reads 10 times, and a plan took half of its requests for reads.
    #[test]
    fn lines_have_the_shares_of_their_parts() {
        let (read, write) = (AccessLine::plain(4096, 100, 100), AccessLine::plain(4096, 0, 100));
        let bursts = AccessLine { share_pct: 50, burst: 3, ..read };
        let single = AccessLine { share_pct: 50, ..write };
        let closed = Pacing::default();
        let reads = |parts: Vec<MixPart>, pacing: Pacing, lines: Vec<AccessLine>| {
            let spec = AccessSpec { pacing, parts, ..spec(lines) };
            let all: f64 = spec.line_shares().map(|(share, _)| share).sum();
            assert!((all - 1.0).abs() < 1e-12, "{all}");
            spec.line_shares().map(|(share, line)| share * f64::from(line.read_pct) / 100.0).sum::<f64>()
        };
        let weighted = vec![part(Some(3), closed, &[read]), part(Some(1), closed, &[write])];
        let rated = vec![part(None, open(30.0), &[write]), part(None, open(10.0), &[read])];
        let mixed = vec![part(None, closed, &[write]), part(None, open(10.0), &[read])];
        let beside = vec![part(Some(1), closed, &[read]), part(None, open(30.0), &[write])];
        for (found, expected) in [
            (reads(Vec::new(), closed, vec![bursts, single]), 0.75),
            (reads(weighted, closed, Vec::new()), 0.75),
            (reads(rated, closed, Vec::new()), 0.25),
            (reads(mixed, closed, Vec::new()), 0.5),
            (reads(beside, open(10.0), Vec::new()), 0.25),
        ] {
            assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
    }

    /// A plan ran a shop at the rate of its night, and a database without the backup that begins an hour later.
    #[test]
    fn at_its_busiest_all_parts_work_and_arrivals_have_the_highest_rate() {
        let (hour, second) = (NanoSpan::from_secs(3600), NanoSpan::from_secs(1));
        let lines = [AccessLine::plain(4096, 100, 100)];
        let rate = |spec: &AccessSpec| match spec.pacing {
            Pacing::Open(arrivals) => arrivals.rate.per_second(),
            Pacing::Closed(_) => 0.0,
        };
        let steps = |each| Rhythm { steps: vec![(each, 1.0), (each, 3.0)], ..Rhythm::default() };
        let bursts = OnOff { on: second, off: NanoSpan::from_secs(3), lengths: SpanLaw::Fixed };
        let rows = [
            (Rhythm::default(), None),
            (steps(hour), Some(150.0)),
            (steps(NanoSpan::from_millis(10)), None),
            (Rhythm { on_off: Some(bursts), ..Rhythm::default() }, Some(400.0)),
            (Rhythm { on_off: Some(bursts), ..steps(hour) }, Some(600.0)),
        ];
        for (rhythm, expected) in rows {
            let spec = AccessSpec { pacing: open(100.0), rhythm, ..spec(lines.to_vec()) };
            let busiest = spec.at_its_busiest(second);
            assert_eq!(busiest.as_ref().map(rate), expected, "{:?}", spec.rhythm);
            assert!(busiest.is_none_or(|it| it.rhythm.is_steady() && it.at_its_busiest(second).is_none()));
        }
        let of = |phase| {
            let parts = vec![MixPart { phase, ..part(None, Pacing::default(), &lines) }];
            AccessSpec { parts, ..AccessSpec::default() }.at_its_busiest(second)
        };
        let later = Phase { after: hour, lasts: Some(second), every: Some(hour) };
        assert_eq!(of(later).expect("it changes").parts[0].phase, Phase::default());
        assert!(of(Phase { after: hour, ..Phase::default() }).is_some());
        let (after, lasts) = (NanoSpan::ZERO, Some(NanoSpan::from_millis(1)));
        assert!(of(Phase { after, lasts, every: Some(NanoSpan::from_millis(5)) }).is_none());
    }

    #[test]
    fn directions_are_those_of_lines_that_are_drawn() {
        let never = AccessLine { share_pct: 0, ..AccessLine::plain(512, 0, 0) };
        let table = [(100, true, false), (0, false, true), (67, true, true)];
        for (read_pct, reads, writes) in table {
            let spec = spec(vec![AccessLine::plain(512, read_pct, 0), never]);
            assert_eq!((spec.reads(), spec.writes()), (reads, writes), "{read_pct}");
        }
    }
}
