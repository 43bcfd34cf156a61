//! A block device or a file opened for an array, with its length, and small reads and writes past any cache.
//!
//! Opening for an array is exclusive: a block device is opened with `O_EXCL`, which the kernel refuses if it is mounted
//! or held, and both are locked (`flock`), so that no two arrays use one device. So are the other ways to the same storage, as
//! far as the system tells them ([`raidlab_device::safety::OtherWays`]): loop devices over a file, and files under a loop
//! device. Opening for examination is read-only and not exclusive.
//!
//! These reads and writes are for start, creation and joining; I/O of a running array goes through the ring.
//!
//! Source: `open(2)` on `O_EXCL` for block devices, `fallocate(2)` on block devices (Linux 4.9).

use super::{Flushing, Purpose, UNIT_BYTES, ZEROS_BYTES, begin, begin_change, failed};
use crate::arena::Arena;
use crate::error::DeviceError;
use crate::kernel;
use raidlab_device::safety::OtherWays;
use raidlab_units::ByteCount;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, Stat, StatxFlags, accessat,
    major, minor, statx,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest read in one call of the system.
const PIECE_BYTES: u64 = 1 << 20;
/// Smallest unit of direct I/O where the system does not say.
const UNKNOWN_UNIT_BYTES: u32 = 512;

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct LocalDevice {
    path: PathBuf,
    /// The name that the system had for it when it was opened; none where it does not tell.
    name: Option<PathBuf>,
    file: File,
    bytes: ByteCount,
    is_block: bool,
    flushing: Flushing,
    /// The lock is another's, with whom the file is shared.
    is_shared: bool,
    /// Keep others from the same storage by other ways.
    claims: Vec<File>,
}

impl Drop for LocalDevice {
    fn drop(&mut self) {
        if self.is_shared {
            return;
        }
        // A ring that was just closed may hold its files a little longer, and their locks with them.
        for file in std::iter::once(&self.file).chain(&self.claims) {
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

impl LocalDevice {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// [`DeviceError`]: it does not exist, is no storage, is in use, or has no direct I/O.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Self, DeviceError> {
        begin("open", path)?;
        let facts = std::fs::metadata(path).map_err(|source| failed("look at", path, source))?;
        let is_block_device = facts.file_type().is_block_device();
        if !is_block_device && !facts.is_file() {
            return Err(DeviceError::NotStorage { path: path.to_owned() });
        }
        if purpose == Purpose::Look {
            let file = open_direct(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT)?;
            return Self::of_file(path, file, is_block_device);
        }
        if let Some(refusal) = Self::write_refusal(path) {
            return Err(refusal);
        }
        let (file, claims) = claim(path, OFlags::RDWR, is_block_device)?;
        let mut device = Self::of_file(path, file, is_block_device)?;
        device.claims = claims;
        Ok(device)
    }

    /// Why the device at `path` can't be written by this user, if that is known without a write.
    pub(crate) fn write_refusal(path: &Path) -> Option<DeviceError> {
        let refused = |errno: Errno| DeviceError::NotWritable { path: path.to_owned(), source: errno.into() };
        let access = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
        if let Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) = access {
            return Some(refused(errno));
        }
        let facts = std::fs::metadata(path).ok().filter(|facts| facts.file_type().is_block_device())?;
        let (major, minor) = (major(facts.rdev()), minor(facts.rdev()));
        let flag = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro")).ok()?;
        (flag.trim() == "1").then(|| refused(Errno::ROFS))
    }

    /// Whether somebody has the device at `path`.
    pub(crate) fn is_taken(path: &Path) -> bool {
        let is_block_device = std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_block_device());
        let claimed = claim(path, OFlags::RDONLY, is_block_device);
        matches!(claimed, Err(DeviceError::InUse { .. } | DeviceError::InUseElsewhere { .. }))
    }

