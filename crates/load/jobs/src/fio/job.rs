//! One job of a fio file: the meaning of its settings.
//!
//! | fio | here |
//! |---|---|
//! | `rw`, `rwmixread`, `percentage_random` | read and random percent of the lines |
//! | `bs`, `bssplit`, `bsrange` | a line for each size, by share |
//! | `norandommap` missing, one size | distribution `shuffle`: every place once |
//! | `norandommap`, or several sizes | distribution `uniform` |
//! | `zipf`, `pareto` | the same, scrambled, as fio hashes their places |
//! | `iodepth` of a synchronous engine | 1 |
//! | `numjobs` of random requests | that many times the `iodepth` |
//! | `numjobs` of sequential requests | that many parts, each with its own position |
//! | `rate`, `rate_iops` | a limit; with `rate_process=poisson` arrivals at that rate |
//! | `thinktime` | think time of each place, or, after more than one request, a delay after a burst |

use super::sizes::{lines, of_direction, sizes};
use super::values::{number, percent, size, switch, time};
use super::{Section, Setting};
use crate::Reason;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    AccessLine, ArrivalProcess, Arrivals, ClosedLoop, DataSpec, Distribution, FlushRule, MixPart, Pacing,
    Places, RequestRate, Zone,
};
use std::num::NonZeroU32;

/// Engines of files and block devices, and whether they take more than one request at a time.
const ENGINES: [(&str, bool); 16] = [
    ("sync", false),
    ("psync", false),
    ("vsync", false),
    ("pvsync", false),
    ("pvsync2", false),
    ("mmap", false),
    ("splice", false),
    ("libaio", true),
    ("posixaio", true),
    ("io_uring", true),
    ("solarisaio", true),
    ("windowsaio", true),
    ("null", true),
    ("sg", true),
    ("nbd", true),
    ("syslet-rw", true),
];
const SECTOR: u64 = 512;

/// A job, understood.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) line: usize,
    /// Whether it waits for the jobs before it.
    pub(super) starts_step: bool,
    pub(super) targets: Vec<String>,
    pub(super) size: Option<ByteCount>,
    pub(super) run: Option<NanoSpan>,
    pub(super) ramp: Option<NanoSpan>,
    pub(super) seed: Option<u64>,
    pub(super) buffered: bool,
    pub(super) data: DataSpec,
    lines: Vec<AccessLine>,
    places: Places,
    pacing: Pacing,
    iodepth: u32,
    flush: Option<FlushRule>,
    numjobs: u32,
    offset_increment: u64,
}

/// Reads of settings: the last of a key counts, and every mistake is kept.
pub(super) struct Reader<'a> {
    section: &'a Section,
    reasons: Vec<Reason>,
}

impl<'a> Reader<'a> {
    pub(super) fn find(&self, key: &str) -> Option<&'a Setting> {
        self.section.settings.iter().rev().find(|setting| setting.key == key)
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.find(key).map(|setting| setting.value.as_str())
    }

    /// The value of `key` as `read` understands it.
    pub(super) fn value<T>(&mut self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let setting = self.find(key)?;
        match read(&setting.value) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.reasons.push(Reason::at(setting.line, format!("{key}: {problem}")));
                None
            }
        }
    }

    /// What is wrong with the value of `key`.
    pub(super) fn wrong(&mut self, key: &str, problem: impl Into<String>) {
        let line = self.find(key).map_or(self.section.line, |setting| setting.line);
        self.reasons.push(Reason::at(line, problem));
    }

    pub(super) fn base(&mut self) -> u64 {
        match self.value("kb_base", number) {
            Some(1000) => 1000,
            _ => 1024,
        }
    }
}

