//! The identity of the other end of a socket, as far as the system knows it.
//!
//! Limits are per peer: a process on a Unix socket, an address on TCP (with IPv6 the network of 64 bits, which one
//! party usually has). TCP's keep-alive detects a dead peer, which would otherwise keep its place for ever.

use rustix::io;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
    socket_peercred,
};
use std::net::{IpAddr, Ipv6Addr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Silence after which a peer is asked whether it is there, and time between two such questions.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// Questions without an answer after which it is not.
const ALIVE_QUESTIONS: u32 = 4;

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine.
    Process(u32),
    /// An address, or a network of one party.
    Address(IpAddr),
}

/// A socket that has just been accepted.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    /// It is the user who serves the array, or root.
    pub(crate) is_operator: bool,
}

impl Caller {
    /// Looks who is at the other end of `socket`.
    ///
    /// # Errors
    /// What the system said, usually that the peer has gone.
    pub(crate) fn of(socket: OwnedFd, is_tcp: bool) -> std::io::Result<Self> {
        if !is_tcp {
            let peer = socket_peercred(&socket)?;
            let is_operator = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
            let process = peer.pid.as_raw_nonzero().get().cast_unsigned();
            return Ok(Self { socket, peer: Peer::Process(process), is_operator });
        }
        let stream = TcpStream::from(socket);
        let peer = Peer::Address(party(stream.peer_addr()?.ip()));
        if let Err(errno) = set_up_tcp(&stream) {
            tracing::debug!(%errno, "small packets may be held back, or a dead client not be noticed");
        }
        Ok(Self { socket: stream.into(), peer, is_operator: false })
    }
}

fn set_up_tcp(socket: impl AsFd) -> io::Result<()> {
    set_tcp_nodelay(&socket, true)?;
    set_socket_keepalive(&socket, true)?;
    set_tcp_keepidle(&socket, ALIVE_EVERY)?;
    set_tcp_keepintvl(&socket, ALIVE_EVERY)?;
    set_tcp_keepcnt(&socket, ALIVE_QUESTIONS)
}

fn party(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        },
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_party_is_an_address_or_a_network() {
        let same = |a: &str, b: &str| {
            let party_of = |text: &str| party(text.parse().expect("an address"));
            party_of(a) == party_of(b)
        };
        assert!(same("2001:db8::1", "2001:db8::ffff:0:2"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }
}
