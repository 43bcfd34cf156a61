//! The results of a run over a network: what was sent and how, and the cost on both hosts.
//!
//! ```text
//! near (the client) ── connections ── far (the server)       each side: its counts, its machine, its sockets
//! ```
//! A rate is what the **receiving** side received within its window, by its clock; data still in buffers does not
//! count. Sends are counted by the sending side.

use crate::result::{MachineLoad, Metric, OpSummary, RunResult, World};
use raidlab_units::{ByteCount, BytesPerSec, Iops, NanoSpan};
use serde::{Deserialize, Serialize};

raidlab_units::named! {
    /// Which way data go, seen from the side that asked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum NetDirection {
        /// From near to far.
        Send = "send",
        /// From far to near.
        Receive = "receive",
        /// Both at once, on the same connections.
        Both = "both",
    }
}

impl NetDirection {
    /// Whether the near side sends.
    pub const fn near_sends(self) -> bool {
        matches!(self, Self::Send | Self::Both)
    }

    /// Whether the far side sends.
    pub const fn far_sends(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }
}

/// What the sockets of one side were like at the end of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SocketFacts {
    /// Path MTU of the first connection.
    pub mtu_bytes: u32,
    /// Longest segment that it sends.
    pub mss_bytes: u32,
    /// Its send buffer as the kernel has it; twice what was asked for, as socket(7) says.
    pub send_buffer_bytes: u64,
    /// Its receive buffer, likewise.
    pub receive_buffer_bytes: u64,
    /// Its congestion control.
    pub congestion: String,
    /// Its smoothed round-trip time.
    pub rtt_ns: u64,
    /// Segments that all connections sent again since they were opened.
    pub retransmitted_segments: u64,
    /// Zero-copy sends that the kernel has told the end of.
    pub zero_copy_sends: u64,
    /// Those of them that it copied all the same.
    pub zero_copy_copied: u64,
}

/// What one side did in its window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NetSide {
    /// Name of the host.
    pub host: String,
    /// Length of its window.
    pub window_ns: u64,
    /// Sends that it made.
    pub sends: u64,
    /// Bytes that it handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes that it took from the kernel.
    pub received_bytes: u64,
    /// What its machine did; the processor time is that of the process.
    pub machine: MachineLoad,
    /// Its sockets.
    pub sockets: SocketFacts,
}

impl NetSide {
    /// Adds the same side of another test.
    fn add(&mut self, other: Self) {
        self.host = format!("{}, {}", self.host, other.host);
        self.window_ns = self.window_ns.max(other.window_ns);
        self.sends += other.sends;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        let both = |one: Option<u64>, two: Option<u64>| Some(one? + two?);
        let rates = |one: Option<f64>, two: Option<f64>| Some(one? + two?);
        let (own, theirs) = (&mut self.machine, other.machine);
        own.process_cpu_ns = both(own.process_cpu_ns, theirs.process_cpu_ns);
        own.load_switches_voluntary = both(own.load_switches_voluntary, theirs.load_switches_voluntary);
        own.load_switches_involuntary = both(own.load_switches_involuntary, theirs.load_switches_involuntary);
        own.interrupts_per_sec = rates(own.interrupts_per_sec, theirs.interrupts_per_sec);
        own.context_switches_per_sec = rates(own.context_switches_per_sec, theirs.context_switches_per_sec);
        own.cpu_busy = rates(own.cpu_busy, theirs.cpu_busy).map(|sum| sum.min(1.0));
        self.sockets.retransmitted_segments += other.sockets.retransmitted_segments;
        self.sockets.zero_copy_sends += other.sockets.zero_copy_sends;
        self.sockets.zero_copy_copied += other.sockets.zero_copy_copied;
    }

    /// Processor time of the process in percent of one processor.
    pub fn cpu_pct(&self) -> Option<f64> {
        let cpu_ns = self.machine.process_cpu_ns?;
        (self.machine.watched_ns > 0).then(|| 100.0 * cpu_ns as f64 / self.machine.watched_ns as f64)
    }
}

/// A run over a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NetworkFacts {
    /// Which way data went.
    pub direction: NetDirection,
    /// Connections, all at once.
    pub connections: u32,
    /// Length of a send.
    pub send_bytes: u64,
    /// Where the near side's data came from: `memory`, or a file.
    pub source: String,
    /// How it sent: `write`, `MSG_ZEROCOPY`, `sendfile`, or `read and write`.
    pub method: String,
    /// Whether small sends go out at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// The side that asked.
    pub near: NetSide,
    /// The side that served.
    pub far: NetSide,
}

impl NetworkFacts {
    /// The length of a send in words; short ones to the byte, since it is to be known whether one fits a segment.
    pub fn send_size(&self) -> String {
        match self.send_bytes {
            bytes if bytes < 10_000 && !bytes.is_multiple_of(1024) => format!("{bytes} B"),
            bytes => ByteCount(bytes).to_string(),
        }
    }

