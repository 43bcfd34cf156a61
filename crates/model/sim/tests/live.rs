//! An array with requests from outside against the simulation of the same array, and its members coming and going.

use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, DeviceState, HostOp, HostRequest, HostTag, MetadataPolicy, Notice,
    Resilience, WritePolicy,
};
use raidlab_format::DeviceUuid;
use raidlab_hardware::Catalog;
use raidlab_sim::{
    ControllerName, LiveArray, LoadRegion, SimulatedEnclosure, SimulatedVolume, SimulationLoad,
    simulate_enclosure,
};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, NanoSpan, Nanos};
use raidlab_workload::{
    AccessLine, AccessSpec, Driver, DriverConfig, DriverStep, IoOp, Measurement, Worker, derived_seed,
};

fn enclosure(level: &str, write_policy: WritePolicy, metadata: MetadataPolicy) -> SimulatedEnclosure {
    let catalog = Catalog::builtin();
    let size = ByteCount::from_mib(16);
    let memory = CacheMemory::BatteryBacked;
    let cache = CacheConfig { size, memory, write_policy, ..CacheConfig::default() };
    let config = ArrayConfig {
        block_size: BlockSize::B512,
        member_size: ByteCount::from_mib(256),
        staging_size: ByteCount::from_mib(64),
        resilience: Resilience { metadata, ..Resilience::default() },
        ..raidlab_testkit::array(level, 6, cache)
    };
    let drive = catalog.drive("st3600057ss").expect("in the catalogue").clone();
    SimulatedEnclosure {
        controller: catalog.controller("perc-h800").expect("in the catalogue").clone(),
        second: None,
        volumes: vec![SimulatedVolume { config, drive, owner: ControllerName::A, beside: None }],
    }
}

/// Drives a live array as a simulation drives its own.
fn drive(live: &mut LiveArray<'_>, driver: &mut Driver) -> Measurement {
    let block_bytes = live.block_size().bytes();
    let mut now = Nanos::ZERO;
    loop {
        let wake = loop {
            match driver.poll_step(now) {
                DriverStep::Issue(io) => {
                    let op = if io.op == IoOp::Read { HostOp::Read } else { HostOp::Write { fua: false } };
                    let (lba, blocks) = (io.offset_bytes / block_bytes, u64::from(io.bytes) / block_bytes);
                    let (tag, lba, blocks) = (HostTag(io.slot), Lba(lba), BlockCount(blocks));
                    live.handle_request(now, HostRequest { tag, op, lba, blocks });
                }
                DriverStep::WaitUntil(at) => break at,
                DriverStep::WaitForCompletion => break Nanos::FAR_FUTURE,
                DriverStep::Finished => return driver.measurement(),
            }
        };
        let due = live.next_at().expect("requests are in flight");
        now = due.min(wake);
        live.advance(now);
        while let Some(answer) = live.poll_answer() {
            assert_eq!(answer.at, now, "the clock stops at each answer");
            driver.handle_completion(now, answer.tag.0, answer.succeeded);
        }
    }
}

/// The same requests at the same times end at the same times, to the nanosecond.
#[test]
fn a_live_array_is_the_simulated_one() {
    for (level, policy) in
        [("5", WritePolicy::WriteThrough), ("10", WritePolicy::WriteBack), ("6", WritePolicy::WriteBack)]
    {
        let enclosure = enclosure(level, policy, MetadataPolicy::None);
        let workload = AccessSpec::new("mixed", vec![AccessLine::plain(8192, 67, 100)]);
        let region = ByteCount::from_mib(512);
        let load = SimulationLoad {
            workload: workload.clone(),
            iodepth: 8,
            region: LoadRegion::Bytes(region),
            ramp: NanoSpan::from_secs(1),
            run: NanoSpan::from_secs(3),
            seed: 11,
        };
        let simulated = simulate_enclosure(&enclosure, &load).expect("it can be simulated").measurement;
        let config = DriverConfig {
            region,
            block_bytes: 512,
            iodepth: load.iodepth,
            seed: load.seed,
            ramp: load.ramp,
            run: load.run,
            max_requests: None,
            start_offset: ByteCount::ZERO,
            worker: Worker { index: 0, count: 1 },
            ..DriverConfig::default()
        };
        let mut driver = Driver::new(&workload, &config).expect("it can be driven");
        let mut live = LiveArray::new(&enclosure, derived_seed(load.seed, 1)).expect("it can be");
        let measured = drive(&mut live, &mut driver);
        assert!(
            simulated.ops.read.requests > 100,
            "RAID {level}: only {} reads",
            simulated.ops.read.requests
        );
        let figures = |it: &Measurement| {
            let of = |counts: &raidlab_workload::OpStats| {
                (counts.requests, counts.errors, counts.lat.mean_ns().to_bits(), counts.lat.max_ns())
            };
            (of(&it.ops.read), of(&it.ops.write), it.window)
        };
        assert_eq!(figures(&measured), figures(&simulated), "RAID {level}");
    }
}

