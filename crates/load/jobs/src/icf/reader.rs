//! Parses the text of a configuration file into its settings.
//!
//! A line that begins with `'` is a key (or a heading of columns, which is ignored), the lines after it are values.
//! Files of 1998.01 to 1998.05 have specifications without names, with numbers separated by blanks: each worker runs
//! all of them, and one of a single line gets Iometer's name (`2 KiB; 67% Read; 100% random`). The section's contents
//! decide, not the version, because files were carried on from version to version. Like Iometer, this finds sections by
//! their first words and skips unknown lines between them.

use crate::Reason;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::AccessLine;

/// The first version whose specifications have names.
const NAMED_SPECS_SINCE: u64 = 19_980_521;
/// The key of a specification's name.
const NAME_KEY: &str = "'access specification name";
/// Keys of a worker whose values are about network targets, or say what is known.
const OTHER_KEYS: [&str; 4] =
    ["'target type", "'local network interface", "'vi outstanding ios", "'target manager id"];
/// Lines of a specification at most, as in Iometer.
const LINES_MAX: usize = 100;

/// All that matters of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) run: NanoSpan,
    pub(super) ramp: NanoSpan,
    pub(super) cycle: Cycle,
    pub(super) specs: Vec<Spec>,
    pub(super) workers: Vec<Worker>,
    pub(super) notes: Vec<String>,
    /// Its specifications have no names.
    has_unnamed: bool,
    worker_cycle: Cycle,
    target_cycle: Cycle,
    queue_cycle: Cycle,
}

/// What is cycled through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CycleOf {
    Outstanding,
    Workers,
}

/// A cycle: from `start` to `end` by `step`, added or multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cycle {
    pub(super) of: Option<CycleOf>,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) step: u32,
    pub(super) is_exponential: bool,
}

/// An access specification.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: Vec<AccessLine>,
}

/// A disk worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) outstanding: u32,
    pub(super) maximum_sectors: u64,
    pub(super) starting_sector: u64,
    pub(super) seed: Option<u64>,
    /// Names of its specifications, with their lines in the file.
    pub(super) assigned: Vec<(String, usize)>,
    pub(super) targets: Vec<String>,
}

impl Worker {
    /// Whether it works on the targets of `other`, or nobody knows.
    pub(super) fn shares_targets(&self, other: &Self) -> bool {
        let is_named = !self.targets.is_empty() && !other.targets.is_empty();
        !is_named || self.targets == other.targets
    }

    /// Whether it works on none of the targets of `other`.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        let is_named = !self.targets.is_empty() && !other.targets.is_empty();
        is_named && self.targets.iter().all(|target| !other.targets.contains(target))
    }

    /// Whether it asks as `other` does, of a specification that is the same.
    pub(super) fn does_as(&self, other: &Self) -> bool {
        let figures = |worker: &Self| {
            (worker.outstanding, worker.maximum_sectors, worker.starting_sector, worker.targets.len())
        };
        figures(self) == figures(other)
    }
}

/// The lines of the file, one at a time.
struct Lines<'a> {
    all: Vec<&'a str>,
    next: usize,
    version: u64,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let line = self.all.get(self.next)?;
        self.next += 1;
        Some((self.next, line.trim()))
    }

    /// The next line that is not empty, which stays the next.
    fn peek(&self) -> Option<&'a str> {
        self.all[self.next..].iter().map(|line| line.trim()).find(|line| !line.is_empty())
    }

    /// The value of the key before: the next line that is no comment.
    fn value(&mut self) -> Result<(usize, &'a str), Reason> {
        while let Some(line) = self.all.get(self.next) {
            let line = line.trim();
            if is_end(line) {
                break;
            }
            self.next += 1;
            if !line.starts_with('\'') {
                return Ok((self.next, line));
            }
        }
        Err(Reason::at(self.next.max(1), "a value is missing below this line: add it"))
    }
}

fn is_end(line: &str) -> bool {
    starts(line, "'end")
}

/// Whether `line` starts with `words`, in small or capital letters.
fn starts(line: &str, words: &str) -> bool {
    line.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
}

/// Numbers of a line, whatever stands between them.
fn numbers(line: usize, text: &str, count: usize) -> Result<Vec<u64>, Reason> {
    let wrong = || Reason::at(line, format!("'{text}' holds fewer than {count} whole numbers: mend it"));
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let read: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    if read.len() >= count { Ok(read) } else { Err(wrong()) }
}

