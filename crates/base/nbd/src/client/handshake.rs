//! The client's handshake.
//!
//! ```text
//! greeting ─► flags ─► [STARTTLS ─► TLS] ─► STRUCTURED_REPLY ─► GO ─► transmission
//!                                                               └─ unknown: EXPORT_NAME
//! ```
//! `GO` asks for block sizes, so that the server may rely on them. A server that speaks newstyle without "fixed" gets
//! `EXPORT_NAME` at once. TLS is required or not used: optional TLS, which an attacker can downgrade, protects nobody.
//!
//! Invariant: one option is in flight at a time. No message is longer than [`MESSAGE_BYTES_MAX`], and at most
//! [`REPLIES_MAX`] are accepted, so a server can't hold a client here for ever.

use super::fault::{ServerFault, text};
use crate::export::{BlockSizes, STRING_BYTES_MAX, TransmissionFlags};
use crate::wire::{
    EXPORT_NAME_ZEROES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Fields, GREETING_BYTES, INIT_PASSWD,
    MESSAGE_BYTES_MAX, OPTION_MAGIC, OPTION_REPLY_HEADER_BYTES, OPTION_REPLY_MAGIC, info, option, reply,
};

/// Replies that a server may send in all.
const REPLIES_MAX: u32 = 256;
/// The second magic of oldstyle servers.
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Size and flags, the answer to `EXPORT_NAME`.
const EXPORT_ANSWER_BYTES: usize = 10;

/// Whether a connection is to be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTls {
    /// Not at all.
    Off,
    /// Nothing else is said without.
    Required,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Whether the connection is to be encrypted.
    pub tls: ClientTls,
    /// Ask for structured replies, so that reads may be answered in parts and fail in part.
    pub structured: bool,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAgreement {
    /// Length of the export in bytes.
    pub size_bytes: u64,
    /// What the export can do.
    pub flags: TransmissionFlags,
    /// Sizes that requests must keep to.
    pub block_sizes: BlockSizes,
    /// Replies to reads are structured.
    pub structured: bool,
}

/// What the world is to do after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Send what there is to send and bring more bytes.
    More,
    /// Put TLS on the stream, beginning with the rest of the bytes, and call [`ClientHandshake::handle_tls_up`].
    StartTls,
    /// Replies come next.
    Transmit(ClientAgreement),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    /// A reply to this option comes.
    Reply(u32),
    Tls,
    ExportAnswer,
    /// So many zeros come, then the transmission.
    Zeroes(usize),
    Over(ClientAgreement),
}

/// A handshake on the client's side.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    name: String,
    options: ClientOptions,
    stage: Stage,
    replies_left: u32,
    no_zeroes: bool,
    structured: bool,
    export: Option<(u64, TransmissionFlags)>,
    block_sizes: BlockSizes,
    fault: Option<ServerFault>,
}

impl ClientHandshake {
    /// Begins a handshake for the export called `name`, at most [`STRING_BYTES_MAX`] bytes without NUL (asserted; URIs
    /// keep to it). The server speaks first.
    ///
    /// # Panics
    /// If the name is longer than NBD allows or holds a zero byte.
    pub fn new(name: &str, options: ClientOptions) -> Self {
        assert!(name.len() <= STRING_BYTES_MAX && !name.contains('\0'), "'{name}' can't be said in NBD");
        Self {
            name: name.to_owned(),
            options,
            stage: Stage::Greeting,
            replies_left: REPLIES_MAX,
            no_zeroes: false,
            structured: false,
            export: None,
            block_sizes: BlockSizes::CLIENT_DEFAULT,
            fault: None,
        }
    }

