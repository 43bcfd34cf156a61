//! Crate head.
