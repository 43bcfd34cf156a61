//! The bitmap against a plain set of stripes, and what many slots together give.
//!
//! Verified: regions cover all stripes without overlap, marking, walking, the newest sector of several
//! copies. Not verified: damage of single sectors, which `tests/round_trips.rs` does.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use raidlab_format::*;
use raidlab_units::{StripeCount, StripeIndex};
use std::collections::BTreeSet;

const REGIONS: u64 = REGIONS_MAX as u64;

fn regions(map: &RegionMap) -> impl Iterator<Item = RegionIndex> {
    (0..map.regions()).map(RegionIndex)
}

fn marked(map: &RegionMap) -> BTreeSet<u16> {
    regions(map).filter(|region| map.is_marked(*region)).map(|region| region.0).collect()
}

#[test]
fn regions_cover_every_stripe_once() {
    for stripes in
        [1, 2, 63, 64, 65, REGIONS - 1, REGIONS, REGIONS + 1, 2 * REGIONS, 3 * REGIONS + 7, u64::MAX]
    {
        let map = RegionMap::new(StripeCount(stripes));
        let mut next = StripeIndex(0);
        for region in regions(&map) {
            let covered = map.stripes_of(region);
            assert_eq!(covered.start, next, "{stripes} stripes, region {}", region.0);
            assert!(covered.end > covered.start, "{stripes} stripes, region {}", region.0);
            assert_eq!(map.region_of(covered.start), region);
            assert_eq!(map.region_of(StripeIndex(covered.end.0 - 1)), region);
            next = covered.end;
        }
        assert_eq!(next, StripeIndex(stripes));
        assert!(u64::from(map.regions()) <= REGIONS);
        // No coarser than it must be.
        assert!(
            map.stripes_per_region().0 == 1
                || (map.stripes_per_region().0 - 1).saturating_mul(REGIONS) < stripes
        );
    }
}

#[test]
fn a_volume_without_stripes_has_no_regions() {
    let mut map = RegionMap::new(StripeCount(0));
    map.mark_all();
    assert!(map.is_clear());
    assert_eq!(map.regions(), 0);
    assert_eq!(map.next_marked(RegionIndex(0)), None);
}

proptest! {
    #[test]
    fn marks_are_those_of_a_set(
        stripes in prop_oneof![1_u64..5000, Just(REGIONS), any::<u64>().prop_map(|stripes| stripes.max(1))],
        steps in vec((any::<u64>(), any::<bool>()), 0..200),
    ) {
        let mut map = RegionMap::new(StripeCount(stripes));
        let mut oracle = BTreeSet::new();
        for (stripe, mark) in steps {
            let region = map.region_of(StripeIndex(stripe % stripes));
            if mark {
                prop_assert_eq!(map.mark(region), oracle.insert(region.0));
            } else {
                prop_assert_eq!(map.clear(region), oracle.remove(&region.0));
            }
        }
        prop_assert_eq!(map.is_clear(), oracle.is_empty());
        prop_assert_eq!(map.marked_count() as usize, oracle.len());
        prop_assert_eq!(&marked(&map), &oracle);
        let first = map.next_marked(RegionIndex(0));
        let walk = std::iter::successors(first, |at| map.next_marked(RegionIndex(at.0 + 1)));
        prop_assert_eq!(walk.map(|region| region.0).collect::<BTreeSet<_>>(), oracle);
        map.mark_all();
        prop_assert_eq!(map.marked_count(), u32::from(map.regions()));
    }

    /// Every sector of every copy is damaged, or written with its own sequence; the oracle looks at all
    /// copies of each bit.
    #[test]
    fn each_sector_is_the_newest_valid_copy(
        copies in vec(vec((any::<u64>(), 0_u64..4, prop::bool::weighted(0.3)), SECTORS), 0..5),
        stripes in prop_oneof![Just(REGIONS), 1..REGIONS],
    ) {
        let uuid = support::array_uuid(1);
        let stripes = StripeCount(stripes);
        let mut slots = Vec::new();
        let mut maps = Vec::new();
        for copy in &copies {
            let mut slot = vec![0; BITMAP_BYTES];
            let mut maps_of_copy = Vec::new();
            for (sector, (seed, sequence, damaged)) in copy.iter().enumerate() {
                let mut map = RegionMap::new(stripes);
                for region in regions(&map.clone()).filter(|region| seed.rotate_left(region.0.into()) & 1 == 1) {
                    map.mark(region);
                }
                let bytes = &mut slot[sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES];
                map.encode_sector(sector, uuid, *sequence, bytes);
                bytes[(*seed % 512) as usize] ^= u8::from(*damaged);
                maps_of_copy.push((!damaged).then_some((*sequence, map)));
            }
            slots.push(slot);
            maps.push(maps_of_copy);
        }
        let found = RegionMap::decode_newest(stripes, uuid, slots.iter().map(Vec::as_slice));
        let empty = RegionMap::new(stripes);
        let mut expected = BTreeSet::new();
        for region in regions(&empty) {
            let valid = || maps.iter().filter_map(|copy| copy[region.sector()].as_ref());
            let newest = valid().map(|(sequence, _)| *sequence).max();
            let marks = valid().any(|(sequence, map)| Some(*sequence) == newest && map.is_marked(region));
            if newest.is_none() || marks {
                expected.insert(region.0);
            }
        }
        prop_assert_eq!(marked(&found.map), expected);
        prop_assert_eq!(found.sequence, maps.iter().flatten().flatten().map(|(sequence, _)| *sequence).max());
        let invalid = (0..SECTORS).filter(|sector| maps.iter().all(|copy| copy[*sector].is_none())).count();
        prop_assert_eq!(found.invalid_sectors, invalid);
    }
}

