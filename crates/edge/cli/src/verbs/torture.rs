//! `raidlab torture`: the controller under load and faults, with every byte checked, one seed after another.
//!
//! Each seed is a run of its own, so threads share nothing but the next seed and the sums; the digest of a campaign does
//! not depend on their number. The first failure ends the campaign: it is shrunk and shown with the way to see it again.

use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_json};
use crate::progress::Progress;
use clap::ValueEnum;
use raidlab_raid::LevelVariant;
use raidlab_sim::{Fault, Shrunk, TortureMode, TorturePlan, TortureReport, shrink};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `raidlab torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed; it decides the array, the load and the faults
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Host requests of each seed
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    ops: u64,
    /// Seeds to run, counted up from the first
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Go on with further seeds for so long, whatever their number
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "faults"])]
    minutes: Option<u64>,
    /// Faults no worse than what the level survives, or worse
    #[arg(long, value_enum, default_value_t = Mode::Bounded)]
    mode: Mode,
    /// Seeds to run at once [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Which arrays' blocks have tags, and devices that lie: change bytes, lose writes, write to a wrong place
    /// [default: what each seed draws, one in five]
    #[arg(long, value_enum)]
    tags: Option<Tags>,
    /// Only arrays of this level
    #[arg(long)]
    level: Option<LevelVariant>,
    /// Leave out all faults of the seed's plan but those at these places, counted from 0; `none` leaves out all
    #[arg(long, value_name = "N,...", conflicts_with = "seeds")]
    faults: Option<Places>,
}

/// Faults, and what must hold.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// No more goes wrong than the level survives: no request may fail
    Bounded,
    /// More goes wrong than the level survives: requests may fail, but nothing may be wrong
    Beyond,
}

/// Arrays with tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tags {
    /// All arrays have tags
    All,
    /// No array has tags
    None,
}

/// Places in a plan's list of faults.
#[derive(Clone, Debug)]
struct Places(Vec<usize>);

impl std::str::FromStr for Places {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Mode> for TortureMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Bounded => Self::Bounded,
            Mode::Beyond => Self::Beyond,
        }
    }
}

/// What the threads of a campaign share.
struct Campaign<'a> {
    args: &'a Args,
    until: Option<Instant>,
    next: AtomicU64,
    stop: &'a AtomicBool,
    done: AtomicBool,
    sum: Mutex<TortureReport>,
    /// The failing seed with the lowest number.
    failed: Mutex<Option<(TorturePlan, raidlab_sim::Failure)>>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    plan(args, args.seed)?;
    let processors = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = args.jobs.unwrap_or_else(processors).get();
    let cancelled = cancel_flag("stopping after the runs that are under way (once more to stop at once)");
    let start = Instant::now();
    let campaign = Campaign {
        args,
        until: args.minutes.map(|minutes| start + Duration::from_secs(60 * minutes)),
        next: AtomicU64::new(0),
        stop: &cancelled,
        done: AtomicBool::new(false),
        sum: Mutex::default(),
        failed: Mutex::default(),
    };
    // A panic of the controller is caught, counted as a failure and shown with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| campaign.work())).collect();
        campaign.watch(start, || workers.iter().all(std::thread::ScopedJoinHandle::is_finished));
    });
    let seconds = start.elapsed().as_secs_f64();
    let failed = campaign.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shrunk = failed.map(|(plan, failure)| {
        let mut shrunk = shrink(&plan, &failure);
        if let Some(Places(kept)) = &args.faults {
            let whole = drawn(args, plan.seed)?;
            shrunk.faults = places_in_whole(&shrunk.faults, kept, whole.faults.len());
        }
        Ok::<_, Failure>(shrunk)
    });
    let _ = std::panic::take_hook();
    let shrunk = shrunk.transpose()?;
    let sum = campaign.sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if output.is_json() {
        print_json(&as_json(args, &sum, seconds, shrunk.as_ref()))?;
    } else {
        print(&as_text(args, &sum, seconds, shrunk.as_ref()))?;
    }
    Ok(match (shrunk, cancelled.load(Ordering::Relaxed)) {
        (Some(_), _) => Exit::RunFailed,
        (None, true) => Exit::Interrupted,
        (None, false) => Exit::Done,
    })
}

/// The plan of a seed, with all its faults.
fn drawn(args: &Args, seed: u64) -> Result<TorturePlan, Failure> {
    let Args { ops, mode, level, tags, .. } = *args;
    let drawn = match tags {
        Some(tags) => TorturePlan::draw_with(tags == Tags::All, seed, ops, mode.into(), level),
        None => TorturePlan::draw(seed, ops, mode.into(), level),
    };
    drawn.map_err(Failure::input)
}

/// Places in a whole plan, which has so many faults, of those at `places` when only the faults at `kept` were left.
fn places_in_whole(places: &[usize], kept: &[usize], faults: usize) -> Vec<usize> {
    let left: Vec<usize> = kept.iter().copied().filter(|place| *place < faults).collect();
    places.iter().map(|place| left[*place]).collect()
}

fn plan(args: &Args, seed: u64) -> Result<TorturePlan, Failure> {
    let mut plan = drawn(args, seed)?;
    if let Some(places) = &args.faults {
        plan.keep_faults(&places.0);
    }
    Ok(plan)
}

impl Campaign<'_> {
    /// Runs seeds until there are no more.
    fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) && !self.done.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let is_over = match self.until {
                Some(until) => Instant::now() >= until,
                None => index >= self.args.seeds,
            };
            if is_over {
                return;
            }
            // The level was tried before the campaign began.
            let Ok(plan) = plan(self.args, self.args.seed.wrapping_add(index)) else { return };
            match plan.run() {
                Ok(report) => self.sum.lock().unwrap_or_else(PoisonError::into_inner).add(&report),
                Err(failure) => {
                    self.done.store(true, Ordering::Relaxed);
                    let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(first, _)| plan.seed < first.seed) {
                        *failed = Some((plan, failure));
                    }
                }
            }
        }
    }

    /// Shows how far the campaign is, until `is_finished`.
    fn watch(&self, start: Instant, is_finished: impl Fn() -> bool) {
        let mut progress = Progress::start();
        let mut shown = start;
        while !is_finished() {
            std::thread::sleep(Duration::from_millis(2));
            if shown.elapsed() < SHOW_EVERY {
                continue;
            }
            shown = Instant::now();
            let sum = *self.sum.lock().unwrap_or_else(PoisonError::into_inner);
            let share = match self.until {
                Some(until) => start.elapsed().as_secs_f64() / (until - start).as_secs_f64().max(1.0),
                None => sum.seeds as f64 / self.args.seeds as f64,
            };
            let rate = sum.host_ops as f64 / start.elapsed().as_secs_f64();
            let text = format!("{} seeds, {} host requests, {rate:.0} a second", sum.seeds, sum.host_ops);
            progress.show(&text, share);
        }
        progress.end();
    }
}

/// The command that shows a failure again.
fn replay_command(args: &Args, shrunk: &Shrunk) -> String {
    let Shrunk { plan, faults, .. } = shrunk;
    let mut command =
        format!("raidlab torture --seed {} --ops {} --mode {}", plan.seed, plan.ops, plan.mode.name());
    if let Some(tags) = args.tags {
        command.push_str(if tags == Tags::All { " --tags all" } else { " --tags none" });
    }
    if let Some(level) = args.level {
        let _ = write!(command, " --level {level}");
    }
    let places: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let places = if places.is_empty() { "none".to_owned() } else { places.join(",") };
    let _ = write!(command, " --faults {places}");
    command
}

fn as_text(args: &Args, sum: &TortureReport, seconds: f64, shrunk: Option<&Shrunk>) -> String {
    let rate = sum.host_ops as f64 / seconds.max(1e-9);
    let rows = [
        ("seeds", sum.seeds.to_string()),
        ("host requests", sum.host_ops.to_string()),
        ("host requests/s", format!("{rate:.0}")),
        ("member I/Os", sum.member_ios.to_string()),
        ("restarts", sum.restarts.to_string()),
        ("refused starts", sum.refused.to_string()),
        ("data-lost errors", sum.data_lost_errors.to_string()),
        ("array-failed errors", sum.array_failed_errors.to_string()),
        ("violations", u32::from(shrunk.is_some()).to_string()),
        ("digest", format!("{:016x}", sum.digest)),
    ];
    let mut text =
        rows.iter().fold(String::new(), |text, (name, value)| text + &format!("{name:20}{value}\n"));
    text += "faults injected\n";
    for (fault, count) in Fault::ALL.iter().zip(sum.faults) {
        let _ = writeln!(text, "  {:18}{count}", fault.name());
    }
    if let Some(shrunk) = shrunk {
        let Shrunk { plan, failure, .. } = shrunk;
        let _ = write!(text, "\n{failure}\n{:#?}\n\nSee it again: {}\n", plan, replay_command(args, shrunk));
    }
    text
}

fn as_json(args: &Args, sum: &TortureReport, seconds: f64, shrunk: Option<&Shrunk>) -> Value {
    let faults: serde_json::Map<String, Value> = Fault::ALL
        .iter()
        .zip(sum.faults)
        .map(|(fault, count)| (fault.name().to_owned(), json!(count)))
        .collect();
    json!({
        "schema": 1,
        "seeds": sum.seeds,
        "host_ops": sum.host_ops,
        "host_ops_per_sec": sum.host_ops as f64 / seconds.max(1e-9),
        "member_ios": sum.member_ios,
        "restarts": sum.restarts,
        "refused_starts": sum.refused,
        "data_lost_errors": sum.data_lost_errors,
        "array_failed_errors": sum.array_failed_errors,
        "stripes_unchecked": sum.stripes_unchecked,
        "faults": faults,
        "digest": format!("{:016x}", sum.digest),
        "violations": u32::from(shrunk.is_some()),
        "violation": shrunk.map(|shrunk| json!({
            "seed": shrunk.plan.seed,
            "ops": shrunk.plan.ops,
            "checker": shrunk.failure.violation.checker(),
            "text": shrunk.failure.violation.to_string(),
            "faults": shrunk.faults,
            "command": replay_command(args, shrunk),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the command named places among the faults that were kept, and showed another run.
    #[test]
    fn places_after_faults_were_kept_name_the_same_faults_in_the_whole_plan() {
        let whole = || TorturePlan::draw(33, 3_000, TortureMode::Bounded, None).expect("any level");
        let faults = whole().faults.len();
        assert!(faults > 8, "{faults}");
        for kept in [vec![1, 2, 5, 6, 7, 8], vec![faults, 7, 3, 1], (0..faults).collect()] {
            let mut shrunk = whole();
            shrunk.keep_faults(&kept);
            let places = [2, 0];
            shrunk.keep_faults(&places);
            let mut again = whole();
            again.keep_faults(&places_in_whole(&places, &kept, faults));
            assert_eq!(shrunk.faults, again.faults);
            assert_eq!(again.faults.len(), 2);
        }
    }
}
