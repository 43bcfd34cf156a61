//! RAID 10: striping over mirrored pairs of neighbouring members. This is the *near* layout:
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D0'  D1   D1'
//!    1     D2   D2'  D3   D3'
//! ```
//! The *far* and *offset* layouts have no pairs: the copies of a strip are on neighbours, the last and the
//! first among them; drawn in `shifted.rs`.
//!
//! An odd number of members is level 1E, in all three layouts. Source: Linux md raid10 with two copies, `n2`,
//! `f2` and `o2` (drivers/md/raid10.c; `mdadm --layout`). Left out: more copies, and md's far sets
//! (`use_far_sets`).

use super::grid::StripeParts;
use super::in_order::in_order;
use super::shifted::{far_copies, offset_copies};
use crate::layout::Layout;
use crate::level::MirrorLayout;
use crate::spec::{LayoutError, LayoutSpec};

/// Returns the layout of RAID 10.
pub(crate) fn raid10(spec: &LayoutSpec) -> Result<Box<dyn Layout>, LayoutError> {
    spec.require_members(4..=u16::MAX)?;
    spec.require_even_members()?;
    spec.require_no_spans()?;
    spec.require_no_rotation()?;
    let pairs = StripeParts { data_strips: spec.members / 2, copies: 2, parities: 0 };
    Ok(match spec.level.mirror_layout {
        MirrorLayout::Near => Box::new(in_order(spec, pairs)),
        MirrorLayout::Far => Box::new(far_copies(spec)?),
        MirrorLayout::Offset => Box::new(offset_copies(spec)?),
    })
}
