//! TLS on one connection: received records are decrypted, replies are encrypted.
//!
//! ```text
//! socket ─► wire ─► records, decrypted ─► the connection's inbox, or the host buffer that is being filled
//! replies ─► records, encrypted ─► the outbox's words ─► socket
//! ```
//! The TLS handshake runs on the array's ring like everything else. What a client can make the server hold is bounded
//! by rustls (64 KiB of a handshake message, 16 KiB of decrypted bytes) and by what the connection encrypts before it
//! sends. A buffer is free as soon as its bytes are encrypted.
//!
//! Invariant: nothing is encrypted before the TLS handshake is over, and nothing leaves unencrypted. Left out: session
//! resumption, early data, the kernel's TLS. rustls refuses renegotiation.

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

    /// Whether the client has shown a certificate that was verified.
    pub(crate) fn is_certified(&self) -> bool {
        self.is_up && self.session.peer_certificates().is_some()
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    /// Pseudo-random numbers (xorshift; G. Marsaglia, "Xorshift RNGs", 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound as u64) as usize
        }
    }

    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone());
        let server = server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let server = server.with_single_cert(vec![made.cert.der().clone()], key).expect("a pair");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_safe_default_protocol_versions().expect("versions");
        (Arc::new(server), Arc::new(client.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Moves some of `from` into the wire. The byte at `damage` of all that is moved is changed.
    fn carry(random: &mut Random, from: &mut Vec<u8>, wire: &mut Inbox, damage: &mut Option<usize>) {
        let room = wire.room();
        let length = from.len().min(room.len()).min(1 + random.below(20_000));
        room[..length].copy_from_slice(&from[..length]);
        if let Some(place) = damage.as_mut() {
            if let Some(byte) = room[..length].get_mut(*place) {
                *byte ^= 1 << random.below(8);
                *place = usize::MAX;
            } else if *place != usize::MAX {
                *place -= length;
            }
        }
        from.drain(..length);
        wire.grow(length);
    }

    /// A client says `said` and the server repeats it, over a stream that is cut anywhere. Returns what the server heard, what
    /// the client heard, and whether the server found fault.
    fn talk(seed: u64, said: &[u8], mut damage: Option<usize>) -> (Vec<u8>, Vec<u8>, bool) {
        let (server, client) = configs();
        let random = &mut Random(seed);
        let mut secure = SecureStream::new(server, Inbox::new()).expect("a session");
        let mut client =
            ClientConnection::new(client, "localhost".try_into().expect("a name")).expect("a session");
        client.set_buffer_limit(None);
        client.writer().write_all(said).expect("there is no limit");
        let (mut up, mut down, mut heard, mut echoed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..400 {
            while client.wants_write() {
                client.write_tls(&mut up).expect("memory takes everything");
            }
            carry(random, &mut up, &mut secure.wire, &mut damage);
            loop {
                let length = match secure.open() {
                    Ok(Opened::Bytes(bytes)) => {
                        let length = 1 + random.below(bytes.len());
                        heard.extend_from_slice(&bytes[..length]);
                        length
                    }
                    Ok(Opened::Up) => continue,
                    Ok(Opened::Nothing | Opened::Closed) => break,
                    Err(_) => return (heard, echoed, true),
                };
                secure.take(length);
                let new = heard.split_at(heard.len() - length).1;
                secure.seal(&new[..length / 3], &new[length / 3..]);
            }
            secure.drain(&mut down);
            while !down.is_empty() {
                let taken = client.read_tls(&mut &down[..]).expect("there is room");
                down.drain(..taken);
                if client.process_new_packets().is_err() {
                    return (heard, echoed, false);
                }
                let mut bytes = [0; 1 << 12];
                while let Ok(length @ 1..) = std::io::Read::read(&mut client.reader(), &mut bytes) {
                    echoed.extend_from_slice(&bytes[..length]);
                }
            }
        }
        (heard, echoed, false)
    }

    #[test]
    fn streams_that_are_cut_anywhere_carry_every_byte() {
        for seed in 1..12 {
            let said: Vec<u8> = (0..seed * 17_000).map(|place| (place * 7 / 5) as u8).collect();
            let (heard, echoed, fault) = talk(seed, &said, None);
            assert!(!fault && heard == said && echoed == said, "seed {seed}");
        }
    }

    #[test]
    fn a_bit_that_changed_anywhere_is_found_and_nothing_behind_it_believed() {
        let said: Vec<u8> = (0..50_000_u32).map(|place| (place * 3 / 2) as u8).collect();
        let mut after_hello = 0;
        for seed in 1..80 {
            let place = Random(seed * 977).below(if seed % 2 == 0 { 700 } else { 50_000 });
            let (heard, echoed, fault) = talk(seed, &said, Some(place));
            assert!(said.starts_with(&heard) && said.starts_with(&echoed), "seed {seed}: made-up bytes");
            assert!(heard.len() < said.len(), "seed {seed}: the change at {place} was not noticed");
            after_hello += u32::from(fault && !heard.is_empty());
        }
        assert!(after_hello > 10, "some changes are in the records of what was said");
    }
}
