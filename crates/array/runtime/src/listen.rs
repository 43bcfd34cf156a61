//! Listening sockets. The Unix socket of a dead server is replaced; anything else at that path is left alone.
//!
//! Only the owner of a Unix socket may connect, whatever the umask: a socket's mode becomes that of its file when it is bound
//! (unix(7), Linux).

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections that may wait to be accepted. When it is full, TCP's clients try again after 1 s at the earliest: more may wait than the
/// standard library asks for (128), so that a flood leaves room for others.
const BACKLOG: i32 = 1024;
/// How long a server that answers may take to be gone: the kernel takes the ring of one that was killed down some time after its end,
/// and its listening socket with it.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

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
    let begin = Instant::now();
    loop {
        match UnixStream::connect(&path) {
            Ok(_) if begin.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Ok(_) => return Err(UnixSocketError::InUse { path }),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(source) => return Err(UnixSocketError::Io { path, source }),
        }
    }
    std::fs::remove_file(&path)
        .and_then(|()| listen_for_owner(&path))
        .map_err(|source| UnixSocketError::Io { path, source })
}

/// Listens on a TCP address; port 0 takes a free one.
///
/// # Errors
/// The system's refusal.
pub fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn listen_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect: the server that came after one that was killed was refused, because the socket of the dead one still listened.
    #[test]
    fn a_socket_whose_server_is_about_to_go_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let before = listen_unix(&path).expect("it listens");
        let end = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 10);
            drop(before);
        });
        let _now = listen_unix(&path).expect("it listens, too");
        end.join().expect("it ends");
    }

    #[test]
    fn a_socket_whose_server_stays_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _before = listen_unix(&path).expect("it listens");
        assert!(matches!(listen_unix(&path), Err(UnixSocketError::InUse { .. })));
    }
}
