//! The controller allocates nothing per I/O once it has reached its working size, whatever the level, the write policy and
//! what it keeps on its devices, tags among it.

use raidlab_controller::{
    Action, ArrayConfig, CacheConfig, CacheMemory, Controller, HostOp, HostRequest, HostTag, MetadataPolicy,
    Resilience, TimerId, WritePolicy,
};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, NanoSpan, Nanos};

/// A world whose members and memory answer at once, with some requests overlapping one another.
struct World {
    controller: Controller,
    now: Nanos,
    timers: [Nanos; Controller::TIMERS as usize],
    seed: u64,
}

impl World {
    fn new(level: &str, write_policy: WritePolicy, resilience: Resilience) -> Self {
        let config = ArrayConfig {
            level: level.parse().expect(level),
            members: 8,
            strip_size: ByteCount::from_kib(16),
            block_size: BlockSize::B4096,
            member_size: ByteCount::from_mib(16),
            member_cache: raidlab_controller::MemberCache::Off,
            cache: CacheConfig {
                memory: CacheMemory::BatteryBacked,
                write_policy,
                flush_stop_pct: 40,
                ..CacheConfig::default()
            },
            staging_size: ByteCount::from_mib(4),
            resilience,
        };
        let controller = Controller::new(&config).expect("a possible array");
        let timers = [Nanos::FAR_FUTURE; Controller::TIMERS as usize];
        Self { controller, now: Nanos::ZERO, timers, seed: 7 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn run(&mut self, requests: u32) {
        for _ in 0..requests {
            let blocks = 1 + self.draw(8);
            let lba = Lba(self.draw(self.controller.volume_blocks().0 - blocks));
            let op = if self.draw(3) == 0 { HostOp::Read } else { HostOp::Write { fua: self.draw(8) == 0 } };
            self.now += NanoSpan(10_000);
            let request = HostRequest { tag: HostTag(0), op, lba, blocks: BlockCount(blocks) };
            self.controller.handle_host_request(self.now, request);
            self.settle();
            for timer in 0..Controller::TIMERS {
                if self.timers[timer as usize] <= self.now {
                    self.timers[timer as usize] = Nanos::FAR_FUTURE;
                    self.controller.handle_timer(self.now, TimerId(timer));
                    self.settle();
                }
            }
        }
    }

    fn settle(&mut self) {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => self.controller.handle_member_completion(self.now, io.id, Ok(())),
                Action::Memory(task) => self.controller.handle_memory_completion(self.now, task.id),
                Action::Timer { id, at } => self.timers[id.0 as usize] = at,
                Action::Complete(_) | Action::Keep(_) | Action::Notice(_) => {}
            }
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
                let mut world = World::new(level, write_policy, resilience);
                world.run(20_000);
                let counted = allocation_counter::measure(|| world.run(20_000));
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
