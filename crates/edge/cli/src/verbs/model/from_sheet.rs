//! `raidlab model from-sheet`: a drive's model from its data sheet.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use crate::whole_file::write_whole_or_fail;
use raidlab_calibrate::{
    DiskSheet, Recording, Sheet, SheetCache, SheetFacts, SheetInterface, SheetKind, SheetModel, SheetSeeks,
    disk_from_sheet, model_from_sheet,
};
use raidlab_hardware::{Catalog, FigureSource};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use serde_json::{Value, json};
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
    /// Interface: pcie3x4, pcie4x4, pcie5x2, sata-6g, sas-12gx2, ... [default: pcie4x4, sata-6g or sas-12gx2]
    #[arg(long, value_parser = interface, value_name = "LINK")]
    interface: Option<SheetInterface>,
    /// Length of the reads at random [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    read_block: Option<ByteCount>,
    #[command(flatten)]
    flash: FlashArgs,
    /// The figures are limits measured on a drive that was written once in sequence
    #[arg(long)]
    measured: bool,
    /// Whether the rates are caps that a hypervisor sets: true or false [default: true if they were measured and both of
    /// --read-iops and --seq-write are round]
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
    /// Write the entry into this file, which must not be there [default: print it]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// What only the sheet of flash says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Of flash")]
struct FlashArgs {
    /// Length of the writes at random [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    write_block: Option<ByteCount>,
    /// Unit of the map, in which a short write is written (indirection unit) [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    unit: Option<ByteCount>,
    /// Cells: slc, mlc, tlc, qlc [default: tlc]
    #[arg(long, value_parser = nand, value_name = "KIND")]
    nand: Option<u32>,
    /// Data that the pseudo-SLC cache of an empty drive takes; --seq-write and --write-iops are those into it
    #[arg(long, value_name = "SIZE", requires = "seq_write_sustained")]
    slc_cache: Option<ByteCount>,
    /// What of it there is on a full drive, too [default: none]
    #[arg(long, value_name = "SIZE", requires = "slc_cache")]
    slc_fixed: Option<ByteCount>,
    /// Writing in sequence past the pseudo-SLC cache
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "slc_cache")]
    seq_write_sustained: Option<BytesPerSec>,
}

impl FlashArgs {
    /// The first of these that is given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--write-block", self.write_block.is_some()),
            ("--unit", self.unit.is_some()),
            ("--nand", self.nand.is_some()),
            ("--slc-cache", self.slc_cache.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    fn cache(&self) -> Option<SheetCache> {
        let fixed = self.slc_fixed.unwrap_or(ByteCount::ZERO);
        Some(SheetCache { size: self.slc_cache?, fixed, sustained: self.seq_write_sustained? })
    }
}

/// What a sheet says beside how fast the drive is, and who says it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endurance, power, failures, sources")]
struct FactArgs {
    /// Where the sheet is from, to stand as the source of each figure
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Year from which it was sold
    #[arg(long, value_name = "YEAR")]
    year: Option<u32>,
    /// Drive writes a day, for five years
    #[arg(long, value_name = "N")]
    dwpd: Option<f64>,
    /// What may be written in all, which counts more than --dwpd: 14PB
    #[arg(long, value_name = "SIZE")]
    rated_writes: Option<ByteCount>,
    /// Watts at work
    #[arg(long, value_name = "WATTS")]
    active_power: Option<f64>,
    /// Watts at rest
    #[arg(long, value_name = "WATTS")]
    idle_power: Option<f64>,
    /// Share that fails in a year, in percent
    #[arg(long, value_name = "PCT")]
    afr: Option<f64>,
    /// Mean time between failures in hours, where no --afr is told: 2.5M
    #[arg(long, value_name = "HOURS", value_parser = count)]
    mtbf: Option<f64>,
    /// Bits read for one error that can't be corrected: 1e17
    #[arg(long, value_name = "BITS")]
    read_errors: Option<f64>,
    /// Options above whose figures are recalled or inferred, without dashes: read-iops,write-iops
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = figure_name)]
    estimated: Vec<String>,
    /// Options above whose figures are the best of a family, of which this capacity may do less
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = figure_name)]
    at_most: Vec<String>,
}

impl FactArgs {
    fn facts(&self) -> SheetFacts {
        SheetFacts {
            source: self.source.as_ref().map(|title| format!("data sheet: {title}")),
            year: self.year,
            writes_a_day: self.dwpd,
            rated_writes: self.rated_writes,
            active_watts: self.active_power,
            idle_watts: self.idle_power,
            afr_pct: self.afr,
            mtbf_hours: self.mtbf,
            bits_per_read_error: self.read_errors,
            estimated: self.estimated.clone(),
            at_most: self.at_most.clone(),
        }
    }
}

