//! fio job files.
//!
//! ```text
//! [global]   settings for all jobs after it
//! [job]      a job: its own settings over the global ones
//! stonewall  this job, and those after it, start when the previous ones have ended: the next step
//! ```
//! Jobs of a group run at once: they are the parts of one workload. `job.rs` has the meaning of keys, `keys.rs` lists
//! all known ones. Values follow fio: `4k` is 4096 bytes (unless `kb_base=1000`), times are seconds or microseconds by
//! key.
//!
//! Left out: files that include others, environment variables, and arithmetic in values; each is an error that says
//! what to write instead. Source: fio's HOWTO, "Job file format" and "Job file parameters".

mod job;
mod keys;
mod sizes;
mod values;

use crate::{Import, ImportError, Reason, RunHints, Step, free_name, metric_of, slug};
use job::Job;
use keys::Kind;
use raidlab_units::ByteCount;
use raidlab_workload::{AccessSpec, MixPart, Workload, toml_file::nearest};

/// The most parts that one workload gets.
const PARTS_MAX: usize = 64;

/// A setting, as it stands in the file.
#[derive(Clone, Debug)]
struct Setting {
    key: &'static str,
    value: String,
    line: usize,
}

/// A section that is a job, with the global settings before it.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    line: usize,
    settings: Vec<Setting>,
}

/// Reads `text`, the content of the fio job file called `file`.
///
/// # Errors
/// [`ImportError`] lists every line that has no counterpart here, and what to do about it.
pub fn import_fio(file: &str, text: &str) -> Result<Import, ImportError> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        reader.read_line(number, line);
    }
    let Reader { sections, mut reasons, mut notes, .. } = reader;
    let mut jobs = Vec::new();
    for section in &sections {
        match Job::new(section, &mut notes) {
            Ok(job) => jobs.push(job),
            Err(wrong) => reasons.extend(wrong),
        }
    }
    if sections.is_empty() && reasons.is_empty() {
        reasons.push(Reason::of_file("no job: a section such as [job1] with rw=randread makes one"));
    }
    let steps = if reasons.is_empty() { steps(file, &jobs, &mut notes) } else { Ok(Vec::new()) };
    match steps {
        Ok(steps) if reasons.is_empty() => {
            let mut told = Vec::new();
            notes.retain(|note| {
                !told.contains(note) && {
                    told.push(note.clone());
                    true
                }
            });
            Ok(Import { steps, notes })
        }
        wrong => {
            reasons.extend(wrong.err());
            reasons.sort_by_key(|reason| reason.line);
            reasons.dedup();
            Err(ImportError { file: file.into(), reasons })
        }
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reader {
    sections: Vec<Section>,
    global: Vec<Setting>,
    /// Whether settings go to all jobs that follow.
    in_global: bool,
    reasons: Vec<Reason>,
    notes: Vec<String>,
}

impl Reader {
    fn read_line(&mut self, number: usize, line: &str) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return;
        }
        if let Some(name) = line.strip_prefix('[') {
            self.open_section(number, name);
            return;
        }
        if let Some(path) = line.strip_prefix("include ") {
            let problem = format!("include {}: put the lines of that file here", path.trim());
            return self.reasons.push(Reason::at(number, problem));
        }
        // A comment may follow a setting.
        let line = [" #", " ;", "\t#", "\t;"]
            .iter()
            .fold(line, |line, mark| line.split(mark).next().unwrap_or(line));
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        self.set(number, key.trim(), value.trim());
    }

    fn open_section(&mut self, number: usize, rest: &str) {
        let Some((name, _)) = rest.split_once(']') else {
            return self.reasons.push(Reason::at(number, "a section ends with ]: add it"));
        };
        self.in_global = name.trim().eq_ignore_ascii_case("global");
        if !self.in_global {
            let name = name.trim().to_owned();
            self.sections.push(Section { name, line: number, settings: self.global.clone() });
        }
    }

    fn set(&mut self, number: usize, key: &str, value: &str) {
        let Some((usual, kind)) = keys::find(key) else {
            let likely = nearest(key, keys::names()).unwrap_or_default();
            let problem = format!("unknown key '{key}': the nearest known is '{likely}'");
            return self.reasons.push(Reason::at(number, problem));
        };
        match kind {
            Kind::Same => {}
            // Switched off, it asks for nothing.
            Kind::Missing(_) if value == "0" => return,
            Kind::Ignored(why) => self.notes.push(format!("{usual} is left out: {why}.")),
            Kind::Missing(advice) => {
                return self
                    .reasons
                    .push(Reason::at(number, format!("{key} has no counterpart here: {advice}")));
            }
        }
        if value.contains('$') {
            let problem = format!("{key} = {value}: write the value itself, variables are not expanded");
            return self.reasons.push(Reason::at(number, problem));
        }
        let setting = Setting { key: usual, value: value.to_owned(), line: number };
        match self.sections.last_mut() {
            _ if self.in_global => self.global.push(setting),
            Some(section) => section.settings.push(setting),
            None => self.reasons.push(Reason::at(number, "stands before any section: put it below [global]")),
        }
    }
}

