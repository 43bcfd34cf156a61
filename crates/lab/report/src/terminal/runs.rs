//! Single runs, and runs of one workload over several depths.

use super::times::times;
use super::{TerminalOptions, broken, heading, network, printable};
use crate::document::{Block, Table, render};
use crate::figures::loads_name;
use crate::figures::{
    Column, ONE_IN, capacity, known_text, latency_text, ns_to_ms, range_text, survives, tail_text,
    three_digits,
};
use crate::known::{has_moved, is_missing_count};
use raidlab_units::{ByteCount, NanoSpan, counted};
use raidlab_workload::{
    ActorFacts, ActorSummary, ArrayFacts, BottleneckFacts, EnclosureFacts, FailoverFacts, LagSummary,
    LatencyBin, LatencyFigures, LatencySplit, LoadFacts, MachineLoad, OfferedLoad, OpSummary, PartGain,
    PartSummary, RunResult, TargetResult, World,
};

/// Prints one run, the answer first: what it was, its figures and whether they hold, why they are so, its settings, its cost.
pub fn run(run: &RunResult, options: TerminalOptions) -> String {
    if run.network.is_some() {
        return network::table(std::slice::from_ref(run), options);
    }
    let head = format!("{} at {} on {}", run.workload, run.offered_load(), run.target);
    let mut text =
        heading(&head, options) + "\n" + &broken(&(about(run) + &direction_lines(run)), options.width);
    let this = std::slice::from_ref(run);
    text += &latency_classes(&run.ops.total, options);
    if run.streams.is_some() {
        text += &super::streams(this, &[], options);
    }
    if !run.phases.is_empty() {
        text += &super::bonnie(this, &[], options);
    }
    text += &broken(&run.actors.iter().map(actor_line).collect::<String>(), options.width);
    text += &broken(&run.parts.iter().map(part_lines).collect::<String>(), options.width);
    text += &broken(&run.lag.as_ref().map_or_else(String::new, |lag| lag_line("", lag)), options.width);
    text += &broken(&run.targets.iter().map(target_line).collect::<String>(), options.width);
    text += &run.hosts.as_ref().map_or_else(String::new, |facts| super::hosts::lines(facts, options));
    text +=
        &broken(&(range_line(run) + &steady_line(run) + &bound_lines(run) + &evidence(run)), options.width);
    text += &run.times.as_ref().map_or_else(String::new, |facts| times(facts, options));
    text + &broken(&(setting_lines(run) + &cost_line(run)), options.width)
}

/// The line of each direction; programs on files have rates, and no latencies.
fn direction_lines(run: &RunResult) -> String {
    let is_program = run.streams.is_some() || !run.phases.is_empty();
    let mut text = String::new();
    for (name, summary) in [("read", &run.ops.read), ("write", &run.ops.write), ("total", &run.ops.total)] {
        if (has_moved(summary) || summary.errors > 0) && !is_program {
            text += &direction_line(name, summary);
        }
    }
    text += &run.ops.others.iter().map(|(name, summary)| direction_line(name, summary)).collect::<String>();
    if text.is_empty() && !is_program && !run.is_foreign() {
        text += "  no request ended in the window: make it longer, with --run\n";
    }
    text
}

/// Lines of classes at most; neighbours of more are taken together.
const CLASSES_MAX: usize = 40;

/// The classes of latencies where they are all that is known of these: traced ones, and those of Iometer, have no percentiles.
fn latency_classes(summary: &OpSummary, options: TerminalOptions) -> String {
    if summary.lat_bins.is_empty() || summary.lat_ns_p50 > 0 {
        return String::new();
    }
    let all = summary.lat_bins.iter().map(|bin| bin.requests).sum::<u64>() as f64;
    let mut seen = 0;
    let row = |bins: &[LatencyBin]| {
        let count = bins.iter().map(|bin| bin.requests).sum::<u64>();
        seen += count;
        let share = |count: u64| format!("{:.2}", count as f64 / all * 100.0);
        let end_ns = bins.last().map_or(0, |bin| bin.lat_ns);
        vec![three_digits(ns_to_ms(end_ns)), count.to_string(), share(count), share(seen)]
    };
    let rows = summary.lat_bins.chunks(summary.lat_bins.len().div_ceil(CLASSES_MAX)).map(row);
    let header = ["latency up to, ms", "requests", "%", "% up to there"];
    render([Block::table(Table::plain("", &header, 0).section(rows))], options)
}

