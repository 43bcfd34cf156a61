//! How a scan makes way for the host, as Linux md's does.
//!
//! ```text
//!  visits ─► window of 128 KiB walked ─► slower than the floor, or no request since the last window? ─► the next window
//!                                                └─ no: waits until nothing is under way ─────────────────────┘
//! ```
//! There is no pause: with the host at work a scan has one window under way at a time, where else it has as much as the stripe cache
//! takes. Source: Linux 6.1 `drivers/md/md.c`, `md_do_sync`, `is_mddev_idle`.

use raidlab_units::{ByteCount, Nanos};

/// Bytes on each member between two looks: `window = 32 * (PAGE_SIZE / 512)` sectors.
const WINDOW: u64 = 128 << 10;

/// The rate is that of the last `SYNC_MARKS` steps of `SYNC_MARK_STEP`.
const MARKS: usize = 10;
const MARK_STEP_NS: u64 = 3_000_000_000;

/// When how much had been walked over.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Nanos,
    bytes: u64,
}

/// The pace of one scan.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    marks: [Mark; MARKS],
    last: usize,
    /// The mark that the rate counts from.
    since: Mark,
    walked: u64,
    looked_at: u64,
    /// Requests of the host at the last look.
    host_requests: u64,
    waits: bool,
}

impl Pace {
    pub(crate) fn new(now: Nanos) -> Self {
        let mark = Mark { at: now, bytes: 0 };
        Self {
            marks: [mark; MARKS],
            last: 0,
            since: mark,
            walked: 0,
            looked_at: 0,
            host_requests: 0,
            waits: false,
        }
    }

    /// Takes in that a visit begins that walks over so many bytes on each member.
    pub(crate) fn walk(&mut self, bytes: u64) {
        self.walked += bytes;
    }

    /// Whether another visit may begin, with so many bytes of visits under way and so many requests of the host so far.
    pub(crate) fn may_go_on(
        &mut self,
        now: Nanos,
        floor: ByteCount,
        under_way: ByteCount,
        host_requests: u64,
    ) -> bool {
        if self.waits && under_way.0 > 0 {
            return false;
        }
        self.waits = false;
        if self.walked < self.looked_at + WINDOW {
            return true;
        }
        self.looked_at = self.walked;
        let done = self.walked - under_way.0;
        if now >= self.marks[self.last].at + raidlab_units::NanoSpan(MARK_STEP_NS) {
            let next = (self.last + 1) % MARKS;
            self.since = self.marks[next];
            self.marks[next] = Mark { at: now, bytes: done };
            self.last = next;
        }
        let secs = (now - self.since.at).0 / 1_000_000_000;
        let kib_per_sec = (done.saturating_sub(self.since.bytes)) / 1024 / (secs + 1) + 1;
        if kib_per_sec * 1024 <= floor.0 {
            return true;
        }
        let is_idle = core::mem::replace(&mut self.host_requests, host_requests) == host_requests;
        self.waits = !is_idle && under_way.0 > 0;
        !self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::NanoSpan;

    const FLOOR: ByteCount = ByteCount(1000 << 10);

    /// Bytes walked over until the scan waits, with nothing ended meanwhile, and the host's requests as `host` has them.
    fn until_it_waits(pace: &mut Pace, now: Nanos, host: impl Fn(u64) -> u64) -> Option<u64> {
        let before = pace.walked;
        for page in 0..4096 {
            if !pace.may_go_on(now, FLOOR, ByteCount(pace.walked - before), host(page)) {
                return Some(pace.walked - before);
            }
            pace.walk(4096);
        }
        None
    }

    #[test]
    fn a_scan_makes_way_above_its_floor_and_only_for_a_host_that_asks() {
        let start = Nanos(5);
        let mut pace = Pace::new(start);
        // Nothing is done yet, so that the rate is below the floor however much is under way.
        assert_eq!(until_it_waits(&mut pace, start, |page| page), None);
        // In the first second after that, what is done (16 MiB) is above 1000 KiB/s.
        let later = start + NanoSpan::from_millis(500);
        assert!(until_it_waits(&mut pace, later, |page| 5000 + page) <= Some(2 * WINDOW));
        let all_done = ByteCount(0);
        assert!(pace.may_go_on(later, FLOOR, all_done, 9999), "when nothing is under way it goes on");
        assert_eq!(
            until_it_waits(&mut pace, later, |_| 9999),
            Some(WINDOW),
            "it has asked since the last look"
        );
        assert_eq!(until_it_waits(&mut pace, later, |_| 9999), None, "a host that asks for nothing");
        // A minute later the rate is that of the last half minute.
        let mut slow = Pace::new(start);
        for step in 0..60 {
            let now = start + NanoSpan::from_secs(step);
            slow.walk(WINDOW);
            assert!(slow.may_go_on(now, FLOOR, ByteCount(WINDOW), step), "128 KiB/s in second {step}");
        }
    }
}
