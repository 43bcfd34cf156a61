//! Runs a study: real targets one after another with the machine to themselves, then the simulations on all
//! processors.
//!
//! ```text
//! measure: lay out ─ run, run, run ─ remove     each finished run ─► Store (committed)
//! array:   members ─ level ─ policy ─ runs ...                    └► StudyObserver
//! simulate: runs in parallel, no I/O
//! ```
//! Invariants: a run is in the store before its end is announced; a study removes what it made, on every way out but a
//! kill; simulated figures do not depend on the number of threads; after a stop the outcome holds everything that was
//! finished.

mod pace;

use crate::describe;
use crate::study::{ArraySection, MeasureSection, SimulateSection, Study};
use pace::Pace;
use raidlab_controller::WritePolicy;
use raidlab_engines::{LayOut, LayOutContent, LoadOptions, LoadProgress, TargetOptions};
use raidlab_hardware::Catalog;
use raidlab_hosts::{Hosts, Jobs, Stop, all_processors};
use raidlab_machine::Environment;
use raidlab_measure::array::{ArrayBench, RealArrayError, SoftwareArray, make_array, remove_array};
use raidlab_measure::file::{FileBench, FileError};
use raidlab_measure::{ScratchError, ScratchFolders};
use raidlab_raid::LevelVariant;
use raidlab_store::{FinishedRun, Store, StoreError, StudyEnd, StudyRunHead, StudyRunId};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Accelerator, RunResult};
use raidlab_worlds::Load;
use raidlab_worlds::settled_or_cancelled;
use raidlab_worlds::simulated::{SimulatedError, run_simulated};
use raidlab_worlds::{ModelledArray, UnknownParts};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// What happens while a study runs.
#[derive(Clone, Copy, Debug)]
pub enum StudyEvent<'a> {
    /// Files are written that runs need.
    Preparing {
        /// What is written.
        what: &'a str,
        /// Bytes written so far.
        written: ByteCount,
        /// Bytes in all.
        total: ByteCount,
    },
    /// A run starts.
    Started {
        /// Number of the run, from 1.
        run: u64,
        /// Runs planned.
        planned: u64,
        /// What it is.
        label: &'a str,
    },
    /// A run goes on.
    Progress {
        /// Share of it that is over, 0 to 1.
        fraction: f64,
    },
    /// A run is finished and stored.
    Finished {
        /// Runs finished so far.
        finished: u64,
        /// Runs planned.
        planned: u64,
        /// What it was.
        label: &'a str,
        /// What came of it.
        result: &'a RunResult,
        /// Time that the rest will take, as far as can be told.
        remaining: NanoSpan,
    },
}

/// Something that shows how a study goes.
pub trait StudyObserver {
    /// Takes `event` in; called on the thread that runs the study.
    fn observe(&mut self, event: StudyEvent<'_>);
}

/// How to run a study.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Leave test files and members where they are.
    pub keep: bool,
    /// Threads for simulations.
    pub threads: NonZeroUsize,
}

impl Default for RunOptions {
    /// Nothing is kept; simulations run on all processors.
    fn default() -> Self {
        Self { keep: false, threads: all_processors() }
    }
}

/// What came of a study.
#[derive(Clone, Debug)]
pub struct StudyOutcome {
    /// Its number in the store.
    pub study_run: StudyRunId,
    /// Every finished run, in the order of the plan.
    pub results: Vec<RunResult>,
    /// Runs planned.
    pub planned: u64,
    /// Whether all planned runs are finished.
    pub complete: bool,
    /// The machine, and the storage under the first real target.
    pub environment: Environment,
}

/// Why a study failed. Runs finished before are in the store.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The store can't be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A folder can't be made.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The test file.
    #[error("{label}: {source}")]
    File {
        /// The run, or the target.
        label: String,
        /// What failed.
        source: Box<FileError>,
    },
    /// A real array.
    #[error("{label}: {source}")]
    Array {
        /// The run, or the target.
        label: String,
        /// What failed.
        source: Box<RealArrayError>,
    },
    /// A simulation.
    #[error("{label}: {source}")]
    Simulation {
        /// The run.
        label: String,
        /// What failed.
        source: Box<SimulatedError>,
    },
    /// The study was checked against another catalogue.
    #[error(transparent)]
    Catalog(#[from] UnknownParts),
}

