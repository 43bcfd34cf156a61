//! Accepts clients.

use crate::error::ExportError;
use crate::tls::{ClientCertificates, TlsServer};
use raidlab_nbd::ServerTls;
use raidlab_runtime::{listen_tcp, listen_unix};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether clients of a socket are served in the clear, under TLS, or both.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    /// In the clear.
    Clear,
    /// As the client likes.
    Offered(TlsServer),
    /// Under TLS.
    Required(TlsServer),
}

impl Security {
    /// What the handshake says of it.
    pub(crate) const fn tls(&self) -> ServerTls {
        match self {
            Self::Clear => ServerTls::NotAvailable,
            Self::Offered(_) => ServerTls::Offered,
            Self::Required(_) => ServerTls::Required,
        }
    }

    const fn asks_for_certificates(&self) -> bool {
        match self {
            Self::Clear => false,
            Self::Offered(tls) | Self::Required(tls) => matches!(tls.clients(), ClientCertificates::Required),
        }
    }

    /// The settings of a handshake of TLS that begins now, if there is any.
    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        match self {
            Self::Clear => None,
            Self::Offered(tls) | Self::Required(tls) => Some(tls.config()),
        }
    }
}

/// A socket that clients connect to. A Unix socket's file goes when this does.
#[derive(Debug)]
pub struct NbdListener {
    socket: OwnedFd,
    address: String,
    file: Option<PathBuf>,
    pub(crate) is_tcp: bool,
    pub(crate) security: Security,
}

impl NbdListener {
    /// Listens on a Unix socket. One that a server left behind that is gone is replaced. Only its owner and
    /// root may connect: its mode is 0600.
    ///
    /// # Errors
    /// [`ExportError::Socket`].
    pub fn unix(path: &Path) -> Result<Self, ExportError> {
        Ok(Self {
            socket: listen_unix(path)?.into(),
            address: path.display().to_string(),
            file: Some(path.to_owned()),
            is_tcp: false,
            security: Security::Clear,
        })
    }

    /// Listens on a TCP address; clients that do not start TLS are told nothing but that they must.
    ///
    /// # Errors
    /// [`ExportError::Listen`].
    pub fn tcp(address: SocketAddr, tls: &TlsServer) -> Result<Self, ExportError> {
        let mut listener = Self::tcp_insecure(address)?;
        listener.security = Security::Required(tls.clone());
        Ok(listener)
    }

    /// Offers TLS to clients that ask for it, beside the clear. Who sits between a client and the server can keep a client
    /// that does not insist from TLS.
    #[must_use]
    pub fn offering(mut self, tls: &TlsServer) -> Self {
        self.security = Security::Offered(tls.clone());
        self
    }

    /// Listens on a TCP address without encryption and without asking who comes: whoever reaches the port can read and
    /// write all of the volume. Meant for loopback and networks of one's own.
    ///
    /// # Errors
    /// [`ExportError::Listen`].
    pub fn tcp_insecure(address: SocketAddr) -> Result<Self, ExportError> {
        let listen = |source| ExportError::Listen { address: address.to_string(), source };
        let socket = listen_tcp(address).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?.to_string();
        Ok(Self { socket: socket.into(), address, file: None, is_tcp: true, security: Security::Clear })
    }

    /// Returns the path, or the address with its port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether clients can prove who they are: to the system on a Unix socket, by a certificate under TLS.
    pub(crate) fn knows_clients(&self) -> bool {
        !self.is_tcp || self.security.asks_for_certificates()
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
