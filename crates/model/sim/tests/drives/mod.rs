//! The array of both tests of the virtual world: drives of 600 GB and 15000 rpm, write-through, and no read cache.

use raidlab_controller::{ArrayConfig, CacheConfig, CacheMemory, MemberCache, Resilience};
use raidlab_hardware::{Catalog, ControllerModel, DriveModel};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};

pub(crate) fn config(level: &str, members: u16) -> ArrayConfig {
    ArrayConfig {
        level: level.parse().expect("a level"),
        members,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B512,
        member_size: ByteCount::from_gib(500),
        member_cache: MemberCache::Off,
        cache: CacheConfig {
            size: ByteCount::from_mib(64),
            memory: CacheMemory::BatteryBacked,
            flush_after: NanoSpan::from_secs(4),
            flush_iodepth: 64,
            ..CacheConfig::default()
        },
        staging_size: ByteCount::from_mib(64),
        resilience: Resilience::default(),
    }
}

pub(crate) fn drive() -> DriveModel {
    Catalog::builtin().drive("st3600057ss").expect("in the catalogue").clone()
}

pub(crate) fn controller() -> ControllerModel {
    Catalog::builtin().controller("perc-h800").expect("in the catalogue").clone()
}
