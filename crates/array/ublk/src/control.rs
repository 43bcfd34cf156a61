//! The control device: commands that create, start, stop and delete block devices, on a ring of their own.
//!
//! These commands need long ring entries, which the array's ring does not have. Some commands wait for the array's loop
//! (a start for the commands that fetch requests, a stop for the completions of requests); those are submitted here and
//! polled later, all others block.
//!
//! Invariant: the memory that a command names lives until its completion, or is leaked.
#![allow(unsafe_code)]

use crate::error::UblkError;
use crate::uapi::{CONTROL_PATH, DeviceInfo, command, control_command};
use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Commands in flight at most.
const ENTRIES: u32 = 8;
/// Longest wait for a command that waits for nothing of ours.
const PATIENCE: Timespec = Timespec::new().sec(10);

/// The control device with its ring.
pub(crate) struct Control {
    // Dropped first: it waits for commands that are in flight.
    ring: IoUring<Entry128, cqueue::Entry>,
    device: OwnedFd,
    begun: u64,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// In words.
    pub(crate) doing: &'static str,
    /// One of [`command`].
    pub(crate) number: u32,
    /// To which device.
    pub(crate) device: u32,
    /// Its word, 0 for most.
    pub(crate) data: u64,
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// [`UblkError`]: there is none, not for this user, or no ring.
    pub(crate) fn open() -> Result<Self, UblkError> {
        let path = PathBuf::from(CONTROL_PATH);
        let device = match rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => device,
            Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => return Err(UblkError::NotThere { path }),
            Err(Errno::ACCESS | Errno::PERM) => return Err(UblkError::NotPermitted { path }),
            Err(errno) => {
                return Err(UblkError::Io { doing: "open /dev/ublk-control", source: errno.into() });
            }
        };
        let ring = IoUring::builder().build(ENTRIES).map_err(|source| UblkError::Io {
            doing: "set up an io_uring with long entries (Linux 5.19)",
            source,
        })?;
        Ok(Self { ring, device, begun: 0 })
    }

    /// Readable when a command that was begun has ended.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Begins a command without memory. Its end is found by [`Control::poll_end`].
    ///
    /// # Errors
    /// [`UblkError::Io`].
    pub(crate) fn begin(&mut self, command: Command) -> Result<(), UblkError> {
        self.push(command, None)?;
        self.ring.submit().map(drop).map_err(|source| UblkError::Io { doing: command.doing, source })
    }

    /// Returns how a command ended that was begun.
    pub(crate) fn poll_end(&mut self) -> Option<Result<(), Errno>> {
        let entry = self.ring.completion().next()?;
        Some(ended(&entry))
    }

    /// Does a command with the memory that it reads or fills, and waits for its end. Nothing that was begun may be in flight.
    ///
    /// # Errors
    /// [`UblkError::Io`], also if it takes too long.
    pub(crate) fn call(&mut self, command: Command, memory: &mut [u8]) -> Result<(), UblkError> {
        let failed = |source| UblkError::Io { doing: command.doing, source };
        // On the heap, so that it can be left behind.
        let mut own: Box<[u8]> = memory.into();
        self.push(command, Some(&mut own))?;
        let waited = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&PATIENCE));
        let entry = self.ring.completion().next();
        match (entry, waited) {
            (Some(entry), _) => {
                memory.copy_from_slice(&own);
                ended(&entry).map_err(|errno| match errno {
                    Errno::PERM | Errno::ACCESS => UblkError::NotPermitted { path: CONTROL_PATH.into() },
                    errno => failed(errno.into()),
                })
            }
            (None, waited) => {
                // The driver may still write there.
                std::mem::forget(own);
                Err(failed(waited.err().unwrap_or_else(|| io::ErrorKind::TimedOut.into())))
            }
        }
    }

    fn push(&mut self, command: Command, memory: Option<&mut [u8]>) -> Result<(), UblkError> {
        let Command { doing, number, device, data } = command;
        let memory = memory.map(|memory| (memory.as_mut_ptr() as u64, memory.len() as u16));
        let bytes = control_command(device, memory, data);
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(bytes).build();
        self.begun += 1;
        // SAFETY: memory that is named is on the heap and lives until the completion, or for ever: see `call`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| UblkError::Io { doing, source: io::ErrorKind::OutOfMemory.into() })
    }

    /// What the driver knows of a device.
    ///
    /// # Errors
    /// [`UblkError::Io`].
    pub(crate) fn info(&mut self, device: u32) -> Result<DeviceInfo, UblkError> {
        let mut bytes = [0; DeviceInfo::BYTES];
        let number = command::GET_DEV_INFO;
        self.call(Command { doing: "ask for a ublk device", number, device, data: 0 }, &mut bytes)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Takes away a device. Its number is free when nobody has it open or mounted any more, which is not waited for where
    /// the driver can do without (Linux 6.9).
    ///
    /// # Errors
    /// [`UblkError::Io`].
    pub(crate) fn delete(&mut self, device: u32) -> Result<(), UblkError> {
        let doing = "delete a ublk device";
        let mut delete = |number| self.call(Command { doing, number, device, data: 0 }, &mut []);
        match delete(command::DEL_DEV_ASYNC) {
            Err(UblkError::Io { source, .. }) if is_unknown(&source) => delete(command::DEL_DEV),
            deleted => deleted,
        }
    }
}

/// What a driver says to a command that it does not know.
fn is_unknown(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::INVAL))
}

fn ended(entry: &cqueue::Entry) -> Result<(), Errno> {
    match entry.result() {
        result if result < 0 => Err(Errno::from_raw_os_error(-result)),
        _ => Ok(()),
    }
}
