//! The world's memories: what moves between them and the members, and the work on them.

use super::power::Torn;
use core::ops::Range;
use raidlab_controller::{
    BufferRef, BufferSpace, HostTag, Keep, MemoryNeeds, MemoryStep, MemorySteps, Segment,
};
use raidlab_format::{NVRAM_ENTRY_BYTES, NVRAM_RING_AT, NvramImage, row_checksum};
use raidlab_raid::kernel;
use raidlab_workload::Rng;

/// Most sources of one step: the members of the largest array tried, and what is being written to them.
const SOURCES_MAX: usize = 64;

/// Where the second controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// There: it takes what is sent to it.
    Here,
    /// Gone, and to come as soon as it may. What is sent to it is dropped.
    Due,
    /// Gone. What is sent to it is dropped.
    Gone,
}

/// Cache, staging memory, NVRAM and host buffers. The controller's own memory stays with it and comes as `own`.
#[derive(Debug)]
pub(super) struct Memories {
    cache: Vec<u8>,
    staging: Vec<u8>,
    nvram_log: Vec<u8>,
    /// The directory of the cache.
    directory: Vec<u8>,
    /// The second controller's copies, in the same order; empty where nothing is mirrored.
    peer: [Vec<u8>; 3],
    peer_place: Peer,
    /// Buffer of each host tag.
    host: Vec<Vec<u8>>,
    /// Results are built here, so that sources and destinations in one memory need no splitting.
    results: [Vec<u8>; 2],
}

impl Memories {
    /// Memories full of garbage.
    pub(super) fn new(needs: &MemoryNeeds, is_mirrored: bool, random: &mut Rng) -> Self {
        let directory_bytes = u64::from(needs.directory_entries) * NVRAM_ENTRY_BYTES as u64;
        let peer = [needs.cache_bytes.0, needs.nvram_log_bytes.0, directory_bytes];
        let peer = peer.map(|bytes| garbage(if is_mirrored { bytes } else { 0 }, random));
        Self {
            peer,
            peer_place: if is_mirrored { Peer::Here } else { Peer::Gone },
            cache: garbage(needs.cache_bytes.0, random),
            staging: garbage(needs.staging_bytes.0, random),
            nvram_log: garbage(needs.nvram_log_bytes.0, random),
            directory: garbage(directory_bytes, random),
            host: Vec::new(),
            results: [Vec::new(), Vec::new()],
        }
    }

    /// The buffer of a host request; new ones are empty.
    pub(super) fn host_mut(&mut self, tag: HostTag) -> &mut Vec<u8> {
        let index = tag.0 as usize;
        if index >= self.host.len() {
            self.host.resize_with(index + 1, Vec::new);
        }
        &mut self.host[index]
    }

    /// Stores an entry of the directory.
    pub(super) fn keep(&mut self, keep: &Keep) {
        let (start, bytes) = (keep.slot as usize * NVRAM_ENTRY_BYTES, keep.bytes());
        self.directory[start..start + NVRAM_ENTRY_BYTES].copy_from_slice(&bytes);
        if keep.mirrored && self.peer_place == Peer::Here {
            self.peer[2][start..start + NVRAM_ENTRY_BYTES].copy_from_slice(&bytes);
        }
    }

    /// Lets the second controller come with nothing in its memory, or go.
    pub(super) fn set_peer(&mut self, place: Peer, random: &mut Rng) {
        self.peer.iter_mut().for_each(|memory| make_garbage(memory, random));
        self.peer_place = place;
    }

    /// Where the second controller is.
    pub(super) const fn peer_place(&self) -> Peer {
        self.peer_place
    }

    /// Puts the second controller's memory in place of this one's, which is gone.
    pub(super) fn fail_over(&mut self, random: &mut Rng) {
        make_garbage(&mut self.staging, random);
        let [cache, nvram_log, directory] = &mut self.peer;
        core::mem::swap(&mut self.cache, cache);
        core::mem::swap(&mut self.nvram_log, nvram_log);
        core::mem::swap(&mut self.directory, directory);
        self.set_peer(Peer::Gone, random);
    }

