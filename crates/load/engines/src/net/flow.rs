//! One side's part of a test: threads that send and receive, and the measured window.
//!
//! ```text
//! go ──── ramp ────┤ window: counts and machine read at both ends ├──── tail ──── senders end ──── receivers see the end
//! ```
//! Each direction of each connection has a thread, since a call that moves data may block. Each thread counts in its
//! own cache line; the counts are read at both ends of the window while data flow.
//!
//! **The tail** keeps data flowing until the window of the other side is over, too, which began half a round trip
//! earlier or later. A blocked sender is woken within [`LOOK_UP_EVERY`].
//!
//! Invariant: all threads have ended when [`run`] returns.

use super::sys::{send_zero_copy, zero_copy_ends};
use super::wire::{NetOrder, is_over_time, span};
use super::{NetError, NetSource, Watch, socket};
use crate::clock::process_switches;
use crate::noise;
use raidlab_workload::{NetSide, SocketFacts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long data flow on after the window.
const TAIL: Duration = Duration::from_millis(500);
/// How long receivers wait for the end of what is sent, after that.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// A thread that waits in a call looks up this often.
const LOOK_UP_EVERY: Duration = Duration::from_millis(100);
/// The most that is taken from the kernel at once.
const RECEIVE_BYTES: usize = 1 << 20;
/// Sends below this are copied also where zero-copy is wanted: to pin the pages costs more (`msg_zerocopy.rst`).
pub(super) const ZERO_COPY_BYTES_MIN: u64 = 10 << 10;
/// Zero-copy sends between two looks at the error queue.
const LOOK_AT_ENDS_EVERY: u32 = 16;

/// This side's part.
pub(super) struct FlowOrder<'a> {
    pub(super) order: &'a NetOrder,
    pub(super) streams: &'a [TcpStream],
    pub(super) sends: bool,
    pub(super) receives: bool,
    pub(super) source: &'a NetSource,
}

/// What a thread has moved; a line of cache for each.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    /// Only the thread whose count it is may call this.
    #[inline]
    fn add(&self, calls: u64, bytes: u64) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + calls, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

fn sum(counts: &[Count]) -> (u64, u64) {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    counts
        .iter()
        .fold((0, 0), |(calls, bytes), count| (calls + read(&count.calls), bytes + read(&count.bytes)))
}

/// What the threads share.
struct Shared<'a> {
    flow: &'a FlowOrder<'a>,
    sent: Vec<Count>,
    received: Vec<Count>,
    zero_copy: Count,
    /// The window is over: whoever ends now is no loss.
    is_counted: AtomicBool,
    /// Senders are to end.
    stop: AtomicBool,
    running: AtomicUsize,
    /// Why the first thread ended that should not have.
    why: Mutex<Option<String>>,
}

/// How this side sends.
pub(super) fn method(order: &NetOrder, source: &NetSource) -> &'static str {
    match (source, order.zero_copy) {
        (NetSource::Memory, true) if order.send_bytes >= ZERO_COPY_BYTES_MIN => "MSG_ZEROCOPY",
        (NetSource::Memory, _) => "write",
        (NetSource::File(_), true) => "sendfile",
        (NetSource::File(_), false) => "read and write",
    }
}

/// Does this side's part, beginning now. `tell` gets the share of the time that is over.
///
/// # Errors
/// [`NetError::Cut`] if the connections end before the window is over, [`NetError::Cancelled`].
pub(super) fn run(
    flow: &FlowOrder<'_>,
    watch: &Watch<'_>,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(f64),
) -> Result<NetSide, NetError> {
    let count = flow.streams.len();
    let counts = || (0..count).map(|_| Count::default()).collect::<Vec<_>>();
    let threads = count * (usize::from(flow.sends) + usize::from(flow.receives));
    let shared = Shared {
        flow,
        sent: counts(),
        received: counts(),
        zero_copy: Count::default(),
        is_counted: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        running: AtomicUsize::new(threads),
        why: Mutex::new(None),
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..count {
            let shared = &shared;
            if flow.sends {
                scope.spawn(move || shared.as_thread(|| shared.send_all(number)));
            }
            if flow.receives {
                scope.spawn(move || shared.as_thread(|| shared.receive_all(number)));
            }
        }
        let counted = shared.window(started, watch, cancel, tell);
        shared.stop.store(true, Ordering::Relaxed);
        if counted.is_err() || !shared.drained() {
            // Wakes whoever still waits.
            flow.streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
        counted
    })
}

