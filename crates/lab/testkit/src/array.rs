//! Small arrays: what a test does not care about.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, NewArray, Resilience};
use raidlab_format::{ArrayName, ArrayUuid, DeviceUuid, StartNonce};
use raidlab_units::{BlockSize, ByteCount};
use std::sync::atomic::{AtomicU64, Ordering};

/// An array of members of 4 MiB, with strips of 64 KiB and blocks of 4 KiB.
///
/// # Panics
/// If there is no such array.
pub fn array(level: &str, members: u16, cache: CacheConfig) -> ArrayConfig {
    ArrayConfig {
        level: level.parse().expect(level),
        members,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(4),
        member_cache: MemberCache::Off,
        cache,
        staging_size: ByteCount::from_mib(4),
        resilience: Resilience::default(),
    }
}

/// The metadata areas of the devices of a new array, whose name is [`ARRAY_UUID`].
///
/// # Panics
/// If there is no such array.
pub fn new_areas(config: &ArrayConfig, needs_resync: bool) -> Vec<Vec<u8>> {
    let uuids: Vec<_> = (1..=config.members).map(|device| Some(DeviceUuid([device as u8; 16]))).collect();
    let (array_uuid, name) = (ARRAY_UUID, ArrayName::default());
    let new = NewArray { array_uuid, name, device_uuids: &uuids, needs_resync };
    raidlab_controller::new_areas(config, &new).expect("a possible array")
}

/// A nonce for a start, another each time.
pub fn start_nonce() -> StartNonce {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    StartNonce::new(STARTS.fetch_add(1, Ordering::Relaxed))
}

/// What [`new_areas`] calls the array.
pub const ARRAY_UUID: ArrayUuid = ArrayUuid([9; 16]);
