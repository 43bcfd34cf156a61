//! The host's side of the array: the user of the volume, behind one narrow trait.
//!
//! The event loop asks a [`HostPort`] for requests and reports their completions; the port keeps the requests' bytes in
//! [`HostBuffers`], which the members' I/O and the parity kernels work on directly. A port never blocks.
//! ```text
//! poll_step ──Submit(request)──► controller ... handle_completion ◄── its end
//!     └────────PortRing::push──► io_uring   ... handle_entry      ◄── its end      sockets, timers, anything else
//! ```
//! Invariant: a tag is below [`HostPortNeeds::slots`] and names at most one request in flight; while it is, the
//! buffer belongs to the array (asserted by [`HostBuffers`]).

use crate::error::ArrayError;
use crate::memory::HostBuffers;
use crate::port_ring::{EntryEnd, PortRing};
use raidlab_controller::{HostCompletion, HostError, HostOp, HostRequest, HostTag};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, NanoSpan, Nanos};
use raidlab_workload::{DATA_BLOCK_BYTES, DataGenerator, Driver, DriverStep, IoOp, WindowProgress};

/// How often a run reports how far it is.
const REPORT_EVERY: NanoSpan = NanoSpan::from_millis(100);

/// The buffers that a port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPortNeeds {
    /// Requests that may be in flight at once; tags are below it.
    pub slots: u32,
    /// Length of the longest request.
    pub slot_bytes: ByteCount,
}

/// What a port wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// Do this request now; the bytes of a write are in its buffer.
    Submit(HostRequest),
    /// Ask again at this time, or after the next completion of a request or an entry.
    WaitUntil(Nanos),
    /// Ask again after the next completion of a request or an entry.
    WaitForCompletion,
    /// No more requests will come. Those in flight are still completed; entries in flight are cancelled.
    Finished,
}

/// What a port does when it is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWish {
    /// It is not asked for more.
    EndNow,
    /// It is asked until it says that it is finished.
    GoOn,
}

/// Something that uses the volume.
pub trait HostPort {
    /// The buffers it needs, asked once before the first step.
    fn needs(&self) -> HostPortNeeds;

    /// Returns what to do next. Asked again until it says to wait. Entries of its own go to `ring`.
    fn poll_step(&mut self, now: Nanos, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> HostStep;

    /// Takes in the end of a request; the bytes of a read are in its buffer.
    fn handle_completion(&mut self, now: Nanos, completion: HostCompletion, buffers: &HostBuffers);

    /// Takes in a completion of an entry of its own. A port that pushes none hears of none.
    fn handle_entry(&mut self, _now: Nanos, _end: EntryEnd) {}

    /// Takes in, once, that the array is to stop or the caller wants the port to end.
    fn handle_stop(&mut self, _now: Nanos) -> StopWish {
        StopWish::EndNow
    }
}

/// A workload driver as host, in the same process. Writes carry random bytes that are made once, or new data of the kind that
/// the workload asks for.
pub struct DriverHost<'a> {
    driver: &'a mut Driver,
    progress: &'a mut dyn FnMut(WindowProgress),
    block_size: BlockSize,
    filled: bool,
    /// Makes what writes carry, where that is not plain noise.
    data: Option<DataGenerator>,
    /// Blocks of it that were written.
    blocks_made: u64,
    next_report_at: Nanos,
}

