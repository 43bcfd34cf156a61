//! A drive's parameters from timing alone: accesses in, their durations out.
//!
//! ```
//! use raidlab_calibrate::check_sheet;
//! use raidlab_hardware::Catalog;
//!
//! // The model of a drive beside its data sheet.
//! let catalog = Catalog::builtin();
//! for row in check_sheet(catalog.drive("exos-x24-24tb")?) {
//!     println!("{}: {} on the sheet, {} predicted", row.figure.metric.name(), row.figure.value, row.predicted);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  TimedTarget: a file, a block device, an NBD export, or a model in virtual time
//!      └─ latency of random reads: does it rotate?
//!            ├─ yes (`rotational`): rotation, media rate and zones, overhead, seek curve, queue gain, buffer, read-ahead
//!            └─ no  (`flash`):   channels and dies by conflicts, page read, transfer, overhead, programs if writes are allowed
//!                  └─ `entry`: a drive of the catalogue, each figure with its method and its interval
//! ```
//! If there is only a drive's data sheet, `sheet` solves for the inside of a model that matches the sheet. `matrix`
//! replays the cells of a published latency matrix on a model; `fit_matrix` fits a model to some of them.
//!
//! The same code runs on real targets and on models: only the target behind [`TimedTarget`] differs. Everything is read
//! only unless [`Effort::may_write`] allows writes.
//!
//! - **Intervals** contain the value with 95 %, as far as the variation of repeats shows; a systematic error is not in
//!   them.
//! - Caches in front of the drive (a page cache, a controller with memory) change the figures. An impossible result (a
//!   rotation that does not repeat) is an error, not a guess.
//!
//! Nothing here reads a clock or knows a file. Sources: Worthington, Ganger, Patt and Wilkes, "On-line extraction of
//! SCSI disk
//! drive parameters", SIGMETRICS 1995; Talagala, Arpaci-Dusseau and Patterson, "Microbenchmark-based extraction of local and
//! global disk characteristics", 1999; Chen, Lee and Zhang, "Essential roles of exploiting internal parallelism of
//! flash memory
//! based solid state drives in high-speed data processing", HPCA 2011.
#![forbid(unsafe_code)]

mod believe;
mod entry;
mod estimate;
mod fit_matrix;
mod flash;
mod matrix;
mod modelled;
mod queueing;
mod rotational;
mod sheet;

pub use entry::EntryNames;
pub use estimate::Estimate;
pub use fit_matrix::{FittedFigure, MatrixTarget, cells_to_fit, fit_matrix};
pub use flash::FlashFound;
pub use matrix::{Arrivals, CellLatency, HostPacing, MatrixError, MatrixLoad, prefilled, replay_cell};
pub use modelled::ModelledTarget;
pub use rotational::{RotationalFound, Zone};
pub use sheet::{
    DiskSheet, Recording, SharedCaps, Sheet, SheetCache, SheetError, SheetFacts, SheetInterface, SheetKind,
    SheetModel, SheetRow, SheetSeeks, check_sheet, disk_from_sheet, model_from_sheet,
};

use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::Rng;
use serde::Serialize;

/// The unit of all short accesses, in bytes.
pub const PAGE: u64 = 4096;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// From the start of the target, in bytes; a multiple of the target's block.
    pub offset: u64,
    /// Length in bytes; a multiple of the target's block.
    pub bytes: u32,
    /// Whether it writes.
    pub is_write: bool,
}

impl Access {
    /// A read.
    pub const fn read(offset: u64, bytes: u32) -> Self {
        Self { offset, bytes, is_write: false }
    }
}

/// When an access began and ended, on the target's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When it was sent.
    pub start: Nanos,
    /// When its answer was there.
    pub end: Nanos,
}

impl Timing {
    /// How long it took, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.end.0.saturating_sub(self.start.0) as f64
    }
}

/// Something whose time is all that is seen.
pub trait TimedTarget {
    /// Bytes that can be read.
    fn capacity(&self) -> ByteCount;

    /// Does `accesses` in order, `depth` of them in flight, and returns the time of each, in order.
    ///
    /// # Errors
    /// What the target said, in words.
    fn run(&mut self, accesses: &[Access], depth: u32) -> Result<Vec<Timing>, String>;

    /// Offsets and lengths are multiples of this, in bytes; at most [`PAGE`].
    fn block_bytes(&self) -> u64;