#[test]
fn a_sector_elsewhere_or_of_another_array_is_invalid() {
    let (uuid, other) = (support::array_uuid(1), support::array_uuid(2));
    let mut slot = vec![0; BITMAP_BYTES];
    RegionMap::new(StripeCount(REGIONS)).encode(uuid, 1, &mut slot);
    let decode =
        |slot: &[u8], uuid| RegionMap::decode_newest(StripeCount(REGIONS), uuid, [slot]).invalid_sectors;
    assert_eq!(decode(&slot, uuid), 0);
    assert_eq!(decode(&slot, other), SECTORS);
    assert_eq!(decode(&slot[..SECTOR_BYTES * 3 + 100], uuid), SECTORS - 3);
    slot.copy_within(0..SECTOR_BYTES, SECTOR_BYTES);
    assert_eq!(decode(&slot, uuid), 1);
    let error = check_sector(&slot[SECTOR_BYTES..], 1, uuid).expect_err("in the wrong place");
    assert_eq!(
        error.to_string(),
        "the bitmap sector can't be: sector is 0; it must be the sector's place in its slot"
    );
    let error = check_sector(&slot, 0, other).expect_err("of another array");
    assert_eq!(error, DecodeError::OtherArray { part: Part::BitmapSector, found: uuid });
}

#[test]
fn a_sector_whose_sequence_has_no_next_is_invalid() {
    let (uuid, mut sector) = (support::array_uuid(1), vec![0; SECTOR_BYTES]);
    RegionMap::new(StripeCount(9)).encode_sector(0, uuid, COUNTERS_END - 1, &mut sector);
    assert_eq!(check_sector(&sector, 0, uuid), Ok(COUNTERS_END - 1));
    sector[16..24].copy_from_slice(&COUNTERS_END.to_le_bytes());
    sector[12..16].fill(0);
    let checksum = crc_fast::crc32_iscsi(&sector);
    sector[12..16].copy_from_slice(&checksum.to_le_bytes());
    let error = check_sector(&sector, 0, uuid).expect_err("nothing may follow it");
    assert!(error.to_string().ends_with("sequence is 9223372036854775808; it must be below 2^63"), "{error}");
}

#[test]
fn a_sector_with_bits_beyond_the_volume_is_invalid() {
    let uuid = support::array_uuid(1);
    let mut slot = vec![0; BITMAP_BYTES];
    let mut large = RegionMap::new(StripeCount(REGIONS));
    large.mark(RegionIndex(100));
    large.encode(uuid, 1, &mut slot);
    let found = RegionMap::decode_newest(StripeCount(100), uuid, [slot.as_slice()]);
    assert_eq!(found.invalid_sectors, 1);
    assert_eq!(found.map.marked_count(), 100);
    let found = RegionMap::decode_newest(StripeCount(101), uuid, [slot.as_slice()]);
    assert_eq!((found.invalid_sectors, marked(&found.map)), (0, BTreeSet::from([100])));
}
