//! The second copy of label and states at the end of each device, and metadata that rots.
//!
//! ```text
//! metadata area   | label | states | maps | log |        a write of the first two goes to the tail, too, and has ended
//! tail            | label | states |                     when both are written; a power cut may tear each by itself
//! ```
//! *Rot* changes a block of either copy, while the array runs or while power is off. The array reads metadata only when it starts, so
//! the next start meets it. That start takes what is missing from the other copy or from other devices, and puts a good label in the
//! place of a bad one. All else is written anew, or is not needed any more once the array serves.
//!
//! Within the bounds, one device rots between two starts. All devices are healthy when it does, and none is lost before the start.
//! So one good copy is left even of log records, which are on the fewest devices. Beyond the bounds, a device may rot twice and lose
//! both copies of its label; it then counts as absent. It always keeps a copy of its newest state: without it, the device would not
//! know which devices have failed since the state before, and the devices that know may be absent.
//!
//! A rotted record looks like one that was never complete, and a start takes it for one if other devices are absent or have rotted,
//! too, or if it was on that device only because others were missing. So the rot of a log is undone before such a start, unless the array
//! has served since.

use super::members::{Device, Presence};
use super::plan::TortureMode;
use super::power::Torn;
use super::world::TortureWorld;
use raidlab_controller::{Area, MemberCache, MemberIo, MemberOp, MetadataPolicy};
use raidlab_format::{AreaLayout, ArrayState, LABEL_BYTES, mend_front};
use raidlab_units::{ByteCount, MemberIndex};
use raidlab_workload::Rng;
use std::borrow::Cow;

/// A block of a log, or of the maps before it, that has rotted.
#[derive(Debug)]
pub(super) struct LogRot {
    block: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// A write to a tail that a power cut may lose, by what it replaced.
#[derive(Debug)]
pub(super) struct TailWrite {
    at: usize,
    bytes: Vec<u8>,
}

impl Device {
    /// Loses volatile writes to the tail, the later before the earlier: all of them, or as chance has it.
    pub(super) fn lose_tail(&mut self, all: bool, pick: &mut Rng) {
        while let Some(TailWrite { at, bytes }) = self.tail_before.pop()
            && (all || pick.chance_pct(50))
        {
            self.tail[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        self.tail_before.clear();
    }

    /// Forgets what has rotted: all of its metadata is another's now.
    pub(super) fn forget_rot(&mut self) {
        (self.rots, self.log_rot) = (0, None);
    }

    /// Takes the rot of its log back, unless that has been written since.
    fn take_log_rot_back(&mut self) {
        let Some(LogRot { block, before, after }) = self.log_rot.take() else { return };
        if self.metadata.at(block) == after {
            self.metadata.put(block, &before);
        }
    }

    /// Makes the second copy what the first is.
    pub(super) fn copy_to_tail(&mut self) {
        let bytes = self.metadata.bytes();
        self.tail_before.clear();
        self.tail.clear();
        self.tail.extend_from_slice(&bytes[..bytes.len().min(AreaLayout::TAIL_BYTES as usize)]);
    }

    /// The metadata area as a start finds it, with what the second copy has better.
    pub(super) fn found_metadata(&self) -> Cow<'_, [u8]> {
        let bytes = self.metadata.bytes();
        if bytes.starts_with(&self.tail) {
            return Cow::Borrowed(bytes);
        }
        let mut mended = bytes.to_vec();
        mend_front(&mut mended, &self.tail);
        Cow::Owned(mended)
    }

    /// The generation of the newest state that a start would find.
    fn newest_state(&self) -> Option<u64> {
        let found = self.found_metadata();
        let slots = AreaLayout::new(ByteCount(0)).state.map(|slot| slot.offset_bytes as usize);
        let states = slots.iter().filter_map(|at| ArrayState::decode(found.get(*at..)?).ok());
        states.map(|state| state.generation).max()
    }

    /// Changes a block of either copy; not where neither would have the newest state then, nor a second one of a log whose rot may
    /// have to be taken back.
    fn rot(&mut self, may_take_log_back: bool, pick: &mut Rng) {
        self.rots += 1;
        let newest = self.newest_state();
        let block_bytes = self.metadata.block_bytes();
        let blocks = (self.metadata.bytes().len() / block_bytes) as u64;
        if pick.below(3) > 0 {
            // Where there is something, mostly: the log is long.
            let block = if pick.below(2) == 0 { pick.below(blocks) } else { pick.below(blocks.min(128)) };
            let is_of_log = may_take_log_back && block >= (self.tail.len() / block_bytes) as u64;
            if is_of_log && self.log_rot.is_some() {
                return;
            }
            let before = self.metadata.at(block).to_vec();
            let mut content = before.clone();
            decay(&mut content, pick);
            self.metadata.put(block, &content);
            if self.newest_state() < newest {
                self.metadata.put(block, &before);
            } else if is_of_log {
                self.log_rot = Some(LogRot { block, before, after: content });
            }
        } else {
            let at = pick.below((self.tail.len() / block_bytes) as u64) as usize * block_bytes;
            let before = self.tail[at..at + block_bytes].to_vec();
            decay(&mut self.tail[at..at + block_bytes], pick);
            if self.newest_state() < newest {
                self.tail[at..at + block_bytes].copy_from_slice(&before);
            }
        }
    }

    /// Puts what a start has found of the label in both places.
    fn mend_label(&mut self) {
        let found = self.found_metadata()[..LABEL_BYTES].to_vec();
        let block_bytes = self.metadata.block_bytes();
        for (block, content) in (0..).zip(found.chunks_exact(block_bytes)) {
            self.metadata.put(block, content);
        }
        self.tail[..LABEL_BYTES].copy_from_slice(&found);
        self.rots = 0;
    }

    /// Whether its metadata has rotted since the latest start.
    pub(super) const fn is_rotten(&self) -> bool {
        self.rots > 0
    }

    /// Whether rot may have hit both copies: then a start may find nothing of the device.
    pub(super) const fn may_be_unknown(&self) -> bool {
        self.rots > 1
    }
}

impl TortureWorld {
    /// Writes to the second copy what a write of metadata that has ended wrote.
    pub(super) fn write_tail(&mut self, io: &MemberIo) {
        if io.area == Area::Metadata {
            let Device { metadata, tail, tail_before, .. } = &mut self.devices[io.member.index()];
            let block_bytes = metadata.block_bytes();
            let at = |block: u64| (block as usize * block_bytes).min(tail.len());
            let range = at(io.lba.0)..at(io.lba.0 + io.blocks.0);
            let is_volatile =
                self.config.member_cache == MemberCache::On && io.op != MemberOp::Write { fua: true };
            if is_volatile {
                tail_before.push(TailWrite { at: range.start, bytes: tail[range.clone()].to_vec() });
            } else {
                let is_apart = |it: &TailWrite| it.at + it.bytes.len() <= range.start || range.end <= it.at;
                tail_before.retain(is_apart);
            }
            tail[range.clone()].copy_from_slice(&metadata.bytes()[range]);
        }
    }

