//! Many empty files in one folder: created, looked up and removed, in order of their names and at random.
//!
//! ```text
//!  names in order   0000000ab 0000001q 0000002xyz ...    create ─► stat ─► delete, each in this order
//!  names at random  ab0000000 q0000001 xyz0000002 ...    create in this order ─► stat at random ─► delete in random order
//! ```
//! A random stat draws a file each time, so some are drawn twice and some never; a deletion takes each once. Names have
//! up to twelve letters and seven digits. A file is opened and closed when it is created.
//!
//! Left out: files with data, several folders, and the order in which the folder itself lists its files, which bonnie++
//! uses for names in order.
//! Source of the method: R. Coker, bonnie++ 2.00, its option `-n`.

use super::{FileCall, FileId, PhaseFigures, ProcessTime, Program, ProgramStep};
use crate::rng::{Rng, derived_seed};

/// Letters of a name at most.
const LETTERS_MAX: u64 = 12;

raidlab_units::named! {
    /// What is done to the files, in the order in which it is done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ManyFilesPhase {
        /// Created in the order of their names.
        SeqCreate = "seq-create",
        /// Looked at in this order.
        SeqStat = "seq-stat",
        /// Taken away in this order.
        SeqDelete = "seq-delete",
        /// Created in an order that says nothing to the folder.
        RandomCreate = "random-create",
        /// Looked at, one drawn at random each time.
        RandomStat = "random-stat",
        /// Taken away in random order.
        RandomDelete = "random-delete",
    }
}

impl ManyFilesPhase {
    const fn is_random(self) -> bool {
        matches!(self, Self::RandomCreate | Self::RandomStat | Self::RandomDelete)
    }
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManyFilesConfig {
    /// Files of each kind of name; at least one.
    pub files: u32,
    /// Seed of names and orders.
    pub seed: u64,
}

impl ManyFilesConfig {
    /// The names of the files by their numbers: first those in order, then those at random.
    pub fn names(&self) -> Vec<String> {
        let mut random = Rng::new(derived_seed(self.seed, 1));
        let mut letters = || -> String {
            let count = random.below(LETTERS_MAX + 1);
            (0..count).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
        };
        let in_order: Vec<String> =
            (0..self.files).map(|number| format!("{number:07}{}", letters())).collect();
        in_order
            .into_iter()
            .chain((0..self.files).map(|number| format!("{}{number:07}", letters())))
            .collect()
    }
}

/// The program.
#[derive(Clone, Debug)]
pub struct ManyFiles {
    files: u32,
    random: Rng,
    phase: usize,
    /// Files of the phase that are done with.
    done: u32,
    /// Which file is on, and whether it is open.
    file: FileId,
    is_open: bool,
    /// The order of random deletion.
    order: Vec<u32>,
    started: ProcessTime,
    figures: Vec<(ManyFilesPhase, PhaseFigures)>,
}

impl ManyFiles {
    /// The program of `config`.
    ///
    /// # Panics
    /// If there is no file.
    pub fn new(config: &ManyFilesConfig) -> Self {
        assert!(config.files > 0, "there is at least one file");
        let mut random = Rng::new(derived_seed(config.seed, 2));
        let mut order: Vec<u32> = (0..config.files).collect();
        for index in (1..config.files).rev() {
            order.swap(index as usize, random.below(u64::from(index) + 1) as usize);
        }
        Self {
            files: config.files,
            random,
            phase: 0,
            done: 0,
            file: FileId(0),
            is_open: false,
            order,
            started: ProcessTime::default(),
            figures: Vec::with_capacity(ManyFilesPhase::ALL.len()),
        }
    }

    /// Phases that are over, in order; calls are files.
    pub fn figures(&self) -> &[(ManyFilesPhase, PhaseFigures)] {
        &self.figures
    }

    /// The file that comes next in `phase`.
    fn next_file(&mut self, phase: ManyFilesPhase) -> FileId {
        let index = match phase {
            ManyFilesPhase::RandomStat => self.random.below(u64::from(self.files)) as u32,
            ManyFilesPhase::RandomDelete => self.order[self.done as usize],
            _ => self.done,
        };
        FileId(index + if phase.is_random() { self.files } else { 0 })
    }
}

impl Program for ManyFiles {
    fn process_count(&self) -> u32 {
        1
    }

