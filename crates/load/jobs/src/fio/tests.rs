//! Job files and their meaning, mistakes and their messages.

use super::*;
use proptest::prelude::*;
use raidlab_units::NanoSpan;
use raidlab_workload::{AccessLine, ArrivalProcess, Distribution, Pacing};

fn import(text: &str) -> Import {
    import_fio("dir/test.fio", text).unwrap_or_else(|error| panic!("{error}"))
}

fn complaint(text: &str) -> String {
    import_fio("test.fio", text).unwrap_err().to_string()
}

#[test]
fn a_random_mix_is_one_line_that_can_be_swept() {
    let text = "; a comment\n[global]\nioengine=libaio # async\niodepth=16\t; many\nruntime=30\nramp_time=2s\ndirect=1\n\
                [oltp]\nrw=randrw\nrwmixread=67\nbs=8k\nsize=1g\nfilename=/dev/sdx\nrandseed=9\n";
    let Import { steps, .. } = import(text);
    let [Step { workload, run }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((workload.name(), workload.source.as_str()), ("oltp", "imported from dir/test.fio"));
    assert_eq!(workload.spec.lines, [AccessLine::plain(8192, 67, 100)]);
    assert_eq!(workload.spec.places.distribution, Distribution::Shuffle, "fio's random map");
    assert_eq!(workload.spec.places.size, Some(ByteCount::from_gib(1)));
    assert_eq!((run.iodepths.as_slice(), run.seed, run.buffered), (&[16][..], Some(9), false));
    assert_eq!((run.run, run.ramp), (Some(NanoSpan::from_secs(30)), Some(NanoSpan::from_secs(2))));
    assert_eq!(run.targets, ["/dev/sdx"]);
}

#[test]
fn jobs_of_a_group_are_parts_and_a_stonewall_starts_the_next_step() {
    let text = "[global]\nsize=100m\nioengine=io_uring\n[a]\nrw=write\nnumjobs=2\n[b]\nrw=randread\niodepth=4\nnumjobs=3\n\
                [c]\nstonewall\nrw=read\nbs=1m\n";
    let steps = import(text).steps;
    let names: Vec<&str> = steps.iter().map(|step| step.workload.name()).collect();
    assert_eq!(names, ["test", "c"]);
    let parts: Vec<(&str, Option<u32>, u64)> = steps[0]
        .workload
        .spec
        .parts
        .iter()
        .map(|part| (part.name.as_str(), part.iodepth, part.places.start.get() >> 20))
        .collect();
    assert_eq!(parts, [("a-1", Some(1), 0), ("a-2", Some(1), 100), ("b", Some(12), 200)]);
    assert_eq!(steps[0].run.size, Some(ByteCount::from_mib(300)));
    assert_eq!(steps[1].workload.spec.lines, [AccessLine::plain(1 << 20, 100, 0)]);
    assert_eq!(steps[1].run.iodepths, [1], "one by one, as the synchronous default");
}

#[test]
fn sizes_rates_and_distributions_have_their_counterparts() {
    let job = |keys: &str| import(&format!("[j]\nnorandommap\n{keys}\n")).steps.swap_remove(0).workload.spec;
    let shares = |spec: &AccessSpec| -> Vec<(u32, u8, u8)> {
        spec.lines.iter().map(|line| (line.bytes, line.share_pct, line.read_pct)).collect()
    };
    assert_eq!(
        shares(&job("rw=randread\nbssplit=4k/10:64k/50:32k/")),
        [(4096, 10, 100), (65_536, 50, 100), (32_768, 40, 100)]
    );
    assert_eq!(shares(&job("rw=randwrite\nbsrange=4k-12k")), [(4096, 34, 0), (8192, 33, 0), (12_288, 33, 0)]);
    let both = job("rw=randrw\nrwmixread=70\nbs=4k,8k");
    assert_eq!(shares(&both), [(4096, 70, 100), (8192, 30, 0)]);
    let distributions = [
        ("zipf:1.2", "zipf, theta 1.2, scrambled"),
        ("pareto:0.2", "pareto, h 0.2, scrambled"),
        ("normal:10", "normal, mean 50%, deviation 10%, not scrambled"),
        (
            "zoned:60/10:30/20:/",
            "zones 60% to 10% of the space, 30% to 20% of the space, 10% to 70% of the space, not scrambled",
        ),
        ("random", "uniform"),
    ];
    for (text, expected) in distributions {
        let spec = job(&format!("rw=randread\nrandom_distribution={text}"));
        assert_eq!(spec.places.to_string(), expected, "{text}");
    }
    let pacings = [
        ("rw=read\nrate=1m", "closed loop, at most 1 MiB/s"),
        ("rw=rw\nrate_iops=100", "closed loop, at most 200/s"),
        ("rw=write\nrate_iops=100,50", "closed loop, at most 50/s"),
        ("rw=randread\nrate_iops=500\nrate_process=poisson", "open loop, Poisson arrivals at 500/s"),
        ("rw=read\nthinktime=2ms", "closed loop, 2.00 ms of think time"),
    ];
    for (text, expected) in pacings {
        assert_eq!(job(text).pacing.to_string(), expected, "{text}");
    }
    let spec = job(
        "rw=randwrite\nbuffer_compress_percentage=40\ndedupe_percentage=20\nthinktime=5\nthinktime_blocks=8",
    );
    assert_eq!((spec.data.compressible_pct, spec.data.dedupe_pct), (40, 20));
    assert_eq!((spec.lines[0].burst, spec.lines[0].delay), (8, NanoSpan(5000)));
    assert_eq!(job("rw=randread\nbs=8k\nba=4k").lines[0].align_bytes, Some(4096));
    let Pacing::Open(arrivals) = job("rw=randread\nrate=4m\nrate_process=poisson").pacing else { panic!() };
    assert_eq!((arrivals.process, arrivals.rate.per_second()), (ArrivalProcess::Poisson, 1024.0));
}

#[test]
fn everything_wrong_is_named_with_its_line() {
    let rows = [
        (
            "[a]\nrw=randraed\n",
            "test.fio:2: rw = randraed: write read, write, rw, randread, randwrite or randrw",
        ),
        ("[a]\nbsz=4k\n", "test.fio:2: unknown key 'bsz': the nearest known is 'bs'"),
        ("[a]\nbs=0\n", "test.fio:2: bs: '0' is no length of a request"),
        (
            "[a]\nioengine=rdma\n",
            "test.fio:2: ioengine = rdma has no counterpart here: it asks nothing of a file or block device in plain requests; use another engine or leave the job out",
        ),
        ("rw=read\n[a]\n", "test.fio:1: stands before any section: put it below [global]"),
        ("[a\n", "test.fio:1: a section ends with ]: add it"),
        ("", "test.fio: no job: a section such as [job1] with rw=randread makes one"),
        (
            "[a]\nsize=${SIZE}\n",
            "test.fio:2: size = ${SIZE}: write the value itself, variables are not expanded",
        ),
        (
            "[a]\nwrite_barrier=32\n",
            "test.fio:2: write_barrier has no counterpart here: requests carry no barrier or priority here; --fua has writes end when the medium has them",
        ),
        (
            "[a]\nfsync=32\nfdatasync=8\n",
            "test.fio:3: fsync and fdatasync at once have no counterpart here: leave out either",
        ),
        ("include other.fio\n[a]\n", "test.fio:1: include other.fio: put the lines of that file here"),
        (
            "[a]\nbssplit=4k/60:8k/60\n[b]\nbs=x\n",
            "test.fio:2: bssplit: the shares add up to more than 100 percent: mend them\ntest.fio:4: bs: 'x' is no size: write bytes, or a number with k, m, g or t",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(complaint(text), expected);
    }
    assert!(import_fio("t", "[a]\nwrite_barrier=0\n").is_ok(), "switched off, it asks for nothing");
}

#[test]
fn flushes_follow_writes() {
    let rule = |text: &str| {
        let rule = import_fio("t", &format!("[a]\n{text}\n")).unwrap().steps[0].workload.spec.flush;
        rule.map(|rule| (rule.every.get(), rule.with_metadata))
    };
    assert_eq!(rule("rw=write\nfsync=32"), Some((32, true)));
    assert_eq!(rule("rw=randrw\nfdatasync=1\nnumjobs=4"), Some((1, false)));
    assert_eq!(rule("rw=write\nfsync=0\nfdatasync=8"), Some((8, false)));
    assert_eq!(rule("rw=randread\nfsync=32"), None, "fio flushes behind writes only");
    let parts = import_fio("t", "[a]\nrw=write\nfsync=4\n[b]\nrw=read\n").unwrap().steps[0]
        .workload
        .spec
        .parts
        .clone();
    assert_eq!(parts.iter().map(|part| part.flush.is_some()).collect::<Vec<_>>(), [true, false]);
}

fn line() -> impl Strategy<Value = String> {
    let keys: Vec<&'static str> =
        keys::all().filter(|(.., kind)| *kind == Kind::Same).map(|(usual, ..)| usual).collect();
    let values = prop_oneof![
        "[0-9]{1,25}[kmgtKMG%]?",
        "[0-9]{1,3}[kmg]?[-/:,][0-9]{1,3}[kmg]?[:,/]?[0-9]{0,3}",
        prop::sample::select(vec![
            "rw",
            "randrw",
            "read",
            "zipf:1.1",
            "pareto:0.3",
            "zoned:1/2:/",
            "poisson",
            "libaio",
            "1",
            "0",
            ""
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
    ];
    prop_oneof![
        (prop::sample::select(keys), values).prop_map(|(key, value)| format!("{key}={value}")),
        Just("[global]".to_owned()),
        "\\[[a-z]{0,3}\\]?",
        ".{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_imported_reads_back(lines in proptest::collection::vec(line(), 0..25)) {
        if let Ok(import) = import_fio("any", &lines.join("\n")) {
            for step in import.steps {
                let text = step.workload.to_toml();
                let read = Workload::from_toml("any.toml", &text);
                prop_assert_eq!(read.as_ref().map_err(ToString::to_string), Ok(&step.workload), "{}", text);
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(import_fio("any", &String::from_utf8_lossy(&bytes)));
    }
}
