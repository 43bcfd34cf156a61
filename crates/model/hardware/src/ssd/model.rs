//! What the catalogue says of a solid-state drive with a write buffer and a translation layer.
//!
//! ```text
//! [host]         queue, firmware cores and their time per command, what passes beside them
//! [caps]         limits on rates that are no part of the hardware: a cloud's hypervisor, a power mode
//! [buffer]       size, and whether it survives a loss of power
//! [translation]  mapping unit, spare room, choice of victims
//! [flash]        channels, dies, planes, pages, blocks and their times; how many dies may program at once
//! [slc_cache]    flash that is programmed with one bit in a cell first (`slc`); optional
//! [upkeep]       wear levelling and refresh; optional
//! [wear]         how worn it is, and what that does to reads (`wear`); optional
//! [heat]         limits that set in when it has worked for a time (`heat`); optional
//! [idle]         what is done while the host is quiet; optional
//! [zones]        it is written in zones, each in sequence (ZNS): not followed, and no member of an array; optional
//! ```

use super::condition::DriveCondition;
use super::heat::HeatModel;
use super::slc::{SlcModel, SlcShape};
use super::translation::{Geometry, Shape};
use super::victim::Collection;
use super::wear::WearModel;
use crate::catalog::{CatalogError, Section, from_keys};
use crate::drive::{SECTOR_BYTES, SectorCount};
use crate::link::LinkModel;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Superblocks that the spare room has to be worth, for collecting to get anywhere.
const SPARE_SUPERBLOCKS: f64 = 1.5;

/// What is inside a drive with a translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashModel {
    /// Between the host and the buffer.
    pub front: FrontModel,
    /// Limits that the hardware does not set.
    pub caps: CapModel,
    /// The write buffer.
    pub buffer: BufferModel,
    /// The translation layer.
    pub translation: TranslationModel,
    /// The flash.
    pub cells: CellModel,
    /// Flash that is programmed with one bit in a cell first, if there is any.
    pub slc: Option<SlcModel>,
    /// What is moved whatever the host does.
    pub upkeep: UpkeepModel,
    /// What is done while the host is quiet; nothing where there is none.
    pub idle: Option<IdleModel>,
    /// How worn it is; as new where there is none.
    pub wear: Option<WearModel>,
    /// Limits that set in after a time, if there are any.
    pub heat: Option<HeatModel>,
    /// Length of a zone, which the host writes in sequence; write pointers are not followed.
    pub zone: Option<ByteCount>,
    /// What was done to it before.
    pub condition: DriveCondition,
}

/// Queue, firmware, and the way to the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrontModel {
    /// Commands the drive accepts at once, over all its queues; the rest wait at the sender.
    pub queue_depth: u32,
    /// Transfers at once in one direction, each at its part of the interface's rate.
    pub ports: u32,
    /// Processors that work on commands.
    pub cores: u32,
    /// Time of one of them per read.
    pub read_command: NanoSpan,
    /// The same per write or flush.
    pub write_command: NanoSpan,
    /// The same per further mapping unit of a command.
    pub per_unit: NanoSpan,
    /// Time that a read spends in hardware that many can be in at once.
    pub read_latency: NanoSpan,
    /// The same of a write.
    pub write_latency: NanoSpan,
    /// Whether the link carries both directions at once, as `PCIe` and SAS do and SATA does not.
    pub duplex: bool,
}

/// Limits on rates; none where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CapModel {
    /// Reads per second.
    pub read_iops: Option<f64>,
    /// Writes per second.
    pub write_iops: Option<f64>,
    /// Bytes read per second.
    pub read_rate: Option<BytesPerSec>,
    /// Bytes written per second.
    pub write_rate: Option<BytesPerSec>,
    /// Reads and writes per second, of both together.
    pub iops: Option<f64>,
    /// Bytes read and written per second, of both together.
    pub rate: Option<BytesPerSec>,
    /// What may pass at once after a pause, as the time in which the cap lets as much pass.
    pub burst: NanoSpan,
    /// Reads and writes beyond `iops` that may be made after a long pause. They come back at that rate.
    pub credits: Option<f64>,
    /// Reads and writes per second while credits last.
    pub burst_iops: Option<f64>,
}

/// The write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferModel {
    /// What of it can be filled before the host waits.
    pub size: ByteCount,
    /// Whether its contents survive a loss of power.
    pub protected: bool,
}

/// The translation layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TranslationModel {
    /// What one entry of the map is for; smaller writes read the rest of it.
    pub unit: ByteCount,
    /// Room for data beyond the capacity, in percent of the capacity.
    pub spare_pct: f64,
    /// How victims are chosen.
    pub collection: Collection,
    /// Whether what is collected is kept apart from what the host writes.
    pub separates_moved: bool,
    /// What of the map is in memory, 4 bytes for a unit; all of it where nothing is said.
    pub map_cache: Option<ByteCount>,
}

