//! Arrays made in memory: metadata areas, NVRAM, and the records in their logs.
//!
//! ```text
//! TestArray: state ── write_state ──► areas[device]
//!            write_bitmap, write_record ──► areas[device] or the NVRAM log
//! ```
//! Everything is written with the crate's own encoders; tests then change the bytes.

#![allow(dead_code, reason = "each test file uses a part of it")]

use raidlab_format::{
    AreaLayout, ArrayName, ArrayState, ArrayUuid, BITMAP_BYTES, DeviceRecord, DeviceState, DeviceUuid,
    Geometry, LABEL_BYTES, Label, LogHeader, LogPlace, LogRun, MetadataPolicy, NVRAM_ENTRY_BYTES,
    NVRAM_LABEL_BYTES, NVRAM_RING_AT, NvramEntry, NvramImage, NvramLabel, RecordHolds, RegionMap,
    STATE_BYTES, StartNonce, header_len, row_checksum, seal_shared, set_payload_at, shared_len,
};
use raidlab_units::{BlockSize, ByteCount, MemberIndex, MemberLba, StripeIndex};
use std::ops::Range;

pub(crate) const LOG_BYTES: u64 = 32 << 10;
/// The generation that a new test array has; the one before stands in the other slot.
pub(crate) const GENERATION: u64 = 10;
/// What people call it.
pub(crate) const NAME: &str = "büro";
/// The start that wrote its states.
pub(crate) const START: StartNonce = StartNonce::new(0x57a7);
/// The tail that a new test array has.
pub(crate) const TAIL: u64 = 100;

pub(crate) fn array_uuid(number: u8) -> ArrayUuid {
    ArrayUuid([number; 16])
}

pub(crate) fn device_uuid(device: usize) -> DeviceUuid {
    DeviceUuid([device as u8; 16])
}

pub(crate) fn geometry(level: &str, members: u16, spares: u16, metadata: MetadataPolicy) -> Geometry {
    Geometry {
        array_uuid: array_uuid(0xa1),
        level: level.parse().expect(level),
        members,
        spares,
        strip_bytes: ByteCount(8192),
        block_size: BlockSize::B512,
        member_bytes: ByteCount(1 << 20),
        log_bytes: ByteCount(LOG_BYTES),
        metadata,
        integrity: false,
    }
}

/// A clean state with every member in sync.
pub(crate) fn state(geometry: Geometry) -> ArrayState {
    let record = |device: usize| {
        let member = device < usize::from(geometry.members);
        DeviceRecord {
            state: if member { DeviceState::InSync } else { DeviceState::Spare },
            role: member.then_some(device as u16),
            boundary: MemberLba(0),
            device_uuid: device_uuid(device),
        }
    };
    ArrayState {
        generation: GENERATION,
        epoch: 3,
        nvram_epoch: 5,
        nvram_start: START,
        start: START,
        found_by: Vec::new(),
        log_tail: TAIL,
        dirty: false,
        needs_resync: false,
        log_place: LogPlace::Members,
        devices: (0..geometry.devices()).map(record).collect(),
        bad_ranges: Vec::new(),
        geometry,
    }
}

/// An intent record with payload made from its sequence.
#[derive(Clone, Debug)]
pub(crate) struct TestRecord {
    pub(crate) header: LogHeader,
    pub(crate) runs: Vec<LogRun>,
}

impl TestRecord {
    pub(crate) fn rows(&self) -> u32 {
        self.runs.iter().map(|run| run.rows).sum()
    }

    fn payload(&self, block_size: BlockSize) -> Vec<Vec<u8>> {
        let block_bytes = block_size.bytes() as usize;
        let row = |row: u32| vec![(self.header.sequence as u8).wrapping_mul(31) ^ row as u8; block_bytes];
        (0..self.rows()).map(row).collect()
    }

    pub(crate) fn row_checksums(&self, block_size: BlockSize) -> Vec<u32> {
        self.payload(block_size).iter().map(|row| row_checksum(row)).collect()
    }

