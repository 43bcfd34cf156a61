//! Exported workloads that read back as they were, and what is lost by name.

use super::*;
use crate::fio::{Surroundings, import_fio};
use proptest::prelude::*;
use raidlab_workload::{
    AccessSpec, DataSpec, HitRate, Metric, RequestRate, Zone, builtin_workload, builtin_workloads,
};
use std::num::NonZeroU32;

fn workload(spec: AccessSpec) -> Workload {
    Workload {
        title: "made up".into(),
        source: "a test".into(),
        metric: Metric::Iops,
        notes: String::new(),
        block_bytes_published: Vec::new(),
        spec,
    }
}

fn hints() -> RunHints {
    RunHints { targets: vec!["/dev/x".into(), "/dev/y".into()], iodepths: vec![4], ..RunHints::default() }
}

/// What an import makes of what is exported.
fn again(text: &str) -> (AccessSpec, RunHints) {
    let import =
        import_fio("x.fio", text, Surroundings::NONE).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(import.steps.len(), 1, "{text}");
    let step = import.steps.into_iter().next().unwrap();
    (step.workload.spec, step.run)
}

/// The same where two ways to say one thing are one.
fn plain(spec: &AccessSpec) -> AccessSpec {
    let mut spec = spec.clone();
    spec.name = String::new();
    // A single part is all of it.
    if let [MixPart { weight: None, actor: None, .. }] = &spec.parts[..] {
        let part = spec.parts.remove(0);
        (spec.lines, spec.places, spec.pacing) = (part.lines, part.places, part.pacing);
        (spec.rhythm, spec.flush) = (part.rhythm, part.flush);
    }
    let places = |lines: &[AccessLine], places: &mut Places| {
        if lines.iter().all(|line| line.random_pct == 0) {
            (places.distribution, places.scrambled) = (Distribution::Uniform, false);
        }
        // Evenly is the same wherever it is scattered to.
        places.scrambled &= places.distribution != Distribution::Uniform;
    };
    let mend = |lines: &mut Vec<AccessLine>| {
        let alone = lines.len() == 1;
        for line in lines.iter_mut().filter(|line| alone && line.delay == NanoSpan::ZERO) {
            line.burst = 1;
        }
    };
    mend(&mut spec.lines);
    places(&spec.lines, &mut spec.places);
    for part in &mut spec.parts {
        mend(&mut part.lines);
        places(&part.lines, &mut part.places);
        if part.lines.iter().all(|line| line.read_pct == 100) {
            part.flush = None;
        }
    }
    if spec.parts.is_empty() && spec.lines.iter().all(|line| line.read_pct == 100) {
        spec.flush = None;
    }
    spec.iodepth = None;
    spec
}

fn lines() -> impl Strategy<Value = Vec<AccessLine>> {
    let kind = (0usize..4, 0u8..=100, 0usize..3, any::<bool>());
    kind.prop_map(|(count, read, random, is_even)| {
        let random_pct = [0, 100, 40][random];
        let read_pct = if is_even { [0, 50, 100][usize::from(read) % 3] } else { read };
        let shares: &[u8] = [&[100][..], &[60, 40], &[50, 30, 20], &[10, 20, 30, 40]][count];
        let line = |(index, share): (usize, &u8)| {
            let bytes = 4096 << index;
            AccessLine {
                share_pct: *share,
                align_bytes: (index > 0).then_some(4096),
                ..AccessLine::plain(bytes, read_pct, random_pct)
            }
        };
        shares.iter().enumerate().map(line).collect()
    })
}

fn hit_rates(rows: &[(f64, f64)]) -> Distribution {
    Distribution::HitRates(
        rows.iter().map(|&(cache_pct, hits_pct)| HitRate { cache_pct, hits_pct }).collect(),
    )
}

#[test]
fn zones_are_whole_percents_of_all() {
    let rows: [(&[(f64, f64)], &str); 5] = [
        (&[(1.0, 30.0), (10.0, 62.0), (100.0, 100.0)], "30/1:32/9:38/90"),
        // Of 0.1 and 0.6 percent, fio can keep one for both.
        (&[(0.1, 30.0), (0.6, 50.5), (100.0, 100.0)], "51/1:49/99"),
        (&[(1.6, 30.4), (10.4, 62.5), (100.0, 100.0)], "30/2:33/8:37/90"),
        (&[(50.0, 80.0), (99.8, 99.9), (100.0, 100.0)], "80/50:20/50"),
        (&[(100.0, 100.0)], "100/100"),
    ];
    for (rows, expected) in rows {
        let is_whole = rows.iter().all(|row| row.0.fract() == 0.0 && row.1.fract() == 0.0);
        for (scrambled, losses) in [(false, 1), (true, 2)] {
            let places = Places { distribution: hit_rates(rows), scrambled, ..Places::default() };
            let spec = AccessSpec { places, ..AccessSpec::new("x", vec![AccessLine::plain(4096, 100, 100)]) };
            let export = export_fio(&workload(spec), &hints());
            assert!(
                export.text.contains(&format!("\nrandom_distribution=zoned:{expected}\n")),
                "{}",
                export.text
            );
            assert_eq!(export.lost.len(), losses + usize::from(!is_whole), "{:?}", export.lost);
        }
    }
}

