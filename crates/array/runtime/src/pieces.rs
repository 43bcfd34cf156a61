//! Lists of pieces of memory: cutting them, and storing into them.
//!
//! ```text
//! pieces   |--------|   |-----|        |------------|
//! cut          |----|   |-----|        |--|              a range of the bytes of the list
//! ```
//! The pieces are those of a member I/O in flight, from [`crate::memory::Memory::io_vec`]: they lie within arenas, and
//! until the I/O has ended only its device writes them. A device behind a socket writes here.
#![allow(unsafe_code)]

use raidlab_device::ring::IoVec;

/// Appends the pieces of `bytes` bytes from `at` on. The list must be so long (asserted).
pub(crate) fn cut(pieces: &[IoVec], at: u64, bytes: u64, out: &mut Vec<IoVec>) {
    let (mut skip, mut left) = (at as usize, bytes as usize);
    for piece in pieces {
        if left == 0 {
            break;
        }
        let taken = piece.bytes.saturating_sub(skip).min(left);
        if taken > 0 {
            out.push(IoVec { base: piece.base.wrapping_add(skip), bytes: taken });
        }
        skip = skip.saturating_sub(piece.bytes);
        left -= taken;
    }
    assert!(left == 0, "{left} bytes of a range lie behind its pieces");
}

/// What is stored into pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many zeros.
    Zeros(u64),
}

/// Stores from `at` on. The list, which must be so long (asserted), is that of a read in flight on a device that is reached
/// through a socket.
pub(crate) fn store(pieces: &[IoVec], at: u64, what: Stored<'_>) {
    let bytes = match what {
        Stored::Bytes(bytes) => bytes.len(),
        Stored::Zeros(bytes) => bytes as usize,
    };
    let (mut skip, mut done) = (at as usize, 0);
    for piece in pieces {
        let length = piece.bytes.saturating_sub(skip).min(bytes - done);
        if length > 0 {
            let target = piece.base.wrapping_add(skip);
            // SAFETY: the part lies within the piece, and that within an arena; nobody but the read's device looks at it
            // until the read has ended, and the source is another memory, a socket's inbox.
            unsafe {
                match what {
                    Stored::Bytes(source) => {
                        std::ptr::copy_nonoverlapping(source[done..].as_ptr(), target, length);
                    }
                    Stored::Zeros(_) => std::ptr::write_bytes(target, 0, length),
                }
            }
        }
        skip = skip.saturating_sub(piece.bytes);
        done += length;
    }
    assert!(done == bytes, "{} bytes lie behind the pieces", bytes - done);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cut_and_store_agree_with_a_list_of_addresses(
            lengths in prop::collection::vec(0_usize..20, 1..8),
            (from, to) in (0.0..1.0, 0.0..1.0),
        ) {
            let mut memory: Vec<Vec<u8>> = lengths.iter().map(|length| vec![1; *length]).collect();
            let pieces: Vec<IoVec> =
                memory.iter_mut().map(|part| IoVec { base: part.as_mut_ptr(), bytes: part.len() }).collect();
            let total: usize = lengths.iter().sum();
            let mut ends = [from, to].map(|part: f64| (part * total as f64) as usize);
            ends.sort_unstable();
            let [at, end] = ends;
            let mut out = Vec::new();
            cut(&pieces, at as u64, (end - at) as u64, &mut out);
            let addresses = |list: &[IoVec]| -> Vec<usize> {
                list.iter().flat_map(|piece| (0..piece.bytes).map(|byte| piece.base.addr() + byte)).collect()
            };
            prop_assert_eq!(addresses(&out), addresses(&pieces)[at..end].to_vec());
            prop_assert!(out.iter().all(|piece| piece.bytes > 0));
            let bytes: Vec<u8> = (0..end - at).map(|byte| byte as u8 | 0x80).collect();
            store(&pieces, at as u64, Stored::Bytes(&bytes));
            let mut expected = vec![1; total];
            expected[at..end].copy_from_slice(&bytes);
            prop_assert_eq!(memory.concat(), expected.clone());
            store(&pieces, at as u64, Stored::Zeros((end - at) as u64));
            expected[at..end].fill(0);
            prop_assert_eq!(memory.concat(), expected);
        }
    }
}
