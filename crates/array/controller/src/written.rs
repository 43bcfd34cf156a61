//! Written regions: where block checksums of zeros no longer fit blocks of zeros.
//!
//! ```text
//! unwritten ── first write ─► initialising ─────────► keeping ───────────────► written
//!  a tag of      in line       each tag of zeros        page of the map on       a tag of zeros
//!  zeros fits                  becomes the real one     all devices              fits nothing
//!  zeros                       of a block of zeros
//! ```
//! Both kinds of tags fit in an unwritten region, so a crash at any point changes nothing. Tags are written with forced unit access, and
//! the map only when the devices know who has left: whoever counts as in sync at the next start has the tags. While a device is lost no
//! region is initialised: it would come back with tags of zeros.
//!
//! Invariant: a bit is never cleared. Left out: the I/Os of tags, which are checks (`checksums`).
//!
//! [`raidlab_format::WrittenMap`] is what the devices keep. A controller that was not started from devices has none: then a tag of zeros
//! fits zeros everywhere.

use crate::api::RecordedWrites;
use crate::config::ArrayConfig;
use crate::table::OpId;
use raidlab_format::{WRITTEN_PAGE_BYTES, WrittenMap};
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberLba};

/// Regions that are initialised together, at most.
const BATCH_MAX: usize = 64;

/// How far the regions of the batch are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Initialising,
    Keeping,
    Writing,
}

/// All about written regions.
#[derive(Debug)]
pub(crate) struct Written {
    map: Option<WrittenMap>,
    strip_rows: u64,
    phase: Phase,
    /// Regions to initialise, and those under way.
    wanted: Vec<u64>,
    batch: Vec<u64>,
    /// I/Os under way, and one for whoever is beginning some.
    pending: u32,
    /// Pages that the devices should have and some may not.
    pages: Vec<u64>,
    /// Operations in line.
    waiting: Vec<OpId>,
    sequence: u64,
    /// All devices have what a start has found on some.
    is_renewed: bool,
    /// Something may have been written before that was recorded.
    may_be_unrecorded: bool,
    /// Where the two slots begin, which take turns.
    slots: [MemberLba; 2],
    page_blocks: BlockCount,
}

impl Written {
    pub(crate) fn new(config: &ArrayConfig, strip_rows: u32) -> Self {
        let block_bytes = config.block_size.bytes();
        let at = |slot: raidlab_format::Extent| MemberLba(slot.offset_bytes / block_bytes);
        Self {
            map: None,
            strip_rows: u64::from(strip_rows),
            phase: Phase::Idle,
            wanted: Vec::new(),
            batch: Vec::new(),
            pending: 0,
            pages: Vec::new(),
            waiting: Vec::new(),
            sequence: 0,
            is_renewed: true,
            may_be_unrecorded: false,
            slots: config.metadata_area().written.map(at),
            page_blocks: BlockCount(WRITTEN_PAGE_BYTES as u64 / block_bytes),
        }
    }

    /// Goes on from what a start has found. Some devices may lack some of it: nothing is written before they have it.
    pub(crate) fn start_again(
        &mut self,
        map: Option<WrittenMap>,
        next_sequence: u64,
        may_be_unrecorded: bool,
    ) {
        (self.map, self.sequence, self.may_be_unrecorded) = (map, next_sequence, may_be_unrecorded);
        self.renew();
        self.is_renewed = self.pages.is_empty();
    }

    /// Where zeros that nobody has written are told from those of a device that lost what it held.
    pub(crate) fn recorded(&self) -> RecordedWrites {
        match &self.map {
            None => RecordedWrites::None,
            Some(map) if self.may_be_unrecorded && !map.is_full() => RecordedWrites::Later,
            Some(_) => RecordedWrites::All,
        }
    }

