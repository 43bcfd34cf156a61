//! Runs on existing storage: test files, any other files, block devices, or nothing at all.

use super::together::{Share, Shared, merged, run_together, seed_of_rank};
use raidlab_engines::{
    Go, LayOut, LayOutProgress, LoadError, LoadOptions, LoadOutcome, LoadProgress, SampleFolder, Target,
    TargetKind, TargetOptions, TargetOutcome, Verified, is_remote_uri, lay_out_file, place_of, run_targets,
};
use raidlab_hosts::{Hosts, HostsError, Refusal};
use raidlab_machine::MachineWatch;
use raidlab_units::ByteCount;
use raidlab_workload::{
    Accelerator, DriverConfig, LoadFacts, MachineLoad, RunResult, TargetResult, Worker, World,
};
use raidlab_worlds::{Load, empty_result, load_settings, set_measurement};
use std::borrow::Cow;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Why storage can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be opened, laid out or loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The run was stopped before its end; it gives no figure.
    #[error("stopped before the run on {} was over", path.display())]
    Stopped {
        /// The target.
        path: PathBuf,
    },
    /// Several hosts did not make the run together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// What was read is not what was written.
    #[error("{}", faults_text(path, verified))]
    Faulty {
        /// The target.
        path: PathBuf,
        /// What was found.
        verified: Verified,
    },
    /// The folder of a target can't be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    MakeFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The test file can't be removed.
    #[error("the test file {} cannot be removed: {source}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How many blocks were right, where that was looked at.
fn verified_text(outcome: &LoadOutcome) -> Option<String> {
    let checked = || outcome.targets.iter().filter_map(|target| target.verified.as_ref());
    let (good, unjudged) = checked().fold((0, 0), |(good, unjudged), verified| {
        (good + verified.checked.good, unjudged + verified.checked.unjudged)
    });
    checked()
        .next()
        .map(|_| format!("{good} blocks read were as written, {unjudged} not written by this run"))
}

/// Faults that a message lists.
const FAULTS_LISTED: usize = 10;

fn faults_text(path: &Path, verified: &Verified) -> String {
    let head =
        format!("{} returned {} blocks that were not written so:", path.display(), verified.checked.faulty);
    let listed = verified.faults.iter().take(FAULTS_LISTED).map(ToString::to_string);
    std::iter::once(head).chain(listed).collect::<Vec<_>>().join("\n")
}

impl FileError {
    /// Whether the caller asked for it.
    pub const fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Load(LoadError::Cancelled { .. })
                | Self::Stopped { .. }
                | Self::Hosts(HostsError::Stopped { .. })
        )
    }

    /// What other ranks are told of it.
    pub fn refusal(&self) -> Refusal {
        if self.is_cancelled() { Refusal::Stopped } else { Refusal::Failed(self.to_string()) }
    }
}

impl Shared for FileError {
    fn refusal(&self) -> Refusal {
        self.refusal()
    }
}

/// Storage that is open and ready for runs: one target or many.
#[derive(Debug)]
pub struct FileBench {
    targets: Vec<OpenTarget>,
    options: LoadOptions,
}

#[derive(Debug)]
struct OpenTarget {
    /// As it was given.
    name: PathBuf,
    target: Target,
    /// The file is raidlab's to remove.
    is_ours: bool,
}

