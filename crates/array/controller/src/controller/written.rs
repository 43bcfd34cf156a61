//! Routes: operations that must wait for their regions, and the I/Os by which these become written.

use crate::api::{IoClass, MemberError, MemberOp};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::ids::OpId;
use crate::member_io::IoOwner;
use crate::metadata::SuperblockWaiter;
use crate::own;
use crate::written::Phase;
use raidlab_format::WRITTEN_PAGE_BYTES;
use raidlab_units::{MemberIndex, MemberLba};
use std::collections::BTreeSet;

impl Controller {
    /// True if an operation must wait before it writes, or was given up, because nobody has written in its regions before.
    #[inline]
    pub(super) fn waits_for_region(&mut self, id: OpId) -> bool {
        if self.written.has_all(self.stripes.op(id).places()) {
            return false;
        }
        let is_new = !self.written.are_marked(self.stripes.op(id).places());
        if is_new && self.metadata.any_lost() {
            self.give_window_up(id);
        } else {
            // Tags that it has read are not those that it would find then.
            self.checksums.release_kept(self.stripes.op_mut(id));
            self.written.line_up(id, self.stripes.op(id).places());
        }
        true
    }

    /// Begins to initialise regions, or to give the devices pages that they may lack.
    #[inline]
    pub(super) fn pump_written(&mut self) {
        if self.written.phase() == Phase::Idle && self.written.has_work() {
            self.look_at_regions();
        }
    }

    /// Begins with a batch: looks at its unknown regions.
    #[inline(never)]
    fn look_at_regions(&mut self) {
        let strips = self.written.begin_batch();
        let starts = strips.into_iter().map(|strip| self.written.strip_start(strip));
        let places: BTreeSet<_> = starts
            .flat_map(|lba| self.geometry.places_of_stripes_at(lba))
            .map(|it| (it.start, it.member))
            .collect();
        // What is only being rebuilt may have tags of before.
        let in_sync = places.into_iter().filter_map(|(lba, role)| Some((self.metadata.in_sync(role)?, lba)));
        let in_sync = in_sync.collect();
        self.take_tags(in_sync);
    }

    /// Looks at the tags of these strips, or makes them real.
    fn take_tags(&mut self, strips: Vec<(MemberIndex, MemberLba)>) {
        let fua = self.config.member_cache == MemberCache::On;
        for (device, lba) in strips {
            self.written.begin_io();
            let extent = (device, lba, self.geometry.strip_rows());
            self.begin_check(extent, MemberOp::Write { fua }, IoClass::Host, IoOwner::Tags);
        }
        self.end_of_tags();
    }

    /// Takes in that the tags of a strip are real. If they can't be written, no block of it can be relied on.
    pub(super) fn tags_initialised(
        &mut self,
        extent: (MemberIndex, MemberLba, u32),
        result: Result<(), MemberError>,
    ) {
        // What could only not be looked at tells nothing.
        if result.is_err() && !self.written.is_looking() {
            self.rows_written(extent, result);
        }
        self.end_of_tags();
    }

    fn end_of_tags(&mut self) {
        if !self.written.end_io() {
            return;
        }
        if self.written.is_looking() {
            self.written.find_by_copies(&self.geometry);
            if !self.metadata.any_lost() {
                return self.initialise_regions();
            }
        }
        self.keep_regions();
    }

    fn initialise_regions(&mut self) {
        let strips = self.written.begin_initialising();
        let devices: Vec<_> = self.metadata.answering().collect();
        let starts = strips.into_iter().map(|strip| self.written.strip_start(strip));
        let all = starts.flat_map(|lba| devices.iter().map(move |device| (*device, lba)));
        let is_used = |(device, lba): &(MemberIndex, MemberLba)| {
            self.metadata.role(*device).is_some_and(|role| self.geometry.unit_at(role, *lba).is_some())
        };
        let used = all.filter(is_used).collect();
        self.take_tags(used);
    }

    /// Writes the map when the devices know who has left: one that came back without tags would count as in sync.
    pub(super) fn keep_regions(&mut self) {
        let only_renews = self.written.only_renews();
        if self.metadata.any_lost() && !only_renews && !self.written.keep_found() {
            return self.end_regions(false);
        }
        if !self.metadata.is_kept() && !only_renews {
            self.written.set_phase(Phase::Keeping);
            return self.metadata.wait(SuperblockWaiter::Regions);
        }
        self.written.begin_pages();
        self.send_pages();
    }

    fn send_pages(&mut self) {
        loop {
            let Self { written, metadata, own, ios, outbox, .. } = self;
            let image = own::WRITTEN_AT..own::WRITTEN_AT + WRITTEN_PAGE_BYTES;
            let page = written.next_page(metadata.array_uuid(), &mut own.bytes_mut()[image]);
            let Some((lba, blocks)) = page else { return self.end_regions(true) };
            for device in metadata.answering() {
                written.begin_io();
                ios.write_metadata(device, lba, blocks, IoOwner::WrittenPage, outbox);
            }
            if !written.end_io() {
                return;
            }
        }
    }

    /// Takes in the end of one write of a page.
    pub(super) fn page_written(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        self.fail_on_flush_error(device, result);
        if self.written.end_io() {
            self.send_pages();
        }
    }

    /// Lets those go on that waited.
    pub(super) fn end_regions(&mut self, is_kept: bool) {
        let (ops, checks) = self.written.end_batch(is_kept);
        for op in ops {
            self.admit(op);
        }
        for check in checks {
            self.check_settled(check);
        }
    }
}
