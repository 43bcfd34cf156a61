//! Shared by `streams` and `bonnie`: modelled arrays instead of folders, comparison with published figures, and the
//! storage and display of runs.

use super::keep::Keeper;
use super::loads::Stop;
use super::simulate::bad_array;
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, remark};
use crate::whole_file::check_writable;
use raidlab::Catalog;
use raidlab_hosts::Hosts;
use raidlab_measure::folders::FoldersError;
use raidlab_papers::{Paper, PublishedMetric, PublishedRow, paper_ids};
use raidlab_report::terminal::TerminalOptions;
use raidlab_report::{ProgramReport, PublishedPoint};
use raidlab_study::describe;
use raidlab_workload::RunResult;
use raidlab_worlds::{ArrayFile, ModelledArray, Models};
use std::path::{Path, PathBuf};

/// A modelled array instead of folders.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// Run on a modelled array that this file (TOML) describes, in virtual time; may be repeated
    #[arg(long, value_name = "ARRAY.toml", conflicts_with = "folders")]
    pub(crate) on: Vec<PathBuf>,
    /// The host or file server that runs it, by its name in the catalogue
    // What `requires` asks for is waived where it conflicts with what is given, as a modelled array does with folders.
    #[arg(long, value_name = "ID", requires = "on", conflicts_with = "folders")]
    pub(crate) host: Option<String>,
    /// The filesystem on the array, by its name in the catalogue
    #[arg(long, value_name = "ID", requires = "on", conflicts_with = "folders", default_value = "ext2")]
    pub(crate) filesystem: String,
    #[command(flatten)]
    catalog: CatalogArgs,
}

impl ModelArgs {
    /// Refuses changes of a catalogue that nothing would look at.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.catalog.is_given() && !self.is_given() {
            let error = anyhow::anyhow!("--catalog, --fitted and --set are for modelled arrays");
            return Err(Failure::input(error).with_hint("name the array with --on ARRAY.toml"));
        }
        Ok(())
    }

    /// Whether a model is asked for.
    pub(crate) fn is_given(&self) -> bool {
        !self.on.is_empty()
    }

    /// The catalogue, as changed.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        self.catalog.load()
    }

    /// The arrays, looked up in `catalog`.
    pub(crate) fn arrays<'a>(
        &self,
        catalog: &'a Catalog,
    ) -> Result<Vec<(Models<'a>, ModelledArray)>, Failure> {
        let read = |path: &PathBuf| {
            let file = ArrayFile::read(path).map_err(Failure::input)?;
            if file.controllers.is_some() {
                let error = anyhow::anyhow!("{}: programs on files run on one volume", path.display());
                return Err(Failure::input(error).with_hint("leave [controllers] out"));
            }
            if file.condition.is_some() || file.fill.is_some() {
                let error = anyhow::anyhow!(
                    "{}: programs on files run on drives that are full and steady under random writes",
                    path.display()
                );
                return Err(Failure::input(error).with_hint("leave condition and fill out"));
            }
            file.resolve(catalog).map_err(bad_array)
        };
        self.on.iter().map(read).collect()
    }

    /// The name of the host.
    pub(crate) fn host(&self) -> Result<&str, Failure> {
        self.host.as_deref().ok_or_else(|| {
            Failure::input(anyhow::anyhow!("--on needs the host that runs the program: --host ID"))
                .with_hint("'raidlab catalog' lists hosts and file servers")
        })
    }
}

/// Where results go, and which published figures to compare with.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepArgs {
    /// Results file; every run is in it as soon as it is finished [default: raidlab.sqlite, none with --on]
    #[arg(long, value_name = "FILE.sqlite")]
    db: Option<PathBuf>,
    /// Write an HTML report with charts here; it opens without a network
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Compare with a paper's published figures; with :TEXT those whose system or id has this text in it
    #[arg(long, value_name = "PAPER[:TEXT]")]
    compare_paper: Option<String>,
}

impl KeepArgs {
    /// The results file, if there is to be one.
    pub(crate) fn db(&self, is_model: bool) -> Option<&Path> {
        self.db.as_deref().or((!is_model).then_some(Path::new("raidlab.sqlite")))
    }

    /// Finds out before the runs whether their results can be written after them, and which published figures to compare with.
    pub(crate) fn check(&self, workload: &str, hosts: &Hosts) -> Result<Vec<PublishedPoint>, Failure> {
        if let Some(report) = self.report.as_ref().filter(|_| hosts.leads()) {
            check_writable(report)?;
        }
        self.compare_paper.as_ref().map_or_else(|| Ok(Vec::new()), |paper| published(paper, workload))
    }
}

