//! A world around the client's side: requests of all kinds and lengths, overlapping, several in flight.

use super::kit::Rng;
use super::oracle::Oracle;
use super::stream::{Pipe, cipher};
use raidlab_nbd::{
    ClientAgreement, ClientEvent, ClientHandshake, ClientOptions, ClientRequest, ClientStep,
    ClientTransmission, MESSAGE_BYTES_MAX, Op, ServerFault, SubmitError, TransmissionFlags,
};
use std::collections::BTreeMap;

#[derive(Debug)]
enum Stage {
    Handshake(ClientHandshake),
    Transmission(ClientTransmission),
    Over(Option<ServerFault>),
}

/// A world around the client's side.
pub(crate) struct ClientWorld {
    stage: Stage,
    input: Vec<u8>,
    encrypted: bool,
    structured: bool,
    /// Drawn requests must all be sendable.
    sane: bool,
    iodepth: u16,
    requests_left: u64,
    next_tag: u64,
    /// Buffers of the requests in flight, empty but for reads.
    buffers: BTreeMap<u64, Vec<u8>>,
    /// The read, the place in it and the bytes that come next in the stream.
    filling: Option<(u64, usize, usize)>,
}

impl std::fmt::Debug for ClientWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} left, filling {:?}", self.stage, self.requests_left, self.filling)
    }
}

