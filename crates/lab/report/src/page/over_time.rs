//! Charts of a run over its window, which show what a mean hides. A line per configuration at the load shown, a
//! point per interval.
//!
//! A last interval shorter than half is left out: its few requests would draw a spike.

use super::charts::Panel;
use crate::chart::{Axis, Chart, Line, Mark, Point};
use crate::figures::{Column, ns_to_ms, three_digits};
use raidlab_workload::{RunResult, RunSeries};

/// Intervals that a line has at least; fewer tell nothing of a course.
const INTERVALS_MIN: usize = 3;

/// A latency of each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatencyOf {
    Mean,
    P99,
    Max,
}

impl LatencyOf {
    fn words(self) -> &'static str {
        match self {
            Self::Mean => "mean latency",
            Self::P99 => "99th percentile of latency",
            Self::Max => "longest latency",
        }
    }

    /// None where the run's intervals do not tell it, as those of other programs need not.
    fn ms(self, series: &RunSeries, interval: usize) -> Option<f64> {
        let columns = &series.total;
        let column = match self {
            Self::Mean => &columns.lat_ns_mean,
            Self::P99 => &columns.lat_ns_p99,
            Self::Max => &columns.lat_ns_max,
        };
        column.get(interval).copied().map(ns_to_ms)
    }
}

/// The intervals of a run that are drawn.
fn drawn(run: &RunResult) -> Option<(&RunSeries, usize)> {
    let series = run.series.as_ref()?;
    let is_stump = series.last_ns * 2 < series.interval_ns;
    let count = series.total.len() - usize::from(is_stump && !series.total.is_empty());
    (count >= INTERVALS_MIN).then_some((series, count))
}

impl Panel<'_> {
    /// The judged figure over the window.
    pub(super) fn rate_over_time(self, column: Column) -> Option<Chart> {
        let value = |series: &RunSeries, interval: usize| {
            let seconds = series.span_ns(interval).max(1) as f64 / 1e9;
            Some(match column {
                Column::MbPerS => series.total.bytes[interval] as f64 / 1e6 / seconds,
                _ => series.total.requests[interval] as f64 / seconds,
            })
        };
        let marks = self.lines_over_time(column.unit(), value);
        let what = format!(
            "Line chart: {} over the window at {}.",
            column.words(),
            self.matrix.load_of(self.profile)
        );
        self.chart((Axis::new("seconds into the window"), Axis::new(column.heading())), marks, &what)
    }

    /// A latency over the window.
    pub(super) fn latency_over_time(self, of: LatencyOf) -> Option<Chart> {
        let marks = self.lines_over_time("ms", |series, interval| of.ms(series, interval));
        let what =
            format!("Line chart: {} over the window at {}.", of.words(), self.matrix.load_of(self.profile));
        self.chart((Axis::new("seconds into the window"), Axis::log("latency ms")), marks, &what)
    }

    /// A line for each configuration with a run that lasted long enough.
    fn lines_over_time(self, unit: &str, value: impl Fn(&RunSeries, usize) -> Option<f64>) -> Vec<Mark> {
        let line = |index: usize| {
            let run = self.matrix.shown(self.profile, index, self.side)?;
            let (series, count) = drawn(run)?;
            let name = self.matrix.full_name(index);
            let points: Vec<Point> = series
                .middles_secs()
                .take(count)
                .enumerate()
                .filter_map(|(interval, at)| {
                    let value = value(series, interval)?;
                    let hover = format!("{name}\n{} {unit}\n{} s", three_digits(value), three_digits(at));
                    Some(Point { x: at, y: value, hover, ..Point::default() })
                })
                .collect();
            (!points.is_empty()).then(|| Mark::Line(Line { marker: None, ..self.line(index, points) }))
        };
        self.configurations().filter_map(line).collect()
    }
}
