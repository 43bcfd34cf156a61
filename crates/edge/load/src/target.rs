//! A target: a regular file or block device that is open and ready for load, with its size and block size.
//!
//! **Direct I/O** is what measures storage, so it is the default; a file system that refuses it is an error and
//! never a silent fall-back. The block size comes from the device (`BLKSSZGET`), else from `statx`
//! (`STATX_DIOALIGN`, Linux 6.1), else from trying 512 and then 4096 bytes. Buffered I/O takes blocks of 512.
//!
//! **Names.** A path names a file or a block device; a folder stands for the test file in it ([`TEST_FILE_NAME`]);
//! an NBD URI names an export, an NFS or root URI a file of a server, the path of a Unix socket the default export of the NBD server there; `null:SIZE` is a
//! target that does nothing.
//!
//! **Writing** is asked for, and goes through [`crate::safety::permit_write`] on the very file that is then
//! written. A block device is opened with `O_EXCL` then, so the kernel refuses what is mounted or held, too.

use crate::engine::EngineKind;
use crate::error::LoadError;
use crate::file_system::with_inline_io;
use crate::lay_out::{LayOut, LayOutContent, LayOutProgress, lay_out_file};
use crate::memory::IoMemory;
use crate::nbd_client::{NbdClient, NbdError, is_nbd_uri};
use crate::nfs::NfsFile;
use crate::remote::{self, RemoteError, is_remote_uri, open_remote};
use crate::safety;
use crate::trailer::Trailer;
use crate::xrootd::{XrootdFile, is_xrootd_uri};
use raidlab_nbd::{NbdUri, TransmissionFlags};
use raidlab_units::ByteCount;
use raidlab_workload::IoOp;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::{File, FileType, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Name of the test file in a folder that was given as a target.
pub const TEST_FILE_NAME: &str = "raidlab-test-file";
/// What the name of a target that does nothing begins with; its size follows.
const NULL_PREFIX: &str = "null:";
/// Blocks of buffered I/O, and of the no-op target.
const BUFFERED_BLOCK_BYTES: u32 = 512;
/// Block sizes to try where the system does not tell.
const TRIED_BLOCK_BYTES: [u32; 2] = [512, 4096];
/// Seed of the data in a test file that [`Target::open`] lays out.
const LAY_OUT_SEED: u64 = 0x7261_6964_6c61_6221;

/// How to open a target.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Size of the test file to lay out if the path does not exist, or is a test file of another size.
    pub lay_out: Option<ByteCount>,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Also for writing.
    pub may_write: bool,
    /// Names the target whose data may be destroyed; see [`crate::safety`].
    pub destroy_data: Option<String>,
}

impl Default for TargetOptions {
    /// Direct, for reading only, and nothing is laid out or destroyed.
    fn default() -> Self {
        Self { lay_out: None, direct: true, may_write: false, destroy_data: None }
    }
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
    /// An export of an NBD server.
    Nbd,
    /// A file of an NFS server.
    Nfs,
    /// A file of an `XRootD` server.
    Xrootd,
    /// Nothing: requests go through the engine and back, which measures our own cost.
    NoOp,
}

/// Where an export is, and what its server takes.
#[derive(Debug)]
struct Export {
    uri: NbdUri,
    /// The longest request.
    payload_max: u32,
    /// What else it offers.
    flags: TransmissionFlags,
}

/// A target that is open.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    /// None for exports and [`TargetKind::NoOp`].
    file: Option<File>,
    /// For exports only.
    export: Option<Export>,
    /// For files of `XRootD` servers only, which let one at a time open a file for writing.
    shared: Option<Arc<XrootdFile>>,
    kind: TargetKind,
    size: ByteCount,
    block_bytes: u32,
    direct: bool,
    may_write: bool,
}

impl Target {
    /// Opens `path`, laying a test file out first if the options say so.
    ///
    /// # Errors
    /// [`LoadError`] if it does not exist, is no storage, refuses direct I/O, or may not be written.
    pub fn open(path: &Path, options: &TargetOptions) -> Result<Self, LoadError> {
        Self::open_with_progress(path, options, &AtomicBool::new(false), &mut |_| {})
    }

