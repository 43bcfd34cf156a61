//! What sets the pace of a run: the part that would raise it if it were faster.
//!
//! A part that is busy all the time need not be what holds the others up, and a part that is not may be: a drive with one
//! request at a time is busy 91 % of it and could do twenty times more. So each part is made a tenth faster, one after the
//! other, and the same load is run again with the same seed:
//! ```text
//!   load, array ──► base ──► each part 10 % faster ──► the largest gain ──► within the drives: arms, dies, channels ...
//!                        └─► twice the requests in flight
//! ```
//! - A **closed loop** is judged by its rate. If all parts were 10 % faster the rate would be 10 % higher, so their gains add
//!   up to about that, and each is the share of the pace that its part sets.
//! - Twice the requests in flight make twice the rate where nothing stands in their way, and the same rate where something
//!   is saturated. From half-way on ([`DEEPER_MIN`]) *requests in flight* set the pace: all a faster part would do is
//!   shorten the wait of a host that asks for too little at a time.
//! - An **open loop** has the rate that it asks for, and is judged by its mean latency.
//!
//! A gain counts where it is more than chance, which is taken from how the run varies within its window. Runs are as short as
//! that allows ([`PROBE_REQUESTS`]): the window is cut, and the ramp with it, as long as the rate stays what it was.
//!
//! Left out: locks, which have no speed of their own. They are faster when what is done under them is.

use super::spec::{SimError, SimulatedEnclosure, SimulationLoad, SimulationOutcome, simulate_enclosure};
use core::fmt;
use raidlab_controller::CacheConfig;
use raidlab_hardware::{ControllerPart, DrivePart, FasterPct};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Measurement, Pacing};

/// How much faster parts are made.
const FASTER: FasterPct = FasterPct(10);

/// Requests that a run needs at least, if the original has as many: a tenth of them is chance of 1 %.
const PROBE_REQUESTS: u64 = 40_000;

/// By how much more a run is cut where a shorter one shows something else, and how often at most that is tried.
const LONGER: u64 = 4;
const LONGER_TIMES: u32 = 2;

/// How far the figure of a shorter run may be from that of the whole one.
const CUT_ERROR_MAX: f64 = 0.05;

/// What twice the requests in flight must bring to be what sets the pace: the root of two, half-way between none and twice.
const DEEPER_MIN: f64 = 0.41;

/// A part of the drives is named instead of all of them if it brings so much of what they bring.
const MOST_OF_DRIVES: f64 = 0.6;

/// A part that is busy for less of the time can't hold anything up that counts.
const BUSY_MIN: f64 = 0.05;

/// The least gain that counts, and the least that always does.
const GAIN_MIN: f64 = 0.005;
const GAIN_SURE: f64 = 0.05;

/// A part of an enclosure that can be made faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A part of the controllers.
    Controller(ControllerPart),
    /// The processors of software, which are the host's.
    HostProcessors,
    /// The link between two controllers.
    MirrorLink,
    /// The caches' memory, which is made larger.
    Cache,
    /// A part of the drives, or all of them.
    Drives(DrivePart),
}

/// What sets the pace of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// A part of the hardware.
    Part(Part),
    /// More requests in flight would do more.
    Iodepth,
    /// The load asks for no more than it gets: a limit, or think time.
    Load,
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Requests per second.
    Throughput,
    /// Mean latency.
    Latency,
}

/// What a faster part brings: the share by which the rate is higher, or the mean latency lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Which part.
    pub part: Part,
    /// The share; below zero for a loss.
    pub share: f64,
}

/// What sets the pace, and how that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct BottleneckOutcome {
    /// What it is.
    pub bottleneck: Bottleneck,
    /// What the run was judged by.
    pub goal: Goal,
    /// How much faster the parts were made.
    pub faster: FasterPct,
    /// What was tried, the largest gain first.
    pub gains: Vec<Gain>,
    /// What twice the requests in flight bring, where that can be asked.
    pub deeper: Option<f64>,
    /// Up to here a gain may be chance.
    pub noise: f64,
    /// Runs that it took.
    pub runs: u32,
    /// Host requests of all of them.
    pub requests: u64,
    /// The measured window of each.
    pub window: NanoSpan,
}

/// One of the runs.
#[derive(Clone, Debug)]
pub struct Probe {
    enclosure: SimulatedEnclosure,
    load: SimulationLoad,
}

impl Probe {
    /// Runs it.
    ///
    /// # Errors
    /// Those of [`simulate_enclosure`].
    pub fn run(&self) -> Result<SimulationOutcome, SimError> {
        simulate_enclosure(&self.enclosure, &self.load)
    }
}

