//! The `io_uring` engine: requests are queued in memory shared with the kernel, and one call submits all that are
//! queued and waits for the first to end.
//!
//! It is cheap because the files and the request memory are registered once, so no request pays for looking them up and
//! pinning pages. The ring belongs to one thread, which also runs the kernel's completion work when it waits
//! (`SINGLE_ISSUER | DEFER_TASKRUN | COOP_TASKRUN`, Linux 6.1), so nothing interrupts it. Features that an older kernel
//! or a low memory limit does not allow are left out, with a note.
//!
//! **Polling** (`IOPOLL`) is tried with one read of each target before the load: not all drivers and file systems
//! support it, and a ring either polls for all its requests or for none.
//!
//! Invariants: at most one entry of a slot is under way, so neither queue overflows; the memory outlives the ring, and
//! is never freed while requests are in flight.
//!
//! Source: `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.
#![allow(unsafe_code)]

use super::{
    Completion, Engine, EngineIo, FailureCause, NAME_URING, NO_IO, SlotTable, UringOptions, punch_hole,
    zero_range,
};
use crate::clock::Clock;
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::FsyncFlags;
use raidlab_device::ring::entries::{self, Direction, FileRef};
use raidlab_device::ring::{EntryEnd, IoVec, REGISTERED_BYTES_MAX, Ring, RingOptions};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::IoOp;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The longest submission queue that the kernel makes.
const SLOTS_MAX: u32 = 32_768;
/// `BLOCK_URING_CMD_DISCARD` (`linux/blkdev.h`, Linux 6.12): start in the entry's address, length in its command.
const DISCARD: u32 = 0x1200;
/// Entries are named by their slots; this one belongs to none.
const TRIAL: u64 = u64::MAX;
/// How long a read for trial may take.
const TRIAL_MAX: NanoSpan = NanoSpan::from_secs(10);

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    io: EngineIo,
    /// Bytes moved by the parts that ended.
    moved_bytes: u32,
}

/// Any number of requests in flight through one `io_uring`.
#[derive(Debug)]
pub struct UringEngine<'a> {
    // The order matters: fields are dropped from the top, and the ring must be gone before the memory.
    ring: Ring,
    memory: IoMemory,
    /// Keeps the files open as long as the ring.
    targets: &'a [&'a Target],
    /// What entries refer to, by the numbers of the targets; without any they do nothing.
    files: Vec<FileRef>,
    files_registered: bool,
    buffers_registered: bool,
    table: SlotTable,
    slots: Vec<Slot>,
    short_transfers: u64,
    notes: Vec<String>,
}

