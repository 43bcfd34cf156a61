//! A study in words: its method, its targets, and caveats for the reader.

use crate::runner::StudyOutcome;
use crate::study::{ArraySection, MeasureSection, SimulateSection, Study};
use raidlab_controller::{ArrayConfig, MemberCache, ReadPolicy};
use raidlab_machine::Environment;
use raidlab_raid::Level;
use raidlab_units::ByteCount;
use raidlab_workload::{Pacing, RunResult, Workload};
use raidlab_worlds::ModelledArray;
use raidlab_worlds::SteadyRounds;
use raidlab_worlds::{Certainty, FoundLoad, LoadUnit, Repeats};
use raidlab_worlds::{LoadPlan, RUN_TO_THE_END};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How the study is done, a paragraph per section.
pub fn method(study: &Study) -> Vec<String> {
    let measures = study.measures.iter().map(measure_paragraph);
    let arrays = study.arrays.iter().map(array_paragraph);
    let simulations = study.simulations.iter().map(simulate_paragraph);
    let seed = format!("Every run draws its requests from seed {}, so all see the same ones.", study.seed);
    let repeats = (study.repeats > 1).then(|| {
        format!(
            "Everything on real storage was run {} times, in rounds over all of it, every other round backwards, so that what \
             drifts meets all alike. What only reads was run with one write policy.",
            study.repeats
        )
    });
    measures.chain(arrays).chain(simulations).chain(repeats).chain([seed]).collect()
}

