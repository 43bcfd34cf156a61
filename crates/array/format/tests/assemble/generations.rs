//! Which state counts: torn ones, older ones, and two of one generation.

use super::*;

/// A state that fills its slot, so that every sector of a torn write shows.
fn full_state(generation: u64) -> ArrayState {
    let mut full = state(geometry("60:2-spans", 250, 6, MetadataPolicy::Log));
    let device = |at: usize| MemberIndex(at as u16 % 256);
    let bad = |at| BadRange {
        device: device(at),
        first: MemberLba(generation),
        count: 1,
        reason: BadReason::Unreadable,
    };
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
    assert_eq!(start_all(&mirror), Err(diverged(&[(START, 0), (START, 1)])));
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
    assert_eq!(stale(&assembly), [(0, 0, GENERATION + 1, StaleReason::Diverged { own: START })]);
}

/// Two crashes, the second of a start without two devices, one of which has the only copy of the newest state.
fn crashed_twice() -> TestArray {
    let mut array = raid("1e", 5, 0, MetadataPolicy::Resync);
    let before = array.state.clone();
    array.next_state(2..3, |state| {
        set_missing(state, 0);
        set_missing(state, 1);
    });
    array.state = before;
    array.next_state(0..1, |state| state.dirty = true);
    array
}

#[test]
fn a_state_that_was_never_complete_does_not_stand_in_the_way_of_another() {
    let array = crashed_twice();
    let assembly = start_all(&array).expect("all hold the generation before");
    assert_eq!(assembly.state, array.state);
    assert_eq!(assembly.present, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(stale(&assembly), []);

    // Without device 1 the first state may be on it, too; the second was never complete.
    let assembly = start(&without(&array, &[1])).expect("four of five");
    assert_eq!(assembly.state, array.state);
    assert_eq!(assembly.present[2], Some(1));

    // Without device 4 both may have been complete.
    let diverged = diverged(&[(START, 0), (START, 2)]);
    assert_eq!(start(&without(&array, &[4])), Err(diverged.clone()));

    // Nor is a device that has lost the generation before a witness.
    let mut damaged = array.clone();
    let slot = damaged.state_slot(GENERATION);
    damaged.areas[4][slot][20] ^= 1;
    assert_eq!(start_all(&damaged), Err(diverged.clone()));

    // Nor one that has taken another's place.
    let mut replaced = array;
    replaced.write_label(4, 4, device_uuid(77));
    assert_eq!(start_all(&replaced), Err(diverged));
}

#[test]
fn a_state_that_was_never_complete_gives_way_to_one_that_may_have_been() {
    let mut array = raid5();
    let before = array.state.clone();
    array.next_state(0..1, |state| set_missing(state, 3));
    array.state = before;
    array.next_state(2..3, |state| set_missing(state, 0));
    let newest = array.state.clone();
    let found = start(&without(&array, &[3]));
    let present = found.map(|assembly| (assembly.state, assembly.present));
    assert_eq!(present, Ok((newest, vec![None, Some(1), Some(2), None, Some(3)])));

    // NVRAM may have the label of the incarnation that only the first one knows.
    array.state.generation -= 1;
    array.next_state(0..1, |state| {
        *state = raid5().state;
        state.generation = GENERATION + 1;
        state.nvram_epoch += 1;
        set_missing(state, 3);
    });
    assert_eq!(start(&without(&array, &[3])), Err(diverged(&[(START, 0), (START, 2)])));
    assert_eq!(start_all(&array).map(|assembly| assembly.state), Ok(array.state));
}
