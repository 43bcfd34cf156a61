//! The world's memories and members, with real bytes, and the rule that nobody may use bytes in the making.
//!
//! A real world moves bytes while other work goes on, so between the moment an action is handed out and the moment
//! it is reported done, nothing else may write what it reads or touch what it writes. Every action in flight
//! therefore declares its [`Access`]es and a conflict between two of them is a violation, whatever order this run
//! happened to choose. Three exceptions, for a host that uses blocks it is writing, where either value is right: a
//! member read may overlap a member write; without redundancy so may two member writes; and so may two copies, which
//! a world does whole and one after the other.

use raidlab_controller::{BufferRef, BufferSpace, HostTag, MemoryStep, MemorySteps, Segment};
use raidlab_units::MemberIndex;

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One of the controller's memories or a host buffer.
    Memory(BufferSpace),
    /// The data area of a member.
    Member(MemberIndex),
}

/// A range of bytes that an action in flight reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory or member.
    pub place: Place,
    /// First byte.
    pub start_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Writes, rather than reads.
    pub writes: bool,
}

impl Access {
    pub(crate) fn memory(buffer: BufferRef, len_bytes: u64, writes: bool) -> Self {
        Self { place: Place::Memory(buffer.space), start_bytes: buffer.offset, len_bytes, writes }
    }

    /// True if this and `other` may not be in flight together.
    pub(crate) fn conflicts(&self, other: &Self, redundant: bool) -> bool {
        let overlaps = self.place == other.place
            && self.start_bytes < other.start_bytes + other.len_bytes
            && other.start_bytes < self.start_bytes + self.len_bytes;
        let forbidden = match self.place {
            Place::Memory(_) => self.writes || other.writes,
            Place::Member(_) => self.writes && other.writes && redundant,
        };
        overlaps && forbidden
    }
}

/// Cache, staging memory and host buffers.
#[derive(Debug)]
pub(crate) struct Memories {
    pub(crate) cache: Vec<u8>,
    pub(crate) staging: Vec<u8>,
    /// Buffer of each host tag.
    pub(crate) host: Vec<Vec<u8>>,
}

impl Memories {
    /// The length of a memory; zero for a host tag that never was.
    pub(crate) fn len_bytes(&self, space: BufferSpace) -> u64 {
        match space {
            BufferSpace::Cache => self.cache.len() as u64,
            BufferSpace::Staging => self.staging.len() as u64,
            BufferSpace::Host(HostTag(tag)) => self.host.get(tag as usize).map_or(0, |it| it.len() as u64),
            BufferSpace::Own | BufferSpace::KeptLog | BufferSpace::PeerCache | BufferSpace::PeerKeptLog => 0,
        }
    }

    fn space(&self, space: BufferSpace) -> &[u8] {
        match space {
            BufferSpace::Cache => &self.cache,
            BufferSpace::Staging => &self.staging,
            BufferSpace::Host(HostTag(tag)) => &self.host[tag as usize],
            other => panic!("this world has no {other:?}"),
        }
    }

    fn space_mut(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Cache => &mut self.cache,
            BufferSpace::Staging => &mut self.staging,
            BufferSpace::Host(HostTag(tag)) => &mut self.host[tag as usize],
            other => panic!("this world has no {other:?}"),
        }
    }

    fn bytes(&self, buffer: BufferRef, len: u64) -> &[u8] {
        &self.space(buffer.space)[buffer.offset as usize..(buffer.offset + len) as usize]
    }

    fn bytes_mut(&mut self, buffer: BufferRef, len: u64) -> &mut [u8] {
        &mut self.space_mut(buffer.space)[buffer.offset as usize..(buffer.offset + len) as usize]
    }

    /// Copies `from`, a range of a member, into the segments.
    pub(crate) fn scatter(&mut self, mut from: &[u8], segments: &[Segment]) {
        for segment in segments {
            let (piece, rest) = from.split_at(segment.bytes as usize);
            self.bytes_mut(segment.buffer, segment.bytes).copy_from_slice(piece);
            from = rest;
        }
    }

    /// Copies the segments into `to`, a range of a member.
    pub(crate) fn gather(&self, mut to: &mut [u8], segments: &[Segment]) {
        for segment in segments {
            let (piece, rest) = to.split_at_mut(segment.bytes as usize);
            piece.copy_from_slice(self.bytes(segment.buffer, segment.bytes));
            to = rest;
        }
    }

    /// Carries out a memory task, step after step.
    pub(crate) fn execute(&mut self, task: &MemorySteps) {
        for step in &task.steps {
            for row in 0..step.destination_count {
                self.execute_row(task, step, row);
            }
        }
    }

    /// Computes one destination of a step. The result is built apart, so that sources and destinations in one
    /// memory need no splitting.
    fn execute_row(&mut self, task: &MemorySteps, step: &MemoryStep, row: u8) {
        let destination = step.destinations[usize::from(row)];
        let mut result = if step.accumulate {
            self.bytes(destination, step.bytes).to_vec()
        } else {
            vec![0; step.bytes as usize]
        };
        for index in 0..step.source_count {
            let source = task.sources[(step.first_source + index) as usize];
            let coefficient = step.first_coefficient + u32::from(row) * step.source_count + index;
            let coefficient = task.coefficients[coefficient as usize];
            add_multiple(&mut result, coefficient, self.bytes(source, step.bytes));
        }
        self.bytes_mut(destination, step.bytes).copy_from_slice(&result);
    }
}

/// Appends what the task reads and writes.
pub(crate) fn task_accesses(task: &MemorySteps, out: &mut Vec<Access>) {
    for step in &task.steps {
        let destinations = &step.destinations[..usize::from(step.destination_count)];
        out.extend(destinations.iter().map(|place| Access::memory(*place, step.bytes, true)));
        let first = step.first_source as usize;
        let sources = &task.sources[first..first + step.source_count as usize];
        out.extend(sources.iter().map(|place| Access::memory(*place, step.bytes, false)));
    }
}

/// `sum += coefficient * source` over GF(256) modulo 0x11d, byte by byte: slow, and nobody's kernel.
pub(crate) fn add_multiple(sum: &mut [u8], coefficient: u8, source: &[u8]) {
    let mut products = [0; 256];
    for (value, product) in products.iter_mut().enumerate() {
        *product = multiply(coefficient, value as u8);
    }
    for (sum, value) in sum.iter_mut().zip(source) {
        *sum ^= products[usize::from(*value)];
    }
}

/// Product in GF(256) modulo 0x11d, by shifting and adding.
pub(crate) const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        let overflow = a & 0x80 != 0;
        a <<= 1;
        if overflow {
            a ^= 0x1d;
        }
        b >>= 1;
    }
    product
}
