//! The page of programs on files: parallel readers over the number of streams, Bonnie over the length of the file.
//!
//! There is a line for each target, with bars of one standard deviation if there were repeats; published figures are
//! dotted and grey, so that they are not taken for measured ones. Each stream's own rate is a dot behind the line of
//! the means.

use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point, Scale};
use crate::document::{Block, Document, Fact};
use crate::figures::three_digits;
use crate::program_tables::{self as tables, STREAMS_EXPLANATION};
use crate::programs::{
    BonnieStep, BonnieStepPhase, ProgramReport, PublishedPoint, StreamsStep, bonnie_steps, streams_steps,
};
use raidlab_workload::{RunResult, Spread};
use std::collections::BTreeSet;

/// Phases of Bonnie that go over the file, as panels, with their titles.
const FILE_PHASES: [(&str, &str); 6] = [
    ("char-write", "Character write"),
    ("block-write", "Block write"),
    ("rewrite", "Rewrite"),
    ("char-read", "Character read"),
    ("block-read", "Block read"),
    ("seeks", "Seeks"),
];

/// The page of `report`.
pub fn programs(report: &ProgramReport<'_>) -> Document {
    let (streams, bonnie) = (streams_steps(report.runs), bonnie_steps(report.runs));
    let parts = Parts { published: report.published };
    let mut body: Vec<Block> =
        Block::warnings(report.runs.iter().flat_map(RunResult::warnings).collect()).into_iter().collect();
    body.extend(super::method_section(&report.setup, &report.method));
    if !streams.is_empty() {
        body.push(parts.streams(&streams));
    }
    if !bonnie.is_empty() {
        body.push(parts.bonnie(&bonnie));
    }
    body.extend(Block::notes(&report.notes));
    Document {
        kicker: "Programs on files",
        title: report.title.to_owned(),
        question: String::new(),
        facts: facts(report),
        body,
    }
}

fn facts(report: &ProgramReport<'_>) -> Vec<Fact> {
    let targets: BTreeSet<&str> = report.runs.iter().map(|run| run.target.as_str()).collect();
    let seeds: BTreeSet<u64> = report.runs.iter().map(|run| run.seed).collect();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let rows = [
        ("Runs", report.runs.len().to_string()),
        ("Targets", targets.len().to_string()),
        ("Seeds", seeds.join(", ")),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// What the sections are made of.
struct Parts<'a> {
    published: &'a [PublishedPoint],
}

impl Parts<'_> {
    fn streams(&self, steps: &[StreamsStep]) -> Block {
        let targets: Vec<&[StreamsStep]> = steps.chunk_by(|a, b| a.target == b.target).collect();
        let one_line =
            |index: usize, steps: &[StreamsStep], of: &dyn Fn(&StreamsStep) -> Spread, unit: &str| {
                let points = steps.iter().map(|step| (f64::from(step.streams), of(step)));
                line(index, &steps[0].target, &points.collect::<Vec<_>>(), unit)
            };
        let lines = |of: &dyn Fn(&StreamsStep) -> Spread, unit: &str| -> Vec<Mark> {
            targets.iter().enumerate().map(|(index, steps)| one_line(index, steps, of, unit)).collect()
        };
        let one = |value: f64| Spread { count: 1, mean: value, ..Spread::default() };
        let panel = |heading: &str, y: &str, marks: Vec<Mark>| Chart {
            heading: heading.to_owned(),
            label: format!("Line chart: {y} against the number of streams."),
            has_key: has_key(&marks),
            x: over("streams", steps.iter().map(|step| f64::from(step.streams))),
            y: Axis::new(y),
            marks,
            ..Chart::default()
        };
        let mut aggregate = lines(&|step| step.aggregate_mb_per_s, "MB/s");
        aggregate.extend(published(self.published, "", false));
        let delivered = lines(&|step| one(step.delivered_mb_per_s), "MB/s");
        let rates = Block::figure(
            vec![
                panel("Aggregate", "MB/s of all streams", aggregate),
                panel("Delivered", "MB/s of all reads", delivered),
            ],
            "Rate against streams.",
            "Aggregate: bytes of the timed reads by the mean time of one. Delivered: all reads, timed or not, while any was timed, by that time. Dotted: published.",
        );
        let each: Vec<Mark> = targets
            .iter()
            .enumerate()
            .flat_map(|(index, steps)| {
                let mean = one_line(index, steps, &|step| one(step.stream_mb_per_s_mean), "MB/s a stream");
                [dots(index, steps), mean]
            })
            .collect();
        let fairness = lines(&|step| one(step.fairness), "");
        let mut fair = panel("Jain's index of fairness", "fairness", fairness);
        fair.y.range = Some((0.0, 1.05));
        let spread = Block::figure(
            vec![panel("Each stream and the mean", "MB/s of one stream", each), fair],
            "Spread over the streams.",
            "A dot is one stream's timed read. An index of 1 means that all streams got the same, 1/N that one got all.",
        );
        let cpu = lines(&|step| one(step.cpu_pct), "% of a processor");
        let cpu = Block::figure(
            vec![panel("Readers' processor time", "% of one processor", cpu)],
            "Processor time.",
            "User and system time of the readers by the mean time of a timed read; 100 % is one processor.",
        );
        let mut body = vec![Block::table(tables::streams(steps))];
        body.extend(STREAMS_EXPLANATION.map(Block::paragraph));
        body.extend([rates, spread, cpu].into_iter().flatten());
        Block::section("streams", "Parallel readers", body)
    }

    fn bonnie(&self, steps: &[BonnieStep]) -> Block {
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
        let rates = FILE_PHASES
            .map(|phase| phase_panel(steps, phase, &scaled, published(self.published, phase.0, false)));
        let rates = Block::figure(
            rates.into(),
            "Rates against the length of the file.",
            "Bars are one standard deviation over the rounds. The dashed line is main memory: to its left the page cache may hold the file. Dotted: published.",
        );
        let share = |phase: &BonnieStepPhase| (phase.cpu_pct, "% of a processor");
        let cpu = FILE_PHASES
            .map(|phase| phase_panel(steps, phase, &share, published(self.published, phase.0, true)));
        let cpu = Block::figure(
            cpu.into(),
            "Processor time beside each rate.",
            "User and system time of the program's processes.",
        );
        let mut body = vec![Block::table(tables::bonnie(steps))];
        body.extend(tables::many_files(steps).map(Block::table));
        body.push(Block::table(tables::spreads(steps).captioned("Phase by phase, means over the rounds.")));
        body.extend([rates, cpu].into_iter().flatten());
        Block::section("bonnie", "Bonnie", body)
    }
}

