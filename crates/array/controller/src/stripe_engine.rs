//! Stripe operations: the one way in which redundancy changes or is used.
//!
//! ```text
//!            ┌────────── a read failed: plan again without that unit ─────────┐
//!            ▼                                                                │
//!  lock ─► plan ─► wait for staging ─► read units ─► compute parity ─► write data and parity ─► unlock
//!                                                        └─ recover: into the host's buffer ─────►┘
//! ```
//! All member writes of an operation start together, after everything was read and computed (data first and then parity, where
//! [`crate::CacheConfig::parity_after_data`] says so). Writes to a member that is missing by then are left out, which is right
//! because parity already accounts for the new data. Rows whose write ends in a medium error are bad blocks of their member from
//! then on. A write that finds bad blocks in its way may be carried out in several windows, one after the other (`windows.rs`).
//!
//! `units.rs` says what an operation finds and does at each unit, `plan.rs` how parity follows, `steps.rs` how it is computed.
//! Operations in the background take the same way up to the computing; `restore.rs` and `compare.rs` say what they do then.
//!
//! Invariant: an operation holds staging places from the end of its planning until it is planned again or ends. Left out: the
//! I/O and memory tasks of operations, which the controller asks for (`controller/stripes.rs`).

mod compare;
mod evidence;
mod op;
mod plan;
mod restore;
mod staging;
mod steps;
mod stripe_cache;
mod units;
mod windows;
mod writing;

pub(crate) use evidence::{Finding, Settled};
pub(crate) use op::{Comparison, Job, StripeOp, VisitStep};
pub(crate) use writing::{DestageVolume, Piece};

use crate::api::IoClass;
use crate::config::ArrayConfig;
use crate::geometry::Geometry;
use crate::ids::{LockKey, OpId};
use crate::member_io::MemberIos;
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::rules::ParityUpdate;
use crate::table::Slab;
use plan::{BeyondRedundancy, Plan};
use raidlab_format::row_checksum;
use raidlab_units::StripeIndex;
use staging::Staging;
use stripe_cache::Directory;

/// What planning looks at of the others.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) metadata: &'a Metadata,
    pub(crate) ios: &'a MemberIos,
}

/// How an operation goes on that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// It has its staging places.
    Ready,
    /// It stands in line for them.
    InLine,
    /// Redundancy is too little.
    Impossible,
}

/// The operations, and the memory that they share.
#[derive(Debug)]
pub(crate) struct StripeEngine {
    ops: Slab<StripeOp, OpId>,
    staging: Staging,
    /// What Linux md's stripe cache holds, where that is followed.
    stripe_cache: Option<Directory>,
    parity_update: ParityUpdate,
    /// What the checksum of a block of zeros is.
    zero_checksum: u32,
}

impl StripeEngine {
    /// An engine with so many staging places for an array with or without parity.
    pub(crate) fn new(config: &ArrayConfig, staging_places: u32, has_parity: bool) -> Self {
        let rules = &config.cache.rules;
        Self {
            ops: Slab::new(),
            staging: Staging::new(staging_places, rules.stripe_pages_max),
            stripe_cache: Directory::of(rules).filter(|_| has_parity),
            parity_update: rules.parity_update,
            zero_checksum: row_checksum(&vec![0; config.block_size.bytes() as usize]),
        }
    }

