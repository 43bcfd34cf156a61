//! Drives without rotation: channels and dies by their conflicts, times of a page, transfers, overhead.
//!
//! A batch of reads `step` pages apart is sent at once. The time that each further read adds is that of the shared
//! resource:
//!
//! ```text
//!   step 1:                all dies apart            ─► the controller's time per command
//!   step = dies:           all on one die            ─► the time to sense a page (short reads, so that the bus is no bound)
//!   step = channels:       on one channel, dies apart ─► the transfer of a page over the channel
//! ```
//! The right steps are unknown, so they are swept: the smallest step that adds as much as any other is the number of
//! dies (short reads) and of channels (whole pages). The rest of a single read's time is the link's. Pages are assumed
//! to be striped over the dies by address, as on a drive that was written sequentially; if they are not, no step stands
//! out and one channel of one die is found. Programs are timed only if writes are allowed: the rate with many in flight
//! times the dies, garbage collection included.
//!
//! Left out: pages of other lengths than 4 KiB, which show as more dies; and the number of commands that the drive
//! holds.

use crate::estimate::{Estimate, median};
use crate::{Access, CalibrateError, PAGE, Probe, Timing};
use serde::Serialize;

/// Reads of a batch: a short one and a long one, whose difference is what each adds.
const BATCHES: (u64, u64) = (12, 28);
/// The longest step, in pages.
const STEP_MAX: u64 = 256;

/// A solid-state drive's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FlashFound {
    /// Bytes that it holds.
    pub capacity: u64,
    /// A lone read of a page, in nanoseconds.
    pub latency_ns: Estimate,
    /// Controller time per command, in nanoseconds.
    pub overhead_ns: Estimate,
    /// Time to sense a page, in nanoseconds.
    pub page_read_ns: Estimate,
    /// Buses.
    pub channels: u32,
    /// Dies on all of them.
    pub dies: u32,
    /// Bytes per second of a channel.
    pub channel_rate: Estimate,
    /// Of a transfer over it, beside its bytes, in nanoseconds.
    pub channel_per_transfer_ns: Estimate,
    /// Bytes per second of the link.
    pub link_rate: Estimate,
    /// Time to program a page with all that it drags along, in nanoseconds, where writes were allowed.
    pub page_program_ns: Option<Estimate>,
    /// Requests in flight, and random reads per second.
    pub queue: Vec<(u32, f64)>,
}

pub(crate) fn find(probe: &mut Probe<'_>) -> Result<FlashFound, CalibrateError> {
    probe.tell("reading one by one", 0.05);
    let latency = latency(probe)?;
    probe.tell("looking for dies", 0.1);
    let short = probe.target.block_bytes() as u32;
    let dies = stride(probe, short)?;
    probe.tell("looking for channels", 0.4);
    let channels = stride(probe, PAGE as u32)?.min(dies);
    probe.tell("timing what is shared", 0.7);
    let page_read = adds(probe, dies, short)?;
    let overhead = adds(probe, 1, short)?;
    let whole = adds(probe, channels, PAGE as u32)?;
    let half = adds(probe, channels, PAGE as u32 / 2)?;
    let per_byte = ((whole.value - half.value) * 2.0 / PAGE as f64).max(1e-6);
    let reach = (whole.reach() + half.reach()) * 2.0 / PAGE as f64;
    let rate = |ns: f64| 1e9 / ns.max(1e-6);
    let channel_rate =
        Estimate { value: rate(per_byte), low: rate(per_byte + reach), high: rate(per_byte - reach) };
    let per_transfer = (whole.value - per_byte * PAGE as f64).max(0.0);
    // What is left of a lone read is the way out of the drive.
    let link_ns = (latency.value - overhead.value - page_read.value - whole.value).max(1.0);
    probe.tell("reading with several in flight", 0.9);
    let queue = queue(probe)?;
    let page_program_ns = if probe.effort.may_write { Some(program(probe, dies)?) } else { None };
    Ok(FlashFound {
        capacity: probe.target.capacity().0,
        latency_ns: latency,
        overhead_ns: overhead,
        page_read_ns: page_read,
        channels: channels as u32,
        dies: dies as u32,
        channel_rate,
        channel_per_transfer_ns: Estimate {
            value: per_transfer,
            low: (per_transfer - whole.reach()).max(0.0),
            high: per_transfer + whole.reach(),
        },
        link_rate: Estimate::exact(rate(link_ns / PAGE as f64)),
        page_program_ns,
        queue,
    })
}

