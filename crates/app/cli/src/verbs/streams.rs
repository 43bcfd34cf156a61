//! `raidlab streams`: N readers of files that start together, on real folders or on modelled arrays.

use super::keep::{Keeper, Planned};
use super::loads::Stop;
use super::programs::{Ended, KeepArgs, ModelArgs, conclude};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, agree, names_here, only_alone};
use crate::inputs::Numbers;
use crate::interrupt::{RUNS_ARE_KEPT, cancel_flag};
use crate::output::Output;
use crate::progress::Progress;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use raidlab::Catalog;
use raidlab_hosts::Hosts;
use raidlab_machine::Environment;
use raidlab_measure::folders::{Cold, FoldersError, StreamsBench, StreamsPlan};
use raidlab_report::terminal;
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_worlds::files::{HostModels, ReadersLoad, run_readers};
use raidlab_worlds::served::{Access, ServedLoad, run_served};
use raidlab_worlds::simulated::SimulatedError;
use raidlab_worlds::{ModelledArray, Models, sweep};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The published workload.
const PUBLISHED: &str = "cdf-parallel-read";

/// Arguments of `raidlab streams`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders that the files are spread over in turn; one for each controller, say; also folders of file servers, as nfs:// and
    /// root:// URIs
    #[arg(required_unless_present = "on", value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Readers at once: a number, a list 1,2,4,100, a range 1..64 that doubles, or 1..64+8 in steps
    #[arg(long, default_value = "1,2,4,8,16", value_parser = sweep::streams, value_name = "N,...")]
    streams: Numbers,
    /// Length of each file
    #[arg(long, default_value = "512MB", value_name = "SIZE")]
    size: ByteCount,
    /// Length of a read
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    block: ByteCount,
    /// Files that a stream reads at most, one after the other: the first is timed, the others keep the load up
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    reads_per_stream: u32,
    /// Files of its own that a stream has for that; with 1 it reads its file again, dropped from the page cache
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N", conflicts_with = "on")]
    files_per_stream: u32,
    /// How often each number of streams is run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    repeat: u32,
    /// How files are made cold: drop the whole page cache, advise the system to drop the files, read past the cache
    /// (direct), or none [default: drop where this is allowed, as root; else advise; none for files that are all on servers]
    #[arg(long, value_parser = cold(), value_name = "HOW", conflicts_with = "on")]
    cold: Option<Cold>,
    /// Leave the files where they are, for the next time
    #[arg(long, conflicts_with = "on")]
    keep: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
    /// Controllers of a modelled file server, each with such an array; files are spread over them in turn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16), value_name = "N", requires = "on", conflicts_with = "folders")]
    controllers: u16,
    #[command(flatten)]
    kept: KeepArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// Reads how files are made cold.
fn cold() -> impl TypedValueParser<Value = Cold> {
    PossibleValuesParser::new(Cold::ALL.map(Cold::name)).try_map(|name| Cold::named(&name).ok_or(name))
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    args.model.check()?;
    let published = args.kept.check(PUBLISHED, hosts)?;
    let plan = StreamsPlan {
        streams: args.streams.clone(),
        file: args.size,
        block: args.block,
        reads_per_stream: args.reads_per_stream,
        files_per_stream: args.files_per_stream,
        repeats: args.repeat,
        cold: args.cold.unwrap_or_else(|| Cold::usual_for(&args.folders)),
        seed: args.seed,
    };
    let mut progress = Progress::start_on(hosts);
    let cancel = cancel_flag(RUNS_ARE_KEPT);
    let ran = if args.model.is_given() {
        only_alone("streams --on", hosts)?;
        modelled(args, &plan, &cancel, &mut progress)
    } else {
        real(args, &plan, hosts, &cancel, &mut progress)
    };
    progress.end();
    let Some((keeper, ended)) = ran? else { return Ok(Exit::Interrupted) };
    conclude(keeper, ended, (&args.kept, Vec::new(), &published), terminal::streams, (output, hosts))
}

