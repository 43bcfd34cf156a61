//! The array's `io_uring`: whose entry is whose, registered files that come and go, waiting, and the end.
//!
//! Entries belong to the members, to their links, to the host's port or to the operator's line; each owner has its own
//! numbers. Registered files are a table with empty places, so that devices can come and go while the ring runs.
//!
//! Only the thread that made the ring uses it. An entry names its memory by address, so its owner keeps that memory
//! until the completion; [`Ring::quiesce`] waits for all.
//!
//! I/O of members may be dealt to other threads with rings of their own ([`crate::io_threads`]).
//!
//! Source: `io_uring_enter(2)`, `io_uring_register(2)`; [`raidlab_device::ring`] is the ring itself.
#![allow(unsafe_code)]

mod end;
mod names;

pub(crate) use names::{Done, LinkEntry, Owner};
pub(crate) use raidlab_device::ring::entries::{Direction, PIECES_PER_ENTRY, Target};

use crate::busy_poll::BusyPoll;
use crate::error::RingError;
use crate::io_threads::IoThreads;
use crate::kernel::Clock;
use crate::wake_up::{LOOK_FOR, WakeUp};
use crate::workers::Workers;
use end::End;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fixed, FsyncFlags, Timespec};
use names::{TICK_USER, WAKE_UP_USER, user_data};
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{IoVec, RingOptions};
use raidlab_units::{NanoSpan, Nanos};
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room for entries between two submissions; a full queue is submitted early.
pub(crate) const QUEUE_ENTRIES: u32 = 256;
/// Room for completions; the kernel keeps more aside, at a price.
pub(crate) const COMPLETION_ENTRIES: u32 = 4096;
/// Entries that are submitted at once at most, so that members start while parity is still being computed.
pub(crate) const ENTRIES_PER_BATCH: u32 = 16;
/// An empty place among the registered files.
pub(crate) const NO_FILE: RawFd = -1;

/// Lines that are waited for are numbered below this.
pub(crate) const LINES: u32 = 2;
/// How often a wait without a nearer end is over. One timer in the ring does for all waits: a timer of its own for each
/// would cost more than all else where requests come one at a time.
const TICK: NanoSpan = NanoSpan::from_millis(50);
static TICK_SPAN: Timespec = Timespec::new().nsec(TICK.get() as u32);
/// What ends when it is cancelled does so within this.
const CANCELLED_WITHIN: NanoSpan = NanoSpan::from_millis(1000);

/// One `io_uring` with its files.
pub(crate) struct Ring {
    inner: End,
    clock: Clock,
    /// When the tick's entry in flight ends.
    tick_at: Option<Instant>,
    busy_poll: BusyPoll,
    /// Threads that do I/O of members, too.
    threads: Option<IoThreads>,
    /// What the array's thread is to do itself of what was for them.
    own: Vec<Entry>,
    /// Other threads wake the array's by this.
    wake_up: Arc<WakeUp>,
    /// An entry polls it.
    listens: bool,
    /// Files, by their places, whose every transfer is done by threads of the kernel.
    waiting_files: Vec<bool>,
    /// Threads of the kernel that are allowed beyond the usual, for I/O that does not end.
    made_way: u32,
    /// What is in flight is waited for no more.
    is_abandoned: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets a ring up with room for `files` registered files, which entries name by their place; all are empty. Waits look
    /// for completions for up to `busy_poll` before they sleep, where that has lately been worth it.
    ///
    /// # Errors
    /// [`RingError`] if this kernel or container gives no ring.
    pub(crate) fn new(files: u16, busy_poll: NanoSpan) -> Result<Self, RingError> {
        let places = Some(COMPLETION_ENTRIES);
        let options = RingOptions { tells_work: true, end_places: places, ..RingOptions::default() };
        let inner = End::new(QUEUE_ENTRIES, options, files)?;
        let busy_poll = BusyPoll::new(Duration::from_nanos(busy_poll.get()));
        let wake_up = WakeUp::new().map_err(|source| RingError { doing: "make a descriptor", source })?;
        Ok(Self {
            inner,
            clock: Clock::new(),
            tick_at: None,
            busy_poll,
            threads: None,
            own: Vec::new(),
            wake_up: Arc::new(wake_up),
            listens: false,
            waiting_files: vec![false; usize::from(files)],
            made_way: 0,
            is_abandoned: false,
        })
    }

