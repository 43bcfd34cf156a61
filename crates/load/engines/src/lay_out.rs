//! Laying out a test file: every block written, so that reads reach the storage and writes find their place.
//!
//! A file that was merely extended reads as zeros that the file system invents, and a file with reserved but unwritten
//! extents pays for their conversion in the first write. So everything is written with data that neither compresses nor
//! deduplicates, made durable, and dropped from the page cache.
//!
//! The order keeps an interrupted file recognisable as raidlab's own: length and mark ("being laid out") first, then
//! the data, then the mark ("complete"); the data is durable before the last mark is written. A lay-out that fails or
//! is stopped removes its file, or empties it if the file existed before.

use crate::error::{LoadError, errno_of};
use crate::noise;
use raidlab_device::safety::{self, describe};
use raidlab_device::{TRAILER_BYTES, Trailer};
use raidlab_units::ByteCount;
use raidlab_verify::{STAMPED_SECTOR_BYTES, stamp_sectors};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of one write.
const CHUNK_BYTES: u64 = 4 << 20;
/// Data is made durable at least this often, so that a stop takes effect soon and progress is honest.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// What to lay out.
#[derive(Clone, Debug)]
pub struct LayOut {
    /// Length of the data: a multiple of 4096 above zero. The file is one block of 4096 bytes longer.
    pub bytes: ByteCount,
    /// What the data is.
    pub content: LayOutContent,
    /// Seed of the data; of stamped data, the run.
    pub seed: u64,
    /// Names an existing file whose data may be destroyed; see [`raidlab_device::safety`]. A test file that raidlab laid
    /// out, and an empty file, may always be replaced.
    pub destroy_data: Option<String>,
}

/// What the data of a test file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayOutContent {
    /// Noise.
    Noise,
    /// Sectors that say where they belong ([`raidlab_verify::stamp_sectors`]).
    Stamped {
        /// The write that they say they are of.
        sequence: u64,
    },
}

/// How far a lay-out has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayOutProgress {
    /// Written so far.
    pub written: ByteCount,
    /// To be written.
    pub total: ByteCount,
}

/// How a lay-out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaidOut {
    /// Length of the data.
    pub bytes: ByteCount,
    /// The file was there already, whole and of this size, and was left as it is.
    pub reused: bool,
}

/// Lays a test file out at `path`, or finds that it is there already.
///
/// # Errors
/// [`LoadError::NoSpace`] before anything is written where that can be known, [`LoadError::Safety`] for a file
/// with data that raidlab did not lay out, [`LoadError::Cancelled`], and what the system answers.
pub fn lay_out_file(
    path: &Path,
    order: &LayOut,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(LayOutProgress),
) -> Result<LaidOut, LoadError> {
    if order.bytes == ByteCount::ZERO || !order.bytes.get().is_multiple_of(TRAILER_BYTES) {
        return Err(LoadError::LayOutSize { path: path.into(), bytes: order.bytes });
    }
    let (file, created) = create_or_open(path)?;
    if !created {
        if is_ready(path, &file, order)? {
            return Ok(LaidOut { bytes: order.bytes, reused: true });
        }
        safety::permit_write(path, &file, order.destroy_data.as_deref())?;
    }
    let work = Work { path, file: &file, order };
    if let Err(error) = work.check_space() {
        // What was there before is untouched so far and stays.
        if created {
            work.take_away(created);
        }
        return Err(error);
    }
    let result = work.write_all(cancel, progress);
    if result.is_err() {
        work.take_away(created);
    }
    result.map(|()| LaidOut { bytes: order.bytes, reused: false })
}

fn create_or_open(path: &Path) -> Result<(File, bool), LoadError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(LoadError::io(path, "create")(error)),
    }
    let file_type = std::fs::metadata(path).map_err(LoadError::io(path, "find"))?.file_type();
    if !file_type.is_file() {
        return Err(LoadError::NotStorage { path: path.into(), kind: describe(file_type) });
    }
    let file = options.open(path).map_err(LoadError::io(path, "open"))?;
    Ok((file, false))
}

/// Whether the file is what `order` asks for already. A file with holes is not.
fn is_ready(path: &Path, file: &File, order: &LayOut) -> Result<bool, LoadError> {
    let metadata = file.metadata().map_err(LoadError::io(path, "look at"))?;
    let trailer = Trailer::read(file, metadata.len()).map_err(LoadError::io(path, "read"))?;
    let wanted = Trailer { complete: true, data_bytes: order.bytes, seed: order.seed };
    Ok(trailer == Some(wanted) && metadata.blocks() * 512 >= metadata.len())
}

/// A lay-out under way.
struct Work<'a> {
    path: &'a Path,
    file: &'a File,
    order: &'a LayOut,
}

