//! A file of each tool, what it means, and what is said of damaged ones.

use super::*;
use proptest::prelude::*;

/// What sysbench 1.0.20 printed.
const SYSBENCH: &str = include_str!("../../../tests/data/sysbench.txt");
const CRYSTAL: &str = "\
------------------------------------------------------------------------------
CrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo
------------------------------------------------------------------------------
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]
* KB = 1000 bytes, KiB = 1024 bytes

[Read]
  SEQ    1MiB (Q=  8, T= 1):  3562.334 MB/s [   3397.3 IOPS] <  2352.43 us>
  RND    4KiB (Q= 32, T=16):   812.456 MB/s [ 198353.5 IOPS] <   156.37 us>

[Write]
  RND    4KiB (Q=  1, T= 1):   150.102 MB/s [  36646.0 IOPS] <    27.11 us>

[Mix] Read 70%/Write 30%
  RND    4KiB (Q=  1, T= 1):    75.000 MB/s [  18310.5 IOPS] <    54.00 us>

Profile: Default [+Mix]
   Date: 2021/12/15 10:00:00
";
const CRYSTAL_6: &str = "\
CrystalDiskMark 6.0.2 x64 (C) 2007-2018 hiyohiyo
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]

   Sequential Read (Q= 32,T= 1) :  3480.519 MB/s
  Random Read 4KiB (Q=  8,T= 8) :  1247.466 MB/s [ 304557.1 IOPS]
 Random Write 4KiB (Q=  1,T= 1) :    98.640 MB/s [  24082.0 IOPS]

  Date : 2018/11/20 21:09:25
";
const SYSBENCH_04: &str = "\
sysbench 0.4.12:  multi-threaded system evaluation benchmark

Number of threads: 16
Block size 16Kb
Using synchronous I/O mode
Doing random r/w test

Operations performed:  6004 Read, 3997 Write, 12800 Other = 22801 Total
Read 93.812Mb  Written 62.453Mb  Total transferred 156.27Mb  (25.938Mb/sec)
 1660.01 Requests/sec executed

Test execution summary:
    total time:                          6.0247s
    total number of events:              10001
    total time taken by event execution: 27.1985
    per-request statistics:
         min:                                  0.01ms
         avg:                                  2.72ms
         max:                                240.42ms
         approx.  95 percentile:              10.53ms
";
const SYSBENCH_11: &str = "\
sysbench 1.1.0-ead2689 (using bundled LuaJIT 2.1.0-beta3)

Number of threads: 8
Block size 16KiB
Using synchronous I/O mode
Doing random r/w test

Throughput:
         read:  IOPS=6622.34 103.47 MiB/s (108.50 MB/s)
         write: IOPS=4414.89 68.98 MiB/s (72.33 MB/s)
         fsync: IOPS=14132.41

Latency (ms):
         min:                                  0.00
         avg:                                  0.32
         max:                                 20.52
";
const DISKSPD: &str = "<Results><System><ComputerName>A</ComputerName><Tool><Version>2.1</Version><VersionString>2.1.0-dev</VersionString></Tool></System>\
<Profile><TimeSpans><TimeSpan><Duration>30</Duration><Targets><Target><Path>c:\\test.dat</Path><BlockSize>8192</BlockSize><Random>8192</Random>\
<WriteRatio>30</WriteRatio><RequestCount>8</RequestCount><ThreadsPerFile>4</ThreadsPerFile></Target></Targets></TimeSpan></TimeSpans></Profile>\
<TimeSpan><TestTimeSeconds>30.00</TestTimeSeconds><ThreadCount>4</ThreadCount><Latency><AverageReadMilliseconds>0.500</AverageReadMilliseconds>\
<AverageWriteMilliseconds>1.5</AverageWriteMilliseconds><AverageTotalMilliseconds>0.8</AverageTotalMilliseconds>\
<Bucket><Percentile>50</Percentile><TotalMilliseconds>0.4</TotalMilliseconds></Bucket><Bucket><Percentile>99</Percentile><TotalMilliseconds>5.25</TotalMilliseconds></Bucket></Latency>\
<Thread><Id>0</Id><Target><Path>c:\\test.dat</Path><ReadBytes>1720320000</ReadBytes><ReadCount>210000</ReadCount><WriteBytes>737280000</WriteBytes><WriteCount>90000</WriteCount></Target></Thread></TimeSpan></Results>";
const ELBENCHO: &str = "\
ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,random aligned,IO depth,shared paths,truncate,operation,time ms [first],time ms [last],CPU% [first],CPU% [last],IOPS [first],IOPS [last],MiB/s [first],MiB/s [last],IO lat us [min],IO lat us [avg],IO lat us [max],version,command
2026-11-28T20:00:00.000+0000,a,file,1,1,2,,,1G,4K,1,1,1,16,0,0,WRITE,900,1000,10,11,250000,244000,976,953,50,131,9000,3.0,\"elbencho -w\"
2026-11-28T20:00:02.000+0000,a,file,1,1,2,,,1G,4K,1,1,1,16,0,0,READ,900,1000,10,11,250000,262144,976,1024,50,122,8000,3.0,\"elbencho -r\"
";
const VDBENCH: &str = "<pre>\n* note\n\
tod timestamp Run Interval reqrate rate MB/sec bytes/io read% resp read_resp write_resp resp_max read_max write_max xfersize threads rdpct seekpct version\n\
12:00:01.000 x rd1 1 max 1000.00 7.81 8192 70.00 1.0 0.9 1.2 9.0 8.0 9.0 8192 16 70 100 50407\n\
12:00:02.000 x rd1 avg_2-3 max 2000.00 15.62 8192 75.00 1.1 1.0 1.4 9.5 8.0 9.5 8192 16 75 100 50407\n";

