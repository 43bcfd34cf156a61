//! A member as the controller's hardware sees it: a command queue, and a drive that takes a few commands at a time.

use super::event::Life;
use raidlab_controller::{Area, MemberIo, MemberIoId, MemberOp};
use raidlab_hardware::{Drive, DriveOp, DriveRequest, DriveTimes, FlashCounters, Sector, SectorCount};
use raidlab_units::{BlockCount, BlockSize, ByteCount, NanoSpan, Nanos};

/// Bytes in a sector of a drive.
const SECTOR_BYTES: u64 = 512;

/// Low bits of a drive's command that are the number of the member I/O; the others are the volume's incarnation.
const ID_BITS: u32 = 24;

/// No member I/O.
const NONE: u32 = u32::MAX;

/// All member I/Os in flight, by their dense ids, and the lines they wait in, linked through this table.
#[derive(Debug, Default)]
pub(super) struct MemberIos {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    io: MemberIo,
    /// What it moves: nothing where it only names a range.
    bytes: ByteCount,
    next: u32,
    /// The one that was merged into the same command after it, and, of the first, the last.
    merged: u32,
    last_merged: u32,
}

impl MemberIos {
    #[inline]
    pub(super) fn insert(&mut self, io: MemberIo, block_size: BlockSize) {
        let index = io.id.0 as usize;
        let bytes = if io.op == MemberOp::Discard { ByteCount::ZERO } else { block_size.bytes_of(io.blocks) };
        let entry = Entry { io, bytes, next: NONE, merged: NONE, last_merged: io.id.0 };
        if index >= self.entries.len() {
            self.entries.resize(index + 1, entry);
        }
        self.entries[index] = entry;
    }

    /// Makes a member I/O, which is next to it, a part of the command of `first`.
    pub(super) fn merge(&mut self, first: MemberIoId, io: &MemberIo) {
        let bytes = self.bytes(io.id);
        let command = &mut self.entries[first.0 as usize];
        command.io.lba = command.io.lba.min(io.lba);
        command.io.blocks += io.blocks;
        command.bytes += bytes;
        let last = core::mem::replace(&mut command.last_merged, io.id.0);
        self.entries[last as usize].merged = io.id.0;
    }

    /// The member I/O that follows in the same command.
    #[inline]
    pub(super) fn next_merged(&self, id: MemberIoId) -> Option<MemberIoId> {
        let merged = self.entries[id.0 as usize].merged;
        (merged != NONE).then_some(MemberIoId(merged))
    }

    /// All member I/Os of a command.
    pub(super) fn merged(&self, first: MemberIoId) -> impl Iterator<Item = MemberIoId> + '_ {
        core::iter::successors(Some(first), |id| self.next_merged(*id))
    }

    #[inline]
    pub(super) fn get(&self, id: MemberIoId) -> &MemberIo {
        &self.entries[id.0 as usize].io
    }

    /// What a member I/O moves.
    #[inline]
    pub(super) fn bytes(&self, id: MemberIoId) -> ByteCount {
        self.entries[id.0 as usize].bytes
    }
}

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    drive: Drive,
    /// How far the drive's clock is ahead of the world's. Spindles do not turn in step; where a platter stands
    /// follows from its drive's clock.
    ahead: NanoSpan,
    /// Commands that may be at the drive, or on the way to it.
    room: u32,
    /// Bytes that these may move; one command may be longer.
    room_bytes: ByteCount,
    at_drive: u32,
    bytes_at_drive: ByteCount,
    first: u32,
    last: u32,
    busy_since: Nanos,
    busy: NanoSpan,
    /// It was pulled: whatever is asked of it fails.
    pub(super) is_gone: bool,
}

impl Member {
    pub(super) fn new(
        mut drive: Drive,
        ahead: NanoSpan,
        queue_depth: u32,
        queue_bytes: Option<ByteCount>,
    ) -> Self {
        drive.stagger(ahead.0);
        Self {
            drive,
            ahead,
            room: queue_depth,
            room_bytes: queue_bytes.unwrap_or(ByteCount(u64::MAX)),
            at_drive: 0,
            bytes_at_drive: ByteCount::ZERO,
            first: NONE,
            last: NONE,
            busy_since: Nanos::ZERO,
            busy: NanoSpan::ZERO,
            is_gone: false,
        }
    }

    /// Has the drive tell where the time of commands goes.
    pub(super) fn follow_times(&mut self) {
        self.drive.follow_times();
    }

    /// Puts a command at the end of the line.
    #[inline]
    pub(super) fn enqueue(&mut self, ios: &mut MemberIos, id: MemberIoId) {
        if self.first == NONE {
            self.first = id.0;
        } else {
            ios.entries[self.last as usize].next = id.0;
        }
        self.last = id.0;
    }

