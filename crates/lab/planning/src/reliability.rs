//! A drive's reliability from its catalogue entry: field data if there are some, else the maker's sheet.

use raidlab_advisor::risk::{FieldCount, Ranged, RebuildPace};
use raidlab_hardware::{DriveModel, FigureRange};
use raidlab_units::ByteCount;

/// Fields see up to so many times the failures that sheets tell: sheets of 0.58 to 0.88 % stood against 2 to 4 % of drives that
/// were replaced in a year, commonly.
///
/// Source: B. Schroeder, G. Gibson, "Disk failures in the real world", FAST 2007.
const FIELD_OVER_SHEET: f64 = 4.0;

/// Share of a member's time that a rebuild has on hardware controllers as they are delivered (LSI, Broadcom, Dell).
pub const REBUILD_SHARE: f64 = 0.3;

/// Days between checks (scrubs) of the whole array, as arrays are delivered: patrol reads and consistency checks of `MegaRAID` begin
/// every 168 hours, `raid-check` of Fedora and Red Hat on Sundays. Debian's `checkarray` comes once a month.
pub const CHECK_DAYS: f64 = 7.0;

/// A figure with its range, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownFigure {
    /// The figure.
    pub range: Ranged,
    /// Its source.
    pub source: String,
}

/// Share of such drives that fails in a year, from 0 to 1: of this model's own count with its exact interval, else as the field
/// saw its class, else as the maker says, which fields exceed; none where nobody says.
pub fn annual_failure_share(drive: &DriveModel) -> Option<KnownFigure> {
    let known = &drive.reliability;
    if let Some((failures, drive_days)) = known.field_count {
        let range = FieldCount { failures, drive_days }.annual_failure_share();
        let source = source_of(drive, "reliability.field_failures");
        let text =
            format!("field: {failures} failures of this model in {drive_days:.0} drive days; {source}");
        return Some(KnownFigure { range, source: text });
    }
    if let Some(range) = known.field_afr_pct {
        let source = source_of(drive, "reliability.field_afr_pct");
        let text = format!("field, drives of its class: {source}");
        return Some(KnownFigure { range: ranged(range).map(|pct| pct / 100.0), source: text });
    }
    let sheet = known.sheet_afr_pct.map(|range| (range, "reliability.sheet_afr_pct"));
    let exactly = |value| FigureRange { low: value, value, high: value };
    let older = drive.annual_failure_pct.map(|pct| (exactly(pct), "annual_failure_pct"));
    let (range, key) = sheet.or(older)?;
    let pct = Ranged { high: range.high * FIELD_OVER_SHEET, ..ranged(range) };
    let text = format!("sheet, up to {FIELD_OVER_SHEET} times in the field: {}", source_of(drive, key));
    Some(KnownFigure { range: pct.map(|pct| (pct / 100.0).min(0.999)), source: text })
}

/// Bits read per unrecoverable error, where the entry knows. More bits are the better end.
pub fn bits_per_read_error(drive: &DriveModel) -> Option<KnownFigure> {
    if let Some(range) = drive.reliability.bits_per_read_error {
        let source = source_of(drive, "reliability.bits_per_read_error");
        return Some(KnownFigure { range: ranged(range), source });
    }
    let bits = drive.bits_per_read_error?;
    Some(KnownFigure { range: Ranged::exactly(bits), source: source_of(drive, "bits_per_read_error") })
}

fn ranged(range: FigureRange) -> Ranged {
    Ranged { low: range.low, value: range.value, high: range.high }
}

fn source_of(drive: &DriveModel, key: &str) -> String {
    let figure = drive.sources.iter().find(|figure| figure.key == key);
    figure.map_or_else(String::new, |figure| figure.source.clone())
}

/// What is kept for a rebuild.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RebuildRate {
    /// A share of each member's time, above 0 and at most 1, as controllers have it.
    Share(f64),
    /// So many bytes in a second on each member, as md's `sync_speed_min` has it.
    Bytes(f64),
}

/// Text that is no rebuild rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rebuild rate is a share of the members' time such as 30%, up to 100%, or a rate such as 50MB/s")]
pub struct RebuildRateError;

impl std::str::FromStr for RebuildRate {
    type Err = RebuildRateError;

    fn from_str(text: &str) -> Result<Self, RebuildRateError> {
        if let Some(pct) = text.strip_suffix('%') {
            let pct: f64 = pct.trim().parse().map_err(|_| RebuildRateError)?;
            return if pct > 0.0 && pct <= 100.0 {
                Ok(Self::Share(pct / 100.0))
            } else {
                Err(RebuildRateError)
            };
        }
        let bytes: ByteCount =
            text.strip_suffix("/s").unwrap_or(text).parse().map_err(|_| RebuildRateError)?;
        if bytes.0 > 0 { Ok(Self::Bytes(bytes.0 as f64)) } else { Err(RebuildRateError) }
    }
}

