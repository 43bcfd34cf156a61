//! Files of an NFS server, by the client library libnfs, which needs no mount and no kernel module.
//!
//! ```text
//! nfs://host/export/file?version=4&nfsport=20049        libnfs's own form; its arguments are libnfs's too
//! ```
//! [`library`](self::library) finds libnfs when it is first needed and is the only place with its calls; [`NfsFile`] is an
//! open file over a connection of its own; [`crate::NfsEngine`] keeps requests in flight on such files.
//!
//! Nothing is cached here: libnfs's page cache and read-ahead stay off unless the URI asks for them. A write ends when the
//! server has taken it (UNSTABLE), as it does for any NFS client before its fsync.

mod file;
mod library;

pub(crate) use file::{Call, CallEnd, NfsFile, errno_of};
pub use library::{NfsLibrary, nfs_library};

use crate::lay_out::LayOutProgress;
use crate::noise;
use crate::safety::{DeviceImage, ExportLook};
use crate::trailer::{TRAILER_BYTES, Trailer};
use raidlab_units::ByteCount;
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a file of an NFS server can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NfsError {
    /// libnfs is not there.
    #[error("{0}")]
    Library(String),
    /// The URI is none of libnfs's.
    #[error(
        "it is no URI of a file: write nfs://host/export/file, and for NFS 4 '?version=4' behind it ({said})"
    )]
    Uri {
        /// What libnfs said.
        said: String,
    },
    /// A call failed.
    #[error("cannot {op}: {errno} ({said})")]
    Call {
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// The server's answer, or the connection's.
        errno: Errno,
        /// What libnfs said.
        said: String,
    },
    /// The user stopped the lay-out.
    #[error("stopped while it was laid out; it was taken away again")]
    Cancelled,
}

/// Whether a name is the URI of a file of an NFS server, and not a path.
pub fn is_nfs_uri(path: &Path) -> bool {
    const SCHEME: &[u8] = b"nfs://";
    let text = path.as_os_str().as_encoded_bytes();
    text.get(..SCHEME.len()).is_some_and(|it| it.eq_ignore_ascii_case(SCHEME))
}

/// Bytes that are written at once when a file is laid out.
const PIECE_BYTES: u64 = 1 << 20;
/// Places between the ends that are looked at before a file is taken for empty, and what is read at each.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4096;

/// What a file of a server is.
#[derive(Debug)]
pub(crate) struct NfsLook {
    /// Bytes of data, without raidlab's mark.
    pub(crate) data_bytes: ByteCount,
    /// It has raidlab's mark.
    pub(crate) is_ours: bool,
    /// What else it holds; not looked at where it is raidlab's.
    pub(crate) look: Option<ExportLook>,
}

/// Looks at an open file; `thoroughly` for one that is to be written over.
pub(crate) fn look(file: &mut NfsFile, thoroughly: bool) -> Result<NfsLook, NfsError> {
    let bytes = file.bytes();
    if let Some(data_bytes) = bytes.checked_sub(TRAILER_BYTES) {
        let mark = file.read(data_bytes, TRAILER_BYTES)?;
        let trailer = Trailer::decode(&mark).filter(|it| it.data_bytes.get() == data_bytes && it.complete);
        if let Some(trailer) = trailer {
            return Ok(NfsLook { data_bytes: trailer.data_bytes, is_ours: true, look: None });
        }
    }
    let mut look = None;
    if thoroughly {
        let window = DeviceImage::WINDOW_BYTES.min(bytes);
        let (head, tail) = (file.read(0, window)?, file.read(bytes - window, window)?);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let mut is_blank = is_zero(&head) && is_zero(&tail);
        for sample in 0..SAMPLES {
            let at = bytes / SAMPLES * sample;
            is_blank = is_blank && is_zero(&file.read(at, SAMPLE_BYTES.min(bytes - at))?);
        }
        look = Some(ExportLook { image: DeviceImage::new(head, tail, bytes), is_blank });
    }
    Ok(NfsLook { data_bytes: ByteCount(bytes), is_ours: false, look })
}

/// Makes a file of `bytes` of noise with raidlab's mark behind them, where there is none.
pub(crate) fn lay_out(
    uri: &Path,
    bytes: ByteCount,
    seed: u64,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<(), NfsError> {
    let mut file = NfsFile::create(uri)?;
    let written = write_all(&mut file, bytes, seed, cancel, progress);
    if written.is_err()
        && let Err(error) = file.unlink()
    {
        tracing::warn!(%error, "a file that was not laid out to its end stays on the server");
    }
    written
}

fn write_all(
    file: &mut NfsFile,
    bytes: ByteCount,
    seed: u64,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<(), NfsError> {
    let (total, mut at) = (bytes.get(), 0);
    let mut piece = vec![0; PIECE_BYTES as usize];
    while at < total {
        if cancel.load(Ordering::Relaxed) {
            return Err(NfsError::Cancelled);
        }
        let length = PIECE_BYTES.min(total - at);
        noise::fill(seed, at / 8, &mut piece[..length as usize]);
        file.write(at, &piece[..length as usize])?;
        at += length;
        progress(LayOutProgress { written: ByteCount(at), total: bytes });
    }
    file.write(total, &Trailer { complete: true, data_bytes: bytes, seed }.encode())?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_told_from_paths() {
        for (name, is_uri) in
            [("nfs://host/a/b", true), ("NFS://host/a/b", true), ("nfs:/a", false), ("a/nfs://b", false)]
        {
            assert_eq!(is_nfs_uri(Path::new(name)), is_uri, "{name}");
        }
    }

    #[test]
    fn what_is_no_server_is_an_error_and_no_end() {
        // Port 1 is nobody's.
        let rows = ["nfs://", "nfs://127.0.0.1", "nfs://127.0.0.1/a/b?version=4&nfsport=1", "nfs://a\0b/c/d"];
        for uri in rows {
            let error = NfsFile::open(Path::new(uri), false).unwrap_err();
            match (&error, nfs_library()) {
                (NfsError::Library(how), Err(_)) => assert!(how.contains("install"), "{how}"),
                (NfsError::Uri { .. } | NfsError::Call { .. }, Ok(_)) => {}
                _ => panic!("{uri}: {error}"),
            }
        }
    }
}
