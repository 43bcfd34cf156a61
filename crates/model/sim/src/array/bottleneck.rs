//! The bottleneck of a run: the part that would raise its rate if it were faster.
//!
//! A part that is always busy need not limit the others, and one that is not may: a drive with one request at a time is
//! busy 91 % of it and could do twenty times more. So each part is made a tenth faster, one after the other, and the
//! same load is run again with the same seed:
//! ```text
//!   load, array ──► base ──► each part 10 % faster ──► the largest gain ──► within the drives: arms, dies, channels ...
//!                        └─► twice the requests in flight
//! ```
//! - A **closed loop** is judged by its rate. If all parts were 10 % faster the rate would be 10 % higher, so their
//!   gains add up to about that, and each is its part's share of the limit.
//! - Twice the requests in flight give twice the rate if nothing is in their way, and the same rate if something is
//!   saturated. From half-way on ([`DEEPER_MIN`]) *requests in flight* are the limit: a faster part would only shorten
//!   the wait of a host that has too few requests in flight.
//! - An **open loop** has its own rate, and is judged by its mean latency.
//!
//! A gain counts if it is more than chance, which is estimated from the variation of the run within its window. Runs
//! are as short as that allows ([`PROBE_REQUESTS`]): the window is cut, and the ramp with it, as long as the rate stays
//! the same.
//!
//! **A part that works for `u` of the time can gain at most `u` times its speed-up**, and is not tried if that can't
//! count. In a closed network of `n` requests in flight a station's share of the limit is `Q(n) - Q(n - 1)`, `Q` being
//! its mean queue, which is at most `u`; of `m` servers that are busy for `u` each and hardly queue, it is `m u / n`
//! (Little). If only the name is wanted ([`Extent::Name`]), parts are tried in the order of these bounds, until no
//! remaining part can give more than the best.
//! Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", JACM 27(2), 1980.
//!
//! Left out: locks, which have no speed of their own. They are faster when what is done under them is.

use super::spec::{SimError, SimulatedEnclosure, SimulationLoad, SimulationOutcome, simulate_enclosure};
use core::fmt;
use raidlab_controller::CacheConfig;
use raidlab_hardware::{ControllerPart, DrivePart, FasterPct};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Measurement, Pacing};

/// How much faster parts are made.
const FASTER: FasterPct = FasterPct(10.0);

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

/// The least gain that counts; what chance may reach, where the window can be made so long.
const GAIN_MIN: f64 = 0.005;
const CHANCE_WANTED: f64 = 0.05;

/// How many times as long a window is made at most where chance reaches further.
const LENGTHENED_MAX: f64 = 16.0;

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
    /// The drive beside the members.
    DriveBeside,
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

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What each part that may matter would bring; probes come all together.
    Gains,
    /// Which part it is; probes come one by one, until that is certain.
    Name,
}

impl Extent {
    /// How many of so many probes are made at once; at least one.
    fn at_once(self, probes: usize) -> usize {
        if self == Self::Gains { probes.max(1) } else { 1 }
    }
}

/// One of the runs.
#[derive(Clone, Debug)]
pub struct Probe {
    enclosure: SimulatedEnclosure,
    load: SimulationLoad,
    goal: Goal,
}

/// What is taken from one of the runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeFigures {
    /// What it is judged by: requests per second, or the mean latency in nanoseconds.
    pub figure: f64,
    /// Host requests, ramp and drain included.
    pub requests: u64,
}

impl Probe {
    /// Runs it.
    ///
    /// # Errors
    /// Those of [`simulate_enclosure`].
    pub fn run(&self) -> Result<ProbeFigures, SimError> {
        let outcome = simulate_enclosure(&self.enclosure, &self.load)?;
        let figure = figure(self.goal, &outcome.measurement);
        Ok(ProbeFigures { figure, requests: outcome.host_requests })
    }
}

/// Runs probes, at the same time if it can; the figures of each, in their order.
pub type ProbeRunner<'a> = &'a mut dyn FnMut(&[Probe]) -> Vec<Result<ProbeFigures, SimError>>;

/// What may set the pace, and by how much it can raise it at most.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// None for requests in flight.
    part: Option<Part>,
    gain_max: f64,
}

