//! Rates that change against slow oracles: rates added up tick by tick, arrivals counted in classes, and the variance of means.

use super::*;
use crate::pacing::{ArrivalProcess, Arrivals};
use crate::schedule::Schedule;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn schedule(rhythm: &Rhythm, process: ArrivalProcess, per_second: f64, worker: (u32, u32)) -> Schedule {
    let rate = RequestRate::new(per_second).unwrap();
    let arrivals = Arrivals { process, rate, burst: 1 };
    let start = Nanos(777);
    Schedule::new(&arrivals, worker, 5, start).with_tempo(Tempo::new(rhythm, 9, start))
}

/// Times of all arrivals up to `end` after the start.
fn until(mut schedule: Schedule, end: u64) -> Vec<u64> {
    let mut times = Vec::new();
    while schedule.due().get() - 777 < end {
        times.push(schedule.due().get() - 777);
        schedule.advance();
    }
    times
}

fn hours(rates: &[f64], day: NanoSpan) -> Rhythm {
    let hour = NanoSpan(day.get() / rates.len() as u64);
    Rhythm { steps: rates.iter().map(|rate| (hour, *rate)).collect(), ..Rhythm::default() }
}

fn on_off(on_ms: u64, off_ms: u64, lengths: SpanLaw) -> Rhythm {
    let (on, off) = (NanoSpan::from_millis(on_ms), NanoSpan::from_millis(off_ms));
    Rhythm { on_off: Some(OnOff { on, off, lengths }), ..Rhythm::default() }
}

/// Arrivals in each class of `class` ns.
fn counted(times: &[u64], class: u64, classes: usize) -> Vec<f64> {
    let mut counts = vec![0.0; classes];
    times.iter().filter_map(|time| usize::try_from(time / class).ok()).for_each(|index| {
        if let Some(count) = counts.get_mut(index) {
            *count += 1.0;
        }
    });
    counts
}

/// The Hurst figure of several series with the mean `mean` by aggregated variance: the slope of the logarithm of the variance of means over
/// that of how many are taken together, 8 to 512, by least squares. A series' own mean would hide its longest waves.
fn hurst_by_aggregated_variance(series: &[Vec<f64>], mean: f64) -> f64 {
    let mut points = Vec::new();
    for power in 3..=9 {
        let chunks = series.iter().flat_map(|one| one.chunks_exact(1 << power));
        let squares = chunks.map(|chunk| (chunk.iter().sum::<f64>() / chunk.len() as f64 - mean).powi(2));
        let (count, sum) = squares.fold((0, 0.0), |(count, sum), square| (count + 1, sum + square));
        points.push((f64::from(power) * 2f64.ln(), (sum / f64::from(count)).ln()));
    }
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
        / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    1.0 + slope / 2.0
}

#[test]
fn a_day_has_the_rate_of_each_hour_and_the_mean_of_all() {
    let rates = [40.3, 20.4, 0.0, 0.0, 10.0, 80.0, 300.0, 500.0];
    let rhythm = hours(&rates, NanoSpan(8 * SECOND));
    let mean = rhythm.mean().unwrap();
    let times = until(schedule(&rhythm, ArrivalProcess::Fixed, mean, (0, 1)), 80 * SECOND);
    // Ten days, the last arrivals of which may be one off.
    assert!((times.len() as f64 - 10.0 * rates.iter().sum::<f64>()).abs() <= 1.0, "{}", times.len());
    let counts = counted(&times, SECOND, 80);
    for (hour, count) in counts.iter().enumerate() {
        assert!((count - rates[hour % 8]).abs() <= 1.0, "hour {hour}: {count}");
    }
    // The oracle: rates added up, a tick of 10 us at a time.
    let mut sum = 0.0;
    let mut number = 0;
    for tick in 0..800_000u64 {
        sum += rates[(tick / 100_000) as usize % 8] * 1e-5;
        while number < times.len() && (number as f64) < sum - 1e-6 {
            let off = times[number].abs_diff(tick * 10_000);
            assert!(off <= 20_000, "arrival {number} is off by {off} ns");
            number += 1;
        }
    }
    assert!(number > 900, "{number}");
    let random =
        until(schedule(&rhythm, ArrivalProcess::Poisson, mean * 20.0, (0, 1)), 80 * SECOND).len() as f64;
    let expected = 200.0 * rates.iter().sum::<f64>();
    assert!((random - expected).abs() < 4.0 * expected.sqrt(), "{random} of {expected}");
}

#[test]
fn nothing_arrives_while_it_is_off_and_the_mean_stays() {
    let times = until(
        schedule(&on_off(200, 800, SpanLaw::Fixed), ArrivalProcess::Poisson, 2000.0, (0, 1)),
        50 * SECOND,
    );
    assert!(times.iter().all(|time| time % SECOND < SECOND / 5));
    assert!((times.len() as f64 / 50.0 / 2000.0 - 1.0).abs() < 0.02, "{}", times.len());
    let times = until(
        schedule(&on_off(20, 60, SpanLaw::Exponential), ArrivalProcess::Fixed, 1000.0, (0, 1)),
        400 * SECOND,
    );
    assert!((times.len() as f64 / 400_000.0 - 1.0).abs() < 0.05, "{}", times.len());
    // At 4000/s while it is on, gaps of more than a ms are those that are off: a quarter of the time it is on.
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let off: Vec<u64> = gaps.filter(|gap| *gap > 1_000_000).collect();
    let share = off.iter().sum::<u64>() as f64 / (400 * SECOND) as f64;
    assert!((share - 0.75).abs() < 0.03, "{share}");
    // Exponential lengths deviate by their mean.
    let mean = off.iter().sum::<u64>() as f64 / off.len() as f64;
    let deviation =
        (off.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>() / off.len() as f64).sqrt();
    assert!((0.9..1.1).contains(&(deviation / mean)), "{deviation} of {mean}");
}

