//! The state of an array as Prometheus metrics.
//!
//! Names follow Prometheus' rules: base units in the name, counters end in `_total`, and a state is a set of gauges of
//! which one is 1. Source: `OpenMetrics` 1.0, <https://prometheus.io/docs/practices/naming/>.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use raidlab_runtime::{ArrayStatus, Condition, DeviceCondition, DeviceStatus};
use std::fmt::Error;

/// What the text is, for HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric of the whole array.
struct ArrayMetric {
    name: &'static str,
    help: &'static str,
    in_bytes: bool,
    value: Value,
}

/// Where a metric comes from, and whether it only grows.
enum Value {
    Counter(fn(&ArrayStatus) -> u64),
    Gauge(fn(&ArrayStatus) -> f64),
}

const fn counter(name: &'static str, help: &'static str, value: fn(&ArrayStatus) -> u64) -> ArrayMetric {
    ArrayMetric { name, help, in_bytes: false, value: Value::Counter(value) }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&ArrayStatus) -> f64) -> ArrayMetric {
    ArrayMetric { name, help, in_bytes: false, value: Value::Gauge(value) }
}

const fn bytes(metric: ArrayMetric) -> ArrayMetric {
    ArrayMetric { in_bytes: true, ..metric }
}

/// All metrics of the whole array.
static ARRAY_METRICS: &[ArrayMetric] = &[
    bytes(gauge("raidlab_volume", "Size of the volume", |a| a.volume_bytes as f64)),
    gauge("raidlab_failures_left", "Members that may still fail before data is lost, or more of it", |a| {
        f64::from(a.failures_left)
    }),
    gauge("raidlab_lost_blocks", "Blocks of the volume that are errors until they are written again", |a| {
        a.lost_blocks as f64
    }),
    gauge("raidlab_out_of_sync_stripes", "Stripes whose redundancy is not known to agree", |a| {
        a.out_of_sync_stripes as f64
    }),
    bytes(gauge("raidlab_cache_size", "Memory of the cache", |a| a.cache.size_bytes as f64)),
    bytes(gauge("raidlab_cache_dirty", "Acknowledged and not on the members yet", |a| {
        a.cache.dirty_bytes as f64
    })),
    gauge("raidlab_cache_writes_back", "1 while writes are acknowledged from the cache", |a| {
        f64::from(u8::from(a.cache.writes_back))
    }),
    gauge("raidlab_scan_active", "1 while a rebuild, resync, check or repair runs or rests", |a| {
        f64::from(u8::from(a.scan.is_some()))
    }),
    gauge("raidlab_scan_done_ratio", "How far the scan is, 0 to 1; 0 without one", |a| {
        a.scan.as_ref().map_or(0.0, |s| s.done_stripes as f64 / s.total_stripes.max(1) as f64)
    }),
    counter("raidlab_host_reads", "Reads of the host that ended", |a| a.counters.host_reads),
    counter("raidlab_host_writes", "Writes of the host that ended", |a| a.counters.host_writes),
    counter("raidlab_host_flushes", "Flushes of the host that ended", |a| a.counters.host_flushes),
    bytes(counter("raidlab_host_read", "Bytes that the host read", |a| a.counters.host_read_bytes)),
    bytes(counter("raidlab_host_write", "Bytes that the host wrote", |a| a.counters.host_write_bytes)),
    counter("raidlab_host_errors", "Requests of the host that failed", |a| a.counters.host_errors),
    counter("raidlab_member_reads", "Reads of members", |a| a.counters.member_reads),
    counter("raidlab_member_writes", "Writes of members", |a| a.counters.member_writes),
    counter("raidlab_member_flushes", "Flushes of members", |a| a.counters.member_flushes),
    bytes(counter("raidlab_cache_hit", "Bytes of host reads found in the cache", |a| {
        a.counters.cache_hit_bytes
    })),
    bytes(counter("raidlab_parity", "Bytes of parity and recovered data computed", |a| {
        a.counters.parity_bytes
    })),
    counter("raidlab_metadata_writes", "Writes of metadata", |a| a.counters.metadata_writes),
    counter("raidlab_mismatched_blocks", "Block checksum mismatches; 0 without integrity", |a| {
        a.counters.mismatched_blocks
    }),
];

/// Writes the metrics of an array in the text form of `OpenMetrics`.
#[expect(clippy::missing_panics_doc, reason = "text can be written to a string")]
pub fn render(status: &ArrayStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(status.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).expect("text can be written to a string");
    text
}

#[derive(Debug)]
struct Metrics(ArrayStatus);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_array(&mut encoder)?;
        self.encode_condition(&mut encoder)?;
        self.encode_devices(&mut encoder)
    }
}

/// A value of a metric.
#[derive(Clone, Copy)]
enum Sample {
    Counter(u64),
    Gauge(f64),
}

impl Sample {
    const fn kind(self) -> MetricType {
        match self {
            Self::Counter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
        }
    }

    fn encode(self, family: &mut MetricEncoder<'_>, labels: &[(&str, &str)]) -> Result<(), Error> {
        let labels = labels.to_vec();
        let one = family.encode_family(&labels)?;
        match self {
            Self::Counter(value) => ConstCounter::new(value).encode(one),
            Self::Gauge(value) => ConstGauge::new(value).encode(one),
        }
    }
}

/// 1 for yes.
fn flag(is_so: bool) -> Sample {
    Sample::Gauge(f64::from(u8::from(is_so)))
}

