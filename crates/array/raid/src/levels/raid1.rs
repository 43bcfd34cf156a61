//! RAID 1: every member holds the whole volume; a stripe is one strip on all members.
//! ```text
//! stripe   m0   m1
//!    0     D0   D0'
//!    1     D1   D1'
//! ```

use super::filling::FilledGrid;
use super::grid::StripeParts;
use super::in_order::{InOrder, in_order};
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 1.
pub(crate) fn raid1(spec: &LayoutSpec) -> Result<FilledGrid<InOrder>, LayoutError> {
    spec.require_members(2..=u16::MAX)?;
    spec.require_bare_level()?;
    Ok(in_order(spec, StripeParts { data_strips: 1, copies: spec.members, parities: 0 }))
}
