//! An imported job file beside a real fio: the requests that both make.
//!
//! ```text
//! job file ─► the lines that decide requests, engine null, a log for each job ─► fio ─► logs ─┐
//!         └─► workload ─► driver ─────────────────────────────────────────────────────────────┴► equal, or the line
//! ```
//! fio runs with its engine `null` and its own file names: it opens nothing and writes nothing but its log, whatever the file names. Times
//! are left out, and what only slows or repeats a job is, too: limits, think times, run times, loops. A job ends with its size, or after so many
//! requests.
//!
//! | compared | equal is |
//! |---|---|
//! | number of requests | the same; with several sizes, the same bytes to a request |
//! | sizes, directions | the same ones, and shares that differ by no more than chance |
//! | places in sequence | the same, request by request |
//! | places at random | the same places where each is used once and all are; else the same first and last places, alignment, repetition, and a distribution that differs by no more than chance (Kolmogorov and Smirnov, one in a thousand): over the places, or, where each program scatters its favourites, over their ranks |
//! | flushes | the same number |
//! | of several files | those above for each; in turn, the file of each request |
//!
//! Random requests of several sizes are cut by fio where part of their place was used before; a few such are no difference.
//!
//! Left out: which random place comes when, which is each program's own.

use super::job::{Job, Reader};
use super::values::{number, percent, size, switch};
use super::{Section, Surroundings};
use crate::{ImportError, Reason};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{AccessSpec, Distribution, Driver, DriverConfig, DriverStep, FileOrder, IoOp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

mod compare;

/// Length of a file that a job does not give.
const FILE: ByteCount = ByteCount::from_mib(16);

/// Requests that are compared of each job at most; of clones, which share a log, so few that a line is never torn.
const REQUESTS_MAX: u64 = 4096;
const REQUESTS_MAX_CLONES: u64 = 150;

/// Clones that are compared at most.
const CLONES_MAX: u32 = 8;

/// Keys that decide which requests are made, by their usual names.
pub(super) const DECIDING: [&str; 28] = [
    "rw",
    "size",
    "io_size",
    "filesize",
    "offset",
    "offset_increment",
    "number_ios",
    "bs",
    "ba",
    "bsrange",
    "bssplit",
    "randseed",
    "norandommap",
    "random_distribution",
    "percentage_random",
    "fsync",
    "fdatasync",
    "rwmixread",
    "rwmixwrite",
    "kb_base",
    "verify",
    "do_verify",
    "randrepeat",
    "random_generator",
    "softrandommap",
    "stonewall",
    "numjobs",
    "file_service_type",
];

/// A line of the job file for the trial.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Section { name: String, is_global: bool },
    Setting(String),
}

/// What fio is to run, and what is expected of it.
#[derive(Clone, Debug)]
pub struct FioTrial {
    /// The job file for fio. Its logs are named `LOGS/0`, `LOGS/1` and so on, where `LOGS` is the folder that was given.
    pub job_file: String,
    jobs: Vec<TrialJob>,
}

/// A job and its clones.
#[derive(Clone, Debug)]
struct TrialJob {
    name: String,
    /// File and line, as messages have them.
    place: String,
    numjobs: u32,
    /// How far its clones are apart, in bytes.
    offset_increment: u64,
    clones: Vec<Expected>,
}

/// What a clone is expected to ask.
#[derive(Clone, Debug)]
struct Expected {
    spec: AccessSpec,
    region: ByteCount,
    /// How many files it has, side by side.
    files: u32,
    /// Whether fio cuts requests of several sizes where part of their place was used before.
    cuts: bool,
    /// Bytes after which it ends, and requests, whichever comes first.
    bytes: u64,
    requests: u64,
    /// Requests that the job ends after (`number_ios`), if that is less than its bytes.
    number_ios: u64,
}

/// What fio wrote of a job; none where it did not.
#[derive(Clone, Debug, Default)]
pub struct TrialLog {
    /// The text.
    pub text: Option<String>,
}

/// What came of a clone of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The job.
    pub job: String,
    /// Which of its clones, from 0.
    pub clone: u32,
    /// Requests that fio made.
    pub requests: u64,
    /// Requests that it makes where it is not stopped earlier for the comparison; with several sizes, so many at most.
    pub requests_of_job: u64,
    /// What differs, with file and line; none where all agrees.
    pub differs: Option<String>,
}