impl Shared<'_> {
    /// Waits for the window and returns what was counted in it.
    fn window(
        &self,
        started: Instant,
        watch: &Watch<'_>,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<NetSide, NetError> {
        let (ramp, run) = (self.flow.order.ramp(), self.flow.order.run());
        let whole = (ramp + run + TAIL).as_secs_f64();
        let mut wait =
            |until: Duration| self.wait(started, until, cancel, &mut |at| tell(at.as_secs_f64() / whole));
        wait(ramp)?;
        let (end_watch, begun) = (watch(), Instant::now());
        let (sent, received, switches) = (sum(&self.sent), sum(&self.received), process_switches());
        let until = started.elapsed() + run;
        wait(until)?;
        let window = begun.elapsed();
        self.is_counted.store(true, Ordering::Relaxed);
        let (sent_after, received_after, switches_after) =
            (sum(&self.sent), sum(&self.received), process_switches());
        let mut machine = end_watch();
        let since = |of: fn((u64, u64)) -> u64| {
            switches.zip(switches_after).map(|(before, after)| of(after).saturating_sub(of(before)))
        };
        machine.load_switches_voluntary = since(|both| both.0);
        machine.load_switches_involuntary = since(|both| both.1);
        let sockets = socket::facts(self.flow.streams);
        wait(until + TAIL)?;
        let (zero_copy_sends, zero_copy_copied) = sum(std::slice::from_ref(&self.zero_copy));
        Ok(NetSide {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            window_ns: span(window).get(),
            sends: sent_after.0 - sent.0,
            sent_bytes: sent_after.1 - sent.1,
            received_bytes: received_after.1 - received.1,
            machine,
            sockets: SocketFacts { zero_copy_sends, zero_copy_copied, ..sockets },
        })
    }

    /// Waits until `until` after the start.
    fn wait(
        &self,
        started: Instant,
        until: Duration,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(Duration),
    ) -> Result<(), NetError> {
        loop {
            let at = started.elapsed();
            let Some(left) = until.checked_sub(at).filter(|left| !left.is_zero()) else { return Ok(()) };
            if cancel.load(Ordering::Relaxed) {
                return Err(NetError::Cancelled);
            }
            let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(why) = why.filter(|_| !self.is_counted.load(Ordering::Relaxed)) {
                return Err(NetError::Cut { after: span(at), why });
            }
            tell(at);
            std::thread::sleep(left.min(LOOK_UP_EVERY / 2));
        }
    }

    /// Waits until all threads have ended, or too long. Only what receives data waits for the other side.
    fn drained(&self) -> bool {
        let deadline = Instant::now() + DRAIN_MAX;
        while self.running.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Does a thread's work and keeps why it ended, where that was before it was told to.
    fn as_thread(&self, work: impl FnOnce() -> Result<(), String>) {
        if let Err(why) = work()
            && !self.is_counted.load(Ordering::Relaxed)
        {
            self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
        self.running.fetch_sub(1, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes what comes until the other side has sent all.
    fn receive_all(&self, number: usize) -> Result<(), String> {
        let (mut stream, count) = (&self.flow.streams[number], &self.received[number]);
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err("the other side ended a connection".into()),
                Ok(bytes) => count.add(1, bytes as u64),
                Err(error) if is_over_time(&error) || error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Sends until told to stop, and says that this was all.
    fn send_all(&self, number: usize) -> Result<(), String> {
        let (stream, count) = (&self.flow.streams[number], &self.sent[number]);
        let length = self.flow.order.send_bytes as usize;
        let zero_copy = self.flow.order.zero_copy;
        let sent = match self.flow.source {
            NetSource::Memory if zero_copy && length as u64 >= ZERO_COPY_BYTES_MIN => {
                self.send_uncopied(stream, count, length)
            }
            NetSource::Memory => {
                let bytes = noise_of(length);
                self.repeat(count, length, |from| {
                    let mut out = stream;
                    out.write(&bytes[from..])
                })
            }
            NetSource::File(file) => self.send_file(stream, count, file, number),
        };
        let ended = stream.shutdown(Shutdown::Write);
        sent.and(ended).map_err(|error| error.to_string())
    }

    /// Makes sends of `length` bytes with `part`, which moves what it can from a place of the send on.
    fn repeat(
        &self,
        count: &Count,
        length: usize,
        mut part: impl FnMut(usize) -> std::io::Result<usize>,
    ) -> std::io::Result<()> {
        while !self.is_over() {
            let mut at = 0;
            while at < length {
                match part(at) {
                    Ok(bytes) => {
                        at += bytes;
                        count.add(u64::from(at >= length), bytes as u64);
                    }
                    Err(error) if is_over_time(&error) || error.kind() == std::io::ErrorKind::Interrupted => {
                        if self.is_over() {
                            return Ok(());
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Sends from memory without a copy, and hears what the kernel says of it.
    fn send_uncopied(&self, stream: &TcpStream, count: &Count, length: usize) -> std::io::Result<()> {
        let (bytes, socket) = (noise_of(length), stream.as_fd());
        let mut unheard = 0_u32;
        let sent = self.repeat(count, length, |from| {
            if unheard >= LOOK_AT_ENDS_EVERY {
                unheard = 0;
                self.hear_ends(stream)?;
            }
            unheard += 1;
            match send_zero_copy(socket, &bytes[from..]) {
                // There is no more room for sends whose end was not heard.
                Err(Errno::NOBUFS) => {
                    let mut wait = [PollFd::new(&socket, PollFlags::empty())];
                    let limit = Timespec { tv_sec: 0, tv_nsec: LOOK_UP_EVERY.as_nanos() as i64 };
                    poll(&mut wait, Some(&limit))?;
                    self.hear_ends(stream)?;
                    Err(std::io::ErrorKind::WouldBlock.into())
                }
                sent => Ok(sent?),
            }
        });
        sent.and_then(|()| self.hear_ends(stream))
    }

    fn hear_ends(&self, stream: &TcpStream) -> std::io::Result<()> {
        while let Some(ends) = zero_copy_ends(stream.as_fd())? {
            self.zero_copy.calls.fetch_add(ends.sends, Ordering::Relaxed);
            self.zero_copy.bytes.fetch_add(ends.copied, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends a file again and again, each connection from a place of its own, in whole sends.
    fn send_file(
        &self,
        stream: &TcpStream,
        count: &Count,
        file: &SentFile,
        number: usize,
    ) -> std::io::Result<()> {
        let length = self.flow.order.send_bytes;
        let sends = file.bytes / length;
        let first = sends * number as u64 / self.flow.streams.len() as u64;
        let (mut index, mut buffer) =
            (first, vec![0; if self.flow.order.zero_copy { 0 } else { length as usize }]);
        self.repeat(count, length as usize, |from| {
            let start = index % sends * length;
            let moved = if buffer.is_empty() {
                let mut offset = start + from as u64;
                sendfile(stream, &file.file, Some(&mut offset), (length - from as u64) as usize)?
            } else {
                if from == 0 {
                    file.file.read_exact_at(&mut buffer, start)?;
                }
                let mut out = stream;
                out.write(&buffer[from..])?
            };
            if moved == 0 {
                return Err(std::io::Error::other("the file was made shorter while it was sent"));
            }
            index += u64::from(from + moved == length as usize);
            Ok(moved)
        })
    }
}

/// A file that is sent.
#[derive(Debug)]
pub struct SentFile {
    pub(super) file: File,
    pub(super) bytes: u64,
}

/// Sets how long a call may wait before its thread looks up.
pub(super) fn prepare(streams: &[TcpStream]) -> Result<(), NetError> {
    for stream in streams {
        let set = stream.set_read_timeout(Some(LOOK_UP_EVERY));
        set.and_then(|()| stream.set_write_timeout(Some(LOOK_UP_EVERY)))
            .map_err(NetError::socket("set a limit of time"))?;
    }
    Ok(())
}

/// Bytes that neither compress nor deduplicate, for all sends from memory. They are never given back, since the kernel
/// may look at them after a zero-copy send has returned; what is kept is less than four times the longest send.
fn noise_of(length: usize) -> &'static [u8] {
    static NOISE: Mutex<&'static [u8]> = Mutex::new(&[]);
    let mut noise = NOISE.lock().unwrap_or_else(PoisonError::into_inner);
    if noise.len() < length {
        let mut bytes = vec![0; length.next_power_of_two()];
        noise::fill(0, 0, &mut bytes);
        *noise = Vec::leak(bytes);
    }
    &noise[..length]
}
