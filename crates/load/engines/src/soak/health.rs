//! Health of the drives under a target: their SMART counters before and after, and temperatures over time.
//!
//! ```text
//! target ─► number of its device ─► /sys/dev/block/M:m ─► partition's disk, what dm and md are built on ─► drives
//! drive  ─► smartctl --json /dev/NAME        counters: attributes of ATA, the health log of NVMe, the error logs of SCSI
//! drive  ─► /sys/class/hwmon/*/temp*_input   sensors of these drives, and of the machine
//! ```
//! A counter that rises while no read is wrong (remapped sectors, CRC errors on the cable) warns before data is lost.
//! What can't be read is reported with the reason and is never an error: a soak is about the data.
//!
//! A series has at most [`SAMPLES_MAX`] samples; when it is full, every second one is dropped, and from then on half as
//! many are kept.
//!
//! Left out: drives behind a RAID controller, for which smartctl needs a type, and sensors that only IPMI knows.
//! Source: smartctl(8), the JSON of smartmontools 7; Linux `Documentation/hwmon/sysfs-interface.rst`.

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Samples of a temperature that are kept.
const SAMPLES_MAX: usize = 4096;
/// How long smartctl may take for a drive.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where drives and sensors are found.
#[derive(Clone, Debug)]
pub struct HealthSources {
    /// Where sysfs is mounted.
    pub sysfs: PathBuf,
    /// The program of smartmontools, by its path or by a name on the `PATH`.
    pub smartctl: PathBuf,
}

impl Default for HealthSources {
    fn default() -> Self {
        Self { sysfs: "/sys".into(), smartctl: "smartctl".into() }
    }
}

/// What is known of the drives of a target, over all its soaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoakHealth {
    /// Each drive.
    pub drives: Vec<DriveHealth>,
    /// Each sensor.
    pub temperatures: Vec<TemperatureSeries>,
}

/// A drive, and what it counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DriveHealth {
    /// The kernel's name, `sda`.
    pub drive: String,
    /// Its model, where it says so.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its own verdict at the last reading.
    pub passed: Option<bool>,
    /// Counters when the first soak began, by name.
    pub before: BTreeMap<String, u64>,
    /// Counters when the last soak ended.
    pub after: BTreeMap<String, u64>,
    /// Why there are none.
    pub why_not: Option<String>,
}

impl DriveHealth {
    /// Counters that differ: name, before and after.
    pub fn changes(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.before.iter().filter_map(|(name, before)| {
            let after = *self.after.get(name)?;
            (after != *before).then_some((name.as_str(), *before, after))
        })
    }
}

/// The temperature of a sensor over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemperatureSeries {
    /// The sensor: its driver, its drive, its label.
    pub sensor: String,
    /// Seconds of soaking between two samples that are kept.
    pub every_seconds: f64,
    /// Seconds of soaking, and degrees Celsius.
    pub samples: Vec<(f64, f64)>,
}

impl TemperatureSeries {
    /// Lowest, mean and highest, in degrees Celsius.
    pub fn range(&self) -> Option<(f64, f64, f64)> {
        let degrees = || self.samples.iter().map(|(_, degrees)| *degrees);
        let mean = degrees().sum::<f64>() / self.samples.len() as f64;
        let (low, high) = (degrees().reduce(f64::min)?, degrees().reduce(f64::max)?);
        Some((low, mean, high))
    }

    fn add(&mut self, at_seconds: f64, degrees: f64) {
        if self.samples.last().is_some_and(|(last, _)| at_seconds - last < self.every_seconds) {
            return;
        }
        if self.samples.len() >= SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            let span = self.samples.last().map_or(0.0, |(last, _)| last - self.samples[0].0);
            self.every_seconds = span / (self.samples.len() - 1) as f64;
        }
        self.samples.push((at_seconds, degrees));
    }
}

/// Reads the health of the drives under one target.
#[derive(Debug)]
pub(super) struct HealthReader<'a> {
    sources: &'a HealthSources,
    drives: Vec<String>,
}

impl<'a> HealthReader<'a> {
    /// Finds the drives under `target`.
    pub(super) fn new(sources: &'a HealthSources, target: &Path) -> Self {
        let number = std::fs::metadata(target)
            .map(|facts| if facts.file_type().is_block_device() { facts.rdev() } else { facts.dev() });
        let mut drives = Vec::new();
        if let Ok(number) = number {
            let home = format!("dev/block/{}:{}", major(number), minor(number));
            add_drives(&sources.sysfs.join(home), &mut drives);
        }
        Self { sources, drives }
    }

    /// Reads the counters of all drives; those of the first time stay what was before.
    pub(super) fn read_counters(&self, health: &mut SoakHealth) {
        for name in &self.drives {
            let found = ask(&self.sources.smartctl, name);
            let known = health.drives.iter_mut().find(|drive| {
                drive.drive == *name && (drive.serial == found.serial || found.why_not.is_some())
            });
            match known {
                Some(drive) if found.why_not.is_none() => {
                    if drive.before.is_empty() {
                        drive.before = found.after.clone();
                    }
                    let before = std::mem::take(&mut drive.before);
                    *drive = DriveHealth { before, ..found };
                }
                // What was read earlier is still worth more than that it can't be read now.
                Some(drive) => drive.why_not = found.why_not,
                None => health.drives.push(DriveHealth { before: found.after.clone(), ..found }),
            }
        }
    }

    /// Takes a sample of every sensor.
    pub(super) fn sample(&self, at_seconds: f64, health: &mut SoakHealth) {
        for (sensor, degrees) in self.temperatures() {
            let at = health.temperatures.iter().position(|series| series.sensor == sensor);
            let at = at.unwrap_or_else(|| {
                health.temperatures.push(TemperatureSeries { sensor, ..TemperatureSeries::default() });
                health.temperatures.len() - 1
            });
            health.temperatures[at].add(at_seconds, degrees);
        }
    }

