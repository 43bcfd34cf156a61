//! Where a volume's requests come from: a driver of its own, or a host with files on it.

use raidlab_workload::Driver;
use std::collections::VecDeque;

/// Who asks, and who is told when a request has ended.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a driver is asked for every request, and there is one for each volume"
)]
pub(super) enum Load {
    /// A driver, asked for more whenever something ends.
    Driver(Driver),
    /// A host, which takes the slots of ended requests from here when it is its turn.
    Host(VecDeque<u32>),
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
