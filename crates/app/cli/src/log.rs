//! Output on standard error: the log, notes, errors.
//!
//! A verb that serves an array must not depend on the reader of standard error. There a thread writes, and everybody
//! else only queues:
//! ```text
//! tracing, remarks, panics ──► queue of 256 KiB ──► writer ──► standard error
//!                    full: the line is lost, and counted      closed, or no room on its disk: the same
//! ```
//! The number of lost lines is reported when lines can be written again. Events that a client can cause
//! ([`raidlab_runtime::CLIENT_CAUSED`]) are shown [`BURST`] times in [`WINDOW`] for each place in the source; then only
//! their number is. Other verbs write at once and wait for their reader.

use crate::journal::Journal;
use crate::output::wants_colour;
use raidlab_runtime::{CLIENT_CAUSED, EVENT_TARGET};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Bytes that may wait to be written.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// Longest wait at the end for what is queued.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How often the writer looks whether a window has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon a standard error that takes nothing and does not wait is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(10);
/// Events of one kind that are shown in a window.
const BURST: u32 = 5;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(10);

/// The queue, in a process that serves.
static QUEUE: OnceLock<Queue> = OnceLock::new();
static LIMIT: Limit = Limit { kinds: Mutex::new(BTreeMap::new()) };

/// Logs to standard error, or to the journal where that leads there: warnings, or more when asked for by option or by
/// `RAIDLAB_LOG`. A process that `serves` logs the events of its array, too, with the time, and never waits for whoever reads it.
pub(crate) fn start(verbose: u8, serves: bool) {
    let level = match verbose {
        0 if serves => format!("warn,{EVENT_TARGET}=info"),
        0 => "warn".to_owned(),
        1 => "info".to_owned(),
        _ => "debug".to_owned(),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("RAIDLAB_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    if serves {
        start_writer();
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Line)
        .with_ansi(wants_colour(&io::stderr()))
        .log_internal_errors(false);
    let shown = match serves.then(Journal::of_process).flatten() {
        Some(journal) => journal.boxed(),
        None if serves => lines.boxed(),
        None => lines.without_time().boxed(),
    };
    tracing_subscriber::registry().with(filter).with(serves.then_some(&LIMIT)).with(shown).init();
}

/// Says `text`, which ends in a line feed. Nobody is left to tell when that is not possible.
pub(crate) fn say(text: &str) {
    let _ = Line.write_all(text.as_bytes());
}

/// Waits for a moment until what was said is written.
pub(crate) fn end() {
    if let Some(queue) = QUEUE.get() {
        queue.await_empty(END_LIMIT);
    }
}

/// Starts the thread that writes. Without one, everybody writes.
fn start_writer() {
    let thread = std::thread::Builder::new().name("log".into());
    let run = || QUEUE.get_or_init(Queue::default).write_for_ever();
    if thread.spawn(run).is_err() {
        return;
    }
    QUEUE.get_or_init(Queue::default);
    std::panic::set_hook(Box::new(|panic| {
        let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let trace = Backtrace::capture();
        let trace =
            if trace.status() == BacktraceStatus::Captured { format!("{trace}") } else { String::new() };
        say(&format!("thread '{name}' {panic}\n{trace}"));
        // The process may end at once.
        end();
    }));
}

/// Takes a line, or some, at a time.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => queue.push(bytes),
            None => io::stderr().lock().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Lines that were not written since that was said last.
    lost: u64,
    is_writing: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.bytes + line.len() > QUEUE_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line.into());
        drop(waiting);
        self.changed.notify_all();
    }

    fn await_empty(&self, limit: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        let _ = self.changed.wait_timeout_while(self.waiting(), limit, is_busy);
    }

    /// The next line, if one comes within [`LOOK_EVERY`].
    fn next(&self) -> Option<Box<[u8]>> {
        let nothing = |waiting: &mut Waiting| waiting.lines.is_empty();
        let mut waiting = self
            .changed
            .wait_timeout_while(self.waiting(), LOOK_EVERY, nothing)
            .map_or_else(|poisoned| poisoned.into_inner().0, |(waiting, _)| waiting);
        let line = waiting.lines.pop_front()?;
        waiting.bytes -= line.len();
        waiting.is_writing = true;
        Some(line)
    }

    fn write_for_ever(&self) {
        let mut works = true;
        loop {
            if let Some(line) = self.next() {
                works = self.say_what_is_lost() && write(&line).is_ok();
                let mut waiting = self.waiting();
                waiting.is_writing = false;
                waiting.lost += u64::from(!works);
                drop(waiting);
                self.changed.notify_all();
            } else if works {
                self.say_what_is_lost();
            }
            LIMIT.tell(Instant::now());
        }
    }

    /// Returns whether a line may follow.
    fn say_what_is_lost(&self) -> bool {
        let lost = self.waiting().lost;
        if lost == 0 {
            return true;
        }
        let is_said =
            write(format!("{lost} lines of this log were lost: nobody took them in time\n").as_bytes())
                .is_ok();
        self.waiting().lost -= if is_said { lost } else { 0 };
        is_said
    }
}

