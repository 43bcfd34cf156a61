//! Ranges of years of hardware: `2018..`, `..2011`, `2008..2011`, `2020`.

use core::fmt;
use core::str::FromStr;

/// Years, both ends among them; no end where it is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct YearRange {
    first: Option<u32>,
    last: Option<u32>,
}

/// Text that says no years.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' says no years: write 2018.., ..2011, 2008..2011, 2020 or any")]
pub struct BadYears {
    /// What was written.
    pub text: String,
}

impl YearRange {
    /// What can be bought, new or as what is left of it.
    pub const TODAY: Self = Self { first: Some(2017), last: None };

    /// The same of solid-state drives, which are made for about five years; disks of one type are for ten.
    pub const FLASH_TODAY: Self = Self { first: Some(2020), last: None };

    /// Whether something of this year is among them; what has no year is of all of them.
    pub fn holds(self, year: Option<u32>) -> bool {
        let Some(year) = year else { return true };
        self.first.is_none_or(|first| first <= year) && self.last.is_none_or(|last| year <= last)
    }
}

impl FromStr for YearRange {
    type Err = BadYears;

    fn from_str(text: &str) -> Result<Self, BadYears> {
        let bad = || BadYears { text: text.to_owned() };
        let end = |end: &str| match end {
            "" => Ok(None),
            year if year.len() == 4 => year.parse().map(Some).map_err(|_| bad()),
            _ => Err(bad()),
        };
        let range = match text.split_once("..") {
            _ if text == "any" => return Ok(Self::default()),
            Some((first, last)) => Self { first: end(first)?, last: end(last)? },
            None => Self { first: end(text)?, last: end(text)? },
        };
        let is_empty = range.first.zip(range.last).is_some_and(|(first, last)| first > last);
        if is_empty || range == Self::default() { Err(bad()) } else { Ok(range) }
    }
}

impl fmt::Display for YearRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (None, None) => f.write_str("any"),
            (Some(first), Some(last)) if first == last => write!(f, "{first}"),
            (first, last) => {
                let text = |year: Option<u32>| year.map(|year| year.to_string()).unwrap_or_default();
                write!(f, "{}..{}", text(first), text(last))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_read_and_told_alike_and_hold_both_ends() {
        for text in ["2018..", "..2011", "2008..2011", "2020", "any"] {
            assert_eq!(text.parse::<YearRange>().unwrap().to_string(), text);
        }
        let years: YearRange = "2008..2011".parse().unwrap();
        let held: Vec<u32> = (2005..2015).filter(|year| years.holds(Some(*year))).collect();
        assert_eq!(held, [2008, 2009, 2010, 2011]);
        assert!(years.holds(None), "what stands for a class is of all years");
        for text in ["", "..", "2011..2008", "now", "2018...", "-1.."] {
            assert!(text.parse::<YearRange>().is_err(), "{text}");
        }
    }
}
