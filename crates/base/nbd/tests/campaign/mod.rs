//! A campaign against both sides of the protocol: whole conversations, valid and damaged, and random bytes.
//!
//! ```text
//! seed ── case 0, 1, 2 ... ── draw what the case is:
//!   conversation   client ⇄ server, streams cut anywhere, pieces ended in any order: an oracle knows every byte
//!   faults         the same, and pieces fail: the right requests get the error, no others
//!   damaged        the same, and bytes are flipped, lost, doubled, made huge: no panic, no buffer lost
//!   haggling       options of all kinds, valid and broken, to the server: well-formed replies, one end each
//!   chatter        requests of all kinds, valid and broken: well-formed replies, one each
//!   garbage        random bytes to both sides at every stage
//! ```
//! `fuzz/kit` has the seeds, the cases and the counting.
//!
//! Not verified: time; the behaviour of sockets.

#![allow(dead_code, reason = "the test uses a part of it")]

mod client_world;
#[path = "../../../../../fuzz/kit/mod.rs"]
pub(crate) mod kit;
mod oracle;
mod raw;
mod server_world;
mod stream;

use client_world::ClientWorld;
use kit::{Campaign, Rng};
use oracle::Oracle;
use raidlab_nbd::{BlockSizes, ClientOptions, ClientTls, Export, Exports, ServerTls, TransmissionFlags};
use server_world::ServerWorld;
use std::ops::BitOr;
use stream::Pipe;

/// Steps after which a sane conversation must be over.
const STEPS_MAX: u32 = 400_000;

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Everything was done, and right.
    Conversation,
    /// The same over structured replies.
    Structured,
    /// The same after TLS.
    Encrypted,
    /// A request was answered with an error of its piece.
    RequestFailed,
    /// A read failed after its simple reply had begun.
    ReadCut,
    /// Damage, and the client found it out.
    ClientFault,
    /// Damage, and the server found it out.
    ServerFault,
    /// Damage that was survived or that left both waiting.
    Survived,
    /// Options were answered until one ended the handshake.
    Haggled,
    /// Requests were answered.
    Chattered,
    /// Bytes without sense.
    Garbage,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The campaign.
pub(crate) struct Conversations;

impl Campaign for Conversations {
    type Outcome = Outcome;

    const OUTCOMES: &'static [Outcome] = &[
        Outcome::Conversation,
        Outcome::Structured,
        Outcome::Encrypted,
        Outcome::RequestFailed,
        Outcome::ReadCut,
        Outcome::ClientFault,
        Outcome::ServerFault,
        Outcome::Survived,
        Outcome::Haggled,
        Outcome::Chattered,
        Outcome::Garbage,
    ];

    fn case(rng: &mut Rng<'_>, outcomes: &mut Vec<Outcome>) {
        outcomes.extend(match rng.below(8) {
            0 | 1 => conversation(rng, Knobs { damage_one_in: 0, fail_one_in: 0 }),
            2 => {
                let fail_one_in = 1 + rng.below(20);
                conversation(rng, Knobs { damage_one_in: 0, fail_one_in })
            }
            3 | 4 => {
                let damage_one_in = 1 + rng.below(60);
                conversation(rng, Knobs { damage_one_in, fail_one_in: 30 })
            }
            5 => raw::haggle(rng),
            6 => raw::chatter(rng),
            _ => raw::garbage(rng),
        });
    }
}

/// Runs the case that an input decides, and panics when it fails.
pub(crate) fn run_input(input: &[u8]) {
    Conversations::case(&mut Rng::from_input(input), &mut Vec::new());
}

/// What goes wrong in a case, once in so many times; 0 is never.
#[derive(Clone, Copy, Debug)]
struct Knobs {
    damage_one_in: u64,
    fail_one_in: u64,
}

