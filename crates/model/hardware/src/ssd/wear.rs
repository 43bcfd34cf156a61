//! The wear of a drive: the effect of age on reads.
//!
//! The more often cells have been programmed and erased, the more of their reads must be retried. Raw bit errors grow
//! linearly with the cycles, not exponentially (Schroeder, Lagisetty and Merchant, "Flash Reliability in Production:
//! The Expected and the Unexpected", FAST 2016), and so does the share of reads here:
//! ```text
//!   retry_pct of [flash] when new ── linear in the cycles used ──► retry_pct of [wear] at the rated cycles, and on beyond
//! ```
//! Left out: the cycles that a run itself adds, which are negligible; changes of program and erase times; blocks that
//! go bad; data retention.

use crate::catalog::{CatalogError, Section, from_keys};

/// Wear, and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WearModel {
    /// Cycles used, in percent of the rated ones.
    pub used_pct: f64,
    /// Share of page reads in percent that have to be tried again when all rated cycles are used.
    pub retry_pct: f64,
}

impl WearModel {
    /// Reads the table `[wear]`.
    pub(super) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let model = from_keys!(section, Self { used_pct, retry_pct });
        section.refuse_if(!(0.0..=1000.0).contains(&model.used_pct), "used_pct", "from 0 to 1000")?;
        section.refuse_if(!(0.0..=100.0).contains(&model.retry_pct), "retry_pct", "from 0 to 100")?;
        section.finish(model)
    }

    /// Share of page reads in percent that have to be tried again where it was `new_pct` when new.
    pub(super) fn retry_pct(&self, new_pct: f64) -> f64 {
        (new_pct + (self.retry_pct - new_pct) * self.used_pct / 100.0).clamp(0.0, 100.0)
    }
}
