//! Which candidates are devices of the array, and why others are not used.

use super::*;

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

/// Makes the structure at `at` one of version 5.
fn make_newer(area: &mut [u8], at: usize, length: usize) {
    set_version(5, area, at, length);
}

fn set_version(version: u8, area: &mut [u8], at: usize, length: usize) {
    let bytes = &mut area[at..at + length];
    bytes[8] = version;
    bytes[12..16].fill(0);
    let checksum = crc_fast::crc32_iscsi(bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let refused = |candidate| Err(AssembleError::NewerVersion { candidate, found: 5, known: 4 });
    let mut array = raid5();
    make_newer(&mut array.areas[2], 0, LABEL_BYTES);
    assert_eq!(start_all(&array), refused(Some(2)));
    let mut array = raid5();
    let slot = array.state_slot(GENERATION - 1);
    make_newer(&mut array.areas[3], slot.start, STATE_BYTES);
    assert_eq!(start_all(&array), refused(Some(3)));
    let mut array = raid5();
    make_newer(&mut array.nvram_log, 0, NVRAM_LABEL_BYTES);
    assert_eq!(assemble(&array.candidates(), Some(array.kept()), StartOptions::default()), refused(None));
}

#[test]
fn an_array_of_an_older_version_starts_with_its_records() {
    [1, 2, 3].into_iter().for_each(start_older);
}

fn start_older(version: u8) {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let record = array.record(TAIL);
    let ring = array.layout().log.offset_bytes as usize;
    for area in 0..array.areas.len() {
        array.write_record(area, 0, &record);
        for (at, length) in [
            (0, LABEL_BYTES),
            (array.state_slot(GENERATION).start, STATE_BYTES),
            (array.state_slot(GENERATION - 1).start, STATE_BYTES),
            (ring, 512),
        ] {
            set_version(version, &mut array.areas[area], at, length);
        }
    }
    let assembly = start_all(&array).expect("what an older raidlab wrote");
    assert_eq!(assembly.records.iter().map(|it| it.sequence).collect::<Vec<_>>(), [TAIL]);
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