    /// What is found in NVRAM at a start; nothing where there is none.
    pub(super) fn nvram_image(&self) -> Option<NvramImage<'_>> {
        let image = NvramImage { log: &self.nvram_log, directory: &self.directory };
        (!self.nvram_log.is_empty()).then_some(image)
    }

    /// The ring of the log in NVRAM; empty where there is none.
    pub(super) fn log_ring(&self) -> &[u8] {
        self.nvram_log.get(NVRAM_RING_AT..).unwrap_or_default()
    }

    /// A copy of NVRAM; nothing where there is none.
    pub(super) fn kept_copy(&self) -> Option<[Vec<u8>; 3]> {
        let is_any = !self.nvram_log.is_empty() || !self.directory.is_empty();
        is_any.then(|| [self.cache.clone(), self.nvram_log.clone(), self.directory.clone()])
    }

    /// Puts a copy of NVRAM in its place.
    pub(super) fn put_kept(&mut self, [cache, nvram_log, directory]: &[Vec<u8>; 3]) {
        self.cache.copy_from_slice(cache);
        self.nvram_log.copy_from_slice(nvram_log);
        self.directory.copy_from_slice(directory);
    }

    /// Turns what does not survive a power cut into garbage.
    pub(super) fn lose_power(&mut self, is_kept: bool, random: &mut Rng) {
        make_garbage(&mut self.staging, random);
        if !is_kept {
            make_garbage(&mut self.cache, random);
            make_garbage(&mut self.nvram_log, random);
            make_garbage(&mut self.directory, random);
        }
    }

    fn space<'a>(&'a self, own: &'a [u8], space: BufferSpace) -> &'a [u8] {
        match space {
            BufferSpace::Cache => &self.cache,
            BufferSpace::Staging => &self.staging,
            BufferSpace::NvramLog => &self.nvram_log,
            BufferSpace::Own => own,
            BufferSpace::Host(HostTag(tag)) => &self.host[tag as usize],
            BufferSpace::PeerCache => &self.peer[0],
            BufferSpace::PeerNvramLog => &self.peer[1],
        }
    }

    fn space_mut(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Cache => &mut self.cache,
            BufferSpace::Staging => &mut self.staging,
            BufferSpace::NvramLog => &mut self.nvram_log,
            BufferSpace::Host(HostTag(tag)) => &mut self.host[tag as usize],
            BufferSpace::PeerCache => &mut self.peer[0],
            BufferSpace::PeerNvramLog => &mut self.peer[1],
            BufferSpace::Own => unreachable!("nothing is written to the controller's own memory"),
        }
    }

    /// `len` bytes from `buffer` on.
    fn bytes<'a>(&'a self, own: &'a [u8], buffer: BufferRef, len: u64) -> &'a [u8] {
        &self.space(own, buffer.space)[buffer.offset as usize..(buffer.offset + len) as usize]
    }

    fn bytes_mut(&mut self, buffer: BufferRef, len: u64) -> &mut [u8] {
        &mut self.space_mut(buffer.space)[buffer.offset as usize..(buffer.offset + len) as usize]
    }

    /// Copies `from`, a range of a member, into the segments.
    pub(super) fn scatter(&mut self, own: &mut [u8], mut from: &[u8], segments: &[Segment]) {
        for segment in segments {
            let (piece, rest) = from.split_at(segment.bytes as usize);
            let BufferRef { space, offset } = segment.buffer;
            if space == BufferSpace::Own {
                own[offset as usize..(offset + segment.bytes) as usize].copy_from_slice(piece);
            } else {
                self.bytes_mut(segment.buffer, segment.bytes).copy_from_slice(piece);
            }
            from = rest;
        }
    }

    /// Copies the segments into `to`, a range of a member.
    pub(super) fn gather(&self, own: &[u8], mut to: &mut [u8], segments: &[Segment]) {
        for segment in segments {
            let (piece, rest) = to.split_at_mut(segment.bytes as usize);
            piece.copy_from_slice(self.bytes(own, segment.buffer, segment.bytes));
            to = rest;
        }
    }

    /// The CRC32C of each row of `segments`, in order.
    pub(super) fn digests(&self, own: &[u8], segments: &[Segment], row_bytes: usize, out: &mut Vec<u32>) {
        out.clear();
        for segment in segments {
            let rows = self.bytes(own, segment.buffer, segment.bytes).chunks_exact(row_bytes);
            out.extend(rows.map(row_checksum));
        }
    }

    /// Carries out a memory task, step after step.
    pub(super) fn execute(&mut self, own: &[u8], task: &MemorySteps) {
        let mut results = core::mem::take(&mut self.results);
        for step in &task.steps {
            self.execute_part(own, task, step, 0..step.bytes, &mut results);
        }
        self.results = results;
    }

    /// Carries out as much of a memory task as a power cut leaves, block by block.
    pub(super) fn execute_torn(
        &mut self,
        own: &[u8],
        task: &MemorySteps,
        block_bytes: u64,
        random: &mut Rng,
    ) {
        let mut results = core::mem::take(&mut self.results);
        let blocks = task.steps.iter().map(|step| step.bytes.div_ceil(block_bytes)).sum();
        let torn = Torn::draw(blocks, random);
        let mut index = 0;
        for step in &task.steps {
            for first in (0..step.bytes).step_by(block_bytes as usize) {
                if torn.holds(index, random) {
                    let end = step.bytes.min(first + block_bytes);
                    self.execute_part(own, task, step, first..end, &mut results);
                }
                index += 1;
            }
        }
        self.results = results;
    }

    /// Carries out the part of a step that makes these bytes of its results.
    fn execute_part(
        &mut self,
        own: &[u8],
        task: &MemorySteps,
        step: &MemoryStep,
        part: Range<u64>,
        results: &mut [Vec<u8>; 2],
    ) {
        let bytes = part.end - part.start;
        let within = |place: &BufferRef| BufferRef { offset: place.offset + part.start, ..*place };
        let count = usize::from(step.destination_count);
        let sources = &task.sources[step.first_source as usize..][..step.source_count as usize];
        let coefficients = &task.coefficients[step.first_coefficient as usize..][..count * sources.len()];
        for (result, destination) in results.iter_mut().zip(&step.destinations[..count]) {
            result.clear();
            result.extend_from_slice(self.bytes(own, within(destination), bytes));
        }
        let mut slices: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
        for (slice, source) in slices.iter_mut().zip(sources) {
            *slice = self.bytes(own, within(source), bytes);
        }
        let slices = &slices[..sources.len()];
        let [first, second] = results;
        if count == 1 {
            kernel::combine(&mut [first.as_mut_slice()], slices, coefficients, step.accumulate);
        } else {
            let destinations = &mut [first.as_mut_slice(), second.as_mut_slice()];
            kernel::combine(destinations, slices, coefficients, step.accumulate);
        }
        for (result, destination) in results.iter().zip(&step.destinations[..count]) {
            let is_peers = matches!(destination.space, BufferSpace::PeerCache | BufferSpace::PeerNvramLog);
            if is_peers && self.peer_place != Peer::Here {
                continue;
            }
            self.bytes_mut(within(destination), bytes).copy_from_slice(result);
        }
    }
}

/// Random bytes.
pub(super) fn garbage(len: u64, random: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    make_garbage(&mut bytes, random);
    bytes
}

/// Puts random bytes in place of all.
pub(super) fn make_garbage(bytes: &mut [u8], random: &mut Rng) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
    }
}