/// Makes the trial of `text`, the content of the fio job file called `file`, with logs in the folder `logs`.
///
/// # Errors
/// [`ImportError`] where the file can't be imported.
pub fn fio_trial(
    file: &str,
    text: &str,
    around: Surroundings<'_>,
    logs: &str,
) -> Result<FioTrial, ImportError> {
    // All that is against the file is against the trial.
    super::import_fio(file, text, around)?;
    let mut reader = super::Reader::new(around);
    reader.read(None, text);
    let mut jobs = Vec::new();
    for section in &reader.sections {
        let job = Job::new(section, &mut Vec::new())
            .map_err(|reasons| ImportError { file: file.into(), reasons })?;
        let (inner, line) =
            reader.places.get(section.line.wrapping_sub(1)).cloned().unwrap_or((None, section.line));
        let place = format!("{}:{line}", inner.as_deref().unwrap_or(file));
        let clones = (0..job.numjobs().min(CLONES_MAX)).map(|clone| expected(section, &job, clone)).collect();
        if job.numjobs() > CLONES_MAX {
            let why = format!(
                "more than {CLONES_MAX} clones of a job are not compared: check it with a smaller numjobs"
            );
            return Err(ImportError { file: file.into(), reasons: vec![Reason::at(section.line, why)] });
        }
        let (numjobs, offset_increment) = (job.numjobs(), job.offset_increment());
        jobs.push(TrialJob { name: job.name.clone(), place, numjobs, offset_increment, clones });
    }
    Ok(FioTrial { job_file: job_file(&reader, &jobs, logs), jobs })
}

/// Requests of a job that are compared.
fn most(numjobs: u32) -> u64 {
    if numjobs > 1 { REQUESTS_MAX_CLONES } else { REQUESTS_MAX }
}

/// The lines that decide, and behind those of each job what makes it a trial.
fn job_file(reader: &super::Reader<'_>, jobs: &[TrialJob], logs: &str) -> String {
    let mut text = String::new();
    let mut open: Option<usize> = None;
    let mut next = 0;
    let end = |text: &mut String, open: Option<usize>| {
        let Some(index) = open else { return };
        let section = &reader.sections[index];
        let mut own = Reader::new(section);
        // Only where it ends a job earlier: fio ends the passes of a job with holes by it, too.
        let most = most(jobs[index].numjobs);
        let asked = own.value("number_ios", number).map(u64::from).filter(|count| *count > 0);
        if asked.map_or_else(|| jobs[index].clones.iter().any(|it| it.longest() > most), |asked| asked > most)
        {
            text.extend([format!("number_ios={most}\n")]);
        }
        text.extend([format!(
            "thread\nioengine=null\nwrite_iolog={logs}/{index}\nfilename_format={}$jobnum.$filenum\n",
            file_name(index)
        )]);
        // In bytes: where no file is there fio takes percents of the size.
        if jobs[index].offset_increment > 0 {
            text.extend([format!("offset_increment={}\n", jobs[index].offset_increment)]);
        }
        if jobs[index].clones[0].files > 1 {
            text.extend([format!("nrfiles={}\n", jobs[index].clones[0].files)]);
        }
        if needs_file(&own) {
            let end = jobs[index].clones.iter().map(|it| it.region.get()).max();
            text.extend([format!("filesize={}\n", end.unwrap_or(FILE.get()))]);
        }
    };
    for line in &reader.deciding {
        match line {
            Line::Section { name, is_global } => {
                end(&mut text, open.take());
                text.extend([format!("[{}]\n", if *is_global { "global" } else { name })]);
                if !is_global {
                    open = Some(next);
                    next += 1;
                }
            }
            Line::Setting(setting) => {
                text += setting;
                text.push('\n');
            }
        }
    }
    end(&mut text, open);
    text
}

/// What the names of a job's files begin with. It is none of the job's own name, in which fio puts what `$jobnum` and `$filenum` stand for.
fn file_name(job: usize) -> String {
    format!("raidlab-job-{job}.")
}

/// Whether nobody says how long the job's file is.
fn needs_file(reader: &Reader<'_>) -> bool {
    let is_length = |key| reader.text(key).is_some_and(|text| !text.ends_with('%') && text != "0");
    !is_length("filesize") && !is_length("size")
}

