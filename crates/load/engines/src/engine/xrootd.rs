//! The `XRootD` engine: a thread for each request in flight, since the client's C calls block.
//!
//! ```text
//! submit ─► queue ─► thread ─► XrdPosix_Pread ─► one connection to the server, answers by number ─► ended ─► reap
//! ```
//! The client sends the requests of all threads over one connection, so the server sees as many requests as are in
//! flight. A request goes through two locks here and several in the client: its latency is that of a program that uses
//! the client in this way.
//!
//! All workers share the target's open file: a server allows one open for writing per file at a time.
//!
//! **A connection that ends** fails its requests with [`FailureCause::Disconnected`].
//!
//! Invariant: the threads end before the memory that they read into is freed.
#![allow(unsafe_code)]

use super::in_flight::{InFlight, told_by_in_flight};
use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use crate::xrootd::{XrootdFile, is_connection_gone};
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most requests in flight of one worker: each is a thread.
const IN_FLIGHT_MAX: u32 = 256;

/// Any number of requests in flight on files of `XRootD` servers.
#[derive(Debug)]
pub struct XrootdEngine {
    // The order matters: the threads end first, then the memory goes.
    crew: Crew,
    in_flight: InFlight,
    /// Taken in, and not handed on.
    orders: Vec<Order>,
    ended: Vec<Ended>,
    short_transfers: u64,
}

/// A request for a thread.
#[derive(Clone, Copy, Debug)]
struct Order {
    io: EngineIo,
    buffer: *mut u8,
}

// SAFETY: the buffer is the slot's, which nobody else touches until its request has ended.
unsafe impl Send for Order {}

/// A request that a thread has done.
#[derive(Clone, Copy, Debug)]
struct Ended {
    completion: Completion,
    short_transfers: u32,
}

/// The threads, which end when this is dropped.
#[derive(Debug)]
struct Crew {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads and the engine share.
#[derive(Debug)]
struct Desk {
    papers: Mutex<Papers>,
    /// There is an order, or it is over.
    ordered: Condvar,
    /// A request has ended.
    answered: Condvar,
    files: Vec<Arc<XrootdFile>>,
}

#[derive(Debug)]
struct Papers {
    orders: VecDeque<Order>,
    ended: Vec<Ended>,
    is_over: bool,
}

impl XrootdEngine {
    /// Makes threads for up to the requests of `table` on the files that `targets` have open.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`], [`LoadError::EngineUnfit`], [`LoadError::System`] without threads.
    pub fn new(targets: &[&Target], table: SlotTable, memory: IoMemory) -> Result<Self, LoadError> {
        let iodepth_max = IN_FLIGHT_MAX / table.targets;
        let in_flight = InFlight::new(EngineKind::Xrootd, table, iodepth_max, memory)?;
        let files = targets.iter().map(|target| target.xrootd_file()).collect::<Result<_, _>>()?;
        Ok(Self {
            crew: Crew::new(files, table.in_flight_max())
                .map_err(LoadError::io(targets[0].path(), "make threads for"))?,
            in_flight,
            orders: Vec::with_capacity(table.slots()),
            ended: Vec::with_capacity(table.slots()),
            short_transfers: 0,
        })
    }
}

impl Crew {
    fn new(files: Vec<Arc<XrootdFile>>, threads: u32) -> std::io::Result<Self> {
        let room = threads as usize;
        let papers =
            Papers { orders: VecDeque::with_capacity(room), ended: Vec::with_capacity(room), is_over: false };
        let desk =
            Desk { papers: Mutex::new(papers), ordered: Condvar::new(), answered: Condvar::new(), files };
        let mut crew = Self { desk: Arc::new(desk), threads: Vec::with_capacity(room) };
        for _ in 0..threads {
            let desk = Arc::clone(&crew.desk);
            let thread = std::thread::Builder::new().name("xrootd".into()).spawn(move || desk.work());
            crew.threads.push(thread?);
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut papers = self.desk.lock();
        papers.is_over = true;
        papers.orders.clear();
        drop(papers);
        self.desk.ordered.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Desk {
    /// A thread that panicked is joined by the engine, which panics in turn: nobody goes on with what it left.
    fn lock(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does orders until it is over.
    fn work(&self) {
        let mut papers = self.lock();
        while !papers.is_over {
            let Some(order) = papers.orders.pop_front() else {
                papers = self.ordered.wait(papers).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(papers);
            let ended = self.do_one(order);
            papers = self.lock();
            papers.ended.push(ended);
            self.answered.notify_one();
        }
    }

    fn do_one(&self, Order { io, buffer }: Order) -> Ended {
        let file = &self.files[io.target as usize];
        if io.op.is_flush() {
            return Ended {
                completion: Completion { slot: io.slot, failure: commit(file) },
                short_transfers: 0,
            };
        }
        // SAFETY: the slot's buffer has so many bytes, and is this request's until it has ended.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, io.bytes as usize) };
        let (mut done, mut calls) = (0, 0);
        let failure = loop {
            if done == buffer.len() {
                break None;
            }
            let at = io.offset_bytes + done as u64;
            let moved = match io.op {
                IoOp::Read => file.read_once(at, &mut buffer[done..]),
                _ => file.write_once(at, &buffer[done..]),
            };
            match moved {
                Ok(0) => break Some(FailureCause::EndOfFile),
                Ok(bytes) => (done, calls) = (done + bytes, calls + 1),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => break Some(cause_of(errno)),
            }
        };
        let completion = Completion { slot: io.slot, failure };
        Ended { completion, short_transfers: u32::saturating_sub(calls, 1) }
    }
}

/// Does a flush. Returns why it failed, if it did.
fn commit(file: &XrootdFile) -> Option<FailureCause> {
    loop {
        match file.commit() {
            Ok(()) => return None,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Some(cause_of(errno)),
        }
    }
}

fn cause_of(errno: Errno) -> FailureCause {
    if is_connection_gone(errno) { FailureCause::Disconnected } else { FailureCause::Errno(errno) }
}

impl Engine for XrootdEngine {
    fn name(&self) -> &'static str {
        EngineKind::Xrootd.name()
    }

    fn submit(&mut self, io: EngineIo) {
        self.in_flight.take(io);
        let buffer = self.in_flight.buffer(&io).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
        self.orders.push(Order { io, buffer });
    }

    fn flush(&mut self) -> Result<(), Errno> {
        if self.orders.is_empty() {
            return Ok(());
        }
        let count = self.orders.len();
        self.crew.desk.lock().orders.extend(self.orders.drain(..));
        (0..count).for_each(|_| self.crew.desk.ordered.notify_one());
        Ok(())
    }

    fn ready(&mut self) -> u32 {
        self.crew.desk.lock().ended.len() as u32
    }

    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.flush()?;
        let since = Instant::now();
        let at_most = Duration::from_nanos(at_most.get());
        let desk = &self.crew.desk;
        let mut papers = desk.lock();
        while papers.ended.is_empty() && self.in_flight.count() > 0 {
            let Some(left) = at_most.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                break;
            };
            papers = desk.answered.wait_timeout(papers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut papers.ended, &mut self.ended);
        drop(papers);
        for Ended { completion, short_transfers } in self.ended.drain(..) {
            self.short_transfers += u64::from(short_transfers);
            self.in_flight.end(completion.slot, completion.failure);
        }
        self.in_flight.hand_out(done);
        Ok(())
    }

    told_by_in_flight!();

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }
}
