//! Results of `plan`: the best arrays with margins, degraded and rebuilding, the reasons, and what was left out.

use super::grid::Grid;
use super::risk::size;
use super::{TerminalOptions, heading, wrapped};
use crate::figures::three_digits;
use raidlab_advisor::plan::{Margins, Performance};

/// One of the best arrays, in words and figures.
#[derive(Clone, Debug)]
pub struct PlanRow<'a> {
    /// The array in words.
    pub label: &'a str,
    /// Its level, `10`.
    pub level: String,
    /// Its members, and hot spares beside them.
    pub members: u16,
    /// Hot spares.
    pub spares: u16,
    /// Its drives, by their name in the catalogue.
    pub drive: &'a str,
    /// Its controller.
    pub controller: &'a str,
    /// What it is shown for.
    pub roles: Vec<&'static str>,
    /// Parts that have to be bought, where some are there already.
    pub adds: Option<&'a str>,
    /// Its settings in words.
    pub settings: &'a str,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// What each application gets.
    pub performance: &'a [Performance],
    /// The same alone, where applications run together.
    pub alone: &'a [Performance],
    /// With a member missing.
    pub degraded: &'a [Performance],
    /// While that is rebuilt.
    pub rebuilding: &'a [Performance],
    /// How far it is from the needs.
    pub margins: Margins,
    /// What the host sees, in bytes.
    pub usable_bytes: f64,
    /// Failures survived, whichever they are.
    pub survives: u16,
    /// Time of a rebuild under load, in hours.
    pub rebuild_hours: Option<f64>,
    /// Chance of data loss in a year, and bytes that are lost in it, expected.
    pub loss: Option<(f64, f64)>,
    /// Years that solid-state drives last under each application.
    pub life_years: Vec<Option<f64>>,
    /// Cost.
    pub cost: Option<f64>,
    /// Power in watts.
    pub watts: Option<f64>,
    /// Which of these rest on estimates.
    pub estimated: Estimated,
    /// Why it stands where it stands.
    pub reason: &'a str,
}

/// Why the answer is not of another kind.
#[derive(Clone, Debug)]
pub struct PlanAlternative<'a> {
    /// What it differs in: `level`.
    pub kind: &'static str,
    /// `RAID 6`.
    pub name: &'a str,
    /// The array that came nearest.
    pub array: Option<&'a str>,
    /// What it gets.
    pub performance: Option<&'a Performance>,
    /// What it costs.
    pub cost: Option<f64>,
    /// Why it is not the answer.
    pub verdict: &'a str,
}

/// Which figures of an array rest on parts' figures that somebody estimated or fitted.
#[derive(Clone, Copy, Debug)]
pub struct Estimated {
    /// Rates, latencies and the time of a rebuild.
    pub speed: bool,
    /// The chance of data loss.
    pub loss: bool,
    /// How long drives last.
    pub life: bool,
}

/// What the mark means.
pub(crate) const MARK_MEANS: &str = "~ marks what rests on estimated or fitted figures of the parts; the first reason counts them, --json names them.";

/// A figure, with the mark if it is an estimate.
pub(crate) fn marked(figure: String, is_estimated: bool) -> String {
    if is_estimated && figure != "-" { format!("~{figure}") } else { figure }
}

impl PlanText<'_> {
    /// Whether any figure has the mark.
    pub(crate) fn has_marks(&self) -> bool {
        let has = |row: &PlanRow<'_>| row.estimated.speed || row.estimated.loss || row.estimated.life;
        self.rows.iter().any(has)
    }
}

/// An array that was simulated, in the chart of performance against effort.
#[derive(Clone, Debug)]
pub struct PlanPoint<'a> {
    /// The array in words.
    pub label: &'a str,
    /// Its settings in words.
    pub settings: &'a str,
    /// Cost, or drives.
    pub effort: f64,
    /// What is ranked.
    pub score: f64,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// Whether none that keeps them is as fast for less, or faster for as much.
    pub is_efficient: bool,
}

