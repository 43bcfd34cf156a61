//! Figures as people read them, and what divides them.

/// Prints `value` with three significant digits and without an exponent; whole from 100 on.
#[expect(clippy::missing_panics_doc, reason = "a printed number can be read")]
pub fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    // Rounding comes first: 99.96 is 100 in three digits, and then needs no decimal.
    let rounded: f64 = format!("{value:.2e}").parse().expect("a printed number can be read");
    let magnitude = if rounded == 0.0 { 2 } else { rounded.abs().log10().floor() as i32 };
    format!("{rounded:.0$}", (2 - magnitude).max(0) as usize)
}

/// Prints how many there are of what `noun` names one of: `1 run`, `8 runs`, `2 flushes`, `3 geometries`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let is_vowel = |c: char| "aeiou".contains(c);
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) if !stem.ends_with(is_vowel) => format!("{count} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("sh") || noun.ends_with("ch") => {
            format!("{count} {noun}es")
        }
        _ => format!("{count} {noun}s"),
    }
}

/// The greatest number that divides both; the other, where one is 0.
pub const fn greatest_divisor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::{counted, three_digits};

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0u8, 1, 2].map(|count| counted(count, "run")), ["0 runs", "1 run", "2 runs"]);
        for (noun, several) in
            [("process", "processes"), ("flush", "flushes"), ("geometry", "geometries"), ("array", "arrays")]
        {
            assert_eq!(
                [1u8, 2].map(|count| counted(count, noun)),
                [format!("1 {noun}"), format!("2 {several}")]
            );
        }
    }

    #[test]
    fn three_digits_are_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.0999, "0.0999"),
            (0.099_96, "0.100"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (123.4, "123"),
            (12_345.0, "12300"),
            (-25.04, "-25.0"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(three_digits(value), text, "{value}");
        }
    }
}
