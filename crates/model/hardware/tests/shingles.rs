//! A drive-managed shingled drive from outside: fast sequentially, fast at random while its media cache has room, then
//! a band for every write; and fast again after it was left alone.

mod loops;

use loops::{Random, drive_warm_loop};
use raidlab_hardware::{
    Catalog, Drive, DriveKind, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount,
    ShingleModel,
};
use raidlab_units::{NanoSpan, Nanos};

const WRITE: DriveOp = DriveOp::Write { fua: false };
const CACHED: DriveOptions = DriveOptions { queue_depth: None, write_cache: Some(true) };

/// The drive of the catalogue, with a map of so many extents.
fn drive_with(entries: u32) -> DriveModel {
    let mut model = Catalog::builtin().drive("generic-smr-8tb").expect("in the catalogue").clone();
    let DriveKind::HardDrive(hard) = &mut model.kind else { panic!("a hard drive") };
    let Some(ShingleModel::Drive(cache)) = &mut hard.modern.shingles else { panic!("shingled") };
    cache.entries = entries;
    model
}

/// One drive, and its time.
struct Bench {
    drive: Drive,
    now: Nanos,
    random: Random,
    places: u64,
}

impl Bench {
    fn new(model: &DriveModel) -> Self {
        let drive = Drive::new(model, CACHED);
        Self { drive, now: Nanos::ZERO, random: Random(8), places: model.capacity.0 / 8 }
    }

    /// Sends one command and waits for it.
    fn ask(&mut self, op: DriveOp, start: u64, sectors: u64) -> NanoSpan {
        let sent = self.now;
        let (start, sectors) = (Sector(start), SectorCount(sectors));
        self.drive.handle_request(self.now, DriveRequest { id: 0, op, start, sectors });
        while self.drive.poll_completion().is_none() {
            self.now = self.now.max(self.drive.poll_deadline().expect("a command is outstanding"));
            self.drive.handle_deadline(self.now);
        }
        self.now.saturating_since(sent)
    }

    /// Random writes of 4 KiB per second, one after another.
    fn random_writes(&mut self, count: u64) -> f64 {
        let since = self.now;
        for _ in 0..count {
            let place = self.random.below(self.places) * 8;
            self.ask(WRITE, place, 8);
        }
        count as f64 / self.now.saturating_since(since).as_secs_f64()
    }

    /// Leaves the drive alone until it rests, and says for how long that was.
    fn rest(&mut self) -> NanoSpan {
        let since = self.now;
        while let Some(due) = self.drive.poll_deadline() {
            self.now = self.now.max(due);
            self.drive.handle_deadline(self.now);
        }
        self.now.saturating_since(since)
    }
}

#[test]
fn whole_bands_are_written_in_place_at_the_rate_of_the_media() {
    let model = drive_with(200_000);
    for (op, tolerance) in [(DriveOp::Read, 0.03), (WRITE, 0.05)] {
        let next = |i| (op, i * 256, 256);
        let seen = drive_warm_loop(&mut Drive::new(&model, CACHED), 4, 8000..24_000, next);
        let mb_per_s = seen.commands_per_sec * 131_072.0 / 1e6;
        assert!((mb_per_s / 190.0 - 1.0).abs() < tolerance, "{op:?}: {mb_per_s} MB/s");
        assert!(seen.response_ms_mean < 5.0, "{op:?}: {} ms", seen.response_ms_mean);
    }
    // A stream leaves nothing in the media cache but the band that it did not fill.
    let mut bench = Bench::new(&model);
    for i in 0..2000 {
        bench.ask(WRITE, i * 256, 256);
    }
    assert!(bench.rest().as_secs_f64() < 4.0, "one band at most is to be cleaned");
}

#[test]
fn random_writes_collapse_when_the_media_cache_is_full_and_idling_cleans_it() {
    let mut bench = Bench::new(&drive_with(20_000));
    bench.random_writes(4000);
    let at_first = bench.random_writes(4000);
    assert!(at_first > 1000.0, "the media cache takes {at_first} writes per second");
    bench.random_writes(18_000);
    let then = bench.random_writes(60);
    assert!((0.5..10.0).contains(&then), "{then} writes per second, each for a band read and written");
    let cleaning = bench.rest().as_secs_f64();
    // Nearly every write is in a band of its own, and a band takes two passes of some 0.2 s.
    assert!((1000.0..20_000.0).contains(&cleaning), "{cleaning} s of cleaning");
    bench.random_writes(4000);
    let again = bench.random_writes(4000);
    assert!((again / at_first - 1.0).abs() < 0.1, "{again} after cleaning, {at_first} at first");
}

#[test]
fn cleaning_waits_until_the_host_is_idle() {
    let mut bench = Bench::new(&drive_with(20_000));
    bench.random_writes(200);
    assert!(bench.ask(DriveOp::Flush, 0, 0).as_millis_f64() > 1.0, "a flush fills the log");
    let busy_ms: Vec<f64> =
        (0..50).map(|i| bench.ask(DriveOp::Read, i * 50_000_000, 8).as_millis_f64()).collect();
    assert!(busy_ms.iter().all(|ms| *ms < 60.0), "nothing is cleaned in between: {busy_ms:?}");
    let rest = bench.rest().as_secs_f64();
    assert!(rest > 40.0, "then 200 bands are cleaned, in {rest} s");
}

/// A read of which the media cache holds the middle: three pieces, one completion.
#[test]
fn reads_find_what_the_media_cache_holds() {
    let mut bench = Bench::new(&drive_with(20_000));
    let there = 4_000_000_000;
    let whole_ms = bench.ask(DriveOp::Read, there, 64).as_millis_f64();
    bench.ask(WRITE, there + 16, 8);
    bench.ask(DriveOp::Flush, 0, 0);
    // Elsewhere and back: the buffer has forgotten it, having been written over.
    bench.ask(DriveOp::Read, 0, 8);
    let pieces_ms = bench.ask(DriveOp::Read, there, 64).as_millis_f64();
    assert!(pieces_ms > whole_ms + 5.0, "{pieces_ms} ms in pieces, {whole_ms} ms in one");
    assert!(bench.drive.poll_completion().is_none(), "one command, one completion");
    bench.rest();
    bench.ask(DriveOp::Read, 0, 8);
    let cleaned_ms = bench.ask(DriveOp::Read, there, 64).as_millis_f64();
    assert!(cleaned_ms < pieces_ms - 5.0, "{cleaned_ms} ms once the band is whole again");
}

#[test]
fn a_forced_write_is_acknowledged_from_the_media() {
    let mut bench = Bench::new(&drive_with(20_000));
    let cached = bench.ask(WRITE, 1_000_000, 8).as_millis_f64();
    let forced = bench.ask(DriveOp::Write { fua: true }, 2_000_000, 8).as_millis_f64();
    assert!(cached < 0.5 && forced > 1.0, "{cached} ms cached, {forced} ms forced");
}
