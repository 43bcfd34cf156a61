//! One client: its socket, bytes received but not yet parsed, and bytes being sent.
//!
//! ```text
//! socket ─► inbox ─► handshake | requests ─► pieces ─► array ─► replies ─► outbox ─► socket
//!      └──────────── rest of a long payload ─► host buffer
//!
//! socket ─► SecureStream ─► inbox | host buffer        replies ─► SecureStream ─► outbox ─► socket      under TLS
//! ```
//! At most one receive and one send are in flight. While the client has no buffer or too many requests, its bytes wait
//! in its inbox and then in the socket. Replies that it does not read wait in the outbox and keep their buffers.
//!
//! `secured.rs` has what TLS changes.
//!
//! Invariant: a closing connection starts nothing; it is over when no entry and no request of it is in flight.

mod secured;

use crate::common::{Common, Work};
use crate::entries;
use crate::inbox::Inbox;
use crate::listener::Security;
use crate::outbox::Outbox;
use crate::peer::{Caller, Peer};
use crate::secure::SecureStream;
use raidlab_controller::HostTag;
use raidlab_nbd::{
    BufferId, ClientFault, Fate, Intake, Op, Output, Payload, Piece, PieceEnd, ServerHandshake, ServerStep,
    ServerTransmission,
};
use raidlab_runtime::{CLIENT_CAUSED, HostBuffers, PortRing, RingError};
use raidlab_units::Nanos;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, OwnedFd};

/// A payload of which so much is missing is received into its buffer, not into the inbox, in bytes.
const DIRECT_BYTES_MIN: usize = 16 << 10;
/// An option without data, in bytes.
const OPTION_BYTES_MIN: usize = 16;
/// While so many sealed bytes wait, no more are sealed.
const SEALED_BYTES: usize = 64 << 10;

#[derive(Debug)]
enum Stage {
    Handshake(ServerHandshake),
    Transmission(ServerTransmission),
}

/// A write's piece whose payload comes.
#[derive(Clone, Copy, Debug)]
struct Filling {
    tag: HostTag,
    piece: Piece,
    /// Where in the buffer it goes on.
    at: usize,
    /// Where it ends.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    IntoInbox,
    IntoBuffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// Send what is there and what requests in flight come to, then close.
    AfterReplies,
    /// Send what is there, which says why, then close.
    AfterAlert,
    Closing,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u32,
    socket: OwnedFd,
    pub(crate) peer: Peer,
    is_operator: bool,
    /// It was said that there is no seat for it.
    is_refused: bool,
    stage: Stage,
    security: Security,
    secure: Option<Box<SecureStream>>,
    inbox: Inbox,
    receiving: Receiving,
    filling: Option<Filling>,
    outbox: Outbox,
    /// Requests that the array works on.
    running: u32,
    ending: Ending,
    /// It waits for a buffer.
    pub(crate) starving: bool,
    /// When it came.
    pub(crate) since: Nanos,
}

/// The names of a connection's entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryNames {
    /// Of its receive.
    pub(crate) receive: u64,
    /// Of its send.
    pub(crate) send: u64,
}

impl Connection {
    /// A client that has just come.
    pub(crate) fn new(number: u32, caller: Caller, security: Security, now: Nanos) -> Self {
        let Caller { socket, peer, is_operator } = caller;
        let mut outbox = Outbox::new();
        let handshake = ServerHandshake::new(security.tls(), outbox.words());
        Self {
            number,
            socket,
            peer,
            is_operator,
            is_refused: false,
            stage: Stage::Handshake(handshake),
            security,
            secure: None,
            inbox: Inbox::new(),
            receiving: Receiving::Nothing,
            filling: None,
            outbox,
            running: 0,
            ending: Ending::No,
            starving: false,
            since: now,
        }
    }

    /// Whether who it is was proved: by a certificate, or by the system.
    pub(crate) fn is_known(&self) -> bool {
        self.is_operator || self.secure.as_ref().is_some_and(|secure| secure.is_certified())
    }

    /// Whether it still haggles.
    pub(crate) const fn is_in_handshake(&self) -> bool {
        matches!(self.stage, Stage::Handshake(_))
    }

    /// When the client took bytes last, if some are on their way to it.
    pub(crate) fn sending_since(&self) -> Option<Nanos> {
        self.outbox.in_flight().then_some(self.outbox.moved_at)
    }

