//! The engine for folders of sample files: each is opened when its first byte is read and closed after its last, as a loader of training
//! data does it. A thread for each request in flight.
//!
//! The target's offsets are those of [`SampleFiles`](raidlab_workload::SampleFiles): file number `n` begins at `n` strides. A direct read of
//! whole blocks may end with its file, which is no failure.

use super::crew::{BlockingCalls, CrewEngine};
use super::{EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::samples::SampleFolder;
use crate::target::Target;
use rustix::io::{Errno, pread};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// The most requests in flight of one worker: each is a thread.
const IN_FLIGHT_MAX: u32 = 1024;

/// Requests on the files of folders.
pub type FilesEngine = CrewEngine<FileCalls>;

/// Calls on the files of folders.
#[derive(Debug)]
pub struct FileCalls {
    folders: Vec<Arc<SampleFolder>>,
    /// The files that are open, by target and number.
    open: Mutex<BTreeMap<(u32, u64), Arc<File>>>,
}

impl FilesEngine {
    /// Makes threads for up to the requests of `table` on the folders of `targets`.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`], [`LoadError::EngineUnfit`], [`LoadError::System`] without threads.
    pub fn new(targets: &[&Target], table: SlotTable, memory: IoMemory) -> Result<Self, LoadError> {
        let folders = targets.iter().map(|target| target.sample_folder()).collect::<Result<_, _>>()?;
        let calls = FileCalls { folders, open: Mutex::new(BTreeMap::new()) };
        Self::over(calls, targets[0].path(), (table, IN_FLIGHT_MAX), memory)
    }
}

impl FileCalls {
    /// The file with `number`, which is opened if it is not.
    fn file(&self, target: u32, number: u64) -> Result<Arc<File>, Errno> {
        let opened = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = opened().get(&(target, number)) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.folders[target as usize].open_file(number)?);
        Ok(Arc::clone(opened().entry((target, number)).or_insert(file)))
    }
}

impl BlockingCalls for FileCalls {
    const KIND: EngineKind = EngineKind::Files;

    fn move_some(&self, io: &EngineIo, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let files = self.folders[io.target as usize].files();
        let (number, within) = (at / files.stride_bytes, at % files.stride_bytes);
        let length = files.lengths.get(number as usize).copied().unwrap_or(0);
        let moved = pread(&*self.file(io.target, number)?, &mut *buffer, within)?;
        if within + moved as u64 >= length {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&(io.target, number));
        }
        Ok(moved)
    }

    /// Nothing is written.
    fn commit(&self, _: &EngineIo) -> Result<(), Errno> {
        Ok(())
    }

    fn at_end(&self, io: &EngineIo, at: u64) -> Option<FailureCause> {
        let files = self.folders[io.target as usize].files();
        let length = files.lengths.get((at / files.stride_bytes) as usize).copied().unwrap_or(0);
        let is_short = at > io.offset_bytes && at % files.stride_bytes >= length;
        (!is_short).then_some(FailureCause::EndOfFile)
    }
}
