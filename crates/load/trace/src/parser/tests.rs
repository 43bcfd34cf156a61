//! Formats line by line: a corpus of quirks, round trips, and invalid input.

use super::*;
use crate::iolog::IologWriter;
use proptest::prelude::*;
use std::cell::Cell;
use std::fmt::Write as _;

use TraceKind::{Flush, Read, Trim, Write};

/// Kind, device, time, offset, length, response.
type Row = (TraceKind, u16, u64, u64, u64, Option<u64>);

fn rows(format: TraceFormat, options: ParseOptions, text: &str) -> Result<Vec<Row>, (usize, LineProblem)> {
    let mut parser = TraceParser::new(format, options);
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let first = parser.line(line).map_err(|problem| (number, problem))?;
        let all = first.into_iter().chain(parser.second());
        rows.extend(
            all.map(|r| (r.kind, r.device, r.time_ns, r.offset_bytes, r.length_bytes, r.response_ns)),
        );
    }
    Ok(rows)
}

fn plain(format: TraceFormat, text: &str) -> Vec<Row> {
    rows(format, ParseOptions::default(), text).unwrap_or_else(|error| panic!("{format}: {error:?}"))
}

const BLKPARSE: &str = "\
Input file sda.blktrace.0 added
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002000     0  m   N cfq697A activate rq, drv=1
  8,0    3        4     0.000002500   697  P   N [kjournald]
  8,0    3        5     0.000003000   697  A  WS 5 + 8 <- (8,1) 1
  8,0    3        6     0.000004000   697  U   N [kjournald] 1
  8,0    1        7     0.000005000   697  D   W 223490 + 16 (     918) [kjournald]
  8,0    1        8     0.000006000     0  C   W 223490 + 16 (    8134) [0]
259,1   12        9     0.000007000   701  Q  RA 8 + 256 [a name with 1 + 2 blanks]
  8,0    1       10     0.000008000   702  Q FWFSM 100 + 1 [jbd2/sda1-8]
  8,0    1       11     0.000009000   702  Q FWS [jbd2/sda1-8]
  8,0    1       12     0.000009500   702  Q FN 0 + 0 [x]
  8,0    1       13     1.000000010   702  Q  DS 2048 + 4096 [fstrim]
  8,0    1       14     1.000000020   702  Q   R 36 (12 00 00 00 24 00 ..) [scsi_id]
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:         223,      892KiB

Total (8,0):
Events (8,0): 14 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn blkparse_with_all_its_lines() {
    let queued = [
        (Write, 0, 1829, 223_490 * 512, 4096, None),
        (Read, 1, 7000, 4096, 131_072, None),
        (Flush, 0, 8000, 0, 0, None),
        (Write, 0, 8000, 51_200, 512, None),
        (Flush, 0, 9000, 0, 0, None),
        (Flush, 0, 9500, 0, 0, None),
        (Trim, 0, 1_000_000_010, 2048 * 512, 4096 * 512, None),
    ];
    assert_eq!(plain(TraceFormat::Blkparse, BLKPARSE), queued);
    for (action, time_ns) in [(BlkAction::Dispatched, 5000), (BlkAction::Completed, 6000)] {
        let options = ParseOptions { action, ..ParseOptions::default() };
        let expected = [(Write, 0, time_ns, 223_490 * 512, 8192, None)];
        assert_eq!(rows(TraceFormat::Blkparse, options, BLKPARSE).unwrap(), expected);
    }
}

