//! Files of an `XRootD` server through `XRootD`'s own client library, with its redirections, authentication and TLS.
//!
//! ```text
//! root://host//data/file      roots:// for TLS; xroot:// and xroots:// are the same; port 1094 by default
//! ```
//! [`library`](self::library) loads `libXrdPosixPreload`, the client's C interface, on first use and is the only place
//! with its calls; [`XrootdFile`] is an open file, which many threads may read at once; [`crate::XrootdEngine`] keeps
//! requests in flight on such files. The client makes one connection to each server per process.

mod file;
mod library;

pub(crate) use file::{XrootdFile, is_connection_gone};
pub use library::{XrootdLibrary, xrootd_library};

use std::path::Path;

/// Whether a name is the URI of a file of an `XRootD` server, and not a path.
pub fn is_xrootd_uri(path: &Path) -> bool {
    const SCHEMES: [&[u8]; 4] = [b"root://", b"roots://", b"xroot://", b"xroots://"];
    let text = path.as_os_str().as_encoded_bytes();
    // The client takes them in small letters only.
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}
