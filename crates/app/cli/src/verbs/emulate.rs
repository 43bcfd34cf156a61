//! `raidlab emulate`: a modelled array over NBD, at its own speed, with real bytes behind it.

use super::array::OperatorArgs;
use super::nbd::NbdArgs;
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_named};
use raidlab::{ArrayFile, ByteCount, NanoSpan};
use raidlab_control::notify_stopping;
use raidlab_emulate::Model;
use raidlab_format::ArrayName;
use raidlab_runtime::{Backing, LatenessFacts, operator_line};
use raidlab_worlds::simulated::simulated_enclosure;
use std::path::PathBuf;

/// Arguments of `raidlab emulate`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "raidlab emulate [OPTIONS] <--socket PATH|--listen ADDRESS> <ARRAY.toml>")]
#[command(group(clap::ArgGroup::new("export").required(true).multiple(true).args(["socket", "listen"])))]
pub(crate) struct Args {
    /// The array, as for 'raidlab simulate --array'; its region is what is served
    #[arg(value_name = "ARRAY.toml")]
    array: PathBuf,
    /// What people call it [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    nbd: NbdArgs,
    /// Keep the bytes in this file, which is made if it is not there [default: in memory, gone at the end]
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Let clients see and overwrite what this backing file holds
    #[arg(long, value_name = "FILE", requires = "backing")]
    destroy_data: Option<PathBuf>,
    #[command(flatten)]
    operators: OperatorArgs,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Decides how the members' spindles stand to each other
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let mut catalog = args.catalog.load()?;
    let file = ArrayFile::read(&args.array).map_err(Failure::input)?;
    file.condition_drives(&mut catalog).map_err(Failure::input)?;
    let (models, array) = file.resolve(&catalog).map_err(Failure::input)?;
    if array.volume_count() > 1 {
        return Err(Failure::input(anyhow::anyhow!(
            "{} has {} volumes, and one can be emulated at a time: describe an array of one",
            args.array.display(),
            array.volume_count()
        )));
    }
    let tls = args.nbd.tls()?;
    let backing = args.backing(array.region)?;
    let enclosure = simulated_enclosure(&models, &array);
    let model = Model::new(&enclosure, args.seed).map_err(Failure::input)?;
    let mut world = model.emulate(args.name()?, backing).map_err(Failure::run)?;
    let (operator, queue) = operator_line().map_err(Failure::run)?;
    world.attach_operator(queue);
    let (mut server, addresses) =
        args.nbd.server(world.name(), (world.block_size(), world.volume_bytes()), tls.as_ref())?;
    let operator = NbdArgs::with_reload(operator, tls.as_ref());
    let operators = args.operators.start(world.name(), operator)?;
    let announcement = operators.announcement(world.name(), world.volume_bytes(), output);
    announcement.say(&addresses, None);
    world
        .serve(&mut server, &cancel_flag("stopping the array (once more to end at once)"))
        .map_err(Failure::run)?;
    notify_stopping();
    say_lateness(&world.lateness().facts(), output)?;
    Ok(Exit::Done)
}

/// Says how late requests ended.
fn say_lateness(late: &LatenessFacts, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return print_named("lateness", late);
    }
    let span = NanoSpan;
    print(&format!(
        "{} requests ended after the model's time by {} at the median, {} at the 99th percentile, {} at most; {} were later \
         than 100 us",
        late.requests,
        span(late.late_ns_p50),
        span(late.late_ns_p99),
        span(late.late_ns_max),
        late.later_than_100us
    ))
}

impl Args {
    fn name(&self) -> Result<ArrayName, Failure> {
        let of_file = || self.array.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let text = self.name.clone().or_else(of_file).unwrap_or_default();
        ArrayName::new(&text).map_err(Failure::input)
    }

    fn backing(&self, bytes: ByteCount) -> Result<Backing, Failure> {
        let backing = match &self.backing {
            None => Backing::in_memory(bytes),
            Some(path) => Backing::in_file(path, bytes, self.destroy_data.as_ref() == Some(path)),
        };
        backing.map_err(Failure::input)
    }
}
