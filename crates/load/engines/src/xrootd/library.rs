//! `XRootD`'s client, loaded at run time.
//!
//! The client is a C++ library, whose names and classes depend on the compiler. Only the calls that
//! `libXrdPosixPreload` substitutes for the system's (`XrdPosix_Open` and so on) have C names. Loaded privately it
//! replaces nothing.
//!
//! **Timeouts.** By default the client retries a dead server for many minutes. Its timeouts are set for a measurement
//! here, by one call under its C++ name, which takes a string and a number; in a version without this call the client's
//! own timeouts apply. The user's environment (`XRD_REQUESTTIMEOUT` and so on) has precedence.
//!
//! Source: `XrdPosix/XrdPosixExtern.hh` and `XrdPosix/XrdPosixConfig.hh` of `XRootD` 5.5.
#![allow(unsafe_code)]

use crate::library::{Library, library_calls};
use crate::remote::RemoteError;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Names under which it is looked for: of `XRootD` 6, of 5, and of who develops with it.
const NAMES: [&CStr; 3] = [c"libXrdPosixPreload.so.6", c"libXrdPosixPreload.so.2", c"libXrdPosixPreload.so"];

/// What to do where there is none.
const MISSING: &str = "XRootD's client is not installed: install libxrdposix3 (Debian 12; its package in later releases is listed by \
     'apt-file search libXrdPosixPreload.so'), or xrootd-client-libs (EPEL)";

/// The client's limits in seconds, and how often it tries to connect.
const LIMITS: [(&CStr, c_int); 6] = [
    (c"ConnectionWindow", 10),
    (c"ConnectionRetry", 1),
    (c"RequestTimeout", 60),
    (c"StreamTimeout", 30),
    (c"StreamErrorWindow", 10),
    (c"TimeoutResolution", 1),
];

library_calls! {
    /// The library's calls; each has the form of the system's call of that name.
    XrootdLibrary {
        open: unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int = c"XrdPosix_Open",
        close: unsafe extern "C" fn(c_int) -> c_int = c"XrdPosix_Close",
        fstat: unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int = c"XrdPosix_Fstat",
        fsync: unsafe extern "C" fn(c_int) -> c_int = c"XrdPosix_Fsync",
        unlink: unsafe extern "C" fn(*const c_char) -> c_int = c"XrdPosix_Unlink",
        pread: unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize = c"XrdPosix_Pread",
        pwrite: unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize = c"XrdPosix_Pwrite",
    }
}

/// What a new file may be.
pub(super) const MODE: c_uint = 0o644;

/// Returns `XRootD`'s client, which is loaded by the first call.
///
/// # Errors
/// [`RemoteError::Library`] says why it is not there and how to get it.
pub fn xrootd_library() -> Result<&'static XrootdLibrary, RemoteError> {
    static LIBRARY: OnceLock<Result<XrootdLibrary, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(|why| RemoteError::Library(why.clone()))
}

fn load() -> Result<XrootdLibrary, String> {
    // SAFETY: what the library does when it is loaded is to begin XRootD's client, no more.
    let library = unsafe { Library::load(&NAMES) }.ok_or(MISSING)?;
    // SAFETY: the fields are what the client's header declares the calls of these names to be.
    let calls = unsafe { XrootdLibrary::of(&library) }?;
    set_limits(&library);
    Ok(calls)
}

/// Makes the client as patient as a measurement may be.
fn set_limits(library: &Library) {
    // SAFETY: `XrdPosixConfig::SetEnv(char const*, int)`, a static function without a result, of the header.
    let set = unsafe {
        library.call::<unsafe extern "C" fn(*const c_char, c_int)>(c"_ZN14XrdPosixConfig6SetEnvEPKci")
    };
    let Ok(set) = set else {
        tracing::debug!("this XRootD client keeps its own time limits");
        return;
    };
    for (name, value) in LIMITS {
        // SAFETY: the name is a string of C, of which the client takes a copy.
        unsafe { set(name.as_ptr(), value) };
    }
}
