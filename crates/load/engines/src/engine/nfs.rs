//! The NFS engine: a connection for each target, with any number of calls under way on each, served by this thread.
//!
//! Calls are sent and received when [`Engine::flush`] and [`Engine::reap`] serve the sockets. A call has at most the
//! server's maximum (`rsize`, `wsize`, 1 MiB); the rest of a request follows when it has ended. A flush is a COMMIT.
//!
//! **A connection that ends** fails its requests with [`FailureCause::Disconnected`]; libnfs does not reconnect here.
//!
//! Invariant: files are dropped before the calls and the memory that libnfs may still touch.
#![allow(unsafe_code)]

use super::in_flight::{InFlight, told_by_in_flight};
use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::nfs::{Call, CallEnd, NfsFile, errno_of};
use crate::target::Target;
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::RefCell;
use std::rc::Rc;

/// What writes over NFS 4 suffer from with libnfs 4.
const SHORT_WRITES_NOTE: &str = "writes went in pieces of 3 KiB, which is all that libnfs 4 has room for over NFS 4: their \
figures say little, use libnfs 5 (libnfs14) or version=3";
/// The most requests in flight on one connection.
const IODEPTH_MAX: u32 = 1024;

/// A slot's request: what of it has moved, and what its call asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    moved: u32,
    asked: u64,
}

/// Any number of requests in flight on files of NFS servers.
#[derive(Debug)]
pub struct NfsEngine {
    // The order matters: what ends the calls goes first, then what they report to, then what they move.
    links: Vec<NfsFile>,
    calls: Box<[Call]>,
    ended: Rc<RefCell<Vec<CallEnd>>>,
    in_flight: InFlight,
    progress: Vec<Progress>,
    taken: Vec<CallEnd>,
    short_transfers: u64,
    notes: Vec<String>,
}

impl NfsEngine {
    /// Opens each target over a connection of its own, for up to the requests of `table`.
    ///
    /// # Errors
    /// [`LoadError::Remote`] for a file that can't be opened, [`LoadError::Iodepth`].
    pub fn new(targets: &[&Target], table: SlotTable, memory: IoMemory) -> Result<Self, LoadError> {
        let in_flight = InFlight::new(EngineKind::Nfs, table, IODEPTH_MAX, memory)?;
        let links = targets.iter().map(|target| target.connect_nfs()).collect::<Result<_, _>>()?;
        let ended = Rc::new(RefCell::new(Vec::with_capacity(table.slots())));
        Ok(Self {
            links,
            calls: (0..table.slots() as u32).map(|slot| Call::new(slot, &ended)).collect(),
            ended,
            in_flight,
            progress: vec![Progress::default(); table.slots()],
            taken: Vec::with_capacity(table.slots()),
            short_transfers: 0,
            notes: Vec::new(),
        })
    }

    /// Begins the rest of a request.
    fn begin(&mut self, slot: u32) {
        let EngineIo { op, offset_bytes, bytes, target, .. } = self.in_flight.io(slot);
        let link = &self.links[target as usize];
        if link.is_broken() {
            return self.in_flight.end(slot, Some(FailureCause::Disconnected));
        }
        if op.is_flush() {
            // SAFETY: the call stays until the file is gone, as the fields are ordered.
            if !unsafe { link.begin_commit(&self.calls[slot as usize]) } {
                self.in_flight.end(slot, Some(FailureCause::Errno(Errno::NOMEM)));
            }
            return;
        }
        let (call, moved) = (&self.calls[slot as usize], self.progress[slot as usize].moved);
        let (offset, rest) = (offset_bytes + u64::from(moved), u64::from(bytes - moved));
        let buffer = self.in_flight.bytes_of(slot)[moved as usize..].as_mut_ptr();
        // SAFETY: the buffer has `rest` bytes; it and the call stay until the file is gone, as the fields are ordered.
        let asked = unsafe {
            match op {
                IoOp::Read => link.begin_read(call, offset, rest, buffer),
                _ => link.begin_write(call, offset, rest, buffer),
            }
        };
        match asked {
            Some(asked) => self.progress[slot as usize].asked = asked,
            None => self.in_flight.end(slot, Some(FailureCause::Errno(Errno::NOMEM))),
        }
    }

