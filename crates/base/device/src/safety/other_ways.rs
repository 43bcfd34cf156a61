//! Which other ways lead to the storage of an open file or block device?
//!
//! ```text
//! file m0 ◄── loop0 ◄── loop0p1 ◄── dm-0        of dm-0: below m0
//!    ▲                                          of m0: beside loop0, loop1, loop2
//!    └─────── loop1 ◄── loop2                   of loop0: below m0; beside loop1, loop2, if they show the same bytes of m0
//! ```
//! `O_EXCL` keeps others from a disk, its partitions and what is built on it (device mapper, md), in both directions: the
//! kernel knows that they are one. It does not know so of a loop device and its file, nor of two loop devices over one file.
//! All of it comes from sysfs (`/sys/dev/block/MAJOR:MINOR`, `loop/backing_file`).
//!
//! Left out, because nothing tells them: a file that was deleted, renamed, or is in another mount namespace, under a loop
//! device; a file below an overlay or another stacked file system; what an NBD, iSCSI or other remote server serves. Loop
//! devices over files of other mounts are not looked at, since a mount whose server is gone does not answer.
//! Source: Linux `drivers/block/loop.c`, `block/bdev.c` (`bd_may_claim`).

use super::in_use::{DeviceId, entries, file_name};
use super::tables::{Mount, parse_mountinfo};
use rustix::fs::{FileType, Stat, fstat, major, minor, stat};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Other ways to a storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherWays {
    /// What loop devices under it have their bytes in: it shares these with other loop devices.
    pub below: Vec<PathBuf>,
    /// Loop devices that show the same bytes.
    pub beside: Vec<PathBuf>,
}

/// A loop device, and the part of a file or device that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loop {
    name: String,
    backing: PathBuf,
    range: Range<u64>,
}

impl OtherWays {
    /// The other ways to the storage of an open file or block device, as far as the system tells them.
    pub fn of(file: &File) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::read(Path::new("/sys"), Path::new("/dev"), &parse_mountinfo(&mounts, &|_| None), file)
    }

    fn read(sysfs: &Path, devices: &Path, mounts: &[Mount], file: &File) -> Self {
        let Ok(facts) = fstat(file) else { return Self::default() };
        let homes = entries(&sysfs.join("block")).unwrap_or_default();
        let mut under = Vec::new();
        if is_block(&facts) {
            let (major, minor) = (major(facts.st_rdev), minor(facts.st_rdev));
            if let Ok(home) = sysfs.join(format!("dev/block/{major}:{minor}")).canonicalize() {
                add_loops(sysfs, &home, WHOLE, &mut under);
            }
        }
        let own = Own { facts, path: std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok() };
        let shows_same = |home: &&PathBuf| {
            let mut chain = Vec::new();
            if Loop::read(home).is_some() {
                add_loops(sysfs, home, WHOLE, &mut chain);
            }
            let is_ours = |one: &Loop| {
                let overlaps = |under: &Loop| {
                    let (ours, theirs) = (&under.range, &one.range);
                    ours.start < theirs.end && theirs.start < ours.end && same_backing(mounts, under, one)
                };
                own.is_at(mounts, &one.backing) || under.iter().any(overlaps)
            };
            !under.iter().any(|it| it.name == file_name(home)) && chain.iter().any(is_ours)
        };
        let beside = homes.iter().filter(shows_same).map(|home| devices.join(file_name(home))).collect();
        let mut below: Vec<PathBuf> = under.into_iter().map(|own| own.backing).collect();
        below.dedup();
        Self { below, beside }
    }
}

/// What was opened.
struct Own {
    facts: Stat,
    path: Option<PathBuf>,
}

