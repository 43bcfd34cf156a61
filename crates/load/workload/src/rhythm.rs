//! How the rate of an open loop changes over time: by the hour, in bursts, and on all scales at once.
//!
//! ```text
//! hours          ▁▁▂▃▅▇▇▆▅▅▃▂▁    so many figures, one after the other, again and again
//! on and off     █__█___█_██__    all arrivals while it is on
//! self-similar   ▂▃▂▅▇▃▁▂▂▆▅▂▃    as bursty over minutes as over milliseconds
//! ```
//! The three multiply, and the mean rate is that of the arrivals: hours count as ratios to their mean, an on and off of one to four has five
//! times the rate while it is on.
//!
//! **How it works:** arrivals are made at the mean rate in a time of their own, and a [`Tempo`] turns that time into the clock's, by the
//! integral of the rate. So arrivals that are fixed stay exact, none is lost or doubled, and workers that share a rate share its tempo.
//!
//! **Self-similar** rates are the exponential of a sum of [`LEVELS`] first-order autoregressive processes, each with twice the memory of the
//! one before and a variance of `memory^(2H - 2)`, and of noise in place of those that are shorter than an interval: over all scales between them the variance of means over `m` intervals falls as
//! `m^(2H - 2)`, which is what a Hurst figure `H` says. A run sees the mean rate only as far as its length smooths it: with `H` near 1 the rate of one
//! run may lie far from the mean.
//!
//! Sources: B. Mandelbrot, "A fast fractional Gaussian noise generator" (1971); W. Leland et al., "On the self-similar nature of Ethernet
//! traffic" (1994), for what it is for; M. Gómez and V. Santonja, "Self-similarity in I/O workload" (1999), for disks.

use crate::pacing::RequestRate;
use crate::rng::{Rng, derived_seed};
use crate::sampler::draw_normal_f64;
use core::fmt;
use raidlab_units::{NanoSpan, Nanos};
use serde::{Deserialize, Serialize};

/// Processes that a self-similar rate is made of: noise, and memories of one interval to 2^23 of them.
const LEVELS: usize = 25;
/// Figures of a day in hours.
pub(crate) const HOURS: usize = 24;
/// Streams of random numbers of a tempo.
const ON_OFF_STREAM: u64 = 1;
const SELF_SIMILAR_STREAM: u64 = 2;

/// How the rate of an open loop changes; the default is that it does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rhythm {
    /// How long each rate lasts, again from the first after the last; only their ratios count.
    pub steps: Vec<(NanoSpan, f64)>,
    /// All arrivals come in bursts.
    pub on_off: Option<OnOff>,
    /// The rate changes on all scales.
    pub self_similar: Option<SelfSimilar>,
}

/// Arrivals that come while it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// How long it is on.
    pub on: NanoSpan,
    /// How long it is off.
    pub off: NanoSpan,
    /// How these lengths are spread.
    pub lengths: SpanLaw,
}

impl OnOff {
    /// On and off, on average.
    pub fn cycle(self) -> NanoSpan {
        NanoSpan(self.on.get().saturating_add(self.off.get()))
    }
}

/// How lengths of time are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanLaw {
    /// All alike.
    #[default]
    Fixed,
    /// Exponentially, with this mean.
    Exponential,
}

/// A rate that is as bursty on long scales as on short ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfSimilar {
    /// The Hurst figure: above 0.5, where scales know nothing of each other, and below 1.
    pub hurst: f64,
    /// Standard deviation of the rate from interval to interval, in percent of its mean.
    pub variation_pct: f64,
    /// The shortest scale.
    pub interval: NanoSpan,
}

/// The shortest time for which a rate may last.
const SHORTEST: NanoSpan = NanoSpan(100_000);

impl Rhythm {
    /// Whether the rate does not change.
    pub fn is_steady(&self) -> bool {
        self.steps.is_empty() && self.on_off.is_none() && self.self_similar.is_none()
    }