/// Options whose figures can be estimated.
const FIGURES: [&str; 34] = [
    "active-power",
    "actuators",
    "afr",
    "cache",
    "capacity",
    "dwpd",
    "heads",
    "idle-power",
    "interface",
    "iops-depth",
    "mtbf",
    "nand",
    "rated-writes",
    "read-block",
    "read-errors",
    "read-iops",
    "read-latency",
    "recording",
    "rpm",
    "sector",
    "seek-full",
    "seek-read",
    "seek-track",
    "seek-write",
    "seq-inner",
    "seq-read",
    "seq-write",
    "seq-write-sustained",
    "slc-cache",
    "unit",
    "write-block",
    "write-iops",
    "write-latency",
    "year",
];

fn figure_name(text: &str) -> Result<String, String> {
    if FIGURES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("figures are {}", FIGURES.join(", ")))
}

fn nand(text: &str) -> Result<u32, String> {
    match text {
        "slc" => Ok(1),
        "mlc" => Ok(2),
        "tlc" => Ok(3),
        "qlc" => Ok(4),
        _ => Err("cells are slc, mlc, tlc or qlc".into()),
    }
}

/// What only a disk's sheet says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Of a disk")]
struct DiskArgs {
    /// Revolutions per minute [default: 7200]
    #[arg(long, value_name = "N")]
    rpm: Option<u32>,
    /// Sides of platters in use [default: as many as in its class hold the capacity]
    #[arg(long, value_name = "N")]
    heads: Option<u32>,
    /// Reading in sequence at the inner edge [default: as its class has it for its outer edge]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    seq_inner: Option<BytesPerSec>,
    /// Average seek of a read [default: what makes --read-iops, or that of its class]
    #[arg(long, value_name = "TIME")]
    seek_read: Option<NanoSpan>,
    /// Average seek of a write
    #[arg(long, value_name = "TIME")]
    seek_write: Option<NanoSpan>,
    /// Seek of a read to the next track
    #[arg(long, value_name = "TIME")]
    seek_track: Option<NanoSpan>,
    /// Seek of a read from edge to edge
    #[arg(long, value_name = "TIME")]
    seek_full: Option<NanoSpan>,
    /// Commands in flight for --read-iops and --write-iops [default: 16]
    #[arg(long, value_name = "N")]
    iops_depth: Option<u32>,
    /// Memory
    #[arg(long, value_name = "SIZE")]
    cache: Option<ByteCount>,
    /// Sectors: 512n, 512e or 4kn [default: 512e]
    #[arg(long, value_parser = sector, value_name = "FORMAT")]
    sector: Option<ByteCount>,
    /// Arms, 1 or 2 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    actuators: Option<u32>,
    /// Tracks: cmr, smr (bands that the drive manages) or hm-smr (zones that the host writes in sequence) [default: cmr]
    #[arg(long, value_parser = recording, value_name = "KIND")]
    recording: Option<Recording>,
}

impl DiskArgs {
    /// The first of these that is given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--rpm", self.rpm.is_some()),
            ("--heads", self.heads.is_some()),
            ("--seq-inner", self.seq_inner.is_some()),
            ("--seek-read", self.seek_read.is_some()),
            ("--seek-write", self.seek_write.is_some()),
            ("--seek-track", self.seek_track.is_some()),
            ("--seek-full", self.seek_full.is_some()),
            ("--iops-depth", self.iops_depth.is_some()),
            ("--cache", self.cache.is_some()),
            ("--sector", self.sector.is_some()),
            ("--actuators", self.actuators.is_some()),
            ("--recording", self.recording.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// A class of drives.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Flash(SheetKind),
    Disk,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = args.output.as_ref().filter(|path| path.exists()) {
        let problem = anyhow::anyhow!("{} is there already, and is not written over", path.display());
        return Err(Failure::input(problem).with_hint("name another file with --output"));
    }
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
    let made = made.map_err(Failure::input)?;
    if let Some(path) = &args.output {
        write_whole_or_fail(path, &made.entry)?;
    }
    let given = args.facts.facts().source.unwrap_or_else(|| "data sheet: as given".to_owned());
    if output.is_json() {
        print_json(&as_json(&made, &given))?;
    } else {
        let entry = if args.output.is_some() { "" } else { &made.entry };
        print(&format!("{entry}{}", as_words(&made, &given, args.output.is_none())))?;
    }
    Ok(Exit::Done)
}

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
        let given = [
            ("--read-latency", self.read_latency.is_some()),
            ("--write-latency", self.write_latency.is_some()),
            ("--read-block", self.read_block.is_some()),
            ("--measured", self.measured),
            ("--capped", self.capped.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        given.or_else(|| self.flash.given())
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
            seq_read: self.seq_read.or(self.seq_write),
            seq_inner: disk.seq_inner,
            seeks: SheetSeeks {
                read: disk.seek_read,
                write: disk.seek_write,
                track: disk.seek_track,
                full: disk.seek_full,
            },
            read_iops: self.read_iops,
            write_iops: self.write_iops,
            iops_depth: disk.iops_depth.unwrap_or(16),
            cache: disk.cache,
            physical_sector: disk.sector,
            has_two_arms: disk.actuators == Some(2),
            recording: disk.recording.unwrap_or_default(),
            facts: self.facts.facts(),
        }
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
            read_block: self.read_block.unwrap_or(ByteCount::from_kib(4)),
            write_block: self.flash.write_block.unwrap_or(ByteCount::from_kib(4)),
            unit: self.flash.unit,
            bits_per_cell: self.flash.nand,
            slc: self.flash.cache(),
            is_measured: self.measured,
            capped: self.capped,
            facts: self.facts.facts(),
        }
    }
}

