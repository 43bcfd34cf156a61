//! How busy each device is, and which copy is the cheapest to read.
//!
//! The order of copies is the balance that Linux md strikes between spindles (drivers/md/raid1.c, `read_balance`).

use crate::api::MemberOp;
use crate::config::CacheConfig;
use crate::geometry::Geometry;
use crate::metadata::Metadata;
use crate::request::{CopySet, Fragment};
use crate::rules::ReadBalance;
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Strips on a member that a stream may pass over and still go on there.
const STREAM_GAP_STRIPS: u64 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct DeviceLoad {
    in_flight: u32,
    /// Where its latest read ended.
    position: MemberLba,
}

/// The I/Os that each device has in flight, and where its latest read ended.
#[derive(Debug)]
pub(crate) struct Loads {
    devices: Vec<DeviceLoad>,
    /// I/Os in flight that going on with a stream is worth.
    stream_lead: u32,
    read_balance: ReadBalance,
}

impl Loads {
    /// Idle devices under the rules of `cache`.
    pub(crate) fn new(devices: usize, cache: &CacheConfig) -> Self {
        let (stream_lead, read_balance) = (cache.stream_lead, cache.rules.read_balance);
        Self { devices: vec![DeviceLoad::default(); devices], stream_lead, read_balance }
    }

    /// Takes in that an I/O begins.
    #[inline]
    pub(crate) fn begin(&mut self, device: MemberIndex, op: MemberOp, lba: MemberLba, blocks: BlockCount) {
        let load = &mut self.devices[device.index()];
        load.in_flight += 1;
        // A write goes to all copies, and would leave them all at one place.
        if op == MemberOp::Read {
            load.position = lba + blocks;
        }
    }

    /// Takes in that an I/O has ended.
    #[inline]
    pub(crate) fn end(&mut self, device: MemberIndex) {
        self.devices[device.index()].in_flight -= 1;
    }

    /// True when the device has nothing in flight.
    #[inline]
    pub(crate) fn is_idle(&self, device: MemberIndex) -> bool {
        self.devices[device.index()].in_flight == 0
    }

    /// The present copy of a fragment that is cheapest to read, of those that were not tried, and where it stands.
    pub(crate) fn best_copy(
        &self,
        fragment: &Fragment,
        tried: CopySet,
        (geometry, metadata): (&Geometry, &Metadata),
    ) -> Option<(u16, UnitPlace)> {
        let Fragment { strip, rows: wanted, .. } = *fragment;
        let rows = BlockCount(u64::from(wanted.first));
        let doubted = metadata.doubted_copies(geometry, fragment);
        let present = |copy: u16| {
            let place = geometry.layout().place(fragment.stripe, StripUnit::Data { strip, copy });
            let device = metadata.holder(place).filter(|_| !tried.contains(copy))?;
            let is_readable = !metadata.is_bad(place, wanted)
                || (tried.is_last_round()
                    && metadata.may_be_read_again(geometry.lock_key(fragment), place, wanted));
            is_readable.then_some((copy, place, device))
        };
        let copies = doubted.unwrap_or(geometry.copies());
        if copies == 1 {
            return present(0).map(|(copy, place, _)| (copy, place));
        }
        let present = (0..copies).filter_map(present);
        // A stream passes over what it writes, so the nearest copy goes on with it if that is not far.
        let gap = STREAM_GAP_STRIPS * u64::from(geometry.strip_rows());
        let stream_way = if self.stream_lead > 0 {
            let ways = present.clone().map(|(_, place, device)| self.way(device, place.start + rows));
            ways.min().filter(|way| *way <= gap).unwrap_or(0)
        } else {
            0
        };
        present
            .min_by_key(|(copy, place, device)| {
                let first = doubted.map_or(0, |_| *copy);
                (first, self.read_cost(*device, place.start + rows, stream_way))
            })
            .map(|(copy, place, _)| (copy, place))
    }

    /// How far `lba` is from where the last read of `device` ended.
    #[inline]
    pub(crate) fn way(&self, device: MemberIndex, lba: MemberLba) -> u64 {
        self.devices[device.index()].position.0.abs_diff(lba.0)
    }

    /// How good `device` is for reading at `lba`: fewest in flight first, then the least way to go. Going on with a stream is
    /// worth `stream_lead` more in flight ([`CacheConfig::stream_lead`]); a copy no farther away than `stream_way` goes on
    /// with it.
    #[inline]
    pub(crate) fn read_cost(&self, device: MemberIndex, lba: MemberLba, stream_way: u64) -> (u32, u64) {
        let way = self.way(device, lba);
        let lead = if way <= stream_way { 0 } else { self.stream_lead };
        let in_flight = match self.read_balance {
            ReadBalance::FewestInFlight => self.devices[device.index()].in_flight,
            ReadBalance::IdleThenNearest => self.devices[device.index()].in_flight.min(1),
        };
        (in_flight + lead, way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ArrayRules;

    fn loads(stream_lead: u32, read_balance: ReadBalance) -> Loads {
        let rules = ArrayRules { read_balance, ..ArrayRules::OWN };
        Loads::new(2, &CacheConfig { stream_lead, rules, ..CacheConfig::default() })
    }

    const READ: MemberOp = MemberOp::Read;
    const WRITE: MemberOp = MemberOp::Write { fua: false };

    #[test]
    fn the_copy_with_fewest_in_flight_is_cheapest_unless_a_stream_goes_on() {
        // Two reads at the end of which copy 0 stands, none on copy 1.
        for (lead, balance, first) in [
            (0, ReadBalance::FewestInFlight, 1),
            (2, ReadBalance::FewestInFlight, 0),
            (1, ReadBalance::IdleThenNearest, 0),
            (0, ReadBalance::IdleThenNearest, 1),
        ] {
            let mut loads = loads(lead, balance);
            for lba in [0, 8] {
                loads.begin(MemberIndex(0), READ, MemberLba(lba), BlockCount(8));
            }
            let cost = |device| loads.read_cost(MemberIndex(device), MemberLba(16), 0);
            let cheapest = u16::from(cost(1) < cost(0));
            assert_eq!(cheapest, first, "lead {lead}, {balance:?}");
        }
    }

    #[test]
    fn writes_count_as_load_and_leave_the_place_of_the_latest_read() {
        let mut loads = loads(0, ReadBalance::FewestInFlight);
        loads.begin(MemberIndex(1), WRITE, MemberLba(100), BlockCount(8));
        assert!(loads.is_idle(MemberIndex(0)));
        assert!(!loads.is_idle(MemberIndex(1)));
        assert_eq!(loads.way(MemberIndex(1), MemberLba(7)), 7);
        loads.end(MemberIndex(1));
        assert!(loads.is_idle(MemberIndex(1)));
    }
}
