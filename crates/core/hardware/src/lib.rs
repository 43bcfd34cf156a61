//! Models of drives, links, controllers and hosts, and the reader of the catalogue that describes them.
//!
//! A drive model is a pure state machine in virtual time: [`Drive::handle_request`] takes a request,
//! [`Drive::poll_deadline`] says when it next has something to do, [`Drive::handle_deadline`] does it and
//! [`Drive::poll_completion`] hands out what is done. Nothing here knows what RAID is.
#![forbid(unsafe_code)]

mod drive;

pub use drive::{Drive, DriveCompletion, DriveOp, DriveRequest, Sector, SectorCount};
