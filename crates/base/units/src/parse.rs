//! One parser for every quantity in user input: a number, optional space, a unit.

use core::fmt;
use core::str::FromStr;
use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseUnitError {
    /// The text does not start with a number.
    #[error("'{text}' does not start with a number: write {expected}")]
    NotANumber {
        /// What was given.
        text: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// There is a number and nothing behind it; zero alone needs no unit.
    #[error("'{text}': give a unit, as {example}")]
    NoUnit {
        /// What was given.
        text: String,
        /// The same number with units.
        example: String,
    },
    /// The text after the number is not a unit of this quantity.
    #[error("'{unit}' in '{text}' is not a unit here: write {expected}")]
    UnknownUnit {
        /// What was given.
        text: String,
        /// The part that was not understood.
        unit: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The quantity is negative, not whole in its smallest unit, or too large.
    #[error("'{text}' is out of range: write {expected}")]
    OutOfRange {
        /// What was given.
        text: String,
        /// What would have been right.
        expected: &'static str,
    },
}

/// A unit's names and what one of it is in the smallest unit.
pub(crate) struct Scale {
    pub(crate) names: &'static [&'static str],
    pub(crate) factor: f64,
}

/// Reads `text` as a whole number of smallest units. Zero needs no unit; any other number without one is refused with `units`,
/// which it may have been meant in.
pub(crate) fn parse_scaled(
    text: &str,
    scales: &[Scale],
    (expected, units): (&'static str, [&str; 2]),
) -> Result<u64, ParseUnitError> {
    let trimmed = text.trim();
    let number_end =
        trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(number_end);
    let digits = digits.replace('_', "");
    let unit = unit.trim();
    let scale = scales
        .iter()
        .find(|scale| scale.names.contains(&unit))
        .ok_or_else(|| ParseUnitError::UnknownUnit { text: text.into(), unit: unit.into(), expected });
    // A missing number is the more useful complaint, so it is looked at first.
    let value: f64 =
        digits.parse().map_err(|_| ParseUnitError::NotANumber { text: text.into(), expected })?;
    if unit.is_empty() {
        let [one, other] = units.map(|unit| format!("{}{unit}", text.trim()));
        let missing = ParseUnitError::NoUnit { text: text.into(), example: format!("{one} or {other}") };
        return if value == 0.0 { Ok(0) } else { Err(missing) };
    }
    let scale = scale?;
    // Whole numbers take the exact path: an f64 cannot hold every u64.
    if let Ok(whole) = digits.parse::<u64>() {
        return whole
            .checked_mul(scale.factor as u64)
            .ok_or(ParseUnitError::OutOfRange { text: text.into(), expected });
    }
    let scaled = value * scale.factor;
    let rounded = scaled.round();
    if rounded > 9e18 || (scaled - rounded).abs() > 1e-6 * scaled.max(1.0) {
        return Err(ParseUnitError::OutOfRange { text: text.into(), expected });
    }
    Ok(rounded as u64)
}

/// Reads a plain whole number, or text that the quantity's own parser understands.
pub(crate) fn deserialize_number_or_text<'de, D, T>(
    deserializer: D,
    expected: &'static str,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = ParseUnitError> + From<u64>,
{
    struct NumberOrText<T>(&'static str, core::marker::PhantomData<T>);
    impl<T: FromStr<Err = ParseUnitError> + From<u64>> Visitor<'_> for NumberOrText<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            Ok(T::from(number))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            u64::try_from(number).map(T::from).map_err(|_| E::custom(format!("{number} is negative")))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_any(NumberOrText(expected, core::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use crate::{ByteCount, NanoSpan};

    #[test]
    fn a_number_needs_its_unit() {
        let size = |text: &str| text.parse::<ByteCount>().map_err(|error| error.to_string());
        let rows = [
            ("512B", Ok(512)),
            ("64 KiB", Ok(65_536)),
            ("1.5kB", Ok(1500)),
            ("0", Ok(0)),
            ("400", Err("'400': give a unit, as 400GB or 400KiB")),
            ("65536", Err("'65536': give a unit, as 65536B or 64KiB")),
            ("1536", Err("'1536': give a unit, as 1536B")),
            (" 1.5", Err("' 1.5': give a unit, as 1.5GB or 1.5KiB")),
            ("GB", Err("'GB' does not start with a number: write a size such as 64KiB, 8GB or 512B")),
            ("4 X", Err("'X' in '4 X' is not a unit here: write a size such as 64KiB, 8GB or 512B")),
            ("0.5B", Err("'0.5B' is out of range: write a size such as 64KiB, 8GB or 512B")),
        ];
        for (text, expected) in rows {
            assert_eq!(size(text), expected.map(ByteCount).map_err(str::to_owned), "{text}");
        }
        let time = "20".parse::<NanoSpan>().unwrap_err();
        assert_eq!(time.to_string(), "'20': give a unit, as 20s or 20ms");
        assert_eq!("0".parse(), Ok(NanoSpan::ZERO));
    }
}
