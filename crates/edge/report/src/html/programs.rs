//! The page of programs on files: parallel readers over the number of streams, Bonnie over the length of the file.
//!
//! A line for each target, with bars of one standard deviation where there were repeats; published figures are dotted and
//! grey, so that a reader never takes them for own ones. Each stream's own rate is a dot behind the line of the means.

use super::charts::{Chart, MARKERS, Panel};
use super::{
    PAGE, SCRIPT, STYLE, charts_json, escaped, escaped_digits, fill, notes, plotly_script, section,
    warning_box,
};
use crate::figures::three_digits;
use crate::programs::{
    BonnieStep, BonnieStepPhase, ProgramReport, PublishedPoint, StreamsStep, bonnie_steps, streams_steps,
};
use raidlab_units::ByteCount;
use raidlab_workload::{RunResult, Spread};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Colours of targets, as the style sheet numbers them.
const COLOURS: usize = 6;
/// Phases of Bonnie that go over the file, as panels, with their titles.
const FILE_PHASES: [(&str, &str); 6] = [
    ("char-write", "Character write"),
    ("block-write", "Block write"),
    ("rewrite", "Rewrite"),
    ("char-read", "Character read"),
    ("block-read", "Block read"),
    ("seeks", "Seeks"),
];

/// Prints `report` as one HTML document.
pub fn programs(report: &ProgramReport<'_>) -> String {
    let (streams, bonnie) = (streams_steps(report.runs), bonnie_steps(report.runs));
    let mut page = Page { beside: report.beside, charts: Vec::new(), figures: 0 };
    let mut results = String::new();
    if !streams.is_empty() {
        results += &page.streams(&streams);
    }
    if !bonnie.is_empty() {
        results += &page.bonnie(&bonnie);
    }
    let warnings: Vec<String> = report.runs.iter().flat_map(RunResult::warnings).collect();
    fill(
        PAGE,
        &[
            ("kicker", "Programs on files"),
            ("title", &escaped(report.title)),
            ("question", ""),
            ("facts", &facts(report)),
            ("warnings", &warning_box(&warnings)),
            ("recommendations", ""),
            ("method", &super::method_section(&report.setup, &report.method)),
            ("results", &results),
            ("published", ""),
            ("notes", &notes(&report.notes)),
            ("version", env!("CARGO_PKG_VERSION")),
            ("css", STYLE),
            ("plotly", plotly_script()),
            ("charts", &charts_json(&page.charts)),
            ("script", SCRIPT),
        ],
    )
}

fn facts(report: &ProgramReport<'_>) -> String {
    let targets: BTreeSet<&str> = report.runs.iter().map(|run| run.target.as_str()).collect();
    let seeds: BTreeSet<u64> = report.runs.iter().map(|run| run.seed).collect();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let rows = [
        ("Runs", report.runs.len().to_string()),
        ("Targets", targets.len().to_string()),
        ("Seeds", seeds.join(", ")),
    ];
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!(r#"<dl class="facts">{rows}</dl>"#)
}

/// Collects charts and numbers figures.
struct Page<'a> {
    beside: &'a [PublishedPoint],
    charts: Vec<Chart>,
    figures: usize,
}

/// A panel of a figure before it has an id: its heading, what it shows in words, and what it draws.
struct Drawing {
    heading: String,
    words: String,
    data: Vec<Value>,
    layout: Value,
}

