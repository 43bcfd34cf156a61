//! One direction of a connection: bytes in order, received in pieces of any length, and damaged if asked for.

use super::kit::Rng;
use std::collections::VecDeque;

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    damage_one_in: u64,
    /// Something was changed on the way.
    pub(crate) damaged: bool,
}

impl Pipe {
    /// Makes a pipe that damages one of so many messages, 0 for none.
    pub(crate) fn new(damage_one_in: u64) -> Self {
        Self { bytes: VecDeque::new(), damage_one_in, damaged: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a sender would wait now.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() > 64 << 10
    }

    pub(crate) fn send(&mut self, rng: &mut Rng<'_>, message: &[u8]) {
        if message.is_empty() || self.damage_one_in == 0 || !rng.one_in(self.damage_one_in) {
            self.bytes.extend(message);
            return;
        }
        let mut message = message.to_vec();
        damage(rng, &mut message);
        self.damaged = true;
        self.bytes.extend(message);
    }

    /// Takes some of what has come, at most `max` bytes.
    pub(crate) fn receive(&mut self, rng: &mut Rng<'_>, max: usize) -> Vec<u8> {
        let limit = match rng.below(4) {
            0 => 1 + rng.below(40),
            1 => 1 + rng.below(5000),
            _ => u64::MAX,
        };
        let length = self.bytes.len().min(max).min(limit as usize);
        self.bytes.drain(..length).collect()
    }
}

/// What "TLS" does to bytes here, and undoes.
pub(crate) fn cipher(bytes: &mut [u8]) {
    for byte in bytes {
        *byte ^= 0xa5;
    }
}

/// Changes a message, mostly in its first bytes, where its meaning is.
pub(crate) fn damage(rng: &mut Rng<'_>, message: &mut Vec<u8>) {
    let reach = if rng.one_in(4) { message.len() } else { message.len().min(40) };
    let at = rng.index(reach);
    match rng.below(7) {
        0 => message[at] ^= 1 << rng.below(8),
        1 => message[at] = rng.next() as u8,
        2 => drop(message.remove(at)),
        3 => message.insert(at, rng.next() as u8),
        4 => message.truncate(at),
        5 => message.extend_from_within(at..),
        _ => {
            let end = message.len().min(at + 4);
            message[at..end].fill(rng.pick(&[0, 0xff, 0x7f, 0x80]));
        }
    }
}
