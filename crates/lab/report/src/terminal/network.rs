//! Runs over a network.

use super::TerminalOptions;
use crate::document::{Block, render};
use crate::network::{EXPLANATION, rows_of, sockets, traffic, zero_copy_note};
use raidlab_units::{NanoSpan, counted};
use raidlab_workload::RunResult;

/// Prints `runs`, all of them over networks.
pub(super) fn table(runs: &[RunResult], options: TerminalOptions) -> String {
    let rows = rows_of(runs);
    let Some((first, facts)) = rows.first() else { return String::new() };
    let about = format!(
        "near: {}, {}; far: {}, {}; window {}; data from {}{}",
        facts.near.host,
        counted(facts.near.machine.cpus, "processor"),
        facts.far.host,
        counted(facts.far.machine.cpus, "processor"),
        NanoSpan(first.window_ns),
        facts.source,
        if facts.nodelay { "; TCP_NODELAY" } else { "" }
    );
    let mut blocks = vec![
        Block::Heading(format!("network test of {}", first.target)),
        Block::Paragraph { text: about.into(), indent: 2 },
        Block::table(traffic(&rows)),
        Block::table(sockets(&rows)),
    ];
    blocks.extend(zero_copy_note(&rows).map(Block::paragraph));
    blocks.push(Block::paragraph(EXPLANATION));
    render(blocks, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::{MachineLoad, NetDirection, NetSide, NetworkFacts, SocketFacts};

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
