//! Runs over a network: the traffic, and the cost on each side, a row per run; then the properties of the sockets.

use super::grid::{Grid, Group};
use super::{TerminalOptions, heading, printable};
use crate::figures::three_digits;
use raidlab_units::NanoSpan;
use raidlab_workload::{NetSide, NetworkFacts, RunResult, SocketFacts};

/// What stands for a figure that the system does not tell.
const UNKNOWN: &str = "-";

/// Prints `runs`, all of them over networks.
pub(super) fn table(runs: &[RunResult], options: TerminalOptions) -> String {
    let rows: Vec<(&RunResult, &NetworkFacts)> =
        runs.iter().filter_map(|run| Some((run, run.network.as_ref()?))).collect();
    let Some((first, facts)) = rows.first() else { return String::new() };
    let head = format!("network test of {}", first.target);
    let about = format!(
        "  near: {}, {} processors; far: {}, {} processors; window {}; data from {}{}\n",
        printable(&facts.near.host),
        facts.near.machine.cpus,
        printable(&facts.far.host),
        facts.far.machine.cpus,
        NanoSpan(first.window_ns),
        printable(&facts.source),
        if facts.nodelay { "; TCP_NODELAY" } else { "" }
    );
    let notes = zero_copy_note(&rows);
    heading(&head, options)
        + "\n"
        + &about
        + &figures(&rows, options)
        + "\n"
        + &sockets(&rows, options)
        + &notes
        + EXPLANATION
}

const EXPLANATION: &str = "MB/s is what arrived within the receiver's window. CPU % is the process, of one processor; busy % the \
machine, of all;\ninterrupts and context switches are the machine's, per second. Buffers are the kernel's, twice what was asked for.\n";

fn figures(rows: &[(&RunResult, &NetworkFacts)], options: TerminalOptions) -> String {
    let side = ["CPU %", "busy %", "int/s", "sw/s"];
    let mut header = vec!["Direction", "Send", "Conn", "Method", "MB/s", "Sends/s"];
    header.extend(side);
    header.extend(side);
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
    let grid = Grid {
        groups: vec![
            Group { columns: 6..10, name: "near".into() },
            Group { columns: 10..14, name: "far".into() },
        ],
        ..Grid::plain(&header, 4, vec![rows.iter().map(row).collect()])
    };
    grid.render(options)
}

fn side_cells(side: &NetSide) -> [String; 4] {
    let figure = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), three_digits);
    let machine = &side.machine;
    [
        figure(side.cpu_pct()),
        figure(machine.cpu_busy.map(|share| share * 100.0)),
        figure(machine.interrupts_per_sec),
        figure(machine.context_switches_per_sec),
    ]
}

fn sockets(rows: &[(&RunResult, &NetworkFacts)], options: TerminalOptions) -> String {
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
    super::table(&header, 4, vec![rows.iter().flat_map(both).collect()], options)
}

/// What became of zero-copy sends, all runs and both sides together.
fn zero_copy_note(rows: &[(&RunResult, &NetworkFacts)]) -> String {
    let sides = rows.iter().flat_map(|(_, facts)| [&facts.near.sockets, &facts.far.sockets]);
    let (sends, copied) = sides
        .fold((0, 0), |(sends, copied), side| (sends + side.zero_copy_sends, copied + side.zero_copy_copied));
    if sends == 0 {
        return String::new();
    }
    format!("Zero-copy: of {sends} sends whose end the kernel told, it copied {copied} all the same.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::{MachineLoad, NetDirection};

    #[test]
    fn both_sides_stand_in_the_row_of_their_run() {
        let side = |host: &str, cpu_ns: u64, received_bytes: u64| NetSide {
            host: host.into(),
            window_ns: 2_000_000_000,
            sends: 100,
            received_bytes,
            machine: MachineLoad {
                watched_ns: 2_000_000_000,
                cpus: 2,
                cpu_busy: Some(0.5),
                process_cpu_ns: Some(cpu_ns),
                interrupts_per_sec: Some(1234.0),
                ..MachineLoad::default()
            },
            sockets: SocketFacts {
                mtu_bytes: 9000,
                zero_copy_sends: 7,
                zero_copy_copied: 3,
                ..SocketFacts::default()
            },
            ..NetSide::default()
        };
        let facts = NetworkFacts {
            direction: NetDirection::Send,
            connections: 4,
            send_bytes: 1472,
            source: "memory".into(),
            method: "write".into(),
            nodelay: true,
            near: side("here\u{1b}", 200_000_000, 0),
            far: side("there", 1_000_000_000, 2_000_000_000),
        };
        let run = facts.into_result("tcp://there:1".into(), NanoSpan::from_secs(3));
        let text = table(&[run], TerminalOptions { width: 110, colour: false });
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("send "))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0],
            [
                "send", "1472", "B", "4", "write", "1000", "100", "10.0", "50.0", "1230", "-", "50.0",
                "50.0", "1230", "-"
            ]
        );
        assert_eq!(rows[1][..6], ["send", "1472", "B", "4", "near", "9000"]);
        assert_eq!(rows[2][4], "far");
        assert!(text.contains("of 14 sends whose end the kernel told, it copied 6"), "{text}");
        assert!(text.contains("TCP_NODELAY") && !text.contains('\u{1b}'), "{text}");
    }
}
