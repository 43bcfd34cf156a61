//! The server's answers to options, byte by byte, as the document defines them.

use raidlab_nbd::{
    BlockSizes, ClientFault, Export, Exports, OPTION_BYTES_MAX, OPTIONS_MAX, SKIPPED_BYTES_MAX,
    ServerAgreement, ServerHandshake, ServerStep, ServerTls, TransmissionFlags,
};

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;
const EXTENDED_HEADERS: u32 = 11;

const ACK: u32 = 1;
const ERR_UNSUP: u32 = (1 << 31) + 1;
const ERR_POLICY: u32 = (1 << 31) + 2;
const ERR_INVALID: u32 = (1 << 31) + 3;
const ERR_TLS_REQD: u32 = (1 << 31) + 5;
const ERR_UNKNOWN: u32 = (1 << 31) + 6;
const ERR_TOO_BIG: u32 = (1 << 31) + 9;

fn exports() -> Exports {
    let export = |name: &str, description: &str| Export {
        name: name.into(),
        description: description.into(),
        size_bytes: 1 << 30,
        block_sizes: BlockSizes::new(512, 4096, 1 << 25).expect("allowed"),
        flags: TransmissionFlags::SEND_FLUSH,
    };
    Exports::new(vec![export("a", "first"), export("b", "")]).expect("allowed")
}

/// A client that sends one option after the other.
struct Talk {
    exports: Exports,
    server: ServerHandshake,
}

impl Talk {
    fn new(tls: ServerTls, flags: u32) -> Self {
        let mut greeting = Vec::new();
        let mut server = ServerHandshake::new(tls, &mut greeting);
        assert_eq!(greeting, *b"NBDMAGICIHAVEOPT\0\x03");
        let exports = exports();
        let answer = server.handle_bytes(&exports, &flags.to_be_bytes(), &mut Vec::new());
        assert_eq!(answer, (4, ServerStep::Continue));
        Self { exports, server }
    }

    fn say(&mut self, option: u32, data: &[u8]) -> (ServerStep, Vec<u8>) {
        let mut message = b"IHAVEOPT".to_vec();
        message.extend(option.to_be_bytes());
        message.extend((data.len() as u32).to_be_bytes());
        message.extend_from_slice(data);
        let mut replies = Vec::new();
        let (used, step) = self.server.handle_bytes(&self.exports, &message, &mut replies);
        if used < message.len() && step == ServerStep::Continue {
            let rest = &message[used..];
            let (used, step) = self.server.handle_bytes(&self.exports, rest, &mut replies);
            assert_eq!(used, rest.len());
            return (step, replies);
        }
        (step, replies)
    }

    /// Says an option and returns the kinds and data of the replies.
    fn ask(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let (_, replies) = self.say(option, data);
        let (mut rest, mut found) = (&replies[..], Vec::new());
        while !rest.is_empty() {
            assert_eq!(rest[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
            assert_eq!(rest[8..12], option.to_be_bytes());
            let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
            let end = 20 + number(16) as usize;
            found.push((number(12), rest[20..end].to_vec()));
            rest = &rest[end..];
        }
        found
    }

    /// The kind of the last reply.
    fn last(&mut self, option: u32, data: &[u8]) -> u32 {
        self.ask(option, data).last().expect("a reply").0
    }
}

fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes(), name.as_bytes(), rest].concat()
}

fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let all: Vec<u8> = queries.iter().flat_map(|query| named(query, &[])).collect();
    named(name, &[&(queries.len() as u32).to_be_bytes(), &all[..]].concat())
}

#[test]
fn exports_are_listed() {
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    let expected = vec![(2, named("a", b"first")), (2, named("b", b"")), (ACK, vec![])];
    assert_eq!(talk.ask(LIST, &[]), expected);
    assert_eq!(talk.last(LIST, &[0]), ERR_INVALID);
}

#[test]
fn information_is_what_was_asked_for_and_the_block_sizes() {
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    let size = [&[0, 0][..], &(1_u64 << 30).to_be_bytes(), &[0, 0b101]].concat();
    let blocks = [&[0, 3][..], &[0, 0, 2, 0], &[0, 0, 16, 0], &[2, 0, 0, 0]].concat();
    let plain = vec![(3, size), (3, blocks), (ACK, vec![])];
    assert_eq!(talk.ask(INFO, &named("a", &[0, 0])), plain);
    let mut full = plain.clone();
    full.insert(2, (3, b"\0\x01a".to_vec()));
    full.insert(3, (3, b"\0\x02first".to_vec()));
    assert_eq!(talk.ask(INFO, &named("", &[0, 3, 0, 2, 0, 1, 0, 9])), full);
    assert_eq!(talk.last(INFO, &named("c", &[0, 0])), ERR_UNKNOWN);
    for wrong in [&b""[..], &named("a", &[]), &named("a", &[0, 1]), &named("a", &[0, 0, 0]), &[0xff; 6]] {
        assert_eq!(talk.last(INFO, wrong), ERR_INVALID, "{wrong:?}");
    }
    let (step, replies) = talk.say(GO, &named("b", &[0, 0]));
    let agreement = ServerAgreement { export: 1, structured: false, allocation: false };
    assert_eq!(step, ServerStep::Transmit(agreement));
    assert_eq!(replies.len(), 20 + 12 + 20 + 14 + 20);
}

