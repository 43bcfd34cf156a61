//! The memories that the controller can name, and the work on them.
//!
//! ```text
//! Cache    one arena, as long as the controller needs it; of the NVRAM file, if there is one
//! Staging  one arena, as long as the controller needs it
//! NvramLog  of the NVRAM file
//! Own      the controller's
//! Host     one arena of slots, one for each request that may be in flight; the tag is the slot's number
//! ```

use crate::arena::{ALIGNMENT_BYTES, Arena, Piece, combine_pieces};
use crate::error::ArrayError;
use crate::nvram::Nvram;
use crate::ring::Ring;
use raidlab_controller::{BufferRef, BufferSpace, Controller, HostTag, Keep, MemorySteps, Segment};
use raidlab_device::ring::IoVec;
use raidlab_device::ring::REGISTERED_BYTES_MAX;
use raidlab_format::row_checksum;
use raidlab_units::ByteCount;
use std::path::Path;

/// The host's side of the volume's memory: one buffer per request that may be in flight.
#[derive(Debug)]
pub struct HostBuffers {
    arena: Arena,
    /// Buffers that have left the arena, by their tags; none as a rule.
    moved: Vec<Option<Arena>>,
    slot_bytes: u64,
    /// Bytes of the request in flight in each slot, or `None` where the slot is free.
    in_flight: Vec<Option<u64>>,
}

impl HostBuffers {
    /// Maps the buffers of `slots` requests of up to `slot_bytes`.
    ///
    /// # Errors
    /// [`ArrayError::Memory`] if there is too little.
    pub(crate) fn new(slots: u32, slot_bytes: u64) -> Result<Self, ArrayError> {
        let slot_bytes = slot_bytes.next_multiple_of(ALIGNMENT_BYTES as u64);
        let bytes = slot_bytes.saturating_mul(u64::from(slots));
        let arena = map("host buffers", bytes)?;
        Ok(Self { arena, moved: Vec::new(), slot_bytes, in_flight: vec![None; slots as usize] })
    }

    /// Number of slots; tags are below it.
    pub fn slots(&self) -> u32 {
        self.in_flight.len() as u32
    }

    /// Length of each slot in bytes, a multiple of 4 KiB.
    pub fn slot_bytes(&self) -> ByteCount {
        ByteCount(self.slot_bytes)
    }

    /// Returns the buffer of `tag`, whose request must not be in flight (asserted).
    pub fn slot(&self, tag: HostTag) -> &[u8] {
        let (arena, range) = self.free_range(tag);
        arena.slice(range)
    }

    /// Returns the buffer of `tag` for writing; its request must not be in flight (asserted).
    pub fn slot_mut(&mut self, tag: HostTag) -> &mut [u8] {
        let (_, range) = self.free_range(tag);
        match self.moved.get_mut(tag.0 as usize) {
            Some(Some(arena)) => arena.slice_mut(range),
            _ => self.arena.slice_mut(range),
        }
    }

    fn free_range(&self, tag: HostTag) -> (&Arena, std::ops::Range<u64>) {
        assert!(self.in_flight[tag.0 as usize].is_none(), "the buffer of request {} is in use", tag.0);
        let (arena, start) = self.place(tag);
        (arena, start..start + self.slot_bytes)
    }

    /// The arena of a buffer, and where it begins there.
    #[inline]
    fn place(&self, tag: HostTag) -> (&Arena, u64) {
        match self.moved.get(tag.0 as usize) {
            Some(Some(arena)) => (arena, 0),
            _ => (&self.arena, u64::from(tag.0) * self.slot_bytes),
        }
    }

