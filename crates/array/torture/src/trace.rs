//! What happened in a world: a digest of all events, and the latest of them for a report.
//!
//! The digest is what makes "the same run" checkable: a seed gives the same digest on every machine, whichever thread ran
//! it, and a change in the controller that alters any action shows as another digest.

use raidlab_controller::{
    Action, BatteryState, HostOp, HostRequest, MemberError, MemberIoId, MemberOp, MemoryTaskId, Notice,
    ScanProgress, TimerId,
};
use raidlab_units::{MemberIndex, Nanos};

/// Latest events kept.
const EVENTS: usize = 200;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent {
    /// The host asked.
    Request(HostRequest),
    /// The controller asked.
    Action(Action),
    /// A member I/O ended.
    MemberDone(MemberIoId, Result<(), MemberError>),
    /// A memory task ended.
    MemoryDone(MemoryTaskId),
    /// A timer was due.
    TimerDue(TimerId, Nanos),
    /// The battery changed.
    Battery(BatteryState),
    /// Power failed.
    PowerCut,
    /// The second controller came.
    PeerCame,
    /// The second controller took over.
    TakenOver,
    /// A fault of the plan was injected: its place in the plan, what it is, and the member (or other number) that it hit.
    Fault(usize, super::faults::Fault, u64),
    /// Something else than should be was put at a place of a device's data area, tags counted.
    Lie(MemberIndex, u64),
}

/// The digest, and the latest events with the event counts at which they came.
#[derive(Debug)]
pub(super) struct Trace {
    digest: u64,
    /// A ring: the next event goes to `next`.
    events: Vec<(u64, TraceEvent)>,
    next: usize,
}

impl Trace {
    pub(super) fn new(seed: u64) -> Self {
        Self { digest: mixed(0x6a09_e667_f3bc_c908, seed), events: Vec::with_capacity(EVENTS), next: 0 }
    }

    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Adds a number to the digest.
    #[inline]
    pub(super) fn mix(&mut self, word: u64) {
        self.digest = mixed(self.digest, word);
    }

    #[inline]
    pub(super) fn note(&mut self, stamp: u64, event: TraceEvent) {
        let [first, second] = words(&event);
        self.mix(first);
        self.mix(second);
        if self.events.len() < EVENTS {
            self.events.push((stamp, event));
        } else {
            self.events[self.next] = (stamp, event);
        }
        self.next = (self.next + 1) % EVENTS;
    }

    /// The latest events, oldest first.
    pub(super) fn latest(&self) -> Vec<(u64, TraceEvent)> {
        let (newer, older) = self.events.split_at(self.next.min(self.events.len()));
        older.iter().chain(newer).copied().collect()
    }
}