impl StudyError {
    /// Whether what was asked for is at fault, and not the machine or the storage.
    pub fn is_input(&self) -> bool {
        match self {
            Self::File { source, .. } => matches!(&**source, FileError::Load(error) if error.is_input()),
            Self::Simulation { .. } | Self::Catalog(_) => true,
            Self::Store(_) | Self::Scratch(_) | Self::Array { .. } => false,
        }
    }
}

/// Runs `study`. Setting `cancel` ends it soon, with what is finished.
///
/// # Errors
/// [`StudyError`] when a run can't be done; what was finished before stays in `store`.
#[expect(clippy::missing_panics_doc, reason = "studies hold only strings as map keys")]
pub fn run_study(
    study: &Study,
    catalog: &Catalog,
    options: RunOptions,
    store: &mut Store,
    observer: &mut dyn StudyObserver,
    cancel: &AtomicBool,
) -> Result<StudyOutcome, StudyError> {
    let planned = study.run_count();
    let method = describe::method(study);
    let study_run = store.begin_study(&StudyRunHead {
        kind: "study",
        title: &study.title,
        question: &study.question,
        method: &method,
        planned_runs: planned,
        seed: study.seed,
        configuration: serde_json::to_string(study).expect("studies hold only strings as map keys"),
    })?;
    let recorder =
        Recorder { store, observer, study_run, planned, finished: Vec::new(), pace: Pace::of(study) };
    let mut runner = Runner {
        seed: study.seed,
        catalog,
        options,
        cancel,
        recorder,
        ordinal: 0,
        environment: None,
        scratch: ScratchFolders::default(),
    };
    let ended = runner.run_sections(study);
    let environment = runner.environment.take().unwrap_or_else(Environment::of_machine);
    let mut finished = runner.recorder.finished;
    finished.sort_by_key(|(ordinal, _)| *ordinal);
    let complete = ended.is_ok() && finished.len() as u64 == planned;
    let end = if complete { StudyEnd::Complete } else { StudyEnd::Incomplete };
    store.end_study(study_run, end, &describe::notes(study))?;
    ended?;
    let results = finished.into_iter().map(|(_, result)| result).collect();
    Ok(StudyOutcome { study_run, results, planned, complete, environment })
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    Cancelled,
}

/// Takes in finished runs: stores them, tells of them, keeps them.
struct Recorder<'a> {
    store: &'a mut Store,
    observer: &'a mut dyn StudyObserver,
    study_run: StudyRunId,
    planned: u64,
    finished: Vec<(u64, RunResult)>,
    pace: Pace,
}

impl Recorder<'_> {
    fn start(&mut self, ordinal: u64, label: &str) {
        self.observer.observe(StudyEvent::Started { run: ordinal + 1, planned: self.planned, label });
    }

    fn finish(&mut self, label: &str, run: &FinishedRun<'_>) -> Result<(), StoreError> {
        self.store.insert_run(self.study_run, run)?;
        self.finished.push((run.ordinal, run.result.clone()));
        self.pace.finish(run.result.world);
        self.observer.observe(StudyEvent::Finished {
            finished: self.finished.len() as u64,
            planned: self.planned,
            label,
            result: run.result,
            remaining: self.pace.remaining(),
        });
        Ok(())
    }
}

/// A study under way.
struct Runner<'a> {
    seed: u64,
    catalog: &'a Catalog,
    options: RunOptions,
    cancel: &'a AtomicBool,
    recorder: Recorder<'a>,
    /// Place in the plan of the next run.
    ordinal: u64,
    /// Of the first real target.
    environment: Option<Environment>,
    /// Folders that were made for files, until the end.
    scratch: ScratchFolders,
}

