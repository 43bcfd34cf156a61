//! A whole drive, built from its files.
//!
//! The meaning of a `disksim_disk` block's keys, for one command at a time:
//!
//! ```text
//!  read   |- miss overhead -|- seek -|- latency -|- media to the high water mark -|- reselect, prepare -|- bus -|- completion -|
//!  hit    |- hit overhead, prepare -|- bus -|- completion -|
//!  write  |- miss overhead -|- seek -|- latency -|- media -|- reselect -|- completion -|      the data come meanwhile
//!  cached |- hit overhead, prepare -|- bus -|- completion -|- seek -|- latency -|- media -|   the last three unseen
//! ```

use crate::error::{ImportError, ImportErrors};
use crate::fields::{Fields, Unused};
use crate::layout::{layout_g1, layout_g2, layout_g4};
use crate::mechanics::seek_table;
use crate::syntax::{Block, Param, Value, parse_blocks};
use raidlab_hardware::{
    AfterOp, AheadLimits, AheadReach, BufferModel, BusModel, DriveKind, DriveModel, EarlyDisconnect,
    FasterPct, FirmwareModel, FormFactor, HardDriveModel, Kept, LinkModel, MeasuredMechanics, MechanicsModel,
    ModernParts, Overheads, ReadAhead, Reliability, TrackTable,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::sync::Arc;

/// The files of a drive that are read first; they name the others.
#[derive(Clone, Copy, Debug)]
pub struct DriveFiles<'a> {
    /// What the drive is to be called.
    pub name: &'a str,
    /// Name of the specification, for messages.
    pub specs_file: &'a str,
    /// The specification: a `disksim_disk` block.
    pub specs: &'a str,
    /// The model: a `dm_disk` block, with its file's name. If none is given, the specification's own one is taken.
    pub model: Option<(&'a str, &'a str)>,
    /// The system that the drive was validated in, with its file's name: its buses.
    pub system: Option<(&'a str, &'a str)>,
}

/// A drive, and what was odd about its files.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The drive.
    pub model: DriveModel,
    /// What a reader must know, one sentence each.
    pub warnings: Vec<String>,
}

/// Keys of a `disksim_disk` block that have no effect here.
const SPECS_UNUSED: &[Unused] = &[
    ("Scheduler", "one command at a time leaves nothing to choose"),
    ("Hold bus entire read xfer", "the bus has one drive, which loses nothing by letting go of it"),
    ("Hold bus entire write xfer", "as for reads"),
    ("Allow sneaky full read hits", "another command would have to be active"),
    ("Allow sneaky partial read hits", "another command would have to be active"),
    ("Allow sneaky intermediate read hits", "another command would have to be queued"),
    ("Allow write prebuffering", "another command would have to be active"),
    ("Allow almost read hits", "the arm always goes on to a sector that it is reading ahead"),
    ("Preseeking level", "another command would have to be queued"),
    ("Print stats", "output of the original"),
    ("Avg sectors per cylinder", "for schedulers of others; the layout is known"),
    ("Low (write) water mark", "a write's data fit the buffer"),
    ("Calc sector by sector", "no effect on results, says the manual"),
    ("Minimum read-ahead (blks)", "another command would have to be queued"),
    ("Immediate buffer write", "as for reads"),
    ("Combine seq writes", "writes that go on where the last one ended always share a segment"),
    ("Stop prefetch in sector", "shorter than any command's overhead"),
    ("Disconnect write if seek", "the bus has one drive"),
    ("Write hit stop prefetch", "every write stops reading ahead"),
    ("Read directly to buffer", "the memory has room for a sector"),
    ("Immed transfer partial hit", "what is in the buffer goes out at once"),
    ("Write disconnect overhead", "passes while the arm moves"),
    ("Read disconnect afterread", "passes while the arm moves"),
    ("Read disconnect afterwrite", "passes while the arm moves"),
    ("Extradisc 2nd disconnect overhead", "passes while the arm moves"),
];

