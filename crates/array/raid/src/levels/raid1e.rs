//! RAID 1E: striped mirroring over any number of members; a stripe is one strip in two copies. In the *near*
//! layout each strip and its copy lie at neighbouring places, counted along the rows:
//! ```text
//! row   m0    m1    m2
//!  0    D0    D0'   D1
//!  1    D1'   D2    D2'
//! ```
//! Copy `c` of stripe `s` is at place `2s + c`; place `p` is row `p / members` of member `p % members`. With
//! an even number of members this is RAID 10 with other stripes. When rows times members is odd, the last
//! place stays unused. The *offset* and *far* layouts are drawn in `shifted.rs`.
//!
//! Source: near and offset are the "integrated adjacent" and "integrated offset stripe mirroring" that SNIA's
//! Common RAID Disk Data Format 2.0 knows as RAID-1E, and with far they are Linux md's raid10 with two
//! copies, which takes any number of members in all three (drivers/md/raid10.c; `DDF_RAID1E_*` in mdadm's
//! super-ddf.c). DDF knows no far copies; the level has them because md makes them over odd numbers of
//! members, too.

use super::filling::{Cell, FilledGrid, Filling};
use super::grid::{Divisor, Grid, StripeParts};
use super::shifted::{far_copies, offset_copies};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape};
use crate::level::MirrorLayout;
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::StripeIndex;

/// Returns the layout of RAID 1E.
pub(crate) fn raid1e(spec: &LayoutSpec) -> Result<Box<dyn Layout>, LayoutError> {
    spec.require_members(3..=u16::MAX)?;
    spec.require_no_spans()?;
    spec.require_no_rotation()?;
    Ok(match spec.level.mirror_layout {
        MirrorLayout::Near => {
            let grid = Grid::new(spec, StripeParts { data_strips: 1, copies: 2, parities: 0 });
            Box::new(FilledGrid::new(grid, Neighbours::over(spec.members)))
        }
        MirrorLayout::Far => Box::new(far_copies(spec)?),
        MirrorLayout::Offset => Box::new(offset_copies(spec)?),
    })
}

/// The two copies of each strip at neighbouring places.
#[derive(Debug)]
struct Neighbours {
    members: u16,
    by_members: Divisor,
}

impl Neighbours {
    fn over(members: u16) -> Self {
        Self { members, by_members: Divisor::new(u64::from(members)) }
    }
}

impl Filling for Neighbours {
    #[inline]
    fn cell_of(&self, stripe: StripeIndex, unit: StripUnit) -> Cell {
        let (row, member) = self.by_members.split(2 * stripe.0 + u64::from(unit.copy()));
        Cell { row, member: member as u16 }
    }

    #[inline]
    fn unit_in(&self, cell: Cell) -> (StripeIndex, StripUnit) {
        let place = cell.row * u64::from(self.members) + u64::from(cell.member);
        (StripeIndex(place / 2), StripUnit::Data { strip: 0, copy: (place % 2) as u16 })
    }

    /// Any two neighbours, the last and the first member among them when their number is odd, share a strip.
    fn failures_survived(&self, _: &StripeShape) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: self.members / 2 }
    }
}
