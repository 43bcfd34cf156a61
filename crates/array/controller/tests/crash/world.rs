//! Devices in memory under the controller, whose power is cut after so many actions, and which are started again as they are then.
//!
//! A world of its own, because it counts actions up to the cut and keeps metadata areas; memories are the test kit's.

use raidlab_controller::{
    Action, Area, ArrayConfig, BufferSpace, Controller, HostError, HostOp, HostRequest, HostTag, MemberError,
    MemberIo, MemberOp, MemoryKind, MemorySteps, Notice,
};
use raidlab_format::{StartOptions, assemble};
use raidlab_testkit::{BLOCK, Memories, new_areas, start_nonce};
use raidlab_units::{BlockCount, Lba, Nanos};
use std::ops::Range;

/// A device: its data, then its metadata area.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) data: Vec<u8>,
    /// What of it a power loss leaves where the device's cache forgets all.
    pub(crate) durable: Vec<u8>,
    pub(crate) metadata: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) devices: Vec<Option<Device>>,
    staging: Vec<u8>,
    cache: Vec<u8>,
    hosts: Vec<Vec<u8>>,
    /// How each request ended, by its tag.
    ended: Vec<Option<Result<(), HostError>>>,
    /// Answers that said that data is lost.
    pub(crate) lost: usize,
    /// Times that a block did not fit its checksum.
    pub(crate) mismatches: usize,
    pub(crate) is_map_lost: bool,
    /// Writes of members, and those of them to the data areas.
    pub(crate) writes: usize,
    pub(crate) data_writes: usize,
    /// Actions left until power is cut.
    pub(crate) fuse: u64,
    pub(crate) serving: bool,
    /// Blocks of the second device's metadata area whose writes don't end, and those that have not.
    pub(crate) withheld: Range<u64>,
    pub(crate) held: Vec<MemberIo>,
}

/// Power went.
#[derive(Debug)]
pub(crate) struct Cut;

impl World {
    pub(crate) fn create(config: &ArrayConfig) -> Self {
        Self::create_in(config, false)
    }

    pub(crate) fn create_in(config: &ArrayConfig, needs_resync: bool) -> Self {
        let data = vec![0; config.member_size.0 as usize];
        let devices = new_areas(config, needs_resync)
            .into_iter()
            .map(|metadata| Some(Device { data: data.clone(), durable: data.clone(), metadata }))
            .collect();
        Self::start(config, devices, u64::MAX)
    }

    pub(crate) fn start(config: &ArrayConfig, devices: Vec<Option<Device>>, fuse: u64) -> Self {
        Self::start_without(config, devices, (fuse, 0..0))
    }

    /// The same while some writes of metadata don't end.
    pub(crate) fn start_without(
        config: &ArrayConfig,
        devices: Vec<Option<Device>>,
        (fuse, withheld): (u64, Range<u64>),
    ) -> Self {
        let mut world = Self { fuse, withheld, ..Self::assembled(config, devices) };
        let _ = world.run();
        world
    }