    /// Header and payload.
    pub(crate) fn bytes(&self, block_size: BlockSize) -> Vec<u8> {
        let holds = self.header.holds;
        let (rows, checksums) = (self.payload(block_size), holds.checksums(self.rows()));
        let mut bytes = vec![0xee; header_len(self.runs.len() as u16, checksums, block_size) as usize];
        let checksums = rows[..checksums as usize].iter().map(|row| row_checksum(row));
        self.header.encode_into(&self.runs, checksums, block_size, &mut bytes);
        bytes.extend(rows[..holds.payload_blocks(self.rows()) as usize].concat());
        bytes
    }
}

/// Records that share the block of their headers, as many as fit from the first on: their bytes, and how many.
pub(crate) fn shared_bytes(records: &[TestRecord], block_size: BlockSize) -> (Vec<u8>, usize) {
    let block_bytes = block_size.bytes() as usize;
    let mut bytes = records[0].bytes(block_size);
    let (mut used, mut count) = (shared_len(&bytes), 1);
    for record in &records[1..] {
        let mut own = record.bytes(block_size);
        let length = shared_len(&own);
        if used + length > block_bytes {
            break;
        }
        set_payload_at(&mut own, (bytes.len() / block_bytes) as u16);
        bytes[used..used + length].copy_from_slice(&own[..length]);
        bytes.extend(&own[block_bytes..]);
        (used, count) = (used + length, count + 1);
    }
    if count > 1 {
        assert_eq!(seal_shared(&mut bytes[..block_bytes]), used);
    }
    (bytes, count)
}

/// The label of NVRAM that belongs to a state.
pub(crate) fn newest_label(state: &ArrayState) -> NvramLabel {
    NvramLabel {
        array_uuid: state.geometry.array_uuid,
        nvram_epoch: state.nvram_epoch | 1,
        start: state.nvram_start,
    }
}

/// An array in memory.
#[derive(Clone)]
pub(crate) struct TestArray {
    pub(crate) state: ArrayState,
    pub(crate) areas: Vec<Vec<u8>>,
    pub(crate) nvram_log: Vec<u8>,
    pub(crate) directory: Vec<u8>,
}

impl TestArray {
    /// Labels on every device, the state in one slot and the generation before in the other, clear bitmaps.
    pub(crate) fn new(newest: ArrayState) -> Self {
        let total_bytes = AreaLayout::of(&newest.geometry).total_bytes as usize;
        let label = newest_label(&newest);
        let before = newest.generation.checked_sub(1);
        let before = before.map(|generation| ArrayState { generation, ..newest.clone() });
        let mut array = Self {
            areas: vec![vec![0; total_bytes]; newest.devices.len()],
            nvram_log: vec![0; NVRAM_RING_AT + LOG_BYTES as usize],
            directory: vec![0; 16 * NVRAM_ENTRY_BYTES],
            state: newest,
        };
        label.encode(&mut array.nvram_log[..NVRAM_LABEL_BYTES]);
        let map = array.clear_map();
        for device in 0..array.areas.len() {
            array.write_label(device, device, array.state.devices[device].device_uuid);
            for state in before.iter().chain([&array.state.clone()]) {
                array.write_state(device, state);
            }
            for slot in 0..2 {
                array.write_bitmap(device, slot, &map, 1 + slot as u64);
            }
        }
        array
    }

    pub(crate) fn layout(&self) -> AreaLayout {
        AreaLayout::of(&self.state.geometry)
    }

    pub(crate) fn clear_map(&self) -> RegionMap {
        RegionMap::new(self.state.check().expect("a possible array").stripe_count())
    }

    pub(crate) fn write_label(&mut self, area: usize, device: usize, device_uuid: DeviceUuid) {
        let array_uuid = self.state.geometry.array_uuid;
        let name = ArrayName::new(NAME).expect("a name");
        let label = Label { array_uuid, device_uuid, device: MemberIndex(device as u16), name };
        label.encode(&mut self.areas[area][..LABEL_BYTES]);
    }

    /// Changes the state, raises its generation and writes it to `devices`.
    pub(crate) fn next_state(&mut self, devices: Range<usize>, change: impl FnOnce(&mut ArrayState)) {
        self.state.generation += 1;
        change(&mut self.state);
        let state = self.state.clone();
        devices.for_each(|device| self.write_state(device, &state));
    }

