//! Drives and sensors of an invented /sys, and a smartctl with invented output.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

/// A sysfs in which the file system of its own folder lies on a partition of `sda`, and in which `sdb` and an `NVMe` drive are
/// somebody else's.
struct Machine {
    folder: TempDir,
    sources: HealthSources,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let number = root.metadata().unwrap().dev();
        let disk = root.join("sys/devices/ata1/block/sda");
        std::fs::create_dir_all(disk.join("sda1")).unwrap();
        std::fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        let by_number = root.join("sys/dev/block");
        std::fs::create_dir_all(&by_number).unwrap();
        symlink(disk.join("sda1"), by_number.join(format!("{}:{}", major(number), minor(number)))).unwrap();
        std::fs::create_dir_all(root.join("sys/devices/ata2/block/sdb")).unwrap();
        std::fs::create_dir_all(root.join("sys/devices/pci/nvme0/nvme0n1")).unwrap();
        let machine = Self {
            sources: HealthSources { sysfs: root.join("sys"), smartctl: root.join("smartctl") },
            folder,
        };
        machine.chip(
            "hwmon0",
            "coretemp",
            None,
            &[("temp1", "45000", Some("Package id 0")), ("temp2", "x", None)],
        );
        machine.chip("hwmon1", "drivetemp", Some("devices/ata1"), &[("temp1", "31000", None)]);
        machine.chip("hwmon2", "drivetemp", Some("devices/ata2"), &[("temp1", "60000", None)]);
        machine.chip("hwmon3", "nvme", Some("devices/pci/nvme0"), &[("temp1", "70000", Some("Composite"))]);
        machine
    }

    fn chip(&self, chip: &str, name: &str, device: Option<&str>, sensors: &[(&str, &str, Option<&str>)]) {
        let home = self.sources.sysfs.join("class/hwmon").join(chip);
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("name"), format!("{name}\n")).unwrap();
        if let Some(device) = device {
            symlink(self.sources.sysfs.join(device), home.join("device")).unwrap();
        }
        for (sensor, value, label) in sensors {
            std::fs::write(home.join(format!("{sensor}_input")), format!("{value}\n")).unwrap();
            if let Some(label) = label {
                std::fs::write(home.join(format!("{sensor}_label")), format!("{label}\n")).unwrap();
            }
        }
    }

    /// Has smartctl print `json` if it is asked for `sda`, and fail as it does for drives that it can't open.
    fn smartctl(&self, json: &str) {
        let script = format!(
            "#!/bin/sh\nfor last; do :; done\n[ \"$last\" = /dev/sda ] || exit 2\ncat <<'END'\n{json}\nEND\nexit 4\n"
        );
        // A file that is open for writing in another thread's child can't be run, so it is put there whole.
        let new = self.folder.path().join("smartctl.new");
        std::fs::write(&new, script).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, &self.sources.smartctl).unwrap();
    }

    fn reader(&self) -> HealthReader<'_> {
        HealthReader::new(&self.sources, self.folder.path())
    }
}

fn ata(reallocated: u64, crc: u64) -> String {
    format!(
        r#"{{"model_name": "ACME 1", "serial_number": "S1", "smart_status": {{"passed": true}},
        "ata_smart_attributes": {{"table": [
            {{"id": 5, "name": "Reallocated_Sector_Ct", "raw": {{"value": {reallocated}, "string": "x"}}}},
            {{"id": 199, "name": "UDMA_CRC_Error_Count", "raw": {{"value": {crc}}}}}]}},
        "ata_smart_error_log": {{"summary": {{"count": 0}}}}}}"#
    )
}

