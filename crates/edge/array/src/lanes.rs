//! Threads that submit I/O, each with a ring of its own, so that the kernel's work for I/O is done by more than one processor.
//!
//! ```text
//! array's thread: controller ─► entry ─► Lanes::push ── channel ─► lane's thread ─► its io_uring ─► the same files
//!       ▲                                                              │
//!       └──────────────────── Lanes::poll ◄── channel ─────────────────┘
//! ```
//! A lane knows nothing of the array: it passes entries on and reports their ends. Where an entry goes is free, because the
//! controller orders I/O by ends alone: what must not overtake a write (a flush, another write of the same blocks) is asked for
//! after that write has ended, so when the second entry exists the kernel has done with the first, whichever ring either is in.
//! All rings name one open file, so an error of writing back is seen by the one flush that the array asks for.
//!
//! The way to a lane and back costs some hundred nanoseconds where both threads are awake, and a wake-up of each where they
//! are not. It is worth that for what keeps the submitting processor busy: I/O that is long, while there is a queue.
//!
//! Invariants: an entry that was pushed is reported once; no allocation and no lock per entry; a lane that ends waits for its
//! entries first, so their memory outlives them.
//! Left out: links to NBD servers and the clients' sockets, which stay on the array's ring.
#![allow(unsafe_code)]

use crate::bell::Bell;
use crate::error::RingError;
use crate::pieces::IoVec;
use crate::ring::{Done, Owner, Ring};
use io_uring::squeue::Entry;
use raidlab_units::NanoSpan;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

/// Entries of one lane in flight; more stay with the array's ring.
const ENTRIES_PER_LANE: usize = 1024;
/// Entries that a lane submits with one call. Those of files in memory are done within it, and are told of after it.
const ENTRIES_PER_CALL: usize = 4;
/// How long a lane looks for its next entry before it sleeps, where entries have lately come that soon.
const LOOK_FOR: NanoSpan = NanoSpan::from_micros(50);
/// Longest sleep.
const SLEEP: NanoSpan = NanoSpan::from_secs(1);

/// What a lane is told.
enum Order {
    /// Submit this.
    Io { number: u32, entry: Entry },
    /// Something rare.
    Do(Box<dyn FnOnce(&mut Ring) + Send>),
}

/// What a lane tells.
struct Ended {
    lane: usize,
    done: Result<Done, RingError>,
}

#[derive(Debug)]
struct Lane {
    orders: Option<SyncSender<Order>>,
    /// Wakes it; behind it wait entries that the kernel has not seen yet.
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    /// Entries that were not reported.
    out: usize,
}

/// The lanes of an array, if it has any.
#[derive(Debug)]
pub(crate) struct Lanes {
    team: Vec<Lane>,
    ended: Receiver<Ended>,
    /// Of the array's thread.
    home: Arc<Bell>,
    out: usize,
    done: u64,
}

/// Pieces of memory on their way to another thread.
#[derive(Clone)]
struct Addresses(Vec<IoVec>);

// SAFETY: they are addresses, which the kernel is told of; nobody reads or writes through them on the way.
unsafe impl Send for Addresses {}

impl Lanes {
    /// Starts `count` lanes with room for `files` registered files each. `home` wakes the array's thread.
    ///
    /// # Errors
    /// [`RingError`] if the system gives no thread, ring or descriptor.
    pub(crate) fn new(count: usize, files: u16, home: Arc<Bell>) -> Result<Self, RingError> {
        let (sender, ended) = sync_channel((count * ENTRIES_PER_LANE).max(1));
        let mut lanes = Self { team: Vec::new(), ended, home, out: 0, done: 0 };
        for number in 0..count {
            let (orders, inbox) = sync_channel(ENTRIES_PER_LANE + 1);
            let (ready, made) = channel();
            let (ended, home) = (sender.clone(), Arc::clone(&lanes.home));
            let work = move || {
                // A ring is used by the thread that makes it.
                let ring = Ring::new(files, LOOK_FOR);
                let (ring, told) = match ring {
                    Ok(mut ring) => {
                        ring.expect_ringers();
                        let bell = ring.bell();
                        (Some(ring), Ok(bell))
                    }
                    Err(error) => (None, Err(error)),
                };
                if let (Ok(()), Some(ring)) = (ready.send(told), ring) {
                    Runner { number, ring, inbox, ended, home }.run();
                }
            };
            let name = format!("io-{number}");
            let failed = |source| RingError { doing: "start a thread for I/O", source };
            let thread = std::thread::Builder::new().name(name).spawn(work).map_err(failed)?;
            let gone = |_| failed(io::ErrorKind::BrokenPipe.into());
            let bell = made.recv().map_err(gone)??;
            lanes.team.push(Lane { orders: Some(orders), bell, thread: Some(thread), out: 0 });
        }
        Ok(lanes)
    }

    /// Entries that are not reported.
    #[inline]
    pub(crate) const fn out(&self) -> usize {
        self.out
    }

    /// Entries that lanes have done.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// The lane with fewest entries that the kernel has not seen, if it has fewer than `backlog`.
    #[inline]
    pub(crate) fn idlest(&self, backlog: usize) -> Option<usize> {
        let rows = self.team.iter().enumerate().filter(|(_, lane)| lane.out < ENTRIES_PER_LANE);
        let idlest = rows.map(|(number, lane)| (lane.bell.waiting(), number)).min()?;
        (idlest.0 < backlog).then_some(idlest.1)
    }

