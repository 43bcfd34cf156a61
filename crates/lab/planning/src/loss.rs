//! How likely an array of a plan loses data: the figures of its drives, checks and replacements as `risk` assumes them.

use crate::reliability::{CHECK_DAYS, REBUILD_SHARE, RebuildRate, annual_failure_share, bits_per_read_error};
use raidlab_advisor::plan::Geometry;
use raidlab_advisor::risk::{
    FLASH_BLOCKS_PER_ERROR, FLASH_LATENT_ERRORS_PER_YEAR, FOLLOW_DAYS, LATENT_ERRORS_PER_YEAR, LossChance,
    Risk, RiskSpec,
};
use raidlab_hardware::DriveModel;

/// The chance that any data are lost in a year with rebuilds at their reserved rate.
pub(super) fn per_year(drive: &DriveModel, geometry: Geometry) -> Option<f64> {
    let pace = RebuildRate::Share(REBUILD_SHARE).pace(drive)?;
    Some(of_array(drive, geometry, Some(pace.hours))?.per_year)
}

/// The chance of data loss, where the catalogue knows the drives well enough. No rebuild is faster than the drive is written.
pub(super) fn of_array(
    drive: &DriveModel,
    geometry: Geometry,
    rebuild_hours: Option<f64>,
) -> Option<LossChance> {
    let least = drive.full_write_time().map(|time| time.as_secs_f64() / 3600.0);
    let hours = rebuild_hours.into_iter().chain(least).reduce(f64::max)?;
    let is_flash = drive.is_flash();
    let bits = if is_flash { None } else { Some(bits_per_read_error(drive)?.range.value) };
    let latent = if is_flash { FLASH_LATENT_ERRORS_PER_YEAR } else { LATENT_ERRORS_PER_YEAR };
    let spec = RiskSpec {
        level: geometry.level,
        members: geometry.members,
        annual_failure_share: annual_failure_share(drive)?.range.value,
        bits_per_read_error: bits,
        latent_errors_per_year: latent.value,
        blocks_per_latent_error: if is_flash { FLASH_BLOCKS_PER_ERROR } else { 1.0 },
        capacity: drive.capacity.bytes(),
        rebuild_hours: hours.clamp(0.1, 1e6),
        spares: geometry.spares,
        replace_hours: 24.0,
        check_days: Some(CHECK_DAYS),
        followed_share: 0.0,
        follow_days: FOLLOW_DAYS,
    };
    Some(Risk::new(&spec).ok()?.markov())
}