fn spec() -> impl Strategy<Value = AccessSpec> {
    let distribution = prop_oneof![
        Just((Distribution::Uniform, false)),
        Just((Distribution::Shuffle, false)),
        (1u32..300).prop_map(|theta| (Distribution::Zipf { theta: f64::from(theta) / 100.0 }, true)),
        (1u32..49).prop_map(|h| (Distribution::Pareto { h: f64::from(h) / 100.0 }, true)),
        (1u32..40)
            .prop_map(|it| (Distribution::Normal { mean_pct: 50.0, deviation_pct: f64::from(it) }, true)),
        (0u32..=100, 1u32..100, any::<bool>()).prop_map(|(accesses, space, is_whole)| {
            let (accesses_pct, part) = (f64::from(accesses), if is_whole { 0.0 } else { 0.5 });
            let space_pct = f64::from(space) - part;
            let rest = Zone { accesses_pct: 100.0 - accesses_pct, space_pct: 100.0 - space_pct };
            (Distribution::Zones(vec![Zone { accesses_pct, space_pct }, rest]), false)
        }),
        Just((hit_rates(&[(1.0, 40.0), (100.0, 100.0)]), false)),
    ];
    let places = (distribution, 0u64..1 << 20, proptest::option::of(1u64..1 << 30)).prop_map(
        |((distribution, scrambled), start, size)| Places {
            start: ByteCount(start * if start % 2 == 0 { 1 << 16 } else { 512 }),
            size: size.map(|size| ByteCount(size * 4096)),
            distribution,
            scrambled,
            ..Places::default()
        },
    );
    let rate = || (1u32..1_000_000).prop_map(|rate| RequestRate::new(f64::from(rate) * 2.0).unwrap());
    let pacing = prop_oneof![
        Just(Pacing::default()),
        rate().prop_map(|rate| Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 })),
        rate().prop_map(|rate| Pacing::Closed(ClosedLoop { rate_max: Some(rate), ..ClosedLoop::default() })),
        (1u64..1 << 30).prop_map(|bytes| Pacing::Closed(ClosedLoop {
            bytes_per_sec_max: Some(ByteCount(bytes * 2)),
            ..ClosedLoop::default()
        })),
        (1u64..100_000).prop_map(|us| Pacing::Closed(ClosedLoop {
            think: NanoSpan(us * 1000),
            ..ClosedLoop::default()
        })),
    ];
    let flush = proptest::option::of((1u32..9, any::<bool>())).prop_map(|flush| {
        flush
            .map(|(every, with_metadata)| FlushRule { every: NonZeroU32::new(every).unwrap(), with_metadata })
    });
    (lines(), places, pacing, flush, (0u8..=100, 0u8..=100)).prop_map(
        |(lines, places, pacing, flush, (compressible_pct, dedupe_pct))| AccessSpec {
            places,
            pacing,
            flush,
            data: DataSpec { compressible_pct, dedupe_pct },
            ..AccessSpec::new("x", lines)
        },
    )
}

proptest! {
    #[test]
    fn what_loses_nothing_reads_back_as_the_same(
        spec in spec(),
        is_mix in any::<bool>(),
        has_targets in any::<bool>(),
    ) {
        let target = |number| NonZeroU32::new(number).filter(|_| has_targets);
        let spec = if is_mix && !spec.pacing.is_open() {
            let part = |name: &str, iodepth| MixPart {
                name: name.into(),
                lines: spec.lines.clone(),
                places: spec.places.clone(),
                pacing: spec.pacing,
                flush: spec.flush,
                iodepth: Some(iodepth),
                ..MixPart::default()
            };
            AccessSpec { name: "x".into(), data: spec.data, parts: vec![MixPart { target: target(1), ..part("a", 3) }, MixPart { target: target(2), ..part("b", 1) }], ..AccessSpec::default() }
        } else {
            spec
        };
        let exported = export_fio(&workload(spec.clone()), &hints());
        if exported.lost.is_empty() {
            let (found, run) = again(&exported.text);
            prop_assert_eq!(plain(&found), plain(&spec), "{}", exported.text);
            let is_closed = spec.parts.is_empty() && !spec.pacing.is_open();
            prop_assert!(!is_closed || run.iodepths == [4], "{:?}", run.iodepths);
            let targets = if spec.targets().is_some() { &["/dev/x", "/dev/y"][..] } else { &["/dev/x"] };
            prop_assert_eq!(run.targets, targets);
        }
    }
}

