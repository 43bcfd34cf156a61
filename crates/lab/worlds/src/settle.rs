//! When the window of an array may begin: when its write-back cache is in its steady state.
//!
//! ```text
//! dirty │            ┌─────────────   incoming writes go on to the drives, at their rate
//!       │        ╱
//!       │    ╱                        every array is as fast as its cache
//!       └───────────┼──────┼──────── time
//!                    ramp   window
//! ```
//! Before that, levels can't be told apart. The ramp is long enough to write the cache [`FILLS`] times at the rate that
//! the window then shows, because some data already goes on to the drives while a cache fills. That rate is not known
//! beforehand, so a run whose ramp was far too short for it is repeated with the right one.
//!
//! A cache that flushes in cycles of some seconds may still hold more at the end of a window than at its start. In virtual
//! time such a window is doubled, up to [`LONGER_MAX`] times, and begins where the last one ended: the longer it is, the less
//! part of a cycle matters. What is still filling then says so ([`RunResult::filling_text`]), and is not ranked.
//!
//! Members have caches that acknowledge, too: those of current disks hold minutes of small writes. A run with a ramp begins with what
//! its load leaves in them ([`resting_writes`]), because following that would take longer than all the rest.
//!
//! `plan`, `simulate` and studies begin their windows so. Left out: read caches, which the region may never fit into; members' caches under loads
//! with a rate or places of their own, which may never fill them.

use crate::arrays::ModelledArray;
use crate::load::Load;
use raidlab_hardware::{RestingWrites, SectorCount};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessSpec, Pacing, Places, RunResult};

/// A ramp lasts as long as it takes to write the cache this often.
pub const FILLS: f64 = 2.5;
/// A ramp that is shorter than it should be by this factor is taken again.
const TOO_SHORT: u64 = 2;
/// Requests that a ramp is made of at most, and the most time it takes: an idle array fills no cache, whatever it is given.
const REQUESTS_MAX: f64 = 1_000_000.0;
const SECS_MAX: f64 = 200.0;

/// A window is this often as long as was asked for at most.
pub(crate) const LONGER_MAX: u64 = 8;

/// Seconds that a ramp needs until a write cache of `cache` is in its steady state, at `written` bytes per second.
pub fn fill_secs(cache: ByteCount, written: f64) -> f64 {
    if written > 0.0 { FILLS * cache.get() as f64 / written } else { 0.0 }
}

/// The ramp that a run with this result should have had, through a write cache of `cache`.
fn ramp_for(cache: ByteCount, result: &RunResult) -> NanoSpan {
    let longest = (REQUESTS_MAX / result.ops.total.iops.0.max(1.0)).min(SECS_MAX);
    NanoSpan::from_secs_f64(fill_secs(cache, result.ops.write.bytes_per_sec.0).min(longest))
}

/// Runs `load` with the ramp that its write cache of `cache` needs, its own at least. Returns the load as it was run, and the last run.
///
/// # Errors
/// Those of `run`.
pub(crate) fn settled<E>(
    load: &Load,
    cache: Option<ByteCount>,
    mut run: impl FnMut(&Load) -> Result<RunResult, E>,
) -> Result<(Load, RunResult), E> {
    let mut load = Load { settles: false, ..load.clone() };
    loop {
        let result = run(&load)?;
        let ramp = cache.map_or(NanoSpan::ZERO, |cache| ramp_for(cache, &result));
        if ramp.0 <= TOO_SHORT * load.ramp.0.max(1) {
            return Ok((load, result));
        }
        load.ramp = ramp;
    }
}

/// Runs the load of `settled`, a run that has its ramp, with longer windows while its write cache fills in them. Returns the load as it
/// was run, and the last run.
///
/// # Errors
/// Those of `run`.
pub(crate) fn beyond_cycles<E>(
    settled: (Load, RunResult),
    mut run: impl FnMut(&Load) -> Result<RunResult, E>,
) -> Result<(Load, RunResult), E> {
    let (mut load, mut result) = settled;
    let longest = LONGER_MAX * load.run.0;
    while result.filling_text().is_some() && 2 * load.run.0 <= longest {
        (load.ramp, load.run) = (load.ramp + load.run, load.run + load.run);
        result = run(&load)?;
    }
    Ok((load, result))
}

/// Runs `load` with a ramp that lets write caches settle, where a run may give nothing because it was cancelled.
///
/// # Errors
/// Those of `run`.
pub fn settled_or_cancelled<E>(
    load: &Load,
    cache: Option<ByteCount>,
    mut run: impl FnMut(&Load) -> Result<Option<RunResult>, E>,
) -> Result<Option<(Load, RunResult)>, E> {
    let ended = settled(load, cache, |load| run(load).map_err(Some)?.ok_or(None));
    match ended {
        Ok(settled) => Ok(Some(settled)),
        Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
    }
}

