//! Threads that do I/O of members beside the array's own, each on a ring of its own.
//!
//! ```text
//! array's thread: controller ─► entries ─┬─► its own ring                                  ─► ends
//!                                        └─► pool ─► threads, each as many as it can do ─► ends
//! ```
//! The array's thread alone decides, so there is one controller, one state of the members and one log. On fast devices
//! most of the time goes into the kernel's work within `io_uring_enter`, and that is what the threads take over, for
//! all members alike. Any thread may do an entry, because the controller orders I/O by completions alone: an I/O that
//! must not overtake a write (a flush, another write of the same blocks) is issued after that write has ended.
//!
//! The pool balances: a thread that has nothing to do takes the oldest entries. So does the array's thread when the
//! others are behind, or when it would wait. A few short entries stay with the array's thread while all others sleep,
//! because to wake one takes longer.
//!
//! Each thread's ring has the same registered files and buffers as the array's. They are changed by orders, for which
//! the array's thread waits.
//!
//! Invariants: each entry ends once, on the ring that took it; an entry that was taken is submitted before the next
//! order is carried out. A panic in a thread ends the process, as one of the array's thread does.
#![allow(unsafe_code)]

mod work;

pub(crate) use work::allow_threads;

use crate::panic;
use crate::ring::ENTRIES_PER_BATCH;
use crate::wake_up::WakeUp;
use io_uring::squeue::Entry;
use raidlab_device::ring::{EntryEnd, IoVec, RingError};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Effort from which on it is worth waking a thread: about that of so many transfers of 4 KiB.
const WORTH_WAKING: u64 = 6;
/// Bytes that take about as long as a transfer takes in any case.
const BYTES_PER_EFFORT: usize = 16 << 10;
/// Entries for each of which one thread more is woken.
const ENTRIES_PER_WAKING: usize = 4;

/// A change of what all rings have registered, or what a thread is to do with what it has in flight.
#[derive(Clone, Debug)]
enum Task {
    SetFile(u16, RawFd),
    MakeBuffers(u16),
    /// The numbers from the first on. Their memory stays mapped, as [`IoThreads::register_buffers`] demands.
    SetBuffers(u16, Arc<[Memory]>),
    MakeWay(u32),
    CancelFile(u16),
    CancelAll,
}

/// A piece of memory that a thread registers.
#[derive(Clone, Copy, Debug)]
struct Memory(IoVec);

// SAFETY: it is an address, which the thread gives to the kernel and does not touch.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A task, and where its result goes if someone waits for it.
#[derive(Debug)]
struct Order {
    task: Task,
    answer: Option<SyncSender<io::Result<()>>>,
}

/// What the array's thread and one other share.
#[derive(Debug)]
struct Mailbox {
    wake_up: WakeUp,
    ends: Mutex<Vec<EntryEnd>>,
    has_ends: AtomicBool,
    orders: Mutex<VecDeque<Order>>,
    has_orders: AtomicBool,
    failed: Mutex<Option<RingError>>,
    has_failed: AtomicBool,
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    pool: Mutex<VecDeque<Entry>>,
    pooled: AtomicUsize,
    threads: usize,
    /// That of the array's thread.
    wake_up: Arc<WakeUp>,
    is_over: AtomicBool,
    /// What is in flight is waited for no more.
    is_abandoned: AtomicBool,
}

