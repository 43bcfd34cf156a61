//! A drive's buffer after a single read: what passed before it, and what was read ahead.
//!
//! Each case reads somewhere, leaves the drive alone for fifty milliseconds, reads near by, and asks whether that came
//! from the buffer. Tracks of the drive have 700 to 1400 sectors, so few of the pairs are on two.

use raidlab_hardware::{
    AheadLimits, AheadReach, BufferModel, Catalog, Drive, DriveKind, DriveModel, DriveOp, DriveOptions,
    DriveRequest, ReadAhead, Sector, SectorCount,
};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

const SECTORS: u64 = 8;
const PAIRS: u64 = 200;
/// Reads that the media may answer as fast as the buffer, by luck.
const FEW: u64 = PAIRS / 20;

/// The Cheetah 15K.7 with another buffer: segments of several tracks, and what is changed.
fn drive_with(change: impl FnOnce(&mut BufferModel)) -> DriveModel {
    let mut model = Catalog::builtin().drive("st3600057ss").expect("in the catalogue").clone();
    let DriveKind::HardDrive(inside) = &mut model.kind else { panic!("a hard drive") };
    inside.buffer.read_ahead = ReadAhead::Off;
    inside.buffer.segments = 4;
    inside.buffer.size = ByteCount(4 * 4096 * 512);
    change(&mut inside.buffer);
    model
}

fn ahead_to(reach: AheadReach) -> ReadAhead {
    ReadAhead::Limited(AheadLimits { reach, sectors_max: 1 << 20, keep_request: true, after_hit: false })
}

/// Reads and returns when that is complete.
fn read(drive: &mut Drive, now: Nanos, start: u64) -> Nanos {
    while let Some(deadline) = drive.poll_deadline().filter(|deadline| *deadline <= now) {
        drive.handle_deadline(deadline);
    }
    let request =
        DriveRequest { id: 0, op: DriveOp::Read, start: Sector(start), sectors: SectorCount(SECTORS) };
    drive.handle_request(now, request);
    let mut done = now;
    while drive.poll_completion().is_none() {
        done = drive.poll_deadline().expect("a read is outstanding");
        drive.handle_deadline(done);
    }
    done
}

/// How many of the reads came from the buffer that were `distance` sectors from the start of one before.
fn hits(model: &DriveModel, distance: i64) -> u64 {
    let mut drive = Drive::new(model, DriveOptions::default());
    let (mut now, mut hits) = (Nanos::ZERO, 0);
    for pair in 0..PAIRS {
        let start = 10_000_019 + pair * 4_800_007;
        now = read(&mut drive, now, start) + NanoSpan::from_millis(50);
        let done = read(&mut drive, now, start.checked_add_signed(distance).expect("far from 0"));
        hits += u64::from(done.saturating_since(now) < NanoSpan::from_micros(300));
        now = done + NanoSpan::from_millis(50);
    }
    hits
}

#[test]
fn what_passed_before_a_read_is_kept_where_the_drive_keeps_it() {
    let keeps = drive_with(|buffer| buffer.keeps.passed = true);
    let not = drive_with(|_| ());
    // The head lands between the two with a chance of 30 in 1000 or so; what lies behind comes round before the read.
    assert!(hits(&keeps, -30) > PAIRS * 85 / 100, "{}", hits(&keeps, -30));
    assert_eq!(hits(&not, -30), 0);
    assert_eq!(hits(&keeps, 30), 0, "what comes after a read is reading ahead");
    assert!(hits(&keeps, -3000) < FEW, "that was another track: {}", hits(&keeps, -3000));
}

#[test]
fn a_single_read_is_read_ahead_to_the_end_of_its_track() {
    let model = drive_with(|buffer| buffer.read_ahead = ahead_to(AheadReach::NextTrack));
    assert!(hits(&model, 30) > PAIRS * 90 / 100, "{}", hits(&model, 30));
    assert!(hits(&model, 3000) < FEW, "tracks are shorter: {}", hits(&model, 3000));
    assert_eq!(hits(&model, -30), 0, "nothing before it was read");
}

#[test]
fn a_segment_shorter_than_the_track_keeps_what_was_read_last() {
    let model = drive_with(|buffer| {
        buffer.read_ahead = ahead_to(AheadReach::NextTrack);
        buffer.segments = 1;
        buffer.size = ByteCount(64 * 512);
    });
    // The rest of the track has pushed it out, unless the read was near its end.
    assert!(hits(&model, 8) < PAIRS * 15 / 100, "{}", hits(&model, 8));
    let limited = drive_with(|buffer| {
        buffer.read_ahead = ahead_to(AheadReach::Track);
        buffer.segments = 1;
        buffer.size = ByteCount(64 * 512);
    });
    assert!(hits(&limited, 8) > PAIRS * 90 / 100, "it stops when the segment is full: {}", hits(&limited, 8));
}

#[test]
fn a_stream_that_came_from_an_earlier_track_is_read_ahead_to_the_end_of_the_next() {
    let model = drive_with(|buffer| buffer.read_ahead = ahead_to(AheadReach::NextTrack));
    let mut drive = Drive::new(&model, DriveOptions::default());
    let (mut now, mut start, mut slow) = (Nanos::ZERO, 10_000_019, Vec::new());
    for _ in 0..3000 {
        let done = read(&mut drive, now, start);
        if done.saturating_since(now) > NanoSpan::from_micros(300) {
            slow.push(start);
        }
        start += SECTORS;
        now = done + NanoSpan::from_millis(50);
    }
    // 24,000 sectors are some twenty tracks. The first read waits, the next one at the end of the first track; from
    // there on two tracks are read at a time.
    let gaps: Vec<u64> = slow.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 3, "{gaps:?}");
    assert!(gaps[0] < 1400 && gaps[1..gaps.len() - 1].iter().all(|gap| *gap > 1400), "{gaps:?}");
}
