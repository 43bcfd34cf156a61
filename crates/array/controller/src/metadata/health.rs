//! What the host has lost, and how far the array is from losing more: what an operator is told.
//!
//! Members alone do not say it. A row of a stripe that is on the bad-block list, and a stripe whose parity may disagree with
//! its data, have less redundancy than the level promises, or none:
//! ```text
//!                 D0    D1    P      lost    may still fail
//! in sync         .     .     .      -       1
//! D1 bad          .     bad   .      -       0
//! D0, D1 bad      bad   bad   .      2       -
//! out of sync     .     .     ?      -       0
//! and D1 missing  .     -     ?      1       -
//! ```
//! Copies out of sync still are copies: whichever is left is what the host reads.
//!
//! Left out: what a lost device holds, which is back when the device is.

use super::Metadata;
use crate::geometry::Geometry;
use crate::ids::LockKey;
use crate::request::Rows;
use raidlab_units::{BlockCount, MemberLba};
use std::collections::BTreeSet;

/// Stripes with bad blocks that are looked at. Where more are concerned, so many of them stand for all.
const LOOKS_MAX: u64 = 1 << 18;
/// Stripes out of sync that are looked at: one takes up to 0.7 us, and no I/O goes on meanwhile. They differ only in where
/// parity is, which repeats after as many stripes as there are members.
const OUT_OF_SYNC_LOOKS_MAX: u64 = 1 << 10;

/// What the host has lost, and how far the array is from losing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Blocks of the volume that are errors until they are written again. An estimate where more than a
    /// thousand stripes out of sync, or a quarter of a million with bad blocks, are concerned; 0 while a device is [`crate::DeviceState::Lost`].
    pub lost_blocks: BlockCount,
    /// How many more members may fail, whichever they are, before data is lost, or more of it.
    pub failures_left: u16,
}

/// The same of one stripe.
#[derive(Clone, Copy, Debug)]
struct StripeHealth {
    lost_rows: u64,
    /// Members that the weakest of its rows that is not lost can do without.
    spare_units: Option<u16>,
}

impl Metadata {
    /// What the host has lost, and how far the array is from losing more.
    pub(crate) fn health(&self, geometry: &Geometry) -> Health {
        let by_members = self.members.failures_left(geometry.layout());
        let parity_in_doubt = geometry.parities() > 0 && self.out_of_sync_count() > 0;
        let mut health = Health {
            lost_blocks: BlockCount(0),
            failures_left: if parity_in_doubt { 0 } else { by_members },
        };
        if self.members.any_lost() {
            return health;
        }
        let (keys, stride) = self.bad_stripes(geometry);
        self.add_up(geometry, keys.iter().copied(), stride, &mut health);
        if parity_in_doubt && self.members.any_incomplete() {
            let looks = self.out_of_sync_count().min(OUT_OF_SYNC_LOOKS_MAX);
            let mut next = self.out_of_sync.next(LockKey(0));
            let all = std::iter::from_fn(|| {
                let key = next?;
                next = self.out_of_sync.next(key.next());
                Some(key)
            });
            let mut open = Health::default();
            self.add_up(geometry, all.take(looks as usize).filter(|key| !keys.contains(key)), 1, &mut open);
            let scaled =
                u128::from(open.lost_blocks.0) * u128::from(self.out_of_sync_count()) / u128::from(looks);
            health.lost_blocks += BlockCount(scaled as u64);
        }
        health
    }

    fn add_up(
        &self,
        geometry: &Geometry,
        keys: impl Iterator<Item = LockKey>,
        stride: u64,
        health: &mut Health,
    ) {
        for key in keys {
            let StripeHealth { lost_rows, spare_units } = self.stripe_health(geometry, key);
            health.lost_blocks += BlockCount(lost_rows * stride);
            health.failures_left = health.failures_left.min(spare_units.unwrap_or(u16::MAX));
        }
    }

    /// The stripes with bad blocks, or each so-manieth of them, and how many each stands for.
    fn bad_stripes(&self, geometry: &Geometry) -> (BTreeSet<LockKey>, u64) {
        let rows = u64::from(geometry.strip_rows());
        let strips: u64 = self.bad_blocks.iter().map(|(_, _, blocks, _)| blocks.0.div_ceil(rows) + 1).sum();
        let stride = strips.div_ceil(LOOKS_MAX).max(1);
        let mut keys = BTreeSet::new();
        for (device, first, blocks, _) in self.bad_blocks.iter() {
            let Some(role) = self.members.role(device) else { continue };
            let strips = first.0 / rows..(first.0 + blocks.0).div_ceil(rows);
            for strip in strips.step_by(stride as usize) {
                let start = MemberLba((strip * rows).max(first.0));
                if let Some((stripe, unit, _)) = geometry.layout().identify(role, start) {
                    keys.insert(geometry.lock_of_unit(stripe, unit));
                }
            }
        }
        (keys, stride)
    }