    /// Hands an entry to `lane`, which [`Lanes::idlest`] has named.
    ///
    /// # Panics
    /// If the lane did.
    #[inline]
    pub(crate) fn push(&mut self, lane: usize, number: u32, entry: Entry) {
        let lane = &mut self.team[lane];
        let orders = lane.orders.as_ref().expect("its end is closed on drop only");
        lane.bell.announce();
        assert!(orders.try_send(Order::Io { number, entry }).is_ok(), "a lane with room takes an entry");
        lane.bell.ring();
        lane.out += 1;
        self.out += 1;
    }

    /// Returns the next entry that has ended.
    ///
    /// # Errors
    /// [`RingError`] if a lane can't submit.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<Option<Done>, RingError> {
        if self.out == 0 {
            return Ok(None);
        }
        match self.ended.try_recv() {
            Ok(Ended { lane, done }) => {
                self.home.take(1);
                let done = done?;
                self.team[lane].out -= 1;
                self.out -= 1;
                self.done += 1;
                Ok(Some(done))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(RingError { doing: "hear of I/O", source: io::ErrorKind::BrokenPipe.into() })
            }
        }
    }

    /// Has each lane do `work` on its ring, after all entries before, and waits for it.
    fn on_all<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Ring) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, RingError> {
        let gone = || RingError { doing: "reach a thread for I/O", source: io::ErrorKind::BrokenPipe.into() };
        self.team
            .iter()
            .map(|lane| {
                let (reply, answer) = channel();
                let work = work.clone();
                let order = Order::Do(Box::new(move |ring: &mut Ring| {
                    let _ = reply.send(work(ring));
                }));
                lane.bell.announce();
                let orders = lane.orders.as_ref().expect("its end is closed on drop only");
                orders.send(order).map_err(|_| gone())?;
                lane.bell.ring();
                answer.recv().map_err(|_| gone())
            })
            .collect()
    }

    /// Registers `file` at `place` in all lanes.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn set_file(&self, place: u16, file: RawFd) -> Result<(), RingError> {
        self.on_all(move |ring| ring.set_file(place, file))?.into_iter().collect()
    }

    /// Makes a table of registered buffers in all lanes. Returns whether all have one.
    pub(crate) fn make_buffer_table(&self, count: u16) -> Result<bool, RingError> {
        Ok(self.on_all(move |ring| ring.make_buffer_table(count))?.into_iter().all(|made| made))
    }

    /// Registers buffers in all lanes; see [`Ring::register_buffers`].
    pub(crate) fn register_buffers(&self, first: u16, buffers: &[IoVec]) -> io::Result<()> {
        let buffers = Addresses(buffers.to_vec());
        let register = move |ring: &mut Ring| {
            let buffers = &buffers;
            ring.register_buffers(first, &buffers.0)
        };
        self.on_all(register).map_err(|error| error.source)?.into_iter().collect()
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &mut self.team {
            lane.orders = None;
            // It finds that nobody is there any more.
            lane.bell.announce();
            lane.bell.ring();
        }
        for lane in &mut self.team {
            if lane.thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a thread for I/O panicked");
            }
        }
    }
}

/// A lane's thread.
struct Runner {
    number: usize,
    // Dropped first: it waits for all its entries.
    ring: Ring,
    inbox: Receiver<Order>,
    ended: SyncSender<Ended>,
    home: Arc<Bell>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody would hear of its entries.
            self.tell(Err(RingError { doing: "pass on I/O", source: io::ErrorKind::BrokenPipe.into() }));
            self.home.ring();
        }
    }
}

impl Runner {
    /// Passes entries on until nobody is there any more.
    fn run(mut self) {
        let bell = self.ring.bell();
        let mut done = Vec::new();
        loop {
            match self.turn(&bell, &mut done) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.tell(Err(error));
                    self.home.ring();
                    return;
                }
            }
        }
    }

    /// Returns whether there may be more.
    fn turn(&mut self, bell: &Bell, done: &mut Vec<Done>) -> Result<bool, RingError> {
        let mut taken = 0;
        let mut is_over = false;
        while taken < ENTRIES_PER_CALL {
            match self.inbox.try_recv() {
                Ok(Order::Io { number, entry }) => self.ring.push_member(number, entry)?,
                Ok(Order::Do(work)) => work(&mut self.ring),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    is_over = true;
                    break;
                }
            }
            taken += 1;
        }
        if self.ring.unsubmitted() > 0 {
            self.ring.enter(None)?;
        }
        bell.take(taken);
        self.ring.reap(done);
        let is_idle = taken == 0 && done.is_empty();
        let has_ends = !done.is_empty();
        for done in done.drain(..).filter(|done| done.owner == Owner::Member) {
            self.tell(Ok(done));
        }
        if has_ends {
            self.home.ring();
        }
        if is_idle && !is_over {
            self.ring.enter(Some(SLEEP))?;
        }
        Ok(!is_over)
    }

    fn tell(&self, done: Result<Done, RingError>) {
        self.home.announce();
        // There is room for all entries that may be in flight; an array that is gone wants to hear nothing.
        let _ = self.ended.send(Ended { lane: self.number, done });
    }
}
