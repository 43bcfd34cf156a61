//! The open files of one process, and its calls.
//!
//! Invariant: no existing file is overwritten, and only files that this process made are removed.

use super::chars::CharBuffer;
use super::{PageCaching, ProgramFiles};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::remote::{RemoteFile, is_remote_uri, open_remote};
use raidlab_units::ByteCount;
use raidlab_workload::IoOp;
use raidlab_workload::program::{FileCall, FileId};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, pread, pwrite};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Slot of the buffers that blocks are read into and written from.
const SLOT: u32 = 0;

/// The files of one process.
pub(super) struct ProcessFiles<'a> {
    files: &'a ProgramFiles,
    open: Vec<(FileId, OpenFile)>,
    /// Files that this process made, by number.
    made: Vec<bool>,
    memory: IoMemory,
}

struct OpenFile {
    place: Place,
    position: u64,
}

/// Where an open file is.
enum Place {
    Here {
        file: File,
        chars: CharBuffer,
    },
    /// On a file server; it can be read and nothing else.
    Server(Box<dyn RemoteFile>),
}

impl Place {
    /// The file here, with its characters.
    fn here(&mut self) -> Result<(&File, &mut CharBuffer), Errno> {
        match self {
            Self::Here { file, chars } => Ok((file, chars)),
            Self::Server(_) => Err(Errno::OPNOTSUPP),
        }
    }
}

impl<'a> ProcessFiles<'a> {
    /// The table of process number `process`, with buffers for its blocks.
    pub(super) fn new(files: &'a ProgramFiles, process: u32) -> Result<Self, LoadError> {
        let block = u32::try_from(files.block.get()).unwrap_or(u32::MAX);
        let memory = IoMemory::new(1, block, &[IoOp::Read, IoOp::Write], files.seed + u64::from(process))?;
        Ok(Self { files, open: Vec::with_capacity(1), made: vec![false; files.paths.len()], memory })
    }

    /// Does a call and returns the bytes that it moved.
    pub(super) fn call(&mut self, call: FileCall) -> Result<u64, LoadError> {
        match call {
            FileCall::Open { file, create } => self.open(file, create),
            FileCall::Close { file } => self.close(file),
            FileCall::Seek { file, offset } => {
                self.opened(file).1.position = offset;
                Ok(0)
            }
            FileCall::Read { file, bytes } => self.read(file, bytes),
            FileCall::Write { file, bytes } => self.write(file, bytes),
            FileCall::ReadAt { file, offset, bytes } => {
                self.opened(file).1.position = offset;
                self.read(file, bytes)
            }
            FileCall::WriteAt { file, offset, bytes } => {
                self.opened(file).1.position = offset;
                self.write(file, bytes)
            }
            FileCall::GetChars { file, bytes } => self.get_chars(file, bytes),
            FileCall::PutChars { file, bytes } => self.put_chars(file, bytes),
            FileCall::Sync { file } => self.sync(file),
            FileCall::Stat { file } => {
                let path = self.path(file);
                std::fs::metadata(path).map_err(LoadError::io(path, "look at"))?;
                Ok(0)
            }
            FileCall::Delete { file } => self.delete(file),
            FileCall::Sleep { .. } => unreachable!("whoever runs the process sleeps"),
        }
    }

