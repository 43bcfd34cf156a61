//! The figures of a hard drive: from its data sheet, or measured on the drive itself.
//!
//! Both describe one machine. A data sheet gives rates and seek times, from which a layout and a curve are computed; a
//! measured drive has its tracks, its seek times by distance and its overheads. Figures that a data sheet lacks have
//! the value that costs nothing.

use super::actuators::ActuatorsModel;
use super::geometry::Geometry;
use super::pool::PoolModel;
use super::seek::SeekCurve;
use super::shingles::{MediaCacheModel, ShingleModel};
use super::tracks::TrackTable;
use crate::catalog::{CatalogError, Section, from_keys};
use crate::drive::{SECTOR_BYTES, SectorCount};
use crate::link::LinkModel;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::sync::Arc;

/// Seek times that a data sheet gives, for reads or for writes, settling included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekAnchors {
    /// To the next cylinder.
    pub single_track: NanoSpan,
    /// Mean over all pairs of cylinders.
    pub average: NanoSpan,
    /// From the outermost to the innermost cylinder.
    pub full_stroke: NanoSpan,
}

/// Platters and arm.
#[derive(Clone, Debug, PartialEq)]
pub enum MechanicsModel {
    /// As far as a data sheet goes.
    DataSheet(DataSheet),
    /// As measured on a drive.
    Measured(MeasuredMechanics),
}

/// Platters and arm of a drive that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredMechanics {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Where every sector is.
    pub tracks: Arc<TrackTable>,
    /// Time to seek for a read, by distance in cylinders; the first, for no distance, is zero. Longer seeks take the
    /// last one.
    pub seek: Arc<[NanoSpan]>,
    /// Time to change to another head. It passes during a seek.
    pub head_switch: NanoSpan,
    /// Time that the arm takes before a read, at least, even where it need not move.
    pub settle_in_place_read: NanoSpan,
    /// The same before a write.
    pub settle_in_place_write: NanoSpan,
    /// Nanoseconds that a write takes longer to settle after a seek or a head switch, or shorter.
    pub write_settle_ns: i64,
}

/// Platters and arm in a data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSheet {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces.
    pub heads: u32,
    /// Zones of equally long tracks.
    pub zones: u32,
    /// Sustained rate on the outermost zone, track changes included.
    pub outer_rate: BytesPerSec,
    /// The same on the innermost zone.
    pub inner_rate: BytesPerSec,
    /// Time to change to another head of the same cylinder, settling for a write included.
    pub head_switch: NanoSpan,
    /// Seek times of reads.
    pub seek_read: SeekAnchors,
    /// Seek times of writes, which settle longer.
    pub seek_write: SeekAnchors,
}

/// How far a drive reads on after a read, if nothing else is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    Off,
    /// A segment's worth; behind hits up to half of the memory further than the host.
    Stream,
    /// By these limits.
    Limited(AheadLimits),
}

/// What limits reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AheadLimits {
    /// Where it stops.
    pub reach: AheadReach,
    /// Sectors at most.
    pub sectors_max: u64,
    /// Whether it stops when the segment holds nothing but the request and what follows it.
    pub keep_request: bool,
    /// Whether a read that is all in the buffer starts it again.
    pub after_hit: bool,
}

/// Up to where a drive reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadReach {
    /// To the end of the track on which the request ends.
    Track,
    /// To the end of its cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track on which the next sector is, though a shorter segment then keeps only what was read last;
    /// and on to the end of the track after it, as far as there is room, if the segment came from an earlier track.
    NextTrack,
}

/// What can be read from a drive's memory, beyond what is not on the media yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What was read, and read ahead.
    pub reads: bool,
    /// What was written last.
    pub writes: bool,
    /// What passed under the head on the first track of a read while it waited for that read's first sector.
    pub passed: bool,
}

/// The drive's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferModel {
    /// All of it.
    pub size: ByteCount,
    /// Segments it is divided into, each following one sequence of reads.
    pub segments: u32,
    /// Whether a segment keeps its length when the host follows what was read ahead into it.
    pub fixed_segments: bool,
    /// Whether and how far the drive reads on after a read.
    pub read_ahead: ReadAhead,
    /// Whether writes are acknowledged before they are on the media, as delivered.
    pub write_cache: bool,
    /// Extents that the write cache can hold before writes have to wait.
    pub write_extents: u32,
    /// What can be read from it.
    pub keeps: Kept,
    /// Whether a read takes its sectors from where the head lands on their track, not from the first.
    pub reads_on_arrival: bool,
}

/// A time that depends on what the command before was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfterOp {
    /// After a read.
    pub read: NanoSpan,
    /// After a write.
    pub write: NanoSpan,
}

impl AfterOp {
    /// The same after both.
    pub const fn either(span: NanoSpan) -> Self {
        Self { read: span, write: span }
    }
}

