//! The surroundings of a served array: the operators' socket, metrics over HTTP, and notification of the service
//! manager.
//!
//! ```text
//! raidlab array status | fail | ... ──ControlClient──► control socket ─┐
//! Prometheus ──GET /metrics──► loopback ──────────────────────────────┼─► Operator ──► the array's event loop
//! SIGTERM ────────────────────────────────────────────────────────────┘
//! ```
//! All of it runs on its own threads and talks to the array like any other client; none of it is in the data path.
//!
//! Left out: the export itself (`raidlab-runtime`), and what the answers look like on a terminal (`raidlab-report`).
#![forbid(unsafe_code)]

mod client;
mod control;
mod error;
mod host;
mod http;
mod metrics;
mod notify;
mod place;
mod places;

pub use client::ControlClient;
pub use control::ControlServer;
pub use error::ServeError;
pub use host::HostNames;
pub use http::{LoopbackListener, MetricsServer};
pub use metrics::render;
pub use notify::{notify_ready, notify_stopping};
pub use place::{control_socket, run_folder, served};
