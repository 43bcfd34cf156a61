//! Requests from the kernel's text of two events each: it was handed to the device, and it ended.
//!
//! A request is told when all that began before it have ended, so that they come in the order of their times, with response times. One
//! that does not end is told without one when [`PENDING_MAX`] others wait for it.
//!
//! Lines that are no such event are left out; so are ends without a beginning. A request that was requeued and is handed to the device again
//! is the same one.

use crate::fields::decimal_ns;
use crate::format::{blkparse, perf};
use crate::record::{TraceKind, TraceRecord};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests that wait at most.
const PENDING_MAX: usize = 1 << 16;

/// Where a request is: its device, kind and first byte.
type Key = (u16, TraceKind, u64);

/// A request that has begun.
#[derive(Clone, Copy, Debug)]
struct Pending {
    record: TraceRecord,
    has_ended: bool,
}

/// Puts events together.
#[derive(Clone, Debug, Default)]
pub struct EventPairs {
    devices: Vec<String>,
    pending: VecDeque<Pending>,
    /// Requests that have left so far: the number of the first one pending.
    left: u64,
    open: BTreeMap<Key, u64>,
    /// Open ones that the device gave back.
    requeued: BTreeSet<Key>,
}

/// What an event tells of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begins,
    Ends,
    IsRequeued,
}

impl EventPairs {
    /// Takes in a line. Hands each request that is complete by it to `take`, with the name of its device.
    pub fn line(&mut self, text: &str, take: &mut dyn FnMut((&TraceRecord, &str))) {
        let Some((step, time_ns, device, requests)) = event(text) else { return };
        for (kind, offset_bytes, length_bytes) in requests {
            let Some(device) = self.device(device) else { continue };
            let key = (device, kind, offset_bytes);
            if step == Step::IsRequeued {
                if self.open.contains_key(&key) {
                    self.requeued.insert(key);
                }
                continue;
            }
            let was_requeued = self.requeued.remove(&key);
            if step == Step::Begins {
                if was_requeued {
                    continue;
                }
                let record =
                    TraceRecord { time_ns, device, kind, offset_bytes, length_bytes, response_ns: None };
                self.open.insert(key, self.left + self.pending.len() as u64);
                self.pending.push_back(Pending { record, has_ended: false });
            } else if let Some(number) = self.open.remove(&key) {
                let index = number.checked_sub(self.left).map(|index| index as usize);
                if let Some(pending) = index.and_then(|index| self.pending.get_mut(index)) {
                    pending.record.response_ns = Some(time_ns.saturating_sub(pending.record.time_ns));
                    pending.has_ended = true;
                }
            }
        }
        while self.pending.front().is_some_and(|it| it.has_ended) || self.pending.len() > PENDING_MAX {
            self.hand_out(take);
        }
    }

    /// Takes in that events were not seen for a time: hands out what has ended, and forgets the rest.
    pub fn pause(&mut self, take: &mut dyn FnMut((&TraceRecord, &str))) {
        self.pending.retain(|it| it.has_ended);
        self.open.clear();
        self.requeued.clear();
        while !self.pending.is_empty() {
            self.hand_out(take);
        }
    }

    fn hand_out(&mut self, take: &mut dyn FnMut((&TraceRecord, &str))) {
        let Some(Pending { record, .. }) = self.pending.pop_front() else { return };
        self.left += 1;
        take((&record, &self.devices[usize::from(record.device)]));
    }

    fn device(&mut self, name: &str) -> Option<u16> {
        let known = self.devices.iter().position(|device| device == name);
        let index = u16::try_from(known.unwrap_or(self.devices.len())).ok()?;
        if known.is_none() {
            self.devices.push(name.to_owned());
        }
        Some(index)
    }
}

