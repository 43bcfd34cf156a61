//! A history as figures: percentiles, peaks, growth and rhythm of each device, in a file that plans read.
//!
//! Percentiles are those of the time that the readings cover (`course`). Growth is the slope of a line through the daily means, as a share of
//! their mean per year, and so linear, not compounded; it is told of four weeks and more, since a shorter one is mostly the rhythm of weeks.
//! Rhythm is the mean of each hour of the day, told of a day and more.

use crate::course::{Course, DAY_S, Percentiles, busiest_hour, close_gaps};
use crate::format::HistoryFormat;
use crate::layers::is_layer;
use crate::reading::{Reading, Readings};
use raidlab_units::counted;
use raidlab_workload::toml_file::{self, TomlFileError};
use raidlab_workload::{AccessLine, AccessSpec, Metric, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the file.
const SCHEMA: u32 = 1;
/// Length of a request where nobody tells: requests without bytes.
const BLOCK_BYTES: f64 = 4096.0;

/// What monitoring kept, device by device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Version of the file.
    schema: u32,
    /// The files it was made of.
    pub sources: Vec<String>,
    /// What is to be known of it: sentences.
    pub notes: Vec<String>,
    /// The devices.
    #[serde(rename = "device")]
    pub devices: Vec<DeviceHistory>,
}

/// A device. What the history does not say is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceHistory {
    /// The machine that it is in.
    pub host: String,
    /// Its name there.
    pub device: String,
    /// Number of readings.
    pub readings: u64,
    /// Time that a reading covers, in seconds; of several lengths, the one that half of the time is told by at least.
    pub interval_s: Option<f64>,
    /// Time from the beginning of the first reading to the end of the last, in days.
    pub days: Option<f64>,
    /// Share of the requests that read, in percent; none where reads and writes are not told apart.
    pub read_pct: Option<f64>,
    /// Share of the bytes that are read, in percent.
    #[serde(default)]
    pub read_bytes_pct: Option<f64>,
    /// Mean length of a read.
    pub mean_read_bytes: Option<f64>,
    /// Mean length of a write.
    pub mean_write_bytes: Option<f64>,
    /// Bytes that are written in a day.
    pub written_bytes_per_day: Option<f64>,
    /// Growth of the requests in a year, in percent of their mean over the history. It is linear: each year adds as much.
    pub growth_pct_per_year: Option<f64>,
    /// Hour of the day with most requests; none where no hour is 5 % above the mean of all.
    pub busiest_hour: Option<u8>,
    /// Mean requests per second of each hour of the day, from midnight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iops_by_hour: Vec<f64>,
    /// Requests per second.
    pub iops: Option<Percentiles>,
    /// Megabytes per second.
    pub mb_per_s: Option<Percentiles>,
    /// Requests in flight.
    pub in_flight: Option<Percentiles>,
    /// Share of the time with any request in flight.
    pub busy_pct: Option<Percentiles>,
    /// Mean times of reads, in milliseconds.
    pub read_ms: Option<Percentiles>,
    /// Mean times of writes, in milliseconds.
    pub write_ms: Option<Percentiles>,
    /// Mean times of reads and writes together, in milliseconds, where the history tells them so.
    #[serde(default)]
    pub request_ms: Option<Percentiles>,
}

