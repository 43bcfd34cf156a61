//! Actors: parts of a workload whose next request depends on what became of the last ones, as a program's does.
//!
//! ```text
//! accelerator   loaders ── samples ──► prefetched batches ──► compute ──► barrier      AU = compute / (compute + wait)
//! checkpoint    W writers: S bytes each ──► flush ──► read back                        training waits meanwhile
//! log           clients commit ──► one write of all that wait ──► flush                group commit
//! compaction    k runs read in sequence ──► one written                                no faster than its foreground
//! cache         a key by popularity ──► hit: read / miss: write once, evict in order
//! ```
//! An actor takes the place of a part's lines. It has requests in flight of its own number, and it starts none before its
//! own state lets it, so a slow target gets fewer requests. Places are those of its part: the working set is what its
//! files, logs and objects lie in.
//!
//! Sources: DLIO (H. Devarajan et al., 2021) and `MLPerf` Storage for the accelerator and its utilisation; J. Gray and
//! A. Reuter, "Transaction Processing" (1993) for group commit; P. O'Neil et al., "The log-structured merge-tree" (1996).

use crate::op::{IoOp, OpSet};
use crate::result::OfferedLoad;
use raidlab_units::{ByteCount, NanoSpan, counted};
use serde::{Deserialize, Serialize};

/// Places of one actor at most: all its requests in flight.
const PLACES_MAX: u64 = 1 << 20;

/// A law of lengths: a mean with a deviation, or a table of lengths with their shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeLaw {
    /// The mean; of no account where there is a table.
    pub mean: ByteCount,
    /// Standard deviation of a normal distribution. Lengths below one byte are drawn again, and `mean` is that of what is left.
    pub deviation: ByteCount,
    /// Lengths with their shares in percent, which add up to 100; empty for the distribution.
    pub table: Vec<(ByteCount, f64)>,
}

/// What a loader thread takes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoaderUnit {
    /// One sample: threads fill a batch together, as those of `tf.data` do.
    #[default]
    Sample,
    /// A whole batch, one sample after the other, as a worker of a `PyTorch` `DataLoader` does.
    Batch,
}

/// Accelerators that train on batches of samples, and the loaders that feed them.
#[derive(Clone, Debug, PartialEq)]
pub struct Accelerator {
    /// How many start together.
    pub count: u32,
    /// Samples of a batch.
    pub batch: u32,
    /// Time that a batch is computed for.
    pub compute: NanoSpan,
    /// Standard deviation of that time.
    pub compute_deviation: NanoSpan,
    /// Loader threads of each accelerator.
    pub read_threads: u32,
    /// Batches that are loaded ahead at most, of each accelerator.
    pub prefetch: u32,
    /// What a thread takes at once.
    pub loader: LoaderUnit,
    /// Lengths of samples.
    pub sample: SizeLaw,
    /// Samples that lie one after the other in a file, which a thread reads in order.
    pub samples_per_file: u32,
    /// Length of a read.
    pub request_bytes: u32,
    /// Reads in flight of a thread: 1 for direct reads, more where the kernel reads ahead of a sequential reader.
    pub requests_per_thread: u32,
    /// Whether all accelerators wait for each other after each batch.
    pub barrier: bool,
    /// Time of a thread to open a file.
    pub per_file: NanoSpan,
    /// Time of a thread to make a sample of what was read.
    pub per_sample: NanoSpan,
    /// Bytes per second that a thread makes samples of; none for no time.
    pub load_bytes_per_sec: Option<ByteCount>,
    /// Time from a batch that is ready to the start of its computation. It counts as waiting.
    pub per_step: NanoSpan,
    /// Processors that all loader threads share; none for one each.
    pub processors: Option<u32>,
    /// Utilisation that is wanted, in percent.
    pub au_goal_pct: f64,
}

