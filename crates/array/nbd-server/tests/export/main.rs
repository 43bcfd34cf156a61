//! The export over real sockets: right bytes for one client and many, through many buffers and few; clients that send
//! invalid data, do not read, or are too many; the stop; and the same under TLS.
//!
//! Verified against vectors of bytes. Not verified: the timeout for clients that do not read (30 s), speed.

mod certificates;
mod client;
mod ragged;
mod tls;

use client::{Client, Socket, Trouble};
use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, WritePolicy};
use raidlab_nbd::{Errno, Op, ServerFault};
use raidlab_nbd_server::{ExportError, NbdListener, NbdOptions, NbdServer, TlsServer};
use raidlab_runtime::{
    ArrayError, ArrayWorld, CreateOptions, RunSettings, StartOptions, UnixSocketError, create,
};
use raidlab_units::{BlockSize, ByteCount};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
const PLAIN: Op = Op::Write { fua: false };

/// Small and quick options: few buffers of the shortest length.
fn few_buffers(connections_max: u32) -> NbdOptions {
    let buffers = 2 * (connections_max + 4);
    NbdOptions { connections_max, buffers, buffer_bytes: ByteCount::from_kib(64), ..NbdOptions::default() }
}

fn config(level: &str) -> ArrayConfig {
    let size = ByteCount::from_mib(4);
    let cache = CacheConfig { size, write_policy: WritePolicy::WriteBack, ..CacheConfig::default() };
    ArrayConfig {
        strip_size: ByteCount::from_kib(16),
        member_size: ByteCount::from_mib(8),
        member_cache: MemberCache::On,
        ..raidlab_testkit::array(level, 3, cache)
    }
}

/// Where the server is.
struct Place<'a> {
    /// With the members in it: `member-0` and so on.
    folder: &'a Path,
    socket: &'a Path,
    tcp: &'a str,
    /// Where TLS is required, if it is served.
    tls: Option<&'a str>,
    stop: &'a AtomicBool,
}

impl Place<'_> {
    fn unix(&self) -> UnixStream {
        UnixStream::connect(self.socket).expect("the server listens")
    }

    fn client(&self, structured: bool) -> Client<UnixStream> {
        Client::new(self.unix(), structured).expect("the server shakes hands")
    }
}

/// Serves an array of 16 MiB while `test` runs.
fn with_server(nbd: NbdOptions, test: impl FnOnce(&Place<'_>)) {
    serve("5", nbd, None, test);
}

/// Opens a Unix socket, a TCP port in the clear and, if there is TLS, one that requires it; the Unix socket offers it.
fn listeners(socket: &Path, tls: Option<&TlsServer>) -> Vec<NbdListener> {
    let any = "127.0.0.1:0".parse().expect("an address");
    let unix = NbdListener::unix(socket).expect("a socket");
    let unix = if let Some(tls) = tls { unix.offering(tls) } else { unix };
    let secure = tls.map(|tls| NbdListener::tcp(any, tls).expect("a port"));
    [unix, NbdListener::tcp_insecure(any).expect("a port")].into_iter().chain(secure).collect()
}

fn serve(level: &str, nbd: NbdOptions, tls: Option<&TlsServer>, test: impl FnOnce(&Place<'_>)) {
    raidlab_testkit::tell_panics();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("nbd.sock");
    let stop = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let config = config(level);
            let files = |place| folder.path().join(format!("member-{place}"));
            let members: Vec<_> = (0..config.members).map(files).collect();
            let options = CreateOptions { members: members.clone(), ..CreateOptions::default() };
            create(&config, &options, &AtomicBool::new(false), &mut |_, _| {}).expect("an array can be made");
            let started = ArrayWorld::start(&members, &RunSettings::of(&config), StartOptions::default());
            let mut world = started.world.expect("the array starts");
            let listeners = listeners(&socket, tls);
            let addresses: Vec<_> = listeners[1..].iter().map(|found| found.address().to_owned()).collect();
            tell.send(addresses).expect("the test waits");
            let (block, volume) = (config.block_size, world.volume_bytes());
            let mut server = NbdServer::new(nbd, block, volume, listeners).expect("a server");
            let served = world.serve(&mut server, &stop);
            assert!(matches!(served, Err(ArrayError::Cancelled)), "{served:?}");
            assert_eq!(server.connections(), 0, "a stop closes all connections");
            world.stop(&AtomicBool::new(false)).expect("the array stops");
        });
        let addresses = told.recv().expect("the server starts");
        let tls = addresses.get(1).map(String::as_str);
        let place = Place { folder: folder.path(), socket: &socket, tcp: &addresses[0], tls, stop: &stop };
        // The server is stopped whatever the test finds, so that a failure ends.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&place)));
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("the server ends well");
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(!socket.exists(), "the socket's file is left");
}

