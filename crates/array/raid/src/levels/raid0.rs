//! RAID 0: striping over all members, with no redundancy.
//! ```text
//! stripe   m0   m1   m2
//!    0     D0   D1   D2
//!    1     D3   D4   D5
//! ```
//! One member is allowed: many controllers can pass through a single drive only as RAID 0.

use super::filling::FilledGrid;
use super::grid::StripeParts;
use super::in_order::{InOrder, in_order};
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 0.
pub(crate) fn raid0(spec: &LayoutSpec) -> Result<FilledGrid<InOrder>, LayoutError> {
    spec.require_members(1..=u16::MAX)?;
    spec.require_bare_level()?;
    Ok(in_order(spec, StripeParts { data_strips: spec.members, copies: 1, parities: 0 }))
}
