//! Both sides in one process over loopback, and a server among misbehaving peers.

use super::wire::{self, Message, Role};
use super::*;
use crate::run::Go;
use raidlab_workload::{NetDirection, NetSide};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn no_watch() -> Box<dyn FnOnce() -> MachineLoad> {
    Box::new(MachineLoad::default)
}

fn order(direction: NetDirection, send_bytes: u64, connections: u32) -> NetOrder {
    NetOrder {
        direction,
        send_bytes,
        connections,
        ramp_ms: 20,
        run_ms: 150,
        socket_buffer: None,
        congestion: None,
        nodelay: false,
        zero_copy: false,
    }
}

/// Runs `work` beside a server, and returns what came of it and what the server's clients ended with.
fn beside_a_server<T>(work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, cancel, ends) =
        (listener.local_addr().unwrap(), AtomicBool::new(false), Mutex::new(Vec::new()));
    let result = std::thread::scope(|scope| {
        let tell = |event: NetEvent<'_>| {
            if let NetEvent::Ended { error, .. } = event {
                ends.lock().unwrap().push(error.map(ToString::to_string));
            }
        };
        let (listener, cancel) = (&listener, &cancel);
        let server = scope.spawn(move || serve(listener, &no_watch, cancel, &tell));
        // The server ends also where the work fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        cancel.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
        result
    });
    let ends = ends.into_inner().unwrap();
    (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), ends)
}

fn run(client: &mut NetClient, order: &NetOrder, source: &NetSource, path: Option<&PathBuf>) -> NetRun {
    let cancel = AtomicBool::new(false);
    client.run(order, (source, path), (&no_watch, &mut || Go::Now), &cancel, &mut |_| {}).unwrap()
}

#[test]
fn data_flow_each_way_at_each_length() {
    let (runs, ends) = beside_a_server(|address| {
        let mut client = NetClient::connect(&address.to_string()).unwrap();
        assert!(!client.host().is_empty());
        let mut runs = Vec::new();
        for direction in [NetDirection::Send, NetDirection::Receive, NetDirection::Both] {
            for (send_bytes, connections) in [(10, 1), (1472, 3), (1 << 20, 2)] {
                let order = order(direction, send_bytes, connections);
                runs.push((order.clone(), run(&mut client, &order, &NetSource::Memory, None)));
            }
        }
        runs
    });
    assert_eq!(ends, [None]);
    for (order, run) in runs {
        let NetRun { facts, wall, .. } = run;
        let (near, far) = (&facts.near, &facts.far);
        let moved = |sender: &NetSide, receiver: &NetSide, flows: bool| {
            assert_eq!(
                (sender.sent_bytes > 0, receiver.received_bytes > 0),
                (flows, flows),
                "{order:?} {facts:?}"
            );
            // A send counts when it is whole: parts of the first and the last of each connection are on top.
            let most = (sender.sends + u64::from(order.connections)) * order.send_bytes;
            assert!(sender.sent_bytes <= most, "{order:?}: {sender:?}");
        };
        moved(near, far, order.direction.near_sends());
        moved(far, near, order.direction.far_sends());
        for side in [near, far] {
            assert!((150..600).contains(&(side.window_ns / 1_000_000)), "{side:?}");
            let sockets = &side.sockets;
            assert!(sockets.mtu_bytes >= 1500 && sockets.mss_bytes >= 500 && sockets.send_buffer_bytes > 0);
            assert!(!sockets.congestion.is_empty());
        }
        assert_eq!((facts.method.as_str(), facts.source.as_str()), ("write", "memory"));
        assert!(wall.get() > 170_000_000);
    }
}

#[test]
fn settings_reach_both_sides() {
    let (run, _) = beside_a_server(|address| {
        let order = NetOrder {
            socket_buffer: Some(40_000),
            congestion: Some("reno".into()),
            nodelay: true,
            ..order(NetDirection::Both, 1000, 1)
        };
        run(&mut NetClient::connect(&address.to_string()).unwrap(), &order, &NetSource::Memory, None)
    });
    for sockets in [run.facts.near.sockets, run.facts.far.sockets] {
        // socket(7): the kernel doubles what is asked for.
        assert_eq!((sockets.send_buffer_bytes, sockets.receive_buffer_bytes), (80_000, 80_000));
        assert_eq!(sockets.congestion, "reno");
    }
}

