//! Where the time of a run's requests went, of all and of the slowest, by station.

use super::TerminalOptions;
use crate::document::{Block, Table, render};
use raidlab_units::NanoSpan;
use raidlab_workload::{StationTimes, TimesFacts};

/// The table, at most 80 characters wide.
pub(super) fn times(facts: &TimesFacts, options: TerminalOptions) -> String {
    let heads = ["waiting", "service", "%"];
    let header: Vec<&str> = ["where the time goes"].into_iter().chain(heads).chain(heads).collect();
    let totals = facts.lat_ns_means();
    let stations = facts.stations.iter().map(|it| row(&it.station, means(it), totals));
    let sums = facts.stations.iter().map(means).fold([[0.0; 2]; 2], |sums, of| {
        std::array::from_fn(|part| std::array::from_fn(|kind| sums[part][kind] + of[part][kind]))
    });
    let table = Table { gap: 1, ..Table::plain("", &header, 1) }
        .group(1..4, "mean of all")
        .group(4..7, "of slowest 1 %")
        .section(stations)
        .section([row("all", sums, totals)]);
    render([Block::table(table)], options).lines().map(|line| format!("  {line}\n")).collect()
}

/// Waiting and service, of all requests and of the slowest.
fn means(it: &StationTimes) -> [[f64; 2]; 2] {
    [[it.waiting_ns_mean, it.service_ns_mean], [it.slowest_waiting_ns_mean, it.slowest_service_ns_mean]]
}

fn row(name: &str, means: [[f64; 2]; 2], totals: [f64; 2]) -> Vec<String> {
    let span = |ns: f64| if ns < 0.5 { "-".to_owned() } else { NanoSpan(ns.round() as u64).to_string() };
    let cells = means.into_iter().zip(totals).flat_map(|([waiting, service], total)| {
        [span(waiting), span(service), format!("{:.1}", 100.0 * (waiting + service) / total)]
    });
    std::iter::once(name.to_owned()).chain(cells).collect()
}
