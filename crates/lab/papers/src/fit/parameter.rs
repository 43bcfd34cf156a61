//! Figures that a fit may change, their bounds, and the reasons for the bounds. They are in `papers/ID/fit.toml`:
//!
//! ```text
//! schema = 1
//! [[parameters]]
//! keys = ["perc-h800:member_command.read", "perc-h800:member_command.write"]   one number, which moves both
//! low = "0.5 us"
//! high = "20 us"
//! reason = "firmware of a 800 MHz processor: some hundred to some ten thousand instructions"
//! ```
//! Values are read and written as in the catalogue: a number and its unit. They are written with three digits, the
//! precision of a fit; a number without a point and a size stay whole, and times are whole nanoseconds.

use crate::predict::FittedFigure;
use raidlab_advisor::SearchRange;
use raidlab_hardware::CatalogChange;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file::{self, TomlFileError};
use serde::{Deserialize, Serialize};

/// Version of the form of the file.
const SCHEMA: u32 = 1;

/// What may be fitted to a paper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FitFile {
    /// Version of the form of the file.
    pub schema: u32,
    /// The numbers.
    #[serde(default)]
    pub parameters: Vec<FitFileParameter>,
}

/// A number as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FitFileParameter {
    /// Figures of the catalogue, `entry:key`; if there are several they move in proportion.
    pub keys: Vec<String>,
    /// The least that the first may be.
    pub low: String,
    /// The most.
    pub high: String,
    /// Why these bounds.
    pub reason: String,
}

/// Why a number can't be searched.
#[derive(Debug, thiserror::Error)]
pub enum FitParameterError {
    /// A key is not a fitted figure of the paper's hardware.
    #[error("'{key}' is no fitted figure of the hardware that the paper names{}", nearest.as_ref().map_or(String::new(), |near| format!(", did you mean '{near}'?")))]
    Unknown {
        /// The key.
        key: String,
        /// The fitted figure most like it.
        nearest: Option<String>,
    },
    /// A value is not a number with a unit that the figure can have.
    #[error("'{key}': '{text}' is not of the kind of '{value}', or not above zero")]
    Value {
        /// The key.
        key: String,
        /// What was given.
        text: String,
        /// The figure's own value.
        value: String,
    },
    /// The present value is outside the bounds.
    #[error("'{key}' is {value} and outside of its bounds, {low} to {high}")]
    Bounds {
        /// The key.
        key: String,
        /// The figure's own value.
        value: String,
        /// The least.
        low: String,
        /// The most.
        high: String,
    },
}

/// Reads `text`, the contents of `file`.
///
/// # Errors
/// [`TomlFileError`] names file, line and key.
pub fn parse_fit_file(file: &str, text: &str) -> Result<FitFile, TomlFileError> {
    toml_file::parse(file, text, SCHEMA)
}

impl FitFile {
    /// The numbers with what the catalogue has for them; `figures` are the fitted ones in use.
    ///
    /// # Errors
    /// [`FitParameterError`] for the first that can't be searched.
    pub fn resolved(&self, figures: &[FittedFigure]) -> Result<Vec<FitParameter>, FitParameterError> {
        self.parameters.iter().map(|declared| FitParameter::of(declared, figures)).collect()
    }
}

/// One figure of a searched number, with its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FittedKey {
    /// Drive, controller, host, server or network.
    pub entry: String,
    /// The figure.
    pub key: String,
    /// Its value when the search began.
    pub was: String,
    /// Its value now.
    pub value: String,
}

impl FittedKey {
    /// The change of the catalogue that it asks for, if it is one, with its `source`.
    pub(super) fn change(&self, source: &str) -> Option<CatalogChange> {
        let Self { entry, key, was, value } = self.clone();
        (value != was).then(|| CatalogChange { entry, key, value, source: Some(source.to_owned()) })
    }
}

/// A number to search.
#[derive(Clone, Debug, PartialEq)]
pub struct FitParameter {
    keys: Vec<(FittedFigure, Quantity)>,
    /// The least that the first may be, as declared.
    pub low: String,
    /// The most.
    pub high: String,
    /// Why these bounds.
    pub reason: String,
    range: SearchRange,
}

