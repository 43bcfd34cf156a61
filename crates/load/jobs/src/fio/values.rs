//! Values as fio writes them: sizes, times, percentages, lists.

use raidlab_units::NanoSpan;

/// Reads a size in bytes: `512`, `4k`, `1M`, `64KiB`, `0x1000`. `base` is 1024, or 1000 where the file says so. Units with `iB` have the
/// other base, as in fio: with its default of 1024, `4KiB` is 4000 bytes, and `4Ki` is 4096.
pub(super) fn size(text: &str, base: u64) -> Result<u64, String> {
    whole(text, base, "is no size: write bytes, or a number with k, m, g or t")
}

/// Reads a whole number with a unit of `base`; what is `wrong` with another text.
fn whole(text: &str, base: u64, wrong: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' {wrong}");
    if let Some(hex) = text.trim().strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let (number, unit) = figure(text)?;
    let (power, rest) = match unit.chars().next() {
        None | Some('b') => (0, unit.as_str()),
        Some(first) => {
            let power = "kmgtp".find(first).ok_or_else(wrong)? as u32 + 1;
            (power, &unit[1..])
        }
    };
    let other = match rest {
        "" | "b" | "i" => base,
        "ib" if base == 1024 => 1000,
        "ib" => 1024,
        _ => return Err(wrong()),
    };
    let factor = other.checked_pow(power).ok_or_else(wrong)?;
    if number.contains('.') {
        let units = ["t", "g", "m", "k", ""].into_iter().zip((0..5).rev());
        let units = units.map(|(name, power)| (name, base.saturating_pow(power)));
        return Err(decimal(text, number, factor, units).unwrap_or_else(wrong));
    }
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

/// Units of time, the longest first, in ns.
const TIMES: [(&str, u64); 6] = [
    ("d", 86_400 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Reads a time; a number without unit counts in `plain`.
pub(super) fn time(text: &str, plain: NanoSpan) -> Result<NanoSpan, String> {
    let wrong = || format!("'{text}' is no time: write a number with us, ms, s, m, h or d");
    let (number, unit) = figure(text)?;
    let is_it = |name: &str| unit == name || (name.ends_with('s') && unit.strip_suffix("ec") == Some(name));
    let unit_ns = match TIMES.iter().find(|(name, _)| is_it(name)) {
        _ if unit.is_empty() => plain.get(),
        Some((_, ns)) => *ns,
        None => return Err(wrong()),
    };
    if number.contains('.') {
        return Err(decimal(text, number, unit_ns, TIMES.into_iter()).unwrap_or_else(wrong));
    }
    let ns = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ns));
    ns.map(NanoSpan).ok_or_else(wrong)
}

/// The number in front, and its unit in small letters.
fn figure(text: &str) -> Result<(&str, String), String> {
    let figure = text.trim();
    if figure.starts_with('(') {
        return Err(format!(
            "'{figure}': fio's arithmetic has no counterpart here: write the number that it makes"
        ));
    }
    let digits = figure.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(figure.len());
    let (number, unit) = figure.split_at(digits);
    // As parse.c has it: behind a blank it finds no unit, and none of a number that a blank leads.
    if !unit.is_empty() && (unit.starts_with([' ', '\t']) || text.starts_with([' ', '\t'])) {
        return Err(format!(
            "'{text}': fio loses the unit of a number with a blank before either: leave the blank out"
        ));
    }
    Ok((number, unit.to_ascii_lowercase()))
}

/// What is wrong with `number`, which has a point, of units of `factor`; none where it is no number. fio reads the whole number in front,
/// and drops the rest with its unit.
fn decimal(
    text: &str,
    number: &str,
    factor: u64,
    mut units: impl Iterator<Item = (&'static str, u64)>,
) -> Option<String> {
    let exact = number.parse::<f64>().ok()? * factor as f64;
    let front = number.split('.').next().filter(|front| !front.is_empty()).unwrap_or("0");
    let is_whole = |unit: u64| exact >= unit as f64 && exact % unit as f64 == 0.0;
    let instead = match units.find(|(_, unit)| is_whole(*unit)) {
        Some((name, unit)) => format!("{}{name}", exact / unit as f64),
        None => "a whole number".to_owned(),
    };
    Some(format!(
        "'{}': fio takes the {front} in front of the point, and drops the rest with its unit: write {instead}",
        text.trim()
    ))
}

/// Reads a whole number that fits.
pub(super) fn number(text: &str) -> Result<u32, String> {
    let wrong = "is no whole number below 4 billion";
    let number = whole(text, 1024, wrong)?;
    u32::try_from(number).map_err(|_| format!("'{text}' {wrong}"))
}

/// Reads a percentage that fio takes as a plain number only: behind one with a sign it sees another.
pub(super) fn plain_percent(text: &str) -> Result<u8, String> {
    if let Some(number) = text.trim().strip_suffix('%') {
        return Err(format!("'{text}': fio takes another number where % stands: write {number}"));
    }
    percent(text)
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

/// What fio has against a figure of the distribution called `name`, where it refuses it (options.c).
pub(super) fn refusal_of_skew(name: &str, figure: f64) -> Option<&'static str> {
    match name {
        "zipf" if figure == 1.0 => {
            Some("fio refuses a theta of 1: write one beside it, such as 0.99 or 1.01")
        }
        "pareto" if figure <= 0.0 || figure >= 1.0 => Some("fio takes an h above 0 and below 1 only"),
        "normal" | "gauss" if !(0.0..100.0).contains(&figure) => {
            Some("fio takes a deviation from 0 to below 100 only")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fio 3.33 takes `bs=1.5k` for 1 byte, `runtime=1.5m` for 1 s and `bs=4 k` for 4 bytes (`--debug=parse`), and they were taken as meant.
    #[test]
    fn what_fio_loses_of_a_figure_is_refused_with_what_to_write() {
        let second = NanoSpan::from_secs(1);
        let sizes = [
            ("1.5k", "write 1536"),
            ("1.5m", "fio takes the 1 in front of the point, and drops the rest with its unit: write 1536k"),
            (".5g", "fio takes the 0 in front of the point, and drops the rest with its unit: write 512m"),
            ("1.0", "write 1"),
            ("1.3", "write a whole number"),
            ("4 k", "'4 k': fio loses the unit"),
            (" 8k", "leave the blank out"),
            ("(4*1024)", "arithmetic has no counterpart here"),
        ];
        for (text, part) in sizes {
            let problem = size(text, 1024).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
            assert!(number(text).unwrap_err().contains(part), "{text}");
        }
        for (text, part) in [
            ("1.5m", "write 90s"),
            ("1.5ms", "write 1500us"),
            ("1.5", "write 1500ms"),
            ("2 ms", "loses the unit"),
        ] {
            let problem = time(text, second).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert_eq!((size(" 8", 1024), size("8k ", 1024)), (Ok(8), Ok(8192)), "as fio has them");
    }

    #[test]
    fn sizes_times_and_percentages_are_those_of_fio() {
        let sizes = [
            ("512", 1024, Ok(512)),
            ("4k", 1024, Ok(4096)),
            ("4k", 1000, Ok(4000)),
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
            ("20sec", Ok(20_000_000_000)),
            ("20usec", Ok(20_000)),
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