/// A checkpoint, written by several at once and flushed.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Writers.
    pub writers: u32,
    /// Bytes that each writes.
    pub bytes: ByteCount,
    /// Length of a write.
    pub request_bytes: u32,
    /// Writes in flight of a writer.
    pub requests_per_writer: u32,
    /// From one's end to the next one's start. The first starts with the run.
    pub every: NanoSpan,
    /// Whether it is read back after it was flushed.
    pub read_back: bool,
    /// The part with the accelerators that wait for it.
    pub pauses: Option<String>,
}

/// A write-ahead log with group commit.
#[derive(Clone, Debug, PartialEq)]
pub struct LogWriter {
    /// Clients that commit, each one record at a time.
    pub clients: u32,
    /// Lengths of their records.
    pub append: SizeLaw,
    /// From a client's commit to its next.
    pub think: NanoSpan,
    /// How long the first record of a group waits for others.
    pub group: NanoSpan,
    /// A flush follows so many writes; 0 for none.
    pub flush_every: u32,
}

/// Sorted runs that are merged into one.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// Runs that are read in sequence.
    pub runs: u32,
    /// Length of a request.
    pub request_bytes: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Bytes written for a hundred read.
    pub output_pct: u32,
    /// The part whose writes it keeps up with: it writes no more than `amplification` times what that has written.
    pub follows: Option<String>,
    /// Bytes written for each byte of the part that it follows.
    pub amplification: f64,
    /// Bytes written per second at most.
    pub bytes_per_sec_max: Option<ByteCount>,
}

/// A cache of objects on storage: written once, evicted in the order of their writing.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectCache {
    /// Objects that are asked for, in the cache or not. Their popularity is the distribution of the part's places.
    pub objects: u64,
    /// Length of an object.
    pub object_bytes: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Share of the requests that find their object, in percent; none for what the popularity brings.
    pub hit_pct: Option<f64>,
    /// The place of objects is trimmed in pieces of so many bytes before it is written again; none for no trims.
    pub trim_bytes: Option<ByteCount>,
}

/// What makes a part's requests instead of its lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Actor {
    /// Accelerators and their loaders.
    Accelerator(Accelerator),
    /// A checkpoint.
    Checkpoint(Checkpoint),
    /// A log with group commit.
    Log(LogWriter),
    /// A merge of sorted runs.
    Compaction(Compaction),
    /// A cache of objects.
    Cache(ObjectCache),
}

/// When a part is at work: from `after` on, for `lasts`, and again each `every`. The default is always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// From the start of the run.
    #[serde(default)]
    pub after: NanoSpan,
    /// How long; none is to the end.
    pub lasts: Option<NanoSpan>,
    /// From one start to the next; none is once.
    pub every: Option<NanoSpan>,
}

impl SizeLaw {
    /// Every length is `bytes`.
    pub fn fixed(bytes: ByteCount) -> Self {
        Self { mean: bytes, ..Self::default() }
    }

    /// The mean length.
    pub fn mean_bytes(&self) -> f64 {
        if self.table.is_empty() {
            return self.mean.get() as f64;
        }
        self.table.iter().map(|(bytes, pct)| bytes.get() as f64 * pct / 100.0).sum()
    }

    /// The longest that is drawn: of a normal distribution what lies three deviations above its mean.
    fn longest(&self) -> u64 {
        let of_table = self.table.iter().map(|(bytes, _)| bytes.get()).max();
        of_table.unwrap_or_else(|| self.mean.get().saturating_add(self.deviation.get().saturating_mul(3)))
    }