/// A plan.
#[derive(Clone, Debug)]
pub struct PlanText<'a> {
    /// The needs in words.
    pub needs: String,
    /// Every array that was simulated.
    pub points: Vec<PlanPoint<'a>>,
    /// What effort is: `cost` or `drives`.
    pub effort: &'static str,
    /// What is ranked, with its unit.
    pub score: String,
    /// The best, best first.
    pub rows: Vec<PlanRow<'a>>,
    /// Names of the applications.
    pub applications: Vec<&'a str>,
    /// What was looked at and left out, sentence by sentence.
    pub account: Vec<String>,
    /// Why not another level, other drives, another controller.
    pub alternatives: Vec<PlanAlternative<'a>>,
    /// What prices are in.
    pub currency: &'a str,
}

/// Arrays that share an enclosure, and who is on which.
#[derive(Clone, Debug)]
pub struct TiersText<'a> {
    /// The answer in a few words.
    pub answer: String,
    /// The needs in words.
    pub needs: String,
    /// Each array with its applications, as a plan of one row.
    pub arrays: Vec<PlanText<'a>>,
    /// What each application of `arrays`, in their order, gets while all run.
    pub performance: Vec<Performance>,
    /// What else was found, sentence by sentence.
    pub account: Vec<String>,
}

/// Prints a plan: the answer, figures, then the reasons.
pub fn plan(plan: &PlanText<'_>, options: TerminalOptions) -> String {
    let mut text = String::new();
    if let Some(best) = plan.rows.first() {
        let verdict = if best.keeps_needs { "Best" } else { "Nothing keeps all needs; nearest" };
        text += &heading(&format!("{verdict}: {}", best.label), options);
        text += "\n";
        text += &wrapped(best.settings, options.width, 3);
        if let Some(adds) = best.adds {
            text += &wrapped(&format!("To add: {adds}."), options.width, 3);
        }
    }
    text += &wrapped(&format!("Needs: {}.", plan.needs), options.width, 0);
    text += "\n";
    if !plan.rows.is_empty() {
        text += &arrays(plan).render(options);
        text += "\n";
        text += &service(plan).render(options);
        text += "\n";
        text += &worth(plan).render(options);
        text += "\n";
    }
    if plan.has_marks() {
        text += &wrapped(MARK_MEANS, options.width, 0);
        text += "\n";
    }
    for (index, row) in plan.rows.iter().enumerate() {
        text += &array(index + 1, row, options);
    }
    if !plan.rows.is_empty() {
        text += "\n";
    }
    if !plan.alternatives.is_empty() {
        text += &heading("Why not another", options);
        text += "\n";
        text += &why_not(plan).render(options);
        text += "\n";
    }
    plan.account.iter().fold(text, |text, line| text + &account(line, options))
}

/// Prints arrays that share an enclosure: the answer, what each application gets, then array by array.
pub fn tiers(tiers: &TiersText<'_>, options: TerminalOptions) -> String {
    let mut text = heading(&tiers.answer, options) + "\n";
    for (index, one) in tiers.arrays.iter().enumerate() {
        let label = one.rows.first().map_or("", |row| row.label);
        let line = format!("{}. {label}, for {}", index + 1, one.applications.join(" and "));
        text += &wrapped(&line, options.width, 3);
    }
    text += &wrapped(&format!("Needs: {}.", tiers.needs), options.width, 0);
    text += "\n";
    text += &everyone(tiers).render(options);
    text += "\n";
    if tiers.arrays.iter().any(PlanText::has_marks) {
        text += &wrapped(MARK_MEANS, options.width, 0);
        text += "\n";
    }
    for (index, one) in tiers.arrays.iter().enumerate() {
        for row in &one.rows {
            text += &array(index + 1, row, options);
            text += "\n";
            text += &worth(one).render(options);
            text += "\n";
        }
    }
    tiers.account.iter().fold(text, |text, line| text + &account(line, options))
}

/// A line of the account; what continues an item of a list stands behind its dash.
fn account(line: &str, options: TerminalOptions) -> String {
    match line.strip_prefix("- ") {
        Some(item) => format!("- {}", wrapped(item, options.width, 2).trim_start()),
        None => wrapped(line, options.width, 0),
    }
}