impl Page<'_> {
    fn figure(&mut self, drawings: Vec<Drawing>, title: &str, caption: &str) -> String {
        let mut panels = String::new();
        for drawing in drawings.into_iter().filter(|drawing| !drawing.data.is_empty()) {
            let id = format!("chart-{}", self.charts.len() + 1);
            panels += &format!(
                r#"<div class="panel"><p>{}</p><div class="plot" id="{id}" role="img" aria-label="{}"></div></div>"#,
                escaped(&drawing.heading),
                escaped(&drawing.words)
            );
            let Drawing { words, data, mut layout, .. } = drawing;
            if data.iter().filter(|trace| trace["showlegend"] == json!(true)).count() > 1 {
                layout["showlegend"] = json!(true);
                layout["legend"] = json!({ "orientation": "h", "yanchor": "top", "y": -0.24, "x": 0, "font": { "size": 11 } });
            }
            self.charts.push(Chart { id, label: words, data, layout });
        }
        if panels.is_empty() {
            return panels;
        }
        self.figures += 1;
        format!(
            r#"<figure><div class="panels">{panels}</div><figcaption><b>Figure {}. {title}</b> {caption}</figcaption></figure>"#,
            self.figures
        )
    }

    fn streams(&mut self, steps: &[StreamsStep]) -> String {
        let targets: Vec<&[StreamsStep]> = steps.chunk_by(|a, b| a.target == b.target).collect();
        let line = |index: usize, steps: &[StreamsStep], of: &dyn Fn(&StreamsStep) -> Spread, unit: &str| {
            let points = steps.iter().map(|step| (f64::from(step.streams), of(step)));
            trace(index, &steps[0].target, &points.collect::<Vec<_>>(), unit)
        };
        let lines = |of: &dyn Fn(&StreamsStep) -> Spread, unit: &str| -> Vec<Value> {
            targets.iter().enumerate().map(|(index, steps)| line(index, steps, of, unit)).collect()
        };
        let one = |value: f64| Spread { count: 1, mean: value, ..Spread::default() };
        let x = "streams";
        let drawing = |heading: &str, y: &str, data: Vec<Value>, log: bool| Drawing {
            heading: heading.to_owned(),
            words: format!("Line chart: {y} against the number of streams."),
            data,
            layout: layout(x, y, steps.iter().map(|step| f64::from(step.streams)), log),
        };
        let mut aggregate = lines(&|step| step.aggregate_mb_per_s, "MB/s");
        aggregate.extend(published(self.beside, "", false));
        let delivered = lines(&|step| one(step.delivered_mb_per_s), "MB/s");
        let rates = self.figure(
            vec![
                drawing("Aggregate", "MB/s of all streams", aggregate, true),
                drawing("Delivered", "MB/s of all reads", delivered, true),
            ],
            "Rate against streams.",
            "Aggregate: bytes of the timed reads by the mean time of one. Delivered: all reads, timed or not, while any was timed, by that time. Dotted: published.",
        );
        let each: Vec<Value> = targets
            .iter()
            .enumerate()
            .flat_map(|(index, steps)| {
                [
                    dots(index, steps),
                    line(index, steps, &|step| one(step.stream_mb_per_s_mean), "MB/s a stream"),
                ]
            })
            .collect();
        let fairness = lines(&|step| one(step.fairness), "");
        let mut fair = drawing("Jain's index of fairness", "fairness", fairness, true);
        fair.layout["yaxis"]["range"] = json!([0, 1.05]);
        let spread = self.figure(
            vec![drawing("Each stream and the mean", "MB/s of one stream", each, true), fair],
            "Spread over the streams.",
            "A dot is one stream's timed read. An index of 1 means that all streams got the same, 1/N that one got all.",
        );
        let cpu = lines(&|step| one(step.cpu_pct), "% of a processor");
        let cpu = self.figure(
            vec![drawing("Readers' processor time", "% of one processor", cpu, true)],
            "Processor time.",
            "User and system time of the readers by the mean time of a timed read; 100 % is one processor.",
        );
        section("streams", "Parallel readers", &(streams_table(steps) + &rates + &spread + &cpu))
    }

    fn bonnie(&mut self, steps: &[BonnieStep]) -> String {
        let drawings = |of: &dyn Fn(&BonnieStepPhase) -> (Spread, &'static str),
                        is_cpu: bool,
                        beside: &[PublishedPoint]| {
            FILE_PHASES.map(|(name, title)| {
                let targets = steps.chunk_by(|a, b| a.target == b.target);
                let mut unit = "";
                let mut data: Vec<Value> = Vec::new();
                for (index, steps) in targets.enumerate() {
                    let points: Vec<(f64, Spread)> = steps
                        .iter()
                        .filter_map(|step| {
                            let (spread, named) = of(step.phase(name)?);
                            unit = named;
                            Some((step.file_bytes as f64 / 1e6, spread))
                        })
                        .collect();
                    data.push(trace(index, &steps[0].target, &points, unit));
                }
                data.extend(published(beside, name, is_cpu));
                let mut layout =
                    layout("MB of file", unit, steps.iter().map(|step| step.file_bytes as f64 / 1e6), true);
                mark_memory(&mut layout, steps);
                let words = format!("Line chart: {title} in {unit} against the length of the file.");
                Drawing { heading: title.to_owned(), words, data, layout }
            })
        };
        let scaled = |phase: &BonnieStepPhase| {
            let factor = if phase.counts_calls() { 1.0 } else { 1024.0 / 1e6 };
            let Spread { count, mean, stddev, ci95_half } = phase.rate;
            let rate = Spread {
                count,
                mean: mean * factor,
                stddev: stddev * factor,
                ci95_half: ci95_half.map(|half| half * factor),
            };
            (rate, if phase.counts_calls() { "seeks/s" } else { "MB/s" })
        };
        let beside = self.beside.to_vec();
        let rates = drawings(&scaled, false, &beside).into();
        let rates = self.figure(
            rates,
            "Rates against the length of the file.",
            "Bars are one standard deviation over the rounds. The dashed line is main memory: to its left the page cache may hold the file. Dotted: published.",
        );
        let cpu = drawings(&|phase| (phase.cpu_pct, "% of a processor"), true, &beside).into();
        let cpu = self.figure(
            cpu,
            "Processor time beside each rate.",
            "User and system time of the program's processes.",
        );
        section("bonnie", "Bonnie", &(bonnie_table(steps) + &rates + &cpu))
    }
}

