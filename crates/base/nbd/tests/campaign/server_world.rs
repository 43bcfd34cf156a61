//! A world around the server's side: few buffers, pieces that end in any order, streams that are cut anywhere.

use super::kit::Rng;
use super::oracle::Oracle;
use super::stream::{Pipe, cipher};
use raidlab_nbd::{
    BufferId, ClientFault, Errno, Exports, Fate, Head, Intake, MESSAGE_BYTES_MAX, Op, Output,
    PIECE_BYTES_MIN, Payload, Piece, PieceEnd, ServerAgreement, ServerHandshake, ServerLimits, ServerStep,
    ServerTls, ServerTransmission,
};

#[derive(Debug)]
enum Stage {
    Handshake(ServerHandshake),
    Transmission(ServerTransmission),
    Over(Option<ClientFault>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// So many bytes of the piece's payload have come.
    Filling(Piece, usize),
    Running(Piece),
    Kept,
}

/// A part of a step.
#[derive(Clone, Copy, Debug)]
enum Part {
    TakeIn,
    Start,
    End,
    PutOut,
}

#[derive(Debug)]
struct Slot {
    bytes: Vec<u8>,
    used: Use,
}

/// A world around the server's side.
pub(crate) struct ServerWorld<'a> {
    exports: &'a Exports,
    stage: Stage,
    limits: ServerLimits,
    input: Vec<u8>,
    encrypted: bool,
    slots: Vec<Slot>,
    fail_one_in: u64,
    /// How often a second slot is given, before there are no more.
    more_left: u64,
}

impl std::fmt::Debug for ServerWorld<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used: Vec<_> = self.slots.iter().map(|slot| slot.used).collect();
        write!(f, "{:?} {used:?} {} bytes to parse", self.stage, self.input.len())
    }
}

impl<'a> ServerWorld<'a> {
    pub(crate) fn new(
        rng: &mut Rng<'_>,
        exports: &'a Exports,
        tls: ServerTls,
        fail_one_in: u64,
        down: &mut Pipe,
    ) -> Self {
        let mut replies = Vec::new();
        let stage = Stage::Handshake(ServerHandshake::new(tls, &mut replies));
        down.send(rng, &replies);
        let limits = ServerLimits {
            requests: 1 + rng.below(8) as u16,
            pieces: 1 + rng.below(8) as u16,
            bulk_pieces: 1 + rng.below(3) as u16,
            piece_bytes: PIECE_BYTES_MIN * (1 + rng.below(2) as u32),
        };
        let count = 1 + rng.index(5);
        let more_left = rng.pick(&[0, 4, 30, u64::MAX]);
        let slot = || Slot { bytes: vec![0; limits.piece_bytes as usize], used: Use::Free };
        let slots = (0..count).map(|_| slot()).collect();
        Self { exports, stage, limits, input: Vec::new(), encrypted: false, slots, fail_one_in, more_left }
    }

    /// Begins after the handshake.
    pub(crate) fn transmitting(rng: &mut Rng<'_>, exports: &'a Exports, agreement: ServerAgreement) -> Self {
        let mut world = Self::new(rng, exports, ServerTls::NotAvailable, 0, &mut Pipe::new(0));
        let export = exports.get(agreement.export);
        world.stage = Stage::Transmission(ServerTransmission::new(export, agreement, world.limits));
        world
    }

