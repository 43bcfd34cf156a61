//! What monitoring kept as needs of a plan: the busiest rates, what is written in a day, and growth until the array is too small.

use super::Args;
use super::inputs::Asked;
use crate::failure::Failure;
use crate::output::remark;
use raidlab_advisor::plan::OwnNeeds;
use raidlab_history::{DeviceHistory, History};
use raidlab_planning::{Application, PlanOutcome};
use raidlab_worlds::read_text;
use std::path::PathBuf;

/// Readings that are further apart hide the peaks between them.
const INTERVAL_S_MAX: f64 = 60.0;
/// Growth below that is none.
const GROWTH_PCT_MIN: f64 = 0.5;
/// Years beyond which nobody plans.
const YEARS_MAX: f64 = 20.0;

/// What a device did before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Past {
    iops: f64,
    mean_iops: f64,
    written_per_day: Option<f64>,
    growth_pct: Option<f64>,
}

/// Reads the histories in `paths`; each device becomes an application with `iodepth` requests in flight.
pub(super) fn read(
    paths: &[PathBuf],
    iodepth: u32,
    applications: &mut Vec<Application>,
) -> Result<Vec<(usize, Past)>, Failure> {
    let mut past = Vec::new();
    for path in paths {
        let text = read_text(path).map_err(Failure::input)?;
        let history = History::from_toml(&path.display().to_string(), &text).map_err(|error| {
            match raidlab_history::detect(&text) {
                Some(format) => {
                    Failure::input(anyhow::anyhow!("{} is {}, and no history", path.display(), format.name()))
                        .with_hint(format!(
                            "make one of it: raidlab import history {} -o history.toml",
                            path.display()
                        ))
                }
                None => Failure::input(error),
            }
        })?;
        for device in &history.devices {
            let Some((workload, found)) = device.workload().zip(Past::of(device)) else { continue };
            remark(format_args!("note: {}", said(device, &found)));
            past.push((applications.len(), found));
            applications.push(Application::new(workload, iodepth));
        }
        if history.devices.iter().all(|device| device.workload().is_none()) {
            let problem = anyhow::anyhow!("{} tells of no device that was read or written", path.display());
            return Err(Failure::input(problem));
        }
    }
    Ok(past)
}

/// How the history of a device became a need.
fn said(device: &DeviceHistory, past: &Past) -> String {
    let which =
        if device.iops_needed() == device.iops.map(|it| it.max) { "the most" } else { "99 % of the time" };
    let peaks = match device.interval_s {
        Some(interval) if interval > INTERVAL_S_MAX => {
            format!("; readings are {interval:.0} s apart, and shorter peaks are not in them")
        }
        _ => String::new(),
    };
    let short = match device.days {
        Some(days) if days < 1.0 && past.written_per_day.is_some() => {
            format!(
                "; what is written in a day is that of {:.0} minutes, for a day",
                (days * 1440.0).max(1.0)
            )
        }
        None if past.written_per_day.is_some() => {
            "; what is written in a day is the mean of these readings, for a day".to_owned()
        }
        _ => String::new(),
    };
    format!(
        "{}: needs {:.0} requests/s ({which} of {} readings), {:.0} on average; places are taken for random{peaks}{short}",
        device.name(),
        past.iops,
        device.readings,
        past.mean_iops,
    )
}

impl Past {
    fn of(device: &DeviceHistory) -> Option<Self> {
        Some(Self {
            iops: device.iops_needed()?,
            mean_iops: device.iops?.mean,
            written_per_day: device.written_bytes_per_day,
            growth_pct: device.growth_pct_per_year.filter(|pct| *pct >= GROWTH_PCT_MIN),
        })
    }

    /// States what it needs at the end of `years`.
    pub(super) fn need(&self, years: Option<f64>, own: &mut OwnNeeds) {
        let grown = self.grown(years.unwrap_or(0.0));
        own.iops = Some(self.iops * grown);
        own.mean_iops = Some(self.mean_iops * grown);
    }

    /// Growth is a line through the history: each year adds as much.
    fn grown(&self, years: f64) -> f64 {
        1.0 + self.growth_pct.unwrap_or(0.0) / 100.0 * years
    }
}

/// What all devices of histories write in a day, on average over `years`; none where one does not tell, or other applications write too.
pub(super) fn written_per_day(asked: &Asked, years: Option<f64>) -> Option<f64> {
    let mean = |past: &Past| Some(past.written_per_day? * past.grown(years.unwrap_or(0.0) / 2.0));
    let each = asked.past.iter().map(|(_, past)| mean(past)).collect::<Option<Vec<f64>>>()?;
    (!each.is_empty() && each.len() == asked.applications.len()).then(|| each.iter().sum())
}

/// Says when the best array is too small, where the load grows.
pub(super) fn tell_growth(asked: &Asked, args: &Args, outcome: &PlanOutcome) {
    let Some(best) = outcome.top.first().filter(|best| best.keeps_needs && !asked.past.is_empty()) else {
        return;
    };
    let told = asked.past.iter().filter_map(|(_, past)| past.growth_pct).fold(0.0, f64::max);
    let (pct, whose) = if told > 0.0 { (told, "that of the history") } else { (20.0, "assumed") };
    let Some(margin) = best.margins.throughput else { return };
    let until = args.years.unwrap_or(0.0) * f64::from(u8::from(told > 0.0));
    let years = until + years_left(margin, pct, until);
    let when = if years > YEARS_MAX {
        format!("not within {YEARS_MAX:.0} years")
    } else {
        format!("in {years:.1} years")
    };
    remark(format_args!(
        "growth: if each year adds {pct:.0} % of the requests of today ({whose}), {} is too small {when}",
        best.label
    ));
}

/// Years after `until` in which a load that grows by `pct` percent of today's each year has used up `margin`, a share of the need then.
fn years_left(margin: f64, pct: f64, until: f64) -> f64 {
    let growth = pct / 100.0;
    margin.max(0.0) * (1.0 + growth * until) / growth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_uses_a_margin_up() {
        assert!((years_left(1.0, 100.0, 0.0) - 1.0).abs() < 1e-9, "twice as much in a year");
        // 3 after two years, 4.5 of which are half more, in one and a half.
        assert!((years_left(0.5, 100.0, 2.0) - 1.5).abs() < 1e-9);
        assert_eq!(years_left(0.0, 20.0, 1.0), 0.0);
        let past = Past { iops: 1000.0, mean_iops: 100.0, written_per_day: None, growth_pct: Some(50.0) };
        let mut own = OwnNeeds::default();
        past.need(Some(2.0), &mut own);
        assert_eq!((own.iops, own.mean_iops), (Some(2000.0), Some(200.0)));
        past.need(None, &mut own);
        assert_eq!(own.iops, Some(1000.0), "nobody asked for later years");
    }
}
