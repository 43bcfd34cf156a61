//! Writes zeros over the data areas of several devices at once, a few large writes in flight on each.

use crate::arena::Arena;
use crate::device::{LocalDevice, allocation_failed, begin, blame, failed};
use crate::error::{CreateError, DeviceError};
use crate::ring::{Direction, Done, Ring, Target};
use raidlab_device::ring::IoVec;
use raidlab_units::{ByteCount, NanoSpan};
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of one write.
const WRITE_BYTES: u64 = 1 << 20;
/// Writes in flight on all devices together.
const WRITES_IN_FLIGHT: usize = 16;
/// How long to wait for a write before looking at the request to stop.
const PATIENCE: NanoSpan = NanoSpan::from_millis(100);

/// What is to be zeros: `bytes` from `offset` on, on each device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// First byte.
    pub(crate) offset: u64,
    /// Length.
    pub(crate) bytes: u64,
}

/// One write that is in flight, or a free place for one.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    device: usize,
    bytes: u64,
    /// Which write it is, counted from the first.
    number: u64,
}

/// Writes zeros over `range` of every device. `progress` gets the bytes written so far and the bytes in all.
///
/// # Errors
/// [`CreateError`]: the system's refusal, or `cancel`.
pub(crate) fn write_zeros(
    devices: &[&LocalDevice],
    range: Range,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<(), CreateError> {
    let bytes = ByteCount(WRITE_BYTES);
    let zeros = Arena::new(WRITE_BYTES).map_err(|source| DeviceError::Memory { bytes, source })?;
    // The ring is dropped before the zeros, and waits for its writes then.
    let mut ring = Ring::new(devices.len() as u16, NanoSpan::ZERO)?;
    for (place, device) in (0..).zip(devices) {
        ring.set_file(place, device.descriptor())?;
    }
    let total = range.bytes * devices.len() as u64;
    let mut plan = Plan { range, next: vec![0; devices.len()], turn: 0, writes: 0 };
    let mut writes = [Write::default(); WRITES_IN_FLIGHT];
    let mut free: Vec<usize> = (0..WRITES_IN_FLIGHT).collect();
    let mut done = Vec::with_capacity(WRITES_IN_FLIGHT);
    let mut written = 0;
    while written < total {
        if cancel.load(Ordering::Relaxed) {
            return Err(CreateError::Cancelled);
        }
        while let Some(place) = free.pop() {
            let Some((write, offset)) = plan.next_write() else { break };
            writes[place] = write;
            let piece = IoVec { base: zeros.address(0, write.bytes), bytes: write.bytes as usize };
            let (file, direction) = (write.device as u16, Direction::Write { durable: false });
            ring.push_transfer(place as u32, file, direction, offset, Target::Single(piece, None))?;
        }
        ring.enter(Some(PATIENCE))?;
        ring.reap(&mut done);
        let oldest =
            (0..writes.len()).filter(|place| !free.contains(place)).min_by_key(|place| writes[*place].number);
        match (done.is_empty(), oldest) {
            (true, Some(place)) => blame("write zeros to", devices[writes[place].device].path()),
            _ => begin("write zeros to", devices[0].path())?,
        }
        for ended in done.drain(..) {
            let write = writes[ended.number as usize];
            written += check(devices[write.device], write, ended)?;
            free.push(ended.number as usize);
        }
        progress(ByteCount(written), ByteCount(total));
    }
    Ok(())
}

/// Which write comes next: the devices take turns.
struct Plan {
    range: Range,
    /// Bytes planned on each device.
    next: Vec<u64>,
    turn: usize,
    /// Writes planned.
    writes: u64,
}

impl Plan {
    /// Returns the next write and its offset on the device, or `None` when all are planned.
    fn next_write(&mut self) -> Option<(Write, u64)> {
        for _ in 0..self.next.len() {
            let device = self.turn;
            self.turn = (self.turn + 1) % self.next.len();
            let at = self.next[device];
            let bytes = WRITE_BYTES.min(self.range.bytes - at);
            if bytes > 0 {
                self.next[device] = at + bytes;
                self.writes += 1;
                let write = Write { device, bytes, number: self.writes };
                return Some((write, self.range.offset + at));
            }
        }
        None
    }
}

fn check(device: &LocalDevice, write: Write, ended: Done) -> Result<u64, DeviceError> {
    match ended.result {
        Ok(bytes) if u64::from(bytes) == write.bytes => Ok(write.bytes),
        Ok(_) => Err(failed("write to", device.path(), std::io::ErrorKind::WriteZero.into())),
        Err(errno) => Err(allocation_failed(device.path(), ByteCount(write.bytes), errno)),
    }
}
