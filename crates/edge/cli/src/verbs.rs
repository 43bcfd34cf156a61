//! The verbs of the command line, a module each: its arguments, and what it does with them.

pub(crate) mod array;
pub(crate) mod bonnie;
pub(crate) mod catalog;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod emulate;
pub(crate) mod export;
pub(crate) mod fit;
pub(crate) mod import;
mod keep;
mod loads;
pub(crate) mod measure;
pub(crate) mod model;
mod nbd;
pub(crate) mod net;
mod programs;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod risk;
pub(crate) mod runs;
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod streams;
pub(crate) mod study;
pub(crate) mod tag;
pub(crate) mod torture;
pub(crate) mod workloads;
