//! Actors on a made-up target: a link that serves one request after the other, and a latency beside it.

use crate::actor::Actor;
use crate::driver::{Driver, DriverConfig, DriverStep};
use crate::op::IoOp;
use crate::profile::Workload;
use crate::result::{ActorFacts, Measurement, RunResult};
use crate::spec::{AccessSpec, MixPart};
use proptest::prelude::*;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::collections::BTreeSet;

/// A target: bytes per second of its link, and what each request takes beside it.
#[derive(Clone, Copy)]
struct Link {
    bytes_per_sec: f64,
    lat_ns: u64,
}

const INFINITE: Link = Link { bytes_per_sec: f64::INFINITY, lat_ns: 0 };

fn spec(parts: &str) -> AccessSpec {
    let head = "schema = 1\nname = \"a\"\ntitle = \"A\"\nsource = \"made up\"\nmetric = \"mb-per-s\"\n";
    let workload = Workload::from_toml("a.toml", &format!("{head}{parts}")).unwrap();
    let again = Workload::from_toml("again.toml", &workload.to_toml()).unwrap();
    assert_eq!(workload, again, "what is written reads back");
    workload.spec
}

/// Runs `spec` for `run` after `ramp`; what was measured, and all requests with their starts.
fn drive(
    spec: &AccessSpec,
    link: Link,
    ramp: NanoSpan,
    run: NanoSpan,
) -> (Measurement, Vec<(Nanos, IoOp, u64, u32)>) {
    drive_with(spec, link, &DriverConfig { seed: 7, ramp, ..config(run) })
}

/// One request in flight, for `run`, on 256 MiB.
fn config(run: NanoSpan) -> DriverConfig {
    DriverConfig {
        region: ByteCount::from_mib(256),
        block_bytes: 4096,
        iodepth: 1,
        run,
        ..DriverConfig::default()
    }
}

/// The same with these settings.
fn drive_with(
    spec: &AccessSpec,
    link: Link,
    config: &DriverConfig,
) -> (Measurement, Vec<(Nanos, IoOp, u64, u32)>) {
    let mut driver = Driver::new(spec, config).unwrap();
    let (mut now, mut busy_until) = (Nanos::ZERO, 0.0f64);
    let mut under_way: Vec<(Nanos, u32)> = Vec::new();
    let mut issued = Vec::new();
    loop {
        let step = driver.poll_step(now);
        let next = under_way.iter().map(|(at, _)| *at).min();
        now = match step {
            DriverStep::Issue(io) => {
                assert!(io.offset_bytes + u64::from(io.bytes) <= config.region.get(), "{io:?}");
                assert!(io.op.is_flush() || (io.bytes > 0 && io.bytes.is_multiple_of(4096)), "{io:?}");
                busy_until =
                    busy_until.max(now.get() as f64) + f64::from(io.bytes) * 1e9 / link.bytes_per_sec;
                under_way.push((Nanos(busy_until as u64 + link.lat_ns), io.slot));
                issued.push((now, io.op, io.offset_bytes, io.bytes));
                continue;
            }
            DriverStep::Finished => break,
            DriverStep::WaitUntil(at) => next.map_or(at, |next| next.min(at)),
            DriverStep::WaitForCompletion => next.expect("it waits for something"),
        };
        while let Some(index) = under_way.iter().position(|(at, _)| *at <= now) {
            let (_, slot) = under_way.swap_remove(index);
            driver.handle_completion(now, slot, true);
        }
    }
    (driver.measurement(), issued)
}

fn run(spec: &AccessSpec, link: Link, ramp_ms: u64, run_ms: u64) -> RunResult {
    let (measurement, _) = drive(spec, link, NanoSpan::from_millis(ramp_ms), NanoSpan::from_millis(run_ms));
    let mut result = RunResult::default();
    result.set_measurement(&measurement);
    result
}