    /// Moves the buffers that `piece` touches to mappings of their own. Returns those that they leave, or nothing if it
    /// touches none.
    fn part_from(&mut self, piece: IoVec) -> std::io::Result<Option<Vec<Arena>>> {
        if let Some(moved) = self.moved.iter_mut().flatten().find(|arena| arena.contains(piece)) {
            let copy = moved.copy_of(0, self.slot_bytes)?;
            return Ok(Some(vec![std::mem::replace(moved, copy)]));
        }
        if !self.arena.contains(piece) {
            return Ok(None);
        }
        let start = (piece.base.addr() - self.arena.address(0, 0).addr()) as u64;
        let tags = start / self.slot_bytes..=(start + piece.bytes as u64 - 1) / self.slot_bytes;
        self.moved.resize_with(self.in_flight.len(), || None);
        for tag in tags {
            if self.moved[tag as usize].is_none() {
                self.moved[tag as usize] = Some(self.arena.copy_of(tag * self.slot_bytes, self.slot_bytes)?);
            }
        }
        // The arena stays, for the others.
        Ok(Some(Vec::new()))
    }

    /// Takes in that the request `tag` of `bytes` goes to the controller.
    pub(crate) fn begin(&mut self, tag: HostTag, bytes: u64) {
        assert!(tag.0 < self.slots(), "request {} is beyond the {} slots of its host", tag.0, self.slots());
        assert!(
            bytes <= self.slot_bytes,
            "a request of {bytes} bytes exceeds the slot of {}",
            self.slot_bytes
        );
        let before = self.in_flight[tag.0 as usize].replace(bytes);
        assert!(before.is_none(), "request {} is in flight already", tag.0);
    }

    /// Takes in that the controller is done with the request `tag`.
    pub(crate) fn end(&mut self, tag: HostTag) {
        let before = self.in_flight[tag.0 as usize].take();
        assert!(before.is_some(), "request {} was completed, but is not in flight", tag.0);
    }

    /// Where the bytes of the request in flight `tag` are, for the kernel.
    pub(crate) fn io_vec(&self, tag: HostTag) -> IoVec {
        let bytes = self.in_flight[tag.0 as usize].expect("only buffers of requests in flight are named");
        let (arena, start) = self.place(tag);
        IoVec { base: arena.address(start, bytes), bytes: bytes as usize }
    }

    fn locate(&self, tag: HostTag, offset: u64, bytes: u64) -> (&Arena, u64) {
        let length = self.in_flight[tag.0 as usize].expect("only buffers of requests in flight are named");
        assert!(offset + bytes <= length, "bytes {offset}+{bytes} are outside a request of {length}");
        let (arena, start) = self.place(tag);
        (arena, start + offset)
    }
}

/// All memories of an array.
#[derive(Debug)]
pub(crate) struct Memory {
    cache: Arena,
    staging: Arena,
    own: Arena,
    nvram: Option<Nvram>,
    pub(crate) host: HostBuffers,
    buffers: Registered,
    /// Left to the kernel, which may touch it until I/O ends that does not.
    parted: Vec<Arena>,
    /// The bytes of those of them that were the controller's.
    parted_own: Vec<Vec<u8>>,
    /// Destinations, then sources, of the step at hand.
    pieces: Vec<Piece>,
}

/// Numbers of the registered buffers. An arena longer than a buffer may be takes several.
#[derive(Debug, Default)]
struct Registered {
    cache: Option<u16>,
    staging: Option<u16>,
    host: Option<u16>,
    own: Option<u16>,
    nvram_log: Option<u16>,
}

/// Registered buffers that each arena may take; what is longer than that many GiB stays unregistered.
const BUFFERS_PER_ARENA: u16 = 64;
/// Arenas that are registered.
const ARENAS: u16 = 5;

