//! The ring entries of sockets. All of this crate's `unsafe` is here.
//!
//! Each function's caller keeps the named memory in place until the entry has ended. Receive buffers and outboxes are
//! boxes of a connection, and a connection is dropped only when none of its entries is in flight. Host buffers stay in
//! place as long as the array serves, and the array ends all entries before it drops its port.
//! Source: `io_uring_enter(2)`, `sendmsg(2)`.
#![allow(unsafe_code)]

use io_uring::{opcode, types::Fd};
use raidlab_runtime::{IoVec, MessageHeader, PortRing, RingError};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

/// `MSG_WAITALL`: a receive ends only when all of it is there.
const MSG_WAITALL: i32 = 0x100;
/// `MSG_NOSIGNAL`: a peer that is gone is an error and no signal.
const MSG_NOSIGNAL: u32 = 0x4000;
/// `SOCK_CLOEXEC`.
const SOCK_CLOEXEC: i32 = 0o2_000_000;

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
    *header = MessageHeader::of(pieces);
    let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), std::ptr::from_mut(header).cast());
    // SAFETY: see the head; the header has the layout of the kernel's.
    unsafe { ring.push(user, entry.flags(MSG_NOSIGNAL).build()) }.map(drop)
}