fn small(line: usize, number: u64, what: &str) -> Result<u32, Reason> {
    u32::try_from(number)
        .map_err(|_| Reason::at(line, format!("{what} = {number} is too large: it must be below 2^32")))
}

impl Config {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// All reasons against it; the first one ends the reading.
    pub(super) fn read(text: &str) -> Result<Self, Vec<Reason>> {
        let mut config = Self::default();
        let mut lines = Lines { all: text.lines().collect(), next: 0, version: 0 };
        let read = config.read_all(&mut lines);
        read.map(|()| config).map_err(|reason| vec![reason])
    }

    fn read_all(&mut self, lines: &mut Lines<'_>) -> Result<(), Reason> {
        lines.version = version(lines)?;
        let mut list = None;
        while let Some((number, line)) = lines.next() {
            if starts(line, "'manager list") {
                list = Some(number);
            } else if starts(line, "'end manager list") {
                list = None;
            } else if starts(line, "'test setup") {
                self.read_setup(lines)?;
            } else if starts(line, "'access specifications") {
                let has_names = lines.peek().is_some_and(|line| starts(line, NAME_KEY));
                if lines.version < NAMED_SPECS_SINCE && !has_names {
                    self.read_old_specs(lines)?;
                } else {
                    self.read_specs(lines)?;
                }
            } else if line.eq_ignore_ascii_case("'worker") {
                self.read_worker(lines)?;
            }
        }
        if let Some(number) = list {
            let problem = "the file ends before 'END manager list: it is cut off, and nobody knows which workers followed";
            return Err(Reason::at(number, problem));
        }
        self.assign_unnamed();
        Ok(())
    }

    fn read_setup(&mut self, lines: &mut Lines<'_>) -> Result<(), Reason> {
        let mut kind = String::new();
        while let Some((_, line)) = lines.next() {
            if is_end(line) || starts(line, "'results display") {
                break;
            } else if starts(line, "'run time") {
                let (at, value) = lines.value()?;
                let time = numbers(at, value, 3)?;
                let seconds = [3600, 60, 1]
                    .iter()
                    .zip(&time)
                    .try_fold(0u64, |sum, (unit, count)| sum.checked_add(count.checked_mul(*unit)?));
                self.run = seconds_of(at, seconds)?;
            } else if starts(line, "'ramp up time") {
                let (at, value) = lines.value()?;
                self.ramp = seconds_of(at, Some(numbers(at, value, 1)?[0]))?;
            } else if starts(line, "'worker cycling") {
                self.worker_cycle = cycle(lines, 2)?;
            } else if starts(line, "'disk cycling") || starts(line, "'target cycling") {
                self.target_cycle = cycle(lines, 2)?;
            } else if starts(line, "'queue depth cycling") {
                self.queue_cycle = cycle(lines, 3)?;
            } else if starts(line, "'test type") {
                kind = lines.value()?.1.to_ascii_uppercase();
            }
        }
        self.choose_cycle(&kind);
        Ok(())
    }

    /// Takes the cycle that the test type names.
    fn choose_cycle(&mut self, kind: &str) {
        let note = |what: &str| {
            format!("{what}: only one run is imported, with all of them. Measure more of them by hand.")
        };
        match kind {
            "CYCLE_OUTSTANDING_IOS" => {
                self.cycle = Cycle { of: Some(CycleOf::Outstanding), ..self.queue_cycle }
            }
            "CYCLE_OUTSTANDING_IOS_AND_TARGETS" => {
                self.cycle = Cycle { of: Some(CycleOf::Outstanding), ..self.queue_cycle };
                self.notes.push(note("Targets are cycled beside outstanding I/Os"));
            }
            "CYCLE_WORKERS" => self.cycle = Cycle { of: Some(CycleOf::Workers), ..self.worker_cycle },
            "CYCLE_WORKERS_AND_TARGETS" => {
                self.cycle = Cycle { of: Some(CycleOf::Workers), ..self.worker_cycle };
                self.notes.push(note("Targets are cycled with the workers"));
            }
            "CYCLE_TARGETS" | "INCREMENT_TARGETS_PARALLEL" | "INCREMENT_TARGETS_SERIAL" => {
                let Cycle { start, step, is_exponential, .. } = self.target_cycle;
                let by = if is_exponential { "times" } else { "plus" };
                self.notes.push(note(&format!("Targets are cycled from {start}, {by} {step}")));
            }
            _ => {}
        }
    }

