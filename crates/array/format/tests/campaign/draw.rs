//! Draws arrays as our own code would leave them, after a clean stop or a crash, with the expected results.

use super::kit::Rng;
use crate::support::{LOG_BYTES, TestArray, TestRecord, array_uuid, geometry, shared_bytes, state};
use raidlab_format::{
    ArrayState, BadRange, BadReason, COUNTERS_END, DeviceRecord, DeviceState, LogHeader, LogPlace, LogRun,
    MetadataPolicy, NvramEntry, RecordHolds, StartNonce, tag_blocks,
};
use raidlab_raid::StripeShape;
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, MemberLba, StripeIndex};
use std::collections::{BTreeMap, BTreeSet};

const LEVELS: [(&str, u16); 12] = [
    ("5", 3),
    ("5:right-asymmetric", 5),
    ("6", 4),
    ("6", 6),
    ("3", 4),
    ("50:2-spans", 6),
    ("60:2-spans", 8),
    ("1", 2),
    ("1", 3),
    ("1e", 3),
    ("10", 4),
    ("0", 2),
];

/// An array, and what a start with all its devices should find.
pub(crate) struct Drawn {
    pub(crate) array: TestArray,
    /// The sequences of the records to replay, each with the number of its copies.
    pub(crate) replayed: BTreeMap<u64, usize>,
    /// The slots of the kept cache that hold something.
    pub(crate) nvram_slots: BTreeSet<u32>,
    pub(crate) marked_regions: BTreeSet<u16>,
}

impl Drawn {
    pub(crate) fn new(rng: &mut Rng<'_>) -> Self {
        let drawn = draw_state(rng);
        let shape = drawn.check().expect("a drawn state is possible").shape();
        let mut drawn = Self {
            array: TestArray::new(drawn),
            replayed: BTreeMap::new(),
            nvram_slots: BTreeSet::new(),
            marked_regions: BTreeSet::new(),
        };
        drawn.draw_bitmaps(rng);
        drawn.draw_records(rng, shape);
        drawn.draw_entries(rng);
        if rng.one_in(3) && drawn.array.state.generation < COUNTERS_END - 1 {
            drawn.draw_torn_generation(rng);
        }
        drawn
    }

    pub(crate) fn in_sync(&self) -> Vec<usize> {
        let devices = self.array.state.devices.iter().enumerate();
        devices.filter(|(_, record)| record.state == DeviceState::InSync).map(|(device, _)| device).collect()
    }

    fn draw_bitmaps(&mut self, rng: &mut Rng<'_>) {
        let (mut map, mut sequence) = (self.array.clear_map(), 10);
        for slot in 0..rng.index(5) {
            let region = raidlab_format::RegionIndex(rng.below(map.regions().into()) as u16);
            if map.mark(region) {
                self.marked_regions.insert(region.0);
            } else {
                map.clear(region);
                self.marked_regions.remove(&region.0);
            }
            sequence += 1 + rng.below(3);
            // Any one device in sync is enough for it to be found.
            let certain = rng.pick(&self.in_sync());
            for device in
                (0..self.array.areas.len()).filter(|device| *device == certain || device % 2 == slot % 2)
            {
                self.array.write_bitmap(device, slot % 2, &map, sequence);
            }
        }
    }

    fn draw_records(&mut self, rng: &mut Rng<'_>, shape: StripeShape) {
        if shape.parities == 0 || self.array.state.geometry.metadata != MetadataPolicy::Log {
            return;
        }
        let mut next_block = vec![0; self.array.areas.len() + 1];
        let mut tail = self.array.state.log_tail;
        let mut sequence = tail.saturating_sub(rng.below(4));
        for _ in 0..rng.below(9) {
            let last = (COUNTERS_END - 1).min(sequence + rng.below(3));
            let records: Vec<_> = (sequence..=last).map(|next| self.draw_record(rng, shape, next)).collect();
            let (bytes, count) = shared_bytes(&records, self.array.state.geometry.block_size);
            let copies = self.write_copies(rng, shape, &bytes, &mut next_block);
            for TestRecord { header, .. } in records[..count].iter().filter(|_| copies > 0) {
                tail = tail.max(header.tail_sequence);
                self.replayed.insert(header.sequence, copies);
            }
            sequence += count as u64 + rng.below(2);
            if sequence >= COUNTERS_END {
                break;
            }
        }
        self.replayed = self.replayed.split_off(&tail);
    }

    /// Writes records to as many logs as they belong on, where they still fit; returns how many. The NVRAM log
    /// is behind the devices in `next_block`.
    fn write_copies(
        &mut self,
        rng: &mut Rng<'_>,
        shape: StripeShape,
        bytes: &[u8],
        next_block: &mut [u64],
    ) -> usize {
        let geometry = &self.array.state.geometry;
        let block_bytes = geometry.block_size.bytes();
        let (kept, devices_bytes) = (self.array.areas.len(), geometry.log_bytes.0.next_multiple_of(4096));
        let blocks = bytes.len() as u64 / block_bytes;
        let (mut logs, ring_bytes) = match self.array.state.log_place {
            LogPlace::Members => (self.in_sync(), devices_bytes),
            LogPlace::Nvram => (vec![kept], LOG_BYTES),
        };
        let first = rng.index(logs.len());
        logs.rotate_left(first);
        logs.truncate(usize::from(shape.parities) + 1);
        logs.retain(|log| (next_block[*log] + blocks) * block_bytes <= ring_bytes);
        for log in &logs {
            let at =
                next_block[*log] + rng.below(2).min(ring_bytes / block_bytes - next_block[*log] - blocks);
            next_block[*log] = if *log == kept {
                self.array.write_kept_records(at, bytes)
            } else {
                self.array.write_records(*log, at, bytes)
            };
        }
        logs.len()
    }