    /// One that has begun to start, and has asked nothing of its devices yet.
    pub(crate) fn assembled(config: &ArrayConfig, devices: Vec<Option<Device>>) -> Self {
        let areas: Vec<_> =
            devices.iter().map(|device| device.as_ref().map(|device| &*device.metadata)).collect();
        let assembly = assemble(&areas, None, StartOptions::default()).expect("an array");
        let controller = Controller::start(config, assembly, start_nonce()).expect("it starts");
        let needs = controller.memory_needs();
        Self {
            staging: vec![0xee; needs.staging_bytes.0 as usize],
            cache: vec![0xcc; needs.cache_bytes.0 as usize],
            controller,
            devices,
            hosts: Vec::new(),
            ended: Vec::new(),
            lost: 0,
            mismatches: 0,
            is_map_lost: false,
            writes: 0,
            data_writes: 0,
            fuse: u64::MAX,
            serving: false,
            withheld: 0..0,
            held: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), Cut> {
        while let Some(action) = self.controller.poll_action() {
            let cut = self.fuse == 0;
            self.fuse = self.fuse.saturating_sub(1);
            match action {
                Action::Member(io) => self.member_io(io, cut)?,
                _ if cut => return Err(Cut),
                Action::Memory(task) if task.kind == MemoryKind::Digest => {
                    let mut rows = Vec::new();
                    self.controller.digest_rows(task.id, &mut rows);
                    let digests = self.digests(&rows);
                    self.controller.handle_digests(Nanos::ZERO, task.id, &digests);
                }
                Action::Memory(task) => {
                    let mut steps = MemorySteps::default();
                    self.controller.memory_steps(task.id, &mut steps);
                    self.compute(&steps, || true);
                    self.controller.handle_memory_completion(Nanos::ZERO, task.id);
                }
                Action::Complete(completion) => {
                    match completion.result {
                        Err(HostError::DataLost { .. }) => self.lost += 1,
                        result => result.expect("nothing else fails here"),
                    }
                    self.ended[completion.tag.0 as usize] = Some(completion.result);
                }
                Action::Notice(Notice::Serving) => self.serving = true,
                Action::Notice(Notice::Mismatch { .. }) => self.mismatches += 1,
                Action::Notice(Notice::WrittenMapLost) => self.is_map_lost = true,
                Action::Timer { .. } | Action::Keep(_) | Action::Notice(_) => {}
            }
        }
        Ok(())
    }

    fn member_io(&mut self, io: MemberIo, cut: bool) -> Result<(), Cut> {
        let is_withheld = io.member.index() == 1 && self.withheld.contains(&io.lba.0);
        if io.area == Area::Metadata && is_withheld {
            self.held.push(io);
            return Ok(());
        }
        let mut segments = Vec::new();
        self.controller.member_io_segments(io.id, &mut segments);
        let mut bytes = self.gather(&segments);
        let Some(device) = &mut self.devices[io.member.index()] else {
            self.controller.handle_member_loss(Nanos::ZERO, io.member);
            self.controller.handle_member_completion(Nanos::ZERO, io.id, Err(MemberError::Gone));
            return Ok(());
        };
        let area = match io.area {
            Area::Data => &mut device.data,
            Area::Metadata => &mut device.metadata,
        };
        let area = &mut area[io.lba.0 as usize * BLOCK..];
        match io.op {
            MemberOp::Read => bytes = area[..bytes.len()].to_vec(),
            MemberOp::Write { .. } => {
                self.writes += 1;
                self.data_writes += usize::from(io.area == Area::Data);
                // What is under way when power goes is written up to its middle.
                let blocks = if cut { io.blocks.0 / 2 } else { io.blocks.0 } as usize;
                area[..blocks * BLOCK].copy_from_slice(&bytes[..blocks * BLOCK]);
                if io.area == Area::Data && io.op == (MemberOp::Write { fua: true }) {
                    let durable = &mut device.durable[io.lba.0 as usize * BLOCK..];
                    durable[..blocks * BLOCK].copy_from_slice(&bytes[..blocks * BLOCK]);
                }
            }
            MemberOp::Flush => device.durable.clone_from(&device.data),
            MemberOp::Discard => {}
        }
        if io.op == MemberOp::Read {
            self.scatter(&bytes, &segments);
        }
        if cut {
            return Err(Cut);
        }
        self.controller.handle_member_completion(Nanos::ZERO, io.id, Ok(()));
        Ok(())
    }

    /// Makes a request; returns its tag.
    pub(crate) fn submit(&mut self, op: HostOp, lba: u64, data: Vec<u8>) -> Result<HostTag, Cut> {
        let tag = HostTag(self.hosts.len() as u32);
        let blocks = BlockCount((data.len() / BLOCK) as u64);
        self.hosts.push(data);
        self.ended.push(None);
        self.controller.handle_host_request(Nanos::ZERO, HostRequest { tag, op, lba: Lba(lba), blocks });
        self.run()?;
        Ok(tag)
    }

    /// How a request has ended, if it has.
    pub(crate) fn end_of(&self, tag: HostTag) -> Option<Result<(), HostError>> {
        self.ended[tag.0 as usize]
    }

    /// Makes a request, which is answered; returns what is in its buffer then.
    pub(crate) fn request(&mut self, op: HostOp, lba: u64, data: Vec<u8>) -> Result<Vec<u8>, Cut> {
        let tag = self.submit(op, lba, data)?;
        assert!(self.end_of(tag).is_some(), "{op:?} at {lba} was not answered");
        Ok(self.hosts[tag.0 as usize].clone())
    }
}

impl Memories for World {
    fn space(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Own => self.controller.own_memory_mut(),
            BufferSpace::Host(tag) => &mut self.hosts[tag.0 as usize],
            BufferSpace::Staging => &mut self.staging,
            BufferSpace::Cache => &mut self.cache,
            other => panic!("{other:?} is not written here"),
        }
    }
}
