//! Bitmaps: whichever devices a start has, it doubts the same regions.
//!
//! If a region is marked on some devices only, that costs nothing while all devices are there. If the device with the newer map is
//! away, the start doubts stripes that agree. An array with parity is then refused, or gives up data that redundancy could restore.
//!
//! Verified: when power is cut or the array was stopped, and no map was on its way, all devices in sync tell the same regions by
//! the newest map that each has. Not verified: maps of devices of which a sector has rotted or was never written, and while a
//! device is lost, which comes back with what it had.

use crate::flights::Work;
use crate::members::Presence;
use crate::violation::{Failure, Violation};
use crate::world::{TortureWorld, is_in_sync};
use raidlab_controller::{Area, MemberOp, MetadataPolicy};
use raidlab_format::{AreaLayout, RegionMap, SECTOR_BYTES, SECTORS, check_sector};
use raidlab_units::{ByteCount, MemberIndex};

impl TortureWorld {
    /// Checks the maps of an array that is about to be gone.
    pub(crate) fn check_bitmaps(&mut self) -> Result<(), Failure> {
        self.look_at_states();
        if !self.controller().is_serving() || self.has_lost() || !self.has_bitmap() || self.is_map_under_way()
        {
            return Ok(());
        }
        let mut first: Option<RegionMap> = None;
        for index in 0..self.devices.len() {
            let device = &self.devices[index];
            let is_fit = device.presence == Presence::Here && !device.is_rotten();
            if !is_fit || !self.proven[index] || !is_in_sync(self.states[index]) {
                continue;
            }
            let Some(map) = self.newest_map(index) else { continue };
            match &first {
                Some(first) if *first != map => {
                    let member = MemberIndex(index as u16);
                    return Err(self.failure(Violation::BitmapsDiffer { member }));
                }
                Some(_) => {}
                None => first = Some(map),
            }
        }
        Ok(())
    }

    fn has_bitmap(&self) -> bool {
        let has_parity = self.layout.shape().parities > 0;
        let is_kept = match self.config.resilience.metadata {
            MetadataPolicy::Bitmap => true,
            MetadataPolicy::Log => !has_parity,
            MetadataPolicy::None | MetadataPolicy::Resync => false,
        };
        is_kept && (self.is_redundant() || self.config.resilience.integrity)
    }

    /// True while a map is on its way to a device.
    pub(crate) fn is_map_under_way(&self) -> bool {
        let block_bytes = self.config.block_size.bytes();
        let maps = AreaLayout::TAIL_BYTES / block_bytes..AreaLayout::FRONT_BYTES / block_bytes;
        self.flights.iter().any(|flight| {
            matches!(flight.work, Work::Member(io)
                if io.area == Area::Metadata && matches!(io.op, MemberOp::Write { .. }) && maps.contains(&io.lba.0))
        })
    }

    /// The newest map that a device has; nothing where a sector of either slot is none, as one that has rotted since the device was
    /// last looked at, or was never written.
    fn newest_map(&self, index: usize) -> Option<RegionMap> {
        let area = self.devices[index].metadata.bytes();
        let slots = AreaLayout::new(ByteCount(0)).bitmap;
        let slots = slots.map(|slot| slot.of(area).expect("the area has all of its parts"));
        let state = self.controller().array_state().expect("an array with a map keeps a state");
        let array_uuid = state.geometry.array_uuid;
        let is_whole = |slot: &[u8]| {
            let mut sectors = slot.chunks_exact(SECTOR_BYTES).take(SECTORS).enumerate();
            sectors.all(|(sector, bytes)| check_sector(bytes, sector, array_uuid).is_ok())
        };
        let found = || RegionMap::decode_newest(self.layout.stripe_count(), array_uuid, slots).map;
        slots.into_iter().all(is_whole).then(found)
    }
}
