//! Optional parts of solid-state drives: a pseudo-SLC cache, a partly cached map, trims, upkeep, and work while the
//! host is idle. Each is compared with what follows from the model's own figures; sheets and reviews cover real drives
//! (`raidlab-calibrate`).

mod loops;

use loops::{Random, drive_closed_loop, drive_warm_loop};
use raidlab_hardware::{
    CapModel, Catalog, CellModel, Drive, DriveCondition, DriveHistory, DriveKind, DriveModel, DriveOp,
    DriveOptions, DriveRequest, FlashCounters, FlashModel, HeatModel, IdleModel, Sector, SectorCount,
    SlcModel, WearModel, WhenFull,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};

const WRITE: DriveOp = DriveOp::Write { fua: false };
const GIB: u64 = 1 << 30;

/// Length of writes in sequence, in sectors.
const LONG: u64 = 256;

/// The `NVMe` drive of the catalogue with a capacity of `gib` and blocks that fit it, changed.
fn small_nvme(gib: u64, change: impl FnOnce(&mut FlashModel)) -> DriveModel {
    let mut model = Catalog::builtin().drive("generic-nvme").expect("in the catalogue").clone();
    model.capacity = SectorCount(gib * GIB / 512);
    let DriveKind::Flash(flash) = &mut model.kind else { panic!("it has a translation layer") };
    flash.cells.block = ByteCount::from_kib(768);
    flash.condition.history = DriveHistory::Sequential;
    change(flash);
    model
}

fn flash_of(model: &DriveModel) -> &FlashModel {
    let DriveKind::Flash(flash) = &model.kind else { panic!("it has a translation layer") };
    flash
}

fn slc(static_gib: u64, dynamic_gib: u64, when_full: WhenFull) -> SlcModel {
    SlcModel {
        static_size: ByteCount(static_gib * GIB),
        dynamic_size: ByteCount(dynamic_gib * GIB),
        dynamic_until_pct: 100.0,
        when_full,
        program: NanoSpan::from_micros(250),
        read: NanoSpan::from_micros(25),
    }
}

/// A drive at work whose clock goes on from one load to the next.
struct Bench {
    drive: Drive,
    now: Nanos,
    written: u64,
}

impl Bench {
    fn new(model: &DriveModel) -> Self {
        Self { drive: Drive::new(model, DriveOptions::default()), now: Nanos::ZERO, written: 0 }
    }

    fn send(&mut self, id: u32, op: DriveOp, start: u64, sectors: u64) {
        let request = DriveRequest { id, op, start: Sector(start), sectors: SectorCount(sectors) };
        self.drive.handle_request(self.now, request);
    }

    /// Does one command and waits for it.
    fn one(&mut self, op: DriveOp, start: u64, sectors: u64) -> NanoSpan {
        let began = self.now;
        self.send(0, op, start, sectors);
        self.finish();
        self.now - began
    }

    /// Waits for the next command that ends.
    fn finish(&mut self) -> u32 {
        loop {
            if let Some(done) = self.drive.poll_completion() {
                return done.id;
            }
            self.now = self.drive.poll_deadline().expect("a command is outstanding");
            self.drive.handle_deadline(self.now);
        }
    }

    /// Writes `bytes` in sequence, 32 commands at once; bytes per second.
    fn write(&mut self, bytes: u64) -> f64 {
        let (began, count) = (self.now, bytes / (LONG * 512));
        let mut issued = 0;
        let next = |bench: &mut Self, id| {
            bench.send(id, WRITE, bench.written / 512, LONG);
            bench.written += LONG * 512;
        };
        while issued < count.min(32) {
            next(self, issued as u32);
            issued += 1;
        }
        for _ in 0..count {
            let id = self.finish();
            if issued < count {
                next(self, id);
                issued += 1;
            }
        }
        bytes as f64 / (self.now - began).as_secs_f64()
    }

    /// Lets time pass without a command.
    fn rest(&mut self, span: NanoSpan) {
        let until = self.now + span;
        while let Some(due) = self.drive.poll_deadline().filter(|due| *due <= until) {
            self.now = due;
            self.drive.handle_deadline(due);
        }
        self.now = until;
    }

    fn counters(&self) -> FlashCounters {
        self.drive.flash_counters().expect("it is followed")
    }
}

/// Bytes per second into the pseudo-SLC cache, as programs take them; none of them holds parity.
fn slc_rate(model: &DriveModel) -> f64 {
    let (flash, cells) = (flash_of(model), &flash_of(model).cells);
    let slc = flash.slc.expect("it has a cache");
    let block = ByteCount(cells.block.0 / 3);
    CellModel { bits_per_cell: 1, program: slc.program, block, parity_every: 0, ..*cells }.program_rate().0
}

