//! What an entry of a ring asks for, read from its 64 bytes.
//!
//! Only the operations that arrays use are known. Memory is named by address, as the kernel sees it.
//! Source: `struct io_uring_sqe` of `linux/io_uring.h`; `struct iovec`, `struct msghdr`.
#![allow(unsafe_code)]

use io_uring::squeue::Entry;
use std::os::fd::RawFd;

const READV: u8 = 1;
const WRITEV: u8 = 2;
const FSYNC: u8 = 3;
const READ_FIXED: u8 = 4;
const WRITE_FIXED: u8 = 5;
const POLL_ADD: u8 = 6;
const SENDMSG: u8 = 9;
const RECVMSG: u8 = 10;
const ACCEPT: u8 = 13;
const ASYNC_CANCEL: u8 = 14;
const READ: u8 = 22;
const WRITE: u8 = 23;
const RECV: u8 = 27;

const FIXED_FILE: u8 = 1;
const RWF_DSYNC: u32 = 2;
const MSG_WAITALL: u32 = 0x100;
const CANCEL_ALL: u32 = 1;
const CANCEL_FD: u32 = 2;
const CANCEL_ANY: u32 = 4;

/// A piece of memory that an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

impl Piece {
    /// What is there.
    ///
    /// # Safety
    /// The piece is of an entry in flight.
    pub(crate) const unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: who pushed the entry keeps its memory until its last completion.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.bytes) }
    }

    /// The same, for writing.
    ///
    /// # Safety
    /// As [`Piece::bytes`], and the entry is one that the kernel writes to.
    #[allow(clippy::mut_from_ref, reason = "it is memory of others, by its address")]
    pub(crate) const unsafe fn bytes_mut(&self) -> &mut [u8] {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: as above; until then it is the kernel's.
        unsafe { std::slice::from_raw_parts_mut(start, self.bytes) }
    }
}

/// A file or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Open(RawFd),
    Registered(u16),
}

/// What is to be ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Named(u64),
    OfFile(FileName),
    Any,
}

/// What an entry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read { file: FileName, offset: u64, pieces: Vec<Piece> },
    Write { file: FileName, offset: u64, pieces: Vec<Piece>, durable: bool },
    Flush { file: FileName },
    Receive { socket: FileName, pieces: Vec<Piece>, whole: bool },
    Send { socket: FileName, pieces: Vec<Piece> },
    Accept,
    Readable { file: RawFd },
    Cancel(Victim),
}

/// The name of an entry, and what it asks for.
///
/// # Safety
/// The lists and headers that it names are there.
///
/// # Panics
/// If it is an operation that arrays do not use.
pub(crate) unsafe fn read(entry: &Entry) -> (u64, Asked) {
    const { assert!(size_of::<Entry>() == 64, "an entry of the kernel's plain length") };
    // SAFETY: an entry is `struct io_uring_sqe`, 64 bytes without padding that was not written.
    let raw: [u8; 64] = unsafe { std::ptr::read(std::ptr::from_ref(entry).cast()) };
    let long = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().expect("eight bytes"));
    let word = |at: usize| u32::from_le_bytes(raw[at..at + 4].try_into().expect("four bytes"));
    let (code, descriptor, offset, address, length, how, name) =
        (raw[0], word(4).cast_signed(), long(8), long(16) as usize, word(24), word(28), long(32));
    let file = if raw[1] & FIXED_FILE == 0 {
        FileName::Open(descriptor)
    } else {
        FileName::Registered(descriptor as u16)
    };
    let one = || vec![Piece { address, bytes: length as usize }];
    // SAFETY: as the caller promises.
    let list = || unsafe { pieces(address, length as usize) };
    // SAFETY: as the caller promises.
    let message = || unsafe { pieces_of_message(address) };
    let durable = how & RWF_DSYNC != 0;
    let asked = match code {
        READ | READ_FIXED => Asked::Read { file, offset, pieces: one() },
        READV => Asked::Read { file, offset, pieces: list() },
        WRITE | WRITE_FIXED => Asked::Write { file, offset, pieces: one(), durable },
        WRITEV => Asked::Write { file, offset, pieces: list(), durable },
        FSYNC => Asked::Flush { file },
        RECV => Asked::Receive { socket: file, pieces: one(), whole: how & MSG_WAITALL != 0 },
        RECVMSG => Asked::Receive { socket: file, pieces: message(), whole: how & MSG_WAITALL != 0 },
        SENDMSG => Asked::Send { socket: file, pieces: message() },
        ACCEPT => Asked::Accept,
        POLL_ADD => Asked::Readable { file: descriptor },
        ASYNC_CANCEL if how & CANCEL_ANY != 0 => Asked::Cancel(Victim::Any),
        ASYNC_CANCEL if how & CANCEL_FD != 0 => {
            assert!(how & CANCEL_ALL != 0, "arrays end all of a file");
            // The flags say whether it is a registered one: bit 3.
            let of = if how & 8 == 0 {
                FileName::Open(descriptor)
            } else {
                FileName::Registered(descriptor as u16)
            };
            Asked::Cancel(Victim::OfFile(of))
        }
        ASYNC_CANCEL => Asked::Cancel(Victim::Named(address as u64)),
        other => panic!("operation {other} is not one of those that arrays use"),
    };
    (name, asked)
}

/// # Safety
/// `count` pieces of memory are listed there.
unsafe fn pieces(address: usize, count: usize) -> Vec<Piece> {
    let list = std::ptr::with_exposed_provenance::<[usize; 2]>(address);
    // SAFETY: as the caller promises; `struct iovec` is two words.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    list.iter().map(|[address, bytes]| Piece { address: *address, bytes: *bytes }).collect()
}

/// # Safety
/// The header of a message is there, and what it lists.
unsafe fn pieces_of_message(address: usize) -> Vec<Piece> {
    // SAFETY: as the caller promises; the list is the third word of `struct msghdr`, its length the fourth.
    let header = unsafe { *std::ptr::with_exposed_provenance::<[usize; 4]>(address) };
    // SAFETY: as above.
    unsafe { pieces(header[2], header[3]) }
}