impl History {
    /// Sums up `readings` of the files called `sources`. Devices that were idle at all times are left out, if others were not; so are
    /// those that lie on others of their host, whose requests would count twice, but for `chosen`.
    pub fn of(sources: &[(String, HistoryFormat)], readings: &Readings, chosen: &[String]) -> Self {
        let mut of_hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (host, device) in readings.by_device.keys() {
            of_hosts.entry(host).or_default().push(device);
        }
        let (mut all, mut layers) = (Vec::new(), Vec::new());
        for ((host, device), list) in &readings.by_device {
            if !chosen.contains(device) && is_layer(device, &of_hosts[host.as_str()]) {
                layers.push((host.as_str(), device.as_str()));
            } else {
                all.push(Summed::of(host, device, list));
            }
        }
        let (busy, idle): (Vec<_>, Vec<_>) = all.into_iter().partition(Summed::is_busy);
        let mut notes = readings.notes.clone();
        match &idle[..] {
            [] => {}
            _ if busy.is_empty() => {}
            [Summed { history: it, .. }] => {
                let name = by_host(&[(&it.host, &it.device)], readings);
                notes.push(format!("{name} was idle at all times and is left out"));
            }
            several => {
                notes.push(format!("{} devices were idle at all times and are left out", several.len()));
            }
        }
        let kept = if busy.is_empty() { idle } else { busy };
        notes.extend(notes_of(&kept));
        if !layers.is_empty() {
            let names = by_host(&layers, readings);
            notes.push(format!(
                "left out, since they lie on other devices of their host: {names} (--device NAME takes one)"
            ));
        }
        let sources = sources.iter().map(|(file, format)| format!("{file}: {}", format.name())).collect();
        Self { schema: SCHEMA, sources, notes, devices: kept.into_iter().map(|it| it.history).collect() }
    }

    /// Reads the text of the file called `file`.
    ///
    /// # Errors
    /// [`TomlFileError`] says what is wrong and where.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, TomlFileError> {
        toml_file::parse(file, text, SCHEMA)
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

impl DeviceHistory {
    fn of(host: &str, device: &str, list: &[Reading]) -> Self {
        let course = Course::of(list);
        let each = |figure: fn(&Reading) -> Option<f64>| course.figure(figure);
        let share = |(part, other): (f64, f64)| (part + other > 0.0).then(|| part * 100.0 / (part + other));
        let length = |(bytes, count): (f64, f64)| (count > 0.0).then(|| bytes / count);
        let by_hour = course.by_hour();
        Self {
            host: host.to_owned(),
            device: device.to_owned(),
            readings: list.len() as u64,
            interval_s: course.interval_s(),
            days: course.days(),
            read_pct: course.both(|it| it.reads, |it| it.writes).and_then(share),
            read_bytes_pct: course.both(|it| it.read_bytes, |it| it.write_bytes).and_then(share),
            mean_read_bytes: course.both(|it| it.read_bytes, |it| it.reads).and_then(length),
            mean_write_bytes: course.both(|it| it.write_bytes, |it| it.writes).and_then(length),
            written_bytes_per_day: each(|it| it.write_bytes).map(|it| it.mean * DAY_S),
            growth_pct_per_year: course.growth(),
            busiest_hour: busiest_hour(&by_hour),
            iops_by_hour: by_hour,
            iops: each(Reading::iops),
            mb_per_s: each(|it| it.bytes().map(|bytes| bytes / 1e6)),
            in_flight: each(|it| it.in_flight),
            busy_pct: each(|it| it.busy_pct),
            read_ms: course.latency(|it| it.read_ms, |it| it.reads),
            write_ms: course.latency(|it| it.write_ms, |it| it.writes),
            request_ms: course.latency(|it| it.request_ms, Reading::iops),
        }
    }

    /// `host-device`, with characters that names of workloads may have.
    pub fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        format!("{}-{}", self.host, self.device).chars().map(plain).collect::<String>().to_lowercase()
    }

