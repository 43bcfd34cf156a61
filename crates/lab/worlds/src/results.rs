//! What a result says before and after its run, in every world.

use crate::load::Load;
use raidlab_controller::{ArrayConfig, CacheMemory, FlushOrder, MemberCache};
use raidlab_units::ByteCount;
use raidlab_workload::{Measurement, Pacing, Places, RunResult, World};
use std::collections::BTreeMap;

/// A result with everything that is known before the run.
pub fn empty_result(world: World, target: String, load: &Load) -> RunResult {
    let (workload, metric) = (load.workload.name().to_owned(), load.workload.metric);
    let spec = &load.workload.spec;
    let (iodepth, seed) = (spec.iodepth(load.iodepth), load.seed);
    let lines = spec.streams().flat_map(|(_, lines, _)| lines).copied().collect();
    let arrivals_per_sec = match spec.pacing {
        Pacing::Open(arrivals) => Some(arrivals.rate.per_second()),
        Pacing::Closed(_) => None,
    };
    RunResult {
        iodepth,
        arrivals_per_sec,
        seed,
        lines,
        ..RunResult::unmeasured(world, target, workload, metric)
    }
}

/// Settings that every run has.
pub fn load_settings(load: &Load, region: ByteCount) -> BTreeMap<String, String> {
    let spec = &load.workload.spec;
    let mut settings = vec![
        ("region", region.plain().to_string()),
        ("ramp", load.ramp.to_string()),
        ("run", load.run.to_string()),
    ];
    if spec.pacing != Pacing::default() {
        settings.push(("pacing", spec.pacing.to_string()));
    }
    let part_of_period = part_of_period(load);
    if let Some(told) = &part_of_period {
        settings.push(("arrivals in the window", told.clone()));
    }
    if spec.places != Places::default() {
        settings.push(("places", spec.places.to_string()));
    }
    if let Some(rule) = spec.flush {
        settings.push(("flushes", rule.to_string()));
    }
    if !spec.data.is_noise() {
        settings.push(("data", spec.data.to_string()));
    }
    settings.extend(crate::replay::settings(spec, load.run));
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Which part of a rate's period the window covers, where it is not all of it, and the mean rate of that part and of the whole.
fn part_of_period(load: &Load) -> Option<String> {
    let spec = &load.workload.spec;
    let (rhythm, Pacing::Open(arrivals)) = (&spec.rhythm, spec.pacing) else { return None };
    let (mean, period) = (rhythm.mean()?, rhythm.period().get());
    if load.run.get() >= period || load.once {
        return None;
    }
    let (from, mut left) = (load.ramp.get() % period, load.run.get());
    let (mut at, mut sum, mut start) = (from, 0.0, 0);
    // Twice through the steps, as the window may cross the end of the period.
    for (lasts, rate) in rhythm.steps.iter().chain(&rhythm.steps) {
        let end = start + lasts.get();
        let within = end.saturating_sub(at).min(left);
        if at >= start {
            sum += within as f64 * rate;
            (at, left) = (at + within, left - within);
        }
        start = end;
    }
    let hours = |ns: u64| ns as f64 / 3.6e12;
    let rate = sum / load.run.get() as f64 / mean * arrivals.rate.per_second();
    Some(format!(
        "{:.2} h to {:.2} h of the {:.4} h of its period, {rate:.1}/s there; the mean of all is {:.1}/s",
        hours(from),
        hours(from + load.run.get()),
        hours(period),
        arrivals.rate.per_second()
    ))
}

/// Takes in what was measured under `load`. Where the load itself changes over time, nobody expects it to be steady.
pub fn set_measurement(result: &mut RunResult, load: &Load, measurement: &Measurement) {
    result.set_measurement(measurement);
    if load.workload.spec.is_uneven() {
        result.steady = None;
    }
}

/// Settings of an array's controller.
pub fn array_settings(config: &ArrayConfig) -> Vec<(String, String)> {
    let cache = &config.cache;
    let memory = match cache.memory {
        CacheMemory::Volatile => "volatile",
        CacheMemory::BatteryBacked => "battery-backed",
    };
    let settings = [
        ("block size", config.block_size.bytes().to_string()),
        ("member size", config.member_size.plain().to_string()),
        ("disk cache", if config.member_cache == MemberCache::On { "on" } else { "off" }.to_owned()),
        ("cache size", cache.size.plain().to_string()),
        ("cache block size", cache.block_size.to_string()),
        ("cache memory", memory.to_owned()),
        ("read policy", cache.read_policy.name().to_owned()),
        ("io policy", cache.io_policy.name().to_owned()),
        ("flush start", format!("{} %", cache.flush_start_pct)),
        ("flush stop", format!("{} %", cache.flush_stop_pct)),
        ("flush after", cache.flush_after.to_string()),
        ("flush iodepth", cache.flush_iodepth.to_string()),
        ("flush order", if cache.flush_order == FlushOrder::Address { "address" } else { "age" }.to_owned()),
        ("write coalescing", if cache.coalesce_writes { "yes" } else { "no" }.to_owned()),
        ("parity after data", if cache.parity_after_data { "yes" } else { "no" }.to_owned()),
        ("stream lead", cache.stream_lead.to_string()),
        ("read-ahead", cache.read_ahead.to_string()),
        ("read-ahead on miss", if cache.read_ahead_on_miss { "yes" } else { "no" }.to_owned()),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::NanoSpan;
    use raidlab_workload::{
        AccessLine, AccessSpec, ArrivalProcess, Arrivals, RequestRate, Rhythm, builtin_workload,
    };

    #[test]
    fn a_window_says_which_part_of_the_day_it_covers() {
        let hours = |hours: u64| NanoSpan::from_secs(3600 * hours);
        let rhythm = Rhythm { steps: vec![(hours(12), 10.0), (hours(12), 30.0)], ..Rhythm::default() };
        let rate = RequestRate::new(20.0).unwrap();
        let pacing = Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 });
        let spec =
            AccessSpec { rhythm, pacing, ..AccessSpec::new("day", vec![AccessLine::plain(4096, 100, 100)]) };
        let mut workload = builtin_workload("md1200-oltp").unwrap();
        workload.spec = spec;
        let load = |ramp: u64, run: u64| Load {
            workload: workload.clone(),
            iodepth: 1,
            workers: 1,
            ramp: hours(ramp),
            run: hours(run),
            seed: 1,
            once: false,
            settles: false,
        };
        let told = |ramp, run| part_of_period(&load(ramp, run));
        for (ramp, run, expected) in [
            (
                0,
                1,
                "0.00 h to 1.00 h of the 24.0000 h of its period, 10.0/s there; the mean of all is 20.0/s",
            ),
            (
                11,
                2,
                "11.00 h to 13.00 h of the 24.0000 h of its period, 20.0/s there; the mean of all is 20.0/s",
            ),
            (
                22,
                4,
                "22.00 h to 26.00 h of the 24.0000 h of its period, 20.0/s there; the mean of all is 20.0/s",
            ),
        ] {
            assert_eq!(told(ramp, run).as_deref(), Some(expected));
        }
        assert_eq!(told(0, 24), None);
    }
}
