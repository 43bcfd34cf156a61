//! How a level fills the grid: which cell holds which strip. The rest of a [`Layout`] follows from that and the grid.
//! ```text
//!              Filling                       Grid
//! stripe ──── cell_of ────► row, member ── start_of ──► block of the member
//!   unit ◄─── unit_in ───── row, member ◄── row_of ──── block of the member
//! ```
//! Invariants, for stripes and units within the volume: `unit_in` inverts `cell_of`, and the units of a
//! stripe are in cells of distinct members.

use super::grid::Grid;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// A strip of the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(super) row: u64,
    pub(super) member: u16,
}

/// The way in which a level fills the grid.
pub(crate) trait Filling: Send + Sync + core::fmt::Debug {
    /// Returns the cell of `unit`, which `stripe` has; `stripe` is within the volume.
    fn cell_of(&self, stripe: StripeIndex, unit: StripUnit) -> Cell;

    /// Hands out the cells of all units of `stripe`: every copy of every data strip, then the parities. To be overridden
    /// where they have more in common than the compiler sees.
    fn cells_of(&self, stripe: StripeIndex, shape: &StripeShape, mut each: impl FnMut(Cell)) {
        let StripeShape { data_strips, copies, parities, .. } = *shape;
        for strip in 0..data_strips {
            (0..copies).for_each(|copy| each(self.cell_of(stripe, StripUnit::Data { strip, copy })));
        }
        (0..parities).for_each(|parity| each(self.cell_of(stripe, StripUnit::Parity(parity))));
    }

    /// Returns the stripe and the unit that `cell` holds. A stripe past the end of the volume says that the
    /// cell is unused.
    fn unit_in(&self, cell: Cell) -> (StripeIndex, StripUnit);

    /// How many failed members the level survives: all but one of those that hold a strip, or as many as
    /// there are parities. To be overridden where strips have some of their members in common but not all.
    fn failures_survived(&self, shape: &StripeShape) -> FailuresSurvived {
        let StripeShape { data_strips, copies, parities, .. } = *shape;
        FailuresSurvived { always: copies - 1 + parities, at_best: data_strips * (copies - 1) + parities }
    }
}

/// The layout of a grid that is filled in some way.
#[derive(Debug)]
pub(crate) struct FilledGrid<F> {
    grid: Grid,
    stripes: u64,
    filling: F,
}

impl<F: Filling> FilledGrid<F> {
    pub(super) fn new(grid: Grid, filling: F) -> Self {
        Self { grid, stripes: grid.stripe_count(), filling }
    }
}

impl<F: Filling> Layout for FilledGrid<F> {
    fn shape(&self) -> StripeShape {
        self.grid.shape
    }

    fn member_count(&self) -> u16 {
        self.grid.members
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.stripes)
    }

    #[inline]
    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        assert!(stripe.0 < self.stripes, "stripe {stripe} is past the last of {} stripes", self.stripes);
        assert!(self.grid.shape.has(unit), "{unit:?} is not in a stripe of {:?}", self.grid.shape);
        let Cell { row, member } = self.filling.cell_of(stripe, unit);
        UnitPlace { member: MemberIndex(member), start: self.grid.start_of(row) }
    }

    fn places(&self, stripe: StripeIndex, out: &mut Vec<UnitPlace>) {
        assert!(stripe.0 < self.stripes, "stripe {stripe} is past the last of {} stripes", self.stripes);
        out.clear();
        out.reserve(self.grid.shape.unit_count() as usize);
        self.filling.cells_of(stripe, &self.grid.shape, |Cell { row, member }| {
            out.push(UnitPlace { member: MemberIndex(member), start: self.grid.start_of(row) });
        });
    }

    #[inline]
    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        let (stripe, unit) = self.filling.unit_in(Cell { row, member: member.0 });
        (stripe.0 < self.stripes).then_some((stripe, unit, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        self.filling.failures_survived(&self.grid.shape)
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
