//! Starts that a device missed: copies from before, copies that were used apart, and what a crash leaves that looks like them.
//!
//! A start puts its nonce into the state that it finds, on all devices, and then writes the next generation ([`begin`]).

use super::*;
use std::ops::Range;

const FIRST: StartNonce = StartNonce::new(0xf1);
const SECOND: StartNonce = StartNonce::new(0x5e);

/// A start of these devices gets as far as its nonce.
fn find(array: &mut TestArray, devices: Range<usize>, start: StartNonce) {
    array.state.note_found_by(start);
    let state = array.state.clone();
    devices.for_each(|device| array.write_state(device, &state));
}

/// A start of these devices writes its first generation to the first few of them.
fn begin(array: &mut TestArray, devices: Range<usize>, reached: usize, start: StartNonce) {
    find(array, devices.clone(), start);
    let end = devices.start + reached;
    array.next_state(devices.start..end, |state| (state.start, state.found_by) = (start, Vec::new()));
}

/// The same, on all of them, and so many more generations.
fn serve(array: &mut TestArray, devices: Range<usize>, more: usize, start: StartNonce) {
    begin(array, devices.clone(), devices.len(), start);
    (0..more).for_each(|_| array.next_state(devices.clone(), |state| state.dirty ^= true));
}

#[test]
fn a_device_that_missed_a_start_is_stale_and_one_that_a_crash_left_behind_is_not() {
    for reached in 1..=5 {
        let mut array = raid5();
        let before = array.areas[1].clone();
        begin(&mut array, 0..5, reached, FIRST);
        let assembly = start_all(&array).expect("what a crash leaves");
        assert_eq!(assembly.present, (0..5).map(Some).collect::<Vec<_>>(), "{reached} got the generation");
        assert_eq!((assembly.stale.len(), assembly.state.start), (0, FIRST));
        array.areas[1] = before;
        let assembly = start_all(&array).expect("three of four");
        let missed = StaleReason::MissedStart { own: START, latest: FIRST };
        assert_eq!(stale(&assembly), [(1, 1, GENERATION, missed)], "{reached} got the generation");
    }
}

#[test]
fn a_start_that_wrote_no_generation_leaves_copies_as_good_as_they_were() {
    for reached in 0..=5 {
        let mut array = raid5();
        find(&mut array, 0..reached, FIRST);
        let assembly = start_all(&array).expect("nothing relied on it");
        assert_eq!(assembly.present, (0..5).map(Some).collect::<Vec<_>>(), "{reached} have the nonce");
        assert_eq!(assembly.state.found_by, if reached > 0 { vec![FIRST] } else { vec![] });
    }
}

/// Both sets are used and stopped; members of both are then named together.
#[test]
fn copies_that_were_used_apart_are_never_taken_for_one_array() {
    // Generations that each start has written, and members of the second set, of four.
    for (first, second, copies) in
        [(1, 1, 2), (3, 3, 2), (1, 3, 2), (3, 2, 2), (2, 3, 1), (2, 1, 3), (1, 1, 3)]
    {
        for level in ["1", "5", "10"] {
            let mut array = raid(level, 4, 0, MetadataPolicy::Resync);
            let mut other = array.clone();
            serve(&mut array, 0..4, first - 1, FIRST);
            serve(&mut other, 0..4, second - 1, SECOND);
            (4 - copies..4).for_each(|device| array.areas[device] = other.areas[device].clone());
            let case = format!("RAID {level}, {first} and {second} generations, {copies} copies");
            match start_all(&array) {
                Err(AssembleError::Diverged { parts, .. }) => {
                    assert_eq!((first, parts.len()), (second, 2), "{case}");
                    assert_eq!((parts[0].start, parts[1].start), (FIRST, SECOND), "{case}");
                    assert_eq!(parts[1].devices.len(), copies, "{case}");
                }
                Err(AssembleError::NoQuorum { stale, .. }) => assert!(!stale.is_empty(), "{case}"),
                Ok(assembly) => {
                    let wins = [4 - copies, copies][usize::from(assembly.state.start == SECOND)];
                    assert_eq!((wins, assembly.stale.len()), (3, 1), "{case}");
                }
                Err(error) => panic!("{case}: {error}"),
            }
        }
    }
}

/// A crash leaves the first start's generation on device 0; a later start without it comes as far as its nonce.
#[test]
fn a_start_that_got_no_further_than_its_nonce_does_not_make_the_others_stale() {
    for reached in 0..=4 {
        let mut array = raid5();
        begin(&mut array, 0..5, 1, FIRST);
        let found = ArrayState { found_by: vec![FIRST, SECOND], ..raid5().state };
        (1..=reached).for_each(|device| array.write_state(device, &found));
        let assembly = start_all(&array).expect("a crash leaves it");
        assert_eq!(assembly.present, (0..5).map(Some).collect::<Vec<_>>(), "{reached} have the second nonce");
        assert_eq!(assembly.state.start, FIRST);
    }
}