    fn poll_step(&mut self, _process: u32, time: ProcessTime) -> ProgramStep {
        let Some(&phase) = ManyFilesPhase::ALL.get(self.phase) else { return ProgramStep::Finished };
        if self.is_open {
            return ProgramStep::Call(FileCall::Close { file: self.file });
        }
        if self.done == 0 {
            self.started = time;
        }
        self.file = self.next_file(phase);
        let file = self.file;
        ProgramStep::Call(match phase {
            ManyFilesPhase::SeqCreate | ManyFilesPhase::RandomCreate => FileCall::Open { file, create: true },
            ManyFilesPhase::SeqStat | ManyFilesPhase::RandomStat => FileCall::Stat { file },
            ManyFilesPhase::SeqDelete | ManyFilesPhase::RandomDelete => FileCall::Delete { file },
        })
    }

    fn handle_return(&mut self, _process: u32, time: ProcessTime, _bytes: u64) {
        let phase = ManyFilesPhase::ALL[self.phase];
        let creates = matches!(phase, ManyFilesPhase::SeqCreate | ManyFilesPhase::RandomCreate);
        self.is_open = creates && !self.is_open;
        if self.is_open {
            return;
        }
        self.done += 1;
        if self.done == self.files {
            let figures = PhaseFigures {
                bytes: 0,
                calls: u64::from(self.files),
                elapsed_ns: (time.now - self.started.now).0,
                cpu_ns: (time.cpu - self.started.cpu).0,
            };
            self.figures.push((phase, figures));
            (self.phase, self.done) = (self.phase + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::{NanoSpan, Nanos};
    use std::collections::BTreeSet;

    /// Runs against a folder that knows which files are there and refuses what can't be.
    fn run(files: u32, seed: u64) -> ManyFiles {
        let mut program = ManyFiles::new(&ManyFilesConfig { files, seed });
        let (mut there, mut open, mut now) = (BTreeSet::new(), None, Nanos::ZERO);
        loop {
            let time = |now: Nanos| ProcessTime { now, cpu: NanoSpan(now.0 / 2) };
            let ProgramStep::Call(call) = program.poll_step(0, time(now)) else { break };
            now += NanoSpan(1_000);
            match call {
                FileCall::Open { file, create: true } => {
                    assert!(there.insert(file), "{file:?} is made twice");
                    assert_eq!(open.replace(file), None);
                }
                FileCall::Close { file } => assert_eq!(open.take(), Some(file)),
                FileCall::Stat { file } => assert!(there.contains(&file), "{file:?} is not there"),
                FileCall::Delete { file } => assert!(there.remove(&file), "{file:?} is not there"),
                other => panic!("{other:?}"),
            }
            program.handle_return(0, time(now), 0);
        }
        assert!(there.is_empty() && open.is_none());
        program
    }

    #[test]
    fn every_file_is_made_looked_at_and_taken_away() {
        for (files, seed) in [(1, 1), (2, 2), (100, 3)] {
            let program = run(files, seed);
            let phases: Vec<_> = program.figures().iter().map(|(phase, _)| *phase).collect();
            assert_eq!(phases, ManyFilesPhase::ALL);
            for (phase, figures) in program.figures() {
                let calls = if phase.name().ends_with("create") { 2 } else { 1 };
                assert_eq!(
                    (figures.calls, figures.elapsed_ns),
                    (u64::from(files), calls * u64::from(files) * 1_000)
                );
                assert!((figures.cpu_pct() - 50.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn names_differ_and_only_some_are_in_order() {
        let config = ManyFilesConfig { files: 500, seed: 9 };
        let names = config.names();
        for kind in names.chunks(500) {
            assert_eq!(kind.iter().collect::<BTreeSet<_>>().len(), 500);
        }
        assert!(names[..500].is_sorted() && !names[500..].is_sorted());
        assert!(names.iter().all(|name| (7..=19).contains(&name.len())));
    }
}
