//! `raidlab plan`: the arrays of catalogue parts that serve an application best.

mod accelerators;
mod history;
mod inputs;
mod needs;
mod study;

use super::keep::{KeepDbArgs, KeptPrediction, Planned};
use crate::failure::{Exit, Failure};
use crate::hosts::RankArgs;
use crate::inputs::{CatalogArgs, above_zero, catalog_change, search_time, some_bytes, some_time};
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::whole_file::{check_writable, write_whole};
use accelerators::Fed;
use inputs::{AppArgs, Asked};
use needs::Need;
use raidlab::{Catalog, CatalogChange, DriveHistory, OwnHardware, Prediction, YearRange};
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Goal, Space};
use raidlab_hosts::Hosts;
use raidlab_machine::Environment;
use raidlab_planning::{
    Application, Have, HaveError, PlanError, PlanOrder, PlanOutcome, Prices, default_history, default_levels,
    default_settings, plan, plan_tiers,
};
use raidlab_raid::LevelVariant;
use raidlab_report::{page, terminal};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_worlds::{Feeding, check_checkpoint, condition_of};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Where the names of parts are.
const LISTED: &str = "'raidlab catalog' lists the hardware";

/// How long a search takes where nobody says.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Members at most, where nobody says.
const MEMBERS_USUAL: u16 = 24;