impl std::fmt::Debug for DriverHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverHost").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl<'a> DriverHost<'a> {
    /// Puts `driver`, whose workload asks for [`raidlab_workload::OpSet::OF_ARRAYS`] at most, before a volume of `volume` bytes in
    /// blocks of `block_size`. `progress` is called about ten
    /// times per second.
    ///
    /// # Errors
    /// [`ArrayError::RegionTooLarge`] or [`ArrayError::UnitMismatch`] if the driver was made for another volume.
    pub fn new(
        driver: &'a mut Driver,
        block_size: BlockSize,
        volume: ByteCount,
        progress: &'a mut dyn FnMut(WindowProgress),
    ) -> Result<Self, ArrayError> {
        let (region, unit) = (driver.region(), ByteCount(u64::from(driver.block_bytes())));
        if region > volume {
            return Err(ArrayError::RegionTooLarge { region, volume });
        }
        if block_size.blocks_in(unit).is_none() {
            return Err(ArrayError::UnitMismatch { unit, block: ByteCount(block_size.bytes()) });
        }
        let spec = driver.data();
        let data = (!spec.is_noise()).then(|| DataGenerator::new(spec, 0));
        let next_report_at = Nanos::ZERO;
        Ok(Self { driver, progress, block_size, filled: false, data, blocks_made: 0, next_report_at })
    }

    /// Fills all buffers with bytes that no device can compress or recognise as zeros.
    fn fill(&mut self, buffers: &mut HostBuffers) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for tag in 0..self.needs().slots {
            for word in buffers.slot_mut(HostTag(tag)).chunks_exact_mut(8) {
                // Xorshift (G. Marsaglia, "Xorshift RNGs", 2003): fast, and random enough for filler.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
        }
        self.filled = true;
    }

    /// Puts new data into the buffer of a write, where the workload says what it is like.
    #[inline]
    fn make_data(&mut self, io: raidlab_workload::DriverIo, buffers: &mut HostBuffers) {
        if let (Some(data), IoOp::Write) = (self.data, io.op) {
            let buffer = &mut buffers.slot_mut(HostTag(io.slot))[..io.bytes as usize];
            data.fill(self.blocks_made, buffer);
            self.blocks_made += u64::from(io.bytes).div_ceil(DATA_BLOCK_BYTES as u64);
        }
    }

    fn request(&self, io: raidlab_workload::DriverIo) -> HostRequest {
        let blocks = |bytes: u64| {
            let blocks = self.block_size.blocks_in(ByteCount(bytes));
            blocks.expect("the driver keeps to multiples of its unit, and that is one of the block").0
        };
        HostRequest {
            tag: HostTag(io.slot),
            op: match io.op {
                IoOp::Read => HostOp::Read,
                IoOp::Write => HostOp::Write { fua: false },
                IoOp::Flush | IoOp::FlushData => HostOp::Flush,
                IoOp::Trim | IoOp::WriteZeroes => unreachable!("workloads are looked at before they run"),
            },
            lba: Lba(blocks(io.offset_bytes)),
            blocks: BlockCount(blocks(u64::from(io.bytes))),
        }
    }
}

impl HostPort for DriverHost<'_> {
    fn needs(&self) -> HostPortNeeds {
        let slot_bytes = ByteCount(u64::from(self.driver.request_bytes_max()));
        HostPortNeeds { slots: self.driver.iodepth(), slot_bytes }
    }

    fn poll_step(&mut self, now: Nanos, buffers: &mut HostBuffers, _ring: &mut PortRing<'_>) -> HostStep {
        if !self.filled {
            self.fill(buffers);
        }
        if now >= self.next_report_at {
            self.next_report_at = now + REPORT_EVERY;
            (self.progress)(self.driver.window_progress(now));
        }
        match self.driver.poll_step(now) {
            DriverStep::Issue(io) => {
                self.make_data(io, buffers);
                HostStep::Submit(self.request(io))
            }
            DriverStep::WaitUntil(at) => HostStep::WaitUntil(at),
            DriverStep::WaitForCompletion => HostStep::WaitForCompletion,
            DriverStep::Finished => HostStep::Finished,
        }
    }

    fn handle_completion(&mut self, now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        self.driver.handle_completion(now, completion.tag.0, completion.result.is_ok());
    }
}

