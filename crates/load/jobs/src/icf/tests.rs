//! Configuration files of several versions and their meaning.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

/// A file with the parts that matter, as Iometer writes them.
fn text(version: &str, kind: &str, specs: &str, workers: &str) -> String {
    format!(
        "Version {version} \n'TEST SETUP ====\n'Test Description\n\tmine\n'Run Time\n'\thours      minutes    seconds\n\
         \t0          1          30\n'Ramp Up Time (s)\n\t5\n'Default Disk Workers to Spawn\n\tNUMBER_OF_CPUS\n'Record Results\n\
         \tALL\n'Worker Cycling\n'\tstart      step       step type\n\t1          2          LINEAR\n'Disk Cycling\n\
         '\tstart      step       step type\n\t1          1          LINEAR\n'Queue Depth Cycling\n\
         '\tstart      end        step       step type\n\t1          64         4          EXPONENTIAL\n'Test Type\n\t{kind}\n\
         'END test setup\n'RESULTS DISPLAY ====\n'Record Last Update Results,Update Frequency,Update Type\n\
         \tDISABLED,1,LAST_UPDATE\n'END results display\n'ACCESS SPECIFICATIONS ====\n{specs}'END access specifications\n\
         'MANAGER LIST ====\n'Manager ID, manager name\n\t1,HOST\n'Manager network address\n\t\n{workers}'End manager\n\
         'END manager list\nVersion {version} \n"
    )
}

fn spec(name: &str, lines: &str) -> String {
    format!(
        "'Access specification name,default assignment\n\t{name},NONE\n\
         'size,% of size,% reads,% random,delay,burst,align,reply\n{lines}"
    )
}

fn worker(name: &str, outstanding: u32, size: &str, specs: &str, targets: &[&str]) -> String {
    let target = |target: &&str| format!("'Target\n\t{target}\n'Target type\n\tDISK\n'End target\n");
    let targets: String = targets.iter().map(target).collect();
    format!(
        "'Worker\n\t{name}\n'Worker type\n\tDISK\n'Default target settings for worker\n\
         'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value\n\
         \t{outstanding},DISABLED,1,ENABLED,77\n'Disk maximum size,starting sector,Data pattern\n\t{size}\n\
         'End default target settings for worker\n'Assigned access specs\n{specs}'End assigned access specs\n\
         'Target assignments\n{targets}'End target assignments\n'End worker\n"
    )
}

fn import(text: &str) -> Import {
    import_icf("dir/mine.icf", text).unwrap_or_else(|error| panic!("{error}"))
}

const MIX: &str = "\t8192,70,67,100,0,1,0,0\n\t65536,30,100,0,20,4,65536,0\n";

#[test]
fn workers_on_disks_of_their_own_are_not_folded_into_one() {
    let specs = spec("a", "\t32768,100,100,0,0,1,0,0\n") + &spec("b", "\t8192,100,65,60,0,1,0,0\n");
    let file = |second: &str| {
        let workers = worker("Worker 1", 64, "8000000,0,0", "\ta\n", &["D: \"one\""])
            + &worker("Worker 2", 64, "8000000,0,0", &format!("\t{second}\n"), &["E: \"two\""]);
        text("2006.07.27", "NORMAL", &specs, &workers)
    };
    let Import { steps, notes, .. } = import(&file("b"));
    let parts: Vec<_> = steps[0].workload.spec.parts.iter().collect();
    let told: Vec<_> =
        parts.iter().map(|it| (it.name.as_str(), it.target.map(NonZeroU32::get), it.iodepth)).collect();
    assert_eq!(told, [("worker-1", Some(1), Some(64)), ("worker-2", Some(2), Some(64))]);
    assert_eq!(steps[0].run.targets, ["TARGET-1", "TARGET-2"]);
    assert!(notes.iter().any(|note| note.starts_with("TARGET-2 is E: \"two\"")), "{notes:?}");
    // One that works on both beside one that works on the second.
    let workers = worker("Worker 1", 8, "0,0,0", "\ta\n", &["D:", "E:"])
        + &worker("Worker 2", 4, "0,0,0", "\tb\n", &["E:"]);
    let step = import(&text("2006.07.27", "NORMAL", &specs, &workers)).steps.remove(0);
    let told: Vec<_> = step
        .workload
        .spec
        .parts
        .iter()
        .map(|it| (it.name.as_str(), it.target.map(NonZeroU32::get), it.iodepth))
        .collect();
    let expected =
        [("worker-1", Some(1), Some(8)), ("worker-1-2", Some(2), Some(8)), ("worker-2", Some(2), Some(4))];
    assert_eq!(told, expected, "each target has the outstanding I/Os of a worker");
    let Import { steps, notes, .. } = import(&file("a"));
    assert_eq!(
        (steps[0].run.iodepths.as_slice(), steps[0].workload.spec.parts.len()),
        (&[64][..], 0),
        "at each of the two"
    );
    assert!(notes.iter().any(|note| note.contains("on targets of their own")), "{notes:?}");
}

