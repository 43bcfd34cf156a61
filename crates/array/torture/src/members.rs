//! The members and spares as devices: bytes, unreadable blocks, and a volatile cache that a power cut may lose.
//!
//! With the member's cache on, a completed write without forced unit access is *volatile* until a flush asked for after it
//! completes. Every volatile write leaves an entry with what the block held before, so that at any moment it is known
//! what a power cut could make of a block: what it holds now, or what any of its live entries kept.
//! ```text
//!  entries, oldest first:   b7: v0   b2: v0   b7: v1  │ b7 holds v2        after a cut b7 holds v0, v1 or v2
//!                           ◄── first                 └─ next
//! ```
//! A block that could not be read before a volatile write is unreadable again when that is dropped. A flush forgets the entries that were there when it was asked for, a write with forced unit access those of its blocks.
//! A device also destages on its own: when the entries have filled their room, the oldest become durable.

use super::power::Torn;
use super::rot::{LogRot, TailWrite};
use super::tags::{Corruption, TagMap};
use raidlab_controller::{Area, MemberCache, MemberOp};
use raidlab_units::BlockSize;
use raidlab_workload::Rng;
use std::collections::BTreeSet;

/// Volatile blocks that a device's cache holds at most.
const CACHE_BLOCKS: usize = 256;

/// Whether a device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It does.
    Here,
    /// Its next write or flush will fail, or nothing ends there.
    Doomed(Doom),
    /// It has failed a write of metadata or a flush, so it must leave the array, though it answers.
    Unfit,
    /// It is gone.
    Gone,
}

/// What will fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doom {
    /// A write, after which what it was to write can't be read.
    Write,
    /// A write, after which its front may be new and the rest is as before, and all can be read.
    WriteKeepingOld,
    /// A flush, with which volatile writes are dropped.
    Flush,
    /// None: nothing ends any more, and the device is bound to be lost.
    Silence,
}

impl Doom {
    /// Whether it is such an access that fails.
    pub(super) const fn meets(self, op: MemberOp) -> bool {
        match self {
            Self::Write | Self::WriteKeepingOld => matches!(op, MemberOp::Write { .. }),
            Self::Flush => matches!(op, MemberOp::Flush),
            Self::Silence => false,
        }
    }
}

/// One member or spare.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) data: AreaBytes,
    pub(super) metadata: AreaBytes,
    /// The second copy of label and states; empty where the array keeps none.
    pub(super) tail: Vec<u8>,
    /// What volatile writes to it have replaced, oldest first.
    pub(super) tail_before: Vec<TailWrite>,
    /// How often its metadata has rotted since it was last read.
    pub(super) rots: u32,
    /// What of its log has rotted since a start came to serve, where it may be taken back.
    pub(super) log_rot: Option<LogRot>,
    pub(super) presence: Presence,
}

impl Device {
    pub(super) fn area_mut(&mut self, area: Area) -> &mut AreaBytes {
        match area {
            Area::Data => &mut self.data,
            Area::Metadata => &mut self.metadata,
        }
    }

    /// True if nothing that it should hold can be relied on.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.presence, Presence::Gone | Presence::Unfit)
    }
}

/// One area of a device.
#[derive(Debug)]
pub(super) struct AreaBytes {
    bytes: Vec<u8>,
    block_bytes: usize,
    /// Blocks that can't be read until they are written.
    unreadable: BTreeSet<u64>,
    /// Those of them that can be read all the same, though what is there may be old, or an access to them has failed: the
    /// array has reason not to use them until they are written.
    suspect: BTreeSet<u64>,
    /// Volatile writes, where the device's cache is on.
    cache: Option<VolatileWrites>,
    /// Where tags stand among the blocks.
    pub(super) tags: TagMap,
    pub(super) corruption: Corruption,
}

