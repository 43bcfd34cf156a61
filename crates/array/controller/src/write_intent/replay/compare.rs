//! Comparing a stripe with a record that holds only the checksums of what was being written to it.
//!
//! ```text
//! every unit, rows     read, row by row where that fails ─► digests ─► each row:
//!   all units fit               the write has arrived, or what can't be read now can be made up: nothing to do
//!   some differ, and
//!     all data can be read      parity of these rows is made anew from the data: each block is the old or the new one
//!     some data can't be read   what the others made of it is not known any more: parity that does not fit becomes bad
//!                               blocks, all of it where data does not fit, and so the data that is missing reads as an error
//! ```
//! Rows of a unit for which a later record tells better are not compared: they have been written again before. What could not
//! be read while all else fits becomes a bad block, and is restored: if it can be read after all, it may be an old one.
//!
//! Invariant: no block is made up from units of which some are new and others old. Left out: making parity anew, which is a visit of
//! the background scan.

use super::{Current, Record, Replay, ReplayWrite};
use crate::geometry::Geometry;
use crate::member_io::IntentIo;
use crate::memory_task::TaskOwner;
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::write_intent::Surroundings;
use core::ops::Range;
use raidlab_raid::UnitPlace;

/// Rows of a run that are read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) run: u16,
    /// Rows of the run before it.
    pub(super) skipped: u32,
    pub(super) rows: u32,
    pub(super) is_read: bool,
}

impl Part {
    /// Its rows, counted from the strip's first.
    pub(super) fn rows_in_strip(&self, record: &Record) -> Rows {
        Rows { first: record.runs[usize::from(self.run)].first_row + self.skipped, count: self.rows }
    }
}

/// What one row of one unit is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// What the record's operation wrote.
    Fits,
    /// Something else.
    Differs,
    /// It can't be read.
    Unreadable,
    /// What a later record has.
    Superseded,
}

/// What became of a stripe.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Runs of rows, in order and apart, whose parity is to be made anew from the data; of all others it agrees.
    pub(crate) differs: Vec<Rows>,
    /// Rows of parity from which nothing can be made up any more.
    pub(crate) spoilt: Vec<(UnitPlace, Rows)>,
    /// Rows that can't be read, but made up.
    pub(crate) unreadable: Vec<(UnitPlace, Rows)>,
}

impl Replay {
    /// Lists the rows of some runs to read.
    pub(super) fn parts_to_read(&mut self, runs: Range<u16>, around: &Surroundings<'_>) -> Vec<ReplayWrite> {
        let (mut parts, mut reads) = (Vec::new(), Vec::new());
        for run in runs {
            self.for_each_part(run, around, |skipped, place, rows| {
                parts.push(Part { run, skipped, rows: rows.count, is_read: true });
                reads.push((IntentIo::ReplayCheck { run, skipped }, place, rows));
            });
        }
        self.current_mut().parts = parts;
        reads
    }

    /// Takes in that rows to be compared could not be read.
    pub(super) fn note_unreadable(&mut self, run: u16, skipped: u32) {
        let parts = &mut self.current_mut().parts;
        let part = parts.iter_mut().find(|part| (part.run, part.skipped) == (run, skipped));
        part.expect("it was asked for").is_read = false;
    }

    /// Lists the rows to read one by one, because they can't be read together.
    pub(super) fn rows_to_read_singly(&mut self, around: &Surroundings<'_>) -> Vec<ReplayWrite> {
        let Surroundings { geometry, metadata, .. } = around;
        let Current { record, parts, .. } = self.current_mut();
        let place = |part: &Part| geometry.unit_place(record.stripe, record.runs[usize::from(part.run)].unit);
        let is_taken = |part: &mut Part| !part.is_read && part.rows > 1 && metadata.holds(place(part));
        let failed: Vec<Part> = parts.extract_if(.., is_taken).collect();
        let rows =
            |part: Part| (0..part.rows).map(move |row| Part { skipped: part.skipped + row, rows: 1, ..part });
        let single = failed.into_iter().flat_map(rows).map(|part| Part { is_read: true, ..part });
        let read = |part: &Part| {
            let io = IntentIo::ReplayCheck { run: part.run, skipped: part.skipped };
            (io, place(part), part.rows_in_strip(record))
        };
        let first = parts.len();
        parts.extend(single);
        parts[first..].iter().map(read).collect()
    }

