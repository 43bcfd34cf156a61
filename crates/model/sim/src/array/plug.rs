//! Requests that a stripe thread of Linux md has made and not sent: a plug, in which adjacent pages merge.
//!
//! ```text
//!   page of a member ─► next to the latest request to that member? ── yes ─► that request is longer by a page
//!                                └─ no ─► a new request ─► the plug is full: all go ───────────────────────► members
//!                                                       └─► the thread has nothing more to do: all go ──────►
//! ```
//! Stripes change page by page, so members get longer requests only here.
//!
//! Left out: a plug for each worker (all threads share one); merging in a disk's scheduler behind the plug.
//! Source: Linux block/blk-merge.c, `blk_attempt_plug_merge`; block/blk-mq.c, `blk_add_rq_to_plug`, `blk_plug_max_rq_count`;
//! drivers/md/raid5.c, `raid5d`, `raid5_do_work` (`blk_start_plug`, `blk_finish_plug`).

use super::attribution::Visit;
use super::event::{Event, Step};
use super::members::MemberIos;
use super::service::Shared;
use super::stripe_threads::StripeThreads;
use super::volume::Volume;
use raidlab_controller::{MemberIo, MemberIoId};
use raidlab_hardware::PAGE_BYTES;
use raidlab_units::{ByteCount, Nanos};

/// Requests in a plug for several devices: twice `BLK_MAX_REQUEST_COUNT`.
const REQUESTS_MAX: usize = 64;

/// The plug is sent when a request comes behind one as long as this: `BLK_PLUG_FLUSH_SIZE`.
const FLUSH_BYTES: ByteCount = ByteCount::from_kib(128);

/// Longest request, a page in each segment: `BLK_MAX_SEGMENTS`.
const REQUEST_BYTES_MAX: ByteCount = ByteCount(128 * PAGE_BYTES);

/// The requests of one volume.
#[derive(Debug)]
pub(super) struct Plug {
    /// The first member I/O of each, and when the last of its pages has been made.
    requests: Vec<(MemberIoId, Nanos)>,
    /// The latest request to each member, by its place among them.
    latest: Vec<Option<usize>>,
    /// Somebody will look whether the thread has more to do.
    pub(super) is_watched: bool,
}

impl Plug {
    pub(super) fn new(members: usize) -> Self {
        Self { requests: Vec::new(), latest: vec![None; members], is_watched: false }
    }

    /// Merges a member I/O into the latest request to its member, if that ends where it begins or begins where it ends.
    pub(super) fn merge(&mut self, ios: &mut MemberIos, io: &MemberIo, made_at: Nanos) -> bool {
        let Some(latest) = self.latest[io.member.index()] else { return false };
        let (first, request_made_at) = &mut self.requests[latest];
        let first = *first;
        let request = ios.get(first);
        let is_next = request.lba + request.blocks == io.lba || io.lba + io.blocks == request.lba;
        let bytes = ios.bytes(first) + ios.bytes(io.id);
        let is_merged =
            is_next && (request.op, request.area) == (io.op, io.area) && bytes <= REQUEST_BYTES_MAX;
        if is_merged {
            *request_made_at = made_at.max(*request_made_at);
            ios.merge(first, io);
        }
        is_merged
    }

    /// True if all must go before another request comes in.
    pub(super) fn is_full(&self, ios: &MemberIos) -> bool {
        let is_long = |request: &(MemberIoId, Nanos)| ios.bytes(request.0) >= FLUSH_BYTES;
        self.requests.len() >= REQUESTS_MAX || self.requests.last().is_some_and(is_long)
    }

    /// Takes a request in.
    pub(super) fn add(&mut self, io: &MemberIo, made_at: Nanos) {
        self.latest[io.member.index()] = Some(self.requests.len());
        self.requests.push((io.id, made_at));
    }

    /// Hands all requests out, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (MemberIoId, Nanos)> + '_ {
        self.latest.fill(None);
        self.requests.drain(..)
    }
}

