//! NBD as a client speaks it, in bytes, apart from the project's own crate for it, which the server uses.
//!
//! Source: the NBD protocol, `doc/proto.md` of NetworkBlockDevice/nbd.

pub(crate) const NBD_MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
pub(crate) const GREETING_BYTES: usize = 18;
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
const OPTION_GO: u32 = 7;
const OPTION_STRUCTURED: u32 = 8;
const REPLY_ACK: u32 = 1;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const FLAG_FUA: u16 = 1;
pub(crate) const FLAG_NO_HOLE: u16 = 2;
/// The server stops.
pub(crate) const ESHUTDOWN: u32 = 108;

/// What a client says behind the greeting: its flags, whether it wants structured replies, and that it goes.
pub(crate) fn hello(structured: bool, out: &mut Vec<u8>) {
    out.extend(3_u32.to_be_bytes());
    if structured {
        option(OPTION_STRUCTURED, &[], out);
    }
    // No name, no wish to be told anything.
    option(OPTION_GO, &[0; 6], out);
}

fn option(number: u32, data: &[u8], out: &mut Vec<u8>) {
    out.extend(OPTION_MAGIC);
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// Appends the head of a request.
pub(crate) fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32, out: &mut Vec<u8>) {
    out.extend(REQUEST_MAGIC.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(length.to_be_bytes());
}

/// Whether an option's reply ended the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionReply {
    GoesOn,
    Transmits,
    Refused,
}

/// Takes one reply to an option from the front. Returns its length; none while it is not all there.
///
/// # Errors
/// In words what is wrong with it.
pub(crate) fn option_reply(bytes: &[u8]) -> Result<Option<(usize, OptionReply)>, String> {
    let Some(head) = bytes.get(..20) else { return Ok(None) };
    if long(head, 0) != OPTION_REPLY_MAGIC {
        return Err("a reply to an option has another magic number".to_owned());
    }
    let (option, kind, length) = (word(head, 8), word(head, 12), word(head, 16) as usize);
    if bytes.len() < 20 + length {
        return Ok(None);
    }
    let reply = match kind {
        REPLY_ACK if option == OPTION_GO => OptionReply::Transmits,
        _ if kind >> 31 == 1 && option == OPTION_GO => OptionReply::Refused,
        _ => OptionReply::GoesOn,
    };
    Ok(Some((20 + length, reply)))
}

/// A reply, or a chunk of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    /// Nothing more of this request follows.
    pub(crate) is_last: bool,
    pub(crate) body: Body,
}

/// What it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Nothing,
    Failed(u32),
    /// All data of a read, which follows: as many bytes as were asked for.
    AllData,
    /// Bytes of the volume, which follow.
    Data {
        offset: u64,
        bytes: usize,
    },
    /// Zeros of the volume.
    Hole {
        offset: u64,
        bytes: usize,
    },
}

/// Takes the head of a reply from the front. Returns its length; none while it is not all there. `is_read` says whether a cookie is
/// that of a read.
///
/// # Errors
/// In words what is wrong with it.
pub(crate) fn reply(bytes: &[u8], is_read: impl Fn(u64) -> bool) -> Result<Option<(usize, Reply)>, String> {
    let Some(head) = bytes.get(..16) else { return Ok(None) };
    match word(head, 0) {
        SIMPLE_MAGIC => {
            let (error, cookie) = (word(head, 4), long(head, 8));
            let body = match error {
                0 if is_read(cookie) => Body::AllData,
                0 => Body::Nothing,
                error => Body::Failed(error),
            };
            Ok(Some((16, Reply { cookie, is_last: true, body })))
        }
        CHUNK_MAGIC => chunk(bytes),
        other => Err(format!("a reply begins with {other:#x}")),
    }
}

fn chunk(bytes: &[u8]) -> Result<Option<(usize, Reply)>, String> {
    let Some(head) = bytes.get(..20) else { return Ok(None) };
    let (flags, kind) = (word(head, 4) >> 16, word(head, 4) & 0xffff);
    let (cookie, length) = (long(head, 8), word(head, 16) as usize);
    let needed = match kind {
        1 => 8,
        _ => length,
    };
    let Some(body) = bytes.get(20..20 + needed) else { return Ok(None) };
    let parsed = match kind {
        0 if length == 0 => Body::Nothing,
        1 if length > 8 => Body::Data { offset: long(body, 0), bytes: length - 8 },
        2 if length == 12 => Body::Hole { offset: long(body, 0), bytes: word(body, 8) as usize },
        0x8001 | 0x8002 if length >= 6 => Body::Failed(word(body, 0)),
        _ => return Err(format!("a chunk of kind {kind:#x} and {length} bytes")),
    };
    Ok(Some((20 + needed, Reply { cookie, is_last: flags & 1 == 1, body: parsed })))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