#[test]
fn both_kinds_of_version_have_all_columns_and_settings() {
    let workers = worker("Worker 1", 16, "2048,64,0", "\tOLTP; mine\n", &["D: \"data\""]);
    for version in ["2006.07.27", "1.1.0", "1998.10.08", "1.1.0-rc1"] {
        let Import { steps, notes, .. } =
            import(&text(version, "NORMAL", &spec("OLTP; mine", MIX), &workers));
        let [Step { workload, run }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((workload.name(), workload.title.as_str()), ("oltp-mine", "OLTP; mine"), "{version}");
        let first = AccessLine { share_pct: 70, align_bytes: Some(0), ..AccessLine::plain(8192, 67, 100) };
        let delay = NanoSpan::from_millis(20);
        let second = AccessLine { share_pct: 30, burst: 4, delay, ..AccessLine::plain(65_536, 100, 0) };
        assert_eq!(workload.spec.lines, [first, second]);
        let places = &workload.spec.places;
        assert_eq!((places.start, places.size), (ByteCount(64 * 512), Some(ByteCount::from_mib(1))));
        assert_eq!((run.run, run.ramp), (Some(NanoSpan::from_secs(90)), Some(NanoSpan::from_secs(5))));
        assert_eq!((run.iodepths.as_slice(), run.seed), (&[16][..], Some(77)));
        assert_eq!(notes, ["Worker 1 works on D: \"data\": name the targets of this machine."]);
    }
}

/// Two of three workers have the same target: no number of requests in flight is right for all.
#[test]
fn workers_that_overlap_are_parts() {
    let specs = spec("random", "\t4096,100,100,100,0,1,4096,0\n");
    let workers = worker("W1", 16, "0,0,0", "\trandom\n", &["P1", "P2"])
        + &worker("W2", 16, "0,0,0", "\trandom\n", &["P2", "P3"]);
    let file = |kind: &str| text("2006.07.27", kind, &specs, &workers);
    let step = import(&file("NORMAL")).steps.remove(0);
    let told: Vec<_> =
        step.workload.spec.parts.iter().map(|it| (it.target.map(NonZeroU32::get), it.iodepth)).collect();
    assert_eq!(told, [1, 2, 2, 3].map(|target| (Some(target), Some(16))));
    let apart =
        worker("W1", 16, "0,0,0", "\trandom\n", &["P1"]) + &worker("W2", 16, "0,0,0", "\trandom\n", &["P2"]);
    let error =
        import_icf("a.icf", &text("2006.07.27", "CYCLE_WORKERS", &specs, &apart)).unwrap_err().to_string();
    assert!(error.contains("workers are cycled that have targets of their own"), "{error}");
}

/// A worker behind the end was left out in silence.
#[test]
fn a_file_that_is_cut_off_is_refused() {
    let workers: String =
        (1..=2).map(|number| worker(&format!("W{number}"), 2, "0,0,0", "\tOLTP\n", &["D:"])).collect();
    let whole = text("2006.07.27", "NORMAL", &spec("OLTP", MIX), &workers);
    let cut = &whole[..whole.find("'END manager list").unwrap()];
    let error = import_icf("a.icf", cut).unwrap_err().to_string();
    assert!(error.contains("the file ends before 'END manager list: it is cut off"), "{error}");
}

#[test]
fn cycling_becomes_a_sweep() {
    let specs = spec("random", "\t4096,100,100,100,0,1,4096,0\n");
    let workers: String = (1..=5)
        .map(|number| worker(&format!("W{number}"), 2, "0,0,0", "\trandom\n", &["D:", "E:"]))
        .collect();
    let rows = [
        ("NORMAL", vec![10]),
        // Five workers: at each target five times the outstanding I/Os, which go 1, 4, 16, 64.
        ("CYCLE_OUTSTANDING_IOS", vec![5, 20, 80, 320]),
        // One, three and five workers with two I/Os on each target.
        ("CYCLE_WORKERS", vec![2, 6, 10]),
        ("CYCLE_TARGETS", vec![10]),
    ];
    for (kind, expected) in rows {
        let Import { steps, notes, .. } = import(&text("1.1.0", kind, &specs, &workers));
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].run.iodepths, expected, "{kind}");
        assert_eq!(
            notes.iter().any(|note| note.starts_with("Targets are cycled from 1, plus 1")),
            kind == "CYCLE_TARGETS"
        );
    }
    // Three workers of which two are at each target: the first alone has its two I/Os there, which were taken for one.
    let workers: String = ["D:E:", "E:F:", "F:D:"]
        .map(|targets| worker(&targets[..1], 2, "0,0,0", "\trandom\n", &[&targets[..2], &targets[2..]]))
        .concat();
    let steps = import(&text("1.1.0", "CYCLE_WORKERS", &specs, &workers)).steps;
    assert_eq!(steps[0].run.iodepths, [2, 4]);
}