impl FitParameter {
    fn of(declared: &FitFileParameter, figures: &[FittedFigure]) -> Result<Self, FitParameterError> {
        let place = |figure: &FittedFigure| format!("{}:{}", figure.entry, figure.key);
        let unknown = |key: &str| {
            let all: Vec<String> = figures.iter().map(place).collect();
            let nearest = toml_file::nearest(key, all.iter().map(String::as_str)).map(str::to_owned);
            FitParameterError::Unknown { key: key.to_owned(), nearest }
        };
        let mut keys = Vec::new();
        for key in &declared.keys {
            let figure = figures.iter().find(|figure| place(figure) == *key).ok_or_else(|| unknown(key))?;
            let quantity = Quantity::read(&figure.value).ok_or_else(|| FitParameterError::Value {
                key: key.clone(),
                text: figure.value.clone(),
                value: figure.value.clone(),
            })?;
            keys.push((figure.clone(), quantity));
        }
        let Some((first, start)) = keys.first().cloned() else { return Err(unknown("")) };
        let read = |text: &str| {
            let value = Quantity::read(text).filter(|value| value.kind == start.kind);
            value.map(|value| value.base).ok_or_else(|| FitParameterError::Value {
                key: place(&first),
                text: text.to_owned(),
                value: first.value.clone(),
            })
        };
        let range = SearchRange { low: read(&declared.low)?, high: read(&declared.high)?, start: start.base };
        let (low, high, reason) = (declared.low.clone(), declared.high.clone(), declared.reason.clone());
        if !range.is_sound() {
            return Err(FitParameterError::Bounds { key: place(&first), value: first.value, low, high });
        }
        Ok(Self { keys, low, high, reason, range })
    }

    /// `figure` of any entry, from so many times less to so many times more than it is.
    ///
    /// # Errors
    /// [`FitParameterError::Value`] where it is no number above zero.
    pub fn around(figure: FittedFigure, times: f64) -> Result<Self, FitParameterError> {
        let quantity = Quantity::read(&figure.value).ok_or_else(|| FitParameterError::Value {
            key: format!("{}:{}", figure.entry, figure.key),
            text: figure.value.clone(),
            value: figure.value.clone(),
        })?;
        let start = quantity.base;
        Ok(Self {
            low: quantity.times(1.0 / times),
            high: quantity.times(times),
            reason: format!("{times} times less or more than it is"),
            range: SearchRange { low: start / times, high: start * times, start },
            keys: vec![(figure, quantity)],
        })
    }

    /// Its bounds and its start, in the smallest unit of the first figure.
    pub fn range(&self) -> SearchRange {
        self.range
    }

    /// Its first figure, `entry:key`.
    pub fn name(&self) -> String {
        let (figure, _) = &self.keys[0];
        format!("{}:{}", figure.entry, figure.key)
    }

    /// Whether `asked` names one of its figures, `entry:key` or `KIND/entry.key`, or the entry of one.
    pub fn is_named(&self, asked: &str) -> bool {
        // The kind before a slash tells people what an entry is; names are unique without it.
        let asked = asked.split_once('/').map_or(asked, |(_, entry)| entry);
        self.keys.iter().any(|(FittedFigure { entry, key, .. }, _)| {
            asked == entry || asked == format!("{entry}:{key}") || asked == format!("{entry}.{key}")
        })
    }

    /// Whether it is the figure `key` of `entry`.
    pub fn has(&self, entry: &str, key: &str) -> bool {
        self.keys.iter().any(|(figure, _)| figure.entry == entry && figure.key == key)
    }

    /// Whether it moves a figure of `entry`.
    pub fn is_of(&self, entry: &str) -> bool {
        self.keys.iter().any(|(figure, _)| figure.entry == entry)
    }

    /// Its figures when the number is `value`, in the smallest unit.
    pub fn keys_at(&self, value: f64) -> Vec<FittedKey> {
        let ratio = value / self.range.start;
        let keys = self.keys.iter().map(|(figure, quantity)| FittedKey {
            entry: figure.entry.clone(),
            key: figure.key.clone(),
            was: figure.value.clone(),
            value: quantity.times(ratio),
        });
        keys.collect()
    }

    /// The changes that make the number `value`.
    pub fn changes_at(&self, value: f64) -> Vec<CatalogChange> {
        let keys = self.keys_at(value).into_iter();
        keys.map(|FittedKey { entry, key, value, .. }| CatalogChange { entry, key, value, source: None })
            .collect()
    }

    /// Whether `value` is at a bound that it did not begin at.
    pub fn is_at_bound(&self, value: f64) -> bool {
        let SearchRange { low, high, start } = self.range;
        let is = |bound: f64| (value / bound).ln().abs() < 1e-6 && (start / bound).ln().abs() > 1e-6;
        is(low) || is(high)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number without unit that must be whole.
    Count,
    Number,
    Time,
    Size,
    Rate,
}

/// A value as the catalogue has it.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    kind: Kind,
    /// As written.
    text: String,
    /// The number in it.
    number: f64,
    /// What follows it, space included.
    unit: String,
    /// In the smallest unit.
    base: f64,
}

