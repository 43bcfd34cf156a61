//! RAID 60: striping over spans that are RAID 6 each; drawn in `spans.rs`.

use super::raid6::Raid6;
use super::spans::Spans;
use crate::level::Level;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 60.
pub(crate) fn raid60(spec: &LayoutSpec) -> Result<Spans<Raid6>, LayoutError> {
    let span = spec.one_span(Level::Raid6, Raid6::MEMBERS)?;
    Ok(Spans::new(Raid6::new(&span)?, spec.level.spans))
}
