//! Results of `risk`: the probabilities by cause, the drawn years, and the figures behind them.

use super::{TerminalOptions, printable, wrapped};
use crate::figures::{size, three_digits};
use raidlab_advisor::risk::{EnduranceReport, FleetRisk, LossChance, RiskReport};
use raidlab_units::counted;

/// Prints the chances of an array, and of a fleet where there is one.
pub fn risk(report: &RiskReport, options: TerminalOptions) -> String {
    let (spec, chance) = (&report.spec, &report.markov);
    let width = options.width.min(80);
    let mut text = super::heading(&format!("RAID {} over {} members", spec.level, spec.members), options);
    text += "\n\n";
    text += &chance_lines(report);
    text += &bytes_lines(chance);
    if let Some(pace) = &report.rebuild {
        let [kept, share] = [1.0 - pace.member_share, pace.member_share].map(|share| 100.0 * share);
        text += &format!(
            "Rebuild: {} hours at {} MB/s, {} % of each member's time\n  service keeps {} %\n",
            three_digits(pace.hours),
            three_digits(pace.bytes_per_sec / 1e6),
            three_digits(share),
            three_digits(kept)
        );
    }
    if let Some(endurance) = &report.endurance {
        text += &endurance_lines(endurance);
    }
    text += &drawn_lines(report);
    if let Some(fleet) = &report.fleet {
        text += &fleet_lines(fleet);
    }
    text += "\nIt rests on\n";
    for (name, source) in &report.sources {
        text += &wrapped(&format!("{}: {}", printable(name), printable(source)), width, 2);
    }
    text += "\n";
    text + &wrapped(
        "Low and high: the least and the greatest, with every figure at its better and at its worse end. What is not in these figures: loss by anything but \
         drives, and bad models: of some, 7 to 8 % fail in a year (--afr).",
        width,
        0,
    )
}

/// The chances by kind, from low to high.
fn chance_lines(report: &RiskReport) -> String {
    let all = [&report.range.low, &report.markov, &report.range.high];
    let row = |name: &str, of: fn(&LossChance) -> f64| {
        let [low, value, high] = all.map(|chance| percent(of(chance)));
        format!("{name:<34}{low:>14}{value:>14}{high:>14}\n")
    };
    let mut text = format!("{:<34}{:>14}{:>14}{:>14}\n", "Chance within a year", "low", "estimate", "high");
    text += &row("  any loss of data", |chance| chance.per_year);
    text += &row("    the array is lost", |chance| chance.array_lost_per_year);
    text += &row("    sectors are lost in a rebuild", |chance| chance.per_year_by_read_errors);
    if report.range.high.per_year_beyond_model > 0.001 * report.range.high.per_year {
        text += &row("  beyond the model, counted as loss", |chance| chance.per_year_beyond_model);
    }
    text += "Chance in one rebuild\n";
    text += &row("  any loss of data", |chance| chance.per_rebuild);
    text += &row("    the array is lost", |chance| chance.array_lost_per_rebuild);
    text += "Expected loss in a year\n";
    let bytes = |name: &str, of: fn(&LossChance) -> f64| {
        let [low, value, high] = all.map(|chance| size(of(chance)));
        format!("{name:<34}{low:>14}{value:>14}{high:>14}\n")
    };
    text += &bytes("  with the array", |chance| chance.array_bytes_per_year);
    text + &bytes("  as sectors", |chance| chance.sector_bytes_per_year)
}

/// What most of the expected loss is.
fn bytes_lines(chance: &LossChance) -> String {
    let years = years(chance.array_lost_per_year);
    format!("Mean years to the loss of the array, at that rate: {years}\n")
}

fn endurance_lines(endurance: &EnduranceReport) -> String {
    format!(
        "Rated writes last, with {} of the host a day\n  {:<32}{} years\n  {:<32}{} years\n",
        size(endurance.host_bytes_per_day),
        format!("small at random ({:.2} each)", endurance.factors.small),
        three_digits(endurance.small_years),
        format!("whole stripes ({:.2} each)", endurance.factors.whole_stripes),
        three_digits(endurance.whole_stripes_years),
    )
}

/// The same drawn, as a check of the model.
fn drawn_lines(report: &RiskReport) -> String {
    let (chance, drawn) = (&report.markov, &report.drawn);
    let apart = (drawn.per_year - chance.per_year).abs();
    let (width, verdict) = match drawn.per_year_half_width {
        None => (
            ", its interval unknown".to_owned(),
            match drawn.losses {
                0 => "no drawn year could lose data: draw more with --trials",
                _ => "only one drawn year could lose data: draw more with --trials",
            },
        ),
        Some(half) => (
            format!(" +- {:.1e} % (99 %)", 100.0 * half),
            if apart <= half {
                "agrees"
            } else {
                "differs by more than the interval, as one run of a hundred does: another --seed"
            },
        ),
    };
    let mut text = format!(
        "Check by {}: any loss {}{width}\n  {verdict}\n",
        counted(drawn.trials, "drawn year"),
        percent(drawn.per_year),
    );
    if let Some(patterson) = report.patterson_years {
        text += &format!("By the formula of 1988, failures alone: {patterson:.2e} years\n");
    }
    text
}

