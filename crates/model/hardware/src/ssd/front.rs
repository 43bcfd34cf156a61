//! Between the host and the buffer: firmware cores, the link, and caps on rates.
//!
//! ```text
//!  command --> caps (reads, writes, both; others when it is hot) --> firmware core that is free first --> ... --> link (in, out; one for both on SATA)
//! ```
//! Each is first come, first served. A cap passes bursts, like a token bucket. A port carries one transfer at a time,
//! over all of its lanes.
//!
//! Left out: arbitration between queue pairs, which share one queue here; doorbells and interrupts, which are in the
//! link's time per transfer and in the latencies.

use super::heat::{Heat, HeatModel};
use super::model::{CapModel, FrontModel};
use crate::link::{LinkModel, Server};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the host.
    Read,
    /// From the host.
    Write,
}

/// What commands pass on their way in and out.
#[derive(Clone, Debug)]
pub(super) struct Front {
    model: FrontModel,
    link: LinkModel,
    /// The ports to the host, and those from the host.
    wires: [Vec<Server>; 2],
    caps: Caps,
    /// How hot it is, and what holds then, too.
    heat: Option<Box<(Heat, Caps)>>,
    /// When each core is free.
    cores: Vec<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Cap {
    per_command: NanoSpan,
    rate: Option<BytesPerSec>,
    burst: NanoSpan,
    line: Server,
}

impl Cap {
    fn new(iops: Option<f64>, rate: Option<BytesPerSec>, burst: NanoSpan) -> Self {
        let per_command = iops.map_or(NanoSpan::ZERO, |iops| NanoSpan::from_secs_f64(1.0 / iops));
        Self { per_command, rate, burst, line: Server::default() }
    }

    /// When a command of `bytes` may go on.
    fn pass(&mut self, now: Nanos, bytes: ByteCount) -> Nanos {
        let span = self.per_command.max(self.rate.map_or(NanoSpan::ZERO, |rate| rate.time_for(bytes)));
        if span == NanoSpan::ZERO { now } else { self.line.serve_within_burst(now, span, self.burst) }
    }
}

#[derive(Clone, Debug)]
struct Caps {
    /// On reads, and on writes.
    ways: [Cap; 2],
    /// On both together: how many, how many while credits last, and how much.
    shared: Option<Box<[Cap; 3]>>,
}

impl Caps {
    fn new(model: &CapModel) -> Self {
        let CapModel { read_iops, write_iops, read_rate, write_rate, iops, rate, burst, .. } = *model;
        let spare = model.credits.zip(iops);
        let of_credits =
            spare.map_or(NanoSpan::ZERO, |(credits, iops)| NanoSpan::from_secs_f64(credits / iops));
        let shared = [
            Cap::new(iops, None, burst.max(of_credits)),
            Cap::new(model.burst_iops, None, burst),
            Cap::new(None, rate, burst),
        ];
        Self {
            ways: [Cap::new(read_iops, read_rate, burst), Cap::new(write_iops, write_rate, burst)],
            shared: (iops.is_some() || rate.is_some()).then(|| Box::new(shared)),
        }
    }

    /// When a command of `bytes` may go on.
    #[inline]
    fn pass(&mut self, now: Nanos, way: Way, bytes: ByteCount) -> Nanos {
        let passed = self.ways[way as usize].pass(now, bytes);
        let shared = self.shared.as_deref_mut().into_iter().flatten();
        shared.fold(passed, |passed, cap| passed.max(cap.pass(now, bytes)))
    }
}

impl Front {
    pub(super) fn new(
        model: &FrontModel,
        caps: &CapModel,
        heat: Option<&HeatModel>,
        link: LinkModel,
    ) -> Self {
        Self {
            model: *model,
            link,
            wires: [0, 1].map(|_| vec![Server::default(); model.ports as usize]),
            caps: Caps::new(caps),
            heat: heat.map(|heat| Box::new((Heat::new(heat.after), Caps::new(&heat.caps)))),
            cores: vec![Nanos::ZERO; model.cores as usize],
        }
    }

    /// Takes in whether commands are inside from `now` on.
    #[inline]
    pub(super) fn set_working(&mut self, now: Nanos, works: bool) {
        if let Some(heat) = &mut self.heat {
            heat.0.set_working(now, works);
        }
    }

    /// When a command of `bytes` and so many units has been decoded.
    #[inline]
    pub(super) fn decode(&mut self, now: Nanos, way: Way, bytes: ByteCount, units: u64) -> Nanos {
        let mut passed = self.caps.pass(now, way, bytes);
        if let Some((heat, caps)) = self.heat.as_deref_mut()
            && heat.is_hot(now)
        {
            passed = passed.max(caps.pass(now, way, bytes));
        }
        let command = match way {
            Way::Read => self.model.read_command,
            Way::Write => self.model.write_command,
        };
        let span = command + self.model.per_unit * units.saturating_sub(1);
        // The order of the cores is of no matter: the first of those that are free soonest.
        let core = self.cores.iter_mut().min().expect("there is one at least");
        *core = (*core).max(passed) + span;
        *core
    }

    /// When data that are there at `ready` have crossed the link.
    #[inline]
    pub(super) fn transfer(&mut self, now: Nanos, ready: Nanos, way: Way, bytes: ByteCount) -> Nanos {
        let wire = if self.model.duplex { way as usize } else { 0 };
        let on_one_port = ByteCount(bytes.0 * u64::from(self.model.ports));
        let span = self.link.transfer_time(on_one_port);
        let port = self.wires[wire].iter_mut().min_by_key(|port| port.busy_until());
        port.expect("there is one at least").serve_when_ready(now, ready, span)
    }

    /// Time that a command spends beside all this.
    #[inline]
    pub(super) fn latency(&self, way: Way) -> NanoSpan {
        match way {
            Way::Read => self.model.read_latency,
            Way::Write => self.model.write_latency,
        }
    }
}