/// Days between checks of the whole array; none where nobody checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckDays(pub Option<f64>);

impl Default for CheckDays {
    fn default() -> Self {
        Self(Some(CHECK_DAYS))
    }
}

/// Text that is no number of days between checks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checks are a number of days apart, such as 7, or 'none'")]
pub struct CheckDaysError;

impl std::str::FromStr for CheckDays {
    type Err = CheckDaysError;

    fn from_str(text: &str) -> Result<Self, CheckDaysError> {
        if text == "none" {
            return Ok(Self(None));
        }
        let days: f64 = text.parse().map_err(|_| CheckDaysError)?;
        if days > 0.0 && days.is_finite() { Ok(Self(Some(days))) } else { Err(CheckDaysError) }
    }
}

impl std::fmt::Display for CheckDays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(days) => write!(f, "{days}"),
            None => f.write_str("none"),
        }
    }
}

impl RebuildRate {
    /// The rebuild of a drive at this rate, no faster than it can be written; none where nobody knows how fast that is.
    pub fn pace(self, drive: &DriveModel) -> Option<RebuildPace> {
        let full = drive.full_write_rate()?.0;
        let share = match self {
            Self::Share(share) => share,
            Self::Bytes(bytes) => (bytes / full).min(1.0),
        };
        Some(RebuildPace::of_share(share, drive.capacity.bytes().0 as f64, full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_hardware::Catalog;

    #[test]
    fn every_drive_of_today_has_a_failure_rate_and_an_error_rate() {
        let catalog = Catalog::builtin();
        let today = [
            "exos-2x18-18tb",
            "exos-x24-24tb",
            "generic-nvme",
            "generic-sas-ssd",
            "generic-sata-ssd",
            "generic-smr-8tb",
            "intel-p4500-4000",
            "intel-s4500-3840",
            "kingston-dc600m-960",
            "kioxia-cm6-r-30720",
            "samsung-pm9a3-7680",
        ];
        for id in today {
            let drive = catalog.drive(id).expect("it is there");
            let afr = annual_failure_share(drive).unwrap_or_else(|| panic!("{id} has no failure rate"));
            let Ranged { low, value, high } = afr.range;
            assert!(0.0 < low && low < value && value < high && high < 0.1, "{id}: {afr:?}");
            assert!(afr.source.starts_with("field"), "{id}: {afr:?}");
            assert!(bits_per_read_error(drive).is_some_and(|bits| bits.range.low >= 1e14), "{id}");
            assert_eq!(drive.reliability.rated_writes.is_some(), drive.is_flash(), "{id}");
        }
    }

    #[test]
    fn a_sheet_alone_is_the_better_end() {
        let catalog = Catalog::builtin();
        let known =
            annual_failure_share(catalog.drive("st32000444ss").expect("it is there")).expect("a rate");
        assert!((known.range.value - 0.0073).abs() < 1e-12 && known.range.low == known.range.value);
        assert!((known.range.high - 0.0292).abs() < 1e-12 && known.source.starts_with("sheet"), "{known:?}");
    }

    #[test]
    fn checks_are_days_apart_or_none() {
        assert_eq!("7".parse(), Ok(CheckDays(Some(CHECK_DAYS))));
        assert_eq!("none".parse(), Ok(CheckDays(None)));
        for text in ["0", "-1", "weekly", "inf", "nan", ""] {
            assert_eq!(text.parse::<CheckDays>(), Err(CheckDaysError), "{text}");
        }
    }

    #[test]
    fn rates_are_shares_or_bytes() {
        let catalog = Catalog::builtin();
        let drive = catalog.drive("st32000444ss").expect("it is there");
        let whole = drive.full_write_time().expect("a rate").as_secs_f64() / 3600.0;
        let pace = |text: &str| text.parse::<RebuildRate>().expect("a rate").pace(drive).expect("known");
        assert!((pace("30%").hours - whole / 0.3).abs() < 1e-6 && pace("30%").member_share == 0.3);
        assert!((pace("1MB/s").hours - drive.capacity.bytes().0 as f64 / 3.6e9).abs() < 1e-6);
        assert!((pace("9GB/s").hours - whole).abs() < 1e-6, "no faster than the drive");
        for text in ["0%", "101%", "fast", "0MB/s", ""] {
            assert!(text.parse::<RebuildRate>().is_err(), "{text}");
        }
    }
}