impl AreaBytes {
    pub(super) fn new(bytes: Vec<u8>, block_size: BlockSize, cache: MemberCache) -> Self {
        let block_bytes = block_size.bytes() as usize;
        let blocks = bytes.len() / block_bytes;
        let cache = (cache == MemberCache::On).then(|| VolatileWrites::new(blocks, block_bytes));
        let (tags, corruption) = (TagMap::none(block_bytes), Corruption::default());
        Self {
            bytes,
            block_bytes,
            unreadable: BTreeSet::new(),
            suspect: BTreeSet::new(),
            cache,
            tags,
            corruption,
        }
    }

    /// The same area with tags among its blocks.
    pub(super) fn with_tags(self, tags: TagMap) -> Self {
        Self { tags, ..self }
    }

    pub(super) const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// All its bytes, as a read would find them now.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn range(&self, first: u64, blocks: u64) -> core::ops::Range<usize> {
        let start = first as usize * self.block_bytes;
        start..start + blocks as usize * self.block_bytes
    }

    /// What a read of the blocks finds; nothing if one of them can't be read.
    pub(super) fn read(&self, first: u64, blocks: u64) -> Option<&[u8]> {
        let is_unreadable = !self.unreadable.is_empty()
            && self.unreadable.range(first..first + blocks).any(|block| !self.suspect.contains(block));
        (!is_unreadable).then(|| &self.bytes[self.range(first, blocks)])
    }

    /// True if one of the places can't be read, or is suspect.
    pub(super) fn is_any_unreadable(&self, places: core::ops::Range<u64>) -> bool {
        !self.unreadable.is_empty() && self.unreadable.range(places).next().is_some()
    }

    /// What stands at a place, readable or not.
    pub(super) fn at(&self, place: u64) -> &[u8] {
        &self.bytes[self.range(place, 1)]
    }

    /// One block, tags left out, readable or not.
    pub(super) fn block(&self, block: u64) -> &[u8] {
        self.at(self.tags.place(block))
    }

    /// Replaces what stands at a place, durably and unseen.
    pub(super) fn put(&mut self, place: u64, content: &[u8]) {
        let range = self.range(place, 1);
        self.bytes[range].copy_from_slice(content);
        if let Some(cache) = &mut self.cache {
            cache.settle(place);
        }
    }

    /// Sets up blocks to be written, of which the caller fills the bytes that are returned.
    pub(super) fn write(&mut self, first: u64, blocks: u64, fua: bool) -> &mut [u8] {
        let range = self.range(first, blocks);
        if let Some(cache) = &mut self.cache {
            for block in first..first + blocks {
                let start = block as usize * self.block_bytes;
                let old = &self.bytes[start..start + self.block_bytes];
                let was_unreadable = self.unreadable.contains(&block) && !self.suspect.contains(&block);
                // What lied never comes back.
                let is_settled = fua || self.corruption.names(self.tags.strip(block));
                if is_settled { cache.settle(block) } else { cache.push(block, old, was_unreadable) }
            }
        }
        if !self.corruption.is_empty() {
            (first..first + blocks).for_each(|place| self.corruption.heal(place));
        }
        if !self.unreadable.is_empty() {
            let old_tags: Vec<u64> = self.suspect.range(first..first + blocks).copied().collect();
            self.unreadable.retain(|block| !(first..first + blocks).contains(block));
            self.suspect.retain(|block| !(first..first + blocks).contains(block));
            for place in old_tags {
                self.suspect_strip_of(place);
            }
        }
        &mut self.bytes[range]
    }

    /// Puts another device's bytes in place of all that is here. Every block can be read.
    pub(super) fn replace(&mut self, fill: impl FnOnce(&mut [u8])) {
        self.unreadable.clear();
        self.suspect.clear();
        self.corruption.clear();
        fill(&mut self.bytes);
    }

    /// Changes a block silently, durably.
    pub(super) fn corrupt(&mut self, block: u64, random: &mut Rng) {
        let range = self.range(block, 1);
        self.bytes[range.start + random.below(range.len() as u64) as usize] ^= 1 + random.below(255) as u8;
        if let Some(cache) = &mut self.cache {
            cache.settle(block);
        }
    }

    /// Makes what a block holds durable, as a device does when it likes.
    pub(super) fn settle(&mut self, block: u64) {
        if let Some(cache) = &mut self.cache {
            cache.settle(block);
        }
    }

    /// Makes a block unreadable.
    pub(super) fn spoil(&mut self, block: u64) {
        self.unreadable.insert(block);
        self.suspect.remove(&block);
        if let Some(cache) = &mut self.cache {
            cache.settle(block);
        }
    }

    /// Gives the array reason not to use a block, which can be read.
    pub(super) fn suspect(&mut self, block: u64) {
        if self.unreadable.insert(block) {
            self.suspect.insert(block);
        }
    }

    /// Gives the array reason not to use a strip whose tags, at `place`, were suspect until they were written: those of blocks that
    /// were not are as they were.
    fn suspect_strip_of(&mut self, place: u64) {
        if self.tags.is_tag(place) {
            let first = self.tags.strip(place) * self.tags.pitch();
            (first..first + self.tags.strip_blocks()).for_each(|place| self.suspect(place));
        }
    }

    pub(super) fn has_suspects(&self) -> bool {
        !self.suspect.is_empty()
    }

    /// Takes what can be read for what should be there, but for places that the array has reason not to use.
    pub(super) fn trust(&mut self, is_bad: impl Fn(u64) -> bool) {
        let trusted: Vec<u64> = self.suspect.iter().copied().filter(|place| !is_bad(*place)).collect();
        for place in trusted {
            self.suspect.remove(&place);
            self.unreadable.remove(&place);
        }
    }

    /// True if all blocks can be read and none lies.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.is_empty() && self.corruption.is_empty()
    }

    /// True if a block, tags left out, can't be read, or its tags can't.
    pub(super) fn is_unreadable(&self, block: u64) -> bool {
        let is_tag_unreadable =
            || self.tags.is_on() && self.unreadable.contains(&self.tags.tag_place(block).0);
        self.unreadable.contains(&self.tags.place(block)) || is_tag_unreadable()
    }

    /// True if one of the blocks, tags left out, can't be read, or lies.
    pub(super) fn is_spoiled(&self, first: u64, blocks: u64) -> bool {
        !self.is_readable()
            && (first..first + blocks).any(|block| self.is_unreadable(block) || self.is_corrupt(block))
    }

    /// True if one of the blocks can't be read, or a power cut could make it so.
    pub(super) fn may_be_spoiled(&self, first: u64, blocks: u64) -> bool {
        let mut dropped = self.cache.iter().flat_map(VolatileWrites::unreadable_before);
        self.is_spoiled(first, blocks) || dropped.any(|block| (first..first + blocks).contains(&block))
    }

    /// True if one of the blocks is in a strip that lies, or will when what is on its way there has arrived.
    pub(super) fn may_lie(&self, first: u64, blocks: u64) -> bool {
        let strip_blocks = self.tags.strip_blocks();
        !self.corruption.is_empty()
            && (first / strip_blocks..=(first + blocks - 1) / strip_blocks)
                .any(|strip| self.corruption.names(strip))
    }

    /// True if any block can't be read, or a power cut could make it so.
    pub(super) fn is_any_spoiled(&self) -> bool {
        let blocks = (self.bytes.len() / self.block_bytes) as u64;
        self.suspect.len() < self.unreadable.len()
            || (0..blocks).any(|block| self.is_corrupt(block))
            || self.cache.iter().any(|cache| cache.unreadable_before().next().is_some())
    }

    /// How far the writes have come; a flush asked for now makes all of them durable when it completes.
    pub(super) fn mark(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.next)
    }

    /// Makes the writes before `mark` durable.
    pub(super) fn flush(&mut self, mark: u64) {
        if let Some(cache) = &mut self.cache {
            cache.first = cache.first.max(mark);
        }
    }

    /// Drops volatile writes, or not: each as a whole or block by block, the later before the earlier.
    pub(super) fn lose_power(&mut self, random: &mut Rng) {
        let Some(cache) = &self.cache else { return };
        let torn = Torn::draw(cache.next - cache.first, random);
        self.lose(torn, random);
    }

    /// Drops volatile writes but those that `torn` holds.
    pub(super) fn lose(&mut self, torn: Torn, random: &mut Rng) {
        let Some(cache) = &mut self.cache else { return };
        let first = cache.first;
        for entry in (first..cache.next).rev() {
            let block = cache.block_of(entry);
            let is_live = entry >= cache.settled[block as usize];
            if is_live && !torn.holds(entry - first, random) {
                let start = block as usize * self.block_bytes;
                self.bytes[start..start + self.block_bytes].copy_from_slice(cache.old_of(entry));
                self.suspect.remove(&block);
                if cache.was_unreadable(entry) {
                    self.unreadable.insert(block);
                } else {
                    self.unreadable.remove(&block);
                }
            } else {
                // What is kept of a block hides all that is older.
                cache.settled[block as usize] = cache.next;
            }
        }
        cache.first = cache.next;
    }

    /// What `block`, tags left out, could hold after a power cut, besides what it holds now.
    pub(super) fn older(&self, block: u64) -> impl Iterator<Item = &[u8]> {
        let place = self.tags.place(block);
        self.cache.iter().flat_map(move |cache| cache.older(place))
    }
}

