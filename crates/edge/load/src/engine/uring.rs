//! The `io_uring` engine: requests are queued in memory that the kernel shares, and one call submits all that are
//! queued and waits for the first to end.
//!
//! What makes it cheap: the file and the request memory are registered once, so no request pays for looking them
//! up and pinning pages; the ring belongs to one thread, which also runs the kernel's completion work when it
//! waits (`SINGLE_ISSUER | DEFER_TASKRUN | COOP_TASKRUN`, Linux 6.1), so nothing interrupts it. What an older
//! kernel or a low memory limit does not give is left out, with a note.
//!
//! Invariants: at most `iodepth` entries are under way, so neither queue overflows; the memory outlives the ring,
//! and is never given back while requests are in flight.
//!
//! Source: `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.
#![allow(unsafe_code)]

use super::{Completion, Engine, FailureCause, NO_IO};
use crate::error::{LoadError, errno_of};
use crate::memory::IoMemory;
use crate::target::Target;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, opcode};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{DriverIo, IoOp};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

const NAME: &str = "io_uring";
/// The longest submission queue that the kernel makes.
const IODEPTH_MAX: u32 = 32_768;
/// The longest buffer that can be registered.
const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// `struct iovec`: a piece of memory, for the kernel.
#[repr(C)]
struct IoVec {
    base: *mut u8,
    bytes: usize,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    io: DriverIo,
    /// Bytes moved by the parts that ended.
    moved_bytes: u32,
}

/// What entries refer to.
#[derive(Clone, Copy, Debug)]
enum Destination {
    /// The registered file.
    Registered,
    /// A file by its descriptor.
    Plain(RawFd),
    /// None: entries do nothing.
    NoOp,
}

/// Any number of requests in flight through one `io_uring`.
pub struct UringEngine<'a> {
    // The order matters: fields are dropped from the top, and the ring must be gone before the memory.
    ring: IoUring,
    memory: IoMemory,
    /// Keeps the file open as long as the ring.
    _target: &'a Target,
    destination: Destination,
    buffers_registered: bool,
    slots: Vec<Slot>,
    in_flight: u32,
    short_transfers: u64,
    notes: Vec<String>,
}

impl std::fmt::Debug for UringEngine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine")
            .field("destination", &self.destination)
            .field("buffers_registered", &self.buffers_registered)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl<'a> UringEngine<'a> {
    /// Returns the engine for `target` with up to `iodepth` requests in flight. Only the thread that calls this
    /// may use it.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for none or more requests than the kernel takes, [`LoadError::Engine`] if this
    /// kernel or container gives no ring.
    pub fn new(target: &'a Target, iodepth: u32, memory: IoMemory) -> Result<Self, LoadError> {
        if !(1..=IODEPTH_MAX).contains(&iodepth) {
            return Err(LoadError::Iodepth { engine: NAME, iodepth_max: IODEPTH_MAX, iodepth });
        }
        let mut notes = Vec::new();
        let ring = build(iodepth, &mut notes)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(LoadError::Engine {
                engine: NAME,
                op: "wait with a time limit",
                errno: Errno::OPNOTSUPP,
            });
        }
        let destination = register_file(&ring, target, &mut notes);
        let has_data = !matches!(destination, Destination::NoOp);
        let buffers_registered = has_data && register_memory(&ring, &memory, &mut notes);
        Ok(Self {
            ring,
            memory,
            _target: target,
            destination,
            buffers_registered,
            slots: vec![Slot { io: NO_IO, moved_bytes: 0 }; iodepth as usize],
            in_flight: 0,
            short_transfers: 0,
            notes,
        })
    }

    /// Queues what is left of the request in `slot`.
    #[inline]
    fn push(&mut self, slot: u32) {
        let entry = self.entry(slot).user_data(u64::from(slot));
        // SAFETY: the entry names memory of this slot only, which stays mapped and untouched until the completion
        // (or is leaked), and a file that `_target` keeps open.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the queue has room for every slot");
    }

    #[inline]
    fn entry(&self, slot: u32) -> Entry {
        let Slot { io, moved_bytes } = self.slots[slot as usize];
        let address = || self.memory.address(io.op, slot).wrapping_add(moved_bytes as usize);
        let bytes = io.bytes - moved_bytes;
        let offset = io.offset_bytes + u64::from(moved_bytes);
        macro_rules! transfer {
            ($file:expr) => {
                match (io.op, self.buffers_registered) {
                    (IoOp::Read, true) => {
                        opcode::ReadFixed::new($file, address(), bytes, 0).offset(offset).build()
                    }
                    (IoOp::Write, true) => {
                        opcode::WriteFixed::new($file, address(), bytes, 0).offset(offset).build()
                    }
                    (IoOp::Read, false) => opcode::Read::new($file, address(), bytes).offset(offset).build(),
                    (IoOp::Write, false) => {
                        opcode::Write::new($file, address(), bytes).offset(offset).build()
                    }
                }
            };
        }
        match self.destination {
            Destination::Registered => transfer!(Fixed(0)),
            Destination::Plain(fd) => transfer!(Fd(fd)),
            Destination::NoOp => opcode::Nop::new().build(),
        }
    }

    /// Takes in what the kernel says of the request in `slot`. Returns its completion unless it goes on.
    #[inline]
    fn judge(&mut self, slot: u32, result: i32) -> Option<Completion> {
        let Slot { io, moved_bytes } = self.slots[slot as usize];
        let whole = i64::from(io.bytes) - i64::from(moved_bytes);
        let is_done = i64::from(result) == whole || matches!(self.destination, Destination::NoOp);
        if is_done && result >= 0 {
            return Some(Completion { slot, failure: None });
        }
        self.judge_odd(slot, result)
    }

    #[cold]
    fn judge_odd(&mut self, slot: u32, result: i32) -> Option<Completion> {
        let failure = match result {
            0 => FailureCause::EndOfFile,
            part if part > 0 => {
                self.slots[slot as usize].moved_bytes += part as u32;
                self.short_transfers += 1;
                self.push(slot);
                return None;
            }
            negative => match Errno::from_raw_os_error(-negative) {
                Errno::INTR | Errno::AGAIN => {
                    self.push(slot);
                    return None;
                }
                errno => FailureCause::Errno(errno),
            },
        };
        Some(Completion { slot, failure: Some(failure) })
    }
}

