//! What a memory task does with bytes, step by step, for worlds that carry them.
//!
//! The controller plans in rows and units; only here do plans become sums over GF(256) (see `raidlab_raid::code`).

use crate::api::{BufferRef, BufferSpace, MemoryStep, MemorySteps, MemoryTaskId};
use crate::controller::Controller;
use crate::memory_task::TaskOwner;
use crate::plan::Plan;
use crate::request::Rows;
use crate::stripe_op::{OpKind, StripeOp};
use crate::table::NIL;
use raidlab_raid::StripUnit;
use raidlab_raid::code::{Damage, Recovery, generate};

/// A parity that is computed: its number (0 is P, 1 is Q) and where it goes.
type ParityResult = (u16, BufferRef);

/// Fills places of a result list that don't count.
const NOWHERE: BufferRef = BufferRef { space: BufferSpace::Staging, offset: 0 };

impl Controller {
    /// Lists the steps of a memory task, in the order in which they must be done. Clears `out` first; valid until the
    /// task ends. No world that carries bytes has [`crate::ArrayRules::stripe_cache`] (asserted).
    pub fn memory_steps(&self, id: MemoryTaskId, out: &mut MemorySteps) {
        out.steps.clear();
        out.sources.clear();
        out.coefficients.clear();
        assert!(self.stripe_cache.is_none(), "pages that nothing holds can't be computed with");
        match self.tasks.owner(id.0) {
            TaskOwner::Nobody => unreachable!("what is under way has an owner"),
            TaskOwner::Record { .. } => unreachable!("a digest has rows and no steps"),
            TaskOwner::CopyIn { .. }
            | TaskOwner::CopyOut { .. }
            | TaskOwner::NvramRecord { .. }
            | TaskOwner::NvramLabel => {
                for copy in self.tasks.moves(id.0) {
                    out.push(copy.bytes, &[copy.to], false, &[(copy.from, [1, 0])]);
                }
                for copy in self.tasks.mirrored(id.0) {
                    let space = match copy.to.space {
                        BufferSpace::Cache => BufferSpace::PeerCache,
                        BufferSpace::KeptLog => BufferSpace::PeerKeptLog,
                        other => unreachable!("{other:?} is not mirrored"),
                    };
                    let peer = BufferRef { space, ..copy.to };
                    out.push(copy.bytes, &[copy.to, peer], false, &[(copy.from, [1, 1])]);
                }
            }
            // Its rows are read with [`Controller::digest_rows`].
            TaskOwner::Digest { .. } | TaskOwner::Checksums { .. } => {}
            TaskOwner::Parity { op } => match (self.ops[op].kind, self.ops[op].plan) {
                (OpKind::Recover | OpKind::Restore, _) => self.recover_target(op, out),
                (OpKind::Probe, _) | (OpKind::Write, Plan::Store | Plan::Abandon) => {}
                (OpKind::Write, Plan::ReadModifyWrite) => self.modify_parity(op, out),
                (OpKind::Compare, _) | (OpKind::Write, Plan::ReconstructWrite) => {
                    self.construct_parity(op, out);
                }
                (OpKind::Write, Plan::Recover) => {
                    self.recover_erased(op, out);
                    self.construct_parity(op, out);
                }
            },
        }
    }

    /// Bytes that the parity work of an operation takes in and gives out; none if there is none.
    pub(crate) fn parity_volume(&self, id: u32) -> (u64, u64) {
        let op = &self.ops[id];
        let hull_bytes = u64::from(op.hull.count) * self.geometry.block_bytes();
        let written: u64 = op.pieces.iter().map(|piece| u64::from(piece.rows.count)).sum();
        let parities =
            op.units.iter().skip(self.geometry.data_strips()).filter(|unit| unit.staging != NIL).count()
                as u64;
        let erased = op.units.iter().filter(|unit| unit.erased).count() as u64;
        let data_bytes = self.geometry.data_strips() as u64 * hull_bytes;
        match (op.kind, op.plan) {
            (OpKind::Recover, _) => (data_bytes, hull_bytes),
            (OpKind::Restore | OpKind::Probe, _) => self.restore_volume(id),
            (OpKind::Compare, _) => self.comparison_volume(id),
            (OpKind::Write, Plan::Store | Plan::Abandon) => (0, 0),
            (OpKind::Write, Plan::ReadModifyWrite) => {
                (2 * written * self.geometry.block_bytes() + parities * hull_bytes, parities * hull_bytes)
            }
            (OpKind::Write, Plan::ReconstructWrite) => (data_bytes, parities * hull_bytes),
            (OpKind::Write, Plan::Recover) => (2 * data_bytes, (parities + erased) * hull_bytes),
        }
    }

