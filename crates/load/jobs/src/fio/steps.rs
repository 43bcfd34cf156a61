//! Jobs beside each other and after each other: the steps of a file, their targets, and the places of their files.
//!
//! ```text
//! the same of each target      one set of parts, which runs on each
//! else                         each part names its target; files that fio makes up lie side by side on one of them
//! ```

use super::job::Job;
use crate::{Reason, RunHints, Step, free_name, metric_of, slug};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessSpec, MixPart, Pacing, Phase, Workload};
use std::num::NonZeroU32;

/// The most parts that one workload gets.
pub(super) const PARTS_MAX: usize = 64;

/// Puts the jobs of each group together.
pub(super) fn steps(file: &str, jobs: &[Job], notes: &mut Vec<String>) -> Result<Vec<Step>, Reason> {
    let mut steps = Vec::new();
    let mut names = Vec::new();
    for group in groups(jobs, notes)? {
        let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = stem.strip_suffix(".fio").unwrap_or(stem);
        let name = if let [only] = &group[..] { only.name.as_str() } else { stem };
        let name = free_name(slug(name), &names);
        names.push(name.clone());
        steps.push(step(file, name, &group, notes)?);
    }
    Ok(steps)
}

/// The jobs that run at once, group after group.
fn groups<'a>(jobs: &'a [Job], notes: &mut Vec<String>) -> Result<Vec<Vec<&'a Job>>, Reason> {
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    let mut group = Group::default();
    let mut ended: Vec<&Job> = Vec::new();
    for job in jobs {
        let is_next = match &job.waits_for {
            Some(name) => waits(job, name, &group.jobs, &ended)?,
            None => false,
        };
        if (is_next || job.starts_step) && !group.jobs.is_empty() {
            let behind = if job.starts_step { Vec::new() } else { group.jobs.clone() };
            ended.extend(&group.jobs);
            groups.extend(phases(
                std::mem::replace(&mut group, Group { jobs: vec![job], behind }).jobs,
                notes,
            )?);
            continue;
        }
        group.check(job)?;
        group.jobs.push(job);
    }
    if !group.jobs.is_empty() {
        groups.extend(phases(group.jobs, notes)?);
    }
    Ok(groups)
}

/// Jobs that start at once.
#[derive(Default)]
struct Group<'a> {
    jobs: Vec<&'a Job>,
    /// The jobs whose end the first of them waits for, by `wait_for`, which holds up no other job; none behind a stonewall.
    behind: Vec<&'a Job>,
}

impl Group<'_> {
    /// Refuses a job that fio starts earlier than the group.
    fn check(&self, job: &Job) -> Result<(), Reason> {
        let (Some(other), Some(first)) = (self.behind.first(), self.jobs.first()) else { return Ok(()) };
        if self.behind.iter().any(|other| job.waits_for.as_ref() == Some(&other.name)) {
            return Ok(());
        }
        let (line, Job { name, .. }) =
            (if job.waits_for.is_some() { job.lines_of.wait } else { job.line }, job);
        let problem = format!(
            "{name} starts when {} does in fio, or before: wait_for holds up {} alone, and runs beside it have no counterpart here; put \
             {name} in front of {1}, and write stonewall in {1} to wait for both",
            other.name, first.name
        );
        Err(Reason::at(line, problem))
    }
}

/// Whether `job` waits for all of `group`, by the name of a job; false if that has `ended` already.
fn waits(job: &Job, name: &str, group: &[&Job], ended: &[&Job]) -> Result<bool, Reason> {
    let has = |group: &[&Job]| group.iter().any(|other| other.name == name);
    match (has(group), has(ended)) {
        (true, _) if group.iter().all(|other| other.name == name) => Ok(true),
        // The group before has ended when this one begins.
        (false, true) => Ok(false),
        (true, _) => Err(Reason::at(
            job.lines_of.wait,
            format!(
                "wait_for = {name}: others run on meanwhile, which has no counterpart here: write stonewall to wait for all"
            ),
        )),
        (false, false) => Err(Reason::at(
            job.lines_of.wait,
            format!("wait_for = {name}: no job before this one has that name"),
        )),
    }
}

/// The jobs of a group by their start: those that start at once, and then those that start when all before have ended.
fn phases<'a>(mut group: Vec<&'a Job>, notes: &mut Vec<String>) -> Result<Vec<Vec<&'a Job>>, Reason> {
    group.sort_by_key(|job| job.delay);
    let mut phases: Vec<Vec<&Job>> = Vec::new();
    let mut end: Option<NanoSpan> = None;
    for job in group {
        let ends = job.run.map(|run| end_of(job, run));
        match phases.last_mut() {
            // Jobs that end with their size go on beside those that start later.
            Some(phase) if phase[0].delay == job.delay || (end.is_none() && job.run.is_none()) => {
                phase.push(job);
                end = end.zip(ends).map(|(one, other)| one.max(other));
            }
            Some(_) if end.is_none_or(|end| end > job.delay) => {
                let problem = format!(
                    "startdelay: {} starts while others run, which has no counterpart here: parts of a step start together; \
                     take it out, or make it as long as the runtime of the jobs before",
                    job.name
                );
                return Err(Reason::at(job.lines_of.delay, problem));
            }
            _ => {
                phases.push(vec![job]);
                end = ends;
            }
        }
        if phases.last().is_some_and(|phase| phase[0].delay == job.delay) && job.delay > NanoSpan::ZERO {
            notes.push(
                "A startdelay is no pause here: each step starts when the one before has ended.".into(),
            );
        }
    }
    Ok(phases)
}

