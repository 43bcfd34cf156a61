//! Which assumption of a prediction was wrong, as text.

use super::{TerminalOptions, broken, printable, table};
use raidlab_planning::{AskedFigure, Cause, ComparedRun, DoneFigure, Explanation, Finding, Trial};
use raidlab_units::ByteCount;

/// Prints what was found of the runs called `names`, against the plan called `plan`.
pub fn explanation(plan: &str, names: &[String], found: &Explanation, options: TerminalOptions) -> String {
    let mut text = broken(&format!("{plan}: {}", printable(&found.array)), options.width);
    for (name, run) in names.iter().zip(&found.runs) {
        text += "\n";
        text += &of_run(name, run, options);
    }
    if !found.trials.is_empty() {
        let rows = found.trials.iter().map(trial).collect();
        let header = ["Changed", "takes", "off by", "explains it"];
        text += "\n";
        text += &table(&header, 1, vec![rows], options);
        let meaning = "Off by: how far requests/s and mean latencies then are from the measured ones, on average over both and over the runs.\n";
        text += &broken(meaning, options.width);
        if found.trials.iter().any(|trial| trial.at_bound) {
            let meaning = "Bound: the search goes no further. What fits best lies beyond, so that this is no finding.\n";
            text += &broken(meaning, options.width);
        }
    }
    text += "\n";
    text += &broken(&verdict(found), options.width);
    for note in &found.notes {
        text += &broken(&format!("note: {}", printable(note)), options.width);
    }
    text
}

fn of_run(name: &str, run: &ComparedRun, options: TerminalOptions) -> String {
    let head = format!(
        "{name}: {} on {}, beside {} as predicted",
        printable(&run.workload),
        printable(&run.target),
        printable(&run.predicted_workload)
    );
    let asked = run.asked.iter().map(|figure| asked_row(figure).to_vec()).collect();
    let done = run.done.iter().map(|figure| done_row(figure).to_vec()).collect();
    broken(&head, options.width)
        + &table(&["Figure", "predicted", "measured", "difference"], 1, vec![asked, done], options)
}

fn asked_row(figure: &AskedFigure) -> [String; 4] {
    let (name, show): (&str, fn(f64) -> String) = match figure.name {
        "read_pct" => ("reads", |pct| format!("{pct:.1} %")),
        "mean_read_bytes" => ("size of reads", size),
        "mean_write_bytes" => ("size of writes", size),
        "random_pct" => ("at random places", |pct| format!("{pct:.0} %")),
        "iodepth" => ("in flight", |depth| format!("{depth:.0}")),
        "arrivals_per_sec" => ("arrivals/s", |rate| format!("{rate:.1}")),
        _ => ("region", size),
    };
    let text = |value: Option<f64>| value.map_or("-".to_owned(), show);
    let difference = if figure.differs { "other workload" } else { "" };
    [name.to_owned(), text(figure.predicted), text(figure.measured), difference.to_owned()]
}

fn size(bytes: f64) -> String {
    ByteCount(bytes.round() as u64).to_string()
}

fn done_row(figure: &DoneFigure) -> [String; 4] {
    let span = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let (name, show): (&str, fn(f64) -> String) = match figure.name {
        "iops" => ("requests/s", |iops| format!("{iops:.1}")),
        "read_lat_ns_mean" => ("mean of reads", span),
        "write_lat_ns_mean" => ("mean of writes", span),
        "lat_ns_p50" => ("median", span),
        "lat_ns_p90" => ("90th percentile", span),
        _ => ("99th percentile", span),
    };
    [name.to_owned(), show(figure.predicted), show(figure.measured), difference(figure.difference_pct)]
}

/// Percent; a multiple from three times on, where percents are hard to read.
fn difference(pct: f64) -> String {
    if pct < 200.0 { format!("{pct:+.1} %") } else { format!("{:.1} times", 1.0 + pct / 100.0) }
}

const fn name_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Workload => "workload",
        Cause::Drive => "drive",
        Cause::Link => "link",
        Cause::Host => "host",
    }
}

fn trial(trial: &Trial) -> Vec<String> {
    vec![
        name_of(trial.change).to_owned(),
        trial.times.map_or("as measured".to_owned(), times) + if trial.at_bound { " (bound)" } else { "" },
        format!("{:.1} %", trial.off_pct),
        if trial.explains { "yes" } else { "no" }.to_owned(),
    ]
}

fn times(times: f64) -> String {
    format!("{times:.2} times as long")
}

/// What was found, in sentences.
fn verdict(found: &Explanation) -> String {
    let parts: Vec<&Trial> =
        found.trials.iter().filter(|it| it.change != Cause::Workload && it.explains).collect();
    let of_parts = |trial: &&Trial| {
        let what = match trial.change {
            Cause::Workload => "the workload",
            Cause::Drive => "the drives take",
            Cause::Link => "the links take",
            Cause::Host => "requests cost processors",
        };
        format!("{what} {}", trial.times.map_or(String::new(), times))
    };
    let listed = parts.iter().map(of_parts).collect::<Vec<String>>().join(", or ");
    let has_workload = found.causes.first() == Some(&Cause::Workload);
    let (start, rest) = if has_workload {
        ("The measured workload was another than the predicted one", "what is left")
    } else {
        ("The workload was as predicted", "the difference")
    };
    let left = found.trial(Cause::Workload).map_or(found.off_pct, |trial| trial.off_pct);
    match found.finding {
        Finding::Agrees => {
            format!("Prediction and measurement agree: {:.1} % apart on average.\n", found.off_pct)
        }
        Finding::One if parts.is_empty() => format!(
            "{start}, and that explains the difference: {:.1} % before, {left:.1} % with the measured workload.\n",
            found.off_pct
        ),
        Finding::One => format!(
            "{start}. One change explains {rest} of {left:.1} %: {listed} as assumed. No other single one does as well.\n"
        ),
        Finding::Several => format!(
            "{start}. Each of these alone explains {rest} of {left:.1} % about as well: {listed} as assumed. These runs can't tell them \
             apart; measure at another iodepth and another size, and compare all runs at once.\n"
        ),
        Finding::None => format!(
            "{start}. No single change of drive, link or host explains {rest} of {left:.1} %: several are wrong, or something else is \
             (level, cache, a member that is slow; 'raidlab why' looks at a device).\n"
        ),
    }
}
