//! `raidlab import runs`: runs from another machine, another results file, or another program.

use super::kinds::other_than;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_named, remark};
use crate::schema::Form;
use crate::verbs::keep::store_failure;
use raidlab_report::import::{
    ForeignResults, fio, iometer, is_fio, is_iometer, is_latency_table, latency_tables, other_tool, others,
};
use raidlab_store::{Archive, ForeignStudy, RunFilter, Store};
use raidlab_units::counted;
use raidlab_workload::RunResult;
use raidlab_worlds::as_text;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a packed file becomes at most; runs are far smaller.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// What a file of `SQLite` begins with.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Arguments of `raidlab import runs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `raidlab export json` wrote, or a results file, where one of an older version is brought up to date; what fio
    /// printed as JSON (--output-format=json or json+), Iometer's results (.csv), or those of diskspd (XML), elbencho (CSV), vdbench
    /// (flatfile), sysbench and `CrystalDiskMark` (text); latencies of biolatency, and of bpftrace's biosnoop; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Results file that they are added to; what is in it already is left alone
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let found = args.files.iter().map(|file| find(file)).collect::<Result<Vec<_>, _>>()?;
    let mut store = Store::open(&args.db).map_err(store_failure)?;
    let mut files = Vec::new();
    for (file, found) in args.files.iter().zip(found) {
        let (archive, notes) = match found {
            Found::Kept(archive) => (archive, Vec::new()),
            Found::Foreign { content, results } => foreign(file, &content, results, &store)?,
        };
        let imported = store.take_in(&archive).map_err(Failure::run)?;
        if !output.is_json() {
            let (new, known) = (imported.runs.len(), imported.known);
            let new = format!("{} {} new", counted(new as u64, "run"), if new == 1 { "is" } else { "are" });
            let known = if known == 1 {
                "1 was there already".to_owned()
            } else {
                format!("{known} were there already")
            };
            print(&format!("{}: {new}, {known}", file.display()))?;
            for note in &notes {
                remark(format_args!("note: {note}"));
            }
        }
        files.push(TakenIn { file, runs: imported.runs, known: imported.known, notes });
    }
    if output.is_json() {
        print_named("files", files)?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::part::<Vec<TakenIn<'_>>>("files");

/// What came of a file, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct TakenIn<'a> {
    file: &'a Path,
    runs: Vec<i64>,
    known: u64,
    notes: Vec<String>,
}

/// What a file holds.
enum Found {
    /// Runs that raidlab kept.
    Kept(Archive),
    /// Results of another program.
    Foreign { content: Vec<u8>, results: ForeignResults },
}

/// The results of another program as an archive, and what is to be known of them.
fn foreign(
    path: &Path,
    content: &[u8],
    results: ForeignResults,
    store: &Store,
) -> Result<(Archive, Vec<String>), Failure> {
    let mut notes = results.notes.clone();
    let mut lacks: Vec<&str> = results
        .runs
        .iter()
        .filter_map(|it| it.run.settings.get("lacks"))
        .flat_map(|all| all.split("; "))
        .collect();
    lacks.sort_unstable();
    lacks.dedup();
    notes.extend(lacks.iter().map(|lacking| format!("{} does not have: {lacking}", results.program)));
    let file = path.display().to_string();
    let study = ForeignStudy {
        file: &file,
        content,
        program: &results.program,
        title: &results.title,
        notes: &notes,
        runs: results.runs.into_iter().map(|it| (it.started_at_unix_ms, it.run)).collect(),
    };
    let archive = store.archive_of_foreign(&study).map_err(Failure::run)?;
    Ok((archive, notes))
}

/// The text of a file that may be packed.
fn unpacked(bytes: &[u8]) -> std::io::Result<String> {
    let mut text = Vec::new();
    as_text(bytes)?.take(TEXT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim_start_matches('\u{feff}').to_owned())
}

/// The runs in the file at `path`, of whichever form it is.
pub(crate) fn foreign_runs(path: &Path) -> Result<Vec<RunResult>, Failure> {
    Ok(match find(path)? {
        Found::Kept(archive) => archive.runs.into_iter().map(|run| run.result).collect(),
        Found::Foreign { results, .. } => results.runs.into_iter().map(|it| it.run).collect(),
    })
}

/// The runs of a file, of whichever form it is.
fn find(path: &Path) -> Result<Found, Failure> {
    let cannot = |failure: Failure| failure.context(format!("{} cannot be taken in", path.display()));
    let is_input = path == Path::new("-");
    let mut bytes = Vec::new();
    let read = if is_input {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| cannot(Failure::input(error)))?;
    if !bytes.starts_with(SQLITE_MAGIC) {
        let text = unpacked(&bytes).map_err(|error| cannot(Failure::input(error)))?;
        let refused = |error| cannot(Failure::input(error));
        let results = match &*text {
            text if is_fio(text) => fio(text).map_err(refused)?,
            text if is_iometer(text) => iometer(text).map_err(refused)?,
            text if is_latency_table(text) => latency_tables(text).map_err(refused)?,
            text if other_tool(text).is_some() => others(text).map_err(refused)?,
            text => {
                return Archive::from_json(text).map(Found::Kept).map_err(|error| {
                    let cause = match other_than("runs", text) {
                        Some(kind) => Failure::input(anyhow::anyhow!(kind)),
                        None => Failure::input(error),
                    };
                    cannot(cause)
                });
            }
        };
        return Ok(Found::Foreign { content: bytes, results });
    }
    if is_input {
        let problem = anyhow::anyhow!("a results file is opened by its name, and standard input has none");
        return Err(cannot(Failure::input(problem))
            .with_hint("give the file itself: raidlab import runs FILE.sqlite"));
    }
    let of_store = || {
        let store = Store::open(path)?;
        let ids: Vec<i64> =
            store.list_runs(&RunFilter::default())?.iter().rev().map(|line| line.id).collect();
        store.archive(&ids)
    };
    of_store().map(Found::Kept).map_err(|error| cannot(Failure::input(error)))
}