/// The same, and the later start writes its own generation to some of the rest.
#[test]
fn of_two_starts_that_were_cut_short_either_state_can_be_left_out() {
    for reached in 1..=3 {
        let mut array = raid5();
        begin(&mut array, 0..5, 1, FIRST);
        let second = ArrayState { found_by: vec![FIRST, SECOND], ..raid5().state };
        (1..5).for_each(|device| array.write_state(device, &second));
        array.state = second;
        array.next_state(1..1 + reached, |state| {
            set_missing(state, 0);
            (state.start, state.found_by) = (SECOND, Vec::new());
        });
        let assembly = start_all(&array).unwrap_or_else(|error| panic!("{reached}: {error}"));
        let winner = if reached > 1 { SECOND } else { FIRST };
        assert_eq!(assembly.state.start, winner, "{reached} have the second start's state");

        // A copy from before the first start is no witness that its state was never complete.
        if reached == 1 {
            array.areas[4] = raid5().areas[4].clone();
            array.areas[3] = raid5().areas[3].clone();
            assert_eq!(start_all(&array), Err(diverged(&[(FIRST, 0), (SECOND, 1)])));
        }
    }
}

#[test]
fn the_first_of_too_many_starts_is_forgotten() {
    let mut array = raid5();
    begin(&mut array, 0..5, 1, FIRST);
    let mut found = raid5().state;
    found.note_found_by(FIRST);
    for number in 1..=FOUND_BY_MAX as u64 {
        (1..5).for_each(|device| array.write_state(device, &found));
        let assembly = start_all(&array).expect("the first start is remembered");
        assert_eq!(assembly.stale, [], "{number}");
        found.note_found_by(StartNonce::new(number));
    }
    assert_eq!(found.found_by.len(), FOUND_BY_MAX);
    (1..5).for_each(|device| array.write_state(device, &found));
    let error = start_all(&array).expect_err("device 0 alone knows of the first start");
    assert!(matches!(error, AssembleError::NoQuorum { present: 1, .. }), "{error}");
}

#[test]
fn nonces_of_all_devices_are_kept() {
    let mut array = raid5();
    find(&mut array, 0..1, FIRST);
    array.state.found_by.clear();
    find(&mut array, 3..4, SECOND);
    assert_eq!(start_all(&array).expect("one state").state.found_by, [FIRST, SECOND]);
}

#[test]
fn nvram_that_was_with_a_copy_is_not_used() {
    let mut array = raid5();
    array.change_state(|state| state.nvram_start = FIRST);
    let assembly = assemble(&array.candidates(), Some(array.kept()), StartOptions::default()).expect("clean");
    assert_eq!(assembly.kept, NvramVerdict::OtherStart { found: START, expected: FIRST });
}

/// What versions 1 to 3 wrote has no nonce.
#[test]
fn states_without_a_nonce_start_as_before() {
    let mut array = raid5();
    let (old, older) = (
        ArrayState { start: StartNonce::NONE, ..array.state.clone() },
        ArrayState { generation: GENERATION - 1, start: StartNonce::NONE, ..array.state.clone() },
    );
    (0..5).for_each(|device| array.write_state(device, &older));
    (0..5).for_each(|device| array.write_state(device, &old));
    array.state = old;
    array.next_state(0..3, |state| state.dirty = true);
    let assembly = start_all(&array).expect("an old array");
    assert_eq!(assembly.present, (0..5).map(Some).collect::<Vec<_>>());
    let before = array.areas[4].clone();
    (3..5).for_each(|device| array.write_state(device, &array.state.clone()));
    serve(&mut array, 0..5, 0, FIRST);
    array.areas[4] = before;
    assert_eq!(start_all(&array).expect("four members").stale.len(), 1);
}

#[test]
fn messages_name_the_starts_and_their_devices() {
    let mut array = raid("1", 2, 0, MetadataPolicy::Resync);
    let mut other = array.clone();
    serve(&mut array, 0..2, 0, FIRST);
    serve(&mut other, 0..2, 0, SECOND);
    let copy = other.areas[1].clone();
    let candidates = [Some(&*array.areas[0]), Some(&*copy)];
    assert_eq!(
        start(&candidates).expect_err("copies").to_string(),
        "the devices of array a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 hold different states of generation 11: it was \
         started in parts, or copies of it were. Last written: device 0 by start 00000000000000f1; device 1 by start \
         000000000000005e. Name the devices of one start only, and accept a minority (--accept-minority) if they are \
         too few: what was written to the others since is lost"
    );
    other.next_state(0..2, |_| ());
    let candidates = [Some(&*array.areas[0]), Some(&*other.areas[1])];
    assert_eq!(
        start(&candidates).expect_err("copies").to_string(),
        "generation 12 calls 2 members in sync; 1 of them are present and 2 are needed. Absent: device 0. Device 0 \
         is given, but its state is of start 00000000000000f1 and does not know the array's latest, \
         000000000000005e: it is a copy from before that start, or was started without the others. Bring them back; \
         or, if they are gone for good, accept a minority (--accept-minority): what was written to them since is lost"
    );
}
