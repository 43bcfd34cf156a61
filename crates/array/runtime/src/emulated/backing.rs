//! The bytes of an emulated volume: in memory, or in a file that grows as it is written.
//!
//! An existing file is used as it is, with the data of an earlier emulation. It is locked while it is used. Both are
//! sparse.

use crate::device::with_patience;
use raidlab_units::ByteCount;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The bytes behind an emulated volume.
#[derive(Debug)]
pub struct Backing {
    file: File,
    bytes: ByteCount,
    is_durable: bool,
}

/// Why there is nowhere to put them.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    /// The system refused.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a regular file.
    #[error("{} is no regular file: name a file, which is made if it is not there", path.display())]
    NoFile {
        /// What it is not.
        path: PathBuf,
    },
    /// Another process has it.
    #[error("{} is in use: stop what uses it, or name another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is of another length than the volume.
    #[error(
        "{} holds {}, and the volume has {}: name a file that is not there yet",
        path.display(), found.beside(wanted), wanted.beside(found)
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: ByteCount,
        /// The volume's.
        wanted: ByteCount,
    },
    /// It holds data, which clients may overwrite.
    #[error(
        "{} holds data, which whoever uses the emulated volume sees and may overwrite: allow it with --destroy-data {}",
        path.display(), path.display()
    )]
    HoldsData {
        /// The file.
        path: PathBuf,
    },
}

impl Backing {
    /// Bytes in memory, gone when the emulation ends.
    ///
    /// # Errors
    /// [`BackingError::Io`] if the system has none.
    pub fn in_memory(bytes: ByteCount) -> Result<Self, BackingError> {
        let refused =
            |source: io::Error| BackingError::Io { doing: "make", path: "a file in memory".into(), source };
        let file =
            memfd_create("raidlab-emulate", MemfdFlags::CLOEXEC).map_err(|errno| refused(errno.into()))?;
        let file = File::from(file);
        file.set_len(bytes.get()).map_err(refused)?;
        Ok(Self { file, bytes, is_durable: false })
    }

    /// Bytes in the file at `path`, which is made if it is not there. One that is not empty is used only if `may_overwrite`.
    ///
    /// # Errors
    /// [`BackingError`] if the file can't be used.
    pub fn in_file(path: &Path, bytes: ByteCount, may_overwrite: bool) -> Result<Self, BackingError> {
        let refused = |doing| move |source| BackingError::Io { doing, path: path.to_owned(), source };
        // A folder or a device is not opened for writing at all.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(BackingError::NoFile { path: path.to_owned() });
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(refused("open"))?;
        let lock = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        with_patience(lock, |errno| *errno == Errno::WOULDBLOCK).map_err(|errno| match errno {
            Errno::WOULDBLOCK => BackingError::InUse { path: path.to_owned() },
            other => refused("lock")(other.into()),
        })?;
        let found = file.metadata().map_err(refused("look at"))?;
        if found.len() == 0 {
            file.set_len(bytes.get()).map_err(refused("lengthen"))?;
        } else if found.len() != bytes.get() {
            let found = ByteCount(found.len());
            return Err(BackingError::Length { path: path.to_owned(), found, wanted: bytes });
        } else if !may_overwrite {
            return Err(BackingError::HoldsData { path: path.to_owned() });
        }
        Ok(Self { file, bytes, is_durable: true })
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    pub(super) const fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Whether there is anything to make durable.
    pub(super) const fn is_durable(&self) -> bool {
        self.is_durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_data_is_used_only_when_that_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bytes");
        let bytes = ByteCount::from_mib(1);
        drop(Backing::in_file(&path, bytes, false).expect("it is made"));
        let again = Backing::in_file(&path, bytes, false);
        assert!(matches!(again, Err(BackingError::HoldsData { .. })), "a sparse file is somebody's, too");
        std::fs::write(&path, vec![7; 1 << 20]).expect("it can be written");
        assert!(matches!(Backing::in_file(&path, bytes, false), Err(BackingError::HoldsData { .. })));
        assert!(matches!(Backing::in_file(&path, ByteCount(512), true), Err(BackingError::Length { .. })));
        let used = Backing::in_file(&path, bytes, true).expect("it is allowed");
        assert_eq!(std::fs::read(&path).expect("it is there"), vec![7; 1 << 20], "it is left as it is");
        assert!(matches!(Backing::in_file(&path, bytes, true), Err(BackingError::InUse { .. })));
        drop(used);
        assert!(matches!(Backing::in_file(folder.path(), bytes, true), Err(BackingError::NoFile { .. })));
    }
}
