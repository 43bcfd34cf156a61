//! Block checksums, and memory for them: where the *tags* of a strip stand (a block's checksum and address, 8 bytes), places
//! for tag blocks in own memory, and the line in which writes of one strip wait for each other.
//!
//! ```text
//! device      | strip 0 .... | tags 0 | strip 1 .... | tags 1 |   tag rows: the blocks of tags of a strip
//! own memory  ... | place 0 | place 1 | ...                       a place: room for the tag rows of a strip
//! ```
//! A tag row holds the tags of many blocks, so a write reads it first, unless it writes all of them, and no
//! two writes may do so at once: whoever writes to a strip holds its *line*.
//!
//! **Places are bounded.** Who finds none waits in line. A deadlock is not possible: a check takes a place
//! after the line of its strip, and then waits for members and memory only. An operation may keep a place
//! from its reads to its writes while half of the places are free without it; the other half is for those who
//! wait for nothing else.

mod check;

pub(crate) use check::{CheckEnd, CheckStep};

use crate::api::{BufferRef, Segment};
use crate::config::{ArrayConfig, MemberCache};
use crate::geometry::Geometry;
use crate::member_io::MemberIos;
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::own::{OwnMemory, own_buffer};
use crate::request::Rows;
use crate::scan::BackgroundScan;
use crate::stripe_engine::StripeEngine;
use crate::table::{NIL, Slab, Table};
use crate::written::Written;
use check::Check;
use raidlab_format::{NO_TAG, TAG_BYTES, row_checksum, tag, tag_blocks};
use raidlab_units::{BlockCount, MemberIndex, MemberLba};
use std::collections::VecDeque;

/// Strips whose tags may be on their way at once.
const PLACES: u32 = 256;

/// Those who wait to write to a strip.
#[derive(Clone, Copy, Debug)]
struct Line {
    key: u64,
    first: u32,
    last: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { key: 0, first: NIL, last: NIL }
    }
}

/// What checks look at of the rest of the controller, and where they ask for I/Os and repairs.
pub(crate) struct Surroundings<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) metadata: &'a Metadata,
    pub(crate) written: &'a mut Written,
    pub(crate) stripes: &'a mut StripeEngine,
    pub(crate) scan: &'a mut BackgroundScan,
    pub(crate) own: &'a mut OwnMemory,
    pub(crate) ios: &'a mut MemberIos,
    pub(crate) outbox: &'a mut Outbox,
}

/// All about block checksums; nothing where the array has none.
#[derive(Debug)]
pub(crate) struct Checksums {
    strip_rows: u32,
    /// Blocks of tags behind each strip; 0 where there are none.
    tag_rows: u32,
    /// Checksums in a block.
    each_row: u32,
    block_bytes: usize,
    /// Where the places begin in own memory.
    places_at: usize,
    /// What the checksum of a block of zeros is.
    zero_checksum: u32,
    /// Members have volatile caches.
    is_member_cached: bool,
    free: Vec<u32>,
    /// For each place, the tag rows that it holds as they are on the device, or will be.
    held: Vec<Rows>,
    checks: Slab<Check>,
    /// Checks that wait for a place.
    waiting: VecDeque<u32>,
    /// Checks that have got the line of their strip.
    ready: VecDeque<u32>,
    lines: Table,
    line_entries: Slab<Line>,
    /// Scratch memory.
    segments: Vec<Segment>,
}

impl Checksums {
    /// Checksums as the configuration asks for; their places begin at `places_at` of own memory.
    pub(crate) fn new(config: &ArrayConfig, strip_blocks: BlockCount, places_at: usize) -> Self {
        let block_bytes = config.block_size.bytes() as usize;
        let is_on = config.resilience.integrity;
        let places = if is_on { PLACES } else { 0 };
        Self {
            strip_rows: strip_blocks.0 as u32,
            tag_rows: if is_on { tag_blocks(strip_blocks, config.block_size).0 as u32 } else { 0 },
            each_row: (block_bytes / TAG_BYTES) as u32,
            block_bytes,
            places_at,
            zero_checksum: if is_on { row_checksum(&vec![0; block_bytes]) } else { 0 },
            is_member_cached: config.member_cache == MemberCache::On,
            free: (0..places).rev().collect(),
            held: vec![Rows::NONE; places as usize],
            checks: Slab::new(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            lines: Table::with_room_for(places as usize),
            line_entries: Slab::new(),
            segments: Vec::new(),
        }
    }

    /// Bytes that the places take in own memory.
    pub(crate) fn memory_bytes(config: &ArrayConfig) -> usize {
        if !config.resilience.integrity {
            return 0;
        }
        let strip_blocks = BlockCount(config.strip_size.0 / config.block_size.bytes());
        (tag_blocks(strip_blocks, config.block_size).0 * config.block_size.bytes()) as usize * PLACES as usize
    }

    /// True where blocks have tags.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.tag_rows > 0
    }

