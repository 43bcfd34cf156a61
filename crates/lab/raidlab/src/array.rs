//! Arrays by names of the catalogue.

use raidlab_controller::{Resilience, WritePolicy};
use raidlab_hardware::{Catalog, DriveHistory};
use raidlab_raid::LevelVariant;
use raidlab_units::ByteCount;
use raidlab_worlds::{
    ArrayFile, ArrayFileError, CacheSettings, ControllerSettings, ModelledArray, Models, Owner,
};
use std::path::Path;

/// An array of catalogue parts. What is not said is as its controller is delivered.
///
/// ```
/// use raidlab::{Array, ByteCount, Catalog};
///
/// let array = Array::new("5".parse()?, 8, "st3600057ss", "perc-h800").strip_size(ByteCount::from_kib(64));
/// assert_eq!(array.usable(&Catalog::builtin())?.decimal().to_string(), "4.20 TB");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Array(ArrayFile);

impl Array {
    /// An array of `members` drives at `level` behind a controller, both by their names in the catalogue.
    pub fn new(
        level: LevelVariant,
        members: u16,
        drive: impl Into<String>,
        controller: impl Into<String>,
    ) -> Self {
        Self(ArrayFile::new(level, members, drive, controller))
    }

    /// The array that a TOML file describes.
    ///
    /// # Errors
    /// [`ArrayFileError`] names file, line and key.
    pub fn read(path: &Path) -> Result<Self, ArrayFileError> {
        ArrayFile::read(path).map(Self)
    }

    /// Members in an enclosure of the catalogue; else in the server itself.
    #[must_use]
    pub fn enclosure(mut self, id: impl Into<String>) -> Self {
        self.0.enclosure = Some(id.into());
        self
    }

    /// Length of a strip.
    #[must_use]
    pub const fn strip_size(mut self, size: ByteCount) -> Self {
        self.0.strip_size = Some(size);
        self
    }

    /// When writes are acknowledged; written back where there is a cache, if not said.
    #[must_use]
    pub const fn write_policy(mut self, policy: WritePolicy) -> Self {
        self.0.write_policy = Some(policy);
        self
    }

    /// Whether the members' own write caches are on.
    #[must_use]
    pub const fn disk_cache(mut self, is_on: bool) -> Self {
        self.0.disk_cache = Some(is_on);
        self
    }

    /// The controller's cache.
    #[must_use]
    pub const fn cache(mut self, cache: CacheSettings) -> Self {
        self.0.cache = cache;
        self
    }

    /// What the controller keeps on the members against crashes, and how it rebuilds.
    #[must_use]
    pub const fn resilience(mut self, resilience: Resilience) -> Self {
        self.0.resilience = resilience;
        self
    }

    /// Two controllers or more volumes.
    #[must_use]
    pub fn controllers(mut self, controllers: ControllerSettings) -> Self {
        self.0.controllers = Some(controllers);
        self
    }

    /// A controller that fails `after` so long in the measured window; A, if no other is named.
    #[must_use]
    pub fn failing(mut self, controller: Option<Owner>, after: raidlab_units::NanoSpan) -> Self {
        let controllers = self.0.controllers.get_or_insert_with(|| ControllerSettings::of_count(1));
        (controllers.fail, controllers.fail_after) = (controller, Some(after));
        self
    }

    /// What was done to solid-state drives before, and the percentage of their capacity that holds data. What is not said stays as it
    /// was.
    #[must_use]
    pub fn condition(mut self, history: Option<DriveHistory>, fill_pct: Option<u8>) -> Self {
        self.0.condition = history.or(self.0.condition);
        self.0.fill = fill_pct.or(self.0.fill);
        self
    }

    /// Part of the volume in use, from its start; else all of it.
    #[must_use]
    pub const fn region(mut self, region: ByteCount) -> Self {
        self.0.region = Some(region);
        self
    }

    /// Whether somebody said what was done to its drives before.
    pub const fn has_condition(&self) -> bool {
        self.0.condition.is_some()
    }

    /// Whether its drives are not as the catalogue has them.
    pub(crate) const fn changes_drives(&self) -> bool {
        self.0.condition.is_some() || self.0.fill.is_some()
    }

    /// Name of its controller in the catalogue.
    pub fn controller_id(&self) -> &str {
        &self.0.controller
    }

    /// What the host sees.
    ///
    /// # Errors
    /// [`ArrayFileError`] when a part is unknown or the array can't be.
    pub fn usable(&self, catalog: &Catalog) -> Result<ByteCount, ArrayFileError> {
        self.0.resolve(catalog).map(|(_, array)| array.usable)
    }

    /// Looks its parts up, and checks it.
    ///
    /// # Errors
    /// [`ArrayFileError`] when a part is unknown or the array can't be.
    pub fn resolve<'a>(&self, catalog: &'a Catalog) -> Result<(Models<'a>, ModelledArray), ArrayFileError> {
        self.0.resolve(catalog)
    }

    /// Puts its drives, as they are in `catalog`, in the condition that was said, if any.
    ///
    /// # Errors
    /// [`ArrayFileError`] for drives without a condition, for a fill outside 1 to 100 %, and for fresh drives that hold data.
    pub fn condition_drives(&self, catalog: &mut Catalog) -> Result<(), ArrayFileError> {
        self.0.condition_drives(catalog)
    }

    /// What could not be plugged together, a sentence each; it is simulated all the same.
    ///
    /// # Errors
    /// [`ArrayFileError`] when a part is unknown or the array can't be.
    pub fn misfits(&self, catalog: &Catalog) -> Result<Vec<String>, ArrayFileError> {
        self.0.resolve(catalog).map(|(models, array)| models.misfits(&array))
    }
}

impl From<Array> for ArrayFile {
    fn from(array: Array) -> Self {
        array.0
    }
}

impl From<ArrayFile> for Array {
    fn from(file: ArrayFile) -> Self {
        Self(file)
    }
}
