//! Which pages of files are in the page cache, and dropping them from it.
//!
//! | how | what |
//! |---|---|
//! | drop | all of the system's clean pages, folders and inodes, by `/proc/sys/vm/drop_caches`; takes root |
//! | advise | the pages of the files, by `posix_fadvise(DONTNEED)` after they are made durable |
//!
//! Neither is guaranteed: pages that are mapped or under I/O stay. So [`cached_share`] asks `mincore` about every page,
//! which reads nothing in. Left out: caches below the page cache, those of controllers and drives.
#![allow(unsafe_code)]

use crate::error::LoadError;
use rustix::fs::{Access, Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What of a file is looked at at once.
const PIECE_BYTES: u64 = 1 << 30;
/// The switch of the kernel.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Whether this process may drop all: as root, where the system lets its parameters be changed.
pub fn may_drop_all() -> bool {
    rustix::fs::access(DROP_CACHES, Access::WRITE_OK).is_ok()
}

/// Drops all that the system keeps of files and can drop.
///
/// # Errors
/// [`LoadError::System`]: it takes root, and a system that lets its parameters be written to.
pub fn drop_all() -> Result<(), LoadError> {
    // What is dirty can't be dropped.
    rustix::fs::sync();
    std::fs::write(DROP_CACHES, "3").map_err(LoadError::io(Path::new(DROP_CACHES), "write to"))
}

/// Asks the system to drop what it keeps of the files at `paths`.
///
/// # Errors
/// [`LoadError::System`] if one can't be opened, made durable, or the system has no such advice.
pub fn advise_away(paths: &[PathBuf]) -> Result<(), LoadError> {
    for path in paths {
        let file = File::open(path).map_err(LoadError::io(path, "open"))?;
        file.sync_data().map_err(LoadError::io(path, "make durable"))?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(LoadError::system(path, "drop the pages of"))?;
    }
    Ok(())
}

/// The share of the pages of all files at `paths` that are in memory, from 0 to 1; none where the system does not tell.
pub fn cached_share(paths: &[PathBuf]) -> Option<f64> {
    let (mut cached, mut pages) = (0, 0);
    for path in paths {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut offset = 0;
        while offset < length {
            let piece = PIECE_BYTES.min(length - offset);
            let (here, all) = cached_pages(&file, offset, piece as usize)?;
            (cached, pages, offset) = (cached + here, pages + all, offset + piece);
        }
    }
    (pages > 0).then(|| cached as f64 / pages as f64)
}

/// Pages in memory, and pages, of `bytes` of `file` from `offset` on, which is a multiple of the length of a page.
fn cached_pages(file: &File, offset: u64, bytes: usize) -> Option<(usize, usize)> {
    let mut answer = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
    // SAFETY: a fresh mapping at an address of the kernel's choice, which nobody reads or writes through.
    let start = unsafe {
        mmap(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, file, offset).ok()?
    };
    // SAFETY: the range is the mapping just made, and `answer` has a byte for each page of it.
    let told = unsafe { libc::mincore(start, bytes, answer.as_mut_ptr()) };
    // SAFETY: the mapping was made above with this length, and nothing refers to it.
    let unmapped = unsafe { munmap(start, bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    (told == 0).then(|| (answer.iter().filter(|page| *page & 1 == 1).count(), answer.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_warm_when_written_and_cold_when_dropped() {
        // Not in memory, where nothing can be dropped.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let paths = [folder.path().join("a"), folder.path().join("b")];
        for path in &paths {
            std::fs::write(path, vec![7; 300_000]).unwrap();
        }
        assert_eq!(cached_share(&paths), Some(1.0));
        advise_away(&paths[..1]).unwrap();
        assert_eq!(cached_share(&paths[..1]), Some(0.0));
        assert_eq!(cached_share(&paths), Some(0.5));
        assert_eq!(cached_share(&[]), None);
        assert!(advise_away(&[folder.path().join("c")]).is_err());
    }
}
