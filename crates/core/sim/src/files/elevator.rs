//! The queue of a volume: reads first come, first served; writes in order of address; by turns where there are both.
//!
//! ```text
//!  reads ──────────┐  read batch (500 ms) │ write batch (125 ms) │ read batch ...
//!  writes, merged ─┴─► at most `volume_depth` at the volume
//! ```
//! When no read waits but one has just ended, and its batch is not over, writes wait a little: whoever read will read on
//! (anticipation). Writes that touch become one, up to the longest request.
//!
//! Source: Linux 2.6.0, `drivers/block/as-iosched.c`. Left out: the deadlines of single requests, and whose read it was.

use super::cache::Run;
use raidlab_hardware::KernelModel;
use raidlab_units::{ByteCount, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// A request to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Whose pages these are; none for what is no file's.
    pub(super) run: Option<Run>,
    pub(super) is_write: bool,
    /// First byte on the volume.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send this.
    Send(Request),
    /// Ask again then, unless something happens before.
    WaitUntil(Nanos),
    Nothing,
}

#[derive(Clone, Debug)]
pub(super) struct Elevator {
    reads: VecDeque<Request>,
    writes: BTreeMap<u64, Request>,
    depth: u32,
    request_max: ByteCount,
    sent: u32,
    /// Where the last write ended.
    position: u64,
    is_writing: bool,
    batch_end: Nanos,
    hold_until: Nanos,
}

impl Elevator {
    pub(super) fn new(kernel: &KernelModel) -> Self {
        Self {
            reads: VecDeque::new(),
            writes: BTreeMap::new(),
            depth: kernel.volume_depth,
            request_max: kernel.request_max,
            sent: 0,
            position: 0,
            is_writing: false,
            batch_end: Nanos::ZERO,
            hold_until: Nanos::ZERO,
        }
    }

    /// Writes that wait.
    pub(super) fn write_count(&self) -> u32 {
        self.writes.len() as u32
    }

    pub(super) fn add(&mut self, request: Request) {
        if !request.is_write {
            self.reads.push_back(request);
            return;
        }
        let mut request = request;
        if let Some((&offset, before)) = self.writes.range(..request.offset).next_back()
            && let Some(both) = merged(before, &request, self.request_max)
        {
            self.writes.remove(&offset);
            request = both;
        }
        let end = request.offset + request.bytes;
        if let Some(after) = self.writes.get(&end)
            && let Some(both) = merged(&request, after, self.request_max)
        {
            self.writes.remove(&end);
            request = both;
        }
        self.writes.insert(request.offset, request);
    }

    /// A request has ended.
    pub(super) fn handle_end(&mut self, now: Nanos, is_write: bool, kernel: &KernelModel) {
        self.sent -= 1;
        if !is_write {
            self.hold_until = now + kernel.anticipation;
        }
    }

    pub(super) fn poll(&mut self, now: Nanos, kernel: &KernelModel) -> Next {
        if self.sent >= self.depth {
            return Next::Nothing;
        }
        let (reads, writes) = (!self.reads.is_empty(), !self.writes.is_empty());
        let in_batch = now < self.batch_end;
        let write = match (reads, writes) {
            (false, false) => return Next::Nothing,
            (true, false) => false,
            (false, true) => {
                let hold_until = self.hold_until.min(self.batch_end);
                if !self.is_writing && now < hold_until {
                    return Next::WaitUntil(hold_until);
                }
                true
            }
            (true, true) => self.is_writing == in_batch,
        };
        if write != self.is_writing || !(in_batch || reads && writes) {
            self.is_writing = write;
            self.batch_end = now + if write { kernel.write_batch } else { kernel.read_batch };
        }
        self.sent += 1;
        Next::Send(if write { self.take_write() } else { self.reads.pop_front().expect("there is a read") })
    }

    /// The next write upwards, else the first.
    fn take_write(&mut self) -> Request {
        let next = self.writes.range(self.position..).next().or_else(|| self.writes.iter().next());
        let offset = *next.expect("there is a write").0;
        let request = self.writes.remove(&offset).expect("it was found");
        self.position = request.offset + request.bytes;
        request
    }
}

/// Both as one, if the second begins where the first ends, in its file, too.
fn merged(first: &Request, second: &Request, most: ByteCount) -> Option<Request> {
    let (one, two) = (first.run?, second.run?);
    let touches = first.offset + first.bytes == second.offset
        && one.inode == two.inode
        && one.first + one.units == two.first;
    let bytes = first.bytes + second.bytes;
    (touches && bytes <= most.0).then_some(Request {
        run: Some(Run { units: one.units + two.units, ..one }),
        bytes,
        ..*first
    })
}
