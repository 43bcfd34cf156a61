//! Files of results: written beside their place and put there when they are whole, so that a full disk or an end in the midst leaves
//! what was there before.
//!
//! Left out: a device, a pipe, and a file in a folder that may not be written are written in place, as there is no other way.

use crate::failure::Failure;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes `content` to the file at `path`, which is made or replaced; a symbolic link to it stays one.
pub(crate) fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let content = content.as_ref();
    // Names such as /dev/stdout lead to what is open already, whatever it is.
    let is_open = path.starts_with("/dev") || path.starts_with("/proc");
    let found = std::fs::metadata(path).ok();
    if is_open || found.as_ref().is_some_and(|found| !found.is_file()) {
        return std::fs::write(path, content);
    }
    match replace(path, content, found.as_ref()) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && found.is_some() => {
            std::fs::write(path, content)
        }
        ended => ended,
    }
}

/// The same, for a verb that has nothing to add to what went wrong.
pub(crate) fn write_whole_or_fail(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_whole(path, content)
        .map_err(|error| Failure::run(error).context(format!("{} cannot be written", path.display())))
}

fn replace(path: &Path, content: &[u8], found: Option<&Metadata>) -> io::Result<()> {
    let place = if found.is_some() { path.canonicalize()? } else { path.to_owned() };
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().ok_or_else(|| io::Error::from(ErrorKind::IsADirectory))?);
    name.push(format!(".{}.part", std::process::id()));
    let part = place.with_file_name(name);
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
        write_whole(&at("a"), "one").expect("it can be made");
        std::fs::set_permissions(at("a"), PermissionsExt::from_mode(0o640)).expect("it is ours");
        symlink("a", at("link")).expect("a link can be made");
        write_whole(&at("link"), "two").expect("it can be replaced");
        assert_eq!(std::fs::read_to_string(at("a")).expect("it is there"), "two");
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::metadata(at("a")).expect("it is there").permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a", "link"]);
        assert!(write_whole(folder.path(), "x").is_err(), "a folder is no file");
        assert!(write_whole(&at("no/a"), "x").is_err());
        write_whole(Path::new("/dev/null"), "x").expect("a device is written in place");
        assert!(write_whole(Path::new("/dev/full"), "x").is_err());
    }

    #[test]
    fn what_can_not_be_written_whole_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("report");
        write_whole(&path, "good").expect("it can be made");
        // The name of the part is taken.
        let part = folder.path().join(format!(".report.{}.part", std::process::id()));
        std::fs::create_dir(&part).expect("a folder can be made");
        assert!(write_whole(&path, "bad").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "good");
    }
}