/// Keys of a `dm_disk` block and its mechanics that have no effect.
const MECHANICS_UNUSED: &[Unused] = &[
    ("Single cylinder seek time", "the seek curve has it"),
    ("Average seek time", "the seek curve has it"),
    ("Full strobe seek time", "the seek curve has it"),
    ("Constant seek time", "only for seeks that are all alike"),
    ("Constant access time", "only without mechanics"),
    ("Full seek curve", "only for the seek type 'extracted'"),
    ("HPL seek equation values", "only for the seek types of that name"),
    ("First ten seek times", "only for the seek type 'hplplus10'"),
    ("Percent error in rpms", "the speed is taken as it stands"),
];

/// A block at 5 MB/s, the rate of SCSI-1, where no file says what the bus takes.
const SCSI_BLOCK: NanoSpan = NanoSpan(102_400);

/// Puts a drive together; `fetch` gives the text of a file that another one names.
///
/// # Errors
/// [`ImportErrors`] has an error for each part of the drive that can't be made: file, line and key.
pub fn import(
    files: &DriveFiles<'_>,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Imported, ImportErrors> {
    let mut warnings = Vec::new();
    let blocks = blocks_of(files.specs_file, files.specs)?;
    let specs_block = find_block(files.specs_file, &blocks, "disksim_disk")?;
    let mut specs = Fields::new(files.specs_file, specs_block);
    let mechanics = model_blocks(files, &mut specs, fetch).and_then(|(file, blocks)| {
        let block = find_block(&file, &blocks, "dm_disk")?;
        mechanics(&file, block, fetch, &mut warnings)
    });
    let settle = specs.span("Minimum seek delay");
    let bus = bus(files.system, &mut specs, &mut warnings);
    let buffer = buffer(&mut specs);
    let overheads = overheads(&mut specs);
    let queue_depth = specs.count_or("Max queue length", 1, 0, 256);
    let (mut mechanics, settle, bus, buffer, overheads, queue_depth) =
        match (mechanics, settle, bus, buffer, overheads, queue_depth) {
            (Ok(mechanics), Ok(settle), Ok(bus), Ok(buffer), Ok(overheads), Ok(depth)) => {
                (mechanics, settle, bus, buffer, overheads, depth)
            }
            (mechanics, settle, bus, buffer, overheads, depth) => {
                let of_specs = [settle.err(), bus.err(), buffer.err(), overheads.err(), depth.err()];
                let errors = of_specs.into_iter().chain([mechanics.err()]).flatten();
                return Err(ImportErrors(errors.collect()));
            }
        };
    mechanics.settle_in_place_write = settle;
    mechanics.settle_in_place_read = settle_in_place(&mechanics);
    let capacity = mechanics.tracks.capacity();
    let firmware = FirmwareModel {
        overheads,
        command_work: NanoSpan(0),
        queue_depth: queue_depth.max(1),
        age_weight: 0.0,
        positioning_margin: NanoSpan(0),
    };
    specs.finish(SPECS_UNUSED, &mut warnings);
    let inside = HardDriveModel {
        mechanics: MechanicsModel::Measured(mechanics),
        buffer,
        firmware,
        bus: Some(bus),
        modern: ModernParts::default(),
    };
    let model = DriveModel {
        id: files.name.into(),
        name: specs_block.name.clone(),
        form_factors: vec![FormFactor::Large],
        capacity,
        interface: bus.read,
        kind: DriveKind::HardDrive(Box::new(inside)),
        power_active_watts: None,
        power_idle_watts: None,
        noise_idle_bels: None,
        bus: None,
        year: None,
        price_usd: None,
        bits_per_read_error: None,
        annual_failure_pct: None,
        recovery_limit: None,
        sheet: Vec::new(),
        reliability: Reliability::default(),
        own: None,
        faster: FasterPct::default(),
        sources: Vec::new(),
    };
    Ok(Imported { model, warnings })
}