impl Job {
    /// Understands `section`.
    ///
    /// # Errors
    /// All that is wrong with it, by line.
    pub(super) fn new(section: &Section, notes: &mut Vec<String>) -> Result<Self, Vec<Reason>> {
        let mut reader = Reader { section, reasons: Vec::new() };
        let base = reader.base();
        let bytes = |text: &str| size(text, base);
        let (reads, is_random) = direction(&mut reader);
        let random_pct =
            if is_random { reader.value("percentage_random", percent).unwrap_or(100) } else { 0 };
        let sizes = [0, 1].map(|direction| sizes(&mut reader, direction, base, notes));
        let lines = lines(&sizes, reads, random_pct);
        let takes_many = engine(&mut reader);
        let iodepth = reader.value("iodepth", number).unwrap_or(1).max(1);
        let places = places(&mut reader, &lines, random_pct > 0, base, notes);
        let iodepth = if takes_many { iodepth } else { 1 };
        let (pacing, lines) = pacing(&mut reader, lines, iodepth, reads, base, notes);
        let direct = reader.value("direct", switch);
        let buffered = reader.value("buffered", switch);
        let plain = NanoSpan::from_secs(1);
        let job = Self {
            name: section.name.clone(),
            line: section.line,
            starts_step: reader.value("stonewall", switch).unwrap_or(false),
            targets: targets(&reader),
            size: places.size,
            run: reader.value("runtime", |text| time(text, plain)).filter(|run| *run > NanoSpan::ZERO),
            ramp: reader.value("ramp_time", |text| time(text, plain)).filter(|ramp| *ramp > NanoSpan::ZERO),
            seed: reader.value("randseed", bytes),
            buffered: !direct.unwrap_or(buffered.is_some_and(|buffered| !buffered)),
            data: data(&mut reader),
            numjobs: reader.value("numjobs", number).unwrap_or(1).max(1),
            offset_increment: reader.value("offset_increment", bytes).unwrap_or(0),
            flush: flush(&mut reader).filter(|_| lines.iter().any(|line| line.read_pct < 100)),
            lines,
            places,
            pacing,
            iodepth,
        };
        for key in ["loops", "number_ios", "io_size", "size"] {
            if reader.find(key).is_some() && job.run.is_none() {
                let told = "A job without runtime ends in fio when it has moved its size; here the window does: give --run.";
                notes.push(told.into());
                break;
            }
        }
        if reader.reasons.is_empty() { Ok(job) } else { Err(reader.reasons) }
    }

    /// Parts that it becomes.
    pub(super) fn clones(&self) -> u32 {
        let in_one = self.offset_increment == 0 && self.lines.iter().all(|line| line.random_pct == 100);
        if in_one { 1 } else { self.numjobs.min(super::PARTS_MAX as u32 + 1) }
    }

    /// The part for its clone number `clone`.
    pub(super) fn part(&self, clone: u32) -> MixPart {
        let clones = self.clones();
        let each = if clones == 1 { self.numjobs } else { 1 };
        let mut places = self.places.clone();
        let moved = self.offset_increment.saturating_mul(u64::from(clone));
        places.start = ByteCount(places.start.get().saturating_add(moved));
        MixPart {
            name: if clones == 1 { self.name.clone() } else { format!("{}-{}", self.name, clone + 1) },
            weight: None,
            lines: self.lines.clone(),
            places,
            pacing: times(self.pacing, each),
            iodepth: (!self.pacing.is_open()).then(|| self.iodepth.saturating_mul(each)),
            flush: self.flush,
        }
    }

    /// Length of its file up to the end of what its clone `clone` uses.
    pub(super) fn extent(&self, clone: u32) -> u64 {
        let start =
            self.places.start.get().saturating_add(self.offset_increment.saturating_mul(u64::from(clone)));
        self.size.map_or(0, |size| start.saturating_add(size.get()))
    }
}

/// The pacing of `count` loops in one.
fn times(pacing: Pacing, count: u32) -> Pacing {
    let more = |rate: RequestRate| RequestRate::new(rate.per_second() * f64::from(count)).unwrap_or(rate);
    match pacing {
        Pacing::Open(arrivals) => Pacing::Open(Arrivals { rate: more(arrivals.rate), ..arrivals }),
        Pacing::Closed(closed) => Pacing::Closed(ClosedLoop {
            rate_max: closed.rate_max.map(more),
            bytes_per_sec_max: closed
                .bytes_per_sec_max
                .map(|rate| ByteCount(rate.get().saturating_mul(u64::from(count)))),
            ..closed
        }),
    }
}

/// The flush behind every so many writes. Clones that become one loop share the writes, and so the flushes.
fn flush(reader: &mut Reader<'_>) -> Option<FlushRule> {
    let [all, data] = ["fsync", "fdatasync"].map(|key| reader.value(key, number).and_then(NonZeroU32::new));
    if all.is_some() && data.is_some() {
        reader.wrong("fdatasync", "fsync and fdatasync at once have no counterpart here: leave out either");
    }
    all.or(data).map(|every| FlushRule { every, with_metadata: all.is_some() })
}

