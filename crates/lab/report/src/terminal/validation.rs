//! A drive model compared with the drive: means, the demerit figure, and both distributions of response times.
//!
//! ```text
//! 100 %                          ####===      # both, = measured only, + predicted only
//!  90 %                    =+####
//!   ..
//!       0                              40 ms
//! ```

use super::{TerminalOptions, heading, table};
use crate::figures::three_digits;
use raidlab_units::NanoSpan;

/// Heights of the chart, in steps of 5 %.
const ROWS: usize = 20;
/// Columns of the chart at most.
const COLUMNS_MAX: usize = 72;

/// What a validation found.
#[derive(Clone, Copy, Debug)]
pub struct DriveValidation<'a> {
    /// Name of the drive.
    pub disk: &'a str,
    /// Measured response times; there is at least one.
    pub measured: &'a [NanoSpan],
    /// Predicted ones, as many.
    pub predicted: &'a [NanoSpan],
    /// The demerit figure in percent of the mean measured response.
    pub demerit_pct: f64,
}

impl DriveValidation<'_> {
    /// Mean measured response time in milliseconds.
    pub fn mean_measured_ms(&self) -> f64 {
        mean_ms(self.measured)
    }

    /// Mean predicted response time in milliseconds.
    pub fn mean_predicted_ms(&self) -> f64 {
        mean_ms(self.predicted)
    }
}

fn mean_ms(spans: &[NanoSpan]) -> f64 {
    spans.iter().map(|span| span.as_millis_f64()).sum::<f64>() / spans.len() as f64
}

/// Prints a validation: the figures, percentiles side by side, and the chart.
pub fn drive_validation(validation: &DriveValidation<'_>, options: TerminalOptions) -> String {
    let (measured, predicted) = (sorted_ms(validation.measured), sorted_ms(validation.predicted));
    let head =
        heading(&format!("{}: {} measured requests", validation.disk, validation.measured.len()), options);
    let figures = format!(
        "mean measured:   {:.3} ms\nmean predicted:  {:.3} ms\ndemerit:         {:.2} % of the mean measured\n",
        validation.mean_measured_ms(),
        validation.mean_predicted_ms(),
        validation.demerit_pct
    );
    let table = percentiles(&measured, &predicted, options);
    let columns = COLUMNS_MAX.min(usize::from(options.width).saturating_sub(8)).max(20);
    format!("{head}\n{figures}\n{table}\n{}", chart(&measured, &predicted, columns))
}

fn sorted_ms(spans: &[NanoSpan]) -> Vec<f64> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().map(NanoSpan::as_millis_f64).collect()
}

/// The value of which `share` of `sorted` is no more.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn percentiles(measured: &[f64], predicted: &[f64], options: TerminalOptions) -> String {
    let row = |pct: f64| {
        let (a, b) = (quantile(measured, pct / 100.0), quantile(predicted, pct / 100.0));
        vec![format!("{pct} %"), three_digits(a), three_digits(b), format!("{:+.2}", b - a)]
    };
    let rows = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9].map(row).to_vec();
    table(&["Within", "Measured ms", "Predicted ms", "Difference"], 1, vec![rows], options)
}

/// Both cumulative distributions, up to what all but a thousandth of the requests stay within.
fn chart(measured: &[f64], predicted: &[f64], columns: usize) -> String {
    let right = quantile(measured, 0.999).max(quantile(predicted, 0.999)).max(f64::MIN_POSITIVE);
    let height = |sorted: &[f64], column: usize| {
        let ms = right * (column as f64 + 0.5) / columns as f64;
        sorted.partition_point(|value| *value <= ms) as f64 / sorted.len() as f64
    };
    let heights: Vec<(f64, f64)> =
        (0..columns).map(|column| (height(measured, column), height(predicted, column))).collect();
    let mut text =
        String::from("Requests within a response time: # both, = measured only, + predicted only\n");
    for row in (0..ROWS).rev() {
        let floor = (row as f64 + 0.5) / ROWS as f64;
        let line: String = heights
            .iter()
            .map(|(measured, predicted)| match (*measured >= floor, *predicted >= floor) {
                (true, true) => '#',
                (true, false) => '=',
                (false, true) => '+',
                (false, false) => ' ',
            })
            .collect();
        text += &format!("{:>4} % {}\n", (row + 1) * 100 / ROWS, line.trim_end());
    }
    let end = format!("{} ms", three_digits(right));
    text += &format!("       0{end:>0$}\n", columns - 1);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_both_curves_are_shown() {
        let spans = |ms: &[u64]| ms.iter().map(|ms| NanoSpan::from_millis(*ms)).collect::<Vec<_>>();
        let (measured, predicted) = (spans(&[10, 20, 30, 40]), spans(&[40, 20, 10, 10]));
        let validation = DriveValidation {
            disk: "dr\u{1b}ive",
            measured: &measured,
            predicted: &predicted,
            demerit_pct: 4.5,
        };
        let text = drive_validation(&validation, TerminalOptions { width: 60, colour: false });
        assert!(text.starts_with("dr\u{fffd}ive: 4 measured requests\n"), "{text}");
        assert!(text.contains("mean measured:   25.000 ms\nmean predicted:  20.000 ms\n"), "{text}");
        assert!(text.contains("4.50 %"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("  50 %") && line.contains("+#")), "{text}");
        assert!(
            !text.contains('='.to_string().repeat(2).as_str()),
            "never is less predicted within a time: {text}"
        );
        assert!(text.ends_with("40.0 ms\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
