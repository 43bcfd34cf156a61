//! The block device as a host of the array.
//!
//! ```text
//! new ─► add, set parameters ─► fetch all tags ─► start ─► live ─► stop ─► all fetches aborted ─► finished ─► delete
//!                                    └── in the array's loop, which serves what start and stop themselves read and write
//! ```
//! A tag of the driver is a tag of the array, and has its host buffer.
//!
//! A dead server's device disappears, but the driver keeps its node until told otherwise. So each start removes the
//! remains of raidlab servers whose process is gone; it recognises them by a word that they leave with the driver.
//!
//! Invariant: the server is finished only when all commands of the queue have ended, because the array's ring can't
//! cancel them.

use crate::control::{Command, Control};
use crate::error::UblkError;
use crate::queue::{Queue, await_readable};
use crate::uapi::{
    Description, DeviceInfo, NEW_DEVICE, Parameters, SECTOR_BYTES, STATE_DEAD, attribute, command, op,
};
use raidlab_controller::{HostCompletion, HostOp, HostRequest, HostTag};
use raidlab_runtime::{
    EntryEnd, HostBuffers, HostPort, HostPortNeeds, HostStep, PortRing, RingError, StopWish,
};
use raidlab_units::{BlockSize, ByteCount, Lba, Nanos};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Longest block: a page.
const BLOCK_BYTES_MAX: u64 = 4096;
/// The name of the entry that waits for the control ring; tags are below it.
const CONTROL: u64 = u64::MAX;
/// What servers of this kind leave with the driver, above the number of their process.
const MARK: u64 = 0x7261_6964;

/// How a volume becomes a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkOptions {
    /// Writes are refused.
    pub read_only: bool,
    /// Requests in flight.
    pub depth: u16,
    /// Longest request; longer ones are cut by the block layer.
    pub buffer_bytes: ByteCount,
    /// Length of I/O that is fast: a strip.
    pub optimal: ByteCount,
}

impl Default for UblkOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            depth: 128,
            buffer_bytes: ByteCount::from_kib(512),
            optimal: ByteCount::from_kib(64),
        }
    }
}

/// Called with the path of the device when it can be used.
pub type WhenLive = Box<dyn FnOnce(&Path)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was fetched yet.
    New,
    Starting,
    Live,
    Stopping,
    /// The driver has no more for us.
    Stopped,
}

/// What requests must fit.
#[derive(Clone, Copy, Debug)]
struct Shape {
    read_only: bool,
    block_size: BlockSize,
    volume: ByteCount,
    buffer: ByteCount,
}

impl Shape {
    /// What the array is to do for a request, and the bytes that it moves.
    fn request(&self, tag: u16, description: Description) -> Result<(HostRequest, i32), Errno> {
        let Description { op_flags, sectors, start } = description;
        let fua = op_flags & op::FUA != 0;
        let moved = u64::from(sectors) * SECTOR_BYTES;
        let (op, first, bytes) = match op_flags as u8 {
            op::READ => (HostOp::Read, start.checked_mul(SECTOR_BYTES), moved),
            op::WRITE | op::WRITE_ZEROES => (HostOp::Write { fua }, start.checked_mul(SECTOR_BYTES), moved),
            op::FLUSH => (HostOp::Flush, Some(0), 0),
            _ => return Err(Errno::OPNOTSUPP),
        };
        if self.read_only && matches!(op, HostOp::Write { .. }) {
            return Err(Errno::PERM);
        }
        let end = first.and_then(|first| first.checked_add(bytes));
        let is_empty = bytes == 0 && op != HostOp::Flush;
        if bytes > self.buffer.get() || is_empty || end.is_none_or(|end| end > self.volume.get()) {
            return Err(Errno::INVAL);
        }
        let whole = |bytes: u64| self.block_size.blocks_in(ByteCount(bytes)).ok_or(Errno::INVAL);
        let (lba, blocks) = (whole(first.ok_or(Errno::INVAL)?)?, whole(bytes)?);
        Ok((HostRequest { tag: HostTag(tag.into()), op, lba: Lba(lba.0), blocks }, bytes as i32))
    }
}

/// A device that the driver knows. Taken away with this.
#[derive(Debug)]
struct Device {
    number: u32,
    control: Control,
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(error) = self.control.delete(self.number) {
            tracing::warn!(%error, device = self.number, "a ublk device is left behind: the next start takes it away");
        }
    }
}

