//! The source of a volume's requests: a driver, or a host with files on it.

use raidlab_controller::HostOp;
use raidlab_units::Nanos;
use raidlab_workload::{Driver, DriverIo, IoOp};
use std::collections::VecDeque;

/// A request of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostIo {
    /// Its slot, which serves as its tag.
    pub(crate) slot: u32,
    pub(crate) op: HostOp,
    /// Whole blocks, both.
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u32,
}

impl HostIo {
    /// What stands in a slot before its first request.
    pub(super) const NONE: Self = Self { slot: 0, op: HostOp::Read, offset_bytes: 0, bytes: 0 };
}

impl From<DriverIo> for HostIo {
    #[inline]
    fn from(io: DriverIo) -> Self {
        let op = match io.op {
            IoOp::Read => HostOp::Read,
            IoOp::Write => HostOp::Write { fua: false },
            IoOp::Flush | IoOp::FlushData => HostOp::Flush,
            IoOp::Trim => HostOp::Discard,
            IoOp::WriteZeroes => unreachable!("workloads are looked at before they run"),
        };
        Self { slot: io.slot, op, offset_bytes: io.offset_bytes, bytes: io.bytes }
    }
}

/// The end of a host's request.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostAnswer {
    pub(super) slot: u32,
    pub(super) at: Nanos,
    pub(super) succeeded: bool,
}

/// Who asks, and who is told when a request has ended.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a driver is asked for every request, and there is one for each volume"
)]
pub(super) enum Load {
    /// A driver, asked for more whenever something ends.
    Driver(Driver),
    /// A host, which takes the ends of its requests from here when it is its turn.
    Host(VecDeque<HostAnswer>),
}

impl Load {
    /// Requests that the driver may have in flight; a host has as many as it asks for.
    pub(super) fn iodepth(&self) -> u32 {
        match self {
            Self::Driver(driver) => driver.iodepth(),
            Self::Host(_) => 0,
        }
    }

    /// The driver, if it is one.
    pub(super) const fn driver(&self) -> Option<&Driver> {
        match self {
            Self::Driver(driver) => Some(driver),
            Self::Host(_) => None,
        }
    }
}