fn training(keys: &str) -> AccessSpec {
    let usual = "batch = 4\ncompute = \"10ms\"\nsample_size = \"256KiB\"\nrequest_size = \"128KiB\"";
    spec(&format!("[[part]]\nname = \"training\"\n[part.accelerator]\n{usual}\n{keys}\n"))
}

fn au(result: &RunResult) -> f64 {
    result.accelerators().expect("there are accelerators").au_pct
}

#[test]
fn storage_without_end_keeps_accelerators_busy() {
    for keys in
        ["", "barrier = true", "loader = \"batch\"", "sample_deviation = \"64KiB\"", "samples_per_file = 9"]
    {
        let result = run(&training(&format!("count = 3\nread_threads = 2\n{keys}")), INFINITE, 50, 200);
        assert!((au(&result) - 100.0).abs() < 1e-9, "{keys}: {}", au(&result));
        let facts = result.accelerators().unwrap();
        assert_eq!((facts.accelerators, facts.steps), (3, 60), "{keys}: 200 ms of 10 ms each");
        // What was loaded ahead may be longer than what was loaded in the window.
        let least = if keys.contains("deviation") { 1170.0 } else { 1200.0 - 1e-6 };
        assert!((least..1200.0 + 1e-6).contains(&facts.samples_per_s), "{keys}: {facts:?}");
    }
}

#[test]
fn a_link_that_gives_half_of_what_is_wanted_gives_half_the_utilisation() {
    // Two take 2 * 4 * 256 KiB in 10 ms, which is 210 MB/s.
    let link = Link { bytes_per_sec: 105e6, lat_ns: 1000 };
    let result = run(&training("count = 2\nread_threads = 4"), link, 200, 2000);
    assert!((au(&result) - 50.0).abs() < 2.0, "{}", au(&result));
    let mb_per_s = result.ops.total.bytes_per_sec.mb_per_s();
    assert!((mb_per_s - 105.0).abs() < 2.0, "{mb_per_s}");
}

#[test]
fn what_loaders_and_steps_cost_is_waited_for() {
    // One thread makes a sample in 5 ms, so a batch of 4 takes 20 ms and 10 ms are computed.
    let slow = run(&training("per_sample = \"5ms\""), INFINITE, 100, 1000);
    assert!((au(&slow) - 50.0).abs() < 1.0, "{}", au(&slow));
    let more = run(&training("per_sample = \"5ms\"\nread_threads = 4"), INFINITE, 100, 1000);
    assert!(au(&more) > 99.0, "four threads make it in time: {}", au(&more));
    let one = run(&training("per_sample = \"5ms\"\nread_threads = 4\nprocessors = 1"), INFINITE, 100, 1000);
    assert!((au(&one) - 50.0).abs() < 1.0, "on one processor they do not: {}", au(&one));
    let step = run(&training("per_step = \"10ms\""), INFINITE, 100, 1000);
    assert!((au(&step) - 50.0).abs() < 1.0, "{}", au(&step));
    let rate = run(&training("load_bytes_per_sec = \"52428800B\""), INFINITE, 100, 1000);
    assert!((au(&rate) - 50.0).abs() < 1.0, "256 KiB in 5 ms: {}", au(&rate));
    let barrier = training("count = 8\ncompute_deviation = \"3ms\"\nbarrier = true");
    let alone = training("count = 8\ncompute_deviation = \"3ms\"");
    let of = |spec| au(&run(spec, INFINITE, 100, 1000));
    assert!(of(&barrier) < of(&alone) - 15.0, "the slowest of eight sets the pace");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn more_accelerators_never_raise_utilisation_nor_exceed_the_link(
        mb_per_s in 50.0f64..2000.0,
        lat_us in 0u64..2000,
        threads in 1u32..5,
        barrier in any::<bool>(),
    ) {
        let link = Link { bytes_per_sec: mb_per_s * 1e6, lat_ns: lat_us * 1000 };
        let mut before = 100.0 + 1e-9;
        for count in [1, 2, 4, 8] {
            let keys = format!("count = {count}\nread_threads = {threads}\nbarrier = {barrier}");
            let result = run(&training(&keys), link, 100, 400);
            let (now, rate) = (au(&result), result.ops.total.bytes_per_sec.mb_per_s());
            let facts = result.accelerators().unwrap();
            let trained = facts.bytes_per_sec.mb_per_s();
            prop_assert!(trained <= rate * (1.0 + 1e-9), "{count}: {trained} trained on, {rate} read");
            // A read of which the link gave a part before the window counts whole, and the last one not at all.
            prop_assert!(trained <= mb_per_s + 131_072.0 / 0.4e6, "{count}: {trained} of {mb_per_s}");
            // 4 samples of 256 KiB in 10 ms.
            let by_au = facts.au_pct / 100.0 * f64::from(count) * 104.857_6;
            prop_assert!(trained <= by_au * (1.0 + 1e-6), "{count}: {trained}, {by_au} by the utilisation");
            let ahead = f64::from(count) * 1.048_576 / 0.4 * 3.0;
            prop_assert!(trained >= by_au - ahead, "{count}: {trained}, {by_au} by the utilisation");
            prop_assert!((facts.samples_per_s * 0.262_144 - trained).abs() < 1e-6 * trained + 1e-9);
            // A window of 40 steps cuts one of them in two: half a step of error on either side.
            prop_assert!(now <= before + 1.25, "{count}: {now} after {before}");
            prop_assert!(rate <= mb_per_s * 1.01 + 3.0, "{rate} of {mb_per_s}");
            before = before.min(now);
        }
    }
}

