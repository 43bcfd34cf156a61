//! From values to positions: the range of the marks, round ticks, and the map from one to the other.

use super::{Axis, Scale};
use crate::figures::{grouped, three_digits};

/// An axis that knows where everything is: values to shares of its length, from 0 to 1.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    is_log: bool,
    low: f64,
    high: f64,
    /// Values within the range, and their names.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Placed {
    /// Places `values` on `axis`; `is_tight` leaves no room beyond the outermost.
    pub(crate) fn of(axis: &Axis, values: impl Iterator<Item = f64>, is_tight: bool) -> Self {
        let is_log = axis.scale == Scale::Log;
        let known = values.filter(|value| value.is_finite() && (!is_log || *value > 0.0));
        let (low, high) = known.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = match axis.range {
            Some(range) => range,
            None if low > high => (if is_log { 1.0 } else { 0.0 }, 10.0),
            None => room(axis.scale, low, high, is_tight),
        };
        let mut placed = Self { is_log, low, high, ticks: Vec::new() };
        let ticks = axis.ticks.clone().unwrap_or_else(|| placed.round_ticks());
        placed.ticks = ticks.into_iter().filter(|(at, _)| placed.holds(*at)).collect();
        placed
    }

    /// The place of `value`, from 0 to 1 where it is within the range; `None` for what has none.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.is_log && value <= 0.0) {
            return None;
        }
        let span = self.through(self.high) - self.through(self.low);
        Some((self.through(value) - self.through(self.low)) / span)
    }

    fn through(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }

    fn holds(&self, value: f64) -> bool {
        self.place(value).is_some_and(|place| (-1e-9..=1.0 + 1e-9).contains(&place))
    }

    fn round_ticks(&self) -> Vec<(f64, String)> {
        let ticks =
            if self.is_log { log_ticks(self.low, self.high) } else { even_ticks(self.low, self.high) };
        ticks.into_iter().map(|tick| (tick, tick_text(tick))).collect()
    }
}

/// A tick in as few digits as it needs.
fn tick_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { grouped(&format!("{value:.0}")) } else { trimmed(value) }
}

fn trimmed(value: f64) -> String {
    let text = three_digits(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The range for values from `low` to `high`.
fn room(scale: Scale, low: f64, high: f64, is_tight: bool) -> (f64, f64) {
    let (before, after) = if is_tight { (0.0, 0.0) } else { (0.04, 0.06) };
    match scale {
        // One value stands in the middle.
        Scale::Log if high <= low && !is_tight => (low / 2.0, low * 2.0),
        Scale::Log => {
            let factor = (high / low).max(1.6);
            (low / factor.powf(before), high * factor.powf(after))
        }
        Scale::FromZero if low >= 0.0 => (0.0, if high > 0.0 { high * (1.0 + after) } else { 1.0 }),
        Scale::FromZero | Scale::Linear => {
            let span = if high > low { high - low } else { low.abs().max(1.0) };
            (low - span * before, high.max(low + if high > low { 0.0 } else { span }) + span * after)
        }
    }
}

/// Some five round values from `low` to `high`.
fn even_ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 5.0;
    if raw <= 0.0 || !raw.is_finite() {
        return Vec::new();
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|it| it * power).find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    // A multiple of a power of ten has rounding errors that would be printed.
    (first..=last).map(|index| (index as f64 * step * 1e12 / power).round() * power / 1e12).collect()
}

/// Ticks of a logarithmic axis from `low` to `high`: 1, 2 and 5 of each power of ten, or the powers alone where that
/// would be too many; even ones where it would be too few. None when there is nothing to show.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    if low > high {
        return Vec::new();
    }
    if high / low < 5.0 {
        return even_ticks(low, high);
    }
    let steps: &[f64] = if high / low > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last)
        .flat_map(|power| {
            steps
                .iter()
                .map(move |step| if power < 0 { step / 10f64.powi(-power) } else { step * 10f64.powi(power) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Axis, Placed, Scale, even_ticks, log_ticks};

    #[test]
    fn log_ticks_enclose_the_values_and_are_few() {
        assert_eq!(log_ticks(0.12, 3.0), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(0.004, 30.0), [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(log_ticks(f64::MAX, 0.0), [0.0; 0]);
        for (low, high) in [(0.7, 99.0), (3.0, 15.1), (1.0, 1e5)] {
            let ticks = log_ticks(low, high);
            assert!(ticks[0] <= low && ticks[ticks.len() - 1] >= high, "{low} to {high}: {ticks:?}");
            assert!(ticks.len() <= 12, "{low} to {high}: {ticks:?}");
        }
    }

    #[test]
    fn a_short_logarithmic_axis_has_even_ticks_within() {
        assert_eq!(log_ticks(28.0, 75.0), [30.0, 40.0, 50.0, 60.0, 70.0]);
        assert_eq!(log_ticks(3.0, 3.0), [0.0; 0]);
    }

    #[test]
    fn even_ticks_are_round_and_within() {
        assert_eq!(even_ticks(0.0, 10.6), [0.0, 2.5, 5.0, 7.5, 10.0]);
        assert_eq!(even_ticks(0.0, 0.3), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(even_ticks(-25.0, 25.0), [-20.0, -10.0, 0.0, 10.0, 20.0]);
        assert_eq!(even_ticks(3.0, 3.0), [0.0; 0]);
    }

    #[test]
    fn every_value_has_its_place_and_one_value_has_room() {
        for scale in [Scale::FromZero, Scale::Linear, Scale::Log] {
            for values in [&[5.0][..], &[0.2, 7.0], &[3.0, 3.0], &[1e-6, 1e6]] {
                let axis = Axis { scale, ..Axis::new("") };
                let placed = Placed::of(&axis, values.iter().copied(), false);
                for value in values {
                    let place = placed.place(*value).expect("it has one");
                    assert!((0.0..=1.0).contains(&place), "{scale:?} {values:?}: {place}");
                }
            }
        }
        let log = Placed::of(&Axis::log(""), [0.0, 1.0, 100.0].into_iter(), true);
        assert_eq!((log.place(0.0), log.place(10.0), log.place(f64::NAN)), (None, Some(0.5), None));
        let empty = Placed::of(&Axis::new(""), std::iter::empty(), false);
        assert_eq!(empty.place(5.0), Some(0.5));
    }
}
