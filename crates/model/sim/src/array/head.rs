//! The hardware that volumes share: one or two controllers, the links to the members, and the link between the two.
//!
//! ```text
//!   hosts          hosts
//!     ║ host link    ║
//!  [ A: processors ]═══mirror link═══[ B: processors ]     each volume belongs to one of the two
//!     ║ member link  ║                one member link each, or one for both (shared loops)
//!     members
//! ```
//! Each resource is first come, first served; a member link with lanes serves one transfer on each. A copy for the
//! other controller passes the owner's processor, the mirror link, which carries one message at a time in either
//! direction, and the other's processor, one after the other. It enters the queues of the last two at once, and ends no
//! sooner than each of them has had its time after the one before.
//!
//! Software on a host with sockets uses their memory, which all bytes pass that processors or drives read or write, and
//! the link between two of them, which a command passes if its drive is at another socket than its submitter.
//!
//! Left out: requests that arrive at the wrong controller; there are none.

use super::attribution::{Station, Visit};
use super::servers::{BusyServer, FirstThreadServer, ServerPool};
use super::spec::{ControllerName, SimulatedEnclosure};
use super::stripe_threads::StripeThreads;
use raidlab_controller::{MemberIo, MemoryKind, MemoryTask};
use raidlab_hardware::{ControllerModel, LinkModel, MemoryWork, ParityWorker, RemoteModel};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// One controller's own resources.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) processors: ServerPool,
    /// Decides and computes where that is the first thread's alone; the processors are the other threads then.
    pub(super) first_thread: Option<FirstThreadServer>,
    pub(super) host_link: BusyServer,
    /// Works on parity where that is beside the processors.
    parity_engine: BusyServer,
    /// Processor time that went into parity.
    parity: NanoSpan,
    /// Where it is Linux md.
    pub(super) stripe_threads: Option<StripeThreads>,
    /// The memory of all sockets of the host.
    pub(super) memory: BusyServer,
    /// The link between sockets, towards those who ask and away from them.
    socket_links: [BusyServer; 2],
    /// What all requests to its RAID 10 take one after the other.
    pub(super) raid10_lock: BusyServer,
}

/// Everything that volumes share.
#[derive(Debug)]
pub(super) struct Hardware<'a> {
    pub(super) model: &'a ControllerModel,
    heads: [Head; 2],
    pub(super) head_count: usize,
    /// The first one serves both controllers where `member_link_shared`.
    member_links: [ServerPool; 2],
    member_link_shared: bool,
    mirror_model: Option<LinkModel>,
    mirror_link: BusyServer,
    /// While a controller is gone and the other does not know it yet: when it will.
    pub(super) peer_given_up_at: Option<Nanos>,
}

/// Busy times at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HardwareTimes {
    pub(super) heads: [HeadTimes; 2],
    pub(super) mirror_link: NanoSpan,
}

/// Busy times of one controller's resources at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadTimes {
    pub(super) processors: NanoSpan,
    pub(super) first_thread: NanoSpan,
    pub(super) parity: NanoSpan,
    pub(super) parity_engine: NanoSpan,
    pub(super) host_link: NanoSpan,
    pub(super) member_link: NanoSpan,
    pub(super) stripe_threads: NanoSpan,
    pub(super) memory: NanoSpan,
}

impl Head {
    /// Takes a host command or a memory task.
    #[inline]
    pub(super) fn decide(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        match &mut self.first_thread {
            None => self.processors.serve(now, span),
            Some(first) => first.serve(now, span),
        }
    }

    /// Makes a member command.
    #[inline]
    pub(super) fn command(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        match &mut self.first_thread {
            None => self.processors.serve(now, span),
            Some(first) => first.command(now, span, &mut self.processors),
        }
    }
}

impl<'a> Hardware<'a> {
    pub(super) fn new(enclosure: &'a SimulatedEnclosure) -> Self {
        let model = &enclosure.controller;
        let head = || Head {
            processors: ServerPool::new(model.threads_beside_first()),
            first_thread: model.first_thread.map(|first| FirstThreadServer::new(first, model.processors > 1)),
            host_link: BusyServer::default(),
            parity_engine: BusyServer::default(),
            parity: NanoSpan::ZERO,
            stripe_threads: model.md.as_ref().map(StripeThreads::new),
            memory: BusyServer::default(),
            socket_links: [BusyServer::default(); 2],
            raid10_lock: BusyServer::default(),
        };
        let second = enclosure.second.as_ref();
        Self {
            model,
            heads: [head(), head()],
            head_count: if second.is_some() { 2 } else { 1 },
            member_links: [0, 1].map(|_| ServerPool::new(model.member_lanes)),
            member_link_shared: second.is_some_and(|second| second.dual.member_link_shared),
            mirror_model: second.map(|second| second.dual.mirror_link),
            mirror_link: BusyServer::default(),
            peer_given_up_at: None,
        }
    }

    #[inline]
    pub(super) fn head(&mut self, name: ControllerName) -> &mut Head {
        &mut self.heads[name as usize]
    }

    #[inline]
    pub(super) fn member_link(&mut self, owner: ControllerName) -> &mut ServerPool {
        let index = if self.member_link_shared { 0 } else { owner as usize };
        &mut self.member_links[index]
    }