/// Issued, given back, issued again: one request.
#[test]
fn a_requeued_request_counts_once() {
    let line =
        |number: u32, action: &str| format!("8,0 1 {number} 0.00000{number}000 7 {action} R 8 + 8 [x]\n");
    let text = [line(1, "D"), line(2, "R"), line(3, "D"), line(4, "C"), line(5, "D"), line(6, "C")].concat();
    let options = ParseOptions { action: BlkAction::Dispatched, ..ParseOptions::default() };
    let times: Vec<u64> =
        rows(TraceFormat::Blkparse, options, &text).unwrap().iter().map(|row| row.2).collect();
    assert_eq!(times, [1000, 5000]);
    let perf = |events: &[(u32, &str)]| -> Vec<u64> {
        let line = |(number, event): &(u32, &str)| {
            format!("x 7 [001] 1.00000{number}: block:block_rq_{event}: 8,0 R 4096 () 8 + 8 [x]\n")
        };
        let text = events.iter().map(line).collect::<String>();
        plain(TraceFormat::Perf, &text).iter().map(|row| row.2 % 1_000_000 / 1000).collect()
    };
    let issued = [(1, "issue"), (2, "requeue"), (3, "issue"), (4, "complete"), (5, "issue"), (6, "complete")];
    assert_eq!(perf(&issued), [1, 5]);
    let inserted = [
        (1, "insert"),
        (2, "issue"),
        (3, "requeue"),
        (4, "insert"),
        (5, "issue"),
        (6, "complete"),
        (7, "insert"),
    ];
    assert_eq!(perf(&inserted), [1, 7]);
    // It went to the device again without being inserted; and where ends count, they do.
    assert_eq!(perf(&[(1, "insert"), (2, "requeue"), (3, "issue"), (4, "insert")]), [1, 4]);
    assert_eq!(perf(&[(1, "requeue"), (2, "complete"), (3, "complete")]), [2, 3]);
}

#[test]
fn what_is_lost_or_may_be_of_another_unit_is_told() {
    let notes = |format, options: ParseOptions, text: &str| {
        let mut parser = TraceParser::new(format, options);
        for line in text.lines() {
            parser.line(line).unwrap();
        }
        parser.notes().join("\n")
    };
    let plain = ParseOptions::default;
    assert!(notes(TraceFormat::Blkparse, plain(), BLKPARSE).contains("1 event is of no block request"));
    let spc = "0,8,4096,w,0.0\n0,16,0,R,0.01\n";
    assert!(notes(TraceFormat::Spc, plain(), spc).contains("1 request has no length"));
    let mqsim = "1000000 0 800 16 1\n1500000 0 1600 16 0\n";
    assert!(notes(TraceFormat::Disksim, plain(), mqsim).contains("--time-unit ns"));
    assert_eq!(notes(TraceFormat::Disksim, plain(), "0.0 0 8 8 1\n"), "");
    let options = ParseOptions { time_unit: Some(TimeUnit::Nanoseconds), ..plain() };
    assert_eq!(notes(TraceFormat::Disksim, options.clone(), mqsim), "");
    let times: Vec<u64> =
        rows(TraceFormat::Disksim, options, mqsim).unwrap().iter().map(|row| row.2).collect();
    assert_eq!(times, [1_000_000, 1_500_000]);
}

