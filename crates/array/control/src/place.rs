//! Where control sockets are: one folder per user, one socket per array, named after it.
//!
//! root uses `/run/raidlab`, others `$XDG_RUNTIME_DIR/raidlab`, or their own folder below the temporary one. The folder
//! must belong to the user and be closed to others, else it is refused: nobody can put a socket where an operator looks
//! for an array.

use crate::error::ServeError;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Ending of control sockets.
const ENDING: &str = "sock";

/// The folder of this user's control sockets; it may not be there yet.
pub fn run_folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/raidlab");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Path::new(&folder).join("raidlab"),
        None => std::env::temp_dir().join(format!("raidlab-{}", user.as_raw())),
    }
}

/// The control socket of the array `name`. A name with a slash is a path already.
pub fn control_socket(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { run_folder().join(format!("{name}.{ENDING}")) }
}

/// Control sockets in this user's folder, in order of their names. An array that was killed may have left its own.
pub fn served() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run_folder()).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    let mut sockets: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    sockets.sort();
    sockets
}

/// Makes the folder that a control socket goes to, if it is this user's own; any other must be there already.
///
/// # Errors
/// [`ServeError`]: the system's refusal, or a folder that others may write to.
pub(crate) fn prepare_folder(socket: &Path) -> Result<(), ServeError> {
    let Some(folder) = socket.parent().filter(|folder| *folder == run_folder()) else { return Ok(()) };
    let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
    made.map_err(ServeError::io("make the folder", folder))?;
    let facts = std::fs::symlink_metadata(folder).map_err(ServeError::io("look at", folder))?;
    let is_ours = facts.is_dir() && facts.uid() == rustix::process::geteuid().as_raw();
    if is_ours && facts.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(ServeError::UnsafeFolder { path: folder.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_socket_in_the_folder_and_a_path_is_itself() {
        assert_eq!(control_socket("a0"), run_folder().join("a0.sock"));
        assert_eq!(control_socket("./a0.sock"), Path::new("./a0.sock"));
    }
}
