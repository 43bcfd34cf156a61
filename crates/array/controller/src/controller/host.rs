//! Routes: requests of the host, their reads, writes through, flushes and discards.
//!
//! `HostFront` owns the requests and ends them, `MemberIos` chooses the copy to read, `Metadata` knows what can be stored, and
//! `Discards` joins the runs of a discard.

use crate::api::{HostError, HostOp, HostRequest, HostTag, IoClass, MemberError};
use crate::config::{IoPolicy, MemberCache};
use crate::controller::Controller;
use crate::host_front::Request;
use crate::ids::{LockKey, OpId};
use crate::member_io::{HostIo, IoOwner};
use crate::request::{CopySet, Fragment, FragmentWalk};
use crate::stripe_engine::Job;
use crate::stripe_locks::WaitKind;
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

impl Controller {
    pub(super) fn begin_request(&mut self, request: HostRequest) {
        let tag = request.tag;
        let volume_blocks = self.volume_blocks();
        if !self.host.begin(&request, volume_blocks, &mut self.outbox) {
            return;
        }
        match request.op {
            HostOp::Read => self.begin_read(tag),
            HostOp::Write { fua } => self.begin_write(tag, fua),
            HostOp::Flush => self.begin_flush(tag),
            HostOp::Discard => self.begin_discard(tag),
        }
        self.end_part(tag, Ok(()));
    }

    /// Ends one part of a request, and the request with its last part.
    #[inline]
    pub(super) fn end_part(&mut self, tag: HostTag, result: Result<(), HostError>) {
        let Some(ended) = self.host.end_part(tag, result, &mut self.outbox) else { return };
        if ended.through {
            // Fills that read the old data while the write was under way must not outlive it.
            self.cache.forget(&self.geometry, ended.lba, ended.blocks);
        }
        if let Some(stream) = ended.stream {
            self.cache.note_read_ended(stream, ended.lba.0 + ended.blocks.0);
        }
    }

    pub(super) fn walk(&self, tag: HostTag) -> FragmentWalk {
        let request = self.host.request(tag);
        self.geometry.walk(tag, request.lba, request.blocks)
    }

