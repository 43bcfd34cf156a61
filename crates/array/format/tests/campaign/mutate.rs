//! Damages the contents of devices and of NVRAM.
//!
//! Plain damage (flips, splices, cuts, noise) mostly ends at a checksum. To reach the code behind, fields are changed
//! and the checksum is corrected:
//! ```text
//! any structure ── a field ── 0, 1, all ones, one more or less, random ── reseal
//! ```

use super::kit::Rng;
use raidlab_format::{
    AreaLayout, BITMAP_BYTES, LABEL_BYTES, NVRAM_LABEL_BYTES, NVRAM_RING_AT, Part, SECTOR_BYTES, STATE_BYTES,
    header_len,
};
use raidlab_units::{BlockSize, ByteCount};
use std::ops::Range;

/// What an operator may hand over.
#[derive(Clone)]
pub(crate) struct Handed {
    pub(crate) areas: Vec<Option<Vec<u8>>>,
    pub(crate) nvram_log: Vec<u8>,
    pub(crate) directory: Vec<u8>,
    pub(crate) block_size: BlockSize,
}

impl Handed {
    /// Damages it once; `other` is a source of bytes that are valid elsewhere.
    pub(crate) fn mutate(&mut self, rng: &mut Rng<'_>, other: &Self) {
        match rng.below(16) {
            0 => self.change_candidates(rng, other),
            1 => flip(self.pick_buffer(rng), rng),
            2 => overwrite(self.pick_buffer(rng), rng),
            3 => cut(self.pick_buffer(rng), rng),
            4 => self.splice(rng, other),
            5 => self.copy_structure(rng),
            6 => flip(&mut self.directory, rng),
            _ => self.edit_field(rng),
        }
    }

    fn pick_buffer(&mut self, rng: &mut Rng<'_>) -> &mut Vec<u8> {
        if self.areas.is_empty() || rng.one_in(8) {
            return &mut self.nvram_log;
        }
        let area = rng.index(self.areas.len());
        self.areas[area].get_or_insert_default()
    }

    fn change_candidates(&mut self, rng: &mut Rng<'_>, other: &Self) {
        if self.areas.is_empty() {
            return;
        }
        let (first, second) = (rng.index(self.areas.len()), rng.index(self.areas.len()));
        match rng.below(6) {
            0 => self.areas[first] = None,
            1 => drop(self.areas.remove(first)),
            2 => self.areas.push(self.areas[first].clone()),
            3 => self.areas.swap(first, second),
            4 => self.areas.extend(other.areas.iter().take(1 + rng.index(4)).cloned()),
            _ => self.areas[first].get_or_insert_default().fill(0),
        }
    }

    /// Copies a run of sectors from a buffer of `other` to the same or another place.
    fn splice(&mut self, rng: &mut Rng<'_>, other: &Self) {
        let sources: Vec<&Vec<u8>> = other.areas.iter().flatten().chain([&other.nvram_log]).collect();
        let source = rng.pick(&sources);
        let target = self.pick_buffer(rng);
        let (Some(from), Some(mut to)) = (pick_sector(rng, source), pick_sector(rng, target)) else { return };
        if rng.one_in(2) {
            to = from.min(target.len());
        }
        let length = (SECTOR_BYTES << rng.below(7)).min(source.len() - from).min(target.len() - to);
        target[to..to + length].copy_from_slice(&source[from..from + length]);
    }

    /// Copies a whole structure over another of its kind.
    fn copy_structure(&mut self, rng: &mut Rng<'_>) {
        let area = self.pick_buffer(rng);
        let pairs = [(4096, 20480, STATE_BYTES), (20480, 4096, STATE_BYTES), (36864, 40960, BITMAP_BYTES)];
        let (from, to, length) = rng.pick(&pairs);
        if area.len() >= to.max(from) + length {
            area.copy_within(from..from + length, to);
        }
    }

    fn edit_field(&mut self, rng: &mut Rng<'_>) {
        let block_size = self.block_size;
        let buffer = self.pick_buffer(rng);
        let all = structures(buffer, block_size);
        let kinds = [
            Part::Label,
            Part::State,
            Part::BitmapSector,
            Part::LogHeader,
            Part::LogHeader,
            Part::NvramLabel,
        ];
        let kind = rng.pick(&kinds);
        let places: Vec<_> =
            all.iter().filter(|(part, _)| *part == kind).map(|(_, place)| place.clone()).collect();
        let Some(place) = places.get(rng.index(places.len().max(1))) else { return };
        let bytes = &mut buffer[place.clone()];
        for _ in 0..=rng.below(2) {
            let end = field_end(rng, kind, bytes.len());
            write_field(rng, &mut bytes[8..end]);
        }
        reseal(bytes);
    }
}

