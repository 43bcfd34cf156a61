//! What goes out to the world: actions in the order in which they must be taken, and what was asked for so far.
//!
//! ```text
//! parts ─► complete, notify, set_timer, keep, member_io, memory ─► | oldest ... newest | ─► poll
//! ```
//! Invariant: what a world is asked for is counted here, once, when it is asked for. Left out: who waits for an I/O or a
//! task, and when a world is to ask (`Controller::poll_action`).

use crate::api::{
    Action, Area, HostCompletion, HostError, HostTag, Keep, MemberIo, MemberOp, MemoryKind, MemoryTask,
    Notice, TimerId,
};
use raidlab_units::Nanos;
use std::collections::VecDeque;

/// What a controller has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Member reads asked for, those of tags among them; so are writes.
    pub member_reads: u64,
    /// Member writes asked for.
    pub member_writes: u64,
    /// Member flushes asked for.
    pub member_flushes: u64,
    /// Member discards asked for.
    pub member_discards: u64,
    /// Host discards that went no further, wholly.
    pub discards_ignored: u64,
    /// Blocks that host reads found in the cache.
    pub cache_hit_blocks: u64,
    /// Bytes copied between host and cache, or within the cache.
    pub copy_bytes: u64,
    /// Bytes of parity, or of recovered data, computed.
    pub parity_bytes: u64,
    /// Writes to metadata areas.
    pub metadata_writes: u64,
    /// Blocks that were read and did not agree with their checksums; 0 without integrity. Redundancy that disagrees with the data is
    /// counted by the check that finds it: [`crate::ScanCounts::mismatched_rows`].
    pub mismatched_blocks: u64,
}

impl Counters {
    /// Adds what another controller has done.
    pub fn merge(&mut self, other: &Self) {
        self.member_reads += other.member_reads;
        self.member_writes += other.member_writes;
        self.member_flushes += other.member_flushes;
        self.member_discards += other.member_discards;
        self.discards_ignored += other.discards_ignored;
        self.cache_hit_blocks += other.cache_hit_blocks;
        self.copy_bytes += other.copy_bytes;
        self.parity_bytes += other.parity_bytes;
        self.metadata_writes += other.metadata_writes;
        self.mismatched_blocks += other.mismatched_blocks;
    }
}

/// The actions that the world has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    actions: VecDeque<Action>,
    counters: Counters,
}

impl Outbox {
    /// True when the world has taken all actions.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The next action, if there is one.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What has been asked for so far.
    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }

    /// Tells the host how its request ended.
    #[inline]
    pub(crate) fn complete(&mut self, tag: HostTag, result: Result<(), HostError>) {
        self.actions.push_back(Action::Complete(HostCompletion { tag, result }));
    }

    /// Tells the operator.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.actions.push_back(Action::Notice(notice));
    }

    /// Asks to be called at `at`.
    pub(crate) fn set_timer(&mut self, id: TimerId, at: Nanos) {
        self.actions.push_back(Action::Timer { id, at });
    }

    /// Asks for an entry of the cache's directory to be stored.
    #[inline]
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.actions.push_back(Action::Keep(keep));
    }

    /// Asks for a member I/O.
    #[inline]
    pub(crate) fn member_io(&mut self, io: MemberIo) {
        match (io.area, io.op) {
            (Area::Data, MemberOp::Read) => self.counters.member_reads += 1,
            (Area::Data, MemberOp::Write { .. }) => self.counters.member_writes += 1,
            (_, MemberOp::Flush) => self.counters.member_flushes += 1,
            (_, MemberOp::Discard) => self.counters.member_discards += 1,
            (Area::Metadata, MemberOp::Write { .. }) => self.counters.metadata_writes += 1,
            (Area::Metadata, MemberOp::Read) => {}
        }
        self.actions.push_back(Action::Member(io));
    }

    /// Asks for work on memory.
    #[inline]
    pub(crate) fn memory(&mut self, task: MemoryTask) {
        match task.kind {
            MemoryKind::Copy => self.counters.copy_bytes += task.bytes_in,
            MemoryKind::Parity => self.counters.parity_bytes += task.bytes_out,
            MemoryKind::Digest => {}
        }
        self.actions.push_back(Action::Memory(task));
    }

    /// Counts blocks that a host read found in the cache.
    #[inline]
    pub(crate) fn count_hits(&mut self, blocks: u32) {
        self.counters.cache_hit_blocks += u64::from(blocks);
    }

    /// Counts blocks that disagree with their checksums.
    pub(crate) fn count_mismatched(&mut self, blocks: u64) {
        self.counters.mismatched_blocks += blocks;
    }

    /// Counts a discard that goes no further.
    pub(crate) fn count_ignored_discard(&mut self) {
        self.counters.discards_ignored += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{IoClass, MemberIoId, MemoryTaskId};
    use raidlab_units::{BlockCount, MemberIndex, MemberLba};

    fn io(op: MemberOp, area: Area) -> MemberIo {
        MemberIo {
            id: MemberIoId(0),
            member: MemberIndex(0),
            op,
            area,
            lba: MemberLba::ZERO,
            blocks: BlockCount(1),
            class: IoClass::Host,
        }
    }

    #[test]
    fn actions_leave_in_the_order_in_which_they_were_asked_for() {
        let mut outbox = Outbox::default();
        outbox.complete(HostTag(3), Ok(()));
        outbox.set_timer(TimerId(1), Nanos(5));
        outbox.notify(Notice::Serving);
        assert!(!outbox.is_empty());
        let completion = HostCompletion { tag: HostTag(3), result: Ok(()) };
        assert_eq!(outbox.poll(), Some(Action::Complete(completion)));
        assert_eq!(outbox.poll(), Some(Action::Timer { id: TimerId(1), at: Nanos(5) }));
        assert_eq!(outbox.poll(), Some(Action::Notice(Notice::Serving)));
        assert_eq!(outbox.poll(), None);
        assert!(outbox.is_empty());
    }

    #[test]
    fn each_action_is_counted_as_what_it_is() {
        const WRITE: MemberOp = MemberOp::Write { fua: false };
        let one = Counters::default();
        let rows = [
            (MemberOp::Read, Area::Data, Counters { member_reads: 1, ..one }),
            (WRITE, Area::Data, Counters { member_writes: 1, ..one }),
            (MemberOp::Flush, Area::Data, Counters { member_flushes: 1, ..one }),
            (MemberOp::Discard, Area::Data, Counters { member_discards: 1, ..one }),
            (WRITE, Area::Metadata, Counters { metadata_writes: 1, ..one }),
            // A start reads records before anybody counts.
            (MemberOp::Read, Area::Metadata, one),
        ];
        for (op, area, counters) in rows {
            let mut outbox = Outbox::default();
            outbox.member_io(io(op, area));
            assert_eq!(outbox.counters(), counters, "{op:?} {area:?}");
        }
        let tasks = [
            (MemoryKind::Copy, Counters { copy_bytes: 7, ..one }),
            (MemoryKind::Parity, Counters { parity_bytes: 9, ..one }),
            (MemoryKind::Digest, one),
        ];
        for (kind, counters) in tasks {
            let mut outbox = Outbox::default();
            outbox.memory(MemoryTask { id: MemoryTaskId(0), kind, bytes_in: 7, bytes_out: 9 });
            assert_eq!(outbox.counters(), counters, "{kind:?}");
        }
    }
}