/// A figure of one phase of Bonnie over the length of the file, a line for each target.
fn phase_panel(
    steps: &[BonnieStep],
    (name, title): (&str, &str),
    of: &dyn Fn(&BonnieStepPhase) -> (Spread, &'static str),
    dotted: Vec<Mark>,
) -> Chart {
    let mut unit = "";
    let mut marks: Vec<Mark> = Vec::new();
    for (index, steps) in steps.chunk_by(|a, b| a.target == b.target).enumerate() {
        let points: Vec<(f64, Spread)> = steps
            .iter()
            .filter_map(|step| {
                let (spread, named) = of(step.phase(name)?);
                unit = named;
                Some((step.file_bytes as f64 / 1e6, spread))
            })
            .collect();
        if !points.is_empty() {
            marks.push(line(index, &steps[0].target, &points, unit));
        }
    }
    marks.extend(dotted);
    if !marks.is_empty() {
        marks.extend(memory(steps).map(Mark::Upright));
    }
    Chart {
        heading: title.to_owned(),
        label: format!("Line chart: {title} in {unit} against the length of the file."),
        has_key: has_key(&marks),
        x: over("MB of file", steps.iter().map(|step| step.file_bytes as f64 / 1e6)),
        y: Axis::new(unit),
        marks,
        ..Chart::default()
    }
}

/// Whether there are several lines to be told apart.
fn has_key(marks: &[Mark]) -> bool {
    marks.iter().filter(|mark| matches!(mark, Mark::Line(line) if line.is_in_key)).count() > 1
}

/// The axis over `at`.
fn over(title: &str, at: impl Iterator<Item = f64>) -> Axis {
    let mut ticks: Vec<f64> = at.collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let scale = if ticks.len() > 1 { Scale::Log } else { Scale::Linear };
    Axis { scale, ..Axis::new(title).with_ticks(ticks.into_iter().map(|at| (at, tick(at)))) }
}

/// A whole number as it is, others in three digits.
fn tick(at: f64) -> String {
    if at.fract() == 0.0 { format!("{at:.0}") } else { three_digits(at) }
}

/// The length of file in MB that is main memory, if it is within the chart.
fn memory(steps: &[BonnieStep]) -> Option<f64> {
    let sizes = || steps.iter().map(|step| step.file_bytes as f64 / 1e6);
    let memory = steps.iter().find_map(|step| Some(step.file_bytes as f64 / 1e6 / step.file_to_memory?));
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    memory.filter(|memory| (low..=high).contains(memory) && low < high)
}

/// A line with markers of target number `index`, with bars of one standard deviation where there were repeats.
fn line(index: usize, name: &str, points: &[(f64, Spread)], unit: &str) -> Mark {
    let point = |(at, spread): &(f64, Spread)| {
        let around = spread.ci95_half.map_or_else(String::new, |half| {
            format!("\n{} rounds, 95 %: +- {}", spread.count, three_digits(half))
        });
        let hover = format!("{name}\n{}: {} {unit}{around}", tick(*at), three_digits(spread.mean));
        Point { x: *at, y: spread.mean, spread: spread.stddev, hover }
    };
    Mark::Line(Line {
        marker: Some(Marker::number(index)),
        is_in_key: true,
        ..Line::new(name, Colour::Series(index), points.iter().map(point).collect())
    })
}

/// A dot for each stream of each step.
fn dots(index: usize, steps: &[StreamsStep]) -> Mark {
    let all =
        steps.iter().flat_map(|step| step.stream_mb_per_s.iter().map(move |rate| (step.streams, *rate)));
    let points = all.map(|(streams, rate)| Point { x: f64::from(streams), y: rate, ..Point::default() });
    Mark::Line(Line {
        dash: None,
        marker: Some(Marker { radius: 2.0, ..Marker::number(0) }),
        opacity: 0.35,
        ..Line::new("", Colour::Series(index), points.collect())
    })
}

/// The published lines of a phase.
fn published(points: &[PublishedPoint], phase: &str, is_cpu: bool) -> Vec<Mark> {
    let mine: Vec<&PublishedPoint> =
        points.iter().filter(|point| point.phase == phase && point.is_cpu_pct == is_cpu).collect();
    let mut systems: Vec<&str> = Vec::new();
    for point in &mine {
        if !systems.contains(&point.system.as_str()) {
            systems.push(&point.system);
        }
    }
    let line = |(index, system): (usize, &&str)| {
        let name = format!("{system} (published)");
        let own = mine.iter().filter(|point| point.system == **system);
        let mut points: Vec<Point> = own
            .map(|point| Point {
                x: point.at,
                y: point.value,
                hover: format!("{name}\n{}", three_digits(point.value)),
                ..Point::default()
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Mark::Line(Line {
            dash: Some(2),
            width: 1.0,
            marker: Some(Marker { is_hollow: true, radius: 3.0, ..Marker::number(index) }),
            is_in_key: true,
            ..Line::new(&name, Colour::Soft, points)
        })
    };
    systems.iter().enumerate().map(line).collect()
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
            published: &[point, seeks],
        };
        let page = programs(&report);
        let html = page.to_html();
        assert!(html.contains("Figure 1. Rate against streams") && html.contains("Phase by phase"));
        assert!(!html.contains("<q>w"), "names are escaped");
        let pictures = page.pictures();
        let charts: Vec<&Chart> = pictures.iter().map(|picture| &picture.chart).collect();
        // Two panels of rates, two of spread, one of processors; six phases, rates and processors.
        assert_eq!(charts.len(), 5 + 12);
        let lines = |chart: usize| -> Vec<&Line> {
            let marks = charts[chart].marks.iter();
            marks.filter_map(|mark| if let Mark::Line(line) = mark { Some(line) } else { None }).collect()
        };
        assert_eq!((lines(0).len(), lines(1).len(), lines(2).len()), (3, 2, 4));
        assert_eq!(lines(0)[2].dash, Some(2));
        // 100 MiB are a quarter of memory, as is said, so it is at 400 MiB.
        let memory = charts[5]
            .marks
            .iter()
            .find_map(|mark| if let Mark::Upright(at) = mark { Some(*at) } else { None });
        assert!(memory.is_some_and(|memory| (memory - 419.43).abs() < 0.01), "{memory:?}");
        let is_published =
            |chart: &usize| lines(*chart).iter().any(|line| line.name.ends_with("(published)"));
        assert_eq!((0..charts.len()).filter(is_published).count(), 2);
    }
}
