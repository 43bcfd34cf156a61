//! What a set of devices is, as tables: who is there, in which order, how far each got, and what the array
//! was doing.
//!
//! Verified: every way in which a candidate is not used, quorum, each policy dirty and degraded, which
//! records are replayed, kept memory, messages. Not verified: arbitrary damage, which the campaign of
//! `tests/fuzz_smoke.rs` does.

mod support;

use raidlab_format::*;
use raidlab_units::{ByteCount, MemberIndex, MemberLba, StripeIndex};
use support::*;

fn raid(level: &str, members: u16, spares: u16, policy: MetadataPolicy) -> TestArray {
    TestArray::new(state(geometry(level, members, spares, policy)))
}

fn raid5() -> TestArray {
    raid("5", 4, 1, MetadataPolicy::Log)
}

fn start(candidates: &[Option<&[u8]>]) -> Result<Assembly, AssembleError> {
    assemble(candidates, None, StartOptions::default())
}

fn start_all(array: &TestArray) -> Result<Assembly, AssembleError> {
    start(&array.candidates())
}

/// The candidates without those of `absent`.
fn without<'a>(array: &'a TestArray, absent: &[usize]) -> Vec<Option<&'a [u8]>> {
    let candidates = array.candidates().into_iter().enumerate();
    candidates.filter(|(device, _)| !absent.contains(device)).map(|(_, area)| area).collect()
}

fn set_missing(state: &mut ArrayState, device: usize) {
    state.devices[device].state = DeviceState::Missing;
    state.epoch += 1;
}

fn stale(assembly: &Assembly) -> Vec<(usize, u16, u64, StaleReason)> {
    assembly
        .stale
        .iter()
        .map(|stale| (stale.candidate, stale.device.0, stale.generation, stale.reason))
        .collect()
}

fn unusable(assembly: &Assembly) -> Vec<(usize, String)> {
    assembly.unusable.iter().map(|unusable| (unusable.candidate, unusable.reason.to_string())).collect()
}

#[test]
fn a_whole_clean_array_is_taken_as_it_is() {
    for (level, members) in [("0", 2), ("1", 2), ("1e", 3), ("5", 4), ("6", 6), ("10", 4), ("50:2-spans", 6)]
    {
        for policy in MetadataPolicy::ALL {
            let array = raid(level, members, 1, policy);
            let assembly = start_all(&array).expect(level);
            let expected = Assembly {
                name: ArrayName::new(NAME).expect("a name"),
                state: array.state.clone(),
                present: (0..array.areas.len()).map(Some).collect(),
                stale: vec![],
                foreign: vec![],
                blank: vec![],
                unusable: vec![],
                unsynced: array.clear_map(),
                doubt: None,
                write_hole_accepted: false,
                minority_accepted: false,
                records: vec![],
                kept: KeptVerdict::NotGiven,
                kept_entries: vec![],
                next_log_sequence: TAIL,
                next_bitmap_sequence: assembly.next_bitmap_sequence,
            };
            assert_eq!(assembly, expected, "level {level}, {policy}");
        }
    }
}

#[test]
fn devices_are_found_in_any_order() {
    let array = raid5();
    let areas = array.candidates();
    for order in [[4, 3, 2, 1, 0], [1, 0, 2, 3, 4], [2, 4, 1, 0, 3]] {
        let candidates: Vec<_> = order.iter().map(|device| areas[*device]).collect();
        let assembly = start(&candidates).expect("a whole array");
        let expected: Vec<_> = (0..5).map(|device| order.iter().position(|at| *at == device)).collect();
        assert_eq!(assembly.present, expected);
    }
}

#[test]
fn a_candidate_that_is_not_used_is_reported_with_its_reason() {
    type Damage = fn(&mut TestArray);
    let cases: [(&str, Damage, &str); 8] = [
        ("label", |array| array.areas[1][33] ^= 1, "the label is damaged: its checksum is"),
        ("no label", |array| array.areas[1][..LABEL_BYTES].fill(0), "the label is not there"),
        ("other data", |array| array.areas[1].fill(0x5a), "the label is not there"),
        ("empty", |array| array.areas[1].clear(), "the label needs 4096 bytes and 0 are there"),
        (
            "half a label",
            |array| array.areas[1].truncate(2000),
            "the label needs 4096 bytes and 2000 are there",
        ),
        (
            "only a label",
            |array| array.areas[1].truncate(LABEL_BYTES),
            "slot 0: the array state needs 16384 bytes and",
        ),
        (
            "short log",
            |array| array.areas[1].truncate(77_823),
            "its metadata area has 77823 bytes and the array's has 77824",
        ),
        ("no states", |array| array.areas[1][LABEL_BYTES..].fill(0), "slot 0: the array state is not there"),
    ];
    for (name, damage, message) in cases {
        let mut array = raid5();
        damage(&mut array);
        let assembly = start_all(&array).expect(name);
        let unusable = unusable(&assembly);
        assert_eq!(unusable.len(), 1, "{name}");
        assert_eq!(unusable[0].0, 1, "{name}");
        assert!(unusable[0].1.starts_with(message), "{name}: {}", unusable[0].1);
        assert_eq!(assembly.present, [Some(0), None, Some(2), Some(3), Some(4)], "{name}");
    }
}

