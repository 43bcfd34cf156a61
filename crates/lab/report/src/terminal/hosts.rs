//! The hosts that made a load together: their clocks, when each began and ended, and their results.

use super::{TerminalOptions, broken, printable, table};
use crate::figures::three_digits;
use raidlab_workload::{HostsFacts, RankFacts, RunResult};

/// Of each of `runs` that several hosts made, the sentences and the table; nothing where none was.
pub fn hosts(runs: &[RunResult], options: TerminalOptions) -> String {
    let of_run = |run: &RunResult| {
        let lines = lines(run.hosts.as_ref()?, options);
        Some(format!("  {} at {}\n{lines}", printable(&run.workload), run.offered_load()))
    };
    runs.iter().filter_map(of_run).collect()
}

/// The sentences and the table.
pub(super) fn lines(facts: &HostsFacts, options: TerminalOptions) -> String {
    let mut text = String::new();
    for sentence in crate::hosts::sentences(facts) {
        text += &broken(&format!("  {}\n", printable(&sentence)), options.width);
    }
    let header = ["rank", "host", "clock us", "+- us", "began us", "done s", "requests", "IOPS", "MB/s"];
    let row = |rank: &RankFacts| {
        let micros = |ns: f64| three_digits(ns / 1e3);
        let per_sec = |count: u64| count as f64 * 1e9 / rank.window_ns.max(1) as f64;
        vec![
            rank.rank.to_string(),
            rank.host.clone(),
            micros(rank.clock_offset_ns as f64),
            micros(rank.clock_error_ns as f64),
            micros(rank.started_ns as f64),
            three_digits(rank.done_ns as f64 / 1e9),
            rank.requests.to_string(),
            three_digits(per_sec(rank.requests)),
            three_digits(per_sec(rank.bytes) / 1e6),
        ]
    };
    text + &table(&header, 2, vec![facts.ranks.iter().map(row).collect()], options)
}