    /// The mean of its steps over time; none without any.
    pub fn mean(&self) -> Option<f64> {
        let whole: f64 = self.steps.iter().map(|(span, _)| span.get() as f64).sum();
        let all: f64 = self.steps.iter().map(|(span, rate)| span.get() as f64 * rate).sum();
        (whole > 0.0).then(|| all / whole)
    }

    /// The same without what changes over more than `longer`, and how many times its mean the rate is at the busiest of that.
    #[must_use]
    pub fn at_its_busiest(&self, longer: NanoSpan) -> (Self, f64) {
        let (mut steady, mut times) = (self.clone(), 1.0);
        if let Some(mean) = self.mean().filter(|_| self.period() > longer) {
            let most = self.steps.iter().fold(0.0_f64, |most, (_, rate)| most.max(*rate));
            times *= most / mean;
            steady.steps.clear();
        }
        if let Some(OnOff { on, off, .. }) = self.on_off.filter(|it| it.cycle() > longer) {
            times *= 1.0 + off.get() as f64 / on.get() as f64;
            steady.on_off = None;
        }
        (steady, times)
    }

    /// How long its steps last together.
    pub fn period(&self) -> NanoSpan {
        NanoSpan(self.steps.iter().fold(0, |sum, (span, _)| sum.saturating_add(span.get())))
    }

    /// How long it is until it is as it was, but for what changes by chance; zero where it is steady.
    pub fn cycle(&self) -> NanoSpan {
        self.period().max(self.on_off.map_or(NanoSpan::ZERO, OnOff::cycle))
    }

    /// Whether its steps are the hours of a day, and how long that is.
    pub(crate) fn day(&self) -> Option<NanoSpan> {
        let first = self.steps.first()?.0;
        let is_even = self.steps.len() == HOURS && self.steps.iter().all(|(span, _)| *span == first);
        is_even.then(|| self.period())
    }

    /// Says which setting is wrong, and how, if any is, for arrivals at `rate`.
    pub(crate) fn complaint(&self, rate: RequestRate) -> Option<(&'static str, &'static str)> {
        const SHORT: &str = "has a time below 100us: make it longer";
        let rates = self.steps.iter().map(|(_, rate)| *rate);
        if rates.clone().any(|rate| !(0.0..=1e9).contains(&rate)) {
            return Some(("by_hour and steps", "have rates of 0 to 1000000000"));
        }
        if !self.steps.is_empty() && rates.sum::<f64>() < 1e-6 {
            return Some(("by_hour and steps", "must have a rate above 0"));
        }
        if self.steps.iter().any(|(span, _)| *span < SHORTEST) {
            return Some(("day and steps", "have a rate that lasts less than 100us: make it longer"));
        }
        if self.on_off.is_some_and(|it| it.on.min(it.off) < SHORTEST) {
            return Some(("on_off", SHORT));
        }
        if let Some(SelfSimilar { hurst, variation_pct, interval }) = self.self_similar {
            if !(hurst > 0.5 && hurst < 1.0) {
                return Some(("hurst", "must be above 0.5 and below 1"));
            }
            if !(variation_pct > 0.0 && variation_pct <= 300.0) {
                return Some(("variation_pct", "must be above 0 and up to 300"));
            }
            if interval < SHORTEST {
                return Some(("interval", SHORT));
            }
        }
        // An arrival is found by walking through the rates up to it.
        let shortest = self.steps.iter().map(|(span, _)| *span);
        let shortest = shortest.chain(self.on_off.map(|it| it.on.min(it.off)));
        let shortest = shortest.chain(self.self_similar.map(|it| it.interval)).min()?;
        let is_slow = shortest.get() as f64 * rate.per_second() < 1e3;
        is_slow.then_some((
            "rate",
            "is below one request in a million of the shortest times of its rhythm: make these longer",
        ))
    }
}

