//! Where the time of requests goes: the parts add up to the latency on every array, and are right where hand
//! calculation is possible.

mod drives;

use drives::{config, controller, drive};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};
use raidlab_controller::{MemberCache, WritePolicy};
use raidlab_hardware::{Catalog, DualModel, LinkModel};
use raidlab_sim::{
    ControllerFailure, ControllerName, LoadRegion, SecondController, SimulatedEnclosure, SimulatedVolume,
    SimulationLoad, Station, TimesOutcome, simulate_attributed, simulate_enclosure,
};
use raidlab_units::{BlockSize, ByteCount, BytesPerSec, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, ArrivalProcess, Arrivals, Pacing, RequestRate};

fn enclosure(level: &str, members: u16) -> SimulatedEnclosure {
    let volume = SimulatedVolume {
        config: config(level, members),
        drive: drive(),
        owner: ControllerName::A,
        beside: None,
    };
    SimulatedEnclosure { controller: controller(), second: None, volumes: vec![volume] }
}

/// Drives of another kind behind the controller that suits them.
fn with_drives(mut enclosure: SimulatedEnclosure, drive: &str, controller: &str) -> SimulatedEnclosure {
    let catalog = Catalog::builtin();
    enclosure.controller = catalog.controller(controller).expect("in the catalogue").clone();
    for volume in &mut enclosure.volumes {
        volume.drive = catalog.drive(drive).expect("in the catalogue").clone();
        volume.config.block_size = BlockSize::B4096;
        volume.config.member_size = ByteCount::from_gib(80);
    }
    enclosure
}

fn load(line: AccessLine, iodepth: u32, run: NanoSpan) -> SimulationLoad {
    SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region: LoadRegion::Bytes(ByteCount::from_gib(4)),
        ramp: NanoSpan(run.0 / 4),
        run,
        seed: 7,
    }
}

/// Runs it, and checks the law.
fn times(enclosure: &SimulatedEnclosure, load: &SimulationLoad) -> TimesOutcome {
    let outcome = simulate_attributed(enclosure, load).unwrap_or_else(|error| panic!("{error}"));
    let times = outcome.times.expect("it was asked for, and requests ended");
    assert_eq!(times.stays.total(), times.lat_ns, "parts add up");
    let total = outcome.measurement.summaries().total;
    assert_eq!(times.requests, total.requests - total.errors);
    let mean = times.lat_ns as f64 / times.requests as f64;
    assert!((mean - total.lat_ns_mean).abs() < 1.0, "{mean} {}", total.lat_ns_mean);
    times
}

/// Share of all time that is spent at `place`.
fn share(times: &TimesOutcome, place: Station) -> f64 {
    let stay = times.stays.at(place);
    (stay.waiting + stay.service) as f64 / times.lat_ns as f64
}

const TENTH_SEC: NanoSpan = NanoSpan::from_millis(100);

#[test]
fn one_read_at_a_time_waits_for_the_arm_and_the_platter() {
    let read = AccessLine::plain(8192, 100, 100);
    let times = times(&enclosure("0", 2), &load(read, 1, NanoSpan::from_secs(5)));
    let mechanics = share(&times, Station::Arm) + share(&times, Station::Platters);
    assert!(mechanics > 0.9, "{times:?}");
    assert_eq!(times.stays.at(Station::DriveQueue).waiting, 0, "{times:?}");
    assert_eq!(times.stays.at(Station::Lock).waiting, 0, "{times:?}");
}

#[test]
fn many_reads_wait_in_the_line_and_in_the_drives() {
    let read = AccessLine::plain(8192, 100, 100);
    let times = times(&enclosure("0", 2), &load(read, 256, NanoSpan::from_secs(5)));
    let waiting = share(&times, Station::MemberLine) + share(&times, Station::DriveQueue);
    assert!(waiting > 0.9, "{times:?}");
}

/// All requests write to one stripe, which one operation at a time works on.
#[test]
fn writes_to_one_stripe_wait_for_its_lock() {
    let mut load = load(AccessLine::plain(4096, 0, 100), 8, NanoSpan::from_secs(5));
    load.region = LoadRegion::Bytes(ByteCount::from_kib(192));
    let locked = times(&enclosure("5", 4), &load);
    let waits = share(&locked, Station::Lock) + share(&locked, Station::Gathering);
    assert!(waits > 0.3, "{locked:?}");
    load.region = LoadRegion::Bytes(ByteCount::from_gib(400));
    let apart = times(&enclosure("5", 4), &load);
    assert!(share(&apart, Station::Lock) < 0.02, "{apart:?}");
}

#[test]
fn a_full_cache_is_where_writes_wait() {
    let mut enclosure = enclosure("5", 4);
    let cache = &mut enclosure.volumes[0].config.cache;
    cache.write_policy = WritePolicy::WriteBack;
    cache.size = ByteCount::from_mib(4);
    let times = times(&enclosure, &load(AccessLine::plain(8192, 0, 100), 64, NanoSpan::from_secs(10)));
    assert!(share(&times, Station::CacheRoom) > 0.8, "{times:?}");
}

