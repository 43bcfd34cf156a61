//! An open file of an `XRootD` server.
//!
//! Invariant: the library's file number is closed once, when nothing uses it any more. Many threads may make calls on
//! one number at once; the client numbers its requests and sorts the answers.
#![allow(unsafe_code)]

use super::library::{MODE, XrootdLibrary, xrootd_library};
use crate::remote::{RemoteError, RemoteFile};
use rustix::io::Errno;
use std::ffi::{CString, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How a URI looks.
const FORM: &str = "root://host//path/to/file";

/// An open file.
#[derive(Debug)]
pub(crate) struct XrootdFile {
    library: &'static XrootdLibrary,
    number: c_int,
    uri: CString,
    bytes: u64,
}

impl XrootdFile {
    /// Opens the file that `uri` names, for reading or also for writing.
    pub(crate) fn open(uri: &Path, may_write: bool) -> Result<Self, RemoteError> {
        Self::open_with(uri, if may_write { libc::O_RDWR } else { libc::O_RDONLY }, "open the file")
    }

    /// Makes the file that `uri` names, which must not be there, and the folders above it.
    pub(crate) fn create(uri: &Path) -> Result<Self, RemoteError> {
        Self::open_with(uri, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, "make the file")
    }

    fn open_with(uri: &Path, flags: c_int, op: &'static str) -> Result<Self, RemoteError> {
        let library = xrootd_library()?;
        check_form(uri)?;
        let no_uri = |_| RemoteError::Uri { form: FORM, said: "it has a zero byte in it".into() };
        let uri = CString::new(uri.as_os_str().as_bytes()).map_err(no_uri)?;
        // SAFETY: the URI is alive, and the third argument is the mode, as for open(2).
        let number = unsafe { (library.open)(uri.as_ptr(), flags, MODE) };
        checked(op, number as isize)?;
        let mut file = Self { library, number, uri, bytes: 0 };
        let mut stat = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the file is open, and the struct is the system's own.
        let result = unsafe { (library.fstat)(file.number, stat.as_mut_ptr()) };
        checked("look at the file", result as isize)?;
        // SAFETY: all zeros is a value of it, and the call filled it in.
        file.bytes = u64::try_from(unsafe { stat.assume_init() }.st_size).unwrap_or(0);
        Ok(file)
    }

    /// Reads up to the length of `into` from `offset` on; nothing at the file's end.
    pub(crate) fn read_once(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the file is open, and the memory is as long as is said.
        let result = unsafe {
            (self.library.pread)(self.number, into.as_mut_ptr().cast(), into.len(), offset.cast_signed())
        };
        moved(result)
    }

    /// Writes some of `bytes` at `offset`.
    pub(crate) fn write_once(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: as for reading.
        let result = unsafe {
            (self.library.pwrite)(self.number, bytes.as_ptr().cast(), bytes.len(), offset.cast_signed())
        };
        moved(result)
    }

    /// Has the server make durable what was written.
    pub(crate) fn commit(&self) -> Result<(), Errno> {
        // SAFETY: the file is open.
        moved(unsafe { (self.library.fsync)(self.number) } as isize).map(drop)
    }
}

impl RemoteFile for XrootdFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, RemoteError> {
        let mut at = 0;
        while at < into.len() {
            match self.read_once(offset + at as u64, &mut into[at..]) {
                Ok(0) => break,
                Ok(bytes) => at += bytes,
                Err(errno) => return Err(failed("read the file", errno)),
            }
        }
        Ok(at)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RemoteError> {
        let mut at = 0;
        while at < bytes.len() {
            match self.write_once(offset + at as u64, &bytes[at..]) {
                Ok(0) => return Err(failed("write the file", Errno::IO)),
                Ok(bytes) => at += bytes,
                Err(errno) => return Err(failed("write the file", errno)),
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RemoteError> {
        self.commit().map_err(|errno| failed("make the file durable", errno))
    }

    fn unlink(&mut self) -> Result<(), RemoteError> {
        // SAFETY: the URI is alive.
        let result = unsafe { (self.library.unlink)(self.uri.as_ptr()) };
        checked("remove the file", result as isize)
    }
}

impl Drop for XrootdFile {
    fn drop(&mut self) {
        // SAFETY: the file is open, and nothing uses its number after this.
        if unsafe { (self.library.close)(self.number) } < 0 {
            tracing::debug!(errno = %last_error(), uri = ?self.uri, "a file was not closed well");
        }
    }
}

/// A server and a path behind it: what the client would otherwise take for a name on this machine, or a server's folder.
fn check_form(uri: &Path) -> Result<(), RemoteError> {
    let text = uri.to_string_lossy();
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    match rest.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.trim_matches('/').is_empty() => Ok(()),
        _ => Err(RemoteError::Uri { form: FORM, said: "a host or a path is missing".into() }),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn moved(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| last_error())
}

fn checked(op: &'static str, result: isize) -> Result<(), RemoteError> {
    moved(result).map(drop).map_err(|errno| failed(op, errno))
}

fn failed(op: &'static str, errno: Errno) -> RemoteError {
    RemoteError::Call { op, errno, said: meaning(errno).into() }
}

/// What the client means by an error number; it keeps its own words to itself.
/// Source: `XrdPosix/XrdPosixMap.cc` and `XProtocol/XProtocol.hh` of `XRootD` 5.5.
fn meaning(errno: Errno) -> &'static str {
    match errno {
        Errno::BADE => "the server wants authentication that the client could not give",
        Errno::ACCESS | Errno::PERM => "the server does not allow it to who the client logs in as",
        Errno::DEADLK => "another client has the file open, and the server locks it",
        Errno::TIME | Errno::TIMEDOUT => "the server gave no answer in time",
        Errno::CONNABORTED => "the server refused the login",
        _ if is_connection_gone(errno) => "no connection to the server",
        _ => "the server's answer",
    }
}

/// Whether an error number says that the connection ended or could not be made.
pub(crate) fn is_connection_gone(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::NOTCONN
            | Errno::NOTSOCK
            | Errno::TIMEDOUT
            | Errno::TIME
            | Errno::HOSTUNREACH
            | Errno::NETRESET
            | Errno::PIPE
    )
}
