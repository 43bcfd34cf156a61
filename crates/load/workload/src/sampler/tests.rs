//! Draws against their definitions: exact shares of every place or class, compared by chi square with fixed seeds.

use super::*;
use crate::places::{HitRate, Zone};
use crate::rng::Rng;
use proptest::prelude::*;

fn places(distribution: Distribution) -> Places {
    Places { distribution, ..Places::default() }
}

fn counts(places: &Places, count: u64, draws: u64, seed: u64) -> Vec<u64> {
    let mut sampler = Sampler::new(places, count, 99).unwrap();
    let mut rng = Rng::new(seed);
    let mut counts = vec![0; count as usize];
    for _ in 0..draws {
        counts[sampler.draw(&mut rng) as usize] += 1;
    }
    counts
}

/// Chi square of `counts` against `shares`, with classes put together until each expects ten; and the value that one in a
/// few thousand exceeds.
fn chi_square(counts: &[u64], shares: &[f64]) -> (f64, f64) {
    let draws = counts.iter().sum::<u64>() as f64;
    let (mut chi2, mut classes) = (0.0, 0u32);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (index, (count, share)) in counts.iter().zip(shares).enumerate() {
        seen += *count as f64;
        expected += share * draws;
        if expected >= 10.0 || index + 1 == counts.len() {
            if expected > 0.0 {
                chi2 += (seen - expected).powi(2) / expected;
                classes += 1;
            } else {
                assert_eq!(seen, 0.0, "a place that can't be drawn was");
            }
            (seen, expected) = (0.0, 0.0);
        }
    }
    let degrees = f64::from(classes.max(2) - 1);
    (chi2, degrees + 4.0 * (2.0 * degrees).sqrt() + 6.0)
}

#[track_caller]
fn check(distribution: &Distribution, shares: &[f64]) {
    let total: f64 = shares.iter().sum();
    assert!((total - 1.0).abs() < 1e-9, "the oracle's shares add up to {total}");
    let counts = counts(&places(distribution.clone()), shares.len() as u64, 300_000, 5);
    let (chi2, limit) = chi_square(&counts, shares);
    assert!(chi2 < limit, "{distribution}: chi square {chi2} above {limit}");
}

#[test]
fn zipf_has_the_share_of_its_definition_at_every_place() {
    for theta in [0.2, 0.5, 0.99, 1.0, 1.000_000_01, 1.2, 2.5, 8.0] {
        for count in [1usize, 2, 3, 10, 1000] {
            let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-theta)).collect();
            let total: f64 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
            check(&Distribution::Zipf { theta }, &shares);
        }
    }
}

