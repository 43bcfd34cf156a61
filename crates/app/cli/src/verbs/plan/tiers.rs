//! A plan of up to two arrays in one enclosure, as text and as JSON.

use super::{Args, row, words};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use raidlab_hosts::Hosts;
use raidlab_planning::{Placement, PlanOrder, SearchEnd, Tier, TiersOutcome, plan_tiers};
use raidlab_report::terminal::{PlanText, TiersText};
use std::time::Instant;

/// Plans it and tells what was found.
pub(super) fn run(
    args: &Args,
    order: &PlanOrder<'_>,
    output: &Output,
    hosts: &mut Hosts,
) -> Result<Exit, Failure> {
    let mut progress = Progress::start_on(hosts);
    let (started, time) = (Instant::now(), args.search_time());
    let mut has_time = |share: f64| time.is_none_or(|time| started.elapsed() < time.mul_f64(share));
    let outcome = plan_tiers(order, hosts, &mut has_time, &mut |label, done| progress.show(label, done));
    let outcome = outcome.map_err(super::failure)?;
    progress.end();
    if hosts.leads() && output.is_json() {
        print_answer(&outcome)?;
    } else if hosts.leads() {
        print(&raidlab_report::terminal::tiers(&to_text(&outcome, order), output.terminal()))?;
    }
    Ok(if outcome.best().is_some() { Exit::Done } else { Exit::BoundMissed })
}

fn name<'a>(order: &'a PlanOrder<'_>, app: usize) -> &'a str {
    order.applications[app].workload.name()
}

fn names(order: &PlanOrder<'_>, apps: &[usize]) -> String {
    apps.iter().map(|app| name(order, *app)).collect::<Vec<_>>().join(" and ")
}

/// What a placement takes.
fn takes(placement: &Placement, outcome: &TiersOutcome, order: &PlanOrder<'_>) -> String {
    let drives = format!("{} drives", placement.drives);
    if !placement.effort.is_finite() {
        format!("{drives}, without a known price")
    } else if outcome.has_prices {
        format!("{drives}, {:.0} {}", placement.effort, order.prices.currency).trim_end().to_owned()
    } else {
        drives
    }
}

fn to_text<'a>(outcome: &'a TiersOutcome, order: &'a PlanOrder<'_>) -> TiersText<'a> {
    let best = outcome.best();
    let answer = match best {
        Some(one) if one.arrays.len() == 1 => {
            format!("Best: one array for all, {}", takes(one, outcome, order))
        }
        Some(two) => format!("Best: two arrays in one enclosure, {}", takes(two, outcome, order)),
        None => "Nothing that was looked at keeps all needs.".to_owned(),
    };
    let array = |tier: &'a Tier| PlanText {
        needs: String::new(),
        points: Vec::new(),
        effort: "",
        score: String::new(),
        rows: vec![row(&tier.planned)],
        applications: tier.applications.iter().map(|app| name(order, *app)).collect(),
        account: Vec::new(),
        alternatives: Vec::new(),
        currency: &order.prices.currency,
    };
    let placed = || best.iter().flat_map(|best| best.arrays.iter().map(move |tier| (*best, tier)));
    let in_order =
        placed().flat_map(|(best, tier)| tier.applications.iter().map(|app| best.performance[*app]));
    TiersText {
        answer,
        needs: words::needs(order),
        performance: in_order.collect(),
        arrays: placed().map(|(_, tier)| array(tier)).collect(),
        account: account(outcome, order),
    }
}

fn account(outcome: &TiersOutcome, order: &PlanOrder<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let label = |placement: &Placement| {
        let each = placement.arrays.iter().map(|tier| tier.planned.label.as_str());
        each.collect::<Vec<_>>().join(" and ")
    };
    let is_two = outcome.best().is_some_and(|best| best.arrays.len() == 2);
    lines.push(match (&outcome.one, is_two) {
        (Some(one), true) => {
            format!("One array for all takes {}: {}.", takes(one, outcome, order), label(one))
        }
        (None, true) => "No single array that was looked at keeps the needs of all.".to_owned(),
        (_, false) => "No two arrays that were looked at keep the needs of all for less.".to_owned(),
    });
    let best = outcome.best();
    lines
        .extend(best.iter().flat_map(|best| &best.arrays).flat_map(|tier| words::md_settings(&tier.planned)));
    for search in &outcome.searches {
        let apps = names(order, &search.applications);
        let end = match search.end {
            SearchEnd::Proven => "it is complete".to_owned(),
            SearchEnd::Time => {
                format!("--search-time ended it with {} that could be better", search.left_out)
            }
            SearchEnd::Simulations => {
                format!("--simulations ended it with {} that could be better", search.left_out)
            }
        };
        lines.push(format!(
            "Search for {apps}: {} geometries left by arithmetic, {} runs; {end}.",
            search.kept, search.simulated
        ));
    }
    lines
}