/// A volume's block device. Lives on the array's ring: give it to [`raidlab_runtime::ArrayWorld::serve`].
pub struct UblkServer {
    // Dropped first: the driver waits for it.
    queue: Queue,
    device: Device,
    depth: u16,
    shape: Shape,
    stage: Stage,
    to_stop: bool,
    control_news: bool,
    /// Commands of the queue in flight.
    fetching: u32,
    /// Requests that the array is to be told.
    ready: VecDeque<HostRequest>,
    /// The bytes of each request that the array works on.
    running: Vec<Option<i32>>,
    /// Ends that the driver is to be told.
    ends: Vec<(u16, i32)>,
    when_live: Option<WhenLive>,
    failure: Option<UblkError>,
}

impl std::fmt::Debug for UblkServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UblkServer")
            .field("path", &self.path())
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl UblkServer {
    /// Makes a block device of a volume of `volume` bytes in blocks of `block_size`. It can be used when it is served;
    /// `when_live` is called then, with its path.
    ///
    /// # Errors
    /// [`UblkError`]: no ublk here, not for this user, an impossible volume, or the driver's refusal.
    pub fn new(
        options: UblkOptions,
        block_size: BlockSize,
        volume: ByteCount,
        when_live: WhenLive,
    ) -> Result<Self, UblkError> {
        let block_bytes = block_size.bytes();
        if !volume.get().is_multiple_of(block_bytes) || block_bytes > BLOCK_BYTES_MAX || volume.get() == 0 {
            return Err(UblkError::Geometry { bytes: volume.get(), block_bytes });
        }
        let mut control = Control::open()?;
        take_away_dead(&mut control);
        let buffer_bytes = options.buffer_bytes.get() as u32;
        let info = DeviceInfo {
            depth: options.depth,
            buffer_bytes,
            device: NEW_DEVICE,
            server_word: MARK << 32 | u64::from(std::process::id()),
            ..DeviceInfo::default()
        };
        let mut bytes = info.encode();
        let number = command::ADD_DEV;
        let add = Command { doing: "add a ublk device", number, device: NEW_DEVICE, data: 0 };
        control.call(add, &mut bytes)?;
        let info = DeviceInfo::decode(&bytes);
        let mut device = Device { number: info.device, control };
        let read_only = if options.read_only { attribute::READ_ONLY } else { 0 };
        let parameters = Parameters {
            attributes: attribute::VOLATILE_CACHE | attribute::FUA | read_only,
            block_bytes,
            optimal_bytes: 1 << options.optimal.get().max(1).ilog2(),
            buffer_bytes,
            bytes: volume.get(),
        };
        let number = command::SET_PARAMS;
        let set = Command { doing: "describe a ublk device", number, device: info.device, data: 0 };
        device.control.call(set, &mut parameters.encode())?;
        let queue = Queue::open(Path::new(&format!("/dev/ublkc{}", info.device)), info.depth)?;
        let shape = Shape { read_only: options.read_only, block_size, volume, buffer: options.buffer_bytes };
        Ok(Self {
            queue,
            device,
            depth: info.depth,
            shape,
            stage: Stage::New,
            to_stop: false,
            control_news: false,
            fetching: 0,
            ready: VecDeque::with_capacity(info.depth.into()),
            running: vec![None; info.depth.into()],
            ends: Vec::with_capacity(info.depth.into()),
            when_live: Some(when_live),
            failure: None,
        })
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.device.number).into()
    }

    /// Why it ended by itself, if it did.
    pub fn take_failure(&mut self) -> Option<UblkError> {
        self.failure.take()
    }

    /// Begins what the driver answers when the loop has turned.
    fn begin(&mut self, doing: &'static str, number: u32, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        let command = Command { doing, number, device: self.device.number, data: std::process::id().into() };
        if let Err(error) = self.device.control.begin(command) {
            // Nothing that the driver could be told comes through; an operator's second signal ends this.
            tracing::error!(%error, "the block device can't be controlled any more");
        }
        await_readable(ring, CONTROL, self.device.control.descriptor())
    }

    fn start(&mut self, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        for tag in 0..self.depth {
            self.queue.fetch(ring, tag, buffers.slot_mut(HostTag(tag.into())))?;
            self.fetching += 1;
        }
        self.stage = Stage::Starting;
        self.begin("start a ublk device", command::START_DEV, ring)
    }

    fn hear_control(&mut self, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        let Some(ended) = self.device.control.poll_end() else {
            return await_readable(ring, CONTROL, self.device.control.descriptor());
        };
        match (self.stage, ended) {
            (Stage::Starting, Ok(())) => {
                self.stage = Stage::Live;
                if let Some(when_live) = self.when_live.take() {
                    when_live(&self.path());
                }
                Ok(())
            }
            (Stage::Starting, Err(errno)) => {
                self.failure = Some(UblkError::Io { doing: "start a ublk device", source: errno.into() });
                // What was fetched is given back only so.
                self.stop(ring)
            }
            (_, ended) => {
                if let Err(errno) = ended {
                    tracing::warn!(%errno, "the driver does not like to stop a ublk device");
                }
                self.stage = Stage::Stopped;
                Ok(())
            }
        }
    }

    fn stop(&mut self, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        self.stage = Stage::Stopping;
        self.begin("stop a ublk device", command::STOP_DEV, ring)
    }

    fn tell_ends(&mut self, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        while let Some((tag, result)) = self.ends.pop() {
            if self.stage != Stage::Stopped {
                self.queue.commit(ring, tag, result, buffers.slot_mut(HostTag(tag.into())))?;
                self.fetching += 1;
            }
        }
        Ok(())
    }

    fn step(&mut self, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> Result<HostStep, RingError> {
        if self.stage == Stage::New && self.to_stop {
            return Ok(HostStep::Finished);
        }
        if self.stage == Stage::New {
            self.start(buffers, ring)?;
        }
        if std::mem::take(&mut self.control_news) {
            self.hear_control(ring)?;
        }
        if self.to_stop && self.stage == Stage::Live {
            self.stop(ring)?;
        }
        self.tell_ends(buffers, ring)?;
        if let Some(request) = self.ready.pop_front() {
            self.prepare(&request, buffers);
            return Ok(HostStep::Submit(request));
        }
        let is_idle = self.fetching == 0 && self.running.iter().all(Option::is_none);
        Ok(if self.stage == Stage::Stopped && is_idle {
            HostStep::Finished
        } else {
            HostStep::WaitForCompletion
        })
    }

    /// Makes the zeros of a write of zeros.
    fn prepare(&self, request: &HostRequest, buffers: &mut HostBuffers) {
        let description = self.queue.description(request.tag.0 as u16);
        if description.op_flags as u8 == op::WRITE_ZEROES {
            let bytes = self.shape.block_size.bytes_of(request.blocks).get() as usize;
            buffers.slot_mut(request.tag)[..bytes].fill(0);
        }
    }

    /// Takes in that a command of the queue has ended.
    fn handle_fetched(&mut self, tag: u16, result: Result<u32, Errno>) {
        self.fetching -= 1;
        match result {
            Ok(_) => {
                let description = self.queue.description(tag);
                match self.shape.request(tag, description) {
                    Ok((request, bytes)) => {
                        self.running[usize::from(tag)] = Some(bytes);
                        self.ready.push_back(request);
                    }
                    Err(errno) => {
                        tracing::warn!(target: raidlab_runtime::CLIENT_CAUSED, ?description, %errno, "a request of the block layer is refused");
                        self.ends.push((tag, -errno.raw_os_error()));
                    }
                }
            }
            Err(errno) => {
                let is_expected = errno == Errno::NODEV;
                if !is_expected {
                    tracing::error!(%errno, tag, "the driver refuses a command");
                }
                if self.stage == Stage::Live && self.fetching == 0 {
                    tracing::warn!("the block device was taken away");
                    self.stage = Stage::Stopped;
                }
            }
        }
    }
}

