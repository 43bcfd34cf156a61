//! A workload's requests, line by line, as stored with a run, so that results name their workload.

use crate::spec::AccessLine;
use serde::{Deserialize, Serialize};

/// A line of an access specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFacts {
    /// Length of a request.
    pub bytes: u32,
    /// Share of the bursts that this line has.
    pub share_pct: u8,
    /// Share of the requests that read.
    pub read_pct: u8,
    /// Share of the requests at random places.
    pub random_pct: u8,
    /// Time after a burst.
    pub delay_ns: u64,
    /// Requests in a burst.
    pub burst: u32,
    /// Offsets are multiples of this; none is the length of the request.
    pub align_bytes: Option<u32>,
    /// Length of the answer on network targets.
    pub reply_bytes: u32,
}

impl LineFacts {
    /// The facts of `line`.
    pub fn of(line: &AccessLine) -> Self {
        Self {
            bytes: line.bytes,
            share_pct: line.share_pct,
            read_pct: line.read_pct,
            random_pct: line.random_pct,
            delay_ns: line.delay.get(),
            burst: line.burst,
            align_bytes: line.align_bytes,
            reply_bytes: line.reply_bytes,
        }
    }
}
