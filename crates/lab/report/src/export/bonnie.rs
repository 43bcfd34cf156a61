//! Runs of Bonnie in bonnie++'s format: its CSV of format 1.98, which `bon_csv2html` and `bon_csv2txt` read.
//!
//! There is a line for each run. Rates are KiB per second, for seeks and files per second; processors percent. The
//! latencies of its last columns are not measured here and stay empty, as do the many files if there were none.
//!
//! Source: R. Coker, bonnie++ 2.00a, manual page `bon_csv2html`.

use raidlab_workload::RunResult;
use raidlab_workload::program::{BonniePhase, BonnieProgram, ManyFilesPhase};

/// Phases in the order of the columns.
const FILE_PHASES: [BonniePhase; 6] = [
    BonniePhase::CharWrite,
    BonniePhase::BlockWrite,
    BonniePhase::Rewrite,
    BonniePhase::CharRead,
    BonniePhase::BlockRead,
    BonniePhase::Seeks,
];
/// Columns of latencies.
const LATENCIES: usize = 12;
/// Files are counted in so many.
const FILES_UNIT: u64 = 1024;

/// Prints the runs of Bonnie among `runs`.
pub fn bonnie(runs: &[RunResult]) -> String {
    runs.iter().filter_map(line).collect()
}

fn line(run: &RunResult) -> Option<String> {
    let file = run.phase(BonniePhase::BlockWrite.name())?;
    let mut fields = vec![
        "1.98".to_owned(),
        concat!("raidlab-", env!("CARGO_PKG_VERSION")).to_owned(),
        name(&run.target),
        "1".to_owned(),
        run.seed.to_string(),
        format!("{}M", file.bytes >> 20),
        BonnieProgram::block_bytes().to_string(),
        run.phase(BonniePhase::Seeks.name()).map_or(0, |seeks| seeks.calls).to_string(),
        BonnieProgram::seekers().to_string(),
    ];
    for phase in FILE_PHASES {
        let figures = run.phase(phase.name());
        fields.extend(figures.map_or([String::new(), String::new()], |figures| {
            let kib = figures.rate().0 / 1024.0;
            let rate = if phase == BonniePhase::Seeks { figures.calls_per_sec() } else { kib };
            [format!("{rate:.0}"), format!("{:.0}", figures.cpu_pct())]
        }));
    }
    let files = run.phase(ManyFilesPhase::SeqCreate.name()).map(|created| created.calls);
    fields.push(files.map_or_else(String::new, |files| format!("{:.0}", files as f64 / FILES_UNIT as f64)));
    fields.extend(std::iter::repeat_n(String::new(), 4));
    for phase in ManyFilesPhase::ALL {
        let figures = run.phase(phase.name());
        fields.extend(figures.map_or([String::new(), String::new()], |figures| {
            [format!("{:.0}", figures.calls_per_sec()), format!("{:.0}", figures.cpu_pct())]
        }));
    }
    fields.extend(std::iter::repeat_n(String::new(), LATENCIES));
    Some(fields.join(",") + "\n")
}

/// A name that is one field.
fn name(target: &str) -> String {
    target.chars().map(|c| if c == ',' || c == '"' || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::tests::{bonnie_run, streams_run};

    #[test]
    fn every_line_has_the_columns_of_the_format() {
        let text = bonnie(&[bonnie_run("a,b", 100, 1_000), streams_run("a", &[1])]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "streams are none of Bonnie's");
        let fields: Vec<&str> = lines[0].split(',').collect();
        assert_eq!(fields.len(), 50);
        assert_eq!((fields[0], fields[2], fields[5]), ("1.98", "a_b", "100M"));
        assert_eq!((fields[11], fields[12], fields[19]), ("1000", "25", "39"));
        assert_eq!((fields[21], fields[26]), ("", ""));
    }
}
