//! A blocking NBD client with one request at a time, to connect, negotiate and inspect an export. Callers that want
//! many requests in flight take over the connection ([`NbdClient::into_parts`]).
//!
//! ```text
//! URI ─► connect ─► handshake ─► NbdClient ── requests ──► into_parts ─► a ring
//! ```
//! Left out: TLS.
//! Source: "The NBD protocol", "Ordering of messages and writes" and "Size constraints".

use crate::nbd_replies::{NbdEnd, NbdFilling, NbdPlace, NbdReceiveOptions, NbdReplies};
use crate::safety::DeviceImage;
use raidlab_nbd::{
    ClientAgreement, ClientHandshake, ClientOptions, ClientRequest, ClientStep, ClientTls,
    ClientTransmission, NbdUri, Op, Transport,
};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How long a server may be silent while it is connected to and shakes hands.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long for a byte of a reply.
const REPLY_PATIENCE: Duration = Duration::from_secs(30);
/// Longest read or write.
const PIECE_BYTES: u32 = 1 << 20;
/// How it is received.
const RECEIVE: NbdReceiveOptions = NbdReceiveOptions { inbox_bytes: 64 << 10, direct_bytes_min: 1 };

/// Why an export can't be used.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// What names it is no URI, or the server does not agree.
    #[error("{reason}")]
    Refused {
        /// Why, and what would help.
        reason: String,
    },
    /// The connection failed.
    #[error("can't {doing} it: {source}")]
    Io {
        /// What was tried, as an infinitive.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> NbdError {
    move |source| NbdError::Io { doing, source }
}

/// Whether a name is an NBD URI, or means to be, and not a path.
pub fn is_nbd_uri(path: &Path) -> bool {
    const SCHEMES: [&str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];
    let text = path.as_os_str().as_encoded_bytes();
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme.as_bytes()));
    SCHEMES.iter().any(|scheme| begins(scheme))
}

/// A connection whose handshake is over.
#[derive(Debug)]
pub struct NbdClient {
    uri: NbdUri,
    socket: OwnedFd,
    transmission: ClientTransmission,
    replies: NbdReplies,
}

