//! Copies from and to mapped files that survive the loss of the mapped data.
//!
//! A mapped page has no data if its file was truncated or its device can't be read. Touching it sends the thread
//! `SIGBUS`, which ends a process. Here the thread first registers the memory it is about to touch. The handler then
//! maps an empty page in place of the lost one, records that, and lets the copy go on; the copy's caller gets an error.
//!
//! ```text
//! copy:     guard = the mapping ── touch page ── SIGBUS ──► handler: in the guard? ── empty page, note it ── touch
//! again
//!                                                            └─ not in it: the previous handler
//! ```
//! Invariants: a signal for memory outside its thread's guard does what it would do without this module; guard and note
//! belong to a thread, so threads do not see each other's faults. The handler makes one system call and allocates
//! nothing.
//!
//! Left out: mappings of huge pages from a file system of huge pages (`hugetlbfs`), which take no small page: there the
//! signal ends the process.
//!
//! Source: `sigaction(2)`, `mmap(2)`, `signal-safety(7)`.
#![allow(unsafe_code)]

use crate::error::errno_of;
use rustix::io::Errno;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Memory that the running thread is about to touch, and whether a page of it had no data.
#[derive(Clone, Copy, Default)]
struct Guard {
    start: usize,
    end: usize,
    has_faulted: bool,
}

thread_local! {
    static GUARD: Cell<Guard> = const { Cell::new(Guard { start: 0, end: 0, has_faulted: false }) };
}

/// The handler in place: what `SIGBUS` did before, for signals that are not for this module, and the length of a page.
#[derive(Clone, Copy)]
struct Installed {
    before: libc::sigaction,
    page_bytes: usize,
}

/// Empty until the first engine needs it; then what came of it.
static INSTALLED: OnceLock<Result<Installed, Errno>> = OnceLock::new();

/// Makes the handler that of the process, once. Returns the length of a page of memory.
///
/// # Errors
/// What the system answers if it refuses.
pub(crate) fn install() -> Result<usize, Errno> {
    let installed = INSTALLED.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: an all-zero `sigaction` is a valid one (default action, no flags, empty mask).
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = on_bus_error as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both structures are valid, and the handler has the signature that `SA_SIGINFO` asks for.
        let refused = unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, before.as_mut_ptr()) } != 0;
        if refused {
            return Err(errno_of(&std::io::Error::last_os_error()));
        }
        // SAFETY: the call succeeded, so it has filled in what was there before.
        Ok(Installed { before: unsafe { before.assume_init() }, page_bytes: rustix::param::page_size() })
    });
    installed.map(|installed| installed.page_bytes)
}

/// Runs `touch`, which touches mapped memory from `start` to `end` only. Returns whether all of it had data; where not, what
/// was read is zeros, what was written is lost, and the pages are to be mapped anew.
#[inline]
pub(crate) fn guarded(start: *mut u8, end: *mut u8, touch: impl FnOnce()) -> bool {
    GUARD.with(|guard| {
        let (start, end) = (start as usize, end as usize);
        guard.set(Guard { start, end, has_faulted: false });
        // The handler runs on this thread, so an order that the processor keeps is enough.
        compiler_fence(Ordering::SeqCst);
        touch();
        compiler_fence(Ordering::SeqCst);
        !guard.replace(Guard::default()).has_faulted
    })
}

extern "C" fn on_bus_error(signal: libc::c_int, facts: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // Another thread may fault while the first still installs this: it comes again at once.
    let Some(Ok(Installed { before, page_bytes })) = INSTALLED.get() else { return };
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler that was set with `SA_SIGINFO`.
    let address = unsafe { (*facts).si_addr() } as usize;
    let guard = GUARD.get();
    if (guard.start..guard.end).contains(&address) && put_empty_page(address, *page_bytes) {
        GUARD.set(Guard { has_faulted: true, ..guard });
        return;
    }
    // Not ours: with the former action in place the instruction is tried again, and its signal goes there.
    // SAFETY: `before` is what the system had in place.
    unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
}

/// Maps an empty page where `address` lies. Returns whether that worked; the thread's error number stays as it is.
fn put_empty_page(address: usize, page_bytes: usize) -> bool {
    let page = address & !(page_bytes - 1);
    // SAFETY: the page is one of the mapping that this thread's engine stands guard over, to which no reference exists.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let mapped = libc::mmap(page as *mut libc::c_void, page_bytes, protection, flags, -1, 0);
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}