/// One request of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOp {
    /// Read so many blocks.
    Read {
        /// First block.
        lba: Lba,
        /// How many.
        blocks: BlockCount,
    },
    /// Write these bytes, whole blocks.
    Write {
        /// First block.
        lba: Lba,
        /// The data.
        bytes: Vec<u8>,
        /// Acknowledged only when it would survive power loss.
        fua: bool,
    },
    /// Make everything acknowledged so far survive power loss.
    Flush,
}

/// How a request of a script ended: the bytes read, empty for writes and flushes, or the error.
pub type ScriptResult = Result<Vec<u8>, HostError>;

/// A list of requests with their bytes as host: requests start in order, up to `iodepth` at once.
#[derive(Debug)]
pub struct ScriptHost {
    ops: Vec<ScriptOp>,
    block_size: BlockSize,
    next: usize,
    /// Request that each tag in flight stands for.
    running: Vec<Option<usize>>,
    results: Vec<Option<ScriptResult>>,
}

impl ScriptHost {
    /// Makes a host that does `ops` on a volume in blocks of `block_size`, `iodepth` at once. The bytes of
    /// writes must be whole blocks and `iodepth` at least 1.
    ///
    /// # Panics
    /// If `iodepth` is zero.
    pub fn new(ops: Vec<ScriptOp>, block_size: BlockSize, iodepth: u32) -> Self {
        assert!(iodepth > 0, "a script needs a place for a request");
        for op in &ops {
            if let ScriptOp::Write { bytes, .. } = op {
                let length = ByteCount(bytes.len() as u64);
                assert!(block_size.blocks_in(length).is_some(), "a write of {length} is not whole blocks");
            }
        }
        let results = ops.iter().map(|_| None).collect();
        Self { ops, block_size, next: 0, running: vec![None; iodepth as usize], results }
    }

    /// Returns how each request ended, in the order of the script; `None` for those that a stop kept from ending.
    pub fn into_results(self) -> Vec<Option<ScriptResult>> {
        self.results
    }

    fn length(&self, op: &ScriptOp) -> u64 {
        match op {
            ScriptOp::Read { blocks, .. } => self.block_size.bytes_of(*blocks).get(),
            ScriptOp::Write { bytes, .. } => bytes.len() as u64,
            ScriptOp::Flush => 0,
        }
    }
}

impl HostPort for ScriptHost {
    fn needs(&self) -> HostPortNeeds {
        let longest = self.ops.iter().map(|op| self.length(op)).max().unwrap_or(0);
        HostPortNeeds { slots: self.running.len() as u32, slot_bytes: ByteCount(longest) }
    }

    fn poll_step(&mut self, _now: Nanos, buffers: &mut HostBuffers, _ring: &mut PortRing<'_>) -> HostStep {
        let Some(op) = self.ops.get(self.next) else { return HostStep::Finished };
        let Some(free) = self.running.iter().position(Option::is_none) else {
            return HostStep::WaitForCompletion;
        };
        let tag = HostTag(free as u32);
        let (op, lba) = match op {
            ScriptOp::Read { lba, .. } => (HostOp::Read, *lba),
            ScriptOp::Write { lba, bytes, fua } => {
                buffers.slot_mut(tag)[..bytes.len()].copy_from_slice(bytes);
                (HostOp::Write { fua: *fua }, *lba)
            }
            ScriptOp::Flush => (HostOp::Flush, Lba::ZERO),
        };
        let blocks = BlockCount(self.length(&self.ops[self.next]) / self.block_size.bytes());
        self.running[free] = Some(self.next);
        self.next += 1;
        HostStep::Submit(HostRequest { tag, op, lba, blocks })
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, buffers: &HostBuffers) {
        let tag = completion.tag;
        let request = self.running[tag.0 as usize].take().expect("only requests in flight are completed");
        let bytes = match &self.ops[request] {
            ScriptOp::Read { .. } => buffers.slot(tag)[..self.length(&self.ops[request]) as usize].to_vec(),
            ScriptOp::Write { .. } | ScriptOp::Flush => Vec::new(),
        };
        self.results[request] = Some(completion.result.map(|()| bytes));
    }
}