/// An array with its settings, and why it stands where it stands.
fn array(number: usize, row: &PlanRow<'_>, options: TerminalOptions) -> String {
    let title = heading(&format!("{number}. {}", row.label), options);
    let lines = row.reason.lines().map(|line| item(line, options));
    title + "\n" + &wrapped(row.settings, options.width, 3) + &lines.collect::<String>()
}

/// A line of a list under an array.
fn item(line: &str, options: TerminalOptions) -> String {
    format!("   - {}", wrapped(line, options.width, 5).trim_start())
}

/// Number, level and members of an array; its drives and controller are in the first table.
fn short_name(index: usize, row: &PlanRow<'_>) -> String {
    let spares = if row.spares > 0 { format!("+{}", row.spares) } else { String::new() };
    format!("{} RAID {} x{}{spares}", index + 1, row.level, row.members)
}

/// Which arrays there are, and what each is shown for.
fn arrays(plan: &PlanText<'_>) -> Grid {
    let header = ["Array", "Drives", "Controller", "Shown for", "To add"];
    let cells = |(index, row): (usize, &PlanRow<'_>)| {
        // More than two would be a list.
        let roles: Vec<&str> = row.roles.iter().take(2).copied().collect();
        let adds = row.adds.unwrap_or("-").to_owned();
        vec![short_name(index, row), row.drive.to_owned(), row.controller.to_owned(), roles.join(", "), adds]
    };
    grid_of(&header, 5, &[plan.rows.iter().enumerate().map(cells).collect()])
}

/// Each alternative in a line.
fn why_not(plan: &PlanText<'_>) -> Grid {
    let header = ["", "Nearest", "IOPS", "p99 ms", "Why not"];
    let cells = |one: &PlanAlternative<'_>| {
        let figure = |of: &dyn Fn(&Performance) -> f64| known(one.performance.map(of));
        let nearest = one.array.map_or("-", |label| label.split(',').next().unwrap_or(label));
        vec![
            one.name.to_owned(),
            nearest.replace(" of ", " "),
            figure(&|it| it.iops),
            figure(&|it| it.tail.lat_ns_p99 as f64 / 1e6),
            one.verdict.to_owned(),
        ]
    };
    let mut sections: Vec<(&str, Vec<Vec<String>>)> = Vec::new();
    for one in &plan.alternatives {
        match sections.last_mut() {
            Some((kind, rows)) if *kind == one.kind => rows.push(cells(one)),
            _ => sections.push((one.kind, vec![cells(one)])),
        }
    }
    let sections: Vec<_> = sections.into_iter().map(|(_, rows)| rows).collect();
    grid_of(&header, 5, &sections)
}

fn known(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), three_digits)
}

/// A grid of `rows`, without the columns that say nothing of any of them.
fn grid_of(header: &[&str], first_number: usize, sections: &[Vec<Vec<String>>]) -> Grid {
    let says = |column: &usize| sections.iter().flatten().any(|row| row[*column] != "-");
    let columns: Vec<usize> = (0..header.len()).filter(says).collect();
    let pick = |row: &Vec<String>| columns.iter().map(|at| row[*at].clone()).collect();
    let header: Vec<&str> = columns.iter().map(|at| header[*at]).collect();
    let first_number = columns.iter().filter(|at| **at < first_number).count();
    let sections = sections.iter().map(|rows| rows.iter().map(pick).collect()).collect();
    Grid::plain(&header, first_number, sections)
}

/// Figures of an application: requests, bytes, latency and requests in flight.
fn figures(it: &Performance, is_estimated: bool) -> [String; 5] {
    let figure = |value: f64| marked(three_digits(value), is_estimated);
    [
        figure(it.iops),
        figure(it.bytes_per_sec / 1e6),
        figure(it.lat_ns_mean / 1e6),
        figure(it.tail.lat_ns_p99 as f64 / 1e6),
        it.iodepth.to_string(),
    ]
}

