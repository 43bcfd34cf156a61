//! Many arrays under many loads.

use crate::{Array, SimulateError, Simulation, Window};
use raidlab_hardware::Catalog;
use raidlab_hosts::{Hosts, Jobs, Stop, all_processors};
use raidlab_workload::{RunResult, Workload};
use raidlab_worlds::{Load, LoadPlan, OwnIodepths, check_iodepths};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Every array under every workload with every number of requests in flight.
///
/// ```
/// use raidlab::{Array, Catalog, NanoSpan, Sweep, Window, workload};
///
/// let sweep = Sweep {
///     arrays: [4, 8].map(|members| Array::new("10".parse().unwrap(), members, "st3600057ss", "perc-h800")).to_vec(),
///     workloads: vec![workload("md1200-oltp")?],
///     iodepths: vec![1, 16],
///     window: Window { run: NanoSpan::from_secs(5), ..Window::default() },
///     threads: None,
/// };
/// let runs = sweep.run(&Catalog::builtin(), &mut |_, _| {})?;
/// assert_eq!(runs.len(), 4);
/// assert!(runs[3].run.ops.total.iops > runs[2].run.ops.total.iops, "more in flight is more a second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The arrays.
    pub arrays: Vec<Array>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Requests in flight; without any, those of each workload, or 1.
    pub iodepths: Vec<u32>,
    /// How each is measured; its own iodepth is not used.
    pub window: Window,
    /// Threads; all processors if none.
    pub threads: Option<NonZeroUsize>,
}

/// A run of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRun {
    /// Which array, counted from 0.
    pub array: usize,
    /// What it did.
    #[serde(flatten)]
    pub run: RunResult,
}

/// How a part of a sweep is run.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions<'a> {
    /// Whether it is found out what sets the pace of each run, by running parts of it up to a dozen times more.
    pub finds_bottleneck: bool,
    /// Once it is set, no run begins.
    pub cancel: &'a AtomicBool,
}

/// Why a part of a sweep has no result.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// An array can't be, or refuses a load.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The part ends past the end of the sweep.
    #[error("runs {start} to {end} were asked for, but the sweep has {count}")]
    OutOfRange {
        /// The part's first run, counted from 0.
        start: usize,
        /// Where the part ends; this run is not in it.
        end: usize,
        /// Runs of the whole sweep.
        count: usize,
    },
}

impl Sweep {
    /// Runs all, array by array, workload by workload; the same on any number of threads. `progress` is told how many runs are done, and of
    /// how many.
    ///
    /// # Errors
    /// [`SimulateError`] of the first array that can't be, before anything is run, or of the first load that an array refuses.
    pub fn run(
        &self,
        catalog: &Catalog,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<SweepRun>, SimulateError> {
        let options = SweepOptions { finds_bottleneck: false, cancel: &AtomicBool::new(false) };
        match self.run_part(&Arc::new(catalog.clone()), 0..self.count(), options, progress) {
            Ok(runs) => Ok(runs),
            Err(SweepError::Simulate(error)) => Err(error),
            Err(SweepError::Cancelled | SweepError::OutOfRange { .. }) => {
                unreachable!("nobody else has the flag, and the part is the sweep")
            }
        }
    }

    /// Runs of one array: every workload with every number of requests in flight, or once where the number is the workload's own.
    pub fn loads(&self) -> Vec<Load> {
        let Window { ramp, run, settles, seed, .. } = self.window;
        let workloads = self.workloads.clone();
        let iodepths = if self.iodepths.is_empty() { vec![1] } else { self.iodepths.clone() };
        LoadPlan { workloads, iodepths, workers: vec![1], ramp, run, settles, may_lengthen: false }
            .loads(seed)
            .collect()
    }

    /// Checks that its numbers in flight change any of its runs.
    ///
    /// # Errors
    /// [`OwnIodepths`] where all workloads have their own.
    pub fn check_iodepths(&self) -> Result<(), OwnIodepths> {
        if self.iodepths.is_empty() { Ok(()) } else { check_iodepths(&self.workloads) }
    }

    /// Runs of the whole sweep.
    pub fn count(&self) -> usize {
        self.arrays.len() * self.loads().len()
    }

    /// Runs those of the sweep that are at the places `part`, in the order of [`Sweep::run`]. Parts may be run anywhere: together they are
    /// the sweep. A run alone has all threads for finding what sets its pace.
    ///
    /// # Errors
    /// As [`Sweep::run`], of the arrays in this part; [`SweepError::Cancelled`] once that was asked for and the runs under way have ended;
    /// [`SweepError::OutOfRange`] if the part ends past [`Sweep::count`].
    pub fn run_part(
        &self,
        catalog: &Arc<Catalog>,
        part: Range<usize>,
        options: SweepOptions<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<SweepRun>, SweepError> {
        self.check_iodepths().map_err(SimulateError::from)?;
        let loads = self.loads();
        let all = self.arrays.len() * loads.len();
        if part.end > all {
            return Err(SweepError::OutOfRange { start: part.start, end: part.end, count: all });
        }
        if part.is_empty() {
            return Ok(Vec::new());
        }
        let (each, first) = (loads.len(), part.start / loads.len());
        let last = (part.end - 1) / each + 1;
        let set_up = |array: &Array| {
            let simulation = Simulation::sharing(catalog, array.clone())?;
            if options.finds_bottleneck { simulation.finding_bottleneck() } else { Ok(simulation) }
        };
        let arrays = self.arrays[first..last].iter().map(set_up).collect::<Result<Vec<_>, _>>();
        let arrays = arrays.map_err(SimulateError::from)?;
        let count = part.len();
        let threads = self.threads.unwrap_or_else(all_processors);
        let of_run = if count == 1 { threads } else { NonZeroUsize::MIN };
        let place = |index: usize| {
            let at = part.start + index;
            (&arrays[at / each - first], &loads[at % each])
        };
        let job = |index: usize| {
            let (array, load) = place(index);
            let failed =
                |source| SimulateError::Run { load: format!("{}, {}", array.label(), load.label()), source };
            array.run(load, Some(of_run)).map_err(failed)
        };
        let (mut done, mut runs) = (0, Vec::new());
        runs.resize_with(count, || None);
        let jobs = Jobs { count, threads, cancel: options.cancel };
        let ended = Hosts::alone().share(jobs, job, |index, result| {
            done += 1;
            progress(done, count);
            runs[index] = Some(SweepRun { array: (part.start + index) / each, run: result? });
            Ok(())
        });
        match ended {
            Ok(()) => Ok(runs.into_iter().flatten().collect()),
            Err(Stop::Failed(error)) => Err(SweepError::Simulate(error)),
            Err(Stop::Cancelled) => Err(SweepError::Cancelled),
            Err(Stop::Hosts(_)) => unreachable!("a process alone loses no other"),
        }
    }
}
