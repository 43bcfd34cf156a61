//! A connection under TLS: where received bytes go, and how it ends. See `secure.rs` for TLS itself.
//!
//! Invariant: while TLS is on the stream, the socket's bytes go into its wire, and the inbox holds decrypted bytes.

use super::{Connection, Ending, Stage};
use crate::common::Common;
use crate::inbox::Inbox;
use crate::secure::{Opened, SecureStream};
use raidlab_runtime::{CLIENT_CAUSED, HostBuffers, PortRing, RingError};
use raidlab_units::Nanos;
use std::os::fd::AsFd;

impl Connection {
    /// Puts TLS on the stream. A receive may be in flight, and what it brings is TLS's: the box goes with it.
    pub(super) fn start_tls(&mut self) {
        let Some(config) = self.security.config() else { unreachable!("TLS was not offered") };
        let wire = std::mem::replace(&mut self.inbox, Inbox::new());
        match SecureStream::new(config, wire) {
            Ok(secure) => self.secure = Some(Box::new(secure)),
            Err(error) => self.close(&error),
        }
    }

    /// Moves some of what came under TLS to where it belongs. Returns whether there may be more.
    pub(super) fn open(&mut self, common: &mut Common, buffers: &mut HostBuffers) -> bool {
        let Some(secure) = &mut self.secure else { return false };
        if self.ending != Ending::No {
            return false;
        }
        let bytes = match secure.open() {
            Ok(Opened::Bytes(bytes)) => bytes,
            Ok(Opened::Up) => {
                let Stage::Handshake(handshake) = &mut self.stage else { unreachable!("TLS comes before") };
                handshake.handle_tls_up();
                return true;
            }
            Ok(Opened::Nothing) => return false,
            Ok(Opened::Closed) => {
                self.close(&"the client is gone");
                return false;
            }
            Err(error) => {
                tracing::info!(target: CLIENT_CAUSED, connection = self.number, %error, "TLS with a client failed");
                self.ending = Ending::AfterAlert;
                return false;
            }
        };
        let (target, fills) = match &mut self.filling {
            Some(filling) if self.inbox.is_empty() => {
                (&mut buffers.slot_mut(filling.tag)[filling.at..filling.end], true)
            }
            _ => (self.inbox.room(), false),
        };
        let length = bytes.len().min(target.len());
        target[..length].copy_from_slice(&bytes[..length]);
        secure.take(length);
        match &mut self.filling {
            Some(filling) if fills => {
                filling.at += length;
                self.submit_if_filled(common);
            }
            _ => self.inbox.grow(length),
        }
        length > 0
    }

    /// Closes what was ended in order. Under TLS the client is told first, so that it knows that nothing was cut off.
    pub(super) fn say_good_bye(
        &mut self,
        name: u64,
        now: Nanos,
        ring: &mut PortRing<'_>,
    ) -> Result<(), RingError> {
        if let Some(secure) = &mut self.secure
            && secure.say_good_bye()
        {
            secure.drain(self.outbox.words());
            return self.outbox.flush(ring, name, self.socket.as_fd(), now);
        }
        self.close(&"the client said good-bye");
        Ok(())
    }
}