    /// Whether nothing of it is in flight and it is to close.
    pub(crate) fn is_over(&self) -> bool {
        let quiet = self.receiving == Receiving::Nothing && !self.outbox.in_flight() && self.running == 0;
        self.ending == Ending::Closing && quiet
    }

    /// Whether it starts nothing more.
    pub(crate) fn is_closing(&self) -> bool {
        self.ending == Ending::Closing
    }

    /// Starts nothing more and ends the entries in flight.
    pub(crate) fn close(&mut self, why: &dyn std::fmt::Display) {
        if self.ending == Ending::Closing {
            return;
        }
        tracing::debug!(connection = self.number, %why, "connection closed");
        self.ending = Ending::Closing;
        // Both entries end at once; a peer that is gone has ended them already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// The server stops: what is in flight is done, what the client had sent beside is refused, and then it ends.
    pub(crate) fn handle_stop(&mut self) {
        match &mut self.stage {
            Stage::Handshake(_) => self.close(&"the server stops"),
            Stage::Transmission(transmission) => {
                transmission.handle_shutdown();
                // What waits in the socket can still be received; the end of the stream comes behind it.
                let _ = shutdown(&self.socket, Shutdown::Read);
            }
        }
    }

    /// Whether the server stops, and takes in only what had come by then.
    const fn is_stopping(&self) -> bool {
        matches!(&self.stage, Stage::Transmission(transmission) if transmission.is_shutting_down())
    }

    /// Takes in the end of a receive.
    pub(crate) fn handle_received(&mut self, result: Result<u32, Errno>, common: &mut Common) {
        let into = std::mem::replace(&mut self.receiving, Receiving::Nothing);
        match result {
            Ok(0) if self.is_stopping() && self.filling.is_none() => self.ending = Ending::AfterReplies,
            Ok(0) => self.close(&"the client is gone"),
            Ok(bytes) if into == Receiving::IntoInbox => match &mut self.secure {
                Some(secure) => secure.wire.grow(bytes as usize),
                None => self.inbox.grow(bytes as usize),
            },
            Ok(bytes) => {
                let filling = self.filling.as_mut().expect("a buffer is being filled");
                filling.at += bytes as usize;
                self.submit_if_filled(common);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => self.close(&errno),
        }
    }

    /// Takes in the end of a send.
    pub(crate) fn handle_sent(&mut self, now: Nanos, result: Result<u32, Errno>, common: &mut Common) {
        match result {
            Ok(bytes) => {
                let number = self.number;
                self.outbox.handle_sent(now, bytes as usize, |tag| common.give_back(number, tag));
            }
            Err(Errno::INTR | Errno::AGAIN) => self.outbox.handle_sent(now, 0, |_| {}),
            Err(errno) => {
                self.outbox.handle_failed();
                self.close(&errno);
            }
        }
    }

    /// Takes in that the array is done with a piece.
    pub(crate) fn handle_piece_end(
        &mut self,
        tag: HostTag,
        piece: Piece,
        end: PieceEnd,
        common: &mut Common,
    ) {
        self.running -= 1;
        let Stage::Transmission(transmission) = &mut self.stage else { unreachable!("it had a piece") };
        match transmission.handle_piece_end(piece, BufferId(tag.0), end) {
            Fate::Free => common.give_back(self.number, tag),
            Fate::Kept => common.work[tag.0 as usize] = Work::Held(self.number),
        }
    }

    /// Does all that can be done now.
    ///
    /// # Errors
    /// [`RingError`] if an entry can't be queued.
    pub(crate) fn pump(
        &mut self,
        common: &mut Common,
        names: EntryNames,
        now: Nanos,
        buffers: &mut HostBuffers,
        ring: &mut PortRing<'_>,
    ) -> Result<(), RingError> {
        self.starving = false;
        if self.ending == Ending::Closing {
            return Ok(());
        }
        self.converse(common, buffers);
        if self.ending == Ending::Closing {
            return Ok(());
        }
        if let Some(secure) = &mut self.secure
            && self.outbox.is_empty()
        {
            secure.drain(self.outbox.words());
        }
        self.outbox.flush(ring, names.send, self.socket.as_fd(), now)?;
        match self.ending {
            Ending::AfterAlert if self.outbox.is_empty() => self.close(&"the client broke TLS"),
            Ending::AfterReplies if self.outbox.is_empty() && self.running == 0 && self.is_idle() => {
                return self.say_good_bye(names.send, now, ring);
            }
            Ending::No => return self.receive(names.receive, buffers, ring),
            Ending::AfterAlert | Ending::AfterReplies | Ending::Closing => {}
        }
        Ok(())
    }

    /// Takes in what came, has the array work on it, and puts out what is done.
    fn converse(&mut self, common: &mut Common, buffers: &mut HostBuffers) {
        loop {
            let opened = self.open(common, buffers);
            while self.is_in_handshake() && self.ending == Ending::No && self.outbox.is_empty() {
                if !self.haggle(common) {
                    break;
                }
            }
            if !self.is_in_handshake() && self.ending != Ending::AfterAlert {
                self.take_in(common, buffers);
            }
            if !opened {
                break;
            }
        }
        if !self.is_in_handshake() && self.ending != Ending::AfterAlert {
            self.start_pieces(common, buffers);
            self.put_out(common, buffers);
        }
    }

    fn is_idle(&self) -> bool {
        match &self.stage {
            Stage::Handshake(_) => true,
            Stage::Transmission(transmission) => transmission.is_idle(),
        }
    }

    /// Takes in one message of the handshake. Returns whether another may follow.
    fn haggle(&mut self, common: &mut Common) -> bool {
        let refused =
            (!common.seats.is_free_for(self.is_known())).then_some("too many clients are connected");
        let Stage::Handshake(handshake) = &mut self.stage else { return false };
        handshake.set_refused(refused);
        let (exports, input) = (&common.exports, self.inbox.filled());
        let (used, step) = match &mut self.secure {
            None => handshake.handle_bytes(exports, input, self.outbox.words()),
            Some(secure) if secure.is_up() => {
                let mut words = Vec::new();
                let answer = handshake.handle_bytes(exports, input, &mut words);
                secure.seal(&words, &[]);
                answer
            }
            Some(_) => return false,
        };
        self.inbox.take(used);
        if refused.is_some() && used >= OPTION_BYTES_MIN && step != ServerStep::StartTls && !self.is_refused {
            self.is_refused = true;
            tracing::warn!(target: CLIENT_CAUSED, peer = ?self.peer, "too many clients: one was refused");
        }
        match step {
            ServerStep::Continue => true,
            ServerStep::More => false,
            ServerStep::StartTls => {
                self.start_tls();
                false
            }
            ServerStep::Transmit(agreement) => {
                common.seats.take();
                common.share.open(self.number);
                let export = common.exports.get(agreement.export);
                self.stage = Stage::Transmission(ServerTransmission::new(export, agreement, common.limits));
                false
            }
            ServerStep::Aborted => {
                self.ending = Ending::AfterReplies;
                false
            }
            ServerStep::Fault(fault) => {
                self.close(&fault);
                false
            }
        }
    }

    fn transmission(&mut self) -> &mut ServerTransmission {
        let Stage::Transmission(transmission) = &mut self.stage else { unreachable!("asked before") };
        transmission
    }

    /// Takes requests and payloads out of the inbox.
    fn take_in(&mut self, common: &mut Common, buffers: &mut HostBuffers) {
        while self.fill_from_inbox(common, buffers) {
            let Stage::Transmission(transmission) = &mut self.stage else { unreachable!("asked before") };
            let (used, intake) = transmission.handle_bytes(self.inbox.filled());
            self.inbox.take(used);
            match intake {
                Intake::More | Intake::Full => return,
                Intake::Payload(_) => {
                    let Some(tag) = common.take(self.number) else {
                        self.starving = true;
                        return;
                    };
                    let piece = transmission.start_payload();
                    common.zeroed[tag.0 as usize] = 0;
                    let at = common.edges.skip(&piece);
                    self.filling = Some(Filling { tag, piece, at, end: at + piece.length as usize });
                }
                Intake::Disconnect => {
                    self.ending = Ending::AfterReplies;
                    return;
                }
                Intake::Fault(fault) => return self.close(&fault),
            }
        }
    }

    /// Moves payload out of the inbox. Returns whether none is missing.
    fn fill_from_inbox(&mut self, common: &mut Common, buffers: &mut HostBuffers) -> bool {
        let Some(filling) = &mut self.filling else { return true };
        if self.receiving == Receiving::IntoBuffer {
            return false;
        }
        let waiting = self.inbox.filled();
        let length = waiting.len().min(filling.end - filling.at);
        let target = &mut buffers.slot_mut(filling.tag)[filling.at..filling.at + length];
        target.copy_from_slice(&waiting[..length]);
        self.inbox.take(length);
        filling.at += length;
        self.submit_if_filled(common)
    }

    fn submit_if_filled(&mut self, common: &mut Common) -> bool {
        let Some(filling) = self.filling.filter(|filling| filling.at == filling.end) else { return false };
        self.filling = None;
        if self.ending != Ending::Closing {
            self.running += 1;
            common.submit(self.number, filling.tag, filling.piece);
        }
        true
    }

    /// Has the array work on requests without payload.
    fn start_pieces(&mut self, common: &mut Common, buffers: &mut HostBuffers) {
        if self.ending == Ending::Closing {
            return;
        }
        while let Some(piece) = self.transmission().peek_piece() {
            if matches!(piece.op, Op::Trim { .. }) {
                let piece = self.transmission().start_piece();
                // A hint, and there is nothing that it could change.
                self.transmission().handle_piece_end(piece, BufferId(u32::MAX), PieceEnd::Done);
                continue;
            }
            let Some(tag) = common.take(self.number) else {
                self.starving = true;
                return;
            };
            let piece = self.transmission().start_piece();
            if matches!(piece.op, Op::WriteZeroes { .. }) {
                common.fill_with_zeros(tag, &piece, buffers);
            } else {
                common.zeroed[tag.0 as usize] = 0;
            }
            self.running += 1;
            common.submit(self.number, tag, piece);
        }
    }

    /// Puts the replies that are there into the outbox.
    fn put_out(&mut self, common: &mut Common, buffers: &HostBuffers) {
        while self.ending != Ending::Closing && self.has_room() {
            match self.transmission().poll_output() {
                Some(Output::Reply(head, payload)) => {
                    let payload = payload.map(|Payload { buffer, length }| {
                        let start = common.skips[buffer.0 as usize] as usize;
                        let tag = HostTag(buffer.0);
                        (tag, &buffers.slot(tag)[start..start + length as usize])
                    });
                    let Some(secure) = &mut self.secure else {
                        self.outbox.push(&head, payload);
                        continue;
                    };
                    secure.seal(head.as_bytes(), payload.map_or(&[], |(_, bytes)| bytes));
                    secure.drain(self.outbox.words());
                    if let Some((tag, _)) = payload {
                        common.give_back(self.number, tag);
                    }
                }
                Some(Output::Free(buffer)) => common.give_back(self.number, HostTag(buffer.0)),
                None => break,
            }
        }
        if let Some(fault @ ClientFault::ReadFailed) = self.transmission().fault_found() {
            self.close(&fault);
        }
    }

    /// Whether a reply can be put out.
    fn has_room(&mut self) -> bool {
        match self.secure {
            None => self.outbox.has_room(),
            Some(_) => self.outbox.is_empty() && self.outbox.words().len() < SEALED_BYTES,
        }
    }

    /// Waits for more bytes, if there is room for them.
    fn receive(
        &mut self,
        name: u64,
        buffers: &mut HostBuffers,
        ring: &mut PortRing<'_>,
    ) -> Result<(), RingError> {
        if self.receiving != Receiving::Nothing {
            return Ok(());
        }
        if let Some(Filling { tag, at, end, .. }) = self.filling
            && self.secure.is_none()
            && self.inbox.is_empty()
            && end - at >= DIRECT_BYTES_MIN
        {
            let target = &mut buffers.slot_mut(tag)[at..end];
            self.receiving = Receiving::IntoBuffer;
            return entries::receive(ring, name, self.socket.as_fd(), target, true);
        }
        let inbox = self.secure.as_mut().map_or(&mut self.inbox, |secure| &mut secure.wire);
        let room = inbox.room();
        if room.is_empty() {
            return Ok(());
        }
        self.receiving = Receiving::IntoInbox;
        entries::receive(ring, name, self.socket.as_fd(), room, false)
    }
}