/// Pseudo-random numbers (xorshift; G. Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.below(251) as u8).collect()
    }
}

/// Random requests of whole blocks over `span` bytes from `base` on, those in flight on ranges of their own; each read is
/// compared.
fn exercise<S: Socket>(client: &mut Client<S>, seed: u64, base: u64, span: u64, rounds: u32) {
    exercise_grains(client, seed, base, span, (rounds, BLOCK));
}

/// The same with requests of whole `grain`s, in bytes. Those in flight may share blocks.
fn exercise_grains<S: Socket>(
    client: &mut Client<S>,
    seed: u64,
    base: u64,
    span: u64,
    (rounds, grain): (u32, u64),
) {
    let mut random = Random(seed);
    let mut truth = random.bytes(span);
    client.call(PLAIN, base, span as u32, &truth).expect("the range is written");
    for _ in 0..rounds {
        let mut flying: Vec<(u64, u64, u64, bool)> = Vec::new();
        while flying.len() < 24 {
            let longest = if random.below(4) == 0 { 80 } else { 6 };
            let length = (1 + random.below(longest * BLOCK / grain)) * grain;
            let at = random.below((span - length) / grain) * grain;
            if flying.iter().any(|(_, other, long, _)| at < other + long && *other < at + length) {
                break;
            }
            let fua = random.below(4) == 0;
            let (op, bytes) = match random.below(8) {
                0 => (Op::WriteZeroes { fua, no_hole: false }, vec![0; length as usize]),
                1 => (Op::Cache, Vec::new()),
                2 => (Op::Trim { fua }, Vec::new()),
                3 | 4 => (Op::Write { fua }, random.bytes(length)),
                _ => (Op::Read, Vec::new()),
            };
            let sent: &[u8] = if matches!(op, Op::Write { .. }) { &bytes } else { &[] };
            let tag = client.send(op, base + at, length as u32, sent).expect("the server takes it");
            if !bytes.is_empty() {
                truth[at as usize..(at + length) as usize].copy_from_slice(&bytes);
            }
            flying.push((tag, at, length, op == Op::Read));
        }
        while client.in_flight() > 0 {
            let (tag, result, bytes) = client.next().expect("the server answers");
            assert_eq!(result, Ok(()));
            let (_, at, length, read) =
                *flying.iter().find(|(found, ..)| *found == tag).expect("it was in flight");
            let same = !read || bytes == truth[at as usize..(at + length) as usize];
            assert!(same, "{length} bytes at {at} are other ones");
        }
    }
    client.call(Op::Flush, 0, 0, &[]).expect("a flush");
    assert!(client.call(Op::Read, base, span as u32, &[]).expect("a read") == truth, "the range differs");
}

#[test]
fn one_client_gets_its_bytes_back_over_every_kind_of_socket() {
    with_server(NbdOptions::default(), |place| {
        for structured in [true, false] {
            let mut client = place.client(structured);
            exercise(&mut client, 7, 0, 6 * MIB, 60);
            client.disconnect().expect("a good-bye");
            let tcp = TcpStream::connect(place.tcp).expect("the server listens");
            exercise(&mut Client::new(tcp, structured).expect("a handshake"), 8, 5 * MIB, 3 * MIB, 30);
        }
    });
}

#[test]
fn many_clients_share_few_buffers() {
    with_server(few_buffers(6), |place| {
        std::thread::scope(|scope| {
            for number in 0..6 {
                scope.spawn(move || {
                    let mut client = place.client(number % 2 == 0);
                    exercise(&mut client, 100 + number, number * 2 * MIB, 2 * MIB, 40);
                });
            }
        });
    });
}

#[test]
fn what_one_client_flushed_another_sees() {
    with_server(few_buffers(4), |place| {
        let (mut writer, mut reader) = (place.client(true), place.client(false));
        for round in 0..50_u8 {
            writer.call(PLAIN, 0, BLOCK as u32, &[round; BLOCK as usize]).expect("a write");
            reader.call(Op::Flush, 0, 0, &[]).expect("a flush");
            assert!(
                reader
                    .call(Op::Read, 0, BLOCK as u32, &[])
                    .expect("a read")
                    .iter()
                    .all(|byte| *byte == round)
            );
        }
    });
}