    /// Leaves the target alone for so long.
    fn idle(&mut self, span: NanoSpan);
}

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Repeats of what is timed several times.
    pub repeats: u32,
    /// Reads for each seek distance.
    pub reads_per_distance: u32,
    /// Distances of the seek curve.
    pub distances: u32,
    /// Places at which the media rate is measured.
    pub rate_places: u32,
    /// Bytes read at each of them.
    pub rate_bytes: u64,
    /// Reads at each number in flight.
    pub queue_reads: u32,
    /// Whether writes are allowed; they overwrite what the target holds.
    pub may_write: bool,
    /// Seed of all places.
    pub seed: u64,
}

impl Effort {
    /// Some minutes on a hard drive.
    pub const THOROUGH: Self = Self {
        repeats: 9,
        reads_per_distance: 300,
        distances: 16,
        rate_places: 192,
        rate_bytes: 96 << 20,
        queue_reads: 1_500,
        may_write: false,
        seed: 1,
    };
    /// Half a minute on a hard drive; zones and the shortest seeks come out less sure.
    pub const QUICK: Self = Self {
        repeats: 5,
        reads_per_distance: 80,
        distances: 8,
        rate_places: 24,
        rate_bytes: 8 << 20,
        queue_reads: 300,
        ..Self::THOROUGH
    };
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Found {
    /// Platters.
    Rotational(Box<RotationalFound>),
    /// Flash, or anything else that does not turn.
    Flash(Box<FlashFound>),
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrateError {
    /// The target failed.
    #[error("the target failed: {0}")]
    Target(String),
    /// Too small.
    #[error("the target holds {0}: 64 MiB are the least")]
    TooSmall(ByteCount),
    /// Times that fit no model.
    #[error("the times fit no drive: {0}")]
    NoModel(String),
    /// Figures that no drive has.
    #[error(
        "the times make no drive that can be believed: {}; a cache, a hypervisor or other work stands between this program and \
         the drive, so nothing is written", .0.join("; ")
    )]
    Unbelievable(Vec<String>),
}

/// Finds everything. `progress` is told what is being timed, and about how much of all is done.
///
/// # Errors
/// [`CalibrateError`]: the target failed, is too small, or its times fit no model or make one that is none.
pub fn calibrate(
    target: &mut dyn TimedTarget,
    effort: &Effort,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Found, CalibrateError> {
    let capacity = target.capacity();
    if capacity.0 < 64 << 20 {
        return Err(CalibrateError::TooSmall(capacity));
    }
    let mut probe = Probe { target, effort, random: Rng::new(effort.seed), progress };
    probe.tell("reading at random", 0.0);
    let count = 64;
    let reads: Vec<Access> = (0..count).map(|_| probe.random_read()).collect();
    let times: Vec<f64> = probe.run(&reads, 1)?.iter().map(Timing::ns).collect();
    // A turn is several milliseconds, and random reads wait for any part of it.
    let turns = estimate::median(&times) > 1e6 && estimate::spread(&times) > 5e5;
    let found = if turns {
        Found::Rotational(Box::new(rotational::find(&mut probe)?))
    } else {
        Found::Flash(Box::new(flash::find(&mut probe)?))
    };
    match found.doubts() {
        none if none.is_empty() => Ok(found),
        doubts => Err(CalibrateError::Unbelievable(doubts)),
    }
}

/// The target with what all measurements need.
struct Probe<'a> {
    target: &'a mut dyn TimedTarget,
    effort: &'a Effort,
    random: Rng,
    progress: &'a mut dyn FnMut(&str, f64),
}

impl Probe<'_> {
    fn run(&mut self, accesses: &[Access], depth: u32) -> Result<Vec<Timing>, CalibrateError> {
        let times = self.target.run(accesses, depth).map_err(CalibrateError::Target)?;
        assert_eq!(times.len(), accesses.len(), "a time for each access");
        Ok(times)
    }

    fn tell(&mut self, what: &str, done: f64) {
        (self.progress)(what, done);
    }

    fn pages(&self) -> u64 {
        self.target.capacity().0 / PAGE
    }

    fn random_read(&mut self) -> Access {
        let pages = self.pages();
        Access::read(self.random.below(pages) * PAGE, PAGE as u32)
    }
}