/// The volatile writes of an area: for each written block, in order, what it held before.
#[derive(Debug)]
struct VolatileWrites {
    /// Entries `first..next` are live; entry `n` stands at `n % CACHE_BLOCKS`.
    first: u64,
    next: u64,
    blocks: Vec<u64>,
    /// Whether the block could not be read before.
    unreadable: Vec<bool>,
    /// The end of the entries that found one unreadable.
    unreadable_end: u64,
    old: Vec<u8>,
    block_bytes: usize,
    /// For each block the end of the entries that a write with forced unit access has settled.
    settled: Vec<u64>,
    /// For each block the end of its entries.
    newest: Vec<u64>,
}

impl VolatileWrites {
    fn new(blocks: usize, block_bytes: usize) -> Self {
        Self {
            first: 0,
            next: 0,
            blocks: Vec::new(),
            unreadable: Vec::new(),
            unreadable_end: 0,
            old: Vec::new(),
            block_bytes,
            settled: vec![0; blocks],
            newest: vec![0; blocks],
        }
    }

    fn push(&mut self, block: u64, old: &[u8], was_unreadable: bool) {
        let place = (self.next % CACHE_BLOCKS as u64) as usize;
        if place >= self.blocks.len() {
            self.blocks.resize(place + 1, 0);
            self.unreadable.resize(place + 1, false);
            self.old.resize((place + 1) * self.block_bytes, 0);
        }
        self.first = self.first.max((self.next + 1).saturating_sub(CACHE_BLOCKS as u64));
        self.blocks[place] = block;
        self.unreadable[place] = was_unreadable;
        self.old[place * self.block_bytes..][..self.block_bytes].copy_from_slice(old);
        self.next += 1;
        if was_unreadable {
            self.unreadable_end = self.next;
        }
        self.newest[block as usize] = self.next;
    }

