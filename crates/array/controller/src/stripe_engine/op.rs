//! A stripe operation: what it is for, what it does at each unit, and how far it is.

use super::evidence::Trial;
use super::plan::{Plan, UnitView};
use super::units::UnitUse;
use super::windows::Failed;
use super::writing::{Piece, Writing};
use crate::api::{BufferRef, HostTag, IoClass, MemberError, Segment};
use crate::geometry::Geometry;
use crate::ids::{LockKey, SlotIndex, VisitId};
use crate::member_io::OpIo;
use crate::memory_task::push_joined;
use crate::metadata::Metadata;
use crate::request::{Fragment, Rows};
use crate::table::NIL;
use raidlab_raid::UnitPlace;
use raidlab_units::StripeIndex;

/// What a stripe operation is for, with what only that kind has. What only writes have is [`Writing`]: its lists keep their memory
/// from one operation to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Job {
    /// Writes its pieces.
    #[default]
    Write,
    /// Reads one fragment that its own member can't give.
    Recover(Fragment),
    /// Makes rows of one unit up from the others and writes them to the device that should hold them.
    Restore(VisitStep),
    /// Reads rows of one unit, to see whether they can be read.
    Probe(VisitStep),
    /// Compares redundancy with data, and makes it agree.
    Compare(VisitStep, Comparison),
}

impl Job {
    /// The step of a visit that it is, if it goes on in the background.
    pub(crate) const fn step(&self) -> Option<VisitStep> {
        match *self {
            Self::Write | Self::Recover(_) => None,
            Self::Restore(step) | Self::Probe(step) | Self::Compare(step, _) => Some(step),
        }
    }

    /// The rows that it is for; those of a write are its pieces'.
    pub(super) const fn rows(&self) -> Option<Rows> {
        match *self {
            Self::Write => None,
            Self::Recover(fragment) => Some(fragment.rows),
            Self::Restore(step) | Self::Probe(step) | Self::Compare(step, _) => Some(step.rows),
        }
    }

    /// The unit that is to be made up from the others.
    pub(super) const fn made_up(&self) -> Option<u16> {
        match *self {
            Self::Recover(fragment) => Some(fragment.strip),
            Self::Restore(step) => Some(step.unit),
            Self::Write | Self::Probe(_) | Self::Compare(..) => None,
        }
    }
}

/// A step of a visit to a stripe in the background: on these rows of a unit, or of all for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisitStep {
    pub(crate) visit: VisitId,
    pub(crate) unit: u16,
    pub(crate) rows: Rows,
}

/// How a comparison goes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Blocks have checksums, so that it reads where nothing else is to be compared.
    pub(crate) has_checksums: bool,
    /// It believes the data, and the first copy.
    pub(crate) trusts_data: bool,
    /// It compares with data that was made up from parity for that.
    pub(crate) has_restored: bool,
    /// What it tries out.
    pub(crate) trial: Trial,
}

/// How far an operation is:
/// ```text
/// Gathering ─► Planned ─► Reading ─► Computing ─► WritingData ─► Writing ─► ended
///                 ▲  ▲       │           └──────────────────────────▲│
///                 │  └───────┘ a read failed                         │
///                 └──────────────────────────────── the next window ─┘
/// ```
/// Between computing and writing, write intent lets it go on, or the scans do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes in pieces, and has asked for nothing yet.
    #[default]
    Gathering,
    /// What it does at each unit is known. It may stand in line for staging.
    Planned,
    /// Units are being read, of which some could not be.
    Reading { failed: bool },
    /// Parity or what is lost is computed, digested, tried, and written down.
    Computing,
    /// Data is being written, and its parity has yet to be.
    WritingData,
    /// All that is left to be written is being written.
    Writing,
}

impl Phase {
    /// Whether `next` may follow.
    const fn goes_on_to(self, next: Self) -> bool {
        match next {
            Self::Gathering => false,
            Self::Planned => matches!(self, Self::Gathering | Self::Reading { failed: true } | Self::Writing),
            Self::Reading { .. } => matches!(self, Self::Planned),
            Self::Computing => matches!(self, Self::Reading { failed: false }),
            Self::WritingData => matches!(self, Self::Computing),
            Self::Writing => matches!(self, Self::Computing | Self::WritingData),
        }
    }
}

