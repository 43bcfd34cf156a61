//! The memory of the requests in flight: one mapping, a read buffer and a write buffer for every slot.
//!
//! ```text
//! | read 0 | read 1 | ... | write 0 | write 1 | ... |     each a whole number of 4 KiB pages
//! ```
//! Reads and writes have separate buffers, so zeros read from a target never make the writes compressible. Write
//! buffers hold random data, unless the workload describes its data, which every write then generates; every write of
//! random data stamps each of its 4 KiB blocks with a unique number, so no two writes are equal. Huge pages are
//! requested if the mapping is large enough.
//!
//! Invariant: a slot's buffer is touched here only while no request of that slot is in flight.
#![allow(unsafe_code)]

use crate::error::LoadError;
use crate::noise;
use raidlab_units::ByteCount;
use raidlab_workload::{DATA_BLOCK_BYTES, DataGenerator, DataSpec, IoOp};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Buffers for the requests in flight, aligned to 4 KiB.
#[derive(Debug)]
pub struct IoMemory {
    base: NonNull<u8>,
    mapped_bytes: usize,
    /// Length of one buffer.
    stride_bytes: usize,
    /// Where the write buffers start.
    writes_at: usize,
    seed: u64,
    /// Stamps given out so far: blocks written.
    stamps: u64,
    /// Makes what writes carry, where that is not plain noise.
    data: Option<DataGenerator>,
    /// The loop fills what is written before it submits it.
    is_filled: bool,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for IoMemory {}

impl IoMemory {
    /// Maps buffers of at least `request_bytes` for `iodepth` slots: for reads, for writes, or for both.
    ///
    /// # Errors
    /// [`LoadError::Memory`] if the system does not give it.
    pub fn new(iodepth: u32, request_bytes: u32, ops: &[IoOp], seed: u64) -> Result<Self, LoadError> {
        let stride_bytes = (request_bytes.max(1) as usize).next_multiple_of(PAGE_BYTES);
        let area_bytes = stride_bytes * iodepth.max(1) as usize;
        let [reads, writes] = [IoOp::Read, IoOp::Write].map(|op| ops.contains(&op));
        let writes_at = if reads { area_bytes } else { 0 };
        let needed_bytes = writes_at + if writes { area_bytes } else { 0 };
        let mapped_bytes = match needed_bytes.max(PAGE_BYTES) {
            small if small < HUGE_PAGE_BYTES => small,
            large => large.next_multiple_of(HUGE_PAGE_BYTES),
        };
        let base = map(mapped_bytes)
            .map_err(|errno| LoadError::Memory { bytes: ByteCount(mapped_bytes as u64), errno })?;
        let mut memory = Self {
            base,
            mapped_bytes,
            stride_bytes,
            writes_at,
            seed,
            stamps: 0,
            data: None,
            is_filled: false,
        };
        // Every page is touched now, so that no request pays for the first touch.
        noise::fill(seed, 0, memory.part(0, mapped_bytes));
        Ok(memory)
    }

    /// Returns the same memory whose writes carry data like `spec`.
    #[must_use]
    pub fn with_data(mut self, spec: DataSpec) -> Self {
        self.data = (!spec.is_noise()).then(|| DataGenerator::new(spec, self.seed));
        self
    }

    /// Returns the same memory whose writes carry what the loop has put there.
    #[must_use]
    pub(crate) fn filled_by_the_loop(mut self, is_filled: bool) -> Self {
        self.is_filled = is_filled;
        self
    }

    /// Returns no memory at all.
    pub(crate) const fn none() -> Self {
        let base = NonNull::dangling();
        Self {
            base,
            mapped_bytes: 0,
            stride_bytes: 0,
            writes_at: 0,
            seed: 0,
            stamps: 0,
            data: None,
            is_filled: false,
        }
    }

    /// Returns at least a page of the memory, for a request before those of the load.
    pub(crate) fn spare(&self) -> *mut u8 {
        assert!(self.mapped_bytes >= PAGE_BYTES, "there is memory");
        self.base.as_ptr()
    }

