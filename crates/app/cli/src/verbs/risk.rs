//! `raidlab risk`: how likely an array, or a fleet of them, is to lose data.

use super::keep::{KeepDbArgs, Planned};
use crate::failure::{Exit, Failure};
use crate::inputs::{CatalogArgs, above_zero, some_bytes};
use crate::output::{Output, print, print_answer};
use raidlab::{
    ByteCount, CheckDays, FieldCount, LevelVariant, RebuildRate, RiskError, RiskQuery, RiskQueryError,
};
use raidlab_machine::Environment;
use raidlab_study::risk_run;
use std::time::SystemTime;

/// Arguments of `raidlab risk`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// RAID level: 0, 1, 5, 6, 10, 1e:offset, 50:2-spans, ...
    #[arg(long)]
    level: LevelVariant,
    /// Number of members
    #[arg(long, value_name = "N")]
    members: u16,
    /// Members, by their name in the catalogue, for the figures that are not given
    #[arg(long, value_name = "ID")]
    drive: Option<String>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Share of drives that fail in a year, in percent
    #[arg(long, value_name = "PERCENT", value_parser = below_hundred)]
    afr: Option<f64>,
    /// Failures that were seen of such drives, for the rate and its interval
    #[arg(long, value_name = "N", requires = "drive_days", conflicts_with = "afr")]
    failures: Option<u64>,
    /// Days that drives were watched meanwhile, summed over all of them
    #[arg(long, value_name = "DAYS", requires = "failures", value_parser = above_zero)]
    drive_days: Option<f64>,
    /// Age of the drives when the year begins [default: all ages]
    #[arg(long, value_name = "YEARS", value_parser = zero_or_above)]
    age: Option<f64>,
    /// Share of failures that another member's failure follows, as in one batch, in percent [default: 0, at worst 12.9]
    #[arg(long, value_name = "PERCENT", value_parser = zero_or_above)]
    batch_correlation: Option<f64>,
    /// Mean days until that one follows [default: 9.5]
    #[arg(long, value_name = "DAYS", value_parser = above_zero)]
    batch_days: Option<f64>,
    /// Bits read per unrecoverable error: 1e15
    #[arg(long, value_name = "BITS")]
    bits_per_error: Option<f64>,
    /// Capacity of a member
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    capacity: Option<ByteCount>,
    /// What is kept for a rebuild: a share of each member's time as controllers have it, or a rate as md's `sync_speed_min`
    /// [default: 30%]
    #[arg(long, value_name = "SHARE|RATE")]
    rebuild_rate: Option<RebuildRate>,
    /// Mean time of a rebuild in hours, whatever the drive is
    #[arg(long, value_name = "HOURS", conflicts_with = "rebuild_rate")]
    rebuild_hours: Option<f64>,
    /// Hot spares
    #[arg(long, default_value_t = 0, value_name = "N")]
    spares: u16,
    /// Mean time until a failed drive is replaced, in hours
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    replace_hours: f64,
    /// Days between checks (scrubs) of the whole array; `none` where nobody checks
    #[arg(long, default_value_t = CheckDays::default(), value_name = "DAYS|none")]
    check_days: CheckDays,
    /// Latent sector errors that a member gets in a year [default: of field studies, 0.0132 for disks, 0.118 for flash]
    #[arg(long, value_name = "N")]
    latent_per_year: Option<f64>,
    /// What the host writes to the array in a day, for the life of flash
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    writes_per_day: Option<ByteCount>,
    /// Times that flash is written for each write to a member, as a simulation found it [default: as in the maker's rating]
    #[arg(long, value_name = "TIMES", requires = "writes_per_day", value_parser = above_zero)]
    write_amplification: Option<f64>,
    /// Drives of a fleet of such arrays, spares included
    #[arg(long, value_name = "DRIVES")]
    fleet: Option<u64>,
    /// Years of the fleet that are drawn
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fleet_years: u64,
    /// Years of one array that are drawn, to check the model
    #[arg(long, default_value_t = 200_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    trials: u64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    keep: KeepDbArgs,
}

