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
//! A region stays marked while it has unsynced stripes. None is cleared while a device is lost, or missing and not known to be: it may
//! come back without what could not be stored on it.

use crate::api::{MemberError, MemberOp, TimerId};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::intent::Intent;
use crate::member_io::{BesideIo, IntentIo, IoOwner};
use crate::own;
use crate::rules::BitmapPlace;
use raidlab_format::{BITMAP_BYTES, RegionIndex, RegionMap};
use raidlab_units::{BlockCount, ByteCount, MemberIndex, MemberLba, NanoSpan, StripeIndex};
use std::collections::VecDeque;

/// The timer for clearing.
pub(crate) const CLEAR_TIMER: TimerId = TimerId(2);

/// A region is cleared when no write came to it for this long, or twice as long (md's default is 5 s).
const CLEAR_AFTER: NanoSpan = NanoSpan::from_secs(5);

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
    /// Bits that the devices should have.
    wanted: RegionMap,
    /// Bits that all answering devices are known to have.
    kept: RegionMap,
    /// Bits of the image that was sent last.
    sent: RegionMap,
    /// Regions written since the last look.
    touched: RegionMap,
    /// Regions in which stripes are unsynced.
    held: RegionMap,
    /// Operations under way in each region.
    in_flight: Vec<u16>,
    /// The devices need another image than the one that was sent last.
    changed: bool,
    /// A device came that has no image yet; the one under way may be older than it.
    newcomer: Newcomer,
    sequence: u64,
    writing: bool,
    pending: u32,
    waiting: VecDeque<u32>,
    clearing: Clearing,
    flush_pending: u32,
    timer_set: bool,
}