impl fmt::Display for Rhythm {
    /// In a few words, for tables of settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(day) = self.day() {
            let hours = day.get() / 3_600_000_000_000;
            let is_hours = day.get().is_multiple_of(3_600_000_000_000);
            let day = if is_hours { format!("{hours} h") } else { day.to_string() };
            parts.push(format!("by the hours of a day of {day}"));
        } else if !self.steps.is_empty() {
            parts.push(format!("in {} steps within {}", self.steps.len(), self.period()));
        }
        if let Some(OnOff { on, off, lengths }) = self.on_off {
            let law = if lengths == SpanLaw::Fixed { "" } else { " at the mean, exponentially" };
            parts.push(format!("on for {on} and off for {off}{law}"));
        }
        if let Some(SelfSimilar { hurst, variation_pct, interval }) = self.self_similar {
            parts.push(format!(
                "self-similar with a Hurst figure of {hurst}, {variation_pct} % of variation from {interval} on"
            ));
        }
        f.write_str(&parts.join(", "))
    }
}

/// The clock of a rhythm: turns the time of arrivals at the mean rate into real time.
#[derive(Clone, Debug)]
pub(crate) struct Tempo {
    steps: Vec<(NanoSpan, f64)>,
    /// The step under way, and when it ends.
    step: usize,
    step_end: u64,
    on_off: Option<OnOffState>,
    self_similar: Option<SelfSimilarState>,
    origin: Nanos,
    /// The stretch of one rate under way, in ns from the origin, and its rate over the mean.
    start: u64,
    end: u64,
    factor: f64,
    /// Where it starts in the time of arrivals.
    base_ns: f64,
}

#[derive(Clone, Debug)]
struct OnOffState {
    law: OnOff,
    is_on: bool,
    end: u64,
    rng: Rng,
}

#[derive(Clone, Debug)]
struct SelfSimilarState {
    interval_ns: u64,
    /// Deviation of the logarithm of the rate.
    deviation: f64,
    levels: [Level; LEVELS],
    factor: f64,
    end: u64,
    rng: Rng,
}

/// A first-order autoregressive process of variance 1.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    now: f64,
    memory: f64,
    noise: f64,
    weight: f64,
}

impl Tempo {
    /// Returns the clock of `rhythm`, which is valid, from `origin` on; none where the rate does not change. All workers of a run have one `seed`.
    pub(crate) fn new(rhythm: &Rhythm, seed: u64, origin: Nanos) -> Option<Self> {
        if rhythm.is_steady() {
            return None;
        }
        let mean = rhythm.mean().unwrap_or(1.0);
        let steps: Vec<_> = rhythm.steps.iter().map(|(span, rate)| (*span, rate / mean)).collect();
        let step_end = steps.first().map_or(u64::MAX, |(span, _)| span.get());
        let on_off = rhythm.on_off.map(|law| OnOffState::new(law, derived_seed(seed, ON_OFF_STREAM)));
        let self_similar = rhythm
            .self_similar
            .map(|law| SelfSimilarState::new(law, derived_seed(seed, SELF_SIMILAR_STREAM)));
        let mut tempo = Self {
            steps,
            step: 0,
            step_end,
            on_off,
            self_similar,
            origin,
            start: 0,
            end: 0,
            factor: 0.0,
            base_ns: 0.0,
        };
        tempo.look();
        Some(tempo)
    }

    /// The rate now, and until when.
    fn look(&mut self) {
        let step = self.steps.get(self.step).map_or(1.0, |(_, factor)| *factor);
        let on_off = self.on_off.as_ref().map_or((1.0, u64::MAX), |it| (it.factor(), it.end));
        let similar = self.self_similar.as_ref().map_or((1.0, u64::MAX), |it| (it.factor, it.end));
        self.factor = step * on_off.0 * similar.0;
        self.end = self.step_end.min(on_off.1).min(similar.1);
    }

    /// Goes on to the next stretch.
    fn next(&mut self) {
        self.base_ns += (self.end - self.start) as f64 * self.factor;
        self.start = self.end;
        if self.step_end == self.start && !self.steps.is_empty() {
            self.step = (self.step + 1) % self.steps.len();
            self.step_end = self.step_end.saturating_add(self.steps[self.step].0.get());
        }
        if let Some(it) = self.on_off.as_mut().filter(|it| it.end == self.start) {
            it.next();
        }
        if let Some(it) = self.self_similar.as_mut().filter(|it| it.end == self.start) {
            it.next();
        }
        self.look();
    }