impl Own {
    /// Whether `path` leads to it. Only what may be on the same file system is looked at: another one may not answer.
    fn is_at(&self, mounts: &[Mount], path: &Path) -> bool {
        if is_block(&self.facts) {
            return path.starts_with("/dev") && is_same(&self.facts, path);
        }
        let device = DeviceId { major: major(self.facts.st_dev), minor: minor(self.facts.st_dev) };
        let is_near = mount_of(mounts, path).is_some_and(|mount| mount.devices.contains(&device));
        self.path.as_deref() == Some(path) || is_near && is_same(&self.facts, path)
    }
}

/// The mount that `path`, which has no symbolic links, lies on.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let over = mounts.iter().filter(|mount| path.starts_with(&mount.mount_point));
    // The later one covers an earlier one in its place.
    over.max_by_key(|mount| mount.mount_point.len())
}

impl Loop {
    /// The loop device whose folder in sysfs is `home`, if it is one.
    fn read(home: &Path) -> Option<Self> {
        let text = |name: &str| std::fs::read_to_string(home.join("loop").join(name)).ok();
        let number = |name: &str| text(name).and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
        let backing = PathBuf::from(text("backing_file")?.trim_end_matches('\n'));
        let (start, limit) = (number("offset"), number("sizelimit"));
        let end = if limit == 0 { u64::MAX } else { start.saturating_add(limit) };
        Some(Self { name: file_name(home), backing, range: start..end })
    }
}

/// All of a device.
const WHOLE: Range<u64> = 0..u64::MAX;

/// Adds the loop devices that the bytes `within` the one at `home` lie in: itself, what it is a partition of or built on, and what is
/// below a loop device.
fn add_loops(sysfs: &Path, home: &Path, within: Range<u64>, found: &mut Vec<Loop>) {
    let own = Loop::read(home).map(|own| {
        let Range { start, end } = own.range;
        let range = start.saturating_add(within.start)..end.min(start.saturating_add(within.end));
        Loop { range, ..own }
    });
    if let Some(own) = own.filter(|own| !found.contains(own)) {
        let (range, below) = (own.range.clone(), sysfs.join("class/block").join(file_name(&own.backing)));
        let is_device = own.backing.starts_with("/dev");
        found.push(own);
        if let Some(below) = below.canonicalize().ok().filter(|_| is_device) {
            add_loops(sysfs, &below, range, found);
        }
    }
    let disk = home.parent().filter(|_| home.join("partition").exists());
    let slaves = entries(&home.join("slaves")).unwrap_or_default();
    for below in disk.into_iter().map(Path::to_owned).chain(slaves) {
        // A device can't lie below itself.
        if let Ok(below) = below.canonicalize() {
            add_loops(sysfs, &below, WHOLE, found);
        }
    }
}

fn is_block(facts: &Stat) -> bool {
    FileType::from_raw_mode(facts.st_mode) == FileType::BlockDevice
}

/// Whether `path` leads to the file or device of `facts`.
fn is_same(facts: &Stat, path: &Path) -> bool {
    stat(path).is_ok_and(|other| {
        if is_block(facts) {
            is_block(&other) && other.st_rdev == facts.st_rdev
        } else {
            (other.st_dev, other.st_ino) == (facts.st_dev, facts.st_ino)
        }
    })
}