    /// Has `count` other threads do I/O of members, too. No file and no buffer may be registered yet.
    ///
    /// # Errors
    /// [`RingError`] if the system gives no ring or no thread.
    pub(crate) fn start_io_threads(&mut self, count: usize) -> Result<(), RingError> {
        if count > 0 {
            self.threads = Some(IoThreads::start(count, self.waiting_files.len() as u16, &self.wake_up)?);
        }
        Ok(())
    }

    /// By which other threads wake the one that waits in this ring.
    pub(crate) fn wake_up(&self) -> Arc<WakeUp> {
        Arc::clone(&self.wake_up)
    }

    /// Allows the kernel so many threads more than usual in all, at least: each I/O that does not end may hold one, and flushes of
    /// other members need theirs.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses what it has taken before.
    pub(crate) fn make_way(&mut self, count: u32) -> Result<(), RingError> {
        if count <= self.made_way {
            return Ok(());
        }
        let more = count - self.made_way;
        let threads = self.threads.as_ref().map_or(Ok(()), |threads| threads.make_way(more));
        let own = self.inner.allow_threads(more);
        own.and(threads)
            .map_err(|source| RingError { doing: "allow the kernel more threads for I/O", source })?;
        self.made_way = count;
        Ok(())
    }

    /// Entries that other threads have done.
    pub(crate) fn io_thread_entries(&self) -> u64 {
        self.threads.as_ref().map_or(0, IoThreads::done)
    }

