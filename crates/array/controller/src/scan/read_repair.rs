//! Read repair: rows that a read could not get are written again from redundancy; where there is none, or not enough, they are read
//! once more, and become bad blocks if that fails.
//!
//! A read that ended in a medium error is served from redundancy, and its rows stand in line here. The line is bounded; a
//! read error that finds it full is met again by the next read of those rows.

use super::{BackgroundScan, Visit};
use crate::geometry::{Geometry, UnitRow};
use crate::ids::{LockKey, VisitId};
use crate::metadata::Metadata;
use crate::request::Rows;
use raidlab_units::{MemberIndex, MemberLba};
use std::collections::VecDeque;

/// Read errors that wait, at most.
const WAITING_MAX: usize = 256;

/// Read errors being repaired at once, at most.
const UNDER_WAY_MAX: usize = 4;

/// Rows of a unit that a device could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadError {
    pub(super) device: MemberIndex,
    pub(super) key: LockKey,
    pub(super) unit: u16,
    pub(super) rows: Rows,
}

/// Read errors that wait to be repaired or are being repaired.
#[derive(Debug, Default)]
pub(super) struct ReadRepair {
    waiting: VecDeque<ReadError>,
    under_way: Vec<ReadError>,
}

impl ReadError {
    /// True if both are of the same unit on the same device.
    fn is_on(&self, other: &Self) -> bool {
        (self.device, self.key) == (other.device, other.key)
    }
}

impl ReadRepair {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Puts a read error in line, unless it is there or under way.
    fn put(&mut self, error: ReadError) {
        let covers = |other: &ReadError| other.is_on(&error) && other.rows.hull(error.rows) == other.rows;
        if !self.under_way.iter().any(covers) {
            self.put_again(error);
        }
    }

    /// Puts a read error in line, unless it is there, behind what is under way.
    fn put_again(&mut self, error: ReadError) {
        if let Some(other) = self.waiting.iter_mut().find(|other| other.is_on(&error)) {
            other.rows = other.rows.hull(error.rows);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(error);
        }
    }

    /// Forgets one that was under way.
    pub(super) fn end(&mut self, key: LockKey, device: MemberIndex) {
        self.under_way.retain(|error| (error.key, error.device) != (key, device));
    }

    /// The next that may begin. One of a unit that is being repaired waits.
    fn begin(&mut self) -> Option<ReadError> {
        if self.under_way.len() >= UNDER_WAY_MAX {
            return None;
        }
        let free = |error: &ReadError| !self.under_way.iter().any(|other| other.is_on(error));
        let index = self.waiting.iter().position(free)?;
        let error = self.waiting.remove(index)?;
        self.under_way.push(error);
        Some(error)
    }
}

impl BackgroundScan {
    /// Puts rows of a device in line to be written again, or to be called bad.
    pub(crate) fn repair_later(
        &mut self,
        geometry: &Geometry,
        metadata: &Metadata,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
    ) {
        if let Some(error) = read_error(geometry, metadata, (device, lba, rows)) {
            self.read_repair.put(error);
        }
    }

    /// The same for rows that what is being repaired has passed already.
    pub(crate) fn repair_again(
        &mut self,
        geometry: &Geometry,
        metadata: &Metadata,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
    ) {
        if let Some(error) = read_error(geometry, metadata, (device, lba, rows)) {
            self.read_repair.put_again(error);
        }
    }

    /// Begins to repair the next that may begin. Returns its visit.
    pub(crate) fn begin_read_repair(&mut self) -> Option<VisitId> {
        let error = self.read_repair.begin()?;
        Some(self.keep_visit(Visit::of_read_error(&error)))
    }
}

fn read_error(
    geometry: &Geometry,
    metadata: &Metadata,
    (device, lba, rows): (MemberIndex, MemberLba, u32),
) -> Option<ReadError> {
    let role = metadata.role(device)?;
    let UnitRow { key, unit, row } = geometry.unit_at(role, lba).expect("only what the layout uses is read");
    Some(ReadError { device, key, unit, rows: Rows { first: row, count: rows } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(key: u64, first: u32, count: u32) -> ReadError {
        ReadError { device: MemberIndex(1), key: LockKey(key), unit: 0, rows: Rows { first, count } }
    }

    #[test]
    fn errors_of_one_unit_are_repaired_together_and_one_after_the_other() {
        let mut line = ReadRepair::default();
        line.put(error(7, 0, 2));
        line.put(error(7, 4, 1));
        assert_eq!(line.begin(), Some(error(7, 0, 5)), "both at once");
        line.put(error(7, 1, 1));
        assert!(line.waiting.is_empty(), "it is being repaired");
        line.put_again(error(7, 1, 1));
        assert_eq!(line.begin(), None, "it waits for the one before");
        line.end(LockKey(7), MemberIndex(1));
        assert_eq!(line.begin(), Some(error(7, 1, 1)));
    }

    #[test]
    fn the_line_and_what_is_under_way_are_bounded() {
        let mut line = ReadRepair::default();
        for key in 0..WAITING_MAX as u64 + 10 {
            line.put(error(key, 0, 1));
        }
        assert_eq!(line.waiting.len(), WAITING_MAX);
        let begun = std::iter::from_fn(|| line.begin()).count();
        assert_eq!(begun, UNDER_WAY_MAX);
    }
}
