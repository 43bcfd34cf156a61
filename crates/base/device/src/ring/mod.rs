//! An `io_uring` in its parts: a submission queue, a completion queue, and the one system call.
//!
//! ```text
//! push ─► submission queue ─┐                      memory that the kernel shares
//!                           ├─ enter ─► kernel
//! next ◄─ completion queue ─┘
//! ```
//! The parts live as long as the ring, so an entry costs only a store into the queue, and the system call finds the
//! ring by its registered number. The ring is set up with the best options of the kernel ([`RingOptions`]); unsupported
//! ones are left out, with a note. [`entries`] makes the entries that several users have.
//!
//! Invariants: the parts are dropped before the ring that they point into; files stay registered no longer than the
//! ring is used, because the kernel takes a ring down some time after it was closed, and a device would stay claimed.
//!
//! Left out: what an entry's name means, when to poll instead of sleeping, and for what is waited at the end. Load and
//! arrays differ there.
//! Source: `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`; liburing.
#![allow(unsafe_code)]

pub mod entries;
mod pieces;

pub use pieces::{IoVec, MessageHeader};

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue};
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How long the kernel's submitting thread stays awake without work.
const KERNEL_THREAD_IDLE_MS: u32 = 50;
/// Longest buffer that can be registered in one piece: 1 GiB.
pub const REGISTERED_BYTES_MAX: u64 = 1 << 30;

/// What a ring is wanted to do beyond the plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingOptions {
    /// Ends are polled for at the device instead of told by its interrupt (`IOPOLL`).
    pub io_poll: bool,
    /// A thread of the kernel takes entries by itself (`SQPOLL`).
    pub kernel_thread: bool,
    /// The kernel says when it holds back ends ([`Ring::holds_back`]), for a loop that looks for them without calls.
    pub tells_work: bool,
    /// Places for ends, if other than twice those for entries.
    pub end_places: Option<u32>,
}

/// `io_uring` can't be set up or used.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't {doing}: {source}; io_uring needs Linux 5.11 or later, must not be switched off \
     (/proc/sys/kernel/io_uring_disabled), and a container's seccomp profile must allow it"
)]
pub struct RingError {
    /// What was tried.
    pub doing: &'static str,
    /// What the system said.
    pub source: io::Error,
}

/// The end of an entry, or one of several.
#[derive(Clone, Copy, Debug)]
pub struct EntryEnd {
    /// The name that the entry was pushed with.
    pub name: u64,
    /// What the kernel answers: a length, or an error number below zero.
    pub result: i32,
    /// `IORING_CQE_F_*`.
    pub flags: u32,
}

impl EntryEnd {
    /// Whether the same entry will have more ends.
    #[inline]
    pub fn is_followed(&self) -> bool {
        cqueue::more(self.flags)
    }
}

/// A ring; it belongs to the thread that made it.
pub struct Ring {
    // The order matters: fields are dropped from the top.
    submitter: Submitter<'static>,
    entries: SubmissionQueue<'static>,
    ends: CompletionQueue<'static>,
    options: RingOptions,
    in_flight: u32,
    has_files: bool,
    /// The last call that was to submit only brought ends as well.
    answers_at_once: bool,
    _owner: Owner,
}

