//! Lists and ranges of numbers, as users write them for sweeps.
//!
//! | written | meaning |
//! |---|---|
//! | `8` | 8 |
//! | `1,8,64` | these values |
//! | `1..64` | doubling: 1, 2, 4, ... 64; always ends with 64 |
//! | `1..64+8` | in steps: 1, 9, 17, ... and 64 |
//! | `1..1000*10` | times a factor: 1, 10, 100, 1000 |
//!
//! Sizes are written the same way: `4KiB..64KiB`, `4KiB..32KiB+4KiB`. Iometer calls the two ranges linear and
//! exponential stepping.

use raidlab_units::ByteCount;

/// Values of one sweep at most.
const VALUES_MAX: usize = 10_000;
/// The most requests in flight that are offered.
pub const IODEPTH_MAX: u32 = 65_536;

/// Why a text is no sweep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// A part is no value of the right kind.
    #[error("'{part}' is no {what}: write {example}")]
    Value {
        /// What was given.
        part: String,
        /// What it should be.
        what: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// The second end is below the first.
    #[error("{range} is no range: the second is smaller")]
    Backwards {
        /// What was given.
        range: String,
    },
    /// A step of zero, or a factor below two, would never end.
    #[error("'{range}' never ends: give a step of at least 1, or a factor of at least 2")]
    Endless {
        /// What was given.
        range: String,
    },
    /// There are too many values.
    #[error("'{range}' has more than {VALUES_MAX} values: take larger steps")]
    TooMany {
        /// What was given.
        range: String,
    },
}

/// Reads requests in flight, from 1 to [`IODEPTH_MAX`].
///
/// # Errors
/// [`SweepError`] says what is wrong.
pub fn iodepths(text: &str) -> Result<Vec<u32>, SweepError> {
    const EXAMPLE: &str = "1 to 65536, a list 1,8,64, or a range 1..64 (doubling) or 1..64+8 (in steps)";
    numbers(text, "iodepth", EXAMPLE, 1..=IODEPTH_MAX)
}

/// Reads numbers of workers, from 1 to 1024.
///
/// # Errors
/// [`SweepError`] says what is wrong.
pub fn workers(text: &str) -> Result<Vec<u32>, SweepError> {
    numbers(text, "number of workers", "1 to 1024, a list 1,2,4, or a range 1..8 or 1..8+1", 1..=1024)
}

/// Reads numbers of readers, from 1 to [`IODEPTH_MAX`].
///
/// # Errors
/// [`SweepError`] says what is wrong.
pub fn streams(text: &str) -> Result<Vec<u32>, SweepError> {
    const EXAMPLE: &str = "1 to 65536, a list 1,2,100, or a range 1..64 (doubling) or 1..64+8 (in steps)";
    numbers(text, "number of streams", EXAMPLE, 1..=IODEPTH_MAX)
}

/// Reads shares of reads in percent, from 0 to 100.
///
/// # Errors
/// [`SweepError`] says what is wrong.
pub fn read_pcts(text: &str) -> Result<Vec<u8>, SweepError> {
    let found =
        numbers(text, "share of reads", "0 to 100 percent, a list 0,67,100, or a range 0..100+25", 0..=100)?;
    Ok(found.into_iter().map(|pct| pct as u8).collect())
}

/// Reads lengths of requests, from 1 byte to 4 GiB - 1.
///
/// # Errors
/// [`SweepError`] says what is wrong.
pub fn block_sizes(text: &str) -> Result<Vec<u32>, SweepError> {
    const EXAMPLE: &str =
        "a size 4KiB, a list 4KiB,64KiB, or a range 512B..64KiB (doubling) or 4KiB..32KiB+4KiB";
    let in_range = |bytes: &u64| (1..=u64::from(u32::MAX)).contains(bytes);
    let parse = |part: &str| part.parse::<ByteCount>().ok().map(ByteCount::get).filter(in_range);
    let found = values(text, "block size", EXAMPLE, parse)?;
    Ok(found.into_iter().map(|bytes| bytes as u32).collect())
}

