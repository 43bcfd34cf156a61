//! Load on NBD exports of a small server in this test, with simple replies and injected faults.

mod common;

use common::{config, folder, named, run_quietly, spec, to_the_end, trace, until};
use raidlab_device::NbdError;
use raidlab_engines::{
    EngineKind, FailureCause, Go, LoadError, LoadOptions, Target, TargetKind, TargetOptions, run_targets,
};
use raidlab_trace::TraceKind;
use raidlab_units::ByteCount;
use raidlab_workload::DriverConfig;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

const BYTES: usize = 1 << 20;
const READ_ONLY: u16 = 1 << 1;
const EIO: u32 = 5;

/// What a server does.
#[derive(Clone, Copy, Default)]
struct Manners {
    /// Flags of the export.
    flags: u16,
    /// Every so many requests one fails; 0 for none.
    fail_every: u32,
    /// Writes fail that are not to be on the medium when they end.
    needs_fua: bool,
    /// After so many requests the connection ends; 0 for never.
    end_after: u32,
    /// This request is answered wrongly, and then the connection ends.
    wrong: Option<(u32, Wrong)>,
}

/// What is wrong with a reply.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Magic,
    Cookie,
    TooLong,
    CutInPayload,
    CutInHead,
}

impl Wrong {
    fn spoil(self, reply: &mut Vec<u8>) {
        match self {
            Self::Magic => reply[0] ^= 1,
            Self::Cookie => reply[8] ^= 1,
            Self::TooLong => reply.extend([0; 512]),
            Self::CutInPayload => reply.truncate(reply.len() / 2),
            Self::CutInHead => reply.truncate(7),
        }
    }
}

/// A server that lives as long as the test; the export's bytes can be looked at.
fn serve(folder: &Path, manners: Manners) -> (PathBuf, Arc<Mutex<Vec<u8>>>) {
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let export = Arc::new(Mutex::new((0..BYTES).map(|at| (at / 512) as u8).collect()));
    let bytes = Arc::clone(&export);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || drop(talk(stream.unwrap(), manners, &bytes)));
        }
    });
    (path, export)
}

