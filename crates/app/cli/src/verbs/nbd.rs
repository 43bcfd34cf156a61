//! NBD options that real and emulated arrays share.

use crate::failure::Failure;
use raidlab_nbd_server::{ClientCertificates, ExportError, NbdListener, NbdOptions, NbdServer, TlsServer};
use raidlab_runtime::{Operator, UnixSocketError};
use raidlab_units::{BlockSize, ByteCount};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Buffers for payloads of 256 KiB, all clients together.
const BUFFERS_MIN: u32 = 256;
/// Buffers for each client where there may be many.
const BUFFERS_PER_CLIENT: u32 = 4;

/// Where the server listens, and whom it lets in. Which of them is needed is said by the verb.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("security").multiple(true)))]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct NbdArgs {
    /// Serve NBD on this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Serve NBD on this TCP address, beside the Unix socket if there is one; needs --tls-certificates or --insecure
    #[arg(long, value_name = "ADDRESS:PORT", requires = "security")]
    listen: Option<SocketAddr>,
    /// Folder with ca-cert.pem, server-cert.pem and server-key.pem, as for nbdkit and qemu: TLS is required on the TCP address
    /// (offered with --insecure) and offered on the Unix socket
    #[arg(long, value_name = "DIR", group = "security")]
    tls_certificates: Option<PathBuf>,
    /// Under TLS, let in only clients with a certificate of the authority in ca-cert.pem that is not in ca-crl.pem
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
    /// Let whoever reaches the TCP address read and write the volume, unencrypted
    #[arg(long, requires = "listen", group = "security", conflicts_with = "tls_verify_peer")]
    insecure: bool,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Clients at once
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: u32,
}

impl NbdArgs {
    /// The server of the volume `name`, with blocks of such a size and so many bytes, and where it listens.
    pub(crate) fn server(
        &self,
        name: &str,
        (block_size, volume): (BlockSize, ByteCount),
        tls: Option<&TlsServer>,
    ) -> Result<(NbdServer, Vec<String>), Failure> {
        let listeners = self.listeners(tls)?;
        let addresses = listeners.iter().map(|found| found.address().to_owned()).collect();
        let options = NbdOptions {
            name: name.to_owned(),
            description: format!("raidlab array {name}"),
            read_only: self.read_only,
            connections_max: self.connections,
            buffers: BUFFERS_MIN
                .max(BUFFERS_PER_CLIENT * self.connections.saturating_add(BUFFERS_PER_CLIENT)),
            ..NbdOptions::default()
        };
        let server = NbdServer::new(options, block_size, volume, listeners);
        Ok((server.map_err(Failure::input)?, addresses))
    }

    /// The certificates, if there are any.
    pub(crate) fn tls(&self) -> Result<Option<TlsServer>, Failure> {
        let Some(folder) = &self.tls_certificates else { return Ok(None) };
        let clients =
            if self.tls_verify_peer { ClientCertificates::Required } else { ClientCertificates::NotAsked };
        TlsServer::from_folder(folder, clients).map(Some).map_err(Failure::input)
    }

    /// The operators' line, through which the certificates can be read anew if there are any.
    pub(crate) fn with_reload(operator: Operator, tls: Option<&TlsServer>) -> Operator {
        let Some(tls) = tls.cloned() else { return operator };
        operator.with_reload(move || {
            let folder = tls.folder().display();
            match tls.reload() {
                Ok(()) => Ok(format!("clients that come from now on are shown the certificate in {folder}")),
                Err(error) => {
                    let reason = format!("{error}; the certificates that were read before are still used");
                    tracing::warn!("{reason}");
                    Err(reason)
                }
            }
        })
    }

    fn listeners(&self, tls: Option<&TlsServer>) -> Result<Vec<NbdListener>, Failure> {
        let offering = |listener: NbdListener| match tls {
            Some(tls) => listener.offering(tls),
            None => listener,
        };
        let unix = self.socket.as_deref().map(|path| NbdListener::unix(path).map(offering));
        let tcp = self.listen.map(|address| match tls {
            Some(tls) if !self.insecure => NbdListener::tcp(address, tls),
            _ => NbdListener::tcp_insecure(address).map(offering),
        });
        unix.into_iter().chain(tcp).collect::<Result<_, _>>().map_err(|error| match error {
            ExportError::Socket(UnixSocketError::NoSocket { .. }) => Failure::input(error),
            other => Failure::run(other),
        })
    }
}
