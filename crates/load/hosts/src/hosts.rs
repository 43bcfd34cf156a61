//! What ranks do together, over any transport of messages.
//!
//! Invariants: all ranks make the same calls in the same order, and get the same outcome from each; a waiting rank
//! sends heartbeats; an invalid message ends the run and names its sender.

use crate::clocks::{ClockOffset, CommonStart, EXCHANGES, Reading, closest};
use crate::rounds::Rounds;
use crate::{HostsError, Peers};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two heartbeats.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// While nothing comes, a rank looks in a tight loop for so long, for the clocks' sake, and then at intervals: it must not
/// take processor time from those that still work.
const SPIN: Duration = Duration::from_millis(2);
pub(crate) const LOOK_EVERY: Duration = Duration::from_micros(500);
/// The order to start is on its way for so long at most, in shortest ways to the furthest rank and in time.
const LEAD_WAYS: u64 = 8;
const LEAD_NS: u64 = 20_000_000;

/// Why a rank does not give its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Its user stopped it.
    Stopped,
    /// It can't, and says why.
    Failed(String),
}

/// What goes over the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message<T> {
    /// A heartbeat.
    Beat,
    /// A question for the clocks, and its answer.
    Ping,
    Pong(Reading),
    /// What a call is about.
    Body(T),
}

/// The outcome of a call, as rank 0 tells it.
#[derive(Debug, Serialize, Deserialize)]
enum Verdict<R> {
    Good(R),
    Refused { rank: u32, refusal: Refusal },
}

/// One of the others, as this rank sees it.
#[derive(Debug)]
pub(crate) struct Other {
    rank: u32,
    heard_at: Instant,
    /// Messages that came while something else was done.
    waiting: VecDeque<Vec<u8>>,
}

/// The ranks that work together, seen from one of them.
#[derive(Debug)]
pub struct Hosts {
    /// None where this process is alone.
    peers: Option<Box<dyn Peers>>,
    /// Whom this rank talks with: rank 0 with all others, the others with rank 0.
    pub(crate) others: Vec<Other>,
    names: Vec<String>,
    limit: Duration,
    beaten_at: Instant,
    /// A rank that was lost while something else was done.
    lost: Option<HostsError>,
    /// Who shares the jobs out, where that is not this.
    pub(crate) rounds: Option<Rounds>,
    /// Jobs that each rank has done, by rank; rank 0 counts.
    pub(crate) jobs_done: Vec<u64>,
}

impl Hosts {
    /// One process alone.
    pub fn alone() -> Self {
        let names = vec!["this host".to_owned()];
        let (limit, beaten_at) = (Duration::MAX, Instant::now());
        Self {
            peers: None,
            others: Vec::new(),
            names,
            limit,
            beaten_at,
            lost: None,
            rounds: None,
            jobs_done: vec![0],
        }
    }

    /// One process alone, whose jobs are shared out at the other end of a pipe.
    pub(crate) fn in_rounds(rounds: Rounds) -> Self {
        Self { rounds: Some(rounds), ..Self::alone() }
    }