/// A thread, seen from the array's.
#[derive(Debug)]
struct ThreadHandle {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

/// The threads for I/O of an array, beside its own.
#[derive(Debug)]
pub(crate) struct IoThreads {
    team: Vec<ThreadHandle>,
    shared: Arc<Shared>,
    /// Entries that were not dealt yet, and what they take.
    fresh: Vec<Entry>,
    effort: u64,
    in_flight: u32,
    done: u64,
    taken: Vec<EntryEnd>,
}

impl IoThreads {
    /// Starts `count` threads with room for `files` registered files. Their ends wake `wake_up`.
    ///
    /// # Errors
    /// [`RingError`] if the system gives no ring or no thread.
    pub(crate) fn start(count: usize, files: u16, wake_up: &Arc<WakeUp>) -> Result<Self, RingError> {
        let refused = |source| RingError { doing: "start a thread for I/O", source };
        let shared = Arc::new(Shared {
            pool: Mutex::default(),
            pooled: AtomicUsize::new(0),
            threads: count,
            wake_up: Arc::clone(wake_up),
            is_over: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        });
        let (fresh, taken) = (Vec::new(), Vec::new());
        let mut threads = Self { team: Vec::new(), shared, fresh, effort: 0, in_flight: 0, done: 0, taken };
        for number in 0..count {
            let mailbox = Arc::new(Mailbox::new().map_err(refused)?);
            let (own, shared) = (Arc::clone(&mailbox), Arc::clone(&threads.shared));
            let (begun, has_begun) = sync_channel(1);
            let work = move || work::run(files, &own, &shared, &begun);
            let thread = panic::spawn(format!("io-{number}"), work).map_err(refused)?;
            threads.team.push(ThreadHandle { mailbox, thread: Some(thread) });
            has_begun.recv().map_err(|gone| refused(io::Error::other(gone)))??;
        }
        Ok(threads)
    }

    /// Takes an entry of `bytes`, to be dealt.
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry, bytes: usize) {
        self.effort += 1 + (bytes / BYTES_PER_EFFORT) as u64;
        self.fresh.push(entry);
    }

    /// Entries that were not dealt yet.
    pub(crate) fn undealt(&self) -> usize {
        self.fresh.len()
    }

