//! Iometer's configuration files (`.icf`), of the versions by date (1998 to 2006) and 1.1.0.
//!
//! ```text
//! 'TEST SETUP            times, cycling        'ACCESS SPECIFICATIONS    name, then lines of eight numbers
//! 'key                                         'MANAGER LIST
//! <tab>value                                     'Worker  outstanding I/Os, sectors, assigned specifications, targets
//! ```
//! Iometer runs the first specification of each worker, then the second of each, and so on: each is a *step* here.
//! Equal workers are one workload; different ones are parts of one, in separate loops, and where their targets differ each part names
//! its own. Cycling becomes a sweep over requests in flight, where that is equivalent.
//!
//! Iometer keeps the outstanding I/Os in flight per worker and target, and so does a loop here on each of its targets: `n` workers that
//! share targets have `n` times as many at each. A file names targets of another machine; they become notes, and their number counts.
//!
//! Left out: network workers, and connection rates, which concern network targets. Source: Iometer's
//! `ICF_ifstream.cpp`, `AccessSpecList.cpp`, `PageSetup.cpp`, `ManagerList.cpp` and `Worker.cpp`.

mod reader;

use crate::{Import, ImportError, Reason, RunHints, Step, free_name, metric_of, slug};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, MixPart, Places, Workload};
use reader::{Config, Cycle, CycleOf, Worker};
use std::num::NonZeroU32;

const SECTOR: u64 = 512;
/// A worker that does something, with its lines and the name of its specification.
type Busy<'a> = (&'a Worker, &'a [AccessLine], &'a str);
/// The specification that does nothing.
const IDLE: &str = "idle";

/// Reads `text`, the content of the Iometer configuration file called `file`.
///
/// # Errors
/// [`ImportError`] lists the lines that are wrong or have no counterpart, and what to do about them.
pub fn import_icf(file: &str, text: &str) -> Result<Import, ImportError> {
    let wrong = |reasons| ImportError { file: file.into(), reasons };
    let mut config = Config::read(text).map_err(wrong)?;
    let mut notes = std::mem::take(&mut config.notes);
    if config.specs.is_empty() {
        return Err(wrong(vec![Reason::of_file("no access specification: there is nothing to import")]));
    }
    let steps = steps(file, &config, &mut notes).map_err(|reason| wrong(vec![reason]))?;
    notes.dedup();
    Ok(Import { steps, notes, jobs: Vec::new() })
}

fn steps(file: &str, config: &Config, notes: &mut Vec<String>) -> Result<Vec<Step>, Reason> {
    let mut steps: Vec<Step> = Vec::new();
    let rounds = config.workers.iter().map(|worker| worker.assigned.len()).max().unwrap_or(0);
    for round in 0..rounds {
        let busy = busy_workers(config, round)?;
        if busy.is_empty() {
            continue;
        }
        let taken: Vec<String> = steps.iter().map(|step| step.workload.name().to_owned()).collect();
        steps.push(step(file, config, &busy, &taken, notes)?);
    }
    if steps.is_empty() {
        notes.push("No worker has an access specification assigned: all of them are imported.".into());
        for spec in &config.specs {
            let taken: Vec<String> = steps.iter().map(|step| step.workload.name().to_owned()).collect();
            let name = free_name(slug(&spec.name), &taken);
            let access = AccessSpec::new(name, spec.lines.clone());
            let run = hints(config, &[]);
            steps.push(finish(file, access, &spec.name, run, spec.line)?);
        }
    }
    Ok(steps)
}

/// The workers that do something in a round, each with its lines and the name of its specification.
fn busy_workers(config: &Config, round: usize) -> Result<Vec<Busy<'_>>, Reason> {
    let mut busy = Vec::new();
    for worker in &config.workers {
        let Some((name, line)) = worker.assigned.get(round) else { continue };
        if name.eq_ignore_ascii_case(IDLE) {
            continue;
        }
        let spec = config.specs.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
        let missing = || {
            Reason::at(
                *line,
                format!("there is no access specification '{name}': add it or take it off the worker"),
            )
        };
        let spec = spec.ok_or_else(missing)?;
        busy.push((worker, &spec.lines[..], spec.name.as_str()));
    }
    Ok(busy)
}