#[track_caller]
fn assert_within(got: f64, expected: f64, pct: f64, what: &str) {
    assert!((got / expected - 1.0).abs() * 100.0 < pct, "{what}: {got:.4e}, not {expected:.4e}");
}

#[test]
fn a_static_cache_takes_as_much_as_it_holds_and_is_folded_while_the_drive_is_idle() {
    let idle = IdleModel { after: NanoSpan::from_millis(100), folds: true, collect_pct: 0.0 };
    let model = small_nvme(24, |flash| {
        flash.slc = Some(slc(2, 0, WhenFull::Direct));
        flash.idle = Some(idle);
    });
    let (quick, slow) = (slc_rate(&model), flash_of(&model).cells.program_rate().0);
    let mut bench = Bench::new(&model);
    assert_within(bench.write(GIB * 3 / 2), quick, 4.0, "into the cache");
    bench.write(GIB * 3 / 4);
    assert_within(bench.write(GIB), slow, 4.0, "past the cache");
    let unit = flash_of(&model).translation.unit.0;
    bench.rest(NanoSpan::from_millis(50));
    let full = bench.counters();
    assert_within((full.cached_units * unit) as f64, 2.0 * GIB as f64, 1.0, "what the cache took");
    assert_eq!(full.folded_units, 0, "nobody waits for room");
    bench.rest(NanoSpan::from_secs(5));
    let folded = bench.counters();
    assert_eq!(folded.folded_units, folded.cached_units, "all of it");
    assert_within(
        folded.host_units as f64,
        full.host_units as f64,
        0.1,
        "folding is no writing of the host's",
    );
    assert_within(bench.write(GIB * 3 / 2), quick, 4.0, "into the cache again");
}

/// Without idle time a drive that keeps to its cache does three things for each unit: program it once quickly and once with all
/// bits, on as many dies as may program.
#[test]
fn a_host_that_waits_for_folding_gets_what_both_programs_leave() {
    let model = small_nvme(24, |flash| flash.slc = Some(slc(1, 0, WhenFull::Fold)));
    let both = 1.0 / (1.0 / slc_rate(&model) + 1.0 / flash_of(&model).cells.program_rate().0);
    let mut bench = Bench::new(&model);
    bench.write(2 * GIB);
    assert_within(bench.write(2 * GIB), both, 6.0, "while it folds");
    let counters = bench.counters();
    assert_eq!(counters.host_units, counters.cached_units, "all goes through the cache");
}

/// A drive of 24 GiB that borrows for 4: quick for 4 GiB, then past the cache until what is borrowed (12 GiB) and what is written
/// are all there is, and then each two rows of the host's leave time for one that is folded.
#[test]
fn a_dynamic_cache_gives_back_what_it_borrowed_as_the_drive_fills() {
    let model = small_nvme(24, |flash| {
        flash.condition.history = DriveHistory::Fresh;
        flash.slc = Some(slc(0, 4, WhenFull::Direct));
    });
    let (quick, slow) = (slc_rate(&model), flash_of(&model).cells.program_rate().0);
    let mut bench = Bench::new(&model);
    assert_within(bench.write(7 * GIB / 2), quick, 4.0, "into the cache");
    bench.write(GIB);
    assert_within(bench.write(11 * GIB), slow, 4.0, "past the cache");
    bench.write(GIB);
    assert_within(bench.write(6 * GIB), slow * 2.0 / 3.0, 6.0, "while what was borrowed is given back");
    let counters = bench.counters();
    assert!(counters.folded_units > 0);
    let full = small_nvme(24, |flash| flash.slc = Some(slc(0, 4, WhenFull::Direct)));
    assert_within(Bench::new(&full).write(2 * GIB), slow, 4.0, "on a full drive nothing is borrowed");
}

/// A plan for years of steady writes once had the first 6 GB of a client's drive as its figure, 88,000/s where 16,000/s are left.
#[test]
fn a_drive_that_was_overwritten_at_random_has_its_cache_full() {
    let rate = |times, fill_pct| {
        let model = small_nvme(24, |flash| {
            flash.condition = DriveCondition { history: DriveHistory::Random(times), fill_pct };
            flash.slc = Some(slc(1, 2, WhenFull::Direct));
        });
        let slow = flash_of(&model).cells.program_rate().0;
        let mut bench = Bench::new(&model);
        let found = bench.write(GIB / 4);
        assert_eq!(bench.counters().cached_units, 0, "random:{times}, {fill_pct} %");
        (found, slow)
    };
    for (times, fill_pct) in [(1, 100), (3, 50)] {
        let (found, slow) = rate(times, fill_pct);
        assert!(found <= 1.04 * slow, "{found} into a full cache, {slow} past it");
    }
}

