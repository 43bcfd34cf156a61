//! A layout whose stripes are cut into *narrow* stripes of some rows of each strip, which change independently.
//! ```text
//!            m0        m1        m2                             m0   m1   m2
//! stripe 0   D0 (2 rows)  D1        P        narrow stripe 0   D0   D1   P     row 0
//!                                                          1   D0'  D1'  P'    row 1
//! stripe 1   P         D2        D3                        2   P    D2   D3
//! ```
//! Every block keeps its place of the original layout, in the volume and on the members. Only the stripes change: a
//! narrow stripe has one row of each strip. Consecutive strips of the volume belong to different narrow stripes, so
//! [`Layout::strip_start`] and [`Layout::run_blocks`] are methods of the layout.
//!
//! Source: Linux md, `struct stripe_head` (drivers/md/raid5.h): a page of each member, whatever the chunk.

use super::grid::Divisor;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// The layout that was cut, and how.
#[derive(Debug)]
pub(crate) struct Narrow {
    wide: Box<dyn Layout>,
    /// Blocks in a row, and rows in a strip.
    row_blocks: Divisor,
    rows: Divisor,
    shape: StripeShape,
    strip_rows: u64,
}

impl Narrow {
    /// Cuts `wide`, whose strips are `strip_rows` rows of `row_blocks`.
    pub(crate) fn new(wide: Box<dyn Layout>, row_blocks: BlockCount, strip_rows: u64) -> Self {
        let shape = StripeShape { strip_blocks: row_blocks, ..wide.shape() };
        Self {
            wide,
            row_blocks: Divisor::new(row_blocks.0),
            rows: Divisor::new(strip_rows),
            shape,
            strip_rows,
        }
    }

    /// The wide stripe, and the blocks of its strips before the row.
    #[inline]
    fn split(&self, stripe: StripeIndex) -> (StripeIndex, u64) {
        let (wide, row) = self.rows.split(stripe.0);
        (StripeIndex(wide), row * self.shape.strip_blocks.0)
    }

    /// The narrow stripe of a block of a strip, and the block of its row.
    #[inline]
    fn join(&self, wide: StripeIndex, block: BlockCount) -> (StripeIndex, BlockCount) {
        let (row, block) = self.row_blocks.split(block.0);
        (StripeIndex(wide.0 * self.strip_rows + row), BlockCount(block))
    }
}

impl Layout for Narrow {
    fn shape(&self) -> StripeShape {
        self.shape
    }

    fn member_count(&self) -> u16 {
        self.wide.member_count()
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.wide.stripe_count().0 * self.strip_rows)
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        let (wide, before) = self.split(stripe);
        let UnitPlace { member, start } = self.wide.place(wide, unit);
        UnitPlace { member, start: start + BlockCount(before) }
    }

    fn places(&self, stripe: StripeIndex, out: &mut Vec<UnitPlace>) {
        let (wide, before) = self.split(stripe);
        self.wide.places(wide, out);
        for place in out.iter_mut() {
            place.start += BlockCount(before);
        }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (wide, unit, block) = self.wide.identify(member, lba)?;
        let (stripe, block) = self.join(wide, block);
        Some((stripe, unit, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        self.wide.failures_survived()
    }

    fn loses_data(&self, is_missing: &dyn Fn(MemberIndex) -> bool) -> bool {
        self.wide.loses_data(is_missing)
    }

    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        let (wide, strip, block) = self.wide.locate(lba);
        let (stripe, block) = self.join(wide, block);
        (stripe, strip, block)
    }

    fn strip_start(&self, stripe: StripeIndex, strip: u16) -> Lba {
        let (wide, before) = self.split(stripe);
        self.wide.strip_start(wide, strip) + BlockCount(before)
    }

    fn run_blocks(&self, lba: Lba) -> BlockCount {
        self.wide.run_blocks(lba)
    }
}
