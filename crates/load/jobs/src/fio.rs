//! fio job files.
//!
//! ```text
//! [global]   settings for all jobs after it
//! [job]      a job: its own settings over the global ones
//! stonewall  this job, and those after it, start when the previous ones have ended: the next step
//! include F  the lines of that file
//! ${NAME}    a variable of the caller or of the environment
//! ```
//! Jobs of a group run at once: they are the parts of one workload. Those that ask the same of different targets are one workload with
//! several targets, and where they ask different things, each part names its own. `job.rs` has the meaning of keys, `files.rs` that of
//! files, `keys.rs` lists all known keys. Values follow fio: `4k` is 4096 bytes (unless `kb_base=1000`), times are seconds or microseconds by
//! key.
//!
//! Left out: fio's own variables of the machine (`$ncpus`), and arithmetic in values; each is an error that says what to
//! write instead. Source: fio's HOWTO, "Job file format" and "Job file parameters".

mod check;
mod export;
mod files;
mod job;
mod keys;
mod normal;
mod sizes;
mod steps;
mod values;
mod zones;

pub use check::{Checked, FioTrial, TrialLog, fio_trial};
pub use export::{FioExport, export_fio};

use crate::{Import, ImportError, Reason};
use job::Job;
use keys::Kind;
use raidlab_workload::{AccessLine, Distribution, toml_file::meant};
use std::collections::BTreeSet;
use steps::steps;

/// Files that a job file includes, and those that they include, at most.
const INCLUDES_MAX: usize = 64;
/// Names that fio replaces by figures of the machine it runs on.
const OF_THE_MACHINE: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

/// The value of a variable, and who gave it; or how it is given.
pub type Variable = Result<(String, &'static str), String>;

/// A file that is included.
#[derive(Clone, Copy, Debug)]
pub struct Included<'a> {
    /// What the line says.
    pub path: &'a str,
    /// The file that the line stands in, by the name that it was found by; none of the job file.
    pub by: Option<&'a str>,
}

/// The name that it was found by, and its text; or why there is none.
pub type IncludedText = Result<(String, String), String>;

/// What a job file takes from elsewhere.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// What is known of a variable.
    pub variable: &'a dyn Fn(&str) -> Variable,
    /// What is known of a file that another includes.
    pub include: &'a dyn Fn(Included<'_>) -> IncludedText,
}

impl Surroundings<'_> {
    /// Knows no variable and no file.
    pub const NONE: Surroundings<'static> = Surroundings {
        variable: &|_| Err("write its value".into()),
        include: &|_| Err("no files can be read here".into()),
    };
}

/// A setting, as it stands in the file.
#[derive(Clone, Debug)]
struct Setting {
    key: &'static str,
    value: String,
    line: usize,
}

/// No line of a job file is longer.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The part of an unknown key that is shown and compared.
const KEY_CHARS_MAX: usize = 60;
/// Lines that are wrong, after which nothing more is read: a file of other things has a million of them.
const WRONG_MAX: usize = 20;

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
pub fn import_fio(file: &str, text: &str, around: Surroundings<'_>) -> Result<Import, ImportError> {
    let mut reader = Reader::new(around);
    reader.read(None, text);
    let Reader { sections, mut reasons, mut notes, left_out, places, .. } = reader;
    notes.extend(left_out.iter().map(|(why, keys)| {
        let verb = if keys.len() == 1 { "is" } else { "are" };
        format!("{} {verb} left out: {why}.", keys.join(", "))
    }));
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
            let mut told = BTreeSet::new();
            notes.retain(|note| told.insert(note.clone()));
            Ok(Import { steps, notes, jobs: jobs.iter().map(Job::told).collect() })
        }
        wrong => {
            reasons.extend(wrong.err());
            reasons.sort_by_key(|reason| reason.line);
            reasons.dedup();
            for reason in &mut reasons {
                let place = reason.line.and_then(|line| places.get(line.checked_sub(1)?));
                if let Some((file, line)) = place {
                    (reason.file, reason.line) = (file.clone(), Some(*line));
                }
            }
            Err(ImportError { file: file.into(), reasons })
        }
    }
}

