//! What a workload does, for who wants to see it before it runs: its requests on a target that answers each after the same time, counted by
//! size and along time.
//!
//! ```text
//! spec ─► Driver ─► requests ─► a target of LATENCY + bytes / RATE ─► sizes, rates, requests in flight
//! ```
//! The target takes any number of requests at once, so what is seen is the workload's own doing. What a real target makes of it depends on
//! the target: a closed loop is as fast as that.

use crate::driver::{Driver, DriverConfig, DriverError, DriverStep};
use crate::op::IoOp;
use crate::spec::AccessSpec;
use crate::{Actor, Phase, Rhythm};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Answers come after so long, and so much later for each byte.
const LATENCY: NanoSpan = NanoSpan::from_micros(200);
const BYTES_PER_NS: u64 = 2;
/// Stretches of time that are counted one by one.
const COLUMNS: usize = 60;
/// Requests at most; what comes after them is not seen.
const REQUESTS_MAX: usize = 300_000;
/// How long a workload without a rhythm of its own is watched, and how long any is.
const USUAL: NanoSpan = NanoSpan::from_secs(10);
const LONGEST: NanoSpan = NanoSpan::from_secs(86_400);
/// Room of the target.
const REGION: ByteCount = ByteCount(1 << 50);

/// What was seen of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Portrait {
    /// How long it was watched, from its start.
    pub watched_ns: u64,
    /// How long the target took for a request of no length, and for each byte.
    pub latency_ns: u64,
    /// The same for each byte.
    pub ns_per_byte: f64,
    /// Requests in flight that the run had, for loops without a number of their own.
    pub iodepth: u32,
    /// Lengths of requests, rising.
    pub sizes: Vec<PortraitSize>,
    /// Part by part; one for a workload without parts.
    pub parts: Vec<PortraitPart>,
    /// Stretches of time of the same length, one after the other.
    pub over_time: Vec<PortraitColumn>,
}

/// Requests of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PortraitSize {
    /// The length.
    pub size_bytes: u32,
    /// Reads of it.
    pub reads: u64,
    /// Writes of it.
    pub writes: u64,
}

/// What a part did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PortraitPart {
    /// Its name.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes and trims.
    pub others: u64,
}

/// What ended in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PortraitColumn {
    /// Requests of all kinds.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests in flight, the mean over the stretch.
    pub in_flight_mean: f64,
}

/// A request from its start to its end.
struct Seen {
    from: u64,
    to: u64,
    bytes: u32,
    part: u16,
    op: IoOp,
}

impl Portrait {
    /// Watches `spec` from the start of a run, with `iodepth` requests in flight where it has no number of its own. Parts for targets of
    /// their own are watched side by side, and those for each target on one.
    ///
    /// # Errors
    /// [`DriverError`] for what can't be run on any target.
    pub fn of(spec: &AccessSpec, iodepth: u32) -> Result<Self, DriverError> {
        let config = DriverConfig {
            region: REGION,
            block_bytes: 512,
            iodepth,
            seed: 1,
            run: watched(spec),
            ..DriverConfig::default()
        };
        spec.validate()?;
        let mut on_one = spec.clone();
        on_one.parts.iter_mut().for_each(|part| part.target = None);
        let (seen, end) = watch(Driver::new(&on_one, &config)?, config.run);
        let names: Vec<&str> = spec.streams().map(|(name, ..)| name).collect();
        Ok(Self {
            watched_ns: end,
            latency_ns: LATENCY.get(),
            ns_per_byte: 1.0 / BYTES_PER_NS as f64,
            iodepth,
            sizes: sizes(&seen),
            parts: parts(&seen, &names),
            over_time: over_time(&seen, end),
        })
    }
}

