//! Limits that apply after a time of work: heat, and power above the sustained maximum.
//!
//! ```text
//!   commands inside:  warms ─────────► after: the limits hold ─── as long as it works, and until it has rested for `after`
//!   none inside:      cools as long as it warmed
//! ```
//! Time with a command inside warms the drive, time without one cools it at the same rate. The limits hold from when it
//! is hot until it is cold again, so it does not oscillate.
//!
//! Left out: degrees, air, and that long writes warm a drive more than short reads do.

use super::model::CapModel;
use crate::catalog::{CatalogError, Section};
use raidlab_units::{NanoSpan, Nanos};

/// When a drive is hot, and what it does then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatModel {
    /// How long it works from cold until it is hot, and rests from hot until it is cold.
    pub after: NanoSpan,
    /// What it does at most then, where that is less than at other times.
    pub caps: CapModel,
}

impl HeatModel {
    /// Reads the table `[heat]`.
    pub(super) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let after = section.figure("after")?;
        if after == NanoSpan::ZERO {
            return Err(section.bad_value("after", "above zero; limits that always hold are [caps]"));
        }
        Ok(Self { after, caps: CapModel::read(section)? })
    }
}

/// How hot a drive is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heat {
    after: NanoSpan,
    /// At `at`: time that it has worked and not yet rested, no more than `after`.
    warmth: NanoSpan,
    at: Nanos,
    works: bool,
    is_hot: bool,
}

impl Heat {
    pub(super) fn new(after: NanoSpan) -> Self {
        Self { after, warmth: NanoSpan::ZERO, at: Nanos::ZERO, works: false, is_hot: false }
    }

    /// Takes in whether it works from `now` on.
    pub(super) fn set_working(&mut self, now: Nanos, works: bool) {
        self.advance(now);
        self.works = works;
    }

    /// Whether it is hot at `now`.
    pub(super) fn is_hot(&mut self, now: Nanos) -> bool {
        self.advance(now);
        self.is_hot
    }

    fn advance(&mut self, now: Nanos) {
        let span = now.saturating_since(self.at);
        self.at = self.at.max(now);
        self.warmth = if self.works {
            (self.warmth + span).min(self.after)
        } else {
            NanoSpan(self.warmth.0.saturating_sub(span.0))
        };
        self.is_hot = if self.is_hot { self.warmth > NanoSpan::ZERO } else { self.warmth == self.after };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_hot_after_its_time_and_until_it_has_rested_as_long() {
        let mut heat = Heat::new(NanoSpan(100));
        heat.set_working(Nanos(0), true);
        assert!(!heat.is_hot(Nanos(99)));
        heat.set_working(Nanos(99), false);
        heat.set_working(Nanos(139), true);
        for (at, is_hot) in [(179, false), (180, true), (500, true)] {
            assert_eq!(heat.is_hot(Nanos(at)), is_hot, "at {at}");
        }
        heat.set_working(Nanos(500), false);
        assert!(
            heat.is_hot(Nanos(599)),
            "it cools for as long as it warmed, and no longer than it takes to be hot"
        );
        assert!(!heat.is_hot(Nanos(600)));
    }
}
