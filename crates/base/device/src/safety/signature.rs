//! Signatures: the marks that file systems, volume managers and partition tables leave on a device.
//!
//! Most are a few fixed bytes at a fixed place, from the start or the end, and are in one table. The others need more
//! than one field and have a function each. A false positive costs a user a longer command; a miss may cost their data.
//! So checksums are not verified: a damaged superblock is still worth keeping.
//!
//! Source: util-linux libblkid (`libblkid/src/superblocks`, `partitions`), Linux `drivers/md/md.c` for md.

use std::fmt;

/// A mark that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Short name of what left it: `ext4`, `lvm2`, `gpt`.
    pub kind: &'static str,
    /// Where it was found, in bytes from the start of the device.
    pub offset_bytes: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (mark at byte {})", self.kind, self.offset_bytes)
    }
}

/// The first and the last part of a device, where all known signatures lie.
#[derive(Clone, Debug)]
pub struct DeviceImage {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl DeviceImage {
    /// Length of each part; a smaller device is wholly in both.
    pub const WINDOW_BYTES: u64 = 2 << 20;

    /// Returns the image of a device of `bytes` that starts with `head` and ends with `tail`.
    ///
    /// # Panics
    /// If one of them is not as long as a window.
    pub fn new(head: Vec<u8>, tail: Vec<u8>, bytes: u64) -> Self {
        let window_bytes = Self::WINDOW_BYTES.min(bytes);
        assert_eq!(head.len() as u64, window_bytes, "the head is as long as a window");
        assert_eq!(tail.len() as u64, window_bytes, "the tail is as long as a window");
        Self { head, tail, bytes }
    }

    /// Returns `length` bytes from `offset` on, where they are within one of the two parts.
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let part = |start: u64, bytes: &'_ [u8]| -> Option<std::ops::Range<usize>> {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            let to = from.checked_add(length)?;
            (to <= bytes.len()).then_some(from..to)
        };
        let tail_start = self.bytes - self.tail.len() as u64;
        part(0, &self.head)
            .map(|range| &self.head[range])
            .or_else(|| part(tail_start, &self.tail).map(|range| &self.tail[range]))
    }

    fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        self.at(offset, bytes.len()) == Some(bytes)
    }

    fn u32_le(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.at(offset, 4)?.try_into().ok()?))
    }

    fn offset_from_end(&self, bytes: u64) -> Option<u64> {
        self.bytes.checked_sub(bytes)
    }
}

/// Which end of the device an offset counts from.
#[derive(Clone, Copy)]
enum Place {
    Start(u64),
    End(u64),
}
use Place::{End, Start};

