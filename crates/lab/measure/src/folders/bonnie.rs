//! Bonnie on real folders, with its many files.
//!
//! Each run creates its file in a separate folder, `raidlab-bonnie-` and the process id, and removes it: all rounds
//! start alike, and two runs at once never conflict.

use super::{FoldersError, check_folders, check_room};
use crate::scratch::ScratchFolder;
use crate::together::{Share, merged_programs, run_together};
use raidlab_engines::Go;
use raidlab_engines::programs::{PageCaching, ProgramEnd, ProgramFiles, run_program};
use raidlab_hosts::Hosts;
use raidlab_machine::MachineWatch;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::{
    BonnieConfig, BonnieProgram, ManyFiles, ManyFilesConfig, Program, WriteEnding,
};
use raidlab_workload::{Measurement, Metric, PhaseResult, RunResult, World};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What every run of Bonnie has in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BonnieOptions {
    /// Lengths of the file, one after the other.
    pub sizes: Vec<ByteCount>,
    /// Rounds of each.
    pub rounds: u32,
    /// Whether what was written is synchronised in its phase's time.
    pub ending: WriteEnding,
    /// Files to create, look at and take away after the file's phases; none without.
    pub many_files: Option<u32>,
    /// Memory that the sizes are set against.
    pub ram: ByteCount,
    /// Seed of places and names.
    pub seed: u64,
}

/// The order of all runs: by round, then by size, then by target, so that with two targets or more no two runs on one target
/// follow each other. Returns round (from 0), index of the size and index of the target.
pub fn interleaved(rounds: u32, sizes: usize, targets: usize) -> Vec<(u32, usize, usize)> {
    let of_round =
        |round| (0..sizes).flat_map(move |size| (0..targets).map(move |target| (round, size, target)));
    (0..rounds).flat_map(of_round).collect()
}

/// Folders that Bonnie is run in.
#[derive(Debug)]
pub struct BonnieBench {
    folders: Vec<PathBuf>,
    options: BonnieOptions,
}

impl BonnieBench {
    /// Looks whether `folders` are some and have room for the largest file, one at a time.
    ///
    /// # Errors
    /// [`FoldersError`]: no folder, no room.
    pub fn open(folders: &[PathBuf], options: &BonnieOptions) -> Result<Self, FoldersError> {
        check_folders(folders)?;
        for size in &options.sizes {
            BonnieProgram::new(&BonnieConfig { file: *size, seed: 0, ending: options.ending })?;
        }
        let largest = options.sizes.iter().copied().max().unwrap_or_default();
        for folder in folders {
            check_room(&[(folder, largest.get())])?;
        }
        Ok(Self { folders: folders.to_vec(), options: options.clone() })
    }

    /// Runs Bonnie on a file of `size` in the folder of number `target`, and then the many files, if any are asked for. `tell`
    /// gets the bytes moved so far. All `hosts` begin at once; of a phase on several hosts the bytes and the processor time are
    /// those of all, and the time is that of the host which took longest for it.
    ///
    /// # Errors
    /// [`FoldersError`]: files that can't be made, read or written, `cancel`, or another rank that fails.
    pub fn run(
        &self,
        order: (u32, ByteCount, usize),
        hosts: &mut Hosts,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(ByteCount),
    ) -> Result<RunResult, FoldersError> {
        let own = |begin: &mut dyn FnMut() -> Go, watch: &mut dyn FnMut()| {
            let mut tell = |moved: ByteCount| {
                watch();
                tell(moved);
            };
            self.run_here(order, begin, cancel, &mut tell)
        };
        run_together(hosts, cancel, own, |shares, crew| {
            merged_programs(shares, crew, |result, ranks| {
                let phases = ranks.into_iter().map(|rank| rank.phases).reduce(add_phases);
                result.set_phases(phases.unwrap_or_default());
                result.iodepth = crew.count();
            })
        })
    }

