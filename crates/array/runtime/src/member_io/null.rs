//! Members that store nothing: a read is zeros, a write is dropped, and each has ended as soon as it is begun.

use super::slot::{IoSlot, Transfer};
use super::{Attached, Carrier, MemberPort, Place};
use crate::pieces::{Stored, store};
use crate::ring::Direction;
use raidlab_format::{AreaLayout, Placement};
use raidlab_units::{ByteCount, MemberIndex};
use std::path::Path;

impl MemberPort {
    /// Puts a member that stores nothing into its place: `bytes` of data and no metadata.
    pub(crate) fn attach_null(&mut self, member: MemberIndex, path: &Path, bytes: ByteCount) {
        let area = AreaLayout::new(ByteCount::ZERO);
        let placement = Placement { area, data_at: 0, tail_at: bytes.get() };
        let attached = Attached { path: path.to_owned(), carrier: Carrier::Null, placement };
        self.places[member.index()] = Place { attached: Some(attached), ..Place::default() };
    }
}

impl IoSlot {
    /// Does what there is to be done: a read is zeros.
    pub(super) fn read_zeros(&self) {
        if let Some(Transfer { direction: Direction::Read, bytes, .. }) = self.transfer {
            store(&self.pieces, 0, Stored::Zeros(bytes));
        }
    }
}