/// Fixed bytes at a fixed place.
const MAGICS: &[(&str, Place, &[u8])] = &[
    ("raidlab", Start(0), RAIDLAB_LABEL),
    ("xfs", Start(0), b"XFSB"),
    ("btrfs", Start(0x1_0040), b"_BHRfS_M"),
    // Swap space: at the end of the first page, for all page sizes.
    ("swap", Start(4096 - 10), b"SWAPSPACE2"),
    ("swap", Start(4096 - 10), b"SWAP-SPACE"),
    ("swap", Start(8192 - 10), b"SWAPSPACE2"),
    ("swap", Start(16_384 - 10), b"SWAPSPACE2"),
    ("swap", Start(65_536 - 10), b"SWAPSPACE2"),
    // LVM2: a label in one of the first four sectors.
    ("lvm2", Start(0), b"LABELONE"),
    ("lvm2", Start(512), b"LABELONE"),
    ("lvm2", Start(1024), b"LABELONE"),
    ("lvm2", Start(1536), b"LABELONE"),
    ("luks", Start(0), b"LUKS\xba\xbe"),
    ("luks", Start(0x4000), b"SKUL\xba\xbe"),
    ("luks", Start(0x8000), b"SKUL\xba\xbe"),
    ("ntfs", Start(3), b"NTFS    "),
    ("exfat", Start(3), b"EXFAT   "),
    ("fat", Start(54), b"FAT12   "),
    ("fat", Start(54), b"FAT16   "),
    ("fat", Start(82), b"FAT32   "),
    // GPT: in the second block, and a copy in the last, for blocks of 512 and 4096 bytes.
    ("gpt", Start(512), b"EFI PART"),
    ("gpt", Start(4096), b"EFI PART"),
    ("gpt", End(512), b"EFI PART"),
    ("gpt", End(4096), b"EFI PART"),
    ("bcache", Start(0x1018), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("bcachefs", Start(0x1018), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("f2fs", Start(1024), b"\x10\x20\xf5\xf2"),
    ("jfs", Start(0x8000), b"JFS1"),
    ("reiserfs", Start(0x1_0034), b"ReIsEr"),
    ("iso9660", Start(0x8001), b"CD001"),
    ("squashfs", Start(0), b"hsqs"),
    ("erofs", Start(1024), b"\xe2\xe1\xf5\xe0"),
    ("gfs2", Start(0x1_0000), b"\x01\x16\x19\x70"),
    ("ceph-bluestore", Start(0), b"bluestore block device"),
    ("vmfs", Start(0x10_0000), b"\x0d\xd0\x01\xc0"),
    // Firmware RAID: Intel in the second last sector, DDF in the last.
    ("imsm", End(1024), b"Intel Raid ISM Cfg Sig. "),
    ("ddf", End(512), b"\xde\x11\xde\x11"),
];

/// Signatures that need more than fixed bytes at a fixed place.
const DETECTORS: &[fn(&DeviceImage) -> Option<Signature>] = &[raidlab_tail, ext, md_0_90, md_1, zfs, mbr];

/// Returns the signatures on a device, each kind once, the fixed ones first.
pub fn find_signatures(image: &DeviceImage) -> Vec<Signature> {
    let fixed = MAGICS.iter().filter_map(|&(kind, from, bytes)| {
        let offset_bytes = match from {
            Start(offset) => offset,
            End(bytes) => image.offset_from_end(bytes)?,
        };
        image.has(offset_bytes, bytes).then_some(Signature { kind, offset_bytes })
    });
    let mut found: Vec<Signature> = Vec::new();
    for signature in fixed.chain(DETECTORS.iter().filter_map(|detect| detect(image))) {
        if found.iter().all(|known| known.kind != signature.kind) {
            found.push(signature);
        }
    }
    // A boot sector ends like a partition table, and a GPT is guarded by one.
    let is_boot_sector = found.iter().any(|known| matches!(known.kind, "gpt" | "fat" | "ntfs" | "exfat"));
    found.retain(|signature| signature.kind != "mbr" || !is_boot_sector);
    found
}

/// What the label of a raidlab array begins with.
const RAIDLAB_LABEL: &[u8] = b"RAIDLBL\n";

/// The second copy of a raidlab label, 36 KiB before the last whole 4 KiB end: docs/on-disk-format.md.
fn raidlab_tail(image: &DeviceImage) -> Option<Signature> {
    let offset_bytes = (image.bytes & !0xfff).checked_sub(36_864)?;
    image.has(offset_bytes, RAIDLAB_LABEL).then_some(Signature { kind: "raidlab", offset_bytes })
}

/// The ext family: one magic, told apart by features. ext3 has a journal, ext4 any feature that ext3 lacks.
fn ext(image: &DeviceImage) -> Option<Signature> {
    const SUPERBLOCK: u64 = 1024;
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    const INCOMPAT_OF_EXT3: u32 = 0x2 | 0x4 | 0x10;
    const RO_COMPAT_OF_EXT3: u32 = 0x1 | 0x2 | 0x4;
    if !image.has(SUPERBLOCK + 0x38, &[0x53, 0xef]) {
        return None;
    }
    let features = |at: u64| image.u32_le(SUPERBLOCK + at);
    let (compat, incompat, ro_compat) = (features(0x5c)?, features(0x60)?, features(0x64)?);
    let kind = match () {
        () if incompat & !INCOMPAT_OF_EXT3 != 0 || ro_compat & !RO_COMPAT_OF_EXT3 != 0 => "ext4",
        () if compat & COMPAT_HAS_JOURNAL != 0 => "ext3",
        () => "ext2",
    };
    Some(Signature { kind, offset_bytes: SUPERBLOCK + 0x38 })
}

const MD_MAGIC: u32 = 0xa92b_4efc;

/// md with metadata 0.90: in the last whole 64 KiB but one, in the byte order of the machine that made it.
fn md_0_90(image: &DeviceImage) -> Option<Signature> {
    let offset_bytes = (image.bytes & !0xffff).checked_sub(0x1_0000)?;
    let magic = image.u32_le(offset_bytes)?;
    let found = magic == MD_MAGIC || magic == MD_MAGIC.swap_bytes();
    found.then_some(Signature { kind: "md-0.90", offset_bytes })
}

/// md with metadata 1.x: near the end (1.0), at the start (1.1), or 4 KiB from it (1.2).
fn md_1(image: &DeviceImage) -> Option<Signature> {
    let near_end = (image.bytes / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    let is_md = |offset: &u64| image.u32_le(*offset) == Some(MD_MAGIC) && image.u32_le(offset + 4) == Some(1);
    let offset_bytes = [Some(0), Some(4096), near_end].into_iter().flatten().find(is_md)?;
    Some(Signature { kind: "md-1", offset_bytes })
}

/// ZFS: an uberblock in one of four labels of 256 KiB, two at each end, in either byte order.
fn zfs(image: &DeviceImage) -> Option<Signature> {
    const LABEL_BYTES: u64 = 256 << 10;
    const UBERBLOCK: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();
    let mut swapped = UBERBLOCK;
    swapped.reverse();
    let end = image.bytes & !(LABEL_BYTES - 1);
    let labels = [Some(0), Some(LABEL_BYTES), end.checked_sub(2 * LABEL_BYTES), end.checked_sub(LABEL_BYTES)];
    // The second half of a label is a ring of uberblocks of at least 1 KiB.
    let mut places =
        labels.into_iter().flatten().flat_map(|label| (128..256).map(move |kib| label + (kib << 10)));
    let offset_bytes = places.find(|at| image.has(*at, &UBERBLOCK) || image.has(*at, &swapped))?;
    Some(Signature { kind: "zfs", offset_bytes })
}

/// A DOS partition table with at least one entry. Boot code alone is no table.
fn mbr(image: &DeviceImage) -> Option<Signature> {
    const ENTRIES: u64 = 446;
    if !image.has(510, &[0x55, 0xaa]) {
        return None;
    }
    let entries = image.at(ENTRIES, 64)?.chunks(16);
    let used = entries.filter(|entry| matches!(entry[0], 0 | 0x80) && entry[4] != 0).count();
    (used > 0).then_some(Signature { kind: "mbr", offset_bytes: ENTRIES })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at their offset.
    type Marks<'a> = &'a [(u64, &'a [u8])];

    /// An empty device of `bytes` with `marks` written to it.
    fn image(bytes: u64, marks: Marks<'_>) -> DeviceImage {
        let mut whole = vec![0; bytes as usize];
        for (offset, mark) in marks {
            whole[*offset as usize..*offset as usize + mark.len()].copy_from_slice(mark);
        }
        let window = DeviceImage::WINDOW_BYTES.min(bytes) as usize;
        DeviceImage::new(whole[..window].to_vec(), whole[whole.len() - window..].to_vec(), bytes)
    }

    fn kinds(bytes: u64, marks: Marks<'_>) -> Vec<&'static str> {
        find_signatures(&image(bytes, marks)).iter().map(|signature| signature.kind).collect()
    }

    /// Odd on purpose: no multiple of 64 KiB, so the places near the end have to be rounded.
    const BYTES: u64 = (5 << 20) + 7 * 4096;

    #[test]
    fn every_fixed_mark_is_found_where_it_lies_and_not_one_byte_beside() {
        for &(kind, from, mark) in MAGICS {
            let offset = match from {
                Start(offset) => offset,
                End(bytes) => BYTES - bytes,
            };
            assert_eq!(kinds(BYTES, &[(offset, mark)]), [kind], "{kind} at {offset}");
            if offset + mark.len() as u64 + 1 < BYTES {
                assert_eq!(kinds(BYTES, &[(offset + 1, mark)]), [""; 0], "{kind} beside {offset}");
            }
            let mut damaged = mark.to_vec();
            damaged[mark.len() - 1] ^= 0x01;
            assert_ne!(kinds(BYTES, &[(offset, &damaged)]), [kind], "{kind} damaged");
        }
    }

    #[test]
    fn marks_of_several_fields_are_told_apart() {
        let magic: (u64, &[u8]) = (0x438, &[0x53, 0xef]);
        let md: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
        let md_swapped: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];
        let md_1: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
        let md_2: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 2, 0, 0, 0];
        let boot: (u64, &[u8]) = (510, &[0x55, 0xaa]);
        let partition: (u64, &[u8]) = (446, &[0x80, 0, 1, 0, 0x83]);
        let protective: (u64, &[u8]) = (446, &[0, 0, 1, 0, 0xee]);
        let uberblock: &[u8] = &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
        let uberblock_swapped: &[u8] = &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c];
        let end_64k = (BYTES & !0xffff) - 0x1_0000;
        let end_8k = (BYTES / 512 - 16) / 8 * 8 * 512;
        let zfs_end = (BYTES & !0x3_ffff) - 0x4_0000;
        let raidlab_end = BYTES - 36_864;
        let rows: [(&str, Marks<'_>, &[&str]); 21] = [
            ("an array's device whose front was wiped", &[(raidlab_end, RAIDLAB_LABEL)], &["raidlab"]),
            ("nothing", &[], &[]),
            ("ext2", &[magic], &["ext2"]),
            ("ext3", &[magic, (0x45c, &[0x04])], &["ext3"]),
            ("ext4 by extents", &[magic, (0x45c, &[0x3c]), (0x460, &[0xc2, 2])], &["ext4"]),
            ("ext4 by metadata checksums", &[magic, (0x464, &[0, 4])], &["ext4"]),
            ("md 0.90", &[(end_64k, md)], &["md-0.90"]),
            ("md 0.90 of the other byte order", &[(end_64k, md_swapped)], &["md-0.90"]),
            ("md 1.0", &[(end_8k, md_1)], &["md-1"]),
            ("md 1.1", &[(0, md_1)], &["md-1"]),
            ("md 1.2", &[(4096, md_1)], &["md-1"]),
            ("md of a version to come", &[(4096, md_2)], &[]),
            ("zfs, first label", &[(128 << 10, uberblock)], &["zfs"]),
            (
                "zfs, a later uberblock of the last label",
                &[(zfs_end + (201 << 10), uberblock_swapped)],
                &["zfs"],
            ),
            ("zfs, outside the ring", &[(127 << 10, uberblock)], &[]),
            ("boot code", &[boot], &[]),
            ("mbr", &[boot, partition], &["mbr"]),
            ("an mbr without its end", &[partition], &[]),
            ("gpt", &[boot, protective, (512, b"EFI PART")], &["gpt"]),
            ("fat as a whole", &[boot, partition, (82, b"FAT32   ")], &["fat"]),
            (
                "two",
                &[(0, b"XFSB"), magic, (512, b"LABELONE"), (0x200 * 3, b"LABELONE")],
                &["xfs", "lvm2", "ext2"],
            ),
        ];
        for (name, marks, expected) in rows {
            assert_eq!(kinds(BYTES, marks), expected, "{name}");
        }
    }

    #[test]
    fn any_size_of_device_can_be_looked_at() {
        for bytes in [0, 1, 511, 512, 513, 4095, 4096, 65_535, 65_536, 131_072, 1 << 20, (1 << 20) + 1] {
            assert_eq!(kinds(bytes, &[]), [""; 0], "{bytes}");
        }
        assert_eq!(kinds(4, &[(0, b"XFSB")]), ["xfs"]);
    }
}
