//! Requests one by one, by the kernel's block events in tracefs.
//!
//! A private instance of tracing is made (`instances/raidlab-PID`), with two events of the devices under watch: a request was handed to
//! the device, and it ended. For devices without queues (md, device mapper) they are the events of whole bios. The instance is removed at
//! the end, and by the next watch if this one was killed.
//!
//! **Bursts.** Text is read and matched in this process, some microseconds a request. When that has taken its share of the processor,
//! tracing pauses; what was in flight then is dropped.

use super::WatchTarget;
use raidlab_trace::{EventPairs, TraceRecord};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where tracefs may be.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Text that is read in one turn at most.
const TURN_BYTES_MAX: usize = 512 << 10;
/// Room for events, in KiB for each processor.
const BUFFER_KIB: &str = "1024";

/// Why requests are not seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestsProblem {
    /// There is no tracefs with block events.
    #[error(
        "this kernel shows no single requests: there is no tracefs with block events (CONFIG_FTRACE, CONFIG_BLK_DEV_IO_TRACE; 'mount -t \
         tracefs tracefs /sys/kernel/tracing')"
    )]
    NoEvents,
    /// It may not be used.
    #[error("single requests are shown to root only: {place} cannot be written ({error})")]
    Refused {
        /// The file.
        place: String,
        /// What the system said.
        error: String,
    },
}

/// The folder of tracefs with block events.
///
/// # Errors
/// [`RequestsProblem`]: there is none, or it may not be used.
pub fn check_requests() -> Result<PathBuf, RequestsProblem> {
    let found = PLACES.iter().map(Path::new).find(|place| place.join("events/block/block_rq_issue").is_dir());
    let place = found.ok_or(RequestsProblem::NoEvents)?;
    // Whoever may not look into it may not trace.
    fs::read_dir(place.join("instances")).map_err(|error| refused(&place.join("instances"), &error))?;
    Ok(place.to_owned())
}

fn refused(place: &Path, error: &std::io::Error) -> RequestsProblem {
    RequestsProblem::Refused { place: place.display().to_string(), error: error.to_string() }
}

/// A private instance of tracing under way.
#[derive(Debug)]
pub(super) struct RequestWatch {
    instance: PathBuf,
    pipe: File,
    pairs: EventPairs,
    parts: Vec<Part>,
    text: Vec<u8>,
    is_on: bool,
    on_since: Instant,
    was_on: Duration,
    lost: u64,
}

/// Where a target lies on the device that the events name.
#[derive(Debug)]
struct Part {
    device: String,
    start_bytes: u64,
    end_bytes: u64,
}

impl RequestWatch {
    pub(super) fn start(targets: &[WatchTarget]) -> Result<Self, RequestsProblem> {
        Self::start_in(&check_requests()?, targets)
    }

    fn start_in(place: &Path, targets: &[WatchTarget]) -> Result<Self, RequestsProblem> {
        let instances = place.join("instances");
        remove_left_over(&instances);
        let instance = instances.join(format!("raidlab-{}", std::process::id()));
        fs::create_dir_all(&instance).map_err(|error| refused(&instance, &error))?;
        let started = Self::set_up(&instance, targets);
        if started.is_err() {
            remove(&instance);
        }
        started
    }

    fn set_up(instance: &Path, targets: &[WatchTarget]) -> Result<Self, RequestsProblem> {
        let set = |file: &str, text: &str| {
            let path = instance.join(file);
            fs::write(&path, text).map_err(|error| refused(&path, &error))
        };
        set("tracing_on", "0")?;
        set("buffer_size_kb", BUFFER_KIB)?;
        set("trace_clock", "mono")?;
        let kinds: [(bool, &[&str]); 2] = [
            (true, &["block_rq_issue", "block_rq_requeue", "block_rq_complete"]),
            (false, &["block_bio_queue", "block_bio_complete"]),
        ];
        for (has_queues, events) in kinds {
            let of_kind = targets.iter().filter(|target| target.has_queues == has_queues);
            let filter: Vec<String> =
                of_kind.map(|target| format!("dev == {}", dev_t(target.disk))).collect();
            for event in events.iter().filter(|_| !filter.is_empty()) {
                set(&format!("events/block/{event}/filter"), &filter.join(" || "))?;
                set(&format!("events/block/{event}/enable"), "1")?;
            }
        }
        let path = instance.join("trace_pipe");
        let mut options = OpenOptions::new();
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = options.read(true).custom_flags(nonblocking).open(&path);
        let pipe = pipe.map_err(|error| refused(&path, &error))?;
        set("tracing_on", "1")?;
        let part = |target: &WatchTarget| Part {
            device: format!("{},{}", target.disk.0, target.disk.1),
            start_bytes: target.start_bytes,
            end_bytes: target.start_bytes + target.size_bytes.unwrap_or(u64::MAX / 2),
        };
        Ok(Self {
            instance: instance.to_owned(),
            pipe,
            pairs: EventPairs::default(),
            parts: targets.iter().map(part).collect(),
            text: Vec::new(),
            is_on: true,
            on_since: Instant::now(),
            was_on: Duration::ZERO,
            lost: 0,
        })
    }

    /// Takes in what there is, if tracing is on; turns it on or off as there is time. Returns whether it has paused.
    pub(super) fn drain(&mut self, has_time: bool, take: &mut dyn FnMut(&TraceRecord)) -> bool {
        if !self.is_on {
            if has_time {
                self.turn(true);
            }
            return false;
        }
        let is_all = self.read_turn();
        self.take_lines(take);
        if is_all && has_time {
            return false;
        }
        self.turn(false);
        // What was left is of no use without what follows.
        while !self.read_turn() {
            self.text.clear();
        }
        self.text.clear();
        self.pairs.pause(&mut |pair| hand_on(&self.parts, pair, take));
        true
    }

