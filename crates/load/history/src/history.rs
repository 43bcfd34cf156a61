//! A history as figures: percentiles, peaks, growth and rhythm of each device, in a file that plans read.
//!
//! Percentiles are those of the readings. Growth is the slope of a line through the daily means, as a share of their mean per year, and so
//! linear, not compounded; it is told of four weeks and more, since a shorter one is mostly the rhythm of weeks. Rhythm is the mean of each hour of the day, told of a
//! day and more.

use crate::format::HistoryFormat;
use crate::layers::is_layer;
use crate::reading::{Reading, Readings};
use raidlab_workload::toml_file::{self, TomlFileError};
use raidlab_workload::{AccessLine, AccessSpec, Metric, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the file.
const SCHEMA: u32 = 1;
const DAY_S: f64 = 86_400.0;
/// Days of which growth can be told.
const GROWTH_DAYS_MIN: usize = 28;
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

/// A figure over all readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Half of the readings have at most so much.
    pub p50: f64,
    /// 95 % have.
    pub p95: f64,
    /// 99 % have.
    pub p99: f64,
    /// The most.
    pub max: f64,
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
    /// Time from one reading to the next, in seconds.
    pub interval_s: Option<f64>,
    /// Time from the first reading to the last, in days.
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
    /// Hour of the day with most requests.
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

impl Percentiles {
    fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.flatten().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |pct: f64| {
            sorted[((sorted.len() as f64 * pct / 100.0).ceil() as usize).saturating_sub(1).min(last)]
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Self { mean, p50: at(50.0), p95: at(95.0), p99: at(99.0), max: sorted[last] })
    }
}