/// How long to watch: all of the slowest rhythm in it, where that is not a day's.
fn watched(spec: &AccessSpec) -> NanoSpan {
    let of_phase = |phase: &Phase| {
        let lasts = phase.lasts.unwrap_or_default();
        NanoSpan(phase.after.get() + 2 * phase.every.unwrap_or(lasts).get())
    };
    let of_rhythm = |rhythm: &Rhythm| {
        let bursts = rhythm.on_off.map_or(0, |it| 6 * (it.on.get().saturating_add(it.off.get())));
        let waves = rhythm.self_similar.map_or(0, |it| 600 * it.interval.get().min(u64::MAX / 600));
        NanoSpan(bursts.max(waves).max(rhythm.period().get()))
    };
    let of_actor = |actor: &Actor| match actor {
        Actor::Accelerator(it) => NanoSpan(it.compute.get().saturating_mul(8)),
        Actor::Checkpoint(it) => NanoSpan(it.every.get().saturating_mul(2)),
        _ => NanoSpan::ZERO,
    };
    let of_parts = spec.parts.iter().map(|part| {
        let actor = part.actor.as_ref().map(of_actor).unwrap_or_default();
        of_phase(&part.phase).max(of_rhythm(&part.rhythm)).max(actor)
    });
    of_parts.chain([of_rhythm(&spec.rhythm), USUAL]).max().unwrap_or(USUAL).min(LONGEST)
}

/// Runs the driver to the end of `run`, or as far as requests are seen; when that was.
fn watch(mut driver: Driver, run: NanoSpan) -> (Vec<Seen>, u64) {
    let mut seen: Vec<Seen> = Vec::new();
    let mut under_way: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
    let mut now = Nanos::ZERO;
    loop {
        let next = under_way.peek().map(|Reverse((at, _))| *at);
        now = match driver.poll_step(now) {
            DriverStep::Issue(io) if seen.len() < REQUESTS_MAX => {
                let to = now + LATENCY + NanoSpan(u64::from(io.bytes) / BYTES_PER_NS);
                under_way.push(Reverse((to, io.slot)));
                let part = driver.part_of(io.slot);
                seen.push(Seen { from: now.get(), to: to.get(), bytes: io.bytes, part, op: io.op });
                continue;
            }
            DriverStep::Issue(_) => return (seen, now.get().max(1)),
            DriverStep::Finished => return (seen, run.get()),
            DriverStep::WaitUntil(at) => next.map_or(at, |next| next.min(at)),
            DriverStep::WaitForCompletion => match next {
                Some(next) => next,
                None => return (seen, run.get()),
            },
        };
        while let Some(Reverse((at, slot))) = under_way.peek().copied().filter(|Reverse((at, _))| *at <= now)
        {
            under_way.pop();
            driver.handle_completion(at.max(now), slot, true);
        }
    }
}

fn sizes(seen: &[Seen]) -> Vec<PortraitSize> {
    let mut sizes: BTreeMap<u32, PortraitSize> = BTreeMap::new();
    for one in seen.iter().filter(|one| one.op.moves_bytes()) {
        let size = sizes.entry(one.bytes).or_default();
        size.size_bytes = one.bytes;
        *(if one.op == IoOp::Read { &mut size.reads } else { &mut size.writes }) += 1;
    }
    sizes.into_values().collect()
}

fn parts(seen: &[Seen], names: &[&str]) -> Vec<PortraitPart> {
    let named = |name: &&str| PortraitPart { name: (*name).to_owned(), ..PortraitPart::default() };
    let mut parts: Vec<PortraitPart> = names.iter().map(named).collect();
    for one in seen {
        let Some(part) = parts.get_mut(usize::from(one.part)) else { continue };
        match one.op {
            IoOp::Read => {
                (part.reads, part.read_bytes) = (part.reads + 1, part.read_bytes + u64::from(one.bytes));
            }
            IoOp::Write => {
                (part.writes, part.written_bytes) =
                    (part.writes + 1, part.written_bytes + u64::from(one.bytes));
            }
            _ => part.others += 1,
        }
    }
    parts
}

