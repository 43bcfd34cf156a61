//! The emulated world: a modelled array at the pace of the wall clock, with real bytes behind it.
//!
//! ```text
//!              ┌── request, now ──► Modelled  (controller and hardware models in virtual time) ── answer at t ──┐
//! HostPort ────┤                                                                                               ├─► end
//!              └── its bytes ─────► backing (memory, or a file) by io_uring ─────────────────────── there ─────┘
//! ```
//! A request ends when the model has answered it, the clock has reached that time, and its bytes are there; never
//! before. The delay compared with the model is measured: see [`Lateness`]. The model runs in virtual time, so one late
//! answer does not make the array slower afterwards.
//!
//! Operators' commands work as on a real array: fail, replace, add a spare, check, bound the rate of scans, stop. Data
//! that the model has lost is an error to the client, though its bytes are still in the backing.
//!
//! Left out: power cuts, and more than one volume.

mod backing;
mod lateness;
mod model;

pub use backing::{Backing, BackingError};
pub use lateness::{Lateness, LatenessFacts};
pub use model::{Modelled, ModelledAnswer};

use crate::command::{clear, free_slot, may_be_filled, may_join, may_leave, order_scans};
use crate::error::{ArrayError, RingError};
use crate::events::Chronicle;
use crate::host::HostPort;
use crate::memory::HostBuffers;
use crate::operator::{Answer, ArrayStatus, Asked, Command, CommandQueue, nothing_to_reload};
use crate::panic::AbortOnPanic;
use crate::ring::{Direction, Done, Owner, Ring, Target};
use crate::serving::{ForHost, HostFront, Served, serve_until_finished};
use crate::status::{DeviceFacts, StatusFacts, Tally};
use raidlab_controller::{HostCompletion, HostError, HostOp, HostRequest, HostTag};
use raidlab_format::{ArrayName, DeviceUuid};
use raidlab_units::{BlockSize, ByteCount, MemberIndex, NanoSpan, Nanos};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Longest wait before the request to stop is looked at.
const PATIENCE: NanoSpan = NanoSpan::from_millis(50);
/// So long before something is due the loop stops sleeping and looks: a sleep ends that much too late.
const LOOK_AHEAD: NanoSpan = NanoSpan::from_micros(60);
/// Place of the backing among the registered files.
const BACKING: u16 = 0;
/// Number of the operator's line.
const LINE: u32 = 0;

/// What has come to pass of a request in flight.
#[derive(Clone, Copy, Debug)]
struct Running {
    request: HostRequest,
    /// When the modelled array answered, and whether it was done.
    modelled: Option<(Nanos, bool)>,
    /// Whether the bytes are where they belong, or can't be.
    bytes: Option<bool>,
}

/// A modelled array that is served at its own pace. It stays on the thread that made it.
#[derive(Debug)]
pub struct EmulatedWorld<M> {
    // Dropped first: it waits for all I/O on the memory and the file below.
    ring: Ring,
    front: HostFront,
    host: HostBuffers,
    backing: Backing,
    model: M,
    name: ArrayName,
    block_size: BlockSize,
    started: Instant,
    running: Vec<Option<Running>>,
    tally: Tally,
    lateness: Lateness,
    queue: Option<CommandQueue>,
    line_waits: bool,
    line_news: bool,
    is_stopping: bool,
    stop_asked: Vec<Asked>,
    /// Drives that joined, for identities that differ.
    joined: u128,
    done: Vec<Done>,
}

