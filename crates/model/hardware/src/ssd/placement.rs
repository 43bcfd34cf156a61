//! The die of a unit's data, and which units are read together.
//!
//! Data written in order is placed in order: a run of units fills the pages of one die's planes, the next run those of
//! the next die, so that a long read senses each page once and uses all dies. Data written at random is scattered, each
//! unit in a separate page. A drive can have both, by place: for each of at most 65,536 *regions* the scattered share
//! is tracked, and every write changes it by its part of the region.
//!
//! Left out: the real die of a single unit: a hash gives it, and always the same.

use super::bits::Bits;
use super::random::{scaled, spread};
use std::collections::VecDeque;

/// Regions at most.
const REGIONS_MAX: u64 = 1 << 16;

/// Ends of writes that are remembered, to see which go on where one ended.
const STREAMS: usize = 8;

/// Where data lie.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    dies: u64,
    /// Units that lie together on a die: those of one page on each plane.
    run_units: u64,
    region_units: u64,
    /// Share that is scattered, of 65,535.
    scattered: Vec<u16>,
    /// Regions that are not all scattered. The shares of others are not looked at: each look is a line of memory that the processor's
    /// cache seldom has.
    ordered: Bits,
    ends: VecDeque<u64>,
}

/// One page, or one on each plane, that is sensed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Its die.
    pub(super) die: u32,
    /// Decides what kind of page it is; equal for units of one page.
    pub(super) hash: u64,
}

impl Placement {
    /// Data of `units` that all lie in order, or all scattered.
    pub(super) fn new(units: u64, run_units: u64, dies: u32, is_scattered: bool) -> Self {
        let region_units = units.div_ceil(REGIONS_MAX).max(1);
        let share = if is_scattered { u16::MAX } else { 0 };
        let regions = units.div_ceil(region_units) as usize;
        Self {
            dies: u64::from(dies),
            run_units: run_units.max(1),
            region_units,
            scattered: vec![share; regions],
            ordered: Bits::new(regions, !is_scattered),
            ends: VecDeque::from([u64::MAX; STREAMS]),
        }
    }

    /// Takes in that `count` units from `first` on are written.
    #[inline]
    pub(super) fn write(&mut self, first: u64, count: u64) {
        let goes_on = self.ends.iter_mut().find(|end| **end == first);
        let is_in_order = goes_on.is_some() || count >= self.run_units;
        if let Some(end) = goes_on {
            *end = first + count;
        } else {
            self.ends.pop_front();
            self.ends.push_back(first + count);
        }
        let region = (first / self.region_units) as usize;
        if !is_in_order && !self.ordered.has(region) {
            return;
        }
        let target = if is_in_order { 0.0 } else { f32::from(u16::MAX) };
        let share = &mut self.scattered[region];
        let part = (count as f32 / self.region_units as f32).min(1.0);
        let step = (target - f32::from(*share)) * part;
        // A step of less than one is taken as often as it is worth.
        let jitter = (spread(first ^ u64::from(*share)) >> 40) as f32 / (1u32 << 24) as f32;
        *share = (f32::from(*share) + (step + jitter).floor()).clamp(0.0, f32::from(u16::MAX)) as u16;
        self.ordered.put(region, *share < u16::MAX);
    }

    /// The page of a unit.
    #[inline]
    pub(super) fn page(&self, unit: u64) -> Page {
        let hash = spread(unit);
        let region = (unit / self.region_units) as usize;
        let share = if self.ordered.has(region) { self.scattered[region] } else { u16::MAX };
        if share > 0 && (hash & 0xFFFF) as u16 <= share {
            return Page { die: scaled(hash, self.dies) as u32, hash };
        }
        let run = unit / self.run_units;
        Page { die: (run % self.dies) as u32, hash: spread(!run) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(placement: &Placement, units: core::ops::Range<u64>) -> usize {
        let mut last = None;
        units.filter(|unit| last.replace(placement.page(*unit)) != Some(placement.page(*unit))).count()
    }

    #[test]
    fn a_region_becomes_scattered_by_small_writes_and_in_order_by_long_ones() {
        let mut placement = Placement::new(1 << 20, 16, 64, false);
        assert_eq!(pages(&placement, 0..64), 4, "four runs");
        // Each region has 16 units: write each one at random five times.
        for unit in (0..5 * 64).map(|i| i * 37 % 64) {
            placement.write(unit, 1);
        }
        assert!(pages(&placement, 0..64) > 55, "nearly each on its own");
        for first in (0..64).step_by(16) {
            placement.write(first, 16);
        }
        assert_eq!(pages(&placement, 0..64), 4);
        for unit in 64..128 {
            placement.write(unit, 1);
        }
        assert_eq!(pages(&placement, 64..128), 4, "one after the other is in order");
    }
}