/// Gives the ring back that the parts point into.
struct Owner(NonNull<IoUring>);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` in `Ring::new`, and the parts that pointed there are gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets a ring up with `places` entries, as near to `options` as the kernel goes; `notes` gets what it refuses.
    ///
    /// # Errors
    /// [`RingError`] if this kernel or container gives no ring.
    pub fn new(places: u32, options: RingOptions, notes: &mut Vec<String>) -> Result<Self, RingError> {
        let (ring, options) = build(places, options, notes)
            .map_err(|errno| RingError { doing: "set up io_uring", source: errno.into() })?;
        if !ring.params().is_feature_ext_arg() {
            let source = Errno::OPNOTSUPP.into();
            return Err(RingError { doing: "wait for io_uring with a time limit", source });
        }
        let owner = Owner(NonNull::from(Box::leak(Box::new(ring))));
        // SAFETY: the box stays where it is until `owner` is dropped, after the parts; nothing else refers to it.
        let (mut submitter, entries, ends) = unsafe { &mut *owner.0.as_ptr() }.split();
        if let Err(error) = submitter.register_ring_fd() {
            notes.push(format!("the ring has no registered number ({error}): each call costs a little more"));
        }
        let (in_flight, has_files, answers_at_once) = (0, false, false);
        Ok(Self { submitter, entries, ends, options, in_flight, has_files, answers_at_once, _owner: owner })
    }

    /// What the kernel takes for registration, other than files and memory.
    pub fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    /// What it does beyond the plain.
    pub fn options(&self) -> RingOptions {
        self.options
    }

    /// Registers `files` by their places in the list; -1 is an empty place.
    ///
    /// # Errors
    /// What the system said.
    pub fn register_files(&mut self, files: &[RawFd]) -> io::Result<()> {
        self.submitter.register_files(files)?;
        self.has_files = true;
        Ok(())
    }

    /// Gives the files up, on which nothing is in flight: that would be waited for.
    pub fn unregister_files(&mut self) {
        if std::mem::take(&mut self.has_files)
            && let Err(error) = self.submitter.unregister_files()
        {
            tracing::debug!(%error, "the files stay registered until the kernel has taken the ring down");
        }
    }

    /// Registers `buffers`: as the numbers from `first` on of a table that was made, else as all that there are.
    ///
    /// # Safety
    /// Their memory stays mapped while they are registered, or until the ring is dropped.
    ///
    /// # Errors
    /// What the system said, usually that `RLIMIT_MEMLOCK` is too low.
    pub unsafe fn register_buffers(&self, first: Option<u16>, buffers: &[IoVec]) -> io::Result<()> {
        // SAFETY: `IoVec` has the layout of `struct iovec`; the memory is as the caller promises.
        unsafe {
            let list = std::slice::from_raw_parts(buffers.as_ptr().cast(), buffers.len());
            match first {
                Some(first) => self.submitter.register_buffers_update(first.into(), list, None),
                None => self.submitter.register_buffers(list),
            }
        }
    }

    /// Queues an entry where there is a place for it, as the caller knows.
    ///
    /// # Safety
    /// As [`Ring::try_push`].
    ///
    /// # Panics
    /// If more entries are pushed than the ring has slots.
    #[inline]
    pub unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: as the caller promises.
        let pushed = unsafe { self.try_push(entry) };
        assert!(pushed, "the queue has a place for every slot");
    }

    /// Queues an entry. Returns whether there was a place for it.
    ///
    /// # Safety
    /// Memory and files that it names stay as they are until its last end was taken.
    #[inline]
    #[must_use]
    pub unsafe fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: as the caller promises.
        if unsafe { self.entries.push(entry) }.is_err() {
            // Its view of what the kernel took is an old one.
            self.entries.sync();
            // SAFETY: as above.
            if unsafe { self.entries.push(entry) }.is_err() {
                return false;
            }
        }
        self.in_flight += 1;
        true
    }

    /// Entries pushed whose last ends were not taken.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the next end that lies ready.
    #[inline]
    pub fn next_end(&mut self) -> Option<EntryEnd> {
        let end = self.ends.next()?;
        let end = EntryEnd { name: end.user_data(), result: end.result(), flags: end.flags() };
        self.in_flight -= u32::from(!end.is_followed());
        Some(end)
    }

    /// Number of ends that lie ready.
    #[inline]
    pub fn ready(&mut self) -> u32 {
        self.ends.sync();
        self.ends.len() as u32
    }

    /// Entries that the kernel was not told of.
    #[inline]
    pub fn unsubmitted(&mut self) -> u32 {
        self.entries.sync();
        self.entries.len() as u32
    }

    /// Whether the kernel has ends that the next call makes appear, on a ring that tells so.
    pub fn holds_back(&self) -> bool {
        self.entries.taskrun()
    }

    /// Has the kernel take what is queued and makes the ends appear that are there, without a wait.
    ///
    /// # Errors
    /// What it answers if it takes nothing at all.
    #[inline]
    pub fn submit(&mut self) -> Result<(), Errno> {
        self.enter(0, None)
    }

    /// Has the kernel take what is queued and returns when an end lies ready, a signal came or `at_most` is over.
    ///
    /// # Errors
    /// What it answers if it takes nothing and can't be waited for at all.
    #[inline]
    pub fn submit_and_wait(&mut self, at_most: NanoSpan) -> Result<(), Errno> {
        let is_queued = self.unsubmitted() > 0;
        let is_ready = self.ready() > 0;
        if is_ready && !is_queued {
            return Ok(());
        }
        // A wait takes a time limit, which the kernel copies. Storage that answers within the call needs none.
        if is_ready || (is_queued && self.answers_at_once) {
            self.enter(0, None)?;
            self.answers_at_once = self.ready() > 0;
            if self.answers_at_once {
                return Ok(());
            }
        }
        let limit = Timespec::from(Duration::from_nanos(at_most.get()));
        self.enter(1, Some(SubmitArgs::new().timespec(&limit)))
    }

    /// The same without a limit, for callers with an entry in flight that ends in time.
    ///
    /// # Errors
    /// What it answers if it takes nothing and can't be waited for at all.
    pub fn submit_and_wait_for_one(&mut self) -> Result<(), Errno> {
        if self.ready() > 0 { self.enter(0, None) } else { self.enter(1, None) }
    }

    #[inline]
    fn enter(&mut self, wanted: u32, limit: Option<SubmitArgs<'_, '_>>) -> Result<(), Errno> {
        self.entries.sync();
        let mut flags = EnterFlags::GETEVENTS;
        if limit.is_some() {
            flags |= EnterFlags::EXT_ARG;
        }
        if self.options.kernel_thread {
            fence(Ordering::SeqCst);
            if self.entries.need_wakeup_after_intermittent_seqcst() {
                flags |= EnterFlags::SQ_WAKEUP;
            } else if wanted == 0 && !self.options.io_poll {
                return Ok(());
            }
        }
        let queued = self.entries.len() as u32;
        // SAFETY: the argument is the structure that the flags say, or none.
        let entered = unsafe { self.submitter.enter(queued, wanted, flags.bits(), limit.as_ref()) };
        let judged = unless_momentary(entered);
        if wanted > 0 {
            self.answers_at_once = self.ready() >= queued.max(1);
        }
        judged
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight == 0 {
            self.unregister_files();
        }
        // A thread has few such numbers, and each keeps its ring. Without one there is nothing to give back.
        let _ = self.submitter.unregister_ring_fd();
    }
}

/// Lets pass what is no failure: the time is over, a signal came, or the kernel is short of something for a moment.
/// In each case there may be ends, and the next call submits the rest.
#[inline]
fn unless_momentary(entered: io::Result<usize>) -> Result<(), Errno> {
    match entered {
        Ok(_) => Ok(()),
        Err(error) => match errno_of(&error) {
            Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY => Ok(()),
            errno => Err(errno),
        },
    }
}

/// Returns the system's error number; an error that has none counts as `EIO`.
pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Sets a ring up with the best flags that the kernel takes. Returns it and what of the wish it does.
fn build(places: u32, wish: RingOptions, notes: &mut Vec<String>) -> Result<(IoUring, RingOptions), Errno> {
    let mut errno = Errno::INVAL;
    let no_thread = RingOptions { kernel_thread: false, ..wish };
    let plain = RingOptions { end_places: wish.end_places, ..RingOptions::default() };
    let mut wishes = vec![wish];
    wishes.extend([no_thread, plain].into_iter().filter(|less| *less != wish));
    for wish_now in wishes {
        for (missing, flags) in plain_steps(wish_now) {
            match with_options(flags(&mut IoUring::builder()), wish_now).build(places) {
                Ok(ring) => {
                    note_missing(missing, wish, wish_now, notes);
                    return Ok((ring, wish_now));
                }
                Err(error) => errno = errno_of(&error),
            }
        }
        if errno == Errno::NOSYS {
            break;
        }
    }
    Err(errno)
}

type Flags = fn(&mut Builder) -> &mut Builder;

/// Flags that make a ring cheap, best first, each with what it lacks. A ring whose entries a thread of the kernel takes
/// does not defer the kernel's work to the waiting thread.
fn plain_steps(options: RingOptions) -> Vec<(&'static str, Flags)> {
    if options.kernel_thread {
        return vec![
            ("", |builder| builder.setup_single_issuer().setup_no_sqarray()),
            ("NO_SQARRAY", Builder::setup_single_issuer),
            ("SINGLE_ISSUER", |builder| builder),
        ];
    }
    vec![
        ("", |builder| {
            builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_no_sqarray()
        }),
        ("NO_SQARRAY", |builder| builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun()),
        ("SINGLE_ISSUER and DEFER_TASKRUN", Builder::setup_coop_taskrun),
        ("SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN", |builder| builder),
    ]
}

fn with_options(builder: &mut Builder, options: RingOptions) -> &mut Builder {
    if options.io_poll {
        builder.setup_iopoll();
    }
    if options.kernel_thread {
        builder.setup_sqpoll(KERNEL_THREAD_IDLE_MS);
    }
    if options.tells_work {
        builder.setup_taskrun_flag();
    }
    if let Some(places) = options.end_places {
        builder.setup_cqsize(places);
    }
    builder
}

fn note_missing(missing: &str, wish: RingOptions, done: RingOptions, notes: &mut Vec<String>) {
    if !missing.is_empty() {
        notes.push(format!(
            "this kernel makes an io_uring only without {missing}: requests cost a little more"
        ));
    }
    if wish.kernel_thread && !done.kernel_thread {
        notes
            .push("this kernel gives no submitting thread (SQPOLL): requests were submitted by calls".into());
    }
    if wish.io_poll && !done.io_poll {
        notes.push("this kernel makes no polled ring (IOPOLL): ends came by interrupt".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::opcode::Nop;

    fn ring(places: u32) -> (Ring, Vec<String>) {
        let mut notes = Vec::new();
        let ring = Ring::new(places, RingOptions::default(), &mut notes).expect("a ring can be made");
        (ring, notes)
    }

    #[test]
    fn entries_end_by_name_and_a_full_queue_says_so() {
        let (mut ring, _) = ring(4);
        // SAFETY: these entries name no memory.
        let pushed =
            (0..6).filter(|name| unsafe { ring.try_push(&Nop::new().build().user_data(*name)) }).count();
        assert_eq!((pushed, ring.unsubmitted(), ring.in_flight()), (4, 4, 4));
        ring.submit_and_wait_for_one().expect("it submits");
        assert_eq!((ring.unsubmitted(), ring.ready()), (0, 4));
        let names: Vec<u64> = std::iter::from_fn(|| ring.next_end()).map(|end| end.name).collect();
        assert_eq!((names, ring.in_flight()), (vec![0, 1, 2, 3], 0));
    }

    #[test]
    fn a_wait_for_nothing_ends_in_time() {
        let (mut ring, _) = ring(1);
        let begin = std::time::Instant::now();
        ring.submit_and_wait(NanoSpan::from_millis(5)).expect("the end of the time is no error");
        assert!(begin.elapsed() >= Duration::from_millis(5));
        assert!(ring.next_end().is_none());
    }

    /// A thread has 16 numbers.
    #[test]
    fn a_dropped_ring_gives_its_number_back() {
        let (_, expected) = ring(1);
        for number in 0..40 {
            assert_eq!(ring(1).1, expected, "ring {number}");
        }
    }
}
