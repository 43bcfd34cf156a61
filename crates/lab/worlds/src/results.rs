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

/// Takes in what was measured under `load`. A trace is what it is: nobody expects it to be steady.
pub fn set_measurement(result: &mut RunResult, load: &Load, measurement: &Measurement) {
    result.set_measurement(measurement);
    if load.workload.spec.trace.is_some() {
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
