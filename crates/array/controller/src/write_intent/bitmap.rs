//! The dirty-region bitmap: marks a region on the devices before the first write in it, and clears it some time after the
//! last.
//!
//! ```text
//!              admit                 written to all devices             no write for a while, members flushed
//!   clear ─────────────► wanted ───────────────────────────► kept ───────────────────────────────────────► clear
//! ```
//! One image is on its way at a time; bits that change meanwhile go with the next one. A bit that is being cleared does
//! not count as kept from the moment the image is made, so that a write to its region marks it again; one that comes
//! before that moment keeps it marked.
//!
//! A region stays marked while it has stripes out of sync. None is cleared while a device is lost, or missing and not known to be: it may
//! come back without what could not be stored on it.

use super::Surroundings;
use crate::api::{MemberOp, TimerId};
use crate::config::{ArrayConfig, MemberCache};
use crate::ids::OpId;
use crate::member_io::{BesideIo, IntentIo, IoOwner, MemberIos};
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::own;
use crate::per_op::PerOp;
use crate::rules::BitmapPlace;
use core::ops::Range;
use raidlab_format::{BITMAP_BYTES, RegionIndex, RegionMap};
use raidlab_units::{BlockCount, ByteCount, MemberIndex, MemberLba, NanoSpan, Nanos, StripeIndex};
use std::collections::VecDeque;

/// The timer for clearing.
pub(crate) const CLEAR_TIMER: TimerId = TimerId(2);

/// A region is cleared when no write came to it for this long, or twice as long (md's default is 5 s).
const CLEAR_AFTER: NanoSpan = NanoSpan::from_secs(5);

/// Where images go, and how.
#[derive(Clone, Copy, Debug)]
struct Rules {
    place: BitmapPlace,
    /// The two slots of each device, which take turns, and their length.
    slots: [MemberLba; 2],
    blocks: BlockCount,
    clear_after: NanoSpan,
    member_cache: MemberCache,
    /// The device that is no member.
    beside: MemberIndex,
}

impl Rules {
    fn of(config: &ArrayConfig) -> Self {
        let (area, block_bytes) = (config.metadata_area(), config.block_size.bytes());
        Self {
            place: config.cache.rules.bitmap_place,
            slots: area.bitmap.map(|slot| MemberLba(slot.offset_bytes / block_bytes)),
            blocks: BlockCount(BITMAP_BYTES as u64 / block_bytes),
            clear_after: config.cache.rules.bitmap_delay.unwrap_or(CLEAR_AFTER),
            member_cache: config.member_cache,
            beside: config.device_beside(),
        }
    }
}

/// How far clearing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Clearing {
    #[default]
    Idle,
    /// Members are being flushed, so that what was written in the regions survives power loss.
    Flushing,
}

/// Whether a device that came has got an image of the bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newcomer {
    None,
    /// Waits for the next image.
    Waits,
    /// The image under way is its first.
    Served,
}

/// The bitmap.
#[derive(Debug)]
pub(crate) struct Bitmap {
    rules: Rules,
    /// Bits that the devices should have.
    wanted: RegionMap,
    /// Bits that all answering devices are known to have.
    kept: RegionMap,
    /// Bits of the image that was sent last.
    sent: RegionMap,
    /// Regions written since the last look.
    touched: RegionMap,
    /// Regions in which stripes are out of sync.
    held: RegionMap,
    /// Operations under way in each region.
    in_flight: Vec<u16>,
    /// Whether an operation is one of these.
    counted: PerOp<bool>,
    /// The devices need another image than the one that was sent last.
    changed: bool,
    /// A device came that has no image yet; the one under way may be older than it.
    newcomer: Newcomer,
    sequence: u64,
    writing: bool,
    pending: u32,
    waiting: VecDeque<OpId>,
    clearing: Clearing,
    flush_pending: u32,
    timer_set: bool,
}

impl Bitmap {
    /// A bitmap at a start; the regions of `marked` are out of sync. Not all devices need have their bits: a crash may have come
    /// between, or the state says that everything is to be resynced. So all get an image where any are marked.
    pub(super) fn new(config: &ArrayConfig, marked: &RegionMap, next_sequence: u64) -> Self {
        Self::with_rules(Rules::of(config), marked, next_sequence)
    }

    /// The same at a start of an array that is made already.
    pub(super) fn start_again(&mut self, marked: &RegionMap, next_sequence: u64) {
        *self = Self::with_rules(self.rules, marked, next_sequence);
    }