/// Read percent, and whether requests are random.
fn direction(reader: &mut Reader<'_>) -> (u8, bool) {
    let text = reader.text("rw").unwrap_or("read");
    let mix = reader.value("rwmixread", percent);
    let mix = mix.or(reader.value("rwmixwrite", percent).map(|write| 100 - write)).unwrap_or(50);
    match text {
        "read" => (100, false),
        "write" => (0, false),
        "rw" | "readwrite" => (mix, false),
        "randread" => (100, true),
        "randwrite" => (0, true),
        "randrw" => (mix, true),
        _ => {
            let advice = if text.contains("trim") {
                "trims are not part of the workload language; use a job that reads or writes"
            } else if text.contains(':') {
                "holes between requests and repeated offsets have no counterpart here; leave out what follows the colon"
            } else {
                "write read, write, rw, randread, randwrite or randrw"
            };
            reader.wrong("rw", format!("rw = {text}: {advice}"));
            (100, false)
        }
    }
}

/// Whether the engine takes more than one request at a time.
fn engine(reader: &mut Reader<'_>) -> bool {
    let Some(name) = reader.text("ioengine") else { return false };
    if let Some((_, takes_many)) = ENGINES.iter().find(|(known, _)| *known == name) {
        return *takes_many;
    }
    let advice = "it asks nothing of a file or block device in plain requests; use another engine or leave the job out";
    reader.wrong("ioengine", format!("ioengine = {name} has no counterpart here: {advice}"));
    false
}

fn places(
    reader: &mut Reader<'_>,
    lines: &[AccessLine],
    is_random: bool,
    base: u64,
    notes: &mut Vec<String>,
) -> Places {
    let bytes = |text: &str| size(text, base);
    let mut places = Places::default();
    let key = if reader.find("filesize").is_some() { "filesize" } else { "size" };
    match reader.text(key) {
        Some(text) if text.ends_with('%') => {
            places.working_set_pct = f64::from(reader.value(key, percent).unwrap_or(100));
        }
        Some(_) => {
            let first = |text: &str| bytes(text.split('-').next().unwrap_or(text));
            places.size = reader.value(key, first).map(ByteCount);
        }
        None => {}
    }
    if reader.text("offset").is_some_and(|text| text.ends_with('%')) {
        reader.wrong("offset", "offset in percent has no counterpart here: write it in bytes");
    } else {
        places.start = ByteCount(reader.value("offset", bytes).unwrap_or(0).next_multiple_of(SECTOR));
    }
    // The size counts from the start of the file in fio only where it is the file's own.
    if key == "filesize" && places.start > ByteCount::ZERO {
        places.size = places.size.map(|size| ByteCount(size.get().saturating_sub(places.start.get())));
    }
    if is_random {
        spread(reader, lines, &mut places, notes);
    }
    places
}

/// How random requests are spread.
fn spread(reader: &mut Reader<'_>, lines: &[AccessLine], places: &mut Places, notes: &mut Vec<String>) {
    let map = !reader.value("norandommap", switch).unwrap_or(false);
    let text = reader.text("random_distribution").unwrap_or("random");
    let (name, figures) = text.split_once(':').unwrap_or((text, ""));
    let real = |text: &str| text.parse::<f64>().ok().filter(|real| real.is_finite());
    places.distribution = match (name, real(figures)) {
        ("random", _) if map && lines.len() == 1 => Distribution::Shuffle,
        ("random", _) => {
            if map {
                notes.push(
                    "Places of requests of several sizes are drawn with repetition, as with norandommap."
                        .into(),
                );
            }
            Distribution::Uniform
        }
        ("zipf", Some(theta)) => Distribution::Zipf { theta },
        ("pareto", Some(h)) if h < 0.5 => Distribution::Pareto { h },
        ("normal", Some(deviation_pct)) => Distribution::Normal { mean_pct: 50.0, deviation_pct },
        ("zoned", _) => match zones(figures) {
            Some(zones) => Distribution::Zones(zones),
            None => {
                return reader.wrong(
                    "random_distribution",
                    format!("'{text}': write zoned:50/5:30/15:20/80, for both directions"),
                );
            }
        },
        _ => {
            let advice =
                "write random, zipf:THETA, pareto:H below 0.5, normal:DEVIATION or zoned:ACCESSES/SPACE:...";
            return reader
                .wrong("random_distribution", format!("'{text}' has no counterpart here: {advice}"));
        }
    };
    places.scrambled = matches!(places.distribution, Distribution::Zipf { .. } | Distribution::Pareto { .. });
}

