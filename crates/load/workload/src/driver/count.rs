//! What a driver counts besides its histograms: requests issued, progress, and runs of equal completions, which are
//! recorded in one step.

use crate::histogram::LatencySteps;
use crate::op::IoOp;
use crate::result::Counts;
use crate::series::{Series, Track};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// I/Os handed out since the start, in ramp, window and drain together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssuedCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, trims and writes of zeroes.
    pub others: u64,
    /// Bytes of reads and writes.
    pub bytes: ByteCount,
}

impl IssuedCounts {
    /// All of them.
    pub const fn requests(&self) -> u64 {
        self.reads + self.writes + self.others
    }

    /// Adds what another worker handed out.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.bytes += other.bytes;
    }
}

/// How far the window has come, for progress displays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowProgress {
    /// Share of ramp and window that is over, from 0 to 1; counts requests where those end the window sooner.
    pub fraction: f64,
    /// True before the window starts.
    pub in_ramp: bool,
    /// Requests counted so far, without the failed ones.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: ByteCount,
    /// Failed requests so far.
    pub errors: u64,
    /// Requests in flight now.
    pub in_flight: u32,
    /// Latencies of the reads and writes counted so far.
    pub lat: LatencySteps,
}

/// Requests that ended alike, one after the other: at the same time, of the same direction and length, after the same
/// latency. Those that one call brings back are, where one call had taken them; they are counted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) at: Nanos,
    /// None where they failed.
    pub(super) lat: Option<NanoSpan>,
    pub(super) bytes: u32,
    pub(super) op: IoOp,
    /// How many.
    pub(super) times: u32,
}

impl Alike {
    pub(super) const NONE: Self = Self { at: Nanos::ZERO, lat: None, bytes: 0, op: IoOp::Read, times: 0 };

    /// Whether both are of the same kind, however many of each there are.
    #[inline]
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.at == other.at && self.lat == other.lat && self.bytes == other.bytes && self.op == other.op
    }

    /// Counts them.
    #[inline]
    pub(super) fn count_into(&self, ops: &mut Counts, series: &mut Series) {
        if self.times > 0 {
            let track = if self.op == IoOp::Read { Track::Read } else { Track::Write };
            ops.of_mut(self.op).count(self.bytes, self.lat, u64::from(self.times));
            series.record(self.at, track, self.bytes, self.lat, self.times);
        }
    }
}
