//! Results files: written elsewhere and moved into place when complete, so that a full disk or an interruption leaves
//! the previous file.
//!
//! An existing file is replaced only if it is empty, a page of raidlab's own, or identical; others need `--overwrite`.
//!
//! Left out: a device, a pipe, and a file in a read-only folder are written in place, as there is no other way.

use crate::failure::Failure;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What stands at the end of every page, and tells that raidlab wrote it.
const MARK_OF_PAGES: &[u8] = b"<p>Written by raidlab ";

/// Whether `--overwrite` was given: one answer for the whole process.
static MAY_OVERWRITE: AtomicBool = AtomicBool::new(false);

/// Lets any file be replaced from now on.
pub(crate) fn allow_overwriting() {
    MAY_OVERWRITE.store(true, Ordering::Relaxed);
}

/// Writes `content` to the file at `path`, which is made or replaced; a symbolic link to it stays one.
///
/// # Errors
/// Bad input if the file is somebody's.
pub(crate) fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    check_free_for(path, content.as_ref())?;
    rewrite(path, content.as_ref())
}

/// Refuses a file that `content` would destroy; one that is the same is none.
pub(crate) fn check_free_for(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let is_same = is_file(path) && std::fs::read(path).is_ok_and(|found| found == content);
    if is_same { Ok(()) } else { check_free(path) }
}

/// Has `make` write a new file, which becomes the one at `path` when it is whole.
///
/// # Errors
/// Bad input if the file at `path` is somebody's; that of `make`, which leaves no file then.
pub(crate) fn made_whole<T>(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_free(path)?;
    if !is_file(path) {
        return make(path);
    }
    let place = path.canonicalize().map_err(|error| cannot_write(path, error))?;
    let part = part_of(&place).map_err(|error| cannot_write(path, error))?;
    let made = make(&part)?;
    std::fs::rename(&part, &place).map_err(|error| cannot_write(path, error))?;
    Ok(made)
}

/// Where a file is written until it is whole.
fn part_of(place: &Path) -> io::Result<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().ok_or_else(|| io::Error::from(ErrorKind::IsADirectory))?);
    name.push(format!(".{}.part", std::process::id()));
    Ok(place.with_file_name(name))
}

/// Writes `content` to a file that the user named to be changed.
pub(crate) fn rewrite(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write(path, content).map_err(|error| cannot_write(path, error))
}

/// Finds out before the work whether its result can be written after it.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    check_free(path)?;
    let existed = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened
        .and_then(|_| if existed { Ok(()) } else { std::fs::remove_file(path) })
        .map_err(|error| cannot_write(path, error))
}

/// Refuses a file that a result would destroy.
pub(crate) fn check_free(path: &Path) -> Result<(), Failure> {
    let holds_data = is_file(path) && std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    if !holds_data || MAY_OVERWRITE.load(Ordering::Relaxed) || is_own_page(path) {
        return Ok(());
    }
    // Only pages say who wrote them.
    let is_page = path.extension().is_some_and(|end| end == "html");
    let what = if is_page { ", and is not a page that raidlab wrote" } else { "" };
    let problem = anyhow::anyhow!("{} is there already{what}", path.display());
    Err(Failure::input(problem).with_hint("name another file; --overwrite replaces it"))
}

/// Says of any file of results why it could not be written.
pub(crate) fn cannot_write(path: &Path, error: io::Error) -> Failure {
    let is_no_place =
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory);
    let failure = if is_no_place { Failure::input(error) } else { Failure::run(error) };
    failure
        .context(format!("{} cannot be written", path.display()))
        .with_hint("name a file in a folder that exists, that you can write to, and that has room")
}

fn is_own_page(path: &Path) -> bool {
    let holds_mark = |text: Vec<u8>| text.windows(MARK_OF_PAGES.len()).any(|part| part == MARK_OF_PAGES);
    std::fs::read(path).is_ok_and(holds_mark)
}

/// Whether it is a file that is not open already; reading a pipe would wait, and take from it.
fn is_file(path: &Path) -> bool {
    !is_open_already(path) && path.is_file()
}

/// Names such as /dev/stdout lead to what is open already, whatever it is.
fn is_open_already(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let found = std::fs::metadata(path).ok();
    if is_open_already(path) || found.as_ref().is_some_and(|found| !found.is_file()) {
        return std::fs::write(path, content);
    }
    match replace(path, content, found.as_ref()) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && found.is_some() => {
            std::fs::write(path, content)
        }
        ended => ended,
    }
}

fn replace(path: &Path, content: &[u8], found: Option<&Metadata>) -> io::Result<()> {
    let place = if found.is_some() { path.canonicalize()? } else { path.to_owned() };
    let part = part_of(&place)?;
    let mut file = File::create_new(&part)?;
    let permit = |file: &File| found.map_or(Ok(()), |found| file.set_permissions(found.permissions()));
    let written = file
        .write_all(content)
        .and_then(|()| permit(&file))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&part, &place));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_or_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let at = |name: &str| folder.path().join(name);
        write(&at("a"), b"one").expect("it can be made");
        std::fs::set_permissions(at("a"), PermissionsExt::from_mode(0o640)).expect("it is ours");
        symlink("a", at("link")).expect("a link can be made");
        write(&at("link"), b"two").expect("it can be replaced");
        assert_eq!(std::fs::read_to_string(at("a")).expect("it is there"), "two");
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::metadata(at("a")).expect("it is there").permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a", "link"]);
        assert!(write(folder.path(), b"x").is_err(), "a folder is no file");
        assert!(write(&at("no/a"), b"x").is_err());
        write(Path::new("/dev/null"), b"x").expect("a device is written in place");
        assert!(write(Path::new("/dev/full"), b"x").is_err());
    }

    #[test]
    fn what_can_not_be_written_whole_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("report");
        write(&path, b"good").expect("it can be made");
        // The name of the part is taken.
        let part = folder.path().join(format!(".report.{}.part", std::process::id()));
        std::fs::create_dir(&part).expect("a folder can be made");
        assert!(write(&path, b"bad").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "good");
    }
}