fn over_time(seen: &[Seen], end: u64) -> Vec<PortraitColumn> {
    let width = end.div_ceil(COLUMNS as u64).max(1);
    let mut columns = vec![PortraitColumn::default(); COLUMNS];
    for one in seen {
        if let Some(column) = columns.get_mut((one.to / width) as usize) {
            column.requests += 1;
            match one.op {
                IoOp::Read => column.read_bytes += u64::from(one.bytes),
                IoOp::Write => column.written_bytes += u64::from(one.bytes),
                _ => {}
            }
        }
        let first = (one.from / width) as usize;
        for (index, column) in (first..).zip(columns.iter_mut().skip(first)) {
            let (from, to) = (one.from.max(index as u64 * width), one.to.min((index as u64 + 1) * width));
            if from >= to {
                break;
            }
            column.in_flight_mean += (to - from) as f64 / width as f64;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::{ArrivalProcess, Arrivals, Pacing, RequestRate};
    use crate::rhythm::{OnOff, SpanLaw};
    use crate::spec::AccessLine;
    use crate::{builtin_workload, builtin_workloads};

    #[test]
    fn every_built_in_workload_can_be_seen_and_is_in_its_columns() {
        for workload in builtin_workloads() {
            let drawn = Portrait::of(&workload.spec, 4).unwrap();
            let all: u64 = drawn.parts.iter().map(|part| part.reads + part.writes + part.others).sum();
            let in_time: u64 = drawn.over_time.iter().map(|column| column.requests).sum();
            let in_sizes: u64 = drawn.sizes.iter().map(|size| size.reads + size.writes).sum();
            assert!(all > 0 && in_time <= all && in_sizes <= all, "{}", workload.name());
            // What is not in a column was in flight when the window ended, or ended with it.
            let most = 2 * u64::from(workload.spec.iodepth(4));
            assert!(all - in_time <= most, "{}: {in_time} of {all}", workload.name());
            assert_eq!(drawn.parts.len(), workload.spec.streams().count(), "{}", workload.name());
        }
    }

    #[test]
    fn a_plain_loop_is_seen_as_what_it_is() {
        let spec = AccessSpec::new("x", vec![AccessLine::plain(8192, 100, 100)]);
        let drawn = Portrait::of(&spec, 3).unwrap();
        let took = 200_000 + 4096;
        assert_eq!(drawn.sizes.len(), 1);
        let expected = drawn.watched_ns / took * 3;
        assert!(drawn.sizes[0].reads.abs_diff(expected) <= 3, "{} of {expected}", drawn.sizes[0].reads);
        assert!(drawn.over_time[5].in_flight_mean > 2.99, "{:?}", drawn.over_time[5]);
    }

    #[test]
    fn bursts_are_seen_and_so_is_the_read_rate_of_an_accelerator() {
        let rate = RequestRate::new(1000.0).unwrap();
        let on_off =
            OnOff { on: NanoSpan::from_secs(1), off: NanoSpan::from_secs(4), lengths: SpanLaw::Fixed };
        let spec = AccessSpec {
            pacing: Pacing::Open(Arrivals { process: ArrivalProcess::Fixed, rate, burst: 1 }),
            rhythm: Rhythm { on_off: Some(on_off), ..Rhythm::default() },
            ..AccessSpec::new("x", vec![AccessLine::plain(4096, 0, 0)])
        };
        let drawn = Portrait::of(&spec, 1).unwrap();
        assert_eq!(drawn.watched_ns, 30_000_000_000);
        let busy: Vec<bool> = drawn.over_time.iter().map(|column| column.requests > 10).collect();
        // Half a second for each column: two of ten are on.
        assert!((0..60).all(|index| busy[index] == (index % 10 < 2)), "{busy:?}");
        let training = builtin_workload("mlperf-unet3d-h100").unwrap();
        let drawn = Portrait::of(&training.spec, 1).unwrap();
        let per_second = drawn.parts[0].read_bytes as f64 * 1e9 / drawn.watched_ns as f64;
        // Seven samples of 146.6 MB in 323 ms, and what is read ahead.
        assert!((0.9..1.4).contains(&(per_second / 3.177e9)), "{per_second}");
    }
}
