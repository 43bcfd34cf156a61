//! The array of both tests of the virtual world: drives of 600 GB and 15000 rpm, write-through, and no read cache.

use raidlab_controller::{ArrayConfig, CacheConfig, CacheMemory};
use raidlab_hardware::{Catalog, ControllerModel, DriveModel};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};

pub(crate) fn config(level: &str, members: u16) -> ArrayConfig {
    let cache = CacheConfig {
        size: ByteCount::from_mib(64),
        memory: CacheMemory::BatteryBacked,
        flush_after: NanoSpan::from_secs(4),
        flush_iodepth: 64,
        ..CacheConfig::default()
    };
    ArrayConfig {
        block_size: BlockSize::B512,
        member_size: ByteCount::from_gib(500),
        staging_size: ByteCount::from_mib(64),
        ..raidlab_testkit::array(level, members, cache)
    }
}

pub(crate) fn drive() -> DriveModel {
    Catalog::builtin().drive("st3600057ss").expect("in the catalogue").clone()
}

pub(crate) fn controller() -> ControllerModel {
    Catalog::builtin().controller("perc-h800").expect("in the catalogue").clone()
}
