//! The TOML form of actors: one table of a part for each kind, read and written.

use super::file::{Rate64, RequestBytes};
use super::write::{Text, size};
use crate::actor::{
    Accelerator, Actor, Checkpoint, Compaction, LoaderUnit, LogWriter, ObjectCache, Phase, SizeLaw,
};
use crate::result::au_goal_pct_default;
use crate::toml_file::Pair;
use raidlab_units::{ByteCount, NanoSpan};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceleratorTable {
    #[serde(default = "one")]
    count: u32,
    batch: u32,
    compute: NanoSpan,
    #[serde(default)]
    compute_deviation: NanoSpan,
    #[serde(default = "one")]
    read_threads: u32,
    #[serde(default = "two")]
    prefetch: u32,
    #[serde(default)]
    loader: LoaderUnit,
    sample_size: Option<ByteCount>,
    #[serde(default)]
    sample_deviation: ByteCount,
    #[serde(default)]
    sample_table: Vec<Pair<ByteCount, Rate64>>,
    #[serde(default = "one")]
    samples_per_file: u32,
    #[serde(default = "mib")]
    request_size: RequestBytes,
    #[serde(default = "one")]
    requests_per_thread: u32,
    #[serde(default)]
    barrier: bool,
    #[serde(default)]
    per_file: NanoSpan,
    #[serde(default)]
    per_sample: NanoSpan,
    load_bytes_per_sec: Option<ByteCount>,
    #[serde(default)]
    per_step: NanoSpan,
    processors: Option<u32>,
    #[serde(default = "au_goal_pct_default")]
    au_goal_pct: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointTable {
    #[serde(default = "one")]
    writers: u32,
    /// Of each writer.
    writer_size: ByteCount,
    #[serde(default = "mib")]
    request_size: RequestBytes,
    #[serde(default = "one")]
    requests_per_writer: u32,
    #[serde(default)]
    every: NanoSpan,
    #[serde(default)]
    read_back: bool,
    pauses: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogTable {
    #[serde(default = "one")]
    clients: u32,
    append_size: Option<ByteCount>,
    #[serde(default)]
    append_deviation: ByteCount,
    #[serde(default)]
    append_table: Vec<Pair<ByteCount, Rate64>>,
    #[serde(default)]
    think: NanoSpan,
    #[serde(default)]
    group: NanoSpan,
    #[serde(default = "one")]
    flush_every: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactionTable {
    runs: u32,
    #[serde(default = "mib")]
    request_size: RequestBytes,
    #[serde(default = "two")]
    iodepth: u32,
    #[serde(default = "hundred")]
    output_pct: u32,
    follows: Option<String>,
    #[serde(default = "once")]
    amplification: f64,
    bytes_per_sec: Option<ByteCount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheTable {
    objects: u64,
    object_size: RequestBytes,
    #[serde(default = "one")]
    iodepth: u32,
    hit_pct: Option<f64>,
    trim_size: Option<ByteCount>,
}

/// All kinds of a part's table.
pub(super) struct ActorTables {
    pub(super) accelerator: Option<AcceleratorTable>,
    pub(super) checkpoint: Option<CheckpointTable>,
    pub(super) log: Option<LogTable>,
    pub(super) compaction: Option<CompactionTable>,
    pub(super) cache: Option<CacheTable>,
}

const fn one() -> u32 {
    1
}

const fn two() -> u32 {
    2
}

const fn hundred() -> u32 {
    100
}

const fn once() -> f64 {
    1.0
}

const fn mib() -> RequestBytes {
    RequestBytes(1 << 20)
}

impl ActorTables {
    /// The one that there is.
    pub(super) fn actor(self) -> Result<Option<Actor>, String> {
        let all = [
            self.accelerator.map(AcceleratorTable::actor),
            self.checkpoint.map(|it| Ok(it.actor())),
            self.log.map(LogTable::actor),
            self.compaction.map(|it| Ok(it.actor())),
            self.cache.map(|it| Ok(it.actor())),
        ];
        let mut found = all.into_iter().flatten();
        let first = found.next().transpose()?;
        match found.next() {
            None => Ok(first),
            Some(_) => Err("has two actors: give each a part of its own".to_owned()),
        }
    }
}

/// The law of the keys `NAME_size`, `NAME_deviation` and `NAME_table`.
fn size_law(
    name: &str,
    mean: Option<ByteCount>,
    deviation: ByteCount,
    table: Vec<Pair<ByteCount, Rate64>>,
) -> Result<SizeLaw, String> {
    let table: Vec<_> = table.into_iter().map(|Pair(bytes, pct)| (bytes, pct.0)).collect();
    match mean {
        Some(mean) if table.is_empty() => Ok(SizeLaw { mean, deviation, table }),
        None if !table.is_empty() && deviation == ByteCount::ZERO => {
            Ok(SizeLaw { table, ..SizeLaw::default() })
        }
        None if table.is_empty() => Err(format!("{name}_size or {name}_table is missing: add one")),
        _ => Err(format!("{name}_table stands for {name}_size and {name}_deviation: leave these out")),
    }
}

impl AcceleratorTable {
    fn actor(self) -> Result<Actor, String> {
        Ok(Actor::Accelerator(Accelerator {
            count: self.count,
            batch: self.batch,
            compute: self.compute,
            compute_deviation: self.compute_deviation,
            read_threads: self.read_threads,
            prefetch: self.prefetch,
            loader: self.loader,
            sample: size_law("sample", self.sample_size, self.sample_deviation, self.sample_table)?,
            samples_per_file: self.samples_per_file,
            request_bytes: self.request_size.0,
            requests_per_thread: self.requests_per_thread,
            barrier: self.barrier,
            per_file: self.per_file,
            per_sample: self.per_sample,
            load_bytes_per_sec: self.load_bytes_per_sec,
            per_step: self.per_step,
            processors: self.processors,
            au_goal_pct: self.au_goal_pct,
        }))
    }
}

impl CheckpointTable {
    fn actor(self) -> Actor {
        Actor::Checkpoint(Checkpoint {
            writers: self.writers,
            bytes: self.writer_size,
            request_bytes: self.request_size.0,
            requests_per_writer: self.requests_per_writer,
            every: self.every,
            read_back: self.read_back,
            pauses: self.pauses,
        })
    }
}

impl LogTable {
    fn actor(self) -> Result<Actor, String> {
        Ok(Actor::Log(LogWriter {
            clients: self.clients,
            append: size_law("append", self.append_size, self.append_deviation, self.append_table)?,
            think: self.think,
            group: self.group,
            flush_every: self.flush_every,
        }))
    }
}

impl CompactionTable {
    fn actor(self) -> Actor {
        Actor::Compaction(Compaction {
            runs: self.runs,
            request_bytes: self.request_size.0,
            iodepth: self.iodepth,
            output_pct: self.output_pct,
            follows: self.follows,
            amplification: self.amplification,
            bytes_per_sec_max: self.bytes_per_sec,
        })
    }
}

impl CacheTable {
    fn actor(self) -> Actor {
        Actor::Cache(ObjectCache {
            objects: self.objects,
            object_bytes: self.object_size.0,
            iodepth: self.iodepth,
            hit_pct: self.hit_pct,
            trim_bytes: self.trim_size,
        })
    }
}

/// Writes the table of `actor`, inside that of its part.
pub(super) fn write_actor(text: &mut Text, actor: &Actor) {
    text.line(format_args!("\n[part.{}]", actor.kind()));
    match actor {
        Actor::Accelerator(it) => write_accelerator(text, it),
        Actor::Checkpoint(it) => {
            text.count("writers", it.writers, 1);
            text.line(format_args!("writer_size = {}", size(it.bytes)));
            text.request_size(it.request_bytes);
            text.count("requests_per_writer", it.requests_per_writer, 1);
            text.span("every", it.every);
            if it.read_back {
                text.line(format_args!("read_back = true"));
            }
            if let Some(part) = &it.pauses {
                text.string("pauses", part);
            }
        }
        Actor::Log(it) => {
            text.count("clients", it.clients, 1);
            write_law(text, "append", &it.append);
            text.span("think", it.think);
            text.span("group", it.group);
            text.count("flush_every", it.flush_every, 1);
        }
        Actor::Compaction(it) => {
            text.line(format_args!("runs = {}", it.runs));
            text.request_size(it.request_bytes);
            text.count("iodepth", it.iodepth, 2);
            text.count("output_pct", it.output_pct, 100);
            if let Some(part) = &it.follows {
                text.string("follows", part);
            }
            text.real("amplification", it.amplification);
            if let Some(rate) = it.bytes_per_sec_max {
                text.line(format_args!("bytes_per_sec = {}", size(rate)));
            }
        }
        Actor::Cache(it) => {
            text.line(format_args!("objects = {}", it.objects));
            text.line(format_args!("object_size = {}", size(ByteCount(u64::from(it.object_bytes)))));
            text.count("iodepth", it.iodepth, 1);
            if let Some(pct) = it.hit_pct {
                text.real("hit_pct", pct);
            }
            if let Some(bytes) = it.trim_bytes {
                text.line(format_args!("trim_size = {}", size(bytes)));
            }
        }
    }
}

fn write_accelerator(text: &mut Text, it: &Accelerator) {
    text.count("count", it.count, 1);
    text.line(format_args!("batch = {}", it.batch));
    text.span("compute", it.compute);
    text.span("compute_deviation", it.compute_deviation);
    text.count("read_threads", it.read_threads, 1);
    text.count("prefetch", it.prefetch, 2);
    if it.loader == LoaderUnit::Batch {
        text.string("loader", "batch");
    }
    write_law(text, "sample", &it.sample);
    text.count("samples_per_file", it.samples_per_file, 1);
    text.request_size(it.request_bytes);
    text.count("requests_per_thread", it.requests_per_thread, 1);
    if it.barrier {
        text.line(format_args!("barrier = true"));
    }
    text.span("per_file", it.per_file);
    text.span("per_sample", it.per_sample);
    if let Some(rate) = it.load_bytes_per_sec {
        text.line(format_args!("load_bytes_per_sec = {}", size(rate)));
    }
    text.span("per_step", it.per_step);
    if let Some(processors) = it.processors {
        text.line(format_args!("processors = {processors}"));
    }
    if (it.au_goal_pct - au_goal_pct_default()).abs() > 0.0 {
        text.real("au_goal_pct", it.au_goal_pct);
    }
}

fn write_law(text: &mut Text, name: &str, law: &SizeLaw) {
    if !law.table.is_empty() {
        let rows = law.table.iter().map(|(bytes, pct)| format!("[{}, {pct:?}]", size(*bytes)));
        text.line(format_args!("{name}_table = [{}]", rows.collect::<Vec<_>>().join(", ")));
        return;
    }
    text.line(format_args!("{name}_size = {}", size(law.mean)));
    if law.deviation > ByteCount::ZERO {
        text.line(format_args!("{name}_deviation = {}", size(law.deviation)));
    }
}

/// Writes when a part is at work, if that is not always.
pub(super) fn write_phase(text: &mut Text, phase: &Phase) {
    if *phase == Phase::default() {
        return;
    }
    text.line(format_args!("\n[part.phase]"));
    text.span("after", phase.after);
    if let Some(lasts) = phase.lasts {
        text.span("lasts", lasts);
    }
    if let Some(every) = phase.every {
        text.span("every", every);
    }
}
