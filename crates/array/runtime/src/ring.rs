//! The array's `io_uring`: whose entry is whose, registered files that come and go, waiting, and the end.
//!
//! Entries belong to the members, to their links, to the host's port or to the operator's line; each owner has its own
//! numbers. Registered files are a table with empty places, so that devices can come and go while the ring runs.
//!
//! Only the thread that made the ring uses it. An entry names its memory by address, so its owner keeps that memory
//! until the completion; [`Ring::quiesce`] waits for all.
//!
//! Long transfers may be handed to kernel threads ([`Ring::hand_over`]), so that other processors do the work: for a
//! file in memory that is the copy itself. Any thread may do an entry, because the controller orders I/O by completions
//! alone: an I/O that must not overtake a write (a flush, another write of the same blocks) is issued after that write
//! has ended. Waking a thread takes longer than a few transfers, so nothing is handed over while there is no more to do
//! ([`Ring::set_crowded`]).
//!
//! Source: `io_uring_enter(2)`, `io_uring_register(2)`; [`raidlab_device::ring`] is the ring itself.
#![allow(unsafe_code)]

pub(crate) use raidlab_device::ring::entries::{Direction, PIECES_PER_ENTRY, Target};

use crate::busy_poll::BusyPoll;
use crate::error::RingError;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fixed, FsyncFlags, Timespec};
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{IoVec, Ring as Uring, RingOptions};
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Room for entries between two submissions; a full queue is submitted early.
const QUEUE_ENTRIES: u32 = 256;
/// Shorter transfers are not handed over: that takes as long as they do.
const WORTH_THE_WAY_BYTES: usize = 64 << 10;
/// Room for completions; the kernel keeps more aside, at a price.
const COMPLETION_ENTRIES: u32 = 4096;
/// An empty place among the registered files.
const NO_FILE: RawFd = -1;

/// Whose entry it is. Each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A member I/O.
    Member,
    /// An entry of the host's port.
    Port,
    /// Waiting for the line of an operator.
    Line,
    /// The end of another early; nobody needs to hear of it.
    Cancel,
    /// A link to a member that is an NBD export, named by [`LinkEntry`].
    Link,
}

const OWNERS: [Owner; 5] = [Owner::Member, Owner::Port, Owner::Line, Owner::Cancel, Owner::Link];
/// Lines that are waited for are numbered below this.
const LINES: u32 = 3;
/// Number of the line on which parity threads wake the array's. Those below are the operator's.
pub(crate) const WAKE_UP_LINE: u32 = LINES - 1;
/// How often a wait without a nearer end is over. One timer in the ring does for all waits: a timer of its own for each
/// would cost more than all else where requests come one at a time.
const TICK: NanoSpan = NanoSpan::from_millis(50);
static TICK_SPAN: Timespec = Timespec::new().nsec(TICK.get() as u32);
/// The name of the tick's entry.
const TICK_USER: u64 = (OWNERS.len() as u64) << NUMBER_BITS;
/// What ends when it is cancelled does so within this.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

/// The entries of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEntry {
    /// Its receive.
    Receive,
    /// Its send.
    Send,
}

impl LinkEntry {
    /// The number of a link's entry.
    pub(crate) const fn number(self, link: u32) -> u32 {
        link << 1 | matches!(self, Self::Send) as u32
    }

    /// The link and the entry that a number names.
    pub(crate) const fn of(number: u32) -> (u32, Self) {
        (number >> 1, if number & 1 == 1 { Self::Send } else { Self::Receive })
    }
}

/// Bits of an entry's number; its owner stands above them.
const NUMBER_BITS: u32 = 32;

/// What the kernel said of one entry: its owner and the number it was pushed with, and bytes moved or an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// As pushed.
    pub(crate) owner: Owner,
    /// As pushed.
    pub(crate) number: u32,
    /// Bytes moved, or why not.
    pub(crate) result: Result<u32, Errno>,
    /// Flags of the completion (`IORING_CQE_F_*`).
    pub(crate) flags: u32,
}

