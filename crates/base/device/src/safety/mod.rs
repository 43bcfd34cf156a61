//! May this be overwritten? Checked before raidlab writes to any file or device that it did not make in this run.
//!
//! | what it is | allowed |
//! |---|---|
//! | in use: it, a partition of it, the disk it is part of, or what lies below it is mounted or swap; or something (device mapper, md, bcache, a loop device) holds it; or another program has locked the file (`flock`), as a served array does | never |
//! | an empty file, or a test file that raidlab laid out | always |
//! | any other file, even one of zeros, which may be a prepared disk image | when named: `--destroy-data PATH` |
//! | a block device | when named |
//! | an NBD export that reads as zeros at all examined places | always |
//! | another NBD export | when named, with what it holds if it has a known signature |
//! | a block device with a known signature ([`find_signatures`]) | when named with what it holds: `--destroy-data PATH:ext4` |
//!
//! A name is the path as given, or the path with all symbolic links followed; nothing else matches. The longer name
//! ensures that the user knows what is there, and that a script that names a device by its place does not destroy
//! another device's file system. A file has no other place than its path, so that says which one is meant, whatever it holds.
//!
//! What can't be examined is refused. Left out: other mount namespaces, and members of a mounted btrfs that the mount
//! table does not list; opening with `O_EXCL`, as load targets do, finds those.

mod in_use;
mod other_ways;
mod signature;
mod tables;

pub use in_use::{DeviceId, Family, Kin, Relative, Use, find_use, loop_device_over};
pub use other_ways::OtherWays;
pub use signature::{DeviceImage, Signature, find_signatures};
pub use tables::{Mount, parse_mountinfo, parse_swaps};

use crate::trailer::Trailer;
use rustix::fs::{FlockOperation, Stat, flock, fstat, major, minor};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Says what a path is.
pub fn describe(file_type: FileType) -> &'static str {
    match file_type {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_file() => "a regular file",
        kind if kind.is_block_device() => "a block device",
        _ => "something else",
    }
}

