//! Engines whose calls block: a thread for each request in flight.
//!
//! ```text
//! submit ─► queue ─► thread ─► call ─► ended ─► reap
//! ```
//! A request goes through two locks here: its latency is that of a program that has a thread for each of its requests.
//!
//! Invariant: the threads end before the memory that they read into is freed.
#![allow(unsafe_code)]

use super::in_flight::{InFlight, told_by_in_flight};
use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Does requests by calls that block.
pub trait BlockingCalls: std::fmt::Debug + Send + Sync + 'static {
    /// Whose engine it is.
    const KIND: EngineKind;

    /// Moves some bytes of `io` out of or into `buffer`, which is what is left of it, from `at` on.
    ///
    /// # Errors
    /// What the system answers.
    fn move_some(&self, io: &EngineIo, at: u64, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Does a flush.
    ///
    /// # Errors
    /// What the system answers.
    fn commit(&self, io: &EngineIo) -> Result<(), Errno>;

    /// What it means that there is nothing more from `at` on.
    fn at_end(&self, io: &EngineIo, at: u64) -> Option<FailureCause>;

    /// What an answer means.
    fn cause_of(&self, errno: Errno) -> FailureCause {
        FailureCause::Errno(errno)
    }
}

/// A thread for each request in flight, which makes the calls of `C`.
#[derive(Debug)]
pub struct CrewEngine<C: BlockingCalls> {
    // The order matters: the threads end first, then the memory goes.
    crew: Crew<C>,
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
struct Crew<C: BlockingCalls> {
    desk: Arc<Desk<C>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads and the engine share.
#[derive(Debug)]
struct Desk<C> {
    papers: Mutex<Papers>,
    /// There is an order, or it is over.
    ordered: Condvar,
    /// A request has ended.
    answered: Condvar,
    calls: C,
}

#[derive(Debug)]
struct Papers {
    orders: VecDeque<Order>,
    ended: Vec<Ended>,
    is_over: bool,
}

impl<C: BlockingCalls> CrewEngine<C> {
    /// Makes threads for up to the requests of `table`, and no more than `in_flight_max`, which make `calls`.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`], [`LoadError::System`] without threads for `path`.
    pub(super) fn over(
        calls: C,
        path: &Path,
        (table, in_flight_max): (SlotTable, u32),
        memory: IoMemory,
    ) -> Result<Self, LoadError> {
        let in_flight = InFlight::new(C::KIND, table, in_flight_max / table.targets, memory)?;
        let crew = Crew::new(calls, table.in_flight_max());
        Ok(Self {
            crew: crew.map_err(LoadError::io(path, "make threads for"))?,
            in_flight,
            orders: Vec::with_capacity(table.slots()),
            ended: Vec::with_capacity(table.slots()),
            short_transfers: 0,
        })
    }
}

impl<C: BlockingCalls> Crew<C> {
    fn new(calls: C, threads: u32) -> std::io::Result<Self> {
        let room = threads as usize;
        let papers =
            Papers { orders: VecDeque::with_capacity(room), ended: Vec::with_capacity(room), is_over: false };
        let desk =
            Desk { papers: Mutex::new(papers), ordered: Condvar::new(), answered: Condvar::new(), calls };
        let mut crew = Self { desk: Arc::new(desk), threads: Vec::with_capacity(room) };
        for _ in 0..threads {
            let desk = Arc::clone(&crew.desk);
            let thread = std::thread::Builder::new().name(C::KIND.name().into()).spawn(move || desk.work());
            crew.threads.push(thread?);
        }
        Ok(crew)
    }
}

impl<C: BlockingCalls> Drop for Crew<C> {
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

impl<C: BlockingCalls> Desk<C> {
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

    /// Does a flush. Returns why it failed, if it did.
    fn commit(&self, io: &EngineIo) -> Option<FailureCause> {
        loop {
            match self.calls.commit(io) {
                Ok(()) => return None,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Some(self.calls.cause_of(errno)),
            }
        }
    }

    fn do_one(&self, Order { io, buffer }: Order) -> Ended {
        if io.op.is_flush() {
            return Ended {
                completion: Completion { slot: io.slot, failure: self.commit(&io) },
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
            match self.calls.move_some(&io, at, &mut buffer[done..]) {
                Ok(0) => break self.calls.at_end(&io, at),
                Ok(bytes) => (done, calls) = (done + bytes, calls + 1),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => break Some(self.calls.cause_of(errno)),
            }
        };
        let completion = Completion { slot: io.slot, failure };
        Ended { completion, short_transfers: u32::saturating_sub(calls, 1) }
    }
}

impl<C: BlockingCalls> Engine for CrewEngine<C> {
    fn name(&self) -> &'static str {
        C::KIND.name()
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