impl Engine for UringEngine<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn submit(&mut self, io: DriverIo) {
        if io.op == IoOp::Write && !matches!(self.destination, Destination::NoOp) {
            self.memory.stamp(io.slot, io.bytes);
        }
        self.slots[io.slot as usize] = Slot { io, moved_bytes: 0 };
        self.push(io.slot);
        self.in_flight += 1;
    }

    #[inline]
    fn flush(&mut self) -> Result<(), Errno> {
        unless_momentary(self.ring.submit())
    }

    #[inline]
    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let limit = Timespec::from(Duration::from_nanos(at_most.get()));
        let args = SubmitArgs::new().timespec(&limit);
        unless_momentary(self.ring.submitter().submit_with_args(1, &args))?;
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { return Ok(()) };
            if let Some(completion) = self.judge(entry.user_data() as u32, entry.result()) {
                self.in_flight -= 1;
                done.push(completion);
            }
        }
    }

    fn iodepth_max(&self) -> u32 {
        self.slots.len() as u32
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn io(&self, slot: u32) -> DriverIo {
        self.slots[slot as usize].io
    }

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Drop for UringEngine<'_> {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            self.memory.leak();
            return;
        }
        // The kernel takes a ring down some time after it was closed. A file that is registered until then keeps a
        // device claimed, and the next to open it would be refused.
        if matches!(self.destination, Destination::Registered) {
            let unregistered = self.ring.submitter().unregister_files();
            debug_assert!(unregistered.is_ok(), "a registered file can be unregistered");
        }
    }
}

/// Lets pass what is no failure: the time is over, a signal came, or the kernel is short of something for a moment.
/// In each case there may be completions, and the next call submits the rest.
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

/// Sets a ring up with the best flags that the kernel takes.
fn build(iodepth: u32, notes: &mut Vec<String>) -> Result<IoUring, LoadError> {
    type Flags = fn(&mut Builder) -> &mut Builder;
    let steps: [(&str, Flags); 4] = [
        ("", |builder| {
            builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_no_sqarray()
        }),
        ("without NO_SQARRAY", |builder| {
            builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun()
        }),
        ("without SINGLE_ISSUER and DEFER_TASKRUN", Builder::setup_coop_taskrun),
        ("without SINGLE_ISSUER, DEFER_TASKRUN and COOP_TASKRUN", |builder| builder),
    ];
    let mut errno = Errno::INVAL;
    for (missing, flags) in steps {
        match flags(&mut IoUring::builder()).build(iodepth) {
            Ok(ring) => {
                if !missing.is_empty() {
                    notes.push(format!(
                        "this kernel makes an io_uring only {missing}: requests cost a little more"
                    ));
                }
                return Ok(ring);
            }
            Err(error) => errno = errno_of(&error),
        }
        if errno != Errno::INVAL {
            break;
        }
    }
    Err(LoadError::Engine { engine: NAME, op: "set up a ring", errno })
}

fn register_file(ring: &IoUring, target: &Target, notes: &mut Vec<String>) -> Destination {
    let Some(file) = target.file() else { return Destination::NoOp };
    let fd = file.as_raw_fd();
    match ring.submitter().register_files(&[fd]) {
        Ok(()) => Destination::Registered,
        Err(error) => {
            notes.push(format!(
                "the file is not registered with io_uring ({error}): requests cost a little more"
            ));
            Destination::Plain(fd)
        }
    }
}

/// Registers all request memory as one buffer. Returns whether that worked.
fn register_memory(ring: &IoUring, memory: &IoMemory, notes: &mut Vec<String>) -> bool {
    let (start, bytes) = memory.whole();
    let result = if bytes > REGISTERED_BYTES_MAX {
        Err(io::Error::from(Errno::TOOBIG))
    } else {
        let list = [IoVec { base: start, bytes }];
        // SAFETY: `IoVec` has the layout of `struct iovec`; the memory stays mapped until the ring is gone, or is
        // leaked.
        unsafe {
            let list = std::slice::from_raw_parts(list.as_ptr().cast(), list.len());
            ring.submitter().register_buffers(list)
        }
    };
    if let Err(error) = &result {
        notes.push(format!(
            "the {} of request memory are not registered with io_uring ({error}): each request pins its pages \
             anew; allow more locked memory with 'ulimit -l'",
            ByteCount(bytes as u64)
        ));
    }
    result.is_ok()
}