impl Memory {
    /// Maps what `controller` needs, the cache in `nvram` if there is any, and registers all with `ring` as far as the limits
    /// of this process allow. The controller must be dropped later.
    ///
    /// # Errors
    /// [`ArrayError::Memory`] if there is too little.
    pub(crate) fn new(
        controller: &mut Controller,
        mut nvram: Option<Nvram>,
        ring: &mut Ring,
    ) -> Result<Self, ArrayError> {
        let needs = controller.memory_needs();
        let cache = match nvram.as_mut().and_then(Nvram::take_cache) {
            Some(cache) => cache,
            None => map("the cache", needs.cache_bytes.get())?,
        };
        let staging = map("staging memory", needs.staging_bytes.get())?;
        let own = Arena::of_controller(controller);
        let host = HostBuffers::new(0, 0)?;
        let mut buffers = Registered::default();
        if ring.make_buffer_table(ARENAS * BUFFERS_PER_ARENA) {
            let numbers = |arena: u16| arena * BUFFERS_PER_ARENA;
            buffers.cache = register("the cache", &cache, ring, numbers(0));
            buffers.staging = register("staging memory", &staging, ring, numbers(1));
            buffers.own = register("the controller's memory", &own, ring, numbers(2));
            let log = nvram.as_ref().map(Nvram::log);
            buffers.nvram_log = log.and_then(|log| register("the NVRAM log", log, ring, numbers(3)));
            // The host's buffers get their place now and are registered when their size is known.
        }
        let (parted, parted_own, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { cache, staging, own, nvram, host, buffers, parted, parted_own, pieces })
    }

    /// Stores an entry of the cache's directory, if there is NVRAM.
    pub(crate) fn keep(&self, keep: &Keep) {
        if let Some(nvram) = &self.nvram {
            nvram.store(keep.slot, &keep.bytes());
        }
    }

    /// The file that keeps the cache, if one does.
    pub(crate) fn nvram_path(&self) -> Option<&Path> {
        self.nvram.as_ref().map(Nvram::path)
    }

    /// Makes sure of `slots` host buffers of at least `slot_bytes` each. No request may be in flight (asserted).
    ///
    /// # Errors
    /// [`ArrayError::Memory`] if there is too little.
    pub(crate) fn provide_host(
        &mut self,
        slots: u32,
        slot_bytes: u64,
        ring: &mut Ring,
    ) -> Result<(), ArrayError> {
        assert!(
            self.host.in_flight.iter().all(Option::is_none),
            "host buffers change under requests in flight"
        );
        if self.host.slots() >= slots && self.host.slot_bytes >= slot_bytes {
            return Ok(());
        }
        let host = HostBuffers::new(slots.max(self.host.slots()), slot_bytes.max(self.host.slot_bytes))?;
        // No request is in flight, so the kernel does no I/O on the old arena; it lets go of its pages when their
        // numbers go to the new one, or with the ring.
        self.buffers.host = register("host buffers", &host.arena, ring, 4 * BUFFERS_PER_ARENA);
        let mut before = std::mem::replace(&mut self.host, host);
        if !before.moved.is_empty() {
            // What was moved had left its place there to I/O that may not have ended.
            before.arena.leak();
            before.moved.iter_mut().flatten().for_each(Arena::leak);
        }
        Ok(())
    }

    /// Moves away from `pieces`, which the kernel may touch at any time. No other I/O of members may be in flight. They stay
    /// mapped until [`Memory::release_parted`].
    ///
    /// # Errors
    /// Why they can't be left.
    pub(crate) fn part_from(
        &mut self,
        pieces: &[IoVec],
        controller: &mut Controller,
        ring: &mut Ring,
    ) -> Result<(), String> {
        let no_room = |error| format!("there is no memory to move to: {error}");
        for piece in pieces {
            if self.parted.iter().any(|arena| arena.contains(*piece)) {
                continue;
            }
            if let Some(mut arenas) = self.host.part_from(*piece).map_err(no_room)? {
                // Pieces that touch were joined over buffers that stand side by side, which they may do no more.
                self.buffers.host = None;
                self.parted.append(&mut arenas);
            } else if self.staging.contains(*piece) {
                let copy = self.staging.copy_of(0, self.staging.bytes()).map_err(no_room)?;
                self.buffers.staging = register("staging memory", &copy, ring, BUFFERS_PER_ARENA);
                self.parted.push(std::mem::replace(&mut self.staging, copy));
            } else if self.cache.contains(*piece) && self.nvram.is_none() {
                let copy = self.cache.copy_of(0, self.cache.bytes()).map_err(no_room)?;
                self.buffers.cache = register("the cache", &copy, ring, 0);
                self.parted.push(std::mem::replace(&mut self.cache, copy));
            } else if self.own.contains(*piece) {
                self.parted_own.push(controller.move_own_memory());
                let own = Arena::of_controller(controller);
                self.buffers.own = register("the controller's memory", &own, ring, 2 * BUFFERS_PER_ARENA);
                self.parted.push(std::mem::replace(&mut self.own, own));
            } else {
                return Err("it lies in memory that can't be moved".to_owned());
            }
        }
        Ok(())
    }

