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
//! **Unknown** regions are those whose record all devices have lost. Before one is initialised, the tags of all its strips are looked at:
//! if one is of a block that is not zeros, somebody has written there, and all tags were real. So its tags of zeros stay, and fit nothing
//! from then on. A read in such a region waits for that.
//!
//! Invariant: a bit is never cleared. Left out: the I/Os of tags, which are checks (`checksums`).
//!
//! [`raidlab_format::WrittenMap`] is what the devices keep. A controller that was not started from devices has none: then a tag of zeros
//! fits zeros everywhere.

use crate::api::RecordedWrites;
use crate::config::ArrayConfig;
use crate::geometry::Geometry;
use crate::ids::OpId;
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
    /// Tags of unknown regions are looked at.
    Looking,
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
    /// Operations in line, and checks with the regions that they wait for.
    waiting: Vec<OpId>,
    waiting_checks: Vec<(u64, u32)>,
    /// Regions of the batch, and others that stripes of it reach, whose tags tell of a write.
    found: Vec<u64>,
    /// The array is served, and some regions were unknown then: reads wait for these.
    settles: bool,
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
            waiting_checks: Vec::new(),
            found: Vec::new(),
            settles: false,
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
        if let Some(map) = &mut self.map {
            if may_be_unrecorded {
                // What they wrote before has tags of zeros beside real ones: these tell nothing.
                map.know_all();
            }
            let is_lacking = |page: &u64| may_be_unrecorded || map.is_page_marked(*page);
            self.pages = (0..map.pages()).filter(is_lacking).collect();
        }
        self.is_renewed = self.pages.is_empty();
    }

    /// Lets reads wait for unknown regions, if there are any.
    pub(crate) fn settle_from_now_on(&mut self) {
        self.settles = self.map.as_ref().is_some_and(WrittenMap::any_unknown);
    }

    /// Where zeros that nobody has written are told from those of a device that lost what it held.
    pub(crate) fn recorded(&self) -> RecordedWrites {
        match &self.map {
            None => RecordedWrites::None,
            Some(map) if self.may_be_unrecorded && !map.is_full() => RecordedWrites::Later,
            Some(map) if map.any_unknown() => RecordedWrites::Lost,
            Some(_) => RecordedWrites::All,
        }
    }

    /// Has all devices written all that is known.
    pub(crate) fn renew(&mut self) {
        if let Some(map) = &self.map {
            let pages = &mut self.pages;
            let lacking = (0..map.pages()).filter(|page| map.is_page_known(*page) && !pages.contains(page));
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

    /// Lets a check wait until the region of `lba` has been looked at. Returns false if it is known whether that was written, or nobody may
    /// wait yet.
    #[inline]
    pub(crate) fn settle_for(&mut self, check: u32, lba: MemberLba) -> bool {
        let Some(map) = self.map.as_ref().filter(|_| self.settles) else { return false };
        let region = map.region_of(lba.0 / self.strip_rows);
        if !map.is_unknown(region) {
            return false;
        }
        if !self.wanted.contains(&region) && !self.batch.contains(&region) {
            self.wanted.push(region);
        }
        self.waiting_checks.push((region, check));
        true
    }

    /// True while the tags of unknown regions are looked at.
    pub(crate) fn is_looking(&self) -> bool {
        self.phase == Phase::Looking
    }

    /// Takes in that a tag of the strip at `lba` tells of a write.
    pub(crate) fn note_written(&mut self, lba: MemberLba) {
        let Some(map) = &self.map else { return };
        let region = map.region_of(lba.0 / self.strip_rows);
        if !self.found.contains(&region) {
            self.found.push(region);
        }
    }

    /// Takes regions of the batch for written of which a copy at another height tells it.
    pub(crate) fn find_by_copies(&mut self, geometry: &Geometry) {
        for strip in self.strips_looked_at() {
            let lba = self.strip_start(strip);
            if geometry.places_of_stripes_at(lba).iter().any(|place| self.is_found(place.start)) {
                self.note_written(lba);
            }
        }
    }

    fn is_found(&self, lba: MemberLba) -> bool {
        self.map.as_ref().is_some_and(|map| self.found.contains(&map.region_of(lba.0 / self.strip_rows)))
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

    /// Begins with what is in line. Returns the strips to look at.
    pub(crate) fn begin_batch(&mut self) -> Vec<u64> {
        let rest = self.wanted.split_off(self.wanted.len().min(BATCH_MAX));
        self.batch = core::mem::replace(&mut self.wanted, rest);
        self.found.clear();
        (self.phase, self.pending) = (Phase::Looking, 1);
        self.strips_looked_at()
    }

    /// The strips of the batch's unknown regions.
    fn strips_looked_at(&self) -> Vec<u64> {
        self.strips_of_batch(WrittenMap::is_unknown)
    }

    /// Goes on with the batch. Returns the strips to initialise.
    pub(crate) fn begin_initialising(&mut self) -> Vec<u64> {
        (self.phase, self.pending) = (Phase::Initialising, 1);
        self.strips_of_batch(|_, region| !self.found.contains(&region))
    }

    fn strips_of_batch(&self, takes: impl Fn(&WrittenMap, u64) -> bool) -> Vec<u64> {
        let Some(map) = &self.map else { return Vec::new() };
        let regions = self.batch.iter().filter(|region| takes(map, **region));
        regions.flat_map(|region| map.strips_of(*region)).collect()
    }

    /// Where a strip begins.
    pub(crate) const fn strip_start(&self, strip: u64) -> MemberLba {
        MemberLba(strip * self.strip_rows)
    }

    /// Leaves in the batch what need not be initialised, since its tags tell of a write. Returns false if that is nothing.
    pub(crate) fn keep_found(&mut self) -> bool {
        self.batch.retain(|region| self.found.contains(region));
        !self.batch.is_empty()
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

    /// Takes in that all pages are written, or that nothing came of the batch. Returns those who waited for it: operations ask again.
    pub(crate) fn end_batch(&mut self, is_kept: bool) -> (Vec<OpId>, Vec<u32>) {
        self.phase = Phase::Idle;
        self.is_renewed |= is_kept;
        let batch = core::mem::take(&mut self.batch);
        if let Some(map) = self.map.as_mut().filter(|_| is_kept) {
            for region in batch {
                map.mark(region);
            }
        }
        let wanted = &self.wanted;
        let checks = self.waiting_checks.extract_if(.., |(region, _)| !wanted.contains(region));
        let checks = checks.map(|(_, check)| check).collect();
        (core::mem::take(&mut self.waiting), checks)
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
