//! `raidlab calibrate`: a drive's parameters from timing alone, as an entry of the catalogue.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use crate::schema::Form;
use crate::whole_file::{check_writable, write_whole};
use raidlab_calibrate::{Effort, EntryNames, Estimate, FlashFound, Found, RotationalFound, calibrate};
use raidlab_engines::{Target, TargetOptions, with_timed};
use raidlab_units::ByteCount;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A block device, a file or an NBD URI; it is only read
    target: PathBuf,
    /// Write the catalogue entry into this file, which must not be there [default: print it]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Name of the entry in the catalogue
    #[arg(long, default_value = "calibrated", value_name = "ID")]
    id: String,
    /// Name of the drive for people
    #[arg(long, default_value = "Calibrated drive", value_name = "TEXT")]
    name: String,
    /// What it is plugged into: a link of the catalogue
    #[arg(long, default_value = "sas-6g", value_name = "ID")]
    link: String,
    /// Number of heads, which timing does not tell
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    heads: u32,
    /// Half a minute instead of some minutes on a hard drive; zones and short seeks come out less sure
    #[arg(long)]
    quick: bool,
    /// Go through the page cache, which hides the drive; for targets that allow nothing else
    #[arg(long)]
    buffered: bool,
    /// Also time writes, which overwrites data on this target; solid-state drives only
    #[arg(long, value_name = "TARGET")]
    destroy_data: Option<String>,
    /// Seed of the places that are read
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = &args.output {
        check_writable(path)?;
    }
    let options = TargetOptions {
        direct: !args.buffered,
        may_write: args.destroy_data.is_some(),
        destroy_data: args.destroy_data.clone(),
        ..TargetOptions::default()
    };
    let target = Target::open(&args.target, &options).map_err(Failure::input)?;
    let effort = if args.quick { Effort::QUICK } else { Effort::THOROUGH };
    let effort = Effort { seed: args.seed, may_write: args.destroy_data.is_some(), ..effort };
    let mut progress = Progress::start();
    let found =
        with_timed(&target, |timed| calibrate(timed, &effort, &mut |what, done| progress.show(what, done)));
    progress.end();
    let found = found.map_err(Failure::input)?.map_err(Failure::run)?;
    let names = EntryNames {
        id: args.id.clone(),
        name: args.name.clone(),
        link: args.link.clone(),
        heads: args.heads,
    };
    let entry = found.entry(&names);
    if let Some(path) = &args.output {
        write_whole(path, &entry)?;
    }
    if output.is_json() {
        print_answer(&Calibrated { target: &args.target, found: &found, entry_toml: &entry })?;
    } else {
        let table = match &found {
            Found::Rotational(found) => rotational(found),
            Found::Flash(found) => flash(found),
        };
        let entry = if args.output.is_some() { String::new() } else { format!("\n{entry}") };
        print(&(table + &entry))?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Calibrated<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Calibrated<'a> {
    target: &'a Path,
    found: &'a Found,
    entry_toml: &'a str,
}

/// `turn              4.000 ms   (4.000 to 4.001)`.
fn row(name: &str, found: &Estimate, factor: f64, unit: &str) -> String {
    format!(
        "{name:<22}{:>12.3} {unit:<5} ({:.3} to {:.3})\n",
        found.value * factor,
        (found.low * factor).max(0.0),
        (found.high * factor).max(0.0)
    )
}

fn plain(name: &str, text: &str) -> String {
    format!("{name:<22}{text:>12}\n")
}

fn queue(rates: &[(u32, f64)]) -> String {
    let alone = rates.first().map_or(1.0, |first| first.1);
    let text = |(depth, rate): &(u32, f64)| {
        format!("  {depth:>4} in flight  {rate:>10.1} reads/s  {:>6.2} times one\n", rate / alone)
    };
    rates.iter().map(text).collect()
}

fn rotational(found: &RotationalFound) -> String {
    [
        "A drive that turns; figures with the interval that holds them with 95 %.\n".to_owned(),
        plain("capacity", &ByteCount(found.capacity).to_string()),
        row("turn", &found.turn_ns, 1e-6, "ms"),
        plain("", &format!("{:.0} rpm", 60e9 / found.turn_ns.value)),
        row("rate, outer", &found.outer_rate, 1e-6, "MB/s"),
        row("rate, inner", &found.inner_rate, 1e-6, "MB/s"),
        plain("zones", &found.zones.len().to_string()),
        row("command", &found.overhead_ns, 1e-3, "us"),
        row("command, buffer hit", &found.work_ns, 1e-3, "us"),
        row("link", &found.link_rate, 1e-6, "MB/s"),
        row("seek, single track", &found.seek_single_ns, 1e-6, "ms"),
        row("seek, average", &found.seek_average_ns, 1e-6, "ms"),
        row("seek, full stroke", &found.seek_full_ns, 1e-6, "ms"),
        plain("buffer segments", &found.segments.to_string()),
        plain("segment", &ByteCount(found.segment_bytes).to_string()),
        plain("reads ahead", if found.reads_ahead { "yes" } else { "no" }),
        "queue gain, random reads of 4 KiB\n".to_owned(),
        queue(&found.queue),
    ]
    .concat()
}

fn flash(found: &FlashFound) -> String {
    let program = found.page_program_ns.as_ref();
    [
        "A drive that does not turn; figures with the interval that holds them with 95 %.\n".to_owned(),
        plain("capacity", &ByteCount(found.capacity).to_string()),
        row("lone read", &found.latency_ns, 1e-3, "us"),
        row("command", &found.overhead_ns, 1e-3, "us"),
        row("page read", &found.page_read_ns, 1e-3, "us"),
        program.map_or_else(
            || plain("page program", "not timed: it would write"),
            |program| row("page program", program, 1e-3, "us"),
        ),
        plain("channels", &found.channels.to_string()),
        plain("dies", &found.dies.to_string()),
        row("channel", &found.channel_rate, 1e-6, "MB/s"),
        row("link", &found.link_rate, 1e-6, "MB/s"),
        "queue gain, random reads of 4 KiB\n".to_owned(),
        queue(&found.queue),
    ]
    .concat()
}
