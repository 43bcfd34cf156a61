//! RAID 5: striping with one parity strip, which moves from member to member. Left-symmetric by default:
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D1   D2   P
//!    1     D4   D5   P    D3
//!    2     D8   P    D6   D7
//!    3     P    D9   D10  D11
//! ```
//! The rotations are drawn in `rotation.rs`. Left out: two members, which would be a slow mirror.

use super::filling::FilledGrid;
use super::rotation::{Rotation, rotating_parity};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};
use core::ops::RangeInclusive;

/// Members that RAID 5 allows.
pub(super) const RAID5_MEMBERS: RangeInclusive<u16> = 3..=DATA_STRIPS_MAX + 1;

/// Returns the layout of RAID 5.
pub(crate) fn raid5(spec: &LayoutSpec) -> Result<FilledGrid<Rotation>, LayoutError> {
    spec.require_members(RAID5_MEMBERS)?;
    spec.require_no_spans()?;
    spec.require_no_mirror_layout()?;
    Ok(rotating_parity(spec, 1))
}