#[test]
fn the_old_way_to_an_export() {
    for (flags, length) in [(0, 134), (1, 134), (2, 10), (3, 10)] {
        let (step, replies) = Talk::new(ServerTls::NotAvailable, flags).say(EXPORT_NAME, b"b");
        let agreement = ServerAgreement { export: 1, structured: false, allocation: false };
        assert_eq!(step, ServerStep::Transmit(agreement));
        assert_eq!(replies.len(), length);
        assert_eq!(replies[..10], [&(1_u64 << 30).to_be_bytes()[..], &[0, 0b101]].concat());
    }
    let fault = ServerStep::Fault(ClientFault::ExportName);
    assert_eq!(Talk::new(ServerTls::NotAvailable, 3).say(EXPORT_NAME, b"c"), (fault, vec![]));
    assert_eq!(Talk::new(ServerTls::Required, 3).say(EXPORT_NAME, b"a"), (fault, vec![]));
    let fault = ServerStep::Fault(ClientFault::NotFixed(LIST));
    assert_eq!(Talk::new(ServerTls::NotAvailable, 2).say(LIST, &[]), (fault, vec![]));
}

#[test]
fn contexts_are_of_the_export_they_were_set_for() {
    let allocation = |id: u8| (4, [&[0, 0, 0, id], &b"base:allocation"[..]].concat());
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    assert_eq!(talk.last(SET_META_CONTEXT, &queries("a", &["base:allocation"])), ERR_INVALID);
    assert_eq!(talk.last(STRUCTURED_REPLY, &[1]), ERR_INVALID);
    assert_eq!(talk.last(STRUCTURED_REPLY, &[]), ACK);
    for (wanted, found) in [(&[][..], true), (&["base:"], true), (&["x-a:b"], false), (&["base:none"], false)]
    {
        let expected = if found { vec![allocation(0), (ACK, vec![])] } else { vec![(ACK, vec![])] };
        assert_eq!(talk.ask(LIST_META_CONTEXT, &queries("a", wanted)), expected, "{wanted:?}");
        let expected = vec![(ACK, vec![])];
        assert_eq!(talk.ask(SET_META_CONTEXT, &queries("a", wanted)), expected, "{wanted:?}");
    }
    let both = queries("a", &["x-a:b", "base:allocation"]);
    assert_eq!(talk.ask(SET_META_CONTEXT, &both), vec![allocation(1), (ACK, vec![])]);
    assert_eq!(talk.last(LIST_META_CONTEXT, &queries("c", &[])), ERR_UNKNOWN);
    assert_eq!(talk.last(LIST_META_CONTEXT, &queries("a", &["base:"])[..9]), ERR_INVALID);
    let agreed = |mut talk: Talk, name| match talk.say(GO, &named(name, &[0, 0])).0 {
        ServerStep::Transmit(agreement) => (agreement.export, agreement.structured, agreement.allocation),
        step => panic!("{step:?}"),
    };
    let copy = |talk: &Talk| Talk { exports: exports(), server: talk.server.clone() };
    assert_eq!(agreed(copy(&talk), "a"), (0, true, true));
    assert_eq!(agreed(copy(&talk), ""), (0, true, true));
    assert_eq!(agreed(copy(&talk), "b"), (1, true, false));
    assert_eq!(talk.last(SET_META_CONTEXT, &queries("c", &["base:allocation"])), ERR_UNKNOWN);
    assert_eq!(agreed(talk, "a"), (0, true, false), "a refused set selects nothing");
}

#[test]
fn reads_in_one_chunk_are_offered_with_structured_replies_only() {
    let flags = |talk: &mut Talk| talk.ask(INFO, &named("a", &[0, 0]))[0].1[11];
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    assert_eq!(flags(&mut talk), 0b101);
    assert_eq!(talk.last(STRUCTURED_REPLY, &[]), ACK);
    assert_eq!(flags(&mut talk), 0b1000_0101);
}

#[test]
fn without_tls_nothing_is_said_where_it_is_required() {
    let mut talk = Talk::new(ServerTls::Required, 3);
    for option in
        [LIST, INFO, GO, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT, EXTENDED_HEADERS, 99]
    {
        assert_eq!(talk.last(option, &[]), ERR_TLS_REQD, "option {option}");
    }
    assert_eq!(talk.last(LIST, &vec![0; OPTION_BYTES_MAX as usize + 1]), ERR_TLS_REQD);
    assert_eq!(talk.last(STARTTLS, &[0]), ERR_INVALID);
    assert_eq!(talk.say(STARTTLS, &[]).0, ServerStep::StartTls);
    let waiting = talk.server.handle_bytes(&talk.exports, b"IHAVEOPT\0\0\0\x03\0\0\0\0", &mut Vec::new());
    assert_eq!(waiting, (0, ServerStep::StartTls), "nothing that came before TLS is listened to");
    talk.server.handle_tls_up();
    assert_eq!(talk.last(STARTTLS, &[]), ERR_INVALID);
    assert_eq!(talk.last(LIST, &[]), ACK);
    assert_eq!(Talk::new(ServerTls::NotAvailable, 3).last(STARTTLS, &[]), ERR_UNSUP);
}