/// The lines of requests that a job with these settings makes; none where they have no counterpart here.
pub fn fio_lines<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Vec<AccessLine>> {
    let mut section = Section { name: String::new(), line: 1, settings: Vec::new() };
    for (key, value) in settings {
        match keys::find(key) {
            Some((key, Kind::Same)) => {
                section.settings.push(Setting { key, value: value.to_owned(), line: 1 });
            }
            Some((_, Kind::Missing(_))) if value != "0" => return None,
            _ => {}
        }
    }
    Job::lines(&section)
}

/// What was read so far.
struct Reader<'a> {
    around: Surroundings<'a>,
    sections: Vec<Section>,
    global: Vec<Setting>,
    /// Whether settings go to all jobs that follow.
    in_global: bool,
    reasons: Vec<Reason>,
    notes: Vec<String>,
    /// Keys that are left out, by the reason.
    left_out: Vec<(&'static str, Vec<&'static str>)>,
    /// File and line of each line that was read; the file is none for the one that was given. Lines have numbers from 1 in here until
    /// all is read.
    places: Vec<(Option<String>, usize)>,
    /// Files so far.
    included: usize,
    /// The lines that decide which requests are made, as they stand there.
    deciding: Vec<check::Line>,
}

impl<'a> Reader<'a> {
    fn new(around: Surroundings<'a>) -> Self {
        Self {
            around,
            sections: Vec::new(),
            global: Vec::new(),
            in_global: false,
            reasons: Vec::new(),
            notes: Vec::new(),
            left_out: Vec::new(),
            places: Vec::new(),
            included: 0,
            deciding: Vec::new(),
        }
    }

