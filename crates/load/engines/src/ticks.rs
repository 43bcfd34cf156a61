//! The clock of a load loop: the processor's counter, corrected by the system clock.
//!
//! The loop reads the time at least once per pass, and the system clock takes 20 ns: half the cost of a request that
//! does nothing. The counter takes 9 ns. It is used if the kernel's clock source is the counter, which implies that it
//! runs evenly, goes on in idle processors and is the same on all of them; otherwise each reading is the system's.
//!
//! ```text
//! system    read ───────────────── read ──────────────── read        one each millisecond
//! counter    │ time + ticks x rate  │ time + ticks x rate │
//! ```
//! **Error.** The rate is found from two readings a millisecond apart, then from ever longer spans, half a second to a
//! second. A reading is exact to its own duration (some 20 ns), so the time has that error, and at first 0.04 us after
//! a millisecond. The counter is read without a fence, as in fio: the processor may read it up to 0.1 us before the
//! preceding instructions have ended; a system call in between can't be overtaken.
//!
//! Invariant: time never goes back. If it is found to be ahead, it runs slower until the next correction.
//!
//! Source: Linux `timekeeping.c` and `tsc.c`; fio `arch-x86_64.h`.
#![allow(unsafe_code)]

use crate::clock::Clock;
use raidlab_units::Nanos;

/// Time between two looks at the system's clock.
const LOOK_EVERY_NS: u64 = 1_000_000;
/// A look counts if the readings of the counter around it are no further apart: nothing came in between.
const LOOK_TICKS_MAX: u64 = 4096;
/// So often a look is tried; the last one counts, whatever it is.
const LOOK_TRIES: u32 = 4;
/// The rate is found from a span between one and two of these, once so much time is over.
const SPAN_NS: u64 = 500_000_000;
/// Rates are nanoseconds per tick in units of 2^-32, so that a millisecond of ticks times a rate fits 64 bits.
const RATE_BITS: u32 = 32;
/// A counter slower than one tick in so many nanoseconds is none.
const TICK_NS_MAX: u64 = 16;

/// A look at both clocks.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    ticks: u64,
    ns: u64,
}

/// The clock of one thread.
#[derive(Debug)]
pub(crate) struct LoopClock {
    system: Clock,
    /// Where time goes on from: the last look, or a little ahead of it.
    base: Look,
    rate: u64,
    /// The base is good for so many ticks; none before the rate is known, or without a counter.
    ticks_max: u64,
    /// The look that the rate is found from, and the one that will take its place.
    first: Look,
    second: Look,
    has_counter: bool,
}

impl LoopClock {
    /// Returns a clock that shows the time of `system`.
    pub(crate) fn new(system: Clock) -> Self {
        let base = look(system);
        let has_counter = kernel_counts_ticks();
        Self { system, base, rate: 0, ticks_max: 0, first: base, second: base, has_counter }
    }

    /// Returns the time.
    #[inline]
    pub(crate) fn now(&mut self) -> Nanos {
        // A counter that went back is as one that is far ahead.
        let since = ticks().wrapping_sub(self.base.ticks);
        if since < self.ticks_max { Nanos(self.after(since)) } else { self.look_again() }
    }

    /// The time so many ticks after the base.
    #[inline]
    fn after(&self, ticks: u64) -> u64 {
        self.base.ns + ((ticks * self.rate) >> RATE_BITS)
    }

