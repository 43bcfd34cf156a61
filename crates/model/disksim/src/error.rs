//! Why a drive's files do not make a model.

use crate::syntax::SyntaxError;
use raidlab_hardware::TrackTableError;

/// Why the files of a drive make no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// A text is no parameter file.
    #[error("{file}: {error}")]
    Syntax {
        /// Which file.
        file: String,
        /// What is wrong with it.
        error: SyntaxError,
    },
    /// A block that must be there is not.
    #[error("{file}: there is no {block} block")]
    NoBlock {
        /// Which file.
        file: String,
        /// Type of the block.
        block: &'static str,
    },
    /// A file that another one names can't be found.
    #[error("{file}, which {named_by} names, is not there")]
    NoFile {
        /// Which file.
        file: String,
        /// Who names it.
        named_by: String,
    },
    /// A key that must be there is not.
    #[error("{file}: the {block} block in line {line} has no '{key}'")]
    NoKey {
        /// Which file.
        file: String,
        /// Type of the block.
        block: String,
        /// Where it begins.
        line: u32,
        /// The key.
        key: &'static str,
    },
    /// A value that can't be.
    #[error("{file}, line {line}: '{key}' must be {wanted}")]
    BadValue {
        /// Which file.
        file: String,
        /// Where.
        line: u32,
        /// The key.
        key: String,
        /// What it may be.
        wanted: String,
    },
    /// A seek curve without points, or with a line that is none.
    #[error(
        "{file}, line {line}: a seek curve has lines of a distance in cylinders and a time in milliseconds"
    )]
    BadSeekCurve {
        /// Which file.
        file: String,
        /// Where.
        line: u32,
    },
    /// Something that this importer has no model for.
    #[error("{file}, line {line}: {what}")]
    Unsupported {
        /// Which file.
        file: String,
        /// Where.
        line: u32,
        /// What it is, and what would do instead.
        what: String,
    },
    /// The layout contradicts itself.
    #[error("{file}: the layout makes no drive: {error}")]
    Layout {
        /// Which file.
        file: String,
        /// How.
        error: TrackTableError,
    },
}

/// Why the files of a drive make no model: at least one reason, the first of each part of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n    "))]
pub struct ImportErrors(pub Vec<ImportError>);

impl From<ImportError> for ImportErrors {
    fn from(error: ImportError) -> Self {
        Self(vec![error])
    }
}
