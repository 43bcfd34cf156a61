//! The real binary, as a user runs it: one module per group of verbs, linked once.

mod arrays;
mod back;
mod fits;
mod fuzzed;
mod hostile;
mod loads;
mod model;
mod net;
mod programs;
mod refusals;
mod reproduce;
mod simulate;
mod store;
mod studies;
mod support;
mod traces;
mod verbs;
mod watched;
