//! An NBD export that is a device: the connection, and reads and writes one at a time, which wait.
//!
//! ```text
//! URI ─► connect ─► handshake ─► RemoteDevice ── reads, writes ──► into_remote ─► Link, on the ring
//! ```
//! NBD has no locks: nothing keeps a second array, or anybody else, away from an export. Its server may (`nbdkit
//! --filter=limit limit=1`).
//!
//! A server says whether its export has a volatile cache by offering flush. One that offers none is taken at its word, as
//! Linux and QEMU do: what it has acknowledged is taken for durable. See [`Flushing`].
//!
//! Invariant: an export for use can be written, and its smallest block divides 4 KiB.
//! Left out: TLS.
//! Source: "The NBD protocol", "Ordering of messages and writes" and "Size constraints".

use super::{Purpose, UNIT_BYTES, ZEROS_BYTES, failed};
use crate::error::DeviceError;
use raidlab_load::safety::{DeviceImage, ExportLook};
use raidlab_nbd::{
    ClientAgreement, ClientEvent, ClientHandshake, ClientOptions, ClientRequest, ClientStep, ClientTls,
    ClientTransmission, NbdUri, Op, TransmissionFlags, Transport,
};
use raidlab_units::ByteCount;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::cell::RefCell;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may be silent while it is connected to and shakes hands.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long for a byte of a reply.
const REPLY_PATIENCE: Duration = Duration::from_secs(30);
/// Longest read or write.
const PIECE_BYTES: u32 = 1 << 20;
/// Longest write of zeros.
const ZEROS_REQUEST_BYTES: u64 = 32 << 20;
/// Places between the ends that are looked at before an export is taken for empty, and what is read at each.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 16 << 10;
/// What is received at once.
const INBOX_BYTES: usize = 64 << 10;

/// How what was written to an export becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushing {
    /// By a flush, and single writes by FUA.
    Whole,
    /// By a flush; a write that is to be durable by itself is followed by one.
    WithoutFua,
    /// There is no flush, but FUA: every write has it.
    FuaOnly,
    /// There is neither: the export has no volatile cache, and each write is durable when it is acknowledged.
    NoCache,
}

impl Flushing {
    pub(crate) const fn of(flags: TransmissionFlags) -> Self {
        let (flush, fua) =
            (flags.contains(TransmissionFlags::SEND_FLUSH), flags.contains(TransmissionFlags::SEND_FUA));
        match (flush, fua) {
            (true, true) => Self::Whole,
            (true, false) => Self::WithoutFua,
            (false, true) => Self::FuaOnly,
            (false, false) => Self::NoCache,
        }
    }

    /// Whether a flush is to be sent.
    pub(crate) const fn has_flush(self) -> bool {
        matches!(self, Self::Whole | Self::WithoutFua)
    }

    /// Whether a write carries FUA that is to be durable, or not, when it completes.
    pub(crate) const fn has_fua(self, durable: bool) -> bool {
        matches!(self, Self::FuaOnly) || durable && matches!(self, Self::Whole)
    }
}

/// A connection that transmits.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The connection.
    pub(crate) socket: OwnedFd,
    /// What was agreed on; nothing is in flight.
    pub(crate) agreement: ClientAgreement,
    /// What came that nobody asked for, as a server that is at fault sends it.
    pub(crate) unasked: Vec<u8>,
}

/// An export that is open.
#[derive(Debug)]
pub(crate) struct RemoteDevice {
    path: PathBuf,
    uri: NbdUri,
    bytes: ByteCount,
    agreement: ClientAgreement,
    client: RefCell<Client>,
}

/// The protocol of one request at a time.
#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    transmission: ClientTransmission,
    inbox: Inbox,
}

