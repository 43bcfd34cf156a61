//! The client's side: connects, orders tests one after another, and does its part of each.

use super::flow::{self, FlowOrder, SentFile};
use super::wire::{self, Message, NetOrder, Role, Token};
use super::{NetError, Watch, socket};
use crate::clock::wait_until;
use crate::run::Go;
use raidlab_units::NanoSpan;
use raidlab_workload::{NetSide, NetworkFacts};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the server may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How long it may take for its figures, which it sends when its receivers have ended.
const DONE_MAX: Duration = Duration::from_secs(30);

/// Where the client's data come from.
#[derive(Debug)]
pub enum NetSource {
    /// Memory that neither compresses nor deduplicates.
    Memory,
    /// A file, from its start to its end and again.
    File(SentFile),
}

impl NetSource {
    /// Opens a file to be sent.
    ///
    /// # Errors
    /// [`NetError::File`] if it can't be opened or has no length.
    pub fn file(path: &Path) -> Result<Self, NetError> {
        let cannot = |op| move |source| NetError::File { path: path.into(), op, source };
        let file = File::open(path).map_err(cannot("open"))?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let bytes = bytes.map_err(|errno| cannot("find the size of")(errno.into()))?;
        Ok(Self::File(SentFile { file, bytes }))
    }

    /// Makes sure that there is a send in it, and has the page cache forget it.
    fn prepare(&self, path: &Path, send_bytes: u64) -> Result<(), NetError> {
        let Self::File(SentFile { file, bytes }) = self else { return Ok(()) };
        if *bytes < send_bytes {
            return Err(NetError::FileTooShort { path: path.into(), bytes: *bytes, send_bytes });
        }
        let forgotten = fadvise(file, 0, None, Advice::DontNeed);
        forgotten.map_err(|errno| NetError::File {
            path: path.into(),
            op: "drop the cache of",
            source: errno.into(),
        })
    }
}

/// What came of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct NetRun {
    /// Both sides' figures.
    pub facts: NetworkFacts,
    /// From the order to the server's figures.
    pub wall: NanoSpan,
    /// How long after the moment that was to be the start data began to flow; zero where none was fixed.
    pub late: NanoSpan,
    /// How long they flowed, ramp and drain too.
    pub flowed: NanoSpan,
}

/// A connection to a server.
#[derive(Debug)]
pub struct NetClient {
    control: TcpStream,
    address: SocketAddr,
    host: String,
}

impl NetClient {
    /// Connects to `peer`, a host and a port.
    ///
    /// # Errors
    /// [`NetError::Connect`] if there is no server, [`NetError::Refused`] if it is busy with another client.
    pub fn connect(peer: &str) -> Result<Self, NetError> {
        let cannot = |source| NetError::Connect { peer: peer.to_owned(), source };
        let none = || cannot(std::io::ErrorKind::AddrNotAvailable.into());
        let mut last = none();
        for address in peer.to_socket_addrs().map_err(cannot)? {
            match socket::open(address, None, ANSWER_MAX) {
                Ok(control) => return Self::greet(control, address),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn greet(control: TcpStream, address: SocketAddr) -> Result<Self, NetError> {
        greet(&control, Role::Control)?;
        match expect(&control, ANSWER_MAX)? {
            Message::Hello { host } => Ok(Self { control, address, host }),
            other => Err(unexpected(other)),
        }
    }

    /// The server's name for its host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Does a test with data from `source`; `path` names it if it is a file. When all is ready `start` is asked when to begin.
    /// `tell` gets the share that is over.
    ///
    /// # Errors
    /// [`NetError`]; this client is of no use after one.
    pub fn run(
        &mut self,
        order: &NetOrder,
        (source, path): (&NetSource, Option<&PathBuf>),
        (watch, start): (&Watch<'_>, &mut dyn FnMut() -> Go),
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<NetRun, NetError> {
        order.check()?;
        source.prepare(path.map_or(Path::new(""), PathBuf::as_path), order.send_bytes)?;
        let started = Instant::now();
        wire::say(&self.control, &Message::Order { order: order.clone() }, ANSWER_MAX)?;
        let token = match expect(&self.control, ANSWER_MAX)? {
            Message::Ready { token } => token,
            other => return Err(unexpected(other)),
        };
        let streams = self.attach(order, token)?;
        flow::prepare(&streams)?;
        let late = match start() {
            Go::Now => NanoSpan::ZERO,
            Go::At(monotonic_ns) => wait_until(monotonic_ns),
            Go::Not => return Err(NetError::NotStarted),
        };
        let begun = Instant::now();
        wire::say(&self.control, &Message::Go, ANSWER_MAX)?;
        let (sends, receives) = (order.direction.near_sends(), order.direction.far_sends());
        let near =
            flow::run(&FlowOrder { order, streams: &streams, sends, receives, source }, watch, cancel, tell)?;
        let flowed = wire::span(begun.elapsed());
        let far = match expect(&self.control, DONE_MAX)? {
            Message::Done { side } => *side,
            other => return Err(unexpected(other)),
        };
        let wall = wire::span(started.elapsed());
        Ok(NetRun { facts: facts(order, source, path, near, far), wall, late, flowed })
    }

    /// Opens the data connections, and waits until the server has all of them.
    fn attach(&self, order: &NetOrder, token: Token) -> Result<Vec<TcpStream>, NetError> {
        let open = |_| {
            let stream = socket::open(self.address, Some(order), ANSWER_MAX)?;
            greet(&stream, Role::Data(token))?;
            Ok(stream)
        };
        let streams = (0..order.connections).map(open).collect::<Result<_, _>>()?;
        match expect(&self.control, ANSWER_MAX)? {
            Message::Attached => Ok(streams),
            other => Err(unexpected(other)),
        }
    }
}

fn facts(
    order: &NetOrder,
    source: &NetSource,
    path: Option<&PathBuf>,
    near: NetSide,
    far: NetSide,
) -> NetworkFacts {
    // Where only the server sends, how it does so is what counts.
    let sent_from = if order.direction.near_sends() { source } else { &NetSource::Memory };
    NetworkFacts {
        direction: order.direction,
        connections: order.connections,
        send_bytes: order.send_bytes,
        source: path.map_or_else(|| "memory".into(), |path| path.display().to_string()),
        method: flow::method(order, sent_from).into(),
        nodelay: order.nodelay,
        near,
        far,
    }
}

fn greet(stream: &TcpStream, role: Role) -> Result<(), NetError> {
    let mut out = stream;
    out.write_all(&wire::greeting(role)).map_err(NetError::socket("greet the server"))
}

/// The next message; one has to come.
fn expect(control: &TcpStream, limit: Duration) -> Result<Message, NetError> {
    let ended = || NetError::Protocol { what: "it ended the connection".into() };
    wire::hear(control, limit)?.ok_or_else(ended)
}

fn unexpected(message: Message) -> NetError {
    match message {
        Message::Refused { reason } => NetError::Refused { reason },
        _ => NetError::Protocol { what: "a message at the wrong time".into() },
    }
}
