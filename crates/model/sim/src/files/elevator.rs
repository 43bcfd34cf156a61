//! The queue of a volume: reads first come, first served; writes in order of address; alternating if there are both.
//!
//! ```text
//!  reads ──────────┐  read batch (500 ms) │ write batch (125 ms) │ read batch ...
//!  writes, merged ─┴─► at most `volume_depth` at the volume
//! ```
//! When no read waits but one has just ended, and its batch is not over, writes wait a little, because its process will
//! probably read on (anticipation). Adjacent writes become one, up to the longest request. Once a second the oldest
//! write is examined: if it has waited too long it comes next, and the order of address continues from there.
//!
//! Source: Linux 2.6.0, `drivers/block/as-iosched.c` (`as_fifo_expired`). Left out: the deadlines of reads, and whose
//! read it was.

use super::cache::Run;
use raidlab_hardware::KernelModel;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// How long a write may wait while others pass it, and how often that is looked at (`default_write_expire`).
const WRITE_EXPIRE: NanoSpan = NanoSpan::from_secs(1);

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

/// A write that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    since: Nanos,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Elevator {
    reads: VecDeque<Request>,
    writes: BTreeMap<u64, Waiting>,
    depth: u32,
    request_max: ByteCount,
    sent: u32,
    /// Where the last write ended.
    position: u64,
    /// When the oldest write was looked at.
    looked_at: Nanos,
    is_writing: bool,
    batch_end: Nanos,
    hold_until: Nanos,
}

impl Elevator {
    pub(super) fn new(kernel: &KernelModel) -> Self {
        Self { depth: kernel.volume_depth, request_max: kernel.request_max, ..Self::default() }
    }

    /// Writes that wait.
    pub(super) fn write_count(&self) -> u32 {
        self.writes.len() as u32
    }

    pub(super) fn add(&mut self, now: Nanos, request: Request) {
        if !request.is_write {
            self.reads.push_back(request);
            return;
        }
        let mut new = Waiting { request, since: now };
        if let Some((&offset, before)) = self.writes.range(..request.offset).next_back()
            && let Some(both) = merged(before, &new, self.request_max)
        {
            self.writes.remove(&offset);
            new = both;
        }
        let end = new.request.offset + new.request.bytes;
        if let Some(after) = self.writes.get(&end)
            && let Some(both) = merged(&new, after, self.request_max)
        {
            self.writes.remove(&end);
            new = both;
        }
        self.writes.insert(new.request.offset, new);
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
        Next::Send(if write {
            self.take_write(now)
        } else {
            self.reads.pop_front().expect("there is a read")
        })
    }

    /// The next write upwards, else the first; or the oldest, if it is time to look at it and it has waited for too long.
    fn take_write(&mut self, now: Nanos) -> Request {
        let next = self.writes.range(self.position..).next().or_else(|| self.writes.iter().next());
        let mut offset = *next.expect("there is a write").0;
        if now.saturating_since(self.looked_at) >= WRITE_EXPIRE {
            self.looked_at = now;
            let oldest = self.writes.iter().min_by_key(|(_, waiting)| waiting.since);
            let late = oldest.filter(|(_, waiting)| now.saturating_since(waiting.since) > WRITE_EXPIRE);
            offset = late.map_or(offset, |(&offset, _)| offset);
        }
        let request = self.writes.remove(&offset).expect("it was found").request;
        self.position = request.offset + request.bytes;
        request
    }
}

/// Both as one, as old as the older, if the second begins where the first ends, in its file, too.
fn merged(first: &Waiting, second: &Waiting, most: ByteCount) -> Option<Waiting> {
    let since = first.since.min(second.since);
    let (first, second) = (&first.request, &second.request);
    let (one, two) = (first.run?, second.run?);
    let touches = first.offset + first.bytes == second.offset
        && one.inode == two.inode
        && one.first + one.units == two.first;
    let bytes = first.bytes + second.bytes;
    let run = Some(Run { units: one.units + two.units, ..one });
    (touches && bytes <= most.0).then_some(Waiting { request: Request { run, bytes, ..*first }, since })
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_hardware::Catalog;

    #[test]
    fn writes_go_upwards_and_one_that_has_waited_for_a_second_comes_next() {
        let catalog = Catalog::builtin();
        let kernel = &catalog.host("noral3").unwrap().kernel;
        let mut elevator = Elevator::new(kernel);
        let ms = |ms: u64| Nanos(NanoSpan::from_millis(ms).0);
        let write = |offset| Request { run: None, is_write: true, offset, bytes: 4096 };
        let mut order = Vec::new();
        let mut take = |elevator: &mut Elevator, now: Nanos| {
            let Next::Send(request) = elevator.poll(now, kernel) else { panic!("a write waits at {now:?}") };
            elevator.handle_end(now, true, kernel);
            order.push(request.offset >> 20);
        };
        elevator.add(ms(2000), write(50 << 20));
        take(&mut elevator, ms(2000));
        // Two behind it, and a stream that stays ahead of them.
        elevator.add(ms(2050), write(20 << 20));
        elevator.add(ms(2200), write(10 << 20));
        for (step, now) in (60..64).zip((2300..).step_by(400)) {
            elevator.add(ms(now), write(step << 20));
            take(&mut elevator, ms(now));
        }
        take(&mut elevator, ms(3510));
        take(&mut elevator, ms(3520));
        // At 3100 ms it is time to look: the oldest is late, and the order goes on from there.
        assert_eq!(order, [50, 60, 61, 20, 62, 63, 10]);
    }
}