/// Why something may not be overwritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetyError {
    /// It is in use. No option overrides this.
    #[error("'{}' may not be written: {used}. Release it first; --destroy-data does not override this", .path.display())]
    InUse {
        /// What was to be written.
        path: PathBuf,
        /// By what.
        used: Use,
    },
    /// It holds data, or may hold some, and was not named.
    #[error(
        "writing to '{}' would destroy {holds}{}: if that is wanted, say --destroy-data '{name}'",
        .path.display(), given_text(.given.as_deref())
    )]
    NotNamed {
        /// What was to be written.
        path: PathBuf,
        /// What it holds.
        holds: String,
        /// The name that would allow it.
        name: String,
        /// The name that was given.
        given: Option<String>,
    },
    /// It is neither a regular file nor a block device.
    #[error("'{}' may not be written: it is {kind}, not a regular file or a block device", .path.display())]
    NotStorage {
        /// What was to be written.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It could not be looked at, so it is not touched.
    #[error("'{}' may not be written, because what it holds cannot be checked: cannot read '{}': {source}", .path.display(), .looked_at.display())]
    Unchecked {
        /// What was to be written.
        path: PathBuf,
        /// What could not be read.
        looked_at: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn given_text(given: Option<&str>) -> String {
    given.map_or_else(String::new, |given| format!(" (--destroy-data '{given}' does not name it)"))
}

/// Returns if `file`, opened from `path`, may be overwritten when the user named `destroy_data`.
///
/// # Errors
/// [`SafetyError`] says why not, and what would allow it.
pub fn permit_write(path: &Path, file: &File, destroy_data: Option<&str>) -> Result<(), SafetyError> {
    let check = Check { path, file, destroy_data, system: System::real() };
    check.run()
}

/// Keeps those away from `file` who want it for themselves, as arrays do, as long as it is open; others may load it, too.
///
/// # Errors
/// [`SafetyError::InUse`] when somebody has it for himself.
pub fn share_file(path: &Path, file: &File) -> Result<(), SafetyError> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Err(SafetyError::InUse {
            path: path.into(),
            used: Use::Locked { name: path.display().to_string() },
        }),
        // A file system without locks can't keep anybody away, which is no reason not to work on it.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns if the NBD export called `name` may be overwritten when the user named `destroy_data`. Whether someone uses it
/// can't be known here.
///
/// # Errors
/// [`SafetyError::NotNamed`] says what it holds, and what would allow it.
pub fn permit_write_export(
    name: &Path,
    image: &DeviceImage,
    destroy_data: Option<&str>,
) -> Result<(), SafetyError> {
    let (suffix, holds) = names_of_contents(image, "export");
    let wanted = format!("{}{suffix}", name.display());
    if destroy_data == Some(&wanted) {
        return Ok(());
    }
    let given = destroy_data.map(Into::into);
    Err(SafetyError::NotNamed { path: name.into(), holds, name: wanted, given })
}

/// What stands behind a name for it to tell the signatures of a device, and the signatures for people; nothing if there are
/// none.
fn signature_names(image: &DeviceImage) -> Option<(String, String)> {
    let signatures = find_signatures(image);
    let kinds: Vec<&str> = signatures.iter().map(|signature| signature.kind).collect();
    let list = signatures.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    (!kinds.is_empty()).then(|| (format!(":{}", kinds.join("+")), list))
}

/// The same of what may have none: all that a storage of this kind holds is somebody's.
fn names_of_contents(image: &DeviceImage, kind: &str) -> (String, String) {
    signature_names(image).unwrap_or_else(|| (String::new(), format!("whatever this {kind} holds")))
}

/// Where the system keeps its tables; tests make their own.
struct System {
    proc: PathBuf,
    sysfs: PathBuf,
}

impl System {
    fn real() -> Self {
        Self { proc: "/proc".into(), sysfs: "/sys".into() }
    }
}

struct Check<'a> {
    path: &'a Path,
    file: &'a File,
    destroy_data: Option<&'a str>,
    system: System,
}

impl Check<'_> {
    fn run(&self) -> Result<(), SafetyError> {
        let file_type = self.file.metadata().map_err(|error| self.unchecked(self.path, error))?.file_type();
        let stat = fstat(self.file).map_err(|errno| self.unchecked(self.path, errno.into()))?;
        match file_type {
            file if file.is_file() => self.check_file(&stat),
            device if device.is_block_device() => self.check_device(&stat),
            other => Err(SafetyError::NotStorage { path: self.path.into(), kind: describe(other) }),
        }
    }

    fn check_file(&self, stat: &Stat) -> Result<(), SafetyError> {
        let id = (stat.st_dev, stat.st_ino);
        for swap in self.swaps()? {
            if rustix::fs::stat(&swap).is_ok_and(|other| (other.st_dev, other.st_ino) == id) {
                return Err(self.in_use(Use::Swap { name: swap.display().to_string() }));
            }
        }
        let canonical = self.path.canonicalize().map_err(|error| self.unchecked(self.path, error))?;
        let holder = loop_device_over(&self.system.sysfs, &canonical)
            .map_err(|error| self.unchecked(&self.system.sysfs, error))?;
        if let Some(holder) = holder {
            let name = self.path.display().to_string();
            return Err(self.in_use(Use::Held { name, holder }));
        }
        share_file(self.path, self.file)?;
        // Whoever opens it for himself next must not find it locked by this look.
        let _ = flock(self.file, FlockOperation::Unlock);
        let bytes = stat.st_size as u64;
        let own = Trailer::read(self.file, bytes).map_err(|error| self.unchecked(self.path, error))?;
        if bytes == 0 || own.is_some() {
            return Ok(());
        }
        let image = DeviceImage::read(self.file).map_err(|error| self.unchecked(self.path, error))?;
        let found = signature_names(&image).map_or(String::new(), |(_, list)| format!(", with {list}"));
        self.require_name("", format!("a file that raidlab did not lay out{found}"))
    }

    fn check_device(&self, stat: &Stat) -> Result<(), SafetyError> {
        let id = DeviceId { major: major(stat.st_rdev), minor: minor(stat.st_rdev) };
        let family = Family::read(&self.system.sysfs, id)
            .map_err(|error| self.unchecked(&self.system.sysfs, error))?;
        let mounts = self.proc_text("self/mountinfo")?;
        let mounts = parse_mountinfo(&mounts, &device_at);
        let swaps: Vec<DeviceId> =
            self.swaps()?.iter().filter_map(|path| device_at(path.to_str()?)).collect();
        if let Some(used) = find_use(&family, &mounts, &swaps) {
            return Err(self.in_use(used));
        }
        // What lies in a file may be in use there.
        for below in OtherWays::of(self.file).below {
            let file = File::open(&below).map_err(|error| self.unchecked(&below, error))?;
            share_file(&below, &file)?;
        }
        let image = DeviceImage::read(self.file).map_err(|error| self.unchecked(self.path, error))?;
        let (suffix, holds) = names_of_contents(&image, "device");
        self.require_name(&suffix, holds)
    }

    /// Passes if the user named the path, as given or in full, with `suffix` behind it.
    fn require_name(&self, suffix: &str, holds: String) -> Result<(), SafetyError> {
        let as_given = format!("{}{suffix}", self.path.display());
        let canonical = self.path.canonicalize().map(|path| format!("{}{suffix}", path.display())).ok();
        match self.destroy_data {
            Some(named) if named == as_given || Some(named) == canonical.as_deref() => Ok(()),
            given => Err(SafetyError::NotNamed {
                path: self.path.into(),
                holds,
                name: as_given,
                given: given.map(Into::into),
            }),
        }
    }

    fn swaps(&self) -> Result<Vec<PathBuf>, SafetyError> {
        Ok(parse_swaps(&self.proc_text("swaps")?))
    }

    /// A kernel without swap has no table of it, so a missing one is empty.
    fn proc_text(&self, name: &str) -> Result<String, SafetyError> {
        let path = self.system.proc.join(name);
        match std::fs::read(&path) {
            Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && name == "swaps" => Ok(String::new()),
            Err(error) => Err(self.unchecked(&path, error)),
        }
    }

    fn in_use(&self, used: Use) -> SafetyError {
        SafetyError::InUse { path: self.path.into(), used }
    }

    fn unchecked(&self, looked_at: &Path, source: io::Error) -> SafetyError {
        SafetyError::Unchecked { path: self.path.into(), looked_at: looked_at.into(), source }
    }
}

/// Returns the block device that `path` names, if it names one.
fn device_at(path: &str) -> Option<DeviceId> {
    let stat = path.starts_with('/').then(|| rustix::fs::stat(path).ok()).flatten()?;
    let is_block = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
    is_block.then(|| DeviceId { major: major(stat.st_rdev), minor: minor(stat.st_rdev) })
}

impl DeviceImage {
    /// Reads the parts of a device that signatures lie in.
    fn read(file: &File) -> io::Result<Self> {
        let bytes = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
        let mut head = vec![0; Self::WINDOW_BYTES.min(bytes) as usize];
        let mut tail = head.clone();
        file.read_exact_at(&mut head, 0)?;
        let tail_at = bytes - tail.len() as u64;
        file.read_exact_at(&mut tail, tail_at)?;
        Ok(Self::new(head, tail, bytes))
    }
}

#[cfg(test)]
mod tests;
