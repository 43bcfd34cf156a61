//! The built-in workload files against the published tables, and invalid files against their messages.

use super::*;
use crate::actor::Actor;
use crate::op::{IoOp, OpSet};
use crate::spec::AccessLine;
use raidlab_units::NanoSpan;

const KIB: u32 = 1024;
const MIB: u32 = 1024 * 1024;

/// Name, metric, size, read %, random % of every profile of one line, as the papers' tables give them.
const ONE_LINE: [(&str, Metric, u32, u8, u8); 23] = [
    ("storagebench-streaming", Metric::MbPerS, 64 * KIB, 100, 0),
    ("storagebench-restore", Metric::MbPerS, 64 * KIB, 0, 0),
    ("storagebench-database", Metric::Iops, 8 * KIB, 67, 100),
    ("storagebench-file-server", Metric::Iops, 64 * KIB, 67, 100),
    ("storagebench-database-log", Metric::MbPerS, 64 * KIB, 0, 0),
    ("storagebench-backup", Metric::MbPerS, 64 * KIB, 100, 0),
    ("storagebench-video-streaming", Metric::MbPerS, 64 * KIB, 100, 0),
    ("storagebench-web-server", Metric::Iops, 64 * KIB, 100, 100),
    ("storagebench-operating-system", Metric::Iops, 4 * KIB, 40, 100),
    ("storagebench-file-copy", Metric::Iops, 64 * KIB, 50, 100),
    ("fastt600-oltp", Metric::Iops, 8 * KIB, 67, 100),
    ("fastt600-streaming-read", Metric::MbPerS, 64 * KIB, 100, 0),
    ("fastt600-streaming-write", Metric::MbPerS, 64 * KIB, 0, 0),
    ("fastt600-random-read", Metric::Iops, 8 * KIB, 100, 100),
    ("fastt600-random-write", Metric::Iops, 8 * KIB, 0, 100),
    ("md1200-web-file-server", Metric::Iops, 8 * KIB, 95, 75),
    ("md1200-oltp", Metric::Iops, 8 * KIB, 70, 100),
    ("md1200-mail", Metric::Iops, 4 * KIB, 70, 100),
    ("md1200-web-log", Metric::MbPerS, 8 * KIB, 0, 0),
    ("md1200-sql-log", Metric::MbPerS, 64 * KIB, 0, 0),
    ("md1200-video-on-demand", Metric::MbPerS, 512 * KIB, 100, 100),
    ("md1200-decision-support", Metric::MbPerS, MIB, 100, 100),
    ("md1200-streaming-media", Metric::MbPerS, 64 * KIB, 98, 0),
];

/// Workloads that no paper of the five has.
const OF_TODAY: usize = 25;

#[test]
fn training_is_that_of_its_suite() {
    // Batch, compute time, mean and deviation of samples, samples of a file: papers/mlperf-storage-1.0.
    let rows = [
        ("mlperf-unet3d-a100", 7, 636_000, (146_600_628, 68_341_808), 1),
        ("mlperf-unet3d", 7, 323_000, (146_600_628, 68_341_808), 1),
        ("mlperf-resnet50-a100", 400, 435_000, (114_660, 0), 1251),
        ("mlperf-resnet50", 400, 224_000, (114_660, 0), 1251),
        ("mlperf-cosmoflow-a100", 1, 5_510, (2_828_486, 71_311), 1),
        ("mlperf-cosmoflow", 1, 3_500, (2_828_486, 71_311), 1),
    ];
    for (name, batch, compute_us, (mean, deviation), samples_per_file) in rows {
        let workload = builtin_workload(name).unwrap();
        let Some((_, Actor::Accelerator(it))) = workload.spec.actors().next() else { panic!("{name}") };
        let sample = (it.sample.mean.get(), it.sample.deviation.get());
        assert_eq!(
            (it.batch, it.compute.get(), sample),
            (batch, compute_us * 1000, (mean, deviation)),
            "{name}"
        );
        assert_eq!((it.samples_per_file, it.barrier), (samples_per_file, true), "{name}");
        assert_eq!(workload.spec.with_accelerators(9).unwrap().iodepth(1), 9 * 4 * 2, "{name}");
    }
    for (name, total_tb) in [("8b", 0.105), ("70b", 0.912), ("405b", 5.29), ("1t", 18.0)] {
        let workload = builtin_workload(&format!("checkpoint-llama3-{name}")).unwrap();
        let Some((_, Actor::Checkpoint(it))) = workload.spec.actors().next() else { panic!("{name}") };
        assert!(
            (it.total_bytes() as f64 / 1e12 / total_tb - 1.0).abs() < 0.01,
            "{name}: {}",
            it.total_bytes()
        );
    }
}

