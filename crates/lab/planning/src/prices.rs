//! Costs and power of parts, from the user's file.
//!
//! ```toml
//! schema = 1
//! currency = "EUR"
//!
//! [drives.st3600057ss]
//! price = 250
//! watts = 16
//! [controllers.perc-h800]
//! price = 600
//! [enclosures.md1200]
//! price = 2500
//! ```
//! Values not in the file are unknown, not zero.

use raidlab_hardware::{Catalog, CatalogError};
use raidlab_workload::toml_file::{self, TomlFileError};
use raidlab_worlds::{TextFileError, read_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version of the form of price files.
const SCHEMA: u32 = 1;

/// What one part costs and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PartPrice {
    /// Price of one.
    pub price: Option<f64>,
    /// Power of one while it works, in watts; of an enclosure without drives.
    pub watts: Option<f64>,
}

/// A price file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Prices {
    /// Version of the form of the file.
    pub schema: u32,
    /// What prices are in.
    #[serde(default)]
    pub currency: String,
    /// By name in the catalogue.
    #[serde(default)]
    pub drives: BTreeMap<String, PartPrice>,
    /// By name in the catalogue.
    #[serde(default)]
    pub controllers: BTreeMap<String, PartPrice>,
    /// By name in the catalogue.
    #[serde(default)]
    pub enclosures: BTreeMap<String, PartPrice>,
}

/// Why prices can't be had.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The file can't be read.
    #[error("the price file {0}")]
    Read(#[from] TextFileError),
    /// It is no TOML, or has an unknown or missing key.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
    /// A figure is below zero or no number.
    #[error("{path}: {part} has a price or power that is not a number of zero or above")]
    Figure {
        /// The file.
        path: PathBuf,
        /// The part.
        part: String,
    },
}

impl Prices {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`PriceError`] names file, line and key.
    pub fn read(path: &Path) -> Result<Self, PriceError> {
        let text = read_text(path)?;
        let prices: Self = toml_file::parse(&path.display().to_string(), &text, SCHEMA)?;
        let all = prices.drives.iter().chain(&prices.controllers).chain(&prices.enclosures);
        let is_bad = |figure: Option<f64>| figure.is_some_and(|value| !value.is_finite() || value < 0.0);
        for (id, part) in all {
            if is_bad(part.price) || is_bad(part.watts) {
                return Err(PriceError::Figure { path: path.to_owned(), part: id.clone() });
            }
        }
        Ok(prices)
    }

    /// Whether it has any price.
    pub fn are_given(&self) -> bool {
        let mut all = self.drives.values().chain(self.controllers.values()).chain(self.enclosures.values());
        all.any(|part| part.price.is_some())
    }

    /// Refuses prices of parts that nobody knows: a slip in a name would leave the part without one.
    ///
    /// # Errors
    /// [`CatalogError`] names the first.
    pub fn check(&self, catalog: &Catalog) -> Result<(), CatalogError> {
        self.drives.keys().try_for_each(|id| catalog.drive(id).map(drop))?;
        self.controllers.keys().try_for_each(|id| catalog.controller(id).map(drop))?;
        self.enclosures.keys().try_for_each(|id| catalog.enclosure(id).map(drop))
    }

    /// Whether the catalogue's prices, which are in US dollars, may stand beside these.
    pub(super) fn is_in_dollars(&self) -> bool {
        matches!(self.currency.as_str(), "" | "USD")
    }
}
