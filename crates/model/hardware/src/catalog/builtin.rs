//! The files of `catalog/`, as of the program's build (`build.rs` lists them).

/// Name and text of every file.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalog.rs"));
