//! The emulated world: real bytes, never before the model's time, under an operator.
//!
//! Not verified: how late requests end, which depends on the machine; `bench/emulated-against-simulated.sh` measures it.

use raidlab_controller::{
    ArrayConfig, CacheConfig, HostOp, HostRequest, HostTag, MetadataPolicy, Resilience,
};
use raidlab_emulate::{EmulatedArray, Model};
use raidlab_format::ArrayName;
use raidlab_hardware::Catalog;
use raidlab_runtime::{
    Answer, Backing, Command, Condition, ScriptHost, ScriptOp, ScriptResult, operator_line,
};
use raidlab_sim::{ControllerName, LiveArray, SimulatedEnclosure, SimulatedVolume};
use raidlab_testkit::Random;
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, Nanos};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// RAID 5 of solid-state drives, in which nothing turns, so that a time does not depend on when it began.
fn enclosure() -> SimulatedEnclosure {
    let catalog = Catalog::builtin();
    let config = ArrayConfig {
        block_size: BlockSize::B512,
        member_size: ByteCount::from_mib(8),
        resilience: Resilience { metadata: MetadataPolicy::Bitmap, ..Resilience::default() },
        ..raidlab_testkit::array("5", 4, CacheConfig::default())
    };
    let drive = catalog.drive("pliant-lb150").expect("in the catalogue").clone();
    SimulatedEnclosure {
        controller: catalog.controller("perc-h800").expect("in the catalogue").clone(),
        second: None,
        volumes: vec![SimulatedVolume { config, drive, owner: ControllerName::A, beside: None }],
    }
}

fn world(enclosure: &SimulatedEnclosure, backing: Option<Backing>) -> EmulatedArray<'_> {
    let volume = LiveArray::new(enclosure, 1).expect("it can be").volume_bytes();
    let backing = backing.unwrap_or_else(|| Backing::in_memory(volume).expect("there is memory"));
    let model = Model::new(enclosure, 1).expect("it can be");
    model.emulate(ArrayName::new("emulated").expect("a name"), backing).expect("there is a ring")
}

fn run(world: &mut EmulatedArray<'_>, ops: Vec<ScriptOp>, iodepth: u32) -> Vec<ScriptResult> {
    let mut host = ScriptHost::new(ops, BlockSize::B512, iodepth);
    world.serve(&mut host, &AtomicBool::new(false)).expect("it serves");
    host.into_results().into_iter().map(|result| result.expect("all ended")).collect()
}

/// Writes of random bytes over the volume, no two on the same block, and what they leave.
fn writes(volume: u64, count: u64) -> Vec<(Lba, Vec<u8>)> {
    let mut random = Random(5);
    let room = volume / count;
    let place = |index: u64, offset: u64| Lba((index * room / 512) + offset);
    (0..count)
        .map(|index| {
            let (offset, blocks) = (random.below(8), 1 + random.below(40));
            (place(index, offset), random.bytes(blocks * 512))
        })
        .collect()
}

#[test]
fn bytes_written_are_read_and_stay_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (enclosure, path) = (enclosure(), folder.path().join("bytes"));
    let volume = LiveArray::new(&enclosure, 1).expect("it can be").volume_bytes();
    let written = writes(volume.get(), 100);
    let reads = || {
        let read = |(lba, bytes): &(Lba, Vec<u8>)| ScriptOp::Read {
            lba: *lba,
            blocks: BlockCount(bytes.len() as u64 / 512),
        };
        written.iter().map(read).collect::<Vec<_>>()
    };
    for may_overwrite in [false, true] {
        let mut world =
            world(&enclosure, Some(Backing::in_file(&path, volume, may_overwrite).expect("a file")));
        if !may_overwrite {
            let write = |(lba, bytes): &(Lba, Vec<u8>)| ScriptOp::Write {
                lba: *lba,
                bytes: bytes.clone(),
                fua: lba.0 % 3 == 0,
            };
            let ops = written.iter().map(write).chain([ScriptOp::Flush]).collect();
            assert!(run(&mut world, ops, 16).iter().all(Result::is_ok));
        }
        for (found, (lba, bytes)) in run(&mut world, reads(), 16).into_iter().zip(&written) {
            assert!(found.as_ref() == Ok(bytes), "at {lba}");
        }
        assert_eq!(world.lateness().facts().requests, if may_overwrite { 100 } else { 201 });
    }
}

/// A hundred reads one after the other take at least as long as they take in virtual time.
#[test]
fn nothing_ends_before_the_model_says() {
    let enclosure = enclosure();
    let places = |index: u64| Lba(index * 397 % 40_000);
    let mut model = LiveArray::new(&enclosure, 1).expect("it can be");
    let mut modelled = Nanos::ZERO;
    for index in 0..100 {
        let request =
            HostRequest { tag: HostTag(0), op: HostOp::Read, lba: places(index), blocks: BlockCount(8) };
        model.handle_request(modelled, request);
        modelled = loop {
            if let Some(answer) = model.poll_answer() {
                break answer.at;
            }
            model.advance(model.next_at().expect("a request is in flight"));
        };
    }
    let ops = (0..100).map(|index| ScriptOp::Read { lba: places(index), blocks: BlockCount(8) }).collect();
    let mut world = world(&enclosure, None);
    let begun = Instant::now();
    assert!(run(&mut world, ops, 1).iter().all(Result::is_ok));
    let took = begun.elapsed().as_nanos();
    assert!(took >= u128::from(modelled.0), "{took} ns, and the model says {modelled:?}");
    assert!(modelled > Nanos(5_000_000), "the model takes some time: {modelled:?}");
}

/// Fails, refuses, replaces and rebuilds as a real array does, while clients read and write.
#[test]
fn operators_do_what_they_do_to_a_real_array() {
    let enclosure = enclosure();
    let (operator, queue) = operator_line().expect("descriptors can be had");
    let ask = move |command| operator.ask(command).expect("it answers");
    let fail = |device: &str| Command::Fail { device: device.into() };
    let asking = std::thread::spawn(move || {
        let status = || match ask(Command::Status) {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status().condition, Condition::Optimal);
        assert!(matches!(ask(fail("9")), Answer::Refused { .. }), "there is no such drive");
        assert!(matches!(ask(fail("1")), Answer::Done { .. }));
        assert_eq!(status().condition, Condition::Degraded);
        assert!(matches!(ask(fail("2")), Answer::Refused { .. }), "data would be lost");
        let replace = Command::Replace {
            device: "1".into(),
            with: "new".into(),
            destroy_data: false,
            server_restarted: false,
        };
        assert!(matches!(ask(replace.clone()), Answer::Done { .. }));
        while status().condition != Condition::Optimal {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(matches!(ask(replace), Answer::Refused { .. }), "it is in the array");
        assert!(matches!(ask(Command::Check), Answer::Done { .. }));
        assert!(status().counters.host_reads > 0, "a client was served meanwhile");
        assert!(matches!(ask(Command::Stop), Answer::Done { .. }));
    });
    let mut world = world(&enclosure, None);
    world.attach_operator(queue);
    // More than there is time for: the stop ends it.
    let ops = (0..2_000_000)
        .map(|index| ScriptOp::Read { lba: Lba(index * 8 % 40_000), blocks: BlockCount(8) })
        .collect();
    let mut host = ScriptHost::new(ops, BlockSize::B512, 4);
    world.serve(&mut host, &AtomicBool::new(false)).expect("it serves");
    asking.join().expect("all was as it should be");
    assert!(host.into_results().into_iter().flatten().all(|result| result.is_ok()), "no client saw an error");
}