    fn with_rules(rules: Rules, marked: &RegionMap, next_sequence: u64) -> Self {
        let clear = marked.cleared();
        Self {
            rules,
            wanted: marked.clone(),
            kept: clear.clone(),
            sent: clear.clone(),
            touched: clear.clone(),
            held: marked.clone(),
            in_flight: vec![0; usize::from(clear.regions())],
            counted: PerOp::new(),
            changed: marked.marked_count() > 0,
            newcomer: Newcomer::None,
            sequence: next_sequence,
            writing: false,
            pending: 0,
            waiting: VecDeque::new(),
            clearing: Clearing::Idle,
            flush_pending: 0,
            timer_set: false,
        }
    }

    /// Sends all devices an image. A crash may have left some with only the image before, in which regions are marked that agree, and
    /// not only while the state was dirty: a resync clears regions, too. A later start without the devices that have the latest image
    /// would take these regions for out of sync.
    pub(super) const fn renew(&mut self) {
        self.changed = true;
    }

    /// Clears regions in which nothing is under way, was written since the last look, or may disagree. Returns true if
    /// others are left that may be cleared later.
    fn clear_idle(&mut self) -> bool {
        let mut left = false;
        let mut next = self.wanted.next_marked(RegionIndex(0));
        while let Some(region) = next {
            let busy = self.in_flight[usize::from(region.0)] > 0 || self.touched.is_marked(region);
            if !busy && !self.held.is_marked(region) {
                self.wanted.clear(region);
                self.changed = true;
            }
            left |= busy;
            next = self.wanted.next_marked(RegionIndex(region.0 + 1));
        }
        left
    }

    /// Takes in that an operation is to write in `stripe`. Returns true if the devices have its region marked; else it stands in
    /// line, and an image is wanted.
    pub(super) fn admit(&mut self, op: OpId, stripe: StripeIndex) -> bool {
        let region = self.wanted.region_of(stripe);
        self.touched.mark(region);
        if self.kept.is_marked(region) {
            // The next image may be about to clear it: one is under way, and it has not been made.
            self.changed |= self.wanted.mark(region);
            self.in_flight[usize::from(region.0)] += 1;
            let was_counted = core::mem::replace(self.counted.of(op), true);
            debug_assert!(!was_counted, "{op:?} writes in one region at a time");
            return true;
        }
        self.changed |= self.wanted.mark(region);
        self.waiting.push_back(op);
        false
    }

    /// Takes in the end of the writes of an operation, if they were admitted.
    pub(super) fn end_write(&mut self, (op, stripe): (OpId, StripeIndex), now: Nanos, outbox: &mut Outbox) {
        if !self.counted.known_mut(op).is_some_and(core::mem::take) {
            return;
        }
        let region = self.wanted.region_of(stripe);
        self.in_flight[usize::from(region.0)] -= 1;
        self.touched.mark(region);
        self.set_clear_timer(now, outbox);
    }

    /// Notes that all stripes of the region of `stripe` agree again.
    pub(crate) fn release(&mut self, stripe: StripeIndex, now: Nanos, outbox: &mut Outbox) {
        let region = self.wanted.region_of(stripe);
        self.held.clear(region);
        self.set_clear_timer(now, outbox);
    }

    /// The stripes of the region that `stripe` is in.
    pub(super) fn region_stripes(&self, stripe: StripeIndex) -> Range<StripeIndex> {
        self.wanted.stripes_of(self.wanted.region_of(stripe))
    }

    /// Notes that a device came that has no image. One is wanted.
    pub(crate) const fn greet_newcomer(&mut self) {
        (self.changed, self.newcomer) = (true, Newcomer::Waits);
    }

    /// True when every device that answers has an image.
    pub(super) fn newcomers_served(&self) -> bool {
        self.newcomer == Newcomer::None
    }

    /// True when the devices have the bits that they should have.
    pub(super) const fn is_quiet(&self) -> bool {
        !self.changed && !self.writing
    }

    /// Operations in line.
    pub(crate) fn line_len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the first out of the line.
    pub(crate) fn next_in_line(&mut self) -> Option<OpId> {
        self.waiting.pop_front()
    }

    /// Clears what is not being written and not held, at once: members were flushed. An image may be wanted.
    pub(crate) fn clear_now(&mut self, metadata: &Metadata) {
        self.touched = self.touched.cleared();
        self.clear_idle_regions(metadata);
    }

