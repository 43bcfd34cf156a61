//! Arguments for facts of a data sheet: only of flash, only of disks, or of every drive.

use super::{count, rate};
use crate::inputs::one_of;
use raidlab_calibrate::{Recording, SharedCaps, SheetCache, SheetFacts};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// What only the sheet of flash says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Of flash")]
pub(super) struct FlashArgs {
    /// Length of the writes at random [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub(super) write_block: Option<ByteCount>,
    /// Unit of the map, in which a short write is written (indirection unit) [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub(super) unit: Option<ByteCount>,
    /// Cells: slc, mlc, tlc, qlc [default: tlc]
    #[arg(long, value_parser = nand, value_name = "KIND")]
    pub(super) nand: Option<u32>,
    /// Data that the pseudo-SLC cache of an empty drive takes; --seq-write and --write-iops are those into it
    #[arg(long, value_name = "SIZE", requires = "seq_write_sustained")]
    pub(super) slc_cache: Option<ByteCount>,
    /// What of it there is on a full drive, too [default: none]
    #[arg(long, value_name = "SIZE", requires = "slc_cache")]
    pub(super) slc_fixed: Option<ByteCount>,
    /// Writing in sequence past the pseudo-SLC cache
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "slc_cache")]
    pub(super) seq_write_sustained: Option<BytesPerSec>,
    /// Requests a second that a hypervisor lets pass, reads and writes together
    #[arg(long, value_name = "N", value_parser = count)]
    pub(super) total_iops: Option<f64>,
    /// Bytes a second that it lets pass, reads and writes together
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) total_rate: Option<BytesPerSec>,
    /// Requests beyond --total-iops that it lets pass after a long pause: 5.4M
    #[arg(long, value_name = "N", value_parser = count, requires = "total_iops")]
    pub(super) credits: Option<f64>,
    /// Requests a second while --credits last
    #[arg(long, value_name = "N", value_parser = count, requires = "credits")]
    pub(super) burst_iops: Option<f64>,
}

impl FlashArgs {
    /// The first of these that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--write-block", self.write_block.is_some()),
            ("--unit", self.unit.is_some()),
            ("--nand", self.nand.is_some()),
            ("--slc-cache", self.slc_cache.is_some()),
            ("--total-iops", self.total_iops.is_some()),
            ("--total-rate", self.total_rate.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    pub(super) fn shared(&self) -> SharedCaps {
        let Self { total_iops, total_rate, credits, burst_iops, .. } = *self;
        SharedCaps { iops: total_iops, rate: total_rate, credits, burst_iops }
    }

    pub(super) fn cache(&self) -> Option<SheetCache> {
        let fixed = self.slc_fixed.unwrap_or(ByteCount::ZERO);
        Some(SheetCache { size: self.slc_cache?, fixed, sustained: self.seq_write_sustained? })
    }
}

/// What a sheet says beside how fast the drive is, and who says it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endurance, power, failures, sources")]
pub(super) struct FactArgs {
    /// Where the sheet is from, to stand as the source of each figure
    #[arg(long, value_name = "TEXT")]
    pub(super) source: Option<String>,
    /// Year from which it was sold
    #[arg(long, value_name = "YEAR")]
    pub(super) year: Option<u32>,
    /// Drive writes a day, for five years
    #[arg(long, value_name = "N")]
    pub(super) dwpd: Option<f64>,
    /// What may be written in all, which counts more than --dwpd: 14PB
    #[arg(long, value_name = "SIZE")]
    pub(super) rated_writes: Option<ByteCount>,
    /// Watts at work
    #[arg(long, value_name = "WATTS")]
    pub(super) active_power: Option<f64>,
    /// Watts at rest
    #[arg(long, value_name = "WATTS")]
    pub(super) idle_power: Option<f64>,
    /// Share that fails in a year, in percent
    #[arg(long, value_name = "PCT")]
    pub(super) afr: Option<f64>,
    /// Mean time between failures in hours, where no --afr is told: 2.5M
    #[arg(long, value_name = "HOURS", value_parser = count)]
    pub(super) mtbf: Option<f64>,
    /// Bits read for one error that can't be corrected: 1e17
    #[arg(long, value_name = "BITS")]
    pub(super) read_errors: Option<f64>,
    /// Options above whose figures are recalled or inferred, without dashes: read-iops,write-iops
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = figure_name)]
    pub(super) estimated: Vec<String>,
    /// Options above whose figures are the best of a family, of which this capacity may do less
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = figure_name)]
    pub(super) at_most: Vec<String>,
}

impl FactArgs {
    pub(super) fn facts(&self) -> SheetFacts {
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
    one_of(text, &[("slc", 1), ("mlc", 2), ("tlc", 3), ("qlc", 4)])
}

/// What only a disk's sheet says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Of a disk")]
pub(super) struct DiskArgs {
    /// Revolutions per minute [default: 7200]
    #[arg(long, value_name = "N")]
    pub(super) rpm: Option<u32>,
    /// Sides of platters in use [default: as many as in its class hold the capacity]
    #[arg(long, value_name = "N")]
    pub(super) heads: Option<u32>,
    /// Reading in sequence at the inner edge [default: as its class has it for its outer edge]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) seq_inner: Option<BytesPerSec>,
    /// Average seek of a read [default: what makes --read-iops, or that of its class]
    #[arg(long, value_name = "TIME")]
    pub(super) seek_read: Option<NanoSpan>,
    /// Average seek of a write
    #[arg(long, value_name = "TIME")]
    pub(super) seek_write: Option<NanoSpan>,
    /// Seek of a read to the next track
    #[arg(long, value_name = "TIME")]
    pub(super) seek_track: Option<NanoSpan>,
    /// Seek of a read from edge to edge
    #[arg(long, value_name = "TIME")]
    pub(super) seek_full: Option<NanoSpan>,
    /// Commands in flight for --read-iops and --write-iops [default: 16]
    #[arg(long, value_name = "N")]
    pub(super) iops_depth: Option<u32>,
    /// Memory
    #[arg(long, value_name = "SIZE")]
    pub(super) cache: Option<ByteCount>,
    /// Sectors: 512n, 512e or 4kn [default: 512e]
    #[arg(long, value_parser = sector, value_name = "FORMAT")]
    pub(super) sector: Option<ByteCount>,
    /// Arms, 1 or 2 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(super) actuators: Option<u32>,
    /// Tracks: cmr, smr (bands that the drive manages) or hm-smr (zones that the host writes in sequence) [default: cmr]
    #[arg(long, value_parser = recording, value_name = "KIND")]
    pub(super) recording: Option<Recording>,
}

impl DiskArgs {
    /// The first of these that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
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

fn sector(text: &str) -> Result<ByteCount, String> {
    let long = ByteCount::from_kib(4);
    one_of(text, &[("512n", ByteCount(512)), ("512e", long), ("4kn", long)])
}

fn recording(text: &str) -> Result<Recording, String> {
    use Recording::{Conventional, ShingledByDrive, ShingledByHost};
    one_of(text, &[("cmr", Conventional), ("smr", ShingledByDrive), ("hm-smr", ShingledByHost)])
}
