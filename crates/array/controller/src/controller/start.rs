//! Routes: what a start and a stop ask for, phase by phase.

use crate::api::{Notice, RecordedWrites};
use crate::config::{ArrayConfig, MemberCache};
use crate::controller::Controller;
use crate::ids::LockKey;
use crate::member_io::IoOwner;
use crate::own;
use crate::start::{Start, StartError, StartStep, Surroundings, check_geometry};
use crate::stop::StopStep;
use raidlab_format::{Assembly, LogPlace, NvramVerdict, STATE_BYTES, StartNonce};
use raidlab_units::StripeIndex;

impl Controller {
    /// Starts an array from what [`raidlab_format::assemble`] made of its devices. Device `d` of the controller is candidate
    /// `assembly.present[d]`; devices that are not there must not be reported as added before they are. `nonce` is drawn for this
    /// start.
    ///
    /// Host requests may be made at once; they are served from [`Notice::Serving`] on.
    ///
    /// # Errors
    /// [`StartError`] when the configuration is not this array's, or too many devices are absent.
    pub fn start(
        config: &ArrayConfig,
        mut assembly: Assembly,
        nonce: StartNonce,
    ) -> Result<Self, StartError> {
        let mut controller = Self::new(config)?;
        controller.cache.check_directory(&controller.geometry, &mut assembly.nvram_entries)?;
        check_geometry(&assembly.state.geometry, &config.geometry(assembly.state.geometry.array_uuid))?;
        let Self { metadata, geometry, .. } = &mut controller;
        let beyond = |absent| StartError::BeyondRedundancy { absent };
        let absent = metadata.take_devices(geometry, &assembly).map_err(beyond)?;
        let kept_is_lost = assembly.state.relies_on_nvram() && assembly.kept != NvramVerdict::Used;
        // With these bytes the devices already agree, but for the nonce, or are made to; see below.
        assembly.state.note_found_by(nonce);
        assembly.state.encode(&mut controller.own.bytes_mut()[own::STATE_AT..own::STATE_AT + STATE_BYTES]);
        let mut state = assembly.state;
        // Logs and bitmaps that were not looked at, as that of a device that is being rebuilt, may have any number up to this jump.
        // It is even, so that images go on alternating.
        let next_sequence = assembly.next_log_sequence.max(state.log_tail) + (1 << 32);
        let next_image = assembly.next_bitmap_sequence + (1 << 32);
        controller.write_intent.start_again(&assembly.out_of_sync, next_image, next_sequence);
        let whole = assembly.out_of_sync.marked_count() == u32::from(assembly.out_of_sync.regions());
        state.needs_resync |= whole && !assembly.write_hole_accepted;
        state.log_place = LogPlace::Members;
        (state.start, state.found_by) = (nonce, Vec::new());
        controller.metadata.take_superblock(state);
        if !assembly.write_hole_accepted {
            controller.mark_regions_out_of_sync(&assembly.out_of_sync);
        }
        controller.start = Start::begin(assembly.records, assembly.nvram_entries);
        controller.scan.hold();
        if assembly.kept != NvramVerdict::Used {
            controller.cache.note_no_incarnation();
        }
        if kept_is_lost {
            controller.outbox.notify(Notice::NvramLost);
        }
        for device in absent {
            controller.outbox.notify(Notice::MemberFailed { member: device });
        }
        let sequence = assembly.next_written_sequence;
        controller.written.start_again(assembly.written, sequence, assembly.may_be_unrecorded);
        if controller.written.recorded() == RecordedWrites::Lost {
            controller.outbox.notify(Notice::WrittenMapLost);
        }
        controller.send_found_superblock();
        controller.pump_bitmap();
        controller.metadata.change();
        controller.pump();
        Ok(controller)
    }

    /// True when the array has finished starting and serves the host.
    pub fn is_serving(&self) -> bool {
        self.start.is_serving()
    }

