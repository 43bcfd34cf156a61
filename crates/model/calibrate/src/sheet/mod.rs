//! A drive's model from its data sheet: what is given is met, what follows is solved for, the rest is what is usual in its class.
//!
//! ```text
//!  generic-nvme (the class, in the catalogue) --+
//!  capacity, rates, IOPS, latencies ------------+--> solve --> measured from outside: within 3 % of the sheet, or refused
//!                                                       \--> entry: the class's text with what was given and solved
//! ```
//! | figure of the sheet | what it decides |
//! |---|---|
//! | capacity | dies, behind SATA and SAS |
//! | sequential read | rate of the interface, as far as its lanes carry it |
//! | sequential write | the time of a program; dies that program at once, behind SATA and SAS |
//! | random read, with its latency | `NVMe`: channels, dies, commands inside and their times (`layout`). SATA and SAS: firmware time per read |
//! | random write, steady | spare room: write amplification is what is left between the two rates of writing |
//! | latency of a read, a write | time beside the firmware; times of pages where that is not enough |
//!
//! Where the interface hides what the flash could write in sequence, sequential writes are capped, the class's spare room
//! stands, and random writes decide the time of a program.
//!
//! Figures that are a hypervisor's caps become caps, and the drive behind them is the class's.
//!
//! Hard drives have a sheet of their own (`disk`). Left out: figures of mixed loads.

mod bench;
mod check;
mod disk;
mod entry;
mod facts;
mod layout;
mod like;
mod slc;
mod solve;

pub use check::{SheetRow, check_sheet};
pub use disk::{DiskSheet, Recording, SheetSeeks, disk_from_sheet};
pub use facts::SheetFacts;

use raidlab_hardware::{Catalog, CatalogError, DriveModel, FigureSource, SheetMetric};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::ops::RangeBounds;

/// Errors above this refuse a model.
const TOLERANCE: f64 = 0.03;

/// By how much a drive of the class has to exceed what is taken for a cap: it must not be in the way.
const CAP_ROOM: f64 = 1.1;

/// What kind of drive a sheet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetKind {
    /// `NVMe` over `PCIe`.
    Nvme,
    /// Flash behind SATA.
    SataSsd,
    /// Flash behind SAS.
    SasSsd,
}

impl SheetKind {
    /// The entry of the catalogue that holds what is usual in the class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Nvme => "generic-nvme",
            Self::SataSsd => "generic-sata-ssd",
            Self::SasSsd => "generic-sas-ssd",
        }
    }

    /// What the names of its links begin with, and how many lanes there may be.
    const fn links(self) -> (&'static str, &'static [u8]) {
        match self {
            Self::Nvme => ("pcie-", &[1, 2, 4, 8, 16]),
            Self::SataSsd => ("sata-", &[1]),
            Self::SasSsd => ("sas-", &[1, 2]),
        }
    }
}

/// A link of the catalogue and how many lanes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetInterface {
    /// Name of the link, `pcie-4`.
    pub link: String,
    /// Lanes or ports.
    pub lanes: u8,
}

/// A data sheet; what it does not say is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Name of the entry.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What kind of drive.
    pub kind: SheetKind,
    /// What the host sees.
    pub capacity: ByteCount,
    /// Interface, if not that of the class.
    pub interface: Option<SheetInterface>,
    /// Reading in sequence.
    pub seq_read: Option<BytesPerSec>,
    /// Writing in sequence.
    pub seq_write: Option<BytesPerSec>,
    /// Reads at random a second.
    pub read_iops: Option<f64>,
    /// Writes at random a second, in the steady state; of a drive with a pseudo-SLC cache those into it.
    pub write_iops: Option<f64>,
    /// Typical time of a read at random, alone.
    pub read_latency: Option<NanoSpan>,
    /// Typical time of a write of 4 KiB, alone.
    pub write_latency: Option<NanoSpan>,
    /// Length of the reads at random.
    pub read_block: ByteCount,
    /// Length of the writes at random.
    pub write_block: ByteCount,
    /// Unit of the map, if not that of the class.
    pub unit: Option<ByteCount>,
    /// Bits in a cell, if not those of the class.
    pub bits_per_cell: Option<u32>,
    /// Its pseudo-SLC cache, if it has one.
    pub slc: Option<SheetCache>,
    /// The figures are limits measured on a drive that was written once in sequence.
    pub is_measured: bool,
    /// The rates are caps that a hypervisor sets. None: they are if they were measured, are rounder than a
    /// measured limit is, and a drive of the class exceeds them.
    pub capped: Option<bool>,
    /// Caps of the hypervisor that reads and writes share; with any of them the other rates are caps, too.
    pub shared: SharedCaps,
    /// What else the sheet says.
    pub facts: SheetFacts,
}

/// What a hypervisor lets pass of reads and writes together; none where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedCaps {
    /// Requests a second.
    pub iops: Option<f64>,
    /// Bytes a second.
    pub rate: Option<BytesPerSec>,
    /// Requests beyond `iops` after a long pause; they come back at that rate.
    pub credits: Option<f64>,
    /// Requests a second while these last.
    pub burst_iops: Option<f64>,
}

