//! The plainest filling: a row is a stripe, and its units lie on the members in order, the copies of a strip
//! next to each other, parity last.
//! ```text
//! 3 strips, 1 copy   1 strip, 3 copies    2 strips, 2 copies     3 strips and parity
//!  D0   D1   D2        D0   D0'  D0''      D0   D0'  D1   D1'      D0   D1   D2   P
//! ```
//! Invariant: a member holds the same unit of every stripe.

use super::filling::{Cell, FilledGrid, Filling};
use super::grid::{Grid, StripeParts};
use crate::layout::StripUnit;
use crate::spec::LayoutSpec;
use raidlab_units::StripeIndex;

/// Unit after unit, member after member.
#[derive(Debug)]
pub(crate) struct InOrder {
    parts: StripeParts,
}

/// Returns the layout; `spec` has as many members as `parts` has units.
pub(super) fn in_order(spec: &LayoutSpec, parts: StripeParts) -> FilledGrid<InOrder> {
    let grid = Grid::new(spec, parts);
    assert_eq!(grid.shape.unit_count(), u32::from(spec.members), "a row is a stripe");
    FilledGrid::new(grid, InOrder { parts })
}

impl Filling for InOrder {
    #[inline]
    fn cell_of(&self, stripe: StripeIndex, unit: StripUnit) -> Cell {
        let StripeParts { data_strips, copies, .. } = self.parts;
        let member = match unit {
            StripUnit::Data { strip, copy } => strip * copies + copy,
            StripUnit::Parity(parity) => data_strips * copies + parity,
        };
        Cell { row: stripe.0, member }
    }

    #[inline]
    fn unit_in(&self, cell: Cell) -> (StripeIndex, StripUnit) {
        let StripeParts { data_strips, copies, .. } = self.parts;
        let (strip, copy) = (cell.member / copies, cell.member % copies);
        let unit = if strip < data_strips {
            StripUnit::Data { strip, copy }
        } else {
            StripUnit::Parity(cell.member - data_strips * copies)
        };
        (StripeIndex(cell.row), unit)
    }
}
