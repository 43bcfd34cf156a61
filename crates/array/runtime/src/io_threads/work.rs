//! What a thread for I/O does: take entries from the pool, submit them, hand their ends back, carry out orders, and sleep.
#![allow(unsafe_code)]

use super::{Mailbox, Order, Shared, Task, locked};
use crate::ring::{COMPLETION_ENTRIES, ENTRIES_PER_BATCH, NO_FILE, QUEUE_ENTRIES};
use crate::wake_up::LOOK_FOR;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::CancelBuilder;
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{EntryEnd, IoVec, Ring as Uring, RingError, RingOptions};
use raidlab_units::NanoSpan;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

/// A thread that sleeps looks up now and then, in case its ring is taken down.
const SLEEP: NanoSpan = NanoSpan::from_millis(1000);
/// How often a thread that is to end looks whether it need not wait for its entries any more.
const PATIENCE: NanoSpan = NanoSpan::from_millis(10);
/// Names of a thread's own entries.
const WAKE_UP: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// What a thread does.
pub(super) fn run(files: u16, mailbox: &Mailbox, shared: &Shared, begun: &SyncSender<Result<(), RingError>>) {
    let mut ring = match make_ring(files) {
        Ok(ring) => ring,
        Err(error) => {
            // Whoever starts the thread waits for it.
            let _ = begun.send(Err(error));
            return;
        }
    };
    let _ = begun.send(Ok(()));
    let thread =
        Thread { ring: &mut ring, mailbox, shared, batch: Vec::new(), ends: Vec::new(), listens: false };
    if let Err(source) = thread.work() {
        *locked(&mailbox.failed) =
            Some(RingError { doing: "submit I/O to the io_uring of a thread for I/O", source });
        mailbox.has_failed.store(true, Ordering::SeqCst);
        // Whoever waits for one hears that it is not carried out.
        locked(&mailbox.orders).clear();
        shared.wake_up.wake();
    }
}

fn make_ring(files: u16) -> Result<Uring, RingError> {
    let options =
        RingOptions { tells_work: true, end_places: Some(COMPLETION_ENTRIES), ..RingOptions::default() };
    let mut ring = Uring::new(QUEUE_ENTRIES, options, &mut Vec::new())?;
    let refused = |source| RingError { doing: "register the member files with io_uring", source };
    ring.register_files(&vec![NO_FILE; usize::from(files)]).map_err(refused)?;
    Ok(ring)
}

/// A thread at work.
struct Thread<'a> {
    ring: &'a mut Uring,
    mailbox: &'a Mailbox,
    shared: &'a Shared,
    batch: Vec<Entry>,
    ends: Vec<EntryEnd>,
    /// An entry polls the wake-up.
    listens: bool,
}