fn numbers(
    text: &str,
    what: &'static str,
    example: &'static str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Vec<u32>, SweepError> {
    let parse = |part: &str| part.parse::<u32>().ok().filter(|value| range.contains(value)).map(u64::from);
    Ok(values(text, what, example, parse)?.into_iter().map(|value| value as u32).collect())
}

/// Every value of `text`, in the order given. `parse` reads one.
fn values(
    text: &str,
    what: &'static str,
    example: &'static str,
    parse: impl Fn(&str) -> Option<u64>,
) -> Result<Vec<u64>, SweepError> {
    let read = |part: &str| {
        let part = part.trim();
        parse(part).ok_or_else(|| SweepError::Value { part: part.into(), what, example })
    };
    // A step may be above what a value may be, or a size: it is read as a value, or as a number.
    let step = |part: &str| match part.trim().parse() {
        Ok(step) => Ok(step),
        Err(_) => read(part),
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        let Some((first, rest)) = part.split_once("..") else {
            found.push(read(part)?);
            continue;
        };
        let (last, next): (_, Box<dyn Fn(u64) -> Option<u64>>) =
            if let Some((last, by)) = rest.split_once('+') {
                let by = step(by)?;
                (last, Box::new(move |value| value.checked_add(by)))
            } else if let Some((last, times)) = rest.split_once('*') {
                let times = step(times)?;
                (last, Box::new(move |value| value.checked_mul(times)))
            } else {
                (rest, Box::new(|value| value.checked_mul(2)))
            };
        found.extend(range(part.trim(), read(first)?, read(last)?, &*next)?);
    }
    Ok(found)
}

/// `first`, what comes `next`, and so on; ends with `last` whether it is met or not.
fn range(
    text: &str,
    first: u64,
    last: u64,
    next: &dyn Fn(u64) -> Option<u64>,
) -> Result<Vec<u64>, SweepError> {
    if last < first {
        return Err(SweepError::Backwards { range: text.into() });
    }
    let mut found = Vec::new();
    let mut value = first;
    while value < last {
        if found.len() == VALUES_MAX {
            return Err(SweepError::TooMany { range: text.into() });
        }
        found.push(value);
        value = match next(value) {
            Some(next) if next > value => next,
            Some(_) => return Err(SweepError::Endless { range: text.into() }),
            None => last,
        };
    }
    found.push(last);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iodepths_are_numbers_lists_and_ranges() {
        let rows: [(&str, Option<&[u32]>); 15] = [
            ("8", Some(&[8])),
            ("1,8,64", Some(&[1, 8, 64])),
            ("1..64", Some(&[1, 2, 4, 8, 16, 32, 64])),
            ("3..20,100", Some(&[3, 6, 12, 20, 100])),
            ("5..5", Some(&[5])),
            ("1..30+8", Some(&[1, 9, 17, 25, 30])),
            ("8..24 + 8", Some(&[8, 16, 24])),
            ("1..1000*10", Some(&[1, 10, 100, 1000])),
            ("64..1", None),
            ("0", None),
            ("70000", None),
            ("1,", None),
            ("1..9+0", None),
            ("1..9*1", None),
            ("1..65536+1", None),
        ];
        for (text, expected) in rows {
            assert_eq!(iodepths(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_shares_too() {
        assert_eq!(block_sizes("512B..4KiB").unwrap(), [512, 1024, 2048, 4096]);
        assert_eq!(block_sizes("4KiB..12KiB+4KiB,1MiB").unwrap(), [4096, 8192, 12_288, 1 << 20]);
        assert_eq!(read_pcts("0..100+25").unwrap(), [0, 25, 50, 75, 100]);
        assert_eq!(
            read_pcts("0..100").map_err(|error| error.to_string()).unwrap_err(),
            "'0..100' never ends: give a step of at least 1, or a factor of at least 2"
        );
        assert!(read_pcts("101").is_err() && block_sizes("0B").is_err() && workers("0").is_err());
    }
}