    /// Writes as much of a write of metadata as arrives at the second copy.
    pub(super) fn tear_copy(&mut self, io: &MemberIo, bytes: &[u8]) {
        let block_bytes = self.config.block_size.bytes() as usize;
        let torn = Torn::draw(io.blocks.0, &mut self.tails);
        let tail = &mut self.devices[io.member.index()].tail;
        for (block, content) in (0..).zip(bytes.chunks_exact(block_bytes)) {
            let at = (io.lba.0 + block) as usize * block_bytes;
            if at < tail.len() && torn.holds(block, &mut self.tails) {
                tail[at..at + block_bytes].copy_from_slice(content);
            }
        }
    }

    /// What the start finds of each device's metadata, in this order.
    pub(super) fn found_metadata(&self, order: &[usize]) -> Vec<Option<Cow<'_, [u8]>>> {
        let found = |device: &usize| {
            let device = &self.devices[*device];
            (device.presence != Presence::Gone).then(|| device.found_metadata())
        };
        order.iter().map(found).collect()
    }

    /// Before a start: takes back the rot of logs that it could not tell from records that were never complete.
    pub(super) fn take_log_rot_back(&mut self) {
        let is_rotten = |device: &&Device| device.is_rotten() || device.log_rot.is_some();
        if self.devices.iter().filter(is_rotten).count() > 1
            || self.devices.iter().any(|device| device.presence == Presence::Gone)
            || self.media.has_single_records
            || self.stripes().has_single_records(&self.states)
        {
            self.devices.iter_mut().for_each(Device::take_log_rot_back);
        }
    }

    /// Notes whether records may be on one device each: one that is written while so many devices are lost stays where it is when they
    /// are back, until the array serves anew.
    pub(super) fn note_single_records(&mut self) {
        let states: Vec<_> = self.controller.device_states().collect();
        self.media.has_single_records |= self.stripes().has_single_records(&states);
    }

    /// Takes in that a start has found its devices.
    pub(super) fn mend_labels(&mut self) {
        let is_here = |device: &&mut Device| device.is_rotten() && device.presence != Presence::Gone;
        self.devices.iter_mut().filter(is_here).for_each(Device::mend_label);
    }

    /// Whether the mode allows the loss of a device beside rot.
    pub(super) fn is_rot_survived_without(&self, victim: MemberIndex) -> bool {
        let mut devices = self.devices.iter().enumerate();
        !devices.any(|(index, device)| device.is_rotten() && index != victim.index())
    }

    /// Lets metadata of a device rot, now or with the next power cut, where that may be.
    pub(super) fn rot(&mut self, pick: &mut Rng) -> Option<u64> {
        if self.config.resilience.metadata == MetadataPolicy::None {
            return None;
        }
        if pick.below(2) == 0 {
            self.media.rots_at_cut = Some(Rng::new(pick.next_u64()));
            return Some(0);
        }
        self.rot_now(pick)
    }

    /// Lets metadata rot that was to when power is cut.
    pub(super) fn rot_at_cut(&mut self) {
        if let Some(mut pick) = self.media.rots_at_cut.take() {
            self.look_at_states();
            self.rot_now(&mut pick);
        }
    }

    fn rot_now(&mut self, pick: &mut Rng) -> Option<u64> {
        let victim = pick.below(self.devices.len() as u64) as usize;
        let is_fit = |(index, device): (usize, &Device)| {
            device.presence == Presence::Here
                && (self.proven[index] || index >= usize::from(self.config.members))
                && (!device.is_rotten() || index == victim)
        };
        let is_allowed = self.devices.iter().enumerate().all(is_fit) && self.controller.is_serving();
        if self.mode == TortureMode::Bounded && (!is_allowed || self.devices[victim].is_rotten()) {
            return None;
        }
        let has_log = self.config.resilience.metadata == MetadataPolicy::Log;
        self.devices[victim].rot(self.mode == TortureMode::Beyond && has_log, pick);
        Some(victim as u64)
    }
}

/// Changes a byte of a block, or all of it.
fn decay(block: &mut [u8], pick: &mut Rng) {
    match pick.below(3) {
        0 => block.fill(0),
        1 => super::memories::make_garbage(block, pick),
        _ => block[pick.below(block.len() as u64) as usize] ^= 1 + pick.below(255) as u8,
    }
}
