//! The server's side: accepts connections, identifies them, and does its part of one client's tests at a time.
//!
//! ```text
//! accept ── greeting ──┬─ control ── session: order, connections, go, flow, done        one at a time
//!                      └─ data, token ── to the test that waits for it
//! ```
//! Each connection has a thread until its greeting, for [`GREETING_MAX`] at most; there are at most [`GREETERS_MAX`] of
//! them. Further connections are closed at once.

use super::client::NetSource;
use super::flow::{self, FlowOrder};
use super::wire::{self, CONNECTIONS_MAX, GREETING_BYTES, Message, NetOrder, Role, Token};
use super::{NetError, Watch, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// Connections that have not greeted yet.
const GREETERS_MAX: usize = CONNECTIONS_MAX as usize + 32;
/// How long a client may take for what it has to do next.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// How long a client may keep the server without an order.
const IDLE_MAX: Duration = Duration::from_mins(1);
/// The loop looks up this often, for a stop.
const LOOK_UP_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What happens while tests are served.
#[derive(Debug)]
pub enum NetEvent<'a> {
    /// A client has begun.
    Began {
        /// Where it is.
        peer: SocketAddr,
    },
    /// A test is over.
    Tested {
        /// What was asked for.
        order: &'a NetOrder,
    },
    /// A client is gone; with an error if it did not just leave.
    Ended {
        /// Where it was.
        peer: SocketAddr,
        /// Why.
        error: Option<&'a NetError>,
    },
}

/// What the threads share.
struct Hall<'a> {
    watch: &'a Watch<'a>,
    cancel: &'a AtomicBool,
    tell: &'a (dyn Fn(NetEvent<'_>) + Sync),
    /// The client's control connection, to be shut when all is to end.
    client: Mutex<Option<TcpStream>>,
    /// The test that waits for data connections.
    waiting: Mutex<Option<(Token, Sender<TcpStream>)>>,
    greeters: AtomicUsize,
}

