//! The volumes of an enclosure as a host with files sees them: requests go in one by one, answers come out.
//!
//! A world calls [`ArrayPort::handle_request`] for each request. It asks [`ArrayPort::next_at`] for the time of the
//! next event, calls [`ArrayPort::handle_next`] when that is the earliest of all, and takes completions from
//! [`ArrayPort::poll_answer`]. Several ports share no hardware; their owner advances their clocks.

use super::load::{HostAnswer, HostIo, Load};
use super::service::Shared;
use super::spec::{SimError, SimulatedEnclosure, check_volume};
use super::volume::Volume;
use super::world::{build_volumes, handle_due};
use raidlab_controller::Counters;
use raidlab_units::{ByteCount, Nanos};
use raidlab_workload::{DriverIo, Rng};
use std::collections::VecDeque;

/// An enclosure without a load of its own.
#[derive(Debug)]
pub(crate) struct ArrayPort<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) volumes: Vec<Volume>,
    slot_volumes: Vec<u16>,
    /// The volume whose answers are not all taken.
    answered: Option<u16>,
}

impl<'a> ArrayPort<'a> {
    /// The volumes of `enclosure`, whose members turn as `random` has them.
    ///
    /// # Errors
    /// [`SimError`] if it can't be.
    pub(crate) fn new(enclosure: &'a SimulatedEnclosure, random: &mut Rng) -> Result<Self, SimError> {
        let mut machines = Vec::with_capacity(enclosure.volumes.len());
        for (index, volume) in enclosure.volumes.iter().enumerate() {
            check_volume(enclosure, index)?;
            machines.push((enclosure.controller_of(volume)?, Load::Host(VecDeque::new())));
        }
        let (volumes, slot_volumes) = build_volumes(enclosure, machines, random);
        let shared = Shared::new(enclosure, slot_volumes.len() as u32, volumes.len());
        let mut port = Self { shared, volumes, slot_volumes, answered: None };
        port.volumes.iter_mut().for_each(|volume| volume.pump_seldom(&mut port.shared));
        Ok(port)
    }

    /// Room of a volume.
    pub(crate) fn volume_bytes(&self, volume: u16) -> ByteCount {
        let volume = &self.volumes[usize::from(volume)];
        volume.block_size.bytes_of(volume.controller.volume_blocks())
    }

    /// Length of a block: requests are whole ones.
    pub(crate) fn block_bytes(&self, volume: u16) -> u64 {
        self.volumes[usize::from(volume)].block_size.bytes()
    }

    /// Sends a request; its slot is free to be used again when it is answered.
    pub(crate) fn handle_request(&mut self, now: Nanos, volume: u16, io: DriverIo) {
        self.handle_host_io(now, volume, io.into());
    }

    /// The same of a request that is no workload's: a write that is forced to the media.
    pub(crate) fn handle_host_io(&mut self, now: Nanos, volume: u16, io: HostIo) {
        self.shared.queue.advance_to(now);
        self.issue(now, volume, io);
    }

    /// The same of any kind of request, once the clock stands at `now`.
    pub(super) fn issue(&mut self, now: Nanos, volume: u16, io: HostIo) {
        let volume = &mut self.volumes[usize::from(volume)];
        let slot = io.slot as usize;
        if slot >= volume.host_ios.len() {
            volume.host_ios.resize(slot + 1, io);
        }
        volume.host_ios[slot] = io;
        volume.issue(&mut self.shared, now, io);
        volume.pump_seldom(&mut self.shared);
        let index = volume.index;
        self.note_answers(index);
    }

    /// When something is due next.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.shared.queue.next_at()
    }

    /// Does the next thing that is due.
    pub(crate) fn handle_next(&mut self) {
        let Some((now, due)) = self.shared.queue.pop() else { return };
        let index = handle_due(&mut self.volumes, &mut self.shared, &self.slot_volumes, now, due);
        self.note_answers(index);
    }

    /// Hands out a request that has ended, as volume and slot.
    #[inline]
    pub(crate) fn poll_answer(&mut self) -> Option<(u16, u32)> {
        self.take_answer().map(|(volume, answer)| (volume, answer.slot))
    }

    /// The same, with when and how.
    pub(super) fn take_answer(&mut self) -> Option<(u16, HostAnswer)> {
        let index = self.answered?;
        let Load::Host(answers) = &mut self.volumes[usize::from(index)].load else { return None };
        let answer = answers.pop_front();
        if answer.is_none() {
            self.answered = None;
        }
        answer.map(|answer| (index, answer))
    }

    /// What the controllers of all volumes counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.volumes.iter().for_each(|volume| counters.merge(&volume.counters()));
        counters
    }

    /// Notes a volume that may have answered. Answers are taken after each event, so at most one volume has some.
    pub(super) fn note_answers(&mut self, index: u16) {
        if let Load::Host(answers) = &self.volumes[usize::from(index)].load
            && !answers.is_empty()
        {
            self.answered = Some(index);
        }
    }
}
