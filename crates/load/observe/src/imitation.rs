//! A workload that asks what was seen, and how far it is from that.
//!
//! The workload is driven in virtual time on a device that answers each request in the mean time that was seen, and what it asks goes
//! through the same counting. Then distributions are compared, not only means: the distance is the largest difference between both
//! cumulative distributions (Kolmogorov and Smirnov), 0 for the same and 1 for nothing in common.
//!
//! **Pacing.** A device with requests in flight at nearly all times is asked by a closed loop, which has their mean number in flight.
//! Others get arrivals at the rate seen: even ones, Poisson, or in bursts of the size that has the same spread.
//!
//! **What counters don't tell** is assumed, and each assumption is a note: random places all over the device, reads and writes of their
//! mean length.

use crate::character::{Character, Seen, SizeClass};
use crate::figures::Observed;
use crate::intervals::{Interval, Intervals};
use raidlab_trace::{TraceKind, TraceRecord};
use raidlab_units::{ByteCount, NanoSpan, Nanos, counted};
use raidlab_workload::{
    AccessLine, AccessSpec, ArrivalProcess, Arrivals, Distribution, Driver, DriverConfig, DriverStep,
    FlushRule, IoOp, LatencyHistogram, Metric, Pacing, Places, RequestRate, Workload, Zone,
};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;

/// Lines of a workload at most.
const LINES_MAX: usize = 12;
/// Zones of its places.
const ZONES: u64 = 20;
/// Requests that are driven at most to compare.
const DRIVEN_MAX: u64 = 50_000;
/// A device with requests in flight for so much of the time is asked by a closed loop.
const BUSY: f64 = 0.9;
/// Requests that arrive at once at most.
const BURST_MAX: f64 = 256.0;
/// Blocks of the device that is driven.
const BLOCK_BYTES: u64 = 512;

/// A workload like what was seen.
#[derive(Clone, Debug)]
pub struct Imitation {
    /// The workload.
    pub workload: Workload,
    /// How far it is from what was seen, distribution by distribution.
    pub distances: Vec<Distance>,
    /// What was assumed: sentences.
    pub notes: Vec<String>,
}

/// How far the workload is from what was seen, in one respect.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Distance {
    /// What is compared.
    pub of: &'static str,
    /// The unit of the means.
    pub unit: &'static str,
    /// Mean of what was seen.
    pub seen_mean: f64,
    /// Mean of what the workload asks.
    pub made_mean: f64,
    /// Largest difference between both cumulative distributions; none where only means are known.
    pub largest_difference: Option<f64>,
}

/// Makes a workload called `name` of what was seen; none where there was no request.
pub fn imitate(name: &str, observed: &Observed) -> Option<Imitation> {
    let load = &observed.load;
    let transfers = load.reads + load.writes;
    if transfers == 0 || observed.watched_ns == 0 {
        return None;
    }
    let mut notes = Vec::new();
    let (lines, places) = match &observed.seen {
        Some(seen) if !seen.sizes.is_empty() => (lines_of(&seen.sizes), places_of(seen)),
        _ => (lines_of_means(observed, &mut notes), Places::default()),
    };
    let (pacing, iodepth) = pacing_of(observed, &mut notes)?;
    let flush = flush_of(observed, &mut notes);
    let spec =
        AccessSpec { name: name.to_owned(), lines, places, pacing, iodepth, flush, ..AccessSpec::default() };
    let workload = Workload {
        title: format!("As seen on {}", load.name),
        source: format!("raidlab observe, {} of {}", NanoSpan(observed.watched_ns), load.name),
        metric: Metric::Iops,
        notes: notes.join(" "),
        block_bytes_published: Vec::new(),
        spec,
    };
    let distances = distances(&workload.spec, observed).unwrap_or_default();
    Some(Imitation { workload, distances, notes })
}

