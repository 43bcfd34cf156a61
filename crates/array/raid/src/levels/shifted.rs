//! Mirrors that stripe the data as RAID 0 does, and repeat every row on a row of its own, one member further on. The
//! place of that row distinguishes the two layouts:
//! ```text
//!  far   m0   m1   m2        offset   m0   m1   m2
//! row 0  D0   D1   D2        row 0    D0   D1   D2
//! row 1  D3   D4   D5        row 1    D2'  D0'  D1'
//! row 2  D2'  D0'  D1'       row 2    D3   D4   D5
//! row 3  D5'  D3'  D4'       row 3    D5'  D3'  D4'
//! ```
//! *Far* has all data in the first half of each member, so that reads stream like RAID 0 and stay on a drive's outer
//! tracks; *offset* saves its writes the seek to the other half. A stripe is one strip in two copies: two consecutive
//! strips have a member in common. An odd last row stays unused.
//!
//! Invariant: copy 1 is on the member after that of copy 0, the first following the last.
//!
//! Source: Linux md raid10 with two copies, layouts `f2` and `o2` (`__raid10_find_phys`, `calc_sectors` in
//! drivers/md/raid10.c). Offset is also RAID-1E "integrated offset stripe mirroring" of SNIA's DDF 2.0.

use super::filling::{Cell, FilledGrid, Filling};
use super::grid::{Divisor, Grid, StripeParts};
use crate::layout::{FailuresSurvived, StripUnit, StripeShape};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::StripeIndex;

/// Rows of data, and rows of their copies.
#[derive(Debug)]
pub(crate) struct Shifted {
    members: u16,
    by_members: Divisor,
    copy_rows: CopyRows,
}

/// Where the copies of data row `r` are.
#[derive(Debug)]
enum CopyRows {
    /// Data in row `r`, copies in row `r + half`.
    Far { half: u64 },
    /// Data in row `2r`, copies in row `2r + 1`.
    Offset,
}

/// Returns the layout with the copies in the second half of each member.
pub(super) fn far_copies(spec: &LayoutSpec) -> Result<FilledGrid<Shifted>, LayoutError> {
    let grid = row_pairs(spec)?;
    Ok(Shifted::fill(grid, CopyRows::Far { half: grid.rows / 2 }))
}

/// Returns the layout with the copies on the next row.
pub(super) fn offset_copies(spec: &LayoutSpec) -> Result<FilledGrid<Shifted>, LayoutError> {
    Ok(Shifted::fill(row_pairs(spec)?, CopyRows::Offset))
}

fn row_pairs(spec: &LayoutSpec) -> Result<Grid, LayoutError> {
    spec.require_two_rows()?;
    Ok(Grid::new(spec, StripeParts { data_strips: 1, copies: 2, parities: 0 }).of_row_pairs())
}

impl Shifted {
    fn fill(grid: Grid, copy_rows: CopyRows) -> FilledGrid<Self> {
        let members = grid.members;
        FilledGrid::new(grid, Self { members, by_members: Divisor::new(u64::from(members)), copy_rows })
    }
}

impl Filling for Shifted {
    #[inline]
    fn cell_of(&self, stripe: StripeIndex, unit: StripUnit) -> Cell {
        let (data_row, data_member) = self.by_members.split(stripe.0);
        let copy = unit.copy();
        let row = match self.copy_rows {
            CopyRows::Far { half } => data_row + u64::from(copy) * half,
            CopyRows::Offset => 2 * data_row + u64::from(copy),
        };
        let member = data_member as u16 + copy;
        Cell { row, member: if member == self.members { 0 } else { member } }
    }

    #[inline]
    fn unit_in(&self, cell: Cell) -> (StripeIndex, StripUnit) {
        let (copy, data_row) = match self.copy_rows {
            CopyRows::Far { half } if cell.row < half => (0, cell.row),
            CopyRows::Far { half } => (1, cell.row - half),
            CopyRows::Offset => ((cell.row % 2) as u16, cell.row / 2),
        };
        let data_member = if cell.member < copy { self.members - 1 } else { cell.member - copy };
        let stripe = data_row * u64::from(self.members) + u64::from(data_member);
        (StripeIndex(stripe), StripUnit::Data { strip: 0, copy })
    }

    /// Any two neighbours, the last and the first member among them, share strips; every other member may
    /// fail.
    fn failures_survived(&self, _: &StripeShape) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: self.members / 2 }
    }
}
