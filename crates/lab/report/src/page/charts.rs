//! The charts of a study: a figure over the load, bars at one of them, and the distribution of latency.
//!
//! A chart is one panel: one profile on one side. Colour and marker encode the level, dash and hollow markers the write
//! policy, so that lines can also be told apart without colour.

use crate::chart::{Axis, Bar, Chart, Colour, Line, Mark, Marker, Point, Scale};
use crate::figures::{Column, grouped, ns_to_ms, short_digits, three_digits};
use crate::matrix::{Configuration, Matrix};
use raidlab_workload::{OfferedLoad, RunResult};

/// One profile on one side.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub(super) matrix: &'a Matrix<'a>,
    pub(super) profile: usize,
    pub(super) side: usize,
}

/// How the line of a configuration looks.
pub(super) struct LineStyle {
    /// Index of colour and marker; `None` for storage without an array.
    pub(super) level: Option<usize>,
    /// Index of dash.
    pub(super) policy: usize,
}

impl LineStyle {
    pub(super) fn of(matrix: &Matrix, configuration: usize) -> Self {
        let (name, policy) = matrix.name(configuration);
        let level = matrix.level_names().iter().position(|level| *level == name);
        let policy = matrix.policies().iter().position(|known| Some(*known) == policy);
        let is_array = matrix.configurations[configuration].is_array();
        Self { level: level.filter(|_| is_array), policy: policy.unwrap_or(0) }
    }

    /// The colour.
    pub(super) fn colour(&self) -> Colour {
        self.level.map_or(Colour::Soft, Colour::Series)
    }

    /// The number of its dash.
    pub(super) fn dash(&self) -> usize {
        if self.level.is_none() { 2 } else { self.policy }
    }

    /// The marker.
    pub(super) fn marker(&self) -> Marker {
        let shape = self.level.map(|level| level % crate::chart::MARKERS);
        Marker { shape, is_hollow: self.policy > 0, ..Marker::number(0) }
    }
}

impl<'a> Panel<'a> {
    /// A figure over the load, a line per configuration; `None` when there is no run to show.
    pub(super) fn over_load(self, column: Column) -> Option<Chart> {
        let line = |index: usize| {
            let point = |run: &&RunResult| Point {
                x: run.offered_load().value(),
                y: column.value(run),
                hover: self.load_hover(index, run, column),
                ..Point::default()
            };
            let runs = self.matrix.line(self.profile, index, self.side);
            self.line(index, runs.iter().map(point).collect())
        };
        let marks = self.configurations().map(|index| Mark::Line(line(index))).collect();
        let (loads, load_name) = (&self.matrix.loads_of(self.profile), self.matrix.load_name(self.profile));
        let scale = if column.higher_is_better() { Scale::FromZero } else { Scale::Log };
        let x = Axis::log(load_name)
            .with_ticks(loads.iter().map(|load| (load.value(), load.value().to_string())));
        let y = Axis { scale, ..Axis::new(column.heading()) };
        let what = format!("Line chart: {} against {load_name} {}", column.words(), range_text(loads));
        self.chart((x, y), marks, &format!("{what}. {}", self.extremes(column)))
    }

