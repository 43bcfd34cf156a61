//! Workloads as job files of fio, as far as fio can say them. What it can't is named: in the file's first lines, and to the caller.
//!
//! ```text
//! lines of one kind   rw, bs or bssplit, percentage_random, ba      parts    a job each, on one file, side by side
//! places              offset, size, random_distribution             limits   rate_iops, rate
//! open loop           rate_process=poisson                          think    numjobs of depth 1, each of which rests
//! ```
//! Where nothing is lost, the file reads back as the same workload ([`import_fio`](super::import_fio)); a test holds this. An actor becomes the
//! requests that it makes at most: what they depend on is lost.

use super::job::is_mix;
use crate::RunHints;
use raidlab_units::{ByteCount, NanoSpan, counted};
use raidlab_workload::{
    AccessLine, Actor, ArrivalProcess, Arrivals, Checkpoint, ClosedLoop, Compaction, Distribution, FlushRule,
    LogWriter, MixPart, Pacing, Phase, Places, Rhythm, SizeLaw, Workload,
};
use std::fmt::Write;

/// A job file, and what it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioExport {
    /// The file.
    pub text: String,
    /// What is lost or a little different: sentences, each with its part.
    pub lost: Vec<String>,
}

/// Writes `workload` as a job file of fio that runs it as `run` says, on the first of its targets.
/// Length: the keys of all jobs, one after the other.
pub fn export_fio(workload: &Workload, run: &RunHints) -> FioExport {
    let spec = &workload.spec;
    let mut lost = Vec::new();
    let iodepth = run.iodepths.first().copied().unwrap_or(1);
    let jobs: Vec<Job> = if spec.parts.is_empty() {
        let own = MixPart {
            name: spec.name.clone(),
            lines: spec.lines.clone(),
            places: spec.places.clone(),
            pacing: spec.pacing,
            rhythm: spec.rhythm.clone(),
            iodepth: spec.iodepth,
            flush: spec.flush,
            ..MixPart::default()
        };
        vec![Job::of_lines(&own, iodepth, &mut lost)]
    } else {
        spec.parts
            .iter()
            .flat_map(|part| jobs_of(spec.has_weights().then_some(workload), part, iodepth, &mut lost))
            .collect()
    };
    if spec.trace.is_some() {
        lost.push("the trace: 'raidlab export iolog' writes it for fio's read_iolog".to_owned());
    }
    if spec.has_weights() {
        lost.push("weights: the parts share a loop by weight, and in fio each is a job with the requests in flight of its weight".to_owned());
    }
    let mut text =
        format!("# {}: {}\n# source: {}\n", spec.name, one_line(&workload.title), one_line(&workload.source));
    for one in &lost {
        text.extend(["# lost: ", &one_line(one), "\n"]);
    }
    text += "\n[global]\n";
    let mut global = Keys::default();
    global.set("ioengine", "libaio");
    if !run.buffered {
        global.set("direct", 1);
    }
    global.set("filename", run.targets.first().map_or("TARGET", String::as_str).replace(':', "\\:"));
    let all_repeat = jobs.iter().all(|job| job.repeats);
    if let Some(length) = run.run {
        if all_repeat {
            global.set("time_based", 1);
        }
        global.set("runtime", micros(length));
    }
    if let Some(ramp) = run.ramp {
        global.set("ramp_time", micros(ramp));
    }
    if let Some(seed) = run.seed {
        global.set("randseed", seed);
    }
    if spec.data.is_noise() {
        global.set("refill_buffers", 1);
    } else {
        global.set("buffer_compress_percentage", spec.data.compressible_pct);
        global.set("dedupe_percentage", spec.data.dedupe_pct);
    }
    text += &global.0;
    let mut names: Vec<String> = Vec::new();
    for mut job in jobs {
        if let Some(before) = names.last().filter(|_| job.waits_for_last) {
            job.keys.set("wait_for", before);
        }
        if run.run.is_some() && job.repeats && !all_repeat {
            job.keys.set("time_based", 1);
        }
        let name = crate::free_name(job.name, &names);
        text.extend(["\n[", &name, "]\n", &job.keys.0]);
        names.push(name);
    }
    FioExport { text, lost }
}

/// Without line feeds, and what else would end a comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn micros(span: NanoSpan) -> String {
    format!("{}us", span.get().div_ceil(1000))
}

/// Settings of a section.
#[derive(Default)]
struct Keys(String);

impl Keys {
    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key}={value}").expect("strings take all that is written");
    }
}

/// A section.
struct Job {
    name: String,
    keys: Keys,
    /// Whether it goes on to the end of the run, and whether it starts when the one before it in the file has ended.
    repeats: bool,
    waits_for_last: bool,
}

/// The jobs of a part; of weights each has its share of the requests in flight.
fn jobs_of(weighted: Option<&Workload>, part: &MixPart, iodepth: u32, lost: &mut Vec<String>) -> Vec<Job> {
    let name = part.name.as_str();
    if part.phase != Phase::default() {
        lost.push(format!("{name}: its phases, {}; in fio it is always at work", part.phase));
    }
    if let Some(actor) = &part.actor {
        return Job::of_actor(part, actor, lost);
    }
    let mut part = part.clone();
    if let Some(workload) = weighted {
        let spec = &workload.spec;
        let all: u32 = spec.parts.iter().map(|part| part.weight.unwrap_or(0)).sum();
        let share = f64::from(part.weight.unwrap_or(0)) / f64::from(all.max(1));
        let depth = (f64::from(spec.iodepth.unwrap_or(iodepth)) * share).round();
        part = MixPart { iodepth: Some((depth as u32).max(1)), flush: spec.flush, ..part };
        if spec.pacing != Pacing::default() {
            lost.push(format!("{}: {}, which the parts share", part.name, spec.pacing));
        }
    }
    vec![Job::of_lines(&part, iodepth, lost)]
}