    /// Of the keys of a mean and of a table, the one that says the lengths.
    fn key(&self, [mean, table]: [&'static str; 2]) -> &'static str {
        if self.table.is_empty() { mean } else { table }
    }

    /// Says what is wrong with it, if anything is, by the keys of mean, deviation and table.
    fn complaint(&self, [mean, deviation, table]: [&'static str; 3]) -> Option<(&'static str, &'static str)> {
        if self.table.is_empty() {
            let is_wide = self.deviation > self.mean;
            let wide =
                || is_wide.then_some((deviation, "must be up to the mean: lengths are drawn above zero"));
            return (self.mean == ByteCount::ZERO)
                .then_some((mean, "must be at least one byte"))
                .or_else(wide);
        }
        self.complaint_of_table().map(|why| (table, why))
    }

    fn complaint_of_table(&self) -> Option<&'static str> {
        let shares: f64 = self.table.iter().map(|(_, pct)| pct).sum();
        if self.table.iter().any(|(bytes, pct)| *bytes == ByteCount::ZERO || !(0.0..=100.0).contains(pct)) {
            return Some("must be pairs of a length above 0 and a share in percent");
        }
        ((shares - 100.0).abs() > 1e-6).then_some("must have shares that add up to 100 percent")
    }
}

impl Accelerator {
    /// The time that a batch needs at least, in which nothing is waited for.
    pub fn batch_bytes(&self) -> f64 {
        f64::from(self.batch) * self.sample.mean_bytes()
    }

    /// Bytes per second that `count` of them take when they never wait.
    pub fn demand(&self, count: u32) -> f64 {
        f64::from(count) * self.batch_bytes() / self.compute.as_secs_f64().max(1e-9)
    }
}

impl Checkpoint {
    /// Bytes of all writers.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.get().saturating_mul(u64::from(self.writers))
    }
}

impl Actor {
    /// The key of its table in a workload file.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Accelerator(_) => "accelerator",
            Self::Checkpoint(_) => "checkpoint",
            Self::Log(_) => "log",
            Self::Compaction(_) => "compaction",
            Self::Cache(_) => "cache",
        }
    }

    /// Its requests in flight at most.
    pub fn iodepth(&self) -> u32 {
        let places = match self {
            Self::Accelerator(it) => {
                u64::from(it.count) * u64::from(it.read_threads) * u64::from(it.requests_per_thread)
            }
            Self::Checkpoint(it) => u64::from(it.writers) * u64::from(it.requests_per_writer),
            Self::Log(_) => 1,
            Self::Compaction(it) => u64::from(it.iodepth),
            Self::Cache(it) => u64::from(it.iodepth),
        };
        u32::try_from(places).unwrap_or(u32::MAX)
    }

    /// Length of its longest request.
    pub fn request_bytes_max(&self) -> u32 {
        match self {
            Self::Accelerator(it) => it.request_bytes,
            Self::Checkpoint(it) => it.request_bytes,
            Self::Log(_) => LOG_WRITE_BYTES_MAX,
            Self::Compaction(it) => it.request_bytes,
            Self::Cache(it) => it.object_bytes,
        }
    }

    /// What has to fit into its part of a target with blocks of `block_bytes`: in words, and how long it is.
    pub fn room(&self, block_bytes: u32) -> (&'static str, ByteCount) {
        let request_bytes = u64::from(self.request_bytes_max());
        let in_blocks = |bytes: u64| bytes.max(1).checked_next_multiple_of(u64::from(block_bytes));
        let requests = |count: u64| request_bytes.saturating_mul(count);
        let (what, bytes) = match self {
            Self::Accelerator(it) => {
                let samples = it.sample.mean_bytes() as u64;
                let file =
                    in_blocks(samples.saturating_mul(u64::from(it.samples_per_file))).unwrap_or(u64::MAX);
                if file > request_bytes { ("a file of its samples", file) } else { ("a read", request_bytes) }
            }
            Self::Checkpoint(it) => {
                let each = in_blocks(it.bytes.get()).unwrap_or(u64::MAX);
                ("the checkpoint", each.saturating_mul(u64::from(it.writers)))
            }
            Self::Log(_) => ("the longest write", request_bytes),
            Self::Compaction(it) => {
                ("a request of each run and of what is written", requests(u64::from(it.runs) + 1))
            }
            Self::Cache(_) => ("an object", request_bytes),
        };
        (what, ByteCount(bytes))
    }

    /// All that its requests may do.
    pub const fn ops(&self) -> OpSet {
        match self {
            Self::Accelerator(_) => OpSet::NONE.with(IoOp::Read),
            Self::Compaction(_) => OpSet::TRANSFERS,
            Self::Cache(it) => OpSet::TRANSFERS.with_if(IoOp::Trim, it.trim_bytes.is_some()),
            Self::Checkpoint(it) => {
                OpSet::NONE.with(IoOp::Write).with(IoOp::FlushData).with_if(IoOp::Read, it.read_back)
            }
            Self::Log(it) => OpSet::NONE.with(IoOp::Write).with_if(IoOp::FlushData, it.flush_every > 0),
        }
    }

    /// The part that it waits on or makes wait, if there is one: the key, and the part's name.
    pub fn other_part(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Checkpoint(it) => Some(("pauses", it.pauses.as_deref()?)),
            Self::Compaction(it) => Some(("follows", it.follows.as_deref()?)),
            _ => None,
        }
    }

    /// Its requests are whole sectors.
    fn request_complaint(&self) -> Option<(&'static str, &'static str)> {
        let (key, bytes) = match self {
            Self::Cache(it) => ("object_size", it.object_bytes),
            other => ("request_size", other.request_bytes_max()),
        };
        (!bytes.is_multiple_of(512))
            .then_some((key, "must be a multiple of 512 bytes, a sector: 1MiB is, and 1MB is not"))
    }

    /// Its requests in flight are no more than a driver can hold.
    fn depth_complaint(&self) -> Option<(&'static str, &'static str)> {
        let key = match self {
            Self::Accelerator(_) => "read_threads",
            Self::Checkpoint(_) => "writers",
            _ => "iodepth",
        };
        (u64::from(self.iodepth()) > PLACES_MAX)
            .then_some((key, "makes more than a million requests in flight: make it fewer"))
    }

    /// Says what is wrong with its settings, if anything is: the key, and why.
    pub(crate) fn complaint(&self) -> Option<(&'static str, &'static str)> {
        let zeros: &[(&'static str, u64)] = &match self {
            Self::Accelerator(it) => vec![
                ("count", u64::from(it.count)),
                ("batch", u64::from(it.batch)),
                ("compute", it.compute.get()),
                ("read_threads", u64::from(it.read_threads)),
                ("prefetch", u64::from(it.prefetch)),
                ("samples_per_file", u64::from(it.samples_per_file)),
                ("request_size", u64::from(it.request_bytes)),
                ("requests_per_thread", u64::from(it.requests_per_thread)),
                ("processors", u64::from(it.processors.unwrap_or(1))),
                ("load_bytes_per_sec", it.load_bytes_per_sec.map_or(1, ByteCount::get)),
            ],
            Self::Checkpoint(it) => vec![
                ("writers", u64::from(it.writers)),
                ("writer_size", it.bytes.get()),
                ("request_size", u64::from(it.request_bytes)),
                ("requests_per_writer", u64::from(it.requests_per_writer)),
            ],
            Self::Log(it) => vec![("clients", u64::from(it.clients))],
            Self::Compaction(it) => vec![
                ("runs", u64::from(it.runs)),
                ("request_size", u64::from(it.request_bytes)),
                ("iodepth", u64::from(it.iodepth)),
                ("output_pct", u64::from(it.output_pct)),
                ("bytes_per_sec", it.bytes_per_sec_max.map_or(1, ByteCount::get)),
            ],
            Self::Cache(it) => vec![
                ("objects", it.objects),
                ("object_size", u64::from(it.object_bytes)),
                ("iodepth", u64::from(it.iodepth)),
                ("trim_size", it.trim_bytes.map_or(1, ByteCount::get)),
            ],
        };
        if let Some((key, _)) = zeros.iter().find(|(_, value)| *value == 0) {
            return Some((key, "must be above 0"));
        }
        if let Some(found) = self.request_complaint().or_else(|| self.depth_complaint()) {
            return Some(found);
        }
        match self {
            Self::Accelerator(it) if !(it.au_goal_pct > 0.0 && it.au_goal_pct <= 100.0) => {
                Some(("au_goal_pct", "must be above 0 and up to 100"))
            }
            Self::Accelerator(it) if it.compute_deviation > it.compute => {
                Some(("compute_deviation", "must be up to compute: times are drawn above zero"))
            }
            Self::Accelerator(it) => it.sample.complaint(["sample_size", "sample_deviation", "sample_table"]),
            Self::Log(it) if it.append.longest() > u64::from(LOG_WRITE_BYTES_MAX) => Some((
                it.append.key(["append_size", "append_table"]),
                "must be up to 1 MiB, the longest write of a log",
            )),
            Self::Log(it) => it.append.complaint(["append_size", "append_deviation", "append_table"]),
            Self::Compaction(it) if !(it.amplification > 0.0 && it.amplification <= 1000.0) => {
                Some(("amplification", "must be above 0 and up to 1000"))
            }
            Self::Compaction(it) if it.output_pct > 100 => Some(("output_pct", "must be up to 100")),
            Self::Cache(it) if it.objects > OBJECTS_MAX => Some(("objects", "must be up to 100000000")),
            Self::Cache(it) if it.hit_pct.is_some_and(|pct| !(0.0..=100.0).contains(&pct)) => {
                Some(("hit_pct", "must be 0 to 100"))
            }
            _ => None,
        }
    }
}