/// Arguments of `raidlab plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    app: AppArgs,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// All applications run at the same time, and the array must serve all at once; else each runs alone, one after the other
    #[arg(long, conflicts_with = "study")]
    together: bool,
    /// Maximum number of arrays (1 or 2), in one enclosure behind one controller; the cheapest placement is chosen
    #[arg(long, default_value_t = 1, requires = "together", conflicts_with_all = ["report", "db"], value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=2))]
    arrays: u16,
    /// Capacity that the host needs; with --together also NAME:SIZE for each application, which then lie one after the other
    #[arg(long, required = true, value_name = "SIZE", value_parser = needs::capacity)]
    usable: Vec<Need<ByteCount>>,
    /// Failed members that the array must survive, whichever they are
    #[arg(long, default_value_t = 1, value_name = "N")]
    survive: u16,
    /// Maximum chance of losing any data in a year, in percent; arrays of drives whose failure rate is unknown pass
    #[arg(long, default_value_t = 1.0, value_name = "PCT", value_parser = chance)]
    loss_per_year: f64,
    /// What the best of those that keep all needs is: cheapest or fastest [default: cheapest; fastest where no throughput is needed
    /// and --drives, --have or --budget bound the choice]
    #[arg(long, value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,
    /// Requests per second that each application needs, or NAME:N for one of them; may be repeated
    #[arg(long, value_name = "N", value_parser = needs::rate)]
    iops: Vec<Need<f64>>,
    /// Requests per second on average, or NAME:N, where --iops is for peaks: the life of solid-state drives is counted at it
    #[arg(long, value_name = "N", value_parser = needs::rate)]
    mean_iops: Vec<Need<f64>>,
    /// What the host writes in a day, all applications together, whatever their rates: the life of solid-state drives is counted at it
    /// [default: by rates, or by --checkpoint]
    #[arg(long, value_name = "SIZE", value_parser = some_bytes)]
    written_per_day: Option<ByteCount>,
    /// Years that the drives must last, and over which --growth is counted
    #[arg(long, value_name = "N", value_parser = years)]
    years: Option<f64>,
    /// Growth of the data in a year: the capacity is that of the end of --years, 5 if that is not given
    #[arg(long, value_name = "PCT", value_parser = percent)]
    growth: Option<f64>,
    /// Percent of the throughput needed that must be left with a drive missing, and while it is rebuilt; without a need, of what the
    /// array does. Without it, what is left is told
    #[arg(long, value_name = "PCT", value_parser = part)]
    keep_degraded: Option<f64>,
    /// MiB per second that each application needs, or NAME:N for one of them; may be repeated
    #[arg(long, value_name = "N", value_parser = needs::rate)]
    mib_per_sec: Vec<Need<f64>>,
    /// Mean latency at most; fewer requests are put in flight until it is kept
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    mean_response: Option<NanoSpan>,
    /// A bound on latency from above: `p99<=5ms`, of mean, p50, p90, p95, p99, p99.9, p99.99, p99.999 and max, or `NAME:p99<=5ms` for one
    /// application; kept as --mean-response is, may be repeated
    #[arg(long, value_name = "BOUND", value_parser = needs::latency)]
    bound: Vec<Need<Bound>>,
    /// Cost at most, in the currency of the price file
    #[arg(long, value_name = "N", requires = "prices", value_parser = above_zero)]
    budget: Option<f64>,
    /// Prices and powers of parts (TOML)
    #[arg(long, value_name = "FILE.toml")]
    prices: Option<PathBuf>,
    /// Power at most, in watts
    #[arg(long, value_name = "W", value_parser = above_zero)]
    power: Option<f64>,
    /// Places for drives at most, spares included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    slots: Option<u16>,
    /// Rack units of all enclosures at most; drives in the server itself take none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rack_units: Option<u32>,
    /// Drives to choose from, by their names in the catalogue [default: all of the era]
    #[arg(long, visible_alias = "drive", value_delimiter = ',', value_name = "ID")]
    drives: Vec<String>,
    /// Kinds of drives to choose from: nvme, sas-ssd, sata-ssd, hdd; ssd is all flash [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = ["nvme", "sas-ssd", "sata-ssd", "ssd", "hdd"])]
    kinds: Vec<String>,
    /// Members of the array, spares left out: 24, 8..24 [default: up to 24, or as many as --slots]
    #[arg(long, value_name = "N", value_parser = members)]
    members: Option<(u16, u16)>,
    /// Levels to choose from: 5,6,10, 50:2-spans; 50 and 60 alone have the spans of the default [default: 1, 5, 6, 10, 50 and 60]
    #[arg(long, value_delimiter = ',', value_name = "LEVEL", conflicts_with = "all_levels")]
    levels: Vec<LevelVariant>,
    /// Parts that are there already: '24 x samsung-pm9a3-7680,perc-h755n'; they cost nothing, and the answer says what to add
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    have: Vec<String>,
    /// Years of the parts to choose from that are not named: 2018.., 2004..2011, any. With 2017.. solid-state drives are from 2020 on,
    /// as they are sold for fewer years
    #[arg(long, default_value_t = YearRange::TODAY, value_name = "YEARS")]
    era: YearRange,
    /// What was done to the solid-state drives before: fresh, sequential, random, or random:N for N times overwritten [default: sequential
    /// where the applications write in sequence only, else random:3]
    #[arg(long, value_name = "CONDITION")]
    condition: Option<DriveHistory>,
    /// Percent of the solid-state drives' capacity that holds data; the rest was trimmed or never written [default: 100]
    #[arg(long, value_name = "PCT", value_parser = clap::value_parser!(u8).range(1..=100))]
    fill: Option<u8>,
    /// Controllers to choose from [default: all of the era]
    #[arg(long, visible_alias = "controller", value_delimiter = ',', value_name = "ID")]
    controllers: Vec<String>,
    /// Enclosures to choose from [default: all of the era, and drives in the server]
    #[arg(long, visible_alias = "enclosure", value_delimiter = ',', value_name = "ID")]
    enclosures: Vec<String>,
    /// With --accelerators: the time that a checkpoint of so many bytes takes on the array, one each half hour
    #[arg(long, value_name = "SIZE", requires = "accelerators", value_parser = some_bytes)]
    checkpoint: Option<ByteCount>,
    /// Hot spares to try
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N")]
    spares: Vec<u16>,
    /// Strips to try beside the one that the controller is delivered with
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    strip_sizes: Vec<ByteCount>,
    /// Try every level and variant, not only 1, 5, 6, 10, 50 and 60
    #[arg(long)]
    all_levels: bool,
    /// Try settings that lose acknowledged writes with the power, too: unprotected write caches of drives, write-back without a
    /// battery; the answer then says what is lost
    #[arg(long)]
    allow_volatile: bool,
    /// Time for the search, which ends earlier when nothing can be better; the longer runs of the best come to it [default: 10s, or
    /// none with --simulations]
    #[arg(long, value_name = "TIME", value_parser = search_time)]
    search_time: Option<NanoSpan>,
    /// Arrays to simulate at most, whatever the time; their settings and the longer runs of the best come to it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    simulations: Option<u16>,
    /// Number of arrays to show
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=50))]
    top: u16,
    /// Threads; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write an HTML report with charts here; it opens without a network
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write a study of the best arrays here: 'raidlab study' makes them for real over files, measures them, and puts that beside
    /// what was predicted
    #[arg(long, value_name = "FILE.toml")]
    study: Option<PathBuf>,
    #[command(flatten)]
    db: KeepDbArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    if hosts.leads() {
        for path in args.report.iter().chain(&args.study) {
            check_writable(path)?;
        }
    }
    let mut catalog = args.catalog.load()?;
    let asked = args.app.read()?;
    args.condition_drives(&mut catalog, &asked.applications)?;
    let prices = args.priced(&catalog)?;
    let have = Have::read(&args.have, &catalog).map_err(|error| {
        let is_unknown = matches!(error, HaveError::Unknown(_));
        Failure::input(error).with_any_hint(is_unknown.then_some(LISTED))
    })?;
    let (members_min, members_max) = args.members_range();
    let order = PlanOrder {
        catalog: &catalog,
        prices: &prices,
        needs: needs::needs(args, &asked)?,
        applications: &asked.applications,
        together: args.is_together(&asked),
        era: args.era,
        drives: &args.drives,
        kinds: &args.kinds,
        have: &have,
        controllers: &args.controllers,
        enclosures: &args.enclosures,
        space: Space {
            levels: args.levels_of(),
            members_min,
            members_max,
            enclosures_max: 8,
            spares: args.spares.clone(),
            settings: default_settings(&args.strip_sizes),
            allows_volatile: args.allow_volatile,
        },
        simulations_max: args.simulations.map(usize::from),
        top: usize::from(args.top),
        threads: args.threads,
        seed: args.seed,
    };
    args.check_training(order.needs.usable)?;
    if args.arrays == 2 {
        return place(args, &order, output, hosts);
    }
    let mut progress = Progress::start_on(hosts);
    let started_at = SystemTime::now();
    let (started, time) = (Instant::now(), args.search_time());
    let mut has_time = || time.is_none_or(|time| started.elapsed() < time);
    let outcome = plan(&order, hosts, &mut has_time, &mut |label, done| progress.show(label, done));
    let outcome = outcome.map_err(failure)?;
    progress.end();
    let mut fits = outcome.fits();
    if hosts.leads() {
        let fed = accelerators::feed_best(args, &outcome, &order);
        // The plan is shown and kept, whatever comes of accelerators.
        let shown = fed.as_ref().ok().and_then(Option::as_ref);
        fits &= shown.is_none_or(Fed::is_enough);
        show(args, &outcome, &order, (shown, output))?;
        args.keep(&outcome, &order, started_at)?;
        history::tell_growth(&asked, args, &outcome);
        fed?;
    }
    Ok(if fits { Exit::Done } else { Exit::BoundMissed })
}