fn fleet_lines(fleet: &FleetRisk) -> String {
    let head = format!(
        "\nA fleet of {}: {}, in a year\n",
        counted(fleet.drives, "drive"),
        counted(fleet.arrays, "array")
    );
    let rows = [
        ("arrays that lose data, be it a sector", three_digits(fleet.losses_per_year)),
        ("  that are lost as a whole", three_digits(fleet.arrays_lost_per_year)),
        ("chance that any does", share(fleet.any_loss_per_year)),
        (
            "the first in drawn years (99 %)",
            format!(
                "{} +- {} ({} years drawn)",
                three_digits(fleet.drawn_losses_per_year),
                three_digits(fleet.drawn_losses_half_width),
                fleet.years_drawn
            ),
        ),
        ("members that fail", three_digits(fleet.failures_per_year)),
        ("rebuilds", three_digits(fleet.rebuilds_per_year)),
        ("arrays that wait for a drive", three_digits(fleet.arrays_that_waited_per_year)),
    ];
    rows.iter().fold(head, |text, (name, value)| text + &format!("  {name:<40}{value}\n"))
}

/// A chance as a percentage.
fn percent(chance: f64) -> String {
    let pct = chance * 100.0;
    match pct {
        _ if pct <= 0.0 => "0".to_owned(),
        _ if pct >= 0.001 => format!("{} %", three_digits(pct)),
        _ => format!("{pct:.1e} %"),
    }
}

/// A chance as a percentage, and as one in so many where it is small.
fn share(chance: f64) -> String {
    if chance <= 0.0 {
        return "0".to_owned();
    }
    let pct = chance * 100.0;
    let pct = if pct >= 0.001 { format!("{} %", three_digits(pct)) } else { format!("{pct:.2e} %") };
    if chance < 0.5 { format!("{pct} (1 in {:.0})", 1.0 / chance) } else { pct }
}

fn years(chance: f64) -> String {
    if chance <= 0.0 { "never".to_owned() } else { format!("{:.2e}", -1.0 / (-chance).ln_1p()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_advisor::risk::{RebuildPace, Risk, RiskRange, RiskSpec};
    use raidlab_units::ByteCount;

    #[test]
    fn chances_stand_beside_what_they_rest_on() {
        let spec = RiskSpec {
            level: "5".parse().expect("a level"),
            members: 8,
            annual_failure_share: 0.02,
            bits_per_read_error: Some(1e15),
            latent_errors_per_year: 0.01,
            blocks_per_latent_error: 1.0,
            capacity: ByteCount(2_000_000_000_000),
            rebuild_hours: 10.0,
            spares: 1,
            replace_hours: 24.0,
            check_days: Some(7.0),
            followed_share: 0.0,
            follow_days: 9.5,
        };
        let risk_of = Risk::new(&spec).expect("an array");
        let markov = risk_of.markov();
        let range = RiskRange { low_spec: spec.clone(), low: markov, high_spec: spec.clone(), high: markov };
        let report = RiskReport {
            sources: vec![("members".into(), "given".into())],
            markov,
            range,
            drawn: risk_of.monte_carlo(2_000, 1),
            patterson_years: risk_of.patterson_years(),
            rebuild: Some(RebuildPace::of_share(0.3, 2e12, 1e8)),
            endurance: None,
            fleet: None,
            spec,
        };
        let text = risk(&report, TerminalOptions { width: 100, colour: false });
        assert!(text.starts_with("RAID 5 over 8 members\n"), "{text}");
        assert!(text.contains("the array is lost") && text.contains("members: given"), "{text}");
        let few = RiskReport { drawn: risk_of.monte_carlo(1, 1), ..report };
        assert!(
            risk(&few, TerminalOptions { width: 100, colour: false }).contains(", its interval unknown\n  "),
        );
        assert!(text.contains("18.5 hours at 30.0 MB/s") && text.contains("service keeps 70.0 %"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(share(0.001), "0.100 % (1 in 1000)");
        assert_eq!((percent(0.0), percent(0.001)), ("0".to_owned(), "0.100 %".to_owned()));
        assert_eq!(
            (size(0.0), size(4096.0), size(1.5e12)),
            ("0".to_owned() + " B", "4.10 kB".into(), "1.50 TB".into())
        );
        assert_eq!(years(0.0), "never");
    }
}