/// Makes the files and runs all steps; nothing if the user stopped before the first.
fn real(
    args: &Args,
    plan: &StreamsPlan,
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Option<(Keeper, Ended)>, Failure> {
    let folders = names_here(&args.folders, hosts);
    let mut writing = |written: ByteCount, total: ByteCount| {
        hosts.watch(cancel);
        let share = written.get() as f64 / total.get().max(1) as f64;
        progress.show(&format!("writing the files: {written} of {total}"), share);
    };
    let opened = StreamsBench::open(&folders, plan, args.keep, cancel, &mut writing);
    let own = opened.as_ref().map(|_| ()).map_err(FoldersError::refusal);
    if !hosts.is_alone() && agree(hosts, own)?.is_none() {
        return Ok(None);
    }
    let bench = match opened {
        Ok(bench) => bench,
        Err(error) => match Stop::from(error) {
            Stop::Cancelled => return Ok(None),
            Stop::Failed(failure) => return Err(failure),
        },
    };
    let names: Vec<String> = args.folders.iter().map(|folder| folder.display().to_string()).collect();
    let environment = Environment::of_target(&folders[0]);
    let db = args.kept.db(false).filter(|_| hosts.leads());
    let mut keeper =
        begin(args, plan, db, format!("streams on {}", names.join(", ")), plan.method(), environment)?;
    let mut run = |streams: u32, label: &str, done: f64| {
        let mut tell = |read: ByteCount| progress.show(&format!("{label}: {read} read"), done);
        bench.run(streams, hosts, cancel, &mut tell).map_err(Stop::from)
    };
    let ended = steps(plan, &mut keeper, &mut run).map_or_else(Ended::from, |()| Ended::well());
    Ok(Some((keeper, ended)))
}

/// Runs all steps, repeat by repeat.
fn steps(
    plan: &StreamsPlan,
    keeper: &mut Keeper,
    run: &mut dyn FnMut(u32, &str, f64) -> Result<RunResult, Stop>,
) -> Result<(), Stop> {
    let all = plan.streams.len() as u32 * plan.repeats;
    for repeat in 0..plan.repeats {
        for (index, &streams) in (0..).zip(&plan.streams) {
            let done = repeat * plan.streams.len() as u32 + index;
            let label = format!("run {} of {all}: {streams} streams", done + 1);
            let started_at = SystemTime::now();
            let mut result = run(streams, &label, f64::from(done) / f64::from(all))?;
            result.settings.insert("repeat".into(), (repeat + 1).to_string());
            keeper.take(started_at, result)?;
        }
    }
    Ok(())
}

fn begin(
    args: &Args,
    plan: &StreamsPlan,
    db: Option<&Path>,
    title: String,
    method: String,
    environment: Environment,
) -> Result<Keeper, Failure> {
    let arrays = args.model.on.len().max(1);
    let planned = Planned {
        kind: "streams",
        title,
        method,
        runs: arrays as u64 * plan.streams.len() as u64 * u64::from(plan.repeats),
        seed: plan.seed,
        configuration: serde_json::to_string(plan).map_err(Failure::run)?,
    };
    Keeper::begin_planned(db, planned, environment)
}

/// Runs all steps on each modelled array.
fn modelled(
    args: &Args,
    plan: &StreamsPlan,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Option<(Keeper, Ended)>, Failure> {
    let catalog = args.model.catalog()?;
    let arrays = args.model.arrays(&catalog)?;
    let host = Host::find(args, &catalog)?;
    plan.check().map_err(Failure::input)?;
    let names: Vec<String> = arrays.iter().map(|(_, array)| array.label()).collect();
    let method = format!("Modelled, in virtual time, of cold files: {}", plan.method());
    let title = format!("streams on {}", names.join(", "));
    let mut keeper = begin(args, plan, args.kept.db(true), title, method, Environment::of_machine())?;
    for (models, array) in &arrays {
        let mut seed = plan.seed;
        let mut run = |streams: u32, label: &str, done: f64| {
            if cancel.load(Ordering::Relaxed) {
                return Err(Stop::Cancelled);
            }
            progress.show(label, done);
            let ran = host.run(args, (models, array), (streams, plan.file_bytes()), seed, &catalog);
            seed += 1;
            ran.map_err(|error| Stop::Failed(Failure::input(error)))
        };
        if let Err(stop) = steps(plan, &mut keeper, &mut run) {
            return Ok(Some((keeper, stop.into())));
        }
    }
    Ok(Some((keeper, Ended::well())))
}

/// Who reads: a host with a page cache, or a file server that hands out what it reads once.
enum Host<'a> {
    Host(HostModels<'a>),
    Server,
}

impl<'a> Host<'a> {
    fn find(args: &Args, catalog: &'a Catalog) -> Result<Self, Failure> {
        let (id, filesystem) = (args.model.host()?, &args.model.filesystem);
        let unknown = |error| {
            Failure::input(error).with_hint("'raidlab catalog' lists hosts, file servers and filesystems")
        };
        if catalog.server(id).is_ok() {
            catalog.filesystem(filesystem).map_err(unknown)?;
            return Ok(Self::Server);
        }
        let host = HostModels::look_up(catalog, id, filesystem).map_err(unknown)?;
        if args.controllers > 1 {
            let error = anyhow::anyhow!("--controllers {}: host '{id}' has one array", args.controllers);
            return Err(Failure::input(error)
                .with_hint("name a file server with --host; 'raidlab catalog' lists them"));
        }
        Ok(Self::Host(host))
    }

    fn run(
        &self,
        args: &Args,
        (models, array): (&Models<'_>, &ModelledArray),
        (streams, file): (u32, ByteCount),
        seed: u64,
        catalog: &Catalog,
    ) -> Result<RunResult, SimulatedError> {
        let id = args.model.host.clone().unwrap_or_default();
        let (filesystem, block) = (args.model.filesystem.clone(), args.block);
        let reads = args.reads_per_stream;
        match self {
            Self::Host(host) => {
                let load = ReadersLoad { host: id, filesystem, streams, file, block, reads, seed };
                run_readers(models, host, array, &load)
            }
            Self::Server => {
                let (controllers, access) = (args.controllers, Access::Local);
                let load = ServedLoad {
                    server: id,
                    filesystem,
                    controllers,
                    stripe: None,
                    streams,
                    file,
                    block,
                    reads,
                    access,
                    seed,
                };
                run_served(models, array, &load, catalog)
            }
        }
    }
}