/// The range of repeats.
fn range_line(run: &RunResult) -> String {
    let line = |facts| format!("  range {}\n", printable(&range_text(facts)));
    run.range.as_deref().map_or_else(String::new, line)
}

/// Whether it keeps each bound.
fn bound_lines(run: &RunResult) -> String {
    run.bounds.iter().map(|bound| format!("  bound {}\n", printable(&bound.sentence()))).collect()
}

/// What was measured of one part of a mix.
fn part_lines(part: &PartSummary) -> String {
    let mut text = format!("  part {}\n", printable(&part.name));
    for (name, summary) in [("read", &part.ops.read), ("write", &part.ops.write)] {
        if summary.requests + summary.errors > 0 {
            text += &format!("  {}", direction_line(name, summary));
        }
    }
    for (name, summary) in part.ops.others.iter() {
        text += &format!("  {}", direction_line(name, summary));
    }
    text + &part.lag.as_ref().map_or_else(String::new, |lag| lag_line("  ", lag))
}

/// What an actor did.
fn actor_line(actor: &ActorSummary) -> String {
    let ms = |ns: f64| three_digits(ns / 1e6);
    let text = match &actor.facts {
        ActorFacts::Accelerator(it) => {
            format!(
                "{}, utilisation (AU) {:.1} %, {} samples/s, {} ms of waiting for each batch",
                OfferedLoad::Accelerators(it.accelerators),
                it.au_pct,
                three_digits(it.samples_per_s),
                ms(it.wait_ns_mean)
            )
        }
        ActorFacts::Checkpoint(it) => {
            let pause = it
                .pause_ns_mean
                .map_or_else(|| "no known length".to_owned(), |ns| NanoSpan(ns.round() as u64).to_string());
            let how = if it.pause_ns_mean.is_none() {
                "nothing was written in the window: begin it earlier, with --ramp 0s"
            } else if it.is_by_rate {
                "by its rate, as none ended in the window"
            } else {
                "mean"
            };
            let share = it
                .share_pct
                .map_or_else(String::new, |pct| format!("; training waits for {pct:.2} % of the time"));
            let read =
                it.read_back_ns_mean.map(|ns| format!(", read back in {}", NanoSpan(ns.round() as u64)));
            format!(
                "checkpoints of {}: {} saved, a pause of {pause} ({how}), {} while written{}{share}",
                ByteCount(it.bytes).plain(),
                it.saved,
                it.bytes_per_sec,
                read.unwrap_or_default()
            )
        }
        ActorFacts::Log(it) => format!(
            "{} commits/s, {:.1} records for each write, ms mean {}, p99 {}",
            three_digits(it.commits_per_s),
            it.records_per_write,
            ms(it.commit_ns_mean),
            three_digits(ns_to_ms(it.commit_ns_p99))
        ),
        ActorFacts::Compaction(it) => {
            let behind = it.kept_up_pct.filter(|pct| *pct < 99.0);
            let behind = behind.map_or_else(String::new, |pct| {
                format!("; it falls behind: {pct:.0} % of what the part that it follows asks for")
            });
            format!(
                "{} read and {} written by compaction{behind}",
                it.read_bytes_per_sec, it.written_bytes_per_sec
            )
        }
        ActorFacts::Cache(it) => format!(
            "{} gets/s, {:.1} % hit, {} written and evicted a second",
            three_digits(it.gets_per_s),
            it.hit_pct,
            three_digits(it.evictions_per_s)
        ),
    };
    format!("  {}: {text}\n", printable(&actor.part))
}