    /// A workload like it; none where no requests are told. History knows no places: they are random. Where reads and writes are not told
    /// apart, the workload takes them for as many as their bytes, and both for as long as all are on average.
    pub fn workload(&self) -> Option<Workload> {
        self.iops.filter(|iops| iops.max > 0.0)?;
        let read_pct = self.read_pct.or(self.read_bytes_pct).unwrap_or(50.0).round().clamp(0.0, 100.0) as u8;
        let of_all = self.mb_per_s.zip(self.iops).filter(|(_, iops)| iops.mean > 0.0);
        let of_all = of_all.map(|(mb_per_s, iops)| mb_per_s.mean * 1e6 / iops.mean);
        let line = |bytes: Option<f64>, share_pct: u8, read_pct: u8| {
            let blocks = (bytes.unwrap_or(BLOCK_BYTES) / BLOCK_BYTES).round().clamp(1.0, 8192.0);
            let bytes = (blocks * BLOCK_BYTES) as u32;
            let align_bytes = (bytes != BLOCK_BYTES as u32).then_some(BLOCK_BYTES as u32);
            AccessLine { share_pct, align_bytes, ..AccessLine::plain(bytes, read_pct, 100) }
        };
        let both = [(self.mean_read_bytes, read_pct, 100), (self.mean_write_bytes, 100 - read_pct, 0)]
            .map(|(bytes, share_pct, read_pct)| line(bytes.or(of_all), share_pct, read_pct));
        let lines: Vec<AccessLine> = both.into_iter().filter(|line| line.share_pct > 0).collect();
        Some(Workload {
            title: format!("{} of {}", self.device, self.host),
            source: "a history: raidlab import history".to_owned(),
            metric: Metric::Iops,
            notes: if self.read_pct.is_some() {
                "Histories tell no places: all requests are taken for random.".to_owned()
            } else {
                "Histories tell no places: all requests are taken for random. This one does not tell reads from writes: they are taken \
                 for as many as their bytes, and for equally long."
                    .to_owned()
            },
            block_bytes_published: Vec::new(),
            spec: AccessSpec::new(self.name(), lines),
        })
    }

    /// Requests per second that an array must serve: those that it was at most in 99 % of the time, or the most of few readings.
    pub fn iops_needed(&self) -> Option<f64> {
        const FEW: f64 = 100.0;
        // Of long and short readings, the long ones are what the time is told by.
        let by_time = self.days.zip(self.interval_s).map(|(days, interval_s)| days * DAY_S / interval_s);
        let count = by_time.unwrap_or(f64::INFINITY).min(self.readings as f64);
        self.iops.map(|iops| if count.round() < FEW { iops.max } else { iops.p99 }).filter(|it| *it > 0.0)
    }
}

/// A device, and what is to be said of its readings.
struct Summed {
    history: DeviceHistory,
    /// What is told, where it is reads or writes alone.
    only: Option<&'static str>,
    /// Readings that do not tell what time they cover.
    untimed: u64,
    /// Readings that lack reads or writes.
    halves: u64,
    /// Readings that span a gap.
    gaps: u64,
}

impl Summed {
    fn of(host: &str, device: &str, list: &[Reading]) -> Self {
        let (mut whole, halves) = without_halves(list);
        let gaps = close_gaps(&mut whole);
        let untimed = list.iter().filter(|it| it.interval_s.is_none() && list.len() > 1).count() as u64;
        let history = DeviceHistory::of(host, device, &whole);
        Self { history, only: only_told(list), untimed, halves, gaps }
    }

    fn is_busy(&self) -> bool {
        let is_moving = |figure: Option<Percentiles>| figure.is_some_and(|it| it.max > 0.0);
        is_moving(self.history.iops) || is_moving(self.history.mb_per_s)
    }
}

/// What is to be known of the readings of the devices that are `kept`.
fn notes_of(kept: &[Summed]) -> Vec<String> {
    let mut notes = Vec::new();
    let sum = |count: fn(&Summed) -> u64| kept.iter().map(count).sum::<u64>();
    let (untimed, halves, gaps) = (sum(|it| it.untimed), sum(|it| it.halves), sum(|it| it.gaps));
    if untimed > 0 {
        notes.push(format!(
            "{} without a time: counted as long as the others of the device",
            counted(untimed, "reading")
        ));
    }
    if gaps > 0 {
        notes.push(format!(
            "{} behind a gap of more than ten intervals: counted as one interval",
            counted(gaps, "reading")
        ));
    }
    for (told, other) in [("reads", "writes"), ("writes", "reads")] {
        let devices = kept.iter().filter(|it| it.only == Some(told)).count() as u64;
        if devices > 0 {
            let devices = counted(devices, "device");
            notes.push(format!("of {devices} only {told} are told: no {other} are in the figures"));
        }
    }
    if halves > 0 {
        notes.push(format!(
            "{} with reads or writes missing: requests or bytes left out",
            counted(halves, "reading")
        ));
    }
    notes
}