#[test]
fn what_is_written_again_in_the_cache_is_folded_once() {
    let model = small_nvme(24, |flash| flash.slc = Some(slc(1, 0, WhenFull::Fold)));
    let mut drive = Drive::new(&model, DriveOptions::default());
    let mut random = Random(9);
    // Places of 8 MiB in all, far fewer than the cache holds.
    let seen = drive_closed_loop(&mut drive, 64, 600_000, |_| (WRITE, random.below(2048) * 8, 8));
    let counters = drive.flash_counters().expect("it is followed");
    assert!(seen.commands_per_sec > 0.0);
    assert!(counters.folded_units * 10 < counters.cached_units, "{counters:?}");
}

#[test]
fn reads_of_what_is_in_the_cache_are_quicker() {
    let model = |slc| {
        small_nvme(24, |flash| {
            flash.condition.history = DriveHistory::Fresh;
            flash.slc = slc;
        })
    };
    let read_us = |model: &DriveModel| {
        let mut bench = Bench::new(model);
        bench.write(GIB);
        bench.rest(NanoSpan::from_secs(1));
        let mut random = Random(2);
        let all: u64 = (0..500).map(|_| bench.one(DriveOp::Read, random.below(GIB / 4096) * 8, 8).0).sum();
        all as f64 / 500e3
    };
    let cells = flash_of(&model(None)).cells;
    let faster = read_us(&model(None)) - read_us(&model(Some(slc(2, 0, WhenFull::Direct))));
    let expected = (cells.read_fast.0 + cells.read_slow.0) as f64 / 2e3 - 25.0;
    assert!((faster - expected).abs() < 1.0, "{faster} us, not {expected}");
}

/// The mean time of a read is that of one with the whole map in memory, and one more read for each that is not.
#[test]
fn a_map_that_is_cached_in_part_costs_a_read_for_each_miss() {
    let model = |map_cache| small_nvme(24, |flash| flash.translation.map_cache = map_cache);
    let mean_us = |model: &DriveModel, gib: u64| {
        let mut random = Random(5);
        let next = |_| (DriveOp::Read, random.below(gib * GIB / 4096) * 8, 8);
        let mut drive = Drive::new(model, DriveOptions::default());
        drive_warm_loop(&mut drive, 1, 20_000..40_000, next).response_ms_mean * 1e3
    };
    let cells = flash_of(&model(None)).cells;
    let transfer = cells.channel.transfer_time(ByteCount(4096)).0 as f64 / 1e3;
    let one = (cells.read_fast.0 + cells.read_slow.0) as f64 / 2e3 + transfer + cells.decode.0 as f64 / 1e3;
    let whole = mean_us(&model(None), 16);
    // 4 MiB name the places of 4 GiB.
    let part = model(Some(ByteCount::from_mib(4)));
    for (gib, missed) in [(2, 0.0), (8, 0.5), (16, 0.75)] {
        assert_within(mean_us(&part, gib), whole + missed * one, 2.0, &format!("over {gib} GiB"));
    }
}

#[test]
fn writes_at_random_over_a_map_that_is_not_in_memory_write_the_map_too() {
    let written = |map_cache| {
        let model = small_nvme(24, |flash| flash.translation.map_cache = map_cache);
        let mut drive = Drive::new(&model, DriveOptions::default());
        let mut random = Random(5);
        let places = model.capacity.0 / 8;
        let seen = drive_closed_loop(&mut drive, 64, 60_000, |_| (WRITE, random.below(places) * 8, 8));
        (seen.commands_per_sec, drive.flash_counters().expect("it is followed"))
    };
    let (whole, counters) = written(None);
    assert_eq!(counters.upkeep_units, 0);
    // A page of the map is worth a unit, and nearly each write of the host's puts out one that was changed.
    let (part, counters) = written(Some(ByteCount::from_kib(64)));
    assert_within(counters.upkeep_units as f64, counters.host_units as f64, 3.0, "pages of the map");
    assert!(part < 0.8 * whole, "{part} and {whole} a second");
}