#[test]
fn every_profile_of_one_line_is_that_of_its_paper() {
    for (name, metric, bytes, read_pct, random_pct) in ONE_LINE {
        let workload = builtin_workload(name).unwrap();
        assert_eq!(workload.metric, metric, "{name}");
        assert_eq!(workload.spec.lines, [AccessLine::plain(bytes, read_pct, random_pct)], "{name}");
    }
}

#[test]
fn the_mixes_are_those_of_their_paper() {
    let file_server = [
        (512, 10),
        (KIB, 5),
        (2 * KIB, 5),
        (4 * KIB, 60),
        (8 * KIB, 2),
        (16 * KIB, 4),
        (32 * KIB, 4),
        (64 * KIB, 10),
    ];
    let web_server = [
        (512, 22),
        (KIB, 15),
        (2 * KIB, 8),
        (4 * KIB, 23),
        (8 * KIB, 15),
        (16 * KIB, 2),
        (32 * KIB, 6),
        (64 * KIB, 7),
        (128 * KIB, 1),
        (512 * KIB, 1),
    ];
    let table = [
        ("fastt600-file-server", 80, file_server.to_vec()),
        ("fastt600-web-server", 100, web_server.to_vec()),
    ];
    for (name, read_pct, sizes) in table {
        let expected: Vec<AccessLine> = sizes
            .iter()
            .map(|&(bytes, share_pct)| AccessLine {
                share_pct,
                align_bytes: Some(0),
                ..AccessLine::plain(bytes, read_pct, 100)
            })
            .collect();
        let workload = builtin_workload(name).unwrap();
        assert_eq!(workload.spec.lines, expected, "{name}");
        assert_eq!(workload.metric, Metric::MbPerS, "{name}");
        assert!(workload.with_block_bytes(4096).is_err(), "{name} is a mix");
    }
}

#[test]
fn every_file_is_named_as_it_is_and_checked_by_a_table() {
    let workloads = builtin_workloads();
    assert_eq!(workloads.len(), ONE_LINE.len() + 2 + OF_TODAY);
    for ((file, _), workload) in BUILTIN_FILES.iter().zip(&workloads) {
        assert_eq!(*file, format!("workloads/{}.toml", workload.name()));
        assert!(!workload.title.is_empty() && !workload.source.is_empty(), "{file}");
        for &bytes in &workload.block_bytes_published {
            let resized = workload.with_block_bytes(bytes).unwrap();
            assert_eq!(resized.spec.request_bytes_max(), bytes, "{file}");
            assert_eq!(resized.name(), workload.name());
        }
    }
    let oltp = builtin_workload("fastt600-oltp").unwrap();
    assert_eq!(oltp.block_bytes_published, [4, 8, 16, 32, 64].map(|kib| kib * KIB));
    let streaming = builtin_workload("fastt600-streaming-write").unwrap();
    assert_eq!(streaming.block_bytes_published, core::array::from_fn::<u32, 11, _>(|shift| 512 << shift));
}

