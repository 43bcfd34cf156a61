//! What a file is that another verb was meant for: the cause of a refusal, and the verb that reads it.

use raidlab_report::import::{is_fio, is_iometer, is_latency_table, other_tool};
use raidlab_trace::detect;

/// The kind of a file, and what to do with it.
pub(super) struct Kind {
    what: String,
    advice: &'static str,
    /// The name of the verb that reads it.
    verb: &'static str,
}

/// Lines that tell the kind of a file.
const LINES: usize = 200;

/// The kind of the file that begins with `text`, if it is none of `verb`'s.
pub(super) fn other_than(verb: &str, text: &str) -> Option<String> {
    let kind = kind_of(text)?;
    (kind.verb != verb).then(|| format!("this is {}: {}", kind.what, kind.advice))
}

fn kind_of(text: &str) -> Option<Kind> {
    let lines = || text.lines().take(LINES).map(str::trim);
    let has = |mark: &str| lines().any(|line| line.contains(mark));
    if text.starts_with("PAR1") {
        let advice = "a trace in it is read by measure and simulate with --trace";
        return Some(Kind { what: "a Parquet file".into(), advice, verb: "measure" });
    }
    if is_fio(text) || is_iometer(text) {
        let program = if is_fio(text) { "fio" } else { "Iometer" };
        let what = format!("what {program} measured");
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if let Some(what) = other_tool(text) {
        let what = format!("what {what} measured");
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if is_latency_table(text) {
        let what = "a table of latencies".into();
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if has("'ACCESS SPECIFICATIONS") {
        let what = "a configuration of Iometer".into();
        return Some(Kind { what, advice: "read it with 'raidlab import icf'", verb: "icf" });
    }
    if let Some(format) = raidlab_history::detect(text) {
        let advice = "read it with 'raidlab import history'";
        return Some(Kind { what: format.name().into(), advice, verb: "history" });
    }
    let is_job =
        |line: &str| ["rw=", "readwrite=", "ioengine=", "filename="].iter().any(|key| line.starts_with(key));
    if lines().any(|line| line.starts_with('[') && line.ends_with(']')) && lines().any(is_job) {
        let what = "a job file of fio".into();
        return Some(Kind { what, advice: "read it with 'raidlab import fio'", verb: "fio" });
    }
    lines().find_map(detect)?;
    Some(Kind { what: "a block trace".into(), advice: "read it with 'raidlab import trace'", verb: "trace" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_knows_the_files_of_the_others() {
        let files = [
            ("fio", "[a]\nrw=read\n"),
            ("icf", "Version 1.1.0\n'ACCESS SPECIFICATIONS\n"),
            ("runs", "{\"fio version\": \"fio-3.33\", \"jobs\": []}"),
            ("runs", "'Test Type,Test Description\n"),
            ("trace", "0,20941264,8192,W,0.551706\n"),
            ("history", "{\"sysstat\": {\"hosts\": [{\"statistics\": [{\"disk\": []}]}]}}"),
            ("history", "avg-cpu:  %user\nDevice  r/s\n"),
            ("runs", "<Results>\n<TimeSpan>\n"),
        ];
        for verb in ["fio", "icf", "runs", "trace", "history"] {
            for (owner, text) in files {
                assert_eq!(other_than(verb, text).is_none(), verb == owner, "{verb}: {text}");
            }
        }
        assert_eq!(
            other_than("fio", files[4].1).as_deref(),
            Some("this is a block trace: read it with 'raidlab import trace'")
        );
        assert!(
            other_than("fio", files[5].1)
                .is_some_and(|it| it == "this is iostat's JSON: read it with 'raidlab import history'")
        );
        assert!(other_than("fio", "hello").is_none());
    }
}