/// Runs probes, at the same time if it can; one outcome for each, in their order.
pub type ProbeRunner<'a> = &'a mut dyn FnMut(&[Probe]) -> Vec<Result<SimulationOutcome, SimError>>;

/// Finds what set the pace of `load` on `enclosure`, of which the outcome is `base`. `run` does the runs that it takes.
///
/// # Errors
/// Those of [`simulate_enclosure`].
pub fn find_bottleneck(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    base: &SimulationOutcome,
    run: ProbeRunner<'_>,
) -> Result<BottleneckOutcome, SimError> {
    let goal = if load.workload.is_open() { Goal::Latency } else { Goal::Throughput };
    let mut search = Search { enclosure, goal, run, runs: 0, requests: 0 };
    let (load, base) = search.shorter(load, base)?;
    let parts = enclosure.parts_to_try(&base);
    let deeper_load = is_held_up_by_places(goal, &base.measurement).then(|| deeper(&load));
    let mut probes = Vec::with_capacity(parts.len() + 1);
    probes.extend(parts.iter().filter_map(|part| search.probe(*part, &load)));
    debug_assert_eq!(probes.len(), parts.len(), "only what there is is tried");
    probes.extend(deeper_load.map(|load| Probe { enclosure: enclosure.clone(), load }));
    let mut shares = search.gains(&probes, &base.measurement)?;
    let deeper = if probes.len() > parts.len() { shares.pop() } else { None };
    let mut gains: Vec<Gain> = gains_of(&parts, &shares);
    let noise = noise_of(goal, &base.measurement);
    let mut bottleneck = judge(&gains, deeper, noise, load.workload.pacing);
    if bottleneck == Bottleneck::Part(Part::Drives(DrivePart::All)) {
        let all = gains.iter().map(|gain| gain.share).fold(0.0, f64::max);
        let inside = enclosure.drive_parts();
        let probes: Vec<Probe> = inside.iter().filter_map(|part| search.probe(*part, &load)).collect();
        let shares = search.gains(&probes, &base.measurement)?;
        gains.extend(gains_of(&inside, &shares));
        let most = gains.iter().filter(|gain| inside.contains(&gain.part));
        let most = most.max_by(|a, b| a.share.total_cmp(&b.share));
        if let Some(most) = most.filter(|most| most.share >= MOST_OF_DRIVES * all) {
            bottleneck = Bottleneck::Part(most.part);
        }
    }
    gains.sort_by(|a, b| b.share.total_cmp(&a.share));
    let (runs, requests, window) = (search.runs, search.requests, base.measurement.window);
    Ok(BottleneckOutcome { bottleneck, goal, faster: FASTER, gains, deeper, noise, runs, requests, window })
}

fn gains_of(parts: &[Part], shares: &[f64]) -> Vec<Gain> {
    parts.iter().zip(shares).map(|(part, share)| Gain { part: *part, share: *share }).collect()
}

/// Names what sets the pace. `gains` are those of parts that do not contain each other.
fn judge(gains: &[Gain], deeper: Option<f64>, noise: f64, pacing: Pacing) -> Bottleneck {
    let best = gains.iter().max_by(|a, b| a.share.total_cmp(&b.share));
    let counts = |share: f64| share > noise;
    let is_limited = matches!(pacing, Pacing::Closed(own) if own != raidlab_workload::ClosedLoop::default());
    match (best, deeper) {
        (_, Some(deeper)) if deeper >= DEEPER_MIN => Bottleneck::Iodepth,
        (Some(best), _) if counts(best.share) => Bottleneck::Part(best.part),
        (_, Some(deeper)) if counts(deeper) => Bottleneck::Iodepth,
        (Some(best), _) if !is_limited => Bottleneck::Part(best.part),
        _ => Bottleneck::Load,
    }
}

/// Whether more places could matter: always in a closed loop, and in an open one where requests wait for one.
fn is_held_up_by_places(goal: Goal, measurement: &Measurement) -> bool {
    goal == Goal::Throughput || measurement.lag.as_ref().is_some_and(|lag| lag.summary().lag_ns_mean > 0.0)
}

/// The same with twice the requests in flight.
fn deeper(load: &SimulationLoad) -> SimulationLoad {
    let mut load = load.clone();
    let own = load.workload.parts.iter_mut().map(|part| &mut part.iodepth);
    for own in own.chain([&mut load.workload.iodepth]).flatten() {
        *own = own.saturating_mul(2);
    }
    // A trace's own depth is that of the load.
    let is_single = load.workload.parts.is_empty() && load.workload.trace.is_none();
    if load.workload.is_open() && load.workload.iodepth.is_none() && is_single {
        load.workload.iodepth = Some(load.workload.iodepth(load.iodepth).saturating_mul(2));
    }
    load.iodepth = load.iodepth.saturating_mul(2);
    load
}

