//! The best arrays with a member missing, and while it is rebuilt.
//!
//! ```text
//!  rebuild's rate            host keeps, of what it gets with a member missing
//!  30 % of a member's time   70 % and more ─► that is it
//!                            less          ─► slower, until the host keeps 70 %
//! ```
//! A rebuild has [`REBUILD_SHARE`] of the array, as controllers promise it: never more than this share of a member's time, and
//! beside a load never more than what leaves the rest to the host. Reading in long runs and reading between the host's requests
//! are different work, and a controller's processors may be the bottleneck, so the share of the array is found by running it.
//! md has a rate instead: `sync_speed_min` and `sync_speed_max` at the rate that was found do the same.

use super::reliability::{REBUILD_SHARE, RebuildRate};
use super::{Bench, PlanError, judge};
use raidlab_advisor::plan::{Judged, Performance};
use raidlab_advisor::risk::RebuildPace;
use raidlab_units::ByteCount;
use raidlab_worlds::simulated::run_degraded;
use raidlab_worlds::{Load, ModelledArray};

/// Stripes that a rebuild has under way at most: enough for its rate on any array.
const REBUILD_IODEPTH: u32 = 256;

/// Rates that are run at most until the host keeps its share.
const RATES_MAX: u32 = 7;

/// How far below and above its share the host may end.
const LESS: f64 = 0.01;
const MORE: f64 = 0.04;

/// What faults do; nothing where a level survives none.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) degraded: Vec<Performance>,
    pub(super) rebuilding: Vec<Performance>,
    /// Of the application beside which the rebuild takes longest.
    pub(super) rebuild: Option<Rebuild>,
}

/// A rebuild under a load.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rebuild {
    /// Time of all of it.
    pub hours: f64,
    /// What it has of each member at most, in bytes per second.
    pub bytes_per_sec: f64,
}

/// What the host gets while a member is rebuilt.
#[derive(Clone, Debug)]
struct Beside {
    rate: f64,
    /// What the host keeps of what it gets with a member missing: the application that keeps least.
    kept: f64,
    performance: Vec<Performance>,
    rebuild: Option<Rebuild>,
}

/// What the applications of a run get with a member missing, and while it is rebuilt.
pub(super) type OfRun = (Vec<Performance>, Vec<Performance>, Option<Rebuild>);

impl Faults {
    /// Takes in what faults did to the next applications.
    pub(super) fn add(&mut self, (degraded, rebuilding, rebuild): OfRun) {
        self.degraded.extend(degraded);
        self.rebuilding.extend(rebuilding);
        let both = self.rebuild.into_iter().chain(rebuild);
        self.rebuild = both.max_by(|one, other| one.hours.total_cmp(&other.hours));
    }
}

impl Bench<'_> {
    /// Performance of the applications of a run with a member missing, and while it is rebuilt.
    pub(super) fn faults(&self, judged: &Judged, run: usize) -> Result<OfRun, PlanError> {
        let models = self.models(judged.geometry);
        let iodepths = judge::iodepths(self, judged, run);
        let load = judge::load(self, judged, run, judge::Window::Fault, &iodepths);
        let missing = self.array(judged, 0, judge::Window::Fault)?;
        let degraded = self.with_fault(judged, &missing, (&load, &iodepths))?.0;
        let mut array = self.array(judged, judged.geometry.spares.max(1), judge::Window::Fault)?;
        array.config.resilience.scan_iodepth = array.config.resilience.scan_iodepth.max(REBUILD_IODEPTH);
        let Some(pace) = RebuildRate::Share(REBUILD_SHARE).pace(&models.drive_in_place()) else {
            let (performance, hours) = self.with_fault(judged, &array, (&load, &iodepths))?;
            let rebuild = hours.map(|hours| Rebuild { hours, bytes_per_sec: f64::INFINITY });
            return Ok((degraded, performance, rebuild));
        };
        let beside = |rate: f64| {
            let mut array = array.clone();
            let bytes = Some(ByteCount((rate as u64).max(1)));
            array.config.resilience.scan_bytes_per_sec = bytes;
            // md's `sync_speed_min`: below it a rebuild makes no way.
            let rules = &mut array.config.cache.rules;
            rules.scan_floor = rules.scan_floor.and(bytes);
            let (performance, hours) = self.with_fault(judged, &array, (&load, &iodepths))?;
            let kept = performance.iter().zip(&degraded).map(|(it, whole)| it.iops / whole.iops.max(1e-9));
            let kept = kept.fold(f64::INFINITY, f64::min);
            let rebuild = hours.map(|hours| Rebuild { hours, bytes_per_sec: rate });
            Ok::<_, PlanError>(Beside { rate, kept, performance, rebuild })
        };
        let Beside { performance, rebuild, .. } = fastest_that_keeps(pace, beside)?;
        Ok((degraded, performance, rebuild))
    }

    /// What the applications get with a member gone, and the hours of its rebuild if there is a spare.
    fn with_fault(
        &self,
        judged: &Judged,
        array: &ModelledArray,
        (load, iodepths): (&Load, &[u32]),
    ) -> Result<(Vec<Performance>, Option<f64>), PlanError> {
        let (result, rebuild) =
            run_degraded(&self.models(judged.geometry), array, load).map_err(|source| {
                PlanError::Simulation {
                    label: format!("{} degraded, {}", self.label(judged.geometry), load.workload.name()),
                    source,
                }
            })?;
        Ok((self.performance(&result, iodepths), rebuild.map(|span| span.as_secs_f64() / 3600.0)))
    }
}

