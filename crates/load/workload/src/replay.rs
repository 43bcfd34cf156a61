//! Replay: the requests of a trace, instead of those of an access specification's lines.
//!
//! ```text
//! TraceSource ─► TraceReader ─► device, kind ─► timing ─► fit ─► requests of one target
//!   (a file)       batches       which of them    when      where
//! ```
//! - **Timing.** `original` starts each request at its time in the trace, from the start of the run; `scaled:F` at `F`
//!   times that, so 2 takes twice as long and 0.5 half; `none` is a closed loop that keeps the requested number in
//!   flight. Timed replay is an open loop: latencies run from the intended start, and the lag of starts is reported
//!   beside them.
//! - **Fit.** A request beyond the target is an error, or is moved to where the target has room; see [`Fit`].
//! - **Devices.** Each of the trace's devices goes to a target by its number, or is left out.
//!
//! All kinds of requests are replayed, except reads, writes, trims and writes of zeroes of length zero. A flush of a
//! trace is a data flush ([`IoOp::FlushData`]), the equivalent of a device's flush.
//!
//! Invariants: requests keep the order of the trace; an issued request lies within its target and in its blocks;
//! nothing is allocated per request.

use crate::driver::DriverConfig;
use crate::op::{IoOp, OpSet};
use raidlab_trace::{DeviceSummary, TraceRecord, TraceSummary};
use raidlab_units::ByteCount;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A request is this long at most: a buffer of this length stands ready for each in flight.
pub const REPLAY_BYTES_MAX: u64 = 32 << 20;

/// A trace that can be read.
pub trait TraceSource: fmt::Debug + Send + Sync {
    /// Its name, for people.
    fn name(&self) -> String;

    /// What it asks. Of a source that nobody knows the length of, `requests` is zero, and what is above zero for kinds of requests and
    /// `length_bytes_max` bound what may come.
    fn summary(&self) -> &TraceSummary;

    /// Begins to read it, for the driver of `config`. What is kept in a file is the same for all drivers; what is made while it is
    /// read may depend on their target and their seed.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn open(&self, config: &DriverConfig) -> Result<Box<dyn TraceReader>, String>;
}

/// Reads a trace in its order.
pub trait TraceReader: fmt::Debug {
    /// Puts the next requests into `batch`, in place of what is there, if there are any. Never waits long.
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep;
}

/// What came of reading on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchStep {
    /// There are requests in the batch.
    Ready,
    /// The next ones are being read; ask again soon.
    NotYet,
    /// There are no more.
    End,
    /// The trace can't be read on, and why.
    Failed(String),
}

/// When the requests of a trace start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timing {
    /// At their times in the trace.
    #[default]
    Original,
    /// At so many times their times in the trace; above zero.
    Scaled(f64),
    /// When others have ended.
    None,
}

raidlab_units::named! {
    /// Where requests go that lie beyond the target.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Fit {
        /// Nowhere: they are an error.
        #[default]
        Refuse = "refuse",
        /// Around: offsets are taken modulo the room that a request of the length has. Others stay where they are.
        Wrap = "wrap",
        /// All requests are moved towards the start of the target in proportion, so that the last one fits. What was in sequence
        /// is not any more where the target is the smaller one.
        Scale = "scale",
        /// To the end of the target. Others stay where they are.
        Clip = "clip",
    }
}

/// A trace to replay, and how.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The trace.
    pub source: Arc<dyn TraceSource>,
    /// When requests start.
    pub timing: Timing,
    /// Where requests go that lie beyond the target.
    pub fit: Fit,
    /// Requests that do not begin and end with blocks of the target are widened to whole blocks, instead of refused.
    pub whole_blocks: bool,
    /// The target of each device, by its number from 0; none for a device that is left out. Devices beyond are, too.
    pub targets: Vec<Option<u32>>,
}

/// Why a trace can't be replayed on a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A device of the trace is larger than the target.
    #[error("device {device} of the trace goes up to {end} ({} bytes), and its target has {region} ({} bytes)", end.get(), region.get())]
    Beyond {
        /// Its name.
        device: String,
        /// Where its farthest request ends.
        end: ByteCount,
        /// What the target has.
        region: ByteCount,
    },
    /// Requests do not fit the blocks of the target.
    #[error(
        "requests of the trace are aligned to {align_bytes} bytes, and the target has blocks of {block_bytes}"
    )]
    Unaligned {
        /// Power of two that all offsets and lengths are multiples of.
        align_bytes: u64,
        /// Block size of the target.
        block_bytes: u32,
    },
    /// A request is too long.
    #[error("the longest request of the trace has {}, and at most {} can be replayed", length.beside(max), max.beside(length))]
    TooLong {
        /// Its length.
        length: ByteCount,
        /// The longest that can be replayed here.
        max: ByteCount,
    },
    /// Requests have no times.
    #[error("all requests of the trace are at one time, so there is no timing to keep")]
    NoTimes,
    /// The factor is no number above zero.
    #[error("a timing can't be scaled by {0}: give a number above zero")]
    Factor(String),
    /// Nothing of the trace goes to the target.
    #[error("no request of the trace goes to target {target}")]
    Nothing {
        /// Number of the target, from 0.
        target: u32,
    },
    /// The trace can't be read.
    #[error("{0}")]
    Read(String),
    /// A request of the trace is not as its summary says.
    #[error("request {number} of the trace ({length_bytes} bytes from byte {offset_bytes} on): {problem}")]
    Request {
        /// Which, the first being 1, of all devices and kinds.
        number: u64,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        length_bytes: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        let how = |replay: &Self| (replay.timing, replay.fit, replay.whole_blocks);
        Arc::ptr_eq(&self.source, &other.source) && how(self) == how(other) && self.targets == other.targets
    }
}