    /// The ranks that `peers` connects; this one is on the host `name`. A rank may send no heartbeat for `limit`.
    ///
    /// # Errors
    /// [`HostsError`] if a rank does not answer, or is of another version.
    pub fn meet(peers: Box<dyn Peers>, name: String, limit: Duration) -> Result<Self, HostsError> {
        let (rank, count) = (peers.rank(), peers.count());
        let now = Instant::now();
        let with = if rank == 0 { 1..count } else { 0..1 };
        let others = with.map(|rank| Other { rank, heard_at: now, waiting: VecDeque::new() }).collect();
        let names = (0..count).map(|rank| format!("number {rank}, not known yet")).collect();
        let jobs_done = vec![0; count as usize];
        let mut hosts = Self {
            peers: Some(peers),
            others,
            names,
            limit,
            beaten_at: now,
            lost: None,
            rounds: None,
            jobs_done,
        };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let all = hosts.together(Ok((name, version.clone())), |all: Vec<(String, String)>| all)?;
        if let Some(rank) = all.iter().position(|(_, theirs)| *theirs != version) {
            let text = format!("it is raidlab {}, this is {version}", all[rank].1);
            return Err(HostsError::Garbled { rank: rank as u32, host: all[rank].0.clone(), text });
        }
        hosts.names = all.into_iter().map(|(name, _)| name).collect();
        Ok(hosts)
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> u32 {
        self.peers.as_ref().map_or(0, |peers| peers.rank())
    }

    /// How many processes there are.
    pub fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// Whether this is the process that keeps and shows results.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there is but one process.
    pub fn is_alone(&self) -> bool {
        self.count() == 1
    }

    /// The hosts' names, by rank.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of this process's host.
    pub fn name(&self) -> &str {
        &self.names[self.rank() as usize]
    }

    /// Ends all processes at once, this one too; returns where there is no other.
    pub fn abort(&mut self, code: u8) {
        if let Some(peers) = &mut self.peers {
            peers.abort(code);
        }
    }

    /// Waits until all are about to end. Launchers end all processes when one of them ends with an exit code that is not zero, and
    /// whoever leads may still have something to say.
    pub fn part(mut self) {
        self.listen_anew();
        // Whoever is lost now is no loss.
        let _ = self.barrier(Ok(()));
    }

    /// Sends a heartbeat, and looks for those of the others; cheap enough for ten times a second and more.
    ///
    /// # Errors
    /// [`HostsError::Lost`] with the rank that gave none for too long.
    pub fn beat(&mut self) -> Result<(), HostsError> {
        if self.beaten_at.elapsed() >= BEAT_EVERY {
            self.beaten_at = Instant::now();
            for index in 0..self.others.len() {
                self.send(index, &Message::<()>::Beat)?;
            }
        }
        for index in 0..self.others.len() {
            while let Some(bytes) = self.next_bytes(index) {
                self.others[index].waiting.push_back(bytes);
            }
            self.is_alive(index)?;
        }
        Ok(())
    }

    /// Sends heartbeats while work goes on, as [`Hosts::beat`] does. Sets `cancel` when a rank is lost, so that the work
    /// ends; what the ranks do together next is that error.
    pub fn watch(&mut self, cancel: &AtomicBool) {
        if self.lost.is_some() {
            return;
        }
        if let Err(lost) = self.beat() {
            self.lost = Some(lost);
            cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the parts of all ranks together: rank 0 merges them, by rank, and all get what comes of it.
    ///
    /// # Errors
    /// [`HostsError`], the same on all: a rank refused, is lost, or does something else.
    pub fn together<T, R>(
        &mut self,
        own: Result<T, Refusal>,
        merge: impl FnOnce(Vec<T>) -> R,
    ) -> Result<R, HostsError>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if let Some(rounds) = &mut self.rounds {
            return rounds.together(own, merge);
        }
        if !self.leads() {
            self.send(0, &Message::Body(own))?;
            let verdict = self.receive::<Verdict<R>>(0)?;
            return self.outcome(verdict);
        }
        let mut refused = own.as_ref().err().cloned().map(|refusal| (0, refusal));
        let mut parts: Vec<T> = own.into_iter().collect();
        for index in 0..self.others.len() {
            match self.receive::<Result<T, Refusal>>(index)? {
                Ok(part) => parts.push(part),
                // A failure says more than a stop, which may have come of it.
                Err(refusal) => {
                    let says_more = matches!(refusal, Refusal::Failed(_))
                        && matches!(refused, Some((_, Refusal::Stopped)));
                    if refused.is_none() || says_more {
                        refused = Some((self.others[index].rank, refusal));
                    }
                }
            }
        }
        let verdict = match refused {
            Some((rank, refusal)) => Verdict::Refused { rank, refusal },
            None => Verdict::Good(merge(parts)),
        };
        let message = Message::Body(verdict);
        for index in 0..self.others.len() {
            self.send(index, &message)?;
        }
        let Message::Body(verdict) = message else { unreachable!("it was made a body above") };
        self.outcome(verdict)
    }

    fn outcome<R>(&self, verdict: Verdict<R>) -> Result<R, HostsError> {
        let host = |rank: u32| self.names.get(rank as usize).cloned().unwrap_or_default();
        match verdict {
            Verdict::Good(result) => Ok(result),
            Verdict::Refused { rank, refusal: Refusal::Stopped } => {
                Err(HostsError::Stopped { rank, host: host(rank) })
            }
            Verdict::Refused { rank, refusal: Refusal::Failed(text) } => {
                Err(HostsError::Failed { rank, host: host(rank), text })
            }
        }
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// As [`Hosts::together`].
    pub fn barrier(&mut self, own: Result<(), Refusal>) -> Result<(), HostsError> {
        self.together(own, |_| ())
    }

    /// Waits until all ranks are ready, compares their clocks, and fixes a moment a little later at which all start.
    ///
    /// # Errors
    /// As [`Hosts::together`].
    pub fn start(&mut self, ready: Result<(), Refusal>) -> Result<CommonStart, HostsError> {
        if self.is_alone() {
            return Ok(CommonStart { at_monotonic_ns: None, clocks: vec![ClockOffset::default()] });
        }
        self.barrier(ready)?;
        if !self.leads() {
            for _ in 0..EXCHANGES {
                self.receive_ping()?;
                self.send(0, &Message::<()>::Pong(Reading::now()))?;
            }
            let (at, clocks): (u64, Vec<ClockOffset>) = self.receive(0)?;
            return Ok(CommonStart { at_monotonic_ns: Some(at), clocks });
        }
        let mut clocks = vec![ClockOffset::default()];
        for index in 0..self.others.len() {
            clocks.push(self.compare_clocks(index)?);
        }
        let way = clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0);
        let at = crate::monotonic_ns() + LEAD_NS + LEAD_WAYS * way * u64::from(self.count());
        for index in 0..self.others.len() {
            let theirs = at.saturating_add_signed(clocks[index + 1].monotonic_ns);
            self.send(index, &Message::Body((theirs, &clocks)))?;
        }
        Ok(CommonStart { at_monotonic_ns: Some(at), clocks })
    }

    fn compare_clocks(&mut self, index: usize) -> Result<ClockOffset, HostsError> {
        let mut exchanges = Vec::with_capacity(EXCHANGES as usize);
        for _ in 0..EXCHANGES {
            let before = Reading::now();
            self.send(index, &Message::<()>::Ping)?;
            match self.next::<()>(index)? {
                Message::Pong(theirs) => exchanges.push((before, theirs, Reading::now())),
                other => return Err(self.garbled(index, &format!("{other:?} in place of its clock"))),
            }
        }
        Ok(closest(&exchanges))
    }

    fn receive_ping(&mut self) -> Result<(), HostsError> {
        match self.next::<()>(0)? {
            Message::Ping => Ok(()),
            other => Err(self.garbled(0, &format!("{other:?} in place of a question for the clock"))),
        }
    }

    pub(crate) fn receive<T: DeserializeOwned>(&mut self, index: usize) -> Result<T, HostsError> {
        match self.next::<T>(index)? {
            Message::Body(body) => Ok(body),
            _ => Err(self.garbled(index, "it compares clocks")),
        }
    }

    /// The next message of one of the others that is no heartbeat.
    fn next<T: DeserializeOwned>(&mut self, index: usize) -> Result<Message<T>, HostsError> {
        let begun_at = Instant::now();
        loop {
            if let Some(bytes) = self.early_or_next(index) {
                return serde_json::from_slice(&bytes)
                    .map_err(|error| self.garbled(index, &error.to_string()));
            }
            if begun_at.elapsed() < SPIN {
                std::thread::yield_now();
            } else {
                self.beat()?;
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// The same if it is there, as bytes.
    pub(crate) fn early_or_next(&mut self, index: usize) -> Option<Vec<u8>> {
        let early = self.others[index].waiting.pop_front();
        early.or_else(|| self.next_bytes(index))
    }

    /// The bytes of the next message that is no heartbeat, if there is one; all are taken for heartbeats.
    fn next_bytes(&mut self, index: usize) -> Option<Vec<u8>> {
        let other = &mut self.others[index];
        let peers = self.peers.as_mut().expect("others are there with peers only");
        while let Some(bytes) = peers.poll(other.rank) {
            other.heard_at = Instant::now();
            if bytes != BEAT {
                return Some(bytes);
            }
        }
        None
    }

    /// Counts silence from now on: nobody sent heartbeats while each did what it does alone.
    pub(crate) fn listen_anew(&mut self) {
        let now = Instant::now();
        self.others.iter_mut().for_each(|other| other.heard_at = now);
    }

    fn is_alive(&self, index: usize) -> Result<(), HostsError> {
        let other = &self.others[index];
        // Whoever does not lead waits longer, so that rank 0, which knows all, says who is missing.
        let limit = if self.leads() { self.limit } else { self.limit.saturating_mul(2) };
        if other.heard_at.elapsed() <= limit { Ok(()) } else { Err(self.lost(index)) }
    }

    fn lost(&self, index: usize) -> HostsError {
        let (rank, host) = self.who(index);
        HostsError::Lost { rank, host, waited: self.others[index].heard_at.elapsed() }
    }

    pub(crate) fn garbled(&self, index: usize, text: &str) -> HostsError {
        let (rank, host) = self.who(index);
        HostsError::Garbled { rank, host, text: text.to_owned() }
    }

    fn who(&self, index: usize) -> (u32, String) {
        let rank = self.others[index].rank;
        (rank, self.names[rank as usize].clone())
    }

    pub(crate) fn send<T: Serialize>(
        &mut self,
        index: usize,
        message: &Message<T>,
    ) -> Result<(), HostsError> {
        self.send_bytes(index, &bytes_of(message))
    }

    pub(crate) fn send_bytes(&mut self, index: usize, bytes: &[u8]) -> Result<(), HostsError> {
        let peers = self.peers.as_mut().expect("others are there with peers only");
        if peers.send(self.others[index].rank, bytes, self.limit) { Ok(()) } else { Err(self.lost(index)) }
    }
}

/// A message on the wire.
pub(crate) fn bytes_of<T: Serialize>(message: &Message<T>) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have no map keys other than text")
}

/// A heartbeat on the wire.
const BEAT: &[u8] = b"\"Beat\"";
