//! Workload files: an access specification with its title, its source and its metric.
//!
//! The profiles of the published evaluations are in the folder `workloads/` as TOML and are built into the program, so
//! that their names work everywhere; a user's own file has the same form:
//! ```toml
//! schema = 1
//! name = "storagebench-database"
//! title = "Database"
//! source = "primergy-2008, StorageBench load profiles"
//! metric = "iops"                  # or "mb-per-s"
//!
//! [[line]]
//! size = "8KiB"
//! share_pct = 100
//! read_pct = 67
//! random_pct = 100
//! ```
//! A line may also set `delay` (default none), `burst` (default 1), `align` (default the size) and `reply` (default
//! none), as in Iometer. `block_sizes` lists the sizes at which a paper ran a profile of one size. `docs/workloads.md`
//! shows the rest by example (arrivals, limits, places, data, parts).

mod actors;
mod file;
mod write;

use crate::result::Metric;
use crate::spec::{AccessSpec, SpecError};
use crate::toml_file::{self, TomlFileError};
use file::WorkloadFile;

/// Keys whose values are times, which have a unit.
const TIMES: [&str; 16] = [
    "think",
    "delay",
    "after",
    "lasts",
    "every",
    "compute",
    "compute_deviation",
    "per_file",
    "per_sample",
    "per_step",
    "group",
    "day",
    "on",
    "off",
    "interval",
    "steps",
];

/// Tables of a part, which stand nowhere else.
const OF_PARTS: [&str; 6] = ["accelerator", "checkpoint", "log", "compaction", "cache", "phase"];

/// Version of the form of workload files.
const SCHEMA: u32 = 1;

/// A workload: what to ask, and how to judge the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// For people, in a few words.
    pub title: String,
    /// Where it is defined: a paper and the place in it.
    pub source: String,
    /// How it is judged.
    pub metric: Metric,
    /// What else to know; may be empty.
    pub notes: String,
    /// Sizes at which the source ran it, in bytes; empty when that is the one of its lines, or a mix.
    pub block_bytes_published: Vec<u32>,
    /// What it asks; carries the workload's name.
    pub spec: AccessSpec,
}

/// Why a name is no built-in workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The short name ends several names.
    #[error("workload '{name}' could be {}: write one of them in full", candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// The full names that it may stand for.
        candidates: Vec<String>,
    },
    /// No name is or ends with it.
    #[error("there is no workload '{name}'{} A file of one ends in .toml", did_you_mean(nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that may have been meant, nearest first.
        nearest: Vec<String>,
    },
}

impl Workload {
    /// What it asks for, in a few words: `random 67/33, 8 KiB`, or how many lines or parts a mix has.
    pub fn accesses(&self) -> String {
        match self.spec.lines.as_slice() {
            [] => match self.spec.parts.as_slice() {
                [one] => {
                    one.actor.as_ref().map_or_else(|| "1 part".to_owned(), |actor| actor.kind().to_owned())
                }
                parts => format!("{} parts", parts.len()),
            },
            [line] => line.in_words(),
            lines => format!("{} kinds of request", lines.len()),
        }
    }

    /// Reads the content `text` of the workload file called `file`.
    ///
    /// # Errors
    /// [`TomlFileError`] says what is wrong and where.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, TomlFileError> {
        let parsed: WorkloadFile = toml_file::parse(file, text, SCHEMA).map_err(|mut error| {
            if let TomlFileError::UnknownKey { key, nearest, known, .. } = &mut error
                && OF_PARTS.contains(&key.as_str())
                && known.iter().any(|known| known == "part")
            {
                *nearest = Some(format!("part.{key}"));
            }
            error
        })?;
        toml_file::check_times(file, text, &TIMES)?;
        parsed.workload().map_err(|message| TomlFileError::Invalid {
            file: file.into(),
            line: toml_file::line_of_message(text, "part", &message),
            key: None,
            message,
        })
    }

    /// The name, as in files, results and the published tables.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the same workload with I/Os of `bytes`.
    ///
    /// # Errors
    /// [`SpecError::MixedSizes`] when its lines differ in size.
    pub fn with_block_bytes(&self, bytes: u32) -> Result<Self, SpecError> {
        Ok(Self { spec: self.spec.with_block_bytes(bytes)?, ..self.clone() })
    }
}

/// The files of the folder `workloads/`, by name.
macro_rules! builtin_files {
    ($($name:literal),+ $(,)?) => {
        [$((
            concat!("workloads/", $name, ".toml"),
            include_str!(concat!("../workloads/", $name, ".toml")),
        )),+]
    };
}

