//! Writes zeros over the data areas of all members at once, a few large writes in flight on each.

use crate::arena::Arena;
use crate::error::MembersError;
use crate::mark::DATA_OFFSET_BYTES;
use crate::members::{Members, allocation_failed, failed};
use crate::ring::{Direction, Done, IoVec, Ring, Target};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of one write.
const WRITE_BYTES: u64 = 1 << 20;
/// Writes in flight on all members together.
const WRITES_IN_FLIGHT: usize = 16;
/// How long to wait for a write before looking at the request to stop.
const PATIENCE: NanoSpan = NanoSpan::from_millis(100);

/// One write that is in flight, or a free place for one.
#[derive(Clone, Copy, Debug)]
struct Write {
    member: MemberIndex,
    bytes: u64,
}

/// Writes zeros over all data areas and makes them durable.
///
/// # Errors
/// [`MembersError`]: the system's refusal, or `cancel`.
pub(crate) fn write_zeros(
    members: &Members,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<(), MembersError> {
    let bytes = ByteCount(WRITE_BYTES);
    let zeros = Arena::new(WRITE_BYTES).map_err(|source| MembersError::Memory { bytes, source })?;
    // The ring is dropped before the zeros, and waits for its writes then.
    let mut ring = Ring::new(members.count() as u16)?;
    for (place, file) in (0..).zip(members.descriptors()) {
        ring.set_file(place, file)?;
    }
    let total: u64 = members.indexes().map(|member| members.data_bytes(member).get()).sum();
    let mut plan = Plan { members, next: members.indexes().map(|_| 0).collect(), turn: 0 };
    let mut writes = [Write { member: MemberIndex(0), bytes: 0 }; WRITES_IN_FLIGHT];
    let mut free: Vec<usize> = (0..WRITES_IN_FLIGHT).collect();
    let mut done = Vec::with_capacity(WRITES_IN_FLIGHT);
    let mut written = 0;
    while written < total {
        if cancel.load(Ordering::Relaxed) {
            return Err(MembersError::Cancelled);
        }
        while let Some(place) = free.pop() {
            let Some((write, offset)) = plan.next_write() else { break };
            writes[place] = write;
            let piece = IoVec { base: zeros.address(0, write.bytes), bytes: write.bytes as usize };
            let file = write.member.0;
            let direction = Direction::Write { durable: false };
            ring.push_transfer(place as u32, file, direction, offset, Target::Single(piece, None))?;
        }
        ring.enter(Some(PATIENCE))?;
        ring.reap(&mut done);
        for ended in done.drain(..) {
            written += check(members, writes[ended.number as usize], ended)?;
            free.push(ended.number as usize);
        }
        progress(ByteCount(written), ByteCount(total));
    }
    members.sync()
}

/// Which write comes next: the members take turns.
struct Plan<'a> {
    members: &'a Members,
    /// First byte not written yet of each member's data area.
    next: Vec<u64>,
    turn: usize,
}

impl Plan<'_> {
    /// Returns the next write and its offset in the file, or `None` when all are planned.
    fn next_write(&mut self) -> Option<(Write, u64)> {
        for _ in 0..self.next.len() {
            let member = MemberIndex(self.turn as u16);
            self.turn = (self.turn + 1) % self.next.len();
            let at = self.next[member.index()];
            let bytes = WRITE_BYTES.min(self.members.data_bytes(member).get() - at);
            if bytes > 0 {
                self.next[member.index()] = at + bytes;
                return Some((Write { member, bytes }, DATA_OFFSET_BYTES + at));
            }
        }
        None
    }
}

fn check(members: &Members, write: Write, ended: Done) -> Result<u64, MembersError> {
    let path = members.path(write.member);
    match ended.result {
        Ok(bytes) if u64::from(bytes) == write.bytes => Ok(write.bytes),
        Ok(_) => Err(failed("write to", path, std::io::ErrorKind::WriteZero.into())),
        Err(errno) => Err(allocation_failed(path, ByteCount(write.bytes), errno)),
    }
}