    /// Entries that lie with the threads or have not been dealt.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight + self.fresh.len() as u32
    }

    /// Entries that they have done.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Leaves entries to the threads, and returns in `own` those that the array's thread is to do itself: more of them if it
    /// would wait otherwise.
    ///
    /// # Errors
    /// [`RingError`]: the ring of a thread does not work.
    pub(crate) fn deal(&mut self, would_wait: bool, own: &mut Vec<Entry>) -> Result<(), RingError> {
        self.check()?;
        let behind = self.shared.pooled.load(Ordering::Relaxed);
        if behind == 0 && self.fresh.is_empty() {
            return Ok(());
        }
        let effort = std::mem::take(&mut self.effort);
        if behind == 0 && effort < WORTH_WAKING && self.team.iter().all(ThreadHandle::is_asleep) {
            own.append(&mut self.fresh);
            return Ok(());
        }
        let left = {
            let mut pool = locked(&self.shared.pool);
            let behind = pool.len();
            self.in_flight += self.fresh.len() as u32;
            pool.extend(self.fresh.drain(..));
            let shared = if would_wait { pool.len() } else { behind };
            let share = shared.div_ceil(self.team.len() + 1).min(ENTRIES_PER_BATCH as usize);
            self.in_flight -= share as u32;
            own.extend(pool.drain(..share));
            self.shared.pooled.store(pool.len(), Ordering::SeqCst);
            pool.len()
        };
        self.wake(left.div_ceil(ENTRIES_PER_WAKING));
        Ok(())
    }

    /// Takes all entries back that no thread has taken.
    fn take_back(&mut self, own: &mut Vec<Entry>) {
        own.append(&mut self.fresh);
        let mut pool = locked(&self.shared.pool);
        self.in_flight -= pool.len() as u32;
        own.extend(pool.drain(..));
        self.shared.pooled.store(0, Ordering::SeqCst);
    }

    fn wake(&self, mut wanted: usize) {
        for it in &self.team {
            if wanted == 0 {
                return;
            }
            wanted -= usize::from(!it.is_asleep() || it.mailbox.wake_up.wake());
        }
    }

    /// Whether there are ends that were not taken.
    #[inline]
    pub(crate) fn has_ends(&self) -> bool {
        self.team.iter().any(|it| it.mailbox.has_ends.load(Ordering::SeqCst))
    }

    /// Hands `take` each end that is there.
    pub(crate) fn reap(&mut self, mut take: impl FnMut(EntryEnd)) {
        for it in &self.team {
            if !it.mailbox.has_ends.load(Ordering::SeqCst) {
                continue;
            }
            {
                let mut ends = locked(&it.mailbox.ends);
                it.mailbox.has_ends.store(false, Ordering::SeqCst);
                std::mem::swap(&mut *ends, &mut self.taken);
            }
            for end in self.taken.drain(..) {
                let is_last = !end.is_followed();
                self.in_flight -= u32::from(is_last);
                self.done += u64::from(is_last);
                take(end);
            }
        }
    }

    /// Registers `file` at `place` in all rings. What was not taken is returned in `own`, because it names the file before.
    ///
    /// # Errors
    /// What the kernel says to a thread.
    pub(crate) fn set_file(&mut self, place: u16, file: RawFd, own: &mut Vec<Entry>) -> io::Result<()> {
        self.take_back(own);
        self.order(&Task::SetFile(place, file))
    }

    /// Makes a table of `count` registered buffers in all rings.
    ///
    /// # Errors
    /// What the kernel says to a thread.
    pub(crate) fn make_buffer_table(&self, count: u16) -> io::Result<()> {
        self.order(&Task::MakeBuffers(count))
    }

    /// Registers `buffers` as the numbers from `first` on in all rings. Their memory must stay mapped while they are
    /// registered or until the threads have ended.
    ///
    /// # Errors
    /// What the kernel says to a thread.
    pub(crate) fn register_buffers(&self, first: u16, buffers: &[IoVec]) -> io::Result<()> {
        self.order(&Task::SetBuffers(first, buffers.iter().copied().map(Memory).collect()))
    }

    /// Allows the kernel so many threads of its own more for each ring.
    ///
    /// # Errors
    /// What the kernel says to a thread.
    pub(crate) fn make_way(&self, threads: u32) -> io::Result<()> {
        self.order(&Task::MakeWay(threads))
    }

    /// Ends everything in flight on the file at `place` early, as far as that is possible.
    pub(crate) fn cancel_file(&self, place: u16) {
        self.tell(&Task::CancelFile(place), None);
    }

    /// Ends everything in flight early, as far as that is possible.
    pub(crate) fn cancel_all(&self) {
        self.tell(&Task::CancelAll, None);
    }

    /// What is in flight is waited for no more: the threads end without it.
    pub(crate) fn abandon(&self) {
        self.shared.is_abandoned.store(true, Ordering::SeqCst);
    }

    /// Has every thread carry `task` out, and waits for that.
    fn order(&self, task: &Task) -> io::Result<()> {
        let (answer, answers) = sync_channel(self.team.len());
        self.tell(task, Some(&answer));
        drop(answer);
        self.team.iter().try_for_each(|_| answers.recv().map_err(io::Error::other)?)
    }

    fn tell(&self, task: &Task, answer: Option<&SyncSender<io::Result<()>>>) {
        for ThreadHandle { mailbox, .. } in &self.team {
            let mut orders = locked(&mailbox.orders);
            if mailbox.has_failed.load(Ordering::SeqCst) {
                continue;
            }
            orders.push_back(Order { task: task.clone(), answer: answer.cloned() });
            drop(orders);
            mailbox.has_orders.store(true, Ordering::SeqCst);
            mailbox.wake_up.wake();
        }
    }

    fn check(&self) -> Result<(), RingError> {
        let failed = self.team.iter().find(|it| it.mailbox.has_failed.load(Ordering::Relaxed));
        failed.and_then(|it| locked(&it.mailbox.failed).take()).map_or(Ok(()), Err)
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for it in &self.team {
            it.mailbox.wake_up.wake();
        }
        if self.shared.is_abandoned.load(Ordering::SeqCst) {
            // One may wait for a device that does not answer.
            return;
        }
        panic::join(self.team.iter_mut().filter_map(|it| it.thread.take()));
    }
}

impl ThreadHandle {
    fn is_asleep(&self) -> bool {
        self.mailbox.wake_up.is_asleep()
    }
}

impl Mailbox {
    fn new() -> io::Result<Self> {
        Ok(Self {
            wake_up: WakeUp::new()?,
            ends: Mutex::default(),
            has_ends: AtomicBool::new(false),
            orders: Mutex::default(),
            has_orders: AtomicBool::new(false),
            failed: Mutex::default(),
            has_failed: AtomicBool::new(false),
        })
    }
}

/// A panic in any thread ends the process, so no lock is ever found poisoned by one that goes on.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