impl<const FOLLOWED: bool> Volume<FOLLOWED> {
    /// Puts what a stripe thread has made into the plug.
    pub(super) fn plug_in(&mut self, shared: &mut Shared<'_>, io: &MemberIo, visit: Visit) {
        if let Some(times) = self.times.get() {
            times.command(io.id, visit);
        }
        if self.plug.merge(&mut self.member_ios, io, visit.end) {
            return;
        }
        if self.plug.is_full(&self.member_ios) {
            let (life, volume) = (self.life, self.index);
            for (id, made_at) in self.plug.drain() {
                shared.queue.push(
                    made_at.max(visit.end),
                    Event { step: Step::MemberCommand, life, volume, id: id.0 },
                );
            }
        }
        self.plug.add(io, visit.end);
        if !core::mem::replace(&mut self.plug.is_watched, true) {
            shared.queue.push(visit.end, self.event(Step::Unplug, 0));
        }
    }

    /// Sends what is in the plug if the stripe threads have nothing more to do.
    pub(super) fn unplug(&mut self, shared: &mut Shared<'_>, now: Nanos) {
        let threads = shared.hardware.head(self.owner).stripe_threads.as_ref();
        let idle_at = threads.map_or(now, StripeThreads::idle_at);
        if idle_at > now {
            return shared.queue.push(idle_at, self.event(Step::Unplug, 0));
        }
        self.plug.is_watched = false;
        let mut requests = core::mem::take(&mut self.unplugged);
        requests.extend(self.plug.drain());
        for (id, made_at) in requests.drain(..) {
            if made_at > now {
                // Another thread still makes it.
                shared.queue.push(made_at, self.event(Step::MemberCommand, id.0));
            } else {
                self.enqueue(shared, now, id);
            }
        }
        self.unplugged = requests;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_controller::{Area, IoClass, MemberOp};
    use raidlab_units::{BlockCount, BlockSize, MemberIndex, MemberLba};

    const PAGE_BLOCKS: u64 = PAGE_BYTES / 512;

    fn page(id: u32, member: u16, page: u64, op: MemberOp) -> MemberIo {
        MemberIo {
            id: MemberIoId(id),
            member: MemberIndex(member),
            op,
            lba: MemberLba(page * PAGE_BLOCKS),
            blocks: BlockCount(PAGE_BLOCKS),
            area: Area::Data,
            class: IoClass::Host,
        }
    }

    /// The pages of each request.
    fn sent(pages: &[(u16, u64, MemberOp)]) -> Vec<(u16, u64)> {
        let (mut plug, mut ios) = (Plug::new(2), MemberIos::default());
        for (id, &(member, at, op)) in pages.iter().enumerate() {
            let io = page(id as u32, member, at, op);
            ios.insert(io, BlockSize::B512);
            if !plug.merge(&mut ios, &io, Nanos::ZERO) {
                plug.add(&io, Nanos::ZERO);
            }
        }
        let requests: Vec<_> = plug.drain().collect();
        let of = |(id, _): &(MemberIoId, Nanos)| {
            let io = ios.get(*id);
            assert_eq!(ios.merged(*id).count() as u64, io.blocks.0 / PAGE_BLOCKS);
            (io.member.0, io.blocks.0 / PAGE_BLOCKS)
        };
        requests.iter().map(of).collect()
    }

    #[test]
    fn pages_merge_with_the_latest_request_to_their_member() {
        let (read, write) = (MemberOp::Read, MemberOp::Write { fua: false });
        assert_eq!(sent(&[(0, 0, write), (1, 0, write), (0, 1, write), (1, 1, write)]), [(0, 2), (1, 2)]);
        assert_eq!(sent(&[(0, 1, write), (0, 0, write)]), [(0, 2)], "in front of it");
        assert_eq!(
            sent(&[(0, 0, write), (0, 2, write), (0, 1, write)]),
            [(0, 1), (0, 2)],
            "the latest one only"
        );
        assert_eq!(sent(&[(0, 0, write), (0, 1, read)]), [(0, 1), (0, 1)], "of one kind");
        let many: Vec<_> = (0..130).map(|at| (0, at, read)).collect();
        assert_eq!(sent(&many), [(0, 128), (0, 2)], "as long as a request may be");
    }
}