/// What a run is judged by.
fn figure(goal: Goal, measurement: &Measurement) -> f64 {
    let total = measurement.summaries().total;
    match goal {
        Goal::Throughput => total.iops.0,
        Goal::Latency => total.lat_ns_mean,
    }
}

/// Up to which share a gain may be chance: two standard deviations of the difference of two runs, each taken from how its
/// intervals vary where there are enough of them, else from the number of requests.
fn noise_of(goal: Goal, measurement: &Measurement) -> f64 {
    const INTERVALS_MIN: usize = 8;
    let total = measurement.summaries().total;
    let of_count = 1.0 / (total.requests.max(1) as f64).sqrt();
    let series = measurement.series.columns(measurement.window);
    let values: Vec<f64> = series.as_ref().map_or_else(Vec::new, |series| match goal {
        Goal::Throughput => series.iops(&series.total).collect(),
        Goal::Latency => series.total.lat_ns_mean.iter().map(|mean| *mean as f64).collect(),
    });
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let deviation = if values.len() < INTERVALS_MIN || mean <= 0.0 {
        of_count
    } else {
        let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
        (squares / (count - 1.0) / count).sqrt()
    };
    (2.0 * core::f64::consts::SQRT_2 * deviation).clamp(GAIN_MIN, GAIN_SURE)
}

/// The runs so far.
struct Search<'a> {
    enclosure: &'a SimulatedEnclosure,
    goal: Goal,
    run: ProbeRunner<'a>,
    runs: u32,
    requests: u64,
}

impl Search<'_> {
    /// The load over the shortest window that shows the same, and its outcome.
    fn shorter(
        &mut self,
        load: &SimulationLoad,
        base: &SimulationOutcome,
    ) -> Result<(SimulationLoad, SimulationOutcome), SimError> {
        let whole = SimulationLoad { run: base.measurement.window.max(NanoSpan(1)), ..load.clone() };
        let mut requests = PROBE_REQUESTS;
        for _ in 0..=LONGER_TIMES {
            // What is less than half as long is worth a run more.
            if requests.saturating_mul(2) > base.host_requests {
                break;
            }
            let cut = |span: NanoSpan| {
                let part = u128::from(span.0) * u128::from(requests) / u128::from(base.host_requests);
                NanoSpan(part.max(1) as u64)
            };
            let load = SimulationLoad { ramp: cut(whole.ramp), run: cut(whole.run), ..whole.clone() };
            let probe = Probe { enclosure: self.enclosure.clone(), load };
            let outcome = self.outcomes(core::slice::from_ref(&probe))?.remove(0);
            let found = figure(self.goal, &outcome.measurement);
            let wanted = figure(self.goal, &base.measurement);
            if (found / wanted - 1.0).abs() <= CUT_ERROR_MAX {
                return Ok((probe.load, outcome));
            }
            requests *= LONGER;
        }
        Ok((whole, base.clone()))
    }

    fn probe(&self, part: Part, load: &SimulationLoad) -> Option<Probe> {
        let enclosure = self.enclosure.faster(part, FASTER)?;
        Some(Probe { enclosure, load: load.clone() })
    }

    fn outcomes(&mut self, probes: &[Probe]) -> Result<Vec<SimulationOutcome>, SimError> {
        let outcomes: Vec<_> = (self.run)(probes).into_iter().collect::<Result<_, _>>()?;
        self.runs += outcomes.len() as u32;
        self.requests += outcomes.iter().map(|outcome| outcome.host_requests).sum::<u64>();
        Ok(outcomes)
    }

    /// By how much each probe is better than `base`.
    fn gains(&mut self, probes: &[Probe], base: &Measurement) -> Result<Vec<f64>, SimError> {
        let before = figure(self.goal, base);
        let goal = self.goal;
        let gain = |outcome: SimulationOutcome| {
            let after = figure(goal, &outcome.measurement);
            let share = match goal {
                Goal::Throughput => after / before - 1.0,
                Goal::Latency => 1.0 - after / before,
            };
            if share.is_finite() { share } else { 0.0 }
        };
        Ok(self.outcomes(probes)?.into_iter().map(gain).collect())
    }
}

