//! The translation layer against closed forms and mean-field results, and a scaled one against a full one.
//!
//! | oracle | what it gives | source |
//! |---|---|---|
//! | `a / (a + W(-a exp(-a)))` | greedy, uniform writes, large superblocks | Desnoyers, ACM TOS 10(2), 2014 |
//! | fixed point of the mean-field equations | d choices, uniform writes, any superblock | Van Houdt, SIGMETRICS 2013 |
//! | the same with two classes of units | d choices, hot and cold writes into one stream | Van Houdt, Performance Evaluation 70, 2013 |
//!
//! Not verified here: that real drives do any of this.

mod mean_field;

use self::mean_field::mean_field;
use super::random::Draw;
use super::translation::{Geometry, Shape, Translation};
use super::victim::Collection;

/// What is written: `share` of the writes to the first `hot` of the units, the rest to the others.
#[derive(Clone, Copy)]
struct Skew {
    hot: f64,
    share: f64,
}

const UNIFORM: Skew = Skew { hot: 1.0, share: 1.0 };

/// A drive with `spare` of its capacity as spare room.
fn shape(superblocks: u16, superblock_units: u64, spare: f64, collection: Collection) -> Shape {
    let units = (u64::from(superblocks) * superblock_units) as f64 / (1.0 + spare);
    let geometry =
        Geometry { units: units as u64, spare, superblock_units, collection, separates_moved: false };
    let shape = geometry.shape_in(0, 1e4);
    // Small superblocks keep their size; their number makes up for it.
    Shape { superblock_units, ..shape }
}

/// Write amplification in the steady state of a small drive.
fn simulated(shape: Shape, skew: Skew) -> f64 {
    amplification(shape, skew, (6, 4))
}

/// The same after the capacity was written so many times, measured over so many more.
fn amplification(shape: Shape, skew: Skew, (before, measured): (u64, u64)) -> f64 {
    let mut translation = Translation::new(shape, 5);
    let mut draw = Draw::new(9);
    let hot = (shape.units as f64 * skew.hot) as u64;
    for unit in 0..shape.units {
        translation.write(unit);
    }
    let mut write = |translation: &mut Translation, count: u64| {
        for _ in 0..count {
            let is_hot = hot == shape.units || (draw.below(1 << 20) as f64) < skew.share * f64::from(1 << 20);
            let unit = if is_hot { draw.below(hot) } else { hot + draw.below(shape.units - hot) };
            translation.write(unit);
        }
    };
    write(&mut translation, shape.units * before);
    translation.start_counting();
    write(&mut translation, shape.units * measured);
    translation.written().amplification()
}

/// `W` on its principal branch, by Newton's method.
fn lambert_w(x: f64) -> f64 {
    let mut w = 0.0;
    for _ in 0..200 {
        let e = f64::exp(w);
        w -= (w * e - x) / (e * (w + 1.0) + 1e-300);
    }
    w
}

/// Write amplification of greedy collection under uniform writes; `ratio` is all room over the capacity.
fn greedy_closed_form(ratio: f64) -> f64 {
    ratio / (ratio + lambert_w(-ratio * (-ratio).exp()))
}

#[track_caller]
fn assert_within_3_pct(got: f64, expected: f64, what: &str) {
    assert!((got / expected - 1.0).abs() < 0.03, "{what}: {got:.3}, not {expected:.3}");
}

#[test]
fn greedy_collection_is_as_the_closed_form_says() {
    for spare in [0.07, 0.14, 0.28, 0.5] {
        let collection = Collection::Greedy;
        let geometry =
            Geometry { units: 1 << 18, spare, superblock_units: 1024, collection, separates_moved: false };
        let got = simulated(geometry.shape_in(0, 1e4), UNIFORM);
        assert_within_3_pct(got, greedy_closed_form(1.0 + spare), &format!("greedy, {spare} to spare"));
    }
}

#[test]
fn d_choices_are_as_the_mean_field_says() {
    for (choices, size, spare) in [(1, 16, 0.25), (2, 16, 0.25), (5, 32, 0.15), (10, 32, 0.3), (10, 16, 0.1)]
    {
        let got = simulated(shape(2000, size, spare, Collection::Choices(choices)), UNIFORM);
        let expected = mean_field(size as usize, 1.0 + spare, choices.cast_signed(), UNIFORM);
        assert_within_3_pct(got, expected, &format!("{choices} choices of {size} units, {spare} to spare"));
    }
}

#[test]
fn hot_and_cold_writes_are_as_the_mean_field_says() {
    for (hot, share, choices) in [(0.2, 0.8, 2), (0.1, 0.9, 10), (0.5, 0.7, 5)] {
        let skew = Skew { hot, share };
        let got = simulated(shape(2000, 16, 0.2, Collection::Choices(choices)), skew);
        let expected = mean_field(16, 1.2, choices.cast_signed(), skew);
        assert_within_3_pct(got, expected, &format!("{hot} of the units get {share} of the writes"));
    }
}

/// Uniform writes, hot and cold ones, on a drive that is small enough to be followed unit by unit.
#[test]
fn a_scaled_layer_amplifies_as_a_full_one_does() {
    let rows = [
        (UNIFORM, 0.12, false),
        (Skew { hot: 0.2, share: 0.8 }, 0.15, false),
        (Skew { hot: 0.2, share: 0.8 }, 0.15, true),
        (Skew { hot: 0.01, share: 0.5 }, 0.2, true),
    ];
    for (skew, spare, separates_moved) in rows {
        let (units, collection) = (1 << 20, Collection::Greedy);
        let geometry = Geometry { units, spare, superblock_units: 4096, collection, separates_moved };
        let (full, scaled) = (geometry.shape_in(0, 1e4), geometry.shape_in(2, 150.0));
        let (got, expected) = (amplification(scaled, skew, (3, 2)), amplification(full, skew, (3, 2)));
        let what = format!("{spare} to spare, {} of the writes to {} of the units", skew.share, skew.hot);
        assert_within_3_pct(got, expected, &what);
    }
}

#[test]
fn a_large_drive_takes_little_memory() {
    let units = 7_680_000_000_000 / 4096;
    let superblock_units = 128 * 4 * (24 << 20) / 4096;
    let collection = Collection::Greedy;
    let geometry = Geometry { units, spare: 0.1, superblock_units, collection, separates_moved: true };
    let mut translation = Translation::new(geometry.shape(), 1);
    let mut draw = Draw::new(2);
    for _ in 0..4 * translation.groups() {
        let group = draw.below(u64::from(translation.groups())) as u32;
        translation.write_group(group);
    }
    assert!(translation.bytes() < 8 << 20, "{} bytes", translation.bytes());
    let amplification = translation.written().amplification();
    assert!(amplification > 2.0, "it is full: {amplification}");
}