/// Plans up to two arrays in one enclosure, and tells what was found.
fn place(args: &Args, order: &PlanOrder<'_>, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    let mut progress = Progress::start_on(hosts);
    let (started, time) = (Instant::now(), args.search_time());
    let mut has_time = |share: f64| time.is_none_or(|time| started.elapsed() < time.mul_f64(share));
    let outcome = plan_tiers(order, hosts, &mut has_time, &mut |label, done| progress.show(label, done));
    let outcome = outcome.map_err(failure)?;
    progress.end();
    if hosts.leads() && output.is_json() {
        print_answer(&outcome)?;
    } else if hosts.leads() {
        print(&terminal::tiers(&outcome, order, output.terminal()))?;
    }
    Ok(if outcome.best().is_some() { Exit::Done } else { Exit::BoundMissed })
}

/// Prints the plan and writes what is asked for.
fn show(
    args: &Args,
    outcome: &PlanOutcome,
    order: &PlanOrder<'_>,
    (fed, output): (Option<&Fed>, &Output),
) -> Result<(), Failure> {
    if output.is_json() {
        print_answer(&PlanAnswer {
            outcome,
            fed: fed.map(|fed| &fed.found),
            checkpoint_lines: fed.map_or(&[], |fed| &fed.lines),
        })?;
    } else {
        let fed = fed.map(|fed| fed.in_words(output.terminal())).unwrap_or_default();
        print(&(terminal::plan(outcome, order, output.terminal()) + &fed))?;
    }
    if outcome.top.is_empty() && args.study.is_some() {
        remark(format_args!("study: there is no array to make one of"));
    } else if let Some(path) = &args.study {
        write_whole(path, &study::study(&outcome.top, order)?)?;
        let md = outcome.top.first().and_then(|first| first.md.as_ref());
        let set: Vec<&str> = md.iter().flat_map(|md| &md.set).flat_map(|one| ["--set", one]).collect();
        let line = format!("study: raidlab study {} {}", path.display(), set.join(" "));
        remark(format_args!("{}", line.trim_end()));
    }
    if let Some(path) = &args.report {
        let fed = fed.map(|fed| (&fed.found, &fed.lines[..]));
        super::report::write_page(path, &page::plan(outcome, order, fed))?;
    }
    Ok(())
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<PlanAnswer<'_>>();

/// A plan, and how many accelerators its best array feeds where that was asked.
#[derive(Serialize, schemars::JsonSchema)]
struct PlanAnswer<'a> {
    #[serde(flatten)]
    outcome: &'a PlanOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    fed: Option<&'a Feeding>,
    /// What Linux md is to be set to besides for a checkpoint at that rate.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    checkpoint_lines: &'a [String],
}

