//! Devices that lie on others: each request to them is one to the other, too, and would count twice.
//!
//! | device | lies on |
//! |---|---|
//! | `sda1`, `nvme0n1p2`, `dev8-1` | the disk, where it is told of |
//! | `dm-0`, `md127`, `loop0`, `dev253-0`, `vg-root`, `mpatha` | any disks of the host: which ones is not told |
//! | `vm1`, `all` | `vm1:scsi0:0`, or all others: it is their sum |
//!
//! Names are those of Linux' kernel and device mapper, and of esxtop's virtual disks.

/// Whether `device` lies on others of the devices of its host.
pub(crate) fn is_layer(device: &str, of_host: &[&str]) -> bool {
    if let Some(disk) = disk_of(device) {
        return of_host.contains(&disk.as_str());
    }
    let is_sum = |other: &&&str| other.strip_prefix(device).is_some_and(|rest| rest.starts_with(':'));
    if of_host.iter().any(|other| is_sum(&other)) || (device == "all" && of_host.len() > 1) {
        return true;
    }
    is_mapped(device) && of_host.iter().any(|other| is_disk(other))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

fn is_letters(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_lowercase())
}

/// Major and minor number of sar's `dev8-16`.
fn dev_numbers(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.strip_prefix("dev")?.split_once('-')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A disk of its own, by its name.
fn is_disk(name: &str) -> bool {
    if let Some((major, minor)) = dev_numbers(name) {
        return major == 259 || ((major == 8 || (65..=71).contains(&major)) && minor % 16 == 0);
    }
    let is_lettered =
        ["sd", "hd", "vd", "xvd", "dasd"].iter().any(|kind| name.strip_prefix(kind).is_some_and(is_letters));
    let is_nvme = || {
        let (controller, space) = name.strip_prefix("nvme")?.split_once('n')?;
        Some(is_number(controller) && is_number(space))
    };
    let is_numbered =
        ["mmcblk", "pmem", "nbd", "rbd"].iter().any(|kind| name.strip_prefix(kind).is_some_and(is_number));
    is_lettered || is_numbered || is_nvme() == Some(true)
}

/// The disk that a partition is of.
fn disk_of(name: &str) -> Option<String> {
    if let Some((major, minor)) = dev_numbers(name) {
        let is_scsi = major == 8 || (65..=71).contains(&major);
        return (is_scsi && minor % 16 != 0).then(|| format!("dev{major}-{}", minor / 16 * 16));
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if base == name {
        return None;
    }
    // Where the disk's name ends in a number, a p parts both.
    let disk = match base.strip_suffix('p') {
        Some(disk) if disk.ends_with(|c: char| c.is_ascii_digit()) => disk,
        _ => base,
    };
    is_disk(disk).then(|| disk.to_owned())
}

/// A device that the kernel makes of others.
fn is_mapped(name: &str) -> bool {
    if let Some((major, _)) = dev_numbers(name) {
        return [7, 9, 253].contains(&major);
    }
    let is_numbered = ["dm-", "md", "md_d", "loop", "bcache", "drbd"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(is_number));
    // Names that administrators gave, of logical volumes (group-volume) and of several paths.
    is_numbered || name.contains('-') || name.strip_prefix("mpath").is_some_and(is_letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_others_is_told_by_names() {
        let rows = [
            ("sda1", "sda sda1", true),
            ("sda1", "sda1 sdb", false),
            ("nvme0n1p2", "nvme0n1 nvme0n1p2", true),
            ("nvme0n1", "nvme0n1 nvme0n2", false),
            ("mmcblk0p1", "mmcblk0 mmcblk0p1", true),
            ("dm-0", "sda dm-0", true),
            ("dm-0", "dm-0 dm-1", false),
            ("rhel-root", "vda rhel-root", true),
            ("md127", "nvme0n1 nvme1n1 md127", true),
            ("dev253-0", "dev8-0 dev253-0", true),
            ("dev8-1", "dev8-0 dev8-1", true),
            ("dev8-16", "dev8-0 dev8-16", false),
            ("vm1", "vm1 vm1:scsi0:0", true),
            ("vm1:scsi0:0", "vm1 vm1:scsi0:0", false),
            ("all", "all sda", true),
            ("all", "all", false),
            ("0 C:", "0 C: 1 D:", false),
            ("naa.600-1", "naa.600-1 naa.601", false),
        ];
        for (device, host, told) in rows {
            let host: Vec<&str> = host.split(' ').collect();
            assert_eq!(is_layer(device, &host), told, "{device} among {host:?}");
        }
    }
}
