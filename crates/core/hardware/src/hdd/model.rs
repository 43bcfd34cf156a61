//! What a data sheet says about a hard drive, and the few firmware figures it does not say.

use super::geometry::Geometry;
use super::seek::SeekCurve;
use crate::catalog::{CatalogError, Section};
use crate::drive::SectorCount;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MechanicsModel {
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

/// The drive's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferModel {
    /// All of it.
    pub size: ByteCount,
    /// Segments it is divided into, each following one sequence of reads.
    pub segments: u32,
    /// Whether the drive reads on after a read.
    pub read_ahead: bool,
    /// Whether writes are acknowledged before they are on the media, as delivered.
    pub write_cache: bool,
    /// Extents that the write cache can hold before writes have to wait.
    pub write_extents: u32,
}

/// What the firmware does with commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirmwareModel {
    /// Time from a command's arrival until the arm can set out for it, or longer while the firmware is busy.
    pub command_overhead: NanoSpan,
    /// The part of it for which the firmware is busy with that one command; all that a buffer hit costs.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardDriveModel {
    /// Platters and arm.
    pub mechanics: MechanicsModel,
    /// The drive's memory.
    pub buffer: BufferModel,
    /// What the firmware does.
    pub firmware: FirmwareModel,
}

impl HardDriveModel {
    /// Reads the tables `mechanics`, `buffer` and `firmware`, and refuses what no drive can be.
    pub(crate) fn read(root: &mut Section<'_>, capacity: SectorCount) -> Result<Self, CatalogError> {
        let model = Self {
            mechanics: MechanicsModel::read(root.section("mechanics")?)?,
            buffer: BufferModel::read(root.section("buffer")?)?,
            firmware: FirmwareModel::read(root.section("firmware")?)?,
        };
        let geometry =
            Geometry::new(&model.mechanics, capacity).map_err(|error| root.unsound(error.to_string()))?;
        for (op, anchors) in [("read", model.mechanics.seek_read), ("write", model.mechanics.seek_write)] {
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

impl MechanicsModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let mechanics = Self {
            rpm: section.figure("rpm")?,
            heads: section.figure("heads")?,
            zones: section.figure("zones")?,
            outer_rate: section.figure("outer_rate")?,
            inner_rate: section.figure("inner_rate")?,
            head_switch: section.figure("head_switch")?,
            seek_read: SeekAnchors::read(section.section("seek_read")?)?,
            seek_write: SeekAnchors::read(section.section("seek_write")?)?,
        };
        section.finish()?;
        Ok(mechanics)
    }
}

impl SeekAnchors {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let anchors = Self {
            single_track: section.figure("single_track")?,
            average: section.figure("average")?,
            full_stroke: section.figure("full_stroke")?,
        };
        section.finish()?;
        Ok(anchors)
    }
}

impl BufferModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let buffer = Self {
            size: section.figure("size")?,
            segments: section.figure("segments")?,
            read_ahead: section.flag("read_ahead")?,
            write_cache: section.flag("write_cache")?,
            write_extents: section.figure("write_extents")?,
        };
        if buffer.segments == 0 || buffer.size.0 / u64::from(buffer.segments) < 4096 {
            return Err(
                section.bad_value("segments", "at least 1, and each segment at least 4 KiB of the size")
            );
        }
        if buffer.write_extents == 0 {
            return Err(section.bad_value("write_extents", "at least 1"));
        }
        section.finish()?;
        Ok(buffer)
    }
}

impl FirmwareModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let firmware = Self {
            command_overhead: section.figure("command_overhead")?,
            command_work: section.figure("command_work")?,
            queue_depth: section.figure("queue_depth")?,
            age_weight: section.figure("age_weight")?,
            positioning_margin: section.figure("positioning_margin")?,
        };
        if !(1..=256).contains(&firmware.queue_depth) {
            return Err(section.bad_value("queue_depth", "from 1 to 256"));
        }
        if firmware.command_work > firmware.command_overhead {
            return Err(section.bad_value("command_work", "no more than command_overhead"));
        }
        if firmware.age_weight > 1.0 {
            return Err(section.bad_value("age_weight", "from 0 to 1"));
        }
        section.finish()?;
        Ok(firmware)
    }
}
