//! Processes: a call has its effect on the page cache, then its processor cost, then its return.
//!
//! ```text
//!  poll_step ─► begin ─► (wait for a unit, for memory) ─► processor ─► (wait for the dirty limit) ─► handle_return
//! ```
//! - A read of data not in memory requests a window of the file and waits for its own part. Windows begin with the
//!   filesystem's minimum and double while the file is read sequentially; otherwise only the call's own units are read.
//! - If read-ahead overlaps, the next window is requested on entering the last; if not, on its first miss.
//! - A direct read or write sends its requests and waits for them.
//! - A write makes units dirty. A process that made too many dirty waits before the call returns.

use super::cache::{Allocated, InodeId, Run};
use super::spec::FileAccess;
use super::world::{FileWorld, HostEvent};
use raidlab_hardware::PAGE_BYTES;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::program::{FileCall, FileId, ProcessTime, Program, ProgramStep};

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Nothing, or a processor.
    Not,
    /// This unit.
    Unit(InodeId, u32),
    /// Memory.
    Memory,
    /// The dirty limit.
    Limit,
    /// All of this file on its volume.
    Sync(InodeId),
    /// Requests of its own, or a commit.
    Own,
    /// Another process of the program.
    Program,
    /// Nothing ever again.
    Finished,
}

/// A file as a process has it open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    pub(super) position: u64,
    /// Unit at which a read goes on in sequence.
    next: u32,
    /// The latest window.
    window: (u32, u32),
    /// Its length when it was asked for; 0 before the first.
    window_units: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    call: Option<FileCall>,
    pub(super) blocked: Blocked,
    cpu: NanoSpan,
    /// Processor time that the call has cost beside what it is charged at its end.
    extra: NanoSpan,
    /// Bytes that the call moves.
    pub(super) bytes: u64,
    /// What has to end before the call goes on, and whether it has.
    pub(super) own_left: u32,
    pub(super) own_ended: bool,
    pub(super) open: Vec<Open>,
}

impl Process {
    pub(super) fn new(files: usize) -> Self {
        Self {
            call: None,
            blocked: Blocked::Program,
            cpu: NanoSpan::ZERO,
            extra: NanoSpan::ZERO,
            bytes: 0,
            own_left: 0,
            own_ended: false,
            open: vec![Open::default(); files],
        }
    }
}

