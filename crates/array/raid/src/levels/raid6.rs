//! RAID 6: striping with two parity strips, P then Q, which move from member to member. Left-symmetric by default:
//! ```text
//! stripe   m0   m1   m2   m3   m4
//!    0     Q    D0   D1   D2   P
//!    1     D3   D4   D5   P    Q
//!    2     D7   D8   P    Q    D6
//! ```
//! The rotations are drawn in `rotation.rs`, which also compares them with Linux md's RAID 6: left-symmetric is the
//! same, P and Q to the byte. Left out: three members, which would be a slow triple mirror.

use super::filling::FilledGrid;
use super::rotation::{Rotation, rotating_parity};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};
use core::ops::RangeInclusive;

/// Members that RAID 6 allows.
pub(super) const RAID6_MEMBERS: RangeInclusive<u16> = 4..=DATA_STRIPS_MAX + 2;

/// Returns the layout of RAID 6.
pub(crate) fn raid6(spec: &LayoutSpec) -> Result<FilledGrid<Rotation>, LayoutError> {
    spec.require_members(RAID6_MEMBERS)?;
    spec.require_no_spans()?;
    spec.require_no_mirror_layout()?;
    Ok(rotating_parity(spec, 2))
}