impl Job {
    fn new(name: String, keys: Keys) -> Self {
        Self { name, keys, repeats: true, waits_for_last: false }
    }

    fn of_lines(part: &MixPart, iodepth: u32, lost: &mut Vec<String>) -> Self {
        let mut keys = Keys::default();
        let name = part.name.clone();
        let mut lose = |what: String| lost.push(format!("{name}: {what}"));
        let read_pct = mean_pct(&part.lines, |line| line.read_pct);
        let random_pct = mean_pct(&part.lines, |line| line.random_pct);
        direction(&mut keys, &part.lines, (read_pct, random_pct), &mut lose);
        lengths(&mut keys, &part.lines, read_pct, &mut lose);
        places(&mut keys, &part.places, (&part.lines, random_pct), &mut lose);
        let depth = part.iodepth.unwrap_or(iodepth);
        let rest = rests(&mut keys, &part.lines, (part.pacing, depth), &mut lose);
        pace(&mut keys, (part.pacing, read_pct), rest, &mut lose);
        rhythm(&part.rhythm, &mut lose);
        let depth = if part.pacing.is_open() { part.iodepth.unwrap_or(256) } else { depth };
        match rest {
            Some(_) => keys.set("numjobs", depth),
            None => keys.set("iodepth", depth),
        }
        flush(&mut keys, (part.flush, read_pct), &mut lose);
        Self::new(crate::slug(&part.name), keys)
    }

    /// The requests of an actor.
    fn of_actor(part: &MixPart, actor: &Actor, lost: &mut Vec<String>) -> Vec<Self> {
        let name = crate::slug(&part.name);
        let mut lose = |what: String| lost.push(format!("{}: {what}", part.name));
        let mut keys = Keys::default();
        let job = |keys: Keys| Self::new(name.clone(), keys);
        match actor {
            Actor::Accelerator(it) => {
                lose("batches, compute time, prefetch, barrier and utilisation: each loader reads at the rate that its accelerator takes at most".to_owned());
                if it.sample.deviation > ByteCount::ZERO || !it.sample.table.is_empty() {
                    lose("the spread of sample sizes: all are as long as the mean".to_owned());
                }
                let threads = it.count.saturating_mul(it.read_threads).max(1);
                let file = it.sample.mean_bytes() * f64::from(it.samples_per_file);
                let reads = (file / f64::from(it.request_bytes)).ceil().max(1.0);
                keys.set("rw", format!("randread:{reads:.0}"));
                keys.set("rw_sequencer", "sequential");
                keys.set("bs", it.request_bytes);
                keys.set("norandommap", 1);
                keys.set("numjobs", threads);
                keys.set("iodepth", it.requests_per_thread);
                keys.set("rate", (it.demand(it.count) / f64::from(threads)).ceil());
                region(&mut keys, &part.places, &[], &mut lose);
                vec![job(keys)]
            }
            Actor::Checkpoint(it) => checkpoint(part, it, &mut lose),
            Actor::Log(it) => log(part, it, &mut lose),
            Actor::Compaction(it) => compaction(part, it, &mut lose),
            Actor::Cache(it) => {
                let hits = it.hit_pct.unwrap_or(50.0).round();
                if it.hit_pct.is_some_and(|pct| pct.fract() != 0.0) {
                    lose("parts of a percent of hits".to_owned());
                }
                lose(format!(
                    "that {} are asked for: in fio each place is one",
                    counted(it.objects, "object")
                ));
                if it.hit_pct.is_none() {
                    lose("hits that the popularity of objects brings: half of the requests read".to_owned());
                }
                lose(
                    "eviction of what was written first: writes go on in sequence over the places of reads"
                        .to_owned(),
                );
                if let Some(bytes) = it.trim_bytes {
                    lose(format!("trims of what is evicted, {} each", bytes.plain()));
                }
                keys.set("rw", "randrw");
                keys.set("rwmixread", hits);
                keys.set("percentage_random", "100,0");
                keys.set("bs", it.object_bytes);
                let line = [AccessLine::plain(it.object_bytes, 50, 100)];
                places(&mut keys, &part.places, (&line, 100), &mut lose);
                keys.set("iodepth", it.iodepth);
                vec![job(keys)]
            }
        }
    }
}

