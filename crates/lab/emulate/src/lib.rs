//! [Emulated](../../../docs/emulation.md) arrays: the simulated array, asked from outside, as the model of the runtime's emulated world.
//!
//! The runtime knows no hardware models and the simulation no served bytes; this crate is above both.
#![forbid(unsafe_code)]

use raidlab_controller::{Controller, HostRequest, Notice};
use raidlab_format::{ArrayName, DeviceUuid};
use raidlab_runtime::{ArrayError, Backing, EmulatedWorld, Modelled, ModelledAnswer};
use raidlab_sim::{LiveArray, SimError, SimulatedEnclosure};
use raidlab_units::{BlockSize, MemberIndex, Nanos};

/// A simulated array at the pace of the wall clock.
pub type EmulatedArray<'a> = EmulatedWorld<Model<'a>>;

/// A simulated array as the emulated world asks it.
#[derive(Debug)]
pub struct Model<'a>(LiveArray<'a>);

impl<'a> Model<'a> {
    /// The first volume of `enclosure`; `seed` decides how its spindles stand to each other.
    ///
    /// # Errors
    /// [`SimError`] if the array makes no sense.
    pub fn new(enclosure: &'a SimulatedEnclosure, seed: u64) -> Result<Self, SimError> {
        LiveArray::new(enclosure, seed).map(Self)
    }

    /// Serves it under the name of `name`, with its bytes in `backing`.
    ///
    /// # Errors
    /// [`ArrayError::Ring`] if this machine gives no `io_uring`.
    pub fn emulate(self, name: ArrayName, backing: Backing) -> Result<EmulatedArray<'a>, ArrayError> {
        EmulatedWorld::new(self, name, backing)
    }
}

impl Modelled for Model<'_> {
    fn block_size(&self) -> BlockSize {
        self.0.block_size()
    }

    fn controller(&self) -> &Controller {
        self.0.controller()
    }

    fn handle_request(&mut self, now: Nanos, request: HostRequest) {
        self.0.handle_request(now, request);
    }

    fn next_at(&self) -> Option<Nanos> {
        self.0.next_at()
    }

    fn advance(&mut self, now: Nanos) {
        self.0.advance(now);
    }

    fn poll_answer(&mut self) -> Option<ModelledAnswer> {
        let answer = self.0.poll_answer()?;
        Some(ModelledAnswer { tag: answer.tag, at: answer.at, succeeded: answer.succeeded })
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.0.poll_notice()
    }

    fn operate<T>(&mut self, now: Nanos, act: impl FnOnce(&mut Controller) -> T) -> T {
        self.0.operate(now, act)
    }

    fn fail_member(&mut self, now: Nanos, member: MemberIndex) {
        self.0.fail_member(now, member);
    }

    fn add_member(&mut self, now: Nanos, member: MemberIndex, device_uuid: DeviceUuid) {
        self.0.add_member(now, member, device_uuid);
    }
}