/// When a job of a step starts that `first` starts with.
fn phase(job: &Job, first: &Job) -> Phase {
    Phase { after: NanoSpan(job.delay.get().saturating_sub(first.delay.get())), ..Phase::default() }
}

/// When a job ends that runs for `run`, from the start of its group.
fn end_of(job: &Job, run: NanoSpan) -> NanoSpan {
    let ramp = job.ramp.unwrap_or(NanoSpan::ZERO);
    NanoSpan(job.delay.get().saturating_add(ramp.get()).saturating_add(run.get()))
}

/// The targets of a group, and what runs on them.
struct OnTargets<'a> {
    /// By their names; none where no job names one.
    targets: Vec<String>,
    /// The jobs of each; one entry where all are asked the same.
    jobs: Vec<Vec<&'a Job>>,
}

impl<'a> OnTargets<'a> {
    fn of(group: &[&'a Job], notes: &mut Vec<String>) -> Result<Self, Reason> {
        check_files(group)?;
        let mut targets: Vec<Option<&String>> = Vec::new();
        for job in group {
            let target = job.target.as_ref();
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        let on = |target: Option<&String>| -> Vec<&'a Job> {
            group.iter().copied().filter(|job| job.target.as_ref() == target).collect()
        };
        let mut jobs: Vec<Vec<&Job>> = targets.iter().copied().map(on).collect();
        let asked = |jobs: &[&Job]| -> Vec<MixPart> {
            let parts = |job: &Job| {
                let phase = phase(job, group[0]);
                (0..job.clones())
                    .map(|clone| job.part(clone))
                    .map(move |part| MixPart { name: String::new(), phase, ..part })
                    .collect::<Vec<_>>()
            };
            jobs.iter().flat_map(|job| parts(job)).collect()
        };
        let has_unnamed = targets.len() > 1 && targets.contains(&None);
        if !has_unnamed && jobs[1..].iter().all(|others| asked(others) == asked(&jobs[0])) {
            jobs.truncate(1);
        }
        if has_unnamed {
            notes.push(format!(
                "Files that the jobs name beside targets, or that fio makes up, need a target of their own: name it in place of {UNNAMED}."
            ));
        }
        let named = targets.into_iter().filter(|target| has_unnamed || target.is_some());
        Ok(Self {
            targets: named.map(|target| target.map_or(UNNAMED, String::as_str).to_owned()).collect(),
            jobs,
        })
    }
}

/// What stands for a target that no job names.
const UNNAMED: &str = "TARGET";

/// Refuses a file of several in one job that another job has otherwise: it would lie in two places.
fn check_files(group: &[&Job]) -> Result<(), Reason> {
    for job in group {
        let own = job.files.named();
        let shares = |other: &&&Job| {
            let theirs = other.files.named();
            own != theirs
                && own.iter().any(|name| theirs.contains(name) || other.target.as_ref() == Some(name))
        };
        if let Some(other) = group.iter().find(shares) {
            let problem = format!(
                "{} has a file of {} among others of its own, which has no counterpart here: give each files of its own, or put one \
                 behind the other with stonewall",
                job.name, other.name
            );
            return Err(Reason::at(job.lines_of.target, problem));
        }
    }
    Ok(())
}

/// Jobs of a step run equally long.
fn check_times(group: &[&Job]) -> Result<(), Reason> {
    let times = |job: &Job| (job.run, job.ramp);
    match group.iter().find(|job| times(job) != times(group[0])) {
        None => Ok(()),
        Some(job) => Err(Reason::at(
            job.lines_of.run,
            format!(
                "{} runs for another time than {}: jobs that run at once run equally long here; give them the same runtime and \
                 ramp_time, or put one behind the other with stonewall",
                job.name, group[0].name
            ),
        )),
    }
}

/// The pacing and the requests in flight of a job whose reads and writes go on from places of their own; none where no job does. Parts of
/// one loop are those of one job.
fn shared_loop(jobs: &[&Job], notes: &mut Vec<String>) -> Result<Option<(Pacing, u32)>, Reason> {
    let Some(job) = jobs.iter().find(|job| job.has_directions()) else { return Ok(None) };
    if jobs.len() > 1 {
        let problem = format!(
            "the reads of {} go on from the last read and its writes from the last write, which beside other jobs has no counterpart \
             here: write a job for its reads and one for its writes, or put it behind the others with stonewall",
            job.name
        );
        return Err(Reason::at(job.lines_of.rw, problem));
    }
    if job.numjobs() > 1 {
        notes.push(format!("The clones of {} share one loop, with the requests in flight of all.", job.name));
    }
    Ok(Some(job.together()))
}

/// Adds the parts of all clones of `jobs`, each in its file; `first` starts first.
fn add_parts(parts: &mut Vec<MixPart>, jobs: &[&Job], first: &Job, target: Option<NonZeroU32>) -> Files {
    let mut files = Files::default();
    for job in jobs {
        for clone in 0..job.clones() {
            // Beyond the limit all are refused.
            if parts.len() > PARTS_MAX {
                return files;
            }
            let base = files.base(job, clone);
            for mut part in job.parts(clone) {
                part.places.start = ByteCount(part.places.start.get().saturating_add(base));
                let taken: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
                part.name = free_name(slug(&part.name), &taken);
                (part.phase, part.target) = (phase(job, first), target);
                parts.push(part);
            }
        }
    }
    files
}

/// The parts of the jobs on each target, where these differ, and what is known of their files.
fn all_parts(
    jobs: &[Vec<&Job>],
    first: &Job,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<(Vec<MixPart>, Files), Reason> {
    let (mut parts, mut files) = (Vec::new(), Files::default());
    for (number, on_one) in (1..).zip(jobs) {
        let target = NonZeroU32::new(number).filter(|_| jobs.len() > 1);
        let own = add_parts(&mut parts, on_one, first, target);
        if own.count > 1 {
            let (count, names) = (own.count, target.map_or_else(|| name.to_owned(), |_| names_of(on_one)));
            notes.push(format!("The {count} files that the jobs of {names} have of their own lie one after the other on one target."));
        }
        files.merge(&own);
    }
    if parts.len() > PARTS_MAX {
        let problem = format!(
            "more than {PARTS_MAX} jobs run at once: a workload has up to {PARTS_MAX} parts, use fewer"
        );
        return Err(Reason::at(first.line, problem));
    }
    Ok((parts, files))
}

fn step(file: &str, name: String, group: &[&Job], notes: &mut Vec<String>) -> Result<Step, Reason> {
    check_times(group)?;
    let OnTargets { targets, jobs } = OnTargets::of(group, notes)?;
    let first = group[0];
    let shared = shared_loop(if jobs.len() == 1 { &jobs[0] } else { group }, notes)?;
    let (mut parts, files) = all_parts(&jobs, first, &name, notes)?;
    if targets.len() > 1 && jobs.len() == 1 {
        notes.push(format!("Each of the {} targets of {name} gets the same requests.", targets.len()));
    }
    if files.takes_rest {
        notes.push(
            "A job without size uses the rest of the target, from where the file before it ends.".into(),
        );
    }
    let data = group.iter().map(|job| job.data).find(|data| !data.is_noise()).unwrap_or_default();
    if group.iter().any(|job| job.data != data) {
        notes.push(format!("All parts of {name} write the same kind of data: {data}."));
    }
    let mut run = RunHints {
        targets,
        run: first.run,
        ramp: first.ramp,
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
        if let Some((pacing, iodepth)) = shared {
            (spec.pacing, spec.flush) = (pacing, parts[0].flush);
            for part in &mut parts {
                part.flush = None;
            }
            if pacing.is_open() {
                spec.iodepth = Some(iodepth);
            } else {
                run.iodepths = vec![iodepth];
            }
        }
        spec.parts = parts;
    }
    spec.validate().map_err(|error| Reason::at(first.line, error.to_string()))?;
    let (title, source) = (names_of(group), format!("imported from {file}"));
    let metric = metric_of(spec.all_lines());
    let workload =
        Workload { title, source, metric, notes: String::new(), block_bytes_published: Vec::new(), spec };
    Ok(Step { workload, run })
}

/// The names of jobs, in a row.
fn names_of(jobs: &[&Job]) -> String {
    jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Where the files of jobs lie on one target: one after the other.
#[derive(Debug, Default)]
struct Files {
    /// Name and start of each; of several files of a job those of the first.
    known: Vec<(String, u64)>,
    count: u32,
    end: u64,
    /// The length of some file is not known: none is given, or a share of the target.
    without_size: bool,
    /// For some nothing is given.
    takes_rest: bool,
}

impl Files {
    /// Adds what is known of those on another target.
    fn merge(&mut self, other: &Self) {
        self.end = self.end.max(other.end);
        self.without_size |= other.without_size;
        self.takes_rest |= other.takes_rest;
    }

    /// Where the file of a job starts.
    fn base(&mut self, job: &Job, clone: u32) -> u64 {
        let file = job.file(clone);
        if let Some((_, start)) = self.known.iter().find(|(known, _)| *known == file) {
            let start = *start;
            self.end = self.end.max(start.saturating_add(job.extent(clone)));
            return start;
        }
        let start = self.end;
        self.without_size |= job.size.is_none();
        self.takes_rest |= job.size.is_none() && !job.has_share();
        self.end = self.end.saturating_add(job.extent(clone));
        self.count = self.count.saturating_add(job.files.count());
        self.known.push((file, start));
        start
    }
}
