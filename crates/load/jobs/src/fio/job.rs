//! One job of a fio file: the meaning of its settings.
//!
//! | fio | here |
//! |---|---|
//! | `rw`, `rwmixread`, `percentage_random` | read and random percent of the lines |
//! | `rw=rw` in sequence | a part of reads and one of writes in one loop: each goes on from its own last place |
//! | `bs`, `bssplit`, `bsrange` | a line for each size, by share |
//! | `norandommap` missing, one size | distribution `shuffle`: every place once |
//! | `norandommap` | distribution `uniform`; with `random_generator=lfsr` `shuffle`, since that repeats no place |
//! | several sizes without `norandommap` | refused: fio cuts requests where others lie |
//! | `zipf`, `pareto`, `normal` | the same, scrambled, as fio hashes their places |
//! | `zoned`, `zoned_abs` | zones, in percent of the places |
//! | `iodepth` of a synchronous engine | 1 |
//! | `numjobs` of random requests | that many times the `iodepth` |
//! | `numjobs` of sequential requests, or with a delay after a burst | that many parts, each with its own position and rests |
//! | `rate`, `rate_iops` | a limit; with `rate_process=poisson` arrivals at that rate |
//! | `thinktime` | think time of each place, or, after more than one request, a delay after a burst |
//! | several files | equal files side by side in the places of the job (`files.rs`) |

use super::files::{FileNames, JobFiles, lay_side_by_side};
use super::sizes::{Sizes, by_direction, directed, lines, sizes};
use super::values::{number, percent, plain_percent, refusal_of_skew, size, switch, time};
use super::zones::zoned;
use super::{Section, Setting};
use crate::Reason;
use raidlab_units::{ByteCount, NanoSpan, greatest_divisor};
use raidlab_workload::{
    AccessLine, ArrivalProcess, Arrivals, ClosedLoop, DataSpec, Distribution, FlushRule, MixPart, Pacing,
    Places, RequestRate,
};
use std::num::NonZeroU32;

/// Engines of files and block devices, and whether they take more than one request at a time.
const ENGINES: [(&str, bool); 17] = [
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
    ("nfs", true),
    ("syslet-rw", true),
];
const SECTOR: u64 = 512;

/// How far limits of reads and writes may be from the mix, as a share: shares are whole percents.
const MET_AT_ONCE: f64 = 0.01;

/// A job, understood.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) line: usize,
    /// Whether it waits for the jobs before it.
    pub(super) starts_step: bool,
    /// The job whose end it waits for.
    pub(super) waits_for: Option<String>,
    /// Time from the start of its step to its own start.
    pub(super) delay: NanoSpan,
    /// Lines of the keys that a step may refuse.
    pub(super) lines_of: Lines,
    /// The file or device that it names, where that is one.
    pub(super) target: Option<String>,
    pub(super) size: Option<ByteCount>,
    pub(super) run: Option<NanoSpan>,
    pub(super) ramp: Option<NanoSpan>,
    pub(super) seed: Option<u64>,
    pub(super) buffered: bool,
    pub(super) data: DataSpec,
    lines: Vec<AccessLine>,
    /// Of reads and writes in one job that go on in sequence, the lines of each and the percent of reads: each direction has a place of its
    /// own to go on from.
    directions: Option<([Vec<AccessLine>; 2], u8)>,
    places: Places,
    pacing: Pacing,
    iodepth: u32,
    flush: Option<FlushRule>,
    numjobs: u32,
    offset_increment: u64,
    /// Where its file ends, if that is given in bytes.
    file_end: Option<u64>,
    pub(super) files: JobFiles,
}

/// Where the keys stand that concern a job beside others; its own line where it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) target: usize,
    pub(super) run: usize,
    pub(super) rw: usize,
    pub(super) delay: usize,
    pub(super) wait: usize,
}

