//! Multiplication by each of the 256 coefficients, as tables for instructions that do not know the field.

use crate::gf;

/// `NIBBLES[c]` holds the products of `c` with 0 to 15, and with 0, 16, ... 240: a byte's product is the sum
/// of those of its two halves. Each half fits the byte shuffle of a 16-byte register. Source: H. P. Anvin; K.
/// Greenan, E. Miller and T. Schwarz, "Optimizing Galois Field Arithmetic for Diverse Processor
/// Architectures".
pub(super) static NIBBLES: [[[u8; 16]; 2]; 256] = nibble_tables();

/// `MATRICES[c]` is multiplication by `c` as a matrix of 8 x 8 bits, the way `gf2p8affineqb` wants it: byte
/// `7 - i` selects the bits of the operand that add up to bit `i` of the product. (`gf2p8mulb` is of no use:
/// it has the polynomial of AES.)
#[cfg(target_arch = "x86_64")]
pub(super) static MATRICES: [u64; 256] = matrices();

const fn nibble_tables() -> [[[u8; 16]; 2]; 256] {
    let mut tables = [[[0; 16]; 2]; 256];
    let mut c = 0;
    while c < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[c][0][nibble] = gf::mul(c as u8, nibble as u8);
            tables[c][1][nibble] = gf::mul(c as u8, (nibble << 4) as u8);
            nibble += 1;
        }
        c += 1;
    }
    tables
}

#[cfg(target_arch = "x86_64")]
const fn matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut from_bit = 0;
        while from_bit < 8 {
            let product = gf::mul(c as u8, 1 << from_bit);
            let mut to_bit = 0;
            while to_bit < 8 {
                let contributes = (product >> to_bit & 1) as u64;
                matrices[c] |= contributes << (8 * (7 - to_bit) + from_bit);
                to_bit += 1;
            }
            from_bit += 1;
        }
        c += 1;
    }
    matrices
}
