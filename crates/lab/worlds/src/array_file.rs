//! One modelled array, as a TOML file or a command line describes it.

use crate::arrays::{ModelledArray, ModelledSettings, Models, Parts, RegionTooLarge, UnknownParts};
use crate::cache::CacheSettings;
use crate::controllers::{ControllerSettings, ControllersError};
use crate::text_file::{TextFileError, read_text};
use raidlab_controller::{ConfigError, MemberCache, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, CatalogError, DriveCondition, DriveHistory};
use raidlab_raid::LevelVariant;
use raidlab_units::ByteCount;
use raidlab_workload::toml_file::{self, TomlFileError};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::Path;

/// Version of the form of array files.
const SCHEMA: u32 = 1;

/// A modelled array in words; what is left out is as the controller is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// When writes are acknowledged; written back where there is a cache, if not given.
    pub write_policy: Option<WritePolicy>,
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
    /// What was done to solid-state drives before: `fresh`, `sequential`, `random` or `random:N`.
    #[serde(
        default,
        deserialize_with = "history",
        serialize_with = "history_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub condition: Option<DriveHistory>,
    /// Percent of their capacity that holds data.
    pub fill: Option<u8>,
}

/// Written back where there is a cache.
fn usual_policy(models: &Models<'_>, cache: CacheSettings) -> WritePolicy {
    let has_cache = cache.size.unwrap_or(models.controller.cache.size) > ByteCount::ZERO;
    if has_cache { WritePolicy::WriteBack } else { WritePolicy::WriteThrough }
}