    /// The parities that the operation computes, at `row`: into the places of those that it writes, or, for a comparison,
    /// beside those that it read.
    fn parity_results(&self, id: u32, row: u32) -> ([ParityResult; 2], usize) {
        let nowhere = (0, NOWHERE);
        let mut results = [nowhere; 2];
        let mut count = 0;
        let beside = self.ops[id].kind == OpKind::Compare;
        let first = if beside { self.geometry.unit_count() } else { self.geometry.data_strips() } as u16;
        for parity in 0..self.geometry.parities() as u16 {
            let unit = first + parity;
            if self.ops[id].units[usize::from(unit)].staging != NIL {
                results[count] = (parity, self.staged(id, unit, row));
                count += 1;
            }
        }
        (results, count)
    }

    /// New parity = old parity + old data + new data, piece by piece.
    fn modify_parity(&self, id: u32, out: &mut MemorySteps) {
        for piece in &self.ops[id].pieces {
            let (results, count) = self.parity_results(id, piece.rows.first);
            let old = self.staged(id, piece.strip, piece.rows.first);
            let factors = results.map(|(parity, _)| generate(parity, piece.strip));
            let bytes = u64::from(piece.rows.count) * self.geometry.block_bytes();
            let destinations = results.map(|(_, place)| place);
            out.push(bytes, &destinations[..count], true, &[(old, factors), (piece.source, factors)]);
        }
    }

    /// New parity from all data: pieces where there are new ones, what was read or recovered elsewhere.
    fn construct_parity(&self, id: u32, out: &mut MemorySteps) {
        let op = &self.ops[id];
        let mut row = op.hull.first;
        while row < op.hull.end() {
            let end = next_change(op, row);
            let (results, count) = self.parity_results(id, row);
            let destinations = results.map(|(_, place)| place);
            out.begin(u64::from(end - row) * self.geometry.block_bytes(), &destinations[..count], false);
            for strip in 0..self.geometry.data_strips() as u16 {
                let factors = results.map(|(parity, _)| generate(parity, strip));
                out.add_source(self.newest(id, strip, row), factors);
            }
            out.end();
            row = end;
        }
    }

    /// Where the operation has the newest data of `row` of a strip.
    fn newest(&self, id: u32, strip: u16, row: u32) -> BufferRef {
        let op = &self.ops[id];
        let from = op.pieces.partition_point(|piece| (piece.strip, piece.rows.end()) <= (strip, row));
        match op.pieces.get(from) {
            Some(piece) if piece.strip == strip && piece.rows.first <= row => {
                let skipped = u64::from(row - piece.rows.first) * self.geometry.block_bytes();
                BufferRef { offset: piece.source.offset + skipped, ..piece.source }
            }
            _ => self.staged(id, strip, row),
        }
    }

    /// Brings back the strips that can't be read, as they were before the write.
    fn recover_erased(&self, id: u32, out: &mut MemorySteps) {
        let op = &self.ops[id];
        let mut destinations = [NOWHERE; 2];
        let mut count = 0;
        for (strip, _) in op.units.iter().enumerate().filter(|(_, unit)| unit.erased) {
            destinations[count] = self.staged(id, strip as u16, op.hull.first);
            count += 1;
        }
        let rows = [0, 1];
        self.recover_rows(id, &destinations[..count], &rows[..count], out);
    }

    /// Recovers what a host read wants, into the host's buffer, or what is restored, into its staging place.
    fn recover_target(&self, id: u32, out: &mut MemorySteps) {
        let op = &self.ops[id];
        let target = op.target.strip;
        let erased = op.units[..usize::from(target)].iter().filter(|unit| unit.erased);
        let place = if op.kind == OpKind::Recover {
            op.target.host_buffer()
        } else {
            self.staged(id, target, op.hull.first)
        };
        self.recover_rows(id, &[place], &[erased.count()], out);
    }