impl<'a> UringEngine<'a> {
    /// Returns the engine for `targets` with the slots of `table`. Only the thread that calls this may use it.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for none or more requests than the kernel takes, [`LoadError::Engine`] if this
    /// kernel or container gives no ring.
    pub fn new(
        targets: &'a [&'a Target],
        table: SlotTable,
        options: UringOptions,
        memory: IoMemory,
    ) -> Result<Self, LoadError> {
        let places = table.in_flight_max();
        if !(1..=SLOTS_MAX).contains(&places) {
            let (iodepth_max, iodepth) = (SLOTS_MAX, places);
            return Err(LoadError::Iodepth { engine: NAME_URING, iodepth_max, iodepth });
        }
        let mut notes = Vec::new();
        let UringOptions { io_poll, kernel_thread } = options;
        let wish = RingOptions { io_poll, kernel_thread, ..RingOptions::default() };
        let mut engine = Self::build(targets, table, wish, memory, &mut notes)?;
        if engine.ring.options().io_poll
            && let Some(why) = engine.find_unpolled()?
        {
            notes = vec![format!("ends came by interrupt, not by polling (IOPOLL): {why}")];
            let memory = engine.into_memory();
            engine = Self::build(targets, table, RingOptions { io_poll: false, ..wish }, memory, &mut notes)?;
        }
        engine.notes = notes;
        Ok(engine)
    }

    /// Whether a ring discards on a block device: a range that is no whole block is refused as such only where kernel and device
    /// do.
    pub(crate) fn discards(target: &Target) -> bool {
        let Some(file) = target.file() else { return false };
        let Ok(mut ring) = Ring::new(1, RingOptions::default(), &mut Vec::new()) else { return false };
        let entry = discard(FileRef::open(file), 0, 1);
        // SAFETY: the entry names no memory, and the target keeps the file open.
        unsafe { ring.push(&entry) };
        let end = ring.submit_and_wait(TRIAL_MAX).map(|()| ring.next_end());
        matches!(end, Ok(Some(end)) if end.result == -Errno::INVAL.raw_os_error())
    }

    fn build(
        targets: &'a [&'a Target],
        table: SlotTable,
        wish: RingOptions,
        memory: IoMemory,
        notes: &mut Vec<String>,
    ) -> Result<Self, LoadError> {
        let mut ring = Ring::new(table.in_flight_max(), wish, notes)?;
        let (files, files_registered) = register_files(&mut ring, targets, notes);
        let buffers_registered = !files.is_empty() && register_memory(&ring, &memory, notes);
        let slots = vec![Slot { io: NO_IO, moved_bytes: 0 }; table.slots()];
        let (short_transfers, notes) = (0, Vec::new());
        Ok(Self {
            ring,
            memory,
            targets,
            files,
            files_registered,
            buffers_registered,
            table,
            slots,
            short_transfers,
            notes,
        })
    }

    /// Gives the memory up for another ring.
    fn into_memory(mut self) -> IoMemory {
        std::mem::replace(&mut self.memory, IoMemory::none())
    }

    /// Reads one block of each target. Returns why one can't be polled.
    fn find_unpolled(&mut self) -> Result<Option<String>, LoadError> {
        for (number, target) in (0..).zip(self.targets) {
            let bytes = target.block_bytes();
            let io = EngineIo { slot: 0, target: number, op: IoOp::Read, offset_bytes: 0, bytes, fua: false };
            let entry = self.transfer(&io, 0, self.memory.spare()).user_data(TRIAL);
            // SAFETY: the memory belongs to the engine, which leaks it if the read does not come back; the target is
            // open.
            unsafe { self.ring.push(&entry) };
            let end = self.trial_end().map_err(|errno| {
                let (engine, op) = (NAME_URING, "poll for a read");
                LoadError::Engine { engine, op, errno }
            })?;
            if end.result < 0 {
                let errno = Errno::from_raw_os_error(-end.result);
                return Ok(Some(format!("'{}' refuses it ({errno})", target.path().display())));
            }
            if let Some(why) = unpolled_device(target) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// Waits for the end of a read for trial. The kernel stops to poll whenever another thread wants the processor.
    fn trial_end(&mut self) -> Result<EntryEnd, Errno> {
        let started = Clock::start();
        while started.now() < Nanos::ZERO + TRIAL_MAX {
            self.ring.submit_and_wait(TRIAL_MAX)?;
            if let Some(end) = self.ring.next_end() {
                return Ok(end);
            }
        }
        Err(Errno::TIME)
    }

    /// Queues what is left of the request in `slot`, once more.
    #[cold]
    fn push_again(&mut self, slot: u32) {
        let Slot { io, moved_bytes } = self.slots[slot as usize];
        self.push(io, moved_bytes);
    }

    /// Queues what is left of `io`. Worth a copy in each place: a call costs some 2 ns of 90.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured with examples/engine_cost.rs")]
    fn push(&mut self, io: EngineIo, moved_bytes: u32) {
        let slot = io.slot;
        let entry = if self.files.is_empty() {
            opcode::Nop::new().build()
        } else if io.op.moves_bytes() {
            let address = self.memory.address(io.op, self.table.buffer_of(slot));
            self.transfer(&io, moved_bytes, address.wrapping_add(moved_bytes as usize))
        } else {
            self.change(&io)
        };
        // SAFETY: the entry names memory of this slot only, which stays mapped and untouched until the completion
        // (or is leaked), and a file that `targets` keeps open.
        unsafe { self.ring.push(&entry.user_data(u64::from(slot))) };
    }

    /// The entry of a read or write of which `moved_bytes` are done, from or to `address`.
    #[inline]
    fn transfer(&self, io: &EngineIo, moved_bytes: u32, address: *mut u8) -> Entry {
        let piece = IoVec { base: address, bytes: (io.bytes - moved_bytes) as usize };
        let memory = entries::Target::Single(piece, self.buffers_registered.then_some(0));
        let direction =
            if io.op == IoOp::Read { Direction::Read } else { Direction::Write { durable: io.fua } };
        let offset = io.offset_bytes + u64::from(moved_bytes);
        entries::transfer(self.files[io.target as usize], direction, offset, memory)
    }

    /// The entry of a request that moves no bytes. The kernel hands it to a thread of its own where it would have to wait (but
    /// for a discard, which goes to the device at once), so that the ring goes on meanwhile.
    #[cold]
    fn change(&self, io: &EngineIo) -> Entry {
        let (offset, bytes) = (io.offset_bytes, u64::from(io.bytes));
        let file = self.files[io.target as usize];
        let allocate = |how: FallocateFlags| {
            let how = how.bits().cast_signed();
            file.entry(|file| opcode::Fallocate::new(file, bytes).offset(offset).mode(how).build())
        };
        match io.op {
            IoOp::Flush => file.entry(|file| opcode::Fsync::new(file).build()),
            IoOp::FlushData => {
                file.entry(|file| opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build())
            }
            IoOp::Trim if self.targets[io.target as usize].kind() == TargetKind::BlockDevice => {
                discard(file, offset, bytes)
            }
            IoOp::Trim => allocate(punch_hole()),
            IoOp::WriteZeroes => allocate(zero_range()),
            IoOp::Read | IoOp::Write => unreachable!("reads and writes are transfers"),
        }
    }

    /// Takes in what the kernel says of the request in `slot`. Returns its completion unless it goes on.
    #[inline]
    fn judge(&mut self, slot: u32, result: i32) -> Option<Completion> {
        let Slot { io, moved_bytes } = &self.slots[slot as usize];
        let whole = io.bytes - moved_bytes;
        let is_done = result as u32 == whole || self.files.is_empty();
        if is_done && result >= 0 {
            return Some(Completion { slot, failure: None });
        }
        self.judge_odd(slot, result)
    }

    #[cold]
    fn judge_odd(&mut self, slot: u32, result: i32) -> Option<Completion> {
        let moves_bytes = self.slots[slot as usize].io.op.moves_bytes();
        let failure = match result {
            0 if !moves_bytes => return Some(Completion { slot, failure: None }),
            0 => FailureCause::EndOfFile,
            part if part > 0 => {
                self.slots[slot as usize].moved_bytes += part as u32;
                self.short_transfers += 1;
                self.push_again(slot);
                return None;
            }
            negative => match Errno::from_raw_os_error(-negative) {
                Errno::INTR | Errno::AGAIN => {
                    self.push_again(slot);
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
        NAME_URING
    }

    #[inline]
    fn submit(&mut self, io: EngineIo) {
        if io.op == IoOp::Write && !self.files.is_empty() {
            self.memory.stamp(self.table.buffer_of(io.slot), io.bytes);
        }
        self.slots[io.slot as usize] = Slot { io, moved_bytes: 0 };
        self.push(io, 0);
    }

    #[inline]
    fn flush(&mut self) -> Result<(), Errno> {
        self.ring.submit()
    }

    #[inline]
    fn ready(&mut self) -> u32 {
        self.ring.ready()
    }

    #[inline]
    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.ring.submit_and_wait(at_most)?;
        self.ring.ready();
        while let Some(end) = self.ring.next_end() {
            if let Some(completion) = self.judge(end.name as u32, end.result) {
                done.push(completion);
            }
        }
        Ok(())
    }

    fn in_flight_max(&self) -> u32 {
        self.table.in_flight_max()
    }

    fn in_flight(&self) -> u32 {
        self.ring.in_flight()
    }

    fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
        let moves_bytes = io.op.moves_bytes() && !self.files.is_empty();
        moves_bytes.then(|| self.memory.buffer(io.op, self.table.buffer_of(io.slot), io.bytes))
    }

    fn io(&self, slot: u32) -> EngineIo {
        self.slots[slot as usize].io
    }

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }

    fn facts(&self) -> Vec<&'static str> {
        let options = self.ring.options();
        let all = [
            (self.files_registered, "registered files"),
            (self.buffers_registered, "registered buffers"),
            (options.io_poll, "polled ends"),
            (options.kernel_thread, "submitting kernel thread"),
        ];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fact)| fact).collect()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Drop for UringEngine<'_> {
    fn drop(&mut self) {
        if self.ring.in_flight() > 0 {
            self.memory.leak();
        }
    }
}

