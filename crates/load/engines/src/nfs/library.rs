//! libnfs, loaded at run time.
//!
//! Versions 4 (`libnfs.so.13`) and 5 (`libnfs.so.14`) have the same calls. libnfs 6 has others and is not used.
//! Source: `nfsc/libnfs.h` of libnfs 4.0.0.
#![allow(unsafe_code)]

use crate::library::{Library, library_calls};
use crate::remote::RemoteError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Names under which it is looked for.
const NAMES: [&CStr; 2] = [c"libnfs.so.14", c"libnfs.so.13"];

/// `struct nfs_context`, of which only pointers are known.
pub(super) type Context = c_void;
/// `struct nfsfh`.
pub(super) type Handle = c_void;
/// `nfs_cb`: result, context, data, and what was given with the call.
pub(super) type Callback = unsafe extern "C" fn(c_int, *mut Context, *mut c_void, *mut c_void);

/// `struct nfs_url`.
#[repr(C)]
pub(super) struct Url {
    pub(super) server: *const c_char,
    pub(super) path: *const c_char,
    pub(super) file: *const c_char,
}

/// `struct nfs_stat_64`: seventeen numbers of 64 bits, of which the eighth is the size.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stat {
    pub(super) before: [u64; 7],
    pub(super) size: u64,
    pub(super) after: [u64; 9],
}

library_calls! {
    /// The library's calls.
    NfsLibrary {
        init_context: unsafe extern "C" fn() -> *mut Context = c"nfs_init_context",
        destroy_context: unsafe extern "C" fn(*mut Context) = c"nfs_destroy_context",
        get_error: unsafe extern "C" fn(*mut Context) -> *const c_char = c"nfs_get_error",
        parse_url: unsafe extern "C" fn(*mut Context, *const c_char) -> *mut Url = c"nfs_parse_url_full",
        destroy_url: unsafe extern "C" fn(*mut Url) = c"nfs_destroy_url",
        set_timeout: unsafe extern "C" fn(*mut Context, c_int) = c"nfs_set_timeout",
        set_autoreconnect: unsafe extern "C" fn(*mut Context, c_int) = c"nfs_set_autoreconnect",
        set_client_name: unsafe extern "C" fn(*mut Context, *const c_char) = c"nfs4_set_client_name",
        set_verifier: unsafe extern "C" fn(*mut Context, *const c_char) = c"nfs4_set_verifier",
        mount: unsafe extern "C" fn(*mut Context, *const c_char, *const c_char) -> c_int = c"nfs_mount",
        open_async:
            unsafe extern "C" fn(*mut Context, *const c_char, c_int, Callback, *mut c_void) -> c_int = c"nfs_open_async",
        create_async:
            unsafe extern "C" fn(*mut Context, *const c_char, c_int, c_int, Callback, *mut c_void) -> c_int = c"nfs_create_async",
        unlink_async:
            unsafe extern "C" fn(*mut Context, *const c_char, Callback, *mut c_void) -> c_int = c"nfs_unlink_async",
        close_async:
            unsafe extern "C" fn(*mut Context, *mut Handle, Callback, *mut c_void) -> c_int = c"nfs_close_async",
        fstat_async:
            unsafe extern "C" fn(*mut Context, *mut Handle, Callback, *mut c_void) -> c_int = c"nfs_fstat64_async",
        fsync_async:
            unsafe extern "C" fn(*mut Context, *mut Handle, Callback, *mut c_void) -> c_int = c"nfs_fsync_async",
        pread_async:
            unsafe extern "C" fn(*mut Context, *mut Handle, u64, u64, Callback, *mut c_void) -> c_int = c"nfs_pread_async",
        pwrite_async:
            unsafe extern "C" fn(*mut Context, *mut Handle, u64, u64, *const c_void, Callback, *mut c_void) -> c_int = c"nfs_pwrite_async",
        queue_length: unsafe extern "C" fn(*mut Context) -> c_int = c"nfs_queue_length",
        readmax: unsafe extern "C" fn(*mut Context) -> u64 = c"nfs_get_readmax",
        writemax: unsafe extern "C" fn(*mut Context) -> u64 = c"nfs_get_writemax",
        get_fd: unsafe extern "C" fn(*mut Context) -> c_int = c"nfs_get_fd",
        which_events: unsafe extern "C" fn(*mut Context) -> c_int = c"nfs_which_events",
        service: unsafe extern "C" fn(*mut Context, c_int) -> c_int = c"nfs_service",
    }
}

impl NfsLibrary {
    /// Whether a write over NFS 4 has no room for more than some 3 KiB: so in libnfs 4.
    pub(super) fn has_short_writes_of_nfs4(&self) -> bool {
        self.name == "libnfs.so.13"
    }
}

/// Returns libnfs, which is loaded by the first call.
///
/// # Errors
/// [`RemoteError::Library`] says why it is not there and how to get it.
pub fn nfs_library() -> Result<&'static NfsLibrary, RemoteError> {
    static LIBRARY: OnceLock<Result<NfsLibrary, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(|why| RemoteError::Library(why.clone()))
}

fn load() -> Result<NfsLibrary, String> {
    // SAFETY: libnfs does nothing when it is loaded.
    let library = unsafe { Library::load(&NAMES) };
    let missing =
        "libnfs is not installed: install libnfs13 or libnfs14 (Debian), or libnfs 4 or 5 elsewhere";
    let library = library.ok_or(missing)?;
    // SAFETY: the fields are what the header of libnfs 4 and 5 declares the calls of these names to be.
    let calls = unsafe { NfsLibrary::of(&library) };
    calls.map_err(|why| format!("{why}: libnfs 4 or 5 is needed"))
}
