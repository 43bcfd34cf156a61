//! RAID 60: striping over spans that are RAID 6 each; drawn in `spans.rs`.
//!
//! A span may have three members, which makes it a slow triple mirror: LSI `MegaRAID` allows RAID 60 from six drives.

use super::filling::FilledGrid;
use super::raid6::RAID6_MEMBERS;
use super::rotation::{Rotation, rotating_parity};
use super::spans::Spans;
use crate::level::Level;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 60.
pub(crate) fn raid60(spec: &LayoutSpec) -> Result<Spans<FilledGrid<Rotation>>, LayoutError> {
    let span = spec.one_span(Level::Raid6, 3..=*RAID6_MEMBERS.end())?;
    Ok(Spans::new(rotating_parity(&span, 2), spec.level.spans))
}