/// What commands cost beyond the movements of the arm and the transfer of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// From the arrival of a read that is in the buffer to its data.
    pub read_hit: AfterOp,
    /// From the arrival of any other read until the arm can set out.
    pub read_miss: AfterOp,
    /// From the arrival of a write until its data can come.
    pub write_data: AfterOp,
    /// From the arrival of a write that the write cache does not take until the arm can set out.
    pub write_miss: AfterOp,
    /// From a read's data being in the buffer until they can go out.
    pub read_reselect: NanoSpan,
    /// From a write's data being on the media until its completion can go out.
    pub write_reselect: NanoSpan,
    /// From a read's last data to its completion.
    pub read_completion: NanoSpan,
    /// The same for a write, or from its last data where the write cache takes it.
    pub write_completion: NanoSpan,
    /// What a drive does that lets go of the bus between a write's command and its data.
    pub early_disconnect: Option<EarlyDisconnect>,
}

/// The times of a write whose command and data are apart on the bus: one that follows another write, but not where that
/// ended. They stand in for [`Overheads::write_data`], [`Overheads::write_miss`] and [`Overheads::write_reselect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyDisconnect {
    /// Until its data can come.
    pub data: NanoSpan,
    /// Until the arm can set out.
    pub seek: NanoSpan,
    /// From its data being on the media until its completion can go out.
    pub reselect: NanoSpan,
}

/// How data gets from the buffer to the host and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusModel {
    /// Reads.
    pub read: LinkModel,
    /// Writes.
    pub write: LinkModel,
    /// A read ends one such piece after the media at the soonest; the media can start on a write when one is there.
    pub piece: ByteCount,
    /// The share of a read that must be in the buffer before its data start to go out, in percent, and one sector at
    /// least; if nothing is said, data goes out while it comes in.
    pub read_high_water_pct: Option<u32>,
}

impl BusModel {
    /// Data moves over `link` in frames; SAS frames hold 1 KiB, and four of them hide the turn-around.
    pub(crate) fn of_link(link: LinkModel) -> Self {
        Self { read: link, write: link, piece: ByteCount(4096), read_high_water_pct: None }
    }
}

/// What the firmware does with commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirmwareModel {
    /// What each command costs.
    pub overheads: Overheads,
    /// The part of it for which the firmware is busy with that one command.
    pub command_work: NanoSpan,
    /// Commands the drive accepts at once; the rest wait at the sender.
    pub queue_depth: u32,
    /// How much a command's positioning time is discounted for each unit of time that it has waited: 0 is shortest
    /// positioning time first, 1 nearly first come, first served.
    pub age_weight: f64,
    /// Time by which the predicted arrival of the arm must precede a sector, so that a slightly late arrival does not
    /// cost a revolution.
    pub positioning_margin: NanoSpan,
}

/// A hard drive.
#[derive(Clone, Debug, PartialEq)]
pub struct HardDriveModel {
    /// Platters and arm.
    pub mechanics: MechanicsModel,
    /// The drive's memory.
    pub buffer: BufferModel,
    /// What the firmware does.
    pub firmware: FirmwareModel,
    /// How data gets in and out, if not as over the drive's interface in general.
    pub bus: Option<BusModel>,
    /// What drives of 2011 did not have.
    pub modern: ModernParts,
}

/// What came later than the drives of the papers; the default is a drive without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModernParts {
    /// Sectors of 512 bytes that the media holds as one: 8 on a drive that emulates small sectors (512e). A write of a part
    /// has to read the rest first.
    pub physical_sectors: u64,
    /// The write cache, if it is written out in order of sectors.
    pub pool: Option<PoolModel>,
    /// Two arms, each with half of the sectors; the other figures are those of one.
    pub actuators: Option<ActuatorsModel>,
    /// Tracks that overlap.
    pub shingles: Option<ShingleModel>,
}

impl Default for ModernParts {
    fn default() -> Self {
        Self { physical_sectors: 1, pool: None, actuators: None, shingles: None }
    }
}

impl ModernParts {
    /// The media cache of a drive that manages its shingled bands itself.
    pub fn media_cache(&self) -> Option<&MediaCacheModel> {
        match &self.shingles {
            Some(ShingleModel::Drive(cache)) => Some(cache),
            Some(ShingleModel::Host { .. }) | None => None,
        }
    }

    /// What is on the platters that one arm reaches, on a drive of `capacity`.
    pub(crate) fn media_sectors(&self, capacity: SectorCount) -> SectorCount {
        let log = self.media_cache().map_or(0, MediaCacheModel::log_sectors);
        SectorCount(capacity.0 / if self.actuators.is_some() { 2 } else { 1 } + log)
    }

