//! Any figure of the runs against any other.
//!
//! The chart is drawn with one pair of axes, which paper and files show. On a page the reader chooses others: the page
//! contains the positions of all points on all axes, and its script moves the existing marks. So there is one chart,
//! drawn once, and no second way to draw it.

use super::charts::Panel;
use crate::chart::{Axis, Chart, Line, Mark, Placed, Point, Scale, plot_box};
use crate::document::AxesChoice;
use crate::figures::{Column, ns_to_ms};
use crate::known::tells_directions;
use crate::matrix::Matrix;
use raidlab_workload::RunResult;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// Factor between the largest and the smallest figure from which on an axis is logarithmic.
const WIDE: f64 = 40.0;

/// A figure that can be on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity(usize);

struct Known {
    name: &'static str,
    title: &'static str,
    is_log: bool,
    of: fn(&RunResult) -> Option<f64>,
}

const fn known(
    name: &'static str,
    title: &'static str,
    is_log: bool,
    of: fn(&RunResult) -> Option<f64>,
) -> Known {
    Known { name, title, is_log, of }
}

/// A latency in milliseconds; none where it was not measured, as in results of other programs.
fn measured(ns: u64) -> Option<f64> {
    (ns > 0).then(|| ns_to_ms(ns))
}

/// A figure of the tables; none where the run does not have it.
fn of_column(column: Column, run: &RunResult) -> Option<f64> {
    column.is_known(run).then(|| column.value(run))
}

const KNOWN: [Known; 15] = [
    known("iodepth", "iodepth", true, |run| Some(f64::from(run.iodepth)).filter(|depth| *depth > 0.0)),
    known("iops", "IOPS", false, |run| of_column(Column::Iops, run)),
    known("mb-per-s", "MB/s", false, |run| of_column(Column::MbPerS, run)),
    known("mean", "mean latency ms", true, |run| of_column(Column::LatMean, run)),
    known("p50", "median latency ms", true, |run| measured(run.ops.total.lat_ns_p50)),
    known("p99", "99th percentile of latency ms", true, |run| measured(run.ops.total.lat_ns_p99)),
    known("p99.9", "99.9th percentile of latency ms", true, |run| measured(run.ops.total.lat_ns_p999)),
    known("max", "longest latency ms", true, |run| measured(run.ops.total.lat_ns_max)),
    known("read-share", "share of reads %", false, |run| {
        (run.ops.total.requests > 0 && tells_directions(run))
            .then(|| 100.0 * run.ops.read.requests as f64 / run.ops.total.requests as f64)
    }),
    known("request-size", "mean request KiB", true, |run| {
        (run.ops.total.iops.0 > 0.0 && run.ops.total.bytes_per_sec.0 > 0.0)
            .then(|| run.ops.total.bytes_per_sec.0 / run.ops.total.iops.0 / 1024.0)
    }),
    known("members", "members", false, |run| run.array.as_ref().map(|array| f64::from(array.members))),
    known("usable", "usable GB", false, |run| {
        run.array.as_ref().map(|array| array.usable_bytes.0 as f64 / 1e9)
    }),
    known("rate", "offered requests/s", true, |run| run.arrivals_per_sec),
    known("cpu", "processor time per request us", true, |run| run.cost.cpu_ns_per_io.map(|ns| ns / 1e3)),
    known("member-ios", "member I/Os per request", false, |run| run.cost.member_ios_per_host_io()),
];

/// What is no figure for an axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no axis; there are {}", Quantity::names())]
pub struct QuantityError {
    /// What was written.
    pub text: String,
}

impl Quantity {
    /// All names, with commas.
    pub fn names() -> String {
        KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ")
    }

    /// The axis for `runs`: logarithmic for what grows by factors, and where the figures differ by large ones.
    fn axis<'a>(self, runs: impl Iterator<Item = &'a &'a RunResult>) -> Axis {
        let Known { title, is_log, .. } = KNOWN[self.0];
        let known = runs.map(|run| self.value(run)).filter(|value| value.is_finite());
        let (low, high) = known.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let is_wide = low > 0.0 && high > WIDE * low;
        Axis { scale: if is_log || is_wide { Scale::Log } else { Scale::FromZero }, ..Axis::new(title) }
    }

    fn value(self, run: &RunResult) -> f64 {
        (KNOWN[self.0].of)(run).unwrap_or(f64::NAN)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let index = KNOWN.iter().position(|known| known.name == text);
        index.map(Self).ok_or_else(|| QuantityError { text: text.to_owned() })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KNOWN[self.0].name)
    }
}

