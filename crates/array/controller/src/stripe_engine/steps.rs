//! What the parity work of an operation does with bytes, step by step, for worlds that carry them.
//!
//! The controller plans in rows and units; only here do plans become sums over GF(256) (see `raidlab_raid::code`).

use super::op::{Job, StripeOp, VisitStep};
use super::plan::Plan;
use crate::api::{BufferRef, MemorySteps, NOWHERE};
use crate::geometry::Geometry;
use crate::request::Rows;
use crate::table::NIL;
use raidlab_raid::StripUnit;
use raidlab_raid::code::{Damage, PARITIES_MAX, Recovery, generate};

/// The parities that a step computes.
struct ParityResults {
    /// Which of them: 0 is P, 1 is Q.
    numbers: [u16; PARITIES_MAX],
    /// Where each goes.
    places: [BufferRef; PARITIES_MAX],
    count: usize,
}

impl ParityResults {
    fn places(&self) -> &[BufferRef] {
        &self.places[..self.count]
    }
}

impl Default for ParityResults {
    fn default() -> Self {
        Self { numbers: [0; PARITIES_MAX], places: [NOWHERE; PARITIES_MAX], count: 0 }
    }
}

impl StripeOp {
    /// Adds the steps of the parity work of an operation.
    pub(crate) fn parity_steps(&self, geometry: &Geometry, out: &mut MemorySteps) {
        if let Some(unit) = self.writing.partial_parity {
            return self.parity_by_partial(unit, geometry, out);
        }
        if self.is_trying() {
            return self.trial_steps(geometry, out);
        }
        match (self.job, self.plan) {
            (Job::Recover(fragment), _) => {
                self.recover_unit(fragment.strip, fragment.host_buffer(), geometry, out);
            }
            (Job::Restore(VisitStep { unit, .. }), _) => {
                self.recover_unit(unit, self.staged(geometry, unit, self.hull.first), geometry, out);
            }
            (Job::Probe(_), _) | (Job::Write, Plan::Store | Plan::Abandon) => {}
            (Job::Write, Plan::ReadModifyWrite) => self.modify_parity(geometry, out),
            (Job::Compare(..), _) | (Job::Write, Plan::ReconstructWrite) => {
                self.construct_parity(geometry, out);
            }
            (Job::Write, Plan::Recover) => {
                self.recover_erased(geometry, out);
                self.construct_parity(geometry, out);
            }
        }
    }

    /// Bytes that the parity work of an operation takes in and gives out; none if there is none.
    pub(crate) fn parity_volume(&self, geometry: &Geometry) -> (u64, u64) {
        let hull_bytes = u64::from(self.hull.count) * geometry.block_bytes();
        let written: u64 = self.writing.pieces.iter().map(|piece| u64::from(piece.rows.count)).sum();
        let parities =
            self.units.iter().skip(geometry.data_strips()).filter(|unit| unit.staging != NIL).count() as u64;
        let erased = self.units.iter().filter(|unit| unit.erased).count() as u64;
        let data_bytes = geometry.data_strips() as u64 * hull_bytes;
        let partial_bytes = if self.writing.partial_parity.is_some() { hull_bytes } else { 0 };
        match (self.job, self.plan) {
            (Job::Recover(_), _) => (data_bytes, hull_bytes),
            (Job::Restore(_), _) => self.restore_volume(geometry),
            (Job::Compare(..), _) => self.comparison_volume(geometry),
            (Job::Probe(_), _) | (Job::Write, Plan::Store | Plan::Abandon) => (0, 0),
            (Job::Write, Plan::ReadModifyWrite) => {
                let bytes_in = 2 * written * geometry.block_bytes() + parities * hull_bytes;
                (bytes_in, parities * hull_bytes + partial_bytes)
            }
            (Job::Write, Plan::ReconstructWrite) => (data_bytes, parities * hull_bytes + partial_bytes),
            (Job::Write, Plan::Recover) => (2 * data_bytes, (parities + erased) * hull_bytes),
        }
    }

    /// The parities that the operation computes, at `row`: into the places of those that it writes, or, for a comparison,
    /// beside those that it read.
    fn parity_results(&self, geometry: &Geometry, row: u32) -> ParityResults {
        let beside = self.is_comparison();
        let first = if beside { geometry.unit_count() } else { geometry.data_strips() } as u16;
        let mut results = ParityResults::default();
        for parity in 0..geometry.parities() as u16 {
            let unit = first + parity;
            if self.units[usize::from(unit)].staging != NIL {
                results.numbers[results.count] = parity;
                results.places[results.count] = self.staged(geometry, unit, row);
                results.count += 1;
            }
        }
        results
    }

    /// Partial parity = old parity + old data, or all other strips; new parity = that + new data.
    fn parity_by_partial(&self, unit: u16, geometry: &Geometry, out: &mut MemorySteps) {
        let (strips, row) = (geometry.data_strips() as u16, self.hull.first);
        let bytes = u64::from(self.hull.count) * geometry.block_bytes();
        let partial = self.staged(geometry, unit, row);
        let modifies = self.plan == Plan::ReadModifyWrite;
        let is_added = |other: &u16| *other != unit && *other != self.writing.pieces[0].strip;
        let added = if modifies { strips..strips + 1 } else { 0..strips }.filter(is_added);
        if added.clone().next().is_some() {
            out.begin(bytes, &[partial], true);
            out.sources.extend(added.map(|other| self.staged(geometry, other, row)));
            out.end(|_, _| 1);
        }
        for piece in &self.writing.pieces {
            let bytes = u64::from(piece.rows.count) * geometry.block_bytes();
            out.begin(bytes, &[self.staged(geometry, strips, piece.rows.first)], false);
            out.sources.extend([self.staged(geometry, unit, piece.rows.first), piece.source]);
            out.end(|_, _| 1);
        }
    }

