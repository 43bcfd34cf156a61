//! Every structure decodes to what was encoded, any flipped bit makes it invalid, and no bytes make decoding
//! panic.
//!
//! Verified: label, state, bitmap, log header, label and entries of NVRAM. Not verified: assembly, which
//! `tests/assemble/` does.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use raidlab_format::*;
use raidlab_units::{BlockSize, ByteCount, MemberIndex, MemberLba, StripeIndex};
use support::TestArray;

const LEVELS: [(&str, u16); 10] = [
    ("jbod", 3),
    ("0", 2),
    ("1", 3),
    ("1e", 5),
    ("3", 4),
    ("5:right-asymmetric", 5),
    ("6", 6),
    ("10", 4),
    ("50:2-spans", 8),
    ("60:3-spans:left-asymmetric", 15),
];

fn geometries() -> impl Strategy<Value = Geometry> {
    let sizes = (1_u64..40, 1_u64..40, 0_u64..200);
    let flags = (any::<[u8; 16]>(), 0..LEVELS.len(), any::<bool>(), any::<bool>(), 0..4_usize, 0_u16..5);
    (sizes, flags).prop_map(
        |((strip_blocks, strips, log_blocks), (uuid, level, large, integrity, policy, spares))| {
            let block_size = if large { BlockSize::B4096 } else { BlockSize::B512 };
            let bytes = |blocks| ByteCount(blocks * block_size.bytes());
            Geometry {
                array_uuid: ArrayUuid(uuid),
                level: LEVELS[level].0.parse().expect("a level"),
                members: LEVELS[level].1,
                spares,
                strip_bytes: bytes(strip_blocks),
                block_size,
                member_bytes: bytes(strips * (strip_blocks + 1)),
                log_bytes: bytes(log_blocks),
                metadata: MetadataPolicy::ALL[policy],
                integrity,
            }
        },
    )
}

/// States of every shape; the roles of the devices are rotated so that numbers and roles differ.
fn states() -> impl Strategy<Value = ArrayState> {
    let numbers = [0..COUNTERS_END, 0..COUNTERS_END, 0..COUNTERS_END, 0..COUNTERS_END];
    let flags = any::<[bool; 3]>();
    let starts = (any::<[u64; 2]>(), vec(any::<u64>(), 0..=FOUND_BY_MAX));
    let devices = vec((0..4_usize, any::<[u8; 16]>(), any::<u64>(), any::<bool>()), 20);
    let bad_ranges = vec((any::<u16>(), any::<u64>(), any::<u32>(), 0..2_usize), 0..=BAD_RANGES_MAX);
    (geometries(), numbers, flags, starts, devices, bad_ranges).prop_map(
        |(geometry, numbers, flags, (starts, found_by), devices, bad)| {
            let (members, blocks) = (geometry.members, geometry.member_blocks().0);
            let record =
                |(device, (state, uuid, boundary, keeps_role)): (usize, (usize, [u8; 16], u64, bool))| {
                    let member = device < usize::from(members);
                    let state =
                        if member { DeviceState::ALL[[0, 1, 3, 3][state]] } else { DeviceState::Spare };
                    let plays = member && (keeps_role || state != DeviceState::Missing);
                    DeviceRecord {
                        state,
                        role: plays.then_some((device as u16 + 1) % members),
                        boundary: MemberLba(boundary % (blocks + 1)),
                        device_uuid: DeviceUuid(uuid),
                    }
                };
            let bad_range = |(device, first, count, reason): (u16, u64, u32, usize)| {
                let first = first % blocks;
                let count = 1 + count % (blocks - first).min(u64::from(u32::MAX)) as u32;
                BadRange {
                    device: MemberIndex(device % geometry.devices() as u16),
                    first: MemberLba(first),
                    count,
                    reason: BadReason::ALL[reason],
                }
            };
            ArrayState {
                generation: numbers[0],
                epoch: numbers[1],
                nvram_epoch: numbers[2],
                nvram_start: StartNonce::new(starts[0]),
                start: StartNonce::new(starts[1]),
                found_by: found_by.into_iter().map(StartNonce::new).collect(),
                log_tail: numbers[3],
                dirty: flags[0],
                needs_resync: flags[1],
                log_place: if flags[2] { LogPlace::Nvram } else { LogPlace::Members },
                devices: devices.into_iter().take(geometry.devices()).enumerate().map(record).collect(),
                bad_ranges: bad.into_iter().map(bad_range).collect(),
                geometry,
            }
        },
    )
}

