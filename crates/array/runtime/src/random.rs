//! Random bytes of the system, for identities: of arrays, devices and starts.

use std::io;

/// Draws that many, at most 256: so few come in one piece (getrandom(2)).
///
/// # Errors
/// What the system says, before it has gathered any randomness.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "more may come in several pieces") };
    let mut bytes = [0; N];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    assert_eq!(drawn, N, "so few bytes come in one piece");
    Ok(bytes)
}
