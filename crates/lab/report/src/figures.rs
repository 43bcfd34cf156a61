//! Numbers for people: three significant digits, and the columns that every table has in common.

use crate::known::has_moved;
use raidlab_units::ByteCount;
pub use raidlab_units::three_digits;
use raidlab_workload::{ArrayFacts, Metric, OfferedLoad, OpSummary, RangeFacts, RunResult};

/// Prints `value` with three significant digits and a suffix for thousands (`12.3k`) and millions (`1.23M`).
pub(crate) fn short_digits(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}M", three_digits(v / 1e6)),
        v if v >= 9_995.0 => format!("{}k", three_digits(v / 1e3)),
        v => three_digits(v),
    }
}

/// How far estimated figures let a run go, from the slower to the faster end, and whose they are.
pub(crate) fn range_text(facts: &RangeFacts) -> String {
    let parts: Vec<String> =
        facts.estimated.iter().map(|(part, keys)| format!("{} of {part}", keys.len())).collect();
    let parts = parts.join(", ");
    let (Some(slower), Some(faster)) = (&facts.slower, &facts.faster) else {
        return match parts.as_str() {
            "" => "none: no figure of the array is estimated".to_owned(),
            _ => format!("none: no estimated figure of the array has one ({parts})"),
        };
    };
    let from_to = |name: &str, figure: &dyn Fn(&OpSummary) -> f64| {
        format!("{name} {} to {}", three_digits(figure(slower)), three_digits(figure(faster)))
    };
    let figures = [
        from_to("IOPS", &|it| it.iops.0),
        from_to("MB/s", &|it| it.bytes_per_sec.mb_per_s()),
        from_to("lat ms mean", &|it| it.lat_ns_mean / 1e6),
        from_to("p99", &|it| ns_to_ms(it.lat_ns_p99)),
    ];
    format!("{}; with all estimated figures at one end: {parts}", figures.join(", "))
}

/// Puts narrow no-break spaces between the thousands of a whole number of five digits or more.
pub(crate) fn grouped(digits: &str) -> String {
    if digits.len() < 5 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.to_owned();
    }
    let mut text = String::with_capacity(digits.len() + 6);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Prints a size in decimal units, as drives count.
pub(crate) fn capacity(bytes: ByteCount) -> String {
    bytes.decimal().to_string()
}

/// Bytes in decimal units.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut value = bytes;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if bytes > 0.0 && bytes < 0.01 {
        format!("{bytes:.1e} B")
    } else {
        format!("{} {}", three_digits(value), UNITS[unit])
    }
}

/// Prints how many failures an array survives, always and at best; `dash` stands between the two.
pub(crate) fn survives(facts: &ArrayFacts, dash: &str) -> String {
    let (always, at_best) = (facts.failures_survived_always, facts.failures_survived_at_best);
    if always == at_best { always.to_string() } else { format!("{always}{dash}{at_best}") }
}

/// A figure that tables show of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Iops,
    MbPerS,
    LatMean,
    LatP99,
}

impl Column {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Self; 4] = [Self::Iops, Self::MbPerS, Self::LatMean, Self::LatP99];

    /// The column by which a profile is judged.
    pub(crate) fn judging(metric: Metric) -> Self {
        match metric {
            Metric::Iops => Self::Iops,
            Metric::MbPerS => Self::MbPerS,
        }
    }

    /// What stands above the column, unit included.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
            Self::LatMean => "mean ms",
            Self::LatP99 => "p99 ms",
        }
    }

    /// The same as words in a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Iops => "throughput in IOPS",
            Self::MbPerS => "throughput in MB/s",
            Self::LatMean => "mean latency in ms",
            Self::LatP99 => "p99 latency in ms",
        }
    }

    /// The unit alone.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
            Self::LatMean | Self::LatP99 => "ms",
        }
    }

    /// Whether more is better.
    pub(crate) fn higher_is_better(self) -> bool {
        matches!(self, Self::Iops | Self::MbPerS)
    }

    /// The figure of `run` in the column's unit; reads and writes together.
    pub(crate) fn value(self, run: &RunResult) -> f64 {
        match self {
            Self::Iops => run.ops.total.iops.0,
            Self::MbPerS => run.ops.total.bytes_per_sec.mb_per_s(),
            Self::LatMean => run.ops.total.lat_ns_mean / 1e6,
            Self::LatP99 => ns_to_ms(run.ops.total.lat_ns_p99),
        }
    }
}

impl Column {
    /// Whether `run` has the figure: results of other programs need not have percentiles.
    pub(crate) fn is_known(self, run: &RunResult) -> bool {
        self.value(run) > 0.0 || !has_moved(&run.ops.total)
    }

    /// The figure, or a dash where the run does not have it.
    pub(crate) fn digits(self, run: &RunResult) -> String {
        if self.is_known(run) { three_digits(self.value(run)) } else { "-".to_owned() }
    }
}

/// What tells loads apart, for heads of columns and axes.
pub(crate) fn loads_name(loads: impl IntoIterator<Item = OfferedLoad>) -> &'static str {
    let mut names = loads.into_iter().map(OfferedLoad::name);
    let first = names.next().unwrap_or("iodepth");
    if names.all(|name| name == first) { first } else { "load" }
}

/// Nanoseconds as milliseconds.
pub(crate) fn ns_to_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A figure of `summary` as text; a dash where there were requests and this is zero: it is not known, as in results of other programs.
pub(crate) fn known_text(summary: &OpSummary, figure: f64) -> String {
    if figure == 0.0 && has_moved(summary) { "-".to_owned() } else { three_digits(figure) }
}

/// The same of a latency, in milliseconds.
pub(crate) fn latency_text(summary: &OpSummary, ns: u64) -> String {
    known_text(summary, ns_to_ms(ns))
}

/// The same of a percentile of which one request in `one_in` is above; a dash where there are fewer, and it is but the longest.
pub(crate) fn tail_text(summary: &OpSummary, ns: u64, one_in: u64) -> String {
    if summary.requests < one_in { "-".to_owned() } else { latency_text(summary, ns) }
}

/// Requests above the percentiles 99.99 and 99.999 are one in so many.
pub(crate) const ONE_IN: [u64; 2] = [10_000, 100_000];

/// A number that was run, for the tables of pages and of the terminal.
pub(crate) fn fed_cells(point: &raidlab_worlds::FedPoint) -> Vec<String> {
    vec![
        point.accelerators.to_string(),
        format!("{:.1}", point.au_pct),
        three_digits(point.mb_per_s),
        three_digits(point.samples_per_s),
        if point.keeps { "kept" } else { "missed" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::{grouped, short_digits};

    #[test]
    fn short_digits_have_a_suffix() {
        for (value, text) in
            [(9_990.0, "9990"), (9_999.0, "10.0k"), (123_456.0, "123k"), (999_900.0, "1.00M")]
        {
            assert_eq!(short_digits(value), text, "{value}");
        }
    }

    #[test]
    fn thousands_stand_apart() {
        for (digits, text) in [
            ("1234", "1234"),
            ("12300", "12\u{202f}300"),
            ("1230000", "1\u{202f}230\u{202f}000"),
            ("0.00123", "0.00123"),
        ] {
            assert_eq!(grouped(digits), text);
        }
    }
}