#[test]
fn each_round_of_assigned_specifications_is_a_step_and_workers_that_differ_are_parts() {
    let specs = spec("read", "\t65536,100,100,0,0,1,65536,0\n") + &spec("log", "\t8192,100,0,0,0,1,8192,0\n");
    let workers = worker("Worker 1", 8, "0,0,0", "\tread\n\tIdle\n\tread\n", &["D:"])
        + &worker("Worker 2", 4, "0,0,0", "\tlog\n\tIdle\n\tIdle\n", &["D:"]);
    let steps = import(&text("2006.07.27", "NORMAL", &specs, &workers)).steps;
    assert_eq!(steps.len(), 2, "a round in which all are idle is none");
    let parts: Vec<(&str, Option<u32>, u32)> = steps[0]
        .workload
        .spec
        .parts
        .iter()
        .map(|part| (part.name.as_str(), part.iodepth, part.lines[0].bytes))
        .collect();
    assert_eq!(parts, [("worker-1", Some(8), 65_536), ("worker-2", Some(4), 8192)]);
    assert_eq!((steps[1].workload.name(), steps[1].run.iodepths.as_slice()), ("read-2", &[8][..]));
}

#[test]
fn old_specifications_have_no_names_and_no_alignment() {
    let specs = "'size, % of size, % reads, % random, delay, burst\n2048 60 67 100 0 1\n512 40 0 0 5 2\n4096 100 100 100 0 1\n";
    let Import { steps, notes, .. } = import(&text("1998.02.01", "NORMAL", specs, ""));
    let names: Vec<&str> = steps.iter().map(|step| step.workload.name()).collect();
    assert_eq!(names, ["specification-1", "4-kib-100-read-100-random"]);
    assert_eq!(steps[0].workload.spec.lines.len(), 2);
    assert_eq!(steps[0].workload.spec.lines[0].align_bytes, Some(0));
    assert_eq!(notes, ["No worker has an access specification assigned: all of them are imported."]);
}

