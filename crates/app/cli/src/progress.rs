//! Progress on standard error: a bar on a terminal, plain lines elsewhere, JSON lines for a watching program.
//!
//! `RAIDLAB_PROGRESS=json` makes each report a line `{"progress": {"label": …, "share": …, counts …}}`, whose counts
//! carry their units in their names. The studio follows its jobs by these.

use crate::output::remark;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use raidlab_hosts::Hosts;
use raidlab_report::terminal::printable_lines;
use raidlab_study::{StudyEvent, StudyObserver};
use raidlab_units::{ByteCount, NanoSpan};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How far a search is after so many runs, 0 to 1, where nobody knows how many it takes: each run is a part of what is left.
pub(crate) fn searched_share(runs: u32) -> f64 {
    /// After so many it is half way.
    const USUAL: f64 = 6.0;
    f64::from(runs) / (f64::from(runs) + USUAL)
}

/// Time between two plain lines about the same thing.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Time between two lines of JSON.
const JSON_EVERY: Duration = Duration::from_millis(200);

/// Shows how far something has come.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Nothing is shown: another process does.
    is_silent: bool,
    last_line: Option<Instant>,
    /// Lines are JSON.
    is_json: bool,
    started: Instant,
    label: String,
}

impl Progress {
    /// Starts to show.
    pub(crate) fn start() -> Self {
        let is_json = std::env::var_os("RAIDLAB_PROGRESS").is_some_and(|form| form == "json");
        let bar = (!is_json && io::stderr().is_terminal()).then(|| {
            let style = if crate::output::wants_colour(&io::stderr()) {
                "{bar:30.cyan} {percent:>3}% {wide_msg}"
            } else {
                "{bar:30} {percent:>3}% {wide_msg}"
            };
            let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
            bar
        });
        Self {
            bar,
            is_silent: false,
            last_line: None,
            is_json,
            started: Instant::now(),
            label: String::new(),
        }
    }

    /// Starts to show on the process that leads; on others nothing is shown.
    pub(crate) fn start_on(hosts: &Hosts) -> Self {
        if hosts.leads() {
            return Self::start();
        }
        let (started, label) = (Instant::now(), String::new());
        Self { bar: None, is_silent: true, last_line: None, is_json: false, started, label }
    }

    /// Shows that `label` is at `fraction`, 0 to 1. Plain lines come at most every [`LINE_EVERY`].
    pub(crate) fn show(&mut self, label: &str, fraction: f64) {
        self.show_counts(label, fraction, &[]);
    }

    /// The same with what was counted so far, which programs are told: names with units, and numbers.
    pub(crate) fn show_counts(&mut self, label: &str, fraction: f64, counts: &[(&str, u64)]) {
        if self.is_json {
            if self.last_line.is_none_or(|last| last.elapsed() >= JSON_EVERY) {
                let mut told = json!({ "label": label, "share": fraction.clamp(0.0, 1.0) });
                for (name, count) in counts {
                    told[*name] = json!(count);
                }
                remark(json!({ "progress": told }));
                self.last_line = Some(Instant::now());
            }
            return;
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position((fraction.clamp(0.0, 1.0) * 1_000.0) as u64);
                bar.set_message(printable_lines(label));
            }
            None if self.is_silent => {}
            None if self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY) => {
                self.line(&format!("{:>3.0}% {label}", fraction * 100.0));
                self.last_line = Some(Instant::now());
            }
            None => {}
        }
    }

    /// Writes a line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| remark(text)),
            None if self.is_silent => {}
            None => remark(text),
        }
    }

    /// Takes the bar away and returns how long it all took.
    pub(crate) fn end(self) -> Duration {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.started.elapsed()
    }
}

impl StudyObserver for Progress {
    fn observe(&mut self, event: StudyEvent<'_>) {
        match event {
            StudyEvent::Preparing { what, written, total } => {
                let share = share(written, total);
                self.show(&format!("writing {what}: {written} of {total}"), share);
            }
            StudyEvent::Started { run, planned, label } => {
                self.label = format!("run {run} of {planned}: {label}");
                let fraction = (run - 1) as f64 / planned as f64;
                self.show(&self.label.clone(), fraction);
            }
            // The bar shows the whole study, which a part of one run hardly moves.
            StudyEvent::Progress { .. } => {
                if let Some(bar) = &self.bar {
                    bar.tick();
                }
            }
            StudyEvent::Finished { finished, planned, label, result, remaining } => {
                let text = format!(
                    "{finished} of {planned} runs, {} left: {label}: {}",
                    seconds(remaining),
                    result.metric_text()
                );
                self.show(&text, finished as f64 / planned as f64);
            }
        }
    }
}

fn share(part: ByteCount, whole: ByteCount) -> f64 {
    if whole == ByteCount::ZERO { 0.0 } else { part.get() as f64 / whole.get() as f64 }
}

/// `2 min 5 s`, as nobody wants to know it more exactly.
fn seconds(span: NanoSpan) -> String {
    match span.as_secs_f64().round() as u64 {
        seconds if seconds >= 60 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::searched_share;

    /// "0 % feeding accelerators" was told to the end.
    #[test]
    fn a_search_moves_with_each_run_and_is_never_done_before_its_end() {
        let shares: Vec<f64> = (0..100).map(searched_share).collect();
        assert!(shares[0] == 0.0 && shares[99] < 1.0 && shares.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
