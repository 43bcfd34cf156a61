//! What an engine can do on a target, checked before the load: nothing that a workload requests is skipped.
//!
//! | | flush | trim | write of zeroes |
//! |---|---|---|---|
//! | file | yes | if the file system punches holes | if it zeroes ranges |
//! | block device | yes | if the device discards; with `io_uring` from Linux 6.12 on | yes |
//! | NBD export | if the server offers it | the same | the same |
//! | file of an NFS or `XRootD` server | yes | no | no |
//! | nothing (`null:`) | yes | yes | yes |
//!
//! A file system is probed with calls on a range behind the end of the file, which keep the file's length and leave
//! nothing behind; a device with a discard that no device does. Only requested operations are probed, on targets that
//! are open for writing.

use crate::engine::{EngineKind, UringEngine, discard, punch_hole, zero_range};
use crate::target::{Target, TargetKind};
use raidlab_nbd::TransmissionFlags;
use raidlab_workload::{IoOp, OpSet};
use rustix::fs::{fallocate, fstat, ftruncate};
use rustix::io::Errno;
use std::fs::File;

/// A range that file systems are asked with: whole blocks of any.
const TRIED_BYTES: u64 = 1 << 20;

/// Returns what of `wanted` can't be done on `target` with `engine`.
pub(crate) fn cannot_do(target: &Target, engine: EngineKind, wanted: OpSet) -> OpSet {
    let cannot = |op: &IoOp| !can_do(target, engine, *op);
    wanted.iter().filter(cannot).fold(OpSet::NONE, OpSet::with)
}

fn can_do(target: &Target, engine: EngineKind, op: IoOp) -> bool {
    match (target.kind(), target.file(), op) {
        (_, _, IoOp::Read | IoOp::Write) | (TargetKind::NoOp, ..) => true,
        (TargetKind::Nbd, ..) => target.export_flags().is_some_and(|flags| is_offered(flags, op)),
        (_, _, IoOp::Flush | IoOp::FlushData) => true,
        (TargetKind::Nfs | TargetKind::Xrootd | TargetKind::Samples, ..) | (_, None, _) => false,
        (TargetKind::File, Some(file), IoOp::Trim) => target.may_write() && punches_holes(file),
        (TargetKind::File, Some(file), IoOp::WriteZeroes) => target.may_write() && zeroes_ranges(file),
        (TargetKind::BlockDevice, Some(file), IoOp::Trim) => {
            target.may_write() && discards(target, file, engine)
        }
        (TargetKind::BlockDevice, Some(_), IoOp::WriteZeroes) => target.may_write(),
    }
}

/// Whether the server of an export does what reads and writes are not.
fn is_offered(flags: TransmissionFlags, op: IoOp) -> bool {
    flags.contains(match op {
        IoOp::Trim => TransmissionFlags::SEND_TRIM,
        IoOp::WriteZeroes => TransmissionFlags::SEND_WRITE_ZEROES,
        _ => TransmissionFlags::SEND_FLUSH,
    })
}

/// Where a file ends, and where the range begins that a file system is asked with.
fn end_and_behind(file: &File) -> Option<(u64, u64)> {
    let end = fstat(file).ok()?.st_size as u64;
    Some((end, end.checked_next_multiple_of(TRIED_BYTES)?))
}

fn punches_holes(file: &File) -> bool {
    let place = end_and_behind(file);
    place.is_some_and(|(_, behind)| fallocate(file, punch_hole(), behind, TRIED_BYTES).is_ok())
}

/// Whether ranges can be zeroed. The space that this took behind the end goes when the file is cut off where it ends.
fn zeroes_ranges(file: &File) -> bool {
    let Some((end, behind)) = end_and_behind(file) else { return false };
    fallocate(file, zero_range(), behind, TRIED_BYTES).is_ok() && ftruncate(file, end).is_ok()
}

/// Whether a device discards. A range that is no whole block is refused as such only by one that does.
fn discards(target: &Target, file: &File, engine: EngineKind) -> bool {
    match engine {
        EngineKind::Uring => UringEngine::discards(target),
        _ => discard(file, 0, 1) == Err(Errno::INVAL),
    }
}
