//! The record of a soaked target: a JSON file beside it, replaced as a whole.
//!
//! A record is written to a new file, made durable, and renamed over the old one, so there is always a whole one.
//! Digests of existing data are in a separate file (32 bytes for each chunk), which is written once, at the end of the
//! first pass.

use super::error::SoakError;
use super::health::SoakHealth;
use raidlab_verify::{SectorFault, error_rate_upper_bound};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Version of the record.
const SCHEMA: u32 = 1;
/// Faults that are noted one by one; all are counted.
const NOTES_MAX: usize = 1000;

/// What the target holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakContent {
    /// Stamped sectors of one write of one run.
    Stamped {
        /// The run.
        run: u64,
        /// The write.
        sequence: u64,
    },
    /// What was there before, of which digests are known.
    Digests,
}

/// What is being done to a target, from which byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakPhase {
    /// It is being written with what the content says.
    Writing {
        /// The first byte that is not written.
        next_byte: u64,
    },
    /// It is being read for the first time, for its digests.
    Digesting,
    /// It is being read and compared.
    Reading {
        /// The first byte that is not read.
        next_byte: u64,
    },
}

/// Faults by kind: sectors of 512 bytes, and reads where only digests are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FaultCounts {
    /// Bits have changed.
    pub changed: u64,
    /// Data of another place.
    pub wrong_place: u64,
    /// An older write: the last one is lost.
    pub old: u64,
    /// Something else.
    pub foreign: u64,
    /// Could not be read at all.
    pub unreadable: u64,
    /// Of all these, wrong in one read and right in the next.
    pub passing: u64,
}

impl FaultCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.changed + self.wrong_place + self.old + self.foreign + self.unreadable
    }
}

/// A fault that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FaultNote {
    /// When, in seconds of soaking.
    pub at_seconds: u64,
    /// In which pass, from 1.
    pub pass: u64,
    /// The first byte that is wrong, from the start of the target.
    pub byte: u64,
    /// What is wrong, in words.
    pub what: String,
    /// The next read of the same was right.
    pub passing: bool,
    /// It was seen in the reading that follows a power cut.
    #[serde(default)]
    pub after_power_cut: bool,
}

/// How a fault was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// The next read of the same was right.
    pub(crate) passing: bool,
    /// In the reading that follows a power cut.
    pub(crate) after_power_cut: bool,
}

/// All that is known of a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakRecord {
    /// Version.
    pub schema: u32,
    /// The target, as it was given.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Length of a read.
    pub chunk_bytes: u64,
    /// What it holds.
    pub content: SoakContent,
    /// What is being done.
    pub phase: SoakPhase,
    /// Passes that are over and were compared.
    pub passes: u64,
    /// Read and compared.
    pub bytes_read: u64,
    /// Written.
    pub bytes_written: u64,
    /// Time that was spent, in all soaks.
    pub seconds: f64,
    /// Faults by kind.
    pub faults: FaultCounts,
    /// Bits known to be wrong.
    pub bits_changed: u64,
    /// The first faults.
    pub notes: Vec<FaultNote>,
    /// Times that the power was cut.
    #[serde(default)]
    pub power_cuts: u64,
    /// What the drives said of themselves.
    #[serde(default)]
    pub health: SoakHealth,
}

impl SoakRecord {
    /// The record of a target of which nothing is known yet.
    pub(crate) fn new(
        path: &Path,
        bytes: u64,
        chunk_bytes: u64,
        content: SoakContent,
        phase: SoakPhase,
    ) -> Self {
        Self {
            schema: SCHEMA,
            path: path.into(),
            bytes,
            chunk_bytes,
            content,
            phase,
            passes: 0,
            bytes_read: 0,
            bytes_written: 0,
            seconds: 0.0,
            faults: FaultCounts::default(),
            bits_changed: 0,
            notes: Vec::new(),
            power_cuts: 0,
            health: SoakHealth::default(),
        }
    }

    /// Bits that were read and compared.
    pub fn bits_read(&self) -> u128 {
        8 * u128::from(self.bytes_read)
    }

    /// The upper bound on the rate of faults per bit at a `confidence` between 0 and 1; none before the first read.
    pub fn fault_rate_upper_bound(&self, confidence: f64) -> Option<f64> {
        error_rate_upper_bound(self.bits_read(), self.faults.total(), confidence)
    }

