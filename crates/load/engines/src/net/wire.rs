//! The messages of client and server: a greeting of fixed length on every connection, then frames on the control
//! connection.
//!
//! ```text
//! greeting  | "raidlab-net" 11 | version u8 | role u8 | 0 0 0 | token 16 |                 32 bytes
//! frame     | length u32, big endian | a message as JSON |                                at most 64 KiB
//! ```
//! | who | sends | when |
//! |---|---|---|
//! | server | `hello`, or `refused` | after a greeting with role control |
//! | client | `order` | any number of times |
//! | server | `ready` with a token, or `refused` | the client then opens its data connections, which greet with the token |
//! | server | `attached` | when it has all of them |
//! | client | `go` | both begin |
//! | server | `done`, or `refused` | after its window |
//!
//! Invariant: no more than one frame is read into memory.

use super::NetError;
use raidlab_units::NanoSpan;
use raidlab_workload::{NetDirection, NetSide};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Version of greeting and messages.
pub(super) const VERSION: u8 = 1;
const MAGIC: &[u8; 11] = b"raidlab-net";
/// Length of a greeting.
pub(super) const GREETING_BYTES: usize = 32;
/// Longest message.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// The most data connections of a test.
pub const CONNECTIONS_MAX: u32 = 256;
/// The longest send.
pub const SEND_BYTES_MAX: u64 = 16 << 20;
/// The longest test, ramp and window together.
const TEST_MS_MAX: u64 = 24 * 3_600_000;
/// The largest socket buffer that may be asked for.
const SOCKET_BUFFER_MAX: u64 = 1 << 30;
/// A congestion control's name has at most 15 characters (`TCP_CA_NAME_MAX` is 16).
const CONGESTION_CHARS_MAX: usize = 15;

/// Names a test's data connections.
pub(super) type Token = [u8; 16];

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Control,
    Data(Token),
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetOrder {
    /// Which way data go, seen from the client.
    pub direction: NetDirection,
    /// Length of a send.
    pub send_bytes: u64,
    /// Data connections.
    pub connections: u32,
    /// Time before the window, in milliseconds.
    pub ramp_ms: u64,
    /// Length of the window, in milliseconds.
    pub run_ms: u64,
    /// Size of both socket buffers; without one the kernel chooses and adapts them.
    pub socket_buffer: Option<u64>,
    /// Congestion control; without one the system's.
    pub congestion: Option<String>,
    /// Send small sends at once.
    pub nodelay: bool,
    /// Send without copying where the kernel can.
    pub zero_copy: bool,
}

impl NetOrder {
    /// Looks whether it is within the limits.
    ///
    /// # Errors
    /// [`NetError::Order`] says which it passes.
    pub fn check(&self) -> Result<(), NetError> {
        let refused = |text: String| Err(NetError::Order(text));
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return refused(format!(
                "{} connections are asked for: 1 to {CONNECTIONS_MAX} can be had",
                self.connections
            ));
        }
        if !(1..=SEND_BYTES_MAX).contains(&self.send_bytes) {
            return refused(format!(
                "sends of {} bytes are asked for: 1 to {SEND_BYTES_MAX} can be had",
                self.send_bytes
            ));
        }
        if self.run_ms == 0 || self.run_ms.saturating_add(self.ramp_ms) > TEST_MS_MAX {
            return refused(format!(
                "a ramp of {} and a window of {} ms are asked for: more than no window and up to a day in all can be had",
                self.ramp_ms, self.run_ms
            ));
        }
        if self.socket_buffer.is_some_and(|bytes| bytes == 0 || bytes > SOCKET_BUFFER_MAX) {
            return refused(format!("socket buffers of 1 to {SOCKET_BUFFER_MAX} bytes can be had"));
        }
        let is_name = |name: &String| {
            (1..=CONGESTION_CHARS_MAX).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        match self.congestion.as_ref().filter(|name| !is_name(name)) {
            Some(name) => refused(format!("{name:?} is no name of a congestion control")),
            None => Ok(()),
        }
    }

    pub(super) fn ramp(&self) -> Duration {
        Duration::from_millis(self.ramp_ms)
    }

    pub(super) fn run(&self) -> Duration {
        Duration::from_millis(self.run_ms)
    }
}