#[test]
fn tables_of_clouds_and_of_tracers_are_found_and_read() {
    let texts = [
        (
            TraceFormat::Alibaba,
            "device_id,opcode,offset,length,timestamp\n419,W,8792731648,16384,1577808144360767\n",
            (Write, 0, 1_577_808_144_360_767_000, 8_792_731_648, 16_384, None),
        ),
        (
            TraceFormat::Tencent,
            "1538323199,42932745,8,0,1283\n",
            (Read, 0, 1_538_323_199_000_000_000, 42_932_745 * 512, 4096, None),
        ),
        (
            TraceFormat::Systor,
            "Timestamp,Response,IOType,LUN,Offset,Size\n1455592806.420155,0.000304,R,3,123904,512\n",
            (Read, 0, 1_455_592_806_420_155_000, 123_904, 512, Some(304_000)),
        ),
        (
            TraceFormat::Systor,
            "1455592806.420155,,W,3,123904,512\n",
            (Write, 0, 1_455_592_806_420_155_000, 123_904, 512, None),
        ),
        (
            TraceFormat::Fiu,
            "89966104730008 4892 syslogd 904265560 8 W 6 0 531e779be\n",
            (Write, 0, 89_966_104_730_008, 904_265_560 * 512, 4096, None),
        ),
        (
            TraceFormat::Perf,
            "# a head\n fio 12 [001] 5.000001: block:block_rq_issue: 8,0 RA 4096 () 16 + 8 none,0,0 [fio]\n \
             fio 12 [001] 5.000002: block:block_rq_complete: 8,0 RA () 16 + 8 [0]\n",
            (Read, 0, 5_000_001_000, 8192, 4096, None),
        ),
        (
            TraceFormat::Perf,
            " fio-12 [001] d..1. 5.000001: block_bio_queue: 8,0 W 16 + 8 [a + b]\n",
            (Write, 0, 5_000_001_000, 8192, 4096, None),
        ),
    ];
    for (format, text, row) in texts {
        assert_eq!(text.lines().find_map(detect), Some(format), "{text}");
        assert_eq!(plain(format, text), [row], "{text}");
    }
    let flushed = "w 1 [0] 1.0: block:block_rq_issue: 8,0 FF 0 () 0 + 0 [w]\nw 1 [0] 2.0: block:block_rq_issue: 8,0 FWS 4096 () 8 + 8 [w]\n";
    let kinds: Vec<TraceKind> = plain(TraceFormat::Perf, flushed).iter().map(|row| row.0).collect();
    assert_eq!(kinds, [Flush, Flush, Write]);
}

#[test]
fn biosnoop_has_columns_by_options_and_kinds_by_tool() {
    let texts = [
        (
            "TIME(s)     COMM           PID    DISK      T  SECTOR    BYTES   LAT(ms)\n\
             0.000004    a b            1950   xvda1     W  13092560  4096       0.74\n",
            // It ended at 4 us of a clock that begins an hour later.
            (Write, 0, 3_600_000_004_000 - 740_000, 13_092_560 * 512, 4096, Some(740_000)),
        ),
        (
            "TIME(s)     COMM           PID    DISK      T  SECTOR    BYTES  QUE(ms) LAT(ms)\n\
             0.000004    ab             1950   xvda1     R  8         512    0.01    0.74\n",
            (Read, 0, 3_600_000_004_000 - 740_000, 4096, 512, Some(740_000)),
        ),
        // With -P and -Q, and no head.
        (
            "0.000004    ab             1950   xvda1     RA  8         512  S  -1.000    0.74\n",
            (Read, 0, 3_600_000_004_000 - 740_000, 4096, 512, Some(740_000)),
        ),
        (
            "0.000004    jbd2/vda1-8  1950   vda1     FF    -1   0  1.740\n",
            (Flush, 0, 3_600_000_004_000 - 1_740_000, 0, 0, Some(1_740_000)),
        ),
        (
            "0.000004    jbd2/vda1-8  1950   vda1     R 18446744073709551615   0  1.74\n",
            (Flush, 0, 3_600_000_004_000 - 1_740_000, 0, 0, Some(1_740_000)),
        ),
        (
            "0.000004    fstrim  1950   vda1     D    8   1048576  1.740\n",
            (Trim, 0, 3_600_000_004_000 - 1_740_000, 4096, 1_048_576, Some(1_740_000)),
        ),
        (
            "0.000004    ?  0        W    8   4096  1.74\n",
            (Write, 0, 3_600_000_004_000 - 1_740_000, 4096, 4096, Some(1_740_000)),
        ),
    ];
    for (text, row) in texts {
        assert_eq!(text.lines().find_map(detect), Some(TraceFormat::Biosnoop), "{text}");
        assert_eq!(plain(TraceFormat::Biosnoop, text), [row], "{text}");
    }
}

