//! Job files of other load tools, fio's and Iometer's, as workloads.
//!
//! ```text
//! job.fio ─► sections ─► jobs ──► groups that run at once ─┐
//!                                                          ├─► steps: a Workload, and how to run it
//! test.icf ─► specifications, workers, cycling ────────────┘
//! ```
//! A file describes one *step* or several that run one after the other. Settings outside a workload (the target, times,
//! requests in flight of a sweep) go into the step's [`RunHints`]. Settings that do not change the requests are left
//! out with a note; those that do, and have no counterpart, are an error that names the line and says what to do: a
//! workload that only looks like the original is worse than none.
//!
//! [`export_fio`] writes a workload as a job file of fio, and names what that can't say.
//!
//! Nothing here panics, whatever the bytes. Left out: writing Iometer's files.
#![forbid(unsafe_code)]

mod fio;
mod icf;

pub use fio::{
    Checked, FioExport, FioTrial, Included, IncludedText, Surroundings, TrialLog, Variable, export_fio,
    fio_lines, fio_trial, import_fio,
};
pub use icf::import_icf;

use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, Metric, Workload};

/// What a file asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// What runs, one after the other; at least one.
    pub steps: Vec<Step>,
    /// What was left out, or is a little different here: sentences.
    pub notes: Vec<String>,
    /// What the file runs, a line for each job; empty where steps say all.
    pub jobs: Vec<String>,
}

/// One workload, and how the file runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is asked.
    pub workload: Workload,
    /// How.
    pub run: RunHints,
}

/// How a step is run. What the file does not say is left to who runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunHints {
    /// Targets, as the file names them.
    pub targets: Vec<String>,
    /// Length of the measured window.
    pub run: Option<NanoSpan>,
    /// Time before it.
    pub ramp: Option<NanoSpan>,
    /// Requests in flight, of each run of a sweep.
    pub iodepths: Vec<u32>,
    /// Space that the load uses on the target.
    pub size: Option<ByteCount>,
    /// Seed of all that is random.
    pub seed: Option<u64>,
    /// Goes through the page cache.
    pub buffered: bool,
}

/// Why a file can't be imported: every reason, by line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", reasons.iter().map(|reason| reason.text(file)).collect::<Vec<_>>().join("\n"))]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// All that is against it, at least one.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The file, where that is an included one.
    pub file: Option<String>,
    /// The line, from 1; none for the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl Reason {
    fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { file: None, line: Some(line), problem: problem.into() }
    }

    fn of_file(problem: impl Into<String>) -> Self {
        Self { file: None, line: None, problem: problem.into() }
    }

    fn text(&self, file: &str) -> String {
        let file = self.file.as_deref().unwrap_or(file);
        match self.line {
            Some(line) => format!("{file}:{line}: {}", self.problem),
            None => format!("{file}: {}", self.problem),
        }
    }
}

impl RunHints {
    /// The command that runs the workload file `workload` in this way on all targets that are named.
    pub fn command(&self, workload: &str) -> String {
        let targets: Vec<String> = self.targets.iter().map(|target| quoted(target)).collect();
        let targets = if targets.is_empty() { "TARGET".into() } else { targets.join(" ") };
        let depths: Vec<String> = self.iodepths.iter().map(u32::to_string).collect();
        let flags = [
            ("--iodepth", (!depths.is_empty()).then(|| depths.join(","))),
            ("--ramp", self.ramp.map(time)),
            ("--run", self.run.map(time)),
            ("--size", self.size.map(|size| format!("{}B", size.get()))),
            ("--seed", self.seed.map(|seed| seed.to_string())),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", value?)));
        let buffered = if self.buffered { " --buffered" } else { "" };
        format!(
            "raidlab measure {targets} --workload {}{}{buffered}",
            quoted(workload),
            given.collect::<String>()
        )
    }
}

/// In the largest unit that it is a multiple of.
fn time(span: NanoSpan) -> String {
    let ns = span.get();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let unit = units.into_iter().find(|(_, unit)| ns.is_multiple_of(*unit));
    unit.map_or_else(String::new, |(name, unit)| format!("{}{name}", ns / unit))
}

/// For a shell: as it is where that is safe, else between quotes.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+=@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A name for files and tables: small letters, digits and single hyphens.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-').chars().take(60).collect::<String>();
    if slug.is_empty() { "workload".into() } else { slug }
}

/// `name`, or `name-2` and so on where others have it.
fn free_name(name: String, taken: &[String]) -> String {
    let numbered = (2u32..).map(|number| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    candidates.find(|candidate| !taken.contains(candidate)).unwrap_or(name)
}

/// Long or sequential requests are judged by bytes, others by their number.
fn metric_of<'a>(lines: impl Iterator<Item = &'a AccessLine>) -> Metric {
    const LONG: u32 = 128 << 10;
    let mut lines = lines.filter(|line| line.share_pct > 0);
    if lines.all(|line| line.random_pct == 0 || line.bytes >= LONG) { Metric::MbPerS } else { Metric::Iops }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_apart() {
        let rows = [("64 KiB; 100% Read", "64-kib-100-read"), ("--", "workload"), ("Ärger", "rger")];
        for (text, expected) in rows {
            assert_eq!(slug(text), expected);
        }
        let taken = ["a".to_owned(), "a-2".to_owned()];
        assert_eq!(free_name("a".into(), &taken), "a-3");
        assert_eq!(free_name("b".into(), &taken), "b");
    }

    #[test]
    fn the_command_has_what_the_file_said() {
        let hints = RunHints {
            targets: vec!["C: \"data\"".into(), "other".into()],
            run: Some(NanoSpan::from_secs(60)),
            ramp: Some(NanoSpan::from_millis(1500)),
            iodepths: vec![1, 2, 4],
            size: Some(ByteCount::from_mib(1)),
            seed: Some(7),
            buffered: true,
        };
        let expected = "raidlab measure 'C: \"data\"' other --workload a.toml --iodepth 1,2,4 --ramp 1500ms --run 60s \
                        --size 1048576B --seed 7 --buffered";
        assert_eq!(hints.command("a.toml"), expected);
        assert_eq!(RunHints::default().command("a.toml"), "raidlab measure TARGET --workload a.toml");
    }
}