/// A log, each record of which is a write.
fn log(part: &MixPart, it: &LogWriter, lose: Lose<'_>) -> Vec<Job> {
    let mut keys = Keys::default();
    let waits = if it.group > NanoSpan::ZERO { format!(", for {} at most", it.group) } else { String::new() };
    let flushes = if it.flush_every > 0 { " with flushes of its own" } else { "" };
    lose(format!(
        "group commit: one write takes all records of {} that wait{waits}; in fio each record is a write{flushes}",
        counted(it.clients, "client")
    ));
    keys.set("rw", "write");
    if it.think > NanoSpan::ZERO {
        keys.set("thinktime", micros(it.think));
    }
    law(&mut keys, &it.append, lose);
    keys.set("iodepth", 1);
    if it.flush_every > 0 {
        keys.set("fdatasync", it.flush_every);
    }
    let mut places = part.places.clone();
    if it.clients > 1 {
        keys.set("numjobs", it.clients);
        places.size = places.size.map(|size| {
            let each = size.get() / u64::from(it.clients) / 512 * 512;
            keys.set("offset_increment", each);
            ByteCount(each)
        });
        let begin =
            if places.size.is_some() { "in a part of its own" } else { "and begins where the others do" };
        lose(format!("that all append to one log: in fio each client writes one of its own, {begin}"));
    }
    region(&mut keys, &places, &[], lose);
    vec![Job::new(crate::slug(&part.name), keys)]
}

/// A checkpoint, and its read back behind it.
fn checkpoint(part: &MixPart, it: &Checkpoint, lose: Lose<'_>) -> Vec<Job> {
    let waits =
        it.pauses.as_ref().map_or_else(String::new, |other| format!(", and that {other} waits for it"));
    lose(format!("when it is written, each {}{waits}: it is written once and flushed", it.every));
    // Direct writes are whole blocks, and fio leaves out what is no whole request.
    let bytes = it.bytes.get().next_multiple_of(u64::from(it.request_bytes).max(1));
    if bytes != it.bytes.get() {
        lose(format!("the exact size of each writer, {}: it is {bytes}, whole requests", it.bytes.get()));
    }
    if part.places.size.is_some() || part.places.working_set_pct < 100.0 {
        lose("the size of its places, in which writers start over: in fio each writes on".to_owned());
    }
    let name = crate::slug(&part.name);
    let of = |rw: &str, first: &[(&str, u32)]| {
        let mut keys = Keys::default();
        for (key, value) in first {
            keys.set(key, value);
        }
        keys.set("rw", rw);
        keys.set("bs", it.request_bytes);
        keys.set("numjobs", it.writers);
        keys.set("iodepth", it.requests_per_writer);
        keys.set("offset", part.places.start.get());
        keys.set("size", bytes);
        keys.set("offset_increment", bytes);
        keys
    };
    let write = Job { repeats: false, ..Job::new(name.clone(), of("write", &[("end_fsync", 1)])) };
    let read = Job {
        repeats: false,
        waits_for_last: true,
        ..Job::new(format!("{name}-read-back"), of("read", &[]))
    };
    if it.read_back { vec![write, read] } else { vec![write] }
}

/// Reads of runs, and the writes of their merge.
fn compaction(part: &MixPart, it: &Compaction, lose: Lose<'_>) -> Vec<Job> {
    lose(format!(
        "that {} and their merge have places of their own: reads are one sequence over all places, and the writes another beside it",
        counted(it.runs, "run")
    ));
    if let Some(other) = &it.follows {
        lose(format!("that it follows what {other} writes, {} bytes for each", it.amplification));
    }
    if it.bytes_per_sec_max.is_none() {
        lose(format!(
            "that it writes {} bytes for 100 read: in fio neither waits for the other",
            it.output_pct
        ));
    }
    if it.iodepth % 2 == 1 {
        lose(format!("that reads and writes share {} in flight: each has half of them", it.iodepth));
    }
    let mut places = Keys::default();
    region(&mut places, &part.places, &[], lose);
    let name = crate::slug(&part.name);
    let of = |half: &str, rw: &str, share: f64| {
        let mut keys = Keys::default();
        keys.set("rw", rw);
        keys.set("bs", it.request_bytes);
        keys.set("iodepth", (it.iodepth / 2).max(1));
        if let Some(rate) = it.bytes_per_sec_max {
            keys.set("rate", (rate.get() as f64 * share).ceil());
        }
        keys.0 += &places.0;
        Job::new(format!("{name}-{half}"), keys)
    };
    let out = f64::from(it.output_pct.max(1)) / 100.0;
    vec![of("reads", "read", 1.0 / out), of("writes", "write", 1.0)]
}

/// The mean of a percentage over lines by their shares.
fn mean_pct(lines: &[AccessLine], of: impl Fn(&AccessLine) -> u8) -> u8 {
    let sum: u32 = lines.iter().map(|line| u32::from(line.share_pct) * u32::from(of(line))).sum();
    (f64::from(sum) / 100.0).round() as u8
}

type Lose<'a> = &'a mut dyn FnMut(String);

fn direction(keys: &mut Keys, lines: &[AccessLine], (read_pct, random_pct): (u8, u8), lose: Lose<'_>) {
    let is_mix = is_mix(read_pct);
    let name = match (read_pct, random_pct) {
        (100, 0) => "read",
        (0, 0) => "write",
        (_, 0) => "rw",
        (100, _) => "randread",
        (0, _) => "randwrite",
        _ => "randrw",
    };
    keys.set("rw", name);
    if is_mix {
        keys.set("rwmixread", read_pct);
        if random_pct < 100 {
            lose(
                "one place for reads and writes to go on from: in fio each goes on from its own last"
                    .to_owned(),
            );
        }
    }
    if random_pct > 0 && random_pct < 100 {
        keys.set("percentage_random", random_pct);
    }
    if lines.iter().any(|line| line.share_pct > 0 && line.random_pct != random_pct) {
        lose("which kinds of request are random: in fio all are, in the same share".to_owned());
    }
}

