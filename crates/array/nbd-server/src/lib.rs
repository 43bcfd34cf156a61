//! An array's volume over NBD, in the array's own event loop.
//!
//! ```text
//! sockets ◄──io_uring entries──► Connection ── ServerHandshake, ServerTransmission (raidlab-nbd)
//!                                    │ pieces ▲ ends
//!                                NbdServer: HostPort ◄──► ArrayWorld (raidlab-runtime)
//!                                    └── Share: host buffers, dealt out to the connections
//! ```
//! One thread does everything: member I/O, parity and sockets share one ring, so a round of the loop receives from all
//! clients, and one entry sends all ready replies of a client. Payloads are received into the host buffer that the
//! array works on, and sent from it.
//!
//! A flush on any connection covers what was acknowledged on all of them, because they share one controller. Requests
//! may begin and end at any byte. Trim is accepted and does nothing. Cache reads the range. Write zeroes writes zeros.
//! Block status reports "allocated".
//!
//! TLS runs in the same loop. It also bounds the cost of a client: see `secure.rs`.
#![deny(unsafe_code)]

mod common;
mod connection;
mod edges;
mod entries;
mod error;
mod inbox;
mod listener;
mod outbox;
mod peer;
mod seats;
mod secure;
mod server;
mod share;
mod tls;

pub use error::ExportError;
pub use listener::NbdListener;
pub use server::{NbdOptions, NbdServer};
pub use tls::{ClientCertificates, TlsError, TlsServer};
