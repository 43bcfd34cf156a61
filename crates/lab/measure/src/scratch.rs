//! Folders that a study creates for its files and removes again.

use std::io;
use std::path::{Path, PathBuf};

/// Why a scratch folder can't be made.
#[derive(Debug, thiserror::Error)]
#[error("the folder {} cannot be made: {source}; {}", path.display(), advice(source))]
pub struct ScratchError {
    /// The folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "run in a folder that you can write to, or name another one"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or name another place",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in its way: name another place"
        }
        _ => "name another place",
    }
}

/// The folders that were made for one target, outermost first. Dropping it removes those that are empty by then;
/// folders that were there before are never touched.
#[derive(Debug)]
pub(crate) struct ScratchFolder {
    made: Vec<PathBuf>,
}

impl ScratchFolder {
    /// Makes `folder` and what is missing above it.
    pub(crate) fn make(folder: &Path) -> Result<Self, ScratchError> {
        let missing = folder.ancestors().filter(|place| !place.as_os_str().is_empty() && !place.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let scratch = Self { made };
        std::fs::create_dir_all(folder).map_err(|source| ScratchError { path: folder.to_owned(), source })?;
        Ok(scratch)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // A folder that is not empty holds what somebody kept or put there, so it stays.
            if let Err(error) = std::fs::remove_dir(folder) {
                tracing::debug!(folder = %folder.display(), %error, "a scratch folder stays");
                return;
            }
        }
    }
}

/// The folders of several targets. Those made last are removed first, because they may lie in those made before.
#[derive(Debug, Default)]
pub struct ScratchFolders {
    of_targets: Vec<ScratchFolder>,
}

impl ScratchFolders {
    /// Makes `folder` and what is missing above it; one that is there is left as it is.
    ///
    /// # Errors
    /// [`ScratchError`] if it can't be made.
    pub fn make(&mut self, folder: &Path) -> Result<(), ScratchError> {
        self.of_targets.push(ScratchFolder::make(folder)?);
        Ok(())
    }
}

impl Drop for ScratchFolders {
    fn drop(&mut self) {
        while self.of_targets.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_and_is_empty_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let there = root.path().join("there");
        std::fs::create_dir(&there).unwrap();
        for (keep_file, left) in [(false, "there"), (true, "there/a/b")] {
            let folder = there.join("a/b");
            let scratch = ScratchFolder::make(&folder).unwrap();
            assert!(folder.is_dir());
            if keep_file {
                std::fs::write(folder.join("kept"), "").unwrap();
            }
            drop(scratch);
            assert!(root.path().join(left).is_dir());
            assert_eq!(folder.exists(), keep_file);
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = ScratchFolder::make(&file.join("folder")).unwrap_err();
        assert!(error.to_string().contains("a file is in its way"), "{error}");
    }
}
