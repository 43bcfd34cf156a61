//! `raidlab why`: what makes a device slow, with evidence and the next measurement.

use crate::failure::{Exit, Failure};
use crate::inputs::window;
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use raidlab_advisor::why::{Facts, Finding, why};
use raidlab_machine::watch::{TargetError, WatchTarget, gather};
use raidlab_report::terminal::broken;
use raidlab_units::NanoSpan;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Arguments of `raidlab why`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A block device, a partition, or a file, with the device that holds it; without one the device that has most in flight
    device: Option<String>,
    /// How long to watch, while the load runs that is slow
    #[arg(long, default_value = "5s", value_parser = window, value_name = "TIME")]
    time: NanoSpan,
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Answer<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Answer<'a> {
    device: &'a str,
    causes: &'a [Finding],
    facts: &'a Facts,
}

/// Runs the verb. A cause is an answer, not a failure.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let refused = |error: TargetError| Failure::input(error).with_hint("'lsblk' lists the devices");
    let target = match &args.device {
        Some(given) => Some(WatchTarget::find(given)),
        None => WatchTarget::busiest().transpose(),
    };
    let Some(target) = target.transpose().map_err(refused)? else {
        let problem = anyhow::anyhow!("no device had anything in flight in a second");
        return Err(Failure::input(problem).with_hint("run it while the load runs that is slow"));
    };
    if let Some(file) = &target.file {
        remark(format_args!("note: {} is on {}, and that is watched", file.display(), target.name));
    }
    let cancelled = cancel_flag("stopping; what was seen is told (once more to stop at once)");
    let stop = || cancelled.load(Ordering::Relaxed);
    let facts = gather(&target, Duration::from_nanos(args.time.get()), &stop).map_err(refused)?;
    let causes = why(&facts);
    if output.is_json() {
        print_answer(&Answer { device: &facts.device, causes: &causes, facts: &facts })?;
    } else {
        print(&broken(&in_words(&facts, &causes), output.terminal().width))?;
    }
    Ok(Exit::Done)
}

fn in_words(facts: &Facts, causes: &[Finding]) -> String {
    let name = &facts.device;
    let head = format!(
        "{name}: {:.0} reads/s, {:.0} writes/s, {:.0} flushes/s, {:.2} in flight, busy {:.0} %\n",
        facts.reads_per_s, facts.writes_per_s, facts.flushes_per_s, facts.in_flight_mean, facts.busy_pct
    );
    if !facts.is_in_use() {
        return head
            + "nothing can be said: the device was idle; observe it while the load runs that is slow, with --time for longer\n";
    }
    if causes.is_empty() {
        return head + "no bottleneck was seen: the device is as fast as it is asked to be\n";
    }
    let told = |(index, it): (usize, &Finding)| {
        let kind = if index == 0 { "bottleneck" } else { "and also" };
        format!("{kind}: {}\n  seen: {}\n  next: {}\n", it.cause.name(), it.evidence, it.next)
    };
    head + &causes.iter().enumerate().map(told).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::{Facts, in_words};
    use raidlab_advisor::why::why;

    /// An idle device was told to be as fast as it is asked to be.
    #[test]
    fn of_an_idle_device_nothing_is_said() {
        let told = |reads_per_s: f64| {
            let facts = Facts { device: "sda".into(), reads_per_s, ..Facts::default() };
            in_words(&facts, &why(&facts))
        };
        assert!(told(0.4).contains("the device was idle") && !told(0.4).contains("as fast as"));
        assert!(told(40.0).contains("no bottleneck was seen"));
    }
}