/// The whole trace was refused for it.
#[test]
fn requests_of_biosnoop_without_a_place_are_left_out() {
    let rows = [
        "0.003000    ?              0                 R  -1         8         0.00    0.16",
        "0.003000    ?              0                 R  18446744073709551615  0  0.16",
        "0.003000    ?              0                 R  0          8          2.00",
        "0.003000    dd             7         sda     R  -1         4096       2.00",
    ];
    let kept = "0.100000    dd             7         sda     R  0          4096       1.00";
    let mut parser = TraceParser::new(TraceFormat::Biosnoop, ParseOptions::default());
    for row in rows {
        assert_eq!(parser.line(row), Ok(None), "{row}");
    }
    assert!(parser.line(kept).unwrap().is_some(), "sector 0 of a known disk");
    assert!(
        parser.notes()[0].contains("4 events are of no block request, or of one without a place"),
        "{:?}",
        parser.notes()
    );
}

/// A trace that was started between beginning and end of a request has an end in front.
#[test]
fn beginnings_count_where_there_are_any() {
    let end = "w 1 [0] 1.0: block:block_rq_complete: 8,0 R () 0 + 8 [0]\n";
    let start = "w 1 [0] 2.0: block:block_rq_issue: 8,0 R 4096 () 8 + 8 [w]\n";
    for (text, time_s, has_note) in [(format!("{end}{start}"), 2, false), (end.to_owned(), 1, true)] {
        let mut parser = TraceParser::new(TraceFormat::Perf, ParseOptions::default());
        parser.look_at(text.lines());
        let taken: Vec<_> = text.lines().filter_map(|line| parser.line(line).unwrap()).collect();
        assert_eq!((taken.len(), taken[0].time_ns), (1, time_s * 1_000_000_000));
        assert_eq!(parser.notes().iter().any(|note| note.contains("ends of requests")), has_note);
    }
}

#[test]
fn actions_that_were_not_asked_for_are_known() {
    let mut parser = TraceParser::new(TraceFormat::Blkparse, ParseOptions::default());
    let ended = "8,0 1 6 0.000109000 0 C WS 223490 + 8 [0]";
    assert_eq!(parser.line(ended), Ok(None));
    assert_eq!(parser.other_actions().collect::<Vec<_>>(), ["C"]);
}

#[test]
fn devices_are_chosen_by_their_names() {
    let options = ParseOptions { devices: vec!["259,1".into(), "7,7".into()], ..ParseOptions::default() };
    let mut parser = TraceParser::new(TraceFormat::Blkparse, options);
    let taken: Vec<_> = BLKPARSE.lines().filter_map(|line| parser.line(line).unwrap()).collect();
    assert_eq!((taken.len(), taken[0].device, parser.devices()), (1, 0, &["259,1".to_owned()][..]));
    assert_eq!(parser.devices_missing().collect::<Vec<_>>(), ["7,7"]);
}

const FIO_2: &str = "\
fio version 2 iolog
/dev/sda add
/dev/sdb add
/dev/sda open
/dev/sda read 0 4096
/dev/sda wait 500 0
/dev/sda write 4096 512
/dev/sdb trim 8192 1024
/dev/sda wait 1000 0
/dev/sda datasync 7 7
/dev/sda close
";

#[test]
fn fio_version_2_waits_as_fio_does_or_as_its_manual_says() {
    let at = |second_ns: u64, third_ns: u64| {
        [
            (Read, 0, 0, 0, 4096, None),
            (Write, 0, second_ns, 4096, 512, None),
            (Trim, 1, second_ns, 8192, 1024, None),
            (Flush, 0, third_ns, 0, 0, None),
        ]
    };
    assert_eq!(plain(TraceFormat::Fio2, FIO_2), at(500_000_000, 1_000_000_000));
    let options = ParseOptions { wait: WaitMeaning::AsManualSays, ..ParseOptions::default() };
    assert_eq!(rows(TraceFormat::Fio2, options, FIO_2).unwrap(), at(500_000, 1_500_000));
}

