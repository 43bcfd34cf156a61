//! The token of every change: 256 random bits, new at each start and stored nowhere.
//!
//! Invariant: the duration of a comparison does not reveal where two tokens differ.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use subtle::ConstantTimeEq;

/// Bytes of a token.
const BYTES: usize = 32;

/// A token, as the hexadecimal digits that people copy.
pub(crate) struct Token(String);

impl Token {
    /// A new one.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; BYTES];
        // The kernel gives up to 256 bytes at once, or none.
        let given = getrandom(&mut bytes, GetRandomFlags::empty())?;
        assert_eq!(given, BYTES, "the kernel gives so few bytes whole");
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Ok(Self(digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()))
    }

    pub(crate) fn text(&self) -> String {
        self.0.clone()
    }

    /// Whether `other` is this token.
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Token::random().unwrap();
        let text = token.text();
        assert_eq!(text.len(), 2 * BYTES);
        assert!(token.is(text.as_bytes()));
        for wrong in
            ["", &text[1..], &format!("{text}0"), &text.to_uppercase().replace(char::is_numeric, "x")]
        {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert_ne!(text, Token::random().unwrap().text());
        assert_eq!(format!("{token:?}"), "Token");
    }
}