/// Reads `50/5:30/15:20/80`; a share that is left out is what is left.
fn zones(text: &str) -> Option<Vec<Zone>> {
    let mut zones = Vec::new();
    let (mut accesses, mut space) = (100.0, 100.0);
    for part in text.split(':') {
        let (first, second) = part.split_once('/').unwrap_or((part, ""));
        let share =
            |text: &str, left: f64| if text.is_empty() { Some(left) } else { text.parse::<f64>().ok() };
        let zone = Zone { accesses_pct: share(first, accesses)?, space_pct: share(second, space)? };
        accesses -= zone.accesses_pct;
        space -= zone.space_pct;
        zones.push(zone);
    }
    Some(zones)
}

/// Limits, arrivals and think time; a think time after several requests is a delay of the lines.
fn pacing(
    reader: &mut Reader<'_>,
    mut lines: Vec<AccessLine>,
    iodepth: u32,
    read_pct: u8,
    base: u64,
    notes: &mut Vec<String>,
) -> (Pacing, Vec<AccessLine>) {
    let direction = usize::from(read_pct == 0);
    let is_mixed = read_pct > 0 && read_pct < 100;
    let iops = reader.value("rate_iops", |text| size(of_direction(text, direction), base));
    let bytes = reader.value("rate", |text| size(of_direction(text, direction), base));
    // fio limits each direction; both together get twice that.
    let both = |rate: u64| if is_mixed { rate.saturating_mul(2) } else { rate };
    if is_mixed && (iops.is_some() || bytes.is_some()) {
        notes.push("A rate counts for each direction in fio; here both together have twice that.".into());
    }
    let rate_max = iops.filter(|rate| *rate > 0).and_then(|rate| RequestRate::new(both(rate) as f64));
    let bytes_per_sec_max = bytes.filter(|rate| *rate > 0).map(|rate| ByteCount(both(rate)));
    let think = reader.value("thinktime", |text| time(text, NanoSpan(1000))).unwrap_or(NanoSpan::ZERO);
    let blocks = reader.value("thinktime_blocks", number).unwrap_or(1).max(1);
    let is_poisson = reader.text("rate_process") == Some("poisson");
    let mean_bytes: f64 =
        lines.iter().map(|line| f64::from(line.bytes) * f64::from(line.share_pct) / 100.0).sum();
    let by_bytes =
        bytes_per_sec_max.and_then(|rate| RequestRate::new(rate.get() as f64 / mean_bytes.max(1.0)));
    if let (true, Some(rate)) = (is_poisson, rate_max.or(by_bytes)) {
        if think > NanoSpan::ZERO {
            reader.wrong(
                "thinktime",
                "thinktime has no meaning where requests arrive at a rate: leave out either",
            );
        }
        return (Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 }), lines);
    }
    let mut closed = ClosedLoop { think: NanoSpan::ZERO, rate_max, bytes_per_sec_max };
    if think > NanoSpan::ZERO && (blocks > 1 || iodepth > 1) {
        notes.push(
            "thinktime is a delay after the requests of a burst were issued; fio waits for them first."
                .into(),
        );
        for line in &mut lines {
            (line.burst, line.delay) = (blocks, think);
        }
    } else {
        closed.think = think;
    }
    (Pacing::Closed(closed), lines)
}

fn data(reader: &mut Reader<'_>) -> DataSpec {
    let zeros = reader.value("zero_buffers", switch).unwrap_or(false);
    let compressible = reader.value("buffer_compress_percentage", percent).unwrap_or(0);
    DataSpec {
        compressible_pct: if zeros { 100 } else { compressible },
        dedupe_pct: reader.value("dedupe_percentage", percent).unwrap_or(0),
    }
}

/// The files of the job: each name of a list by colons, below the directory where there is one.
fn targets(reader: &Reader<'_>) -> Vec<String> {
    let folder = reader.text("directory").filter(|folder| !folder.is_empty());
    let names = reader.text("filename").unwrap_or("").replace("\\:", "\u{0}");
    let names = names.split(':').filter(|name| !name.is_empty()).map(|name| name.replace('\u{0}', ":"));
    match folder {
        Some(folder) => names.map(|name| format!("{}/{name}", folder.trim_end_matches('/'))).collect(),
        None => names.collect(),
    }
}
