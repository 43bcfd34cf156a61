//! Runs of workloads on modelled arrays, in virtual time.

use crate::Array;
use raidlab_hardware::{Catalog, CatalogError, End};
use raidlab_hosts::{Hosts, all_processors};
use raidlab_sim::FileAccess;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{RunResult, Workload};
use raidlab_worlds::files::{FileUse, HostModels};
use raidlab_worlds::simulated::{LoadsError, Manner, RunOn, SimulatedError, run_on, run_simulated_loads};
use raidlab_worlds::{ArrayFileError, Ends, Load, ModelledArray, Models, OwnIodepths, check_iodepths};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Ramp and measured window where nobody says.
pub const WINDOW_DEFAULT: NanoSpan = NanoSpan::from_secs(20);

/// How a workload is run: how much is in flight, from when and for how long it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Requests in flight; without it, those of the workload, or 1.
    pub iodepth: Option<u32>,
    /// Virtual time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window in virtual time.
    pub run: NanoSpan,
    /// The ramp is made as long as write caches take to get into their steady state, and the window as long as their cycles.
    pub settles: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { iodepth: None, ramp: WINDOW_DEFAULT, run: WINDOW_DEFAULT, settles: true, seed: 1 }
    }
}

impl Window {
    /// The same with so many requests in flight.
    #[must_use]
    pub const fn iodepth(self, iodepth: u32) -> Self {
        Self { iodepth: Some(iodepth), ..self }
    }

    /// `workload` in this window.
    pub fn load(&self, workload: &Workload) -> Load {
        Load {
            workload: workload.clone(),
            iodepth: self.iodepth.unwrap_or(1),
            workers: 1,
            ramp: self.ramp,
            run: self.run,
            seed: self.seed,
            once: false,
            settles: self.settles && workload.spec.trace.is_none() && !workload.spec.has_actors(),
        }
    }
}

/// Why an array can't be simulated as it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The array can't be.
    #[error(transparent)]
    Array(#[from] ArrayFileError),
    /// Host or filesystem are not in the catalogue.
    #[error(transparent)]
    Host(CatalogError),
    /// Its figures can't be at the ends of their ranges together.
    #[error(transparent)]
    Ends(CatalogError),
    /// Programs on files run on one volume.
    #[error("programs on files run on one volume behind one controller")]
    SeveralVolumes,
    /// A file has a length.
    #[error("a file on the array needs a length, and that is the region")]
    NoRegion,
    /// What sets the pace is found on volumes.
    #[error("what sets the pace is found on volumes, and this load runs on a file")]
    BottleneckOfFile,
}

/// Why a simulation gave no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// It can't be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It would change nothing.
    #[error(transparent)]
    Iodepth(#[from] OwnIodepths),
    /// The array refuses the load.
    #[error("{load}: {source}")]
    Run {
        /// The load in a few words.
        load: String,
        /// What is against it.
        source: SimulatedError,
    },
}

/// The file of a host that the load runs on.
#[derive(Clone, Debug)]
struct HostFile {
    host: String,
    filesystem: String,
    access: FileAccess,
}

/// A modelled array that is set up for runs.
///
/// ```
/// use raidlab::{Array, Catalog, NanoSpan, Simulation, Window, workload};
///
/// let array = Array::new("5".parse()?, 4, "st3600057ss", "perc-h800");
/// let simulation = Simulation::new(&Catalog::builtin(), array)?.finding_bottleneck()?;
/// let window = Window { run: NanoSpan::from_secs(2), settles: false, ..Window::default() };
/// let run = simulation.run(&window.iodepth(16).load(&workload("md1200-oltp")?), None)?;
/// println!("{}: {}", simulation.label(), run.bottleneck.expect("it was looked for").name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    catalog: Arc<Catalog>,
    array: Array,
    modelled: ModelledArray,
    file: Option<HostFile>,
    finds_bottleneck: bool,
    /// The catalogue with the array's figures at their slower and at their faster ends.
    ends: Option<Box<[Catalog; 2]>>,
}

impl Simulation {
    /// Sets `array` up, of parts of `catalog`.
    ///
    /// # Errors
    /// [`SetupError::Array`] when a part is unknown, the array can't be, or its drives can't be in such a condition.
    pub fn new(catalog: &Catalog, array: Array) -> Result<Self, SetupError> {
        Self::sharing(&Arc::new(catalog.clone()), array)
    }

