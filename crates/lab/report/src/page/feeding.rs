//! Utilisation and rate against the number of accelerators: the two charts that say how many of them storage feeds.
//!
//! ```text
//! AU %  │••••·.          MB/s │   .·••••    until the bound is missed what is read grows with the accelerators,
//!       │- - - -'•- -         │ .•          then the rate stays where storage ends and they share it
//! ```
//! The dashed line left is the bound, the dashed line right what they would read if none waited. Published figures are hollow.

use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point, SERIES_COLOURS};
use crate::document::{Block, Rows, Table, Text};
use crate::figures::{fed_cells, three_digits};
use raidlab_worlds::{FedPoint, Feeding};

/// A number of accelerators, and how they fare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedPlace {
    /// How many.
    pub accelerators: u32,
    /// Their utilisation.
    pub au_pct: f64,
    /// What they read, in the unit of the chart.
    pub rate: f64,
}

/// A line of both charts.
#[derive(Clone, Debug, PartialEq)]
pub struct FedCurve {
    /// What the key calls it.
    pub name: String,
    /// The bound on utilisation.
    pub au_goal_pct: f64,
    /// Rising by the number of accelerators.
    pub points: Vec<FedPlace>,
    /// What was published, if that is known.
    pub published: Option<FedPlace>,
}

/// A section for each workload: the answer of each target, then the charts and the table of all.
pub(super) fn sections(fed: &[Feeding]) -> Vec<Block> {
    let mut workloads: Vec<&str> = fed.iter().map(|found| found.workload.as_str()).collect();
    workloads.dedup();
    let section = |(index, workload): (usize, &&str)| {
        let own: Vec<&Feeding> = fed.iter().filter(|found| found.workload == *workload).collect();
        let mut body: Vec<Block> = own.iter().flat_map(|found| answer(found)).collect();
        let curves: Vec<FedCurve> = own.iter().map(|found| curve(found)).collect();
        let most = if let [only] = &own[..] { only.most } else { None };
        body.extend(figure(&curves, "MB/s", most));
        body.push(Block::table(table(workload, &own)));
        Block::section(
            format!("accelerators-{index}"),
            format!("{workload}: accelerators that are fed"),
            body,
        )
    };
    workloads.iter().enumerate().map(section).collect()
}

/// How many, and below it what limits them.
fn answer(found: &Feeding) -> Vec<Block> {
    let mut sentences = found.sentences().into_iter();
    let first = sentences.next().unwrap_or_default();
    let more: Vec<String> = sentences.collect();
    let mut blocks = vec![Block::paragraph(Text::strong(format!("{first}.")))];
    blocks.extend((!more.is_empty()).then(|| Block::List(more.into_iter().map(Text::from).collect())));
    blocks
}

fn curve(found: &Feeding) -> FedCurve {
    let point =
        |it: &FedPoint| FedPlace { accelerators: it.accelerators, au_pct: it.au_pct, rate: it.mb_per_s };
    FedCurve {
        name: found.target.clone(),
        au_goal_pct: found.au_goal_pct,
        points: found.points.iter().map(point).collect(),
        published: None,
    }
}

/// Every number that was run, on each target where there are several.
fn table(workload: &str, own: &[&Feeding]) -> Table {
    let header = ["accelerators", "AU %", "MB/s", "samples/s", "bound"];
    let table = Table::plain(format!("{workload}, every number that was run"), &header, 0);
    own.iter().fold(table, |mut table, found| {
        table.sections.push(Rows {
            title: (own.len() > 1).then(|| found.target.as_str().into()),
            rows: found.points.iter().map(|point| fed_cells(point).into()).collect(),
        });
        table
    })
}

/// Both charts; an upright line at `most`. None without any point.
pub(super) fn figure(curves: &[FedCurve], unit: &str, most: Option<u32>) -> Option<Block> {
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return None;
    }
    let au = chart(curves, "utilisation, AU %", |place| place.au_pct);
    let rate = chart(curves, unit, |place| place.rate);
    let goals = curves.iter().filter_map(|curve| {
        let (first, last) = (curve.points.first()?, curve.points.last()?);
        let ends = [first, last].map(|place| Point {
            x: f64::from(place.accelerators),
            y: curve.au_goal_pct,
            ..Point::default()
        });
        Some(Mark::Line(aside("the bound", ends.to_vec())))
    });
    let asked = curves.iter().filter_map(|curve| {
        let best = curve.points.iter().max_by(|a, b| a.au_pct.total_cmp(&b.au_pct))?;
        let each = best.rate / f64::from(best.accelerators.max(1)) / (best.au_pct / 100.0).max(1e-3);
        // As far as the chart of what they get reaches.
        let top = curve.points.iter().map(|place| place.rate).fold(0.0, f64::max) * 1.25;
        let last = f64::from(curve.points.last()?.accelerators).min(top / each.max(1e-9));
        let point = |x: f64| Point { x, y: x * each, ..Point::default() };
        Some(Mark::Line(aside("if none waited", vec![point(0.0), point(last)])))
    });
    let upright = most.map(|most| Mark::Upright(f64::from(most)));
    let mut au = Chart { y: Axis { range: Some((0.0, 100.0)), ..au.y }, ..au };
    au.marks.extend(goals.chain(upright));
    let mut rate = rate;
    rate.marks.extend(asked);
    let mut caption =
        "Dashed: left the bound on utilisation, right what they would read if none waited.".to_owned();
    if most.is_some() {
        caption += " The upright line is the largest number that is fed.";
    }
    if curves.iter().any(|curve| curve.published.is_some()) {
        caption += " Hollow points are published.";
    }
    Block::figure(vec![au, rate], "Utilisation and rate against the number of accelerators.", &caption)
}

/// A line that is no series.
fn aside(name: &str, points: Vec<Point>) -> Line {
    Line { dash: Some(1), width: 1.2, ..Line::new(name, Colour::Soft, points) }
}

fn chart(curves: &[FedCurve], title: &str, of: impl Fn(&FedPlace) -> f64) -> Chart {
    let mut marks = Vec::new();
    for (index, curve) in curves.iter().enumerate() {
        let colour = Colour::Series(index % SERIES_COLOURS);
        let point = |place: &FedPlace| Point {
            x: f64::from(place.accelerators),
            y: of(place),
            hover: format!(
                "{}\n{} accelerators\n{} {title}",
                curve.name,
                place.accelerators,
                three_digits(of(place))
            ),
            ..Point::default()
        };
        let line = Line::new(&curve.name, colour, curve.points.iter().map(point).collect());
        marks.push(Mark::Line(Line {
            marker: Some(Marker::number(index)),
            is_in_key: curves.len() > 1 || curve.published.is_some(),
            ..line
        }));
        if let Some(published) = &curve.published {
            let name = format!("{}, published", curve.name);
            let marker = Marker { is_hollow: true, radius: 5.5, ..Marker::number(index) };
            let line = Line::new(&name, colour, vec![point(published)]);
            marks.push(Mark::Line(Line { dash: None, marker: Some(marker), is_in_key: true, ..line }));
        }
    }
    let said: Vec<String> = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|place| (place, &curve.name)))
        .map(|(place, name)| format!("{} of {name}: {}", place.accelerators, three_digits(of(place))))
        .collect();
    Chart {
        heading: title.to_owned(),
        label: format!("Line chart: {title} against the number of accelerators. {}.", said.join(", ")),
        x: Axis::new("accelerators"),
        y: Axis::new(title),
        marks,
        has_key: curves.len() > 1 || curves.iter().any(|curve| curve.published.is_some()),
        ..Chart::default()
    }
}
