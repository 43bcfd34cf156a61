//! Write intent: what is written down before an operation changes redundancy in place, so that a crash in between can be put
//! right.
//!
//! ```text
//!   computed ─► admit ─► array known dirty? ─► Flag: go
//!                                            ─► Bitmap: region marked? ─────────────► go
//!                                            ─► Log: record on parities + 1 devices ─► go ─► applied ─► retired
//! ```
//! An operation that must wait keeps its stripe lock and its staging. Levels without redundancy write nothing down. The controller
//! decides which operations need not wait (`controller/write_intent.rs`), and lets go on those that are handed back here.
//!
//! Invariant: an operation is in one line at a time. What is kept of it (its region, its record, its unit of a write log) each part keeps
//! by its number. Left out: what operations do, and writes of data.
//!
//! Source of the two methods: Linux md's write-intent bitmap (drivers/md/md-bitmap.c) and its journal (raid5-cache.c);
//! the log here is replicated on the members instead of standing on a device of its own.

mod bitmap;
mod log;
mod replay;
#[cfg(test)]
mod tests;
mod write_log;

pub(crate) use bitmap::{Bitmap, CLEAR_TIMER};
pub(crate) use log::Log;
pub(crate) use replay::{Compared, Replay, ReplayStep};
pub(crate) use write_log::WriteLog;

use crate::api::Segment;
use crate::config::ArrayConfig;
use crate::geometry::Geometry;
use crate::ids::OpId;
use crate::member_io::{IntentIo, MemberIos};
use crate::memory_task::MemoryTasks;
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::own::{self, OwnMemory, own_buffer};
use crate::stripe_engine::StripeOp;
use crate::table::Slab;
use core::ops::Range;
use raidlab_format::{LogPlace, MetadataPolicy, RegionMap};
use raidlab_raid::Layout;
use raidlab_units::{ByteCount, Nanos, StripeCount, StripeIndex};

/// What write intent looks at of the rest of the controller, and where it asks for I/Os and memory work.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Nanos,
    pub(crate) geometry: &'a Geometry,
    pub(crate) metadata: &'a Metadata,
    pub(crate) ops: &'a Slab<StripeOp, OpId>,
    pub(crate) own: &'a mut OwnMemory,
    pub(crate) ios: &'a mut MemberIos,
    pub(crate) tasks: &'a mut MemoryTasks,
    pub(crate) outbox: &'a mut Outbox,
    /// Where the log's records should go now.
    pub(crate) log_place: LogPlace,
    /// The second controller is there.
    pub(crate) has_peer: bool,
}

/// Whether an operation may write in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// It is in line for an image of the bitmap, which may have to be sent.
    WithImage,
    /// It is in line for a record, the first there.
    WithRecord,
    /// It is in line for a record, behind others.
    BehindOthers,
}

/// What is written down, by the level and the configured policy.
#[derive(Debug)]
enum Policy {
    /// Nothing: no redundancy, or nothing is kept on the devices.
    Nothing,
    /// That the array is in use.
    Flag,
    /// Which regions are being written.
    Bitmap(Box<Bitmap>),
    /// What is being written.
    Log(Box<Log>),
}

/// What is written down, and how far that is.
#[derive(Debug)]
pub(crate) struct WriteIntent {
    policy: Policy,
    replay: Replay,
    /// Where changes of stripes are written down first, in arrays that are simulated.
    write_log: Option<WriteLog>,
}

impl WriteIntent {
    /// The write intent of an array that was never started.
    pub(crate) fn new(config: &ArrayConfig, layout: &dyn Layout) -> Self {
        Self {
            policy: Policy::of(config, layout),
            replay: Replay::new(config),
            write_log: WriteLog::of(config),
        }
    }

    /// Goes on from what a start has found: the regions that are out of sync, and the numbers of the next image and record.
    pub(crate) fn start_again(&mut self, marked: &RegionMap, next_image: u64, next_record: u64) {
        match &mut self.policy {
            Policy::Nothing | Policy::Flag => {}
            Policy::Bitmap(bitmap) => {
                bitmap.start_again(marked, next_image);
                bitmap.renew();
            }
            Policy::Log(log) => log.start_again(next_record),
        }
    }

