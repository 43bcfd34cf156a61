//! Numbers and times in text.
//!
//! Times are decimal fractions of seconds, milliseconds or microseconds. They are parsed digit by digit, so that
//! `5.000000001` s is exactly 5 000 000 001 ns, which no binary fraction is. Digits below the nanosecond are dropped.

use crate::error::LineProblem;

/// Reads a whole number up to `max`.
pub(crate) fn whole(field: &'static str, text: &str, max: u64) -> Result<u64, LineProblem> {
    let number = if text.starts_with('+') { None } else { text.parse().ok() };
    number.filter(|number| *number <= max).ok_or_else(|| no_number(field, text, max))
}

/// Reads a decimal number of units of `10^unit_digits` nanoseconds, as nanoseconds.
pub(crate) fn decimal_ns(field: &'static str, text: &str, unit_digits: u32) -> Result<u64, LineProblem> {
    let max = u64::MAX / 10u64.pow(unit_digits);
    exact_ns(text, unit_digits)
        .or_else(|| rounded_ns(text, unit_digits))
        .ok_or_else(|| no_number(field, text, max))
}

fn exact_ns(text: &str, unit_digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(unit_digits as usize);
    let fraction_ns = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    whole.checked_mul(10u64.pow(unit_digits))?.checked_add(fraction_ns)
}

/// Numbers with an exponent.
fn rounded_ns(text: &str, unit_digits: u32) -> Option<u64> {
    let begins_well = text.starts_with(|first: char| first.is_ascii_digit());
    let looks_like_one = begins_well && text.contains(['e', 'E']);
    let ns = text.parse::<f64>().ok().filter(|_| looks_like_one)? * 10f64.powi(unit_digits.cast_signed());
    (0.0..18e18).contains(&ns).then(|| ns.round() as u64)
}

fn no_number(field: &'static str, text: &str, max: u64) -> LineProblem {
    LineProblem::Number { field, text: shown(text), max }
}

/// The part of `text` that an error shows.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    text.chars().take(CHARS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_exact() {
        let table = [
            ("0", 9, 0),
            ("5.000000001", 9, 5_000_000_001),
            ("0.1", 9, 100_000_000),
            ("12.3456789999", 9, 12_345_678_999),
            ("1.5", 6, 1_500_000),
            ("14095.370", 3, 14_095_370),
            (".5", 3, 500),
            ("5.", 3, 5000),
            ("1e-3", 9, 1_000_000),
            ("18446744073.709551615", 9, u64::MAX),
        ];
        for (text, digits, ns) in table {
            assert_eq!(decimal_ns("time", text, digits), Ok(ns), "{text}");
        }
        for text in ["", ".", "-1", "+1", "1.2.3", "nan", "inf", "0x1", "1e99", "18446744073.709551616", "1 "]
        {
            assert!(decimal_ns("time", text, 9).is_err(), "{text}");
        }
    }

    #[test]
    fn whole_numbers_keep_to_their_bound() {
        assert_eq!(whole("size", "7", 7), Ok(7));
        for text in ["8", "-1", "+1", "", "1.0", "99999999999999999999"] {
            assert!(whole("size", text, 7).is_err(), "{text}");
        }
        assert_eq!(
            whole("size", "x\ny", 7).unwrap_err().to_string(),
            "size is 'x?y', which is no number from 0 to 7"
        );
    }

    proptest! {
        #[test]
        fn a_time_that_was_printed_is_read_back(ns in any::<u64>(), digits in prop::sample::select(vec![3u32, 6, 9])) {
            let unit = 10u64.pow(digits);
            let text = format!("{}.{:0width$}", ns / unit, ns % unit, width = digits as usize);
            prop_assert_eq!(decimal_ns("time", &text, digits), Ok(ns));
        }
    }
}
