//! `raidlab model from-sheet`: a drive's model from its data sheet.

mod args;

use crate::failure::{Exit, Failure};
use crate::inputs::one_of;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use crate::whole_file::write_whole;
use args::{DiskArgs, FactArgs, FlashArgs};
use raidlab::{Catalog, FigureSource};
use raidlab_calibrate::{
    DiskSheet, Sheet, SheetError, SheetInterface, SheetKind, SheetModel, SheetSeeks, disk_from_sheet,
    model_from_sheet,
};
use raidlab_report::terminal::wrapped;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, ParseUnitError};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `raidlab model from-sheet`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kind of drive: nvme, sata-ssd, sas-ssd, hdd
    #[arg(long, value_parser = kind)]
    kind: Kind,
    /// What the host sees
    #[arg(long, value_name = "SIZE")]
    capacity: ByteCount,
    /// Reading in sequence; of a disk at the outer edge, with both arms where it has two
    #[arg(long, value_name = "RATE", value_parser = rate)]
    seq_read: Option<BytesPerSec>,
    /// Writing in sequence; of a drive with --slc-cache into that
    #[arg(long, value_name = "RATE", value_parser = rate)]
    seq_write: Option<BytesPerSec>,
    /// Reads at random a second: 900k
    #[arg(long, value_name = "N", value_parser = count)]
    read_iops: Option<f64>,
    /// Writes at random a second, in the steady state of flash; of a drive with --slc-cache into that
    #[arg(long, value_name = "N", value_parser = count)]
    write_iops: Option<f64>,
    /// Typical time of a read at random, alone
    #[arg(long, value_name = "TIME")]
    read_latency: Option<NanoSpan>,
    /// Typical time of a write of 4 KiB, alone
    #[arg(long, value_name = "TIME")]
    write_latency: Option<NanoSpan>,
    /// Interface: pcie3x4, pcie4x4, pcie5x2, sata6, sas12 (one port), sas24x2 (two), ... [default: pcie4x4, sata6, sas12x2 (SSD) or
    /// sas12 (disk)]
    #[arg(long, value_parser = interface, value_name = "LINK")]
    interface: Option<SheetInterface>,
    /// Length of the reads at random; bytes where it has no unit [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = block)]
    read_block: Option<ByteCount>,
    #[command(flatten)]
    flash: FlashArgs,
    /// The figures are limits that were measured: of flash on a drive that was written once in sequence, of a disk with 32
    /// commands in flight
    #[arg(long)]
    measured: bool,
    /// Whether the rates are caps that a hypervisor sets: true or false [default: true if they were measured, both of
    /// --read-iops and --seq-write are round, and a drive of the class exceeds them]
    #[arg(long, value_name = "BOOL")]
    capped: Option<bool>,
    #[command(flatten)]
    disk: DiskArgs,
    #[command(flatten)]
    facts: FactArgs,
    /// Name of the entry in the catalogue
    #[arg(long, default_value = "from-sheet", value_name = "ID")]
    id: String,
    /// Name of the drive for people
    #[arg(long, default_value = "Drive from a data sheet", value_name = "TEXT")]
    name: String,
    /// Write the entry into this file [default: print it]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// Columns of what is said of an entry, which stands in files too.
const WIDTH: u16 = 80;

/// A class of drives.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Flash(SheetKind),
    Disk,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let made = match args.kind {
        Kind::Flash(kind) => {
            refuse(args.disk.given(), "a disk")?;
            model_from_sheet(&Catalog::builtin(), &args.sheet(kind))
        }
        Kind::Disk => {
            refuse(args.of_flash(), "flash")?;
            disk_from_sheet(&Catalog::builtin(), &args.disk_sheet())
        }
    };
    let made = made.map_err(bad_sheet)?;
    if let Some(path) = &args.output {
        write_whole(path, &made.entry)?;
    }
    let given = args.facts.facts().source.unwrap_or_else(|| "data sheet: as given".to_owned());
    if output.is_json() {
        print_answer(&SheetModelAnswer::of(&made, &given))?;
    } else {
        let entry = if args.output.is_some() { "" } else { &made.entry };
        print(&format!("{entry}{}", as_words(&made, &given, args.output.is_none())))?;
    }
    Ok(Exit::Done)
}