/// The checkpoint of the first part, for which nobody waits.
fn unpaused(spec: &AccessSpec) -> Option<Actor> {
    let mut actor = spec.parts[0].actor.clone();
    if let Some(Actor::Checkpoint(it)) = &mut actor {
        it.pauses = None;
    }
    actor
}

#[test]
fn a_checkpoint_takes_what_its_bytes_take_and_training_waits() {
    let text = "[[part]]\nname = \"save\"\n[part.checkpoint]\nwriters = 2\nwriter_size = \"10MiB\"\nevery = \"300ms\"\nread_back = true\npauses = \"training\"\n";
    let train = "[[part]]\nname = \"training\"\n[part.accelerator]\nbatch = 1\ncompute = \"1ms\"\nsample_size = \"4KiB\"\nrequest_size = \"4KiB\"\n";
    let spec = spec(&format!("{text}{train}"));
    // 20 MiB at 209.7 MB/s are 100 ms, the flush 1 ms, and the read back 100 ms.
    let link = Link { bytes_per_sec: f64::from(20 << 20) * 10.0, lat_ns: 1_000_000 };
    let (measurement, issued) = drive(&spec, link, NanoSpan::ZERO, NanoSpan::from_millis(2000));
    let mut result = RunResult::default();
    result.set_measurement(&measurement);
    let facts = result.checkpoint().unwrap();
    assert_eq!((facts.saved, facts.bytes, facts.is_by_rate), (4, 20 << 20, false));
    let pause_ms = facts.pause_ns_mean.unwrap() / 1e6;
    assert!((pause_ms - 102.0).abs() < 3.0, "{pause_ms}");
    let read_ms = facts.read_back_ns_mean.unwrap() / 1e6;
    assert!((read_ms - 101.0).abs() < 5.0, "{read_ms}");
    let paused = result.accelerators().unwrap().pause_pct;
    assert!((paused - 20.0).abs() < 3.0, "100 ms of 500: {paused}");
    assert_eq!(facts.share_pct, Some(paused), "one figure");
    let alone = AccessSpec {
        parts: vec![MixPart { actor: unpaused(&spec), ..spec.parts[0].clone() }],
        ..spec.clone()
    };
    let share = run(&alone, link, 0, 2000).checkpoint().unwrap().share_pct.unwrap();
    assert!((share - 20.3).abs() < 0.5, "the read back of 101 ms is counted: {share}");
    // Each writer has its own half, and a flush starts behind the last write's end.
    let halves: Vec<u64> =
        issued.iter().filter(|(_, op, ..)| *op == IoOp::Write).map(|io| io.2 >> 27).collect();
    assert!(halves.contains(&0) && halves.contains(&1));
    assert_eq!(result.ops.others.flush.as_ref().map(|flush| flush.requests), Some(4));
    let short = run(&spec, Link { bytes_per_sec: 1e7, ..link }, 0, 1000);
    let facts = short.checkpoint().unwrap();
    assert!(facts.is_by_rate && (facts.pause_ns_mean.unwrap() / 1e9 - 2.1).abs() < 0.3, "{facts:?}");
}

