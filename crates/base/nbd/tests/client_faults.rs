//! What a server may send to a client, old, new and wrong: what is used, and which fault is found.

use raidlab_nbd::{
    BlockSizes, BlockSizesError, ClientAgreement, ClientEvent, ClientHandshake, ClientOptions, ClientRequest,
    ClientStep, ClientTls, ClientTransmission, Errno, Op, RANGES_MAX, ServerFault, SubmitError,
    TransmissionFlags,
};

const OFF: ClientOptions = ClientOptions { tls: ClientTls::Off, structured: true };
const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut reply = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend((data.len() as u32).to_be_bytes());
    reply.extend_from_slice(data);
    reply
}

/// Hands messages to a client. Returns the last step and all that the client sent.
fn shake(options: ClientOptions, messages: &[&[u8]]) -> (Result<ClientStep, ServerFault>, Vec<u8>) {
    let (mut client, mut sent) = (ClientHandshake::new("e", options), Vec::new());
    let mut last = Ok(ClientStep::More);
    for message in messages {
        last = client.handle_bytes(message, &mut sent).map(|(used, step)| {
            assert_eq!(used, message.len());
            step
        });
    }
    (last, sent)
}

const UNSUP: u32 = (1 << 31) + 1;

#[test]
fn servers_of_all_ages_are_understood() {
    let size = [&(1_u64 << 20).to_be_bytes()[..], &[0, 5]].concat();
    let info = [&[0, 0][..], &size].concat();
    let blocks = [0, 3, 0, 0, 16, 0, 0, 0, 16, 0, 0, 1, 0, 0];
    let agreement = |structured, block_sizes| ClientAgreement {
        size_bytes: 1 << 20,
        flags: TransmissionFlags::from_bits(5),
        block_sizes,
        structured,
    };
    let told = BlockSizes::new(4096, 4096, 65536).expect("allowed");
    let new = [
        GREETING,
        &option_reply(8, 1, &[]),
        &[option_reply(7, 3, &blocks), option_reply(7, 3, &[0, 77, 1]), option_reply(7, 3, &info)].concat(),
        &option_reply(7, 1, &[]),
    ];
    let (step, sent) = shake(OFF, &new);
    assert_eq!(step, Ok(ClientStep::Transmit(agreement(true, told))));
    assert_eq!(
        sent,
        b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x01e\0\x01\0\x03"
    );
    let default = BlockSizes::CLIENT_DEFAULT;
    let no_go = [GREETING, &option_reply(8, UNSUP, b"what?"), &option_reply(7, UNSUP, &[]), &size];
    let (step, sent) = shake(OFF, &no_go);
    assert_eq!(step, Ok(ClientStep::Transmit(agreement(false, default))));
    assert!(sent.ends_with(b"IHAVEOPT\0\0\0\x01\0\0\0\x01e"));
    let zeroes = [&size[..], &[0; 124]].concat();
    let (step, sent) = shake(OFF, &[b"NBDMAGICIHAVEOPT\0\0", &zeroes[..50], &zeroes[50..]]);
    assert_eq!(step, Ok(ClientStep::Transmit(agreement(false, default))));
    assert_eq!(sent, b"\0\0\0\0IHAVEOPT\0\0\0\x01\0\0\0\x01e");
}

