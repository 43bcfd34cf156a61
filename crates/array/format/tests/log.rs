//! Scanning a log: whole records wherever they stand, and nothing else.
//!
//! Verified: places, torn headers and payloads, headers that share a block, overwritten records, other arrays, the ends of the ring,
//! records within payload. Not verified: which of the records count, which `tests/assemble/` does.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use raidlab_format::*;
use raidlab_units::{BlockSize, StripeIndex};
use support::{TestRecord, array_uuid, shared_bytes};

const RING_BLOCKS: usize = 64;

fn record(sequence: u64, runs: &[(u16, u32, u32)]) -> TestRecord {
    let run = |&(unit, first_row, rows): &(u16, u32, u32)| LogRun { unit, first_row, rows };
    let header = LogHeader {
        array_uuid: array_uuid(1),
        sequence,
        tail_sequence: 0,
        epoch: 1,
        stripe: StripeIndex(4),
        holds: RecordHolds::Rows,
    };
    TestRecord { header, runs: runs.iter().map(run).collect() }
}

fn scan(ring: &[u8], block_size: BlockSize) -> Vec<(u64, u64, u64)> {
    let found = scan_log(ring, array_uuid(1), block_size);
    found.iter().map(|found| (found.header.sequence, found.at_block, found.payload_at_block)).collect()
}

#[test]
fn a_header_is_as_many_blocks_as_it_needs() {
    for (runs, checksums, block_size, expected) in [
        (1, 1, BlockSize::B512, 512),
        (1, 107, BlockSize::B512, 512),
        (1, 108, BlockSize::B512, 1024),
        (2, 104, BlockSize::B512, 512),
        (2, 105, BlockSize::B512, 1024),
        (1, 1003, BlockSize::B4096, 4096),
        (1, 1004, BlockSize::B4096, 8192),
        (u16::MAX, u32::MAX, BlockSize::B4096, 17_180_659_712),
    ] {
        assert_eq!(header_len(runs, checksums, block_size), expected, "{runs} runs, {checksums} checksums");
    }
}

#[test]
fn a_record_is_found_at_every_block_where_it_fits() {
    for block_size in [BlockSize::B512, BlockSize::B4096] {
        let block_bytes = block_size.bytes() as usize;
        let bytes = record(7, &[(0, 2, 3), (4, 0, 1)]).bytes(block_size);
        for at in 0..RING_BLOCKS {
            let mut ring = vec![0x55; RING_BLOCKS * block_bytes];
            let length = bytes.len().min(ring.len() - at * block_bytes);
            ring[at * block_bytes..][..length].copy_from_slice(&bytes[..length]);
            let whole = length == bytes.len();
            let expected = if whole { vec![(7, at as u64, at as u64 + 1)] } else { vec![] };
            assert_eq!(scan(&ring, block_size), expected, "block {at}");
        }
        let mut shifted = vec![0x55; RING_BLOCKS * block_bytes];
        shifted[64..64 + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(scan(&shifted, block_size), vec![]);
    }
}

#[test]
fn a_record_of_which_any_block_is_not_written_is_not_found() {
    let bytes = record(7, &[(0, 2, 3), (1, 2, 130)]).bytes(BlockSize::B512);
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(7, 0, 2)]);
    for block in 0..bytes.len() / 512 {
        let mut torn = bytes.clone();
        torn[block * 512..(block + 1) * 512].iter_mut().for_each(|byte| *byte ^= 0xa5);
        assert_eq!(scan(&torn, BlockSize::B512), vec![], "block {block}");
    }
}

#[test]
fn a_record_of_checksums_is_whole_without_rows_and_ends_with_its_header() {
    let mut bare = record(7, &[(0, 2, 3), (1, 2, 130)]);
    bare.header.holds = RecordHolds::Checksums;
    let next = record(8, &[(0, 2, 3)]);
    let bytes = [bare.bytes(BlockSize::B512), next.bytes(BlockSize::B512)].concat();
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(7, 0, 2), (8, 2, 3)]);
    let found = scan_log(&bytes, array_uuid(1), BlockSize::B512);
    assert_eq!((found[0].row_checksums.len(), found[1].row_checksums.len()), (133, 3));
}