    /// Counts and notes a fault at `byte`.
    pub(crate) fn note(&mut self, byte: u64, what: &Fault, sight: Sight) {
        let count = match what {
            Fault::Sector(SectorFault::Changed { bits }) => {
                self.bits_changed += u64::from(*bits);
                &mut self.faults.changed
            }
            Fault::Digest => &mut self.faults.changed,
            Fault::Sector(SectorFault::WrongPlace { .. }) | Fault::OtherChunk { .. } => {
                &mut self.faults.wrong_place
            }
            Fault::Sector(SectorFault::Old { .. }) => &mut self.faults.old,
            Fault::Sector(SectorFault::Foreign) => &mut self.faults.foreign,
            Fault::Unreadable(_) => &mut self.faults.unreadable,
        };
        *count += 1;
        self.faults.passing += u64::from(sight.passing);
        if self.notes.len() < NOTES_MAX {
            let (at_seconds, pass) = (self.seconds as u64, self.passes + 1);
            let Sight { passing, after_power_cut } = sight;
            let what = what.to_string();
            self.notes.push(FaultNote { at_seconds, pass, byte, what, passing, after_power_cut });
        }
    }
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A stamped sector.
    Sector(SectorFault),
    /// A chunk whose digest is that of no chunk.
    Digest,
    /// A chunk that holds what belongs into another.
    OtherChunk {
        /// First byte of that.
        byte: u64,
    },
    /// A read failed.
    Unreadable(rustix::io::Errno),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sector(SectorFault::Changed { bits: 1 }) => f.write_str("1 bit has changed"),
            Self::Sector(SectorFault::Changed { bits }) => write!(f, "{bits} bits have changed"),
            Self::Sector(SectorFault::WrongPlace { meant_for }) => {
                write!(f, "data in a wrong place: they belong at byte {}", meant_for * 512)
            }
            Self::Sector(SectorFault::Old { sequence }) => {
                write!(f, "a write is lost: the data are those of write {sequence}")
            }
            Self::Sector(SectorFault::Foreign) => f.write_str("other data than were written"),
            Self::Digest => f.write_str("the digest differs from that of the first pass"),
            Self::OtherChunk { byte } => write!(f, "data in a wrong place: they belong at byte {byte}"),
            Self::Unreadable(errno) => write!(f, "cannot be read: {errno}"),
        }
    }
}

/// Where the files of a record are.
#[derive(Clone, Debug)]
pub struct RecordPlace {
    record: PathBuf,
    digests: PathBuf,
}

impl RecordPlace {
    /// The place for `target`: in `folder`, or else beside a file, or else, for a device, in the current folder.
    pub fn of(target: &Path, folder: Option<&Path>) -> Self {
        let is_device = std::fs::metadata(target).is_ok_and(|facts| facts.file_type().is_block_device());
        let beside = if is_device { None } else { target.parent() };
        let folder = folder.or(beside).unwrap_or(Path::new(""));
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Self {
            record: folder.join(format!("{name}.soak.json")),
            digests: folder.join(format!("{name}.soak-digests")),
        }
    }

    /// The record's file.
    pub fn record(&self) -> &Path {
        &self.record
    }

    /// Reads the record, if there is one.
    ///
    /// # Errors
    /// [`SoakError::Record`] and [`SoakError::BadRecord`].
    pub fn load(&self) -> Result<Option<SoakRecord>, SoakError> {
        let text = match std::fs::read_to_string(&self.record) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| self.failed("read", source))?,
        };
        let bad = |reason: String| SoakError::BadRecord { path: self.record.clone(), reason };
        let record: SoakRecord = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if record.schema != SCHEMA {
            return Err(bad(format!(
                "it is of version {}, and this program knows version {SCHEMA}",
                record.schema
            )));
        }
        if record.chunk_bytes == 0 || record.bytes == 0 {
            return Err(bad("it is of no bytes".into()));
        }
        Ok(Some(record))
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// [`SoakError::Record`].
    pub(crate) fn save(&self, record: &SoakRecord) -> Result<(), SoakError> {
        let text = serde_json::to_vec_pretty(record).expect("a record is JSON");
        replace(&self.record, &text).map_err(|source| self.failed("write", source))
    }

    /// Reads the digests, 32 bytes for each of `chunks` chunks.
    ///
    /// # Errors
    /// [`SoakError::Record`] and [`SoakError::BadRecord`].
    pub(crate) fn load_digests(&self, chunks: u64) -> Result<Vec<[u8; 32]>, SoakError> {
        let bytes =
            std::fs::read(&self.digests).map_err(|source| self.failed("read the digests of", source))?;
        if bytes.len() as u64 != 32 * chunks {
            let reason = format!("its digests are {} bytes, and {} are needed", bytes.len(), 32 * chunks);
            return Err(SoakError::BadRecord { path: self.digests.clone(), reason });
        }
        Ok(bytes.chunks_exact(32).map(|digest| digest.try_into().expect("32 bytes")).collect())
    }

    /// Replaces the digests.
    ///
    /// # Errors
    /// [`SoakError::Record`].
    pub(crate) fn save_digests(&self, digests: &[[u8; 32]]) -> Result<(), SoakError> {
        let written = replace(&self.digests, digests.as_flattened());
        written.map_err(|source| self.failed("write the digests of", source))
    }

    fn failed(&self, op: &'static str, source: io::Error) -> SoakError {
        SoakError::Record { path: self.record.clone(), op, source }
    }
}

/// Puts `bytes` into the place of a file, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&new);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
