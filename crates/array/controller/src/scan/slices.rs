//! A scan that has a share of the time, as hardware controllers promise it.
//!
//! ```text
//!  scan   visits of 16 MiB ─► all have ended, after t ─► rest of t x (100 - share) / share ─► the next
//!  host   new requests wait                              has the array for itself
//! ```
//! Both have their share of the time, whatever the other one asks for: a rebuild ends beside a load that never does, and the host loses no
//! more than the share. Long runs in slices cost the members far fewer seeks than single strips between the host's requests. Linux md
//! works in slices, too, where `sync_speed_min` equals `sync_speed_max`: until its rate is above that, then it sleeps for half a second; it
//! does not let the host wait. Source: Linux 6.1 `drivers/md/md.c`, `md_do_sync`.

use raidlab_units::{NanoSpan, Nanos};

/// Bytes on each member that are walked over between two rests: some 80 ms of a disk.
const SLICE: u64 = 16 << 20;

/// The slices of one scan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slices {
    /// When the slice began, and what it walks over so far.
    began: Option<Nanos>,
    bytes: u64,
}

impl Slices {
    /// Takes in that a visit begins that walks over so many bytes on each member.
    pub(crate) fn walk(&mut self, now: Nanos, bytes: u64) {
        self.began.get_or_insert(now);
        self.bytes += bytes;
    }

    /// Whether another visit may begin in this slice.
    pub(crate) const fn has_room(&self) -> bool {
        self.bytes < SLICE
    }

    /// Ends a slice whose visits have all ended. Returns the end of the rest after it, where scans have `share_pct` of the time.
    pub(crate) fn end(&mut self, now: Nanos, share_pct: u8) -> Nanos {
        let began = core::mem::take(self).began.unwrap_or(now);
        let (worked, share) = (u128::from((now - began).0), u128::from(share_pct.clamp(1, 100)));
        now + NanoSpan((worked * (100 - share) / share) as u64)
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
}