/// Serves tests until `cancel` is set. What is wrong with a client ends that client.
///
/// # Errors
/// [`NetError::Socket`] if no connection can be taken at all.
pub fn serve(
    listener: &TcpListener,
    watch: &Watch<'_>,
    cancel: &AtomicBool,
    tell: &(dyn Fn(NetEvent<'_>) + Sync),
) -> Result<(), NetError> {
    listener.set_nonblocking(true).map_err(NetError::socket("listen"))?;
    let hall = Hall {
        watch,
        cancel,
        tell,
        client: Mutex::new(None),
        waiting: Mutex::new(None),
        greeters: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        let outcome = loop {
            if cancel.load(Ordering::Relaxed) {
                break Ok(());
            }
            match accept(listener) {
                Ok(Some((stream, peer))) => {
                    if hall.greeters.fetch_add(1, Ordering::Relaxed) >= GREETERS_MAX {
                        hall.greeters.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    let hall = &hall;
                    scope.spawn(move || hall.receive(stream, peer));
                }
                Ok(None) => {}
                Err(source) => break Err(NetError::Socket { op: "take connections", source }),
            }
        };
        // A session that waits for its client ends with this.
        if let Some(client) = lock(&hall.client).as_ref() {
            let _ = client.shutdown(Shutdown::Both);
        }
        outcome
    })
}

/// The next connection, if one comes soon.
fn accept(listener: &TcpListener) -> std::io::Result<Option<(TcpStream, SocketAddr)>> {
    let mut ready = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut ready, Some(&LOOK_UP_EVERY)) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(errno) => return Err(errno.into()),
    }
    match listener.accept() {
        Ok((stream, peer)) => {
            stream.set_nonblocking(false)?;
            Ok(Some((stream, peer)))
        }
        // Those that went before they were taken, or for which there is nothing left just now.
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => Ok(None),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                std::thread::sleep(Duration::from_millis(50));
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

impl Hall<'_> {
    /// Finds out what a connection is for, and sees to it.
    fn receive(&self, stream: TcpStream, peer: SocketAddr) {
        let role = greeted(&stream);
        self.greeters.fetch_sub(1, Ordering::Relaxed);
        match role {
            Ok(Role::Data(token)) => {
                let waiting = lock(&self.waiting);
                if let Some((_, sender)) = waiting.as_ref().filter(|(awaited, _)| *awaited == token) {
                    // A test that has all of its connections takes no more.
                    let _ = sender.send(stream);
                }
            }
            Ok(Role::Control) => self.receive_client(&stream, peer),
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection is refused");
                refuse(&stream, &error);
            }
        }
    }

    fn receive_client(&self, stream: &TcpStream, peer: SocketAddr) {
        {
            let mut client = lock(&self.client);
            let Ok(own) = stream.try_clone() else { return };
            if client.is_some() {
                drop(client);
                refuse(stream, &NetError::Order("another client is being served: try again later".into()));
                return;
            }
            *client = Some(own);
        }
        (self.tell)(NetEvent::Began { peer });
        let ended = self.session(stream);
        if let Err(error) = &ended {
            refuse(stream, error);
        }
        *lock(&self.waiting) = None;
        *lock(&self.client) = None;
        (self.tell)(NetEvent::Ended { peer, error: ended.as_ref().err() });
    }

    /// Does a client's tests until it leaves.
    fn session(&self, control: &TcpStream) -> Result<(), NetError> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        wire::say(control, &Message::Hello { host }, ANSWER_MAX)?;
        while let Some(message) = wire::hear(control, IDLE_MAX)? {
            let Message::Order { order } = message else { return Err(wrong_time()) };
            order.check()?;
            self.test(control, &order)?;
            (self.tell)(NetEvent::Tested { order: &order });
        }
        Ok(())
    }

    fn test(&self, control: &TcpStream, order: &NetOrder) -> Result<(), NetError> {
        let token = random_token()?;
        let (sender, arriving) = channel();
        *lock(&self.waiting) = Some((token, sender));
        wire::say(control, &Message::Ready { token }, ANSWER_MAX)?;
        let streams = gather(&arriving, order)?;
        *lock(&self.waiting) = None;
        wire::say(control, &Message::Attached, ANSWER_MAX)?;
        match wire::hear(control, ANSWER_MAX)? {
            Some(Message::Go) => {}
            Some(_) => return Err(wrong_time()),
            None => return Err(NetError::Protocol { what: "it left before the test".into() }),
        }
        let (sends, receives) = (order.direction.far_sends(), order.direction.near_sends());
        let flow = FlowOrder { order, streams: &streams, sends, receives, source: &NetSource::Memory };
        let side = flow::run(&flow, self.watch, self.cancel, &mut |_| {})?;
        wire::say(control, &Message::Done { side: Box::new(side) }, ANSWER_MAX)
    }
}

/// Waits for a test's data connections, and sets them.
fn gather(arriving: &Receiver<TcpStream>, order: &NetOrder) -> Result<Vec<TcpStream>, NetError> {
    let deadline = Instant::now() + ANSWER_MAX;
    let mut streams = Vec::new();
    while streams.len() < order.connections as usize {
        let left = deadline.saturating_duration_since(Instant::now());
        let silent =
            |_| NetError::Silent { what: "open its data connections", limit: wire::span(ANSWER_MAX) };
        let stream = arriving.recv_timeout(left).map_err(silent)?;
        socket::set(&stream, order)?;
        streams.push(stream);
    }
    flow::prepare(&streams)?;
    Ok(streams)
}

fn greeted(stream: &TcpStream) -> Result<Role, NetError> {
    let mut bytes = [0; GREETING_BYTES];
    if !wire::read_whole(stream, &mut bytes, Instant::now() + GREETING_MAX, GREETING_MAX)? {
        return Err(NetError::Protocol { what: "it said nothing".into() });
    }
    wire::parse_greeting(&bytes)
}

/// Tells the other side why it is not served; whether it hears that is its business.
fn refuse(stream: &TcpStream, error: &NetError) {
    let _ = wire::say(stream, &Message::Refused { reason: error.to_string() }, Duration::from_secs(1));
}

fn wrong_time() -> NetError {
    NetError::Protocol { what: "a message at the wrong time".into() }
}

fn random_token() -> Result<Token, NetError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut token = Token::default();
    let filled = SystemRandom::new().fill(&mut token);
    filled.map_err(|_| NetError::Order("the system gives no random numbers".into()))?;
    Ok(token)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