    /// Looks at the system's clock, goes on from there, and returns the time.
    #[cold]
    fn look_again(&mut self) -> Nanos {
        let look =
            if self.has_counter { look(self.system) } else { Look { ns: self.system.now().get(), ticks: 0 } };
        let span_ns = look.ns.saturating_sub(self.first.ns);
        let span_ticks = look.ticks.wrapping_sub(self.first.ticks);
        if !self.has_counter || span_ns < LOOK_EVERY_NS {
            self.base = Look { ns: look.ns.max(self.base.ns), ..look };
            return Nanos(self.base.ns);
        }
        if span_ticks < span_ns / TICK_NS_MAX || span_ticks >= 1 << 62 {
            // This is no counter of time.
            (self.has_counter, self.ticks_max) = (false, 0);
            return self.look_again();
        }
        // Nobody has seen a time later than the base allowed.
        let seen_ns = self.after(look.ticks.wrapping_sub(self.base.ticks).min(self.ticks_max));
        let ahead_ns = seen_ns.saturating_sub(look.ns).min(LOOK_EVERY_NS / 2);
        let rate = (u128::from(span_ns) << RATE_BITS) / u128::from(span_ticks);
        self.base = Look { ns: look.ns.max(seen_ns), ..look };
        self.ticks_max = ((u128::from(LOOK_EVERY_NS) << RATE_BITS) / rate.max(1)) as u64;
        self.rate = (rate * u128::from(LOOK_EVERY_NS - ahead_ns) / u128::from(LOOK_EVERY_NS)) as u64;
        if look.ns.saturating_sub(self.second.ns) > SPAN_NS {
            (self.first, self.second) = (self.second, look);
        }
        Nanos(self.base.ns)
    }
}

/// Reads both clocks at the same moment.
fn look(system: Clock) -> Look {
    let mut look = Look::default();
    for _ in 0..LOOK_TRIES {
        let before = ticks();
        let ns = system.now().get();
        let between = ticks().wrapping_sub(before);
        look = Look { ticks: before.wrapping_add(between / 2), ns };
        if between < LOOK_TICKS_MAX {
            break;
        }
    }
    look
}

/// Whether the kernel keeps time by the processor's counter, so that it can be trusted.
fn kernel_counts_ticks() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64") && std::fs::read_to_string(SOURCE).is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: the instruction reads a counter that every processor of this kind has, and nothing else.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two looks that came late by `LOOK_TICKS_MAX`, of a counter of 1 GHz or more.
    const OFF_NS_MAX: u64 = 2 * LOOK_TICKS_MAX;

    /// Readings between two of the system's clock, for so long.
    fn compare(clock: &mut LoopClock, for_ns: u64) {
        let system = clock.system;
        let start = system.now();
        let mut last = Nanos::ZERO;
        loop {
            let before = system.now().get();
            let now = clock.now();
            let after = system.now().get();
            assert!(now >= last, "time never goes back");
            last = now;
            // The first rates are off by as much as the two looks that they are found from.
            assert!(
                now.get() + OFF_NS_MAX >= before && now.get() <= after + OFF_NS_MAX,
                "{before} {now:?} {after} {clock:?}"
            );
            if after > start.get() + for_ns {
                return;
            }
        }
    }

    #[test]
    fn it_shows_the_time_of_the_system() {
        let mut clock = LoopClock::new(Clock::start());
        compare(&mut clock, 200_000_000);
        std::thread::sleep(std::time::Duration::from_millis(700));
        compare(&mut clock, 50_000_000);
        assert_eq!(clock.has_counter, kernel_counts_ticks());
        assert_eq!(clock.ticks_max > 0, clock.has_counter, "the counter is in use where there is one");
    }

    #[test]
    fn without_a_counter_it_is_the_clock_of_the_system() {
        let mut clock = LoopClock { has_counter: false, ..LoopClock::new(Clock::start()) };
        compare(&mut clock, 5_000_000);
        assert_eq!(clock.ticks_max, 0);
    }

    #[test]
    fn a_clock_that_is_ahead_goes_on_slower_and_never_back() {
        if !kernel_counts_ticks() {
            return;
        }
        let system = Clock::start();
        let mut clock = LoopClock::new(system);
        while clock.ticks_max == 0 {
            clock.now();
        }
        clock.base.ns += 100_000;
        let ahead = |clock: &mut LoopClock| clock.now().get().saturating_sub(system.now().get());
        assert!(ahead(&mut clock) > 50_000);
        let (start, mut last) = (system.now(), Nanos::ZERO);
        while system.now().get() < start.get() + 20_000_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(ahead(&mut clock) < 2000, "{clock:?}");
    }
}
