//! `raidlab workloads`: the workloads and their requests.

use crate::failure::{Exit, Failure};
use crate::inputs::workload;
use crate::output::{Output, print, print_named};
use crate::schema::Form;
use raidlab::{ByteCount, Workload, WorkloadFacts, builtin_workloads};
use raidlab_report::terminal::{self, TerminalOptions};
use raidlab_workload::{AccessLine, Metric, Pacing, Phase, Places, Portrait, Rhythm};
use serde::Serialize;

/// Requests in flight of loops without a number of their own, where they are drawn.
const IODEPTH: u32 = 8;

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
            // A reply is for network targets, and no other shows what it does.
            let seen = Portrait::of(&workload.spec, IODEPTH).ok();
            if output.is_json() {
                print_named("workload", Shown { facts: WorkloadFacts::of(&workload), seen })?;
            } else {
                let options = output.terminal();
                let text = terminal::broken(&as_text(&workload), options.width);
                print(&(text + &drawn(&workload, seen.as_ref(), options)))?;
            }
        }
        None if output.is_json() => {
            let all = builtin_workloads();
            print_named("workloads", all.iter().map(WorkloadFacts::of).collect::<Vec<_>>())?;
        }
        None => {
            let line = |workload: &Workload| {
                format!("{:<30} {:<32} {}\n", workload.name(), workload.accesses(), workload.source)
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

/// The form of the answer for one of them.
pub(crate) const SHOWN: Form = Form::part::<Shown<'_>>("workload");

/// A workload, and what was seen of it.
#[derive(Serialize, schemars::JsonSchema)]
struct Shown<'a> {
    #[serde(flatten)]
    facts: WorkloadFacts<'a>,
    /// What it does against a target that answers each request after the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Portrait>,
}

/// Rates by the hour, and what was seen.
fn drawn(workload: &Workload, seen: Option<&Portrait>, options: TerminalOptions) -> String {
    let spec = &workload.spec;
    let loops =
        spec.parts.iter().map(|part| (part.pacing, &part.rhythm)).chain([(spec.pacing, &spec.rhythm)]);
    let rhythms = loops.filter_map(|(pacing, rhythm)| match pacing {
        Pacing::Open(arrivals) => Some(terminal::rhythm(rhythm, arrivals.rate.per_second(), options)),
        Pacing::Closed(_) => None,
    });
    let rhythms: String = rhythms.collect();
    format!("{rhythms}{}", seen.map(|seen| terminal::portrait(seen, options)).unwrap_or_default())
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
        lines.extend(stream_text("  ", &spec.lines, &spec.places, (spec.pacing, &spec.rhythm), spec.iodepth));
    } else if spec.has_weights() {
        lines.push(format!(
            "  parts share one loop: {}{}{}",
            spec.pacing,
            changes(&spec.rhythm),
            own_iodepth(spec.iodepth)
        ));
    }
    if !spec.data.is_noise() {
        lines.push(format!("  data: {}", spec.data));
    }
    for part in &spec.parts {
        let weight = part.weight.map_or_else(String::new, |weight| format!(", weight {weight}"));
        let target = part.target.map_or_else(String::new, |target| format!(", on target {target}"));
        lines.push(format!("  part {}{weight}{target}", part.name));
        if part.phase != Phase::default() {
            lines.push(format!("    at work {}", part.phase));
        }
        if let Some(actor) = &part.actor {
            lines.push(format!("    {}: {actor}", actor.kind()));
            if part.places != Places::default() {
                lines.push(format!("    places: {}", part.places));
            }
            continue;
        }
        let texts = stream_text("    ", &part.lines, &part.places, (part.pacing, &part.rhythm), part.iodepth);
        lines.extend(texts.into_iter().skip(usize::from(part.weight.is_some())));
    }
    lines.join("\n")
}

fn own_iodepth(iodepth: Option<u32>) -> String {
    iodepth.map_or_else(String::new, |iodepth| format!(", iodepth {iodepth} of its own"))
}

/// How a rate changes, behind it.
fn changes(rhythm: &Rhythm) -> String {
    if rhythm.is_steady() { String::new() } else { format!(", {rhythm}") }
}

/// Pacing, places and lines of one stream of requests.
fn stream_text(
    indent: &str,
    lines: &[AccessLine],
    places: &Places,
    (pacing, rhythm): (Pacing, &Rhythm),
    iodepth: Option<u32>,
) -> Vec<String> {
    let mut texts = vec![format!("{indent}{pacing}{}{}", changes(rhythm), own_iodepth(iodepth))];
    if *places != Places::default() {
        texts.push(format!("{indent}random places: {places}"));
    }
    texts.extend(lines.iter().map(|line| {
        format!(
            "{indent}{:>3}% of bursts: {} (reads/writes in %), bursts of {}, aligned to {}, delay {}",
            line.share_pct,
            line.in_words(),
            line.burst,
            alignment_text(line),
            line.delay
        )
    }));
    texts
}