/// A pseudo-SLC cache. The sheet's rates of writing are those into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SheetCache {
    /// Data that it takes on an empty drive.
    pub size: ByteCount,
    /// Of these what it always has room for.
    pub fixed: ByteCount,
    /// Writing in sequence past it.
    pub sustained: BytesPerSec,
}

impl Sheet {
    /// Whether the rates are caps, and not what the drive can do.
    fn is_capped(&self) -> bool {
        self.capped == Some(true)
    }

    /// The sheet with `capped` decided: measured rates are taken for caps if they are round and a drive of `class` exceeds them.
    fn judged(&self, class: &DriveModel) -> Self {
        let is_cap = |metric, figure: Option<f64>| {
            let of_class = class.sheet.iter().find(|of_class| of_class.metric == metric);
            figure.zip(of_class).is_some_and(|(figure, of_class)| of_class.value > figure * CAP_ROOM)
        };
        let reads = self.read_iops.filter(|iops| iops % 1e3 == 0.0);
        let writes = self.seq_write.map(|rate| rate.0 / 1e6).filter(|rate| rate.fract() == 0.0);
        let are_caps = is_cap(SheetMetric::RandomRead, reads) && is_cap(SheetMetric::SeqWrite, writes);
        let is_shared = self.shared != SharedCaps::default();
        Self {
            capped: Some(self.capped.unwrap_or(is_shared || self.is_measured && are_caps)),
            ..self.clone()
        }
    }
}

/// A model that does what the sheet says.
#[derive(Clone, Debug)]
pub struct SheetModel {
    /// The model; its sources say of each figure whether it is given, fitted or estimated.
    pub model: DriveModel,
    /// The entry of the catalogue.
    pub entry: String,
    /// Keys of its figures that stand as its class has them.
    pub of_class: Vec<String>,
    /// The sheet's figures beside the model's.
    pub rows: Vec<SheetRow>,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SheetError {
    /// The catalogue has no such link, or the entry contradicts itself.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A figure is nothing a drive can have.
    #[error("{figure} of {value} can't be: {reason}")]
    Figure {
        /// Which.
        figure: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nothing was given to solve for.
    #[error("a capacity alone makes no model: give at least one rate, number of requests or latency")]
    Nothing,
    /// No drive of the class does what the sheet says.
    #[error(
        "no drive of its class does this: {figure} is {given:.4} in the sheet and {predicted:.4} in the nearest model"
    )]
    OutOfReach {
        /// Which.
        figure: &'static str,
        /// What the sheet says.
        given: f64,
        /// What the nearest model does.
        predicted: f64,
    },
}

/// Solves for the inside of the drive that `sheet` tells of.
///
/// # Errors
/// [`SheetError`] for a sheet that no drive of its class can meet within 3 %.
pub fn model_from_sheet(catalog: &Catalog, sheet: &Sheet) -> Result<SheetModel, SheetError> {
    check(sheet)?;
    let class = catalog.drive(sheet.kind.class())?;
    let sheet = sheet.judged(class);
    let solved = solve::solve(catalog, class, &sheet)?;
    let (model, entry) = entry::write(catalog, class, &sheet, &solved)?;
    reproduced(class, model, entry)
}

/// Sectors of 512 bytes of a drive that is sold as one of `capacity`: those of its gigabytes by IDEMA LBA1-03, or, of what is no
/// whole number of gigabytes, the bytes themselves.
fn sectors(capacity: ByteCount) -> u64 {
    const GB: u64 = 1_000_000_000;
    match capacity.0 / GB {
        gb @ 50.. if capacity.0.is_multiple_of(GB) => 97_696_368 + 1_953_504 * (gb - 50),
        _ => capacity.0 / 512,
    }
}

/// The model with its entry, if it does what the entry's sheet says.
fn reproduced(class: &DriveModel, model: DriveModel, entry: String) -> Result<SheetModel, SheetError> {
    let rows = check_sheet(&model);
    let is_of_class = |figure: &&FigureSource| class.sources.contains(figure);
    let of_class = model.sources.iter().filter(is_of_class).map(|figure| figure.key.clone()).collect();
    match rows.iter().find(|row| row.error_pct().abs() > TOLERANCE * 100.0) {
        None => Ok(SheetModel { model, entry, of_class, rows }),
        Some(row) => Err(SheetError::OutOfReach {
            figure: row.figure.metric.name(),
            given: row.figure.value,
            predicted: row.predicted,
        }),
    }
}

fn check_names(id: &str, name: &str) -> Result<(), SheetError> {
    let is_plain =
        |text: &str| !text.is_empty() && !text.contains(['"', '\\']) && !text.contains(char::is_control);
    let reason = "it is text without quotes, backslashes and control characters";
    for (figure, text) in [("an id", id), ("a name", name)] {
        if !is_plain(text) {
            return Err(SheetError::Figure { figure, value: format!("'{text}'"), reason });
        }
    }
    Ok(())
}