#[test]
fn fio_version_3_has_microseconds() {
    let text = "fio version 3 iolog\n0 f add\n0 f open\n151 f read 4096 512\n460 f sync 0 0\n461 f close\n";
    assert_eq!(
        plain(TraceFormat::Fio3, text),
        [(Read, 0, 151_000, 4096, 512, None), (Flush, 0, 460_000, 0, 0, None)]
    );
}

#[test]
fn msr_with_and_without_a_head_and_with_dos_line_ends() {
    let line = "128166372003061629,usr,0,Read,7014609920,24576,41286\r\n";
    let expected = [(Read, 0, 12_816_637_200_306_162_900, 7_014_609_920, 24_576, Some(4_128_600))];
    assert_eq!(plain(TraceFormat::Msr, line), expected);
    let head = "\u{feff}Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n";
    assert_eq!(plain(TraceFormat::Msr, &format!("{head}{line}")), expected);
    let mut parser = TraceParser::new(TraceFormat::Msr, ParseOptions::default());
    for line in ["1,usr,0,Read,0,1,1", "2,usr,1,write,0,1,1", "3,src1,0,Read,0,1,1"] {
        parser.line(line).unwrap();
    }
    assert_eq!(parser.devices(), ["usr.0", "usr.1", "src1.0"]);
}

#[test]
fn spc_in_blocks_and_bytes() {
    let text = "0,20941264,8192,W,0.551706\n1,3, 512,r,0.554041,extra,fields\n";
    let expected =
        [(Write, 0, 551_706_000, 20_941_264 * 512, 8192, None), (Read, 1, 554_041_000, 1536, 512, None)];
    assert_eq!(plain(TraceFormat::Spc, text), expected);
}

#[test]
fn disksim_arrivals_and_validation() {
    let text = "0.000000 0 1180088 16 1\n12.5 1 8 2 0x10\n";
    let expected = [(Read, 0, 0, 1_180_088 * 512, 8192, None), (Write, 1, 12_500_000, 4096, 1024, None)];
    assert_eq!(plain(TraceFormat::Disksim, text), expected);
    let text = "R Miss  564347     2     14095.370     13876.270\nW Doub 1 15 17221.000 0\n";
    let expected = [
        (Read, 0, 0, 564_347 * 512, 1024, Some(14_095_370)),
        (Write, 0, 14_095_370 + 13_876_270, 512, 7680, Some(17_221_000)),
    ];
    assert_eq!(plain(TraceFormat::DisksimValidate, text), expected);
}

