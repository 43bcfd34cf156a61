//! Pieces of memory and messages of them, as the kernel takes them.
//!
//! Source: `struct iovec` and `struct msghdr` of Linux, `readv(2)`, `recvmsg(2)`.

use std::ptr::null_mut;

/// `struct iovec`: a piece of memory, for the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoVec {
    /// First byte.
    pub base: *mut u8,
    /// Length in bytes.
    pub bytes: usize,
}

impl IoVec {
    /// Names the bytes of a slice.
    pub fn of(bytes: &[u8]) -> Self {
        Self { base: bytes.as_ptr().cast_mut(), bytes: bytes.len() }
    }

    /// Names the bytes of a slice that is written to.
    pub fn of_mut(bytes: &mut [u8]) -> Self {
        Self { base: bytes.as_mut_ptr(), bytes: bytes.len() }
    }

    /// Takes in `more` if it begins where this ends.
    pub fn join(&mut self, more: Self) -> bool {
        let touches = self.base.wrapping_add(self.bytes) == more.base;
        if touches {
            self.bytes += more.bytes;
        }
        touches
    }

    /// Leaves the first `bytes` out.
    ///
    /// # Panics
    /// If fewer bytes are left.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes are to be skipped", self.bytes);
        self.base = self.base.wrapping_add(bytes);
        self.bytes -= bytes;
    }
}

/// `struct msghdr`: only the pieces are used.
#[derive(Debug)]
#[repr(C)]
pub struct MessageHeader {
    name: *mut u8,
    name_bytes: u32,
    pieces: *const IoVec,
    piece_count: usize,
    control: *mut u8,
    control_bytes: usize,
    flags: i32,
}

impl MessageHeader {
    /// The header of a message of these pieces, which stay where they are as long as it is used.
    pub const fn of(pieces: &[IoVec]) -> Self {
        Self {
            name: null_mut(),
            name_bytes: 0,
            pieces: pieces.as_ptr(),
            piece_count: pieces.len(),
            control: null_mut(),
            control_bytes: 0,
            flags: 0,
        }
    }
}
