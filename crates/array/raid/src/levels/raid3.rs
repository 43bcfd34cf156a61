//! RAID 3: data striped over all members but the last, which holds P.
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D1   D2   P
//!    1     D3   D4   D5   P
//! ```
//! Left out: the synchronised spindles and the byte-wise striping of the first RAID 3; with strips of one block the
//! members come as near to it as a block interface allows. Source: Patterson, Gibson and Katz 1988.

use super::filling::FilledGrid;
use super::grid::StripeParts;
use super::in_order::{InOrder, in_order};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};

/// Returns the layout of RAID 3.
pub(crate) fn raid3(spec: &LayoutSpec) -> Result<FilledGrid<InOrder>, LayoutError> {
    spec.require_members(3..=DATA_STRIPS_MAX + 1)?;
    spec.require_bare_level()?;
    Ok(in_order(spec, StripeParts { data_strips: spec.members - 1, copies: 1, parities: 1 }))
}
