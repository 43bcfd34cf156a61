//! Readers on a file server of the catalogue: their limits, and that results repeat.

use super::*;
use crate::array::{ControllerName, SimError, SimulatedEnclosure, SimulatedVolume};
use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, ReadPolicy, Resilience};
use raidlab_hardware::{Catalog, Transport};
use raidlab_units::{BlockSize, ByteCount, BytesPerSec, NanoSpan};
use raidlab_workload::program::{FileId, Readers, ReadersConfig};

const FILE: ByteCount = ByteCount::from_mib(16);

/// `streams` readers with two files each on a server with `controllers` RAID 5 volumes of six drives.
fn server(controllers: u16, streams: u32) -> (StreamsSpec, Readers) {
    let catalog = Catalog::builtin();
    let (controller, drive) = (catalog.controller("3ware-7850").unwrap(), catalog.drive("wd1000bb").unwrap());
    let config = ArrayConfig {
        level: "5".parse().unwrap(),
        members: 6,
        strip_size: controller.strip_size,
        member_cache: MemberCache::On,
        block_size: BlockSize::B512,
        member_size: ByteCount::from_gib(20),
        cache: CacheConfig { read_policy: ReadPolicy::NoReadAhead, ..CacheConfig::default() },
        staging_size: ByteCount::from_mib(16),
        resilience: Resilience::default(),
    };
    let volume = SimulatedVolume { config, drive: drive.clone(), owner: ControllerName::A, beside: None };
    let enclosure =
        SimulatedEnclosure { controller: controller.clone(), second: None, volumes: vec![volume] };
    let file = |number: u32| PlacedFile {
        volume: (number % streams % u32::from(controllers)) as u16,
        start: ByteCount(u64::from(number) * (512 << 20) + u64::from(number % 7) * 4096),
        bytes: FILE,
        map: None,
    };
    let spec = StreamsSpec {
        server: catalog.server("asa").unwrap().clone(),
        enclosures: vec![enclosure; usize::from(controllers)],
        volumes: (0..controllers)
            .map(|port| StreamsVolume { parts: vec![(port, 0)], chunk: ByteCount::from_kib(64) })
            .collect(),
        files: (0..streams * 2).map(file).collect(),
        map_every: Some(ByteCount::from_mib(4)),
        nfs: None,
    };
    let files = (0..streams).map(|stream| vec![FileId(stream), FileId(stream + streams)]).collect();
    (spec, Readers::new(ReadersConfig { block: ByteCount::from_mib(1), files }).unwrap())
}

fn with_nfs(mut spec: StreamsSpec, transport: Transport, mtu: u64) -> StreamsSpec {
    let catalog = Catalog::builtin();
    spec.nfs = Some(NfsSpec {
        server: spec.server.nfs.unwrap(),
        network: catalog.network("sk-9843").unwrap().clone(),
        transfer: ByteCount::from_kib(8),
        mtu: ByteCount(mtu),
        transport,
    });
    spec
}

/// The readers' rates in MB/s, and what came of it.
fn run((spec, mut readers): (StreamsSpec, Readers)) -> (Vec<f64>, StreamsOutcome) {
    let outcome = simulate_streams(&spec, &mut readers, 7).unwrap();
    (readers.figures().map(|figures| figures.unwrap().rate().mb_per_s()).collect(), outcome)
}

fn total(server: (StreamsSpec, Readers)) -> f64 {
    run(server).0.iter().sum()
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    assert_eq!(run(server(2, 5)), run(server(2, 5)));
}

#[test]
fn every_timed_file_is_read_whole_and_its_map_before_it() {
    let (_, outcome) = run(server(1, 1));
    // 16 MiB in pieces of 64 KiB, and a block of the map before each 4 MiB.
    assert_eq!(outcome.requests, 256 + 4);
}

#[test]
fn a_map_that_stands_apart_costs_its_readers_seeks() {
    let [between, apart] = [false, true].map(|is_apart| {
        let (mut spec, readers) = server(1, 1);
        for (number, file) in (0..).zip(&mut spec.files) {
            file.map = is_apart.then(|| ByteCount((80 << 30) + number * (256 << 20)));
        }
        run((spec, readers))
    });
    assert_eq!(apart.1.requests, between.1.requests, "as many blocks of it are read");
    let (near, far) = (between.0[0], apart.0[0]);
    assert!(far < 0.97 * near, "{near} MB/s with the map between the data, {far} apart from it");
}

#[test]
fn more_readers_of_one_volume_get_less_in_all_and_two_volumes_give_more() {
    let [one, many, two] = [server(1, 1), server(1, 16), server(2, 32)].map(total);
    assert!(many < one * 0.7, "seeks cost nothing: {one} MB/s alone, {many} together");
    assert!((1.7..2.3).contains(&(two / many)), "{two} on two volumes, {many} on one");
}

#[test]
fn a_bus_that_controllers_share_bounds_what_they_bring_together() {
    let mut slow = server(2, 2);
    slow.0.server.bus.rate = BytesPerSec::from_mb_per_s(40.0);
    let (rates, outcome) = run(slow);
    assert!((36.0..40.5).contains(&rates.iter().sum::<f64>()), "{rates:?}");
    assert!(outcome.bus > 0.95, "{outcome:?}");
}