/// How late the requests of open loops started, and what never did.
fn lag_line(indent: &str, lag: &LagSummary) -> String {
    let unserved = match lag.unserved {
        0 => "all that arrived started".to_owned(),
        unserved => format!("{unserved} arrived and NEVER STARTED: the rate was too high"),
    };
    let text = format!(
        "{indent}  arrivals: {} started, after ms mean {}, p50 {}, p99 {}, max {} of waiting; {unserved}\n",
        lag.started,
        three_digits(lag.lag_ns_mean / 1e6),
        three_digits(ns_to_ms(lag.lag_ns_p50)),
        three_digits(ns_to_ms(lag.lag_ns_p99)),
        three_digits(ns_to_ms(lag.lag_ns_max))
    );
    if lag.service_ns_max == 0 {
        return text;
    }
    let from_start = format!(
        "{indent}  from the start: ms mean {}, p50 {}, p99 {}, max {}\n",
        three_digits(lag.service_ns_mean / 1e6),
        three_digits(ns_to_ms(lag.service_ns_p50)),
        three_digits(ns_to_ms(lag.service_ns_p99)),
        three_digits(ns_to_ms(lag.service_ns_max))
    );
    text + &from_start
}

/// What was measured on one target of many.
fn target_line(part: &TargetResult) -> String {
    let total = &part.ops.total;
    let failed =
        part.error.as_ref().map_or_else(String::new, |error| format!("; FAILED: {}", printable(error)));
    format!(
        "  target {}  {} IOPS, {} MB/s; lat ms mean {}, p99 {}, max {}; {}{failed}\n",
        printable(&part.target),
        known_text(total, total.iops.0),
        known_text(total, total.bytes_per_sec.mb_per_s()),
        known_text(total, total.lat_ns_mean / 1e6),
        latency_text(total, total.lat_ns_p99),
        latency_text(total, total.lat_ns_max),
        counted(total.errors, "error")
    )
}

/// Whether the figure was steady within the window, with the arithmetic.
fn steady_line(run: &RunResult) -> String {
    run.steady.as_ref().map_or_else(String::new, |steady| {
        format!("  steady state by fifths of the window: {}\n", steady.arithmetic(run.metric.unit()))
    })
}

/// Prints `runs` in the order given, those of one workload on one target in one table over their depths.
pub fn runs(runs: &[RunResult], options: TerminalOptions) -> String {
    if !runs.is_empty() && runs.iter().all(|run| run.network.is_some()) {
        return network::table(runs, options);
    }
    let same = |a: &RunResult, b: &RunResult| {
        a.world == b.world && a.target == b.target && a.array == b.array && a.workload == b.workload
    };
    let groups = runs.chunk_by(same);
    let text: Vec<String> = groups
        .map(|group| match group {
            [single] => run(single, options),
            several => depths(several, options),
        })
        .collect();
    text.join("\n")
}

/// A table over the depths of runs that are otherwise the same.
fn depths(runs: &[RunResult], options: TerminalOptions) -> String {
    let first = &runs[0];
    // With several targets or workers the depth of each stands beside that of all together.
    let is_spread = runs.iter().any(|run| run.load.is_some());
    let is_open = runs.iter().all(|run| run.arrivals_per_sec.is_some());
    let mut header = match (is_spread, is_open) {
        (true, _) => vec!["workers", "per target", "in flight"],
        (false, true) => vec!["offered/s"],
        (false, false) => vec![loads_name(runs.iter().map(RunResult::offered_load))],
    };
    header.extend([
        "IOPS",
        "MB/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "p99.999 ms",
        "max ms",
        "errors",
    ]);
    let row = |run: &RunResult| {
        let total = &run.ops.total;
        let mut row = match (is_spread, &run.load) {
            (false, _) if run.offered_load() == OfferedLoad::Iodepth(0) => vec!["-".to_owned()],
            (false, _) => vec![run.offered_load().value().to_string()],
            (true, None) => vec!["1".to_owned(), run.iodepth.to_string(), run.iodepth.to_string()],
            (true, Some(load)) => {
                let LoadFacts { workers, iodepth_per_target, .. } = load;
                vec![workers.to_string(), iodepth_per_target.to_string(), run.iodepth.to_string()]
            }
        };
        row.extend([Column::Iops, Column::MbPerS, Column::LatMean].map(|column| column.digits(run)));
        row.extend([total.lat_ns_p50, total.lat_ns_p99, total.lat_ns_p999].map(|ns| latency_text(total, ns)));
        row.extend([tail_text(total, total.lat_ns_p99999, ONE_IN[1]), latency_text(total, total.lat_ns_max)]);
        row.push(total.errors.to_string());
        row
    };
    let mut table = Table::plain("", &header, 0).section(runs.iter().map(row));
    if table.width() > usize::from(options.width) {
        table.gap = 1;
    }
    let head = format!("{} on {}", first.workload, first.target);
    // The head has only what no row differs in.
    let mut common = RunResult { load: None, ..first.clone() };
    let is_common =
        |name: &String, value: &mut String| runs.iter().all(|run| run.settings.get(name) == Some(value));
    common.settings.retain(is_common);
    let hosts = super::hosts::hosts(runs, options);
    let answer = broken(&about_in(&common, &windows_text(runs)), options.width)
        + &render([Block::table(table)], options);
    let below = broken(&(answers(runs) + &setting_lines(&common)), options.width);
    heading(&head, options) + "\n" + &answer + &below + &hosts
}

