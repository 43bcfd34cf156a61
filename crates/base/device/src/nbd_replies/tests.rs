//! Streams of replies, right and wrong, cut anywhere, received into the inbox and into memory.

use super::*;
use raidlab_nbd::{BlockSizes, ClientAgreement, ClientRequest, Op, TransmissionFlags};

/// Requests by their tags: two reads, a flush and a read that fails. Cookies are `1 << 32` and the tag.
const REQUESTS: [(Op, u64, u32); 4] =
    [(Op::Read, 4096, 8192), (Op::Read, 65_536, 512), (Op::Flush, 0, 0), (Op::Read, 0, 1024)];
/// What memory holds where nothing was put.
const OLD: u8 = 0xee;
/// A byte of what is read.
const NEW: u8 = 7;

fn transmission(structured: bool) -> ClientTransmission {
    let (flags, block_sizes) = (TransmissionFlags::SEND_FLUSH, BlockSizes::CLIENT_DEFAULT);
    let agreement = ClientAgreement { size_bytes: 1 << 20, flags, block_sizes, structured };
    let mut transmission = ClientTransmission::new(agreement, REQUESTS.len() as u16);
    for (tag, (op, offset, length)) in REQUESTS.into_iter().enumerate() {
        transmission.submit(ClientRequest { op, offset, length }, tag as u64).expect("it fits");
    }
    transmission
}

fn replies(direct_bytes_min: u32, unread: &[u8]) -> NbdReplies {
    NbdReplies::new(NbdReceiveOptions { inbox_bytes: MESSAGE_BYTES_MAX, direct_bytes_min }, unread)
}

/// Memory of the requests, and how much of it came through an inbox.
struct Memory {
    reads: [Vec<u8>; 4],
    copied: usize,
}

impl Memory {
    fn new() -> Self {
        Self { reads: REQUESTS.map(|(_, _, length)| vec![OLD; length as usize]), copied: 0 }
    }
}

impl NbdMemory for Memory {
    fn put(&mut self, tag: u64, at: u32, bytes: &[u8]) {
        self.reads[tag as usize].put(tag, at, bytes);
        self.copied += bytes.len();
    }

    fn zero(&mut self, tag: u64, at: u32, length: u32) {
        self.reads[tag as usize].zero(tag, at, length);
    }
}

fn simple(error: u32, tag: u64) -> Vec<u8> {
    let cookie = (1 << 32 | tag).to_be_bytes();
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie].concat()
}

fn chunk(done: bool, kind: u16, tag: u64, body: &[&[u8]]) -> Vec<u8> {
    let (body, cookie) = (body.concat(), (1 << 32 | tag).to_be_bytes());
    let [flags, kind] = [u16::from(done), kind].map(u16::to_be_bytes);
    let length = (body.len() as u32).to_be_bytes();
    [&0x668e_33ef_u32.to_be_bytes()[..], &flags, &kind, &cookie, &length, &body].concat()
}

fn data(done: bool, tag: u64, offset: u64, bytes: usize) -> Vec<u8> {
    chunk(done, 1, tag, &[&offset.to_be_bytes(), &vec![NEW; bytes]])
}

/// Takes in a stream that comes in pieces of at most `cut` bytes.
fn take_in(
    replies: &mut NbdReplies,
    structured: bool,
    mut stream: &[u8],
    cut: usize,
) -> (Memory, Vec<NbdEnd>, Option<ServerFault>) {
    let (mut transmission, mut memory, mut ends) = (transmission(structured), Memory::new(), Vec::new());
    loop {
        match replies.poll_end(&mut transmission, &mut memory) {
            Ok(Some(end)) => {
                ends.push(end);
                continue;
            }
            Ok(None) if stream.is_empty() => return (memory, ends, None),
            Ok(None) => {}
            Err(fault) => {
                assert_eq!(replies.poll_end(&mut transmission, &mut memory), Err(fault.clone()));
                return (memory, ends, Some(fault));
            }
        }
        let target = match replies.place() {
            NbdPlace::Inbox(room) => room,
            NbdPlace::Memory(NbdFilling { tag, at, missing }) => {
                &mut memory.reads[tag as usize][at as usize..][..missing as usize]
            }
        };
        let (now, later) = stream.split_at(cut.min(target.len()).min(stream.len()));
        target[..now.len()].copy_from_slice(now);
        replies.received(now.len() as u32);
        stream = later;
    }
}

/// Replies to all requests: the flush first, the long read in two parts and a hole.
fn all_replies(structured: bool) -> Vec<u8> {
    if !structured {
        let first = [simple(0, 2), simple(0, 0), vec![NEW; 8192]].concat();
        return [first, simple(5, 3), simple(0, 1), vec![NEW; 512]].concat();
    }
    let hole = chunk(false, 2, 0, &[&8192_u64.to_be_bytes(), &1024_u32.to_be_bytes()]);
    let parts = [data(false, 0, 9216, 3072), hole, data(false, 1, 65_536, 512), data(true, 0, 4096, 4096)];
    let why = chunk(true, 0x8001, 3, &[&5_u32.to_be_bytes(), &[0, 3], b"bad"]);
    [simple(0, 2), parts.concat(), why, chunk(true, 0, 1, &[])].concat()
}