/// Puts the jobs of each group together.
fn steps(file: &str, jobs: &[Job], notes: &mut Vec<String>) -> Result<Vec<Step>, Reason> {
    let mut steps = Vec::new();
    let mut names = Vec::new();
    let mut rest = jobs;
    while let Some(first) = rest.first() {
        let length = 1 + rest[1..].iter().take_while(|job| !job.starts_step).count();
        let (group, others) = rest.split_at(length);
        rest = others;
        let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = stem.strip_suffix(".fio").unwrap_or(stem);
        let name = if length == 1 { first.name.as_str() } else { stem };
        let name = free_name(slug(name), &names);
        names.push(name.clone());
        steps.push(step(file, name, group, notes)?);
    }
    Ok(steps)
}

fn step(file: &str, name: String, group: &[Job], notes: &mut Vec<String>) -> Result<Step, Reason> {
    let mut parts: Vec<MixPart> = Vec::new();
    let mut files = Files::default();
    for job in group {
        for clone in 0..job.clones() {
            let mut part = job.part(clone);
            part.places.start = ByteCount(part.places.start.get().saturating_add(files.base(job, clone)));
            let taken: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
            part.name = free_name(slug(&part.name), &taken);
            parts.push(part);
        }
    }
    if parts.len() > PARTS_MAX {
        let line = group.first().map(|job| job.line);
        let problem =
            format!("{} jobs run at once: a workload has up to {PARTS_MAX} parts, use fewer", parts.len());
        return Err(Reason { line, problem });
    }
    if files.without_size {
        notes.push(
            "A job without size uses the rest of the target, from where the file before it ends.".into(),
        );
    }
    let longest = |figure: fn(&Job) -> Option<raidlab_units::NanoSpan>| group.iter().filter_map(figure).max();
    let data = group.iter().map(|job| job.data).find(|data| !data.is_noise()).unwrap_or_default();
    if group.iter().any(|job| job.data != data) {
        notes.push(format!("All parts of {name} write the same kind of data: {data}."));
    }
    let mut run = RunHints {
        targets: group.iter().flat_map(|job| job.targets.clone()).take(1).collect(),
        run: longest(|job| job.run),
        ramp: longest(|job| job.ramp),
        iodepths: Vec::new(),
        size: (!files.without_size).then_some(ByteCount(files.end)).filter(|end| end.get() > 0),
        seed: group.iter().find_map(|job| job.seed),
        buffered: group.iter().any(|job| job.buffered),
    };
    let mut spec = AccessSpec { name, data, ..AccessSpec::default() };
    if parts.len() == 1 {
        let part = parts.swap_remove(0);
        (spec.lines, spec.places, spec.pacing, spec.flush) =
            (part.lines, part.places, part.pacing, part.flush);
        match part.iodepth {
            // Left to the run, so that it can be swept.
            Some(iodepth) if !spec.pacing.is_open() => run.iodepths = vec![iodepth],
            iodepth => spec.iodepth = iodepth,
        }
    } else {
        spec.parts = parts;
    }
    let line = group.first().map(|job| job.line);
    spec.validate().map_err(|error| Reason { line, problem: error.to_string() })?;
    let title = group.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(", ");
    let (title, source) = (title, format!("imported from {file}"));
    let metric = metric_of(spec.all_lines());
    let workload =
        Workload { title, source, metric, notes: String::new(), block_bytes_published: Vec::new(), spec };
    Ok(Step { workload, run })
}

/// Where the files of jobs lie on the one target: one after the other.
#[derive(Debug, Default)]
struct Files {
    /// Name and start of each.
    known: Vec<(String, u64)>,
    end: u64,
    without_size: bool,
}

impl Files {
    /// Where the file of a job starts.
    fn base(&mut self, job: &Job, clone: u32) -> u64 {
        let own = || format!("{} {clone}", job.name);
        let file = job.targets.first().cloned().unwrap_or_else(own);
        if let Some((_, start)) = self.known.iter().find(|(known, _)| *known == file) {
            let start = *start;
            self.end = self.end.max(start.saturating_add(job.extent(clone)));
            return start;
        }
        let start = self.end;
        self.without_size |= job.size.is_none();
        self.end = self.end.saturating_add(job.extent(clone));
        self.known.push((file, start));
        start
    }
}

#[cfg(test)]
mod tests;
