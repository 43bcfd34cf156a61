//! What the test files share.
#![allow(dead_code, unreachable_pub, missing_docs)]

use raidlab_engines::{
    Go, LayOut, LayOutContent, LoadError, LoadOptions, LoadOutcome, LoadProgress, Target, TargetOptions,
    lay_out_file, run_targets,
};
use raidlab_trace::{Summary, TraceKind, TraceRecord, TraceSummary};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    AccessLine, AccessSpec, BatchStep, DriverConfig, Fit, Replay, Timing, TraceReader, TraceSource,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A folder on the file system of the build, which is on storage more often than the one for temporary files.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn spec(bytes: u32, read_pct: u8, random_pct: u8) -> AccessSpec {
    AccessSpec::new("test", vec![AccessLine::plain(bytes, read_pct, random_pct)])
}

pub fn config(target: &Target, iodepth: u32, run_ms: u64) -> DriverConfig {
    DriverConfig {
        region: target.size(),
        block_bytes: target.block_bytes(),
        iodepth,
        seed: 42,
        run: NanoSpan::from_millis(run_ms),
        ..DriverConfig::default()
    }
}

/// A run that ends with so many requests, however long the machine takes for them.
pub fn until(target: &Target, iodepth: u32, requests: u64) -> DriverConfig {
    DriverConfig { max_requests: Some(requests), ..config(target, iodepth, 600_000) }
}

pub fn order(bytes: ByteCount) -> LayOut {
    LayOut { bytes, content: LayOutContent::Noise, seed: 7, destroy_data: None }
}

/// A test file of `mib`, in a folder that lives as long as the first value.
pub fn test_file(mib: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("test file");
    lay_out(&path, ByteCount::from_mib(mib)).unwrap();
    (folder, path)
}

pub fn lay_out(path: &Path, bytes: ByteCount) -> Result<bool, LoadError> {
    lay_out_file(path, &order(bytes), &AtomicBool::new(false), &mut |_| {}).map(|laid_out| laid_out.reused)
}

pub fn writable() -> TargetOptions {
    TargetOptions { may_write: true, ..TargetOptions::default() }
}

pub fn named(path: &Path) -> TargetOptions {
    TargetOptions { destroy_data: Some(path.display().to_string()), ..writable() }
}

pub fn run_quietly(
    target: &Target,
    spec: &AccessSpec,
    config: &DriverConfig,
    options: &LoadOptions,
) -> Result<LoadOutcome, LoadError> {
    run(target, spec, config, options, &AtomicBool::new(false), &mut |_| {})
}

pub fn run(
    target: &Target,
    spec: &AccessSpec,
    config: &DriverConfig,
    options: &LoadOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    run_targets(&[(target, config.clone())], spec, options, &mut || Go::Now, cancel, progress)
}

/// Runs a command; returns what it printed, or nothing when it failed or is not installed.
pub fn command(line: &[&str]) -> Option<String> {
    let output = Command::new(line[0]).args(&line[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A trace in memory.
#[derive(Debug)]
struct InMemory(Vec<TraceRecord>, TraceSummary);

#[derive(Debug)]
struct Once(Vec<TraceRecord>);

impl TraceSource for InMemory {
    fn name(&self) -> String {
        "in memory".into()
    }

    fn summary(&self) -> &TraceSummary {
        &self.1
    }

    fn open(&self, _: &DriverConfig) -> Result<Box<dyn TraceReader>, String> {
        Ok(Box::new(Once(self.0.clone())))
    }
}

impl TraceReader for Once {
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
        batch.clear();
        batch.append(&mut self.0);
        if batch.is_empty() { BatchStep::End } else { BatchStep::Ready }
    }
}

/// The replay, one request after the other, of kinds with their places and lengths.
pub fn trace(requests: &[(TraceKind, u64, u64)]) -> AccessSpec {
    let record = |&(kind, offset_bytes, length_bytes)| TraceRecord {
        time_ns: 0,
        device: 0,
        kind,
        offset_bytes,
        length_bytes,
        response_ns: None,
    };
    let records: Vec<TraceRecord> = requests.iter().map(record).collect();
    let mut summary = Summary::default();
    for record in &records {
        summary.add(record);
    }
    let source = Arc::new(InMemory(records, summary.finish(&["a".into()])));
    let replay = Replay {
        source,
        timing: Timing::None,
        fit: Fit::Refuse,
        whole_blocks: false,
        targets: vec![Some(0)],
    };
    AccessSpec { name: "trace".into(), trace: Some(replay), ..AccessSpec::default() }
}

pub fn to_the_end(target: &Target) -> DriverConfig {
    DriverConfig { run: NanoSpan(u64::MAX / 4), ..config(target, 1, 1) }
}