    /// Makes a file of `bytes`, all of it allocated, that begins with `head` (whole units of 4 KiB) and is zeros behind it. `head` is
    /// durable before the file gets longer, so a file that a killed process leaves is empty or begins with it.
    ///
    /// # Errors
    /// [`DeviceError`]: something is there already, or there is no space or no direct I/O. What was made is removed again.
    pub(crate) fn make(path: &Path, bytes: ByteCount, head: &[u8]) -> Result<Self, DeviceError> {
        begin("make", path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::DIRECT;
        let made = open_direct(path, flags).and_then(|file| {
            lock(&file, path, FlockOperation::NonBlockingLockExclusive)?;
            let mut made = Self::of_file(path, file, false)?;
            if !head.is_empty() {
                made.write(0, head)?;
                made.sync()?;
            }
            allocate(&made.file, path, bytes)?;
            made.bytes = bytes;
            Ok(made)
        });
        if !matches!(made, Ok(_) | Err(DeviceError::Exists { .. })) {
            // Without direct I/O the file itself was made before the flag was refused.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn of_file(path: &Path, file: File, is_block: bool) -> Result<Self, DeviceError> {
        // The end of a block device is where its size is.
        let end = rustix::fs::seek(&file, SeekFrom::End(0));
        let bytes = ByteCount(end.map_err(|errno| failed("find the length of", path, errno.into()))?);
        let keeps_dsync = kernel::in_place()
            .map_or_else(|| raidlab_device::keeps_dsync(&file), |kernel| kernel.keeps_dsync());
        let flushing = if keeps_dsync { Flushing::Whole } else { Flushing::WithoutFua };
        let (path, name, claims) = (path.to_owned(), name_of(&file), Vec::new());
        Ok(Self { path, name, file, bytes, is_block, flushing, is_shared: false, claims })
    }

    /// The same open file once more; the lock stays with `self`.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub(crate) fn share(&self) -> io::Result<Self> {
        let Self { bytes, is_block, flushing, .. } = *self;
        let (path, name, file) = (self.path.clone(), self.name.clone(), self.file.try_clone()?);
        Ok(Self { path, name, file, bytes, is_block, flushing, is_shared: true, claims: Vec::new() })
    }

    /// The path as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its name was removed or changed since it was opened. The system tells that without asking what the file is on.
    pub(crate) fn has_lost_its_name(&self) -> bool {
        self.name.is_some() && name_of(&self.file) != self.name
    }

    /// Its length.
    pub(crate) const fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// How what the ring writes becomes durable.
    pub(crate) const fn flushing(&self) -> Flushing {
        self.flushing
    }

    /// Whether its I/O would hold up the thread that submits it.
    pub(crate) fn waits_in_submission(&self) -> bool {
        raidlab_device::waits_in_submission(&self.file)
    }

    /// Its descriptor, open as long as `self`.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Whether two are the same file or device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_file(&other.file)
    }

    /// Whether it is this open file.
    pub(crate) fn is_file(&self, other: &File) -> bool {
        self.is_what(rustix::fs::fstat(other))
    }

    /// Whether it is what `path` leads to.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.is_what(rustix::fs::stat(path))
    }

    fn is_what(&self, other: Result<Stat, Errno>) -> bool {
        let id = |facts: Result<Stat, Errno>| {
            facts.ok().map(|facts| match facts.st_rdev {
                0 => (facts.st_dev, facts.st_ino),
                device => (device, 0),
            })
        };
        id(rustix::fs::fstat(&self.file)).is_some_and(|own| id(other) == Some(own))
    }

    /// Smallest unit, in bytes, that direct I/O can be done in, in the file and in memory; 512 where the system does not
    /// say.
    pub(crate) fn direct_io_unit(&self) -> ByteCount {
        let unit = if self.is_block {
            rustix::fs::ioctl_blksszget(&self.file).ok()
        } else {
            let facts = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
            facts.map(|facts| facts.stx_dio_offset_align.max(facts.stx_dio_mem_align))
        };
        ByteCount(u64::from(unit.unwrap_or_default().max(UNKNOWN_UNIT_BYTES)))
    }

    /// Reads up to `bytes` from `offset` on, both whole units of 4 KiB: what there is of them before the device's end.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        let bytes = bytes.min(self.bytes.get().saturating_sub(offset));
        let mut arena = arena(bytes.next_multiple_of(UNIT_BYTES))?;
        let mut done = 0;
        while done < bytes {
            let end = bytes.next_multiple_of(UNIT_BYTES).min(done + PIECE_BYTES);
            let piece = arena.slice_mut(done..end);
            begin("read from", &self.path)?;
            match rustix::io::pread(&self.file, piece, offset + done) {
                Ok(0) => break,
                Ok(moved) => done += moved as u64,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(failed("read from", &self.path, errno.into())),
            }
        }
        Ok(arena.slice(0..done.min(bytes)).to_vec())
    }

    /// Writes whole units of 4 KiB at `offset`.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut arena = arena(bytes.len() as u64)?;
        arena.slice_mut(0..bytes.len() as u64).copy_from_slice(bytes);
        self.write_from(&arena, offset, bytes.len() as u64)
    }

    fn write_from(&self, arena: &Arena, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        let mut done = 0;
        while done < bytes {
            begin_change("write to", &self.path, offset + done, bytes - done)?;
            match rustix::io::pwrite(&self.file, arena.slice(done..bytes), offset + done) {
                Ok(0) => return Err(failed("write to", &self.path, io::ErrorKind::WriteZero.into())),
                Ok(moved) => done += moved as u64,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(failed("write to", &self.path, errno.into())),
            }
        }
        Ok(())
    }

    /// Makes `bytes` from `offset` on zeros, both whole units of 4 KiB: by the device itself where it can.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        begin_change("write zeros to", &self.path, offset, bytes)?;
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, flags, offset, bytes).is_ok() {
            return Ok(());
        }
        let zeros = arena(ZEROS_BYTES.min(bytes))?;
        let mut done = 0;
        while done < bytes {
            let piece = ZEROS_BYTES.min(bytes - done);
            self.write_from(&zeros, offset + done, piece)?;
            done += piece;
        }
        Ok(())
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        begin("sync", &self.path)?;
        self.file.sync_all().map_err(|source| failed("sync", &self.path, source))
    }
}