    fn path(&self, FileId(file): FileId) -> &'a Path {
        &self.files.paths[file as usize]
    }

    /// The path and the state of an open file. A program that uses one which is not open is at fault itself.
    fn opened(&mut self, file: FileId) -> (&'a Path, &mut OpenFile) {
        let path = self.path(file);
        let found = self.open.iter_mut().find(|(id, _)| *id == file);
        (path, &mut found.expect("programs open files before they use them").1)
    }

    fn open(&mut self, file: FileId, create: bool) -> Result<u64, LoadError> {
        let path = self.path(file);
        if is_remote_uri(path) && !create {
            let failed = |source| LoadError::Remote { path: path.into(), source };
            let place = Place::Server(open_remote(path, self.files.may_write).map_err(failed)?);
            self.open.push((file, OpenFile { place, position: 0 }));
            return Ok(0);
        }
        if create && self.made[file.0 as usize] {
            self.delete(file)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(create || self.files.may_write).create_new(create);
        if self.files.caching == PageCaching::Direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        let opened = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL) if self.files.caching == PageCaching::Direct => {
                LoadError::DirectRefused { path: path.into() }
            }
            _ => LoadError::io(path, if create { "create" } else { "open" })(error),
        })?;
        self.made[file.0 as usize] |= create;
        let chars = CharBuffer::of(&opened);
        self.open.push((file, OpenFile { place: Place::Here { file: opened, chars }, position: 0 }));
        Ok(0)
    }

    fn close(&mut self, file: FileId) -> Result<u64, LoadError> {
        let drops = self.files.caching == PageCaching::DroppedAtClose;
        let (path, open) = self.opened(file);
        if let Place::Here { file, chars } = &mut open.place {
            chars.flush(file).map_err(LoadError::system(path, "write"))?;
            if drops {
                // Where the advice is not taken the next reading of it is warm, which only holds the load up less.
                let _ = fadvise(file, 0, None, Advice::DontNeed);
            }
        }
        self.open.retain(|(id, _)| *id != file);
        Ok(0)
    }

    fn read(&mut self, file: FileId, bytes: u64) -> Result<u64, LoadError> {
        let end = self.files.length.unwrap_or(ByteCount(u64::MAX)).get();
        let path = self.path(file);
        let (_, open) = self.open.iter_mut().find(|(id, _)| *id == file).expect("programs open files first");
        let wanted = bytes.min(end.saturating_sub(open.position));
        let buffer = self.memory.buffer(IoOp::Read, SLOT, wanted as u32);
        let read = match &mut open.place {
            Place::Here { file, .. } => loop {
                match pread(&*file, &mut *buffer, open.position) {
                    Err(Errno::INTR) => {}
                    ended => break ended.map_err(LoadError::system(path, "read"))?,
                }
            },
            Place::Server(file) => file
                .read_at(open.position, buffer)
                .map_err(|source| LoadError::Remote { path: path.into(), source })?,
        };
        open.position += read as u64;
        Ok(read as u64)
    }

    fn write(&mut self, file: FileId, bytes: u64) -> Result<u64, LoadError> {
        let path = self.path(file);
        self.memory.stamp(SLOT, bytes as u32);
        let (_, open) = self.open.iter_mut().find(|(id, _)| *id == file).expect("programs open files first");
        let mut rest = &*self.memory.buffer(IoOp::Write, SLOT, bytes as u32);
        let (file, _) = open.place.here().map_err(LoadError::system(path, "write"))?;
        while !rest.is_empty() {
            match pwrite(file, rest, open.position) {
                Ok(0) => return Err(LoadError::system(path, "write")(Errno::IO)),
                Ok(written) => {
                    open.position += written as u64;
                    rest = &rest[written..];
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(LoadError::system(path, "write")(errno)),
            }
        }
        Ok(bytes)
    }

    fn put_chars(&mut self, file: FileId, bytes: u64) -> Result<u64, LoadError> {
        let path = self.path(file);
        self.memory.stamp(SLOT, bytes as u32);
        let (_, open) = self.open.iter_mut().find(|(id, _)| *id == file).expect("programs open files first");
        let (file, chars) = open.place.here().map_err(LoadError::system(path, "write"))?;
        for character in &*self.memory.buffer(IoOp::Write, SLOT, bytes as u32) {
            chars.put(file, *character).map_err(LoadError::system(path, "write"))?;
        }
        open.position += bytes;
        Ok(bytes)
    }

    fn get_chars(&mut self, file: FileId, bytes: u64) -> Result<u64, LoadError> {
        let (path, open) = self.opened(file);
        let (mut got, mut sum) = (0, 0_u64);
        let (file, chars) = open.place.here().map_err(LoadError::system(path, "read"))?;
        while got < bytes {
            let Some(character) = chars.get(file).map_err(LoadError::system(path, "read"))? else {
                break;
            };
            sum = sum.wrapping_add(u64::from(character));
            got += 1;
        }
        // What is got has to be used, or the compiler would not get it.
        std::hint::black_box(sum);
        open.position += got;
        Ok(got)
    }

    fn sync(&mut self, file: FileId) -> Result<u64, LoadError> {
        let (path, open) = self.opened(file);
        let (file, chars) = open.place.here().map_err(LoadError::system(path, "write"))?;
        chars.flush(file).map_err(LoadError::system(path, "write"))?;
        file.sync_all().map_err(LoadError::io(path, "make durable"))?;
        Ok(0)
    }

    fn delete(&mut self, file: FileId) -> Result<u64, LoadError> {
        let path = self.path(file);
        assert!(self.made[file.0 as usize], "only what this process made is taken away");
        std::fs::remove_file(path).map_err(LoadError::io(path, "remove"))?;
        self.made[file.0 as usize] = false;
        Ok(0)
    }
}
