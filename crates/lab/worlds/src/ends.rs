//! Estimated figures, and a modelled array at both ends of their ranges.
//!
//! The sources in the catalogue say which figures are estimated or fitted. Most of these have a range. An array is run
//! again with all of them at their slower ends, and with all at their faster ends ([`Catalog::at_end`]): the true
//! result lies between, if the ranges hold.

use crate::arrays::Models;
use raidlab_hardware::{Catalog, CatalogError, End, FigureSource};
use serde::Serialize;

/// The figures of one part that rest on estimates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Estimates {
    /// The part's name in the catalogue.
    pub part: String,
    /// Keys of the figures that somebody estimated or fitted.
    pub keys: Vec<String>,
    /// How many of them say how far off they may be.
    pub ranged: usize,
    /// All figures that it has.
    pub figures: usize,
}

/// The models of an array's parts at both ends.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Longer times, lower rates.
    pub slower: Models<'a>,
    /// Shorter times, higher rates.
    pub faster: Models<'a>,
}

impl Models<'_> {
    /// The figures that rest on estimates, part by part; none of parts without any.
    pub fn estimates(&self) -> Vec<Estimates> {
        let of_part = |(id, sources): (&String, &Vec<FigureSource>)| {
            let estimated = || sources.iter().filter(|it| it.is_estimated());
            let keys: Vec<String> = estimated().map(|it| it.key.clone()).collect();
            let ranged = estimated().filter(|it| it.low.is_some() || it.high.is_some()).count();
            (!keys.is_empty()).then(|| Estimates { part: id.clone(), keys, ranged, figures: sources.len() })
        };
        self.sources().filter_map(of_part).collect()
    }

    /// Whether any figure that matters to speed has a range.
    pub fn has_ranges(&self) -> bool {
        let ends = [End::Slower, End::Faster];
        self.sources()
            .flat_map(|(_, sources)| sources)
            .any(|it| ends.iter().any(|end| it.at_end(*end).is_some()))
    }

    /// The figures of each part, with its name.
    fn sources(&self) -> impl Iterator<Item = (&String, &Vec<FigureSource>)> {
        let enclosure = self.enclosure.map(|model| (&model.id, &model.sources));
        let parts = [(&self.drive.id, &self.drive.sources), (&self.controller.id, &self.controller.sources)];
        parts.into_iter().chain(enclosure)
    }

    /// `catalog` with these parts at one end.
    ///
    /// # Errors
    /// What the catalogue's reader says of a part whose figures can't be so together.
    pub fn catalog_at(&self, catalog: &Catalog, end: End) -> Result<Catalog, CatalogError> {
        let parts = [Some(&self.drive.id), Some(&self.controller.id), self.enclosure.map(|it| &it.id)];
        let ids: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        catalog.at_end(&ids, end)
    }
}