    fn stripe_health(&self, geometry: &Geometry, key: LockKey) -> StripeHealth {
        let mut health = StripeHealth { lost_rows: 0, spare_units: None };
        for rows in self.even_rows(geometry, key) {
            let is_readable = |unit: &u16| {
                let place = geometry.lock_place(key, *unit);
                self.members.holds(place) && !self.is_bad(place, Rows::between(rows.first, rows.first + 1))
            };
            let units = geometry.lock_units();
            let data = if geometry.parities() > 0 { geometry.data_strips() as u16 } else { units };
            let readable = (0..data).filter(is_readable).count() as u16;
            let (lacking, redundant) = if geometry.parities() == 0 {
                (u16::from(readable == 0), readable.saturating_sub(1))
            } else {
                let parity = (data..units).filter(is_readable).count() as u16;
                (data - readable, if self.out_of_sync.contains(key) { 0 } else { parity })
            };
            if lacking > redundant {
                health.lost_rows += u64::from(lacking) * u64::from(rows.count);
            } else {
                let left = redundant - lacking;
                health.spare_units = Some(health.spare_units.map_or(left, |least| least.min(left)));
            }
        }
        health
    }

    /// The rows of a stripe, cut wherever bad blocks begin or end.
    fn even_rows(&self, geometry: &Geometry, key: LockKey) -> impl Iterator<Item = Rows> + use<> {
        let rows = geometry.strip_rows();
        let mut cuts = BTreeSet::from([0, rows]);
        for place in (0..geometry.lock_units()).map(|unit| geometry.lock_place(key, unit)) {
            let Some(device) = self.members.holder(place) else { continue };
            let mut row = 0;
            while row < rows {
                let first = place.start + BlockCount(u64::from(row));
                row += self.bad_blocks.stretch(device, first, u64::from(rows - row)).blocks as u32;
                cuts.insert(row);
            }
        }
        let cuts: Vec<u32> = cuts.into_iter().collect();
        (1..cuts.len()).map(move |index| Rows::between(cuts[index - 1], cuts[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ArrayConfig, MemberCache, Resilience};
    use crate::controller::Controller;
    use raidlab_format::MetadataPolicy;
    use raidlab_raid::StripUnit;
    use raidlab_units::{BlockSize, ByteCount, MemberIndex, Nanos, StripeIndex};

    /// An array of strips of 16 blocks.
    fn array(level: &str, members: u16) -> Controller {
        let config = ArrayConfig {
            level: level.parse().expect("it is a level"),
            members,
            strip_size: ByteCount::from_kib(64),
            block_size: BlockSize::B4096,
            member_size: ByteCount::from_mib(4),
            member_cache: MemberCache::On,
            cache: crate::CacheConfig { size: ByteCount::from_mib(1), ..crate::CacheConfig::default() },
            staging_size: ByteCount::from_mib(1),
            resilience: Resilience { metadata: MetadataPolicy::Bitmap, ..Resilience::default() },
        };
        Controller::new(&config).expect("it can be")
    }

    fn data_member(array: &Controller, stripe: u64, strip: u16) -> MemberIndex {
        array.layout().place(StripeIndex(stripe), StripUnit::Data { strip, copy: 0 }).member
    }

    fn health(array: &Controller) -> (u64, u16) {
        let Health { lost_blocks, failures_left } = array.health();
        (lost_blocks.0, failures_left)
    }

    /// Defect: an array with stripes out of sync, or with blocks lost for good, was said to survive one more member.
    #[test]
    fn redundancy_counts_as_it_is_and_not_as_the_level_promises() {
        let bad = |array: &mut Controller, device, first, blocks| {
            array.mark_bad_blocks(MemberIndex(device), MemberLba(first), BlockCount(blocks));
        };
        let mut out_of_sync = array("5", 4);
        out_of_sync.mark_out_of_sync(3..5);
        assert_eq!(health(&out_of_sync), (0, 0), "a member that fails takes data of two stripes with it");
        out_of_sync.handle_member_loss(Nanos::ZERO, MemberIndex(0));
        let holds_data = |key: &u64| (0..3).any(|strip| data_member(&out_of_sync, *key, strip).0 == 0);
        let lost = (3..5).filter(holds_data).count() as u64;
        assert_eq!(health(&out_of_sync), (16 * lost, 0), "parity in doubt makes nothing up");

        for (level, members, kept) in [("6", 5, 2), ("5", 4, 1), ("10", 4, 1), ("1", 3, 2)] {
            let mut array = array(level, members);
            assert_eq!(health(&array), (0, kept), "{level}");
            bad(&mut array, 1, 4, 2);
            assert_eq!(health(&array), (0, kept - 1), "{level}: those rows have one member less");
            for other in (0..members).filter(|other| *other != 1) {
                bad(&mut array, other, 5, 40);
            }
            assert!(health(&array).0 > 0, "{level}: the second of those rows is nowhere any more");
        }
        let mut mirror = array("10", 4);
        mirror.mark_out_of_sync(0..4);
        assert_eq!(health(&mirror), (0, 1), "either copy may be read");
        let mut pair = array("1", 2);
        bad(&mut pair, 0, 4, 3);
        bad(&mut pair, 1, 5, 9);
        assert_eq!(health(&pair), (2, 0));
        let mut triple = array("5", 3);
        bad(&mut triple, 0, 0, 16);
        bad(&mut triple, 1, 8, 8);
        let on_data = [0, 1].map(|strip| data_member(&triple, 0, strip).0);
        assert!(!on_data.contains(&2), "parity is on the third");
        assert_eq!(health(&triple), (2 * 8, 0));
    }
}