#[test]
fn zero_copy_is_asked_for_and_heard_of() {
    let (run, _) = beside_a_server(|address| {
        let order = NetOrder { zero_copy: true, ..order(NetDirection::Send, 64 << 10, 1) };
        run(&mut NetClient::connect(&address.to_string()).unwrap(), &order, &NetSource::Memory, None)
    });
    let sockets = &run.facts.near.sockets;
    assert_eq!(run.facts.method, "MSG_ZEROCOPY");
    assert!(run.facts.far.received_bytes > 0 && sockets.zero_copy_sends > 0, "{sockets:?}");
    assert!(sockets.zero_copy_copied <= sockets.zero_copy_sends);
}

/// A peer that takes a test's data and keeps the first of them.
fn first_bytes_sent(order: &NetOrder, source: &NetSource, path: &PathBuf, wanted: usize) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| {
            let limit = Duration::from_secs(10);
            let mut greeting = [0; wire::GREETING_BYTES];
            let (mut control, _) = listener.accept().unwrap();
            control.read_exact(&mut greeting).unwrap();
            wire::say(&control, &Message::Hello { host: "peer".into() }, limit).unwrap();
            assert!(matches!(wire::hear(&control, limit), Ok(Some(Message::Order { .. }))));
            wire::say(&control, &Message::Ready { token: [7; 16] }, limit).unwrap();
            let (mut data, _) = listener.accept().unwrap();
            data.read_exact(&mut greeting).unwrap();
            assert!(matches!(wire::parse_greeting(&greeting), Ok(Role::Data(token)) if token == [7; 16]));
            wire::say(&control, &Message::Attached, limit).unwrap();
            assert_eq!(wire::hear(&control, limit).unwrap(), Some(Message::Go));
            let mut received = vec![0; wanted];
            data.read_exact(&mut received).unwrap();
            io::copy(&mut data, &mut io::sink()).unwrap();
            wire::say(&control, &Message::Done { side: Box::default() }, limit).unwrap();
            received
        });
        run(&mut NetClient::connect(&address.to_string()).unwrap(), order, source, Some(path));
        peer.join().unwrap()
    })
}

#[test]
fn a_file_is_sent_in_whole_sends_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).take(250_000).collect();
    std::fs::write(&path, &bytes).unwrap();
    let source = NetSource::file(&path).unwrap();
    for zero_copy in [false, true] {
        let order = NetOrder { zero_copy, ..order(NetDirection::Send, 100_000, 1) };
        let received = first_bytes_sent(&order, &source, &path, 500_000);
        // Two whole sends fit; the rest of the file is left out.
        let expected: Vec<u8> = bytes[..200_000].iter().cycle().take(500_000).copied().collect();
        assert!(received == expected, "zero-copy {zero_copy}");
    }
    let long = order(NetDirection::Send, 250_001, 1);
    let (refused, _) = beside_a_server(|address| {
        let mut client = NetClient::connect(&address.to_string()).unwrap();
        client.run(
            &long,
            (&source, Some(&path)),
            (&no_watch, &mut || Go::Now),
            &AtomicBool::new(false),
            &mut |_| {},
        )
    });
    assert!(matches!(refused, Err(NetError::FileTooShort { .. })));
}

