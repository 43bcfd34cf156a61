//! What the emulated world asks of a model, which it does not know.

use raidlab_controller::{Controller, HostRequest, HostTag, Notice};
use raidlab_format::DeviceUuid;
use raidlab_units::{BlockSize, MemberIndex, Nanos};

/// How a modelled array answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelledAnswer {
    /// Tag of the request.
    pub tag: HostTag,
    /// When.
    pub at: Nanos,
    /// Whether it was done.
    pub succeeded: bool,
}

/// A modelled array whose requests come from outside, at times of another clock that does not go back.
pub trait Modelled: std::fmt::Debug {
    /// Length of a block.
    fn block_size(&self) -> BlockSize;
    /// The controller.
    fn controller(&self) -> &Controller;
    /// Takes a request that begins at `now`.
    fn handle_request(&mut self, now: Nanos, request: HostRequest);
    /// When something happens next, if nothing comes from outside.
    fn next_at(&self) -> Option<Nanos>;
    /// Lets all happen that happens until `now`.
    fn advance(&mut self, now: Nanos);
    /// The next answer that has become due.
    fn poll_answer(&mut self) -> Option<ModelledAnswer>;
    /// The next thing that the controller says.
    fn poll_notice(&mut self) -> Option<Notice>;
    /// Has an operator act on the controller.
    fn operate<T>(&mut self, now: Nanos, act: impl FnOnce(&mut Controller) -> T) -> T;
    /// Takes a member away.
    fn fail_member(&mut self, now: Nanos, member: MemberIndex);
    /// Puts a new drive in a place.
    fn add_member(&mut self, now: Nanos, member: MemberIndex, device_uuid: DeviceUuid);
}