#[test]
fn upkeep_is_a_share_of_the_writes_and_a_rate_of_what_is_there() {
    let run = |levelling_pct, refresh: Option<NanoSpan>| {
        let model = small_nvme(24, |flash| {
            (flash.upkeep.levelling_pct, flash.upkeep.refresh) = (levelling_pct, refresh);
        });
        let mut bench = Bench::new(&model);
        let rate = bench.write(4 * GIB);
        (rate, bench.counters(), bench.now.0 as f64)
    };
    let (without, ..) = run(0.0, None);
    let (rate, counters, _) = run(25.0, None);
    assert_within(counters.upkeep_units as f64, counters.host_units as f64 * 0.25, 1.0, "wear levelling");
    assert_within(rate, without / 1.25, 3.0, "a fifth of the programs are not the host's");
    // Refresh in an hour is absurd, and shows.
    let hour = NanoSpan::from_secs(3600);
    let (_, counters, ns) = run(0.0, Some(hour));
    let expected = (24 * GIB / 4096) as f64 * ns / hour.0 as f64;
    assert_within(counters.upkeep_units as f64, expected, 5.0, "refresh");
}

/// Cycles used raise the share of reads that are tried again, linearly; each of these takes a second sense.
#[test]
fn worn_flash_reads_again_in_proportion_to_its_cycles() {
    let mean_us = |used_pct| {
        let model = small_nvme(24, |flash| {
            flash.cells.retry_pct = 1.0;
            flash.wear = Some(WearModel { used_pct, retry_pct: 21.0 });
        });
        let (mut bench, mut random) = (Bench::new(&model), Random(6));
        let count = 20_000;
        for _ in 0..count {
            bench.one(DriveOp::Read, random.below(24 * GIB / 4096) * 8, 8);
        }
        bench.now.0 as f64 / 1e3 / f64::from(count)
    };
    let again_us = flash_of(&small_nvme(24, |_| {})).cells.read_slow.0 as f64 / 1e3;
    let new = mean_us(0.0);
    for (used_pct, more) in [(50.0, 0.10), (100.0, 0.20), (150.0, 0.30)] {
        assert_within(mean_us(used_pct) - new, more * again_us, 5.0, "tried again");
    }
}

/// A hot drive writes at the rate that its limit says, and at its own again when it has rested.
#[test]
fn limits_of_heat_set_in_after_their_time_and_end_with_a_rest() {
    let after = NanoSpan::from_secs(2);
    let limit = 400e6;
    let model = small_nvme(24, |flash| {
        let caps = CapModel { write_rate: Some(BytesPerSec(limit)), ..CapModel::default() };
        flash.heat = Some(HeatModel { after, caps });
    });
    let mut bench = Bench::new(&model);
    let cool = bench.write(GIB);
    assert!(bench.now < Nanos::ZERO + after && cool > 2.0 * limit, "{cool} a second");
    while bench.now < Nanos::ZERO + after {
        bench.write(GIB / 4);
    }
    assert_within(bench.write(GIB), limit, 3.0, "hot");
    bench.rest(NanoSpan::from_secs(1));
    assert_within(bench.write(GIB / 4), limit, 3.0, "not cold yet");
    bench.rest(after);
    assert_within(bench.write(GIB), cool, 3.0, "cold again");
}

#[test]
fn a_drive_that_collects_while_it_is_idle_has_room_for_a_burst() {
    let burst = |idle| {
        let model = small_nvme(24, |flash| {
            flash.condition.history = DriveHistory::Random(2);
            flash.idle = idle;
        });
        let mut bench = Bench::new(&model);
        let mut random = Random(8);
        bench.one(WRITE, 0, 8);
        bench.rest(NanoSpan::from_secs(60));
        let before = bench.counters();
        let places = model.capacity.0 / 8;
        (drive_on(&mut bench, 0..60_000, |_| (WRITE, random.below(places) * 8, 8)), before)
    };
    let idle = IdleModel { after: NanoSpan::from_millis(10), folds: false, collect_pct: 4.0 };
    let ((without, before), (with, after)) = (burst(None), burst(Some(idle)));
    assert_eq!(before.moved_units, 0);
    assert!(after.moved_units > 0 && after.programs > before.programs, "{after:?}");
    assert!(with > 1.5 * without, "{with} and {without} a second");
}

/// Random writes over the half of a full drive that was not trimmed are as quick as on a drive that was only half filled.
#[test]
fn what_was_trimmed_is_spare_room() {
    let rate = |fill_pct, is_trimmed| {
        let mut model = small_nvme(1, |flash| {
            flash.condition = DriveCondition { history: DriveHistory::Random(3), fill_pct };
            flash.cells.block = ByteCount::from_kib(48);
        });
        model.capacity = SectorCount(GIB / 1024);
        let mut bench = Bench::new(&model);
        let half = model.capacity.0 / 2;
        let trims = if is_trimmed { half / LONG } else { 0 };
        for i in 0..trims {
            bench.one(DriveOp::Trim, half + i * LONG, LONG);
        }
        let trimmed = bench.counters().trimmed_units;
        let mut random = Random(3);
        // At first what lies beside trimmed data is collected, which is cheaper still.
        (drive_on(&mut bench, 400_000..450_000, |_| (WRITE, random.below(half / 8) * 8, 8)), trimmed)
    };
    let ((full, none), (half, _), (trimmed, units)) = (rate(100, false), rate(50, false), rate(100, true));
    assert_eq!((none, units), (0, GIB / 4 / 4096));
    assert!(half > 2.0 * full, "half full: {half}, full: {full}");
    assert_within(trimmed, half, 5.0, "trimmed");
}