    /// One step that computes the given rows of the recovery over the hull.
    fn recover_rows(&self, id: u32, destinations: &[BufferRef], rows: &[usize], out: &mut MemorySteps) {
        let op = &self.ops[id];
        let data_strips = self.geometry.data_strips() as u16;
        let mut missing = [StripUnit::Parity(0); 2];
        let mut count = 0;
        for (unit, uses) in op.units.iter().enumerate() {
            let unit = unit as u16;
            let is_parity = unit >= data_strips;
            if uses.erased
                || (is_parity && uses.read.is_empty() && !op.reads_parity_before(unit, data_strips))
            {
                let lost = if is_parity { StripUnit::Parity(unit - data_strips) } else { data_unit(unit) };
                missing[count] = lost;
                count += 1;
            }
        }
        let damage =
            Damage { data_strips, parities: self.geometry.parities() as u16, missing: &missing[..count] };
        let recovery = Recovery::new(&damage).expect("the plan was made for what can be recovered");
        out.begin(u64::from(op.hull.count) * self.geometry.block_bytes(), destinations, false);
        for (unit, uses) in op.units.iter().enumerate().filter(|(_, uses)| !uses.read.is_empty()) {
            let unit = unit as u16;
            let source =
                if unit < data_strips { data_unit(unit) } else { StripUnit::Parity(unit - data_strips) };
            let factor = |index: usize| rows.get(index).map_or(0, |&row| recovery.coefficient(row, source));
            out.add_source(self.staged(id, unit, uses.read.first), [factor(0), factor(1)]);
        }
        out.end();
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
    let edges = op.pieces.iter().flat_map(|piece| [piece.rows.first, piece.rows.end()]);
    edges.filter(|&edge| edge > row).fold(Rows::end(op.hull), u32::min)
}

impl MemorySteps {
    fn push(
        &mut self,
        bytes: u64,
        destinations: &[BufferRef],
        accumulate: bool,
        sources: &[(BufferRef, [u8; 2])],
    ) {
        self.begin(bytes, destinations, accumulate);
        for &(source, factors) in sources {
            self.add_source(source, factors);
        }
        self.end();
    }

    fn begin(&mut self, bytes: u64, destinations: &[BufferRef], accumulate: bool) {
        assert!(!destinations.is_empty(), "a step must have a result");
        self.steps.push(MemoryStep {
            bytes,
            destinations: [destinations[0], destinations[destinations.len() - 1]],
            destination_count: destinations.len() as u8,
            accumulate,
            first_source: self.sources.len() as u32,
            source_count: 0,
            first_coefficient: self.coefficients.len() as u32,
        });
    }

    /// Adds a source with its factor for each destination. Factors are kept interleaved until [`MemorySteps::end`].
    fn add_source(&mut self, source: BufferRef, factors: [u8; 2]) {
        self.sources.push(source);
        self.coefficients.extend_from_slice(&factors);
        self.steps.last_mut().expect("begun").source_count += 1;
    }

    /// Turns the factors of the last step from pairs into rows, one row per destination.
    fn end(&mut self) {
        let step = *self.steps.last().expect("begun");
        let first = step.first_coefficient as usize;
        let sources = step.source_count as usize;
        if step.destination_count == 1 {
            for index in 0..sources {
                self.coefficients[first + index] = self.coefficients[first + 2 * index];
            }
            self.coefficients.truncate(first + sources);
            return;
        }
        // In rows of pairs the second factors move behind the first; done through the tail, to allocate nothing.
        for index in 0..sources {
            let second = self.coefficients[first + 2 * index + 1];
            self.coefficients.push(second);
        }
        for index in 0..sources {
            self.coefficients[first + index] = self.coefficients[first + 2 * index];
        }
        let tail = first + 2 * sources;
        self.coefficients.copy_within(tail..tail + sources, first + sources);
        self.coefficients.truncate(tail);
    }
}
