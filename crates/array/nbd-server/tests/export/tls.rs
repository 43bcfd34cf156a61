//! The export under TLS: right bytes, which clients are admitted, attacks on the stream, and invalid folders.
//!
//! The other side is rustls, too; `tests/clients` has `GnuTLS` at the other end.

use crate::certificates::{Authority, LONG, Pair};
use crate::client::{Client, Socket, Trouble, secured};
use crate::{MIB, PLAIN, Place, Random, exercise, few_buffers, serve};
use raidlab_nbd::{Op, ServerFault};
use raidlab_nbd_server::{ClientCertificates, NbdOptions, TlsError, TlsServer};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};
use std::fs::Permissions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The client's end of TLS, which two threads can use: one that reads and one that writes.
pub(crate) struct Secured<S> {
    session: Arc<Mutex<ClientConnection>>,
    /// Held while records are sent, so that they keep their order.
    sending: Arc<Mutex<S>>,
    receiving: S,
    /// What came and is not opened.
    came: Vec<u8>,
}

impl<S: Socket> Secured<S> {
    fn new(config: &Arc<ClientConfig>, socket: S) -> Self {
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(config.clone(), name).expect("a session");
        let receiving = socket.twin().expect("a second descriptor");
        let (session, sending) = (Arc::new(Mutex::new(session)), Arc::new(Mutex::new(socket)));
        Self { session, sending, receiving, came: Vec::new() }
    }

    /// Seals `bytes` and sends them with whatever else is to be sent.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = self.sending.lock().expect("no panic");
        let mut records = Vec::new();
        let mut session = self.session.lock().expect("no panic");
        session.set_buffer_limit(None);
        session.writer().write_all(bytes)?;
        while session.wants_write() {
            session.write_tls(&mut records)?;
        }
        drop(session);
        socket.write_all(&records)
    }
}

impl<S: Socket> Read for Secured<S> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.lock().expect("no panic").reader().read(target) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                found => return found,
            }
            self.send(&[])?;
            if self.came.is_empty() {
                let mut bytes = [0; 4096];
                let length = self.receiving.read(&mut bytes)?;
                self.came.extend_from_slice(&bytes[..length]);
            }
            let mut session = self.session.lock().expect("no panic");
            let taken = session.read_tls(&mut &self.came[..])?;
            self.came.drain(..taken);
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl<S: Socket> Write for Secured<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Socket> Socket for Secured<S> {
    fn twin(&self) -> io::Result<Self> {
        let (session, sending) = (self.session.clone(), self.sending.clone());
        Ok(Self { session, sending, receiving: self.receiving.twin()?, came: Vec::new() })
    }
}

/// Settings of a client that believes `authority` and shows `pair`, if any.
fn client_config(
    authority: &Authority,
    pair: Option<&Pair>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = authority.pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match pair {
        None => config.with_no_client_auth(),
        Some(Pair { certificate, key }) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
    })
}

fn any_version(authority: &Authority, pair: Option<&Pair>) -> Arc<ClientConfig> {
    client_config(authority, pair, rustls::ALL_VERSIONS)
}

fn connect(place: &Place<'_>) -> TcpStream {
    TcpStream::connect(place.tls.expect("TLS is served")).expect("the server listens")
}

fn enter(
    place: &Place<'_>,
    config: &Arc<ClientConfig>,
    structured: bool,
) -> Result<Client<Secured<TcpStream>>, Trouble> {
    secured(connect(place), structured, |socket| Secured::new(config, socket))
}

