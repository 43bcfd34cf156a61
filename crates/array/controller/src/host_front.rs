//! The host's requests under way: their parts, how they end, and the flushes in line.
//!
//! A request is handed out in parts and completes with the last of them. One part stands for the hand-out itself, so that no
//! request ends half handed out. The first error of any part is that of the request.
//!
//! Invariant: a tag is in use from [`HostFront::begin`] until its completion leaves. Left out: what parts do.

use crate::api::{HostError, HostOp, HostRequest, HostTag};
use crate::outbox::Outbox;
use raidlab_units::{BlockCount, Lba};
use std::collections::VecDeque;

/// One host request, found by its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) active: bool,
    pub(crate) op: HostOp,
    pub(crate) lba: Lba,
    pub(crate) blocks: BlockCount,
    /// Blocks of a cached write that have a place in the cache.
    pub(crate) placed: u64,
    /// A write that does not go through the cache, or not all of it.
    pub(crate) through: bool,
    /// A cached write that is acknowledged only when the members have it.
    pub(crate) durable: bool,
    /// The sequence of reads that it belongs to, if the cache wants to know its end.
    pub(crate) stream: Option<u8>,
    /// Parts under way; the request completes when the last one ends.
    pending: u32,
    /// The first error of any part.
    error: Option<HostError>,
}

impl Request {
    const IDLE: Self = Self {
        active: false,
        op: HostOp::Flush,
        lba: Lba::ZERO,
        blocks: BlockCount::ZERO,
        placed: 0,
        through: false,
        durable: false,
        stream: None,
        pending: 0,
        error: None,
    };
}

/// The host's requests.
#[derive(Debug, Default)]
pub(crate) struct HostFront {
    requests: Vec<Request>,
    /// Writes under way that don't go through the cache.
    through_in_flight: u32,
    /// Requests that were begun, ever.
    begun: u64,
    /// Flushes, and the sequence before which all dirty blocks must be destaged for each.
    flushes: VecDeque<(HostTag, u64)>,
}

impl HostFront {
    /// Takes in a request, whose tag must not be in use (asserted). Returns false, having completed it, where its range is not
    /// in the volume.
    pub(crate) fn begin(
        &mut self,
        request: &HostRequest,
        volume_blocks: BlockCount,
        outbox: &mut Outbox,
    ) -> bool {
        let HostRequest { tag, op, lba, blocks } = *request;
        let index = tag.0 as usize;
        if self.requests.len() <= index {
            self.requests.resize(index + 1, Request::IDLE);
        }
        assert!(!self.requests[index].active, "host tag {} is still in use", tag.0);
        self.begun += 1;
        let end = lba.checked_add(blocks);
        let is_outside = blocks == BlockCount::ZERO || end.is_none_or(|end| end.0 > volume_blocks.0);
        if op != HostOp::Flush && is_outside {
            outbox.complete(tag, Err(HostError::OutOfRange { lba, blocks, volume_blocks }));
            return false;
        }
        self.requests[index] = Request { active: true, op, lba, blocks, pending: 1, ..Request::IDLE };
        true
    }

    /// How many requests the host has made, ever.
    pub(crate) const fn requests_made(&self) -> u64 {
        self.begun
    }

    /// A request as it is now.
    #[inline]
    pub(crate) fn request(&self, tag: HostTag) -> Request {
        self.requests[tag.0 as usize]
    }

    /// True for a write with forced unit access.
    pub(crate) fn is_forced(&self, tag: HostTag) -> bool {
        self.requests[tag.0 as usize].op == HostOp::Write { fua: true }
    }

    /// Every tag that was ever used.
    pub(crate) fn tags(&self) -> impl Iterator<Item = HostTag> + use<> {
        (0..self.requests.len() as u32).map(HostTag)
    }