fn take<const N: usize>(stream: &mut UnixStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

fn talk(mut stream: UnixStream, manners: Manners, export: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    const OPT_GO: u32 = 7;
    const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
    stream.write_all(b"NBDMAGICIHAVEOPT\x00\x03")?;
    take::<4>(&mut stream)?;
    loop {
        let head = take::<16>(&mut stream)?;
        let (option, length) = (be32(&head, 8), be32(&head, 12));
        stream.read_exact(&mut vec![0; length as usize])?;
        let mut reply = |kind: u32, data: &[u8]| {
            let head = [&REPLY_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()].concat();
            stream.write_all(&[&head, &(data.len() as u32).to_be_bytes()[..], data].concat())
        };
        if option == OPT_GO {
            let flags = (1 | manners.flags).to_be_bytes();
            reply(3, &[&[0, 0], &(BYTES as u64).to_be_bytes()[..], &flags].concat())?;
            reply(1, &[])?;
            break;
        }
        reply(0x8000_0001, &[])?;
    }
    let mut served = 0;
    loop {
        let head = take::<28>(&mut stream)?;
        let (command, at, length) =
            (be32(&head, 4) & 0xffff, be32(&head, 20) as usize, be32(&head, 24) as usize);
        served += 1;
        if command == 2 || served == manners.end_after {
            return Ok(());
        }
        let mut payload = vec![0; if command == 1 { length } else { 0 }];
        stream.read_exact(&mut payload)?;
        let lacks_fua = manners.needs_fua && command == 1 && be32(&head, 4) >> 16 != 1;
        let fails = lacks_fua || manners.fail_every > 0 && served % manners.fail_every == 0;
        let error = if fails { EIO } else { 0 };
        let mut reply = [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &head[8..16]].concat();
        let mut export = export.lock().unwrap();
        match command {
            _ if fails => {}
            1 => export[at..at + length].copy_from_slice(&payload),
            3 => {}
            4 => export[at..at + length].fill(0xfe),
            6 => export[at..at + length].fill(0),
            _ => reply.extend_from_slice(&export[at..at + length]),
        }
        let wrong = manners.wrong.filter(|(request, _)| *request == served);
        if let Some((_, wrong)) = wrong {
            wrong.spoil(&mut reply);
        }
        stream.write_all(&reply)?;
        if wrong.is_some() {
            return Ok(());
        }
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn uri(socket: &Path) -> PathBuf {
    format!("nbd+unix:///?socket={}", socket.display()).into()
}

#[test]
fn flushes_trims_and_zeroes_go_to_servers_that_offer_them() {
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    let spec = trace(&[
        (TraceKind::Trim, 4096, 8192),
        (TraceKind::WriteZeroes, 65_536, 4096),
        (TraceKind::Flush, 0, 0),
        (TraceKind::Read, 0, 4096),
    ]);
    let folder = folder();
    for (name, flags) in
        [("all", SEND_FLUSH | SEND_TRIM | SEND_WRITE_ZEROES), ("some", SEND_TRIM), ("none", 0)]
    {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let (socket, export) = serve(&place, Manners { flags, ..Manners::default() });
        let uri = uri(&socket);
        let target = Target::open(&uri, &named(&uri)).unwrap();
        let outcome = run_quietly(&target, &spec, &to_the_end(&target), &LoadOptions::default());
        let Ok(outcome) = outcome else {
            let error = outcome.unwrap_err().to_string();
            let missing = if flags == 0 {
                "flushes, trims and writes of zeroes"
            } else {
                "flushes and writes of zeroes"
            };
            assert!(error.contains(missing) && error.contains("its server does not offer them"), "{error}");
            assert_ne!(name, "all", "{error}");
            continue;
        };
        let others = &outcome.measurement.ops.others;
        let counts = [&others.flush, &others.trim, &others.zeroes].map(|stats| stats.requests);
        assert_eq!((name, counts, outcome.first_failure()), ("all", [1; 3], None));
        let export = export.lock().unwrap();
        assert!(export[4096..12_288].iter().all(|byte| *byte == 0xfe));
        assert!(export[65_536..69_632].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn writes_go_to_the_medium_where_that_is_asked_for_and_offered() {
    const SEND_FUA: u16 = 1 << 3;
    let folder = folder();
    for (flags, fua, expected) in [(SEND_FUA, true, Ok(0)), (SEND_FUA, false, Ok(64)), (0, true, Err(()))] {
        let place = folder.path().join(format!("{flags}-{fua}"));
        std::fs::create_dir(&place).unwrap();
        let (socket, _) = serve(&place, Manners { flags, needs_fua: true, ..Manners::default() });
        let options = TargetOptions {
            may_write: true,
            destroy_data: Some(uri(&socket).display().to_string()),
            ..TargetOptions::default()
        };
        let target = Target::open(&uri(&socket), &options).unwrap();
        let config = until(&target, 4, 64);
        let load = LoadOptions { fua, ..LoadOptions::default() };
        match (run_quietly(&target, &spec(4096, 0, 100), &config, &load), expected) {
            (Ok(outcome), Ok(errors)) => assert_eq!(outcome.measurement.ops.write.errors, errors),
            (Err(error), Err(())) => {
                assert!(error.to_string().contains("offers no forced unit access"), "{error}");
            }
            (other, _) => panic!("{flags} {fua}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn exports_are_loaded_by_uri_and_by_socket_with_many_workers() {
    let folder = folder();
    let (socket, _) = serve(folder.path(), Manners::default());
    for name in [uri(&socket), socket] {
        let target = Target::open(&name, &TargetOptions::default()).unwrap();
        assert_eq!((target.kind(), target.size().get()), (TargetKind::Nbd, BYTES as u64));
        for (bytes, iodepth, workers) in [(512, 1, 1), (4096, 16, 1), (4096, 5, 3), (256 << 10, 3, 1)] {
            let options =
                LoadOptions { workers: NonZeroU32::new(workers).unwrap(), ..LoadOptions::default() };
            let outcome =
                run_quietly(&target, &spec(bytes, 100, 100), &until(&target, iodepth, 60), &options).unwrap();
            let read = &outcome.measurement.ops.read;
            assert_eq!((read.requests, read.errors), (60, 0));
            assert_eq!((outcome.iodepth_reached, outcome.engine.as_str()), (iodepth * workers, "nbd"));
        }
    }
}

#[test]
fn writes_need_a_name_and_land_in_the_region_alone() {
    let folder = folder();
    let (socket, export) = serve(folder.path(), Manners::default());
    let writable = TargetOptions { may_write: true, ..TargetOptions::default() };
    let error = Target::open(&socket, &writable).unwrap_err();
    assert!(matches!(error, LoadError::Safety(_)), "{error}");
    let named = TargetOptions { destroy_data: Some(socket.display().to_string()), ..writable };
    let target = Target::open(&socket, &named).unwrap();
    let before = export.lock().unwrap().clone();
    let region = ByteCount((BYTES / 2) as u64);
    let config = DriverConfig { region, max_requests: Some(8), ..config(&target, 3, 60_000) };
    let outcome = run_quietly(&target, &spec(65_536, 0, 0), &config, &LoadOptions::default()).unwrap();
    assert_eq!((outcome.measurement.ops.write.requests, outcome.measurement.ops.write.errors), (8, 0));
    let after = export.lock().unwrap().clone();
    assert!(before[..BYTES / 2].chunks(4096).zip(after.chunks(4096)).all(|(old, new)| old != new));
    assert_eq!(before[BYTES / 2..], after[BYTES / 2..]);
}

#[test]
fn errors_are_counted_and_a_server_that_goes_ends_the_load_on_it_alone() {
    let folders = [folder(), folder(), folder()];
    let manners = [
        Manners { fail_every: 4, ..Manners::default() },
        Manners { end_after: 50, ..Manners::default() },
        Manners { flags: READ_ONLY, ..Manners::default() },
    ];
    let sockets = [0, 1, 2].map(|index| serve(folders[index].path(), manners[index]).0);
    let targets = sockets.each_ref().map(|socket| Target::open(socket, &TargetOptions::default()).unwrap());
    let all: Vec<_> = targets.iter().map(|target| (target, until(target, 4, 200))).collect();
    let spec = spec(4096, 100, 100);
    let run = |targets: &[(&Target, DriverConfig)]| {
        run_targets(
            targets,
            &spec,
            &LoadOptions::default(),
            &mut || Go::Now,
            &AtomicBool::new(false),
            &mut |_| {},
        )
    };
    let outcome = run(&all).unwrap();
    let reads = outcome.targets.iter().map(|target| &target.measurement.ops.read).collect::<Vec<_>>();
    assert!(reads[0].errors > 0 && reads[0].requests > reads[0].errors, "{outcome:?}");
    assert!((40..50).contains(&reads[1].requests), "{outcome:?}");
    assert_eq!((reads[2].requests, reads[2].errors), (200, 0));
    let errors = outcome.targets.iter().map(|target| target.error.as_ref().map(ToString::to_string));
    let errors: Vec<_> = errors.collect();
    assert!(errors[0].is_none() && errors[2].is_none(), "{errors:?}");
    assert!(
        errors[1].as_ref().is_some_and(|error| error.contains("the connection ended; the server is gone"))
    );
    let alone = run(&all[1..2]).unwrap_err();
    assert!(matches!(alone, LoadError::Failing { cause: FailureCause::Disconnected, .. }), "{alone}");
    let named = TargetOptions { may_write: true, destroy_data: Some("x".into()), ..TargetOptions::default() };
    let error = Target::open(&sockets[2], &named).unwrap_err().to_string();
    assert!(error.contains("for reading only"), "{error}");
}

#[test]
fn a_server_that_breaks_the_protocol_or_off_fails_what_is_in_flight() {
    use Wrong::{Cookie, CutInHead, CutInPayload, Magic, TooLong};
    for wrong in [Magic, Cookie, TooLong, CutInPayload, CutInHead] {
        let folder = folder();
        let (socket, _) = serve(folder.path(), Manners { wrong: Some((1, wrong)), ..Manners::default() });
        let target = Target::open(&socket, &TargetOptions::default()).unwrap();
        for bytes in [512, 4096, 128 << 10] {
            let error = run_quietly(
                &target,
                &spec(bytes, 100, 100),
                &until(&target, 4, 200),
                &LoadOptions::default(),
            );
            let cause = error.map(drop).unwrap_err();
            let is_gone = matches!(cause, LoadError::Failing { cause: FailureCause::Disconnected, .. });
            assert!(is_gone, "{wrong:?} {bytes}: {cause}");
        }
        // A look at the export, which is read one request at a time.
        let writable = TargetOptions { may_write: true, ..TargetOptions::default() };
        let error = Target::open(&socket, &writable).unwrap_err();
        assert!(matches!(error, LoadError::Nbd { source: NbdError::Io { .. }, .. }), "{wrong:?}: {error}");
    }
}

#[test]
fn what_is_no_export_or_no_engine_for_it_is_refused() {
    let folder = folder();
    let (socket, _) = serve(folder.path(), Manners::default());
    let error = Target::open(Path::new("nbds://host/x"), &TargetOptions::default()).unwrap_err().to_string();
    assert!(error.contains("TLS"), "{error}");
    let gone = uri(&folder.path().join("nobody"));
    assert!(matches!(Target::open(&gone, &TargetOptions::default()), Err(LoadError::Nbd { .. })));
    let target = Target::open(&socket, &TargetOptions::default()).unwrap();
    let nothing = Target::no_op(ByteCount::from_mib(1));
    for (target, engine) in [(&target, EngineKind::Sync), (&nothing, EngineKind::Nbd)] {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let error = run_quietly(target, &spec(4096, 100, 100), &config(target, 1, 50), &options).unwrap_err();
        assert!(matches!(error, LoadError::EngineUnfit { .. }), "{error}");
    }
}
