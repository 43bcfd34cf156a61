//! Clocks of different hosts: their offsets, and a start at the same moment.
//!
//! ```text
//! rank 0   t0 ───────────╲           ╱─────── t1        offset = t − (t0 + t1) / 2
//! rank r                  ╲── t ──╱                     error (t1 − t0) / 2 at most
//! ```
//! Of many such exchanges the quickest is used, since its bound is tightest. The bound holds whatever the two
//! directions take: `t` was read between `t0` and `t1`. The start uses the monotonic clocks, which have arbitrary
//! origins; the offset of the wall clocks is reported.
//!
//! Source: F. Cristian, *Probabilistic clock synchronization*, 1989.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Exchanges with each rank.
pub(crate) const EXCHANGES: u32 = 40;

/// A reading of both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) monotonic_ns: i64,
    pub(crate) wall_ns: i64,
}

impl Reading {
    pub(crate) fn now() -> Self {
        Self { monotonic_ns: read(ClockId::Monotonic), wall_ns: read(ClockId::Realtime) }
    }
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds of this host's monotonic clock.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic) as u64
}

/// How far a rank's clocks are ahead of those of rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The wall clock.
    pub wall_ns: i64,
    /// The monotonic clock.
    pub monotonic_ns: i64,
    /// How far off both may be.
    pub error_ns: u64,
}

/// What one exchange says of clock `clock`: the offset, and how far off it may be.
fn offset(before: i64, theirs: i64, after: i64) -> (i64, u64) {
    let way = after.saturating_sub(before).max(0);
    (theirs - (before + way / 2), way.cast_unsigned().div_ceil(2))
}

/// The closest that exchanges say, each as readings before, there and after.
pub(crate) fn closest(exchanges: &[(Reading, Reading, Reading)]) -> ClockOffset {
    let of = |(before, theirs, after): &(Reading, Reading, Reading)| {
        let (monotonic_ns, way) = offset(before.monotonic_ns, theirs.monotonic_ns, after.monotonic_ns);
        let (wall_ns, wall_way) = offset(before.wall_ns, theirs.wall_ns, after.wall_ns);
        // Wall clocks may be set meanwhile: a way of theirs that is shorter than the monotonic one proves nothing.
        ClockOffset { wall_ns, monotonic_ns, error_ns: way.max(wall_way) }
    };
    exchanges.iter().map(of).min_by_key(|offset| offset.error_ns).unwrap_or_default()
}

/// A start that all ranks have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonStart {
    /// When, by this host's monotonic clock; none where there is nobody to wait for.
    pub at_monotonic_ns: Option<u64>,
    /// The clocks of all ranks, by number.
    pub clocks: Vec<ClockOffset>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_exchange_bounds_the_offset() {
        let at = |ns: i64| Reading { monotonic_ns: ns, wall_ns: ns + 1_000_000 };
        // The other clock is 500 ahead; the ways there and back take (10, 90), (20, 20) and (300, 5).
        let exchange = |start: i64, there: i64, back: i64| {
            (at(start), at(start + there + 500), at(start + there + back))
        };
        let found = closest(&[exchange(1000, 10, 90), exchange(2000, 20, 20), exchange(3000, 300, 5)]);
        assert_eq!(found, ClockOffset { wall_ns: 500, monotonic_ns: 500, error_ns: 20 });
        for (there, back) in [(0, 7), (7, 0), (1, 1), (1000, 3)] {
            let found = closest(&[exchange(50, there, back)]);
            assert!(found.monotonic_ns.abs_diff(500) <= found.error_ns, "{there} {back}: {found:?}");
        }
        assert_eq!(closest(&[]), ClockOffset::default());
    }
}
