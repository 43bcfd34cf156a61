//! A coarse latency distribution that is small enough to keep one per second and to store with a run.
//!
//! ```text
//! bin      0        1 .. 8          9 .. 16              ...            209
//! up to    1.02 us  1.15 .. 2.05 us  2.3 .. 4.1 us, eight per doubling   all above 68.7 s
//! ```
//! A bin is at most 12.5 % wide, so a percentile read from bins is too large by at most that, and never too small
//! (the last bin apart, where the caller's largest latency bounds it). [`crate::LatencyHistogram`] is the fine one.
//!
//! Source: fio `stat.h` for equal steps within each power of two.

use serde::{Deserialize, Serialize};

/// Steps per power of two.
const STEPS: u64 = 8;
const STEPS_LOG2: u32 = STEPS.ilog2();
/// All below 2^10 ns are one bin.
const FIRST_POWER: u32 = 10;
/// All from 2^36 ns on are one bin.
const LAST_POWER: u32 = 36;
/// Number of bins.
pub(crate) const BINS: usize = 2 + ((LAST_POWER - FIRST_POWER) as usize) * STEPS as usize;

/// How many requests took up to a time, and longer than the bin before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyBin {
    /// Upper end of the bin in nanoseconds, inclusive.
    pub lat_ns: u64,
    /// Requests in it.
    pub requests: u64,
}

/// The bin that `lat_ns` falls into.
#[inline]
pub(crate) fn bin_of(lat_ns: u64) -> usize {
    if lat_ns < 1 << FIRST_POWER {
        return 0;
    }
    let power = lat_ns.ilog2();
    if power >= LAST_POWER {
        return BINS - 1;
    }
    let step = (lat_ns >> (power - STEPS_LOG2)) & (STEPS - 1);
    1 + ((power - FIRST_POWER) as usize) * STEPS as usize + step as usize
}

/// The largest latency that falls into `bin`.
pub(crate) fn upper_ns(bin: usize) -> u64 {
    assert!(bin < BINS, "bin {bin} of {BINS}");
    match bin {
        0 => (1 << FIRST_POWER) - 1,
        last if last == BINS - 1 => u64::MAX,
        _ => {
            let (doublings, step) = ((bin as u64 - 1) / STEPS, (bin as u64 - 1) % STEPS);
            let power = FIRST_POWER + doublings as u32;
            (1 << power) + (step + 1) * (1 << (power - STEPS_LOG2)) - 1
        }
    }
}

/// The latency in nanoseconds that `pct` percent of all counted in `bins` stay at or below, at most `max_ns`; zero
/// when nothing was counted.
pub(crate) fn percentile_ns(bins: &[u32; BINS], pct: f64, max_ns: u64) -> u64 {
    let total: u64 = bins.iter().map(|count| u64::from(*count)).sum();
    // Nearest rank: the first of all where there is any.
    let wanted = ((pct / 100.0 * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    for (bin, count) in bins.iter().enumerate() {
        seen += u64::from(*count);
        if seen >= wanted {
            return upper_ns(bin).min(max_ns);
        }
    }
    0
}

/// Adds up `steps` (largest latency and count of each step of a finer histogram, in rising order) into the bins that
/// are not empty. No bin ends above `max_ns`, the largest latency there was.
pub(crate) fn coarse(steps: impl Iterator<Item = (u64, u64)>, max_ns: u64) -> Vec<LatencyBin> {
    let mut bins: Vec<LatencyBin> = Vec::new();
    for (lat_ns, requests) in steps {
        let lat_ns = upper_ns(bin_of(lat_ns.min(max_ns))).min(max_ns);
        match bins.last_mut() {
            Some(last) if last.lat_ns == lat_ns => last.requests += requests,
            _ => bins.push(LatencyBin { lat_ns, requests }),
        }
    }
    bins
}

/// Bins between processes: number and count of those that are not empty.
pub(crate) mod sparse {
    use super::BINS;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bins: &[u32; BINS], serializer: S) -> Result<S::Ok, S::Error> {
        let all = bins.iter().copied().enumerate();
        serializer.collect_seq(all.filter(|(_, count)| *count > 0))
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<[u32; BINS], D::Error> {
        let mut bins = [0; BINS];
        for (bin, count) in Vec::<(usize, u32)>::deserialize(deserializer)? {
            *bins.get_mut(bin).ok_or_else(|| D::Error::custom("a latency bin that does not exist"))? = count;
        }
        Ok(bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_bin_ends_where_the_next_begins() {
        for bin in 0..BINS - 1 {
            let upper = upper_ns(bin);
            assert_eq!((bin_of(upper), bin_of(upper + 1)), (bin, bin + 1), "{bin}");
        }
        assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
    }

    #[test]
    fn finer_steps_add_up() {
        let bins = coarse([(10, 2), (1000, 3), (1030, 1), (9_000_000, 4)].into_iter(), 8_900_000);
        let found: Vec<_> = bins.iter().map(|bin| (bin.lat_ns, bin.requests)).collect();
        assert_eq!(found, [(1023, 5), (1151, 1), (8_900_000, 4)]);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_a_sorted_list_but_for_the_width_of_a_bin(
            mut list in prop::collection::vec(1000_u64..60_000_000_000, 1..200), pct in 0.0..100.0_f64,
        ) {
            let mut bins = [0; BINS];
            for lat_ns in &list {
                bins[bin_of(*lat_ns)] += 1;
            }
            list.sort_unstable();
            let rank = ((pct / 100.0 * list.len() as f64).ceil() as usize).max(1);
            let (exact, found) = (list[rank - 1], percentile_ns(&bins, pct, list[list.len() - 1]));
            prop_assert!(found >= exact && found as f64 <= (exact as f64 * 1.125).max(1023.0), "{found} {exact}");
        }
    }
}
