//! Workloads and drives of the caller's own: Python that the simulation calls.
//!
//! ```text
//! sweep ─► driver ─► OwnSource ─── next batch ──► generator           the caller's thread waits
//!       └► drive ──► OwnDrives ─── how long? ───► function or object   without holding Python
//! ```
//! What Python raises ends the sweep: the first exception is kept in [`OwnFault`](fault), nothing of Python is called after it, and
//! whoever waits for the sweep gets it as it is. The same holds for a sweep that is given up. A drive then takes [`NEVER`], so that the
//! run ends.

pub(crate) mod fault;

use crate::errors::{refused, refused_argument};
pub(crate) use fault::OwnFault;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBool;
use raidlab::{
    ByteCount, CatalogError, DriveOp, DriveRequest, NanoSpan, OwnDrive, OwnDriveModel, SectorCount,
};
use raidlab_trace::{DeviceSummary, TraceKind, TraceRecord, TraceSummary};
use raidlab_units::Nanos;
use raidlab_workload::{
    AccessSpec, BatchStep, DriverConfig, Fit, Metric, REPLAY_BYTES_MAX, Replay, Timing, TraceReader,
    TraceSource,
};
use std::collections::VecDeque;
use std::sync::Arc;

// Workloads.

/// Columns of a batch: how many requests, and of each column whether its numbers have a sign and their bytes.
type Columns = (usize, Vec<(bool, PyBackedBytes)>);

/// A workload that Python makes.
#[derive(Debug)]
pub(crate) struct OwnWorkload {
    name: String,
    /// Called with seed, bytes of the region and of a block, and requests in flight; gives an iterator of [`Columns`].
    make: Py<PyAny>,
    has_times: bool,
    summary: TraceSummary,
}

impl OwnWorkload {
    /// The one called `name`, with requests of `largest` at most.
    pub(crate) fn new(name: String, make: Py<PyAny>, has_times: bool, largest: &str) -> PyResult<Self> {
        let bytes: ByteCount = largest
            .parse()
            .map_err(|error| refused_argument("largest", format_args!("'{largest}'"), error))?;
        if !(1..=REPLAY_BYTES_MAX).contains(&bytes.get()) {
            let text = format!("a request has from 1 byte to {}", ByteCount(REPLAY_BYTES_MAX));
            return Err(refused_argument("largest", format_args!("'{largest}'"), text));
        }
        let device =
            DeviceSummary { name: name.clone(), reads: 1, writes: 1, flushes: 1, ..DeviceSummary::default() };
        let summary = TraceSummary {
            length_bytes_max: bytes.get(),
            align_bytes: 1 << 20,
            devices: vec![device],
            ..TraceSummary::default()
        };
        Ok(Self { name, make, has_times, summary })
    }

    /// As the driver takes it.
    pub(crate) fn workload(self: &Arc<Self>, fault: &Arc<OwnFault>) -> raidlab::Workload {
        let source = Arc::new(OwnSource { own: Arc::clone(self), fault: Arc::clone(fault) });
        let timing = if self.has_times { Timing::Original } else { Timing::None };
        let replay = Replay { source, timing, fit: Fit::Refuse, whole_blocks: false, targets: vec![Some(0)] };
        raidlab::Workload {
            title: format!("{}, made by Python", self.name),
            source: "its author".into(),
            metric: Metric::Iops,
            notes: String::new(),
            block_bytes_published: Vec::new(),
            spec: AccessSpec { name: self.name.clone(), trace: Some(replay), ..AccessSpec::default() },
        }
    }
}

/// The same within a sweep.
#[derive(Debug)]
struct OwnSource {
    own: Arc<OwnWorkload>,
    fault: Arc<OwnFault>,
}

impl TraceSource for OwnSource {
    fn name(&self) -> String {
        self.own.name.clone()
    }

    fn summary(&self) -> &TraceSummary {
        &self.own.summary
    }

    fn open(&self, config: &DriverConfig) -> Result<Box<dyn TraceReader>, String> {
        let of = (config.seed, config.region.get(), config.block_bytes, config.iodepth);
        let batches = self.fault.call(|py| self.own.make.call1(py, of));
        Ok(Box::new(OwnReader {
            batches: batches.ok_or_else(|| format!("workload '{}' did not begin", self.own.name))?,
            own: Arc::clone(&self.own),
            fault: Arc::clone(&self.fault),
            region_bytes: config.region.get(),
            block_bytes: config.block_bytes.into(),
            count: 0,
            time_ns: 0,
        }))
    }
}

/// Reads batch by batch.
#[derive(Debug)]
struct OwnReader {
    own: Arc<OwnWorkload>,
    fault: Arc<OwnFault>,
    batches: Py<PyAny>,
    region_bytes: u64,
    block_bytes: u64,
    /// Requests so far.
    count: u64,
    /// When the last one is due.
    time_ns: u64,
}