#[test]
fn blank_and_unreadable_candidates_are_told_apart() {
    let mut array = raid5();
    array.areas[1].fill(0);
    let mut candidates = array.candidates();
    candidates.push(None);
    let assembly = start(&candidates).expect("four of five");
    assert_eq!(assembly.blank, [1]);
    assert_eq!(unusable(&assembly), [(5, "its metadata area can't be read".to_owned())]);
}

#[test]
fn foreign_devices_are_left_out_by_majority_or_by_name() {
    let array = raid5();
    let mut other = raid("5", 3, 0, MetadataPolicy::Log);
    other.change_state(|state| state.geometry.array_uuid = array_uuid(0xb2));
    (0..3).for_each(|device| other.write_label(device, device, device_uuid(device)));
    let mut candidates = other.candidates();
    candidates.extend(array.candidates());
    let assembly = start(&candidates).expect("a majority");
    assert_eq!(assembly.state.geometry.array_uuid, array_uuid(0xa1));
    let foreign = |candidate| Foreign { candidate, array_uuid: array_uuid(0xb2) };
    assert_eq!(assembly.foreign, [foreign(0), foreign(1), foreign(2)]);
    assert_eq!(assembly.present, [Some(3), Some(4), Some(5), Some(6), Some(7)]);

    let named = |uuid| StartOptions { expected: Some(uuid), ..StartOptions::default() };
    let smaller = assemble(&candidates, None, named(array_uuid(0xb2))).expect("named");
    assert_eq!(smaller.state.devices.len(), 3);
    let nobody = assemble(&candidates, None, named(array_uuid(1))).expect_err("not there");
    let found = vec![array_uuid(0xa1), array_uuid(0xb2)];
    assert_eq!(nobody, AssembleError::OtherArraysOnly { expected: array_uuid(1), found: found.clone() });
    assert_eq!(start(&candidates[..6]), Err(AssembleError::SeveralArrays { found }));
}

#[test]
fn no_devices_are_no_array() {
    assert_eq!(start(&[]), Err(AssembleError::NoDevices { candidates: 0 }));
    assert_eq!(start(&[None, Some(&[0; 9])]), Err(AssembleError::NoDevices { candidates: 2 }));
    let mut array = raid5();
    array.areas.iter_mut().for_each(|area| area[LABEL_BYTES..].fill(0));
    assert_eq!(start_all(&array), Err(AssembleError::NoState { array_uuid: array_uuid(0xa1) }));
}

