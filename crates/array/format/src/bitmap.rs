//! The write-intent bitmap: a bit for each region of stripes whose redundancy may disagree after a crash.
//!
//! A slot is 8 independent sectors of 512 bytes, because a device may write only some of them:
//! ```text
//!  0 seal, 16 bytes: magic "RAIDMAP\n", version, which sector (0..8), CRC32C of the 512 bytes
//! 16 sequence    u64       counts the writes of the bitmap
//! 24 array_uuid  16 bytes
//! 40 bits        59 words of 64 bits; region r is bit r mod 64 of word r / 64, counted over all 8 sectors
//! ```
//! Volumes of any size share the 30208 bits: the region's size follows from the number of stripes.
//!
//! A reader takes, for each sector, the valid copy with the highest sequence from both slots of every device in sync. A
//! sector without a valid copy is all dirty. Copies with equal sequences are the same unless a start was interrupted;
//! then a region is marked if any of them marks it.
//!
//! Invariant: bits beyond the last region are 0. A sector with such a bit was not written by us, and is invalid.

use crate::area::BITMAP_BYTES;
use crate::error::{DecodeError, Part};
use crate::identity::ArrayUuid;
use crate::seal::{COUNTERS_END, SEAL_BYTES, aux, check_length, open, put, seal, take, u64_at};
use core::ops::Range;
use raidlab_units::{StripeCount, StripeIndex};

/// Length of a sector of the bitmap.
pub const SECTOR_BYTES: usize = 512;
/// Sectors in a slot.
pub const SECTORS: usize = BITMAP_BYTES / SECTOR_BYTES;
/// The most regions of a volume.
pub const REGIONS_MAX: usize = SECTORS * SECTOR_WORDS * 64;

const SEQUENCE_AT: usize = SEAL_BYTES;
const UUID_AT: usize = 24;
const BITS_AT: usize = 40;
const SECTOR_WORDS: usize = (SECTOR_BYTES - BITS_AT) / 8;
const WORDS: usize = SECTORS * SECTOR_WORDS;
const _: () = assert!(BITS_AT + SECTOR_WORDS * 8 == SECTOR_BYTES);
const _: () = assert!(REGIONS_MAX == 30208);

/// Number of a region, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionIndex(pub u16);

impl RegionIndex {
    const fn word(self) -> usize {
        self.0 as usize / 64
    }

    const fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }

    /// The sector that holds the region's bit.
    pub const fn sector(self) -> usize {
        self.word() / SECTOR_WORDS
    }
}

/// Which regions of a volume's stripes are marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionMap {
    stripes: StripeCount,
    stripes_per_region: u64,
    regions: u16,
    words: Box<[u64; WORDS]>,
}

impl RegionMap {
    /// Returns the map of a volume of `stripes` stripes, with no region marked.
    pub fn new(stripes: StripeCount) -> Self {
        Self::with_regions_of(stripes, StripeCount(1))
    }

    /// The same with at least `stripes_per_region` stripes in a region: more where the map has too few bits for that.
    pub fn with_regions_of(stripes: StripeCount, stripes_per_region: StripeCount) -> Self {
        let least = stripes.0.div_ceil(REGIONS_MAX as u64);
        let stripes_per_region = least.max(stripes_per_region.0).max(1);
        let regions = stripes.0.div_ceil(stripes_per_region) as u16;
        Self { stripes, stripes_per_region, regions, words: Box::new([0; WORDS]) }
    }

    /// The map of the same regions with none of them marked.
    #[must_use]
    pub fn cleared(&self) -> Self {
        Self { words: Box::new([0; WORDS]), ..*self }
    }

    /// Stripes of the volume.
    pub const fn stripes(&self) -> StripeCount {
        self.stripes
    }

    /// Stripes of every region; the last may have fewer.
    pub const fn stripes_per_region(&self) -> StripeCount {
        StripeCount(self.stripes_per_region)
    }

    /// Regions of the volume, at most [`REGIONS_MAX`].
    pub const fn regions(&self) -> u16 {
        self.regions
    }

