//! Protocol: names and ranges are valid, and no action uses bytes that another one is writing.
//!
//! A real world moves bytes while other work goes on, so between the moment an action is handed out and the moment
//! it is reported done, nothing else may write what it reads or touch what it writes. Every action in flight therefore
//! claims the cells (blocks, or eight bytes) that it uses, and a claim that another one forbids is a violation, whatever
//! order this run happened to choose:
//! ```text
//!                 copy reads   copy writes   reads   writes       each cell counts the four claims on it
//! copy reads          yes          yes        yes      no
//! copy writes         yes          yes        no       no
//! reads               yes          no         yes      no
//! writes              no           no         no       no
//! ```
//! Copies go together because a world does each whole and one after the other; they meet where a host uses blocks that it
//! is writing. For the same reason data areas of devices are looser: reads of them claim nothing, and writes forbid each
//! other only where there is redundancy, which would come to disagree.
//!
//! Verified: names in use once, segments that add up, ranges within their memory or device, no forbidden claims, answers
//! to requests in flight only and not while something still uses their buffers. Not verified: that work which touches
//! the same bytes is done in the right order.

use crate::flights::{Flight, Work};
use crate::violation::{Failure, Violation};
use crate::world::TortureWorld;
use raidlab_controller::{
    Action, Area, BufferRef, BufferSpace, HostTag, MemberIo, MemberOp, MemoryKind, MemorySteps,
};
use raidlab_units::MemberIndex;

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One of the controller's memories or a host buffer.
    Memory(BufferSpace),
    /// An area of a device.
    Device(MemberIndex, Area),
}

/// How bytes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Source of a copy.
    CopyRead,
    /// Destination of a copy.
    CopyWrite,
    /// Read by anything else.
    Read,
    /// Written by anything else.
    Write,
}

impl Use {
    /// One claim of this kind, in the cell's count of such claims.
    const fn one(self) -> u64 {
        1 << (16 * self as u32)
    }

    /// The counts that must be zero for this claim.
    const fn forbidden(self) -> u64 {
        const fn counts(of: Use) -> u64 {
            of.one() * 0xffff
        }
        match self {
            Self::CopyRead => counts(Self::Write),
            Self::CopyWrite => counts(Self::Read) | counts(Self::Write),
            Self::Read => counts(Self::CopyWrite) | counts(Self::Write),
            Self::Write => u64::MAX,
        }
    }
}

/// A range of bytes that an action in flight uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory or device.
    pub place: Place,
    /// First byte.
    pub start_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// What for.
    pub usage: Use,
}

impl Access {
    pub(crate) const fn memory(buffer: BufferRef, len_bytes: u64, usage: Use) -> Self {
        Self { place: Place::Memory(buffer.space), start_bytes: buffer.offset, len_bytes, usage }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.place == other.place
            && self.start_bytes < other.start_bytes + other.len_bytes
            && other.start_bytes < self.start_bytes + self.len_bytes
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.overlaps(other) && other.usage.one() & self.usage.forbidden() != 0
    }
}

/// The claims on one memory or area.
#[derive(Debug, Default)]
struct Cells {
    counts: Vec<u64>,
    len_bytes: u64,
    /// A cell is `1 << shift` bytes.
    shift: u32,
}

impl Cells {
    fn resize(&mut self, len_bytes: u64, cell_bytes: u64) {
        self.len_bytes = len_bytes;
        self.shift = cell_bytes.trailing_zeros();
        self.counts.resize(len_bytes.div_ceil(cell_bytes) as usize, 0);
    }

    fn range(&self, access: &Access) -> core::ops::Range<usize> {
        let end = access.start_bytes + access.len_bytes;
        (access.start_bytes >> self.shift) as usize..(end.div_ceil(1 << self.shift)) as usize
    }
}

/// All claims of actions in flight.
#[derive(Debug)]
pub(crate) struct Claims {
    /// By [`memory_index`].
    memories: [Cells; 6],
    hosts: Vec<Cells>,
    /// Data area and metadata area of each device.
    devices: Vec<[Cells; 2]>,
    block_bytes: u64,
    /// Whether writes to a data area forbid each other.
    is_redundant: bool,
}

/// Cells of memories that hold more than whole blocks.
const FINE_BYTES: u64 = 8;

