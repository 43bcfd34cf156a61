//! The next step of a request or task, when a resource has finished with it.

use raidlab_controller::{MemberIoId, MemoryTaskId};

/// What is due, of which volume. Eight bytes, so that an entry of the event queue stays at 24.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) step: Step,
    /// The volume's incarnation when it was issued; events of earlier incarnations are dropped.
    pub(super) life: Life,
    pub(super) volume: u16,
    /// The host's slot, the member I/O or the memory task.
    pub(super) id: u32,
}

/// Counts the controllers that have served a volume, so that nothing meant for one comes to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life(pub(super) u8);

/// Which step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A host write's data has come over the host link.
    HostDataIn,
    /// The processor has taken in a host command.
    HostAccepted,
    /// The answer is at the host, a read's data with it; whether the request succeeded.
    HostAnswered { succeeded: bool },
    /// The processor has made a member command.
    MemberCommand,
    /// A member write's data has come over the member link; over a network, any command.
    MemberDataIn,
    /// A member read's data has come over the member link; over a network, any answer.
    MemberDataOut,
    /// The processor, and where it is mirrored the other controller, has done a memory task.
    MemoryDone,
    /// A stripe thread may have nothing more to do.
    Unplug,
}

const _: () = assert!(size_of::<Event>() == 8, "an event fits beside its time and its number in 24 bytes");

impl Event {
    pub(super) const fn member_io(self) -> MemberIoId {
        MemberIoId(self.id)
    }

    pub(super) const fn task(self) -> MemoryTaskId {
        MemoryTaskId(self.id)
    }
}