fn latency(probe: &mut Probe<'_>) -> Result<Estimate, CalibrateError> {
    let reads: Vec<Access> = (0..probe.effort.repeats * 8).map(|_| probe.random_read()).collect();
    let times: Vec<f64> = probe.run(&reads, 1)?.iter().map(Timing::ns).collect();
    Ok(Estimate::of(&times))
}

/// Time from the first to the last of `count` reads of `bytes`, `step` pages apart, all sent at once.
fn batch(probe: &mut Probe<'_>, step: u64, count: u64, bytes: u32) -> Result<f64, CalibrateError> {
    let from = probe.random.below(probe.pages() - step * count);
    let reads: Vec<Access> =
        (0..count).map(|index| Access::read((from + index * step) * PAGE, bytes)).collect();
    let times = probe.run(&reads, count as u32)?;
    let end = times.iter().map(|time| time.end.0).max().unwrap_or(0);
    Ok(end.saturating_sub(times[0].start.0) as f64)
}

/// What each further read of a batch adds.
fn adds(probe: &mut Probe<'_>, step: u64, bytes: u32) -> Result<Estimate, CalibrateError> {
    let mut slopes = Vec::new();
    for _ in 0..probe.effort.repeats {
        let (few, many) = (batch(probe, step, BATCHES.0, bytes)?, batch(probe, step, BATCHES.1, bytes)?);
        slopes.push((many - few) / (BATCHES.1 - BATCHES.0) as f64);
    }
    Ok(Estimate::of(&slopes))
}

/// The smallest step that is nearly as slow as the slowest; 1 where none stands out.
fn stride(probe: &mut Probe<'_>, bytes: u32) -> Result<u64, CalibrateError> {
    const REPEATS: usize = 3;
    let mut times = Vec::new();
    for step in 1..=STEP_MAX {
        let some: Vec<f64> =
            (0..REPEATS).map(|_| batch(probe, step, BATCHES.1, bytes)).collect::<Result<_, _>>()?;
        times.push(median(&some));
    }
    let most = times.iter().copied().fold(0.0, f64::max);
    let usual = median(&times);
    let found = times.iter().position(|time| *time > usual + 0.8 * (most - usual));
    Ok(if most > 1.3 * usual { found.unwrap_or(0) as u64 + 1 } else { 1 })
}

fn queue(probe: &mut Probe<'_>) -> Result<Vec<(u32, f64)>, CalibrateError> {
    let mut found = Vec::new();
    for depth in [1, 2, 4, 8, 16, 32, 64] {
        let reads: Vec<Access> = (0..4 * probe.effort.queue_reads).map(|_| probe.random_read()).collect();
        let times = probe.run(&reads, depth)?;
        let end = times.iter().map(|time| time.end.0).max().unwrap_or(0);
        let span = end.saturating_sub(times[0].start.0).max(1);
        found.push((depth, times.len() as f64 * 1e9 / span as f64));
    }
    Ok(found)
}

/// Time to program a page: with all dies at work, one page ends every `program / dies`.
fn program(probe: &mut Probe<'_>, dies: u64) -> Result<Estimate, CalibrateError> {
    let mut found = Vec::new();
    let depth = (2 * dies).clamp(64, 256) as u32;
    for _ in 0..probe.effort.repeats {
        let count = 40 * u64::from(depth);
        let writes: Vec<Access> =
            (0..count).map(|_| Access { is_write: true, ..probe.random_read() }).collect();
        let mut ends: Vec<u64> = probe.run(&writes, depth)?.iter().map(|time| time.end.0).collect();
        ends.sort_unstable();
        let (from, to) = (ends.len() / 4, ends.len() * 3 / 4);
        found.push((ends[to] - ends[from]) as f64 / (to - from) as f64 * dies as f64);
    }
    Ok(Estimate::of(&found))
}