fn encoded(state: &ArrayState) -> Vec<u8> {
    let mut bytes = vec![0xdd; STATE_BYTES];
    state.encode(&mut bytes);
    bytes
}

type RecordParts = (LogHeader, Vec<LogRun>, Vec<u32>);

fn records() -> impl Strategy<Value = RecordParts> {
    let counters = [0..COUNTERS_END, 0..COUNTERS_END, 0..u64::MAX];
    let numbers = (any::<[u8; 16]>(), counters, any::<u64>());
    let runs = vec((any::<u16>(), any::<u32>(), 1_u32..40), 1..12);
    let holds =
        prop_oneof![Just(RecordHolds::Rows), Just(RecordHolds::Checksums), Just(RecordHolds::PartialParity)];
    (numbers, runs, any::<u32>(), holds).prop_map(
        |((uuid, [sequence, epoch, stripe], tail), runs, seed, holds)| {
            let run =
                |(unit, first_row, rows)| LogRun { unit, first_row: first_row % (u32::MAX - rows), rows };
            let runs: Vec<LogRun> = runs.into_iter().map(run).collect();
            let header = LogHeader {
                array_uuid: ArrayUuid(uuid),
                sequence,
                tail_sequence: tail.min(sequence),
                epoch,
                stripe: StripeIndex(stripe),
                holds,
            };
            let rows: u32 = runs.iter().map(|run| run.rows).sum();
            (
                header,
                runs,
                (0..holds.checksums(rows)).map(|row| row.wrapping_mul(0x9e37_79b9) ^ seed).collect(),
            )
        },
    )
}

fn encoded_header((header, runs, checksums): &RecordParts, block_size: BlockSize) -> Vec<u8> {
    let mut bytes = vec![0xdd; header_len(runs.len() as u16, checksums.len() as u32, block_size) as usize];
    header.encode_into(runs, checksums.iter().copied(), block_size, &mut bytes);
    bytes
}