/// Makes the structure at `at` one of version 2.
fn make_newer(area: &mut [u8], at: usize, length: usize) {
    let bytes = &mut area[at..at + length];
    bytes[8] = 2;
    bytes[12..16].fill(0);
    let checksum = crc32c::crc32c(bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let refused = |candidate| Err(AssembleError::NewerVersion { candidate, found: 2, known: 1 });
    let mut array = raid5();
    make_newer(&mut array.areas[2], 0, LABEL_BYTES);
    assert_eq!(start_all(&array), refused(Some(2)));
    let mut array = raid5();
    let slot = array.state_slot(GENERATION - 1);
    make_newer(&mut array.areas[3], slot.start, STATE_BYTES);
    assert_eq!(start_all(&array), refused(Some(3)));
    let mut array = raid5();
    make_newer(&mut array.kept_log, 0, KEPT_LABEL_BYTES);
    assert_eq!(assemble(&array.candidates(), Some(array.kept()), StartOptions::default()), refused(None));
}

#[test]
fn a_newer_version_of_another_array_does_not_matter() {
    let array = raid5();
    let mut other = raid("0", 2, 0, MetadataPolicy::Resync);
    other.change_state(|state| state.geometry.array_uuid = array_uuid(0xb2));
    other.write_label(0, 0, device_uuid(0));
    make_newer(&mut other.areas[0], LABEL_BYTES, STATE_BYTES);
    let mut candidates = array.candidates();
    candidates.push(Some(&other.areas[0]));
    assert_eq!(start(&candidates).expect("the array").foreign[0].candidate, 5);
}

/// A state that fills its slot, so that every sector of a torn write shows.
fn full_state(generation: u64) -> ArrayState {
    let mut full = state(geometry("60:2-spans", 250, 6, MetadataPolicy::Log));
    let device = |at: usize| MemberIndex(at as u16 % 256);
    let bad = |at| BadRange { device: device(at), first: MemberLba(generation), count: 1 };
    full.bad_ranges = (0..BAD_RANGES_MAX).map(bad).collect();
    full.devices.iter_mut().for_each(|record| record.boundary = MemberLba(generation));
    ArrayState { generation, ..full }
}

#[test]
fn a_torn_state_leaves_the_one_before() {
    const SECTORS_MAX: usize = STATE_BYTES / 512;
    let mut array = TestArray::new(full_state(GENERATION - 1));
    let slot = array.state_slot(GENERATION);
    let mut next = vec![0; STATE_BYTES];
    full_state(GENERATION).encode(&mut next);
    for (first, end) in (0..=SECTORS_MAX).flat_map(|cut| [(0, cut), (cut, SECTORS_MAX)]) {
        array.write_state(0, &full_state(GENERATION - 2));
        let written = first * 512..end * 512;
        array.areas[0][slot.clone()][written.clone()].copy_from_slice(&next[written]);
        let accept = StartOptions { accept_minority: true, ..StartOptions::default() };
        let assembly = assemble(&array.candidates()[..1], None, accept).expect("a state");
        // The last three sectors of a slot are always zeros.
        let whole = first == 0 && end >= SECTORS_MAX - 3;
        let expected = if whole { GENERATION } else { GENERATION - 1 };
        assert_eq!(assembly.state, full_state(expected), "sectors {first} to {end} were written");
    }
}

#[test]
fn a_state_in_the_other_slot_does_not_count() {
    let mut array = raid5();
    let (newest, other) = (array.state_slot(GENERATION), array.state_slot(GENERATION - 1));
    array.areas[1].copy_within(newest.clone(), other.start);
    array.areas[1][newest].fill(0);
    let assembly = start_all(&array).expect("three of four");
    let message = "slot 0: the array state is not there: the bytes at its place begin with something else; \
                   slot 1: the array state can't be: generation is 10; it must be even in slot 0 and odd in \
                   slot 1";
    assert_eq!(unusable(&assembly), [(1, message.to_owned())]);
}

#[test]
fn a_device_one_generation_behind_is_used_and_two_behind_is_not() {
    for reached in 1..5 {
        let mut array = raid5();
        array.next_state(0..reached, |state| state.dirty = true);
        let assembly = start_all(&array).expect("the newest");
        assert_eq!(assembly.state, array.state, "{reached} devices got the new generation");
        assert_eq!(assembly.present, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    }
    let mut array = raid5();
    array.next_state(0..3, |_| ());
    array.next_state(0..3, |_| ());
    let assembly = start_all(&array).expect("three of four");
    let behind = |device: u16| (usize::from(device), device, GENERATION, StaleReason::Behind);
    assert_eq!(stale(&assembly), [behind(3), behind(4)]);
    assert_eq!(assembly.present, [Some(0), Some(1), Some(2), None, None]);
}

#[test]
fn a_device_called_missing_is_stale_however_new_it_is() {
    for reached in [1, 3] {
        let mut array = raid5();
        array.next_state(0..reached, |state| set_missing(state, 3));
        let assembly = start_all(&array).expect("three of three");
        assert_eq!(stale(&assembly), [(3, 3, GENERATION, StaleReason::CalledMissing)]);
        // Without the one device that knows, nothing has happened that the others would miss.
        if reached == 1 {
            let assembly = start(&without(&array, &[0])).expect("three of four");
            assert_eq!(assembly.state.generation, GENERATION);
            assert_eq!(assembly.stale, []);
        }
    }
}

#[test]
fn a_replaced_device_and_one_beyond_the_table_are_stale() {
    let mut array = raid5();
    let old = array.areas[2].clone();
    array.next_state(0..5, |state| state.devices[2].device_uuid = device_uuid(77));
    array.write_label(2, 2, device_uuid(77));
    array.areas.push(old);
    let mut beyond = array.areas[0].clone();
    array.areas.push(beyond.split_off(0));
    array.write_label(6, 9, device_uuid(9));
    let assembly = start_all(&array).expect("all five");
    let replaced = StaleReason::Replaced { expected: device_uuid(77) };
    let beyond = StaleReason::NoSuchDevice { devices: 5 };
    assert_eq!(stale(&assembly), [(5, 2, GENERATION, replaced), (6, 9, GENERATION + 1, beyond)]);
}

#[test]
fn the_newest_state_counts_even_on_a_device_that_is_not_used() {
    let mut array = raid5();
    array.next_state(0..1, |state| state.dirty = true);
    array.next_state(0..1, |state| state.bad_ranges.clear());
    array.areas[0][20] ^= 1;
    let error = start_all(&array).expect_err("all others are behind");
    assert!(matches!(error, AssembleError::NoQuorum { generation: 12, present: 0, .. }), "{error}");
}

/// Found by fuzzing: of a device without a label, only the slot with the higher generation was looked at.
#[test]
fn the_newest_state_counts_beside_one_of_another_array() {
    let mut array = raid5();
    array.next_state(0..1, |_| ());
    array.next_state(0..1, |_| ());
    array.areas[0][20] ^= 1;
    let mut other = array.state.clone();
    other.geometry.array_uuid = array_uuid(0xb2);
    other.generation += 1;
    array.write_state(0, &other);
    let error = start_all(&array).expect_err("all others are behind");
    assert!(matches!(error, AssembleError::NoQuorum { generation: 12, present: 0, .. }), "{error}");
}

#[test]
fn a_device_given_twice_is_refused_unless_one_is_stale() {
    let mut array = raid5();
    array.areas.push(array.areas[1].clone());
    let twice = AssembleError::Duplicate { device: MemberIndex(1), first: 1, second: 5 };
    assert_eq!(start_all(&array), Err(twice));
    array.next_state(0..5, |_| ());
    array.next_state(0..5, |_| ());
    let assembly = start_all(&array).expect("the copy is older");
    assert_eq!(stale(&assembly), [(5, 1, GENERATION, StaleReason::Behind)]);
}

#[test]
fn two_states_of_one_generation_are_settled_by_those_who_hold_them() {
    let mut array = raid5();
    let before = array.state.clone();
    array.next_state(0..1, |state| set_missing(state, 3));
    array.state = before;
    array.next_state(1..5, |state| set_missing(state, 0));
    let assembly = start_all(&array).expect("three of three");
    assert_eq!(assembly.state, array.state);
    assert_eq!(stale(&assembly), [(0, 0, GENERATION + 1, StaleReason::CalledMissing)]);

    let mut mirror = raid("1", 2, 0, MetadataPolicy::Bitmap);
    let before = mirror.state.clone();
    mirror.next_state(0..1, |state| set_missing(state, 1));
    mirror.state = before;
    mirror.next_state(1..2, |state| set_missing(state, 0));
    let diverged = AssembleError::Diverged { array_uuid: array_uuid(0xa1), generation: GENERATION + 1 };
    assert_eq!(start_all(&mirror), Err(diverged));
    start(&without(&mirror, &[0])).expect("one part");

    // Half of those that a state calls in sync are not enough for it.
    let mut mirror = raid("1", 2, 0, MetadataPolicy::Bitmap);
    let before = mirror.state.clone();
    mirror.next_state(0..1, |state| state.dirty = true);
    mirror.state = before;
    mirror.next_state(1..2, |state| set_missing(state, 0));
    let assembly = start_all(&mirror).expect("one of one");
    assert_eq!((assembly.state, assembly.present), (mirror.state.clone(), vec![None, Some(1)]));

    let mut array = raid5();
    let before = array.state.clone();
    array.next_state(0..1, |state| state.dirty = true);
    array.state = before;
    array.next_state(1..5, |state| state.log_tail += 1);
    let assembly = start_all(&array).expect("three of four");
    assert_eq!(stale(&assembly), [(0, 0, GENERATION + 1, StaleReason::Diverged)]);
}

#[test]
fn more_than_half_of_the_members_in_sync_must_be_there() {
    for (level, members, absent, needed) in [
        ("5", 4, &[0][..], None),
        ("5", 4, &[0, 1], Some(3)),
        ("6", 5, &[0, 1], None),
        ("6", 5, &[0, 1, 2], Some(3)),
        ("1", 2, &[1], Some(2)),
        ("1", 3, &[1], None),
    ] {
        let array = raid(level, members, 1, MetadataPolicy::Log);
        let candidates = without(&array, absent);
        let result = start(&candidates);
        let in_sync = usize::from(members);
        let expected = needed.map(|needed| AssembleError::NoQuorum {
            generation: GENERATION,
            in_sync,
            present: in_sync - absent.len(),
            needed,
            absent: absent.iter().map(|device| MemberIndex(*device as u16)).collect(),
        });
        assert_eq!(result.err(), expected, "level {level}, {members} members");
        let accept = StartOptions { accept_minority: true, ..StartOptions::default() };
        let assembly = assemble(&candidates, None, accept).expect("accepted");
        assert_eq!(assembly.minority_accepted, needed.is_some());
    }
}

#[test]
fn only_members_in_sync_count_for_the_quorum() {
    let mut array = raid("6", 6, 2, MetadataPolicy::Log);
    array.next_state(0..8, |state| {
        set_missing(state, 0);
        state.devices[6] = DeviceRecord { state: DeviceState::Rebuilding, role: Some(0), ..state.devices[6] };
        state.devices[0].role = None;
    });
    start(&without(&array, &[0, 1, 2])).expect("three of five");
    let error = start(&without(&array, &[0, 1, 2, 3])).expect_err("two of five, though four devices");
    assert!(matches!(error, AssembleError::NoQuorum { in_sync: 5, present: 2, needed: 3, .. }), "{error}");
}

/// Level, policy, what the state says, what the bitmap says, and how a degraded start ends.
#[test]
fn dirty_and_degraded_is_refused_where_nothing_says_what_was_written() {
    use MetadataPolicy::{Bitmap, Log, None, Resync};
    const CLEAN: (bool, bool) = (false, false);
    const DIRTY: (bool, bool) = (true, false);
    const UNSYNCED: (bool, bool) = (false, true);
    for (level, policy, (dirty, needs_resync), marked, refused) in [
        ("5", None, CLEAN, false, false),
        ("5", None, DIRTY, false, true),
        ("5", Resync, CLEAN, false, false),
        ("5", Resync, DIRTY, false, true),
        ("5", Resync, UNSYNCED, false, true),
        ("5", Bitmap, CLEAN, false, false),
        ("5", Bitmap, DIRTY, false, false),
        ("5", Bitmap, DIRTY, true, true),
        ("5", Bitmap, CLEAN, true, true),
        ("5", Bitmap, UNSYNCED, false, true),
        ("5", Log, CLEAN, false, false),
        ("5", Log, DIRTY, false, false),
        ("5", Log, DIRTY, true, false),
        ("5", Log, UNSYNCED, false, true),
        ("6", Resync, DIRTY, false, true),
        ("50:2-spans", Resync, DIRTY, false, true),
        ("1e", Resync, DIRTY, false, false),
        ("10", Log, DIRTY, true, false),
        ("0", Resync, DIRTY, false, false),
    ] {
        let members = if level == "50:2-spans" { 6 } else { 4 + u16::from(level == "6") };
        let case = format!("{level}, {policy}, dirty {dirty}, needs_resync {needs_resync}, marked {marked}");
        let mut array = raid(level, members, 1, policy);
        array.change_state(|state| (state.dirty, state.needs_resync) = (dirty, needs_resync));
        let mut map = array.clear_map();
        if marked {
            map.mark(RegionIndex(3));
            array.write_bitmap(2, 0, &map, 9);
        }
        let whole = start_all(&array).expect(&case);
        let candidates = without(&array, &[0]);
        let result = start(&candidates);
        assert_eq!(result.is_err(), refused, "{case}: {:?}", result.err());
        if let Err(error) = result {
            let AssembleError::DirtyDegraded { doubt, open_roles, absent } = error else {
                panic!("{case}: {error}")
            };
            assert_eq!(Some(doubt), whole.doubt, "{case}");
            assert_eq!((open_roles, absent), (vec![0], vec![MemberIndex(0)]), "{case}");
        }
        let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
        let accepted = assemble(&candidates, Option::None, accept).expect(&case);
        assert_eq!(accepted.write_hole_accepted, refused, "{case}");
        assert_eq!(accepted.unsynced, whole.unsynced, "{case}");
    }
}

#[test]
fn a_rebuilding_role_is_a_missing_one() {
    let mut array = raid("5", 4, 1, MetadataPolicy::Resync);
    array.change_state(|state| {
        state.dirty = true;
        state.devices[1].state = DeviceState::Rebuilding;
    });
    let error = start_all(&array).expect_err("dirty and degraded");
    let expected =
        AssembleError::DirtyDegraded { doubt: Doubt::NoIntent, open_roles: vec![1], absent: vec![] };
    assert_eq!(error, expected);
}

#[test]
fn what_is_unsynced_follows_from_policy_and_flags() {
    for (level, policy, dirty, needs_resync, expected) in [
        ("5", MetadataPolicy::Resync, false, false, "none"),
        ("5", MetadataPolicy::Resync, true, false, "all"),
        ("5", MetadataPolicy::Bitmap, true, false, "marked"),
        ("5", MetadataPolicy::Bitmap, false, false, "marked"),
        ("5", MetadataPolicy::Bitmap, false, true, "all"),
        ("5", MetadataPolicy::Log, true, false, "none"),
        ("5", MetadataPolicy::Log, true, true, "all"),
        ("10", MetadataPolicy::Log, true, false, "marked"),
        ("1", MetadataPolicy::Resync, true, false, "all"),
        ("0", MetadataPolicy::Bitmap, true, true, "none"),
        ("jbod", MetadataPolicy::Resync, true, true, "none"),
    ] {
        let mut array = raid(level, 4, 0, policy);
        array.change_state(|state| (state.dirty, state.needs_resync) = (dirty, needs_resync));
        let (none, mut marked, mut all) = (array.clear_map(), array.clear_map(), array.clear_map());
        all.mark_all();
        marked.mark(RegionIndex(2));
        array.write_bitmap(1, 1, &marked, 7);
        let assembly = start_all(&array).expect(level);
        let map = match expected {
            "none" => none,
            "marked" => marked,
            _ => all,
        };
        assert_eq!(assembly.unsynced, map, "{level}, {policy}, dirty {dirty}, needs_resync {needs_resync}");
        assert_eq!(assembly.doubt.is_some(), expected != "none");
    }
}

#[test]
fn the_bitmap_is_that_of_devices_in_sync_only() {
    let mut array = raid("6", 5, 1, MetadataPolicy::Bitmap);
    let mut map = array.clear_map();
    map.mark(RegionIndex(0));
    array.next_state(0..6, |state| {
        set_missing(state, 0);
        state.devices[1].state = DeviceState::Rebuilding;
    });
    for device in [0, 1, 5] {
        array.write_bitmap(device, 0, &map, 99);
    }
    let assembly = start_all(&array).expect("nothing is marked");
    assert_eq!((assembly.unsynced.is_clear(), assembly.next_bitmap_sequence), (true, 3));
    for device in 2..5 {
        for slot in 0..2 {
            let slot = array.bitmap_slot(slot);
            array.areas[device][slot].fill(0);
        }
    }
    let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
    let assembly = assemble(&array.candidates(), None, accept).expect("accepted");
    assert_eq!(assembly.unsynced.marked_count(), u32::from(map.regions()));
    assert_eq!(assembly.next_bitmap_sequence, 0);
}

fn sequences(assembly: &Assembly) -> Vec<u64> {
    assembly.records.iter().map(|record| record.sequence).collect()
}

#[test]
fn records_not_below_the_tail_are_replayed_in_order_and_once() {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let [old, first, second, third, ninth] =
        [TAIL - 1, TAIL, TAIL + 1, TAIL + 5, TAIL + 9].map(|at| array.record(at));
    array.write_record(0, 40, &second);
    array.write_record(0, 8, &old);
    array.write_record(1, 0, &second);
    array.write_record(1, 4, &third);
    array.write_record(2, 59, &first);
    array.write_record(3, 20, &first);
    // A spare's log is nobody's.
    array.write_record(4, 0, &ninth);
    let assembly = start_all(&array).expect("a whole array");
    let place = |device, block| PayloadPlace { source: LogSource::Device(MemberIndex(device)), block };
    let replay = |record: &TestRecord, copies| Replay {
        sequence: record.header.sequence,
        stripe: record.header.stripe,
        runs: record.runs.clone(),
        copies,
    };
    let expected = [
        replay(&first, vec![place(2, 60), place(3, 21)]),
        replay(&second, vec![place(0, 41), place(1, 1)]),
        replay(&third, vec![place(1, 5)]),
    ];
    assert_eq!(assembly.records, expected);
    assert_eq!(assembly.next_log_sequence, TAIL + 6);
    assert_eq!(assembly.doubt, None);
}

#[test]
fn the_tail_is_the_highest_that_state_or_records_name() {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let record = |sequence, tail_sequence| {
        let mut record = array.record(sequence);
        record.header.tail_sequence = tail_sequence;
        record
    };
    let records = [record(TAIL + 1, TAIL), record(TAIL + 3, TAIL + 3), record(TAIL + 4, TAIL + 2)];
    for (device, record) in records.iter().enumerate() {
        array.write_record(device, 0, record);
    }
    let assembly = start_all(&array).expect("a whole array");
    assert_eq!(sequences(&assembly), [TAIL + 3, TAIL + 4]);
    array.change_state(|state| state.log_tail = TAIL + 4);
    assert_eq!(sequences(&start_all(&array).expect("a whole array")), [TAIL + 4]);
    array.change_state(|state| state.log_tail = TAIL + 40);
    let assembly = start_all(&array).expect("a whole array");
    assert_eq!((sequences(&assembly), assembly.next_log_sequence), (vec![], TAIL + 40));
}

#[test]
fn the_newest_epoch_wins_among_records_of_one_number() {
    let mut array = raid5();
    array.change_state(|state| state.epoch = 9);
    let mut old = array.record(TAIL);
    let new = array.record(TAIL);
    old.header.epoch = 8;
    old.header.stripe = StripeIndex(1);
    array.write_record(0, 0, &old);
    array.write_record(1, 0, &new);
    array.write_record(2, 0, &old);
    let assembly = start_all(&array).expect("a whole array");
    let copies = vec![PayloadPlace { source: LogSource::Device(MemberIndex(1)), block: 1 }];
    let expected = Replay { sequence: TAIL, stripe: new.header.stripe, runs: new.runs, copies };
    assert_eq!(assembly.records, [expected]);
}

#[test]
fn a_log_that_is_not_the_states_is_refused_unless_the_hole_is_accepted() {
    type Change = fn(&mut TestRecord);
    let source_log = LogSource::Device(MemberIndex(1));
    let misfit = LogTrouble::Misfit { source_log, sequence: TAIL };
    let cases: [(Change, LogTrouble); 6] = [
        (
            |record| record.header.epoch = 4,
            LogTrouble::Ahead { source_log, sequence: TAIL, epoch: 4, state_epoch: 3 },
        ),
        (|record| record.header.stripe = StripeIndex(1), LogTrouble::Conflict { source_log, sequence: TAIL }),
        (|record| record.runs[1].first_row += 1, LogTrouble::Conflict { source_log, sequence: TAIL }),
        (|record| record.header.stripe = StripeIndex(128), misfit),
        (|record| record.runs[0].unit = 4, misfit),
        (|record| record.runs[0].first_row = 15, misfit),
    ];
    for (change, trouble) in cases {
        let mut array = raid5();
        let mut record = array.record(TAIL);
        array.write_record(0, 0, &record);
        change(&mut record);
        array.write_record(1, 0, &record);
        assert_eq!(start_all(&array), Err(AssembleError::Log { trouble }));
        let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
        let assembly = assemble(&array.candidates(), None, accept).expect("accepted");
        assert_eq!((assembly.doubt, assembly.records), (Some(Doubt::Log(trouble)), vec![]));
        assert_eq!(assembly.next_log_sequence, TAIL + 1, "what is left out must not come back");
        assert_eq!(assembly.unsynced.marked_count(), u32::from(assembly.unsynced.regions()));
    }
}

#[test]
fn a_log_is_incomplete_when_all_copies_may_be_absent() {
    // Level, members, missing, absent, whether a dirty start is refused for the log's sake.
    for (level, members, missing, absent, incomplete) in [
        ("5", 5, &[][..], &[0][..], false),
        ("5", 6, &[], &[0, 1], true),
        ("5", 6, &[0], &[], false),
        ("5", 6, &[0], &[1], true),
        ("6", 6, &[], &[0, 1], false),
        ("6", 6, &[0], &[1], false),
        ("6", 7, &[], &[0, 1, 2], true),
        ("6", 7, &[0], &[1, 2], true),
        // Both copies of a record are on devices of its stripe, and so in one span.
        ("50:2-spans", 6, &[], &[0, 3], false),
        ("50:2-spans", 6, &[0], &[3], false),
        ("50:2-spans", 6, &[0], &[1, 3], true),
        ("50:2-spans", 6, &[0, 3], &[], false),
    ] {
        let case = format!("{level} of {members}, missing {missing:?}, absent {absent:?}");
        let mut array = raid(level, members, 0, MetadataPolicy::Log);
        array.change_state(|state| {
            state.dirty = true;
            for device in missing {
                set_missing(state, *device);
            }
        });
        let candidates = without(&array, absent);
        match start(&candidates) {
            Ok(_) => assert!(!incomplete, "{case}"),
            Err(AssembleError::DirtyDegraded { doubt, .. }) => {
                assert!(incomplete, "{case}");
                assert_eq!(doubt, Doubt::LogIncomplete, "{case}");
            }
            Err(error) => panic!("{case}: {error}"),
        }
    }
}

#[test]
fn a_log_of_no_length_is_no_log() {
    let mut geometry = geometry("5", 4, 0, MetadataPolicy::Log);
    geometry.log_bytes = ByteCount(0);
    let mut array = TestArray::new(state(geometry));
    array.change_state(|state| state.dirty = true);
    let assembly = start_all(&array).expect("all members are there");
    assert_eq!(assembly.doubt, Some(Doubt::LogIncomplete));
}

#[test]
fn kept_memory_is_used_only_if_it_is_this_arrays_and_of_this_life() {
    type Change = fn(&mut TestArray);
    let cases: [(Change, KeptVerdict); 7] = [
        (|_| (), KeptVerdict::Used),
        (
            |array| array.change_state(|state| state.kept_epoch = 6),
            KeptVerdict::OtherLife { found: 5, expected: 7 },
        ),
        // The label of the life is written, and the state that names it is not.
        (|array| array.change_state(|state| state.kept_epoch = 4), KeptVerdict::Used),
        (
            |array| array.change_state(|state| state.kept_epoch = 3),
            KeptVerdict::OtherLife { found: 5, expected: 3 },
        ),
        (
            |array| KeptLabel { array_uuid: array_uuid(7), kept_epoch: 5 }.encode(&mut array.kept_log[..64]),
            KeptVerdict::OtherArray { found: array_uuid(7) },
        ),
        (
            |array| array.kept_log.fill(0),
            KeptVerdict::NoLabel(DecodeError::BadMagic { part: Part::KeptLabel }),
        ),
        (
            |array| array.kept_log.truncate(9),
            KeptVerdict::NoLabel(DecodeError::TooShort { part: Part::KeptLabel, needed: 64, found: 9 }),
        ),
    ];
    for (change, verdict) in cases {
        let mut array = raid5();
        array.change_state(|state| (state.dirty, state.log_place) = (true, LogPlace::KeptMemory));
        array.write_kept_record(7, &array.record(TAIL + 2));
        // The devices' logs are from before.
        array.write_record(1, 0, &array.record(TAIL + 1));
        array.write_entry(3, KeptEntry { sequence: 20, block: 1, dirty: 1 });
        array.write_entry(5, KeptEntry { sequence: 10, block: 2, dirty: 2 });
        change(&mut array);
        let used = verdict == KeptVerdict::Used;
        let kept = Some(array.kept());
        let assembly = assemble(&array.candidates(), kept, StartOptions::default()).expect("all are there");
        assert_eq!(assembly.kept, verdict);
        assert_eq!(sequences(&assembly), if used { vec![TAIL + 2] } else { vec![] });
        let slots: Vec<u32> = assembly.kept_entries.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(slots, if used { vec![5, 3] } else { vec![] });
        assert_eq!(assembly.doubt, (!used).then(|| Doubt::KeptLog(verdict.clone())));
        let degraded = assemble(&without(&array, &[2]), kept, StartOptions::default());
        assert_eq!(degraded.is_ok(), used, "{verdict}");
    }
}

#[test]
fn a_directory_is_read_wherever_the_log_is() {
    let mut array = raid5();
    array.write_entry(0, KeptEntry { sequence: 1, block: 2, dirty: 4 });
    array.directory.truncate(40);
    let assembly = assemble(&array.candidates(), Some(array.kept()), StartOptions::default()).expect("whole");
    assert_eq!(assembly.kept_entries, [(0, KeptEntry { sequence: 1, block: 2, dirty: 4 })]);
}

#[test]
fn messages_say_what_is_wrong_and_what_would_help() {
    let mut array = raid5();
    array.change_state(|state| (state.dirty, state.log_place) = (true, LogPlace::KeptMemory));
    let error = start(&without(&array, &[2])).expect_err("no kept memory");
    assert_eq!(
        error.to_string(),
        "the array can't tell what its missing members held: it was not stopped cleanly and its log is in \
         battery-kept memory, but there is no kept memory; roles without a device in sync: 2; absent \
         devices: m2. Bring the absent devices back, or the battery-kept memory; or accept the write hole: \
         what was being written when the array stopped, and data beside it, may then be wrong"
    );
    let error = start(&without(&array, &[1, 3])).expect_err("no quorum");
    assert_eq!(
        error.to_string(),
        "generation 10 calls 4 members in sync; 2 of them are present and 3 are needed. Absent: m1, m3. \
         Bring them back; or, if they are gone for good, accept a minority: what was written to them since is \
         lost"
    );
}
