//! How many requests per second an array serves at best.
//!
//! ```text
//! members:    members / (time that one request takes of all members together)
//! links:      rate / bytes that pass for one request
//! processor:  commands per second
//! ```
//! Time of the members for a request, of which a share `r` reads and a share `random` jumps:
//! - a **jump** costs each member command one random access: 1 for a read, 1 per copy for a write, and where there is parity
//!   read and write of the data and of each parity, unless a write covers whole stripes; one longer than a strip is so many
//!   commands, of which each then moves a strip;
//! - what **goes on** costs its bytes at the media rate, for writes times units over data strips.
//!
//! A controller's cache merges random writes to places near each other, which no formula here knows; [`MERGING`] is the
//! room that is left for it. Random accesses per second are those of one drive with a deep queue on the part of it that is
//! in use, simulated once for each kind of drive.
//!
//! Source of the commands per write: `raidlab_raid::arithmetic`.

use super::ControllerPart;
use raidlab_raid::{StripeShape, arithmetic};
use raidlab_units::ByteCount;
use serde::{Deserialize, Serialize};

/// How much better than the formula a cache may make random writes.
pub const MERGING: f64 = 2.0;

/// What one application asks, as far as arithmetic goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Share of requests that read, 0 to 1.
    pub read_share: f64,
    /// Share of requests that jump, 0 to 1.
    pub random_share: f64,
    /// Mean length of a request.
    pub bytes_mean: f64,
}

/// What a drive does at best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveRates {
    /// Random accesses per second by share of the drive in use (0 to 1, rising): reads and writes of `access_bytes`.
    pub random: Vec<RandomRate>,
    /// Bytes per second where it reads on and on.
    pub media: f64,
}

/// Random accesses per second on a part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomRate {
    /// Share of the drive in use.
    pub share: f64,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
}

impl DriveRates {
    /// The rate on at most `share` of the drive: that of the largest smaller share known, which is no lower.
    pub fn random_on(&self, share: f64) -> RandomRate {
        let smaller = self.random.iter().rev().find(|rate| rate.share <= share);
        let none = RandomRate { share: 1.0, reads: f64::INFINITY, writes: f64::INFINITY };
        smaller.or(self.random.first()).copied().unwrap_or(none)
    }
}

/// An array, as far as its throughput goes.
#[derive(Clone, Copy, Debug)]
pub struct Throughput<'a> {
    /// Its stripes; the length of a strip is not looked at.
    pub shape: StripeShape,
    /// Number of members.
    pub members: u16,
    /// Length of a strip.
    pub strip: ByteCount,
    /// Share of each member in use.
    pub share: f64,
    /// Its drives.
    pub rates: &'a DriveRates,
    /// Its controller.
    pub controller: &'a ControllerPart,
}

impl Throughput<'_> {
    /// Requests of `demand` per second at best.
    pub fn requests_per_sec(&self, demand: &Demand) -> f64 {
        let write_share = 1.0 - demand.read_share;
        let units = f64::from(self.shape.unit_count()) / f64::from(self.shape.data_strips);
        let bytes_to_members = demand.bytes_mean * (demand.read_share + write_share * units);
        let by_links = (self.controller.host_rate.0 / demand.bytes_mean)
            .min(self.controller.member_rate.0 / bytes_to_members);
        let member_secs = demand.random_share * self.jump_secs(demand)
            + (1.0 - demand.random_share) * bytes_to_members / self.rates.media;
        let by_members = f64::from(self.members) / member_secs;
        by_links.min(self.controller.commands_per_sec).min(by_members)
    }

    /// Time that a request which jumps takes of all members together.
    fn jump_secs(&self, demand: &Demand) -> f64 {
        let rate = self.rates.random_on(self.share);
        let strip = self.strip.0 as f64;
        let pieces = (demand.bytes_mean / strip).ceil().max(1.0);
        // A drive's rate is known for short accesses; what a longer one moves besides, it moves at the media rate.
        let moves = demand.bytes_mean.min(strip) / self.rates.media;
        let read = pieces * (1.0 / rate.reads).max(moves);
        let stripes = demand.bytes_mean / (strip * f64::from(self.shape.data_strips));
        let write = if self.shape.parities > 0 && stripes >= 1.0 {
            let commands = stripes * f64::from(arithmetic::full_stripe_write(&self.shape).total());
            commands * (1.0 / rate.writes).max(moves)
        } else {
            let ios = arithmetic::small_write(&self.shape);
            let (reads, writes) = (f64::from(ios.reads), f64::from(ios.writes));
            pieces * (reads * (1.0 / rate.reads).max(moves) + writes * (1.0 / rate.writes).max(moves))
        };
        demand.read_share * read + (1.0 - demand.read_share) * write / MERGING
    }
}
