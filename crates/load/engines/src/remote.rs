//! Files of file servers through a client library, without a mount: what NFS and `XRootD` have in common.
//!
//! ```text
//! nfs://host/export/file?version=4      libnfs       any number of calls on a connection    crate::nfs
//! root://host//data/file                libXrdPosix  a call for each thread                 crate::xrootd
//! ```
//! A library is loaded on first use. A [`RemoteFile`] is an open file by either. A file laid out on a server has the
//! same mark behind its data as a local test file ([`crate::trailer`]), and other files are examined before they are
//! overwritten.
//!
//! Nothing is cached on this machine.

use crate::lay_out::{LayOut, LayOutContent, LayOutProgress};
use crate::nfs::{NfsFile, is_nfs_uri};
use crate::noise;
use crate::xrootd::{XrootdFile, is_xrootd_uri};
use raidlab_device::safety::DeviceImage;
use raidlab_device::{TRAILER_BYTES, Trailer};
use raidlab_units::ByteCount;
use rustix::io::Errno;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a file of a file server can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The client library is not there.
    #[error("{0}")]
    Library(String),
    /// The URI is none of the library's.
    #[error("it is no URI of a file: write {form} ({said})")]
    Uri {
        /// How such a URI looks.
        form: &'static str,
        /// What the library said.
        said: String,
    },
    /// A call failed.
    #[error("cannot {op}: {errno} ({said})")]
    Call {
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// The server's answer, or the connection's.
        errno: Errno,
        /// What the library said, or what it means.
        said: String,
    },
    /// A file of another length is there already.
    #[error(
        "a file is there that is not the {wanted} of raidlab's that are needed: take it away, or name another place"
    )]
    InTheWay {
        /// Length of the data that was asked for.
        wanted: ByteCount,
    },
    /// The user stopped the lay-out.
    #[error("stopped while it was laid out; it was taken away again")]
    Cancelled,
}

impl RemoteError {
    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Call { errno: Errno::NOENT, .. })
    }
}

/// An open file of a file server.
pub(crate) trait RemoteFile: Debug + Send {
    /// Bytes that it had when it was opened.
    fn bytes(&self) -> u64;

    /// Reads into `into` from `offset` on and returns how many bytes there were: fewer only at the file's end.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, RemoteError>;

    /// Writes `bytes` at `offset`.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RemoteError>;

    /// Has the server make durable what was written.
    fn sync(&mut self) -> Result<(), RemoteError>;

    /// Takes the file's name away.
    fn unlink(&mut self) -> Result<(), RemoteError>;
}

/// Whether a name is the URI of a file or folder of a file server, and not a path.
pub fn is_remote_uri(path: &Path) -> bool {
    is_nfs_uri(path) || is_xrootd_uri(path)
}

/// The URI of the file called `name` in the folder that `folder` is the URI of; arguments stay behind it.
pub fn uri_in_folder(folder: &Path, name: &str) -> PathBuf {
    let text = folder.to_string_lossy();
    let (place, arguments) = text.split_once('?').map_or((&*text, None), |(place, rest)| (place, Some(rest)));
    let file = format!("{}/{name}", place.strip_suffix('/').unwrap_or(place));
    PathBuf::from(arguments.map_or(file.clone(), |arguments| format!("{file}?{arguments}")))
}

/// Opens the file that `uri` names, for reading or also for writing.
pub(crate) fn open_remote(uri: &Path, may_write: bool) -> Result<Box<dyn RemoteFile>, RemoteError> {
    if is_xrootd_uri(uri) {
        return Ok(Box::new(XrootdFile::open(uri, may_write)?));
    }
    Ok(Box::new(NfsFile::open(uri, may_write)?))
}

fn create_remote(uri: &Path) -> Result<Box<dyn RemoteFile>, RemoteError> {
    if is_xrootd_uri(uri) {
        return Ok(Box::new(XrootdFile::create(uri)?));
    }
    Ok(Box::new(NfsFile::create(uri)?))
}

/// Takes the file that `uri` names away.
///
/// # Errors
/// [`RemoteError`]: no library, no server, no such file.
pub fn remove_remote(uri: &Path) -> Result<(), RemoteError> {
    open_remote(uri, true)?.unlink()
}

/// Bytes that are written at once when a file is laid out.
const PIECE_BYTES: u64 = 1 << 20;

/// What a file of a server is.
#[derive(Debug)]
pub(crate) struct RemoteLook {
    /// Bytes of data, without raidlab's mark.
    pub(crate) data_bytes: ByteCount,
    /// It has raidlab's mark.
    pub(crate) is_ours: bool,
    /// What else it holds; not looked at where it is raidlab's.
    pub(crate) image: Option<DeviceImage>,
}

/// Looks at an open file; `thoroughly` for one that is to be written over.
pub(crate) fn look(file: &mut dyn RemoteFile, thoroughly: bool) -> Result<RemoteLook, RemoteError> {
    let bytes = file.bytes();
    if let Some(trailer) = trailer_of(file)? {
        return Ok(RemoteLook { data_bytes: trailer.data_bytes, is_ours: true, image: None });
    }
    let mut image = None;
    if thoroughly {
        let window = DeviceImage::WINDOW_BYTES.min(bytes);
        let (head, tail) = (piece(file, 0, window)?, piece(file, bytes - window, window)?);
        image = Some(DeviceImage::new(head, tail, bytes));
    }
    Ok(RemoteLook { data_bytes: ByteCount(bytes), is_ours: false, image })
}

