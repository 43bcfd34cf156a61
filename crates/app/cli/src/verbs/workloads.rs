//! `raidlab workloads`: the workloads and their requests.

use crate::failure::{Exit, Failure};
use crate::inputs::workload;
use crate::output::{Output, print, print_json};
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, Metric, MixPart, Pacing, Places, Workload, builtin_workloads};
use serde_json::{Value, json};

/// Arguments of `raidlab workloads`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show this workload: a built-in name, or a workload file (.toml)
    name: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.name {
        Some(name) => {
            let workload = workload(name)?;
            if output.is_json() {
                print_json(&json!({ "schema": 1, "workload": as_json(&workload) }))?;
            } else {
                print(&as_text(&workload))?;
            }
        }
        None if output.is_json() => {
            let all: Vec<Value> = builtin_workloads().iter().map(as_json).collect();
            print_json(&json!({ "schema": 1, "workloads": all }))?;
        }
        None => {
            let line = |workload: &Workload| {
                format!("{:<30} {:<32} {}\n", workload.name(), accesses(workload), workload.source)
            };
            let lines: String = builtin_workloads().iter().map(line).collect();
            print(
                &(lines
                    + "\nThe end of a name will do where only one workload has it: database is storagebench-database.\n"),
            )?;
        }
    }
    Ok(Exit::Done)
}

/// `random 67/33, 8 KiB`, or how many lines a mix has.
fn accesses(workload: &Workload) -> String {
    match workload.spec.lines.as_slice() {
        [] => format!("{} parts", workload.spec.parts.len()),
        [line] => line_text(line),
        lines => format!("{} kinds of request", lines.len()),
    }
}

fn line_text(line: &AccessLine) -> String {
    let order = match line.random_pct {
        0 => "sequential".to_owned(),
        100 => "random".to_owned(),
        pct => format!("{pct}% random"),
    };
    format!("{order} {}/{}, {}", line.read_pct, 100 - line.read_pct, ByteCount(u64::from(line.bytes)))
}

fn alignment_text(line: &AccessLine) -> String {
    match line.align_bytes {
        Some(0) => "the target's blocks".into(),
        align => ByteCount(u64::from(align.unwrap_or(line.bytes))).to_string(),
    }
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Iops => "requests per second",
        Metric::MbPerS => "MB per second",
    }
}

fn as_text(workload: &Workload) -> String {
    let mut lines = vec![
        workload.name().to_owned(),
        format!("  {}", workload.title),
        format!("  source: {}", workload.source),
        format!("  judged by: {}", metric_name(workload.metric)),
    ];
    if !workload.notes.is_empty() {
        lines.push(format!("  notes: {}", workload.notes));
    }
    if !workload.block_bytes_published.is_empty() {
        let sizes =
            workload.block_bytes_published.iter().map(|bytes| ByteCount(u64::from(*bytes)).to_string());
        lines.push(format!("  published at: {}", sizes.collect::<Vec<_>>().join(", ")));
    }
    let spec = &workload.spec;
    if spec.parts.is_empty() {
        lines.extend(stream_text("  ", &spec.lines, &spec.places, spec.pacing, spec.iodepth));
    } else if spec.has_weights() {
        lines.push(format!("  parts share one loop: {}{}", spec.pacing, own_iodepth(spec.iodepth)));
    }
    if !spec.data.is_noise() {
        lines.push(format!("  data: {}", spec.data));
    }
    for part in &spec.parts {
        let weight = part.weight.map_or_else(String::new, |weight| format!(", weight {weight}"));
        lines.push(format!("  part {}{weight}", part.name));
        let texts = stream_text("    ", &part.lines, &part.places, part.pacing, part.iodepth);
        lines.extend(texts.into_iter().skip(usize::from(part.weight.is_some())));
    }
    lines.join("\n")
}

fn own_iodepth(iodepth: Option<u32>) -> String {
    iodepth.map_or_else(String::new, |iodepth| format!(", iodepth {iodepth} of its own"))
}

/// Pacing, places and lines of one stream of requests.
fn stream_text(
    indent: &str,
    lines: &[AccessLine],
    places: &Places,
    pacing: Pacing,
    iodepth: Option<u32>,
) -> Vec<String> {
    let mut texts = vec![format!("{indent}{pacing}{}", own_iodepth(iodepth))];
    if *places != Places::default() {
        texts.push(format!("{indent}random places: {places}"));
    }
    texts.extend(lines.iter().map(|line| {
        format!(
            "{indent}{:>3}% of bursts: {} (reads/writes in %), bursts of {}, aligned to {}, delay {}",
            line.share_pct,
            line_text(line),
            line.burst,
            alignment_text(line),
            line.delay
        )
    }));
    texts
}

fn as_json(workload: &Workload) -> Value {
    let spec = &workload.spec;
    let part = |part: &MixPart| {
        json!({
            "name": part.name,
            "weight": part.weight,
            "iodepth": part.iodepth,
            "pacing": part.pacing.to_string(),
            "places": part.places.to_string(),
            "lines": lines_json(&part.lines),
        })
    };
    json!({
        "name": workload.name(),
        "title": workload.title,
        "source": workload.source,
        "metric": workload.metric,
        "notes": workload.notes,
        "block_bytes_published": workload.block_bytes_published,
        "iodepth": spec.iodepth,
        "pacing": spec.pacing.to_string(),
        "places": spec.places.to_string(),
        "compressible_pct": spec.data.compressible_pct,
        "dedupe_pct": spec.data.dedupe_pct,
        "lines": lines_json(&spec.lines),
        "parts": spec.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

fn lines_json(lines: &[AccessLine]) -> Vec<Value> {
    let line = |line: &AccessLine| {
        json!({
            "size_bytes": line.bytes,
            "share_pct": line.share_pct,
            "read_pct": line.read_pct,
            "random_pct": line.random_pct,
            "delay_ns": line.delay.get(),
            "burst": line.burst,
            // 0 is the block of the target.
            "align_bytes": line.align_bytes.unwrap_or(line.bytes),
            "reply_bytes": line.reply_bytes,
        })
    };
    lines.iter().map(line).collect()
}