impl TraceReader for OwnReader {
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
        let fault = Arc::clone(&self.fault);
        loop {
            match fault.call(|py| self.read(py, batch)) {
                Some(true) if batch.is_empty() => {}
                Some(true) => return BatchStep::Ready,
                Some(false) => return BatchStep::End,
                None => return BatchStep::Failed(format!("workload '{}' was given up", self.own.name)),
            }
        }
    }
}

impl OwnReader {
    /// Reads the next batch, if there is one.
    fn read(&mut self, py: Python<'_>, batch: &mut Vec<TraceRecord>) -> PyResult<bool> {
        batch.clear();
        let (count, columns): Columns = match self.batches.call_method0(py, "__next__") {
            Ok(next) => next.extract(py)?,
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => return Ok(false),
            Err(error) => return Err(error),
        };
        let column =
            |place: usize| columns.get(place).map(|(signed, bytes)| Column::new(*signed, bytes, count));
        let (Some(offsets), Some(sizes), Some(kinds)) = (column(0), column(1), column(2)) else {
            return Err(refused("a batch has offsets, sizes and kinds"));
        };
        let times = column(3);
        batch.reserve(count);
        for index in 0..count {
            let time = times.as_ref().map_or(Ok(0), |times| times.at(index));
            let asked = [offsets.at(index), sizes.at(index), kinds.at(index), time];
            batch.push(self.record(asked)?);
        }
        Ok(true)
    }

    /// The request of an offset, a size, a kind and a time, if it can be.
    #[inline]
    fn record(&mut self, asked: [Result<u64, i64>; 4]) -> PyResult<TraceRecord> {
        self.count += 1;
        let [Ok(offset_bytes), Ok(length_bytes), Ok(kind), Ok(time_ns)] = asked else {
            let first_below = asked.iter().enumerate().find_map(|(place, it)| Some((place, it.err()?)));
            let (place, below) = first_below.unwrap_or_default();
            let column = ["offset_bytes", "size_bytes", "kind", "time_ns"][place];
            return Err(self.refuse(format_args!("{column} {below}: no number is below zero")));
        };
        let kind = match kind {
            0 => TraceKind::Read,
            1 => TraceKind::Write,
            2 => TraceKind::Flush,
            _ => return Err(self.refuse(format_args!("kind {kind}: 0 reads, 1 writes, 2 flushes"))),
        };
        if time_ns < self.time_ns {
            let text = format_args!(
                "time_ns {time_ns}: the one before is at {}, and times never go back",
                self.time_ns
            );
            return Err(self.refuse(text));
        }
        self.time_ns = time_ns;
        if kind != TraceKind::Flush {
            self.check_range(offset_bytes, length_bytes)?;
        }
        Ok(TraceRecord { time_ns, device: 0, kind, offset_bytes, length_bytes, response_ns: None })
    }

    #[inline]
    fn check_range(&self, offset_bytes: u64, length_bytes: u64) -> PyResult<()> {
        let (block, largest) = (self.block_bytes, self.own.summary.length_bytes_max);
        let end = offset_bytes.checked_add(length_bytes);
        let in_blocks = offset_bytes.is_multiple_of(block) && length_bytes.is_multiple_of(block);
        if in_blocks
            && length_bytes > 0
            && length_bytes <= largest
            && end.is_some_and(|end| end <= self.region_bytes)
        {
            return Ok(());
        }
        let problem = if !in_blocks || length_bytes == 0 {
            format!("both are multiples of the block of {block} bytes, and the size is above zero")
        } else if length_bytes > largest {
            format!("no request is longer than {}, unless largest= says so", ByteCount(largest))
        } else {
            format!("the region ends at {}", self.region_bytes)
        };
        Err(self.refuse(format_args!("size_bytes {length_bytes} at offset_bytes {offset_bytes}: {problem}")))
    }

    #[cold]
    fn refuse(&self, problem: std::fmt::Arguments<'_>) -> PyErr {
        refused(format_args!("workload '{}', request {}: {problem}", self.own.name, self.count))
    }
}

/// Whole numbers of one length in a row, as this machine has them.
#[derive(Clone, Copy)]
struct Column<'a> {
    is_signed: bool,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Column<'a> {
    fn new(is_signed: bool, bytes: &'a [u8], count: usize) -> Self {
        Self { is_signed, width: bytes.len() / count.max(1), bytes }
    }

    /// The number at `index`; what is below zero is an error.
    #[inline]
    fn at(&self, index: usize) -> Result<u64, i64> {
        let mut number = [0; 8];
        let own = &self.bytes[index * self.width..][..self.width];
        number[..self.width].copy_from_slice(own);
        if self.is_signed && own[self.width - 1] >= 0x80 {
            number[self.width..].fill(0xff);
            return Err(i64::from_le_bytes(number));
        }
        Ok(u64::from_le_bytes(number))
    }
}

// Drives.

/// What a command takes where nobody says any more: longer than any window.
const NEVER: NanoSpan = NanoSpan::from_secs(10 * 86_400);
/// The longest time that a command takes.
const SERVICE_NS_MAX: f64 = 1e15;

