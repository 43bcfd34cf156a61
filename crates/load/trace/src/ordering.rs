//! Requests in the order of their times, the first at zero.
//!
//! Traces are nearly in order: blkparse merges streams of several processors, and hosts' clocks have coarse ticks. A
//! heap of the latest [`ORDERING_WINDOW`] requests sorts them; a request that comes later than that is an error.
//! Requests of equal time keep the order of the trace.

use crate::error::LineProblem;
use crate::record::TraceRecord;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Requests that are kept to be put in order: a second of 65 536 IOPS, in 5 MiB.
pub const ORDERING_WINDOW: usize = 65_536;

/// Puts requests in order.
#[derive(Debug)]
pub struct Ordering {
    /// Those that came in order, which are nearly all of most traces.
    in_order: VecDeque<Waiting>,
    /// Those that came later than one with a later time.
    late: BinaryHeap<Reverse<Waiting>>,
    window: usize,
    taken: u64,
    /// Time of the first request that left.
    start_ns: Option<u64>,
    /// Time of the last request that left.
    left_ns: u64,
    latest_ns: u64,
    out_of_order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    record: TraceRecord,
}

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.record.time_ns, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Default for Ordering {
    fn default() -> Self {
        Self::with_window(ORDERING_WINDOW)
    }
}

impl Ordering {
    /// Returns one that keeps `window` requests, at least one.
    pub fn with_window(window: usize) -> Self {
        Self {
            in_order: VecDeque::new(),
            late: BinaryHeap::new(),
            window: window.max(1),
            taken: 0,
            start_ns: None,
            left_ns: 0,
            latest_ns: 0,
            out_of_order: 0,
        }
    }

    /// Takes in the next request of the trace, and returns the earliest one where there are enough.
    ///
    /// # Errors
    /// [`LineProblem::TooEarly`] if it should have left before one that has.
    pub fn push(&mut self, record: TraceRecord) -> Result<Option<TraceRecord>, LineProblem> {
        if record.time_ns < self.left_ns {
            let early_ns = self.left_ns - record.time_ns;
            return Err(LineProblem::TooEarly { early_ns, window: self.window });
        }
        self.out_of_order += u64::from(record.time_ns < self.latest_ns);
        self.latest_ns = self.latest_ns.max(record.time_ns);
        let waiting = Waiting { number: self.taken, record };
        if self.in_order.back().is_none_or(|last| last.key() < waiting.key()) {
            self.in_order.push_back(waiting);
        } else {
            self.late.push(Reverse(waiting));
        }
        self.taken += 1;
        Ok(if self.in_order.len() + self.late.len() > self.window { self.pop() } else { None })
    }

    /// Returns the earliest request that is left, when there are no more to come.
    pub fn pop(&mut self) -> Option<TraceRecord> {
        let is_late = match (self.in_order.front(), self.late.peek()) {
            (Some(first), Some(Reverse(late))) => late < first,
            (first, _) => first.is_none(),
        };
        let next =
            if is_late { self.late.pop().map(|Reverse(late)| late) } else { self.in_order.pop_front() };
        let Waiting { record, .. } = next?;
        self.left_ns = record.time_ns;
        let start_ns = *self.start_ns.get_or_insert(record.time_ns);
        Some(TraceRecord { time_ns: record.time_ns - start_ns, ..record })
    }

    /// Requests that came later than one with a later time.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// The time of the first request on the trace's own clock; none before one has left.
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TraceKind;
    use proptest::prelude::*;

    fn at(time_ns: u64, number: u64) -> TraceRecord {
        let (kind, device) = (TraceKind::Read, 0);
        TraceRecord { time_ns, device, kind, offset_bytes: number, length_bytes: 512, response_ns: None }
    }

    fn ordered(window: usize, times: &[u64]) -> Result<Vec<TraceRecord>, LineProblem> {
        let mut ordering = Ordering::with_window(window);
        let mut left = Vec::new();
        for (number, time) in (0..).zip(times) {
            left.extend(ordering.push(at(*time, number))?);
        }
        left.extend(std::iter::from_fn(|| ordering.pop()));
        Ok(left)
    }

    #[test]
    fn the_first_is_at_zero_and_equals_stay_in_order() {
        let left = ordered(4, &[70, 50, 70, 60, 50, 90]).unwrap();
        let seen: Vec<_> = left.iter().map(|record| (record.time_ns, record.offset_bytes)).collect();
        assert_eq!(seen, [(0, 1), (0, 4), (10, 3), (20, 0), (20, 2), (40, 5)]);
    }

    #[test]
    fn what_is_too_early_is_refused() {
        assert_eq!(ordered(2, &[10, 20, 30, 5]), Err(LineProblem::TooEarly { early_ns: 5, window: 2 }));
        assert!(ordered(3, &[10, 20, 30, 5]).is_ok());
    }

    proptest! {
        #[test]
        fn a_window_as_long_as_the_trace_sorts_it(times in proptest::collection::vec(0u64..50, 1..200)) {
            let left = ordered(times.len(), &times).unwrap();
            let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let first = expected[0].0;
            let seen: Vec<_> = left.iter().map(|record| (record.time_ns + first, record.offset_bytes)).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
