//! Runs in the forms of other tools, for the programs that read those.
//!
//! - [`mod@bonnie`]: the CSV of bonnie++, for its own tools.
//! - [`fio`]: JSON as fio 3 prints it with `--output-format=json+`, and its logs over time, for fio-plot and others.
//! - [`iometer`]: the results file of Iometer 1.1.0.
//!
//! What raidlab does not measure and a form asks for is zero or empty there, and the module says which that is.

pub mod bonnie;
pub mod fio;
pub mod iometer;
