//! When requests start: after others have ended (closed loop), or at given times (open loop).
//!
//! ```text
//! closed   place 1  |== request ==|.think.|== request ==|      a slow target gets fewer requests
//! open     arrivals   |    | |       |  ||                     a slow target gets the same requests
//! ```
//! - **Closed loop:** a number of places, each with one request at a time. A *limit* keeps the loop below a rate; a
//!   *think time* keeps each place idle after its request has ended, as a user would.
//! - **Open loop:** requests arrive at a rate, evenly or as a Poisson process, whatever the target does. A latency runs
//!   from the arrival, so it contains the time spent waiting for a place; the lag of starts is reported beside it.
//!   Requests that arrived and did not start before the window ends are counted as unserved.
//!
//! `replay.rs` has arrivals that follow a trace.

use core::fmt;
use core::num::NonZeroU32;
use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};

/// In flight at most in an open loop that does not say: enough for any rate that a device can serve at latencies of a
/// few milliseconds, and buffers of 1 MiB for all of them still fit a small machine.
pub const OPEN_IODEPTH_DEFAULT: u32 = 256;

/// Requests per second, exact to a millionth: a rate of 0.5 is one request in two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestRate {
    per_second_millionths: u64,
}

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// With times between them that are exponentially distributed and independent: many users who know nothing of
    /// each other.
    Poisson,
    /// Evenly.
    Fixed,
}

/// An open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// How they are spread.
    pub process: ArrivalProcess,
    /// Requests per second; bursts included.
    pub rate: RequestRate,
    /// Requests that arrive at once; at least 1. The rate stays that of requests, so bursts arrive at a fraction of it.
    pub burst: u32,
}

/// A closed loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedLoop {
    /// How long a place is idle after its request has ended.
    pub think: NanoSpan,
    /// Requests per second at most.
    pub rate_max: Option<RequestRate>,
    /// Bytes per second at most; above zero.
    pub bytes_per_sec_max: Option<ByteCount>,
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// When others have ended.
    Closed(ClosedLoop),
    /// When they arrive.
    Open(Arrivals),
}

/// A flush behind every so many writes that a loop has started. Writes that are still in flight then need not be covered by it,
/// as with fio's asynchronous engines; with one request in flight all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRule {
    /// Writes from one flush to the next.
    pub every: NonZeroU32,
    /// The flush is for all that is known of a file, its times too (`fsync`), and not only for what it takes to read the data
    /// back (`fdatasync`).
    pub with_metadata: bool,
}

impl Default for Pacing {
    /// A closed loop without limits.
    fn default() -> Self {
        Self::Closed(ClosedLoop::default())
    }
}

impl Pacing {
    /// Whether it is an open loop.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open(_))
    }
}

impl RequestRate {
    /// The highest rate: one request per nanosecond.
    const MAX_MILLIONTHS: u64 = 1_000_000_000 * 1_000_000;

    /// Returns the rate of `per_second` requests per second, to the nearest millionth; none if that is zero, above
    /// one request per nanosecond, or no number.
    pub fn new(per_second: f64) -> Option<Self> {
        let millionths = (per_second * 1e6).round();
        let fits = millionths >= 1.0 && millionths <= Self::MAX_MILLIONTHS as f64;
        fits.then_some(Self { per_second_millionths: millionths as u64 })
    }

    /// So many times the rate, as far as there is such a rate.
    #[must_use]
    pub fn times(self, times: f64) -> Self {
        let millionths = (self.per_second_millionths as f64 * times).round();
        Self { per_second_millionths: (millionths as u64).clamp(1, Self::MAX_MILLIONTHS) }
    }

    /// Returns millionths of requests per second; above zero.
    pub const fn millionths(self) -> u64 {
        self.per_second_millionths
    }

    /// Returns requests per second.
    pub fn per_second(self) -> f64 {
        self.per_second_millionths as f64 / 1e6
    }
}

impl fmt::Display for RequestRate {
    /// `1500/s`, `0.5/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", self.per_second()))
    }
}

impl fmt::Display for FlushRule {
    /// `behind every 8 writes (fdatasync)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = if self.with_metadata { "fsync" } else { "fdatasync" };
        match self.every.get() {
            1 => write!(f, "behind every write ({call})"),
            every => write!(f, "behind every {every} writes ({call})"),
        }
    }
}

impl fmt::Display for Pacing {
    /// In a few words, for tables of settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(Arrivals { process, rate, burst }) => {
                let process = match process {
                    ArrivalProcess::Poisson => "Poisson",
                    ArrivalProcess::Fixed => "fixed",
                };
                write!(f, "open loop, {process} arrivals at {rate}")?;
                if *burst > 1 { write!(f, " in bursts of {burst}") } else { Ok(()) }
            }
            Self::Closed(ClosedLoop { think, rate_max, bytes_per_sec_max }) => {
                f.write_str("closed loop")?;
                if let Some(rate) = rate_max {
                    write!(f, ", at most {rate}")?;
                }
                if let Some(bytes) = bytes_per_sec_max {
                    write!(f, ", at most {}/s", bytes.plain())?;
                }
                if *think > NanoSpan::ZERO { write!(f, ", {think} of think time") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_exact_to_a_millionth_and_above_zero() {
        for (per_second, expected) in [(0.5, 500_000), (33.3, 33_300_000), (1e9, 1_000_000_000_000_000)] {
            let rate = RequestRate::new(per_second).unwrap();
            assert_eq!((rate.millionths(), rate.per_second()), (expected, per_second));
        }
        for wrong in [0.0, -1.0, 1e-7, 1.1e9, f64::NAN, f64::INFINITY] {
            assert_eq!(RequestRate::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pacing_says_what_it_is() {
        let rate = RequestRate::new(1500.0).unwrap();
        let rows = [
            (Pacing::default(), "closed loop"),
            (
                Pacing::Closed(ClosedLoop {
                    think: NanoSpan::from_millis(5),
                    rate_max: Some(rate),
                    bytes_per_sec_max: Some(ByteCount::from_mib(1)),
                }),
                "closed loop, at most 1500/s, at most 1 MiB/s, 5.00 ms of think time",
            ),
            (
                Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 4 }),
                "open loop, Poisson arrivals at 1500/s in bursts of 4",
            ),
            (
                Pacing::Open(Arrivals { process: ArrivalProcess::Fixed, rate, burst: 1 }),
                "open loop, fixed arrivals at 1500/s",
            ),
        ];
        for (pacing, text) in rows {
            assert_eq!(pacing.to_string(), text);
        }
    }
}
