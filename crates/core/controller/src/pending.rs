//! Stand-ins for what is being merged.
use crate::controller::Controller;
use raidlab_format::{BadRange, RegionMap};
use raidlab_units::StripeIndex;
#[derive(Debug, Default)]
pub(crate) struct BadBlocks;
impl BadBlocks {
    pub(crate) fn ranges(&self) -> impl Iterator<Item = BadRange> + '_ {
        core::iter::empty()
    }
    pub(crate) fn restore(&mut self, _: &[BadRange]) {}
}
impl Controller {
    pub(crate) fn mark_unsynced(&mut self, _: &RegionMap) {}
    pub(crate) fn mark_stripe_unsynced(&mut self, _: StripeIndex) {}
    pub(crate) fn begin_background_work(&mut self) {}
}