/// The layout of a panel over `at`.
fn layout(x: &str, y: &str, at: impl Iterator<Item = f64>, log: bool) -> Value {
    let mut layout = Panel::layout(x, y);
    let mut ticks: Vec<f64> = at.collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    if log && ticks.len() > 1 {
        layout["xaxis"]["type"] = json!("log");
    }
    layout["xaxis"]["ticktext"] = json!(ticks.iter().map(|at| tick(*at)).collect::<Vec<_>>());
    layout["xaxis"]["tickvals"] = json!(ticks);
    layout["yaxis"]["rangemode"] = json!("tozero");
    layout
}

/// A whole number as it is, others in three digits.
fn tick(at: f64) -> String {
    if at.fract() == 0.0 { format!("{at:.0}") } else { three_digits(at) }
}

/// A line at the length of file that is main memory, if it is within the chart.
fn mark_memory(layout: &mut Value, steps: &[BonnieStep]) {
    let sizes = || steps.iter().map(|step| step.file_bytes as f64 / 1e6);
    let memory = steps.iter().find_map(|step| Some(step.file_bytes as f64 / 1e6 / step.file_to_memory?));
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    let Some(memory) = memory.filter(|memory| (low..=high).contains(memory) && low < high) else { return };
    layout["shapes"] = json!([{
        "type": "line", "xref": "x", "yref": "paper", "x0": memory, "x1": memory, "y0": 0, "y1": 1,
        "line": { "color": "var(--ink-soft)", "dash": "dash", "width": 1 },
    }]);
}