#[test]
fn zipf_over_billions_of_places_has_the_shares_of_its_head_and_its_decades() {
    let (theta, count, draws) = (0.99, 4_000_000_000u64, 200_000u32);
    let zipf = Zipf::new(theta, count);
    let mut rng = Rng::new(17);
    let mut classes = vec![0u64; 20];
    let ends: Vec<u64> = (1..=10).chain((2..=9).map(|power| 10u64.pow(power))).chain([count]).collect();
    for _ in 0..draws {
        let rank = zipf.draw(&mut rng);
        classes[ends.iter().position(|end| rank < *end).unwrap()] += 1;
    }
    // Sums of 1/k^theta: one by one up to a million, beyond that by the midpoint rule, which is exact to 1e-12 there.
    let integral = |from: f64, to: f64| (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let sum_to = |end: u64| {
        let head: f64 = (1..=end.min(1_000_000)).map(|rank| (rank as f64).powf(-theta)).sum();
        let tail = if end > 1_000_000 { integral(1_000_000.5, end as f64 + 0.5) } else { 0.0 };
        head + tail
    };
    let total = sum_to(count);
    let sums: Vec<f64> = ends.iter().map(|end| sum_to(*end) / total).collect();
    let shares: Vec<f64> =
        sums.iter().scan(0.0, |before, sum| Some(sum - std::mem::replace(before, *sum))).collect();
    let (chi2, limit) = chi_square(&classes[..shares.len()], &shares);
    assert!(chi2 < limit, "chi square {chi2} above {limit}: {classes:?}");
}

#[test]
fn pareto_gives_the_first_h_of_the_places_the_rest_of_the_accesses() {
    for h in [0.05f64, 0.2, 0.4] {
        let exponent = (1.0 - h).ln() / h.ln();
        let share_until = |end: usize, count: usize| (end as f64 / count as f64).powf(exponent);
        for count in [10usize, 1000] {
            let shares: Vec<f64> =
                (0..count).map(|at| share_until(at + 1, count) - share_until(at, count)).collect();
            check(&Distribution::Pareto { h }, &shares);
        }
        assert!((share_until(1000, 5000) - 0.8).abs() < 1e-12 || h != 0.2, "80 to 20");
    }
}

#[test]
fn zones_get_their_accesses_and_are_even_inside() {
    let zone = |accesses_pct, space_pct| Zone { accesses_pct, space_pct };
    let hot_spot = vec![zone(90.0, 10.0), zone(10.0, 90.0)];
    let three = vec![zone(60.0, 10.0), zone(0.0, 70.0), zone(40.0, 20.0)];
    for zones in [hot_spot, three] {
        let mut shares = Vec::new();
        for zone in &zones {
            let count = (zone.space_pct * 10.0) as usize;
            shares.extend(std::iter::repeat_n(zone.accesses_pct / 100.0 / count as f64, count));
        }
        check(&Distribution::Zones(zones), &shares);
    }
}

fn table(rows: &[(f64, f64)]) -> Distribution {
    Distribution::HitRates(
        rows.iter().map(|&(cache_pct, hits_pct)| HitRate { cache_pct, hits_pct }).collect(),
    )
}

#[test]
fn a_table_of_hit_rates_is_what_caches_of_the_hottest_places_hit() {
    let rows = [(1.0, 30.0), (10.0, 62.0), (40.0, 85.0), (100.0, 100.0)];
    let (count, draws) = (2000, 400_000);
    for scrambled in [false, true] {
        let places = Places { scrambled, ..places(table(&rows)) };
        let mut counts = counts(&places, count, draws, 12);
        if scrambled {
            assert!(counts[..20].iter().sum::<u64>() < draws / 10, "the hottest lie elsewhere");
            // Counts of two rows differ by far more than chance.
            counts.sort_unstable_by(|one, other| other.cmp(one));
        }
        for (cache_pct, hits_pct) in rows {
            let hits: u64 = counts[..(count as f64 * cache_pct / 100.0) as usize].iter().sum();
            let off = hits as f64 / draws as f64 - hits_pct / 100.0;
            assert!(off.abs() < 0.004, "{cache_pct} % hit {off} more than {hits_pct} %");
        }
    }
    let shares = |at: usize| match at {
        0..20 => 0.30 / 20.0,
        20..200 => 0.32 / 180.0,
        200..800 => 0.23 / 600.0,
        _ => 0.15 / 1200.0,
    };
    check(&table(&rows), &(0..2000).map(shares).collect::<Vec<f64>>());
    check(&table(&[(50.0, 100.0), (100.0, 100.0)]), &[0.5, 0.5, 0.0, 0.0]);
    check(&table(&[(100.0, 100.0)]), &[0.1; 10]);
}

#[test]
fn normal_is_a_bell_cut_off_at_the_working_set() {
    for (mean_pct, deviation_pct) in [(50.0, 10.0), (0.0, 20.0), (90.0, 40.0)] {
        let count = 500;
        // The bell at many points inside each place, by the midpoint rule.
        let weight = |place: usize| {
            let points = (0..20).map(|point| place as f64 + (f64::from(point) + 0.5) / 20.0);
            let scaled = points.map(|x| (x / 5.0 - mean_pct) / deviation_pct);
            scaled.map(|z: f64| (-z * z / 2.0).exp()).sum::<f64>()
        };
        let weights: Vec<f64> = (0..count).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        check(&Distribution::Normal { mean_pct, deviation_pct }, &shares);
    }
}

#[test]
fn a_shuffle_takes_every_place_once_and_every_round_in_another_order() {
    let mut sampler = Sampler::new(&places(Distribution::Shuffle), 1000, 3).unwrap();
    let mut rng = Rng::new(1);
    let mut round = || -> Vec<u64> { (0..1000).map(|_| sampler.draw(&mut rng)).collect() };
    let (first, second) = (round(), round());
    assert_ne!(first, second);
    for mut order in [first, second] {
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
    }
}

/// Samples of `UNet3D`, cut at zero, were 1.9 % longer on average than was said.
#[test]
fn what_is_cut_at_zero_keeps_the_mean_that_was_asked_for() {
    for (mean, deviation) in [(146_600_628.0, 68_341_808.0), (1000.0, 1.0), (1e6, 1e6), (4096.0, 0.0)] {
        let (law, mut rng) = (PositiveNormal::new(mean, deviation), Rng::new(11));
        let draws = 400_000;
        let sum: f64 = (0..draws).map(|_| law.draw(&mut rng) as f64 + 0.5).sum();
        let off = sum / f64::from(draws) / mean - 1.0;
        assert!(off.abs() < 0.003, "{mean} +- {deviation}: {off}");
    }
}

#[test]
fn scrambling_moves_the_places_and_keeps_their_shares() {
    let plain = places(Distribution::Zipf { theta: 1.1 });
    let scrambled = Places { scrambled: true, ..plain.clone() };
    let (mut plain, mut scrambled) = (counts(&plain, 1000, 50_000, 7), counts(&scrambled, 1000, 50_000, 7));
    assert!(plain[0] > plain[1] && plain[1] > plain[5]);
    let hot = scrambled.iter().filter(|&&count| count > plain[5]).count();
    assert!(hot <= 5 && scrambled[..5] != plain[..5], "the favourites are elsewhere, and not more");
    plain.sort_unstable();
    scrambled.sort_unstable();
    assert_eq!(plain, scrambled, "one place for each rank");
}

proptest! {
    #[test]
    fn every_draw_is_below_the_count(
        count in prop_oneof![1u64..20, 1u64..1 << 40, (1u64 << 54)..(1 << 55)],
        seed in any::<u64>(),
        theta in 0.01f64..20.0,
        h in 0.001f64..0.499,
        mean_pct in 0.0f64..=100.0,
        deviation_pct in 0.001f64..100.0,
        hot in 0.0f64..=100.0,
        scrambled in any::<bool>(),
    ) {
        let zones = vec![
            Zone { accesses_pct: hot, space_pct: 0.01 },
            Zone { accesses_pct: 100.0 - hot, space_pct: 99.99 },
        ];
        for distribution in [
            Distribution::Zipf { theta },
            Distribution::Pareto { h },
            Distribution::Zones(zones),
            table(&[(0.01, hot.max(0.01)), (100.0, 100.0)]),
            Distribution::Normal { mean_pct, deviation_pct },
            Distribution::Shuffle,
        ] {
            let places = Places { scrambled, ..places(distribution) };
            prop_assert_eq!(places.complaint(), None);
            let mut sampler = Sampler::new(&places, count, seed).unwrap();
            let mut rng = Rng::new(seed);
            for _ in 0..50 {
                prop_assert!(sampler.draw(&mut rng) < count, "{}", places);
            }
        }
    }
}
