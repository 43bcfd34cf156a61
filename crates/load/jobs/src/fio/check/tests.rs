//! Logs that agree with the driver, and such as differ in one thing each.

use super::super::Surroundings;
use super::{Checked, TrialLog, fio_trial};

fn checked(job: &str, log: &str) -> Vec<Checked> {
    let trial = fio_trial("a.fio", job, Surroundings::NONE, "/logs").expect("it can be imported");
    trial.compare(&[TrialLog { text: Some(log.to_owned()) }])
}

fn log(requests: &[(&str, u64, u64)]) -> String {
    let line = |(action, offset, bytes): &(&str, u64, u64)| {
        format!("1 raidlab-job-0.0.0 {action} {offset} {bytes}\n")
    };
    "fio version 3 iolog\n1 raidlab-job-0.0.0 add\n2 raidlab-job-0.0.0 open\n".to_owned()
        + &requests.iter().map(line).collect::<String>()
}

#[test]
fn a_job_for_fio_opens_nothing_and_asks_the_same() {
    let text = "[global]\nfilename=/dev/sda\nruntime=60\nrate_iops=5\n[a]\nrw=read\nbs=4k ; four\nsize=1m\nioengine=libaio\n\
                [b]\nstonewall\nrw=randread\nsize=50%\nnumber_ios=7\n";
    let trial = fio_trial("a.fio", text, Surroundings::NONE, "/logs").expect("it can be imported");
    let expected = "[global]\n[a]\nrw=read\nbs=4k ; four\nsize=1m\nthread\nioengine=null\nwrite_iolog=/logs/0\n\
                    filename_format=raidlab-job-0.$jobnum.$filenum\n[b]\nstonewall\nrw=randread\nsize=50%\nnumber_ios=7\n\
                    thread\nioengine=null\nwrite_iolog=/logs/1\nfilename_format=raidlab-job-1.$jobnum.$filenum\nfilesize=16777216\n";
    assert_eq!((trial.job_file.as_str(), trial.logs()), (expected, 2));
}

/// Where a file is named, fio has that one, whatever `nrfiles` says; the trial has names of its own.
#[test]
fn a_number_of_files_does_not_count_beside_a_name() {
    let text = "[a]\nfilename=f\nnrfiles=4\nsize=1m\n";
    let trial = fio_trial("a.fio", text, Surroundings::NONE, "/logs").expect("it can be imported");
    assert!(!trial.job_file.contains("nrfiles"), "{}", trial.job_file);
}

/// Without a map fio ends when all bytes of the size are moved, and not with the last whole request.
#[test]
fn drawn_places_move_all_of_the_size() {
    let requests = |keys: &str| {
        let job = format!("[a]\nrw=randread\nbs=3000\nsize=16k\n{keys}\n");
        checked(&job, &log(&[("read", 0, 3000)]))[0].differs.clone().expect("one is too few")
    };
    assert!(requests("norandommap").contains("and this 6 of"), "{}", requests("norandommap"));
    assert!(requests("").contains("and this 5 of"), "{}", requests(""));
}

/// Of clones, which share a log, 150 requests are compared, and they were taken for all.
#[test]
fn how_many_requests_are_compared_of_how_many_is_told() {
    let requests: Vec<(&str, u64, u64)> = (0..150).map(|at| ("read", at * 4096, 4096)).collect();
    let of = |keys: &str| {
        let it = &checked(&format!("[a]\nrw=read\nbs=4k\nsize=4m\n{keys}\n"), &log(&requests))[0];
        (it.requests, it.requests_of_job, it.differs.is_none())
    };
    assert_eq!(of("numjobs=2"), (150, 1024, true));
    assert_eq!(of("numjobs=2\nnumber_ios=200"), (150, 200, true));
    assert_eq!(of("number_ios=150"), (150, 150, true));
    let split = &checked("[a]\nrw=read\nbssplit=4k/1:64k/99\nsize=64k\n", &log(&[("read", 0, 65_536)]))[0];
    assert_eq!((split.requests, split.requests_of_job), (1, 1), "all that it makes");
}

#[test]
fn each_difference_is_told_with_the_line() {
    let job = "# a comment\n[a]\nrw=read\nbs=64k\nsize=256k\n";
    let whole =
        [("read", 0, 65_536), ("read", 65_536, 65_536), ("read", 131_072, 65_536), ("read", 196_608, 65_536)];
    assert_eq!(checked(job, &log(&whole))[0].differs, None);
    let changed = |at: usize, to: (&'static str, u64, u64)| {
        let mut requests = whole;
        requests[at] = to;
        checked(job, &log(&requests))[0].differs.clone().expect("it differs")
    };
    assert!(changed(1, ("read", 69_632, 65_536)).contains("a.fio:2: a: "), "with the line");
    let moved = whole.map(|(action, offset, bytes)| (action, offset + 65_536, bytes));
    let rows = [
        (checked(job, &log(&whole[..3]))[0].differs.clone().expect("it differs"), "fio makes 3 requests"),
        (
            changed(0, ("write", 0, 65_536)),
            "request 1 of fio writes 65536 bytes at byte 0, and this only reads",
        ),
        (changed(3, ("read", 0, 65_536)), "request 4 of fio is at byte 0, and here at 196608"),
        (
            checked(job, &log(&moved))[0].differs.clone().expect("it differs"),
            "request 4 of fio reads 65536 bytes at byte 262144, and this stays in bytes 0 to 262144",
        ),
        (checked(job, "")[0].differs.clone().expect("it differs"), "fio made no requests"),
    ];
    for (text, expected) in rows {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// Offsets in a log are those in a file, and the files take turns.
#[test]
fn requests_of_several_files_are_compared_file_by_file() {
    let job = "[a]\nrw=read\nbs=4k\nsize=32k\nnrfiles=4\n";
    let trial = fio_trial("a.fio", job, Surroundings::NONE, "/logs").expect("it can be imported");
    assert!(trial.job_file.contains("nrfiles=4\n"), "{}", trial.job_file);
    let logged = |requests: &[(u32, u64)]| {
        let line = |(file, offset): &(u32, u64)| format!("1 raidlab-job-0.0.{file} read {offset} 4096\n");
        let text = "fio version 3 iolog\n".to_owned() + &requests.iter().map(line).collect::<String>();
        checked(job, &text)[0].differs.clone()
    };
    let whole = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 4096), (1, 4096), (2, 4096), (3, 4096)];
    assert_eq!(logged(&whole), None);
    let mut other = whole;
    other.swap(4, 5);
    assert!(
        logged(&other).is_some_and(|told| told.contains("request 5 of fio is of file 1, and here of file 0"))
    );
    let mut other = whole;
    other[2].1 = 4096;
    assert!(
        logged(&other).is_some_and(|told| told.contains("file 2: fio begins at byte")),
        "{:?}",
        logged(&other)
    );
}

/// Random places have no order, and are all of them once.
#[test]
fn random_places_are_compared_as_a_set() {
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=64k\n";
    let all: Vec<(&str, u64, u64)> = (0..16).map(|index| ("write", (index * 5 % 16) * 4096, 4096)).collect();
    assert_eq!(checked(job, &log(&all))[0].differs, None);
    let mut twice = all.clone();
    twice[3].1 = twice[4].1;
    assert!(
        checked(job, &log(&twice))[0]
            .differs
            .as_deref()
            .is_some_and(|it| it.contains("this asks, and fio does not"))
    );
    let mut far = all.clone();
    far[3].1 = 1 << 20;
    assert!(checked(job, &log(&far))[0].differs.is_some());
}
