//! Links between processors and drives: a network (`NVMe` over Ethernet), and the sockets of a host.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache};
use raidlab_hardware::{Catalog, ControllerModel, EnclosureModel, HostOpKind, SocketsModel};
use raidlab_sim::{
    LoadRegion, SimulatedArray, SimulationLoad, SimulationOutcome, Station, simulate_attributed,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec};

/// md over `NVMe`, its drives in the server.
fn md() -> ControllerModel {
    Catalog::builtin().controller("linux-md-nvme").expect("there").clone()
}

/// The same drives in an enclosure whose port is `lanes` of `link`.
fn enclosure(link: &str, lanes: f64) -> EnclosureModel {
    let catalog = Catalog::builtin();
    let standard = catalog.link(link).expect("there");
    let mut enclosure = catalog.enclosure("openflex-data24").expect("there").clone();
    enclosure.port = standard.usual;
    enclosure.port.rate.0 *= lanes;
    enclosure.fabric = standard.fabric;
    enclosure
}

fn run(
    controller: ControllerModel,
    level: &str,
    members: u16,
    line: AccessLine,
    iodepth: u32,
) -> SimulationOutcome {
    let drive = Catalog::builtin().drive("generic-nvme").expect("there").clone();
    let cache = CacheConfig { size: ByteCount::ZERO, ..CacheConfig::default() };
    let config = ArrayConfig {
        member_size: ByteCount::from_gib(80),
        member_cache: MemberCache::On,
        staging_size: ByteCount::from_mib(64),
        ..raidlab_testkit::array(level, members, cache)
    };
    let array = SimulatedArray { config, drive, controller };
    let load = SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region: LoadRegion::Bytes(ByteCount::from_gib(16)),
        ramp: NanoSpan::from_millis(10),
        run: NanoSpan::from_millis(60),
        seed: 5,
    };
    let outcome = simulate_attributed(&array.enclosure(), &load).unwrap_or_else(|error| panic!("{error}"));
    let times = outcome.times.as_ref().expect("requests ended");
    assert_eq!(times.stays.total(), times.lat_ns, "parts add up");
    outcome
}

fn lat_ns(outcome: &SimulationOutcome) -> f64 {
    outcome.measurement.summaries().total.lat_ns_mean
}

#[test]
fn one_read_at_a_time_takes_the_local_time_and_what_the_network_adds() {
    let read = || AccessLine::plain(4096, 100, 100);
    let local = run(md(), "0", 4, read(), 1);
    for (link, added_us) in [("nvme-rdma-100g", 8.0 + 1.5), ("nvme-tcp-100g", 20.0 + 8.0 + 0.4)] {
        let controller = md().behind(&enclosure(link, 6.0));
        let fabric = controller.fabric.expect("it is a network");
        let of_link = (fabric.latency + fabric.initiator.of(HostOpKind::Read, ByteCount(4096))).0 as f64;
        assert!((of_link / 1e3 - added_us).abs() < 0.01, "{link}: {of_link}");
        // The port is narrower than the server's lanes, which a transfer shows.
        let bytes = ByteCount(4096);
        let narrower = (controller.member_read_time(bytes) - md().member_read_time(bytes)).0 as f64;
        let remote = run(controller, "0", 4, read(), 1);
        let added = lat_ns(&remote) - lat_ns(&local);
        assert!(
            (added - of_link - narrower).abs() < 150.0,
            "{link}: {added} ns, {of_link} + {narrower} expected"
        );
        let link_time = remote.times.expect("asked for").stays.at(Station::MemberLink).service;
        assert!(link_time > 0, "it is the link's time");
    }
}

