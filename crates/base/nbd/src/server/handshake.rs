//! The server's handshake: fixed newstyle.
//!
//! ```text
//! S greeting ─► C flags ─► C option ─► S replies ─► C option ... ─► GO or EXPORT_NAME: transmission
//!                             │  └─ STARTTLS: the world wraps the stream, then options from the start
//!                             └─ ABORT, a fault, or too much: close
//! ```
//! One message is handled per call, so that the world decides whether to read on while its replies wait. Data of an
//! option that is too long is skipped as it comes.
//!
//! If TLS is required, every option but `STARTTLS` and `ABORT` is answered with `TLS_REQD` until it is up (FORCEDTLS of
//! the document). If it is offered, a client that does not request it is served without encryption (SELECTIVETLS).
//! Everything negotiated before TLS is forgotten, and a client that sends more behind `STARTTLS` without waiting for
//! the answer is cut off: an attacker in between could have inserted plain bytes that would count as sent under TLS.
//!
//! Invariant: a client that does not reach the transmission costs at most [`OPTIONS_MAX`] replies, each a bounded
//! multiple of the list of exports, and no more memory than its own option.

use crate::export::{Export, Exports, STRING_BYTES_MAX, TransmissionFlags};
use crate::wire::{
    EXPORT_NAME_ZEROES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Fields, GREETING_BYTES, INIT_PASSWD,
    MESSAGE_BYTES_MAX, OPTION_HEADER_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, info, option, reply,
};

/// Options that a client may send; one more closes the connection.
pub const OPTIONS_MAX: u32 = 64;
/// Longest data of an option that is looked at, in bytes; longer ones are answered with `TOO_BIG`.
pub const OPTION_BYTES_MAX: u32 = (MESSAGE_BYTES_MAX - OPTION_HEADER_BYTES) as u32;
/// Longest data of an option that is skipped, in bytes; a longer one closes the connection.
pub const SKIPPED_BYTES_MAX: u32 = 256 << 10;
/// The one metadata context that is served.
const ALLOCATION: &[u8] = b"base:allocation";
/// Its number on the wire.
pub(super) const ALLOCATION_ID: u32 = 1;

/// Whether a connection is to be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTls {
    /// The world can't, or the stream needs none (a Unix socket).
    NotAvailable,
    /// As the client likes.
    Offered,
    /// Nothing is said without.
    Required,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAgreement {
    /// The export's place in [`Exports`].
    pub export: usize,
    /// Replies to reads are structured.
    pub structured: bool,
    /// `base:allocation` was selected, for block status.
    pub allocation: bool,
}

/// What a client did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientFault {
    /// It sent flags that were not offered.
    #[error("the client sent unknown flags {0:#x}")]
    Flags(u32),
    /// What came is no option.
    #[error("the client sent something that is no option")]
    OptionMagic,
    /// It haggles without end.
    #[error("the client sent more than {OPTIONS_MAX} options")]
    TooManyOptions,
    /// An option was far too long.
    #[error("the client sent an option with {0} bytes of data")]
    OptionTooLong(u32),
    /// It asked by `EXPORT_NAME`, which can't be answered with an error, for what it can't have.
    #[error("the client asked for an export that is not there, or not without TLS")]
    ExportName,
    /// It sent something behind `STARTTLS` before TLS was up.
    #[error("the client sent {0} bytes in the clear behind its wish for TLS")]
    BytesBeforeTls(usize),
    /// It does not speak fixed newstyle and sent another option.
    #[error("the client sent option {0} without fixed newstyle")]
    NotFixed(u32),
    /// What came is no request.
    #[error("the client sent something that is no request")]
    RequestMagic,
    /// A write was longer than anyone may send.
    #[error("the client sent a write of {0} bytes")]
    WriteTooLong(u32),
    /// Not its fault: a read failed after its simple reply had begun, which can't be said.
    #[error("a read failed after its reply had begun")]
    ReadFailed,
}

/// What the world is to do after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// Bring more bytes.
    More,
    /// Send the replies, then go on with the rest of the bytes.
    Continue,
    /// Send the replies, put TLS on the stream, and call [`ServerHandshake::handle_tls_up`]. All bytes that were given
    /// are used; those that come next are TLS's.
    StartTls,
    /// Send the replies; requests come next.
    Transmit(ServerAgreement),
    /// Send the replies, then close: the client wants to go.
    Aborted,
    /// Close at once.
    Fault(ClientFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    ClientFlags,
    Options,
    /// Data of an option that was too long is skipped, then answered.
    Skipping {
        option: u32,
        left: u32,
        answer: Refusal,
    },
    Tls,
    Over(ServerStep),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    NotAvailable,
    Offered,
    Required,
    Up,
}

