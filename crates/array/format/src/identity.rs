//! The identities of arrays and devices.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_print_in_the_usual_groups() {
        let bytes = core::array::from_fn(|at| at as u8 * 17);
        assert_eq!(ArrayUuid(bytes).to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