/// Says so if the queues of a device can't be polled: the kernel takes such requests and waits for the interrupt.
fn unpolled_device(target: &Target) -> Option<String> {
    let device = target.device()?;
    let [major, minor] = [rustix::fs::major(device), rustix::fs::minor(device)];
    // A partition has no queue of its own.
    let places = ["queue", "../queue"].map(|queue| format!("/sys/dev/block/{major}:{minor}/{queue}/io_poll"));
    let text = places.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    (text.trim() == "0")
        .then(|| format!("the device of '{}' has no queues for polling", target.path().display()))
}

/// Discards a range of a block device.
fn discard(file: FileRef, offset: u64, bytes: u64) -> Entry {
    let mut command = [0; 16];
    command[..8].copy_from_slice(&bytes.to_ne_bytes());
    file.entry(|file| opcode::UringCmd16::new(file, DISCARD).addr(Some(offset)).cmd(command).build())
}

/// Names the files of the targets. Returns whether they are registered, too.
fn register_files(ring: &mut Ring, targets: &[&Target], notes: &mut Vec<String>) -> (Vec<FileRef>, bool) {
    let files: Vec<RawFd> =
        targets.iter().filter_map(|target| target.file()).map(AsRawFd::as_raw_fd).collect();
    if files.is_empty() {
        return (Vec::new(), false);
    }
    assert_eq!(files.len(), targets.len(), "targets that do nothing have an engine of their own");
    match ring.register_files(&files) {
        Ok(()) => ((0..).take(files.len()).map(FileRef::registered).collect(), true),
        Err(error) => {
            notes.push(format!(
                "the files are not registered with io_uring ({error}): requests cost a little more"
            ));
            (files.iter().map(FileRef::open).collect(), false)
        }
    }
}

/// Registers all request memory as one buffer. Returns whether that worked.
fn register_memory(ring: &Ring, memory: &IoMemory, notes: &mut Vec<String>) -> bool {
    let (base, bytes) = memory.whole();
    let result = if bytes as u64 > REGISTERED_BYTES_MAX {
        Err(io::Error::from(Errno::TOOBIG))
    } else {
        // SAFETY: the memory stays mapped until the ring is gone, or is leaked.
        unsafe { ring.register_buffers(None, &[IoVec { base, bytes }]) }
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
