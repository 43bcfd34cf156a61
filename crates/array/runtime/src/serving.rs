//! One turn of a served array, real or emulated: take completions from its devices, report to its host, ask it for
//! requests, act on them, and wait.
//!
//! ```text
//! take_in ─► tell ─► ask ─► begin ─► act ─► wait
//!    ▲                                        │
//!    └────────────────────────────────────────┘
//! ```
//! A world defines each step ([`Served`]). Its debts to the host are in its [`HostFront`].

use crate::error::{ArrayError, RingError};
use crate::host::{HostPort, HostStep, StopWish};
use crate::memory::HostBuffers;
use crate::port_ring::{PortEntries, PortRing};
use crate::ring::{Done, Ring};
use raidlab_controller::{HostCompletion, HostRequest};
use raidlab_units::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a world owes its host: completions that it was not told yet, and the ends of entries of its own.
#[derive(Debug, Default)]
pub(crate) struct HostFront {
    entries: PortEntries,
    completions: Vec<HostCompletion>,
    in_flight: u32,
}

impl HostFront {
    /// A request has ended.
    #[inline]
    pub(crate) fn complete(&mut self, completion: HostCompletion) {
        self.completions.push(completion);
    }

    /// An entry of the host's own has ended.
    pub(crate) fn take_entry(&mut self, done: Done) {
        self.entries.take(done);
    }

    /// True while the host has not heard all.
    pub(crate) fn has_news(&self) -> bool {
        !self.completions.is_empty() || self.entries.has_news()
    }

    /// Cancels the host's own entries and waits for their ends. Completions of others are appended to `others`.
    pub(crate) fn end_entries(&mut self, ring: &mut Ring, others: &mut Vec<Done>) {
        self.entries.end_all(ring, others);
    }

    fn tell<P: HostPort + ?Sized>(&mut self, port: &mut P, now: Nanos, host: &HostBuffers) {
        for completion in self.completions.drain(..) {
            self.in_flight -= 1;
            port.handle_completion(now, completion, host);
        }
        for end in self.entries.drain() {
            port.handle_entry(now, end);
        }
    }
}

/// The parts of a world that a host's turn works on.
pub(crate) struct ForHost<'a> {
    pub(crate) front: &'a mut HostFront,
    pub(crate) buffers: &'a mut HostBuffers,
    pub(crate) ring: &'a mut Ring,
}

/// A world that can be served.
pub(crate) trait Served {
    /// Takes in what devices, timers and operators brought. Returns the time from which on the host's turn counts.
    fn take_in(&mut self) -> Result<Nanos, ArrayError>;

    /// What the host's turn works on.
    fn for_host(&mut self) -> ForHost<'_>;

    /// Begins a request.
    fn begin(&mut self, now: Nanos, request: HostRequest) -> Result<(), RingError>;

    /// Does what follows from the requests that were begun.
    fn act(&mut self, now: Nanos) -> Result<(), RingError>;

    /// Whether an operator wants the array to stop.
    fn is_stopping(&self) -> bool;

    /// Submits what is queued and waits for something to happen, until `ask_at` at most.
    fn wait(&mut self, now: Nanos, ask_at: Nanos) -> Result<(), RingError>;
}

/// Serves `port` until it is finished, or is told to stop, and nothing of it is in flight. Returns whether `cancel` was set.
///
/// # Errors
/// Those of the world.
pub(crate) fn serve_until_finished<W: Served, P: HostPort + ?Sized>(
    world: &mut W,
    port: &mut P,
    cancel: &AtomicBool,
) -> Result<bool, ArrayError> {
    let mut stop = None;
    loop {
        let now = world.take_in()?;
        let ForHost { front, buffers, .. } = world.for_host();
        front.tell(port, now, buffers);
        let is_cancelled = cancel.load(Ordering::Relaxed);
        if (is_cancelled || world.is_stopping()) && stop.is_none() {
            stop = Some(port.handle_stop(now));
        }
        let wish = if stop == Some(StopWish::EndNow) { None } else { ask(world, port, now)? };
        world.act(now)?;
        match wish {
            None if world.for_host().front.in_flight == 0 => return Ok(is_cancelled),
            None => world.wait(now, Nanos::FAR_FUTURE)?,
            Some(ask_at) => world.wait(now, ask_at)?,
        }
    }
}

/// Takes in what the host asks for. Returns when it wants to be asked again, or nothing when it is finished.
fn ask<W: Served, P: HostPort + ?Sized>(
    world: &mut W,
    port: &mut P,
    now: Nanos,
) -> Result<Option<Nanos>, RingError> {
    loop {
        let ForHost { front, buffers, ring } = world.for_host();
        let mut port_ring = PortRing { ring, entries: &mut front.entries };
        match port.poll_step(now, buffers, &mut port_ring) {
            HostStep::Submit(request) => {
                front.in_flight += 1;
                world.begin(now, request)?;
            }
            HostStep::WaitUntil(at) => return Ok(Some(at)),
            HostStep::WaitForCompletion => return Ok(Some(Nanos::FAR_FUTURE)),
            HostStep::Finished => return Ok(None),
        }
    }
}
