//! A scan that has a share of the time, as hardware controllers promise it.
//!
//! ```text
//!  scan   visits of 16 MiB ─► all have ended, after t ─► rest of t x (100 - share) / share ───────────────► the next
//!  host   new requests wait                              has the array for itself ─► new ones wait, old ones end
//! ```
//! A slice begins when the requests that the host had under way have ended: the time that these take is the host's, and counts as part
//! of the rest. Both have their share of the time, whatever the other one asks for: a rebuild ends beside a load that never does, and the host loses no
//! more than the share. Long runs in slices cost the members far fewer seeks than single strips between the host's requests. Linux md
//! works in slices, too, where `sync_speed_min` equals `sync_speed_max`: until its rate is above that, then it sleeps for half a second; it
//! does not let the host wait. Source: Linux 6.1 `drivers/md/md.c`, `md_do_sync`.

use raidlab_units::{NanoSpan, Nanos};

/// Bytes on each member that are walked over between two rests: some 80 ms of a disk, 5 of fast flash. Some members idle already while the
/// last requests of the host end, which costs it up to a tenth more than the share.
const SLICE: u64 = 16 << 20;

/// The slices of one scan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slices {
    /// When the slice began, and what it walks over so far.
    began: Option<Nanos>,
    bytes: u64,
    /// Since when requests of the host are waited for, how long it took before this slice, and whether they still are.
    waits_since: Option<Nanos>,
    waited: NanoSpan,
    waits: bool,
}

impl Slices {
    /// Takes in that a visit begins that walks over so many bytes on each member.
    pub(crate) fn walk(&mut self, now: Nanos, bytes: u64) {
        self.began.get_or_insert(now);
        self.bytes += bytes;
    }

    /// Whether a slice may go on or begin, while the host has requests under way or none. One that may not waits for their end.
    pub(crate) fn may_begin(&mut self, now: Nanos, is_host_idle: bool) -> bool {
        if self.began.is_some() {
            return true;
        }
        let since = *self.waits_since.get_or_insert(now);
        self.waits = !is_host_idle;
        if is_host_idle {
            (self.waits_since, self.waited) = (None, now - since);
        }
        is_host_idle
    }

    /// Whether the next slice waits for requests of the host to end.
    pub(crate) const fn waits(&self) -> bool {
        self.waits
    }

    /// No longer waits, until it is asked again whether a slice may begin.
    pub(crate) const fn look_again(&mut self) {
        self.waits = false;
    }

    /// Whether another visit may begin in this slice.
    pub(crate) const fn has_room(&self) -> bool {
        self.bytes < SLICE
    }

    /// Ends a slice whose visits have all ended. Returns the end of the rest after it, where scans have `share_pct` of the time.
    pub(crate) fn end(&mut self, now: Nanos, share_pct: u8) -> Nanos {
        let Self { began, waited, .. } = core::mem::take(self);
        let worked = u128::from((now - began.unwrap_or(now)).0);
        let share = u128::from(share_pct.clamp(1, 100));
        now + NanoSpan(((worked * (100 - share) / share) as u64).saturating_sub(waited.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_as_long_as_the_other_share() {
        for (share_pct, rest) in [(100, 0), (50, 90), (30, 210), (10, 810)] {
            let mut slices = Slices::default();
            slices.walk(Nanos(1_000), SLICE - 1);
            assert!(slices.has_room());
            slices.walk(Nanos(1_040), 1);
            assert!(!slices.has_room());
            assert_eq!(slices.end(Nanos(1_090), share_pct), Nanos(1_090 + rest), "{share_pct} %");
            assert!(slices.has_room(), "the next one is empty");
        }
    }

    #[test]
    fn a_slice_begins_when_the_host_has_nothing_under_way_and_that_wait_is_part_of_the_rest() {
        let mut slices = Slices::default();
        assert!(!slices.may_begin(Nanos(1_000), false) && slices.waits());
        slices.look_again();
        assert!(!slices.waits() && slices.may_begin(Nanos(1_050), true));
        slices.walk(Nanos(1_050), SLICE);
        assert!(slices.may_begin(Nanos(1_060), false), "what has begun goes on");
        assert_eq!(slices.end(Nanos(1_140), 30), Nanos(1_140 + 210 - 50));
        assert!(slices.may_begin(Nanos(1_300), true));
        slices.walk(Nanos(1_300), SLICE);
        assert_eq!(slices.end(Nanos(1_390), 30), Nanos(1_390 + 210), "it has not waited");
    }
}