    /// Length of the longest piece in bytes.
    pub(crate) fn piece_bytes(&self) -> u32 {
        self.limits.piece_bytes
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    pub(crate) fn fault(&self) -> Option<ClientFault> {
        if let Stage::Over(fault) = self.stage { fault } else { None }
    }

    /// Does a little of everything.
    pub(crate) fn step(&mut self, rng: &mut Rng<'_>, up: &mut Pipe, down: &mut Pipe, oracle: &mut Oracle) {
        match &self.stage {
            Stage::Handshake(_) => self.step_handshake(rng, up, down),
            Stage::Transmission(_) => {
                for part in [Part::TakeIn, Part::Start, Part::End, Part::PutOut] {
                    if self.is_over() || rng.one_in(3) {
                        continue;
                    }
                    match part {
                        Part::TakeIn => self.take_in(rng, up),
                        Part::Start => self.start_pieces(rng),
                        Part::End => {
                            self.end_one(rng, oracle);
                        }
                        Part::PutOut => self.put_out(rng, down),
                    }
                }
            }
            Stage::Over(_) => {}
        }
    }

    fn receive(&mut self, rng: &mut Rng<'_>, up: &mut Pipe) {
        let room = MESSAGE_BYTES_MAX.saturating_sub(self.input.len());
        let mut bytes = up.receive(rng, room);
        if self.encrypted {
            cipher(&mut bytes);
        }
        self.input.extend(bytes);
    }

    fn send(&self, rng: &mut Rng<'_>, down: &mut Pipe, mut bytes: Vec<u8>) {
        if self.encrypted {
            cipher(&mut bytes);
        }
        down.send(rng, &bytes);
    }

    fn step_handshake(&mut self, rng: &mut Rng<'_>, up: &mut Pipe, down: &mut Pipe) {
        self.receive(rng, up);
        let Stage::Handshake(handshake) = &mut self.stage else { unreachable!("asked before") };
        let mut replies = Vec::new();
        let (used, step) = handshake.handle_bytes(self.exports, &self.input, &mut replies);
        self.input.drain(..used);
        self.send(rng, down, replies);
        let Stage::Handshake(handshake) = &mut self.stage else { unreachable!("asked before") };
        match step {
            ServerStep::More | ServerStep::Continue => {}
            ServerStep::StartTls => {
                handshake.handle_tls_up();
                self.encrypted = true;
                cipher(&mut self.input);
            }
            ServerStep::Transmit(agreement) => {
                let export = self.exports.get(agreement.export);
                self.stage = Stage::Transmission(ServerTransmission::new(export, agreement, self.limits));
            }
            ServerStep::Aborted => self.stage = Stage::Over(None),
            ServerStep::Fault(fault) => self.stage = Stage::Over(Some(fault)),
        }
    }

    fn transmission(&mut self) -> &mut ServerTransmission {
        let Stage::Transmission(transmission) = &mut self.stage else { unreachable!("asked before") };
        transmission
    }

    /// A slot that may be taken. As in a world with many connections, one may be had always, and more than one for a
    /// while.
    fn free_slot(&mut self) -> Option<usize> {
        if self.slots.iter().any(|slot| slot.used != Use::Free) {
            self.more_left = self.more_left.checked_sub(1)?;
        }
        self.slots.iter().position(|slot| slot.used == Use::Free)
    }

    /// Receives, and takes requests and payloads in.
    fn take_in(&mut self, rng: &mut Rng<'_>, up: &mut Pipe) {
        self.receive(rng, up);
        for _ in 0..20 {
            if !self.fill() {
                return;
            }
            let input = std::mem::take(&mut self.input);
            let (used, intake) = self.transmission().handle_bytes(&input);
            self.input = input;
            self.input.drain(..used);
            match intake {
                Intake::More | Intake::Full => return,
                Intake::Payload(peeked) => {
                    let Some(free) = self.free_slot() else { return };
                    let piece = self.transmission().start_payload();
                    assert_eq!(piece, peeked);
                    self.slots[free].used = Use::Filling(piece, 0);
                }
                Intake::Disconnect => {
                    if self.transmission().is_idle() {
                        let lost = self.slots.iter().find(|slot| slot.used != Use::Free);
                        assert!(lost.is_none(), "a buffer was lost: {self:?}");
                        self.stage = Stage::Over(None);
                    }
                    return;
                }
                Intake::Fault(_) => return self.stop_if_broken(),
            }
        }
    }

    /// Moves payload bytes to their slot. Returns whether no payload is missing.
    fn fill(&mut self) -> bool {
        let filling = self.slots.iter_mut().find(|slot| matches!(slot.used, Use::Filling(..)));
        let Some(slot) = filling else { return true };
        let Use::Filling(piece, filled) = slot.used else { unreachable!("just found") };
        let taken = self.input.len().min(piece.length as usize - filled);
        slot.bytes[filled..filled + taken].copy_from_slice(&self.input[..taken]);
        self.input.drain(..taken);
        let whole = filled + taken == piece.length as usize;
        slot.used = if whole { Use::Running(piece) } else { Use::Filling(piece, filled + taken) };
        whole
    }

    fn start_pieces(&mut self, rng: &mut Rng<'_>) {
        while let (Some(free), Some(peeked)) = (self.free_slot(), self.transmission().peek_piece()) {
            assert_eq!(self.transmission().start_piece(), peeked);
            assert!(peeked.op == Op::Flush || peeked.length > 0);
            self.slots[free].used = Use::Running(peeked);
            let bulk = self.slots.iter().filter(|slot| match slot.used {
                Use::Running(piece) => matches!(piece.op, Op::WriteZeroes { .. } | Op::Cache),
                _ => false,
            });
            assert!(bulk.count() <= usize::from(self.limits.bulk_pieces), "too much at once: {self:?}");
            if rng.one_in(2) {
                return;
            }
        }
    }

    /// Ends a random piece that runs. Returns whether there was one.
    fn end_one(&mut self, rng: &mut Rng<'_>, oracle: &mut Oracle) -> bool {
        let running: Vec<usize> =
            (0..self.slots.len()).filter(|slot| matches!(self.slots[*slot].used, Use::Running(_))).collect();
        if running.is_empty() {
            return false;
        }
        let place = rng.pick(&running);
        let Use::Running(piece) = self.slots[place].used else { unreachable!("just found") };
        let fails = self.fail_one_in > 0 && rng.one_in(self.fail_one_in);
        let end = if fails {
            oracle.failed(&piece);
            PieceEnd::Failed(Errno::Io)
        } else {
            work(&mut self.slots[place].bytes, &piece, oracle)
        };
        let fate = self.transmission().handle_piece_end(piece, BufferId(place as u32), end);
        self.slots[place].used = if fate == Fate::Free { Use::Free } else { Use::Kept };
        true
    }

    fn put_out(&mut self, rng: &mut Rng<'_>, down: &mut Pipe) {
        while !down.is_full() {
            match self.transmission().poll_output() {
                Some(Output::Reply(head, payload)) => self.reply(rng, down, &head, payload),
                Some(Output::Free(BufferId(place))) => self.free(place),
                None => return self.stop_if_broken(),
            }
            if rng.one_in(8) {
                return;
            }
        }
    }

    fn reply(&mut self, rng: &mut Rng<'_>, down: &mut Pipe, head: &Head, payload: Option<Payload>) {
        let mut bytes = head.as_bytes().to_vec();
        if let Some(Payload { buffer: BufferId(place), length }) = payload {
            bytes.extend_from_slice(&self.slots[place as usize].bytes[..length as usize]);
            self.free(place);
        }
        assert!(!bytes.is_empty(), "an output without bytes");
        self.send(rng, down, bytes);
    }

    fn free(&mut self, place: u32) {
        let used = std::mem::replace(&mut self.slots[place as usize].used, Use::Free);
        assert_eq!(used, Use::Kept, "buffer {place} came back and was not kept");
    }

    fn stop_if_broken(&mut self) {
        if let Some(fault) = self.transmission().fault_found() {
            self.stage = Stage::Over(Some(fault));
        }
    }

    /// Ends all that runs, as a world does before it lets go of a connection, and counts the buffers.
    pub(crate) fn end_all(&mut self, rng: &mut Rng<'_>, oracle: &mut Oracle) {
        if !matches!(self.stage, Stage::Transmission(_)) {
            return;
        }
        while self.end_one(rng, oracle) {}
        let filling = self.slots.iter().filter(|slot| matches!(slot.used, Use::Filling(..))).count();
        let mut kept = 0;
        while let Some(output) = self.transmission().poll_output() {
            match output {
                Output::Reply(_, Some(payload)) => self.free(payload.buffer.0),
                Output::Free(buffer) => self.free(buffer.0),
                Output::Reply(_, None) => {}
            }
        }
        if self.transmission().fault_found().is_none() {
            kept = self.slots.iter().filter(|slot| slot.used == Use::Kept).count();
        }
        let in_flight = usize::from(self.transmission().pieces_in_flight());
        if self.transmission().fault_found().is_none() {
            assert_eq!(in_flight, filling + kept, "a buffer was lost: {self:?}");
        }
    }
}

/// Does a piece's work on the disk.
fn work(bytes: &mut [u8], piece: &Piece, oracle: &mut Oracle) -> PieceEnd {
    let length = piece.length as usize;
    let range = piece.offset as usize..piece.offset as usize + length;
    match piece.op {
        Op::Read => {
            bytes[..length].copy_from_slice(&oracle.disk[range]);
            oracle.worked(piece, None);
            if bytes[..length].iter().all(|byte| *byte == 0) { PieceEnd::Zeroes } else { PieceEnd::Done }
        }
        Op::Write { .. } => {
            oracle.worked(piece, Some(&bytes[..length]));
            PieceEnd::Done
        }
        Op::WriteZeroes { .. } => {
            oracle.worked(piece, Some(&vec![0; length]));
            PieceEnd::Done
        }
        Op::Trim { .. } | Op::Cache | Op::Flush => {
            oracle.worked(piece, None);
            PieceEnd::Done
        }
    }
}
