//! Making parity agree with a strip, by a record of partial parity.
//!
//! ```text
//! strip, rows ─► read, row by row where that fails ─► added to the partial parity ─► parity, rows that were read
//! ```
//! What stands in the strip is old or new, and so is what parity makes of a row that can't be read: only this strip is written under
//! the record, and what the others hold is in the partial parity. Where the strip or parity is on no device, nothing is to be done.
//!
//! Left out: a stripe that also lacks another strip, in rows where this one can't be read.

use super::{Current, Replay, ReplayStep};
use crate::api::MemorySteps;
use crate::geometry::Geometry;
use crate::member_io::IntentIo;
use crate::memory_task::TaskOwner;
use crate::request::Rows;
use crate::write_intent::Surroundings;

/// The runs of such a record.
const STRIP: u16 = 0;
const PARITY: u16 = 1;

impl Replay {
    /// Reads what stands in the strip, if there is parity to be made to agree with it.
    pub(super) fn begin_update(&mut self, around: &Surroundings<'_>) -> ReplayStep {
        let Current { record, .. } = self.current();
        let parity = around.geometry.unit_place(record.stripe, record.runs[usize::from(PARITY)].unit);
        let runs = if around.metadata.holds(parity) { STRIP..PARITY } else { 0..0 };
        let reads = self.parts_to_read(runs, around);
        self.current_mut().pending = 1 + reads.len() as u32;
        ReplayStep::Read(reads)
    }

    /// Has what was read of the strip added to the partial parity.
    pub(super) fn add_strip(&mut self, around: &mut Surroundings<'_>) -> ReplayStep {
        let read = self.current().parts.iter().filter(|part| part.is_read);
        let bytes: u64 = read.map(|part| u64::from(part.rows) * self.block_size.bytes()).sum();
        if bytes == 0 {
            return self.strip_added(around);
        }
        around.tasks.start_parity(TaskOwner::ReplayParity, (2 * bytes, bytes), around.outbox);
        ReplayStep::Waits
    }

    /// The steps of that.
    pub(crate) fn parity_steps(&self, geometry: &Geometry, out: &mut MemorySteps) {
        for part in self.current().parts.iter().filter(|part| part.is_read) {
            let rows = (part.skipped, part.rows);
            let parity = self.segment(geometry, PARITY, rows);
            out.begin(parity.bytes, &[parity.buffer], true);
            out.sources.push(self.segment(geometry, STRIP, rows).buffer);
            out.end(|_, _| 1);
        }
    }

    /// Takes in that it is added: parity is to be written.
    pub(crate) fn strip_added(&mut self, around: &Surroundings<'_>) -> ReplayStep {
        let Current { record, parts, .. } = self.current();
        let rows_of = |is_read| {
            parts.iter().filter(move |part| part.is_read == is_read).map(|part| part.rows_in_strip(record))
        };
        let strip = record.runs[usize::from(STRIP)];
        let mut writes = Vec::new();
        self.for_each_part(PARITY, around, |_, place, rows| {
            for read in rows_of(true).filter(|read| read.overlaps(rows)) {
                let rows = Rows::between(read.first.max(rows.first), read.end().min(rows.end()));
                writes.push((
                    IntentIo::ReplayWrite { run: PARITY, skipped: rows.first - strip.first_row },
                    place,
                    rows,
                ));
            }
        });
        let place = around.geometry.unit_place(record.stripe, strip.unit);
        let unreadable =
            rows_of(false).filter(|_| around.metadata.holds(place)).map(|rows| (place, rows)).collect();
        self.current_mut().pending = 1 + writes.len() as u32;
        ReplayStep::Write { writes, unreadable }
    }
}
