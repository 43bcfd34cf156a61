//! Many arrays under many loads.

use crate::{Array, SimulateError, Simulation, Window};
use raidlab_hardware::Catalog;
use raidlab_hosts::{Hosts, all_processors};
use raidlab_workload::{RunResult, Workload};
use raidlab_worlds::{Load, LoadPlan};
use serde::Serialize;
use std::num::NonZeroUsize;

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
    /// Requests in flight.
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
        let arrays: Vec<Simulation> = self
            .arrays
            .iter()
            .map(|array| Simulation::new(catalog, array.clone()))
            .collect::<Result<_, _>>()?;
        let Window { ramp, run, settles, seed, .. } = self.window;
        let (workloads, iodepths) = (self.workloads.clone(), self.iodepths.clone());
        let plan = LoadPlan { workloads, iodepths, workers: vec![1], ramp, run, settles };
        let loads: Vec<Load> = plan.loads(seed).collect();
        let (each, all) = (loads.len().max(1), arrays.len() * loads.len());
        let one = NonZeroUsize::MIN;
        let job = |index: usize| arrays[index / each].run(&loads[index % each], Some(one));
        let mut done = 0;
        let threads = self.threads.unwrap_or_else(all_processors);
        let results = Hosts::alone().share_all((all, threads), job, |_, _| {
            done += 1;
            progress(done, all);
        });
        let results = results.expect("a process alone loses no other").into_iter().enumerate();
        let row = |(index, result): (usize, Result<RunResult, _>)| match result {
            Ok(run) => Ok(SweepRun { array: index / each, run }),
            Err(source) => Err(SimulateError::Run {
                load: format!("{}, {}", arrays[index / each].label(), loads[index % each].label()),
                source,
            }),
        };
        results.map(row).collect()
    }
}
