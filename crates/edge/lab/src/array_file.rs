//! One modelled array, as a TOML file or a command line describes it.

use crate::arrays::{ModelledArray, ModelledSettings, Models, Parts, RegionTooLarge, UnknownParts};
use crate::cache::CacheSettings;
use crate::controllers::{ControllerSettings, ControllersError};
use crate::text_file::{TextFileError, read_text};
use raidlab_controller::{ConfigError, Resilience, WritePolicy};
use raidlab_hardware::Catalog;
use raidlab_raid::LevelVariant;
use raidlab_units::ByteCount;
use raidlab_workload::toml_file::{self, TomlFileError};
use serde::Deserialize;
use std::path::Path;

/// Version of the form of array files.
const SCHEMA: u32 = 1;

/// A modelled array in words; what is left out is as the controller is delivered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ArrayFile {
    /// Version of the form of the file.
    pub schema: u32,
    /// RAID level.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Catalogue id of the members.
    pub drive: String,
    /// Catalogue id of the controller.
    pub controller: String,
    /// Catalogue id of the enclosure.
    pub enclosure: Option<String>,
    /// When writes are acknowledged.
    pub write_policy: WritePolicy,
    /// Length of a strip.
    pub strip_size: Option<ByteCount>,
    /// Whether the members' own write caches are on.
    pub disk_cache: Option<bool>,
    /// Part of the volume in use, from its start; the whole volume if not given.
    pub region: Option<ByteCount>,
    /// The cache.
    #[serde(default)]
    pub cache: CacheSettings,
    /// What it does about faults.
    #[serde(default)]
    pub resilience: Resilience,
    /// Controllers and volumes; one of each if not given.
    pub controllers: Option<ControllerSettings>,
}

/// Why a description is no array.
#[derive(Debug, thiserror::Error)]
pub enum ArrayFileError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] TextFileError),
    /// It is no TOML, or has an unknown or missing key.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
    /// The catalogue lacks parts.
    #[error(transparent)]
    UnknownParts(#[from] UnknownParts),
    /// The drives do not fit the enclosure.
    #[error("{problem}")]
    Misfit {
        /// What does not fit.
        problem: String,
    },
    /// The controller refuses it.
    #[error("RAID {level} over {members} members cannot be: {source}")]
    Impossible {
        /// The level.
        level: LevelVariant,
        /// Number of members.
        members: u16,
        /// What is against it.
        source: ConfigError,
    },
    /// The controllers can't be.
    #[error("[controllers]: {0}")]
    Controllers(#[from] ControllersError),
    /// The region is larger than the volume.
    #[error("the region {0}")]
    Region(#[from] RegionTooLarge),
}

impl ArrayFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`ArrayFileError`] names file, line and key.
    pub fn read(path: &Path) -> Result<Self, ArrayFileError> {
        let text = read_text(path)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file; `name` is what messages call it.
    ///
    /// # Errors
    /// [`ArrayFileError::Toml`] names line and key.
    pub fn parse(name: &str, text: &str) -> Result<Self, ArrayFileError> {
        Ok(toml_file::parse(name, text, SCHEMA)?)
    }

    /// Looks the parts up and checks the array.
    ///
    /// # Errors
    /// [`ArrayFileError`] when a part is unknown or the array can't be.
    pub fn resolve<'a>(&self, catalog: &'a Catalog) -> Result<(Models<'a>, ModelledArray), ArrayFileError> {
        let parts = Parts {
            controller: self.controller.clone(),
            enclosure: self.enclosure.clone(),
            drive: self.drive.clone(),
        };
        let models = parts.look_up(catalog)?;
        models.check_fit().map_err(|problem| ArrayFileError::Misfit { problem })?;
        let settings = ModelledSettings {
            level: self.level,
            members: self.members,
            write_policy: self.write_policy,
            strip_size: self.strip_size,
            disk_cache: self.disk_cache,
            cache: self.cache,
            resilience: self.resilience,
        };
        let impossible =
            |source| ArrayFileError::Impossible { level: self.level, members: self.members, source };
        let mut array = ModelledArray::new(&models, &settings).map_err(impossible)?;
        if let Some(controllers) = &self.controllers {
            array = array.with_controllers(&models, controllers)?;
        }
        let region = self.region.unwrap_or(array.usable);
        Ok((models, array.with_region(region)?))
    }
}