/// What clone number `clone` of `job` is expected to ask.
fn expected(section: &Section, job: &Job, clone: u32) -> Expected {
    let mut parts = job.parts(if job.clones() > 1 { clone } else { 0 });
    let part = parts[0].clone();
    let spec = if parts.len() > 1 {
        let flush = part.flush;
        for part in &mut parts {
            part.flush = None;
        }
        AccessSpec { parts, flush, ..AccessSpec::new(job.name.clone(), Vec::new()) }
    } else {
        AccessSpec {
            places: part.places.clone(),
            flush: part.flush,
            ..AccessSpec::new(job.name.clone(), part.lines)
        }
    };
    let start = part.places.start.get();
    // A file whose length nobody says reaches beyond the start of the last clone.
    let last = job.parts(job.clones() - 1)[0].places.start.get();
    let region =
        part.places.size.map_or(last.saturating_add(FILE.get()), |size| start.saturating_add(size.get()));
    let space = region.saturating_sub(start) as f64 * part.places.working_set_pct / 100.0;
    let mut reader = Reader::new(section);
    let base = reader.base();
    let told = |key| {
        let text = reader.text(key).filter(|text| !text.ends_with('%'))?;
        size(text, base).ok().filter(|bytes| *bytes > 0)
    };
    // Of a share of the file, whole requests.
    let least = spec.all_lines().map(|line| u64::from(line.bytes)).min().unwrap_or(1).max(1);
    let space = if part.places.working_set_pct < 100.0 { space as u64 / least * least } else { space as u64 };
    // fio moves all bytes of the size, if need be with one request more, where places are drawn without a map: no end stops it.
    let is_drawn = part.places.distribution == Distribution::Uniform
        && part.places.working_set_pct >= 100.0
        && spec.all_lines().all(|line| line.random_pct == 100);
    let files = job.files.count();
    let end = told("filesize").map(|each| each.saturating_mul(files.into()));
    let given = end.map(|end| end.saturating_sub(start)).or_else(|| told("size"));
    let space = given.filter(|_| is_drawn).unwrap_or(space);
    // Beside the file's, the size is what is moved.
    let beside = told("size").filter(|_| reader.find("filesize").is_some());
    let whole = beside.map_or(space, |bytes| bytes.min(space));
    let share = reader.text("io_size").filter(|text| text.ends_with('%')).and_then(|text| percent(text).ok());
    let share = share.filter(|pct| *pct > 0).map(|pct| whole * u64::from(pct) / 100);
    let bytes = told("io_size").or(share).unwrap_or(whole);
    let own = reader.value("number_ios", number).map(u64::from).filter(|count| *count > 0);
    let number_ios = own.unwrap_or(u64::MAX);
    Expected {
        cuts: !reader.value("norandommap", switch).unwrap_or(false),
        spec,
        region: ByteCount(region),
        files,
        bytes,
        requests: number_ios.min(most(job.numjobs())),
        number_ios,
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    is_read: bool,
    /// In the log within the file, and then in the places of the job.
    offset: u64,
    bytes: u64,
    /// Which file, where there are several.
    file: u64,
}

/// What requests are within.
#[derive(Clone, Debug)]
struct Bounds {
    /// Whether all of them read, or none.
    all_read: Option<bool>,
    sizes: BTreeSet<u64>,
    /// What shorter sizes are multiples of, where fio cuts requests.
    cut: Option<u64>,
    /// Whether favourites lie where each program's own hash puts them.
    is_scattered: bool,
    space: Range<u64>,
    /// Which file is next, where several are not one sequence.
    turns: Option<FileOrder>,
}

/// What was asked, in order, and flushes among it.
#[derive(Clone, Debug, Default)]
struct Sequence {
    requests: Vec<Asked>,
    flushes: u64,
}

impl Expected {
    /// The most requests that its bytes may be.
    fn longest(&self) -> u64 {
        let shortest = self.spec.all_lines().map(|line| u64::from(line.bytes)).min().unwrap_or(1);
        self.bytes / shortest.max(1)
    }

    /// What no request may be beyond, however few there are.
    fn bounds(&self) -> Bounds {
        let lines = || self.spec.all_lines().filter(|line| line.share_pct > 0);
        let all = |read_pct: u8| lines().all(|line| line.read_pct == read_pct);
        let starts = self.spec.streams().map(|(_, _, places)| places.start.get());
        Bounds {
            all_read: all(100).then_some(true).or(all(0).then_some(false)),
            cut: lines().map(|line| line.bytes.into()).min().filter(|_| self.cuts),
            is_scattered: self.spec.streams().any(|(_, _, places)| places.scrambled),
            turns: Some(self.spec.places.files).filter(|files| files.count > 1).map(|files| files.order),
            sizes: lines().map(|line| u64::from(line.bytes)).collect(),
            space: starts.min().unwrap_or(0)..self.region.get(),
        }
    }

    /// Length of each of several files; of one that all is within.
    fn file_bytes(&self) -> u64 {
        if self.files > 1 { self.region.get() / u64::from(self.files) } else { u64::MAX }
    }

    /// The requests of the driver.
    fn requests(&self) -> Result<Sequence, String> {
        // A file takes any length.
        let is_whole = self.spec.all_lines().all(|line| line.bytes.is_multiple_of(512));
        let config = DriverConfig {
            region: self.region,
            block_bytes: if is_whole { 512 } else { 1 },
            iodepth: 1,
            seed: 1,
            ramp: NanoSpan::ZERO,
            run: NanoSpan::from_secs(86_400),
            ..DriverConfig::default()
        };
        let mut driver = Driver::new(&self.spec, &config).map_err(|error| error.to_string())?;
        let (mut found, mut now, mut moved) = (Sequence::default(), Nanos(0), 0);
        while (found.requests.len() as u64) < self.requests && moved < self.bytes {
            match driver.poll_step(now) {
                DriverStep::Issue(io) => {
                    let is_flush = matches!(io.op, IoOp::Flush | IoOp::FlushData);
                    if is_flush {
                        found.flushes += 1;
                    } else {
                        moved += u64::from(io.bytes);
                        let is_read = io.op == IoOp::Read;
                        found.requests.push(Asked {
                            is_read,
                            offset: io.offset_bytes,
                            bytes: io.bytes.into(),
                            file: io.offset_bytes / self.file_bytes(),
                        });
                    }
                    now = Nanos(now.0 + 1000);
                    driver.handle_completion(now, io.slot, true);
                }
                DriverStep::WaitUntil(until) => now = until.max(Nanos(now.0 + 1)),
                DriverStep::WaitForCompletion | DriverStep::Finished => break,
            }
        }
        Ok(found)
    }
}

impl FioTrial {
    /// Number of logs.
    pub fn logs(&self) -> usize {
        self.jobs.len()
    }

    /// Compares what fio wrote, a log for each job, with what is expected.
    pub fn compare(&self, logs: &[TrialLog]) -> Vec<Checked> {
        let mut all = Vec::new();
        for (index, (job, log)) in self.jobs.iter().zip(logs).enumerate() {
            let by_clone =
                log.text.as_deref().map(|text| read_log(&file_name(index), text)).unwrap_or_default();
            for (clone, expected) in (0..).zip(&job.clones) {
                let mut fio = by_clone.get(&clone).cloned().unwrap_or_default();
                fio.requests.iter_mut().filter(|it| it.file > 0).for_each(|it| {
                    it.offset = it.offset.saturating_add(it.file.saturating_mul(expected.file_bytes()));
                });
                let differs = match expected.requests() {
                    Ok(ours) => compare::difference(&fio, &ours, &expected.bounds()),
                    Err(problem) => Some(problem),
                };
                let requests = fio.requests.len() as u64;
                let which = if job.clones.len() > 1 { format!(" (clone {clone})") } else { String::new() };
                all.push(Checked {
                    job: job.name.clone(),
                    clone,
                    requests,
                    requests_of_job: if requests < most(job.numjobs) {
                        requests
                    } else {
                        expected.longest().min(expected.number_ios).max(requests)
                    },
                    differs: differs.map(|what| format!("{}: {}{which}: {what}", job.place, job.name)),
                });
            }
        }
        all
    }
}

/// The requests of each clone in a log of fio's, versions 2 and 3, by what the names of its files begin with.
fn read_log(file: &str, text: &str) -> BTreeMap<u32, Sequence> {
    let mut all: BTreeMap<u32, Sequence> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with("fio version")) {
        let Some((_, rest)) = line.split_once(file) else { continue };
        let mut words = rest.split_whitespace();
        let mut numbers = words.next().unwrap_or("").split('.').map(str::parse::<u32>);
        let (Some(Ok(number)), Some(Ok(file))) = (numbers.next(), numbers.next()) else { continue };
        let sequence = all.entry(number).or_default();
        let action = words.next().unwrap_or("");
        let mut figure = || words.next().and_then(|word| word.parse::<u64>().ok());
        match action {
            "read" | "write" | "trim" => {
                if let (Some(offset), Some(bytes)) = (figure(), figure()) {
                    let is_read = action == "read";
                    sequence.requests.push(Asked { is_read, offset, bytes, file: file.into() });
                }
            }
            "sync" | "datasync" => sequence.flushes += 1,
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests;