    /// Asks for the digests of what was read.
    pub(super) fn digest_parts(&self, Surroundings { geometry, tasks, outbox, .. }: &mut Surroundings<'_>) {
        let task = tasks.new_digest(TaskOwner::Replay);
        for part in self.current().parts.iter().filter(|part| part.is_read) {
            tasks.add_rows(task, self.segment(geometry, part.run, (part.skipped, part.rows)));
        }
        tasks.start_digest(task, outbox);
    }

    /// Compares the digests with the record's checksums; a world that carries no bytes has none, and all fits there.
    pub(super) fn compare(&self, digests: &[u32], around: &Surroundings<'_>) -> Compared {
        let found = Table::of(self, digests, around.metadata, around.geometry);
        let record = &self.current().record;
        let mut compared = Compared::default();
        for row in 0..found.rows {
            let (data, parity) = found.row(row).split_at(around.geometry.data_strips());
            let is_data_torn = data.contains(&Found::Differs);
            if !is_data_torn && !parity.contains(&Found::Differs) {
                self.list_unreadable(found.row(row), row as u32, around, &mut compared.unreadable);
                continue;
            }
            if !data.contains(&Found::Unreadable) {
                let row = record.runs[0].first_row + row as u32;
                match compared.differs.last_mut().filter(|before| before.end() == row) {
                    Some(before) => before.count += 1,
                    None => compared.differs.push(Rows { first: row, count: 1 }),
                }
                continue;
            }
            for (unit, parity) in (data.len()..).zip(parity) {
                if is_data_torn || *parity == Found::Differs {
                    let place = around.geometry.unit_place(record.stripe, unit as u16);
                    add_row(&mut compared.spoilt, place, record.runs[0].first_row + row as u32);
                }
            }
        }
        compared
    }

    /// Lists the units of a row that can't be read where they stand.
    fn list_unreadable(
        &self,
        found: &[Found],
        row: u32,
        Surroundings { geometry, metadata, .. }: &Surroundings<'_>,
        out: &mut Vec<(UnitPlace, Rows)>,
    ) {
        let record = &self.current().record;
        for unit in (0..found.len()).filter(|unit| found[*unit] == Found::Unreadable) {
            let place = geometry.unit_place(record.stripe, unit as u16);
            if metadata.holds(place) {
                add_row(out, place, record.runs[0].first_row + row);
            }
        }
    }
}

/// Adds a row of a unit to a list in which those of one unit may stand apart.
fn add_row(list: &mut Vec<(UnitPlace, Rows)>, place: UnitPlace, row: u32) {
    let before = list.iter_mut().find(|(of, rows)| *of == place && rows.end() == row);
    match before {
        Some((_, rows)) => rows.count += 1,
        None => list.push((place, Rows { first: row, count: 1 })),
    }
}

/// What is found in each row of each unit that a record names.
struct Table {
    rows: usize,
    units: usize,
    found: Vec<Found>,
}

impl Table {
    fn of(replay: &Replay, digests: &[u32], metadata: &Metadata, geometry: &Geometry) -> Self {
        let (record, parts) = (&replay.current().record, &replay.current().parts);
        let (rows, units) = (record.runs[0].rows as usize, record.runs.len());
        let mut table = Self { rows, units, found: vec![Found::Unreadable; rows * units] };
        let mut digests = digests.iter();
        for part in parts.iter().filter(|part| part.is_read) {
            let unit = usize::from(part.run);
            let is_there = metadata.holds(geometry.unit_place(record.stripe, part.run));
            for row in part.skipped as usize..(part.skipped + part.rows) as usize {
                let fits = digests.next().is_none_or(|it| *it == record.row_checksums[unit * rows + row]);
                let found = if fits { Found::Fits } else { Found::Differs };
                table.set(row, unit, if is_there { found } else { Found::Unreadable });
            }
        }
        table.note_superseded(record, metadata, geometry);
        table
    }

    /// Notes what later records have; where no device has it, it is made up from the others like all else.
    fn note_superseded(&mut self, record: &Record, metadata: &Metadata, geometry: &Geometry) {
        let first = record.runs[0].first_row;
        let is_held = |unit| metadata.holds(geometry.unit_place(record.stripe, unit));
        for later in record.superseded.iter().filter(|later| is_held(later.unit)) {
            let end = (later.first_row + later.rows).min(first + self.rows as u32);
            for row in later.first_row.max(first)..end {
                self.set((row - first) as usize, usize::from(later.unit), Found::Superseded);
            }
        }
    }

    fn set(&mut self, row: usize, unit: usize, found: Found) {
        self.found[row * self.units + unit] = found;
    }

    fn row(&self, row: usize) -> &[Found] {
        &self.found[row * self.units..][..self.units]
    }
}