/// A line with markers of target number `index`, with bars of one standard deviation where there were repeats.
fn trace(index: usize, name: &str, points: &[(f64, Spread)], unit: &str) -> Value {
    let colour = format!("var(--series-{})", index % COLOURS + 1);
    let name = escaped(name);
    let hover = |(at, spread): &(f64, Spread)| {
        let around = spread.ci95_half.map_or_else(String::new, |half| {
            format!("<br>{} rounds, 95 %: +- {}", spread.count, three_digits(half))
        });
        format!("<b>{name}</b><br>{}: {} {unit}{around}", tick(*at), three_digits(spread.mean))
    };
    let deviations: Vec<f64> = points.iter().map(|(_, spread)| spread.stddev).collect();
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "showlegend": true,
        "x": points.iter().map(|point| point.0).collect::<Vec<_>>(),
        "y": points.iter().map(|point| point.1.mean).collect::<Vec<_>>(),
        "error_y": { "type": "data", "array": deviations, "visible": deviations.iter().any(|it| *it > 0.0), "color": colour, "thickness": 1.2 },
        "hovertext": points.iter().map(hover).collect::<Vec<_>>(), "hoverinfo": "text",
        "line": { "color": colour, "width": 2 },
        "marker": { "color": colour, "symbol": MARKERS[index % MARKERS.len()], "size": 7 },
    })
}

/// A dot for each stream of each step.
fn dots(index: usize, steps: &[StreamsStep]) -> Value {
    let colour = format!("var(--series-{})", index % COLOURS + 1);
    let all =
        || steps.iter().flat_map(|step| step.stream_mb_per_s.iter().map(move |rate| (step.streams, *rate)));
    json!({
        "type": "scatter", "mode": "markers", "showlegend": false, "hoverinfo": "skip", "opacity": 0.35,
        "x": all().map(|dot| dot.0).collect::<Vec<_>>(), "y": all().map(|dot| dot.1).collect::<Vec<_>>(),
        "marker": { "color": colour, "size": 4, "symbol": "circle" },
    })
}

/// The published lines of a phase.
fn published(beside: &[PublishedPoint], phase: &str, is_cpu: bool) -> Vec<Value> {
    let mine: Vec<&PublishedPoint> =
        beside.iter().filter(|point| point.phase == phase && point.is_cpu_pct == is_cpu).collect();
    let mut systems: Vec<&str> = Vec::new();
    for point in &mine {
        if !systems.contains(&point.system.as_str()) {
            systems.push(&point.system);
        }
    }
    let line = |(index, system): (usize, &&str)| {
        let mut points: Vec<(f64, f64)> = mine
            .iter()
            .filter(|point| point.system == **system)
            .map(|point| (point.at, point.value))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = format!("{} (published)", escaped(system));
        let hover = |point: &(f64, f64)| format!("<b>{name}</b><br>{}", three_digits(point.1));
        json!({
            "type": "scatter", "mode": "lines+markers", "name": name, "showlegend": true,
            "x": points.iter().map(|point| point.0).collect::<Vec<_>>(),
            "y": points.iter().map(|point| point.1).collect::<Vec<_>>(),
            "hovertext": points.iter().map(hover).collect::<Vec<_>>(), "hoverinfo": "text",
            "line": { "color": "var(--ink-soft)", "width": 1, "dash": "dot" },
            "marker": { "color": "var(--ink-soft)", "symbol": format!("{}-open", MARKERS[index % MARKERS.len()]), "size": 6 },
        })
    };
    systems.iter().enumerate().map(line).collect()
}

