//! Accelerators as an application of a plan, and how many of them the array that was found feeds.
//!
//! The plan needs one stream of requests: reads as long as those of the loaders, as many in flight as these have, each at another place,
//! since loaders read files of their own, at the rate that keeps the bound on utilisation. The array that it finds is then run with the
//! accelerators themselves, which decides.

use super::Args;
use crate::failure::Failure;
use crate::inputs::workload;
use crate::progress::{Progress, searched_share};
use crate::verbs::loads::CHECKPOINT_EVERY;
use raidlab::{Array, Load, NanoSpan, Simulation, Workload};
use raidlab_planning::{Application, PlanOrder, PlanOutcome, lines_for_writes, tuned_md};
use raidlab_report::terminal::{self, TerminalOptions};
use raidlab_workload::{Accelerator, AccessLine, AccessSpec, OfferedLoad};
use raidlab_worlds::{Feeding, FeedingOrder, accelerator, feed};

/// The most accelerators that are asked for.
const ACCELERATORS_MAX: u32 = 4096;

/// Ramp and window of the runs with accelerators: several batches of the slowest model.
const RAMP: NanoSpan = NanoSpan::from_secs(1);
const RUN: NanoSpan = NanoSpan::from_secs(4);

/// `h100:8`: the kind of accelerator, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    kind: String,
    count: u32,
}

/// Reads `--accelerators`.
pub(super) fn wanted(text: &str) -> Result<Wanted, String> {
    let parsed = text.split_once(':').and_then(|(kind, count)| Some((kind, count.parse().ok()?)));
    match parsed {
        Some((kind, count)) if !kind.is_empty() && (1..=ACCELERATORS_MAX).contains(&count) => {
            Ok(Wanted { kind: kind.to_owned(), count })
        }
        _ => Err("accelerators are a kind and a number, as h100:8".to_owned()),
    }
}

/// The workload of accelerators of a kind on a model: `mlperf-unet3d-h100`, or a file.
pub(super) fn training(wanted: &Wanted, model: &str) -> Result<Workload, Failure> {
    let is_file = std::path::Path::new(model).extension().is_some_and(|extension| extension == "toml");
    let name = if is_file { model.to_owned() } else { format!("mlperf-{model}-{}", wanted.kind) };
    let found = workload(&name)?;
    if accelerator(&found.spec).is_none() {
        return Err(Failure::input(anyhow::anyhow!("workload '{name}' has no accelerators")));
    }
    Ok(found)
}

/// The same as an application, and the bytes per second that it needs.
pub(super) fn application(wanted: &Wanted, model: &str) -> Result<(Application, f64), Failure> {
    let training = training(wanted, model)?;
    let Some(it) = accelerator(&training.spec) else {
        unreachable!("a workload without accelerators was refused")
    };
    let needed = it.demand(wanted.count) * it.au_goal_pct / 100.0;
    let iodepth = wanted.count.saturating_mul(it.read_threads).saturating_mul(it.requests_per_thread);
    let name = format!("{} with {}", training.name(), OfferedLoad::Accelerators(wanted.count));
    let spec = AccessSpec::new(name, vec![read_of(it, wanted.count)]);
    let workload = Workload { spec, ..training };
    Ok((Application::new(workload, iodepth.clamp(1, 4096)), needed))
}

/// A read of so many accelerators: as long as a loader's, or a sample that is shorter, and in sequence where one loader is alone.
fn read_of(it: &Accelerator, accelerators: u32) -> AccessLine {
    let sample = (it.sample.mean_bytes() / 4096.0).ceil().max(1.0) * 4096.0;
    let bytes = f64::from(it.request_bytes).min(sample) as u32;
    let reads_of_file = (it.sample.mean_bytes() * f64::from(it.samples_per_file) / f64::from(bytes)).max(1.0);
    let is_alone = accelerators.saturating_mul(it.read_threads) == 1;
    let random_pct = if is_alone { (100.0 / reads_of_file).ceil() as u8 } else { 100 };
    AccessLine::plain(bytes, 100, random_pct)
}

