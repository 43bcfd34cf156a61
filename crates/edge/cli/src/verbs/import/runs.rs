//! `raidlab import runs`: runs that were kept on another machine, or in another results file.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use raidlab_lab::{Archive, RunFilter, Store};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What a file of `SQLite` begins with.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Arguments of `raidlab import runs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `raidlab export json` wrote, or a results file; a results file of an older version is brought up to date
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Results file that they are added to; what is in it already is left alone
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let archives = args.files.iter().map(|file| archive_of(file)).collect::<Result<Vec<_>, _>>()?;
    let mut store = Store::open(&args.db).map_err(Failure::run)?;
    let mut files = Vec::new();
    for (file, archive) in args.files.iter().zip(&archives) {
        let imported = store.take_in(archive).map_err(Failure::run)?;
        if !output.is_json() {
            let (new, known) = (imported.runs.len(), imported.known);
            print(&format!("{}: {new} runs are new, {known} were there already", file.display()))?;
        }
        files.push(json!({ "file": file, "runs": imported.runs, "known": imported.known }));
    }
    if output.is_json() {
        print_json(&json!({ "schema": 1, "files": files }))?;
    }
    Ok(Exit::Done)
}

/// The runs of a file, of whichever of the two forms it is.
fn archive_of(path: &Path) -> Result<Archive, Failure> {
    let cannot = |failure: Failure| failure.context(format!("{} cannot be taken in", path.display()));
    let bytes = std::fs::read(path).map_err(|error| cannot(Failure::input(error)))?;
    if !bytes.starts_with(SQLITE_MAGIC) {
        let text = String::from_utf8_lossy(&bytes);
        return Archive::from_json(&text).map_err(|error| cannot(Failure::input(error)));
    }
    let of_store = || {
        let store = Store::open(path)?;
        let ids: Vec<i64> =
            store.list_runs(&RunFilter::default())?.iter().rev().map(|line| line.id).collect();
        store.archive(&ids)
    };
    of_store().map_err(|error| cannot(Failure::input(error)))
}
