//! How likely an array loses data: its figures, of the catalogue or given, at both ends of their ranges and with the source of each.

use crate::life::rated_flash;
use crate::reliability::{
    CHECK_DAYS, CheckDays, KnownFigure, REBUILD_SHARE, RebuildRate, annual_failure_share, bits_per_read_error,
};
use raidlab_advisor::risk::age::{DISK, FLASH, flash_error_factor};
use raidlab_advisor::risk::{
    Endurance, EnduranceReport, FLASH_BLOCKS_PER_ERROR, FLASH_LATENT_ERRORS_PER_YEAR, FOLLOW_DAYS,
    FOLLOWED_SHARE, FieldCount, LATENT_ERRORS_PER_YEAR, LossRules, Ranged, RebuildPace, Risk, RiskError,
    RiskRange, RiskReport, RiskSpec, fleet_risk,
};
use raidlab_hardware::DriveModel;
use raidlab_raid::LevelVariant;
use raidlab_units::{ByteCount, NanoSpan, three_digits};

/// Least rebuild time that the model takes, in hours.
const REBUILD_HOURS_MIN: f64 = 0.1;

/// What is asked of an array. What is not given is the drive's, by the catalogue, or of field studies.
#[derive(Clone, Debug)]
pub struct RiskQuery {
    /// RAID level.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Share of drives that fail in a year, in percent.
    pub afr_pct: Option<f64>,
    /// Failures that were seen of such drives, and the days that drives were watched meanwhile, summed over all of them.
    pub field: Option<FieldCount>,
    /// Age of the drives when the year begins, in years; all ages if none.
    pub age_years: Option<f64>,
    /// Share of failures that another member's failure follows, as in one batch, in percent.
    pub batch_correlation_pct: Option<f64>,
    /// Mean days until that one follows.
    pub batch_days: Option<f64>,
    /// Bits read per unrecoverable error.
    pub bits_per_error: Option<f64>,
    /// Capacity of a member.
    pub capacity: Option<ByteCount>,
    /// What is kept for a rebuild.
    pub rebuild_rate: Option<RebuildRate>,
    /// Mean time of a rebuild in hours, whatever the drive is.
    pub rebuild_hours: Option<f64>,
    /// Hot spares.
    pub spares: u16,
    /// Mean time until a failed drive is replaced, in hours.
    pub replace_hours: f64,
    /// Days between checks of the whole array.
    pub check_days: CheckDays,
    /// Latent sector errors that a member gets in a year.
    pub latent_per_year: Option<f64>,
    /// What the host writes to the array in a day, for the life of flash.
    pub writes_per_day: Option<ByteCount>,
    /// Times that flash is written for each write to a member, as a simulation found it.
    pub write_amplification: Option<f64>,
    /// Drives of a fleet of such arrays, spares included.
    pub fleet_drives: Option<u64>,
    /// Years of the fleet that are drawn.
    pub fleet_years: u64,
    /// Years of one array that are drawn, to check the model.
    pub trials: u64,
    /// Seed of everything random.
    pub seed: u64,
}

