//! What `plan` found: the best arrays with margins, degraded and rebuilding, why, and what was left out.

use super::grid::{Grid, GridCell};
use super::risk::size;
use super::{TerminalOptions, heading, wrapped};
use crate::figures::three_digits;
use raidlab_advisor::plan::{Margins, Performance};

/// One of the best arrays, in words and figures.
#[derive(Clone, Debug)]
pub struct PlanRow<'a> {
    /// The array in words.
    pub label: &'a str,
    /// Its settings in words.
    pub settings: &'a str,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// What each application gets.
    pub performance: &'a [Performance],
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
    /// Why it stands where it stands.
    pub reason: &'a str,
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
    /// What prices are in.
    pub currency: &'a str,
}

/// Prints a plan.
pub fn plan(plan: &PlanText<'_>, options: TerminalOptions) -> String {
    let mut text = wrapped(&format!("Needs: {}.", plan.needs), options.width, 0);
    text += "\n";
    if !plan.rows.is_empty() {
        text += &grid(plan).render(options);
        text += "\n";
    }
    for (index, row) in plan.rows.iter().enumerate() {
        text += &heading(&format!("{}. {}", index + 1, row.label), options);
        text += "\n";
        text += &wrapped(row.settings, options.width, 3);
        text += &wrapped(row.reason, options.width, 3);
    }
    text += "\n";
    plan.account.iter().fold(text, |text, line| text + &wrapped(line, options.width, 0))
}

fn grid(plan: &PlanText<'_>) -> Grid {
    let header = [
        "No",
        "Application",
        "Needs",
        "IOPS",
        "MB/s",
        "Mean ms",
        "p99 ms",
        "Depth",
        "Margin %",
        "Degraded",
        "Rebuilding",
        "Rebuild h",
        "Loss/year",
        "Lost/year",
        "Life years",
        "Usable TB",
        "Survives",
        "Cost",
        "W",
    ];
    let section = |(index, row): (usize, &PlanRow<'_>)| {
        row.performance
            .iter()
            .enumerate()
            .map(|(app, figures)| cells(plan, (index, row), (app, figures)))
            .collect::<Vec<_>>()
    };
    Grid {
        header: header.map(str::to_owned).to_vec(),
        first_number: 3,
        sections: plan.rows.iter().enumerate().map(section).collect(),
        gap: 2,
        ..Grid::default()
    }
}

fn cells(
    plan: &PlanText<'_>,
    (index, row): (usize, &PlanRow<'_>),
    (app, figures): (usize, &Performance),
) -> Vec<GridCell> {
    let known = |value: Option<f64>| value.map_or("-".to_owned(), three_digits);
    let iops = |list: &[Performance]| known(list.get(app).map(|it| it.iops));
    let margins = [row.margins.throughput, row.margins.latency, row.margins.budget, row.margins.power];
    let least = margins.into_iter().flatten().chain([row.margins.usable]).reduce(f64::min);
    [
        (index + 1).to_string(),
        plan.applications[app].to_owned(),
        if row.keeps_needs { "kept" } else { "missed" }.to_owned(),
        three_digits(figures.iops),
        three_digits(figures.bytes_per_sec / 1e6),
        three_digits(figures.lat_ns_mean / 1e6),
        three_digits(figures.tail.lat_ns_p99 as f64 / 1e6),
        figures.iodepth.to_string(),
        known(least.map(|margin| 100.0 * margin)),
        iops(row.degraded),
        iops(row.rebuilding),
        known(row.rebuild_hours),
        row.loss.map_or("-".to_owned(), |(chance, _)| format!("{chance:.1e}")),
        row.loss.map_or("-".to_owned(), |(_, bytes)| size(bytes)),
        known(row.life_years.get(app).copied().flatten()),
        three_digits(row.usable_bytes / 1e12),
        row.survives.to_string(),
        row.cost.map_or("-".to_owned(), |cost| format!("{} {}", three_digits(cost), plan.currency)),
        known(row.watts),
    ]
    .map(GridCell::plain)
    .to_vec()
}
