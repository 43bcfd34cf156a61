//! Is a block device in use, directly or through its relatives?
//!
//! ```text
//! Holder        dm-0, md0, bcache0        built on it: any of them means that it is in use
//! WholeDisk     sda   ── the disk of a partition: held or mounted as a whole
//! Itself        sda1
//! Partition     sda1, sda2 ── of a whole disk: each may be mounted, swap or held
//! Below         what a dm or md device is built on: may not be mounted or swap on its own
//! ```
//! All of it comes from sysfs (`/sys/dev/block/MAJOR:MINOR`); the decision is a pure function of the data read. Other
//! partitions of the same disk are no relatives: they share nothing with the target.
//! Source: Linux `Documentation/ABI/testing/sysfs-block`, `Documentation/admin-guide/abi-stable`.

use super::tables::Mount;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device within it.
    pub minor: u32,
}

impl FromStr for DeviceId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(Self { major: major.parse().map_err(|_| ())?, minor: minor.parse().map_err(|_| ())? })
    }
}

/// How a device is related to the one in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// The device in question.
    Itself,
    /// A partition of it.
    Partition,
    /// The disk that it is a partition of.
    WholeDisk,
    /// What it is built on.
    Below,
}

/// A device that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative {
    /// How it is related.
    pub kin: Kin,
    /// Its number.
    pub id: DeviceId,
    /// The kernel's name for it.
    pub name: String,
    /// Names of the devices that are built on it.
    pub holders: Vec<String>,
}

/// A device with all its relatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// The device itself first.
    pub relatives: Vec<Relative>,
}

/// What something is in use by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A mounted file system lies on it.
    Mounted {
        /// The kernel's name of the device.
        name: String,
        /// Type of the file system.
        file_system: String,
        /// Where it is mounted.
        mount_point: String,
    },
    /// The system swaps to it.
    Swap {
        /// The kernel's name of the device, or the path of the file.
        name: String,
    },
    /// Another device is built on it.
    Held {
        /// The kernel's name of the device, or the path of the file.
        name: String,
        /// The kernel's name of the other device.
        holder: String,
    },
    /// Another program has it locked (`flock`), as arrays that are served lock their members.
    Locked {
        /// The path of the file.
        name: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { name, file_system, mount_point } => {
                write!(f, "{name} is mounted ({file_system}) on '{mount_point}'")
            }
            Self::Swap { name } => write!(f, "{name} is in use as swap"),
            Self::Held { name, holder } => write!(f, "{name} is held by {holder}"),
            Self::Locked { name } => {
                write!(f, "{name} is in use: an array that is served, or another program, has it locked")
            }
        }
    }
}

impl Family {
    /// Reads device `id` and its relatives from the sysfs mounted at `sysfs`.
    ///
    /// # Errors
    /// What the system answers, also if it does not know the device.
    pub fn read(sysfs: &Path, id: DeviceId) -> io::Result<Self> {
        let home = sysfs.join(format!("dev/block/{}:{}", id.major, id.minor)).canonicalize()?;
        let mut relatives = vec![Relative::read(Kin::Itself, &home)?];
        for entry in entries(&home)? {
            if entry.join("partition").exists() {
                relatives.push(Relative::read(Kin::Partition, &entry)?);
            }
        }
        if let Some(disk) = home.parent().filter(|_| home.join("partition").exists()) {
            relatives.push(Relative::read(Kin::WholeDisk, disk)?);
        }
        add_below(&home, &mut relatives)?;
        Ok(Self { relatives })
    }
}

/// Adds what `home` is built on, and what that is built on.
fn add_below(home: &Path, relatives: &mut Vec<Relative>) -> io::Result<()> {
    for slave in entries(&home.join("slaves"))? {
        let slave = slave.canonicalize()?;
        let below = Relative::read(Kin::Below, &slave)?;
        // A device can't lie below itself, but two paths may lead to the same one.
        if relatives.iter().all(|known| known.id != below.id) {
            relatives.push(below);
            add_below(&slave, relatives)?;
        }
    }
    Ok(())
}

impl Relative {
    fn read(kin: Kin, home: &Path) -> io::Result<Self> {
        let number = std::fs::read_to_string(home.join("dev"))?;
        let id = number.parse().map_err(|()| io::Error::new(io::ErrorKind::InvalidData, number.clone()))?;
        let holders = entries(&home.join("holders"))?.iter().map(|path| file_name(path)).collect();
        Ok(Self { kin, id, name: file_name(home), holders })
    }
}

/// Lists a folder in order of names; one that does not exist is empty.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = listing.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the first use found of a device or its relatives, if there is any.
pub fn find_use(family: &Family, mounts: &[Mount], swaps: &[DeviceId]) -> Option<Use> {
    family.relatives.iter().find_map(|relative| use_of(relative, mounts, swaps))
}

fn use_of(relative: &Relative, mounts: &[Mount], swaps: &[DeviceId]) -> Option<Use> {
    let name = relative.name.clone();
    if let Some(mount) = mounts.iter().find(|mount| mount.devices.contains(&relative.id)) {
        let (file_system, mount_point) = (mount.file_system.clone(), mount.mount_point.clone());
        return Some(Use::Mounted { name, file_system, mount_point });
    }
    if swaps.contains(&relative.id) {
        return Some(Use::Swap { name });
    }
    // What lies below is held by the device in question, which is as it should be.
    let holder = relative.holders.first().filter(|_| relative.kin != Kin::Below)?.clone();
    Some(Use::Held { name, holder })
}

/// Returns the name of the loop device whose backing file is `file` (a path without symbolic links), if any.
///
/// # Errors
/// What the system answers when the block devices can't be listed.
pub fn loop_device_over(sysfs: &Path, file: &Path) -> io::Result<Option<String>> {
    let backs = |device: &PathBuf| {
        std::fs::read_to_string(device.join("loop/backing_file"))
            .is_ok_and(|backing| Path::new(backing.trim_end_matches('\n')) == file)
    };
    Ok(entries(&sysfs.join("block"))?.iter().find(|device| backs(device)).map(|device| file_name(device)))
}
