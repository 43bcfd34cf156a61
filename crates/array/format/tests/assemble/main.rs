//! Assembly of sets of devices, as tables: which are there, in which order, how far each got, and what the array was
//! doing.
//!
//! Verified: every reason for not using a candidate, quorum, each policy dirty and degraded, which records are
//! replayed, NVRAM, messages. Not verified: arbitrary damage, which the campaign of `tests/fuzz_smoke.rs` does.

mod candidates;
mod generations;
mod histories;
mod redundancy;
mod replay;
mod starts;
#[path = "../support/mod.rs"]
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

/// That each of these devices holds another state of the newest generation, which the start beside it wrote.
fn diverged(parts: &[(StartNonce, u16)]) -> AssembleError {
    let part = |(start, device): &(StartNonce, u16)| StartedApart {
        start: *start,
        devices: vec![MemberIndex(*device)],
    };
    AssembleError::Diverged {
        array_uuid: array_uuid(0xa1),
        generation: GENERATION + 1,
        parts: parts.iter().map(part).collect(),
    }
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
                out_of_sync: array.clear_map(),
                doubt: None,
                write_hole_accepted: false,
                minority_accepted: false,
                records: vec![],
                kept: NvramVerdict::NotGiven,
                nvram_entries: vec![],
                next_log_sequence: TAIL,
                next_bitmap_sequence: assembly.next_bitmap_sequence,
                written: None,
                next_written_sequence: 0,
                may_be_unrecorded: false,
            };
            assert_eq!(assembly, expected, "level {level}, {policy}");
        }
    }
}

#[test]
fn messages_say_what_is_wrong_and_what_would_help() {
    let mut array = raid5();
    array.change_state(|state| (state.dirty, state.log_place) = (true, LogPlace::Nvram));
    let error = start(&without(&array, &[2])).expect_err("no NVRAM");
    assert_eq!(
        error.to_string(),
        "the array can't tell what its missing members held: it was not stopped cleanly and its log is in \
         NVRAM, but there is no NVRAM. Missing: device 2 (role 2), which is absent. Bring \
         back the absent devices, or the NVRAM; or accept the write hole (--accept-write-hole): \
         what was being written when the array stopped, and data beside it, may then be wrong"
    );
    let error = start(&without(&array, &[1, 3])).expect_err("no quorum");
    assert_eq!(
        error.to_string(),
        "generation 10 calls 4 members in sync; 2 of them are present and 3 are needed. Absent: device 1, \
         device 3. Bring them back: more are absent than the level survives"
    );
    let error = start(&without(&raid("1", 2, 1, MetadataPolicy::Log), &[1])).expect_err("no quorum");
    let offer = "Absent: device 1. Bring them back; or, if they are gone for good, accept a minority (--accept-minority): what was \
                 written to them since is lost";
    assert!(error.to_string().ends_with(offer), "{error}");
}
