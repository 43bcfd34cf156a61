//! `raidlab risk`: how likely an array, or a fleet of them, is to lose data.

use super::keep::{KeepDbArgs, Planned};
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_json};
use raidlab_advisor::risk::{LATENT_ERRORS_PER_YEAR, Risk, RiskReport, RiskSpec, fleet_risk};
use raidlab_hardware::DriveModel;
use raidlab_lab::{Environment, risk_run};
use raidlab_raid::LevelVariant;
use raidlab_units::ByteCount;
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
    #[arg(long, value_name = "PERCENT")]
    afr: Option<f64>,
    /// Bits read per unrecoverable error: 1e15
    #[arg(long, value_name = "BITS")]
    bits_per_error: Option<f64>,
    /// Capacity of a member
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteCount>,
    /// Mean time of a rebuild in hours [default: what it takes to write the drive from end to end]
    #[arg(long, value_name = "HOURS")]
    rebuild_hours: Option<f64>,
    /// Hot spares
    #[arg(long, default_value_t = 0, value_name = "N")]
    spares: u16,
    /// Mean time until a failed drive is replaced, in hours
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    replace_hours: f64,
    /// Days between checks of the whole array [default: nobody checks]
    #[arg(long, value_name = "DAYS")]
    check_days: Option<f64>,
    /// Latent sector errors that a member gets in a year [default: 0.0132, of a field study]
    #[arg(long, value_name = "N")]
    latent_per_year: Option<f64>,
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
    let (spec, sources) = args.spec(drive)?;
    let risk = Risk::new(&spec).map_err(Failure::input)?;
    let fleet = args.fleet.map(|drives| fleet_risk(&risk, drives, args.fleet_years, args.seed));
    let report = RiskReport {
        markov: risk.markov(),
        drawn: risk.monte_carlo(args.trials, args.seed),
        patterson_years: risk.patterson_years(),
        fleet: fleet.transpose().map_err(Failure::input)?,
        spec,
        sources,
    };
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
        let mut value = serde_json::to_value(&report).map_err(Failure::run)?;
        value["schema"] = serde_json::json!(1);
        print_json(&value)?;
    } else {
        print(&raidlab_report::terminal::risk(&report, output.terminal()))?;
    }
    Ok(Exit::Done)
}

impl Args {
    /// The array, and where each of its figures comes from.
    fn spec(&self, drive: Option<&DriveModel>) -> Result<(RiskSpec, Vec<(String, String)>), Failure> {
        let mut sources = Sources { drive, all: Vec::new() };
        let afr =
            sources.figure("annual failure rate in %", self.afr, "annual_failure_pct", "--afr", |drive| {
                drive.annual_failure_pct
            })?;
        let bits = sources.figure(
            "bits per read error",
            self.bits_per_error,
            "bits_per_read_error",
            "--bits-per-error",
            |drive| drive.bits_per_read_error,
        )?;
        let capacity = self.capacity.or(drive.map(|drive| drive.capacity.bytes()));
        let capacity = capacity.ok_or_else(|| missing("capacity", "--capacity"))?;
        sources.add("capacity of a member", capacity.to_string());
        let rebuild_hours = match (self.rebuild_hours, drive.and_then(DriveModel::full_write_time)) {
            (Some(hours), _) => hours,
            (None, Some(time)) => (time.as_secs_f64() / 3600.0).max(0.1),
            (None, None) => return Err(missing("rebuild time", "--rebuild-hours")),
        };
        let by = if self.rebuild_hours.is_some() {
            "given"
        } else {
            "the drive written from end to end with nothing else to do, which is the least it can take"
        };
        sources.add("rebuild in hours", format!("{rebuild_hours:.3} ({by})"));
        let latent = self.latent_per_year.unwrap_or(LATENT_ERRORS_PER_YEAR);
        let by = if self.latent_per_year.is_some() {
            "given"
        } else {
            "3.45 % of 1.53 million drives in 32 months: Bairavasundaram and others, SIGMETRICS 2007"
        };
        sources.add("latent errors of a member per year", format!("{latent} ({by})"));
        let checks = self.check_days.map_or("none".to_owned(), |days| format!("every {days} days"));
        sources.add("checks", checks);
        sources.add(
            "spares",
            format!("{}, a failed drive is replaced in {} hours", self.spares, self.replace_hours),
        );
        let spec = RiskSpec {
            level: self.level,
            members: self.members,
            annual_failure_share: afr / 100.0,
            bits_per_read_error: Some(bits),
            latent_errors_per_year: latent,
            capacity,
            rebuild_hours,
            spares: self.spares,
            replace_hours: self.replace_hours,
            check_days: self.check_days,
        };
        Ok((spec, sources.all))
    }
}

/// Figures as they are found, and where.
struct Sources<'a> {
    drive: Option<&'a DriveModel>,
    all: Vec<(String, String)>,
}

impl Sources<'_> {
    fn add(&mut self, name: &str, value: String) {
        self.all.push((name.to_owned(), value));
    }

    /// What was given, else what the drive's entry says under `key`.
    fn figure(
        &mut self,
        name: &'static str,
        given: Option<f64>,
        key: &str,
        option: &'static str,
        of_drive: impl Fn(&DriveModel) -> Option<f64>,
    ) -> Result<f64, Failure> {
        let (value, source) = match (given, self.drive.and_then(|drive| Some((drive, of_drive(drive)?)))) {
            (Some(value), _) => (value, "given".to_owned()),
            (None, Some((drive, value))) => {
                let figure = drive.sources.iter().find(|figure| figure.key == key);
                (value, figure.map_or_else(String::new, |figure| figure.source.clone()))
            }
            (None, None) => return Err(missing(name, option)),
        };
        self.add(name, format!("{value} ({source})"));
        Ok(value)
    }
}

fn missing(what: &'static str, option: &'static str) -> Failure {
    Failure::input(anyhow::anyhow!("the {what} of the members is not known"))
        .with_hint(format!("give it with {option}, or a drive of the catalogue that has it with --drive"))
}
