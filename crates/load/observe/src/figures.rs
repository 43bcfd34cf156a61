//! The figures of a device that was watched, with units in their names.
//!
//! **Flushes among writes.** Since Linux 5.5 the counters have fields of flushes. The request that asked for one is counted as a write of no
//! bytes beside (`blk_account_io_done`; loop and other devices with a cache that is flushed), unless it carried data. Counters don't tell
//! which did: an fsync of a disk asks for flushes without data, a journal's commit for one with data. A mean length of writes below a page
//! shows that some were empty: as many as there were flushes are taken off then. Where nothing shows it, writes stay as they are counted,
//! and [`Observed::notes`] says so. Requests that are seen one by one tell flushes apart, but counters still give the rates.

use crate::character::{Character, RequestFigures, Seen};
use crate::intervals::{HourFigures, IntervalFigures, Intervals, share_pct};
use raidlab_units::counted;
use raidlab_workload::DeviceLoad;
use serde::Serialize;

/// What told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The kernel's counters.
    Counters,
    /// The counters, and requests seen one by one.
    Requests,
}

/// All that was seen of a device.
#[derive(Debug)]
pub struct Observed {
    pub(crate) load: DeviceLoad,
    pub(crate) watched_ns: u64,
    pub(crate) others: (u64, u64),
    pub(crate) intervals: Intervals,
    pub(crate) seen: Option<Seen>,
    pub(crate) size_bytes: Option<u64>,
    /// Flushes that were counted as writes, and are taken off them.
    pub(crate) flushes_taken_off: bool,
}

/// The least that a write of data is taken to have: a page, which file systems and databases write at least.
const PAGE_BYTES: u64 = 4096;

/// How many of the writes of `load` had data, of which the counters show it; see the head of this file.
fn writes_with_data(load: &DeviceLoad, flushes: u64) -> Option<u64> {
    let rest = load.writes.checked_sub(flushes).filter(|rest| *rest > 0 && flushes > 0)?;
    (load.write_bytes < load.writes.saturating_mul(PAGE_BYTES)).then_some(rest)
}

impl Observed {
    /// What a device did in `watched_ns`: the load of the whole time, discards and flushes, and the intervals of it. `size_bytes` is the
    /// device's size.
    pub fn new(
        mut load: DeviceLoad,
        watched_ns: u64,
        others: (u64, u64),
        mut intervals: Intervals,
        size_bytes: Option<u64>,
    ) -> Self {
        let with_data = writes_with_data(&load, others.1);
        if let Some(writes) = with_data {
            intervals.scale_writes(writes, load.writes);
            load.writes = writes;
        }
        Self {
            load,
            watched_ns,
            others,
            intervals,
            seen: None,
            size_bytes,
            flushes_taken_off: with_data.is_some(),
        }
    }

    /// What is to be known of the figures: sentences.
    pub fn notes(&self) -> Vec<String> {
        let (name, flushes) = (&self.load.name, self.others.1);
        let note = if self.flushes_taken_off {
            format!(
                "{name}: its counters have {} as writes without data, which are taken off the writes; the time of writes alone \
                 is not known",
                counted(flushes, "flush")
            )
        } else if flushes > 0 {
            format!(
                "{name}: its counters may have up to {} as writes without data, and don't tell",
                counted(flushes, "flush")
            )
        } else {
            return Vec::new();
        };
        vec![note]
    }

    /// The same with requests that were seen one by one; where there are none it stays as it is.
    #[must_use]
    pub fn with_requests(mut self, character: Character) -> Self {
        self.seen = Some(character.finish()).filter(|seen| seen.figures.requests > 0);
        self
    }

    /// What the device did.
    pub fn load(&self) -> &DeviceLoad {
        &self.load
    }

    /// The figures.
    pub fn figures(&self) -> DeviceFigures {
        let load = &self.load;
        let seconds = self.watched_ns.max(1) as f64 / 1e9;
        let mean = |bytes: u64, count: u64| (count > 0).then(|| bytes as f64 / count as f64);
        let latency = |ns: f64, count: u64| (count > 0).then_some(ns);
        let seen = self.seen.as_ref().map(|seen| seen.figures.clone());
        DeviceFigures {
            device: load.name.clone(),
            source: if seen.is_some() { Source::Requests } else { Source::Counters },
            watched_ns: self.watched_ns,
            size_bytes: self.size_bytes,
            iops: (load.reads + load.writes) as f64 / seconds,
            mb_per_s: (load.read_bytes + load.write_bytes) as f64 / 1e6 / seconds,
            read_pct: share_pct(load.reads, load.writes),
            mean_read_bytes: mean(load.read_bytes, load.reads),
            mean_write_bytes: mean(load.write_bytes, load.writes),
            random_pct: seen.as_ref().and_then(|seen| seen.random_pct),
            mean_in_flight: load.in_flight_mean,
            utilisation_pct: load.utilisation * 100.0,
            latency: LatencyFigures {
                read_ns_mean: latency(load.read_ns_mean, load.reads),
                write_ns_mean: latency(load.write_ns_mean, load.writes).filter(|_| !self.flushes_taken_off),
            },
            merged_pct: share_pct(load.read_merges + load.write_merges, load.reads + load.writes),
            discards_per_s: self.others.0 as f64 / seconds,
            flushes_per_s: self.others.1 as f64 / seconds,
            intervals: self.intervals.figures(),
            hours: self.intervals.hours(),
            requests: seen,
        }
    }
}

/// Figures of a device. What can't be known is none.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DeviceFigures {
    /// Kernel name.
    pub device: String,
    /// What told.
    pub source: Source,
    /// How long it was watched.
    pub watched_ns: u64,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Reads and writes per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// Share of the requests that read.
    pub read_pct: Option<f64>,
    /// Mean length of a read, as the device had it: merged with its neighbours.
    pub mean_read_bytes: Option<f64>,
    /// Mean length of a write.
    pub mean_write_bytes: Option<f64>,
    /// Share of the requests that begin a run.
    pub random_pct: Option<f64>,
    /// Requests in queue and device, on average over the time watched.
    pub mean_in_flight: f64,
    /// Share of the time with any request in flight.
    pub utilisation_pct: f64,
    /// Mean times in queue and device.
    pub latency: LatencyFigures,
    /// Share of the requests that were merged into others before the device.
    pub merged_pct: Option<f64>,
    /// Discards per second.
    pub discards_per_s: f64,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// How short intervals spread.
    pub intervals: Option<IntervalFigures>,
    /// Hour by hour, of watches of two hours and more.
    pub hours: Vec<HourFigures>,
    /// What only requests tell.
    pub requests: Option<RequestFigures>,
}

/// Mean times in queue and device; none without a request of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LatencyFigures {
    /// Of reads.
    pub read_ns_mean: Option<f64>,
    /// Of writes.
    pub write_ns_mean: Option<f64>,
}