fn same_backing(mounts: &[Mount], one: &Loop, other: &Loop) -> bool {
    let is_near = mount_of(mounts, &one.backing) == mount_of(mounts, &other.backing);
    one.backing == other.backing
        || is_near && stat(&one.backing).is_ok_and(|facts| is_same(&facts, &other.backing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// A loop device in a sysfs of our own.
    fn add_loop(sysfs: &Path, name: &str, number: &str, backing: &Path, range: Option<(u64, u64)>) {
        let home = sysfs.join("devices").join(name);
        create_dir_all(home.join("loop")).unwrap();
        create_dir_all(sysfs.join("block")).unwrap();
        create_dir_all(sysfs.join("dev/block")).unwrap();
        write(home.join("loop/backing_file"), format!("{}\n", backing.display())).unwrap();
        let (offset, limit) = range.unwrap_or_default();
        write(home.join("loop/offset"), format!("{offset}\n")).unwrap();
        write(home.join("loop/sizelimit"), format!("{limit}\n")).unwrap();
        symlink(&home, sysfs.join("block").join(name)).unwrap();
        symlink(&home, sysfs.join("dev/block").join(number)).unwrap();
        create_dir_all(sysfs.join("class/block")).unwrap();
        symlink(&home, sysfs.join("class/block").join(name)).unwrap();
    }

    #[test]
    fn loop_devices_over_a_file_are_beside_it_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["m0", "m1"] {
            write(at(name), "x").unwrap();
        }
        std::fs::hard_link(at("m0"), at("hard")).unwrap();
        symlink(at("m0"), at("soft")).unwrap();
        let sysfs = at("sys");
        add_loop(&sysfs, "loop0", "7:0", &at("m0"), None);
        add_loop(&sysfs, "loop1", "7:1", &at("m1"), None);
        add_loop(&sysfs, "loop2", "7:2", &at("hard"), Some((4096, 4096)));
        add_loop(&sysfs, "loop3", "7:3", &at("m0 (deleted)"), None);
        let dev = Path::new("/dev");
        let device = stat(folder.path()).unwrap().st_dev;
        let devices = vec![DeviceId { major: major(device), minor: minor(device) }];
        let mount = |devices, mount_point: &str| Mount {
            devices,
            mount_point: mount_point.to_owned(),
            file_system: "x".into(),
        };
        let mounts = [mount(devices, "/"), mount(vec![DeviceId { major: 0, minor: 7 }], "/dead")];
        add_loop(&sysfs, "loop4", "7:4", Path::new("/dead/m0"), None);
        add_loop(&sysfs, "loop5", "7:5", Path::new("/dev/loop0"), None);
        add_loop(&sysfs, "loop6", "7:6", Path::new("/dev/loop1"), None);
        add_loop(&sysfs, "loop7", "7:7", Path::new("/dev/loop5"), Some((8192, 4096)));
        for name in ["m0", "hard", "soft"] {
            let ways = OtherWays::read(&sysfs, dev, &mounts, &File::open(at(name)).unwrap());
            let names = ["loop0", "loop2", "loop5", "loop7"];
            assert_eq!(ways.beside, names.map(|name| dev.join(name)), "{name}");
            assert!(ways.below.is_empty());
        }
        let bytes_of = |name| {
            let mut found = Vec::new();
            add_loops(&sysfs, &sysfs.join("block").join(name).canonicalize().unwrap(), WHOLE, &mut found);
            found.into_iter().map(|it| (it.name, it.range)).collect::<Vec<_>>()
        };
        let nested = [("loop7", 8192..12288), ("loop5", 8192..12288), ("loop0", 8192..12288)];
        assert_eq!(bytes_of("loop7"), nested.map(|(name, range)| (name.to_owned(), range)));
        let nothing = OtherWays::read(&at("none"), dev, &mounts, &File::open(at("m0")).unwrap());
        assert_eq!(nothing, OtherWays::default());
    }

    #[test]
    fn partitions_and_what_is_built_on_loop_devices_lead_to_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let (sysfs, file) = (folder.path().join("sys"), folder.path().join("m0"));
        write(&file, "x").unwrap();
        add_loop(&sysfs, "loop0", "7:0", &file, None);
        let partition = sysfs.join("devices/loop0/loop0p1");
        create_dir_all(&partition).unwrap();
        write(partition.join("partition"), "1\n").unwrap();
        let mapper = sysfs.join("devices/dm-0");
        create_dir_all(mapper.join("slaves")).unwrap();
        symlink(&partition, mapper.join("slaves/loop0p1")).unwrap();
        for home in [sysfs.join("devices/loop0"), partition, mapper] {
            let mut found = Vec::new();
            add_loops(&sysfs, &home.canonicalize().unwrap(), WHOLE, &mut found);
            let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
            assert_eq!((names, &found[0].backing), (vec!["loop0"], &file), "{}", home.display());
        }
    }
}
