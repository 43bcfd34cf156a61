//! Facts of a data sheet beside a drive's speed, and the uncertainty of each of its figures.
//!
//! | a figure | its source | its range |
//! |---|---|---|
//! | given | the sheet | none |
//! | estimated: recalled, or inferred | says so | 15 % either way |
//! | at most: the best of a family of capacities | says so | 25 % less |
//! | inside, fitted to a figure | names that figure | as that figure's, at least 10 % either way |
//! | inside, in proportion (`layout`) | says so | from 0.7 to 1.5 times |
//!
//! The widths are our own: no source has them.

use raidlab_units::ByteCount;

/// Source of what the sheet says where it has no name.
const AS_GIVEN: &str = "data sheet: as given";

const RECALLED: &str = "estimated: recalled of the maker's sheet, or inferred; not retrieved";

/// Days of the five years for which makers rate drive writes a day.
const RATED_DAYS: f64 = 5.0 * 365.0;

const HOURS_A_YEAR: f64 = 8760.0;

/// The least and the most that a figure may be, as multiples of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Spread {
    const RECALLED: Self = Self { low: 0.85, high: 1.15 };
    const AT_MOST: Self = Self { low: 0.75, high: 1.0 };
    const FITTED: Self = Self { low: 0.9, high: 1.1 };
    /// Of what is in proportion to others.
    pub(super) const LAYOUT: Self = Self { low: 0.7, high: 1.5 };
    /// A limit of errors: a tenth either way.
    const ERRORS: Self = Self { low: 0.1, high: 10.0 };
}

/// What a sheet says beside rates and latencies; what it does not say is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SheetFacts {
    /// Where the sheet is from: `data sheet: TITLE`.
    pub source: Option<String>,
    /// Year from which the drive was sold.
    pub year: Option<u32>,
    /// Drive writes a day, for five years.
    pub writes_a_day: Option<f64>,
    /// What may be written in all; counts more than `writes_a_day`.
    pub rated_writes: Option<ByteCount>,
    /// Watts at work.
    pub active_watts: Option<f64>,
    /// Watts at rest.
    pub idle_watts: Option<f64>,
    /// Share that fails in a year, in percent.
    pub afr_pct: Option<f64>,
    /// Mean time between failures in hours, where there is no such share.
    pub mtbf_hours: Option<f64>,
    /// Bits read for one error that can't be corrected.
    pub bits_per_read_error: Option<f64>,
    /// Names of figures that nobody read in a sheet, as `raidlab model from-sheet` calls them: `read-iops`.
    pub estimated: Vec<String>,
    /// Names of figures that are the best of a family: this capacity may do less.
    pub at_most: Vec<String>,
}

/// A figure's source, and what it may be.
pub(super) type Trust = (String, Option<Spread>);

impl SheetFacts {
    /// What speaks for the sheet's figure called `name`.
    pub(super) fn trust(&self, name: &str) -> Trust {
        let source = self.source.as_deref().unwrap_or(AS_GIVEN);
        if self.estimated.iter().any(|estimated| estimated == name) {
            (RECALLED.to_owned(), Some(Spread::RECALLED))
        } else if self.at_most.iter().any(|most| most == name) {
            let (_, title) = source.split_once(": ").unwrap_or(("", source));
            (format!("estimated: the most of its family, by {title}"), Some(Spread::AT_MOST))
        } else {
            (source.to_owned(), None)
        }
    }

    /// What speaks for a figure of the inside that the sheet's figure called `name` decided, which `text` tells.
    pub(super) fn fitted(&self, name: &str, text: &str) -> Trust {
        let own = self.trust(name).1.unwrap_or(Spread::FITTED);
        // What decides a time decides it the other way round.
        let wide = (1.0 - own.low).max(own.high - 1.0).max(1.0 - Spread::FITTED.low);
        (format!("fitted: to {text}"), Some(Spread { low: 1.0 - wide, high: 1.0 + wide }))
    }

    /// Bytes that may be written, and what speaks for it.
    pub(super) fn rated(&self, capacity: ByteCount) -> Option<(f64, Trust)> {
        let of_days = || {
            let writes = self.writes_a_day? * RATED_DAYS * capacity.0 as f64;
            Some((writes, self.trust("dwpd")))
        };
        self.rated_writes.map(|writes| (writes.0 as f64, self.trust("rated-writes"))).or_else(of_days)
    }

    /// Share that fails in a year in percent, and what speaks for it.
    pub(super) fn failures(&self) -> Option<(f64, Trust)> {
        let of_hours = || {
            let (source, spread) = self.trust("mtbf");
            let hours = self.mtbf_hours?;
            let source = source.strip_prefix("data sheet: ").map_or(source.clone(), |title| {
                format!("data sheet: {title}: {} million hours between failures", hours / 1e6)
            });
            Some(((HOURS_A_YEAR / hours * 1e4).round() / 100.0, (source, spread)))
        };
        self.afr_pct.map(|pct| (pct, self.trust("afr"))).or_else(of_hours)
    }

    /// Bits read for an error, and what speaks for it. Sheets give limits in powers of ten.
    pub(super) fn read_errors(&self) -> Option<(f64, Trust)> {
        let (source, spread) = self.trust("read-errors");
        self.bits_per_read_error.map(|bits| (bits, (source, spread.map(|_| Spread::ERRORS))))
    }
}