    fn begin_read(&mut self, tag: HostTag) {
        let Request { lba, blocks, .. } = self.host.request(tag);
        let mut walk = if self.reads_runs() { self.walk(tag).in_runs() } else { self.walk(tag) };
        let mut copies = None;
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            if self.cache.is_empty() {
                self.read_missing(fragment);
            } else {
                self.read_through_cache(fragment, &mut copies);
            }
        }
        if let Some(task) = copies {
            self.host.add_parts(tag, 1);
            self.tasks.start_copies(task, &mut self.outbox);
        }
        self.read_ahead(tag, lba, blocks);
    }

    /// Reads a fragment that the cache does not hold.
    pub(super) fn read_missing(&mut self, fragment: Fragment) {
        if self.config.cache.io_policy == IoPolicy::Cached && self.fill_for(fragment) {
            return;
        }
        self.host.add_parts(fragment.request, 1);
        self.read_from_members(fragment, CopySet::NONE);
    }

    /// Reads a fragment from the best copy that was not tried yet; by recovery if there is none. When all have been
    /// tried in vain the rows are read one by one, because copies seldom have the same bad blocks; and what can't be read
    /// that way is tried once more, because one that failed first may have been restored while others were tried, and bad blocks
    /// that are only unreadable are tried, too. In
    /// this last round the fragment has its stripe locked: else one could fail again before its turn comes.
    pub(super) fn read_from_members(&mut self, fragment: Fragment, tried: CopySet) {
        if self.metadata.any_out_of_sync() && !tried.is_last_round() {
            let key = self.geometry.lock_key(&fragment);
            if self.metadata.needs_resync(&self.geometry, key) || self.is_being_synced(key) {
                return self.sync_before(key, WaitKind::Read, fragment);
            }
        }
        match self.ios.loads().best_copy(&fragment, tried, (&self.geometry, &self.metadata)) {
            Some((copy, place)) => {
                let owner = IoOwner::Host(HostIo::Read { fragment, tried: tried.with(copy) });
                self.member_read(place, fragment.rows, IoClass::Host, owner);
            }
            None if self.geometry.parities() > 0 && !tried.is_last_round() => self.recover(fragment),
            None if fragment.rows.count > 1 && (tried != CopySet::NONE || self.metadata.any_bad()) => {
                self.read_row_by_row(fragment);
            }
            None if (tried != CopySet::NONE || self.metadata.any_bad()) && !tried.is_last_round() => {
                if self.lock_or_wait(self.geometry.lock_key(&fragment), WaitKind::LastRound, fragment) {
                    self.read_from_members(fragment, CopySet::LAST_ROUND);
                }
            }
            None => {
                let lba = self.geometry.fragment_lba(&fragment);
                self.end_host_read(fragment, tried, Err(HostError::DataLost { lba }));
            }
        }
    }

    /// Ends a part that was read from members, and its hold on the stripe after the last round.
    fn end_host_read(&mut self, fragment: Fragment, tried: CopySet, result: Result<(), HostError>) {
        self.end_part(fragment.request, result);
        if tried.is_last_round() {
            self.unlock(self.geometry.lock_key(&fragment));
        }
    }

    /// Reads the rows of a fragment one by one.
    pub(super) fn read_row_by_row(&mut self, fragment: Fragment) {
        self.read_in_parts(fragment.request, fragment.single_rows(self.geometry.block_bytes()));
    }

    /// Reads the parts of a fragment, one part of its request, as parts of their own.
    fn read_in_parts(&mut self, request: HostTag, parts: impl ExactSizeIterator<Item = Fragment>) {
        self.host.add_parts(request, parts.len() as u32 - 1);
        parts.for_each(|part| self.read_from_members(part, CopySet::NONE));
    }

    /// True where the host reads past the rows that are locked, as far as data stands in one piece on a member: what is read in
    /// place needs no lock while nothing is missing. No lock, recovery or cache ever sees a fragment that long.
    /// Source: Linux `drivers/md/raid5.c`, `chunk_aligned_read`, which is for arrays that are not degraded.
    fn reads_runs(&self) -> bool {
        self.config.cache.rules.row.is_some()
            && self.config.cache.is_passed_by()
            && self.cache.is_empty()
            && !self.metadata.any_incomplete()
            && !self.metadata.any_bad()
            && !self.metadata.any_out_of_sync()
    }

    /// Takes in the end of a member I/O of a request.
    pub(super) fn host_io_ended(
        &mut self,
        io: HostIo,
        extent: (MemberIndex, MemberLba, u32),
        result: Result<(), MemberError>,
    ) {
        match io {
            HostIo::Read { fragment, tried } => {
                if tried.is_last_round() && result.is_ok() {
                    self.metadata.rows_read_again(extent, &mut self.outbox);
                }
                self.host_read_done(fragment, tried, result);
            }
            HostIo::Write { fragment } => {
                self.rows_written(extent, result);
                let lba = self.geometry.fragment_lba(&fragment);
                match result {
                    // A bad block that it has healed is one until the devices know.
                    Ok(()) => self.end_part_when_kept(fragment.request),
                    Err(_) => self.end_part(fragment.request, Err(HostError::ArrayFailed { lba })),
                }
            }
            HostIo::Flush { request } => {
                self.fail_on_flush_error(extent.0, result);
                self.end_flush_part(request);
            }
            // A hint: what a member makes of it changes nothing.
            HostIo::Discard { request } => self.end_part(request, Ok(())),
        }
    }

    /// Takes in the end of a read into the host's buffer; a failed one is tried elsewhere.
    fn host_read_done(&mut self, fragment: Fragment, tried: CopySet, result: Result<(), MemberError>) {
        match result {
            Ok(()) => self.end_host_read(fragment, tried, Ok(())),
            Err(MemberError::Gone | MemberError::Medium)
                if fragment.rows.end() > self.geometry.strip_rows() =>
            {
                let (strip_rows, block_bytes) = (self.geometry.strip_rows(), self.geometry.block_bytes());
                self.read_in_parts(fragment.request, fragment.strips(strip_rows, block_bytes));
            }
            Err(MemberError::Gone | MemberError::Medium) => self.read_from_members(fragment, tried),
        }
    }

    fn recover(&mut self, fragment: Fragment) {
        let key = self.geometry.lock_key(&fragment);
        if self.lock_or_wait(key, WaitKind::Recover, fragment) {
            self.launch_recovery(key, fragment);
        }
    }

    /// Locks a stripe, and has it resynced first where it must be. Returns false when `fragment` waits for it.
    pub(super) fn lock_or_wait(&mut self, key: LockKey, kind: WaitKind, fragment: Fragment) -> bool {
        if self.metadata.needs_resync(&self.geometry, key) {
            self.sync_before(key, kind, fragment);
            return false;
        }
        if !self.stripe_locks.lock(key) {
            self.stripe_locks.wait(key, kind, fragment);
            self.look_at_awaited(key);
            return false;
        }
        true
    }

    /// Puts `fragment` in line for a stripe that is to be resynced first, and begins with that if it is free.
    fn sync_before(&mut self, key: LockKey, kind: WaitKind, fragment: Fragment) {
        let was_free = self.stripe_locks.lock(key);
        self.stripe_locks.wait(key, kind, fragment);
        if was_free {
            self.resync_stripe(key);
        } else {
            self.look_at_awaited(key);
        }
    }

    fn launch_recovery(&mut self, key: LockKey, fragment: Fragment) {
        let id = self.new_op(key, fragment.stripe, Job::Recover(fragment), IoClass::Host);
        self.launch_op(id);
    }

    fn begin_write(&mut self, tag: HostTag, fua: bool) {
        let Request { lba, blocks, .. } = self.host.request(tag);
        let in_pieces = self.writes_back() && self.cache_has_room();
        if let Some(lba) = self.metadata.first_unstorable(&self.geometry, self.walk(tag), in_pieces) {
            // Nothing is taken into the cache that could only be lost there.
            self.host.fail(tag, HostError::ArrayFailed { lba });
        } else if in_pieces {
            let durable = fua && !self.cache.survives_power_loss();
            self.cache.begin_write(tag, durable, &mut self.host);
        } else if self.cache.has_stalled() || self.cache.holds_dirty(&self.geometry, lba, blocks) {
            // Older data of these blocks is on its way to the members, or older writes wait until no write goes
            // through; order is kept by going the same way.
            self.cache.begin_write(tag, true, &mut self.host);
        } else {
            self.cache.forget(&self.geometry, lba, blocks);
            self.write_through(tag);
        }
    }

    /// Writes what has no place in the cache of a request to the members.
    pub(super) fn write_through(&mut self, tag: HostTag) {
        self.host.begin_through(tag);
        let fua = self.host.is_forced(tag) && self.config.member_cache == MemberCache::On;
        let Request { lba, placed, .. } = self.host.request(tag);
        let mut walk = self.walk(tag).skip(BlockCount(placed), lba);
        let mut begun: Option<(LockKey, OpId)> = None;
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            self.host.add_parts(tag, 1);
            if self.geometry.parities() == 0 && self.geometry.copies() == 1 && !self.checksums.is_on() {
                self.write_plain(fragment, fua);
                continue;
            }
            let key = self.geometry.lock_key(&fragment);
            if self.coalescing.is_on() {
                self.collect_fragment(key, &fragment, fua);
                continue;
            }
            if let Some((begun_key, op)) = begun {
                if begun_key == key {
                    self.stripes.op_mut(op).add_fragment(&fragment, fua);
                    continue;
                }
                self.launch_op(op);
            }
            begun = self.begin_through(key, &fragment, fua).map(|op| (key, op));
        }
        if let Some((_, op)) = begun {
            self.launch_op(op);
        }
    }

    /// Lets a fragment of a write through collect in its stripe, or stand in line for it.
    fn collect_fragment(&mut self, key: LockKey, fragment: &Fragment, fua: bool) {
        let (coalescing, mut around) = self.coalescing();
        if coalescing.join(key, fragment, fua, &mut around) {
            return;
        }
        if let Some(op) = self.begin_through(key, fragment, fua) {
            let (coalescing, mut around) = self.coalescing();
            coalescing.begin(op, fragment, &mut around);
        }
    }

    /// Begins an operation with a fragment of a write through, or puts that in line.
    fn begin_through(&mut self, key: LockKey, fragment: &Fragment, fua: bool) -> Option<OpId> {
        if !self.lock_or_wait(key, WaitKind::Write, *fragment) {
            return None;
        }
        let op = self.new_op(key, fragment.stripe, Job::Write, IoClass::Host);
        self.stripes.op_mut(op).add_fragment(fragment, fua);
        Some(op)
    }

    fn write_plain(&mut self, fragment: Fragment, fua: bool) {
        let unit = StripUnit::Data { strip: fragment.strip, copy: 0 };
        let place = self.geometry.layout().place(fragment.stripe, unit);
        if self.metadata.holds(place) {
            self.member_write(
                place,
                fragment.rows,
                IoClass::Host,
                fua,
                IoOwner::Host(HostIo::Write { fragment }),
            );
        } else {
            let lba = self.geometry.fragment_lba(&fragment);
            self.end_part(fragment.request, Err(HostError::ArrayFailed { lba }));
        }
    }

    /// Ends an operation's hold on its stripe and starts what waits for it.
    pub(super) fn unlock(&mut self, key: LockKey) {
        if self.metadata.needs_resync(&self.geometry, key) {
            return self.resync_stripe(key);
        }
        while let Some(first) = self.stripe_locks.peek_waiter(key) {
            self.stripe_locks.pop_waiter(key);
            let fragment = first.fragment;
            match first.kind {
                WaitKind::Recover => return self.launch_recovery(key, fragment),
                WaitKind::Write => return self.launch_from_line(key, fragment),
                WaitKind::Visit(visit) => return self.start_visit(visit),
                WaitKind::LastRound => return self.read_from_members(fragment, CopySet::LAST_ROUND),
                // It waited for the stripe to be in sync, and needs no lock.
                WaitKind::Read => self.read_from_members(fragment, CopySet::NONE),
            }
        }
        if self.stripe_locks.unlock(key) {
            self.cache.destage_first(key);
        }
    }

    /// Writes a fragment and those that wait behind it, up to the first that overlaps: the order of overlapping
    /// writes is theirs. A controller that does not coalesce takes only those of the same request.
    fn launch_from_line(&mut self, key: LockKey, first: Fragment) {
        let op = self.new_op(key, first.stripe, Job::Write, IoClass::Host);
        let mut next = Some(first);
        while let Some(fragment) = next.take() {
            let fua = self.host.is_forced(fragment.request);
            let op = self.stripes.op_mut(op);
            op.add_fragment(&fragment, fua && self.config.member_cache == MemberCache::On);
            let Some(waiter) = self.stripe_locks.peek_waiter(key) else { break };
            let is_own = waiter.fragment.request == first.request;
            if waiter.kind == WaitKind::Write && self.coalescing.joins_from_line(op, &waiter.fragment, is_own)
            {
                self.stripe_locks.pop_waiter(key);
                next = Some(waiter.fragment);
            }
        }
        if !self.coalescing.collects_on(op, &mut self.stripe_locks, &self.stripes) {
            self.start_through(op);
        }
    }

    // Discards.

    /// Passes discards on to members from now on, as far as the array can ([`Controller::passes_discards`]).
    pub const fn pass_discards(&mut self) {
        self.discards.turn_on();
    }

    /// Whether host discards reach members.
    pub fn passes_discards(&self) -> bool {
        self.discards.is_on() && self.geometry.parities() == 0 && !self.checksums.is_on()
    }

    fn begin_discard(&mut self, tag: HostTag) {
        let Request { lba, blocks, .. } = self.host.request(tag);
        let is_awaited = self.cache.has_stalled() || self.cache.holds_dirty(&self.geometry, lba, blocks);
        if !self.passes_discards() || is_awaited {
            self.outbox.count_ignored_discard();
            return;
        }
        self.cache.forget(&self.geometry, lba, blocks);
        let runs = self.discards.take_runs(self.walk(tag), &self.geometry, &self.metadata);
        self.host.add_parts(tag, runs.len() as u32);
        for run in &runs {
            self.member_discard(*run, tag);
        }
        self.discards.give_back(runs);
    }

    // Flushes.

    pub(super) fn begin_flush(&mut self, tag: HostTag) {
        self.host.add_parts(tag, 1);
        self.coalescing.end_holds();
        let up_to = self.cache.next_sequence();
        self.host.line_up_flush(tag, up_to);
    }

    /// Moves host flushes on whose dirty blocks have all been destaged, or survive power loss where they are.
    #[inline]
    pub(super) fn pump_flushes(&mut self) {
        if self.host.has_flushes() {
            self.move_flushes_on();
        }
    }

    #[inline(never)]
    fn move_flushes_on(&mut self) {
        while let Some((tag, up_to)) = self.host.first_flush() {
            if self.cache.flush_waits(up_to) {
                return;
            }
            self.host.take_flush();
            let lost = self.cache.promise_flush(up_to);
            if self.config.member_cache == MemberCache::On {
                let flushes = self.flush_members(IoOwner::Host(HostIo::Flush { request: tag }));
                self.host.add_parts(tag, flushes);
            }
            match lost {
                Some(lba) => self.end_part(tag, Err(HostError::ArrayFailed { lba })),
                None => self.end_flush_part(tag),
            }
        }
    }

    /// Ends one part of a flush. A device that is lost may have taken acknowledged data into its own cache, and nobody can
    /// tell it to keep that.
    pub(super) fn end_flush_part(&mut self, tag: HostTag) {
        if self.lost_device_is_volatile() {
            let lba = self.host.request(tag).lba;
            self.end_part(tag, Err(HostError::ArrayFailed { lba }));
        } else {
            self.end_part_when_kept(tag);
        }
    }
}