/// How many accelerators the best array feeds.
pub(super) struct Fed {
    pub(super) found: Feeding,
    /// How many it is to feed.
    wanted: u32,
    /// What md is to be set to for a checkpoint at this rate.
    pub(super) lines: Vec<String>,
}

impl Fed {
    /// The answer, and a table of the numbers.
    pub(super) fn in_words(&self, options: TerminalOptions) -> String {
        let missed = if self.is_enough() {
            String::new()
        } else {
            let wanted = OfferedLoad::Accelerators(self.wanted);
            format!(
                "\nThe best array keeps up with these reads on average, and does not feed {wanted}.\nAsk for more: a larger number of \
                 accelerators, or --mib-per-sec.\n"
            )
        };
        let of_line = |line: &String| format!("    {line}\n");
        let lines: String = self.lines.iter().map(of_line).collect();
        let head = if lines.is_empty() { "" } else { "  for a checkpoint at this rate, too:\n" };
        format!("{missed}\n{}{head}{lines}", terminal::feeding(&self.found, options))
    }

    /// Whether it feeds as many as were asked for.
    pub(super) fn is_enough(&self) -> bool {
        self.found.most.is_some_and(|most| most >= self.wanted)
    }
}

/// Runs the best array with accelerators, if there are any, and finds how many it feeds.
pub(super) fn feed_best(
    args: &Args,
    outcome: &PlanOutcome,
    order: &PlanOrder<'_>,
) -> Result<Option<Fed>, Failure> {
    let (Some(wanted), Some(best)) = (&args.app.accelerators, outcome.top.first()) else { return Ok(None) };
    // As the plan sets md.
    let tuned = tuned_md(order.catalog);
    let catalog = tuned.as_ref().unwrap_or(order.catalog);
    let simulation = Simulation::new(catalog, Array::from(best.array.clone())).map_err(Failure::input)?;
    let load = Load {
        workload: training(wanted, &args.app.model)?,
        iodepth: 1,
        workers: 1,
        ramp: RAMP,
        run: RUN,
        seed: args.seed,
        once: false,
        settles: false,
    };
    let checkpoint = args.checkpoint.map(|bytes| (bytes, CHECKPOINT_EVERY));
    let mut progress = Progress::start();
    // Twice as many tell what room there is; exactly how many it feeds took ten times as long as the plan.
    let counts = vec![wanted.count, (2 * wanted.count).min(ACCELERATORS_MAX)];
    let order = FeedingOrder { counts, checkpoint, may_lengthen: true };
    let mut runs = 0;
    let found = feed(&load, &order, &mut |load| {
        progress.show(&format!("feeding accelerators: {}", load.label()), searched_share(runs));
        runs += 1;
        simulation.run(load, args.threads)
    });
    progress.end();
    let Some(found) = found.map_err(Failure::input)? else { return Ok(None) };
    let lines = tuned.as_ref().filter(|_| checkpoint.is_some()).map(|tuned| lines_for_writes(tuned, best));
    Ok(Some(Fed { found, wanted: wanted.count, lines: lines.unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_a_kind_and_a_number_and_need_what_they_read() {
        assert_eq!(wanted("h100:8"), Ok(Wanted { kind: "h100".into(), count: 8 }));
        for wrong in ["h100", "h100:0", ":8", "h100:x", ""] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
        let (app, needed) = application(&wanted("h100:8").unwrap(), "unet3d").unwrap();
        // Seven samples of 146.6 MB in 323 ms, eight times, at 90 %.
        assert!((needed / 22.87e9 - 1.0).abs() < 0.01, "{needed}");
        assert_eq!(app.iodepth, 64);
        let read = |model| application(&wanted("h100:8").unwrap(), model).unwrap().0.workload.spec.lines[0];
        assert_eq!(
            read("unet3d"),
            AccessLine::plain(1 << 20, 100, 100),
            "64 loaders, each in a file of its own"
        );
        assert_eq!(read("resnet50").bytes, 114_688, "no longer than a sample");
        assert!(application(&wanted("h200:8").unwrap(), "unet3d").is_err());
    }
}