    /// Takes in that the kernel has given back all that was left to it.
    pub(crate) fn release_parted(&mut self) {
        self.parted.clear();
        self.parted_own.clear();
    }

    /// Leaves everything mapped for the rest of the process.
    pub(crate) fn leak(&mut self) {
        if let Some(nvram) = &mut self.nvram {
            nvram.leave();
        }
        let arenas = [&mut self.cache, &mut self.staging, &mut self.host.arena];
        let moved = self.host.moved.iter_mut().flatten().chain(&mut self.parted);
        arenas.into_iter().chain(moved).for_each(Arena::leak);
        self.parted_own.drain(..).for_each(std::mem::forget);
    }

    /// Returns the address of a place, for the kernel. Its range must lie within its memory (asserted).
    #[inline]
    pub(crate) fn io_vec(&self, place: BufferRef, bytes: u64) -> IoVec {
        IoVec { base: self.address(place, bytes), bytes: bytes as usize }
    }

    /// The arena that a place is in, and where in it. Its range must lie within its memory (asserted).
    #[inline]
    fn locate(&self, place: BufferRef, bytes: u64) -> (&Arena, u64) {
        match place.space {
            BufferSpace::Cache => (&self.cache, place.offset),
            BufferSpace::Staging => (&self.staging, place.offset),
            BufferSpace::Own => (&self.own, place.offset),
            BufferSpace::NvramLog => {
                (self.nvram.as_ref().expect("an NVRAM log is in NVRAM").log(), place.offset)
            }
            BufferSpace::Host(tag) => self.host.locate(tag, place.offset, bytes),
            BufferSpace::PeerCache | BufferSpace::PeerNvramLog => {
                unreachable!("an array with a second controller is refused")
            }
        }
    }

    /// Returns the registered buffer that holds all of a place, if one does.
    #[inline]
    pub(crate) fn registered_buffer(&self, place: BufferRef, bytes: u64) -> Option<u16> {
        // What is joined to one piece may reach over several host buffers, so only the arena bounds it here.
        let (first, offset) = match place.space {
            BufferSpace::Cache => (self.buffers.cache?, place.offset),
            BufferSpace::Staging => (self.buffers.staging?, place.offset),
            BufferSpace::Host(tag) => {
                (self.buffers.host?, u64::from(tag.0) * self.host.slot_bytes + place.offset)
            }
            BufferSpace::Own => (self.buffers.own?, place.offset),
            BufferSpace::NvramLog => (self.buffers.nvram_log?, place.offset),
            BufferSpace::PeerCache | BufferSpace::PeerNvramLog => return None,
        };
        let buffer = offset / REGISTERED_BYTES_MAX;
        let last = (offset + bytes.max(1) - 1) / REGISTERED_BYTES_MAX;
        (buffer == last).then_some(first + buffer as u16)
    }