/// Objects of a cache at most: their table takes 4 bytes each.
const OBJECTS_MAX: u64 = 100_000_000;

/// The longest write of a log; more that is to be committed at once is cut.
pub(crate) const LOG_WRITE_BYTES_MAX: u32 = 1 << 20;

impl Phase {
    /// Says what is wrong with it, if anything is.
    pub(crate) fn complaint(&self) -> Option<(&'static str, &'static str)> {
        match (self.lasts, self.every) {
            (Some(NanoSpan::ZERO), _) => Some(("lasts", "must be above 0")),
            (None, Some(_)) => Some(("every", "needs lasts, how long the part is at work each time")),
            (Some(lasts), Some(every)) if every <= lasts => Some(("every", "must be longer than lasts")),
            _ => None,
        }
    }

    /// When it is at work next, so long after the start of the run: now, later, or never again.
    #[inline]
    pub(crate) fn next_on(&self, since_start: NanoSpan) -> Option<NanoSpan> {
        let Some(within) = since_start.get().checked_sub(self.after.get()) else { return Some(self.after) };
        let Some(lasts) = self.lasts else { return Some(since_start) };
        match self.every {
            None => (within < lasts.get()).then_some(since_start),
            Some(every) if within % every.get() < lasts.get() => Some(since_start),
            Some(every) => Some(NanoSpan(self.after.get() + (within / every.get() + 1) * every.get())),
        }
    }
}

