//! Time: instants on a world's clock and the spans between them, in nanoseconds.

use crate::parse::{ParseUnitError, Scale, parse_scaled};
use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize};

/// An instant: nanoseconds since the world's clock started. Virtual worlds start at zero; the real world
/// counts from the start of the process's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A length of time in nanoseconds. Parses `20ms`, `1.5s`, `250us`, `30m`; prints in the unit that fits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct NanoSpan(pub u64);

impl Nanos {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than anything a world reaches.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the plain number of nanoseconds.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time since `earlier`, or zero when `earlier` is in fact later.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> NanoSpan {
        NanoSpan(self.0.saturating_sub(earlier.0))
    }
}

impl NanoSpan {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// `ms` milliseconds, to the nearest nanosecond; negative counts as zero.
    pub fn from_millis_f64(ms: f64) -> Self {
        Self((ms * 1e6).round().max(0.0) as u64)
    }

    /// `seconds` seconds, to the nearest nanosecond; negative counts as zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round().max(0.0) as u64)
    }

    /// Returns the plain number of nanoseconds.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In seconds.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In milliseconds.
    pub const fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<NanoSpan> for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, span: NanoSpan) -> Nanos {
        Nanos(self.0 + span.0)
    }
}

impl AddAssign<NanoSpan> for Nanos {
    #[inline]
    fn add_assign(&mut self, span: NanoSpan) {
        self.0 += span.0;
    }
}

impl Sub for Nanos {
    type Output = NanoSpan;
    #[inline]
    fn sub(self, earlier: Nanos) -> NanoSpan {
        NanoSpan(self.0 - earlier.0)
    }
}

impl Add for NanoSpan {
    type Output = NanoSpan;
    #[inline]
    fn add(self, more: NanoSpan) -> NanoSpan {
        NanoSpan(self.0 + more.0)
    }
}

impl AddAssign for NanoSpan {
    #[inline]
    fn add_assign(&mut self, more: NanoSpan) {
        self.0 += more.0;
    }
}

impl Sub for NanoSpan {
    type Output = NanoSpan;
    #[inline]
    fn sub(self, less: NanoSpan) -> NanoSpan {
        NanoSpan(self.0 - less.0)
    }
}

impl Mul<u64> for NanoSpan {
    type Output = NanoSpan;
    #[inline]
    fn mul(self, times: u64) -> NanoSpan {
        NanoSpan(self.0 * times)
    }
}

impl Div<u64> for NanoSpan {
    type Output = NanoSpan;
    #[inline]
    fn div(self, parts: u64) -> NanoSpan {
        NanoSpan(self.0 / parts)
    }
}

impl core::iter::Sum for NanoSpan {
    fn sum<I: Iterator<Item = NanoSpan>>(spans: I) -> NanoSpan {
        NanoSpan(spans.map(|span| span.0).sum())
    }
}

impl fmt::Display for NanoSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
        let ns = self.0 as f64;
        let text = match UNITS.iter().find(|(unit, _)| ns >= *unit) {
            Some((unit, name)) => match ns / unit {
                v if v >= 100.0 => format!("{v:.0} {name}"),
                v if v >= 10.0 => format!("{v:.1} {name}"),
                v => format!("{v:.2} {name}"),
            },
            None => format!("{} ns", self.0),
        };
        f.pad(&text)
    }
}

const SCALES: &[Scale] = &[
    Scale { names: &["ns"], factor: 1.0 },
    Scale { names: &["us", "µs"], factor: 1e3 },
    Scale { names: &["ms"], factor: 1e6 },
    Scale { names: &["s", "sec"], factor: 1e9 },
    Scale { names: &["m", "min"], factor: 60e9 },
    Scale { names: &["h"], factor: 3600e9 },
    Scale { names: &["d"], factor: 86_400e9 },
];

impl FromStr for NanoSpan {
    type Err = ParseUnitError;

    /// # Errors
    /// [`ParseUnitError`] for text without a number or unit, with an unknown unit, or out of range.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_scaled(text, SCALES, ("a time such as 20ms, 1.5s or 30m", ["s", "ms"])).map(Self)
    }
}

impl From<u64> for NanoSpan {
    fn from(ns: u64) -> Self {
        Self(ns)
    }
}

impl<'de> Deserialize<'de> for NanoSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::parse::deserialize_number_or_text(deserializer, "a time in ns, or text such as \"20ms\"")
    }
}
