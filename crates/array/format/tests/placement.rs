//! Where parts are on a device, and which copy of label and states is used.
//!
//! Verified: the offsets of docs/on-disk-format.md, lengths just long enough and just too short, every way in which one
//! of two copies is lost or behind, and that an array is assembled from its second copies. Not verified: who writes the
//! copies.

mod support;

use proptest::prelude::*;
use raidlab_format::*;
use raidlab_units::ByteCount;
use support::*;

const TAIL: usize = AreaLayout::TAIL_BYTES as usize;

fn place(log: u64, data: u64, device: u64) -> Result<Placement, DeviceTooShort> {
    let mut geometry = geometry("5", 4, 1, MetadataPolicy::Log);
    (geometry.log_bytes, geometry.member_bytes) = (ByteCount(log), ByteCount(data));
    Placement::new(&geometry, ByteCount(device))
}

#[test]
fn data_begins_on_a_mebibyte_and_the_copy_ends_with_the_device() {
    let mib = 1 << 20;
    let rows = [
        // log, data, device: data_at, tail_at
        (0, 10 * mib, 12 * mib, mib, 12 * mib - 36_864),
        (mib - 45_056, 10 * mib, 12 * mib, mib, 12 * mib - 36_864),
        (mib - 45_055, 10 * mib, 14 * mib, 2 * mib, 14 * mib - 36_864),
        (16 * mib, 10 * mib, 28 * mib + 4095, 17 * mib, 28 * mib - 36_864),
        (0, 512, mib + 4096 + 36_864, mib, mib + 4096),
    ];
    for (log, data, device, data_at, tail_at) in rows {
        let placed = place(log, data, device).expect("a device that is long enough");
        assert_eq!((placed.data_at, placed.tail_at), (data_at, tail_at), "{log}, {data}, {device}");
        assert!(placed.area.total_bytes <= data_at);
        let needed = Placement::needed_bytes(ByteCount(log), ByteCount(data));
        assert!(needed.get() <= device);
        assert!(place(log, data, needed.get()).is_ok());
        let short = DeviceTooShort { needed, found: needed - ByteCount(1) };
        assert_eq!(place(log, data, needed.get() - 1), Err(short));
        assert!(Placement::data_bytes_max(ByteCount(log), ByteCount(device)).get() >= data);
        let most = Placement::data_bytes_max(ByteCount(log), ByteCount(device));
        assert!(place(log, most.get(), device).is_ok());
        assert!(place(log, most.get() + 1, device).is_err());
    }
    for device in [0, 1, 4095, 36_864, 45_056 + 36_863] {
        assert_eq!(Placement::tail_at(ByteCount(device)), None, "{device}");
        assert_eq!(Placement::data_bytes_max(ByteCount(0), ByteCount(device)), ByteCount(0));
    }
    assert!(place(0, u64::MAX, u64::MAX).is_err());
}

type Damage = fn(&mut [u8], &mut [u8]);
type Copies = (bool, [bool; 2]);

#[test]
fn the_better_copy_of_each_part_counts() {
    let array = TestArray::new(state(geometry("5", 4, 1, MetadataPolicy::Log)));
    let area = AreaLayout::new(ByteCount(0));
    let [even, odd] = area.state.map(|slot| slot.offset_bytes as usize);
    assert_eq!((GENERATION % 2, even, odd), (0, LABEL_BYTES, LABEL_BYTES + STATE_BYTES));
    let rows: [(&str, Damage, Copies); 9] = [
        ("nothing", |_, _| {}, (false, [false, false])),
        ("the front wiped", |front, _| front.fill(0), (true, [true, true])),
        ("the front overwritten", |front, _| front.fill(0xf7), (true, [true, true])),
        ("the label lost", |front, _| front[33] ^= 1, (true, [false, false])),
        ("the end wiped", |_, tail| tail.fill(0), (false, [false, false])),
        ("a torn state", |front, _| front[LABEL_BYTES + 9000..][..512].fill(3), (false, [true, false])),
        ("both lost", |front, tail| (front[40], tail[40]) = (1, 1), (false, [false, false])),
        (
            "the front behind",
            |front, tail| front[LABEL_BYTES..][..STATE_BYTES].copy_from_slice(&older(tail)),
            (false, [true, false]),
        ),
        (
            "the end behind",
            |_, tail| {
                let old = older(tail);
                tail[LABEL_BYTES..][..STATE_BYTES].copy_from_slice(&old);
            },
            (false, [false, false]),
        ),
    ];
    for (what, damage, (label, state)) in rows {
        let whole = &array.areas[2];
        let (mut front, mut tail) = (whole.clone(), whole[..TAIL].to_vec());
        damage(&mut front, &mut tail);
        let faults = mend_front(&mut front, &tail);
        assert_eq!(faulty(&faults, CopyPlace::Head), (label, state), "{what}");
        let is_damaged = faults.iter().any(|fault| fault.is_damaged);
        assert_eq!(is_damaged, !faults.is_empty() && !what.ends_with("behind"), "{what}: {faults:?}");
        // Defect: damage at the end was told by nobody, and whoever lost the front then had nothing.
        let of_end = if what == "the end wiped" {
            (true, [true, true])
        } else {
            (false, [what == "the end behind", false])
        };
        assert_eq!(faulty(&faults, CopyPlace::Tail), of_end, "{what}");
        if what != "both lost" {
            assert_eq!(front[..TAIL], whole[..TAIL], "{what}");
        }
    }
}

