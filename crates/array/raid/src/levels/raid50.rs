//! RAID 50: striping over spans that are RAID 5 each; drawn in `spans.rs`.

use super::filling::FilledGrid;
use super::raid5::{RAID5_MEMBERS, raid5};
use super::rotation::Rotation;
use super::spans::Spans;
use crate::level::Level;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 50.
pub(crate) fn raid50(spec: &LayoutSpec) -> Result<Spans<FilledGrid<Rotation>>, LayoutError> {
    let span = spec.one_span(Level::Raid5, RAID5_MEMBERS)?;
    Ok(Spans::new(raid5(&span)?, spec.level.spans))
}