/// Name, the drive that it stands in for, its capacity if that is another, commands at once, and what makes a drive of a number:
/// called with it, it gives the function that says how long a command takes, and the one that says which is next, if there is one.
pub(crate) type OwnDriveArgs = (String, String, Option<String>, usize, Py<PyAny>);

/// A drive model that is written in Python.
#[derive(Debug)]
struct OwnDrives {
    name: String,
    make: Py<PyAny>,
    parallel: usize,
    fault: Arc<OwnFault>,
}

/// Adds drives to `catalog`.
pub(crate) fn add_drives(
    py: Python<'_>,
    catalog: &mut raidlab::Catalog,
    drives: &[OwnDriveArgs],
    fault: &Arc<OwnFault>,
) -> PyResult<()> {
    for (name, like, capacity, parallel, make) in drives {
        let bytes = capacity.as_ref().map(|text| {
            text.parse::<ByteCount>()
                .map_err(|error| refused_argument("capacity", format_args!("'{text}'"), error))
        });
        let sectors = bytes.transpose()?.map(|bytes| SectorCount(bytes.get() / 512));
        if let Some(text) = capacity.as_ref().filter(|_| sectors == Some(SectorCount(0))) {
            let least = "a drive has at least one block of 512 bytes";
            return Err(refused_argument("capacity", format_args!("'{text}'"), least));
        }
        let own = OwnDrives {
            name: name.clone(),
            make: make.clone_ref(py),
            parallel: *parallel,
            fault: Arc::clone(fault),
        };
        let named = |error: CatalogError| refused(format_args!("drives['{name}'], like='{like}': {error}"));
        catalog.add_own_drive(name, like, sectors, Arc::new(own)).map_err(named)?;
    }
    Ok(())
}

impl OwnDriveModel for OwnDrives {
    fn build(&self, number: u32) -> Box<dyn OwnDrive> {
        let functions = self.fault.call(|py| self.make.call1(py, (number,))?.extract(py));
        Box::new(PythonDrive { name: self.name.clone(), functions, fault: Arc::clone(&self.fault) })
    }

    fn parallel(&self) -> usize {
        self.parallel
    }
}

/// One drive.
#[derive(Debug)]
struct PythonDrive {
    name: String,
    /// How long, and which.
    functions: Option<(Py<PyAny>, Option<Py<PyAny>>)>,
    fault: Arc<OwnFault>,
}

impl OwnDrive for PythonDrive {
    fn next(&mut self, now: Nanos, waiting: &VecDeque<DriveRequest>) -> usize {
        let Some((_, Some(choose))) = &self.functions else { return 0 };
        let chosen = self.fault.call(|py| {
            let of = |request| Self::command(py, request);
            let commands: Vec<_> = waiting.iter().map(of).collect();
            let index = choose.call1(py, (now.0, commands))?;
            let place = number::<usize>(index.bind(py));
            place.filter(|place| *place < waiting.len()).ok_or_else(|| {
                let most = waiting.len() - 1;
                refused(format_args!(
                    "drive '{}': choose() returned {index}, not a place from 0 to {most}",
                    self.name
                ))
            })
        });
        chosen.unwrap_or(0)
    }

    fn service(&mut self, now: Nanos, request: &DriveRequest) -> NanoSpan {
        let Some((service, _)) = &self.functions else { return NEVER };
        let taken = self.fault.call(|py| {
            let (op, offset_bytes, bytes) = Self::command(py, request);
            let taken = service.call1(py, (now.0, op, offset_bytes, bytes))?;
            let nanos = number::<f64>(taken.bind(py));
            nanos.filter(|nanos| (0.0..=SERVICE_NS_MAX).contains(nanos)).ok_or_else(|| {
                refused(format_args!(
                    "drive '{}': a command of {bytes} bytes at {offset_bytes} takes {taken}, \
                     and that is no number of nanoseconds from 0 to 10^15",
                    self.name
                ))
            })
        });
        taken.map_or(NEVER, |nanos| NanoSpan(nanos as u64))
    }
}

/// A number of Python or of a library; none for anything else, and for True and False.
fn number<'a, 'py, T: FromPyObject<'a, 'py>>(value: &'a Bound<'py, PyAny>) -> Option<T> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
}

impl PythonDrive {
    /// A command as Python has it: what it does, its first byte and its length.
    fn command<'py>(
        py: Python<'py>,
        request: &DriveRequest,
    ) -> (&'py Bound<'py, pyo3::types::PyString>, u64, u64) {
        let op = match request.op {
            DriveOp::Read => pyo3::intern!(py, "read"),
            DriveOp::Write { fua: false } => pyo3::intern!(py, "write"),
            DriveOp::Write { fua: true } => pyo3::intern!(py, "write-through"),
            DriveOp::Flush => pyo3::intern!(py, "flush"),
            DriveOp::Trim => pyo3::intern!(py, "trim"),
        };
        (op, request.start.0 * 512, request.sectors.0 * 512)
    }
}