#[test]
fn the_published_workloads_of_one_size_lose_nothing_and_read_back() {
    let mut whole = 0;
    for workload in builtin_workloads() {
        let exported = export_fio(&workload, &hints());
        if exported.lost.is_empty() {
            whole += 1;
            assert_eq!(plain(&again(&exported.text).0), plain(&workload.spec), "{}", exported.text);
        }
        for one in &exported.lost {
            assert!(exported.text.contains(&format!("# lost: {one}\n")), "{one}");
        }
    }
    assert!(whole >= 20, "{whole} of the built-in workloads lose nothing");
}

/// What an actor is told is written or named: what changes it changes the file.
#[test]
fn nothing_of_an_actor_is_lost_without_a_word() {
    let part = |keys: &str| {
        let head = "schema = 1\nname = \"a\"\ntitle = \"A\"\nsource = \"made up\"\nmetric = \"iops\"\n";
        let others = "[[part]]\nname = \"training\"\n[part.accelerator]\nbatch = 1\ncompute = \"1s\"\nsample_size = \"1MiB\"\n\
            [[part]]\nname = \"journal\"\n[part.log]\nappend_size = \"1KiB\"\n";
        let text = format!("{head}{others}[[part]]\nname = \"x\"\n{keys}");
        export_fio(&Workload::from_toml("a.toml", &text).unwrap(), &hints()).text
    };
    let rows: [(&str, &[&str]); 4] = [
        (
            "[part.compaction]\nruns = 2\n",
            &[
                "iodepth = 4",
                "iodepth = 3",
                "output_pct = 50",
                "follows = \"journal\"",
                "request_size = \"64KiB\"",
                "follows = \"journal\"\namplification = 3",
                "bytes_per_sec = \"1MB\"",
                "[part.places]\nsize = \"1GiB\"",
                "[part.places]\nstart = \"1GiB\"",
            ],
        ),
        (
            "[part.log]\nappend_size = \"1KiB\"\n",
            &[
                "clients = 2",
                "append_deviation = \"100 B\"",
                "think = \"1ms\"",
                "group = \"1ms\"",
                "flush_every = 0",
                "think = \"1ms\"\nclients = 2",
            ],
        ),
        (
            "[part.cache]\nobjects = 9\nobject_size = \"4KiB\"\n",
            &[
                "iodepth = 2",
                "hit_pct = 50",
                "hit_pct = 50.5",
                "trim_size = \"1MiB\"",
                "trim_size = \"2MiB\"",
            ],
        ),
        (
            "[part.checkpoint]\nwriter_size = \"1GiB\"\n",
            &[
                "writers = 2",
                "requests_per_writer = 2",
                "request_size = \"64KiB\"",
                "every = \"1s\"",
                "read_back = true",
                "pauses = \"training\"",
                "[part.places]\nsize = \"1GiB\"",
            ],
        ),
    ];
    for (base, more) in rows {
        let mut seen = vec![part(base)];
        for keys in more {
            let text = part(&format!("{base}{keys}\n"));
            assert!(!seen.contains(&text), "{keys} is not in\n{text}");
            seen.push(text);
        }
    }
    assert_ne!(part(rows[0].0), part("[part.compaction]\nruns = 3\n"));
    assert_ne!(part(rows[2].0), part("[part.cache]\nobjects = 8\nobject_size = \"4KiB\"\n"));
    assert!(!part(rows[1].0).contains("records that are"), "1 KiB is whole sectors");
    assert!(!part(rows[1].0).contains("deviation"), "all are as long");
}