impl Bitmap {
    /// A bitmap at a start; the regions of `marked` are unsynced. Not all devices need have their bits: a crash may have come
    /// between, or the state says that everything is to be resynced. So all get an image where any are marked.
    pub(crate) fn new(marked: &RegionMap, next_sequence: u64) -> Self {
        let clear = marked.cleared();
        Self {
            wanted: marked.clone(),
            kept: clear.clone(),
            sent: clear.clone(),
            touched: clear.clone(),
            held: marked.clone(),
            in_flight: vec![0; usize::from(clear.regions())],
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
    pub(crate) const fn renew(&mut self) {
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
}

impl Controller {
    fn bitmap(&mut self) -> &mut Bitmap {
        let Intent::Bitmap(bitmap) = &mut self.intent else {
            unreachable!("asked only where there is a bitmap")
        };
        bitmap
    }

    pub(crate) fn admit_by_bitmap(&mut self, id: u32) {
        let stripe = self.ops[id].stripe;
        let bitmap = self.bitmap();
        let region = bitmap.wanted.region_of(stripe);
        bitmap.touched.mark(region);
        if bitmap.kept.is_marked(region) {
            // The next image may be about to clear it: one is under way, and it has not been made.
            bitmap.changed |= bitmap.wanted.mark(region);
            bitmap.in_flight[usize::from(region.0)] += 1;
            self.ops[id].noted = true;
            return self.start_writes(id);
        }
        bitmap.changed |= bitmap.wanted.mark(region);
        bitmap.waiting.push_back(id);
        self.pump_bitmap();
    }

    pub(crate) fn end_bitmap_write(&mut self, id: u32) {
        if !core::mem::take(&mut self.ops[id].noted) {
            return;
        }
        let stripe = self.ops[id].stripe;
        let bitmap = self.bitmap();
        let region = bitmap.wanted.region_of(stripe);
        bitmap.in_flight[usize::from(region.0)] -= 1;
        bitmap.touched.mark(region);
        self.set_clear_timer();
    }

    /// Notes that all stripes of the region of `stripe` agree again.
    pub(crate) fn release_region(&mut self, stripe: StripeIndex) {
        if let Intent::Bitmap(bitmap) = &mut self.intent {
            let region = bitmap.wanted.region_of(stripe);
            bitmap.held.clear(region);
            self.set_clear_timer();
        }
    }

    /// The stripes of the region that `stripe` is in.
    pub(crate) fn region_stripes(&self, stripe: StripeIndex) -> core::ops::Range<StripeIndex> {
        match &self.intent {
            Intent::Bitmap(bitmap) => bitmap.wanted.stripes_of(bitmap.wanted.region_of(stripe)),
            _ => stripe..StripeIndex(stripe.0 + 1),
        }
    }

    /// Notes that a device came that has no image of the bitmap.
    pub(crate) fn greet_newcomer(&mut self) {
        if let Intent::Bitmap(bitmap) = &mut self.intent {
            (bitmap.changed, bitmap.newcomer) = (true, Newcomer::Waits);
            self.pump_bitmap();
        }
    }

    /// True when every device that answers has an image of the bitmap.
    pub(crate) fn newcomers_served(&self) -> bool {
        !matches!(&self.intent, Intent::Bitmap(bitmap) if bitmap.newcomer != Newcomer::None)
    }

    /// Clears what is not being written and not held, at once: members were flushed.
    pub(crate) fn clear_bitmap(&mut self) {
        let Intent::Bitmap(bitmap) = &mut self.intent else { return };
        bitmap.touched = bitmap.touched.cleared();
        self.clear_idle_regions();
        self.pump_bitmap();
    }

    /// True when the devices have the bits that they should have.
    pub(crate) fn bitmap_is_quiet(&self) -> bool {
        !matches!(&self.intent, Intent::Bitmap(bitmap) if bitmap.changed || bitmap.writing)
    }

    fn set_clear_timer(&mut self) {
        let (now, delay) = (self.now, self.config.cache.rules.bitmap_delay);
        let bitmap = self.bitmap();
        if !core::mem::replace(&mut bitmap.timer_set, true) {
            let at = now + delay.unwrap_or(CLEAR_AFTER);
            self.outbox.set_timer(CLEAR_TIMER, at);
        }
    }

    /// Takes in that it is time to look for regions to clear.
    pub(crate) fn clear_timer_due(&mut self) {
        let Intent::Bitmap(bitmap) = &mut self.intent else { return };
        bitmap.timer_set = false;
        if bitmap.clearing != Clearing::Idle {
            return;
        }
        bitmap.clearing = Clearing::Flushing;
        bitmap.flush_pending = 1;
        if self.config.member_cache == MemberCache::On {
            let flushes = self.flush_members(IoOwner::Intent(IntentIo::BitmapFlush));
            self.bitmap().flush_pending += flushes;
        }
        self.bitmap_flush_done();
    }

    /// Takes in the end of one member flush before clearing.
    pub(crate) fn bitmap_flush_done(&mut self) {
        let bitmap = self.bitmap();
        bitmap.flush_pending -= 1;
        if bitmap.flush_pending > 0 {
            return;
        }
        bitmap.clearing = Clearing::Idle;
        let left = !self.clear_idle_regions();
        let bitmap = self.bitmap();
        bitmap.touched = bitmap.touched.cleared();
        if left {
            self.set_clear_timer();
        }
        self.pump_bitmap();
    }

    /// Clears regions that are idle; none that a device may need which the devices take for one in sync although it is
    /// missing or lost. Returns false if others may be cleared later.
    fn clear_idle_regions(&mut self) -> bool {
        if self.metadata.is_frozen() {
            return true;
        }
        self.metadata.is_kept() && !self.bitmap().clear_idle()
    }

    /// Sends the bits to the devices if they have changed.
    pub(crate) fn pump_bitmap(&mut self) {
        let Intent::Bitmap(bitmap) = &mut self.intent else { return };
        if bitmap.writing || !bitmap.changed {
            return;
        }
        let array_uuid = self.metadata.array_uuid();
        let image = own::BITMAP_AT..own::BITMAP_AT + BITMAP_BYTES;
        bitmap.wanted.encode(array_uuid, bitmap.sequence, &mut self.own.bytes_mut()[image]);
        bitmap.sequence += 1;
        if bitmap.newcomer == Newcomer::Waits {
            bitmap.newcomer = Newcomer::Served;
        }
        (bitmap.changed, bitmap.writing, bitmap.pending) = (false, true, 1);
        // What is being cleared must be marked anew from here on.
        bitmap.sent.clone_from(&bitmap.wanted);
        bitmap.kept.keep_only(&bitmap.wanted);
        let mut devices = core::mem::take(&mut self.member_scratch);
        devices.clear();
        devices.extend(self.metadata.answering());
        let place = self.config.cache.rules.bitmap_place;
        if place == BitmapPlace::Beside {
            devices.clear();
            self.bitmap().pending += 1;
            let (device, write) = (self.device_beside(), MemberOp::Write { fua: false });
            self.beside_io(device, write, ByteCount(0), ByteCount(BITMAP_BYTES as u64), BesideIo::Bitmap);
        }
        let preflushes = place == BitmapPlace::MembersFlushed && self.config.member_cache == MemberCache::On;
        self.bitmap().pending += devices.len() as u32;
        for &device in &devices {
            if preflushes {
                self.member_flush(device, IoOwner::Intent(IntentIo::BitmapPreflush));
            } else {
                self.write_bitmap_image(device);
            }
        }
        self.member_scratch = devices;
        self.end_bitmap_image();
    }

    /// Writes the image that was made last to a device.
    fn write_bitmap_image(&mut self, device: MemberIndex) {
        let block_bytes = self.config.block_size.bytes();
        let sequence = self.bitmap().sequence - 1;
        let slot = self.area.bitmap[(sequence % 2) as usize].offset_bytes / block_bytes;
        let blocks = BlockCount(BITMAP_BYTES as u64 / block_bytes);
        self.metadata_write(device, MemberLba(slot), blocks, IoOwner::Intent(IntentIo::Bitmap));
    }

    /// Takes in the end of the flush of a member before the bitmap is written there.
    pub(crate) fn bitmap_preflushed(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            return self.bitmap_image_done(device, result);
        }
        self.write_bitmap_image(device);
    }

    /// Takes in the end of one write of the bitmap.
    pub(crate) fn bitmap_image_done(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.fail_member(device);
        }
        self.end_bitmap_image();
    }

    pub(crate) fn end_bitmap_image(&mut self) {
        let bitmap = self.bitmap();
        bitmap.pending -= 1;
        if bitmap.pending > 0 {
            return;
        }
        bitmap.writing = false;
        if bitmap.newcomer == Newcomer::Served {
            bitmap.newcomer = Newcomer::None;
        }
        bitmap.kept.clone_from(&bitmap.sent);
        bitmap.kept.keep_only(&bitmap.wanted);
        for _ in 0..self.bitmap().waiting.len() {
            // Where no device is left, the next image ends at once and lets all go on.
            let Some(id) = self.bitmap().waiting.pop_front() else { break };
            // A device that was lost meanwhile lacks the image, and may be the only one that the next start asks.
            self.admit(id);
        }
        self.pump_bitmap();
    }
}
