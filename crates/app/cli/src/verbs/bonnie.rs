//! `raidlab bonnie`: Bonnie, and many files, on real folders or on modelled arrays, in rounds.

use super::keep::{Keeper, Planned};
use super::loads::Stop;
use super::programs::{Ended, KeepArgs, ModelArgs, conclude};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, agree, names_here, only_alone};
use crate::interrupt::{RUNS_ARE_KEPT, cancel_flag};
use crate::output::Output;
use crate::progress::Progress;
use crate::whole_file::{check_writable, write_whole};
use raidlab_hosts::Hosts;
use raidlab_machine::Environment;
use raidlab_measure::folders::{BonnieBench, BonnieOptions, FoldersError, interleaved};
use raidlab_report::terminal;
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_workload::program::WriteEnding;
use raidlab_worlds::files::{BonnieLoad, run_bonnie};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// What the published workloads begin with.
const PUBLISHED: &str = "bonnie-";

/// Arguments of `raidlab bonnie`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders, each on storage that is to be measured; rounds go over them in turn
    #[arg(required_unless_present = "on", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Lengths of the file: the page cache is kept, so set them against memory
    #[arg(long, value_delimiter = ',', default_value = "100MB", value_name = "SIZE,...")]
    size: Vec<ByteCount>,
    /// Rounds, over all sizes and targets each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    rounds: u32,
    /// Memory that the sizes are set against [default: that of this machine, of the modelled host with --on]
    #[arg(long, value_name = "SIZE", conflicts_with = "on")]
    ram: Option<ByteCount>,
    /// Count in the time of each writing phase what it takes until all is on the storage (fsync)
    #[arg(long)]
    fsync: bool,
    /// Also create, look at and take away so many files, by order of their names and at random
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "N", conflicts_with = "on")]
    files: Option<u32>,
    /// Write the runs as bonnie++ does, for its `bon_csv2html`
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    kept: KeepArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    args.model.check()?;
    let published = args.kept.check(PUBLISHED, hosts)?;
    if let Some(csv) = args.csv.as_ref().filter(|_| hosts.leads()) {
        check_writable(csv)?;
    }
    let mut progress = Progress::start_on(hosts);
    let cancel = cancel_flag(RUNS_ARE_KEPT);
    let ran = if args.model.is_given() {
        only_alone("bonnie --on", hosts)?;
        modelled(args, &cancel, &mut progress)
    } else {
        real(args, hosts, &cancel, &mut progress)
    };
    progress.end();
    let (keeper, ended) = ran?;
    if let Some(path) = args.csv.as_ref().filter(|_| hosts.leads()) {
        write_whole(path, raidlab_report::export::bonnie::bonnie(&keeper.results))?;
    }
    let notes = notes(args, &keeper.environment);
    conclude(keeper, ended, (&args.kept, notes, &published), terminal::bonnie, (output, hosts))
}

impl Args {
    fn options(&self, ram: ByteCount) -> BonnieOptions {
        BonnieOptions {
            sizes: self.size.clone(),
            rounds: self.rounds,
            ending: if self.fsync { WriteEnding::Sync } else { WriteEnding::Close },
            many_files: self.files,
            ram,
            seed: self.seed,
        }
    }

    /// Memory of this machine, or what is taken for it.
    fn ram(&self, environment: &Environment) -> ByteCount {
        self.ram.unwrap_or(ByteCount(environment.memory_bytes))
    }
}

/// What is to be known of the figures.
fn notes(args: &Args, environment: &Environment) -> Vec<String> {
    let ending = if args.fsync {
        "Phases that write end when all is on the storage (fsync)."
    } else {
        "Phases that write end with a close, as Bonnie's do: what is dirty then is written later, in nobody's time; --fsync counts it."
    };
    let mut notes = vec![ending.to_owned()];
    if !args.model.is_given() {
        notes.push(format!(
            "The page cache is kept: files below the {} of memory may be read from it (column 'of RAM').",
            args.ram(environment)
        ));
    }
    let targets = args.folders.len().max(args.model.on.len());
    if args.rounds > 1 && !args.model.is_given() {
        notes.push(if targets > 1 {
            "Rounds went over the targets in turn: no target ran twice in a row.".to_owned()
        } else {
            "There is one target, so its rounds ran back to back: name more to have them in turn.".to_owned()
        });
    }
    notes
}