/// The bytes of a request.
#[derive(Debug)]
pub enum NbdPayload<'a> {
    /// It has none.
    None,
    /// Where what is read goes.
    Read(&'a mut [u8]),
    /// What is written.
    Write(&'a [u8]),
}

impl NbdClient {
    /// Connects to the export that `path` names, which begins as a URI does.
    ///
    /// # Errors
    /// [`NbdError`]: no URI, TLS, nobody there, a server that refuses or is silent.
    pub fn connect(path: &Path) -> Result<Self, NbdError> {
        let refused = |reason: String| NbdError::Refused { reason };
        let text = path.to_str().ok_or_else(|| refused("it is not UTF-8".to_owned()))?;
        let uri = text.parse().map_err(|error| refused(format!("it is no NBD URI: {error}")))?;
        Self::connect_to(uri)
    }

    /// Connects to the export at `uri`.
    ///
    /// # Errors
    /// As [`NbdClient::connect`].
    pub fn connect_to(uri: NbdUri) -> Result<Self, NbdError> {
        if uri.tls {
            let reason = "exports over TLS are not supported: use nbd:// or nbd+unix://, through a tunnel where the \
                          network is not yours alone";
            return Err(NbdError::Refused { reason: reason.to_owned() });
        }
        let socket = open_socket(&uri).map_err(failed("connect to"))?;
        let mut replies = NbdReplies::new(RECEIVE, &[]);
        let agreement = shake_hands(&uri, &socket, &mut replies)?;
        set_patience(&socket, Some(REPLY_PATIENCE)).map_err(failed("connect to"))?;
        Ok(Self { uri, socket, transmission: ClientTransmission::new(agreement, 1), replies })
    }

    /// Where it is.
    pub fn uri(&self) -> &NbdUri {
        &self.uri
    }

    /// What was agreed on with the server.
    pub fn agreement(&self) -> &ClientAgreement {
        self.transmission.agreement()
    }

    /// Length of the export, whole smallest blocks.
    pub fn bytes(&self) -> u64 {
        let unit = u64::from(self.agreement().block_sizes.minimum());
        self.agreement().size_bytes - self.agreement().size_bytes % unit
    }

    /// Returns the connection without a time limit, for up to `requests_max` requests in flight.
    pub fn into_parts(
        self,
        requests_max: u16,
        options: NbdReceiveOptions,
    ) -> (OwnedFd, ClientTransmission, NbdReplies) {
        if let Err(error) = set_patience(&self.socket, None) {
            tracing::debug!(%error, "a socket keeps its time limit");
        }
        // What nobody asked for, as a server at fault sends it, is found to be so later.
        let replies = NbdReplies::new(options, self.replies.unread());
        (self.socket, ClientTransmission::new(*self.transmission.agreement(), requests_max), replies)
    }

    /// The parts of the export that signatures lie in.
    ///
    /// # Errors
    /// [`NbdError::Io`].
    pub fn look(&mut self) -> Result<DeviceImage, NbdError> {
        let bytes = self.bytes();
        let window = DeviceImage::WINDOW_BYTES.min(bytes);
        Ok(DeviceImage::new(self.read(0, window)?, self.read(bytes - window, window)?, bytes))
    }

    /// Longest piece that a read or write is cut into, in bytes.
    pub fn piece_bytes(&self) -> u64 {
        let sizes = self.agreement().block_sizes;
        let longest = sizes.payload_max().min(PIECE_BYTES);
        (longest - longest % sizes.minimum()).into()
    }

    /// Reads up to `bytes` from `offset` on: what there is of them before the end.
    ///
    /// # Errors
    /// [`NbdError::Io`].
    pub fn read(&mut self, offset: u64, bytes: u64) -> Result<Vec<u8>, NbdError> {
        let mut read = vec![0; bytes.min(self.bytes().saturating_sub(offset)) as usize];
        let mut at = offset;
        let piece_bytes = self.piece_bytes() as usize;
        for piece in read.chunks_mut(piece_bytes) {
            let length = piece.len() as u32;
            let request = ClientRequest { op: Op::Read, offset: at, length };
            self.request(request, NbdPayload::Read(piece)).map_err(failed("read from"))?;
            at += u64::from(length);
        }
        Ok(read)
    }

    /// Does one request and waits for its end.
    ///
    /// # Errors
    /// The system's or the server's, or that the request can't be made.
    pub fn request(&mut self, request: ClientRequest, payload: NbdPayload<'_>) -> io::Result<()> {
        let head = self.transmission.submit(request, 0).map_err(io::Error::other)?;
        send_all(&self.socket, &head)?;
        if let NbdPayload::Write(bytes) = &payload {
            send_all(&self.socket, bytes)?;
        }
        let target = match payload {
            NbdPayload::Read(target) => target,
            NbdPayload::None | NbdPayload::Write(_) => &mut [],
        };
        loop {
            let end = self.replies.poll_end(&mut self.transmission, target).map_err(io::Error::other)?;
            if let Some(NbdEnd { result, .. }) = end {
                return result.map_err(|errno| io::Error::other(errno.to_string()));
            }
            receive(&self.socket, &mut self.replies, target)?;
        }
    }
}

fn open_socket(uri: &NbdUri) -> io::Result<OwnedFd> {
    let socket = match &uri.transport {
        Transport::Unix { path } => connect_unix(path),
        Transport::Tcp { host, port } => connect_tcp(host, *port),
    }?;
    set_patience(&socket, Some(PATIENCE))?;
    Ok(socket)
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
    uri: &NbdUri,
    socket: &OwnedFd,
    replies: &mut NbdReplies,
) -> Result<ClientAgreement, NbdError> {
    let options = ClientOptions { tls: ClientTls::Off, structured: true };
    let mut handshake = ClientHandshake::new(&uri.export, options);
    let mut output = Vec::new();
    loop {
        let (used, step) = handshake
            .handle_bytes(replies.unread(), &mut output)
            .map_err(|fault| NbdError::Refused { reason: fault.to_string() })?;
        replies.skip(used);
        let said = send_all(socket, &output).and_then(|()| match step {
            ClientStep::Transmit(_) => Ok(()),
            ClientStep::More => receive(socket, replies, &mut []),
            ClientStep::StartTls => unreachable!("TLS was not asked for"),
        });
        said.map_err(failed("agree with the server of"))?;
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

/// Waits for bytes of the stream. `target` is the memory of the read in flight.
fn receive(socket: &OwnedFd, replies: &mut NbdReplies, target: &mut [u8]) -> io::Result<()> {
    let received = match replies.place() {
        NbdPlace::Inbox(room) => receive_into(socket, room),
        NbdPlace::Memory(NbdFilling { at, missing, .. }) => {
            receive_into(socket, &mut target[at as usize..][..missing as usize])
        }
    };
    replies.received(*received.as_ref().unwrap_or(&0) as u32);
    received.map(drop)
}

fn receive_into(socket: &OwnedFd, target: &mut [u8]) -> io::Result<usize> {
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
