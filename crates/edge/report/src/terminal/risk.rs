//! What `risk` found: the chances, by what, beside drawn years, and what they rest on.

use super::{TerminalOptions, printable, wrapped};
use crate::figures::three_digits;
use raidlab_advisor::risk::{FleetRisk, RiskReport};

/// Prints the chances of an array, and of a fleet where there is one.
pub fn risk(report: &RiskReport, options: TerminalOptions) -> String {
    let (spec, chance, drawn) = (&report.spec, &report.markov, &report.drawn);
    let mut text = super::heading(&format!("RAID {} over {} members", spec.level, spec.members), options);
    text += "\n\nData loss within a year\n";
    let mut line = |name: &str, value: String| text += &format!("  {name:<40}{value}\n");
    line("by the Markov model", share(chance.per_year));
    line("  too many failed members", share(chance.per_year_by_failures));
    line("  unreadable in a rebuild", share(chance.per_year_by_read_errors));
    if chance.per_year_beyond_model > 0.001 * chance.per_year {
        line("  more failures than the model follows", share(chance.per_year_beyond_model));
    }
    line(
        "by drawn years (99 % interval)",
        format!("{} +- {:.1e} %", share(drawn.per_year), 100.0 * drawn.per_year_half_width),
    );
    let apart = (drawn.per_year - chance.per_year).abs();
    let verdict = if drawn.losses == 0 {
        "no drawn year lost data: draw more with --trials"
    } else if apart <= drawn.per_year_half_width {
        "agree"
    } else {
        "differ by more than the interval, as one run of a hundred does: try another seed"
    };
    line("  both methods", verdict.to_owned());
    line("mean years to data loss, at that rate", years(chance.per_year));
    if let Some(patterson) = report.patterson_years {
        line("  by the formula of 1988 (failures)", format!("{patterson:.3e}"));
    }
    line("Data loss in one rebuild", share(chance.per_rebuild));
    if let Some(fleet) = &report.fleet {
        text += &fleet_lines(fleet);
    }
    text += "\nIt rests on\n";
    for (name, source) in &report.sources {
        text += &wrapped(&format!("{}: {}", printable(name), printable(source)), options.width, 2);
    }
    text += "\n";
    text + &wrapped(
        "Failures count as independent and as likely at any age; what hits several drives at once (a batch, a shelf, heat) \
         is not in these figures, and field studies find more losses.",
        options.width,
        0,
    )
}

fn fleet_lines(fleet: &FleetRisk) -> String {
    let head = format!("\nA fleet of {} drives: {} arrays, in a year\n", fleet.drives, fleet.arrays);
    let rows = [
        ("arrays that lose data", format!("{:.4}", fleet.losses_per_year)),
        ("chance that any does", share(fleet.any_loss_per_year)),
        (
            "arrays lost in drawn years (99 %)",
            format!(
                "{:.4} +- {:.4} ({} years drawn)",
                fleet.drawn_losses_per_year, fleet.drawn_losses_half_width, fleet.years_drawn
            ),
        ),
        ("members that fail", format!("{:.1}", fleet.failures_per_year)),
        ("rebuilds", format!("{:.1}", fleet.rebuilds_per_year)),
        ("arrays that wait for a drive", format!("{:.1}", fleet.arrays_that_waited_per_year)),
    ];
    rows.iter().fold(head, |text, (name, value)| text + &format!("  {name:<40}{value}\n"))
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
    if chance <= 0.0 { "never".to_owned() } else { format!("{:.3e}", -1.0 / (-chance).ln_1p()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_advisor::risk::{Risk, RiskSpec};
    use raidlab_units::ByteCount;

    #[test]
    fn chances_stand_beside_what_they_rest_on() {
        let spec = RiskSpec {
            level: "5".parse().expect("a level"),
            members: 8,
            annual_failure_share: 0.02,
            bits_per_read_error: Some(1e15),
            latent_errors_per_year: 0.01,
            capacity: ByteCount(2_000_000_000_000),
            rebuild_hours: 10.0,
            spares: 1,
            replace_hours: 24.0,
            check_days: Some(7.0),
        };
        let risk_of = Risk::new(&spec).expect("an array");
        let report = RiskReport {
            sources: vec![("members".into(), "given".into())],
            markov: risk_of.markov(),
            drawn: risk_of.monte_carlo(2_000, 1),
            patterson_years: risk_of.patterson_years(),
            fleet: None,
            spec,
        };
        let text = risk(&report, TerminalOptions { width: 100, colour: false });
        assert!(text.starts_with("RAID 5 over 8 members\n"), "{text}");
        assert!(text.contains("Data loss in one rebuild") && text.contains("members: given"), "{text}");
        assert_eq!(share(0.0), "0");
        assert_eq!(share(0.001), "0.100 % (1 in 1000)");
        assert_eq!(years(0.0), "never");
    }
}