/// Lengths, by direction where these have lengths of their own.
fn lengths(keys: &mut Keys, lines: &[AccessLine], read_pct: u8, lose: Lose<'_>) {
    let shares = |lines: &[&AccessLine]| {
        let sum: u32 = lines.iter().map(|line| u32::from(line.share_pct)).sum();
        let mut left = 100;
        let mut each: Vec<(u32, u32)> = lines
            .iter()
            .map(|line| {
                let pct = u32::from(line.share_pct) * 100 / sum.max(1);
                left -= pct;
                (line.bytes, pct)
            })
            .collect();
        if let Some(first) = each.first_mut() {
            first.1 += left;
        }
        let is_exact = lines.iter().all(|line| (u32::from(line.share_pct) * 100).is_multiple_of(sum.max(1)));
        let texts: Vec<String> = each.iter().map(|(bytes, pct)| format!("{bytes}/{pct}")).collect();
        (texts.join(":"), is_exact)
    };
    let drawn: Vec<&AccessLine> = lines.iter().filter(|line| line.share_pct > 0).collect();
    if drawn.len() != lines.len() {
        lose("lines that are never drawn".to_owned());
    }
    let one_kind = drawn.iter().all(|line| line.read_pct == read_pct);
    let pure = drawn.iter().all(|line| line.read_pct == 0 || line.read_pct == 100);
    match drawn[..] {
        [only] => keys.set("bs", only.bytes),
        _ if one_kind => keys.set("bssplit", shares(&drawn).0),
        _ if pure => {
            let of = |pct: u8| -> Vec<&AccessLine> {
                drawn.iter().copied().filter(|line| line.read_pct == pct).collect()
            };
            let (reads, writes) = (shares(&of(100)), shares(&of(0)));
            keys.set("bssplit", format!("{},{}", reads.0, writes.0));
            let in_order = drawn.iter().map(|line| line.read_pct).is_sorted_by(|a, b| a >= b);
            if !(reads.1 && writes.1 && in_order) {
                lose(
                    "the exact shares of lengths: fio counts them in whole percents of a direction"
                        .to_owned(),
                );
            }
        }
        _ => {
            keys.set("bssplit", shares(&drawn).0);
            lose(
                "which lengths are read and which are written: in fio all are, in the same share".to_owned(),
            );
        }
    }
    alignment(keys, &drawn, lose);
    if drawn.len() > 1 && drawn.iter().any(|line| line.burst > 1 && line.delay == NanoSpan::ZERO) {
        lose("bursts of one kind of request: in fio each request draws its length".to_owned());
    }
    if drawn.iter().any(|line| line.reply_bytes > 0) {
        lose("replies".to_owned());
    }
}

fn alignment(keys: &mut Keys, drawn: &[&AccessLine], lose: Lose<'_>) {
    let least = drawn.iter().map(|line| line.bytes).min().unwrap_or(0);
    let aligns: Vec<u32> = drawn.iter().map(|line| line.alignment_bytes(512)).collect();
    let lowest = aligns.iter().copied().min().unwrap_or(least).max(1);
    if lowest != least {
        keys.set("ba", lowest);
    }
    if aligns.iter().any(|align| *align != lowest) {
        lose("alignment of each length to itself: in fio all are aligned to the least".to_owned());
    }
    if drawn.iter().any(|line| line.align_bytes == Some(0)) {
        lose("alignment to the target's blocks: it is 512 bytes".to_owned());
    }
    let is_usual = |line: &&AccessLine| line.align_bytes.is_some_and(|align| align == line.bytes);
    if drawn.iter().any(is_usual) {
        lose("that an alignment was written that is the usual one; it is the same".to_owned());
    }
}

/// Where a part's requests lie.
fn region(keys: &mut Keys, places: &Places, lines: &[AccessLine], lose: Lose<'_>) {
    let align = lines.iter().map(|line| line.align_bytes.unwrap_or(line.bytes)).max().unwrap_or(0).max(512);
    let start = places.start.get().next_multiple_of(align.into());
    if start > 0 {
        keys.set("offset", start);
    }
    let moved = start - places.start.get();
    if moved > 0 {
        lose(format!("the exact start of its places: requests are at multiples of {align} bytes"));
    }
    match (places.size.map(|size| size.get().saturating_sub(moved)), places.working_set_pct) {
        (Some(size), pct) if pct >= 100.0 => keys.set("size", size),
        (Some(size), pct) => {
            keys.set("size", (size as f64 * pct / 100.0) as u64);
            lose("the working set in percent of the size: it is written in bytes".to_owned());
        }
        (None, pct) if pct >= 100.0 => {}
        // fio's percents are of the whole file, whose length is not known here.
        (None, pct) if places.start > ByteCount::ZERO => {
            lose(format!("its working set, {pct} % of what follows its start: it uses all of that"));
        }
        (None, pct) => {
            keys.set("size", format!("{:.0}%", pct.max(1.0)));
            if pct.fract() != 0.0 || pct < 1.0 {
                lose("the exact working set: fio takes whole percents of the file".to_owned());
            }
        }
    }
}