/// Range, bounds and bottleneck of each of several runs, by its load.
fn answers(runs: &[RunResult]) -> String {
    let ranges: String = runs
        .iter()
        .filter_map(|run| {
            let text = range_text(run.range.as_deref()?);
            Some(format!("  range at {} {}\n", run.offered_load(), printable(&text)))
        })
        .collect();
    let bounds: String = runs
        .iter()
        .flat_map(|run| run.bounds.iter().map(move |bound| (run.offered_load(), bound.sentence())))
        .map(|(load, text)| format!("  bound at {load}: {}\n", printable(&text)))
        .collect();
    let bottlenecks: String = runs
        .iter()
        .filter_map(|run| {
            let sentence = run.bottleneck.as_ref()?.sentence();
            Some(format!("  bottleneck at {}: {}\n", run.offered_load(), printable(&sentence)))
        })
        .collect();
    ranges + &bounds + &bottlenecks
}

/// The lines that say what a run was.
pub(super) fn about(run: &RunResult) -> String {
    about_in(run, &windows_text(std::slice::from_ref(run)))
}

/// The length of the window, or from the shortest to the longest.
fn windows_text(runs: &[RunResult]) -> String {
    let span = |ns: Option<u64>| NanoSpan(ns.unwrap_or_default()).to_string();
    let lengths = || runs.iter().map(|run| run.window_ns);
    match (span(lengths().min()), span(lengths().max())) {
        _ if runs.iter().all(|run| run.window_ns == 0 && run.is_foreign()) => "of unknown length".to_owned(),
        (shortest, longest) if shortest == longest => shortest,
        (shortest, longest) => format!("{shortest} to {longest}"),
    }
}

fn about_in(run: &RunResult, window: &str) -> String {
    let world = match run.world {
        World::Measured => "measured on storage as it is",
        World::Array => "measured on a raidlab array",
        World::Simulated => "simulated in virtual time",
    };
    let seed = if is_missing_count(run, run.seed) { String::new() } else { format!(", seed {}", run.seed) };
    let mut text = format!("  {world}, window {window}{seed}\n");
    if let Some(load) = &run.load {
        let (targets, workers, iodepth) = (load.targets, load.workers, load.iodepth_per_target);
        text += &format!(
            "  {} x {} x iodepth {iodepth} = {} in flight\n",
            counted(targets, "target"),
            counted(workers, "worker"),
            run.iodepth
        );
    }
    if let Some(facts) = &run.array {
        text += &format!(
            "  {}, {} x {} behind {}, strip {}, {} usable of {}, survives {}\n",
            printable(&facts.label()),
            facts.members,
            printable(&facts.member_kind),
            printable(&facts.controller),
            facts.strip_bytes,
            capacity(facts.usable_bytes),
            capacity(facts.raw_bytes),
            failures(facts)
        );
    }
    text
}

