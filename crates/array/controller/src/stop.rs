//! A clean stop: everything reaches the members, and the devices know that they agree.
//!
//! ```text
//! Draining ─► Flushing ─► Clearing ─► Keeping ─► Stopped
//!  cache,      members     log and     state says
//!  requests    if cached   bitmap      "not dirty"
//! ```
//! An array that is stopped while stripes are out of sync keeps saying so. A host request after the stop puts the array in
//! use again.

use crate::api::Notice;
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::member_io::IoOwner;

/// How far a stop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    NotAsked,
    Draining,
    /// Waits for so many member flushes.
    Flushing(u32),
    Clearing,
    Keeping,
    Stopped,
}

impl Controller {
    /// Stops the array cleanly. The host must have no request in flight and make none until [`Notice::Stopped`].
    pub(crate) fn begin_stop(&mut self) {
        self.stop = Stop::Draining;
        self.scan.hold();
        self.cache.destage_all();
    }

    /// Puts a stopped array in use again.
    pub(crate) fn end_stop(&mut self) {
        if core::mem::take(&mut self.stop) != Stop::NotAsked {
            self.scan.release(false);
        }
    }

    /// Moves a stop on.
    #[inline]
    pub(crate) fn pump_stop(&mut self) {
        if !matches!(self.stop, Stop::NotAsked | Stop::Stopped) {
            self.move_stop_on();
        }
    }

    #[inline(never)]
    fn move_stop_on(&mut self) {
        loop {
            let stop = self.stop;
            match stop {
                Stop::NotAsked | Stop::Stopped => return,
                Stop::Draining if !self.is_drained() => return,
                Stop::Draining => self.flush_to_stop(),
                Stop::Flushing(pending) if pending > 0 => return,
                Stop::Flushing(_) | Stop::Keeping
                    if !self.metadata.is_kept() && !self.metadata.is_frozen() =>
                {
                    return;
                }
                Stop::Flushing(_) => {
                    self.clear_bitmap();
                    self.stop = Stop::Clearing;
                }
                Stop::Clearing
                    if !(self.metadata.is_frozen()
                        || (self.drain_log() && self.write_intent.bitmap_is_quiet())) =>
                {
                    return;
                }
                Stop::Clearing => {
                    self.metadata.mark_clean();
                    self.stop = Stop::Keeping;
                    self.pump_superblock();
                }
                Stop::Keeping => {
                    self.stop = Stop::Stopped;
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
    }

    fn flush_to_stop(&mut self) {
        let is_cached = self.config.member_cache == MemberCache::On;
        let pending = if is_cached { self.flush_members(IoOwner::StopFlush) } else { 0 };
        self.stop = Stop::Flushing(pending);
    }

    /// Takes in the end of a member flush of a stop.
    pub(crate) fn stop_flush_done(&mut self) {
        let Stop::Flushing(pending) = &mut self.stop else {
            unreachable!("flushes are counted in this phase")
        };
        *pending -= 1;
    }
}
