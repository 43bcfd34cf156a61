//! Facts of the machine and of the storage under a target, stored with every run so that a figure can be judged later.
//! Unknown facts stay `None`: nothing is guessed.
//!
//! Sources: `uname(2)`, `/proc/cpuinfo`, `sysinfo(2)`, `/proc/self/mountinfo` (proc(5)), and
//! `/sys/dev/block/MAJOR:MINOR/queue` (Documentation/ABI/stable/sysfs-block of Linux).

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What a run depended on besides its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Environment {
    /// Version of raidlab.
    pub raidlab_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model of the processor, as the kernel prints it.
    pub cpu_model: Option<String>,
    /// Logical processors that this process may run on.
    pub cpus: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// The filesystem under the target; `None` where the run touched no storage.
    pub filesystem: Option<FilesystemFacts>,
    /// The block device under the target, where there is one.
    pub device: Option<DeviceFacts>,
}

/// The filesystem that holds a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FilesystemFacts {
    /// Type, `ext4` or `xfs`.
    pub kind: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// What is mounted there.
    pub source: String,
    /// Its mount options.
    pub options: String,
}

/// The queue settings of a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct DeviceFacts {
    /// Kernel name, `sda` or `nvme0n1`.
    pub name: String,
    /// The scheduler in use.
    pub scheduler: Option<String>,
    /// Whether the device says that it turns.
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Block size that it prefers, in bytes.
    pub physical_block_bytes: Option<u64>,
    /// Capacity in bytes.
    pub size_bytes: Option<u64>,
    /// Vendor, where the bus tells (SCSI).
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Revision of its firmware.
    pub firmware: Option<String>,
    /// Commands that the device takes at once.
    pub queue_depth: Option<u64>,
    /// Requests that the kernel queues for it.
    pub nr_requests: Option<u64>,
    /// How far the kernel reads ahead through the page cache, in bytes.
    pub read_ahead_bytes: Option<u64>,
    /// Longest request that is sent to it, in bytes.
    pub request_bytes_max: Option<u64>,
    /// Whether the kernel merges neighbouring requests: 0 fully, 1 simply, 2 not at all.
    pub nomerges: Option<u64>,
}

/// Where the kernel tells of a whole device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFolder {
    /// Kernel name, `sda` or `nvme0n1`.
    pub(crate) name: String,
    /// Its folder in sysfs.
    pub(crate) folder: PathBuf,
}

impl Environment {
    /// The facts of this machine, for runs that touch no storage.
    pub fn of_machine() -> Self {
        let uname = rustix::system::uname();
        let info = rustix::system::sysinfo();
        Self {
            raidlab_version: env!("CARGO_PKG_VERSION").into(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            cpu_model: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text)),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: info.totalram as u64 * u64::from(info.mem_unit),
            filesystem: None,
            device: None,
        }
    }

    /// What is known of the machine that another `program` measured on, by its results alone: nothing.
    pub fn unknown(program: &str) -> Self {
        Self {
            raidlab_version: format!("none: measured by {program}"),
            kernel: "not known".into(),
            cpu_model: None,
            cpus: 0,
            memory_bytes: 0,
            filesystem: None,
            device: None,
        }
    }

    /// The facts of this machine and of the storage under `target`, which may not exist yet: then its nearest
    /// folder that does is looked at.
    pub fn of_target(target: &Path) -> Self {
        let machine = Self::of_machine();
        let Some((place, number, is_device)) = place_and_number(target) else { return machine };
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let filesystem = if is_device { None } else { mount_of(&mounts, &place) };
        Self { filesystem, device: device_facts(Path::new(BY_NUMBER), number), ..machine }
    }
}

/// Devices by their numbers.
const BY_NUMBER: &str = "/sys/dev/block";

/// Where the kernel tells of the device with this number.
pub(crate) fn folder_of_number(number: u64) -> PathBuf {
    numbered(Path::new(BY_NUMBER), number)
}

/// The same below `by_number`.
fn numbered(by_number: &Path, number: u64) -> PathBuf {
    by_number.join(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// The device under `target`, where there is one.
pub(crate) fn device_under(target: &Path) -> Option<DeviceFolder> {
    let (_, number, _) = place_and_number(target)?;
    device_folder(Path::new(BY_NUMBER), number)
}

/// What the filesystem that holds `place` is mounted from.
pub(crate) fn mount_source(place: &Path) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mount_of(&mounts, &place.canonicalize().ok()?).map(|mount| PathBuf::from(mount.source))
}

/// Where `target` is or would be, the number of the device that holds it, and whether it is that device itself.
fn place_and_number(target: &Path) -> Option<(PathBuf, u64, bool)> {
    let place = nearest_existing(target)?;
    let stat = rustix::fs::stat(&place).ok()?;
    let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
    Some((place, if is_device { stat.st_rdev } else { stat.st_dev }, is_device))
}

/// The nearest of `target` and its parents that exists, with symbolic links resolved.
fn nearest_existing(target: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(target).ok()?;
    absolute.ancestors().find_map(|place| place.canonicalize().ok())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    // x86 and most others say "model name"; some Arm kernels only have "Model" or "Hardware".
    let value_of = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    ["model name", "Model", "Hardware"].into_iter().find_map(value_of)
}

/// The mount in `mountinfo` whose mount point is the longest that holds `place`. The last of equals counts,
/// because it hides the others.
fn mount_of(mountinfo: &str, place: &Path) -> Option<FilesystemFacts> {
    mountinfo
        .lines()
        .filter_map(parse_mount)
        .filter(|mount| place.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.len())
}

/// Reads one line: `id parent major:minor root mount-point options fields... - type source super-options`.
fn parse_mount(line: &str) -> Option<FilesystemFacts> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    Some(FilesystemFacts {
        kind: right.next()?.to_owned(),
        source: unescape(right.next()?),
        mount_point: unescape(left.get(4)?),
        options: (*left.get(5)?).to_owned(),
    })
}