/// A table with a heading for each column; the first holds names.
fn plain_table(caption: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    let head: String =
        header.iter().map(|name| format!(r#"<th scope="col">{}</th>"#, escaped(name))).collect();
    let row = |cells: &Vec<String>| {
        let rest: String = cells[1..].iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        format!(r#"<tr><th scope="row" class="name first">{}</th>{rest}</tr>"#, escaped(&cells[0]))
    };
    let body: String = rows.iter().map(row).collect();
    format!(
        r#"<div class="scroll" role="region" aria-label="{0}" tabindex="0"><table><caption><span>{0}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"#,
        escaped(caption)
    )
}

fn streams_table(steps: &[StreamsStep]) -> String {
    let row = |step: &StreamsStep| {
        let spread = step.aggregate_mb_per_s;
        vec![
            step.target.clone(),
            step.streams.to_string(),
            spread.count.to_string(),
            escaped_digits(spread.mean),
            three_digits(spread.stddev_pct()),
            escaped_digits(step.delivered_mb_per_s),
            three_digits(step.stream_mb_per_s_mean),
            three_digits(step.stream_mb_per_s_min),
            three_digits(step.stream_mb_per_s_max),
            format!("{:.3}", step.fairness),
            three_digits(step.cpu_pct),
            format!("{:.1}", step.overlap * 100.0),
        ]
    };
    let header = [
        "Target",
        "streams",
        "repeats",
        "MB/s",
        "stdev %",
        "delivered",
        "a stream",
        "slowest",
        "fastest",
        "fairness",
        "CPU %",
        "overlap %",
    ];
    plain_table("Parallel readers, rates in MB/s", &header, &steps.iter().map(row).collect::<Vec<_>>())
}

fn bonnie_table(steps: &[BonnieStep]) -> String {
    let row = |step: &BonnieStep, phase: &BonnieStepPhase| {
        let rate = phase.rate;
        vec![
            step.target.clone(),
            ByteCount(step.file_bytes).decimal().to_string(),
            step.file_to_memory.map_or("–".to_owned(), three_digits),
            phase.name.clone(),
            format!("{:.0} {}", rate.mean, phase.unit()),
            rate.count.to_string(),
            three_digits(rate.stddev_pct()),
            rate.ci95_half.map_or("–".to_owned(), three_digits),
            three_digits(phase.cpu_pct.mean),
        ]
    };
    let rows: Vec<Vec<String>> = steps
        .iter()
        .flat_map(|step| step.phases.iter().map(|phase| row(step, phase)).collect::<Vec<_>>())
        .collect();
    let header = ["Target", "file", "of memory", "phase", "rate", "rounds", "stdev %", "95 % ±", "CPU %"];
    plain_table("Bonnie, means over the rounds", &header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::tests::{bonnie_run, streams_run};

    #[test]
    fn the_page_has_a_line_for_each_target_and_dotted_published_ones() {
        let runs = vec![
            streams_run("<q>w", &[10]),
            streams_run("<q>w", &[10, 30]),
            streams_run("c", &[5]),
            bonnie_run("c", 100, 1_000),
            bonnie_run("c", 400, 900),
        ];
        let point = PublishedPoint {
            system: "asa".into(),
            phase: String::new(),
            at: 1.0,
            value: 42.0,
            is_cpu_pct: false,
        };
        let seeks = PublishedPoint { phase: "seeks".into(), at: 100.0, ..point.clone() };
        let report = ProgramReport {
            title: "<q>w",
            method: vec!["It was done.".into()],
            setup: vec![("kernel".into(), "Linux".into())],
            runs: &runs,
            notes: vec!["Note.".into()],
            beside: &[point, seeks],
        };
        let page = programs(&report);
        assert!(
            page.contains("Figure 1. Rate against streams") && page.contains("Bonnie, means over the rounds")
        );
        assert!(!page.contains("<q>w"), "names are escaped");
        let charts =
            page.split(r#"id="charts">"#).nth(1).expect("charts").split("</script>").next().expect("end");
        let charts: Vec<Value> = serde_json::from_str(&charts.replace("\\u003c", "<")).expect("JSON");
        // Two panels of rates, two of spread, one of processors; six phases, rates and processors.
        assert_eq!(charts.len(), 5 + 12);
        let traces = |chart: usize| charts[chart]["data"].as_array().expect("traces").len();
        assert_eq!((traces(0), traces(1), traces(2)), (3, 2, 4));
        assert_eq!(charts[0]["data"][2]["line"]["dash"], "dot");
        // 100 MiB are a quarter of memory, as is said, so it is at 400 MiB.
        let memory = charts[5]["layout"]["shapes"][0]["x0"].as_f64().expect("a line");
        assert!((memory - 419.43).abs() < 0.01, "{memory}");
        let with_published =
            charts.iter().filter(|chart| chart["data"].to_string().contains("(published)")).count();
        assert_eq!(with_published, 2);
    }
}