/// What is moved whatever the host does, as rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UpkeepModel {
    /// What wear levelling moves, in percent of what the host writes.
    pub levelling_pct: f64,
    /// Time in which all data are written anew, so that they do not fade; never where there is none.
    pub refresh: Option<NanoSpan>,
}

/// What is done while the host is quiet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleModel {
    /// How long no command may have been at the drive.
    pub after: NanoSpan,
    /// Whether the pseudo-SLC cache is folded then, all of it.
    pub folds: bool,
    /// Superblocks that garbage collection frees ahead then, in percent of all.
    pub collect_pct: f64,
}

/// The flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellModel {
    /// Buses between controller and flash.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Planes of a die, which work together.
    pub planes: u32,
    /// Unit of reading.
    pub page: ByteCount,
    /// Bits in a cell: so many pages are programmed at once.
    pub bits_per_cell: u32,
    /// Unit of erasing, on one plane.
    pub block: ByteCount,
    /// Time to sense the fastest kind of page.
    pub read_fast: NanoSpan,
    /// Time to sense the slowest; what is between is spread evenly.
    pub read_slow: NanoSpan,
    /// Share of page reads in percent that have to be tried again.
    pub retry_pct: f64,
    /// Time to program all pages of a row of cells, on all planes.
    pub program: NanoSpan,
    /// Time to erase a block on all planes.
    pub erase: NanoSpan,
    /// Time to suspend a program or an erase for a read; the same again to go on.
    pub suspend: NanoSpan,
    /// Reads that one program or erase lets pass; the next ones wait for it.
    pub suspensions_max: u32,
    /// Time to correct what was read.
    pub decode: NanoSpan,
    /// Dies that may program or erase at once, as far as power goes.
    pub programs_at_once: u32,
    /// Programs for each one that holds parity only; 0 for none.
    pub parity_every: u32,
    /// Between one channel's dies and the controller.
    pub channel: LinkModel,
}

impl FlashModel {
    /// Reads the tables of a drive of `capacity`.
    pub(crate) fn read(root: &mut Section<'_>, capacity: SectorCount) -> Result<Self, CatalogError> {
        let model = Self {
            front: FrontModel::read(root.section("host")?)?,
            caps: root.optional_section("caps")?.map(CapModel::read).transpose()?.unwrap_or_default(),
            buffer: BufferModel::read(root.section("buffer")?)?,
            translation: TranslationModel::read(root.section("translation")?)?,
            cells: CellModel::read(root.section("flash")?)?,
            slc: root.optional_section("slc_cache")?.map(SlcModel::read).transpose()?,
            upkeep: root.optional_section("upkeep")?.map(UpkeepModel::read).transpose()?.unwrap_or_default(),
            idle: root.optional_section("idle")?.map(IdleModel::read).transpose()?,
            wear: root.optional_section("wear")?.map(WearModel::read).transpose()?,
            heat: root.optional_section("heat")?.map(HeatModel::read).transpose()?,
            zone: root.optional_section("zones")?.map(read_zone).transpose()?,
            condition: DriveCondition::default(),
        };
        match model.problem(capacity) {
            Some(problem) => Err(root.unsound(problem)),
            None => Ok(model),
        }
    }

    /// What figures contradict each other.
    fn problem(&self, capacity: SectorCount) -> Option<String> {
        let unit = self.translation.unit;
        if unit > self.cells.program_bytes() {
            return Some(format!(
                "a unit of {unit} is more than one program of {}",
                self.cells.program_bytes()
            ));
        }
        if self.buffer.size < self.cells.program_bytes() {
            return Some(format!(
                "a buffer of {} does not hold one program of {}",
                self.buffer.size,
                self.cells.program_bytes()
            ));
        }
        if self.cells.programs_at_once > self.cells.dies() {
            let (programs, dies) = (self.cells.programs_at_once, self.cells.dies());
            return Some(format!("{programs} dies can't program at once where there are {dies}"));
        }
        if let Some(zone) = self.zone.filter(|zone| !zone.0.is_multiple_of(self.cells.block.0)) {
            return Some(format!("a zone of {zone} is no whole number of blocks of {}", self.cells.block));
        }
        if let Some(slc) = &self.slc
            && slc.size() > capacity.bytes()
        {
            return Some(format!(
                "a pseudo-SLC cache of {} is more than the capacity of {}",
                slc.size(),
                capacity.bytes()
            ));
        }
        let superblocks = self.shape(capacity).superblocks;
        let spare =
            f64::from(superblocks) * self.translation.spare_pct / (100.0 + self.translation.spare_pct);
        if spare < SPARE_SUPERBLOCKS {
            return Some(format!(
                "the spare room of {} % is less than {SPARE_SUPERBLOCKS} of {superblocks} superblocks",
                self.translation.spare_pct
            ));
        }
        None
    }

