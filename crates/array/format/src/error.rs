//! Why bytes are invalid.

use crate::identity::ArrayUuid;
use core::fmt;
use raidlab_raid::{LayoutError, ParseLevelError};

/// Which of the structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// [`crate::Label`].
    Label,
    /// [`crate::Unfinished`].
    Unfinished,
    /// [`crate::ArrayState`].
    State,
    /// A sector of a [`crate::RegionMap`].
    BitmapSector,
    /// A sector of a [`crate::WrittenMap`].
    WrittenSector,
    /// [`crate::LogHeader`].
    LogHeader,
    /// [`crate::NvramLabel`].
    NvramLabel,
    /// [`crate::NvramFileHeader`].
    NvramFile,
}

impl Part {
    /// The eight bytes that the structure begins with.
    pub const fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Label => b"RAIDLBL\n",
            Self::Unfinished => b"RAIDNEW\n",
            Self::State => b"RAIDSTA\n",
            Self::BitmapSector => b"RAIDMAP\n",
            Self::WrittenSector => b"RAIDWRT\n",
            Self::LogHeader => b"RAIDLOG\n",
            Self::NvramLabel => b"RAIDKEP\n",
            Self::NvramFile => b"RAIDMEM\n",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Label => "the label",
            Self::Unfinished => "the mark of an unfinished array",
            Self::State => "the array state",
            Self::BitmapSector => "the bitmap sector",
            Self::WrittenSector => "the sector of written regions",
            Self::LogHeader => "the log header",
            Self::NvramLabel => "the label of NVRAM",
            Self::NvramFile => "the header of an NVRAM file",
        })
    }
}

/// Why bytes are not a structure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the structure does.
    #[error("{part} needs {needed} bytes and {found} are there")]
    TooShort {
        /// Of what.
        part: Part,
        /// Its length in bytes.
        needed: u64,
        /// What is there, in bytes.
        found: u64,
    },
    /// Something else stands there.
    #[error("{part} is not there: the bytes at its place begin with something else")]
    BadMagic {
        /// What was looked for.
        part: Part,
    },
    /// The bytes were changed, or written in part only.
    #[error("{part} is damaged: its checksum is {stored:#010x} and its bytes give {computed:#010x}")]
    Checksum {
        /// Of what.
        part: Part,
        /// What it says.
        stored: u32,
        /// What it should say.
        computed: u32,
    },
    /// Written by a newer raidlab.
    #[error(
        "{part} has version {found} and this raidlab knows {known}: use the raidlab that wrote it, or a \
         newer one"
    )]
    UnknownVersion {
        /// Of what.
        part: Part,
        /// Its version.
        found: u16,
        /// The newest version that is understood.
        known: u16,
    },
    /// Bytes that should mean nothing do.
    #[error("{part} has something at byte {offset}, where nothing should be")]
    NotZero {
        /// Of what.
        part: Part,
        /// Where, in bytes from its start.
        offset: u64,
    },
    /// Sound, and of another array.
    #[error("{part} belongs to array {found}")]
    OtherArray {
        /// Of what.
        part: Part,
        /// The array that it names.
        found: ArrayUuid,
    },
    /// The checksum is right and a value is not possible.
    #[error("{part} can't be: {problem}")]
    Impossible {
        /// Of what.
        part: Part,
        /// What can't be.
        problem: Problem,
    },
}

impl DecodeError {
    pub(crate) fn field(part: Part, field: &'static str, value: u64, allowed: &'static str) -> Self {
        Self::Impossible { part, problem: Problem::Field { field, value, allowed } }
    }
}

/// A value that no array has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A number out of range.
    #[error("{field} is {value}; it must be {allowed}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What would have been right.
        allowed: &'static str,
    },
    /// The name is not UTF-8, or has control characters.
    #[error("the array's name is no text")]
    Name,
    /// The level's text is not UTF-8.
    #[error("the level's text is not UTF-8")]
    LevelText,
    /// The level's text names no level.
    #[error(transparent)]
    Level(#[from] ParseLevelError),
    /// The level's text is not the one that the level prints as.
    #[error("the level is written '{found}' and not '{written}'")]
    LevelSpelling {
        /// What is there.
        found: String,
        /// What raidlab would have written.
        written: String,
    },
    /// The level does not allow the geometry.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A device plays a role, or does not, against its state.
    #[error("device {device} is {state} with role {role:?}; {rule}")]
    Role {
        /// Which device.
        device: u16,
        /// Its state.
        state: &'static str,
        /// Its role.
        role: Option<u16>,
        /// What would have been right.
        rule: &'static str,
    },
}
