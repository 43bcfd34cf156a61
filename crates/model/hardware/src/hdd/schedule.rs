//! Which queued command the arm can reach first.
//!
//! The cost of a command is the time until its first sector passes under its head, less a discount for the time it has
//! waited (aged shortest positioning time first). All inputs of a cost are computed when the command arrives and kept
//! in blocks with an array per quantity, so that a choice is one straight pass that the compiler vectorises, and a short
//! line lies in a few lines of the processor's cache. Times are in ticks of
//! 2^-16 rotations: an angle wraps by masking, and a cost fits 32 bits.
//!
//! ```text
//!  cost = seek + margin + ((angle of the sector - angle of the platter - seek - margin) mod one turn) - weight * age
//! ```
//!
//! Source: Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7 (ASATF);
//! Worthington, Ganger and Patt, "Scheduling algorithms for modern disk drives", SIGMETRICS 1994 (ASPTF).

use super::geometry::{Geometry, Place};
use super::model::{DataSheet, HardDriveModel, MeasuredMechanics, MechanicsModel};
use super::seek::{SeekCurve, SeekError};
use raidlab_units::{NanoSpan, Nanos};
use std::sync::Arc;

/// One turn in ticks.
const TURN_TICKS: f32 = 65536.0;
/// Bits by which a tick is coarser than a position of the geometry.
const TICK_SHIFT: u32 = 16;
/// A sector that starts this little before "now" is still caught when the arm need not move: it is where the last
/// command ended, and times are whole nanoseconds.
const CATCH_TICKS: u32 = 2;

/// The movements of the arm.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    moves: Moves,
    margin: u32,
    /// Discount per tick of age, in 2^-16.
    age_weight_q16: u64,
}

/// How long movements take, in ticks.
#[derive(Clone, Debug)]
enum Moves {
    Curve(CurveMoves),
    Table(TableMoves),
}

/// Seeks by a curve through the figures of a data sheet.
#[derive(Clone, Copy, Debug)]
struct CurveMoves {
    read: SeekCurve,
    /// What a write takes more.
    write_extra: SeekCurve,
    head_switch: f32,
}