const BUILTIN_FILES: [(&str, &str); 50] = builtin_files![
    "storagebench-streaming",
    "storagebench-restore",
    "storagebench-database",
    "storagebench-file-server",
    "storagebench-database-log",
    "storagebench-backup",
    "storagebench-video-streaming",
    "storagebench-web-server",
    "storagebench-operating-system",
    "storagebench-file-copy",
    "fastt600-oltp",
    "fastt600-streaming-read",
    "fastt600-streaming-write",
    "fastt600-file-server",
    "fastt600-web-server",
    "fastt600-random-read",
    "fastt600-random-write",
    "md1200-web-file-server",
    "md1200-oltp",
    "md1200-mail",
    "md1200-web-log",
    "md1200-sql-log",
    "md1200-video-on-demand",
    "md1200-decision-support",
    "md1200-streaming-media",
    "mlperf-unet3d-a100",
    "mlperf-unet3d-h100",
    "mlperf-resnet50-a100",
    "mlperf-resnet50-h100",
    "mlperf-cosmoflow-a100",
    "mlperf-cosmoflow-h100",
    "checkpoint-llama3-8b",
    "checkpoint-llama3-70b",
    "checkpoint-llama3-405b",
    "checkpoint-llama3-1t",
    "postgresql-pgbench",
    "mysql-innodb",
    "rocksdb-fill",
    "rocksdb-overwrite",
    "rocksdb-read-while-writing",
    "kafka-broker",
    "vm-boot",
    "vdi-steady",
    "mail-server",
    "backup-dedup",
    "object-store",
    "video-surveillance",
    "spc-like",
    "kv-cache",
    "vector-search",
];

/// The four `StorageBench` profiles have their short names to themselves, whatever else ends in them: they are what
/// studies run when nothing else is asked for.
/// The training workloads without an accelerator are those of the newest that they know.
const SHORT_NAMES: [(&str, &str); 7] = [
    ("mlperf-unet3d", "mlperf-unet3d-h100"),
    ("mlperf-resnet50", "mlperf-resnet50-h100"),
    ("mlperf-cosmoflow", "mlperf-cosmoflow-h100"),
    ("streaming", "storagebench-streaming"),
    ("restore", "storagebench-restore"),
    ("database", "storagebench-database"),
    ("file-server", "storagebench-file-server"),
];

/// How many names an error suggests at most, and how alike they must be, compared with the most alike.
const SUGGESTIONS: usize = 3;
const SUGGESTION_LIKENESS_MIN: f64 = 0.9;

/// Returns the built-in workloads: those of the published evaluations in the order of the papers' tables, then those of today.
pub fn builtin_workloads() -> Vec<Workload> {
    let read = |(file, text)| match Workload::from_toml(file, text) {
        Ok(workload) => workload,
        Err(error) => unreachable!("a built-in workload is wrong, which its test would have shown: {error}"),
    };
    BUILTIN_FILES.map(read).into()
}

/// Returns the built-in workload called `name`: its full name, the short name of a `StorageBench` profile
/// (`database`), or an ending that only one name has (`sql-log`).
///
/// # Errors
/// [`LookupError`] lists what may have been meant.
pub fn builtin_workload(name: &str) -> Result<Workload, LookupError> {
    let mut workloads = builtin_workloads();
    let names: Vec<&str> = workloads.iter().map(Workload::name).collect();
    let index = find_name(name, &names)?;
    Ok(workloads.swap_remove(index))
}

/// Returns the place in `names` that `name` stands for.
fn find_name(name: &str, names: &[&str]) -> Result<usize, LookupError> {
    let short = SHORT_NAMES.iter().find(|(short, _)| *short == name).map(|(_, full)| *full);
    let wanted = short.unwrap_or(name);
    if let Some(index) = names.iter().position(|full| *full == wanted) {
        return Ok(index);
    }
    let ending = format!("-{name}");
    let matches: Vec<usize> = (0..names.len()).filter(|&index| names[index].ends_with(&ending)).collect();
    match matches[..] {
        [index] => Ok(index),
        [] => Err(LookupError::Unknown { name: name.into(), nearest: nearest_names(name, names) }),
        _ => Err(LookupError::Ambiguous {
            name: name.into(),
            candidates: matches.iter().map(|&index| names[index].to_owned()).collect(),
        }),
    }
}

fn did_you_mean(names: &[String]) -> String {
    if names.is_empty() { ".".to_owned() } else { format!(", did you mean '{}'?", names.join("' or '")) }
}

/// The names that are like enough to `name` to be meant, most like it first; each is compared whole and without the suite it belongs to.
fn nearest_names(name: &str, names: &[&str]) -> Vec<String> {
    let likeness = |full: &str| {
        let short = full.split_once('-').map_or(full, |(_, short)| short);
        toml_file::likeness(name, full).max(toml_file::likeness(name, short))
    };
    let mut ranked: Vec<&str> = names.to_vec();
    ranked.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let best = ranked.first().map_or(0.0, |full| likeness(full));
    ranked.retain(|full| likeness(full) >= (SUGGESTION_LIKENESS_MIN * best).max(toml_file::LIKE_ENOUGH));
    ranked.truncate(SUGGESTIONS);
    ranked.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
