//! Arithmetic in GF(256), the field of the parity code: bytes are polynomials over GF(2), modulo
//! `x^8 + x^4 + x^3 + x^2 + 1` (0x11d). Addition is XOR; 2 generates every value but zero.
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6". (The field of AES has another modulus, 0x11b.)

/// The modulus, with its leading bit.
pub const MODULUS: u16 = 0x11d;

/// `EXP[n]` is `2^n`, for twice around the 255 values, so that sums of two logarithms need no reduction.
const EXP: [u8; 510] = exp_table();
/// `LOG[a]` is the `n` below 255 with `2^n = a`; `LOG[0]` has no meaning.
const LOG: [u8; 256] = log_table();

/// Returns `2^exponent`.
#[inline]
pub const fn pow2(exponent: u16) -> u8 {
    EXP[(exponent % 255) as usize]
}

/// Returns `a * b`.
#[inline]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// Returns the value that gives 1 when multiplied by `a`.
///
/// # Panics
/// If `a` is zero.
#[inline]
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    EXP[255 - LOG[a as usize] as usize]
}

const fn exp_table() -> [u8; 510] {
    let mut table = [0; 510];
    let mut value: u16 = 1;
    let mut n = 0;
    while n < table.len() {
        table[n] = value as u8;
        value <<= 1;
        if value > 0xff {
            value ^= MODULUS;
        }
        n += 1;
    }
    table
}

const fn log_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 255 {
        table[EXP[n] as usize] = n as u8;
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as it is defined: shift, add, reduce.
    fn mul_by_definition(a: u8, b: u8) -> u8 {
        let mut product: u32 = 0;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u32::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= u32::from(MODULUS) << (bit - 8);
            }
        }
        u8::try_from(product).expect("a reduced product is a byte")
    }

    #[test]
    fn multiplication_is_as_defined() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_by_definition(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn every_value_but_zero_has_an_inverse() {
        for a in 1..=255 {
            assert_eq!(mul_by_definition(a, inv(a)), 1, "{a}");
        }
    }

    #[test]
    fn powers_of_two_are_repeated_doubling() {
        let mut power = 1;
        for exponent in 0..1000 {
            assert_eq!(pow2(exponent), power, "2^{exponent}");
            power = mul_by_definition(power, 2);
        }
    }
}