    /// Returns where the buffer of `slot` for `op` starts.
    #[inline]
    pub(crate) fn address(&self, op: IoOp, slot: u32) -> *mut u8 {
        let offset = self.offset(op, slot);
        // SAFETY: `offset` asserts that the whole buffer is within the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Returns the first `bytes` of the buffer of `slot` for `op`.
    #[inline]
    pub(crate) fn buffer(&mut self, op: IoOp, slot: u32, bytes: u32) -> &mut [u8] {
        debug_assert!(bytes as usize <= self.stride_bytes, "a request is no longer than its buffer");
        let offset = self.offset(op, slot);
        self.part(offset, bytes as usize)
    }

    /// Makes the write of `bytes` from `slot` unlike every other, or as alike as the workload's data is.
    #[inline]
    pub(crate) fn stamp(&mut self, slot: u32, bytes: u32) {
        if self.is_filled {
            return;
        }
        if let Some(data) = self.data {
            let first_block = self.stamps;
            data.fill(first_block, self.buffer(IoOp::Write, slot, bytes));
            self.stamps = first_block + u64::from(bytes).div_ceil(DATA_BLOCK_BYTES as u64);
            return;
        }
        let (seed, mut stamps) = (self.seed, self.stamps);
        for block in self.buffer(IoOp::Write, slot, bytes).chunks_mut(PAGE_BYTES) {
            let stamp = noise::word(seed, stamps).to_le_bytes();
            let length = stamp.len().min(block.len());
            block[..length].copy_from_slice(&stamp[..length]);
            stamps += 1;
        }
        self.stamps = stamps;
    }

    /// Returns start and length of the whole mapping, for registration with the kernel.
    pub(crate) fn whole(&self) -> (*mut u8, usize) {
        (self.base.as_ptr(), self.mapped_bytes)
    }

    /// Never gives the memory back: the kernel may still write to it.
    pub(crate) fn leak(&mut self) {
        self.mapped_bytes = 0;
    }

    #[inline]
    fn offset(&self, op: IoOp, slot: u32) -> usize {
        let area_at = match op {
            IoOp::Read => 0,
            _ => self.writes_at,
        };
        let offset = area_at + slot as usize * self.stride_bytes;
        assert!(offset + self.stride_bytes <= self.mapped_bytes, "slot {slot} has no {op:?} buffer");
        offset
    }

    #[inline]
    fn part(&mut self, offset: usize, bytes: usize) -> &mut [u8] {
        assert!(offset + bytes <= self.mapped_bytes, "the part lies within the mapping");
        // SAFETY: the part lies within the mapping, which is initialised (anonymous memory is zero), and nothing
        // else refers to it: requests in flight are in other slots, by the invariant of this module.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), bytes) }
    }
}

fn map(bytes: usize) -> Result<NonNull<u8>, rustix::io::Errno> {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }?;
    if bytes >= HUGE_PAGE_BYTES {
        // Huge pages are a favour: without them all works, a little slower.
        // SAFETY: the range is the mapping just made, and this advice changes no contents.
        if let Err(errno) = unsafe { madvise(start, bytes, Advice::LinuxHugepage) } {
            tracing::debug!(%errno, "no huge pages for request buffers");
        }
    }
    NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)
}

impl Drop for IoMemory {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: the mapping was made by `map` with this length and no reference to it outlives `self`.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
            debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_apart_and_noisy() {
        for (iodepth, bytes) in [(1, 512), (3, 4096), (5, 10_000), (64, 65_536)] {
            let mut memory = IoMemory::new(iodepth, bytes, &[IoOp::Read, IoOp::Write], 1).unwrap();
            let mut starts: Vec<usize> = [IoOp::Read, IoOp::Write]
                .into_iter()
                .flat_map(|op| (0..iodepth).map(move |slot| (op, slot)))
                .map(|(op, slot)| memory.address(op, slot) as usize)
                .collect();
            starts.sort_unstable();
            assert!(starts.iter().all(|start| start.is_multiple_of(PAGE_BYTES)));
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= bytes as usize));
            assert!(memory.buffer(IoOp::Write, iodepth - 1, bytes).iter().any(|byte| *byte != 0));
        }
    }

    #[test]
    fn no_two_writes_are_alike() {
        let mut memory = IoMemory::new(1, 8192, &[IoOp::Write], 1).unwrap();
        let mut blocks = std::collections::BTreeSet::new();
        for _ in 0..50 {
            memory.stamp(0, 8192);
            blocks.extend(memory.buffer(IoOp::Write, 0, 8192).chunks(4096).map(<[u8]>::to_vec));
        }
        assert_eq!(blocks.len(), 100);
    }

    #[test]
    #[should_panic(expected = "has no Write buffer")]
    fn a_direction_that_was_not_asked_for_has_no_buffer() {
        let memory = IoMemory::new(4, 4096, &[IoOp::Read], 1).unwrap();
        let _ = memory.address(IoOp::Write, 0);
    }

    #[test]
    fn data_of_a_kind_is_made_for_every_write() {
        let spec = DataSpec { compressible_pct: 50, dedupe_pct: 0 };
        let mut memory = IoMemory::new(2, 8192, &[IoOp::Write], 1).unwrap().with_data(spec);
        let mut written = Vec::new();
        for slot in [0, 1, 0] {
            memory.stamp(slot, 8192);
            written.push(memory.buffer(IoOp::Write, slot, 8192).to_vec());
        }
        for (index, bytes) in written.iter().enumerate() {
            let zeros: usize = bytes.iter().map(|byte| usize::from(*byte == 0)).sum();
            assert!((4096..4096 + 64).contains(&zeros), "{zeros} zeros");
            assert!(written[..index].iter().all(|other| other[..256] != bytes[..256]));
        }
    }
}