#[test]
fn formats_are_told_by_a_line() {
    let table = [
        ("fio version 2 iolog", Some(TraceFormat::Fio2)),
        ("\u{feff}fio version 3 iolog", Some(TraceFormat::Fio3)),
        ("  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [x]", Some(TraceFormat::Blkparse)),
        ("128166372003061629,usr,0,Read,7014609920,24576,41286", Some(TraceFormat::Msr)),
        ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", Some(TraceFormat::Msr)),
        ("0,20941264,8192,W,0.551706", Some(TraceFormat::Spc)),
        ("0.000000 0 1180088 16 1", Some(TraceFormat::Disksim)),
        ("R Miss  564347     2     14095.370     13876.270", Some(TraceFormat::DisksimValidate)),
        ("Input file sda.blktrace.0 added", None),
        ("", None),
        ("to be, or not to be", None),
    ];
    for (line, format) in table {
        assert_eq!(detect(line), format, "{line}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    use TraceFormat::{Blkparse, Disksim, DisksimValidate, Fio2, Fio3, Msr, Spc};
    let table = [
        (Fio2, "/dev/sda add", 1, "an iolog begins with 'fio version 2 iolog' or 'fio version 3 iolog'"),
        (
            Fio2,
            "fio version 2 iolog\n/dev/sda read 0 1",
            2,
            "'/dev/sda' is used here and was never added: an iolog needs '/dev/sda add' before",
        ),
        (
            Fio3,
            "fio version 3 iolog\n0 f add\n1 f wait 5 0",
            3,
            "'wait' has no place in an iolog of version 3, where every line has its time",
        ),
        (
            Fio3,
            "fio version 3 iolog\nf add",
            2,
            "the time is 'f', which is no number from 0 to 18446744073709551",
        ),
        (
            Fio3,
            "fio version 3 iolog\n0 f add\n1 f read 0",
            3,
            "expected 'time file action' or 'time file action offset length'",
        ),
        (
            Blkparse,
            "8,0 1 1 0.1 1 Q X 1 + 1 [x]",
            1,
            "rwbs is 'X': R, W, D, N, F and flags behind them are known",
        ),
        (
            Blkparse,
            "what is this",
            1,
            "expected 'major,minor cpu sequence time pid action rwbs [sector + blocks] [process]'",
        ),
        (
            Blkparse,
            "8,0 1 1 0.1 1 Q R -1 + 1",
            1,
            "the sector is '-1', which is no number from 0 to 36028797018963967",
        ),
        (Msr, "1,usr,0,Erase,0,1,1", 1, "the type is 'Erase': Read and Write are known"),
        (Msr, "1,usr,0,Read,0,1", 1, "expected 'timestamp,hostname,disk,Read|Write,offset,size,response'"),
        (
            Msr,
            "1,usr,0,Read,18446744073709551615,1,1",
            1,
            "1 bytes from byte 18446744073709551615 on end beyond 2^64",
        ),
        (Spc, "0,1,512,R", 1, "expected 'asu,lba,size,r|w,timestamp'"),
        (Spc, "0,1,512,R,1\n0,1,512,Q,1", 2, "the opcode is 'Q': R and W are known"),
        (Disksim, "0.0 0 1 1 zz", 1, "flags is 'zz': hexadecimal numbers are known"),
        (DisksimValidate, "R Hit 1 0 1 1", 1, "there is no request in it"),
        (
            DisksimValidate,
            "R Hit 1 1 1 nan",
            1,
            "the gap is 'nan', which is no number from 0 to 18446744073709551",
        ),
    ];
    for (format, text, line, problem) in table {
        let (at, found) = rows(format, ParseOptions::default(), text).expect_err(text);
        assert_eq!((at, found.to_string().as_str()), (line, problem), "{text}");
    }
}

fn any_kind() -> impl Strategy<Value = TraceKind> {
    prop::sample::select(TraceKind::ALL.to_vec())
}

/// Odd text, or a line of some formats each with a few other characters in it.
#[test]
fn no_text_is_too_odd() {
    const SOUND: &str = "\
a read 4096 512
151 a write 4096 512
8,0 1 7 0.000005000 697 Q W 223490 + 16 [kjournald]
128166372003061629,usr,0,Read,7014609920,24576,41286
0,20941264,8192,W,0.551706
0.000000 0 1180088 16 1
R Miss  564347     2     14095.370     13876.270
";
    let odd = "[RWQDCadeiprt0-9,.+ /\\-\\[\\]\n]{0,160}";
    let changes =
        proptest::collection::vec((any::<prop::sample::Index>(), "[RWQDCadeiprt0-9,.+ /\\-]"), 0..6);
    let changed = changes.prop_map(|changes| {
        changes.iter().fold(SOUND.to_owned(), |mut text, (at, to)| {
            let at = at.index(text.len());
            text.replace_range(at..=at, to);
            text
        })
    });
    let records = Cell::new(0);
    proptest!(|(text in prop_oneof![odd, changed], head in any::<bool>())| {
        for format in TraceFormat::ALL {
            let head = match format {
                TraceFormat::Fio2 if head => "fio version 2 iolog\na add\n",
                TraceFormat::Fio3 if head => "fio version 3 iolog\n0 a add\n",
                _ => "",
            };
            let mut parser = TraceParser::new(format, ParseOptions::default());
            for line in format!("{head}{text}").lines() {
                let _ = detect(line);
                if let Ok(Some(record)) = parser.line(line) {
                    prop_assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
                    prop_assert!(usize::from(record.device) < parser.devices().len());
                    records.set(records.get() + 1);
                }
            }
        }
    });
    assert!(records.get() >= 200, "{} records were read", records.get());
}

proptest! {
    #[test]
    fn fields_at_random_are_read_or_refused(
        fields in proptest::collection::vec("[0-9]{1,21}|[RWrw]|Read|Write|8,0|add|wait|[A-Z]{1,3}|\\+|[0-9]{1,9}\\.[0-9]{0,12}", 0..11)
    ) {
        for format in TraceFormat::ALL {
            let mut parser = TraceParser::new(format, ParseOptions::default());
            let _ = parser.line(&fields.join(","));
            let _ = parser.line(&fields.join(" "));
        }
    }

    #[test]
    fn what_is_written_for_fio_is_read_back(
        requests in proptest::collection::vec((any_kind(), 0u16..3, 0u64..1_000_000, 0u64..1 << 40, 0u64..1 << 20), 0..50)
    ) {
        let writer = IologWriter::new(&["a b".into(), "b".into(), "c".into()]);
        let mut text = String::new();
        writer.head(&mut text).unwrap();
        let mut time_us = 0;
        let mut expected = Vec::new();
        for (kind, device, gap_us, offset, length) in requests {
            time_us += gap_us;
            let (offset_bytes, length_bytes) = if kind == Flush { (0, 0) } else { (offset, length) };
            let time_ns = time_us * 1000 + 999;
            let record = TraceRecord { time_ns, device, kind, offset_bytes, length_bytes, response_ns: None };
            writer.request(&record, &mut text).unwrap();
            // fio has no other word for it.
            let kind = if kind == TraceKind::WriteZeroes { Write } else { kind };
            expected.push((kind, device, (time_us + 1) * 1000, offset_bytes, length_bytes, None));
        }
        writer.tail(time_us * 1000, &mut text).unwrap();
        prop_assert_eq!(text.lines().next().and_then(detect), Some(TraceFormat::Fio3));
        prop_assert_eq!(plain(TraceFormat::Fio3, &text), expected);
    }

    #[test]
    fn tables_are_read_back(
        requests in proptest::collection::vec((any::<bool>(), 0u16..4, 0u64..1 << 50, 0u64..1 << 30, 0u64..1 << 30), 1..40)
    ) {
        let mut texts = [String::new(), String::new(), String::new()];
        let mut expected: [Vec<Row>; 3] = Default::default();
        let mut numbers = BTreeMap::new();
        for &(reads, device, time, block, response) in &requests {
            let next = numbers.len() as u16;
            let number = *numbers.entry(device).or_insert(next);
            let kind = if reads { Read } else { Write };
            let word = if reads { "Read" } else { "Write" };
            let (bytes, ns) = (block % 4096 * 512, time * 100);
            writeln!(texts[0], "{time},h,{device},{word},{},{bytes},{response}", block * 512).unwrap();
            let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            writeln!(texts[1], "{device},{block},{bytes},{},{time}", &word[..1]).unwrap();
            writeln!(texts[2], "{device},0 1 1 {time} 1 Q {} {block} + {} [x]", &word[..1], bytes / 512).unwrap();
            expected[0].push((kind, number, ns, block * 512, bytes, Some(response * 100)));
            expected[1].push((kind, number, ns, block * 512, bytes, None));
            expected[2].push((kind, number, ns, block * 512, bytes, None));
        }
        for (format, index) in [(TraceFormat::Msr, 0), (TraceFormat::Spc, 1), (TraceFormat::Blkparse, 2)] {
            prop_assert_eq!(texts[index].lines().next().and_then(detect), Some(format));
            prop_assert_eq!(&plain(format, &texts[index]), &expected[index]);
        }
    }
}
