//! Sample files: laid out, read as accelerators read them, known again, and refused where they are others.
#![allow(missing_docs)]

mod common;

use common::folder;
use raidlab_engines::{Go, LoadError, LoadOptions, Target, TargetOptions, run_targets};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessSpec, Actor, DriverConfig, Workload};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const TRAINING: &str = "schema = 1\nname = 'mine'\ntitle = ''\nsource = ''\nmetric = 'mb-per-s'\n[[part]]\nname = 'training'\n\
    [part.accelerator]\nbatch = 2\ncompute = '1ms'\nread_threads = 2\nprefetch = 2\nsample_size = '100000 B'\nsample_deviation = '20000 B'\n\
    request_size = '32KiB'\nrequests_per_thread = 2\n";

fn spec(more: &str) -> AccessSpec {
    Workload::from_toml("mine.toml", &format!("{TRAINING}{more}")).unwrap().spec
}

fn open(path: &Path, spec: &AccessSpec, lay_out: Option<u64>, direct: bool) -> Result<Target, LoadError> {
    let Some((_, Actor::Accelerator(it))) = spec.actors().next() else { panic!("it has accelerators") };
    let options = TargetOptions { lay_out: lay_out.map(ByteCount), direct, ..TargetOptions::default() };
    Target::open_samples(path, it, &options, &AtomicBool::new(false), &mut |_| {})
}

fn config(target: &Target) -> DriverConfig {
    DriverConfig {
        region: target.size(),
        block_bytes: target.block_bytes(),
        iodepth: 1,
        seed: 42,
        run: NanoSpan::from_millis(400),
        files: target.samples().map(|samples| samples.files().clone()),
        ..DriverConfig::default()
    }
}

#[test]
fn files_are_of_the_law_and_each_is_read_whole() {
    for (direct, more) in [(false, ""), (true, ""), (false, "samples_per_file = 3\n")] {
        let folder = folder();
        let spec = spec(more);
        let target = open(folder.path(), &spec, Some(4_000_000), direct).unwrap();
        let files = target.samples().unwrap().files().clone();
        let per_file = if more.is_empty() { 1 } else { 3 };
        assert_eq!(files.lengths.len() as u64, (40.0 / f64::from(per_file)).round() as u64);
        for (number, length) in files.lengths.iter().enumerate() {
            let path = folder.path().join(format!("raidlab-samples/000/{number:07}"));
            assert_eq!(std::fs::metadata(path).unwrap().len(), *length);
        }
        let mut progress = |_: &_| {};
        let outcome = run_targets(
            &[(&target, config(&target))],
            &spec,
            &LoadOptions::default(),
            &mut || Go::Now,
            &AtomicBool::new(false),
            &mut progress,
        )
        .unwrap();
        assert_eq!(outcome.engine, "files");
        assert!(outcome.first_failure().is_none(), "{:?}", outcome.first_failure());
        let mut result = raidlab_workload::RunResult::default();
        result.set_measurement(&outcome.measurement);
        let facts = result.accelerators().unwrap();
        assert!(facts.samples_per_s > 10.0, "{facts:?}");
        // Buffered reads are of the files' own bytes; direct ones are whole blocks.
        let read = outcome.issued.bytes.get() as f64 / outcome.issued.reads as f64;
        assert!((10_000.0..=32_768.0).contains(&read), "{read}");
    }
}

#[test]
fn samples_are_known_again_and_others_are_refused() {
    let folder = folder();
    let path = folder.path();
    let mine = spec("");
    let text = |result: Result<Target, LoadError>| result.unwrap_err().to_string();
    assert!(text(open(path, &mine, None, false)).contains("has no sample files: --size lays them out"));
    drop(open(path, &mine, Some(1_000_000), false).unwrap());
    let first = path.join("raidlab-samples/000/0000000");
    let stamp = std::fs::metadata(&first).unwrap().modified().unwrap();
    drop(open(path, &mine, None, false).unwrap());
    drop(open(path, &mine, Some(1_000_000), false).unwrap());
    assert_eq!(std::fs::metadata(&first).unwrap().modified().unwrap(), stamp, "they are used again");
    let other = spec("samples_per_file = 2\n");
    assert!(text(open(path, &other, None, false)).contains("are of another kind"));
    drop(open(path, &other, Some(1_000_000), false).unwrap());
    // A lay-out that was stopped is known, and done again.
    let note = path.join("raidlab-samples/made-of");
    let text_of_note = std::fs::read_to_string(&note).unwrap().replace("complete", "being laid out");
    std::fs::write(&note, text_of_note).unwrap();
    assert!(text(open(path, &other, None, false)).contains("are not complete"));
    drop(open(path, &other, Some(1_000_000), false).unwrap());
    // What raidlab did not make stays.
    std::fs::remove_file(&note).unwrap();
    assert!(text(open(path, &other, Some(1_000_000), false)).contains("are not raidlab's"));
    assert!(first.exists());
}
