//! Addresses: from blocks to rows of strips, and from strips to stripes and their locks.
//!
//! ```text
//! stripe    strips of data, then parities; of each strip of data so many copies
//! unit      a strip of data, or a parity: what an operation reads and writes
//! lock      what is locked as a whole: the stripe where there is parity, else one strip in all its copies
//! row       a block of a strip
//! ```
//! Only the layout says where a strip begins in the volume and where a unit lies on the members.

use crate::api::{BufferRef, BufferSpace, HostTag};
use crate::ids::{CacheBlockIndex, LockKey};
use crate::request::{Fragment, FragmentWalk, Rows};
use core::ops::Range;
use raidlab_raid::{Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};

/// A cache block, seen from a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheBlock {
    /// Number of the cache block within the volume.
    pub(crate) key: CacheBlockIndex,
    /// Row of the strip where it begins.
    rows_first: u32,
    /// Row of the strip after its end.
    pub(crate) rows_end: u32,
}

impl CacheBlock {
    /// The bit that stands for `row`.
    pub(crate) const fn bit(&self, row: u32) -> u32 {
        row - self.rows_first
    }

    /// The bits that stand for rows `first` to before `end`.
    pub(crate) const fn mask(&self, first: u32, end: u32) -> u64 {
        (u64::MAX >> (64 - (end - first))) << self.bit(first)
    }

    /// Where `row` lies in a slot.
    pub(crate) const fn byte(&self, row: u32, block_bytes: u64) -> u64 {
        self.bit(row) as u64 * block_bytes
    }
}

/// A row of a unit, and the key of the unit's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitRow {
    pub(crate) key: LockKey,
    pub(crate) unit: u16,
    pub(crate) row: u32,
}

/// What follows from the layout alone: sizes, and where things are.
#[derive(Debug)]
pub(crate) struct Geometry {
    layout: Box<dyn Layout>,
    shape: StripeShape,
    block_bytes: u64,
    cache_block_rows: u32,
}

impl Geometry {
    /// The geometry of a layout of blocks of `block_bytes`, with cache blocks of `cache_block_rows` of these.
    pub(crate) fn new(layout: Box<dyn Layout>, block_bytes: u64, cache_block_rows: u32) -> Self {
        let shape = layout.shape();
        Self { layout, shape, block_bytes, cache_block_rows }
    }

    /// True for rows that are the last under a lock.
    pub(crate) fn is_end(&self, strip: u16, rows: Rows) -> bool {
        usize::from(strip) == self.data_strips() - 1 && rows.end() == self.strip_rows()
    }

    /// The layout itself.
    #[inline]
    pub(crate) fn layout(&self) -> &dyn Layout {
        &*self.layout
    }

    /// How many locks there are: one for each stripe where there is parity, else for each strip.
    pub(crate) fn lock_count(&self) -> u64 {
        let stripes = self.layout.stripe_count();
        self.locks_of(StripeIndex(0)..StripeIndex(stripes.0)).end.0
    }

    #[inline]
    pub(crate) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    #[inline]
    pub(crate) const fn cache_block_rows(&self) -> u32 {
        self.cache_block_rows
    }

    #[inline]
    pub(crate) const fn cache_block_bytes(&self) -> u64 {
        self.cache_block_rows as u64 * self.block_bytes
    }

    #[inline]
    pub(crate) const fn strip_rows(&self) -> u32 {
        self.shape.strip_blocks.0 as u32
    }

    #[inline]
    pub(crate) const fn data_strips(&self) -> usize {
        self.shape.data_strips as usize
    }

    #[inline]
    pub(crate) const fn copies(&self) -> u16 {
        self.shape.copies
    }

    #[inline]
    pub(crate) const fn parities(&self) -> usize {
        self.shape.parities as usize
    }

    #[inline]
    pub(crate) const fn unit_count(&self) -> usize {
        self.data_strips() + self.parities()
    }

    /// Address of `row` of a strip.
    #[inline]
    pub(crate) fn strip_lba(&self, stripe: StripeIndex, strip: u16, row: u32) -> Lba {
        self.layout.strip_start(stripe, strip) + BlockCount(u64::from(row))
    }

    /// Address of the first block of a fragment.
    pub(crate) fn fragment_lba(&self, fragment: &Fragment) -> Lba {
        self.strip_lba(fragment.stripe, fragment.strip, fragment.rows.first)
    }

    /// Key of a fragment's lock: its stripe where there is parity, else its strip.
    #[inline]
    pub(crate) const fn lock_key(&self, fragment: &Fragment) -> LockKey {
        if self.parities() > 0 {
            LockKey(fragment.stripe.0)
        } else {
            LockKey(fragment.stripe.0 * self.shape.data_strips as u64 + fragment.strip as u64)
        }
    }