fn runs(text: &str) -> ForeignResults {
    others(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Name, depth, reads and writes per second, mean in us, 99th percentile in us, bytes of a request, percent random.
type Told = (String, u32, u64, u64, u64, u64, u32, u8);

fn told(results: &ForeignResults) -> Vec<Told> {
    let one = |it: &ForeignRun| {
        let ops = &it.run.ops;
        let (bytes, random_pct) = it.run.lines.first().map_or((0, 0), |line| (line.bytes, line.random_pct));
        let us = |ns: f64| (ns / 1e3).round() as u64;
        let (mean, p99) = (us(ops.total.lat_ns_mean), us(ops.total.lat_ns_p99 as f64));
        let (reads, writes) = (ops.read.iops.0.round() as u64, ops.write.iops.0.round() as u64);
        (it.run.workload.clone(), it.run.iodepth, reads, writes, mean, p99, bytes, random_pct)
    };
    results.runs.iter().map(one).collect()
}

#[test]
fn each_tool_is_read_as_it_means_it() {
    let row = |name: &str, depth, reads, writes, mean, p99, bytes, random| {
        (name.to_owned(), depth, reads, writes, mean, p99, bytes, random)
    };
    let rows = [
        (SYSBENCH, "sysbench 1.0.20", vec![row("random r/w", 4, 9075, 3025, 0, 0, 16_384, 100)]),
        (
            CRYSTAL,
            "CrystalDiskMark 8.0.4",
            vec![
                row("SEQ 1MiB Read", 8, 3397, 0, 2352, 0, 1 << 20, 0),
                row("RND 4KiB Read", 512, 198_354, 0, 156, 0, 4096, 100),
                row("RND 4KiB Write", 1, 0, 36_646, 27, 0, 4096, 100),
                row("RND 4KiB Mix", 1, 12_817, 5493, 54, 0, 4096, 100),
            ],
        ),
        (
            CRYSTAL_6,
            "CrystalDiskMark 6.0.2",
            vec![
                row("Sequential Read", 32, 0, 0, 0, 0, 0, 0),
                row("Random Read 4KiB", 64, 304_557, 0, 0, 0, 4096, 100),
                row("Random Write 4KiB", 1, 0, 24_082, 0, 0, 4096, 100),
            ],
        ),
        (SYSBENCH_04, "sysbench 0.4.12", vec![row("random r/w", 16, 997, 663, 2720, 0, 16_384, 100)]),
        (SYSBENCH_11, "sysbench 1.1.0-ead2689", vec![row("random r/w", 8, 6622, 4415, 0, 0, 16_384, 100)]),
        (DISKSPD, "diskspd 2.1.0-dev", vec![row("diskspd", 32, 7000, 3000, 800, 5250, 8192, 100)]),
        (
            ELBENCHO,
            "elbencho",
            vec![
                row("a WRITE", 32, 0, 244_000, 131, 0, 4096, 100),
                row("a READ", 32, 262_144, 0, 122, 0, 4096, 100),
            ],
        ),
        (VDBENCH, "vdbench 50407", vec![row("rd1", 16, 1500, 500, 1100, 0, 8192, 100)]),
    ];
    for (text, program, expected) in rows {
        let found = runs(text);
        assert_eq!((found.program.as_str(), told(&found)), (program, expected));
        let lacks = &found.runs[0].run.settings["lacks"];
        assert!(lacks.contains("the course over time"), "{program}: {lacks}");
    }
}

/// The rows of its intervals are the course; their times, or columns of their own, are the length.
#[test]
fn vdbench_tells_length_and_course() {
    let average = VDBENCH.lines().last().unwrap();
    let rows = |times: [&str; 3]| -> String {
        let interval = |(number, time): (usize, &str)| {
            format!(
                "{time} x rd1 {number} max {number}000.00 7.81 8192 75.00 1.{number} 0.9 1.2 9.{number} 8.0 9.0 8192 16 70 100 50407\n"
            )
        };
        (1..).zip(times).map(interval).collect()
    };
    let head = VDBENCH.lines().nth(2).unwrap();
    let run = |text: &str| runs(text).runs.remove(0).run;
    for times in
        [["12:00:01.003", "12:00:06.001", "12:00:11.002"], ["23:59:57.0", "00:00:02.0", "00:00:07.0"]]
    {
        let run = run(&format!("{head}\n{}{average}\n", rows(times)));
        assert_eq!((run.window_ns, run.ops.total.requests), (10_000_000_000, 20_000));
        let series = run.series.expect("rows of intervals");
        assert_eq!((series.interval_ns, &series.total.requests[..]), (5_000_000_000, &[10_000, 15_000][..]));
        assert_eq!((&series.total.lat_ns_mean[..], series.read.len()), (&[1_200_000, 1_300_000][..], 0));
        let lacks = &run.settings["lacks"];
        assert!(!lacks.contains("course") && !lacks.contains("length of the run"), "{lacks}");
    }
    for (column, value) in [("interval", "2"), ("elapsed", "6")] {
        let text = format!("{head} {column}\n{average} {value}\n");
        let run = run(&text);
        assert_eq!((run.window_ns, run.series), (4_000_000_000, None), "{column}");
    }
    // A row is missing: the length is known, and the course is not.
    let cut = rows(["12:00:01.003", "12:00:06.001", "12:00:11.002"])
        .lines()
        .step_by(2)
        .collect::<Vec<_>>()
        .join("\n");
    let run = run(&format!("{head}\n{cut}\n{average}\n"));
    assert_eq!((run.window_ns, run.series), (10_000_000_000, None));
}

/// A name of a zone was read as UTC in silence.
#[test]
fn a_clock_without_a_known_zone_is_said() {
    let ten = 1_639_562_400_000;
    let hour = 3_600_000;
    for (text, at, lacks) in [
        ("12/15/2021-10:00:00-CEST", ten - 2 * hour, None),
        ("12/15/2021-10:00:00-CET", ten - hour, None),
        ("12/15/2021-10:00:00-PDT", ten + 7 * hour, None),
        (
            "12/15/2021-10:00:00-CST",
            ten,
            Some("the time zone of its start ('CST' stands for several; its clock is taken for UTC)"),
        ),
        ("12/15/2021-10:00:00-GMT+05:30", ten - 5 * hour - hour / 2, None),
        ("2021-12-15T10:00:00.000-0800", ten + 8 * hour, None),
        ("2021/12/15 10:00:00 UTC", ten, None),
        ("2021-12-15T10:00:00Z", ten, None),
        ("2021/12/15 10:00:00", ten, Some("the time zone of its start (its clock is taken for UTC)")),
    ] {
        let expected = Stamp { unix_ms: at, lacks: lacks.map(str::to_owned) };
        assert_eq!(stamp(text), Some(expected), "{text}");
    }
    let run = runs(&VDBENCH.replace(" x rd1 1 ", " 12/15/2021-10:00:00-CST rd1 1 ")).runs.remove(0).run;
    assert!(run.settings["lacks"].contains("'CST'"), "{}", run.settings["lacks"]);
}

/// Since 1.0 sysbench's latency is that of reads, writes and flushes together.
#[test]
fn flushes_of_sysbench_are_kept_and_their_latency_is_none_of_reads() {
    let together = SYSBENCH_04.replace("events:              10001", "events:              22801");
    for (text, flushes) in [(together.as_str(), 2125), (SYSBENCH_11, 14_132)] {
        let run = runs(text).runs.remove(0).run;
        let flush = run.ops.others.flush.expect("it flushed");
        assert_eq!((flush.iops.0.round() as u64, run.ops.total.lat_ns_mean), (flushes, 0.0));
        assert!(run.settings["latency of reads, writes and flushes together"].starts_with("mean "));
    }
    // Events of 0.4 are reads and writes, and all it did is counted.
    let run = runs(SYSBENCH_04).runs.remove(0).run;
    let flush = run.ops.others.flush.expect("it flushed");
    let counts = [run.ops.read.requests, run.ops.write.requests, flush.requests, run.ops.total.requests];
    assert_eq!((counts, flush.lat_ns_mean), ([6004, 3997, 12_800, 10_001], 0.0));
    assert_eq!(run.settings["95th percentile of the latency"], "10.53 ms");
    let alone = SYSBENCH_11.replace("fsync: IOPS=14132.41", "fsync: IOPS=0.00");
    let alone = alone
        .replace("max:                                 20.52", "max: 20.52\n         95th percentile: 2.5");
    let run = runs(&alone).runs.remove(0).run;
    assert_eq!(run.ops.total.lat_ns_mean, 320_000.0);
    assert_eq!(run.settings["95th percentile of the latency"], "2.5 ms");
    assert!(run.settings["lacks"].contains("the 99th percentile"), "{}", run.settings["lacks"]);
}

/// Its name alone makes no file that of a tool.
#[test]
fn a_word_in_a_file_is_no_mark() {
    for text in ["# like CrystalDiskMark\n[a]\nrw=read\n", "{\n\"program\": \"\nCrystalDiskMark 8\"}"] {
        assert_eq!(other_tool(text), None, "{text}");
    }
    assert_eq!(other_tool(&format!("\u{feff}{CRYSTAL_6}")), Some("CrystalDiskMark"));
}

/// As diskspd 2.2 writes it: a count for the time span before that of the target, attributes, two targets.
#[test]
fn diskspd_has_counts_of_spans_and_targets() {
    let of_span = DISKSPD
        .replace("<Duration>30", "<ThreadCount>0</ThreadCount><RequestCount>0</RequestCount><Duration>30");
    let attributes = of_span.replace("<Latency>", "<Latency ReadHistoBuckets=\"100\">");
    let longest = "<Bucket><Percentile>100</Percentile><ReadMilliseconds>7</ReadMilliseconds><TotalMilliseconds>9</TotalMilliseconds></Bucket></Latency>";
    let found = runs(&attributes.replace("</Latency>", longest)).runs.remove(0).run;
    let maxima = (found.ops.total.lat_ns_max, found.ops.read.lat_ns_max, found.ops.write.lat_ns_max);
    assert_eq!((found.iodepth, maxima), (32, (9_000_000, 7_000_000, 0)));
    assert!(
        found.settings["lacks"].contains("percentiles of reads and writes apart"),
        "{}",
        found.settings["lacks"]
    );

    let shared = of_span.replace(
        "<ThreadCount>0</ThreadCount><RequestCount>0",
        "<ThreadCount>2</ThreadCount><RequestCount>5",
    );
    assert_eq!(runs(&shared).runs[0].run.iodepth, 10, "-F2 -O5");

    let second = "<Target><Path>e:</Path><BlockSize>65536</BlockSize><StrideSize>65536</StrideSize><RequestCount>1</RequestCount>\
                  <ThreadsPerFile>1</ThreadsPerFile></Target></Targets>";
    let measured = "<Thread><Target><Path>e:</Path><ReadBytes>0</ReadBytes><ReadCount>0</ReadCount><WriteBytes>6553600000</WriteBytes>\
                    <WriteCount>100000</WriteCount></Target></Thread></TimeSpan></Results>";
    let two = of_span.replace("</Targets>", second).replace("</TimeSpan></Results>", measured);
    let found = runs(&two).runs.remove(0).run;
    let lines: Vec<_> =
        found.lines.iter().map(|it| (it.bytes, it.share_pct, it.read_pct, it.random_pct)).collect();
    assert_eq!((found.iodepth, &lines[..]), (33, &[(8192, 75, 70, 100), (65_536, 25, 0, 0)][..]));
    assert_eq!(found.target, "c:\\test.dat, e: (diskspd 2.1.0-dev)");
}

/// Each of several documents has its own options, version and date.
#[test]
fn files_that_were_put_together_are_read_one_by_one() {
    let second = DISKSPD
        .replace("<BlockSize>8192", "<BlockSize>4096")
        .replace("<Random>8192", "<Random>65536")
        .replace("<RequestCount>8", "<RequestCount>2");
    let found = runs(&format!("{DISKSPD}\n{second}"));
    let options: Vec<_> = found
        .runs
        .iter()
        .map(|it| (it.run.iodepth, it.run.lines[0].bytes, it.run.lines[0].align_bytes))
        .collect();
    assert_eq!(options, [(32, 8192, None), (8, 4096, Some(65_536))]);
    let cut =
        others(&format!("{DISKSPD}\n{}", second.replace("</Results>", ""))).expect_err("cut").to_string();
    assert!(cut.starts_with("its XML is not whole"), "{cut}");

    let found = runs(&format!("{CRYSTAL}\n{CRYSTAL_6}"));
    assert_eq!(found.program, "CrystalDiskMark 8.0.4, CrystalDiskMark 6.0.2");
    let each: Vec<_> = found
        .runs
        .iter()
        .map(|it| {
            (it.run.settings["measured by"].as_str(), it.started_at_unix_ms.unwrap_or(0) / 1_000_000_000)
        })
        .collect();
    let (of_8, of_6) = (("CrystalDiskMark 8.0.4", 1639), ("CrystalDiskMark 6.0.2", 1542));
    assert_eq!(each, [of_8, of_8, of_8, of_8, of_6, of_6, of_6]);

    let prepared = "sysbench 1.0.20 (using system LuaJIT 2.1.0)\n\n4 files, 16384Kb each, 64Mb total\nCreating files for the test...\n";
    let found =
        runs(&format!("$ sysbench fileio prepare\n{prepared}{SYSBENCH}\n{SYSBENCH_11}\n{SYSBENCH_04}"));
    let each: Vec<_> = found.runs.iter().map(|it| (it.run.iodepth, it.run.ops.read.iops.0.round())).collect();
    assert_eq!(each, [(4, 9075.0), (8, 6622.0), (16, 997.0)]);
    let cut = format!("{SYSBENCH}\n{}", SYSBENCH_11.replace("avg:", ""));
    let cut = others(&cut).expect_err("cut").to_string();
    assert!(cut.starts_with("output 2: it does not say 'avg:'"), "{cut}");

    // elbencho's second file has other columns; vdbench's runs of one name are two.
    let other = "operation,ISO date,time ms [last],threads,block size,IOPS [last],MiB/s [last]\n";
    let head = "operation,threads,time ms [last],block size,IOPS [last],MiB/s [last]\n";
    let found = runs(&format!(
        "{head}READ,2,1000,4K,100,0.4\n{other}READ,2026-11-28T20:00:00.000+0000,1000,4,4K,200,0.8\n"
    ));
    let each: Vec<_> = found.runs.iter().map(|it| (it.run.iodepth, it.run.ops.read.iops.0)).collect();
    assert_eq!(each, [(2, 100.0), (4, 200.0)]);
}

/// A digit of `avg:` is 10 us: the sum of all says more; the number of requests is told.
#[test]
fn sysbench_tells_sums_and_counts() {
    let fast = SYSBENCH
        .replace("fsyncs/s:                     488.77", "fsyncs/s:                     0.00")
        .replace("total number of events:              37794", "total number of events:              877986")
        .replace(
            "avg:                                    0.32",
            "avg:                                    0.00",
        )
        .replace("11910.97", "5216.29");
    let total = runs(&fast).runs.remove(0).run.ops.total;
    assert_eq!((total.requests, total.lat_ns_mean.round()), (877_986, 5941.0));
    let without = runs(&fast.replace("         sum: ", "         total: ")).runs.remove(0).run;
    assert_eq!(without.ops.total.lat_ns_mean, 0.0);
    assert!(without.settings["lacks"].contains("latencies"), "{}", without.settings["lacks"]);
}

#[test]
fn elbencho_quotes_cells_with_commas() {
    let quoted = ELBENCHO.replace(",a,file", ",\"a, b\",file");
    let names: Vec<String> = runs(&quoted).runs.iter().map(|it| it.run.workload.clone()).collect();
    assert_eq!(names, ["a, b WRITE", "a, b READ"]);
}

/// In silence.
#[test]
fn phases_that_move_nothing_are_told() {
    let deleted = ELBENCHO
        .lines()
        .last()
        .unwrap()
        .replace("READ,900,1000,10,11,250000,262144,976,1024", "RMFILES,900,1000,10,11,,,,");
    let found = others(&format!("{ELBENCHO}{deleted}\n")).unwrap();
    assert_eq!(
        (found.runs.len(), found.notes),
        (2, vec!["a RMFILES moved no data, and is left out".to_owned()])
    );
    assert!(others(ELBENCHO).unwrap().notes.is_empty());
}

#[test]
fn elbencho_tells_reads_of_mixes_apart() {
    let head = "operation,time ms [last],threads,IO depth,block size,random,IOPS [last],MiB/s [last],IO lat us [avg],\
                rwmix read IOPS [last],rwmix read MiB/s [last],rwmix read IO lat us [avg]";
    for operation in ["RWMIX70", "MIX-T2"] {
        let found = runs(&format!("{head}\n{operation},1000,2,1,4K,1,3000,11.7,40,7000,27.3,440\n"));
        assert_eq!(told(&found), [(operation.to_owned(), 2, 7000, 3000, 320, 0, 4096, 100)]);
        assert_eq!(found.runs[0].run.lines[0].read_pct, 70);
    }
}

/// Rows of all versions, and none that can't be read goes by in silence.
#[test]
fn crystal_disk_mark_has_words_of_its_own_in_each_version() {
    let of_7 = CRYSTAL
        .replace("8.0.4", "7.0.0")
        .replace("  SEQ    1MiB", "  Sequential 1MiB")
        .replace("  RND    4KiB", "  Random 4KiB");
    assert_eq!(told(&runs(&of_7))[0].0, "Sequential 1MiB Read");
    assert_eq!(told(&runs(&of_7))[1..], told(&runs(&CRYSTAL.replace("RND ", "Random ")))[1..]);
    let of_3 = "CrystalDiskMark 3.0.4 x64 (C) 2007-2013 hiyohiyo\n           Sequential Read :   520.123 MB/s\n          Sequential Write :   480.0 MB/s\n\
                \x20        Random Read 512KB :   400.0 MB/s\n   Random Read 4KB (QD=32) :   300.0 MB/s [ 73242.2 IOPS]\n  Date : 2013/11/20 21:09:25\n";
    let found = runs(of_3);
    let rates: Vec<(String, u32, f64, f64)> = found
        .runs
        .iter()
        .map(|it| {
            (
                it.run.workload.clone(),
                it.run.iodepth,
                it.run.ops.total.bytes_per_sec.0 / 1e6,
                it.run.ops.write.bytes_per_sec.0 / 1e6,
            )
        })
        .collect();
    let row = |name: &str, depth, all, written| (name.to_owned(), depth, all, written);
    assert_eq!(
        rates,
        [
            row("Sequential Read", 1, 520.123, 0.0),
            row("Sequential Write", 1, 480.0, 480.0),
            row("Random Read 512KB", 1, 400.0, 0.0),
            row("Random Read 4KB", 32, 300.0, 0.0)
        ]
    );
    let lacks = &found.runs[0].run.settings["lacks"];
    assert!(lacks.contains("requests per second") && lacks.contains("the length of requests"), "{lacks}");
    let other =
        others(&of_3.replace("Random Read 512KB", "Zigzag Read 512KB")).expect_err("no such row").to_string();
    assert!(other.starts_with("line 4: no figures of a test: 'Zigzag"), "{other}");
}

/// A file's own date is the start; one without any has none.
#[test]
fn a_run_starts_when_its_file_says() {
    let at = |text: &str| runs(text).runs.iter().map(|it| it.started_at_unix_ms).collect::<Vec<_>>();
    assert_eq!(at(CRYSTAL), [Some(1_639_562_400_000); 4]);
    assert_eq!(at(ELBENCHO), [Some(1_795_896_000_000), Some(1_795_896_002_000)]);
    assert_eq!(at(&ELBENCHO.replace("+0000", "+0100"))[0], Some(1_795_892_400_000));
    let dated = DISKSPD.replace("<Tool>", "<RunTime>2021/12/15 10:00:00 UTC</RunTime><Tool>");
    assert_eq!(at(&dated), [Some(1_639_562_400_000)]);
    assert_eq!(
        at(&VDBENCH.replace(" x rd1 1 ", " 12/15/2021-10:00:00-CET rd1 1 ")),
        [Some(1_639_558_800_000)]
    );
    for text in [DISKSPD, VDBENCH, SYSBENCH, SYSBENCH_04] {
        assert_eq!(at(text), [None]);
    }
}

/// A figure that is none is empty, and never damages what is kept.
#[test]
fn no_numbers_are_no_figures() {
    let nan = runs(&ELBENCHO.replace(",122,", ",NaN,"));
    assert_eq!((nan.runs.len(), nan.runs[1].run.ops.total.lat_ns_mean), (2, 0.0));
    assert!(nan.runs[1].run.settings["lacks"].contains("latencies"));
    let resp = VDBENCH.replace("75.00 1.1 1.0", "75.00 1.1 NaN");
    let run = &runs(&resp).runs[0].run;
    assert_eq!((run.ops.read.lat_ns_mean, run.ops.total.lat_ns_mean), (0.0, 1.1e6));
    let of_both = &runs(&resp.replace("75.00 1.1 NaN", "75.00 NaN 1.0")).runs[0].run;
    assert_eq!(of_both.ops.total.lat_ns_mean, 1.1e6, "reads and writes by their rates");
    for (text, expected) in [
        (ELBENCHO.replace("262144", "-4195"), "line 3: IOPS [last] is '-4195', which is no rate"),
        (VDBENCH.replace(" 2000.00 ", " 9e307 "), "line 5: rate is '9e307', which is no rate"),
    ] {
        assert_eq!(others(&text).expect_err(expected).to_string(), expected);
    }
    let sizes = &runs(&VDBENCH.replace("8192 16 75", "n/a 16 75")).runs[0].run;
    assert!(sizes.lines.is_empty() && sizes.settings["lacks"].contains("the length of requests"));
    let places = &runs(&VDBENCH.replace("75 100 50407", "75 some 50407")).runs[0].run;
    assert!(places.lines.is_empty() && places.settings["lacks"].contains("whether places were random"));
    let asynchronous = &runs(&SYSBENCH.replace("Using synchronous", "Using asynchronous")).runs[0].run;
    assert!(asynchronous.iodepth == 0 && asynchronous.settings["lacks"].contains("the queue depth"));
}

#[test]
fn what_is_not_whole_is_said() {
    let rows = [
        (DISKSPD.replace("</Results>", ""), "its XML is not whole"),
        // What was no figure was left out, and the rest told as all.
        (
            DISKSPD.replace("<ReadCount>210000", "<ReadCount>-210000"),
            "its <ReadCount> is '-210000', which is no figure",
        ),
        (
            DISKSPD.replace("<WriteBytes>737280000", "<WriteBytes>"),
            "its <WriteBytes> is '', which is no figure",
        ),
        (DISKSPD.replace("WriteCount", "WriteCnt"), "it has no <WriteCount> beside what was moved"),
        (DISKSPD.replace("30.00", "0"), "a <TimeSpan> has no <TestTimeSeconds> above zero"),
        (SYSBENCH.replace("writes/s:", ""), "it does not say 'writes/s:'"),
        (ELBENCHO.replace(",122,8000,3.0,\"elbencho -r\"", ""), "line 3 has 26 cells where the head has 30"),
        (CRYSTAL.replace("[   3397.3 IOPS]", ""), "line 8: no figures of a test: 'SEQ    1MiB"),
        (VDBENCH.replace(" 75 100 50407", ""), "line 5 has 17 cells where the head has 20"),
        (
            CRYSTAL.replace("   Date: 2021/12/15 10:00:00\n", ""),
            "it is not whole: the lines 'Test', 'Date' and 'OS'",
        ),
        (SYSBENCH[..SYSBENCH.find("Latency").unwrap()].to_owned(), "it does not say 'avg:' of the latency"),
        ("CrystalDiskMark 8".to_owned(), "there are no results in it"),
        ("hello".to_owned(), "it is of no tool that is known"),
    ];
    for (text, expected) in rows {
        let error = others(&text).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_results_are_bearable(which in 0..5usize, at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = [SYSBENCH, CRYSTAL, DISKSPD, ELBENCHO, VDBENCH][which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        bytes.truncate(cut.index(bytes.len()).max(bytes.len() / 2));
        let _ = others(&String::from_utf8_lossy(&bytes));
    }
}