    /// Has all devices written all that is marked.
    pub(crate) fn renew(&mut self) {
        if let Some(map) = &self.map {
            let pages = &mut self.pages;
            let lacking = (0..map.pages()).filter(|page| map.is_page_marked(*page) && !pages.contains(page));
            let lacking: Vec<_> = lacking.collect();
            pages.extend(lacking);
        }
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) const fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// True when nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && !self.has_work()
    }

    /// True if there is something to begin.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.wanted.is_empty() || !self.pages.is_empty()
    }

    /// True if a tag of zeros fits nothing in the strip with the block that the layout puts at `lba`.
    pub(crate) fn is_written(&self, lba: MemberLba) -> bool {
        self.map.as_ref().is_some_and(|map| map.is_marked(map.region_of(lba.0 / self.strip_rows)))
    }

    /// True if all strips at these places may be written.
    #[inline]
    pub(crate) fn has_all(&self, places: &[UnitPlace]) -> bool {
        self.is_renewed && self.are_marked(places)
    }

    /// True if the regions of all strips at these places are recorded.
    #[inline]
    pub(crate) fn are_marked(&self, places: &[UnitPlace]) -> bool {
        let Some(map) = &self.map else { return true };
        let mut last = None;
        places.iter().all(|place| {
            // Most units of a stripe stand at the same height.
            last == Some(place.start) || {
                last = Some(place.start);
                map.is_marked(map.region_of(place.start.0 / self.strip_rows))
            }
        })
    }

    /// Puts an operation in line for the regions of these places.
    pub(crate) fn line_up(&mut self, op: OpId, places: &[UnitPlace]) {
        let Some(map) = &self.map else { return };
        for place in places {
            let region = map.region_of(place.start.0 / self.strip_rows);
            if !map.is_marked(region) && !self.wanted.contains(&region) && !self.batch.contains(&region) {
                self.wanted.push(region);
            }
        }
        self.waiting.push(op);
    }

    /// Begins with what is in line. Returns the strips to initialise.
    pub(crate) fn begin_batch(&mut self) -> Vec<u64> {
        let rest = self.wanted.split_off(self.wanted.len().min(BATCH_MAX));
        self.batch = core::mem::replace(&mut self.wanted, rest);
        let Some(map) = &self.map else { return Vec::new() };
        (self.phase, self.pending) = (Phase::Initialising, 1);
        self.batch.iter().flat_map(|region| map.strips_of(*region)).collect()
    }

    /// Where a strip begins.
    pub(crate) const fn strip_start(&self, strip: u64) -> MemberLba {
        MemberLba(strip * self.strip_rows)
    }

    /// True if nothing but pages that some devices may lack is under way.
    pub(crate) const fn only_renews(&self) -> bool {
        self.batch.is_empty()
    }

    /// Takes in that the tags of the batch are real: its pages are to be written.
    pub(crate) fn begin_pages(&mut self) {
        self.phase = Phase::Writing;
        for region in &self.batch {
            let page = WrittenMap::page_of(*region);
            if !self.pages.contains(&page) {
                self.pages.push(page);
            }
        }
    }

    /// Makes the next page. Returns where it goes on each device, and how long it is; none after the last.
    pub(crate) fn next_page(
        &mut self,
        uuid: raidlab_format::ArrayUuid,
        out: &mut [u8],
    ) -> Option<(MemberLba, BlockCount)> {
        let (page, map) = (self.pages.pop()?, self.map.as_ref()?);
        map.encode_page(page, &self.batch, uuid, self.sequence, out);
        let slot = self.slots[(self.sequence % 2) as usize];
        self.sequence += 1;
        self.pending = 1;
        Some((slot + BlockCount(page * self.page_blocks.0), self.page_blocks))
    }

    /// Takes in that all pages are written, or that nothing came of the batch. Returns those who waited: they ask again.
    pub(crate) fn end_batch(&mut self, is_kept: bool) -> Vec<OpId> {
        self.phase = Phase::Idle;
        self.is_renewed |= is_kept;
        let batch = core::mem::take(&mut self.batch);
        if let Some(map) = self.map.as_mut().filter(|_| is_kept) {
            for region in batch {
                map.mark(region);
            }
        }
        core::mem::take(&mut self.waiting)
    }

    /// Notes that one more I/O is under way.
    pub(crate) const fn begin_io(&mut self) {
        self.pending += 1;
    }

    /// Takes in that one I/O has ended. Returns true if it was the last.
    pub(crate) const fn end_io(&mut self) -> bool {
        self.pending -= 1;
        self.pending == 0
    }
}