/// Serves under TLS while `test` runs.
fn with_tls(
    nbd: NbdOptions,
    authority: &Authority,
    clients: ClientCertificates,
    revoked: Option<u64>,
    test: impl FnOnce(&Place<'_>),
) {
    let folder = tempfile::tempdir().expect("a folder");
    authority.write_folder(folder.path(), &authority.sign(1, LONG));
    if let Some(serial) = revoked {
        std::fs::write(folder.path().join("ca-crl.pem"), authority.revoke(serial)).expect("a file");
    }
    let tls = TlsServer::from_folder(folder.path(), clients).expect("the folder is right");
    serve("5", nbd, Some(&tls), test);
}

#[test]
fn clients_get_their_bytes_back_under_each_version_and_on_each_socket() {
    let authority = Authority::new("raidlab test");
    with_tls(NbdOptions::default(), &authority, ClientCertificates::NotAsked, None, |place| {
        for (versions, structured) in
            [(&version::TLS13, true), (&version::TLS13, false), (&version::TLS12, true)]
        {
            let config = client_config(&authority, None, &[versions]);
            let mut client = enter(place, &config, structured).expect("a handshake");
            exercise(&mut client, 7, 0, 4 * MIB, 40);
            client.disconnect().expect("a good-bye");
        }
        let config = any_version(&authority, None);
        let mut client =
            secured(place.unix(), true, |socket| Secured::new(&config, socket)).expect("a handshake");
        exercise(&mut client, 8, 0, 2 * MIB, 20);
        exercise(&mut place.client(true), 9, 0, 2 * MIB, 5);
    });
}

#[test]
fn who_does_not_start_tls_is_told_to() {
    let authority = Authority::new("raidlab test");
    with_tls(few_buffers(4), &authority, ClientCertificates::NotAsked, None, |place| {
        let refused = Client::new(connect(place), true);
        assert!(matches!(refused, Err(Trouble::Fault(ServerFault::TlsRequired))));
    });
}

#[test]
fn only_certificates_of_the_authority_let_in_where_they_are_required() {
    let (authority, stranger) = (Authority::new("raidlab test"), Authority::new("raidlab test"));
    let table = [
        ("its own", Some(authority.sign(2, LONG)), true),
        ("none", None, false),
        ("a stranger's", Some(stranger.sign(2, LONG)), false),
        ("an expired one", Some(authority.sign(3, (2020, 2021))), false),
        ("one of the future", Some(authority.sign(4, (2190, 2200))), false),
        ("a revoked one", Some(authority.sign(66, LONG)), false),
    ];
    with_tls(few_buffers(4), &authority, ClientCertificates::Required, Some(66), |place| {
        for versions in [&version::TLS13, &version::TLS12] {
            for (what, pair, welcome) in &table {
                let config = client_config(&authority, pair.as_ref(), &[versions]);
                let found = enter(place, &config, true);
                assert_eq!(found.is_ok(), *welcome, "{what}");
                if let Ok(mut client) = found {
                    exercise(&mut client, 4, 0, MIB, 5);
                }
            }
        }
    });
}

/// Issue 23, defect 3: whoever reached a port in the clear could keep those out who have a certificate.
#[test]
fn some_places_are_kept_for_those_who_prove_who_they_are() {
    let authority = Authority::new("raidlab test");
    let config = any_version(&authority, Some(&authority.sign(2, LONG)));
    with_tls(few_buffers(8), &authority, ClientCertificates::Required, None, |place| {
        let in_the_clear =
            || Client::new(TcpStream::connect(place.tcp).expect("the server listens"), true).ok();
        let unknown: Vec<_> = std::iter::from_fn(in_the_clear).take(9).collect();
        assert_eq!(unknown.len(), 7, "one of 8 places is kept");
        let _half_open: Vec<_> = (0..200).map(|_| connect(place)).collect();
        let mut known = enter(place, &config, true).expect("a place is kept");
        exercise(&mut known, 3, 0, MIB, 3);
        let full = Client::new(place.unix(), true);
        assert!(
            matches!(full, Err(Trouble::Fault(ServerFault::Refused { .. }))),
            "there are 8 places in all"
        );
        drop(unknown);
        exercise(&mut known, 4, 0, MIB, 3);
    });
}

#[test]
fn certificates_are_read_anew_for_those_who_come_from_then_on() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let (old, new) = (any_version(&before, None), any_version(&after, None));
    let folder = tempfile::tempdir().expect("a folder");
    before.write_folder(folder.path(), &before.sign(1, LONG));
    let tls = TlsServer::from_folder(folder.path(), ClientCertificates::NotAsked).expect("it is right");
    serve("5", few_buffers(4), Some(&tls), |place| {
        let mut early = enter(place, &old, true).expect("a handshake");
        assert!(enter(place, &new, true).is_err(), "nothing was read anew");
        // Half of a renewal: certificate and key are of two pairs.
        let pair = after.sign(2, LONG);
        std::fs::write(folder.path().join("server-key.pem"), &pair.key).expect("a file");
        assert!(matches!(tls.reload(), Err(TlsError::OtherKey { .. })));
        exercise(&mut enter(place, &old, true).expect("what was read before is used"), 3, 0, MIB, 3);
        after.write_folder(folder.path(), &pair);
        tls.reload().expect("it is right");
        assert!(enter(place, &old, true).is_err(), "the old certificate is still shown");
        exercise(&mut enter(place, &new, true).expect("the new certificate"), 4, 0, MIB, 5);
        exercise(&mut early, 5, 0, MIB, 5);
    });
}