/// Writes to standard error without its lock, which who waits there would keep.
fn write(mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match rustix::io::write(io::stderr(), line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => line = &line[bytes..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => std::thread::sleep(RETRY_EVERY),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Bounds what clients can have logged.
struct Limit {
    /// By the place in the source.
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

/// Events of one kind in the window under way.
struct Kind {
    since: Instant,
    shown: u32,
    held_back: u64,
    text: String,
}

impl Limit {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event. Returns whether it is to be shown.
    fn lets_through(&self, kind: &'static str, now: Instant, text: impl FnOnce() -> String) -> bool {
        let mut kinds = self.kinds();
        let first = || Kind { since: now, shown: 0, held_back: 0, text: text() };
        let kind = kinds.entry(kind).or_insert_with(first);
        let is_shown = kind.shown < BURST;
        kind.shown += u32::from(is_shown);
        kind.held_back += u64::from(!is_shown);
        is_shown
    }

    /// Ends the windows that are over. Returns how many events were held back, with what they said.
    fn ended(&self, now: Instant) -> Vec<(u64, String)> {
        let mut ended = Vec::new();
        self.kinds().retain(|_, kind| {
            let goes_on = now.saturating_duration_since(kind.since) < WINDOW;
            if !goes_on && kind.held_back > 0 {
                ended.push((kind.held_back, std::mem::take(&mut kind.text)));
            }
            goes_on
        });
        ended
    }

    fn tell(&self, now: Instant) {
        for (held_back, text) in self.ended(now) {
            tracing::warn!("{held_back} more like it in {} s: {text}", WINDOW.as_secs());
        }
    }
}

impl<S: Subscriber> Layer<S> for &'static Limit {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let place = event.metadata();
        place.target() != CLIENT_CAUSED
            || self.lets_through(place.name(), Instant::now(), || {
                let mut message = Message(String::new());
                event.record(&mut message);
                message.0
            })
    }
}

/// The words of an event, without its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_shown_some_times_and_then_counted() {
        let limit = Limit { kinds: Mutex::new(BTreeMap::new()) };
        let begin = Instant::now();
        let shown = |kind, at| (0..100).filter(|_| limit.lets_through(kind, at, || kind.to_owned())).count();
        assert_eq!(shown("a", begin), BURST as usize);
        assert_eq!(shown("b", begin + WINDOW / 2), BURST as usize);
        assert!(limit.ended(begin + WINDOW / 2).is_empty());
        assert_eq!(limit.ended(begin + WINDOW), [(100 - u64::from(BURST), "a".to_owned())]);
        assert_eq!(shown("a", begin + WINDOW), BURST as usize);
    }

    #[test]
    fn a_queue_that_nobody_empties_loses_lines_and_counts_them() {
        let queue = Queue::default();
        let counts = || {
            let waiting = queue.waiting();
            (waiting.lines.len(), waiting.lost)
        };
        for _ in 0..5 {
            queue.push(&vec![b'x'; QUEUE_BYTES_MAX / 3]);
        }
        assert_eq!(counts(), (3, 2));
        let begin = Instant::now();
        queue.await_empty(Duration::from_millis(20));
        assert!(begin.elapsed() >= Duration::from_millis(20), "nobody has written them");
        assert!(queue.next().is_some());
        queue.push(b"x");
        assert_eq!(counts(), (3, 2));
    }
}