/// What is asked for, what the server sends, what comes of it.
type Row<'a> = (ClientOptions, &'a [&'a [u8]], Result<ClientStep, ServerFault>);

#[test]
fn servers_that_can_not_be_used_are_named() {
    use ServerFault::{
        BlockSizes, Handshake, MessageTooLong, NoTls, NotNbd, Oldstyle, Refused, Size, TlsRequired,
        UnknownExport,
    };
    let tls = ClientOptions { tls: ClientTls::Required, structured: true };
    let first = option_reply(8, 1, &[]);
    let go = |kind, data: &[u8]| option_reply(7, kind, data);
    let wrong = |what| Err(Handshake { what });
    let mut long = option_reply(8, 1, &[]);
    long[16..20].fill(0xff);
    let rows: [Row<'_>; 18] = [
        (OFF, &[b"SSH-2.0-"], Err(NotNbd)),
        (OFF, &[b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53"], Err(Oldstyle)),
        (OFF, &[b"NBDMAGICIHAVEOPS"], Err(NotNbd)),
        (tls, &[b"NBDMAGICIHAVEOPT\0\0"], Err(NoTls { text: String::new() })),
        (tls, &[GREETING, &option_reply(5, UNSUP, b"no")], Err(NoTls { text: "no".into() })),
        (tls, &[GREETING, &option_reply(5, 2, b"")], wrong("a wrong reply to STARTTLS")),
        (tls, &[GREETING, &option_reply(5, 1, b"")], Ok(ClientStep::StartTls)),
        (OFF, &[GREETING, &option_reply(8, (1 << 31) + 5, b"")], Err(TlsRequired)),
        (OFF, &[GREETING, &option_reply(9, 1, b"")], wrong("a reply to another option")),
        (OFF, &[GREETING, &[0; 20]], wrong("something that is no reply to an option")),
        (OFF, &[GREETING, &long], Err(MessageTooLong(u32::MAX))),
        (OFF, &[GREETING, &first, &go(1, b"")], wrong("no size of the export")),
        (OFF, &[GREETING, &first, &go(2, b"")], wrong("a wrong reply to GO")),
        (OFF, &[GREETING, &first, &go(3, &[0, 0, 1])], wrong("information of a wrong length")),
        (OFF, &[GREETING, &first, &go(3, &[0, 0, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0])], Err(Size(1 << 63))),
        (
            OFF,
            &[GREETING, &first, &go(3, &[0, 3, 0, 0, 0, 3, 0, 0, 16, 0, 0, 1, 0, 0])],
            Err(BlockSizes(BlockSizesError::Minimum(3))),
        ),
        (OFF, &[GREETING, &first, &go((1 << 31) + 6, b"e?")], Err(UnknownExport { text: "e?".into() })),
        (
            OFF,
            &[GREETING, &first, &go((1 << 31) + 2, b"\x07")],
            Err(Refused { error: (1 << 31) + 2, text: "?".into() }),
        ),
    ];
    for (options, messages, expected) in rows {
        assert_eq!(shake(options, messages).0, expected, "{messages:?}");
    }
    let endless = option_reply(7, 3, &[0, 77]).repeat(300);
    let (mut client, mut sent) = (ClientHandshake::new("e", OFF), Vec::new());
    client.handle_bytes(&[GREETING, &first].concat(), &mut sent).expect("all is well");
    assert_eq!(client.handle_bytes(&endless, &mut sent), Err(Handshake { what: "replies without end" }));
}

/// A client with a read of 8 KiB at 4 KiB (cookie 1 << 32) and a flush (cookie 1 << 32 | 1) in flight.
fn client(structured: bool) -> ClientTransmission {
    let agreement = ClientAgreement {
        size_bytes: 1 << 20,
        flags: TransmissionFlags::SEND_FLUSH,
        block_sizes: BlockSizes::CLIENT_DEFAULT,
        structured,
    };
    let mut client = ClientTransmission::new(agreement, 2);
    let read = ClientRequest { op: Op::Read, offset: 4096, length: 8192 };
    client.submit(read, 70).expect("there is room");
    client.submit(ClientRequest { op: Op::Flush, offset: 0, length: 0 }, 71).expect("there is room");
    client
}

const READ: u64 = 1 << 32;
const FLUSH: u64 = 1 << 32 | 1;

fn simple(error: u32, cookie: u64) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn chunk(flags: u16, kind: u16, cookie: u64, data: &[u8]) -> Vec<u8> {
    let mut chunk = 0x668e_33ef_u32.to_be_bytes().to_vec();
    chunk.extend(flags.to_be_bytes());
    chunk.extend(kind.to_be_bytes());
    chunk.extend(cookie.to_be_bytes());
    chunk.extend((data.len() as u32).to_be_bytes());
    chunk.extend_from_slice(data);
    chunk
}

fn data_chunk(flags: u16, offset: u64, length: usize) -> Vec<u8> {
    chunk(flags, 1, READ, &[&offset.to_be_bytes()[..], &vec![9; length]].concat())
}

fn hole(flags: u16, offset: u64, length: u32) -> Vec<u8> {
    chunk(flags, 2, READ, &[&offset.to_be_bytes()[..], &length.to_be_bytes()].concat())
}

/// All events of a stream.
fn events(client: &mut ClientTransmission, stream: &[u8]) -> Result<Vec<ClientEvent>, ServerFault> {
    let (mut at, mut found) = (0, Vec::new());
    loop {
        let (used, event) = client.handle_bytes(&stream[at..])?;
        at += used;
        match event {
            ClientEvent::More => return Ok(found),
            ClientEvent::Payload { length, .. } => at += length as usize,
            _ => {}
        }
        found.push(event);
    }
}

#[test]
fn replies_come_in_any_order_and_in_parts() {
    let ended = |tag, result| ClientEvent::Ended { tag, result };
    let payload = |at, length| ClientEvent::Payload { tag: 70, at, length };
    let stream = [simple(0, FLUSH), simple(0, READ), vec![5; 8192]].concat();
    let expected = vec![ended(71, Ok(())), payload(0, 8192), ended(70, Ok(()))];
    assert_eq!(events(&mut client(false), &stream), Ok(expected));
    let stream =
        [data_chunk(0, 8192, 4096), chunk(1, 0, FLUSH, &[]), hole(0, 4096, 4096), chunk(1, 0, READ, &[])];
    let zeroes = ClientEvent::Zeroes { tag: 70, at: 0, length: 4096 };
    let expected = vec![payload(4096, 4096), ended(71, Ok(())), zeroes, ended(70, Ok(()))];
    assert_eq!(events(&mut client(true), &stream.concat()), Ok(expected));
    let message = [0, 0, 0, 5, 0, 3, b'b', b'a', b'd', 0, 0, 0, 0, 0, 0, 16, 0];
    let stream = [chunk(0, 0x8002, READ, &message), data_chunk(1, 8192, 4096), simple(108, FLUSH)];
    let expected = vec![payload(4096, 4096), ended(70, Err(Errno::Io)), ended(71, Err(Errno::ShuttingDown))];
    assert_eq!(events(&mut client(true), &stream.concat()), Ok(expected));
    let stream = chunk(1, 0x8099, READ, &[0, 0, 0, 99, 0, 0, 1, 2, 3]);
    assert_eq!(events(&mut client(true), &stream), Ok(vec![ended(70, Err(Errno::Invalid))]));
}

#[test]
fn what_does_not_fit_is_a_fault() {
    use ServerFault::{Incomplete, MessageTooLong, Range, Reply, ReplyMagic, Scattered, UnknownCookie};
    let wrong = |what| Reply { what };
    let error = |data: &[u8]| chunk(1, 0x8001, READ, data);
    let scattered: Vec<u8> =
        (0..=RANGES_MAX as u64).flat_map(|place| data_chunk(0, 4096 + 2 * place, 1)).collect();
    let mut long = chunk(1, 0, READ, &[]);
    long[16..20].fill(0xff);
    let rows: [(bool, Vec<u8>, ServerFault); 24] = [
        (false, vec![0; 4], ReplyMagic),
        (false, chunk(1, 0, READ, &[]), ReplyMagic),
        (false, simple(0, 0), UnknownCookie(0)),
        (false, simple(0, 1 << 32 | 2), UnknownCookie(1 << 32 | 2)),
        (false, simple(0, 2 << 32), UnknownCookie(2 << 32)),
        (false, [simple(0, FLUSH), simple(0, FLUSH)].concat(), UnknownCookie(FLUSH)),
        (true, simple(0, READ), wrong("a simple reply to a read")),
        (true, simple(5, READ), wrong("a simple reply to a read")),
        (true, chunk(0, 0, READ, &[]), wrong("an empty chunk that is not the last")),
        (true, chunk(1, 0, READ, &[0]), wrong("an empty chunk that is not the last")),
        (true, chunk(1, 0, READ, &[]), Incomplete),
        (true, data_chunk(1, 4096, 8191), Incomplete),
        (true, data_chunk(0, 4096, 0), wrong("a chunk of data without data")),
        (true, chunk(0, 1, FLUSH, &[0; 9]), wrong("data for a request that is no read")),
        (true, data_chunk(0, 4095, 10), Range { offset: 4095, length: 10 }),
        (true, data_chunk(0, 12287, 2), Range { offset: 12287, length: 2 }),
        (true, hole(0, u64::MAX, 1), Range { offset: u64::MAX, length: 1 }),
        (true, hole(0, 4096, u32::MAX), Range { offset: 4096, length: u32::MAX }),
        (true, [hole(0, 4096, 10), data_chunk(0, 4105, 2)].concat(), Range { offset: 4105, length: 2 }),
        (true, hole(0, 4096, 0), wrong("an empty hole")),
        (true, error(&[0, 0, 0, 0, 0, 0]), wrong("an error without a number")),
        (true, error(&[0, 0, 0, 5, 0, 1]), wrong("an error of a wrong length")),
        (true, long, MessageTooLong(u32::MAX)),
        (true, scattered, Scattered),
    ];
    for (structured, stream, expected) in rows {
        let mut client = client(structured);
        assert_eq!(
            events(&mut client, &stream),
            Err(expected.clone()),
            "{:?}",
            &stream[..stream.len().min(40)]
        );
        assert_eq!(client.handle_bytes(&simple(0, FLUSH)), Err(expected), "a fault is kept");
    }
    let stream = chunk(1, 5, READ, &[0; 12]);
    assert_eq!(events(&mut client(true), &stream), Err(wrong("a chunk of an unexpected type")));
}

#[test]
fn only_what_the_server_offers_is_sent() {
    let agreement = ClientAgreement {
        size_bytes: 1 << 26,
        flags: TransmissionFlags::SEND_TRIM,
        block_sizes: BlockSizes::new(4096, 4096, 1 << 16).expect("allowed"),
        structured: true,
    };
    let rows = [
        (Op::Flush, 0, 0, Err(SubmitError::NotOffered)),
        (Op::Cache, 0, 4096, Err(SubmitError::NotOffered)),
        (Op::WriteZeroes { fua: false, no_hole: true }, 0, 4096, Err(SubmitError::NotOffered)),
        (Op::Write { fua: true }, 0, 4096, Err(SubmitError::NotOffered)),
        (Op::Read, 0, 0, Err(SubmitError::OutOfRange)),
        (Op::Read, 1 << 26, 4096, Err(SubmitError::OutOfRange)),
        (Op::Read, u64::MAX, 4096, Err(SubmitError::OutOfRange)),
        (Op::Read, 512, 4096, Err(SubmitError::Unaligned)),
        (Op::Read, 0, 512, Err(SubmitError::Unaligned)),
        (Op::Read, 0, 1 << 17, Err(SubmitError::TooLong)),
        (Op::Trim { fua: false }, 0, 1 << 25, Ok(())),
        (Op::Write { fua: false }, 0, 4096, Err(SubmitError::Full)),
    ];
    let mut client = ClientTransmission::new(agreement, 1);
    for (op, offset, length, expected) in rows {
        let found = client.submit(ClientRequest { op, offset, length }, 0).map(|_| ());
        assert_eq!(found, expected, "{op:?} {offset} {length}");
    }
    assert_eq!(client.in_flight(), 1);
}
