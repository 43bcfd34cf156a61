//! Tags on the world's devices: where they stand, whether they agree with their blocks, and which strips are known to be corrupt.
//!
//! ```text
//! what the layout sees    | strip 0    | strip 1    | ...          "block": counted without tags
//! data area               | strip 0    | t | strip 1    | t | ...  "place": counted with them
//! ```
//! A strip is corrupt from the moment a fault makes its data and tags disagree. It stays so until they are seen to agree
//! while no write to it is in flight. A difference in any other strip is a write of which only half has arrived.
//!
//! Computed independently of the controller, except for the tag itself, which is part of the format
//! (`raidlab_format::tag`).

use super::members::AreaBytes;
use raidlab_controller::ArrayConfig;
use raidlab_format::{NO_TAG, TAG_BYTES, row_checksum, tag, tag_blocks};
use raidlab_units::{BlockCount, MemberIndex, MemberLba};
use std::collections::BTreeMap;

/// Where tags stand in an area.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagMap {
    strip_blocks: u64,
    /// Behind each strip; 0 where there are none.
    tag_blocks: u64,
    block_bytes: usize,
}

impl TagMap {
    /// For the data areas of an array.
    pub(super) fn new(config: &ArrayConfig) -> Self {
        let block_bytes = config.block_size.bytes();
        let strip_blocks = config.strip_size.0 / block_bytes;
        let tags = tag_blocks(BlockCount(strip_blocks), config.block_size).0;
        let tag_blocks = if config.resilience.integrity { tags } else { 0 };
        Self { strip_blocks, tag_blocks, block_bytes: block_bytes as usize }
    }

    /// For an area without tags.
    pub(super) const fn none(block_bytes: usize) -> Self {
        Self { strip_blocks: 1, tag_blocks: 0, block_bytes }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.tag_blocks > 0
    }

    /// Blocks of a strip.
    pub(super) const fn strip_blocks(&self) -> u64 {
        self.strip_blocks
    }

    /// Places that a strip takes with its tags.
    pub(super) const fn pitch(&self) -> u64 {
        self.strip_blocks + self.tag_blocks
    }

    /// Where a block stands.
    pub(super) const fn place(&self, block: u64) -> u64 {
        block / self.strip_blocks * self.pitch() + block % self.strip_blocks
    }

    /// The block that stands at a place; none in tags.
    pub(super) const fn block(&self, place: u64) -> Option<u64> {
        if self.is_tag(place) {
            return None;
        }
        Some(self.strip(place) * self.strip_blocks + place % self.pitch())
    }

    /// True if tags stand at a place.
    pub(super) const fn is_tag(&self, place: u64) -> bool {
        place % self.pitch() >= self.strip_blocks
    }

    /// The strip that a place belongs to, or its tags.
    pub(super) const fn strip(&self, place: u64) -> u64 {
        place / self.pitch()
    }

    /// Where the tags of a block stand, and where in that its own begins.
    pub(super) const fn tag_place(&self, block: u64) -> (u64, usize) {
        let byte = (block % self.strip_blocks) as usize * TAG_BYTES;
        let first = block / self.strip_blocks * self.pitch() + self.strip_blocks;
        (first + (byte / self.block_bytes) as u64, byte % self.block_bytes)
    }

    const fn tag_range(&self, block: u64) -> core::ops::Range<usize> {
        let (place, byte) = self.tag_place(block);
        let start = place as usize * self.block_bytes + byte;
        start..start + TAG_BYTES
    }

    /// Puts a block and its tag into an area.
    pub(super) fn put(&self, area: &mut [u8], role: MemberIndex, block: u64, content: &[u8]) {
        let start = self.place(block) as usize * self.block_bytes;
        area[start..start + self.block_bytes].copy_from_slice(content);
        if self.is_on() {
            let tag = tag(row_checksum(content), role, MemberLba(block));
            area[self.tag_range(block)].copy_from_slice(&tag.to_le_bytes());
        }
    }

