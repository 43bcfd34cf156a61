//! Members that are NBD exports: the same bytes as on files, with servers of various behaviours, and servers that fail,
//! fall silent or go away under load.
//!
//! Verified: every byte read, the requests to the server (`peer.rs`), refusals, that an array goes on without a member
//! and is rebuilt onto another. Not verified: TCP's own behaviour beyond one connection, rates.

use super::common;
use super::operator::{check_again, is_whole, use_array};
use super::peer::{FLUSH, FUA, Manners, PLAIN, Peer, READ_ONLY, ZEROES};
use super::real::{keeping, options};
use super::{GO_ON, folder, read_all, serve};
use raidlab_controller::{ArrayConfig, MemberCache, MetadataPolicy};
use raidlab_format::{ArrayUuid, Placement, StartOptions};
use raidlab_runtime::{
    ArrayWorld, Command, Condition, CreateError, CreateOptions, DeviceCondition, DeviceVerdict, RunSettings,
    ScriptOp, create, examine,
};
use raidlab_units::{ByteCount, Lba, NanoSpan};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Room for the log of 1 MiB, a data area of 1 MiB and a little more.
const EXPORT_BYTES: usize = 8 << 20;

const MANNERS: [Manners; 6] = [
    PLAIN,
    Manners { structured: true, flags: FLUSH, sizes: Some([512, 4096, 1 << 25]) },
    Manners { structured: true, flags: FLUSH | FUA | ZEROES, sizes: Some([4096, 4096, 12 << 10]) },
    Manners { structured: false, flags: FUA, sizes: Some([1, 512, 5000]) },
    Manners { structured: false, flags: ZEROES, sizes: Some([4096, 65_536, 65_536]) },
    Manners { structured: true, flags: 0, sizes: None },
];

fn array(members: u16) -> ArrayConfig {
    keeping("5", members, MetadataPolicy::Log)
}

fn peers(folder: &Path, manners: &[Manners]) -> Vec<Peer> {
    let manners = manners.iter().enumerate();
    manners.map(|(at, manners)| Peer::new(folder, &format!("s{at}"), EXPORT_BYTES, *manners)).collect()
}

fn uris(peers: &[Peer]) -> Vec<PathBuf> {
    peers.iter().map(|peer| peer.uri("")).collect()
}

/// Makes an array of members, of which exports are named as what may be destroyed.
fn make(config: &ArrayConfig, members: &[PathBuf]) -> Result<(), CreateError> {
    let exports = members.iter().map(|member| member.display().to_string());
    let destroy_data = exports.filter(|member| member.starts_with("nbd")).collect();
    let options = CreateOptions { destroy_data, ..options(members.to_vec(), vec![]) };
    create(config, &options, &GO_ON, &mut |_, _| {}).map(drop)
}

/// Puts an export in the place of a device, whatever it holds.
fn replace(device: &str, peer: &Peer) -> Command {
    Command::Replace {
        device: device.into(),
        with: peer.uri(""),
        destroy_data: true,
        server_restarted: false,
    }
}

fn start(members: &[PathBuf], settings: &RunSettings) -> ArrayWorld {
    let mut world = ArrayWorld::start(members, settings, StartOptions::default()).world.expect("it starts");
    world.await_serving(&GO_ON).expect("it is served");
    world
}

#[test]
fn an_array_on_exports_holds_the_same_bytes_whatever_the_servers_manners() {
    for member_cache in [MemberCache::On, MemberCache::Off] {
        let folder = folder();
        let peers = peers(folder.path(), &MANNERS);
        let members = uris(&peers);
        let config = array(MANNERS.len() as u16);
        make(&config, &members).expect("an array is made");
        let settings = RunSettings { member_cache, ..RunSettings::of(&config) };
        let mut world = start(&members, &settings);
        let script = common::random_script(11, world.volume_blocks(), 400);
        let (expected, volume) = common::reference(&script, world.volume_blocks());
        let results = serve(&mut world, &script, 1);
        assert!(results.into_iter().eq(expected.into_iter().map(Ok)), "wrong bytes");
        assert!(read_all(&mut world).as_ref() == Ok(&volume), "wrong bytes at the end");
        world.stop(&GO_ON).expect("it stops");
        drop(world);
        for (peer, manners) in peers.iter().zip(&MANNERS) {
            let seen = peer.seen();
            let (flush, fua) = (manners.flags & FLUSH != 0, manners.flags & FUA != 0);
            assert!(seen.writes > 100 && seen.together > 1, "{manners:?}: {seen:?}");
            assert_eq!((seen.flushes > 0, seen.fua_writes > 0), (flush, fua), "{manners:?}: {seen:?}");
            if fua && (!flush || member_cache == MemberCache::Off) {
                assert!(seen.fua_writes * 10 > seen.writes * 9, "{manners:?}: {seen:?}");
            }
            if flush && !fua && member_cache == MemberCache::Off {
                assert!(seen.flushes > seen.writes / 4, "{manners:?}: {seen:?}");
            }
        }
        let mut world = start(&members, &settings);
        assert!(read_all(&mut world) == Ok(volume), "wrong bytes after a start");
    }
}

