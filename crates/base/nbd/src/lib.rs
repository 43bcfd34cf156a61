//! The Network Block Device protocol as state machines without I/O: bytes in, requests and bytes out.
//!
//! ```
//! use raidlab_nbd::NbdUri;
//!
//! let uri: NbdUri = "nbd://storage.example:10810/vault".parse()?;
//! assert_eq!(uri.export, "vault");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!            bytes                                         pieces
//! client ──────────► ServerHandshake ─► ServerTransmission ──────► whoever holds the data
//!        ◄──────────                                       ◄──────
//!         heads, buffers                                    ends
//!
//!           requests                                       bytes
//! whoever ──────────► ClientHandshake ─► ClientTransmission ─────► server
//! needs it ◄──────────                                      ◄─────
//!         payload places, ends
//! ```
//! A *world* owns sockets, buffers, timeouts and TLS; it passes received bytes in and sends the bytes that it gets.
//! Payloads never pass through here: the parser says where in the stream they are and which request they belong to, so
//! that they can be received into their buffer and sent from it.
//!
//! Server: fixed newstyle, with all options of the protocol except `EXTENDED_HEADERS`, which is refused like any
//! unknown option. Client: what a member of an array needs, with `EXPORT_NAME` for old servers; not the oldstyle
//! handshake.
//!
//! Invariants: no input causes a panic; the cost of a peer is bounded by [`ServerLimits`] and the constants of the
//! handshake; no allocation per request once a connection transmits.
//!
//! Source: "The NBD protocol" and "The NBD URI format", doc/proto.md and doc/uri.md of
//! <https://github.com/NetworkBlockDevice/nbd>. *The document* in comments is the first of them.
#![forbid(unsafe_code)]

mod client;
mod export;
mod op;
mod server;
mod uri;
mod wire;

pub use client::{
    ClientAgreement, ClientEvent, ClientHandshake, ClientOptions, ClientRequest, ClientStep, ClientTls,
    ClientTransmission, RANGES_MAX, ServerFault, SubmitError,
};
pub use export::{
    BlockSizes, BlockSizesError, Export, ExportError, Exports, PAYLOAD_BYTES_DEFAULT, STRING_BYTES_MAX,
    TransmissionFlags,
};
pub use op::{Errno, Op};
pub use server::{
    BufferId, ClientFault, Fate, Head, Intake, OPTION_BYTES_MAX, OPTIONS_MAX, Output, PIECE_BYTES_MIN,
    Payload, Piece, PieceEnd, SKIPPED_BYTES_MAX, ServerAgreement, ServerHandshake, ServerLimits, ServerStep,
    ServerTls, ServerTransmission,
};
pub use uri::{DEFAULT_PORT, NbdUri, NbdUriError, TlsType, Transport};
pub use wire::{MESSAGE_BYTES_MAX, REQUEST_BYTES};
