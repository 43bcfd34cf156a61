//! A network between two hosts: the size of a frame on the wire, and the processor time for calls, packets and bytes.
//!
//! ```text
//!  program ─ call ─► [ processor: copy, checksum, packets ] ═ wire ═► [ processor: interrupts, packets, copy ] ─► program
//! ```
//! A stream runs at the rate of the slowest of the three, because all of them work at the same time on different parts of it:
//! ```text
//! sender    per byte:  call / S + packet / P + 1 / copy      S: bytes of a call, P: payload of a packet
//! wire      per byte:  (P + headers + frame) / P / wire
//! receiver  per byte:  packet / P + 1 / copy
//! ```
//! An interrupt announces all packets since the last one; moderation keeps two interrupts at least
//! [`NetworkModel::interrupt_gap`] apart, and saves the receiver those in between.
//!
//! Left out: lost packets and their retransmission, windows too small for the distance, other traffic.
//! Source of the sizes: IEEE 802.3 (preamble 8, header 14, check 4, gap 12 bytes), RFC 791, 768, 793, 1323.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Bytes that a frame adds to its packet on the wire.
const FRAME_BYTES: u64 = 38;
/// IP and TCP headers with time stamps.
const TCP_HEADERS: u64 = 52;
/// The header of an IP packet.
const IP_HEADER: u64 = 20;
/// UDP and RPC headers of an NFS reply, with the file's attributes.
const NFS_REPLY_BYTES: u64 = 136;

/// How NFS calls travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram a reply, in fragments.
    Udp,
    /// A stream of segments.
    Tcp,
}

/// A kind of network adapter in the hosts that it was measured in.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkModel {
    /// Name in the catalogue, `sk-9843`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Rate on the wire.
    pub wire: BytesPerSec,
    /// Sender's time for a call.
    pub send_call: NanoSpan,
    /// Sender's time for a packet.
    pub send_packet: NanoSpan,
    /// Sender's rate of copying and checksums.
    pub send_copy: BytesPerSec,
    /// Receiver's time for a packet that has an interrupt of its own.
    pub receive_packet: NanoSpan,
    /// The part of it that the interrupt takes.
    pub receive_interrupt: NanoSpan,
    /// Receiver's rate of copying and checksums.
    pub receive_copy: BytesPerSec,
    /// Least time between two interrupts.
    pub interrupt_gap: NanoSpan,
    /// Time for a call that reads a file into a buffer before it is sent.
    pub file_call: NanoSpan,
    /// Buffers up to this length stay in the processor's first cache between the read and the send.
    pub hot_buffer: ByteCount,
    /// Rate of reading a file and sending it from such a buffer.
    pub file_copy_hot: BytesPerSec,
    /// The same from a longer one.
    pub file_copy_cold: BytesPerSec,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkLoad {
    /// Length of an IP packet.
    pub packet: ByteCount,
    /// Bytes of a call.
    pub send: ByteCount,
    /// Rate at which a file comes from its volume, if one is sent.
    pub file: Option<BytesPerSec>,
}

/// A stream at its greatest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkFlow {
    /// Payload.
    pub rate: BytesPerSec,
    /// Share of one processor that the sender is busy.
    pub sender: f64,
    /// The same of the receiver.
    pub receiver: f64,
    /// The same of the wire.
    pub wire: f64,
    /// Receiver's interrupts.
    pub interrupts_per_sec: f64,
    /// Packets.
    pub packets_per_sec: f64,
}

impl NetworkModel {
    /// Packets of an NFS reply of `bytes`.
    pub fn reply_packets(&self, bytes: ByteCount, mtu: ByteCount, transport: Transport) -> u64 {
        let payload = match transport {
            Transport::Udp => mtu.0 - IP_HEADER,
            Transport::Tcp => mtu.0 - TCP_HEADERS,
        };
        (bytes.0 + NFS_REPLY_BYTES).div_ceil(payload)
    }

    /// Time of a reply of `bytes` in so many packets on the wire.
    pub fn wire_time(&self, bytes: ByteCount, packets: u64) -> NanoSpan {
        self.wire.time_for(ByteCount(bytes.0 + NFS_REPLY_BYTES + packets * (FRAME_BYTES + IP_HEADER)))
    }

    /// Sender's time for a reply of `bytes` in so many packets, its call apart.
    pub fn send_time(&self, bytes: ByteCount, packets: u64) -> NanoSpan {
        self.send_packet * packets + self.send_copy.time_for(bytes)
    }

    /// Receiver's time for a reply of `bytes` in so many packets.
    pub fn receive_time(&self, bytes: ByteCount, packets: u64) -> NanoSpan {
        self.receive_packet * packets + self.receive_copy.time_for(bytes)
    }

