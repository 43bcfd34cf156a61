//! Addresses: from blocks to rows of strips, and from strips to stripes and granules.
//!
//! ```text
//! stripe    strips of data, then parities; of each strip of data so many copies
//! unit      a strip of data, or a parity: what an operation reads and writes
//! granule   what is locked as a whole: the stripe where there is parity, else one strip in all its copies
//! row       a block of a strip
//! ```
//! Where a strip begins in the volume and where a unit lies on the members is the layout's to say, and nobody else's.

use crate::controller::Controller;
use crate::request::Fragment;
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, Lba, StripeIndex};

impl Controller {
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
        self.config.cache.block_size.0
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

    /// The granule that a fragment lies in: its stripe where there is parity, else its strip.
    #[inline]
    pub(crate) const fn granule_key(&self, fragment: &Fragment) -> u64 {
        if self.parities() > 0 {
            fragment.stripe.0
        } else {
            fragment.stripe.0 * self.shape.data_strips as u64 + fragment.strip as u64
        }
    }

    /// The stripe and the first strip of a granule.
    pub(crate) const fn granule_start(&self, key: u64) -> (StripeIndex, u16) {
        if self.parities() > 0 {
            (StripeIndex(key), 0)
        } else {
            let strips = self.shape.data_strips as u64;
            (StripeIndex(key / strips), (key % strips) as u16)
        }
    }

    /// Units of a granule: those of the stripe where there is parity, else the copies of the strip.
    #[inline]
    pub(crate) const fn granule_units(&self) -> u16 {
        if self.parities() > 0 { self.unit_count() as u16 } else { self.copies() }
    }

    /// Where a unit of a granule begins.
    #[inline]
    pub(crate) fn granule_place(&self, key: u64, unit: u16) -> UnitPlace {
        let (stripe, strip) = self.granule_start(key);
        if self.parities() > 0 {
            self.unit_place(stripe, unit)
        } else {
            self.layout.place(stripe, StripUnit::Data { strip, copy: unit })
        }
    }

    /// Lists where all units of a granule begin. Clears `out` first.
    pub(crate) fn granule_places(&self, key: u64, out: &mut Vec<UnitPlace>) {
        let (stripe, strip) = self.granule_start(key);
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

    /// The granule that a cache block lies in.
    pub(crate) fn granule_of_block(&self, block: u64) -> u64 {
        let lba = Lba(block * u64::from(self.cache_block_rows));
        if self.parities() > 0 { self.layout.locate(lba).0.0 } else { lba.0 / self.shape.strip_blocks.0 }
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
}