    /// As [`Target::open`], but a lay-out can be stopped through `cancel` and tells of its progress.
    ///
    /// # Errors
    /// As [`Target::open`], and [`LoadError::Cancelled`].
    pub fn open_with_progress(
        path: &Path,
        options: &TargetOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<Self, LoadError> {
        if let Some(target) = Self::null_of(path)? {
            return Ok(target);
        }
        if is_nbd_uri(path) || is_socket(path) {
            return Self::open_export(path, options);
        }
        if is_remote_uri(path) {
            return Self::open_remote(path, options, cancel, progress);
        }
        let path = &place_of(path);
        if let Some(bytes) = options.lay_out.filter(|_| !is_block_device(path)) {
            lay_out_if_needed(path, bytes, cancel, progress)?;
        }
        let look = Look::at(path)?;
        if options.may_write {
            safety::permit_write(path, &look.file, options.destroy_data.as_deref())?;
        }
        let size = look.data_bytes(path)?;
        if size == ByteCount::ZERO {
            return Err(LoadError::TooSmall { path: path.into(), size, region: ByteCount(1) });
        }
        let file = open_for_load(path, look.kind, options)?;
        look.check_same(path, &file)?;
        let block_bytes = block_bytes(path, &file, look.kind, options.direct)?;
        tracing::debug!(path = %path.display(), %size, block_bytes, direct = options.direct, "target is open");
        Ok(Self {
            path: path.into(),
            file: Some(file),
            export: None,
            shared: None,
            kind: look.kind,
            size,
            block_bytes,
            direct: options.direct,
            may_write: options.may_write,
        })
    }

    /// Looks at an export; each engine connects to it anew.
    fn open_export(path: &Path, options: &TargetOptions) -> Result<Self, LoadError> {
        let nbd = |source| LoadError::Nbd { path: path.into(), source };
        let mut client = if is_nbd_uri(path) {
            NbdClient::connect(path)
        } else {
            NbdClient::connect_to(NbdUri::of_socket(path.as_os_str().as_encoded_bytes().to_vec()))
        }
        .map_err(nbd)?;
        let (size, sizes) = (ByteCount(client.bytes()), client.agreement().block_sizes);
        if options.may_write {
            if client.agreement().flags.contains(TransmissionFlags::READ_ONLY) {
                let reason = "its server offers it for reading only".to_owned();
                return Err(nbd(NbdError::Refused { reason }));
            }
            let look = client.look().map_err(nbd)?;
            safety::permit_write_export(path, &look, options.destroy_data.as_deref())?;
        }
        if size == ByteCount::ZERO {
            return Err(LoadError::TooSmall { path: path.into(), size, region: ByteCount(1) });
        }
        Ok(Self {
            path: path.into(),
            file: None,
            export: Some(Export {
                uri: client.uri().clone(),
                payload_max: sizes.payload_max(),
                flags: client.agreement().flags,
            }),
            shared: None,
            kind: TargetKind::Nbd,
            size,
            block_bytes: sizes.minimum().max(BUFFERED_BLOCK_BYTES),
            direct: true,
            may_write: options.may_write,
        })
    }

    /// Looks at a file of a file server. One that is not there is laid out if a size is given.
    fn open_remote(
        path: &Path,
        options: &TargetOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<Self, LoadError> {
        let failed = |source| match source {
            RemoteError::Cancelled => LoadError::Cancelled { path: path.into() },
            source => LoadError::Remote { path: path.into(), source },
        };
        let opened = open_remote(path, options.may_write);
        let is_missing = opened.as_ref().is_err_and(RemoteError::is_missing);
        let mut file = match options.lay_out.filter(|_| is_missing) {
            None => opened.map_err(failed)?,
            Some(bytes) if bytes == ByteCount::ZERO || !bytes.get().is_multiple_of(4096) => {
                return Err(LoadError::LayOutSize { path: path.into(), bytes });
            }
            Some(bytes) => {
                let content = LayOutContent::Noise;
                let order = LayOut { bytes, content, seed: LAY_OUT_SEED, destroy_data: None };
                remote::lay_out_remote(path, &order, cancel, progress).map_err(failed)?;
                open_remote(path, options.may_write).map_err(failed)?
            }
        };
        let found = remote::look(&mut *file, options.may_write).map_err(failed)?;
        if let Some(wanted) = options.lay_out.filter(|wanted| *wanted != found.data_bytes) {
            return Err(LoadError::SizeDiffers { path: path.into(), size: found.data_bytes, wanted });
        }
        if let Some(look) = found.look.filter(|_| !found.is_ours) {
            safety::permit_write_export(path, &look, options.destroy_data.as_deref())?;
        }
        if found.data_bytes == ByteCount::ZERO {
            return Err(LoadError::TooSmall {
                path: path.into(),
                size: ByteCount::ZERO,
                region: ByteCount(1),
            });
        }
        drop(file);
        let is_xrootd = is_xrootd_uri(path);
        let shared = is_xrootd.then(|| XrootdFile::open(path, options.may_write).map(Arc::new));
        Ok(Self {
            path: path.into(),
            file: None,
            export: None,
            shared: shared.transpose().map_err(failed)?,
            kind: if is_xrootd { TargetKind::Xrootd } else { TargetKind::Nfs },
            size: found.data_bytes,
            block_bytes: BUFFERED_BLOCK_BYTES,
            direct: true,
            may_write: options.may_write,
        })
    }

    /// The target that does nothing, if `path` names one.
    fn null_of(path: &Path) -> Result<Option<Self>, LoadError> {
        let Some(size) = path.to_str().and_then(|text| text.strip_prefix(NULL_PREFIX)) else {
            return Ok(None);
        };
        match size.parse::<ByteCount>() {
            Ok(size) if size > ByteCount::ZERO => Ok(Some(Self { path: path.into(), ..Self::no_op(size) })),
            _ => Err(LoadError::NullSize { size: size.into() }),
        }
    }

    /// Returns the target that does nothing, as if it were of `size`.
    pub fn no_op(size: ByteCount) -> Self {
        Self {
            path: PathBuf::from("no-op"),
            file: None,
            export: None,
            shared: None,
            kind: TargetKind::NoOp,
            size,
            block_bytes: BUFFERED_BLOCK_BYTES,
            direct: true,
            may_write: true,
        }
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Bytes that can be loaded; raidlab's mark behind a test file is not among them.
    pub fn size(&self) -> ByteCount {
        self.size
    }

    /// Offsets and lengths of requests are multiples of this many bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Whether requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether it may be written.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// The longest request that it takes, where it has a limit.
    pub fn request_bytes_max(&self) -> Option<u32> {
        self.export.as_ref().map(|export| export.payload_max)
    }

    /// Whether its writes can be made to end when the medium has them (forced unit access).
    pub fn takes_fua(&self) -> bool {
        let has_fua = |flags: TransmissionFlags| flags.contains(TransmissionFlags::SEND_FUA);
        !self.is_remote() && self.export_flags().is_none_or(has_fua)
    }

    /// What the server of an export offers; none for a target that is none.
    pub(crate) fn export_flags(&self) -> Option<TransmissionFlags> {
        Some(self.export.as_ref()?.flags)
    }

    /// Connects to the export.
    ///
    /// # Errors
    /// [`LoadError::Nbd`], or [`LoadError::EngineUnfit`] for a target that is none.
    pub(crate) fn connect(&self) -> Result<NbdClient, LoadError> {
        let path = || self.path.clone();
        let unfit = || LoadError::EngineUnfit { path: path(), engine: EngineKind::Nbd.name() };
        let export = self.export.as_ref().ok_or_else(unfit)?;
        NbdClient::connect_to(export.uri.clone()).map_err(|source| LoadError::Nbd { path: path(), source })
    }

    /// Opens the file of an NFS server over a connection of its own.
    pub(crate) fn connect_nfs(&self) -> Result<NfsFile, LoadError> {
        if self.kind != TargetKind::Nfs {
            return Err(LoadError::EngineUnfit { path: self.path.clone(), engine: EngineKind::Nfs.name() });
        }
        NfsFile::open(&self.path, self.may_write)
            .map_err(|source| LoadError::Remote { path: self.path.clone(), source })
    }

    /// The file of an `XRootD` server, which all engines share.
    pub(crate) fn xrootd_file(&self) -> Result<Arc<XrootdFile>, LoadError> {
        let (path, engine) = (|| self.path.clone(), EngineKind::Xrootd.name());
        self.shared.clone().ok_or_else(|| LoadError::EngineUnfit { path: path(), engine })
    }

    /// Whether it is a file of a file server.
    pub fn is_remote(&self) -> bool {
        matches!(self.kind, TargetKind::Nfs | TargetKind::Xrootd)
    }

    /// The device that holds it; none for the no-op target.
    pub(crate) fn device(&self) -> Option<rustix::fs::Dev> {
        let stat = rustix::fs::fstat(self.file.as_ref()?).ok()?;
        Some(if self.kind == TargetKind::BlockDevice { stat.st_rdev } else { stat.st_dev })
    }

    /// The open file; none for the no-op target.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

/// Returns the file that `path` stands for: the test file in it if it is a folder, else itself.
pub fn place_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(TEST_FILE_NAME) } else { path.to_owned() }
}

/// A first look at a path, through a file that is open for plain reading.
struct Look {
    file: File,
    kind: TargetKind,
}

impl Look {
    fn at(path: &Path) -> Result<Self, LoadError> {
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
    fn data_bytes(&self, path: &Path) -> Result<ByteCount, LoadError> {
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
    fn check_same(&self, path: &Path, opened: &File) -> Result<(), LoadError> {
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

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn kind_of(file_type: FileType) -> Option<TargetKind> {
    match file_type {
        file if file.is_file() => Some(TargetKind::File),
        device if device.is_block_device() => Some(TargetKind::BlockDevice),
        _ => None,
    }
}

/// Says what a path is that is no target.
pub(crate) fn describe(file_type: FileType) -> &'static str {
    match file_type {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_file() => "a regular file",
        kind if kind.is_block_device() => "a block device",
        _ => "something else",
    }
}

/// Lays a test file out where there is nothing, or a test file of another size or an unfinished one. A file that
/// raidlab did not lay out is left alone, and must have the size asked for.
fn lay_out_if_needed(
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

fn open_for_load(path: &Path, kind: TargetKind, options: &TargetOptions) -> Result<File, LoadError> {
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
fn block_bytes(path: &Path, file: &File, kind: TargetKind, direct: bool) -> Result<u32, LoadError> {
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