#[test]
fn short_names_find_one_workload_or_say_why_not() {
    let table = [
        ("storagebench-database", "storagebench-database"),
        ("database", "storagebench-database"),
        ("file-server", "storagebench-file-server"),
        ("streaming", "storagebench-streaming"),
        ("restore", "storagebench-restore"),
        ("sql-log", "md1200-sql-log"),
        ("mail", "md1200-mail"),
        ("random-read", "fastt600-random-read"),
        ("oltp", "workload 'oltp' could be fastt600-oltp or md1200-oltp: write one of them in full"),
        (
            "web-server",
            "workload 'web-server' could be storagebench-web-server or fastt600-web-server: write one of them in full",
        ),
        (
            "databse",
            "there is no workload 'databse', did you mean 'storagebench-database' or 'storagebench-database-log'? A file of one ends in .toml",
        ),
        ("xyzzy", "there is no workload 'xyzzy'. A file of one ends in .toml"),
    ];
    for (name, expected) in table {
        let found = match builtin_workload(name) {
            Ok(workload) => workload.name().to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_file_of_ones_own_has_every_column() {
    let text = "schema = 1\nname = 'mine'\ntitle = 'Mine'\nsource = 'here'\nmetric = 'iops'\n\n[[line]]\n\
                size = '8KiB'\nshare_pct = 100\nread_pct = 50\nrandom_pct = 25\ndelay = '3ms'\nburst = 16\n\
                align = 512\nreply = '64B'\n";
    let expected = AccessLine {
        bytes: 8192,
        share_pct: 100,
        read_pct: 50,
        random_pct: 25,
        delay: NanoSpan::from_millis(3),
        burst: 16,
        align_bytes: Some(512),
        reply_bytes: 64,
    };
    assert_eq!(Workload::from_toml("mine.toml", text).unwrap().spec.lines, [expected]);
}

#[test]
fn mistakes_in_a_file_are_named() {
    let head = "schema = 1\nname = 'mine'\ntitle = 'Mine'\nsource = 'here'\nmetric = 'iops'\n";
    let line = "[[line]]\nsize = '8KiB'\nshare_pct = 100\nread_pct = 50\nrandom_pct = 25\n";
    let table = [
        (
            format!("{head}{line}aling = 512\n"),
            "mine.toml:11: unknown key 'aling': the nearest known is 'align' (known: size, share_pct, read_pct, random_pct, delay, burst, align, reply)",
        ),
        (
            format!("{head}{}", line.replace("100", "90")),
            "mine.toml: the shares of workload 'mine' add up to 90 percent: make them 100",
        ),
        (
            head.to_owned(),
            "mine.toml: workload 'mine' has no line: give at least one with size, share, read and random percent",
        ),
        (
            format!("{head}{}", line.replace("8KiB", "8GiB")),
            "mine.toml:7: size: 8 GiB is too long for one request: it must be below 4 GiB",
        ),
        (
            head.replace("iops", "mbps"),
            "mine.toml:5: unknown value 'mbps': the nearest known is 'mb-per-s' (known: iops, mb-per-s)",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(Workload::from_toml("mine.toml", &text).unwrap_err().to_string(), expected);
    }
    let misplaced = Workload::from_toml("mine.toml", &format!("{head}[log]\nappend_size = '1KiB'\n"));
    let said = misplaced.unwrap_err().to_string();
    assert!(
        said.starts_with("mine.toml:6: unknown key 'log': the nearest known is 'part.log' (known: "),
        "{said}"
    );
}

const HEAD: &str = "schema = 1\nname = 'mine'\ntitle = 'Mine'\nsource = 'here'\nmetric = 'iops'\n";
const LINE: &str = "[[line]]\nsize = '8KiB'\nshare_pct = 100\nread_pct = 50\nrandom_pct = 25\n";

fn read(text: &str) -> Workload {
    Workload::from_toml("mine.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn places_pacing_and_data_are_read() {
    let places = [
        ("distribution = 'zipf'\ntheta = 1.1\nscrambled = true", "zipf, theta 1.1, scrambled"),
        ("distribution = 'pareto'\nh = 0.2\nscrambled = false", "pareto, h 0.2, not scrambled"),
        (
            "distribution = 'hot-spot'\naccesses_pct = 90\nspace_pct = 10",
            "zones 90% to 10% of the space, 10% to 90% of the space, not scrambled",
        ),
        (
            "distribution = 'zones'\nzones = [[60, 10], [40, 90]]\nscrambled = true",
            "zones 60% to 10% of the space, 40% to 90% of the space, scrambled",
        ),
        (
            "distribution = 'hit-rates'\nhit_rates = [[1, 30], [10, 62.5], [100, 100]]\nscrambled = true",
            "hit rates 30% with 1% of the space, 62.5% with 10% of the space, 100% with 100% of the space, scrambled",
        ),
        (
            "distribution = 'normal'\nmean_pct = 50\ndeviation_pct = 12.5\nstart = '1GiB'\nsize = '8GiB'",
            "normal, mean 50%, deviation 12.5%, not scrambled, from 1 GiB, over 8 GiB",
        ),
        ("distribution = 'shuffle'\nworking_set_pct = 8", "every place once, shuffled, working set 8%"),
    ];
    for (text, expected) in places {
        assert_eq!(read(&format!("{HEAD}[places]\n{text}\n{LINE}")).spec.places.to_string(), expected);
    }
    let pacings = [
        ("[arrival]\nprocess = 'poisson'\nrate = 2500", "open loop, Poisson arrivals at 2500/s"),
        (
            "[arrival]\nprocess = 'fixed'\nrate = 0.5\nburst = 8",
            "open loop, fixed arrivals at 0.5/s in bursts of 8",
        ),
        (
            "think = '5ms'\n[limit]\niops = 100\nbytes_per_sec = '1MiB'",
            "closed loop, at most 100/s, at most 1 MiB/s, 5.00 ms of think time",
        ),
    ];
    for (text, expected) in pacings {
        assert_eq!(read(&format!("{HEAD}{text}\n{LINE}")).spec.pacing.to_string(), expected);
    }
    let data =
        read(&format!("{HEAD}iodepth = 16\n[data]\ncompressible_pct = 40\ndedupe_pct = 25\n{LINE}")).spec;
    assert_eq!((data.iodepth, data.data.compressible_pct, data.data.dedupe_pct), (Some(16), 40, 25));
    for (text, with_metadata) in
        [("", false), ("flush_metadata = false", false), ("flush_metadata = true", true)]
    {
        let spec = read(&format!("{HEAD}flush_every = 8\n{text}\n{LINE}")).spec;
        let rule = spec.flush.unwrap();
        assert_eq!((rule.every.get(), rule.with_metadata), (8, with_metadata));
        let call = if with_metadata { "fsync" } else { "fdatasync" };
        assert_eq!(rule.to_string(), format!("behind every 8 writes ({call})"));
        let op = if with_metadata { IoOp::Flush } else { IoOp::FlushData };
        assert!(spec.ops().has(op) && spec.ops().without(OpSet::TRANSFERS) == OpSet::NONE.with(op));
    }
}

#[test]
fn parts_are_read_with_all_that_a_loop_has() {
    let text = format!(
        "{HEAD}[[part]]\nname = 'users'\niodepth = 50\nthink = '100ms'\n[[part.line]]\nsize = '8KiB'\nshare_pct = 100\n\
         read_pct = 70\nrandom_pct = 100\n[[part]]\nname = 'log'\n[part.arrival]\nprocess = 'fixed'\nrate = 200\n\
         [part.places]\nstart = '1GiB'\n[[part.line]]\nsize = '64KiB'\nshare_pct = 100\nread_pct = 0\nrandom_pct = 0\n"
    );
    let workload = read(&text);
    let parts = &workload.spec.parts;
    assert_eq!(parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["users", "log"]);
    assert_eq!(
        (parts[0].iodepth, parts[0].pacing.to_string().as_str()),
        (Some(50), "closed loop, 100 ms of think time")
    );
    assert_eq!(parts[1].places.to_string(), "uniform, from 1 GiB");
    assert!(workload.spec.has_own_iodepth() && workload.spec.is_open());
    assert_eq!(workload.spec.iodepth(1), 50 + 256);
}

#[test]
fn settings_that_do_not_go_together_are_named() {
    let part = "[[part]]\nname = 'a'\n[[part.line]]\nsize = '512 B'\nshare_pct = 100\nread_pct = 100\nrandom_pct = 0\n";
    let rows = [
        (
            "[places]\ndistribution = 'zipf'\ntheta = 1\n",
            "mine.toml: scrambled is missing: write true if the favourite places lie all over the working set, false if they are neighbours at its start",
        ),
        ("flush_metadata = true\n", "mine.toml: flush_metadata says what flushes are for: add flush_every"),
        (
            "[places]\ndistribution = 'zipf'\nscrambled = true\n",
            "mine.toml: theta is missing for this distribution: add it",
        ),
        ("[places]\ntheta = 1\n", "mine.toml: theta belongs to distribution = \"zipf\": leave it out"),
        (
            "[places]\naccesses_pct = 1\n",
            "mine.toml: accesses_pct belongs to distribution = \"hot-spot\": leave it out",
        ),
        (
            "[places]\ndistribution = 'zipfian'\n",
            "mine.toml:7: unknown value 'zipfian': the nearest known is 'zipf' (known: uniform, zipf, pareto, hit-rates, hot-spot, zones, normal, shuffle)",
        ),
        (
            "[places]\ndistribution = 'zones'\nzones = [[50, 50], [40, 50]]\n",
            "mine.toml: workload 'mine': zones must add up to 100 percent of the accesses",
        ),
        (
            "think = '1ms'\n[arrival]\nprocess = 'fixed'\nrate = 1\n",
            "mine.toml: limit and think are for loops without arrival: leave out either",
        ),
        (
            "[arrival]\nprocess = 'fixed'\nrate = 0\n",
            "mine.toml:8: rate: 0 is no rate: write requests per second, 0.000001 to 1000000000",
        ),
        (
            "[arrival]\nprocess = 'fixed'\nrate = 1\nbrust = 2\n",
            "mine.toml:9: unknown key 'brust': the nearest known is 'burst' (known: process, rate, burst, by_hour, day, steps, on_off, self_similar)",
        ),
        (
            "[[part]]\nname = 'a'\n[part.accelerator]\nbatch = 4\ncompute = '1ms'\nsample_size = '1MiB'\nread_thread = 2\n",
            "mine.toml:12: unknown key 'read_thread': the nearest known is 'read_threads' (known: count, batch, compute, compute_deviation, read_threads, prefetch, loader, sample_size, sample_deviation, sample_table, samples_per_file, request_size, requests_per_thread, barrier, per_file, per_sample, load_bytes_per_sec, per_step, processors, au_goal_pct)",
        ),
        (
            "[[part]]\nname = 'a'\n[part.accelerator]\ncompute = '1ms'\nsample_size = '1MiB'\n",
            "mine.toml:8: the key 'batch' is missing here: add it",
        ),
        (
            "[[part]]\nname = 'a'\n[part.accelerator]\nbatch = 4\ncompute = '1ms'\nsample_size = 1000\n",
            "mine.toml:11: sample_size: 1000 has no unit: give a unit, as \"1000 B\" or \"64KiB\"",
        ),
        (
            "[[part]]\nname = 'a'\n[part.accelerator]\nbatch = 4\ncompute = '1ms'\n",
            "mine.toml: part 'a': sample_size or sample_table is missing: add one",
        ),
        (
            "[[part]]\nname = 'a'\n[part.log]\nappend_size = '1KiB'\n[part.cache]\nobjects = 9\nobject_size = '4KiB'\n",
            "mine.toml: part 'a': has two actors: give each a part of its own",
        ),
        (part, "mine.toml: workload 'mine' has lines and parts: put the lines into a part of their own"),
    ];
    for (text, expected) in rows {
        let error = Workload::from_toml("mine.toml", &format!("{HEAD}{text}{LINE}")).unwrap_err();
        assert_eq!(without_line(&error.to_string(), expected), expected);
    }
}

/// `said` without the number of its line where `expected` has none.
fn without_line(said: &str, expected: &str) -> String {
    match (expected.starts_with("mine.toml: "), said.split_once(": ")) {
        (true, Some((place, rest))) if place.starts_with("mine.toml") => format!("mine.toml: {rest}"),
        _ => said.to_owned(),
    }
}

#[test]
fn settings_that_make_no_sense_have_their_line() {
    let part = |text: &str| {
        format!("{HEAD}[[part]]\nname = 'a'\n[part.log]\nappend_size = '1KiB'\n[[part]]\nname = 'b'\n{text}")
    };
    let head = HEAD.lines().count();
    let rows = [
        ("[part.log]\nappend_size = '1KiB'\nclients = 0\n", 9, "clients must be above 0"),
        ("[part.log]\nappend_size = '2MiB'\n", 8, "append_size must be up to 1 MiB"),
        ("[part.log]\nappend_size = '1KiB'\nthink = 5\n", 9, "think: 5 has no unit"),
        ("[part.accelerator]\nbatch = 1\ncompute = '1ms'\n", 5, "sample_size or sample_table is missing"),
        (
            "[part.compaction]\nruns = 2\nrequest_size = '1000 B'\n",
            9,
            "request_size must be a multiple of 512 bytes",
        ),
        (
            "[part.checkpoint]\nwriter_size = '1MB'\nrequest_size = '1000 B'\n",
            9,
            "request_size must be a multiple of 512 bytes",
        ),
        (
            "[part.cache]\nobjects = 2\nobject_size = '1000 B'\n",
            9,
            "object_size must be a multiple of 512 bytes",
        ),
        // The name of the part is no key.
        ("[part.cache]\nobjects = 2\nobject_size = '4KiB'\nhit_pct = 120\n", 10, "hit_pct must be 0 to 100"),
        (
            "[part.accelerator]\nbatch = 1\ncompute = '1ms'\nsample_size = '1MiB'\nprefetch = 0\n",
            11,
            "prefetch must be above 0",
        ),
        (
            "[part.accelerator]\nbatch = 1\ncompute = '1ms'\nsample_size = '1MiB'\nread_threads = 100000000\n",
            11,
            "read_threads makes more than a million requests in flight",
        ),
        ("[part.log]\nappend_table = [['1KiB', 70], ['2KiB', 30, 5]]\n", 8, "a pair"),
        ("[part.log]\nappend_table = [['1KiB']]\n", 8, "a pair"),
        (
            "[part.accelerator]\nbatch = 1\ncompute = '1ms'\nsample_table = [['1MiB', 70],\n ['4MiB', 30, 5]]\n",
            11,
            "a pair",
        ),
        (
            "[part.log]\nappend_size = '1KiB'\n[part.places]\ndistribution = 'zones'\nzones = [[60, 10, 1], [40, 90]]\n",
            11,
            "a pair",
        ),
        ("[part.arrival]\nprocess = 'fixed'\nsteps = [['8h', 1], ['16h', 5, 2]]\n", 9, "a pair"),
        (
            "[part.accelerator]\nbatch = 1\ncompute = '1ms'\nsample_size = '1KiB'\nsample_deviation = '2KiB'\n",
            11,
            "sample_deviation must be up to the mean",
        ),
    ];
    for (text, line, problem) in rows {
        let error = Workload::from_toml("mine.toml", &part(text)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("mine.toml:{}: ", head + line)) && error.contains(problem),
            "{error}"
        );
    }
}

#[test]
fn a_table_of_hit_rates_that_no_popularity_has_is_named() {
    let rows = [
        ("[]", "must end with [100, 100]: a cache of all places hits always"),
        ("[[1, 30], [10, 62]]", "must end with [100, 100]: a cache of all places hits always"),
        ("[[1, 30], [100, 99]]", "must end with [100, 100]: a cache of all places hits always"),
        ("[[10, 30], [10, 62], [100, 100]]", "each cache larger than the last"),
        ("[[10, 62], [1, 30], [100, 100]]", "each cache larger than the last"),
        ("[[0, 30], [100, 100]]", "each cache larger than the last"),
        ("[[-1, 30], [100, 100]]", "each cache larger than the last"),
        ("[[1, 62], [10, 30], [100, 100]]", "no fewer hits"),
        ("[[nan, 30], [100, 100]]", "each cache larger than the last"),
        ("[[1, 120], [100, 100]]", "no fewer hits"),
        // Places and hits are the wrong way round, as zones have them.
        ("[[30, 1], [62, 10], [100, 100]]", "must gain no more for each percent of space from row to row"),
        ("[[1, 0.5], [100, 100]]", "must gain no more for each percent of space from row to row"),
    ];
    for (table, problem) in rows {
        let text = format!(
            "{HEAD}[places]\ndistribution = 'hit-rates'\nscrambled = true\nhit_rates = {table}\n{LINE}"
        );
        let error = Workload::from_toml("mine.toml", &text).unwrap_err().to_string();
        let line = HEAD.matches('\n').count() + 4;
        assert!(
            error.starts_with(&format!("mine.toml:{line}: workload 'mine': hit_rates must")),
            "{table}: {error}"
        );
        assert!(error.contains(problem), "{table}: {error}");
    }
    let keys = [
        (
            "distribution = 'zipf'\ntheta = 1\nhit_rates = [[100, 100]]",
            "hit_rates belongs to distribution = \"hit-rates\": leave it out",
        ),
        (
            "distribution = 'hit-rates'\nscrambled = true",
            "hit_rates is missing for this distribution: add it",
        ),
        ("distribution = 'hit-rates'\nhit_rates = [[100, 100]]", "scrambled is missing: write true if"),
    ];
    for (text, problem) in keys {
        let error = Workload::from_toml("mine.toml", &format!("{HEAD}[places]\n{text}\n{LINE}"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("mine.toml") && error.contains(problem), "{error}");
    }
    for table in ["[[100, 100]]", "[[62.1, 62.1], [62.2, 62.2], [100, 100]]", "[[5, 100], [100, 100]]"] {
        read(&format!(
            "{HEAD}[places]\ndistribution = 'hit-rates'\nscrambled = true\nhit_rates = {table}\n{LINE}"
        ));
    }
}

#[test]
fn every_built_in_workload_is_written_as_it_reads() {
    for workload in builtin_workloads() {
        assert_eq!(read(&workload.to_toml()), workload);
    }
}

#[test]
fn actors_that_make_no_sense_are_named() {
    let part = |text: &str| format!("[[part]]\nname = 'a'\n{text}");
    let accelerator = "[part.accelerator]\nbatch = 4\ncompute = '1ms'\nsample_size = '1MiB'\n";
    let rows = [
        (
            part("[part.log]\nclients = 0\nappend_size = '1KiB'\n"),
            "workload 'mine/a': clients must be above 0",
        ),
        (
            part("[part.checkpoint]\nwriter_size = '1GiB'\npauses = 'b'\n"),
            "workload 'mine/a': pauses must be the name of a part with accelerators",
        ),
        (
            part("[part.compaction]\nruns = 2\nfollows = 'a'\n"),
            "workload 'mine/a': follows must be the name of another part, one that writes",
        ),
        (
            part(
                "[part.compaction]\nruns = 2\nfollows = 'b'\n[[part]]\nname = 'b'\n[[part.line]]\nsize = '4KiB'\nshare_pct = 100\nread_pct = 100\nrandom_pct = 0\n",
            ),
            "workload 'mine/a': follows must be the name of another part, one that writes",
        ),
        (
            part(&format!("iodepth = 4\n{accelerator}")),
            "workload 'mine/a': arrival, limit, think, iodepth and flush_every are those of lines: the actor has its own",
        ),
        (
            part(&format!("[part.phase]\nevery = '1s'\n{accelerator}")),
            "workload 'mine/a': every needs lasts, how long the part is at work each time",
        ),
        (
            part(&format!(
                "{accelerator}[[part.line]]\nsize = '4KiB'\nshare_pct = 100\nread_pct = 0\nrandom_pct = 0\n"
            )),
            "workload 'mine/a': line and weight have no place beside an actor: give them a part of their own",
        ),
    ];
    for (text, expected) in rows {
        let error = Workload::from_toml("mine.toml", &format!("{HEAD}{text}")).unwrap_err();
        let expected = format!("mine.toml: {expected}");
        assert_eq!(without_line(&error.to_string(), &expected), expected);
    }
}

mod round_trips {
    use super::*;
    use crate::data::DataSpec;
    use crate::pacing::{ArrivalProcess, Arrivals, ClosedLoop, FlushRule, Pacing, RequestRate};
    use crate::places::{Distribution, FileOrder, HitRate, PlacedFiles, Places, Zone};
    use crate::rhythm::{OnOff, Rhythm, SelfSimilar, SpanLaw};
    use crate::spec::MixPart;
    use proptest::prelude::*;
    use raidlab_units::ByteCount;
    use std::num::NonZeroU32;

    fn lines() -> impl Strategy<Value = Vec<AccessLine>> {
        let line = (1u32.., 0u8..=100, 0u8..=100, 1u32.., proptest::option::of(0u32..), 0u32..5);
        proptest::collection::vec(line, 2).prop_map(|lines| {
            let line = |(bytes, read_pct, random_pct, burst, align_bytes, reply_bytes)| AccessLine {
                share_pct: 50,
                burst,
                align_bytes,
                reply_bytes,
                ..AccessLine::plain(bytes, read_pct, random_pct)
            };
            lines.into_iter().map(line).collect()
        })
    }

    fn places() -> impl Strategy<Value = Places> {
        let distribution = prop_oneof![
            Just(Distribution::Uniform),
            Just(Distribution::Shuffle),
            (0.001f64..100.0).prop_map(|theta| Distribution::Zipf { theta }),
            (0.001f64..0.499).prop_map(|h| Distribution::Pareto { h }),
            (0.0f64..=100.0, 0.001f64..100.0)
                .prop_map(|(mean_pct, deviation_pct)| Distribution::Normal { mean_pct, deviation_pct }),
            (0u8..=100, 1u8..100).prop_map(|(accesses, space)| {
                let (accesses_pct, space_pct) = (f64::from(accesses), f64::from(space));
                let rest = Zone { accesses_pct: 100.0 - accesses_pct, space_pct: 100.0 - space_pct };
                Distribution::Zones(vec![Zone { accesses_pct, space_pct }, rest])
            }),
            (0.0f64..1.0, 0.0f64..1.0, 0.001f64..=99.0).prop_map(|(one, other, cache_pct)| {
                let row = |cache_pct: f64, hits_pct: f64| HitRate { cache_pct, hits_pct };
                // The second is between what goes on as steeply as the first, and what is as steep as the rest.
                let (hits_pct, half) =
                    (cache_pct + (100.0 - cache_pct) * one, f64::midpoint(cache_pct, 100.0));
                let (least, most) =
                    (f64::midpoint(hits_pct, 100.0), (hits_pct / cache_pct * half).min(100.0));
                let second = row(half, least + (most - least) * other);
                Distribution::HitRates(vec![row(cache_pct, hits_pct), second, row(100.0, 100.0)])
            }),
        ];
        let size = proptest::option::of(1u64..1 << 60).prop_map(|size| size.map(ByteCount));
        let files = (1u32..=1 << 20, 1u32.., any::<bool>()).prop_map(|(count, burst, is_random)| {
            let order = if is_random { FileOrder::Random } else { FileOrder::InTurn };
            PlacedFiles { count, burst, order }
        });
        let files = prop_oneof![Just(PlacedFiles::default()), files];
        (distribution, any::<bool>(), 0u64..1 << 60, size, 0.001f64..=100.0, files).prop_map(
            |(distribution, scrambled, start, size, working_set_pct, files)| Places {
                start: ByteCount(start),
                size,
                working_set_pct,
                distribution,
                scrambled,
                files,
            },
        )
    }

    fn pacing() -> impl Strategy<Value = Pacing> {
        let rate = || (1u64..1_000_000_000_000).prop_map(|rate| RequestRate::new(rate as f64 / 1e6).unwrap());
        let open = (any::<bool>(), rate(), 1u32..).prop_map(|(poisson, rate, burst)| {
            let process = if poisson { ArrivalProcess::Poisson } else { ArrivalProcess::Fixed };
            Pacing::Open(Arrivals { process, rate, burst })
        });
        let bytes = proptest::option::of((1u64..1 << 60).prop_map(ByteCount));
        let closed =
            (0u64..1 << 50, proptest::option::of(rate()), bytes).prop_map(|(think, rate_max, bytes)| {
                Pacing::Closed(ClosedLoop { think: NanoSpan(think), rate_max, bytes_per_sec_max: bytes })
            });
        prop_oneof![open, closed]
    }

    fn rhythm() -> impl Strategy<Value = Rhythm> {
        let even = (1u64..1 << 40).prop_map(|hour| vec![hour * 100_000; 24]);
        let spans = prop_oneof![even, proptest::collection::vec(100_000u64..1 << 50, 0..4)];
        let on_off = (100_000u64..1 << 50, 100_000u64..1 << 50, any::<bool>());
        let similar = (0.501f64..0.999, 0.001f64..300.0, 100_000u64..1 << 50);
        (spans, 0.5f64..1e9, proptest::option::of(on_off), proptest::option::of(similar)).prop_map(
            |(spans, rate, on_off, similar)| Rhythm {
                steps: spans.into_iter().map(|span| (NanoSpan(span), rate)).collect(),
                on_off: on_off.map(|(on, off, is_fixed)| OnOff {
                    on: NanoSpan(on),
                    off: NanoSpan(off),
                    lengths: if is_fixed { SpanLaw::Fixed } else { SpanLaw::Exponential },
                }),
                self_similar: similar.map(|(hurst, variation_pct, interval)| SelfSimilar {
                    hurst,
                    variation_pct,
                    interval: NanoSpan(interval),
                }),
            },
        )
    }

    fn flush() -> impl Strategy<Value = Option<FlushRule>> {
        let rule = |(every, with_metadata)| {
            let every = NonZeroU32::new(every)?;
            Some(FlushRule { every, with_metadata })
        };
        (0u32..9, any::<bool>()).prop_map(rule)
    }

    proptest! {
        #[test]
        fn a_workload_is_written_as_it_reads(
            lines in lines(),
            places in places(),
            pacing in pacing(),
            rhythm in rhythm(),
            iodepth in proptest::option::of(1u32..),
            flush in flush(),
            (compressible_pct, dedupe_pct) in (0u8..=100, 0u8..=100),
            text in "\\PC{0,20}",
            is_mix in any::<bool>(),
            targets in prop::sample::select(vec![[0, 0], [1, 0], [1, 2], [2, 1], [1, 1]]),
        ) {
            let mut spec = AccessSpec::new(text.clone(), Vec::new());
            spec.data = DataSpec { compressible_pct, dedupe_pct };
            // A rate that is too low for its rhythm is refused.
            let rhythm = match pacing {
                Pacing::Open(arrivals) if rhythm.complaint(arrivals.rate).is_none() => rhythm,
                _ => Rhythm::default(),
            };
            if is_mix {
                let part = MixPart { name: text.clone(), weight: None, lines, places, pacing, rhythm, iodepth, flush, ..MixPart::default() };
                let [other, own] = targets.map(NonZeroU32::new);
                let name = format!("not {text}");
                spec.parts =
                    vec![MixPart { name, target: other, ..part.clone() }, MixPart { target: own, ..part }];
            } else {
                (spec.lines, spec.places, spec.pacing, spec.rhythm) = (lines, places, pacing, rhythm);
                (spec.iodepth, spec.flush) = (iodepth, flush);
            }
            let block_bytes_published = vec![512, 65_536];
            let (title, source, notes) = (text.clone(), format!("'{text}'"), format!("\"{text}\\"));
            let workload =
                Workload { title, source, metric: Metric::MbPerS, notes, block_bytes_published, spec };
            prop_assert_eq!(read(&workload.to_toml()), workload);
        }
    }
}
