//! Real worlds in which a run can take place, each behind one narrow interface. All return the same
//! [`raidlab_workload::RunResult`] as the modelled ones of `raidlab-worlds`, with every effective setting.
//!
//! | module | target |
//! |---|---|
//! | [`mod@file`] | a test file, or existing storage |
//! | [`mod@array`] | a real array over member files |
//! | [`folders`] | programs on files of real folders |
//! | [`network`] | TCP to another process |
#![forbid(unsafe_code)]

pub mod array;
pub mod file;
pub mod folders;
pub mod network;
mod scratch;
mod together;

pub use scratch::{ScratchError, ScratchFolders};