#[test]
fn attacks_on_the_stream_end_it_and_nothing_else() {
    let authority = Authority::new("raidlab test");
    let config = any_version(&authority, None);
    with_tls(few_buffers(40), &authority, ClientCertificates::NotAsked, None, |place| {
        let mut other = enter(place, &config, true).expect("a handshake");
        let mut random = Random(5);
        let mut open = Vec::new();
        for round in 0..40 {
            let mut socket = connect(place);
            let mut hello = b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0".to_vec();
            let behind = round % 4 == 0;
            if behind {
                // Somebody in between asks for structured replies in the client's name.
                hello.extend(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
            }
            socket.write_all(&hello).expect("the server listens");
            let mut answer = [0; 38];
            let answered = socket.read_exact(&mut answer);
            assert_eq!(answered.is_ok(), !behind, "round {round}");
            let length = random.below(9000);
            let mut bytes = random.bytes(length);
            if round % 3 == 0 {
                // The head of a record of a handshake, and less than it says.
                bytes.splice(0..0, [22, 3, 1, 0x3f, 0xff]);
            }
            let _ = socket.write_all(&bytes);
            // Some stay as they are, half way through.
            if round % 5 == 0 {
                open.push(socket);
            }
            other.call(Op::Read, 0, MIB as u32, &[]).expect("the other client is served");
        }
        exercise(&mut other, 6, 0, MIB, 10);
    });
}

#[test]
fn a_record_that_was_changed_on_the_way_ends_the_connection() {
    let authority = Authority::new("raidlab test");
    let config = any_version(&authority, None);
    with_tls(few_buffers(4), &authority, ClientCertificates::NotAsked, None, |place| {
        let mut other = enter(place, &config, true).expect("a handshake");
        other.call(PLAIN, 0, 4096, &[1; 4096]).expect("a write");
        let mut client = enter(place, &config, true).expect("a handshake");
        client.call(Op::Flush, 0, 0, &[]).expect("a flush");
        let mut records = Vec::new();
        {
            let mut session = client.socket.session.lock().expect("no panic");
            let mut write = 0x2560_9513_u32.to_be_bytes().to_vec();
            write.extend([0, 0, 0, 1]);
            write.resize(26, 0);
            write.extend([16, 0]);
            write.resize(28 + 4096, 9);
            session.writer().write_all(&write).expect("there is room");
            session.write_tls(&mut records).expect("memory takes everything");
        }
        *records.last_mut().expect("a record") ^= 1;
        client.socket.sending.lock().expect("no panic").write_all(&records).expect("the server listens");
        let ended = client.socket.read(&mut [0; 8]);
        assert!(ended.expect_err("an alert").to_string().contains("BadRecordMac"));
        let found = other.call(Op::Read, 0, 4096, &[]).expect("the other client is served");
        assert!(found.iter().all(|byte| *byte == 1), "none of it was written");
    });
}

#[test]
fn a_thousand_broken_handshakes_hurt_nobody() {
    let authority = Authority::new("raidlab test");
    let config = any_version(&authority, None);
    with_tls(few_buffers(16), &authority, ClientCertificates::NotAsked, None, |place| {
        let mut other = enter(place, &config, true).expect("a handshake");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(77);
                for _ in 0..1000 {
                    let mut socket = connect(place);
                    let mut bytes = b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0".to_vec();
                    let _ = socket.write_all(&bytes);
                    let _ = socket.read(&mut [0; 18]);
                    bytes = random.bytes(300);
                    let _ = socket.write_all(&bytes);
                }
            });
            exercise(&mut other, 11, 0, 4 * MIB, 60);
        });
    });
}

