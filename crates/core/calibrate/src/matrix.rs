//! One cell of a latency matrix: random reads at a fixed rate beside one sequential writer at a fixed rate, on a drive's model.
//!
//! As the `diskplorer` tool has it: readers pace themselves evenly, each with a phase of its own, or reads arrive as a Poisson
//! process. Who has as many requests in flight as it may waits, and catches up later. A response counts from when the request
//! was sent.

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

/// Name of the writer's requests; readers are numbered from 0.
const WRITER: u32 = u32::MAX;

/// When reads are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// By each reader after equal times.
    Even,
    /// After exponential times.
    Poisson,
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
    /// When reads are sent.
    pub arrivals: Arrivals,
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
}

impl Sender {
    fn due_ns(&self) -> f64 {
        if self.in_flight < self.iodepth { self.due_ns } else { f64::INFINITY }
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
        let reader = |_| Sender {
            due_ns: random.unit_f64() * gap_ns,
            gap_ns,
            in_flight: 0,
            iodepth: load.read_iodepth,
        };
        let readers = (0..load.readers).map(reader).collect();
        // Without a writer its first write is never due.
        let write_gap_ns = load.write_block.0 as f64 / load.write_bytes_per_sec * 1e9;
        let due_ns = if write_gap_ns.is_finite() { 0.0 } else { f64::INFINITY };
        let writer = Sender { due_ns, gap_ns: write_gap_ns, in_flight: 0, iodepth: load.write_iodepth };
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
        let readers = (0..).zip(self.readers.iter().map(Sender::due_ns));
        readers
            .fold((WRITER, self.writer.due_ns()), |first, next| if next.1 < first.1 { next } else { first })
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
        let who = self.sender(sender);
        who.due_ns += who.gap_ns * factor;
        who.in_flight += 1;
        let id = self.name();
        self.sent[id as usize] = (sender, self.now);
        let sectors = block.0 / SECTOR_BYTES;
        let (start, sectors) = (Sector(place * sectors), SectorCount(sectors));
        self.drive.handle_request(self.now, DriveRequest { id, op, start, sectors });
    }

    fn complete(&mut self, id: u32) {
        let (sender, sent) = self.sent[id as usize];
        self.free_names.push(id);
        self.sender(sender).in_flight -= 1;
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
        assert!(beside.p50_us > alone.p50_us && beside.p95_us > 1.3 * alone.p95_us, "{alone:?}, {beside:?}");
        let disk = MatrixLoad { read_iops: 20.0, arrivals: Arrivals::Poisson, ..LIGHT };
        let disk = latency("st3600057ss", &disk);
        assert!((3_000.0..12_000.0).contains(&disk.p50_us), "{disk:?}");
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