    /// Reads up to a turn of text. Returns whether that was all.
    fn read_turn(&mut self) -> bool {
        let from = self.text.len();
        let mut buffer = [0; 16 << 10];
        while self.text.len() - from < TURN_BYTES_MAX {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.text.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }

    fn take_lines(&mut self, take: &mut dyn FnMut(&TraceRecord)) {
        let whole = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&self.text[..whole]);
        for line in text.lines() {
            self.lost += lost_events(line);
            self.pairs.line(line, &mut |pair| hand_on(&self.parts, pair, take));
        }
        self.text.drain(..whole);
    }

    fn turn(&mut self, is_on: bool) {
        let _ = fs::write(self.instance.join("tracing_on"), if is_on { "1" } else { "0" });
        if is_on {
            self.on_since = Instant::now();
        } else {
            self.was_on += self.on_since.elapsed();
        }
        self.is_on = is_on;
    }

    /// Share of `time` in which it was on.
    pub(super) fn share_of(&self, time: Duration) -> f64 {
        let under_way = if self.is_on { self.on_since.elapsed() } else { Duration::ZERO };
        ((self.was_on + under_way).as_secs_f64() / time.as_secs_f64().max(1e-9)).min(1.0)
    }

    /// Events that the kernel had no room for.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for RequestWatch {
    fn drop(&mut self) {
        remove(&self.instance);
    }
}

/// Hands a request of `device` to each target that holds it, with its place counted from the target's start.
fn hand_on(parts: &[Part], (record, device): (&TraceRecord, &str), take: &mut dyn FnMut(&TraceRecord)) {
    for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.device == device) {
        let is_inside = record.length_bytes == 0
            || (part.start_bytes <= record.offset_bytes
                && record.offset_bytes.saturating_add(record.length_bytes) <= part.end_bytes);
        if is_inside {
            let offset_bytes = record.offset_bytes.saturating_sub(part.start_bytes);
            take(&TraceRecord { device: index as u16, offset_bytes, ..*record });
        }
    }
}

/// The number of a device as the kernel's filters have it.
const fn dev_t((major, minor): (u32, u32)) -> u32 {
    (major << 20) | minor
}

/// `CPU:1 [LOST 123 EVENTS]`.
fn lost_events(line: &str) -> u64 {
    let inside = line.split_once("[LOST ").and_then(|(_, rest)| rest.split_once(" EVENTS]"));
    inside.and_then(|(count, _)| count.trim().parse().ok()).unwrap_or(0)
}

/// Ends an instance: its events are gone with it.
fn remove(instance: &Path) {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::remove_dir(instance);
}

/// Removes instances of watches that are no more.
fn remove_left_over(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("raidlab-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like tracefs, with events of two devices in its pipe.
    #[test]
    fn requests_of_the_targets_are_told_and_the_instance_is_set_up() {
        let place = tempfile::tempdir().expect("a folder");
        let instance = place.path().join(format!("instances/raidlab-{}", std::process::id()));
        for event in ["block_rq_issue", "block_rq_requeue", "block_rq_complete"] {
            fs::create_dir_all(instance.join("events/block").join(event)).expect("folders");
        }
        let text = "CPU:1 [LOST 7 EVENTS]\n\
            fio-9 [000] ..... 10.000001: block_rq_issue: 8,0 R 4096 () 2056 + 8 none,0,0 [fio]\n\
            fio-9 [000] ..... 10.000002: block_rq_issue: 8,0 WS 4096 () 0 + 8 none,0,0 [fio]\n\
            x-1 [001] ..... 10.000301: block_rq_complete: 8,0 WS () 0 + 8 none,0,0 [0]\n\
            x-1 [001] ..... 10.000501: block_rq_complete: 8,0 R () 2056 + 8 none,0,0 [0]\n";
        fs::write(instance.join("trace_pipe"), text).expect("a file");
        let target = |name: &str, start_bytes, size_bytes| WatchTarget {
            name: name.into(),
            file: None,
            folder: PathBuf::new(),
            disk: (8, 0),
            start_bytes,
            size_bytes: Some(size_bytes),
            has_queues: true,
        };
        let targets = [target("sda", 0, 1 << 30), target("sda1", 1 << 20, 1 << 20)];
        let mut watch = RequestWatch::start_in(place.path(), &targets).expect("it is like tracefs");
        let filter = instance.join("events/block/block_rq_issue/filter");
        assert_eq!(fs::read_to_string(filter).expect("it is set"), "dev == 8388608 || dev == 8388608");
        let mut seen = Vec::new();
        assert!(!watch.drain(true, &mut |record| seen.push(*record)));
        let told: Vec<_> = seen.iter().map(|it| (it.device, it.offset_bytes, it.response_ns)).collect();
        let expected = [(0, 2056 * 512, Some(500_000)), (1, 4096, Some(500_000)), (0, 0, Some(299_000))];
        assert_eq!((told.as_slice(), watch.lost()), (&expected[..], 7));
        // No time left: it pauses, and goes on when there is some.
        assert!(watch.drain(false, &mut |_| ()) && !watch.is_on);
        assert!(!watch.drain(true, &mut |_| ()) && watch.is_on);
    }
}