impl Quantity {
    /// Reads what is above zero.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
        let number: f64 = text[..end].replace('_', "").parse().ok()?;
        let unit = text[end..].to_owned();
        let (kind, base) = if unit.is_empty() {
            (if text.contains('.') { Kind::Number } else { Kind::Count }, number)
        } else if let Some(bytes) = text.strip_suffix("/s") {
            (Kind::Rate, bytes.parse::<ByteCount>().ok()?.get() as f64)
        } else if let Ok(span) = text.parse::<NanoSpan>() {
            (Kind::Time, span.get() as f64)
        } else {
            (Kind::Size, text.parse::<ByteCount>().ok()?.get() as f64)
        };
        (base > 0.0 && number > 0.0).then(|| Self { kind, text: text.to_owned(), number, unit, base })
    }

    /// The value times `ratio`, as it is written; what is not changed by a thousandth is as it was.
    fn times(&self, ratio: f64) -> String {
        if ratio.ln().abs() < 1e-3 {
            return self.text.clone();
        }
        let scale = self.base / self.number;
        let base = self.base * ratio;
        match self.kind {
            Kind::Count => (base.round().max(1.0) as u64).to_string(),
            Kind::Size => format!("{} KiB", (base / 1024.0).round().max(1.0) as u64),
            Kind::Time => format!("{}{}", three_digits(base.round().max(1.0) / scale), self.unit),
            Kind::Number | Kind::Rate => {
                let text = three_digits(base / scale);
                // Without its point it would be a whole number, which the next fit would keep whole.
                let point = if self.kind == Kind::Number && !text.contains('.') { ".0" } else { "" };
                format!("{text}{point}{}", self.unit)
            }
        }
    }
}

/// `value` with three digits that count, and no zeros at its end.
fn three_digits(value: f64) -> String {
    let power = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - power).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(entry: &str, key: &str, value: &str) -> FittedFigure {
        let [entry, key, value] = [entry, key, value].map(str::to_owned);
        FittedFigure { entry, key, value, source: "fitted: to a row".into() }
    }

    #[test]
    fn values_are_written_as_the_catalogue_has_them() {
        let rows = [
            ("6.4 us", 1.1, "7.04 us"),
            ("320 us", 0.5, "160 us"),
            ("2 us", 0.0004, "0.001 us"),
            ("1.58 GB/s", 1.25, "1.98 GB/s"),
            ("58 MB/s", 1.0123, "58.7 MB/s"),
            ("118 MB/s", 10.0, "1180 MB/s"),
            ("1 MiB", 1.27, "1300 KiB"),
            ("512 KiB", 0.5, "256 KiB"),
            ("0.05", 1.5, "0.075"),
            ("7.5", 2.0, "15.0"),
            ("4", 1.2, "5"),
            ("4", 0.01, "1"),
            ("9.99 ms", 1.0005, "9.99 ms"),
        ];
        for (text, ratio, expected) in rows {
            let quantity = Quantity::read(text).unwrap_or_else(|| panic!("{text}"));
            let written = quantity.times(ratio);
            assert_eq!(written, expected, "{text} times {ratio}");
            assert_eq!(Quantity::read(&written).unwrap().kind, quantity.kind, "{written}");
        }
        for text in ["", "fast", "0 us", "0", "true", "7 parsecs", "-3"] {
            assert_eq!(Quantity::read(text), None, "{text}");
        }
    }

    #[test]
    fn several_keys_move_in_proportion() {
        let figures = [figure("a", "x.read", "2 us"), figure("b", "x.read", "8 us"), figure("b", "y", "4")];
        let declared = |keys: &[&str], low: &str, high: &str| FitFile {
            schema: 1,
            parameters: vec![FitFileParameter {
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                low: low.into(),
                high: high.into(),
                reason: "so".into(),
            }],
        };
        let found = declared(&["a:x.read", "b:x.read"], "500 ns", "1 ms").resolved(&figures).unwrap();
        let at = found[0].keys_at(3_000.0);
        assert_eq!([&*at[0].value, &*at[1].value], ["3 us", "12 us"]);
        assert!(found[0].has("b", "x.read") && !found[0].has("b", "y") && found[0].is_of("b"));
        let named = ["a", "b:x.read", "drive/a.x.read"].map(|asked| found[0].is_named(asked));
        assert_eq!((named, found[0].is_named("b:y")), ([true; 3], false));
        assert!(found[0].is_at_bound(500.0) && !found[0].is_at_bound(2_000.0));

        let problem = |keys: &[&str], low: &str, high: &str| {
            declared(keys, low, high).resolved(&figures).unwrap_err().to_string()
        };
        assert!(problem(&["a:x.raed"], "1 us", "2 us").contains("did you mean 'a:x.read'?"));
        assert!(problem(&["a:x.read"], "1 us", "2 MB").contains("'2 MB' is not of the kind of '2 us'"));
        assert!(problem(&["a:x.read"], "3 us", "9 us").contains("outside of its bounds, 3 us to 9 us"));
        assert!(problem(&[], "3 us", "9 us").contains("no fitted figure"));
    }
}
