//! The history of a drive, on which its speed depends.
//!
//! `fresh` is out of the box or after a secure erase; `sequential` has been written once from end to end; `random:N`
//! has then been overwritten N times at random in single mapping units, which is the steady state of data-centre data
//! sheets and the SNIA Performance Test Specification: what is run then follows at once, so a pseudo-SLC cache is full. The
//! fill is the share of the capacity with data; the rest was trimmed or never written, and is spare room.

use core::fmt;
use core::str::FromStr;
use serde::{Serialize, Serializer};

/// History of a solid-state drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCondition {
    /// What was written.
    pub history: DriveHistory,
    /// Percent of the capacity that holds data, 0 to 100; of a fresh drive none does.
    pub fill_pct: u8,
}

/// What was written to a drive; steady under random writes, where nobody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveHistory {
    /// Nothing.
    Fresh,
    /// All that is filled, in sequence.
    Sequential,
    /// The same, and then so many times as much at random.
    Random(u8),
}

/// Times that a drive is overwritten before it counts as steady, where nobody says.
const STEADY_TIMES: u8 = 3;

impl Default for DriveHistory {
    fn default() -> Self {
        Self::Random(STEADY_TIMES)
    }
}

impl Default for DriveCondition {
    /// Full, and steady under random writes.
    fn default() -> Self {
        Self { history: DriveHistory::default(), fill_pct: 100 }
    }
}

impl DriveCondition {
    /// Of `groups` of units, those that hold data.
    pub(super) fn filled(self, groups: u32) -> u64 {
        (u64::from(groups) * u64::from(self.fill_pct)).div_ceil(100)
    }
}

impl FromStr for DriveHistory {
    type Err = String;

    /// # Errors
    /// What is known, for anything else.
    fn from_str(text: &str) -> Result<Self, String> {
        let times = text.strip_prefix("random:").map(str::parse);
        match (text, times) {
            ("fresh", _) => Ok(Self::Fresh),
            ("sequential", _) => Ok(Self::Sequential),
            ("random", _) => Ok(Self::Random(STEADY_TIMES)),
            (_, Some(Ok(times @ 1..=20))) => Ok(Self::Random(times)),
            _ => Err("a condition is fresh, sequential, random or random:N with N from 1 to 20".into()),
        }
    }
}

impl fmt::Display for DriveCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.history {
            DriveHistory::Fresh => f.pad("fresh"),
            history => write!(f, "{history}, {} % full", self.fill_pct),
        }
    }
}

impl Serialize for DriveCondition {
    /// As it is written for people.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl schemars::JsonSchema for DriveCondition {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DriveCondition".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "What was written to a drive before, as it is said to people" })
    }
}

impl fmt::Display for DriveHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => f.pad("fresh"),
            Self::Sequential => f.pad("sequential"),
            Self::Random(times) => write!(f, "random:{times}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_as_it_is_written() {
        for text in ["fresh", "sequential", "random:1", "random:20"] {
            assert_eq!(text.parse::<DriveHistory>().unwrap().to_string(), text);
        }
        assert_eq!("random".parse(), Ok(DriveHistory::Random(STEADY_TIMES)));
        for text in ["", "random:", "random:0", "random:21", "random:-1", "steady"] {
            assert!(text.parse::<DriveHistory>().is_err(), "{text}");
        }
    }
}
