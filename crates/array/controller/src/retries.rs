//! Reads that failed and that nothing can stand in for: they are tried again after a while, before anything is given up.
//!
//! ```text
//! medium error of a read ─► the rest of the row makes up for it: on to redundancy, at once
//!                        └► nothing does: again after 20, 100 and 400 ms ─► what its owner takes for the end
//! ```
//! A link that is reset, a drive that times out or a path that fails over answers with errors for a moment. While a read waits here
//! it counts as under way. A device that has failed one read for good is not waited for again within a second, so that an array does
//! not stand still for each of many bad blocks.
//!
//! Left out: which reads nothing can stand in for (`controller/io.rs`), and writes.

use crate::api::TimerId;
use crate::member_io::IoState;
use crate::outbox::Outbox;
use raidlab_units::{MemberIndex, NanoSpan, Nanos};

/// The timer of the next read that is tried again.
pub(crate) const RETRY_TIMER: TimerId = TimerId(4);

/// How long a read waits before it is tried again, time after time.
const PAUSES: [NanoSpan; 3] =
    [NanoSpan::from_millis(20), NanoSpan::from_millis(100), NanoSpan::from_millis(400)];

/// For how long a device that has failed a read for good is not waited for.
const UNAWAITED_FOR: NanoSpan = NanoSpan::from_secs(1);

/// A read that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    at: Nanos,
    /// What its device played when it failed.
    pub(crate) role: MemberIndex,
    pub(crate) state: IoState,
}

/// The reads that wait.
#[derive(Debug)]
pub(crate) struct Retries {
    waiting: Vec<Retry>,
    /// For each device, until when it is not waited for.
    unawaited_until: Vec<Nanos>,
}

impl Retries {
    /// None, of so many devices.
    pub(crate) fn new(devices: usize) -> Self {
        Self { waiting: Vec::new(), unawaited_until: vec![Nanos::ZERO; devices] }
    }

    /// True when none waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets a read wait that has failed. Returns false if it has been tried often enough.
    pub(crate) fn put(
        &mut self,
        now: Nanos,
        (role, state): (MemberIndex, IoState),
        outbox: &mut Outbox,
    ) -> bool {
        let unawaited_until = &mut self.unawaited_until[state.member.index()];
        let Some(pause) = PAUSES.get(usize::from(state.tries)) else {
            *unawaited_until = now + UNAWAITED_FOR;
            return false;
        };
        if now < *unawaited_until {
            return false;
        }
        let state = IoState { tries: state.tries + 1, ..state };
        self.waiting.push(Retry { at: now + *pause, role, state });
        self.set_timer(outbox);
        true
    }

    /// The next read whose time has come.
    pub(crate) fn next_due(&mut self, now: Nanos, outbox: &mut Outbox) -> Option<Retry> {
        let Some(due) = self.waiting.iter().position(|retry| retry.at <= now) else {
            self.set_timer(outbox);
            return None;
        };
        Some(self.waiting.remove(due))
    }

    fn set_timer(&self, outbox: &mut Outbox) {
        if let Some(at) = self.waiting.iter().map(|retry| retry.at).min() {
            outbox.set_timer(RETRY_TIMER, at);
        }
    }
}