impl Work<'_> {
    fn file_bytes(&self) -> u64 {
        self.order.bytes.get() + TRAILER_BYTES
    }

    /// What the file system has for this file: free blocks, and those the file holds already.
    fn available(&self) -> Result<ByteCount, LoadError> {
        let system = fstatvfs(self.file).map_err(LoadError::system(self.path, "find the free space for"))?;
        let held = self.file.metadata().map_err(LoadError::io(self.path, "look at"))?.blocks() * 512;
        Ok(ByteCount(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(held)))
    }

    fn no_space(&self, available: ByteCount) -> LoadError {
        LoadError::NoSpace { path: self.path.into(), needed: ByteCount(self.file_bytes()), available }
    }

    fn check_space(&self) -> Result<(), LoadError> {
        let available = self.available()?;
        if available.get() < self.file_bytes() { Err(self.no_space(available)) } else { Ok(()) }
    }

    fn write_all(
        &self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<(), LoadError> {
        let system = |op| move |error: io::Error| self.explain(op, &error);
        self.file.set_len(0).map_err(system("empty"))?;
        self.file.set_len(self.file_bytes()).map_err(system("make room for"))?;
        self.write_trailer(false)?;
        self.reserve()?;
        self.write_data(cancel, progress)?;
        self.file.sync_all().map_err(system("make durable"))?;
        self.write_trailer(true)?;
        self.file.sync_all().map_err(system("make durable"))?;
        // Reads shall come from storage; where the advice is not taken only buffered reads notice.
        if let Err(errno) = fadvise(self.file, 0, None, Advice::DontNeed) {
            tracing::debug!(%errno, path = %self.path.display(), "the page cache was not dropped");
        }
        Ok(())
    }

    /// Reserves the blocks at once: in few pieces, and with an early end where there is too little room.
    fn reserve(&self) -> Result<(), LoadError> {
        match fallocate(self.file, FallocateFlags::empty(), 0, self.file_bytes()) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
            Err(errno) => Err(self.explain("reserve room for", &errno.into())),
        }
    }

    fn write_data(
        &self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<(), LoadError> {
        let total = self.order.bytes.get();
        let mut chunk = vec![0; CHUNK_BYTES.min(total) as usize];
        let mut written = 0;
        while written < total {
            if cancel.load(Ordering::Relaxed) {
                return Err(LoadError::Cancelled { path: self.path.into() });
            }
            let part = &mut chunk[..CHUNK_BYTES.min(total - written) as usize];
            match self.order.content {
                LayOutContent::Noise => noise::fill(self.order.seed, written / 8, part),
                LayOutContent::Stamped { sequence } => {
                    let sector = written / STAMPED_SECTOR_BYTES as u64;
                    stamp_sectors(part, self.order.seed, sector, sequence);
                }
            }
            self.file.write_all_at(part, written).map_err(|error| self.explain("write", &error))?;
            let before = written;
            written += part.len() as u64;
            if before / SYNC_EVERY_BYTES != written / SYNC_EVERY_BYTES {
                self.file.sync_data().map_err(|error| self.explain("make durable", &error))?;
            }
            progress(LayOutProgress { written: ByteCount(written), total: self.order.bytes });
        }
        Ok(())
    }

    fn write_trailer(&self, complete: bool) -> Result<(), LoadError> {
        let trailer = Trailer { complete, data_bytes: self.order.bytes, seed: self.order.seed };
        self.file
            .write_all_at(&trailer.encode(), self.order.bytes.get())
            .map_err(|error| self.explain("write", &error))
    }

    /// Names what failed; a lack of space with the figures.
    fn explain(&self, op: &'static str, error: &io::Error) -> LoadError {
        match errno_of(error) {
            Errno::NOSPC | Errno::DQUOT => {
                self.available().map_or_else(|other| other, |available| self.no_space(available))
            }
            errno => LoadError::System { path: self.path.into(), op, errno },
        }
    }

    /// Gives the space back. What can't be removed stays marked as unfinished, so nothing takes it for whole.
    fn take_away(&self, created: bool) {
        let result = if created { std::fs::remove_file(self.path) } else { self.file.set_len(0) };
        if let Err(error) = result {
            tracing::warn!(%error, path = %self.path.display(), "an unfinished test file was left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Target, TargetOptions};

    #[test]
    fn a_file_that_a_power_cut_left_unfinished_is_known_and_laid_out_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let trailer = Trailer { complete: false, data_bytes: ByteCount(8192), seed: 7 };
        std::fs::write(&path, [vec![0; 8192], trailer.encode().to_vec()].concat()).unwrap();
        let buffered = TargetOptions { direct: false, ..TargetOptions::default() };
        assert!(matches!(Target::open(&path, &buffered), Err(LoadError::Unfinished { .. })));
        let again = TargetOptions { lay_out: Some(ByteCount(8192)), ..buffered };
        assert_eq!(Target::open(&path, &again).unwrap().size(), ByteCount(8192));
    }
}