    /// True if nothing is written down, whatever changes.
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self.policy, Policy::Nothing)
    }

    /// Lets an operation write in place, or puts it in line. The devices know that the array is in use.
    pub(crate) fn admit(&mut self, id: OpId, stripe: StripeIndex) -> Admission {
        match &mut self.policy {
            Policy::Nothing | Policy::Flag => Admission::Now,
            Policy::Bitmap(bitmap) => {
                if bitmap.admit(id, stripe) {
                    Admission::Now
                } else {
                    Admission::WithImage
                }
            }
            Policy::Log(log) => log.admit(id),
        }
    }

    /// Takes in that an operation's writes in place have ended; `stored` unless a device that is lost may need what was written
    /// down. Returns true if there may be room for records.
    pub(crate) fn end_write(
        &mut self,
        (id, stripe): (OpId, StripeIndex),
        stored: bool,
        (now, metadata, outbox): (Nanos, &Metadata, &mut Outbox),
    ) -> bool {
        match &mut self.policy {
            Policy::Nothing | Policy::Flag => false,
            Policy::Bitmap(bitmap) => {
                bitmap.end_write((id, stripe), now, outbox);
                false
            }
            Policy::Log(log) => log.end_write(id, stored, metadata),
        }
    }

    /// Lists where the bytes of an I/O lie.
    pub(crate) fn segments(
        &self,
        io: IntentIo,
        rows: u32,
        (geometry, ops, own): (&Geometry, &Slab<StripeOp, OpId>, &OwnMemory),
        out: &mut Vec<Segment>,
    ) {
        match io {
            IntentIo::BitmapFlush | IntentIo::BitmapPreflush | IntentIo::LogFlush => {}
            IntentIo::Bitmap => {
                let bytes = u64::from(rows) * geometry.block_bytes();
                out.push(Segment { buffer: own_buffer(own::BITMAP_AT), bytes });
            }
            IntentIo::Records { first } => {
                self.log_ref().expect("it is the log's I/O").batch_segments(first, geometry, (ops, own), out);
            }
            IntentIo::ReplayHeader | IntentIo::ReplayHeaderCopy => out.push(self.replay.header_segment(own)),
            IntentIo::ReplayPayloadCopy => self.replay.payload_segments(geometry, out),
            IntentIo::ReplayRead { run } => out.push(self.replay.segment(geometry, run, (0, rows))),
            IntentIo::ReplayCheck { run, skipped } | IntentIo::ReplayWrite { run, skipped } => {
                out.push(self.replay.segment(geometry, run, (skipped, rows)));
            }
        }
    }

    /// True where changes are written down in a write log first.
    #[inline]
    pub(crate) const fn has_write_log(&self) -> bool {
        self.write_log.is_some()
    }

    // Its parts.

    /// The bitmap; none where there is none.
    pub(crate) fn bitmap(&mut self) -> Option<&mut Bitmap> {
        if let Policy::Bitmap(bitmap) = &mut self.policy { Some(bitmap) } else { None }
    }

    /// The log; none where there is none.
    pub(crate) fn log(&mut self) -> Option<&mut Log> {
        if let Policy::Log(log) = &mut self.policy { Some(log) } else { None }
    }

    /// The replay of records.
    pub(crate) const fn replay(&mut self) -> &mut Replay {
        &mut self.replay
    }

    /// The write log; none where there is none.
    #[inline]
    pub(crate) const fn write_log(&mut self) -> Option<&mut WriteLog> {
        self.write_log.as_mut()
    }

    // What the others ask.

    /// The replay of records.
    pub(crate) const fn replay_ref(&self) -> &Replay {
        &self.replay
    }

    /// True while the last copy of a record is read: what it does not have is lost.
    pub(crate) fn is_at_last_copy(&self) -> bool {
        self.replay.is_at_last_copy()
    }

    fn bitmap_ref(&self) -> Option<&Bitmap> {
        if let Policy::Bitmap(bitmap) = &self.policy { Some(bitmap) } else { None }
    }

    fn log_ref(&self) -> Option<&Log> {
        if let Policy::Log(log) = &self.policy { Some(log) } else { None }
    }

    /// The stripes of the bitmap's region that `stripe` is in: that one where there are no regions.
    pub(crate) fn region_stripes(&self, stripe: StripeIndex) -> Range<StripeIndex> {
        let one = || stripe..StripeIndex(stripe.0 + 1);
        self.bitmap_ref().map_or_else(one, |bitmap| bitmap.region_stripes(stripe))
    }

    /// True when every device that answers has an image of the bitmap.
    pub(crate) fn newcomers_served(&self) -> bool {
        self.bitmap_ref().is_none_or(Bitmap::newcomers_served)
    }

    /// True when the devices have the bits that they should have.
    pub(crate) fn bitmap_is_quiet(&self) -> bool {
        self.bitmap_ref().is_none_or(Bitmap::is_quiet)
    }

    /// Where records of the log go; none where there is no log.
    pub(crate) fn log_place(&self) -> Option<LogPlace> {
        self.log_ref().map(Log::place)
    }

    /// True if a crash might let an older record of the stripe be written again.
    pub(crate) fn may_be_replayed(&self, stripe: StripeIndex) -> bool {
        self.log_ref().is_some_and(|log| log.may_be_replayed(stripe))
    }

    /// True when a second controller that takes over finds every record that its start may need. `old_are_done` unless this
    /// start has found some in NVRAM that the next may need, too.
    pub(crate) fn log_is_mirrored(&self, old_are_done: bool) -> bool {
        self.log_ref().is_none_or(|log| old_are_done && log.is_mirrored())
    }

    /// True while a record is being written again.
    pub(crate) const fn is_replaying(&self) -> bool {
        self.replay.is_busy()
    }

    /// Bytes that a write log takes of each member.
    pub(crate) fn write_log_bytes(&self) -> ByteCount {
        ByteCount(self.write_log.as_ref().map_or(0, WriteLog::member_bytes))
    }
}

impl Policy {
    fn of(config: &ArrayConfig, layout: &dyn Layout) -> Self {
        let shape = layout.shape();
        let has_bitmap = match config.resilience.metadata {
            MetadataPolicy::None => return Self::Nothing,
            _ if shape.parities == 0 && shape.copies == 1 && !config.resilience.integrity => {
                return Self::Nothing;
            }
            MetadataPolicy::Resync => return Self::Flag,
            MetadataPolicy::Bitmap => true,
            // Mirrors have no write hole.
            MetadataPolicy::Log => shape.parities == 0,
        };
        if !has_bitmap {
            return Self::Log(Box::new(Log::new(config)));
        }
        let chunk = config.cache.rules.bitmap_chunk.unwrap_or(ByteCount::ZERO);
        let regions_of = StripeCount(chunk.0 / config.block_size.bytes_of(shape.strip_blocks).0);
        let regions = RegionMap::with_regions_of(layout.stripe_count(), regions_of);
        Self::Bitmap(Box::new(Bitmap::new(config, &regions, 1)))
    }
}
