//! JBOD: members one after another ("linear" in Linux md), a stripe being one strip.
//! ```text
//! row   m0   m1   m2
//!  0    S0   S2   S4
//!  1    S1   S3   S5
//! ```
//! Invariant: a member holds a contiguous piece of the volume.

use super::filling::{Cell, FilledGrid, Filling};
use super::grid::{Divisor, Grid, StripeParts};
use crate::layout::StripUnit;
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::StripeIndex;

/// Members one after another.
#[derive(Debug)]
pub(crate) struct Jbod {
    rows: u64,
    by_rows: Divisor,
}

/// Returns the layout of JBOD.
pub(crate) fn jbod(spec: &LayoutSpec) -> Result<FilledGrid<Jbod>, LayoutError> {
    spec.require_members(1..=u16::MAX)?;
    spec.require_bare_level()?;
    let grid = Grid::new(spec, StripeParts { data_strips: 1, copies: 1, parities: 0 });
    Ok(FilledGrid::new(grid, Jbod { rows: grid.rows, by_rows: Divisor::new(grid.rows) }))
}

impl Filling for Jbod {
    #[inline]
    fn cell_of(&self, stripe: StripeIndex, _: StripUnit) -> Cell {
        let (member, row) = self.by_rows.split(stripe.0);
        Cell { row, member: member as u16 }
    }

    #[inline]
    fn unit_in(&self, cell: Cell) -> (StripeIndex, StripUnit) {
        let stripe = u64::from(cell.member) * self.rows + cell.row;
        (StripeIndex(stripe), StripUnit::Data { strip: 0, copy: 0 })
    }
}