#[test]
fn who_does_not_read_under_tls_holds_nobody_up() {
    let authority = Authority::new("raidlab test");
    let config = any_version(&authority, None);
    with_tls(few_buffers(4), &authority, ClientCertificates::NotAsked, None, |place| {
        let mut deaf: Vec<_> =
            (0..3).map(|number| enter(place, &config, number % 2 == 0).expect("a handshake")).collect();
        for client in &mut deaf {
            for _ in 0..40 {
                client.send(Op::Read, 0, MIB as u32, &[]).expect("the server takes it");
            }
        }
        let mut other = enter(place, &config, true).expect("a handshake");
        exercise(&mut other, 3, 8 * MIB, 2 * MIB, 20);
        for mut client in deaf {
            while client.in_flight() > 0 {
                assert_eq!(client.next().expect("the server answers").1, Ok(()));
            }
        }
    });
}

/// Reads a folder after `change`. Returns what is wrong with it.
fn fault(authority: &Authority, change: impl FnOnce(&Path)) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    authority.write_folder(folder.path(), &authority.sign(1, LONG));
    change(folder.path());
    let found: Result<TlsServer, TlsError> =
        TlsServer::from_folder(folder.path(), ClientCertificates::Required);
    let name = folder.path().display().to_string();
    found.err().map(|error| error.to_string().replace(&name, "DIR"))
}

#[test]
fn what_is_wrong_with_a_folder_is_named() {
    let authority = Authority::new("raidlab test");
    let write = |name: &'static str, text: String| {
        move |folder: &Path| std::fs::write(folder.join(name), text).expect("a file")
    };
    assert_eq!(fault(&authority, |_| {}), None);
    let missing = |name: &'static str| {
        fault(&authority, |folder| std::fs::remove_file(folder.join(name)).expect("it is there"))
    };
    for name in ["ca-cert.pem", "server-cert.pem", "server-key.pem"] {
        let found = missing(name).expect("an error");
        let expected = format!(
            "can't read DIR/{name}: No such file or directory (os error 2); a TLS folder holds ca-cert.pem, \
             server-cert.pem and server-key.pem"
        );
        assert_eq!(found, expected);
    }
    let other = authority.sign(5, LONG);
    let found = fault(&authority, write("server-key.pem", other.key.clone()));
    assert_eq!(found.as_deref(), Some("DIR/server-key.pem is not the key of DIR/server-cert.pem"));
    let old = authority.sign(6, (2020, 2021));
    let found = fault(&authority, write("server-cert.pem", old.certificate)).expect("an error");
    assert!(found.starts_with("the certificate in DIR/server-cert.pem expired "), "{found}");
    let early = authority.sign(7, (2190, 2200));
    let found = fault(&authority, write("server-cert.pem", early.certificate)).expect("an error");
    assert!(found.starts_with("the certificate in DIR/server-cert.pem is valid only in "), "{found}");
    let found = fault(&authority, write("server-cert.pem", other.key)).expect("an error");
    assert!(found.starts_with("DIR/server-cert.pem holds no certificate in PEM form"), "{found}");
    let found = fault(&authority, write("server-key.pem", authority.pem())).expect("an error");
    assert!(found.starts_with("DIR/server-key.pem holds no private key in PEM form"), "{found}");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let found = fault(&authority, write("server-key.pem", encrypted.to_owned())).expect("an error");
    assert!(found.starts_with("the key in DIR/server-key.pem has a password"), "{found}");
    // Issue 23, defect 6: it was only warned of.
    for (mode, is_open) in [(0o644, true), (0o602, true), (0o640, false), (0o400, false)] {
        let found = fault(&authority, |folder: &Path| {
            let key = folder.join("server-key.pem");
            std::fs::set_permissions(key, Permissions::from_mode(mode)).expect("it is ours");
        });
        let expected = format!(
            "the key in DIR/server-key.pem is open to everybody on this machine (mode {mode:04o}); close it with: \
             chmod o= DIR/server-key.pem"
        );
        assert_eq!(found, is_open.then_some(expected));
    }
    let found = fault(&authority, write("ca-crl.pem", authority.pem())).expect("an error");
    assert!(found.starts_with("DIR/ca-crl.pem holds no list of revoked certificates"), "{found}");
    // A chain of another authority may be what clients trust: it is warned of and used.
    let stranger = Authority::new("somebody else").sign(8, LONG);
    let both = |folder: &Path| {
        std::fs::write(folder.join("server-cert.pem"), stranger.certificate).expect("a file");
        std::fs::write(folder.join("server-key.pem"), stranger.key).expect("a file");
    };
    assert_eq!(fault(&authority, both), None);
}
