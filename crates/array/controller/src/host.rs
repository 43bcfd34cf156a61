//! The host's side: requests in, reads, writes through, flushes, completions out.

use crate::api::{HostError, HostOp, HostRequest, HostTag, IoClass, MemberError};
use crate::cache::{Slot, SlotState};
use crate::config::{IoPolicy, MemberCache};
use crate::controller::Controller;
use crate::granule::WaitKind;
use crate::io::{IoOwner, Move, TaskOwner};
use crate::request::{CopySet, Fragment, FragmentWalk, Request, Rows};
use crate::stripe_op::{OpKind, Piece};
use crate::table::NIL;
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, Lba};

/// Strips on a member that a stream may pass over and still go on there.
const STREAM_GAP_STRIPS: u64 = 2;

impl Controller {
    pub(crate) fn begin_request(&mut self, request: HostRequest) {
        let tag = request.tag.0;
        if self.requests.len() <= tag as usize {
            self.requests.resize(tag as usize + 1, Request::IDLE);
        }
        assert!(!self.requests[tag as usize].active, "host tag {tag} is still in use");
        if let (HostOp::Read | HostOp::Write { .. } | HostOp::Discard, Err(error)) =
            (request.op, self.check_range(&request))
        {
            self.outbox.complete(request.tag, Err(error));
            return;
        }
        // One part stands for the hand-out itself, so that no request ends half handed out.
        self.requests[tag as usize] = Request {
            active: true,
            op: request.op,
            lba: request.lba,
            blocks: request.blocks,
            pending: 1,
            ..Request::IDLE
        };
        match request.op {
            HostOp::Read => self.begin_read(tag),
            HostOp::Write { fua } => self.begin_write(tag, fua),
            HostOp::Flush => self.begin_flush(tag),
            HostOp::Discard => self.begin_discard(tag),
        }
        self.end_part(tag, Ok(()));
    }

    fn check_range(&self, request: &HostRequest) -> Result<(), HostError> {
        let HostRequest { lba, blocks, .. } = *request;
        let volume_blocks = self.volume_blocks();
        let end = lba.checked_add(blocks);
        if blocks == BlockCount::ZERO || end.is_none_or(|end| end.0 > volume_blocks.0) {
            return Err(HostError::OutOfRange { lba, blocks, volume_blocks });
        }
        Ok(())
    }

    /// Ends one part of a request, and the request with its last part.
    pub(crate) fn end_part(&mut self, tag: u32, result: Result<(), HostError>) {
        let request = &mut self.requests[tag as usize];
        if let Err(error) = result {
            request.error.get_or_insert(error);
        }
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        let through = request.through;
        let (lba, blocks, error) = (request.lba, request.blocks, request.error);
        request.active = false;
        if through {
            self.through_in_flight -= 1;
            // Fills that read the old data while the write was under way must not outlive it.
            self.forget_cached(lba, blocks);
        }
        let result = error.map_or(Ok(()), Err);
        self.outbox.complete(HostTag(tag), result);
    }

    pub(crate) fn walk(&self, tag: u32) -> FragmentWalk {
        let request = &self.requests[tag as usize];
        FragmentWalk::new(
            tag,
            request.lba,
            request.blocks,
            self.geometry.block_bytes(),
            self.geometry.strip_rows(),
        )
    }