#[test]
fn a_log_takes_all_that_wait_and_flushes_behind_them() {
    let link = Link { bytes_per_sec: f64::INFINITY, lat_ns: 1_000_000 };
    let log = |keys: &str| {
        let text = format!("[[part]]\nname = \"wal\"\n[part.log]\nappend_size = \"1KiB\"\n{keys}\n");
        let result = run(&spec(&text), link, 0, 1000);
        match result.actors[0].facts {
            ActorFacts::Log(facts) => facts,
            _ => panic!("no log"),
        }
    };
    let alone = log("");
    assert!((alone.commits_per_s - 500.0).abs() < 2.0, "a write and a flush of 1 ms each: {alone:?}");
    let many = log("clients = 16");
    assert!((many.commits_per_s - 8000.0).abs() < 40.0 && many.records_per_write > 15.9, "{many:?}");
    let unflushed = log("clients = 16\nflush_every = 0");
    assert!((unflushed.commits_per_s - 16_000.0).abs() < 40.0, "{unflushed:?}");
    let group = log("clients = 4\nthink = \"1ms\"\ngroup = \"5ms\"");
    assert!(group.records_per_write > 3.9, "all four come within the group's time: {group:?}");
    assert!((alone.commit_ns_mean / 1e6 - 2.0).abs() < 0.1, "{alone:?}");
}

#[test]
fn a_compaction_keeps_up_with_what_it_follows() {
    let puts =
        "[[part]]\nname = \"puts\"\n[part.log]\nappend_size = \"256KiB\"\nthink = \"9ms\"\nflush_every = 0\n";
    let merge = "[[part]]\nname = \"merge\"\n[part.compaction]\nruns = 4\niodepth = 8\nrequest_size = \"64KiB\"\nfollows = \"puts\"\namplification = 3\noutput_pct = 80\n";
    let link = Link { bytes_per_sec: f64::INFINITY, lat_ns: 1_000_000 };
    let result = run(&spec(&format!("{puts}{merge}")), link, 0, 1000);
    let ActorFacts::Compaction(facts) = result.actors[1].facts else { panic!("no compaction") };
    let (read, written) = (facts.read_bytes_per_sec.0, facts.written_bytes_per_sec.0);
    assert!(facts.kept_up_pct.unwrap() > 99.0, "{facts:?}");
    let slow = Link { bytes_per_sec: 60e6, ..link };
    let ActorFacts::Compaction(behind) = run(&spec(&format!("{puts}{merge}")), slow, 0, 1000).actors[1].facts
    else {
        panic!("no compaction")
    };
    // 75 MB/s are owed for 25 put, and read for 94 of them.
    assert!((10.0..60.0).contains(&behind.kept_up_pct.unwrap()), "{behind:?}");
    let put = 100.0 * f64::from(256 << 10);
    assert!((written / put - 3.0).abs() < 0.1, "{written} of {put}");
    assert!((written / read - 0.8).abs() < 0.02, "{written} of {read}");
}