/// Records of 3 rows, of checksums and of 2 and 1 rows, whose headers share a block, and where payload begins.
fn shared() -> (Vec<u8>, [(u64, u64, u64); 4]) {
    let mut bare = record(8, &[(0, 2, 1), (1, 2, 1)]);
    bare.header.holds = RecordHolds::Checksums;
    let records = [record(7, &[(0, 2, 3)]), bare, record(9, &[(4, 0, 2)]), record(10, &[(1, 1, 1)])];
    let (bytes, count) = shared_bytes(&records, BlockSize::B512);
    assert_eq!((bytes.len(), count), (7 * 512, 4));
    (bytes, [(7, 0, 1), (8, 0, 4), (9, 0, 4), (10, 0, 6)])
}

#[test]
fn records_whose_headers_share_a_block_are_whole_each_by_its_payload() {
    let (bytes, places) = shared();
    assert_eq!(scan(&bytes, BlockSize::B512), places);
    for (torn, lost) in [(1, 0), (3, 0), (4, 2), (5, 2), (6, 3)] {
        let mut bytes = bytes.clone();
        bytes[torn * 512 + 511] ^= 1;
        let others = places.iter().filter(|place| **place != places[lost]).copied();
        assert_eq!(scan(&bytes, BlockSize::B512), others.collect::<Vec<_>>(), "block {torn}");
    }
    let found = scan(&bytes[..6 * 512], BlockSize::B512);
    assert_eq!(found, places[..3], "the ring ends before the payload of the last");
}

#[test]
fn a_block_of_headers_counts_as_a_whole_or_not_at_all() {
    let (bytes, _) = shared();
    for bit in 0..512 * 8 {
        let mut torn = bytes.clone();
        torn[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(scan(&torn, BlockSize::B512), vec![], "bit {} of byte {}", bit % 8, bit / 8);
    }
}

#[test]
fn a_record_in_the_payload_of_one_of_several_is_data() {
    let inner = record(20, &[(0, 0, 1)]).bytes(BlockSize::B512);
    let outer = [record(8, &[(0, 0, 1)]), record(9, &[(0, 0, 2)])];
    let (mut bytes, _) = shared_bytes(&outer, BlockSize::B512);
    let sums: Vec<u8> = inner.chunks_exact(512).flat_map(|row| row_checksum(row).to_le_bytes()).collect();
    let at = shared_len(&bytes) + 72 + 12;
    bytes[at..at + 8].copy_from_slice(&sums);
    seal_shared(&mut bytes[..512]);
    bytes[2 * 512..].copy_from_slice(&inner);
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(8, 0, 1), (9, 0, 2)]);
    bytes[2 * 512 - 1] ^= 1;
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(9, 0, 2)], "although one before it is torn");
}

#[test]
fn a_record_of_partial_parity_has_the_rows_of_its_second_run() {
    let mut partial = record(7, &[(0, 2, 3), (4, 2, 3)]);
    partial.header.holds = RecordHolds::PartialParity;
    let next = record(8, &[(0, 2, 3)]);
    let bytes = [partial.bytes(BlockSize::B512), next.bytes(BlockSize::B512)].concat();
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(7, 0, 1), (8, 4, 5)]);
    let found = scan_log(&bytes, array_uuid(1), BlockSize::B512);
    assert_eq!((found[0].row_checksums.len(), found[0].runs.len()), (3, 2));
    let mut torn = bytes;
    torn[3 * 512] ^= 1;
    assert_eq!(scan(&torn, BlockSize::B512), vec![(8, 4, 5)], "its last row is torn");
}

#[test]
fn what_looks_like_a_record_within_a_payload_is_data() {
    let inner = record(9, &[(0, 0, 1)]).bytes(BlockSize::B512);
    let outer = record(8, &[(0, 0, 3)]);
    let mut payload = inner.clone();
    payload.resize(3 * 512, 0);
    let mut bytes = vec![0; 512];
    let checksums: Vec<u32> = payload.chunks_exact(512).map(row_checksum).collect();
    outer.header.encode_into(&outer.runs, checksums, BlockSize::B512, &mut bytes);
    bytes.extend(&payload);
    bytes.extend(&inner);
    assert_eq!(scan(&bytes, BlockSize::B512), vec![(8, 0, 1), (9, 4, 5)]);
}

