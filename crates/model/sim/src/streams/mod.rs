//! Readers of files on a modelled file server, in virtual time: N streams over one or several controllers, on the server
//! itself or over a network.
//!
//! ```text
//!  Program ─► stream 0..N ─ window of pieces ─► volume ─► ArrayPort (controller, drives) ─┐
//!     ▲          ▲  one window under way while the last is copied                         │
//!     └ returns ─┴──── copy by a processor ◄──── bus that all controllers share ◄─────────┘
//!
//!  Program ─► stream 0..N ─ window of calls ─► slots of a mount ─► nfsd threads ─► pieces as above ─► wire ─► client
//! ```
//! A volume is an array behind a controller, or a software stripe over several of them. Files are cold: every byte
//! comes from a drive once. Everything random (the angles of platters) comes from one seed.
//!
//! This is the world of servers that send what they read once: the bus, the window and waiting limit them. The world of
//! files keeps pages, and writes.
//!
//! Left out: pages that are read twice, the growth of a window at the start of a file, queues of the block layer (a
//! reader has one window under way, so there is almost nothing to sort).

mod mount;
mod nfs;
mod readahead;
mod reader;
mod spec;
#[cfg(test)]
mod tests;
mod world;

pub use spec::{NfsSpec, PlacedFile, StreamsOutcome, StreamsSpec, StreamsVolume, simulate_streams};
