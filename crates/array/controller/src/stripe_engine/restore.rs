//! Restoring: rows of one unit made up from the others and written to the device that should hold them.
//!
//! | level | read | written |
//! |---|---|---|
//! | copies | the rows of another copy | as they were read |
//! | parity | the rows of all other data strips, and of as many parities as strips are missing | what they add up to |
//!
//! Restores serve rebuilds and read repair (`scan/read_repair.rs`).

use super::Surroundings;
use super::op::StripeOp;
use super::plan::{BeyondRedundancy, Plan};
use super::units::UnitUse;
use crate::geometry::Geometry;
use crate::table::NIL;
use raidlab_units::BlockCount;

impl StripeOp {
    /// Whether the rows of a unit can be made up from the others.
    pub(super) fn restore_possible(&self, around: Surroundings<'_>) -> Result<Plan, BeyondRedundancy> {
        if around.geometry.parities() > 0 {
            return self.recovery_possible(around);
        }
        if self.source_copy(around).is_some() { Ok(Plan::Recover) } else { Err(BeyondRedundancy) }
    }

    /// Whether the rows of a unit may be readable.
    pub(super) fn probe_possible(&self, unit: u16) -> Result<Plan, BeyondRedundancy> {
        if self.views[usize::from(unit)].readable { Ok(Plan::Recover) } else { Err(BeyondRedundancy) }
    }

    /// The readable copy that is cheapest to read.
    fn source_copy(&self, Surroundings { geometry, metadata, ios }: Surroundings<'_>) -> Option<u16> {
        let readable = (0..geometry.copies()).filter(|&copy| self.views[usize::from(copy)].readable);
        readable.min_by_key(|&copy| {
            let place = self.places[usize::from(copy)];
            let device = metadata.holder(place).expect("readable");
            ios.loads().read_cost(device, place.start + BlockCount(u64::from(self.hull.first)), 0)
        })
    }

    /// Decides what a probe reads: the unit itself.
    pub(super) fn assign_probe(&mut self, unit: u16) {
        let Self { views, units, hull, .. } = self;
        units.clear();
        units.resize(views.len(), UnitUse::IDLE);
        let uses = &mut units[usize::from(unit)];
        (uses.read, uses.staged) = (*hull, true);
    }

    /// Decides what a restore of `target` reads.
    pub(super) fn assign_restore(&mut self, target: u16, around: Surroundings<'_>) {
        let data_strips = around.geometry.data_strips();
        let target = usize::from(target);
        let is_copied = around.geometry.parities() == 0;
        let source = if is_copied { self.source_copy(around).map(usize::from) } else { None };
        let Self { views, units, hull, .. } = self;
        units.clear();
        let mut parity_wanted = views.iter().take(data_strips).filter(|view| !view.readable).count();
        for (unit, view) in views.iter().enumerate() {
            let mut uses = UnitUse::IDLE;
            let reads = match source {
                Some(source) => unit == source,
                None if unit < data_strips => view.readable,
                None => view.readable && parity_wanted > 0,
            };
            if reads {
                uses.read = *hull;
                parity_wanted -= usize::from(unit >= data_strips && source.is_none());
            }
            uses.erased = source.is_none() && !view.readable && (unit < data_strips || unit == target);
            if unit == target {
                uses.write = *hull;
                uses.from = source.unwrap_or(target) as u16;
            }
            uses.staged = reads || (unit == target && source.is_none());
            units.push(uses);
        }
    }

    /// Bytes that the recovery of a restore takes in and gives out; none where a copy is as good.
    pub(super) fn restore_volume(&self, geometry: &Geometry) -> (u64, u64) {
        if geometry.parities() == 0 {
            return (0, 0);
        }
        let hull_bytes = u64::from(self.hull.count) * geometry.block_bytes();
        let sources = self.units.iter().filter(|unit| unit.staging != NIL && !unit.read.is_empty()).count();
        (sources as u64 * hull_bytes, hull_bytes)
    }
}
