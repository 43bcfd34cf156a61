//! Runs over a network on the page: tables, and charts over the send size, a line for each way of sending.
//!
//! Lines differ in colour, marker and dash, and are named in the legend above the first chart. The send size is on a
//! logarithmic axis, since it ranges from 10 bytes to 1 MiB; rates are not, so that a collapse is visible.

use crate::chart::{Axis, Chart, Colour, Line, Mark, Marker, Point, SERIES_COLOURS};
use crate::document::Block;
use crate::figures::{grouped, three_digits};
use crate::network::{EXPLANATION, rows_of, sockets, traffic, zero_copy_note};
use raidlab_units::ByteCount;
use raidlab_workload::{NetworkFacts, RunResult};

/// A figure of a run for a chart.
type Figure = fn(&RunResult, &NetworkFacts) -> Option<f64>;

/// What a panel shows.
struct Shown {
    name: &'static str,
    unit: &'static str,
    of: Figure,
}

/// The figures: title, caption, and panels.
const FIGURES: [(&str, &str, &[Shown]); 3] = [
    (
        "Throughput against the length of a send.",
        "What arrived in the receiver's window. Short sends are bound by what a call costs, long ones by the link or by copies.",
        &[Shown {
            name: "throughput",
            unit: "MB/s",
            of: |run, _| Some(run.ops.total.bytes_per_sec.mb_per_s()),
        }],
    ),
    (
        "Processor time of each side's process.",
        "In percent of one processor, user and system; what interrupts take is the machine's.",
        &[
            Shown { name: "near side", unit: "% of a processor", of: |_, facts| facts.near.cpu_pct() },
            Shown { name: "far side", unit: "% of a processor", of: |_, facts| facts.far.cpu_pct() },
        ],
    ),
    (
        "Interrupts and context switches of each side's machine.",
        "Per second, all processes of the machine counted.",
        &[
            Shown {
                name: "interrupts, near",
                unit: "per s",
                of: |_, facts| facts.near.machine.interrupts_per_sec,
            },
            Shown {
                name: "interrupts, far",
                unit: "per s",
                of: |_, facts| facts.far.machine.interrupts_per_sec,
            },
            Shown {
                name: "context switches, near",
                unit: "per s",
                of: |_, facts| facts.near.machine.context_switches_per_sec,
            },
            Shown {
                name: "context switches, far",
                unit: "per s",
                of: |_, facts| facts.far.machine.context_switches_per_sec,
            },
        ],
    ),
];

/// The tables and the figures of `runs`, those of them that were over a network.
pub(super) fn results(runs: &[RunResult]) -> Block {
    let rows = rows_of(runs);
    let mut lines: Vec<String> = Vec::new();
    for (_, facts) in &rows {
        let name = line_name(facts);
        if !lines.contains(&name) {
            lines.push(name);
        }
    }
    let caption = match rows.first() {
        Some((run, facts)) => format!(
            "{} from {} (near) to {} (far); data from {}.",
            run.target, facts.near.host, facts.far.host, facts.source
        ),
        None => String::new(),
    };
    let mut body = vec![Block::table(traffic(&rows).captioned(caption)), Block::table(sockets(&rows))];
    body.extend(zero_copy_note(&rows).map(Block::paragraph));
    body.push(Block::paragraph(EXPLANATION));
    body.extend(FIGURES.iter().filter_map(|(title, caption, panels)| {
        Block::figure(panels.iter().map(|shown| chart(&rows, &lines, shown)).collect(), *title, caption)
    }));
    Block::section("results", "Results", body)
}

/// What the runs of a line have in common.
fn line_name(facts: &NetworkFacts) -> String {
    let connections = match facts.connections {
        1 => "1 connection".to_owned(),
        several => format!("{several} connections"),
    };
    let source = if facts.source == "memory" { "" } else { ", from a file" };
    format!("{}, {connections}{source}", facts.direction)
}