const fn memory_index(space: BufferSpace) -> usize {
    match space {
        BufferSpace::Cache | BufferSpace::Host(_) => 0,
        BufferSpace::Staging => 1,
        BufferSpace::Own => 2,
        BufferSpace::NvramLog => 3,
        BufferSpace::PeerCache => 4,
        BufferSpace::PeerNvramLog => 5,
    }
}

impl Claims {
    pub(crate) fn new(block_bytes: u64, is_redundant: bool) -> Self {
        Self {
            memories: core::array::from_fn(|_| Cells::default()),
            hosts: Vec::new(),
            devices: Vec::new(),
            block_bytes,
            is_redundant,
        }
    }

    pub(crate) fn set_memory(&mut self, space: BufferSpace, len_bytes: u64) {
        let cell = match space {
            BufferSpace::Cache | BufferSpace::Staging | BufferSpace::PeerCache => self.block_bytes,
            _ => FINE_BYTES,
        };
        self.memories[memory_index(space)].resize(len_bytes, cell);
    }

    pub(crate) fn set_host(&mut self, tag: HostTag, len_bytes: u64) {
        let index = tag.0 as usize;
        if index >= self.hosts.len() {
            self.hosts.resize_with(index + 1, Cells::default);
        }
        self.hosts[index].resize(len_bytes, self.block_bytes);
    }

    pub(crate) fn add_device(&mut self, data_bytes: u64, metadata_bytes: u64) {
        let mut areas = [Cells::default(), Cells::default()];
        areas[0].resize(data_bytes, self.block_bytes);
        areas[1].resize(metadata_bytes, self.block_bytes);
        self.devices.push(areas);
    }

    fn cells(&mut self, place: Place) -> Option<&mut Cells> {
        match place {
            Place::Memory(BufferSpace::Host(HostTag(tag))) => self.hosts.get_mut(tag as usize),
            Place::Memory(space) => Some(&mut self.memories[memory_index(space)]),
            Place::Device(device, area) => {
                self.devices.get_mut(usize::from(device.0)).map(|areas| &mut areas[area as usize])
            }
        }
    }

    /// True if nothing forbids `access`.
    ///
    /// # Errors
    /// The length of the memory or area, if `access` reaches outside it.
    fn is_free(&mut self, access: &Access) -> Result<bool, u64> {
        let Some(cells) = self.cells(access.place) else { return Err(0) };
        if access.start_bytes + access.len_bytes > cells.len_bytes {
            return Err(cells.len_bytes);
        }
        let forbidden = access.usage.forbidden();
        Ok(cells.counts[cells.range(access)].iter().all(|count| count & forbidden == 0))
    }

    fn claim(&mut self, access: &Access) {
        let cells = self.cells(access.place).expect("checked before");
        let range = cells.range(access);
        cells.counts[range].iter_mut().for_each(|count| *count += access.usage.one());
    }

    /// Ends the claims of an action.
    pub(crate) fn release(&mut self, accesses: &[Access]) {
        for access in accesses {
            let cells = self.cells(access.place).expect("claimed before");
            let range = cells.range(access);
            cells.counts[range].iter_mut().for_each(|count| *count -= access.usage.one());
        }
    }

    /// Ends all claims.
    pub(crate) fn clear(&mut self) {
        let all = self.memories.iter_mut().chain(&mut self.hosts).chain(self.devices.as_flattened_mut());
        all.for_each(|cells| cells.counts.fill(0));
    }

    /// True if no action in flight uses the buffer of a request.
    pub(crate) fn is_host_idle(&self, tag: HostTag) -> bool {
        self.hosts[tag.0 as usize].counts.iter().all(|count| *count == 0)
    }
}

impl TortureWorld {
    /// Lists what a member I/O uses. Its segments must be in place.
    pub(crate) fn member_accesses(&self, io: &MemberIo, flight: &mut Flight) -> Result<(), Failure> {
        let block_bytes = self.config.block_size.bytes();
        let reads = io.op == MemberOp::Read;
        let (device_use, memory_use) = if reads { (Use::Read, Use::Write) } else { (Use::Write, Use::Read) };
        let segments = flight.segments.iter();
        flight.accesses.extend(segments.map(|it| Access::memory(it.buffer, it.bytes, memory_use)));
        let whole = Access {
            place: Place::Device(io.member, io.area),
            start_bytes: io.lba.0 * block_bytes,
            len_bytes: io.blocks.0 * block_bytes,
            usage: device_use,
        };
        // A discard moves nothing.
        let is_discard = io.op == MemberOp::Discard;
        let segment_bytes = if is_discard {
            whole.len_bytes
        } else {
            flight.segments.iter().map(|segment| segment.bytes).sum::<u64>()
        };
        if segment_bytes != whole.len_bytes || whole.len_bytes == 0 {
            let action = Action::Member(*io);
            return Err(self.failure(Violation::Malformed {
                action,
                access: whole,
                limit_bytes: segment_bytes,
            }));
        }
        flight.accesses.push(whole);
        Ok(())
    }