    /// Moves a start on. Returns true if it came to another phase.
    #[inline]
    pub(super) fn pump_start(&mut self) -> bool {
        if self.start.is_serving() {
            return false;
        }
        let before = self.start.phase();
        self.move_start_on();
        self.start.phase() != before
    }

    #[inline(never)]
    fn move_start_on(&mut self) {
        loop {
            let is_held = |stripe: StripeIndex| self.stripe_locks.is_held(LockKey::of_stripe(stripe));
            let is_replaying =
                self.write_intent.is_replaying() || self.start.resynced_stripe().is_some_and(is_held);
            let Self { start, metadata, cache, .. } = self;
            match start.next(&mut Surroundings { metadata, cache, is_replaying }) {
                StartStep::Wait => return,
                StartStep::WriteSuperblock => {
                    self.pump_superblock();
                    return;
                }
                StartStep::Replay(record) => self.begin_replay(record),
                StartStep::Flush => {
                    let flushes = self.flush_if_cached(IoOwner::StartFlush);
                    self.start.begin_flushes(flushes);
                }
                StartStep::Restore(entries) => {
                    self.restore_nvram(entries.into_iter()).expect("checked when the start began");
                    self.pump_destage();
                }
                StartStep::Label => self.begin_nvram_incarnation(),
                StartStep::Serve => self.begin_serving(),
            }
        }
    }

    /// Takes in that the label of NVRAM is written.
    pub(super) fn label_written(&mut self) {
        self.cache.end_label();
        if self.start.label_written(&mut self.metadata) {
            self.move_start_on();
        }
    }

    fn begin_serving(&mut self) {
        self.outbox.notify(Notice::Serving);
        self.written.settle_from_now_on();
        self.check_log_place();
        // A stop that was asked for meanwhile holds them.
        self.scan.release(self.stop.is_asked());
        self.scan.note_recovery();
        while let Some(request) = self.start.next_waiting() {
            self.begin_request(request);
        }
    }

    /// Makes durable what the members have completed, where they have volatile caches. Returns how many flushes that takes.
    fn flush_if_cached(&mut self, owner: IoOwner) -> u32 {
        if self.config.member_cache == MemberCache::On { self.flush_members(owner) } else { 0 }
    }

    /// Stops the array cleanly. The host must have no request in flight and make none until [`Notice::Stopped`].
    pub(super) fn begin_stop(&mut self) {
        self.stop.begin();
        self.scan.hold();
        self.cache.destage_all();
    }

    /// Puts a stopped array in use again.
    pub(super) fn end_stop(&mut self) {
        if self.stop.end() {
            self.scan.release(false);
        }
    }

    /// Moves a stop on.
    #[inline]
    pub(super) fn pump_stop(&mut self) {
        if self.stop.is_under_way() {
            self.move_stop_on();
        }
    }

    #[inline(never)]
    fn move_stop_on(&mut self) {
        loop {
            let is_settled = self.metadata.is_kept() || self.metadata.is_frozen();
            match self.stop.next(self.is_drained(), is_settled) {
                StopStep::Wait => return,
                StopStep::Flush => {
                    self.metadata.note_stopping();
                    let flushes = self.flush_if_cached(IoOwner::StopFlush);
                    self.stop.begin_flushes(flushes);
                    self.pump_superblock();
                }
                StopStep::ClearBitmap => self.clear_bitmap(),
                StopStep::Clean => {
                    let is_frozen = self.metadata.is_frozen();
                    if !(is_frozen || (self.drain_log() && self.write_intent.bitmap_is_quiet())) {
                        return;
                    }
                    self.metadata.mark_clean();
                    self.stop.keep();
                    self.pump_superblock();
                }
                StopStep::Tell => {
                    self.cancel_drain();
                    self.outbox.notify(Notice::Stopped);
                }
            }
        }
    }

    /// True when nothing is under way that would write to the members.
    fn is_drained(&self) -> bool {
        self.start.is_idle()
            && self.cache.dirty_count() == 0
            && self.stripe_locks.is_empty()
            && self.scan.is_idle()
            && self.written.is_idle()
    }
}