/// The fastest rebuild, no faster than `pace`, beside which the host keeps its share, as far as a few runs find it.
fn fastest_that_keeps<E>(
    pace: RebuildPace,
    mut run: impl FnMut(f64) -> Result<Beside, E>,
) -> Result<Beside, E> {
    const SHARE: f64 = 1.0 - REBUILD_SHARE;
    let most = pace.bytes_per_sec;
    let mut slower: Option<Beside> = None;
    let mut faster: Option<Beside> = None;
    let mut rate = most;
    for _ in 0..RATES_MAX {
        let beside = run(rate)?;
        let is_kept = beside.kept >= SHARE - LESS;
        if is_kept && (rate >= most || beside.kept <= SHARE + MORE) {
            return Ok(beside);
        }
        *(if is_kept { &mut slower } else { &mut faster }) = Some(beside);
        rate = match (&slower, &faster) {
            (Some(slow), Some(fast)) => {
                // Between both, not at an end: what is taken is in proportion to the rate only about.
                let at = (slow.kept - SHARE) / (slow.kept - fast.kept).max(1e-9);
                slow.rate * (fast.rate / slow.rate).powf(at.clamp(0.2, 0.8))
            }
            (None, Some(fast)) => {
                // Where it got less than it was offered, that is what it took so much for. With `c` of its own in a queue beside those of the
                // host a rebuild leaves it `1 / (1 + rate / c)`.
                let got = fast.rebuild.map_or(fast.rate, |it| fast.rate.min(most * pace.hours / it.hours));
                let own = got * fast.kept.max(1e-3) / (1.0 - fast.kept);
                own * (1.0 / SHARE - 1.0)
            }
            _ => most,
        };
    }
    Ok(slower.or(faster).expect("it was run"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// What a host keeps beside a rebuild that gets so many bytes per second.
    type Kept = fn(f64) -> f64;

    const PACE: RebuildPace = RebuildPace { bytes_per_sec: 1e8, hours: 20.0, member_share: REBUILD_SHARE };

    /// A host that keeps `kept` of what it gets, by the rate that the rebuild has of the `got` that it gets at most.
    fn found(got: f64, kept: impl Fn(f64) -> f64) -> (f64, f64, u32) {
        let mut runs = 0;
        let found = fastest_that_keeps(PACE, |rate| {
            runs += 1;
            let at = rate.min(got);
            let rebuild = Rebuild { hours: PACE.hours * PACE.bytes_per_sec / at, bytes_per_sec: rate };
            Ok::<_, Infallible>(Beside {
                rate,
                kept: kept(at),
                performance: Vec::new(),
                rebuild: Some(rebuild),
            })
        });
        let Ok(found) = found;
        (found.rate, found.kept, runs)
    }

    #[test]
    fn a_host_keeps_its_share_whatever_a_rebuild_takes() {
        // Nothing is taken: the rate of the promise, in one run.
        assert_eq!(found(1e9, |_| 0.95), (1e8, 0.95, 1));
        // Taken in proportion, in much more than proportion and in much less; and where the rebuild gets less than it asks for.
        let rows: [(f64, Kept); 5] = [
            (1e9, |rate| 1.0 - rate / 1.2e8),
            (1e9, |rate| 1.0 - (rate / 1.2e8).sqrt()),
            (1e9, |rate| 1.0 - (rate / 1.2e8).powi(3)),
            (3e7, |rate| 1.0 - rate / 3.1e7),
            (1e9, |rate| 1.0 / (1.0 + rate / 2e6)),
        ];
        for (at, (got, kept)) in rows.into_iter().enumerate() {
            let (rate, kept, runs) = found(got, kept);
            assert!((0.69..=0.745).contains(&kept), "row {at}: {kept} kept at {rate}");
            assert!(runs <= RATES_MAX, "row {at}: {runs} runs");
        }
    }
}