    /// True when no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.iter().all(|request| !request.active)
    }

    /// Notes that a request has so many more parts.
    #[inline]
    pub(crate) fn add_parts(&mut self, tag: HostTag, parts: u32) {
        self.requests[tag.0 as usize].pending += parts;
    }

    /// Ends one part of a request, and the request with its last part. Returns the request if it has ended.
    #[inline]
    pub(crate) fn end_part(
        &mut self,
        tag: HostTag,
        result: Result<(), HostError>,
        outbox: &mut Outbox,
    ) -> Option<&Request> {
        let request = &mut self.requests[tag.0 as usize];
        if let Err(error) = result {
            request.error.get_or_insert(error);
        }
        request.pending -= 1;
        if request.pending > 0 {
            return None;
        }
        request.active = false;
        outbox.complete(tag, request.error.map_or(Ok(()), Err));
        self.through_in_flight -= u32::from(request.through);
        Some(request)
    }

    /// Notes which sequence of reads a read belongs to.
    pub(crate) fn set_stream(&mut self, tag: HostTag, stream: u8) {
        self.requests[tag.0 as usize].stream = Some(stream);
    }

    /// Lets a request fail.
    pub(crate) fn fail(&mut self, tag: HostTag, error: HostError) {
        self.requests[tag.0 as usize].error = Some(error);
    }

    /// Lets the cached writes under way fail that brought some of these blocks, which are lost.
    pub(crate) fn fail_cached_writes(&mut self, lba: Lba, blocks: BlockCount) {
        let overlaps =
            |request: &Request| request.lba.0 < lba.0 + blocks.0 && lba.0 < request.lba.0 + request.blocks.0;
        let writes = self.requests.iter_mut().filter(|request| request.active && request.placed > 0);
        for request in writes.filter(|request| overlaps(request)) {
            request.error.get_or_insert(HostError::ArrayFailed { lba });
        }
    }

    /// True if all blocks of a cached write have a place in the cache.
    #[inline]
    pub(crate) fn is_placed(&self, tag: HostTag) -> bool {
        let Request { placed, blocks, .. } = self.request(tag);
        placed == blocks.0
    }

    /// Notes that a write goes past the cache, or what has no place there of it.
    pub(crate) fn begin_through(&mut self, tag: HostTag) {
        self.through_in_flight += 1;
        self.requests[tag.0 as usize].through = true;
    }

    /// Writes under way that go past the cache.
    #[inline]
    pub(crate) const fn through_in_flight(&self) -> u32 {
        self.through_in_flight
    }

    /// Says whether a cached write is acknowledged only when the members have it.
    pub(crate) fn set_durable(&mut self, tag: HostTag, durable: bool) {
        self.requests[tag.0 as usize].durable = durable;
    }

    /// Notes that so many more blocks of a cached write have a place in the cache.
    pub(crate) fn add_placed(&mut self, tag: HostTag, blocks: u64) {
        let request = &mut self.requests[tag.0 as usize];
        request.placed += blocks;
        debug_assert!(request.placed <= request.blocks.0, "no more is placed than written");
    }

    // Flushes.

    /// Puts a flush in line that waits for all that became dirty before `up_to`.
    pub(crate) fn line_up_flush(&mut self, tag: HostTag, up_to: u64) {
        self.flushes.push_back((tag, up_to));
    }

    /// True while a flush is in line.
    #[inline]
    pub(crate) fn has_flushes(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// True while this flush is in line.
    pub(crate) fn is_in_line(&self, flush: HostTag) -> bool {
        self.flushes.iter().any(|&(tag, _)| tag == flush)
    }

    /// The first flush in line, and what it waits for.
    pub(crate) fn first_flush(&self) -> Option<(HostTag, u64)> {
        self.flushes.front().copied()
    }

    /// Takes the first flush out of the line.
    pub(crate) fn take_flush(&mut self) {
        self.flushes.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Action, HostCompletion};

    const TAG: HostTag = HostTag(2);
    const VOLUME: BlockCount = BlockCount(100);

    fn request(op: HostOp, lba: u64, blocks: u64) -> HostRequest {
        HostRequest { tag: TAG, op, lba: Lba(lba), blocks: BlockCount(blocks) }
    }

    fn begun(op: HostOp, lba: u64, blocks: u64) -> (HostFront, Outbox) {
        let (mut front, mut outbox) = (HostFront::default(), Outbox::default());
        assert!(front.begin(&request(op, lba, blocks), VOLUME, &mut outbox));
        (front, outbox)
    }

    #[test]
    fn what_is_outside_the_volume_is_completed_at_once() {
        let rows = [(HostOp::Read, 99, 2, false), (HostOp::Read, 99, 1, true), (HostOp::Read, 5, 0, false)];
        let rows = rows.into_iter().chain([(HostOp::Read, u64::MAX, 1, false), (HostOp::Flush, 0, 0, true)]);
        for (op, lba, blocks, is_inside) in rows {
            let (mut front, mut outbox) = (HostFront::default(), Outbox::default());
            let begins = front.begin(&request(op, lba, blocks), VOLUME, &mut outbox);
            assert_eq!((begins, outbox.is_empty()), (is_inside, is_inside), "{op:?} {lba}+{blocks}");
            assert_eq!(front.is_idle(), !is_inside);
        }
    }

    #[test]
    fn a_request_ends_with_its_last_part_and_has_the_first_error() {
        let (mut front, mut outbox) = begun(HostOp::Write { fua: false }, 7, 3);
        front.begin_through(TAG);
        front.add_parts(TAG, 2);
        let lost = |lba| HostError::ArrayFailed { lba: Lba(lba) };
        assert!(front.end_part(TAG, Err(lost(8)), &mut outbox).is_none());
        assert!(front.end_part(TAG, Err(lost(9)), &mut outbox).is_none());
        assert!(outbox.is_empty());
        let ended = front.end_part(TAG, Ok(()), &mut outbox).expect("it was the last part");
        assert_eq!((ended.through, ended.lba, ended.blocks), (true, Lba(7), BlockCount(3)));
        let completion = HostCompletion { tag: TAG, result: Err(lost(8)) };
        assert_eq!(outbox.poll(), Some(Action::Complete(completion)));
        assert!(front.is_idle() && front.through_in_flight() == 0);
    }

    #[test]
    fn lost_blocks_fail_the_cached_writes_that_brought_them() {
        for (lba, blocks, fails) in [(6, 1, false), (6, 2, true), (9, 1, true), (10, 4, false)] {
            let (mut front, mut outbox) = begun(HostOp::Write { fua: false }, 7, 3);
            front.add_placed(TAG, 1);
            front.fail_cached_writes(Lba(lba), BlockCount(blocks));
            front.end_part(TAG, Ok(()), &mut outbox);
            let result = if fails { Err(HostError::ArrayFailed { lba: Lba(lba) }) } else { Ok(()) };
            let completion = HostCompletion { tag: TAG, result };
            assert_eq!(outbox.poll(), Some(Action::Complete(completion)), "{lba}+{blocks}");
        }
    }

    #[test]
    #[should_panic(expected = "still in use")]
    fn a_tag_is_not_used_twice() {
        let (mut front, mut outbox) = begun(HostOp::Flush, 0, 0);
        front.begin(&request(HostOp::Flush, 0, 0), VOLUME, &mut outbox);
    }
}