impl History {
    /// Sums up `readings` of the files called `sources`. Devices that were idle at all times are left out, if others were not; so are
    /// those that lie on others of their host, whose requests would count twice, but for `chosen`.
    pub fn of(sources: &[(String, HistoryFormat)], readings: &Readings, chosen: &[String]) -> Self {
        let of_host = |host: &str| -> Vec<&str> {
            readings.by_device.keys().filter(|key| key.0 == host).map(|key| key.1.as_str()).collect()
        };
        let (mut all, mut layers, mut halves) = (Vec::new(), Vec::new(), 0);
        for ((host, device), list) in &readings.by_device {
            if !chosen.contains(device) && is_layer(device, &of_host(host)) {
                layers.push(device.as_str());
            } else {
                let (list, cut) = without_halves(list);
                halves += cut;
                all.push(DeviceHistory::of(host, device, &list));
            }
        }
        let is_busy = |device: &DeviceHistory| {
            device.iops.is_some_and(|it| it.max > 0.0) || device.mb_per_s.is_some_and(|it| it.max > 0.0)
        };
        let (busy, idle): (Vec<_>, Vec<_>) = all.into_iter().partition(is_busy);
        let mut notes = readings.notes.clone();
        if !busy.is_empty() && !idle.is_empty() {
            notes.push(match idle.len() {
                1 => format!("{} was idle at all times and is left out", idle[0].device),
                several => format!("{several} devices were idle at all times and are left out"),
            });
        }
        if halves > 0 {
            notes.push(match halves {
                1 => "1 reading lacks reads or writes, and its requests or bytes are left out".to_owned(),
                _ => format!(
                    "{halves} readings lack reads or writes, and their requests or bytes are left out"
                ),
            });
        }
        layers.dedup();
        if !layers.is_empty() {
            let names = layers.join(", ");
            notes.push(format!(
                "left out, since they lie on other devices of their host: {names} (--device NAME takes one)"
            ));
        }
        let sources = sources.iter().map(|(file, format)| format!("{file}: {}", format.name())).collect();
        Self { schema: SCHEMA, sources, notes, devices: if busy.is_empty() { idle } else { busy } }
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
        let each = |figure: fn(&Reading) -> Option<f64>| Percentiles::of(list.iter().map(figure));
        let (reads, writes) = (each(|it| it.reads), each(|it| it.writes));
        let (read_bytes, write_bytes) = (each(|it| it.read_bytes), each(|it| it.write_bytes));
        let iops = each(Reading::iops);
        let mean = |it: Option<Percentiles>| it.map(|it| it.mean);
        let share = |part: f64, other: f64| (part + other > 0.0).then(|| part * 100.0 / (part + other));
        let told = mean(reads).zip(mean(writes));
        let of_bytes =
            mean(read_bytes).zip(mean(write_bytes)).and_then(|(read, written)| share(read, written));
        let length = |bytes: Option<f64>, count: Option<f64>| {
            bytes.zip(count).filter(|(_, count)| *count > 0.0).map(|(bytes, count)| bytes / count)
        };
        let (days, by_hour) = (span_days(list), by_hour(list));
        let busiest = by_hour.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
        Self {
            host: host.to_owned(),
            device: device.to_owned(),
            readings: list.len() as u64,
            interval_s: interval_s(list),
            days,
            read_pct: told.and_then(|(reads, writes)| share(reads, writes)),
            read_bytes_pct: of_bytes,
            mean_read_bytes: length(mean(read_bytes), mean(reads)),
            mean_write_bytes: length(mean(write_bytes), mean(writes)),
            written_bytes_per_day: mean(write_bytes).map(|rate| rate * DAY_S),
            growth_pct_per_year: growth(list),
            busiest_hour: busiest.map(|(hour, _)| hour as u8),
            iops_by_hour: by_hour,
            iops,
            mb_per_s: each(|it| it.bytes().map(|bytes| bytes / 1e6)),
            in_flight: each(|it| it.in_flight),
            busy_pct: each(|it| it.busy_pct),
            read_ms: each(|it| it.read_ms.filter(|ms| *ms > 0.0)),
            write_ms: each(|it| it.write_ms.filter(|ms| *ms > 0.0)),
            request_ms: each(|it| it.request_ms.filter(|ms| *ms > 0.0)),
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

    /// Requests per second that an array must serve: those that 99 % of the readings have at most, or the most of few readings.
    pub fn iops_needed(&self) -> Option<f64> {
        const FEW: u64 = 100;
        self.iops.map(|iops| if self.readings < FEW { iops.max } else { iops.p99 }).filter(|it| *it > 0.0)
    }
}

/// The readings without sums that are not whole, and how many those were: reads or writes are missing in them, and told in others.
fn without_halves(list: &[Reading]) -> (Vec<Reading>, usize) {
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
        halves += usize::from(cuts_requests || cuts_bytes);
        reading
    };
    (list.iter().map(whole).collect(), halves)
}

fn span_days(list: &[Reading]) -> Option<f64> {
    let times = || list.iter().filter_map(|it| it.at_s);
    let first = times().fold(f64::INFINITY, f64::min);
    let last = times().fold(f64::NEG_INFINITY, f64::max);
    (last > first).then(|| (last - first) / DAY_S)
}

fn interval_s(list: &[Reading]) -> Option<f64> {
    let told = Percentiles::of(list.iter().map(|it| it.interval_s)).map(|it| it.p50);
    told.or_else(|| {
        let gaps = list
            .windows(2)
            .map(|pair| Some(pair[1].at_s? - pair[0].at_s?))
            .filter(|gap| gap.is_some_and(|it| it > 0.0));
        Percentiles::of(gaps).map(|it| it.p50)
    })
}

/// Mean requests per second of each hour of the day; empty for less than a day.
fn by_hour(list: &[Reading]) -> Vec<f64> {
    let mut hours = [(0.0, 0u32); 24];
    for (at_s, iops) in list.iter().filter_map(|it| it.at_s.zip(it.iops())) {
        let hour = &mut hours[((at_s % DAY_S) / 3600.0) as usize % 24];
        hour.0 += iops;
        hour.1 += 1;
    }
    let is_whole =
        span_days(list).is_some_and(|days| days >= 0.95) && hours.iter().all(|(_, count)| *count > 0);
    let mean = |(sum, count): &(f64, u32)| sum / f64::from(*count);
    if is_whole { hours.iter().map(mean).collect() } else { Vec::new() }
}

/// Percent per year by which daily means grow, by least squares.
fn growth(list: &[Reading]) -> Option<f64> {
    let mut days: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for (at_s, iops) in list.iter().filter_map(|it| it.at_s.zip(it.iops())) {
        let day = days.entry((at_s / DAY_S) as u64).or_default();
        day.0 += iops;
        day.1 += 1;
    }
    let points: Vec<(f64, f64)> =
        days.iter().map(|(day, (sum, count))| (*day as f64, sum / f64::from(*count))).collect();
    let count = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / count;
    let (mean_day, mean_iops) = (mean(|it| it.0), mean(|it| it.1));
    let covariance: f64 = points.iter().map(|it| (it.0 - mean_day) * (it.1 - mean_iops)).sum();
    let variance: f64 = points.iter().map(|it| (it.0 - mean_day).powi(2)).sum();
    let is_told = points.len() >= GROWTH_DAYS_MIN && mean_iops > 0.0 && variance > 0.0;
    is_told.then(|| covariance / variance * 365.25 * 100.0 / mean_iops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hourly(days: u64, iops: impl Fn(u64) -> f64) -> DeviceHistory {
        let list: Vec<Reading> = (0..days * 24)
            .map(|hour| Reading {
                at_s: Some(1_700_006_400.0 + hour as f64 * 3600.0),
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
        let whole = Reading { reads: Some(100.0), writes: Some(50.0), ..Reading::default() };
        let half = Reading { writes: None, ..whole };
        let history = |list: &[Reading]| {
            let mut readings = Readings::default();
            readings.by_device.insert(("db1".into(), "sda".into()), list.to_vec());
            History::of(&[], &readings, &[])
        };
        let found = history(&[whole, half, whole]);
        assert_eq!(found.devices[0].iops.map(|it| it.mean), Some(150.0));
        assert!(found.notes[0].starts_with("1 reading lacks reads or writes"), "{:?}", found.notes);
        // Where nobody tells of writes, reads are what is known.
        let of_reads = history(&[half, half]);
        assert_eq!((of_reads.devices[0].iops.map(|it| it.mean), of_reads.notes.len()), (Some(100.0), 0));
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
