//! Workloads as job files of fio, as far as fio can say them. What it can't is named: in the file's first lines, and to the caller.
//!
//! ```text
//! lines of one kind   rw, bs or bssplit, percentage_random, ba      parts    a job each, side by side, on one file or on that of its target
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

/// Writes `workload` as a job file of fio that runs it as `run` says: on the first of its targets, or where parts name targets on these.
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
        let targets = spec.targets();
        let jobs_on = |part: &MixPart| -> Vec<Job> {
            let jobs = jobs_of(spec.has_weights().then_some(workload), part, iodepth, &mut lost);
            let numbers = match (part.target, targets) {
                (Some(target), _) => target.get()..=target.get(),
                // A job for each target, where others are for one.
                (None, Some(targets)) => 1..=targets,
                (None, None) => return jobs,
            };
            let on = |number| {
                jobs.iter().cloned().map(move |job| Job { filename: Some(filename(run, number)), ..job })
            };
            numbers.flat_map(on).collect()
        };
        spec.parts.iter().flat_map(jobs_on).collect()
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
    if spec.targets().is_none() {
        global.set("filename", filename(run, 1));
    }
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
        if let Some(filename) = &job.filename {
            job.keys.set("filename", filename);
        }
        if let Some(before) = names.last().filter(|_| job.waits_for_last) {
            job.keys.set("wait_for", before);
        }
        if run.run.is_some() && job.repeats && !all_repeat {
            job.keys.set("time_based", 1);
        }
        // What begins so is no job.
        let name = if job.name.starts_with("global") { format!("job-{}", job.name) } else { job.name };
        let name = crate::free_name(name, &names);
        text.extend(["\n[", &name, "]\n", &job.keys.0]);
        names.push(name);
    }
    FioExport { text, lost }
}

/// Target number `number`, from 1, as fio takes it.
fn filename(run: &RunHints, number: u32) -> String {
    let named = run.targets.get(number as usize - 1).map(|name| name.replace(':', "\\:"));
    named.unwrap_or_else(|| if number == 1 { "TARGET".to_owned() } else { format!("TARGET-{number}") })
}

/// Without line feeds, and what else would end a comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn micros(span: NanoSpan) -> String {
    format!("{}us", span.get().div_ceil(1000))
}

/// Settings of a section.
#[derive(Clone, Default)]
struct Keys(String);

impl Keys {
    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.0, "{key}={value}").expect("strings take all that is written");
    }
}

/// A section.
#[derive(Clone)]
struct Job {
    name: String,
    keys: Keys,
    /// The file of its target, where parts name targets.
    filename: Option<String>,
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
        Self { name, keys, filename: None, repeats: true, waits_for_last: false }
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
    if places.files.count > 1 {
        lose("files that have their turns and a place to go on from each: in fio it is one file".to_owned());
    }
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
        Distribution::Zipf { theta } if *theta == 1.0 => {
            lose("a theta of 1 of zipf: fio refuses that, and has 1.001".to_owned());
            "zipf:1.001".to_owned()
        }
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
        zoned @ (Distribution::HitRates(_) | Distribution::Zones(_)) => {
            if matches!(zoned, Distribution::HitRates(_)) {
                lose("that its zones were written as hit rates; they are the same".to_owned());
            }
            let (text, is_same) = super::zones::text(&zoned.zones());
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
mod tests;
