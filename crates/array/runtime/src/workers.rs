//! Threads that compute parity and digests, so that an array uses more than one processor.
//!
//! ```text
//! controller ─► task ─► Workers::take ─► its worker ── result ─► Workers::poll_finished ─► controller
//!   array's thread        stripes that are under way at once are computed side by side        array's thread
//! ```
//! Only the array's thread decides, submits I/O and copies. It hands out tasks that are long enough, as long as other
//! work is left for itself. Tasks of different stripes touch different bytes, as the controller guarantees for parity
//! and digests, so they may run in any order and in parallel; copies may not, and stay.
//!
//! A job goes to a worker and back and is reused: nothing is allocated once all sizes have occurred. The array's thread
//! is woken by a descriptor only if it sleeps.
//!
//! Invariants: a task that was handed out is reported once; the memories outlive the threads, since the world drops the
//! threads first. A panic in a worker ends the process, as one of the array's thread does. Left out: I/O, of which
//! kernel threads may do the long transfers (`ring`).
#![allow(unsafe_code)]

use crate::arena::{Piece, combine_pieces};
use crate::memory::Memory;
use crate::panic;
use crate::wake_up::{LOOK_FOR, WakeUp};
use raidlab_controller::{MemorySteps, MemoryTaskId, Segment};
use raidlab_format::row_checksum;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Shorter tasks are done at once: the way to a worker and back takes as long as the work.
pub(crate) const WORTH_THE_WAY_BYTES: u64 = 64 << 10;
/// Jobs that may lie with a worker; more are done at once.
const JOBS_PER_WORKER: usize = 8;

/// One linear combination, by address.
#[derive(Clone, Copy, Debug)]
struct Combination {
    bytes: usize,
    first_piece: usize,
    destinations: usize,
    sources: usize,
    first_coefficient: usize,
    accumulate: bool,
}

/// A memory task, by address.
#[derive(Debug, Default)]
struct Job {
    id: Option<MemoryTaskId>,
    combinations: Vec<Combination>,
    pieces: Vec<Piece>,
    coefficients: Vec<u8>,
    /// Ranges whose blocks are digested.
    ranges: Vec<(Piece, usize)>,
    block_bytes: usize,
    digests: Vec<u32>,
}

// SAFETY: the pieces name memory of the array by address. It stays mapped while a job is out, and only the job's task touches
// these bytes meanwhile: the controller neither starts I/O on them nor names them in another task before this one ends.
unsafe impl Send for Job {}

impl Job {
    fn clear(&mut self) {
        self.combinations.clear();
        self.pieces.clear();
        self.coefficients.clear();
        self.ranges.clear();
        self.digests.clear();
    }

    fn run(&mut self) {
        for step in &self.combinations {
            let pieces = &self.pieces[step.first_piece..][..step.destinations + step.sources];
            let entries = step.destinations * step.sources;
            let coefficients = &self.coefficients[step.first_coefficient..][..entries];
            combine_pieces(step.bytes, pieces, step.destinations, coefficients, step.accumulate);
        }
        for (piece, bytes) in &self.ranges {
            // SAFETY: the range was asserted to lie within its arena, which outlives the job; nothing writes it meanwhile.
            let range = unsafe { std::slice::from_raw_parts(piece.start.cast_const(), *bytes) };
            self.digests.extend(range.chunks_exact(self.block_bytes).map(row_checksum));
        }
    }
}

/// One thread and the way to it.
#[derive(Debug)]
struct Worker {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Jobs that lie with it.
    out: usize,
}

/// The threads of an array, if it has more than its own.
#[derive(Debug)]
pub(crate) struct Workers {
    team: Vec<Worker>,
    finished: Receiver<(usize, Job)>,
    spare: Vec<Job>,
    /// Jobs that are finished and not polled yet.
    news: Arc<AtomicUsize>,
    out: usize,
    done: u64,
}

/// A task that a worker has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// Its name.
    pub(crate) id: MemoryTaskId,
    /// It has digests.
    pub(crate) is_digest: bool,
}