#[test]
fn latency_is_nobody_elses_but_the_port_is() {
    // Commands overlap on their way: 256 reads of 4 KiB in flight are not held to 1 / 20 us.
    let read = AccessLine::plain(4096, 100, 100);
    let outcome = run(md().behind(&enclosure("nvme-tcp-100g", 1.0)), "0", 8, read, 256);
    let iops = outcome.measurement.summaries().total.iops.0;
    assert!(iops > 500_000.0, "{iops}");
    // One port of 25 Gb/s carries 2969 MB/s, whatever the drives can do.
    let stream = AccessLine::plain(1 << 17, 100, 0);
    let outcome = run(md().behind(&enclosure("nvme-tcp-25g", 1.0)), "0", 8, stream, 128);
    let rate = outcome.measurement.summaries().total.bytes_per_sec.mb_per_s();
    assert!((2820.0..2975.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn writes_parity_and_flushes_pass_the_network_too() {
    let write = || AccessLine::plain(4096, 0, 100);
    let local = lat_ns(&run(md(), "5", 4, write(), 1));
    let remote = lat_ns(&run(md().behind(&enclosure("nvme-rdma-100g", 6.0)), "5", 4, write(), 1));
    // Old data and parity are read, then both are written: the way twice, and a processor makes a command in each.
    let added_us = (remote - local) / 1e3;
    assert!((2.0 * 8.0..2.0 * (8.0 + 2.0 * 1.5) + 3.0).contains(&added_us), "{added_us} us");
}

/// md on a host of today.
fn on(host: &str, change: impl Fn(&mut SocketsModel)) -> ControllerModel {
    let mut host = Catalog::builtin().host(host).expect("there").clone();
    change(host.sockets.as_mut().expect("it is of today"));
    md().on_host(&host)
}

#[test]
fn half_of_all_commands_go_to_the_other_socket() {
    let read = || AccessLine::plain(4096, 100, 100);
    let near = on("xeon-8380-2s", |sockets| {
        sockets.remote.as_mut().expect("two").command = NanoSpan::ZERO;
    });
    let far = on("xeon-8380-2s", |sockets| {
        sockets.remote.as_mut().expect("two").command = NanoSpan::from_micros(10);
    });
    let (near, far) = (lat_ns(&run(near, "0", 4, read(), 1)), lat_ns(&run(far, "0", 4, read(), 1)));
    assert!((4_500.0..5_500.0).contains(&(far - near)), "{far} {near}");
    let one = on("epyc-7402p", |_| ());
    assert_eq!((one.processors, one.member_lanes), (24, 24));
}

#[test]
fn memory_carries_what_drives_and_processors_move() {
    let rate = |memory_mb: f64, level, read_pct| {
        let controller = on("epyc-7402p", |sockets| sockets.memory_rate.0 = memory_mb * 1e6);
        let outcome = run(controller, level, 4, AccessLine::plain(1 << 17, read_pct, 0), 32);
        (outcome.measurement.summaries().total.bytes_per_sec.mb_per_s(), outcome.utilisation.memory)
    };
    // A read byte passes memory once, on its way from the drive.
    let (read, busy) = rate(2_000.0, "0", 100);
    assert!((1_900.0..2_001.0).contains(&read), "{read} MB/s");
    assert!(busy > 0.97, "{busy}");
    // RAID 5 of four copies a byte (2), reads it for parity (1), writes a third of parity, and stores 4/3 of it: 4 2/3 at least.
    let (written, _) = rate(2_000.0, "5", 0);
    assert!(written < 2_000.0 / (2.0 + 1.0 + 1.0 / 3.0 + 4.0 / 3.0) * 1.02, "{written} MB/s");
    let (free, _) = rate(160_000.0, "0", 100);
    assert!(free > 3.0 * read, "{free} MB/s");
}

#[test]
fn what_a_host_does_not_change_is_refused() {
    let mut catalog = Catalog::builtin();
    let rows = [
        ("megaraid-9560-16i", "epyc-7402p", "processors and memory of its own"),
        ("linux-md-nvme", "noral3", "files only"),
        ("linux-md-nvme", "epyc-7402", "epyc-7402p"),
    ];
    for (controller, host, expected) in rows {
        let error = catalog.put_on_host(controller, host).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    catalog.put_on_host("linux-md-nvme", "epyc-9554-2s").expect("software on sockets");
    assert_eq!(catalog.controller("linux-md-nvme").expect("there").processors, 128);
}
