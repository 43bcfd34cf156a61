//! What this machine can and cannot do for raidlab, found by trying it where that is harmless.
//!
//! Each [`Check`] says what was found, why it matters and how to get it. Nothing is changed: the direct I/O check makes
//! an unnamed file that vanishes when it is closed, or a named one if the filesystem has no unnamed files.

use crate::watch::check_requests;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All there.
    Ok,
    /// Something is not there; `raidlab` works with what is left, or says what it can't do.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// Why it matters.
    pub why: &'static str,
    /// How to get it, where it is missing.
    pub how: Option<&'static str>,
}

/// Looks at everything. `folder` is where test files and members would be laid out.
pub fn examine(folder: &Path) -> Vec<Check> {
    vec![
        check_direct_io(folder),
        check_io_uring(),
        check_io_uring_operations(),
        check_locked_memory(),
        check_parity_instructions(),
        check_free_space(folder),
        check_libnfs(),
        check_xrootd(),
        check_smartctl(),
        check_single_requests(),
        check_kernel_driver("md", "md_mod", "/proc/mdstat", &MD_TEXT),
        check_kernel_driver("nbd", "nbd", "/dev/nbd0", &NBD_TEXT),
        check_kernel_driver("ublk", "ublk_drv", "/dev/ublk-control", &UBLK_TEXT),
    ]
}

fn check(name: &'static str, found: Result<String, String>, why: &'static str, how: &'static str) -> Check {
    let (verdict, found, how) = match found {
        Ok(found) => (Verdict::Ok, found, None),
        Err(found) => (Verdict::Missing, found, Some(how)),
    };
    Check { name, verdict, found, why, how }
}

/// A page in memory that direct I/O can use.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn check_direct_io(folder: &Path) -> Check {
    let write_page = || -> Result<String, Errno> {
        let file = scratch_file(folder)?;
        let page = Page([0; 4096]);
        rustix::io::pwrite(&file, &page.0, 0)?;
        Ok(match direct_io_unit(&file) {
            Some(unit) => format!("works in {}, in units of {unit} bytes", folder.display()),
            None => format!("works in {}, in units of 4096 bytes", folder.display()),
        })
    };
    let explain = |error: Errno| format!("a direct write in {} failed: {error}", folder.display());
    check(
        "direct I/O (O_DIRECT)",
        write_page().map_err(explain),
        "measuring without it measures the page cache; arrays refuse members without it",
        "run in a writable folder on ext4, xfs, btrfs or a block device; older tmpfs and some network filesystems have none",
    )
}

/// Opens an unnamed file for direct I/O, or a named one that is unlinked at once.
fn scratch_file(folder: &Path) -> Result<OwnedFd, Errno> {
    let direct = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, direct | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let path = folder.join(format!(".raidlab-doctor-{}", std::process::id()));
            let opened = rustix::fs::open(&path, direct | OFlags::CREATE | OFlags::EXCL, mode);
            // Open can fail after the file was made: the direct flag is looked at last.
            let removed = rustix::fs::unlink(&path);
            opened.and_then(|file| removed.map(|()| file))
        }
        other => other,
    }
}

/// The unit of direct I/O that the kernel states (statx, Linux 6.1), where it does.
fn direct_io_unit(file: &OwnedFd) -> Option<u32> {
    let facts = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (facts.stx_dio_offset_align > 0).then_some(facts.stx_dio_offset_align)
}

fn check_libnfs() -> Check {
    let found = raidlab_engines::nfs_library().map(|library| format!("{} is there", library.name()));
    check(
        "NFS client (libnfs)",
        found.map_err(|error| error.to_string()),
        "measure and streams read and write files of an NFS server by it, without a mount",
        "apt install libnfs13 (Debian 12) or libnfs14 (Debian 13); libnfs 4 or 5 elsewhere",
    )
}

fn check_xrootd() -> Check {
    let found = raidlab_engines::xrootd_library().map(|library| format!("{} is there", library.name()));
    check(
        "XRootD client (libXrdPosix)",
        found.map_err(|error| error.to_string()),
        "measure and streams read and write files of an XRootD server (root://) by it",
        "apt install libxrdposix3 (Debian 12), dnf install xrootd-client-libs (EPEL), or XRootD 5 or later from its own site",
    )
}

