//! Files of an NFS server through the client library libnfs, without a mount or a kernel module.
//!
//! ```text
//! nfs://host/export/file?version=4&nfsport=20049        libnfs's own form; its arguments are libnfs's too
//! ```
//! [`library`](self::library) loads libnfs on first use and is the only place with its calls; [`NfsFile`] is an open
//! file with its own connection; [`crate::NfsEngine`] keeps requests in flight on such files.
//!
//! Nothing is cached here: libnfs's page cache and read-ahead stay off unless the URI requests them. A write ends when
//! the server has taken it (UNSTABLE), as for any NFS client before its fsync.

mod file;
mod library;

pub(crate) use file::{Call, CallEnd, NfsFile, errno_of};
pub use library::{NfsLibrary, nfs_library};

use std::path::Path;

/// Whether a name is the URI of a file of an NFS server, and not a path.
pub fn is_nfs_uri(path: &Path) -> bool {
    const SCHEME: &[u8] = b"nfs://";
    let text = path.as_os_str().as_encoded_bytes();
    text.get(..SCHEME.len()).is_some_and(|it| it.eq_ignore_ascii_case(SCHEME))
}