impl<P: Program> FileWorld<'_, P> {
    /// Asks every process that waits for another one.
    pub(super) fn poll_all(&mut self, now: Nanos) {
        loop {
            let mut has_moved = false;
            for process in 0..self.processes.len() as u32 {
                if self.processes[process as usize].blocked == Blocked::Program {
                    has_moved |= self.poll_process(now, process);
                }
            }
            if !has_moved {
                break;
            }
        }
        // Nobody who could be asked has anything to do now.
        let at = self.program.wake_at().filter(|at| *at > now);
        self.queue.set_deadline(self.volumes.len() as u32, at);
    }

    /// Begins the next call of a process. Returns whether it did anything but wait.
    fn poll_process(&mut self, now: Nanos, process: u32) -> bool {
        let this = &mut self.processes[process as usize];
        let time = ProcessTime { now, cpu: this.cpu };
        match self.program.poll_step(process, time) {
            ProgramStep::Call(call) => {
                (this.call, this.blocked, this.extra, this.bytes) =
                    (Some(call), Blocked::Not, NanoSpan::ZERO, 0);
                (this.own_left, this.own_ended) = (0, false);
                self.calls += 1;
                self.proceed(now, process);
                true
            }
            ProgramStep::Wait => {
                let has_moved = this.blocked != Blocked::Program;
                this.blocked = Blocked::Program;
                has_moved
            }
            ProgramStep::Finished => {
                this.blocked = Blocked::Finished;
                self.running -= 1;
                true
            }
        }
    }

    /// Goes on with the call of a process that waits for nothing.
    pub(super) fn proceed(&mut self, now: Nanos, process: u32) {
        let call = self.processes[process as usize].call.expect("it has a call");
        let Some(span) = self.carry_out(now, process, call) else { return };
        let this = &mut self.processes[process as usize];
        let span = span + this.extra;
        this.cpu += span;
        let mut end = self.take_cpu(now, span);
        let is_buffered = self.spec.access == FileAccess::Buffered && call.moves_data();
        if is_buffered {
            let bytes = self.processes[process as usize].bytes;
            end = end.max(self.pass_memory(now, bytes));
        }
        if is_buffered && let Some(file) = written_by(call) {
            let inode = self.inodes[file.0 as usize];
            end = end.max(self.cache.inode_mut(inode).writers.serve(now, span));
        }
        self.queue.push(end, HostEvent::CallDone(process));
    }

    /// Does what a call does. Returns the processor time that it takes; none if the process has to wait, or sleeps.
    fn carry_out(&mut self, now: Nanos, process: u32, call: FileCall) -> Option<NanoSpan> {
        let host = &self.spec.host;
        let is_direct = self.spec.access == FileAccess::Direct;
        if let FileCall::ReadAt { file, offset, .. } | FileCall::WriteAt { file, offset, .. } = call {
            self.processes[process as usize].open[file.0 as usize].position = offset;
        }
        Some(match call {
            FileCall::Read { file, bytes } | FileCall::ReadAt { file, bytes, .. } if is_direct => {
                let moved = self.move_directly(now, process, (file, bytes, false))?;
                host.per_call + self.filesystem_of(file).checksum_time(moved)
            }
            FileCall::Write { file, bytes } | FileCall::WriteAt { file, bytes, .. } if is_direct => {
                let moved = self.move_directly(now, process, (file, bytes, true))?;
                host.per_call + self.filesystem_of(file).checksum_time(moved)
            }
            FileCall::Open { file, create } => {
                self.open(process, file, create);
                host.per_call
            }
            FileCall::Close { .. } | FileCall::Stat { .. } => host.per_call,
            FileCall::Delete { file } => {
                self.forget(file);
                host.per_call
            }
            FileCall::Seek { file, offset } => {
                self.processes[process as usize].open[file.0 as usize].position = offset;
                host.per_call
            }
            FileCall::Sleep { span } => {
                self.queue.push(now + span, HostEvent::CallDone(process));
                return None;
            }
            FileCall::Read { file, bytes }
            | FileCall::ReadAt { file, bytes, .. }
            | FileCall::GetChars { file, bytes } => {
                let moved = self.read(now, process, file, bytes)?;
                let is_chars = matches!(call, FileCall::GetChars { .. });
                if is_chars {
                    host.getc.time_for(ByteCount(moved))
                } else {
                    host.per_call + host.read_copy.time_for(ByteCount(moved))
                }
            }
            FileCall::Write { file, bytes }
            | FileCall::WriteAt { file, bytes, .. }
            | FileCall::PutChars { file, bytes } => {
                if !self.write(now, process, file, bytes) {
                    return None;
                }
                let copy = host.write_copy.time_for(ByteCount(bytes));
                if matches!(call, FileCall::PutChars { .. }) {
                    let writes = bytes.div_ceil(host.stdio_buffer.0);
                    copy + host.putc.time_for(ByteCount(bytes)) + host.per_call * writes
                } else {
                    copy + host.per_call
                }
            }
            FileCall::Sync { file } => {
                if self.synchronises(now, process, file) {
                    return None;
                }
                host.per_call
            }
        })
    }

    /// The processor has done the call: it returns, unless too much is dirty.
    pub(super) fn call_done(&mut self, now: Nanos, process: u32) {
        let call = self.processes[process as usize].call;
        if call.is_some_and(FileCall::writes) && self.is_over_limit() {
            self.processes[process as usize].blocked = Blocked::Limit;
            return self.flush_all(now);
        }
        self.return_call(now, process);
    }

    fn return_call(&mut self, now: Nanos, process: u32) {
        let this = &mut self.processes[process as usize];
        (this.blocked, this.call) = (Blocked::Not, None);
        let (time, bytes) = (ProcessTime { now, cpu: this.cpu }, this.bytes);
        self.program.handle_return(process, time, bytes);
        self.poll_process(now, process);
        let after = self.processes[process as usize].blocked;
        if matches!(after, Blocked::Program | Blocked::Finished) {
            self.poll_all(now);
        } else {
            let at = self.program.wake_at().map(|at| at.max(now));
            self.queue.set_deadline(self.volumes.len() as u32, at);
        }
    }

    fn open(&mut self, process: u32, file: FileId, create: bool) {
        self.processes[process as usize].open[file.0 as usize] = Open::default();
        if create {
            self.forget(file);
        }
    }

    /// Takes what a file holds away, in memory and on its volume.
    fn forget(&mut self, file: FileId) {
        let index = file.0 as usize;
        let old = self.inodes[index];
        let (volume, base) = (self.cache.inode(old).volume, self.cache.inode(old).base);
        self.cache.drop_inode(old);
        self.inodes[index] = self.cache.add_inode(volume, base, 0);
    }

    // Reading.

    /// Reads on; none if the process has to wait.
    fn read(&mut self, now: Nanos, process: u32, file: FileId, bytes: u64) -> Option<u64> {
        let inode = self.inodes[file.0 as usize];
        let (unit, length) = (self.spec.unit.0, self.cache.inode(inode).bytes);
        let position = self.processes[process as usize].open[file.0 as usize].position;
        let end = (position + bytes).min(length);
        if position >= end {
            return Some(0);
        }
        let (first, last) = ((position / unit) as u32, ((end - 1) / unit) as u32);
        for index in first..=last {
            if self.cache.is_here(inode, index) {
                continue;
            }
            if !self.cache.holds(inode, index) && !self.ask_for(now, process, file, (first, index, last)) {
                self.wait_for_memory(now, process);
                return None;
            }
            self.processes[process as usize].blocked = Blocked::Unit(inode, index);
            return None;
        }
        for index in first..=last {
            self.cache.touch(inode, index);
        }
        let this = &mut self.processes[process as usize];
        let open = &mut this.open[file.0 as usize];
        open.position = end;
        open.next = (end / unit) as u32;
        this.bytes = end - position;
        if self.spec.host.kernel.read_ahead_overlaps && open.window_units > 0 && last >= open.window.0 {
            self.ask_ahead(now, process, file);
        }
        Some(end - position)
    }

    /// Asks for a window from `index` on, for a call that needs the units from `first` to `last`. Returns whether there was memory for
    /// its first unit.
    fn ask_for(
        &mut self,
        now: Nanos,
        process: u32,
        file: FileId,
        (first, index, last): (u32, u32, u32),
    ) -> bool {
        let filesystem = self.filesystem_of(file);
        let unit = self.spec.unit.0;
        let units = |bytes: ByteCount| (bytes.0 / unit).max(1) as u32;
        let (least, most) = (units(filesystem.read_ahead_min), units(filesystem.read_ahead_max));
        let needed = last - index + 1;
        let open = &mut self.processes[process as usize].open[file.0 as usize];
        let window = match (first == open.next, open.window_units) {
            (false, _) => 0,
            (true, 0) => least,
            (true, before) => (before * 2).min(most),
        };
        open.window_units = window;
        let window = window.max(needed);
        open.window = (index, index + window);
        self.read_window(now, process, file, (index, index + window))
    }

    /// Asks for the window behind the latest one.
    fn ask_ahead(&mut self, now: Nanos, process: u32, file: FileId) {
        let most = (self.filesystem_of(file).read_ahead_max.0 / self.spec.unit.0).max(1) as u32;
        let open = &mut self.processes[process as usize].open[file.0 as usize];
        let window = (open.window_units * 2).min(most);
        open.window_units = window;
        open.window = (open.window.1, open.window.1 + window);
        let window = open.window;
        self.read_window(now, process, file, window);
    }

    fn filesystem_of(&self, file: FileId) -> &raidlab_hardware::FilesystemModel {
        let volume = self.cache.inode(self.inodes[file.0 as usize]).volume;
        self.volumes[usize::from(volume)].filesystem
    }

    /// Reads what is not in memory of a window. Returns whether there was memory for its first unit.
    fn read_window(&mut self, now: Nanos, process: u32, file: FileId, (first, end): (u32, u32)) -> bool {
        let inode = self.inodes[file.0 as usize];
        let length = self.cache.inode(inode).bytes.div_ceil(self.spec.unit.0) as u32;
        let mut run = Run { inode, first, units: 0 };
        let mut runs = 0;
        let mut pages = 0;
        for index in first..end.min(length) {
            let holds = self.cache.holds(inode, index);
            if !holds && self.cache.allocate(inode, index, &mut self.outgoing) == Allocated::Unit {
                if run.units == 0 {
                    run.first = index;
                }
                run.units += 1;
                pages += self.spec.unit.0 / PAGE_BYTES;
                continue;
            }
            runs += u32::from(run.units > 0);
            self.read_run(now, &mut run);
            if !holds {
                break;
            }
        }
        runs += u32::from(run.units > 0);
        self.read_run(now, &mut run);
        let driver = self.volumes[usize::from(self.cache.inode(inode).volume)].driver;
        let checksums = self.filesystem_of(file).checksum_time(pages * PAGE_BYTES);
        self.processes[process as usize].extra +=
            (self.spec.host.page_in + driver.page_in) * pages + checksums;
        self.write_outgoing(now);
        runs > 0
    }

    fn read_run(&mut self, now: Nanos, run: &mut Run) {
        if run.units > 0 {
            self.enqueue(now, *run, false);
        }
        run.units = 0;
    }

    /// A run has been read: whoever waits for part of it goes on.
    pub(super) fn read_ended(&mut self, now: Nanos, run: Run) {
        for process in 0..self.processes.len() as u32 {
            let this = &mut self.processes[process as usize];
            match this.blocked {
                Blocked::Unit(inode, index)
                    if inode == run.inode && (run.first..run.first + run.units).contains(&index) =>
                {
                    this.blocked = Blocked::Not;
                    self.proceed(now, process);
                }
                _ => {}
            }
        }
        self.feed_starved(now);
    }

    // Writing.

    /// Writes; false if the process has to wait for memory.
    fn write(&mut self, now: Nanos, process: u32, file: FileId, bytes: u64) -> bool {
        let inode = self.inodes[file.0 as usize];
        let unit = self.spec.unit.0;
        let position = self.processes[process as usize].open[file.0 as usize].position;
        let end = position + bytes;
        for index in (position / unit) as u32..end.div_ceil(unit) as u32 {
            if !self.cache.holds(inode, index) {
                let allocated = self.cache.allocate(inode, index, &mut self.outgoing);
                self.write_outgoing(now);
                if allocated == Allocated::NoMemory {
                    self.wait_for_memory(now, process);
                    return false;
                }
            }
            self.cache.set_dirty(now, inode, index);
        }
        for index in (position / unit) as u32..end.div_ceil(unit) as u32 {
            self.cache.touch(inode, index);
        }
        let this = &mut self.processes[process as usize];
        this.open[file.0 as usize].position = end;
        this.bytes = bytes;
        self.note_new(inode, end, bytes);
        self.flush(now, self.cache.inode(inode).volume);
        true
    }

    /// A run has been written: whoever waits for that goes on.
    pub(super) fn written(&mut self, now: Nanos) {
        for process in 0..self.processes.len() as u32 {
            match self.processes[process as usize].blocked {
                Blocked::Limit if !self.is_over_limit() => self.return_call(now, process),
                Blocked::Sync(inode) if self.cache.inode(inode).unwritten == 0 => {
                    self.processes[process as usize].blocked = Blocked::Not;
                    self.proceed(now, process);
                }
                _ => {}
            }
        }
        self.feed_starved(now);
    }

    // Memory.

    fn wait_for_memory(&mut self, now: Nanos, process: u32) {
        self.processes[process as usize].blocked = Blocked::Memory;
        self.starved += 1;
        self.flush_all(now);
    }

    /// Lets those who wait for memory try again.
    fn feed_starved(&mut self, now: Nanos) {
        if self.starved == 0 {
            return;
        }
        for process in 0..self.processes.len() as u32 {
            let this = &mut self.processes[process as usize];
            if this.blocked == Blocked::Memory {
                this.blocked = Blocked::Not;
                self.starved -= 1;
                self.proceed(now, process);
            }
        }
    }
}

/// The file that a call writes to.
const fn written_by(call: FileCall) -> Option<FileId> {
    match call {
        FileCall::Write { file, .. } | FileCall::WriteAt { file, .. } | FileCall::PutChars { file, .. } => {
            Some(file)
        }
        _ => None,
    }
}