    /// True if all blocks of a strip have tags of their own, and some are not zeros: the array has recorded that it is written.
    fn is_written(&self, area: &[u8], strip: u64) -> bool {
        let places = strip * self.pitch()..strip * self.pitch() + self.strip_blocks;
        let content = &area[places.start as usize * self.block_bytes..places.end as usize * self.block_bytes];
        let mut blocks = strip * self.strip_blocks..(strip + 1) * self.strip_blocks;
        content.iter().any(|byte| *byte != 0)
            && blocks.all(|block| area[self.tag_range(block)] != [0; TAG_BYTES])
    }

    /// True if the tag of a block is the one that its content should have; a tag of zeros only where `zeros_fit`.
    fn agrees(&self, area: &[u8], role: MemberIndex, block: u64, zeros_fit: bool) -> bool {
        let start = self.place(block) as usize * self.block_bytes;
        let content = &area[start..start + self.block_bytes];
        let held = u64::from_le_bytes(area[self.tag_range(block)].try_into().expect("as long as a tag"));
        let is_unwritten = zeros_fit && held == 0 && content.iter().all(|byte| *byte == 0);
        is_unwritten || held == tag(row_checksum(content), role, MemberLba(block))
    }
}

/// A strip whose data or tags are not what was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Lie {
    role: MemberIndex,
    is_in_tags: bool,
    /// Blocks became zeros together with their tags, where zeros are known to have been written over.
    is_zeroed: bool,
}

/// What lies in an area.
#[derive(Debug, Default)]
pub(super) struct Corruption {
    strips: BTreeMap<u64, Lie>,
    /// What should stand at a place of data that lies.
    truths: BTreeMap<u64, Vec<u8>>,
}

impl Corruption {
    pub(super) fn is_empty(&self) -> bool {
        self.strips.is_empty()
    }

    /// Notes that a place is written as it should be.
    pub(super) fn heal(&mut self, place: u64) {
        self.truths.remove(&place);
    }

    pub(super) fn names(&self, strip: u64) -> bool {
        self.strips.contains_key(&strip)
    }

    pub(super) fn add(&mut self, strip: u64, role: MemberIndex, is_in_tags: bool) {
        let lie = Lie { role, is_in_tags, is_zeroed: false };
        self.strips.entry(strip).or_insert(lie).is_in_tags |= is_in_tags;
    }

    /// Notes that a range of a written strip becomes zeros.
    pub(super) fn add_zeroed(&mut self, strip: u64, role: MemberIndex) {
        self.strips.insert(strip, Lie { role, is_in_tags: true, is_zeroed: true });
    }

    fn zeros_fit(&self, strip: u64) -> bool {
        self.strips.get(&strip).is_none_or(|lie| !lie.is_zeroed)
    }

    pub(super) fn add_truth(&mut self, place: u64, truth: Vec<u8>) {
        self.truths.insert(place, truth);
    }

    /// The strips that lie, each with the role that its tags are for.
    pub(super) fn strips(&self) -> Vec<(u64, MemberIndex)> {
        self.strips.iter().map(|(strip, lie)| (*strip, lie.role)).collect()
    }

    /// Forgets a strip, whose places are `places`.
    pub(super) fn forget(&mut self, strip: u64, places: core::ops::Range<u64>) {
        self.strips.remove(&strip);
        self.truths.retain(|place, _| !places.contains(place));
    }

    /// Forgets all: another device is at this place, or the array takes it for one.
    pub(super) fn clear(&mut self) {
        self.strips.clear();
        self.truths.clear();
    }
}

impl AreaBytes {
    /// True if a block agrees with its tag.
    pub(super) fn agrees(&self, role: MemberIndex, block: u64) -> bool {
        let zeros_fit = self.corruption.zeros_fit(block / self.tags.strip_blocks);
        self.tags.agrees(self.bytes(), role, block, zeros_fit)
    }