/// Seeks by distance, as measured.
#[derive(Clone, Debug)]
struct TableMoves {
    seek: Arc<[f32]>,
    head_switch: f32,
    /// What a write takes more after any movement, or less.
    write_settle: f32,
    /// What a read takes at least, without a movement, too.
    in_place_read: f32,
    /// What a write takes more than that, or less.
    in_place_write_extra: f32,
}

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArmPosition {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

impl Arm {
    /// The arm of a drive with this geometry.
    pub(crate) fn new(model: &HardDriveModel, geometry: &Geometry) -> Result<Self, SeekError> {
        let in_ticks = |span: NanoSpan| geometry.turns_in(span) as f32 / (1 << TICK_SHIFT) as f32;
        let moves = match &model.mechanics {
            MechanicsModel::DataSheet(sheet) => {
                Moves::Curve(CurveMoves::new(sheet, geometry.cylinders(), in_ticks)?)
            }
            MechanicsModel::Measured(measured) => Moves::Table(TableMoves::new(measured, in_ticks)),
        };
        Ok(Self {
            moves,
            margin: in_ticks(model.firmware.positioning_margin).ceil() as u32,
            age_weight_q16: (model.firmware.age_weight * 65536.0).round() as u64,
        })
    }

    /// When the first sector, at `place`, passes under its head, the arm setting out from `from` at `begin`.
    ///
    /// Without a move this can be a moment before `begin`, by less than the catch: the platter has not waited for
    /// the rounding of times, and a run of such sectors must not drift away from it.
    pub(crate) fn reach(
        &self,
        geometry: &Geometry,
        from: ArmPosition,
        begin: Nanos,
        place: &Place,
        write: bool,
    ) -> Nanos {
        const CATCH: u32 = CATCH_TICKS << TICK_SHIFT;
        let ticks = self.ticks_to(from, place, write);
        let ahead = (place.turn as u32).wrapping_sub(geometry.angle_at(begin));
        if ticks == 0.0 {
            let behind = ahead.wrapping_neg();
            return if ahead != 0 && behind <= CATCH {
                Nanos(begin.0.saturating_sub(geometry.time_of(u64::from(behind)).0))
            } else {
                begin + geometry.time_of(u64::from(ahead))
            };
        }
        let ready =
            (f64::from(ticks) * f64::from(1 << TICK_SHIFT)) as u64 + (u64::from(self.margin) << TICK_SHIFT);
        begin + geometry.time_of(ready + u64::from(ahead.wrapping_sub(ready as u32)))
    }

    /// When the arm, setting out from `from` at `begin`, can read or write on the track of `place`.
    pub(crate) fn ready(
        &self,
        geometry: &Geometry,
        from: ArmPosition,
        begin: Nanos,
        place: &Place,
        write: bool,
    ) -> Nanos {
        let ticks = self.ticks_to(from, place, write);
        begin + geometry.time_of((f64::from(ticks) * f64::from(1 << TICK_SHIFT)) as u64)
    }

    /// Ticks that the arm takes from `from` to the track of `place`.
    #[inline]
    fn ticks_to(&self, from: ArmPosition, place: &Place, write: bool) -> f32 {
        let distance = place.cylinder.abs_diff(from.cylinder) as f32;
        self.move_ticks(distance, place.head != from.head, if write { 1.0 } else { 0.0 })
    }

    #[inline]
    fn move_ticks(&self, distance: f32, other_head: bool, write: f32) -> f32 {
        match &self.moves {
            Moves::Curve(curve) => curve.ticks(distance, other_head, write),
            Moves::Table(table) => table.ticks(distance, other_head, write),
        }
    }

    /// The discount for a wait from `since` to `now`, in the unit of [`Choice::cost`].
    pub(crate) fn discount_between(&self, geometry: &Geometry, since: Nanos, now: Nanos) -> i32 {
        self.discount(geometry, now).wrapping_sub(self.discount(geometry, since)).cast_signed()
    }

    #[inline]
    fn discount(&self, geometry: &Geometry, at: Nanos) -> u32 {
        let ticks = geometry.turns_in(NanoSpan(at.0)) >> TICK_SHIFT;
        ((ticks * self.age_weight_q16) >> 16) as u32
    }
}

impl CurveMoves {
    fn new(sheet: &DataSheet, cylinders: u32, in_ticks: impl Fn(NanoSpan) -> f32) -> Result<Self, SeekError> {
        let ticks_per_ns = in_ticks(NanoSpan::from_secs(1)) / 1e9;
        let read = SeekCurve::fit(&sheet.seek_read, cylinders)?.scaled(ticks_per_ns);
        let write = SeekCurve::fit(&sheet.seek_write, cylinders)?.scaled(ticks_per_ns);
        Ok(Self { read, write_extra: write.less(&read), head_switch: in_ticks(sheet.head_switch) })
    }

    /// Time to move over `distance` cylinders, or to another head; `write` is 1 or 0.
    #[inline]
    fn ticks(&self, distance: f32, other_head: bool, write: f32) -> f32 {
        let steps = (distance - 1.0).max(0.0);
        let root = steps.sqrt();
        let seek = self.read.at(root, steps) + write * self.write_extra.at(root, steps);
        let switch = if other_head { self.head_switch } else { 0.0 };
        if distance < 0.5 { switch } else { seek }
    }
}

impl TableMoves {
    fn new(measured: &MeasuredMechanics, in_ticks: impl Fn(NanoSpan) -> f32) -> Self {
        let settle = in_ticks(NanoSpan(measured.write_settle_ns.unsigned_abs()));
        Self {
            seek: measured.seek.iter().map(|span| in_ticks(*span)).collect(),
            head_switch: in_ticks(measured.head_switch),
            write_settle: settle * measured.write_settle_ns.signum() as f32,
            in_place_read: in_ticks(measured.settle_in_place_read),
            in_place_write_extra: in_ticks(measured.settle_in_place_write)
                - in_ticks(measured.settle_in_place_read),
        }
    }

    /// Time to move over `distance` cylinders, or to another head; `write` is 1 or 0.
    #[inline]
    fn ticks(&self, distance: f32, other_head: bool, write: f32) -> f32 {
        let seek = self.seek[(distance as usize).min(self.seek.len() - 1)];
        let moved = seek.max(if other_head { self.head_switch } else { 0.0 });
        let settled = if moved > 0.0 { moved + write * self.write_settle } else { 0.0 };
        settled.max(self.in_place_read + write * self.in_place_write_extra)
    }
}

/// Commands priced together: a vector register or two for each quantity.
const LANES: usize = 8;

/// What the costs of some commands are computed from.
#[derive(Clone, Debug, Default)]
struct Block {
    cylinder: [f32; LANES],
    head: [u32; LANES],
    angle: [u32; LANES],
    write: [f32; LANES],
    discount: [u32; LANES],
}

/// Commands that wait for the arm, each with its job.
#[derive(Clone, Debug)]
pub(crate) struct Schedule<J> {
    /// Enough for all jobs; lanes behind the last one hold whatever was there.
    blocks: Vec<Block>,
    jobs: Vec<J>,
}

/// Whether the age of a command discounts its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ages {
    /// Somebody waits for it.
    Count,
    /// Nobody does, or for all in the same way.
    Ignore,
}

