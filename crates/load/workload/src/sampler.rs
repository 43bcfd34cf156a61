//! Draws of places from a distribution: one number below `n` at a time, in constant time and memory for any `n`.
//!
//! - **Zipf** by rejection-inversion: a draw from the continuous envelope `x^-theta`, inverted in closed form, rounded to
//!   a rank and accepted or drawn again so that each rank has exactly its share; fewer than 1.2 draws on average. A table of
//!   the distribution would take 8 bytes per place: tens of GB for a large array, and minutes to fill.
//! - **Pareto** by inversion: `floor(n * u^(ln h / ln(1 - h)))`.
//! - **Zones** and **hit rates** by the sum of their shares, then evenly.
//! - **Normal** by the polar method, drawn again outside the working set.
//! - **Shuffle** by counting through a permutation.
//!
//! Invariant: a draw is below `n`. Sources: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions" (1996); G. Marsaglia and T. A. Bray, "A convenient method for generating normal
//! variables" (1964).

use crate::permutation::Permutation;
use crate::places::{Distribution, Places, Zone};
use crate::rng::Rng;

/// A distribution over the numbers below `n`, made ready.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    shape: Shape,
    scramble: Option<Permutation>,
    count: u64,
}

#[derive(Clone, Debug)]
enum Shape {
    Zipf(Zipf),
    Pareto { exponent: f64 },
    Zones(Vec<ReadyZone>),
    Normal { mean: f64, deviation: f64 },
    Shuffle { order: Permutation, next: u64 },
}

/// A zone with its bounds.
#[derive(Clone, Copy, Debug)]
struct ReadyZone {
    /// Share of the accesses up to its end.
    accesses_until: f64,
    first: u64,
    count: u64,
}

impl Sampler {
    /// Returns what draws from `places` over `count` places; none where that is to be drawn evenly, which needs
    /// nothing made ready. `places` has no [`Places::complaint`], and `count` is above zero.
    pub(crate) fn new(places: &Places, count: u64, seed: u64) -> Option<Self> {
        let shape = match &places.distribution {
            Distribution::Uniform => return None,
            Distribution::Zipf { theta } => Shape::Zipf(Zipf::new(*theta, count)),
            Distribution::Pareto { h } => Shape::Pareto { exponent: h.ln() / (-h).ln_1p() },
            zoned @ (Distribution::HitRates(_) | Distribution::Zones(_)) => {
                Shape::Zones(ready_zones(&zoned.zones(), count))
            }
            Distribution::Normal { mean_pct, deviation_pct } => Shape::Normal {
                mean: count as f64 * mean_pct / 100.0,
                deviation: count as f64 * deviation_pct / 100.0,
            },
            Distribution::Shuffle => Shape::Shuffle { order: Permutation::new(count, seed), next: 0 },
        };
        let is_shuffle = matches!(shape, Shape::Shuffle { .. });
        let scramble = (places.scrambled && !is_shuffle).then(|| Permutation::new(count, seed));
        Some(Self { shape, scramble, count })
    }

    /// Returns a place.
    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> u64 {
        let rank = match &mut self.shape {
            Shape::Zipf(zipf) => zipf.draw(rng),
            Shape::Pareto { exponent } => (self.count as f64 * rng.unit_f64().powf(*exponent)) as u64,
            Shape::Zones(zones) => draw_zone(zones, rng),
            Shape::Normal { mean, deviation } => draw_normal(*mean, *deviation, self.count, rng),
            Shape::Shuffle { order, next } => {
                if *next == self.count {
                    *order = Permutation::new(self.count, rng.next_u64());
                    *next = 0;
                }
                *next += 1;
                order.at(*next - 1)
            }
        };
        // Rounding of real numbers can reach the count itself where it is beyond 2^53.
        let rank = rank.min(self.count - 1);
        self.scramble.as_ref().map_or(rank, |order| order.at(rank))
    }
}

/// The zones over `count` places. A zone too small for a place shares the one that it lies in.
fn ready_zones(shares: &[Zone], count: u64) -> Vec<ReadyZone> {
    let (mut accesses, mut space) = (0.0, 0.0);
    let mut zones = Vec::new();
    for Zone { accesses_pct, space_pct } in shares {
        let first = ((space * count as f64).round() as u64).min(count - 1);
        accesses += accesses_pct / 100.0;
        space += space_pct / 100.0;
        let end = ((space * count as f64).round() as u64).clamp(first + 1, count);
        zones.push(ReadyZone { accesses_until: accesses, first, count: end - first });
    }
    zones
}

