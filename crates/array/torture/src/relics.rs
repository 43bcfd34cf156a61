//! What comes back from an older incarnation: the image of a device that was replaced, of NVRAM before it was lost, or of a member
//! before a start or a stop that it missed.
//!
//! An image is taken when the fault comes, and put in place at a later power cut. The array must tell it from what it has now.
//!
//! - The image of a device takes the place of the device that has its number now. That one must be another device since, and may be
//!   lost or is no longer the array's. A device that knows of the change must be there, at this start and at later ones.
//! - The image of NVRAM is put in place only if nothing promises what NVRAM holds, and only after the array was started again and
//!   has served.
//! - *Older members* (plans that have them): the image of a member in sync is taken while power is off or while the array serves. It
//!   is put back at a cut or a stop after another start has come to serve, or, if the array was written to since, after a stop. So it
//!   is a backup that the array must not take for the member. The member may be lost, and one that knows better must be there.

use super::faults::Fault;
use super::members::{Device, Presence};
use super::world::TortureWorld;
use raidlab_controller::DeviceState;
use raidlab_format::Label;
use raidlab_units::MemberIndex;
use raidlab_workload::Rng;

/// A device as it was.
#[derive(Clone, Debug)]
pub(super) struct OldDevice {
    member: MemberIndex,
    data: Vec<u8>,
    metadata: Vec<u8>,
}

/// A member in sync as it was.
#[derive(Clone, Debug)]
pub(super) struct OlderMember {
    image: OldDevice,
    /// Starts that had come to serve.
    incarnations: u64,
    /// The array has been stopped since.
    has_missed_stop: bool,
}

/// NVRAM as it was.
#[derive(Clone, Debug)]
pub(super) struct OldMemory {
    image: [Vec<u8>; 3],
    /// Starts that had come to serve.
    incarnations: u64,
}

/// Images of an older incarnation.
#[derive(Debug, Default)]
pub(super) struct Relics {
    pub(super) device: Option<OldDevice>,
    pub(super) memory: Option<OldMemory>,
    /// Starts that have come to serve.
    pub(super) incarnations: u64,
    /// Devices that are as they were, and have not been labelled anew since.
    pub(super) old: Vec<MemberIndex>,
    /// Members come back as they were.
    pub(super) has_older: bool,
    older: Option<OlderMember>,
    /// Members that are as they were, and have not been labelled anew since.
    pub(super) older_in_place: Vec<MemberIndex>,
}

impl Relics {
    /// Whether a device is as it was, and so neither in sync nor one that knows what the array is now.
    pub(super) fn is_old(&self, member: MemberIndex) -> bool {
        self.old.contains(&member) || self.older_in_place.contains(&member)
    }

    /// A device has been labelled anew.
    pub(super) fn forget(&mut self, member: MemberIndex) {
        self.old.retain(|old| *old != member);
        self.older_in_place.retain(|old| *old != member);
    }
}

impl TortureWorld {
    /// Takes an image of a device, mostly of one that is there no more, or of NVRAM.
    pub(super) fn take_image(&mut self, pick: &mut Rng) -> Option<u64> {
        if !self.can_restart() {
            return None;
        }
        if pick.below(2) == 0 {
            self.memories.kept_copy()?;
            self.take_image_of_memory();
            return Some(0);
        }
        let any = pick.below(self.devices.len() as u64);
        let member = MemberIndex(self.pick_absent(pick).unwrap_or(any) as u16);
        self.take_image_of(member);
        Some(u64::from(member.0))
    }

    /// Takes an image of NVRAM, where there is any.
    pub(super) fn take_image_of_memory(&mut self) {
        if let Some(image) = self.memories.kept_copy() {
            self.relics.memory = Some(OldMemory { image, incarnations: self.relics.incarnations });
        }
    }

    /// Takes an image of a device.
    pub(super) fn take_image_of(&mut self, member: MemberIndex) {
        self.relics.device = Some(self.image_of(member));
    }

    fn image_of(&self, member: MemberIndex) -> OldDevice {
        let device = &self.devices[member.index()];
        let (data, metadata) = (device.data.bytes().to_vec(), device.metadata.bytes().to_vec());
        OldDevice { member, data, metadata }
    }

    /// Takes an image of a member in sync, now and then.
    pub(super) fn take_older(&mut self, pick: &mut Rng) {
        if !self.relics.has_older || !pick.chance_pct(if self.relics.older.is_some() { 10 } else { 50 }) {
            return;
        }
        let member = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        if self.knows_latest(member) && !self.has_lost() {
            let (image, incarnations) = (self.image_of(member), self.relics.incarnations);
            self.relics.older = Some(OlderMember { image, incarnations, has_missed_stop: false });
        }
    }

    /// Notes that the array has been stopped.
    pub(super) fn note_missed_stop(&mut self) {
        let is_told = !self.has_lost();
        if let Some(older) = &mut self.relics.older {
            older.has_missed_stop |= is_told;
        }
    }

