//! Traces through files: what is imported is read back, streaming, and invalid input is refused.

use proptest::prelude::*;
use raidlab_trace::{ParseOptions, TraceFormat, TraceKind, TraceRecord};
use raidlab_tracefile::{
    FileSource, ReadingAs, TraceFile, TraceFileError, TraceMeta, TraceWriter, import, write_iolog,
};
use raidlab_workload::{BatchStep, DriverConfig, TraceSource};
use std::cell::Cell;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

fn place() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    (folder, path)
}

fn all_of(trace: &TraceFile) -> Result<Vec<TraceRecord>, TraceFileError> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    let mut batches = trace.batches()?;
    while batches.next(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    Ok(all)
}

fn import_text(text: &str, path: &Path) -> Result<TraceMeta, TraceFileError> {
    import(text.as_bytes(), "made-up", None, ParseOptions::default(), Some(path)).map(|read| read.meta)
}

fn write(records: &[TraceRecord], path: &Path) {
    let mut writer = TraceWriter::create(path).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    let (source, summary) = ("test".to_owned(), raidlab_trace::Summary::default().finish(&[]));
    let meta = TraceMeta { source, format: None, start_ns: 7, out_of_order: 0, summary };
    writer.finish(&meta).unwrap();
    assert_eq!(TraceFile::open(path).unwrap().meta(), &meta);
}

const SPC: &str = "0,16,8192,W,1.5\n1,0,512,R,1.25\n0,32,4096,r,2.000000001\n";

#[test]
fn text_becomes_rows_in_order_with_metadata() {
    let (_folder, path) = place();
    let meta = import_text(SPC, &path).unwrap();
    let trace = TraceFile::open(&path).unwrap();
    assert_eq!(trace.meta(), &meta);
    assert_eq!((meta.format.as_deref(), meta.start_ns, meta.out_of_order), (Some("spc"), 1_250_000_000, 1));
    assert_eq!(meta.summary.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["asu0", "asu1"]);
    let rows: Vec<_> =
        all_of(&trace).unwrap().iter().map(|r| (r.time_ns, r.device, r.kind, r.offset_bytes)).collect();
    let (read, write) = (TraceKind::Read, TraceKind::Write);
    assert_eq!(rows, [(0, 1, read, 0), (250_000_000, 0, write, 8192), (750_000_001, 0, read, 16_384)]);
}

#[test]
fn more_than_a_row_group_streams() {
    let (_folder, path) = place();
    let line = |n: u64| format!("{},usr,{},Read,{},4096,{}\n", 1000 + n, n % 3, n * 4096, n);
    let text: String = (0..300_000).map(line).collect();
    let options = ParseOptions::default();
    let read = import(BufReader::new(text.as_bytes()), "usr.csv", None, options, Some(&path)).unwrap();
    assert_eq!((read.format, read.lines, read.meta.summary.requests), ("msr", 300_000, 300_000));
    let all = all_of(&TraceFile::open(&path).unwrap()).unwrap();
    assert_eq!(all.len(), 300_000);
    for (n, record) in (0u64..).zip(&all) {
        let seen = (record.time_ns, record.offset_bytes, record.response_ns, u64::from(record.device));
        assert_eq!(seen, (n * 100, n * 4096, Some(n * 100), n % 3));
    }
}

/// Binary traces become lines on their way: the format is their own, and not that of the lines.
#[test]
fn a_binary_trace_is_called_by_its_own_name() {
    let (_folder, path) = place();
    let request = [&7u32.to_le_bytes()[..], &1u64.to_le_bytes(), &512u32.to_le_bytes(), &[0; 8]].concat();
    let oracle = Some(TraceFormat::OracleGeneral);
    let read = import(&request[..], "cache", oracle, ParseOptions::default(), None).unwrap();
    assert_eq!((read.format, read.meta.summary.requests), ("oracle-general", 1));
    // One event of blktrace: a read of 8 sectors that was queued.
    let event = |time_ns: u64| {
        let mut event = Vec::new();
        event.extend_from_slice(&0x6561_7407u32.to_le_bytes());
        event.extend_from_slice(&1u32.to_le_bytes());
        event.extend_from_slice(&time_ns.to_le_bytes());
        event.extend_from_slice(&2048u64.to_le_bytes());
        event.extend_from_slice(&4096u32.to_le_bytes());
        event.extend_from_slice(&0x0001_0001u32.to_le_bytes());
        event.extend_from_slice(&[0; 4]);
        event.extend_from_slice(&0x0080_0000u32.to_le_bytes());
        event.extend_from_slice(&[0; 8]);
        event
    };
    let trace = [event(10), event(20)].concat();
    let read = import(&trace[..], "sda", None, ParseOptions::default(), Some(&path)).unwrap();
    assert_eq!((read.format, read.meta.summary.reads), ("blktrace", 2));
    assert_eq!(TraceFile::open(&path).unwrap().meta().format.as_deref(), Some("blktrace"));
}