    fn read_specs(&mut self, lines: &mut Lines<'_>) -> Result<(), Reason> {
        while let Some((number, line)) = lines.next() {
            if is_end(line) {
                return Ok(());
            }
            if starts(line, NAME_KEY) {
                let (_, value) = lines.value()?;
                // Names hold commas in no version: what follows one is the default assignment.
                let name = value.split(',').next().unwrap_or(value).trim().to_owned();
                self.specs.retain(|spec| !spec.name.eq_ignore_ascii_case(&name));
                self.specs.push(Spec { name, line: number, lines: Vec::new() });
            } else if !line.starts_with('\'') && !line.is_empty() {
                let spec = self.specs.last_mut();
                let spec = spec.ok_or_else(|| {
                    Reason::at(number, "numbers stand before the name of a specification: add it")
                })?;
                let columns = numbers(number, line, 8)?;
                add_line(spec, number, &columns)?;
            }
        }
        Ok(())
    }

    /// One specification after the other, each as long as its shares add up to 100, without names.
    fn read_old_specs(&mut self, lines: &mut Lines<'_>) -> Result<(), Reason> {
        self.has_unnamed = true;
        let mut sum = 100;
        while let Some((number, line)) = lines.next() {
            if is_end(line) {
                break;
            }
            if line.starts_with('\'') || line.is_empty() {
                continue;
            }
            let mut columns = numbers(number, line, 6)?;
            columns.resize(8, 0);
            if sum >= 100 {
                let name = format!("specification {}", self.specs.len() + 1);
                self.specs.push(Spec { name, line: number, lines: Vec::new() });
                sum = 0;
            }
            sum += columns[1].min(100);
            if let Some(spec) = self.specs.last_mut() {
                add_line(spec, number, &columns)?;
                // A specification of one line, which fills it.
                if sum == columns[1] && sum == 100 {
                    let [bytes, _, reads, random, ..] = columns[..] else { continue };
                    spec.name = format!("{}; {reads}% Read; {random}% random", ByteCount(bytes));
                }
            }
        }
        Ok(())
    }

    /// Has each worker run all of the specifications that have no names in the file, unless it names them as Iometer would.
    fn assign_unnamed(&mut self) {
        if !self.has_unnamed {
            return;
        }
        let all: Vec<(String, usize)> =
            self.specs.iter().map(|spec| (spec.name.clone(), spec.line)).collect();
        let is_known =
            |(name, _): &(String, usize)| all.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        for worker in &mut self.workers {
            if !worker.assigned.is_empty() && !worker.assigned.iter().all(is_known) {
                self.notes.push(format!(
                    "{} runs all specifications: those of this version have no names to assign them by.",
                    worker.name
                ));
                worker.assigned.clone_from(&all);
            }
        }
    }

    fn read_worker(&mut self, lines: &mut Lines<'_>) -> Result<(), Reason> {
        let (line, name) = lines.value()?;
        let mut worker = Worker {
            name: name.to_owned(),
            line,
            outstanding: 1,
            maximum_sectors: 0,
            starting_sector: 0,
            seed: None,
            assigned: Vec::new(),
            targets: Vec::new(),
        };
        let mut is_network = false;
        while let Some((number, line)) = lines.next() {
            if starts(line, "'end worker") {
                break;
            } else if starts(line, "'worker type") {
                is_network = starts(lines.value()?.1, "network");
            } else if starts(line, "'number of outstanding ios") {
                read_outstanding(lines, &mut worker)?;
            } else if starts(line, "'disk maximum size") {
                let (at, value) = lines.value()?;
                let sectors = numbers(at, value, 2)?;
                (worker.maximum_sectors, worker.starting_sector) = (sectors[0], sectors[1]);
            } else if starts(line, "'assigned access specs") {
                while let Some((number, line)) = lines.next().filter(|(_, line)| !is_end(line)) {
                    if !line.starts_with('\'') && !line.is_empty() {
                        worker.assigned.push((line.to_owned(), number));
                    }
                }
            } else if OTHER_KEYS.iter().any(|key| starts(line, key)) {
                lines.value()?;
            } else if line.eq_ignore_ascii_case("'target") {
                worker.targets.push(lines.value()?.1.to_owned());
            } else if !line.starts_with('\'') && !line.is_empty() {
                let problem = format!("'{line}' belongs to no key of a worker");
                return Err(Reason::at(number, problem));
            }
        }
        if is_network {
            self.notes.push(format!("{} is left out: it is a network worker.", worker.name));
        } else {
            let targets = worker.targets.join(", ");
            if !targets.is_empty() {
                self.notes
                    .push(format!("{} works on {targets}: name the targets of this machine.", worker.name));
            }
            self.workers.push(worker);
        }
        Ok(())
    }
}

