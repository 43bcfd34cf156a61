//! Data connections: opening, settings, and their properties.
//!
//! Buffers are set before a connection is opened or listened for, since the window scale is negotiated then. A server
//! learns of the requested size only later, which does no harm: Linux offers the scale of the largest buffer it allows.

use super::NetError;
use super::sys::{allow_zero_copy, tcp_info};
use super::wire::NetOrder;
use raidlab_workload::SocketFacts;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_congestion, set_tcp_nodelay,
    socket_recv_buffer_size, socket_send_buffer_size, tcp_congestion,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// Opens a connection to `address` with the order's settings, or none for a control connection.
pub(super) fn open(
    address: SocketAddr,
    order: Option<&NetOrder>,
    limit: Duration,
) -> Result<TcpStream, NetError> {
    let cannot = |source: io::Error| NetError::Connect { peer: address.to_string(), source };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP));
    let stream = TcpStream::from(socket.map_err(|errno| cannot(errno.into()))?);
    if let Some(order) = order {
        set(&stream, order)?;
    }
    // On Linux the limit for writing is that for connecting, too.
    stream.set_write_timeout(Some(limit)).map_err(cannot)?;
    connect(&stream, &address).map_err(|errno| cannot(errno.into()))?;
    Ok(stream)
}

/// Sets what the order wants.
pub(super) fn set(stream: &TcpStream, order: &NetOrder) -> Result<(), NetError> {
    let socket = stream.as_fd();
    if let Some(bytes) = order.socket_buffer {
        set_socket_send_buffer_size(socket, bytes as usize)
            .map_err(NetError::socket("set the send buffer"))?;
        set_socket_recv_buffer_size(socket, bytes as usize)
            .map_err(NetError::socket("set the receive buffer"))?;
    }
    if let Some(name) = &order.congestion {
        set_tcp_congestion(socket, name).map_err(|errno| {
            NetError::Order(format!(
                "congestion control '{name}' can't be had here ({errno}): see net.ipv4.tcp_available_congestion_control"
            ))
        })?;
    }
    set_tcp_nodelay(socket, order.nodelay).map_err(NetError::socket("set TCP_NODELAY"))?;
    if order.zero_copy {
        allow_zero_copy(socket).map_err(NetError::socket("allow zero-copy sends"))?;
    }
    Ok(())
}

/// What the connections are like: the first one's settings, and the retransmissions of all.
pub(super) fn facts(streams: &[TcpStream]) -> SocketFacts {
    let mut facts = SocketFacts::default();
    for (number, stream) in streams.iter().enumerate() {
        let socket = stream.as_fd();
        let info = tcp_info(socket).unwrap_or_default();
        facts.retransmitted_segments += u64::from(info.retransmitted);
        if number == 0 {
            facts.mtu_bytes = info.path_mtu;
            facts.mss_bytes = info.send_mss;
            facts.rtt_ns = u64::from(info.rtt_us) * 1000;
            facts.send_buffer_bytes = socket_send_buffer_size(socket).unwrap_or(0) as u64;
            facts.receive_buffer_bytes = socket_recv_buffer_size(socket).unwrap_or(0) as u64;
            facts.congestion = tcp_congestion(socket).unwrap_or_default();
        }
    }
    facts
}