    fn read(&mut self, file: Option<&str>, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            self.places.push((file.map(str::to_owned), number));
            if self.reasons.len() == WRONG_MAX {
                let problem =
                    "so many lines are wrong that nothing is read from here on: is this a job file of fio?";
                self.reasons.push(Reason::at(self.places.len(), problem));
            }
            if self.reasons.len() > WRONG_MAX {
                return;
            }
            self.read_line(self.places.len(), line);
        }
    }

    fn read_line(&mut self, number: usize, line: &str) {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return;
        }
        if line.len() > LINE_BYTES_MAX {
            let problem = format!("a line of {} bytes: this is no job file of fio", line.len());
            return self.reasons.push(Reason::at(number, problem));
        }
        if let Some(name) = line.strip_prefix('[') {
            self.open_section(number, name);
            return;
        }
        if let Some(path) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            return self.include(number, path.trim());
        }
        // A comment may follow a setting, and begins wherever its mark stands.
        let whole = line;
        let line = line.find(['#', ';']).map_or(line, |at| &line[..at]);
        if line.len() < whole.len() && !line.ends_with([' ', '\t']) {
            self.notes
                .push(format!("'{whole}' ends before the mark of a comment, as for fio: it is '{line}'."));
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let known = keys::find(key.trim());
        if known.is_some_and(|(usual, _)| check::DECIDING.contains(&usual)) {
            self.deciding.push(check::Line::Setting(whole.to_owned()));
        }
        let is_blank = value.starts_with([' ', '\t']);
        let value = value.trim();
        let is_kept = matches!(known, Some((_, Kind::Same)));
        let is_refused = |(usual, kind): (&str, Kind)| {
            !matches!(kind, Kind::Missing(_)) && !keys::needs_no_value(usual, !line.contains('='))
        };
        // Between commas a direction may have none, but not each of them.
        if value.trim_matches(',').is_empty() && known.is_some_and(is_refused) {
            let problem = format!("{line}: fio refuses it without a value: write one, or leave it out");
            return self.reasons.push(Reason::at(number, problem));
        }
        // A number alone is read all the same.
        if is_blank && is_kept && !value.bytes().all(|byte| byte.is_ascii_digit()) {
            let problem = format!(
                "{} = {value}: fio takes the blank behind = for a part of the value, and refuses it or loses its unit: leave it out",
                key.trim()
            );
            return self.reasons.push(Reason::at(number, problem));
        }
        self.set(number, key.trim(), value);
    }

    fn include(&mut self, number: usize, path: &str) {
        self.included += 1;
        let by = self.places.last().and_then(|(file, _)| file.as_deref());
        let found = if self.included <= INCLUDES_MAX {
            (self.around.include)(Included { path, by })
        } else {
            Err(format!("more than {INCLUDES_MAX} files are included: leave some out"))
        };
        match found {
            Ok((name, text)) => self.read(Some(&name), &text),
            Err(problem) => self.reasons.push(Reason::at(number, format!("include {path}: {problem}"))),
        }
    }

    /// The value with its variables replaced.
    fn expanded(&mut self, value: &str) -> Result<String, String> {
        let (mut done, mut rest) = (String::new(), value);
        while let Some((before, after)) = rest.split_once("${") {
            let (name, behind) = after.split_once('}').ok_or("a variable ends with }: add it")?;
            let (found, whose) =
                (self.around.variable)(name).map_err(|how| format!("{name} is not set: {how}"))?;
            self.notes.push(format!("{name} is '{found}', of {whose}."));
            done = done + before + &found;
            rest = behind;
        }
        match OF_THE_MACHINE.into_iter().find(|name| value.contains(name)) {
            Some(name) => {
                Err(format!("{name} is a figure of the machine that fio runs on: write the number"))
            }
            None => Ok(done + rest),
        }
    }

    fn open_section(&mut self, number: usize, rest: &str) {
        let Some((name, _)) = rest.split_once(']') else {
            return self.reasons.push(Reason::at(number, "a section ends with ]: add it"));
        };
        // As init.c has it: [Global] is a job, and [globalread] none.
        self.in_global = name.starts_with("global");
        self.deciding.push(check::Line::Section { name: name.to_owned(), is_global: self.in_global });
        if !self.in_global {
            let name = name.trim().to_owned();
            self.sections.push(Section { name, line: number, settings: self.global.clone() });
        }
    }

    fn set(&mut self, number: usize, key: &str, value: &str) {
        let Some((usual, kind)) = keys::find(key) else {
            let key: &str = &key.chars().take(KEY_CHARS_MAX).collect::<String>();
            let likely = meant(key, keys::names()).map(|likely| format!(": the nearest known is '{likely}'"));
            let problem = format!("unknown key '{key}'{}", likely.unwrap_or_default());
            return self.reasons.push(Reason::at(number, problem));
        };
        match kind {
            Kind::Same => {}
            // Switched off, it asks for nothing.
            Kind::Missing(_) if value == "0" => return,
            Kind::Ignored(why) => {
                match self.left_out.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, keys)) if keys.contains(&usual) => {}
                    Some((_, keys)) => keys.push(usual),
                    None => self.left_out.push((why, vec![usual])),
                }
                return;
            }
            Kind::Missing(advice) => {
                return self
                    .reasons
                    .push(Reason::at(number, format!("{key} has no counterpart here: {advice}")));
            }
        }
        let value = match self.expanded(value) {
            Ok(value) => value,
            Err(problem) => {
                return self.reasons.push(Reason::at(number, format!("{key} = {value}: {problem}")));
            }
        };
        let settings = match self.sections.last_mut() {
            _ if self.in_global => &mut self.global,
            Some(section) => &mut section.settings,
            None => {
                let problem = "stands before any section: put it below [global]";
                return self.reasons.push(Reason::at(number, problem));
            }
        };
        // The last of a key counts.
        settings.retain(|it| it.key != usual);
        settings.push(Setting { key: usual, value, line: number });
    }
}

/// Whether fio hashes the places of a distribution over the file (lib/zipf.c, lib/gauss.c).
const fn is_scattered(distribution: &Distribution) -> bool {
    matches!(
        distribution,
        Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. }
    )
}

#[cfg(test)]
mod tests;
