//! What parts cost beside each other and how much power they take where nobody says.
//!
//! **Prices** are such whose ratios are usual, in units of a terabyte of large disk. Drives are counted by what they hold and by what each
//! takes whatever it holds, other parts by their kind. No sum of these is money; they keep an answer from buying a terabyte of flash for
//! one of disk because it comes in fewer drives.
//!
//! Estimated: street prices of 2023 to 2025, in which a terabyte of a nearline disk was 15 to 20 dollars, one of flash for servers 80
//! to 150; "a premium of up to 6:1" (horizontechnology.com, HDD vs. Flash, 2025). Left out: that prices move, warranties, drive bays
//! that a server has anyway.
//!
//! **Power** of a drive is the mean of those of its kind whose sheets tell it (40 entries of the catalogue); of the other parts it is
//! estimated of sheets as recalled: adapters 10 to 15 W, controllers 20 to 25 W with their cache, shelves of 12 to 102 places 80 to 400 W
//! without drives.

use super::{ControllerPart, DrivePart, DrivePlaces, EnclosurePart, Make, Wear};

/// Of a disk, whatever it holds: motor, heads, case.
const DISK: f64 = 5.0;
/// Of a solid-state drive, whatever it holds.
const FLASH: f64 = 3.0;
/// Of a terabyte of flash.
const FLASH_TB: f64 = 6.0;
/// The same with two SAS ports, which fewer are made of.
const SAS_FLASH_TB: f64 = 8.0;
/// Bits in a cell of the flash that these are for: of fewer bits it takes more cells. More save none here: what is cheap of four bits is
/// made for reading, and a plan without a life to keep would buy it for anything.
const BITS: f64 = 3.0;
/// Flash for mixed use holds a fifth less of as many cells: so many times its capacity may be written in a day for five years.
const MIXED_USE_PER_DAY: f64 = 2.5;
const MIXED_USE: f64 = 1.2;
/// A terabyte of a disk with two arms beside one with one.
const SECOND_ARM: f64 = 1.15;
/// Of an adapter without a cache of its own.
const ADAPTER: f64 = 20.0;
/// Of a controller with a cache that outlives a power loss.
const CACHED_CONTROLLER: f64 = 60.0;
/// Of a shelf, and of each of its places; a server has its bays anyway.
const SHELF: f64 = 20.0;
const PLACE: f64 = 4.0;

/// Of a drive.
pub(super) fn drive(part: &DrivePart) -> f64 {
    let terabytes = part.capacity.0 as f64 / 1e12;
    match (part.make, &part.kind[..]) {
        (Make::Arms(arms), _) => DISK + terabytes * if arms > 1 { SECOND_ARM } else { 1.0 },
        (Make::Bits(bits), kind) => {
            let of_terabyte = if kind == "sas-ssd" { SAS_FLASH_TB } else { FLASH_TB };
            let cells = (BITS / f64::from(bits.max(1))).max(1.0);
            let cells = if is_for_mixed_use(part) { MIXED_USE * cells } else { cells };
            FLASH + of_terabyte * cells * terabytes
        }
    }
}

fn is_for_mixed_use(part: &DrivePart) -> bool {
    const DAYS: f64 = 5.0 * crate::risk::DAYS_PER_YEAR;
    match part.wear {
        Wear::Rated(rated) => rated.host_bytes >= MIXED_USE_PER_DAY * DAYS * part.capacity.0 as f64,
        Wear::None | Wear::Unknown => false,
    }
}

/// Of a controller. Software costs nothing; for drives that are neither on PCI Express nor at the mainboard it takes an adapter.
pub(super) fn controller(part: &ControllerPart) -> f64 {
    match board(part) {
        Board::None => 0.0,
        Board::Adapter => ADAPTER,
        Board::Cached => CACHED_CONTROLLER,
    }
}

/// What there is of a controller to be plugged in.
enum Board {
    None,
    Adapter,
    Cached,
}