/// How many failures an array survives.
fn failures(facts: &ArrayFacts) -> String {
    match survives(facts, "-") {
        count if count == "1" => "1 failure".to_owned(),
        counts => format!("{counts} failures"),
    }
}

/// Why a run's figures are what they are.
fn evidence(run: &RunResult) -> String {
    let enclosure = run.enclosure.as_ref().map(enclosure_lines);
    let bottleneck = run.bottleneck.as_ref().map(bottleneck_lines);
    [enclosure, bottleneck].into_iter().flatten().collect()
}

fn setting_lines(run: &RunResult) -> String {
    let line = |(name, value): (&String, &String)| format!("  {}: {}\n", printable(name), printable(value));
    run.settings.iter().map(line).collect()
}

/// What set the pace, and what each part would bring.
fn bottleneck_lines(facts: &BottleneckFacts) -> String {
    let gain = |gain: &PartGain| format!("{} {:+.1} %", printable(&gain.part), gain.gain_pct);
    let gains: Vec<String> = facts.gains.iter().map(gain).collect();
    format!(
        "  bottleneck: {}\n  {:.0} % faster or larger, each alone: {}; up to {:.1} % may be chance; {} of {} in all\n",
        printable(&facts.sentence()),
        facts.faster_pct,
        gains.join(", "),
        facts.chance_pct,
        counted(facts.runs, "run"),
        NanoSpan(facts.window_ns)
    )
}

/// A line for each controller, and what the failure of one cost.
fn enclosure_lines(facts: &EnclosureFacts) -> String {
    let pct = |share: f64| format!("{:.1} %", share * 100.0);
    let line = |it: &raidlab_workload::ControllerFacts| {
        format!(
            "  controller {}, {}: busy processors {}, host link {}, member link {}\n",
            printable(&it.name),
            counted(it.volumes, "volume"),
            pct(it.processors_busy),
            pct(it.host_link_busy),
            pct(it.member_link_busy)
        )
    };
    let mut text: String = facts.controllers.iter().map(line).collect();
    if facts.controllers.len() > 1 {
        text += &format!("  mirror link between them: busy {}\n", pct(facts.mirror_link_busy));
    }
    text + &facts.failover.as_ref().map_or_else(String::new, failover_lines)
}

fn failover_lines(facts: &FailoverFacts) -> String {
    let rate =
        |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |it| format!("{} IOPS", three_digits(it)));
    let pause = facts.pause_ns.map_or_else(
        || "not served again in this run".to_owned(),
        |pause| format!("served again after {}", NanoSpan(pause)),
    );
    let lost = match facts.lost_bytes_max {
        0 => "nothing acknowledged lost".to_owned(),
        bytes => format!("up to {} of acknowledged data LOST", ByteCount(bytes)),
    };
    format!(
        "  controller {} failed {} into the window: {} {pause} ({} of it detection), {} retried, \
         {} restored from the mirror, {lost}\n  before the failure {}, after the pause {}\n",
        printable(&facts.controller),
        NanoSpan(facts.after_ns),
        counted(facts.volumes, "volume"),
        NanoSpan(facts.detection_ns),
        counted(facts.requests_retried, "request"),
        counted(facts.cache_blocks_restored, "cache block"),
        rate(facts.iops_before),
        rate(facts.iops_after)
    )
}

/// One direction: rates, latencies, errors.
fn direction_line(name: &str, summary: &OpSummary) -> String {
    let ms = |ns: u64| latency_text(summary, ns);
    format!(
        "  {name:<5} {} IOPS, {} MB/s; lat ms min {}, mean {}, p50 {}, p99 {}, p99.9 {}, p99.99 {}, p99.999 {}, max {}; {}, {}\n",
        known_text(summary, summary.iops.0),
        known_text(summary, summary.bytes_per_sec.mb_per_s()),
        ms(summary.lat_ns_min),
        known_text(summary, summary.lat_ns_mean / 1e6),
        ms(summary.lat_ns_p50),
        ms(summary.lat_ns_p99),
        ms(summary.lat_ns_p999),
        tail_text(summary, summary.lat_ns_p9999, ONE_IN[0]),
        tail_text(summary, summary.lat_ns_p99999, ONE_IN[1]),
        ms(summary.lat_ns_max),
        if summary.requests == 0 && has_moved(summary) {
            "- requests".to_owned()
        } else {
            counted(summary.requests, "request")
        },
        counted(summary.errors, "error")
    ) + &split_lines(summary.split.as_ref(), summary.requests)
}