/// Hits in percent of a cache that holds `held` of the objects and evicts in order, whose zones have shares of objects and of requests: an
/// object is in it for `p T` of the `1 + p T` that it is in and out, where `T` makes what is held (E. Gelenbe, 1973).
fn hits_of_a_ring(zones: &[(f64, f64)], held: f64) -> f64 {
    let is_in = |time: f64, (objects, requests): (f64, f64)| {
        let asked = requests / objects * time;
        asked / (1.0 + asked)
    };
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..200 {
        let time = f64::midpoint(low, high);
        let holds: f64 = zones.iter().map(|zone| zone.0 * is_in(time, *zone)).sum();
        if holds < held { low = time } else { high = time }
    }
    100.0 * zones.iter().map(|zone| zone.1 * is_in(low, *zone)).sum::<f64>()
}

#[test]
fn a_cache_finds_what_is_popular_and_trims_ahead_of_its_writes() {
    let cache = |keys: &str| {
        let head =
            "[[part]]\nname = \"kv\"\n[part.cache]\nobjects = 65536\nobject_size = \"16KiB\"\niodepth = 4\n";
        spec(&format!("{head}{keys}"))
    };
    let link = Link { bytes_per_sec: f64::INFINITY, lat_ns: 100_000 };
    let hits = |spec: &AccessSpec| match run(spec, link, 0, 200).actors[0].facts {
        ActorFacts::Cache(facts) => facts.hit_pct,
        _ => panic!("no cache"),
    };
    // 16384 of 65536 objects have a place.
    let even = hits(&cache(""));
    assert!((even - 25.0).abs() < 2.0, "{even}");
    let zipf = hits(&cache("[part.places]\ndistribution = \"zipf\"\ntheta = 0.99\nscrambled = true\n"));
    assert!(zipf > 65.0, "{zipf}");
    let table = "[part.places]\ndistribution = \"hit-rates\"\nhit_rates = [[5, 60], [25, 85], [100, 100]]\nscrambled = false\n";
    let found = hits(&cache(table));
    let expected = hits_of_a_ring(&[(0.05, 0.60), (0.20, 0.25), (0.75, 0.15)], 0.25);
    assert!(
        (found - expected).abs() < 3.0,
        "{found}, and {expected} by arithmetic: less than the 85 of the hottest quarter"
    );
    assert!((hits(&cache("hit_pct = 80\n")) - 80.0).abs() < 2.0);
    let (_, issued) =
        drive(&cache("trim_size = \"1MiB\"\n"), link, NanoSpan::ZERO, NanoSpan::from_millis(200));
    let mut trimmed = 0;
    for (_, op, offset, bytes) in issued {
        match op {
            IoOp::Trim => trimmed = offset + u64::from(bytes),
            IoOp::Write => assert!(offset < trimmed, "{offset} is written, trimmed up to {trimmed}"),
            _ => {}
        }
    }
    assert!(trimmed > 0);
}

#[test]
fn phases_turn_parts_on_and_off() {
    let text = "[[part]]\nname = \"bursts\"\n[part.phase]\nafter = \"10ms\"\nlasts = \"5ms\"\nevery = \"20ms\"\n[[part.line]]\nsize = \"4KiB\"\nshare_pct = 100\nread_pct = 100\nrandom_pct = 100\n";
    let link = Link { bytes_per_sec: f64::INFINITY, lat_ns: 100_000 };
    let (_, issued) = drive(&spec(text), link, NanoSpan::ZERO, NanoSpan::from_millis(100));
    let on = |at: Nanos| (at.get() / 1_000_000).checked_sub(10).is_some_and(|ms| ms % 20 < 5);
    assert!(issued.len() > 200 && issued.iter().all(|io| on(io.0)), "{}", issued.len());
}

#[test]
fn workers_share_an_actor_and_their_counts_add_up() {
    let spec = training("count = 5\nread_threads = 2");
    let config = DriverConfig { iodepth: 4, ..config(NanoSpan::from_secs(1)) };
    let depths: Vec<u32> =
        (0..2).map(|worker| Driver::new(&spec, &config.for_worker(worker, 2)).unwrap().iodepth()).collect();
    assert_eq!(depths, [6, 4]);
}

