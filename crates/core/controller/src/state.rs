//! The array's state on its devices: when a new generation is needed, and who waits for it.
//!
//! Whatever must be known after a restart (which devices hold what, bad blocks, whether redundancy agrees) is changed in
//! memory first; [`Controller::change_state`] then asks for a new generation on all devices. Writes and flushes
//! that could rely on the change end only when that generation is kept: see "The barrier" in
//! `docs/fault-tolerance.md`.

use crate::controller::Controller;

/// Generations of the array's state.
#[derive(Debug, Default)]
pub(crate) struct StateKeeper {
    /// The newest generation asked for.
    pub(crate) wanted: u64,
}

impl Controller {
    /// Notes that what the devices must remember has changed.
    pub(crate) fn change_state(&mut self) {
        self.state.wanted += 1;
    }
}
