//! A shared library loaded on first use: without it raidlab does everything else, and a build needs no header. It is
//! never unloaded, and its names stay private (`RTLD_LOCAL`), so that it replaces no other calls.
//!
//! Source: `dlopen(3)`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

/// A library that is loaded.
pub(crate) struct Library {
    name: &'static str,
    handle: *mut c_void,
}

impl Library {
    /// Loads the first of `names` that is there.
    ///
    /// # Safety
    /// What a library of these names does when it is loaded must be no harm.
    pub(crate) unsafe fn load(names: &[&'static CStr]) -> Option<Self> {
        names.iter().find_map(|name| {
            // SAFETY: the name is a string of C; the caller knows what is loaded.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            let name = name.to_str().expect("our own names are text");
            (!handle.is_null()).then_some(Self { name, handle })
        })
    }

    /// The name under which it was found.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the call of this name, a pointer to a function.
    ///
    /// # Errors
    /// Says that the library has none.
    ///
    /// # Safety
    /// `F` must be what the library's header declares the call to be.
    pub(crate) unsafe fn call<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a call is a pointer") };
        // SAFETY: the library is loaded, and the name is a string of C.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("{} here has no {}", self.name, name.to_string_lossy()));
        }
        // SAFETY: both are pointers, of which the caller knows the type.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }
}

/// Makes the struct of a library's calls, each with its type and its name there, and what looks them up.
macro_rules! library_calls {
    ($(#[$of:meta])* $library:ident { $($call:ident: $type:ty = $name:literal,)+ }) => {
        $(#[$of])*
        #[derive(Debug)]
        pub struct $library {
            name: &'static str,
            $(pub(super) $call: $type,)+
        }

        impl $library {
            /// Looks the calls up in `library`.
            ///
            /// # Safety
            /// It must be the one whose header declares the calls of these names to be of these types.
            unsafe fn of(library: &Library) -> Result<Self, String> {
                // SAFETY: as the caller says.
                unsafe { Ok(Self { name: library.name(), $($call: library.call($name)?,)+ }) }
            }

            /// The file that was loaded.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }
    };
}
pub(crate) use library_calls;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{c_char, c_int};

    #[test]
    fn calls_are_found_by_name_and_others_are_missed_by_it() {
        // SAFETY: the first is not there, and the second is loaded already.
        let library =
            unsafe { Library::load(&[c"libnobody-has-this.so.0", c"libc.so.6"]) }.expect("libc is there");
        assert_eq!(library.name(), "libc.so.6");
        // SAFETY: `string.h` declares it so.
        let length = unsafe { library.call::<unsafe extern "C" fn(*const c_char) -> usize>(c"strlen") };
        // SAFETY: a string of C.
        assert_eq!(length.map(|call| unsafe { call(c"four".as_ptr()) }), Ok(4));
        // SAFETY: there is no such call.
        let missed = unsafe { library.call::<unsafe extern "C" fn() -> c_int>(c"no_such_call") };
        assert_eq!(missed.err().as_deref(), Some("libc.so.6 here has no no_such_call"));
        // SAFETY: there is no such library.
        assert!(unsafe { Library::load(&[c"libnobody-has-this.so.0"]) }.is_none());
    }
}