    /// The rate of a TCP stream and what it takes.
    pub fn flow(&self, load: &NetworkLoad) -> NetworkFlow {
        let payload = load.packet.0.saturating_sub(TCP_HEADERS).max(1);
        let send = load.send.0.max(1) as f64;
        let packet_per_byte = |span: NanoSpan| span.as_secs_f64() / payload as f64;
        let mut sender =
            self.send_call.as_secs_f64() / send + packet_per_byte(self.send_packet) + 1.0 / self.send_copy.0;
        if load.file.is_some() {
            let copy = if load.send <= self.hot_buffer { self.file_copy_hot } else { self.file_copy_cold };
            sender += self.file_call.as_secs_f64() / send + 1.0 / copy.0;
        }
        let receiver = self.receiver_per_byte(payload);
        let wire = (payload + TCP_HEADERS + FRAME_BYTES) as f64 / payload as f64 / self.wire.0;
        let file = load.file.map_or(0.0, |rate| 1.0 / rate.0);
        let rate = 1.0 / sender.max(receiver).max(wire).max(file);
        let packets_per_sec = rate / payload as f64;
        let interrupts_per_sec = packets_per_sec.min(self.interrupts_max());
        let spared = (packets_per_sec - interrupts_per_sec) * self.receive_interrupt.as_secs_f64();
        let unspared = packet_per_byte(self.receive_packet) + 1.0 / self.receive_copy.0;
        NetworkFlow {
            rate: BytesPerSec(rate),
            sender: rate * sender,
            receiver: rate * unspared - spared,
            wire: rate * wire,
            interrupts_per_sec,
            packets_per_sec,
        }
    }

    fn interrupts_max(&self) -> f64 {
        1.0 / self.interrupt_gap.as_secs_f64().max(1e-9)
    }

    /// Seconds of a receiver that does nothing else, for each byte of packets with so much payload: with an interrupt for
    /// each packet, or, where that would be too many, with as many as there may be.
    fn receiver_per_byte(&self, payload: u64) -> f64 {
        let per_byte = |packet: f64| packet / payload as f64 + 1.0 / self.receive_copy.0;
        let (packet, interrupt) = (self.receive_packet.as_secs_f64(), self.receive_interrupt.as_secs_f64());
        let with_all = per_byte(packet);
        if 1.0 / with_all / payload as f64 <= self.interrupts_max() {
            return with_all;
        }
        per_byte(packet - interrupt) / (1.0 - interrupt * self.interrupts_max())
    }

    /// Reads the rest of a network's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let name = root.text("name")?;
        let wire = match root.optional_link()? {
            Some(standard) => standard.wire_of(&root),
            None => root.figure("wire")?,
        };
        let model = from_keys!(root, Self {
            id = id.into(), name = name, wire = wire, send_call, send_packet, send_copy, receive_packet,
            receive_interrupt, receive_copy, interrupt_gap, file_call, hot_buffer, file_copy_hot,
            file_copy_cold, sources = root.figures(),
        });
        if model.receive_interrupt > model.receive_packet {
            return Err(root.bad_value("receive_interrupt", "no more than receive_packet"));
        }
        if model.interrupt_gap > NanoSpan::ZERO && model.interrupt_gap <= model.receive_interrupt {
            return Err(root.bad_value("interrupt_gap", "none, or longer than receive_interrupt"));
        }
        root.finish(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    fn gigabit() -> NetworkModel {
        Catalog::builtin().network("sk-9843").expect("there").clone()
    }

    #[test]
    fn a_reply_is_cut_into_fragments_or_segments() {
        let model = gigabit();
        let rows = [
            (8192, 1500, Transport::Udp, 6),
            (32_768, 1500, Transport::Udp, 23),
            (8192, 9000, Transport::Udp, 1),
            (32_768, 9000, Transport::Udp, 4),
            (8192, 9000, Transport::Tcp, 1),
            (8192, 1500, Transport::Tcp, 6),
        ];
        for (bytes, mtu, transport, packets) in rows {
            let found = model.reply_packets(ByteCount(bytes), ByteCount(mtu), transport);
            assert_eq!(found, packets, "{bytes} bytes at {mtu} over {transport:?}");
        }
    }

    #[test]
    fn the_slowest_of_sender_wire_and_receiver_decides() {
        let mut model = gigabit();
        let load = |send| NetworkLoad { packet: ByteCount(9000), send: ByteCount(send), file: None };
        let tiny = model.flow(&load(1));
        assert!((tiny.sender - 1.0).abs() < 1e-9 && tiny.receiver < 0.1, "{tiny:?}");
        (model.receive_packet, model.receive_copy) = (NanoSpan::ZERO, BytesPerSec::from_mb_per_s(1e6));
        let free = model.flow(&load(100_000));
        assert!((free.wire - 1.0).abs() < 1e-9, "{free:?}");
        assert!((free.rate.mb_per_s() - 125.0 * 8948.0 / 9038.0).abs() < 1e-6, "{free:?}");
        let file = Some(BytesPerSec::from_mb_per_s(10.0));
        let disk = model.flow(&NetworkLoad { file, ..load(100_000) });
        assert!((disk.rate.mb_per_s() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn moderation_bounds_interrupts() {
        let mut model = gigabit();
        model.interrupt_gap = NanoSpan::from_micros(100);
        let load = NetworkLoad { packet: ByteCount(1500), send: ByteCount(10_000), file: None };
        let flow = model.flow(&load);
        assert!(
            (flow.interrupts_per_sec - 10_000.0).abs() < 1e-6 && flow.packets_per_sec > 20_000.0,
            "{flow:?}"
        );
        assert!((flow.receiver - 1.0).abs() < 1e-9, "it has nothing else to do: {flow:?}");
        model.interrupt_gap = NanoSpan::ZERO;
        let plain = model.flow(&load);
        assert_eq!(plain.interrupts_per_sec, plain.packets_per_sec);
        assert!((plain.receiver - 1.0).abs() < 1e-9 && plain.rate < flow.rate, "{plain:?}");
    }
}
