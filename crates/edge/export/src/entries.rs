//! The entries that sockets need. All of this crate's `unsafe` is here.
//!
//! Each function's caller keeps the memory that it names where it is until the entry has ended: receive buffers and
//! outboxes are boxes of a connection, and a connection is dropped only when none of its entries is in flight; host buffers
//! stay where they are as long as the array serves. The array ends all entries before it lets go of its port.
//! Source: `io_uring_enter(2)`, `sendmsg(2)`.
#![allow(unsafe_code)]

use io_uring::{opcode, types::Fd};
use raidlab_array::{PortRing, RingError};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

/// `MSG_WAITALL`: a receive ends only when all of it is there.
const MSG_WAITALL: i32 = 0x100;
/// `MSG_NOSIGNAL`: a peer that is gone is an error and no signal.
const MSG_NOSIGNAL: u32 = 0x4000;
/// `SOCK_CLOEXEC`.
const SOCK_CLOEXEC: i32 = 0o2_000_000;

/// `struct iovec`: a piece of memory, for the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct IoVec {
    base: *mut u8,
    bytes: usize,
}

impl IoVec {
    /// Names the bytes of a slice.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { base: bytes.as_ptr().cast_mut(), bytes: bytes.len() }
    }

    /// Length in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in `more` if it begins where this ends.
    pub(crate) fn join(&mut self, more: Self) -> bool {
        let touches = self.base.wrapping_add(self.bytes) == more.base;
        if touches {
            self.bytes += more.bytes;
        }
        touches
    }

    /// Leaves the first `bytes` out.
    pub(crate) fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes are to be skipped", self.bytes);
        self.base = self.base.wrapping_add(bytes);
        self.bytes -= bytes;
    }
}

/// `struct msghdr` of Linux: only the pieces are used.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MessageHeader {
    name: *mut u8,
    name_bytes: u32,
    pieces: *const IoVec,
    piece_count: usize,
    control: *mut u8,
    control_bytes: usize,
    flags: i32,
}

impl MessageHeader {
    /// A header without pieces.
    pub(crate) const fn empty() -> Self {
        Self {
            name: null_mut(),
            name_bytes: 0,
            pieces: null_mut(),
            piece_count: 0,
            control: null_mut(),
            control_bytes: 0,
            flags: 0,
        }
    }
}

/// Waits for a client at `listener`; the entry ends with its descriptor.
pub(crate) fn accept(ring: &mut PortRing<'_>, user: u64, listener: BorrowedFd<'_>) -> Result<(), RingError> {
    let entry = opcode::Accept::new(Fd(listener.as_raw_fd()), null_mut(), null_mut());
    // SAFETY: no memory is named.
    unsafe { ring.push(user, entry.flags(SOCK_CLOEXEC).build()) }.map(drop)
}

/// Takes the descriptor that an accept ended with.
pub(crate) fn accepted(descriptor: u32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for an accept of ours, and told nobody else.
    unsafe { OwnedFd::from_raw_fd(descriptor.cast_signed()) }
}

/// Receives what is there into `buffer`, or all of it if `whole`.
pub(crate) fn receive(
    ring: &mut PortRing<'_>,
    user: u64,
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    whole: bool,
) -> Result<(), RingError> {
    let entry = opcode::Recv::new(Fd(socket.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32);
    // SAFETY: see the head; nobody looks at this part of the buffer until the entry has ended.
    unsafe { ring.push(user, entry.flags(if whole { MSG_WAITALL } else { 0 }).build()) }.map(drop)
}

/// Sends `pieces`, in their order, through `header`, which is filled in.
pub(crate) fn send(
    ring: &mut PortRing<'_>,
    user: u64,
    socket: BorrowedFd<'_>,
    header: &mut MessageHeader,
    pieces: &[IoVec],
) -> Result<(), RingError> {
    header.pieces = pieces.as_ptr();
    header.piece_count = pieces.len();
    let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), std::ptr::from_mut(header).cast());
    // SAFETY: see the head; the header has the layout of the kernel's.
    unsafe { ring.push(user, entry.flags(MSG_NOSIGNAL).build()) }.map(drop)
}