    /// The flash as worn as it is.
    pub(super) fn worn_cells(&self) -> CellModel {
        let new_pct = self.cells.retry_pct;
        let retry_pct = self.wear.map_or(new_pct, |wear| wear.retry_pct(new_pct));
        CellModel { retry_pct, ..self.cells }
    }

    /// Geometry of the translation layer over `capacity`.
    pub(crate) fn shape(&self, capacity: SectorCount) -> Shape {
        let unit = self.translation.unit.0;
        let superblock = u64::from(self.cells.dies()) * u64::from(self.cells.planes) * self.cells.block.0;
        let geometry = Geometry {
            units: capacity.bytes().0.div_ceil(unit),
            spare: self.translation.spare_pct / 100.0,
            superblock_units: (superblock / unit).max(1),
            collection: self.translation.collection,
            separates_moved: self.translation.separates_moved,
        };
        geometry.shape()
    }

    /// The pseudo-SLC cache over `capacity`, with so many groups of so many units in the translation layer.
    pub(super) fn slc_shape(&self, capacity: SectorCount, groups: u32, group_units: u64) -> Option<SlcShape> {
        let unit = self.translation.unit.0;
        self.slc.map(|slc| SlcShape {
            static_units: slc.static_size.0 / unit,
            dynamic_units: slc.dynamic_size.0 / unit,
            until_units: (capacity.bytes().0 as f64 / unit as f64 * slc.dynamic_until_pct / 100.0) as u64,
            bits: u64::from(self.cells.bits_per_cell),
            groups,
            group_units,
        })
    }
}

impl CellModel {
    /// All dies.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// What one program writes: a row of cells on all planes.
    pub fn program_bytes(&self) -> ByteCount {
        ByteCount(u64::from(self.planes) * self.page.0 * u64::from(self.bits_per_cell))
    }

    /// Time in which a row goes over a channel to a die, page by page.
    pub fn load_time(&self) -> NanoSpan {
        self.channel.transfer_time(self.page) * u64::from(self.planes * self.bits_per_cell)
    }

    /// Programs that fill the blocks of one die's planes.
    pub fn programs_per_block(&self) -> u32 {
        let programs = self.block.0 / (self.page.0 * u64::from(self.bits_per_cell));
        u32::try_from(programs.max(1)).unwrap_or(u32::MAX)
    }

    /// Rate at which data go to flash when as many dies program as may, parity taken off.
    pub fn program_rate(&self) -> BytesPerSec {
        let bytes = self.program_bytes();
        let erase = self.erase.as_secs_f64() / f64::from(self.programs_per_block());
        let each = self.load_time().as_secs_f64() + self.program.as_secs_f64() + erase;
        let of_data = match self.parity_every {
            0 => 1.0,
            every => f64::from(every) / f64::from(every + 1),
        };
        BytesPerSec(f64::from(self.programs_at_once) * bytes.0 as f64 * of_data / each)
    }

    fn read(mut flash: Section<'_>) -> Result<Self, CatalogError> {
        let cells = from_keys!(flash, Self {
            channels, dies_per_channel, planes, page, bits_per_cell, block, read_fast, read_slow,
            retry_pct, program, erase, suspend, suspensions_max, decode, programs_at_once, parity_every,
            channel = LinkModel::read(flash.section("channel")?)?,
        });
        let counts = [
            ("channels", cells.channels),
            ("dies_per_channel", cells.dies_per_channel),
            ("planes", cells.planes),
            ("programs_at_once", cells.programs_at_once),
        ];
        for (key, count) in counts {
            flash.refuse_if(!(1..=1024).contains(&count), key, "from 1 to 1024")?;
        }
        flash.refuse_if(!(1..=5).contains(&cells.bits_per_cell), "bits_per_cell", "from 1 to 5")?;
        if !is_power_in(cells.page, SECTOR_BYTES, 1 << 20) {
            return Err(flash.bad_value("page", "a power of two from 512 B to 1 MiB"));
        }
        if !(cells.page.0 * u64::from(cells.bits_per_cell)..=1 << 32).contains(&cells.block.0) {
            return Err(flash.bad_value("block", "a page for each bit at least, and no more than 4 GiB"));
        }
        flash.refuse_if(cells.read_slow < cells.read_fast, "read_slow", "at least read_fast")?;
        flash.refuse_if(cells.retry_pct > 100.0, "retry_pct", "from 0 to 100")?;
        flash.refuse_if(cells.program == NanoSpan::ZERO, "program", "above zero")?;
        flash.finish(cells)
    }
}