fn read_outstanding(lines: &mut Lines<'_>, worker: &mut Worker) -> Result<(), Reason> {
    let (at, value) = lines.value()?;
    worker.outstanding = small(at, numbers(at, value, 1)?[0], "outstanding I/Os")?.max(1);
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let is_fixed = words.get(3).is_some_and(|word| word.eq_ignore_ascii_case("enabled"));
    worker.seed = words.get(4).and_then(|word| word.parse().ok()).filter(|_| is_fixed);
    Ok(())
}

/// The version by date as a number, such as 20060727; the versions since 1.1.0 are above all of these.
fn version(lines: &mut Lines<'_>) -> Result<u64, Reason> {
    let advice = "the file begins with its version, such as 'Version 1.1.0': add it";
    let (number, line) = lines.next().ok_or_else(|| Reason::of_file(advice))?;
    let parts: Vec<u64> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map_while(|part| part.parse().ok())
        .collect();
    match parts[..] {
        [major @ 0..=99, middle, minor, ..] => Ok(if (major, middle, minor) == (3, 26, 97) {
            // A file that came with the first release.
            19_980_105
        } else {
            u64::from(u32::MAX)
        }),
        [year, month, day, ..] => {
            Ok(year.saturating_mul(10_000).saturating_add(month.saturating_mul(100)).saturating_add(day))
        }
        _ => Err(Reason::at(number, advice)),
    }
}

fn seconds_of(line: usize, seconds: Option<u64>) -> Result<NanoSpan, Reason> {
    let ns = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    ns.map(NanoSpan).ok_or_else(|| Reason::at(line, "the time is too long: write less than 500 years"))
}

/// Reads a cycle of `count` numbers and the kind of its step.
fn cycle(lines: &mut Lines<'_>, count: usize) -> Result<Cycle, Reason> {
    let (at, value) = lines.value()?;
    let read = numbers(at, value, count)?;
    let number = |index: usize| small(at, read[index], "a number of the cycle");
    let is_exponential = value.to_ascii_uppercase().contains("EXPONENTIAL");
    let (end, step) = if count == 3 { (number(1)?, number(2)?) } else { (u32::MAX, number(1)?) };
    Ok(Cycle { of: None, start: number(0)?, end, step, is_exponential })
}

/// Adds a line of size, share, reads, random, delay, burst, alignment and reply.
fn add_line(spec: &mut Spec, number: usize, columns: &[u64]) -> Result<(), Reason> {
    if spec.lines.len() == LINES_MAX {
        return Err(Reason::at(number, format!("more than {LINES_MAX} lines: use fewer")));
    }
    let percent = |index: usize| {
        let pct = u8::try_from(columns[index]).ok().filter(|pct| *pct <= 100);
        pct.ok_or_else(|| Reason::at(number, format!("{} is no percentage: write 0 to 100", columns[index])))
    };
    let bytes = small(number, columns[0], "size")?;
    let align = small(number, columns[6], "align")?;
    let delay_ns = columns[4].checked_mul(1_000_000);
    spec.lines.push(AccessLine {
        bytes,
        share_pct: percent(1)?,
        read_pct: percent(2)?,
        random_pct: percent(3)?,
        delay: NanoSpan(delay_ns.ok_or_else(|| Reason::at(number, "the delay is too long: write less"))?),
        burst: small(number, columns[5], "burst")?.max(1),
        align_bytes: (align != bytes).then_some(align),
        reply_bytes: small(number, columns[7], "reply")?,
    });
    Ok(())
}