    /// The stripe and the first strip under a lock.
    pub(crate) const fn lock_start(&self, key: LockKey) -> (StripeIndex, u16) {
        if self.parities() > 0 {
            (StripeIndex(key.0), 0)
        } else {
            let strips = self.shape.data_strips as u64;
            (StripeIndex(key.0 / strips), (key.0 % strips) as u16)
        }
    }

    /// Units under a lock: those of the stripe where there is parity, else the copies of the strip.
    #[inline]
    pub(crate) const fn lock_units(&self) -> u16 {
        if self.parities() > 0 { self.unit_count() as u16 } else { self.copies() }
    }

    /// Where a unit under a lock begins.
    #[inline]
    pub(crate) fn lock_place(&self, key: LockKey, unit: u16) -> UnitPlace {
        let (stripe, strip) = self.lock_start(key);
        if self.parities() > 0 {
            self.unit_place(stripe, unit)
        } else {
            self.layout.place(stripe, StripUnit::Data { strip, copy: unit })
        }
    }

    /// Lists where all units under a lock begin. Clears `out` first.
    pub(crate) fn lock_places(&self, key: LockKey, out: &mut Vec<UnitPlace>) {
        let (stripe, strip) = self.lock_start(key);
        if self.parities() > 0 {
            return self.layout.places(stripe, out);
        }
        out.clear();
        let copies = (0..self.copies()).map(|copy| StripUnit::Data { strip, copy });
        out.extend(copies.map(|unit| self.layout.place(stripe, unit)));
    }

    /// True where a strip can be made up from others.
    #[inline]
    pub(crate) const fn is_redundant(&self) -> bool {
        self.parities() > 0 || self.copies() > 1
    }

    /// Address of the first block of a cache block.
    pub(crate) fn block_lba(&self, block: CacheBlockIndex) -> Lba {
        Lba(block.0 * u64::from(self.cache_block_rows))
    }

    /// Key of a cache block's lock.
    pub(crate) fn lock_of_block(&self, block: CacheBlockIndex) -> LockKey {
        let lba = self.block_lba(block);
        LockKey(if self.parities() > 0 {
            self.layout.locate(lba).0.0
        } else {
            lba.0 / self.shape.strip_blocks.0
        })
    }

    /// Where `unit` of `stripe` begins: a data strip's first copy, or a parity strip.
    pub(crate) fn unit_place(&self, stripe: StripeIndex, unit: u16) -> UnitPlace {
        let data = self.data_strips() as u16;
        let unit = if unit < data {
            StripUnit::Data { strip: unit, copy: 0 }
        } else {
            StripUnit::Parity(unit - data)
        };
        self.layout.place(stripe, unit)
    }

    /// The cache block that holds `row` of a fragment's strip.
    pub(crate) fn cache_block_at(&self, fragment: &Fragment, row: u32) -> CacheBlock {
        let rows = self.cache_block_rows();
        let rows_first = row - row % rows;
        let lba = self.strip_lba(fragment.stripe, fragment.strip, rows_first);
        CacheBlock { key: CacheBlockIndex(lba.0 / u64::from(rows)), rows_first, rows_end: rows_first + rows }
    }

    pub(crate) fn cache_keys(
        &self,
        lba: Lba,
        blocks: BlockCount,
    ) -> impl Iterator<Item = CacheBlockIndex> + use<> {
        let rows = u64::from(self.cache_block_rows());
        (lba.0 / rows..(lba.0 + blocks.0).div_ceil(rows)).map(CacheBlockIndex)
    }

    /// The walk that cuts a range of the volume, for a request, into fragments.
    #[inline]
    pub(crate) fn walk(&self, request: HostTag, lba: Lba, blocks: BlockCount) -> FragmentWalk {
        FragmentWalk::new(request, lba, blocks, self.block_bytes(), self.strip_rows())
    }

    pub(crate) fn rounded_out(&self, rows: Rows) -> Rows {
        let unit = self.cache_block_rows();
        Rows::between(rows.first - rows.first % unit, rows.end().next_multiple_of(unit))
    }

    /// What the layout puts at `lba` of a role.
    pub(crate) fn unit_at(&self, role: MemberIndex, lba: MemberLba) -> Option<UnitRow> {
        let (stripe, unit, block) = self.layout.identify(role, lba)?;
        let (strip, unit) = match unit {
            StripUnit::Data { strip, .. } if self.parities() > 0 => (strip, strip),
            StripUnit::Data { strip, copy } => (strip, copy),
            StripUnit::Parity(parity) => (0, self.data_strips() as u16 + parity),
        };
        let key = self.lock_key(&Fragment { stripe, strip, ..Fragment::default() });
        Some(UnitRow { key, unit, row: block.0 as u32 })
    }