    fn draw_record(&self, rng: &mut Rng<'_>, shape: StripeShape, sequence: u64) -> TestRecord {
        let state = &self.array.state;
        let stripes = state.check().expect("possible").stripe_count();
        let mut run = || {
            let first_row = rng.below(shape.strip_blocks.0) as u32;
            LogRun {
                unit: rng.below(u64::from(shape.data_strips + shape.parities)) as u16,
                first_row,
                rows: 1 + rng.below(shape.strip_blocks.0 - u64::from(first_row)) as u32,
            }
        };
        let runs = vec![run(), run(), run()];
        let holds = match rng.below(4) {
            0 => RecordHolds::Checksums,
            1 if shape.parities == 1 => RecordHolds::PartialParity,
            _ => RecordHolds::Rows,
        };
        let first = runs[0];
        let whole = 0..shape.data_strips + shape.parities;
        let runs = match holds {
            RecordHolds::Rows => runs,
            RecordHolds::Checksums => whole.map(|unit| LogRun { unit, ..first }).collect(),
            RecordHolds::PartialParity => {
                let strip = first.unit % shape.data_strips;
                [strip, shape.data_strips].map(|unit| LogRun { unit, ..first }).to_vec()
            }
        };
        let header = LogHeader {
            array_uuid: state.geometry.array_uuid,
            sequence,
            tail_sequence: sequence.saturating_sub(rng.below(5)),
            epoch: state.epoch - rng.below(2).min(state.epoch),
            stripe: StripeIndex(rng.below(stripes.0)),
            holds,
        };
        TestRecord { header, runs }
    }

    fn draw_entries(&mut self, rng: &mut Rng<'_>) {
        for slot in 0..16 {
            let entry = NvramEntry { sequence: rng.below(50), block: rng.next(), dirty: rng.below(3) };
            self.array.write_entry(slot, entry);
            if entry.dirty != 0 {
                self.nvram_slots.insert(slot);
            }
        }
    }

    /// Writes another generation to some of the devices only.
    fn draw_torn_generation(&mut self, rng: &mut Rng<'_>) {
        let reached = 1 + rng.index(self.array.areas.len());
        let dirty = rng.one_in(2);
        self.array.next_state(0..reached, |state| state.dirty |= dirty);
    }
}

fn draw_state(rng: &mut Rng<'_>) -> ArrayState {
    let (level, members) = rng.pick(&LEVELS);
    let mut geometry = geometry(level, members, rng.below(3) as u16, rng.pick(&MetadataPolicy::ALL));
    if rng.one_in(2) {
        geometry.metadata = MetadataPolicy::Log;
    }
    geometry.array_uuid = array_uuid(rng.pick(&[0xa1, 0xb2]));
    geometry.integrity = rng.one_in(2);
    geometry.block_size = rng.pick(&[BlockSize::B512, BlockSize::B4096]);
    let block_bytes = geometry.block_size.bytes();
    let strip_blocks = 1 + rng.below(16);
    let pitch_blocks = strip_blocks + tag_blocks(BlockCount(strip_blocks), geometry.block_size).0;
    let strips = if rng.one_in(4) { 1 << rng.below(40) } else { 1 + rng.below(100) };
    geometry.strip_bytes = ByteCount(strip_blocks * block_bytes);
    geometry.member_bytes = ByteCount(pitch_blocks * strips * block_bytes);
    geometry.log_bytes = ByteCount(rng.pick(&[0, 4096, 16384, 32768]));
    let member_blocks = geometry.member_blocks().0;
    let mut state = state(geometry);
    state.generation = rng.pick(&[0, 1, 2, 10, 11, COUNTERS_END - 1]);
    state.epoch = rng.pick(&[0, 1, 7, COUNTERS_END - 1]);
    state.log_tail = rng.pick(&[0, 5, 100, COUNTERS_END - 4]);
    state.nvram_epoch = rng.below(3);
    let nonce = |rng: &mut Rng<'_>| StartNonce::new(rng.below(4));
    (state.nvram_start, state.start) = (nonce(rng), nonce(rng));
    for _ in 0..rng.below(3) {
        state.note_found_by(nonce(rng));
    }
    state.dirty = rng.one_in(2);
    state.needs_resync = rng.one_in(8);
    state.log_place = if rng.one_in(3) { LogPlace::Nvram } else { LogPlace::Members };
    for _ in 0..rng.below(4) {
        let device = MemberIndex(rng.index(state.devices.len()) as u16);
        let reason = rng.pick(&[BadReason::Lost, BadReason::Unreadable]);
        state.bad_ranges.push(BadRange {
            device,
            first: MemberLba(rng.below(member_blocks)),
            count: 1,
            reason,
        });
    }
    for _ in 0..rng.below(3) {
        fail_member(rng, &mut state, member_blocks);
    }
    state
}

/// Takes a member away, and perhaps lets a spare take its role.
fn fail_member(rng: &mut Rng<'_>, state: &mut ArrayState, member_blocks: u64) {
    let in_sync = |record: &DeviceRecord| record.state == DeviceState::InSync;
    // One member is always left, so that there is someone to say so.
    if state.devices.iter().filter(|record| in_sync(record)).count() < 2 {
        return;
    }
    let failed = rng.index(usize::from(state.geometry.members));
    if !in_sync(&state.devices[failed]) {
        return;
    }
    state.devices[failed].state = DeviceState::Missing;
    let spare = state.devices.iter().position(|record| record.state == DeviceState::Spare);
    if let Some(spare) = spare.filter(|_| rng.one_in(2)) {
        state.devices[spare].role = state.devices[failed].role.take();
        state.devices[spare].state = DeviceState::Rebuilding;
        state.devices[spare].boundary = MemberLba(rng.below(member_blocks + 1));
    }
}