/// What a load leaves in the write caches of members: its writes to random places, or, where it only writes in sequence, one run that
/// fills them, since hosts hand it in faster than platters take it. None of loads that may never fill them.
pub(crate) fn resting_writes(array: &ModelledArray, spec: &AccessSpec) -> Option<RestingWrites> {
    let everywhere = Places::default();
    let is_spread = spec.places == everywhere && spec.parts.iter().all(|part| part.places == everywhere);
    let has_rate = |pacing: &Pacing| match pacing {
        Pacing::Open(_) => true,
        Pacing::Closed(closed) => closed.rate_max.is_some() || closed.bytes_per_sec_max.is_some(),
    };
    if spec.trace.is_some()
        || spec.has_actors()
        || has_rate(&spec.pacing)
        || spec.parts.iter().any(|part| has_rate(&part.pacing))
    {
        return None;
    }
    let (mut count, mut random, mut written, mut only_writes) = (0.0, 0.0, 0.0, true);
    for (share, line) in spec.line_shares() {
        let writes = share * f64::from(100 - line.read_pct.min(100));
        let to_random = writes * f64::from(line.random_pct) / 100.0;
        count += to_random;
        random += to_random * f64::from(line.bytes);
        written += writes * f64::from(line.bytes);
        only_writes &= line.read_pct == 0;
    }
    let used = array.region.0 as f64 / array.usable.0.max(1) as f64;
    let span = SectorCount((array.config.member_size.0 as f64 * used) as u64 / 512);
    if count == 0.0 {
        let whole = RestingWrites { extent: ByteCount(u64::MAX), span, share_pct: 100 };
        return only_writes.then_some(whole);
    }
    if !is_spread {
        return None;
    }
    let extent = ByteCount((random / count) as u64).min(array.config.strip_size);
    Some(RestingWrites { extent, span, share_pct: (100.0 * random / written) as u8 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::find_workload;
    use core::convert::Infallible;
    use raidlab_testkit::example_result;
    use raidlab_units::BytesPerSec;
    use raidlab_workload::CacheFill;
    use std::path::Path;

    /// An array that takes `fast` bytes a second into its cache until that is full, and `slow` from then on.
    fn ramps(cache: u64, fast: f64, slow: f64) -> Vec<f64> {
        let workload = find_workload("database", Path::new("")).unwrap();
        let second = NanoSpan::from_secs(1);
        let load = Load {
            workload,
            iodepth: 1,
            workers: 1,
            ramp: second,
            run: second,
            seed: 1,
            once: false,
            settles: true,
        };
        let mut ramps = Vec::new();
        let ran = settled(&load, Some(ByteCount(cache)), |load| {
            assert!(!load.settles);
            ramps.push(load.ramp.as_secs_f64());
            let is_full = load.ramp.as_secs_f64() * fast >= cache as f64;
            let mut result = example_result("database", 1000.0);
            result.ops.write.bytes_per_sec = BytesPerSec(if is_full { slow } else { fast });
            Ok::<_, Infallible>(result)
        });
        let Ok((load, _)) = ran;
        assert_eq!(Some(&load.ramp.as_secs_f64()), ramps.last());
        ramps
    }

    /// An array whose cache holds `grows` bytes more at the end of a window than at its start, until it was filled for `until`
    /// seconds; 1 MB/s are written. Ramp and window of each run, in seconds.
    fn windows(grows: u64, until: u64) -> Vec<(u64, u64)> {
        let workload = find_workload("database", Path::new("")).unwrap();
        let (ramp, run) = (NanoSpan::from_secs(20), NanoSpan::from_secs(10));
        let load = Load { workload, iodepth: 1, workers: 1, ramp, run, seed: 1, once: false, settles: false };
        let mut windows = Vec::new();
        let mut run = |load: &Load| {
            windows.push((load.ramp.get() / 1_000_000_000, load.run.get() / 1_000_000_000));
            let mut result = example_result("database", 1000.0);
            result.window_ns = load.run.get();
            result.ops.write.bytes_per_sec = BytesPerSec(1e6);
            let is_full = load.ramp >= NanoSpan::from_secs(until);
            let dirty_bytes_end = if is_full { 0 } else { grows };
            let cache_bytes = 1_000_000_000;
            result.cache_fill = Some(CacheFill {
                dirty_bytes_start: 0,
                dirty_bytes_end,
                cache_bytes,
                flush_start_pct: 80,
                absorbed_bytes: None,
            });
            Ok::<_, Infallible>(result)
        };
        let Ok(first) = run(&load).map(|result| (load.clone(), result));
        let Ok(_) = beyond_cycles(first, &mut run);
        windows
    }

    #[test]
    fn a_window_in_which_a_cache_fills_is_doubled() {
        assert_eq!(windows(1_000_000, 1000), [(20, 10)], "a tenth of what was written does not matter");
        assert_eq!(windows(1_500_000, 1000), [(20, 10), (30, 20)], "a cycle's rest matters less in 20 s");
        assert_eq!(windows(90_000_000, 1000), [(20, 10), (30, 20), (50, 40), (90, 80)], "it never gets full");
        assert_eq!(windows(90_000_000, 45), [(20, 10), (30, 20), (50, 40)], "it is full after 45 s");
    }

    #[test]
    fn a_window_begins_when_its_cache_is_full() {
        assert_eq!(ramps(100_000_000, 10e6, 10e6), [1.0, 25.0]);
        assert_eq!(
            ramps(100_000_000, 10e6, 2e6),
            [1.0, 25.0, 125.0],
            "25 s were too short for what it then showed"
        );
        assert_eq!(ramps(100_000_000, 10e6, 6e6), [1.0, 25.0], "25 s of 42 fill it");
        assert_eq!(ramps(1_000_000, 10e6, 10e6), [1.0], "it is full within the least ramp");
        assert_eq!(ramps(100_000_000, 1e3, 1e3), [1.0, 200.0], "what fills no cache is run for a while");
        assert_eq!(ramps(100_000_000, 0.0, 0.0), [1.0], "reads fill none");
    }
}