    /// An operation under way.
    #[inline]
    pub(crate) fn op(&self, id: OpId) -> &StripeOp {
        &self.ops[id]
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn op_mut(&mut self, id: OpId) -> &mut StripeOp {
        &mut self.ops[id]
    }

    /// All operations, by number.
    pub(crate) const fn ops(&self) -> &Slab<StripeOp, OpId> {
        &self.ops
    }

    /// Starts an empty operation on a stripe that the caller has locked.
    pub(crate) fn begin(
        &mut self,
        geometry: &Geometry,
        (key, stripe): (LockKey, StripeIndex),
        job: Job,
        class: IoClass,
    ) -> OpId {
        let id = self.ops.take();
        self.ops[id].begin(geometry, (key, stripe), job, class);
        if let Some(cache) = &mut self.stripe_cache {
            cache.take_place(key);
        }
        id
    }

    /// Lets the number of an operation that has ended be used again.
    pub(crate) fn end(&mut self, id: OpId) {
        self.ops.give(id);
    }

    /// Plans an operation, in windows where bad blocks are in its way, and takes staging places for it or puts it in line.
    pub(crate) fn plan(&mut self, id: OpId, around: Surroundings<'_>) -> Planned {
        let op = &mut self.ops[id];
        op.begin_plan();
        loop {
            op.view_units(around);
            if let Some(cache) = &self.stripe_cache {
                cache.view_pages(op, around.geometry, around.metadata);
            }
            match op.choose_plan(around, self.parity_update) {
                Ok(Plan::Abandon) | Err(BeyondRedundancy) if op.begins_to_dare(around) => {}
                Ok(plan) => {
                    op.plan = plan;
                    op.assign_units(around);
                    let is_ready = self.staging.take_or_wait(id, op, around.geometry);
                    return if is_ready { Planned::Ready } else { Planned::InLine };
                }
                Err(BeyondRedundancy) if op.narrow_window(around) || op.skip_window(around.geometry) => {}
                Err(BeyondRedundancy) => return Planned::Impossible,
            }
        }
    }

    /// Takes in the digests of an operation that compares, and says what they come to. What is wrong is to be written where it
    /// `makes_agree`.
    pub(crate) fn take_digests(
        &mut self,
        id: OpId,
        geometry: &Geometry,
        digests: &[u32],
        makes_agree: bool,
    ) -> Finding {
        let zero_checksum = self.zero_checksum;
        let op = &mut self.ops[id];
        if op.is_trying() {
            op.take_trial(geometry, digests, zero_checksum, makes_agree)
        } else {
            op.take_digests(geometry, digests, makes_agree)
        }
    }

    /// Takes the staging places of an operation back.
    pub(crate) fn release_staging(&mut self, id: OpId) {
        self.staging.release(&mut self.ops[id]);
    }

    /// Gives the first operation in line its staging places, if there is room. Returns it.
    pub(crate) fn next_in_line(&mut self, geometry: &Geometry) -> Option<OpId> {
        self.staging.next_in_line(&mut self.ops, geometry)
    }

    /// Takes so many staging places for a record that a start writes again. There are as many (asserted): no operation is under
    /// way, and a stripe fits in staging.
    pub(crate) fn take_places(&mut self, count: usize) -> Vec<u32> {
        self.staging.take_places(count)
    }

    /// Takes these back.
    pub(crate) fn give_places(&mut self, places: Vec<u32>) {
        self.staging.give_places(places);
    }

    /// Whether units are read and written by whole rows, and held afterwards.
    #[inline]
    pub(crate) const fn has_pages(&self) -> bool {
        self.stripe_cache.is_some()
    }

    /// True if the change of an operation finds in the stripe cache all that it needs.
    pub(crate) fn reads_nothing(&self, id: OpId, geometry: &Geometry) -> bool {
        self.stripe_cache.as_ref().is_some_and(|cache| cache.has_all(&self.ops[id], geometry))
    }

    /// Holds what a write has read and written.
    #[inline]
    pub(crate) fn hold_pages(&mut self, id: OpId, geometry: &Geometry) {
        if let Some(cache) = &mut self.stripe_cache {
            cache.hold(&self.ops[id], geometry);
        }
    }

    /// Forgets the page of a unit: the array has written something else there.
    pub(crate) fn forget_page(&mut self, key: LockKey, unit: u16) {
        if let Some(cache) = &mut self.stripe_cache {
            cache.forget(key, unit);
        }
    }

    /// The pieces from `first` on that one write has, and its rows: those that lie next to each other, or the whole page.
    pub(crate) fn written_run(&self, id: OpId, first: usize) -> (usize, Rows) {
        let op = &self.ops[id];
        let strip = op.pieces()[first].strip;
        let is_page = |view: &plan::UnitView| view.touched == op.hull;
        if self.has_pages() && op.views.get(usize::from(strip)).is_some_and(is_page) {
            let count = op.pieces()[first..].iter().take_while(|piece| piece.strip == strip).count();
            return (count, op.hull);
        }
        op.run_of_pieces(first)
    }
}

impl StripeOp {
    fn choose_plan(&self, around: Surroundings<'_>, update: ParityUpdate) -> Result<Plan, BeyondRedundancy> {
        match self.job {
            Job::Write => self.write_plan(around, update),
            Job::Recover(_) => self.recovery_possible(around),
            Job::Restore(_) => self.restore_possible(around),
            Job::Probe(step) => self.probe_possible(step.unit),
            Job::Compare(..) => self.comparison_possible(around.geometry),
        }
    }
}
