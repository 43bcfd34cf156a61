//! What a request does and how it can fail, in terms shared by both sides.

use crate::wire::command;
use core::fmt;

/// What a request does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Return the bytes.
    Read,
    /// Replace the bytes.
    Write {
        /// Acknowledged only when it would survive power loss.
        fua: bool,
    },
    /// Make the bytes zero.
    WriteZeroes {
        /// Acknowledged only when it would survive power loss.
        fua: bool,
        /// The range must stay allocated.
        no_hole: bool,
    },
    /// The bytes are no longer needed: a hint.
    Trim {
        /// What the hint did is acknowledged only when it would survive power loss.
        fua: bool,
    },
    /// Make later reads of the range fast: a hint.
    Cache,
    /// Make all that was acknowledged survive power loss. Has no range.
    Flush,
}

impl Op {
    /// Returns whether the bytes may be other ones afterwards.
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteZeroes { .. } | Self::Trim { .. })
    }

    /// Returns whether it is acknowledged only when it would survive power loss.
    pub const fn is_fua(self) -> bool {
        match self {
            Self::Write { fua } | Self::WriteZeroes { fua, .. } | Self::Trim { fua } => fua,
            Self::Read | Self::Cache | Self::Flush => false,
        }
    }

    /// Returns whether a few bytes can ask for much: the bytes that it works on are not sent.
    pub(crate) const fn is_bulk(self) -> bool {
        matches!(self, Self::WriteZeroes { .. } | Self::Cache)
    }

    pub(crate) const fn command(self) -> u16 {
        match self {
            Self::Read => command::READ,
            Self::Write { .. } => command::WRITE,
            Self::WriteZeroes { .. } => command::WRITE_ZEROES,
            Self::Trim { .. } => command::TRIM,
            Self::Cache => command::CACHE,
            Self::Flush => command::FLUSH,
        }
    }
}

/// Why a request failed: the errors that may stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errno {
    /// `NBD_EPERM`: a change on a read-only export.
    NotPermitted,
    /// `NBD_EIO`.
    Io,
    /// `NBD_ENOMEM`.
    NoMemory,
    /// `NBD_EINVAL`.
    Invalid,
    /// `NBD_ENOSPC`: no room, or a write past the end.
    NoSpace,
    /// `NBD_EOVERFLOW`: too long to be done at once.
    TooLong,
    /// `NBD_ENOTSUP`.
    NotSupported,
    /// `NBD_ESHUTDOWN`: the server is about to stop.
    ShuttingDown,
}

impl Errno {
    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::TooLong => 75,
            Self::NotSupported => 95,
            Self::ShuttingDown => 108,
        }
    }

    /// Returns the error of a number other than 0; an unexpected one counts as [`Errno::Invalid`], as the document
    /// asks.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::TooLong,
            95 => Self::NotSupported,
            108 => Self::ShuttingDown,
            _ => Self::Invalid,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotPermitted => "operation not permitted",
            Self::Io => "input/output error",
            Self::NoMemory => "out of memory",
            Self::Invalid => "invalid argument",
            Self::NoSpace => "no space left",
            Self::TooLong => "value too large",
            Self::NotSupported => "operation not supported",
            Self::ShuttingDown => "the server is shutting down",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_back_and_unexpected_ones_are_invalid() {
        use Errno::{Invalid, Io, NoMemory, NoSpace, NotPermitted, NotSupported, ShuttingDown, TooLong};
        for errno in [NotPermitted, Io, NoMemory, Invalid, NoSpace, TooLong, NotSupported, ShuttingDown] {
            assert_eq!(Errno::from_number(errno.number()), errno);
        }
        assert_eq!(Errno::from_number(u32::MAX), Invalid);
    }
}
