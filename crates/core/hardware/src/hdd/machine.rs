use super::model::HardDriveModel;
use crate::drive::{DriveCompletion, DriveOptions, DriveRequest, SectorCount};
use crate::link::LinkModel;
use raidlab_units::Nanos;
#[derive(Clone, Debug)]
pub(crate) struct HardDrive;
impl HardDrive {
    pub(crate) fn new(_: &HardDriveModel, _: SectorCount, _: LinkModel, _: DriveOptions) -> Self {
        Self
    }
    pub(crate) fn handle_request(&mut self, _: Nanos, _: DriveRequest) {}
    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        None
    }
    pub(crate) fn handle_deadline(&mut self, _: Nanos) {}
    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        None
    }
}