    /// Registers `file` at `place`, instead of what was there. What is in flight goes on with the file that it has.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn set_file(&mut self, place: u16, file: RawFd) -> Result<(), RingError> {
        // Entries that were not submitted yet name their file by its place.
        if let Some(threads) = &mut self.threads {
            threads.set_file(place, file, &mut self.own).map_err(files_refused)?;
        }
        self.enter(None)?;
        self.waiting_files[usize::from(place)] = false;
        self.inner.set_file(place, file)
    }

    /// Has threads of the kernel do every transfer of the file at `place`, because the thread that submits would wait for it.
    pub(crate) fn hand_over_file(&mut self, place: u16) {
        self.waiting_files[usize::from(place)] = true;
    }

    /// Takes the file at `place` out of the table: the kernel keeps it open no more when nothing is in flight on it.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn clear_file(&mut self, place: u16) -> Result<(), RingError> {
        self.set_file(place, NO_FILE)
    }

    /// Makes a table of `count` registered buffers, all empty. Returns whether this kernel has such tables.
    pub(crate) fn make_buffer_table(&mut self, count: u16) -> bool {
        let threads = self.threads.as_ref().map_or(Ok(()), |threads| threads.make_buffer_table(count));
        match self.inner.make_buffer_table(count).and(threads) {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(%error, "no table of registered buffers; buffers are mapped per I/O");
                false
            }
        }
    }

    /// Registers `buffers` as the numbers from `first` on. Their memory must stay mapped while they are
    /// registered or until the ring is dropped.
    ///
    /// # Errors
    /// What the system said, usually that `RLIMIT_MEMLOCK` is too low.
    pub(crate) fn register_buffers(&mut self, first: u16, buffers: &[IoVec]) -> io::Result<()> {
        // SAFETY: the caller keeps the memory mapped.
        unsafe { self.inner.register_buffers(first, buffers)? };
        self.threads.as_ref().map_or(Ok(()), |threads| threads.register_buffers(first, buffers))
    }

    /// Time since the ring was made.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Entries that the kernel has not completed yet.
    pub(crate) fn in_flight(&self) -> u32 {
        let dealt = self.threads.as_ref().map_or(0, IoThreads::in_flight) + self.own.len() as u32;
        self.inner.in_flight() + dealt - u32::from(self.tick_at.is_some()) - u32::from(self.listens)
    }

    /// Entries pushed that no wait has submitted yet.
    pub(crate) fn unsubmitted(&mut self) -> u32 {
        let undealt = self.threads.as_ref().map_or(0, IoThreads::undealt);
        self.inner.unsubmitted() + undealt as u32
    }

    /// Whether other threads have ended entries.
    #[inline]
    pub(crate) fn has_ends_of_threads(&self) -> bool {
        self.threads.as_ref().is_some_and(IoThreads::has_ends)
    }

    /// Queues a transfer at byte `offset` of `file`. The memory must stay as it is, and a list of pieces must stay
    /// where it is, until the completion.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_transfer(
        &mut self,
        number: u32,
        file: u16,
        direction: Direction,
        offset: u64,
        target: Target<'_>,
    ) -> Result<(), RingError> {
        let mut entry = entries::transfer(of(file), direction, offset, target);
        if self.waiting_files[usize::from(file)] {
            entry = entry.flags(Flags::ASYNC);
        }
        self.push_member(number, entry, target.bytes())
    }

    /// Queues a flush of `file`'s data to stable storage.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_flush(&mut self, number: u32, file: u16) -> Result<(), RingError> {
        let flush = of(file).entry(|file| opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build());
        self.push_member(number, flush, 0)
    }

    /// Queues an entry of a member's I/O of `bytes`, for whichever thread has time for it.
    #[inline]
    fn push_member(&mut self, number: u32, entry: Entry, bytes: usize) -> Result<(), RingError> {
        let Some(threads) = &mut self.threads else { return self.push(Owner::Member, number, entry) };
        threads.add(entry.user_data(user_data(Owner::Member, number)), bytes);
        Ok(())
    }

    /// Waits for `descriptor`, which stays open, to be readable: once.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_line(&mut self, number: u32, descriptor: RawFd) -> Result<(), RingError> {
        self.push(Owner::Line, number, entries::readable(FileRef::open(&descriptor)))
    }

    /// Queues an entry of the port. Its memory stays as it is until its last completion.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_port(&mut self, number: u32, entry: Entry) -> Result<(), RingError> {
        self.push(Owner::Port, number, entry)
    }

    /// Queues an entry of a link. Its memory stays as it is until its completion.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_link(&mut self, link: u32, what: LinkEntry, entry: Entry) -> Result<(), RingError> {
        self.push(Owner::Link, what.number(link), entry)
    }

    /// Ends what is in flight under this name early, if that is possible. Its completion comes all the same.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn cancel(&mut self, owner: Owner, number: u32) -> Result<(), RingError> {
        self.push(Owner::Cancel, 0, opcode::AsyncCancel::new(user_data(owner, number)).build())
    }

    /// Ends everything in flight on the file at `place` early, as far as that is possible (Linux 6.0). Completions come all the same.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn cancel_file(&mut self, place: u16) -> Result<(), RingError> {
        if let Some(threads) = &self.threads {
            threads.cancel_file(place);
        }
        let all = CancelBuilder::fd(Fixed(place.into())).all();
        self.push(Owner::Cancel, 0, opcode::AsyncCancel2::new(all).build())
    }

    fn push(&mut self, owner: Owner, number: u32, entry: Entry) -> Result<(), RingError> {
        self.push_named(&entry.user_data(user_data(owner, number)))
    }

    #[inline]
    fn push_named(&mut self, entry: &Entry) -> Result<(), RingError> {
        // SAFETY: callers keep the memory that the entry names until its completion, and never drop it
        // before `quiesce`.
        while !unsafe { self.inner.try_push(entry) } {
            self.inner.submit().map_err(not_submitted)?;
        }
        Ok(())
    }

    /// Leaves entries to other threads, and queues those that this thread does itself.
    #[inline]
    fn deal(&mut self, would_wait: bool) -> Result<(), RingError> {
        let Some(threads) = &mut self.threads else { return Ok(()) };
        threads.deal(would_wait && !threads.has_ends(), &mut self.own)?;
        let mut own = std::mem::take(&mut self.own);
        let pushed = own.drain(..).try_for_each(|entry| self.push_named(&entry));
        self.own = own;
        pushed
    }

    /// As [`Ring::enter`] for up to `span`, and ends when `workers` have finished something as well.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses the submission.
    pub(crate) fn enter_beside(&mut self, workers: &Workers, span: NanoSpan) -> Result<(), RingError> {
        if workers.out() == 0 {
            return self.enter(Some(span));
        }
        self.listen()?;
        self.wake_up.begin_sleep();
        let entered = self.enter(Some(if workers.has_news() { NanoSpan::ZERO } else { span }));
        self.wake_up.end_sleep();
        entered
    }

    /// Has an entry poll the wake-up.
    fn listen(&mut self) -> Result<(), RingError> {
        if !self.listens {
            let poll = entries::readable(FileRef::open(&self.wake_up.descriptor()));
            self.push_named(&poll.user_data(WAKE_UP_USER))?;
            self.listens = true;
        }
        Ok(())
    }

    /// Submits what is queued, then waits until a completion is there, `timeout` is over or a signal came. Without
    /// `timeout` it does not wait at all.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses the submission.
    pub(crate) fn enter(&mut self, timeout: Option<NanoSpan>) -> Result<(), RingError> {
        let waits = timeout.is_some_and(|span| span > NanoSpan::ZERO);
        self.deal(waits)?;
        let has_dealt = self.threads.as_ref().is_some_and(|threads| threads.in_flight() > 0);
        let outcome = match timeout {
            None | Some(NanoSpan::ZERO) => self.submit(),
            Some(span) if has_dealt => return self.wait_for_threads(span),
            Some(span) if self.busy_poll.is_off() => self.sleep(span),
            Some(span) => self.look_then_sleep(span),
        };
        outcome.map_err(not_submitted)
    }

    /// Submits what is queued and makes the ends appear that are there. Where other threads do most of the I/O, often neither takes
    /// a call.
    fn submit(&mut self) -> Result<(), Errno> {
        if self.threads.is_some() && self.inner.unsubmitted() == 0 && !self.inner.holds_back() {
            return Ok(());
        }
        self.inner.submit()
    }

    /// Submits what is queued and looks for ends, here and of other threads, for up to `limit`. Returns whether there is one.
    fn look(&mut self, limit: Duration) -> Result<bool, Errno> {
        let begin = Instant::now();
        self.submit()?;
        while self.inner.ready() == 0 && !self.has_ends_of_threads() {
            if begin.elapsed() >= limit {
                return Ok(false);
            }
            if self.inner.holds_back() {
                self.inner.submit()?;
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(true)
    }

    /// Looks for ends, of other threads as well, for a while, and sleeps until there is one or `span` is over.
    fn wait_for_threads(&mut self, span: NanoSpan) -> Result<(), RingError> {
        let limit = LOOK_FOR.min(Duration::from_nanos(span.get()));
        if self.look(limit).map_err(not_submitted)? { Ok(()) } else { self.sleep_beside_threads(span) }
    }

    fn sleep_beside_threads(&mut self, span: NanoSpan) -> Result<(), RingError> {
        self.listen()?;
        self.wake_up.begin_sleep();
        let slept = if self.has_ends_of_threads() { self.inner.submit() } else { self.sleep(span) };
        self.wake_up.end_sleep();
        slept.map_err(not_submitted)
    }

    /// Submits what is queued and sleeps until a completion is there or `span` is over.
    fn sleep(&mut self, span: NanoSpan) -> Result<(), Errno> {
        if !self.inner.keeps_limits() && self.ticks_within(span) {
            return self.inner.submit_and_wait_for_one();
        }
        self.inner.submit_and_wait(span)
    }

    /// As [`Ring::sleep`], after looking for completions for as long as that is worth it.
    fn look_then_sleep(&mut self, span: NanoSpan) -> Result<(), Errno> {
        let begin = Instant::now();
        if let Some(limit) = self.busy_poll.look_for() {
            let found = self.look(limit.min(Duration::from_nanos(span.get())));
            if found != Ok(false) {
                self.busy_poll.learn(begin.elapsed());
                return found.map(drop);
            }
        }
        let slept = self.sleep(span);
        self.busy_poll.learn(begin.elapsed());
        slept
    }

    /// Returns whether the tick ends a wait of `span` in time, after queueing one if none is on its way.
    fn ticks_within(&mut self, span: NanoSpan) -> bool {
        let now = Instant::now();
        if let Some(at) = self.tick_at {
            return at.saturating_duration_since(now) <= Duration::from_nanos(span.get());
        }
        if span < TICK {
            return false;
        }
        let entry = opcode::Timeout::new(&raw const TICK_SPAN).build().user_data(TICK_USER);
        // SAFETY: the span is static.
        let queued = unsafe { self.inner.try_push(&entry) };
        if queued {
            self.tick_at = Some(now + Duration::from_nanos(TICK.get()));
        }
        queued
    }

    /// Appends all completions that are there to `out`.
    pub(crate) fn reap(&mut self, out: &mut Vec<Done>) {
        self.inner.ready();
        while let Some(end) = self.inner.next_end() {
            if end.name == TICK_USER {
                self.tick_at = None;
            } else if end.name == WAKE_UP_USER {
                self.wake_up.clear();
                self.listens = false;
            } else {
                out.push(Done::of(end));
            }
        }
        if let Some(threads) = &mut self.threads {
            threads.reap(|end| out.push(Done::of(end)));
        }
    }

    /// Waits until nothing is in flight and forgets the completions.
    pub(crate) fn quiesce(&mut self) {
        self.quiesce_within(None);
    }

    /// The same, but what has not ended within `limit` is cancelled, and what has not ended then is abandoned: the ring
    /// waits for nothing any more. Returns whether nothing is in flight; if not, the kernel may touch its memory at any time.
    pub(crate) fn quiesce_within(&mut self, limit: Option<NanoSpan>) -> bool {
        const PATIENCE: NanoSpan = NanoSpan::from_millis(100);
        let began = self.now();
        let (mut done, mut is_cancelled) = (Vec::new(), false);
        // A line may stay silent for ever.
        let cancelled = (0..LINES).try_for_each(|line| self.cancel(Owner::Line, line));
        if let Err(error) = cancelled {
            tracing::debug!(%error, "lines are not cancelled");
        }
        while self.in_flight() > 0 && !self.is_abandoned {
            let end = limit.map(|limit| began + limit);
            let over = end.map(|end| self.now().saturating_since(end));
            if over.is_some_and(|over| over > NanoSpan::ZERO) && !is_cancelled {
                is_cancelled = true;
                if let Some(threads) = &self.threads {
                    threads.cancel_all();
                }
                let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
                self.is_abandoned |= self.push(Owner::Cancel, 0, all).is_err();
            }
            if let Err(error) = self.enter(Some(PATIENCE)) {
                // Without a working ring the kernel holds no more of our memory than what it pinned itself.
                tracing::error!(%error, "{} I/Os were left in flight", self.in_flight());
                return false;
            }
            self.reap(&mut done);
            done.clear();
            self.is_abandoned |= over.is_some_and(|over| over > CANCELLED_WITHIN) && self.in_flight() > 0;
        }
        if self.is_abandoned {
            if let Some(threads) = &self.threads {
                threads.abandon();
            }
            tracing::warn!("{} I/Os do not end and are left to the kernel", self.in_flight());
        }
        self.in_flight() == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.is_abandoned {
            self.quiesce();
        }
        // The tick may be in flight still; it has no file.
        if self.in_flight() == 0 {
            self.inner.unregister_files();
        }
    }
}

fn not_submitted(errno: Errno) -> RingError {
    RingError { doing: "submit I/O to io_uring", source: errno.into() }
}

fn files_refused(source: io::Error) -> RingError {
    RingError { doing: "register the member files with io_uring", source }
}

/// The registered file at a place.
fn of(place: u16) -> FileRef {
    FileRef::registered(place.into())
}

#[cfg(test)]
mod tests;
