//! One cell of a latency matrix: random reads at a fixed rate beside one sequential writer at a fixed rate, on a
//! drive's model.
//!
//! As in the `diskplorer` tool, readers pace themselves evenly, each with its own phase, or reads arrive as a Poisson
//! process. A reader with its maximum of requests in flight waits, and catches up later. A response counts from when
//! the request was sent.
//!
//! `fio` paces a job differently, and its latencies show it:
//! ```text
//!  due? --yes--> send, next one
//!       \--no--> wait until nothing is in flight, then sleep for what was missing *before* that wait
//! ```
//! So a job whose gap is shorter than a response sends in bursts, and one slow response is followed by everything that
//! has become due meanwhile. Source: `rate_ddir` and `io_u_quiesce` in fio's `io_u.c` (`io_submit_mode=inline`, its
//! default).

use raidlab_hardware::{
    Drive, DriveCondition, DriveHistory, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount,
};
use raidlab_units::{ByteCount, Nanos};
use raidlab_workload::Rng;

const SECTOR_BYTES: u64 = 512;

/// Reads for each write that has to be seen: enough writes for what erasing does to reads.
const READS_PER_WRITE: u64 = 20;

/// A run ends after this many times the reads asked for, however few writes it has seen.
const LONGEST: u64 = 30;

/// Time in which one job of `fio` sends one request: a system call and the block layer. A few microseconds on today's hosts.
const SUBMIT_NS: f64 = 3_000.0;

/// Name of the writer's requests; readers are numbered from 0.
const WRITER: u32 = u32::MAX;

/// When reads are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// By each reader after equal times.
    Even,
    /// After exponential times.
    Poisson,
}

/// Who sends when a request is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPacing {
    /// A job of `fio`, which waits for what is in flight before it sleeps.
    Fio,
    /// Who sends on time whatever is in flight, as `raidlab measure` does.
    Open,
}

/// What one cell asks of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixLoad {
    /// Reads a second of all readers.
    pub read_iops: f64,
    /// Bytes a second that are written; zero for no writer.
    pub write_bytes_per_sec: f64,
    /// Length of a read.
    pub read_block: ByteCount,
    /// Length of a write.
    pub write_block: ByteCount,
    /// Writes in flight at most.
    pub write_iodepth: u32,
    /// Readers.
    pub readers: u32,
    /// Reads of one reader in flight at most.
    pub read_iodepth: u32,
    /// When reads are due.
    pub arrivals: Arrivals,
    /// How readers and writer keep to their rates.
    pub pacing: HostPacing,
}

/// What the reads of a cell took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellLatency {
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 95th percentile, in microseconds.
    pub p95_us: f64,
}

/// Why a cell can't be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// A figure is out of bounds.
    #[error("{figure} is {bounds}")]
    OutOfBounds {
        /// Which.
        figure: &'static str,
        /// What it has to be.
        bounds: &'static str,
    },
    /// The drive is smaller than a request.
    #[error("a request of {0} is larger than the drive")]
    LargerThanDrive(ByteCount),
}

/// The drive as a matrix is measured on it: written once from end to end, where that makes a difference.
pub fn prefilled(model: &DriveModel) -> DriveModel {
    let condition = DriveCondition { history: DriveHistory::Sequential, ..DriveCondition::default() };
    model.clone().in_condition(condition).unwrap_or_else(|_| model.clone())
}

/// Replays a cell on a fresh drive of `model` until `reads` are counted, after half as many that are not, and one write for
/// every twenty of them.
///
/// # Errors
/// [`MatrixError`] for a load that can't be.
pub fn replay_cell(model: &DriveModel, load: &MatrixLoad, reads: u32) -> Result<CellLatency, MatrixError> {
    check(model, load, reads)?;
    let mut replay = Replay::new(model, load);
    let ramp = u64::from(reads) / 2;
    replay.run_until(ramp, u64::from(reads) * LONGEST);
    replay.responses_ns.clear();
    replay.run_until(u64::from(reads), u64::from(reads) * LONGEST);
    let mut responses = replay.responses_ns;
    responses.sort_unstable();
    let at = |pct: usize| responses[(responses.len() * pct).div_ceil(100) - 1] as f64 / 1e3;
    Ok(CellLatency { p50_us: at(50), p95_us: at(95) })
}

