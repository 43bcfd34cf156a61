//! Files and block devices of this machine: examination, laying out a missing test file, and opening for the load.
//!
//! ```text
//! lay out, if requested ─► look (plain, read only) ─► safety ─► open for the load ─► the same file? ─► block size
//! ```
//! **Block size.** A device reports it (`BLKSSZGET`), a file system by `statx` (`STATX_DIOALIGN`, Linux 6.1); else 512
//! and then 4096 bytes are tried. Buffered I/O uses blocks of 512.

use super::{BUFFERED_BLOCK_BYTES, LAY_OUT_SEED, TargetKind, TargetOptions};
use crate::error::LoadError;
use crate::lay_out::{LayOut, LayOutContent, LayOutProgress, lay_out_file};
use crate::memory::IoMemory;
use raidlab_device::safety::describe;
use raidlab_device::{Trailer, with_inline_io};
use raidlab_units::ByteCount;
use raidlab_workload::IoOp;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::{File, FileType, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Block sizes to try where the system does not tell.
const TRIED_BLOCK_BYTES: [u32; 2] = [512, 4096];

/// A first look at a path, through a file that is open for plain reading.
pub(super) struct Look {
    pub(super) file: File,
    pub(super) kind: TargetKind,
}

impl Look {
    pub(super) fn at(path: &Path) -> Result<Self, LoadError> {
        // Looked at before it is opened: to open a pipe would wait for its other end.
        let metadata = std::fs::metadata(path).map_err(LoadError::io(path, "find"))?;
        let kind = kind_of(metadata.file_type()).ok_or_else(|| LoadError::NotStorage {
            path: path.into(),
            kind: describe(metadata.file_type()),
        })?;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
            .map_err(LoadError::io(path, "open"))?;
        let look = Self { file, kind };
        let opened = look.file.metadata().map_err(LoadError::io(path, "look at"))?.file_type();
        if kind_of(opened) == Some(kind) {
            Ok(look)
        } else {
            Err(LoadError::NotStorage { path: path.into(), kind: describe(opened) })
        }
    }

    /// Bytes of data: all of a device or a plain file, what lies before the mark of a test file.
    pub(super) fn data_bytes(&self, path: &Path) -> Result<ByteCount, LoadError> {
        // The end of a block device is where its size is; this asks the same as BLKGETSIZE64.
        let end = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))
            .map_err(LoadError::system(path, "find the size of"))?;
        if self.kind == TargetKind::BlockDevice {
            return Ok(ByteCount(end));
        }
        match Trailer::read(&self.file, end).map_err(LoadError::io(path, "read"))? {
            Some(trailer) if trailer.complete => Ok(trailer.data_bytes),
            Some(_) => Err(LoadError::Unfinished { path: path.into() }),
            None => Ok(ByteCount(end)),
        }
    }

    /// Makes sure that `opened` is the file that was looked at, and judged safe.
    pub(super) fn check_same(&self, path: &Path, opened: &File) -> Result<(), LoadError> {
        let id = |file: &File| {
            rustix::fs::fstat(file)
                .map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev))
                .map_err(LoadError::system(path, "look at"))
        };
        if id(&self.file)? == id(opened)? {
            Ok(())
        } else {
            Err(LoadError::System { path: path.into(), op: "open twice the same", errno: Errno::STALE })
        }
    }
}

pub(super) fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

pub(super) fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn kind_of(file_type: FileType) -> Option<TargetKind> {
    match file_type {
        file if file.is_file() => Some(TargetKind::File),
        device if device.is_block_device() => Some(TargetKind::BlockDevice),
        _ => None,
    }
}

/// Lays a test file out where there is nothing, or a test file of another size or an unfinished one. A file that
/// raidlab did not lay out is left alone, and must have the size asked for.
pub(super) fn lay_out_if_needed(
    path: &Path,
    bytes: ByteCount,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<(), LoadError> {
    if let Ok(metadata) = std::fs::metadata(path) {
        let look = Look::at(path)?;
        let end = metadata.len();
        let own = Trailer::read(&look.file, end).map_err(LoadError::io(path, "read"))?.is_some();
        if !own && end > 0 {
            let size = ByteCount(end);
            return if size == bytes {
                Ok(())
            } else {
                Err(LoadError::SizeDiffers { path: path.into(), size, wanted: bytes })
            };
        }
    }
    let order = LayOut { bytes, content: LayOutContent::Noise, seed: LAY_OUT_SEED, destroy_data: None };
    lay_out_file(path, &order, cancel, progress).map(|_| ())
}

pub(super) fn open_for_load(
    path: &Path,
    kind: TargetKind,
    options: &TargetOptions,
) -> Result<File, LoadError> {
    let mut flags = OFlags::empty();
    if options.direct {
        flags |= OFlags::DIRECT;
    }
    if options.may_write && kind == TargetKind::BlockDevice {
        flags |= OFlags::EXCL;
    }
    let open = |flags: OFlags| {
        let mut how = OpenOptions::new();
        how.read(true).write(options.may_write).custom_flags(flags.bits().cast_signed()).open(path)
    };
    // Each read would look at the time of the last access, and now and then write it; only an owner may leave that out.
    open(flags | OFlags::NOATIME)
        .or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::PERM) => open(flags),
            _ => Err(error),
        })
        .map(with_inline_io)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::OPNOTSUPP) if options.direct => {
                LoadError::DirectRefused { path: path.into() }
            }
            _ => LoadError::io(path, "open")(error),
        })
}

/// Finds what offsets and lengths must be multiples of.
pub(super) fn block_bytes(
    path: &Path,
    file: &File,
    kind: TargetKind,
    direct: bool,
) -> Result<u32, LoadError> {
    if kind == TargetKind::BlockDevice {
        return rustix::fs::ioctl_blksszget(file).map_err(LoadError::system(path, "find the block size of"));
    }
    if !direct {
        return Ok(BUFFERED_BLOCK_BYTES);
    }
    match stated_block_bytes(file) {
        Some(bytes) => Ok(bytes),
        None => tried_block_bytes(path, file),
    }
}

/// What `statx` says, where kernel and file system tell.
fn stated_block_bytes(file: &File) -> Option<u32> {
    let stat = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let stated = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    (stated && stat.stx_dio_offset_align > 0).then_some(stat.stx_dio_offset_align)
}

fn tried_block_bytes(path: &Path, file: &File) -> Result<u32, LoadError> {
    let mut memory = IoMemory::new(1, 4096, &[IoOp::Read], 0)?;
    let mut errno = Errno::INVAL;
    for bytes in TRIED_BLOCK_BYTES {
        match rustix::io::pread(file, memory.buffer(IoOp::Read, 0, bytes), 0) {
            Ok(_) => return Ok(bytes),
            Err(refused) => errno = refused,
        }
    }
    Err(LoadError::NoBlockSize { path: path.into(), errno })
}