fn blocks_of(file: &str, text: &str) -> Result<Vec<Block>, ImportError> {
    parse_blocks(text).map_err(|error| ImportError::Syntax { file: file.into(), error })
}

fn find_block<'a>(file: &str, blocks: &'a [Block], kind: &'static str) -> Result<&'a Block, ImportError> {
    let found = blocks.iter().find(|block| block.kind == kind);
    found.ok_or_else(|| ImportError::NoBlock { file: file.into(), block: kind })
}

/// The blocks among which the model is, and the name of their file.
fn model_blocks(
    files: &DriveFiles<'_>,
    specs: &mut Fields<'_>,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(String, Vec<Block>), ImportError> {
    let named = specs.find("Model");
    if let Some((file, text)) = files.model {
        return Ok((file.into(), blocks_of(file, text)?));
    }
    match named {
        Some(Param { value: Value::Block(block), .. }) => Ok((files.specs_file.into(), vec![block.clone()])),
        Some(Param { value: Value::Source(file) | Value::Word(file), .. }) => {
            let text = fetch(file).ok_or_else(|| ImportError::NoFile {
                file: file.clone(),
                named_by: files.specs_file.into(),
            })?;
            Ok((file.clone(), blocks_of(file, &text)?))
        }
        Some(param) => Err(specs.bad(param, "a dm_disk block or 'source' and its file")),
        None => Err(ImportError::NoBlock { file: files.specs_file.into(), block: "dm_disk" }),
    }
}