#[test]
fn a_software_stripe_reads_from_all_parts_at_once_and_takes_its_data_in_turn() {
    let one = total(server(1, 1));
    let mut striped = server(2, 1);
    striped.0.volumes = vec![StreamsVolume { parts: vec![(0, 0), (1, 0)], chunk: ByteCount::from_kib(512) }];
    striped.0.server.bus.rate = BytesPerSec::from_mb_per_s(500.0);
    let (rates, outcome) = run(striped);
    assert!(rates[0] > 1.3 * one, "{} MB/s striped, {one} on one volume", rates[0]);
    assert!(outcome.requests >= 256 + 4);
}

#[test]
fn the_first_window_of_a_file_covers_the_first_read_and_the_next_ones_double() {
    let rate = |block| {
        let (mut spec, _) = server(2, 1);
        spec.volumes = vec![StreamsVolume { parts: vec![(0, 0), (1, 0)], chunk: ByteCount::from_kib(512) }];
        let files = vec![vec![FileId(0), FileId(1)]];
        total((spec, Readers::new(ReadersConfig { block: ByteCount::from_kib(block), files }).unwrap()))
    };
    let [short, long] = [16, 1024].map(rate);
    assert!(short < 0.95 * long, "{short} MB/s in short reads, {long} in long ones");
}

#[test]
fn a_reader_that_sleeps_for_its_map_copies_nothing() {
    let seconds = |map_every| {
        let (mut spec, readers) = server(1, 1);
        // Copying hides all other waits.
        spec.server.copy = BytesPerSec::from_mb_per_s(40.0);
        spec.map_every = Some(map_every);
        FILE.0 as f64 / 1e6 / total((spec, readers))
    };
    let slept = seconds(ByteCount::from_mib(1)) - seconds(FILE);
    let command = Catalog::builtin().controller("3ware-7850").unwrap().host_command.read;
    assert!(slept > 15.0 * command.as_secs_f64(), "{slept} s for 15 blocks more of the map");
}

#[test]
fn clients_lose_where_the_server_forgets_their_windows() {
    let with = |remembered_files| {
        let (spec, readers) = server(1, 4);
        let mut spec = with_nfs(spec, Transport::Udp, 9000);
        spec.nfs.as_mut().unwrap().server.remembered_files = remembered_files;
        total((spec, readers))
    };
    let [all, none] = [4, 0].map(with);
    assert!(none < 0.7 * all, "{all} MB/s with windows, {none} without");
}

#[test]
fn small_packets_and_tcp_cost_the_client() {
    // Seconds of its processor.
    let taken = |transport, mtu| {
        let (spec, readers) = server(1, 1);
        let (_, outcome) = run((with_nfs(spec, transport, mtu), readers));
        outcome.client * outcome.virtual_time.as_secs_f64()
    };
    let [jumbo, small, tcp] = [(Transport::Udp, 9000), (Transport::Udp, 1500), (Transport::Tcp, 9000)]
        .map(|(transport, mtu)| taken(transport, mtu));
    assert!(small > 1.2 * jumbo && tcp > 1.2 * jumbo, "{jumbo} {small} {tcp}");
}

#[test]
fn each_reader_keeps_to_one_of_its_clients_processors() {
    let rate = |readers, client_processors| {
        let (spec, program) = server(2, readers);
        let mut spec = with_nfs(spec, Transport::Udp, 9000);
        let client = &mut spec.nfs.as_mut().unwrap().server;
        // What the client takes for a call hides all other waits.
        client.client_call_udp = NanoSpan::from_millis(2);
        client.client_processors = client_processors;
        total((spec, program))
    };
    // Readers, processors of the client, and how many processors then work.
    for (readers, processors, busy) in [(1, 2, 1.0), (2, 1, 1.0), (2, 2, 2.0), (2, 4, 2.0)] {
        let times = rate(readers, processors) / rate(1, 1);
        assert!((0.95 * busy..1.05 * busy).contains(&times), "{readers} on {processors}: {times}");
    }
}

#[test]
fn files_of_any_length_are_read_whole() {
    for (bytes, block) in [(1, 1 << 20), (1000, 700), (4097, 4096), (333_000, 65_536), (1_000_000, 1 << 20)] {
        for by_nfs in [false, true] {
            let (mut spec, _) = server(1, 2);
            spec.files.iter_mut().for_each(|file| file.bytes = ByteCount(bytes));
            let files = (0..2).map(|stream| vec![FileId(stream), FileId(stream + 2)]).collect();
            let mut readers = Readers::new(ReadersConfig { block: ByteCount(block), files }).unwrap();
            let spec = if by_nfs { with_nfs(spec, Transport::Udp, 1500) } else { spec };
            simulate_streams(&spec, &mut readers, 7).unwrap();
            let read: Vec<u64> = readers.figures().map(|figures| figures.unwrap().bytes).collect();
            assert_eq!(read, [bytes; 2], "{bytes} in reads of {block}, by NFS: {by_nfs}");
        }
    }
}

#[test]
fn a_file_beyond_its_volume_is_refused() {
    let (mut spec, mut readers) = server(1, 1);
    spec.files[1].start = ByteCount::from_gib(100);
    let error = simulate_streams(&spec, &mut readers, 1).unwrap_err();
    assert!(matches!(error, SimError::RegionTooLarge { .. }), "{error}");
}
