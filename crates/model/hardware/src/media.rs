//! The rate of writing a drive's media from end to end, which bounds a rebuild.
//!
//! A hard drive spends one rotation on each of its tracks, and the length of tracks falls evenly enough from the
//! outermost to the innermost, so the whole takes its capacity over the mean of both zones' rates. Flash programs as
//! many pages at once as it has dies, or as its power allows; a given amplification takes its part.

use crate::drive::{DriveKind, DriveModel};
use crate::hdd::MechanicsModel;
use raidlab_units::{BytesPerSec, NanoSpan};

impl DriveModel {
    /// Rate at which all of the drive can be written in sequence, no faster than its interface; `None` where the model was
    /// measured and gives no rates.
    pub fn full_write_rate(&self) -> Option<BytesPerSec> {
        let media = match &self.kind {
            DriveKind::HardDrive(hard) => match &hard.mechanics {
                MechanicsModel::DataSheet(sheet) => f64::midpoint(sheet.outer_rate.0, sheet.inner_rate.0),
                MechanicsModel::Measured(_) => return None,
            },
            DriveKind::SolidState(flash) => {
                let dies = f64::from(flash.channels) * f64::from(flash.dies_per_channel);
                let page_secs = flash.page_program.as_secs_f64() * flash.write_amplification;
                dies * flash.page_size.0 as f64 / page_secs
            }
            // Written from end to end, superblocks die as a whole, and nothing is moved.
            DriveKind::Flash(flash) => flash.cells.program_rate().0,
        };
        Some(BytesPerSec(media.min(self.interface.rate.0)))
    }

    /// Time to write all of the drive in sequence; see [`DriveModel::full_write_rate`].
    pub fn full_write_time(&self) -> Option<NanoSpan> {
        self.full_write_rate().map(|rate| rate.time_for(self.capacity.bytes()))
    }
}