impl Replay {
    /// What the trace asks.
    pub fn summary(&self) -> &TraceSummary {
        self.source.summary()
    }

    /// Length of the longest request that may be handed out, on a target whose blocks are of 4 KiB at most.
    pub(crate) fn request_bytes_max(&self) -> u32 {
        const BLOCK_BYTES_MAX: u64 = 4096;
        let longest = self.summary().length_bytes_max.min(REPLAY_BYTES_MAX);
        (if self.whole_blocks { longest + 2 * BLOCK_BYTES_MAX } else { longest }) as u32
    }

    /// Whether any device that goes to a target has requests that `count` counts.
    pub(crate) fn has(&self, count: fn(&DeviceSummary) -> u64) -> bool {
        let devices = self.targets.iter().zip(&self.summary().devices);
        devices.filter(|(target, _)| target.is_some()).any(|(_, device)| count(device) > 0)
    }

    /// All that its requests may do.
    pub(crate) fn ops(&self) -> OpSet {
        OpSet::NONE
            .with_if(IoOp::Read, self.has(|device| device.reads))
            .with_if(IoOp::Write, self.has(|device| device.writes))
            .with_if(IoOp::FlushData, self.has(|device| device.flushes))
            .with_if(IoOp::Trim, self.has(|device| device.trims))
            .with_if(IoOp::WriteZeroes, self.has(|device| device.zeroes))
    }

    /// Checks all that does not need a target.
    pub(crate) fn validate(&self) -> Result<(), ReplayError> {
        let length = self.summary().length_bytes_max;
        if length > REPLAY_BYTES_MAX {
            let (length, max) = (ByteCount(length), ByteCount(REPLAY_BYTES_MAX));
            return Err(ReplayError::TooLong { length, max });
        }
        match self.timing {
            Timing::Scaled(factor) if !(factor > 0.0 && factor.is_finite()) => {
                Err(ReplayError::Factor(factor.to_string()))
            }
            Timing::Original | Timing::Scaled(_) if !self.summary().has_times() => Err(ReplayError::NoTimes),
            _ => Ok(()),
        }
    }

    /// Checks that target number `target` with `region` in blocks of `block_bytes` holds what goes to it.
    pub(crate) fn check(&self, target: u32, region: ByteCount, block_bytes: u32) -> Result<(), ReplayError> {
        self.validate()?;
        let summary = self.summary();
        let pairs = self.targets.iter().zip(&summary.devices);
        let mut own = pairs.filter(|(to, _)| **to == Some(target)).map(|(_, device)| device).peekable();
        if own.peek().is_none() {
            return Err(ReplayError::Nothing { target });
        }
        let is_beyond = |device: &&DeviceSummary| device.extent_bytes() > region.get();
        if let (Fit::Refuse, Some(device)) = (self.fit, own.find(is_beyond)) {
            let (device, end) = (device.name.clone(), ByteCount(device.extent_bytes()));
            return Err(ReplayError::Beyond { device, end, region });
        }
        if !self.whole_blocks && !summary.align_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(ReplayError::Unaligned { align_bytes: summary.align_bytes, block_bytes });
        }
        let length = u64::from(self.request_bytes_max());
        if length > region.get() {
            return Err(ReplayError::TooLong { length: ByteCount(length), max: region });
        }
        Ok(())
    }
}

impl FromStr for Timing {
    type Err = String;

    /// Reads `original`, `none` or `scaled:2.0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let factor =
            |text: &str| text.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
        match (text, text.strip_prefix("scaled:").and_then(factor)) {
            ("original", _) => Ok(Self::Original),
            ("none", _) => Ok(Self::None),
            (_, Some(factor)) => Ok(Self::Scaled(factor)),
            _ => Err(format!(
                "'{text}' is no timing: write original, scaled:2.0 (takes twice as long) or none"
            )),
        }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.pad("original"),
            Self::Scaled(factor) => f.pad(&format!("scaled:{factor}")),
            Self::None => f.pad("none"),
        }
    }
}
