//! Clients that build messages by hand: every option and every request, valid and broken, with replies read by a
//! second, slow parser; and random bytes.

use super::kit::Rng;
use super::oracle::Oracle;
use super::server_world::ServerWorld;
use super::stream::{Pipe, damage};
use super::{Outcome, draw_exports};
use raidlab_nbd::{
    ClientEvent, ClientHandshake, ClientOptions, ClientTls, ClientTransmission, Export, MESSAGE_BYTES_MAX,
    OPTIONS_MAX, Op, ServerAgreement, ServerHandshake, ServerStep, ServerTls, TransmissionFlags,
};
use std::collections::BTreeMap;

const OPTION_MAGIC: [u8; 8] = *b"IHAVEOPT";
const STARTTLS: u32 = 5;

/// An option, most often as it should be.
fn draw_option(rng: &mut Rng<'_>) -> (u32, Vec<u8>) {
    let option = rng.pick(&[1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 10, 10, 11, 99]);
    let name = rng.pick(&[&b""[..], b"other", b"nobody", b"\xff"]);
    let mut data = Vec::new();
    match option {
        1 => data.extend_from_slice(name),
        6 | 7 => {
            data.extend((name.len() as u32).to_be_bytes());
            data.extend_from_slice(name);
            let count = rng.below(5) as u16;
            data.extend(count.to_be_bytes());
            (0..count).for_each(|item| data.extend(item.to_be_bytes()));
        }
        9 | 10 => {
            data.extend((name.len() as u32).to_be_bytes());
            data.extend_from_slice(name);
            let count = rng.below(4) as u32;
            data.extend(count.to_be_bytes());
            for _ in 0..count {
                let query = rng.pick(&[&b"base:allocation"[..], b"base:", b"x-a:b", b"nothing"]);
                data.extend((query.len() as u32).to_be_bytes());
                data.extend_from_slice(query);
            }
        }
        _ => {}
    }
    if rng.one_in(6) {
        data.push(0);
        damage(rng, &mut data);
    }
    if rng.one_in(30) {
        data.resize(rng.index(300 << 10), 0);
    }
    (option, data)
}

/// Sends options until one ends the handshake.
pub(crate) fn haggle(rng: &mut Rng<'_>) -> Vec<Outcome> {
    let exports = draw_exports(rng);
    let tls = rng.pick(&[ServerTls::NotAvailable, ServerTls::Offered, ServerTls::Required]);
    let mut replies = Vec::new();
    let mut server = ServerHandshake::new(tls, &mut replies);
    assert_eq!(replies.len(), 18);
    let flags = rng.pick(&[0_u32, 1, 2, 3, 3, 3, 3, 3, 4]);
    let step = feed(rng, &mut server, &exports, &flags.to_be_bytes(), &mut Vec::new());
    if flags > 3 {
        assert!(matches!(step, ServerStep::Fault(_)));
        return vec![Outcome::Haggled];
    }
    for _ in 0..=OPTIONS_MAX {
        let (option, data) = draw_option(rng);
        let mut message = OPTION_MAGIC.to_vec();
        message.extend(option.to_be_bytes());
        message.extend((data.len() as u32).to_be_bytes());
        message.extend_from_slice(&data);
        if option == STARTTLS {
            // What somebody puts between the wish for TLS and TLS.
            let behind = [&message[..], b"IHAVEOPT"].concat();
            let (_, step) = server.clone().handle_bytes(&exports, &behind, &mut Vec::new());
            assert_ne!(step, ServerStep::StartTls);
        }
        replies.clear();
        let step = feed(rng, &mut server, &exports, &message, &mut replies);
        match step {
            ServerStep::Fault(_) => return vec![Outcome::Haggled],
            ServerStep::Transmit(_) if option == 1 => {
                assert_eq!(replies.len(), if flags & 2 == 0 { 134 } else { 10 });
                return vec![Outcome::Haggled];
            }
            step => {
                check_option_replies(option, &replies);
                match step {
                    ServerStep::StartTls => server.handle_tls_up(),
                    ServerStep::Transmit(_) | ServerStep::Aborted => return vec![Outcome::Haggled],
                    ServerStep::More | ServerStep::Continue | ServerStep::Fault(_) => {}
                }
            }
        }
    }
    panic!("the server listens without end");
}