/// No worker writes where another does, however many share an actor's writers or have a log each.
#[test]
fn workers_write_in_different_places() {
    let part = |actor: &str| spec(&format!("[[part]]\nname = \"it\"\n{actor}\n"));
    let checkpoint = "[part.checkpoint]\nwriters = 5\nwriter_size = \"3MiB\"\nrequest_size = \"64KiB\"";
    let log = "[part.log]\nclients = 6\nappend_size = \"2KiB\"\nthink = \"0ms\"";
    let compaction = "[part.compaction]\nruns = 2\nrequest_size = \"64KiB\"\niodepth = 6";
    for actor in [checkpoint, log, compaction] {
        for workers in 2..=3 {
            let region = ByteCount::from_mib(64);
            let config = DriverConfig { region, iodepth: 4, ..config(NanoSpan::from_millis(100)) };
            let link = Link { bytes_per_sec: 1e9, lat_ns: 100_000 };
            let written = |worker| {
                let (_, issued) = drive_with(&part(actor), link, &config.for_worker(worker, workers));
                let writes = issued.into_iter().filter(|io| io.1 == IoOp::Write);
                writes
                    .flat_map(|(_, _, offset, bytes)| (offset..offset + u64::from(bytes)).step_by(4096))
                    .collect()
            };
            let each: Vec<BTreeSet<u64>> = (0..workers).map(written).collect();
            let all: BTreeSet<u64> = each.iter().flatten().copied().collect();
            assert!(each.iter().all(|blocks| !blocks.is_empty()), "{actor}");
            assert_eq!(
                all.len(),
                each.iter().map(BTreeSet::len).sum::<usize>(),
                "{actor}, {workers} workers"
            );
        }
    }
}

/// What an actor works on fits where it lies, or the error says both lengths: it never begins again at its start instead.
#[test]
fn what_does_not_fit_is_refused_with_both_lengths() {
    let part =
        |actor: &str| spec(&format!("[[part]]\nname = \"it\"\n[part.places]\nsize = \"8MiB\"\n{actor}\n"));
    let refused = |actor: &str| {
        let config = config(NanoSpan::from_secs(1));
        Driver::new(&part(actor), &config).err().map(|error| error.to_string())
    };
    let train =
        "[part.accelerator]\nbatch = 1\ncompute = \"1ms\"\nrequest_size = \"64KiB\"\nsample_size = \"1MiB\"";
    let rows = [
        ("[part.checkpoint]\nwriters = 2\nwriter_size = \"4MiB\"", None),
        (
            "[part.checkpoint]\nwriters = 2\nwriter_size = \"4MiB\"\nrequests_per_writer = 9\nrequest_size = \"16MiB\"",
            None,
        ),
        (
            "[part.checkpoint]\nwriters = 2\nwriter_size = \"5MiB\"",
            Some("the checkpoint of workload 'it' takes 10 MiB"),
        ),
        (
            "[part.checkpoint]\nwriters = 1\nwriter_size = \"8388609B\"",
            Some("takes 8.00 MiB, and lies on 8 MiB: make it smaller"),
        ),
        (&format!("{train}\nsamples_per_file = 8"), None),
        (
            &format!("{train}\nsamples_per_file = 9"),
            Some("a file of its samples of workload 'it' takes 9 MiB"),
        ),
        ("[part.compaction]\nruns = 7\nrequest_size = \"1MiB\"", None),
        ("[part.compaction]\nruns = 8\nrequest_size = \"1MiB\"", Some("takes 9 MiB")),
        ("[part.cache]\nobjects = 99\nobject_size = \"8MiB\"", None),
        ("[part.cache]\nobjects = 1\nobject_size = \"9MiB\"", Some("an object of workload 'it' takes 9 MiB")),
    ];
    for (actor, expected) in rows {
        let said = refused(actor);
        let is_so = match (expected, &said) {
            (None, None) => true,
            (Some(expected), Some(said)) => said.contains(expected) && said.contains("lies on 8"),
            _ => false,
        };
        assert!(is_so, "{actor}: {said:?}");
    }
}