impl std::fmt::Display for SizeLaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.table.is_empty() {
            let rows = self.table.iter().map(|(bytes, pct)| format!("{pct} % of {}", bytes.plain()));
            return f.write_str(&rows.collect::<Vec<_>>().join(", "));
        }
        write!(f, "{}", self.mean.plain())?;
        if self.deviation > ByteCount::ZERO { write!(f, " ± {}", self.deviation.plain()) } else { Ok(()) }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "from {} on", self.after)?;
        if let Some(lasts) = self.lasts {
            write!(f, " for {lasts}")?;
        }
        if let Some(every) = self.every { write!(f, ", each {every}") } else { Ok(()) }
    }
}

impl std::fmt::Display for Actor {
    /// What it does, in a sentence or two.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accelerator(it) => write_accelerator(it, f),
            Self::Checkpoint(it) => {
                let all = ByteCount(it.total_bytes()).plain();
                let request = ByteCount(u64::from(it.request_bytes));
                write!(
                    f,
                    "{} of {} each ({all}) in writes of {request}, {} in flight each, then a flush",
                    counted(it.writers, "writer"),
                    it.bytes.plain(),
                    it.requests_per_writer
                )?;
                if it.read_back {
                    f.write_str(", then the read back")?;
                }
                if it.every > NanoSpan::ZERO {
                    write!(f, "; the next {} later", it.every)?;
                }
                it.pauses.as_ref().map_or(Ok(()), |part| write!(f, "; {part} waits for it"))
            }
            Self::Log(it) => {
                write!(
                    f,
                    "commits of {}: records of {}, {} apart; one write takes all that wait",
                    counted(it.clients, "client"),
                    it.append,
                    it.think
                )?;
                if it.group > NanoSpan::ZERO {
                    write!(f, ", for {} at most", it.group)?;
                }
                match it.flush_every {
                    0 => f.write_str("; never a flush"),
                    1 => f.write_str("; a flush behind every write"),
                    n => write!(f, "; a flush behind every {n} writes"),
                }
            }
            Self::Compaction(it) => {
                let request = ByteCount(u64::from(it.request_bytes));
                write!(
                    f,
                    "{} read in sequence and one written, {} bytes for 100, in requests of {request}, {} in flight",
                    counted(it.runs, "run"),
                    it.output_pct,
                    it.iodepth
                )?;
                if let Some(part) = &it.follows {
                    write!(f, "; {} bytes written for each that {part} writes", it.amplification)?;
                }
                it.bytes_per_sec_max.map_or(Ok(()), |rate| write!(f, "; at most {}/s written", rate.plain()))
            }
            Self::Cache(it) => {
                let object = ByteCount(u64::from(it.object_bytes));
                write!(
                    f,
                    "{} of {object}, {} in flight: a hit reads, a miss writes once and evicts in order",
                    counted(it.objects, "object"),
                    counted(it.iodepth, "request")
                )?;
                if let Some(pct) = it.hit_pct {
                    write!(f, "; {pct} % hit")?;
                }
                it.trim_bytes
                    .map_or(Ok(()), |bytes| write!(f, "; trims of {} ahead of the writes", bytes.plain()))
            }
        }
    }
}

