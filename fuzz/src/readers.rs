//! Readers of other programs' files, on any bytes.
//!
//! The first byte chooses the reader, the rest is the file. Whatever the bytes, a reader answers or refuses: it never panics, and what it
//! made can be used.

use raidlab_history::{DeviceHistory, History, Told};
use raidlab_jobs::{Surroundings, import_fio, import_icf};
use raidlab_observe::Character;
use raidlab_report::import::{ForeignError, ForeignResults, fio, iometer, latency_tables, others};
use raidlab_trace::{BinaryTrace, EventPairs, ParseOptions, TraceFormat, TraceParser};
use raidlab_workload::RunResult;

/// Has the reader that `input` chooses read it.
pub(crate) fn read(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match choice % 6 {
        0 => drop(import_fio("job.fio", &text, Surroundings::NONE)),
        1 => drop(import_icf("a.icf", &text)),
        2 => history(&text),
        3 => trace(choice / 6, &text),
        4 => binary(bytes),
        _ => results(choice / 6, &text),
    }
}

fn history(text: &str) {
    if let Ok((format, readings)) = raidlab_history::read("file", text, Told::default()) {
        let history = History::of(&[("file".into(), format)], &readings, &[]);
        assert!(History::from_toml("history.toml", &history.to_toml()).is_ok());
        for workload in history.devices.iter().filter_map(DeviceHistory::workload) {
            assert!(workload.spec.validate().is_ok());
        }
    }
}

fn trace(choice: u8, text: &str) {
    let format = TraceFormat::ALL[usize::from(choice) % TraceFormat::ALL.len()];
    let mut parser = TraceParser::new(format, ParseOptions::default());
    let (mut pairs, mut character) = (EventPairs::default(), Character::default());
    for line in text.lines() {
        let mut next = parser.line(line).ok().flatten();
        while let Some(record) = next {
            character.add(&record);
            next = parser.second();
        }
        pairs.line(line, &mut |(record, _)| {
            assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
        });
    }
    pairs.pause(&mut |_| ());
}

fn binary(bytes: &[u8]) {
    for form in [
        BinaryTrace::Blktrace { is_big: false },
        BinaryTrace::Blktrace { is_big: true },
        BinaryTrace::OracleGeneral,
    ] {
        let mut lines = String::new();
        if let Ok(used) = form.lines(bytes, &mut lines) {
            assert!(used <= bytes.len());
        }
    }
}

/// A reader of results.
type Results = fn(&str) -> Result<ForeignResults, ForeignError>;

/// What was read comes back from the store as it was.
fn results(choice: u8, text: &str) {
    const READERS: [Results; 4] = [fio, iometer, latency_tables, others];
    let Ok(found) = READERS[usize::from(choice) % READERS.len()](text) else { return };
    for run in found.runs.into_iter().map(|it| it.run) {
        let kept = serde_json::to_string(&run).expect("finite figures");
        assert_eq!(serde_json::from_str::<RunResult>(&kept).expect("as it was written"), run);
    }
}
