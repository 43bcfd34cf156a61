//! A blocking client: the protocol's client side over a blocking socket. A separate thread sends, so that replies are
//! received while the server does not take requests. `raidlab_device::NbdClient` has one request in flight and no TLS.

use raidlab_nbd::{
    ClientEvent, ClientHandshake, ClientOptions, ClientRequest, ClientStep, ClientTls, ClientTransmission,
    Errno, MESSAGE_BYTES_MAX, Op, ServerFault,
};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

/// A socket that two threads can use.
pub(crate) trait Socket: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> io::Result<Self>;
}

impl Socket for UnixStream {
    fn twin(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

impl Socket for TcpStream {
    fn twin(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

/// Requests in flight at most.
const IODEPTH: u16 = 64;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection ended.
    Gone,
    /// The server did something wrong, or refused.
    Fault(ServerFault),
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<ServerFault> for Trouble {
    fn from(fault: ServerFault) -> Self {
        Self::Fault(fault)
    }
}

/// A request's tag, how it ended, and the bytes of a read.
pub(crate) type Answer = (u64, Result<(), Errno>, Vec<u8>);

/// A connection that transmits.
pub(crate) struct Client<S> {
    pub(crate) socket: S,
    outgoing: Sender<Vec<u8>>,
    transmission: ClientTransmission,
    input: Vec<u8>,
    buffers: BTreeMap<u64, Vec<u8>>,
    next_tag: u64,
}

fn more(socket: &mut impl Read, input: &mut Vec<u8>) -> Result<(), Trouble> {
    let mut part = [0; MESSAGE_BYTES_MAX];
    let length = socket.read(&mut part)?;
    input.extend_from_slice(&part[..length]);
    if length == 0 { Err(Trouble::Gone) } else { Ok(()) }
}

/// A handshake under way.
struct Haggle {
    handshake: ClientHandshake,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Haggle {
    fn new(options: ClientOptions) -> Self {
        Self { handshake: ClientHandshake::new("", options), input: Vec::new(), output: Vec::new() }
    }

    /// Goes on until there is something to do.
    fn step(&mut self, socket: &mut (impl Read + Write)) -> Result<ClientStep, Trouble> {
        loop {
            let (used, step) = self.handshake.handle_bytes(&self.input, &mut self.output)?;
            self.input.drain(..used);
            socket.write_all(&self.output)?;
            self.output.clear();
            if step != ClientStep::More {
                return Ok(step);
            }
            more(socket, &mut self.input)?;
        }
    }
}

/// Shakes hands up to TLS and begins it with `secure`.
pub(crate) fn secured<P: Socket, S: Socket>(
    mut plain: P,
    structured: bool,
    secure: impl FnOnce(P) -> S,
) -> Result<Client<S>, Trouble> {
    let mut haggle = Haggle::new(ClientOptions { tls: ClientTls::Required, structured });
    assert_eq!(haggle.step(&mut plain)?, ClientStep::StartTls);
    haggle.handshake.handle_tls_up(&mut haggle.output);
    Client::go_on(secure(plain), haggle)
}

impl<S: Socket> Client<S> {
    /// Shakes hands.
    pub(crate) fn new(socket: S, structured: bool) -> Result<Self, Trouble> {
        Self::go_on(socket, Haggle::new(ClientOptions { tls: ClientTls::Off, structured }))
    }

    fn go_on(mut socket: S, mut haggle: Haggle) -> Result<Self, Trouble> {
        let ClientStep::Transmit(agreement) = haggle.step(&mut socket)? else { panic!("TLS twice") };
        let transmission = ClientTransmission::new(agreement, IODEPTH);
        let mut twin = socket.twin()?;
        let (outgoing, messages) = channel::<Vec<u8>>();
        std::thread::spawn(move || messages.iter().try_for_each(|message| twin.write_all(&message)));
        let (input, buffers) = (haggle.input, BTreeMap::new());
        Ok(Self { socket, outgoing, transmission, input, buffers, next_tag: 0 })
    }

    /// Sends a request; `bytes` are those of a write. Returns its tag.
    pub(crate) fn send(&mut self, op: Op, offset: u64, length: u32, bytes: &[u8]) -> Result<u64, Trouble> {
        let (tag, head) = self.head(op, offset, length);
        self.send_bytes([&head, bytes].concat())?;
        Ok(tag)
    }

    /// Makes a request that is sent apart. Returns its tag, and what comes before its payload.
    pub(crate) fn head(&mut self, op: Op, offset: u64, length: u32) -> (u64, Vec<u8>) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let head = self.transmission.submit(ClientRequest { op, offset, length }, tag);
        self.buffers.insert(tag, vec![0xee; if op == Op::Read { length as usize } else { 0 }]);
        (tag, head.expect("the test keeps to what is offered").to_vec())
    }

    /// Sends what makes requests up, in one go.
    pub(crate) fn send_bytes(&mut self, bytes: Vec<u8>) -> Result<(), Trouble> {
        self.outgoing.send(bytes).map_err(|_| Trouble::Gone)
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> u16 {
        self.transmission.in_flight()
    }

    /// Waits for the next end of a request. Returns its tag, how it ended, and the bytes of a read.
    pub(crate) fn next(&mut self) -> Result<Answer, Trouble> {
        loop {
            let (used, event) = self.transmission.handle_bytes(&self.input)?;
            self.input.drain(..used);
            match event {
                ClientEvent::More => more(&mut self.socket, &mut self.input)?,
                ClientEvent::Payload { tag, at, length } => {
                    let (at, length) = (at as usize, length as usize);
                    let buffer = self.buffers.get_mut(&tag).expect("it is in flight");
                    let there = self.input.len().min(length);
                    buffer[at..at + there].copy_from_slice(&self.input[..there]);
                    self.input.drain(..there);
                    self.socket.read_exact(&mut buffer[at + there..at + length])?;
                }
                ClientEvent::Zeroes { tag, at, length } => {
                    let buffer = self.buffers.get_mut(&tag).expect("it is in flight");
                    buffer[at as usize..(at + length) as usize].fill(0);
                }
                ClientEvent::Ended { tag, result } => {
                    return Ok((tag, result, self.buffers.remove(&tag).expect("it is in flight")));
                }
            }
        }
    }

    /// Does one request.
    pub(crate) fn call(
        &mut self,
        op: Op,
        offset: u64,
        length: u32,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Trouble> {
        let tag = self.send(op, offset, length, bytes)?;
        let (ended, result, bytes) = self.next()?;
        assert_eq!((ended, result), (tag, Ok(())));
        Ok(bytes)
    }

    /// Says good-bye and waits until the server has gone.
    pub(crate) fn disconnect(mut self) -> Result<(), Trouble> {
        let good_bye = self.transmission.disconnect();
        self.outgoing.send(good_bye.to_vec()).map_err(|_| Trouble::Gone)?;
        // Under TLS an end without a word would be an error.
        assert_eq!(self.socket.read(&mut [0; 8])?, 0, "something came after the good-bye");
        Ok(())
    }
}
