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
use crate::host_front::Request;
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// The runs of a discard, put together device by device.
#[derive(Debug, Default)]
pub(crate) struct Discards {
    /// The world's members take them.
    is_on: bool,
    /// The run of each device that is being put together, with no rows where there is none.
    runs: Vec<(MemberLba, u32)>,
}

impl Discards {
    /// Adds rows on a device. Returns the run before them that they do not follow on from.
    fn add(&mut self, device: MemberIndex, lba: MemberLba, rows: u32) -> Option<(MemberLba, u32)> {
        if self.runs.len() <= device.index() {
            self.runs.resize(device.index() + 1, (MemberLba::ZERO, 0));
        }
        let run = &mut self.runs[device.index()];
        if run.1 > 0 && run.0 + BlockCount(u64::from(run.1)) == lba {
            run.1 += rows;
            return None;
        }
        Some(core::mem::replace(run, (lba, rows))).filter(|(_, rows)| *rows > 0)
    }

    /// Takes the run that is left of the first device from `device` on that has one.
    fn take_left(&mut self, device: MemberIndex) -> Option<(MemberIndex, (MemberLba, u32))> {
        let mut left = self.runs.iter_mut().enumerate().skip(device.index());
        let (device, run) = left.find(|(_, (_, rows))| *rows > 0)?;
        Some((MemberIndex(device as u16), core::mem::replace(run, (MemberLba::ZERO, 0))))
    }
}

impl Controller {
    /// Passes discards on to members from now on, as far as the array can ([`Controller::passes_discards`]).
    pub fn pass_discards(&mut self) {
        self.discards.is_on = true;
    }

    /// Whether host discards reach members.
    pub fn passes_discards(&self) -> bool {
        self.discards.is_on && self.geometry.parities() == 0 && !self.checksums.is_on()
    }

    pub(crate) fn begin_discard(&mut self, tag: u32) {
        let Request { lba, blocks, .. } = self.host.request(tag);
        let is_awaited = self.cache.has_stalled() || self.cache.holds_dirty(&self.geometry, lba, blocks);
        if !self.passes_discards() || is_awaited {
            self.outbox.count_ignored_discard();
            return;
        }
        self.cache.forget(&self.geometry, lba, blocks);
        let mut walk = self.walk(tag);
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            for copy in 0..self.geometry.copies() {
                let unit = StripUnit::Data { strip: fragment.strip, copy };
                let place = self.geometry.layout().place(fragment.stripe, unit);
                let Some(device) = self.metadata.holder(place) else { continue };
                let lba = place.start + BlockCount(u64::from(fragment.rows.first));
                if let Some(before) = self.discards.add(device, lba, fragment.rows.count) {
                    self.discard_run(device, before, tag);
                }
            }
        }
        let mut device = MemberIndex(0);
        while let Some((found, run)) = self.discards.take_left(device) {
            self.discard_run(found, run, tag);
            device = found;
        }
    }

    fn discard_run(&mut self, device: MemberIndex, (lba, rows): (MemberLba, u32), tag: u32) {
        self.host.add_parts(tag, 1);
        self.member_discard(device, lba, rows, tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_on_from_each_other_on_a_device_are_one_run() {
        let mut runs = Discards::default();
        let add = |runs: &mut Discards, device, lba| runs.add(MemberIndex(device), MemberLba(lba), 4);
        assert_eq!(add(&mut runs, 2, 0), None);
        assert_eq!(add(&mut runs, 0, 8), None);
        assert_eq!(add(&mut runs, 2, 4), None, "it goes on");
        assert_eq!(add(&mut runs, 2, 16), Some((MemberLba(0), 8)), "it does not");
        let left = |runs: &mut Discards| runs.take_left(MemberIndex(0));
        assert_eq!(left(&mut runs), Some((MemberIndex(0), (MemberLba(8), 4))));
        assert_eq!(left(&mut runs), Some((MemberIndex(2), (MemberLba(16), 4))));
        assert_eq!(left(&mut runs), None);
    }
}
