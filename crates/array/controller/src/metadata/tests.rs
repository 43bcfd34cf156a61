//! What the array knows of itself, event by event: devices that go and come, generations of the superblock, bad blocks.

use super::*;
use crate::api::{Action, HostTag};
use crate::config::{ArrayConfig, CacheConfig, MemberCache, Resilience};
use crate::ids::{LockKey, OpId};
use raidlab_format::{MetadataPolicy, STATE_BYTES};
use raidlab_units::{BlockSize, ByteCount};

/// An array of three members, of RAID 5 unless said otherwise, and a spare, which keeps a superblock.
struct Array {
    geometry: Geometry,
    metadata: Metadata,
    outbox: Outbox,
}

const STRIP_ROWS: u64 = 16;

fn array() -> Array {
    array_of("5")
}

fn array_of(level: &str) -> Array {
    let config = ArrayConfig {
        level: level.parse().expect("it is a level"),
        members: 3,
        strip_size: ByteCount(STRIP_ROWS * 4096),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(4),
        member_cache: MemberCache::Off,
        cache: CacheConfig::default(),
        staging_size: ByteCount::from_mib(1),
        resilience: Resilience { spares: 1, metadata: MetadataPolicy::Resync, ..Resilience::default() },
    };
    let layout = config.layout().expect("it can be");
    let record = config.new_state(3, ArrayUuid([7; 16]));
    let metadata = Metadata::new(&*layout, 1, Some(record));
    Array { geometry: Geometry::new(layout, 4096, 1), metadata, outbox: Outbox::default() }
}

impl Array {
    fn fail(&mut self, device: u16) {
        self.metadata.fail(&self.geometry, MemberIndex(device), &mut self.outbox);
    }

    fn states(&self) -> Vec<DeviceState> {
        self.metadata.device_states().collect()
    }

    /// The device that holds the first strip of a role, and the one that holds its second.
    fn holders(&self, role: u16) -> [Option<MemberIndex>; 2] {
        [0, STRIP_ROWS].map(|start| {
            let place = UnitPlace { member: MemberIndex(role), start: MemberLba(start) };
            self.metadata.holder(place)
        })
    }

    /// Writes a generation to so many devices.
    fn write_generation(&mut self, devices: u32) {
        let mut image = vec![0; STATE_BYTES];
        self.metadata.make_generation(None, &mut image);
        self.metadata.begin_superblock_writes(devices);
        for _ in 0..devices {
            assert!(!self.metadata.end_superblock_write());
        }
        assert!(self.metadata.end_superblock_write(), "the hand-out was the last");
    }
}

const fn in_sync(role: u16) -> DeviceState {
    DeviceState::InSync { role: MemberIndex(role) }
}

#[test]
fn a_spare_takes_the_place_of_a_member_strip_by_strip() {
    let mut array = array();
    array.fail(0);
    let notice = Notice::MemberFailed { member: MemberIndex(0) };
    assert_eq!(array.outbox.poll(), Some(Action::Notice(notice)));
    array.fail(0);
    assert!(array.outbox.is_empty(), "it was gone already");
    array.metadata.assign_spares();
    let target = MemberIndex(3);
    let (role, boundary) = (MemberIndex(0), MemberLba::ZERO);
    let rebuilding = DeviceState::Rebuilding { role, boundary };
    assert_eq!(array.states(), [DeviceState::Missing, in_sync(1), in_sync(2), rebuilding]);
    assert_eq!(array.metadata.rebuild_target(), Some(target));
    assert_eq!(array.holders(0), [None, None]);
    array.metadata.advance_boundary(target, MemberLba(STRIP_ROWS));
    assert_eq!(array.holders(0), [Some(target), None]);
    let kept: Vec<_> = array.metadata.kept_device_states().collect();
    assert_eq!(kept[3], rebuilding, "a power loss may take back what it was given");
    array.metadata.finish_rebuild(target);
    assert_eq!(array.holders(0), [Some(target); 2]);
    assert!(!array.metadata.any_incomplete());
}

/// Regression (plan `202448-bounded`): a record lacked the parity of a device that was back at the next start, with the old one.
#[test]
fn parity_of_a_device_that_has_left_may_be_found_until_the_devices_know() {
    let mut array = array();
    let stripes = |array: &Array| {
        let Array { geometry, metadata, .. } = array;
        [0, 1, 2].map(|stripe| metadata.may_find_parity(geometry, StripeIndex(stripe)))
    };
    assert_eq!(stripes(&array), [false; 3]);
    array.fail(2);
    assert_eq!(stripes(&array), [true, false, false], "the first has its parity there");
    array.write_generation(3);
    assert_eq!(stripes(&array), [false; 3]);
}

