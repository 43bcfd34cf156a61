//! Independent jobs distributed among the threads of all ranks; every rank takes all results.
//!
//! ```text
//! rank 0                                        every other rank
//!   threads ─ result ─► loop ◄── Ask, Done ────── loop ◄─ result ─ threads
//!           ◄─ job ────  │  ──── Job, Taken ───►   │   ── job ───►
//!                        ▼                         ▼
//!                      take, in the order in which results reach rank 0, the same on all
//! ```
//! Rank 0 hands out jobs one by one, to its own threads and to those of the others, so that faster ranks do more. Every
//! rank gets every result, so that all take the same next step. A single process does the same without messages.
//!
//! - Jobs are handed out in order of their index; results come in any order.
//! - The caller's thread takes results while others work, so storing and showing never race.
//! - An error is not sent: a rank that needs it repeats the job, which fails there, too.
//! - After the last message of a call no message of it is under way.
//!
//! Left out: giving the jobs of a lost rank to another; the run ends and names it.

use crate::hosts::{LOOK_EVERY, Message, bytes_of};
use crate::{Hosts, HostsError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::sleep;

/// Jobs to be done.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// How many; their indices begin at 0.
    pub count: usize,
    /// Threads of this rank.
    pub threads: NonZeroUsize,
    /// Set to stop: what is under way is finished and nothing begun.
    pub cancel: &'a AtomicBool,
}

/// Why not all jobs were done.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// The caller, or that of another rank, asked to stop; results taken in so far stand.
    Cancelled,
    /// Taking a result in failed.
    Failed(E),
    /// The ranks can't go on together.
    Hosts(HostsError),
}

impl<E> From<HostsError> for Stop<E> {
    fn from(error: HostsError) -> Self {
        Self::Hosts(error)
    }
}

/// Number of threads that this machine runs at once.
pub fn all_processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What ranks tell each other about jobs.
#[derive(Serialize, Deserialize)]
enum Word<T> {
    /// To rank 0: this many can be done at once.
    Ask(usize),
    /// To rank 0: it is done; nothing where it failed.
    Done(usize, Option<T>),
    /// To rank 0: begin nothing more.
    Stop,
    /// To rank 0: no word follows.
    Over,
    /// From rank 0: do it.
    Job(usize),
    /// From rank 0: it was taken in; nothing where it failed.
    Taken(usize, Option<T>),
    /// From rank 0: the same for one that the receiver did.
    OwnTaken(usize),
    /// From rank 0: no word follows; whether all were taken in.
    End(bool),
}

/// What a job came to; it may have panicked.
type Outcome<T, E> = std::thread::Result<Result<T, E>>;

/// What rank 0 knows of the jobs.
struct Ledger {
    count: usize,
    given: usize,
    taken: usize,
    /// Under way, by rank.
    under_way: Vec<usize>,
    /// Ranks that have not asked yet.
    to_ask: u32,
    /// Nothing more is given out.
    halted: bool,
}

impl Ledger {
    /// The next job, for `rank`.
    fn give(&mut self, rank: usize) -> Option<usize> {
        if self.halted || self.given == self.count {
            return None;
        }
        self.given += 1;
        self.under_way[rank] += 1;
        Some(self.given - 1)
    }

    fn is_over(&self) -> bool {
        let has_rest = !self.halted && self.given < self.count;
        !has_rest && self.to_ask == 0 && self.under_way.iter().all(|jobs| *jobs == 0)
    }
}

/// Something that came in.
enum Event<T, E> {
    /// From a thread of this rank.
    Own(usize, Result<T, E>),
    /// From one of the others, by its place among them.
    Said(usize, Word<T>),
}

/// Does a job in a thread while its caller sends heartbeats.
type Again<'a, T, E> = &'a dyn Fn(&mut Hosts, usize) -> Result<Result<T, E>, HostsError>;

/// Takes a result in.
type Take<'a, T, E, S> = &'a mut dyn FnMut(usize, Result<T, E>) -> Result<(), S>;

