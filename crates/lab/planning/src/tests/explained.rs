//! Causes that were planted in runs must be found, and what can't be told apart must be said.

use crate::{Cause, Explanation, Finding, OwnHardware, Prediction, explain};
use raidlab_hardware::Catalog;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, Metric, RunResult, Workload, World};
use raidlab_worlds::simulated::run_simulated;
use raidlab_worlds::{ArrayFile, Assumption, Load, ScaledModels};

fn workload(name: &str, line: AccessLine) -> Workload {
    Workload {
        title: name.into(),
        source: String::new(),
        metric: Metric::Iops,
        notes: String::new(),
        block_bytes_published: Vec::new(),
        spec: AccessSpec::new(name, vec![line]),
    }
}

fn load(line: AccessLine, iodepth: u32) -> Load {
    Load {
        workload: workload("asked", line),
        iodepth,
        workers: 1,
        ramp: NanoSpan::from_millis(200),
        run: NanoSpan::from_secs(4),
        seed: 1,
        once: false,
        settles: false,
    }
}

fn disks() -> ArrayFile {
    let array = ArrayFile::new("10".parse().expect("a level"), 4, "st3600057ss", "perc-h800");
    ArrayFile { write_policy: Some(raidlab_controller::WritePolicy::WriteThrough), ..array }
}

fn flash() -> ArrayFile {
    let array = ArrayFile::new("0".parse().expect("a level"), 2, "pliant-lb150", "perc-h800");
    ArrayFile { write_policy: Some(raidlab_controller::WritePolicy::WriteThrough), ..array }
}

/// A run of `load` on `array` as a real one would be, of parts of which one takes so many times as long.
fn run(array: &ArrayFile, load: &Load, (part, times): (Assumption, f64)) -> RunResult {
    let catalog = Catalog::builtin();
    let (models, modelled) = array.resolve(&catalog).expect("it can be");
    let models = ScaledModels::of(&models, part, times);
    // Another seed: nobody's requests go to the same places.
    let load = Load { seed: 77, ..load.clone() };
    let run = run_simulated(&models.models(), &modelled, &load).expect("it runs");
    RunResult { world: World::Measured, ..run }
}

fn explained(array: &ArrayFile, predicted: &[Load], measured: &[RunResult]) -> Explanation {
    let prediction = Prediction::new(array.clone(), predicted, OwnHardware::default());
    let text = serde_json::to_string(&prediction).expect("it is text");
    let again: Prediction = serde_json::from_str(&text).expect("it reads back");
    assert_eq!(again, prediction);
    explain(&again, &[], measured, None, &mut |_| {}).expect("it can be simulated again")
}

const AS_IS: (Assumption, f64) = (Assumption::Drive, 1.0);

#[test]
fn slow_drives_are_found_and_by_how_much() {
    let load = load(AccessLine::plain(8192, 70, 100), 16);
    let found =
        explained(&disks(), std::slice::from_ref(&load), &[run(&disks(), &load, (Assumption::Drive, 1.7))]);
    assert_eq!((found.finding, &found.causes[..]), (Finding::One, &[Cause::Drive][..]), "{found:#?}");
    let times = found.trials[0].times.expect("it is a part");
    assert!(
        (times / 1.7).ln().abs() < 0.06 && found.off_pct > 40.0 && found.trials[0].off_pct < 4.0,
        "{found:#?}"
    );
}

/// Nothing that is searched is a hundred times as slow: what was found last is the end of the search, and is told as that.
#[test]
fn an_end_of_the_search_is_said() {
    let load = load(AccessLine::plain(8192, 100, 100), 16);
    let found =
        explained(&disks(), std::slice::from_ref(&load), &[run(&disks(), &load, (Assumption::Drive, 100.0))]);
    let drive = found.trial(Cause::Drive).expect("it was tried");
    assert!(drive.at_bound && !drive.explains && drive.times.is_some_and(|it| it > 15.0), "{found:#?}");
}

/// Long reads are slow, and short ones hardly: drives that are slow would be so for both. Of the long ones alone nobody knows.
#[test]
fn a_slow_link_is_found_by_runs_of_two_sizes() {
    let long = load(AccessLine::plain(1 << 20, 100, 0), 8);
    let short = Load { workload: workload("short", AccessLine::plain(4096, 100, 100)), ..long.clone() };
    let loads = [long, short];
    let runs = loads.each_ref().map(|load| run(&flash(), load, (Assumption::Link, 4.0)));
    let found = explained(&flash(), &loads, &runs);
    assert_eq!((found.finding, &found.causes[..]), (Finding::One, &[Cause::Link][..]), "{found:#?}");
    assert!((found.trials[0].times.expect("it is a part") / 4.0).ln().abs() < 0.06, "{found:#?}");

    let found = explained(&flash(), &loads[..1], &runs[..1]);
    assert_eq!(found.finding, Finding::Several, "{found:#?}");
    assert!(found.causes.contains(&Cause::Link), "{found:#?}");
}

#[test]
fn another_workload_is_a_cause_and_not_the_hardware() {
    let asked = load(AccessLine::plain(8192, 100, 100), 16);
    let done = load(AccessLine::plain(8192, 30, 100), 16);
    let found = explained(&disks(), std::slice::from_ref(&asked), &[run(&disks(), &done, AS_IS)]);
    assert_eq!((found.finding, &found.causes[..]), (Finding::One, &[Cause::Workload][..]), "{found:#?}");
    let reads = found.runs[0].asked.iter().find(|it| it.name == "read_pct").expect("it is known");
    assert!(reads.differs && reads.predicted == Some(100.0), "{reads:?}");

    // Both: the workload is a fact, and what it leaves is the drives'.
    let found =
        explained(&disks(), std::slice::from_ref(&asked), &[run(&disks(), &done, (Assumption::Drive, 2.0))]);
    assert_eq!(found.causes, [Cause::Workload, Cause::Drive], "{found:#?}");
}

#[test]
fn what_was_predicted_well_is_left_alone() {
    let load = load(AccessLine::plain(8192, 70, 100), 16);
    let found = explained(&disks(), std::slice::from_ref(&load), &[run(&disks(), &load, AS_IS)]);
    assert_eq!(
        (found.finding, found.causes.len(), found.trials.len()),
        (Finding::Agrees, 0, 0),
        "{found:#?}"
    );
}

/// One read at a time, all of one length: some more microseconds may be anybody's.
#[test]
fn what_runs_can_not_tell_apart_is_said() {
    let load = load(AccessLine::plain(4096, 100, 100), 1);
    let found =
        explained(&flash(), std::slice::from_ref(&load), &[run(&flash(), &load, (Assumption::Host, 2.0))]);
    assert_eq!(found.finding, Finding::Several, "{found:#?}");
    assert!(found.causes.contains(&Cause::Host), "{found:#?}");
}

/// A run that does not say what it asked for is taken by what it did; its region and its load count.
#[test]
fn a_run_without_lines_is_compared_by_what_it_did() {
    let asked = load(AccessLine::plain(8192, 100, 100), 16);
    let small = ArrayFile { region: Some(ByteCount::from_gib(1)), ..disks() };
    let mut measured = run(&small, &load(AccessLine::plain(4096, 100, 100), 4), AS_IS);
    measured.lines.clear();
    let found = explained(&disks(), std::slice::from_ref(&asked), &[measured]);
    assert_eq!((found.finding, &found.causes[..]), (Finding::One, &[Cause::Workload][..]), "{found:#?}");
    assert!(found.notes.iter().any(|note| note.contains("does not say which requests")), "{found:#?}");
}