/// A handshake on the server's side.
#[derive(Clone, Debug)]
pub struct ServerHandshake {
    stage: Stage,
    tls: Tls,
    client_flags: u16,
    options_left: u32,
    structured: bool,
    /// The export for which `base:allocation` was selected.
    allocation: Option<usize>,
    /// Why every option is refused.
    refused: Option<&'static str>,
}

impl ServerHandshake {
    /// Begins a handshake and appends the greeting to `replies`.
    pub fn new(tls: ServerTls, replies: &mut Vec<u8>) -> Self {
        let start = replies.len();
        replies.extend_from_slice(&INIT_PASSWD.to_be_bytes());
        replies.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        replies.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        debug_assert_eq!(replies.len() - start, GREETING_BYTES);
        Self {
            stage: Stage::ClientFlags,
            tls: match tls {
                ServerTls::NotAvailable => Tls::NotAvailable,
                ServerTls::Offered => Tls::Offered,
                ServerTls::Required => Tls::Required,
            },
            client_flags: 0,
            options_left: OPTIONS_MAX,
            structured: false,
            allocation: None,
            refused: None,
        }
    }

    /// From here on refuses every option with this text, if there is one, because there is no place for the client. TLS can
    /// still be started: who the client is may make a difference.
    pub const fn set_refused(&mut self, why: Option<&'static str>) {
        self.refused = why;
    }

    /// Takes in bytes from the client, one message at most, and appends replies. Returns how many bytes it used
    /// and what comes next; unused bytes are to be given again, with more behind them.
    ///
    /// After [`ServerStep::Transmit`], [`ServerStep::Aborted`] and [`ServerStep::Fault`] it says the same again.
    pub fn handle_bytes(
        &mut self,
        exports: &Exports,
        input: &[u8],
        replies: &mut Vec<u8>,
    ) -> (usize, ServerStep) {
        let (used, step) = match self.stage {
            Stage::ClientFlags => self.take_client_flags(input),
            Stage::Options => self.take_option(exports, input, replies),
            Stage::Skipping { option, left, answer } => {
                let used = input.len().min(left as usize);
                let left = left - used as u32;
                if left > 0 {
                    self.stage = Stage::Skipping { option, left, answer };
                    return (used, ServerStep::More);
                }
                self.stage = Stage::Options;
                put_reply(replies, option, answer.0, &[answer.1.as_bytes()]);
                (used, ServerStep::Continue)
            }
            Stage::Tls => (0, ServerStep::StartTls),
            Stage::Over(step) => (0, step),
        };
        if matches!(step, ServerStep::Transmit(_) | ServerStep::Aborted | ServerStep::Fault(_)) {
            self.stage = Stage::Over(step);
        }
        (used, step)
    }

    /// TLS is up; what comes from here on has passed through it. Must follow [`ServerStep::StartTls`].
    ///
    /// # Panics
    /// If TLS was not asked for.
    pub fn handle_tls_up(&mut self) {
        assert_eq!(self.stage, Stage::Tls, "TLS came up unasked");
        self.stage = Stage::Options;
        self.tls = Tls::Up;
        self.structured = false;
        self.allocation = None;
    }

    fn take_client_flags(&mut self, input: &[u8]) -> (usize, ServerStep) {
        let mut fields = Fields::new(input);
        let Some(flags) = fields.u32() else { return (0, ServerStep::More) };
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !known != 0 {
            return (0, ServerStep::Fault(ClientFault::Flags(flags)));
        }
        self.client_flags = flags as u16;
        self.stage = Stage::Options;
        (4, ServerStep::Continue)
    }

