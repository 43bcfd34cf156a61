//! Errors of the facade as an exception of Python, with the text of the command line.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raidlab::{ArrayFile, ArrayFileError, ConfigError};
use std::fmt::Display;

pyo3::create_exception!(
    _raidlab,
    RaidlabError,
    PyValueError,
    "What was asked can't be; the text is that of the command line."
);

/// What was said of input, as it is.
pub(crate) fn refused(error: impl Display) -> PyErr {
    RaidlabError::new_err(error.to_string())
}

/// What was said of an array that Python describes, with its arguments in place of the keys of files.
pub(crate) fn refused_array(error: &ArrayFileError, file: &ArrayFile) -> String {
    let text = error.to_string();
    let quoted = |name: &str, value: &str| format!("{name}='{value}': ");
    match error {
        ArrayFileError::UnknownParts(_) => {
            let parts = [
                ("drive", Some(&file.drive)),
                ("controller", Some(&file.controller)),
                ("enclosure", file.enclosure.as_ref()),
            ];
            let of = |(what, id): &(&str, Option<&String>)| {
                id.is_some_and(|id| text.contains(&format!("there is no {what} '{id}'")))
            };
            let unknown: Vec<_> = parts.into_iter().filter(of).collect();
            let names: Vec<String> = unknown
                .iter()
                .map(|(what, id)| format!("{what}='{}'", id.map_or("", String::as_str)))
                .collect();
            let lists: Vec<String> =
                unknown.iter().map(|(what, _)| format!("raidlab.Catalog().{what}s")).collect();
            format!("{}: {text}; {} has those there are", names.join(", "), lists.join(", "))
        }
        ArrayFileError::Impossible { members, source, .. } => {
            let argument = match source {
                ConfigError::FlushMarks { .. } | ConfigError::FlushDepth | ConfigError::CacheBlock { .. } => {
                    "cache".to_owned()
                }
                ConfigError::CacheTooLarge { .. } | ConfigError::CacheTooSmall { .. } => {
                    "cache_size".to_owned()
                }
                ConfigError::Strip { .. } => "strip".to_owned(),
                ConfigError::LogTooSmall { .. }
                | ConfigError::TooManySpares { .. }
                | ConfigError::ScanDepth => "resilience".to_owned(),
                _ => format!("members={members}"),
            };
            format!("{argument}: {text}")
        }
        ArrayFileError::Controllers(_) => {
            const NAMES: [(&str, &str); 5] = [
                ("[controllers]: ", ""),
                ("write count = ", "write controllers="),
                ("count = ", "controllers="),
                ("volumes = ", "volumes="),
                ("fail-after", "fail_after"),
            ];
            let text = NAMES.iter().fold(text, |text, (key, name)| text.replace(key, name));
            match text.split_once(": give ") {
                Some((what, give)) => format!(
                    "controllers: {what}: write the array as a file for Array.from_toml, and give {give}"
                ),
                None => text,
            }
        }
        ArrayFileError::Condition(_) | ArrayFileError::NoCondition(_) => match (file.fill, &file.condition) {
            (Some(fill), _) => format!("fill={fill}: {text}"),
            (None, Some(condition)) => quoted("condition", &condition.to_string()) + &text,
            (None, None) => text,
        },
        ArrayFileError::Region(_) => {
            let region = file.region.map_or_else(String::new, |region| region.plain().to_string());
            quoted("region", &region) + &text
        }
        ArrayFileError::Misfit { .. } => format!("enclosure: {text}"),
        _ => text,
    }
}

/// The same, of an argument and its value.
pub(crate) fn refused_argument(name: &str, value: impl Display, error: impl Display) -> PyErr {
    RaidlabError::new_err(format!("{name}={}: {error}", shortened(&value.to_string())))
}

/// The longest value that is printed whole, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// A value as it is, or its beginning.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}
