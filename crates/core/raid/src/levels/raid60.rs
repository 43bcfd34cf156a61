//! RAID 60: striping over spans that are RAID 6 each; drawn in `spans.rs`.

use super::filling::FilledGrid;
use super::raid6::{RAID6_MEMBERS, raid6};
use super::rotation::Rotation;
use super::spans::Spans;
use crate::level::Level;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 60.
pub(crate) fn raid60(spec: &LayoutSpec) -> Result<Spans<FilledGrid<Rotation>>, LayoutError> {
    let span = spec.one_span(Level::Raid6, RAID6_MEMBERS)?;
    Ok(Spans::new(raid6(&span)?, spec.level.spans))
}
