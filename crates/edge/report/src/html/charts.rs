//! Charts as plotly.js understands them: traces and a layout in JSON.
//!
//! A chart is one panel: one profile on one side. Colour and marker tell the level, dash and hollow markers the write
//! policy, so that lines can be told apart without colour too. Colours are names of the page's custom properties, which
//! the page's script replaces by what the colour scheme gives. Texts in a chart are escaped, since plotly.js takes some
//! markup in them; what a pointer shows is text made here, not a template that a name could fill in.

use super::escaped;
use crate::figures::{Column, grouped, ns_to_ms, short_digits, three_digits};
use crate::matrix::{Configuration, Matrix};
use raidlab_workload::RunResult;
use serde_json::{Value, json};

/// Number of series colours that the style sheet defines.
pub(super) const SERIES_COLOURS: usize = 6;
/// Markers by level, as plotly.js names them; the first six have the shapes of [`super::legend`].
pub(super) const MARKERS: [&str; 6] = ["circle", "square", "diamond", "triangle-up", "triangle-down", "star"];
/// Dashes by write policy, as plotly.js names them.
const DASHES: [&str; 4] = ["solid", "dash", "dot", "dashdot"];

/// A panel to be drawn into the element `id`.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) id: String,
    /// What the chart shows, in a sentence or two, for those who can't see it.
    pub(super) label: String,
    pub(super) data: Vec<Value>,
    pub(super) layout: Value,
}

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

    /// The colour as the style sheet names it.
    pub(super) fn colour(&self) -> String {
        match self.level {
            Some(level) => format!("var(--series-{})", level % SERIES_COLOURS + 1),
            None => "var(--ink-soft)".to_owned(),
        }
    }

    /// The dash as plotly.js names it.
    pub(super) fn dash(&self) -> &'static str {
        if self.level.is_none() { "dot" } else { DASHES[self.policy % DASHES.len()] }
    }

    fn marker(&self) -> String {
        let shape = self.level.map_or("x-thin-open", |level| MARKERS[level % MARKERS.len()]);
        if self.policy == 0 { shape.to_owned() } else { format!("{shape}-open") }
    }
}

impl<'a> Panel<'a> {
    /// A figure over the iodepth, a line per configuration; `None` when there is no run to show.
    pub(super) fn over_iodepth(self, id: String, column: Column) -> Option<Chart> {
        let data: Vec<Value> = self
            .configurations()
            .map(|index| {
                let runs = self.matrix.line(self.profile, index, self.side);
                let points: Vec<(f64, f64, String)> = runs
                    .iter()
                    .map(|run| {
                        (f64::from(run.iodepth), column.value(run), self.depth_hover(index, run, column))
                    })
                    .collect();
                self.line(index, &points)
            })
            .collect();
        let depths = &self.matrix.iodepths;
        let mut layout = Self::layout("iodepth", column.heading());
        layout["xaxis"]["type"] = json!("log");
        layout["xaxis"]["tickvals"] = json!(depths);
        layout["xaxis"]["ticktext"] = json!(depths.iter().map(u32::to_string).collect::<Vec<_>>());
        match column {
            Column::Iops | Column::MbPerS => layout["yaxis"]["rangemode"] = json!("tozero"),
            Column::LatMean | Column::LatP99 => {
                let lines =
                    self.configurations().flat_map(|index| self.matrix.line(self.profile, index, self.side));
                Self::make_log(&mut layout["yaxis"], lines.map(|run| column.value(run)));
            }
        }
        let what = format!("Line chart: {} against iodepth {}", column.words(), range_text(depths));
        self.chart(id, data, layout, &format!("{what}. {}", self.extremes(column)))
    }

