//! Characters by `putc` and `getc`: one call for each, through a buffer of the length that the file system prefers.
//!
//! The C library does the same with a file: `putc` puts a character into a buffer, which is written when it is full. It
//! stays a function call, as there: its processor cost is what these phases measure.

use rustix::io::{Errno, read, write};
use std::fs::File;

/// A buffer between characters and a file; empty, full of what was read, or full of what is to be written.
#[derive(Debug, Default)]
pub(super) struct CharBuffer {
    bytes: Vec<u8>,
    /// Next character to be taken; of what was read.
    at: usize,
    /// Length that is read or written at once.
    length: usize,
    holds_writes: bool,
}

impl CharBuffer {
    /// A buffer for `file`, as long as its file system asks for.
    pub(super) fn of(file: &File) -> Self {
        const USUAL: usize = 4096;
        let preferred = rustix::fs::fstat(file).map_or(USUAL, |stat| stat.st_blksize as usize);
        let length = preferred.clamp(512, 1 << 20);
        Self { bytes: Vec::with_capacity(length), at: 0, length, holds_writes: false }
    }

    /// Puts a character in, and writes the buffer out when that fills it.
    #[inline(never)]
    pub(super) fn put(&mut self, file: &File, character: u8) -> Result<(), Errno> {
        self.holds_writes = true;
        self.bytes.push(character);
        if self.bytes.len() == self.length { self.flush(file) } else { Ok(()) }
    }

    /// Takes the next character; none at the end of the file.
    #[inline(never)]
    pub(super) fn get(&mut self, file: &File) -> Result<Option<u8>, Errno> {
        if self.at == self.bytes.len() {
            self.fill(file)?;
        }
        let character = self.bytes.get(self.at).copied();
        self.at += usize::from(character.is_some());
        Ok(character)
    }

    fn fill(&mut self, file: &File) -> Result<(), Errno> {
        self.bytes.resize(self.length, 0);
        let read = loop {
            match read(file, &mut self.bytes[..]) {
                Err(Errno::INTR) => {}
                ended => break ended?,
            }
        };
        self.bytes.truncate(read);
        self.at = 0;
        Ok(())
    }

    /// Writes out what was put in.
    pub(super) fn flush(&mut self, file: &File) -> Result<(), Errno> {
        if !self.holds_writes {
            return Ok(());
        }
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            match write(file, rest) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.bytes.clear();
        self.holds_writes = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    #[test]
    fn what_is_put_is_what_is_got() {
        let mut file = tempfile::tempfile().unwrap();
        let characters: Vec<u8> = (0..10_000_u32).map(|n| (n * n % 251) as u8).collect();
        let mut buffer = CharBuffer::of(&file);
        for character in &characters {
            buffer.put(&file, *character).unwrap();
        }
        let before = file.metadata().unwrap().len();
        assert!(before < 10_000 && before.is_multiple_of(buffer.length as u64), "{before} by whole buffers");
        buffer.flush(&file).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut buffer = CharBuffer::of(&file);
        let mut got = Vec::new();
        while let Some(character) = buffer.get(&file).unwrap() {
            got.push(character);
        }
        assert_eq!(got, characters);
        assert_eq!(buffer.get(&file).unwrap(), None, "the end stays the end");
    }
}