/// What is wrong with what was asked, and what to do.
fn refused(error: RiskQueryError) -> Failure {
    match &error {
        RiskQueryError::Missing { option, .. } => {
            let hint = format!("give it with {option}, or a drive of the catalogue that has it with --drive");
            Failure::input(error).with_hint(hint)
        }
        RiskQueryError::NoRating => Failure::input(error)
            .with_hint("--writes-per-day is for flash of the catalogue with rated_writes"),
        RiskQueryError::Array(RiskError::Figure { what, .. }) => {
            let option = match *what {
                "the annual failure rate" => "--afr",
                "the rebuild time" => "--rebuild-hours",
                "the replacement time" => "--replace-hours",
                "the latent error rate" => "--latent-per-year",
                "the number of bits per read error" => "--bits-per-error",
                "the time between checks" => "--check-days",
                "the batch correlation" => "--batch-correlation",
                "the time to the failure that follows" => "--batch-days",
                "the fleet" => "--fleet",
                _ => return Failure::input(error),
            };
            Failure::input(error).with_option(option)
        }
        RiskQueryError::Fleet(_) => Failure::input(error),
        RiskQueryError::Array(_) => Failure::input(error).with_option("--members"),
    }
}

impl Args {
    fn query(&self) -> RiskQuery {
        let field = self.failures.zip(self.drive_days);
        RiskQuery {
            afr_pct: self.afr,
            field: field.map(|(failures, drive_days)| FieldCount { failures, drive_days }),
            age_years: self.age,
            batch_correlation_pct: self.batch_correlation,
            batch_days: self.batch_days,
            bits_per_error: self.bits_per_error,
            capacity: self.capacity,
            rebuild_rate: self.rebuild_rate,
            rebuild_hours: self.rebuild_hours,
            spares: self.spares,
            replace_hours: self.replace_hours,
            check_days: self.check_days,
            latent_per_year: self.latent_per_year,
            writes_per_day: self.writes_per_day,
            write_amplification: self.write_amplification,
            fleet_drives: self.fleet,
            fleet_years: self.fleet_years,
            trials: self.trials,
            seed: self.seed,
            ..RiskQuery::new(self.level, self.members)
        }
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let started_at = SystemTime::now();
    if args.catalog.is_given() && args.drive.is_none() {
        let error = anyhow::anyhow!("--catalog, --fitted and --set are for a drive of the catalogue");
        return Err(Failure::input(error).with_hint("name the drive with --drive"));
    }
    let catalog = args.catalog.load()?;
    let drive = args.drive.as_deref().map(|id| catalog.drive(id)).transpose();
    let drive =
        drive.map_err(|error| Failure::input(error).with_hint("'raidlab catalog' lists the hardware"))?;
    let report = raidlab::risk(&args.query(), drive).map_err(refused)?;
    let result = risk_run(&report);
    let planned = Planned {
        kind: "risk",
        title: format!("risk of {}", result.target),
        method: "Chances of a Markov chain, and the same drawn.".to_owned(),
        runs: 1,
        seed: args.seed,
        configuration: serde_json::to_string(&report.spec).map_err(Failure::run)?,
    };
    args.keep.keep(planned, Environment::of_machine(), started_at, vec![result])?;
    if output.is_json() {
        print_answer(&report)?;
    } else {
        print(&raidlab_report::terminal::risk(&report, output.terminal()))?;
    }
    Ok(Exit::Done)
}

/// A number that is zero or above.
fn below_hundred(text: &str) -> Result<f64, String> {
    let value = zero_or_above(text)?;
    if value < 100.0 { Ok(value) } else { Err("it is a share from 0 to below 100 %".to_owned()) }
}

fn zero_or_above(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("it is not a number, zero or above".to_owned()),
    }
}