#[test]
fn many_requests_are_in_flight_and_a_stop_says_good_bye() {
    let folder = folder();
    let peers = peers(folder.path(), &[PLAIN, MANNERS[1], MANNERS[2]]);
    let members = uris(&peers);
    let config = array(3);
    make(&config, &members).expect("an array is made");
    let used = use_array(members.clone(), RunSettings::of(&config));
    used.until("used", |status| status.counters.host_writes.min(status.counters.host_reads) > 300);
    let checker = used.stop();
    let begin = Instant::now();
    for peer in &peers {
        let mut seen = peer.seen();
        assert!(seen.together > 2, "{seen:?}");
        while seen.goodbyes == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "no good-bye");
            seen = peer.seen();
        }
    }
    check_again(&members, &RunSettings::of(&config), &checker);
}

#[test]
fn blocks_that_a_server_can_not_read_are_repaired_and_the_member_stays() {
    for structured in [false, true] {
        let folder = folder();
        let peers = peers(folder.path(), &[Manners { structured, ..PLAIN }; 3]);
        let members = uris(&peers);
        let config = array(3);
        make(&config, &members).expect("an array is made");
        let settings = RunSettings::of(&config);
        let used = use_array(members.clone(), settings.clone());
        used.until("whole", |status| is_whole(status) && status.counters.host_writes > 50);
        let geometry = config.geometry(ArrayUuid::default());
        let place = Placement::new(&geometry, ByteCount(EXPORT_BYTES as u64)).expect("there is room");
        peers[1].spoil(place.data_at + (32 << 10)..place.data_at + (100 << 10));
        let status = used.until("read", |status| status.devices[1].errors > 3);
        assert_eq!(status.devices[1].state, DeviceCondition::InSync, "{status:?}");
        peers[1].spoil(0..0);
        // The checker has found every read right and no request failed.
        let checker = used.stop();
        check_again(&members, &settings, &checker);
    }
}

#[test]
fn a_server_that_goes_away_falls_silent_babbles_or_breaks_off_is_a_member_lost_and_another_takes_its_place() {
    for ends in [Peer::vanish, Peer::fall_silent, Peer::babble, Peer::break_off] {
        let folder = folder();
        let peers = peers(folder.path(), &[PLAIN, MANNERS[1], MANNERS[2], MANNERS[3]]);
        let members = uris(&peers[..3]);
        let config = array(3);
        make(&config, &members).expect("an array is made");
        let settings =
            RunSettings { member_timeout: NanoSpan::from_millis(2000), ..RunSettings::of(&config) };
        let used = use_array(members.clone(), settings.clone());
        used.until("used", |status| is_whole(status) && status.counters.host_writes > 100);
        ends(&peers[1]);
        let before = used.until("degraded", |status| status.condition == Condition::Degraded);
        assert_eq!(before.devices[1].state, DeviceCondition::Missing);
        let so_far = before.counters.host_writes;
        used.until("used without it", |status| status.counters.host_writes > so_far + 50);
        let taken = Command::Replace {
            device: "1".into(),
            with: peers[0].uri("alias"),
            destroy_data: true,
            server_restarted: false,
        };
        let reason = used.refused(&taken);
        assert!(reason.contains("in use"), "{reason}");
        used.done(&replace("1", &peers[3]));
        let status = used.until("whole again", is_whole);
        assert_eq!(status.devices[1].path.as_deref(), peers[3].uri("").to_str());
        let checker = used.stop();
        for peer in &peers {
            drop(peer.seen());
        }
        let members = vec![peers[3].uri(""), peers[2].uri(""), peers[0].uri("")];
        check_again(&members, &settings, &checker);
    }
}

