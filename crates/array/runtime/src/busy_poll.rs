//! When to poll for completions instead of sleeping until the kernel wakes the thread.
//!
//! A sleep costs two context switches and, on a processor that has gone idle, its wake-up time: 10 to 20 us, when the
//! event itself may be 10 us away. So a loop whose recent waits were shorter than a limit polls for that long before it
//! sleeps, and one whose waits are longer sleeps at once: an idle array costs nothing.
//!
//! Source: halt polling of KVM (`Documentation/virt/kvm/halt-polling.rst` of Linux).

use std::time::Duration;

/// Waits in a row that must have been short before looking begins, and what a long one takes away.
const SHORT_WAITS_MIN: u8 = 2;
const SHORT_WAITS_MAX: u8 = 8;

/// Whether to look, by what the latest waits were like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyPoll {
    limit: Duration,
    /// How much speaks for looking.
    short_waits: u8,
}

impl BusyPoll {
    /// Looks for `limit` at most; not at all if that is zero.
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, short_waits: 0 }
    }

    /// Whether it ever looks: if not, nothing needs to be learnt.
    pub(crate) const fn is_off(&self) -> bool {
        self.limit.is_zero()
    }

    /// How long to look before sleeping, if at all.
    pub(crate) fn look_for(&self) -> Option<Duration> {
        (!self.is_off() && self.short_waits >= SHORT_WAITS_MIN).then_some(self.limit)
    }

    /// Takes in how long a wait was in all.
    pub(crate) fn learn(&mut self, wait: Duration) {
        if wait <= self.limit {
            self.short_waits = (self.short_waits + 1).min(SHORT_WAITS_MAX);
        } else {
            self.short_waits /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(10);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn looking_begins_after_short_waits_and_ends_after_long_ones() {
        let mut poll = BusyPoll::new(Duration::from_micros(50));
        assert_eq!(poll.look_for(), None, "nothing is known yet");
        (0..SHORT_WAITS_MIN).for_each(|_| poll.learn(SHORT));
        assert_eq!(poll.look_for(), Some(Duration::from_micros(50)));
        (0..100).for_each(|_| poll.learn(SHORT));
        poll.learn(LONG);
        assert!(poll.look_for().is_some(), "one long wait among many short ones changes nothing");
        (0..3).for_each(|_| poll.learn(LONG));
        assert_eq!(poll.look_for(), None, "a quiet loop sleeps");
    }

    #[test]
    fn without_a_limit_it_never_looks() {
        let mut poll = BusyPoll::new(Duration::ZERO);
        (0..10).for_each(|_| poll.learn(Duration::ZERO));
        assert!(poll.is_off() && poll.look_for().is_none());
    }
}
