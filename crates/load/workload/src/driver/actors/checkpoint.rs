//! A checkpoint: writers with a stream each, the flush behind the last of them, and the read back.
//!
//! ```text
//! rest ─► write ─► flush ─► (read) ─► rest ...        write and flush are the pause of training
//! ```
//! Each writer has an equal part of the working set.

use super::{Due, Extent, FLUSH, Window, request};
use crate::actor::Checkpoint;
use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::result::CheckpointStats;
use crate::stream::Request;
use raidlab_units::Nanos;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Rest(Nanos),
    Write,
    /// The flush is to start, or under way.
    Flush {
        started: bool,
    },
    Read,
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    extent: Extent,
    position: u64,
    left: u64,
    in_flight: u32,
}

/// A checkpoint under way, or the rest before the next.
#[derive(Debug)]
pub(in crate::driver) struct Saving {
    it: Checkpoint,
    writers: Vec<Writer>,
    step: Step,
    /// Writers that may start a request.
    ready: VecDeque<u32>,
    /// Requests of this step in flight.
    in_flight: u32,
    /// The writer of each slot, and the bytes of its request.
    owners: Vec<(u32, u32)>,
    step_began: Nanos,
    save_began: Nanos,
    window: Window,
    stats: CheckpointStats,
}

impl Saving {
    pub(super) fn new(
        name: &str,
        it: &Checkpoint,
        extent: Extent,
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let all = u64::from(it.writers);
        let before = config.worker.share_before(all);
        let writers = config.worker.share_of(all) as u32;
        let it = Checkpoint { writers, ..it.clone() };
        extent.check_blocks(name, "request_size", it.request_bytes)?;
        let writer =
            |index| Writer { extent: extent.part(before + index, all), position: 0, left: 0, in_flight: 0 };
        Ok(Self {
            writers: (0..u64::from(writers)).map(writer).collect(),
            step: Step::Rest(Nanos::ZERO),
            ready: VecDeque::with_capacity(writers as usize),
            in_flight: 0,
            owners: Vec::new(),
            step_began: Nanos::ZERO,
            save_began: Nanos::ZERO,
            window: Window::default(),
            stats: CheckpointStats {
                total_bytes: it.total_bytes(),
                every_ns: it.every.get(),
                reads_back: it.read_back,
                ..CheckpointStats::default()
            },
            it,
        })
    }

    pub(super) fn places(&self) -> u32 {
        self.it.writers * self.it.requests_per_writer
    }

    pub(super) fn start(&mut self, now: Nanos, window: Window, slots: usize) {
        self.window = window;
        self.owners = vec![(0, 0); slots];
        self.step = Step::Rest(now);
    }

    /// Whether it is written, so that training waits.
    pub(super) fn is_saving(&self) -> bool {
        matches!(self.step, Step::Write | Step::Flush { .. })
    }

    pub(super) fn due(&mut self, now: Nanos) -> Due {
        match self.step {
            Step::Rest(until) if until > now => Due::At(until),
            Step::Rest(_) => {
                self.save_began = now;
                self.begin(now, Step::Write);
                Due::At(now)
            }
            Step::Flush { started: false } => Due::At(now),
            _ if self.ready.is_empty() => Due::AfterCompletion,
            _ => Due::At(now),
        }
    }

    fn begin(&mut self, now: Nanos, step: Step) {
        (self.step, self.step_began) = (step, now);
        self.ready.clear();
        for (index, writer) in (0..).zip(&mut self.writers) {
            writer.position = 0;
            writer.left = self.it.bytes.get();
            self.ready.push_back(index);
        }
    }

    pub(super) fn take(&mut self, slot: u32) -> Request {
        self.in_flight += 1;
        let op = match self.step {
            Step::Flush { .. } => {
                self.step = Step::Flush { started: true };
                return FLUSH;
            }
            Step::Read => IoOp::Read,
            Step::Write | Step::Rest(_) => IoOp::Write,
        };
        let index = self.ready.pop_front().expect("a request is taken only when one is due");
        let writer = &mut self.writers[index as usize];
        let bytes = writer.left.min(u64::from(self.it.request_bytes));
        let whole = writer.extent.whole_blocks(bytes);
        let made = request(op, writer.extent.start + writer.position, whole as u32);
        writer.position += whole;
        writer.left -= bytes;
        writer.in_flight += 1;
        if writer.left > 0 && writer.in_flight < self.it.requests_per_writer {
            self.ready.push_back(index);
        }
        self.owners[slot as usize] = (index, bytes as u32);
        made
    }

    pub(super) fn ended(&mut self, now: Nanos, slot: u32) {
        self.in_flight -= 1;
        if matches!(self.step, Step::Flush { .. }) {
            return self.flushed(now);
        }
        let (index, bytes) = self.owners[slot as usize];
        let writer = &mut self.writers[index as usize];
        let was_full = writer.in_flight == self.it.requests_per_writer;
        writer.in_flight -= 1;
        if writer.left > 0 && was_full {
            self.ready.push_back(index);
        }
        if self.step == Step::Write && self.window.has(now) {
            self.stats.written_bytes += u64::from(bytes);
        }
        if self.in_flight > 0 || !self.ready.is_empty() {
            return;
        }
        match self.step {
            Step::Write => {
                self.stats.write_ns += self.window.within(self.step_began, now);
                (self.step, self.step_began) = (Step::Flush { started: false }, now);
            }
            _ => self.read_back(now),
        }
    }

    fn flushed(&mut self, now: Nanos) {
        self.stats.write_ns += self.window.within(self.step_began, now);
        if self.window.has(now) && self.save_began >= self.window.start {
            let pause = now.saturating_since(self.save_began).get();
            self.stats.saved += 1;
            self.stats.pause_ns_sum += pause;
            self.stats.pause_ns_max = self.stats.pause_ns_max.max(pause);
        }
        if self.it.read_back {
            self.begin(now, Step::Read);
        } else {
            self.step = Step::Rest(now + self.it.every);
        }
    }

    fn read_back(&mut self, now: Nanos) {
        if self.window.has(now) && self.step_began >= self.window.start {
            self.stats.read_back += 1;
            self.stats.read_ns_sum += now.saturating_since(self.step_began).get();
        }
        self.step = Step::Rest(now + self.it.every);
    }

    pub(super) fn stats(&self, now: Nanos) -> CheckpointStats {
        let mut stats = self.stats.clone();
        if self.is_saving() {
            stats.write_ns += self.window.within(self.step_began, now);
        }
        stats
    }
}