    /// Takes in bytes from the server and appends what to send. Returns how many bytes it used and what comes
    /// next; unused ones are to be given again, with more behind them.
    ///
    /// # Errors
    /// [`ServerFault`] if this server can't be used; the same again afterwards.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, ClientStep), ServerFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let mut used = 0;
        loop {
            match self.stage {
                Stage::Tls => return Ok((used, ClientStep::StartTls)),
                Stage::Over(agreement) => return Ok((used, ClientStep::Transmit(agreement))),
                _ => {}
            }
            match self.take(&input[used..], output) {
                Ok(0) => return Ok((used, ClientStep::More)),
                Ok(taken) => used += taken,
                Err(fault) => {
                    self.fault = Some(fault.clone());
                    return Err(fault);
                }
            }
        }
    }

    /// TLS is up; what comes from here on has passed through it. Must follow [`ClientStep::StartTls`].
    ///
    /// # Panics
    /// If TLS was not asked for.
    pub fn handle_tls_up(&mut self, output: &mut Vec<u8>) {
        assert_eq!(self.stage, Stage::Tls, "TLS came up unasked");
        self.send_first_option(output);
    }

    /// Takes in one message and returns its length; 0 where it is not whole.
    fn take(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, ServerFault> {
        match self.stage {
            Stage::Greeting => self.take_greeting(input, output),
            Stage::Reply(option) => self.take_reply(option, input, output),
            Stage::ExportAnswer => {
                let mut fields = Fields::new(input);
                let (Some(size), Some(flags)) = (fields.u64(), fields.u16()) else { return Ok(0) };
                self.export = Some((check_size(size)?, TransmissionFlags::from_bits(flags)));
                self.stage = Stage::Zeroes(if self.no_zeroes { 0 } else { EXPORT_NAME_ZEROES });
                if self.no_zeroes {
                    self.finish()?;
                }
                Ok(EXPORT_ANSWER_BYTES)
            }
            Stage::Zeroes(left) => {
                let taken = input.len().min(left);
                self.stage = Stage::Zeroes(left - taken);
                if taken == left {
                    self.finish()?;
                }
                Ok(taken)
            }
            Stage::Tls | Stage::Over(_) => Ok(0),
        }
    }

    fn take_greeting(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, ServerFault> {
        let mut fields = Fields::new(input);
        let Some(first) = fields.u64() else { return Ok(0) };
        if first != INIT_PASSWD {
            return Err(ServerFault::NotNbd);
        }
        match fields.u64() {
            None => return Ok(0),
            Some(OPTION_MAGIC) => {}
            Some(OLDSTYLE_MAGIC) => return Err(ServerFault::Oldstyle),
            Some(_) => return Err(ServerFault::NotNbd),
        }
        let Some(flags) = fields.u16() else { return Ok(0) };
        let known = flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        self.no_zeroes = known & FLAG_NO_ZEROES != 0;
        output.extend_from_slice(&u32::from(known).to_be_bytes());
        match (known & FLAG_FIXED_NEWSTYLE != 0, self.options.tls) {
            (true, ClientTls::Required) => self.send_option(option::STARTTLS, &[], output),
            (true, ClientTls::Off) => self.send_first_option(output),
            (false, ClientTls::Required) => return Err(ServerFault::NoTls { text: String::new() }),
            (false, ClientTls::Off) => self.send_export_name(output),
        }
        Ok(GREETING_BYTES)
    }

    /// The first option of those that TLS hides.
    fn send_first_option(&mut self, output: &mut Vec<u8>) {
        if self.options.structured {
            self.send_option(option::STRUCTURED_REPLY, &[], output);
        } else {
            self.send_go(output);
        }
    }

    fn send_option(&mut self, option: u32, parts: &[&[u8]], output: &mut Vec<u8>) {
        put_option(option, parts, output);
        self.stage = Stage::Reply(option);
    }

    fn send_export_name(&mut self, output: &mut Vec<u8>) {
        put_option(option::EXPORT_NAME, &[self.name.as_bytes()], output);
        self.stage = Stage::ExportAnswer;
    }

    fn send_go(&mut self, output: &mut Vec<u8>) {
        let name = self.name.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let wanted = (1_u16.to_be_bytes(), info::BLOCK_SIZE.to_be_bytes());
        put_option(option::GO, &[&length, name, &wanted.0, &wanted.1], output);
        self.stage = Stage::Reply(option::GO);
    }

    fn take_reply(&mut self, sent: u32, input: &[u8], output: &mut Vec<u8>) -> Result<usize, ServerFault> {
        let mut fields = Fields::new(input);
        let (Some(magic), Some(option), Some(kind), Some(length)) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok(0);
        };
        if magic != OPTION_REPLY_MAGIC {
            return Err(ServerFault::Handshake { what: "something that is no reply to an option" });
        }
        if option != sent {
            return Err(ServerFault::Handshake { what: "a reply to another option" });
        }
        if length as usize > MESSAGE_BYTES_MAX - OPTION_REPLY_HEADER_BYTES {
            return Err(ServerFault::MessageTooLong(length));
        }
        let Some(data) = fields.take(length as usize) else { return Ok(0) };
        self.replies_left =
            self.replies_left.checked_sub(1).ok_or(ServerFault::Handshake { what: "replies without end" })?;
        match sent {
            option::STARTTLS => self.handle_starttls_reply(kind, data)?,
            option::STRUCTURED_REPLY => self.handle_structured_reply(kind, data, output)?,
            _ => self.handle_go_reply(kind, data, output)?,
        }
        Ok(OPTION_REPLY_HEADER_BYTES + data.len())
    }

    fn handle_starttls_reply(&mut self, kind: u32, data: &[u8]) -> Result<(), ServerFault> {
        match kind {
            reply::ACK => {
                self.stage = Stage::Tls;
                Ok(())
            }
            kind if kind & reply::ERROR != 0 => Err(ServerFault::NoTls { text: text(data) }),
            _ => Err(ServerFault::Handshake { what: "a wrong reply to STARTTLS" }),
        }
    }

    fn handle_structured_reply(
        &mut self,
        kind: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), ServerFault> {
        match kind {
            reply::ACK => self.structured = true,
            reply::ERR_TLS_REQD => return Err(ServerFault::TlsRequired),
            reply::ERR_SHUTDOWN => return Err(refused(kind, data)),
            kind if kind & reply::ERROR != 0 => {}
            _ => return Err(ServerFault::Handshake { what: "a wrong reply to STRUCTURED_REPLY" }),
        }
        self.send_go(output);
        Ok(())
    }

    fn handle_go_reply(&mut self, kind: u32, data: &[u8], output: &mut Vec<u8>) -> Result<(), ServerFault> {
        match kind {
            reply::INFO => self.take_info(data),
            reply::ACK => self.finish(),
            reply::ERR_UNSUP => {
                self.send_export_name(output);
                Ok(())
            }
            reply::ERR_TLS_REQD => Err(ServerFault::TlsRequired),
            reply::ERR_UNKNOWN => Err(ServerFault::UnknownExport { text: text(data) }),
            kind if kind & reply::ERROR != 0 => Err(refused(kind, data)),
            _ => Err(ServerFault::Handshake { what: "a wrong reply to GO" }),
        }
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), ServerFault> {
        const SHORT: ServerFault = ServerFault::Handshake { what: "information of a wrong length" };
        let mut fields = Fields::new(data);
        match fields.u16().ok_or(SHORT)? {
            info::EXPORT => {
                let (size, flags) = (fields.u64().ok_or(SHORT)?, fields.u16().ok_or(SHORT)?);
                self.export = Some((check_size(size)?, TransmissionFlags::from_bits(flags)));
            }
            info::BLOCK_SIZE => {
                let mut size = || fields.u32().ok_or(SHORT);
                self.block_sizes = BlockSizes::new(size()?, size()?, size()?)?;
            }
            _ => return Ok(()),
        }
        if fields.rest().is_empty() { Ok(()) } else { Err(SHORT) }
    }

    fn finish(&mut self) -> Result<(), ServerFault> {
        const MISSING: ServerFault = ServerFault::Handshake { what: "no size of the export" };
        let (size_bytes, flags) = self.export.ok_or(MISSING)?;
        let (block_sizes, structured) = (self.block_sizes, self.structured);
        self.stage = Stage::Over(ClientAgreement { size_bytes, flags, block_sizes, structured });
        Ok(())
    }
}

fn put_option(option: u32, parts: &[&[u8]], output: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    output.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&(length as u32).to_be_bytes());
    for part in parts {
        output.extend_from_slice(part);
    }
}

const fn check_size(size_bytes: u64) -> Result<u64, ServerFault> {
    if size_bytes > i64::MAX as u64 { Err(ServerFault::Size(size_bytes)) } else { Ok(size_bytes) }
}

fn refused(error: u32, data: &[u8]) -> ServerFault {
    ServerFault::Refused { error, text: text(data) }
}
