//! TCP socket information, and sends without a copy: calls that no safe crate offers.
//!
//! **`TCP_INFO`** is read into the kernel's struct as far as both know it; fields that an older kernel lacks stay 0.
//! **`MSG_ZEROCOPY`:** the kernel reads the pages of a send until it reports on the socket's error queue that sends `a`
//! to `b` are done, and whether it copied them anyway (over loopback it always does). The data of these tests never
//! change, so the moment does not matter.
//! Source: tcp(7), Linux `Documentation/networking/msg_zerocopy.rst`.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What the kernel tells of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TcpInfo {
    pub(super) path_mtu: u32,
    pub(super) send_mss: u32,
    pub(super) rtt_us: u32,
    pub(super) retransmitted: u32,
}

/// Asks for `TCP_INFO`.
pub(super) fn tcp_info(socket: BorrowedFd<'_>) -> Result<TcpInfo, Errno> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the struct.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    // SAFETY: all fields are integers, and all bytes were zero before the kernel wrote some of them.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        path_mtu: info.tcpi_pmtu,
        send_mss: info.tcpi_snd_mss,
        rtt_us: info.tcpi_rtt,
        retransmitted: info.tcpi_total_retrans,
    })
}

/// Allows sends without a copy on this socket.
pub(super) fn allow_zero_copy(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads one int from where one is.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Sends without a copy as much of `bytes` as the socket takes; they must not change afterwards.
pub(super) fn send_zero_copy(socket: BorrowedFd<'_>, bytes: &'static [u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are readable and, being static, stay so for as long as the kernel looks at them.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| last_error())
}

/// Sends whose end the kernel told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ZeroCopyEnds {
    pub(super) sends: u64,
    /// Those that it copied.
    pub(super) copied: u64,
}

/// Room for the control message of an error: its head, the error, and an address.
const CONTROL_BYTES: usize = 256;

/// Control messages begin at multiples of a word.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Takes one message from the socket's error queue, if there is one.
pub(super) fn zero_copy_ends(socket: BorrowedFd<'_>) -> Result<Option<ZeroCopyEnds>, Errno> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: a message head of zeros is one without name, data and control.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_control = control.0.as_mut_ptr().cast();
    head.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the head names the control bytes with their length and nothing else.
    let result =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if result < 0 {
        return match last_error() {
            Errno::AGAIN => Ok(None),
            errno => Err(errno),
        };
    }
    // SAFETY: the kernel wrote well-formed control messages within `msg_controllen`, which these walk.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const head) };
    let mut ends = ZeroCopyEnds::default();
    while !message.is_null() {
        // SAFETY: a header that the walk returns lies whole within the control bytes.
        let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        if (level, kind) == (libc::SOL_IP, libc::IP_RECVERR)
            || (level, kind) == (libc::SOL_IPV6, libc::IPV6_RECVERR)
        {
            // SAFETY: an error message carries this struct; it may lie unaligned.
            let error =
                unsafe { libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned() };
            ends = add_ends(ends, &error);
        }
        // SAFETY: as for the first.
        message = unsafe { libc::CMSG_NXTHDR(&raw const head, message) };
    }
    Ok(Some(ends))
}

fn add_ends(mut ends: ZeroCopyEnds, error: &libc::sock_extended_err) -> ZeroCopyEnds {
    const ORIGIN_ZEROCOPY: u8 = 5;
    const CODE_COPIED: u8 = 1;
    if error.ee_errno == 0 && error.ee_origin == ORIGIN_ZEROCOPY {
        let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
        ends.sends += sends;
        ends.copied += if error.ee_code & CODE_COPIED != 0 { sends } else { 0 };
    }
    ends
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
