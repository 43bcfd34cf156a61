//! A target: a regular file or block device opened for load, with its size and block size.
//!
//! **Direct I/O** measures storage, so it is the default; a file system that refuses it is an error and never a silent
//! fall-back.
//!
//! **Names.** A path names a file or a block device; a folder stands for the test file in it ([`TEST_FILE_NAME`]); an
//! NBD URI names an export, an NFS or root URI a file of a server, the path of a Unix socket the default export of the
//! NBD server there; `null:SIZE` is a target that does nothing.
//!
//! **Writing** must be requested, and [`raidlab_device::safety::permit_write`] checks the very file that is then
//! written. A block device is then opened with `O_EXCL`, so the kernel also refuses what is mounted or held.

mod local;

use crate::engine::EngineKind;
use crate::error::LoadError;
use crate::lay_out::{LayOut, LayOutContent, LayOutProgress};
use crate::nfs::NfsFile;
use crate::remote::{self, RemoteError, is_remote_uri, open_remote};
use crate::samples::SampleFolder;
use crate::xrootd::{XrootdFile, is_xrootd_uri};
use local::{Look, block_bytes, is_block_device, is_socket, lay_out_if_needed, open_for_load};
use raidlab_device::{NbdClient, NbdError, is_nbd_uri, null_size_text, safety};
use raidlab_nbd::{NbdUri, TransmissionFlags};
use raidlab_units::ByteCount;
use raidlab_workload::{Accelerator, AccessLine, AccessSpec};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Name of the test file in a folder that was given as a target.
pub const TEST_FILE_NAME: &str = "raidlab-test-file";
/// Blocks of buffered I/O, and of the no-op target.
const BUFFERED_BLOCK_BYTES: u32 = 512;
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
    /// Names the target whose data may be destroyed; see [`raidlab_device::safety`].
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
    /// Sample files in a folder.
    Samples,
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
    /// For sample files only.
    samples: Option<Arc<SampleFolder>>,
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
        if options.may_write && look.kind == TargetKind::File {
            safety::share_file(path, &file)?;
        }
        let block_bytes = block_bytes(path, &file, look.kind, options.direct)?;
        tracing::debug!(path = %path.display(), %size, block_bytes, direct = options.direct, "target is open");
        Ok(Self {
            path: path.into(),
            file: Some(file),
            export: None,
            shared: None,
            samples: None,
            kind: look.kind,
            size,
            block_bytes,
            direct: options.direct,
            may_write: options.may_write,
        })
    }

    /// Opens the sample files of `it` in the folder `path`, for reading; with a size in `options` they are laid out if they are not there.
    ///
    /// # Errors
    /// [`LoadError::NoSamples`], [`LoadError::OtherSamples`], [`LoadError::NoSpace`], [`LoadError::Cancelled`], and what the system answers.
    pub fn open_samples(
        path: &Path,
        it: &Accelerator,
        options: &TargetOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<Self, LoadError> {
        let how = (options.lay_out, options.direct);
        let samples = SampleFolder::open(path, it, how, cancel, progress)?;
        let block_bytes = if options.direct {
            let file = samples.open_file(0).map_err(|errno| match errno {
                Errno::INVAL => LoadError::DirectRefused { path: path.into() },
                errno => LoadError::System { path: path.into(), op: "open the first sample of", errno },
            })?;
            block_bytes(path, &file, TargetKind::File, true)?
        } else {
            1
        };
        Ok(Self {
            path: path.into(),
            file: None,
            export: None,
            shared: None,
            kind: TargetKind::Samples,
            size: samples.files().region(),
            samples: Some(Arc::new(samples)),
            block_bytes,
            direct: options.direct,
            may_write: false,
        })
    }

    /// The sample files, where it is a folder of these.
    pub fn samples(&self) -> Option<&SampleFolder> {
        self.samples.as_deref()
    }

    /// The sample files, for an engine.
    pub(crate) fn sample_folder(&self) -> Result<Arc<SampleFolder>, LoadError> {
        let (path, engine) = (|| self.path.clone(), EngineKind::Files.name());
        self.samples.clone().ok_or_else(|| LoadError::EngineUnfit { path: path(), engine })
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
            let image = client.look().map_err(nbd)?;
            safety::permit_write_export(path, &image, options.destroy_data.as_deref())?;
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
            samples: None,
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
        if let Some(image) = found.image.filter(|_| !found.is_ours) {
            safety::permit_write_export(path, &image, options.destroy_data.as_deref())?;
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
            samples: None,
            kind: if is_xrootd { TargetKind::Xrootd } else { TargetKind::Nfs },
            size: found.data_bytes,
            block_bytes: BUFFERED_BLOCK_BYTES,
            direct: true,
            may_write: options.may_write,
        })
    }

    /// The target that does nothing, if `path` names one.
    fn null_of(path: &Path) -> Result<Option<Self>, LoadError> {
        let Some(size) = null_size_text(path) else {
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
            samples: None,
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

    /// What requests of `spec` are multiples of: its blocks; but the page cache takes any length of a file, so that a workload whose
    /// lengths are no whole blocks goes by single bytes there.
    pub fn blocks_for(&self, spec: &AccessSpec) -> u32 {
        let block = self.block_bytes;
        let takes_any = self.kind == TargetKind::NoOp || (self.kind == TargetKind::File && !self.direct);
        let is_whole = |line: &AccessLine| {
            [line.bytes, line.alignment_bytes(block)].iter().all(|bytes| bytes.is_multiple_of(block))
        };
        if takes_any && !spec.all_lines().all(is_whole) { 1 } else { block }
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