/// Runs the test's smartctl; another thread may hold the file open while it forks, which the system calls busy.
fn read(reader: &HealthReader<'_>, health: &mut SoakHealth) {
    for _ in 0..50 {
        let mut now = health.clone();
        reader.read_counters(&mut now);
        if now.drives.iter().all(|drive| !drive.why_not.as_ref().is_some_and(|why| why.contains("busy"))) {
            *health = now;
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("smartctl is busy for ever");
}

#[test]
fn counters_are_kept_from_before_and_after() {
    let machine = Machine::new();
    let mut health = SoakHealth::default();
    assert_eq!(machine.reader().drives, ["sda"], "the disk of the partition");
    machine.smartctl(&ata(0, 7));
    read(&machine.reader(), &mut health);
    machine.smartctl(&ata(2, 7));
    read(&machine.reader(), &mut health);
    assert_eq!(health.drives.len(), 1);
    let drive = &health.drives[0];
    assert_eq!(
        (drive.drive.as_str(), drive.model.as_deref(), drive.passed),
        ("sda", Some("ACME 1"), Some(true))
    );
    assert_eq!(drive.changes().collect::<Vec<_>>(), [("Reallocated_Sector_Ct", 0, 2)]);
    assert_eq!(drive.after["UDMA_CRC_Error_Count"], 7);
    assert_eq!(drive.after["logged_errors"], 0);
    // A drive of another number in the same place is another drive.
    machine.smartctl(&ata(0, 0).replace("S1", "S2"));
    read(&machine.reader(), &mut health);
    assert_eq!(health.drives.len(), 2);
    assert_eq!(health.drives[1].changes().count(), 0);
    // Counters that can't be read any more leave what was read.
    machine.smartctl(r#"{"smartctl": {"messages": [{"string": "Smartctl open device: /dev/sda failed"}]}}"#);
    read(&machine.reader(), &mut health);
    assert_eq!(health.drives[0].why_not.as_deref(), Some("Smartctl open device: /dev/sda failed"));
    assert_eq!(health.drives[0].after["Reallocated_Sector_Ct"], 2);
}

#[test]
fn nvme_and_scsi_have_counters_of_their_own() {
    let rows = [
        (
            r#"{"nvme_smart_health_information_log": {"media_errors": 3, "percentage_used": 1, "temperature_sensors": [40]}}"#,
            vec![("media_errors", 3), ("percentage_used", 1)],
        ),
        (
            r#"{"scsi_grown_defect_list": 4, "scsi_error_counter_log": {"read": {"total_uncorrected_errors": 5}}}"#,
            vec![("grown_defects", 4), ("read.total_uncorrected_errors", 5)],
        ),
        ("{}", vec![]),
    ];
    for (json, wanted) in rows {
        let found = counters(&serde_json::from_str(json).unwrap());
        assert_eq!(found.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn what_is_not_there_is_said_and_no_error() {
    let machine = Machine::new();
    let mut health = SoakHealth::default();
    machine.reader().read_counters(&mut health);
    assert!(health.drives[0].why_not.as_deref().is_some_and(|why| why.contains("install smartmontools")));
    for (said, why) in [("no json", "version 7"), ("{}", "no counters")] {
        machine.smartctl(said);
        let mut health = SoakHealth::default();
        read(&machine.reader(), &mut health);
        assert!(health.drives[0].why_not.as_deref().is_some_and(|it| it.contains(why)), "{health:?}");
    }
    let nowhere = HealthSources { sysfs: "/nonexistent".into(), ..machine.sources.clone() };
    let mut health = SoakHealth::default();
    let reader = HealthReader::new(&nowhere, machine.folder.path());
    reader.read_counters(&mut health);
    reader.sample(0.0, &mut health);
    assert_eq!(health, SoakHealth::default());
}

#[test]
fn temperatures_are_those_of_these_drives_and_of_the_machine() {
    let machine = Machine::new();
    let mut health = SoakHealth::default();
    let reader = machine.reader();
    reader.sample(0.0, &mut health);
    let chip = machine.sources.sysfs.join("class/hwmon/hwmon1/temp1_input");
    std::fs::write(chip, "41000\n").unwrap();
    reader.sample(10.0, &mut health);
    let series: Vec<_> =
        health.temperatures.iter().map(|series| (series.sensor.as_str(), &series.samples[..])).collect();
    assert_eq!(
        series,
        [
            ("coretemp Package id 0", &[(0.0, 45.0), (10.0, 45.0)][..]),
            ("drivetemp sda temp1", &[(0.0, 31.0), (10.0, 41.0)]),
        ]
    );
    assert_eq!(health.temperatures[1].range(), Some((31.0, 36.0, 41.0)));
}

#[test]
fn a_long_series_gets_coarser_and_keeps_its_whole_span() {
    let mut series = TemperatureSeries::default();
    for second in 0..10 * SAMPLES_MAX {
        series.add(second as f64, second as f64);
    }
    assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&series.samples.len()), "{}", series.samples.len());
    assert_eq!(series.samples[0], (0.0, 0.0));
    assert!(series.samples.last().is_some_and(|(at, _)| *at > 9.9 * SAMPLES_MAX as f64));
    let gaps = series.samples.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(gaps.reduce(f64::max).is_some_and(|gap| gap <= 17.0), "evenly spread");
}