/// The best command of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) index: usize,
    pub(crate) cost: i32,
}

/// What all costs of one choice have in common.
#[derive(Clone, Copy)]
struct Platter {
    angle: u32,
    discount: u32,
    age_mask: u32,
}

impl<J> Schedule<J> {
    pub(crate) fn with_capacity(jobs: usize) -> Self {
        Self { blocks: Vec::with_capacity(jobs.div_ceil(LANES)), jobs: Vec::with_capacity(jobs) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn jobs(&self) -> &[J] {
        &self.jobs
    }

    pub(crate) fn job_mut(&mut self, index: usize) -> &mut J {
        &mut self.jobs[index]
    }

    /// Drops all jobs.
    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }

    /// Adds a job that starts at `place`.
    #[inline]
    pub(crate) fn push(
        &mut self,
        arm: &Arm,
        geometry: &Geometry,
        now: Nanos,
        place: &Place,
        write: bool,
        job: J,
    ) {
        let (block, lane) = (self.jobs.len() / LANES, self.jobs.len() % LANES);
        if block == self.blocks.len() {
            self.blocks.push(Block::default());
        }
        let block = &mut self.blocks[block];
        block.cylinder[lane] = place.cylinder as f32;
        block.head[lane] = place.head;
        block.angle[lane] = place.turn as u32 >> TICK_SHIFT;
        block.write[lane] = if write { 1.0 } else { 0.0 };
        block.discount[lane] = arm.discount(geometry, now);
        self.jobs.push(job);
    }

    /// Takes out the job at `index`; the last one takes its place.
    #[inline]
    pub(crate) fn take(&mut self, index: usize) -> J {
        let job = self.jobs.swap_remove(index);
        let last = self.jobs.len();
        let (from, lane) = (last / LANES, last % LANES);
        let (to, to_lane) = (index / LANES, index % LANES);
        self.blocks[to].cylinder[to_lane] = self.blocks[from].cylinder[lane];
        self.blocks[to].head[to_lane] = self.blocks[from].head[lane];
        self.blocks[to].angle[to_lane] = self.blocks[from].angle[lane];
        self.blocks[to].write[to_lane] = self.blocks[from].write[lane];
        self.blocks[to].discount[to_lane] = self.blocks[from].discount[lane];
        job
    }

    /// The job that an arm at `from` reaches first when it sets out at `begin`.
    #[inline]
    pub(crate) fn choose(
        &self,
        arm: &Arm,
        geometry: &Geometry,
        from: ArmPosition,
        begin: Nanos,
        ages: Ages,
    ) -> Option<Choice> {
        if self.jobs.is_empty() {
            return None;
        }
        let age_mask = match ages {
            Ages::Count => u32::MAX,
            Ages::Ignore => 0,
        };
        let platter = Platter {
            angle: geometry.angle_at(begin) >> TICK_SHIFT,
            discount: arm.discount(geometry, begin),
            age_mask,
        };
        Some(self.cheapest(arm, from, platter))
    }

    fn cheapest(&self, arm: &Arm, from: ArmPosition, now: Platter) -> Choice {
        // Predictions are whole ticks: two more keep a predicted catch from being a real miss.
        let margin = arm.margin + 2;
        match &arm.moves {
            Moves::Curve(curve) => self.cheapest_by(|block| {
                block.price(margin, from, now, |d, head, write| curve.ticks(d, head, write))
            }),
            Moves::Table(table) => self.cheapest_by(|block| {
                block.price(margin, from, now, |d, head, write| table.ticks(d, head, write))
            }),
        }
    }

    /// The first job of the least cost; `price` has the costs of a block.
    #[inline]
    fn cheapest_by(&self, price: impl Fn(&Block) -> [i32; LANES]) -> Choice {
        let mut best = Choice { index: 0, cost: i32::MAX };
        for (number, block) in self.blocks.iter().take(self.jobs.len().div_ceil(LANES)).enumerate() {
            let first = number * LANES;
            let jobs = (self.jobs.len() - first) as u32;
            let mut costs = price(block);
            for (lane, cost) in (0..).zip(&mut costs) {
                *cost = if lane < jobs { *cost } else { i32::MAX };
            }
            let cost = costs.iter().copied().fold(i32::MAX, i32::min);
            if cost < best.cost {
                let lane = costs.iter().position(|other| *other == cost).unwrap_or(0);
                best = Choice { index: first + lane, cost };
            }
        }
        best
    }
}

impl Block {
    /// The cost of every lane. Arrays of one length let the compiler vectorize.
    #[inline]
    fn price(
        &self,
        margin: u32,
        from: ArmPosition,
        now: Platter,
        move_ticks: impl Fn(f32, bool, f32) -> f32,
    ) -> [i32; LANES] {
        let from_cylinder = from.cylinder as f32;
        let mut costs = [0; LANES];
        for (i, cost) in costs.iter_mut().enumerate() {
            let distance = (self.cylinder[i] - from_cylinder).abs();
            let ticks = move_ticks(distance, self.head[i] != from.head, self.write[i]);
            // Adding 2^23 leaves the whole ticks in the low bits of the float: a conversion that vectorizes.
            let moved = (ticks + 8_388_608.0).to_bits() & 0x7f_ffff;
            let ready = if ticks > 0.0 { moved + margin } else { 0u32.wrapping_sub(CATCH_TICKS) };
            let wait = self.angle[i].wrapping_sub(now.angle.wrapping_add(ready)) & (TURN_TICKS as u32 - 1);
            let reach = ready.wrapping_add(wait).cast_signed();
            let discount = now.discount.wrapping_sub(self.discount[i]) & now.age_mask;
            *cost = reach.wrapping_sub(discount.cast_signed());
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cheetah;
    use super::*;
    use crate::drive::Sector;
    use proptest::prelude::*;

    proptest! {
        /// The choice of the vector code is the one that the exact arithmetic of [`Arm::reach`] makes, up to the
        /// few ticks by which the two round differently.
        #[test]
        fn chooses_what_the_arm_reaches_first(
            sectors in prop::collection::vec((0u64..1_172_000_000, any::<bool>()), 2..64),
            from in 0u64..1_172_000_000,
            begin in 0u64..10_000_000_000,
        ) {
            let (mut model, capacity) = cheetah();
            model.firmware.age_weight = 0.0;
            let geometry = Geometry::new(&model.mechanics, capacity).expect("sound");
            let arm = Arm::new(&model, &geometry).expect("sound");
            let here = geometry.place(Sector(from));
            let here = ArmPosition { cylinder: here.cylinder, head: here.head };
            let mut schedule = Schedule::with_capacity(64);
            for (sector, write) in &sectors {
                schedule.push(&arm, &geometry, Nanos::ZERO, &geometry.place(Sector(*sector)), *write, (*sector, *write));
            }
            let choice = schedule.choose(&arm, &geometry, here, Nanos(begin), Ages::Count).expect("not empty");
            // The oracle: the exact time of each, a near miss being as good as a catch only for the oracle.
            let reach_ns = |(sector, write): (u64, bool)| {
                arm.reach(&geometry, here, Nanos(begin), &geometry.place(Sector(sector)), write).0.saturating_sub(begin)
            };
            let tick_ns = geometry.time_of(1 << TICK_SHIFT).0;
            let chosen = reach_ns(schedule.jobs()[choice.index]);
            prop_assert!(chosen <= (choice.cost.max(0) as u64 + 2) * tick_ns, "the prediction was too hopeful");
            for job in &sectors {
                // What the exact arithmetic catches with a few ticks to spare, the prediction catches too.
                let late = Nanos(begin + 5 * tick_ns);
                let spare = arm.reach(&geometry, here, late, &geometry.place(Sector(job.0)), job.1).0;
                prop_assert!(chosen <= spare - begin + 5 * tick_ns, "{job:?} comes before the choice, {chosen} ns");
            }
        }
    }

    #[test]
    fn age_lets_an_old_far_command_win() {
        let (mut model, capacity) = cheetah();
        let geometry = Geometry::new(&model.mechanics, capacity).expect("sound");
        let near = geometry.place(Sector(5000));
        let far = geometry.place(Sector(1_100_000_000));
        for (weight, waited_ms, far_wins) in [(0.0, 10_000, false), (0.1, 10, false), (0.1, 1000, true)] {
            model.firmware.age_weight = weight;
            let arm = Arm::new(&model, &geometry).expect("sound");
            let begin = Nanos(NanoSpan::from_millis(20_000).0);
            let mut schedule = Schedule::with_capacity(2);
            let long_ago = Nanos(begin.0 - NanoSpan::from_millis(waited_ms).0);
            schedule.push(&arm, &geometry, long_ago, &far, false, "far");
            schedule.push(&arm, &geometry, begin, &near, false, "near");
            let choice =
                schedule.choose(&arm, &geometry, ArmPosition::default(), begin, Ages::Count).expect("two");
            assert_eq!(schedule.jobs()[choice.index] == "far", far_wins, "weight {weight}, {waited_ms} ms");
        }
    }
}