fn arena(bytes: u64) -> Result<Arena, DeviceError> {
    Arena::new(bytes).map_err(|source| DeviceError::Memory { bytes: ByteCount(bytes), source })
}

/// The name that the system has for an open file; one that was removed has another.
fn name_of(file: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

fn open_direct(path: &Path, flags: OFlags) -> Result<File, DeviceError> {
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(descriptor) => Ok(raidlab_device::with_inline_io(descriptor.into())),
        Err(Errno::EXIST) => Err(DeviceError::Exists { path: path.to_owned() }),
        Err(Errno::BUSY) => Err(DeviceError::InUse { path: path.to_owned() }),
        Err(Errno::INVAL) => Err(DeviceError::NoDirectIo { path: path.to_owned() }),
        Err(errno) => Err(failed("open", path, errno.into())),
    }
}

/// Opens a device for its own, with what keeps others from it by other ways. Who only looks whether it is free has it for a moment,
/// which is waited for.
fn claim(path: &Path, access: OFlags, is_block: bool) -> Result<(File, Vec<File>), DeviceError> {
    const MOMENT: Duration = Duration::from_millis(100);
    const PAUSE: Duration = Duration::from_millis(5);
    let exclusive = if is_block { OFlags::EXCL } else { OFlags::empty() };
    let began = Instant::now();
    loop {
        let claimed =
            open_direct(path, access | exclusive | OFlags::CLOEXEC | OFlags::DIRECT).and_then(|file| {
                lock(&file, path, FlockOperation::NonBlockingLockExclusive)?;
                let claims = claim_other_ways(&file, path)?;
                Ok((file, claims))
            });
        match claimed {
            Err(DeviceError::InUse { .. } | DeviceError::InUseElsewhere { .. })
                if began.elapsed() < MOMENT =>
            {
                std::thread::sleep(PAUSE);
            }
            claimed => return claimed,
        }
    }
}

/// Keeps others from the storage of an open device by other ways; what can't be opened can't be claimed either.
fn claim_other_ways(file: &File, path: &Path) -> Result<Vec<File>, DeviceError> {
    let ways = OtherWays::of(file);
    let mut claims = Vec::new();
    // Loop devices over disjoint parts of one file share it; who opens the file itself wants it alone.
    for below in ways.below {
        let Ok(file) = File::open(&below) else { continue };
        // The end of a process waits for FUSE to hear of each file's end, and a server may have stopped to hear.
        if raidlab_device::waits_in_submission(&file) {
            continue;
        }
        lock(&file, path, FlockOperation::NonBlockingLockShared).map_err(|error| match error {
            DeviceError::InUse { path } => DeviceError::InUseElsewhere { path, way: below },
            other => other,
        })?;
        claims.push(file);
    }
    for beside in ways.beside {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(&beside, flags, Mode::empty()) {
            Ok(device) => claims.push(device.into()),
            Err(Errno::BUSY) => {
                return Err(DeviceError::InUseElsewhere { path: path.to_owned(), way: beside });
            }
            Err(_) => {}
        }
    }
    Ok(claims)
}

/// Keeps every other array away from the file as long as it is open here; with a shared lock, those that want it alone.
fn lock(file: &File, path: &Path, how: FlockOperation) -> Result<(), DeviceError> {
    match rustix::fs::flock(file, how) {
        // A file system without locks can't keep anybody away, which is no reason not to work on it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(DeviceError::InUse { path: path.to_owned() }),
        Err(errno) => Err(failed("lock", path, errno.into())),
    }
}

/// Allocates a file's blocks. Where the file system can't do that ahead, it is only made so long.
fn allocate(file: &File, path: &Path, bytes: ByteCount) -> Result<(), DeviceError> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes.get()) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            file.set_len(bytes.get()).map_err(|source| failed("make", path, source))
        }
        Err(errno) => Err(allocation_failed(path, bytes, errno)),
    }
}

/// Says what a refused allocation or write of new blocks means.
pub(crate) fn allocation_failed(path: &Path, needed: ByteCount, errno: Errno) -> DeviceError {
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            let available = ByteCount(space_of(folder_of(path)).map_or(0, |(_, available)| available));
            DeviceError::NoSpace { path: path.to_owned(), needed, available }
        }
        _ => failed("allocate", path, errno.into()),
    }
}

/// Returns the device that holds `folder`, and the bytes it has left for this user.
pub(crate) fn space_of(folder: &Path) -> Result<(u64, u64), Errno> {
    let device = rustix::fs::stat(folder)?.st_dev;
    let space = rustix::fs::statvfs(folder)?;
    Ok((device, space.f_bavail.saturating_mul(space.f_frsize)))
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
