//! An array's volume over NBD, in the array's own event loop.
//!
//! ```text
//! sockets ◄──io_uring entries──► Connection ── ServerHandshake, ServerTransmission (raidlab-nbd)
//!                                    │ pieces ▲ ends
//!                                NbdServer: HostPort ◄──► ArrayWorld (raidlab-runtime)
//!                                    └── Share: host buffers, dealt out to the connections
//! ```
//! One thread does all of it: member I/O, parity and sockets share one ring, so that a round of the loop takes in what all
//! clients sent, and one entry sends all replies of a client that are there. Payloads are received into the host buffer that
//! the array works on, and sent from it.
//!
//! What it promises: a flush on any connection covers what was acknowledged on all of them, because they all end in one
//! controller. Requests may begin and end at any byte. Trim is taken as the hint that it is and does nothing. Cache reads the range. Write zeroes writes zeros.
//! Block status says "allocated".
//!
//! TLS runs in the same loop. What a client may cost is bounded there, too: see `secure.rs`.
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