fn places(keys: &mut Keys, places: &Places, (lines, random_pct): (&[AccessLine], u8), lose: Lose<'_>) {
    region(keys, places, lines, lose);
    if random_pct == 0 {
        return;
    }
    let is_scattered = super::is_scattered(&places.distribution);
    if places.distribution != Distribution::Uniform && places.scrambled != is_scattered {
        lose(
            "where the favourite places lie: fio scatters those of zipf, pareto and normal, and no others"
                .to_owned(),
        );
    }
    let text = match &places.distribution {
        Distribution::Shuffle => {
            if lines.len() > 1 {
                lose("each place once: with several lengths fio's map cuts requests".to_owned());
            }
            return;
        }
        Distribution::Uniform => String::new(),
        Distribution::Zipf { theta } => format!("zipf:{theta}"),
        Distribution::Pareto { h } => format!("pareto:{h}"),
        Distribution::Normal { mean_pct, deviation_pct } => {
            if *mean_pct != 50.0 {
                lose("the middle of the normal distribution: fio's is the middle of the file".to_owned());
            }
            let (width_pct, is_exact) = super::normal::width_pct(*deviation_pct);
            if !is_exact {
                lose(format!(
                    "the deviation of the normal distribution: {deviation_pct} %, and fio's is 8.4 to 16.6 % of the file"
                ));
            }
            format!("normal:{width_pct}")
        }
        Distribution::Zones(zones) => {
            let (text, is_same) = super::zones::text(zones);
            if !is_same {
                lose("parts of percents of its zones: fio's end at whole ones".to_owned());
            }
            text
        }
    };
    if !text.is_empty() {
        keys.set("random_distribution", text);
    }
    keys.set("norandommap", 1);
}

/// Think time and delays. Returns the think time where each place is a job of its own that rests.
fn rests(
    keys: &mut Keys,
    lines: &[AccessLine],
    (pacing, depth): (Pacing, u32),
    lose: Lose<'_>,
) -> Option<NanoSpan> {
    let think = match pacing {
        Pacing::Closed(ClosedLoop { think, .. }) => think,
        Pacing::Open(_) => NanoSpan::ZERO,
    };
    let delay = lines.iter().map(|line| line.delay).max().unwrap_or_default();
    if delay > NanoSpan::ZERO {
        let burst = lines.first().map_or(1, |line| line.burst);
        keys.set("thinktime", micros(delay));
        keys.set("thinktime_blocks", burst);
        lose(
            "that a delay runs from the start of a burst's last request: fio waits for its requests first"
                .to_owned(),
        );
        if lines.iter().any(|line| (line.delay, line.burst) != (delay, burst)) {
            lose("delays and bursts that differ from line to line: all have the longest".to_owned());
        }
        if think > NanoSpan::ZERO {
            lose(format!("{think} of think time beside the delay"));
        }
        return None;
    }
    if think == NanoSpan::ZERO {
        return None;
    }
    keys.set("thinktime", micros(think));
    if !think.get().is_multiple_of(1000) {
        lose("parts of a microsecond of think time".to_owned());
    }
    let is_random = lines.iter().all(|line| line.random_pct == 100);
    if depth > 1 && !is_random {
        lose(
            "one sequence for all places: each that rests is a job of its own, with a sequence of its own"
                .to_owned(),
        );
    }
    Some(think)
}

/// Limits and arrivals; of a job for each place each has its share.
fn pace(keys: &mut Keys, (pacing, read_pct): (Pacing, u8), rest: Option<NanoSpan>, lose: Lose<'_>) {
    let halves = if is_mix(read_pct) { 2.0 } else { 1.0 };
    if rest.is_some() && pacing_has_limit(pacing) {
        return lose("the limit: places that rest are jobs of their own".to_owned());
    }
    let mut rate = |key: &str, per_second: f64| {
        let each = per_second / halves;
        keys.set(key, each.ceil().max(1.0));
        if each.fract() != 0.0 {
            lose(format!("parts of {key}: fio takes whole numbers"));
        }
        if halves > 1.0 && read_pct != 50 {
            lose(format!(
                "that reads and writes share {key}: in fio each has half of it, and the mix becomes even"
            ));
        }
    };
    match pacing {
        Pacing::Open(Arrivals { process, rate: per_second, burst }) => {
            rate("rate_iops", per_second.per_second());
            match process {
                ArrivalProcess::Poisson => keys.set("rate_process", "poisson"),
                ArrivalProcess::Fixed => {
                    lose(
                        "arrivals at even times whatever the target does: in fio the rate is a limit"
                            .to_owned(),
                    );
                }
            }
            if burst > 1 {
                lose(format!("arrivals in bursts of {burst}"));
            }
        }
        Pacing::Closed(ClosedLoop { rate_max, bytes_per_sec_max, .. }) => {
            if let Some(per_second) = rate_max {
                rate("rate_iops", per_second.per_second());
            }
            if let Some(bytes) = bytes_per_sec_max {
                rate("rate", bytes.get() as f64);
            }
        }
    }
}

fn pacing_has_limit(pacing: Pacing) -> bool {
    matches!(
        pacing,
        Pacing::Closed(ClosedLoop { rate_max: Some(_), .. } | ClosedLoop { bytes_per_sec_max: Some(_), .. })
    )
}