    /// Blocks whose tags say that they are not known, as far as these can be read.
    pub(super) fn unknown_tags(&self) -> impl Iterator<Item = u64> {
        let strips = self.bytes().len() as u64 / (self.tags.pitch() * self.tags.block_bytes as u64);
        let blocks = 0..if self.tags.is_on() { strips * self.tags.strip_blocks } else { 0 };
        blocks.filter(|block| {
            let (place, _) = self.tags.tag_place(*block);
            self.bytes()[self.tags.tag_range(*block)] == NO_TAG.to_le_bytes()
                && !self.is_any_unreadable(place..place + 1)
        })
    }

    /// True if the array has recorded that a strip is written, and it holds something.
    pub(super) fn is_written(&self, strip: u64) -> bool {
        self.tags.is_written(self.bytes(), strip)
    }

    /// True if a block is in a strip that lies and disagrees with its tag.
    pub(super) fn is_corrupt(&self, block: u64) -> bool {
        let lie = self.corruption.strips.get(&(block / self.tags.strip_blocks));
        lie.is_some_and(|lie| !self.agrees(lie.role, block))
    }

    /// True if a block can be read with its tag, and agrees with it, although the array may have reason not to use it.
    pub(super) fn can_be_read(&self, role: MemberIndex, block: u64) -> bool {
        let has = |place| self.read(place, 1).is_some();
        let has_tag = || has(self.tags.tag_place(block).0) && self.agrees(role, block);
        has(self.tags.place(block)) && (!self.tags.is_on() || has_tag())
    }

    /// True if all blocks of a strip can be read, none is suspect, and they agree with their tags.
    pub(super) fn is_sound(&self, strip: u64, role: MemberIndex) -> bool {
        let places = strip * self.tags.pitch()..(strip + 1) * self.tags.pitch();
        let mut blocks = strip * self.tags.strip_blocks..(strip + 1) * self.tags.strip_blocks;
        !self.is_any_unreadable(places) && blocks.all(|block| self.agrees(role, block))
    }

    /// Forgets that a strip lies.
    pub(super) fn forget_corruption(&mut self, strip: u64) {
        let pitch = self.tags.pitch();
        self.corruption.forget(strip, strip * pitch..(strip + 1) * pitch);
    }

    /// Puts the truth in the place of all lies, for good. Tags that can't be read stay so.
    pub(super) fn undo_corruption(&mut self) {
        for (place, truth) in core::mem::take(&mut self.corruption.truths) {
            self.put(place, &truth);
        }
        for (strip, lie) in core::mem::take(&mut self.corruption.strips) {
            for block in strip * self.tags.strip_blocks..(strip + 1) * self.tags.strip_blocks {
                if lie.is_in_tags && (lie.is_zeroed || !self.agrees(lie.role, block)) {
                    let (place, byte) = self.tags.tag_place(block);
                    let tag = tag(row_checksum(self.block(block)), lie.role, MemberLba(block));
                    let mut content = self.at(place).to_vec();
                    content[byte..byte + TAG_BYTES].copy_from_slice(&tag.to_le_bytes());
                    self.put(place, &content);
                }
            }
            if self.is_any_tag_unreadable(strip) {
                self.corruption.strips.insert(strip, lie);
            }
        }
    }