/// Bytes that came and were not taken in.
#[derive(Debug)]
struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl RemoteDevice {
    /// Connects to the export at `path`, which begins as a URI does.
    ///
    /// # Errors
    /// [`DeviceError`]: no URI, TLS, nobody there, a server that refuses or is silent, an export that can't be used for this.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Self, DeviceError> {
        let refused = |reason: String| DeviceError::Refused { path: path.to_owned(), reason };
        let text = path.to_str().ok_or_else(|| refused("it is not UTF-8".to_owned()))?;
        let uri: NbdUri = text.parse().map_err(|error| refused(format!("it is no NBD URI: {error}")))?;
        if uri.tls {
            return Err(refused(
                "members over TLS are not supported: use nbd:// or nbd+unix://, through a tunnel where the network is \
                 not yours alone"
                    .to_owned(),
            ));
        }
        let socket = connect_to(path, &uri)?;
        let mut inbox = Inbox { bytes: vec![0; INBOX_BYTES].into(), start: 0, end: 0 };
        let agreement = shake_hands(path, &uri, &socket, &mut inbox)?;
        set_patience(&socket, Some(REPLY_PATIENCE)).map_err(|source| failed("connect to", path, source))?;
        let (flags, unit) = (agreement.flags, u64::from(agreement.block_sizes.minimum()));
        if purpose == Purpose::Use && flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(refused("its server offers it read-only, and a member is written".to_owned()));
        }
        if unit > UNIT_BYTES {
            let unit = ByteCount(unit);
            return Err(refused(format!("it takes requests in units of {unit} only; 4 KiB are the most")));
        }
        let bytes = ByteCount(agreement.size_bytes - agreement.size_bytes % unit);
        let client = Client { socket, transmission: ClientTransmission::new(agreement, 1), inbox };
        Ok(Self { path: path.to_owned(), uri, bytes, agreement, client: RefCell::new(client) })
    }

    /// The URI as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length, whole smallest blocks.
    pub(crate) const fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Whether two are the same export of the same server by the same name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.uri.transport == other.uri.transport && self.uri.export == other.uri.export
    }

    /// Its smallest block.
    pub(crate) fn io_unit(&self) -> ByteCount {
        ByteCount(self.agreement.block_sizes.minimum().into())
    }

    /// The connection, for a running array.
    pub(crate) fn into_remote(self) -> Remote {
        let Client { socket, inbox, .. } = self.client.into_inner();
        // The ring waits without a limit; what is silent for too long is found by its own clock.
        if let Err(error) = set_patience(&socket, None) {
            tracing::debug!(%error, "a socket keeps its time limit");
        }
        Remote { socket, agreement: self.agreement, unasked: inbox.bytes().to_vec() }
    }

    /// What it holds, as far as that is told without reading all of it.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn look(&self) -> Result<ExportLook, DeviceError> {
        let bytes = self.bytes.get();
        let window = DeviceImage::WINDOW_BYTES.min(bytes);
        let (head, tail) = (self.read(0, window)?, self.read(bytes - window, window)?);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let mut is_blank = is_zero(&head) && is_zero(&tail);
        for sample in 0..SAMPLES {
            let at = bytes / SAMPLES * sample;
            is_blank = is_blank && is_zero(&self.read(at - at % UNIT_BYTES, SAMPLE_BYTES)?);
        }
        Ok(ExportLook { image: DeviceImage::new(head, tail, bytes), is_blank })
    }

    fn piece_bytes(&self) -> u64 {
        let sizes = self.agreement.block_sizes;
        let longest = sizes.payload_max().min(PIECE_BYTES);
        (longest - longest % sizes.minimum()).into()
    }

    /// See [`super::Device::read`].
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        let mut read = vec![0; bytes.min(self.bytes.get().saturating_sub(offset)) as usize];
        let mut at = offset;
        for piece in read.chunks_mut(self.piece_bytes() as usize) {
            let length = piece.len() as u32;
            self.request("read from", Op::Read, (at, length), Payload::Read(piece))?;
            at += u64::from(length);
        }
        Ok(read)
    }

    /// See [`super::Device::write`].
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let op = Op::Write { fua: Flushing::of(self.agreement.flags).has_fua(false) };
        let mut at = offset;
        for piece in bytes.chunks(self.piece_bytes() as usize) {
            let length = piece.len() as u32;
            self.request("write to", op, (at, length), Payload::Write(piece))?;
            at += u64::from(length);
        }
        Ok(())
    }

    /// See [`super::Device::zero`].
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        let can = self.agreement.flags.contains(TransmissionFlags::SEND_WRITE_ZEROES);
        let fua = Flushing::of(self.agreement.flags).has_fua(false);
        let zeros = vec![0; if can { 0 } else { ZEROS_BYTES.min(bytes) as usize }];
        let piece_max = if can { ZEROS_REQUEST_BYTES } else { ZEROS_BYTES };
        let mut done = 0;
        while done < bytes {
            let (at, piece) = (offset + done, piece_max.min(bytes - done));
            if can {
                let op = Op::WriteZeroes { fua, no_hole: true };
                self.request("write zeros to", op, (at, piece as u32), Payload::None)?;
            } else {
                self.write(at, &zeros[..piece as usize])?;
            }
            done += piece;
        }
        Ok(())
    }

    /// See [`super::Device::sync`].
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        if !Flushing::of(self.agreement.flags).has_flush() {
            return Ok(());
        }
        self.request("flush", Op::Flush, (0, 0), Payload::None)
    }

    /// Does one request for the range from its first byte on, so many bytes, and waits for its end.
    fn request(
        &self,
        doing: &'static str,
        op: Op,
        (offset, length): (u64, u32),
        payload: Payload<'_>,
    ) -> Result<(), DeviceError> {
        let mut client = self.client.borrow_mut();
        let request = ClientRequest { op, offset, length };
        client.request(request, payload).map_err(|source| failed(doing, &self.path, source))
    }
}

