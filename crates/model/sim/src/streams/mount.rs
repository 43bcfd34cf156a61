//! Calls of an NFS client of Linux 2.4 to one mounted volume: those under way, and those that wait.
//!
//! ```text
//!  calls of all readers ─► waiting, first come, first served ─► under way, as many as the window allows ─► server
//! ```
//! Over TCP the window is the mount's number of slots. Over UDP it begins small and grows slowly: an answer that comes
//! while all slots are taken widens the window of c calls by 1 / c, and then not for 4 c seconds. It takes over a
//! minute to reach five calls, and an hour and a half to reach sixteen.
//!
//! Left out: lost answers, which halve the window.
//! Source: Linux 2.4.0, `net/sunrpc/xprt.c` (`xprt_adjust_cwnd`).

use raidlab_hardware::{NfsServerModel, Transport};
use raidlab_units::{NanoSpan, Nanos};
use std::collections::VecDeque;

/// What one call counts in the window.
const CALL: u32 = 256;

/// How long a window is kept for each call that it is wide.
const KEPT_FOR: NanoSpan = NanoSpan::from_secs(4);

#[derive(Debug)]
pub(super) struct Mount {
    waiting: VecDeque<u32>,
    under_way: u32,
    window: u32,
    window_max: u32,
    /// When the window may grow again.
    grows_at: Nanos,
}

impl Mount {
    pub(super) fn new(model: &NfsServerModel, transport: Transport) -> Self {
        let first = match transport {
            Transport::Udp => model.client_calls_first.min(model.client_calls),
            Transport::Tcp => model.client_calls,
        };
        Self {
            waiting: VecDeque::new(),
            under_way: 0,
            window: first * CALL,
            window_max: model.client_calls * CALL,
            grows_at: Nanos::ZERO,
        }
    }

    /// Takes in a call.
    pub(super) fn put(&mut self, call: u32) {
        self.waiting.push_back(call);
    }

    const fn is_full(&self) -> bool {
        self.under_way * CALL >= self.window
    }

    /// The next call to send, which is under way from then on.
    pub(super) fn poll_call(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let call = self.waiting.pop_front()?;
        self.under_way += 1;
        Some(call)
    }

    /// A call is answered.
    pub(super) fn handle_answer(&mut self, now: Nanos) {
        if self.is_full() && self.window < self.window_max && now >= self.grows_at {
            self.window += (CALL * CALL + self.window / 2) / self.window;
            self.window = self.window.min(self.window_max);
            self.grows_at = now + KEPT_FOR * u64::from(self.window) / u64::from(CALL);
        }
        self.under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_hardware::Catalog;

    /// Calls at once after so many seconds with always one more than can be sent, each answered after a millisecond.
    fn calls_after(seconds: u64, transport: Transport) -> u32 {
        let model = Catalog::builtin().server("asa").unwrap().nfs.unwrap();
        let mut mount = Mount::new(&model, transport);
        (0..40).for_each(|call| mount.put(call));
        while mount.poll_call().is_some() {}
        for milli in 0..seconds * 1000 {
            mount.handle_answer(Nanos(milli * 1_000_000));
            mount.put(0);
            while mount.poll_call().is_some() {}
        }
        mount.under_way
    }

    #[test]
    fn over_udp_a_mount_begins_with_one_call_and_has_sixteen_after_an_hour_and_a_half() {
        let after = [0, 1, 9, 80, 5400].map(|seconds| calls_after(seconds, Transport::Udp));
        assert_eq!(after, [1, 2, 3, 5, 16]);
        assert_eq!(calls_after(0, Transport::Tcp), 16);
    }
}
