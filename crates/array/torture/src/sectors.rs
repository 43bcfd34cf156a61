//! Tears within a block: a power cut leaves some sectors of 512 bytes of a longer block new and the others old.
//!
//! An array takes devices whose sectors are shorter than its blocks. It then promises what a bare device would: a block whose write was
//! never acknowledged may hold sectors of the old and the new, as long as the host may find either. All else is as for tears between
//! blocks. What was acknowledged is whole, torn metadata is noticed, and what a log or NVRAM holds is written again.
//!
//! Torn are writes in flight: data, parity, tags and metadata, if the block could be read before. What stands in a volatile cache is
//! not torn. A block that is read back torn must be one that a cut has left so, and both writes that it is made of must be allowed
//! (`volume.rs`). After that it is open until it is written.

use super::volume::{Stamp, VolumeHistory, WriteNumber};
use super::world::TortureWorld;
use raidlab_controller::{Area, DeviceState, MemberIo};
use raidlab_raid::StripUnit;
use raidlab_units::{Lba, MemberLba};
use std::collections::BTreeMap;

/// The unit that is written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Blocks of the volume that power cuts have torn.
#[derive(Debug, Default)]
pub(super) struct TornBlocks {
    blocks: BTreeMap<Lba, Vec<TornBlock>>,
    /// Power cuts tear blocks.
    pub(super) is_on: bool,
}

/// What a block holds, and which two writes that is made of.
type TornBlock = (Vec<u8>, [WriteNumber; 2]);

impl TornBlocks {
    /// Whether `content` is what a cut has left of `lba`, and a read begun at `started` may find both that it is made of.
    pub(super) fn allow(&self, volume: &VolumeHistory, lba: Lba, content: &[u8], started: Stamp) -> bool {
        let mut left = self.blocks.get(&lba).into_iter().flatten();
        left.any(|(torn, writes)| {
            torn == content && writes.iter().all(|write| volume.check(lba, *write, started).is_ok())
        })
    }
}

impl TortureWorld {
    /// Tears some of the blocks of a write in flight that have not arrived as a whole.
    pub(super) fn tear_sectors(&mut self, io: &MemberIo, bytes: &[u8], arrived: &[bool]) {
        let block_bytes = self.config.block_size.bytes() as usize;
        for (block, new) in bytes.chunks_exact(block_bytes).enumerate() {
            if !arrived[block] && self.tails.below(3) == 0 {
                self.tear_block(io, io.lba.0 + block as u64, new);
            }
        }
    }

    fn tear_block(&mut self, io: &MemberIo, place: u64, new: &[u8]) {
        let area = self.devices[io.member.index()].area_mut(io.area);
        if area.is_any_unreadable(place..place + 1) || area.corruption.names(area.tags.strip(place)) {
            return;
        }
        let old = area.at(place).to_vec();
        let mut torn = old.clone();
        for (torn, new) in torn.chunks_exact_mut(SECTOR_BYTES).zip(new.chunks_exact(SECTOR_BYTES)) {
            if self.tails.chance_pct(50) {
                torn.copy_from_slice(new);
            }
        }
        if io.area == Area::Data
            && let Some(lba) = self.lba_at(io, place)
        {
            let write_of = |block: &[u8]| self.volume.copies.write_of(block, lba);
            let (Ok(old), Ok(new)) = (write_of(&old), write_of(new)) else { return };
            self.torn.blocks.entry(lba).or_default().push((torn.clone(), [old, new]));
        }
        let area = self.devices[io.member.index()].area_mut(io.area);
        area.write(place, 1, true).copy_from_slice(&torn);
    }

    /// The block of the volume at a place of a data area; none in parity or tags. A device that is lost while it answers has its role
    /// again at the next start.
    fn lba_at(&self, io: &MemberIo, place: u64) -> Option<Lba> {
        let (DeviceState::InSync { role }
        | DeviceState::Rebuilding { role, .. }
        | DeviceState::Lost { role }) = self.states[io.member.index()]
        else {
            return None;
        };
        let block = self.devices[io.member.index()].data.tags.block(place)?;
        let (stripe, unit, row) = self.layout.identify(role, MemberLba(block))?;
        let StripUnit::Data { strip, .. } = unit else { return None };
        Some(self.stripes().lba(stripe, strip, row.0))
    }
}
