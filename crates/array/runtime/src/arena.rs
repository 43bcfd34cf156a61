//! Mapped memory that the kernel and the parity kernels work on.
//!
//! An [`Arena`] is one page-aligned mapping. Every page is touched at the start, so that no run pays for page faults.
//! It is anonymous with huge pages advised, or a shared part of a file, as for NVRAM. The controller's own memory is
//! also one. Slices of it exist only during one copy or combination; in between the kernel may read and write it by
//! address.
//!
//! Invariants: a slice never leaves the mapping; destinations of one step overlap neither its sources nor each other
//! (asserted, as safe Rust demands it of slices).
#![allow(unsafe_code)]

use crate::device::Purpose;
use raidlab_controller::Controller;
use raidlab_device::ring::IoVec;
use raidlab_raid::kernel;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of every arena and of every host buffer, in bytes.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// One mapping.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping is this value's own.
    is_own: bool,
}

impl Arena {
    /// Maps `bytes` of zeros, rounded up to whole pages. Zero bytes need no mapping.
    ///
    /// # Errors
    /// What the system said, usually that there is too little memory.
    pub(crate) fn new(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT_BYTES))
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if bytes == 0 {
            return Ok(Self { base: NonNull::dangling(), bytes, is_own: false });
        }
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory in use.
        let address = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let base = NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let arena = Self { base, bytes, is_own: true };
        arena.touch()?;
        Ok(arena)
    }

    /// Maps `bytes` of a file from `offset` on, both whole pages, so that what is stored there is in the file; where the file is
    /// only looked at, what is stored is not. The file must be so long, and stay so: whoever cuts it ends this process.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn of_file(file: &File, offset: u64, bytes: u64, purpose: Purpose) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if bytes == 0 {
            return Ok(Self { base: NonNull::dangling(), bytes, is_own: false });
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let sharing = if purpose == Purpose::Use { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use; the file is locked, so
        // that no other array stores there. A private one has copies: `touch` makes them before anything is read.
        let address = unsafe { mmap(null_mut(), bytes, protection, sharing, file, offset)? };
        let base = NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let arena = Self { base, bytes, is_own: true };
        arena.touch()?;
        Ok(arena)
    }

    /// The own memory of `controller`, which must be dropped later than the arena.
    pub(crate) fn of_controller(controller: &mut Controller) -> Self {
        // It is allocated once and never grows, so it stays where it is, wherever the controller goes.
        let own = controller.own_memory_mut();
        let base = NonNull::new(own.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { base, bytes: own.len(), is_own: false }
    }

    /// Stores a word of 8 bytes, little-endian, at `offset`, a multiple of 8, after all stores before it and before all after it.
    #[allow(clippy::cast_ptr_alignment, reason = "arenas begin on a page, and the offset is asserted")]
    pub(crate) fn store_word(&self, offset: u64, word: u64) {
        assert!(offset.is_multiple_of(8), "words stand on multiples of their length");
        let place = self.address(offset, 8).cast::<u64>();
        // SAFETY: `address` asserted that the word lies within the mapping; arenas begin on a page, so it is aligned; what
        // is stored this way is reached in no other way while it is.
        unsafe { AtomicU64::from_ptr(place) }.store(word.to_le(), Ordering::SeqCst);
    }

    /// Asks for huge pages and has every page present. A kernel without either advice faults pages in later.
    fn touch(&self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; neither advice changes its contents.
        let (huge, populated) = unsafe {
            (
                madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxHugepage),
                madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxPopulateWrite),
            )
        };
        if let Err(error) = huge {
            tracing::debug!(%error, "no huge pages for {} bytes", self.bytes);
        }
        match populated {
            Err(rustix::io::Errno::NOMEM) => Err(rustix::io::Errno::NOMEM.into()),
            _ => Ok(()),
        }
    }

    /// Length in bytes, whole pages.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the address of `offset`, for the kernel. The range must lie within the arena (asserted).
    #[inline]
    pub(crate) fn address(&self, offset: u64, bytes: u64) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes as u64),
            "bytes {offset}+{bytes} are outside an arena of {}",
            self.bytes
        );
        // SAFETY: `offset` is at most the length of the mapping, as just asserted.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Whether a piece lies within.
    pub(crate) fn contains(&self, piece: IoVec) -> bool {
        let start = self.base.as_ptr().addr();
        piece.base.addr() >= start && piece.base.addr() + piece.bytes <= start + self.bytes
    }

    /// A new mapping with the bytes of a range, which the kernel may be writing to: those may be old or new.
    ///
    /// # Errors
    /// What the system said, usually that there is too little memory.
    pub(crate) fn copy_of(&self, offset: u64, bytes: u64) -> io::Result<Self> {
        let copy = Self::new(bytes)?;
        // SAFETY: both ranges lie within their mappings, as `address` asserts, and the new one overlaps nothing. What the kernel
        // writes meanwhile is memory as that of another process: any bytes are valid ones.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.address(offset, bytes),
                copy.address(0, bytes),
                bytes as usize,
            );
        };
        Ok(copy)
    }

    /// Keeps the mapping for the rest of the process.
    pub(crate) fn leak(&mut self) {
        self.is_own = false;
    }

    /// Returns the bytes of `range`. Nothing else may write them meanwhile, which the callers see to: they know
    /// which requests are in flight.
    pub(crate) fn slice(&self, range: Range<u64>) -> &[u8] {
        let start = self.address(range.start, range.end - range.start);
        // SAFETY: `address` asserted that the range lies within the mapping, which lives as long as `self`;
        // mapped memory is initialised; writers need `&mut self` or the kernel, which has no I/O on this range.
        unsafe { std::slice::from_raw_parts(start, (range.end - range.start) as usize) }
    }

    /// Returns the bytes of `range` for writing; see [`Arena::slice`].
    pub(crate) fn slice_mut(&mut self, range: Range<u64>) -> &mut [u8] {
        let start = self.address(range.start, range.end - range.start);
        // SAFETY: as in `slice`, and `&mut self` keeps every other slice of this arena away.
        unsafe { std::slice::from_raw_parts_mut(start, (range.end - range.start) as usize) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        // SAFETY: the mapping is this value's own; the world waits for all I/O before it drops its arenas.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) } {
            tracing::warn!(%error, "can't unmap {} bytes", self.bytes);
        }
    }
}