impl Runner<'_> {
    fn run_sections(&mut self, study: &Study) -> Result<(), StudyError> {
        if self.real_sections(study)? == Flow::Cancelled {
            return Ok(());
        }
        for section in &study.simulations {
            if self.simulate(section)? == Flow::Cancelled {
                return Ok(());
            }
        }
        Ok(())
    }

    /// All rounds over real storage. What they need stays until the last one.
    fn real_sections(&mut self, study: &Study) -> Result<Flow, StudyError> {
        let mut members: Vec<RoundsOfArrays> =
            study.arrays.iter().map(|_| RoundsOfArrays::default()).collect();
        let mut flow = Ok(Flow::Continue);
        for round in 0..study.repeats {
            flow = self.round(study, round, &mut members);
            if !matches!(flow, Ok(Flow::Continue)) {
                break;
            }
        }
        if !self.options.keep {
            for (section, made) in study.arrays.iter().zip(&members) {
                let removed = made.remove(section);
                // The first error is the one to tell.
                flow = flow.and_then(|flow| removed.map(|()| flow));
            }
        }
        flow
    }

    /// One round over real storage, every other one backwards.
    fn round(
        &mut self,
        study: &Study,
        round: u32,
        members: &mut [RoundsOfArrays],
    ) -> Result<Flow, StudyError> {
        let is_last = round + 1 == study.repeats;
        for (index, section) in study.measures.iter().enumerate() {
            let later = study.measures[index + 1..].iter().any(|later| later.path == section.path);
            if self.measure(section, is_last && !later)? == Flow::Cancelled {
                return Ok(Flow::Cancelled);
            }
        }
        for (section, made) in study.arrays.iter().zip(members) {
            if self.arrays(section, made, (round, study.repeats))? == Flow::Cancelled {
                return Ok(Flow::Cancelled);
            }
        }
        Ok(Flow::Continue)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The facts about the storage under `target`, kept for the outcome if it is the first.
    fn look_around(&mut self, target: &Path) -> Environment {
        let environment = Environment::of_target(target);
        self.environment.get_or_insert_with(|| environment.clone());
        environment
    }

    /// Measures storage; the test file goes where no later section `is_done` with it.
    fn measure(&mut self, section: &MeasureSection, is_done: bool) -> Result<Flow, StudyError> {
        let label = section.path.display().to_string();
        let failed = |source| StudyError::File { label: label.clone(), source: Box::new(source) };
        let folder = section.path.parent().filter(|_| !section.is_there).unwrap_or(Path::new("."));
        self.scratch.make(folder)?;
        let environment = self.look_around(&section.path);
        let order = LayOut {
            bytes: section.size,
            content: LayOutContent::Noise,
            seed: self.seed,
            destroy_data: None,
        };
        let observer = &mut *self.recorder.observer;
        let mut prepare =
            |written, total| observer.observe(StudyEvent::Preparing { what: &label, written, total });
        let in_folder = section.path.is_dir() || !section.is_there && !section.path.exists();
        let opened = match section.load.accelerators_alone().filter(|_| in_folder) {
            Some(it) => {
                self.scratch.make(&section.path)?;
                open(section, Some(it), self.cancel, &mut prepare)
            }
            None if section.is_there => open(section, None, self.cancel, &mut prepare),
            None => FileBench::lay_out(&section.path, &order, section.direct, self.cancel, &mut prepare),
        };
        let mut bench = match opened {
            Err(error) if error.is_cancelled() => return Ok(Flow::Cancelled),
            bench => bench.map_err(failed)?,
        };
        let flow = self.measure_loads(section, &mut bench, &environment);
        let goes_on = !is_done && matches!(flow, Ok(Flow::Continue));
        if !self.options.keep && !goes_on {
            bench.close().map_err(failed)?;
        }
        flow
    }

    fn measure_loads(
        &mut self,
        section: &MeasureSection,
        bench: &mut FileBench,
        environment: &Environment,
    ) -> Result<Flow, StudyError> {
        let target = section.path.display().to_string();
        let cancel = self.cancel;
        let loads = section.load.loads(self.seed).collect();
        self.real_loads(loads, &target, environment, |load, label, progress| {
            let mut tell = |seen: &LoadProgress| progress(seen.window.fraction);
            match bench.run(load, &mut Hosts::alone(), cancel, &mut tell) {
                Err(error) if error.is_cancelled() => Ok(None),
                Err(error) => Err(StudyError::File { label: label.to_owned(), source: Box::new(error) }),
                Ok(result) => Ok(Some(result)),
            }
        })
    }

    /// Does the runs of `loads` on a real target. `run` gives nothing when it was cancelled.
    fn real_loads(
        &mut self,
        loads: Vec<Load>,
        target: &str,
        environment: &Environment,
        mut run: impl FnMut(&Load, &str, &mut dyn FnMut(f64)) -> Result<Option<RunResult>, StudyError>,
    ) -> Result<Flow, StudyError> {
        for load in loads {
            let label = format!("{target}: {}", load.label());
            let flow = self.one_run(&label, environment, |progress| run(&load, &label, progress))?;
            if flow == Flow::Cancelled {
                return Ok(Flow::Cancelled);
            }
        }
        Ok(Flow::Continue)
    }

    /// Does one run on a real target, and takes it in. `run` gives nothing when it was cancelled.
    fn one_run(
        &mut self,
        label: &str,
        environment: &Environment,
        run: impl FnOnce(&mut dyn FnMut(f64)) -> Result<Option<RunResult>, StudyError>,
    ) -> Result<Flow, StudyError> {
        if self.is_cancelled() {
            return Ok(Flow::Cancelled);
        }
        self.recorder.start(self.ordinal, label);
        let started_at = SystemTime::now();
        let observer = &mut *self.recorder.observer;
        let mut progress = |fraction| observer.observe(StudyEvent::Progress { fraction });
        let Some(result) = run(&mut progress)? else { return Ok(Flow::Cancelled) };
        let run = FinishedRun { ordinal: self.ordinal, started_at, result: &result, environment };
        self.recorder.finish(label, &run)?;
        self.ordinal += 1;
        Ok(Flow::Continue)
    }

    /// Runs every array of the section. One round after the other over the same members keeps the members of each level apart;
    /// a study of one round has but one set of them.
    fn arrays(
        &mut self,
        section: &ArraySection,
        made: &mut RoundsOfArrays,
        (round, rounds): (u32, u32),
    ) -> Result<Flow, StudyError> {
        let place = section.directories.first().map_or(Path::new("."), PathBuf::as_path);
        let mut order: Vec<usize> = (0..section.arrays.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let array = &section.arrays[index];
            let folders = if rounds > 1 { folders_of(section, array) } else { section.directories.clone() };
            folders.iter().try_for_each(|folder| self.scratch.make(folder))?;
            let environment = self.look_around(place);
            if made.is_due(&folders, array) {
                made.levels.push((folders.clone(), array.config.level, array.config.members));
                if self.make_array(&folders, array)? == Flow::Cancelled {
                    return Ok(Flow::Cancelled);
                }
            }
            let region = section.region.unwrap_or(array.usable);
            let mut bench = ArrayBench::new(array, region, &folders).map_err(|source| StudyError::Array {
                label: array.label(),
                source: Box::new(source.into()),
            })?;
            let loads = section.loads_of(index, self.seed);
            if self.array_loads(loads, array, &mut bench, &environment)? == Flow::Cancelled {
                return Ok(Flow::Cancelled);
            }
        }
        Ok(Flow::Continue)
    }

    /// Makes the array of a level over files in `folders`.
    fn make_array(&mut self, folders: &[PathBuf], array: &SoftwareArray) -> Result<Flow, StudyError> {
        let what = format!("members for {} in {}", array.label(), describe::folders_text(folders));
        let observer = &mut *self.recorder.observer;
        let mut prepare =
            |written, total| observer.observe(StudyEvent::Preparing { what: &what, written, total });
        match make_array(array, folders, self.cancel, &mut prepare) {
            Ok(()) => Ok(Flow::Continue),
            Err(error) if error.is_cancelled() => Ok(Flow::Cancelled),
            Err(source) => Err(StudyError::Array { label: what, source: Box::new(source) }),
        }
    }

    fn array_loads(
        &mut self,
        loads: Vec<Load>,
        array: &SoftwareArray,
        bench: &mut ArrayBench<'_>,
        environment: &Environment,
    ) -> Result<Flow, StudyError> {
        let cancel = self.cancel;
        let cache = &array.config.cache;
        let cache = (cache.write_policy != WritePolicy::WriteThrough).then_some(cache.size);
        self.real_loads(loads, &array.label(), environment, |load, label, progress| {
            let mut run = |load: &Load| match bench.run(load, cancel, progress) {
                Err(error) if error.is_cancelled() => Ok(None),
                Err(error) => Err(StudyError::Array { label: label.to_owned(), source: Box::new(error) }),
                Ok(result) => Ok(Some(result)),
            };
            if !load.settles {
                return run(load);
            }
            settled_or_cancelled(load, cache, run).map(|settled| settled.map(|(_, result)| result))
        })
    }

    fn simulate(&mut self, section: &SimulateSection) -> Result<Flow, StudyError> {
        let loads: Vec<(&ModelledArray, Load)> = section
            .arrays
            .iter()
            .enumerate()
            .flat_map(|(index, array)| {
                section.loads_of(index, self.seed).into_iter().map(move |load| (array, load))
            })
            .collect();
        let jobs: Vec<_> = loads.iter().map(|(array, load)| (*array, load)).collect();
        let Some((first, _)) = jobs.first() else { return Ok(Flow::Continue) };
        let mut models = first.parts.look_up(self.catalog)?;
        let conditioned = section.condition.map(|condition| {
            let drive = models.drive.clone().in_condition(condition);
            drive.expect("it was one that the drive can be in when the file was read")
        });
        if let Some(drive) = &conditioned {
            models.drive = drive;
        }
        let environment = Environment::of_machine();
        let first_ordinal = self.ordinal;
        self.ordinal += jobs.len() as u64;
        let label_of = |index: usize| {
            let (array, load) = jobs[index];
            format!("{}: {}", array.label(), load.label())
        };
        let recorder = &mut self.recorder;
        let ended = Hosts::alone().share(
            Jobs { count: jobs.len(), threads: self.options.threads, cancel: self.cancel },
            |index| {
                let started_at = SystemTime::now();
                run_simulated(&models, jobs[index].0, jobs[index].1).map(|result| (started_at, result))
            },
            |index, result| {
                let label = label_of(index);
                let (started_at, result) = result.map_err(|source| StudyError::Simulation {
                    label: label.clone(),
                    source: Box::new(source),
                })?;
                let ordinal = first_ordinal + index as u64;
                let run = FinishedRun { ordinal, started_at, result: &result, environment: &environment };
                Ok(recorder.finish(&label, &run)?)
            },
        );
        match ended {
            Ok(()) => Ok(Flow::Continue),
            Err(Stop::Cancelled) => Ok(Flow::Cancelled),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Hosts(error)) => unreachable!("one process alone loses nobody: {error}"),
        }
    }
}