/// A flush behind so many writes as were seen for each; none without any. What a workload of lines can't say is a note.
fn flush_of(observed: &Observed, notes: &mut Vec<String>) -> Option<FlushRule> {
    let (trims, flushes) = observed.others;
    if trims > 0 {
        let per_second = trims as f64 * 1e9 / observed.watched_ns as f64;
        notes
            .push(format!("{per_second:.1} trims per second were seen, and are left out: lines don't trim."));
    }
    let writes = observed.load.writes;
    let every = u32::try_from((writes as f64 / flushes.max(1) as f64).round() as u64).ok();
    let every = every.and_then(NonZeroU32::new).filter(|_| flushes > 0);
    match every {
        Some(every) => {
            notes.push(format!(
                "Flushes seen for {}: {flushes}, so one follows every {every}.",
                counted(writes, "write")
            ));
        }
        None if flushes > 0 => {
            notes.push(format!(
                "Flushes seen: {flushes}, which are left out: there were {}.",
                counted(writes, "write")
            ));
        }
        None => {}
    }
    Some(FlushRule { every: every?, with_metadata: false })
}

/// A line for each of the most frequent lengths; the others are counted with the nearest.
fn lines_of(sizes: &BTreeMap<u64, SizeClass>) -> Vec<AccessLine> {
    let usable = sizes.iter().filter(|(bytes, _)| **bytes > 0 && **bytes <= 32 << 20);
    let mut ranked: Vec<(u64, SizeClass)> = usable.map(|(bytes, class)| (*bytes, *class)).collect();
    ranked.sort_by_key(|(bytes, class)| (Reverse(class.reads + class.writes), *bytes));
    let all: u64 = ranked.iter().map(|(_, class)| class.reads + class.writes).sum();
    // Less than half a percent has no share of its own.
    let is_own = |class: &SizeClass| (class.reads + class.writes) * 200 >= all;
    let own = ranked.iter().take(LINES_MAX).take_while(|(_, class)| is_own(class)).count().max(1);
    let (kept, rest) = ranked.split_at(own.min(ranked.len()));
    let mut kept = kept.to_vec();
    for (bytes, class) in rest {
        let Some((_, nearest)) = kept.iter_mut().min_by_key(|(other, _)| other.abs_diff(*bytes)) else {
            break;
        };
        nearest.reads += class.reads;
        nearest.writes += class.writes;
        nearest.random += class.random;
    }
    kept.sort_by_key(|(bytes, _)| *bytes);
    let counts: Vec<u64> = kept.iter().map(|(_, class)| class.reads + class.writes).collect();
    let shares = whole_shares(&counts);
    let pct = |part: u64, all: u64| (part as f64 * 100.0 / all.max(1) as f64).round() as u8;
    let line = |((bytes, class), share_pct): (&(u64, SizeClass), u8)| {
        let count = class.reads + class.writes;
        let align = class.align_bytes().max(BLOCK_BYTES);
        AccessLine {
            share_pct,
            align_bytes: (align < *bytes || !bytes.is_power_of_two()).then_some(align.min(*bytes) as u32),
            ..AccessLine::plain(*bytes as u32, pct(class.reads, count), pct(class.random, count))
        }
    };
    kept.iter().zip(shares).map(line).filter(|line| line.share_pct > 0).collect()
}

/// Whole percentages of `counts` that add up to 100: what is left over goes to those that lost most.
fn whole_shares(counts: &[u64]) -> Vec<u8> {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let exact: Vec<f64> = counts.iter().map(|count| *count as f64 * 100.0 / all).collect();
    let mut shares: Vec<u8> = exact.iter().map(|pct| pct.floor() as u8).collect();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|one, other| (exact[*other].fract()).total_cmp(&exact[*one].fract()));
    let left = 100 - shares.iter().map(|share| u32::from(*share)).sum::<u32>();
    for index in order.into_iter().cycle().take(left as usize) {
        shares[index] += 1;
    }
    shares
}

