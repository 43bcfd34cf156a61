//! What the controller itself costs per host I/O: nanoseconds of one core, with members and memory that answer at once and
//! carry no bytes.
//!
//! Run with `cargo run --release -p raidlab-controller --example cost`. The goals are 300 ns for a 4 KiB write into the
//! cache of a RAID 5, destages included, and 150 ns for a 4 KiB read of a RAID 0.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may read the clock")]

use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, HostOp, MemberCache, MetadataPolicy, Resilience, WritePolicy,
};
use raidlab_testkit::InstantWorld;
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, NanoSpan};
use std::error::Error;
use std::time::Instant;

/// Host I/Os in one measurement.
const REQUESTS: u64 = 4_000_000;

/// Measurements of each row; the median is printed.
const ROUNDS: usize = 5;

struct Row {
    name: &'static str,
    level: &'static str,
    write_policy: WritePolicy,
    metadata: MetadataPolicy,
    integrity: bool,
    op: HostOp,
    pattern: Pattern,
    /// Requests in flight; with more than one, what the members and the memory were asked for ends in an order that is drawn.
    iodepth: u32,
}

#[derive(Clone, Copy)]
enum Pattern {
    Sequential,
    Random,
}

const WRITE: HostOp = HostOp::Write { fua: false };

const ROWS: [Row; 17] = [
    Row::new("RAID 0 read", "0", WritePolicy::WriteThrough, HostOp::Read, Pattern::Random),
    Row::new("RAID 0 read", "0", WritePolicy::WriteThrough, HostOp::Read, Pattern::Sequential),
    Row::new("RAID 5 read", "5", WritePolicy::WriteThrough, HostOp::Read, Pattern::Random),
    Row::new("RAID 5 cached write", "5", WritePolicy::WriteBack, WRITE, Pattern::Sequential),
    Row::new("RAID 5 cached write", "5", WritePolicy::WriteBack, WRITE, Pattern::Random),
    Row::new("RAID 5 write through", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random),
    Row::new("RAID 6 write through", "6", WritePolicy::WriteThrough, WRITE, Pattern::Random),
    Row::new("RAID 10 write through", "10", WritePolicy::WriteThrough, WRITE, Pattern::Random),
    Row {
        metadata: MetadataPolicy::Bitmap,
        ..Row::new("RAID 5 write, bitmap", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random)
    },
    Row {
        metadata: MetadataPolicy::Log,
        ..Row::new("RAID 5 write, log", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random)
    },
    Row {
        iodepth: 32,
        ..Row::new("RAID 5 write, 32 at once", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random)
    },
    Row {
        metadata: MetadataPolicy::Log,
        iodepth: 32,
        ..Row::new("RAID 5 write, log, 32", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random)
    },
    Row::new("RAID 0 read, tags", "0", WritePolicy::WriteThrough, HostOp::Read, Pattern::Random).with_tags(),
    Row::new("RAID 5 cached write, tags", "5", WritePolicy::WriteBack, WRITE, Pattern::Sequential)
        .with_tags(),
    Row::new("RAID 5 cached write, tags", "5", WritePolicy::WriteBack, WRITE, Pattern::Random).with_tags(),
    Row::new("RAID 5 write, tags", "5", WritePolicy::WriteThrough, WRITE, Pattern::Random).with_tags(),
    Row::new("RAID 10 write, tags", "10", WritePolicy::WriteThrough, WRITE, Pattern::Random).with_tags(),
];

impl Row {
    const fn new(
        name: &'static str,
        level: &'static str,
        write_policy: WritePolicy,
        op: HostOp,
        pattern: Pattern,
    ) -> Self {
        let (metadata, integrity) = (MetadataPolicy::None, false);
        Self { name, level, write_policy, metadata, integrity, op, pattern, iodepth: 1 }
    }

    const fn with_tags(self) -> Self {
        Self { integrity: true, ..self }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:25} {:10} {:>8} {:>12} {:>12}", "4 KiB", "places", "ns each", "member I/Os", "per host I/O");
    let only: Option<usize> = std::env::args().nth(1).map(|text| text.parse()).transpose()?;
    for (_, row) in ROWS.iter().enumerate().filter(|(index, _)| only.is_none_or(|only| only == *index)) {
        let mut load = Load::new(row)?;
        load.run(row, REQUESTS / 4);
        let mut spans = Vec::new();
        let before = load.world.member_ios();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            load.run(row, REQUESTS);
            spans.push(start.elapsed().as_nanos() as f64 / REQUESTS as f64);
        }
        spans.sort_by(f64::total_cmp);
        let ios = (load.world.member_ios() - before) as f64 / (ROUNDS as u64 * REQUESTS) as f64;
        let places = match row.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        };
        println!("{:25} {places:10} {:8.0} {ios:25.2}", row.name, spans[ROUNDS / 2]);
    }
    Ok(())
}

/// The requests of a row, and the controller that they go to.
struct Load {
    world: InstantWorld,
    next: u64,
    seed: u64,
}

impl Load {
    fn new(row: &Row) -> Result<Self, Box<dyn Error>> {
        let config = ArrayConfig {
            level: row.level.parse()?,
            members: 8,
            strip_size: ByteCount::from_kib(64),
            block_size: BlockSize::B4096,
            member_size: ByteCount::from_gib(16),
            member_cache: MemberCache::Off,
            cache: CacheConfig {
                size: ByteCount::from_mib(256),
                memory: if row.iodepth > 1 { CacheMemory::Volatile } else { CacheMemory::BatteryBacked },
                write_policy: row.write_policy,
                flush_after: NanoSpan::from_secs(4),
                flush_stop_pct: 40,
                flush_iodepth: 32,
                ..CacheConfig::default()
            },
            staging_size: ByteCount::from_mib(64),
            resilience: Resilience {
                metadata: row.metadata,
                integrity: row.integrity,
                ..Resilience::default()
            },
        };
        Ok(Self { world: InstantWorld::new(&config)?, next: 0, seed: 1 })
    }

    fn run(&mut self, row: &Row, requests: u64) {
        let blocks = self.world.volume_blocks();
        for _ in 0..requests {
            let lba = match row.pattern {
                Pattern::Sequential => self.next % blocks,
                Pattern::Random => {
                    // xorshift64 (G. Marsaglia, 2003).
                    self.seed ^= self.seed << 13;
                    self.seed ^= self.seed >> 7;
                    self.seed ^= self.seed << 17;
                    self.seed % blocks
                }
            };
            self.next += 1;
            if row.iodepth > 1 {
                self.world.request_at_depth(row.iodepth, row.op, Lba(lba), BlockCount(1));
            } else {
                self.world.request(NanoSpan(1_000), row.op, Lba(lba), BlockCount(1));
            }
        }
    }
}
