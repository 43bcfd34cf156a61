//! The state of the simulated kernel: time, events, entries in flight, disks, clients, and how a life ends.
//!
//! ```text
//! push ─► queue ─ enter ─► begun ── its time ──► done ── its time ──► end       files: `member_io.rs`
//!                             └── not ready: waits ──► ready ──┘               sockets: `sockets.rs`
//! ```
//! Everything that is drawn comes from one stream, in the order of events; equal times in the order they were set.

use crate::client::{Client, Common, Complaint};
use crate::disk::{CutKind, Disks};
use crate::entry::{Asked, FileName, Victim};
use crate::flight::{Flight, Flights, Stage, length};
use crate::member_io::MemberFaults;
use crate::plan::{Fault, Life, LifeEnd, Plan};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::Rng;
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Owner of the export's entries, in the upper half of their names.
const PORT: u64 = 1;
/// An answer takes no longer than this, beside the time that members may take.
const ANSWERS_WITHIN: NanoSpan = NanoSpan::from_millis(60_000);
/// Nor do blocks that have been dirty for as long as they may take to reach members.
const WRITTEN_BACK_WITHIN: NanoSpan = NanoSpan::from_millis(10_000);
/// Nor does a life without news.
const LIFE_MAX: NanoSpan = NanoSpan::from_secs(3_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// An entry is done with what it asks for.
    Apply(u64),
    /// It ends.
    End(u64),
    /// A client has a turn.
    Client(usize),
    /// It is looked whether everybody was answered.
    Look,
    /// All that is dirty has had time to reach the members.
    Rested,
}

/// How a life was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Kill,
    PowerCut,
    /// A complaint ends it.
    Complaint,
}

/// Whether an array is left alone whose clients are through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    No,
    Begun,
    /// All that is dirty has had time to reach the members.
    Over,
}

/// Something to do.
pub(crate) struct OnCut(pub(crate) Box<dyn FnMut() + Send>);

impl std::fmt::Debug for OnCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnCut").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: Nanos,
    pub(crate) random: Rng,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    next_event: u64,
    pub(crate) flights: Flights,
    /// Pushed and not submitted.
    pub(crate) queue: Vec<(u64, Asked)>,
    /// Disks by their registered places.
    pub(crate) places: Vec<Option<usize>>,
    pub(crate) disks: Disks,
    /// Registered files, which a ring holds open as long as it is there.
    pub(crate) held: Vec<OwnedFd>,
    pub(crate) faults: Vec<MemberFaults>,
    pub(crate) plan: Plan,
    pub(crate) common: Common,
    pub(crate) clients: Vec<Client>,
    /// The other ends of their sockets, as the export has them.
    pub(crate) servers: Vec<Option<RawFd>>,
    /// How long each client was left alone last.
    pub(crate) idle: Vec<u64>,
    /// When each has its next turn.
    turns: Vec<Nanos>,
    pub(crate) arriving: VecDeque<usize>,
    /// Ends of pairs that the export was not told of yet.
    pub(crate) undelivered: Vec<OwnedFd>,
    pub(crate) life: Life,
    began: Nanos,
    /// Entries and stores of this life.
    pub(crate) entries: u64,
    pub(crate) stores: u64,
    pub(crate) next_number: u64,
    pub(crate) broken: Option<Broken>,
    pub(crate) rest: Rest,
    /// The ring has told of it.
    told: bool,
    ends_port: bool,
    pub(crate) complaint: Option<Complaint>,
    pub(crate) cancel: Arc<AtomicBool>,
    /// Faults that the outside carries out.
    pub(crate) orders: Vec<Fault>,
    pub(crate) nvram: Option<PathBuf>,
    /// What NVRAM held when the life was broken off.
    pub(crate) nvram_bytes: Option<Vec<u8>>,
    /// What it held before a block was moved.
    pub(crate) nvram_before: Option<Vec<u8>>,
    /// Calls on devices, of a creation that is to be cut off.
    pub(crate) calls: u64,
    pub(crate) calls_until_cut: Option<u64>,
    /// Done when the process is killed in a creation.
    pub(crate) on_cut: Option<OnCut>,
    /// Disks that are being synced, until the next call.
    pub(crate) syncing: Vec<usize>,
}

