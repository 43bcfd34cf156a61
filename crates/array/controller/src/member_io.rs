//! Member I/Os under way: who waits for each, what it covers, and how busy each device is.
//!
//! Invariant: a device is busy until all that was asked of it has ended; with block checksums that is until a whole
//! check has, which may take several I/Os. Left out: where bytes lie, which owners know, and checksums (`checksums/check.rs`).

mod load;
mod owner;
mod read_speed;

pub(crate) use owner::{BesideIo, HostIo, IntentIo, IoOwner, OpIo};

use crate::api::{Area, IoClass, MemberIo, MemberIoId, MemberOp};
use crate::config::CacheConfig;
use crate::outbox::Outbox;
use crate::table::{NIL, Slab};
use load::Loads;
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, MemberLba, Nanos};
use read_speed::ReadSpeed;

/// What a member I/O carries where blocks have checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IoPart {
    #[default]
    Data,
    Checksums,
    /// Data up to the end of its strip, and the tags behind it.
    Both,
}

/// A member I/O under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoState {
    pub(crate) owner: IoOwner,
    pub(crate) member: MemberIndex,
    /// Where it begins, checksums left out.
    pub(crate) lba: MemberLba,
    pub(crate) rows: u32,
    /// The check that it is part of, or [`NIL`](crate::table::NIL), and what part.
    pub(crate) check: u32,
    pub(crate) part: IoPart,
    /// How often it has been tried again.
    pub(crate) tries: u8,
}

/// The member I/Os under way.
#[derive(Debug)]
pub(crate) struct MemberIos {
    ios: Slab<IoState>,
    block_size: BlockSize,
    loads: Loads,
    now: Nanos,
    read_speed: ReadSpeed,
}

impl MemberIos {
    /// None, on so many devices.
    pub(crate) fn new(devices: usize, block_size: BlockSize, cache: &CacheConfig) -> Self {
        let (now, read_speed) = (Nanos::ZERO, ReadSpeed::new());
        Self { ios: Slab::new(), block_size, loads: Loads::new(devices, cache), now, read_speed }
    }