#[inline]
fn draw_zone(zones: &[ReadyZone], rng: &mut Rng) -> u64 {
    let share = rng.unit_f64();
    // The shares add up to one but for rounding; the last zone takes what is left.
    let zone = zones.iter().find(|zone| share < zone.accesses_until).unwrap_or(&zones[zones.len() - 1]);
    zone.first + rng.below(zone.count)
}

#[inline]
fn draw_normal(mean: f64, deviation: f64, count: u64, rng: &mut Rng) -> u64 {
    loop {
        let place = draw_normal_f64(mean, deviation, rng);
        if place >= 0.0 && place < count as f64 {
            return place as u64;
        }
    }
}

/// A normal distribution of what can't be negative: what is below one is drawn again, and the mean of what is left is the one asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositiveNormal {
    /// Mean before anything is drawn again.
    location: f64,
    deviation: f64,
}

impl PositiveNormal {
    /// Returns the distribution with this mean. `deviation`, which is up to the mean, is that before anything is drawn again.
    pub(crate) fn new(mean: f64, deviation: f64) -> Self {
        if deviation == 0.0 {
            return Self { location: mean, deviation };
        }
        // The mean of what is left rises with the location, and is above it.
        let (mut low, mut high) = (0.0, mean);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if mean_above_zero(middle, deviation) < mean { low = middle } else { high = middle }
        }
        Self { location: f64::midpoint(low, high), deviation }
    }

    /// A draw.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        if self.deviation == 0.0 {
            return self.location as u64;
        }
        loop {
            let drawn = draw_normal_f64(self.location, self.deviation, rng);
            if drawn >= 1.0 {
                return drawn as u64;
            }
        }
    }
}

/// Halves of an interval until it is as narrow as a number is exact, and steps of an integral.
const BISECTIONS: u32 = 52;
const STEPS: u32 = 400;

/// The mean of the part above zero of a normal distribution, by the midpoint rule up to nine deviations above `location`.
fn mean_above_zero(location: f64, deviation: f64) -> f64 {
    let width = (location + 9.0 * deviation) / f64::from(STEPS);
    let (mut moment, mut weight) = (0.0, 0.0);
    for step in 0..STEPS {
        let x = (f64::from(step) + 0.5) * width;
        let z = (x - location) / deviation;
        let density = (-0.5 * z * z).exp();
        moment += x * density;
        weight += density;
    }
    moment / weight
}

/// A draw from the normal distribution.
#[inline]
pub(crate) fn draw_normal_f64(mean: f64, deviation: f64, rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (rng.unit_f64() * 2.0 - 1.0, rng.unit_f64() * 2.0 - 1.0);
        let square = x * x + y * y;
        if square < 1.0 && square > 0.0 {
            return mean + deviation * x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Rejection-inversion for `1 / k^theta` over the ranks 1 to `count`.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    theta: f64,
    count: u64,
    /// The integral of the envelope up to the first rank, less that rank's share.
    integral_first: f64,
    /// The same up to the last rank.
    integral_last: f64,
    /// Ranks this close above their draw are accepted without a look at their share.
    sure: f64,
}

impl Zipf {
    fn new(theta: f64, count: u64) -> Self {
        let mut zipf = Self { theta, count, integral_first: 0.0, integral_last: 0.0, sure: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Returns a rank, from 0.
    #[inline]
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.integral_last + rng.unit_f64() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(area);
            let rank = (x + 0.5).clamp(1.0, self.count as f64).floor();
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// `(x^(1 - theta) - 1) / (1 - theta)`, which is `ln x` at theta = 1, without loss near it.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() > 1e-8 { power.exp_m1() / power * log } else { (1.0 + power / 2.0) * log }
    }

    /// The `x` that has this integral.
    fn integral_inverse(&self, integral: f64) -> f64 {
        // Rounding must not lead below where the logarithm is defined.
        let power = (integral * (1.0 - self.theta)).max(-1.0);
        let log = if power.abs() > 1e-8 {
            power.ln_1p() / power * integral
        } else {
            (1.0 - power / 2.0) * integral
        };
        log.exp()
    }
}

#[cfg(test)]
mod tests;