impl State {
    pub(crate) fn new(plan: &Plan, nvram: Option<PathBuf>) -> Self {
        let oracle = crate::oracle::Oracle::new(plan.survives_cuts());
        let piece_bytes = plan.buffer_bytes as u32;
        let common = Common {
            oracle,
            volume_bytes: 0,
            next_number: 1,
            requests_left: 0,
            may_fail: Plan::may_fail(&plan.config),
            may_lose_torn: Plan::may_lose_torn_stripes(&plan.config),
            is_stopping: false,
            answered: 0,
            piece_bytes,
        };
        Self {
            now: Nanos(1_000),
            random: Rng::new(plan.seed ^ 0x5eed),
            events: BinaryHeap::new(),
            next_event: 0,
            flights: Flights::default(),
            queue: Vec::new(),
            places: Vec::new(),
            disks: Disks::default(),
            held: Vec::new(),
            faults: Vec::new(),
            plan: plan.clone(),
            common,
            clients: Vec::new(),
            servers: Vec::new(),
            idle: Vec::new(),
            turns: Vec::new(),
            arriving: VecDeque::new(),
            undelivered: Vec::new(),
            life: Life { requests: 0, end: LifeEnd::Stop, faults: Vec::new(), clients: Vec::new() },
            began: Nanos::ZERO,
            entries: 0,
            stores: 0,
            next_number: 1,
            broken: None,
            rest: Rest::No,
            told: false,
            ends_port: false,
            complaint: None,
            cancel: Arc::new(AtomicBool::new(false)),
            orders: Vec::new(),
            nvram,
            nvram_bytes: None,
            nvram_before: None,
            calls: 0,
            calls_until_cut: None,
            on_cut: None,
            syncing: Vec::new(),
        }
    }

    /// A ring is made, of an array that starts.
    pub(crate) fn begin_ring(&mut self, files: u16) {
        self.events.clear();
        self.flights = Flights::default();
        self.queue.clear();
        self.places = vec![None; usize::from(files)];
        self.faults = (0..files).map(|_| MemberFaults::default()).collect();
        (self.entries, self.told, self.ends_port, self.began) = (0, false, false, self.now);
        self.life.faults.clear();
        self.clients.clear();
    }