/// One call of [`Hosts::share`], on one rank.
struct Round<'a, T, E> {
    hosts: &'a mut Hosts,
    jobs: Jobs<'a>,
    /// To the threads of this rank; they end when it goes.
    orders: mpsc::Sender<usize>,
    /// From them.
    results: mpsc::Receiver<(usize, Outcome<T, E>)>,
    again: Again<'a, T, E>,
}

impl Hosts {
    /// Does `jobs` on the threads of all ranks and hands each result to `take`, on every rank, in the same order.
    ///
    /// # Errors
    /// [`Stop::Cancelled`] once a rank's `cancel` is set and the jobs under way have ended; [`Stop::Failed`] with the first
    /// error of `take`; [`Stop::Hosts`] if a rank is lost.
    pub fn share<T, E, S>(
        &mut self,
        jobs: Jobs<'_>,
        job: impl Fn(usize) -> Result<T, E> + Sync,
        mut take: impl FnMut(usize, Result<T, E>) -> Result<(), S>,
    ) -> Result<(), Stop<S>>
    where
        T: Send + Serialize + DeserializeOwned,
        E: Send,
    {
        if let Some(rounds) = &mut self.rounds {
            return rounds.share(jobs, &job, &mut take);
        }
        self.listen_anew();
        let (orders, ordered) = mpsc::channel();
        let (ordered, job) = (&Mutex::new(ordered), &job);
        std::thread::scope(|scope| {
            // Owned here, so that the threads end when this does, however that is.
            let (orders, (sender, results)) = (orders, mpsc::channel());
            for _ in 0..jobs.threads.get().min(jobs.count) {
                let sender = sender.clone();
                scope.spawn(move || do_ordered(ordered, job, &sender));
            }
            let again = |hosts: &mut Self, index: usize| {
                let thread = scope.spawn(move || job(index));
                while !thread.is_finished() {
                    hosts.beat()?;
                    sleep(LOOK_EVERY);
                }
                Ok(unwound(thread.join()))
            };
            let leads = self.leads();
            let mut round = Round { hosts: self, jobs, orders, results, again: &again };
            if leads { round.hand_out(&mut take) } else { round.lend_hands(&mut take) }
        })
    }

    /// Does `count` jobs in the same way, on up to `threads` threads of this rank, shows each result to `seen` as it comes in, and
    /// returns them in the order of the jobs.
    ///
    /// # Errors
    /// [`HostsError`] if a rank is lost.
    #[expect(clippy::missing_panics_doc, reason = "nobody cancels, and taking a result in can't fail")]
    pub fn share_all<T, E>(
        &mut self,
        (count, threads): (usize, NonZeroUsize),
        job: impl Fn(usize) -> Result<T, E> + Sync,
        mut seen: impl FnMut(usize, &Result<T, E>),
    ) -> Result<Vec<Result<T, E>>, HostsError>
    where
        T: Send + Serialize + DeserializeOwned,
        E: Send,
    {
        let mut results: Vec<_> = (0..count).map(|_| None).collect();
        let never = AtomicBool::new(false);
        let ended = self.share(Jobs { count, threads, cancel: &never }, job, |index, result| {
            seen(index, &result);
            results[index] = Some(result);
            Ok::<(), Infallible>(())
        });
        if let Err(Stop::Hosts(error)) = ended {
            return Err(error);
        }
        assert!(ended.is_ok(), "nobody cancels, and taking a result in can't fail");
        Ok(results.into_iter().map(|result| result.expect("all were done")).collect())
    }

    /// How many jobs each rank has done so far, by rank; known to rank 0 only.
    pub fn jobs_done(&self) -> &[u64] {
        &self.jobs_done
    }
}

