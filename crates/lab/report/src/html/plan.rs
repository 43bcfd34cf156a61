//! The page of a plan: the best arrays with their reasons, the chart of performance against cost, all figures, and what
//! was left out.
//!
//! In the chart a point is an array; hollow ones miss a need; a line joins those that nothing beats.

use super::page::{Document, FigureList, Page};
use super::{escaped, escaped_digits, notes, reason, section};
use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point};
use crate::figures::{grouped, three_digits};
use crate::terminal::{Estimated, MARK_MEANS, PlanAlternative, PlanPoint, PlanRow, PlanText, marked, size};

/// Prints `plan` as one HTML document.
pub fn plan(plan: &PlanText<'_>) -> Page {
    let applications = plan.applications.join(", ");
    let fits = plan.rows.first().is_some_and(|row| row.keeps_needs);
    let warnings = if fits {
        Vec::new()
    } else {
        vec!["No array keeps all needs; what follows comes closest.".to_owned()]
    };
    let mut figures = FigureList::default();
    let results = results(plan, &mut figures);
    let document = Document {
        kicker: "Storage plan",
        title: &format!("An array for {applications}"),
        question: &format!("{}.", plan.needs),
        facts: String::new(),
        body: cards(plan) + &results + &why_not(plan) + &notes(&plan.account),
        warnings: &warnings,
    };
    document.page(figures)
}

