//! A block device, a file or an NBD export opened for an array, with its length, and small reads and writes.
//!
//! ```text
//! /dev/sdb, member0            ─► LocalDevice
//! nbd://host/export,
//! nbd+unix:///e?socket=PATH    ─► RemoteDevice ─► a running array's Link
//! ```
//! These reads and writes are for start, creation and joining, and may block; I/O of a running array goes through the
//! ring.
//!
//! A name that begins like an NBD URI is one; `./nbd://x` names a file.

mod local;
mod remote;
mod watch;

pub(crate) use local::{LocalDevice, allocation_failed, folder_of, space_of};
pub(crate) use remote::RemoteDevice;
pub(crate) use watch::{Watched, begin, begin_change, blame, watched};

use crate::error::DeviceError;
use crate::kernel::Clock;
pub use raidlab_device::is_nbd_uri;
use raidlab_nbd::TransmissionFlags;
use raidlab_units::{ByteCount, NanoSpan};
use std::io;
use std::path::Path;

/// I/O here is done in whole units of this, and all structures on a device are made of them.
const UNIT_BYTES: u64 = 4096;
/// Zeros are written in pieces of this where the device can't make them itself.
const ZEROS_BYTES: u64 = 1 << 20;

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be read only.
    Look,
    /// To be part of an array.
    Use,
}

/// How what was written to a device becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushing {
    /// By a flush, and single writes by FUA.
    Whole,
    /// By a flush; a write that is to be durable by itself is followed by one.
    WithoutFua,
    /// There is no flush, but FUA: every write has it.
    FuaOnly,
    /// There is neither: there is no volatile cache, and each write is durable when it is acknowledged.
    NoCache,
}

impl Flushing {
    /// Of an export, by what its server offers.
    pub(crate) const fn of(flags: TransmissionFlags) -> Self {
        let (flush, fua) =
            (flags.contains(TransmissionFlags::SEND_FLUSH), flags.contains(TransmissionFlags::SEND_FUA));
        match (flush, fua) {
            (true, true) => Self::Whole,
            (true, false) => Self::WithoutFua,
            (false, true) => Self::FuaOnly,
            (false, false) => Self::NoCache,
        }
    }

    /// Whether a flush is to be sent.
    pub(crate) const fn has_flush(self) -> bool {
        matches!(self, Self::Whole | Self::WithoutFua)
    }

    /// Whether a write carries FUA that is to be durable, or not, when it completes.
    pub(crate) const fn has_fua(self, durable: bool) -> bool {
        matches!(self, Self::FuaOnly) || durable && matches!(self, Self::Whole)
    }

    /// Whether such a write is followed by a flush.
    pub(crate) const fn flushes_after(self, durable: bool) -> bool {
        durable && matches!(self, Self::WithoutFua)
    }
}

/// Tries `open` again for a while if it finds the device in use: the kernel lets go of the files of a process that was
/// killed only when its last I/O has ended, and whoever starts an array again at once must not go on without them.
pub(crate) fn with_patience<T, E>(
    open: impl Fn() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    const PATIENCE: NanoSpan = NanoSpan::from_millis(10_000);
    const PAUSE: NanoSpan = NanoSpan::from_millis(10);
    let clock = Clock::new();
    let began = clock.now();
    loop {
        match open() {
            Err(error) if is_in_use(&error) && clock.now() - began < PATIENCE => clock.pause(PAUSE),
            outcome => return outcome,
        }
    }
}

/// An open device.
#[derive(Debug)]
pub(crate) enum Device {
    /// A file or a block device.
    Local(LocalDevice),
    /// An export of an NBD server.
    Remote(Box<RemoteDevice>),
}

impl Device {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// [`DeviceError`]: it does not exist, is no storage, is in use, has no direct I/O, or its server refuses.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Self, DeviceError> {
        if is_nbd_uri(path) {
            return Ok(Self::Remote(Box::new(RemoteDevice::open(path, purpose)?)));
        }
        LocalDevice::open(path, purpose).map(Self::Local)
    }

    /// Whether somebody has it, so that it can't be opened for use. Of an export that can't be known.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Local(device) if LocalDevice::is_taken(device.path()))
    }

    /// Why it can't be written, if that is known without a write.
    pub(crate) fn write_refusal(&self) -> Option<DeviceError> {
        match self {
            Self::Local(device) => LocalDevice::write_refusal(device.path()),
            Self::Remote(_) => None,
        }
    }

    /// The path or URI as it was given.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Local(device) => device.path(),
            Self::Remote(device) => device.path(),
        }
    }

    /// Its length.
    pub(crate) const fn bytes(&self) -> ByteCount {
        match self {
            Self::Local(device) => device.bytes(),
            Self::Remote(device) => device.bytes(),
        }
    }

    /// Whether it is the file or block device that `path` leads to.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        matches!(self, Self::Local(device) if device.is_at(path))
    }

    /// Whether two are the same file or device. Two exports are known to be one only if they have one name; see
    /// [`crate::create`] for the others.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(one), Self::Local(other)) => one.is_same(other),
            (Self::Remote(one), Self::Remote(other)) => one.is_same(other),
            _ => false,
        }
    }

    /// Smallest unit, in bytes, that I/O can be done in.
    pub(crate) fn io_unit(&self) -> ByteCount {
        match self {
            Self::Local(device) => device.direct_io_unit(),
            Self::Remote(device) => device.io_unit(),
        }
    }

    /// Reads up to `bytes` from `offset` on, both whole units of 4 KiB: what there is of them before the device's end.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        match self {
            Self::Local(device) => device.read(offset, bytes),
            Self::Remote(device) => device.read(offset, bytes),
        }
    }

    /// Writes whole units of 4 KiB at `offset`.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        match self {
            Self::Local(device) => device.write(offset, bytes),
            Self::Remote(device) => device.write(offset, bytes),
        }
    }

    /// Makes `bytes` from `offset` on zeros, both whole units of 4 KiB: by the device itself where it can.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        match self {
            Self::Local(device) => device.zero(offset, bytes),
            Self::Remote(device) => device.zero(offset, bytes),
        }
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        match self {
            Self::Local(device) => device.sync(),
            Self::Remote(device) => device.sync(),
        }
    }
}

/// Whether a name names something that is there. An export is there, or it can't be used: nobody makes one.
pub(crate) fn is_there(path: &Path) -> bool {
    is_nbd_uri(path) || path.try_exists().unwrap_or(true)
}

pub(crate) fn failed(doing: &'static str, path: &Path, source: io::Error) -> DeviceError {
    DeviceError::Io { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_told_from_paths() {
        for uri in ["nbd://h", "NBD://h/e", "nbd+unix:///e?socket=s", "nbds://h", "nbds+unix:///?socket=s"] {
            assert!(is_nbd_uri(Path::new(uri)), "{uri}");
        }
        for path in ["./nbd://h", "/dev/nbd0", "nbd", "nbd:/h", "http://h", ""] {
            assert!(!is_nbd_uri(Path::new(path)), "{path}");
        }
    }
}