/// The two parts of latency, where they were told apart.
fn split_lines(split: Option<&LatencySplit>, requests: u64) -> String {
    let Some(LatencySplit { slat, clat }) = split else { return String::new() };
    let line = |name: &str, figures: &LatencyFigures| {
        let ms = |ns: u64| three_digits(ns_to_ms(ns));
        let tail = |ns: u64, one_in: u64| if requests < one_in { "-".to_owned() } else { ms(ns) };
        format!(
            "    {name}  ms min {}, mean {}, p50 {}, p99 {}, p99.9 {}, p99.99 {}, p99.999 {}, max {}\n",
            ms(figures.ns_min),
            three_digits(figures.ns_mean / 1e6),
            ms(figures.ns_p50),
            ms(figures.ns_p99),
            ms(figures.ns_p999),
            tail(figures.ns_p9999, ONE_IN[0]),
            tail(figures.ns_p99999, ONE_IN[1]),
            ms(figures.ns_max)
        )
    };
    line("slat (until handed to the kernel)", slat) + &line("clat (from there to the end)     ", clat)
}

/// What the run cost: wall-clock time, and processor time and member I/O where they are known.
fn cost_line(run: &RunResult) -> String {
    let mut parts = Vec::new();
    if !is_missing_count(run, run.cost.wall_ns) {
        parts.push(format!("{} of wall-clock time", NanoSpan(run.cost.wall_ns)));
    }
    if let Some(cpu_ns) = run.cost.cpu_ns_per_io {
        parts.push(format!("{} us of processor time per I/O", three_digits(cpu_ns / 1e3)));
    }
    if let Some(cpu_ns) = run.cost.kernel_threads_cpu_ns_per_io.filter(|ns| *ns >= 10.0) {
        parts.push(format!("{} us of kernel threads' beside", three_digits(cpu_ns / 1e3)));
    }
    if let (Some(reads), Some(writes)) = (run.cost.member_reads, run.cost.member_writes) {
        parts.push(format!("{reads} member reads, {writes} member writes"));
    }
    parts.extend(run.cost.metadata_writes.map(|writes| format!("{writes} metadata writes")));
    if let Some(ios) = run.cost.member_ios_per_host_io() {
        parts.push(format!("{} member I/Os per host I/O", three_digits(ios)));
    }
    let cost = if parts.is_empty() { String::new() } else { format!("  cost  {}\n", parts.join("; ")) };
    cost + &run.machine.as_ref().map_or_else(String::new, machine_lines)
}

/// What the machine and the device under the target did meanwhile.
fn machine_lines(machine: &MachineLoad) -> String {
    let pct = |share: f64| format!("{:.1} %", share * 100.0);
    let mut parts = Vec::new();
    parts.extend(
        machine.cpu_busy.map(|share| format!("{} {} busy", counted(machine.cpus, "processor"), pct(share))),
    );
    parts.extend(machine.cpu_system.map(|share| format!("{} in the kernel", pct(share))));
    parts.extend(machine.interrupts_per_sec.map(|rate| format!("{} interrupts/s", three_digits(rate))));
    let switches = machine.context_switches_per_sec;
    parts.extend(switches.map(|rate| format!("{} context switches/s", three_digits(rate))));
    let mut text =
        if parts.is_empty() { String::new() } else { format!("  machine  {}\n", parts.join("; ")) };
    if let Some(device) = &machine.device {
        text += &format!(
            "  device {}  {}, {}, {}; {} in flight on average, {} of the time busy\n",
            printable(&device.name),
            counted(device.reads, "read"),
            counted(device.writes, "write"),
            counted(device.read_merges + device.write_merges, "merge"),
            three_digits(device.in_flight_mean),
            pct(device.utilisation)
        );
    }
    text
}