fn cards(plan: &PlanText<'_>) -> String {
    let card = |(index, row): (usize, &PlanRow<'_>)| {
        let figures: String = facts(plan, row)
            .iter()
            .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(value)))
            .collect();
        let kept = if row.keeps_needs { "keeps all needs" } else { "misses a need" };
        let roles: String = row.roles.iter().map(|role| format!(", {role}")).collect();
        let reason = reason(&row.reason.replace('\n', " "));
        format!(
            r#"<article class="card"><div class="choice"><p class="side">{}. {kept}{roles}</p><h3>{}</h3><p class="side">{}</p><dl class="figures">{figures}</dl>{reason}</div></article>"#,
            index + 1,
            escaped(row.label),
            escaped(row.settings),
        )
    };
    let cards: String = plan.rows.iter().enumerate().map(card).collect();
    if cards.is_empty() {
        cards
    } else {
        let marks = if plan.has_marks() { format!("<p>{MARK_MEANS}</p>") } else { String::new() };
        section("best", "The best", &format!(r#"{marks}<div class="cards">{cards}</div>"#))
    }
}

fn facts(plan: &PlanText<'_>, row: &PlanRow<'_>) -> Vec<(&'static str, String)> {
    let margin = |value: Option<f64>| value.map(|value| format!("{:+.0} %", 100.0 * value));
    let (margins, Estimated { speed, loss, life }) = (row.margins, row.estimated);
    let known = [
        ("usable", Some(format!("{} TB", three_digits(row.usable_bytes / 1e12)))),
        ("survives", Some(row.survives.to_string())),
        (
            "rebuild under load",
            row.rebuild_hours.map(|hours| marked(format!("{} h", three_digits(hours)), speed)),
        ),
        ("data loss in a year", row.loss.map(|(chance, _)| marked(format!("{chance:.1e}"), loss))),
        ("bytes lost in a year", row.loss.map(|(_, bytes)| marked(size(bytes), loss))),
        (
            "drives last",
            shortest_life(row).map(|years| marked(format!("{} years", three_digits(years)), life)),
        ),
        ("cost", row.cost.map(|cost| format!("{} {}", three_digits(cost), plan.currency))),
        ("power", row.watts.map(|watts| format!("{} W", three_digits(watts)))),
        ("margin: capacity", margin(Some(margins.usable))),
        ("throughput", margin(margins.throughput).map(|text| marked(text, speed))),
        ("latency", margin(margins.latency).map(|text| marked(text, speed))),
        ("budget", margin(margins.budget)),
        ("power bound", margin(margins.power)),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Years until the first application has used up what may be written to the drives.
fn shortest_life(row: &PlanRow<'_>) -> Option<f64> {
    row.life_years.iter().flatten().copied().reduce(f64::min)
}

fn results(plan: &PlanText<'_>, figures: &mut FigureList) -> String {
    let figure = figures.add(
        vec![pareto(plan)],
        &format!("Performance against {}.", plan.effort),
        "Each point is an array that was simulated, with the best settings found. Hollow points miss a need; the line joins those that \
         keep all needs and that no other beats in both.",
    );
    section("results", "Results", &(figure + &table(plan)))
}

fn table(plan: &PlanText<'_>) -> String {
    const HEAD: [&str; 9] = [
        "IOPS",
        "MB/s",
        "mean ms",
        "p99 ms",
        "in flight",
        "degraded IOPS",
        "degraded ms",
        "rebuilding IOPS",
        "rebuilding ms",
    ];
    let head: String = HEAD.iter().map(|name| format!(r#"<th scope="col">{name}</th>"#)).collect();
    let several = plan.applications.len() > 1;
    let application = if several { r#"<th scope="col" class="name">Application</th>"# } else { "" };
    let mut body = String::new();
    for (index, row) in plan.rows.iter().enumerate() {
        let digits = |value: f64| marked(escaped_digits(value), row.estimated.speed);
        for (app, own) in row.performance.iter().enumerate() {
            let fault = |list: &[raidlab_advisor::plan::Performance]| {
                list.get(app).map_or_else(
                    || "<td>-</td><td>-</td>".to_owned(),
                    |it| format!("<td>{}</td><td>{}</td>", digits(it.iops), digits(it.lat_ns_mean / 1e6)),
                )
            };
            let name = if several {
                format!(r#"<td class="name">{}</td>"#, escaped(plan.applications[app]))
            } else {
                String::new()
            };
            body += &format!(
                r#"<tr><th scope="row" class="name first label">{}. {}</th>{name}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}{}</tr>"#,
                index + 1,
                escaped(row.label),
                digits(own.iops),
                digits(own.bytes_per_sec / 1e6),
                digits(own.lat_ns_mean / 1e6),
                digits(own.tail.lat_ns_p99 as f64 / 1e6),
                own.iodepth,
                fault(row.degraded),
                fault(row.rebuilding)
            );
        }
    }
    format!(
        r#"<div class="scroll" role="region" aria-label="Figures of the best arrays" tabindex="0"><table class="plan"><thead><tr><th scope="col" class="name first">Array</th>{application}{head}</tr></thead><tbody>{body}</tbody></table></div>"#
    )
}

/// Each alternative in a line.
fn why_not(plan: &PlanText<'_>) -> String {
    if plan.alternatives.is_empty() {
        return String::new();
    }
    let row = |one: &PlanAlternative<'_>| {
        let figure = |of: &dyn Fn(&raidlab_advisor::plan::Performance) -> f64| {
            one.performance.map_or("-".to_owned(), |it| escaped_digits(of(it)))
        };
        format!(
            r#"<tr><th scope="row" class="name first label">{}</th><td class="name">{}</td><td>{}</td><td>{}</td><td class="name">{}</td></tr>"#,
            escaped(one.name),
            escaped(one.array.unwrap_or("-")),
            figure(&|it| it.iops),
            figure(&|it| it.tail.lat_ns_p99 as f64 / 1e6),
            escaped(one.verdict),
        )
    };
    let rows: String = plan.alternatives.iter().map(row).collect();
    let table = format!(
        r#"<div class="scroll" role="region" aria-label="Why not another array" tabindex="0"><table class="plan"><thead><tr><th scope="col" class="name first">Instead</th><th scope="col" class="name">Nearest</th><th scope="col">IOPS</th><th scope="col">p99 ms</th><th scope="col" class="name">Why not</th></tr></thead><tbody>{rows}</tbody></table></div>"#
    );
    section("why-not", "Why not another", &table)
}

fn pareto(plan: &PlanText<'_>) -> Chart {
    let pick = |is: &dyn Fn(&PlanPoint<'_>) -> bool| -> Vec<&PlanPoint<'_>> {
        let mut points: Vec<&PlanPoint<'_>> = plan.points.iter().filter(|point| is(point)).collect();
        points.sort_by(|a, b| a.effort.total_cmp(&b.effort).then(a.score.total_cmp(&b.score)));
        points
    };
    let groups = [
        ("misses a need", pick(&|it| !it.keeps_needs), None, Colour::Soft, 0),
        ("keeps all needs", pick(&|it| it.keeps_needs && !it.is_efficient), None, Colour::Series(0), 0),
        ("no other beats it", pick(&|it| it.is_efficient), Some(0), Colour::Series(1), 2),
    ];
    let mut marks = Vec::new();
    for (name, points, dash, colour, shape) in groups {
        let points: Vec<Point> = points.into_iter().map(|point| place(plan, point)).collect();
        if !points.is_empty() {
            let marker = Marker { is_hollow: colour == Colour::Soft, ..Marker::number(shape) };
            let line = Line::new(name, colour, points);
            marks.push(Mark::Line(Line { dash, marker: Some(marker), is_in_key: true, ..line }));
        }
    }
    let x = if plan.effort == "cost" {
        Axis::new(&format!("cost in {}", plan.currency))
    } else {
        Axis::new("drives, spares included")
    };
    Chart {
        heading: plan.score.clone(),
        label: format!("Scatter chart: {} of each simulated array against {}.", plan.score, plan.effort),
        x,
        y: Axis::new(&plan.score),
        marks,
        has_key: true,
        ..Chart::default()
    }
}

/// A point, and what a pointer shows of it.
fn place(plan: &PlanText<'_>, point: &PlanPoint<'_>) -> Point {
    let hover = format!(
        "{}\n{}\n{} at {} {}",
        point.label,
        point.settings,
        grouped(&three_digits(point.score)),
        plan.effort,
        grouped(&three_digits(point.effort)),
    );
    Point { x: point.effort, y: point.score, hover, ..Point::default() }
}
