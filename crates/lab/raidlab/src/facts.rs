//! Workloads as records with units in their names, for programs that read them.

use raidlab_workload::{AccessLine, Metric, MixPart, Phase, Rhythm, Workload};
use serde::Serialize;
use std::num::NonZeroU32;

/// A workload, and where its figures are from.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct WorkloadFacts<'a> {
    /// Its full name.
    pub name: &'a str,
    /// What it is, in a line.
    pub title: &'a str,
    /// Who published it.
    pub source: &'a str,
    /// How it is judged.
    pub metric: Metric,
    /// What else is to be known.
    pub notes: &'a str,
    /// Lengths of requests that were published, in bytes.
    pub block_bytes_published: &'a [u32],
    /// Requests in flight, where the number is its own.
    pub iodepth: Option<u32>,
    /// When requests start, in words.
    pub pacing: String,
    /// How the rate of arrivals changes, in words, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rhythm: Option<String>,
    /// Where they go, in words.
    pub places: String,
    /// Percent of the data that can be compressed away.
    pub compressible_pct: u8,
    /// Percent of the data that was written before.
    pub dedupe_pct: u8,
    /// The kinds of request of a workload of one part.
    pub lines: Vec<LineFacts>,
    /// The parts of a mix.
    pub parts: Vec<PartFacts<'a>>,
}

/// A part of a mix.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct PartFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its share of a common loop; none where it has a loop of its own.
    pub weight: Option<u32>,
    /// Requests in flight, where the number is its own.
    pub iodepth: Option<u32>,
    /// When requests start, in words.
    pub pacing: String,
    /// How the rate of arrivals changes, in words, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rhythm: Option<String>,
    /// Where they go, in words.
    pub places: String,
    /// Its kinds of request.
    pub lines: Vec<LineFacts>,
    /// The target of the run that it is for, from 1; without it each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
    /// What makes its requests instead of lines, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// When it is at work, if that is not always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub struct LineFacts {
    /// Length.
    pub size_bytes: u32,
    /// Share of all requests, in percent.
    pub share_pct: u8,
    /// Reads among them, in percent.
    pub read_pct: u8,
    /// At random places, in percent; the others in sequence.
    pub random_pct: u8,
    /// Time between bursts.
    pub delay_ns: u64,
    /// Requests of a burst.
    pub burst: u32,
    /// Requests start at multiples of it; 0 is the block of the target.
    pub align_bytes: u32,
    /// Length of the reply, where requests go over a network.
    pub reply_bytes: u32,
}

impl<'a> WorkloadFacts<'a> {
    /// What is to be known of `workload`.
    pub fn of(workload: &'a Workload) -> Self {
        let spec = &workload.spec;
        Self {
            name: workload.name(),
            title: &workload.title,
            source: &workload.source,
            metric: workload.metric,
            notes: &workload.notes,
            block_bytes_published: &workload.block_bytes_published,
            iodepth: spec.iodepth,
            pacing: spec.pacing.to_string(),
            rhythm: rhythm(&spec.rhythm),
            places: spec.places.to_string(),
            compressible_pct: spec.data.compressible_pct,
            dedupe_pct: spec.data.dedupe_pct,
            lines: lines(&spec.lines),
            parts: spec.parts.iter().map(part).collect(),
        }
    }
}

fn part(part: &MixPart) -> PartFacts<'_> {
    PartFacts {
        name: &part.name,
        weight: part.weight,
        target: part.target.map(NonZeroU32::get),
        iodepth: part.iodepth,
        pacing: part.pacing.to_string(),
        rhythm: rhythm(&part.rhythm),
        places: part.places.to_string(),
        lines: lines(&part.lines),
        actor: part.actor.as_ref().map(ToString::to_string),
        phase: (part.phase != Phase::default()).then(|| part.phase.to_string()),
    }
}

fn rhythm(rhythm: &Rhythm) -> Option<String> {
    (!rhythm.is_steady()).then(|| rhythm.to_string())
}

fn lines(lines: &[AccessLine]) -> Vec<LineFacts> {
    let line = |line: &AccessLine| LineFacts {
        size_bytes: line.bytes,
        share_pct: line.share_pct,
        read_pct: line.read_pct,
        random_pct: line.random_pct,
        delay_ns: line.delay.get(),
        burst: line.burst,
        align_bytes: line.align_bytes.unwrap_or(line.bytes),
        reply_bytes: line.reply_bytes,
    };
    lines.iter().map(line).collect()
}
