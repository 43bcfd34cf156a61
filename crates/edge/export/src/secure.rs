//! TLS on one connection: records that came are opened, replies are sealed.
//!
//! ```text
//! socket ─► wire ─► records, opened ─► the connection's inbox, or the host buffer that is being filled
//! replies ─► records, sealed ─► the outbox's words ─► socket
//! ```
//! The handshake of TLS runs on the array's ring like everything else. What a client can make this hold is bounded by
//! rustls (64 KiB of a handshake message, 16 KiB of opened bytes) and by what the connection seals before it sends.
//! A buffer is free as soon as its bytes are sealed.
//!
//! Invariant: nothing is sealed before the handshake of TLS is over, and nothing leaves that is not sealed.
//! Left out: resumption of sessions, early data, the kernel's TLS. Renegotiation is refused by rustls.

use crate::inbox::Inbox;
use rustls::{ServerConfig, ServerConnection};
use std::io::{IoSlice, Write};
use std::sync::Arc;

/// A stream under TLS.
#[derive(Debug)]
pub(crate) struct SecureStream {
    session: ServerConnection,
    /// What came and is not opened.
    pub(crate) wire: Inbox,
    is_up: bool,
    peer_has_closed: bool,
    said_good_bye: bool,
}

/// What opening came to.
#[derive(Debug)]
pub(crate) enum Opened<'a> {
    /// Bytes that the client said.
    Bytes(&'a [u8]),
    /// The handshake of TLS is over, just now.
    Up,
    /// More has to come.
    Nothing,
    /// The client has closed the stream.
    Closed,
}

impl SecureStream {
    /// Puts TLS on a stream; `wire` is where its bytes come in.
    ///
    /// # Errors
    /// [`rustls::Error`] if the settings do not allow any session.
    pub(crate) fn new(config: Arc<ServerConfig>, wire: Inbox) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        // Bounded by the connection, which seals nothing while enough waits.
        session.set_buffer_limit(None);
        Ok(Self { session, wire, is_up: false, peer_has_closed: false, said_good_bye: false })
    }

    /// Whether the handshake of TLS is over.
    pub(crate) const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Opens records until there is something to tell.
    ///
    /// # Errors
    /// [`rustls::Error`] if the client broke TLS; an alert may be there to be sent.
    pub(crate) fn open(&mut self) -> Result<Opened<'_>, rustls::Error> {
        let mut waiting = self.session.process_new_packets()?.plaintext_bytes_to_read();
        loop {
            if !self.is_up && !self.session.is_handshaking() {
                self.is_up = true;
                return Ok(Opened::Up);
            }
            if waiting > 0 {
                let bytes = self.session.reader().into_first_chunk();
                return Ok(Opened::Bytes(bytes.expect("bytes wait, and reading them takes no input")));
            }
            if self.peer_has_closed {
                return Ok(Opened::Closed);
            }
            if self.wire.is_empty() {
                return Ok(Opened::Nothing);
            }
            let taken = self.session.read_tls(&mut self.wire.filled());
            let taken = taken.map_err(|error| rustls::Error::General(error.to_string()))?;
            self.wire.take(taken);
            let state = self.session.process_new_packets()?;
            waiting = state.plaintext_bytes_to_read();
            self.peer_has_closed = state.peer_has_closed() || taken == 0;
        }
    }

    /// Takes off `bytes` of what was opened.
    pub(crate) fn take(&mut self, bytes: usize) {
        std::io::BufRead::consume(&mut self.session.reader(), bytes);
    }

    /// Seals a reply's head and the bytes that follow it.
    pub(crate) fn seal(&mut self, head: &[u8], payload: &[u8]) {
        assert!(self.is_up, "nothing is said before TLS is up");
        let (mut head, mut payload) = (head, payload);
        while !head.is_empty() || !payload.is_empty() {
            let parts = [IoSlice::new(head), IoSlice::new(payload)];
            let sealed = self.session.writer().write_vectored(&parts).expect("there is no limit");
            assert!(sealed > 0, "sealing goes on");
            let (of_head, rest) = (sealed.min(head.len()), sealed.saturating_sub(head.len()));
            (head, payload) = (&head[of_head..], &payload[rest..]);
        }
    }

    /// Says that nothing follows. Returns whether that was not said before.
    pub(crate) fn say_good_bye(&mut self) -> bool {
        let first = self.is_up && !self.said_good_bye;
        if first {
            self.session.send_close_notify();
        }
        self.said_good_bye = true;
        first
    }

    /// Moves what is to be sent behind `words`.
    pub(crate) fn drain(&mut self, words: &mut Vec<u8>) {
        while self.session.wants_write() {
            self.session.write_tls(words).expect("memory takes everything");
        }
    }
}