/// Which parts are bad at a place: the label, the slots of the state.
fn faulty(faults: &[CopyFault], place: CopyPlace) -> Copies {
    let area = AreaLayout::new(ByteCount(0));
    let is_in = |part| faults.iter().any(|fault| fault.place == place && fault.part == part);
    (is_in(area.label), area.state.map(is_in))
}

/// The state in the even slot, two generations older.
fn older(tail: &[u8]) -> Vec<u8> {
    let mut state = ArrayState::decode(&tail[LABEL_BYTES..]).expect("valid");
    state.generation -= 2;
    let mut bytes = vec![0; STATE_BYTES];
    state.encode(&mut bytes);
    bytes
}

#[test]
fn copies_of_another_array_do_not_replace_this_one_s() {
    let array = TestArray::new(state(geometry("5", 4, 1, MetadataPolicy::Log)));
    let mut other = geometry("5", 4, 1, MetadataPolicy::Log);
    other.array_uuid = array_uuid(0xb2);
    let mut newer = state(other);
    newer.generation += 20;
    let other = TestArray::new(newer);
    let mut front = array.areas[0].clone();
    let faults = mend_front(&mut front, &other.areas[0][..TAIL]);
    assert_eq!(faulty(&faults, CopyPlace::Head), (false, [false, false]));
    assert_eq!(front, array.areas[0]);
    // Neither is of use without a label, and no valid state makes way for a foreign one.
    front[..LABEL_BYTES].fill(0);
    let faults = mend_front(&mut front, &other.areas[0][..TAIL]);
    assert_eq!(faulty(&faults, CopyPlace::Head), (true, [true, true]));
}

#[test]
fn a_newer_version_is_seen_in_either_copy() {
    let array = TestArray::new(state(geometry("5", 4, 1, MetadataPolicy::Log)));
    for in_tail in [false, true] {
        let mut areas = array.areas.clone();
        let (mut front, mut tail) = (areas[1].clone(), areas[1][..TAIL].to_vec());
        make_newer(if in_tail { &mut tail } else { &mut front });
        mend_front(&mut front, &tail);
        areas[1] = front;
        let candidates: Vec<_> = areas.iter().map(|area| Some(&area[..])).collect();
        let refused = assemble(&candidates, None, StartOptions::default()).expect_err("a newer version");
        assert!(matches!(refused, AssembleError::NewerVersion { .. }), "{refused:?}");
    }
}

/// Makes the label one of version 5, with a right checksum.
fn make_newer(bytes: &mut [u8]) {
    let label = &mut bytes[..LABEL_BYTES];
    label[8] = 5;
    label[12..16].fill(0);
    let sum = row_checksum(label);
    label[12..16].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn an_array_is_assembled_when_the_front_of_a_device_was_wiped() {
    let mut array = TestArray::new(state(geometry("5", 4, 1, MetadataPolicy::Log)));
    let tail = array.areas[3][..TAIL].to_vec();
    array.areas[3].fill(0);
    mend_front(&mut array.areas[3], &tail);
    let assembly = assemble(&array.candidates(), None, StartOptions::default()).expect("a whole array");
    assert_eq!(assembly.present, [0, 1, 2, 3, 4].map(Some));
    assert_eq!(assembly.name.as_str(), NAME);
}

#[test]
fn names_are_text_of_64_bytes_at_most() {
    for good in ["", "a", "büro 7", &"x".repeat(64), &"ü".repeat(32)] {
        assert_eq!(ArrayName::new(good).expect("a name").as_str(), good);
    }
    for bad in ["a\nb", "\0", &"x".repeat(65), &"ü".repeat(33)] {
        assert!(ArrayName::new(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    /// Whatever stands in the two places, nothing panics, and what is taken is one of the two.
    #[test]
    fn each_part_is_one_of_its_two_copies(cuts in any::<[u16; 2]>(), flips in proptest::collection::vec(any::<(bool, u16)>(), 0..6)) {
        let array = TestArray::new(state(geometry("5", 4, 1, MetadataPolicy::Log)));
        let (mut front, mut tail) = (array.areas[0].clone(), array.areas[0][..TAIL].to_vec());
        for (in_tail, at) in flips {
            let bytes = if in_tail { &mut tail } else { &mut front };
            bytes[usize::from(at) % TAIL] ^= 0x10;
        }
        front.truncate(TAIL.saturating_sub(usize::from(cuts[0]) & 0xf000));
        tail.truncate(TAIL.saturating_sub(usize::from(cuts[1]) & 0xf000));
        let before = front.clone();
        mend_front(&mut front, &tail);
        let area = AreaLayout::new(ByteCount(0));
        for part in [area.label, area.state[0], area.state[1]] {
            let now = part.of(&front);
            prop_assert!(now == part.of(&before) || now == part.of(&tail));
        }
    }
}