/// Runs all rounds on the folders.
fn real(
    args: &Args,
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<(Keeper, Ended), Failure> {
    let folders = names_here(&args.folders, hosts);
    let environment = Environment::of_target(&folders[0]);
    let options = args.options(args.ram(&environment));
    let opened = BonnieBench::open(&folders, &options);
    let own = opened.as_ref().map(|_| ()).map_err(FoldersError::refusal);
    if !hosts.is_alone() {
        agree(hosts, own)?;
    }
    let bench = opened.map_err(|error| match Stop::from(error) {
        Stop::Failed(failure) => failure,
        Stop::Cancelled => unreachable!("nothing has begun that could be stopped"),
    })?;
    let names: Vec<String> = args.folders.iter().map(|folder| folder.display().to_string()).collect();
    let db = args.kept.db(false).filter(|_| hosts.leads());
    let mut keeper = begin(db, &options, &names, environment)?;
    let mut run = |(round, size, target): (u32, ByteCount, usize), label: &str, done: f64| {
        let mut tell = |moved: ByteCount| progress.show(&format!("{label}: {moved} moved"), done);
        bench.run((round, size, target), hosts, cancel, &mut tell).map_err(Stop::from)
    };
    let ended = rounds(&options, &names, &mut keeper, &mut run).map_or_else(Ended::from, |()| Ended::well());
    Ok((keeper, ended))
}

/// Does one run: round, size and target, a label, and the share of all that is done.
type Run<'a> = dyn FnMut((u32, ByteCount, usize), &str, f64) -> Result<RunResult, Stop> + 'a;

/// Runs all rounds on targets of these names.
fn rounds(
    options: &BonnieOptions,
    names: &[String],
    keeper: &mut Keeper,
    run: &mut Run<'_>,
) -> Result<(), Stop> {
    let order = interleaved(options.rounds, options.sizes.len(), names.len());
    for (index, (round, size, target)) in order.iter().enumerate() {
        let bytes = options.sizes[*size];
        let label =
            format!("round {} of {}, {} on {}", round + 1, options.rounds, bytes.decimal(), names[*target]);
        let started_at = SystemTime::now();
        let result = run((*round, bytes, *target), &label, index as f64 / order.len() as f64)?;
        keeper.take(started_at, result)?;
    }
    Ok(())
}

fn begin(
    db: Option<&Path>,
    options: &BonnieOptions,
    names: &[String],
    environment: Environment,
) -> Result<Keeper, Failure> {
    let sizes: Vec<String> = options.sizes.iter().map(|size| size.decimal().to_string()).collect();
    let planned = Planned {
        kind: "bonnie",
        title: format!("bonnie on {}", names.join(", ")),
        method: format!(
            "Bonnie with files of {}, {}: written by characters, rewritten, written by blocks, read by characters and by \
             blocks, then sought in by three processes, a tenth of the blocks written back.",
            sizes.join(", "),
            if options.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", options.rounds) }
        ),
        runs: interleaved(options.rounds, options.sizes.len(), names.len()).len() as u64,
        seed: options.seed,
        configuration: serde_json::to_string(options).map_err(Failure::run)?,
    };
    Keeper::begin_planned(db, planned, environment)
}

/// Runs all rounds on the modelled arrays; rounds differ in their seeds.
fn modelled(args: &Args, cancel: &AtomicBool, progress: &mut Progress) -> Result<(Keeper, Ended), Failure> {
    let catalog = args.model.catalog()?;
    let arrays = args.model.arrays(&catalog)?;
    let load = BonnieLoad {
        host: args.model.host()?.to_owned(),
        filesystem: args.model.filesystem.clone(),
        file: ByteCount::ZERO,
        ending: if args.fsync { WriteEnding::Sync } else { WriteEnding::Close },
        seed: args.seed,
    };
    let host = load
        .look_up(&catalog)
        .map_err(|error| Failure::input(error).with_hint("'raidlab catalog' lists hosts and filesystems"))?;
    let options = args.options(host.host.memory);
    let names: Vec<String> = arrays.iter().map(|(_, array)| array.label()).collect();
    let mut keeper = begin(args.kept.db(true), &options, &names, Environment::of_machine())?;
    let mut run = |(round, file, target): (u32, ByteCount, usize), label: &str, done: f64| {
        if cancel.load(Ordering::Relaxed) {
            return Err(Stop::Cancelled);
        }
        progress.show(label, done);
        let (models, array) = &arrays[target];
        let load = BonnieLoad { file, seed: args.seed + u64::from(round), ..load.clone() };
        let mut result =
            run_bonnie(models, &host, array, &load).map_err(|error| Stop::Failed(Failure::input(error)))?;
        result.settings.insert("round".into(), (round + 1).to_string());
        Ok(result)
    };
    let ended = rounds(&options, &names, &mut keeper, &mut run).map_or_else(Ended::from, |()| Ended::well());
    Ok((keeper, ended))
}