    /// When the time `base` of arrivals is. Times never go back from call to call.
    pub(crate) fn real(&mut self, base: Nanos) -> Nanos {
        let base_ns = base.saturating_since(self.origin).get() as f64;
        loop {
            if self.start == u64::MAX {
                return Nanos::FAR_FUTURE;
            }
            let within = (base_ns - self.base_ns).max(0.0);
            if within < (self.end - self.start) as f64 * self.factor {
                let at = self.start.saturating_add((within / self.factor) as u64).min(self.end - 1);
                return Nanos(self.origin.get().saturating_add(at));
            }
            self.next();
        }
    }

    /// The time of arrivals at the real time `at`, from the stretch under way on.
    pub(crate) fn base(&self, at: Nanos) -> Nanos {
        let at = at.saturating_since(self.origin).get();
        let mut ahead = self.clone();
        while ahead.end <= at && ahead.start < u64::MAX {
            ahead.next();
        }
        let base_ns = ahead.base_ns + at.saturating_sub(ahead.start) as f64 * ahead.factor;
        Nanos(self.origin.get().saturating_add(base_ns.ceil() as u64))
    }
}

impl OnOffState {
    fn new(law: OnOff, seed: u64) -> Self {
        let mut state = Self { law, is_on: false, end: 0, rng: Rng::new(seed) };
        state.next();
        state
    }

    fn factor(&self) -> f64 {
        let (on, off) = (self.law.on.get() as f64, self.law.off.get() as f64);
        if self.is_on { (on + off) / on } else { 0.0 }
    }

    fn next(&mut self) {
        self.is_on = !self.is_on;
        let mean = if self.is_on { self.law.on } else { self.law.off };
        let span = match self.law.lengths {
            SpanLaw::Fixed => mean.get(),
            // The logarithm of a number above 0 and up to 1.
            SpanLaw::Exponential => (-(1.0 - self.rng.unit_f64()).ln() * mean.get() as f64) as u64,
        };
        self.end = self.end.saturating_add(span.max(1));
    }
}

impl SelfSimilarState {
    fn new(law: SelfSimilar, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let variation = law.variation_pct / 100.0;
        let mut levels: [Level; LEVELS] = core::array::from_fn(|level| {
            // Memories of 1, 2, 4, ... intervals. The first stands for all that are shorter: what these add to means.
            let doubled = level as f64 - 1.0;
            let memory = if level == 0 { 0.0 } else { (-(0.5f64.powf(doubled))).exp() };
            let shorter = 2.0 / (2f64.powf(2.0 * law.hurst - 1.0) - 1.0);
            let variance = if level == 0 { shorter } else { 2f64.powf(doubled * (2.0 * law.hurst - 2.0)) };
            let now = draw_normal_f64(0.0, 1.0, &mut rng);
            Level { now, memory, noise: (1.0 - memory * memory).sqrt(), weight: variance.sqrt() }
        });
        let whole = levels.iter().map(|level| level.weight * level.weight).sum::<f64>().sqrt();
        for level in &mut levels {
            level.weight /= whole;
        }
        let deviation = (variation * variation).ln_1p().sqrt();
        let interval_ns = law.interval.get();
        let mut state = Self { interval_ns, deviation, levels, factor: 1.0, end: interval_ns, rng };
        state.look();
        state
    }

    /// The exponential of the sum, with a mean of 1.
    fn look(&mut self) {
        let sum: f64 = self.levels.iter().map(|level| level.weight * level.now).sum();
        self.factor = (self.deviation * sum - self.deviation * self.deviation / 2.0).exp();
    }

    fn next(&mut self) {
        self.end = self.end.saturating_add(self.interval_ns);
        for level in &mut self.levels {
            level.now = level.memory * level.now + level.noise * draw_normal_f64(0.0, 1.0, &mut self.rng);
        }
        self.look();
    }
}

#[cfg(test)]
mod tests;
