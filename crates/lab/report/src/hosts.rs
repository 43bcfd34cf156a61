//! Sentences about several hosts that made a load together.

use crate::figures::three_digits;
use raidlab_units::NanoSpan;
use raidlab_workload::{HostsFacts, RunResult};

/// The sentences of every run that several hosts made, a line for each.
pub fn notes(runs: &[RunResult]) -> impl Iterator<Item = String> {
    runs.iter().filter_map(|run| {
        let said = sentences(run.hosts.as_ref()?).join(". ");
        Some(format!("{} at {}: {said}.", run.workload, run.offered_load()))
    })
}

/// How well they began together, how far their clocks are apart, and which was done first and last.
pub fn sentences(facts: &HostsFacts) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(clock) = facts.furthest_clock() {
        said.push(format!(
            "{} ranks with one start, the last began {} after it; clocks are apart by {} us at most (rank {} on {}, known to {})",
            facts.ranks.len(),
            NanoSpan(facts.started_ns_max()),
            three_digits(clock.clock_offset_ns.unsigned_abs() as f64 / 1e3),
            clock.rank,
            clock.host,
            NanoSpan(clock.clock_error_ns)
        ));
    }
    if let Some((first, last)) = facts.ends() {
        said.push(format!(
            "first done: rank {} on {} after {}; last done: rank {} on {} after {}",
            first.rank,
            first.host,
            NanoSpan(first.done_ns),
            last.rank,
            last.host,
            NanoSpan(last.done_ns)
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::RankFacts;

    #[test]
    fn both_ends_and_the_clocks_are_said() {
        let rank = |rank, done_ns, clock_offset_ns| RankFacts {
            rank,
            host: format!("h{rank}"),
            done_ns,
            clock_offset_ns,
            clock_error_ns: 2_000,
            started_ns: 1_000,
            ..RankFacts::default()
        };
        let facts = HostsFacts { ranks: vec![rank(0, 3_000_000_000, 0), rank(1, 2_000_000_000, -45_000)] };
        assert_eq!(
            sentences(&facts),
            [
                "2 ranks with one start, the last began 1.00 us after it; clocks are apart by 45.0 us at most (rank 1 on h1, known to 2.00 us)",
                "first done: rank 1 on h1 after 2.00 s; last done: rank 0 on h0 after 3.00 s"
            ]
        );
    }
}