    /// New parity = old parity + old data + new data, piece by piece.
    fn modify_parity(&self, geometry: &Geometry, out: &mut MemorySteps) {
        for piece in &self.writing.pieces {
            let results = self.parity_results(geometry, piece.rows.first);
            let old = self.staged(geometry, piece.strip, piece.rows.first);
            let bytes = u64::from(piece.rows.count) * geometry.block_bytes();
            out.begin(bytes, results.places(), true);
            out.sources.extend([old, piece.source]);
            out.end(|row, _| generate(results.numbers[row], piece.strip));
        }
    }

    /// New parity from all data: pieces where there are new ones, what was read or recovered elsewhere.
    fn construct_parity(&self, geometry: &Geometry, out: &mut MemorySteps) {
        let mut row = self.hull.first;
        while row < self.hull.end() {
            let end = next_change(self, row);
            let results = self.parity_results(geometry, row);
            out.begin(u64::from(end - row) * geometry.block_bytes(), results.places(), false);
            let strips = 0..geometry.data_strips() as u16;
            out.sources.extend(strips.map(|strip| self.newest(geometry, strip, row)));
            out.end(|row, strip| generate(results.numbers[row], strip as u16));
            row = end;
        }
    }

    /// Where the operation has the newest data of `row` of a strip.
    fn newest(&self, geometry: &Geometry, strip: u16, row: u32) -> BufferRef {
        let from =
            self.writing.pieces.partition_point(|piece| (piece.strip, piece.rows.end()) <= (strip, row));
        match self.writing.pieces.get(from) {
            Some(piece) if piece.strip == strip && piece.rows.first <= row => {
                let skipped = u64::from(row - piece.rows.first) * geometry.block_bytes();
                BufferRef { offset: piece.source.offset + skipped, ..piece.source }
            }
            _ => self.staged(geometry, strip, row),
        }
    }

    /// Brings back the strips that can't be read, as they were before the write.
    fn recover_erased(&self, geometry: &Geometry, out: &mut MemorySteps) {
        let mut places = [NOWHERE; PARITIES_MAX];
        let mut count = 0;
        for (strip, _) in self.units.iter().enumerate().filter(|(_, unit)| unit.erased) {
            places[count] = self.staged(geometry, strip as u16, self.hull.first);
            count += 1;
        }
        self.recover_rows(geometry, &places[..count], 0, out);
    }

    /// Recovers the hull of one unit into `place`.
    fn recover_unit(&self, unit: u16, place: BufferRef, geometry: &Geometry, out: &mut MemorySteps) {
        let erased = self.units[..usize::from(unit)].iter().filter(|unit| unit.erased);
        self.recover_rows(geometry, &[place], erased.count(), out);
    }

    /// One step that computes rows of the recovery, from `first_row` on, over the hull.
    fn recover_rows(
        &self,
        geometry: &Geometry,
        destinations: &[BufferRef],
        first_row: usize,
        out: &mut MemorySteps,
    ) {
        let data_strips = geometry.data_strips() as u16;
        let unit_of = |unit: u16| {
            if unit < data_strips { data_unit(unit) } else { StripUnit::Parity(unit - data_strips) }
        };
        let mut missing = [StripUnit::Parity(0); PARITIES_MAX];
        let mut count = 0;
        for (unit, uses) in (0..).zip(&self.units) {
            let is_unread = unit >= data_strips && uses.read.is_empty();
            if uses.erased || (is_unread && !self.reads_parity_before(unit, data_strips)) {
                missing[count] = unit_of(unit);
                count += 1;
            }
        }
        let damage = Damage { data_strips, parities: geometry.parities() as u16, missing: &missing[..count] };
        let recovery = Recovery::new(&damage).expect("the plan was made for what can be recovered");
        let read = || (0..).zip(&self.units).filter(|(_, uses)| !uses.read.is_empty());
        out.begin(u64::from(self.hull.count) * geometry.block_bytes(), destinations, false);
        out.sources.extend(read().map(|(unit, uses)| self.staged(geometry, unit, uses.read.first)));
        out.end(|row, source| {
            let (unit, _) = read().nth(source).expect("each is a source");
            recovery.coefficient(first_row + row, unit_of(unit))
        });
    }
}

const fn data_unit(strip: u16) -> StripUnit {
    StripUnit::Data { strip, copy: 0 }
}

impl StripeOp {
    /// True when a parity before `unit` is read and is enough, so that this one is not needed, though not lost.
    fn reads_parity_before(&self, unit: u16, data_strips: u16) -> bool {
        let erased = self.units[..usize::from(data_strips)].iter().filter(|uses| uses.erased).count();
        let read = self.units[usize::from(data_strips)..usize::from(unit)].iter();
        read.filter(|uses| !uses.read.is_empty()).count() >= erased
    }
}

/// The first row after `row` where any strip's source changes: a piece begins or ends, or the hull ends.
fn next_change(op: &StripeOp, row: u32) -> u32 {
    let edges = op.pieces().iter().flat_map(|piece| [piece.rows.first, piece.rows.end()]);
    edges.filter(|&edge| edge > row).fold(Rows::end(op.hull), u32::min)
}