    fn take_option(&mut self, exports: &Exports, input: &[u8], replies: &mut Vec<u8>) -> (usize, ServerStep) {
        let mut fields = Fields::new(input);
        let (Some(magic), Some(option), Some(length)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return (0, ServerStep::More);
        };
        if magic != OPTION_MAGIC {
            return (0, ServerStep::Fault(ClientFault::OptionMagic));
        }
        if self.client_flags & FLAG_FIXED_NEWSTYLE == 0 && option != option::EXPORT_NAME {
            return (0, ServerStep::Fault(ClientFault::NotFixed(option)));
        }
        let too_long = length > OPTION_BYTES_MAX;
        if length > SKIPPED_BYTES_MAX || (too_long && option == option::EXPORT_NAME) {
            return (0, ServerStep::Fault(ClientFault::OptionTooLong(length)));
        }
        if option == option::ABORT {
            put_reply(replies, option, reply::ACK, &[]);
            return (OPTION_HEADER_BYTES, ServerStep::Aborted);
        }
        let data = fields.take(length as usize);
        if data.is_none() && !too_long {
            return (0, ServerStep::More);
        }
        let Some(options_left) = self.options_left.checked_sub(1) else {
            return (0, ServerStep::Fault(ClientFault::TooManyOptions));
        };
        self.options_left = options_left;
        match data {
            Some(data) if !too_long => {
                let step = self.answer(exports, option, data, replies);
                match fields.rest().len() {
                    behind @ 1.. if step == ServerStep::StartTls => {
                        (0, ServerStep::Fault(ClientFault::BytesBeforeTls(behind)))
                    }
                    _ => (OPTION_HEADER_BYTES + data.len(), step),
                }
            }
            _ => {
                let answer = self.refusal(option).unwrap_or((reply::ERR_TOO_BIG, "too much data"));
                self.stage = Stage::Skipping { option, left: length, answer };
                (OPTION_HEADER_BYTES, ServerStep::Continue)
            }
        }
    }

    /// The error that an option gets whatever its data, if any.
    fn refusal(&self, option: u32) -> Option<Refusal> {
        match (option, self.refused) {
            (option::STARTTLS | option::EXPORT_NAME, _) => None,
            _ if self.tls == Tls::Required => Some((reply::ERR_TLS_REQD, "TLS is required here")),
            (_, Some(why)) => Some((reply::ERR_POLICY, why)),
            (
                option::LIST
                | option::INFO
                | option::GO
                | option::STRUCTURED_REPLY
                | option::LIST_META_CONTEXT
                | option::SET_META_CONTEXT,
                None,
            ) => None,
            _ => Some((reply::ERR_UNSUP, "unknown option")),
        }
    }

    fn answer(&mut self, exports: &Exports, option: u32, data: &[u8], replies: &mut Vec<u8>) -> ServerStep {
        if let Some((error, text)) = self.refusal(option) {
            put_reply(replies, option, error, &[text.as_bytes()]);
            return ServerStep::Continue;
        }
        let result = match option {
            option::EXPORT_NAME => return self.export_name(exports, data, replies),
            option::STARTTLS => match self.start_tls(data) {
                Ok(()) => {
                    put_reply(replies, option, reply::ACK, &[]);
                    self.stage = Stage::Tls;
                    return ServerStep::StartTls;
                }
                Err(error) => Err(error),
            },
            option::GO | option::INFO => match self.info(exports, option, data, replies) {
                Ok(export) if option == option::GO => {
                    put_reply(replies, option, reply::ACK, &[]);
                    return ServerStep::Transmit(self.agreement(export));
                }
                result => result.map(|_| ()),
            },
            option::LIST => list(exports, data, replies),
            option::STRUCTURED_REPLY if !data.is_empty() => Err(INVALID),
            option::STRUCTURED_REPLY => {
                self.structured = true;
                Ok(())
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(exports, option, data, replies)
            }
            _ => unreachable!("option {option} was refused above"),
        };
        match result {
            Ok(()) => put_reply(replies, option, reply::ACK, &[]),
            Err((error, text)) => put_reply(replies, option, error, &[text.as_bytes()]),
        }
        ServerStep::Continue
    }

    fn start_tls(&self, data: &[u8]) -> Result<(), Refusal> {
        match self.tls {
            Tls::NotAvailable => Err((reply::ERR_UNSUP, "TLS is not available here")),
            Tls::Up => Err((reply::ERR_INVALID, "TLS is up already")),
            Tls::Offered | Tls::Required if !data.is_empty() => Err(INVALID),
            Tls::Offered | Tls::Required => Ok(()),
        }
    }