    /// Takes the first command out of the line if the drive has room for it.
    #[inline]
    pub(super) fn admit(&mut self, now: Nanos, ios: &MemberIos) -> Option<MemberIoId> {
        if self.first == NONE || self.at_drive == self.room {
            return None;
        }
        let id = self.first;
        let Entry { bytes, next, .. } = ios.entries[id as usize];
        let bytes = self.bytes_at_drive + bytes;
        if bytes > self.room_bytes && self.at_drive > 0 {
            return None;
        }
        self.bytes_at_drive = bytes;
        self.first = next;
        if self.at_drive == 0 {
            self.busy_since = now;
        }
        self.at_drive += 1;
        Some(MemberIoId(id))
    }

    /// Gives an admitted command to the drive.
    #[inline]
    pub(super) fn start(&mut self, now: Nanos, io: &MemberIo, places: Places, life: Life) {
        self.drive.handle_request(now + self.ahead, drive_request(io, places, life));
    }

    /// Does what the drive has to do at `now`.
    #[inline]
    pub(super) fn handle_deadline(&mut self, now: Nanos) {
        self.drive.handle_deadline(now + self.ahead);
    }

    /// Returns the next finished command and the incarnation that issued it; the caller frees its room.
    #[inline]
    pub(super) fn poll_completion(&mut self) -> Option<(MemberIoId, Life)> {
        let done = self.drive.poll_completion()?;
        Some((MemberIoId(done.id & ((1 << ID_BITS) - 1)), Life((done.id >> ID_BITS) as u8)))
    }

    /// Where the time of that command went, while that is followed.
    pub(super) fn poll_times(&mut self) -> DriveTimes {
        self.drive.poll_times()
    }

    /// What its drive has done to flash, if it follows that.
    pub(super) fn flash_counters(&self) -> Option<FlashCounters> {
        self.drive.flash_counters()
    }

    /// Takes in that an admitted command of so many bytes is over, or will never reach the drive.
    #[inline]
    pub(super) fn free_room(&mut self, now: Nanos, bytes: ByteCount) {
        self.at_drive -= 1;
        self.bytes_at_drive = ByteCount(self.bytes_at_drive.0 - bytes.0);
        if self.at_drive == 0 {
            self.busy += now - self.busy_since;
        }
    }

    /// Takes the first command out of the line, whether the drive has room for it or not.
    pub(super) fn pop_line(&mut self, ios: &MemberIos) -> Option<MemberIoId> {
        if self.first == NONE {
            return None;
        }
        let id = self.first;
        self.first = ios.entries[id as usize].next;
        Some(MemberIoId(id))
    }

    /// Whether no command is at the drive, on the way to it, or in the line.
    pub(super) fn is_quiet(&self) -> bool {
        self.at_drive == 0 && self.first == NONE
    }

    /// Forgets the line: whoever asked is gone. What is at the drive or on the way to it goes on.
    pub(super) fn drop_line(&mut self) {
        self.first = NONE;
    }

    /// When the drive next has something to do.
    #[inline]
    pub(super) fn poll_deadline(&self) -> Option<Nanos> {
        self.drive.poll_deadline().map(|at| Nanos(at.0.saturating_sub(self.ahead.0)))
    }

    /// Time until `now` in which the drive had a command.
    pub(super) fn busy_until_now(&self, now: Nanos) -> NanoSpan {
        let running = if self.at_drive > 0 { now - self.busy_since } else { NanoSpan::ZERO };
        self.busy + running
    }
}

/// Where blocks stand on a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) block_size: BlockSize,
    pub(super) metadata_blocks: BlockCount,
}

/// The drive's command for a member I/O: its sectors are 512 bytes, the array's blocks a multiple of that.
#[inline]
fn drive_request(io: &MemberIo, places: Places, life: Life) -> DriveRequest {
    debug_assert!(io.id.0 >> ID_BITS == 0, "more member I/Os in flight than a drive's command can name");
    let sectors_per_block = places.block_size.bytes() / SECTOR_BYTES;
    // The metadata area stands before the data.
    let before = match io.area {
        Area::Data => places.metadata_blocks.0,
        Area::Metadata => 0,
    };
    DriveRequest {
        id: u32::from(life.0) << ID_BITS | io.id.0,
        op: match io.op {
            MemberOp::Read => DriveOp::Read,
            MemberOp::Write { fua } => DriveOp::Write { fua },
            MemberOp::Flush => DriveOp::Flush,
            MemberOp::Discard => DriveOp::Trim,
        },
        start: Sector((before + io.lba.0) * sectors_per_block),
        sectors: SectorCount(io.blocks.0 * sectors_per_block),
    }
}
