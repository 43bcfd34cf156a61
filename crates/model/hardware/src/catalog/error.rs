//! Errors of a catalogue, and of names looked up in it.

use crate::drive::NoCondition;

/// Why a catalogue can't be read, or does not hold a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Not TOML.
    #[error("{file}:{line}: this is not TOML: {message}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What the TOML parser says.
        message: String,
    },
    /// A condition for a drive that has none.
    #[error(transparent)]
    NoCondition(#[from] NoCondition),
    /// A controller on a host, where that would change nothing.
    #[error("controller '{controller}' can't be put on host '{host}': {reason}")]
    NotOnHost {
        /// Id of the controller.
        controller: String,
        /// Id of the host.
        host: String,
        /// Why not.
        reason: &'static str,
    },
    /// A key that nothing asks for.
    #[error("{file}:{line}: unknown key '{key}'{}", did_you_mean(nearest.as_ref()))]
    UnknownKey {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// The known key most like it.
        nearest: Option<String>,
    },
    /// A key that must be there is not.
    #[error("{file}:{line}: '{key}' is missing: add it, with {expected}{}", or_rename(misspelt.as_ref()))]
    MissingKey {
        /// Name of the file.
        file: String,
        /// Line of the section it belongs to, from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// What it should hold.
        expected: &'static str,
        /// A key of the section that may have been meant to be it, and its line.
        misspelt: Option<(String, usize)>,
    },
    /// A value of the wrong kind, or out of range.
    #[error("{file}:{line}: '{key}' must be {expected}")]
    BadValue {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A figure without a source.
    #[error(
        "{file}:{line}: the figure '{key}' has no source: write {key} = {{ value = ..., source = \"...\" }}, the source \
         being a name in [sources] or text that starts with 'data sheet:', 'paper:', 'fitted:' or 'estimated:'"
    )]
    NoSource {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The figure with its section.
        key: String,
    },
    /// A source that is neither a name in `[sources]` nor of a known kind.
    #[error(
        "{file}:{line}: the source '{source_text}' of '{key}' is neither a name in [sources] nor starts with \
         'data sheet:', 'paper:', 'fitted:' or 'estimated:' followed by text"
    )]
    BadSource {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The figure, or the name within `[sources]`.
        key: String,
        /// What was written.
        source_text: String,
    },
    /// Figures that contradict each other, so that no such thing can exist.
    #[error("{file}: {problem}")]
    Unsound {
        /// Name of the file.
        file: String,
        /// What contradicts what.
        problem: String,
    },
    /// Two entries of one kind have the same id.
    #[error("{file}: the id '{id}' is already in the catalogue: choose another")]
    DuplicateId {
        /// Name of the second file.
        file: String,
        /// The id.
        id: String,
    },
    /// No entry has this id.
    #[error("there is no {what} '{id}' in the catalogue{}", meant_or_known(nearest.as_ref(), known))]
    UnknownId {
        /// Drive, controller or enclosure.
        what: &'static str,
        /// What was looked up.
        id: String,
        /// The id most like it.
        nearest: Option<String>,
        /// All ids of that kind.
        known: Vec<String>,
    },
}

/// As many names are listed; more are no help.
const NAMES_MAX: usize = 50;

/// What was meant; what there is only where nothing is like it.
fn meant_or_known(nearest: Option<&String>, known: &[String]) -> String {
    match nearest {
        None if known.len() <= NAMES_MAX => format!("; it has: {}", known.join(", ")),
        _ => did_you_mean(nearest),
    }
}

fn did_you_mean(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

fn or_rename(misspelt: Option<&(String, usize)>) -> String {
    misspelt.map_or_else(String::new, |(key, line)| format!("; or is '{key}' in line {line} meant to be it?"))
}
