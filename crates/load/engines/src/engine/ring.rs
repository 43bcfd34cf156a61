//! An `io_uring` in its parts: a submission queue, a completion queue, and the one system call.
//!
//! ```text
//! push ─► submission queue ─┐                      memory that the kernel shares
//!                           ├─ enter ─► kernel
//! next ◄─ completion queue ─┘
//! ```
//! The parts live as long as the ring, so an entry costs only a store into the queue, and the system call finds the
//! ring by its registered number. The ring is set up with the best options of the kernel ([`RingWish`]); unsupported
//! ones are left out, with a note.
//!
//! Invariants: the parts are dropped before the ring that they point into; no more entries are queued than it has
//! places.
//!
//! Source: `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`; liburing.
#![allow(unsafe_code)]

use super::NAME_URING;
use crate::error::{LoadError, errno_of};
use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter};
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How long the kernel's submitting thread stays awake without work.
const KERNEL_THREAD_IDLE_MS: u32 = 50;

/// What a ring is wanted to do beyond the plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingWish {
    /// Ends are polled for at the device instead of told by its interrupt (`IOPOLL`).
    pub(crate) io_poll: bool,
    /// A thread of the kernel takes entries by itself (`SQPOLL`).
    pub(crate) kernel_thread: bool,
}

/// The end of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryEnd {
    /// The name that the entry was pushed with.
    pub(crate) name: u64,
    /// What the kernel answers: a length, or an error number below zero.
    pub(crate) result: i32,
}

/// A ring; it belongs to the thread that made it.
pub(crate) struct Ring {
    // The order matters: fields are dropped from the top.
    submitter: Submitter<'static>,
    entries: SubmissionQueue<'static>,
    ends: CompletionQueue<'static>,
    wish: RingWish,
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
        f.debug_struct("Ring").field("wish", &self.wish).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets a ring up with `places` entries, as near to `wish` as the kernel goes; `notes` gets what it refuses.
    ///
    /// # Errors
    /// [`LoadError::Engine`] if this kernel or container gives no ring.
    pub(crate) fn new(places: u32, wish: RingWish, notes: &mut Vec<String>) -> Result<Self, LoadError> {
        let (ring, wish) = build(places, wish, notes)?;
        if !ring.params().is_feature_ext_arg() {
            let (op, errno) = ("wait with a time limit", Errno::OPNOTSUPP);
            return Err(LoadError::Engine { engine: NAME_URING, op, errno });
        }
        let owner = Owner(NonNull::from(Box::leak(Box::new(ring))));
        // SAFETY: the box stays where it is until `owner` is dropped, after the parts; nothing else refers to it.
        let (mut submitter, entries, ends) = unsafe { &mut *owner.0.as_ptr() }.split();
        if let Err(error) = submitter.register_ring_fd() {
            notes.push(format!("the ring has no registered number ({error}): each call costs a little more"));
        }
        Ok(Self { submitter, entries, ends, wish, answers_at_once: false, _owner: owner })
    }

    /// What the kernel takes for registration: files and memory.
    pub(crate) fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    /// What it does beyond the plain.
    pub(crate) fn wish(&self) -> RingWish {
        self.wish
    }

    /// Queues an entry.
    ///
    /// # Safety
    /// Memory and files that it names stay as they are until its end was taken.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: as the caller promises.
        if unsafe { self.entries.push(entry) }.is_err() {
            // Its view of what the kernel took is an old one.
            self.entries.sync();
            // SAFETY: as above.
            let pushed = unsafe { self.entries.push(entry) };
            assert!(pushed.is_ok(), "the queue has a place for every slot");
        }
    }

    /// Returns the next end that lies ready.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<EntryEnd> {
        let end = self.ends.next()?;
        Some(EntryEnd { name: end.user_data(), result: end.result() })
    }

    /// Number of ends that lie ready.
    #[inline]
    pub(crate) fn ready(&mut self) -> u32 {
        self.ends.sync();
        self.ends.len() as u32
    }

    /// Has the kernel take what is queued, without a wait.
    ///
    /// # Errors
    /// What it answers if it takes nothing at all.
    #[inline]
    pub(crate) fn submit(&mut self) -> Result<(), Errno> {
        self.enter(0, None)
    }

    /// Has the kernel take what is queued and returns when an end lies ready or `at_most` is over.
    ///
    /// # Errors
    /// What it answers if it takes nothing and can't be waited for at all.
    #[inline]
    pub(crate) fn submit_and_wait(&mut self, at_most: NanoSpan) -> Result<(), Errno> {
        let is_queued = self.is_queued();
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

    /// Whether entries are queued that the kernel was not told of.
    #[inline]
    fn is_queued(&mut self) -> bool {
        self.entries.sync();
        !self.entries.is_empty()
    }

    #[inline]
    fn enter(&mut self, wanted: u32, limit: Option<SubmitArgs<'_, '_>>) -> Result<(), Errno> {
        self.entries.sync();
        let mut flags = EnterFlags::GETEVENTS;
        if limit.is_some() {
            flags |= EnterFlags::EXT_ARG;
        }
        if self.wish.kernel_thread {
            fence(Ordering::SeqCst);
            if self.entries.need_wakeup_after_intermittent_seqcst() {
                flags |= EnterFlags::SQ_WAKEUP;
            } else if wanted == 0 && !self.wish.io_poll {
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

/// Sets a ring up with the best flags that the kernel takes. Returns it and what of the wish it does.
fn build(places: u32, wish: RingWish, notes: &mut Vec<String>) -> Result<(IoUring, RingWish), LoadError> {
    let mut errno = Errno::INVAL;
    let plain = RingWish::default();
    let no_thread = RingWish { kernel_thread: false, ..wish };
    let mut wishes = vec![wish];
    wishes.extend([no_thread, plain].into_iter().filter(|less| *less != wish));
    for wish_now in wishes {
        for (missing, flags) in plain_steps(wish_now) {
            match with_wish(flags(&mut IoUring::builder()), wish_now).build(places) {
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
    Err(LoadError::Engine { engine: NAME_URING, op: "set up a ring", errno })
}

type Flags = fn(&mut Builder) -> &mut Builder;

/// Flags that make a ring cheap, best first, each with what it lacks. A ring whose entries a thread of the kernel takes
/// does not defer the kernel's work to the waiting thread.
fn plain_steps(wish: RingWish) -> Vec<(&'static str, Flags)> {
    if wish.kernel_thread {
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

fn with_wish(builder: &mut Builder, wish: RingWish) -> &mut Builder {
    if wish.io_poll {
        builder.setup_iopoll();
    }
    if wish.kernel_thread {
        builder.setup_sqpoll(KERNEL_THREAD_IDLE_MS);
    }
    builder
}

fn note_missing(missing: &str, wish: RingWish, done: RingWish, notes: &mut Vec<String>) {
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