impl<M: Modelled> EmulatedWorld<M> {
    /// Emulates `model`, called `name`, whose bytes are in `backing`.
    ///
    /// # Errors
    /// [`ArrayError::Ring`] if this machine gives no `io_uring`.
    pub fn new(model: M, name: ArrayName, backing: Backing) -> Result<Self, ArrayError> {
        let mut ring = Ring::new(1, NanoSpan::ZERO)?;
        ring.set_file(BACKING, backing.file().as_raw_fd())?;
        if let Err(errno) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
            tracing::info!(%errno, "timers stay coarse: completions may be late by 50 us more");
        }
        Ok(Self {
            ring,
            front: HostFront::default(),
            host: HostBuffers::new(0, 0)?,
            backing,
            block_size: model.block_size(),
            model,
            name,
            started: Instant::now(),
            running: Vec::new(),
            tally: Tally::new(Chronicle::new(name.to_string(), "emulated".to_owned(), None)),
            lateness: Lateness::default(),
            queue: None,
            line_waits: false,
            line_news: false,
            is_stopping: false,
            stop_asked: Vec::new(),
            joined: 0,
            done: Vec::new(),
        })
    }

    /// Lets operators ask through `queue` from here on.
    pub fn attach_operator(&mut self, queue: CommandQueue) {
        self.queue = Some(queue);
        // Whoever asked before is heard at once.
        self.line_news = true;
    }

    /// What people call the array.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Length of a block.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Size of the volume that is served.
    pub fn volume_bytes(&self) -> ByteCount {
        self.backing.bytes()
    }

    /// How late requests ended so far.
    pub const fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// How the array is now.
    pub fn status(&self) -> ArrayStatus {
        let facts = StatusFacts {
            now: self.now(),
            name: self.name.as_str(),
            array_uuid: "emulated".to_owned(),
            is_stopping: self.is_stopping,
            nvram: None,
            device: &|_| DeviceFacts::default(),
        };
        self.tally.status(self.model.controller(), &facts)
    }

    /// Serves `port` until it is finished, an operator wants the array to stop, or `cancel` is set, and nothing of it is
    /// in flight.
    ///
    /// # Errors
    /// [`ArrayError`]: no memory for the port's buffers, or a failing ring.
    pub fn serve<P: HostPort>(&mut self, port: &mut P, cancel: &AtomicBool) -> Result<(), ArrayError> {
        let needs = port.needs();
        self.host = HostBuffers::new(needs.slots, needs.slot_bytes.get())?;
        self.running = vec![None; needs.slots as usize];
        let _guard = AbortOnPanic;
        let served = serve_until_finished(self, port, cancel).map(|_| ());
        self.front.end_entries(&mut self.ring, &mut self.done);
        for asked in self.stop_asked.drain(..) {
            asked.answer(Answer::Done { message: "the array is stopped".to_owned() });
        }
        self.queue = None;
        served
    }

    fn now(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Takes in what the kernel has done.
    fn take_in_ring(&mut self) {
        self.ring.reap(&mut self.done);
        let mut done = std::mem::take(&mut self.done);
        for done in done.drain(..) {
            match done.owner {
                Owner::Member => self.end_bytes(done),
                Owner::Port => self.front.take_entry(done),
                Owner::Line => (self.line_waits, self.line_news) = (false, true),
                Owner::Link | Owner::Cancel => {}
            }
        }
        self.done = done;
    }

    /// The backing has moved the bytes of a request, or could not.
    fn end_bytes(&mut self, done: Done) {
        let tag = done.number as usize;
        let running = self.running[tag].as_mut().expect("only requests in flight move bytes");
        let wanted = match running.request.op {
            HostOp::Flush | HostOp::Discard => 0,
            _ => self.block_size.bytes_of(running.request.blocks).get(),
        };
        let is_whole = done.result.is_ok_and(|bytes| u64::from(bytes) == wanted);
        if !is_whole {
            tracing::error!(result = ?done.result, wanted, "the backing of the array fails");
        }
        running.bytes = Some(is_whole);
        self.end_if_done(done.number, self.now());
    }

    /// Takes in what the model has answered and said.
    fn take_in_model(&mut self, now: Nanos) {
        while let Some(answer) = self.model.poll_answer() {
            let running =
                self.running[answer.tag.0 as usize].as_mut().expect("only requests in flight are answered");
            running.modelled = Some((answer.at, answer.succeeded));
            self.end_if_done(answer.tag.0, now);
        }
        if self.tally.chronicle.due() <= now {
            self.tally.chronicle.poll(now);
        }
        while let Some(notice) = self.model.poll_notice() {
            self.tally.note(now, &notice, self.model.controller().scan_progress(), |_| None);
        }
    }

    /// Ends a request of which all is there. The clock is past the model's answer: it is not handed out before.
    fn end_if_done(&mut self, tag: u32, now: Nanos) {
        let Some(Running { request, modelled: Some((at, succeeded)), bytes: Some(is_whole) }) =
            self.running[tag as usize]
        else {
            return;
        };
        self.running[tag as usize] = None;
        self.host.end(HostTag(tag));
        self.lateness.record(now.saturating_since(at));
        let is_ok = succeeded && is_whole;
        self.tally.count(&request, is_ok, self.block_size);
        let lost = match request.op {
            HostOp::Read => HostError::DataLost { lba: request.lba },
            HostOp::Write { .. } | HostOp::Flush | HostOp::Discard => {
                HostError::ArrayFailed { lba: request.lba }
            }
        };
        self.front
            .complete(HostCompletion { tag: HostTag(tag), result: if is_ok { Ok(()) } else { Err(lost) } });
    }

    // Operators.

    fn hear_operator(&mut self) -> Result<(), RingError> {
        if std::mem::take(&mut self.line_news) {
            if let Some(queue) = &self.queue {
                clear(queue.wake_descriptor());
            }
            while let Some(asked) = self.queue.as_ref().and_then(CommandQueue::poll_command) {
                self.obey(asked);
            }
        }
        if let (false, Some(queue)) = (self.line_waits, &self.queue) {
            self.ring.push_line(LINE, queue.wake_descriptor().as_raw_fd())?;
            self.line_waits = true;
        }
        Ok(())
    }

    fn obey(&mut self, asked: Asked) {
        let outcome = match asked.command.clone() {
            Command::Status => {
                let status = Box::new(self.status());
                return asked.answer(Answer::Status(status));
            }
            Command::Stop => {
                self.is_stopping = true;
                return self.stop_asked.push(asked);
            }
            Command::Fail { device } => self.fail(&device),
            Command::Reload => Err(nothing_to_reload()),
            Command::Replace { device, .. } => self.replace(&device),
            Command::AddSpare { .. } => {
                free_slot(self.model.controller(), |_| true).map(|place| self.add(place))
            }
            scans @ (Command::ScanRate { .. }
            | Command::Check
            | Command::Repair { .. }
            | Command::Recover
            | Command::StopScan) => {
                let now = self.now();
                self.model.operate(now, |controller| order_scans(controller, &mut self.tally, now, &scans))
            }
        };
        asked.answer(match outcome {
            Ok(message) => Answer::Done { message },
            Err(reason) => Answer::Refused { reason },
        });
    }

    /// The device of this number; a modelled drive has no path.
    fn find_device(&self, name: &str) -> Result<MemberIndex, String> {
        let count = self.model.controller().device_states().count();
        let found = name.parse::<u16>().ok().filter(|number| usize::from(*number) < count);
        let none = || {
            format!(
                "the array has no device '{name}': drives of an emulated array are numbered from 0 to {}",
                count - 1
            )
        };
        found.map(MemberIndex).ok_or_else(none)
    }

    fn fail(&mut self, name: &str) -> Result<String, String> {
        let member = self.find_device(name)?;
        may_leave(self.model.controller(), member)?;
        self.model.fail_member(self.now(), member);
        Ok(format!("device {} is taken out of the array", member.0))
    }

    fn replace(&mut self, name: &str) -> Result<String, String> {
        let member = self.find_device(name)?;
        may_join(self.model.controller()).map_err(|reason| {
            format!("{reason}; with `[resilience] metadata = \"bitmap\"` in the array's file devices can")
        })?;
        may_be_filled(self.model.controller(), member)?;
        Ok(self.add(member))
    }

    /// Puts a new drive of the same kind at `place`.
    fn add(&mut self, place: MemberIndex) -> String {
        self.joined += 1;
        self.model.add_member(self.now(), place, DeviceUuid(self.joined.to_le_bytes()));
        format!("a new drive is device {} of the array now", place.0)
    }
}

