//! Programs on files as pure state machines: what a process calls next, given how its last call ended.
//!
//! ```text
//!  world ── poll_step(process, time) ──► Program ──► Call(FileCall) | Wait | Finished
//!        ── handle_return(process, time, bytes) ─►
//! ```
//! A program is one or more processes with something in common (Bonnie's parent and its seekers, a set of readers). It
//! names files by number; the world decides where they are, and whether they are real. A waiting process is asked again
//! when another process of the program waits or finishes.
//!
//! Invariant: a process has at most one call under way.

mod bonnie;
mod many_files;
mod readers;
mod streams;

pub use bonnie::{BonnieConfig, BonnieError, BonniePhase, BonnieProgram, PhaseFigures, WriteEnding};
pub use many_files::{ManyFiles, ManyFilesConfig, ManyFilesPhase};
pub use readers::{LoadWindow, ReaderFigures, Readers, ReadersConfig, ReadersError};
pub use streams::{ColdFacts, StreamFigures, StreamsFigures};

use raidlab_units::{NanoSpan, Nanos};

/// Names a file of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

impl FileCall {
    /// Whether it moves data: a world need not read a processor's clock after each of these.
    pub const fn moves_data(self) -> bool {
        let is_read = matches!(self, Self::Read { .. } | Self::ReadAt { .. } | Self::GetChars { .. });
        is_read || self.writes()
    }

    /// Whether it writes to a file.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteAt { .. } | Self::PutChars { .. })
    }
}

/// What a process asks of its host. Every file has a position for each process that has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// Opens a file at its start; `create` takes away what was there and makes it anew.
    Open {
        /// Which.
        file: FileId,
        /// Whether it is made anew.
        create: bool,
    },
    /// Closes it.
    Close {
        /// Which.
        file: FileId,
    },
    /// Moves the position to the byte `offset`.
    Seek {
        /// Which.
        file: FileId,
        /// From the file's start.
        offset: u64,
    },
    /// `read` of so many bytes at the position.
    Read {
        /// Which.
        file: FileId,
        /// How many at most.
        bytes: u64,
    },
    /// `write` of so many bytes at the position.
    Write {
        /// Which.
        file: FileId,
        /// How many.
        bytes: u64,
    },
    /// `pread` of so many bytes at `offset`, which leaves the position behind what was read.
    ReadAt {
        /// Which.
        file: FileId,
        /// From the file's start.
        offset: u64,
        /// How many at most.
        bytes: u64,
    },
    /// `pwrite` of so many bytes at `offset`, which leaves the position behind what was written.
    WriteAt {
        /// Which.
        file: FileId,
        /// From the file's start.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// So many characters by `getc`.
    GetChars {
        /// Which.
        file: FileId,
        /// How many at most.
        bytes: u64,
    },
    /// So many characters by `putc`.
    PutChars {
        /// Which.
        file: FileId,
        /// How many.
        bytes: u64,
    },
    /// Waits until all of the file is on its volume.
    Sync {
        /// Which.
        file: FileId,
    },
    /// Looks at it without opening it.
    Stat {
        /// Which.
        file: FileId,
    },
    /// Takes it away.
    Delete {
        /// Which.
        file: FileId,
    },
    /// Sleeps.
    Sleep {
        /// How long.
        span: NanoSpan,
    },
}

/// When a process is asked, and what it has cost by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTime {
    /// The time.
    pub now: Nanos,
    /// Processor time of the process so far; a world may leave out what calls have cost that moved data, until the next one
    /// that did not.
    pub cpu: NanoSpan,
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramStep {
    /// This call.
    Call(FileCall),
    /// Nothing, until another process waits or finishes.
    Wait,
    /// Nothing any more.
    Finished,
}

/// Processes that do file calls.
pub trait Program {
    /// How many processes there are.
    fn process_count(&self) -> u32;

    /// What `process` does next; not asked while a call of it is under way.
    fn poll_step(&mut self, process: u32, time: ProcessTime) -> ProgramStep;

    /// The call of `process` has ended and moved so many bytes: fewer than asked for at the end of a file.
    fn handle_return(&mut self, process: u32, time: ProcessTime, bytes: u64);

    /// When processes that wait have something to do even if no other one waits or finishes before. Only virtual time looks.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