    /// The facts of tests that ran side by side, each between two hosts of its own: counts, connections and what it cost are added
    /// up, windows are the longest, and sockets are those of the first but for what they count. Nothing without any.
    pub fn together(all: Vec<Self>) -> Option<Self> {
        all.into_iter().reduce(|mut sum, other| {
            sum.connections += other.connections;
            sum.near.add(other.near);
            sum.far.add(other.far);
            sum
        })
    }

    /// Returns the run as a result; `peer` names the far side. What was sent counts as written, what was received as
    /// read. Latencies are not measured: a send ends when the kernel has taken it.
    pub fn into_result(self, peer: String, wall: NanoSpan) -> RunResult {
        let workload = format!("{} {}", self.direction, self.send_size());
        let mut run = RunResult::unmeasured(World::Measured, peer, workload, Metric::MbPerS);
        let summary = |sender: &NetSide, receiver: &NetSide| OpSummary {
            requests: sender.sends,
            iops: Iops::of(sender.sends, NanoSpan(sender.window_ns)),
            bytes_per_sec: BytesPerSec::of(ByteCount(receiver.received_bytes), NanoSpan(receiver.window_ns)),
            ..OpSummary::default()
        };
        run.iodepth = self.connections;
        run.window_ns = self.near.window_ns;
        run.ops.write = summary(&self.near, &self.far);
        run.ops.read = summary(&self.far, &self.near);
        run.ops.total = OpSummary {
            requests: run.ops.read.requests + run.ops.write.requests,
            iops: Iops(run.ops.read.iops.0 + run.ops.write.iops.0),
            bytes_per_sec: BytesPerSec(run.ops.read.bytes_per_sec.0 + run.ops.write.bytes_per_sec.0),
            ..OpSummary::default()
        };
        run.cost.wall_ns = wall.get();
        run.machine = Some(self.near.machine.clone());
        run.network = Some(self);
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(sends: u64, sent_bytes: u64, received_bytes: u64) -> NetSide {
        let machine = MachineLoad {
            watched_ns: 2_000_000_000,
            process_cpu_ns: Some(500_000_000),
            load_switches_voluntary: Some(30),
            load_switches_involuntary: Some(10),
            ..MachineLoad::default()
        };
        NetSide { window_ns: 2_000_000_000, sends, sent_bytes, received_bytes, machine, ..NetSide::default() }
    }

    #[test]
    fn a_rate_is_what_arrived() {
        let facts = NetworkFacts {
            direction: NetDirection::Both,
            connections: 4,
            send_bytes: 1000,
            source: "memory".into(),
            method: "write".into(),
            nodelay: false,
            near: side(3000, 3_000_000, 1_500_000),
            far: side(2000, 2_000_000, 2_800_000),
        };
        assert_eq!(facts.near.cpu_pct(), Some(25.0));
        let run = facts.into_result("tcp://there".into(), NanoSpan::from_secs(3));
        assert_eq!((run.workload.as_str(), run.iodepth), ("both 1000 B", 4));
        assert_eq!((run.ops.write.requests, run.ops.write.bytes_per_sec.0), (3000, 1_400_000.0));
        assert_eq!((run.ops.read.requests, run.ops.read.bytes_per_sec.0), (2000, 750_000.0));
        assert_eq!((run.ops.total.iops.0, run.ops.total.bytes_per_sec.0), (2500.0, 2_150_000.0));
    }

    #[test]
    fn tests_side_by_side_add_up() {
        let one = |near, far| NetworkFacts {
            direction: NetDirection::Send,
            connections: 2,
            send_bytes: 1000,
            source: "memory".into(),
            method: "write".into(),
            nodelay: false,
            near,
            far,
        };
        let slow = NetSide { window_ns: 2_500_000_000, ..side(0, 0, 1_000_000) };
        let all =
            vec![one(side(3000, 3_000_000, 0), side(0, 0, 2_800_000)), one(side(1000, 1_000_000, 0), slow)];
        let sum = NetworkFacts::together(all).unwrap();
        assert_eq!((sum.connections, sum.near.sends, sum.far.received_bytes), (4, 4000, 3_800_000));
        assert_eq!((sum.far.window_ns, sum.near.cpu_pct()), (2_500_000_000, Some(50.0)));
        assert_eq!(NetworkFacts::together(Vec::new()), None);
    }

    #[test]
    fn directions_say_who_sends() {
        let table = [
            (NetDirection::Send, true, false),
            (NetDirection::Receive, false, true),
            (NetDirection::Both, true, true),
        ];
        for (direction, near, far) in table {
            assert_eq!((direction.near_sends(), direction.far_sends()), (near, far), "{direction}");
        }
    }
}
