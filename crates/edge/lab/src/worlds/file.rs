//! Runs on storage as it is: a test file, any other file, or a block device.

use super::{empty_result, load_settings};
use crate::load::Load;
use crate::machine::MachineWatch;
use raidlab_load::{
    LayOut, LayOutProgress, LoadError, LoadOptions, LoadOutcome, Target, TargetOptions, lay_out_file, run,
};
use raidlab_units::ByteCount;
use raidlab_workload::{MachineLoad, RunResult, World};
use std::io;
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
    /// The test file can't be removed.
    #[error("the test file {} cannot be removed: {source}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// Whether the caller asked for it.
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Load(LoadError::Cancelled { .. }) | Self::Stopped { .. })
    }
}

/// Storage that is open and ready for runs.
#[derive(Debug)]
pub struct FileBench {
    path: PathBuf,
    target: Target,
    /// The file is raidlab's to remove.
    is_ours: bool,
    options: LoadOptions,
}

impl FileBench {
    /// Opens `path`; where there is nothing and `target` gives a size, a test file is laid out. `progress` gets the
    /// bytes written so far and the bytes in all.
    ///
    /// # Errors
    /// [`FileError`]: no such file, no direct I/O, no space, data that may not be written over, or `cancel`.
    pub fn open(
        path: &Path,
        target: &TargetOptions,
        options: LoadOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<Self, FileError> {
        let is_ours = target.lay_out.is_some() && !path.exists();
        let mut tell = |state: LayOutProgress| progress(state.written, state.total);
        let target = Target::open_with_progress(path, target, cancel, &mut tell)?;
        Ok(Self { path: path.to_owned(), target, is_ours, options })
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
                Ok(Self { path: path.to_owned(), target, is_ours: true, options: LoadOptions::default() })
            }
            Err(error) => {
                remove(path)?;
                Err(error.into())
            }
        }
    }

    /// Runs `load` on the whole target, telling `progress` what share of ramp and window is over.
    ///
    /// # Errors
    /// [`FileError`]: a load that does not fit, storage that fails, or `cancel`.
    pub fn run(
        &mut self,
        load: &Load,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunResult, FileError> {
        let region = self.target.size();
        let config = load.driver_config(region, self.target.block_bytes());
        let mut tell = |state: &raidlab_load::LoadProgress| progress(state.window.fraction);
        let watch = MachineWatch::start(&self.path);
        let outcome = run(&self.target, &load.workload.spec, &config, &self.options, cancel, &mut tell)?;
        let machine = MachineLoad {
            load_switches_voluntary: outcome.cost.context_switches_voluntary,
            load_switches_involuntary: outcome.cost.context_switches_involuntary,
            ..watch.end()
        };
        if outcome.cancelled {
            return Err(FileError::Stopped { path: self.path.clone() });
        }
        let mut result = empty_result(World::Measured, self.path.display().to_string(), load);
        result.set_measurement(&outcome.measurement);
        result.machine = Some(machine);
        result.cost.cpu_ns_per_io = outcome.cpu_ns_per_io();
        result.cost.host_reads = Some(outcome.issued.reads);
        result.cost.host_writes = Some(outcome.issued.writes);
        result.cost.wall_ns = outcome.wall.get();
        result.settings = load_settings(load, region);
        result.settings.extend(self.settings(&outcome));
        Ok(result)
    }

    fn settings(&self, outcome: &LoadOutcome) -> Vec<(String, String)> {
        let mut settings = vec![
            ("page cache", if self.target.is_direct() { "bypassed (O_DIRECT)" } else { "in use" }.to_owned()),
            ("engine", outcome.engine.clone()),
            ("block size", self.target.block_bytes().to_string()),
            ("iodepth reached", outcome.iodepth_reached.to_string()),
        ];
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
            settings.push(("notes", outcome.notes.join(" ")));
        }
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Closes the target, and removes it if it is a test file that was laid out for it.
    ///
    /// # Errors
    /// [`FileError::Remove`] when the file can't be removed.
    pub fn close(self) -> Result<(), FileError> {
        let Self { path, target, is_ours, .. } = self;
        drop(target);
        if is_ours { remove(&path) } else { Ok(()) }
    }
}

fn remove(path: &Path) -> Result<(), FileError> {
    std::fs::remove_file(path).map_err(|source| FileError::Remove { path: path.to_owned(), source })
}