fn board(part: &ControllerPart) -> Board {
    let is_direct = part.buses.iter().all(|bus| bus == "NVMe");
    match (part.places, part.is_battery_backed) {
        (DrivePlaces::Either, _) if is_direct => Board::None,
        (DrivePlaces::Mainboard, _) => Board::None,
        (_, true) => Board::Cached,
        (_, false) => Board::Adapter,
    }
}

/// Of an enclosure without drives.
pub(super) fn enclosure(part: &EnclosurePart) -> f64 {
    if part.is_server { 0.0 } else { SHELF + PLACE * f64::from(part.slots) }
}

/// Watts of a drive at work.
pub(super) fn drive_watts(part: &DrivePart) -> f64 {
    match &part.kind[..] {
        "hdd" => 9.3,
        "sata-ssd" => 4.5,
        "sas-ssd" => 12.0,
        _ => 16.4,
    }
}

/// Watts of a controller; of software for drives that are not on PCI Express, those of an adapter.
pub(super) fn controller_watts(part: &ControllerPart) -> f64 {
    match board(part) {
        Board::None => 0.0,
        Board::Adapter => 12.0,
        Board::Cached => 25.0,
    }
}

/// Watts of an enclosure without drives: expanders, and fans by its places. A server's bays take none of their own.
pub(super) fn enclosure_watts(part: &EnclosurePart) -> f64 {
    if part.is_server { 0.0 } else { 40.0 + 3.5 * f64::from(part.slots) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parts;
    use super::*;
    use raidlab_units::ByteCount;

    /// 200 TB for backups: ten disks of 24 TB, not three drives of 122 TB.
    #[test]
    fn few_large_drives_of_flash_take_more_than_many_disks() {
        let part = |kind: &str, gigabytes: u64| DrivePart {
            kind: kind.to_owned(),
            make: if kind == "hdd" { Make::Arms(1) } else { Make::Bits(3) },
            capacity: ByteCount(gigabytes * 1_000_000_000),
            ..parts().drives[0].clone()
        };
        assert!(10.0 * drive(&part("hdd", 24_000)) < 0.2 * 3.0 * drive(&part("nvme", 122_880)));
        // Twenty mirrors of disks for what two drives of flash do.
        assert!(40.0 * drive(&part("hdd", 2_400)) > 2.0 * drive(&part("nvme", 15_360)));
    }

    /// A log of single-level cells was to be the database, and disks with two arms the backup, at the price of usual ones.
    #[test]
    fn cells_and_arms_have_a_price() {
        let part = |make, kind: &str| DrivePart {
            kind: kind.to_owned(),
            make,
            capacity: ByteCount(2_000_000_000_000),
            ..parts().drives[0].clone()
        };
        let of = |make| drive(&part(make, "nvme"));
        assert_eq!([1, 3, 4].map(|bits| of(Make::Bits(bits))), [39.0, 15.0, 15.0]);
        assert!(of(Make::Arms(2)) > of(Make::Arms(1)));
        // 3 x 2 TB a day for five years.
        let wear = |host_bytes| Wear::Rated(super::super::Rating { host_bytes, amplification: 4.0 });
        let rated = |host_bytes| drive(&DrivePart { wear: wear(host_bytes), ..part(Make::Bits(3), "nvme") });
        assert_eq!((rated(3652e12), rated(10_957e12)), (15.0, 17.4));
    }

    /// Drives of PCI Express in the server's bays once took a shelf's price, which SATA drives there did not.
    #[test]
    fn bays_of_the_server_cost_nothing() {
        let shelf = parts().enclosures[0].clone();
        let bays = EnclosurePart { is_server: true, ..shelf.clone() };
        assert_eq!((enclosure(&bays), enclosure_watts(&bays)), (0.0, 0.0));
        assert_eq!((enclosure(&shelf), enclosure_watts(&shelf)), (68.0, 82.0));
    }
}
