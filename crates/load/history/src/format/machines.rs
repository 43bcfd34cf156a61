//! The machines behind Prometheus' series: which labels tell them apart.
//!
//! | labels | what they tell |
//! |---|---|
//! | `node`, `nodename`, else `instance` | the machine |
//! | `job`, `pod`, `service` and others of the scrape | who asked it: another pod on the same node goes on where the one before ended |
//! | `cluster` and all others | machines apart that have one name |
//!
//! What is asked twice at one time counts once. Where its counters are other ones, one name stands for two machines after all.

use super::counters::Snapshots;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of a series, without its name and device.
pub(super) type Labels = BTreeMap<String, String>;

/// Counters by device.
type Devices = BTreeMap<String, Snapshots>;

/// What the machine is called, the best first.
const NAMES: [&str; 3] = ["node", "nodename", "instance"];

/// Labels of how it was asked: of service discovery, of Kubernetes' objects, and of who keeps the series.
const OF_THE_SCRAPE: [&str; 27] = [
    "app",
    "chart",
    "component",
    "container",
    "container_name",
    "controller_revision_hash",
    "endpoint",
    "heritage",
    "host_ip",
    "job",
    "k8s_app",
    "metrics_path",
    "namespace",
    "pod",
    "pod_ip",
    "pod_name",
    "pod_template_generation",
    "pod_template_hash",
    "prometheus",
    "prometheus_replica",
    "receive",
    "release",
    "replica",
    "scheme",
    "service",
    "uid",
    "__replica__",
];
const OF_THE_SCRAPE_PREFIXES: [&str; 2] = ["app_kubernetes_io_", "helm_sh_"];

/// A machine, and its counters.
pub(super) struct Machine {
    pub(super) host: String,
    /// Who asked it at the same time; the first of them counts.
    pub(super) jobs: BTreeSet<String>,
    pub(super) devices: Devices,
}

/// Whoever was asked by one name, as it is found.
struct Found {
    key: Labels,
    /// Of those that were asked at the same time.
    jobs: BTreeSet<String>,
    instances: BTreeSet<String>,
    devices: Devices,
}

/// The machines of `sources`, series with the same labels but for name and device.
pub(super) fn machines(sources: BTreeMap<Labels, Devices>) -> Vec<Machine> {
    let mut sources: Vec<(Labels, Devices)> = sources.into_iter().collect();
    sources.sort_by_cached_key(|(labels, devices)| (times(devices).map(|(first, _)| first), labels.clone()));
    let mut all: Vec<Found> = Vec::new();
    for (labels, devices) in sources {
        let key = key(&labels);
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        match all.iter_mut().find(|it| it.key == key && is_one(&it.devices, &devices)) {
            Some(known) => {
                let (jobs, instances) = (&mut known.jobs, &mut known.instances);
                if overlap(&known.devices, &devices) {
                    jobs.insert(label("job"));
                }
                instances.insert(label("instance"));
                add(&mut known.devices, devices);
            }
            None => all.push(Found {
                key,
                jobs: [label("job")].into(),
                instances: [label("instance")].into(),
                devices,
            }),
        }
    }
    let hosts: Vec<String> = (0..all.len()).map(|index| host(&all, index)).collect();
    hosts
        .into_iter()
        .zip(all)
        .map(|(host, Found { jobs, devices, .. })| Machine { host, jobs, devices })
        .collect()
}

/// What tells machines apart: the name, and the labels that are not of the scrape.
fn key(labels: &Labels) -> Labels {
    let name = NAMES.into_iter().find(|name| labels.contains_key(*name));
    let is_told = |label: &str| {
        !OF_THE_SCRAPE.contains(&label) && !OF_THE_SCRAPE_PREFIXES.iter().any(|it| label.starts_with(it))
    };
    let counts = |label: &str| if NAMES.contains(&label) { Some(label) == name } else { is_told(label) };
    labels
        .iter()
        .filter(|(label, _)| counts(label))
        .map(|(one, other)| (one.clone(), other.clone()))
        .collect()
}

/// The name of one of `all`, with as few labels as tell it apart from those of the same name.
fn host(all: &[Found], index: usize) -> String {
    let name = |it: &Found| match it.instances.first() {
        Some(only) if it.instances.len() == 1 && !only.is_empty() => only.clone(),
        _ => NAMES.iter().find_map(|name| it.key.get(*name)).cloned().unwrap_or_else(|| "host".to_owned()),
    };
    let own = name(&all[index]);
    let same: Vec<&Found> = all.iter().filter(|it| name(it) == own).collect();
    if same.len() == 1 {
        return own;
    }
    let labels: BTreeSet<&String> = same.iter().flat_map(|it| it.key.keys()).collect();
    let values = |label: &str| same.iter().map(|it| it.key.get(label)).collect::<BTreeSet<_>>().len();
    let telling: Vec<&String> = match labels.iter().find(|label| values(label) == same.len()) {
        Some(one) => vec![one],
        None => labels.into_iter().filter(|label| values(label) > 1).collect(),
    };
    let told = |label: &&String| format!("{label}={}", all[index].key.get(*label).map_or("", String::as_str));
    let mut told: Vec<String> = telling.iter().map(told).collect();
    // The labels of the scrape alone differ, and the counters.
    let alike: Vec<usize> = (0..all.len()).filter(|at| all[*at].key == all[index].key).collect();
    if alike.len() > 1 {
        told.push(format!("{}", 1 + alike.iter().filter(|at| **at < index).count()));
    }
    format!("{own} ({})", told.join(", "))
}

/// The first and the last time.
fn times(devices: &Devices) -> Option<(u64, u64)> {
    let ends = devices.values().filter_map(|it| Some((*it.first_key_value()?.0, *it.last_key_value()?.0)));
    ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

fn overlap(one: &Devices, other: &Devices) -> bool {
    match (times(one), times(other)) {
        (Some(one), Some(other)) => one.0 <= other.1 && other.0 <= one.1,
        _ => false,
    }
}

/// Whether two series of counters are one machine's: they follow each other, or they are the same counters, asked a little earlier or later.
fn is_one(known: &Devices, other: &Devices) -> bool {
    if !overlap(known, other) {
        return true;
    }
    let mut common = other.iter().filter_map(|(device, it)| Some((known.get(device)?, it))).peekable();
    common.peek().is_some() && common.all(|(known, other)| is_between(known, other))
}

/// Whether the counters of `other` are between those of `known` before and after.
fn is_between(known: &Snapshots, other: &Snapshots) -> bool {
    other.iter().all(|(at_s, counts)| {
        let before = known.range(..at_s).next_back();
        let after = known.range(at_s + 1..).next();
        let (Some((_, before)), Some((_, after))) = (before, after) else { return true };
        counts.iter().all(|(figure, count)| match (before.get(figure), after.get(figure)) {
            // Where they were reset, nothing is told.
            (Some(before), Some(after)) => after < before || (before..=after).contains(&count),
            _ => true,
        })
    })
}

/// Adds what lies before and behind what is known of each device.
fn add(known: &mut Devices, other: Devices) {
    for (device, snapshots) in other {
        let known = known.entry(device).or_default();
        let (first, last) = (known.first_key_value().map(|it| *it.0), known.last_key_value().map(|it| *it.0));
        let is_new =
            |at_s: u64| first.is_none_or(|first| at_s < first) || last.is_none_or(|last| at_s > last);
        known.extend(snapshots.into_iter().filter(|(at_s, _)| is_new(*at_s)));
    }
}