/// Finds what set the pace of `load` on `enclosure`, of which the outcome is `base`. `run` does the runs that it takes.
///
/// # Errors
/// Those of [`simulate_enclosure`].
pub fn find_bottleneck(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    base: &SimulationOutcome,
    extent: Extent,
    run: ProbeRunner<'_>,
) -> Result<BottleneckOutcome, SimError> {
    let goal = if load.workload.is_open() { Goal::Latency } else { Goal::Throughput };
    let mut search = Search { enclosure, goal, run, runs: 0, requests: 0 };
    let (load, base) = search.shorter(load, base)?;
    let (load, base) = search.longer(load, base)?;
    let noise = noise_of(goal, &base.measurement);
    let pacing = load.workload.pacing;
    let before = figure(goal, &base.measurement);
    let (mut gains, mut deeper) = (Vec::new(), None);
    let candidates = enclosure.candidates(goal, &base);
    let mut left = &candidates[..];
    while !left.is_empty() && !is_certain(&gains, deeper, noise, left) {
        let (batch, rest) = left.split_at(extent.at_once(left.len()));
        left = rest;
        let probes: Vec<Probe> = batch.iter().map(|one| search.candidate_probe(*one, &load)).collect();
        for (one, share) in batch.iter().zip(search.gains(&probes, before)?) {
            match one.part {
                Some(part) => gains.push(Gain { part, share }),
                None => deeper = Some(share),
            }
        }
    }
    let mut bottleneck = judge(&gains, deeper, noise, pacing);
    if bottleneck == Bottleneck::Part(Part::Drives(DrivePart::All)) {
        let all = gains.iter().map(|gain| gain.share).fold(0.0, f64::max);
        let inside = enclosure.drive_parts();
        let mut own = Vec::with_capacity(inside.len());
        for batch in inside.chunks(extent.at_once(inside.len())) {
            let probes: Vec<Probe> = batch.iter().filter_map(|part| search.probe(*part, &load)).collect();
            own.extend(gains_of(batch, &search.gains(&probes, before)?));
            let most = own.iter().max_by(|a, b| a.share.total_cmp(&b.share));
            if let Some(most) = most.filter(|most| most.share >= MOST_OF_DRIVES * all) {
                bottleneck = Bottleneck::Part(most.part);
                break;
            }
        }
        gains.extend(own);
    }
    gains.sort_by(|a, b| b.share.total_cmp(&a.share));
    let (runs, requests, window) = (search.runs, search.requests, base.measurement.window);
    Ok(BottleneckOutcome { bottleneck, goal, faster: FASTER, gains, deeper, noise, runs, requests, window })
}

/// Whether nothing that is `left` can change what is named.
fn is_certain(gains: &[Gain], deeper: Option<f64>, noise: f64, left: &[Candidate]) -> bool {
    if deeper.is_some_and(|deeper| deeper >= DEEPER_MIN) {
        return true;
    }
    let best = gains.iter().map(|gain| gain.share).fold(0.0, f64::max);
    best > noise && left.iter().all(|candidate| candidate.gain_max <= best)
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

/// What a part that is [`FASTER`] can bring at most, if each of its servers is `busy` for that share of the time.
///
/// In an open loop the time in a queue that is `u` full is as `1 / (1 - u)`, and so falls by more than the part is faster.
fn gain_max(goal: Goal, (busy, servers): (f64, f64), in_flight: f64) -> f64 {
    let faster = FASTER.0 / 100.0;
    let of_time = (busy * servers / in_flight.max(f64::MIN_POSITIVE)).min(1.0);
    match goal {
        Goal::Throughput => faster * of_time.max(busy),
        Goal::Latency => faster * (of_time / (1.0 - busy).max(faster)).min(1.0) / (1.0 + faster - busy),
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
    (2.0 * core::f64::consts::SQRT_2 * deviation).clamp(GAIN_MIN, 1.0)
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
            requests *= LONGER;
            let outcome = match simulate_enclosure(self.enclosure, &load) {
                // A window that ends before a controller fails shows nothing of that.
                Err(SimError::FailureAfterRun { .. }) => continue,
                outcome => outcome?,
            };
            self.runs += 1;
            self.requests += outcome.host_requests;
            let found = figure(self.goal, &outcome.measurement);
            let wanted = figure(self.goal, &base.measurement);
            if (found / wanted - 1.0).abs() <= CUT_ERROR_MAX {
                return Ok((load, outcome));
            }
        }
        Ok((whole, base.clone()))
    }

    /// The load over a window so long that chance reaches no further than [`CHANCE_WANTED`], or as near to that as is worth its
    /// time. A trace is as long as it is.
    fn longer(
        &mut self,
        load: SimulationLoad,
        base: SimulationOutcome,
    ) -> Result<(SimulationLoad, SimulationOutcome), SimError> {
        let requests = base.host_requests.max(1) as f64;
        let wanted = (noise_of(self.goal, &base.measurement) / CHANCE_WANTED).powi(2);
        let times = wanted.min(LENGTHENED_MAX).min(PROBE_REQUESTS as f64 / requests);
        if times <= 1.0 || load.workload.trace.is_some() {
            return Ok((load, base));
        }
        let load = SimulationLoad { run: NanoSpan((load.run.0 as f64 * times) as u64), ..load };
        let outcome = simulate_enclosure(self.enclosure, &load)?;
        self.runs += 1;
        self.requests += outcome.host_requests;
        Ok((load, outcome))
    }

    fn probe(&self, part: Part, load: &SimulationLoad) -> Option<Probe> {
        let enclosure = self.enclosure.faster(part, FASTER)?;
        Some(Probe { enclosure, load: load.clone(), goal: self.goal })
    }

    fn candidate_probe(&self, candidate: Candidate, load: &SimulationLoad) -> Probe {
        match candidate.part {
            Some(part) => self.probe(part, load).expect("only what there is is a candidate"),
            None => Probe { enclosure: self.enclosure.clone(), load: deeper(load), goal: self.goal },
        }
    }

    /// By how much each probe is better than `before`.
    fn gains(&mut self, probes: &[Probe], before: f64) -> Result<Vec<f64>, SimError> {
        let all: Vec<ProbeFigures> = (self.run)(probes).into_iter().collect::<Result<_, _>>()?;
        self.runs += all.len() as u32;
        self.requests += all.iter().map(|figures| figures.requests).sum::<u64>();
        let gain = |after: &ProbeFigures| {
            let share = match self.goal {
                Goal::Throughput => after.figure / before - 1.0,
                Goal::Latency => 1.0 - after.figure / before,
            };
            if share.is_finite() { share } else { 0.0 }
        };
        Ok(all.iter().map(gain).collect())
    }
}