    /// The region of a stripe, which must be within the volume.
    ///
    /// # Panics
    /// If the stripe is beyond the volume.
    pub fn region_of(&self, stripe: StripeIndex) -> RegionIndex {
        assert!(stripe.0 < self.stripes.0, "stripe {stripe} is beyond the volume's {} stripes", self.stripes);
        RegionIndex((stripe.0 / self.stripes_per_region) as u16)
    }

    /// The stripes of a region, which must be one of the volume's (asserted).
    pub fn stripes_of(&self, region: RegionIndex) -> Range<StripeIndex> {
        self.assert_within(region);
        let start = u64::from(region.0) * self.stripes_per_region;
        let end = start.saturating_add(self.stripes_per_region).min(self.stripes.0);
        StripeIndex(start)..StripeIndex(end)
    }

    fn assert_within(&self, region: RegionIndex) {
        assert!(region.0 < self.regions, "region {} is beyond the volume's {}", region.0, self.regions);
    }

    /// Marks a region; returns whether it was not marked before.
    pub fn mark(&mut self, region: RegionIndex) -> bool {
        self.assert_within(region);
        let before = self.words[region.word()];
        self.words[region.word()] |= region.bit();
        before & region.bit() == 0
    }

    /// Clears a region; returns whether it was marked before.
    pub fn clear(&mut self, region: RegionIndex) -> bool {
        self.assert_within(region);
        let before = self.words[region.word()];
        self.words[region.word()] &= !region.bit();
        before & region.bit() != 0
    }

    /// Whether a region is marked.
    pub fn is_marked(&self, region: RegionIndex) -> bool {
        self.assert_within(region);
        self.words[region.word()] & region.bit() != 0
    }

    /// Clears every region that is not marked in `other`, a map of the same volume.
    ///
    /// # Panics
    /// If the other is a map of another volume.
    pub fn keep_only(&mut self, other: &Self) {
        assert_eq!(self.stripes, other.stripes, "both are maps of one volume");
        self.words.iter_mut().zip(other.words.iter()).for_each(|(word, other)| *word &= other);
    }

    /// Marks every region.
    pub fn mark_all(&mut self) {
        (0..SECTORS).for_each(|sector| self.mark_sector(sector));
    }

    /// Marks every region whose bit is in `sector`.
    fn mark_sector(&mut self, sector: usize) {
        for word in sector * SECTOR_WORDS..(sector + 1) * SECTOR_WORDS {
            self.words[word] = self.used_bits(word);
        }
    }

    /// The bits of `word` that stand for regions of the volume.
    fn used_bits(&self, word: usize) -> u64 {
        match usize::from(self.regions).saturating_sub(word * 64) {
            used if used >= 64 => u64::MAX,
            used => (1 << used) - 1,
        }
    }