    /// True if some of a strip's tags can't be read.
    fn is_any_tag_unreadable(&self, strip: u64) -> bool {
        let end = (strip + 1) * self.tags.pitch();
        let tag_places = end - (self.tags.pitch() - self.tags.strip_blocks());
        self.is_any_unreadable(tag_places..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_controller::MemberCache;
    use raidlab_units::BlockSize;

    const MAP: TagMap = TagMap { strip_blocks: 100, tag_blocks: 2, block_bytes: 512 };

    #[test]
    fn places_and_blocks_are_each_others_inverse() {
        for block in 0..300 {
            let place = MAP.place(block);
            assert_eq!((MAP.block(place), MAP.strip(place)), (Some(block), block / 100));
            let (tag_place, byte) = MAP.tag_place(block);
            assert_eq!((MAP.block(tag_place), MAP.strip(tag_place)), (None, block / 100));
            assert_eq!(tag_place * 512 + byte as u64, (block / 100 * 102 + 100) * 512 + block % 100 * 8);
        }
    }

    /// Data lied first, then tags could not be read: what was written of them since is put right with the rest.
    #[test]
    fn lies_in_data_and_in_tags_are_both_undone() {
        let (role, block) = (MemberIndex(3), 70);
        let mut bytes = vec![0; 102 * 512];
        (0..100).for_each(|block| MAP.put(&mut bytes, role, block, &[block as u8 + 1; 512]));
        let mut area = AreaBytes::new(bytes, BlockSize::B512, MemberCache::On).with_tags(MAP);
        area.corruption.add(0, role, false);
        area.corruption.add_truth(MAP.place(block), vec![block as u8 + 1; 512]);
        area.put(MAP.place(block), &[9; 512]);
        area.corruption.add(0, role, true);
        area.put(MAP.tag_place(0).0, &[9; 512]);
        area.undo_corruption();
        assert!(area.is_sound(0, role));
    }

    #[test]
    fn only_strips_on_the_list_lie_and_undoing_puts_back_what_was_there() {
        let (role, block) = (MemberIndex(3), 70);
        let mut bytes = vec![0; 102 * 512];
        (0..100).for_each(|block| MAP.put(&mut bytes, role, block, &[block as u8 + 1; 512]));
        let mut area = AreaBytes::new(bytes.clone(), BlockSize::B512, MemberCache::On).with_tags(MAP);
        assert!(area.is_sound(0, role) && !area.is_sound(0, MemberIndex(2)));
        for place in [MAP.place(block), MAP.tag_place(block).0] {
            area.put(place, &[9; 512]);
            assert!(!area.agrees(role, block) && !area.is_corrupt(block) && !area.is_spoiled(block, 1));
            area.corruption.add(0, role, MAP.is_tag(place));
            if !MAP.is_tag(place) {
                area.corruption.add_truth(place, vec![block as u8 + 1; 512]);
            }
            assert!(area.is_spoiled(block, 1) && area.is_spoiled(block - 1, 2));
            area.undo_corruption();
            assert!(area.is_sound(0, role) && !area.is_spoiled(block, 1));
        }
        assert_eq!(area.bytes()[..100 * 512], bytes[..100 * 512]);
        assert!(!area.corruption.names(0));
        area.spoil(MAP.tag_place(block).0);
        area.corruption.add(0, role, true);
        area.undo_corruption();
        assert!(area.corruption.names(0), "tags that can't be read are not put right");
    }

    #[test]
    fn zeros_where_something_was_written_agree_with_nothing() {
        let role = MemberIndex(1);
        let mut bytes = vec![0; 204 * 512];
        // One of the blocks is of zeros, with a tag of its own.
        (0..100).for_each(|block| MAP.put(&mut bytes, role, block, &[block as u8; 512]));
        let mut area = AreaBytes::new(bytes.clone(), BlockSize::B512, MemberCache::On).with_tags(MAP);
        assert!(area.is_written(0) && !area.is_written(1));
        area.corruption.add_zeroed(0, role);
        for place in 0..102 {
            if !MAP.is_tag(place) {
                let truth = area.at(place).to_vec();
                area.corruption.add_truth(place, truth);
            }
            area.put(place, &[0; 512]);
        }
        assert!((0..100).all(|block| area.is_corrupt(block)));
        assert!(area.agrees(role, 150), "nobody has written there");
        area.undo_corruption();
        assert!(area.bytes() == bytes, "tags of zeros are back, too");
    }
}