    /// The process of an array has ended, and with it the locks that were left to I/O that does not end.
    pub(crate) fn close_ring(&mut self) {
        for file in self.held.drain(..) {
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock);
        }
        self.flights = Flights::default();
    }

    /// Clients come to an array that was started.
    pub(crate) fn begin_life(&mut self, life: &Life, volume_bytes: u64) {
        self.life = life.clone();
        self.stores = 0;
        self.rest = Rest::No;
        self.common.requests_left = life.requests;
        self.common.volume_bytes = volume_bytes;
        self.common.is_stopping = false;
        (self.clients, self.servers) = (Vec::new(), Vec::new());
        (self.idle, self.turns) = (Vec::new(), Vec::new());
        self.arriving.clear();
        self.cancel.store(false, Ordering::Relaxed);
        for plan in life.clients.clone() {
            let at = self.random.below(300_000);
            self.add_client(plan, at);
        }
        self.set(NanoSpan::from_millis(1_000), Event::Look);
    }

    pub(crate) fn add_client(&mut self, plan: crate::plan::ClientPlan, after: u64) {
        let seed = self.random.next_u64();
        self.clients.push(Client::new(plan, seed));
        self.servers.push(None);
        self.idle.push(1_000);
        self.turns.push(Nanos::FAR_FUTURE);
        self.set_turn(self.clients.len() - 1, after);
    }

    /// A client has its next turn after so many nanoseconds, if not before.
    pub(crate) fn set_turn(&mut self, client: usize, after: u64) {
        let at = self.now + NanoSpan(after);
        if at < self.turns[client] {
            self.turns[client] = at;
            self.set(NanoSpan(after), Event::Client(client));
        }
    }

    pub(crate) fn set(&mut self, after: NanoSpan, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse((self.now + after, self.next_event, event)));
    }

    pub(crate) fn complain(&mut self, checker: &'static str, text: impl Into<String>) {
        let complaint = Complaint { checker, text: text.into() };
        self.complaint.get_or_insert(complaint);
        self.broken = self.broken.or(Some(Broken::Complaint));
    }

    /// Submits what was pushed and goes on until an end is there or the time is over. Returns a descriptor that has to be waited for
    /// in the system's own time first.
    ///
    /// # Errors
    /// Once, when the life was broken off.
    pub(crate) fn enter(&mut self, at_most: Option<NanoSpan>, limit: Option<Nanos>) -> Result<Step, Errno> {
        let is_of_port = |name: u64| name >> 32 == PORT;
        // The export's entries are being ended; a ring that fails then would take the process with it.
        self.ends_port |= self
            .queue
            .iter()
            .any(|(_, asked)| matches!(asked, Asked::Cancel(Victim::Named(name)) if is_of_port(*name)));
        self.ends_port &= self.flights.all.values().any(|flight| is_of_port(flight.name));
        for (name, asked) in std::mem::take(&mut self.queue) {
            self.submit(name, asked);
        }
        if limit.is_none() {
            self.now += NanoSpan(100 + self.random.below(1_500));
        }
        let limit = limit.unwrap_or(self.now + at_most.unwrap_or(NanoSpan::ZERO));
        self.retry_waiting();
        loop {
            self.look_for_end();
            if self.broken.is_some() {
                self.flights.end_all();
                if self.ends_port || std::mem::replace(&mut self.told, true) {
                    return Ok(Step::Over);
                }
                return Err(Errno::IO);
            }
            if !self.orders.is_empty() {
                return Ok(Step::Orders(limit));
            }
            if let Some(file) = self.line_of_threads() {
                return Ok(Step::WaitFor(file, limit));
            }
            let due = self.events.peek().map(|Reverse((at, ..))| *at);
            match due {
                Some(at) if at <= self.now => self.next(),
                _ if !self.flights.ends.is_empty() || at_most.is_none() => return Ok(Step::Over),
                Some(at) if at <= limit => {
                    self.now = at;
                    self.next();
                }
                _ => {
                    self.now = self.now.max(limit);
                    return Ok(Step::Over);
                }
            }
        }
    }

    fn next(&mut self) {
        let Some(Reverse((at, _, event))) = self.events.pop() else { return };
        match event {
            Event::Apply(number) => self.apply(number),
            Event::End(number) => {
                if let Some(Flight { stage: Stage::Done(result), .. }) = self.flights.all.get(&number) {
                    let result = *result;
                    self.deliver(number, result);
                }
            }
            Event::Client(number) if self.turns[number] == at => {
                self.turns[number] = Nanos::FAR_FUTURE;
                self.turn(number);
            }
            // It had one before.
            Event::Client(_) => {}
            Event::Look => self.look(),
            Event::Rested => {
                if self.broken.is_none() {
                    self.rest = Rest::Over;
                }
                self.break_off(Broken::Kill);
            }
        }
    }

    fn submit(&mut self, name: u64, asked: Asked) {
        self.entries += 1;
        let number = self.next_number;
        self.next_number += 1;
        if let Asked::Cancel(victim) = asked {
            let result = self.flights.cancel(victim);
            self.flights.ends.push_back(raidlab_device::ring::EntryEnd { name, result, flags: 0 });
            return;
        }
        let mut flight = Flight {
            name,
            asked,
            stage: Stage::Begun,
            snapshot: Vec::new(),
            received: 0,
            beside: Vec::new(),
            was_late: false,
        };
        let delay = match &flight.asked {
            Asked::Read { .. } | Asked::Write { .. } | Asked::Flush { .. } => {
                self.begin_member_io(&mut flight);
                self.member_delay()
            }
            Asked::Receive { .. } | Asked::Send { .. } => 100 + self.random.below(20_000),
            Asked::Accept | Asked::Readable { .. } | Asked::Cancel(_) => {
                flight.stage = Stage::Waits;
                0
            }
        };
        self.flights.all.insert(number, flight);
        if delay > 0 {
            self.set(NanoSpan(delay), Event::Apply(number));
        }
    }

    fn apply(&mut self, number: u64) {
        let Some(flight) = self.flights.all.get(&number) else { return };
        match &flight.asked {
            Asked::Read { .. } | Asked::Write { .. } | Asked::Flush { .. } => self.apply_member_io(number),
            Asked::Receive { .. } | Asked::Send { .. } => self.try_socket(number),
            Asked::Accept | Asked::Readable { .. } | Asked::Cancel(_) => {}
        }
    }

    /// An entry is done; its end comes a little later.
    pub(crate) fn done(&mut self, number: u64, result: i32) {
        self.flights.all.get_mut(&number).expect("it is in flight").stage = Stage::Done(result);
        let after =
            if self.random.below(8) == 0 { self.random.below(200_000) } else { self.random.below(3_000) };
        self.set(NanoSpan(after), Event::End(number));
    }

    /// Whether the life is over: its last request was answered, or its end has come.
    fn look_for_end(&mut self) {
        if self.broken.is_some() {
            return;
        }
        while let Some(event) = self.life.faults.first().copied()
            && event.after <= self.entries
        {
            self.life.faults.remove(0);
            self.strike(event.fault);
        }
        match self.life.end {
            LifeEnd::Kill(entries) if self.entries >= entries => self.break_off(Broken::Kill),
            LifeEnd::PowerCut(entries) if self.entries >= entries => self.break_off(Broken::PowerCut),
            _ => {}
        }
        let is_through = !self.clients.is_empty() && self.clients.iter().all(Client::is_over);
        if is_through && self.life.end == LifeEnd::KillAtRest {
            if std::mem::replace(&mut self.rest, Rest::Begun) == Rest::No {
                let cache = &self.plan.config.cache;
                self.set(cache.flush_after + cache.flush_after + WRITTEN_BACK_WITHIN, Event::Rested);
            }
        } else if is_through && !self.cancel.swap(true, Ordering::Relaxed) {
            self.common.is_stopping = true;
            if self.life.end != LifeEnd::Stop && self.random.below(2) == 0 {
                let how = if self.random.below(2) == 0 { Broken::Kill } else { Broken::PowerCut };
                self.break_off(how);
            }
        }
    }

    /// The process or the power ends at this moment.
    pub(crate) fn break_off(&mut self, how: Broken) {
        if self.broken.is_some() {
            return;
        }
        self.broken = Some(how);
        self.keep_nvram();
        let kind = CutKind::draw(&mut self.random);
        if let Err(error) = self.tear_in_flight(kind, how) {
            self.complain("simulation", format!("a cut of the power: {error}"));
        }
        let common = &mut self.common;
        self.clients.iter_mut().for_each(|client| client.vanish(common));
        self.undelivered.clear();
        if let Some(OnCut(done)) = &mut self.on_cut {
            done();
        }
    }

    pub(crate) fn keep_nvram(&mut self) {
        if self.nvram_bytes.is_none()
            && let Some(path) = &self.nvram
        {
            self.nvram_bytes = std::fs::read(path).ok();
        }
    }

    fn look(&mut self) {
        let limit = ANSWERS_WITHIN + NanoSpan::from_millis(8 * self.plan.member_timeout_ms);
        let waits = self.clients.iter().filter_map(Client::waits_since).min();
        if let Some(since) = waits
            && self.now.saturating_since(since) > limit
        {
            self.complain("liveness", format!("a request has had no answer for {limit}"));
        }
        if self.now.saturating_since(self.began) > LIFE_MAX {
            self.complain("liveness", "the array does not come to an end");
        }
        self.set(NanoSpan::from_millis(1_000), Event::Look);
    }

    /// A descriptor that a thread of the array will make readable: what threads do takes no time here.
    fn line_of_threads(&self) -> Option<RawFd> {
        let mut lines = self.flights.all.values().filter_map(|flight| match flight.asked {
            Asked::Readable { file } if flight.stage == Stage::Waits && flight.name as u32 == 1 => Some(file),
            _ => None,
        });
        lines.next()
    }
}

/// The place of a registered file.
pub(crate) const fn place_of(file: FileName) -> Option<u16> {
    match file {
        FileName::Registered(place) => Some(place),
        FileName::Open(_) => None,
    }
}

/// What is to be done before the simulation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Over,
    /// Wait until this is readable.
    WaitFor(RawFd, Nanos),
    /// Carry out the orders.
    Orders(Nanos),
}

/// Bytes of an entry's memory.
pub(crate) fn bytes_asked(asked: &Asked) -> usize {
    match asked {
        Asked::Read { pieces, .. }
        | Asked::Write { pieces, .. }
        | Asked::Receive { pieces, .. }
        | Asked::Send { pieces, .. } => length(pieces),
        Asked::Flush { .. } | Asked::Accept | Asked::Readable { .. } | Asked::Cancel(_) => 0,
    }
}
