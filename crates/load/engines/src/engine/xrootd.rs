//! The `XRootD` engine: a thread for each request in flight, since the client's C calls block.
//!
//! The client sends the requests of all threads over one connection, so the server sees as many requests as are in
//! flight. A request goes through several locks in the client: its latency is that of a program that uses the client in this way.
//!
//! All workers share the target's open file: a server allows one open for writing per file at a time.
//!
//! **A connection that ends** fails its requests with [`FailureCause::Disconnected`].

use super::crew::{BlockingCalls, CrewEngine};
use super::{EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use crate::xrootd::{XrootdFile, is_connection_gone};
use raidlab_workload::IoOp;
use rustix::io::Errno;
use std::sync::Arc;

/// The most requests in flight of one worker: each is a thread.
const IN_FLIGHT_MAX: u32 = 256;

/// Any number of requests in flight on files of `XRootD` servers.
pub type XrootdEngine = CrewEngine<XrootdCalls>;

/// Calls on the files that targets have open.
#[derive(Debug)]
pub struct XrootdCalls(Vec<Arc<XrootdFile>>);

impl XrootdEngine {
    /// Makes threads for up to the requests of `table` on the files that `targets` have open.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`], [`LoadError::EngineUnfit`], [`LoadError::System`] without threads.
    pub fn new(targets: &[&Target], table: SlotTable, memory: IoMemory) -> Result<Self, LoadError> {
        let files = targets.iter().map(|target| target.xrootd_file()).collect::<Result<_, _>>()?;
        Self::over(XrootdCalls(files), targets[0].path(), (table, IN_FLIGHT_MAX), memory)
    }
}

impl BlockingCalls for XrootdCalls {
    const KIND: EngineKind = EngineKind::Xrootd;

    fn move_some(&self, io: &EngineIo, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let file = &self.0[io.target as usize];
        match io.op {
            IoOp::Read => file.read_once(at, buffer),
            _ => file.write_once(at, buffer),
        }
    }

    fn commit(&self, io: &EngineIo) -> Result<(), Errno> {
        self.0[io.target as usize].commit()
    }

    fn at_end(&self, _: &EngineIo, _: u64) -> Option<FailureCause> {
        Some(FailureCause::EndOfFile)
    }

    fn cause_of(&self, errno: Errno) -> FailureCause {
        if is_connection_gone(errno) { FailureCause::Disconnected } else { FailureCause::Errno(errno) }
    }
}