    fn begin_read(&mut self, tag: u32) {
        let Request { lba, blocks, .. } = self.requests[tag as usize];
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
            self.requests[tag as usize].pending += 1;
            self.start_copies(task);
        }
        self.read_ahead(lba, blocks);
    }

    /// Serves what the cache has of a fragment from it, and reads the runs that it has not.
    fn read_through_cache(&mut self, fragment: Fragment, copies: &mut Option<u32>) {
        let mut row = fragment.rows.first;
        let mut missing_from = row;
        while row < fragment.rows.end() {
            let block = self.geometry.cache_block_at(&fragment, row);
            let rows_end = block.rows_end.min(fragment.rows.end());
            let wanted = block.mask(row, rows_end);
            let Some(slot) = self.cache.lookup(block.key) else {
                row = rows_end;
                continue;
            };
            if self.cache[slot].state == SlotState::Filling {
                self.read_run(&fragment, missing_from, row);
                self.wait_for_fill(
                    slot,
                    fragment.part(Rows::between(row, rows_end), self.geometry.block_bytes()),
                );
                row = rows_end;
                missing_from = row;
                continue;
            }
            // Runs of blocks that the slot holds, that only its shadow holds, and that neither holds take turns.
            let Slot { valid, .. } = self.cache[slot];
            let shadow = self.cache.shadow(slot);
            let shadowed = if shadow == NIL { 0 } else { self.cache[shadow].valid & !valid };
            let bit = block.bit(row);
            let (source, held) = if shadowed >> bit & 1 == 1 { (shadow, shadowed) } else { (slot, valid) };
            let (held, any) = ((held & wanted) >> bit, ((valid | shadowed) & wanted) >> bit);
            let run = if held & 1 == 1 { held.trailing_ones() } else { any.trailing_zeros() };
            let run_end = rows_end.min(row + run);
            if held & 1 == 1 {
                // The copy pins the slot before the read before it looks for slots to fill.
                let part = fragment.part(Rows::between(row, run_end), self.geometry.block_bytes());
                self.copy_out(source, block.byte(row, self.geometry.block_bytes()), part, copies);
                self.read_run(&fragment, missing_from, row);
                missing_from = run_end;
            }
            row = run_end;
        }
        self.read_run(&fragment, missing_from, fragment.rows.end());
    }

    fn read_run(&mut self, fragment: &Fragment, first: u32, end: u32) {
        if first < end {
            self.read_missing(fragment.part(Rows::between(first, end), self.geometry.block_bytes()));
        }
    }

    fn copy_out(&mut self, slot: u32, slot_byte: u64, part: Fragment, copies: &mut Option<u32>) {
        let owner = TaskOwner::CopyOut { request: part.request };
        let task = *copies.get_or_insert_with(|| self.new_copies(owner));
        let bytes = u64::from(part.rows.count) * self.geometry.block_bytes();
        let from = self.cache.buffer(slot, slot_byte);
        self.outbox.count_hits(part.rows.count);
        self.tasks[task].moves.push(Move { from, to: part.host_buffer(), bytes });
        self.tasks[task].pinned.push(slot);
        self.cache.pin(slot);
        self.cache.touch(slot);
    }

    /// Reads a fragment that the cache does not hold.
    fn read_missing(&mut self, fragment: Fragment) {
        if self.config.cache.io_policy == IoPolicy::Cached && self.fill_for(fragment) {
            return;
        }
        self.requests[fragment.request as usize].pending += 1;
        self.read_from_members(fragment, CopySet::NONE);
    }

    /// Reads a fragment from the best copy that was not tried yet; by recovery if there is none. When all have been
    /// tried in vain the rows are read one by one, because copies seldom have the same bad blocks; and what can't be read
    /// that way is tried once more, because one that failed first may have been restored while others were tried. In
    /// this last round the fragment has its granule locked: else one could fail again before its turn comes.
    pub(crate) fn read_from_members(&mut self, fragment: Fragment, tried: CopySet) {
        if !self.unsynced.is_empty() && !tried.is_last_round() {
            let key = self.geometry.granule_key(&fragment);
            if self.needs_resync(key) || self.is_being_synced(key) {
                return self.sync_before(key, WaitKind::Read, fragment);
            }
        }
        match self.best_copy(&fragment, tried) {
            Some((copy, place)) => {
                let owner = IoOwner::HostRead { fragment, tried: tried.with(copy) };
                self.member_read(place, fragment.rows, IoClass::Host, owner);
            }
            None if self.geometry.parities() > 0 && !tried.is_last_round() => self.recover(fragment),
            None if fragment.rows.count > 1 && (tried != CopySet::NONE || !self.bad.is_empty()) => {
                self.read_row_by_row(fragment);
            }
            None if tried != CopySet::NONE && !tried.is_last_round() => {
                if self.lock_or_wait(self.geometry.granule_key(&fragment), WaitKind::LastRound, fragment) {
                    self.read_from_members(fragment, CopySet::LAST_ROUND);
                }
            }
            None => {
                let lba = self.geometry.fragment_lba(&fragment);
                self.end_host_read(fragment, tried, Err(HostError::DataLost { lba }));
            }
        }
    }

    /// Ends a part that was read from members, and its hold on the granule after the last round.
    fn end_host_read(&mut self, fragment: Fragment, tried: CopySet, result: Result<(), HostError>) {
        self.end_part(fragment.request, result);
        if tried.is_last_round() {
            self.unlock(self.geometry.granule_key(&fragment));
        }
    }

    /// Reads the rows of a fragment, one part of its request, as parts of their own.
    pub(crate) fn read_row_by_row(&mut self, fragment: Fragment) {
        self.requests[fragment.request as usize].pending += fragment.rows.count - 1;
        for row in fragment.rows.first..fragment.rows.end() {
            let part = fragment.part(Rows::between(row, row + 1), self.geometry.block_bytes());
            self.read_from_members(part, CopySet::NONE);
        }
    }

    /// The present copy of a fragment that is cheapest to read, of those that were not tried.
    pub(crate) fn best_copy(&self, fragment: &Fragment, tried: CopySet) -> Option<(u16, UnitPlace)> {
        let Fragment { strip, rows: wanted, .. } = *fragment;
        let rows = BlockCount(u64::from(wanted.first));
        let doubted = self.doubted_copies(fragment);
        let copies = (0..doubted.unwrap_or(self.geometry.copies())).filter(|&copy| !tried.contains(copy));
        let places = copies.map(|copy| {
            (copy, self.geometry.layout().place(fragment.stripe, StripUnit::Data { strip, copy }))
        });
        let present = places
            .filter_map(|(copy, place)| Some((copy, place, self.members.holder(place)?)))
            .filter(|(_, place, _)| !self.is_bad(*place, wanted));
        // A stream passes over what it writes, so the nearest copy goes on with it if that is not far.
        let gap = STREAM_GAP_STRIPS * u64::from(self.geometry.strip_rows());
        let stream_way = if self.geometry.copies() > 1 && self.config.cache.stream_lead > 0 {
            let ways = present.clone().map(|(_, place, device)| self.members.way(device, place.start + rows));
            ways.min().filter(|way| *way <= gap).unwrap_or(0)
        } else {
            0
        };
        present
            .min_by_key(|(copy, place, device)| {
                let first = doubted.map_or(0, |_| *copy);
                (first, self.members.read_cost(*device, place.start + rows, stream_way))
            })
            .map(|(copy, place, _)| (copy, place))
    }

    /// Takes in the end of a read into the host's buffer; a failed one is tried elsewhere.
    pub(crate) fn host_read_done(
        &mut self,
        fragment: Fragment,
        tried: CopySet,
        result: Result<(), MemberError>,
    ) {
        match result {
            Ok(()) => self.end_host_read(fragment, tried, Ok(())),
            Err(MemberError::Gone | MemberError::Medium)
                if fragment.rows.end() > self.geometry.strip_rows() =>
            {
                self.read_strip_by_strip(fragment);
            }
            Err(MemberError::Gone | MemberError::Medium) => self.read_from_members(fragment, tried),
        }
    }

    fn recover(&mut self, fragment: Fragment) {
        let key = self.geometry.granule_key(&fragment);
        if self.lock_or_wait(key, WaitKind::Recover, fragment) {
            self.launch_recovery(key, fragment);
        }
    }

    /// Locks a granule, and has it resynced first where it must be. Returns false when `fragment` waits for it.
    pub(crate) fn lock_or_wait(&mut self, key: u64, kind: WaitKind, fragment: Fragment) -> bool {
        if self.needs_resync(key) {
            self.sync_before(key, kind, fragment);
            return false;
        }
        let granule = self.granules.obtain(key);
        if granule.locked {
            self.granules.wait(key, kind, fragment);
            self.look_at_awaited(key);
            return false;
        }
        granule.locked = true;
        true
    }

    /// Puts `fragment` in line for a granule that is to be resynced first, and begins with that if it is free.
    fn sync_before(&mut self, key: u64, kind: WaitKind, fragment: Fragment) {
        let granule = self.granules.obtain(key);
        let was_locked = core::mem::replace(&mut granule.locked, true);
        self.granules.wait(key, kind, fragment);
        if was_locked {
            self.look_at_awaited(key);
        } else {
            self.sync_granule(key);
        }
    }

    fn launch_recovery(&mut self, key: u64, fragment: Fragment) {
        let id = self.new_op(key, fragment.stripe, OpKind::Recover, IoClass::Host);
        self.ops[id].target = fragment;
        self.hold_unreadable(id, fragment.strip);
        self.launch_op(id);
    }

    fn begin_write(&mut self, tag: u32, fua: bool) {
        let Request { lba, blocks, .. } = self.requests[tag as usize];
        if let Some(lba) = self.first_unstorable(tag) {
            // Nothing is taken into the cache that could only be lost there.
            self.requests[tag as usize].error = Some(HostError::ArrayFailed { lba });
        } else if self.writes_back() {
            self.begin_cached_write(tag, fua && !self.cache_survives_power_loss());
        } else if !self.stalled.is_empty() || self.holds_dirty(lba, blocks) {
            // Older data of these blocks is on its way to the members, or older writes wait until no write goes
            // through; order is kept by going the same way.
            self.begin_cached_write(tag, true);
        } else {
            self.forget_cached(lba, blocks);
            self.through_in_flight += 1;
            self.requests[tag as usize].through = true;
            self.write_through(tag, fua);
        }
    }

    /// The first block of a write that the members left can't hold.
    fn first_unstorable(&self, tag: u32) -> Option<Lba> {
        if !self.members.any_incomplete() {
            return None;
        }
        let mut walk = self.walk(tag);
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            if !self.can_store(fragment.stripe, fragment.strip, fragment.rows) {
                return Some(self.geometry.fragment_lba(&fragment));
            }
        }
        None
    }

    fn write_through(&mut self, tag: u32, fua: bool) {
        let fua = fua && self.config.member_cache == MemberCache::On;
        let mut walk = self.walk(tag);
        let mut gathering: Option<(u64, u32)> = None;
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            self.requests[tag as usize].pending += 1;
            if self.geometry.parities() == 0 && self.geometry.copies() == 1 && !self.tags.is_on() {
                self.write_plain(fragment, fua);
                continue;
            }
            let key = self.geometry.granule_key(&fragment);
            if self.collects() {
                self.collect_fragment(key, &fragment, fua);
                continue;
            }
            if let Some((gathering_key, op)) = gathering {
                if gathering_key == key {
                    self.add_piece(op, &fragment, fua);
                    continue;
                }
                self.launch_op(op);
                gathering = None;
            }
            if !self.lock_or_wait(key, WaitKind::Write, fragment) {
                continue;
            }
            let op = self.new_op(key, fragment.stripe, OpKind::Write, IoClass::Host);
            self.add_piece(op, &fragment, fua);
            gathering = Some((key, op));
        }
        if let Some((_, op)) = gathering {
            self.launch_op(op);
        }
    }

    fn write_plain(&mut self, fragment: Fragment, fua: bool) {
        let unit = StripUnit::Data { strip: fragment.strip, copy: 0 };
        let place = self.geometry.layout().place(fragment.stripe, unit);
        if self.members.holds(place) {
            self.member_write(place, fragment.rows, IoClass::Host, fua, IoOwner::HostWrite { fragment });
        } else {
            let lba = self.geometry.fragment_lba(&fragment);
            self.end_part(fragment.request, Err(HostError::ArrayFailed { lba }));
        }
    }

    pub(crate) fn add_piece(&mut self, op: u32, fragment: &Fragment, fua: bool) {
        let op = &mut self.ops[op];
        op.pieces.push(Piece { strip: fragment.strip, rows: fragment.rows, source: fragment.host_buffer() });
        op.told.push(fragment.request);
        op.fua |= fua;
    }

    /// Ends an operation's hold on its granule and starts what waits for it.
    pub(crate) fn unlock(&mut self, key: u64) {
        if self.needs_resync(key) {
            return self.sync_granule(key);
        }
        while let Some(first) = self.granules.peek_waiter(key) {
            self.granules.pop_waiter(key);
            let fragment = first.fragment;
            match first.kind {
                WaitKind::Recover => return self.launch_recovery(key, fragment),
                WaitKind::Write => return self.launch_gathered(key, fragment),
                WaitKind::Visit => return self.start_visit(fragment.request),
                WaitKind::LastRound => return self.read_from_members(fragment, CopySet::LAST_ROUND),
                // It waited for the granule to be in sync, and needs no lock.
                WaitKind::Read => self.read_from_members(fragment, CopySet::NONE),
            }
        }
        let granule = self.granules.obtain(key);
        granule.locked = false;
        if core::mem::take(&mut granule.urgent) {
            self.destage.urgent.push_back(key);
        }
        self.granules.tidy(key);
    }

    /// Writes a fragment and those that wait behind it, up to the first that overlaps: the order of overlapping
    /// writes is theirs. A controller that does not gather takes only those of the same request.
    fn launch_gathered(&mut self, key: u64, first: Fragment) {
        let op = self.new_op(key, first.stripe, OpKind::Write, IoClass::Host);
        let mut next = Some(first);
        while let Some(fragment) = next.take() {
            let fua = matches!(self.requests[fragment.request as usize].op, HostOp::Write { fua: true });
            self.add_piece(op, &fragment, fua && self.config.member_cache == MemberCache::On);
            let Some(waiter) = self.granules.peek_waiter(key) else { break };
            let gathers = self.config.cache.gather_through || waiter.fragment.request == first.request;
            if waiter.kind == WaitKind::Write && gathers && self.takes_in(op, &waiter.fragment) {
                self.granules.pop_waiter(key);
                next = Some(waiter.fragment);
            }
        }
        if self.delays_for_prereads() {
            self.delay(op);
        } else {
            self.start_through(op);
        }
    }

    pub(crate) fn begin_flush(&mut self, tag: u32) {
        self.requests[tag as usize].pending += 1;
        self.end_holds();
        let up_to = self.cache.next_sequence();
        self.flushes.push_back((tag, up_to));
    }

    /// Moves host flushes on whose dirty blocks have all been destaged, or survive power loss where they are.
    #[inline]
    pub(crate) fn pump_flushes(&mut self) {
        if !self.flushes.is_empty() {
            self.move_flushes_on();
        }
    }

    #[inline(never)]
    fn move_flushes_on(&mut self) {
        while let Some(&(tag, up_to)) = self.flushes.front() {
            if self.flush_waits(up_to) {
                return;
            }
            self.flushes.pop_front();
            self.destage.promised_before = up_to;
            let lost = self.lost_since_flush.take();
            if self.config.member_cache == MemberCache::On {
                let mut members = core::mem::take(&mut self.member_scratch);
                members.clear();
                members.extend(self.members.answering());
                self.requests[tag as usize].pending += members.len() as u32;
                for &member in &members {
                    self.member_flush(member, IoOwner::HostFlush { request: tag });
                }
                self.member_scratch = members;
            }
            match lost {
                Some(lba) => self.end_part(tag, Err(HostError::ArrayFailed { lba })),
                None => self.end_flush_part(tag),
            }
        }
    }

    /// Ends one part of a flush. A device that is lost may have taken acknowledged data into its own cache, and nobody can
    /// tell it to keep that.
    pub(crate) fn end_flush_part(&mut self, tag: u32) {
        if self.lost_device_is_volatile() {
            let lba = self.requests[tag as usize].lba;
            self.end_part(tag, Err(HostError::ArrayFailed { lba }));
        } else {
            self.end_part_when_kept(tag);
        }
    }
}
