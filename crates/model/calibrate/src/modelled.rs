//! A model of the catalogue as a target, in virtual time, to show that calibration finds the right figures.

use crate::entry::SECTOR_BYTES;
use crate::{Access, TimedTarget, Timing};
use raidlab_hardware::{Drive, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::Rng;
use std::collections::VecDeque;

/// A drive that is asked in virtual time.
#[derive(Clone, Debug)]
pub struct ModelledTarget {
    drive: Drive,
    now: Nanos,
    way: Option<Way>,
}

/// What lies between who asks and the drive, a socket for instance: each access takes so long until the drive hears of it, and
/// one of a hundred half a millisecond more, since something else had the processor.
#[derive(Clone, Debug)]
struct Way {
    trip: NanoSpan,
    block_bytes: u64,
    random: Rng,
}

impl Way {
    const LATE: NanoSpan = NanoSpan::from_micros(500);

    fn next(&mut self) -> NanoSpan {
        let late = if self.random.below(100) == 0 { Self::LATE.0 } else { 0 };
        NanoSpan(self.trip.0 + self.random.below(self.trip.0 / 4 + 1) + late)
    }
}

impl ModelledTarget {
    /// A drive of this model, as delivered.
    pub fn new(model: &DriveModel) -> Self {
        Self { drive: Drive::new(model, DriveOptions::default()), now: Nanos::ZERO, way: None }
    }

    /// The same behind a way of about `trip`, in blocks of `block_bytes`.
    #[must_use]
    pub fn behind(self, trip: NanoSpan, block_bytes: u64, seed: u64) -> Self {
        Self { way: Some(Way { trip, block_bytes, random: Rng::new(seed) }), ..self }
    }

    fn send(&mut self, id: u32, access: &Access) {
        let op = if access.is_write { DriveOp::Write { fua: false } } else { DriveOp::Read };
        let request = DriveRequest {
            id,
            op,
            start: Sector(access.offset / SECTOR_BYTES),
            sectors: SectorCount(u64::from(access.bytes) / SECTOR_BYTES),
        };
        self.drive.handle_request(self.now, request);
    }
}

impl TimedTarget for ModelledTarget {
    fn capacity(&self) -> ByteCount {
        self.drive.capacity().bytes()
    }

    fn run(&mut self, accesses: &[Access], depth: u32) -> Result<Vec<Timing>, String> {
        let mut times = vec![Timing { start: Nanos::ZERO, end: Nanos::ZERO }; accesses.len()];
        let (mut sent, mut ended) = (0, 0);
        let mut under_way: VecDeque<(Nanos, usize)> = VecDeque::new();
        while ended < accesses.len() {
            while sent < accesses.len() && sent - ended < depth.max(1) as usize {
                times[sent].start = self.now;
                let arrives = self.now + self.way.as_mut().map_or(NanoSpan::ZERO, Way::next);
                // One connection: none passes another.
                let arrives = under_way.back().map_or(arrives, |(before, _)| arrives.max(*before));
                under_way.push_back((arrives, sent));
                sent += 1;
            }
            let due = self.drive.poll_deadline();
            if let Some((arrives, index)) = under_way.front().copied()
                && due.is_none_or(|due| arrives <= due)
            {
                under_way.pop_front();
                self.now = self.now.max(arrives);
                self.send(index as u32, &accesses[index]);
            } else {
                self.now = self.now.max(due.ok_or("the drive has nothing to do")?);
                self.drive.handle_deadline(self.now);
            }
            while let Some(completion) = self.drive.poll_completion() {
                times[completion.id as usize].end = self.now;
                ended += 1;
            }
        }
        Ok(times)
    }

    fn block_bytes(&self) -> u64 {
        self.way.as_ref().map_or(SECTOR_BYTES, |way| way.block_bytes)
    }

    fn idle(&mut self, span: NanoSpan) {
        self.now += span;
    }
}
