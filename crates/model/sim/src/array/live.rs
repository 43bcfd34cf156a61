//! One volume whose requests come from outside, at times of another clock: the model behind an emulated array.
//!
//! ```text
//! handle_request(now) ──► everything due before, then the request ──► next_at ... advance(now) ──► poll_answer
//! ```
//! The caller's clock may be late: events happen at their virtual time, so a late caller changes what it sees of the
//! model and not the model's course. Members can be pulled and put back while it runs.
//!
//! Invariant: given times never go back.
//! Left out: bytes (the caller has them), and several volumes of one enclosure.

use super::load::HostIo;
use super::port::ArrayPort;
use super::spec::{SimError, SimulatedEnclosure};
use raidlab_controller::{Controller, HostRequest, HostTag, Notice};
use raidlab_format::DeviceUuid;
use raidlab_units::{BlockSize, ByteCount, MemberIndex, Nanos};
use raidlab_workload::Rng;
use std::collections::VecDeque;

/// The volume of every call.
const VOLUME: u16 = 0;

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAnswer {
    /// As in the request.
    pub tag: HostTag,
    /// When the modelled array answers.
    pub at: Nanos,
    /// Whether it was done.
    pub succeeded: bool,
}

/// A modelled array that is asked from outside.
#[derive(Debug)]
pub struct LiveArray<'a> {
    port: ArrayPort<'a>,
    answers: VecDeque<LiveAnswer>,
    /// Members to be put in places of which not all is quiet yet.
    joining: Vec<(MemberIndex, DeviceUuid)>,
}

impl<'a> LiveArray<'a> {
    /// The first volume of `enclosure`; `seed` decides how its spindles stand to each other.
    ///
    /// # Errors
    /// [`SimError`] if it can't be.
    pub fn new(enclosure: &'a SimulatedEnclosure, seed: u64) -> Result<Self, SimError> {
        if enclosure.volumes.is_empty() {
            return Err(SimError::NoVolumes);
        }
        let mut port = ArrayPort::new(enclosure, &mut Rng::new(seed))?;
        port.volumes[usize::from(VOLUME)].notices = Some(VecDeque::new());
        Ok(Self { port, answers: VecDeque::new(), joining: Vec::new() })
    }

    /// What the host sees.
    pub fn volume_bytes(&self) -> ByteCount {
        self.port.volume_bytes(VOLUME)
    }

    /// Length of a block: requests are whole ones.
    pub fn block_size(&self) -> BlockSize {
        self.port.volumes[usize::from(VOLUME)].block_size
    }

    /// The array's controller, to be asked how things are.
    pub fn controller(&self) -> &Controller {
        &self.port.volumes[usize::from(VOLUME)].controller
    }

    /// Takes in a request that comes at `now`. Its tag is free again when it is answered.
    pub fn handle_request(&mut self, now: Nanos, request: HostRequest) {
        self.advance(now);
        let block_bytes = self.block_size().bytes();
        let io = HostIo {
            slot: request.tag.0,
            op: request.op,
            offset_bytes: request.lba.0 * block_bytes,
            bytes: (request.blocks.0 * block_bytes) as u32,
        };
        self.port.issue(now, VOLUME, io);
        self.take_answers();
    }

    /// When something is due next.
    pub fn next_at(&self) -> Option<Nanos> {
        self.port.next_at()
    }

    /// Does all that is due until `now`.
    pub fn advance(&mut self, now: Nanos) {
        while self.port.next_at().is_some_and(|at| at <= now) {
            self.port.handle_next();
            self.take_answers();
            if !self.joining.is_empty() {
                self.admit(self.port.shared.queue.now());
            }
        }
        self.port.shared.queue.advance_to(now);
    }

    /// Hands out a request that has ended, in the order of their ends.
    pub fn poll_answer(&mut self) -> Option<LiveAnswer> {
        self.answers.pop_front()
    }

    /// Hands out what an operator should know.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.port.volumes[usize::from(VOLUME)].notices.as_mut()?.pop_front()
    }

    /// Lets an operator do something to the controller at `now`.
    pub fn operate<T>(&mut self, now: Nanos, act: impl FnOnce(&mut Controller) -> T) -> T {
        self.advance(now);
        let volume = &mut self.port.volumes[usize::from(VOLUME)];
        let outcome = act(&mut volume.controller);
        volume.pump_seldom(&mut self.port.shared);
        self.port.note_answers(VOLUME);
        self.take_answers();
        outcome
    }

    /// Pulls a member: what waits for it fails at once, what its drive has under way when that would have ended.
    ///
    /// # Panics
    /// If the array has no such member.
    pub fn fail_member(&mut self, now: Nanos, member: MemberIndex) {
        self.advance(now);
        self.joining.retain(|(joining, _)| *joining != member);
        self.port.volumes[usize::from(VOLUME)].members[member.index()].is_gone = true;
        self.operate(now, |controller| controller.handle_member_loss(now, member));
        let volume = &mut self.port.volumes[usize::from(VOLUME)];
        volume.fail_line(now, member);
        volume.pump_seldom(&mut self.port.shared);
        self.port.note_answers(VOLUME);
        self.take_answers();
    }

    /// Puts another drive of the same kind in the place of one that was pulled, as soon as nothing is under way there.
    ///
    /// # Panics
    /// If the array has no such member.
    pub fn add_member(&mut self, now: Nanos, member: MemberIndex, device_uuid: DeviceUuid) {
        self.advance(now);
        self.joining.push((member, device_uuid));
        self.admit(now);
    }

    fn admit(&mut self, now: Nanos) {
        let members = &mut self.port.volumes[usize::from(VOLUME)].members;
        let is_quiet = |(member, _): &(MemberIndex, DeviceUuid)| members[member.index()].is_quiet();
        let Some(at) = self.joining.iter().position(is_quiet) else { return };
        let (member, device_uuid) = self.joining.swap_remove(at);
        members[member.index()].is_gone = false;
        let volume = &mut self.port.volumes[usize::from(VOLUME)];
        volume.controller.handle_device_added(now, member, device_uuid);
        volume.pump_seldom(&mut self.port.shared);
        self.port.note_answers(VOLUME);
        self.take_answers();
    }

    fn take_answers(&mut self) {
        while let Some((_, answer)) = self.port.take_answer() {
            let tag = HostTag(answer.slot);
            self.answers.push_back(LiveAnswer { tag, at: answer.at, succeeded: answer.succeeded });
        }
    }
}