impl Args {
    /// Keeps the runs of the first array, so that measured ones can be compared with them.
    fn keep(
        &self,
        outcome: &PlanOutcome,
        order: &PlanOrder<'_>,
        started_at: SystemTime,
    ) -> Result<(), Failure> {
        if self.db.db.is_none() {
            return Ok(());
        }
        let Some(first) = outcome.top.first() else {
            remark(format_args!("db: there is no array to keep the runs of"));
            return Ok(());
        };
        let mut hardware = self.catalog.own_hardware(None)?;
        let set = first.md.iter().flat_map(|md| &md.set);
        let change =
            |text: &String| catalog_change(text).map_err(|error| Failure::run(anyhow::anyhow!(error)));
        hardware.changes.extend(set.map(change).collect::<Result<Vec<CatalogChange>, Failure>>()?);
        let hardware = OwnHardware { host: None, ..hardware };
        let prediction = Prediction::new(first.array.clone(), &first.loads, hardware);
        let kept = KeptPrediction { prediction };
        let planned = Planned {
            kind: "plan",
            title: format!("plan {}", first.label),
            method: format!("The best array of a plan, simulated: {}.", first.settings_label),
            runs: first.runs.len() as u64,
            seed: order.seed,
            configuration: serde_json::to_string(&kept).map_err(Failure::run)?,
        };
        let environment = Environment::of_machine();
        if let Some(number) = self.db.keep(planned, environment, started_at, first.runs.clone())? {
            remark(format_args!(
                "kept as plan:{number}; 'raidlab compare plan:{number} RUN --db FILE' puts a measured run beside it"
            ));
        }
        Ok(())
    }

    /// Whether all applications run at the same time, as the devices of histories did.
    fn is_together(&self, asked: &Asked) -> bool {
        self.together || asked.past.len() > 1
    }

    /// The levels that were named, or the usual ones. A level of spans that is named without any has those of the usual ones.
    fn levels_of(&self) -> Vec<LevelVariant> {
        let usual = self.usual_levels();
        if self.levels.is_empty() {
            return usual;
        }
        let mut levels = Vec::new();
        for named in &self.levels {
            let is_it = |it: &&LevelVariant| LevelVariant { spans: 1, ..**it } == *named;
            let with_spans = usual.iter().filter(is_it).copied();
            let before = levels.len();
            levels.extend(with_spans.filter(|it| it.spans > named.spans));
            if levels.len() == before {
                levels.push(*named);
            }
        }
        levels
    }

    fn usual_levels(&self) -> Vec<LevelVariant> {
        let mut levels = default_levels(self.survive, self.all_levels);
        // Of many disks nobody makes two groups.
        if self.members_range().1 > MEMBERS_USUAL && !self.all_levels {
            levels.extend(
                ["50:4-spans", "60:4-spans"].map(|name| name.parse::<LevelVariant>().expect("a level")),
            );
        }
        levels
    }

    /// Whether the drives are named, or what may be spent: else the fastest array is the dearest that the catalogue has.
    fn bounds_parts(&self) -> bool {
        self.budget.is_some() || !self.drives.is_empty() || !self.have.is_empty()
    }

    /// Fewest and most members.
    fn members_range(&self) -> (u16, u16) {
        let most = self.slots.unwrap_or(MEMBERS_USUAL).min(128);
        self.members.unwrap_or((1, most))
    }

    /// Refuses a checkpoint that can't lie on `usable`, and training on two arrays, before anything is searched for.
    fn check_training(&self, usable: ByteCount) -> Result<(), Failure> {
        if let Some(bytes) = self.checkpoint {
            check_checkpoint(&self.app.model, bytes, usable)
                .map_err(|error| Failure::input(error).with_option("--checkpoint"))?;
        }
        if self.arrays == 2 && (self.app.accelerators.is_some() || self.checkpoint.is_some()) {
            let error = anyhow::anyhow!("accelerators and checkpoints are not run on two arrays");
            return Err(Failure::input(error)
                .with_option("--arrays")
                .with_hint("leave out --arrays 2, or --accelerators and --checkpoint"));
        }
        Ok(())
    }