/// A write whose flush never came to be, because its server went away, leaves none behind for the file whose I/O takes its slot.
#[test]
fn an_export_without_fua_that_goes_away_leaves_no_flush_to_the_files_beside_it() {
    let folder = folder();
    let peer = Peer::new(folder.path(), "s", EXPORT_BYTES, MANNERS[1]);
    let members = vec![folder.path().join("a"), peer.uri(""), folder.path().join("b")];
    let config = array(3);
    make(&config, &members).expect("an array is made");
    let settings = RunSettings { member_cache: MemberCache::Off, ..RunSettings::of(&config) };
    let used = use_array(members.clone(), settings.clone());
    used.until("used", |status| is_whole(status) && status.counters.host_writes > 100);
    peer.vanish();
    let before = used.until("degraded", |status| status.condition == Condition::Degraded);
    let so_far = before.counters.host_writes;
    used.until("used without it", |status| status.counters.host_writes > so_far + 200);
    let checker = used.stop();
    check_again(&[members[0].clone(), members[2].clone()], &settings, &checker);
}

/// What a server was sent and has not answered, it may do when it wakes: it joins again after that only.
#[test]
fn a_server_that_fell_silent_is_taken_again_when_it_has_ended_the_connection() {
    let folder = folder();
    let peers = peers(folder.path(), &[PLAIN, MANNERS[1], PLAIN, PLAIN]);
    let members = uris(&peers[..3]);
    let config = array(3);
    make(&config, &members).expect("an array is made");
    let settings = RunSettings { member_timeout: NanoSpan::from_millis(2000), ..RunSettings::of(&config) };
    let used = use_array(members.clone(), settings.clone());
    used.until("used", |status| is_whole(status) && status.counters.host_writes > 100);
    peers[1].fall_silent();
    used.until("degraded", |status| status.condition == Condition::Degraded);
    let back = |server_restarted| Command::Replace {
        device: "1".into(),
        with: members[1].clone(),
        destroy_data: true,
        server_restarted,
    };
    let spare = Command::AddSpare { path: members[1].clone(), destroy_data: true, server_restarted: false };
    for command in [back(false), spare] {
        let reason = used.refused(&command);
        assert!(reason.contains("has not answered") && reason.contains("--server-restarted"), "{reason}");
    }
    assert!(peers[1].wake() > 0, "nothing was put off");
    used.done(&back(false));
    used.until("whole again", is_whole);
    // Once more, and the operator knows better: here the server is another one by then.
    peers[1].fall_silent();
    used.until("degraded again", |status| status.condition == Condition::Degraded);
    used.refused(&back(false));
    used.done(&replace("1", &peers[3]));
    used.until("whole with another", is_whole);
    let checker = used.stop();
    drop(peers[1].seen());
    check_again(&[members[0].clone(), peers[3].uri(""), members[2].clone()], &settings, &checker);
}

#[test]
fn the_end_of_an_idle_connection_is_heard_at_once() {
    let folder = folder();
    let peers = peers(folder.path(), &[PLAIN; 3]);
    let config = array(3);
    make(&config, &uris(&peers)).expect("an array is made");
    let mut world = start(&uris(&peers), &RunSettings::of(&config));
    while world.status().scan.is_some() {
        assert!(read_all(&mut world).is_ok());
    }
    peers[2].vanish();
    let begin = Instant::now();
    // Turns of the loop without a request to the members: a drain of nothing.
    while world.status().condition != Condition::Degraded {
        world.drain(&GO_ON).expect("nothing is left to drain");
        assert!(begin.elapsed() < Duration::from_secs(10), "the loss is not heard of");
    }
    world.stop(&GO_ON).expect("it stops without it");
}

fn refusal(config: &ArrayConfig, members: &[PathBuf]) -> String {
    make(config, members).expect_err("it is refused").to_string()
}