    /// The distribution of latency at the iodepth shown, a line per configuration that has one.
    ///
    /// The axis of percentiles counts nines: 90%, 99% and 99.9% are equally far apart, as what lies beyond them is
    /// what users wait for. The largest latency, 100%, would be infinitely far out and is left to the tables.
    pub(super) fn distribution(self, id: String) -> Option<Chart> {
        let data: Vec<Value> = self
            .configurations()
            .filter_map(|index| {
                let run = self.matrix.shown(self.profile, index, self.side)?;
                let name = escaped(&self.matrix.full_name(index));
                let curve = run.total.lat_curve.iter().filter(|point| point.pct < 100.0);
                let points: Vec<(f64, f64, String)> = curve
                    .map(|point| {
                        let ms = ns_to_ms(point.lat_ns);
                        let hover =
                            format!("<b>{name}</b><br>{} % within {} ms", point.pct, three_digits(ms));
                        (nines(point.pct), ms, hover)
                    })
                    .collect();
                (!points.is_empty()).then(|| self.line(index, &points))
            })
            .map(|mut trace| {
                trace["mode"] = json!("lines");
                trace
            })
            .collect();
        let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];
        let mut layout = Self::layout("percentile of requests", "latency ms");
        layout["xaxis"]["tickvals"] = json!(ticks.map(nines));
        layout["xaxis"]["ticktext"] = json!(ticks.map(|pct| pct.to_string()));
        let shown =
            self.configurations().filter_map(|index| self.matrix.shown(self.profile, index, self.side));
        let points = shown.flat_map(|run| &run.total.lat_curve).filter(|point| point.pct < 100.0);
        Self::make_log(&mut layout["yaxis"], points.map(|point| ns_to_ms(point.lat_ns)));
        let what = format!("Line chart: latency in ms by percentile at iodepth {}", self.matrix.iodepth);
        self.chart(id, data, layout, &format!("{what}. {}", self.extremes(Column::LatP99)))
    }

    /// The judged figure at the iodepth shown: a bar per level and write policy, and one for storage without an array.
    pub(super) fn bars(self, id: String, column: Column) -> Option<Chart> {
        let bare = self.configurations().filter(|index| !self.matrix.configurations[*index].is_array());
        let mut data: Vec<Value> = bare.filter_map(|index| self.bare_bar(index, column)).collect();
        let policies = self.matrix.policies();
        data.extend(
            policies.iter().enumerate().filter_map(|(index, policy)| self.policy_bars(index, policy, column)),
        );
        let mut layout = Self::layout(column.heading(), "");
        layout["margin"]["r"] = json!(44);
        layout["barmode"] = json!("group");
        layout["bargap"] = json!(0.22);
        layout["bargroupgap"] = json!(0.08);
        layout["yaxis"]["showgrid"] = json!(false);
        layout["yaxis"]["autorange"] = json!("reversed");
        layout["xaxis"]["rangemode"] = json!("tozero");
        let what = format!("Bar chart: {} at iodepth {}", column.words(), self.matrix.iodepth);
        self.chart(id, data, layout, &format!("{what}. {}", self.extremes(column)))
    }

    /// The bar of storage without an array, as wide as one of a group but alone in its place.
    fn bare_bar(self, configuration: usize, column: Column) -> Option<Value> {
        let run = self.matrix.shown(self.profile, configuration, self.side)?;
        let name = escaped(&self.matrix.name(configuration).0);
        let value = column.value(run);
        Some(json!({
            "type": "bar", "orientation": "h", "x": [value], "y": [name], "width": 0.36, "offset": -0.18,
            "marker": { "color": "var(--ink-soft)" },
            "text": [short_digits(value)], "textposition": "outside", "cliponaxis": false, "constraintext": "none",
            "hovertext": [hover(&name, value, column)], "hoverinfo": "text",
        }))
    }

    /// The bars of one write policy over the levels.
    fn policy_bars(self, policy_index: usize, policy: &str, column: Column) -> Option<Value> {
        let mine = self.configurations().filter(|index| self.matrix.name(*index).1 == Some(policy));
        let bars: Vec<(usize, f64)> = mine
            .filter_map(|index| {
                self.matrix.shown(self.profile, index, self.side).map(|run| (index, column.value(run)))
            })
            .collect();
        let texts = |of: &dyn Fn(usize, f64) -> String| -> Vec<String> {
            bars.iter().map(|(index, value)| of(*index, *value)).collect()
        };
        let hatch = ["", "/", "x", "."][policy_index % 4];
        let trace = json!({
            "type": "bar", "orientation": "h",
            "x": bars.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            "y": texts(&|index, _| escaped(&self.matrix.name(index).0)),
            "marker": {
                "color": texts(&|index, _| LineStyle::of(self.matrix, index).colour()),
                "pattern": { "shape": hatch, "fillmode": "overlay", "fgcolor": "var(--panel)", "size": 7, "solidity": 0.35 },
            },
            "text": texts(&|_, value| short_digits(value)), "textposition": "outside", "cliponaxis": false,
            "textangle": 0, "constraintext": "none",
            "hovertext": texts(&|index, value| hover(&escaped(&self.matrix.full_name(index)), value, column)),
            "hoverinfo": "text",
        });
        (!bars.is_empty()).then_some(trace)
    }

    /// One line; the points are x, y and what the pointer shows.
    pub(super) fn line(self, configuration: usize, points: &[(f64, f64, String)]) -> Value {
        let style = LineStyle::of(self.matrix, configuration);
        let (name, policy) = self.matrix.name(configuration);
        // A logarithmic axis has no place for zero.
        let y = |value: f64| if value > 0.0 { json!(value) } else { Value::Null };
        json!({
            "type": "scatter", "mode": "lines+markers",
            "meta": [name, policy.unwrap_or(&name)],
            "x": points.iter().map(|point| point.0).collect::<Vec<_>>(),
            "y": points.iter().map(|point| y(point.1)).collect::<Vec<_>>(),
            "hovertext": points.iter().map(|point| point.2.as_str()).collect::<Vec<_>>(),
            "hoverinfo": "text",
            "line": { "color": style.colour(), "dash": style.dash(), "width": 2 },
            "marker": { "color": style.colour(), "symbol": style.marker(), "size": 8, "line": { "width": 1.5, "color": style.colour() } },
        })
    }

    fn depth_hover(self, configuration: usize, run: &RunResult, column: Column) -> String {
        let name = escaped(&self.matrix.full_name(configuration));
        format!("{}<br>iodepth {}", hover(&name, column.value(run), column), run.iodepth)
    }

    /// The configurations that have a run in this panel.
    pub(super) fn configurations(self) -> impl Iterator<Item = usize> + use<'a> {
        let has_run = move |index: &usize| !self.matrix.line(self.profile, *index, self.side).is_empty();
        (0..self.matrix.configurations.len()).filter(has_run)
    }

    /// The best and the worst array at the iodepth shown, in a sentence.
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
            "At iodepth {}, the highest is {}, the lowest {}.",
            self.matrix.iodepth,
            clause(highest),
            clause(lowest)
        )
    }

    /// What all layouts have in common.
    pub(super) fn layout(x_title: &str, y_title: &str) -> Value {
        let axis = |title: &str| {
            json!({
                "title": { "text": title, "standoff": 8 }, "automargin": true, "fixedrange": true,
                "gridcolor": "var(--grid)", "linecolor": "var(--rule)", "zeroline": false,
                "tickfont": { "size": 12 }, "exponentformat": "none", "separatethousands": true,
            })
        };
        json!({
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
            "font": { "family": "system-ui, sans-serif", "size": 12, "color": "var(--ink)" },
            "margin": { "l": 50, "r": 14, "t": 16, "b": 40 }, "separators": ".\u{202f}",
            "showlegend": false, "hovermode": "closest", "dragmode": false,
            "hoverlabel": {
                "bgcolor": "var(--ground)", "bordercolor": "var(--rule)", "align": "left",
                "font": { "color": "var(--ink)", "size": 13 },
            },
            "xaxis": axis(x_title), "yaxis": axis(y_title),
        })
    }

    /// Makes `axis` logarithmic, with ticks that fit `values`.
    pub(super) fn make_log(axis: &mut Value, values: impl Iterator<Item = f64>) {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let ticks = log_ticks(low, high);
        axis["type"] = json!("log");
        axis["ticktext"] = json!(ticks.iter().map(f64::to_string).collect::<Vec<_>>());
        axis["tickvals"] = json!(ticks);
    }

    pub(super) fn chart(self, id: String, data: Vec<Value>, layout: Value, what: &str) -> Option<Chart> {
        let (profile, side) = (self.matrix.profiles[self.profile], self.matrix.sides[self.side]);
        let label = format!("{}, {}. {what}", profile.workload, side.full_name());
        (!data.is_empty()).then(|| Chart { id, label: label.trim_end().to_owned(), data, layout })
    }
}

