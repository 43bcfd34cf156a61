//! Results of a soak: a row for each target, the faults and their places, and the bound on the error rate.

use super::{TerminalOptions, printable, table};
use crate::figures::three_digits;
use raidlab_units::ByteCount;

/// Faults that are listed for each target.
const LISTED_MAX: usize = 10;

/// What is known of a target.
#[derive(Clone, Debug)]
pub struct SoakFigures<'a> {
    /// The target.
    pub target: String,
    /// Passes that are over.
    pub passes: u64,
    /// Read and compared.
    pub bytes_read: u64,
    /// Time that was spent, in seconds.
    pub seconds: f64,
    /// Faults by kind, those that are there.
    pub faults: Vec<(&'static str, u64)>,
    /// Faults, one by one: the first byte, and what is wrong.
    pub notes: Vec<(u64, &'a str)>,
    /// Upper bound on the rate of faults per bit at the confidence.
    pub rate_bound: Option<f64>,
    /// What is to be said beside it, in lines: what drives counted, how warm it was.
    pub beside: Vec<String>,
}

impl SoakFigures<'_> {
    fn fault_count(&self) -> u64 {
        self.faults.iter().map(|(_, count)| count).sum()
    }
}

/// Prints what was found, with bounds at `confidence_pct`.
pub fn soaks(found: &[SoakFigures<'_>], confidence_pct: f64, options: TerminalOptions) -> String {
    let bound = format!("Rate below ({confidence_pct} %)");
    let header = ["Target", "Passes", "Read", "Bits", "Hours", "MB/s", "Faults", &bound];
    let row = |figures: &SoakFigures<'_>| {
        let rate =
            if figures.seconds > 0.0 { figures.bytes_read as f64 / figures.seconds / 1e6 } else { 0.0 };
        vec![
            figures.target.clone(),
            figures.passes.to_string(),
            ByteCount(figures.bytes_read).to_string(),
            format!("{:.2e}", 8.0 * figures.bytes_read as f64),
            format!("{:.2}", figures.seconds / 3600.0),
            three_digits(rate),
            figures.fault_count().to_string(),
            figures.rate_bound.map_or("-".into(), |rate| format!("{rate:.1e}")),
        ]
    };
    let rows = found.iter().map(row).collect();
    let faulty = found.iter().filter(|figures| figures.fault_count() > 0).map(listing);
    let beside = found.iter().filter(|figures| !figures.beside.is_empty()).map(besides);
    let listed: String = faulty.chain(beside).collect();
    table(&header, 1, vec![rows], options) + "\n" + &listed + &explanation(found, confidence_pct)
}

fn listing(figures: &SoakFigures<'_>) -> String {
    let kinds = figures.faults.iter().map(|(kind, count)| format!("{count} {kind}"));
    let mut text = format!("{}: {}\n", printable(&figures.target), kinds.collect::<Vec<_>>().join(", "));
    for (byte, what) in figures.notes.iter().take(LISTED_MAX) {
        text += &format!("  byte {byte}: {what}\n");
    }
    let more = figures.fault_count().saturating_sub(figures.notes.len().min(LISTED_MAX) as u64);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text + "\n"
}

fn besides(figures: &SoakFigures<'_>) -> String {
    let lines = figures.beside.iter().map(|line| format!("  {}\n", printable(line)));
    format!("{}:\n{}\n", printable(&figures.target), lines.collect::<String>())
}

/// How the bound comes about.
fn explanation(found: &[SoakFigures<'_>], confidence_pct: f64) -> String {
    let chance = 1.0 - confidence_pct / 100.0;
    let mut text = format!(
        "The bound is the rate p per bit at which k faults or fewer in n bits have a chance of {chance:.3}:\n\
         sum over i = 0..k of exp(-np) (np)^i / i! = {chance:.3}"
    );
    if found.iter().any(|figures| figures.fault_count() == 0 && figures.bytes_read > 0) {
        text += &format!("; without a fault p = {:.3} / n", -chance.ln());
    }
    text + " (Garwood 1936).\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_bounds_stand_where_they_belong() {
        let clean = SoakFigures {
            target: "a".into(),
            passes: 3,
            bytes_read: 3 << 30,
            seconds: 36.0,
            faults: Vec::new(),
            notes: Vec::new(),
            rate_bound: Some(1.16e-10),
            beside: vec!["sda: all 3 SMART counters as before".into()],
        };
        let notes: Vec<_> = (0..12).map(|at| (at * 512, "1 bit has changed")).collect();
        let faulty = SoakFigures {
            target: "b".into(),
            faults: vec![("changed", 12), ("unreadable", 1)],
            notes,
            rate_bound: None,
            beside: Vec::new(),
            ..clean.clone()
        };
        let text = soaks(&[clean, faulty], 95.0, TerminalOptions { width: 110, colour: false });
        let row = text.lines().find(|line| line.starts_with("a ")).expect("a row");
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells, ["a", "3", "3", "GiB", "2.58e10", "0.01", "89.5", "0", "1.2e-10"]);
        assert!(text.contains("b: 12 changed, 1 unreadable\n  byte 0: 1 bit has changed\n"), "{text}");
        assert!(text.contains("  byte 4608: 1 bit has changed\n  and 3 more\n"), "{text}");
        assert!(text.contains("a:\n  sda: all 3 SMART counters as before\n"), "{text}");
        assert!(text.contains("without a fault p = 2.996 / n"), "{text}");
    }
}
