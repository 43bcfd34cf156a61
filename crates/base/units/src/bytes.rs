//! Sizes in bytes, and the size of a block.

use crate::address::BlockCount;
use crate::parse::{ParseUnitError, Scale, parse_scaled};
use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize};

/// A length in bytes. Parses `64KiB`, `8 GB`, `512B`; prints the largest binary unit that divides it, else
/// three significant figures.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` times 1024 bytes.
    pub const fn from_kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` times 1024 * 1024 bytes.
    pub const fn from_mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` times 2^30 bytes.
    pub const fn from_gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// Returns the plain number of bytes.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Prints in decimal units (kB, MB, GB, TB), as drives and published tables count.
    pub fn decimal(self) -> impl fmt::Display {
        Decimal(self.0)
    }

    /// Prints as people write sizes and rates that may be of either kind: in whole KiB, MiB, GiB or TiB where these are exact and have no
    /// more than four digits, else in decimal units.
    ///
    /// ```
    /// # use raidlab_units::ByteCount;
    /// let text = |bytes: u64| ByteCount(bytes).plain().to_string();
    /// assert_eq!([text(1 << 20), text(3 << 29), text(200_000_000)], ["1 MiB", "1536 MiB", "200 MB"]);
    /// assert_eq!([text(512), text(146_600_628), text(7_681_501_126_656)], ["512 B", "147 MB", "7.68 TB"]);
    /// ```
    pub fn plain(self) -> impl fmt::Display {
        Plain(self.0)
    }
}

struct Plain(u64);

impl Plain {
    /// How many of which binary unit, where that is exact and has no more than four digits.
    fn binary(&self) -> Option<(u64, &'static str)> {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let is_exact =
            |(unit, _): &&(u64, &str)| self.0.is_multiple_of(*unit) && (1..10_000).contains(&(self.0 / unit));
        UNITS.iter().find(is_exact).map(|(unit, name)| (self.0 / unit, *name))
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.binary() {
            Some((count, name)) => f.pad(&format!("{count} {name}")),
            None => Decimal(self.0).fmt(f),
        }
    }
}

struct Decimal(u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        let bytes = self.0 as f64;
        let text = match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
            Some((unit, name)) => format!("{} {name}", significant(bytes / unit)),
            None => format!("{} B", self.0),
        };
        f.pad(&text)
    }
}

impl ByteCount {
    /// The size as it is written where it is compared with `other`: with all its digits where both would read the same and are not.
    ///
    /// ```
    /// # use raidlab_units::ByteCount;
    /// let (needed, found) = (ByteCount(35_688_448), ByteCount(35_684_352));
    /// assert_eq!(found.beside(&needed).to_string(), "34.0 MiB (35684352 bytes)");
    /// assert_eq!(found.beside(&ByteCount::from_mib(40)).to_string(), "34.0 MiB");
    /// ```
    pub fn beside(self, other: &Self) -> Beside {
        Beside { size: self, reads_alike: self != *other && self.to_string() == other.to_string() }
    }

    /// Both sizes in the kind of unit that people gave them in: as [`ByteCount::beside`] has them where one is whole in a binary unit, else
    /// decimal.
    ///
    /// ```
    /// # use raidlab_units::ByteCount;
    /// let terabytes = |count: u64| ByteCount(count * 1_000_000_000_000);
    /// assert_eq!(terabytes(500).with(terabytes(2)), ["500 TB", "2.00 TB"]);
    /// assert_eq!(terabytes(500).with(ByteCount::from_gib(2048)), ["455 TiB", "2 TiB"]);
    /// assert_eq!(ByteCount(2_000_000_001).with(ByteCount(2_000_000_000))[0], "2.00 GB (2000000001 bytes)");
    /// ```
    pub fn with(self, other: Self) -> [String; 2] {
        if [self, other].iter().any(|size| Plain(size.0).binary().is_some()) {
            return [self.beside(&other).to_string(), other.beside(&self).to_string()];
        }
        let texts = [self, other].map(|size| size.decimal().to_string());
        if self == other || texts[0] != texts[1] {
            return texts;
        }
        [self, other].map(|size| format!("{} ({} bytes)", size.decimal(), size.0))
    }
}

/// A size in a text that compares it with another; see [`ByteCount::beside`].
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    size: ByteCount,
    reads_alike: bool,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, reads_alike } = *self;
        if reads_alike { write!(f, "{size} ({} bytes)", size.0) } else { size.fmt(f) }
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] =
            [(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let text = match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) if self.0.is_multiple_of(*unit) => format!("{} {name}", self.0 / unit),
            Some((unit, name)) => format!("{} {name}", significant(self.0 as f64 / *unit as f64)),
            None => format!("{} B", self.0),
        };
        f.pad(&text)
    }
}