#[test]
fn a_client_that_does_not_read_keeps_its_own_share_only() {
    with_server(few_buffers(4), |place| {
        let mut deaf: Vec<_> = (0..3).map(|number| place.client(number % 2 == 0)).collect();
        for client in &mut deaf {
            for _ in 0..40 {
                client.send(Op::Read, 0, MIB as u32, &[]).expect("the server takes it");
            }
        }
        exercise(&mut place.client(true), 3, 8 * MIB, 2 * MIB, 40);
        // Whoever reads after all gets everything.
        for mut client in deaf {
            while client.in_flight() > 0 {
                assert_eq!(client.next().expect("the server answers").1, Ok(()));
            }
        }
    });
}

/// A client gives the rest of a payload when it has the answer to a read, for which no buffer is left but those set aside. When one
/// comes back, it is answered, and not when the server looks at all clients, which it does once a second.
#[test]
fn who_stops_within_a_payload_gets_a_buffer_that_comes_back() {
    let buffer_bytes = ByteCount::from_kib(64);
    let options = NbdOptions { connections_max: 2, buffers: 4, buffer_bytes, ..NbdOptions::default() };
    with_server(options, |place| {
        let (mut deaf, mut client) = (place.client(true), place.client(true));
        let pause = || std::thread::sleep(Duration::from_millis(100));
        let rounds = (0..5).map(|_| {
            for _ in 0..8 {
                deaf.send(Op::Read, 0, MIB as u32, &[]).expect("the server takes it");
            }
            pause();
            let (read, read_head) = client.head(Op::Read, 0, BLOCK as u32);
            let (write, write_head) = client.head(PLAIN, 0, BLOCK as u32);
            let half = vec![7; BLOCK as usize / 2];
            client.send_bytes([read_head, write_head, half.clone()].concat()).expect("the server takes it");
            pause();
            while deaf.in_flight() > 0 {
                assert_eq!(deaf.next().expect("the server answers").1, Ok(()));
            }
            let came_back = Instant::now();
            assert_eq!(client.next().expect("the server answers").0, read);
            let waited = came_back.elapsed();
            client.send_bytes(half).expect("the server takes it");
            assert_eq!(client.next().expect("the server answers").0, write);
            waited
        });
        let waited = rounds.min().expect("some rounds");
        assert!(waited < Duration::from_millis(300), "the read waited for {waited:?} in each round");
    });
}

#[test]
fn nonsense_costs_nobody_else_anything() {
    with_server(few_buffers(40), |place| {
        let mut other = place.client(true);
        let mut random = Random(99);
        for round in 0..60 {
            let length = random.below(3000);
            let mut bytes = random.bytes(length);
            if round % 3 == 0 {
                bytes.splice(0..0, *b"\0\0\0\x03IHAVEOPT");
            }
            let mut socket = place.unix();
            let _ = socket.write_all(&bytes);
            if round % 2 == 0 {
                // Half of a write, and away.
                drop(socket);
                let mut client = place.client(true);
                let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
                request.extend([0, 0, 0, 1]);
                request.resize(26, 0);
                request.extend([4, 0]);
                request.resize(28 + 500, 5);
                client.socket.write_all(&request).expect("the server listens");
            }
            other.call(Op::Read, 0, MIB as u32, &[]).expect("the other client is served");
        }
        let mut client = place.client(true);
        client.socket.write_all(&[0x5a; 28]).expect("the server listens");
        assert!(matches!(client.next(), Err(Trouble::Gone)), "no request, no connection");
        exercise(&mut other, 5, 0, MIB, 20);
    });
}

#[test]
fn too_many_clients_are_told_so() {
    with_server(few_buffers(2), |place| {
        let clients: Vec<_> = (0..2).map(|_| place.client(true)).collect();
        for _ in 0..20 {
            match Client::new(place.unix(), true) {
                Err(Trouble::Fault(ServerFault::Refused { text, .. })) => {
                    assert_eq!(text, "too many clients are connected");
                }
                Err(trouble) => panic!("{trouble:?}"),
                Ok(_) => panic!("a third client was let in"),
            }
        }
        let waiting: Vec<_> = (0..6).map(|_| place.unix()).collect();
        drop((clients, waiting));
        // There is room again as soon as the server has noticed.
        let again = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Client::new(place.unix(), true).ok()
        });
        exercise(&mut again.expect("there is room again"), 6, 0, MIB, 5);
    });
}