    fn run_here(
        &self,
        (round, size, target): (u32, ByteCount, usize),
        begin: &mut dyn FnMut() -> Go,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(ByteCount),
    ) -> Result<Share, FoldersError> {
        let folder = &self.folders[target];
        let seed = self.options.seed + u64::from(round);
        let mut program =
            BonnieProgram::new(&BonnieConfig { file: size, seed, ending: self.options.ending })?;
        let (watch, started) = (MachineWatch::start(folder), Instant::now());
        let path = own_folder(folder).join("file");
        let late = self.run_in(folder, &mut program, vec![path], begin, cancel, tell)?;
        let named = |name: &str, figures| PhaseResult { name: name.to_owned(), figures };
        let mut phases: Vec<PhaseResult> =
            program.figures().iter().map(|(phase, figures)| named(phase.name(), *figures)).collect();
        if let Some(files) = self.options.many_files {
            let config = ManyFilesConfig { files, seed };
            let mut many = ManyFiles::new(&config);
            let paths = config.names().iter().map(|name| own_folder(folder).join(name)).collect();
            self.run_in(folder, &mut many, paths, &mut || Go::Now, cancel, tell)?;
            phases.extend(many.figures().iter().map(|(phase, figures)| named(phase.name(), *figures)));
        }
        let target = folder.display().to_string();
        let mut result = RunResult::unmeasured(World::Measured, target, "bonnie".into(), Metric::MbPerS);
        result.set_phases(phases);
        result.iodepth = 1;
        result.seed = seed;
        result.machine = Some(watch.end());
        result.cost.wall_ns = started.elapsed().as_nanos() as u64;
        result.settings.extend(self.settings(round, size));
        let wall_ns = result.phases.iter().map(|phase| phase.figures.elapsed_ns).sum();
        Ok(Share { result, measurement: Measurement::default(), started_ns: late.get(), wall_ns })
    }

    /// Runs `program` on files in a folder of their own, which is taken away with them. Returns how late it began.
    fn run_in<P: Program + Send>(
        &self,
        folder: &Path,
        program: &mut P,
        paths: Vec<PathBuf>,
        begin: &mut dyn FnMut() -> Go,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(ByteCount),
    ) -> Result<NanoSpan, FoldersError> {
        let own = OwnFolder::make(&own_folder(folder))?;
        let files = ProgramFiles {
            paths,
            length: None,
            block: ByteCount(BonnieProgram::block_bytes()),
            may_write: true,
            caching: PageCaching::Kept,
            seed: self.options.seed,
        };
        let ended = run_program(program, &files, begin, cancel, tell);
        drop(own);
        match ended? {
            (ProgramEnd::Finished, late) => Ok(late),
            (ProgramEnd::Cancelled, _) => Err(FoldersError::Stopped),
        }
    }

    fn settings(&self, round: u32, size: ByteCount) -> Vec<(String, String)> {
        let options = &self.options;
        let ratio = size.get() as f64 / options.ram.get().max(1) as f64;
        let ending = match options.ending {
            WriteEnding::Close => "with a close: what is dirty is written later",
            WriteEnding::Sync => "when all is on the volume (fsync)",
        };
        let settings = [
            ("file", size.decimal().to_string()),
            ("memory", options.ram.to_string()),
            ("file to memory", format!("{ratio:.3}")),
            ("round", (round + 1).to_string()),
            ("writing ends", ending.to_owned()),
        ];
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The phases of two hosts as one, phase by phase.
fn add_phases(mut sum: Vec<PhaseResult>, theirs: Vec<PhaseResult>) -> Vec<PhaseResult> {
    for (PhaseResult { figures: sum, .. }, PhaseResult { figures: other, .. }) in sum.iter_mut().zip(theirs) {
        sum.bytes += other.bytes;
        sum.calls += other.calls;
        sum.cpu_ns += other.cpu_ns;
        sum.elapsed_ns = sum.elapsed_ns.max(other.elapsed_ns);
    }
    sum
}

/// The folder of this process in `folder`.
fn own_folder(folder: &Path) -> PathBuf {
    folder.join(format!("raidlab-bonnie-{}", std::process::id()))
}

/// A folder that was made by this run, with everything in it.
struct OwnFolder {
    path: PathBuf,
    /// Dropped after what is in it.
    _scratch: ScratchFolder,
}

impl OwnFolder {
    fn make(path: &Path) -> Result<Self, FoldersError> {
        if path.exists() {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(crate::scratch::ScratchError { path: path.to_owned(), source }.into());
        }
        Ok(Self { _scratch: ScratchFolder::make(path)?, path: path.to_owned() })
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // It was not there before, so all that is in it was made by the program.
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries {
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "a test file was left behind");
            }
        }
    }
}