impl RiskQuery {
    /// An array of which nothing is given: checked as usual, without spares, a failed drive replaced in a day.
    pub const fn new(level: LevelVariant, members: u16) -> Self {
        Self {
            level,
            members,
            afr_pct: None,
            field: None,
            age_years: None,
            batch_correlation_pct: None,
            batch_days: None,
            bits_per_error: None,
            capacity: None,
            rebuild_rate: None,
            rebuild_hours: None,
            spares: 0,
            replace_hours: 24.0,
            check_days: CheckDays(Some(CHECK_DAYS)),
            latent_per_year: None,
            writes_per_day: None,
            write_amplification: None,
            fleet_drives: None,
            fleet_years: 20,
            trials: 200_000,
            seed: 1,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RiskQueryError {
    /// A figure is neither given nor in the catalogue.
    #[error("the {what} of the members is not known")]
    Missing {
        /// Which figure.
        what: &'static str,
        /// The option by which the command line takes it.
        option: &'static str,
    },
    /// The drive's rating is needed for the life of flash.
    #[error("how much may be written to the members is not known")]
    NoRating,
    /// The array can't be.
    #[error(transparent)]
    Array(#[from] RiskError),
    /// The fleet can't be.
    #[error(transparent)]
    Fleet(RiskError),
}

/// Chances of data loss of an array of `drive`, of its figures in the catalogue and those that `query` gives.
///
/// # Errors
/// [`RiskQueryError`] when a figure is not known, or the array or the fleet can't be.
pub fn risk(query: &RiskQuery, drive: Option<&DriveModel>) -> Result<RiskReport, RiskQueryError> {
    let Inputs { low, spec, high, rebuild, endurance, sources } = read(query, drive)?;
    let risk = Risk::new(&spec)?;
    let range = RiskRange::of(low, &spec, high)?;
    let fleet = query.fleet_drives.map(|drives| fleet_risk(&risk, drives, query.fleet_years, query.seed));
    Ok(RiskReport {
        markov: risk.markov(),
        range,
        drawn: risk.monte_carlo(query.trials, query.seed),
        patterson_years: risk.patterson_years(),
        rebuild,
        endurance,
        fleet: fleet.transpose().map_err(RiskQueryError::Fleet)?,
        spec,
        sources,
    })
}

/// All that the answer needs.
struct Inputs {
    /// Every figure at its better end.
    low: RiskSpec,
    /// What is taken to be.
    spec: RiskSpec,
    /// Every figure at its worse end.
    high: RiskSpec,
    rebuild: Option<RebuildPace>,
    endurance: Option<EnduranceReport>,
    /// Names of figures, and a source each.
    sources: Vec<(String, String)>,
}

fn read(query: &RiskQuery, drive: Option<&DriveModel>) -> Result<Inputs, RiskQueryError> {
    let mut reader = Reader { query, drive, sources: Vec::new() };
    let failure = reader.failure()?;
    let bits = reader.bits()?;
    let capacity = query.capacity.or(drive.map(|drive| drive.capacity.bytes()));
    let capacity = capacity.ok_or_else(|| missing("capacity", "--capacity"))?;
    reader.add("capacity of a member", capacity.to_string());
    if let Some(bits) = &bits {
        let met = capacity.0 as f64 * 8.0 / bits.value;
        reader.add(
            "unreadable sectors in reading a member whole",
            format!("{}, latent ones besides", three_digits(met)),
        );
    }
    if let Some(limit) = drive.and_then(|drive| drive.recovery_limit) {
        reader.add("time that the drive tries an unreadable sector", recovery(limit));
    }
    let (hours, rebuild) = reader.rebuild(capacity)?;
    let latent = reader.latent();
    let (followed, follow_days) = reader.batch();
    reader.add("checks", query.check_days.0.map_or("none".to_owned(), |days| format!("every {days} days")));
    let spares = format!("{}, a failed drive is replaced in {} hours", query.spares, query.replace_hours);
    reader.add("spares", spares);
    let endurance = reader.endurance()?;
    let blocks = if reader.is_flash() { FLASH_BLOCKS_PER_ERROR } else { 1.0 };
    let at = |end: fn(&Ranged) -> f64, bits_end: fn(&Ranged) -> f64| RiskSpec {
        level: query.level,
        members: query.members,
        annual_failure_share: end(&failure),
        bits_per_read_error: bits.as_ref().map(bits_end),
        latent_errors_per_year: end(&latent),
        blocks_per_latent_error: blocks,
        capacity,
        rebuild_hours: end(&hours),
        spares: query.spares,
        replace_hours: query.replace_hours,
        check_days: query.check_days.0,
        followed_share: end(&followed),
        follow_days,
    };
    Ok(Inputs {
        // More bits for each error are the better end.
        low: at(|range| range.low, |range| range.high),
        spec: at(|range| range.value, |range| range.value),
        high: at(|range| range.high, |range| range.low),
        rebuild,
        endurance,
        sources: reader.sources,
    })
}

/// How long Linux waits for a command before it resets the drive (`/sys/block/NAME/device/timeout`).
const COMMAND_TIMER: NanoSpan = NanoSpan::from_secs(30);

/// What a drive's recovery limit means for an array.
fn recovery(limit: NanoSpan) -> String {
    if limit > COMMAND_TIMER {
        format!(
            "{limit}, beyond the {COMMAND_TIMER} that Linux waits: such a sector can take the drive out of its array; set a limit \
             (smartctl -l scterc,70,70)"
        )
    } else {
        format!("{limit}; then the array has the sector from the others, if there is redundancy left")
    }
}

/// Figures as they are found, and where.
struct Reader<'a> {
    query: &'a RiskQuery,
    drive: Option<&'a DriveModel>,
    sources: Vec<(String, String)>,
}

impl Reader<'_> {
    fn add(&mut self, name: &str, value: String) {
        self.sources.push((name.to_owned(), value));
    }

    fn is_flash(&self) -> bool {
        self.drive.is_some_and(DriveModel::is_flash)
    }

    /// Share of members that fails in the year, by age where one is given.
    fn failure(&mut self) -> Result<Ranged, RiskQueryError> {
        let known = if let Some(pct) = self.query.afr_pct {
            KnownFigure { range: Ranged::exactly(pct / 100.0), source: "given".to_owned() }
        } else if let Some(field @ FieldCount { failures, drive_days }) = self.query.field {
            let range = field.annual_failure_share();
            let source = format!("{failures} failures in {drive_days} drive days, exact interval of 95 %");
            KnownFigure { range, source }
        } else {
            let known = self.drive.and_then(annual_failure_share);
            known.ok_or_else(|| missing("annual failure rate in %", "--afr"))?
        };
        let KnownFigure { mut range, source } = known;
        self.add("annual failure rate in %", format!("{} ({source})", percent(range)));
        if let Some(age) = self.query.age_years {
            let factor = if self.is_flash() { FLASH } else { DISK }.factor(age);
            let of_rate = |share: f64, factor: f64| -(factor * (-share).ln_1p()).exp_m1();
            range = Ranged {
                low: of_rate(range.low, factor.low.min(factor.value)),
                value: of_rate(range.value, factor.value),
                high: of_rate(range.high, factor.high),
            };
            let study =
                if self.is_flash() { "new flash fails more: FAST 2020" } else { "Backblaze 2021 and 2025" };
            let text =
                format!("{age} years: {:.2} times that rate, {} % ({study})", factor.value, percent(range));
            self.add("age of the members", text);
        }
        Ok(range)
    }

    /// Bits read per error; none for flash, unless they are given.
    fn bits(&mut self) -> Result<Option<Ranged>, RiskQueryError> {
        let known = match (self.query.bits_per_error, self.drive) {
            (Some(bits), _) => Some(KnownFigure { range: Ranged::exactly(bits), source: "given".to_owned() }),
            (None, Some(drive)) => bits_per_read_error(drive),
            (None, None) => None,
        };
        if self.is_flash() && self.query.bits_per_error.is_none() {
            let sheet = known.map_or("not known".to_owned(), |known| format!("{:e}", known.range.value));
            let why = "not counted: errors of flash come with time, not with what is read, FAST 2016";
            self.add("bits per read error", format!("{sheet} by the sheet ({why})"));
            return Ok(None);
        }
        let KnownFigure { range, source } =
            known.ok_or_else(|| missing("bits per read error", "--bits-per-error"))?;
        let Ranged { low, value, high } = range;
        let text =
            if low < high { format!("{value:e}, from {low:e} to {high:e}") } else { format!("{value:e}") };
        self.add("bits per read error", format!("{text} ({source})"));
        Ok(Some(range))
    }

    /// Hours of a rebuild, and its pace where the drive's is known.
    fn rebuild(&mut self, capacity: ByteCount) -> Result<(Ranged, Option<RebuildPace>), RiskQueryError> {
        if let Some(hours) = self.query.rebuild_hours {
            self.add("rebuild in hours", format!("{hours} (given)"));
            return Ok((Ranged::exactly(hours), None));
        }
        let rate = self.query.rebuild_rate.unwrap_or(RebuildRate::Share(REBUILD_SHARE));
        let Some(pace) = self.drive.and_then(|drive| rate.pace(drive)) else {
            if let RebuildRate::Bytes(rate) = rate {
                let hours = (capacity.0 as f64 / rate / 3600.0).max(REBUILD_HOURS_MIN);
                self.add(
                    "rebuild in hours",
                    format!("{} (at the rate that is kept for it)", three_digits(hours)),
                );
                return Ok((Ranged::exactly(hours), None));
            }
            return Err(missing("rebuild time", "--rebuild-hours"));
        };
        let scale = self.drive.map_or(1.0, |drive| capacity.0 as f64 / drive.capacity.bytes().0 as f64);
        let pace = RebuildPace { hours: pace.hours * scale, ..pace };
        let hours = pace.hours.max(REBUILD_HOURS_MIN);
        // With nothing else to do it takes the whole of the members' time.
        let idle = (pace.hours * pace.member_share).max(REBUILD_HOURS_MIN);
        let by = if self.query.rebuild_rate.is_some() { "given" } else { "as controllers are delivered" };
        let [hours_text, idle_text] = [hours, idle].map(three_digits);
        let share = three_digits(100.0 * pace.member_share);
        let text = format!(
            "{hours_text} with {share} % of each member's time ({by}); {idle_text} with all of it; by the drive \
             alone: 'raidlab plan' simulates it beside a load, which makes it longer"
        );
        self.add("rebuild in hours", text);
        Ok((Ranged { low: idle, value: hours, high: hours }, Some(pace)))
    }

    fn latent(&mut self) -> Ranged {
        if let Some(latent) = self.query.latent_per_year {
            self.add("latent errors of a member per year", format!("{latent} (given)"));
            return Ranged::exactly(latent);
        }
        let (known, study) = if self.is_flash() {
            (
                FLASH_LATENT_ERRORS_PER_YEAR,
                "20 to 63 % of drives in four years: Schroeder and others, FAST 2016",
            )
        } else {
            let study =
                "3.45 % of 1.53 million drives in 32 months: Bairavasundaram and others, SIGMETRICS 2007";
            (LATENT_ERRORS_PER_YEAR, study)
        };
        let factor = self.query.age_years.filter(|_| self.is_flash()).map_or(1.0, flash_error_factor);
        let range = known.map(|rate| rate * factor);
        let Ranged { low, value, high } = range;
        let [value, low, high] = [value, low, high].map(three_digits);
        let text = format!("{value}, from {low} to {high} ({study})");
        self.add("latent errors of a member per year", text);
        range
    }

    /// Share of failures that are followed by another one, and the mean days until then.
    fn batch(&mut self) -> (Ranged, f64) {
        let days = self.query.batch_days.unwrap_or(FOLLOW_DAYS);
        let (range, text) = if let Some(pct) = self.query.batch_correlation_pct {
            let text = format!("{pct} % of failures are followed by another one in {days} days on average");
            (Ranged::exactly(pct / 100.0), text)
        } else {
            let pct = 100.0 * FOLLOWED_SHARE;
            let text = format!(
                "none; in the high figures {pct:.1} % of failures are followed by another one \
                in {days} days on average (Han and others, FAST 2021; Maneas and others, FAST 2020)"
            );
            (Ranged { low: 0.0, value: 0.0, high: FOLLOWED_SHARE }, text)
        };
        self.add("correlated failures", text);
        (range, days)
    }

    fn endurance(&mut self) -> Result<Option<EnduranceReport>, RiskQueryError> {
        let Some(writes) = self.query.writes_per_day else { return Ok(None) };
        let rated = self.drive.and_then(rated_flash).ok_or(RiskQueryError::NoRating)?;
        let rules = LossRules::of_level(self.query.level, self.query.members)?;
        let factors = rules.write_factors();
        let rated_amplification = rated.amplification();
        let life = |factor: f64, amplification: f64| Endurance {
            rated_bytes: rated.rated_bytes,
            rated_amplification,
            amplification,
            member_bytes_per_day: writes.0 as f64 * factor / f64::from(self.query.members),
        };
        let found = self.query.write_amplification;
        let small = life(factors.small, found.unwrap_or(rated_amplification));
        // Whole stripes are written in sequence, where next to nothing is moved.
        let whole_stripes = life(factors.whole_stripes, found.unwrap_or(1.0));
        let drive = self.drive.map_or("", |drive| drive.id.as_str());
        let source = |figure: &raidlab_hardware::FigureSource| figure.key == "reliability.rated_writes";
        let figure = self.drive.and_then(|drive| drive.sources.iter().find(|one| source(one)));
        let text = figure.map_or_else(String::new, |figure| figure.source.clone());
        self.add("rated writes", format!("{:.0} TB of {drive} ({text})", rated.rated_bytes / 1e12));
        let by = if found.is_some() {
            "given"
        } else {
            "random: as its spare room has it and its cells take it; in sequence: 1"
        };
        let text = format!("{:.2} and {:.2} ({by})", small.amplification, whole_stripes.amplification);
        self.add("write amplification of flash", text);
        Ok(Some(EnduranceReport {
            host_bytes_per_day: writes.0 as f64,
            factors,
            small,
            whole_stripes,
            small_years: small.years(),
            whole_stripes_years: whole_stripes.years(),
        }))
    }
}

/// A range of shares in percent, with three significant digits where the source has as many.
fn percent(range: Ranged) -> String {
    let rounded = |value: f64| {
        let digits = three_digits(value);
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits
        }
    };
    let [low, value, high] = [range.low, range.value, range.high].map(|share| rounded(100.0 * share));
    if range.low < range.high { format!("{value}, from {low} to {high}") } else { value }
}

const fn missing(what: &'static str, option: &'static str) -> RiskQueryError {
    RiskQueryError::Missing { what, option }
}
