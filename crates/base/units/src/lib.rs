//! Newtypes for the quantities of storage: addresses, lengths, sizes, times and rates.
//!
//! ```
//! use raidlab_units::{BlockCount, ByteCount, Lba};
//!
//! let strip: ByteCount = "64KiB".parse()?;
//! assert_eq!(strip.to_string(), "64 KiB");
//! // A position and a length make a position; two positions make no sum.
//! assert_eq!(Lba(8) + BlockCount(4), Lba(12));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two numbers that could be swapped by mistake have two types. A position is never a length:
//! [`Lba`] and [`MemberLba`] are positions, [`BlockCount`] and [`ByteCount`] are lengths, [`Nanos`] is an
//! instant on some clock and [`NanoSpan`] is a time between two instants.
//!
//! Core crates count in bytes, blocks and nanoseconds only; text such as `64KiB`, `20TB` or `20ms` is
//! parsed and printed here, at the edge. `KiB` is 1024 bytes, `kB` is 1000 (IEC 80000-13).
#![forbid(unsafe_code)]

mod address;
mod bytes;
mod digits;
mod named;
mod parse;
mod rate;
mod time;

pub use address::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};
pub use bytes::{Beside, BlockSize, BlockSizeError, ByteCount};
pub use digits::{counted, greatest_divisor, three_digits};
pub use parse::ParseUnitError;
pub use rate::{BytesPerSec, Iops};
pub use time::{NanoSpan, Nanos};