/// A line of reads and one of writes, each of the mean length.
fn lines_of_means(observed: &Observed, notes: &mut Vec<String>) -> Vec<AccessLine> {
    let load = &observed.load;
    notes.push(
        "Counters don't tell places and single sizes: all requests are taken to be random over the whole device, and as long as the mean."
            .to_owned(),
    );
    let shares = whole_shares(&[load.reads, load.writes]);
    let line = |count: u64, bytes: u64, share_pct: u8, read_pct: u8| {
        let mean = bytes as f64 / count.max(1) as f64;
        let blocks = (mean / BLOCK_BYTES as f64).round().max(1.0) as u64;
        let bytes = (blocks * BLOCK_BYTES).min(32 << 20);
        let align = if bytes >= 4096 { 4096 } else { BLOCK_BYTES };
        let align_bytes = (bytes != align).then_some(align as u32);
        AccessLine { share_pct, align_bytes, ..AccessLine::plain(bytes as u32, read_pct, 100) }
    };
    let both = [
        line(load.reads, load.read_bytes, shares[0], 100),
        line(load.writes, load.write_bytes, shares[1], 0),
    ];
    both.into_iter().filter(|line| line.share_pct > 0).collect()
}

/// The part of the device that was touched, in zones by how often.
fn places_of(seen: &Seen) -> Places {
    let start = seen.first_byte / BLOCK_BYTES * BLOCK_BYTES;
    let size = (seen.end_byte - start).div_ceil(BLOCK_BYTES).max(1) * BLOCK_BYTES;
    let mut counts = [0u64; ZONES as usize];
    for (place, count) in &seen.places {
        let at = (place * seen.place_bytes + seen.place_bytes / 2).clamp(start, start + size - 1) - start;
        counts[(u128::from(at) * u128::from(ZONES) / u128::from(size)) as usize] += count;
    }
    let all: u64 = counts.iter().sum();
    let even = all as f64 / ZONES as f64;
    // Chance alone makes differences of this kind.
    let is_even = counts.iter().all(|count| (*count as f64 - even).abs() <= 4.0 * even.sqrt().max(1.0));
    let small = seen.place_bytes * ZONES > size;
    let distribution = if is_even || small {
        Distribution::Uniform
    } else {
        let space_pct = 100.0 / ZONES as f64;
        let pct = |count: u64| count as f64 * 100.0 / all as f64;
        Distribution::Zones(counts.iter().map(|it| Zone { accesses_pct: pct(*it), space_pct }).collect())
    };
    Places { start: ByteCount(start), size: Some(ByteCount(size)), distribution, ..Places::default() }
}

/// When requests start, and how many are in flight; none for a rate that is none.
fn pacing_of(observed: &Observed, notes: &mut Vec<String>) -> Option<(Pacing, Option<u32>)> {
    let load = &observed.load;
    if load.utilisation >= BUSY {
        let iodepth = (load.in_flight_mean.round().clamp(1.0, 4096.0)) as u32;
        notes.push(format!(
            "Requests were in flight for {:.0} % of the time: a closed loop has as many in flight, {iodepth}, and is as fast as the \
             device lets it be.",
            load.utilisation * 100.0
        ));
        return Some((Pacing::default(), Some(iodepth)));
    }
    let per_second = (load.reads + load.writes) as f64 * 1e9 / observed.watched_ns as f64;
    // No watch is long enough for the digits behind these.
    let step = if per_second >= 100.0 { 1.0 } else { 1e-3 };
    let rate = RequestRate::new((per_second / step).round() * step)?;
    // Bursts of b at Poisson times: gaps vary by 2b - 1, counts by b.
    let of_gaps = observed.seen.as_ref().and_then(|seen| seen.figures.gap_variation);
    let spread = of_gaps.map_or_else(|| observed.intervals.dispersion(), |it| Some(f64::midpoint(it, 1.0)));
    let spread = spread.unwrap_or(1.0);
    let is_even = if of_gaps.is_some() { spread < 0.6 } else { spread < 0.3 };
    let process = if is_even { ArrivalProcess::Fixed } else { ArrivalProcess::Poisson };
    let burst = spread.round().clamp(1.0, BURST_MAX) as u32;
    Some((Pacing::Open(Arrivals { process, rate, burst }), None))
}