fn chart(rows: &[(&RunResult, &NetworkFacts)], lines: &[String], shown: &Shown) -> Chart {
    let mut marks = Vec::new();
    for (index, name) in lines.iter().enumerate() {
        let own = rows.iter().filter(|(_, facts)| line_name(facts) == *name);
        let mut points: Vec<(u64, f64)> =
            own.filter_map(|(run, facts)| Some((facts.send_bytes, (shown.of)(run, facts)?))).collect();
        points.sort_by_key(|point| point.0);
        if !points.is_empty() {
            marks.push(Mark::Line(line(index, name, &points, shown.unit)));
        }
    }
    let mut sizes: Vec<u64> = rows.iter().map(|(_, facts)| facts.send_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let ticks = ticks(&sizes).into_iter().map(|bytes| (bytes as f64, ByteCount(bytes).to_string()));
    Chart {
        heading: shown.name.to_owned(),
        label: format!("Line chart: {} in {} against the length of a send.", shown.name, shown.unit),
        x: Axis::log("length of a send").with_ticks(ticks),
        y: Axis::new(shown.unit),
        marks,
        has_key: lines.len() > 1,
        ..Chart::default()
    }
}

/// The sizes that are named on the axis: those far enough from the one before to be read.
fn ticks(sizes: &[u64]) -> Vec<u64> {
    let mut ticks: Vec<u64> = Vec::new();
    for bytes in sizes {
        if ticks.last().is_none_or(|last| *bytes as f64 >= 1.9 * *last as f64) {
            ticks.push(*bytes);
        }
    }
    ticks
}

fn line(index: usize, name: &str, points: &[(u64, f64)], unit: &str) -> Line {
    let point = |(bytes, value): &(u64, f64)| Point {
        x: *bytes as f64,
        y: *value,
        hover: format!("{name}\n{} sends\n{} {unit}", ByteCount(*bytes), grouped(&three_digits(*value))),
        ..Point::default()
    };
    Line {
        dash: Some(index / SERIES_COLOURS),
        marker: Some(Marker::number(index)),
        is_in_key: true,
        ..Line::new(name, Colour::Series(index), points.iter().map(point).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use raidlab_units::NanoSpan;
    use raidlab_workload::{NetDirection, NetSide};

    fn run(direction: NetDirection, send_bytes: u64) -> RunResult {
        let side = NetSide { window_ns: 1_000_000_000, received_bytes: 5_000_000, ..NetSide::default() };
        let facts = NetworkFacts {
            direction,
            connections: 2,
            send_bytes,
            source: "<b>".into(),
            method: "sendfile".into(),
            nodelay: false,
            near: side.clone(),
            far: side,
        };
        facts.into_result("tcp://there:1".into(), NanoSpan::from_secs(1))
    }

    #[test]
    fn a_line_for_each_way_and_a_point_for_each_length() {
        let runs = [
            run(NetDirection::Send, 1472),
            run(NetDirection::Send, 10),
            run(NetDirection::Send, 1000),
            run(NetDirection::Receive, 10),
        ];
        let document = Document { body: vec![results(&runs)], ..Document::default() };
        let (pictures, html) = (document.pictures(), document.to_html());
        // Nothing is known of processor time, interrupts and switches, so there is one chart.
        let [picture] = &pictures[..] else { panic!("{pictures:?}") };
        let lines: Vec<&Line> = picture
            .chart
            .marks
            .iter()
            .filter_map(|mark| if let Mark::Line(line) = mark { Some(line) } else { None })
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].points.iter().map(|point| point.x).collect::<Vec<_>>(), [10.0, 1000.0, 1472.0]);
        assert_eq!(lines[1].name, "receive, 2 connections, from a file");
        let ticks = picture.chart.x.ticks.as_ref().expect("sizes are named");
        assert_eq!(ticks.iter().map(|tick| tick.0).collect::<Vec<_>>(), [10.0, 1000.0]);
        assert_eq!(html.matches("<tr><th scope=\"row\"").count(), 4 + 8, "a row per run, two of its sockets");
        assert!(html.contains("&lt;b&gt;") && !html.contains("<b>;"), "{html}");
    }
}
