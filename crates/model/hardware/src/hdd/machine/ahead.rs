//! Reading ahead: the arm's work when it is idle.

use super::HardDrive;
use crate::drive::{Sector, SectorCount};
use crate::hdd::geometry::{Around, Place};
use crate::hdd::model::{AheadLimits, AheadReach, ReadAhead};
use crate::hdd::schedule::ArmPosition;
use raidlab_units::Nanos;

/// The arm reads on into a segment, having nothing else to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) segment: usize,
    /// The sector it went on from, and where that is.
    from: u64,
    place: Place,
    /// When that sector passes.
    pub(super) since: Nanos,
    /// First sector that it does not read, and the turns until all before it have passed.
    pub(super) limit: u64,
    limit_turns: u64,
}

impl HardDrive {
    /// Up to which sector the drive reads ahead after a read of `start..end`, if it does.
    pub(super) fn ahead_limit(&self, segment: usize, end: u64) -> Option<u64> {
        let limit = match self.fixed.read_ahead {
            ReadAhead::Off => return None,
            ReadAhead::Stream => end + self.segments.segment_sectors(),
            ReadAhead::Limited(limits) => self.limited(&limits, segment, end),
        };
        Some(limit.min(self.fixed.capacity))
    }

    fn limited(&self, limits: &AheadLimits, segment: usize, end: u64) -> u64 {
        let last = Sector(end - 1);
        let reach = match limits.reach {
            AheadReach::Track => self.fixed.geometry.end_around(last, Around::Track),
            AheadReach::Cylinder => self.fixed.geometry.end_around(last, Around::Cylinder),
            AheadReach::Segment => u64::MAX,
            AheadReach::NextTrack => return self.next_track_limit(segment, end),
        };
        let kept = if limits.keep_request {
            self.segments.start_of(segment) + self.segments.segment_sectors()
        } else {
            u64::MAX
        };
        reach.min(end + limits.sectors_max).min(kept)
    }

    /// The end of the track with the first sector after a read that ends at `end`. If the segment began on an earlier track
    /// the host reads on and on: then the end of the track after it, as far as the segment has room.
    fn next_track_limit(&self, segment: usize, end: u64) -> u64 {
        let track_end = |sector| self.fixed.geometry.end_around(Sector(sector), Around::Track);
        if end >= self.fixed.capacity {
            return self.fixed.capacity;
        }
        let next = track_end(end);
        let is_stream = track_end(self.segments.start_of(segment)) < next;
        if is_stream && next < self.fixed.capacity {
            track_end(next).min(end + self.segments.segment_sectors()).max(next)
        } else {
            next
        }
    }

    pub(super) fn start_read_ahead(&mut self, segment: usize, from: u64, since: Nanos, limit: u64) {
        if from >= limit {
            return;
        }
        let place = self.fixed.geometry.place(Sector(from));
        let (limit_turns, ..) =
            self.fixed.geometry.pass(&place, Sector(from), SectorCount(limit - from), false);
        self.ahead = Some(Ahead { segment, from, place, since, limit, limit_turns });
    }

    /// Turns from where `ahead` went on until all sectors before `end` have passed.
    pub(super) fn turns_to(&self, ahead: &Ahead, end: u64) -> u64 {
        self.fixed.geometry.pass(&ahead.place, Sector(ahead.from), SectorCount(end - ahead.from), false).0
    }

    /// Lets the segment hold what the arm has read ahead until `now`.
    pub(super) fn note_read_ahead(&mut self, now: Nanos) {
        if let Some(ahead) = self.ahead {
            let turns = self.fixed.geometry.turns_in(now.saturating_since(ahead.since));
            if turns >= ahead.limit_turns {
                self.segments.extend(ahead.segment, ahead.limit);
            } else {
                let (sector, ..) = self.fixed.geometry.reached(&ahead.place, Sector(ahead.from), turns);
                self.segments.extend(ahead.segment, sector.0);
            }
        }
    }

    /// Lets the arm read on behind a hit that ends at `end`: half of what a stream may hold is to be ahead of the host at
    /// any time, or what the drive's limits say.
    pub(super) fn read_further(&mut self, now: Nanos, end: u64) {
        let Some(ahead) = self.ahead.filter(|ahead| self.segments.reaches(ahead.segment, end)) else {
            return;
        };
        let read_to = self.segments.end_of(ahead.segment);
        let (limit, goes_on) = match self.fixed.read_ahead {
            ReadAhead::Off => return,
            ReadAhead::Stream => {
                let most = self.segments.widen(ahead.segment);
                ((end + most).min(self.fixed.capacity), read_to - end < most / 2)
            }
            ReadAhead::Limited(limits) => {
                let Some(limit) = self.ahead_limit(ahead.segment, end) else { return };
                (limit, limits.after_hit)
            }
        };
        if read_to < ahead.limit {
            // Still reading: it just goes on for longer.
            let limit = limit.max(ahead.limit);
            self.ahead = Some(Ahead { limit, limit_turns: self.turns_to(&ahead, limit), ..ahead });
        } else if read_to < limit && goes_on {
            // It has stopped, and has to wait for the next sector to come round.
            let place = self.fixed.geometry.place(Sector(read_to));
            let here = ArmPosition { cylinder: place.cylinder, head: place.head };
            let since = self.fixed.arm.reach(&self.fixed.geometry, here, now, &place, false);
            self.start_read_ahead(ahead.segment, read_to, since, limit);
        }
    }

    /// Takes the arm away from reading ahead.
    pub(super) fn stop_read_ahead(&mut self, now: Nanos) {
        self.note_read_ahead(now);
        if let Some(ahead) = self.ahead.take() {
            let turns =
                self.fixed.geometry.turns_in(now.saturating_since(ahead.since)).min(ahead.limit_turns - 1);
            let (_, cylinder, head) = self.fixed.geometry.reached(&ahead.place, Sector(ahead.from), turns);
            self.position = ArmPosition { cylinder, head };
        }
    }
}
