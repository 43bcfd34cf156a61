//! Runs over a network as tables: the traffic and its cost on each side, a row per run; then the properties of the sockets.

use crate::document::{Column, Table};
use crate::figures::three_digits;
use raidlab_workload::{NetSide, NetworkFacts, RunResult, SocketFacts};

/// The runs that were over a network, with their facts.
pub(crate) fn rows_of(runs: &[RunResult]) -> Vec<(&RunResult, &NetworkFacts)> {
    runs.iter().filter_map(|run| Some((run, run.network.as_ref()?))).collect()
}

/// What the figures are.
pub(crate) const EXPLANATION: &str = "MB/s is what arrived within the receiver's window. CPU % is the process, of one processor; busy % \
the machine, of all; interrupts and context switches are the machine's, per second. Buffers are the kernel's, twice what was asked for.";

/// What each run moved, and what that cost each side.
pub(crate) fn traffic(rows: &[(&RunResult, &NetworkFacts)]) -> Table {
    let side = ["CPU %", "busy %", "int/s", "sw/s"];
    let columns = ["Direction", "Send", "Conn", "Method"].map(Column::text);
    let numbers = ["MB/s", "Sends/s"].into_iter().chain(side).chain(side).map(Column::number);
    let row = |(run, facts): &(&RunResult, &NetworkFacts)| {
        let mut cells = vec![
            facts.direction.to_string(),
            facts.send_size(),
            facts.connections.to_string(),
            facts.method.clone(),
            three_digits(run.ops.total.bytes_per_sec.mb_per_s()),
            three_digits(run.ops.total.iops.0),
        ];
        cells.extend(side_cells(&facts.near));
        cells.extend(side_cells(&facts.far));
        cells
    };
    Table::new("Network tests", columns.into_iter().chain(numbers).collect())
        .group(6..10, "near")
        .group(10..14, "far")
        .section(rows.iter().map(row))
}

fn side_cells(side: &NetSide) -> [String; 4] {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let machine = &side.machine;
    [
        figure(side.cpu_pct()),
        figure(machine.cpu_busy.map(|share| share * 100.0)),
        figure(machine.interrupts_per_sec),
        figure(machine.context_switches_per_sec),
    ]
}

/// What the sockets of each side were like.
pub(crate) fn sockets(rows: &[(&RunResult, &NetworkFacts)]) -> Table {
    let header = [
        "Direction",
        "Send",
        "Conn",
        "Side",
        "MTU",
        "MSS",
        "Send buf",
        "Recv buf",
        "Congestion",
        "RTT ms",
        "Retrans",
    ];
    let row = |facts: &NetworkFacts, name: &str, side: &SocketFacts| {
        vec![
            facts.direction.to_string(),
            facts.send_size(),
            facts.connections.to_string(),
            name.to_owned(),
            side.mtu_bytes.to_string(),
            side.mss_bytes.to_string(),
            side.send_buffer_bytes.to_string(),
            side.receive_buffer_bytes.to_string(),
            side.congestion.clone(),
            three_digits(side.rtt_ns as f64 / 1e6),
            side.retransmitted_segments.to_string(),
        ]
    };
    let both = |(_, facts): &(&RunResult, &NetworkFacts)| {
        [row(facts, "near", &facts.near.sockets), row(facts, "far", &facts.far.sockets)]
    };
    Table::plain("Sockets", &header, 4).section(rows.iter().flat_map(both))
}

/// What became of zero-copy sends, all runs and both sides together.
pub(crate) fn zero_copy_note(rows: &[(&RunResult, &NetworkFacts)]) -> Option<String> {
    let sides = rows.iter().flat_map(|(_, facts)| [&facts.near.sockets, &facts.far.sockets]);
    let (sends, copied) = sides
        .fold((0, 0), |(sends, copied), side| (sends + side.zero_copy_sends, copied + side.zero_copy_copied));
    let note =
        || format!("Zero-copy: of {sends} sends whose end the kernel told, it copied {copied} all the same.");
    (sends > 0).then(note)
}