/// Reads of settings: the last of a key counts, and every mistake is kept.
pub(super) struct Reader<'a> {
    pub(super) section: &'a Section,
    reasons: Vec<Reason>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(section: &'a Section) -> Self {
        Self { section, reasons: Vec::new() }
    }

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

    /// The line of `key`, or of the job where it is not set.
    fn line(&self, key: &str) -> usize {
        self.find(key).map_or(self.section.line, |setting| setting.line)
    }

    /// What is wrong with the value of `key`.
    pub(super) fn wrong(&mut self, key: &str, problem: impl Into<String>) {
        self.reasons.push(Reason::at(self.line(key), problem));
    }

    pub(super) fn base(&mut self) -> u64 {
        let base = |text: &str| match number(text)? {
            base @ (1000 | 1024) => Ok(base.into()),
            _ => Err(format!("'{text}' is none that fio takes: write 1000 or 1024")),
        };
        self.value("kb_base", base).unwrap_or(1024)
    }
}

impl Job {
    /// Understands `section`.
    ///
    /// # Errors
    /// All that is wrong with it, by line.
    pub(super) fn new(section: &Section, notes: &mut Vec<String>) -> Result<Self, Vec<Reason>> {
        let mut reader = Reader::new(section);
        let base = reader.base();
        let bytes = |text: &str| size(text, base);
        let Requests { read_pct: reads, mut lines, mut directions, least } =
            requests(&mut reader, base, notes);
        tell_of_units(section, base, notes);
        let iodepth = iodepth(&mut reader, notes);
        let files = JobFiles::of(&mut reader);
        let mut places = places(&mut reader, (&lines, least), base);
        lay_side_by_side(&mut reader, &files, (&lines, directions.is_some()), &mut places, base);
        let numjobs = reader.value("numjobs", number).unwrap_or(1);
        if numjobs == 0 {
            reader.wrong("numjobs", "numjobs: '0' is none that fio runs: write 1 or more");
        }
        let offset_increment = increment(&mut reader, base);
        let between_clones = if numjobs > 1 { offset_increment } else { 0 };
        let of_directions = directions.iter_mut().flat_map(|(lines, _)| lines.iter_mut().flatten());
        for line in lines.iter_mut().chain(of_directions) {
            from_start(&mut reader, line, [places.start.get(), between_clones]);
        }
        let (pacing, lines) = pacing(&mut reader, lines, iodepth, base, notes);
        if directions.is_some() && lines.iter().any(|line| line.delay > NanoSpan::ZERO) {
            let advice = "of reads and writes in one job that go on in sequence has no counterpart here: write a job for each";
            reader.wrong("thinktime", format!("thinktime after several requests {advice}"));
        }
        reads_back(&mut reader, &lines);
        let direct = reader.value("direct", switch);
        let buffered = reader.value("buffered", switch);
        let plain = NanoSpan::from_secs(1);
        let job = Self {
            name: section.name.clone(),
            line: section.line,
            starts_step: reader.value("stonewall", switch).unwrap_or(false),
            waits_for: reader.text("wait_for").filter(|name| !name.is_empty()).map(str::to_owned),
            delay: reader.value("startdelay", |text| time(text, plain)).unwrap_or(NanoSpan::ZERO),
            lines_of: Lines {
                target: reader.line("filename"),
                run: reader.line("runtime"),
                rw: reader.line("rw"),
                delay: reader.line("startdelay"),
                wait: reader.line("wait_for"),
            },
            target: files.target(),
            size: places.size,
            run: reader.value("runtime", |text| time(text, plain)).filter(|run| *run > NanoSpan::ZERO),
            ramp: reader.value("ramp_time", |text| time(text, plain)).filter(|ramp| *ramp > NanoSpan::ZERO),
            seed: reader.value("randseed", bytes),
            buffered: !direct.unwrap_or(buffered.is_some_and(|buffered| !buffered)),
            data: data(&mut reader),
            numjobs,
            offset_increment,
            file_end: reader
                .text("filesize")
                .filter(|_| files.count() == 1)
                .and_then(|text| bytes(text).ok())
                .filter(|end| *end > 0),
            files,
            flush: flush(&mut reader, reads).filter(|_| lines.iter().any(|line| line.read_pct < 100)),
            lines,
            directions,
            places,
            pacing,
            iodepth,
        };
        tell_of_ends(&mut reader, job.run, base, notes);
        if reader.reasons.is_empty() { Ok(job) } else { Err(reader.reasons) }
    }

    /// The lines of `section` alone, whatever else stands in it; none where one of them is wrong.
    pub(super) fn lines(section: &Section) -> Option<Vec<AccessLine>> {
        let mut reader = Reader::new(section);
        let base = reader.base();
        let lines = requests(&mut reader, base, &mut Vec::new()).lines;
        reader.reasons.is_empty().then_some(lines)
    }

