//! In steady state neither side allocates; long requests pass through few buffers, none of which is lost or deadlocked.

use raidlab_nbd::{
    BlockSizes, BufferId, ClientAgreement, ClientEvent, ClientRequest, ClientTransmission, Errno, Export,
    Fate, Intake, Op, Output, PIECE_BYTES_MIN, Piece, PieceEnd, REQUEST_BYTES, ServerAgreement, ServerLimits,
    ServerTransmission, TransmissionFlags,
};
use std::collections::VecDeque;

const LIMITS: ServerLimits =
    ServerLimits { requests: 32, pieces: 32, bulk_pieces: 4, piece_bytes: PIECE_BYTES_MIN };

fn pair(structured: bool, limits: ServerLimits) -> (ServerTransmission, ClientTransmission) {
    let block_sizes = BlockSizes::new(512, 4096, 1 << 25).expect("allowed");
    let flags = TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_FUA
        | TransmissionFlags::SEND_WRITE_ZEROES
        | TransmissionFlags::SEND_CACHE;
    let export =
        Export { name: String::new(), description: String::new(), size_bytes: 1 << 30, block_sizes, flags };
    let agreement = ServerAgreement { export: 0, structured, allocation: false };
    let client = ClientAgreement { size_bytes: export.size_bytes, flags, block_sizes, structured };
    (ServerTransmission::new(&export, agreement, limits), ClientTransmission::new(client, 32))
}

/// Sends `requests` of `length` bytes, reads and writes, 32 at a time, through buffers that exist.
fn pump(
    server: &mut ServerTransmission,
    client: &mut ClientTransmission,
    streams: &mut [Vec<u8>; 2],
    length: u32,
    rounds: u64,
) {
    for round in 0..rounds {
        let [up, down] = streams;
        up.clear();
        for tag in 0..32 {
            let op = if (round + tag) % 2 == 0 { Op::Read } else { Op::Write { fua: false } };
            let request = ClientRequest { op, offset: tag * 4096, length };
            up.extend_from_slice(&client.submit(request, tag).expect("there is room"));
            if op != Op::Read {
                up.resize(up.len() + length as usize, 7);
            }
        }
        let mut at = 0;
        loop {
            let (used, intake) = server.handle_bytes(&up[at..]);
            at += used;
            match intake {
                Intake::Payload(_) => {
                    let piece = server.start_payload();
                    at += piece.length as usize;
                    assert_eq!(server.handle_piece_end(piece, BufferId(0), PieceEnd::Done), Fate::Free);
                }
                Intake::More => break,
                intake => panic!("{intake:?}"),
            }
        }
        down.clear();
        while server.peek_piece().is_some() {
            let piece = server.start_piece();
            assert_eq!(server.handle_piece_end(piece, BufferId(0), PieceEnd::Done), Fate::Kept);
        }
        while let Some(output) = server.poll_output() {
            let Output::Reply(head, payload) = output else { panic!("nothing failed") };
            down.extend_from_slice(head.as_bytes());
            down.resize(down.len() + payload.map_or(0, |payload| payload.length as usize), 7);
        }
        let (mut at, mut ended) = (0, 0);
        while ended < 32 {
            let (used, event) = client.handle_bytes(&down[at..]).expect("no fault");
            at += used;
            match event {
                ClientEvent::Payload { length, .. } => at += length as usize,
                ClientEvent::Ended { result, .. } => {
                    assert_eq!(result, Ok(()));
                    ended += 1;
                }
                event => panic!("{event:?}"),
            }
        }
        assert!(server.is_idle());
    }
}

#[test]
fn requests_allocate_nothing() {
    for structured in [false, true] {
        let (mut server, mut client) = pair(structured, LIMITS);
        let mut streams = [Vec::new(), Vec::new()];
        pump(&mut server, &mut client, &mut streams, 4096, 4);
        let info = allocation_counter::measure(|| {
            pump(&mut server, &mut client, &mut streams, 4096, 100);
        });
        assert_eq!(info.count_total, 0, "structured replies: {structured}");
    }
}

/// A request of 32 MiB by hand.
fn long_request(command: u8) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
    request[7] = command;
    request[24] = 2;
    request
}

#[test]
fn the_longest_read_passes_through_two_buffers() {
    for structured in [false, true] {
        let (mut server, _) = pair(structured, ServerLimits { pieces: 2, ..LIMITS });
        server.handle_bytes(&long_request(0));
        let (mut running, mut sent) = (Vec::new(), 0_u64);
        while sent < 1 << 25 {
            while server.peek_piece().is_some() {
                running.push(server.start_piece());
            }
            assert!(running.len() <= 2 && !running.is_empty());
            // The younger first, so that a simple reply has to wait for the older.
            let piece = running.pop().expect("one is there");
            assert_eq!(server.handle_piece_end(piece, BufferId(0), PieceEnd::Done), Fate::Kept);
            if running.len() == 1 {
                let piece = running.pop().expect("one is there");
                assert_eq!(server.handle_piece_end(piece, BufferId(1), PieceEnd::Done), Fate::Kept);
            }
            while let Some(Output::Reply(_, payload)) = server.poll_output() {
                sent += u64::from(payload.expect("reads have data").length);
            }
        }
        assert!(server.is_idle());
    }
}

/// Starts all pieces that may be.
fn start_all(server: &mut ServerTransmission) -> Vec<Piece> {
    std::iter::from_fn(|| server.peek_piece().map(|_| server.start_piece())).collect()
}

