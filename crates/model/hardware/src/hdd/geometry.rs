//! The place of a sector, and the time for a run of sectors to pass the head.
//!
//! The platter rotates independently: an angle is a function of time ([`Spindle`]). The layout comes in one of two
//! forms with the same interface: computed from the figures of a data sheet ([`super::even`]), or from a table of every
//! track, read out of a real drive ([`super::tracks`]).
//!
//! Angles and distances are in rotations with 32 fractional bits, so that the low 32 bits are an angle.

use super::even::{EvenLayout, SKEW_MARGIN_TURNS};
use super::model::MechanicsModel;
use super::tracks::TrackLayout;
use crate::drive::{Sector, SectorCount};
use raidlab_units::{BytesPerSec, NanoSpan, Nanos};

/// Why there can be no such drive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum GeometryError {
    /// A count that is zero, or beyond what the arithmetic holds.
    #[error("mechanics.{figure} must be from {least} to {most}")]
    Count { figure: &'static str, least: u32, most: u32 },
    /// The inner zone can't be faster.
    #[error(
        "mechanics.inner_rate {inner} is above mechanics.outer_rate {outer}: outer tracks are the longer ones"
    )]
    InnerFaster { inner: BytesPerSec, outer: BytesPerSec },
    /// A zone's sectors don't fit 32 bits.
    #[error(
        "with {zones} zones one holds {sectors} sectors, more than the 2^32 that the model allows: raise mechanics.zones"
    )]
    ZoneTooLarge { zones: u32, sectors: u64 },
    /// Less than a few cylinders, or more than the arithmetic holds.
    #[error("{sectors} sectors at these rates make {cylinders} cylinders, which is not from 3 to 8000000")]
    Cylinders { sectors: u64, cylinders: u64 },
}

/// One turn of the platter, in the units of positions and angles.
pub(crate) const TURN: u64 = 1 << 32;

/// Where a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// Turn position of its start.
    pub(crate) turn: u64,
    /// Turns that the sector itself takes.
    pub(crate) sector_turn: u64,
    /// Sectors from it to the end of its track, itself included.
    pub(crate) left_on_track: u32,
}

/// What a sector lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    Track,
    Cylinder,
}

/// The layout of sectors on the platters, and the speed at which these turn.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    layout: Layout,
    spindle: Spindle,
}

#[derive(Clone, Debug)]
enum Layout {
    Even(EvenLayout),
    Tracks(TrackLayout),
}

impl Geometry {
    /// The layout of a drive of `capacity` sectors.
    pub(crate) fn new(mechanics: &MechanicsModel, capacity: SectorCount) -> Result<Self, GeometryError> {
        let (layout, rpm) = match mechanics {
            MechanicsModel::DataSheet(sheet) => {
                (Layout::Even(EvenLayout::new(sheet, capacity)?), f64::from(sheet.rpm))
            }
            MechanicsModel::Measured(measured) => {
                (Layout::Tracks(TrackLayout::new(measured, Spindle::new(measured.rpm))), measured.rpm)
            }
        };
        Ok(Self { layout, spindle: Spindle::new(rpm) })
    }

    /// Cylinders in use.
    pub(crate) fn cylinders(&self) -> u32 {
        match &self.layout {
            Layout::Even(even) => even.cylinders(),
            Layout::Tracks(tracks) => tracks.cylinders(),
        }
    }

    /// Time by which the skew between tracks exceeds the time to change over, on a drive known from its data sheet.
    pub(crate) fn skew_margin(&self) -> NanoSpan {
        self.time_of((SKEW_MARGIN_TURNS * TURN as f64) as u64)
    }

    /// Where `sector` is.
    #[inline]
    pub(crate) fn place(&self, sector: Sector) -> Place {
        match &self.layout {
            Layout::Even(even) => even.place(sector),
            Layout::Tracks(tracks) => tracks.place(sector),
        }
    }

    /// Turns from the start of the first sector, which is at `first`, until `sectors` have passed, track changes
    /// included; and the cylinder and head of the last one.
    #[inline]
    pub(crate) fn pass(
        &self,
        first: &Place,
        start: Sector,
        sectors: SectorCount,
        write: bool,
    ) -> (u64, u32, u32) {
        match &self.layout {
            Layout::Even(even) => even.pass(first, start, sectors),
            Layout::Tracks(tracks) => tracks.pass(first, start, sectors, write),
        }
    }

    /// The sector that is not wholly past when the head, having been at the start of `from` at the place `first`, has
    /// read on for `turns`; and its cylinder and head. The run must not end before that.
    pub(crate) fn reached(&self, first: &Place, from: Sector, turns: u64) -> (Sector, u32, u32) {
        match &self.layout {
            Layout::Even(even) => even.sector_at(first.turn + turns),
            Layout::Tracks(tracks) => tracks.reached(first, from, turns),
        }
    }

    /// The first sector behind the track, or the cylinder, that holds `sector`.
    pub(crate) fn end_around(&self, sector: Sector, around: Around) -> u64 {
        match &self.layout {
            Layout::Even(even) => even.end_around(sector, around),
            Layout::Tracks(tracks) => tracks.end_around(sector, around),
        }
    }

    /// The first sector of the run that `sector` is in on its track.
    pub(crate) fn track_start(&self, sector: Sector) -> u64 {
        match &self.layout {
            Layout::Even(even) => even.track_start(sector),
            Layout::Tracks(tracks) => tracks.track_start(sector),
        }
    }

    /// The angle under the heads at `now`, in 2^-32 turns.
    #[inline]
    pub(crate) fn angle_at(&self, now: Nanos) -> u32 {
        self.turns_in(NanoSpan(now.0)) as u32
    }

    /// How far the platter turns in `span`.
    #[inline]
    pub(crate) fn turns_in(&self, span: NanoSpan) -> u64 {
        self.spindle.turns_in(span)
    }

    /// Time for the platter to turn by `turns`, rounded up.
    #[inline]
    pub(crate) fn time_of(&self, turns: u64) -> NanoSpan {
        self.spindle.time_of(turns)
    }
}

/// The speed at which the platters turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spindle {
    /// 2^-32 turns per nanosecond, with 32 more bits behind the point.
    turns_per_ns_q32: u64,
    /// Nanoseconds per turn, with 16 bits behind the point.
    ns_per_turn_q16: u64,
}

impl Spindle {
    /// A spindle of `rpm` revolutions per minute.
    pub(crate) fn new(rpm: f64) -> Self {
        Self {
            turns_per_ns_q32: (rpm / 60e9 * 2f64.powi(64)) as u64,
            ns_per_turn_q16: (60e9 / rpm * 65536.0).round() as u64,
        }
    }

    /// How far the platter turns in `span`.
    #[inline]
    pub(crate) fn turns_in(self, span: NanoSpan) -> u64 {
        ((u128::from(span.0) * u128::from(self.turns_per_ns_q32)) >> 32) as u64
    }

    /// Time for the platter to turn by `turns`, rounded up.
    #[inline]
    pub(crate) fn time_of(self, turns: u64) -> NanoSpan {
        let ns_q48 = u128::from(turns) * u128::from(self.ns_per_turn_q16);
        NanoSpan(((ns_q48 + ((1 << 48) - 1)) >> 48) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn turns_and_times_are_inverse(ns in 0u64..10_000_000_000_000, rpm in 3000u32..20_000) {
            let spindle = Spindle::new(f64::from(rpm));
            let back = spindle.time_of(spindle.turns_in(NanoSpan(ns))).0;
            prop_assert!(back.abs_diff(ns) <= 2 + ns / 1_000_000_000, "{ns} became {back}");
        }
    }
}
