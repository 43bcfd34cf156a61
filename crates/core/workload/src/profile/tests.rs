//! The built-in workload files against the published tables, and bad files against their messages.

use super::*;
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
            .map(|&(bytes, share_pct)| AccessLine { share_pct, ..AccessLine::plain(bytes, read_pct, 100) })
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
    assert_eq!(workloads.len(), ONE_LINE.len() + 2);
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
            "there is no workload 'databse': the nearest are storagebench-database, storagebench-database-log; or give the path of a .toml file",
        ),
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
}