    fn block_of(&self, entry: u64) -> u64 {
        self.blocks[(entry % CACHE_BLOCKS as u64) as usize]
    }

    fn was_unreadable(&self, entry: u64) -> bool {
        self.unreadable[(entry % CACHE_BLOCKS as u64) as usize]
    }

    fn old_of(&self, entry: u64) -> &[u8] {
        let place = (entry % CACHE_BLOCKS as u64) as usize;
        &self.old[place * self.block_bytes..][..self.block_bytes]
    }

    fn settle(&mut self, block: u64) {
        self.settled[block as usize] = self.next;
    }

    /// Blocks that live entries have found unreadable.
    fn unreadable_before(&self) -> impl Iterator<Item = u64> {
        let live = self.first..self.next.min(self.unreadable_end);
        let found = live.map(|entry| (entry, self.block_of(entry)));
        let is_live = |it: &(u64, u64)| self.was_unreadable(it.0) && it.0 >= self.settled[it.1 as usize];
        found.filter(is_live).map(|it| it.1)
    }

    fn older(&self, block: u64) -> impl Iterator<Item = &[u8]> {
        let from = self.first.max(self.settled[block as usize]);
        let to = self.newest[block as usize].max(from);
        let is_of_block = move |entry: &u64| self.block_of(*entry) == block && !self.was_unreadable(*entry);
        (from..to).filter(is_of_block).map(|entry| self.old_of(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> AreaBytes {
        AreaBytes::new(vec![0; 4 * 512], BlockSize::B512, MemberCache::On)
    }

    fn older(area: &AreaBytes, block: u64) -> Vec<u8> {
        area.older(block).map(|bytes| bytes[0]).collect()
    }

    #[test]
    fn a_write_is_volatile_until_a_flush_asked_for_after_it() {
        let mut area = area();
        area.write(1, 2, false).fill(1);
        let mark = area.mark();
        area.write(2, 1, false).fill(2);
        assert_eq!((older(&area, 1), older(&area, 2)), (vec![0], vec![0, 1]));
        area.flush(mark);
        assert_eq!((older(&area, 1), older(&area, 2)), (vec![], vec![1]));
        assert_eq!(area.block(2)[0], 2);
    }

    #[test]
    fn forced_unit_access_settles_its_own_blocks() {
        let mut area = area();
        area.write(0, 4, false).fill(1);
        area.write(1, 1, true).fill(2);
        assert_eq!((older(&area, 0), older(&area, 1)), (vec![0], vec![]));
        area.write(1, 1, false).fill(3);
        assert_eq!(older(&area, 1), [2]);
    }

    #[test]
    fn a_full_cache_makes_its_oldest_writes_durable() {
        let mut area = area();
        area.write(3, 1, false).fill(1);
        for value in 0..CACHE_BLOCKS {
            area.write(0, 1, false).fill(value as u8);
        }
        assert!(older(&area, 3).is_empty());
        assert_eq!(older(&area, 0).len(), CACHE_BLOCKS);
    }

    #[test]
    fn what_is_suspect_can_be_read_and_counts_as_missing_until_it_is_written_or_trusted() {
        let mut area = area();
        area.spoil(0);
        (0..3).for_each(|block| area.suspect(block));
        assert!(area.read(0, 1).is_none(), "what can't be read is no better for being suspect");
        assert!(area.read(1, 2).is_some() && area.is_spoiled(1, 1) && area.is_spoiled(2, 1));
        area.write(1, 1, true).fill(1);
        assert!(!area.is_spoiled(1, 1));
        area.suspect(1);
        area.trust(|place| place == 2);
        assert!(!area.is_spoiled(1, 1) && area.is_spoiled(2, 1) && area.is_any_spoiled());
        area.write(0, 1, true).fill(1);
        assert!(area.is_spoiled(2, 1) && !area.is_any_spoiled(), "power may be cut");
    }

    /// After a cut a block holds what it held, or what one of its live entries kept; and all of these come up.
    #[test]
    fn a_power_cut_leaves_one_of_the_versions_since_the_last_flush() {
        let mut seen = [false; 4];
        for seed in 0..200 {
            let mut area = area();
            area.write(0, 1, false).fill(1);
            area.flush(area.mark());
            area.write(0, 1, false).fill(2);
            area.write(1, 1, false).fill(9);
            area.write(0, 1, false).fill(3);
            area.lose_power(&mut Rng::new(seed));
            seen[usize::from(area.block(0)[0])] = true;
            assert!([0, 9].contains(&area.block(1)[0]));
            assert!(older(&area, 0).is_empty());
        }
        assert_eq!(seen, [false, true, true, true]);
    }

    #[test]
    fn a_spoiled_block_reads_again_when_written() {
        let mut area = area();
        area.spoil(2);
        assert!(area.read(1, 2).is_none());
        assert!(area.read(0, 2).is_some());
        area.write(2, 1, false).fill(7);
        assert_eq!(area.read(2, 1), Some(&[7; 512][..]));
    }
}
