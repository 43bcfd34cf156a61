//! Errors of the facade as an exception of Python, with the text of the command line and the arguments of Python.
//!
//! One rule turns options into arguments wherever a text reaches Python ([`in_python`]): `with --run` becomes `with run=`, `--ramp 0s`
//! becomes `ramp='0s'`. Options that no function takes stay as they are: they are those of `raidlab measure` and the other verbs, which
//! made the runs of a results file.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raidlab::{ArrayFileError, ConfigError};
use raidlab_raid::LayoutError;
use raidlab_report::shortened;
use serde_json::{Map, Value};
use std::fmt::Display;

/// Arguments of Python that are options of the command line, with dashes there.
const ARGUMENTS: [&str; 27] = [
    "cache_size",
    "catalog",
    "condition",
    "controller",
    "controllers",
    "db",
    "disk_cache",
    "drive",
    "enclosure",
    "env",
    "fill",
    "io_policy",
    "iodepth",
    "level",
    "members",
    "metadata",
    "ramp",
    "read_policy",
    "region",
    "run",
    "seed",
    "set",
    "strip",
    "threads",
    "volumes",
    "workload",
    "write_policy",
];

pyo3::create_exception!(
    _raidlab,
    RaidlabError,
    PyValueError,
    "What was asked can't be; the text is that of the command line."
);

/// What was said of input, with the arguments of Python.
pub(crate) fn refused(error: impl Display) -> PyErr {
    RaidlabError::new_err(in_python(&error.to_string()))
}

/// `text` with arguments in place of the options that they are.
pub(crate) fn in_python(text: &str) -> String {
    let (mut told, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("--") {
        told += before;
        let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
        let (option, behind) = after.split_at(after.find(|c| !is_word(c)).unwrap_or(after.len()));
        let argument = option.replace('-', "_");
        let is_alone = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        rest = if is_alone && ARGUMENTS.contains(&argument.as_str()) {
            told += &argument;
            told.push('=');
            with_value(behind, &mut told)
        } else {
            told += "--";
            told += option;
            behind
        };
    }
    told + rest
}

/// Appends the value that an option has, if `behind` begins with one, and returns what follows: a value begins with a digit.
fn with_value<'a>(behind: &'a str, told: &mut String) -> &'a str {
    let given =
        behind.strip_prefix([' ', '=']).filter(|value| value.starts_with(|c: char| c.is_ascii_digit()));
    let Some(given) = given else { return behind };
    let end = given.find(|c: char| !(c.is_alphanumeric() || ",.".contains(c))).unwrap_or(given.len());
    let value = given[..end].trim_end_matches(['.', ',']);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let quote = if is_number { "" } else { "'" };
    told.extend([quote, value, quote]);
    &given[value.len()..]
}

/// What was said of an array that Python describes with the arguments `given`, which stand in place of the keys of files.
pub(crate) fn refused_array(error: &ArrayFileError, given: &Map<String, Value>) -> String {
    let text = error.to_string();
    match error {
        ArrayFileError::UnknownParts(_) => {
            let is_unknown = |what: &&str| {
                let id = given.get(*what).and_then(Value::as_str);
                id.is_some_and(|id| text.contains(&format!("there is no {what} '{id}'")))
            };
            let unknown: Vec<_> =
                ["drive", "controller", "enclosure"].into_iter().filter(is_unknown).collect();
            let names: Vec<String> = unknown.iter().map(|what| named(&[what], given)).collect();
            let lists: Vec<String> =
                unknown.iter().map(|what| format!("raidlab.Catalog().{what}s")).collect();
            format!("{}: {text}; {} has those there are", names.join(", "), lists.join(", "))
        }
        ArrayFileError::Impossible { source, .. } => {
            format!("{}: {text}", named(arguments_of(source), given))
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
                    "{}: {what}: write the array as a file for Array.from_toml, and give {give}",
                    named(&["controllers"], given)
                ),
                None => text,
            }
        }
        ArrayFileError::Condition(_) | ArrayFileError::NoCondition(_) => {
            format!("{}: {text}", named(&["fill", "condition"], given))
        }
        ArrayFileError::Region(_) => format!("{}: {text}", named(&["region"], given)),
        ArrayFileError::Misfit { .. } => format!("{}: {text}", named(&["enclosure"], given)),
        _ => text,
    }
}

/// The same of a configuration that can't be.
pub(crate) fn refused_config(error: &ConfigError, given: &Map<String, Value>) -> PyErr {
    refused(format_args!("{}: {error}", named(arguments_of(error), given)))
}

/// The arguments that a configuration can't be for.
fn arguments_of(error: &ConfigError) -> &'static [&'static str] {
    match error {
        ConfigError::FlushMarks { .. } | ConfigError::FlushDepth | ConfigError::CacheBlock { .. } => {
            &["cache"]
        }
        ConfigError::CacheTooLarge { .. } | ConfigError::CacheTooSmall { .. } => &["cache_size", "cache"],
        ConfigError::Strip { .. }
        | ConfigError::StagingTooSmall { .. }
        | ConfigError::Layout(LayoutError::EmptyStrip | LayoutError::Row { .. }) => &["strip"],
        ConfigError::MemberSize { .. } => &["member_size"],
        ConfigError::WriteLog { .. } => &["metadata", "resilience"],
        ConfigError::LogTooSmall { .. } | ConfigError::TooManySpares { .. } | ConfigError::ScanDepth => {
            &["resilience"]
        }
        ConfigError::Layout(LayoutError::MemberTooSmall { .. }) => &["member_size", "strip"],
        ConfigError::Layout(_) => &["members"],
    }
}

/// The first of `arguments` that was given, with its value; else the first.
fn named(arguments: &[&str], given: &Map<String, Value>) -> String {
    let value = |argument: &&str| given.get(*argument).map(|value| (argument.to_string(), value));
    match arguments.iter().find_map(value) {
        Some((argument, value)) => format!("{argument}={}", shortened(&written(value), VALUE_CHARS_MAX)),
        None => arguments[0].to_owned(),
    }
}

/// A value as Python writes it.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Null => "None".into(),
        Value::Number(number) => number.to_string(),
        Value::Array(values) => format!("[{}]", values.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(of_keys) => {
            let items: Vec<_> =
                of_keys.iter().map(|(key, value)| format!("'{key}': {}", written(value))).collect();
            format!("{{{}}}", items.join(", "))
        }
    }
}

/// The same, of an argument and its value.
pub(crate) fn refused_argument(name: &str, value: impl Display, error: impl Display) -> PyErr {
    RaidlabError::new_err(format!(
        "{name}={}: {}",
        shortened(&value.to_string(), VALUE_CHARS_MAX),
        in_python(&error.to_string())
    ))
}

/// The longest value that is printed whole, in characters.
const VALUE_CHARS_MAX: usize = 200;