/// One `io_uring` with its files.
pub(crate) struct Ring {
    inner: Uring,
    /// When the tick's entry in flight ends.
    tick_at: Option<Instant>,
    busy_poll: BusyPoll,
    /// Long transfers are done by threads of the kernel.
    hands_over: bool,
    /// There is so much to do that they are worth the way to another thread.
    is_crowded: bool,
    handed_over: u64,
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
        let mut notes = Vec::new();
        let mut inner = Uring::new(QUEUE_ENTRIES, options, &mut notes)?;
        for note in notes {
            tracing::debug!("{note}");
        }
        inner.register_files(&vec![NO_FILE; usize::from(files)]).map_err(files_refused)?;
        let busy_poll = BusyPoll::new(Duration::from_nanos(busy_poll.get()));
        Ok(Self {
            inner,
            tick_at: None,
            busy_poll,
            hands_over: false,
            is_crowded: true,
            handed_over: 0,
            waiting_files: vec![false; usize::from(files)],
            made_way: 0,
            is_abandoned: false,
        })
    }

    /// Has threads of the kernel, up to `threads`, do long transfers from here on, and flushes, which they do anyway.
    ///
    /// # Errors
    /// [`RingError`] if the kernel has no such limit: Linux 5.15 has.
    pub(crate) fn hand_over(&mut self, threads: u32) -> Result<(), RingError> {
        // Files and block devices are the first number's; the second is that of sockets, and stays.
        let limited = self.inner.submitter().register_iowq_max_workers(&mut [threads, 0]);
        limited.map_err(|source| RingError { doing: "bound the kernel's threads for I/O", source })?;
        self.hands_over = true;
        Ok(())
    }

    /// Allows the kernel so many threads more than usual in all, at least: each I/O that does not end may hold one, and flushes of
    /// other members need theirs.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses what it has taken before.
    pub(crate) fn make_way(&mut self, threads: u32) -> Result<(), RingError> {
        if threads <= self.made_way {
            return Ok(());
        }
        // Zeros ask. Before Linux 5.15 there is nothing to ask.
        let mut limits = [0, 0];
        if self.inner.submitter().register_iowq_max_workers(&mut limits).is_ok() {
            let mut more = [limits[0].saturating_add(threads - self.made_way), 0];
            let set = self.inner.submitter().register_iowq_max_workers(&mut more);
            set.map_err(|source| RingError { doing: "allow the kernel more threads for I/O", source })?;
        }
        self.made_way = threads;
        Ok(())
    }

    /// Says whether long transfers are handed over that are pushed from here on, where they are at all.
    pub(crate) const fn set_crowded(&mut self, is_crowded: bool) {
        self.is_crowded = is_crowded;
    }

    /// Transfers that were handed over.
    pub(crate) const fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// Registers `file` at `place`, instead of what was there. What is in flight goes on with the file that it has.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn set_file(&mut self, place: u16, file: RawFd) -> Result<(), RingError> {
        // Entries that were not submitted yet name their file by its place.
        self.enter(None)?;
        self.waiting_files[usize::from(place)] = false;
        let set = self.inner.submitter().register_files_update(u32::from(place), &[file]);
        set.map(drop).map_err(files_refused)
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
        match self.inner.submitter().register_buffers_sparse(u32::from(count)) {
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
        unsafe { self.inner.register_buffers(Some(first), buffers) }
    }

    /// Entries that the kernel has not completed yet.
    pub(crate) fn in_flight(&self) -> u32 {
        self.inner.in_flight() - u32::from(self.tick_at.is_some())
    }

    /// Entries pushed that no wait has submitted yet.
    pub(crate) fn unsubmitted(&mut self) -> u32 {
        self.inner.unsubmitted()
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
        } else if self.hands_over && self.is_crowded && target.bytes() >= WORTH_THE_WAY_BYTES {
            entry = entry.flags(Flags::ASYNC);
            self.handed_over += 1;
        }
        self.push(Owner::Member, number, entry)
    }

    /// Queues a flush of `file`'s data to stable storage.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn push_flush(&mut self, number: u32, file: u16) -> Result<(), RingError> {
        let flush = of(file).entry(|file| opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build());
        self.push(Owner::Member, number, flush)
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
        let all = CancelBuilder::fd(Fixed(place.into())).all();
        self.push(Owner::Cancel, 0, opcode::AsyncCancel2::new(all).build())
    }

    fn push(&mut self, owner: Owner, number: u32, entry: Entry) -> Result<(), RingError> {
        let entry = entry.user_data(user_data(owner, number));
        // SAFETY: callers keep the memory that the entry names until its completion, and never drop it
        // before `quiesce`.
        while !unsafe { self.inner.try_push(&entry) } {
            self.enter(None)?;
        }
        Ok(())
    }

    /// Submits what is queued, then waits until a completion is there, `timeout` is over or a signal came. Without
    /// `timeout` it does not wait at all.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses the submission.
    pub(crate) fn enter(&mut self, timeout: Option<NanoSpan>) -> Result<(), RingError> {
        let outcome = match timeout {
            None | Some(NanoSpan::ZERO) => self.inner.submit(),
            Some(span) if self.busy_poll.is_off() => self.sleep(span),
            Some(span) => self.look_then_sleep(span),
        };
        outcome.map_err(|errno| RingError { doing: "submit I/O to io_uring", source: errno.into() })
    }

    /// Submits what is queued and sleeps until a completion is there or `span` is over.
    fn sleep(&mut self, span: NanoSpan) -> Result<(), Errno> {
        if self.ticks_within(span) {
            return self.inner.submit_and_wait_for_one();
        }
        self.inner.submit_and_wait(span)
    }

    /// As [`Ring::sleep`], after looking for completions for as long as that is worth it.
    fn look_then_sleep(&mut self, span: NanoSpan) -> Result<(), Errno> {
        let begin = Instant::now();
        if let Some(limit) = self.busy_poll.look_for() {
            let limit = limit.min(Duration::from_nanos(span.get()));
            let mut submitted = self.inner.submit();
            while submitted.is_ok() && self.inner.ready() == 0 {
                if begin.elapsed() >= limit {
                    break;
                }
                if self.inner.holds_back() {
                    submitted = self.inner.submit();
                } else {
                    std::hint::spin_loop();
                }
            }
            if submitted.is_err() || self.inner.ready() > 0 {
                self.busy_poll.learn(begin.elapsed());
                return submitted;
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
                continue;
            }
            out.push(Done {
                owner: OWNERS[(end.name >> NUMBER_BITS) as usize],
                number: end.name as u32,
                result: u32::try_from(end.result).map_err(|_| Errno::from_raw_os_error(-end.result)),
                flags: end.flags,
            });
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
        let began = Instant::now();
        let (mut done, mut is_cancelled) = (Vec::new(), false);
        // A line may stay silent for ever.
        let cancelled = (0..LINES).try_for_each(|line| self.cancel(Owner::Line, line));
        if let Err(error) = cancelled {
            tracing::debug!(%error, "lines are not cancelled");
        }
        while self.in_flight() > 0 && !self.is_abandoned {
            let over = limit.map(|limit| began.elapsed().saturating_sub(Duration::from_nanos(limit.get())));
            if over.is_some_and(|over| over > Duration::ZERO) && !is_cancelled {
                is_cancelled = true;
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

const fn user_data(owner: Owner, number: u32) -> u64 {
    (owner as u64) << NUMBER_BITS | number as u64
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