/// Takes away what is left of servers of this kind whose process is gone.
fn take_away_dead(control: &mut Control) {
    let Ok(entries) = std::fs::read_dir("/dev") else { return };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let numbers: Vec<u32> = names.filter_map(|name| name.strip_prefix("ublkc")?.parse().ok()).collect();
    for device in numbers {
        let Ok(info) = control.info(device) else { continue };
        let process = info.server_word as u32;
        let is_alive = Path::new(&format!("/proc/{process}")).exists();
        if info.server_word >> 32 != MARK || info.state != STATE_DEAD || is_alive {
            continue;
        }
        match control.delete(device) {
            Ok(()) => tracing::info!(device, process, "what a dead server left was taken away"),
            Err(error) => tracing::warn!(%error, device, "what a dead server left stays"),
        }
    }
}

impl HostPort for UblkServer {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: self.depth.into(), slot_bytes: self.shape.buffer }
    }

    fn poll_step(&mut self, _now: Nanos, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> HostStep {
        self.step(buffers, ring).unwrap_or_else(|error| {
            tracing::error!(%error, "the block device can't go on");
            HostStep::Finished
        })
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        let tag = completion.tag.0 as u16;
        let bytes = self.running[usize::from(tag)].take().expect("the array ends what it was told");
        let result = match completion.result {
            Ok(()) => bytes,
            Err(error) => {
                tracing::warn!(target: raidlab_runtime::CLIENT_CAUSED, %error, "a request of the block device failed");
                -Errno::IO.raw_os_error()
            }
        };
        self.ends.push((tag, result));
    }

    fn handle_entry(&mut self, _now: Nanos, end: EntryEnd) {
        match end.user {
            CONTROL => self.control_news = true,
            tag => self.handle_fetched(tag as u16, end.result),
        }
    }

    fn handle_stop(&mut self, _now: Nanos) -> StopWish {
        self.to_stop = true;
        StopWish::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi::CONTROL_PATH;

    #[test]
    fn requests_are_those_that_fit_the_volume() {
        let shape = Shape {
            read_only: false,
            block_size: BlockSize::B4096,
            volume: ByteCount::from_mib(1),
            buffer: ByteCount::from_kib(64),
        };
        let ask = |shape: Shape, op_flags: u32, sectors, start| {
            let request = shape.request(3, Description { op_flags, sectors, start });
            request.map(|(it, bytes)| (it.op, it.lba.0, it.blocks.0, bytes))
        };
        let (read, write, flush) = (u32::from(op::READ), u32::from(op::WRITE), u32::from(op::FLUSH));
        let (zeroes, plain) = (u32::from(op::WRITE_ZEROES), HostOp::Write { fua: false });
        let rows = [
            ((read, 8, 16), Ok((HostOp::Read, 2, 1, 4096))),
            ((read, 128, 2048 - 128), Ok((HostOp::Read, 240, 16, 65_536))),
            ((write | 1 << 11, 8, 0), Ok((plain, 0, 1, 4096))),
            ((write | op::FUA, 8, 0), Ok((HostOp::Write { fua: true }, 0, 1, 4096))),
            ((zeroes | 1 << 15, 8, 8), Ok((plain, 1, 1, 4096))),
            ((flush, 0, u64::MAX), Ok((HostOp::Flush, 0, 0, 0))),
            ((read, 136, 0), Err(Errno::INVAL)),
            ((read, 8, 2048), Err(Errno::INVAL)),
            ((read, 8, u64::MAX / 512), Err(Errno::INVAL)),
            ((read, 8, u64::MAX), Err(Errno::INVAL)),
            ((write, 0, 0), Err(Errno::INVAL)),
            ((write, 1, 0), Err(Errno::INVAL)),
            ((write, 8, 1), Err(Errno::INVAL)),
            ((3, 8, 0), Err(Errno::OPNOTSUPP)),
            ((255, 8, 0), Err(Errno::OPNOTSUPP)),
        ];
        for ((op_flags, sectors, start), expected) in rows {
            assert_eq!(ask(shape, op_flags, sectors, start), expected, "{op_flags:#x} {sectors} {start}");
        }
        let shape = Shape { read_only: true, ..shape };
        assert_eq!(ask(shape, zeroes, 8, 0), Err(Errno::PERM));
        assert!(ask(shape, read, 8, 0).is_ok());
    }

    #[test]
    fn volumes_that_can_be_no_device_and_machines_that_can_have_none_are_told() {
        let new = |bytes: u64| {
            let volume = ByteCount(bytes);
            UblkServer::new(UblkOptions::default(), BlockSize::B4096, volume, Box::new(|_| {}))
        };
        for bytes in [0, 5000] {
            assert!(matches!(new(bytes), Err(UblkError::Geometry { .. })), "{bytes}");
        }
        if !Path::new(CONTROL_PATH).exists() {
            let error = new(1 << 20).expect_err("there is no ublk here");
            assert!(error.to_string().contains("modprobe ublk_drv"), "{error}");
        }
    }
}