/// The bytes of a request.
enum Payload<'a> {
    None,
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl Client {
    fn request(&mut self, request: ClientRequest, mut payload: Payload<'_>) -> io::Result<()> {
        let head = self.transmission.submit(request, 0).map_err(io::Error::other)?;
        send_all(&self.socket, &head)?;
        if let Payload::Write(bytes) = payload {
            send_all(&self.socket, bytes)?;
        }
        loop {
            let (used, event) =
                self.transmission.handle_bytes(self.inbox.bytes()).map_err(io::Error::other)?;
            self.inbox.start += used;
            match (event, &mut payload) {
                (ClientEvent::More, _) => self.inbox.receive(&self.socket)?,
                (ClientEvent::Payload { at, length, .. }, Payload::Read(target)) => {
                    self.inbox.fill(&self.socket, &mut target[at as usize..][..length as usize])?;
                }
                (ClientEvent::Zeroes { at, length, .. }, Payload::Read(target)) => {
                    target[at as usize..][..length as usize].fill(0);
                }
                (ClientEvent::Ended { result, .. }, _) => {
                    return result.map_err(|errno| io::Error::other(errno.to_string()));
                }
                _ => unreachable!("the protocol gives data to reads only"),
            }
        }
    }
}

impl Inbox {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Waits for more bytes behind those that are there, of which the protocol wants more.
    fn receive(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.end += receive(socket, &mut self.bytes[self.end..])?;
        Ok(())
    }

    /// Fills `target` with what is there and what comes next.
    fn fill(&mut self, socket: &OwnedFd, target: &mut [u8]) -> io::Result<()> {
        let mut filled = target.len().min(self.end - self.start);
        target[..filled].copy_from_slice(&self.bytes[self.start..][..filled]);
        self.start += filled;
        while filled < target.len() {
            filled += receive(socket, &mut target[filled..])?;
        }
        Ok(())
    }
}

fn connect_to(path: &Path, uri: &NbdUri) -> Result<OwnedFd, DeviceError> {
    let connected = match &uri.transport {
        Transport::Unix { path } => connect_unix(path),
        Transport::Tcp { host, port } => connect_tcp(host, *port),
    };
    let patient = connected.and_then(|socket| set_patience(&socket, Some(PATIENCE)).map(|()| socket));
    patient.map_err(|source| failed("connect to", path, source))
}

fn set_patience(socket: &OwnedFd, patience: Option<Duration>) -> io::Result<()> {
    set_socket_timeout(socket, Timeout::Recv, patience)?;
    Ok(set_socket_timeout(socket, Timeout::Send, patience)?)
}

fn connect_unix(path: &[u8]) -> io::Result<OwnedFd> {
    let address = match path.strip_prefix(&[0]) {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(path)?,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A server that is stopped leaves those who come waiting at its door.
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    connect(&socket, &address)?;
    Ok(socket)
}

fn connect_tcp(host: &str, port: u16) -> io::Result<OwnedFd> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                set_tcp_nodelay(&socket, true)?;
                return Ok(socket.into());
            }
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

fn shake_hands(
    path: &Path,
    uri: &NbdUri,
    socket: &OwnedFd,
    inbox: &mut Inbox,
) -> Result<ClientAgreement, DeviceError> {
    let options = ClientOptions { tls: ClientTls::Off, structured: true };
    let mut handshake = ClientHandshake::new(&uri.export, options);
    let mut output = Vec::new();
    loop {
        let (used, step) = handshake
            .handle_bytes(inbox.bytes(), &mut output)
            .map_err(|fault| DeviceError::Refused { path: path.to_owned(), reason: fault.to_string() })?;
        inbox.start += used;
        let said = send_all(socket, &output).and_then(|()| match step {
            ClientStep::Transmit(_) => Ok(()),
            ClientStep::More => inbox.receive(socket),
            ClientStep::StartTls => unreachable!("TLS was not asked for"),
        });
        said.map_err(|source| failed("agree with the server of", path, source))?;
        output.clear();
        if let ClientStep::Transmit(agreement) = step {
            return Ok(agreement);
        }
    }
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(said_nothing(errno)),
        }
    }
    Ok(())
}

fn receive(socket: &OwnedFd, target: &mut [u8]) -> io::Result<usize> {
    loop {
        match recv(socket, &mut *target, RecvFlags::empty()) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((received, _)) => return Ok(received),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(said_nothing(errno)),
        }
    }
}

/// A socket's time limit looks like one that does not wait.
fn said_nothing(errno: Errno) -> io::Error {
    match errno {
        Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "it was silent for too long"),
        errno => errno.into(),
    }
}
