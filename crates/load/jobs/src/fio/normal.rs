//! fio's `normal`: the mean of twelve uniform draws over all places, moved by one more draw that is `normal`'s figure wide, in percent
//! of the places (`lib/gauss.c`).

/// Variance of the mean of twelve uniform draws over 100 %.
const VARIANCE_OF_MEAN: f64 = 100.0 * 100.0 / 144.0;

/// The widest last draw: half of all places.
const WIDTH_PCT_MAX: f64 = 50.0;

/// The standard deviation of `normal:WIDTH`, in percent of the places.
pub(super) fn deviation_pct(width_pct: f64) -> f64 {
    let width_pct = width_pct.clamp(0.0, WIDTH_PCT_MAX);
    // So that the file that it is written to is read easily.
    ((VARIANCE_OF_MEAN + width_pct * width_pct / 12.0).sqrt() * 100.0).round() / 100.0
}

/// The figure of `normal` that comes nearest to a standard deviation in percent of the places, and whether it has it.
pub(super) fn width_pct(deviation_pct: f64) -> (f64, bool) {
    let wanted = (12.0 * (deviation_pct * deviation_pct - VARIANCE_OF_MEAN)).max(0.0).sqrt();
    let width_pct = (wanted.min(WIDTH_PCT_MAX) * 1000.0).round() / 1000.0;
    (width_pct, (self::deviation_pct(width_pct) - deviation_pct).abs() < 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_twelve_draws_and_one_more() {
        // 100,000 draws of 4096 places each, as lib/gauss.c makes them.
        for (given, drawn) in [(0.0, 8.33), (10.0, 8.83), (25.0, 11.0), (50.0, 16.65), (80.0, 16.65)] {
            assert!((deviation_pct(given) - drawn).abs() < 0.03, "{given}");
            let (back, is_exact) = width_pct(deviation_pct(given));
            assert!(is_exact && (back - given.min(50.0)).abs() < 0.3, "{given}: {back}");
        }
        assert_eq!(width_pct(25.0), (50.0, false));
        assert_eq!(width_pct(3.0), (0.0, false));
    }
}
