//! The machine's description, and its load during a run.
//!
//! [`Environment`] is stored with every result; [`MachineWatch`] counts the activity of the processors and of the
//! device below a target; [`watch`] looks at devices that others use; [`doctor`] says what the machine can and cannot do, and why.
#![forbid(unsafe_code)]

pub mod doctor;
mod environment;
mod machine;
pub mod watch;

pub use environment::{DeviceFacts, Environment, FilesystemFacts};
pub use machine::MachineWatch;