/// Flips every bit in turn and asks whether the bytes are still taken for valid.
fn assert_every_flip_is_found(mut bytes: Vec<u8>, is_valid: impl Fn(&[u8]) -> bool) {
    assert!(is_valid(&bytes));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_valid(&bytes), "bit {} of byte {} may be flipped", bit % 8, bit / 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

proptest! {
    #[test]
    fn labels_return(
        array in any::<[u8; 16]>(), own in any::<[u8; 16]>(), device in 0..DEVICES_MAX as u16, name in "\\PC{0,21}"
    ) {
        let (array_uuid, device_uuid) = (ArrayUuid(array), DeviceUuid(own));
        // 21 characters may take more than 64 bytes.
        let name = ArrayName::new(&name).unwrap_or_default();
        let label = Label { array_uuid, device_uuid, device: MemberIndex(device), name };
        let mut bytes = vec![0xdd; LABEL_BYTES];
        label.encode(&mut bytes);
        prop_assert_eq!(Label::decode(&bytes), Ok(label));
    }

    #[test]
    fn states_return(state in states()) {
        let bytes = encoded(&state);
        let decoded = ArrayState::decode(&bytes);
        prop_assert_eq!(decoded.as_ref(), Ok(&state));
        prop_assert_eq!(encoded(&decoded.expect("valid")), bytes);
    }

    #[test]
    fn headers_return(parts in records(), large in any::<bool>()) {
        let block_size = if large { BlockSize::B4096 } else { BlockSize::B512 };
        let bytes = encoded_header(&parts, block_size);
        let record = LogHeader::decode(&bytes, block_size).expect("valid");
        prop_assert_eq!(record.header, parts.0);
        prop_assert_eq!(record.runs().collect::<Vec<_>>(), parts.1);
        prop_assert_eq!(record.row_checksums().collect::<Vec<_>>(), parts.2);
        prop_assert_eq!(u64::from(record.payload_at) * block_size.bytes(), bytes.len() as u64);
    }

    #[test]
    fn labels_of_nvram_return(uuid in any::<[u8; 16]>(), nvram_epoch in any::<u64>()) {
        let label = NvramLabel { array_uuid: ArrayUuid(uuid), nvram_epoch, start: StartNonce::new(nvram_epoch) };
        let mut bytes = [0xdd; NVRAM_LABEL_BYTES];
        label.encode(&mut bytes);
        prop_assert_eq!(NvramLabel::decode(&bytes), Ok(label));
    }

    #[test]
    fn entries_return_in_their_own_slot_only(
        slot in any::<u32>(), other in any::<u32>(), numbers in any::<[u64; 3]>()
    ) {
        let entry = NvramEntry { sequence: numbers[0], block: numbers[1], dirty: numbers[2] };
        let bytes = entry.encode(slot);
        prop_assert_eq!(NvramEntry::decode(slot, &bytes), (entry.dirty != 0).then_some(entry));
        prop_assert!(slot == other || NvramEntry::decode(other, &bytes).is_none());
    }

    #[test]
    fn no_bytes_make_decoding_panic(mut bytes in vec(any::<u8>(), 0..6000), part in 0..5_usize) {
        let parts = [Part::Label, Part::State, Part::BitmapSector, Part::LogHeader, Part::NvramLabel];
        if let Some(magic) = bytes.get_mut(..8) {
            magic.copy_from_slice(parts[part].magic());
        }
        // Nothing random has a right checksum.
        prop_assert!(Label::decode(&bytes).is_err());
        prop_assert!(ArrayState::decode(&bytes).is_err());
        prop_assert!(check_sector(&bytes, 0, ArrayUuid([0; 16])).is_err());
        prop_assert!(LogHeader::decode(&bytes, BlockSize::B512).is_err());
        prop_assert!(NvramLabel::decode(&bytes).is_err());
        prop_assert_eq!(scan_log(&bytes, ArrayUuid([0; 16]), BlockSize::B512), vec![]);
    }
}

#[test]
fn a_mark_of_an_unfinished_array_returns_and_is_no_label() {
    let mark = Unfinished { array_uuid: ArrayUuid([7; 16]) };
    let mut bytes = vec![0xff; LABEL_BYTES];
    mark.encode(&mut bytes);
    assert_eq!(Unfinished::decode(&bytes), Ok(mark));
    assert!(Label::decode(&bytes).is_err());
    for bit in 0..8 * LABEL_BYTES {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Unfinished::decode(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn every_flipped_bit_of_a_label_is_found() {
    let mut bytes = vec![0; LABEL_BYTES];
    let (array_uuid, device_uuid) = (support::array_uuid(1), support::device_uuid(2));
    let name = ArrayName::new("a name").expect("a name");
    Label { array_uuid, device_uuid, device: MemberIndex(3), name }.encode(&mut bytes);
    assert_every_flip_is_found(bytes, |bytes| Label::decode(bytes).is_ok());
}

#[test]
fn every_flipped_bit_of_a_state_is_found() {
    let mut state = support::state(support::geometry("60:2-spans", 8, 2, MetadataPolicy::Log));
    let (device, first, reason) = (MemberIndex(9), MemberLba(17), BadReason::Unreadable);
    state.bad_ranges.push(BadRange { device, first, count: 3, reason });
    assert_every_flip_is_found(encoded(&state), |bytes| ArrayState::decode(bytes).is_ok());
}

#[test]
fn every_flipped_bit_of_a_bitmap_sector_is_found() {
    let array = TestArray::new(support::state(support::geometry("5", 4, 0, MetadataPolicy::Bitmap)));
    let mut map = array.clear_map();
    map.mark(RegionIndex(5));
    let (uuid, mut bytes) = (array.state.geometry.array_uuid, vec![0; SECTOR_BYTES]);
    for sector in 0..SECTORS {
        map.encode_sector(sector, uuid, 9, &mut bytes);
        assert_every_flip_is_found(bytes.clone(), |bytes| check_sector(bytes, sector, uuid) == Ok(9));
    }
}

#[test]
fn every_flipped_bit_of_a_log_header_is_found() {
    let array = TestArray::new(support::state(support::geometry("5", 4, 0, MetadataPolicy::Log)));
    for block_size in [BlockSize::B512, BlockSize::B4096] {
        let record = array.record(7);
        let bytes = record.bytes(block_size);
        let is_found =
            |bytes: &[u8]| !scan_log(bytes, array.state.geometry.array_uuid, block_size).is_empty();
        // The flips go over the payload, too.
        assert_every_flip_is_found(bytes, is_found);
    }
}

#[test]
fn every_flipped_bit_of_nvram_is_found() {
    let mut bytes = vec![0; NVRAM_LABEL_BYTES];
    let label = NvramLabel { array_uuid: support::array_uuid(1), nvram_epoch: 2, start: support::START };
    label.encode(&mut bytes);
    assert_every_flip_is_found(bytes, |bytes| NvramLabel::decode(bytes).is_ok());
    let entry = NvramEntry { sequence: 1, block: 2, dirty: 4 }.encode(8);
    let decode = |bytes: &[u8]| NvramEntry::decode(8, bytes.try_into().expect("32 bytes"));
    assert_every_flip_is_found(entry.to_vec(), |bytes| decode(bytes).is_some());
}

#[test]
fn empty_entries_hold_nothing() {
    assert_eq!(NvramEntry::decode(0, &[0; NVRAM_ENTRY_BYTES]), None);
    let empty = NvramEntry { sequence: 9, block: 9, dirty: 0 };
    assert_eq!(NvramEntry::decode(3, &empty.encode(3)), None);
}

/// Changes bytes of a valid structure and makes the checksum right again.
fn edit_and_reseal(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes[12..16].fill(0);
    let checksum = crc_fast::crc32_iscsi(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Which bytes of a state of RAID 5 with 4 members and a spare are changed to what, and what is said about
/// it.
const IMPOSSIBLE: &[(usize, &[u8], &str)] = &[
    (8, &[5, 0], "version 5 and this raidlab knows 4: use the raidlab that wrote it, or a newer one"),
    (10, &[1], "something at byte 10, where nothing should be"),
    (23, &[0x80], "generation is 9223372036854775818; it must be below 2^63"),
    (31, &[0x80], "epoch is 9223372036854775811; it must be below 2^63"),
    (39, &[0x80], "nvram_epoch is 9223372036854775813; it must be below 2^63"),
    (47, &[0x80], "log_tail is 9223372036854775908; it must be below 2^63"),
    (64, &[1; 8], "member_bytes is 72340172838076673; it must be a multiple of the block, above 0"),
    (72, &[0; 8], "strip_bytes is 0; it must be a multiple of the block, above 0"),
    (80, &[0xff; 8], "log_bytes is 18446744073709551615; it must be whole blocks, at most 1 TiB"),
    (88, &[1], "block_bytes is 513; it must be 512 or 4096"),
    (92, &[0, 1], "members and spares is 257; it must be 256 or fewer"),
    (92, &[2], "RAID 5 needs 3 or more members, 2 given"),
    (94, &[0], "something at byte 624, where nothing should be"),
    (96, &[4], "metadata is 4; it must be 3 or less"),
    (98, &[2], "dirty is 2; it must be 0 or 1"),
    (100, &[2], "log_place is 2; it must be 0 or 1"),
    (101, &[129], "level length is 129; it must be 128 or less"),
    (101, &[0], "level length is 0; it must be the length of the level's text"),
    (102, &[1, 2], "bad ranges is 513; it must be 512 or fewer"),
    (102, &[1], "length of a bad range is 0; it must be 1 or more"),
    (104, &[0xff], "the level's text is not UTF-8"),
    (104, b"9", "'9' is not a RAID level: use one of jbod, 0, 1, 1e, 3, 5, 6, 10, 50, 60"),
    (256, &[1], "found_by is 0; it must be no zero before the last nonce"),
    (376, &[1], "something at byte 376, where nothing should be"),
    (512 + 16, &[1, 8], "boundary is 2049; it must be within the device's data area"),
    (512 + 24, &[4, 0], "in sync with role Some(4); a role must be below the number of members"),
    (512 + 24, &[1, 0], "device 1 is in sync with role Some(1); another device plays this role"),
    (512 + 24, &[0xff; 2], "device 0 is in sync with role None; such a device must have a role"),
    (512 + 26, &[2], "device 0 is spare with role Some(0); a spare must have no role"),
    (512 + 26, &[4], "device state is 4; it must be 3 or less"),
    (512 + 27, &[1], "the byte behind a device's state is 1; it must be 0"),
    (14848, &[1], "something at byte 14848, where nothing should be"),
];

#[test]
fn impossible_states_say_what_is_wrong() {
    let bytes = encoded(&support::state(support::geometry("5", 4, 1, MetadataPolicy::Log)));
    ArrayState::decode(&edit_and_reseal(&bytes, 0, b"RAID")).expect("nothing was changed");
    for (at, new, message) in IMPOSSIBLE {
        let error = ArrayState::decode(&edit_and_reseal(&bytes, *at, new)).expect_err(message).to_string();
        assert!(error.starts_with("the array state ") && error.ends_with(message), "byte {at}: {error}");
    }
}

#[test]
fn bad_ranges_lie_within_a_device() {
    let mut state = support::state(support::geometry("5", 4, 1, MetadataPolicy::Log));
    for (device, first, count, possible) in [
        (4, 0, 1, true),
        (5, 0, 1, false),
        (0, 2047, 1, true),
        (0, 2047, 2, false),
        (0, 0, 2048, true),
        (0, 0, 2049, false),
        (0, 2048, 1, false),
        (0, u64::MAX, 1, false),
        (0, 0, 0, false),
    ] {
        let (device_index, lba, reason) = (MemberIndex(device), MemberLba(first), BadReason::Lost);
        state.bad_ranges = vec![BadRange { device: device_index, first: lba, count, reason }];
        assert_eq!(state.check().is_ok(), possible, "device {device}, {count} blocks from {first}");
    }
}

#[test]
fn short_bytes_say_how_many_are_needed() {
    let state = encoded(&support::state(support::geometry("0", 2, 0, MetadataPolicy::None)));
    for (length, message) in [
        (0, "the array state needs 16384 bytes and 0 are there"),
        (STATE_BYTES - 1, "the array state needs 16384 bytes and 16383 are there"),
    ] {
        assert_eq!(ArrayState::decode(&state[..length]).expect_err("too short").to_string(), message);
    }
    let mut other = state.clone();
    other[0] = b'X';
    let error = ArrayState::decode(&other).expect_err("another magic");
    assert_eq!(error, DecodeError::BadMagic { part: Part::State });
    other = state;
    other[300] ^= 1;
    let error = ArrayState::decode(&other).expect_err("damaged");
    assert!(matches!(error, DecodeError::Checksum { part: Part::State, .. }), "{error}");
}

#[test]
fn the_largest_array_fits_its_slot() {
    let mut geometry = support::geometry("60:2-spans", 250, 6, MetadataPolicy::Log);
    geometry.level = "60:2-spans:right-asymmetric".parse().expect("a level");
    let mut state = support::state(geometry);
    let bad = |at: usize| BadRange {
        device: MemberIndex(at as u16 % 256),
        first: MemberLba(at as u64),
        count: 1,
        reason: BadReason::ALL[at % 2],
    };
    state.bad_ranges = (0..BAD_RANGES_MAX).map(bad).collect();
    assert_eq!(ArrayState::decode(&encoded(&state)), Ok(state.clone()));
    state.bad_ranges.push(state.bad_ranges[0]);
    let problem = state.check().expect_err("one too many");
    assert_eq!(problem.to_string(), "bad ranges is 513; it must be 512 or fewer");
}