/// What is wrong with a sheet, by the options that brought its figures.
fn bad_sheet(error: SheetError) -> Failure {
    let SheetError::OutOfReach { figure, given, predicted } = error else { return Failure::input(error) };
    let is_figure = |(name, ..): &&(&str, &str, &str)| *name == figure;
    let Some((_, option, unit)) = FIGURES.iter().find(is_figure) else { return Failure::input(error) };
    let number = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let problem = anyhow::anyhow!(
        "no drive of its class does this: {option} gives {} {unit}, and the nearest model does {} {unit}",
        number(given),
        number(predicted)
    );
    Failure::input(problem).with_hint("look at --kind and --interface, and at the figure's unit")
}

/// The figures of a sheet: their names, options and units.
const FIGURES: [(&str, &str, &str); 9] = [
    ("seq_read_mb_per_s", "--seq-read", "MB/s"),
    ("seq_write_mb_per_s", "--seq-write", "MB/s"),
    ("read_iops", "--read-iops", "requests/s"),
    ("write_iops", "--write-iops", "requests/s"),
    ("read_latency_us", "--read-latency", "us"),
    ("write_latency_us", "--write-latency", "us"),
    ("seq_read_inner_mb_per_s", "--seq-inner", "MB/s"),
    ("seek_read_us", "--seek-read", "us"),
    ("seek_write_us", "--seek-write", "us"),
];

fn refuse(given: Option<&str>, kind: &str) -> Result<(), Failure> {
    match given {
        None => Ok(()),
        Some(name) => {
            Err(Failure::input(anyhow::anyhow!("{name} is a figure of {kind}, not of this kind of drive")))
        }
    }
}

impl Args {
    /// The first figure that is given and no disk has.
    fn of_flash(&self) -> Option<&'static str> {
        if self.capped.is_some() { Some("--capped") } else { self.flash.given() }
    }

    fn disk_sheet(&self) -> DiskSheet {
        let disk = &self.disk;
        DiskSheet {
            id: self.id.clone(),
            name: self.name.clone(),
            capacity: self.capacity,
            rpm: disk.rpm,
            heads: disk.heads,
            interface: self.interface.clone(),
            seq_read: self.seq_read,
            seq_write: self.seq_write,
            seq_inner: disk.seq_inner,
            seeks: SheetSeeks {
                read: disk.seek_read,
                write: disk.seek_write,
                track: disk.seek_track,
                full: disk.seek_full,
            },
            read_iops: self.read_iops,
            write_iops: self.write_iops,
            read_latency: self.read_latency,
            write_latency: self.write_latency,
            read_block: self.read_block(),
            iops_depth: disk.iops_depth,
            is_measured: self.measured,
            cache: disk.cache,
            physical_sector: disk.sector,
            has_two_arms: disk.actuators == Some(2),
            recording: disk.recording.unwrap_or_default(),
            facts: self.facts.facts(),
        }
    }

    fn read_block(&self) -> ByteCount {
        self.read_block.unwrap_or(ByteCount::from_kib(4))
    }

    fn sheet(&self, kind: SheetKind) -> Sheet {
        Sheet {
            id: self.id.clone(),
            name: self.name.clone(),
            kind,
            capacity: self.capacity,
            interface: self.interface.clone(),
            seq_read: self.seq_read,
            seq_write: self.seq_write,
            read_iops: self.read_iops,
            write_iops: self.write_iops,
            read_latency: self.read_latency,
            write_latency: self.write_latency,
            read_block: self.read_block(),
            write_block: self.flash.write_block.unwrap_or(ByteCount::from_kib(4)),
            unit: self.flash.unit,
            bits_per_cell: self.flash.nand,
            slc: self.flash.cache(),
            is_measured: self.measured,
            capped: self.capped,
            shared: self.flash.shared(),
            facts: self.facts.facts(),
        }
    }
}

/// How a figure of the entry was found: what the class has is assumed, whatever the class itself was fitted to.
fn origin(made: &SheetModel, figure: &FigureSource, given: &str) -> &'static str {
    match figure.source.as_str() {
        source if source.starts_with(given) => "given",
        source if source.starts_with("fitted:") && !made.of_class.contains(&figure.key) => "derived",
        _ => "assumed",
    }
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<SheetModelAnswer<'_>>();

/// The model that was made, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct SheetModelAnswer<'a> {
    id: &'a str,
    entry: &'a str,
    rows: Vec<SheetRowAnswer>,
    figures: Vec<FigureAnswer<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct SheetRowAnswer {
    figure: &'static str,
    given: f64,
    predicted: f64,
    error_pct: f64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FigureAnswer<'a> {
    key: &'a str,
    value: &'a str,
    origin: &'static str,
    source: &'a str,
}