impl Thread<'_> {
    fn work(mut self) -> io::Result<()> {
        loop {
            if self.mailbox.has_orders.load(Ordering::SeqCst) {
                self.carry_out()?;
            }
            let has_taken = self.take();
            if has_taken {
                self.submit()?;
            }
            if self.hand_back() || has_taken {
                continue;
            }
            if !self.shared.is_over.load(Ordering::SeqCst) {
                self.wait()?;
            } else if self.may_end() {
                return Ok(());
            } else {
                self.ring.submit_and_wait(PATIENCE)?;
            }
        }
    }

    /// Takes some of the oldest entries.
    fn take(&mut self) -> bool {
        if self.shared.pooled.load(Ordering::Relaxed) == 0 {
            return false;
        }
        {
            let mut pool = locked(&self.shared.pool);
            let share = pool.len().div_ceil(self.shared.threads).min(ENTRIES_PER_BATCH as usize);
            self.batch.extend(pool.drain(..share));
            self.shared.pooled.store(pool.len(), Ordering::SeqCst);
        }
        !self.batch.is_empty()
    }

    fn submit(&mut self) -> io::Result<()> {
        for entry in self.batch.drain(..) {
            // SAFETY: whoever queued the entry keeps its memory until its end, as `Ring::push` demands.
            while !unsafe { self.ring.try_push(&entry) } {
                self.ring.submit()?;
            }
        }
        Ok(self.ring.submit()?)
    }

    /// Hands ends to the array's thread. Returns whether there were any.
    fn hand_back(&mut self) -> bool {
        self.ring.ready();
        while let Some(end) = self.ring.next_end() {
            match end.name {
                WAKE_UP => {
                    self.mailbox.wake_up.clear();
                    self.listens = false;
                }
                CANCEL => {}
                _ => self.ends.push(end),
            }
        }
        if self.ends.is_empty() {
            return false;
        }
        locked(&self.mailbox.ends).append(&mut self.ends);
        self.mailbox.has_ends.store(true, Ordering::SeqCst);
        self.shared.wake_up.wake();
        true
    }

    fn may_end(&self) -> bool {
        self.ring.in_flight() == u32::from(self.listens) || self.shared.is_abandoned.load(Ordering::SeqCst)
    }

    /// Whether there is something to do other than ends of its ring.
    fn has_work(&self) -> bool {
        self.shared.pooled.load(Ordering::SeqCst) > 0
            || self.mailbox.has_orders.load(Ordering::SeqCst)
            || self.shared.is_over.load(Ordering::SeqCst)
    }

    /// Looks for something to do for a while, then sleeps until there is.
    fn wait(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < LOOK_FOR {
            if self.has_work() || self.ring.ready() > 0 {
                return Ok(());
            }
            if self.ring.holds_back() {
                return Ok(self.ring.submit()?);
            }
            std::hint::spin_loop();
        }
        if !self.listens {
            let poll = entries::readable(FileRef::open(&self.mailbox.wake_up.descriptor()));
            self.push_own(&poll.user_data(WAKE_UP))?;
            self.listens = true;
        }
        self.mailbox.wake_up.begin_sleep();
        let slept = if self.has_work() { Ok(()) } else { self.ring.submit_and_wait(SLEEP) };
        self.mailbox.wake_up.end_sleep();
        Ok(slept?)
    }

    fn carry_out(&mut self) -> io::Result<()> {
        self.mailbox.has_orders.store(false, Ordering::SeqCst);
        loop {
            let order = locked(&self.mailbox.orders).pop_front();
            let Some(Order { task, answer }) = order else { return Ok(()) };
            let done = match task {
                Task::SetFile(place, file) => {
                    self.ring.submitter().register_files_update(place.into(), &[file]).map(drop)
                }
                Task::MakeBuffers(count) => self.ring.submitter().register_buffers_sparse(count.into()),
                Task::SetBuffers(first, buffers) => {
                    let buffers: Vec<IoVec> = buffers.iter().map(|memory| memory.0).collect();
                    // SAFETY: whoever gave the order keeps the memory mapped.
                    unsafe { self.ring.register_buffers(Some(first), &buffers) }
                }
                Task::MakeWay(threads) => allow_threads(self.ring, threads),
                Task::CancelFile(place) => {
                    let all = CancelBuilder::fd(io_uring::types::Fixed(place.into())).all();
                    self.cancel(all)?;
                    Ok(())
                }
                Task::CancelAll => {
                    self.cancel(CancelBuilder::any())?;
                    Ok(())
                }
            };
            if let Some(answer) = answer {
                // Whoever asked has waited, or the array has ended.
                let _ = answer.send(done);
            }
        }
    }

    fn cancel(&mut self, what: CancelBuilder) -> io::Result<()> {
        self.push_own(&opcode::AsyncCancel2::new(what).build().user_data(CANCEL))?;
        Ok(self.ring.submit()?)
    }

    /// Queues an entry without memory.
    fn push_own(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: it names a descriptor of the mailbox, or nothing.
        while !unsafe { self.ring.try_push(entry) } {
            self.ring.submit()?;
        }
        Ok(())
    }
}

/// Allows the kernel so many threads more than it has now for a ring's I/O on files and devices.
///
/// # Errors
/// The kernel refuses what it has taken before. Before Linux 5.15 there is nothing to ask for, and nothing is done.
pub(crate) fn allow_threads(ring: &Uring, threads: u32) -> io::Result<()> {
    // Zeros ask.
    let mut limits = [0, 0];
    if ring.submitter().register_iowq_max_workers(&mut limits).is_ok() {
        // Files and block devices are the first number's; the second is that of sockets, and stays.
        ring.submitter().register_iowq_max_workers(&mut [limits[0].saturating_add(threads), 0])?;
    }
    Ok(())
}
