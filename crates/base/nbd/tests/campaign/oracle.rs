//! Tracks the possible effects and results of each request, byte by byte, without knowing the protocol.
//!
//! A write must reach the disk once, with its bytes, at its place and with its durability; nothing else may reach it.
//! A byte of a read must be one that the disk held there at some time while the read was in flight. A request may fail
//! only if a piece failed that may be its own.

use raidlab_nbd::{Errno, Op, Piece};
use std::collections::BTreeMap;

/// A request in flight.
#[derive(Debug)]
struct Known {
    op: Op,
    offset: u64,
    length: usize,
    /// Of a write: its bytes, and which of them reached the disk.
    bytes: Vec<u8>,
    applied: Vec<bool>,
    /// Of a read: what the disk held, and what was put there since.
    before: Vec<u8>,
    changes: Vec<(u64, Vec<u8>)>,
    may_fail: bool,
    worked_on: bool,
}

/// The disk, and the requests in flight.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) disk: Vec<u8>,
    known: BTreeMap<u64, Known>,
    /// Nothing was damaged on the way, so that all must be right.
    pub(crate) trusted: bool,
    /// Pieces that failed.
    pub(crate) failures: u64,
    /// Requests that ended with an error.
    pub(crate) errors: u64,
}

impl Oracle {
    pub(crate) fn new(length: usize) -> Self {
        let disk = (0..length).map(|place| (place / 512 * 7 + place) as u8).collect();
        Self { disk, known: BTreeMap::new(), trusted: true, failures: 0, errors: 0 }
    }

    /// Returns whether zeros are about to be written there.
    pub(crate) fn zeroes_in_flight(&self, offset: u64, length: usize) -> bool {
        self.known.values().any(|known| {
            let overlaps =
                known.offset < offset + length as u64 && offset < known.offset + known.length as u64;
            overlaps && matches!(known.op, Op::WriteZeroes { .. })
        })
    }

    /// A client asks for something; `bytes` are those of a write.
    pub(crate) fn submitted(&mut self, tag: u64, op: Op, offset: u64, length: usize, bytes: Vec<u8>) {
        let range = offset as usize..offset as usize + length;
        let before = if op == Op::Read { self.disk[range].to_vec() } else { Vec::new() };
        let writes = matches!(op, Op::Write { .. } | Op::WriteZeroes { .. });
        let applied = vec![false; if writes { length } else { 0 }];
        let known = Known {
            op,
            offset,
            length,
            bytes,
            applied,
            before,
            changes: Vec::new(),
            may_fail: false,
            worked_on: false,
        };
        self.known.insert(tag, known);
    }

    /// The server works on a piece; a write's bytes reach the disk.
    pub(crate) fn worked(&mut self, piece: &Piece, bytes: Option<&[u8]>) {
        let place = piece.offset as usize..piece.offset as usize + piece.length as usize;
        if let Some(bytes) = bytes {
            self.disk[place].copy_from_slice(bytes);
        }
        if !self.trusted {
            return;
        }
        let mut owner = None;
        for known in self.known.values_mut() {
            let inside = known.covers(piece);
            known.worked_on |= inside;
            if let Some(bytes) = bytes {
                if owner.is_none() && inside && known.expects(piece, bytes) {
                    owner = Some(());
                    let at = (piece.offset - known.offset) as usize;
                    known.applied[at..at + bytes.len()].fill(true);
                }
                if known.op == Op::Read {
                    known.changes.push((piece.offset, bytes.to_vec()));
                }
            } else if inside {
                owner = Some(());
            }
        }
        assert!(owner.is_some(), "nobody asked for {piece:?}");
    }

    /// A piece failed.
    pub(crate) fn failed(&mut self, piece: &Piece) {
        self.failures += 1;
        for known in self.known.values_mut().filter(|known| known.covers(piece)) {
            known.may_fail = true;
        }
    }

    /// A client was told the end of a request; `bytes` are those of a read.
    pub(crate) fn ended(&mut self, tag: u64, result: Result<(), Errno>, bytes: &[u8]) {
        let Some(known) = self.known.remove(&tag) else { return };
        if !self.trusted {
            return;
        }
        if let Err(errno) = result {
            assert!(known.may_fail, "{tag} failed with {errno} and no piece of it had");
            self.errors += 1;
            return;
        }
        assert!(known.worked_on, "{tag} ended and nobody had worked on it");
        assert!(!known.applied.contains(&false), "{tag} ended and not all of it is on the disk");
        if known.op == Op::Read {
            known.check_read(bytes);
        }
    }
}

impl Known {
    /// Whether a piece can be of this request, by its place and what it does.
    fn covers(&self, piece: &Piece) -> bool {
        let end = piece.offset + u64::from(piece.length);
        self.op == piece.op && self.offset <= piece.offset && end <= self.offset + self.length as u64
    }

    fn expects(&self, piece: &Piece, bytes: &[u8]) -> bool {
        let at = (piece.offset - self.offset) as usize;
        let fresh = self.applied.get(at..at + bytes.len()).is_some_and(|applied| !applied.contains(&true));
        let zeroes = matches!(self.op, Op::WriteZeroes { .. });
        fresh && (zeroes || &self.bytes[at..at + bytes.len()] == bytes)
    }

    fn check_read(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.length);
        for (place, byte) in bytes.iter().enumerate().filter(|(place, byte)| self.before[*place] != **byte) {
            let at = self.offset + place as u64;
            let there = |(start, change): &(u64, Vec<u8>)| {
                at.checked_sub(*start).and_then(|at| change.get(at as usize)) == Some(byte)
            };
            assert!(self.changes.iter().any(there), "byte {at} was never {byte} while it was read");
        }
    }
}