    /// Puts all drives that can be in one into the condition asked for, else into the one that fits the applications.
    fn condition_drives(&self, catalog: &mut Catalog, applications: &[Application]) -> Result<(), Failure> {
        let specs = applications.iter().map(|app| &app.workload.spec);
        let fitting = default_history(specs, self.app.accelerators.is_some());
        if self.condition.is_none() && self.fill.is_none() && fitting == DriveHistory::default() {
            return Ok(());
        }
        let history = Some(self.condition.unwrap_or(fitting));
        let condition = condition_of(history, self.fill).map_err(Failure::input)?;
        let with_one = catalog.drives().filter(|drive| drive.condition().is_some());
        let ids: Vec<String> = with_one.map(|drive| drive.id.clone()).collect();
        ids.iter().try_for_each(|id| catalog.condition_drive(id, condition)).map_err(Failure::input)
    }

    /// What the price file says, whose parts are all in the catalogue.
    fn priced(&self, catalog: &Catalog) -> Result<Prices, Failure> {
        let Some(path) = &self.prices else { return Ok(Prices::default()) };
        let prices = Prices::read(path).map_err(Failure::input)?;
        let named =
            |error| anyhow::Error::new(error).context(format!("{}: a part has no such name", path.display()));
        prices.check(catalog).map_err(named).map_err(Failure::input)?;
        Ok(prices)
    }

    /// How long the search may take; no limit where a number of simulations is one.
    fn search_time(&self) -> Option<Duration> {
        let default = self.simulations.is_none().then_some(SEARCH_TIME);
        self.search_time.map(|time| Duration::from_nanos(time.get())).or(default)
    }
}

/// `24`, or `8..24`.
fn members(text: &str) -> Result<(u16, u16), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u16>().ok().filter(|count| (1..=128).contains(count));
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => Err("a number of members is 24, or 8..24, of 1 to 128".into()),
    }
}

/// `5`, `2.5`.
fn years(text: &str) -> Result<f64, String> {
    let years = text.parse().ok().filter(|years: &f64| *years > 0.0 && *years <= 100.0);
    years.ok_or_else(|| "drives last some years, up to 100: write a number such as 5".into())
}

/// `cheapest`, `fastest`.
fn goal(text: &str) -> Result<Goal, String> {
    Goal::named(text).ok_or_else(|| "the best is the cheapest or the fastest".into())
}

/// `20`, `20%`.
fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim().trim_end_matches('%').trim_end().parse().unwrap_or(f64::NAN);
    if value > 0.0 && value <= 1000.0 {
        Ok(value)
    } else {
        Err("a percentage is a number above 0 and up to 1000, as in 20%".into())
    }
}

/// A percentage of what is whole.
fn part(text: &str) -> Result<f64, String> {
    let is_part = |pct: &f64| *pct <= 100.0;
    percent(text)
        .ok()
        .filter(is_part)
        .ok_or_else(|| "a part is a number above 0 and up to 100, as in 50%".into())
}

/// A percentage that is a chance.
fn chance(text: &str) -> Result<f64, String> {
    percent(text)
        .ok()
        .filter(|pct| *pct <= 100.0)
        .ok_or_else(|| "a chance is a number above 0 and up to 100, as in 1%".into())
}

fn failure(error: PlanError) -> Failure {
    if let PlanError::Hosts(error) = error {
        return Failure::run(error);
    }
    let is_unknown = matches!(error, PlanError::UnknownPart(_));
    Failure::input(error).with_any_hint(is_unknown.then_some(LISTED))
}

#[cfg(test)]
mod tests {
    use super::Args;

    #[derive(clap::Parser)]
    struct Plan {
        #[command(flatten)]
        args: Args,
    }

    /// "RAID 60 needs 2 or more spans" was the answer to the name of a default.
    #[test]
    fn a_level_of_spans_alone_has_those_of_the_default() {
        let of = |line: &str| {
            let line = format!("plan --app md1200-oltp --usable 1TB --levels {line}");
            let Plan { args } = clap::Parser::parse_from(line.split_whitespace());
            args.levels_of().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("60"), ["60:2-spans"]);
        assert_eq!(of("5,50 --members 8..48"), ["5", "50:2-spans", "50:4-spans"]);
        assert_eq!(of("10,60:3-spans"), ["10", "60:3-spans"]);
    }
}
