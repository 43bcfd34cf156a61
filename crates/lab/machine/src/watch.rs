//! Watching block devices while others use them: counters at all times, requests one by one where the kernel shows them, and what
//! processes move.
//!
//! Only read: the devices' data is never touched. To see requests, a private instance of the kernel's tracing is made and removed again.
//!
//! **Cheap.** Watching may take [`CPU_SHARE`] of one processor: requests are seen in bursts with pauses between them if there are too
//! many, and [`Watched::cpu_share`] says what it took.
//!
//! Source: Linux, Documentation/block/stat.rst, Documentation/trace/ftrace.rst; proc(5).

mod facts;
mod processes;
mod requests;
mod targets;

pub use facts::gather;
pub use processes::ProcessIo;
pub use requests::{RequestsProblem, check_requests};
pub use targets::{TargetError, WatchTarget};

use crate::machine::process_cpu_ns;
use processes::ProcessReading;
use raidlab_observe::{Character, Counters, Interval, Intervals, Observed};
use raidlab_trace::TraceRecord;
use requests::RequestWatch;
use std::time::{Duration, Instant};

/// Share of one processor that watching may take.
pub const CPU_SHARE: f64 = 0.01;
/// Requests are no longer looked at beyond this share, so that the rest has some.
const CPU_SHARE_OF_REQUESTS: f64 = 0.007;
/// Processes that are told.
const PROCESSES_TOLD: usize = 10;

/// How to watch.
#[derive(Clone, Debug)]
pub struct WatchOrder {
    /// What to watch.
    pub targets: Vec<WatchTarget>,
    /// How long.
    pub time: Duration,
    /// From one reading of the counters to the next.
    pub interval: Duration,
    /// Whether to see requests one by one, where the kernel shows them.
    pub wants_requests: bool,
}

/// What was seen.
#[derive(Debug)]
pub struct Watched {
    /// The devices, in the order of the targets.
    pub devices: Vec<Observed>,
    /// The processes that moved most bytes, the first most.
    pub processes: Vec<ProcessIo>,
    /// Processes that may not be looked into.
    pub processes_hidden: u64,
    /// Share of one processor that watching took.
    pub cpu_share: f64,
    /// Share of the time in which requests were seen; none if they were not looked at.
    pub requests_share: Option<f64>,
    /// Why requests were not seen, where they were wanted.
    pub problem: Option<RequestsProblem>,
    /// Events of requests that the kernel had no room for.
    pub events_lost: u64,
}

/// A device under watch.
#[derive(Debug)]
struct Device {
    target: WatchTarget,
    first: Counters,
    last: Counters,
    last_at: Instant,
    intervals: Intervals,
    character: Character,
}

impl Device {
    fn read(&mut self, counters: Counters, started: Instant, now: Instant) {
        let length = now.duration_since(self.last_at);
        let load = counters.load_since(&self.last, length.as_secs_f64().max(1e-9), String::new());
        let start_ns = self.last_at.duration_since(started).as_nanos() as u64;
        self.intervals.push(Interval::of_load(&load, start_ns, length.as_nanos() as u64));
        (self.last, self.last_at) = (counters, now);
    }

    fn end(self, started: Instant) -> Observed {
        let watched = self.last_at.duration_since(started);
        let load =
            self.last.load_since(&self.first, watched.as_secs_f64().max(1e-9), self.target.name.clone());
        let others = self.last.others_since(&self.first);
        let (watched_ns, size) = (watched.as_nanos() as u64, self.target.size_bytes);
        Observed::new(load, watched_ns, others, self.intervals, size).with_requests(self.character)
    }
}

/// Watches until the time is over or `stop` says so. Each request that is seen is handed to `take`, in the order of their times, with
/// `device` the place among the targets.
///
/// # Errors
/// [`TargetError::Gone`] names a device whose counters can't be read any more.
pub fn watch(
    order: &WatchOrder,
    stop: &dyn Fn() -> bool,
    take: &mut dyn FnMut(&TraceRecord),
) -> Result<Watched, TargetError> {
    let (mut requests, problem) = match order.wants_requests.then(|| RequestWatch::start(&order.targets)) {
        None => (None, None),
        Some(Ok(watch)) => (Some(watch), None),
        Some(Err(problem)) => (None, Some(problem)),
    };
    let cpu_before = process_cpu_ns();
    let processes = ProcessReading::now();
    let started = Instant::now();
    let mut devices: Vec<Device> = Vec::new();
    for (target, counters) in order.targets.iter().zip(targets::read_all(&order.targets)?) {
        devices.push(Device {
            target: target.clone(),
            first: counters,
            last: counters,
            last_at: Instant::now(),
            intervals: Intervals::default(),
            character: Character::default(),
        });
    }
    let mut due = started;
    let cpu_ns = || process_cpu_ns().saturating_sub(cpu_before) as f64;
    loop {
        due = (due + order.interval).min(started + order.time);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        for (device, counters) in devices.iter_mut().zip(targets::read_all(&order.targets)?) {
            device.read(counters, started, Instant::now());
        }
        if let Some(requests) = &mut requests {
            let share = cpu_ns() / started.elapsed().as_nanos() as f64;
            let has_paused = requests.drain(share <= CPU_SHARE_OF_REQUESTS, &mut |record| {
                if let Some(device) = devices.get_mut(usize::from(record.device)) {
                    device.character.add(record);
                }
                take(record);
            });
            if has_paused {
                for device in &mut devices {
                    device.character.pause();
                }
            }
        }
        if started.elapsed() >= order.time || stop() {
            break;
        }
    }
    let mut watched = Watched {
        devices: Vec::new(),
        processes: Vec::new(),
        processes_hidden: processes.hidden,
        cpu_share: 0.0,
        requests_share: requests.as_ref().map(|it| it.share_of(started.elapsed())),
        problem,
        events_lost: requests.as_ref().map_or(0, RequestWatch::lost),
    };
    drop(requests);
    watched.processes = processes.end(started.elapsed(), PROCESSES_TOLD);
    watched.cpu_share = cpu_ns() / started.elapsed().as_nanos() as f64;
    watched.devices = devices.into_iter().map(|device| device.end(started)).collect();
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root file system's device, where there is one.
    #[test]
    fn what_is_there_is_watched_cheaply() {
        let Ok(targets) = WatchTarget::all() else { return };
        let order = WatchOrder {
            targets,
            time: Duration::from_millis(120),
            interval: Duration::from_millis(50),
            wants_requests: false,
        };
        let watched = watch(&order, &|| false, &mut |_| ()).expect("the devices stay");
        assert_eq!(watched.devices.len(), order.targets.len());
        for device in &watched.devices {
            let figures = device.figures();
            assert!(figures.watched_ns >= 100_000_000 && figures.random_pct.is_none(), "{figures:?}");
            assert_eq!(figures.intervals.map(|it| it.intervals), Some(3));
        }
        assert_eq!((watched.requests_share, watched.problem), (None, None));
    }
}