impl Metrics {
    fn encode_array(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        for metric in ARRAY_METRICS {
            let sample = match metric.value {
                Value::Counter(value) => Sample::Counter(value(&self.0)),
                Value::Gauge(value) => Sample::Gauge(value(&self.0)),
            };
            let unit = metric.in_bytes.then_some(Unit::Bytes);
            let mut family =
                encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), sample.kind())?;
            sample.encode(&mut family, &[("array", &self.0.name)])?;
        }
        Ok(())
    }

    fn encode_condition(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let (name, help) = ("raidlab_condition", "1 for the condition that the array is in");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for condition in Condition::ALL {
            let labels = [("array", self.0.name.as_str()), ("condition", condition.name())];
            flag(condition == self.0.condition).encode(&mut family, &labels)?;
        }
        Ok(())
    }

    fn encode_devices(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let (name, help) = ("raidlab_device_state", "1 for the state that the device is in");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for device in &self.0.devices {
            for state in DeviceCondition::ALL {
                let number = device.device.to_string();
                let path = device.path.as_deref().unwrap_or_default();
                let labels = [
                    ("array", self.0.name.as_str()),
                    ("device", &number),
                    ("path", path),
                    ("state", state.name()),
                ];
                flag(state == device.state).encode(&mut family, &labels)?;
            }
        }
        let errors = |device: &DeviceStatus| Sample::Counter(device.errors);
        self.encode_each(encoder, "raidlab_device_errors", "Member I/Os that failed", errors)?;
        let bad_blocks = |device: &DeviceStatus| Sample::Gauge(device.bad_blocks as f64);
        let help = "Blocks on the device's bad-block list";
        self.encode_each(encoder, "raidlab_device_bad_blocks", help, bad_blocks)
    }

    fn encode_each(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        sample: impl Fn(&DeviceStatus) -> Sample,
    ) -> Result<(), Error> {
        let Some(first) = self.0.devices.first() else { return Ok(()) };
        let mut family = encoder.encode_descriptor(name, help, None, sample(first).kind())?;
        for device in &self.0.devices {
            let number = device.device.to_string();
            let labels = [("array", self.0.name.as_str()), ("device", &number)];
            sample(device).encode(&mut family, &labels)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_runtime::{CacheStatus, CounterStatus, OPERATOR_SCHEMA};

    fn status() -> ArrayStatus {
        let sdb = DeviceStatus {
            has_lost_its_name: false,
            device: 1,
            path: Some("/dev/sdb".into()),
            device_uuid: None,
            state: DeviceCondition::InSync,
            role: Some(1),
            rebuilt_bytes: None,
            data_bytes: 1 << 20,
            errors: 7,
            bad_blocks: 2,
            unreadable_blocks: 0,
        };
        let free =
            DeviceStatus { device: 2, path: None, state: DeviceCondition::Empty, role: None, ..sdb.clone() };
        ArrayStatus {
            schema: OPERATOR_SCHEMA,
            name: "a\"0".into(),
            array_uuid: String::new(),
            level: "1".into(),
            condition: Condition::Degraded,
            volume_bytes: 1 << 20,
            strip_bytes: 65536,
            block_bytes: 4096,
            metadata: "bitmap".into(),
            integrity: false,
            zeroed_ranges: None,
            generation: 3,
            members: 2,
            failures_left: 0,
            lost_blocks: 32,
            wrong_rows: 0,
            devices: vec![sdb, free],
            scan: None,
            parked_scan: None,
            last_scan: None,
            last_recovery: None,
            undecided: Vec::new(),
            scan_bytes_per_sec_max: None,
            out_of_sync_stripes: 0,
            cache: CacheStatus {
                size_bytes: 0,
                dirty_bytes: 0,
                write_policy: "write-through".into(),
                writes_back: false,
                nvram: None,
            },
            counters: CounterStatus { host_reads: 11, host_read_bytes: 45056, ..CounterStatus::default() },
            events: Vec::new(),
            history: None,
            uptime_ns: 1,
        }
    }

    #[test]
    fn metrics_have_their_units_and_labels_are_escaped() {
        let text = render(&status());
        for line in [
            r#"raidlab_host_reads_total{array="a\"0"} 11"#,
            r#"raidlab_host_read_bytes_total{array="a\"0"} 45056"#,
            r#"raidlab_volume_bytes{array="a\"0"} 1048576"#,
            r#"raidlab_condition{array="a\"0",condition="degraded"} 1"#,
            r#"raidlab_condition{array="a\"0",condition="optimal"} 0"#,
            r#"raidlab_device_state{array="a\"0",device="1",path="/dev/sdb",state="in-sync"} 1"#,
            // Defect: a free slot for a spare was a missing device.
            r#"raidlab_device_state{array="a\"0",device="2",path="",state="empty"} 1"#,
            r#"raidlab_device_state{array="a\"0",device="2",path="",state="missing"} 0"#,
            r#"raidlab_lost_blocks{array="a\"0"} 32"#,
            r#"raidlab_condition{array="a\"0",condition="data-lost"} 0"#,
            r#"raidlab_device_errors_total{array="a\"0",device="1"} 7"#,
            r#"raidlab_device_bad_blocks{array="a\"0",device="1"} 2"#,
        ] {
            assert!(text.lines().any(|it| it.starts_with(line)), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
