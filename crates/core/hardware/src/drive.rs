//! The one interface of every drive model.

/// Address of a 512-byte sector on a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sector(pub u64);

/// A number of 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectorCount(pub u64);

/// What a drive is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveOp {
    /// From the media.
    Read,
    /// To the media.
    Write {
        /// Complete only when it is on the media.
        fua: bool,
    },
    /// Write the volatile cache out. Has no range.
    Flush,
}

/// One command to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveRequest {
    /// The caller's name for it, given back with the completion.
    pub id: u32,
    /// What to do.
    pub op: DriveOp,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: SectorCount,
}

/// A finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCompletion {
    /// The caller's name for it.
    pub id: u32,
}

/// A model of one drive, running in virtual time.
#[derive(Debug)]
pub struct Drive;

#[allow(unused_variables, clippy::all, clippy::pedantic)]
impl Drive {
    /// Queues `request` at `now`.
    pub fn handle_request(&mut self, now: raidlab_units::Nanos, request: DriveRequest) {
        unimplemented!()
    }

    /// When the drive next has something to do by itself, if it has.
    pub fn poll_deadline(&self) -> Option<raidlab_units::Nanos> {
        unimplemented!()
    }

    /// Does what is due at `now`.
    pub fn handle_deadline(&mut self, now: raidlab_units::Nanos) {
        unimplemented!()
    }

    /// Hands out the next finished command.
    pub fn poll_completion(&mut self) -> Option<DriveCompletion> {
        unimplemented!()
    }
}