    fn read(root: &mut Section<'_>, capacity: SectorCount, memory: ByteCount) -> Result<Self, CatalogError> {
        let physical = root.optional_figure("physical_sector")?.unwrap_or(ByteCount(SECTOR_BYTES));
        if !physical.0.is_multiple_of(SECTOR_BYTES) || !(1..=128).contains(&(physical.0 / SECTOR_BYTES)) {
            return Err(root.bad_value("physical_sector", "a multiple of 512 B, up to 64 KiB"));
        }
        let pool = root.optional_section("write_cache")?;
        let actuators = root.optional_section("actuators")?;
        let shingles = root.optional_section("shingles")?;
        let parts = Self {
            physical_sectors: physical.0 / SECTOR_BYTES,
            pool: pool.map(|section| PoolModel::read(section, memory)).transpose()?,
            actuators: actuators.map(ActuatorsModel::read).transpose()?,
            shingles: shingles.map(|section| ShingleModel::read(section, capacity)).transpose()?,
        };
        if parts.shingles.is_some() && parts.actuators.is_some() {
            return Err(root.unsound("shingles of two actuators are not modelled".into()));
        }
        let holds_bands = |cache: &MediaCacheModel| {
            parts.pool.is_some_and(|pool| pool.size.0 >= 2 * cache.band.0.max(cache.append.0))
        };
        if !parts.media_cache().is_none_or(holds_bands) {
            return Err(root.unsound(
                "a drive that manages its shingles needs a write_cache of at least two bands and two times shingles.append".into(),
            ));
        }
        Ok(parts)
    }
}

impl MechanicsModel {
    /// The data sheet, of a drive that is known from one.
    pub fn data_sheet(&self) -> Option<&DataSheet> {
        match self {
            Self::DataSheet(sheet) => Some(sheet),
            Self::Measured(_) => None,
        }
    }
}

impl HardDriveModel {
    /// Reads the tables `mechanics`, `buffer` and `firmware`, and refuses what no drive can be.
    pub(crate) fn read(root: &mut Section<'_>, capacity: SectorCount) -> Result<Self, CatalogError> {
        let sheet = DataSheet::read(root.section("mechanics")?)?;
        let buffer = BufferModel::read(root.section("buffer")?)?;
        let model = Self {
            mechanics: MechanicsModel::DataSheet(sheet),
            buffer,
            firmware: FirmwareModel::read(root.section("firmware")?)?,
            bus: None,
            modern: ModernParts::read(root, capacity, buffer.size)?,
        };
        let geometry = Geometry::new(&model.mechanics, model.modern.media_sectors(capacity))
            .map_err(|error| root.unsound(error.to_string()))?;
        for (op, anchors) in [("read", sheet.seek_read), ("write", sheet.seek_write)] {
            SeekCurve::fit(&anchors, geometry.cylinders())
                .map_err(|error| root.unsound(format!("mechanics.seek_{op}: {error}")))?;
        }
        if model.firmware.positioning_margin > geometry.skew_margin() {
            let most = geometry.skew_margin();
            return Err(root.unsound(format!(
                "firmware.positioning_margin must be at most {most}, by which a track starts later than its head is ready"
            )));
        }
        Ok(model)
    }
}

impl DataSheet {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let mechanics = from_keys!(section, Self {
            rpm, heads, zones, outer_rate, inner_rate, head_switch,
            seek_read = SeekAnchors::read(section.section("seek_read")?)?,
            seek_write = SeekAnchors::read(section.section("seek_write")?)?,
        });
        section.finish(mechanics)
    }
}

impl SeekAnchors {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let anchors = from_keys!(section, Self { single_track, average, full_stroke });
        section.finish(anchors)
    }
}

impl BufferModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let buffer = from_keys!(section, Self {
            size, segments, fixed_segments: optional_flag,
            read_ahead = if section.flag("read_ahead")? { ReadAhead::Stream } else { ReadAhead::Off },
            write_cache: flag, write_extents,
            keeps = Kept { reads: true, writes: false, passed: false },
            reads_on_arrival = false,
        });
        if buffer.segments == 0 || buffer.size.0 / u64::from(buffer.segments) < 4096 {
            return Err(
                section.bad_value("segments", "at least 1, and each segment at least 4 KiB of the size")
            );
        }
        section.refuse_if(buffer.write_extents == 0, "write_extents", "at least 1")?;
        section.finish(buffer)
    }
}

impl FirmwareModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let overhead = section.figure("command_overhead")?;
        let work = section.figure("command_work")?;
        let firmware = Self {
            overheads: Overheads {
                read_hit: AfterOp::either(work),
                read_miss: AfterOp::either(overhead),
                write_data: AfterOp::either(work),
                write_miss: AfterOp::either(overhead),
                ..Overheads::default()
            },
            command_work: work,
            queue_depth: section.figure("queue_depth")?,
            age_weight: section.figure("age_weight")?,
            positioning_margin: section.figure("positioning_margin")?,
        };
        section.refuse_if(!(1..=256).contains(&firmware.queue_depth), "queue_depth", "from 1 to 256")?;
        section.refuse_if(work > overhead, "command_work", "no more than command_overhead")?;
        section.refuse_if(firmware.age_weight > 1.0, "age_weight", "from 0 to 1")?;
        section.finish(firmware)
    }
}