impl<'a> SheetModelAnswer<'a> {
    fn of(made: &'a SheetModel, given: &str) -> Self {
        let row = |row: &raidlab_calibrate::SheetRow| SheetRowAnswer {
            figure: row.figure.metric.name(),
            given: row.figure.value,
            predicted: row.predicted,
            error_pct: row.error_pct(),
        };
        let figure = |figure: &'a FigureSource| FigureAnswer {
            key: &figure.key,
            value: &figure.value,
            origin: origin(made, figure, given),
            source: &figure.source,
        };
        Self {
            id: &made.model.id,
            entry: &made.entry,
            rows: made.rows.iter().map(row).collect(),
            figures: made.model.sources.iter().map(figure).collect(),
        }
    }
}

/// Sheet and model side by side, and where each figure of the entry is from; as remarks where the entry stands above.
fn as_words(made: &SheetModel, given: &str, below_entry: bool) -> String {
    let lead = if below_entry { "# " } else { "" };
    let mut text = String::new();
    // Writing to text can't fail.
    let _ = writeln!(text, "{lead}{:<22} {:>12} {:>12} {:>8}", "figure", "sheet", "model", "error");
    for row in &made.rows {
        // Adding zero takes the sign from what rounds to none.
        let error = (10.0 * row.error_pct()).round() / 10.0 + 0.0;
        let _ = writeln!(
            text,
            "{lead}{:<22} {:>12.1} {:>12.1} {error:>+7.1}%",
            row.figure.metric.name(),
            row.figure.value,
            row.predicted
        );
    }
    for wanted in ["given", "derived", "assumed"] {
        let keys: Vec<&str> = made
            .model
            .sources
            .iter()
            .filter(|figure| origin(made, figure, given) == wanted)
            .map(|figure| figure.key.as_str())
            .collect();
        if !keys.is_empty() {
            let words = wrapped(&format!("{wanted}: {}", keys.join(", ")), WIDTH - lead.len() as u16, 0);
            text.extend(words.lines().map(|line| format!("{lead}{line}\n")));
        }
    }
    text
}

fn kind(text: &str) -> Result<Kind, String> {
    let [nvme, sata, sas] = [SheetKind::Nvme, SheetKind::SataSsd, SheetKind::SasSsd].map(Kind::Flash);
    one_of(text, &[("nvme", nvme), ("sata-ssd", sata), ("sas-ssd", sas), ("hdd", Kind::Disk)])
}

/// A rate: `6500MB/s`.
fn rate(text: &str) -> Result<BytesPerSec, String> {
    let expected = || "a rate is a size a second, such as 6500MB/s".to_owned();
    let bytes: ByteCount = text.strip_suffix("/s").ok_or_else(expected)?.parse().map_err(|_| expected())?;
    Ok(BytesPerSec(bytes.0 as f64))
}

/// A number of requests: `200000`, `200k`, `1.6M`.
fn count(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    let number: Option<f64> = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number
        .map(|number| number * scale)
        .ok_or_else(|| "a number above zero, such as 200000, 200k or 1.6M".into())
}

/// A length: `512`, which is bytes, or `4KiB`.
fn block(text: &str) -> Result<ByteCount, String> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_plain { format!("{text}B") } else { text.to_owned() };
    text.parse().map_err(|error: ParseUnitError| error.to_string())
}

/// A link and its lanes: `pcie4x4`, `sas12x2`, `sata6`; the links also by their names in the catalogue, `sas-12gx2`.
fn interface(text: &str) -> Result<SheetInterface, String> {
    let expected = || "an interface is a link and its lanes, such as pcie4x4, sas12x2 or sata6".to_owned();
    let (link, lanes) = match text.rsplit_once('x') {
        Some((link, lanes)) => {
            (link, lanes.parse().ok().filter(|lanes| (1..=16).contains(lanes)).ok_or_else(expected)?)
        }
        None => (text, 1),
    };
    let of_catalogue = |(family, unit): (&str, &str)| {
        let speed = link
            .strip_prefix(family)
            .filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))?;
        Some(format!("{family}-{}{unit}", speed.strip_suffix(unit).unwrap_or(speed)))
    };
    let known = [("pcie", ""), ("sata", "g"), ("sas", "g")].into_iter().find_map(of_catalogue);
    let link = known.unwrap_or_else(|| link.to_owned());
    if link.is_empty() { Err(expected()) } else { Ok(SheetInterface { link, lanes }) }
}