    fn set_clear_timer(&mut self, now: Nanos, outbox: &mut Outbox) {
        if !core::mem::replace(&mut self.timer_set, true) {
            outbox.set_timer(CLEAR_TIMER, now + self.rules.clear_after);
        }
    }

    /// Takes in that it is time to look for regions to clear. Returns true if an image may be wanted.
    pub(crate) fn clear_timer_due(&mut self, around: &mut Surroundings<'_>) -> bool {
        self.timer_set = false;
        if self.clearing != Clearing::Idle {
            return false;
        }
        self.clearing = Clearing::Flushing;
        self.flush_pending = 1;
        if self.rules.member_cache == MemberCache::On {
            let Surroundings { metadata, ios, outbox, .. } = around;
            let owner = IoOwner::Intent(IntentIo::BitmapFlush);
            self.flush_pending += ios.flush_all(metadata.answering(), owner, outbox);
        }
        self.flush_done(around)
    }

    /// Takes in the end of one member flush before clearing. Returns true if an image may be wanted.
    pub(crate) fn flush_done(&mut self, around: &mut Surroundings<'_>) -> bool {
        self.flush_pending -= 1;
        if self.flush_pending > 0 {
            return false;
        }
        self.clearing = Clearing::Idle;
        let left = !self.clear_idle_regions(around.metadata);
        self.touched = self.touched.cleared();
        if left {
            self.set_clear_timer(around.now, around.outbox);
        }
        true
    }

    /// Clears regions that are idle; none that a device may need which the devices take for one in sync although it is
    /// missing or lost. Returns false if others may be cleared later.
    fn clear_idle_regions(&mut self, metadata: &Metadata) -> bool {
        metadata.is_frozen() || (metadata.is_kept() && !self.clear_idle())
    }

    /// Sends the devices an image if they need one and none is under way. Returns true if that has ended already, because no
    /// device is there: see [`Bitmap::image_done`].
    pub(crate) fn send(&mut self, around: &mut Surroundings<'_>) -> bool {
        if self.writing || !self.changed {
            return false;
        }
        let Surroundings { metadata, own, ios, outbox, .. } = around;
        let image = own::BITMAP_AT..own::BITMAP_AT + BITMAP_BYTES;
        self.make_image(metadata, &mut own.bytes_mut()[image]);
        if self.rules.place == BitmapPlace::Beside {
            self.pending += 1;
            let (write, length) = (MemberOp::Write { fua: false }, ByteCount(BITMAP_BYTES as u64));
            ios.begin_beside(BesideIo::Bitmap, self.rules.beside, write, (ByteCount(0), length), outbox);
            return self.image_done();
        }
        let is_cached = self.rules.member_cache == MemberCache::On;
        let preflushes = self.rules.place == BitmapPlace::MembersFlushed && is_cached;
        for device in metadata.answering() {
            self.pending += 1;
            if preflushes {
                ios.flush(device, IoOwner::Intent(IntentIo::BitmapPreflush), outbox);
            } else {
                self.write_image(device, ios, outbox);
            }
        }
        self.image_done()
    }

    fn make_image(&mut self, metadata: &Metadata, out: &mut [u8]) {
        self.wanted.encode(metadata.array_uuid(), self.sequence, out);
        self.sequence += 1;
        if self.newcomer == Newcomer::Waits {
            self.newcomer = Newcomer::Served;
        }
        (self.changed, self.writing, self.pending) = (false, true, 1);
        // What is being cleared must be marked anew from here on.
        self.sent.clone_from(&self.wanted);
        self.kept.keep_only(&self.wanted);
    }

    /// Writes the image that was made last to a device.
    pub(crate) fn write_image(&self, device: MemberIndex, ios: &mut MemberIos, outbox: &mut Outbox) {
        let slot = self.rules.slots[((self.sequence - 1) % 2) as usize];
        ios.write_metadata(device, slot, self.rules.blocks, IoOwner::Intent(IntentIo::Bitmap), outbox);
    }

    /// Takes in the end of one write of the image. Returns true after the last: those in line ask again, and another image
    /// may be wanted.
    pub(crate) fn image_done(&mut self) -> bool {
        self.pending -= 1;
        if self.pending > 0 {
            return false;
        }
        self.writing = false;
        if self.newcomer == Newcomer::Served {
            self.newcomer = Newcomer::None;
        }
        self.kept.clone_from(&self.sent);
        self.kept.keep_only(&self.wanted);
        true
    }
}