#[test]
fn long_zeroes_take_few_buffers_and_let_others_pass() {
    let (mut server, _) = pair(true, LIMITS);
    server.handle_bytes(&long_request(6));
    server.handle_bytes(&long_request(5));
    let bulk = start_all(&mut server);
    assert_eq!(bulk.iter().filter(|piece| piece.op == Op::Cache).count(), 2, "the two take turns");
    assert_eq!(bulk.len(), 4);
    server.handle_bytes(&long_request(0));
    let reads = start_all(&mut server);
    assert_eq!(reads.len(), 28, "the read gets what bulk may not have");
    assert!(reads.iter().all(|piece| piece.op == Op::Read));
    for piece in reads {
        server.handle_piece_end(piece, BufferId(0), PieceEnd::Failed(Errno::Io));
    }
    while server.poll_output().is_some() {}
    // One ends, one begins, until both are done.
    let (mut bytes, mut running) = (0, VecDeque::from(bulk));
    while let Some(piece) = running.pop_front() {
        bytes += u64::from(piece.length);
        assert_eq!(server.handle_piece_end(piece, BufferId(0), PieceEnd::Done), Fate::Free);
        running.extend(server.peek_piece().map(|_| server.start_piece()));
        assert!(running.len() <= 4);
    }
    assert_eq!(bytes, 2 << 25);
}

#[test]
fn the_longest_write_stops_at_its_first_error_and_takes_the_rest_off_the_stream() {
    let (mut server, _) = pair(false, LIMITS);
    let (used, intake) = server.handle_bytes(&long_request(1));
    assert_eq!(used, REQUEST_BYTES);
    assert!(matches!(intake, Intake::Payload(piece) if piece.length == PIECE_BYTES_MIN));
    let piece = server.start_payload();
    server.handle_piece_end(piece, BufferId(0), PieceEnd::Failed(Errno::Io));
    let rest = (1 << 25) - PIECE_BYTES_MIN as usize;
    let stream = vec![0; rest];
    assert_eq!(server.handle_bytes(&stream[..rest - 1]), (rest - 1, Intake::More));
    assert_eq!(server.poll_output(), None, "the reply waits for the payload");
    assert_eq!(server.handle_bytes(&[0]), (1, Intake::More));
    let Some(Output::Reply(head, None)) = server.poll_output() else { panic!("no reply") };
    assert_eq!(head.as_bytes()[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5]);
    assert!(server.is_idle());
}

#[test]
fn a_server_that_stops_refuses_what_comes_and_ends_what_is_there() {
    let (mut server, _) = pair(true, LIMITS);
    server.handle_bytes(&long_request(0));
    server.handle_shutdown();
    server.handle_bytes(&long_request(0));
    let Some(Output::Reply(head, None)) = server.poll_output() else { panic!("no reply") };
    assert_eq!(head.as_bytes()[20..24], [0, 0, 0, 108]);
    assert!(server.peek_piece().is_some());
    assert!(!server.is_idle());
}

/// A request by hand.
fn read_request(cookie: u8, length: u32) -> [u8; REQUEST_BYTES] {
    let mut request = long_request(0);
    request[15] = cookie;
    request[24..].copy_from_slice(&length.to_be_bytes());
    request
}

fn cookie_of(output: Option<Output>) -> Option<u8> {
    match output {
        Some(Output::Reply(head, _)) => Some(head.as_bytes()[15]),
        Some(Output::Free(_)) => panic!("nothing was to be freed"),
        None => None,
    }
}

#[test]
fn a_simple_reply_that_needs_more_buffers_waits_for_those_that_hold_some() {
    let (mut server, _) = pair(false, LIMITS);
    server.handle_bytes(&[read_request(1, 4096), read_request(2, 3 * PIECE_BYTES_MIN)].concat());
    let (short, long) = (server.start_piece(), server.start_piece());
    assert_eq!(server.handle_piece_end(long, BufferId(1), PieceEnd::Done), Fate::Kept);
    assert_eq!(server.poll_output(), None, "its next piece could wait for the other's buffer");
    assert_eq!(server.handle_piece_end(short, BufferId(0), PieceEnd::Done), Fate::Kept);
    assert_eq!(cookie_of(server.poll_output()), Some(1));
    assert_eq!(cookie_of(server.poll_output()), Some(2));
    assert_eq!(server.poll_output(), None);
    let rest = [server.start_piece(), server.start_piece()];
    for piece in rest.into_iter().rev() {
        assert_eq!(server.handle_piece_end(piece, BufferId(0), PieceEnd::Done), Fate::Kept);
    }
    for _ in rest {
        let Some(Output::Reply(head, Some(_))) = server.poll_output() else { panic!("no data") };
        assert_eq!(head.as_bytes(), [], "the reply goes on");
    }
    assert!(server.is_idle());
}

#[test]
fn a_simple_read_that_fails_before_its_reply_begins_gives_its_buffers_back() {
    let (mut server, _) = pair(false, LIMITS);
    server.handle_bytes(&read_request(1, 4 * PIECE_BYTES_MIN));
    let pieces = [server.start_piece(), server.start_piece(), server.start_piece()];
    assert_eq!(server.handle_piece_end(pieces[1], BufferId(1), PieceEnd::Done), Fate::Kept);
    assert_eq!(server.handle_piece_end(pieces[0], BufferId(0), PieceEnd::Failed(Errno::Io)), Fate::Free);
    assert_eq!(server.poll_output(), Some(Output::Free(BufferId(1))));
    assert_eq!((server.poll_output(), server.peek_piece()), (None, None), "one piece is still at work");
    assert_eq!(server.handle_piece_end(pieces[2], BufferId(2), PieceEnd::Done), Fate::Free);
    let Some(Output::Reply(head, None)) = server.poll_output() else { panic!("no reply") };
    assert_eq!(head.as_bytes()[4..8], [0, 0, 0, 5]);
    assert!(server.is_idle());
}