    /// The distribution of latency at the load shown, a line per configuration that has one.
    ///
    /// The axis of percentiles counts nines: 90%, 99% and 99.9% are equally far apart, as what lies beyond them is
    /// what users wait for. The largest latency, 100%, would be infinitely far out and is left to the tables.
    pub(super) fn distribution(self) -> Option<Chart> {
        let line = |index: usize| {
            let run = self.matrix.shown(self.profile, index, self.side)?;
            let name = self.matrix.full_name(index);
            let curve = run.ops.total.lat_curve.iter().filter(|point| point.pct < 100.0);
            let points: Vec<Point> = curve
                .map(|point| {
                    let ms = ns_to_ms(point.lat_ns);
                    let hover = format!("{name}\n{} % within {} ms", point.pct, three_digits(ms));
                    Point { x: nines(point.pct), y: ms, hover, ..Point::default() }
                })
                .collect();
            (!points.is_empty()).then(|| Mark::Line(Line { marker: None, ..self.line(index, points) }))
        };
        let marks = self.configurations().filter_map(line).collect();
        let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];
        let x = Axis::new("percentile of requests")
            .with_ticks(ticks.iter().map(|pct| (nines(*pct), pct.to_string())));
        let what =
            format!("Line chart: latency in ms by percentile at {}", self.matrix.load_of(self.profile));
        let axes = (x, Axis::log("latency ms"));
        self.chart(axes, marks, &format!("{what}. {}", self.extremes(Column::LatP99)))
    }

    /// The judged figure at the load shown: a group of bars per level, one for each write policy, and a bar for storage
    /// without an array.
    pub(super) fn bars(self, column: Column) -> Option<Chart> {
        let policies = self.matrix.policies();
        let mut names: Vec<String> = Vec::new();
        let mut bars = Vec::new();
        for index in self.configurations() {
            let Some(run) = self.matrix.shown(self.profile, index, self.side) else { continue };
            let (name, policy) = self.matrix.name(index);
            if names.last() != Some(&name) {
                names.push(name.clone());
            }
            let place = policies.iter().position(|known| Some(*known) == policy);
            let width = 0.8 / policies.len().max(1) as f64;
            let offset = place.map_or(0.0, |place| (place as f64 + 0.5) * width - 0.4);
            let style = LineStyle::of(self.matrix, index);
            let value = column.value(run);
            bars.push(Bar {
                // The first stands at the top.
                at: -(names.len() as f64) - offset,
                width: 0.92 * width,
                value,
                colour: style.colour(),
                hatch: place.unwrap_or(0),
                text: short_digits(value),
                hover: hover(&self.matrix.full_name(index), value, column),
                tags: vec![name.clone(), policy.map_or(name, str::to_owned)],
            });
        }
        let highest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let x = Axis {
            range: Some((0.0, if highest > 0.0 { 1.14 * highest } else { 1.0 })),
            ..Axis::new(column.heading())
        };
        let ticks = names.iter().enumerate().map(|(index, name)| (-(index as f64) - 1.0, name.clone()));
        let range = Some((-(names.len() as f64) - 0.5, -0.5));
        let y = Axis { is_bare: true, range, ..Axis::new("").with_ticks(ticks) };
        let what = format!("Bar chart: {} at {}", column.words(), self.matrix.load_of(self.profile));
        let marks = if bars.is_empty() { Vec::new() } else { vec![Mark::Bars(bars)] };
        self.chart((x, y), marks, &format!("{what}. {}", self.extremes(column)))
    }

    /// One line in the colours of its configuration.
    pub(super) fn line(self, configuration: usize, points: Vec<Point>) -> Line {
        let style = LineStyle::of(self.matrix, configuration);
        let (name, policy) = self.matrix.name(configuration);
        let tags = vec![name.clone(), policy.map_or(name, str::to_owned)];
        let full_name = self.matrix.full_name(configuration);
        Line {
            tags,
            dash: Some(style.dash()),
            marker: Some(style.marker()),
            ..Line::new(&full_name, style.colour(), points)
        }
    }

    fn load_hover(self, configuration: usize, run: &RunResult, column: Column) -> String {
        let name = self.matrix.full_name(configuration);
        format!("{}\n{}", hover(&name, column.value(run), column), run.offered_load())
    }

    /// The configurations that have a run in this panel.
    pub(super) fn configurations(self) -> impl Iterator<Item = usize> + use<'a> {
        let has_run = move |index: &usize| !self.matrix.line(self.profile, *index, self.side).is_empty();
        (0..self.matrix.configurations.len()).filter(has_run)
    }

    /// The best and the worst array at the load shown, in a sentence.
    fn extremes(self, column: Column) -> String {
        let is_array =
            |index: &usize| matches!(self.matrix.configurations[*index], Configuration::Array { .. });
        let mut values: Vec<(f64, usize)> = self
            .configurations()
            .filter(is_array)
            .filter_map(|index| {
                self.matrix.shown(self.profile, index, self.side).map(|run| (column.value(run), index))
            })
            .collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(lowest), Some(highest)) = (values.first(), values.last()) else { return String::new() };
        let clause = |(value, index): &(f64, usize)| {
            format!("{} with {} {}", self.matrix.full_name(*index), three_digits(*value), column.unit())
        };
        format!(
            "At {}, the highest is {}, the lowest {}.",
            self.matrix.load_of(self.profile),
            clause(highest),
            clause(lowest)
        )
    }

    /// The chart of `marks`; none where there are none.
    pub(super) fn chart(self, (x, y): (Axis, Axis), marks: Vec<Mark>, what: &str) -> Option<Chart> {
        let (profile, side) = (self.matrix.profiles[self.profile], self.matrix.sides[self.side]);
        let label = format!("{}, {}. {what}", profile.workload, side.full_name()).trim_end().to_owned();
        (!marks.is_empty()).then(|| Chart { label, x, y, marks, ..Chart::default() })
    }
}

/// What the pointer shows of a figure.
pub(super) fn hover(name: &str, value: f64, column: Column) -> String {
    format!("{name}\n{} {}", grouped(&three_digits(value)), column.unit())
}

/// How many nines a percentile has: 90 % has one, 99 % two.
fn nines(pct: f64) -> f64 {
    -(1.0 - pct / 100.0).log10()
}

/// `1 to 64`, or the one value.
fn range_text(loads: &[OfferedLoad]) -> String {
    match loads {
        [] => String::new(),
        [only] => only.value().to_string(),
        [first, .., last] => format!("{} to {}", first.value(), last.value()),
    }
}

#[cfg(test)]
mod tests {
    use super::nines;

    #[test]
    fn each_nine_is_one_step() {
        for (pct, steps) in [(0.0, 0.0), (90.0, 1.0), (99.0, 2.0), (99.9, 3.0), (99.99, 4.0)] {
            assert!((nines(pct) - steps).abs() < 1e-9, "{pct}");
        }
    }
}
