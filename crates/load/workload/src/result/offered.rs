//! The load that a run was asked for. Runs that differ only in their load are the points of one line of a chart. Runs of
//! equal load are repeats.

use std::fmt;

/// Requests in flight, or the rate of an open loop, whose iodepth is only a limit. Iodepths come before rates, each ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferedLoad {
    /// Requests in flight.
    Iodepth(u32),
    /// Requests in a million seconds.
    Rate(u64),
}

impl OfferedLoad {
    /// Returns the rate if there is one, to the nearest millionth of a request per second, else the iodepth.
    pub fn of(iodepth: u32, arrivals_per_sec: Option<f64>) -> Self {
        arrivals_per_sec.map_or(Self::Iodepth(iodepth), |rate| Self::Rate((rate * 1e6).round() as u64))
    }

    /// What [`OfferedLoad::value`] counts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iodepth(_) => "iodepth",
            Self::Rate(_) => "offered requests/s",
        }
    }

    /// Requests in flight, or per second.
    pub fn value(self) -> f64 {
        match self {
            Self::Iodepth(depth) => f64::from(depth),
            Self::Rate(rate) => rate as f64 / 1e6,
        }
    }

    /// In a sentence: `8 in flight`, `20000 requests/s`.
    pub fn in_words(self) -> String {
        match self {
            Self::Iodepth(depth) => format!("{depth} in flight"),
            Self::Rate(_) => self.to_string(),
        }
    }
}

impl fmt::Display for OfferedLoad {
    /// `iodepth 8`, `20000 requests/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iodepth(depth) => write!(f, "iodepth {depth}"),
            Self::Rate(_) => write!(f, "{} requests/s", self.value()),
        }
    }
}