fn check_cache(cache: &SheetCache, capacity: ByteCount) -> Result<(), SheetError> {
    if !(1 << 30..=capacity.0).contains(&cache.size.0) || cache.fixed > cache.size {
        return Err(SheetError::Figure {
            figure: "a pseudo-SLC cache",
            value: format!("{}, {} of them fixed", cache.size, cache.fixed),
            reason: "it is from 1 GiB to the capacity, and its fixed part no more than all of it",
        });
    }
    within("a rate past the cache", Some(cache.sustained), BytesPerSec(1e6).., "it is 1 MB/s at least")
}

/// Refuses an interface of which the link is none of `links`, or has other lanes than these.
fn check_interface(interface: &SheetInterface, links: &[(&str, &[u8])]) -> Result<(), SheetError> {
    let is_of =
        |(link, lanes): &(&str, &[u8])| interface.link.starts_with(link) && lanes.contains(&interface.lanes);
    if links.iter().any(is_of) {
        return Ok(());
    }
    let value = format!("{} with lanes or ports: {}", interface.link, interface.lanes);
    let reason = "NVMe is PCIe with 1, 2, 4, 8 or 16 lanes; SATA has one lane; SAS has one or two ports";
    Err(SheetError::Figure { figure: "an interface", value, reason })
}

/// Refuses a figure that is given and out of `bounds`.
fn within<T: PartialOrd + ToString>(
    figure: &'static str,
    value: Option<T>,
    bounds: impl RangeBounds<T>,
    reason: &'static str,
) -> Result<(), SheetError> {
    match value.filter(|value| !bounds.contains(value)) {
        None => Ok(()),
        Some(value) => Err(SheetError::Figure { figure, value: value.to_string(), reason }),
    }
}

/// Refuses a length of requests that no drive takes.
fn check_block(figure: &'static str, block: ByteCount) -> Result<(), SheetError> {
    if (512..=1 << 20).contains(&block.0) && block.0.is_multiple_of(512) {
        return Ok(());
    }
    let reason = "it is a multiple of 512 B, up to 1 MiB";
    Err(SheetError::Figure { figure, value: block.to_string(), reason })
}

fn check_shared(sheet: &Sheet) -> Result<(), SheetError> {
    let SharedCaps { iops, rate, credits, burst_iops } = sheet.shared;
    within("requests a second in all", iops, 10.0..=1e8, "they are from 10 to 100 million")?;
    within("a rate in all", rate, BytesPerSec(1e6).., "it is 1 MB/s at least")?;
    within("credits", credits, 1.0..=1e12, "they are from 1 to 1e12")?;
    let needs = |figure, value: Option<f64>, reason| {
        value.map_or(Ok(()), |value| Err(SheetError::Figure { figure, value: value.to_string(), reason }))
    };
    let lacks_base = credits.or(burst_iops).filter(|_| iops.is_none());
    needs("a burst", lacks_base, "it is beyond a number of requests a second in all, which is not given")?;
    let is_slower = |burst: &f64| iops.is_some_and(|iops| *burst < iops);
    needs("a burst", burst_iops.filter(is_slower), "it is no less than the requests a second in all")?;
    let reason = "it is a cap: the rates can't be said to be none";
    needs("a shared cap", iops.or(rate.map(|rate| rate.0)).filter(|_| sheet.capped == Some(false)), reason)
}

fn check(sheet: &Sheet) -> Result<(), SheetError> {
    check_names(&sheet.id, &sheet.name)?;
    check_shared(sheet)?;
    let capacities = ByteCount(10_000_000_000)..=ByteCount(1_000_000_000_000_000);
    within("a capacity", Some(sheet.capacity), capacities, "it is from 10 GB to 1 PB")?;
    for (figure, rate) in [("a rate of reading", sheet.seq_read), ("a rate of writing", sheet.seq_write)] {
        within(figure, rate, BytesPerSec(1e6).., "it is 1 MB/s at least")?;
    }
    for (figure, iops) in [("reads a second", sheet.read_iops), ("writes a second", sheet.write_iops)] {
        within(figure, iops, 100.0..=1e8, "they are from 100 to 100 million")?;
    }
    let latencies =
        [("a latency of reads", sheet.read_latency), ("a latency of writes", sheet.write_latency)];
    for (figure, latency) in latencies {
        within(figure, latency, NanoSpan(1_000)..=NanoSpan(100_000_000), "it is from 1 us to 100 ms")?;
    }
    check_block("a length of reads", sheet.read_block)?;
    check_block("a length of writes", sheet.write_block)?;
    if let Some(cache) = &sheet.slc {
        check_cache(cache, sheet.capacity)?;
    }
    if let Some(interface) = &sheet.interface {
        check_interface(interface, &[sheet.kind.links()])?;
    }
    let says_nothing = sheet.seq_read.is_none()
        && sheet.seq_write.is_none()
        && sheet.read_iops.is_none()
        && sheet.write_iops.is_none()
        && sheet.read_latency.is_none()
        && sheet.write_latency.is_none();
    if says_nothing { Err(SheetError::Nothing) } else { Ok(()) }
}
