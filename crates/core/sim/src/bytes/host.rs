//! The host's side of the world: requests with their patterns, and what an answer must satisfy.

use super::memory::Place;
use super::violation::{Failure, Violation};
use super::volume::{BlockFault, Stamp, WriteNumber, fill_pattern};
use super::world::ByteWorld;
use raidlab_controller::{BatteryState, MemberCache};
use raidlab_controller::{BufferSpace, CacheMemory, HostCompletion, HostError, HostOp, HostRequest, HostTag};
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba};

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostInFlight {
    pub(super) request: HostRequest,
    pub(super) started: Stamp,
    pub(super) write: WriteNumber,
}

impl ByteWorld {
    pub(super) fn free_tag(&mut self) -> HostTag {
        let free = self.hosts.iter().position(Option::is_none).unwrap_or(self.hosts.len());
        if free == self.hosts.len() {
            self.hosts.push(None);
            self.memories.host.push(Vec::new());
        }
        HostTag(free as u32)
    }

    /// Prepares the request's buffer and the reference.
    pub(super) fn begin_host(&mut self, request: &HostRequest) -> WriteNumber {
        let block_bytes = self.config.block_size.bytes() as usize;
        let buffer = &mut self.memories.host[request.tag.0 as usize];
        buffer.clear();
        buffer.resize(request.blocks.0 as usize * block_bytes, 0xa5);
        if !matches!(request.op, HostOp::Write { .. }) {
            return WriteNumber(0);
        }
        self.writes += 1;
        let write = WriteNumber(self.writes);
        let oldest = self.hosts.iter().flatten().map(|host| host.started).min().unwrap_or(self.stamp);
        for (index, block) in buffer.chunks_exact_mut(block_bytes).enumerate() {
            let lba = Lba(request.lba.0 + index as u64);
            fill_pattern(block, lba, write);
            self.volume.begin_write(lba, write, self.stamp, oldest);
        }
        write
    }

    pub(super) fn complete(&mut self, completion: HostCompletion) -> Result<(), Failure> {
        let tag = completion.tag;
        let untimely = Violation::UntimelyCompletion { completion };
        let host = self.hosts.get_mut(tag.0 as usize).and_then(Option::take);
        let Some(host) = host else { return Err(self.failure(untimely)) };
        let buffer = Place::Memory(BufferSpace::Host(tag));
        if self.in_flight.iter().flat_map(|it| &it.accesses).any(|access| access.place == buffer) {
            return Err(self.failure(untimely));
        }
        self.last_progress = self.stamp;
        let checked = match completion.result {
            Err(error) => self.check_failed(&host, error),
            Ok(()) => self.check_succeeded(&host),
        };
        checked.map_err(|violation| self.failure(violation))
    }

    fn check_failed(&mut self, host: &HostInFlight, error: HostError) -> Result<(), Box<Violation>> {
        let HostRequest { tag, op, lba, blocks } = host.request;
        let justified = match op {
            HostOp::Flush => {
                let stripes = self.stripes();
                stripes.indices().any(|stripe| stripes.is_failed(&self.members, stripe))
            }
            _ => self.stripes().is_range_failed(&self.members, lba, blocks),
        };
        if !justified {
            return Err(Violation::NeedlessFailure { tag, error }.into());
        }
        self.failed_requests += 1;
        self.end_write(host, false);
        Ok(())
    }

    fn check_succeeded(&mut self, host: &HostInFlight) -> Result<(), Box<Violation>> {
        let HostRequest { op, lba, blocks, .. } = host.request;
        self.end_write(host, true);
        // What is promised may change with the battery; a request that saw a change is held to nothing here.
        let steady = self.battery_changed < host.started;
        let write_through = steady && !self.controller.writes_back();
        let volatile = steady
            && (self.config.cache.memory == CacheMemory::Volatile || self.battery != BatteryState::Good);
        let member_cache = self.config.member_cache == MemberCache::On;
        match op {
            HostOp::Read => self.check_read(host),
            HostOp::Write { fua } if (write_through && (fua || !member_cache)) || (fua && volatile) => self
                .check_on_members(host, lba, blocks, |lba, content| {
                    self.volume.check_arrived(lba, content, host.write)
                }),
            HostOp::Flush if write_through || volatile => {
                self.check_on_members(host, Lba(0), self.controller.volume_blocks(), |lba, content| {
                    self.volume.check(lba, content, host.started).map(|_| ())
                })
            }
            HostOp::Write { .. } | HostOp::Flush => Ok(()),
        }
    }

    fn end_write(&mut self, host: &HostInFlight, succeeded: bool) {
        if matches!(host.request.op, HostOp::Write { .. }) {
            for lba in host.request.lba.0..host.request.lba.0 + host.request.blocks.0 {
                self.volume.end_write(Lba(lba), host.write, self.stamp, succeeded);
            }
        }
    }

    fn check_read(&mut self, host: &HostInFlight) -> Result<(), Box<Violation>> {
        let block_bytes = self.config.block_size.bytes() as usize;
        let buffer = &self.memories.host[host.request.tag.0 as usize];
        for (index, content) in buffer.chunks_exact(block_bytes).enumerate() {
            let lba = Lba(host.request.lba.0 + index as u64);
            if self.volume.is_undefined(lba, host.started) {
                continue;
            }
            let held = self.volume.check(lba, content, host.started);
            let held = held.map_err(|fault| Box::new(Violation::WrongRead { lba, fault }))?;
            self.volume.settle(lba, held, host.started);
        }
        Ok(())
    }

    /// Checks each block of the range on each member left that holds it, as it would be after a power loss.
    fn check_on_members(
        &self,
        host: &HostInFlight,
        first: Lba,
        blocks: BlockCount,
        check: impl Fn(Lba, &[u8]) -> Result<(), BlockFault>,
    ) -> Result<(), Box<Violation>> {
        let block_bytes = self.config.block_size.bytes() as usize;
        for lba in
            (first.0..first.0 + blocks.0).map(Lba).filter(|lba| !self.volume.is_undefined(*lba, host.started))
        {
            let (stripe, strip, block) = self.layout.locate(lba);
            for copy in 0..self.layout.shape().copies {
                let place = self.layout.place(stripe, StripUnit::Data { strip, copy });
                let member = &self.members[usize::from(place.member.0)];
                let start = (place.start.0 + block.0) as usize * block_bytes;
                let content = &member.durable[start..start + block_bytes];
                if let Err(fault) = check(lba, content)
                    && !member.is_lost()
                {
                    let (tag, member) = (host.request.tag, place.member);
                    return Err(Violation::NotOnMember { tag, member, lba, fault }.into());
                }
            }
        }
        Ok(())
    }
}
