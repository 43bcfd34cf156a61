//! A world of your own: an array controller over plain vectors, with a member that fails. `cargo run -p raidlab-controller --example own_world`.
//!
//! The controller decides and never sees a byte. A world hands it what happened, carries out what it asks for, and reports back. Here all
//! is done at once: members are vectors, the clock counts events.

use raidlab_controller::{
    Action, ArrayConfig, BufferRef, BufferSpace, CacheConfig, Controller, HostOp, HostRequest, HostTag,
    MemberCache, MemberIo, MemberOp, MemorySteps, MemoryTaskId, Resilience, Segment,
};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, Nanos};

const BLOCK_BYTES: usize = 512;

/// Members, the memories that the controller names, and a clock that counts events.
struct World {
    controller: Controller,
    members: Vec<Vec<u8>>,
    host: Vec<u8>,
    staging: Vec<u8>,
    now: Nanos,
}

impl World {
    fn new(config: &ArrayConfig) -> Result<Self, Box<dyn std::error::Error>> {
        let controller = Controller::new(config)?;
        let staging = vec![0; controller.memory_needs().staging_bytes.0 as usize];
        let members = vec![vec![0; config.member_size.0 as usize]; usize::from(config.members)];
        Ok(Self { controller, members, host: Vec::new(), staging, now: Nanos(0) })
    }

    /// The memory that a buffer names. This array has no cache, and nothing of its own on the members.
    fn memory(&mut self, buffer: BufferRef, bytes: u64) -> &mut [u8] {
        let space = match buffer.space {
            BufferSpace::Host(_) => &mut self.host,
            BufferSpace::Staging => &mut self.staging,
            other => unreachable!("an array without a cache and metadata does not use {other:?}"),
        };
        &mut space[buffer.offset as usize..][..bytes as usize]
    }

    /// Reads or writes a member.
    fn member_io(&mut self, io: &MemberIo) {
        let mut segments: Vec<Segment> = Vec::new();
        self.controller.member_io_segments(io.id, &mut segments);
        let (member, mut at) = (usize::from(io.member.0), io.lba.0 as usize * BLOCK_BYTES);
        for Segment { buffer, bytes } in segments {
            let place = at..at + bytes as usize;
            match io.op {
                MemberOp::Read => {
                    let read = self.members[member][place].to_vec();
                    self.memory(buffer, bytes).copy_from_slice(&read);
                }
                MemberOp::Write { .. } => {
                    let written = self.memory(buffer, bytes).to_vec();
                    self.members[member][place].copy_from_slice(&written);
                }
                MemberOp::Flush | MemberOp::Discard => {}
            }
            at += bytes as usize;
        }
    }

    /// Combines memory. RAID 5 adds without factors: all coefficients are 1, and adding is XOR.
    fn memory_task(&mut self, id: MemoryTaskId) {
        let mut task = MemorySteps::default();
        self.controller.memory_steps(id, &mut task);
        for step in &task.steps {
            let mut sum = if step.accumulate {
                self.memory(step.destinations[0], step.bytes).to_vec()
            } else {
                vec![0; step.bytes as usize]
            };
            for source in &task.sources[step.first_source as usize..][..step.source_count as usize] {
                for (sum, byte) in sum.iter_mut().zip(self.memory(*source, step.bytes)) {
                    *sum ^= *byte;
                }
            }
            self.memory(step.destinations[0], step.bytes).copy_from_slice(&sum);
        }
    }

    /// Does one request of the host, and all that follows from it. Returns whether it succeeded.
    fn request(&mut self, op: HostOp, lba: u64, blocks: u64) -> bool {
        let request = HostRequest { tag: HostTag(0), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.controller.handle_host_request(self.now, request);
        let mut answer = None;
        while let Some(action) = self.controller.poll_action() {
            self.now = Nanos(self.now.0 + 1);
            match action {
                Action::Member(io) => {
                    self.member_io(&io);
                    self.controller.handle_member_completion(self.now, io.id, Ok(()));
                }
                Action::Memory(task) => {
                    self.memory_task(task.id);
                    self.controller.handle_memory_completion(self.now, task.id);
                }
                Action::Complete(completion) => answer = Some(completion.result.is_ok()),
                Action::Notice(notice) => println!("notice: {notice:?}"),
                Action::Timer { .. } | Action::Keep(_) => {}
            }
        }
        answer.expect("every request is answered when nothing is left to do")
    }

    fn write(&mut self, lba: u64, bytes: &[u8]) -> bool {
        self.host = bytes.to_vec();
        self.request(HostOp::Write { fua: false }, lba, (bytes.len() / BLOCK_BYTES) as u64)
    }

    fn read(&mut self, lba: u64, blocks: usize) -> Option<Vec<u8>> {
        self.host = vec![0; blocks * BLOCK_BYTES];
        self.request(HostOp::Read, lba, blocks as u64).then(|| self.host.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = ArrayConfig {
        level: "5".parse()?,
        members: 4,
        strip_size: ByteCount::from_kib(8),
        block_size: BlockSize::B512,
        member_size: ByteCount::from_kib(256),
        member_cache: MemberCache::Off,
        cache: CacheConfig { size: ByteCount(0), ..CacheConfig::default() },
        staging_size: ByteCount::from_kib(256),
        resilience: Resilience::default(),
    };
    let mut world = World::new(&config)?;
    let bytes: Vec<u8> = (0..100 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
    assert!(world.write(33, &bytes));
    // A member fails with all that it holds: the others have enough to make it up.
    world.members[1].fill(0xee);
    world.controller.handle_member_loss(world.now, MemberIndex(1));
    assert_eq!(world.read(33, 100).as_deref(), Some(&bytes[..]), "degraded, and all there");
    // RAID 5 survives one.
    world.controller.handle_member_loss(world.now, MemberIndex(2));
    println!(
        "with two members gone: {}",
        if world.read(33, 100).is_some() { "read" } else { "an error, as it must be" }
    );
    Ok(())
}
