//! Discards: what the host has no use for any more, passed on to members that know what to do with it.
//!
//! ```text
//! no redundancy, mirrors   each run on each device that holds it ─► MemberOp::Discard
//! parity, block checksums  nothing: what a device returns afterwards would disagree with them
//! dirty in the cache       nothing: the members are about to be written there
//! ```
//! A discard is a hint, so nothing is always right. That is what happens in any world that did not say that its members
//! take discards ([`crate::Controller::pass_discards`]); the real ones do not, see docs/models.md.
//!
//! Copies of a mirror may differ in a range that was discarded; a check counts that, as it does on Linux md. Left out: whole
//! stripes of parity arrays over devices that return zeros for what they forgot.
//!
//! Source: Linux, drivers/md/raid0.c (`raid0_handle_discard`: one run a member), raid1.c, raid10.c; raid5.c, where
//! `devices_handle_discard_safely` is off unless the administrator vouches for the devices.

use crate::geometry::Geometry;
use crate::metadata::Metadata;
use crate::request::FragmentWalk;
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Consecutive blocks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) device: MemberIndex,
    pub(crate) lba: MemberLba,
    pub(crate) rows: u32,
}

/// The runs of a discard, put together device by device.
#[derive(Debug, Default)]
pub(crate) struct Discards {
    /// The world's members take them.
    is_on: bool,
    /// The run of each device that is being put together, with no rows where there is none.
    open: Vec<Run>,
    /// Runs that are complete.
    runs: Vec<Run>,
}

impl Discards {
    /// Takes in that the world's members take discards.
    pub(crate) const fn turn_on(&mut self) {
        self.is_on = true;
    }

    /// True if the world's members take discards.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// The runs of what `walk` passes, on all devices that hold it. They are to be given back.
    pub(crate) fn take_runs(
        &mut self,
        mut walk: FragmentWalk,
        geometry: &Geometry,
        metadata: &Metadata,
    ) -> Vec<Run> {
        while let Some(fragment) = walk.next(geometry.layout()) {
            for copy in 0..geometry.copies() {
                let unit = StripUnit::Data { strip: fragment.strip, copy };
                let place = geometry.layout().place(fragment.stripe, unit);
                let Some(device) = metadata.holder(place) else { continue };
                let lba = place.start + BlockCount(u64::from(fragment.rows.first));
                self.add(Run { device, lba, rows: fragment.rows.count });
            }
        }
        self.end_runs();
        core::mem::take(&mut self.runs)
    }

    /// Takes the memory of runs back.
    pub(crate) fn give_back(&mut self, mut runs: Vec<Run>) {
        runs.clear();
        self.runs = runs;
    }

    /// Completes the runs of all devices.
    fn end_runs(&mut self) {
        self.runs.extend(self.open.drain(..).filter(|run| run.rows > 0));
    }

    /// Adds blocks to the run of their device, or begins another there.
    fn add(&mut self, run: Run) {
        for device in self.open.len()..=run.device.index() {
            self.open.push(Run { device: MemberIndex(device as u16), lba: MemberLba::ZERO, rows: 0 });
        }
        let open = &mut self.open[run.device.index()];
        if open.lba + BlockCount(u64::from(open.rows)) == run.lba {
            // One without rows begins anew there.
            open.rows += run.rows;
        } else {
            self.runs.extend(Some(core::mem::replace(open, run)).filter(|run| run.rows > 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_on_from_each_other_on_a_device_are_one_run() {
        let run = |device, lba, rows| Run { device: MemberIndex(device), lba: MemberLba(lba), rows };
        let mut discards = Discards::default();
        for (device, lba) in [(2, 0), (0, 8), (2, 4), (2, 16)] {
            discards.add(run(device, lba, 4));
        }
        assert_eq!(discards.runs, [run(2, 0, 8)], "the next does not go on from it");
        discards.end_runs();
        assert_eq!(discards.runs, [run(2, 0, 8), run(0, 8, 4), run(2, 16, 4)]);
    }
}