/// One operation on one stripe.
#[derive(Debug, Default)]
pub(crate) struct StripeOp {
    pub(super) key: LockKey,
    pub(super) stripe: StripeIndex,
    pub(super) job: Job,
    class: Option<IoClass>,
    phase: Phase,
    /// I/O that it waits for.
    pending: u32,
    pub(super) plan: Plan,
    /// The rows from the first to the last that it is about.
    pub(super) hull: Rows,
    /// Where each unit of the stripe begins.
    pub(super) places: Vec<UnitPlace>,
    /// Data strips, then parity strips.
    pub(super) units: Vec<UnitUse>,
    pub(super) views: Vec<UnitView>,
    /// Units that failed to read although their member answers.
    pub(super) unreadable: Vec<u16>,
    /// It tries what could not be read once more: it can't do without.
    pub(super) dares: bool,
    /// What it takes of [`crate::ArrayRules::stripe_pages_max`].
    pub(super) stripe_pages: u32,
    pub(super) writing: Writing,
}

impl StripeOp {
    /// Makes it a new one without pieces. What it had allocated stays.
    pub(super) fn begin(
        &mut self,
        geometry: &Geometry,
        (key, stripe): (LockKey, StripeIndex),
        job: Job,
        class: IoClass,
    ) {
        (self.key, self.stripe, self.job, self.class) = (key, stripe, job, Some(class));
        (self.phase, self.pending, self.dares, self.stripe_pages) = (Phase::Gathering, 0, false, 0);
        self.writing.begin();
        self.unreadable.clear();
        self.unreadable.extend(job.made_up());
        geometry.lock_places(key, &mut self.places);
    }

    /// The lock that it holds.
    #[inline]
    pub(crate) const fn key(&self) -> LockKey {
        self.key
    }

    /// The stripe that it works on.
    #[inline]
    pub(crate) const fn stripe(&self) -> StripeIndex {
        self.stripe
    }

    /// What it is for.
    #[inline]
    pub(crate) const fn job(&self) -> &Job {
        &self.job
    }

