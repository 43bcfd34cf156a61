//! Activity of the machine and of the device under a target during a run: two readings of the kernel's counters and
//! their difference.
//!
//! It covers the whole run with ramp and drain. Counters of the machine count all its processes, also unrelated ones,
//! which is worth knowing. Unknown values stay `None`.
//!
//! Source: proc(5) for `/proc/stat`.

use crate::environment::{DeviceFolder, device_under};
use raidlab_observe::Counters;
use raidlab_workload::MachineLoad;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// A run being watched.
#[derive(Debug)]
pub struct MachineWatch {
    started: Instant,
    before: Reading,
    device: Option<DeviceFolder>,
}

impl MachineWatch {
    /// Begins to watch the machine and the device under `target`.
    pub fn start(target: &Path) -> Self {
        let device = device_under(target);
        Self { started: Instant::now(), before: Reading::now(device.as_ref()), device }
    }

    /// Begins to watch the machine alone.
    pub fn start_machine() -> Self {
        Self { started: Instant::now(), before: Reading::now(None), device: None }
    }

    /// Reads again and tells the difference.
    pub fn end(self) -> MachineLoad {
        let after = Reading::now(self.device.as_ref());
        let watched_ns = self.started.elapsed().as_nanos() as u64;
        let name = self.device.map(|device| device.name).unwrap_or_default();
        difference(&self.before, &after, watched_ns, name)
    }
}

/// The counters at one time.
#[derive(Clone, Debug, Default)]
struct Reading {
    machine: Option<MachineCounters>,
    process_cpu_ns: Option<u64>,
    /// User and system time of the process, in ticks of any length.
    process_ticks: Option<(u64, u64)>,
    device: Option<Counters>,
}

impl Reading {
    fn now(device: Option<&DeviceFolder>) -> Self {
        let stat = |device: &DeviceFolder| fs::read_to_string(device.folder.join("stat")).ok();
        Self {
            machine: fs::read_to_string("/proc/stat").ok().and_then(|text| MachineCounters::parse(&text)),
            process_cpu_ns: Some(process_cpu_ns()),
            process_ticks: fs::read_to_string("/proc/self/stat").ok().and_then(|text| process_ticks(&text)),
            device: device.and_then(stat).and_then(|text| Counters::from_stat(&text)),
        }
    }
}

/// `/proc/stat`: processor time in ticks of any length, and events since the start of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MachineCounters {
    cpus: u32,
    all: u64,
    busy: u64,
    system: u64,
    interrupt_time: u64,
    interrupts: u64,
    switches: u64,
}

impl MachineCounters {
    fn parse(stat: &str) -> Option<Self> {
        let after = |key: &str| stat.lines().find_map(|line| line.strip_prefix(key));
        let ticks: Vec<u64> =
            after("cpu ")?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk::<8>()?;
        let busy = user + nice + system + irq + softirq + steal;
        let first = |rest: &str| rest.split_whitespace().next().and_then(|word| word.parse().ok());
        let is_processor = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        Some(Self {
            cpus: stat.lines().filter(is_processor).count() as u32,
            all: busy + idle + iowait,
            busy,
            system: system + irq + softirq,
            interrupt_time: irq + softirq,
            interrupts: after("intr ").and_then(first)?,
            switches: after("ctxt ").and_then(first)?,
        })
    }
}

fn difference(before: &Reading, after: &Reading, watched_ns: u64, device: String) -> MachineLoad {
    let mut load = MachineLoad { watched_ns, ..MachineLoad::default() };
    let seconds = watched_ns.max(1) as f64 / 1e9;
    if let (Some(before), Some(after)) = (before.machine, after.machine) {
        let all = after.all.saturating_sub(before.all);
        let share = |before: u64, after: u64| {
            (all > 0).then(|| (after.saturating_sub(before) as f64 / all as f64).min(1.0))
        };
        let rate = |before: u64, after: u64| Some(after.saturating_sub(before) as f64 / seconds);
        load.cpus = after.cpus;
        load.cpu_busy = share(before.busy, after.busy);
        load.cpu_system = share(before.system, after.system);
        load.cpu_interrupts = share(before.interrupt_time, after.interrupt_time);
        load.interrupts_per_sec = rate(before.interrupts, after.interrupts);
        load.context_switches_per_sec = rate(before.switches, after.switches);
    }
    let cpu = before.process_cpu_ns.zip(after.process_cpu_ns);
    load.process_cpu_ns = cpu.map(|(before, after)| after.saturating_sub(before));
    let ticks = before.process_ticks.zip(after.process_ticks);
    load.process_cpu_system_ns = load.process_cpu_ns.zip(ticks).map(|(ns, (before, after))| {
        let (user, system) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        // The clock is finer than the ticks, which only say how to divide it.
        (ns as f64 * system as f64 / (user + system).max(1) as f64) as u64
    });
    let both = before.device.zip(after.device);
    load.device = both.map(|(before, after)| after.load_since(&before, seconds, device));
    load
}

pub(crate) fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Fields 14 and 15 of `/proc/self/stat`; the name of the program before them may hold anything but is in brackets.
fn process_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 50 0 25 400 20 3 2 0 0 0\ncpu1 50 0 25 400 20 2 3 0 0 0\n\
                          intr 1000 1 2 3\nctxt 5000\nbtime 1\n";
    const AFTER: &str = "cpu  140 0 70 820 50 15 5 0 0 0\ncpu0 50 0 25 400 20 3 2 0 0 0\ncpu1 50 0 25 400 20 2 3 0 0 0\n\
                         intr 3000 1 2 3\nctxt 9000\nbtime 1\n";

    fn reading(stat: &str, device: &str) -> Reading {
        let machine = MachineCounters::parse(stat);
        Reading { machine, process_cpu_ns: None, process_ticks: None, device: Counters::from_stat(device) }
    }

    #[test]
    fn counters_become_shares_and_rates() {
        let before = reading(BEFORE, "10 1 80 5 20 2 160 40 0 30 45 0 0 0 0\n");
        let after = reading(AFTER, "110 3 880 205 220 6 1760 440 9 1030 2045 0 0 0 0\n");
        let load = difference(&before, &after, 2_000_000_000, "sda".into());
        assert_eq!((load.cpus, load.watched_ns), (2, 2_000_000_000));
        // 100 ticks in all: 70 busy, of which 30 in the kernel and 10 in interrupts.
        assert_eq!((load.cpu_busy, load.cpu_system, load.cpu_interrupts), (Some(0.7), Some(0.3), Some(0.1)));
        assert_eq!((load.interrupts_per_sec, load.context_switches_per_sec), (Some(1000.0), Some(2000.0)));
        assert_eq!(
            load.device.map(|it| (it.name, it.reads, it.in_flight_mean)),
            Some(("sda".into(), 100, 1.0))
        );
    }

    #[test]
    fn what_is_not_told_stays_unknown() {
        let load = difference(&Reading::default(), &Reading::default(), 0, String::new());
        assert_eq!(load, MachineLoad::default());
        assert_eq!(MachineCounters::parse("cpu  1 2 3\n"), None);
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 77 33 0 0";
        assert_eq!(process_ticks(stat), Some((77, 33)));
        assert_eq!(process_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn a_run_here_is_watched() {
        let watch = MachineWatch::start(Path::new("."));
        let load = watch.end();
        assert!(load.watched_ns > 0 && load.process_cpu_ns.is_some(), "{load:?}");
        assert_eq!(load.interrupts_per_sec.is_some(), Path::new("/proc/stat").exists());
    }
}
