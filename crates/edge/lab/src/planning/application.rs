//! What an array is for, and what arithmetic makes of it: means over all its requests.

use raidlab_advisor::plan::estimate::Demand;
use raidlab_workload::{AccessSpec, Places, Workload};

/// What the array is for.
#[derive(Clone, Debug)]
pub struct Application {
    /// What is asked.
    pub workload: Workload,
    /// Requests in flight.
    pub iodepth: u32,
}

impl Application {
    /// What it asks on average, parts and lines alike; of a trace, what its summary counts.
    pub(crate) fn demand(&self) -> Demand {
        let spec = &self.workload.spec;
        let (iodepth, metric) = (spec.iodepth.unwrap_or(self.iodepth), self.workload.metric);
        if let Some(trace) = &spec.trace {
            let summary = trace.summary();
            return Demand {
                read_share: summary.read_pct().unwrap_or(100.0) / 100.0,
                random_share: 1.0 - summary.sequential_pct / 100.0,
                bytes_mean: summary.length_bytes_mean().unwrap_or(4096.0).max(512.0),
                iodepth,
                is_spread: false,
                metric,
            };
        }
        let (mut weight, mut reads, mut random, mut bytes) = (0.0, 0.0, 0.0, 0.0);
        for line in spec.all_lines() {
            let share = f64::from(line.share_pct);
            weight += share;
            reads += share * f64::from(line.read_pct) / 100.0;
            random += share * f64::from(line.random_pct) / 100.0;
            bytes += share * f64::from(line.bytes);
        }
        let everywhere = Places::default();
        Demand {
            read_share: reads / weight,
            random_share: random / weight,
            bytes_mean: bytes / weight,
            iodepth: iodepth_of(spec, iodepth),
            is_spread: spec.places == everywhere && spec.parts.iter().all(|part| part.places == everywhere),
            metric,
        }
    }
}

/// Requests in flight: parts with loops of their own have theirs, those with weights share one.
fn iodepth_of(spec: &AccessSpec, iodepth: u32) -> u32 {
    let own = spec.parts.iter().filter(|part| part.weight.is_none());
    let loops: u32 = own.map(|part| part.iodepth.unwrap_or(iodepth)).sum();
    let shares = spec.parts.is_empty() || spec.parts.iter().any(|part| part.weight.is_some());
    loops + if shares { iodepth } else { 0 }
}