    fn export_name(&self, exports: &Exports, name: &[u8], replies: &mut Vec<u8>) -> ServerStep {
        let welcome = self.tls != Tls::Required && self.refused.is_none();
        let found = welcome.then(|| exports.find(name)).flatten();
        let Some(place) = found else { return ServerStep::Fault(ClientFault::ExportName) };
        let export = exports.get(place);
        replies.extend_from_slice(&export.size_bytes.to_be_bytes());
        replies.extend_from_slice(&self.flags(export).bits().to_be_bytes());
        if self.client_flags & FLAG_NO_ZEROES == 0 {
            replies.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        ServerStep::Transmit(self.agreement(place))
    }

    fn agreement(&self, export: usize) -> ServerAgreement {
        let allocation = self.structured && self.allocation == Some(export);
        ServerAgreement { export, structured: self.structured, allocation }
    }

    fn flags(&self, export: &Export) -> TransmissionFlags {
        let flags = export.flags | TransmissionFlags::HAS_FLAGS;
        if self.structured { flags | TransmissionFlags::SEND_DF } else { flags }
    }

    fn info(
        &self,
        exports: &Exports,
        option: u32,
        data: &[u8],
        replies: &mut Vec<u8>,
    ) -> Result<usize, Refusal> {
        let (name, wanted) = info_request(data).ok_or(INVALID)?;
        let place = exports.find(name).ok_or(UNKNOWN)?;
        let export = exports.get(place);
        let mut put = |kind: u16, parts: [&[u8]; 3]| {
            put_reply(replies, option, reply::INFO, &[&kind.to_be_bytes(), parts[0], parts[1], parts[2]]);
        };
        let flags = self.flags(export).bits().to_be_bytes();
        put(info::EXPORT, [&export.size_bytes.to_be_bytes(), &flags, &[]]);
        // Told unasked, too: who understands it keeps to it, and the others get an error where they do not.
        let sizes = export.block_sizes;
        let sizes = [sizes.minimum(), sizes.preferred(), sizes.payload_max()].map(u32::to_be_bytes);
        put(info::BLOCK_SIZE, [&sizes[0], &sizes[1], &sizes[2]]);
        if wants(wanted, info::NAME) {
            put(info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if wants(wanted, info::DESCRIPTION) && !export.description.is_empty() {
            put(info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        Ok(place)
    }

    fn meta_context(
        &mut self,
        exports: &Exports,
        option: u32,
        data: &[u8],
        replies: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let setting = option == option::SET_META_CONTEXT;
        if setting {
            self.allocation = None;
        }
        if !self.structured {
            return Err((reply::ERR_INVALID, "structured replies come first"));
        }
        let (name, queries, asked) = meta_queries(data).ok_or(INVALID)?;
        let place = exports.find(name).ok_or(UNKNOWN)?;
        let listed = !setting && (queries == 0 || asked.wildcard);
        if asked.allocation || listed {
            let id = if setting { ALLOCATION_ID } else { 0 };
            put_reply(replies, option, reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION]);
        }
        if setting {
            self.allocation = asked.allocation.then_some(place);
        }
        Ok(())
    }
}

/// The error of a reply and what people read.
type Refusal = (u32, &'static str);
const INVALID: Refusal = (reply::ERR_INVALID, "the option's data is not as it should be");
const UNKNOWN: Refusal = (reply::ERR_UNKNOWN, "there is no such export");

fn put_reply(replies: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    replies.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    replies.extend_from_slice(&option.to_be_bytes());
    replies.extend_from_slice(&kind.to_be_bytes());
    replies.extend_from_slice(&(length as u32).to_be_bytes());
    for part in parts {
        replies.extend_from_slice(part);
    }
}

fn list(exports: &Exports, data: &[u8], replies: &mut Vec<u8>) -> Result<(), Refusal> {
    if !data.is_empty() {
        return Err(INVALID);
    }
    for export in exports.iter() {
        let (name, description) = (export.name.as_bytes(), export.description.as_bytes());
        let length = (name.len() as u32).to_be_bytes();
        put_reply(replies, option::LIST, reply::SERVER, &[&length, name, description]);
    }
    Ok(())
}

/// The name and the list of wanted items, 2 bytes each.
fn info_request(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = Fields::new(data);
    let name = string(fields.counted()?)?;
    let count = fields.u16()?;
    let wanted = fields.take(usize::from(count) * 2)?;
    fields.rest().is_empty().then_some((name, wanted))
}

fn wants(wanted: &[u8], kind: u16) -> bool {
    wanted.chunks_exact(2).any(|item| item == kind.to_be_bytes())
}

#[derive(Default)]
struct Asked {
    allocation: bool,
    wildcard: bool,
}

/// The export's name, how many queries there are, and what they match.
fn meta_queries(data: &[u8]) -> Option<(&[u8], u32, Asked)> {
    let mut fields = Fields::new(data);
    let name = string(fields.counted()?)?;
    let queries = fields.u32()?;
    let mut asked = Asked::default();
    for _ in 0..queries {
        let query = string(fields.counted()?)?;
        asked.allocation |= query == ALLOCATION;
        asked.wildcard |= query == b"base:";
    }
    fields.rest().is_empty().then_some((name, queries, asked))
}

fn string(bytes: &[u8]) -> Option<&[u8]> {
    let text = core::str::from_utf8(bytes).ok()?;
    (bytes.len() <= STRING_BYTES_MAX && !text.contains('\0')).then_some(bytes)
}