fn check_smartctl() -> Check {
    let asked = Command::new("smartctl").args(["--json", "--version"]).output();
    let found = match asked {
        Ok(output) if output.stdout.starts_with(b"{") => Ok("smartctl is there, and prints JSON".to_owned()),
        Ok(_) => Err("smartctl is older than version 7 and prints no JSON".to_owned()),
        Err(_) => Err("there is no smartctl".to_owned()),
    };
    check(
        "SMART counters (smartctl)",
        found,
        "soak states what drives counted before and after",
        "apt install smartmontools, and run soak as root",
    )
}

fn check_single_requests() -> Check {
    let found = check_requests().map(|place| format!("block events in {}", place.display()));
    check(
        "single requests (block events in tracefs)",
        found.map_err(|error| error.to_string()),
        "observe tells by them where requests go: random or in runs, places, working set; counters tell the rest",
        "a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE, 'mount -t tracefs tracefs /sys/kernel/tracing', and root",
    )
}

const URING_HOW: &str = "Linux 5.11 or later; set /proc/sys/kernel/io_uring_disabled to 0; in a container, a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register";

fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn check_io_uring() -> Check {
    let found = match io_uring::IoUring::new(8) {
        Ok(ring) => {
            let features = ring.params();
            let names = [
                ("no-drop", features.is_feature_nodrop()),
                ("wait-with-timeout", features.is_feature_ext_arg()),
                ("fast-poll", features.is_feature_fast_poll()),
                ("native-workers", features.is_feature_native_workers()),
            ];
            let names: Vec<&str> = names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
            let summary = format!("kernel {}, features {}", kernel_release(), names.join(", "));
            if features.is_feature_ext_arg() {
                Ok(summary)
            } else {
                Err(format!("{summary}; no wait-with-timeout"))
            }
        }
        Err(error) => Err(format!("kernel {}: io_uring_setup failed: {error}", kernel_release())),
    };
    check("io_uring", found, "measure, study and arrays do all their I/O through it", URING_HOW)
}

fn check_io_uring_operations() -> Check {
    use io_uring::opcode::{Fsync, Read, ReadFixed, Write, WriteFixed};
    let found = io_uring::IoUring::new(8).and_then(|ring| {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok(probe)
    });
    let found = found.map_err(|error| format!("the kernel does not say: {error}")).and_then(|probe| {
        let operations = [
            ("read", Read::CODE),
            ("write", Write::CODE),
            ("read-fixed", ReadFixed::CODE),
            ("write-fixed", WriteFixed::CODE),
            ("fsync", Fsync::CODE),
        ];
        let (has, lacks): (Vec<_>, Vec<_>) =
            operations.iter().partition(|(_, code)| probe.is_supported(*code));
        let names =
            |list: Vec<&(&str, u8)>| list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if lacks.is_empty() { Ok(names(has)) } else { Err(format!("lacks {}", names(lacks))) }
    });
    check("io_uring operations", found, "reads, writes and flushes go to the storage through them", URING_HOW)
}

fn check_locked_memory() -> Check {
    /// Eight mebibytes hold the buffers of 64 requests of 128 KiB.
    const WANTED_BYTES: u64 = 8 << 20;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let found = match limit {
        None => Ok("no limit".to_owned()),
        Some(bytes) if bytes >= WANTED_BYTES => Ok(format!("{} KiB", bytes >> 10)),
        Some(bytes) => Err(format!("only {} KiB", bytes >> 10)),
    };
    check(
        "locked memory limit",
        found,
        "before Linux 5.12 rings and registered buffers count against it; later kernels count registered buffers only",
        "raise it with 'ulimit -l', or LimitMEMLOCK= in a service",
    )
}