/// The chart of one profile, and what else it may show; `None` for a single run, which is a point.
pub(super) fn of(
    matrix: &Matrix,
    profile: usize,
    axes: Option<(Quantity, Quantity)>,
) -> Option<(Chart, AxesChoice)> {
    let lines = lines(matrix, profile);
    if lines.iter().map(|line| line.runs.len()).sum::<usize>() < 2 {
        return None;
    }
    let rate = if Column::judging(matrix.profiles[profile].metric) == Column::Iops { 1 } else { 2 };
    let shown = axes.unwrap_or((Quantity(rate), Quantity(3)));
    let runs = || lines.iter().flat_map(|line| &line.runs);
    let places = |quantity: Quantity| {
        let axis = quantity.axis(runs());
        let placed = Placed::of(&axis, runs().map(|run| quantity.value(run)), false);
        let of_line = |line: &Drawn| -> Vec<Option<f64>> {
            line.runs
                .iter()
                .map(|run| placed.place(quantity.value(run)).map(|at| (at * 1e4).round() / 1e4))
                .collect()
        };
        let ticks: Vec<Value> =
            placed.ticks.iter().map(|(at, text)| json!([placed.place(*at), text])).collect();
        json!({ "title": axis.title, "ticks": ticks, "places": lines.iter().map(of_line).collect::<Vec<_>>() })
    };
    let is_told = |quantity: &Quantity| runs().any(|run| quantity.value(run).is_finite());
    let quantities =
        (0..KNOWN.len()).map(Quantity).filter(|it| is_told(it) || *it == shown.0 || *it == shown.1);
    let quantities: Vec<(Quantity, Value)> = quantities.map(|it| (it, places(it))).collect();
    let marks = lines.iter().map(|line| Mark::Line(line.mark(shown))).collect();
    let chart = Chart {
        heading: "Any figure against any other".to_owned(),
        label: format!(
            "{}: {} against {}, a line per configuration.",
            matrix.profiles[profile].workload, KNOWN[shown.1.0].title, KNOWN[shown.0.0].title
        ),
        x: shown.0.axis(runs()),
        y: shown.1.axis(runs()),
        marks,
        is_movable: true,
        ..Chart::default()
    };
    let place = |wanted: Quantity| quantities.iter().position(|(it, _)| *it == wanted).unwrap_or(0);
    let places: Vec<&Value> = quantities.iter().map(|(_, places)| places).collect();
    let choice = AxesChoice {
        names: quantities.iter().map(|(quantity, _)| KNOWN[quantity.0].title).collect(),
        shown: [place(shown.0), place(shown.1)],
        places: json!({ "box": plot_box(&chart), "quantities": places }).to_string(),
    };
    Some((chart, choice))
}

/// A line before it has axes.
struct Drawn<'a> {
    like: Line,
    name: String,
    runs: Vec<&'a RunResult>,
}

impl Drawn<'_> {
    fn mark(&self, (x, y): (Quantity, Quantity)) -> Line {
        let point = |run: &&RunResult| Point {
            x: x.value(run),
            y: y.value(run),
            hover: format!(
                "{}\n{}\n{} IOPS, {} MB/s\nmean {} ms, p99 {} ms",
                self.name,
                run.offered_load(),
                Column::Iops.digits(run),
                Column::MbPerS.digits(run),
                Column::LatMean.digits(run),
                Column::LatP99.digits(run)
            ),
            ..Point::default()
        };
        Line { points: self.runs.iter().map(point).collect(), ..self.like.clone() }
    }
}

/// A line for each configuration on each side; those of later sides are faint.
fn lines<'a>(matrix: &'a Matrix<'a>, profile: usize) -> Vec<Drawn<'a>> {
    let mut lines = Vec::new();
    for (side, names) in matrix.sides.iter().enumerate() {
        let panel = Panel { matrix, profile, side };
        for configuration in panel.configurations() {
            let like = panel.line(configuration, Vec::new());
            let like = Line { opacity: if side == 0 { 1.0 } else { 0.55 }, ..like };
            let name = format!("{}, {}", matrix.full_name(configuration), names.name());
            lines.push(Drawn { like, name, runs: matrix.line(profile, configuration, side) });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::study_runs;

    #[test]
    fn every_axis_has_a_place_for_every_run_that_has_its_figure() {
        let runs = study_runs();
        let matrix = Matrix::of(&runs, None);
        let (chart, axes) = of(&matrix, 0, None).expect("there are runs");
        let data: Value = serde_json::from_str(&axes.places).expect("JSON");
        let quantities = data["quantities"].as_array().expect("a list");
        assert_eq!((quantities.len(), axes.shown), (axes.names.len(), [2, 3]));
        let count = runs.iter().filter(|run| run.workload == matrix.profiles[0].workload).count();
        for (quantity, places) in axes.names.iter().zip(quantities) {
            let lines = places["places"].as_array().expect("lines");
            assert_eq!(lines.len(), chart.marks.len());
            let points: Vec<&Value> =
                lines.iter().flat_map(|line| line.as_array().expect("points")).collect();
            assert_eq!(points.len(), count, "{quantity}");
            let is_within =
                |place: &&&Value| place.as_f64().is_some_and(|place| (0.0..=1.0).contains(&place));
            let told = points.iter().filter(is_within).count();
            assert_eq!(told + points.iter().filter(|place| place.is_null()).count(), count, "{quantity}");
            assert!(told > 0, "{quantity} is told by none");
        }
    }

    #[test]
    fn axes_are_named_as_they_are_read() {
        for index in 0..KNOWN.len() {
            let text = Quantity(index).to_string();
            assert_eq!(text.parse(), Ok(Quantity(index)));
        }
        let error = "speed".parse::<Quantity>().unwrap_err().to_string();
        assert!(error.contains("'speed' is no axis") && error.contains("p99.9"), "{error}");
        let runs = study_runs();
        let (chart, _) = of(&Matrix::of(&runs, None), 0, Some((Quantity(0), Quantity(5)))).expect("runs");
        assert_eq!(
            (chart.x.title.as_str(), chart.y.title.as_str()),
            ("iodepth", "99th percentile of latency ms")
        );
        assert!(of(&Matrix::of(&runs[..1], None), 0, None).is_none());
    }
}
