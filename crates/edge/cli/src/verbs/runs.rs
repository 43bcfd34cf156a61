//! `raidlab runs` and `raidlab show`: what is in a results file.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use raidlab_lab::{RunLine, Store, StoreError, StoredRun};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab runs`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Results file
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
    /// So many runs at most, the latest first
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
}

/// Arguments of `raidlab show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Number of the run, as `raidlab runs` lists it
    run: i64,
    /// Results file
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
}

/// Lists runs.
pub(crate) fn list(args: &ListArgs, output: &Output) -> Result<Exit, Failure> {
    let lines = open(&args.db)?.list_runs(args.limit).map_err(Failure::run)?;
    if output.is_json() {
        print_json(&json!({ "schema": 1, "runs": lines }))?;
    } else {
        print(&lines.iter().map(line_text).collect::<String>())?;
    }
    Ok(Exit::Done)
}

/// Shows one run.
pub(crate) fn show(args: &ShowArgs, output: &Output) -> Result<Exit, Failure> {
    let run = stored(&open(&args.db)?, args.run)?;
    if output.is_json() {
        let mut value = serde_json::to_value(&run).map_err(Failure::run)?;
        value["schema"] = json!(1);
        print_json(&value)?;
    } else {
        let head = format!("run {} of '{}', started {}\n", run.id, run.title, run.started_at);
        print(&(head + &raidlab_report::terminal::run(&run.result, output.terminal())))?;
    }
    Ok(Exit::Done)
}

/// The run with number `run`.
pub(crate) fn stored(store: &Store, run: i64) -> Result<StoredRun, Failure> {
    store.run(run).map_err(|error| match error {
        StoreError::NoSuchRun { .. } => Failure::input(error),
        other => Failure::run(other),
    })
}

/// Opens a results file that exists: looking must not make one.
pub(crate) fn open(path: &Path) -> Result<Store, Failure> {
    if !path.exists() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Failure::input(error)
            .context(format!("there is no results file {}", path.display()))
            .with_hint("'raidlab study' makes one; name another with --db"));
    }
    Store::open(path).map_err(Failure::run)
}

fn line_text(line: &RunLine) -> String {
    format!(
        "{:>6}  {}  {:<9}  {:<44}  {:<26}  {:>4}  {:>10.1} IOPS  {:>8.1} MB/s  {:>8.3} ms\n",
        line.id,
        line.started_at,
        line.world,
        line.target,
        line.workload,
        line.iodepth,
        line.iops,
        line.mb_per_s,
        line.lat_ns_mean / 1e6
    )
}