/// The published figures of `paper[:text]` whose workload begins with `workload`.
fn published(paper: &str, workload: &str) -> Result<Vec<PublishedPoint>, Failure> {
    let (id, text) = paper.split_once(':').unwrap_or((paper, ""));
    let paper = Paper::builtin(id).map_err(|error| {
        Failure::input(error).with_hint(format!("papers are {}", paper_ids().collect::<Vec<_>>().join(", ")))
    })?;
    let wanted = |row: &&PublishedRow| {
        row.workload.starts_with(workload) && (row.system.contains(text) || row.id.contains(text))
    };
    let points: Vec<PublishedPoint> =
        paper.rows.iter().filter(wanted).map(|row| point(row, workload)).collect();
    if points.is_empty() {
        let error = anyhow::anyhow!("'{id}' has no figures of this program for '{text}'");
        return Err(Failure::input(error).with_hint(format!("'raidlab reproduce {id}' lists its figures")));
    }
    Ok(points)
}

/// A published row as a point: seeks count calls, the share of a processor percent, all others MB per second.
fn point(row: &PublishedRow, workload: &str) -> PublishedPoint {
    let phase = row.workload.strip_prefix("bonnie-").unwrap_or_default();
    let value = match row.metric {
        PublishedMetric::KibPerS => row.value * 1024.0 / 1e6,
        PublishedMetric::MibPerS => row.value * f64::from(1 << 20) / 1e6,
        PublishedMetric::MbPerS | PublishedMetric::Iops | PublishedMetric::CpuPct => row.value,
    };
    let file_mb = row.file.map_or(0.0, |file| file.get() as f64 / 1e6);
    let is_bonnie = workload.starts_with("bonnie");
    PublishedPoint {
        system: system_label(row, is_bonnie),
        phase: phase.to_owned(),
        at: if is_bonnie { file_mb } else { f64::from(row.streams) },
        value,
        is_cpu_pct: row.metric == PublishedMetric::CpuPct,
    }
}

/// What tells the published systems from each other.
fn system_label(row: &PublishedRow, is_bonnie: bool) -> String {
    let mut parts = vec![row.system.clone()];
    if !row.raid.is_empty() {
        parts.push(format!("RAID {} x{} {}", row.raid, row.drives, row.drive));
    }
    parts.extend(row.filesystem.clone());
    if !is_bonnie {
        parts.extend(row.block.map(|block| block.to_string()));
        parts.push(format!("{} vol.", row.volumes.max(1)));
    }
    parts.join(", ")
}

/// How the runs of a program ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The user stopped before all was done.
    pub(crate) interrupted: bool,
    /// What went wrong before all was done.
    pub(crate) failure: Option<Failure>,
}

impl Ended {
    /// After all runs.
    pub(crate) fn well() -> Self {
        Self::default()
    }
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Cancelled => Self { interrupted: true, failure: None },
            Stop::Failed(failure) => Self { interrupted: false, failure: Some(failure) },
        }
    }
}

impl From<FoldersError> for Stop {
    fn from(error: FoldersError) -> Self {
        match error {
            error if error.is_cancelled() => Self::Cancelled,
            FoldersError::Hosts(error) => Self::Failed(Failure::run(error)),
            error if error.is_input() => Self::Failed(Failure::input(error)),
            error => Self::Failed(Failure::run(error)),
        }
    }
}

/// Prints runs for people.
pub(crate) type Table = fn(&[RunResult], &[PublishedPoint], TerminalOptions) -> String;

/// Prints the runs and what is beside them, writes the report, and says how the verb ends.
pub(crate) fn conclude(
    mut keeper: Keeper,
    ended: Ended,
    (args, notes, published): (&KeepArgs, Vec<String>, &[PublishedPoint]),
    table: Table,
    (output, hosts): (&Output, &Hosts),
) -> Result<Exit, Failure> {
    keeper.end(!ended.interrupted && ended.failure.is_none(), &notes)?;
    if !keeper.results.is_empty() && hosts.leads() {
        let own_notes = notes.len();
        let report = ProgramReport {
            title: &keeper.title,
            method: vec![keeper.method.clone()],
            setup: describe::setup(&keeper.environment),
            runs: &keeper.results,
            notes: notes.into_iter().chain(raidlab_report::hosts::notes(&keeper.results)).collect(),
            published,
        };
        if output.is_json() {
            print(&raidlab_report::json::programs(&report))?;
        } else {
            // What is said of hosts stands with their table.
            let mut lines = report.notes[..own_notes].to_vec();
            lines.insert(0, table(&keeper.results, published, output.terminal()));
            let hosts = raidlab_report::terminal::hosts(&keeper.results, output.terminal());
            lines.extend((!hosts.is_empty()).then_some(hosts));
            print(&lines.join("\n"))?;
        }
        let mut warnings: Vec<String> = Vec::new();
        for warning in keeper.results.iter().flat_map(RunResult::warnings) {
            if !warnings.contains(&warning) {
                remark(format_args!("warning: {warning}"));
                warnings.push(warning);
            }
        }
        if let Some(path) = &args.report {
            super::report::write_page(path, &raidlab_report::page::programs(&report))?;
        }
    }
    match ended {
        Ended { failure: Some(failure), .. } => Err(failure),
        Ended { interrupted: true, .. } => Ok(Exit::Interrupted),
        Ended { .. } => Ok(Exit::Done),
    }
}
