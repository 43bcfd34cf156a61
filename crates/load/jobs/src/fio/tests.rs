//! Job files and their meaning, mistakes and their messages.

use super::*;
use crate::Step;
use proptest::prelude::*;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, ArrivalProcess, Distribution, FileOrder, Pacing, Workload};
use std::cell::Cell;
use std::num::NonZeroU32;

fn import(text: &str) -> Import {
    import_fio("dir/test.fio", text, Surroundings::NONE).unwrap_or_else(|error| panic!("{error}"))
}

fn complaint(text: &str) -> String {
    import_fio("test.fio", text, Surroundings::NONE).unwrap_err().to_string()
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

/// Each of a million lines of another file was compared with all keys, and told.
#[test]
fn a_file_of_other_things_is_given_up() {
    let complaint = complaint(&format!("[a]\n{}", "junk line\n".repeat(1_000_000)));
    assert_eq!(complaint.lines().count(), WRONG_MAX + 1);
    assert!(complaint.ends_with(
        "test.fio:22: so many lines are wrong that nothing is read from here on: is this a job file of fio?"
    ));
}

/// `bs=` was read as fio's default, and theta 1 as any other. What fio 3.33 refuses (`--parse-only`) is refused at its line.
#[test]
fn what_fio_refuses_of_a_value_is_refused_at_its_line() {
    let refused = [
        "bs",
        "bs=",
        "bs=,",
        "blocksize=",
        "ba=0",
        "direct",
        "direct=",
        "norandommap=",
        "wait_for=",
        "filename",
        "rate=,",
        "fsync",
        "size=",
        "filesize=0",
        "kb_base=1",
        "rate_process=abc",
        "nice",
        "nice=",
        "group_reporting=",
        "description=",
        "invalidate",
        "random_distribution=zipf:1.0",
        "random_distribution=zipf:1",
        "random_distribution=zipf:0",
        "random_distribution=zipf:-1",
        "random_distribution=pareto:0",
        "random_distribution=pareto:1",
        "random_distribution=normal:-1",
        "random_distribution=normal:100",
        "random_distribution=zoned",
        "random_distribution=zoned:50/10:40/90",
        "random_distribution=zoned_abs:50/1m:40/1m",
        "file_service_type=zipf:1.0",
        "file_service_type=abc",
        "file_service_type=pareto:2",
        "file_service_type=normal:101",
        "verify=none",
    ];
    for line in refused {
        let text = format!("[a]\nsize=2m\nrw=randwrite\nnorandommap\n{line}\n");
        let wrong = import_fio("test.fio", &text, Surroundings::NONE).err();
        let places = wrong.map(|it| it.reasons.iter().map(|reason| reason.line).collect::<Vec<_>>());
        assert_eq!(places, Some(vec![Some(5)]), "{line}");
    }
    let taken = [
        "norandommap",
        "stonewall",
        "time_based",
        "group_reporting",
        "thread",
        "hipri",
        "bssplit=",
        "write_bw_log",
        "write_bw_log=",
        "bs=,8k",
        "bs=4k,",
        "random_distribution=zipf:0.999",
        "random_distribution=normal:0",
        "random_distribution=normal:99.9",
        "file_service_type=zipf:1.2",
        "file_service_type=sequential",
    ];
    for line in taken {
        import(&format!("[a]\nsize=2m\nrw=randwrite\nnorandommap\n{line}\n"));
    }
}

/// fio 3.33 makes requests of 8 KiB alone out of these.
#[test]
fn sizes_that_fio_cuts_are_refused_with_what_it_makes() {
    let wrong = complaint("[a]\nrw=randread\nnorandommap\nbssplit=8k/50:12k/50\n");
    let told = "test.fio:4: bssplit: fio makes requests of 8192 bytes out of those of 12288, a multiple of the shortest: write that";
    assert_eq!(wrong, told);
}

/// They were fio's default of 4 KiB.
#[test]
fn a_direction_that_a_split_leaves_out_has_the_plain_size() {
    let sizes = |keys: &str| -> Vec<(u32, u8)> {
        let text = format!("[a]\nrw=randrw\nnorandommap\nbs=16k\n{keys}\n");
        let lines = import(&text).steps.swap_remove(0).workload.spec.lines;
        lines.iter().map(|line| (line.bytes, line.read_pct)).collect()
    };
    assert_eq!(sizes("bssplit="), [(16_384, 50)]);
    assert_eq!(sizes("bssplit=,8k/100"), [(16_384, 100), (8192, 0)]);
    assert_eq!(sizes("bsrange=,4k-8k"), [(16_384, 100), (4096, 0), (8192, 0)]);
}

/// Each line was looked up among all keys one by one, and each setting kept: 6 s for 300,000.
#[test]
fn the_last_of_a_key_counts_and_the_others_cost_nothing() {
    let text =
        |count| format!("[global]\n{}[a]\nrw=read\n{0}bs=8k\n", "bs=4KiB\nkb_base=1000\n".repeat(count));
    let mut reader = Reader::new(Surroundings::NONE);
    reader.read(None, &text(20_000));
    assert_eq!((reader.global.len(), reader.sections[0].settings.len()), (2, 3));
    let steps = import(&text(2)).steps;
    assert_eq!(steps[0].workload.spec.lines, [AccessLine::plain(8000, 100, 0)]);
}

/// Eight were run at one in silence, and none was taken for one.
#[test]
fn many_in_flight_of_an_engine_that_has_one_are_told() {
    let one = import("[a]\nioengine=psync\niodepth=8\nrw=randread\n");
    assert_eq!(one.steps[0].run.iodepths, [1]);
    assert!(one.notes.iter().any(|note| note.contains("iodepth = 8 is 1")), "{:?}", one.notes);
    let plain = import("[a]\nioengine=psync\niodepth=1\nrw=randread\n").notes;
    assert!(plain.iter().all(|note| !note.contains("iodepth")), "{plain:?}");
    assert!(complaint("[a]\nioengine=libaio\niodepth=0\nrw=randread\n").contains("test.fio:3: iodepth: '0'"));
}

#[test]
fn targets_of_engines_nbd_and_nfs_are_taken_and_an_offset_in_percent_of_a_known_file() {
    let targets = |text: &str| import(text).steps[0].run.targets.clone();
    let nbd = "[a]\nioengine=nbd\nuri=nbd+unix:///?socket=/run/x\nrw=read\n";
    assert_eq!(targets(nbd), ["nbd+unix:///?socket=/run/x"]);
    let nfs = "[a]\nioengine=nfs\nnfs_url=nfs://host/data\nfilename=f\nrw=read\nratemin=1m\n";
    assert_eq!(targets(nfs), ["nfs://host/data/f"]);
    let wrong = complaint("[a]\nioengine=psync\nuri=nbd://host\nrw=read\n");
    assert!(wrong.contains("test.fio:3: uri belongs to ioengine=nbd"), "{wrong}");
    let half = import("[a]\nrw=read\nbs=4k\nfilesize=1m\noffset=50%\nfilename=f\n");
    let places = &half.steps[0].workload.spec.places;
    assert_eq!((places.start, places.size), (ByteCount(512 << 10), Some(ByteCount(512 << 10))));
    let unknown = complaint("[a]\nrw=read\nbs=4k\noffset=50%\nfilename=f\n");
    assert!(
        unknown.contains("test.fio:4: offset in percent of a file whose length is not given"),
        "{unknown}"
    );
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
    // Each job has files of its own, and so has each clone.
    assert_eq!(
        parts,
        [
            ("a-1", Some(1), 0),
            ("a-2", Some(1), 100),
            ("b-1", Some(4), 200),
            ("b-2", Some(4), 300),
            ("b-3", Some(4), 400)
        ]
    );
    assert_eq!(steps[0].run.size, Some(ByteCount::from_mib(500)));
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
        ("normal:10", "normal, mean 50%, deviation 8.82%, scrambled"),
        ("normal:25", "normal, mean 50%, deviation 11.02%, scrambled"),
        (
            "zoned:60/10:30/20:/",
            "zones 60% to 10% of the space, 30% to 20% of the space, 10% to 70% of the space, not scrambled",
        ),
        (
            "zoned_abs:60/10m:40/30m",
            "zones 60% to 25% of the space, 40% to 75% of the space, not scrambled, over 40 MiB",
        ),
        (
            "zoned_abs:60/10m:40/30m\nsize=80m",
            "zones 60% to 12.5% of the space, 40% to 37.5% of the space, 0% to 50% of the space, not scrambled, over 80 MiB",
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
        ("rw=rw\nrwmixread=75\nrate_iops=75,25", "closed loop, at most 100/s"),
        ("rw=rw\nrwmixread=80\nbs=4k,16k\nrate=4m,4m", "closed loop, at most 8 MiB/s"),
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
        ("[a]\nnumjobs=0\n", "test.fio:2: numjobs: '0' is none that fio runs: write 1 or more"),
        (
            "[a]\nrate=1m,0\nrate_iops=0,100\n",
            "test.fio:3: rate_iops beside rate: fio takes one of them only: leave out either",
        ),
        (
            "[a]\nioengine=rdma\n",
            "test.fio:2: ioengine = rdma has no counterpart here: it asks nothing of a file or block device in plain requests; use another engine or leave the job out",
        ),
        ("rw=read\n[a]\n", "test.fio:1: stands before any section: put it below [global]"),
        ("[a\n", "test.fio:1: a section ends with ]: add it"),
        ("", "test.fio: no job: a section such as [job1] with rw=randread makes one"),
        ("[a]\nsize=${SIZE}\n", "test.fio:2: size = ${SIZE}: SIZE is not set: write its value"),
        (
            "[a]\nwrite_barrier=32\n",
            "test.fio:2: write_barrier has no counterpart here: requests carry no barrier or priority here; --fua has writes end when the medium has them",
        ),
        (
            "[a]\nfsync=32\nfdatasync=8\n",
            "test.fio:3: fsync and fdatasync at once have no counterpart here: leave out either",
        ),
        ("include other.fio\n[a]\n", "test.fio:1: include other.fio: no files can be read here"),
        (
            "[a]\nbssplit=4k/60:8k/60\n[b]\nbs=x\n",
            "test.fio:2: bssplit: the shares add up to more than 100 percent: mend them\ntest.fio:4: bs: 'x' is no size: write bytes, or a number with k, m, g or t",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(complaint(text), expected);
    }
    assert!(
        import_fio("t", "[a]\nwrite_barrier=0\n", Surroundings::NONE).is_ok(),
        "switched off, it asks for nothing"
    );
}

#[test]
fn flushes_follow_writes() {
    let rule = |text: &str| {
        let rule = import_fio("t", &format!("[a]\n{text}\n"), Surroundings::NONE).unwrap().steps[0]
            .workload
            .spec
            .flush;
        rule.map(|rule| (rule.every.get(), rule.with_metadata))
    };
    assert_eq!(rule("rw=write\nfsync=32"), Some((32, true)));
    assert_eq!(rule("rw=randwrite\nfdatasync=1\nnumjobs=4\nfilename=f"), Some((1, false)));
    assert_eq!(rule("rw=write\nfsync=0\nfdatasync=8"), Some((8, false)));
    assert_eq!(rule("rw=randread\nfsync=32"), None, "fio flushes behind writes only");
    let parts = import_fio("t", "[a]\nrw=write\nfsync=4\n[b]\nrw=read\n", Surroundings::NONE).unwrap().steps
        [0]
    .workload
    .spec
    .parts
    .clone();
    assert_eq!(parts.iter().map(|part| part.flush.is_some()).collect::<Vec<_>>(), [true, false]);
}

/// Size, share, read and random percent of each line, of all parts.
fn lines_of(keys: &str) -> Vec<(u32, u8, u8, u8)> {
    let steps = import(&format!("[j]\nnorandommap\n{keys}\n")).steps;
    let spec = &steps[0].workload.spec;
    let own = spec.lines.iter().map(|line| (100, line));
    let parts =
        spec.parts.iter().flat_map(|part| part.lines.iter().map(|line| (part.weight.unwrap_or(100), line)));
    let share = |weight: u32, share: u8| (weight * u32::from(share) / 100) as u8;
    own.chain(parts)
        .map(|(weight, line)| (line.bytes, share(weight, line.share_pct), line.read_pct, line.random_pct))
        .collect()
}

/// As fio 3.33 logs them: `rw=rw` reads 0, 4096, ... and writes 0, 4096, ... in any order.
#[test]
fn reads_and_writes_in_sequence_go_on_from_places_of_their_own() {
    let step =
        import("[j]\nrw=rw\nrwmixread=60\nbs=8k\niodepth=4\nioengine=libaio\nnumjobs=2\n").steps.remove(0);
    let spec = &step.workload.spec;
    let parts: Vec<_> =
        spec.parts.iter().map(|part| (part.name.as_str(), part.weight, part.lines[0].read_pct)).collect();
    let expected = [
        ("j-1-reads", Some(60), 100),
        ("j-1-writes", Some(40), 0),
        ("j-2-reads", Some(60), 100),
        ("j-2-writes", Some(40), 0),
    ];
    assert_eq!((&parts[..], step.run.iodepths), (&expected[..], vec![8]));
    assert!(spec.parts.iter().all(|part| part.iodepth.is_none()));
    let text = complaint("[j]\nrw=rw\n[k]\nrw=read\n");
    assert!(text.contains("test.fio:2: the reads of j go on from the last read"), "{text}");
    let text = complaint("[j]\nrw=write\nverify=md5\n");
    assert!(text.contains("test.fio:3: verify of a job that writes"), "{text}");
}

#[test]
fn a_value_of_a_direction_is_that_of_the_direction() {
    // As fio 3.33 logs them with write_iolog.
    let rows = [
        ("rw=randread\nbs=8k,", vec![(8192, 100, 100, 100)]),
        ("rw=randwrite\nbs=8k,", vec![(4096, 100, 0, 100)]),
        ("rw=randread\nbs=,8k", vec![(4096, 100, 100, 100)]),
        ("rw=randwrite\nbs=,8k", vec![(8192, 100, 0, 100)]),
        ("rw=randwrite\nbs=8k,16k,64k", vec![(16_384, 100, 0, 100)]),
        ("rw=randwrite\nbsrange=1k-2k,4k-8k", vec![(4096, 50, 0, 100), (8192, 50, 0, 100)]),
        ("rw=randwrite\nbssplit=1k/100,8k/50:16k/50", vec![(8192, 50, 0, 100), (16_384, 50, 0, 100)]),
        ("rw=randrw\npercentage_random=100,0", vec![(4096, 50, 100, 100), (4096, 50, 0, 0)]),
        ("rw=randwrite\npercentage_random=10,20", vec![(4096, 100, 0, 20)]),
        ("rw=randrw\nrwmixread=70\nrwmixwrite=10", vec![(4096, 100, 90, 100)]),
        ("rw=randrw\nrwmixwrite=10\nrwmixread=70", vec![(4096, 100, 70, 100)]),
    ];
    for (keys, expected) in rows {
        assert_eq!(lines_of(keys), expected, "{keys}");
    }
    let pacing = |keys: &str| import(&format!("[j]\n{keys}\n")).steps[0].workload.spec.pacing.to_string();
    assert_eq!(pacing("rw=read\nrate=1m,"), "closed loop, at most 1 MiB/s");
    assert_eq!(pacing("rw=write\nrate=1m,"), "closed loop", "only reads have a limit");
    assert_eq!(pacing("rw=write\nrate_iops=,50"), "closed loop, at most 50/s");
    let refused = [
        ("rw=rw\nrate=1m,2m", "rate of a mix of 50 % bytes read"),
        ("rw=rw\nbs=4k,64k\nrate=4m,4m", "rate of a mix of 6 % bytes read"),
        ("rw=rw\nrate_iops=100,", "rate_iops of a mix"),
        ("rw=rw\nrwmixread=70\nrate_iops=100", "rate_iops of a mix of 70 % reads"),
        ("rw=randread\nrandom_distribution=zoned:60.5/10:39.5/90", "in whole percents"),
        (
            "rw=randread\nrandom_distribution=zoned_abs:60/1m:40/2m\nsize=2m",
            "its zones end after 3145728 bytes, and the file after 2097152",
        ),
        ("rw=randread\nrandom_distribution=zoned_abs:60/1m:40/2m\nsize=50%", "add size in bytes"),
        ("rw=randread\nrandom_distribution=zoned_abs:60/1m:40/2m\npercentage_random=50", "add size in bytes"),
        ("rw=randread\nrandom_distribution=zoned_abs:60/1m:40", "write zoned_abs:50/1g:30/3g:20/16g"),
        // As fio 3.33 has them: it ignores the second of the first, and refuses the others.
        ("rw=randwrite\nrandom_distribution=random,zipf:1.2", "fio has one distribution for reads, writes"),
        ("rw=randread\nrandom_distribution=zipf:1.2,zipf:0.8", "write a job for each direction"),
        ("rw=randwrite\nrandom_distribution=zoned:60/10:40/90,zoned:10/50:90/50", "refuses or ignores"),
        ("rw=randwrite\nrandom_distribution=zoned:60/10:40/90,10/50:90/50", "refuses or ignores"),
        ("rw=read\nbs=1k,2k,3k,4k", "more than three values"),
        ("rw=rw\nrwmixread=70,30", "rwmixread: '70,30' is no percentage"),
        ("rw=read\niodepth=4,8", "iodepth: '4,8'"),
        ("rw=rw\nbs=4k, 8k", "bs: ' 8k': fio loses the unit"),
        ("rw=read\nbsrange=4k - 16k", "bsrange: ' 16k': fio loses the unit"),
        ("rw=read\nrate=1.5m", "rate: '1.5m': fio takes the 1 in front"),
    ];
    for (keys, part) in refused {
        let text = complaint(&format!("[j]\n{keys}\n"));
        assert!(text.contains(part) && text.starts_with("test.fio:"), "{keys}: {text}");
    }
}

#[test]
fn what_ends_a_run_is_told_and_what_shares_a_reason_is_told_once() {
    let notes = |keys: &str| import(&format!("[j]\nrw=randread\n{keys}\n")).notes.join("\n");
    let ends = notes("size=1m\nloops=3\nnumber_ios=100\nruntime=5");
    assert!(
        ends.contains("loops = 3 is left out") && ends.contains("number_ios = 100 is left out"),
        "{ends}"
    );
    let timed = notes("size=1m\nloops=3\nnumber_ios=100\nruntime=5\ntime_based");
    assert!(!timed.contains("loops") && timed.contains("number_ios = 100"), "{timed}");
    let batches = notes("size=1m\niodepth_batch=4\niodepth_low=2\niodepth_batch=8");
    assert!(batches.contains("iodepth_batch, iodepth_low are left out: fio submits"), "{batches}");
    assert!(!notes("size=10%").contains("without size") && notes("").contains("without size"));
}

/// As fio 3.33 logs them; they were moved up to the next multiple of the length.
#[test]
fn requests_in_sequence_begin_at_the_offset() {
    let aligns = |keys: &str| {
        let spec = import(&format!("[j]\nfilename=f\nsize=1m\n{keys}\n")).steps.swap_remove(0).workload.spec;
        spec.all_lines().map(|line| line.align_bytes).collect::<Vec<_>>()
    };
    assert_eq!(aligns("rw=read\nbs=64k\noffset=4k"), [Some(4096)]);
    assert_eq!(aligns("rw=read\nbs=4k\noffset=512"), [Some(512)]);
    assert_eq!(aligns("rw=read\nbs=64k\noffset=10k\nnumjobs=2\noffset_increment=12k"), [Some(2048); 2]);
    assert_eq!(aligns("rw=read\nbs=64k\noffset=128k\noffset_increment=10k"), [None], "there is one clone");
    assert_eq!(aligns("rw=rw\nbs=64k\noffset=4k"), [Some(4096); 2]);
    let refused = [
        ("rw=randread\nbs=64k\noffset=4k", "test.fio:6: offset is no multiple of 65536 bytes"),
        (
            "rw=read\nbs=64k\noffset_increment=100\nnumjobs=2",
            "test.fio:6: offset_increment is no multiple of 512 bytes",
        ),
        (
            "rw=randread\nbs=8k\noffset_increment=4k\nnumjobs=2",
            "test.fio:6: offset_increment is no multiple of 8192 bytes",
        ),
    ];
    for (keys, part) in refused {
        let text = complaint(&format!("[j]\nfilename=f\nsize=1m\n{keys}\n"));
        assert!(text.contains(part), "{keys}: {text}");
    }
}

/// Four clones became one loop with one burst at a time, and so the pace of one job.
#[test]
fn clones_that_rest_after_a_burst_rest_on_their_own() {
    let depths = |keys: &str| {
        let keys = format!("filename=f\nrw=randread\nsize=1m\nthinktime=10ms\nnumjobs=4\n{keys}");
        let step = import(&format!("[j]\n{keys}\n")).steps.swap_remove(0);
        let spec = step.workload.spec;
        let parts: Vec<_> = spec.parts.iter().map(|part| (part.iodepth, part.lines[0].burst)).collect();
        (parts, step.run.iodepths, spec.pacing.to_string())
    };
    let parts = |iodepth, burst| (vec![(Some(iodepth), burst); 4], Vec::new(), "closed loop".to_owned());
    assert_eq!(depths("thinktime_blocks=4"), parts(1, 4));
    assert_eq!(depths("ioengine=libaio\niodepth=2"), parts(2, 1));
    // Each place thinks, and so each of the clones.
    assert_eq!(depths(""), (Vec::new(), vec![4], "closed loop, 10.0 ms of think time".to_owned()));
}

#[test]
fn a_job_that_arrives_at_random_times_has_no_more_in_flight_than_its_iodepth() {
    let arrivals = "rate_iops=1000\nrate_process=poisson";
    let many = import(&format!(
        "[j]\nrw=randread\nioengine=libaio\niodepth=2\nnumjobs=4\nfilename=/dev/x\n{arrivals}\n"
    ));
    let spec = &many.steps[0].workload.spec;
    assert_eq!(
        (spec.pacing.to_string().as_str(), spec.iodepth),
        ("open loop, Poisson arrivals at 4000/s", Some(8))
    );
    assert!(many.steps[0].run.iodepths.is_empty(), "its own");
    let synchronous = import(&format!("[j]\nrw=randread\niodepth=2\n{arrivals}\n"));
    assert_eq!(synchronous.steps[0].workload.spec.iodepth, Some(1));
}

/// What a real fio's log of requests refuted (`--check`).
#[test]
fn what_fio_does_otherwise_is_done_so_or_refused_with_its_line() {
    let places =
        |keys: &str| import(&format!("[j]\nfilename=f\n{keys}\n")).steps.swap_remove(0).workload.spec;
    let mib = |count| Some(ByteCount::from_mib(count));
    assert_eq!(places("filesize=64m\nsize=8m\nrw=read").places.size, mib(8));
    assert_eq!(places("filesize=64m\nsize=8m\nrw=randread").places.size, mib(64), "8 MiB of it, anywhere");
    assert_eq!(places("filesize=64m\nsize=8m\noffset=60m\nrw=read").places.size, mib(4));
    assert_eq!(places("size=1000000\nrw=read\nbs=64k").places.size, Some(ByteCount(983_040)));
    let quarters = places("filesize=16m\nsize=2m\noffset_increment=25%\nnumjobs=4\nrw=read\nbs=64k");
    assert_eq!(quarters.parts[3].places.start, ByteCount::from_mib(12));
    let notes = |keys: &str| import(&format!("[j]\nfilename=f\nruntime=9\n{keys}\n")).notes.join(" ");
    assert!(
        notes("size=64m\nio_size=8m").contains("io_size = 8m is left out"),
        "{}",
        notes("size=64m\nio_size=8m")
    );
    assert!(!notes("size=64m\nio_size=8m\ntime_based").contains("io_size"));
    assert!(notes("size=64m\niodepth_batch=4").contains("has fewer than its iodepth in flight"));
    let clones = places("filesize=16m\nsize=2m\noffset_increment=4m\nnumjobs=4\nrw=read\nbs=64k");
    let starts: Vec<_> = clones.parts.iter().map(|part| (part.places.start, part.places.size)).collect();
    assert_eq!(starts[3], (ByteCount::from_mib(12), mib(2)));
    let inside =
        places("filesize=16m\nsize=2m\noffset=1m\noffset_increment=10m\nnumjobs=2\nrw=randread\nbs=4k");
    let ranges: Vec<_> = inside.parts.iter().map(|part| (part.places.start, part.places.size)).collect();
    let first = (ByteCount::from_mib(1), mib(15));
    assert_eq!(ranges, [first, (ByteCount::from_mib(11), mib(5))], "no clone reaches beyond the file");
    assert_eq!(places("rw=randread\nbs=4k,64k").places.distribution, Distribution::Shuffle);
    assert_eq!(places("rw=randread\niodepth= 4\nbs =8k").lines[0].bytes, 8192, "as fio reads both");
    let refused = [
        ("rw=randread\nbssplit=4k/10:64k/90", "test.fio:3: random requests of several sizes"),
        ("rw=randrw\nbs=4k,64k", "test.fio:3: random requests of several sizes"),
        // Its map has the shortest size of all directions.
        ("rw=randwrite\nbs=4k,64k", "test.fio:3: random requests of several sizes"),
        ("rw=randread\nbs=8k,4k", "test.fio:3: random requests of several sizes"),
        ("rw=randread\nbs=8k,8k,4k", "test.fio:3: random requests of several sizes"),
        ("rw=randwrite\nbs=,16k", "test.fio:3: random requests of several sizes"),
        ("rw=read\nbs=64k\nsize=4k", "test.fio:4: size: a file of 4096 bytes is shorter than a request"),
        ("rw=read\nbs= 16k", "test.fio:3: bs = 16k: fio takes the blank behind = for a part of the value"),
        ("rw= read", "test.fio:2: rw = read: fio takes the blank"),
        ("rw=randrw\nfsync=8", "test.fio:3: fsync in a mix of reads and writes"),
        ("rw=read\noffset=1000", "test.fio:3: offset is no multiple of 512 bytes"),
        ("filesize=64m\nsize=50%", "test.fio:3: size in percent"),
        ("rw=read\nio_size=300%", "test.fio:3: "),
        (
            "rw=read\noffset_increment=25%",
            "test.fio:3: offset_increment in percent needs the length of the file",
        ),
    ];
    for (keys, told) in refused {
        let text = complaint(&format!("[j]\n{keys}\n"));
        assert!(text.starts_with(told), "{keys}: {text}");
    }
    let long = complaint(&format!("[j]\n{}\n", "x".repeat(5_000_000)));
    assert_eq!(long, "test.fio:2: a line of 5000000 bytes: this is no job file of fio");
}

#[test]
fn files_devices_and_clones_are_all_there_or_refused() {
    let same = "[one]\nfilename=/dev/sdx\nrw=read\n[two]\nfilename=/dev/sdy\nrw=read\n";
    let found = import(same);
    assert_eq!(found.steps[0].run.targets, ["/dev/sdx", "/dev/sdy"]);
    assert!(found.steps[0].run.command("w").starts_with("raidlab measure /dev/sdx /dev/sdy "));
    assert!(found.notes.iter().any(|note| note.contains("Each of the 2 targets")), "{:?}", found.notes);
    assert_eq!(found.jobs.len(), 2);
    assert!(found.jobs[1].starts_with("two: sequential reads of 4 KiB, 1 in flight, on /dev/sdy"));
    let own = import("[a]\nsize=1m\nrw=write\n[b]\nsize=1m\nrw=read\n");
    assert!(own.notes.iter().any(|note| note.contains("2 files")), "{:?}", own.notes);
    // fio's own names: one file for all clones, or one for each.
    let parts =
        |keys: &str| import(&format!("[a]\nrw=randread\nsize=1m\nnumjobs=2\n{keys}\n")).steps[0].clone();
    assert_eq!(parts("filename_format=part.$jobnum").workload.spec.parts.len(), 2);
    assert_eq!(parts("filename_format=part").run.iodepths, [2], "two clones share a file");
    assert_eq!(parts("filename=/dev/sdx").run.iodepths, [2]);
    let refused = [
        ("[a]\nruntime=1\n[b]\nruntime=2\n", "test.fio:4: b runs for another time than a"),
        (
            "[a]\nruntime=5\n[b]\nruntime=5\nstartdelay=2\n",
            "test.fio:5: startdelay: b starts while others run",
        ),
        ("[a]\n[b]\n[c]\nwait_for=a\n", "test.fio:4: wait_for = a: others run on meanwhile"),
        ("[a]\n[b]\nwait_for=a\n[c]\n", "test.fio:4: c starts when a does in fio"),
        (
            "[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n[d]\nwait_for=a\n",
            "test.fio:7: d starts when b does in fio",
        ),
        (
            "[z]\n[a]\nstonewall\n[b]\nwait_for=a\n[c]\nwait_for=z\n",
            "test.fio:7: c starts when a does in fio",
        ),
        ("[a]\nwait_for=z\n", "test.fio:2: wait_for = z: no job before"),
        ("[a]\nsize=1m-2m\n", "test.fio:2: size = 1m-2m: files of several sizes"),
    ];
    for (text, part) in refused {
        assert!(complaint(text).contains(part), "{text}: {}", complaint(text));
    }
}

#[test]
fn jobs_that_ask_different_things_of_different_targets_are_parts_that_name_theirs() {
    let text = "[global]\nioengine=libaio\nsize=1m\n[data]\nfilename=/dev/sdb\nrw=randrw\niodepth=8\nnumjobs=2\n\
                [wal]\nfilename=/dev/sdc\nrw=write\n[scan]\nfilename=/dev/sdb\nrw=read\n";
    let found = import(text);
    let Step { workload, run } = &found.steps[0];
    let parts: Vec<_> = workload
        .spec
        .parts
        .iter()
        .map(|part| (part.name.as_str(), part.target.map(NonZeroU32::get), part.iodepth, part.places.start))
        .collect();
    let zero = ByteCount::ZERO;
    // Jobs of one target share its file.
    let expected = [
        ("data", Some(1), Some(16), zero),
        ("scan", Some(1), Some(1), zero),
        ("wal", Some(2), Some(1), zero),
    ];
    assert_eq!(parts, expected);
    assert_eq!(
        (&run.targets[..], run.size),
        (&["/dev/sdb".to_owned(), "/dev/sdc".into()][..], Some(ByteCount::from_mib(1)))
    );
    assert!(found.notes.iter().all(|note| !note.contains("the same requests")), "{:?}", found.notes);
    let same = text
        .replace("[scan]\nfilename=/dev/sdb\nrw=read\n", "")
        .replace("rw=write", "rw=randrw\niodepth=8\nnumjobs=2");
    assert!(import(&same).steps[0].workload.spec.parts.is_empty(), "the same of each");
    // What fio makes up has a target that no job names.
    let made_up = import("[a]\nfilename=f\nsize=2m\n[b]\nsize=1m\n[c]\nsize=1m\n");
    let spec = &made_up.steps[0].workload.spec;
    let places: Vec<_> =
        spec.parts.iter().map(|it| (it.target.map(NonZeroU32::get), it.places.start.get() >> 20)).collect();
    assert_eq!(places, [(Some(1), 0), (Some(2), 0), (Some(2), 1)]);
    assert_eq!(made_up.steps[0].run.targets, ["f", "TARGET"]);
    assert_eq!(made_up.steps[0].run.size, Some(ByteCount::from_mib(2)), "the largest");
    for told in ["name it in place of TARGET", "The 2 files that the jobs of b, c have"] {
        assert!(made_up.notes.iter().any(|note| note.contains(told)), "{told}: {:?}", made_up.notes);
    }
    // Reads and writes that go on from places of their own share a loop, and others have one of their own.
    let text = complaint("[a]\nfilename=f\nrw=rw\n[b]\nfilename=g\nrw=read\n");
    assert!(text.contains("test.fio:3: the reads of a go on from the last read"), "{text}");
}

/// As fio 3.33 logs them: `nrfiles=4` reads 0 of each file, then 4096 of each.
#[test]
fn several_files_of_a_job_are_files_of_its_places() {
    let of = |keys: &str| import(&format!("[j]\n{keys}\n")).steps.swap_remove(0);
    let places = |keys: &str| of(keys).workload.spec.places;
    let files = |keys: &str| {
        let places = places(keys);
        (places.size.map(ByteCount::get), places.files.count, places.files.burst, places.files.order)
    };
    let (in_turn, random) = (FileOrder::InTurn, FileOrder::Random);
    assert_eq!(files("rw=read\nsize=64k\nnrfiles=4"), (Some(65_536), 4, 1, in_turn));
    assert_eq!(
        files("rw=read\nsize=72k\nnrfiles=4"),
        (Some(65_536), 4, 1, in_turn),
        "whole requests of each"
    );
    assert_eq!(files("rw=read\nfilesize=16k\nnrfiles=4"), (Some(65_536), 4, 1, in_turn), "each so long");
    assert_eq!(files("rw=randrw\nsize=64k\nfilename=x:y"), (Some(65_536), 2, 1, in_turn));
    assert_eq!(
        files("rw=read\nsize=64k\nnrfiles=4\nfile_service_type=roundrobin:2"),
        (Some(65_536), 4, 2, in_turn)
    );
    assert_eq!(
        files("rw=read\nsize=64k\nnrfiles=4\nfile_service_type=random:3"),
        (Some(65_536), 4, 3, random)
    );
    let through = "rw=read\nsize=64k\nnrfiles=4\nfile_service_type=sequential";
    assert_eq!(files(through), (Some(65_536), 1, 1, in_turn), "one after the other is one sequence");
    assert_eq!(places("rw=randread\nsize=64k\nnrfiles=4").distribution, Distribution::Shuffle);
    assert!(of("rw=read\nsize=64k\nfilename=x:y").run.targets.is_empty(), "they lie on one target");
    let found = import("[j]\nrw=read\nsize=64k\nfilename=x:y\n");
    assert!(
        found.notes.iter().any(|note| note.contains("The 2 files that the jobs of j have")),
        "{:?}",
        found.notes
    );
    assert!(found.jobs[0].contains("on 2 files of its own"), "{:?}", found.jobs);
    // Beside others, and in clones, each has its own.
    let parts = of("rw=read\nsize=64k\nnrfiles=4\nnumjobs=2\n[k]\nrw=write\nsize=1m").workload.spec.parts;
    let starts: Vec<_> =
        parts.iter().map(|it| (it.places.start.get() >> 10, it.places.files.count)).collect();
    assert_eq!(starts, [(0, 4), (64, 4), (128, 1)]);
    let folders = import("[a]\nrw=read\nsize=1m\ndirectory=/a:/b\nnumjobs=3\n").steps.swap_remove(0);
    assert_eq!((folders.workload.spec.parts.len(), folders.run.size), (3, Some(ByteCount::from_mib(3))));
    let named = import("[a]\nrw=read\nsize=1m\ndirectory=/a:/b\nfilename=f\n").steps.swap_remove(0);
    assert_eq!(named.run.targets, ["/a/f"], "as fio takes the first");
    assert_eq!(files("rw=read\nfilename=f\nnrfiles=4\nopenfiles=1\nsize=64k").1, 1, "a name is one file");
}

/// What places can't say of several files.
#[test]
fn several_files_that_fio_serves_otherwise_are_refused_with_their_line() {
    let refused = [
        ("nrfiles=4", "test.fio:2: 4 files in one job: their length is needed"),
        ("filename=f:g", "test.fio:2: 2 files in one job: their length is needed"),
        ("nrfiles=4\nsize=1m\nfilesize=1m", "test.fio:2: 4 files in one job: their length is needed"),
        ("nrfiles=4\nsize=8k", "test.fio:2: 4 files in one job: each is 2048 bytes long"),
        ("nrfiles=4\nsize=1m\noffset=4k", "test.fio:4: 4 files in one job: an offset into each"),
        ("nrfiles=4\nsize=1m\nrw=write\nfsync=4", "test.fio:5: 4 files in one job: a flush takes the turn"),
        ("nrfiles=4\nsize=1m\nrw=rw", "test.fio:4: 4 files in one job: reads and writes in sequence share"),
        (
            "nrfiles=4\nsize=1m\nbssplit=4k/50:8k/50",
            "test.fio:4: 4 files in one job: requests of several sizes",
        ),
        ("nrfiles=4\nsize=1m\nopenfiles=2", "test.fio:4: openfiles: fewer than all files"),
        (
            "nrfiles=4\nsize=1m\nfile_service_type=zipf:1.1",
            "test.fio:4: file_service_type = zipf:1.1 has no counterpart",
        ),
        (
            "nrfiles=4\nsize=1m\nrw=randread\nfile_service_type=sequential",
            "test.fio:5: 4 files in one job: one to its end",
        ),
        ("nrfiles=4\nsize=1m\nfilename_format=part", "test.fio:4: filename_format without $filenum"),
        ("filename=f:f\nsize=1m", "test.fio:2: filename names a file twice"),
        (
            "filename=/dev/sdb:/dev/sdc\nsize=1m",
            "test.fio:2: 2 targets in one job: fio takes them in turn in one loop, and here each target has a loop of its own: write a \
             job for each",
        ),
        ("filename=f:g\nsize=1m\n[k]\nfilename=g\nsize=1m", "test.fio:2: j has a file of k among others"),
    ];
    for (keys, told) in refused {
        let text = complaint(&format!("[j]\n{keys}\n"));
        assert!(text.starts_with(told), "{keys}: {text}");
    }
}

/// fio's generator `lfsr` asks for each place once, without a map, too.
#[test]
fn a_generator_that_repeats_no_place_is_a_shuffle() {
    let spread = |keys: &str| {
        let text = format!("[j]\nrw=randread\nfilesize=1m\nnorandommap\n{keys}\n");
        import(&text).steps[0].workload.spec.places.distribution.clone()
    };
    assert_eq!(spread("random_generator=lfsr"), Distribution::Shuffle);
    assert_eq!(spread("random_generator=tausworthe64"), Distribution::Uniform);
    for keys in ["bssplit=4k/50:8k/50", "percentage_random=50", "random_distribution=zoned:50/5:50/95"] {
        let text = format!("[j]\nrw=randread\nsize=1m\nnorandommap\nrandom_generator=lfsr\n{keys}\n");
        let told = "test.fio:5: random_generator = lfsr: it asks for each place once";
        assert!(complaint(&text).contains(told), "{text}: {}", complaint(&text));
    }
    let other = complaint("[j]\nrw=randread\nrandom_generator=mersenne\n");
    assert!(other.contains("test.fio:3: random_generator = mersenne: write"), "{other}");
}

#[test]
fn phases_are_steps() {
    let names = |text: &str| -> Vec<String> {
        import(text).steps.iter().map(|step| step.workload.name().to_owned()).collect()
    };
    let later = "[early]\nfilename=f\nruntime=2\n[late]\nfilename=f\nrw=write\nstartdelay=2\nruntime=1\n";
    assert_eq!(names(later), ["early", "late"]);
    assert_eq!(names("[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n"), ["a", "b", "c"]);
    assert_eq!(names("[a]\n[b]\nstonewall\n[c]\nwait_for=a\n[d]\nstonewall=1\n").len(), 3);
    assert_eq!(names("[a]\n[b]\nwait_for=a\n[c]\nwait_for=a\n[d]\nstonewall\n[e]\n").len(), 3);
    let beside = &import("[early]\nsize=1m\n[late]\nsize=1m\nstartdelay=2\n").steps[0].workload.spec.parts;
    assert_eq!(
        beside.iter().map(|part| part.phase.after).collect::<Vec<_>>(),
        [NanoSpan::ZERO, NanoSpan::from_secs(2)]
    );
    assert_eq!(names("[global]\nstartdelay=3\n[a]\n").len(), 1, "all wait equally long");
}

#[test]
fn sizes_have_the_meaning_of_fio() {
    let places =
        |keys: &str| import(&format!("[j]\nrw=read\n{keys}\n")).steps[0].workload.spec.places.clone();
    assert_eq!((places("size=0").size, places("size=100%").working_set_pct), (None, 100.0));
    assert_eq!((places("size=25%").working_set_pct, places("size=0%").working_set_pct), (25.0, 100.0));
    let small = import("[j]\nrw=read\nbs=4KiB\nsize=1MiB\n");
    assert_eq!(small.steps[0].workload.spec.lines[0].bytes, 4000);
    assert_eq!(small.steps[0].run.size, Some(ByteCount(1_000_000)));
    assert!(small.notes.iter().any(|note| note.contains("kb_base=1000")), "{:?}", small.notes);
    let large = import("[j]\nrw=read\nkb_base=1000\nbs=4KiB\nsize=1m\n");
    assert_eq!(
        (large.steps[0].workload.spec.lines[0].bytes, large.steps[0].run.size),
        (4096, Some(ByteCount(244 * 4096))),
        "whole requests"
    );
    assert!(complaint("[j]\noffset=1m\nsize=50%\n").contains("test.fio:3: size in percent beside an offset"));
    assert!(import("[g]\nrw=read\nthreads=1\n").notes.iter().any(|note| note.contains("profile")));
}

#[test]
fn included_files_and_variables_are_read() {
    let variable = |name: &str| match name {
        "BS" => Ok(("8k".to_owned(), "--env")),
        _ => Err("say what it is".to_owned()),
    };
    let include = |asked: Included<'_>| {
        let text = match (asked.by, asked.path) {
            (None, "common") => "bs=${BS}\nrw=write\n",
            (None, "wrong") => "\n\nbsz=1\n",
            (_, "loop") => "include loop\n",
            (None, "sub/a") => "rw=read\ninclude deep\n",
            (Some("sub/a"), "deep") => "bs=2k\n",
            _ => return Err("it is not there".to_owned()),
        };
        Ok((asked.path.to_owned(), text.to_owned()))
    };
    let read = |text: &str| import_fio("t", text, Surroundings { variable: &variable, include: &include });
    let found = read("[a]\ninclude common\nfilename=/dev/${BS}/x\n").unwrap();
    assert_eq!(found.steps[0].workload.spec.lines, [AccessLine::plain(8192, 0, 0)]);
    assert_eq!(found.steps[0].run.targets, ["/dev/8k/x"]);
    assert!(found.notes.contains(&"BS is '8k', of --env.".to_owned()), "{:?}", found.notes);
    let nested = read("[a]\ninclude sub/a\nsize=1m\n").unwrap();
    assert_eq!(nested.steps[0].workload.spec.lines, [AccessLine::plain(2048, 100, 0)]);
    let rows = [
        ("[a]\ninclude wrong\nbs=x\n", "wrong:3: unknown key 'bsz'"),
        ("[a]\ninclude none\n", "t:2: include none: it is not there"),
        ("[a]\ninclude loop\n", "loop:1: include loop: more than 64 files"),
        ("[a]\nsize=${BS\n", "t:2: size = ${BS: a variable ends with }"),
        ("[a]\niodepth=$ncpus\n", "t:2: iodepth = $ncpus: $ncpus is a figure of the machine"),
    ];
    for (text, part) in rows {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
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
            "zoned_abs:1/2m:99/0",
            "4k,8k,",
            ",1m",
            "${A}",
            "a",
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

#[test]
fn no_text_panics_and_what_is_imported_reads_back() {
    let read_back = Cell::new(0);
    // Few files of odd lines only are sound, so half of them begin as one and go on with a few.
    let odd = proptest::collection::vec(line(), 0..25).prop_map(|lines| lines.join("\n"));
    let sound = proptest::collection::vec(line(), 0..3)
        .prop_map(|lines| format!("[a]\nrw=randrw\nbs=4k\nsize=1g\n{}", lines.join("\n")));
    proptest!(|(text in prop_oneof![odd, sound])| {
        if let Ok(import) = import_fio("any", &text, Surroundings::NONE) {
            for step in import.steps {
                let text = step.workload.to_toml();
                let read = Workload::from_toml("any.toml", &text);
                prop_assert_eq!(read.as_ref().map_err(ToString::to_string), Ok(&step.workload), "{}", text);
                read_back.set(read_back.get() + 1);
            }
        }
    });
    assert!(read_back.get() >= 20, "{} workloads were read back", read_back.get());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(import_fio("any", &String::from_utf8_lossy(&bytes), Surroundings::NONE));
    }
}

/// fio 3.33 made two jobs of `[Global]` and one of `[globalread]`, requests of 10 KiB in `bsrange=4k-10k`, took `rwmixread=70%` for 100 and
/// ended a value at its first # or ;. All was read otherwise, in silence.
#[test]
fn sections_ranges_percents_and_marks_are_as_fio_has_them() {
    let jobs = |text: &str| {
        import(text).steps.iter().map(|step| step.workload.spec.parts.len().max(1)).sum::<usize>()
    };
    assert_eq!(
        jobs("[Global]\nrw=read\nsize=1m\nfilename=/dev/x\n[a]\nrw=read\nsize=1m\nfilename=/dev/x\n"),
        2
    );
    assert_eq!(jobs("[global-2]\nbs=64k\nrw=read\nsize=1m\nfilename=/dev/x\n[a]\n"), 1);
    let shares = |range: &str| -> Vec<(u32, u8)> {
        let text = format!("[a]\nrw=randread\nsize=40m\nfilename=/dev/x\nnorandommap\nbsrange={range}\n");
        import(&text).steps[0].workload.spec.lines.iter().map(|line| (line.bytes, line.share_pct)).collect()
    };
    assert_eq!(shares("4k-10k"), [(4096, 40), (8192, 40), (10_240, 20)]);
    assert_eq!(shares("8k-4k"), [(4096, 50), (8192, 50)], "turned round");
    for key in ["rwmixread", "rwmixwrite", "percentage_random"] {
        let complaint = complaint(&format!("[a]\nrw=randrw\n{key}=70%\n"));
        assert!(complaint.ends_with("fio takes another number where % stands: write 70"), "{complaint}");
    }
    let marked = import("[a]\nrw=read\nsize=1m\nfilename=/dev/a#1\n");
    assert_eq!(marked.steps[0].run.targets, ["/dev/a"]);
    assert!(
        marked.notes.iter().any(|note| note.contains("'/dev/a#1'") || note.contains("filename=/dev/a#1")),
        "{:?}",
        marked.notes
    );
    assert_eq!(complaint("[a]\nzzzz=1\n"), "test.fio:2: unknown key 'zzzz'");
}
