//! What can be watched: block devices and partitions, files by the device that holds them, and all devices of the machine.

use crate::environment::{folder_of_number, mount_source};
use raidlab_observe::Counters;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const DISKSTATS: &str = "/proc/diskstats";

/// A device to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchTarget {
    /// Kernel name, `sda1`.
    pub name: String,
    /// What was asked for, where it is not the device itself but a file on it.
    pub file: Option<PathBuf>,
    /// Its folder in sysfs.
    pub folder: PathBuf,
    /// Number of the whole device, as the kernel's tracing filters by it.
    pub disk: (u32, u32),
    /// First byte on the whole device.
    pub start_bytes: u64,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Whether its requests go through queues of the kernel (`blk-mq`); those of md and device mapper don't.
    pub has_queues: bool,
}

/// Why something can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is no such file, device or name.
    #[error("there is no device, file or folder '{given}'")]
    Unknown {
        /// What was asked for.
        given: String,
    },
    /// No block device holds it.
    #[error("no block device holds {given}: it is on a filesystem in memory or of the network")]
    NoDevice {
        /// What was asked for.
        given: String,
    },
    /// Its counters can't be read.
    #[error("the counters of {name} cannot be read: the device is gone, or /sys is not mounted")]
    Gone {
        /// Kernel name.
        name: String,
    },
}

impl WatchTarget {
    /// The device called `given`: a path of a device, a file or folder, or a kernel name.
    ///
    /// # Errors
    /// [`TargetError`]: there is none.
    pub fn find(given: &str) -> Result<Self, TargetError> {
        let unknown = || TargetError::Unknown { given: given.to_owned() };
        let no_device = || TargetError::NoDevice { given: given.to_owned() };
        let path = Path::new(given);
        let Ok(facts) = fs::metadata(path) else {
            let named = Path::new("/sys/class/block").join(given);
            let is_name = !given.contains('/') && named.exists();
            return if is_name { Self::at(&named, None).ok_or_else(no_device) } else { Err(unknown()) };
        };
        let is_device = facts.file_type().is_block_device();
        let number = if is_device { facts.rdev() } else { facts.dev() };
        let file = (!is_device).then(|| path.to_owned());
        if let Some(found) = Self::at(&folder_of_number(number), file.clone()) {
            return Ok(found);
        }
        // Filesystems such as btrfs have a number of their own; the mount says what they are on.
        let source = mount_source(path).ok_or_else(no_device)?;
        let facts = fs::metadata(&source).ok().filter(|it| it.file_type().is_block_device());
        let number = facts.ok_or_else(no_device)?.rdev();
        Self::at(&folder_of_number(number), file).ok_or_else(no_device)
    }

    /// All whole devices of the machine that can hold data.
    ///
    /// # Errors
    /// [`TargetError::Gone`] without `/proc/diskstats`.
    pub fn all() -> Result<Vec<Self>, TargetError> {
        let gone = || TargetError::Gone { name: DISKSTATS.to_owned() };
        let text = fs::read_to_string(DISKSTATS).map_err(|_| gone())?;
        let whole = |name: &str| {
            let folder = Path::new("/sys/block").join(name);
            Self::at(&folder, None).filter(|target| target.size_bytes.is_some_and(|bytes| bytes > 0))
        };
        Ok(Counters::all_from_diskstats(&text).filter_map(|(name, _)| whole(name)).collect())
    }

    pub(super) fn at(folder: &Path, file: Option<PathBuf>) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let read = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| read(&folder, name)?.trim().parse::<u64>().ok();
        let is_partition = folder.join("partition").exists();
        let disk = if is_partition { folder.parent()? } else { &folder };
        let id = read(disk, "dev")?;
        let (major, minor) = id.trim().split_once(':')?;
        Some(Self {
            name: folder.file_name()?.to_string_lossy().into_owned(),
            file,
            disk: (major.parse().ok()?, minor.parse().ok()?),
            start_bytes: number("start").filter(|_| is_partition).unwrap_or(0) * 512,
            size_bytes: number("size").map(|sectors| sectors * 512),
            has_queues: disk.join("mq").is_dir(),
            folder,
        })
    }
}

/// The counters of all of `targets`, in one reading where there are many.
pub(super) fn read_all(targets: &[WatchTarget]) -> Result<Vec<Counters>, TargetError> {
    const FEW: usize = 3;
    let gone = |target: &WatchTarget| TargetError::Gone { name: target.name.clone() };
    if targets.len() <= FEW {
        let read = |target: &WatchTarget| {
            let text = fs::read_to_string(target.folder.join("stat")).ok();
            text.and_then(|text| Counters::from_stat(&text)).ok_or_else(|| gone(target))
        };
        return targets.iter().map(read).collect();
    }
    let text = fs::read_to_string(DISKSTATS).unwrap_or_default();
    let found: Vec<(&str, Counters)> = Counters::all_from_diskstats(&text).collect();
    let of = |target: &WatchTarget| {
        let its = found.iter().find(|(name, _)| *name == target.name);
        its.map(|(_, counters)| *counters).ok_or_else(|| gone(target))
    };
    targets.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_is_said() {
        assert!(matches!(WatchTarget::find("no-such-device"), Err(TargetError::Unknown { .. })));
        assert!(matches!(WatchTarget::find("/no/such/file"), Err(TargetError::Unknown { .. })));
        assert!(matches!(WatchTarget::find("/proc/self/stat"), Err(TargetError::NoDevice { .. })));
    }

    #[test]
    fn a_partition_knows_its_disk_and_where_it_starts() {
        let root = tempfile::tempdir().expect("a folder");
        let part = root.path().join("sda/sda1");
        fs::create_dir_all(&part).expect("folders");
        fs::create_dir_all(root.path().join("sda/mq")).expect("folders");
        for (file, text) in [
            ("sda/dev", "8:0\n"),
            ("sda/sda1/dev", "8:1\n"),
            ("sda/sda1/partition", "1\n"),
            ("sda/sda1/start", "2048\n"),
            ("sda/sda1/size", "4096\n"),
        ] {
            fs::write(root.path().join(file), text).expect("a file");
        }
        let found = WatchTarget::at(&part, None).expect("a partition");
        assert_eq!((found.name.as_str(), found.disk, found.start_bytes), ("sda1", (8, 0), 1 << 20));
        assert_eq!((found.size_bytes, found.has_queues), (Some(2 << 20), true));
    }
}