impl ClientWorld {
    pub(crate) fn new(rng: &mut Rng<'_>, options: ClientOptions, sane: bool) -> Self {
        Self {
            stage: Stage::Handshake(ClientHandshake::new("", options)),
            input: Vec::new(),
            encrypted: false,
            structured: false,
            sane,
            iodepth: 1 + rng.below(12) as u16,
            requests_left: rng.below(40),
            next_tag: 0,
            buffers: BTreeMap::new(),
            filling: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    pub(crate) fn structured(&self) -> bool {
        self.structured
    }

    pub(crate) fn fault(&self) -> Option<ServerFault> {
        if let Stage::Over(fault) = &self.stage { fault.clone() } else { None }
    }

    /// Does a little of everything.
    pub(crate) fn step(&mut self, rng: &mut Rng<'_>, down: &mut Pipe, up: &mut Pipe, oracle: &mut Oracle) {
        let room = MESSAGE_BYTES_MAX.saturating_sub(self.input.len());
        let mut bytes = down.receive(rng, room);
        if self.encrypted {
            cipher(&mut bytes);
        }
        self.input.extend(bytes);
        match &self.stage {
            Stage::Handshake(_) => self.step_handshake(rng, up),
            Stage::Transmission(_) => {
                if !rng.one_in(3) && !up.is_full() {
                    self.ask(rng, up, oracle);
                }
                if !self.is_over() && !rng.one_in(3) {
                    self.take_in(oracle);
                }
            }
            Stage::Over(_) => {}
        }
    }

    fn send(&self, rng: &mut Rng<'_>, up: &mut Pipe, mut bytes: Vec<u8>) {
        if self.encrypted {
            cipher(&mut bytes);
        }
        up.send(rng, &bytes);
    }

    fn step_handshake(&mut self, rng: &mut Rng<'_>, up: &mut Pipe) {
        let Stage::Handshake(handshake) = &mut self.stage else { unreachable!("asked before") };
        let mut output = Vec::new();
        let result = handshake.handle_bytes(&self.input, &mut output);
        let step = match result {
            Ok((used, step)) => {
                self.input.drain(..used);
                step
            }
            Err(fault) => {
                self.stage = Stage::Over(Some(fault));
                return;
            }
        };
        match step {
            ClientStep::More => {}
            ClientStep::StartTls => {
                handshake.handle_tls_up(&mut output);
                self.encrypted = true;
                cipher(&mut self.input);
            }
            ClientStep::Transmit(agreement) => self.begin(agreement),
        }
        self.send(rng, up, output);
    }

    fn begin(&mut self, agreement: ClientAgreement) {
        self.structured = agreement.structured;
        if agreement.size_bytes == 0 {
            self.requests_left = 0;
        }
        self.stage = Stage::Transmission(ClientTransmission::new(agreement, self.iodepth));
    }

    fn transmission(&mut self) -> &mut ClientTransmission {
        let Stage::Transmission(transmission) = &mut self.stage else { unreachable!("asked before") };
        transmission
    }

    fn ask(&mut self, rng: &mut Rng<'_>, up: &mut Pipe, oracle: &mut Oracle) {
        if self.requests_left == 0 {
            if self.buffers.is_empty() {
                let bytes = self.transmission().disconnect().to_vec();
                self.send(rng, up, bytes);
                self.stage = Stage::Over(None);
            }
            return;
        }
        let agreement = *self.transmission().agreement();
        let request = draw_request(rng, &agreement, oracle.disk.len() as u64);
        let length = request.length as usize;
        let in_bounds = request.offset as usize + length <= oracle.disk.len();
        if request.op.changes() && oracle.zeroes_in_flight(request.offset, length) {
            return;
        }
        let tag = self.next_tag;
        let mut message = match self.transmission().submit(request, tag) {
            Ok(head) => head.to_vec(),
            Err(SubmitError::Full) => return,
            Err(error) => {
                assert!(!self.sane || error == SubmitError::NotOffered, "{request:?}: {error}");
                self.requests_left -= 1;
                return;
            }
        };
        let mut filler = Rng::new(tag ^ 0xf111);
        let writes = matches!(request.op, Op::Write { .. });
        let payload: Vec<u8> =
            (0..if writes { length } else { 0 }).map(|_| filler.next() as u8 | 1).collect();
        message.extend_from_slice(&payload);
        if in_bounds {
            oracle.submitted(tag, request.op, request.offset, length, payload);
        }
        let reads = request.op == Op::Read;
        self.buffers.insert(tag, vec![0x77; if reads { length } else { 0 }]);
        self.next_tag += 1;
        self.requests_left -= 1;
        self.send(rng, up, message);
    }

    fn take_in(&mut self, oracle: &mut Oracle) {
        for _ in 0..20 {
            if let Some((tag, at, left)) = self.filling {
                let taken = self.input.len().min(left);
                let buffer = self.buffers.get_mut(&tag).expect("payload is for a request in flight");
                buffer[at..at + taken].copy_from_slice(&self.input[..taken]);
                self.input.drain(..taken);
                self.filling = (taken < left).then_some((tag, at + taken, left - taken));
                if self.filling.is_some() {
                    return;
                }
            }
            let input = std::mem::take(&mut self.input);
            let result = self.transmission().handle_bytes(&input);
            self.input = input;
            let (used, event) = match result {
                Ok(handled) => handled,
                Err(fault) => {
                    assert_eq!(self.transmission().handle_bytes(&[]), Err(fault.clone()));
                    self.stage = Stage::Over(Some(fault));
                    return;
                }
            };
            self.input.drain(..used);
            match event {
                ClientEvent::More => return,
                ClientEvent::Payload { tag, at, length } => {
                    self.filling = Some((tag, at as usize, length as usize));
                }
                ClientEvent::Zeroes { tag, at, length } => {
                    let buffer = self.buffers.get_mut(&tag).expect("zeros are for a request in flight");
                    buffer[at as usize..(at + length) as usize].fill(0);
                }
                ClientEvent::Ended { tag, result } => {
                    let buffer = self.buffers.remove(&tag).expect("only what is in flight ends");
                    oracle.ended(tag, result, &buffer);
                }
            }
        }
    }
}

/// A request that the server allows, if it told the truth about itself.
fn draw_request(rng: &mut Rng<'_>, agreement: &ClientAgreement, size: u64) -> ClientRequest {
    let fua = agreement.flags.contains(TransmissionFlags::SEND_FUA) && rng.one_in(3);
    let op = match rng.below(16) {
        0 => return ClientRequest { op: Op::Flush, offset: 0, length: 0 },
        1 => Op::Trim { fua },
        2 => Op::Cache,
        3 | 4 => Op::WriteZeroes { fua, no_hole: rng.one_in(2) },
        5..=9 => Op::Write { fua },
        _ => Op::Read,
    };
    let sizes = agreement.block_sizes;
    let size = size.min(agreement.size_bytes).max(1);
    let minimum = u64::from(sizes.minimum()).min(size);
    let round = |bytes: u64| bytes / minimum * minimum;
    let offset = round(rng.below(size));
    let longest = match rng.below(4) {
        0 => 1 << 20,
        1 => 200_000,
        _ => 10_000,
    };
    let longest = (size - offset).min(u64::from(sizes.payload_max())).min(longest.max(minimum));
    // Very short writes over each other could be taken for each other.
    let shortest = if op.changes() { minimum.max(64) } else { minimum };
    let length = round(1 + rng.below(longest.max(1))).max(shortest.next_multiple_of(minimum));
    let length = length.min(round(size - offset)).max(minimum);
    ClientRequest { op, offset, length: length as u32 }
}