fn write_accelerator(it: &Accelerator, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let request = ByteCount(u64::from(it.request_bytes));
    write!(
        f,
        "{}: a batch of {} of {} each {}",
        OfferedLoad::Accelerators(it.count),
        counted(it.batch, "sample"),
        it.sample,
        it.compute
    )?;
    if it.compute_deviation > NanoSpan::ZERO {
        write!(f, " ± {}", it.compute_deviation)?;
    }
    write!(
        f,
        "; of each {} that read {request} at a time, {} in flight each, {} per file, up to {} loaded ahead",
        counted(it.read_threads, "thread"),
        it.requests_per_thread,
        counted(it.samples_per_file, "sample"),
        if it.prefetch == 1 { "1 batch".to_owned() } else { format!("{} batches", it.prefetch) }
    )?;
    f.write_str(if it.barrier { "; all wait for each other after each batch" } else { "" })?;
    write!(f, "; {:.1} MB/s without any wait", it.demand(it.count) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_on_when_it_says() {
        let ms = NanoSpan::from_millis;
        let phase = Phase { after: ms(10), lasts: Some(ms(5)), every: Some(ms(20)) };
        for (at, on) in [(0, 10), (10, 10), (14, 14), (15, 30), (29, 30), (30, 30), (35, 50)] {
            assert_eq!(phase.next_on(ms(at)), Some(ms(on)), "{at}");
        }
        let once = Phase { every: None, ..phase };
        assert_eq!((once.next_on(ms(14)), once.next_on(ms(15))), (Some(ms(14)), None));
        assert_eq!(Phase::default().next_on(ms(99)), Some(ms(99)));
        let rows = [
            Phase { lasts: None, ..phase },
            Phase { lasts: Some(NanoSpan::ZERO), ..phase },
            Phase { every: Some(ms(5)), ..phase },
        ];
        assert!(rows.iter().all(|row| row.complaint().is_some()) && phase.complaint().is_none());
    }
}