#[test]
fn other_arrays_and_block_sizes_are_not_found() {
    let bytes = record(7, &[(0, 2, 7)]).bytes(BlockSize::B512);
    assert_eq!(scan_log(&bytes, array_uuid(2), BlockSize::B512), vec![]);
    assert_eq!(scan_log(&bytes, array_uuid(1), BlockSize::B4096), vec![]);
}

/// Writes fields of a valid header anew and makes its checksum right again.
fn edited(at: usize, new: &[u8]) -> Result<(), String> {
    let mut bytes = record(7, &[(0, 2, 3), (4, 0, 1)]).bytes(BlockSize::B512)[..512].to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes[12..16].fill(0);
    let checksum = crc_fast::crc32_iscsi(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    LogHeader::decode(&bytes, BlockSize::B512).map(|_| ()).map_err(|error| error.to_string())
}

/// Which bytes of the header are changed to what, and what is said about it.
const IMPOSSIBLE: &[(usize, &[u8], &str)] = &[
    (8, &[5], "version 5 and this raidlab knows 4: use the raidlab that wrote it, or a newer one"),
    (10, &[0], "runs is 0; it must be 1 or more"),
    (40, &[8], "tail_sequence is 8; it must be not above the record's sequence"),
    (39, &[0x80], "sequence is 9223372036854775815; it must be below 2^63"),
    (55, &[0x80], "epoch is 9223372036854775809; it must be below 2^63"),
    (64, &[0], "payload_at is 0; it must be not below the length of the header"),
    (66, &[3], "holds is 3; it must be 0 to 2"),
    (68, &[5], "rows is 5; it must be the sum of the runs' rows, each 1 or more"),
    (68, &[0, 1], "needs 1536 bytes and 512 are there"),
    (74, &[1], "the bytes behind a run's unit is 1; it must be 0"),
    (76, &[0xff; 4], "rows is 4; it must be the sum of the runs' rows, each 1 or more"),
    (80, &[0], "rows is 4; it must be the sum of the runs' rows, each 1 or more"),
    // The sum is right, and a run has no row.
    (
        80,
        &[4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
        "rows is 4; it must be the sum of the runs' rows, each 1 or more",
    ),
    (500, &[1], "something at byte 500, where nothing should be"),
];

#[test]
fn impossible_headers_say_what_is_wrong() {
    assert_eq!(edited(0, b"RAID"), Ok(()));
    for (at, new, message) in IMPOSSIBLE {
        let error = edited(*at, new).expect_err(message);
        assert!(error.starts_with("the log header ") && error.ends_with(message), "byte {at}: {error}");
    }
}

proptest! {
    /// Records written over a ring one after another, as a log is: those that are still whole are found, with
    /// their runs.
    #[test]
    fn what_is_not_overwritten_is_found(
        lengths in vec((1_u32..5, 1_u32..4), 1..40),
        large in any::<bool>(),
    ) {
        let block_size = if large { BlockSize::B4096 } else { BlockSize::B512 };
        let block_bytes = block_size.bytes() as usize;
        let mut ring = vec![0; RING_BLOCKS * block_bytes];
        let mut standing: Vec<(usize, usize, TestRecord)> = Vec::new();
        let mut at = 0;
        for (sequence, (first, second)) in (0_u64..).zip(lengths) {
            let record = record(sequence, &[(0, 1, first), (3, 2, second)]);
            let bytes = record.bytes(block_size);
            let blocks = bytes.len() / block_bytes;
            if at + blocks > RING_BLOCKS {
                at = 0;
            }
            ring[at * block_bytes..][..bytes.len()].copy_from_slice(&bytes);
            standing.retain(|(start, end, _)| *end <= at || *start >= at + blocks);
            standing.push((at, at + blocks, record));
            at += blocks;
        }
        standing.sort_by_key(|(start, ..)| *start);
        let found = scan_log(&ring, array_uuid(1), block_size);
        prop_assert_eq!(found.len(), standing.len());
        for (found, (start, end, record)) in found.iter().zip(&standing) {
            prop_assert_eq!(found.header, record.header);
            prop_assert_eq!(&found.runs, &record.runs);
            prop_assert_eq!(found.at_block, *start as u64);
            prop_assert_eq!(found.payload_at_block + u64::from(record.rows()), *end as u64);
        }
    }
}