/// What each application gets, whole and with faults.
fn service(plan: &PlanText<'_>) -> Grid {
    let header = [
        "Array",
        "Application",
        "Needs",
        "IOPS",
        "MB/s",
        "Mean ms",
        "p99 ms",
        "Depth",
        "Alone",
        "Degraded",
        "Rebuilding",
    ];
    let several = plan.applications.len() > 1;
    let any_misses = plan.rows.iter().any(|row| !row.keeps_needs);
    let section = |(index, row): (usize, &PlanRow<'_>)| {
        let of_app = |(app, it): (usize, &Performance)| {
            let is_estimated = row.estimated.speed;
            let iops = |list: &[Performance]| marked(known(list.get(app).map(|it| it.iops)), is_estimated);
            let name = if several { plan.applications[app] } else { "-" };
            let kept = match row.keeps_needs {
                _ if !any_misses => "-",
                true => "kept",
                false => "missed",
            };
            let mut cells = vec![short_name(index, row), name.to_owned(), kept.to_owned()];
            cells.extend(figures(it, is_estimated));
            cells.extend([iops(row.alone), iops(row.degraded), iops(row.rebuilding)]);
            cells
        };
        row.performance.iter().enumerate().map(of_app).collect()
    };
    grid_of(&header, 3, &plan.rows.iter().enumerate().map(section).collect::<Vec<_>>())
}

/// What an array holds, risks and takes.
fn worth(plan: &PlanText<'_>) -> Grid {
    let header =
        ["Array", "Margin %", "TB", "Survives", "Rebuild h", "Loss/year", "Lost/year", "Years", "Cost", "W"];
    let cells = |(index, row): (usize, &PlanRow<'_>)| {
        let margins = [row.margins.throughput, row.margins.latency, row.margins.budget, row.margins.power];
        let least = margins.into_iter().flatten().chain([row.margins.usable]).reduce(f64::min);
        let estimated = row.estimated;
        let life = row.life_years.iter().flatten().copied().reduce(f64::min);
        let cells = [
            short_name(index, row),
            marked(known(least.map(|margin| 100.0 * margin)), estimated.speed),
            three_digits(row.usable_bytes / 1e12),
            row.survives.to_string(),
            marked(known(row.rebuild_hours), estimated.speed),
            row.loss.map_or("-".to_owned(), |(chance, _)| marked(format!("{chance:.1e}"), estimated.loss)),
            row.loss.map_or("-".to_owned(), |(_, bytes)| marked(size(bytes), estimated.loss)),
            marked(known(life), estimated.life),
            row.cost.map_or("-".to_owned(), |cost| format!("{} {}", three_digits(cost), plan.currency)),
            known(row.watts),
        ];
        vec![cells.to_vec()]
    };
    grid_of(&header, 1, &plan.rows.iter().enumerate().map(cells).collect::<Vec<_>>())
}

/// What each application gets of its array, and with all others at work.
fn everyone(tiers: &TiersText<'_>) -> Grid {
    let header = ["Application", "Array", "IOPS", "MB/s", "Mean ms", "p99 ms", "Depth", "Alone"];
    let mut rows = Vec::new();
    for (index, one) in tiers.arrays.iter().enumerate() {
        let row = one.rows.first();
        let alone = row.map_or(&[][..], |row| row.alone);
        let is_estimated = row.is_some_and(|row| row.estimated.speed);
        for (app, name) in one.applications.iter().enumerate() {
            let mut cells = vec![(*name).to_owned(), (index + 1).to_string()];
            cells.extend(figures(&tiers.performance[rows.len()], is_estimated));
            cells.push(marked(known(alone.get(app).map(|it| it.iops)), is_estimated));
            rows.push(cells);
        }
    }
    grid_of(&header, 1, &[rows])
}

#[cfg(test)]
mod tests {
    use super::{TerminalOptions, account};

    #[test]
    fn what_continues_an_item_stands_behind_its_dash() {
        let options = TerminalOptions { width: 24, colour: false };
        let table = [
            ("one two three four five six seven", "one two three four five\nsix seven\n"),
            ("- one two three four five six seven", "- one two three four\n  five six seven\n"),
        ];
        for (line, expected) in table {
            assert_eq!(account(line, options), expected);
        }
    }
}
