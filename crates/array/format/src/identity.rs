//! The identities of arrays, devices and starts.

use core::fmt;

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            /// Prints the usual groups: 8-4-4-4-12 digits (RFC 9562).
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (at, byte) in self.0.iter().enumerate() {
                    let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    };
}

uuid! {
    /// Which array: drawn once when it is made.
    ArrayUuid
}
uuid! {
    /// Which physical device: drawn when its label is written, so that a device and its replacement are told
    /// apart.
    DeviceUuid
}

/// Which start of an array: drawn for each, so that what was written after it is told from what was written after another, of the
/// same array or of a copy of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartNonce(u64);

impl StartNonce {
    /// That of an array that was never started, and of what versions 1 to 3 wrote.
    pub const NONE: Self = Self(0);

    /// Makes one of 64 random bits; never [`Self::NONE`].
    pub const fn new(random: u64) -> Self {
        Self(if random == 0 { 1 } else { random })
    }

    /// True of [`Self::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn to_le_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(crate) const fn from_stored(stored: u64) -> Self {
        Self(stored)
    }
}

impl fmt::Display for StartNonce {
    /// Prints 16 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() { f.pad("none") } else { write!(f, "{:016x}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_print_in_the_usual_groups() {
        let bytes = core::array::from_fn(|at| at as u8 * 17);
        assert_eq!(ArrayUuid(bytes).to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