fn check(model: &DriveModel, load: &MatrixLoad, reads: u32) -> Result<(), MatrixError> {
    let is_block =
        |block: ByteCount| block.0 > 0 && block.0.is_multiple_of(SECTOR_BYTES) && block.0 <= 1 << 24;
    let bounds = [
        ((0.01..=1e8).contains(&load.read_iops), "read_iops", "from 0.01 to 100 million"),
        ((0.0..=1e12).contains(&load.write_bytes_per_sec), "write_mb_per_s", "from 0 to a million"),
        (is_block(load.read_block), "read_block_bytes", "a multiple of 512, up to 16 MiB"),
        (is_block(load.write_block), "write_block_bytes", "a multiple of 512, up to 16 MiB"),
        ((1..=65_536).contains(&load.write_iodepth), "write_queue_depth", "from 1 to 65536"),
        ((1..=1024).contains(&load.readers), "read_jobs", "from 1 to 1024"),
        ((1..=65_536).contains(&load.read_iodepth), "read_queue_depth", "from 1 to 65536"),
        ((100..=1_000_000).contains(&reads), "the number of reads of a cell", "from 100 to a million"),
    ];
    if let Some((_, figure, bounds)) = bounds.into_iter().find(|bound| !bound.0) {
        return Err(MatrixError::OutOfBounds { figure, bounds });
    }
    let largest = load.read_block.max(load.write_block);
    if largest > model.capacity.bytes() { Err(MatrixError::LargerThanDrive(largest)) } else { Ok(()) }
}

/// Who sends requests, one after the other, at a rate.
#[derive(Clone, Debug)]
struct Sender {
    /// When the next one is due, in nanoseconds; never for who sends none.
    due_ns: f64,
    gap_ns: f64,
    in_flight: u32,
    iodepth: u32,
    pacing: HostPacing,
    /// When it can send at the soonest: it is sending another one, or sleeps.
    free_ns: f64,
    /// How long it is going to sleep once nothing of its is in flight.
    pause_ns: Option<f64>,
}

impl Sender {
    fn new(due_ns: f64, gap_ns: f64, iodepth: u32, pacing: HostPacing) -> Self {
        Self { due_ns, gap_ns, in_flight: 0, iodepth, pacing, free_ns: due_ns, pause_ns: None }
    }

    /// When it sends the next request, if nothing ends before.
    fn sends_ns(&self) -> f64 {
        let is_held = self.in_flight >= self.iodepth || self.pause_ns.is_some();
        if is_held { f64::INFINITY } else { self.free_ns }
    }

    fn handle_sent(&mut self, now: Nanos, gap_ns: f64) {
        self.in_flight += 1;
        self.due_ns += gap_ns;
        match self.pacing {
            HostPacing::Open => self.free_ns = self.due_ns,
            HostPacing::Fio => {
                self.free_ns = now.0 as f64 + SUBMIT_NS;
                self.pause_ns = Some(self.due_ns - self.free_ns).filter(|missing| *missing > 0.0);
            }
        }
    }

    fn handle_done(&mut self, now: Nanos) {
        self.in_flight -= 1;
        if self.in_flight == 0
            && let Some(pause_ns) = self.pause_ns.take()
        {
            self.free_ns = self.free_ns.max(now.0 as f64) + pause_ns;
        }
    }
}

/// A cell being replayed.
struct Replay<'a> {
    load: &'a MatrixLoad,
    drive: Drive,
    random: Rng,
    readers: Vec<Sender>,
    writer: Sender,
    now: Nanos,
    /// Places that reads and writes can have, and how often the writer has written.
    read_places: u64,
    write_places: u64,
    written: u64,
    writes_done: u64,
    /// Who sent a request and when, by its name; names of requests that are done are used again.
    sent: Vec<(u32, Nanos)>,
    free_names: Vec<u32>,
    responses_ns: Vec<u64>,
}