    /// Clones that run at once.
    pub(super) const fn numjobs(&self) -> u32 {
        self.numjobs
    }

    /// Parts that it becomes.
    pub(super) fn clones(&self) -> u32 {
        let in_one = self.offset_increment == 0
            && self.lines.iter().all(|line| line.random_pct == 100 && line.delay == NanoSpan::ZERO)
            && self.file(0) == self.file(1);
        if in_one { 1 } else { self.numjobs.min(super::steps::PARTS_MAX as u32 + 1) }
    }

    /// The file of its clone number `clone`, as fio calls it.
    pub(super) fn file(&self, clone: u32) -> String {
        match &self.files.names {
            FileNames::Named(names) => names.join(":"),
            FileNames::MadeUp { folders, format, .. } => {
                let folder = folders.get(clone as usize % folders.len().max(1)).map_or("", String::as_str);
                let name = format.replace("$jobname", &self.name).replace("$jobnum", &clone.to_string());
                format!("{folder}/{}", name.replace("$filenum", "0"))
            }
        }
    }

    /// What runs, in a line for people.
    pub(super) fn told(&self) -> String {
        let each = |line: &AccessLine| {
            let kind = match line.read_pct {
                100 => "reads".to_owned(),
                0 => "writes".to_owned(),
                pct => format!("reads and writes, {pct} % reads,"),
            };
            let place = match line.random_pct {
                0 => "sequential".to_owned(),
                100 => "random".to_owned(),
                pct => format!("{pct} % random"),
            };
            let share =
                if line.share_pct == 100 { String::new() } else { format!(" ({} %)", line.share_pct) };
            let bytes = match line.bytes {
                whole if whole.is_multiple_of(1024) => ByteCount(whole.into()).to_string(),
                odd => format!("{odd} B"),
            };
            format!("{place} {kind} of {bytes}{share}")
        };
        let lines = self.lines.iter().map(each).collect::<Vec<_>>().join(", ");
        let copies = if self.numjobs > 1 { format!("{} times ", self.numjobs) } else { String::new() };
        let run = self.run.map_or_else(String::new, |run| format!(" for {run}"));
        let on = match (&self.target, self.files.count()) {
            (Some(target), _) => format!("on {target}"),
            (None, 1) => "on files of its own".into(),
            (None, count) => format!("on {count} files of its own"),
        };
        format!("{}: {copies}{lines}, {} in flight, {on}{run}", self.name, self.iodepth)
    }

    /// The part for its clone number `clone`.
    pub(super) fn part(&self, clone: u32) -> MixPart {
        let clones = self.clones();
        let each = if clones == 1 { self.numjobs } else { 1 };
        let mut places = self.places.clone();
        (places.start, places.size) = self.range(clone);
        MixPart {
            name: if clones == 1 { self.name.clone() } else { format!("{}-{}", self.name, clone + 1) },
            weight: None,
            lines: self.lines.clone(),
            places,
            pacing: times(self.pacing, each),
            iodepth: Some(self.iodepth.saturating_mul(each)),
            flush: self.flush,
            ..MixPart::default()
        }
    }

    /// Where its clone `clone` begins, and how far it reaches: not beyond the file.
    fn range(&self, clone: u32) -> (ByteCount, Option<ByteCount>) {
        let moved = self.offset_increment.saturating_mul(u64::from(clone));
        let start = self.places.start.get().saturating_add(moved);
        let least = self.lines.iter().map(|line| u64::from(line.bytes)).min().unwrap_or(SECTOR).max(1);
        let room = self.file_end.map_or(u64::MAX, |end| end.saturating_sub(start) / least * least);
        // A clone behind the end has the file as it is, and is refused where it runs.
        let room = if room == 0 { u64::MAX } else { room };
        (ByteCount(start), self.places.size.map(|size| ByteCount(size.get().min(room))))
    }

    /// Whether its size is a share of its file.
    pub(super) fn has_share(&self) -> bool {
        self.places.working_set_pct < 100.0
    }

    /// How far its clones are apart, in bytes.
    pub(super) const fn offset_increment(&self) -> u64 {
        self.offset_increment
    }

    /// Whether reads and writes go on from places of their own.
    pub(super) const fn has_directions(&self) -> bool {
        self.directions.is_some()
    }

