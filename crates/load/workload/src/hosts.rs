//! Several hosts that made one load together: their names, clock offsets, and when each began and ended.
//!
//! ```text
//! common start                      first done          last done
//!      │ rank 0 ────────────────────────────│                 │
//!      │── late ─ rank 1 ─────────────────────────────────────│
//! ```
//! Rates of a window are those of all ranks together. If ranks end at different times, all hosts carry load until the
//! first is done; both ends are kept, because the rates by each differ.

use serde::{Deserialize, Serialize};

/// One process of those that made the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RankFacts {
    /// Its number, from 0.
    pub rank: u32,
    /// The host it ran on.
    pub host: String,
    /// Its wall clock less that of rank 0.
    pub clock_offset_ns: i64,
    /// How far off that figure may be: half the shortest way to the rank and back.
    pub clock_error_ns: u64,
    /// How long after the common start its first request was made, by its own clock.
    pub started_ns: u64,
    /// From the common start to the return of its last request.
    pub done_ns: u64,
    /// Requests completed in its window.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Length of its window.
    pub window_ns: u64,
}

/// The processes that made a load together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HostsFacts {
    /// Each, by number.
    pub ranks: Vec<RankFacts>,
}

impl HostsFacts {
    /// The rank that was done first, and the one that was done last; none without ranks.
    pub fn ends(&self) -> Option<(&RankFacts, &RankFacts)> {
        let by_end = |rank: &&RankFacts| (rank.done_ns, rank.rank);
        Some((self.ranks.iter().min_by_key(by_end)?, self.ranks.iter().max_by_key(by_end)?))
    }

    /// How long after the common start the last rank began.
    pub fn started_ns_max(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.started_ns).max().unwrap_or(0)
    }

    /// The rank whose wall clock is furthest from that of rank 0; none without ranks.
    pub fn furthest_clock(&self) -> Option<&RankFacts> {
        self.ranks.iter().max_by_key(|rank| (rank.clock_offset_ns.unsigned_abs(), rank.clock_error_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_found() {
        let rank = |rank, started_ns, done_ns, clock_offset_ns| RankFacts {
            rank,
            clock_offset_ns,
            started_ns,
            done_ns,
            ..RankFacts::default()
        };
        let facts = HostsFacts { ranks: vec![rank(0, 5, 90, 0), rank(1, 7, 70, -300), rank(2, 1, 120, 200)] };
        let (first, last) = facts.ends().unwrap();
        assert_eq!((first.rank, last.rank, facts.started_ns_max()), (1, 2, 7));
        assert_eq!(facts.furthest_clock().unwrap().rank, 1);
        assert_eq!(HostsFacts::default().ends(), None);
    }
}
