//! Abandoned connections to members whose servers still owed answers.
//!
//! ```text
//! abandoned ─► our side is closed, no request follows ─► further data is discarded ─► the server ends its side ─► settled
//!                                                     └─► our own system gives up (no route, no answer to probes) ─► unknown
//! ```
//! A silent server may still hold writes, in its socket or in progress, and do them when it wakes. They would overwrite
//! what a rebuild has since put on the same export, unnoticed. NBD can't cancel requests, as Ceph's OSDs do (they
//! refuse a client of an older map) or SCSI with its reservations. But a server that has read the end of a connection
//! has finished its requests. So an export is accepted again only when its server has ended the abandoned connection.
//!
//! Left out: servers that go on with requests of a connection that they have closed themselves; the same export under
//! another address; connections of a dead array process.
//! Source: `tcp(7)`, `shutdown(2)`; for the closed half, RFC 9293, 3.6.

use crate::link::Link;
use raidlab_nbd::NbdUri;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A host that was started anew is found by a probe: after so long, and so often.
const PROBE_AFTER: Duration = Duration::from_secs(10);
/// Bytes that are thrown away at a time, and how often in one look: the array's thread has other work.
const DISCARD_BYTES: usize = 64 << 10;
const DISCARDS_PER_LOOK: u32 = 32;

/// One connection.
#[derive(Debug)]
struct Debt {
    path: PathBuf,
    uri: NbdUri,
    requests: usize,
    /// Nothing if it can't be known any more when the server has ended it.
    socket: Option<OwnedFd>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Owing {
    debts: Vec<Debt>,
    scratch: Vec<u8>,
}

impl Owing {
    /// Takes in a link to the export at `path` that is over, if its server owes something.
    pub(super) fn take(&mut self, path: &Path, link: Link) {
        let requests = link.owed();
        let uri = path.to_str().and_then(|text| text.parse().ok());
        let (Some(uri), true) = (uri, requests > 0) else { return };
        let socket = link.into_socket();
        // A Unix socket needs no probes, and takes none.
        let _ = set_socket_keepalive(&socket, true);
        let _ = set_tcp_keepidle(&socket, PROBE_AFTER).and_then(|()| set_tcp_keepintvl(&socket, PROBE_AFTER));
        let path = path.to_owned();
        tracing::warn!(
            path = %path.display(), requests,
            "its server has not answered these requests and may still do them: it is used again when it has ended the connection"
        );
        self.debts.push(Debt { path, uri, requests, socket: Some(socket) });
    }

    /// Looks which servers have ended their connections.
    pub(super) fn look(&mut self) {
        if self.debts.is_empty() {
            return;
        }
        self.scratch.resize(DISCARD_BYTES, 0);
        let scratch = &mut self.scratch;
        self.debts.retain_mut(|debt| {
            let Some(socket) = &debt.socket else { return true };
            for _ in 0..DISCARDS_PER_LOOK {
                match recv(socket, &mut scratch[..], RecvFlags::DONTWAIT) {
                    Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE) => {
                        tracing::info!(path = %debt.path.display(), "its server has ended the connection");
                        return false;
                    }
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return true,
                    Err(errno) => {
                        tracing::warn!(path = %debt.path.display(), %errno, "whether its server has ended the connection is unknown");
                        debt.socket = None;
                        return true;
                    }
                }
            }
            true
        });
    }

    /// Takes in that all servers of the export at `path` were started anew.
    pub(super) fn forgive(&mut self, path: &Path) {
        self.debts.retain(|debt| !debt.is_of(path));
    }

    /// Whether the export at `path` may be used, and why not.
    pub(super) fn check(&mut self, path: &Path) -> Result<(), String> {
        self.look();
        let Some(debt) = self.debts.iter().find(|debt| debt.is_of(path)) else { return Ok(()) };
        let known = match debt.socket {
            Some(_) => "it has not ended that connection yet",
            None => "whether it has ended that connection can't be known any more",
        };
        Err(format!(
            "the server of {} has not answered {} requests over a connection that was given up, and {known}: it might do them \
             after a rebuild; restart the server, and if it was restarted say so with --server-restarted",
            path.display(),
            debt.requests
        ))
    }
}

impl Debt {
    fn is_of(&self, path: &Path) -> bool {
        let uri = path.to_str().and_then(|text| text.parse::<NbdUri>().ok());
        uri.is_some_and(|uri| uri.transport == self.uri.transport && uri.export == self.uri.export)
    }
}
