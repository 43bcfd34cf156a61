//! What reads told of copies in doubt while a later copy was on a lost device.
//!
//! Such a read returns the first copy, since the others are synced from that once all devices are back. So what it told is promised
//! to stay. It can't where the first copy itself goes before the resync: its device is recorded as missing, or the block can't be
//! read any more. Then both copies have failed between the crash and the resync, one after the other. What is left is the later
//! one, and no device knows what was read meanwhile. Both are valid data, for the crash had left either; so the promise of the
//! read is void from then on, and nothing else.

use super::volume::{Told, WriteNumber};
use super::world::TortureWorld;
use raidlab_controller::DeviceState;
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex};

/// A block of which a read told what the first copy held.
#[derive(Debug)]
pub(super) struct FirstCopy {
    lba: Lba,
    /// The role that has it.
    role: MemberIndex,
    told: Told,
}

impl TortureWorld {
    /// The blocks of a range whose first copies a read is about to tell of, while others are on lost devices.
    pub(super) fn first_copies(&self, lba: Lba, blocks: BlockCount) -> Vec<FirstCopy> {
        if self.stripes().shape().parities > 0 || !self.has_lost() {
            return Vec::new();
        }
        let first = |lba: Lba| {
            let is_open = self.volume.is_open(lba);
            if !is_open || !self.was_in_doubt(self.layout.locate(lba).0, self.stamp) {
                return None;
            }
            let place = self.copies(lba).find(|place| self.stripes().holder(*place).is_some())?;
            Some(FirstCopy { lba, role: place.member, told: self.volume.before_told(lba) })
        };
        (lba.0..lba.0 + blocks.0).map(Lba).filter_map(first).collect()
    }

    /// Takes note of the blocks that have been told.
    pub(super) fn note_told(&mut self, firsts: Vec<FirstCopy>) {
        let volume = &self.volume;
        self.told.extend(
            firsts.into_iter().filter_map(|mut it| volume.note_told(it.lba, &mut it.told).then_some(it)),
        );
    }

    /// Takes back what was told of first copies that are gone. Redundancy that agrees again ends that.
    pub(super) fn look_at_told(&mut self) {
        if self.told.is_empty() {
            return;
        }
        let mut told = core::mem::take(&mut self.told);
        told.retain(|it| {
            if !self.was_in_doubt(self.layout.locate(it.lba).0, self.stamp) {
                return false;
            }
            let is_void = self.is_first_gone(it) && self.is_another_left(it.lba, it.told.held);
            if is_void {
                self.volume.take_back(it.lba, &it.told);
            }
            !is_void
        });
        self.told = told;
    }

    /// The places of a block's copies.
    pub(super) fn copies(&self, lba: Lba) -> impl Iterator<Item = UnitPlace> + '_ {
        let (stripe, strip, block) = self.layout.locate(lba);
        let place = move |copy| self.layout.place(stripe, StripUnit::Data { strip, copy });
        (0..self.layout.shape().copies)
            .map(place)
            .map(move |place| UnitPlace { start: place.start + block, ..place })
    }

    fn is_first_gone(&self, first: &FirstCopy) -> bool {
        let mut copies = self.copies(first.lba);
        let place = copies.find(|place| place.member == first.role).expect("the role has one");
        self.player(place).is_none_or(|device| self.devices[device].data.is_spoiled(place.start.0, 1))
    }

    /// True if some copy holds another write, or would after a power cut.
    fn is_another_left(&self, lba: Lba, held: WriteNumber) -> bool {
        let is_other = |bytes: &[u8]| self.volume.copies.write_of(bytes, lba) != Ok(held);
        self.copies(lba).any(|place| {
            let data = self.player(place).map(|device| &self.devices[device].data);
            data.is_some_and(|data| {
                is_other(data.block(place.start.0)) || data.older(place.start.0).any(is_other)
            })
        })
    }

    /// The device that has what stands at `place`, or will when it is back.
    fn player(&self, place: UnitPlace) -> Option<usize> {
        let lost = DeviceState::Lost { role: place.member };
        let holder = self.stripes().holder(place).map(MemberIndex::index);
        holder.or_else(|| self.states.iter().position(|state| *state == lost))
    }
}
