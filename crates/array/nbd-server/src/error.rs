//! Why a volume can't be exported.

use raidlab_nbd::{BlockSizesError, ExportError as NbdExportError};
use raidlab_runtime::UnixSocketError;
use std::io;

/// Why a volume can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A TCP address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Address and port.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A Unix socket can't be listened on.
    #[error(transparent)]
    Socket(#[from] UnixSocketError),
    /// The volume can't be told to clients.
    #[error(transparent)]
    Export(#[from] NbdExportError),
    /// Nor can its block size.
    #[error(transparent)]
    BlockSizes(#[from] BlockSizesError),
    /// Too few buffers for so many connections.
    #[error("{connections} connections need at least {needed} buffers, and there are {buffers}")]
    TooFewBuffers {
        /// Connections at once.
        connections: u32,
        /// Two for each.
        needed: u32,
        /// Buffers.
        buffers: u32,
    },
    /// Buffers that no piece fits.
    #[error("a buffer has {found} bytes; it must be at least 64 KiB and whole blocks")]
    BufferBytes {
        /// Its length.
        found: u64,
    },
}