#[test]
fn what_can_not_be_imported_leaves_no_file() {
    let (_folder, path) = place();
    let table = [
        ("", "made-up: there is no request in it"),
        ("fio version 3 iolog\n0 f add\n", "made-up: there is no request in it"),
        ("0,16,8192,W,1.5\n0,16,8192,Q,1.5\n", "made-up:2: the opcode is 'Q': R and W are known"),
        (
            "hello\n",
            "made-up:1: this is no line of any format that is known (fio2, fio3, blkparse, msr, spc, disksim, \
             disksim-validate, perf, fiu, biosnoop, alibaba, tencent, systor): name it with --format",
        ),
    ];
    for (text, message) in table {
        assert_eq!(import_text(text, &path).unwrap_err().to_string(), message);
        assert!(!path.exists(), "{text}");
    }
    let long = "x".repeat(70_000);
    assert_eq!(
        import_text(&long, &path).unwrap_err().to_string(),
        "made-up:1: no line of a trace is that long"
    );
    let options = ParseOptions { devices: vec!["asu9".into()], ..ParseOptions::default() };
    let error = import(SPC.as_bytes(), "made-up", None, options, Some(&path)).unwrap_err();
    assert_eq!(error.to_string(), "made-up: there is no request for device asu9");
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let (_folder, path) = place();
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(import_text(SPC, &path), Err(TraceFileError::Io { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn what_is_written_for_fio_is_the_same_trace() {
    let (folder, path) = place();
    import_text(SPC, &path).unwrap();
    let trace = TraceFile::open(&path).unwrap();
    let mut text = Vec::new();
    write_iolog(&trace, &["/dev/x".into()], Path::new("out.log"), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("fio version 3 iolog\n0 /dev/x add\n0 asu1 add\n"), "{text}");
    let again = folder.path().join("again.parquet");
    let meta = import_text(&text, &again).unwrap();
    assert_eq!(meta.format.as_deref(), Some("fio3"));
    let plain = |records: Vec<TraceRecord>| -> Vec<_> {
        records.iter().map(|r| (r.time_ns / 1000, r.device, r.kind, r.offset_bytes, r.length_bytes)).collect()
    };
    let again = all_of(&TraceFile::open(&again).unwrap()).unwrap();
    assert_eq!(plain(again), plain(all_of(&trace).unwrap()));
}

#[test]
fn what_is_no_trace_is_refused() {
    let (folder, path) = place();
    std::fs::write(&path, "PAR1 and nothing else PAR1").unwrap();
    assert!(matches!(TraceFile::open(&path), Err(TraceFileError::Parquet { .. })));
    std::fs::write(&path, "schema = 1\n").unwrap();
    let error = TraceFile::open(&path).expect_err("it is text").to_string();
    assert!(error.ends_with("it is no trace that raidlab made"), "{error}");
    assert!(matches!(TraceFile::open(&folder.path().join("none")), Err(TraceFileError::Io { .. })));
}

/// What a source hands out, asked again whenever a batch is not there yet.
fn handed_out(source: &FileSource) -> Vec<TraceRecord> {
    let (mut reader, mut batch, mut all) =
        (source.open(&DriverConfig::default()).unwrap(), Vec::new(), Vec::new());
    loop {
        match reader.next_batch(&mut batch) {
            BatchStep::Ready => all.extend_from_slice(&batch),
            BatchStep::NotYet => std::thread::yield_now(),
            BatchStep::End => return all,
            BatchStep::Failed(problem) => panic!("{problem}"),
        }
    }
}

#[test]
fn a_source_hands_out_all_ahead_or_when_asked() {
    let (_folder, path) = place();
    let line = |n: u64| format!("{},usr,0,Read,{},4096,1\n", 1000 + n, n * 4096);
    import_text(&(0..150_000).map(line).collect::<String>(), &path).unwrap();
    let file = TraceFile::open(&path).unwrap();
    let all = all_of(&file).unwrap();
    for reading in [ReadingAs::Asked, ReadingAs::Ahead] {
        let source = FileSource::new(file.clone(), reading);
        assert!(handed_out(&source) == all, "{reading:?}");
        // One that is left in the middle ends its thread, or the test would not end.
        let mut reader = source.open(&DriverConfig::default()).unwrap();
        assert_eq!(reader.next_batch(&mut Vec::new()), BatchStep::Ready);
    }
}

fn any_record() -> impl Strategy<Value = (u64, u16, usize, u64, u64, Option<u64>)> {
    (0u64..1 << 50, any::<u16>(), 0usize..4, 0u64..1 << 63, 0u64..1 << 62, any::<Option<u64>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_are_read_back(rows in proptest::collection::vec(any_record(), 0..300)) {
        let (_folder, path) = place();
        let mut time_ns = 0;
        let mut records = Vec::new();
        for (gap, device, kind, offset_bytes, length_bytes, response_ns) in rows {
            time_ns += gap;
            let kind = TraceKind::ALL[kind];
            records.push(TraceRecord { time_ns, device, kind, offset_bytes, length_bytes, response_ns });
        }
        write(&records, &path);
        prop_assert_eq!(all_of(&TraceFile::open(&path).unwrap()).unwrap(), records);
    }
}

/// Damage is refused or harmless, and never a panic.
#[test]
fn damaged_files_do_no_harm() {
    let opened = Cell::new(0);
    proptest!(ProptestConfig::with_cases(64), |(places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3), cut in prop::option::weighted(0.2, any::<prop::sample::Index>()))| {
        let (_folder, path) = place();
        import_text(&SPC.repeat(200), &path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, byte) in places {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(trace) = TraceFile::open(&path) {
            let _ = all_of(&trace);
            opened.set(opened.get() + 1);
        }
    });
    assert!(opened.get() >= 5, "{} damaged files were opened", opened.get());
}