    /// Puts a member back as it was before a start or a stop, now and then.
    pub(super) fn find_older(&mut self, pick: &mut Rng) {
        let Some(older) = self.relics.older.take_if(|_| pick.chance_pct(50)) else { return };
        if !self.has_missed_what_counts(&older) {
            self.relics.older = Some(older);
            return;
        }
        self.relics.older_in_place.push(older.image.member);
        self.put_back(older.image);
    }

    /// Whether the array must know the image from the member, which may be lost.
    fn has_missed_what_counts(&self, older: &OlderMember) -> bool {
        let OldDevice { member, data, .. } = &older.image;
        let has_missed = older.has_missed_stop || older.incarnations < self.relics.incarnations;
        // Nothing is written in place before a generation says so.
        let differs = self.devices[member.index()].data.bytes() != &data[..];
        let others = (0..self.devices.len() as u16).map(MemberIndex).filter(|other| other != member);
        let is_known = !self.has_lost() && others.into_iter().any(|other| self.knows_latest(other));
        has_missed && differs && is_known && self.knows_latest(*member) && self.may_lose(*member)
    }

    /// Whether a device is there and in sync, and had what the latest start wrote.
    fn knows_latest(&self, member: MemberIndex) -> bool {
        self.proven[member.index()] && self.devices[member.index()].presence == Presence::Here
    }

    /// Puts an older image where NVRAM was lost, now and then.
    pub(super) fn find_old_memory(&mut self, pick: &mut Rng) {
        let incarnations = self.relics.incarnations;
        let is_older = |old: &&OldMemory| old.incarnations < incarnations;
        let Some(old) = self.relics.memory.as_ref().filter(is_older).filter(|_| pick.chance_pct(50)) else {
            return;
        };
        self.memories.put_kept(&old.image);
        self.report.faults[Fault::OldImage as usize] += 1;
    }

    /// Puts a device that was replaced back in its place, now and then.
    pub(super) fn find_old_device(&mut self, pick: &mut Rng) {
        let Some(old) = self.relics.device.take_if(|_| pick.chance_pct(50)) else { return };
        if !self.may_find(&old) {
            self.relics.device = Some(old);
            return;
        }
        self.relics.old.push(old.member);
        self.put_back(old);
    }

    fn put_back(&mut self, OldDevice { member, data, metadata }: OldDevice) {
        let device = &mut self.devices[member.index()];
        device.data.replace(|bytes| bytes.copy_from_slice(&data));
        device.metadata.replace(|bytes| bytes.copy_from_slice(&metadata));
        device.copy_to_tail();
        device.forget_rot();
        device.presence = Presence::Here;
        (self.excluded[member.index()], self.unlisted[member.index()]) = (true, true);
        // The device that had its place is lost, and counts towards what the level survives.
        self.proven[member.index()] = false;
        self.report.faults[Fault::OldImage as usize] += 1;
    }

    /// Keeps old devices away from a start where nobody is there who knows better.
    pub(super) fn hide_old_devices(&mut self) {
        let knows = |(index, device): (usize, &Device)| {
            let is_old = self.relics.old.contains(&MemberIndex(index as u16));
            // One that is there again may be another at its place, and knows nothing until it is told.
            let has_newest = !self.unlisted[index]
                && matches!(self.states[index], DeviceState::InSync { .. } | DeviceState::Lost { .. });
            device.presence == Presence::Here && has_newest && !is_old
        };
        if !self.devices.iter().enumerate().any(knows) {
            for member in &self.relics.old {
                self.devices[member.index()].presence = Presence::Gone;
            }
        }
        if !(0..self.devices.len() as u16).any(|member| self.knows_latest(MemberIndex(member))) {
            for member in &self.relics.older_in_place {
                self.devices[member.index()].presence = Presence::Gone;
            }
        }
    }

    /// Whether what has the number of an old device now is another, and may be gone.
    fn may_find(&self, old: &OldDevice) -> bool {
        let index = old.member.index();
        let is_nobodys = self.states[index] == DeviceState::Missing && self.controller.is_state_kept();
        // A label that has rotted is still the same device's.
        let uuid = |metadata: &[u8]| Label::decode(metadata).ok().map(|label| label.device_uuid);
        let (now, before) = (uuid(&self.devices[index].found_metadata()), uuid(&old.metadata));
        let is_another = before.is_none() || (now.is_some() && now != before);
        // Somebody must be there who knows better: old devices alone are an array as it was.
        let knows = |(other, device): (usize, &Device)| {
            other != index && self.proven[other] && device.presence == Presence::Here
        };
        let is_known = !self.has_lost() && self.devices.iter().enumerate().any(knows);
        // Nor may the devices call the old one in sync still: its state may be the one before theirs, which a crash leaves, too.
        is_another && is_known && (is_nobodys || (!self.unlisted[index] && self.may_lose(old.member)))
    }
}
