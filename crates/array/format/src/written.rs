//! The map of written regions: which parts of the data areas have been written since the array was made.
//!
//! A tag of zeros fits a block of zeros only where nobody has written. That is recorded here, not guessed from zeros: a bit for each
//! region, which is a run of strips at the same height on all devices. A region goes from unwritten to written and never back, so a
//! reader takes the union of all valid sectors of all devices in sync, and no older copy can take a region back. A new array has valid
//! sectors: one that no device has was lost, and what it doesn't mark is *unknown*, until it is written.
//! ```text
//! slot       | page 0, 4096 bytes | page 1 | ...        two slots; each page has 8 independent sectors of 512 bytes
//! sector      0 seal, 16 bytes: magic "RAIDWRT\n", version, which sector of the slot, CRC32C of the 512 bytes
//!            16 sequence    u64       counts the writes of pages; the highest bit: what is not marked here is unknown
//!            24 array_uuid  16 bytes
//!            40 bits        59 words of 64 bits, counted over all sectors of the slot
//! ```
//! Invariant: bits beyond the last region are 0. Left out: when a region may be marked, which the controller decides.

use crate::error::Part;
use crate::identity::ArrayUuid;
use crate::seal::{COUNTERS_END, SEAL_BYTES, aux, open, put, seal, take, u64_at};
use core::ops::Range;

/// Length of a page.
pub const WRITTEN_PAGE_BYTES: usize = 4096;
/// Regions of a page.
pub const WRITTEN_PAGE_REGIONS: u64 = (PAGE_SECTORS * SECTOR_WORDS * 64) as u64;

/// The version that first kept the map.
pub(crate) const WRITTEN_SINCE_VERSION: u16 = 4;

const SECTOR_BYTES: usize = 512;
const PAGE_SECTORS: usize = WRITTEN_PAGE_BYTES / SECTOR_BYTES;
const SEQUENCE_AT: usize = SEAL_BYTES;
const UUID_AT: usize = 24;
const BITS_AT: usize = 40;
const SECTOR_WORDS: usize = (SECTOR_BYTES - BITS_AT) / 8;
/// In the sequence of a sector that does not know what it doesn't mark.
const UNKNOWN: u64 = COUNTERS_END;

/// Which regions have been written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenMap {
    strips_per_region: u64,
    /// Strips of a device.
    strips: u64,
    words: Vec<u64>,
    /// For each sector, whether what it does not mark is known to be unwritten.
    known: Vec<bool>,
}

impl WrittenMap {
    /// A map of devices with so many strips in a slot of `slot_bytes`, whole pages; nothing is known of any. None if there is no page.
    pub fn new(strips: u64, slot_bytes: u64) -> Option<Self> {
        let pages = slot_bytes / WRITTEN_PAGE_BYTES as u64;
        let strips_per_region = strips.div_ceil((pages * WRITTEN_PAGE_REGIONS).max(1)).max(1);
        let sectors = pages as usize * PAGE_SECTORS;
        let (words, known) = (vec![0; sectors * SECTOR_WORDS], vec![false; sectors]);
        (pages > 0).then_some(Self { strips_per_region, strips, words, known })
    }

    /// Takes what is not marked for unwritten, all over.
    pub fn know_all(&mut self) {
        self.known.fill(true);
    }

    /// True if the region may have been written, and nothing says so.
    #[inline]
    pub fn is_unknown(&self, region: u64) -> bool {
        let sector = (region / (64 * SECTOR_WORDS as u64)) as usize;
        self.known.get(sector).is_some_and(|is_known| !is_known) && !self.is_marked(region)
    }

    /// True if some region is unknown.
    pub fn any_unknown(&self) -> bool {
        (0..self.known.len()).filter(|sector| !self.known[*sector]).any(|sector| {
            let first = (sector * SECTOR_WORDS * 64) as u64;
            (first..self.regions().min(first + SECTOR_WORDS as u64 * 64))
                .any(|region| !self.is_marked(region))
        })
    }

    /// The region of a strip.
    #[inline]
    pub fn region_of(&self, strip: u64) -> u64 {
        if self.strips_per_region == 1 { strip } else { strip / self.strips_per_region }
    }

    /// The strips of a region.
    pub fn strips_of(&self, region: u64) -> Range<u64> {
        let first = region * self.strips_per_region;
        first..(first + self.strips_per_region).min(self.strips)
    }