    /// Sensors of these drives and of the machine, with degrees Celsius.
    fn temperatures(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        for chip in entries(&self.sources.sysfs.join("class/hwmon")) {
            let name = text(&chip.join("name")).unwrap_or_else(|| file_name(&chip));
            let drive = match self.drive_of(&chip) {
                Owner::Drive(drive) => format!(" {drive}"),
                Owner::Machine => String::new(),
                Owner::OtherDrive => continue,
            };
            for input in entries(&chip) {
                let file = file_name(&input);
                let Some(number) = file.strip_prefix("temp").and_then(|rest| rest.strip_suffix("_input"))
                else {
                    continue;
                };
                let Some(thousandths) = text(&input).and_then(|text| text.parse::<i32>().ok()) else {
                    continue;
                };
                let label = text(&chip.join(format!("temp{number}_label")));
                let label = label.unwrap_or_else(|| format!("temp{number}"));
                found.push((format!("{name}{drive} {label}"), f64::from(thousandths) / 1000.0));
            }
        }
        found
    }

    /// Whose a sensor is.
    fn drive_of(&self, chip: &Path) -> Owner {
        let device = chip.join("device");
        let home = device.canonicalize().map(|home| file_name(&home)).unwrap_or_default();
        let is_on = |drive: &&String| {
            let of_nvme = home.starts_with("nvme") && drive.starts_with(&format!("{home}n"));
            of_nvme || device.join("block").join(drive.as_str()).exists()
        };
        match self.drives.iter().find(is_on) {
            Some(drive) => Owner::Drive(drive.clone()),
            None if home.starts_with("nvme") || device.join("block").exists() => Owner::OtherDrive,
            None => Owner::Machine,
        }
    }
}

enum Owner {
    Drive(String),
    Machine,
    OtherDrive,
}

/// Adds the drives that the block device of folder `home` lies on.
fn add_drives(home: &Path, drives: &mut Vec<String>) {
    let Ok(home) = home.canonicalize() else { return };
    let below = entries(&home.join("slaves"));
    match home.parent() {
        _ if !below.is_empty() => below.iter().for_each(|slave| add_drives(slave, drives)),
        Some(disk) if home.join("partition").exists() => add_drives(disk, drives),
        _ => {
            let name = file_name(&home);
            if !drives.contains(&name) {
                drives.push(name);
            }
        }
    }
}

/// What smartctl says of a drive; its counters are those of after.
fn ask(smartctl: &Path, name: &str) -> DriveHealth {
    let why_not =
        |why: String| DriveHealth { drive: name.into(), why_not: Some(why), ..DriveHealth::default() };
    let said = match run(smartctl, name) {
        Ok(said) => said,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return why_not("there is no smartctl here: install smartmontools".into());
        }
        Err(error) => return why_not(format!("smartctl failed: {error}")),
    };
    let Ok(facts) = serde_json::from_slice::<Value>(&said) else {
        return why_not("smartctl gave no JSON: version 7 or later is needed".into());
    };
    let after = counters(&facts);
    let message = facts.pointer("/smartctl/messages/0/string").and_then(Value::as_str);
    let none = after.is_empty().then(|| message.unwrap_or("the drive has no counters").to_owned());
    let field = |name: &str| facts.get(name).and_then(Value::as_str).map(str::to_owned);
    DriveHealth {
        drive: name.into(),
        model: field("model_name"),
        serial: field("serial_number"),
        passed: facts.pointer("/smart_status/passed").and_then(Value::as_bool),
        before: BTreeMap::new(),
        after,
        why_not: none,
    }
}

/// What smartctl prints. Its exit code tells of the drive's state as well, so what counts is what was printed.
fn run(smartctl: &Path, name: &str) -> std::io::Result<Vec<u8>> {
    let mut child = Command::new(smartctl)
        .args(["--json", "--info", "--health", "--attributes", "--log=error"])
        .arg(format!("/dev/{name}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = child.stdout.take().expect("it was asked for");
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        stdout.read_to_end(&mut said).map(|_| said)
    });
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The counters in smartctl's JSON, by name.
fn counters(facts: &Value) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for attribute in
        facts.pointer("/ata_smart_attributes/table").and_then(Value::as_array).into_iter().flatten()
    {
        let name = attribute.get("name").and_then(Value::as_str);
        let raw = attribute.pointer("/raw/value").and_then(Value::as_u64);
        found.extend(name.zip(raw).map(|(name, raw)| (name.to_owned(), raw)));
    }
    for log in ["nvme_smart_health_information_log", "scsi_error_counter_log"] {
        if let Some(log) = facts.get(log) {
            add_numbers("", log, &mut found);
        }
    }
    let single = [
        ("scsi_grown_defect_list", "grown_defects"),
        ("/ata_smart_error_log/summary/count", "logged_errors"),
    ];
    for (place, name) in single {
        let value = if place.starts_with('/') { facts.pointer(place) } else { facts.get(place) };
        found.extend(value.and_then(Value::as_u64).map(|value| (name.to_owned(), value)));
    }
    found
}

/// All whole numbers in `value`, by their path.
fn add_numbers(path: &str, value: &Value, found: &mut BTreeMap<String, u64>) {
    if let Some(number) = value.as_u64() {
        found.insert(path.to_owned(), number);
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        add_numbers(&path, field, found);
    }
}

/// What is in a folder, in order of names; nothing where it can't be listed.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listing.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file of one line.
fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