impl<M: Modelled> Served for EmulatedWorld<M> {
    fn take_in(&mut self) -> Result<Nanos, ArrayError> {
        self.take_in_ring();
        self.hear_operator()?;
        let now = self.now();
        self.model.advance(now);
        self.take_in_model(now);
        Ok(now)
    }

    fn for_host(&mut self) -> ForHost<'_> {
        ForHost { front: &mut self.front, buffers: &mut self.host, ring: &mut self.ring }
    }

    fn begin(&mut self, now: Nanos, request: HostRequest) -> Result<(), RingError> {
        let tag = request.tag;
        self.host.begin(tag, self.block_size.bytes_of(request.blocks).get());
        let offset = request.lba.0 * self.block_size.bytes();
        let target = Target::Single(self.host.io_vec(tag), None);
        let mut bytes = None;
        match request.op {
            HostOp::Read => self.ring.push_transfer(tag.0, BACKING, Direction::Read, offset, target)?,
            HostOp::Write { fua } => {
                let direction = Direction::Write { durable: fua && self.backing.is_durable() };
                self.ring.push_transfer(tag.0, BACKING, direction, offset, target)?;
            }
            HostOp::Flush if self.backing.is_durable() => self.ring.push_flush(tag.0, BACKING)?,
            HostOp::Flush | HostOp::Discard => bytes = Some(true),
        }
        self.running[tag.0 as usize] = Some(Running { request, modelled: None, bytes });
        self.model.handle_request(now, request);
        Ok(())
    }

    fn act(&mut self, now: Nanos) -> Result<(), RingError> {
        self.take_in_model(now);
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    fn wait(&mut self, now: Nanos, ask_at: Nanos) -> Result<(), RingError> {
        let has_news = self.front.has_news() || self.line_news;
        let due = self.model.next_at().unwrap_or(Nanos::FAR_FUTURE);
        let span = due.saturating_since(now);
        if has_news || span <= LOOK_AHEAD {
            return self.ring.enter(Some(NanoSpan::ZERO));
        }
        let until_due = NanoSpan(span.0 - LOOK_AHEAD.0);
        self.ring.enter(Some(until_due.min(ask_at.saturating_since(now)).min(PATIENCE)))
    }
}
