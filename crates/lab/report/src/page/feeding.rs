//! Utilisation and rate against the number of accelerators: the two charts that say how many of them storage feeds.
//!
//! ```text
//! AU %  │••••·.          MB/s │   .·••••    until the bound is missed what is read grows with the accelerators,
//!       │- - - -'•- -         │ .•          then the rate stays where storage ends and they share it
//! ```
//! The dashed line left is the bound, the dashed line right what they would read if none waited. Published figures are hollow.

use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point, SERIES_COLOURS};
use crate::document::{Block, Table};
use crate::figures::{fed_cells, three_digits};
use raidlab_worlds::Feeding;

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

/// A section for each workload that was asked about.
pub(super) fn sections(fed: &[Feeding]) -> impl Iterator<Item = Block> {
    fed.iter().enumerate().map(|(index, found)| {
        let answer = match found.most {
            Some(most) if found.is_limit => {
                format!("feeds {most}, and not one more of those that were run.")
            }
            Some(most) => format!("feeds {most}, the most that was asked for."),
            None => "feeds none.".to_owned(),
        };
        let lead = format!(
            "{} {answer} Fed are those that compute for {} % of the time or more.",
            found.target, found.au_goal_pct
        );
        let mut body = vec![Block::paragraph(lead)];
        body.extend(figure(&[curve(found)], "MB/s", found.most));
        body.push(Block::table(table(found)));
        Block::section(
            format!("accelerators-{index}"),
            format!("{}: accelerators that are fed", found.workload),
            body,
        )
    })
}

fn curve(found: &Feeding) -> FedCurve {
    let point = |it: &raidlab_worlds::FedPoint| FedPlace {
        accelerators: it.accelerators,
        au_pct: it.au_pct,
        rate: it.mb_per_s,
    };
    FedCurve {
        name: found.workload.clone(),
        au_goal_pct: found.au_goal_pct,
        points: found.points.iter().map(point).collect(),
        published: None,
    }
}

fn table(found: &Feeding) -> Table {
    let header = ["accelerators", "AU %", "MB/s", "samples/s", "bound"];
    Table::plain(format!("{}, every number that was run", found.workload), &header, 0)
        .section(found.points.iter().map(fed_cells))
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
    Block::figure(
        vec![au, rate],
        "Utilisation and rate against the number of accelerators.",
        "Dashed: left the bound on utilisation, right what they would read if none waited. Hollow points are published.",
    )
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