/// What a workload asks of a device that answers each request in the same time.
struct Made {
    seen: Seen,
    intervals: Intervals,
    iops: f64,
}

fn drive(spec: &AccessSpec, observed: &Observed) -> Option<Made> {
    let load = &observed.load;
    let transfers = load.reads + load.writes;
    let mean_ns = (load.read_ns_mean * load.reads as f64 + load.write_ns_mean * load.writes as f64)
        / transfers.max(1) as f64;
    // In a closed loop, as many in flight as there were end in the time they took (Little).
    let service_ns = if spec.pacing.is_open() {
        mean_ns.max(1.0)
    } else {
        f64::from(spec.iodepth(1)) * observed.watched_ns as f64 / transfers as f64
    } as u64;
    let region = observed.size_bytes.unwrap_or(1 << 40) / BLOCK_BYTES * BLOCK_BYTES;
    let end = spec.places.size.map_or(0, ByteCount::get) + spec.places.start.get();
    let config = DriverConfig {
        region: ByteCount(region.max(end)),
        block_bytes: BLOCK_BYTES as u32,
        iodepth: 1,
        seed: 1,
        run: NanoSpan(observed.watched_ns),
        max_requests: Some(transfers.clamp(1, DRIVEN_MAX)),
        ..DriverConfig::default()
    };
    let mut driver = Driver::new(spec, &config).ok()?;
    let (mut now, mut last, mut count) = (0u64, 0u64, 0u64);
    let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut character = Character::default();
    let step_ns = observed.intervals.figures().map_or(100_000_000, |it| it.interval_ns.max(1));
    let mut bins: Vec<Interval> = Vec::new();
    loop {
        let next_end = ends.peek().map(|Reverse((at, _))| *at);
        let until = match driver.poll_step(Nanos(now)) {
            DriverStep::Issue(io) => {
                ends.push(Reverse((now + service_ns.max(1), io.slot)));
                // What was seen has no flushes among its reads and writes.
                if !matches!(io.op, IoOp::Read | IoOp::Write) {
                    continue;
                }
                character.add(&record(now, io.op, io.offset_bytes, u64::from(io.bytes), service_ns));
                add_to(&mut bins, (now / step_ns) as usize, step_ns, io.op, u64::from(io.bytes));
                (last, count) = (now, count + 1);
                continue;
            }
            DriverStep::WaitUntil(at) => next_end.map_or(at.get(), |end| end.min(at.get())),
            DriverStep::WaitForCompletion => next_end?,
            DriverStep::Finished => break,
        };
        now = now.max(until);
        while let Some(Reverse((at, slot))) = ends.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            ends.pop();
            driver.handle_completion(Nanos(at.max(now)), slot, true);
        }
    }
    // The last one is not whole.
    bins.pop();
    let mut intervals = Intervals::default();
    for bin in bins {
        intervals.push(bin);
    }
    Some(Made { seen: character.finish(), intervals, iops: count as f64 * 1e9 / last.max(1) as f64 })
}

fn record(time_ns: u64, op: IoOp, offset_bytes: u64, length_bytes: u64, service_ns: u64) -> TraceRecord {
    let kind = if op == IoOp::Read { TraceKind::Read } else { TraceKind::Write };
    TraceRecord { time_ns, device: 0, kind, offset_bytes, length_bytes, response_ns: Some(service_ns) }
}

fn add_to(bins: &mut Vec<Interval>, index: usize, step_ns: u64, op: IoOp, bytes: u64) {
    // A rate of one request in hours has no use for so many.
    if index >= 1 << 20 {
        return;
    }
    while bins.len() <= index {
        let start_ns = bins.len() as u64 * step_ns;
        bins.push(Interval { start_ns, length_ns: step_ns, ..Interval::default() });
    }
    let bin = &mut bins[index];
    if op == IoOp::Read {
        bin.reads += 1;
        bin.read_bytes += bytes;
    } else {
        bin.writes += 1;
        bin.write_bytes += bytes;
    }
}

/// Values with how often they came, in the order of the values.
type Distributed = Vec<(f64, f64)>;

