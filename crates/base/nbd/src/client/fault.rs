//! Faults of a server that end the connection.

use super::ranges::RANGES_MAX;
use crate::export::BlockSizesError;
use crate::wire::MESSAGE_BYTES_MAX;

/// Longest text of a server that is kept, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// Why a client can't go on with a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// What came first is no NBD server.
    #[error("what answers there is no NBD server")]
    NotNbd,
    /// It speaks the handshake that was given up in 2011.
    #[error("the server speaks the oldstyle handshake only, which is not supported")]
    Oldstyle,
    /// TLS was asked for and can't be had.
    #[error("the server has no TLS: {text}")]
    NoTls {
        /// What it said.
        text: String,
    },
    /// It wants TLS.
    #[error("the server wants TLS: use nbds:// or nbds+unix://")]
    TlsRequired,
    /// It has no such export.
    #[error("the server has no such export: {text}")]
    UnknownExport {
        /// What it said.
        text: String,
    },
    /// It refused the export.
    #[error("the server refused with error {error:#x}: {text}")]
    Refused {
        /// The error of its reply.
        error: u32,
        /// What it said.
        text: String,
    },
    /// A message in the handshake was not what can come there.
    #[error("the server sent {what}, which can't come in the handshake")]
    Handshake {
        /// What came.
        what: &'static str,
    },
    /// Its block sizes are none.
    #[error("the server's block sizes are impossible: {0}")]
    BlockSizes(#[from] BlockSizesError),
    /// Its export is longer than a file can be.
    #[error("the server says that its export has {0} bytes")]
    Size(u64),
    /// A message is longer than it may be.
    #[error("the server sent a message of {0} bytes; {MESSAGE_BYTES_MAX} are allowed")]
    MessageTooLong(u32),
    /// What came is no reply.
    #[error("the server sent something that is no reply")]
    ReplyMagic,
    /// A reply to a request that is not in flight.
    #[error("the server answered request {0:#x}, which is not in flight")]
    UnknownCookie(u64),
    /// A reply of a form that does not fit its request or what was agreed on.
    #[error("the server sent {what}, which does not fit the request")]
    Reply {
        /// What came.
        what: &'static str,
    },
    /// Data that is not of the request's range, or came twice.
    #[error("the server sent data of {length} bytes at {offset}, outside of the request or twice")]
    Range {
        /// First byte of the export.
        offset: u64,
        /// How many bytes.
        length: u32,
    },
    /// Success, and not all data was there.
    #[error("the server ended a read without all of its data")]
    Incomplete,
    /// Data in more pieces than are kept track of.
    #[error("the server sent a read in more than {RANGES_MAX} scattered pieces")]
    Scattered,
}

/// A server's text for people: without what could steer a terminal, and not without end.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(TEXT_CHARS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_harmless() {
        assert_eq!(text(b"no \x1b[31mred\n \xff"), "no ?[31mred? \u{fffd}");
        assert_eq!(text(&[b'a'; 5000]).len(), TEXT_CHARS_MAX);
    }
}
