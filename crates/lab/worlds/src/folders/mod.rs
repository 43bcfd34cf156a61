//! Programs on real folders: parallel readers and Bonnie, the same programs that [`super::files`] and [`super::served`]
//! run on
//! modelled hosts.
//!
//! All files are created in a separate folder in each given folder, which is removed when the bench is dropped, also
//! after Ctrl-C; nothing else is ever removed. Free space is checked before anything is written.

mod bonnie;
mod streams;

pub use bonnie::{BonnieBench, BonnieOptions, interleaved};
pub use streams::{Cold, StreamsBench, StreamsPlan};

use super::together::Shared;
use crate::scratch::ScratchError;
use raidlab_engines::{LoadError, is_remote_uri};
use raidlab_hosts::{HostsError, Refusal};
use raidlab_units::ByteCount;
use raidlab_workload::program::BonnieError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Why a program can't be run on folders.
#[derive(Debug, thiserror::Error)]
pub enum FoldersError {
    /// A target is no folder.
    #[error("'{}' is no folder: name folders on the storage that is to be measured", .0.display())]
    NoFolder(PathBuf),
    /// The files don't fit.
    #[error(
        "no room for the files in '{}': they need {}, its file system has {} for them; use smaller files, \
         fewer streams, or another file system",
        folder.display(), needed.beside(available), available.beside(needed)
    )]
    NoRoom {
        /// A folder on the file system.
        folder: PathBuf,
        /// What all files on that file system need.
        needed: ByteCount,
        /// What it has.
        available: ByteCount,
    },
    /// Reads past the page cache need whole blocks.
    #[error("reads of {0} can't go past the page cache: make them multiples of 4096 bytes")]
    BlockNotWhole(ByteCount),
    /// A size that no file can have here.
    #[error("files of {0} are shorter than 4096 bytes, or reads are longer than 1 GiB or of nothing")]
    Size(ByteCount),
    /// The folder for the files can't be made.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A file can't be made, opened, read or written.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Bonnie can't be run on such a file.
    #[error(transparent)]
    Bonnie(#[from] BonnieError),
    /// Several hosts did not make the run together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// The caller stopped it.
    #[error("stopped before the run was over")]
    Stopped,
}

impl FoldersError {
    /// Whether the caller asked for it.
    pub const fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::Load(LoadError::Cancelled { .. }) | Self::Hosts(HostsError::Stopped { .. })
        )
    }

    /// What other ranks are told of it.
    pub fn refusal(&self) -> Refusal {
        if self.is_cancelled() { Refusal::Stopped } else { Refusal::Failed(self.to_string()) }
    }

    /// Whether what was asked for is at fault, and not the storage.
    pub fn is_input(&self) -> bool {
        match self {
            Self::NoFolder(_) | Self::BlockNotWhole(_) | Self::Size(_) | Self::Bonnie(_) => true,
            Self::Load(error) => error.is_input(),
            Self::NoRoom { .. } | Self::Scratch(_) | Self::Hosts(_) | Self::Stopped => false,
        }
    }
}

impl Shared for FoldersError {
    fn refusal(&self) -> Refusal {
        self.refusal()
    }
}

fn check_folders(folders: &[PathBuf]) -> Result<(), FoldersError> {
    match folders.iter().find(|folder| !folder.is_dir() && !is_remote_uri(folder)) {
        Some(other) => Err(FoldersError::NoFolder(other.clone())),
        None => Ok(()),
    }
}

/// Looks whether each file system has room for `needed`, which says how many bytes go into which folder.
fn check_room(needed: &[(&Path, u64)]) -> Result<(), FoldersError> {
    let mut systems: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (folder, bytes) in needed {
        let stat = rustix::fs::stat(*folder).map_err(|errno| cannot_look(folder, errno))?;
        systems.entry(stat.st_dev).or_insert((folder, 0)).1 += bytes;
    }
    for (folder, needed) in systems.into_values() {
        let system = rustix::fs::statvfs(folder).map_err(|errno| cannot_look(folder, errno))?;
        let available = system.f_bavail.saturating_mul(system.f_frsize);
        if available < needed {
            let (needed, available) = (ByteCount(needed), ByteCount(available));
            return Err(FoldersError::NoRoom { folder: folder.to_owned(), needed, available });
        }
    }
    Ok(())
}

fn cannot_look(folder: &Path, errno: rustix::io::Errno) -> LoadError {
    LoadError::System { path: folder.to_owned(), op: "look at", errno }
}

/// The names of folders as one.
fn label(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
