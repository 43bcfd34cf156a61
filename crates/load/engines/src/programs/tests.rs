//! Programs on real files of a scratch folder.

use super::*;
use raidlab_workload::program::{
    BonnieConfig, BonniePhase, BonnieProgram, FileId, ManyFiles, ManyFilesConfig, ManyFilesPhase, Readers,
    ReadersConfig, WriteEnding,
};
use std::path::Path;

fn files(paths: Vec<PathBuf>, block: u64) -> ProgramFiles {
    ProgramFiles {
        paths,
        length: None,
        block: ByteCount(block),
        may_write: true,
        caching: PageCaching::Kept,
        seed: 1,
    }
}

fn run<P: Program + Send>(program: &mut P, files: &ProgramFiles) -> Result<ProgramEnd, LoadError> {
    let ended = run_program(program, files, &mut || Go::Now, &AtomicBool::new(false), &mut |_| {});
    ended.map(|(ended, _)| ended)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into()).collect()
}

#[test]
fn bonnie_goes_over_its_file_and_writes_what_does_not_compress() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bonnie");
    let config = BonnieConfig { file: ByteCount(1 << 20), seed: 1, ending: WriteEnding::Sync };
    let mut program = BonnieProgram::new(&config).unwrap();
    let ended = run(&mut program, &files(vec![path.clone()], BonnieProgram::block_bytes()));
    assert_eq!(ended.unwrap(), ProgramEnd::Finished);
    let phases: Vec<_> = program.figures().iter().map(|(phase, _)| *phase).collect();
    assert_eq!(phases, BonniePhase::ALL);
    for (phase, figures) in program.figures() {
        assert!(figures.elapsed_ns > 0 && figures.cpu_ns > 0, "{phase:?} {figures:?}");
        assert!(*phase == BonniePhase::Seeks || figures.bytes == 1 << 20);
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    assert!((f64::from(ones) / 8e6 - f64::from(1 << 20) / 2e6).abs() < 0.01, "as many ones as zeros: {ones}");
}

#[test]
fn readers_read_what_is_there_and_no_further_than_asked() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|n| folder.path().join(format!("{n}"))).collect();
    for path in &paths {
        std::fs::write(path, vec![1; 100_000]).unwrap();
    }
    for (caching, length, bytes) in
        [(PageCaching::Kept, None, 100_000), (PageCaching::DroppedAtClose, Some(ByteCount(70_000)), 70_000)]
    {
        let config =
            ReadersConfig { block: ByteCount(4096), files: (0..3).map(|n| vec![FileId(n); 2]).collect() };
        let mut readers = Readers::new(config).unwrap();
        let places = ProgramFiles { length, caching, ..files(paths.clone(), 4096) };
        assert_eq!(run(&mut readers, &places).unwrap(), ProgramEnd::Finished);
        let figures: Vec<_> = readers.figures().map(|it| it.expect("all are timed").bytes).collect();
        assert_eq!(figures, [bytes; 3]);
    }
}

#[test]
fn many_files_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let config = ManyFilesConfig { files: 50, seed: 1 };
    let mut program = ManyFiles::new(&config);
    let paths = config.names().iter().map(|name| folder.path().join(name)).collect();
    assert_eq!(run(&mut program, &files(paths, 4096)).unwrap(), ProgramEnd::Finished);
    assert_eq!(program.figures().len(), ManyFilesPhase::ALL.len());
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn nothing_is_written_over_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    let config = BonnieConfig { file: ByteCount(1 << 20), seed: 1, ending: WriteEnding::Close };
    let mut program = BonnieProgram::new(&config).unwrap();
    let failed = run(&mut program, &files(vec![path.clone()], BonnieProgram::block_bytes()));
    assert!(failed.unwrap_err().to_string().contains("cannot create"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_stop_ends_all_processes_soon() {
    /// Two processes, of which one sleeps long and the other waits for it.
    struct Sleepers;
    impl Program for Sleepers {
        fn process_count(&self) -> u32 {
            2
        }

        fn poll_step(&mut self, process: u32, _time: ProcessTime) -> ProgramStep {
            match process {
                0 => ProgramStep::Call(FileCall::Sleep { span: NanoSpan::from_secs(3_600) }),
                _ => ProgramStep::Wait,
            }
        }

        fn handle_return(&mut self, _process: u32, _time: ProcessTime, _bytes: u64) {}
    }
    let cancel = AtomicBool::new(false);
    let mut tell = |_| cancel.store(true, Ordering::Relaxed);
    let ended = run_program(&mut Sleepers, &files(Vec::new(), 4096), &mut || Go::Now, &cancel, &mut tell);
    assert_eq!(ended.unwrap().0, ProgramEnd::Cancelled);
}