fn step(
    file: &str,
    config: &Config,
    busy: &[Busy<'_>],
    taken: &[String],
    notes: &mut Vec<String>,
) -> Result<Step, Reason> {
    let (first, lines, title) = busy[0];
    let workers: Vec<&Worker> = busy.iter().map(|(worker, ..)| *worker).collect();
    let mut run = hints(config, &workers);
    let alike = |(worker, other, _): &Busy<'_>| *other == lines && worker.does_as(first);
    let name = free_name(slug(title), taken);
    let mut access = AccessSpec::new(name, Vec::new());
    let is_sequential = lines.iter().any(|line| line.random_pct < 100);
    // Each target has the places of its own worker, whatever they are.
    let is_apart = (1..workers.len()).all(|at| workers[..at].iter().all(|it| it.is_apart(workers[at])));
    let workers_of =
        |target: &str| workers.iter().filter(|it| it.targets.iter().any(|own| own == target)).count();
    let counts: Vec<usize> = all_targets(&workers).into_iter().map(workers_of).collect();
    let is_even = counts.iter().all(|count| *count == counts[0]);
    if busy.iter().all(alike) && (busy.len() == 1 || is_even && (!is_sequential || is_apart)) {
        if is_apart && busy.len() > 1 && config.cycle.of == Some(CycleOf::Workers) {
            let problem =
                "workers are cycled that have targets of their own: give all the same targets, or no cycling";
            return Err(Reason::at(first.line, problem));
        }
        access.lines = lines.to_vec();
        access.places = places(first);
        if busy.len() > 1 {
            let all = busy.len();
            notes.push(if is_apart {
                format!("{all} workers do the same on targets of their own: name as many targets; each has the requests in flight of its worker.")
            } else {
                format!("{all} workers that do the same are one loop with the requests in flight of all.")
            });
        }
    } else {
        if config.cycle.of == Some(CycleOf::Outstanding) {
            let problem = "outstanding I/Os are cycled over workers that differ: give each worker the same, or no cycling";
            return Err(Reason::at(first.line, problem));
        }
        run.iodepths = Vec::new();
        let targets = if workers.iter().all(|it| it.shares_targets(first)) {
            Vec::new()
        } else {
            all_targets(&workers)
        };
        for (worker, lines, _) in busy {
            for target in targets_of(worker, &targets) {
                let names: Vec<String> = access.parts.iter().map(|part| part.name.clone()).collect();
                access.parts.push(MixPart {
                    name: free_name(slug(&worker.name), &names),
                    target,
                    lines: lines.to_vec(),
                    places: places(worker),
                    iodepth: Some(worker.outstanding.max(1)),
                    ..MixPart::default()
                });
            }
        }
        for (number, target) in (1..).zip(&targets) {
            notes.push(format!("TARGET-{number} is {target}: name that of this machine."));
            run.targets.push(format!("TARGET-{number}"));
        }
    }
    finish(file, access, title, run, first.line)
}

/// The targets of all workers, in their order.
fn all_targets<'a>(workers: &[&'a Worker]) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for target in workers.iter().flat_map(|worker| &worker.targets) {
        if !all.contains(&target.as_str()) {
            all.push(target);
        }
    }
    all
}

/// The numbers in `targets` of those of a worker; none once, where it works on all.
fn targets_of(worker: &Worker, targets: &[&str]) -> Vec<Option<NonZeroU32>> {
    let own = (1..).zip(targets).filter(|(_, target)| worker.targets.iter().any(|own| own == *target));
    let numbers: Vec<_> = own.map(|(number, _)| NonZeroU32::new(number)).collect();
    if numbers.is_empty() { vec![None] } else { numbers }
}

fn finish(file: &str, spec: AccessSpec, title: &str, run: RunHints, line: usize) -> Result<Step, Reason> {
    spec.validate().map_err(|error| Reason::at(line, error.to_string()))?;
    let metric = metric_of(spec.all_lines());
    let (title, source) = (title.to_owned(), format!("imported from {file}"));
    let workload =
        Workload { title, source, metric, notes: String::new(), block_bytes_published: Vec::new(), spec };
    Ok(Step { workload, run })
}

fn places(worker: &Worker) -> Places {
    let bytes = |sectors: u64| ByteCount(sectors.saturating_mul(SECTOR));
    Places {
        start: bytes(worker.starting_sector),
        size: (worker.maximum_sectors > 0).then(|| bytes(worker.maximum_sectors)),
        ..Places::default()
    }
}

/// How the file runs a step of these workers, which do the same. Requests in flight are those at each target.
fn hints(config: &Config, workers: &[&Worker]) -> RunHints {
    // Of the first `count` workers, those at one target: where nobody names any, all are.
    let at_one = |count: usize| {
        let target = workers.first().and_then(|first| first.targets.first());
        let is_there = |worker: &&&Worker| target.is_none_or(|target| worker.targets.contains(target));
        workers.iter().take(count).filter(is_there).count() as u32
    };
    let all = at_one(workers.len());
    let iodepths = match (config.cycle.of, workers) {
        (_, []) => Vec::new(),
        (Some(CycleOf::Outstanding), _) => {
            config.cycle.values().map(|depth| depth.max(1).saturating_mul(all)).collect()
        }
        (Some(CycleOf::Workers), [first, ..]) => {
            let counts = config.cycle.counts_up_to(workers.len());
            counts.map(|count| first.outstanding.max(1).saturating_mul(at_one(count as usize))).collect()
        }
        (_, [first, ..]) => vec![first.outstanding.max(1).saturating_mul(all)],
    };
    let places: Vec<Places> = workers.iter().map(|worker| places(worker)).collect();
    let ends =
        places.iter().map(|places| places.size.map(|size| places.start.get().saturating_add(size.get())));
    RunHints {
        targets: Vec::new(),
        run: Some(config.run).filter(|run| *run > NanoSpan::ZERO),
        ramp: Some(config.ramp).filter(|ramp| *ramp > NanoSpan::ZERO),
        iodepths,
        size: ends.collect::<Option<Vec<u64>>>().and_then(|ends| ends.into_iter().max()).map(ByteCount),
        seed: workers.iter().find_map(|worker| worker.seed),
        buffered: false,
    }
}

impl Cycle {
    /// The numbers of requests in flight that are cycled through.
    fn values(&self) -> impl Iterator<Item = u32> + use<> {
        self.steps(self.start, self.end)
    }

    /// The numbers of workers that are cycled through, up to all.
    fn counts_up_to(&self, all: usize) -> impl Iterator<Item = u32> + use<> {
        self.steps(self.start.max(1), all as u32)
    }

    /// From `start` by the step to `end`, which is met or not; at most 64.
    fn steps(&self, start: u32, end: u32) -> impl Iterator<Item = u32> + use<> {
        let (step, exponential) = (self.step, self.is_exponential);
        let next = move |value: &u32| match exponential {
            true if step > 1 => value.checked_mul(step),
            false if step > 0 => value.checked_add(step),
            _ => None,
        };
        std::iter::successors(Some(start.max(1)), next)
            .take_while(move |value| *value <= end.max(start))
            .take(64)
    }
}

#[cfg(test)]
mod tests;
