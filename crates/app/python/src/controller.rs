//! The controller over `bytearray`s, one member I/O at a time: what a lecture on the write hole needs.
//!
//! The world of `controller/examples/own_world.rs`, but that Python decides when each member I/O is carried out, may look at the members'
//! bytes and spoil them, and may let power fail in between. Memory work is done at once. The array keeps nothing on its members: no log,
//! no bitmap, no state.

use crate::errors::{refused, refused_argument, refused_config};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PySlice};
use raidlab_controller::{
    Action, ArrayConfig, BufferRef, BufferSpace, CacheConfig, HostOp, HostRequest, HostTag, MemberCache,
    MemberIo, MemberOp, MemoryKind, MemorySteps, MemoryTaskId, Resilience, Segment, TimerId,
};
use raidlab_format::{DeviceUuid, row_checksum};
use raidlab_raid::kernel::combine;
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, Nanos};
use std::collections::BTreeMap;

/// Working memory, of which a request takes a few strips.
const STAGING: ByteCount = ByteCount::from_mib(1);

/// The most that members hold together.
const MEMBERS_MAX: u64 = 1 << 30;

/// A member I/O for Python: number, member, operation, first byte, bytes.
type Pending = (u32, u16, &'static str, u64, u64);

/// A request of the host.
struct Request {
    buffer: Vec<u8>,
    /// Whether it succeeded, once it has ended.
    ended: Option<bool>,
}

/// An array over `bytearray`s.
#[pyclass(module = "raidlab._raidlab")]
pub(crate) struct Controller {
    config: ArrayConfig,
    inner: raidlab_controller::Controller,
    members: Vec<Py<PyByteArray>>,
    lost: Vec<bool>,
    staging: Vec<u8>,
    requests: BTreeMap<u32, Request>,
    pending: BTreeMap<u32, MemberIo>,
    timers: BTreeMap<TimerId, Nanos>,
    now: Nanos,
    devices_added: u128,
}

#[pymethods]
impl Controller {
    /// An array of zeros.
    #[new]
    fn new(
        py: Python<'_>,
        level: &str,
        members: u16,
        member_size: &str,
        strip: &str,
        block: &str,
    ) -> PyResult<Self> {
        let size = |name: &str, text: &str| -> PyResult<ByteCount> {
            text.parse().map_err(|error| refused_argument(name, format_args!("'{text}'"), error))
        };
        let member_bytes = size("member_size", member_size)?;
        if u64::from(members).saturating_mul(member_bytes.0) > MEMBERS_MAX {
            return Err(refused_argument(
                "member_size",
                format_args!("'{member_size}'"),
                "members hold 1 GiB together at most",
            ));
        }
        let config = ArrayConfig {
            level: level
                .parse()
                .map_err(|error| refused_argument("level", format_args!("'{level}'"), error))?,
            members,
            strip_size: size("strip", strip)?,
            block_size: BlockSize::new(size("block", block)?.0)
                .map_err(|error| refused_argument("block", format_args!("'{block}'"), error))?,
            member_size: member_bytes,
            member_cache: MemberCache::Off,
            cache: CacheConfig { size: ByteCount(0), ..CacheConfig::default() },
            staging_size: STAGING,
            resilience: Resilience::default(),
        };
        let inner = raidlab_controller::Controller::new(&config).map_err(|error| {
            let sizes = [("member_size", member_size), ("strip", strip), ("block", block), ("level", level)];
            let given = sizes.map(|(name, text)| (name.to_owned(), text.into()));
            let members = ("members".to_owned(), members.into());
            refused_config(&error, &given.into_iter().chain([members]).collect())
        })?;
        let zeros = vec![0; member_bytes.0 as usize];
        Ok(Self {
            staging: vec![0; inner.memory_needs().staging_bytes.0 as usize],
            members: (0..members).map(|_| PyByteArray::new(py, &zeros).unbind()).collect(),
            lost: vec![false; usize::from(members)],
            requests: BTreeMap::new(),
            pending: BTreeMap::new(),
            timers: BTreeMap::new(),
            now: Nanos(0),
            devices_added: 0,
            config,
            inner,
        })
    }

    /// The members' bytes: what is changed in them is changed on the device.
    #[getter]
    fn members(&self, py: Python<'_>) -> Vec<Py<PyByteArray>> {
        self.members.iter().map(|member| member.clone_ref(py)).collect()
    }

    /// Blocks that the host sees.
    #[getter]
    fn volume_blocks(&self) -> u64 {
        self.inner.volume_blocks().0
    }

    /// Bytes of a block.
    #[getter]
    fn block_bytes(&self) -> u64 {
        self.config.block_size.bytes()
    }

    /// Members that have been lost.
    #[getter]
    fn lost(&self) -> Vec<u16> {
        (0..).zip(&self.lost).filter(|(_, is_lost)| **is_lost).map(|(member, _)| member).collect()
    }

    /// Hands in a read of so many blocks, or a write of `data`, and returns its number.
    fn begin(&mut self, py: Python<'_>, lba: u64, blocks: u64, data: Option<Vec<u8>>) -> PyResult<u32> {
        let block = self.config.block_size.bytes();
        let end = lba.checked_add(blocks).filter(|end| *end <= self.volume_blocks() && blocks > 0);
        if end.is_none() {
            let problem = format!("the volume has the blocks 0 to {}", self.volume_blocks() - 1);
            return Err(refused_argument("lba", format!("{lba}, {blocks} blocks"), problem));
        }
        let op = if data.is_some() { HostOp::Write { fua: false } } else { HostOp::Read };
        let buffer = data.unwrap_or_else(|| vec![0; (blocks * block) as usize]);
        // The smallest that is free, as the controller wants them.
        let tag = (0..=self.requests.len() as u32).find(|tag| !self.requests.contains_key(tag));
        let tag = tag.expect("there is one number more than requests");
        self.requests.insert(tag, Request { buffer, ended: None });
        let request = HostRequest { tag: HostTag(tag), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.inner.handle_host_request(self.now, request);
        self.pump();
        self.settle(py)?;
        Ok(tag)
    }

    /// Member I/Os that wait to be carried out: number, member, operation, first byte, bytes.
    fn pending(&self) -> Vec<Pending> {
        let block = self.config.block_size.bytes();
        let told = |io: &MemberIo| {
            let op = match io.op {
                MemberOp::Read => "read",
                MemberOp::Write { .. } => "write",
                MemberOp::Flush => "flush",
                MemberOp::Discard => "discard",
            };
            (io.id.0, io.member.0, op, io.lba.0 * block, io.blocks.0 * block)
        };
        self.pending.values().map(told).collect()
    }

    /// Carries out a member I/O.
    fn finish(&mut self, py: Python<'_>, io: u32) -> PyResult<()> {
        let Some(io) = self.pending.get(&io).copied() else {
            return Err(refused_argument("io", io, "it is not pending"));
        };
        self.move_bytes(py, &io)?;
        self.pending.remove(&io.id.0);
        self.inner.handle_member_completion(self.now, io.id, Ok(()));
        self.pump();
        self.settle(py)
    }

    /// What a request came to, once it has ended: whether it succeeded, and its bytes. It is forgotten then.
    fn take_result<'py>(
        &mut self,
        py: Python<'py>,
        request: u32,
    ) -> PyResult<Option<(bool, Bound<'py, PyBytes>)>> {
        let Some(Request { ended, .. }) = self.requests.get(&request) else {
            return Err(refused_argument(
                "request",
                request,
                "there is none of that number; a power failure takes them",
            ));
        };
        let Some(is_ok) = *ended else { return Ok(None) };
        let Request { buffer, .. } = self.requests.remove(&request).expect("it was there");
        Ok(Some((is_ok, PyBytes::new(py, &buffer))))
    }

    /// A member is gone, with what is pending there.
    fn lose(&mut self, py: Python<'_>, member: u16) -> PyResult<()> {
        let Some(lost) = self.lost.get_mut(usize::from(member)) else {
            return Err(refused_argument("member", member, format!("there are {}", self.members.len())));
        };
        *lost = true;
        self.inner.handle_member_loss(self.now, MemberIndex(member));
        let gone: Vec<_> = self.pending.values().filter(|io| io.member.0 == member).map(|io| io.id).collect();
        for id in gone {
            self.pending.remove(&id.0);
            self.inner.handle_member_completion(self.now, id, Err(raidlab_controller::MemberError::Gone));
        }
        self.pump();
        self.settle(py)
    }

    /// A new device, of zeros, stands in a lost member's place: it is rebuilt by what becomes pending.
    fn replace(&mut self, py: Python<'_>, member: u16) -> PyResult<()> {
        match self.lost.get_mut(usize::from(member)) {
            Some(lost @ true) => *lost = false,
            _ => return Err(refused_argument("member", member, "only a lost member can be replaced")),
        }
        let zeros = vec![0; self.config.member_size.0 as usize];
        self.members[usize::from(member)] = PyByteArray::new(py, &zeros).unbind();
        self.devices_added += 1;
        let uuid = DeviceUuid(self.devices_added.to_be_bytes());
        self.inner.handle_device_added(self.now, MemberIndex(member), uuid);
        self.pump();
        self.settle(py)
    }

    /// Power fails: what is pending was never done, requests under way are forgotten. The array starts again from its members' bytes.
    fn crash(&mut self, py: Python<'_>) -> PyResult<()> {
        self.inner = raidlab_controller::Controller::new(&self.config).map_err(refused)?;
        self.pending.clear();
        self.requests.clear();
        self.timers.clear();
        for member in self.lost() {
            self.inner.handle_member_loss(self.now, MemberIndex(member));
        }
        self.pump();
        self.settle(py)
    }

    /// Makes redundancy anew from the data in all stripes, by what becomes pending.
    fn resync(&mut self, py: Python<'_>) -> PyResult<()> {
        self.inner.mark_out_of_sync(0..self.inner.lock_count());
        // It begins with the next event, which this is.
        self.inner.handle_timer(self.now, TimerId(0));
        self.pump();
        self.settle(py)
    }
}

impl Controller {
    /// Takes all actions: memory work is done, member I/Os become pending.
    fn pump(&mut self) {
        while let Some(action) = self.inner.poll_action() {
            self.now = Nanos(self.now.0 + 1);
            match action {
                Action::Member(io) => {
                    self.pending.insert(io.id.0, io);
                }
                Action::Memory(task) if task.kind == MemoryKind::Digest => {
                    let mut segments: Vec<Segment> = Vec::new();
                    self.inner.digest_rows(task.id, &mut segments);
                    let row_bytes = self.config.block_size.bytes() as usize;
                    let mut digests = Vec::new();
                    for Segment { buffer, bytes } in segments {
                        digests.extend(self.memory(buffer, bytes).chunks_exact(row_bytes).map(row_checksum));
                    }
                    self.inner.handle_digests(self.now, task.id, &digests);
                }
                Action::Memory(task) => {
                    self.memory_task(task.id);
                    self.inner.handle_memory_completion(self.now, task.id);
                }
                Action::Complete(completion) => {
                    if let Some(request) = self.requests.get_mut(&completion.tag.0) {
                        request.ended = Some(completion.result.is_ok());
                    }
                }
                Action::Timer { id, at } => {
                    self.timers.insert(id, at);
                }
                Action::Notice(_) | Action::Keep(_) => {}
            }
        }
    }

    /// Nothing is to be done but to wait, for a request or for a scan: time passes until the next timer.
    fn settle(&mut self, py: Python<'_>) -> PyResult<()> {
        let waits = |it: &Self| {
            let is_asked = it.requests.values().any(|request| request.ended.is_none());
            it.pending.is_empty() && (is_asked || it.inner.scan_progress().is_some())
        };
        while waits(self) {
            py.check_signals()?;
            let Some((id, at)) = self.timers.iter().map(|(id, at)| (*id, *at)).min_by_key(|(_, at)| *at)
            else {
                return Ok(());
            };
            self.timers.remove(&id);
            self.now = self.now.max(at);
            self.inner.handle_timer(self.now, id);
            self.pump();
        }
        Ok(())
    }

    /// The memory that a buffer names; none if its request was forgotten. This array has no cache, and keeps nothing on its members.
    fn memory(&mut self, buffer: BufferRef, bytes: u64) -> &mut [u8] {
        let space = match buffer.space {
            BufferSpace::Host(tag) => {
                &mut self.requests.get_mut(&tag.0).expect("its request is under way").buffer
            }
            BufferSpace::Staging => &mut self.staging,
            other => unreachable!("an array without a cache and metadata does not use {other:?}"),
        };
        &mut space[buffer.offset as usize..][..bytes as usize]
    }

    fn memory_task(&mut self, id: MemoryTaskId) {
        let mut task = MemorySteps::default();
        self.inner.memory_steps(id, &mut task);
        for step in &task.steps {
            let sources = &task.sources[step.first_source as usize..][..step.source_count as usize];
            let sources: Vec<_> =
                sources.iter().map(|source| self.memory(*source, step.bytes).to_vec()).collect();
            let destinations = &step.destinations[..usize::from(step.destination_count)];
            let mut sums: Vec<_> =
                destinations.iter().map(|place| self.memory(*place, step.bytes).to_vec()).collect();
            let count = sums.len() * sources.len();
            combine(
                &mut sums.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
                &sources.iter().map(Vec::as_slice).collect::<Vec<_>>(),
                &task.coefficients[step.first_coefficient as usize..][..count],
                step.accumulate,
            );
            for (place, sum) in destinations.iter().zip(&sums) {
                self.memory(*place, step.bytes).copy_from_slice(sum);
            }
        }
    }

    /// Moves the bytes of a member I/O.
    fn move_bytes(&mut self, py: Python<'_>, io: &MemberIo) -> PyResult<()> {
        let member = self.members[io.member.index()].clone_ref(py).into_bound(py);
        if member.len() as u64 != self.config.member_size.0 {
            let problem =
                format!("it has {} bytes and must have {}", member.len(), self.config.member_size.0);
            return Err(refused_argument("members", io.member.0, problem));
        }
        let mut segments: Vec<Segment> = Vec::new();
        self.inner.member_io_segments(io.id, &mut segments);
        let mut at = io.lba.0 * self.config.block_size.bytes();
        for Segment { buffer, bytes } in segments {
            let place = PySlice::new(py, index(at), index(at + bytes), 1);
            match io.op {
                MemberOp::Read => {
                    let read: Vec<u8> = member.get_item(place)?.extract()?;
                    self.memory(buffer, bytes).copy_from_slice(&read);
                }
                MemberOp::Write { .. } => {
                    let written = PyBytes::new(py, self.memory(buffer, bytes));
                    member.set_item(place, written)?;
                }
                MemberOp::Flush | MemberOp::Discard => {}
            }
            at += bytes;
        }
        Ok(())
    }
}

/// A place in a member, as Python counts.
fn index(at: u64) -> isize {
    isize::try_from(at).expect("members hold 1 GiB at most")
}
