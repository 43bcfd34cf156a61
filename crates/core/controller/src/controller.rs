//! Interface skeleton; the body follows.
use crate::api::*;
use crate::config::*;
use raidlab_units::*;

/// Why a configuration is no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Member reads issued.
    pub member_reads: u64,
    /// Member writes issued.
    pub member_writes: u64,
}

/// The controller.
#[derive(Debug)]
pub struct Controller;

#[allow(unused_variables, clippy::all, clippy::pedantic, missing_docs)]
impl Controller {
    pub fn new(config: &ArrayConfig) -> Result<Self, ConfigError> { unimplemented!() }
    pub fn memory_needs(&self) -> MemoryNeeds { unimplemented!() }
    pub fn volume_blocks(&self) -> BlockCount { unimplemented!() }
    pub fn failures_survived(&self) -> raidlab_raid::FailuresSurvived { unimplemented!() }
    pub fn handle_host_request(&mut self, now: Nanos, request: HostRequest) { unimplemented!() }
    pub fn handle_member_completion(&mut self, now: Nanos, id: MemberIoId, result: Result<(), MemberError>) { unimplemented!() }
    pub fn handle_memory_completion(&mut self, now: Nanos, id: MemoryTaskId) { unimplemented!() }
    pub fn handle_timer(&mut self, now: Nanos, id: TimerId) { unimplemented!() }
    /// The member is gone (pulled, dead, failed by the operator).
    pub fn handle_member_loss(&mut self, now: Nanos, member: MemberIndex) { unimplemented!() }
    pub fn poll_action(&mut self) -> Option<Action> { unimplemented!() }
    /// Appends nothing beyond this I/O's segments: clears `out` first. Valid until the I/O's completion.
    pub fn member_io_segments(&self, id: MemberIoId, out: &mut Vec<Segment>) { unimplemented!() }
    /// Clears and refills `out`. Valid until the task's completion.
    pub fn memory_steps(&self, id: MemoryTaskId, out: &mut MemorySteps) { unimplemented!() }
    pub fn counters(&self) -> Counters { unimplemented!() }
    /// True when nothing is in flight and no dirty block is left.
    pub fn is_idle(&self) -> bool { unimplemented!() }
}
