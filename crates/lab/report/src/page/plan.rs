//! The page of a plan: the best arrays with their reasons, the chart of performance against cost, all figures, and what
//! was left out.
//!
//! In the chart a point is an array; hollow ones miss a need; a line joins those that nothing beats.

use super::{digits, feeding};
use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point};
use crate::document::{Block, Document};
use crate::plan::{Best, account, applications, needs, score, why_not};
use raidlab_advisor::plan::ParetoPoint;
use raidlab_planning::{PlanOrder, PlanOutcome, Planned, SimulatedArray};
use raidlab_worlds::Feeding;

/// The page of a plan, with how many accelerators its best array feeds where that was asked, and the lines that set md for checkpoints.
pub fn plan(outcome: &PlanOutcome, order: &PlanOrder<'_>, fed: Option<(&Feeding, &[String])>) -> Document {
    let (arrays, names): (Vec<&Planned>, _) = (outcome.top.iter().collect(), applications(outcome));
    let best =
        Best { arrays: &arrays, applications: &names, needs: &order.needs, currency: &order.prices.currency };
    let mut body = Vec::new();
    if !outcome.fits() {
        body.push(Block::Warnings(vec!["No array keeps all needs; what follows comes closest.".to_owned()]));
    }
    if !arrays.is_empty() {
        let cards = best.marks().into_iter().chain([best.cards()]);
        body.push(Block::section("best", "The best", cards.collect()));
    }
    if let Some((fed, lines)) = fed {
        body.extend(feeding::sections(std::slice::from_ref(fed)));
        if !lines.is_empty() {
            body.push(Block::section(
                "checkpoint",
                "Linux md for a checkpoint at this rate",
                vec![Block::list(lines)],
            ));
        }
    }
    let figure = Block::figure(
        // One array alone is compared with nothing.
        (outcome.others.len() > 1).then(|| pareto(outcome, order)).into_iter().collect(),
        format!("Performance against {}.", outcome.effort()),
        "Each point is an array that was simulated, with the best settings found. Hollow points miss a need; the line joins those that \
         keep all needs and that no other beats in both.",
    );
    let mut results: Vec<Block> = figure.into_iter().collect();
    if !arrays.is_empty() {
        let tables = [best.service(), best.faults(), best.worth()];
        results.extend(tables.into_iter().filter(|table| !table.is_empty()).map(Block::table));
    }
    body.extend(Block::section_of("results", "Results", results));
    body.extend(
        why_not(outcome).map(|table| Block::section("why-not", "Why not another", vec![Block::table(table)])),
    );
    body.extend(Block::notes(&account(outcome, order)));
    Document {
        kicker: "Storage plan",
        title: format!("An array for {}", names.join(", ")),
        question: format!("{}.", needs(order)),
        facts: Vec::new(),
        body,
    }
}

/// An array that was simulated, and its place in the chart.
type Placed<'a> = (&'a ParetoPoint, &'a SimulatedArray);

fn pareto(outcome: &PlanOutcome, order: &PlanOrder<'_>) -> Chart {
    let effort = |point: &ParetoPoint| point.effort.unwrap_or(f64::NAN);
    let pick = |is: &dyn Fn(&ParetoPoint) -> bool| -> Vec<Placed<'_>> {
        let all = outcome.pareto.iter().zip(&outcome.others);
        let mut points: Vec<_> = all.filter(|(point, _)| point.effort.is_some() && is(point)).collect();
        points.sort_by(|(a, _), (b, _)| effort(a).total_cmp(&effort(b)).then(a.score.total_cmp(&b.score)));
        points
    };
    let groups = [
        ("misses a need", pick(&|it| !it.keeps_needs), None, Colour::Soft, 0),
        ("keeps all needs", pick(&|it| it.keeps_needs && !it.is_efficient), None, Colour::Series(0), 0),
        ("no other beats it", pick(&|it| it.is_efficient), Some(0), Colour::Series(1), 2),
    ];
    let mut marks = Vec::new();
    for (name, points, dash, colour, shape) in groups {
        let points: Vec<Point> = points.into_iter().map(|placed| place(outcome, placed)).collect();
        if !points.is_empty() {
            let marker = Marker { is_hollow: colour == Colour::Soft, ..Marker::number(shape) };
            let line = Line::new(name, colour, points);
            marks.push(Mark::Line(Line { dash, marker: Some(marker), is_in_key: true, ..line }));
        }
    }
    let x = if outcome.has_prices {
        Axis::new(format!("cost in {}", order.prices.currency).trim_end())
    } else {
        Axis::new("assumed cost in terabytes of disk")
    };
    let score = score(order);
    Chart {
        label: format!("Scatter chart: {score} of each simulated array against {}.", outcome.effort()),
        x,
        y: Axis::new(&score),
        heading: score,
        marks,
        has_key: true,
        ..Chart::default()
    }
}

/// A point, and what a pointer shows of it.
fn place(outcome: &PlanOutcome, (point, array): Placed<'_>) -> Point {
    let effort = point.effort.unwrap_or(f64::NAN);
    let hover = format!(
        "{}\n{}\n{} at {} {}",
        array.label,
        array.settings_label,
        digits(point.score),
        outcome.effort(),
        digits(effort),
    );
    Point { x: effort, y: point.score, hover, ..Point::default() }
}
