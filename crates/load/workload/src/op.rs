//! Kinds of requests, and sets of them.
//!
//! ```text
//! read, write                  move bytes                                  the figures of a run, and their total
//! trim, write of zeroes        change a range without moving its bytes     separate figures
//! flush                        has no range                                separate figures
//! ```
//! Source: `NVMe` base specification, "Dataset Management", "Write Zeroes" and "Flush"; fsync(2) for the two kinds of flush.

use std::fmt;

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// From storage.
    Read,
    /// To storage.
    Write,
    /// All writes that have ended are to survive power loss, and all that is known of the file beside them (`fsync`).
    Flush,
    /// The same of the data, and of what is needed to read them back (`fdatasync`); what devices call a flush.
    FlushData,
    /// The range is no longer needed: it may read as anything.
    Trim,
    /// The range reads as zeroes.
    WriteZeroes,
}

impl IoOp {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::FlushData, Self::Trim, Self::WriteZeroes];

    /// The word for it in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush | Self::FlushData => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write of zeroes",
        }
    }

    /// Whether bytes go from or to a buffer.
    #[inline]
    pub const fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether it is a flush, which has no range.
    #[inline]
    pub const fn is_flush(self) -> bool {
        matches!(self, Self::Flush | Self::FlushData)
    }

    /// Whether other data may be read from its range afterwards.
    pub const fn changes_data(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// What a workload asks for, or what a target can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpSet(u8);

impl OpSet {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Reads and writes.
    pub const TRANSFERS: Self = Self::NONE.with(IoOp::Read).with(IoOp::Write);
    /// Both kinds of flush.
    pub const FLUSHES: Self = Self::NONE.with(IoOp::Flush).with(IoOp::FlushData);
    /// What arrays are asked for: reads, writes and flushes.
    pub const OF_ARRAYS: Self = Self::TRANSFERS.and(Self::FLUSHES);
    /// All there is.
    pub const ALL: Self = Self::TRANSFERS.and(Self::FLUSHES).with(IoOp::Trim).with(IoOp::WriteZeroes);

    /// Returns the same set and `op`.
    #[must_use]
    pub const fn with(self, op: IoOp) -> Self {
        Self(self.0 | 1 << op as u8)
    }

    /// Returns the same set, and `op` if `is_in`.
    #[must_use]
    pub const fn with_if(self, op: IoOp, is_in: bool) -> Self {
        if is_in { self.with(op) } else { self }
    }

    /// Returns what is in either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is in this one and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `op` is in it.
    pub const fn has(self, op: IoOp) -> bool {
        self.0 & 1 << op as u8 != 0
    }

    /// Whether anything is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All that is in it.
    pub fn iter(self) -> impl Iterator<Item = IoOp> {
        IoOp::ALL.into_iter().filter(move |op| self.has(*op))
    }
}

impl fmt::Display for OpSet {
    /// `flushes and trims`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |op: IoOp| match op {
            IoOp::Read => "reads",
            IoOp::Write => "writes",
            IoOp::Flush | IoOp::FlushData => "flushes",
            IoOp::Trim => "trims",
            IoOp::WriteZeroes => "writes of zeroes",
        };
        let mut words: Vec<&str> = self.iter().map(plural).collect();
        words.dedup();
        match words.split_last() {
            None => f.write_str("nothing"),
            Some((last, [])) => f.write_str(last),
            Some((last, before)) => write!(f, "{} and {last}", before.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set = OpSet::NONE.with(IoOp::Trim).with_if(IoOp::Read, false).with_if(IoOp::Flush, true);
        assert!(set.iter().eq([IoOp::Flush, IoOp::Trim]));
        assert!(OpSet::ALL.iter().eq(IoOp::ALL));
        assert!(
            OpSet::ALL.without(OpSet::FLUSHES).without(OpSet::TRANSFERS).iter().eq(IoOp::ALL[4..].to_vec())
        );
        assert!(OpSet::NONE.is_empty() && !set.is_empty());
        let words = [OpSet::NONE, OpSet::FLUSHES, set, OpSet::ALL].map(|set| set.to_string());
        let all = "reads, writes, flushes, trims and writes of zeroes";
        assert_eq!(words, ["nothing", "flushes", "flushes and trims", all]);
    }

    #[test]
    fn what_an_operation_does_is_one_thing() {
        for op in IoOp::ALL {
            assert!(!(op.is_flush() && (op.moves_bytes() || op.changes_data())), "{op:?}");
            assert!(op == IoOp::Read || op.is_flush() || op.changes_data(), "{op:?}");
        }
    }
}