    /// Does a memory task on the owner's processor; what of it goes to the other controller, too, adds its way there.
    #[inline]
    pub(super) fn serve_memory(&mut self, now: Nanos, owner: ControllerName, task: &MemoryTask) -> Nanos {
        let (work, span) = self.memory_work(task);
        let head = &mut self.heads[owner as usize];
        let end = if work == MemoryWork::Parity && self.model.parity_by == ParityWorker::Engine {
            head.parity_engine.serve(now, span)
        } else {
            if work == MemoryWork::Parity && head.first_thread.is_none() {
                head.parity += span;
            }
            head.decide(now, span)
        };
        let end = end.max(self.pass_memory(now, owner, ByteCount(task.bytes_in + task.bytes_out)));
        match task.mirrored_bytes() {
            0 => end,
            bytes => self.serve_mirror(now, end, owner, ByteCount(bytes)),
        }
    }

    /// Reads or writes `bytes` in the host's memory, where that is modelled; returns when they have passed.
    #[inline]
    pub(super) fn pass_memory(&mut self, now: Nanos, owner: ControllerName, bytes: ByteCount) -> Nanos {
        match &self.model.host {
            None => now,
            Some((_, sockets)) => {
                let span = sockets.memory_rate_of_all().time_for(bytes);
                self.heads[owner as usize].memory.serve(now, span)
            }
        }
    }

    /// Passes what is on the host between a drive and its memory: the memory, and the link between sockets where `is_remote`.
    /// Returns when the last of `bytes` has.
    #[inline]
    pub(super) fn pass_host(
        &mut self,
        now: Nanos,
        owner: ControllerName,
        (bytes, is_write, is_remote): (ByteCount, bool, bool),
    ) -> Nanos {
        let end = self.pass_memory(now, owner, bytes);
        match self.remote() {
            Some(remote) if is_remote => {
                let link = &mut self.heads[owner as usize].socket_links[usize::from(is_write)];
                end.max(link.serve(now, remote.rate.time_for(bytes)))
            }
            _ => end,
        }
    }

    /// What is between the host's sockets, where there are several.
    #[inline]
    fn remote(&self) -> Option<RemoteModel> {
        self.model.host.as_ref().and_then(|(_, sockets)| sockets.remote)
    }

    /// Whether a member's drive is at another socket than who asks: both are spread over the sockets in turn.
    #[inline]
    pub(super) fn is_remote(&self, io: &MemberIo) -> bool {
        let sockets = self.model.host.as_ref().map_or(1, |(_, sockets)| sockets.count);
        sockets > 1 && io.id.0 % sockets != u32::from(io.member.0) % sockets
    }

    /// Processor time that a member command takes more for that.
    #[inline]
    pub(super) fn remote_cost(&self, io: &MemberIo) -> NanoSpan {
        match self.remote() {
            Some(remote) if self.is_remote(io) => remote.command,
            _ => NanoSpan::ZERO,
        }
    }

    /// What a memory task is, and how long it takes whoever does it.
    #[inline]
    fn memory_work(&self, task: &MemoryTask) -> (MemoryWork, NanoSpan) {
        let work = match task.kind {
            MemoryKind::Copy => MemoryWork::Copy,
            // A checksum reads its input once, as parity does.
            MemoryKind::Parity | MemoryKind::Digest => MemoryWork::Parity,
        };
        (work, self.model.memory_cost(work, ByteCount(task.bytes_in), ByteCount(task.bytes_out)))
    }

    /// What a memory task passes that is asked for at `now` and done at `end`.
    #[cold]
    pub(super) fn memory_visits(&self, now: Nanos, end: Nanos, task: &MemoryTask) -> [Visit; 2] {
        let (work, span) = self.memory_work(task);
        let engine = work == MemoryWork::Parity && self.model.parity_by == ParityWorker::Engine;
        let station = if engine { Station::ParityEngine } else { Station::Processors };
        // What goes to the other controller waits for its link; whether for the processor first, is not known here.
        let here = if task.mirrored_bytes() == 0 { end } else { (now + span).min(end) };
        let mirror = Visit { station: Station::MirrorLink, now: here, span: end - here, end };
        [Visit { station, now, span, end: here }, mirror]
    }

    /// Sends `bytes` that `owner` has ready at `ready` to the other controller; returns when they are in its memory. What
    /// is sent to a controller that is gone ends when that is found out.
    pub(super) fn serve_mirror(
        &mut self,
        now: Nanos,
        ready: Nanos,
        owner: ControllerName,
        bytes: ByteCount,
    ) -> Nanos {
        if let Some(at) = self.peer_given_up_at {
            return at.max(ready);
        }
        let link = self.mirror_model.expect("what is mirrored has a second controller; it was checked");
        let arrived = self.mirror_link.serve_when_ready(now, ready, link.transfer_time(bytes));
        let span = self.model.memory_cost(MemoryWork::Copy, ByteCount::ZERO, bytes);
        self.head(owner.other()).processors.serve_when_ready(now, arrived, span)
    }

    pub(super) fn times(&self, at: Nanos) -> HardwareTimes {
        let head = |index: usize| HeadTimes {
            processors: self.heads[index].processors.busy_until_now(at),
            first_thread: self.heads[index]
                .first_thread
                .as_ref()
                .map_or(NanoSpan::ZERO, |first| first.busy_until_now(at)),
            parity: self.heads[index].parity,
            parity_engine: self.heads[index].parity_engine.busy_until_now(at),
            host_link: self.heads[index].host_link.busy_until_now(at),
            member_link: self.member_links[if self.member_link_shared { 0 } else { index }]
                .busy_until_now(at),
            memory: self.heads[index].memory.busy_until_now(at),
            stripe_threads: match &self.heads[index].stripe_threads {
                Some(threads) => threads.busy_until_now(at),
                None => NanoSpan::ZERO,
            },
        };
        HardwareTimes { heads: [head(0), head(1)], mirror_link: self.mirror_link.busy_until_now(at) }
    }
}