/// fio writes nothing past the first writer where a size is no whole block, and a `stonewall` waits for all jobs of the file.
#[test]
fn checkpoints_are_whole_requests_and_are_read_back_behind_their_own_writes() {
    let text = "schema = 1\nname = \"a\"\ntitle = \"A\"\nsource = \"made up\"\nmetric = \"iops\"\n[[part]]\nname = \"training\"\n\
                [part.accelerator]\nbatch = 1\ncompute = \"1s\"\nsample_size = \"1MiB\"\n[[part]]\nname = \"save\"\n[part.checkpoint]\n\
                writers = 2\nwriter_size = \"10332031250 B\"\nread_back = true\n";
    let run = RunHints { run: Some(NanoSpan::from_secs(9)), ..hints() };
    let text = export_fio(&Workload::from_toml("a.toml", text).unwrap(), &run).text;
    let whole = 10_332_031_250u64.next_multiple_of(1 << 20);
    assert!(
        text.contains(&format!("# lost: save: the exact size of each writer, 10332031250: it is {whole}")),
        "{text}"
    );
    assert_eq!(text.matches(&format!("\nsize={whole}\noffset_increment={whole}\n")).count(), 2, "{text}");
    assert!(text.contains("wait_for=save\n") && !text.contains("stonewall"), "{text}");
    let (global, sections) = text.split_once("\n[training]\n").unwrap();
    assert!(!global.contains("time_based"), "a checkpoint is written once");
    assert_eq!(sections.split("\n[save]\n").next().unwrap().matches("time_based=1").count(), 1, "{text}");
    assert_eq!(sections.matches("time_based=1").count(), 1, "{text}");
}

#[test]
fn parts_for_targets_are_jobs_on_these() {
    let part = |name: &str, target| MixPart {
        name: name.into(),
        lines: vec![AccessLine::plain(4096, 0, 0)],
        target: NonZeroU32::new(target),
        ..MixPart::default()
    };
    let parts = vec![part("data", 1), part("log", 2), part("all", 0)];
    let of = |targets: &[&str]| {
        let run = RunHints { targets: targets.iter().map(|it| (*it).to_owned()).collect(), ..hints() };
        let text =
            export_fio(&workload(AccessSpec { parts: parts.clone(), ..AccessSpec::default() }), &run).text;
        assert!(!text.split("[data]").next().unwrap().contains("filename"), "{text}");
        let jobs = text.split("\n[").skip(2).map(|job| {
            let key = job.lines().find_map(|line| line.strip_prefix("filename=")).unwrap_or_default();
            (job.split(']').next().unwrap_or_default().to_owned(), key.to_owned())
        });
        jobs.map(|(name, file)| format!("{name} {file}")).collect::<Vec<_>>()
    };
    let named = ["data /dev/x", "log a\\:b", "all /dev/x", "all-2 a\\:b"];
    assert_eq!(of(&["/dev/x", "a:b"]), named);
    assert_eq!(of(&[]), ["data TARGET", "log TARGET-2", "all TARGET", "all-2 TARGET-2"]);
    let mut spec = AccessSpec::new("files", vec![AccessLine::plain(4096, 0, 0)]);
    spec.places.files.count = 4;
    assert!(export_fio(&workload(spec), &hints()).lost[0].contains("files that have their turns"));
}

#[test]
fn logs_ask_as_often_as_their_clients() {
    let text = export_fio(&builtin_workload("postgresql-pgbench").unwrap(), &hints()).text;
    let log = text.split("\n[").find(|job| job.starts_with("wal]")).unwrap();
    for key in ["rw=write\n", "numjobs=32\n", "iodepth=1\n", "thinktime=", "fdatasync=1\n"] {
        assert!(log.contains(key), "{key}: {log}");
    }
}

#[test]
fn what_is_lost_is_named() {
    let lost = |name: &str| export_fio(&builtin_workload(name).unwrap(), &hints()).lost.join("\n");
    for (name, word) in [
        ("mlperf-unet3d", "training: batches, compute time, prefetch, barrier and utilisation"),
        ("checkpoint-llama3-8b", "when it is written"),
        ("postgresql-pgbench", "group commit"),
        ("kv-cache", "eviction"),
        ("rocksdb-overwrite", "that it follows what"),
    ] {
        assert!(lost(name).contains(word), "{name}: {}", lost(name));
    }
    let rhythm = Rhythm {
        steps: vec![(NanoSpan::from_secs(1), 1.0), (NanoSpan::from_secs(1), 3.0)],
        ..Rhythm::default()
    };
    let rate = RequestRate::new(100.0).unwrap();
    let arrivals = Arrivals { process: ArrivalProcess::Fixed, rate, burst: 2 };
    let spec = AccessSpec {
        rhythm,
        pacing: Pacing::Open(arrivals),
        ..AccessSpec::new("x", vec![AccessLine::plain(4096, 100, 100)])
    };
    let lost = export_fio(&workload(spec), &hints()).lost;
    assert_eq!(lost.len(), 3, "{lost:?}");
}