impl<'a> Replay<'a> {
    fn new(model: &DriveModel, load: &'a MatrixLoad) -> Self {
        let mut random = Rng::new(1);
        let gap_ns = f64::from(load.readers) / load.read_iops * 1e9;
        let reader = |_| Sender::new(random.unit_f64() * gap_ns, gap_ns, load.read_iodepth, load.pacing);
        let readers = (0..load.readers).map(reader).collect();
        // Without a writer its first write is never due.
        let write_gap_ns = load.write_block.0 as f64 / load.write_bytes_per_sec * 1e9;
        let due_ns = if write_gap_ns.is_finite() { 0.0 } else { f64::INFINITY };
        let writer = Sender::new(due_ns, write_gap_ns, load.write_iodepth, load.pacing);
        Self {
            load,
            drive: Drive::new(model, DriveOptions::default()),
            random,
            readers,
            writer,
            now: Nanos::ZERO,
            read_places: model.capacity.bytes().0 / load.read_block.0,
            write_places: model.capacity.bytes().0 / load.write_block.0,
            written: 0,
            writes_done: 0,
            sent: vec![],
            free_names: vec![],
            responses_ns: vec![],
        }
    }

    /// Goes on until so many reads are done, and writes in proportion, or `most` reads.
    fn run_until(&mut self, reads: u64, most: u64) {
        let writes = if self.writer.gap_ns.is_finite() { reads / READS_PER_WRITE } else { 0 };
        self.writes_done = 0;
        let is_done = |replay: &Self| {
            let seen = replay.responses_ns.len() as u64;
            seen >= most || seen >= reads && replay.writes_done >= writes
        };
        while !is_done(self) {
            self.step();
        }
    }

    /// Does what comes next: something in the drive, or a request.
    fn step(&mut self) {
        let (sender, due_ns) = self.next_sender();
        let arrival = Nanos(due_ns.max(self.now.0 as f64) as u64);
        if let Some(deadline) = self.drive.poll_deadline().filter(|deadline| *deadline <= arrival) {
            self.now = deadline;
            self.drive.handle_deadline(deadline);
        } else {
            self.now = arrival;
            self.send(sender);
        }
        while let Some(completion) = self.drive.poll_completion() {
            self.complete(completion.id);
        }
    }

    fn next_sender(&self) -> (u32, f64) {
        let readers = (0..).zip(self.readers.iter().map(Sender::sends_ns));
        readers
            .fold((WRITER, self.writer.sends_ns()), |first, next| if next.1 < first.1 { next } else { first })
    }

    fn send(&mut self, sender: u32) {
        let (op, place, block) = if sender == WRITER {
            let place = self.written % self.write_places;
            self.written += 1;
            (DriveOp::Write { fua: false }, place, self.load.write_block)
        } else {
            (DriveOp::Read, self.random.below(self.read_places), self.load.read_block)
        };
        let factor = match self.load.arrivals {
            Arrivals::Poisson if sender != WRITER => -(1.0 - self.random.unit_f64()).ln(),
            Arrivals::Poisson | Arrivals::Even => 1.0,
        };
        let now = self.now;
        let who = self.sender(sender);
        who.handle_sent(now, who.gap_ns * factor);
        let id = self.name();
        self.sent[id as usize] = (sender, self.now);
        let sectors = block.0 / SECTOR_BYTES;
        let (start, sectors) = (Sector(place * sectors), SectorCount(sectors));
        self.drive.handle_request(self.now, DriveRequest { id, op, start, sectors });
    }

    fn complete(&mut self, id: u32) {
        let (sender, sent) = self.sent[id as usize];
        self.free_names.push(id);
        let now = self.now;
        self.sender(sender).handle_done(now);
        if sender == WRITER {
            self.writes_done += 1;
        } else {
            self.responses_ns.push((self.now - sent).0);
        }
    }

    fn sender(&mut self, sender: u32) -> &mut Sender {
        if sender == WRITER { &mut self.writer } else { &mut self.readers[sender as usize] }
    }

