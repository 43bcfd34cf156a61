//! The array's shared resources and how long each was busy.

use raidlab_hardware::{FirstThread, Server};
use raidlab_units::{NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A first-come, first-served resource that adds up its work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyServer {
    server: Server,
    taken_on: NanoSpan,
}

impl BusyServer {
    #[inline]
    pub(super) fn serve(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.taken_on += span;
        self.server.serve(now, span)
    }

    /// As [`Server::serve_when_ready`].
    pub(super) fn serve_when_ready(&mut self, now: Nanos, ready: Nanos, span: NanoSpan) -> Nanos {
        self.taken_on += span;
        self.server.serve_when_ready(now, ready, span)
    }

    /// Work done until `now`: what was taken on, without what lies ahead.
    pub(super) fn busy_until_now(&self, now: Nanos) -> NanoSpan {
        self.taken_on - self.server.busy_until().saturating_since(now)
    }
}

/// Equal servers with one line: work goes to the one that is free first.
#[derive(Clone, Debug)]
pub(super) struct ServerPool {
    /// When the first to be free has done all that it has taken on.
    first_free_at: Nanos,
    /// The same of the others.
    free_at: BinaryHeap<Reverse<Nanos>>,
    taken_on: NanoSpan,
}

impl ServerPool {
    /// A pool of `count` servers, at least one.
    pub(super) fn new(count: u32) -> Self {
        assert!(count > 0, "a pool without servers serves nobody");
        let free_at = vec![Reverse(Nanos::ZERO); count as usize - 1].into();
        Self { first_free_at: Nanos::ZERO, free_at, taken_on: NanoSpan::ZERO }
    }

    #[inline]
    pub(super) fn serve(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.taken_on += span;
        let end = self.first_free_at.max(now) + span;
        self.first_free_at = end;
        if let Some(mut next) = self.free_at.peek_mut()
            && next.0 < end
        {
            core::mem::swap(&mut next.0, &mut self.first_free_at);
        }
        end
    }

    /// When the first of them has done all that it has taken on.
    pub(super) fn first_free_at(&self) -> Nanos {
        self.first_free_at
    }

    /// As [`Server::serve_when_ready`], by the server that is free first.
    pub(super) fn serve_when_ready(&mut self, now: Nanos, ready: Nanos, span: NanoSpan) -> Nanos {
        self.serve(now, span).max(ready + span)
    }

    /// Mean work done per server until `now`.
    pub(super) fn busy_until_now(&self, now: Nanos) -> NanoSpan {
        let all = self.free_at.iter().map(|free_at| free_at.0).chain([self.first_free_at]);
        let ahead: NanoSpan = all.map(|free_at| free_at.saturating_since(now)).sum();
        (self.taken_on - ahead) / (self.free_at.len() as u64 + 1)
    }
}

/// The thread of software that decides and takes its part of the I/O, which others may do as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstThreadServer {
    costs: FirstThread,
    has_others: bool,
    server: BusyServer,
}

impl FirstThreadServer {
    pub(super) fn new(costs: FirstThread, has_others: bool) -> Self {
        Self { costs, has_others, server: BusyServer::default() }
    }

    #[inline]
    pub(super) fn serve(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.server.serve(now, span)
    }

    /// Decides about a member command, and has its I/O of `span` done by whichever thread is free first.
    pub(super) fn command(&mut self, now: Nanos, span: NanoSpan, others: &mut ServerPool) -> Nanos {
        let decided = self.serve(now, self.costs.member_command);
        if !self.has_others || decided <= others.first_free_at() {
            return self.serve(now, span);
        }
        let ready = self.serve(now, self.costs.hand_over);
        others.serve_when_ready(now, ready, span)
    }

    pub(super) fn busy_until_now(&self, now: Nanos) -> NanoSpan {
        self.server.busy_until_now(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_no_work_that_lies_ahead() {
        let mut server = BusyServer::default();
        server.serve(Nanos(10), NanoSpan(5));
        server.serve(Nanos(12), NanoSpan(5));
        let rows = [(12, 2), (20, 10), (50, 10)];
        for (now, busy) in rows {
            assert_eq!(server.busy_until_now(Nanos(now)), NanoSpan(busy), "at {now}");
        }
    }

    #[test]
    fn a_first_thread_decides_and_leaves_what_others_can_begin_sooner() {
        let costs = FirstThread { member_command: NanoSpan(1), hand_over: NanoSpan(2) };
        let ends = |has_others: bool| {
            let (mut first, mut others) = (FirstThreadServer::new(costs, has_others), ServerPool::new(1));
            let ends: Vec<_> = (0..3).map(|_| first.command(Nanos(0), NanoSpan(10), &mut others).0).collect();
            (ends, first.busy_until_now(Nanos(100)), others.busy_until_now(Nanos(100)))
        };
        assert_eq!(ends(false), (vec![11, 22, 33], NanoSpan(33), NanoSpan(0)));
        // Decided at 1 and left, ready at 3; decided at 4, when the other is busy until 10, and kept.
        assert_eq!(ends(true), (vec![13, 14, 27], NanoSpan(17), NanoSpan(20)));
    }

    #[test]
    fn a_pool_serves_with_whoever_is_free_first() {
        let mut pool = ServerPool::new(2);
        let ends: Vec<_> = [10, 4, 3, 3].iter().map(|span| pool.serve(Nanos(0), NanoSpan(*span)).0).collect();
        assert_eq!(ends, [10, 4, 7, 10]);
        assert_eq!(pool.busy_until_now(Nanos(10)), NanoSpan(10));
    }
}
