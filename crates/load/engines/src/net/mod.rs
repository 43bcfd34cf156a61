//! Network tests: data over TCP from one process to another, with any send length, on one connection or many.
//!
//! ```text
//! NetClient ── control: hello, order, ready, attached, go, done ──► serve
//!     └────────── data: one connection or many, with a token ───────┘      flow on both sides: ramp, window, tail
//! ```
//! - [`serve`] waits for tests and does its side of one at a time.
//! - [`NetClient`] connects to it and carries out one [`NetOrder`] after another.
//! - `wire` is their messages: frames of bounded length, with a version.
//!
//! **What counts.** Both sides begin at the message *go*, let the ramp pass, and count for the length of the window,
//! each by its own clock. The sender goes on until after the window of the receiver, whose count is the rate.
//!
//! **Peers are not trusted.** A frame that is too long, invalid or out of turn, an unknown token, an order beyond the
//! limits, and silence all end that connection or test with an error; every wait is bounded. Whoever may connect may
//! use the network for the time of a test, and nothing else: a peer can't name files.
//!
//! Left out: encryption, UDP, and changing the MTU of an interface.

mod client;
mod flow;
mod serve;
mod socket;
mod sys;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{NetClient, NetRun, NetSource};
pub use serve::{NetEvent, serve};
pub use wire::{CONNECTIONS_MAX, NetOrder, SEND_BYTES_MAX};

use raidlab_units::NanoSpan;
use raidlab_workload::MachineLoad;
use std::io;
use std::path::PathBuf;

/// Begins to watch the machine; what it returns ends that and tells what was seen.
pub type Watch<'a> = dyn Fn() -> Box<dyn FnOnce() -> MachineLoad> + Sync + 'a;

/// Why a network can't be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Several hosts did not make the run together.
    #[error("the test was not begun, because others were not ready")]
    NotStarted,
    /// The server can't be reached.
    #[error("cannot connect to {peer}: {source}; is 'raidlab net serve' running there?")]
    Connect {
        /// Where.
        peer: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address can't be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A call on a socket failed.
    #[error("cannot {op}: {source}")]
    Socket {
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The other side was silent for too long.
    #[error("the other side did not {what} within {limit}")]
    Silent {
        /// What it should have done.
        what: &'static str,
        /// How long it had.
        limit: NanoSpan,
    },
    /// The other side does not speak this protocol, or another version of it.
    #[error("the other side is not a 'raidlab net' of this version: {what}")]
    Protocol {
        /// What was wrong.
        what: String,
    },
    /// The other side does not want to.
    #[error("the other side refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The order is beyond the limits.
    #[error("{0}")]
    Order(String),
    /// The connections ended before the window was over.
    #[error("the connections ended {after} after the start, before the window was over: {why}")]
    Cut {
        /// When.
        after: NanoSpan,
        /// What the first to end said.
        why: String,
    },
    /// The file to send can't be read.
    #[error("cannot {op} {}: {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was to be done.
        op: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file to send is shorter than one send.
    #[error("{} has {bytes} bytes, less than one send of {send_bytes}", .path.display())]
    FileTooShort {
        /// Which.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Length of a send.
        send_bytes: u64,
    },
    /// The user stopped it.
    #[error("stopped before the test was over")]
    Cancelled,
}

impl NetError {
    /// Returns a closure that names what failed, for `map_err`.
    fn socket<E: Into<io::Error>>(op: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Socket { op, source: source.into() }
    }
}