#[test]
fn a_flash_read_is_its_dies_and_a_steady_write_waits_for_garbage_collection() {
    let flash = with_drives(enclosure("0", 1), "generic-nvme", "linux-md-nvme");
    let reads = times(&flash, &load(AccessLine::plain(4096, 100, 100), 1, NanoSpan::from_millis(50)));
    assert!(share(&reads, Station::Dies) > 0.5, "{reads:?}");
    assert_eq!(reads.stays.at(Station::Dies).waiting, 0, "one read at a time finds all dies idle: {reads:?}");
    assert_eq!(reads.stays.at(Station::Channels).waiting, 0, "{reads:?}");
    // A request at each of them beside others takes as long to sense, and waits for its die and channel before.
    let many = times(&flash, &load(AccessLine::plain(4096, 100, 100), 512, NanoSpan::from_millis(50)));
    let mean = |times: &TimesOutcome, station| times.mean(station);
    let (alone, crowded) = (mean(&reads, Station::Dies), mean(&many, Station::Dies));
    assert!((crowded.service / alone.service - 1.0).abs() < 0.05, "{alone:?} {crowded:?}");
    assert!(crowded.waiting > 0.2 * crowded.service, "{crowded:?}");
    let mut write = load(AccessLine::plain(4096, 0, 100), 256, TENTH_SEC);
    write.region = LoadRegion::StrokePct(100);
    let writes = times(&flash, &write);
    assert!(share(&writes, Station::Collection) > 0.2, "{writes:?}");
}

/// What arrives while all places are taken starts late.
#[test]
fn late_starts_are_at_the_host() {
    let mut load = load(AccessLine::plain(8192, 100, 100), 4, NanoSpan::from_secs(5));
    let rate = RequestRate::new(1000.0).expect("above zero");
    load.workload.pacing = Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 });
    load.workload.iodepth = Some(4);
    assert!(share(&times(&enclosure("0", 2), &load), Station::Host) > 0.5);
}

#[test]
fn a_failover_is_told_as_waiting_at_the_host() {
    let mut enclosure = enclosure("5", 5);
    let dual = DualModel {
        mirror_link: LinkModel { rate: BytesPerSec::from_mb_per_s(200.0), per_transfer: NanoSpan(10_000) },
        member_link_shared: false,
        failover_detection: NanoSpan::from_millis(1_500),
    };
    let failure = ControllerFailure { controller: ControllerName::A, after: NanoSpan::from_secs(1) };
    enclosure.second = Some(SecondController { dual, failure: Some(failure) });
    enclosure.volumes[0].config.cache.write_policy = WritePolicy::WriteThrough;
    let times = times(&enclosure, &load(AccessLine::plain(8192, 50, 100), 16, NanoSpan::from_secs(6)));
    assert!(times.stays.at(Station::Host).waiting > 16 * 1_500_000_000, "{times:?}");
}

fn any_enclosure() -> impl Strategy<Value = SimulatedEnclosure> {
    let levels = prop_oneof![
        Just(("0", 1)),
        Just(("0", 3)),
        Just(("1", 2)),
        Just(("5", 4)),
        Just(("6", 5)),
        Just(("10", 4)),
    ];
    let parts = prop_oneof![
        Just(None),
        Just(Some(("pliant-lb150", "perc-h800"))),
        Just(Some(("generic-nvme", "linux-md-nvme"))),
        Just(Some(("generic-sata-ssd", "linux-md"))),
    ];
    (levels, parts, any::<bool>(), any::<bool>(), 2_u64..40).prop_map(
        |((level, members), parts, write_back, member_cache, mib)| {
            let mut enclosure = enclosure(level, members);
            if let Some((drive, controller)) = parts {
                enclosure = with_drives(enclosure, drive, controller);
            }
            let config = &mut enclosure.volumes[0].config;
            if write_back {
                config.cache.write_policy = WritePolicy::WriteBack;
            }
            config.cache.size = ByteCount::from_mib(mib);
            config.member_cache = if member_cache { MemberCache::On } else { MemberCache::Off };
            enclosure
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The parts of each request add up to its latency (which is asserted for each), and to follow them changes nothing.
    #[test]
    fn parts_add_up_and_following_them_changes_nothing(
        enclosure in any_enclosure(),
        kib in prop_oneof![Just(4_u32), Just(8), Just(48), Just(300)],
        (read_pct, random_pct) in (0_u8..=100, 0_u8..=100),
        iodepth in prop_oneof![Just(1_u32), Just(8), Just(100)],
        seed in any::<u64>(),
    ) {
        let line = AccessLine::plain(kib * 1024, read_pct, random_pct);
        let load = SimulationLoad { seed, ..load(line, iodepth, NanoSpan::from_millis(100)) };
        let (followed, plain) = (simulate_attributed(&enclosure, &load), simulate_enclosure(&enclosure, &load));
        let (followed, plain) = (followed.expect("it runs"), plain.expect("it runs"));
        prop_assert_eq!(followed.measurement.summaries(), plain.measurement.summaries());
        prop_assert_eq!((followed.events, followed.counters), (plain.events, plain.counters));
        prop_assert!(plain.times.is_none());
        if let Some(times) = followed.times {
            prop_assert_eq!(times.stays.total(), times.lat_ns);
        }
    }
}
