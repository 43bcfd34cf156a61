//! How soon the members answer reads.
//!
//! The time that a read takes says nothing where others of its owner are under way. So a sample begins with a read that is asked of
//! idle devices, and counts those that are asked at the same instant: a host that has many under way asks for several in one turn.

use crate::table::NIL;
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// A read that takes no longer than this and a nanosecond for each byte is quick. With files in memory, reads of 64 KiB one after the
/// other took 118 us through the cache and 90 past it, and the file some 12. So reading ahead pays from some 40 us on; what the array
/// sends to its host in the same turn counts as well, some 20 us for each.
const NANOS_PER_READ: u64 = 6_000;
/// Samples that must have been quick more often than not.
const QUICK_MIN: u8 = 8;
/// How far samples of the past count.
const QUICK_MAX: u8 = 16;

/// Whether reads have lately been answered sooner than they could be copied out of the cache.
#[derive(Debug)]
pub(super) struct ReadSpeed {
    /// The read whose end ends the sample, if one is taken.
    first: u32,
    at: Nanos,
    reads: u64,
    bytes: u64,
    quick: u8,
}

impl ReadSpeed {
    pub(super) const fn new() -> Self {
        Self { first: NIL, at: Nanos::ZERO, reads: 0, bytes: 0, quick: 0 }
    }

    /// Takes in that a read begins, of devices that were idle or not.
    #[inline]
    pub(super) fn begin(&mut self, id: u32, now: Nanos, bytes: ByteCount, was_idle: bool) {
        if was_idle {
            (self.first, self.at, self.reads, self.bytes) = (id, now, 1, bytes.0);
        } else if self.first != NIL && self.at == now {
            self.reads += 1;
            self.bytes += bytes.0;
        }
    }

    /// Takes in that an I/O has ended.
    #[inline]
    pub(super) fn end(&mut self, id: u32, now: Nanos) {
        if self.first == id {
            self.first = NIL;
            let limit = NanoSpan(self.reads * NANOS_PER_READ + self.bytes);
            let is_quick = now - self.at <= limit;
            self.quick = if is_quick { QUICK_MAX.min(self.quick + 1) } else { self.quick.saturating_sub(1) };
        }
    }

    /// True if the members answer so soon that reading ahead gains nothing.
    pub(super) const fn is_quick(&self) -> bool {
        self.quick >= QUICK_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: ByteCount = ByteCount(65536);

    fn sample(speed: &mut ReadSpeed, at: u64, reads: u32, nanos: u64) {
        (0..reads).for_each(|id| speed.begin(id, Nanos(at), BYTES, id == 0));
        (0..reads).for_each(|id| speed.end(id, Nanos(at + nanos)));
    }

    #[test]
    fn members_are_quick_while_most_reads_take_less_than_a_copy_each() {
        // Reads at once, how long they take, whether that is quick.
        for (reads, micros, expected) in
            [(1, 12, true), (1, 70, true), (1, 90, false), (12, 800, true), (12, 900, false)]
        {
            let mut speed = ReadSpeed::new();
            for turn in 0..20 {
                assert_eq!(
                    speed.is_quick(),
                    expected && turn >= u64::from(QUICK_MIN),
                    "{reads} in {micros} us"
                );
                sample(&mut speed, turn * 1_000_000, reads, micros * 1000);
            }
            // One in a while that is late changes nothing; many do.
            sample(&mut speed, 30_000_000, 1, 5_000_000);
            assert_eq!(speed.is_quick(), expected);
            (0..10).for_each(|turn| sample(&mut speed, (turn + 40) * 1_000_000, 1, 90_000));
            assert!(!speed.is_quick());
        }
    }

    #[test]
    fn reads_beside_others_are_no_sample() {
        let mut speed = ReadSpeed::new();
        for turn in 0..20 {
            speed.begin(7, Nanos(turn), BYTES, false);
            speed.end(7, Nanos(turn));
        }
        assert!(!speed.is_quick());
    }
}
