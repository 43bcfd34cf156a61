//! `raidlab runs` and `raidlab show`: the contents of a results file.

use super::keep::DbArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, print_named};
use raidlab_report::known::null_what_is_missing;
use raidlab_report::shortened;
use raidlab_report::terminal::TerminalOptions;
use raidlab_store::{RunFilter, RunLine, RunSelector, StoredRun, StoredStudy};

/// Arguments of `raidlab runs`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: DbArgs,
    /// List study runs instead: what each verb that keeps runs was started for
    #[arg(long)]
    studies: bool,
    /// Only runs of this study run
    #[arg(long, value_name = "N")]
    study: Option<i64>,
    /// Only runs of this workload
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Only runs of this kind: measured, array, simulated
    #[arg(long, value_name = "WORLD", value_parser = ["measured", "array", "simulated"])]
    world: Option<String>,
    /// Only runs whose target has this in its name
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only runs that this verb kept: measure, simulate, soak
    #[arg(long, value_name = "VERB")]
    kind: Option<String>,
    /// So many at most, the latest first
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
}

/// Arguments of `raidlab show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Runs: a number 12 as `raidlab runs` lists it, a range 3..7, study:2, tag:NAME
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<RunSelector>,
    #[command(flatten)]
    place: DbArgs,
}

/// Lists runs, or study runs.
pub(crate) fn list(args: &ListArgs, output: &Output) -> Result<Exit, Failure> {
    let store = args.place.open()?;
    if args.studies {
        let studies = store.list_studies(args.limit).map_err(Failure::run)?;
        if output.is_json() {
            print_named("studies", studies)?;
        } else {
            print(&studies_text(&studies, output))?;
        }
        return Ok(Exit::Done);
    }
    let filter = RunFilter {
        study: args.study,
        workload: args.workload.clone(),
        world: args.world.clone(),
        target: args.target.clone(),
        tag: args.tag.clone(),
        kind: args.kind.clone(),
        limit: Some(args.limit),
    };
    let lines = store.list_runs(&filter).map_err(Failure::run)?;
    if output.is_json() {
        print_named("runs", lines)?;
    } else {
        print(&runs_text(&lines, output.terminal()))?;
    }
    Ok(Exit::Done)
}

/// Shows runs.
pub(crate) fn show(args: &ShowArgs, output: &Output) -> Result<Exit, Failure> {
    let runs = args.place.runs(&args.runs)?;
    if output.is_json() {
        let values = runs.iter().map(as_json).collect::<Result<Vec<_>, _>>()?;
        // A single number gives the run itself; whatever may name several gives a list.
        match (&args.runs[..], &values[..]) {
            ([RunSelector::Run(_)], [run]) => print_answer(run)?,
            _ => print_named("runs", values)?,
        }
        return Ok(Exit::Done);
    }
    let texts: Vec<String> = runs.iter().map(|run| run_text(run, output)).collect();
    print(&texts.join("\n"))?;
    Ok(Exit::Done)
}

/// A run, with null for what is not known of it.
fn as_json(run: &StoredRun) -> Result<serde_json::Value, Failure> {
    let mut value = serde_json::to_value(run).map_err(Failure::run)?;
    null_what_is_missing(&run.result, &mut value["result"]);
    if run.started_at.is_empty() {
        value["started_at_unix"] = serde_json::Value::Null;
    }
    Ok(value)
}

fn run_text(run: &StoredRun, output: &Output) -> String {
    let head = format!("run {} of '{}', started {}", run.id, run.title, or_dash(&run.started_at));
    let mut text = raidlab_report::terminal::broken(&head, output.terminal().width);
    if !run.tags.is_empty() {
        text.extend(["tags: ", &run.tags.join(", "), "\n"]);
    }
    text += &raidlab_report::terminal::run(&run.result, output.terminal());
    text += &raidlab_report::terminal::doubts(&run.result.warnings(), output.terminal());
    text.extend(run.result.figures.iter().map(|(name, value)| format!("{name}: {value}\n")));
    text
}

/// The whole table where the terminal is wide enough for it; else one without what the options select by, and with names cut
/// so that it fits.
fn runs_text(lines: &[RunLine], options: TerminalOptions) -> String {
    let is_closed = lines.iter().all(|line| line.arrivals_per_sec.is_none() && line.accelerators.is_none());
    let names = [if is_closed { "iodepth" } else { "load" }, "IOPS", "MB/s", "mean ms"];
    let figures = |line: &RunLine| figures(line, is_closed);
    let row = |line: &RunLine| {
        let mut row = vec![
            line.id.to_string(),
            line.study.to_string(),
            to_the_second(&line.started_at),
            line.world.clone(),
            line.target.clone(),
            line.workload.clone(),
            line.tags.join(","),
        ];
        row.extend(figures(line));
        row
    };
    let mut header = vec!["Run", "Study", "Started", "World", "Target", "Workload", "Tags"];
    header.extend(names);
    // Names are cut before the table is.
    let uncut = TerminalOptions { width: u16::MAX, ..options };
    let whole = raidlab_report::terminal::table(&header, 7, vec![lines.iter().map(row).collect()], uncut);
    let width = usize::from(options.width);
    if width_of(&whole) <= width {
        return whole;
    }
    let longest =
        |name: fn(&RunLine) -> &str| lines.iter().map(|line| name(line).chars().count()).max().unwrap_or(0);
    let (target, workload) = (longest(|line| &line.target), longest(|line| &line.workload));
    let [target, workload] = [target.max(6), workload.max(8)];
    let narrow = |has_time: bool, [target, workload]: [usize; 2], options| {
        let time: &[&str] = if has_time { &["Started"] } else { &[] };
        let header = [&["Run"], time, &["Target", "Workload"], &names].concat();
        let row = |line: &RunLine| {
            let names = [shortened(&line.target, target), cut_start(&line.workload, workload)];
            let time = has_time.then(|| to_the_minute(&line.started_at));
            let ends = names.into_iter().chain(figures(line));
            std::iter::once(line.id.to_string()).chain(time).chain(ends).collect()
        };
        let first_number = header.len() - names.len();
        let rows = lines.iter().map(row).collect();
        raidlab_report::terminal::table(&header, first_number, vec![rows], options)
    };
    // What the names have beside the rest.
    let room_for_names = |has_time| {
        let taken = width_of(&narrow(has_time, [target, workload], uncut));
        (width + target + workload).saturating_sub(taken)
    };
    // Names of fewer characters tell nothing: the time goes first, and a table that is still too wide stands in parts.
    let has_time = room_for_names(true) >= NAMES_LEAST.min(target + workload);
    let room = room_for_names(has_time);
    // The target gets what the workload leaves of its half, and the other way round.
    let half = (room / 2).max(8);
    let for_target = target.min(half.max(room.saturating_sub(workload)));
    narrow(has_time, [for_target, room.saturating_sub(for_target).max(8)], options)
}

