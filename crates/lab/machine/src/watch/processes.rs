//! What processes move: the difference of two readings of `/proc/PID/io`.
//!
//! Bytes are those that were to be moved from and to storage, so reads from the page cache are left out and writes are counted when they
//! come to it. Left out: processes that began and ended between the readings.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What a process moved.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ProcessIo {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Megabytes per second that it read from storage.
    pub read_mb_per_s: f64,
    /// Megabytes per second that it wrote.
    pub write_mb_per_s: f64,
    /// Calls per second that read.
    pub read_calls_per_s: f64,
    /// Calls per second that wrote.
    pub write_calls_per_s: f64,
    /// Share of the time that its thread which waited longest was ready and had no processor; none where the kernel does not say it.
    pub cpu_wait_pct: Option<f64>,
}

/// Counters of one process: bytes read and written, calls that read and wrote.
type Counts = [u64; 4];

/// For each thread, how long it has waited for a processor since it began.
type WaitsNs = BTreeMap<u32, u64>;

/// All processes at one time.
#[derive(Debug, Default)]
pub(super) struct ProcessReading {
    counts: BTreeMap<u32, (Counts, WaitsNs)>,
    /// Those that may not be looked into.
    pub(super) hidden: u64,
}

impl ProcessReading {
    pub(super) fn now() -> Self {
        let mut reading = Self::default();
        let Ok(entries) = fs::read_dir("/proc") else { return reading };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for pid in pids {
            match fs::read_to_string(format!("/proc/{pid}/io")) {
                Ok(text) => {
                    if let Some(counts) = counts(&text) {
                        let moves = counts[0] + counts[1] > 0;
                        let waits_ns = if moves { waits_ns(pid) } else { WaitsNs::new() };
                        reading.counts.insert(pid, (counts, waits_ns));
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => reading.hidden += 1,
                Err(_) => {}
            }
        }
        reading
    }

    /// The `most` that moved most bytes since.
    pub(super) fn end(&self, watched: Duration, most: usize) -> Vec<ProcessIo> {
        let after = Self::now();
        let own = std::process::id();
        let nothing = (Counts::default(), WaitsNs::new());
        let mut moved: Vec<(u32, Counts, Option<u64>)> = after
            .counts
            .iter()
            .filter(|(pid, _)| **pid != own)
            .map(|(pid, (counts, waits_ns))| {
                let (counts_before, waits_before_ns) = self.counts.get(pid).unwrap_or(&nothing);
                let wait_ns = |(thread, ns): (&u32, &u64)| {
                    ns.saturating_sub(waits_before_ns.get(thread).copied().unwrap_or(0))
                };
                let counts = std::array::from_fn(|at| counts[at].saturating_sub(counts_before[at]));
                (*pid, counts, waits_ns.iter().map(wait_ns).max())
            })
            .filter(|(_, counts, _)| counts[0] + counts[1] > 0)
            .collect();
        moved.sort_by_key(|(pid, counts, _)| (std::cmp::Reverse(counts[0] + counts[1]), *pid));
        moved.truncate(most);
        let seconds = watched.as_secs_f64().max(1e-9);
        let told = |(pid, counts, wait_ns): (u32, Counts, Option<u64>)| ProcessIo {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
            read_mb_per_s: counts[0] as f64 / 1e6 / seconds,
            write_mb_per_s: counts[1] as f64 / 1e6 / seconds,
            read_calls_per_s: counts[2] as f64 / seconds,
            write_calls_per_s: counts[3] as f64 / seconds,
            cpu_wait_pct: wait_ns.map(|ns| (ns as f64 / 1e7 / seconds).min(100.0)),
        };
        moved.into_iter().map(told).collect()
    }
}

fn counts(text: &str) -> Option<Counts> {
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some([of("read_bytes:")?, of("write_bytes:")?, of("syscr:")?, of("syscw:")?])
}

/// `/proc/PID/task/TID/schedstat`: time on a processor, time that it waited for one, both in ns, and how often it ran.
fn waits_ns(pid: u32) -> WaitsNs {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let wait = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((thread.file_name().to_str()?.parse().ok()?, text.split_whitespace().nth(1)?.parse().ok()?))
    };
    threads.filter_map(wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n";
        assert_eq!(counts(text), Some([4096, 8192, 3, 4]));
        assert_eq!(counts("rchar: 1\n"), None);
    }
}