impl SimulatedEnclosure {
    /// The parts of it that may have set the pace of a run with this outcome; no part contains another.
    fn parts_to_try(&self, outcome: &SimulationOutcome) -> Vec<Part> {
        let busy = &outcome.utilisation;
        let processors = if self.controller.is_software {
            Part::HostProcessors
        } else {
            Part::Controller(ControllerPart::Processors)
        };
        let of_controllers = [
            (processors, busy.processors),
            (Part::Controller(ControllerPart::HostLink), busy.host_link),
            (Part::Controller(ControllerPart::MemberLink), busy.member_link),
            // How busy the engine is nobody counts: what it works for, they do.
            (Part::Controller(ControllerPart::ParityEngine), 1.0),
            (Part::Controller(ControllerPart::StripeThreads), busy.stripe_threads),
            (Part::MirrorLink, busy.mirror_link),
            (Part::Cache, 1.0),
            (Part::Drives(DrivePart::All), 1.0),
        ];
        let may = |(part, busy): &(Part, f64)| *busy >= BUSY_MIN && self.faster(*part, FASTER).is_some();
        of_controllers.iter().filter(|row| may(row)).map(|(part, _)| *part).collect()
    }

    /// What the drives are made of.
    fn drive_parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for part in self.volumes.iter().flat_map(|volume| volume.drive.parts()).map(Part::Drives) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    }

    /// The same with `part` faster, or larger where it is room; none if it has no such part, or does not use it.
    #[must_use]
    pub fn faster(&self, part: Part, by: FasterPct) -> Option<Self> {
        let mut other = self.clone();
        match part {
            Part::Controller(ControllerPart::ParityEngine | ControllerPart::StripeThreads)
                if !self.has_parity() =>
            {
                return None;
            }
            Part::Controller(part) => other.controller = self.controller.faster(part, by)?,
            Part::HostProcessors => {
                other.controller = self.controller.faster(ControllerPart::Processors, by)?;
            }
            Part::MirrorLink => {
                let second = other.second.as_mut()?;
                second.dual.mirror_link = by.link(second.dual.mirror_link);
            }
            Part::Cache if self.volumes.iter().all(|volume| volume.config.cache.is_passed_by()) => {
                return None;
            }
            Part::Cache => other.volumes.iter_mut().for_each(|volume| enlarge(&mut volume.config.cache, by)),
            Part::Drives(part) => {
                let mut any = false;
                for volume in &mut other.volumes {
                    if let Some(drive) = volume.drive.faster(part, by) {
                        volume.drive = drive;
                        any = true;
                    }
                }
                return any.then_some(other);
            }
        }
        Some(other)
    }

    fn has_parity(&self) -> bool {
        let parities = |volume: &super::spec::SimulatedVolume| {
            volume.config.layout().map_or(0, |layout| layout.shape().parities)
        };
        self.volumes.iter().any(|volume| parities(volume) > 0)
    }
}

fn enlarge(cache: &mut CacheConfig, by: FasterPct) {
    let bytes = cache.size.0 + cache.size.0 / 100 * u64::from(by.0);
    cache.size = ByteCount(bytes.next_multiple_of(cache.block_size.0.max(1)));
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Controller(ControllerPart::HostLink) => "host link",
            Self::Controller(ControllerPart::Processors) => "controller processors",
            Self::Controller(ControllerPart::ParityEngine) => "parity engine",
            Self::Controller(ControllerPart::MemberLink) => "member link",
            Self::Controller(ControllerPart::StripeThreads) => "stripe threads",
            Self::HostProcessors => "host processors",
            Self::MirrorLink => "mirror link",
            Self::Cache => "cache memory",
            Self::Drives(part) => return fmt::Display::fmt(part, f),
        };
        f.pad(name)
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => fmt::Display::fmt(part, f),
            Self::Iodepth => f.pad("requests in flight"),
            Self::Load => f.pad("load itself"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::{ClosedLoop, RequestRate};

    const DRIVES: Part = Part::Drives(DrivePart::All);
    const LINK: Part = Part::Controller(ControllerPart::HostLink);

    #[test]
    fn the_largest_gain_is_named_unless_more_requests_bring_more() {
        let limited =
            Pacing::Closed(ClosedLoop { rate_max: RequestRate::new(100.0), ..ClosedLoop::default() });
        let free = Pacing::default();
        let rows = [
            (0.09, 0.01, Some(0.02), free, Bottleneck::Part(DRIVES)),
            (0.02, 0.07, Some(0.10), free, Bottleneck::Part(LINK)),
            // At depth 1 all parts together gain 10 %, and more requests far more.
            (0.08, 0.01, Some(0.95), free, Bottleneck::Iodepth),
            (0.001, 0.001, Some(0.2), free, Bottleneck::Iodepth),
            (0.09, 0.01, None, free, Bottleneck::Part(DRIVES)),
            (0.001, 0.000, Some(0.0), limited, Bottleneck::Load),
            (0.001, 0.000, Some(0.0), free, Bottleneck::Part(DRIVES)),
        ];
        for (drives, link, deeper, pacing, expected) in rows {
            let gains = gains_of(&[DRIVES, LINK], &[drives, link]);
            assert_eq!(judge(&gains, deeper, 0.01, pacing), expected, "{drives} {link} {deeper:?}");
        }
    }
}