/// Prints `value` with three significant figures, and whole above 100.
fn significant(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

impl Add for ByteCount {
    type Output = Self;
    #[inline]
    fn add(self, more: Self) -> Self {
        Self(self.0 + more.0)
    }
}

impl AddAssign for ByteCount {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.0 += more.0;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    #[inline]
    fn sub(self, less: Self) -> Self {
        Self(self.0 - less.0)
    }
}

const SCALES: &[Scale] = &[
    Scale { names: &["B"], factor: 1.0 },
    Scale { names: &["KiB", "K", "k"], factor: 1024.0 },
    Scale { names: &["MiB", "M"], factor: 1_048_576.0 },
    Scale { names: &["GiB", "G"], factor: 1_073_741_824.0 },
    Scale { names: &["TiB", "T"], factor: 1_099_511_627_776.0 },
    Scale { names: &["PiB", "P"], factor: 1_125_899_906_842_624.0 },
    Scale { names: &["kB", "KB"], factor: 1e3 },
    Scale { names: &["MB"], factor: 1e6 },
    Scale { names: &["GB"], factor: 1e9 },
    Scale { names: &["TB"], factor: 1e12 },
    Scale { names: &["PB"], factor: 1e15 },
];

impl FromStr for ByteCount {
    type Err = ParseUnitError;

    /// # Errors
    /// [`ParseUnitError`] for text without a number or unit, with an unknown unit, with a fraction of a byte, or out of range.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let read = parse_scaled(text, SCALES, ("a size such as 64KiB, 8GB or 512B", ["GB", "KiB"])).map(Self);
        read.map_err(|error| match error {
            ParseUnitError::NoUnit { text, example } => {
                let example = Self::written_in_bytes(&text).unwrap_or(example);
                ParseUnitError::NoUnit { text, example }
            }
            other => other,
        })
    }
}

impl ByteCount {
    /// How a number that was meant in bytes is written: one of whole sectors is.
    fn written_in_bytes(text: &str) -> Option<String> {
        let number = text.trim();
        let bytes = number.parse().ok().filter(|bytes: &u64| bytes.is_multiple_of(512))?;
        let plain = Self(bytes).plain().to_string();
        let larger =
            if plain.ends_with("iB") { format!(" or {}", plain.replace(' ', "")) } else { String::new() };
        Some(format!("{number}B{larger}"))
    }
}

impl From<u64> for ByteCount {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::parse::deserialize_number_or_text(deserializer, "a size in bytes, or text such as \"64KiB\"")
    }
}

/// The size of one block of an array in bytes: 512 or 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct BlockSize(u32);

/// A block size that is neither 512 nor 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block of {bytes} bytes is not supported: use 512 or 4096")]
pub struct BlockSizeError {
    /// What was asked for.
    pub bytes: u64,
}

impl BlockSize {
    /// 512 bytes, what the drives of the papers have.
    pub const B512: Self = Self(512);
    /// 4096 bytes, what a page cache and current drives have.
    pub const B4096: Self = Self(4096);

    /// Returns the block size of `bytes` bytes.
    ///
    /// # Errors
    /// [`BlockSizeError`] unless `bytes` is 512 or 4096.
    pub const fn new(bytes: u64) -> Result<Self, BlockSizeError> {
        match bytes {
            512 => Ok(Self::B512),
            4096 => Ok(Self::B4096),
            _ => Err(BlockSizeError { bytes }),
        }
    }

    /// Bytes in one block.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0 as u64
    }

    /// Bytes in `blocks` blocks.
    #[inline]
    pub const fn bytes_of(self, blocks: BlockCount) -> ByteCount {
        ByteCount(blocks.0 * self.0 as u64)
    }

    /// Whole blocks in `bytes`, or `None` when there would be a remainder.
    #[inline]
    pub const fn blocks_in(self, bytes: ByteCount) -> Option<BlockCount> {
        if bytes.0.is_multiple_of(self.0 as u64) { Some(BlockCount(bytes.0 / self.0 as u64)) } else { None }
    }
}

impl<'de> Deserialize<'de> for BlockSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = ByteCount::deserialize(deserializer)?;
        Self::new(bytes.0).map_err(serde::de::Error::custom)
    }
}