/// An export of up to 2 MiB, and others beside it.
fn draw_exports(rng: &mut Rng<'_>) -> Exports {
    let minimum = rng.pick(&[1_u32, 512, 4096, 1 << 16]);
    let preferred = minimum.max(rng.pick(&[512, 4096, 1 << 16]));
    let payload_max = preferred.max(rng.pick(&[1 << 16, 300_000, 1 << 20, 1 << 25]));
    let block_sizes = BlockSizes::new(minimum, preferred, payload_max).expect("drawn to be allowed");
    let size_bytes = rng.below(2 << 20) / u64::from(minimum) * u64::from(minimum);
    let all = [
        TransmissionFlags::SEND_FLUSH,
        TransmissionFlags::SEND_FUA,
        TransmissionFlags::SEND_TRIM,
        TransmissionFlags::SEND_WRITE_ZEROES,
        TransmissionFlags::CAN_MULTI_CONN,
        TransmissionFlags::SEND_CACHE,
    ];
    let all = all.into_iter().fold(TransmissionFlags::default(), BitOr::bitor);
    let export = |name: &str, flags| Export {
        name: name.into(),
        description: format!("called {name}"),
        size_bytes,
        block_sizes,
        flags,
    };
    let flags =
        if rng.one_in(4) { TransmissionFlags::from_bits(rng.next() as u16 & all.bits()) } else { all };
    Exports::new(vec![export("", flags), export("other", all | TransmissionFlags::READ_ONLY)])
        .expect("drawn to be allowed")
}

fn conversation(rng: &mut Rng<'_>, knobs: Knobs) -> Vec<Outcome> {
    let exports = draw_exports(rng);
    let tls = rng.one_in(3);
    let (mut up, mut down) = (Pipe::new(knobs.damage_one_in), Pipe::new(knobs.damage_one_in));
    let (server_tls, client_tls) = if tls {
        (rng.pick(&[ServerTls::Offered, ServerTls::Required]), ClientTls::Required)
    } else {
        (rng.pick(&[ServerTls::NotAvailable, ServerTls::Offered]), ClientTls::Off)
    };
    let client_options = ClientOptions { tls: client_tls, structured: rng.one_in(2) };
    let mut oracle = Oracle::new(exports.get(0).size_bytes as usize);
    let mut server = ServerWorld::new(rng, &exports, server_tls, knobs.fail_one_in, &mut down);
    let mut client = ClientWorld::new(rng, client_options, knobs.damage_one_in == 0);
    for _ in 0..STEPS_MAX {
        server.step(rng, &mut up, &mut down, &mut oracle);
        oracle.trusted = !(up.damaged || down.damaged);
        client.step(rng, &mut down, &mut up, &mut oracle);
        oracle.trusted = !(up.damaged || down.damaged);
        if server.is_over() || client.fault().is_some() || client.is_over() && !oracle.trusted {
            break;
        }
        if knobs.damage_one_in > 0 && up.is_empty() && down.is_empty() && rng.one_in(2000) {
            break;
        }
    }
    server.end_all(rng, &mut oracle);
    let (server_fault, client_fault) = (server.fault(), client.fault());
    if !oracle.trusted {
        return vec![match (client_fault, server_fault) {
            (Some(_), _) => Outcome::ClientFault,
            (None, Some(_)) => Outcome::ServerFault,
            (None, None) => Outcome::Survived,
        }];
    }
    if server_fault == Some(raidlab_nbd::ClientFault::ReadFailed) {
        assert!(oracle.failures > 0, "a read was cut and nothing had failed");
        return vec![Outcome::ReadCut];
    }
    assert_eq!((server_fault, client_fault), (None, None), "a sane conversation ended with a fault");
    if knobs.damage_one_in > 0 && !client.is_over() {
        return vec![Outcome::Survived];
    }
    assert!(client.is_over() && server.is_over(), "the conversation does not end: {server:?} {client:?}");
    let mut outcomes = vec![Outcome::Conversation];
    outcomes.extend(client.structured().then_some(Outcome::Structured));
    outcomes.extend(tls.then_some(Outcome::Encrypted));
    outcomes.extend((oracle.errors > 0).then_some(Outcome::RequestFailed));
    outcomes
}
