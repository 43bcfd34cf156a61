//! The controller allocates nothing per I/O once it has reached its working size, whatever the level, the write policy and
//! what it keeps on its devices, tags among it.

use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, HostOp, MetadataPolicy, Resilience, WritePolicy,
};
use raidlab_testkit::{InstantWorld, Random, array};
use raidlab_units::{BlockCount, ByteCount, Lba, NanoSpan};

fn config(level: &str, write_policy: WritePolicy, resilience: Resilience) -> ArrayConfig {
    let cache = CacheConfig {
        memory: CacheMemory::BatteryBacked,
        write_policy,
        flush_stop_pct: 40,
        ..CacheConfig::default()
    };
    let member_size = ByteCount::from_mib(16);
    ArrayConfig { strip_size: ByteCount::from_kib(16), member_size, resilience, ..array(level, 8, cache) }
}

/// Reads and writes of 1 to 8 blocks, some of which overlap those before them.
struct Load {
    world: InstantWorld,
    random: Random,
}

impl Load {
    fn run(&mut self, requests: u32) {
        for _ in 0..requests {
            let blocks = 1 + self.random.below(8);
            let lba = Lba(self.random.below(self.world.volume_blocks() - blocks));
            let op = if self.random.below(3) == 0 {
                HostOp::Read
            } else {
                HostOp::Write { fua: self.random.below(8) == 0 }
            };
            self.world.request(NanoSpan(10_000), op, lba, BlockCount(blocks));
        }
    }
}

#[test]
fn nothing_is_allocated_per_io() {
    for level in ["0", "1", "10", "5", "6", "50:2-spans"] {
        for write_policy in [WritePolicy::WriteThrough, WritePolicy::WriteBack] {
            let policies = [MetadataPolicy::None, MetadataPolicy::Bitmap, MetadataPolicy::Log];
            for (metadata, integrity) in policies.into_iter().flat_map(|it| [(it, false), (it, true)]) {
                let resilience = Resilience { metadata, integrity, ..Resilience::default() };
                let config = config(level, write_policy, resilience);
                let mut load =
                    Load { world: InstantWorld::new(&config).expect("a possible array"), random: Random(7) };
                load.run(20_000);
                let counted = allocation_counter::measure(|| load.run(20_000));
                assert!(load.world.member_ios() > 20_000, "the members had work");
                // A container that reaches a new size now and then is no cost per I/O.
                assert!(
                    counted.count_total < 20,
                    "{level} {write_policy:?} {metadata:?} {integrity}: {} allocations in 20000 requests",
                    counted.count_total
                );
            }
        }
    }
}
