//! Where clients come in.

use crate::error::ExportError;
use raidlab_array::listen_unix;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A socket that clients connect to. A Unix socket's file goes when this does.
#[derive(Debug)]
pub struct NbdListener {
    socket: OwnedFd,
    address: String,
    file: Option<PathBuf>,
    pub(crate) is_tcp: bool,
}

impl NbdListener {
    /// Listens on a Unix socket. One that a server left behind that is gone is replaced. Who may connect is the
    /// folder's permissions' to say.
    ///
    /// # Errors
    /// [`ExportError::Socket`].
    pub fn unix(path: &Path) -> Result<Self, ExportError> {
        let socket = listen_unix(path)?.into();
        Ok(Self { socket, address: path.display().to_string(), file: Some(path.to_owned()), is_tcp: false })
    }

    /// Listens on a TCP address without encryption and without asking who comes: whoever reaches the port can read and
    /// write all of the volume. Meant for loopback and networks of one's own.
    ///
    /// # Errors
    /// [`ExportError::Listen`].
    pub fn tcp_insecure(address: SocketAddr) -> Result<Self, ExportError> {
        let listen = |source| ExportError::Listen { address: address.to_string(), source };
        let socket = TcpListener::bind(address).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?.to_string();
        Ok(Self { socket: socket.into(), address, file: None, is_tcp: true })
    }

    /// Returns the path, or the address with its port.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for NbdListener {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && let Err(error) = std::fs::remove_file(file)
        {
            tracing::debug!(%error, file = %file.display(), "the socket's file can't be removed");
        }
    }
}