#[test]
fn what_was_agreed_before_tls_is_forgotten() {
    let mut talk = Talk::new(ServerTls::Offered, 3);
    assert_eq!(talk.last(STRUCTURED_REPLY, &[]), ACK);
    assert_eq!(talk.last(SET_META_CONTEXT, &queries("a", &["base:allocation"])), ACK);
    assert_eq!(talk.say(STARTTLS, &[]).0, ServerStep::StartTls);
    talk.server.handle_tls_up();
    assert_eq!(talk.last(STARTTLS, &[]), ERR_INVALID);
    let agreement = ServerAgreement { export: 0, structured: false, allocation: false };
    assert_eq!(talk.say(GO, &named("a", &[0, 0])).0, ServerStep::Transmit(agreement));
}

#[test]
fn where_tls_is_offered_the_clear_is_served_too() {
    let mut talk = Talk::new(ServerTls::Offered, 3);
    let agreement = ServerAgreement { export: 1, structured: false, allocation: false };
    assert_eq!(talk.say(GO, &named("b", &[0, 0])).0, ServerStep::Transmit(agreement));
}

#[test]
fn words_put_in_behind_the_wish_for_tls_end_the_connection() {
    for tls in [ServerTls::Offered, ServerTls::Required] {
        let mut talk = Talk::new(tls, 3);
        let mut message = b"IHAVEOPT\0\0\0\x05\0\0\0\0".to_vec();
        message.extend(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
        let fault = ServerStep::Fault(ClientFault::BytesBeforeTls(16));
        let found = talk.server.handle_bytes(&talk.exports, &message, &mut Vec::new());
        assert_eq!(found, (0, fault));
        assert_eq!(talk.say(LIST, &[]).0, fault);
    }
}

#[test]
fn what_is_too_much_is_refused_or_ends_it() {
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    for option in [4, EXTENDED_HEADERS, 99, u32::MAX] {
        assert_eq!(talk.last(option, b"some data"), ERR_UNSUP);
        assert_eq!(talk.last(option, &vec![0; SKIPPED_BYTES_MAX as usize]), ERR_UNSUP);
    }
    assert_eq!(talk.last(INFO, &vec![0; OPTION_BYTES_MAX as usize + 1]), ERR_TOO_BIG);
    let mut header = b"IHAVEOPT\0\0\0\x63".to_vec();
    header.extend((SKIPPED_BYTES_MAX + 1).to_be_bytes());
    let answer = talk.server.clone().handle_bytes(&talk.exports, &header, &mut Vec::new());
    assert_eq!(answer, (0, ServerStep::Fault(ClientFault::OptionTooLong(SKIPPED_BYTES_MAX + 1))));
    let wrong = talk.server.clone().handle_bytes(&talk.exports, &[0; 16], &mut Vec::new());
    assert_eq!(wrong, (0, ServerStep::Fault(ClientFault::OptionMagic)));
    for _ in 9..OPTIONS_MAX {
        assert_eq!(talk.last(99, &[]), ERR_UNSUP);
    }
    assert_eq!(talk.say(99, &[]).0, ServerStep::Fault(ClientFault::TooManyOptions));
}

#[test]
fn a_client_may_go() {
    let (step, replies) = Talk::new(ServerTls::Required, 3).say(ABORT, b"ignored");
    assert_eq!((step, replies.len(), replies[15]), (ServerStep::Aborted, 20, ACK as u8));
}

#[test]
fn unknown_flags_end_it() {
    let mut server = ServerHandshake::new(ServerTls::NotAvailable, &mut Vec::new());
    let answer = server.handle_bytes(&exports(), &[0, 0, 0, 7], &mut Vec::new());
    assert_eq!(answer, (0, ServerStep::Fault(ClientFault::Flags(7))));
}

#[test]
fn a_client_without_a_place_is_told_so() {
    let mut talk = Talk::new(ServerTls::NotAvailable, 3);
    talk.server.set_refused(Some("full"));
    for option in [LIST, INFO, GO, STRUCTURED_REPLY, 99] {
        assert_eq!(talk.ask(option, &[]), vec![(ERR_POLICY, b"full".to_vec())]);
    }
    let fault = ServerStep::Fault(ClientFault::ExportName);
    assert_eq!(talk.say(EXPORT_NAME, b"a"), (fault, vec![]));
}
