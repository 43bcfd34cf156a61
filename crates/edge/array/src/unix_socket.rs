//! A Unix socket to listen on: what a server that is gone left at its path is replaced, anything else is left alone.
//!
//! Only its owner may connect, whatever the umask: a socket's mode becomes that of its file when it is bound (unix(7), Linux).

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

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

/// Listens on `path`, for its owner only. A socket that nobody listens on any more is replaced.
///
/// # Errors
/// [`UnixSocketError`]: a server that is there, something else in the way, or the system's refusal.
pub fn listen_unix(path: &Path) -> Result<UnixListener, UnixSocketError> {
    let path = path.to_owned();
    match listen_for_owner(&path) {
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
        .and_then(|()| listen_for_owner(&path))
        .map_err(|source| UnixSocketError::Io { path, source })
}

fn listen_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