/// Hands a message over in pieces. Returns what came of all of it.
fn feed(
    rng: &mut Rng<'_>,
    server: &mut ServerHandshake,
    exports: &raidlab_nbd::Exports,
    message: &[u8],
    replies: &mut Vec<u8>,
) -> ServerStep {
    let (mut start, mut end) = (0, 0);
    loop {
        end += (1 + rng.index(20_000)).min(message.len() - end);
        loop {
            let (used, step) = server.handle_bytes(exports, &message[start..end], replies);
            start += used;
            assert!(end - start < MESSAGE_BYTES_MAX || step != ServerStep::More);
            let over = matches!(step, ServerStep::Fault(_) | ServerStep::Transmit(_) | ServerStep::Aborted);
            if over || start == message.len() {
                return step;
            }
            if step == ServerStep::More || used == 0 {
                break;
            }
        }
        assert!(end < message.len(), "a whole message is not enough");
    }
}

/// All replies name the option, and only the last is final.
fn check_option_replies(option: u32, mut replies: &[u8]) {
    loop {
        let (head, rest) = replies.split_at_checked(20).expect("a reply has a header");
        assert_eq!(head[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        assert_eq!(head[8..12], option.to_be_bytes());
        let kind = u32::from_be_bytes(head[12..16].try_into().expect("4 bytes"));
        let length = u32::from_be_bytes(head[16..20].try_into().expect("4 bytes"));
        replies = rest.get(length as usize..).expect("a reply is whole");
        let last = kind == 1 || kind >> 31 == 1;
        assert_eq!(last, replies.is_empty(), "only the last reply is final");
        if last {
            return;
        }
    }
}

/// A request as sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    flags: u16,
    command: u16,
    offset: u64,
    length: u32,
}

/// Sends requests of all kinds and reads the replies.
pub(crate) fn chatter(rng: &mut Rng<'_>) -> Vec<Outcome> {
    let exports = draw_exports(rng);
    let export = exports.get(rng.index(2)).clone();
    let structured = rng.one_in(2);
    let agreement = ServerAgreement {
        export: exports.find(export.name.as_bytes()).expect("just taken"),
        structured,
        allocation: structured && rng.one_in(2),
    };
    let mut oracle = Oracle::new(export.size_bytes as usize);
    oracle.trusted = false;
    let mut server = ServerWorld::transmitting(rng, &exports, agreement);
    let (mut up, mut down, mut replies) = (Pipe::new(0), Pipe::new(0), Vec::new());
    let mut sent = BTreeMap::new();
    for cookie in 0..rng.below(40) {
        let request = draw_request(rng, &export);
        let mut message = 0x2560_9513_u32.to_be_bytes().to_vec();
        message.extend(request.flags.to_be_bytes());
        message.extend(request.command.to_be_bytes());
        message.extend((cookie ^ 0xc001_d00d_0000_0000).to_be_bytes());
        message.extend(request.offset.to_be_bytes());
        message.extend(request.length.to_be_bytes());
        if request.command == 1 {
            message.resize(28 + request.length as usize, 0x33);
        }
        up.send(rng, &message);
        sent.insert(cookie ^ 0xc001_d00d_0000_0000, request);
        for _ in 0..rng.below(20) {
            server.step(rng, &mut up, &mut down, &mut oracle);
            replies.extend(down.receive(rng, usize::MAX));
        }
    }
    let mut good_bye = 0x2560_9513_u32.to_be_bytes().to_vec();
    good_bye.extend([0, 0, 0, 2]);
    good_bye.resize(28, 0);
    up.send(rng, &good_bye);
    for _ in 0..super::STEPS_MAX {
        server.step(rng, &mut up, &mut down, &mut oracle);
        replies.extend(down.receive(rng, usize::MAX));
        if server.is_over() && down.is_empty() {
            break;
        }
    }
    assert!(server.is_over() && server.fault().is_none(), "requests are left: {server:?}");
    check_replies(&replies, sent, &export, agreement, server.piece_bytes());
    vec![Outcome::Chattered]
}

fn draw_request(rng: &mut Rng<'_>, export: &Export) -> Sent {
    let minimum = u64::from(export.block_sizes.minimum());
    let command = rng.pick(&[0, 0, 0, 1, 1, 3, 4, 5, 6, 7, 8, 77]);
    let mut flags = if rng.one_in(3) { rng.pick(&[1, 2, 4, 8, 16, 32, 5, 0x8000]) } else { 0 };
    if command == 0 && rng.one_in(3) {
        flags = 4;
    }
    if command == 3 && !rng.one_in(4) {
        return Sent { flags, command, offset: 0, length: 0 };
    }
    let mut offset = rng.below(export.size_bytes + minimum) / minimum * minimum;
    let longest = rng.pick(&[1, 20_000, 400_000]);
    let mut length = (rng.below(longest) / minimum * minimum) as u32;
    match rng.below(20) {
        0 => offset += 1,
        1 => length += 1,
        2 => offset = rng.next(),
        3 if command != 1 => length = rng.next() as u32,
        4 => offset = u64::MAX,
        5 => length = export.block_sizes.payload_max().saturating_add(1).min(1 << 21),
        _ => {}
    }
    Sent { flags, command, offset, length }
}

/// The error that a request must get, in the words of the document; 0 for none.
fn expected_error(sent: Sent, export: &Export, agreement: ServerAgreement, piece_bytes: u32) -> u32 {
    const EINVAL: u32 = 22;
    let Sent { flags, command, offset, length } = sent;
    let offers = |flag: TransmissionFlags| export.flags.contains(flag);
    let known = match command {
        0 | 1 => true,
        3 => offers(TransmissionFlags::SEND_FLUSH),
        4 => offers(TransmissionFlags::SEND_TRIM),
        5 => offers(TransmissionFlags::SEND_CACHE),
        6 => offers(TransmissionFlags::SEND_WRITE_ZEROES),
        7 => agreement.allocation,
        _ => false,
    };
    let flag_allowed = |flag: u16| match flag {
        1 => offers(TransmissionFlags::SEND_FUA),
        2 => command == 6,
        4 => command == 0 && agreement.structured,
        8 => command == 7,
        _ => false,
    };
    let unknown_flag = (0..16).any(|bit| flags >> bit & 1 == 1 && !flag_allowed(1 << bit));
    if !known || unknown_flag {
        return EINVAL;
    }
    if command == 3 {
        return if (offset, length) == (0, 0) { 0 } else { EINVAL };
    }
    if [1, 4, 6].contains(&command) && offers(TransmissionFlags::READ_ONLY) {
        return 1;
    }
    if u128::from(offset) + u128::from(length) > u128::from(export.size_bytes) {
        return if [1, 6].contains(&command) { 28 } else { EINVAL };
    }
    let minimum = export.block_sizes.minimum();
    if !offset.is_multiple_of(u64::from(minimum)) || !length.is_multiple_of(minimum) {
        return EINVAL;
    }
    let payload_max = export.block_sizes.payload_max();
    match command {
        7 if length == 0 => EINVAL,
        1 if length > payload_max => EINVAL,
        0 if length > payload_max => {
            if agreement.structured {
                75
            } else {
                EINVAL
            }
        }
        0 if flags & 4 != 0 && length > piece_bytes => 75,
        _ => 0,
    }
}

/// Reads big-endian numbers off the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(length).expect("a reply is whole");
        self.0 = rest;
        taken
    }

    fn number(&mut self, length: usize) -> u64 {
        self.take(length).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Reads all replies: each request has one, in the right form, with the right error.
fn check_replies(
    replies: &[u8],
    mut sent: BTreeMap<u64, Sent>,
    export: &Export,
    agreement: ServerAgreement,
    piece_bytes: u32,
) {
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    let mut bytes = Bytes(replies);
    while !bytes.0.is_empty() {
        let magic = bytes.number(4);
        if magic == 0x6744_6698 {
            let (error, cookie) = (bytes.number(4), bytes.number(8));
            let request = sent.remove(&cookie).expect("a request has one reply");
            assert_eq!(
                error,
                u64::from(expected_error(request, export, agreement, piece_bytes)),
                "{request:?}"
            );
            assert!(request.command != 0 || !agreement.structured, "a simple reply to {request:?}");
            assert!(request.command != 7 || error != 0, "a simple reply to {request:?}");
            if request.command == 0 && error == 0 {
                bytes.take(request.length as usize);
            }
            continue;
        }
        assert_eq!(magic, 0x668e_33ef, "a reply begins here");
        assert!(agreement.structured);
        let (flags, kind, cookie) = (bytes.number(2), bytes.number(2), bytes.number(8));
        let mut data = { Bytes(bytes.take(4)) };
        let mut data = Bytes(bytes.take(data.number(4) as usize));
        let request = *sent.get(&cookie).expect("chunks end with the last");
        let expected = expected_error(request, export, agreement, piece_bytes);
        let done = flags == 1;
        match kind {
            0 => assert!(done && data.0.is_empty()),
            1 | 2 => {
                assert_eq!((request.command, expected), (0, 0), "{request:?}");
                let offset = data.number(8);
                let length = if kind == 2 { data.number(4) } else { data.0.len() as u64 };
                let end = request.offset + u64::from(request.length);
                assert!(length > 0 && offset >= request.offset && offset + length <= end);
                assert!(request.flags & 4 == 0 || length == u64::from(request.length), "in fragments");
                *covered.entry(cookie).or_default() += length;
            }
            5 => {
                assert_eq!((request.command, expected, done), (7, 0, true));
                assert_eq!((data.number(4), data.number(4), data.number(4)), (1, request.length.into(), 0));
            }
            0x8001 => {
                assert_eq!((data.number(4), data.number(2)), (expected.into(), 0), "{request:?}");
                assert!(done && data.0.is_empty());
            }
            _ => panic!("chunk of type {kind} to {request:?}"),
        }
        if done {
            sent.remove(&cookie);
            let whole = request.command == 0 && expected == 0;
            let length = if whole { u64::from(request.length) } else { 0 };
            assert_eq!(covered.remove(&cookie).unwrap_or(0), length, "{request:?} is not whole");
        }
    }
    assert!(sent.is_empty(), "without a reply: {sent:?}");
}

/// Hands random bytes, some with a right magic, to every stage of both sides.
pub(crate) fn garbage(rng: &mut Rng<'_>) -> Vec<Outcome> {
    let mut bytes = Vec::new();
    for _ in 0..rng.below(30) {
        match rng.below(8) {
            0 => bytes.extend(b"NBDMAGICIHAVEOPT"),
            1 => bytes.extend(OPTION_MAGIC),
            2 => bytes.extend(0x0003_e889_0455_65a9_u64.to_be_bytes()),
            3 => bytes.extend(0x2560_9513_u32.to_be_bytes()),
            4 => bytes.extend(0x6744_6698_u32.to_be_bytes()),
            5 => bytes.extend(0x668e_33ef_u32.to_be_bytes()),
            6 => bytes.extend([0; 7]),
            _ => (0..rng.below(40)).for_each(|_| bytes.push(rng.next() as u8)),
        }
    }
    let exports = draw_exports(rng);
    let mut sink = Vec::new();
    let mut server = ServerHandshake::new(
        rng.pick(&[ServerTls::NotAvailable, ServerTls::Offered, ServerTls::Required]),
        &mut sink,
    );
    let mut start = 0;
    while start < bytes.len() {
        let (used, _) = server.handle_bytes(&exports, &bytes[start..], &mut sink);
        start += used;
        if used == 0 {
            break;
        }
    }
    let structured = rng.one_in(2);
    let agreement = ServerAgreement { export: 0, structured, allocation: structured };
    let mut world = ServerWorld::transmitting(rng, &exports, agreement);
    let (mut up, mut down) = (Pipe::new(0), Pipe::new(0));
    up.send(rng, &bytes);
    let mut oracle = Oracle::new(exports.get(0).size_bytes as usize);
    oracle.trusted = false;
    for _ in 0..200 {
        world.step(rng, &mut up, &mut down, &mut oracle);
    }
    world.end_all(rng, &mut oracle);
    let mut client = ClientHandshake::new(
        "",
        ClientOptions { tls: rng.pick(&[ClientTls::Off, ClientTls::Required]), structured },
    );
    let _ = client.handle_bytes(&bytes, &mut sink);
    garbage_to_client(&bytes, structured);
    vec![Outcome::Garbage]
}

fn garbage_to_client(bytes: &[u8], structured: bool) {
    let agreement = raidlab_nbd::ClientAgreement {
        size_bytes: 1 << 20,
        flags: TransmissionFlags::from_bits(!2),
        block_sizes: raidlab_nbd::BlockSizes::CLIENT_DEFAULT,
        structured,
    };
    let mut client = ClientTransmission::new(agreement, 4);
    for op in [Op::Read, Op::Flush, Op::Write { fua: true }] {
        let length = if op == Op::Flush { 0 } else { 4096 };
        let request = raidlab_nbd::ClientRequest { op, offset: 0, length };
        client.submit(request, 0).expect("all is offered");
    }
    let mut start = 0;
    while let Ok((used, event)) = client.handle_bytes(&bytes[start.min(bytes.len())..]) {
        start += used;
        match event {
            ClientEvent::More => break,
            ClientEvent::Payload { at, length, .. } => {
                assert!(length > 0 && at + length <= 4096);
                start += length as usize;
            }
            ClientEvent::Zeroes { at, length, .. } => assert!(length > 0 && at + length <= 4096),
            ClientEvent::Ended { .. } => {}
        }
    }
}