fn rhythm(rhythm: &Rhythm, lose: Lose<'_>) {
    if !rhythm.is_steady() {
        lose(format!("that its rate changes, {rhythm}: in fio it is the mean"));
    }
}

fn flush(keys: &mut Keys, (flush, read_pct): (Option<FlushRule>, u8), lose: Lose<'_>) {
    if let Some(FlushRule { every, with_metadata }) = flush {
        if is_mix(read_pct) {
            lose(
                "how many flushes: in a mix fio flushes once more behind each read until the next write"
                    .to_owned(),
            );
        }
        keys.set(if with_metadata { "fsync" } else { "fdatasync" }, every);
    }
}

/// Lengths of records.
fn law(keys: &mut Keys, law: &SizeLaw, lose: Lose<'_>) {
    let sectors = |bytes: ByteCount| bytes.get().max(512).next_multiple_of(512);
    let mut lengths = law.table.iter().map(|(bytes, _)| *bytes).chain([law.mean]);
    if lengths.any(|bytes| bytes > ByteCount::ZERO && sectors(bytes) != bytes.get()) {
        lose("lengths of records that are no whole sectors: each write is rounded up to them".to_owned());
    }
    if law.table.is_empty() {
        keys.set("bs", sectors(law.mean));
        if law.deviation > ByteCount::ZERO {
            lose(format!("the deviation of records, {}: each is as long as the mean", law.deviation.plain()));
        }
        return;
    }
    if law.table.iter().any(|(_, pct)| pct.fract() != 0.0) {
        lose("parts of a percent of lengths of records".to_owned());
    }
    let one = |(bytes, pct): &(ByteCount, f64)| format!("{}/{pct:.0}", sectors(*bytes));
    keys.set("bssplit", law.table.iter().map(one).collect::<Vec<_>>().join(":"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{Surroundings, import_fio};
    use proptest::prelude::*;
    use raidlab_workload::{AccessSpec, DataSpec, Metric, RequestRate, builtin_workload, builtin_workloads};
    use std::num::NonZeroU32;

    fn workload(spec: AccessSpec) -> Workload {
        Workload {
            title: "made up".into(),
            source: "a test".into(),
            metric: Metric::Iops,
            notes: String::new(),
            block_bytes_published: Vec::new(),
            spec,
        }
    }

    fn hints() -> RunHints {
        RunHints { targets: vec!["/dev/x".into()], iodepths: vec![4], ..RunHints::default() }
    }

    /// What an import makes of what is exported.
    fn again(text: &str) -> (AccessSpec, RunHints) {
        let import =
            import_fio("x.fio", text, Surroundings::NONE).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(import.steps.len(), 1, "{text}");
        let step = import.steps.into_iter().next().unwrap();
        (step.workload.spec, step.run)
    }

    /// The same where two ways to say one thing are one.
    fn plain(spec: &AccessSpec) -> AccessSpec {
        let mut spec = spec.clone();
        spec.name = String::new();
        // A single part is all of it.
        if let [MixPart { weight: None, actor: None, .. }] = &spec.parts[..] {
            let part = spec.parts.remove(0);
            (spec.lines, spec.places, spec.pacing) = (part.lines, part.places, part.pacing);
            (spec.rhythm, spec.flush) = (part.rhythm, part.flush);
        }
        let places = |lines: &[AccessLine], places: &mut Places| {
            if lines.iter().all(|line| line.random_pct == 0) {
                (places.distribution, places.scrambled) = (Distribution::Uniform, false);
            }
            // Evenly is the same wherever it is scattered to.
            places.scrambled &= places.distribution != Distribution::Uniform;
        };
        let mend = |lines: &mut Vec<AccessLine>| {
            let alone = lines.len() == 1;
            for line in lines.iter_mut().filter(|line| alone && line.delay == NanoSpan::ZERO) {
                line.burst = 1;
            }
        };
        mend(&mut spec.lines);
        places(&spec.lines, &mut spec.places);
        for part in &mut spec.parts {
            mend(&mut part.lines);
            places(&part.lines, &mut part.places);
            if part.lines.iter().all(|line| line.read_pct == 100) {
                part.flush = None;
            }
        }
        if spec.parts.is_empty() && spec.lines.iter().all(|line| line.read_pct == 100) {
            spec.flush = None;
        }
        spec.iodepth = None;
        spec
    }

    fn lines() -> impl Strategy<Value = Vec<AccessLine>> {
        let kind = (0usize..4, 0u8..=100, 0usize..3, any::<bool>());
        kind.prop_map(|(count, read, random, is_even)| {
            let random_pct = [0, 100, 40][random];
            let read_pct = if is_even { [0, 50, 100][usize::from(read) % 3] } else { read };
            let shares: &[u8] = [&[100][..], &[60, 40], &[50, 30, 20], &[10, 20, 30, 40]][count];
            let line = |(index, share): (usize, &u8)| {
                let bytes = 4096 << index;
                AccessLine {
                    share_pct: *share,
                    align_bytes: (index > 0).then_some(4096),
                    ..AccessLine::plain(bytes, read_pct, random_pct)
                }
            };
            shares.iter().enumerate().map(line).collect()
        })
    }

    fn spec() -> impl Strategy<Value = AccessSpec> {
        let distribution = prop_oneof![
            Just((Distribution::Uniform, false)),
            Just((Distribution::Shuffle, false)),
            (1u32..300).prop_map(|theta| (Distribution::Zipf { theta: f64::from(theta) / 100.0 }, true)),
            (1u32..49).prop_map(|h| (Distribution::Pareto { h: f64::from(h) / 100.0 }, true)),
            (1u32..40)
                .prop_map(|it| (Distribution::Normal { mean_pct: 50.0, deviation_pct: f64::from(it) }, true)),
        ];
        let places = (distribution, 0u64..1 << 20, proptest::option::of(1u64..1 << 30)).prop_map(
            |((distribution, scrambled), start, size)| Places {
                start: ByteCount(start * if start % 2 == 0 { 1 << 16 } else { 512 }),
                size: size.map(|size| ByteCount(size * 4096)),
                distribution,
                scrambled,
                ..Places::default()
            },
        );
        let rate = || (1u32..1_000_000).prop_map(|rate| RequestRate::new(f64::from(rate) * 2.0).unwrap());
        let pacing = prop_oneof![
            Just(Pacing::default()),
            rate().prop_map(|rate| Pacing::Open(Arrivals {
                process: ArrivalProcess::Poisson,
                rate,
                burst: 1
            })),
            rate().prop_map(|rate| Pacing::Closed(ClosedLoop {
                rate_max: Some(rate),
                ..ClosedLoop::default()
            })),
            (1u64..1 << 30).prop_map(|bytes| Pacing::Closed(ClosedLoop {
                bytes_per_sec_max: Some(ByteCount(bytes * 2)),
                ..ClosedLoop::default()
            })),
            (1u64..100_000).prop_map(|us| Pacing::Closed(ClosedLoop {
                think: NanoSpan(us * 1000),
                ..ClosedLoop::default()
            })),
        ];
        let flush = proptest::option::of((1u32..9, any::<bool>())).prop_map(|flush| {
            flush.map(|(every, with_metadata)| FlushRule {
                every: NonZeroU32::new(every).unwrap(),
                with_metadata,
            })
        });
        (lines(), places, pacing, flush, (0u8..=100, 0u8..=100)).prop_map(
            |(lines, places, pacing, flush, (compressible_pct, dedupe_pct))| AccessSpec {
                places,
                pacing,
                flush,
                data: DataSpec { compressible_pct, dedupe_pct },
                ..AccessSpec::new("x", lines)
            },
        )
    }

    proptest! {
        #[test]
        fn what_loses_nothing_reads_back_as_the_same(spec in spec(), is_mix in any::<bool>()) {
            let spec = if is_mix && !spec.pacing.is_open() {
                let part = |name: &str, iodepth| MixPart {
                    name: name.into(),
                    lines: spec.lines.clone(),
                    places: spec.places.clone(),
                    pacing: spec.pacing,
                    flush: spec.flush,
                    iodepth: Some(iodepth),
                    ..MixPart::default()
                };
                AccessSpec { name: "x".into(), data: spec.data, parts: vec![part("a", 3), part("b", 1)], ..AccessSpec::default() }
            } else {
                spec
            };
            let exported = export_fio(&workload(spec.clone()), &hints());
            if exported.lost.is_empty() {
                let (found, run) = again(&exported.text);
                prop_assert_eq!(plain(&found), plain(&spec), "{}", exported.text);
                let is_closed = spec.parts.is_empty() && !spec.pacing.is_open();
                prop_assert!(!is_closed || run.iodepths == [4], "{:?}", run.iodepths);
                prop_assert_eq!(run.targets, ["/dev/x"]);
            }
        }
    }

    #[test]
    fn the_published_workloads_of_one_size_lose_nothing_and_read_back() {
        let mut whole = 0;
        for workload in builtin_workloads() {
            let exported = export_fio(&workload, &hints());
            if exported.lost.is_empty() {
                whole += 1;
                assert_eq!(plain(&again(&exported.text).0), plain(&workload.spec), "{}", exported.text);
            }
            for one in &exported.lost {
                assert!(exported.text.contains(&format!("# lost: {one}\n")), "{one}");
            }
        }
        assert!(whole >= 20, "{whole} of the built-in workloads lose nothing");
    }

    /// What an actor is told is written or named: what changes it changes the file.
    #[test]
    fn nothing_of_an_actor_is_lost_without_a_word() {
        let part = |keys: &str| {
            let head = "schema = 1\nname = \"a\"\ntitle = \"A\"\nsource = \"made up\"\nmetric = \"iops\"\n";
            let others = "[[part]]\nname = \"training\"\n[part.accelerator]\nbatch = 1\ncompute = \"1s\"\nsample_size = \"1MiB\"\n\
                [[part]]\nname = \"journal\"\n[part.log]\nappend_size = \"1KiB\"\n";
            let text = format!("{head}{others}[[part]]\nname = \"x\"\n{keys}");
            export_fio(&Workload::from_toml("a.toml", &text).unwrap(), &hints()).text
        };
        let rows: [(&str, &[&str]); 4] = [
            (
                "[part.compaction]\nruns = 2\n",
                &[
                    "iodepth = 4",
                    "iodepth = 3",
                    "output_pct = 50",
                    "follows = \"journal\"",
                    "request_size = \"64KiB\"",
                    "follows = \"journal\"\namplification = 3",
                    "bytes_per_sec = \"1MB\"",
                    "[part.places]\nsize = \"1GiB\"",
                    "[part.places]\nstart = \"1GiB\"",
                ],
            ),
            (
                "[part.log]\nappend_size = \"1KiB\"\n",
                &[
                    "clients = 2",
                    "append_deviation = \"100 B\"",
                    "think = \"1ms\"",
                    "group = \"1ms\"",
                    "flush_every = 0",
                    "think = \"1ms\"\nclients = 2",
                ],
            ),
            (
                "[part.cache]\nobjects = 9\nobject_size = \"4KiB\"\n",
                &[
                    "iodepth = 2",
                    "hit_pct = 50",
                    "hit_pct = 50.5",
                    "trim_size = \"1MiB\"",
                    "trim_size = \"2MiB\"",
                ],
            ),
            (
                "[part.checkpoint]\nwriter_size = \"1GiB\"\n",
                &[
                    "writers = 2",
                    "requests_per_writer = 2",
                    "request_size = \"64KiB\"",
                    "every = \"1s\"",
                    "read_back = true",
                    "pauses = \"training\"",
                    "[part.places]\nsize = \"1GiB\"",
                ],
            ),
        ];
        for (base, more) in rows {
            let mut seen = vec![part(base)];
            for keys in more {
                let text = part(&format!("{base}{keys}\n"));
                assert!(!seen.contains(&text), "{keys} is not in\n{text}");
                seen.push(text);
            }
        }
        assert_ne!(part(rows[0].0), part("[part.compaction]\nruns = 3\n"));
        assert_ne!(part(rows[2].0), part("[part.cache]\nobjects = 8\nobject_size = \"4KiB\"\n"));
        assert!(!part(rows[1].0).contains("records that are"), "1 KiB is whole sectors");
        assert!(!part(rows[1].0).contains("deviation"), "all are as long");
    }

    /// fio writes nothing past the first writer where a size is no whole block, and a `stonewall` waits for all jobs of the file.
    #[test]
    fn checkpoints_are_whole_requests_and_are_read_back_behind_their_own_writes() {
        let text = "schema = 1\nname = \"a\"\ntitle = \"A\"\nsource = \"made up\"\nmetric = \"iops\"\n[[part]]\nname = \"training\"\n\
                    [part.accelerator]\nbatch = 1\ncompute = \"1s\"\nsample_size = \"1MiB\"\n[[part]]\nname = \"save\"\n[part.checkpoint]\n\
                    writers = 2\nwriter_size = \"10332031250 B\"\nread_back = true\n";
        let run = RunHints { run: Some(NanoSpan::from_secs(9)), ..hints() };
        let text = export_fio(&Workload::from_toml("a.toml", text).unwrap(), &run).text;
        let whole = 10_332_031_250u64.next_multiple_of(1 << 20);
        assert!(
            text.contains(&format!(
                "# lost: save: the exact size of each writer, 10332031250: it is {whole}"
            )),
            "{text}"
        );
        assert_eq!(text.matches(&format!("\nsize={whole}\noffset_increment={whole}\n")).count(), 2, "{text}");
        assert!(text.contains("wait_for=save\n") && !text.contains("stonewall"), "{text}");
        let (global, sections) = text.split_once("\n[training]\n").unwrap();
        assert!(!global.contains("time_based"), "a checkpoint is written once");
        assert_eq!(sections.split("\n[save]\n").next().unwrap().matches("time_based=1").count(), 1, "{text}");
        assert_eq!(sections.matches("time_based=1").count(), 1, "{text}");
    }

    #[test]
    fn logs_ask_as_often_as_their_clients() {
        let text = export_fio(&builtin_workload("postgresql-pgbench").unwrap(), &hints()).text;
        let log = text.split("\n[").find(|job| job.starts_with("wal]")).unwrap();
        for key in ["rw=write\n", "numjobs=32\n", "iodepth=1\n", "thinktime=", "fdatasync=1\n"] {
            assert!(log.contains(key), "{key}: {log}");
        }
    }

    #[test]
    fn what_is_lost_is_named() {
        let lost = |name: &str| export_fio(&builtin_workload(name).unwrap(), &hints()).lost.join("\n");
        for (name, word) in [
            ("mlperf-unet3d", "training: batches, compute time, prefetch, barrier and utilisation"),
            ("checkpoint-llama3-8b", "when it is written"),
            ("postgresql-pgbench", "group commit"),
            ("kv-cache", "eviction"),
            ("rocksdb-overwrite", "that it follows what"),
        ] {
            assert!(lost(name).contains(word), "{name}: {}", lost(name));
        }
        let rhythm = Rhythm {
            steps: vec![(NanoSpan::from_secs(1), 1.0), (NanoSpan::from_secs(1), 3.0)],
            ..Rhythm::default()
        };
        let rate = RequestRate::new(100.0).unwrap();
        let arrivals = Arrivals { process: ArrivalProcess::Fixed, rate, burst: 2 };
        let spec = AccessSpec {
            rhythm,
            pacing: Pacing::Open(arrivals),
            ..AccessSpec::new("x", vec![AccessLine::plain(4096, 100, 100)])
        };
        let lost = export_fio(&workload(spec), &hints()).lost;
        assert_eq!(lost.len(), 3, "{lost:?}");
    }
}