    fn name(&mut self) -> u32 {
        self.free_names.pop().unwrap_or_else(|| {
            self.sent.push((WRITER, Nanos::ZERO));
            self.sent.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_hardware::Catalog;

    const LIGHT: MatrixLoad = MatrixLoad {
        read_iops: 10_000.0,
        write_bytes_per_sec: 0.0,
        read_block: ByteCount(4096),
        write_block: ByteCount(131_072),
        write_iodepth: 64,
        readers: 7,
        read_iodepth: 1000,
        arrivals: Arrivals::Even,
        pacing: HostPacing::Open,
    };

    fn latency(id: &str, load: &MatrixLoad) -> CellLatency {
        let catalog = Catalog::builtin();
        replay_cell(&prefilled(catalog.drive(id).expect("in the catalogue")), load, 3000).expect("it can be")
    }

    #[test]
    fn reads_alone_take_what_one_read_takes_and_writes_delay_them() {
        let alone = latency("generic-nvme", &LIGHT);
        assert!((60.0..110.0).contains(&alone.p50_us), "{alone:?}");
        let beside = latency("generic-nvme", &MatrixLoad { write_bytes_per_sec: 2e9, ..LIGHT });
        assert!(beside.p50_us > alone.p50_us && beside.p95_us > 1.15 * alone.p95_us, "{alone:?}, {beside:?}");
        let disk = MatrixLoad { read_iops: 20.0, arrivals: Arrivals::Poisson, ..LIGHT };
        let disk = latency("st3600057ss", &disk);
        assert!((3_000.0..12_000.0).contains(&disk.p50_us), "{disk:?}");
    }

    /// Ten reads become due while one takes its time: a job of fio sends them at once then, another one when each is due.
    #[test]
    fn fio_sends_in_bursts_what_became_due_during_a_response() {
        let mut readers =
            [HostPacing::Fio, HostPacing::Open].map(|pacing| Sender::new(0.0, 10e3, 64, pacing));
        for reader in &mut readers {
            reader.handle_sent(Nanos(0), 10e3);
        }
        let [fio, open] = &mut readers;
        assert_eq!(
            (fio.sends_ns(), open.sends_ns()),
            (f64::INFINITY, 10e3),
            "fio waits for what is in flight"
        );
        fio.handle_done(Nanos(100_000));
        // It sleeps for what was missing before it waited: 7 of the 10 us, sending took 3.
        assert_eq!(fio.sends_ns(), 107e3);
        let mut burst = 0;
        while fio.sends_ns().is_finite() {
            let now = Nanos(fio.sends_ns() as u64);
            fio.handle_sent(now, 10e3);
            burst += 1;
        }
        assert_eq!(burst, 14, "those due by then, and while they are sent");
    }

    /// More reads than the drive does: those that may be in flight share its rate.
    #[test]
    fn an_overloaded_drive_has_all_in_flight_that_may_be() {
        let load = MatrixLoad { read_iops: 5e6, readers: 2, read_iodepth: 100, ..LIGHT };
        let [few, many] = [100, 200]
            .map(|read_iodepth| latency("generic-nvme", &MatrixLoad { read_iodepth, ..load }).p50_us);
        assert!((1.8..2.2).contains(&(many / few)), "{few} and {many} us");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let catalog = Catalog::builtin();
        let model = catalog.drive("generic-nvme").expect("in the catalogue");
        let of = |load, reads| replay_cell(model, &load, reads).expect_err("it can't be").to_string();
        let wrong = |load| of(load, 1000);
        assert!(wrong(MatrixLoad { read_iops: 0.0, ..LIGHT }).contains("read_iops"));
        assert!(wrong(MatrixLoad { read_iops: f64::NAN, ..LIGHT }).contains("read_iops"));
        assert!(wrong(MatrixLoad { write_bytes_per_sec: -1.0, ..LIGHT }).contains("write_mb_per_s"));
        assert!(wrong(MatrixLoad { read_block: ByteCount(100), ..LIGHT }).contains("read_block_bytes"));
        assert!(wrong(MatrixLoad { readers: 0, ..LIGHT }).contains("read_jobs"));
        assert!(of(LIGHT, 0).contains("number of reads"));
    }
}