/// Commands per second, 64 at once, of those counted.
fn drive_on(
    bench: &mut Bench,
    counted: core::ops::Range<u64>,
    mut next: impl FnMut(u64) -> (DriveOp, u64, u64),
) -> f64 {
    let mut send = |bench: &mut Bench, id, i| {
        let (op, start, sectors) = next(i);
        bench.send(id, op, start, sectors);
    };
    (0..64).for_each(|id| send(bench, id, u64::from(id)));
    let mut began = bench.now;
    for i in 0..counted.end {
        if i == counted.start {
            began = bench.now;
        }
        let id = bench.finish();
        send(bench, id, i + 64);
    }
    (counted.end - counted.start) as f64 / (bench.now - began).as_secs_f64()
}

#[test]
fn a_read_of_what_was_trimmed_needs_no_flash_and_a_write_ends_that() {
    let model = small_nvme(24, |flash| flash.buffer.protected = false);
    let mut bench = Bench::new(&model);
    let read_us = |bench: &mut Bench, place: u64| bench.one(DriveOp::Read, place * LONG, 8).0 as f64 / 1e3;
    assert!(read_us(&mut bench, 3) > 50.0);
    bench.one(DriveOp::Trim, 0, 16 * LONG);
    assert!(read_us(&mut bench, 3) < 25.0);
    assert!(read_us(&mut bench, 16) > 50.0, "it was not in the range");
    // What is in the buffer goes, too, and a flush finds nothing to wait for: less than a row is in no program yet.
    bench.one(WRITE, 3 * LONG, 8);
    bench.one(DriveOp::Trim, 3 * LONG, LONG);
    let flushed = bench.one(DriveOp::Flush, 0, 0);
    assert!(flushed < NanoSpan::from_micros(50), "{flushed}");
    bench.one(WRITE, 3 * LONG, 16 * LONG);
    bench.one(DriveOp::Flush, 0, 0);
    bench.rest(NanoSpan::from_secs(1));
    assert!(read_us(&mut bench, 4) > 50.0);
    // A range that covers no whole unit changes nothing.
    bench.one(DriveOp::Trim, 20 * LONG + 1, 7);
    assert!(read_us(&mut bench, 20) > 50.0);
}

/// Drives of the catalogue with a pseudo-SLC cache, a 64th of them: as fast as their sheets say until the cache is full, and as
/// slow from then on.
#[test]
fn drives_of_the_catalogue_slow_down_past_their_caches_as_their_sheets_say() {
    /// A 64th in capacity, cache and blocks, and in the time to erase a block, so that a program costs as much.
    const SCALE: u64 = 64;
    /// Name, MB/s into the cache, MB/s past it.
    type Row = (&'static str, f64, f64);
    let rows: [Row; 3] = [
        ("samsung-870-qvo-4000", 530.0, 160.0),
        ("intel-660p-1024", 1800.0, 100.0),
        ("samsung-980-pro-1000", 5000.0, 2000.0),
    ];
    for (id, into, past) in rows {
        let mut model = Catalog::builtin().drive(id).expect("in the catalogue").clone();
        model.capacity = SectorCount(model.capacity.0 / SCALE);
        let DriveKind::Flash(flash) = &mut model.kind else { panic!("it has a translation layer") };
        flash.condition.history = DriveHistory::Fresh;
        flash.cells.block = ByteCount(flash.cells.block.0 / SCALE);
        flash.cells.erase = NanoSpan(flash.cells.erase.0 / SCALE);
        let slc = flash.slc.as_mut().expect("it has a cache");
        slc.static_size = ByteCount(slc.static_size.0 / SCALE);
        slc.dynamic_size = ByteCount(slc.dynamic_size.0 / SCALE);
        let cache = slc.size().0;
        let mut bench = Bench::new(&model);
        assert_within(bench.write(cache * 9 / 10), into * 1e6, 5.0, &format!("{id}, into the cache"));
        bench.write(cache / 5);
        assert_within(bench.write(cache / 2), past * 1e6, 5.0, &format!("{id}, past the cache"));
    }
}
