//! `raidlab workloads`: what loads there are, and what they ask for.

use crate::failure::{Exit, Failure};
use crate::inputs::workload;
use crate::output::{Output, print, print_json};
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, Metric, Workload, builtin_workloads};
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
            print(&builtin_workloads().iter().map(line).collect::<String>())?;
        }
    }
    Ok(Exit::Done)
}

/// `random 67/33, 8 KiB`, or how many lines a mix has.
fn accesses(workload: &Workload) -> String {
    match workload.spec.lines.as_slice() {
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
    lines.extend(workload.spec.lines.iter().map(|line| {
        format!(
            "  {:>3}% of bursts: {} (reads/writes in %), bursts of {}, aligned to {}, delay {}",
            line.share_pct,
            line_text(line),
            line.burst,
            alignment_text(line),
            line.delay
        )
    }));
    lines.join("\n")
}

fn as_json(workload: &Workload) -> Value {
    let lines: Vec<Value> = workload
        .spec
        .lines
        .iter()
        .map(|line| {
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
        })
        .collect();
    json!({
        "name": workload.name(),
        "title": workload.title,
        "source": workload.source,
        "metric": workload.metric,
        "notes": workload.notes,
        "block_bytes_published": workload.block_bytes_published,
        "lines": lines,
    })
}
