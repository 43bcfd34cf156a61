//! What was predicted, kept so that it can be simulated again: the array, its loads, and what of the catalogue was other than the
//! program brings.

use raidlab_hardware::{Catalog, CatalogChange, CatalogError, CatalogFile};
use raidlab_units::NanoSpan;
use raidlab_workload::Workload;
use raidlab_workload::toml_file::TomlFileError;
use raidlab_worlds::{ArrayFile, ArrayFileError, Load};
use serde::{Deserialize, Serialize};

/// A prediction without its figures. Its JSON reads back as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    array: ArrayFile,
    loads: Vec<KeptLoad>,
    hardware: OwnHardware,
}

/// What of the catalogue is a user's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnHardware {
    /// Files that were read beside what comes with the program.
    pub files: Vec<CatalogFile>,
    /// Figures that were changed.
    pub changes: Vec<CatalogChange>,
    /// The host that software RAID was put on.
    pub host: Option<String>,
}

/// A load as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptLoad {
    /// The text of its workload's file; none for a trace, whose requests are not kept.
    workload_toml: Option<String>,
    name: String,
    iodepth: u32,
    ramp_ns: NanoSpan,
    run_ns: NanoSpan,
    seed: u64,
    settles: bool,
}

/// Why a kept prediction can't be simulated again.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// Its hardware is not what this catalogue can have.
    #[error(transparent)]
    Catalog(Box<CatalogError>),
    /// Its array can't be.
    #[error(transparent)]
    Array(Box<ArrayFileError>),
    /// A workload's text is damaged.
    #[error(transparent)]
    Workload(#[from] TomlFileError),
    /// A trace was replayed.
    #[error(
        "'{workload}' is a trace, whose requests are not kept: what explains a difference can't be looked for"
    )]
    Trace {
        /// Its name.
        workload: String,
    },
}

impl From<ArrayFileError> for PredictionError {
    fn from(error: ArrayFileError) -> Self {
        Self::Array(Box::new(error))
    }
}

impl From<CatalogError> for PredictionError {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(Box::new(error))
    }
}

impl Prediction {
    /// What `array` does under `loads`, with a user's own `hardware`.
    pub fn new<'a>(
        array: ArrayFile,
        loads: impl IntoIterator<Item = &'a Load>,
        hardware: OwnHardware,
    ) -> Self {
        Self { array, loads: loads.into_iter().map(KeptLoad::of).collect(), hardware }
    }

    /// The catalogue that it was made with, its drives in their condition.
    ///
    /// # Errors
    /// [`PredictionError`] if a later program can't have such hardware.
    pub fn catalog(&self) -> Result<Catalog, PredictionError> {
        let mut catalog = Catalog::with(&self.hardware.files, &self.hardware.changes)?;
        if let Some(host) = &self.hardware.host {
            catalog.put_on_host(&self.array.controller, host)?;
        }
        self.array.condition_drives(&mut catalog)?;
        Ok(catalog)
    }

    /// Its array.
    pub const fn array(&self) -> &ArrayFile {
        &self.array
    }

    /// Its loads.
    ///
    /// # Errors
    /// [`PredictionError::Trace`] for what is no workload.
    pub fn loads(&self) -> Result<Vec<Load>, PredictionError> {
        self.loads.iter().map(KeptLoad::load).collect()
    }
}

impl KeptLoad {
    fn of(load: &Load) -> Self {
        let workload = &load.workload;
        Self {
            workload_toml: workload.spec.trace.is_none().then(|| workload.to_toml()),
            name: workload.name().to_owned(),
            iodepth: load.iodepth,
            ramp_ns: load.ramp,
            run_ns: load.run,
            seed: load.seed,
            settles: load.settles,
        }
    }

    fn load(&self) -> Result<Load, PredictionError> {
        let Some(text) = &self.workload_toml else {
            return Err(PredictionError::Trace { workload: self.name.clone() });
        };
        Ok(Load {
            workload: Workload::from_toml(&format!("the kept workload '{}'", self.name), text)?,
            iodepth: self.iodepth,
            workers: 1,
            ramp: self.ramp_ns,
            run: self.run_ns,
            seed: self.seed,
            once: false,
            settles: self.settles,
        })
    }
}
