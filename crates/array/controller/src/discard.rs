//! Discards: what the host has no use for any more, passed on to members that know what to do with it.
//!
//! ```text
//! no redundancy, mirrors   each run on each device that holds it ─► MemberOp::Discard
//! parity, block checksums  nothing: what a device returns afterwards would disagree with them
//! dirty in the cache       nothing: the members are about to be written there
//! ```
//! A discard is a hint, so nothing is always right. That is what happens in any world that did not say that its members
//! take discards ([`Controller::pass_discards`]); the real ones do not, see docs/models.md.
//!
//! Copies of a mirror may differ in a range that was discarded; a check counts that, as it does on Linux md. Left out: whole
//! stripes of parity arrays over devices that return zeros for what they forgot.
//!
//! Source: Linux, drivers/md/raid0.c (`raid0_handle_discard`: one run a member), raid1.c, raid10.c; raid5.c, where
//! `devices_handle_discard_safely` is off unless the administrator vouches for the devices.

use crate::controller::Controller;
use crate::request::Request;
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// What discards need.
#[derive(Debug, Default)]
pub(crate) struct Discards {
    /// The world's members take them.
    is_on: bool,
    /// The run of each device that is being put together, with no rows where there is none.
    runs: Vec<(MemberLba, u32)>,
}

impl Controller {
    /// Passes discards on to members from now on, as far as the array can ([`Controller::passes_discards`]).
    pub fn pass_discards(&mut self) {
        self.discards.is_on = true;
    }

    /// Whether host discards reach members.
    pub fn passes_discards(&self) -> bool {
        self.discards.is_on && self.geometry.parities() == 0 && !self.tags.is_on()
    }

    pub(crate) fn begin_discard(&mut self, tag: u32) {
        let Request { lba, blocks, .. } = self.requests[tag as usize];
        let is_awaited = !self.stalled.is_empty() || self.holds_dirty(lba, blocks);
        if !self.passes_discards() || is_awaited {
            self.outbox.count_ignored_discard();
            return;
        }
        self.forget_cached(lba, blocks);
        let mut runs = core::mem::take(&mut self.discards.runs);
        let mut walk = self.walk(tag);
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            for copy in 0..self.geometry.copies() {
                let unit = StripUnit::Data { strip: fragment.strip, copy };
                let place = self.geometry.layout().place(fragment.stripe, unit);
                let Some(device) = self.members.holder(place) else { continue };
                let lba = place.start + BlockCount(u64::from(fragment.rows.first));
                if runs.len() <= device.index() {
                    runs.resize(device.index() + 1, (MemberLba::ZERO, 0));
                }
                let run = &mut runs[device.index()];
                if run.1 > 0 && run.0 + BlockCount(u64::from(run.1)) == lba {
                    run.1 += fragment.rows.count;
                    continue;
                }
                let before = core::mem::replace(run, (lba, fragment.rows.count));
                self.discard_run(device, before, tag);
            }
        }
        for (device, run) in (0..).zip(&mut runs) {
            let last = core::mem::replace(run, (MemberLba::ZERO, 0));
            self.discard_run(MemberIndex(device), last, tag);
        }
        self.discards.runs = runs;
    }

    fn discard_run(&mut self, device: MemberIndex, (lba, rows): (MemberLba, u32), tag: u32) {
        if rows > 0 {
            self.requests[tag as usize].pending += 1;
            self.member_discard(device, lba, rows, tag);
        }
    }
}