#[test]
fn workers_run_all_specifications_that_have_no_names() {
    let specs =
        "'size, % of size, % reads, % random, delay, burst\n 512 100 100 0 0 1\n 2048 100 67 100 0 1\n";
    // The second worker of the file names one as Iometer would, the first as no version does.
    for (assigned, expected) in [
        ("\tmine\n", &["512-b-100-read-0-random", "2-kib-67-read-100-random"][..]),
        ("\t2 KiB; 67% Read; 100% random\n", &["2-kib-67-read-100-random"]),
    ] {
        let workers = worker("W", 3, "0,0", assigned, &["D:"]);
        let Import { steps, .. } = import(&text("1998.02.01", "NORMAL", specs, &workers));
        let names: Vec<&str> = steps.iter().map(|step| step.workload.name()).collect();
        assert_eq!(names, expected);
        assert!(steps.iter().all(|step| step.run.iodepths == [3]));
    }
}

#[test]
fn a_file_of_an_old_version_may_have_named_specifications() {
    // Such a file was carried on by later versions, which kept its number.
    for version in ["3.26.97", "1998.02.01", "1.1.0"] {
        let workers = worker("W", 1, "0,0", "\tOLTP\n", &["D:"]);
        let Import { steps, .. } =
            import(&text(version, "NORMAL", &format!("\n{}", spec("OLTP", MIX)), &workers));
        assert_eq!(steps[0].workload.name(), "oltp", "{version}");
        assert_eq!(steps[0].workload.spec.lines.len(), 2);
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let workers = worker("W", 1, "0,0,0", "\tgone\n", &["D:"]);
    let rows = [
        (String::new(), "mine.icf: the file begins with its version, such as 'Version 1.1.0': add it"),
        ("hello\n".into(), "mine.icf:1: the file begins with its version, such as 'Version 1.1.0': add it"),
        ("Version 1.1.0\n".into(), "mine.icf: no access specification: there is nothing to import"),
        (
            text("1.1.0", "NORMAL", &spec("a", "\t4096,100,100\n"), ""),
            "mine.icf:34: '4096,100,100' holds fewer than 8 whole numbers: mend it",
        ),
        (
            text("1.1.0", "NORMAL", &spec("a", "\t4096,90,100,0,0,1,0,0\n"), ""),
            "mine.icf:31: the shares of workload 'a' add up to 90 percent: make them 100",
        ),
        (
            text("1.1.0", "NORMAL", &spec("a", "\t4096,100,101,0,0,1,0,0\n"), ""),
            "mine.icf:34: 101 is no percentage: write 0 to 100",
        ),
        (
            text("1.1.0", "NORMAL", &spec("a", MIX), &workers),
            "mine.icf:53: there is no access specification 'gone': add it or take it off the worker",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(import_icf("mine.icf", &text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn no_change_of_a_good_file_panics_and_what_is_imported_reads_back() {
    let read_back = Cell::new(0);
    proptest!(|(
        changes in proptest::collection::vec((0usize..80, prop_oneof!["'?[ -~]{0,20}", "[0-9]{1,22}(,[0-9]{1,22}){0,8}", Just(String::new())]), 0..6),
        kind in prop::sample::select(vec!["NORMAL", "CYCLE_WORKERS", "CYCLE_OUTSTANDING_IOS", "CYCLE_TARGETS", "?"]),
    )| {
        let workers = worker("Worker 1", 16, "2048,64,0", "\tb\n\ta\n", &["D:", "E:"]) + &worker("Worker 2", 1, "0,0,0", "\ta\n", &[]);
        let good = text("1.1.0", kind, &(spec("a", MIX) + &spec("b", MIX)), &workers);
        let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
        for (at, line) in changes {
            let at = at % lines.len();
            lines[at] = line;
        }
        if let Ok(import) = import_icf("any", &lines.join("\n")) {
            for step in import.steps {
                let text = step.workload.to_toml();
                let read = Workload::from_toml("any.toml", &text);
                prop_assert_eq!(read.as_ref().map_err(ToString::to_string), Ok(&step.workload), "{}", text);
                read_back.set(read_back.get() + 1);
            }
        }
    });
    assert!(read_back.get() >= 100, "{} workloads were read back", read_back.get());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        drop(import_icf("any", &text));
        drop(import_icf("any", &format!("Version 1.1.0\n'ACCESS SPECIFICATIONS\n{text}")));
    }
}