impl FileBench {
    /// Opens the targets called `names`, each with its `options`, of which those that read the samples of an accelerator are folders; where there is nothing and
    /// `options` give a size, a test file or sample files are laid out. Of `destroy_data` each target takes what begins with its name.
    /// `progress` gets the name, the bytes written so far and the bytes in all.
    ///
    /// # Errors
    /// [`FileError`]: no such file, no direct I/O, no space, data that may not be written over, or `cancel`.
    pub fn open(
        names: &[PathBuf],
        samples: Option<&Accelerator>,
        (options, destroy_data): (&dyn Fn(usize) -> TargetOptions, &[String]),
        load: LoadOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&Path, ByteCount, ByteCount),
    ) -> Result<Self, FileError> {
        let mut bench = Self { targets: Vec::new(), options: load };
        for (index, name) in names.iter().enumerate() {
            let options = options(index);
            let place = samples.map_or_else(|| place_of(name), |_| SampleFolder::place_in(name));
            let is_ours = options.lay_out.is_some() && !is_remote_uri(name) && !place.exists();
            let named = destroy_data.iter().find(|given| is_name_of(given, name, &place));
            let options = TargetOptions { destroy_data: named.or(destroy_data.first()).cloned(), ..options };
            let mut tell = |state: LayOutProgress| progress(name, state.written, state.total);
            let opened = match samples {
                Some(it) => Target::open_samples(name, it, &options, cancel, &mut tell),
                None => Target::open_with_progress(name, &options, cancel, &mut tell),
            };
            match opened {
                Ok(target) => bench.targets.push(OpenTarget { name: name.clone(), target, is_ours }),
                Err(error) => {
                    bench.close()?;
                    return Err(error.into());
                }
            }
        }
        Ok(bench)
    }

    /// Lays a test file out and opens it for reading and writing. A test file that raidlab left there is taken over;
    /// any other file with data in it is an error. `progress` gets the bytes written so far and the bytes in all.
    ///
    /// # Errors
    /// [`FileError`]: no space, no direct I/O, a file in the way, or `cancel`.
    pub fn lay_out(
        path: &Path,
        order: &LayOut,
        direct: bool,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<Self, FileError> {
        let mut tell = |state: LayOutProgress| progress(state.written, state.total);
        lay_out_file(path, order, cancel, &mut tell)?;
        let options = TargetOptions { lay_out: None, direct, may_write: true, destroy_data: None };
        match Target::open(path, &options) {
            Ok(target) => {
                let target = OpenTarget { name: path.to_owned(), target, is_ours: true };
                Ok(Self { targets: vec![target], options: LoadOptions::default() })
            }
            Err(error) => {
                remove(path)?;
                Err(error.into())
            }
        }
    }

    /// Makes what was laid out its own, also what an earlier run left: it is removed in the end.
    pub fn take_over(&mut self) {
        self.targets.iter_mut().for_each(|open| open.is_ours = true);
    }

    /// Size of all targets together.
    pub fn size(&self) -> ByteCount {
        self.targets.iter().fold(ByteCount::ZERO, |sum, open| sum + open.target.size())
    }

    /// Runs `load` on each target as a whole, together with all `hosts`, telling `progress` how far it has
    /// come. The result is that of all targets of all hosts together; where there are many it holds that of each as well.
    ///
    /// # Errors
    /// [`FileError`]: a load that does not fit, storage of which every target fails, `cancel`, or another rank that fails.
    pub fn run(
        &mut self,
        load: &Load,
        hosts: &mut Hosts,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<RunResult, FileError> {
        let own_load = Load { seed: seed_of_rank(load.seed, hosts), ..load.clone() };
        let own = |begin: &mut dyn FnMut() -> Go, watch: &mut dyn FnMut()| {
            let mut tell = |seen: &LoadProgress| {
                watch();
                progress(seen);
            };
            self.run_here(&own_load, begin, cancel, &mut tell)
        };
        run_together(hosts, cancel, own, |shares, crew| {
            let (mut result, measurement) = merged(shares, crew);
            set_measurement(&mut result, load, &measurement);
            result
        })
    }

    /// Runs `load` on the targets of this host, from when `start` says.
    fn run_here(
        &mut self,
        load: &Load,
        start: &mut dyn FnMut() -> Go,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<Share, FileError> {
        // Each run begins with nothing in the page cache.
        self.targets.iter().filter_map(|open| open.target.samples()).for_each(SampleFolder::drop_from_cache);
        let targets: Vec<_> =
            (0..).zip(&self.targets).map(|(index, open)| self.job(load, index, open)).collect();
        let watch = MachineWatch::start(self.targets[0].target.path());
        self.options.workers = NonZeroU32::new(load.workers).unwrap_or(NonZeroU32::MIN);
        let outcome = run_targets(&targets, &load.workload.spec, &self.options, start, cancel, progress)?;
        let machine = MachineLoad {
            load_switches_voluntary: outcome.cost.context_switches_voluntary,
            load_switches_involuntary: outcome.cost.context_switches_involuntary,
            ..watch.end()
        };
        if outcome.cancelled {
            return Err(FileError::Stopped { path: self.targets[0].name.clone() });
        }
        for (open, target) in self.targets.iter().zip(&outcome.targets) {
            if let Some(verified) = target.verified.as_ref().filter(|verified| verified.checked.faulty > 0) {
                return Err(FileError::Faulty { path: open.name.clone(), verified: verified.clone() });
            }
        }
        let mut result = empty_result(World::Measured, self.label(), load);
        set_measurement(&mut result, load, &outcome.measurement);
        result.machine = Some(machine);
        self.set_parts(&mut result, load, &outcome);
        result.cost.cpu_ns_per_io = outcome.cpu_ns_per_io();
        result.cost.kernel_threads_cpu_ns_per_io = outcome.kernel_threads_cpu_ns_per_io();
        result.cost.host_reads = Some(outcome.issued.reads);
        result.cost.host_writes = Some(outcome.issued.writes);
        result.cost.wall_ns = outcome.wall.get();
        result.settings = load_settings(load, self.size());
        result.settings.extend(self.settings(&outcome));
        let (started_ns, wall_ns) = (outcome.late.get(), outcome.wall.get());
        Ok(Share { result, measurement: outcome.measurement, started_ns, wall_ns })
    }

    /// A target, and the load on it. Of a trace each target has the part that goes to its number.
    fn job<'a>(&self, load: &Load, index: u32, open: &'a OpenTarget) -> (&'a Target, DriverConfig) {
        let spec = &load.workload.spec;
        // Where there is no such target, the run says so.
        let own = spec.on_target(index, self.targets.len() as u32).unwrap_or(Cow::Borrowed(spec));
        // What is verified is stamped block by block.
        let block_bytes =
            if self.options.verify { open.target.block_bytes() } else { open.target.blocks_for(&own) };
        let config = load.driver_config(open.target.size(), block_bytes);
        let worker = match load.workload.spec.trace {
            Some(_) => Worker { index, count: self.targets.len() as u32 },
            None => config.worker,
        };
        let files = open.target.samples().map(|samples| samples.files().clone());
        (&open.target, DriverConfig { worker, files, ..config })
    }

    /// The targets' names.
    fn label(&self) -> String {
        let names = self.targets.iter().map(|open| open.name.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// How the load is made up, and what was measured on each target, where there is more than one of anything.
    fn set_parts(&self, result: &mut RunResult, load: &Load, outcome: &LoadOutcome) {
        let (targets, workers) = (self.targets.len() as u32, self.options.workers.get());
        if targets > 1 || workers > 1 {
            let each = load.workload.spec.iodepths_on(targets, load.iodepth, workers);
            result.iodepth = each.iter().copied().fold(0, u32::saturating_add);
            let is_same = each.windows(2).all(|pair| pair[0] == pair[1]);
            result.load = each.first().filter(|_| is_same).map(|per_target| LoadFacts {
                targets,
                workers,
                iodepth_per_target: per_target.div_ceil(workers),
            });
        }
        if targets > 1 {
            let each = self.targets.iter().zip(&outcome.targets);
            result.targets = each.map(|(open, outcome)| target_result(open, outcome)).collect();
        }
    }

    fn settings(&self, outcome: &LoadOutcome) -> Vec<(String, String)> {
        let of_each = |text: &dyn Fn(&Target) -> String| {
            let mut texts: Vec<String> = self.targets.iter().map(|open| text(&open.target)).collect();
            texts.dedup();
            texts.join(", ")
        };
        let cache = |target: &Target| {
            match target.kind() {
                TargetKind::Nbd => "the server's",
                TargetKind::Nfs | TargetKind::Xrootd => "none here; the server's is its own",
                TargetKind::NoOp => "none",
                TargetKind::Samples if !target.is_direct() => "in use, emptied before the run",
                _ if target.is_direct() => "bypassed (O_DIRECT)",
                _ => "in use",
            }
            .to_owned()
        };
        let mut settings = vec![
            ("page cache", of_each(&cache)),
            ("engine", outcome.engine.clone()),
            ("block size", of_each(&|target| target.block_bytes().to_string())),
            ("iodepth reached", outcome.iodepth_reached.to_string()),
        ];
        let samples = self.targets.iter().filter_map(|open| open.target.samples());
        let files: usize = samples.map(|samples| samples.files().lengths.len()).sum();
        if files > 0 {
            settings.push(("sample files", files.to_string()));
        }
        if self.options.fua {
            settings.push(("writes", "end when the medium has them (FUA)".to_owned()));
        }
        if outcome.threads > 1 {
            settings.push(("threads", outcome.threads.to_string()));
        }
        if !self.options.cpus.is_empty() {
            let cpus: Vec<String> = self.options.cpus.iter().map(ToString::to_string).collect();
            settings.push(("processors", cpus.join(",")));
        }
        if let Some(text) = verified_text(outcome) {
            settings.push(("verified", text));
        }
        if outcome.short_transfers > 0 {
            settings.push(("short transfers", outcome.short_transfers.to_string()));
        }
        if let Some(failure) = outcome.first_failure() {
            let text = format!(
                "{:?} of {} bytes at {}: {}",
                failure.op, failure.bytes, failure.offset_bytes, failure.cause
            );
            settings.push(("first failure", text));
        }
        if !outcome.notes.is_empty() {
            settings.push(("notes", outcome.notes.join("; ")));
        }
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Closes the targets, and removes those that are test files laid out for it.
    ///
    /// # Errors
    /// [`FileError::Remove`] when a file can't be removed; the others are removed all the same.
    pub fn close(self) -> Result<(), FileError> {
        let mut outcome = Ok(());
        for OpenTarget { target, is_ours, .. } in self.targets {
            let path = target.path().to_owned();
            if let Some(samples) = target.samples().filter(|_| is_ours) {
                outcome = outcome.and(samples.remove().map_err(|source| FileError::Remove { path, source }));
                continue;
            }
            drop(target);
            if is_ours {
                outcome = outcome.and(remove(&path));
            }
        }
        outcome
    }
}

/// Whether `given` names the target, with or without the signatures that are to go.
fn is_name_of(given: &str, name: &Path, place: &Path) -> bool {
    [name, place].iter().any(|path| {
        let rest = path.to_str().and_then(|path| given.strip_prefix(path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

fn target_result(open: &OpenTarget, outcome: &TargetOutcome) -> TargetResult {
    TargetResult {
        target: open.name.display().to_string(),
        window_ns: outcome.measurement.window.get(),
        ops: outcome.measurement.summaries(),
        error: outcome.error.as_ref().map(ToString::to_string),
    }
}

fn remove(path: &Path) -> Result<(), FileError> {
    std::fs::remove_file(path).map_err(|source| FileError::Remove { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::FileBench;
    use raidlab_engines::{LoadOptions, SampleFolder, TargetOptions, place_of};
    use raidlab_units::ByteCount;
    use raidlab_workload::Accelerator;
    use raidlab_worlds::{accelerator, find_workload};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    /// Opens targets as one command does that lays out what is not there, and closes them as one that removes what it laid out.
    fn come_and_go(names: &[&Path], samples: Option<&Accelerator>, removes: bool) -> bool {
        let lay_out = Some(ByteCount::from_mib(4));
        let options = |_| TargetOptions { lay_out, direct: false, may_write: false, destroy_data: None };
        let cancel = AtomicBool::new(false);
        let load = LoadOptions::default();
        let names: Vec<PathBuf> = names.iter().map(|name| name.to_path_buf()).collect();
        let bench = FileBench::open(&names, samples, (&options, &[]), load, &cancel, &mut |_, _, _| {});
        let is_open = bench.is_ok();
        if let Ok(bench) = bench
            && removes
        {
            bench.close().expect("they can be removed");
        }
        is_open
    }

    /// Sample files that an earlier command had kept were removed by a later one.
    #[test]
    fn only_what_was_laid_out_here_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let workload = find_workload("mlperf-cosmoflow-h100", Path::new("")).expect("it is built in");
        let it = accelerator(&workload.spec).expect("it is one");
        let missing = folder.path().join("missing/test");
        for (samples, place) in [
            (None, place_of as fn(&Path) -> PathBuf),
            (Some(it), SampleFolder::place_in as fn(&Path) -> PathBuf),
        ] {
            let name = folder.path();
            let place = place(name);
            assert!(come_and_go(&[name], samples, true) && !place.exists(), "it made it");
            assert!(!come_and_go(&[name, &missing], samples, true));
            assert!(!place.exists(), "what it made goes where it can't go on");
            assert!(come_and_go(&[name], samples, false) && place.exists(), "nobody asked");
            assert!(come_and_go(&[name], samples, true) && place.exists(), "it was there before");
            assert!(!come_and_go(&[name, &missing], samples, true));
            assert!(place.exists(), "it was there before, and one more can't be opened");
        }
    }
}