/// Issue 23, defect 3: half-open connections locked new clients out for 10 s, again and again.
#[test]
fn who_only_comes_and_waits_keeps_nobody_out() {
    with_server(few_buffers(3), |place| {
        let working = place.client(true);
        let silent: Vec<_> = (0..300).map(|_| place.unix()).collect();
        let tcp: Vec<_> =
            (0..300).map(|_| TcpStream::connect(place.tcp).expect("the server listens")).collect();
        let mut late: Vec<_> = (0..2).map(|_| place.client(true)).collect();
        late.push(working);
        for (number, client) in (0..).zip(&mut late) {
            exercise(client, number, number * 2 * MIB, 2 * MIB, 3);
        }
        assert!(Client::new(place.unix(), true).is_err(), "clients that work keep their places");
        let ended = |mut socket: UnixStream| {
            let mut greeting = Vec::new();
            let read = socket.read_to_end(&mut greeting);
            assert!(read.is_err() || greeting.len() == 18, "{greeting:?}");
        };
        silent.into_iter().take(200).for_each(ended);
        drop(tcp);
        exercise(&mut late[2], 9, 0, MIB, 3);
    });
}

/// A handshake of an unknown client took longer than the moment that each has, and was ended for those of known ones.
#[test]
fn known_clients_that_wait_do_not_end_the_handshakes_of_unknown_ones() {
    with_server(few_buffers(3), |place| {
        let slow = TcpStream::connect(place.tcp).expect("the server listens");
        let silent: Vec<_> = (0..200).map(|_| place.unix()).collect();
        std::thread::sleep(Duration::from_secs(1));
        exercise(&mut Client::new(slow, true).expect("its handshake goes on"), 7, 0, MIB, 3);
        drop(silent);
    });
}

#[test]
fn who_says_each_byte_late_has_no_longer_than_who_says_nothing() {
    with_server(few_buffers(3), |place| {
        let mut slow = place.unix();
        let begin = Instant::now();
        let header = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\x0f\xa0";
        for byte in header.iter().chain(std::iter::repeat(&0)).take(300) {
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let took = begin.elapsed().as_secs();
        assert!((9..25).contains(&took), "the handshake may take {took} s");
    });
}

#[test]
fn a_stop_ends_what_is_in_flight_and_closes() {
    with_server(NbdOptions::default(), |place| {
        let (mut busy, mut idle) = (place.client(true), place.client(false));
        idle.call(Op::Flush, 0, 0, &[]).expect("a flush");
        // In one go: a request that is sent after the stop finds the socket shut and is never answered.
        let heads: Vec<u8> =
            (0..16).flat_map(|at| busy.head(Op::Read, at * MIB / 2, MIB as u32 / 2).1).collect();
        busy.send_bytes(heads).expect("the server takes them");
        assert_eq!(busy.next().expect("an answer").1, Ok(()));
        place.stop.store(true, Ordering::Relaxed);
        while busy.in_flight() > 0 {
            let (_, result, _) = busy.next().expect("what is in flight is answered");
            assert!(matches!(result, Ok(()) | Err(Errno::ShuttingDown)), "{result:?}");
        }
        for mut client in [busy, idle] {
            assert!(matches!(client.next(), Err(Trouble::Gone)));
        }
    });
}

/// Issue 23, defect 6: the umask decided, and 022 let everybody look, 0 let everybody write.
#[test]
fn the_socket_is_for_its_owner_whatever_the_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    for umask in [0, 0o022, 0o077] {
        let path = folder.path().join(format!("{umask}.sock"));
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        let listener = NbdListener::unix(&path);
        rustix::process::umask(before);
        let _listener = listener.expect("a socket");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "with umask {umask:o}");
    }
}

#[test]
fn a_socket_in_use_is_left_alone_and_a_dead_one_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nbd.sock");
    let first = NbdListener::unix(&path).expect("a socket");
    assert!(matches!(NbdListener::unix(&path), Err(ExportError::Socket(UnixSocketError::InUse { .. }))));
    drop(first);
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that is left behind"));
    drop(NbdListener::unix(&path).expect("a socket instead"));
    std::fs::write(&path, "precious").expect("a file");
    let refused = NbdListener::unix(&path);
    assert!(matches!(refused, Err(ExportError::Socket(UnixSocketError::NoSocket { .. }))));
    assert_eq!(std::fs::read(&path).expect("it is there"), b"precious");
}

#[test]
fn options_that_do_not_fit_are_named() {
    let new =
        |options| NbdServer::new(options, BlockSize::B4096, ByteCount(16 * MIB), Vec::new()).map(|_| ());
    let buffers = NbdOptions { buffers: 10, ..NbdOptions::default() };
    let expected = "64 connections need at least 128 buffers, and there are 10";
    assert_eq!(new(buffers).expect_err("too few").to_string(), expected);
    let short = NbdOptions { buffer_bytes: ByteCount(4096), ..NbdOptions::default() };
    assert!(matches!(new(short), Err(ExportError::BufferBytes { found: 4096 })));
    let name = NbdOptions { name: "a\0".into(), ..NbdOptions::default() };
    assert!(matches!(new(name), Err(ExportError::Export(_))));
    new(NbdOptions::default()).expect("the defaults fit");
}