    /// The same for one of many arrays: they share `catalog`, but for those whose drives are in a condition of their own.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn sharing(catalog: &Arc<Catalog>, array: Array) -> Result<Self, SetupError> {
        let mut catalog = Arc::clone(catalog);
        if array.changes_drives() {
            array.condition_drives(Arc::make_mut(&mut catalog))?;
        }
        let modelled = array.resolve(&catalog)?.1;
        Ok(Self { catalog, array, modelled, file: None, finds_bottleneck: false, ends: None })
    }

    /// Runs loads on a file of `filesystem` at `host`, as long as the array's region, instead of on the volume.
    ///
    /// # Errors
    /// [`SetupError`]: the catalogue lacks one of them, or the array has several volumes, or no region.
    pub fn on_file(self, host: &str, filesystem: &str, access: FileAccess) -> Result<Self, SetupError> {
        HostModels::look_up(&self.catalog, host, filesystem).map_err(SetupError::Host)?;
        if self.modelled.controllers.is_some() {
            return Err(SetupError::SeveralVolumes);
        }
        if self.modelled.region == self.modelled.usable {
            return Err(SetupError::NoRegion);
        }
        if self.finds_bottleneck {
            return Err(SetupError::BottleneckOfFile);
        }
        let file = HostFile { host: host.to_owned(), filesystem: filesystem.to_owned(), access };
        Ok(Self { file: Some(file), ..self })
    }

    /// Finds out what sets the pace of each load, by running parts of it up to a dozen times more.
    ///
    /// # Errors
    /// [`SetupError::BottleneckOfFile`] where loads run on a file.
    pub fn finding_bottleneck(self) -> Result<Self, SetupError> {
        if self.file.is_some() {
            return Err(SetupError::BottleneckOfFile);
        }
        Ok(Self { finds_bottleneck: true, ..self })
    }

    /// Runs each load twice more, with the estimated figures of the array's parts at their slower and at their faster ends.
    ///
    /// # Errors
    /// [`SetupError::Ends`] for figures that can't be so together.
    pub fn with_ranges(self) -> Result<Self, SetupError> {
        let at = |end| self.models().catalog_at(&self.catalog, end).map_err(SetupError::Ends);
        let ends = Some(Box::new([at(End::Slower)?, at(End::Faster)?]));
        Ok(Self { ends, ..self })
    }

    /// The array in a few words.
    pub fn label(&self) -> String {
        self.modelled.label()
    }

    /// Volumes of the array.
    pub fn volumes(&self) -> u32 {
        u32::from(self.modelled.volume_count())
    }

    /// The part of each volume that loads use.
    pub const fn region(&self) -> ByteCount {
        self.modelled.region
    }

    /// Whether its drives are fast or slow by what was done to them before.
    pub fn drives_have_condition(&self) -> bool {
        self.models().drive.condition().is_some()
    }

    fn models(&self) -> Models<'_> {
        self.array.resolve(&self.catalog).expect("it was resolved when it was set up").0
    }

    fn manner(&self) -> Manner<'_> {
        let on = match &self.file {
            Some(HostFile { host, filesystem, access }) => RunOn::File(FileUse {
                host: HostModels::look_up(&self.catalog, host, filesystem)
                    .expect("they were looked up before"),
                access: *access,
            }),
            None if self.finds_bottleneck => RunOn::VolumeForBottleneck,
            None => RunOn::Volume,
        };
        let ends = self.ends.as_deref().map(|ends| {
            let [slower, faster] = ends.each_ref().map(|catalog| {
                self.array.resolve(catalog).expect("figures at an end leave the array what it is").0
            });
            Ends { slower, faster }
        });
        Manner { on, ends }
    }

    /// Runs one load, its parts on up to `threads` threads; all processors if none is said. The same input gives the same result, but for the time that
    /// the simulation took.
    ///
    /// # Errors
    /// [`SimulatedError`] if the array and the load make no sense together.
    pub fn run(&self, load: &Load, threads: Option<NonZeroUsize>) -> Result<RunResult, SimulatedError> {
        let threads = threads.unwrap_or_else(all_processors);
        run_on(&self.models(), &self.modelled, load, (&self.manner(), threads))
    }

    /// Runs each of `loads` on up to `threads` threads of each of `hosts`, and hands each one that ends to `finished`, with its index.
    /// Results are in the order of the loads, and the same on any number of threads and hosts.
    ///
    /// # Errors
    /// [`LoadsError`] if a load can't be run or a host is lost.
    pub fn run_all(
        &self,
        loads: &[Load],
        (hosts, threads): (&mut Hosts, Option<NonZeroUsize>),
        finished: &mut dyn FnMut(usize, &RunResult),
    ) -> Result<Vec<RunResult>, LoadsError> {
        let how = (hosts, threads, self.manner());
        run_simulated_loads(&self.models(), &self.modelled, loads, how, finished)
    }
}

/// Runs `workload` on `array`, of parts of `catalog`.
///
/// ```
/// use raidlab::{Array, Catalog, Window, simulate, workload};
///
/// let array = Array::new("5".parse()?, 8, "st3600057ss", "perc-h800");
/// let run = simulate(&Catalog::builtin(), array, &workload("md1200-oltp")?, &Window::default().iodepth(64))?;
/// assert!(run.ops.total.iops.0 > 100.0, "eight disks do more than one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SimulateError`] if the array can't be, or refuses the load, or the workload has its own requests in flight and the window has others.
pub fn simulate(
    catalog: &Catalog,
    array: Array,
    workload: &Workload,
    window: &Window,
) -> Result<RunResult, SimulateError> {
    window.iodepth.map_or(Ok(()), |_| check_iodepths([workload]))?;
    let load = window.load(workload);
    let failed = |source| SimulateError::Run { load: load.label(), source };
    Simulation::new(catalog, array)?.run(&load, None).map_err(failed)
}
