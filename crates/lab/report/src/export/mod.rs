//! Runs in the formats of other tools, for programs that read those.
//!
//! - [`mod@bonnie`]: the CSV of bonnie++, for its own tools.
//! - [`fio`]: JSON as fio 3 prints it with `--output-format=json+`, and its logs over time, for fio-plot and others.
//! - [`iometer`]: the results file of Iometer 1.1.0.
//!
//! Fields that raidlab does not measure are zero or empty, and the module lists them.

pub mod bonnie;
pub mod fio;
pub mod iometer;
