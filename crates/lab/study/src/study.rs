//! Studies: a question, and the matrix of runs that answers it.
//!
//! A study has sections of three kinds. Each section names its targets and the load on them; its runs are the cross
//! product of both:
//! ```text
//! [[measure]]   one test file                                        x workloads x iodepths
//! [[array]]     levels x write policies over member files            x workloads x iodepths
//! [[simulate]]  levels x write policies over drives of the catalogue x workloads x iodepths
//! ```
//! A workload without writes is run with one write policy only. Runs on real storage may be repeated, in rounds over
//! all of it. All detectable errors are found when the file is read, and named with their line: a study does not stop
//! after an hour because of a misspelt drive.

mod changes;
mod file;
mod resolve;

pub use changes::StudyChanges;

use raidlab_hardware::{Catalog, CatalogError, DriveCondition};
use raidlab_measure::array::SoftwareArray;
use raidlab_units::ByteCount;
use raidlab_workload::toml_file::TomlFileError;
use raidlab_worlds::ModelledArray;
use raidlab_worlds::{Load, LoadPlan, WorkloadError};
use raidlab_worlds::{TextFileError, read_text};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A study, checked and complete.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// What it is called.
    pub title: String,
    /// What it is to find out.
    pub question: String,
    /// Seed of everything random, the same in every run so that all see the same requests.
    pub seed: u64,
    /// How often all runs on real storage are done, in rounds: what drifts meets all targets alike.
    pub repeats: u32,
    /// The paper whose tables are to have the runs in them, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare_paper: Option<String>,
    /// Test files to measure.
    pub measures: Vec<MeasureSection>,
    /// Real arrays.
    pub arrays: Vec<ArraySection>,
    /// Modelled arrays.
    pub simulations: Vec<SimulateSection>,
}

/// A test file on the storage as it is, or storage that is there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureSection {
    /// Where it is laid out, or what is there.
    pub path: PathBuf,
    /// Its size, where it is laid out.
    pub size: ByteCount,
    /// Nothing is laid out: all of what is there is measured.
    pub is_there: bool,
    /// Names of storage whose data may be written over.
    pub destroy_data: Vec<String>,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// The load on it.
    pub load: LoadPlan,
}

/// Real arrays over one set of member files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArraySection {
    /// The folders of the member files, which are in them in turn; at least one.
    pub directories: Vec<PathBuf>,
    /// Every array, in the order of the file: level first, then write policy.
    pub arrays: Vec<SoftwareArray>,
    /// Part of each volume in use, from its start; the whole volume if not given.
    pub region: Option<ByteCount>,
    /// The load on each.
    pub load: LoadPlan,
}

/// Modelled arrays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulateSection {
    /// Every array of one drive, in the order of the file: members first, then strip, level and write policy.
    pub arrays: Vec<ModelledArray>,
    /// The load on each.
    pub load: LoadPlan,
    /// What was done to their solid-state drives before, where the file says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<DriveCondition>,
}

/// Why a study file can't be run.
#[derive(Debug, thiserror::Error)]
pub enum StudyFileError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] TextFileError),
    /// It is no TOML, or has an unknown or missing key, or a value of the wrong kind.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
    /// The catalogue lacks a drive, controller or enclosure.
    #[error("{}", parts.iter().map(|(line, part)| format!("{file}:{line}: {part}")).collect::<Vec<_>>().join("\n    "))]
    UnknownParts {
        /// The file.
        file: String,
        /// Each part with its line, from 1.
        parts: Vec<(usize, CatalogError)>,
    },
    /// A workload that can't be had.
    #[error("{file}:{line}: {workload}")]
    Workload {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        workload: Box<WorkloadError>,
    },
    /// An array that can't be.
    #[error("{file}:{line}: RAID {level} over {members} members cannot be: {reason}")]
    ImpossibleArray {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The level as written.
        level: String,
        /// Members given.
        members: u16,
        /// What is against it.
        reason: String,
    },
    /// A value that is wrong for another reason.
    #[error("{file}:{line}: {key} {problem}")]
    Value {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What is wrong, and what to write.
        problem: String,
    },
}

impl Study {
    /// Reads and checks the study at `path`.
    ///
    /// # Errors
    /// [`StudyFileError`] names file, line and key.
    pub fn read(path: &Path, catalog: &Catalog) -> Result<Self, StudyFileError> {
        let text = read_text(path)?;
        Self::parse(&path.display().to_string(), &text, catalog)
    }

    /// Reads and checks `text`, the contents of `file`.
    ///
    /// # Errors
    /// [`StudyFileError`] names file, line and key.
    pub fn parse(file: &str, text: &str, catalog: &Catalog) -> Result<Self, StudyFileError> {
        resolve::resolve(file, text, catalog)
    }

    /// Number of runs that it plans.
    pub fn run_count(&self) -> u64 {
        let measures = self.measures.iter().map(|section| section.load.run_count());
        let arrays = self.arrays.iter().map(ArraySection::run_count);
        let real: u64 = measures.chain(arrays).sum();
        real * u64::from(self.repeats) + self.simulations.iter().map(SimulateSection::run_count).sum::<u64>()
    }
}

/// What both kinds of sections of arrays do.
macro_rules! loads_on_arrays {
    ($($section:ident),+) => {$(
        impl $section {
            /// Number of runs of one round.
            pub fn run_count(&self) -> u64 {
                (0..self.arrays.len()).map(|index| self.loads_of(index, 0).len() as u64).sum()
            }

            /// The loads that tell something of the array of this index: arrays of one level differ in their write policy, which
            /// does nothing where nothing is written, so only the first of them is read from.
            pub(crate) fn loads_of(&self, index: usize, seed: u64) -> Vec<Load> {
                let level = self.arrays[index].config.level;
                let has_twin = self.arrays[..index].iter().any(|array| array.config.level == level);
                self.load.loads(seed).filter(|load| !has_twin || load.workload.spec.writes()).collect()
            }
        }
    )+};
}

loads_on_arrays!(ArraySection, SimulateSection);