/// A thread's work.
fn do_ordered<T, E>(
    ordered: &Mutex<mpsc::Receiver<usize>>,
    job: &impl Fn(usize) -> Result<T, E>,
    sender: &mpsc::Sender<(usize, Outcome<T, E>)>,
) {
    // A panic elsewhere leaves the queue as it was.
    let next = || ordered.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    while let Some(index) = next() {
        let outcome = catch_unwind(AssertUnwindSafe(|| job(index)));
        // Nobody listens any more where the ranks could not go on.
        if sender.send((index, outcome)).is_err() {
            break;
        }
    }
}

/// A thread that panicked takes the caller along.
fn unwound<T>(outcome: std::thread::Result<T>) -> T {
    outcome.unwrap_or_else(|panic: Box<dyn Any + Send>| resume_unwind(panic))
}

impl<T: Serialize + DeserializeOwned, E> Round<'_, T, E> {
    /// Rank 0's part.
    fn hand_out<S>(&mut self, take: Take<'_, T, E, S>) -> Result<(), Stop<S>> {
        let (count, ranks) = (self.jobs.count, self.hosts.count());
        let under_way = vec![0; ranks as usize];
        let mut ledger = Ledger { count, given: 0, taken: 0, under_way, to_ask: ranks - 1, halted: false };
        let mut failed = None;
        self.give(&mut ledger, 0, self.jobs.threads.get())?;
        while !ledger.is_over() {
            ledger.halted |= self.is_cancelled();
            let Some((rank, index, result)) = self.next_result(&mut ledger)? else { continue };
            ledger.under_way[rank] -= 1;
            self.hosts.jobs_done[rank] += 1;
            ledger.halted |= self.is_cancelled();
            self.give(&mut ledger, rank, 1)?;
            if failed.is_some() {
                continue;
            }
            let taken = self.taken(index, &result);
            match take(index, result) {
                Ok(()) => {
                    ledger.taken += 1;
                    self.tell_taken(rank, index, &taken)?;
                }
                Err(error) => (ledger.halted, failed) = (true, Some(error)),
            }
        }
        let is_complete = ledger.taken == count;
        self.end(is_complete)?;
        match failed {
            Some(error) => Err(Stop::Failed(error)),
            None if is_complete => Ok(()),
            None => Err(Stop::Cancelled),
        }
    }

    /// The part of the other ranks.
    fn lend_hands<S>(&mut self, take: Take<'_, T, E, S>) -> Result<(), Stop<S>> {
        let mut own = BTreeMap::new();
        let mut has_told = false;
        self.say(0, &Word::Ask(self.jobs.threads.get()))?;
        loop {
            if self.is_cancelled() && !has_told {
                has_told = true;
                self.say(0, &Word::Stop)?;
            }
            let (index, result) = match self.next_event()? {
                None => continue,
                Some(Event::Own(index, result)) => {
                    self.say(0, &Word::Done(index, result.as_ref().ok()))?;
                    own.insert(index, result);
                    continue;
                }
                Some(Event::Said(_, Word::Job(index))) if index < self.jobs.count => {
                    self.order(index);
                    continue;
                }
                Some(Event::Said(_, Word::Taken(index, Some(result)))) => (index, Ok(result)),
                Some(Event::Said(_, Word::Taken(index, None))) => (index, (self.again)(self.hosts, index)?),
                Some(Event::Said(_, Word::OwnTaken(index))) if own.contains_key(&index) => {
                    (index, own.remove(&index).expect("it was just looked for"))
                }
                Some(Event::Said(_, Word::End(is_complete))) => {
                    self.say(0, &Word::Over)?;
                    return if is_complete { Ok(()) } else { Err(Stop::Cancelled) };
                }
                Some(Event::Said(from, _)) => return Err(self.out_of_place(from).into()),
            };
            take(index, result).map_err(Stop::Failed)?;
        }
    }

    fn is_cancelled(&self) -> bool {
        self.jobs.cancel.load(Ordering::Relaxed)
    }

    fn order(&self, index: usize) {
        self.orders.send(index).expect("the queue is as long-lived as the round");
    }

    /// Gives `rank` up to `hands` jobs.
    fn give(&mut self, ledger: &mut Ledger, rank: usize, hands: usize) -> Result<(), HostsError> {
        for _ in 0..hands {
            let Some(index) = ledger.give(rank) else { break };
            match rank {
                0 => self.order(index),
                _ => self.say(rank - 1, &Word::Job(index))?,
            }
        }
        Ok(())
    }

    /// The rank, index and outcome of a job that ended; nothing where something else happened, or for a while nothing.
    #[allow(clippy::type_complexity)]
    fn next_result(
        &mut self,
        ledger: &mut Ledger,
    ) -> Result<Option<(usize, usize, Result<T, E>)>, HostsError> {
        match self.next_event()? {
            None => Ok(None),
            Some(Event::Own(index, result)) => Ok(Some((0, index, result))),
            Some(Event::Said(from, Word::Done(index, result))) if ledger.under_way[from + 1] > 0 => {
                let result = match result {
                    Some(result) => Ok(result),
                    None => (self.again)(self.hosts, index)?,
                };
                Ok(Some((from + 1, index, result)))
            }
            Some(Event::Said(from, Word::Ask(hands))) if ledger.to_ask > 0 => {
                ledger.to_ask -= 1;
                self.give(ledger, from + 1, hands)?;
                Ok(None)
            }
            Some(Event::Said(_, Word::Stop)) => {
                ledger.halted = true;
                Ok(None)
            }
            Some(Event::Said(from, _)) => Err(self.out_of_place(from)),
        }
    }

    /// What the others are told of a result, as bytes: `take` has it next.
    fn taken(&self, index: usize, result: &Result<T, E>) -> Vec<u8> {
        if self.hosts.is_alone() {
            return Vec::new();
        }
        bytes_of(&Message::Body(Word::Taken(index, result.as_ref().ok())))
    }

    /// Tells all but who did it, which has it.
    fn tell_taken(&mut self, by: usize, index: usize, taken: &[u8]) -> Result<(), HostsError> {
        for other in 0..self.hosts.others.len() {
            if other + 1 == by {
                self.say(other, &Word::OwnTaken(index))?;
            } else {
                self.hosts.send_bytes(other, taken)?;
            }
        }
        Ok(())
    }

    /// Ends the round on all ranks.
    fn end(&mut self, is_complete: bool) -> Result<(), HostsError> {
        for other in 0..self.hosts.others.len() {
            self.say(other, &Word::End(is_complete))?;
        }
        for other in 0..self.hosts.others.len() {
            loop {
                match self.hosts.receive::<Word<T>>(other)? {
                    Word::Over => break,
                    Word::Stop => {}
                    _ => return Err(self.out_of_place(other)),
                }
            }
        }
        Ok(())
    }

    fn say(&mut self, other: usize, word: &Word<&T>) -> Result<(), HostsError> {
        self.hosts.send(other, &Message::Body(word))
    }

    fn out_of_place(&self, other: usize) -> HostsError {
        self.hosts.garbled(other, "it shares jobs out in another way")
    }

    /// What comes in next; nothing where for a while nothing does.
    fn next_event(&mut self) -> Result<Option<Event<T, E>>, HostsError> {
        let own = |(index, outcome)| Event::Own(index, unwound(outcome));
        if self.hosts.is_alone() {
            let result = self.results.recv().expect("jobs are under way, and so are threads");
            return Ok(Some(own(result)));
        }
        for other in 0..self.hosts.others.len() {
            if let Some(bytes) = self.hosts.early_or_next(other) {
                let Ok(Message::Body(word)) = serde_json::from_slice(&bytes) else {
                    return Err(self.out_of_place(other));
                };
                return Ok(Some(Event::Said(other, word)));
            }
        }
        self.hosts.beat()?;
        match self.results.recv_timeout(LOOK_EVERY) {
            Ok(result) => Ok(Some(own(result))),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                sleep(LOOK_EVERY);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests;
