//! Restoring: rows of one unit made up from the others and written to the device that should hold them.
//!
//! | level | read | written |
//! |---|---|---|
//! | copies | the rows of another copy | as they were read |
//! | parity | the rows of all other data strips, and of as many parities as strips are missing | what they add up to |
//!
//! Restores serve rebuilds and read repair (`scan/read_repair.rs`).

use crate::api::{MemberError, Notice};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::member_io::{HostIo, IoOwner, OpIo};
use crate::plan::{BeyondRedundancy, Plan};
use crate::scan::Purpose;
use crate::stripe_op::{OpKind, StripeOp};
use crate::table::NIL;
use crate::units::UnitUse;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

impl Controller {
    /// Takes in a medium error, before who waits for the I/O does. What a read could not get is put in line to be restored,
    /// unless the read belongs to a visit that sees to it itself.
    pub(crate) fn medium_error(&mut self, owner: IoOwner, device: MemberIndex, lba: MemberLba, rows: u32) {
        match owner {
            // It is read again strip by strip.
            IoOwner::Host(HostIo::Read { fragment, .. })
                if fragment.rows.end() > self.geometry.strip_rows() =>
            {
                return;
            }
            IoOwner::Host(HostIo::Read { .. }) | IoOwner::Fill { .. } => {}
            IoOwner::Op(OpIo::Read { op, unit }) => {
                let op = &self.ops[op];
                let target = op.target.strip == unit && op.kind.is_background();
                // Where a device is lost, two read errors of a stripe could call each other into line for ever.
                let is_chain =
                    op.kind == OpKind::Restore && self.metadata.touches_lost(&self.geometry, op.key);
                if op.kind == OpKind::Compare || target || is_chain {
                    return;
                }
            }
            _ => return,
        }
        self.repair_later(device, lba, rows);
    }

    /// Whether the rows of the target can be made up from the others; or read, for a probe.
    pub(crate) fn restore_possible(&self, id: u32) -> Result<Plan, BeyondRedundancy> {
        let op = &self.ops[id];
        let possible = match op.kind {
            OpKind::Probe => op.views[usize::from(op.target.strip)].readable,
            _ if self.geometry.parities() > 0 => return self.recovery_possible(id),
            _ => self.source_copy(id).is_some(),
        };
        if possible { Ok(Plan::Recover) } else { Err(BeyondRedundancy) }
    }

    /// The readable copy that is cheapest to read.
    fn source_copy(&self, id: u32) -> Option<u16> {
        let op = &self.ops[id];
        let readable = (0..self.geometry.copies()).filter(|&copy| op.views[usize::from(copy)].readable);
        readable.min_by_key(|&copy| {
            let place = op.places[usize::from(copy)];
            let device = self.metadata.holder(place).expect("readable");
            self.ios.read_cost(device, place.start + BlockCount(u64::from(op.hull.first)), 0)
        })
    }

    /// Decides what a restore or a probe reads.
    pub(crate) fn assign_restore(&mut self, id: u32) {
        let data_strips = self.geometry.data_strips();
        let (probes, target) = (self.ops[id].kind == OpKind::Probe, usize::from(self.ops[id].target.strip));
        let source = if probes {
            Some(target)
        } else if self.geometry.parities() == 0 {
            self.source_copy(id).map(usize::from)
        } else {
            None
        };
        let op = &mut self.ops[id];
        op.units.clear();
        let mut parity_wanted = op.views.iter().take(data_strips).filter(|view| !view.readable).count();
        for (unit, view) in op.views.iter().enumerate() {
            let mut uses = UnitUse::IDLE;
            let reads = match source {
                Some(source) => unit == source,
                None if unit < data_strips => view.readable,
                None => view.readable && parity_wanted > 0,
            };
            if reads {
                uses.read = op.hull;
                parity_wanted -= usize::from(unit >= data_strips && source.is_none());
            }
            uses.erased = source.is_none() && !view.readable && (unit < data_strips || unit == target);
            if unit == target && !probes {
                uses.write = op.hull;
                uses.from = source.unwrap_or(target) as u16;
            }
            uses.staged = reads || (unit == target && source.is_none());
            op.units.push(uses);
        }
    }

    /// Writes what an operation in the background has to write.
    pub(crate) fn start_rewrites(&mut self, id: u32) {
        let StripeOp { kind, key, .. } = self.ops[id];
        if kind == OpKind::Compare && self.metadata.touches_lost(&self.geometry, key) {
            // Nothing may change there any more: the lost device comes back as if nothing had happened.
            return self.finish_op(id, false);
        }
        self.ops[id].pending = 1;
        let class = self.ops[id].class.expect("set when the operation was made");
        // Nothing will resync the stripe once more.
        let syncs = self.scan.purpose(self.ops[id].target.request).syncs();
        let fua = syncs && self.config.member_cache == MemberCache::On;
        for unit in 0..self.geometry.lock_units() {
            let rows = self.ops[id].units[usize::from(unit)].write;
            let Some(device) = self.rewrite_device(id, unit).filter(|_| !rows.is_empty()) else { continue };
            let place = self.ops[id].places[usize::from(unit)];
            self.ops[id].pending += 1;
            self.device_write(device, place, rows, class, fua, IoOwner::Op(OpIo::Rewrite { op: id, unit }));
        }
        self.end_of_rewrites(id);
    }

    /// The device that takes what is written to a unit: for a restore that of the visit, while it plays the role.
    fn rewrite_device(&self, id: u32, unit: u16) -> Option<MemberIndex> {
        let op = &self.ops[id];
        let place = op.places[usize::from(unit)];
        if op.kind == OpKind::Compare {
            return self.metadata.holder(place);
        }
        let device = self.scan.device(op.target.request);
        (self.metadata.player(place.member) == Some(device)).then_some(device)
    }

    /// Takes in the end of a write of an operation in the background.
    pub(crate) fn op_rewrite_done(
        &mut self,
        id: u32,
        unit: u16,
        device: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        let op = &self.ops[id];
        let (visit, rows) = (op.target.request, op.units[usize::from(unit)].write);
        if result.is_ok() {
            self.scan.count(visit, |counts| counts.rewritten_rows += u64::from(rows.count));
            let unreadable = !self.ops[id].views[usize::from(unit)].readable;
            if unreadable && self.scan.purpose(visit) != Purpose::Rebuild {
                let place = self.ops[id].places[usize::from(unit)];
                let lba = place.start + BlockCount(u64::from(rows.first));
                let blocks = BlockCount(u64::from(rows.count));
                self.outbox.notify(Notice::Restored { member: device, lba, blocks });
            }
        }
        self.end_of_rewrites(id);
    }

    fn end_of_rewrites(&mut self, id: u32) {
        self.ops[id].pending -= 1;
        if self.ops[id].pending == 0 {
            self.finish_op(id, true);
        }
    }

    /// Bytes that the recovery of a restore takes in and gives out; none where a copy is as good.
    pub(crate) fn restore_volume(&self, id: u32) -> (u64, u64) {
        let op = &self.ops[id];
        if self.geometry.parities() == 0 || op.kind == OpKind::Probe {
            return (0, 0);
        }
        let hull_bytes = u64::from(op.hull.count) * self.geometry.block_bytes();
        let sources = op.units.iter().filter(|unit| unit.staging != NIL && !unit.read.is_empty()).count();
        (sources as u64 * hull_bytes, hull_bytes)
    }
}