    /// The pacing and the requests in flight of all of its clones.
    pub(super) fn together(&self) -> (Pacing, u32) {
        (times(self.pacing, self.numjobs), self.iodepth.saturating_mul(self.numjobs))
    }

    /// The part for its clone number `clone`; of reads and writes that go on from places of their own one for each, which share a loop.
    pub(super) fn parts(&self, clone: u32) -> Vec<MixPart> {
        let whole = self.part(clone);
        let Some((lines, read_pct)) = &self.directions else { return vec![whole] };
        let part = |(lines, (weight, name)): (&Vec<AccessLine>, (u8, &str))| MixPart {
            name: format!("{}-{name}", whole.name),
            weight: Some(u32::from(weight)),
            lines: lines.clone(),
            pacing: Pacing::default(),
            iodepth: None,
            ..whole.clone()
        };
        lines.iter().zip([(*read_pct, "reads"), (100 - read_pct, "writes")]).map(part).collect()
    }

    /// Length of its file up to the end of what its clone `clone` uses.
    pub(super) fn extent(&self, clone: u32) -> u64 {
        let (start, size) = self.range(clone);
        self.size.map_or(0, |all| start.get().saturating_add(size.unwrap_or(all).get()))
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
fn flush(reader: &mut Reader<'_>, read_pct: u8) -> Option<FlushRule> {
    let [all, data] = ["fsync", "fdatasync"].map(|key| reader.value(key, number).and_then(NonZeroU32::new));
    if all.is_some() && data.is_some() {
        reader.wrong("fdatasync", "fsync and fdatasync at once have no counterpart here: leave out either");
    }
    if is_mix(read_pct) && all.or(data).is_some() {
        let key = if all.is_some() { "fsync" } else { "fdatasync" };
        let advice = "fio flushes once more behind each read until the next write, which has no counterpart here: write a job of reads and \
                      one of writes";
        reader.wrong(key, format!("{key} in a mix of reads and writes: {advice}"));
    }
    all.or(data).map(|every| FlushRule { every, with_metadata: all.is_some() })
}

/// What a job asks.
struct Requests {
    read_pct: u8,
    /// All sizes and directions.
    lines: Vec<AccessLine>,
    /// As in [`Job`].
    directions: Option<([Vec<AccessLine>; 2], u8)>,
    /// The shortest size of all directions, also of those that the job does not have: fio's map of places is in units of it.
    least: u64,
}

/// Refuses what reads back all that it has written.
fn reads_back(reader: &mut Reader<'_>, lines: &[AccessLine]) {
    let is_asked = reader.text("verify").is_some_and(|kind| kind != "0");
    let is_done = reader.value("do_verify", switch).unwrap_or(true);
    if is_asked && is_done && lines.iter().any(|line| line.read_pct < 100) {
        let advice = "has no counterpart here: take verify out or add do_verify=0, and write a job behind it that reads";
        reader.wrong(
            "verify",
            format!("verify of a job that writes reads all of it back afterwards, which {advice}"),
        );
    }
}

/// Read percent, and the lines of all sizes and directions.
fn requests(reader: &mut Reader<'_>, base: u64, notes: &mut Vec<String>) -> Requests {
    let (reads, is_random) = direction(reader);
    let random = [0, 1].map(|direction| {
        let given = directed(reader, "percentage_random", direction, plain_percent).unwrap_or(100);
        if is_random { given } else { 0 }
    });
    let sizes = [0, 1, 2].map(|direction| sizes(reader, direction, base));
    if reader.find("bsrange").is_some() && reader.find("bssplit").is_none() {
        notes.push("The sizes of a bsrange are lines whose shares are whole percents.".into());
    }
    let least = sizes.iter().map(Sizes::least).min().unwrap_or(SECTOR);
    let [of_reads, of_writes, _] = sizes;
    let sizes = [of_reads, of_writes];
    let goes_on = random.iter().any(|pct| *pct < 100);
    Requests {
        read_pct: reads,
        lines: lines(&sizes, reads, random),
        directions: (is_mix(reads) && goes_on).then(|| (by_direction(&sizes, random), reads)),
        least,
    }
}

/// Read percent, and whether requests are random.
fn direction(reader: &mut Reader<'_>) -> (u8, bool) {
    let text = reader.text("rw").unwrap_or("read");
    // The one that is given last counts.
    let last = reader.section.settings.iter().rev().find(|it| ["rwmixread", "rwmixwrite"].contains(&it.key));
    let mix = match last.map(|setting| setting.key) {
        Some("rwmixwrite") => reader.value("rwmixwrite", plain_percent).map(|write| 100 - write),
        _ => reader.value("rwmixread", plain_percent),
    };
    let mix = mix.unwrap_or(50);
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

/// Requests in flight: of a synchronous engine one, whatever the job says.
fn iodepth(reader: &mut Reader<'_>, notes: &mut Vec<String>) -> u32 {
    let takes_many = engine(reader);
    let given = reader.value("iodepth", number).unwrap_or(1);
    if given == 0 {
        reader.wrong("iodepth", "iodepth: '0' is none that fio takes: write 1 or more");
    }
    if takes_many || given <= 1 {
        return given.max(1);
    }
    let engine = reader.text("ioengine").unwrap_or("psync");
    notes.push(format!("iodepth = {given} is 1, as in fio: ioengine = {engine} has one request in flight."));
    1
}

/// Notes what ends a job in fio, and not here.
fn tell_of_ends(reader: &mut Reader<'_>, run: Option<NanoSpan>, base: u64, notes: &mut Vec<String>) {
    let is_timed = reader.value("time_based", switch).unwrap_or(false);
    let in_pct =
        |text: &str| if text.trim().ends_with('%') { percent(text).map(u64::from) } else { size(text, base) };
    for (key, plain) in [("io_size", 0), ("number_ios", 0), ("loops", 1)] {
        let is_end = reader.value(key, in_pct).is_some_and(|given| given > plain);
        // A job that is timed goes on after its size, and begins again.
        if is_end && (!is_timed || key == "number_ios") {
            let given = reader.text(key).unwrap_or("").trim();
            notes.push(format!(
                "{key} = {given} is left out: the window ends the run here, whatever was asked by then."
            ));
        }
    }
    let has_end = ["loops", "number_ios", "io_size", "size"].iter().any(|key| reader.find(key).is_some());
    let told = match run {
        None => {
            "A job without runtime ends in fio when it has moved its size; here the window does: give --run."
        }
        Some(_) => {
            "A job without time_based ends in fio when it has moved its size, if that is before its runtime; here it goes on."
        }
    };
    if has_end && (run.is_none() || !is_timed) {
        notes.push(told.into());
    }
}

/// Where the places begin: `offset`, in percent only of a file whose length is given, from a whole request of `least` bytes on.
fn start(reader: &mut Reader<'_>, places: &mut Places, key: &str, (least, base): (u64, u64)) {
    let bytes = |text: &str| size(text, base);
    if reader.text("offset").is_some_and(|text| text.ends_with('%')) {
        // Of the file, from a whole request on.
        let pct = u64::from(reader.value("offset", percent).unwrap_or(0));
        match places.size.filter(|_| key == "filesize") {
            Some(file) => places.start = ByteCount((u128::from(file.get()) * u128::from(pct) / 100) as u64 / least * least),
            None => reader.wrong(
                "offset",
                "offset in percent of a file whose length is not given has no counterpart here: give filesize in bytes, or offset in bytes",
            ),
        }
    } else {
        places.start = ByteCount(reader.value("offset", bytes).unwrap_or(0));
    }
}

fn places(reader: &mut Reader<'_>, (lines, map_unit): (&[AccessLine], u64), base: u64) -> Places {
    let bytes = |text: &str| size(text, base);
    let mut places = Places::default();
    let key = if reader.find("filesize").is_some() { "filesize" } else { "size" };
    match reader.text(key) {
        Some(text) if text.ends_with('%') => {
            let pct = reader.value(key, percent).unwrap_or(100);
            let is_whole = pct == 0 || pct == 100;
            places.working_set_pct = if is_whole { 100.0 } else { f64::from(pct) };
            if !is_whole && reader.find("offset").is_some() {
                reader.wrong(
                    key,
                    format!("{key} in percent beside an offset has no counterpart here: write it in bytes"),
                );
            }
        }
        Some(text) if text.contains('-') => {
            reader.wrong(
                key,
                format!("{key} = {text}: files of several sizes have no counterpart here, write one size"),
            );
        }
        // Nothing said, and nothing asked for, is the whole file.
        Some(_) => {
            let given = reader.value(key, bytes);
            if key == "filesize" && given == Some(0) {
                reader.wrong(
                    key,
                    "filesize: fio refuses a file of no bytes: write its length, or leave it out",
                );
            }
            places.size = given.filter(|bytes| *bytes > 0).map(ByteCount);
        }
        None => {}
    }
    let least = lines.iter().map(|line| u64::from(line.bytes)).min().unwrap_or(SECTOR);
    start(reader, &mut places, key, (least, base));
    // The size counts from the start of the file in fio only where it is the file's own.
    if key == "filesize" && places.start > ByteCount::ZERO {
        places.size = places.size.map(|size| ByteCount(size.get().saturating_sub(places.start.get())));
    }
    // Beside it, the size is what is moved: the part that is used of requests in sequence, and how many there are of random ones.
    if key == "filesize" && reader.find("size").is_some() {
        let is_part = reader.text("size").is_some_and(|text| !text.contains(['%', '-']));
        if is_part {
            let part = reader.value("size", bytes).filter(|bytes| *bytes > 0).map(ByteCount);
            let part = part.filter(|_| lines.iter().all(|line| line.random_pct == 0));
            places.size = part.map(|part| places.size.map_or(part, |rest| rest.min(part))).or(places.size);
        } else {
            reader.wrong(
                "size",
                "size in percent or as a range beside filesize has no counterpart here: write it in bytes",
            );
        }
    }
    if let Some(size) = places.size.filter(|size| size.get() < map_unit) {
        let problem =
            format!("{key}: a file of {} bytes is shorter than a request, and fio refuses it", size.get());
        reader.wrong(key, problem);
    }
    // fio asks for whole requests only: what is left at the end is never used.
    places.size = places.size.map(|size| match size.get() / least * least {
        0 => size,
        whole => ByteCount(whole),
    });
    if lines.iter().any(|line| line.random_pct > 0) {
        spread(reader, (lines, map_unit), &mut places);
    }
    places
}

/// Has the requests of `line` begin at the start of the places and of each clone's, as in fio, also where these are no multiples of their
/// length.
fn from_start(reader: &mut Reader<'_>, line: &mut AccessLine, starts: [u64; 2]) {
    for (key, start) in ["offset", "offset_increment"].into_iter().zip(starts) {
        let align = line.align_bytes.unwrap_or(line.bytes).max(1);
        if start.is_multiple_of(align.into()) {
            continue;
        }
        if !start.is_multiple_of(SECTOR) {
            let problem =
                format!("{key} is no multiple of 512 bytes, where no request of a device begins: write one");
            reader.wrong(key, problem);
        } else if line.random_pct == 0 && align <= line.bytes {
            line.align_bytes = u32::try_from(greatest_divisor(start, align.into())).ok();
        } else {
            let problem = format!(
                "{key} is no multiple of {align} bytes: fio's places are multiples from there on, and here from the start of the target: \
                 write a multiple"
            );
            reader.wrong(key, problem);
        }
    }
}

/// How far apart clones begin; of percents of the file, whose length must be given.
fn increment(reader: &mut Reader<'_>, base: u64) -> u64 {
    let bytes = |text: &str| size(text, base);
    let is_pct =
        |reader: &Reader<'_>, key: &str| reader.text(key).is_some_and(|text| text.trim().ends_with('%'));
    if !is_pct(reader, "offset_increment") {
        return reader.value("offset_increment", bytes).unwrap_or(0);
    }
    let pct = u64::from(reader.value("offset_increment", percent).unwrap_or(0));
    let file = reader.text("filesize").and_then(|text| bytes(text).ok());
    if let Some(file) = file.filter(|_| !is_pct(reader, "offset")) {
        return u64::try_from(u128::from(file) * u128::from(pct) / 100).unwrap_or(u64::MAX);
    }
    reader.wrong(
        "offset_increment",
        "offset_increment in percent needs the length of the file, and an offset that is none in percent: give filesize and offset in \
         bytes, or offset_increment in bytes",
    );
    0
}

/// Whether fio's generator asks for each place once, without a map, too.
fn is_generator_without_repeats(reader: &mut Reader<'_>) -> bool {
    let name = reader.text("random_generator").unwrap_or("tausworthe");
    if !["lfsr", "tausworthe", "tausworthe64"].contains(&name) {
        let advice = "write tausworthe, tausworthe64 or lfsr";
        reader.wrong("random_generator", format!("random_generator = {name}: {advice}"));
    }
    name == "lfsr"
}

/// How random requests are spread.
fn spread(reader: &mut Reader<'_>, (lines, map_unit): (&[AccessLine], u64), places: &mut Places) {
    let map = !reader.value("norandommap", switch).unwrap_or(false);
    let text = reader.text("random_distribution").unwrap_or("random");
    if text.contains(',') {
        let advice = "fio has one distribution for reads, writes and trims, and refuses or ignores what follows the comma: write a job for \
                      each direction";
        return reader.wrong("random_distribution", format!("random_distribution = {text}: {advice}"));
    }
    let (name, figures) = text.split_once(':').unwrap_or((text, ""));
    let real = |text: &str| text.parse::<f64>().ok().filter(|real| real.is_finite());
    let is_one = lines.len() == 1 && u64::from(lines[0].bytes) == map_unit;
    let repeats_none = is_generator_without_repeats(reader);
    if let Some(why) = real(figures).and_then(|figure| refusal_of_skew(name, figure)) {
        return reader.wrong("random_distribution", format!("'{text}': {why}"));
    }
    places.distribution = match (name, real(figures)) {
        ("random", _) if map && is_one => Distribution::Shuffle,
        ("random", _) if repeats_none && is_one && lines[0].random_pct == 100 => Distribution::Shuffle,
        ("zoned" | "zoned_abs" | "random", _) if repeats_none && (name != "random" || !map) => {
            let what = "several sizes, percentage_random and zones";
            let advice = format!(
                "it asks for each place once, which beside {what} has no counterpart here: leave it out"
            );
            return reader.wrong("random_generator", format!("random_generator = lfsr: {advice}"));
        }
        ("random", _) if map => {
            let key = ["bssplit", "bsrange", "bs"].into_iter().find(|key| reader.find(key).is_some());
            let advice = "fio's map of places cuts requests of several sizes where others lie already, which has no counterpart here: add \
                          norandommap=1, there too";
            let is_one_size = lines.iter().all(|line| u64::from(line.bytes) == map_unit);
            let what = if is_one_size {
                "percentage_random of each direction"
            } else {
                "random requests of several sizes, also where the job has one direction only"
            };
            let key = key.filter(|_| !is_one_size).unwrap_or("percentage_random");
            return reader.wrong(key, format!("{what}: {advice}"));
        }
        ("random", _) => Distribution::Uniform,
        ("zipf", Some(theta)) => Distribution::Zipf { theta },
        ("pareto", Some(h)) if h < 0.5 => Distribution::Pareto { h },
        ("normal", Some(width_pct)) => {
            Distribution::Normal { mean_pct: 50.0, deviation_pct: super::normal::deviation_pct(width_pct) }
        }
        ("zoned" | "zoned_abs", _) => match zoned((name, figures), lines, reader.base(), places) {
            Ok(zones) => Distribution::Zones(zones),
            Err(advice) => return reader.wrong("random_distribution", format!("'{text}': {advice}")),
        },
        _ => {
            let advice = "write random, zipf:THETA, pareto:H below 0.5, normal:DEVIATION, zoned:ACCESSES/SPACE:... or zoned_abs:ACCESSES/BYTES:...";
            return reader
                .wrong("random_distribution", format!("'{text}' has no counterpart here: {advice}"));
        }
    };
    places.scrambled = super::is_scattered(&places.distribution);
    if let Some((what, why)) = places.complaint() {
        reader.wrong("random_distribution", format!("'{text}': {what} {why}"));
    }
}

/// Limits, arrivals and think time; a think time after several requests is a delay of the lines.
fn pacing(
    reader: &mut Reader<'_>,
    mut lines: Vec<AccessLine>,
    iodepth: u32,
    base: u64,
    notes: &mut Vec<String>,
) -> (Pacing, Vec<AccessLine>) {
    let amounts = |of: fn(&AccessLine) -> f64| {
        let sum = |is_read: bool| {
            let pct = |line: &AccessLine| if is_read { line.read_pct } else { 100 - line.read_pct };
            lines.iter().map(|line| of(line) * f64::from(line.share_pct) * f64::from(pct(line))).sum::<f64>()
        };
        [sum(true), sum(false)]
    };
    let mut is_limited = |key| {
        let given = |direction| directed(reader, key, direction, |text| size(text, base));
        [0, 1, 2].map(given).into_iter().flatten().any(|rate| rate > 0)
    };
    if is_limited("rate") && is_limited("rate_iops") {
        reader.wrong("rate_iops", "rate_iops beside rate: fio takes one of them only: leave out either");
    }
    let rate_max = limit(reader, "rate_iops", amounts(|_| 1.0), base, notes);
    let bytes_per_sec_max =
        limit(reader, "rate", amounts(|line| f64::from(line.bytes)), base, notes).map(ByteCount);
    let rate_max = rate_max.and_then(|rate| RequestRate::new(rate as f64));
    let think = reader.value("thinktime", |text| time(text, NanoSpan(1000))).unwrap_or(NanoSpan::ZERO);
    let blocks = reader.value("thinktime_blocks", number).unwrap_or(1).max(1);
    let process = reader.text("rate_process").unwrap_or("linear");
    let is_poisson = process == "poisson";
    if !is_poisson && process != "linear" {
        reader.wrong("rate_process", format!("rate_process = {process}: write linear or poisson"));
    }
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

/// Whether reads and writes are mixed.
pub(super) const fn is_mix(read_pct: u8) -> bool {
    read_pct > 0 && read_pct < 100
}

/// The limit of reads and writes together; fio has one for each. Of what it limits, requests or bytes, reads and writes ask for so much.
fn limit(
    reader: &mut Reader<'_>,
    key: &'static str,
    [reads, writes]: [f64; 2],
    base: u64,
    notes: &mut Vec<String>,
) -> Option<u64> {
    let each = [0, 1]
        .map(|direction| directed(reader, key, direction, |text| size(text, base)).filter(|rate| *rate > 0));
    if reads == 0.0 || writes == 0.0 {
        return each[usize::from(reads == 0.0)];
    }
    // Both limits are met at once, or one of them makes another mix.
    let is_met = |[of_reads, of_writes]: [u64; 2]| {
        let (one, other) = (of_reads as f64 * writes, of_writes as f64 * reads);
        (one - other).abs() <= MET_AT_ONCE * one.max(other)
    };
    match each {
        [None, None] => None,
        [Some(of_reads), Some(of_writes)] if is_met([of_reads, of_writes]) => {
            notes.push(format!(
                "{key} counts for each direction in fio; here both together have the sum, in the same mix."
            ));
            Some(of_reads.saturating_add(of_writes))
        }
        _ => {
            let what = if key == "rate" { "bytes read" } else { "reads" };
            let share = 100.0 * reads / (reads + writes);
            let advice = "reads and writes each keep to a limit of their own in fio, which makes the mix; here both share one: \
                          write a job of reads and one of writes";
            reader.wrong(key, format!("{key} of a mix of {share:.0} % {what}: {advice}"));
            None
        }
    }
}

/// Says of sizes in `KiB` and its kin what fio takes them for.
fn tell_of_units(section: &Section, base: u64, notes: &mut Vec<String>) {
    let is_small = |setting: &&Setting| {
        let value = setting.value.to_ascii_lowercase();
        let keys =
            ["bs", "ba", "bsrange", "bssplit", "size", "filesize", "offset", "offset_increment", "rate"];
        keys.contains(&setting.key) && ["kib", "mib", "gib", "tib"].iter().any(|unit| value.contains(unit))
    };
    if base == 1024 {
        notes.extend(section.settings.iter().filter(is_small).map(|setting| {
            let Setting { key, value, .. } = setting;
            format!("{key} = {value}: fio takes KiB for 1000 bytes and MiB for 1000000, unless kb_base=1000 is set, and so does this.")
        }));
    }
}

fn data(reader: &mut Reader<'_>) -> DataSpec {
    let zeros = reader.value("zero_buffers", switch).unwrap_or(false);
    let compressible = reader.value("buffer_compress_percentage", plain_percent).unwrap_or(0);
    DataSpec {
        compressible_pct: if zeros { 100 } else { compressible },
        dedupe_pct: reader.value("dedupe_percentage", plain_percent).unwrap_or(0),
    }
}
