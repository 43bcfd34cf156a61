//! The kernel's tables of mounts and swap, as text. Source: `proc_pid_mountinfo(5)`, `proc_swaps(5)`.

use super::in_use::DeviceId;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The devices it may lie on: the one of its files, and the one it was mounted from (btrfs has files on a
    /// device number of its own).
    pub devices: Vec<DeviceId>,
    /// Where it is mounted.
    pub mount_point: String,
    /// Its type.
    pub file_system: String,
}

/// Reads the text of `/proc/self/mountinfo`. `device_at` returns the block device that a path names.
///
/// A line that is not understood is left out: the kernel writes the table, and adds fields only where they
/// are skipped here.
pub fn parse_mountinfo(text: &str, device_at: &dyn Fn(&str) -> Option<DeviceId>) -> Vec<Mount> {
    text.lines().filter_map(|line| parse_mount(line, device_at)).collect()
}

/// One line: `36 35 98:0 /root /mount/point options [optional fields] - type source options`.
fn parse_mount(line: &str, device_at: &dyn Fn(&str) -> Option<DeviceId>) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount_fields = mount.split(' ');
    let files_on: DeviceId = mount_fields.nth(2)?.parse().ok()?;
    let mount_point = unescape(mount_fields.nth(1)?).to_string_lossy().into_owned();
    let mut system_fields = system.split(' ');
    let file_system = system_fields.next()?.to_owned();
    let source = unescape(system_fields.next()?).into_string().ok();
    let mounted_from = source.as_deref().and_then(device_at);
    let devices =
        std::iter::once(files_on).chain(mounted_from.filter(|device| *device != files_on)).collect();
    Some(Mount { devices, mount_point, file_system })
}

/// Reads the text of `/proc/swaps`: the files and devices that are swapped to.
pub fn parse_swaps(text: &str) -> Vec<PathBuf> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split([' ', '\t']).next().filter(|path| !path.is_empty()))
        .map(|path| unescape(path).into())
        .collect()
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(field: &str) -> OsString {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'\\')
            .then(|| field.get(at + 1..at + 4))
            .flatten()
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        plain.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device_at(path: &str) -> Option<DeviceId> {
        (path == "/dev/sda2").then_some(DeviceId { major: 8, minor: 2 })
    }

    #[test]
    fn mounts_are_read_line_by_line() {
        type Read<'a> = Option<(&'a [(u32, u32)], &'a str, &'a str)>;
        let rows: [(&str, Read<'_>); 8] = [
            ("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw", Some((&[(254, 0)], "/", "ext4"))),
            (
                "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw",
                Some((&[(98, 0)], "/mnt2", "ext3")),
            ),
            (
                "40 1 0:45 /@home /home rw shared:3 - btrfs /dev/sda2 rw,subvol=/@home",
                Some((&[(0, 45), (8, 2)], "/home", "btrfs")),
            ),
            ("41 1 8:2 / /a\\040b\\134c rw - xfs /dev/sda2 rw", Some((&[(8, 2)], "/a b\\c", "xfs"))),
            ("22 27 0:21 / /proc rw - proc proc rw", Some((&[(0, 21)], "/proc", "proc"))),
            ("", None),
            ("27 1 254 / / rw - ext4 /dev/vda rw", None),
            ("27 1 254:0 / / rw ext4 /dev/vda rw", None),
        ];
        for (line, expected) in rows {
            let expected = expected.map(|(devices, mount_point, file_system)| Mount {
                devices: devices.iter().map(|&(major, minor)| DeviceId { major, minor }).collect(),
                mount_point: mount_point.into(),
                file_system: file_system.into(),
            });
            let read = parse_mountinfo(line, &device_at);
            assert_eq!(read, expected.into_iter().collect::<Vec<_>>(), "{line}");
        }
        let two = format!("{}\n{}\n", rows[0].0, rows[2].0);
        assert_eq!(parse_mountinfo(&two, &device_at).len(), 2);
    }

    #[test]
    fn swaps_are_read_behind_the_head() {
        let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let rows: [(&str, &[&str]); 4] = [
            ("", &[]),
            ("/dev/sda3                               partition\t1000\t\t0\t\t-2\n", &["/dev/sda3"]),
            ("/swap\\040file file 1 0 -2\n/dev/zram0 partition 1 0 100\n", &["/swap file", "/dev/zram0"]),
            ("\n", &[]),
        ];
        for (body, expected) in rows {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(parse_swaps(&format!("{head}{body}")), expected, "{body:?}");
        }
    }

    #[test]
    fn odd_backslashes_stay() {
        for (field, expected) in [("a\\", "a\\"), ("\\04", "\\04"), ("\\999", "\\999"), ("\\011x", "\tx")] {
            assert_eq!(unescape(field), expected, "{field}");
        }
    }
}