    /// Whether no region is marked.
    pub fn is_clear(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many regions are marked.
    pub fn marked_count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The first marked region at or after `from`.
    pub fn next_marked(&self, from: RegionIndex) -> Option<RegionIndex> {
        let mut word = from.word();
        let mut bits = self.words.get(word)? & (u64::MAX << (from.0 % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(RegionIndex((word * 64) as u16 + bits.trailing_zeros() as u16))
    }

    /// Writes a slot over `out`, which must be [`BITMAP_BYTES`] long. `sequence` must be higher
    /// than that of every bitmap of the array before it.
    ///
    /// # Panics
    /// If `out` is not `BITMAP_BYTES` long.
    pub fn encode(&self, array_uuid: ArrayUuid, sequence: u64, out: &mut [u8]) {
        assert_eq!(out.len(), BITMAP_BYTES, "a bitmap slot has its own length");
        for (sector, bytes) in out.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            self.encode_sector(sector, array_uuid, sequence, bytes);
        }
    }

    /// Writes one of the [`SECTORS`] over `out`, which must be [`SECTOR_BYTES`] long (both are asserted).
    ///
    /// # Panics
    /// If there is no such sector, or `out` is not one long.
    pub fn encode_sector(&self, sector: usize, array_uuid: ArrayUuid, sequence: u64, out: &mut [u8]) {
        assert!(sector < SECTORS, "a slot has {SECTORS} sectors");
        assert_eq!(out.len(), SECTOR_BYTES, "a sector has its own length");
        assert!(sequence < COUNTERS_END, "a sequence is below 2^63");
        put(out, SEQUENCE_AT, sequence.to_le_bytes());
        put(out, UUID_AT, array_uuid.0);
        let words = &self.words[sector * SECTOR_WORDS..(sector + 1) * SECTOR_WORDS];
        for (at, word) in words.iter().enumerate() {
            put(out, BITS_AT + at * 8, word.to_le_bytes());
        }
        seal(out, Part::BitmapSector, sector as u16);
    }

    /// Reads the map of a volume of `stripes` stripes from any number of slots; a slot that is too short has
    /// no valid sector.
    pub fn decode_newest<'a>(
        stripes: StripeCount,
        array_uuid: ArrayUuid,
        slots: impl IntoIterator<Item = &'a [u8]>,
    ) -> FoundMap {
        let mut map = Self::new(stripes);
        let mut newest: [Option<u64>; SECTORS] = [None; SECTORS];
        for slot in slots {
            for (sector, bytes) in slot.chunks_exact(SECTOR_BYTES).take(SECTORS).enumerate() {
                let Ok(sequence) = check_sector(bytes, sector, array_uuid) else { continue };
                if newest[sector] <= Some(sequence) && map.fits(sector, bytes) {
                    map.take_sector(sector, bytes, newest[sector] == Some(sequence));
                    newest[sector] = Some(sequence);
                }
            }
        }
        let invalid = (0..SECTORS).filter(|sector| newest[*sector].is_none());
        let invalid_sectors = invalid.inspect(|sector| map.mark_sector(*sector)).count();
        FoundMap { map, sequence: newest.into_iter().flatten().max(), invalid_sectors }
    }

    /// Whether no bit of a sector is set that stands for no region.
    fn fits(&self, sector: usize, bytes: &[u8]) -> bool {
        sector_words(sector, bytes).all(|(word, bits)| bits & !self.used_bits(word) == 0)
    }

    /// Takes over the bits of a valid sector that fits, together with those known before or in their place.
    fn take_sector(&mut self, sector: usize, bytes: &[u8], together: bool) {
        for (word, bits) in sector_words(sector, bytes) {
            self.words[word] = if together { self.words[word] | bits } else { bits };
        }
    }
}

/// The words of a sector, each with its number in the slot.
fn sector_words(sector: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    (0..SECTOR_WORDS).map(move |at| (sector * SECTOR_WORDS + at, u64_at(bytes, BITS_AT + at * 8)))
}

/// What the slots gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMap {
    /// The newest bits, and all set where there were none.
    pub map: RegionMap,
    /// The highest sequence of a valid sector.
    pub sequence: Option<u64>,
    /// Sectors of which there was no valid copy.
    pub invalid_sectors: usize,
}

/// Checks a sector and returns its sequence.
///
/// # Errors [`DecodeError`] when it is damaged, of an unknown version, not the `sector` that it should be, or
/// of another array.
pub fn check_sector(bytes: &[u8], sector: usize, array_uuid: ArrayUuid) -> Result<u64, DecodeError> {
    const PART: Part = Part::BitmapSector;
    check_length(bytes, PART, SECTOR_BYTES as u64)?;
    let bytes = &bytes[..SECTOR_BYTES];
    open(bytes, PART)?;
    let found = aux(bytes);
    if usize::from(found) != sector {
        return Err(DecodeError::field(PART, "sector", found.into(), "the sector's place in its slot"));
    }
    if take(bytes, UUID_AT) != array_uuid.0 {
        return Err(DecodeError::OtherArray { part: PART, found: ArrayUuid(take(bytes, UUID_AT)) });
    }
    match u64_at(bytes, SEQUENCE_AT) {
        sequence if sequence < COUNTERS_END => Ok(sequence),
        sequence => Err(DecodeError::field(PART, "sequence", sequence, "below 2^63")),
    }
}