/// A piece of an arena by address, as [`Arena::address`] gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where it begins.
    pub(crate) start: *mut u8,
}

/// Sources of one kernel call; steps with more are done in several calls.
const SOURCES_PER_CALL: usize = 32;

/// Computes `destinations[r] (+)= sum of coefficients[r][s] * sources[s]`, each piece `bytes` long. `pieces` holds
/// `rows` destinations (one or two), then the sources; `coefficients` one row of one per source for each destination.
/// All pieces come from [`Arena::address`] with this length, and their arenas still are.
///
/// # Panics
/// If a destination overlaps a source or another destination.
pub(crate) fn combine_pieces(
    bytes: usize,
    pieces: &[Piece],
    rows: usize,
    coefficients: &[u8],
    accumulate: bool,
) {
    let (destinations, sources) = pieces.split_at(rows);
    for (row, destination) in destinations.iter().enumerate() {
        let address = destination.start.addr();
        let apart = pieces[row + 1..].iter().all(|other| address.abs_diff(other.start.addr()) >= bytes);
        assert!(apart, "a destination overlaps a source or another destination");
    }
    // SAFETY: each piece lies within a living arena; destinations overlap nothing, as just asserted; no other thread has a
    // task on these bytes, and the kernel no I/O: the controller names what it combines to nobody else meanwhile.
    let [first, second] = [0, 1].map(|row| match destinations.get(row) {
        Some(piece) => unsafe { std::slice::from_raw_parts_mut(piece.start, bytes) },
        None => &mut [],
    });
    let mut both = [first, second];
    if sources.is_empty() {
        return kernel::combine(&mut both[..rows], &[], &[], accumulate);
    }
    let mut row_coefficients = [0; 2 * SOURCES_PER_CALL];
    for (call, chunk) in sources.chunks(SOURCES_PER_CALL).enumerate() {
        let mut slices: [&[u8]; SOURCES_PER_CALL] = [&[]; SOURCES_PER_CALL];
        for (slice, piece) in slices.iter_mut().zip(chunk) {
            // SAFETY: as above; sources may overlap each other, which shared slices allow.
            *slice = unsafe { std::slice::from_raw_parts(piece.start, bytes) };
        }
        for row in 0..rows {
            let from = row * sources.len() + call * SOURCES_PER_CALL;
            row_coefficients[row * chunk.len()..][..chunk.len()]
                .copy_from_slice(&coefficients[from..][..chunk.len()]);
        }
        kernel::combine(
            &mut both[..rows],
            &slices[..chunk.len()],
            &row_coefficients[..rows * chunk.len()],
            accumulate || call > 0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_are_zero_aligned_and_bounded() {
        let mut arena = Arena::new(5000).expect("two pages can be mapped");
        assert_eq!(arena.bytes(), 8192);
        assert_eq!(arena.address(0, 8192).addr() % ALIGNMENT_BYTES, 0);
        assert!(arena.slice(0..8192).iter().all(|byte| *byte == 0));
        arena.slice_mut(4096..4100).copy_from_slice(b"data");
        assert_eq!(arena.slice(4095..4101), b"\0data\0");
        let outside = std::panic::catch_unwind(|| arena.address(8000, 193));
        assert!(outside.is_err(), "a range past the end is refused");
        assert_eq!(Arena::new(0).expect("nothing can be mapped").bytes(), 0);
    }

    #[test]
    fn combinations_of_more_sources_than_one_call_takes_are_right() {
        const SOURCES: usize = 2 * SOURCES_PER_CALL + 3;
        let mut arena = Arena::new(4096 * (SOURCES as u64 + 2)).expect("memory can be mapped");
        for (index, byte) in arena.slice_mut(8192..4096 * (SOURCES as u64 + 2)).iter_mut().enumerate() {
            *byte = (index * 7 + index / 4096) as u8;
        }
        let pieces: Vec<Piece> =
            (0..SOURCES as u64 + 2).map(|page| Piece { start: arena.address(page * 4096, 4096) }).collect();
        // The first row is the XOR of all sources, the second picks the last source.
        let mut coefficients = vec![1; SOURCES];
        coefficients.extend(vec![0; SOURCES - 1]);
        coefficients.push(1);
        combine_pieces(4096, &pieces, 2, &coefficients, false);
        let xor = |at: u64| {
            (0..SOURCES as u64)
                .fold(0, |sum, page| sum ^ arena.slice((page + 2) * 4096..(page + 3) * 4096)[at as usize])
        };
        assert!((0..4096).all(|at| arena.slice(0..4096)[at as usize] == xor(at)));
        let last = (SOURCES as u64 + 1) * 4096;
        assert_eq!(arena.slice(4096..8192), arena.slice(last..last + 4096));
    }

    #[test]
    fn overlapping_destinations_are_refused() {
        let arena = Arena::new(8192).expect("two pages can be mapped");
        let piece = |at| Piece { start: arena.address(at, 512) };
        for pieces in [[piece(0), piece(511)], [piece(100), piece(0)], [piece(0), piece(0)]] {
            let overlapping = std::panic::catch_unwind(|| combine_pieces(512, &pieces, 1, &[1], false));
            assert!(overlapping.is_err());
        }
        combine_pieces(512, &[piece(0), piece(512)], 1, &[1], false);
    }
}