/// What is said on a control connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Message {
    Hello { host: String },
    Refused { reason: String },
    Order { order: NetOrder },
    Ready { token: Token },
    Attached,
    Go,
    Done { side: Box<NetSide> },
}

/// Prints a greeting.
pub(super) fn greeting(role: Role) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..11].copy_from_slice(MAGIC);
    bytes[11] = VERSION;
    if let Role::Data(token) = role {
        bytes[12] = 1;
        bytes[16..].copy_from_slice(&token);
    }
    bytes
}

/// Reads a greeting.
pub(super) fn parse_greeting(bytes: &[u8; GREETING_BYTES]) -> Result<Role, NetError> {
    let wrong = |what: &str| Err(NetError::Protocol { what: what.to_owned() });
    if bytes[..11] != MAGIC[..] {
        return wrong("its greeting is not raidlab's");
    }
    if bytes[11] != VERSION {
        return wrong(&format!("it speaks version {}, this one {VERSION}", bytes[11]));
    }
    let token = bytes[16..].first_chunk().expect("16 bytes are left");
    match (bytes[12], &bytes[13..16]) {
        (0, [0, 0, 0]) => Ok(Role::Control),
        (1, [0, 0, 0]) => Ok(Role::Data(*token)),
        _ => wrong("its greeting asks for what there is not"),
    }
}

/// Says something; `limit` is for all of it.
pub(super) fn say(stream: &TcpStream, message: &Message, limit: Duration) -> Result<(), NetError> {
    let text = serde_json::to_vec(message).expect("messages are structs of text and numbers");
    assert!(text.len() <= FRAME_BYTES_MAX, "our own messages are short");
    let mut frame = (text.len() as u32).to_be_bytes().to_vec();
    frame.extend(text);
    stream.set_write_timeout(Some(limit)).map_err(NetError::socket("set a limit of time"))?;
    let mut out = stream;
    out.write_all(&frame).map_err(|error| silent_or(error, "take a message", limit, "send a message"))
}

/// Hears a message that has to come within `limit`; none if the other side ended the connection between two messages.
pub(super) fn hear(stream: &TcpStream, limit: Duration) -> Result<Option<Message>, NetError> {
    let deadline = Instant::now() + limit;
    let mut length = [0; 4];
    if !read_whole(stream, &mut length, deadline, limit)? {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(NetError::Protocol {
            what: format!("a message of {length} bytes, {FRAME_BYTES_MAX} are allowed"),
        });
    }
    let mut text = vec![0; length];
    if !read_whole(stream, &mut text, deadline, limit)? && length > 0 {
        return Err(NetError::Protocol { what: "it ended within a message".into() });
    }
    let message = serde_json::from_slice(&text);
    message.map(Some).map_err(|error| NetError::Protocol { what: format!("no message: {error}") })
}

/// Fills `bytes`; false if the stream ended before the first of them.
pub(super) fn read_whole(
    stream: &TcpStream,
    bytes: &mut [u8],
    deadline: Instant,
    limit: Duration,
) -> Result<bool, NetError> {
    let silent = || NetError::Silent { what: "say what it had to", limit: span(limit) };
    let (mut input, mut at) = (stream, 0);
    while at < bytes.len() {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let left = left.ok_or_else(silent)?;
        stream.set_read_timeout(Some(left)).map_err(NetError::socket("set a limit of time"))?;
        match input.read(&mut bytes[at..]) {
            Ok(0) if at == 0 => return Ok(false),
            Ok(0) => return Err(NetError::Protocol { what: "it ended within a message".into() }),
            Ok(read) => at += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_over_time(&error) => return Err(silent()),
            Err(source) => return Err(NetError::Socket { op: "hear the other side", source }),
        }
    }
    Ok(true)
}

fn silent_or(error: std::io::Error, what: &'static str, limit: Duration, op: &'static str) -> NetError {
    if is_over_time(&error) {
        NetError::Silent { what, limit: span(limit) }
    } else {
        NetError::Socket { op, source: error }
    }
}

/// Whether a call on a socket with a limit of time ended because of it.
pub(super) fn is_over_time(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        || Errno::from_io_error(error) == Some(Errno::INPROGRESS)
}

pub(super) fn span(duration: Duration) -> NanoSpan {
    NanoSpan(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