impl FrontModel {
    fn read(mut host: Section<'_>) -> Result<Self, CatalogError> {
        let front = from_keys!(
            host,
            Self {
                queue_depth,
                ports,
                cores,
                read_command,
                write_command,
                per_unit,
                read_latency,
                write_latency,
                duplex: flag,
            }
        );
        let counts = [("queue_depth", front.queue_depth), ("ports", front.ports), ("cores", front.cores)];
        for (key, count) in counts {
            host.refuse_if(!(1..=1 << 20).contains(&count), key, "from 1 to 1048576")?;
        }
        host.finish(front)
    }
}

impl CapModel {
    pub(super) fn read(mut caps: Section<'_>) -> Result<Self, CatalogError> {
        let model = from_keys!(caps, Self {
            read_iops: optional_figure, write_iops: optional_figure, read_rate: optional_figure,
            write_rate: optional_figure, iops: optional_figure, rate: optional_figure,
            credits: optional_figure, burst_iops: optional_figure,
            burst = caps.optional_figure("burst")?.unwrap_or(NanoSpan::ZERO),
        });
        let counts = [
            ("read_iops", model.read_iops),
            ("write_iops", model.write_iops),
            ("iops", model.iops),
            ("credits", model.credits),
        ];
        for (key, cap) in counts {
            caps.refuse_if(cap.is_some_and(|cap| cap < 1.0), key, "at least 1")?;
        }
        let is_below = |burst: f64| model.iops.is_none_or(|iops| burst < iops);
        caps.refuse_if(
            model.burst_iops.is_some_and(is_below),
            "burst_iops",
            "no less than iops, which it needs",
        )?;
        caps.refuse_if(model.credits.is_some() && model.iops.is_none(), "credits", "left out without iops")?;
        caps.finish(model)
    }
}

impl BufferModel {
    fn read(mut buffer: Section<'_>) -> Result<Self, CatalogError> {
        let model = from_keys!(buffer, Self { size, protected: flag });
        if !(1..=1 << 34).contains(&model.size.0) {
            return Err(buffer.bad_value("size", "above zero, and no more than 16 GiB"));
        }
        buffer.finish(model)
    }
}

impl UpkeepModel {
    fn read(mut upkeep: Section<'_>) -> Result<Self, CatalogError> {
        let model = Self {
            levelling_pct: upkeep.optional_figure("levelling_pct")?.unwrap_or(0.0),
            refresh: upkeep.optional_figure("refresh")?,
        };
        upkeep.refuse_if(!(0.0..=100.0).contains(&model.levelling_pct), "levelling_pct", "from 0 to 100")?;
        if model.refresh.is_some_and(|refresh| refresh < NanoSpan::from_secs(3600)) {
            return Err(upkeep.bad_value("refresh", "an hour at least"));
        }
        upkeep.finish(model)
    }
}

impl IdleModel {
    fn read(mut idle: Section<'_>) -> Result<Self, CatalogError> {
        let model = from_keys!(idle, Self {
            after, folds: optional_flag,
            collect_pct = idle.optional_figure("collect_pct")?.unwrap_or(0.0),
        });
        idle.refuse_if(!(0.0..=50.0).contains(&model.collect_pct), "collect_pct", "from 0 to 50")?;
        idle.finish(model)
    }
}

impl TranslationModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let policy = section.text("collection")?;
        let collection = match (policy.as_str(), policy.strip_prefix("choices:").map(str::parse)) {
            ("greedy", _) => Collection::Greedy,
            ("cost-benefit", _) => Collection::CostBenefit,
            (_, Some(Ok(count @ 1..=1000))) => Collection::Choices(count),
            _ => {
                let expected = "greedy, cost-benefit or choices:N with N from 1 to 1000";
                return Err(section.bad_value("collection", expected));
            }
        };
        let model = from_keys!(section, Self {
            unit, spare_pct, collection = collection, separates_moved: flag, map_cache: optional_figure,
        });
        if model.map_cache.is_some_and(|size| !(4096..=1 << 34).contains(&size.0)) {
            return Err(section.bad_value("map_cache", "from 4 KiB to 16 GiB"));
        }
        // A unit's sectors are the bits of a mask of 128.
        if !is_power_in(model.unit, SECTOR_BYTES, 128 * SECTOR_BYTES) {
            return Err(section.bad_value("unit", "a power of two from 512 B to 64 KiB"));
        }
        section.refuse_if(model.spare_pct > 1000.0, "spare_pct", "from 0 to 1000")?;
        section.finish(model)
    }
}

fn read_zone(mut zones: Section<'_>) -> Result<ByteCount, CatalogError> {
    let size: ByteCount = zones.figure("size")?;
    zones.refuse_if(size.0 == 0, "size", "above zero")?;
    zones.finish(size)
}

fn is_power_in(size: ByteCount, least: u64, most: u64) -> bool {
    size.0.is_power_of_two() && (least..=most).contains(&size.0)
}
