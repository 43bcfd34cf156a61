//! A model of the catalogue as a target, in virtual time: what proves that calibration finds what is there.

use crate::entry::SECTOR_BYTES;
use crate::{Access, TimedTarget, Timing};
use raidlab_hardware::{Drive, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// A drive that is asked in virtual time.
#[derive(Clone, Debug)]
pub struct ModelledTarget {
    drive: Drive,
    now: Nanos,
}

impl ModelledTarget {
    /// A drive of this model, as delivered.
    pub fn new(model: &DriveModel) -> Self {
        Self { drive: Drive::new(model, DriveOptions::default()), now: Nanos::ZERO }
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
        while ended < accesses.len() {
            while sent < accesses.len() && sent - ended < depth.max(1) as usize {
                times[sent].start = self.now;
                self.send(sent as u32, &accesses[sent]);
                sent += 1;
            }
            let due = self.drive.poll_deadline().ok_or("the drive has nothing to do")?;
            self.now = self.now.max(due);
            self.drive.handle_deadline(self.now);
            while let Some(completion) = self.drive.poll_completion() {
                times[completion.id as usize].end = self.now;
                ended += 1;
            }
        }
        Ok(times)
    }

    fn block_bytes(&self) -> u64 {
        SECTOR_BYTES
    }

    fn idle(&mut self, span: NanoSpan) {
        self.now += span;
    }
}
