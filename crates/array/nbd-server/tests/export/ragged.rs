//! Requests that begin and end within blocks: right bytes, and no write undone by another one in the same block.

use crate::client::{Client, Socket};
use crate::{BLOCK, MIB, PLAIN, Random, exercise, exercise_grains, few_buffers, serve, with_server};
use raidlab_nbd::{Errno, Op};
use raidlab_nbd_server::NbdOptions;

#[test]
fn any_alignment_gets_its_bytes_back() {
    with_server(NbdOptions::default(), |place| {
        for (grain, structured) in [(1, true), (512, false), (3000, true)] {
            exercise_grains(&mut place.client(structured), grain, 0, 4 * MIB, (60, grain));
        }
    });
}

#[test]
fn many_clients_share_few_buffers_at_any_alignment() {
    with_server(few_buffers(6), |place| {
        std::thread::scope(|scope| {
            for number in 0..6_u64 {
                // Each one's range ends within a block in which the next one's begins.
                let (base, span) = (number * (2 * MIB + 1001) + 17, 2 * MIB + 1001);
                let grain = if number % 3 == 0 { BLOCK } else { 1 + number * 100 };
                scope.spawn(move || {
                    let mut client = place.client(number % 2 == 0);
                    exercise_grains(&mut client, 30 + number, base, span, (30, grain));
                });
            }
        });
    });
}

/// Length of a share of a block, in bytes: shares begin everywhere in blocks, and some lie in two.
const SHARE: u64 = 700;
const SHARES: u64 = 400;

/// Writes to every fourth share many times, many at once, and some whole blocks behind all shares.
fn scribble<S: Socket>(client: &mut Client<S>, number: u64) -> Vec<(u64, Vec<u8>)> {
    let mut random = Random(900 + number);
    let mut last = vec![(0, Vec::new()); SHARES as usize / 4];
    for _ in 0..40 {
        let first = random.below(SHARES / 4);
        for place in 0..24 {
            let mine = (first + place) % (SHARES / 4);
            let at = (mine * 4 + number) * SHARE;
            let bytes = if random.below(5) == 0 { vec![0; SHARE as usize] } else { random.bytes(SHARE) };
            let fua = random.below(4) == 0;
            let zeroes = bytes.iter().all(|byte| *byte == 0);
            let op = if zeroes { Op::WriteZeroes { fua, no_hole: false } } else { Op::Write { fua } };
            client
                .send(op, at, SHARE as u32, if zeroes { &[] } else { &bytes })
                .expect("the server takes it");
            last[mine as usize] = (at, bytes);
        }
        while client.in_flight() > 0 {
            assert_eq!(client.next().expect("the server answers").1, Ok(()));
        }
    }
    last.retain(|(_, bytes)| !bytes.is_empty());
    last
}

#[test]
fn writes_into_one_block_by_many_clients_all_stay() {
    with_server(few_buffers(8), |place| {
        let last: Vec<_> = std::thread::scope(|scope| {
            let scribblers: Vec<_> =
                (0..4).map(|number| scope.spawn(move || scribble(&mut place.client(true), number))).collect();
            scribblers.into_iter().flat_map(|scribbler| scribbler.join().expect("it ends well")).collect()
        });
        let mut reader = place.client(false);
        let all = reader.call(Op::Read, 0, (SHARE * SHARES) as u32, &[]).expect("a read");
        assert!(last.len() > SHARES as usize / 2);
        for (at, bytes) in last {
            assert!(all[at as usize..][..bytes.len()] == bytes, "the share at {at} was undone");
        }
    });
}

#[test]
fn a_ragged_write_undoes_no_whole_one_that_is_under_way() {
    with_server(few_buffers(4), |place| {
        let (mut one, mut other) = (place.client(true), place.client(false));
        let mut random = Random(3);
        for round in 0..400_u64 {
            let byte = 8 + (round % 200) as u8;
            let blocks = 1 + random.below(4);
            let (at, length) = (random.below(60) * BLOCK, blocks * BLOCK);
            let inner = 1 + random.below(length - 200);
            let whole = vec![byte; length as usize];
            let write_whole = |client: &mut Client<_>| client.send(PLAIN, at, length as u32, &whole);
            let write_ragged = |client: &mut Client<_>| client.send(PLAIN, at + inner, 150, &[7; 150]);
            // Either may come first.
            if round % 2 == 0 {
                write_whole(&mut one).expect("the server takes it");
                write_ragged(&mut other).expect("the server takes it");
            } else {
                write_ragged(&mut other).expect("the server takes it");
                write_whole(&mut one).expect("the server takes it");
            }
            for client in [&mut one, &mut other] {
                assert_eq!(client.next().expect("the server answers").1, Ok(()));
            }
            let found = one.call(Op::Read, at, length as u32, &[]).expect("a read");
            let (before, rest) = found.split_at(inner as usize);
            let (middle, after) = rest.split_at(150);
            assert!(before.iter().chain(after).all(|found| *found == byte), "round {round}");
            assert!(middle.iter().all(|found| *found == 7 || *found == byte), "round {round}");
        }
        exercise(&mut one, 4, 0, MIB, 5);
    });
}

#[test]
fn edges_that_cannot_be_read_are_an_error_and_hold_nobody_up() {
    serve("0", few_buffers(4), None, |place| {
        let mut client = place.client(true);
        for member in 0..3 {
            let file =
                std::fs::File::options().write(true).open(place.folder.join(format!("member-{member}")));
            file.expect("a member").set_len(MIB).expect("it becomes shorter");
        }
        // All into the same few blocks, so that they wait for each other; more in all than there are scratch buffers.
        for number in 0..60 {
            let at = 20 * MIB + number % 4 * 3 * BLOCK + 5;
            client.send(PLAIN, at, 9000, &[1; 9000]).expect("the server takes it");
        }
        while client.in_flight() > 0 {
            assert_eq!(client.next().expect("the server answers").1, Err(Errno::Io));
        }
        client.send(Op::Read, 20 * MIB, BLOCK as u32, &[]).expect("the server takes it");
        assert_eq!(client.next().expect("the server answers").1, Err(Errno::Io));
    });
}
