//! Numbers and fields on the wire: all big-endian, at fixed places.
//!
//! ```text
//! request           | magic 4 | flags 2 | type 2 | cookie 8 | offset 8 | length 4 |      28 bytes
//! simple reply      | magic 4 | error 4 | cookie 8 |                                     16 bytes
//! structured reply  | magic 4 | flags 2 | type 2 | cookie 8 | length 4 |                 20 bytes
//! option            | magic 8 | option 4 | length 4 |                                    16 bytes
//! option reply      | magic 8 | option 4 | type 4 | length 4 |                           20 bytes
//! ```
//! Source: the document, "Values".

use crate::export::STRING_BYTES_MAX;

/// `NBDMAGIC`, the first eight bytes of a server.
pub(crate) const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, after it in newstyle, and before each option.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// `NBD_REQUEST_MAGIC`.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// `NBD_SIMPLE_REPLY_MAGIC`.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// `NBD_STRUCTURED_REPLY_MAGIC`.
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Length of the server's first message: two magics and the handshake flags.
pub(crate) const GREETING_BYTES: usize = 18;
/// Length of an option's header.
pub(crate) const OPTION_HEADER_BYTES: usize = 16;
/// Length of the header of a reply to an option.
pub(crate) const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Length of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply without its payload.
pub(crate) const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a structured reply chunk's header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 20;
/// Zeros after the answer to `EXPORT_NAME`, unless the client asked to leave them out.
pub(crate) const EXPORT_NAME_ZEROES: usize = 124;

/// Longest message other than payload, in bytes, that either side of this crate takes in whole. A world's receive
/// buffer must have room for it.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
const _: () = assert!(MESSAGE_BYTES_MAX > 2 * STRING_BYTES_MAX + 64, "two strings and their headers fit");

/// Handshake and client flags: fixed newstyle is spoken.
pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake and client flags: the zeros of `EXPORT_NAME` may be left out.
pub(crate) const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Options.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options; bit 31 says error.
pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR + 1;
    pub(crate) const ERR_POLICY: u32 = ERROR + 2;
    pub(crate) const ERR_INVALID: u32 = ERROR + 3;
    pub(crate) const ERR_TLS_REQD: u32 = ERROR + 5;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR + 6;
    pub(crate) const ERR_SHUTDOWN: u32 = ERROR + 7;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Items of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Types of requests.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
}

/// Types of structured reply chunks; bit 15 says error.
pub(crate) mod chunk {
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR_BIT: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = ERROR_BIT + 1;
    pub(crate) const ERROR_OFFSET: u16 = ERROR_BIT + 2;
    /// Flag: the last chunk of its reply.
    pub(crate) const FLAG_DONE: u16 = 1 << 0;
}

/// Reads fields from the front of bytes; nothing where too few are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits and so many bytes.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

/// The fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl RequestHeader {
    /// Returns the request, or nothing if its magic is wrong.
    pub(crate) fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        })
    }

    pub(crate) fn encode(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_back() {
        let header =
            RequestHeader { flags: 1, command: 7, cookie: u64::MAX - 1, offset: 1 << 40, length: 512 };
        let bytes = header.encode();
        assert_eq!(RequestHeader::decode(&bytes), Some(header));
        for place in 0..4 {
            let mut wrong = bytes;
            wrong[place] ^= 0x10;
            assert_eq!(RequestHeader::decode(&wrong), None, "byte {place} of the magic");
        }
    }

    #[test]
    fn fields_end_where_the_bytes_do() {
        let mut fields = Fields::new(&[0, 0, 0, 3, b'a', b'b', b'c', 1]);
        assert_eq!(fields.counted(), Some(&b"abc"[..]));
        assert_eq!(fields.u16(), None);
        assert_eq!(fields.rest(), &[1]);
        assert_eq!(Fields::new(&[0xff; 8]).counted(), None);
    }
}
