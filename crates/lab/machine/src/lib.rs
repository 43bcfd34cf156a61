//! What machine this is, and what a run cost it.
//!
//! [`Environment`] is stored with every result; [`MachineWatch`] counts what the processors and the device below a target
//! did meanwhile; [`doctor`] says what the machine can do and what not, and why.
#![forbid(unsafe_code)]

pub mod doctor;
mod environment;
mod machine;

pub use environment::{DeviceFacts, Environment, FilesystemFacts};
pub use machine::MachineWatch;
