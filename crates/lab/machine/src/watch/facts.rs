//! The facts behind a slow device: what it does, how it is set, what holds it, and what shares the machine with it.
//!
//! Only reading: counters, settings in sysfs, the room of the file system, and `filefrag`, which asks where a file lies.

use super::{TargetError, WatchOrder, WatchTarget, watch};
use crate::machine::MachineWatch;
use raidlab_advisor::why::{Facts, MemberFacts};
use raidlab_observe::{DeviceFigures, Observed};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(100);

impl WatchTarget {
    /// The devices that an array or a mapping lies on; none of a plain device.
    fn members(&self) -> Vec<Self> {
        let entries = fs::read_dir(self.folder.join("slaves")).into_iter().flatten().flatten();
        let mut members: Vec<Self> = entries.filter_map(|entry| Self::at(&entry.path(), None)).collect();
        members.sort_by(|one, other| one.name.cmp(&other.name));
        members
    }

    /// The device of all that had most in flight in a second.
    ///
    /// # Errors
    /// As of [`watch`].
    pub fn busiest() -> Result<Option<Self>, TargetError> {
        let order = WatchOrder {
            targets: Self::all()?,
            time: Duration::from_secs(1),
            interval: INTERVAL,
            wants_requests: false,
        };
        let watched = watch(&order, &|| false, &mut |_| ())?;
        let in_flight = |index: &usize| watched.devices[*index].load().in_flight_mean;
        let most =
            (0..watched.devices.len()).max_by(|one, other| in_flight(one).total_cmp(&in_flight(other)));
        Ok(most.filter(|index| in_flight(index) > 0.0).map(|index| order.targets[index].clone()))
    }
}

/// Watches `target` and its members for `time`, and puts the facts together.
///
/// # Errors
/// As of [`watch`].
pub fn gather(target: &WatchTarget, time: Duration, stop: &dyn Fn() -> bool) -> Result<Facts, TargetError> {
    let members = target.members();
    let targets = std::iter::once(target.clone()).chain(members).collect();
    let order = WatchOrder { targets, time, interval: INTERVAL, wants_requests: true };
    let setting = |name: &str| {
        let text = fs::read_to_string(target.folder.join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let number = |name: &str| setting(name)?.parse::<u64>().ok();
    let action = setting("md/sync_action");
    let active = Cell::new(None);
    let machine = MachineWatch::start_machine();
    let look = || {
        active.set(active.get().max(number("md/stripe_cache_active")));
        stop()
    };
    let watched = watch(&order, &look, &mut |_| ())?;
    let load = machine.end();
    let mut figures = watched.devices.iter().map(Observed::figures);
    let Some(own) = figures.next() else { return Err(TargetError::Gone { name: target.name.clone() }) };
    let seconds = own.watched_ns.max(1) as f64 / 1e9;
    let (reads, writes) = (watched.devices[0].load().reads, watched.devices[0].load().writes);
    let disk = target.folder.join("queue");
    let queue = if disk.is_dir() { disk } else { target.folder.join("../queue") };
    let of_queue = |name: &str| fs::read_to_string(queue.join(name)).ok()?.trim().parse::<u64>().ok();
    let action = action
        .zip(setting("md/sync_action"))
        .map(|(before, after)| if after == "idle" { before } else { after });
    Ok(Facts {
        device: target.name.clone(),
        reads_per_s: reads as f64 / seconds,
        writes_per_s: writes as f64 / seconds,
        flushes_per_s: own.flushes_per_s,
        mean_read_bytes: own.mean_read_bytes,
        random_pct: own.random_pct,
        in_flight_mean: own.mean_in_flight,
        busy_pct: own.utilisation_pct,
        read_ms: own.latency.read_ns_mean.map(|ns| ns / 1e6),
        write_ms: own.latency.write_ns_mean.map(|ns| ns / 1e6),
        is_rotational: of_queue("rotational").map(|it| it == 1),
        read_ahead_bytes: of_queue("read_ahead_kb").map(|kib| kib * 1024),
        physical_block_bytes: of_queue("physical_block_size"),
        start_bytes: Some(target.start_bytes),
        filesystem_used_pct: filesystem_used_pct(target),
        extent_bytes_mean: target.file.as_deref().and_then(extent_bytes_mean),
        cpu_busy_pct: load.cpu_busy.map(|share| share * 100.0),
        cpu_wait_pct: watched.processes.iter().filter_map(|it| it.cpu_wait_pct).reduce(f64::max),
        sync_action: action,
        stripe_cache_size: number("md/stripe_cache_size"),
        stripe_cache_active: active.get(),
        members: figures.map(|figures| member(&figures)).collect(),
    })
}

fn member(figures: &DeviceFigures) -> MemberFacts {
    let seconds = figures.watched_ns.max(1) as f64 / 1e9;
    let (read, write) = (figures.latency.read_ns_mean, figures.latency.write_ns_mean);
    let share = figures.read_pct.unwrap_or(0.0) / 100.0;
    let mean_ns = read.unwrap_or(0.0) * share + write.unwrap_or(0.0) * (1.0 - share);
    MemberFacts {
        device: figures.device.clone(),
        iops: figures.iops,
        mean_ms: (figures.iops * seconds >= 1.0).then_some(mean_ns / 1e6),
        busy_pct: figures.utilisation_pct,
    }
}

/// Share of the file system on the device that is taken: of the file that was named, or of where the device is mounted.
fn filesystem_used_pct(target: &WatchTarget) -> Option<f64> {
    let mounted = || {
        let number = fs::read_to_string(target.folder.join("dev")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let of_device = |line: &&str| line.split(' ').nth(2) == Some(number.trim());
        mounts.lines().find(of_device)?.split(' ').nth(4).map(Into::into)
    };
    let place = target.file.clone().or_else(mounted)?;
    let facts = rustix::fs::statvfs(&place).ok()?;
    (facts.f_blocks > 0)
        .then(|| (facts.f_blocks - facts.f_bavail.min(facts.f_blocks)) as f64 * 100.0 / facts.f_blocks as f64)
}

/// Mean length of a file's pieces, as `filefrag` counts them.
fn extent_bytes_mean(file: &Path) -> Option<f64> {
    let bytes = fs::metadata(file).ok().filter(fs::Metadata::is_file)?.len();
    let said = Command::new("filefrag").arg(file).env("LC_ALL", "C").output().ok()?;
    let pieces = extents(&String::from_utf8_lossy(&said.stdout))?;
    (pieces > 0).then(|| bytes as f64 / pieces as f64)
}

/// `/a/file: 12 extents found`.
fn extents(said: &str) -> Option<u64> {
    let (_, rest) = said.trim().rsplit_once(": ")?;
    rest.split_once(" extent")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_as_filefrag_says() {
        assert_eq!(extents("/a: b/file: 12 extents found\n"), Some(12));
        assert_eq!(extents("/a/file: 1 extent found\n"), Some(1));
        assert_eq!(extents("filefrag: no such file\n"), None);
    }

    #[test]
    fn a_file_here_has_facts() {
        let Ok(target) = WatchTarget::find(".") else { return };
        let facts = gather(&target, Duration::from_millis(60), &|| false).expect("the device stays");
        assert_eq!(facts.device, target.name);
        assert!(facts.filesystem_used_pct.is_some_and(|pct| (0.0..=100.0).contains(&pct)), "{facts:?}");
        assert!(facts.cpu_busy_pct.is_some() == Path::new("/proc/stat").exists());
    }
}