    /// Does the steps of a memory task, in order.
    pub(crate) fn run_steps(&mut self, steps: &MemorySteps) {
        let mut pieces = std::mem::take(&mut self.pieces);
        for step in &steps.steps {
            let sources = &steps.sources[step.first_source as usize..][..step.source_count as usize];
            if let (Some(nvram), BufferSpace::Cache, [source]) =
                (&self.nvram, step.destinations[0].space, sources)
                && !step.accumulate
                && steps.coefficients[step.first_coefficient as usize] == 1
            {
                self.copy_by_blocks(nvram, *source, step.destinations[0], step.bytes);
                continue;
            }
            let destinations = &step.destinations[..usize::from(step.destination_count)];
            let entries = destinations.len() * sources.len();
            let coefficients = &steps.coefficients[step.first_coefficient as usize..][..entries];
            pieces.clear();
            pieces.extend(destinations.iter().chain(sources).map(|place| self.piece(*place, step.bytes)));
            combine_pieces(step.bytes as usize, &pieces, destinations.len(), coefficients, step.accumulate);
        }
        self.pieces = pieces;
    }

    /// Copies into the cache in NVRAM, so that each block holds the old bytes or the new after any instruction.
    fn copy_by_blocks(&self, nvram: &Nvram, source: BufferRef, destination: BufferRef, bytes: u64) {
        let block = nvram.block_bytes();
        let redo = Piece { start: nvram.redo_block() };
        for at in (0..bytes).step_by(block as usize) {
            let length = block.min(bytes - at);
            let [from, to] = [source, destination]
                .map(|place| self.piece(BufferRef { offset: place.offset + at, ..place }, length));
            combine_pieces(length as usize, &[redo, from], 1, &[1], false);
            nvram.begin_block(destination.offset + at);
            combine_pieces(length as usize, &[to, redo], 1, &[1], false);
            nvram.end_block();
        }
    }

    /// Replaces `out` by the CRC32C of each block of the segments, in order.
    pub(crate) fn digest_blocks(&self, segments: &[Segment], block_bytes: u64, out: &mut Vec<u32>) {
        out.clear();
        for segment in segments {
            let (arena, start) = self.locate(segment.buffer, segment.bytes);
            let bytes = arena.slice(start..start + segment.bytes);
            out.extend(bytes.chunks_exact(block_bytes as usize).map(row_checksum));
        }
    }

    /// Returns a place by address. Its range must lie within its memory (asserted).
    #[inline]
    pub(crate) fn piece(&self, place: BufferRef, bytes: u64) -> Piece {
        Piece { start: self.address(place, bytes) }
    }

    /// Whether cache and staging are registered with the ring.
    pub(crate) const fn is_registered(&self) -> bool {
        self.buffers.staging.is_some()
    }

    #[inline]
    fn address(&self, place: BufferRef, bytes: u64) -> *mut u8 {
        let (arena, offset) = self.locate(place, bytes);
        arena.address(offset, bytes)
    }
}

fn map(what: &'static str, bytes: u64) -> Result<Arena, ArrayError> {
    Arena::new(bytes).map_err(|source| ArrayError::Memory { what, bytes: ByteCount(bytes), source })
}

/// Registers `arena` from number `first` on, in pieces as long as the kernel takes. Returns `first`, or `None`
/// where the kernel refuses: I/O then names the memory by address, at the price of pinning it each time.
fn register(what: &str, arena: &Arena, ring: &mut Ring, first: u16) -> Option<u16> {
    let count = arena.bytes().div_ceil(REGISTERED_BYTES_MAX);
    if count == 0 || count > u64::from(BUFFERS_PER_ARENA) {
        return None;
    }
    let pieces: Vec<IoVec> = (0..count)
        .map(|index| {
            let start = index * REGISTERED_BYTES_MAX;
            let bytes = REGISTERED_BYTES_MAX.min(arena.bytes() - start);
            IoVec { base: arena.address(start, bytes), bytes: bytes as usize }
        })
        .collect();
    match ring.register_buffers(first, &pieces) {
        Ok(()) => Some(first),
        Err(error) => {
            let size = ByteCount(arena.bytes());
            tracing::info!(
                %error,
                "{what} of {size} can't be registered with io_uring; raise RLIMIT_MEMLOCK for less work per I/O"
            );
            None
        }
    }
}
