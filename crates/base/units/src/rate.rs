//! Rates: requests per second and bytes per second.

use crate::bytes::ByteCount;
use crate::time::NanoSpan;
use core::fmt;
use serde::{Deserialize, Serialize};

/// I/O requests per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Iops(pub f64);

/// Bytes per second. Published figures count in 10^6 bytes ([`BytesPerSec::mb_per_s`]) or in 2^20
/// ([`BytesPerSec::mib_per_s`]).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct BytesPerSec(pub f64);

impl Iops {
    /// The rate of `requests` in `span`; zero for an empty span.
    pub fn of(requests: u64, span: NanoSpan) -> Self {
        if span == NanoSpan::ZERO { Self(0.0) } else { Self(requests as f64 / span.as_secs_f64()) }
    }
}

impl BytesPerSec {
    /// The rate of `bytes` in `span`; zero for an empty span.
    pub fn of(bytes: ByteCount, span: NanoSpan) -> Self {
        if span == NanoSpan::ZERO { Self(0.0) } else { Self(bytes.0 as f64 / span.as_secs_f64()) }
    }

    /// The rate of `mb` times 10^6 bytes per second.
    pub const fn from_mb_per_s(mb: f64) -> Self {
        Self(mb * 1e6)
    }

    /// In units of 10^6 bytes per second.
    pub const fn mb_per_s(self) -> f64 {
        self.0 / 1e6
    }

    /// In units of 2^20 bytes per second.
    pub const fn mib_per_s(self) -> f64 {
        self.0 / 1_048_576.0
    }

    /// Time to move `bytes` at this rate, to the nearest nanosecond. The rate must be above zero.
    ///
    /// # Panics
    /// If the rate is zero or below.
    pub fn time_for(self, bytes: ByteCount) -> NanoSpan {
        assert!(self.0 > 0.0, "a rate of {} bytes per second moves nothing", self.0);
        // Adding a half and cutting rounds like `round` for what is not negative, without a call into the library.
        NanoSpan((bytes.0 as f64 * 1e9 / self.0 + 0.5) as u64)
    }
}

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 >= 100.0 { format!("{:.0}", self.0) } else { format!("{:.1}", self.0) };
        f.pad(&text)
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = self.mb_per_s();
        let text = if mb >= 100.0 { format!("{mb:.0} MB/s") } else { format!("{mb:.1} MB/s") };
        f.pad(&text)
    }
}