/// On what it was done: names and values.
pub fn setup(environment: &Environment) -> Vec<(String, String)> {
    let mut rows = vec![
        ("raidlab", environment.raidlab_version.clone()),
        ("kernel", environment.kernel.clone()),
        ("processor", environment.cpu_model.clone().unwrap_or_else(|| "not told by the kernel".into())),
    ];
    // Of runs that were measured elsewhere neither is known.
    if environment.cpus > 0 {
        rows.push(("processors", environment.cpus.to_string()));
        rows.push(("memory", ByteCount(environment.memory_bytes).to_string()));
    }
    if let Some(filesystem) = &environment.filesystem {
        rows.push(("filesystem", format!("{} on {}", filesystem.kind, filesystem.source)));
        rows.push(("mount options", filesystem.options.clone()));
    }
    if let Some(device) = &environment.device {
        rows.push(("device", device.name.clone()));
        let told = [
            ("scheduler", device.scheduler.clone()),
            ("rotational", device.rotational.map(|turns| if turns { "yes" } else { "no" }.to_owned())),
            ("device write cache", device.write_cache.clone()),
            ("device model", device.model.clone()),
            ("device queue depth", device.queue_depth.map(|depth| depth.to_string())),
            ("kernel queue", device.nr_requests.map(|requests| format!("{requests} requests"))),
            ("kernel read-ahead", device.read_ahead_bytes.map(|bytes| ByteCount(bytes).to_string())),
        ];
        rows.extend(told.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a reader must know before trusting the figures.
pub fn warnings(outcome: &StudyOutcome) -> Vec<String> {
    let (finished, planned) = (outcome.results.len(), outcome.planned);
    let stopped = (!outcome.complete)
        .then(|| format!("This study was stopped: {finished} of {planned} runs are finished."));
    stopped.into_iter().chain(RunResult::doubts_of(&outcome.results)).collect()
}

/// What a reader may want to know as well.
pub fn notes(study: &Study) -> Vec<String> {
    let software = study.arrays.iter().flat_map(|section| &section.arrays).map(|array| &array.config);
    let modelled = study.simulations.iter().flat_map(|section| &section.arrays).map(|array| &array.config);
    let mut notes = Vec::new();
    let mut mirrors: Vec<u16> = software
        .clone()
        .chain(modelled.clone())
        .filter(|config| is_wide_mirror(config))
        .map(|config| config.members)
        .collect();
    mirrors.sort_unstable();
    mirrors.dedup();
    for members in mirrors {
        notes
            .push(format!("RAID 1 over {members} members is a mirror of {members}: all hold the same data."));
    }
    if software.clone().any(|config| config.member_cache == MemberCache::On) {
        notes.push(
            "Real arrays ran with disk cache on: a finished member write may lie in the volatile cache of the \
             device under the file until a flush, as in the bare measurement."
                .into(),
        );
    }
    if !study.measures.is_empty()
        && software.clone().any(|config| config.cache.read_policy != ReadPolicy::NoReadAhead)
    {
        notes.push(
            "The arrays' controller reads ahead of sequential hosts, as hardware controllers do; the bare measurement \
             does not. At low iodepths that, and not the level, is why arrays stream faster than the storage below."
                .into(),
        );
    }
    if software.count() > 0 && modelled.count() > 0 {
        notes.push(
            "Measured arrays share one device under their member files; simulated members are drives of their own. \
             Compare levels within a side, not one side with the other."
                .into(),
        );
    }
    notes
}

fn is_wide_mirror(config: &ArrayConfig) -> bool {
    config.level.level == Level::Raid1 && config.members > 2
}

fn measure_paragraph(section: &MeasureSection) -> String {
    let what = if section.is_there {
        section.path.display().to_string()
    } else if section.load.accelerators_alone().is_some() {
        format!("through sample files of {} together in {}", section.size, section.path.display())
    } else {
        format!("through a test file of {} at {}", section.size, section.path.display())
    };
    format!(
        "Measured: the storage as it is, {what}, {}; {}.",
        if section.direct { "past the page cache (O_DIRECT, io_uring)" } else { "through the page cache" },
        load_clause(&section.load)
    )
}

/// `a, b`.
pub(crate) fn folders_text(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn array_paragraph(section: &ArraySection) -> String {
    let shapes = shapes_clause(section.arrays.iter().map(|array| &array.config));
    let region = section.region.map_or("the whole volume".to_owned(), |region| format!("the first {region}"));
    format!(
        "Measured arrays: {shapes}, over member files in {}, through raidlab's controller, direct I/O on io_uring; \
         requests fall into {region}; {}.",
        folders_text(&section.directories),
        load_clause(&section.load)
    )
}

fn simulate_paragraph(section: &SimulateSection) -> String {
    let shapes = shapes_clause(section.arrays.iter().map(|array| &array.config));
    let hardware = section.arrays.first().map_or(String::new(), |array| {
        format!(
            ", on {} behind {}, requests in the first {}{}",
            array.parts.drive,
            array.parts.controller,
            array.region,
            controllers_clause(array)
        )
    });
    format!(
        "Simulated arrays: {shapes}{hardware}, through the same controller code in virtual time; {}.",
        load_clause(&section.load)
    )
}

/// `` of each of 4 volumes on two controllers, mirrored``; nothing where one of each is all there is.
fn controllers_clause(array: &ModelledArray) -> String {
    let Some(controllers) = &array.controllers else { return String::new() };
    let count = if controllers.second.is_some() { "two controllers" } else { "one controller" };
    let mirrored = if array.config.cache.mirror { ", mirrored" } else { "" };
    let failure = controllers.second.and_then(|second| second.failure);
    let failure = failure.map_or_else(String::new, |(controller, after)| {
        format!(", of which {controller} fails {after} into each window")
    });
    format!(" of each of {} volumes on {count}{mirrored}{failure}", array.volume_count())
}

/// `RAID 0, 5 over 6 members with strips of 64 KiB, write-through and write-back`.
fn shapes_clause<'a>(configs: impl Iterator<Item = &'a ArrayConfig> + Clone) -> String {
    let Some(first) = configs.clone().next() else { return "none".into() };
    let mut levels: Vec<String> = configs.clone().map(|config| config.level.to_string()).collect();
    levels.dedup();
    let mut policies: Vec<&str> = Vec::new();
    for policy in configs.map(|config| config.cache.write_policy.name()) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    format!(
        "RAID {} over {} members with strips of {}, {}",
        levels.join(", "),
        first.members,
        first.strip_size,
        policies.join(" and ")
    )
}

/// The load in a sentence.
pub fn load(load: &LoadPlan) -> String {
    format!("Load: {}.", load_clause(load))
}

fn load_clause(load: &LoadPlan) -> String {
    let rate = |workload: &Workload| match workload.spec.pacing {
        Pacing::Open(arrivals) => Some(arrivals.rate.per_second().to_string()),
        Pacing::Closed(_) => None,
    };
    let depths: Vec<String> = load.iodepths.iter().map(u32::to_string).collect();
    let loads = match load.workloads.iter().map(rate).collect::<Option<BTreeSet<String>>>() {
        Some(rates) => format!("{} requests/s", Vec::from_iter(rates).join(", ")),
        None => format!("iodepths {}", depths.join(", ")),
    };
    format!(
        "{} at {loads}, {} after a ramp of {}{}",
        workload_names(load),
        if load.run == RUN_TO_THE_END { "to the end of the trace".to_owned() } else { load.run.to_string() },
        load.ramp,
        if load.settles {
            " at least, longer where it takes a write cache longer to get into its steady state"
        } else {
            ""
        }
    )
}

fn workload_names(load: &LoadPlan) -> String {
    load.workloads.iter().map(Workload::name).collect::<Vec<_>>().join(", ")
}

/// What was found of a highest load, in sentences with the arithmetic.
pub fn found_load(found: &FoundLoad) -> Vec<String> {
    let unit = |load: u32| match found.unit {
        LoadUnit::Iodepth => format!("iodepth {load}"),
        LoadUnit::RequestsPerSec => format!("{load} requests/s"),
    };
    let (workload, target, bound) = (&found.workload, &found.target, &found.bound);
    let head = match found.certainty {
        Certainty::NoneKeeps => {
            let keeps_once = |below: &&Repeats| {
                let mut points = found.points.iter();
                points.any(|point| point.iodepth < below.load && point.bounded_ns <= found.bound_ns)
            };
            let (which, lowest) = match found.repeats.first().filter(keeps_once) {
                Some(repeats) => ("repeated (a single run at a lower one did)", repeats.load),
                None => ("tried", found.load),
            };
            format!(
                "{workload} on {target} keeps {bound} at no load that was {which}, down to {}",
                unit(lowest)
            )
        }
        Certainty::Sure => {
            format!("{workload} on {target} keeps {bound} up to {}, at 95 % confidence", unit(found.load))
        }
        Certainty::Likely => {
            format!(
                "{workload} on {target} likely keeps {bound} up to {}; repeats do not make it sure",
                unit(found.load)
            )
        }
    };
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let repeats = found.repeats.iter().map(|repeats| {
        let half = repeats.bounded_ns_half_width.map_or_else(String::new, |half| format!(" ± {}", ms(half)));
        format!(
            "at {}: {} repeats, {}{half} (95 % by Student's t), {} of them within the bound; {:.1} IOPS",
            unit(repeats.load),
            repeats.bounded_ns.len(),
            ms(repeats.bounded_ns_mean),
            repeats.kept,
            repeats.iops_mean
        )
    });
    let rate = format!(
        "read off at the bound: {:.1} IOPS, {:.1} MB/s; {} loads tried",
        found.iops_at_bound,
        found.bytes_per_sec_at_bound / 1e6,
        found.points.len()
    );
    [head].into_iter().chain(repeats).chain([rate]).collect()
}

/// What came of rounds, in sentences with the arithmetic.
pub fn steady_rounds(rounds: &SteadyRounds) -> Vec<String> {
    let (workload, depth, count) = (&rounds.workload, rounds.iodepth, rounds.values.len());
    let head = if rounds.is_steady() {
        format!("{workload} at iodepth {depth} is steady after {count} rounds")
    } else {
        format!("{workload} at iodepth {depth} is NOT steady after {count} rounds")
    };
    let window = rounds.window.as_ref().map(|window| window.arithmetic(rounds.metric.unit()));
    [head].into_iter().chain(window).collect()
}
