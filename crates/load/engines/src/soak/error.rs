//! Why a soak can't begin or go on.

use crate::error::LoadError;
use raidlab_units::ByteCount;
use std::io;
use std::path::PathBuf;

/// Why a soak can't begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoakError {
    /// The target can't be opened, laid out or written.
    #[error(transparent)]
    Target(#[from] LoadError),
    /// There is no file, and no size for one.
    #[error("'{}' does not exist: give --size to have a file laid out there", .path.display())]
    NoFile {
        /// Which.
        path: PathBuf,
    },
    /// Reads are not a whole number of blocks, or longer than the target.
    #[error(
        "'{}' can't be read {chunk} at a time: that must be a multiple of its block size of {block_bytes} bytes, and of 512 \
         bytes, and no more than 1 GiB",
        .path.display()
    )]
    Chunk {
        /// Which target.
        path: PathBuf,
        /// Asked for.
        chunk: ByteCount,
        /// Of the target.
        block_bytes: u32,
    },
    /// A record can't be read or kept.
    #[error("cannot {op} the soak's record '{}': {source}", .path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// A record makes no sense.
    #[error("'{}' is no record of a soak: {reason}; take it away to begin anew", .path.display())]
    BadRecord {
        /// The record.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A record is that of something else.
    #[error(
        "the record '{}' is of {} in reads of {was_chunk}; '{}' has {}, to be read {is_chunk} at a time: take the record \
         away to begin anew, or soak as before",
        .record.display(), .was.beside(is), .path.display(), .is.beside(was)
    )]
    OtherTarget {
        /// The record.
        record: PathBuf,
        /// The target.
        path: PathBuf,
        /// Size that the record has.
        was: ByteCount,
        /// Reads that the record has.
        was_chunk: ByteCount,
        /// Size of the target.
        is: ByteCount,
        /// Reads asked for.
        is_chunk: ByteCount,
    },
    /// The command that cuts the power failed.
    #[error("the command that cuts the power, '{command}', failed: {reason}")]
    PowerCut {
        /// The command.
        command: String,
        /// How it ended, or why it did not begin.
        reason: String,
    },
    /// Data that was there before is not written over pass by pass.
    #[error(
        "'{}' holds data that no soak has written; --rewrite needs --write, which replaces them, to begin with",
        .path.display()
    )]
    NotOurs {
        /// Which target.
        path: PathBuf,
    },
}