fn mechanics(
    file: &str,
    block: &Block,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<MeasuredMechanics, ImportError> {
    let mut disk = Fields::new(file, block);
    let heads = disk.count("Number of data surfaces", 1, 256)?;
    let blocks = disk.count_or("Block count", u32::MAX, 1, u32::MAX)?.into();
    let (of_layout, layout) = part(&mut disk, "Layout Model", fetch)?;
    let extents = match layout.kind.as_str() {
        "dm_layout_g1" => layout_g1(&of_layout, &layout, heads, warnings)?,
        "dm_layout_g2" => layout_g2(&of_layout, &layout, fetch, warnings)?,
        "dm_layout_g4" => layout_g4(&of_layout, &layout, blocks, warnings)?,
        other => {
            let problem = format!("layouts of the type {other} are not known");
            return Err(Fields::new(&of_layout, &layout).unsupported_block(problem));
        }
    };
    let tracks =
        TrackTable::new(extents).map_err(|error| ImportError::Layout { file: file.into(), error })?;
    if blocks != tracks.capacity().0 && blocks != u64::from(u32::MAX) {
        warnings.push(format!(
            "{file} says {blocks} blocks, its layout has {}, which is what counts",
            tracks.capacity().0
        ));
    }
    let last = tracks.extents().iter().map(|extent| extent.cylinder).max().unwrap_or(0);
    let cylinders = disk.count("Number of cylinders", 1, 1_000_000)?.max(last + 1);
    let (of_mech, mech) = part(&mut disk, "Mechanical Model", fetch)?;
    disk.finish(&[], warnings);

    let mut mech = Fields::new(&of_mech, &mech);
    let (access, param) = mech.word("Access time type")?;
    if access != "trackSwitchPlusRotation" {
        return Err(mech.unsupported(
            param,
            format!("the access time type {access} has no mechanics; it must be trackSwitchPlusRotation"),
        ));
    }
    let settle_ms = mech.number_in("Add. write settling delay", 0.0, -1000.0..=1000.0)?;
    let measured = MeasuredMechanics {
        rpm: f64::from(mech.count("Rotation speed (in rpms)", 60, 1_000_000)?),
        tracks: Arc::new(tracks),
        seek: seek_table(&mut mech, cylinders, fetch)?.into(),
        head_switch: mech.span("Head switch time")?,
        settle_in_place_read: NanoSpan(0),
        settle_in_place_write: NanoSpan(0),
        write_settle_ns: (settle_ms * 1e6).round() as i64,
    };
    mech.finish(MECHANICS_UNUSED, warnings);
    Ok(measured)
}

/// The block that `key` is set to, with the file that it is in: its own where it stands there as `source FILE`.
fn part(
    fields: &mut Fields<'_>,
    key: &'static str,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<(String, Block), ImportError> {
    let Some(Param { value: Value::Source(file), .. }) = fields.find(key) else {
        let (block, _) = fields.block(key)?;
        return Ok((fields.file.into(), block.clone()));
    };
    let no_file = || ImportError::NoFile { file: file.clone(), named_by: fields.file.into() };
    let text = fetch(file).ok_or_else(no_file)?;
    let block = blocks_of(file, &text)?.into_iter().next();
    Ok((file.clone(), block.ok_or_else(|| ImportError::NoBlock { file: file.clone(), block: key })?))
}

/// The time that a read takes to settle where the arm need not move.
///
/// The files say it for writes, if at all, and the same is taken for reads. Else it is estimated at half of a
/// one-cylinder seek: the shortest seeks are settling for the most part, and a drive that has been idle follows its track
/// no closer than one that comes from the next. The share is the one figure here that is in no file; it is the same for
/// all drives.
fn settle_in_place(mechanics: &MeasuredMechanics) -> NanoSpan {
    let one_cylinder = mechanics.seek.get(1).copied().unwrap_or_default();
    let said = mechanics.settle_in_place_write;
    if said.0 > 0 { said } else { NanoSpan(one_cylinder.0 / 2) }
}

/// The slowest of the drive's own rate and those of the buses between it and its host.
fn bus(
    system: Option<(&str, &str)>,
    specs: &mut Fields<'_>,
    warnings: &mut Vec<String>,
) -> Result<BusModel, ImportError> {
    let own = specs.span("Bulk sector transfer time")?;
    let (mut read, mut write) = (own, own);
    if let Some((file, text)) = system {
        for block in blocks_of(file, text)?.iter().filter(|block| block.kind == "disksim_bus") {
            let mut fields = Fields::new(file, block);
            read = read.max(fields.span("Read block transfer time")?);
            write = write.max(fields.span("Write block transfer time")?);
        }
    } else if own == NanoSpan(0) {
        (read, write) = (SCSI_BLOCK, SCSI_BLOCK);
        warnings.push(format!(
            "{}: the drive takes no time for a block on the bus, and no .parv file says what the bus takes; 5 MB/s are taken",
            specs.file
        ));
    }
    let pct = (specs.number_in("High (read) water mark", 0.0, 0.0..=1.0)? * 100.0).round() as u32;
    let by_request = specs.flag("Set watermark by reqsize")?;
    let piece = ByteCount(512);
    // A mark that is a share of the segment is beyond most requests: all of it must be there.
    let read_high_water_pct = Some(if by_request || pct == 0 { pct } else { 100 });
    Ok(BusModel { read: link(read), write: link(write), piece, read_high_water_pct })
}

/// A link that takes `per_block` for 512 bytes.
fn link(per_block: NanoSpan) -> LinkModel {
    let rate = BytesPerSec(512.0 * 1e9 / per_block.0.max(1) as f64);
    LinkModel { rate, per_transfer: NanoSpan(0) }
}

fn buffer(specs: &mut Fields<'_>) -> Result<BufferModel, ImportError> {
    let segment_sectors = u64::from(specs.count("Segment size (in blks)", 1, 1 << 24)?);
    let segments = specs.count("Number of buffer segments", 1, 4096)?;
    let separate = specs.flag("Use separate write segment")?;
    let read_segments = if separate { segments.saturating_sub(1).max(1) } else { segments };
    let caches = specs.count_or("Enable caching in buffer", 1, 0, 2)? != 0;
    let reach = specs.count_or("Buffer continuous read", 0, 0, 4)?;
    let keep_request = specs.number_or("Read-ahead over requested", 1.0)? <= 0.0;
    let sectors_max = match specs.count_or("Maximum read-ahead (blks)", 0, 0, 1 << 24)? {
        0 => segment_sectors,
        max => max.into(),
    };
    let after_hit = specs.flag("Read-ahead on idle hit")?;
    let read_ahead = match reach {
        _ if !caches => ReadAhead::Off,
        0 => ReadAhead::Off,
        _ => ReadAhead::Limited(AheadLimits {
            reach: match reach {
                1 => AheadReach::Track,
                2 => AheadReach::Cylinder,
                3 => AheadReach::Segment,
                _ => AheadReach::NextTrack,
            },
            sectors_max,
            keep_request,
            after_hit,
        }),
    };
    // A drive that begins with the first sector of a read has nothing of what is before it, whatever its file says.
    let reads_on_arrival = specs.flag("Immediate buffer read")?;
    Ok(BufferModel {
        size: ByteCount(512 * segment_sectors * u64::from(read_segments)),
        segments: read_segments,
        fixed_segments: true,
        read_ahead,
        write_cache: specs.flag("Fast write level")?,
        write_extents: specs.count_or("Maximum number of write segments", 1, 1, 4096)?,
        keeps: Kept {
            reads: caches,
            writes: specs.flag("Allow read hits on write data")? && caches,
            passed: specs.flag("Read any free blocks")? && reads_on_arrival && caches,
        },
        reads_on_arrival,
    })
}

fn overheads(specs: &mut Fields<'_>) -> Result<Overheads, ImportError> {
    let scale = specs.number_in("Time scale for overheads", 1.0, 0.0..=1000.0)?;
    let scaled = |span: NanoSpan| NanoSpan((span.0 as f64 * scale).round() as u64);
    let request = scaled(specs.span("Per-request overhead time")?);
    let mut span = |key| specs.span(key).map(scaled);
    let mut after = |read, write| {
        Ok::<_, ImportError>(AfterOp { read: request + span(read)?, write: request + span(write)? })
    };
    let read_hit = after("Read hit over. after read", "Read hit over. after write")?;
    let read_miss = after("Read miss over. after read", "Read miss over. after write")?;
    let write_hit = after("Write hit over. after read", "Write hit over. after write")?;
    // After a cached write the drive is busy with writing it out; it can't answer sooner than after a read.
    let write_hit = AfterOp { write: write_hit.write.max(write_hit.read), ..write_hit };
    let write_miss = after("Write miss over. after read", "Write miss over. after write")?;
    let prepare = span("Data preparation overhead")?;
    let (first, other) = (span("First reselect overhead")?, span("Other reselect overhead")?);
    let command = span("Extradisc command overhead")?;
    let until_reconnect = span("Extradisc disconnect overhead")? + span("Extradisc inter-disconnect delay")?;
    let seek_delta = span("Extradisc seek delta")?;
    let completions = (span("Read completion overhead")?, span("Write completion overhead")?);
    let disconnects = !specs.flag("Never disconnect")?;
    let early = specs.flag("Extra write disconnect")? && disconnects;
    let is_cached = specs.flag("Fast write level")?;
    let prepared = |op: AfterOp| AfterOp { read: op.read + prepare, write: op.write + prepare };
    Ok(Overheads {
        read_hit: prepared(read_hit),
        read_miss,
        write_data: prepared(if is_cached { write_hit } else { write_miss }),
        write_miss: if is_cached { write_hit } else { write_miss },
        read_reselect: if disconnects { first + prepare } else { NanoSpan(0) },
        write_reselect: if disconnects { first } else { NanoSpan(0) },
        read_completion: completions.0,
        write_completion: completions.1,
        early_disconnect: early.then_some(EarlyDisconnect {
            data: request + command + until_reconnect + first + prepare,
            seek: request + command + seek_delta,
            reselect: other,
        }),
    })
}
