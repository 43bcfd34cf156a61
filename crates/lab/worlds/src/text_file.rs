//! Text files of users and other programs: read whole, with an error that names the file and the reason.

use crate::foreign_text::as_text;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// What people and programs write by way of settings and figures is shorter by far; a device that never ends is not.
const BYTES_MAX: u64 = 64 << 20;

/// A file that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be read: {source}")]
pub struct TextFileError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl TextFileError {
    /// Returns what makes the error of `path` out of what the system said.
    pub fn of(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self { path: path.to_owned(), source }
    }
}

/// The text of the file at `path`.
///
/// # Errors
/// [`TextFileError`], if it is not there, may not be read, is longer than 64 MiB, or is no UTF-8.
pub fn read_text(path: &Path) -> Result<String, TextFileError> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    read_whole(path)
        .and_then(|bytes| String::from_utf8(bytes).map_err(no_text))
        .map_err(TextFileError::of(path))
}

/// The text of another program's file at `path`, unpacked; what is no character in it is replaced. `-` is standard input.
///
/// # Errors
/// [`TextFileError`], if it is not there, may not be read, is not whole, or is longer than 64 MiB.
pub fn read_foreign_text(path: &Path) -> Result<String, TextFileError> {
    let opened = if path == Path::new("-") {
        as_text(io::stdin().lock())
    } else {
        File::open(path).and_then(|file| as_text(BufReader::new(file)))
    };
    let bytes = opened.and_then(limited).map_err(TextFileError::of(path))?;
    Ok(String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned())
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    File::open(path).and_then(limited)
}

fn limited(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is longer than 64 MiB, which no such file is",
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_read_to_the_end() {
        let endless = Path::new("/dev/zero");
        for error in [read_text(endless).map(drop), read_foreign_text(endless).map(drop)] {
            let error = error.expect_err("it has no end");
            assert!(error.to_string().contains("longer than 64 MiB"), "{error}");
        }
    }

    #[test]
    fn what_is_no_text_is_told_or_replaced() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        std::fs::write(file.path(), b"a\xffb").expect("it can be written");
        let error = read_text(file.path()).expect_err("it is no UTF-8");
        assert!(error.to_string().contains("UTF-8"), "{error}");
        assert_eq!(read_foreign_text(file.path()).expect("it can be read"), "a\u{fffd}b");
    }
}