    /// True if some check's turn has come.
    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty() || (!self.waiting.is_empty() && !self.free.is_empty())
    }

    /// True when no check is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.checks.in_use() == 0
    }

    // Where things stand.

    /// Blocks of the data area that a strip and its tags take.
    pub(crate) fn pitch(&self) -> u64 {
        u64::from(self.strip_rows) + u64::from(self.tag_rows)
    }

    /// The block of the data area that holds what the layout puts at `lba`.
    #[inline]
    fn physical(&self, lba: MemberLba) -> MemberLba {
        if !self.is_on() {
            return lba;
        }
        let strip_rows = u64::from(self.strip_rows);
        MemberLba(lba.0 / strip_rows * self.pitch() + lba.0 % strip_rows)
    }

    /// The row of its strip that the layout puts at `lba`.
    fn row_of(&self, lba: MemberLba) -> u32 {
        (lba.0 % u64::from(self.strip_rows)) as u32
    }

    /// The block of the data area where `tag_row` of the strip stands that begins, for the layout, at
    /// `strip_start`.
    fn tag_row_place(&self, strip_start: MemberLba, tag_row: u32) -> MemberLba {
        self.physical(strip_start) + BlockCount(u64::from(self.strip_rows + tag_row))
    }

    /// The tag rows that hold the tags of `rows`.
    const fn tag_rows_of(&self, rows: Rows) -> Rows {
        Rows::between(rows.first / self.each_row, rows.end().div_ceil(self.each_row))
    }

    /// The rows whose tags are in `tag_rows`.
    fn rows_of(&self, tag_rows: Rows) -> Rows {
        let end = u64::from(tag_rows.end()) * u64::from(self.each_row);
        let end = end.min(u64::from(self.strip_rows)) as u32;
        Rows::between(tag_rows.first * self.each_row, end)
    }

    /// True if `rows` are followed on the device by the tag rows that hold their tags, with nothing in
    /// between.
    const fn is_adjacent(&self, rows: Rows) -> bool {
        rows.end() == self.strip_rows && rows.first < self.each_row
    }

    // Places.

    /// Takes a place that holds nothing, if one is free.
    fn take_place(&mut self) -> Option<u32> {
        let place = self.free.pop()?;
        self.held[place as usize] = Rows::NONE;
        Some(place)
    }

    /// Gives a place back.
    #[inline]
    fn give_place(&mut self, place: u32) {
        self.free.push(place);
    }

    /// True if a place may be kept although its holder goes on to wait for other things.
    fn may_keep(&self) -> bool {
        self.waiting.is_empty() && self.free.len() > PLACES as usize / 2
    }

    /// True if a place holds these tag rows.
    fn holds(&self, place: u32, tag_rows: Rows) -> bool {
        self.held[place as usize].hull(tag_rows) == self.held[place as usize]
    }

    /// Notes which tag rows a place holds.
    fn set_held(&mut self, place: u32, tag_rows: Rows) {
        self.held[place as usize] = tag_rows;
    }

    const fn tag_at(&self, place: u32, row: u32) -> usize {
        let place_bytes = self.tag_rows as usize * self.block_bytes;
        self.places_at + place as usize * place_bytes + row as usize * TAG_BYTES
    }

    /// Where a tag row lies in its place.
    const fn buffer(&self, place: u32, tag_row: u32) -> BufferRef {
        own_buffer(self.tag_at(place, tag_row * self.each_row))
    }

    // Checksums; `own` is own memory.

    fn tag(&self, own: &[u8], place: u32, row: u32) -> u64 {
        let at = self.tag_at(place, row);
        u64::from_le_bytes(own[at..at + TAG_BYTES].try_into().expect("as long as a tag"))
    }

    /// True if the tag of `row` says that the block, which the layout puts at `lba` of `role`, has this
    /// checksum, or nobody has written there.
    fn agrees(
        &self,
        (own, written): (&[u8], &Written),
        place: u32,
        (role, lba): (MemberIndex, MemberLba),
        checksum: u32,
    ) -> bool {
        let found = self.tag(own, place, self.row_of(lba));
        let is_unwritten = found == 0 && checksum == self.zero_checksum && !written.is_written(lba);
        found == tag(checksum, role, lba) || is_unwritten
    }

    /// True if a tag that is held of a strip is of a block that is not zeros, at its own place.
    fn tells_of_a_write(&self, own: &[u8], place: u32, role: MemberIndex, strip_start: MemberLba) -> bool {
        let rows = self.rows_of(self.held[place as usize]);
        (rows.first..rows.end()).any(|row| {
            let (found, lba) = (self.tag(own, place, row), strip_start + BlockCount(u64::from(row)));
            found == tag(found as u32, role, lba) && found != tag(self.zero_checksum, role, lba)
        })
    }

    /// Makes real tags of blocks of zeros of all tags of zeros of a strip. Returns true if there were any.
    fn make_real(&self, own: &mut [u8], place: u32, role: MemberIndex, strip_start: MemberLba) -> bool {
        let mut any = false;
        for row in 0..self.strip_rows {
            if self.tag(own, place, row) == 0 {
                any = true;
                let address = (role, strip_start + BlockCount(u64::from(row)));
                self.set(own, place, address, self.zero_checksum);
            }
        }
        any
    }

    /// Sets the tag of a block.
    fn set(&self, own: &mut [u8], place: u32, (role, lba): (MemberIndex, MemberLba), checksum: u32) {
        let at = self.tag_at(place, self.row_of(lba));
        own[at..at + TAG_BYTES].copy_from_slice(&tag(checksum, role, lba).to_le_bytes());
    }

    /// Fills tag rows of a place with tags that agree with nothing, and the rest behind the strip's last tag
    /// with zeros.
    fn fill_unknown(&mut self, own: &mut [u8], place: u32, tag_rows: Rows) {
        let rows = self.rows_of(tag_rows);
        for row in rows.first..rows.end() {
            let at = self.tag_at(place, row);
            own[at..at + TAG_BYTES].copy_from_slice(&NO_TAG.to_le_bytes());
        }
        let end = self.tag_at(place, tag_rows.end() * self.each_row);
        own[self.tag_at(place, rows.end())..end].fill(0);
        self.set_held(place, tag_rows);
    }

    // Lines.

    fn line_key(device: MemberIndex, strip_start: MemberLba) -> u64 {
        // A device has fewer than 2^48 blocks: its bytes are counted in 64 bits, and a block has 512 or more.
        u64::from(device.0) << 55 | strip_start.0
    }

    /// Gives the line of a strip to a check, or puts it in line. Returns true if it has it.
    fn enter_line(&mut self, device: MemberIndex, strip_start: MemberLba, check: u32) -> bool {
        let key = Self::line_key(device, strip_start);
        let Self { lines, line_entries, .. } = self;
        let Some(line) = lines.get(key, |line| line_entries[line].key) else {
            let line = line_entries.take();
            line_entries[line] = Line { key, ..Line::default() };
            lines.insert(key, line, |line| line_entries[line].key);
            return true;
        };
        self.checks[check].next = NIL;
        let last = core::mem::replace(&mut self.line_entries[line].last, check);
        if last == NIL {
            self.line_entries[line].first = check;
        } else {
            self.checks[last].next = check;
        }
        false
    }

    /// Gives the line of a strip to the next in it, which is returned.
    fn leave_line(&mut self, device: MemberIndex, strip_start: MemberLba) -> Option<u32> {
        let key = Self::line_key(device, strip_start);
        let line = self.lines.get(key, |line| self.line_entries[line].key);
        let line = line.expect("a line that is held is known");
        let first = self.line_entries[line].first;
        if first == NIL {
            self.lines.remove(key, line);
            self.line_entries.give(line);
            return None;
        }
        self.line_entries[line].first = self.checks[first].next;
        if self.line_entries[line].first == NIL {
            self.line_entries[line].last = NIL;
        }
        Some(first)
    }
}
