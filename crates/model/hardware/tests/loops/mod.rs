//! A closed loop on one drive, as in a benchmark tool.
#![allow(dead_code, reason = "every test takes what it needs")]

use raidlab_hardware::{Drive, DriveOp, DriveRequest, Sector, SectorCount};
use raidlab_units::{NanoSpan, Nanos};
use std::ops::Range;

/// xorshift64*: plain, seeded, good enough to spread requests.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }
}

/// What a closed loop saw.
pub(crate) struct Seen {
    pub(crate) commands_per_sec: f64,
    pub(crate) response_ms_mean: f64,
}

/// Keeps `iodepth` commands outstanding until `commands` are done; `next` makes the i-th.
pub(crate) fn drive_closed_loop(
    drive: &mut Drive,
    iodepth: u32,
    commands: u64,
    next: impl FnMut(u64) -> (DriveOp, u64, u64),
) -> Seen {
    drive_warm_loop(drive, iodepth, 0..commands, next)
}

/// The same, of which only what is done in the range `counted` counts.
pub(crate) fn drive_warm_loop(
    drive: &mut Drive,
    iodepth: u32,
    counted: Range<u64>,
    mut next: impl FnMut(u64) -> (DriveOp, u64, u64),
) -> Seen {
    let mut since = Nanos::ZERO;
    let (mut now, mut issued, mut done, mut sum_ns) = (Nanos::ZERO, 0, 0, 0);
    let mut started = vec![Nanos::ZERO; iodepth as usize];
    let mut issue = |drive: &mut Drive, now, id: u32, started: &mut [Nanos]| {
        let (op, start, sectors) = next(issued);
        issued += 1;
        started[id as usize] = now;
        drive.handle_request(
            now,
            DriveRequest { id, op, start: Sector(start), sectors: SectorCount(sectors) },
        );
    };
    for id in 0..iodepth {
        issue(drive, now, id, &mut started);
    }
    while done < counted.end {
        let deadline = drive.poll_deadline().expect("commands are outstanding");
        assert!(deadline >= now, "the deadline went back");
        now = deadline;
        drive.handle_deadline(now);
        while let Some(completion) = drive.poll_completion() {
            done += 1;
            if done > counted.start {
                sum_ns += now.saturating_since(started[completion.id as usize]).0;
            } else {
                since = now;
            }
            issue(drive, now, completion.id, &mut started);
        }
    }
    let counted = (done - counted.start) as f64;
    Seen {
        commands_per_sec: counted / now.saturating_since(since).as_secs_f64(),
        response_ms_mean: NanoSpan(sum_ns).as_millis_f64() / counted,
    }
}