/// Characters that target and workload have together at least.
const NAMES_LEAST: usize = 24;

/// The load, which is an iodepth where all runs are closed loops, and the figures.
fn figures(line: &RunLine, is_closed: bool) -> [String; 4] {
    let known = |figure: Option<f64>, digits: usize| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
    };
    [
        match line.iodepth {
            Some(depth) if is_closed => depth.to_string(),
            None => "-".to_owned(),
            Some(_) => line.offered_load().to_string(),
        },
        known(line.iops, 1),
        known(line.mb_per_s, 1),
        known(line.lat_ns_mean.map(|ns| ns / 1e6), 3),
    ]
}

/// Columns of the widest line; what makes a heading bold takes none.
fn width_of(text: &str) -> usize {
    let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// `name` in at most `width` characters, without its start: workloads of a suite begin alike.
fn cut_start(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    "...".chars().chain(name.chars().skip(length + 3 - width.max(3))).collect()
}

fn studies_text(studies: &[StoredStudy], output: &Output) -> String {
    let row = |study: &StoredStudy| {
        vec![
            study.id.to_string(),
            to_the_second(&study.started_at),
            study.kind.clone(),
            study.title.clone(),
            study.state.clone(),
            format!("{} of {}", study.finished_runs, study.planned_runs),
        ]
    };
    let header = ["Study", "Started", "Verb", "Title", "State", "Runs"];
    let rows = studies.iter().map(row).collect();
    raidlab_report::terminal::table(&header, 5, vec![rows], output.terminal())
}

/// A time as month, day, hour and minute.
fn to_the_minute(time: &str) -> String {
    let time = to_the_second(time);
    time.get(5..16).map_or(time.clone(), str::to_owned)
}

/// A time that may not be known.
fn or_dash(time: &str) -> &str {
    if time.is_empty() { "-" } else { time }
}

/// A time without its fractions: the list is for people.
fn to_the_second(time: &str) -> String {
    let time = or_dash(time);
    time.split('.').next().unwrap_or(time).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::{RunLine, TerminalOptions, runs_text, width_of};

    fn line(target: &str, workload: &str, figures: [f64; 3]) -> RunLine {
        RunLine {
            id: 1,
            study: 1,
            kind: "simulate".into(),
            title: String::new(),
            started_at: "2026-01-02T03:04:05.678Z".into(),
            world: "simulated".into(),
            target: target.into(),
            workload: workload.into(),
            iodepth: Some(64),
            arrivals_per_sec: None,
            accelerators: None,
            iops: Some(figures[0]),
            mb_per_s: Some(figures[1]),
            lat_ns_mean: Some(figures[2]),
            lat_ns_p99: None,
            tags: Vec::new(),
        }
    }

    /// Tables had 81 to 87 columns where names were short or figures long.
    #[test]
    fn every_list_fits_the_terminal() {
        let long = "RAID 10 x12 write-back on st3600057ss behind perc-h800";
        for (target, workload) in [
            (long, "storagebench-database"),
            ("sda", "a-workload-with-a-name-that-is-long"),
            (long, "oltp"),
            ("/a", "b"),
        ] {
            for figures in [[3116.5, 25.5, 2e7], [1_234_567.8, 123_456.7, 12_345_678_901.0]] {
                for arrivals_per_sec in [None, Some(1_234_567.25)] {
                    let line = RunLine { arrivals_per_sec, ..line(target, workload, figures) };
                    let lines = [line.clone(), RunLine { id: 123_456, ..line }];
                    let text = runs_text(&lines, TerminalOptions { width: 80, colour: false });
                    assert!(width_of(&text) <= 80, "{}:\n{text}", width_of(&text));
                }
            }
        }
    }

    /// Bold headings were counted with their escape sequences, and the names cut to nothing.
    #[test]
    fn names_are_cut_alike_with_bold_headings_and_without() {
        let target = "RAID 10 x12 write-back on st3600057ss behind perc-h800";
        let line = line(target, "storagebench-database", [3116.5, 25.5, 2e7]);
        let text = |colour| runs_text(std::slice::from_ref(&line), TerminalOptions { width: 80, colour });
        let cells = |text: &str| text.lines().last().map(str::to_owned);
        assert_eq!(cells(&text(true)), cells(&text(false)));
        assert_eq!(width_of(&text(true)), 80, "{}", text(true));
    }
}