    /// Claims what a new action uses, and its name.
    pub(crate) fn claim(&mut self, new: &mut Flight, action: Action) -> Result<(), Failure> {
        if !self.flights.take_name(&new.work) {
            return Err(self.failure(Violation::NameInUse { action }));
        }
        // Reads of data areas, and writes to them where nothing could come to disagree, are not held against others.
        let is_redundant = self.claims.is_redundant;
        let is_held = |access: &Access| match access.place {
            Place::Device(_, Area::Data) => access.usage == Use::Write && is_redundant,
            _ => true,
        };
        for access in &new.accesses {
            match self.claims.is_free(access) {
                Ok(is_free) if is_free || !is_held(access) => {}
                Ok(_) => return Err(self.conflict(action, *access)),
                Err(limit_bytes) => {
                    return Err(self.failure(Violation::Malformed { action, access: *access, limit_bytes }));
                }
            }
        }
        new.accesses.retain(is_held);
        new.accesses.iter().for_each(|access| self.claims.claim(access));
        Ok(())
    }

    fn conflict(&self, action: Action, access: Access) -> Failure {
        let claims =
            self.flights.iter().flat_map(|flight| flight.accesses.iter().map(|it| (flight.action(), *it)));
        let other = claims.into_iter().find(|(_, other)| access.conflicts(other));
        // Cells of fine memories may be shared by neighbours; the access then stands for its own conflict.
        let (other, other_access) = other.unwrap_or((action, access));
        self.failure(Violation::Conflict { action, access, other, other_access })
    }
}

/// Appends what a memory task reads and writes.
pub(crate) fn task_accesses(kind: MemoryKind, task: &MemorySteps, out: &mut Vec<Access>) {
    let (read, write) =
        if kind == MemoryKind::Copy { (Use::CopyRead, Use::CopyWrite) } else { (Use::Read, Use::Write) };
    for step in &task.steps {
        let destinations = &step.destinations[..usize::from(step.destination_count)];
        out.extend(destinations.iter().map(|place| Access::memory(*place, step.bytes, write)));
        let first = step.first_source as usize;
        let sources = &task.sources[first..first + step.source_count as usize];
        out.extend(sources.iter().map(|place| Access::memory(*place, step.bytes, read)));
    }
}

impl Flight {
    /// The action that it is.
    pub(crate) fn action(&self) -> Action {
        match self.work {
            Work::Member(io) => Action::Member(io),
            Work::Memory(task) => Action::Memory(task),
            Work::Idle => unreachable!("an idle entry is not in flight"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(start_bytes: u64, len_bytes: u64, usage: Use) -> Access {
        Access::memory(BufferRef { space: BufferSpace::Staging, offset: start_bytes }, len_bytes, usage)
    }

    #[test]
    fn claims_forbid_what_the_table_says() {
        use Use::{CopyRead, CopyWrite, Read, Write};
        let allowed = [
            (CopyRead, CopyRead),
            (CopyRead, CopyWrite),
            (CopyRead, Read),
            (CopyWrite, CopyWrite),
            (Read, Read),
        ];
        for first in [CopyRead, CopyWrite, Read, Write] {
            for second in [CopyRead, CopyWrite, Read, Write] {
                let mut claims = Claims::new(512, true);
                claims.set_memory(BufferSpace::Staging, 2048);
                claims.claim(&access(512, 512, first));
                let expected = allowed.contains(&(first, second)) || allowed.contains(&(second, first));
                assert_eq!(claims.is_free(&access(0, 1024, second)), Ok(expected), "{first:?} {second:?}");
                assert_eq!(claims.is_free(&access(1024, 1024, second)), Ok(true), "beside it");
                claims.release(&[access(512, 512, first)]);
                assert_eq!(claims.is_free(&access(0, 2048, second)), Ok(true), "after it");
                assert_eq!(claims.is_free(&access(1536, 1024, second)), Err(2048), "outside");
            }
        }
    }
}
