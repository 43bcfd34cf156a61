//! The ring entries of sockets. All of this crate's `unsafe` is here.
//!
//! Each function's caller keeps the named memory in place until the entry has ended. Receive buffers and outboxes are
//! boxes of a connection, and a connection is dropped only when none of its entries is in flight. Host buffers stay in
//! place as long as the array serves, and the array ends all entries before it drops its port.
//! Source: `io_uring_enter(2)`, `sendmsg(2)`.
#![allow(unsafe_code)]

use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{IoVec, MessageHeader};
use raidlab_runtime::{PortRing, RingError};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// Waits for a client at `listener`; the entry ends with its descriptor.
pub(crate) fn accept(ring: &mut PortRing<'_>, user: u64, listener: BorrowedFd<'_>) -> Result<(), RingError> {
    // SAFETY: no memory is named.
    unsafe { ring.push(user, entries::accept(FileRef::open(&listener))) }.map(drop)
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
    let entry = entries::receive(FileRef::open(&socket), IoVec::of_mut(buffer), whole);
    // SAFETY: see the head; nobody looks at this part of the buffer until the entry has ended.
    unsafe { ring.push(user, entry) }.map(drop)
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
    let entry = entries::send_message(FileRef::open(&socket), header);
    // SAFETY: see the head; the header has the layout of the kernel's.
    unsafe { ring.push(user, entry) }.map(drop)
}
