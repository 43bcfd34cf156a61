//! RAID 50: striping over spans that are RAID 5 each; drawn in `spans.rs`.

use super::raid5::Raid5;
use super::spans::Spans;
use crate::level::Level;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 50.
pub(crate) fn raid50(spec: &LayoutSpec) -> Result<Spans<Raid5>, LayoutError> {
    let span = spec.one_span(Level::Raid5, Raid5::MEMBERS)?;
    Ok(Spans::new(Raid5::new(&span)?, spec.level.spans))
}