fn check_parity_instructions() -> Check {
    let (has, lacks) = parity_instructions();
    let text = match (has.is_empty(), lacks.is_empty()) {
        (_, true) => has.join(", "),
        (true, false) => format!("none of {}", lacks.join(", ")),
        (false, false) => format!("{}; not {}", has.join(", "), lacks.join(", ")),
    };
    let found = if has.contains(&"avx2") { Ok(text) } else { Err(text) };
    check(
        "parity instructions",
        found,
        "RAID 5 and 6 compute parity with the widest of them; without AVX2 or wider it takes several times as long",
        "a processor that has them; in a virtual machine, let the processor's model through (host passthrough)",
    )
}

#[cfg(target_arch = "x86_64")]
fn parity_instructions() -> (Vec<&'static str>, Vec<&'static str>) {
    let all = [
        ("ssse3", is_x86_feature_detected!("ssse3")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("gfni", is_x86_feature_detected!("gfni")),
    ];
    let pick = |wanted: bool| all.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name).collect();
    (pick(true), pick(false))
}

#[cfg(not(target_arch = "x86_64"))]
fn parity_instructions() -> (Vec<&'static str>, Vec<&'static str>) {
    (Vec::new(), vec!["ssse3", "avx2", "avx512bw", "gfni"])
}

fn check_free_space(folder: &Path) -> Check {
    /// The first-look study lays out a 1 GiB test file and six small members for each of five levels.
    const WANTED_BYTES: u64 = 4 << 30;
    let found = match rustix::fs::statvfs(folder) {
        Ok(facts) => {
            let bytes = facts.f_bavail * facts.f_frsize;
            let text = format!("{} free in {}", raidlab_units::ByteCount(bytes), folder.display());
            if bytes >= WANTED_BYTES { Ok(text) } else { Err(text) }
        }
        Err(error) => Err(format!("{} cannot be looked at: {error}", folder.display())),
    };
    check(
        "free space",
        found,
        "the first-look study lays out about 3 GiB of test files and leaves room to spare",
        "free some space, run in another folder, or give smaller sizes in the study file",
    )
}

/// The words about a kernel driver.
struct DriverText {
    why: &'static str,
    how: &'static str,
}

const MD_TEXT: DriverText = DriverText {
    why: "Linux's own software RAID is the yardstick that raidlab's arrays are compared with",
    how: "a kernel with CONFIG_BLK_DEV_MD, then 'modprobe md_mod raid456'",
};
const NBD_TEXT: DriverText = DriverText {
    why: "a raidlab array can be attached as a block device through it",
    how: "a kernel with CONFIG_BLK_DEV_NBD, then 'modprobe nbd'",
};
const UBLK_TEXT: DriverText = DriverText {
    why: "the fastest way to attach a raidlab array as a block device",
    how: "Linux 6.4 or later with CONFIG_BLK_DEV_UBLK, then 'modprobe ublk_drv'",
};

fn check_kernel_driver(name: &'static str, module: &str, sign: &str, text: &DriverText) -> Check {
    let release = kernel_release();
    let listed = |list: &str| {
        let modules = std::fs::read_to_string(format!("/lib/modules/{release}/{list}")).unwrap_or_default();
        modules.lines().any(|line| line.contains(&format!("/{module}.ko")))
    };
    let found = if Path::new(sign).exists() {
        Ok(format!("{sign} is there"))
    } else if Path::new("/sys/module").join(module).exists() || listed("modules.builtin") {
        Ok(format!("module {module} is loaded"))
    } else if listed("modules.dep") {
        Err(format!("module {module} is installed but not loaded"))
    } else {
        Err(format!("no {sign} and no module {module}"))
    };
    check(name, found, text.why, text.how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_why_and_a_missing_one_says_how() {
        let folder = tempfile::tempdir().unwrap();
        let checks = examine(folder.path());
        assert_eq!(checks.len(), 13);
        for check in &checks {
            assert!(!check.found.is_empty() && !check.why.is_empty(), "{check:?}");
            assert_eq!(check.how.is_some(), check.verdict == Verdict::Missing, "{check:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a check left a file behind");
    }

    #[test]
    fn a_folder_that_is_not_there_is_missing_direct_io_and_space() {
        let folder = Path::new("no-such-folder");
        assert_eq!(check_direct_io(folder).verdict, Verdict::Missing);
        assert_eq!(check_free_space(folder).verdict, Verdict::Missing);
    }
}
