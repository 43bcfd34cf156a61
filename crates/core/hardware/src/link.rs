//! Links, and the one kind of resource that everything shared is: first come, first served.
//!
//! A [`LinkModel`] turns bytes into time; a [`Server`] turns "now" and a time into the instant the work ends,
//! after all work that came before. Left out: arbitration between directions and packet-level effects, which
//! the effective rate and the overhead of a transfer stand for.

use crate::catalog::{CatalogError, Section};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};

/// What a link does to a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// Payload rate once a transfer runs, encoding and framing taken off.
    pub rate: BytesPerSec,
    /// Time that each transfer adds: arbitration, headers, turn-around.
    pub per_transfer: NanoSpan,
}

impl LinkModel {
    /// Reads a link's table.
    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let link = Self { rate: section.figure("rate")?, per_transfer: section.figure("per_transfer")? };
        section.finish()?;
        Ok(link)
    }

    /// Time that the link is taken by one transfer of `bytes`.
    #[inline]
    pub fn transfer_time(&self, bytes: ByteCount) -> NanoSpan {
        self.per_transfer + self.rate.time_for(bytes)
    }
}

/// A resource that does one thing at a time, in the order it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    busy_until: Nanos,
}

impl Server {
    /// Takes on work of length `span` that may start at `now`, and returns when it ends.
    #[inline]
    pub fn serve(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.busy_until = self.busy_until.max(now) + span;
        self.busy_until
    }

    /// Takes on work at `now` whose input is there only at `ready`, and returns when it ends.
    ///
    /// The time until `ready` is not lost for others: the work takes its place in the queue now, so that the
    /// resource does no more in all than it can, and ends no sooner than `span` after `ready`. (Serving at `ready`
    /// would keep the resource idle until then for everybody who asks later.)
    #[inline]
    pub fn serve_when_ready(&mut self, now: Nanos, ready: Nanos, span: NanoSpan) -> Nanos {
        self.serve(now, span).max(ready + span)
    }

    /// When everything taken on so far ends; in the past for an idle server.
    #[inline]
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_takes_overhead_and_bytes_at_the_rate() {
        let link = LinkModel { rate: BytesPerSec::from_mb_per_s(100.0), per_transfer: NanoSpan(500) };
        assert_eq!(link.transfer_time(ByteCount(0)), NanoSpan(500));
        assert_eq!(link.transfer_time(ByteCount(1_000_000)), NanoSpan(10_000_500));
    }

    #[test]
    fn server_is_first_come_first_served_and_idles_between() {
        let mut server = Server::default();
        let rows = [(10, 5, 15), (11, 5, 20), (20, 1, 21), (100, 7, 107), (100, 0, 107)];
        for (now, span, end) in rows {
            assert_eq!(server.serve(Nanos(now), NanoSpan(span)), Nanos(end), "at {now}");
            assert_eq!(server.busy_until(), Nanos(end));
        }
    }

    #[test]
    fn waiting_for_input_leaves_the_server_to_others() {
        let mut server = Server::default();
        assert_eq!(server.serve_when_ready(Nanos(0), Nanos(100), NanoSpan(5)), Nanos(105));
        assert_eq!(server.serve(Nanos(1), NanoSpan(5)), Nanos(10), "not after 105");
        assert_eq!(server.serve_when_ready(Nanos(2), Nanos(3), NanoSpan(5)), Nanos(15), "ready, but third");
    }
}