/// A history as text.
fn history<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DriveHistory>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// A history as the text that reads back as it.
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn history_text<S: Serializer>(history: &Option<DriveHistory>, to: S) -> Result<S::Ok, S::Error> {
    match history {
        Some(history) => to.collect_str(history),
        None => to.serialize_none(),
    }
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
    /// The drives can't be in such a condition.
    #[error("{0}")]
    Condition(&'static str),
    /// The drives have no condition.
    #[error(transparent)]
    NoCondition(#[from] CatalogError),
    /// The region is larger than the volume.
    #[error("the region {0}")]
    Region(#[from] RegionTooLarge),
}

/// The condition of drives that have such a history and fill, each as usual where it is not given.
///
/// # Errors
/// [`ArrayFileError::Condition`] for a fill outside 1 to 100 % and for fresh drives that hold data.
pub fn condition_of(
    history: Option<DriveHistory>,
    fill: Option<u8>,
) -> Result<DriveCondition, ArrayFileError> {
    let history = history.unwrap_or_default();
    match fill {
        Some(_) if history == DriveHistory::Fresh => {
            Err(ArrayFileError::Condition("a fresh drive holds nothing: leave out the fill"))
        }
        Some(fill) if !(1..=100).contains(&fill) => {
            Err(ArrayFileError::Condition("fill is a percentage from 1 to 100"))
        }
        _ => Ok(DriveCondition { history, fill_pct: fill.unwrap_or(DriveCondition::default().fill_pct) }),
    }
}

impl ArrayFile {
    /// An array of `members` drives behind a controller, both by their names in the catalogue, and all else as it is delivered.
    pub fn new(
        level: LevelVariant,
        members: u16,
        drive: impl Into<String>,
        controller: impl Into<String>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            level,
            members,
            drive: drive.into(),
            controller: controller.into(),
            enclosure: None,
            write_policy: None,
            strip_size: None,
            disk_cache: None,
            region: None,
            cache: CacheSettings::default(),
            resilience: Resilience::default(),
            controllers: None,
            condition: None,
            fill: None,
        }
    }

    /// The array of one volume that `array` is, with every setting as it is there.
    pub fn of(array: &ModelledArray) -> Self {
        let config = &array.config;
        let cache = &config.cache;
        Self {
            enclosure: array.parts.enclosure.clone(),
            write_policy: Some(cache.write_policy),
            strip_size: Some(config.strip_size),
            disk_cache: Some(config.member_cache == MemberCache::On),
            region: Some(array.region),
            cache: CacheSettings {
                size: Some(cache.size),
                block_size: Some(cache.block_size),
                memory: Some(cache.memory),
                read_policy: Some(cache.read_policy),
                io_policy: Some(cache.io_policy),
                flush_start_pct: Some(cache.flush_start_pct),
                flush_stop_pct: Some(cache.flush_stop_pct),
                flush_after: Some(cache.flush_after),
                flush_iodepth: Some(cache.flush_iodepth),
                flush_partial_bytes: cache.flush_partial_bytes,
                flush_order: Some(cache.flush_order),
                coalesce_writes: Some(cache.coalesce_writes),
                parity_after_data: Some(cache.parity_after_data),
                stream_lead: Some(cache.stream_lead),
                read_ahead: Some(cache.read_ahead),
                read_ahead_on_miss: Some(cache.read_ahead_on_miss),
            },
            resilience: config.resilience,
            ..Self::new(
                config.level,
                config.members,
                array.parts.drive.clone(),
                array.parts.controller.clone(),
            )
        }
    }

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
        let file = toml_file::parse(name, text, SCHEMA)?;
        toml_file::check_times(name, text, &["flush-after"])?;
        Ok(file)
    }

    /// Puts the drives of `catalog` that the array is made of in the condition that the file or the user says, if any. A drive
    /// that is not there is told of with all other parts that are not.
    ///
    /// # Errors
    /// [`ArrayFileError`] for drives without a condition, for a fill outside 1 to 100 %, and for fresh drives that hold data.
    pub fn condition_drives(&self, catalog: &mut Catalog) -> Result<(), ArrayFileError> {
        if (self.condition.is_none() && self.fill.is_none()) || catalog.drive(&self.drive).is_err() {
            return Ok(());
        }
        let condition = condition_of(self.condition, self.fill)?;
        Ok(catalog.condition_drive(&self.drive, condition)?)
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
            write_policy: self.write_policy.unwrap_or(usual_policy(&models, self.cache)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a mirror of `drive`, with more lines.
    fn file(drive: &str, more: &str) -> Result<ArrayFile, ArrayFileError> {
        let text = format!(
            "schema = 1\nlevel = \"1\"\nmembers = 2\ndrive = \"{drive}\"\ncontroller = \"linux-md-nvme\"\n\
             write-policy = \"write-through\"\n{more}"
        );
        ArrayFile::parse("a.toml", &text)
    }

    fn conditioned(drive: &str, more: &str) -> Result<String, String> {
        let mut catalog = Catalog::builtin();
        let file = file(drive, more).map_err(|error| error.to_string())?;
        file.condition_drives(&mut catalog).map_err(|error| error.to_string())?;
        let (models, _) = file.resolve(&catalog).map_err(|error| error.to_string())?;
        Ok(models.drive.condition().map_or_else(String::new, |condition| condition.to_string()))
    }

    #[test]
    fn a_file_says_what_was_done_to_its_drives() {
        let rows = [
            ("", "random:3, 100 % full"),
            ("condition = \"fresh\"", "fresh"),
            ("condition = \"sequential\"\nfill = 40", "sequential, 40 % full"),
            ("fill = 50", "random:3, 50 % full"),
        ];
        for (more, expected) in rows {
            assert_eq!(conditioned("generic-nvme", more).as_deref(), Ok(expected), "{more}");
        }
    }

    #[test]
    fn sizes_and_times_have_a_unit() {
        for setting in ["read-ahead = 5", "flush-after = 5", "size = 5"] {
            let error = file("generic-nvme", &format!("[cache]\n{setting}")).expect_err(setting).to_string();
            assert!(error.contains("5 has no unit"), "{setting}: {error}");
        }
        let settings = "[cache]\nread-ahead = \"1MiB\"\nflush-after = \"5s\"\nsize = 0";
        assert!(file("generic-nvme", settings).is_ok());
    }

    #[test]
    fn names_tell_settings_apart() {
        let label = |more: &str| {
            let file = file("generic-nvme", more).expect(more);
            file.resolve(&Catalog::builtin()).expect(more).1.label()
        };
        let usual = "RAID 1 x2 write-through on generic-nvme behind linux-md-nvme";
        assert_eq!(label(""), usual);
        assert_eq!(
            label("strip-size = \"1MiB\"\ndisk-cache = false"),
            format!("{usual}, strip 1 MiB, disk cache off")
        );
    }

    #[test]
    fn a_condition_that_can_not_be_is_refused() {
        let rows = [
            ("generic-nvme", "condition = \"worn\"", "a condition is fresh"),
            ("generic-nvme", "condition = \"fresh\"\nfill = 50", "holds nothing"),
            ("generic-nvme", "fill = 0", "from 1 to 100"),
            ("generic-nvme", "fill = 101", "from 1 to 100"),
            ("st3600057ss", "fill = 50", "as fast in every condition"),
        ];
        for (drive, more, expected) in rows {
            let error = conditioned(drive, more).expect_err(more);
            assert!(error.contains(expected), "{more}: {error}");
        }
    }
}