/// Reads `count` single blocks one after the other and returns how many failed.
fn read_blocks(live: &mut LiveArray<'_>, now: &mut Nanos, count: u64) -> usize {
    let step = live.volume_bytes().get() / 512 / count;
    let mut failed = 0;
    for index in 0..count {
        let (tag, lba, blocks) = (HostTag(0), Lba(index * step), BlockCount(1));
        live.handle_request(*now, HostRequest { tag, op: HostOp::Read, lba, blocks });
        failed += usize::from(!await_answer(live, now));
    }
    failed
}

/// Moves on to the next answer, and returns whether it is a good one.
fn await_answer(live: &mut LiveArray<'_>, now: &mut Nanos) -> bool {
    loop {
        if let Some(answer) = live.poll_answer() {
            return answer.succeeded;
        }
        *now = live.next_at().expect("a request is in flight");
        live.advance(*now);
    }
}

/// Members are pulled, served without, replaced and rebuilt; what more than the level survives takes is an error.
#[test]
fn members_come_and_go() {
    let enclosure = enclosure("5", WritePolicy::WriteThrough, MetadataPolicy::Bitmap);
    let mut live = LiveArray::new(&enclosure, 1).expect("it can be");
    let mut now = Nanos::ZERO;
    assert_eq!(read_blocks(&mut live, &mut now, 50), 0);
    live.fail_member(now, MemberIndex(2));
    assert_eq!(live.controller().health().failures_left, 0);
    assert_eq!(read_blocks(&mut live, &mut now, 50), 0, "it is served without the member");
    live.add_member(now, MemberIndex(2), DeviceUuid([7; 16]));
    while live.controller().health().failures_left == 0 {
        now = live.next_at().expect("it is being rebuilt");
        live.advance(now);
    }
    assert_eq!(live.controller().device_states().nth(2), Some(DeviceState::InSync { role: MemberIndex(2) }));
    let ended =
        std::iter::from_fn(|| live.poll_notice()).filter(|it| matches!(it, Notice::ScanEnded { .. })).count();
    assert_eq!(ended, 1, "operators hear of the rebuild");
    // 256 MiB of each member at the drives' 120 to 200 MB/s.
    assert!((Nanos(1_200_000_000)..Nanos(20_000_000_000)).contains(&now), "it took until {now:?}");
    live.fail_member(now, MemberIndex(0));
    live.fail_member(now, MemberIndex(5));
    assert!(read_blocks(&mut live, &mut now, 50) > 0, "two members are more than RAID 5 survives");
}

/// What is under way at a member that is pulled is served from the others.
#[test]
fn what_is_under_way_when_a_member_goes_is_served_by_the_others() {
    let enclosure = enclosure("6", WritePolicy::WriteThrough, MetadataPolicy::Bitmap);
    let mut live = LiveArray::new(&enclosure, 1).expect("it can be");
    let (mut now, step) = (Nanos::ZERO, live.volume_bytes().get() / 512 / 200);
    for index in 0..200_u32 {
        let op = if index % 3 == 0 { HostOp::Write { fua: false } } else { HostOp::Read };
        let (tag, lba, blocks) = (HostTag(index), Lba(u64::from(index) * step), BlockCount(16));
        live.handle_request(now, HostRequest { tag, op, lba, blocks });
    }
    now = Nanos(3_000_000);
    live.fail_member(now, MemberIndex(1));
    live.fail_member(now, MemberIndex(4));
    for index in 0..200 {
        assert!(await_answer(&mut live, &mut now), "answer {index}");
    }
    assert!(live.poll_answer().is_none());
}