#[test]
fn every_byte_lands_in_its_place_however_the_stream_is_cut() {
    for structured in [false, true] {
        let stream = all_replies(structured);
        for direct_bytes_min in [1, 600, u32::MAX] {
            for cut in [1, 13, 28, 5000, usize::MAX] {
                let mut replies = replies(direct_bytes_min, &[]);
                let (memory, ends, fault) = take_in(&mut replies, structured, &stream, cut);
                let case = (structured, direct_bytes_min, cut);
                let result = |tag| if tag == 3 { Err(raidlab_nbd::Errno::Io) } else { Ok(()) };
                assert_eq!(ends, [2, 0, 3, 1].map(|tag| NbdEnd { tag, result: result(tag) }), "{case:?}");
                let mut long = vec![NEW; 8192];
                long[4096..5120].fill(if structured { 0 } else { NEW });
                let expected = [long, vec![NEW; 512], vec![], vec![OLD; 1024]];
                assert!(memory.reads == expected && fault.is_none(), "{case:?}");
                let payload = if structured { 7168 + 512 } else { 8192 + 512 };
                match (direct_bytes_min, cut) {
                    (u32::MAX, _) => assert_eq!(memory.copied, payload, "{case:?}"),
                    (1, 1) => assert_eq!(memory.copied, 0, "{case:?}"),
                    _ => assert!(memory.copied <= payload, "{case:?}"),
                }
            }
        }
    }
}

#[test]
fn a_server_at_fault_is_found_out_and_writes_nowhere_else() {
    use ServerFault::{Incomplete, Range, Reply, ReplyMagic, UnknownCookie};
    let rows = [
        (false, vec![0x42; 64], ReplyMagic),
        (false, [simple(0, 1), vec![NEW; 516]].concat(), ReplyMagic),
        (false, simple(0, 4), UnknownCookie(1 << 32 | 4)),
        (false, [simple(0, 2), simple(0, 2)].concat(), UnknownCookie(1 << 32 | 2)),
        (true, data(true, 1, 65_536, 513), Range { offset: 65_536, length: 513 }),
        (true, data(true, 1, 65_535, 1), Range { offset: 65_535, length: 1 }),
        (true, data(false, 1, 65_536, 512).repeat(2), Range { offset: 65_536, length: 512 }),
        (true, data(true, 1, 65_536, 511), Incomplete),
        (true, data(true, 2, 0, 1), Reply { what: "data for a request that is no read" }),
    ];
    for (structured, stream, expected) in rows {
        for cut in [1, 28, usize::MAX] {
            for behind in [&[][..], &[NEW; 100]] {
                let mut replies = replies(1, &[]);
                let stream = [&stream, behind].concat();
                let (memory, _, fault) = take_in(&mut replies, structured, &stream, cut);
                assert_eq!(fault.as_ref(), Some(&expected), "{cut}");
                assert!([0, 3].iter().all(|tag| memory.reads[*tag].iter().all(|byte| *byte == OLD)));
            }
        }
    }
}

#[test]
fn what_came_before_is_taken_in_first() {
    let (early, late) = (&all_replies(true)[..3000], &all_replies(true)[3000..]);
    let mut replies = replies(1, early);
    assert_eq!(replies.unread(), early);
    assert_eq!(take_in(&mut replies, true, late, usize::MAX).1.len(), 4);
    assert!(replies.unread().is_empty() && !replies.is_filling() && !replies.is_receiving());
}

/// A send that ends meanwhile makes the owner ask for ends, too.
#[test]
fn memory_that_is_received_into_is_left_alone() {
    struct Untouched;
    impl NbdMemory for Untouched {
        fn put(&mut self, _: u64, _: u32, _: &[u8]) {
            panic!("put while a receive is under way");
        }

        fn zero(&mut self, _: u64, _: u32, _: u32) {
            panic!("zeros while a receive is under way");
        }
    }
    let (mut replies, mut transmission) = (replies(1, &simple(0, 0)), transmission(false));
    assert_eq!(replies.poll_end(&mut transmission, &mut Untouched), Ok(None), "no byte of the payload");
    let missing = |at| NbdFilling { tag: 0, at, missing: 8192 - at };
    for (at, bytes) in [(0, 0), (0, 100), (100, 0), (100, 8000)] {
        let NbdPlace::Memory(filling) = replies.place() else { panic!("payload goes to its memory") };
        assert_eq!(filling, missing(at));
        assert_eq!(replies.poll_end(&mut transmission, &mut Untouched), Ok(None));
        replies.received(bytes);
        assert!(!replies.is_receiving() && replies.is_filling());
    }
}
