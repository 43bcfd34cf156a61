//! The failure data of a drive: the table `[reliability]` of its entry.
//!
//! ```text
//! sheet_afr_pct          from the maker: the share that fails in a year, or the equivalent of a mean time between failures
//! field_afr_pct          observed on drives of its class
//! field_failures         observed on this very model: failures,
//! field_drive_days       and the days that drives of it were observed
//! bits_per_read_error    bits read per unrecoverable error
//! rated_writes           bytes that the maker allows to be written
//! ```
//! Figures are `{ value, low, high, source }`; a figure without a range is exact.

use crate::catalog::{CatalogError, Section, from_keys};
use raidlab_units::ByteCount;

/// A figure, and the ends of what it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureRange {
    /// The least.
    pub low: f64,
    /// What it is taken to be.
    pub value: f64,
    /// The most.
    pub high: f64,
}

/// How a drive fails, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reliability {
    /// Share in percent that fails in a year, as the maker has it.
    pub sheet_afr_pct: Option<FigureRange>,
    /// The same as it was seen of drives of its class.
    pub field_afr_pct: Option<FigureRange>,
    /// Failures of this model, and the drive days in which they were seen.
    pub field_count: Option<(u64, f64)>,
    /// Bits read per unrecoverable read error.
    pub bits_per_read_error: Option<FigureRange>,
    /// Bytes that the host may write.
    pub rated_writes: Option<ByteCount>,
}

impl Reliability {
    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let failures: Option<u64> = section.optional_figure("field_failures")?;
        let days: Option<f64> = section.optional_figure("field_drive_days")?;
        let field_count = match (failures, days) {
            (None, None) => None,
            (Some(failures), Some(days)) if days > 0.0 => Some((failures, days)),
            _ => return Err(section.bad_value("field_drive_days", "above zero, beside field_failures")),
        };
        let found = from_keys!(section, Self {
            sheet_afr_pct: optional_range, field_afr_pct: optional_range, field_count = field_count,
            bits_per_read_error: optional_range, rated_writes: optional_figure,
        });
        section.finish(found)
    }
}
