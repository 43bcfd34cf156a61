//! A Unix socket to listen on: what a server that is gone left at its path is replaced, anything else is left alone.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why a socket can't be listened on.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// A server answers there.
    #[error("{} is in use: a server listens there already", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else than a socket stands there.
    #[error("{} is no socket and is left alone: name another place", path.display())]
    NoSocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refused.
    #[error("can't listen on {}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens on `path`. A socket that nobody listens on any more is replaced.
///
/// # Errors
/// [`UnixSocketError`]: a server that is there, something else in the way, or the system's refusal.
pub fn listen_unix(path: &Path) -> Result<UnixListener, UnixSocketError> {
    let path = path.to_owned();
    match UnixListener::bind(&path) {
        Ok(listener) => return Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        Err(source) => return Err(UnixSocketError::Io { path, source }),
    }
    match std::fs::symlink_metadata(&path) {
        Ok(facts) if facts.file_type().is_socket() => {}
        Ok(_) => return Err(UnixSocketError::NoSocket { path }),
        Err(source) => return Err(UnixSocketError::Io { path, source }),
    }
    match UnixStream::connect(&path) {
        Ok(_) => return Err(UnixSocketError::InUse { path }),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Err(source) => return Err(UnixSocketError::Io { path, source }),
    }
    std::fs::remove_file(&path)
        .and_then(|()| UnixListener::bind(&path))
        .map_err(|source| UnixSocketError::Io { path, source })
}