    /// True if it writes pieces.
    #[inline]
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self.job, Job::Write)
    }

    /// True if it compares.
    pub(crate) const fn is_comparison(&self) -> bool {
        matches!(self.job, Job::Compare(..))
    }

    /// The step of a visit that it is.
    pub(crate) fn step(&self) -> VisitStep {
        self.job.step().expect("only operations in the background are asked")
    }

    /// The rows from the first to the last that it is about.
    #[inline]
    pub(crate) const fn hull(&self) -> Rows {
        self.hull
    }

    /// Where each unit of the stripe begins.
    #[inline]
    pub(crate) fn places(&self) -> &[UnitPlace] {
        &self.places
    }

    /// Units that failed to read although their member answers.
    pub(crate) fn unreadable(&self) -> &[u16] {
        &self.unreadable
    }

    /// Hands that list over to `taker`, which gives another for it.
    pub(crate) fn swap_unreadable(&mut self, taker: &mut Vec<u16>) {
        core::mem::swap(&mut self.unreadable, taker);
    }

    /// True if it tries what could not be read once more.
    #[inline]
    pub(crate) const fn dares(&self) -> bool {
        self.dares
    }

    /// True if it must be durable when it ends.
    #[inline]
    pub(crate) const fn is_forced(&self) -> bool {
        self.writing.fua
    }

    /// What it writes in this window, by strip, then row.
    #[inline]
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.writing.pieces
    }

    /// What could not be stored.
    #[inline]
    pub(crate) const fn failed(&self) -> &Failed {
        &self.writing.failed
    }

    /// Host requests to tell, one entry per fragment written through.
    #[inline]
    pub(crate) fn told(&self) -> &[HostTag] {
        &self.writing.told
    }

    /// Cache slots being destaged.
    #[inline]
    pub(crate) fn slots(&self) -> &[SlotIndex] {
        &self.writing.slots
    }

    /// One that writes the first row of the first strip of a stripe and its parity, from the first staging place.
    #[cfg(test)]
    pub(crate) fn write_a_row(&mut self, geometry: &Geometry, stripe: StripeIndex, source: BufferRef) {
        let rows = Rows::between(0, 1);
        (self.key, self.stripe, self.hull, self.plan) =
            (LockKey::of_stripe(stripe), stripe, rows, Plan::ReadModifyWrite);
        self.writing.pieces = vec![Piece { strip: 0, rows, source }];
        self.units = vec![UnitUse::IDLE; geometry.unit_count()];
        self.units[geometry.data_strips()].staging = 0;
        geometry.lock_places(self.key, &mut self.places);
    }

    /// Makes that one write the same row of all strips.
    #[cfg(test)]
    pub(crate) fn write_whole_rows(&mut self, geometry: &Geometry) {
        let first = self.writing.pieces[0];
        self.writing.pieces =
            (0..geometry.data_strips() as u16).map(|strip| Piece { strip, ..first }).collect();
        self.plan = Plan::ReconstructWrite;
    }

    /// How urgent its I/O is.
    pub(crate) fn class(&self) -> IoClass {
        self.class.expect("set when the operation was begun")
    }

    /// True if it reads before it computes.
    pub(crate) fn reads_any(&self) -> bool {
        self.units.iter().any(|unit| !unit.read.is_empty())
    }

    /// The first unit from `from` on that it reads, with rows and place.
    pub(crate) fn next_read(&self, from: u16) -> Option<(u16, Rows, UnitPlace)> {
        let skipped = self.units.get(usize::from(from)..)?.iter().position(|unit| !unit.read.is_empty())?;
        let unit = usize::from(from) + skipped;
        Some((unit as u16, self.units[unit].read, self.places[unit]))
    }

    /// Takes in that it is being planned, anew where something failed to read or another window follows.
    pub(super) fn begin_plan(&mut self) {
        self.enter(Phase::Planned);
    }

    /// Begins to ask for reads. The caller counts as one I/O, so that the last that it asks for can't end before the next.
    pub(crate) fn begin_reads(&mut self) {
        self.enter(Phase::Reading { failed: false });
        self.pending = 1;
    }

    /// Takes in that all is read.
    pub(crate) fn begin_computing(&mut self) {
        self.enter(Phase::Computing);
    }

    /// Begins to ask for writes of data, behind which parity follows; the caller counts as one.
    pub(crate) fn begin_data_writes(&mut self) {
        self.enter(Phase::WritingData);
        self.pending = 1;
    }

    /// Goes on to writes of parity, beside those of data or behind them.
    pub(crate) fn begin_parity_writes(&mut self) {
        self.enter(Phase::Writing);
    }

    /// Begins to ask for writes in the background; the caller counts as one.
    pub(crate) fn begin_rewrites(&mut self) {
        self.enter(Phase::Writing);
        self.pending = 1;
    }

    fn enter(&mut self, phase: Phase) {
        debug_assert!(self.phase.goes_on_to(phase), "{:?} is not followed by {phase:?}", self.phase);
        self.phase = phase;
    }

    /// True if its parity has yet to be written.
    pub(crate) fn parity_is_due(&self) -> bool {
        self.phase == Phase::WritingData
    }

    /// Counts one more I/O.
    pub(crate) const fn count_io(&mut self) {
        self.pending += 1;
    }

    /// Takes in the end of one. Returns true if it was the last.
    pub(crate) const fn end_io(&mut self) -> bool {
        self.pending -= 1;
        self.pending == 0
    }

    /// Notes that a read failed, of a unit that is to be left alone if its device answers.
    pub(crate) fn note_read_failed(&mut self, unit: u16, error: MemberError) {
        self.phase = Phase::Reading { failed: true };
        // A member that is gone is missing from now on; a bad block is held against this unit only.
        if error == MemberError::Medium {
            self.unreadable.push(unit);
        }
    }

    /// True if something that it read could not be read.
    pub(crate) fn has_read_failed(&self) -> bool {
        self.phase == (Phase::Reading { failed: true })
    }

    /// Where `row` of a unit lies in the staging place for it.
    pub(crate) fn staged(&self, geometry: &Geometry, unit: u16, row: u32) -> BufferRef {
        geometry.staging_buffer(self.units[usize::from(unit)].staging, row)
    }

    /// Lists where the bytes of an I/O of the operation lie, in order; of all but data they are `bytes` together.
    pub(crate) fn segments(&self, geometry: &Geometry, io: OpIo, bytes: u64, out: &mut Vec<Segment>) {
        let uses = |unit: u16| &self.units[usize::from(unit)];
        let buffer = match io {
            OpIo::Read { unit, .. } => self.staged(geometry, unit, uses(unit).read.first),
            OpIo::Rewrite { unit, .. } => self.staged(geometry, uses(unit).from, uses(unit).write.first),
            OpIo::WriteParity { unit, .. } => self.staged(geometry, unit, self.hull.first),
            OpIo::WriteData { first_piece, pieces, .. } => {
                for piece in &self.writing.pieces[first_piece as usize..(first_piece + pieces) as usize] {
                    let bytes = u64::from(piece.rows.count) * geometry.block_bytes();
                    push_joined(out, Segment { buffer: piece.source, bytes });
                }
                return;
            }
        };
        out.push(Segment { buffer, bytes });
    }

    /// True if it writes a unit that holds parity, by the staging place of it.
    fn has_new_parity(&self, unit: usize) -> bool {
        self.plan.computes_parity() && self.units[unit].staging != NIL
    }

    /// The parity units that it writes, with their places.
    pub(crate) fn new_parities(&self, geometry: &Geometry) -> impl Iterator<Item = (u16, UnitPlace)> {
        let units = geometry.data_strips()..self.units.len();
        units.filter(|&unit| self.has_new_parity(unit)).map(|unit| (unit as u16, self.places[unit]))
    }

    /// True if it writes past parity that is there, but does not agree. No record brings back what it writes, and parity that is
    /// computed from it later must not find it gone.
    pub(crate) fn leaves_parity_behind(&self, geometry: &Geometry, metadata: &Metadata) -> bool {
        let is_held = |unit: usize| metadata.holds(self.places[unit]);
        !self.plan.computes_parity() && (geometry.data_strips()..geometry.unit_count()).any(is_held)
    }

    /// True if it writes parity that some device takes.
    pub(crate) fn writes_parity(&self, geometry: &Geometry, metadata: &Metadata) -> bool {
        self.new_parities(geometry).any(|(_, place)| metadata.holds(place))
    }

    /// True if it makes new parity.
    pub(crate) const fn computes_parity(&self) -> bool {
        self.plan.computes_parity()
    }

    /// True if parity will no longer agree with what it writes.
    pub(crate) fn gives_parity_up(&self) -> bool {
        self.plan == Plan::Abandon
    }

    /// The rows of a unit that it writes in the background, if any, and where the unit begins.
    pub(crate) fn rewrite(&self, unit: u16) -> Option<(UnitPlace, Rows)> {
        let rows = self.units[usize::from(unit)].write;
        (!rows.is_empty()).then(|| (self.places[usize::from(unit)], rows))
    }

    /// True if it writes anything in the background.
    pub(crate) fn rewrites_any(&self) -> bool {
        self.units.iter().any(|unit| !unit.write.is_empty())
    }

    /// True if a unit could not be read.
    pub(crate) fn is_unreadable(&self, unit: u16) -> bool {
        !self.views[usize::from(unit)].readable
    }

    /// True if it writes to a unit that it has read.
    pub(crate) fn will_write(&self, unit: u16) -> bool {
        let view = &self.views[usize::from(unit)];
        let is_data = self.writing.pieces.iter().any(|piece| piece.strip == unit);
        let is_parity =
            self.units[usize::from(unit)].staged && view.touched.is_empty() && view.gap.is_empty();
        self.is_write() && view.stored && (is_data || (is_parity && self.plan.computes_parity()))
    }

    /// Keeps where the checksums of a unit lie until it is written. Returns false if it will not be, or has them.
    pub(crate) fn keep_checksums(&mut self, unit: u16, place: u32) -> bool {
        let keeps = self.will_write(unit) && self.units[usize::from(unit)].tags == NIL;
        if keeps {
            self.units[usize::from(unit)].tags = place;
        }
        keeps
    }

    /// Takes what checksums were kept for the unit that an I/O writes.
    pub(crate) fn take_checksums(&mut self, io: OpIo) -> Option<u32> {
        let unit = match io {
            OpIo::WriteParity { unit, .. } => unit,
            OpIo::WriteData { first_piece, .. } => self.writing.pieces[first_piece as usize].strip,
            OpIo::Read { .. } | OpIo::Rewrite { .. } => return None,
        };
        // Without parity nothing is read before it is written.
        let uses = self.units.get_mut(usize::from(unit))?;
        let place = core::mem::replace(&mut uses.tags, NIL);
        (place != NIL).then_some(place)
    }

    /// Takes what checksums are left that were kept, one by one.
    pub(crate) fn take_kept_checksums(&mut self) -> Option<u32> {
        let unit = self.units.iter_mut().find(|unit| unit.tags != NIL)?;
        Some(core::mem::replace(&mut unit.tags, NIL))
    }
}