fn distances(spec: &AccessSpec, observed: &Observed) -> Option<Vec<Distance>> {
    let made = drive(spec, observed)?;
    let figures = observed.figures();
    let mut list = Vec::new();
    let mut add = |of, unit, seen_mean: f64, made_mean: f64, largest_difference| {
        list.push(Distance { of, unit, seen_mean, made_mean, largest_difference });
    };
    let rates = |intervals: &Intervals| -> Distributed {
        sorted(intervals.as_slice().iter().map(|it| (it.iops(), it.length_ns as f64)).collect())
    };
    let both_rates = difference(&rates(&observed.intervals), &rates(&made.intervals));
    add("rate", "requests/s", figures.iops, made.iops, both_rates);
    let read_pct = figures.read_pct.unwrap_or(0.0);
    add("reads", "%", read_pct, made.seen.figures.read_pct.unwrap_or(0.0), None);
    let Some(seen) = &observed.seen else {
        let moved = observed.load.read_bytes + observed.load.write_bytes;
        let mean = moved as f64 / (observed.load.reads + observed.load.writes).max(1) as f64;
        add("size", "B", mean, mean_of(&sizes_of(&made.seen)), None);
        return Some(list);
    };
    let mut compare = |of, unit, seen: &Distributed, made: &Distributed| {
        if !seen.is_empty() {
            add(of, unit, mean_of(seen), mean_of(made), difference(seen, made));
        }
    };
    compare("size", "B", &sizes_of(seen), &sizes_of(&made.seen));
    compare("run", "B", &of_histogram(&seen.run_bytes), &of_histogram(&made.seen.run_bytes));
    compare("place", "B", &places(seen), &places(&made.seen));
    if spec.pacing.is_open() {
        compare("gap", "ns", &of_histogram(&seen.gaps), &of_histogram(&made.seen.gaps));
    }
    Some(list)
}

fn sizes_of(seen: &Seen) -> Distributed {
    seen.sizes.iter().map(|(bytes, class)| (*bytes as f64, (class.reads + class.writes) as f64)).collect()
}

fn places(seen: &Seen) -> Distributed {
    let bytes = seen.place_bytes as f64;
    seen.places.iter().map(|(place, count)| (*place as f64 * bytes, *count as f64)).collect()
}

fn of_histogram(histogram: &LatencyHistogram) -> Distributed {
    histogram.iter().map(|(value, count)| (value as f64, count as f64)).collect()
}

fn sorted(mut list: Distributed) -> Distributed {
    list.sort_by(|one, other| one.0.total_cmp(&other.0));
    list
}

fn mean_of(list: &Distributed) -> f64 {
    let all: f64 = list.iter().map(|(_, weight)| weight).sum();
    list.iter().map(|(value, weight)| value * weight).sum::<f64>() / all.max(f64::MIN_POSITIVE)
}

/// The largest difference between the cumulative distributions of two sorted lists; none where either is empty.
fn difference(one: &Distributed, other: &Distributed) -> Option<f64> {
    let sum = |list: &Distributed| list.iter().map(|(_, weight)| weight).sum::<f64>();
    let (all_one, all_other) = (sum(one), sum(other));
    if all_one <= 0.0 || all_other <= 0.0 {
        return None;
    }
    let (mut at_one, mut at_other, mut share_one, mut share_other, mut largest) = (0, 0, 0.0, 0.0, 0.0f64);
    while at_one < one.len() || at_other < other.len() {
        let next = |list: &Distributed, at: usize| list.get(at).map_or(f64::INFINITY, |(value, _)| *value);
        let value = next(one, at_one).min(next(other, at_other));
        while at_one < one.len() && one[at_one].0 <= value {
            share_one += one[at_one].1 / all_one;
            at_one += 1;
        }
        while at_other < other.len() && other[at_other].0 <= value {
            share_other += other[at_other].1 / all_other;
            at_other += 1;
        }
        largest = largest.max((share_one - share_other).abs());
    }
    Some(largest.min(1.0))
}

#[cfg(test)]
mod tests;