    /// Takes in the calls that ended.
    fn take_ended(&mut self) {
        std::mem::swap(&mut self.taken, &mut self.ended.borrow_mut());
        for index in 0..self.taken.len() {
            let CallEnd { slot, result } = self.taken[index];
            // A broken connection's calls were failed already.
            if !self.in_flight.is_under_way(slot) {
                continue;
            }
            let EngineIo { op, bytes, .. } = self.in_flight.io(slot);
            let progress = &mut self.progress[slot as usize];
            match result {
                0 if op.is_flush() => self.in_flight.end(slot, None),
                0 => self.in_flight.end(slot, Some(FailureCause::EndOfFile)),
                moved if moved > 0 => {
                    self.short_transfers += u64::from((moved as u64) < progress.asked);
                    progress.moved = (progress.moved + moved as u32).min(bytes);
                    let is_whole = progress.moved == bytes;
                    if is_whole { self.in_flight.end(slot, None) } else { self.begin(slot) }
                }
                failed => self.in_flight.end(slot, Some(FailureCause::Errno(errno_of(failed)))),
            }
        }
        self.taken.clear();
    }

    /// Waits for the sockets and serves them, for at most `at_most`.
    fn serve(&mut self, at_most: NanoSpan) -> Result<(), Errno> {
        let mut waits = Vec::with_capacity(self.links.len());
        let mut numbers = Vec::with_capacity(self.links.len());
        for (number, link) in self.links.iter().enumerate().filter(|(_, link)| !link.is_broken()) {
            if let Some((socket, events)) = link.waits_for() {
                waits.push(PollFd::from_borrowed_fd(
                    socket,
                    PollFlags::from_bits_retain(events.cast_unsigned()),
                ));
                numbers.push(number);
            }
        }
        let limit = Timespec {
            tv_sec: (at_most.get() / 1_000_000_000).cast_signed(),
            tv_nsec: (at_most.get() % 1_000_000_000).cast_signed(),
        };
        match poll(&mut waits, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let came: Vec<(usize, i16)> = numbers
            .iter()
            .zip(&waits)
            .map(|(number, wait)| (*number, wait.revents().bits().cast_signed()))
            .collect();
        drop(waits);
        for (number, events) in came {
            // Without events libnfs looks for calls that have had no answer in time.
            if !self.links[number].service(events) {
                self.break_off(number);
            }
        }
        self.take_ended();
        Ok(())
    }

    /// Fails the requests of a connection that is gone; what it still tells is not heard.
    #[cold]
    fn break_off(&mut self, number: usize) {
        self.take_ended();
        self.in_flight.disconnect(number as u32);
    }
}

impl Engine for NfsEngine {
    fn name(&self) -> &'static str {
        EngineKind::Nfs.name()
    }

    fn submit(&mut self, io: EngineIo) {
        let has_short_writes = || self.links[io.target as usize].has_short_writes();
        if io.op == IoOp::Write && self.notes.is_empty() && has_short_writes() {
            self.notes.push(SHORT_WRITES_NOTE.into());
        }
        self.in_flight.take(io);
        self.progress[io.slot as usize] = Progress::default();
        self.begin(io.slot);
    }

    fn flush(&mut self) -> Result<(), Errno> {
        self.serve(NanoSpan::ZERO)
    }

    fn ready(&mut self) -> u32 {
        self.in_flight.ended()
    }

    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.serve(if self.in_flight.ended() == 0 { at_most } else { NanoSpan::ZERO })?;
        self.in_flight.hand_out(done);
        Ok(())
    }

    told_by_in_flight!();

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}
