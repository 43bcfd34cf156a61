//! The file system of an open file, by the magic number of `statfs(2)`, and what it promises.
//!
//! | file system | I/O of `io_uring` | a direct write with `RWF_DSYNC` by `io_uring` |
//! |---|---|---|
//! | none: a block device | | durable when it ends (`block/fops.c` makes it a write with `REQ_FUA`) |
//! | ext4, XFS | | the same (`fs/iomap/direct-io.c` syncs before it ends) |
//! | tmpfs | never blocks | the same, as far as memory goes |
//! | FUSE | blocks the submitting call | ends too early: `fs/fuse/file.c` syncs only synchronous writes |
//! | 9p, SMB, AFS | | ends too early: `fs/netfs/direct_write.c` does not sync, even synchronous writes; some mounts write no other way |
//! | Btrfs | | from Linux 6.1 on the same as ext4's; ends too early before (from commit 51bd9563b678, in 5.16, to 8184620ae212; fstests has generic/703 for it). Stable kernels took both at different releases, so none before 6.1 is trusted |
//! | any other | | unknown; overlayfs does what the one below it does |
//!
//! Source: the named files (`fs/netfs` exists from Linux 6.8 on), and `linux/magic.h`. FUSE on Linux 6.18 was measured,
//! too: `tests/clients/fuse.sh`.

use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;

const TMPFS: u32 = 0x0102_1994;
/// Of ext2 and ext3, too, which the driver of ext4 mounts.
const EXT4: u32 = 0xef53;
const XFS: u32 = 0x5846_5342;
const FUSE: u32 = 0x6573_5546;
const P9: u32 = 0x0102_1997;
/// Of version 1, and from version 2 on.
const SMB: [u32; 2] = [0xff53_4d42, 0xfe53_4d42];
const AFS: u32 = 0x5346_414f;
const BTRFS: u32 = 0x9123_683e;

/// Version of Linux: 6.1 is (6, 1).
type Kernel = (u32, u32);

/// From this on all kernels have Btrfs sync behind direct writes that nobody waits for.
const BTRFS_SYNCS_FROM: Kernel = (6, 1);

/// The magic number of the file system that holds `file`, where the system says it.
fn magic(file: &File) -> Option<u32> {
    rustix::fs::fstatfs(file).ok().map(|facts| facts.f_type as u32)
}

/// Whether a direct write that `io_uring` makes with `RWF_DSYNC` is known to be durable when it ends. Where it is not, a flush
/// behind the write makes it so.
pub fn keeps_dsync(file: &File) -> bool {
    let is_device = file.metadata().is_ok_and(|facts| facts.file_type().is_block_device());
    is_device || magic(file).is_some_and(is_known_to_keep_dsync)
}

const fn is_known_to_keep_dsync(magic: u32) -> bool {
    matches!(magic, EXT4 | XFS | TMPFS)
}

/// A file system that is known to end writes with `RWF_DSYNC` before they are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsyncLoser {
    /// FUSE: direct writes by `io_uring`.
    Fuse,
    /// Btrfs before Linux 6.1: direct writes by `io_uring`.
    Btrfs,
    /// One on the kernel's netfs library: direct writes, and where the mount caches nothing all others, too.
    Netfs,
}

/// The one that holds `file`, if it is such.
pub fn dsync_loser(file: &File) -> Option<DsyncLoser> {
    let kernel = rustix::system::uname().release().to_str().ok().and_then(kernel_of);
    magic(file).and_then(|magic| dsync_loser_of(magic, kernel))
}

/// The version in what the kernel calls its release, such as `6.0.12-amd64`.
fn kernel_of(release: &str) -> Option<Kernel> {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn dsync_loser_of(magic: u32, kernel: Option<Kernel>) -> Option<DsyncLoser> {
    match magic {
        FUSE => Some(DsyncLoser::Fuse),
        BTRFS => kernel.is_none_or(|kernel| kernel < BTRFS_SYNCS_FROM).then_some(DsyncLoser::Btrfs),
        P9 | AFS => Some(DsyncLoser::Netfs),
        _ => SMB.contains(&magic).then_some(DsyncLoser::Netfs),
    }
}

/// Whether I/O waits for an answer in the call that submits it, unless it is handed to a worker thread: FUSE ignores that it must not
/// wait. What does not say what it is might be one.
pub fn waits_in_submission(file: &File) -> bool {
    magic(file).is_none_or(|magic| magic == FUSE)
}

/// Has `io_uring` do the I/O of a file in memory at once. It can't know that such I/O never waits, so it hands each to
/// a worker thread, which costs more than the I/O itself; files on devices are not concerned. Where the flag can't be
/// set, I/O is only slower.
pub fn with_inline_io(file: File) -> File {
    if magic(&file) == Some(TMPFS) {
        let flags = rustix::fs::fcntl_getfl(&file);
        let set = flags.and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK));
        if let Err(error) = set {
            tracing::debug!(%error, "I/O of files in memory goes through worker threads");
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_were_looked_at_are_trusted() {
        let (overlay, nfs) = (0x794c_7630, 0x6969);
        let dsync_loser_of = |magic| dsync_loser_of(magic, Some((6, 18)));
        for magic in [EXT4, XFS, TMPFS] {
            assert!(is_known_to_keep_dsync(magic), "{magic:#x}");
            assert_eq!(dsync_loser_of(magic), None, "{magic:#x}");
        }
        let losers = [
            (FUSE, DsyncLoser::Fuse),
            (P9, DsyncLoser::Netfs),
            (SMB[0], DsyncLoser::Netfs),
            (SMB[1], DsyncLoser::Netfs),
            (AFS, DsyncLoser::Netfs),
        ];
        for (magic, loser) in losers {
            assert!(!is_known_to_keep_dsync(magic), "{magic:#x}");
            assert_eq!(dsync_loser_of(magic), Some(loser), "{magic:#x}");
        }
        for magic in [BTRFS, overlay, nfs, 0] {
            assert!(!is_known_to_keep_dsync(magic), "{magic:#x}");
            assert_eq!(dsync_loser_of(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn btrfs_is_trusted_where_all_kernels_were_mended() {
        let rows = [
            ("5.10.0-30-amd64", true),
            ("5.15.0-91-generic", true),
            ("6.0.19", true),
            ("6.0-rc1", true),
            ("6.1.0", false),
            ("6.10.3-arch1-2", false),
            ("10.0", false),
            ("of no number", true),
            ("6", true),
            ("", true),
        ];
        for (release, loses) in rows {
            let found = dsync_loser_of(BTRFS, kernel_of(release));
            assert_eq!(found, loses.then_some(DsyncLoser::Btrfs), "{release}");
        }
    }

    #[test]
    fn a_file_s_own_file_system_is_asked() {
        let file = |path| File::open(path).expect("it is there on Linux");
        assert_eq!(magic(&file("/proc/self/stat")), Some(0x9fa0));
        assert!(!keeps_dsync(&file("/proc/self/stat")));
        assert_eq!(dsync_loser(&file("/proc/self/stat")), None);
        let memory =
            rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
        assert!(keeps_dsync(&File::from(memory)));
    }
}