    /// Where the stripes stand that have a strip at `lba` of a member: also higher and lower, if the layout has copies there. Sorted, each
    /// place once.
    pub(crate) fn places_of_stripes_at(&self, lba: MemberLba) -> Vec<UnitPlace> {
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for found in (0..self.layout.member_count()).filter_map(|role| self.unit_at(MemberIndex(role), lba)) {
            self.lock_places(found.key, &mut places);
            all.extend_from_slice(&places);
        }
        all.sort_unstable_by_key(|place| (place.start, place.member));
        all.dedup();
        all
    }

    /// Where `row` of a strip lies in staging memory, of which the strip has the place with this number.
    pub(crate) fn staging_buffer(&self, place: u32, row: u32) -> BufferRef {
        let rows = u64::from(place) * u64::from(self.strip_rows()) + u64::from(row);
        BufferRef { space: BufferSpace::Staging, offset: rows * self.block_bytes }
    }

    /// Keys of the locks of some stripes.
    pub(crate) fn locks_of(&self, stripes: Range<StripeIndex>) -> Range<LockKey> {
        let each = if self.parities() > 0 { 1 } else { self.data_strips() as u64 };
        LockKey(stripes.start.0 * each)..LockKey(stripes.end.0 * each)
    }

    /// Key of a unit's lock.
    pub(crate) fn lock_of_unit(&self, stripe: StripeIndex, unit: StripUnit) -> LockKey {
        let strip = if let StripUnit::Data { strip, .. } = unit { strip } else { 0 };
        self.lock_key(&Fragment { stripe, strip, ..Fragment::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_raid::{LayoutSpec, build_layout};

    const STRIP_ROWS: u32 = 16;

    /// Arrays of 8 strips of 16 blocks on each member, with cache blocks of 4.
    fn geometries() -> impl Iterator<Item = (&'static str, Geometry)> {
        let levels = [("0", 3), ("1", 2), ("5", 4), ("6", 5), ("10", 4), ("50:2-spans", 6)];
        levels.into_iter().map(|(level, members)| {
            let spec = LayoutSpec {
                level: level.parse().expect("it is a level"),
                members,
                strip_blocks: BlockCount(u64::from(STRIP_ROWS)),
                member_blocks: BlockCount(8 * u64::from(STRIP_ROWS)),
            };
            (level, Geometry::new(build_layout(&spec).expect("it can be"), 4096, 4))
        })
    }

    #[test]
    fn each_unit_of_each_stripe_is_found_again_where_it_stands() {
        for (level, geometry) in geometries() {
            let mut places = Vec::new();
            for key in (0..geometry.lock_count()).map(LockKey) {
                geometry.lock_places(key, &mut places);
                assert_eq!(places.len(), usize::from(geometry.lock_units()), "{level}");
                for (unit, place) in (0..).zip(&places) {
                    assert_eq!(*place, geometry.lock_place(key, unit), "{level}");
                    let row = geometry.unit_at(place.member, place.start + BlockCount(5));
                    assert_eq!(row, Some(UnitRow { key, unit, row: 5 }), "{level}: {place:?}");
                }
            }
        }
    }

    #[test]
    fn each_cache_block_of_a_strip_lies_in_its_stripe() {
        for (level, geometry) in geometries() {
            let blocks = geometry.layout().volume_blocks();
            for lba in (0..blocks.0).map(Lba) {
                let (stripe, strip, row) = geometry.layout().locate(lba);
                let rows = Rows { first: row.0 as u32, count: 1 };
                let fragment = Fragment { stripe, strip, rows, ..Fragment::default() };
                assert_eq!(geometry.fragment_lba(&fragment), lba, "{level}");
                let key = geometry.lock_key(&fragment);
                let (first_stripe, first_strip) = geometry.lock_start(key);
                let strips = if geometry.parities() > 0 { geometry.data_strips() as u16 } else { 1 };
                assert_eq!(stripe, first_stripe, "{level}");
                assert!((first_strip..first_strip + strips).contains(&strip), "{level}");
                let block = geometry.cache_block_at(&fragment, rows.first);
                assert_eq!(block.key, CacheBlockIndex(lba.0 / 4), "{level}");
                assert_eq!(u64::from(block.bit(rows.first)), lba.0 % 4, "{level}");
                assert_eq!(geometry.lock_of_block(block.key), key, "{level}");
                let keys: Vec<_> = geometry.cache_keys(lba, BlockCount(1)).collect();
                assert_eq!(keys, [block.key], "{level}");
            }
        }
    }

    #[test]
    fn a_stripe_ends_with_the_last_row_of_its_last_strip() {
        let (_, geometry) = geometries().find(|(level, _)| *level == "5").expect("it is among them");
        let last = geometry.data_strips() as u16 - 1;
        assert!(geometry.is_end(last, Rows::between(12, STRIP_ROWS)));
        assert!(!geometry.is_end(last, Rows::between(12, STRIP_ROWS - 1)));
        assert!(!geometry.is_end(0, Rows::between(12, STRIP_ROWS)));
        assert_eq!(geometry.rounded_out(Rows::between(5, 9)), Rows::between(4, 12));
    }
}
