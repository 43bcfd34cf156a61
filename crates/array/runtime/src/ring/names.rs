//! Names of entries: whose each is, and its number there.

use raidlab_device::ring::EntryEnd;
use rustix::io::Errno;

/// Whose entry it is. Each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A member I/O.
    Member,
    /// An entry of the host's port.
    Port,
    /// Waiting for the line of an operator.
    Line,
    /// The end of another early; nobody needs to hear of it.
    Cancel,
    /// A link to a member that is an NBD export, named by [`LinkEntry`].
    Link,
}

const OWNERS: [Owner; 5] = [Owner::Member, Owner::Port, Owner::Line, Owner::Cancel, Owner::Link];
/// Bits of an entry's number; its owner stands above them.
const NUMBER_BITS: u32 = 32;
/// The name of the tick's entry.
pub(super) const TICK_USER: u64 = (OWNERS.len() as u64) << NUMBER_BITS;
/// The name of the entry that polls the wake-up by other threads.
pub(super) const WAKE_UP_USER: u64 = TICK_USER + 1;

/// The entries of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEntry {
    /// Its receive.
    Receive,
    /// Its send.
    Send,
}

impl LinkEntry {
    /// The number of a link's entry.
    pub(crate) const fn number(self, link: u32) -> u32 {
        link << 1 | matches!(self, Self::Send) as u32
    }

    /// The link and the entry that a number names.
    pub(crate) const fn of(number: u32) -> (u32, Self) {
        (number >> 1, if number & 1 == 1 { Self::Send } else { Self::Receive })
    }
}

/// What the kernel said of one entry: its owner and the number it was pushed with, and bytes moved or an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// As pushed.
    pub(crate) owner: Owner,
    /// As pushed.
    pub(crate) number: u32,
    /// Bytes moved, or why not.
    pub(crate) result: Result<u32, Errno>,
    /// Flags of the completion (`IORING_CQE_F_*`).
    pub(crate) flags: u32,
}

impl Done {
    /// Of the end of an entry that [`user_data`] has named.
    #[inline]
    pub(super) fn of(end: EntryEnd) -> Self {
        Self {
            owner: OWNERS[(end.name >> NUMBER_BITS) as usize],
            number: end.name as u32,
            result: u32::try_from(end.result).map_err(|_| Errno::from_raw_os_error(-end.result)),
            flags: end.flags,
        }
    }
}

/// The name of an entry.
pub(super) const fn user_data(owner: Owner, number: u32) -> u64 {
    (owner as u64) << NUMBER_BITS | number as u64
}