impl Workers {
    /// Starts `count` threads; none if it is zero. They wake the array's by `wake_up`.
    ///
    /// # Errors
    /// What the system said when it gave no thread.
    pub(crate) fn new(count: usize, wake_up: &Arc<WakeUp>) -> io::Result<Self> {
        let news = Arc::new(AtomicUsize::new(0));
        let (sender, finished) = sync_channel((count * JOBS_PER_WORKER).max(1));
        let team = (0..count)
            .map(|number| {
                let (jobs, inbox) = sync_channel(JOBS_PER_WORKER);
                let (sender, wake_up, news) = (sender.clone(), Arc::clone(wake_up), Arc::clone(&news));
                let work = move || work(number, &inbox, &sender, &news, &wake_up);
                let thread = panic::spawn(format!("parity-{number}"), work)?;
                Ok(Worker { jobs: Some(jobs), thread: Some(thread), out: 0 })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { team, finished, spare: Vec::new(), news, out: 0, done: 0 })
    }

    /// Whether a task of `bytes` may go to a worker now.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes >= WORTH_THE_WAY_BYTES && self.team.iter().any(|worker| worker.out < JOBS_PER_WORKER)
    }

    /// Tasks that lie with workers.
    pub(crate) const fn out(&self) -> usize {
        self.out
    }

    /// Tasks that workers have done.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Hands out the steps of a task. There must be room (asserted).
    pub(crate) fn take_steps(&mut self, id: MemoryTaskId, steps: &MemorySteps, memory: &Memory) {
        let mut job = self.spare.pop().unwrap_or_default();
        job.clear();
        for step in &steps.steps {
            let sources = &steps.sources[step.first_source as usize..][..step.source_count as usize];
            let destinations = &step.destinations[..usize::from(step.destination_count)];
            job.combinations.push(Combination {
                bytes: step.bytes as usize,
                first_piece: job.pieces.len(),
                destinations: destinations.len(),
                sources: sources.len(),
                first_coefficient: step.first_coefficient as usize,
                accumulate: step.accumulate,
            });
            job.pieces
                .extend(destinations.iter().chain(sources).map(|place| memory.piece(*place, step.bytes)));
        }
        job.coefficients.extend_from_slice(&steps.coefficients);
        self.hand_out(id, job);
    }

    /// Hands out the digests of all blocks of `rows`. There must be room (asserted).
    pub(crate) fn take_rows(
        &mut self,
        id: MemoryTaskId,
        rows: &[Segment],
        block_bytes: u64,
        memory: &Memory,
    ) {
        let mut job = self.spare.pop().unwrap_or_default();
        job.clear();
        job.block_bytes = block_bytes as usize;
        job.ranges.extend(rows.iter().map(|row| (memory.piece(row.buffer, row.bytes), row.bytes as usize)));
        self.hand_out(id, job);
    }

    fn hand_out(&mut self, id: MemoryTaskId, mut job: Job) {
        job.id = Some(id);
        let idlest = self.team.iter_mut().min_by_key(|worker| worker.out);
        let worker = idlest.expect("only what there is room for is handed out");
        let jobs = worker.jobs.as_ref().expect("its end is closed on drop only");
        assert!(jobs.try_send(job).is_ok(), "a worker with room takes a job");
        worker.out += 1;
        self.out += 1;
    }

    /// Returns a task that a worker has finished, with its digests in `digests` if it has any.
    pub(crate) fn poll_finished(&mut self, digests: &mut Vec<u32>) -> Option<Finished> {
        if !self.has_news() {
            return None;
        }
        let (worker, mut job) = self.finished.recv().expect("what is counted as finished has been sent");
        self.news.fetch_sub(1, Ordering::SeqCst);
        self.team[worker].out -= 1;
        self.out -= 1;
        self.done += 1;
        std::mem::swap(digests, &mut job.digests);
        let id = job.id.take().expect("every job that was handed out has its task");
        let finished = Finished { id, is_digest: !job.ranges.is_empty() };
        self.spare.push(job);
        Some(finished)
    }

    /// Whether a task has been finished and not been polled.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.out > 0 && self.news.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.team {
            worker.jobs = None;
        }
        panic::join(self.team.iter_mut().filter_map(|worker| worker.thread.take()));
    }
}

/// Does jobs until there will be no more.
fn work(
    number: usize,
    inbox: &Receiver<Job>,
    finished: &SyncSender<(usize, Job)>,
    news: &AtomicUsize,
    wake_up: &WakeUp,
) {
    while let Some(mut job) = next_job(inbox) {
        job.run();
        if finished.send((number, job)).is_err() {
            return;
        }
        news.fetch_add(1, Ordering::SeqCst);
        wake_up.wake();
    }
}

/// Looks for a job for a short time, then sleeps until there is one.
fn next_job(inbox: &Receiver<Job>) -> Option<Job> {
    let begin = Instant::now();
    loop {
        match inbox.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if begin.elapsed() >= LOOK_FOR => return inbox.recv().ok(),
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
}
