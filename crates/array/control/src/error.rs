//! Why an array can't be reached, or can't be made reachable.

use raidlab_runtime::UnixSocketError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why an array can't be reached, or can't be made reachable.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing answers on the control socket.
    #[error("no array answers on {}: it is not being served, or is served elsewhere", path.display())]
    NotServed {
        /// The socket.
        path: PathBuf,
    },
    /// Somebody listens on the control socket, and says nothing.
    #[error("what listens on {} has not answered for {} s: look at its log", path.display(), limit.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The control socket can't be listened on.
    #[error(transparent)]
    Socket(#[from] UnixSocketError),
    /// The folder of control sockets belongs to somebody else, or others may write in it.
    #[error("{} is not safe for control sockets: it must belong to you, and nobody else may write there", path.display())]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The system refused.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which socket or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The other side of the control socket said something that is no answer.
    #[error("what answers on {} is no array: {reason}", path.display())]
    NotAnAnswer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// HTTP can't be served.
    #[error("HTTP can't be served on {address}: {source}")]
    Http {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// What is served over HTTP is for this machine only.
    #[error(
        "HTTP is served on loopback addresses only, and {address} is none: let a proxy with access control publish it"
    )]
    NotLoopback {
        /// The address asked for.
        address: SocketAddr,
    },
}

impl ServeError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