    /// Takes in what time it is.
    #[inline]
    pub(crate) const fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// True when none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.ios.in_use() == 0
    }

    /// Asks for a member I/O, whose id is given here.
    #[inline]
    pub(crate) fn begin(&mut self, io: MemberIo, state: IoState, outbox: &mut Outbox) {
        let was_idle = self.is_empty();
        let id = self.ios.take();
        self.ios[id] = state;
        if io.op == MemberOp::Read {
            self.read_speed.begin(id, self.now, self.block_size.bytes_of(io.blocks), was_idle);
        }
        if !matches!(state.owner, IoOwner::Beside(_)) {
            self.loads.begin(state.member, io.op, state.lba, BlockCount(u64::from(state.rows)));
        }
        outbox.member_io(MemberIo { id: MemberIoId(id), ..io });
    }

    /// Asks for a member I/O of blocks without checksums, whose id is given here.
    #[inline]
    pub(crate) fn begin_for(&mut self, owner: IoOwner, io: MemberIo, outbox: &mut Outbox) {
        let MemberIo { member, lba, blocks, .. } = io;
        let state =
            IoState { owner, member, lba, rows: blocks.0 as u32, check: NIL, part: IoPart::Data, tries: 0 };
        self.begin(io, state, outbox);
    }

    /// Asks for a read of the metadata area of a device.
    pub(crate) fn read_metadata(
        &mut self,
        member: MemberIndex,
        lba: MemberLba,
        blocks: BlockCount,
        owner: IoOwner,
        outbox: &mut Outbox,
    ) {
        self.begin_metadata((member, lba, blocks), MemberOp::Read, owner, outbox);
    }

    /// Asks for a write to the metadata area of a device, with forced unit access.
    pub(crate) fn write_metadata(
        &mut self,
        member: MemberIndex,
        lba: MemberLba,
        blocks: BlockCount,
        owner: IoOwner,
        outbox: &mut Outbox,
    ) {
        self.begin_metadata((member, lba, blocks), MemberOp::Write { fua: true }, owner, outbox);
    }

    fn begin_metadata(
        &mut self,
        (member, lba, blocks): (MemberIndex, MemberLba, BlockCount),
        op: MemberOp,
        owner: IoOwner,
        outbox: &mut Outbox,
    ) {
        let (id, area, class) = (MemberIoId(0), Area::Metadata, IoClass::Host);
        self.begin_for(owner, MemberIo { id, member, op, area, lba, blocks, class }, outbox);
    }

    /// Asks for a flush of a device: what it has completed becomes durable.
    pub(crate) fn flush(&mut self, member: MemberIndex, owner: IoOwner, outbox: &mut Outbox) {
        let (id, op, area, class) = (MemberIoId(0), MemberOp::Flush, Area::Data, IoClass::Host);
        let (lba, blocks) = (MemberLba::ZERO, BlockCount::ZERO);
        self.begin_for(owner, MemberIo { id, member, op, area, lba, blocks, class }, outbox);
    }

    /// Asks for a flush of each device. Returns how many these are.
    pub(crate) fn flush_all(
        &mut self,
        devices: impl Iterator<Item = MemberIndex>,
        owner: IoOwner,
        outbox: &mut Outbox,
    ) -> u32 {
        devices.fold(0, |count, device| {
            self.flush(device, owner, outbox);
            count + 1
        })
    }

    /// Asks for an I/O of a write log, or of the device beside the members, which no member counts among its own. It goes from
    /// `at` over `length` bytes.
    pub(crate) fn begin_beside(
        &mut self,
        io: BesideIo,
        member: MemberIndex,
        op: MemberOp,
        (at, length): (ByteCount, ByteCount),
        outbox: &mut Outbox,
    ) {
        let block_bytes = self.block_size.bytes();
        let (lba, blocks) = (MemberLba(at.0 / block_bytes), BlockCount(length.0.div_ceil(block_bytes)));
        self.begin_metadata((member, lba, blocks), op, IoOwner::Beside(io), outbox);
    }

    /// The I/O with this number (asserted to be under way).
    pub(crate) fn state(&self, id: u32) -> IoState {
        let state = self.ios[id];
        assert!(!matches!(state.owner, IoOwner::Nobody), "member I/O {id} is not under way");
        state
    }

    /// Takes in the end of an I/O (asserted to be under way).
    #[inline]
    pub(crate) fn end(&mut self, id: u32) -> IoState {
        let state = self.state(id);
        self.ios[id].owner = IoOwner::Nobody;
        self.ios.give(id);
        self.read_speed.end(id, self.now);
        if !matches!(state.owner, IoOwner::Beside(_)) {
            self.loads.end(state.member);
        }
        state
    }

    /// Counts a check as something that the device has in flight: it is not done with before the check is.
    pub(crate) fn begin_check(&mut self, device: MemberIndex, op: MemberOp, lba: MemberLba, rows: u32) {
        self.loads.begin(device, op, lba, BlockCount(u64::from(rows)));
    }

    /// Takes in the end of a check.
    pub(crate) fn end_check(&mut self, device: MemberIndex) {
        self.loads.end(device);
    }

    /// True when a device has nothing in flight.
    pub(crate) fn is_idle(&self, device: MemberIndex) -> bool {
        self.loads.is_idle(device)
    }

    /// True if reads have lately been answered sooner than they could be copied out of the cache.
    pub(crate) const fn answer_quickly(&self) -> bool {
        self.read_speed.is_quick()
    }

    /// What each device has in flight, which tells which copy is the cheapest to read.
    pub(crate) const fn loads(&self) -> &Loads {
        &self.loads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Action;

    #[test]
    fn a_device_is_busy_until_each_io_and_check_has_ended() {
        let mut ios = MemberIos::new(2, BlockSize::B4096, &CacheConfig::default());
        let mut outbox = Outbox::default();
        let (member, lba, op) = (MemberIndex(1), MemberLba(8), MemberOp::Read);
        let owner = IoOwner::Fill { fill: 4 };
        let (id, area, blocks, class) = (MemberIoId(0), Area::Data, BlockCount(2), IoClass::Host);
        for _ in 0..2 {
            let state = IoState { owner, member, lba, rows: 2, check: NIL, part: IoPart::Data, tries: 0 };
            ios.begin(MemberIo { id, member, op, area, lba, blocks, class }, state, &mut outbox);
        }
        ios.begin_check(member, op, lba, 2);
        let ids = std::iter::from_fn(|| match outbox.poll()? {
            Action::Member(io) => Some(io.id.0),
            other => panic!("{other:?} was not asked for"),
        });
        for id in ids.collect::<Vec<_>>() {
            assert!(!ios.is_empty() && !ios.is_idle(member));
            assert_eq!(ios.end(id).owner, owner);
        }
        assert!(ios.is_empty());
        assert!(!ios.is_idle(member), "the check is under way");
        ios.end_check(member);
        assert!(ios.is_idle(member) && ios.is_idle(MemberIndex(0)));
        assert_eq!(ios.loads().way(member, MemberLba(13)), 3);
    }
}
