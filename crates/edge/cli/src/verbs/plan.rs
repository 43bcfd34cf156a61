//! `raidlab plan`: the arrays that serve an application best, of those that the catalogue's parts make.

use crate::failure::{Exit, Failure};
use crate::inputs::workloads;
use crate::output::{Output, print, print_json};
use crate::progress::Progress;
use raidlab_advisor::plan::{Needs, Relaxation, Space};
use raidlab_hardware::Catalog;
use raidlab_lab::planning::{
    PlanError, PlanOrder, PlanOutcome, Planned, Prices, default_levels, default_settings, plan,
};
use raidlab_report::terminal::{PlanRow, PlanText};
use raidlab_units::{ByteCount, NanoSpan};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Arguments of `raidlab plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Applications, each of which the array must serve: workloads, or files of workloads
    #[arg(long, required = true, value_delimiter = ',', value_name = "NAME")]
    app: Vec<String>,
    /// Capacity that the host needs
    #[arg(long, value_name = "SIZE")]
    usable: ByteCount,
    /// Failed members that the array must survive, whichever they are
    #[arg(long, default_value_t = 1, value_name = "N")]
    survive: u16,
    /// Requests per second that each application needs
    #[arg(long, value_name = "N")]
    iops: Option<f64>,
    /// MiB per second that each application needs
    #[arg(long, value_name = "N")]
    mib_per_sec: Option<f64>,
    /// Mean latency at most; fewer requests are put in flight until it is kept
    #[arg(long, value_name = "TIME")]
    mean_response: Option<NanoSpan>,
    /// Cost at most, in the currency of the price file
    #[arg(long, value_name = "N", requires = "prices")]
    budget: Option<f64>,
    /// Prices and powers of parts (TOML)
    #[arg(long, value_name = "FILE.toml")]
    prices: Option<PathBuf>,
    /// Power at most, in watts
    #[arg(long, value_name = "W")]
    power: Option<f64>,
    /// Places for drives at most, spares included
    #[arg(long, value_name = "N")]
    slots: Option<u16>,
    /// Drives to choose from, by their names in the catalogue [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    drives: Vec<String>,
    /// Controllers to choose from [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    controllers: Vec<String>,
    /// Enclosures to choose from [default: all, and drives in the server]
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    enclosures: Vec<String>,
    /// Hot spares to try
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N")]
    spares: Vec<u16>,
    /// Strips to try beside the one that the controller is delivered with
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    strip_sizes: Vec<ByteCount>,
    /// Try every level and variant, not only 1, 5, 6, 10, 50 and 60
    #[arg(long)]
    all_levels: bool,
    /// Requests in flight of each application
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    iodepth: u32,
    /// Arrays to tell of
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=50))]
    top: u16,
    /// Threads; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let catalog = Catalog::builtin();
    let prices =
        args.prices.as_deref().map(Prices::read).transpose().map_err(Failure::input)?.unwrap_or_default();
    let applications = workloads(&args.app)?;
    let slots = args.slots.unwrap_or(24).min(128);
    let order = PlanOrder {
        catalog: &catalog,
        prices: &prices,
        needs: args.needs(),
        applications: &applications,
        drives: &args.drives,
        controllers: &args.controllers,
        enclosures: &args.enclosures,
        space: Space {
            levels: default_levels(args.survive, args.all_levels),
            members_max: slots,
            enclosures_max: 8,
            spares: args.spares.clone(),
            settings: default_settings(&args.strip_sizes),
        },
        iodepth: args.iodepth,
        top: usize::from(args.top),
        threads: args.threads,
        seed: args.seed,
    };
    let mut progress = Progress::start();
    let outcome = plan(&order, &mut |label, done| progress.show(label, done)).map_err(failure)?;
    progress.end();
    if output.is_json() {
        print_json(&to_json(&outcome, &order))?;
    } else {
        print(&to_text(&outcome, &order, output))?;
    }
    Ok(if outcome.fits() { Exit::Done } else { Exit::BoundMissed })
}

impl Args {
    fn needs(&self) -> Needs {
        Needs {
            usable: self.usable,
            survive: self.survive,
            iops: self.iops,
            bytes_per_sec: self.mib_per_sec.map(|rate| rate * 1_048_576.0),
            mean_response: self.mean_response,
            budget: self.budget,
            power_watts: self.power,
            slots: self.slots,
        }
    }
}

fn failure(error: PlanError) -> Failure {
    let is_unknown = matches!(error, PlanError::UnknownPart(_));
    let failure = Failure::input(error);
    if is_unknown { failure.with_hint("'raidlab catalog' lists the hardware") } else { failure }
}

fn to_text(outcome: &PlanOutcome, order: &PlanOrder<'_>, output: &Output) -> String {
    let row = |one: &'_ Planned| one.risk.map(|risk| risk.per_year);
    let rows = outcome.top.iter().map(|one| PlanRow {
        label: &one.label,
        settings: &one.settings_label,
        keeps_needs: one.keeps_needs,
        performance: &one.judged.performance,
        degraded: &one.degraded,
        rebuilding: &one.rebuilding,
        margins: one.margins,
        usable_bytes: one.judged.usable_bytes,
        rebuild_hours: one.rebuild_hours,
        loss_per_year: row(one),
        cost: one.judged.cost,
        watts: one.judged.watts,
        reason: &one.reason,
    });
    let text = PlanText {
        rows: rows.collect(),
        applications: order.applications.iter().map(|app| app.name()).collect(),
        account: account(outcome),
        currency: &order.prices.currency,
    };
    raidlab_report::terminal::plan(&text, output.terminal())
}

/// What was looked at and left out.
fn account(outcome: &PlanOutcome) -> Vec<String> {
    let mut lines = vec![format!(
        "{} candidates by arithmetic in {:.2} s; {} arrays simulated; {} that fit were not, because they can't beat those that were.",
        outcome.candidates, outcome.arithmetic_secs, outcome.simulated, outcome.not_simulated
    )];
    let rejected = outcome.rejected.iter().map(|(reason, count)| format!("{count} {}", reason.words()));
    lines.push(format!("Rejected: {}.", rejected.collect::<Vec<_>>().join(", ")));
    let efficient = outcome.pareto.iter().filter(|point| point.is_efficient);
    let effort = if outcome.has_prices { "cost" } else { "drives" };
    for point in efficient {
        lines.push(format!(
            "No array is faster for less: {} ({effort} {}).",
            outcome.others[point.index].0, point.effort
        ));
    }
    lines.extend(outcome.relaxations.iter().map(relaxation));
    lines
}

fn relaxation(it: &Relaxation) -> String {
    format!("Nothing fits. Something would with {:?} at {} instead of {}.", it.need, it.to, it.from)
}

fn to_json(outcome: &PlanOutcome, order: &PlanOrder<'_>) -> Value {
    let top = outcome.top.iter().map(|one| {
        json!({
            "array": one.label, "settings": one.judged.settings, "settings_text": one.settings_label,
            "keeps_needs": one.keeps_needs, "margins": one.margins, "performance": one.judged.performance,
            "degraded": one.degraded, "rebuilding": one.rebuilding, "rebuild_hours": one.rebuild_hours,
            "risk": one.risk, "usable_bytes": one.judged.usable_bytes, "cost": one.judged.cost,
            "watts": one.judged.watts, "reason": one.reason,
        })
    });
    let others: Vec<Value> = outcome
        .others
        .iter()
        .zip(&outcome.pareto)
        .map(|((label, judged), point)| {
            json!({ "array": label, "settings": judged.settings, "performance": judged.performance, "point": point })
        })
        .collect();
    json!({
        "schema": 1, "needs": order.needs, "candidates": outcome.candidates, "rejected": outcome.rejected,
        "arithmetic_secs": outcome.arithmetic_secs, "simulated": outcome.simulated,
        "top": top.collect::<Vec<_>>(), "simulated_arrays": others, "relaxations": outcome.relaxations,
    })
}
