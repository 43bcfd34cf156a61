//! Binary traces as lines of text, which the parsers read: blktrace's own files, and `oracleGeneral` of `libCacheSim`.
//!
//! ```text
//! blktrace        magic+version sequence time sector bytes action pid device cpu error pdu   4 4 8 8 4 4 4 4 4 2 2, then the pdu
//! oracleGeneral   time_s object size next                                                    4 8 4 8
//! ```
//! blktrace's numbers are in the order of the machine that wrote them, which its magic number tells; times are nanoseconds. An action has
//! what happened in its lower half, and what kind of request it was in the upper one. Messages are left out.
//!
//! `oracleGeneral` (`CloudPhysics` and others) has no kinds of requests: all are taken for reads; objects are taken for sectors.
//!
//! Source: Linux, `include/uapi/linux/blktrace_api.h`; libCacheSim, `oracleGeneral.h`.

use crate::record::TraceFormat;
use std::fmt::Write;

/// Bytes of an event of blktrace, before its pdu.
const EVENT_BYTES: usize = 48;
/// The upper three bytes of its magic number.
const MAGIC: u32 = 0x6561_7400;
/// Bytes of a request of `oracleGeneral`.
const ORACLE_BYTES: usize = 24;

/// What happened, by the letters of blkparse.
const ACTIONS: [(u32, char); 4] = [(1, 'Q'), (6, 'R'), (7, 'D'), (8, 'C')];
/// Kinds of requests, as bits of the upper half of an action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

/// A form of binary trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryTrace {
    /// blktrace's, with numbers of the lowest byte first or not.
    Blktrace {
        /// The highest byte comes first.
        is_big: bool,
    },
    /// `libCacheSim`'s.
    OracleGeneral,
}

impl BinaryTrace {
    /// The form of a trace that begins with `bytes`; none where they are no event of blktrace. `oracleGeneral` has no mark.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first_chunk()?;
        let is = |magic: u32| magic & 0xffff_ff00 == MAGIC;
        let is_big = is(u32::from_be_bytes(first));
        (is_big || is(u32::from_le_bytes(first))).then_some(Self::Blktrace { is_big })
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blktrace { .. } => "blktrace",
            Self::OracleGeneral => TraceFormat::OracleGeneral.name(),
        }
    }

    /// Writes the requests in `bytes` to `lines`, as blkparse and Alibaba's tables have them. Returns how many bytes are used up; what is
    /// behind them is the beginning of the next request.
    ///
    /// # Errors
    /// The offset of an event without the magic number.
    pub fn lines(self, bytes: &[u8], lines: &mut String) -> Result<usize, usize> {
        match self {
            Self::Blktrace { is_big } => blktrace(bytes, is_big, lines),
            Self::OracleGeneral => Ok(oracle_general(bytes, lines)),
        }
    }
}

fn blktrace(bytes: &[u8], is_big: bool, lines: &mut String) -> Result<usize, usize> {
    let mut at = 0;
    while let Some(event) = bytes.get(at..at + EVENT_BYTES) {
        let number = |from: usize, length: usize| {
            let digits = &event[from..from + length];
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            if is_big { digits.iter().fold(0, add) } else { digits.iter().rev().fold(0, add) }
        };
        if number(0, 4) as u32 & 0xffff_ff00 != MAGIC {
            return Err(at);
        }
        let length = EVENT_BYTES + number(46, 2) as usize;
        if bytes.len() < at + length {
            break;
        }
        let (time, sector, size) = (number(8, 8), number(16, 8), number(24, 4));
        let (action, device) = (number(28, 4) as u32, number(36, 4));
        let kind = action >> 16;
        let letter = ACTIONS.iter().find(|(number, _)| *number == action & 0xffff).map(|(_, letter)| *letter);
        if let Some(letter) = letter.filter(|_| kind & NOTIFY == 0) {
            let mut rwbs = String::new();
            if kind & FLUSH != 0 {
                rwbs.push('F');
            }
            rwbs.push(match (kind & DISCARD != 0, kind & WRITE != 0, size) {
                (true, ..) => 'D',
                (_, true, _) => 'W',
                (_, false, 0) => 'N',
                _ => 'R',
            });
            if kind & SYNC != 0 {
                rwbs.push('S');
            }
            let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
            let (cpu, pid, sequence) = (number(40, 4), number(32, 4), number(4, 4));
            let (major, minor) = (device >> 20, device & 0xf_ffff);
            // Writing to a string can't fail.
            let _ = writeln!(
                lines,
                "{major},{minor} {cpu} {sequence} {seconds}.{ns:09} {pid} {letter} {rwbs} {sector} + {} [{pid}]",
                size / 512
            );
        }
        at += length;
    }
    Ok(at)
}