    /// Changes the newest state on every device, without a new generation.
    pub(crate) fn change_state(&mut self, change: impl FnOnce(&mut ArrayState)) {
        change(&mut self.state);
        let state = self.state.clone();
        (0..self.areas.len()).for_each(|device| self.write_state(device, &state));
    }

    pub(crate) fn write_state(&mut self, area: usize, state: &ArrayState) {
        let slot = self.state_slot(state.generation);
        state.encode(&mut self.areas[area][slot]);
    }

    pub(crate) fn state_slot(&self, generation: u64) -> Range<usize> {
        let slot = self.layout().state_slot(generation);
        slot.offset_bytes as usize..slot.offset_bytes as usize + STATE_BYTES
    }

    pub(crate) fn bitmap_slot(&self, slot: usize) -> Range<usize> {
        let slot = self.layout().bitmap[slot].offset_bytes as usize;
        slot..slot + BITMAP_BYTES
    }

    pub(crate) fn write_bitmap(&mut self, area: usize, slot: usize, map: &RegionMap, sequence: u64) {
        let slot = self.bitmap_slot(slot);
        map.encode(self.state.geometry.array_uuid, sequence, &mut self.areas[area][slot]);
    }

    /// A record that writes two rows of data and one of parity.
    pub(crate) fn record(&self, sequence: u64) -> TestRecord {
        let header = LogHeader {
            array_uuid: self.state.geometry.array_uuid,
            sequence,
            tail_sequence: self.state.log_tail.min(sequence),
            epoch: self.state.epoch,
            stripe: StripeIndex(sequence % 7),
            holds: RecordHolds::Rows,
        };
        let runs = vec![LogRun { unit: 0, first_row: 3, rows: 2 }, LogRun { unit: 1, first_row: 4, rows: 1 }];
        TestRecord { header, runs }
    }

    /// A record of the checksums of so many rows of all units of a stripe, from row 2 on.
    pub(crate) fn record_of_checksums(&self, sequence: u64, stripe: u64, rows: u32) -> TestRecord {
        let TestRecord { mut header, .. } = self.record(sequence);
        (header.stripe, header.holds) = (StripeIndex(stripe), RecordHolds::Checksums);
        let units = 0..self.state.geometry.members;
        TestRecord { header, runs: units.map(|unit| LogRun { unit, first_row: 2, rows }).collect() }
    }

    /// Writes a record into a device's ring at `block`; returns the block behind it.
    pub(crate) fn write_record(&mut self, area: usize, block: u64, record: &TestRecord) -> u64 {
        self.write_records(area, block, &record.bytes(self.state.geometry.block_size))
    }

    /// The same with the bytes of records.
    pub(crate) fn write_records(&mut self, area: usize, block: u64, bytes: &[u8]) -> u64 {
        let ring = self.layout().log.offset_bytes as usize;
        put_records(&mut self.areas[area][ring..], block, bytes, self.state.geometry.block_size)
    }

    /// Writes a record into the kept ring at `block`; returns the block behind it.
    pub(crate) fn write_kept_record(&mut self, block: u64, record: &TestRecord) -> u64 {
        self.write_kept_records(block, &record.bytes(self.state.geometry.block_size))
    }

    /// The same with the bytes of records.
    pub(crate) fn write_kept_records(&mut self, block: u64, bytes: &[u8]) -> u64 {
        put_records(&mut self.nvram_log[NVRAM_RING_AT..], block, bytes, self.state.geometry.block_size)
    }

    pub(crate) fn write_entry(&mut self, slot: u32, entry: NvramEntry) {
        let at = slot as usize * NVRAM_ENTRY_BYTES;
        self.directory[at..at + NVRAM_ENTRY_BYTES].copy_from_slice(&entry.encode(slot));
    }

    pub(crate) fn kept(&self) -> NvramImage<'_> {
        NvramImage { log: &self.nvram_log, directory: &self.directory }
    }

    pub(crate) fn candidates(&self) -> Vec<Option<&[u8]>> {
        self.areas.iter().map(|area| Some(area.as_slice())).collect()
    }
}

fn put_records(ring: &mut [u8], block: u64, bytes: &[u8], block_size: BlockSize) -> u64 {
    let at = (block * block_size.bytes()) as usize;
    ring[at..at + bytes.len()].copy_from_slice(bytes);
    block + bytes.len() as u64 / block_size.bytes()
}