/// The members that a section's rounds are run over.
#[derive(Debug, Default)]
struct RoundsOfArrays {
    /// Where members of which level are, and how many; the last one made in a place is there.
    levels: Vec<(Vec<PathBuf>, LevelVariant, u16)>,
}

impl RoundsOfArrays {
    /// Whether the members in `folders` are not those of `array`'s level.
    fn is_due(&self, folders: &[PathBuf], array: &SoftwareArray) -> bool {
        let there = self.levels.iter().rev().find(|(place, _, _)| place == folders);
        there.is_none_or(|(_, level, _)| *level != array.config.level)
    }

    /// Removes all members.
    fn remove(&self, section: &ArraySection) -> Result<(), StudyError> {
        let removed = self.levels.iter().map(|(folders, _, count)| remove_array(folders, *count));
        // Each is removed, whether or not another one could be.
        let removed: Vec<_> = removed.collect();
        removed.into_iter().collect::<Result<(), _>>().map_err(|source| {
            let label = format!("member files in {}", describe::folders_text(&section.directories));
            StudyError::Array { label, source: Box::new(source) }
        })
    }
}

/// Folders of its own for the members of an array's level, below those of the section.
fn folders_of(section: &ArraySection, array: &SoftwareArray) -> Vec<PathBuf> {
    let name = format!("raid-{}", array.config.level.to_string().replace([':', '/'], "-"));
    section.directories.iter().map(|folder| folder.join(&name)).collect()
}

/// Opens storage that is there, or the `samples` in a folder, laid out first where the section says their size. It is written to where
/// the load writes, and its data is named as lost.
fn open(
    section: &MeasureSection,
    samples: Option<&Accelerator>,
    cancel: &AtomicBool,
    prepare: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<FileBench, FileError> {
    let options = TargetOptions {
        lay_out: (!section.is_there).then_some(section.size),
        direct: section.direct,
        may_write: section.load.workloads.iter().any(|workload| workload.spec.writes()),
        destroy_data: None,
    };
    let own = |_| options.clone();
    let (names, what): (_, (&dyn Fn(usize) -> TargetOptions, _)) =
        (std::slice::from_ref(&section.path), (&own, &section.destroy_data[..]));
    let mut tell = |_: &Path, written, total| prepare(written, total);
    let mut bench = FileBench::open(names, samples, what, LoadOptions::default(), cancel, &mut tell)?;
    if options.lay_out.is_some() {
        bench.take_over();
    }
    Ok(bench)
}

#[cfg(test)]
mod tests;
