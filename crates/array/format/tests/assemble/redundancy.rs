//! Whether enough members are there, and where their redundancy can't be relied on.

use super::*;

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
            stale: vec![],
            // A minority can be accepted where it has all data, and only there that is offered.
            is_enough: level == "1",
        });
        let is_offered =
            expected.as_ref().is_some_and(|error| error.to_string().contains("--accept-minority"));
        assert_eq!(is_offered, expected.is_some() && level == "1", "level {level}");
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
    const OUT_OF_SYNC: (bool, bool) = (false, true);
    for (level, policy, (dirty, needs_resync), marked, refused) in [
        ("5", None, CLEAN, false, false),
        ("5", None, DIRTY, false, true),
        ("5", Resync, CLEAN, false, false),
        ("5", Resync, DIRTY, false, true),
        ("5", Resync, OUT_OF_SYNC, false, true),
        ("5", Bitmap, CLEAN, false, false),
        ("5", Bitmap, DIRTY, false, false),
        ("5", Bitmap, DIRTY, true, true),
        ("5", Bitmap, CLEAN, true, true),
        ("5", Bitmap, OUT_OF_SYNC, false, true),
        ("5", Log, CLEAN, false, false),
        ("5", Log, DIRTY, false, false),
        ("5", Log, DIRTY, true, false),
        ("5", Log, OUT_OF_SYNC, false, true),
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
            let AssembleError::DirtyDegraded { doubt, lacking, .. } = error else {
                panic!("{case}: {error}")
            };
            assert_eq!(Some(doubt), whole.doubt, "{case}");
            let absent = Lacking { role: 0, device: Some(MemberIndex(0)), reason: LackReason::Absent };
            assert_eq!(lacking, [absent], "{case}");
        }
        let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
        let accepted = assemble(&candidates, Option::None, accept).expect(&case);
        assert_eq!(accepted.write_hole_accepted, refused, "{case}");
        assert_eq!(accepted.out_of_sync, whole.out_of_sync, "{case}");
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
    let rebuilding = Lacking { role: 1, device: Some(MemberIndex(1)), reason: LackReason::Rebuilding };
    let lacking = vec![rebuilding];
    assert_eq!(error, AssembleError::DirtyDegraded { doubt: Doubt::NoIntent, lacking, is_enough: true });
}

/// Defect: the start of an array that had lost a member before said "absent devices: none".
#[test]
fn a_refusal_names_the_member_that_failed_before() {
    // Earlier writers did not keep the role of a missing device.
    for role in [Some(2), None] {
        let mut array = raid("5", 4, 1, MetadataPolicy::Resync);
        array.change_state(|state| {
            state.dirty = true;
            (state.devices[2].state, state.devices[2].role) = (DeviceState::Missing, role);
        });
        let error = start(&without(&array, &[2])).expect_err("dirty and degraded");
        let said = error.to_string();
        assert!(said.contains("Missing: device 2 (role 2), which failed before"), "{said}");
        assert!(said.contains(". Accept the write hole"), "a stale device is of no help: {said}");
    }
}

#[test]
fn what_is_out_of_sync_follows_from_policy_and_flags() {
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
        assert_eq!(
            assembly.out_of_sync, map,
            "{level}, {policy}, dirty {dirty}, needs_resync {needs_resync}"
        );
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
    assert_eq!((assembly.out_of_sync.is_clear(), assembly.next_bitmap_sequence), (true, 3));
    for device in 2..5 {
        for slot in 0..2 {
            let slot = array.bitmap_slot(slot);
            array.areas[device][slot].fill(0);
        }
    }
    let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
    let assembly = assemble(&array.candidates(), None, accept).expect("accepted");
    assert_eq!(assembly.out_of_sync.marked_count(), u32::from(map.regions()));
    assert_eq!(assembly.next_bitmap_sequence, 0);
}