/// What an event says: its step, its time, its device, and what is asked for.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
fn event(text: &str) -> Option<(Step, u64, &str, Vec<(TraceKind, u64, u64)>)> {
    let (time, event, rest) = perf::parts(text)?;
    let step = match event {
        "block_rq_issue" | "block_bio_queue" => Step::Begins,
        "block_rq_complete" | "block_bio_complete" => Step::Ends,
        perf::REQUEUE => Step::IsRequeued,
        _ => return None,
    };
    let time_ns = decimal_ns("the time", time, 9).ok()?;
    let (device, request) = perf::request_of(rest).ok()?;
    let blkparse::Request { flushes, moves } = request?;
    let flush = (flushes && moves.is_none()).then_some((TraceKind::Flush, 0, 0));
    // A flush in front of a write ends with it, and is not told apart.
    let fits = |(_, offset, length): &(TraceKind, u64, u64)| offset.checked_add(*length).is_some();
    Some((step, time_ns, device, flush.into_iter().chain(moves).filter(fits).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(lines: &[&str]) -> Vec<(u64, u64, Option<u64>, String)> {
        let (mut pairs, mut found) = (EventPairs::default(), Vec::new());
        for line in lines {
            pairs.line(line, &mut |(it, device)| {
                found.push((it.time_ns, it.offset_bytes, it.response_ns, device.to_owned()));
            });
        }
        found
    }

    /// A request that ends before an earlier one waits for it, so that times stay in order.
    #[test]
    fn requests_come_in_the_order_of_their_beginnings() {
        let lines = [
            "fio-9 [000] ..... 10.000000: block_rq_issue: 8,0 R 4096 () 8 + 8 none,0,0 [fio]",
            "fio-9 [000] ..... 10.000001: block_rq_issue: 8,0 W 4096 () 16 + 8 [fio]",
            "fio-9 [000] ..... 10.000002: block_rq_complete: 8,0 W () 16 + 8 [0]",
            "fio-9 [000] ..... 10.000003: block_rq_complete: 8,0 W () 999 + 8 [0]",
            "fio-9 [000] ..... 10.000004: sched_switch: whatever",
            "fio-9 [000] ..... 10.000009: block_rq_complete: 8,0 R () 8 + 8 [0]",
        ];
        let (first, second) = (10_000_000_000, 10_000_001_000);
        let expected =
            [(first, 4096, Some(9000), "8,0".to_owned()), (second, 8192, Some(1000), "8,0".to_owned())];
        assert_eq!(told(&lines[..5]), []);
        assert_eq!(told(&lines), expected);
    }

    #[test]
    fn a_requeued_request_is_one() {
        let lines = [
            "x-1 [0] 1.0: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
            "x-1 [0] 1.1: block_rq_requeue: 8,0 R () 8 + 8 [0]",
            "x-1 [0] 1.2: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
            "x-1 [0] 1.3: block_rq_complete: 8,0 R () 8 + 8 [0]",
            "x-1 [0] 2.0: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
            "x-1 [0] 2.1: block_rq_complete: 8,0 R () 8 + 8 [0]",
        ];
        let told: Vec<_> = told(&lines).into_iter().map(|it| (it.0, it.2)).collect();
        assert_eq!(told, [(1_000_000_000, Some(300_000_000)), (2_000_000_000, Some(100_000_000))]);
    }

    #[test]
    fn a_pause_forgets_what_was_in_flight() {
        let mut pairs = EventPairs::default();
        let mut count = 0;
        let mut take = |(it, _): (&TraceRecord, &str)| {
            count += 1;
            assert!(it.response_ns.is_some());
        };
        pairs.line("x-1 [0] 1.0: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]", &mut take);
        pairs.line("x-1 [0] 1.1: block_rq_issue: 8,0 R 4096 () 80 + 8 [x]", &mut take);
        pairs.line("x-1 [0] 1.2: block_rq_complete: 8,0 R () 80 + 8 [0]", &mut take);
        pairs.pause(&mut take);
        pairs.line("x-1 [0] 9.0: block_rq_complete: 8,0 R () 8 + 8 [0]", &mut take);
        assert_eq!(count, 1);
    }

    proptest! {
        #[test]
        fn any_text_is_bearable(lines in proptest::collection::vec("x-1 \\[0\\] [0-9]\\.[0-9]{1,3}: block_rq_(issue|complete): 8,0 (R|W|FF|FWS|D|Q) [0-9]* ?\\(\\) [0-9]{1,25} \\+ [0-9]{1,3}", 0..40)) {
            let (mut pairs, mut count) = (EventPairs::default(), 0);
            for line in &lines {
                pairs.line(line, &mut |_| count += 1);
            }
            pairs.pause(&mut |_| count += 1);
            prop_assert!(count <= lines.len());
        }
    }
}
