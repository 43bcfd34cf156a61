//! What the kernel counts of a block device, and the load between two readings.
//!
//! Source: Linux, Documentation/block/stat.rst and Documentation/admin-guide/iostats.rst. Sectors have 512 bytes on
//! every device; times are milliseconds, summed over requests when they end.

use raidlab_workload::DeviceLoad;

/// The counters of a device since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    values: [u64; 11],
    /// Discards; none before Linux 4.18.
    discards: u64,
    /// Flushes; none before Linux 5.5.
    flushes: u64,
}

/// Bytes of a sector of the kernel's counters.
const SECTOR_BYTES: u64 = 512;

impl Counters {
    /// Reads a device's `stat`: eleven numbers, or more on later kernels.
    pub fn from_stat(stat: &str) -> Option<Self> {
        Self::from_fields(stat.split_ascii_whitespace())
    }

    /// Reads `/proc/diskstats`: a name and the counters of each device. Lines that are none are left out.
    pub fn all_from_diskstats(text: &str) -> impl Iterator<Item = (&str, Self)> {
        text.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let name = fields.nth(2)?;
            Some((name, Self::from_fields(fields)?))
        })
    }

    fn from_fields<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let all: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        let values = *all.first_chunk()?;
        let at = |index: usize| all.get(index).copied().unwrap_or(0);
        Some(Self { values, discards: at(11), flushes: at(15) })
    }

    /// Requests that are in the queue or the device at this moment.
    pub const fn in_flight(&self) -> u64 {
        self.values[8]
    }

    /// Whether anything was read or written since `before`.
    pub fn moved_since(&self, before: &Self) -> bool {
        (self.values[0], self.values[4]) != (before.values[0], before.values[4])
    }

    /// Discards and flushes since `before`.
    pub fn others_since(&self, before: &Self) -> (u64, u64) {
        (self.discards.saturating_sub(before.discards), self.flushes.saturating_sub(before.flushes))
    }

    /// The load in the `seconds` since `before` of the device called `name`.
    pub fn load_since(&self, before: &Self, seconds: f64, name: String) -> DeviceLoad {
        // Counters of 32-bit kernels wrap; a difference below zero tells nothing.
        let [
            reads,
            read_merges,
            read_sectors,
            read_ms,
            writes,
            write_merges,
            write_sectors,
            write_ms,
            _in_flight,
            busy_ms,
            queue_ms,
        ] = std::array::from_fn(|index| self.values[index].saturating_sub(before.values[index]));
        let mean_ns = |ms: u64, count: u64| if count > 0 { ms as f64 * 1e6 / count as f64 } else { 0.0 };
        DeviceLoad {
            name,
            reads,
            writes,
            read_merges,
            write_merges,
            read_bytes: read_sectors * SECTOR_BYTES,
            write_bytes: write_sectors * SECTOR_BYTES,
            read_ns_mean: mean_ns(read_ms, reads),
            write_ns_mean: mean_ns(write_ms, writes),
            in_flight_mean: queue_ms as f64 / 1e3 / seconds,
            utilisation: (busy_ms as f64 / 1e3 / seconds).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_make_a_load() {
        let before = Counters::from_stat("10 1 80 5 20 2 160 40 0 30 45 0 0 0 0\n").expect("a reading");
        let after =
            Counters::from_stat("110 3 880 205 220 6 1760 440 9 1030 2045 7 0 0 0 3 1\n").expect("one");
        let load = after.load_since(&before, 2.0, "sda".into());
        assert_eq!((load.reads, load.writes, load.read_merges, load.write_merges), (100, 200, 2, 4));
        assert_eq!((load.read_bytes, load.write_bytes), (800 * 512, 1600 * 512));
        assert_eq!((load.read_ns_mean, load.write_ns_mean), (2e6, 2e6));
        assert_eq!((load.in_flight_mean, load.utilisation), (1.0, 0.5));
        assert_eq!((after.in_flight(), after.others_since(&before)), (9, (7, 3)));
        assert!(after.moved_since(&before) && !after.moved_since(&after));
        // A counter that went back tells nothing, and does not overflow.
        assert_eq!(before.load_since(&after, 2.0, String::new()).reads, 0);
        assert_eq!(Counters::from_stat("1 2 x"), None);
        assert_eq!(Counters::from_stat("1 2 3"), None);
    }

    #[test]
    fn names_are_told_from_numbers_in_front() {
        let text = " 7 0 loop0 1 0 8 1 0 0 0 0 0 0 1\n 259 1 1 5 0 8 1 0 0 0 0 0 0 1 0 0\n  short 0 x\n";
        let found: Vec<(&str, u64)> =
            Counters::all_from_diskstats(text).map(|(name, it)| (name, it.values[0])).collect();
        assert_eq!(found, [("loop0", 1), ("1", 5)]);
    }
}
