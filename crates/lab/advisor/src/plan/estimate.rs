//! An upper bound on an array's requests per second.
//!
//! ```text
//! links:      rate / bytes of one request, including the enclosure's port
//! processor:  processors / time of the commands of one request
//! members:    members / (time of one request on all members together)
//! in flight:  members x reads of a drive with the average number of reads outstanding
//! ```
//! The time of the members for a request, of which a share `r` reads and a share `random` is random:
//! - a **random** request costs each member command one random access: 1 for a read, 1 per copy for a write, and with
//!   parity a read and a write of the data and of each parity, unless a write covers whole stripes; a request longer
//!   than a strip is several commands, each of which then moves a strip;
//! - a **sequential** request costs its bytes at the media rate, for writes times units over data strips.
//!
//! **In flight** at the members are no more reads than the host has requests in flight, times the pieces of each. A
//! drive does less with few than with many, and each further one adds less: the total is highest with the average
//! number at each member. This holds for random reads, since others may be read ahead and writes are taken by caches.
//!
//! **Together**: applications that run at the same time share links, processor and members. An application gets the
//! time of each that the needs of the others leave, and the product of all rates is largest if the parts are equal.
//!
//! A controller's cache merges random writes to neighbouring places, which no formula here covers; [`MERGING`] is the
//! tolerance for it. Random accesses per second are those of one drive on the part of it that is in use, simulated once
//! for each model of drive; [`CHANCE`] is the tolerance for randomness.
//!
//! Source of the commands per write: `raidlab_raid::arithmetic`.

use super::ControllerPart;
use raidlab_raid::{StripeShape, arithmetic};
use raidlab_units::{ByteCount, BytesPerSec};
use raidlab_workload::Metric;
use serde::{Deserialize, Serialize};

/// How much better than the formula a cache may make random writes.
pub const MERGING: f64 = 2.0;

/// How much more than in the run that was made for its rate a drive may do by chance.
pub const CHANCE: f64 = 1.03;

/// What one application asks, as far as arithmetic goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Share of requests that read, 0 to 1.
    pub read_share: f64,
    /// Share of requests that jump, 0 to 1.
    pub random_share: f64,
    /// Mean length of a request.
    pub bytes_mean: f64,
    /// Requests in flight.
    pub iodepth: u32,
    /// Whether requests that jump go anywhere with the same chance; else they may all be near each other.
    pub is_spread: bool,
    /// What it is judged by.
    pub metric: Metric,
    /// Requests per second of an application that runs beside others at a rate of its own; it asks for no more.
    pub pace: Option<f64>,
}

impl Demand {
    /// What counts of `iops` requests per second, at best: the figure that it is judged by, or all of its own rate.
    pub(super) fn merit_at_best(&self, iops: f64) -> f64 {
        match self.pace {
            Some(_) => 1.0,
            None => super::Performance::at_best(iops, self).metric(self.metric),
        }
    }
}

/// What several applications do at the same time, at best.
#[derive(Clone, Debug, PartialEq)]
pub struct TogetherAtBest {
    /// Requests per second of each, if the others get what they need and no more.
    pub iops: Vec<f64>,
    /// The product of what all get, each by its metric.
    pub score: f64,
}

/// What a drive does at best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveRates {
    /// Random accesses per second by share of the drive in use (0 to 1, rising).
    pub random: Vec<RandomRate>,
    /// Bytes per second where it reads on and on.
    pub media: f64,
}

/// Random accesses per second on a part of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomRate {
    /// Share of the drive in use.
    pub share: f64,
    /// Reads per second by reads outstanding, rising; the last ones are as many as there ever are.
    pub reads: Vec<(u32, f64)>,
    /// Writes per second.
    pub writes: f64,
}

impl RandomRate {
    /// Reads per second with no more than `outstanding` at the drive on average: between two that are known no more than at the
    /// upper one.
    pub fn reads_at(&self, outstanding: f64) -> f64 {
        let enough = self.reads.iter().find(|(depth, _)| f64::from(*depth) >= outstanding);
        enough.or(self.reads.last()).map_or(f64::INFINITY, |(_, rate)| *rate)
    }

    /// Reads per second at best.
    fn reads_max(&self) -> f64 {
        self.reads.iter().map(|(_, rate)| *rate).reduce(f64::max).unwrap_or(f64::INFINITY)
    }
}

impl DriveRates {
    /// The rate on at most `share` of the drive: that of the largest smaller share known, which is no lower; none where no rate
    /// is known.
    pub fn random_on(&self, share: f64) -> Option<&RandomRate> {
        let smaller = self.random.iter().rev().find(|rate| rate.share <= share);
        smaller.or(self.random.first())
    }
}

/// Time of a controller's processors for one command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CommandSecs {
    /// For a read.
    pub read: f64,
    /// For a write.
    pub write: f64,
    /// For each page of 4 KiB.
    pub page: f64,
}

impl CommandSecs {
    fn of(&self, per_command: f64, bytes: f64) -> f64 {
        per_command + self.page * (bytes / 4096.0)
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
    /// The port of its enclosure, if it is in one.
    pub port: Option<BytesPerSec>,
    /// The lanes of one drive, where they are known.
    pub slot: Option<BytesPerSec>,
}

impl Throughput<'_> {
    /// Requests of `demand` per second at best.
    pub fn requests_per_sec(&self, demand: &Demand) -> f64 {
        let secs = self.secs(demand).into_iter().fold(0.0, f64::max);
        (1.0 / secs).min(self.by_iodepth(demand))
    }

