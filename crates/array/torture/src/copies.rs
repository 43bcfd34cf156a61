//! Blocks that the host copies from the array's own metadata: labels, states, bitmaps, records of the log, tags, zeros.
//!
//! A host that keeps images of members stores such bytes, and none of them may be taken for what it looks like: a record within the
//! payload of another, a label in a data area, a tag of zeros. Writes of blocks mostly hold patterns (`checkers/provenance.rs`).
//! What a copy holds is kept here, so that a block that is read back names its write all the same.
//!
//! Never copied to a block is what it held before, or what looks like a pattern of it: which write it came from could not be told.
//! Left out: what the host makes up itself; it does not know what the array will write next.

use super::checkers::provenance::{BlockFault, fill_pattern, pattern_of};
use super::volume::WriteNumber;
use super::world::TortureWorld;
use raidlab_format::{AreaLayout, LogHeader};
use raidlab_units::{BlockCount, BlockSize, Lba};
use raidlab_workload::Rng;
use std::collections::BTreeMap;

/// Copies of one block that are kept; then it gets patterns.
const KEPT_MAX: usize = 32;

/// What copies hold, by block.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    held: BTreeMap<Lba, Vec<(WriteNumber, Vec<u8>)>>,
}

impl Copies {
    /// Notes that `write` to `lba` holds `bytes`; false if it may not.
    fn add(&mut self, lba: Lba, write: WriteNumber, bytes: &[u8]) -> bool {
        let held = self.held.entry(lba).or_default();
        let is_known = held.iter().any(|(_, known)| known == bytes) || pattern_of(bytes, lba).is_ok();
        if is_known || held.len() >= KEPT_MAX {
            return false;
        }
        held.push((write, bytes.to_vec()));
        true
    }

    /// Fills a block with what `write` to `lba` holds.
    pub(crate) fn fill(&self, block: &mut [u8], lba: Lba, write: WriteNumber) {
        let held = self.held.get(&lba).and_then(|held| held.iter().find(|(of, _)| *of == write));
        match held {
            Some((_, bytes)) => block.copy_from_slice(bytes),
            None => fill_pattern(block, lba, write),
        }
    }

    /// The write to `lba` that `block` comes from.
    pub(crate) fn write_of(&self, block: &[u8], lba: Lba) -> Result<WriteNumber, BlockFault> {
        pattern_of(block, lba).or_else(|fault| {
            let held = self.held.get(&lba).and_then(|held| held.iter().find(|(_, bytes)| bytes == block));
            held.map(|(write, _)| *write).ok_or(fault)
        })
    }
}

/// Which writes hold copies, and of what.
#[derive(Debug)]
pub(super) struct Copying {
    /// Share of writes, in percent.
    pub(super) pct: u8,
    /// Decides that, apart from all else.
    pub(super) pick: Rng,
}

impl TortureWorld {
    /// Fills the buffer of a write, which has blocks of this many bytes.
    pub(super) fn fill_write(&mut self, buffer: &mut [u8], block_bytes: usize, lba: Lba, write: WriteNumber) {
        let is_copy = self.copying.pct > 0 && self.copying.pick.chance_pct(self.copying.pct);
        let copied = if is_copy { self.any_metadata(buffer.len()) } else { Vec::new() };
        for (index, block) in buffer.chunks_exact_mut(block_bytes).enumerate() {
            let lba = lba + BlockCount(index as u64);
            let bytes = copied.get(index * block_bytes..(index + 1) * block_bytes);
            if bytes.is_some_and(|bytes| self.volume.copies.add(lba, write, bytes)) {
                block.copy_from_slice(bytes.unwrap_or_default());
            } else {
                fill_pattern(block, lba, write);
            }
        }
    }

    /// Up to so many bytes of what the array keeps about itself now.
    fn any_metadata(&mut self, bytes: usize) -> Vec<u8> {
        let pick = &mut self.copying.pick;
        let device = &self.devices[pick.below(self.devices.len() as u64) as usize];
        let (data, metadata) = (&device.data, device.metadata.bytes());
        let front = (AreaLayout::FRONT_BYTES as usize).min(metadata.len());
        let block_size = self.config.block_size;
        let block_bytes = block_size.bytes() as usize;
        let from = |area: &[u8], at: usize| area[at..area.len().min(at + bytes)].to_vec();
        let any_block = |area: &[u8], pick: &mut Rng| {
            pick.below((area.len() / block_bytes).max(1) as u64) as usize * block_bytes
        };
        match pick.below(8) {
            0..=2 => from_record(&metadata[front..], block_size, any_block(&metadata[front..], pick), from),
            3 | 4 => {
                let ring = self.memories.log_ring();
                from_record(ring, block_size, any_block(ring, pick), from)
            }
            5 => from(&metadata[..front], any_block(&metadata[..front], pick)),
            6 if data.tags.is_on() => {
                let strip = pick.below(data.bytes().len() as u64 / block_bytes as u64 / data.tags.pitch());
                let first = strip * data.tags.pitch() + data.tags.strip_blocks();
                from(data.bytes(), first as usize * block_bytes)
            }
            _ => vec![0; bytes],
        }
    }
}

/// What begins with the first record behind a place of a ring, or there if there is none.
fn from_record(
    ring: &[u8],
    block_size: BlockSize,
    at: usize,
    from: impl Fn(&[u8], usize) -> Vec<u8>,
) -> Vec<u8> {
    let is_record = |at: &usize| LogHeader::decode(&ring[*at..], block_size).is_ok();
    let found = (at..ring.len()).step_by(block_size.bytes() as usize).find(is_record);
    from(ring, found.unwrap_or(at).min(ring.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_names_its_write_and_nothing_else_does() {
        let (mut copies, lba) = (Copies::default(), Lba(7));
        let (one, other) = (vec![0; 512], vec![3; 512]);
        assert!(copies.add(lba, WriteNumber(1), &one) && copies.add(lba, WriteNumber(2), &other));
        assert!(!copies.add(lba, WriteNumber(3), &one), "which of two writes it is could not be told");
        let mut pattern = vec![0; 512];
        copies.fill(&mut pattern, lba, WriteNumber(4));
        assert!(!copies.add(lba, WriteNumber(5), &pattern), "neither could that");
        for (write, bytes) in [(1, one), (2, other), (4, pattern)] {
            let mut filled = vec![9; 512];
            copies.fill(&mut filled, lba, WriteNumber(write));
            assert_eq!(filled, bytes);
            assert_eq!(copies.write_of(&bytes, lba), Ok(WriteNumber(write)));
            assert!(copies.write_of(&bytes, Lba(8)).is_err(), "another block holds no copy");
        }
    }
}
