//! Runs in the forms of other tools, for the programs that read those.
//!
//! - [`fio`]: JSON as fio 3 prints it with `--output-format=json+`, and its logs over time, for fio-plot and others.
//! - [`iometer`]: the results file of Iometer 1.1.0.
//!
//! What raidlab does not measure and a form asks for is zero or empty there, and the module says which that is.

pub mod fio;
pub mod iometer;
