//! Flushes, trims and writes of zeroes of files and block devices by system calls, one at a time.
//!
//! | | file | block device |
//! |---|---|---|
//! | flush | `fsync`, `fdatasync` | the same |
//! | trim | `fallocate(PUNCH_HOLE)`: reads as zeroes | `BLKDISCARD`: reads as anything |
//! | write of zeroes | `fallocate(ZERO_RANGE)` | the same: the device's own command, or zeroes that the kernel writes |
//!
//! Source: fallocate(2); `BLKDISCARD` in Linux, block/ioctl.c; `blkdev_fallocate` in block/fops.c.
#![allow(unsafe_code)]

use super::{EngineIo, FailureCause};
use raidlab_workload::IoOp;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::File;

/// Does `io`, which moves no bytes, on `file`. Returns why that failed, if it did.
pub(super) fn change(file: &File, is_device: bool, io: &EngineIo) -> Option<FailureCause> {
    let (offset, bytes) = (io.offset_bytes, u64::from(io.bytes));
    loop {
        let result = match io.op {
            IoOp::Flush => fsync(file),
            IoOp::FlushData => fdatasync(file),
            IoOp::Trim if is_device => discard(file, offset, bytes),
            IoOp::Trim => fallocate(file, punch_hole(), offset, bytes),
            IoOp::WriteZeroes => fallocate(file, zero_range(), offset, bytes),
            IoOp::Read | IoOp::Write => unreachable!("reads and writes are transfers"),
        };
        match result {
            Ok(()) => return None,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Some(FailureCause::Errno(errno)),
        }
    }
}

/// How a file gives up a range: its length stays.
pub(crate) fn punch_hole() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
}

/// How a file or device zeroes a range: its length stays.
pub(crate) fn zero_range() -> FallocateFlags {
    FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE
}

/// Tells a block device that a range is no longer needed.
pub(crate) fn discard(file: &File, offset: u64, bytes: u64) -> Result<(), Errno> {
    const BLKDISCARD: u32 = opcode::none(0x12, 119);
    // SAFETY: the call takes a pointer to two numbers of 64 bits, start and length, and changes none of our memory.
    unsafe { ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new([offset, bytes])) }
}
