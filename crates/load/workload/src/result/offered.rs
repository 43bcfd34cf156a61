//! The load that a run was asked for. Runs that differ only in their load are the points of one line of a chart. Runs of
//! equal load are repeats.

use raidlab_units::counted;
use std::fmt;

/// Requests in flight; the rate of an open loop, whose iodepth is only a limit; or the accelerators of training, of which each has requests
/// in flight of its own. They come in this order, each ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferedLoad {
    /// Requests in flight.
    Iodepth(u32),
    /// Requests in a million seconds.
    Rate(u64),
    /// Accelerators that train.
    Accelerators(u32),
}

impl OfferedLoad {
    /// Returns the accelerators if there are any, else the rate if there is one, to the nearest millionth of a request per second, else the
    /// iodepth.
    pub fn of(iodepth: u32, arrivals_per_sec: Option<f64>, accelerators: Option<u32>) -> Self {
        match (accelerators, arrivals_per_sec) {
            (Some(count), _) => Self::Accelerators(count),
            (None, Some(rate)) => Self::Rate((rate * 1e6).round() as u64),
            (None, None) => Self::Iodepth(iodepth),
        }
    }

    /// What [`OfferedLoad::value`] counts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iodepth(_) => "iodepth",
            Self::Rate(_) => "offered requests/s",
            Self::Accelerators(_) => "accelerators",
        }
    }

    /// Requests in flight or per second, or accelerators.
    pub fn value(self) -> f64 {
        match self {
            Self::Iodepth(count) | Self::Accelerators(count) => f64::from(count),
            Self::Rate(rate) => rate as f64 / 1e6,
        }
    }

    /// In a sentence: `8 in flight`, `20000 requests/s`.
    pub fn in_words(self) -> String {
        match self {
            Self::Iodepth(depth) => format!("{depth} in flight"),
            Self::Rate(_) | Self::Accelerators(_) => self.to_string(),
        }
    }
}

impl fmt::Display for OfferedLoad {
    /// `iodepth 8`, `20000 requests/s`, `4 accelerators`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Results of other programs need not say.
            Self::Iodepth(0) => write!(f, "an unknown iodepth"),
            Self::Iodepth(depth) => write!(f, "iodepth {depth}"),
            Self::Rate(_) => write!(f, "{} requests/s", self.value()),
            Self::Accelerators(count) => f.write_str(&counted(*count, "accelerator")),
        }
    }
}
