//! Intent: what is written down before an operation changes redundancy in place, so that a crash in between can be put
//! right.
//!
//! ```text
//!   computed ─► admit ─► array known dirty? ─► Flag: go
//!                                            ─► Bitmap: region marked? ─────────────► go
//!                                            ─► Log: record on parities + 1 devices ─► go ─► applied ─► retired
//! ```
//! An operation that must wait keeps its granule and its staging. Levels without redundancy write nothing down, and a
//! stripe of which no parity is left has nothing that could disagree; but where blocks have tags, these could, so
//! that both do as the others. The stripe does, too, while an older record of it may be written again.
//!
//! Source of the two methods: Linux md's write-intent bitmap (drivers/md/md-bitmap.c) and its journal (raid5-cache.c);
//! the log here is replicated on the members instead of standing on a device of its own.

use crate::bitmap::Bitmap;
use crate::controller::Controller;
use crate::log::Log;
use crate::metadata::SuperblockWaiter;
use crate::table::NIL;

/// What is written down, by the level and the configured policy.
#[derive(Debug)]
pub(crate) enum Intent {
    /// Nothing: no redundancy, or nothing is kept on the devices.
    Nothing,
    /// That the array is in use.
    Flag,
    /// Which regions are being written.
    Bitmap(Box<Bitmap>),
    /// What is being written.
    Log(Box<Log>),
}

impl Controller {
    /// Lets an operation write in place, at once or when what must be written down before is.
    pub(crate) fn admit(&mut self, id: u32) {
        self.give_parity_up(id);
        let is_forgotten = self.metadata.is_frozen() && !self.metadata.is_kept();
        if is_forgotten || self.metadata.touches_lost(&self.geometry, self.ops[id].key) {
            // Nothing would be acknowledged. What it relies on would be forgotten, or the device that is lost would come
            // back with redundancy of what was there before.
            return self.give_window_up(id);
        }
        // Where blocks have tags, these could disagree with the data.
        let is_bare = self.geometry.parities() > 0 && !self.writes_parity(id);
        if is_bare && !self.metadata.is_kept() {
            // After a crash parity would count as good, and a record as whole, unless the devices know what is missing or given up.
            return self.metadata.wait(SuperblockWaiter::Admission(id));
        }
        let unprotected = is_bare && !self.checksums.is_on() && !self.may_be_replayed(self.ops[id].stripe);
        if matches!(self.intent, Intent::Nothing) || unprotected {
            return self.start_writes(id);
        }
        if !self.metadata.mark_dirty() {
            return self.metadata.wait(SuperblockWaiter::Admission(id));
        }
        match self.intent {
            Intent::Nothing | Intent::Flag => self.start_writes(id),
            Intent::Bitmap(_) => self.admit_by_bitmap(id),
            Intent::Log(_) => self.admit_by_log(id),
        }
    }

    /// True if an operation writes parity that some device takes.
    fn writes_parity(&self, id: u32) -> bool {
        let op = &self.ops[id];
        let is_written = |unit: usize| op.units[unit].staging != NIL && self.metadata.holds(op.places[unit]);
        op.plan.computes_parity() && (self.geometry.data_strips()..op.units.len()).any(is_written)
    }

    /// Takes in that an operation's writes in place have ended; `stored` unless what was written can't be read back.
    ///
    /// Only a device that is lost may need what was written down: it comes back as if nothing had happened. What a medium
    /// error has taken is a bad block, and nothing would write it again.
    pub(crate) fn end_intent(&mut self, id: u32, stored: bool) {
        let stored = stored || !self.metadata.is_frozen();
        match self.intent {
            Intent::Nothing | Intent::Flag => {}
            Intent::Bitmap(_) => self.end_bitmap_write(id),
            Intent::Log(_) => self.end_log_write(id, stored),
        }
    }
}