/// Connects, says `words`, and returns what the server answers until it closes.
fn say_raw(address: SocketAddr, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may close before it has read all.
    let _ = stream.write_all(words);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn control_with(words: &[u8]) -> Vec<u8> {
    [&wire::greeting(Role::Control)[..], words].concat()
}

fn frame(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn peers_that_do_not_behave_are_refused_and_others_served() {
    let mut other_version = wire::greeting(Role::Control);
    other_version[11] = 2;
    let long =
        serde_json::to_string(&Message::Order { order: order(NetDirection::Send, u64::MAX, 1) }).unwrap();
    let many =
        serde_json::to_string(&Message::Order { order: order(NetDirection::Send, 1, u32::MAX) }).unwrap();
    let table: [(Vec<u8>, &str); 10] = [
        (b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n".to_vec(), "greeting is not raidlab's"),
        (other_version.to_vec(), "speaks version 2"),
        (b"raidlab-net".to_vec(), "ended within a message"),
        (wire::greeting(Role::Data([1; 16])).to_vec(), ""),
        (control_with(&u32::MAX.to_be_bytes()), "65536 are allowed"),
        (control_with(&frame("{\"kind\":\"order\"")), "no message"),
        (control_with(&frame("[[[[[[")), "no message"),
        (control_with(&frame("{\"kind\":\"go\"}")), "wrong time"),
        (control_with(&frame(&long)), "sends of 18446744073709551615 bytes"),
        (control_with(&frame(&many)), "4294967295 connections"),
    ];
    let ((), ends) = beside_a_server(|address| {
        for (words, expected) in &table {
            let answer = String::from_utf8_lossy(&say_raw(address, words)).into_owned();
            assert!(answer.contains(expected), "{:?}: {answer}", String::from_utf8_lossy(words));
        }
        let first = NetClient::connect(&address.to_string()).unwrap();
        let second = NetClient::connect(&address.to_string());
        assert!(
            matches!(&second, Err(NetError::Refused { reason }) if reason.contains("another client")),
            "{second:?}"
        );
        drop(first);
        // The server hears of the first one's end a moment later.
        let mut client = (0..200)
            .find_map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                NetClient::connect(&address.to_string()).ok()
            })
            .unwrap();
        assert!(
            run(&mut client, &order(NetDirection::Send, 1000, 2), &NetSource::Memory, None)
                .facts
                .far
                .received_bytes
                > 0
        );
    });
    assert_eq!(ends.iter().filter(|end| end.is_some()).count(), 6, "{ends:?}");
}

#[test]
fn connections_that_break_end_the_test_on_both_sides() {
    let (broken, ends) = beside_a_server(|address| {
        let control = TcpStream::connect(address).unwrap();
        (&control).write_all(&wire::greeting(Role::Control)).unwrap();
        let limit = Duration::from_secs(10);
        assert!(matches!(wire::hear(&control, limit), Ok(Some(Message::Hello { .. }))));
        let order = NetOrder { run_ms: 60_000, ..order(NetDirection::Send, 1000, 1) };
        wire::say(&control, &Message::Order { order }, limit).unwrap();
        let Ok(Some(Message::Ready { token })) = wire::hear(&control, limit) else { panic!("no token") };
        let data = TcpStream::connect(address).unwrap();
        (&data).write_all(&wire::greeting(Role::Data(token))).unwrap();
        assert_eq!(wire::hear(&control, limit).unwrap(), Some(Message::Attached));
        wire::say(&control, &Message::Go, limit).unwrap();
        drop(data);
        wire::hear(&control, limit)
    });
    let Ok(Some(Message::Refused { reason })) = broken else { panic!("{broken:?}") };
    assert!(reason.contains("before the window was over"), "{reason}");
    assert_eq!(ends.len(), 1);
    assert!(ends[0].is_some());
}

#[test]
fn a_stop_ends_a_test_soon() {
    let (stopped, _) = beside_a_server(|address| {
        let order = NetOrder { run_ms: 60_000, ..order(NetDirection::Both, 1000, 2) };
        let mut client = NetClient::connect(&address.to_string()).unwrap();
        let cancel = AtomicBool::new(false);
        client.run(&order, (&NetSource::Memory, None), (&no_watch, &mut || Go::Now), &cancel, &mut |_| {
            cancel.store(true, Ordering::Relaxed);
        })
    });
    assert!(matches!(stopped, Err(NetError::Cancelled)), "{stopped:?}");
}

#[test]
fn orders_have_limits() {
    let good = order(NetDirection::Both, 1, 1);
    assert!(good.check().is_ok());
    let bad = [
        NetOrder { connections: 0, ..good.clone() },
        NetOrder { connections: CONNECTIONS_MAX + 1, ..good.clone() },
        NetOrder { send_bytes: 0, ..good.clone() },
        NetOrder { send_bytes: SEND_BYTES_MAX + 1, ..good.clone() },
        NetOrder { run_ms: 0, ..good.clone() },
        NetOrder { run_ms: u64::MAX, ramp_ms: u64::MAX, ..good.clone() },
        NetOrder { socket_buffer: Some(0), ..good.clone() },
        NetOrder { congestion: Some("a b".into()), ..good.clone() },
        NetOrder { congestion: Some("a".repeat(16)), ..good.clone() },
    ];
    for order in bad {
        assert!(matches!(order.check(), Err(NetError::Order(_))), "{order:?}");
    }
}

#[test]
fn greetings_are_read_as_written_and_damage_is_seen() {
    for role in [Role::Control, Role::Data([9; 16])] {
        let greeting = wire::greeting(role);
        assert_eq!(wire::parse_greeting(&greeting).unwrap(), role);
        for at in 0..16 {
            let mut damaged = greeting;
            damaged[at] ^= 4;
            assert!(wire::parse_greeting(&damaged).is_err(), "byte {at}");
        }
    }
}
