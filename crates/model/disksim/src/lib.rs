//! Drives and traces in the formats of `DiskSim` 4.0, and the error of a model that replays a trace.
//!
//! ```text
//!   .diskspecs  buffer, overheads ─┐
//!   .model      layout, mechanics ─┼─ import ──> DriveModel ─┐
//!   .seek       seek times        ─┤                         ├─ replay ──> response times ──> demerit
//!   .parv       bus               ─┘         .trace ─────────┘
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `syntax` | the text of parameter files: blocks of `key = value` |
//! | `fields` | one block's keys, each used or known to be irrelevant |
//! | `layout` | where every sector is: zones, skews, spares, slips, moved sectors |
//! | `mechanics` | seek times by distance |
//! | `drive` | a whole drive, built from its files |
//! | `trace` | measured requests, of the record type of `raidlab_trace` |
//! | `replay` | the trace on the model, and the demerit figure |
//!
//! No file is opened here: the caller passes texts, and a function that finds the texts of files that others name.
//! Source: Bucy, Schindler, Schlosser, Ganger and others, "The `DiskSim` Simulation Environment Version 4.0 Reference
//! Manual", CMU-PDL-08-101.
#![forbid(unsafe_code)]

mod drive;
mod error;
mod fields;
mod layout;
mod mechanics;
mod replay;
mod syntax;
mod trace;

pub use drive::{DriveFiles, Imported, import};
pub use error::{ImportError, ImportErrors};
pub use replay::{ReplayError, Validation, demerit_pct, replay, validate};
pub use syntax::{Block, Param, SyntaxError, Value, parse_blocks};
pub use trace::{TraceError, parse_trace};