    /// True if the region has been written.
    #[inline]
    pub fn is_marked(&self, region: u64) -> bool {
        self.words.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// Notes that the region is written. A region beyond the last changes nothing.
    pub fn mark(&mut self, region: u64) {
        if region < self.regions()
            && let Some(word) = self.words.get_mut((region / 64) as usize)
        {
            *word |= 1 << (region % 64);
        }
    }

    /// True if all regions have been written.
    pub fn is_full(&self) -> bool {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == self.regions()
    }

    fn regions(&self) -> u64 {
        self.strips.div_ceil(self.strips_per_region)
    }

    /// How many pages a slot has.
    pub fn pages(&self) -> u64 {
        (self.words.len() / (PAGE_SECTORS * SECTOR_WORDS)) as u64
    }

    /// The page that has the bit of a region.
    pub const fn page_of(region: u64) -> u64 {
        region / WRITTEN_PAGE_REGIONS
    }

    /// True if some region of the page is written.
    pub fn is_page_marked(&self, page: u64) -> bool {
        self.page_words(page).iter().any(|word| *word != 0)
    }

    /// True if something is known of the page.
    pub fn is_page_known(&self, page: u64) -> bool {
        let first = page as usize * PAGE_SECTORS;
        self.is_page_marked(page) || self.known[first..first + PAGE_SECTORS].contains(&true)
    }

    fn page_words(&self, page: u64) -> &[u64] {
        let each = PAGE_SECTORS * SECTOR_WORDS;
        &self.words[page as usize * each..(page as usize + 1) * each]
    }

    /// Writes a page, in which `also` are marked, too. `out` has its length.
    ///
    /// # Panics
    /// If `out` is not `WRITTEN_PAGE_BYTES` long.
    pub fn encode_page(&self, page: u64, also: &[u64], uuid: ArrayUuid, sequence: u64, out: &mut [u8]) {
        assert_eq!(out.len(), WRITTEN_PAGE_BYTES, "a page has its own length");
        assert!(sequence < COUNTERS_END, "a sequence is below 2^63");
        out.fill(0);
        let words = self.page_words(page).chunks_exact(SECTOR_WORDS);
        for (sector, (bytes, words)) in out.chunks_exact_mut(SECTOR_BYTES).zip(words).enumerate() {
            let number = page as usize * PAGE_SECTORS + sector;
            let flag = if self.known[number] { 0 } else { UNKNOWN };
            put(bytes, SEQUENCE_AT, (sequence | flag).to_le_bytes());
            put(bytes, UUID_AT, uuid.0);
            for (at, word) in words.iter().enumerate() {
                let first = ((number * SECTOR_WORDS + at) * 64) as u64;
                let also = also.iter().filter(|region| (first..first + 64).contains(*region));
                let word = also.fold(*word, |word, region| word | 1 << (region - first));
                put(bytes, BITS_AT + at * 8, word.to_le_bytes());
            }
            seal(bytes, Part::WrittenSector, number as u16);
        }
    }

    /// Writes the slot of a new array; `out` has its length.
    pub fn encode_slot(&self, uuid: ArrayUuid, sequence: u64, out: &mut [u8]) {
        for (page, bytes) in (0..).zip(out.chunks_exact_mut(WRITTEN_PAGE_BYTES)) {
            self.encode_page(page, &[], uuid, sequence, bytes);
        }
    }

    /// Marks what a slot says, as far as its sectors are valid and of the array. Returns the highest sequence found.
    pub fn join(&mut self, slot: &[u8], uuid: ArrayUuid) -> Option<u64> {
        let mut newest = None;
        let sectors = self.words.len() / SECTOR_WORDS;
        for (sector, bytes) in slot.chunks_exact(SECTOR_BYTES).take(sectors).enumerate() {
            let is_valid = open(bytes, Part::WrittenSector).is_ok()
                && usize::from(aux(bytes)) == sector
                && take(bytes, UUID_AT) == uuid.0;
            if !is_valid {
                continue;
            }
            newest = newest.max(Some(u64_at(bytes, SEQUENCE_AT) & !UNKNOWN));
            self.known[sector] |= u64_at(bytes, SEQUENCE_AT) & UNKNOWN == 0;
            for at in 0..SECTOR_WORDS {
                let first = (sector * SECTOR_WORDS + at) * 64;
                let used = self.regions().saturating_sub(first as u64).min(64);
                let mask = if used == 64 { u64::MAX } else { (1 << used) - 1 };
                self.words[first / 64] |= u64_at(bytes, BITS_AT + at * 8) & mask;
            }
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: ArrayUuid = ArrayUuid([7; 16]);

    #[test]
    fn pages_are_read_back_as_a_union() {
        let strips = 2 * WRITTEN_PAGE_REGIONS + 5;
        let mut map = WrittenMap::new(strips, 3 * WRITTEN_PAGE_BYTES as u64).expect("it has pages");
        map.mark(3);
        let (mut old, mut new) = (vec![0; 3 * WRITTEN_PAGE_BYTES], vec![0; 3 * WRITTEN_PAGE_BYTES]);
        map.encode_page(0, &[], UUID, 4, &mut old[..WRITTEN_PAGE_BYTES]);
        map.encode_page(2, &[2 * WRITTEN_PAGE_REGIONS + 4], UUID, 5, &mut new[2 * WRITTEN_PAGE_BYTES..]);
        let mut found = WrittenMap::new(strips, 3 * WRITTEN_PAGE_BYTES as u64).expect("it has pages");
        assert_eq!(found.join(&new, UUID), Some(5));
        assert_eq!(found.join(&old, UUID), Some(4));
        assert_eq!(found.join(&old, ArrayUuid([8; 16])), None, "another array's");
        let marked: Vec<_> = (0..strips).filter(|strip| found.is_marked(found.region_of(*strip))).collect();
        assert_eq!(marked, [3, 2 * WRITTEN_PAGE_REGIONS + 4]);
        old[2000] ^= 1;
        let mut damaged = WrittenMap::new(strips, 3 * WRITTEN_PAGE_BYTES as u64).expect("it has pages");
        damaged.join(&old, UUID);
        assert!(damaged.is_marked(3), "sectors are independent");
        assert!(!damaged.is_marked(4));
    }

    /// Defect: where all devices had lost the map, what it had marked counted as unwritten.
    #[test]
    fn what_no_device_says_is_unknown_and_stays_so() {
        let slot_bytes = 2 * WRITTEN_PAGE_BYTES as u64;
        let new = || WrittenMap::new(2 * WRITTEN_PAGE_REGIONS, slot_bytes).expect("it has pages");
        let mut empty = new();
        empty.know_all();
        let mut slot = vec![0; slot_bytes as usize];
        empty.encode_slot(UUID, 0, &mut slot);
        let mut found = new();
        assert_eq!(found.join(&slot, UUID), Some(0));
        assert!(!found.any_unknown(), "a new array knows that nothing is written");
        // The first page is punched on all devices.
        slot[..WRITTEN_PAGE_BYTES].fill(0);
        let mut found = new();
        found.join(&slot, UUID);
        assert!(found.any_unknown() && found.is_unknown(5) && !found.is_unknown(WRITTEN_PAGE_REGIONS));
        assert!(found.is_page_known(1) && !found.is_page_known(0));
        // It is written once more with a mark: the rest of it stays unknown.
        found.encode_page(0, &[7], UUID, 9, &mut slot[..WRITTEN_PAGE_BYTES]);
        let mut again = new();
        assert_eq!(again.join(&slot, UUID), Some(9));
        assert!(
            again.is_marked(7) && !again.is_unknown(7) && again.is_unknown(5),
            "a mark tells of itself only"
        );
        (0..WRITTEN_PAGE_REGIONS).for_each(|region| again.mark(region));
        assert!(!again.any_unknown());
    }

    #[test]
    fn regions_share_what_room_there_is() {
        for (strips, pages, each) in [(1, 1, 1), (30208, 1, 1), (30209, 1, 2), (1 << 30, 100, 356)] {
            let map = WrittenMap::new(strips, pages * WRITTEN_PAGE_BYTES as u64).expect("it has pages");
            assert_eq!(map.strips_of(0), 0..each.min(strips), "{strips} strips");
            assert!(map.regions() <= pages * WRITTEN_PAGE_REGIONS, "{strips} strips");
            assert_eq!(map.strips_of(map.regions() - 1).end, strips);
            let mut full = map.clone();
            (0..map.regions() - 1).for_each(|region| full.mark(region));
            assert!(!full.is_full(), "{strips} strips");
            full.mark(map.regions() - 1);
            assert!(full.is_full(), "{strips} strips");
        }
        assert_eq!(WrittenMap::new(5, 0), None);
    }
}