/// Names of devices, `a, b`; with their hosts where `readings` are of several: `db1 a, b; db2 a`.
fn by_host(devices: &[(&str, &str)], readings: &Readings) -> String {
    let first = readings.by_device.keys().next().map(|key| &key.0);
    let is_one = readings.by_device.keys().all(|key| Some(&key.0) == first);
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, device) in devices {
        hosts.entry(host).or_default().push(device);
    }
    let each = hosts.iter().map(|(host, names)| {
        let names = names.join(", ");
        if is_one { names } else { format!("{host} {names}") }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// What is told, where it is reads or writes alone.
fn only_told(list: &[Reading]) -> Option<&'static str> {
    let tells = |figure: fn(&Reading) -> Option<f64>| list.iter().any(|it| figure(it).is_some());
    match (tells(|it| it.reads), tells(|it| it.writes)) {
        _ if tells(|it| it.requests) => None,
        (true, false) => Some("reads"),
        (false, true) => Some("writes"),
        _ => None,
    }
}

/// The readings without sums that are not whole, and how many those were: reads or writes are missing in them, and told in others.
fn without_halves(list: &[Reading]) -> (Vec<Reading>, u64) {
    let tells = |figure: fn(&Reading) -> Option<f64>| list.iter().any(|it| figure(it).is_some());
    let both_requests = tells(|it| it.reads) && tells(|it| it.writes);
    let both_bytes = tells(|it| it.read_bytes) && tells(|it| it.write_bytes);
    let mut halves = 0;
    let whole = |reading: &Reading| {
        let mut reading = *reading;
        let cuts_requests = both_requests && reading.reads.is_some() != reading.writes.is_some();
        let cuts_bytes = both_bytes && reading.read_bytes.is_some() != reading.write_bytes.is_some();
        if cuts_requests {
            (reading.reads, reading.writes) = (None, None);
        }
        if cuts_bytes {
            (reading.read_bytes, reading.write_bytes) = (None, None);
        }
        halves += u64::from(cuts_requests || cuts_bytes);
        reading
    };
    (list.iter().map(whole).collect(), halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hourly(days: u64, iops: impl Fn(u64) -> f64) -> DeviceHistory {
        let list: Vec<Reading> = (0..days * 24)
            .map(|hour| Reading {
                at_s: Some(1_700_006_400.0 + (hour + 1) as f64 * 3600.0),
                interval_s: Some(3600.0),
                reads: Some(iops(hour) * 0.75),
                writes: Some(iops(hour) * 0.25),
                read_bytes: Some(iops(hour) * 0.75 * 8192.0),
                write_bytes: Some(iops(hour) * 0.25 * 65_536.0),
                ..Reading::default()
            })
            .collect();
        DeviceHistory::of("db1", "sda", &list)
    }

    #[test]
    fn a_missing_half_is_no_zero() {
        let whole =
            Reading { reads: Some(100.0), writes: Some(50.0), interval_s: Some(10.0), ..Reading::default() };
        let half = Reading { writes: None, ..whole };
        let history = |list: &[Reading]| {
            let mut readings = Readings::default();
            readings.by_device.insert(("db1".into(), "sda".into()), list.to_vec());
            History::of(&[], &readings, &[])
        };
        let found = history(&[whole, half, whole]);
        assert_eq!(found.devices[0].iops.map(|it| it.mean), Some(150.0));
        assert!(found.notes[0].starts_with("1 reading with reads or writes missing"), "{:?}", found.notes);
        // Where nobody tells of writes, reads are what is known.
        let of_reads = history(&[half, half]);
        assert_eq!(of_reads.devices[0].iops.map(|it| it.mean), Some(100.0));
        assert_eq!(of_reads.notes, ["of 1 device only reads are told: no writes are in the figures"]);
    }

    /// A CD drive that was idle, and a partition, tell reads alone.
    #[test]
    fn notes_are_of_the_devices_that_are_kept() {
        let one =
            |reads: f64, writes: Option<f64>| Reading { reads: Some(reads), writes, ..Reading::default() };
        let devices = [
            ("sda", [one(5.0, Some(1.0)), one(5.0, Some(1.0))]),
            ("sda1", [one(5.0, None), one(5.0, None)]),
            ("sr0", [one(0.0, None), one(0.0, None)]),
        ];
        let by_device = devices.map(|(device, list)| (("db1".to_owned(), device.to_owned()), list.to_vec()));
        let history = History::of(
            &[],
            &Readings { by_device: by_device.into(), notes: Vec::new() },
            &["sda".to_owned()],
        );
        assert_eq!(
            history.notes,
            [
                "sr0 was idle at all times and is left out",
                "2 readings without a time: counted as long as the others of the device",
                "left out, since they lie on other devices of their host: sda1 (--device NAME takes one)",
            ]
        );
    }

    #[test]
    fn a_day_has_a_rhythm_and_a_month_grows() {
        let day = hourly(2, |hour| if hour % 24 == 9 { 5000.0 } else { 100.0 });
        assert_eq!((day.busiest_hour, day.iops_by_hour.len(), day.growth_pct_per_year), (Some(9), 24, None));
        let rounded = [day.read_pct, day.mean_read_bytes, day.mean_write_bytes].map(|it| it.map(f64::round));
        assert_eq!(rounded, [Some(75.0), Some(8192.0), Some(65_536.0)]);
        assert_eq!((day.interval_s, day.iops_needed()), (Some(3600.0), Some(5000.0)));
        // 1000 in the middle of sixty days, a tenth of a percent of it more each day.
        let grown = hourly(60, |hour| 1000.0 + (hour as f64 / 24.0 - 30.0));
        let growth = grown.growth_pct_per_year.expect("it is long enough");
        assert!((growth - 36.5).abs() < 0.2, "{growth}");
        assert!(hourly(27, |_| 1.0).growth_pct_per_year.is_none());
        assert!(hourly(60, |_| 7.0).growth_pct_per_year.is_some_and(|it| it.abs() < 1e-9));
    }

    #[test]
    fn a_file_is_read_back_and_makes_a_workload() {
        let readings = Readings { by_device: BTreeMap::new(), notes: vec!["a note".into()] };
        let mut history = History::of(&[("a.json".into(), HistoryFormat::SadfJson)], &readings, &[]);
        history.devices.push(hourly(2, |hour| hour as f64));
        let text = history.to_toml();
        assert_eq!(History::from_toml("history.toml", &text), Ok(history.clone()));
        assert!(History::from_toml("history.toml", &text.replace("mean_read", "men_read")).is_err());
        let workload = history.devices[0].workload().expect("there are requests");
        let lines: Vec<_> =
            workload.spec.lines.iter().map(|it| (it.bytes, it.share_pct, it.read_pct)).collect();
        assert_eq!((workload.name(), &lines[..]), ("db1-sda", &[(8192, 75, 100), (65_536, 25, 0)][..]));
        assert!(workload.spec.validate().is_ok());
    }

    #[test]
    fn requests_that_are_not_told_apart_have_no_share_and_no_lengths() {
        let list = [Reading {
            requests: Some(100.0),
            read_bytes: Some(3e6),
            write_bytes: Some(1e6),
            ..Reading::default()
        }];
        let device = DeviceHistory::of("h", "d", &list);
        assert_eq!((device.read_pct, device.mean_read_bytes, device.mean_write_bytes), (None, None, None));
        assert_eq!(device.read_bytes_pct, Some(75.0));
        let lines = device.workload().expect("there are requests").spec.lines;
        let lines: Vec<_> = lines.iter().map(|it| (it.bytes, it.share_pct, it.read_pct)).collect();
        assert_eq!(lines, [(40_960, 75, 100), (40_960, 25, 0)]);
        assert!(device.iops_by_hour.is_empty() && device.days.is_none());
    }
}