/// Undoes the octal escapes for space, tab, line feed and backslash.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The folder of device `number` below `by_number`; `None` for numbers without a device (tmpfs).
fn device_folder(by_number: &Path, number: u64) -> Option<DeviceFolder> {
    let folder = numbered(by_number, number).canonicalize().ok()?;
    // A partition has no queue folder of its own; the disk above it has.
    let folder = [Some(folder.as_path()), folder.parent()]
        .into_iter()
        .flatten()
        .find(|place| place.join("queue").is_dir())?
        .to_owned();
    Some(DeviceFolder { name: folder.file_name()?.to_string_lossy().into_owned(), folder })
}

/// Reads the facts of device `number` from below `by_number`.
fn device_facts(by_number: &Path, number: u64) -> Option<DeviceFacts> {
    let DeviceFolder { name, folder } = device_folder(by_number, number)?;
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let first_of = |names: &[&str]| names.iter().find_map(|name| read(name)).filter(|text| !text.is_empty());
    let number = |name: &str| read(name).and_then(|text| text.parse::<u64>().ok());
    let kib = |name: &str| number(name).map(|kib| kib * 1024);
    Some(DeviceFacts {
        name,
        scheduler: read("queue/scheduler").map(|text| chosen(&text)),
        rotational: read("queue/rotational").map(|text| text == "1"),
        write_cache: read("queue/write_cache"),
        physical_block_bytes: number("queue/physical_block_size"),
        size_bytes: number("size").map(|sectors| sectors * 512),
        vendor: first_of(&["device/vendor"]),
        model: first_of(&["device/model"]),
        firmware: first_of(&["device/rev", "device/firmware_rev"]),
        queue_depth: number("device/queue_depth"),
        nr_requests: number("queue/nr_requests"),
        read_ahead_bytes: kib("queue/read_ahead_kb"),
        request_bytes_max: kib("queue/max_sectors_kb"),
        nomerges: number("queue/nomerges"),
    })
}

/// The bracketed word of `none [mq-deadline] bfq`, or the whole text when no word is in brackets.
fn chosen(schedulers: &str) -> String {
    let inside = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(schedulers, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_latest_mount_is_chosen() {
        let table = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                     40 22 0:30 / /data rw - xfs /dev/vdb rw,noquota\n\
                     41 22 0:31 / /data rw,noatime - tmpfs tmpfs rw\n\
                     42 22 0:32 / /data\\040two rw - btrfs /dev/vdc rw\n";
        let rows = [
            ("/data/a", "tmpfs"),
            ("/data", "tmpfs"),
            ("/data two/a", "btrfs"),
            ("/database", "ext4"),
            ("/", "ext4"),
        ];
        for (place, kind) in rows {
            assert_eq!(
                mount_of(table, Path::new(place)).map(|mount| mount.kind).as_deref(),
                Some(kind),
                "{place}"
            );
        }
        assert_eq!(mount_of("", Path::new("/data")), None);
    }

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let root = tempfile::tempdir().unwrap();
        let queue = root.path().join("disk/queue");
        fs::create_dir_all(&queue).unwrap();
        fs::create_dir_all(root.path().join("disk/disk1")).unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] bfq\n").unwrap();
        fs::write(queue.join("rotational"), "1\n").unwrap();
        fs::write(queue.join("nr_requests"), "256\n").unwrap();
        fs::write(queue.join("read_ahead_kb"), "128\n").unwrap();
        fs::create_dir_all(root.path().join("disk/device")).unwrap();
        fs::write(root.path().join("disk/device/model"), "ST3600057SS     \n").unwrap();
        fs::write(root.path().join("disk/device/queue_depth"), "32\n").unwrap();
        fs::write(root.path().join("disk/size"), "2048\n").unwrap();
        std::os::unix::fs::symlink(root.path().join("disk/disk1"), root.path().join("8:1")).unwrap();
        let facts = device_facts(root.path(), rustix::fs::makedev(8, 1)).unwrap();
        assert_eq!(facts.name, "disk");
        assert_eq!(facts.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(facts.rotational, Some(true));
        assert_eq!(facts.size_bytes, Some(1 << 20));
        assert_eq!(facts.write_cache, None);
        assert_eq!((facts.nr_requests, facts.read_ahead_bytes), (Some(256), Some(131_072)));
        assert_eq!((facts.model.as_deref(), facts.queue_depth), (Some("ST3600057SS"), Some(32)));
        assert_eq!(facts.firmware, None);
        assert_eq!(device_facts(root.path(), rustix::fs::makedev(8, 2)), None);
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A B\n").as_deref(), Some("A B"));
        assert_eq!(cpu_model("processor : 0\nModel : Board 4\n").as_deref(), Some("Board 4"));
        assert_eq!(cpu_model(""), None);
    }
}