/// The mark behind the data of a file that was laid out to its end.
fn trailer_of(file: &mut dyn RemoteFile) -> Result<Option<Trailer>, RemoteError> {
    let Some(data_bytes) = file.bytes().checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let mark = piece(file, data_bytes, TRAILER_BYTES)?;
    Ok(Trailer::decode(&mark).filter(|it| it.data_bytes.get() == data_bytes && it.complete))
}

/// A piece of a file, which must have it.
fn piece(file: &mut dyn RemoteFile, offset: u64, bytes: u64) -> Result<Vec<u8>, RemoteError> {
    let mut read = vec![0; bytes as usize];
    if file.read_at(offset, &mut read)? < read.len() {
        let said = "it has become shorter".to_owned();
        return Err(RemoteError::Call { op: "read the file", errno: Errno::IO, said });
    }
    Ok(read)
}

/// Makes a file of noise with raidlab's mark behind it, where there is none; one that was laid out alike is left. Returns whether
/// it was made.
///
/// # Errors
/// [`RemoteError`]: no library, no server, another file in the way, a failing write, or `cancel`.
///
/// # Panics
/// If anything but noise is to be laid out.
pub fn lay_out_remote(
    uri: &Path,
    order: &LayOut,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<bool, RemoteError> {
    assert!(order.content == LayOutContent::Noise, "only noise is laid out on servers");
    match open_remote(uri, false) {
        Ok(mut file) => {
            let wanted = Trailer { complete: true, data_bytes: order.bytes, seed: order.seed };
            let is_wanted = trailer_of(&mut *file)? == Some(wanted);
            return if is_wanted { Ok(false) } else { Err(RemoteError::InTheWay { wanted: order.bytes }) };
        }
        Err(error) if !error.is_missing() => return Err(error),
        Err(_) => {}
    }
    let mut file = create_remote(uri)?;
    let written = write_all(&mut *file, order, cancel, progress);
    if written.is_err()
        && let Err(error) = file.unlink()
    {
        tracing::warn!(%error, "a file that was not laid out to its end stays on the server");
    }
    written.map(|()| true)
}

fn write_all(
    file: &mut dyn RemoteFile,
    order: &LayOut,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<(), RemoteError> {
    let (total, mut at) = (order.bytes.get(), 0);
    let mut piece = vec![0; PIECE_BYTES as usize];
    while at < total {
        if cancel.load(Ordering::Relaxed) {
            return Err(RemoteError::Cancelled);
        }
        let length = PIECE_BYTES.min(total - at);
        noise::fill(order.seed, at / 8, &mut piece[..length as usize]);
        file.write_at(at, &piece[..length as usize])?;
        at += length;
        progress(LayOutProgress { written: ByteCount(at), total: order.bytes });
    }
    let trailer = Trailer { complete: true, data_bytes: order.bytes, seed: order.seed };
    file.write_at(total, &trailer.encode())?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::nfs_library;
    use crate::xrootd::xrootd_library;

    #[test]
    fn uris_are_told_from_paths() {
        for (name, is_nfs, is_root) in [
            ("nfs://host/a/b", true, false),
            ("NFS://host/a/b", true, false),
            ("root://host//a", false, true),
            ("xroots://host:1095//a", false, true),
            ("nfs:/a", false, false),
            ("root:", false, false),
            ("a/root://b", false, false),
        ] {
            let path = Path::new(name);
            assert_eq!((is_nfs_uri(path), is_xrootd_uri(path)), (is_nfs, is_root), "{name}");
            assert_eq!(is_remote_uri(path), is_nfs || is_root);
        }
    }

    #[test]
    fn a_file_in_a_folder_keeps_the_arguments() {
        for (folder, file) in [
            ("nfs://host/export?version=4&nfsport=1", "nfs://host/export/f?version=4&nfsport=1"),
            ("nfs://host/export/", "nfs://host/export/f"),
            ("root://host//data", "root://host//data/f"),
            ("root://host//data/?x=1", "root://host//data/f?x=1"),
        ] {
            assert_eq!(uri_in_folder(Path::new(folder), "f"), Path::new(file));
        }
    }

    #[test]
    fn what_is_no_server_is_an_error_and_no_end() {
        // Port 1 is nobody's.
        let nfs = ["nfs://", "nfs://127.0.0.1", "nfs://127.0.0.1/a/b?version=4&nfsport=1", "nfs://a\0b/c/d"];
        let root = ["root://", "root://127.0.0.1:1", "root://127.0.0.1:1//a/b", "root://a\0b//c"];
        for uri in nfs.iter().chain(&root) {
            let error = open_remote(Path::new(uri), false).unwrap_err();
            let is_there = if nfs.contains(uri) { nfs_library().is_ok() } else { xrootd_library().is_ok() };
            match &error {
                RemoteError::Library(how) if !is_there => assert!(how.contains("install"), "{how}"),
                RemoteError::Uri { .. } | RemoteError::Call { .. } if is_there => {}
                _ => panic!("{uri}: {error}"),
            }
            assert!(!error.is_missing(), "{uri}: {error}");
        }
    }
}