#[inline]
const fn mixed(digest: u64, word: u64) -> u64 {
    // One round of a multiplicative hash (as in FNV, on words), rotated so that high bits come back into play.
    (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Two words that tell events apart.
fn words(event: &TraceEvent) -> [u64; 2] {
    match *event {
        TraceEvent::Request(HostRequest { tag, op, lba, blocks }) => {
            let op = match op {
                HostOp::Read => 0,
                HostOp::Write { fua } => 1 + u64::from(fua),
                HostOp::Flush => 3,
                HostOp::Discard => 4,
            };
            [0x01 | op << 8 | u64::from(tag.0) << 16, lba.0 << 24 ^ blocks.0]
        }
        TraceEvent::Action(action) => action_words(&action),
        TraceEvent::MemberDone(id, result) => {
            let result = match result {
                Ok(()) => 0,
                Err(MemberError::Medium) => 1,
                Err(MemberError::Gone) => 2,
            };
            [0x02 | result << 8, u64::from(id.0)]
        }
        TraceEvent::MemoryDone(id) => [3, u64::from(id.0)],
        TraceEvent::TimerDue(id, at) => [0x04 | u64::from(id.0) << 8, at.0],
        TraceEvent::PowerCut => [7, 0],
        TraceEvent::PeerCame => [8, 0],
        TraceEvent::TakenOver => [9, 0],
        TraceEvent::Lie(member, place) => [0x0a | u64::from(member.0) << 8, place],
        TraceEvent::Battery(state) => [5, state as u64],
        TraceEvent::Fault(index, fault, hit) => [0x06 | (fault as u64) << 8 | (index as u64) << 16, hit],
    }
}

fn action_words(action: &Action) -> [u64; 2] {
    match *action {
        Action::Member(io) => {
            let op = match io.op {
                MemberOp::Read => 0,
                MemberOp::Write { fua } => 1 + u64::from(fua),
                MemberOp::Flush => 3,
                MemberOp::Discard => 4,
            };
            let kind = 16 | op << 8 | (io.area as u64) << 12 | u64::from(io.member.0) << 16;
            [kind | u64::from(io.id.0) << 32, io.lba.0 << 24 ^ io.blocks.0]
        }
        Action::Memory(task) => [0x11 | (task.kind as u64) << 8 | u64::from(task.id.0) << 32, task.bytes_in],
        Action::Complete(done) => [0x12 | u64::from(done.result.is_err()) << 8, u64::from(done.tag.0)],
        Action::Timer { id, at } => [0x13 | u64::from(id.0) << 8, at.0],
        Action::Keep(keep) => {
            let bytes = keep.bytes();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("32 bytes"));
            [0x14 | u64::from(keep.slot) << 8, word(0) ^ word(8) ^ word(16).rotate_left(1) ^ word(24)]
        }
        Action::Notice(notice) => notice_words(notice),
    }
}

fn notice_words(notice: Notice) -> [u64; 2] {
    match notice {
        Notice::MemberFailed { member } => [32, u64::from(member.0)],
        Notice::MemberAdded { member } => [33, u64::from(member.0)],
        Notice::ScanStarted { .. } => [34, 0],
        Notice::ScanParked { .. } => [42, 0],
        Notice::ScanResumed { .. } => [43, 0],
        Notice::ScanEnded { progress: ScanProgress { counts, .. }, end } => {
            [0x23 | (end as u64) << 8, counts.stripes << 32 ^ counts.rewritten_rows]
        }
        Notice::Restored { member, lba, blocks } => [0x24 | u64::from(member.0) << 8, lba.0 << 24 ^ blocks.0],
        Notice::BlocksLost { member, lba, blocks, reason } => {
            [0x25 | u64::from(member.0) << 8 | (reason as u64) << 32, lba.0 << 24 ^ blocks.0]
        }
        Notice::ReadAgain { member, lba, blocks } => {
            [0x2a | u64::from(member.0) << 8, lba.0 << 24 ^ blocks.0]
        }
        Notice::Mismatch { member, lba, blocks } => [0x29 | u64::from(member.0) << 8, lba.0 << 24 ^ blocks.0],
        Notice::Outvoted { member, lba, blocks } => [0x2c | u64::from(member.0) << 8, lba.0 << 24 ^ blocks.0],
        Notice::Undecided(found) => [0x2d | u64::from(found.strips) << 8, found.lba.0 << 24 ^ found.blocks.0],
        Notice::Serving => [38, 0],
        Notice::Stopped => [40, 0],
        Notice::NvramLost => [41, 0],
        Notice::WrittenMapLost => [46, 0],
        Notice::WriteLost { lba, blocks, .. } => [39, lba.0 << 24 ^ blocks.0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_events_come_oldest_first_and_change_the_digest() {
        let mut trace = Trace::new(1);
        for stamp in 0..(EVENTS as u64 + 7) {
            let before = trace.digest();
            trace.note(stamp, TraceEvent::MemoryDone(MemoryTaskId(stamp as u32)));
            assert_ne!(trace.digest(), before);
        }
        let stamps: Vec<u64> = trace.latest().iter().map(|event| event.0).collect();
        assert_eq!(stamps, (7..EVENTS as u64 + 7).collect::<Vec<_>>());
    }
}
