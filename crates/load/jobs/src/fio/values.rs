//! Values as fio writes them: sizes, times, percentages, lists.

use raidlab_units::NanoSpan;

/// Reads a size in bytes: `512`, `4k`, `1M`, `1.5g`, `64KiB`, `0x1000`. `base` is 1024, or 1000 where the file says so. Units with
/// `iB` have the other base, as in fio: with its default of 1024, `4KiB` is 4000 bytes, and `4Ki` is 4096.
pub(super) fn size(text: &str, base: u64) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size: write bytes, or a number with k, m, g or t");
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (power, rest) = match unit.chars().next() {
        None | Some('b') => (0, unit.as_str()),
        Some(first) => {
            let power = "kmgtp".find(first).ok_or_else(wrong)? as u32 + 1;
            (power, &unit[1..])
        }
    };
    let base = match rest {
        "" | "b" | "i" => base,
        "ib" if base == 1024 => 1000,
        "ib" => 1024,
        _ => return Err(wrong()),
    };
    let factor = base.checked_pow(power).ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let real = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if (0.0..9e18).contains(&real) { Ok(real as u64) } else { Err(wrong()) }
}

/// Reads a time; a number without unit counts in `plain`.
pub(super) fn time(text: &str, plain: NanoSpan) -> Result<NanoSpan, String> {
    let wrong = || format!("'{text}' is no time: write a number with us, ms, s, m, h or d");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit.trim().to_ascii_lowercase().as_str() {
        "" => plain.get(),
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit_ns).map(NanoSpan).ok_or_else(wrong);
    }
    let ns = number.parse::<f64>().map_err(|_| wrong())? * unit_ns as f64;
    if (0.0..9e18).contains(&ns) { Ok(NanoSpan(ns as u64)) } else { Err(wrong()) }
}

/// Reads a whole number that fits.
pub(super) fn number(text: &str) -> Result<u32, String> {
    size(text, 1024)
        .ok()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| format!("'{text}' is no whole number below 4 billion"))
}

/// Reads a percentage.
pub(super) fn percent(text: &str) -> Result<u8, String> {
    let number = text.trim().trim_end_matches('%').parse::<u8>();
    number.ok().filter(|pct| *pct <= 100).ok_or_else(|| format!("'{text}' is no percentage: write 0 to 100"))
}

/// Reads a switch; a key without value is on.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("'{text}' is no switch: write 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_percentages_are_those_of_fio() {
        let sizes = [
            ("512", 1024, Ok(512)),
            ("4k", 1024, Ok(4096)),
            ("4k", 1000, Ok(4000)),
            ("1.5g", 1024, Ok(3 << 29)),
            ("64KiB", 1000, Ok(65_536)),
            ("64KiB", 1024, Ok(64_000)),
            ("1MiB", 1024, Ok(1_000_000)),
            ("4ki", 1024, Ok(4096)),
            ("1Mi", 1000, Ok(1_000_000)),
            ("2M", 1024, Ok(2 << 20)),
            ("0x1000", 1024, Ok(4096)),
            ("16b", 1024, Ok(16)),
            ("1kx", 1024, Err(())),
            ("99999999999t", 1024, Err(())),
            ("", 1024, Err(())),
            ("k", 1024, Err(())),
        ];
        for (text, base, expected) in sizes {
            assert_eq!(size(text, base).map_err(|_| ()), expected, "{text}");
        }
        let second = NanoSpan::from_secs(1);
        let times = [
            ("30", Ok(30_000_000_000)),
            ("1.5s", Ok(1_500_000_000)),
            ("2m", Ok(120_000_000_000)),
            ("10ms", Ok(10_000_000)),
            ("1y", Err(())),
            ("-1", Err(())),
        ];
        for (text, expected) in times {
            assert_eq!(time(text, second).map(NanoSpan::get).map_err(|_| ()), expected, "{text}");
        }
        assert_eq!((percent("70%"), percent("101").is_err()), (Ok(70), true));
        assert_eq!((switch(""), switch("0"), switch("x").is_err()), (Ok(true), Ok(false), true));
        assert_eq!((number("16"), number("5g").is_err()), (Ok(16), true));
    }
}
