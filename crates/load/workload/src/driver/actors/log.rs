//! A write-ahead log: one write at a time takes all records that wait, and a flush makes them durable.
//!
//! ```text
//! client   think ─► record waits ─────────────► durable ─► think ...
//! log              (group) ─► write ─► flush ──┘             the next group gathers meanwhile
//! ```
//! A commit's latency runs from its record to the end of the flush, or of the write where none follows.

use super::{Due, Extent, FLUSH, Lengths, Timers, Window, request};
use crate::actor::{LOG_WRITE_BYTES_MAX, LogWriter};
use crate::driver::DriverConfig;
use crate::op::IoOp;
use crate::result::LogStats;
use crate::rng::{Rng, derived_seed};
use crate::stream::Request;
use raidlab_units::Nanos;
use std::collections::VecDeque;

const DRAWS_STREAM: u64 = 912;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Gathers,
    Writes,
    FlushDue,
    Flushes,
}

/// A log at work.
#[derive(Debug)]
pub(in crate::driver) struct Logging {
    it: LogWriter,
    extent: Extent,
    lengths: Lengths,
    rng: Rng,
    position: u64,
    step: Step,
    /// Clients that think; the value is of no account.
    thinking: Timers<()>,
    /// Records that wait: when, and how long.
    waiting: VecDeque<(Nanos, u64)>,
    /// Records of the group that is written.
    group: Vec<Nanos>,
    /// Groups that were written and wait for the flush of the n-th.
    writes: u32,
    window: Window,
    stats: LogStats,
}

impl Logging {
    pub(super) fn new(it: &LogWriter, extent: Extent, config: &DriverConfig) -> Self {
        let clients = config.worker.share_of(u64::from(it.clients)) as u32;
        let it = LogWriter { clients, ..it.clone() };
        Self {
            lengths: Lengths::new(&it.append),
            rng: Rng::new(derived_seed(config.seed, DRAWS_STREAM)),
            position: 0,
            step: Step::Gathers,
            thinking: Timers::with_capacity(clients as usize),
            waiting: VecDeque::with_capacity(clients as usize),
            group: Vec::with_capacity(clients as usize),
            writes: 0,
            window: Window::default(),
            stats: LogStats::default(),
            extent,
            it,
        }
    }

    pub(super) fn places(&self) -> u32 {
        u32::from(self.it.clients > 0)
    }

    pub(super) fn start(&mut self, now: Nanos, window: Window) {
        self.window = window;
        // Clients know nothing of each other: each is somewhere in its thinking.
        for _ in 0..self.it.clients {
            let since = self.rng.below(self.it.think.get() + 1);
            self.thinking.add(Nanos(now.get().saturating_add(since)), ());
        }
    }

    pub(super) fn due(&mut self, now: Nanos) -> Due {
        while let Some((at, ())) = self.thinking.pop_due(now) {
            let bytes = self.lengths.draw(&mut self.rng);
            self.waiting.push_back((at, bytes));
        }
        match self.step {
            Step::FlushDue => Due::At(now),
            Step::Writes | Step::Flushes => Due::AfterCompletion,
            Step::Gathers => match self.waiting.front() {
                None => self.thinking.next(),
                Some(_) if self.waiting.len() == self.it.clients as usize => Due::At(now),
                Some((first, _)) => {
                    let until = *first + self.it.group;
                    match self.thinking.next() {
                        // A record that comes before then may make the group whole.
                        Due::At(next) if next < until => Due::At(next),
                        _ => Due::At(until.max(now)),
                    }
                }
            },
        }
    }

    pub(super) fn take(&mut self) -> Request {
        if self.step == Step::FlushDue {
            self.step = Step::Flushes;
            return FLUSH;
        }
        self.step = Step::Writes;
        let mut bytes = 0;
        while let Some((since, length)) = self.waiting.front().copied() {
            if bytes > 0 && bytes + length > u64::from(LOG_WRITE_BYTES_MAX) {
                break;
            }
            bytes += length;
            self.group.push(since);
            self.waiting.pop_front();
        }
        let most = u64::from(LOG_WRITE_BYTES_MAX) / self.extent.block * self.extent.block;
        let whole = self.extent.whole_blocks(bytes).min(most.max(self.extent.block));
        if self.position + whole > self.extent.bytes {
            self.position = 0;
        }
        let made = request(IoOp::Write, self.extent.start + self.position, whole as u32);
        self.position += whole;
        made
    }

    pub(super) fn ended(&mut self, now: Nanos) {
        if self.step == Step::Writes {
            self.writes += 1;
            if self.it.flush_every > 0 && self.writes >= self.it.flush_every {
                self.step = Step::FlushDue;
                return;
            }
        } else {
            self.writes = 0;
        }
        self.step = Step::Gathers;
        let counts = self.window.has(now);
        for since in self.group.drain(..) {
            if counts {
                self.stats.commits += 1;
                self.stats.commit_lat.record_ns(now.saturating_since(since).get());
            }
            self.thinking.add(now + self.it.think, ());
        }
        self.stats.groups += u64::from(counts);
    }

    pub(super) fn stats(&self) -> LogStats {
        self.stats.clone()
    }
}