impl SimulatedEnclosure {
    /// What may have set the pace of a run with this outcome, what can raise it most first; no part contains another.
    fn candidates(&self, goal: Goal, outcome: &SimulationOutcome) -> Vec<Candidate> {
        let busy = &outcome.utilisation;
        let processors = if self.controller.is_software {
            Part::HostProcessors
        } else {
            Part::Controller(ControllerPart::Processors)
        };
        let heads = if self.second.is_some() { 2.0 } else { 1.0 };
        let of_processors = f64::from(self.controller.threads_beside_first()) * heads;
        let lanes = f64::from(self.controller.member_lanes) * heads;
        let stripe_threads =
            self.controller.md.as_ref().map_or(1.0, |md| f64::from(1 + md.group_thread_cnt)) * heads;
        let drives: u32 = self.volumes.iter().map(|volume| u32::from(volume.config.members)).sum();
        // A network takes time in which it is not busy.
        let member_link = if self.controller.fabric.is_some() { 1.0 } else { busy.member_link };
        let of_controllers = [
            (Part::Drives(DrivePart::All), busy.drives_max, f64::from(drives)),
            (processors, busy.processors, of_processors),
            (Part::Controller(ControllerPart::FirstThread), busy.first_thread, heads),
            (Part::Controller(ControllerPart::HostLink), busy.host_link, heads),
            (Part::Controller(ControllerPart::MemberLink), member_link, lanes),
            (Part::Controller(ControllerPart::ParityEngine), busy.parity_engine, heads),
            (Part::Controller(ControllerPart::Memory), busy.memory, heads),
            (Part::Controller(ControllerPart::StripeThreads), busy.stripe_threads, stripe_threads),
            (Part::MirrorLink, busy.mirror_link, 1.0),
            // How much room brings does not follow from how much of it is used.
            (Part::Cache, 1.0, 1.0),
            (Part::DriveBeside, 1.0, 1.0),
        ];
        let total = outcome.measurement.summaries().total;
        let in_flight = total.iops.0 * total.lat_ns_mean / 1e9;
        let may = |(part, busy, servers): &(Part, f64, f64)| {
            let gain_max = gain_max(goal, (*busy, *servers), in_flight);
            (gain_max >= GAIN_MIN && self.faster(*part, FASTER).is_some())
                .then_some(Candidate { part: Some(*part), gain_max })
        };
        let mut candidates: Vec<Candidate> = of_controllers.iter().filter_map(may).collect();
        candidates.sort_by(|a, b| b.gain_max.total_cmp(&a.gain_max));
        if is_held_up_by_places(goal, &outcome.measurement) {
            candidates.insert(0, Candidate { part: None, gain_max: f64::INFINITY });
        }
        candidates
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
            Part::DriveBeside => {
                let mut volumes = other.volumes.iter_mut();
                let volume = volumes.find(|it| it.config.cache.rules.has_device_beside())?;
                let drive = volume.beside.as_ref().unwrap_or(&volume.drive);
                volume.beside = Some(drive.faster(DrivePart::All, by)?);
            }
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
    let bytes = (cache.size.0 as f64 * (1.0 + by.0 / 100.0)) as u64;
    cache.size = ByteCount(bytes.next_multiple_of(cache.block_size.0.max(1)));
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Controller(part) => part.name(),
            Self::HostProcessors => "host processors",
            Self::MirrorLink => "mirror link",
            Self::Cache => "cache memory",
            Self::DriveBeside => "drive of the journal or of the bitmap's file",
            Self::Drives(part) => part.name(),
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