/// Regression (plan `5010611-beyond`): a copy that a resync could not write was the first at the next start, after another had been
/// read.
#[test]
fn copies_agree_only_when_the_devices_know_what_is_missing_of_one() {
    let mut array = array_of("1");
    let lacks =
        |array: &Array| [0, 1].map(|key| array.metadata.lacks_copy_unknown(&array.geometry, LockKey(key)));
    let Array { geometry, metadata, outbox } = &mut array;
    let extent = (MemberIndex(1), MemberLba(4), 2);
    metadata.rows_written(geometry, extent, Err(MemberError::Medium), outbox);
    assert_eq!(lacks(&array), [true, false], "rows of the first strip");
    array.write_generation(4);
    assert_eq!(lacks(&array), [false; 2]);
    array.fail(2);
    assert_eq!(lacks(&array), [true; 2]);
    array.write_generation(3);
    assert_eq!(lacks(&array), [false; 2]);
}

#[test]
fn more_than_the_level_survives_is_lost_and_freezes_the_superblock() {
    let mut array = array();
    array.fail(0);
    array.write_generation(3);
    assert!(array.metadata.is_kept());
    array.fail(2);
    assert_eq!(array.states()[2], DeviceState::Lost { role: MemberIndex(2) });
    assert!(array.metadata.is_frozen());
    array.metadata.assign_spares();
    assert_eq!(array.states()[3], DeviceState::Spare, "what the array is now is not written down");
    let uuid = DeviceUuid([1; 16]);
    let Array { geometry, metadata, outbox } = &mut array;
    assert!(!metadata.announce(geometry, MemberIndex(2), uuid, outbox), "it is not labelled again");
}

#[test]
fn a_device_that_comes_back_is_a_spare_and_nothing_on_it_is_trusted() {
    for was_known_missing in [true, false] {
        let mut array = array();
        if was_known_missing {
            array.fail(1);
        }
        let uuid = DeviceUuid([1; 16]);
        let Array { geometry, metadata, outbox } = &mut array;
        assert!(!metadata.admit(MemberIndex(1)), "nothing was announced");
        assert!(metadata.announce(geometry, MemberIndex(1), uuid, outbox));
        assert!(metadata.admit(MemberIndex(1)));
        assert!(!metadata.admit(MemberIndex(1)), "once");
        assert_eq!(metadata.device_uuid(MemberIndex(1)), uuid);
        assert_eq!(metadata.membership_changes(), 2);
        assert_eq!(array.states()[1], DeviceState::Spare);
    }
}

#[test]
fn who_waits_goes_on_when_the_change_is_kept() {
    let mut array = array();
    let waiter = SuperblockWaiter::Part(HostTag(7));
    array.metadata.change();
    array.metadata.wait(waiter);
    assert_eq!(array.metadata.next_waiter(), None);
    let generation = array.metadata.kept_record().generation;
    array.write_generation(4);
    assert_eq!(array.metadata.kept_record().generation, generation + 1);
    assert_eq!(array.metadata.next_waiter(), Some((waiter, true)));
    assert_eq!(array.metadata.next_waiter(), None);
}

#[test]
fn who_waits_for_what_a_lost_device_has_missed_waits_in_vain() {
    let mut array = array();
    let waiter = SuperblockWaiter::Op(OpId(3));
    array.fail(0);
    array.metadata.wait(waiter);
    let mut image = vec![0; STATE_BYTES];
    array.metadata.make_generation(None, &mut image);
    array.metadata.begin_superblock_writes(1);
    let Array { geometry, metadata, outbox } = &mut array;
    metadata.fail_superblock_write(geometry, MemberIndex(1), outbox);
    assert!(metadata.is_frozen());
    assert!(!metadata.end_superblock_write());
    assert_eq!(metadata.next_waiter(), None, "it is on its way");
    assert!(metadata.end_superblock_write());
    assert_eq!(metadata.next_waiter(), Some((waiter, false)));
}

#[test]
fn the_array_is_marked_in_use_once_and_clean_again() {
    let mut array = array();
    assert!(!array.metadata.mark_dirty());
    array.write_generation(4);
    assert!(array.metadata.mark_dirty(), "the devices know");
    assert!(array.metadata.is_kept(), "nothing more is to be written");
    array.metadata.mark_clean();
    assert!(!array.metadata.is_kept());
    array.write_generation(4);
    assert!(!array.metadata.kept_record().dirty);
}

#[test]
fn rows_are_bad_until_they_are_written_and_a_device_with_too_many_fails() {
    let mut array = array();
    let Array { geometry, metadata, outbox } = &mut array;
    let place = UnitPlace { member: MemberIndex(1), start: MemberLba::ZERO };
    let rows = Rows { first: 4, count: 2 };
    let extent = (MemberIndex(1), MemberLba(4), 2);
    metadata.rows_written(geometry, extent, Err(MemberError::Medium), outbox);
    assert!(metadata.is_bad(place, rows));
    assert!(!metadata.is_kept(), "a start must know");
    metadata.rows_written(geometry, extent, Ok(()), outbox);
    assert!(!metadata.any_bad());
    assert!(!metadata.mark_bad(geometry, (MemberIndex(3), MemberLba(4), 2), outbox), "it holds nothing");
    for range in 0.. {
        metadata.mark_bad(geometry, (MemberIndex(1), MemberLba(2 * range), 1), outbox);
        if metadata.any_incomplete() {
            assert_eq!(range, 512, "as many as the superblock has room for");
            break;
        }
    }
    assert!(!metadata.any_bad(), "they go with the device");
}