/// How a figure of the entry was found.
fn origin(figure: &FigureSource, given: &str) -> &'static str {
    match figure.source.as_str() {
        source if source.starts_with(given) => "given",
        source if source.starts_with("fitted:") => "derived",
        _ => "assumed",
    }
}

fn as_json(made: &SheetModel, given: &str) -> Value {
    let row = |row: &raidlab_calibrate::SheetRow| {
        json!({
            "figure": row.figure.metric.name(), "given": row.figure.value, "predicted": row.predicted, "error_pct": row.error_pct(),
        })
    };
    let figure = |figure: &FigureSource| {
        json!({
            "key": figure.key, "value": figure.value, "origin": origin(figure, given), "source": figure.source,
        })
    };
    json!({
        "id": made.model.id,
        "entry": made.entry,
        "rows": made.rows.iter().map(row).collect::<Vec<_>>(),
        "figures": made.model.sources.iter().map(figure).collect::<Vec<_>>(),
    })
}

/// Sheet and model side by side, and where each figure of the entry is from; as remarks where the entry stands above.
fn as_words(made: &SheetModel, given: &str, below_entry: bool) -> String {
    let lead = if below_entry { "# " } else { "" };
    let mut text = String::new();
    // Writing to text can't fail.
    let _ = writeln!(text, "{lead}{:<22} {:>12} {:>12} {:>8}", "figure", "sheet", "model", "error");
    for row in &made.rows {
        let error = row.error_pct();
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
            .filter(|figure| origin(figure, given) == wanted)
            .map(|figure| figure.key.as_str())
            .collect();
        let _ = writeln!(text, "{lead}{wanted}: {}", keys.join(", "));
    }
    text
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "nvme" => Ok(Kind::Flash(SheetKind::Nvme)),
        "sata-ssd" => Ok(Kind::Flash(SheetKind::SataSsd)),
        "sas-ssd" => Ok(Kind::Flash(SheetKind::SasSsd)),
        "hdd" => Ok(Kind::Disk),
        _ => Err("a kind is nvme, sata-ssd, sas-ssd or hdd".into()),
    }
}

fn sector(text: &str) -> Result<ByteCount, String> {
    match text {
        "512n" => Ok(ByteCount(512)),
        "512e" | "4kn" => Ok(ByteCount::from_kib(4)),
        _ => Err("a format of sectors is 512n, 512e or 4kn".into()),
    }
}

fn recording(text: &str) -> Result<Recording, String> {
    match text {
        "cmr" => Ok(Recording::Conventional),
        "smr" => Ok(Recording::ShingledByDrive),
        "hm-smr" => Ok(Recording::ShingledByHost),
        _ => Err("a kind of recording is cmr, smr or hm-smr".into()),
    }
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

/// A link and its lanes: `pcie4x4`, `sas-12gx2`, `sata-6g`.
fn interface(text: &str) -> Result<SheetInterface, String> {
    let expected =
        || "an interface is a link and its lanes, such as pcie4x4, sas-12gx2 or sata-6g".to_owned();
    let (link, lanes) = match text.rsplit_once('x') {
        Some((link, lanes)) => {
            (link, lanes.parse().ok().filter(|lanes| (1..=16).contains(lanes)).ok_or_else(expected)?)
        }
        None => (text, 1),
    };
    let link = match link.strip_prefix("pcie").filter(|rest| !rest.starts_with('-')) {
        Some(generation) => format!("pcie-{generation}"),
        None => link.to_owned(),
    };
    if link.is_empty() { Err(expected()) } else { Ok(SheetInterface { link, lanes }) }
}