/// Where the fields that mean something end; now and then, the whole structure.
fn field_end(rng: &mut Rng<'_>, kind: Part, length: usize) -> usize {
    let end = match kind {
        _ if rng.one_in(8) => length,
        Part::Label => 52,
        Part::State => rng.pick(&[112, 512 + 8 * 28]),
        Part::BitmapSector | Part::WrittenSector => 64,
        Part::LogHeader => rng.pick(&[64, 72 + 3 * 12]),
        Part::NvramLabel => 48,
        Part::NvramFile => 56,
        Part::Unfinished => 32,
    };
    end.min(length)
}

fn write_field(rng: &mut Rng<'_>, bytes: &mut [u8]) {
    let size = rng.pick(&[1, 2, 4, 8]);
    let at = rng.index(bytes.len() / size) * size;
    let field = &mut bytes[at..at + size];
    let mut value = [0; 8];
    value[..size].copy_from_slice(field);
    let value = u64::from_le_bytes(value);
    let random = rng.next();
    let new = rng.pick(&[
        0,
        1,
        2,
        u64::MAX,
        u64::MAX >> 1,
        value.wrapping_add(1),
        value.wrapping_sub(1),
        value ^ (1 << (random % 64)),
        random,
    ]);
    field.copy_from_slice(&new.to_le_bytes()[..size]);
}

/// Makes the checksum right again.
fn reseal(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let checksum = crc_fast::crc32_iscsi(bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// What stands where in a metadata area or an NVRAM log.
fn structures(buffer: &[u8], block_size: BlockSize) -> Vec<(Part, Range<usize>)> {
    let layout = AreaLayout::new(ByteCount::ZERO);
    let mut found = Vec::new();
    let mut add = |part: Part, at: usize, length: usize| {
        if buffer.get(at..at + length).is_some_and(|bytes| bytes.starts_with(part.magic())) {
            found.push((part, at..at + length));
        }
    };
    add(Part::Label, 0, LABEL_BYTES);
    add(Part::NvramLabel, 0, NVRAM_LABEL_BYTES);
    layout.state.iter().for_each(|slot| add(Part::State, slot.offset_bytes as usize, STATE_BYTES));
    let bitmaps = layout.bitmap[0].offset_bytes as usize..layout.log.offset_bytes as usize;
    bitmaps.step_by(SECTOR_BYTES).for_each(|at| add(Part::BitmapSector, at, SECTOR_BYTES));
    for at in (NVRAM_RING_AT..buffer.len().saturating_sub(72)).step_by(SECTOR_BYTES) {
        let runs = u16::from_le_bytes([buffer[at + 10], buffer[at + 11]]);
        let rows = u32::from_le_bytes([buffer[at + 68], buffer[at + 69], buffer[at + 70], buffer[at + 71]]);
        let checksums = if buffer[at + 66] == 2 { rows / 2 } else { rows };
        add(Part::LogHeader, at, header_len(runs, checksums, block_size) as usize);
    }
    found
}

fn pick_sector(rng: &mut Rng<'_>, buffer: &[u8]) -> Option<usize> {
    let sectors = buffer.len() / SECTOR_BYTES;
    (sectors > 0).then(|| rng.index(sectors) * SECTOR_BYTES)
}

fn flip(buffer: &mut [u8], rng: &mut Rng<'_>) {
    if !buffer.is_empty() {
        let at = rng.index(buffer.len());
        buffer[at] ^= 1 << rng.below(8);
    }
}

fn overwrite(buffer: &mut [u8], rng: &mut Rng<'_>) {
    let Some(at) = pick_sector(rng, buffer) else { return };
    let length = (1 << rng.below(14)).min(buffer.len() - at);
    let zeros = rng.one_in(2);
    buffer[at..at + length].fill_with(|| if zeros { 0 } else { rng.next() as u8 });
}

/// Cuts the end off, or adds to it.
fn cut(buffer: &mut Vec<u8>, rng: &mut Rng<'_>) {
    let length = rng.index(buffer.len() + 8192);
    buffer.resize(length, 0);
}