/// What the pointer shows of a figure; `name` is escaped already.
fn hover(name: &str, value: f64, column: Column) -> String {
    format!("<b>{name}</b><br>{} {}", grouped(&three_digits(value)), column.unit())
}

/// How many nines a percentile has: 90 % has one, 99 % two.
fn nines(pct: f64) -> f64 {
    -(1.0 - pct / 100.0).log10()
}

/// Ticks of a logarithmic axis from `low` to `high`: 1, 2 and 5 of each power of ten, or the powers alone where that
/// would be too many. None when there is nothing to show.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    if low > high {
        return Vec::new();
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

/// `1 to 64`, or the one value.
fn range_text(depths: &[u32]) -> String {
    match depths {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{log_ticks, nines};

    #[test]
    fn log_ticks_enclose_the_values_and_are_few() {
        assert_eq!(log_ticks(0.12, 3.0), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(0.004, 30.0), [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(log_ticks(f64::MAX, 0.0), [0.0; 0]);
        for (low, high) in [(0.001, 0.0011), (0.7, 99.0), (3.0, 3.0), (1.0, 1e5)] {
            let ticks = log_ticks(low, high);
            assert!(ticks[0] <= low && ticks[ticks.len() - 1] >= high, "{low} to {high}: {ticks:?}");
            assert!(ticks.len() <= 12, "{low} to {high}: {ticks:?}");
        }
    }

    #[test]
    fn each_nine_is_one_step() {
        for (pct, steps) in [(0.0, 0.0), (90.0, 1.0), (99.0, 2.0), (99.9, 3.0), (99.99, 4.0)] {
            assert!((nines(pct) - steps).abs() < 1e-9, "{pct}");
        }
    }
}
