//! A merge of sorted runs: each read in sequence, in turn, and one written, no faster than what it follows.
//!
//! The working set is cut into equal parts, one for each run and one for what is written.

use super::{Due, Extent, Window, request};
use crate::actor::Compaction;
use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::result::CompactionStats;
use crate::stream::Request;
use raidlab_units::Nanos;

/// A merge at work.
#[derive(Debug)]
pub(in crate::driver) struct Merging {
    it: Compaction,
    /// The runs, and last what is written.
    extents: Vec<(Extent, u64)>,
    next_run: usize,
    in_flight: u32,
    read_bytes: u64,
    written_bytes: u64,
    /// Bytes that may have been written so far; none for as many as it likes.
    allowed: Option<u64>,
    /// No write starts before this.
    next_write_at: Nanos,
    window: Window,
    stats: CompactionStats,
}

impl Merging {
    pub(super) fn new(
        name: &str,
        it: &Compaction,
        extent: Extent,
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let iodepth = config.worker.share_of(u64::from(it.iodepth)) as u32;
        let it = Compaction { iodepth, ..it.clone() };
        let count = u64::from(it.runs) + 1;
        extent.check_blocks(name, "request_size", it.request_bytes)?;
        Ok(Self {
            extents: (0..count).map(|index| (extent.part(index, count), 0)).collect(),
            next_run: 0,
            in_flight: 0,
            read_bytes: 0,
            written_bytes: 0,
            allowed: it.follows.is_some().then_some(0),
            next_write_at: Nanos::ZERO,
            window: Window::default(),
            stats: CompactionStats::default(),
            it,
        })
    }

    pub(super) fn places(&self) -> u32 {
        self.it.iodepth
    }

    pub(super) fn start(&mut self, now: Nanos, window: Window) {
        self.window = window;
        self.next_write_at = now;
    }

    pub(super) fn follow(&mut self, now: Nanos, written_bytes: u64) {
        let before = self.allowed.unwrap_or(0);
        let allowed = (written_bytes as f64 * self.it.amplification) as u64;
        self.allowed = Some(allowed);
        if self.window.has(now) {
            self.stats.owed += allowed.saturating_sub(before);
        }
    }

    /// Whether as much was read as the next write needs.
    fn is_write_due(&self) -> bool {
        let wanted = (self.read_bytes as f64 * f64::from(self.it.output_pct) / 100.0) as u64;
        wanted >= self.written_bytes + u64::from(self.it.request_bytes)
    }

    pub(super) fn due(&mut self, now: Nanos) -> Due {
        if self.in_flight == self.it.iodepth || self.allowed.is_some_and(|most| self.written_bytes >= most) {
            return Due::AfterCompletion;
        }
        if self.is_write_due() { Due::At(self.next_write_at.max(now)) } else { Due::At(now) }
    }

    pub(super) fn take(&mut self, now: Nanos) -> Request {
        let bytes = self.it.request_bytes;
        let length = u64::from(bytes);
        let op = if self.is_write_due() { IoOp::Write } else { IoOp::Read };
        let runs = self.extents.len() - 1;
        let index = if op == IoOp::Write { runs } else { self.next_run };
        if op == IoOp::Write {
            self.written_bytes += length;
            if let Some(rate) = self.it.bytes_per_sec_max {
                let span = (length as f64 * 1e9 / rate.get() as f64) as u64;
                self.next_write_at = Nanos(self.next_write_at.max(now).get().saturating_add(span));
            }
        } else {
            self.read_bytes += length;
            self.next_run = (self.next_run + 1) % runs;
        }
        if self.window.has(now) {
            let stats = &mut self.stats;
            *(if op == IoOp::Write { &mut stats.written_bytes } else { &mut stats.read_bytes }) += length;
        }
        let (extent, position) = &mut self.extents[index];
        if *position + length > extent.bytes {
            *position = 0;
        }
        let made = request(op, extent.start + *position, bytes);
        *position += length;
        self.in_flight += 1;
        made
    }

    pub(super) fn ended(&mut self) {
        self.in_flight -= 1;
    }

    pub(super) fn stats(&self) -> CompactionStats {
        self.stats.clone()
    }
}
