//! The threads that read a job's output until it has ended.

use super::{Job, Seen, Tick, unix_ms};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

/// Longest result in bytes.
const RESULT_BYTES_MAX: u64 = 64 << 20;
/// Longest line of standard error in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lines that are kept of what is no progress.
const MESSAGES_MAX: usize = 100;
/// Ticks that are kept; when there are more, every second of the older half is left out.
const TICKS_MAX: usize = 2400;
/// How often a process that has closed its output is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Watches `job`, whose process writes to `out` and `err`.
pub(super) fn start(job: &Arc<Job>, out: ChildStdout, err: ChildStderr) {
    let (said_by, ends) = (Arc::clone(job), Arc::clone(job));
    let said = std::thread::spawn(move || read_lines(&said_by, err));
    std::thread::spawn(move || {
        let result = read_result(out);
        let _ = said.join();
        end(&ends, result);
    });
}

/// All of standard output, if it is one piece of JSON.
fn read_result(out: ChildStdout) -> Option<Arc<str>> {
    let mut text = String::new();
    let mut out = out.take(RESULT_BYTES_MAX);
    let read = out.read_to_string(&mut text);
    // What is beyond the limit is read and dropped, or the process would wait for room.
    let _ = std::io::copy(&mut out.into_inner(), &mut std::io::sink());
    read.ok()?;
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
    is_json.then(|| text.into())
}

fn read_lines(job: &Job, err: ChildStderr) {
    let mut reader = BufReader::new(err);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => take_line(job, &String::from_utf8_lossy(&line)),
        }
    }
}

fn take_line(job: &Job, line: &str) {
    let at_ms = job.begun.elapsed().as_millis() as u64;
    let mut seen = job.seen();
    if let Some(progress) = progress(line) {
        seen.tell(at_ms, progress);
        return;
    }
    if seen.messages.len() == MESSAGES_MAX {
        seen.messages.remove(0);
    }
    seen.messages.push(line.trim_end().to_owned());
}

/// What a line of progress says.
fn progress(line: &str) -> Option<Value> {
    if !line.starts_with("{\"progress\":") {
        return None;
    }
    let mut value: Value = serde_json::from_str(line).ok()?;
    let told = value.get_mut("progress")?.take();
    told.is_object().then_some(told)
}

impl Seen {
    fn tell(&mut self, at_ms: u64, progress: Value) {
        self.ticks.push(Tick { number: self.next_tick, at_ms, progress });
        self.next_tick += 1;
        if self.ticks.len() > TICKS_MAX {
            let mut place = 0;
            self.ticks.retain(|_| {
                place += 1;
                place > TICKS_MAX / 2 || place % 2 == 1
            });
        }
    }
}

fn end(job: &Job, result: Option<Arc<str>>) {
    loop {
        let mut seen = job.seen();
        let child = seen.child.as_mut().expect("only the end takes it");
        // Who can't be waited for has ended as far as anybody can tell.
        let ended = child.try_wait().map_or(Some(None), |ended| ended.map(|status| status.code()));
        if let Some(code) = ended {
            seen.child = None;
            seen.exit_code = code;
            seen.ended_at_unix_ms = Some(unix_ms());
            seen.failure = failure(&mut seen.messages);
            seen.result = result;
            return;
        }
        drop(seen);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Takes the failure out of the messages, which ends them: `{"schema": 1, "failure": [...]}` over several lines.
fn failure(messages: &mut Vec<String>) -> Option<Value> {
    let begin = messages.iter().rposition(|line| line == "{")?;
    let mut value: Value = serde_json::from_str(&messages[begin..].join("\n")).ok()?;
    let failure = value.get_mut("failure")?.take();
    messages.truncate(begin);
    Some(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn progress_is_told_apart_from_anything_else() {
        let line = "{\"progress\":{\"label\":\"a\",\"share\":0.5}}\n";
        assert_eq!(progress(line), Some(json!({ "label": "a", "share": 0.5 })));
        for other in ["", "{\"progress\":1}", "{\"progress\":", "note", "{}"] {
            assert_eq!(progress(other), None, "{other}");
        }
    }

    #[test]
    fn a_failure_ends_the_messages() {
        let mut messages: Vec<String> =
            ["a note", "{", "\"schema\": 1,", "\"failure\": [{\"kind\": \"error\", \"text\": \"no\"}]", "}"]
                .map(str::to_owned)
                .into();
        assert_eq!(failure(&mut messages), Some(json!([{ "kind": "error", "text": "no" }])));
        assert_eq!(messages, ["a note"]);
        assert_eq!(failure(&mut messages), None);
    }

    #[test]
    fn many_ticks_become_fewer_and_keep_first_and_last() {
        let mut seen = Seen::default();
        for at in 0..20_000 {
            seen.tell(at, json!({}));
        }
        assert!(seen.ticks.len() <= TICKS_MAX);
        assert_eq!((seen.ticks[0].number, seen.next_tick), (0, 20_000));
        assert_eq!(seen.ticks.last().unwrap().number, 19_999);
        assert!(seen.ticks.is_sorted_by_key(|tick| tick.number));
    }
}