fn oracle_general(bytes: &[u8], lines: &mut String) -> usize {
    let (requests, rest) = bytes.as_chunks::<ORACLE_BYTES>();
    for request in requests {
        let number = |from: usize, length: usize| {
            request[from..from + length].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (seconds, object, size) = (number(0, 4), number(4, 8), number(12, 4));
        let offset = object.saturating_mul(512).min(u64::MAX / 2);
        let _ = writeln!(lines, "0,R,{offset},{size},{}", seconds * 1_000_000);
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event as blktrace writes it, its lowest byte first.
    fn event(time: u64, sector: u64, size: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((MAGIC | 7).to_le_bytes());
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        for word in [size, action, 1234, 8 << 20 | 1, 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u16.to_le_bytes());
        bytes.extend((pdu.len() as u16).to_le_bytes());
        bytes.extend(pdu);
        bytes
    }

    #[test]
    fn events_become_lines_of_blkparse() {
        let all = [
            event(1_000_000_005, 2048, 4096, 1 | (SYNC | WRITE) << 16, b""),
            event(0, 0, 0, NOTIFY << 16, b"a message"),
            event(2_500_000_000, 8, 8192, 8, b"abc"),
            event(3_000_000_000, 0, 0, 7 | (FLUSH | WRITE) << 16, b""),
        ]
        .concat();
        let mut lines = String::new();
        let form = BinaryTrace::detect(&all).expect("it has the magic number");
        assert_eq!(form.lines(&all, &mut lines), Ok(all.len()));
        let expected = "8,1 3 9 1.000000005 1234 Q WS 2048 + 8 [1234]\n\
                        8,1 3 9 2.500000000 1234 C R 8 + 16 [1234]\n\
                        8,1 3 9 3.000000000 1234 D FW 0 + 0 [1234]\n";
        assert_eq!(lines, expected);
        // What is cut off is left for the next turn; what is no event is refused with its place.
        assert_eq!(form.lines(&all[..60], &mut lines), Ok(48));
        assert_eq!(form.lines(&[&all[..48], &[7; 48]].concat(), &mut lines), Err(48));
        assert_eq!(BinaryTrace::detect(b"8,0 1 2 3.0"), None);
    }

    #[test]
    fn objects_become_reads() {
        let mut bytes = Vec::new();
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(100u64.to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend((-2i64).to_le_bytes());
        bytes.extend([1, 2, 3]);
        let mut lines = String::new();
        assert_eq!(BinaryTrace::OracleGeneral.lines(&bytes, &mut lines), Ok(24));
        assert_eq!(lines, "0,R,51200,4096,7000000\n");
    }

    proptest! {
        #[test]
        fn any_bytes_are_bearable(bytes in proptest::collection::vec(any::<u8>(), 0..400), is_big in any::<bool>()) {
            for form in [BinaryTrace::Blktrace { is_big }, BinaryTrace::OracleGeneral] {
                let used = form.lines(&bytes, &mut String::new());
                prop_assert!(used.is_ok_and(|used| used <= bytes.len()) || used.is_err());
            }
        }
    }
}
