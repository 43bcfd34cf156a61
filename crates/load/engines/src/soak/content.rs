//! What a soak begins with: a record to continue, a new file, or existing data.

use super::SoakOptions;
use super::error::SoakError;
use super::record::{RecordPlace, SoakContent, SoakPhase, SoakRecord};
use crate::lay_out::{LayOut, LayOutContent, LayOutProgress, lay_out_file};
use crate::memory::IoMemory;
use crate::target::{Target, TargetOptions};
use crate::verify::new_run;
use raidlab_units::ByteCount;
use raidlab_verify::{STAMPED_SECTOR_BYTES, SectorState, Stamp, read_sector};
use raidlab_workload::IoOp;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The write that a new file, or a first pass of writing, is.
const FIRST_SEQUENCE: u64 = 1;
/// Longest read.
const CHUNK_MAX: ByteCount = ByteCount(1 << 30);

/// Opens a target and finds what is known of it; lays a file out where there is none.
pub(super) fn open(
    path: &Path,
    place: &RecordPlace,
    options: &SoakOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<(Target, SoakRecord), SoakError> {
    let known = place.load()?;
    if !path.exists() {
        let Some(bytes) = options.size else { return Err(SoakError::NoFile { path: path.into() }) };
        let run = new_run();
        let order = LayOut {
            bytes,
            content: LayOutContent::Stamped { sequence: FIRST_SEQUENCE },
            seed: run,
            destroy_data: None,
        };
        lay_out_file(path, &order, cancel, progress)?;
        let target = target(path, options, options.rewrite)?;
        let content = SoakContent::Stamped { run, sequence: FIRST_SEQUENCE };
        let mut record = fresh(&target, options, content, SoakPhase::Reading { next_byte: 0 });
        record.bytes_written = bytes.get();
        return Ok((target, record));
    }
    let was_writing = matches!(known, Some(SoakRecord { phase: SoakPhase::Writing { .. }, .. }));
    let target = target(path, options, options.write || options.rewrite || was_writing)?;
    let record = match known {
        Some(record) if !options.write => check(record, &target, place, options)?,
        _ if options.write => {
            let content = SoakContent::Stamped { run: new_run(), sequence: FIRST_SEQUENCE };
            fresh(&target, options, content, SoakPhase::Writing { next_byte: 0 })
        }
        _ => found(&target, options)?,
    };
    if options.rewrite && record.content == SoakContent::Digests {
        return Err(SoakError::NotOurs { path: path.into() });
    }
    Ok((target, record))
}

pub(super) fn target(path: &Path, options: &SoakOptions, may_write: bool) -> Result<Target, SoakError> {
    let wanted = TargetOptions {
        lay_out: None,
        direct: options.direct,
        may_write,
        destroy_data: options.destroy_data.clone(),
    };
    let target = Target::open(path, &wanted)?;
    let (chunk, block_bytes) = (options.chunk, target.block_bytes());
    let unit = u64::from(block_bytes.max(STAMPED_SECTOR_BYTES as u32));
    if chunk == ByteCount::ZERO || !chunk.get().is_multiple_of(unit) || chunk > CHUNK_MAX {
        return Err(SoakError::Chunk { path: path.into(), chunk, block_bytes });
    }
    Ok(target)
}

/// Bytes of a target that are soaked: whole blocks and sectors.
pub(super) fn soaked_bytes(target: &Target) -> u64 {
    let unit = u64::from(target.block_bytes().max(STAMPED_SECTOR_BYTES as u32));
    target.size().get() / unit * unit
}

fn fresh(target: &Target, options: &SoakOptions, content: SoakContent, phase: SoakPhase) -> SoakRecord {
    SoakRecord::new(target.path(), soaked_bytes(target), options.chunk.get(), content, phase)
}

/// A record can be gone on from if it is of this target and of reads of this length.
fn check(
    record: SoakRecord,
    target: &Target,
    place: &RecordPlace,
    options: &SoakOptions,
) -> Result<SoakRecord, SoakError> {
    if (record.bytes, record.chunk_bytes) == (soaked_bytes(target), options.chunk.get()) {
        return Ok(record);
    }
    Err(SoakError::OtherTarget {
        record: place.record().into(),
        path: target.path().into(),
        was: ByteCount(record.bytes),
        was_chunk: ByteCount(record.chunk_bytes),
        is: ByteCount(soaked_bytes(target)),
        is_chunk: options.chunk,
    })
}

/// What is there without a record: all of it stamped by one write, going by its first and last sector, or any data.
fn found(target: &Target, options: &SoakOptions) -> Result<SoakRecord, SoakError> {
    let last = soaked_bytes(target) / STAMPED_SECTOR_BYTES as u64 - 1;
    let ends = (stamp_of(target, 0)?, stamp_of(target, last)?);
    let (content, phase) = match ends {
        (Some(first), Some(end))
            if (first.run, first.sequence) == (end.run, end.sequence)
                && (first.sector, end.sector) == (0, last) =>
        {
            let content = SoakContent::Stamped { run: first.run, sequence: first.sequence };
            (content, SoakPhase::Reading { next_byte: 0 })
        }
        _ => (SoakContent::Digests, SoakPhase::Digesting),
    };
    Ok(fresh(target, options, content, phase))
}

/// The stamp of a sector of a target, if it has one and can be read.
fn stamp_of(target: &Target, sector: u64) -> Result<Option<Stamp>, SoakError> {
    let block_bytes = target.block_bytes().max(STAMPED_SECTOR_BYTES as u32);
    let byte = sector * STAMPED_SECTOR_BYTES as u64;
    let block = byte / u64::from(block_bytes) * u64::from(block_bytes);
    let mut memory = IoMemory::new(1, block_bytes, &[IoOp::Read], 0)?;
    let bytes = memory.buffer(IoOp::Read, 0, block_bytes);
    let Some(file) = target.file() else { return Ok(None) };
    let Ok(read) = rustix::io::pread(file, &mut *bytes, block) else { return Ok(None) };
    let at = (byte - block) as usize;
    if read < at + STAMPED_SECTOR_BYTES {
        return Ok(None);
    }
    match read_sector(&bytes[at..at + STAMPED_SECTOR_BYTES]) {
        SectorState::Stamped(stamp) => Ok(Some(stamp)),
        _ => Ok(None),
    }
}