#[test]
fn what_can_not_be_a_member_is_refused_and_left_as_it_is() {
    let folder = folder();
    let config = array(3);
    let refusing = |manners: Manners, bytes: usize, word: &str| {
        let odd = Peer::new(folder.path(), "odd", bytes, manners);
        let others = peers(folder.path(), &[PLAIN; 2]);
        let said = refusal(&config, &[others[0].uri(""), odd.uri(""), others[1].uri("")]);
        assert!(said.contains(word), "{word}: {said}");
        for name in ["odd", "s0", "s1"] {
            std::fs::remove_file(folder.path().join(name)).expect("the socket was there");
        }
        odd.edit(|bytes| assert!(bytes.iter().all(|byte| *byte == 0), "{word}: it was written to"));
    };
    refusing(Manners { flags: READ_ONLY, ..PLAIN }, EXPORT_BYTES, "read-only");
    refusing(Manners { sizes: Some([65_536, 65_536, 1 << 20]), ..PLAIN }, EXPORT_BYTES, "64 KiB");
    refusing(PLAIN, 1 << 20, "needs");
    for (uri, word) in [
        ("nbds://localhost/e", "TLS"),
        ("nbd+unix:///e", "socket=PATH"),
        ("nbd+unix:///?socket=/nowhere/s", "can't connect"),
        ("nbd://127.0.0.1:1/", "can't connect"),
    ] {
        let others = peers(folder.path(), &[PLAIN; 2]);
        let said = refusal(&config, &[others[0].uri(""), PathBuf::from(uri), others[1].uri("")]);
        assert!(said.contains(word), "{uri}: {said}");
        for name in ["s0", "s1"] {
            std::fs::remove_file(folder.path().join(name)).expect("the socket was there");
        }
    }
    let peers = peers(folder.path(), &[PLAIN; 3]);
    let said = refusal(&config, &[peers[0].uri(""), peers[1].uri(""), peers[0].uri("alias")]);
    assert!(said.contains("named twice"), "{said}");
}

#[test]
fn an_export_is_overwritten_only_when_it_is_named_with_what_it_holds() {
    let folder = folder();
    let config = array(3);
    let peers = peers(folder.path(), &[PLAIN; 3]);
    let members = uris(&peers);
    peers[1].edit(|bytes| bytes[..4].copy_from_slice(b"XFSB"));
    let named = |names: [&str; 3]| {
        let mut options = options(members.clone(), vec![]);
        options.destroy_data = names.map(str::to_owned).to_vec();
        create(&config, &options, &GO_ON, &mut |_, _| {}).map(drop)
    };
    let [first, second, third] = [0, 1, 2].map(|at: usize| members[at].display().to_string());
    // Zeros alone are somebody's, too.
    let said = named(["", &format!("{second}:xfs"), &third]).expect_err("one is not named").to_string();
    assert!(said.contains("--destroy-data") && said.contains(&first), "{said}");
    let said = named([&first, &second, &third]).expect_err("what it holds must be named").to_string();
    assert!(said.contains("xfs"), "{said}");
    named([&first, &format!("{second}:xfs"), &third]).expect("it is named");
    // The same may be repeated, since nobody used it yet; another array is refused.
    named([&first, &format!("{second}:xfs"), &third]).expect("it is named");
    let other = ArrayConfig { strip_size: ByteCount(config.strip_size.0 / 2), ..config.clone() };
    let said = refusal(&other, &members);
    assert!(said.contains("raidlab"), "{said}");
    let report = examine(&members, StartOptions::default());
    assert!(
        report.devices.iter().all(|it| matches!(it.verdict, DeviceVerdict::Present { .. })),
        "{report:?}"
    );
}

#[test]
fn an_export_that_comes_back_is_stale_and_joins_by_being_rebuilt() {
    let folder = folder();
    let config = array(3);
    let peers = peers(folder.path(), &[PLAIN; 3]);
    let members = uris(&peers);
    make(&config, &members).expect("an array is made");
    let settings = RunSettings::of(&config);
    let mut world = start(&members, &settings);
    while world.status().scan.is_some() {
        assert!(read_all(&mut world).is_ok());
    }
    world.stop(&GO_ON).expect("it stops");
    drop(world);
    let mut world = start(&members[..2], &settings);
    let bytes = vec![0; world.volume_bytes().get() as usize];
    let write = ScriptOp::Write { lba: Lba(0), bytes, fua: true };
    assert!(serve(&mut world, &[write], 1)[0].is_ok());
    world.stop(&GO_ON).expect("it stops");
    drop(world);
    let report = examine(&members, StartOptions::default());
    assert!(matches!(report.devices[2].verdict, DeviceVerdict::Stale { .. }), "{report:?}");
    let used = use_array(members.clone(), settings.clone());
    used.done(&Command::Replace {
        device: "2".into(),
        with: members[2].clone(),
        destroy_data: true,
        server_restarted: false,
    });
    used.until("whole again", is_whole);
    let checker = used.stop();
    check_again(&members[1..], &settings, &checker);
}
