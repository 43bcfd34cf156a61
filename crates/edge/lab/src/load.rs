//! The load of a run, the same in every world, and the matrix of loads that a section of a study plans.

use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file::TomlFileError;
use raidlab_workload::{DriverConfig, LookupError, Worker, Workload, builtin_workload};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// Why a workload can't be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It is no built-in one.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Its file can't be read.
    #[error("the workload file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Its file is wrong.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
}

/// Returns the workload called `name`: a built-in one by its full or short name, or the file of that path if it ends in
/// `.toml`, seen from `folder`.
///
/// # Errors
/// [`WorkloadError`] says what may have been meant, or what is wrong in the file and where.
pub fn find_workload(name: &str, folder: &Path) -> Result<Workload, WorkloadError> {
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        return Ok(builtin_workload(name)?);
    }
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path)
        .map_err(|source| WorkloadError::Read { path: path.clone(), source })?;
    Ok(Workload::from_toml(&path.display().to_string(), &text)?)
}

/// What one run asks of its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// What to ask, and how to judge the answer.
    pub workload: Workload,
    /// Requests in flight.
    pub iodepth: u32,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
    pub run: NanoSpan,
    /// Seed of everything random.
    pub seed: u64,
}

impl Load {
    /// The driver's settings for this load on the first `region` of a target with blocks of `block_bytes`.
    pub fn driver_config(&self, region: ByteCount, block_bytes: u32) -> DriverConfig {
        DriverConfig {
            region,
            block_bytes,
            iodepth: self.iodepth,
            seed: self.seed,
            ramp: self.ramp,
            run: self.run,
            start_offset: ByteCount::ZERO,
            max_requests: None,
            worker: Worker::ALONE,
        }
    }

    /// The load in a few words.
    pub fn label(&self) -> String {
        format!("{} at iodepth {}", self.workload.name(), self.workload.spec.iodepth(self.iodepth))
    }

    /// Time that a real run takes by plan.
    pub fn duration(&self) -> NanoSpan {
        self.ramp + self.run
    }
}

/// The loads of a section: every workload at every iodepth that makes a difference to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadPlan {
    /// Workloads.
    #[serde(serialize_with = "names_only")]
    pub workloads: Vec<Workload>,
    /// Requests in flight.
    pub iodepths: Vec<u32>,
    /// Time before each measured window.
    pub ramp: NanoSpan,
    /// Length of each measured window.
    pub run: NanoSpan,
}

impl LoadPlan {
    /// Number of loads.
    pub fn run_count(&self) -> u64 {
        self.workloads.iter().map(|workload| self.iodepths_of(workload).len() as u64).sum()
    }

    /// The numbers in flight at which a workload is run: one run is all there is to a workload with numbers of its own.
    fn iodepths_of(&self, workload: &Workload) -> &[u32] {
        let is_one = workload.spec.has_own_iodepth();
        if is_one { &self.iodepths[..self.iodepths.len().min(1)] } else { &self.iodepths }
    }

    /// Every load, workload first.
    pub fn loads(&self, seed: u64) -> impl Iterator<Item = Load> {
        self.workloads.iter().flat_map(move |workload| {
            self.iodepths_of(workload).iter().map(move |iodepth| Load {
                workload: workload.clone(),
                iodepth: *iodepth,
                ramp: self.ramp,
                run: self.run,
                seed,
            })
        })
    }

    /// Checks that `region` holds a request of every workload.
    ///
    /// # Errors
    /// Says in words what does not fit.
    pub fn check_region(&self, region: ByteCount) -> Result<(), String> {
        let too_large = |workload: &&Workload| u64::from(workload.spec.request_bytes_max()) > region.get();
        match self.workloads.iter().find(too_large) {
            Some(workload) => Err(format!(
                "is {region}, smaller than one request of workload '{}': make it larger",
                workload.name()
            )),
            None => Ok(()),
        }
    }
}

/// Writes workloads by their names, which the results carry too.
fn names_only<S: Serializer>(workloads: &[Workload], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(workloads.iter().map(Workload::name))
}