    /// What all of `demands` get at the same time at best, where each needs so many requests per second.
    pub fn together(&self, demands: &[Demand], needed: &[f64]) -> TogetherAtBest {
        let secs: Vec<[f64; 4]> = demands.iter().map(|demand| self.secs(demand)).collect();
        let alone =
            |app: usize| self.requests_per_sec(&demands[app]).min(demands[app].pace.unwrap_or(f64::INFINITY));
        let beside = |app: usize, resource: usize| {
            let others = secs.iter().zip(needed).enumerate().filter(|(other, _)| *other != app);
            let taken: f64 = others.map(|(_, (secs, needed))| secs[resource] * needed).sum();
            (1.0 - taken).max(0.0) / secs[app][resource]
        };
        let iops: Vec<f64> = (0..demands.len())
            .map(|app| (0..4).map(|at| beside(app, at)).fold(alone(app), f64::min))
            .collect();
        let product = |rate: &dyn Fn(usize) -> f64| -> f64 {
            demands.iter().enumerate().map(|(app, demand)| demand.merit_at_best(rate(app))).product()
        };
        let sharing = demands.iter().filter(|demand| demand.pace.is_none()).count().max(1) as f64;
        let shared = |resource: usize| product(&|app| 1.0 / (sharing * secs[app][resource]));
        let score = (0..4).map(shared).fold(product(&|app| iops[app]), f64::min);
        TogetherAtBest { iops, score }
    }

    /// Seconds that a request of `demand` takes at least of the host link, of the members' links, of the processors and of the members.
    fn secs(&self, demand: &Demand) -> [f64; 4] {
        let write_share = 1.0 - demand.read_share;
        let units = f64::from(self.shape.unit_count()) / f64::from(self.shape.data_strips);
        let bytes_to_members = demand.bytes_mean * (demand.read_share + write_share * units);
        let to_members = self.port.map_or(f64::INFINITY, |port| port.0).min(self.controller.member_rate.0);
        let member_secs = demand.random_share * self.jump_secs(demand)
            + (1.0 - demand.random_share) * bytes_to_members / self.media_rate();
        [
            demand.bytes_mean / self.controller.host_rate.0,
            bytes_to_members / to_members,
            1.0 / self.by_commands(demand),
            member_secs / f64::from(self.members),
        ]
    }

    /// Bytes per second that a member moves at best: as its media and its lanes allow.
    fn media_rate(&self) -> f64 {
        self.slot.map_or(f64::INFINITY, |slot| slot.0).min(self.rates.media)
    }

    fn random(&self, demand: &Demand) -> Option<&RandomRate> {
        self.rates.random_on(if demand.is_spread { self.share } else { 0.0 })
    }

    /// Commands that a request which jumps is cut into, at least.
    fn pieces(&self, demand: &Demand) -> f64 {
        (demand.bytes_mean / self.strip.0 as f64).ceil().max(1.0)
    }

    /// Requests per second that the processors have time for: that of the host's commands, and of the commands to members of
    /// reads that jump. All others may be fewer, as caches and read-ahead put them together.
    fn by_commands(&self, demand: &Demand) -> f64 {
        let ControllerPart { host_command, member_command, .. } = self.controller;
        let pieces = self.pieces(demand);
        let member = pieces * member_command.of(member_command.read, demand.bytes_mean / pieces);
        let read = host_command.of(host_command.read, demand.bytes_mean) + demand.random_share * member;
        let write = host_command.of(host_command.write, demand.bytes_mean);
        let secs = demand.read_share * read + (1.0 - demand.read_share) * write;
        f64::from(self.controller.processors) / secs
    }

    /// Requests per second that reads in flight allow.
    fn by_iodepth(&self, demand: &Demand) -> f64 {
        let pieces = self.pieces(demand);
        let reads = demand.read_share * demand.random_share * pieces;
        let outstanding = f64::from(demand.iodepth) * pieces / f64::from(self.members);
        let rate = self.random(demand).map_or(f64::INFINITY, |rate| rate.reads_at(outstanding));
        CHANCE * f64::from(self.members) * rate / reads
    }

    /// Time that a request which jumps takes of all members together.
    fn jump_secs(&self, demand: &Demand) -> f64 {
        let rate = self.random(demand);
        let secs = |rate: f64| 1.0 / (CHANCE * rate);
        let reading = rate.map_or(0.0, |rate| secs(rate.reads_max()));
        let writing = rate.map_or(0.0, |rate| secs(rate.writes));
        let strip = self.strip.0 as f64;
        let pieces = self.pieces(demand);
        // A drive's rate is known for short accesses; what a longer one moves besides, it moves at the media rate.
        let moves = demand.bytes_mean.min(strip) / self.media_rate();
        let read = pieces * reading.max(moves);
        let stripes = demand.bytes_mean / (strip * f64::from(self.shape.data_strips));
        let write = if self.shape.parities > 0 && stripes >= 1.0 {
            let commands = stripes * f64::from(arithmetic::full_stripe_write(&self.shape).total());
            commands * writing.max(moves)
        } else {
            let ios = arithmetic::small_write(&self.shape);
            let (reads, writes) = (f64::from(ios.reads), f64::from(ios.writes));
            pieces * (reads * reading.max(moves) + writes * writing.max(moves))
        };
        demand.read_share * read + (1.0 - demand.read_share) * write / MERGING
    }
}