#[test]
fn a_self_similar_rate_has_the_hurst_figure_that_it_is_to_have() {
    const CLASSES: usize = 1 << 15;
    let interval = NanoSpan::from_millis(10);
    let series = |rhythm: &Rhythm, seed: u64| {
        let rate = RequestRate::new(5_000.0).unwrap();
        let arrivals = Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 };
        let start = Nanos::ZERO;
        let mut schedule =
            Schedule::new(&arrivals, (0, 1), seed, start).with_tempo(Tempo::new(rhythm, seed, start));
        let mut counts = vec![0.0; CLASSES];
        while let Some(count) = counts.get_mut((schedule.due().get() / interval.get()) as usize) {
            *count += 1.0;
            schedule.advance();
        }
        counts
    };
    let estimate = |rhythm: &Rhythm| {
        let all: Vec<Vec<f64>> = (0..8).map(|seed| series(rhythm, seed)).collect();
        hurst_by_aggregated_variance(&all, 50.0)
    };
    for hurst in [0.6, 0.75, 0.9] {
        let rhythm = Rhythm {
            self_similar: Some(SelfSimilar { hurst, variation_pct: 40.0, interval }),
            ..Rhythm::default()
        };
        let found = estimate(&rhythm);
        assert!((found - hurst).abs() < 0.05, "{found} instead of {hurst}");
    }
    // What is not: arrivals that know nothing of each other, and bursts of one scale.
    for rhythm in [Rhythm::default(), on_off(20, 20, SpanLaw::Exponential)] {
        let found = estimate(&rhythm);
        assert!((found - 0.5).abs() < 0.07, "{found} instead of 0.5");
    }
}

#[test]
fn the_variation_is_that_which_is_asked_for() {
    let interval = NanoSpan::from_millis(1);
    let law = SelfSimilar { hurst: 0.6, variation_pct: 80.0, interval };
    let mut state = SelfSimilarState::new(law, 3);
    let factors: Vec<f64> = (0..400_000)
        .map(|_| {
            state.next();
            state.factor
        })
        .collect();
    let mean = factors.iter().sum::<f64>() / factors.len() as f64;
    let variance = factors.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / factors.len() as f64;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    assert!((variance.sqrt() / mean - 0.8).abs() < 0.06, "{}", variance.sqrt() / mean);
}

fn any_rhythm() -> impl Strategy<Value = Rhythm> {
    let steps = proptest::collection::vec((100_000u64..50_000_000, 0.0f64..1e3), 0..5);
    let spans = (100_000u64..50_000_000, 100_000u64..50_000_000, any::<bool>());
    let similar = (0.51f64..0.99, 1.0f64..300.0, 100_000u64..10_000_000);
    (steps, proptest::option::of(spans), proptest::option::of(similar)).prop_map(|(steps, spans, similar)| {
        Rhythm {
            steps: steps.into_iter().map(|(span, rate)| (NanoSpan(span), rate + 0.1)).collect(),
            on_off: spans.map(|(on, off, is_fixed)| OnOff {
                on: NanoSpan(on),
                off: NanoSpan(off),
                lengths: if is_fixed { SpanLaw::Fixed } else { SpanLaw::Exponential },
            }),
            self_similar: similar.map(|(hurst, variation_pct, interval)| SelfSimilar {
                hurst,
                variation_pct,
                interval: NanoSpan(interval),
            }),
        }
    })
}

proptest! {
    #[test]
    fn workers_together_have_the_arrivals_of_one(rhythm in any_rhythm(), workers in 2u32..5) {
        let whole = until(schedule(&rhythm, ArrivalProcess::Fixed, 5000.0, (0, 1)), SECOND / 4);
        let mut shared: Vec<u64> = (0..workers)
            .flat_map(|worker| until(schedule(&rhythm, ArrivalProcess::Fixed, 5000.0, (worker, workers)), SECOND / 4))
            .collect();
        shared.sort_unstable();
        prop_assert_eq!(shared, whole);
    }

    #[test]
    fn arrivals_come_in_order_and_both_clocks_agree(rhythm in any_rhythm(), at in 0u64..SECOND) {
        let times = until(schedule(&rhythm, ArrivalProcess::Poisson, 3000.0, (0, 1)), SECOND);
        prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        let before = times.iter().filter(|time| **time < at).count() as u64;
        let fresh = schedule(&rhythm, ArrivalProcess::Poisson, 3000.0, (0, 1));
        prop_assert_eq!(fresh.count_before(Nanos(777 + at)), before);
        if let Some(mut tempo) = Tempo::new(&rhythm, 9, Nanos(777)) {
            let base = tempo.base(Nanos(777 + at));
            let next = tempo.real(base + NanoSpan(1));
            // What falls into a time without arrivals comes after it, as the next nanosecond there does.
            prop_assert!(next.get() + 1 >= 777 + at, "{next:?} of {at}");
        }
    }
}
