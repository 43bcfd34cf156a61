//! The loads of a plan: workloads by name or file, jobs of fio and Iometer, traces, histories; any number of each.

use super::accelerators::{self, Wanted};
use super::history::{self, Past};
use crate::failure::Failure;
use crate::inputs::{bad_order, workloads};
use crate::output::remark;
use crate::verbs::import::import_fio_at;
use raidlab_advisor::plan::OwnNeeds;
use raidlab_jobs::{Import, ImportError, import_icf};
use raidlab_planning::Application;
use raidlab_trace::TraceSummary;
use raidlab_tracefile::{ReadingAs, ReplayOrder};
use raidlab_units::NanoSpan;
use raidlab_workload::{Fit, Timing};
use raidlab_worlds::read_foreign_text;
use std::path::{Path, PathBuf};

/// What the array is for, by options.
#[derive(Debug, clap::Args)]
pub(super) struct AppArgs {
    /// Applications, each of which the array must serve: workloads, or files of workloads
    #[arg(long, short_alias = 'w', visible_alias = "workload", required_unless_present_any = ["icf", "fio", "trace", "from", "accelerators"], value_delimiter = ',', value_name = "NAME")]
    app: Vec<String>,
    /// Each step of this configuration of Iometer is an application; may be repeated
    #[arg(long, value_name = "FILE.icf")]
    icf: Vec<PathBuf>,
    /// Each step of this job file of fio is an application; may be repeated
    #[arg(long, value_name = "FILE")]
    fio: Vec<PathBuf>,
    /// A trace that 'raidlab import trace' made, replayed in its order as fast as the array takes it; may be repeated
    #[arg(long, value_name = "FILE.parquet")]
    trace: Vec<PathBuf>,
    /// Each device of a history that 'raidlab import history' wrote is an application, with its busiest rates as its need, and all of
    /// them run at the same time; may be repeated
    #[arg(long, value_name = "HISTORY.toml")]
    from: Vec<PathBuf>,
    /// Accelerators that the array must feed, as h100:8; they train on --model. The array that is found is then run with them
    #[arg(long, value_name = "KIND:N", value_parser = accelerators::wanted)]
    pub(super) accelerators: Option<Wanted>,
    /// What accelerators train on: unet3d, resnet50, cosmoflow, or a workload file with accelerators
    #[arg(long, value_name = "NAME", default_value = "unet3d", requires = "accelerators")]
    pub(super) model: String,
    /// Requests in flight of each application [default: 64, or what the job file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    iodepth: Option<u32>,
}

/// What the array is for.
pub(super) struct Asked {
    pub(super) applications: Vec<Application>,
    /// What applications need by themselves, by their places: requests per second that arrive whatever the array does, those of the
    /// busiest second of a trace that is long enough to have one, bytes per second of accelerators.
    pub(super) stated: Vec<(usize, OwnNeeds)>,
    /// What histories say of applications, by their places.
    pub(super) past: Vec<(usize, Past)>,
}

/// Seconds that a trace lasts at least, so that the busiest of them says something of an application's peaks.
const TRACE_SECS_MIN: u64 = 10;

/// Requests in the busiest second of a trace; none of one that is too short to have a busiest one.
fn busiest_second(trace: &TraceSummary) -> Option<f64> {
    let is_long = trace.span_ns >= TRACE_SECS_MIN * 1_000_000_000;
    Some(trace.requests_per_sec_max as f64).filter(|rate| is_long && *rate > 0.0)
}

impl AppArgs {
    /// Reads everything.
    pub(super) fn read(&self) -> Result<Asked, Failure> {
        let plain = self.iodepth.unwrap_or(64);
        let named = workloads(&self.app)?.into_iter();
        let mut applications: Vec<Application> =
            named.map(|workload| Application::new(workload, plain)).collect();
        for path in &self.icf {
            self.jobs(path, import_icf, &mut applications)?;
        }
        for path in &self.fio {
            self.jobs(path, |name, text| import_fio_at(path, &[], name, text), &mut applications)?;
        }
        let mut stated = Vec::new();
        for path in &self.trace {
            let order = ReplayOrder {
                path: path.clone(),
                timing: Timing::None,
                fit: Fit::Wrap,
                whole_blocks: true,
                map: Vec::new(),
            };
            let workload = order.workload(1, ReadingAs::Asked).map_err(bad_order)?;
            if let Some(trace) = &workload.spec.trace {
                let iops = busiest_second(trace.summary());
                stated.push((applications.len(), OwnNeeds { iops, ..OwnNeeds::default() }));
                if iops.is_none() {
                    remark(format_args!(
                        "note: {} lasts {}: too short for its busiest second to be a need (at least {TRACE_SECS_MIN} s are); --iops \
                         states one",
                        path.display(),
                        NanoSpan(trace.summary().span_ns),
                    ));
                }
            }
            applications.push(Application::new(workload, plain));
        }
        if let Some(wanted) = &self.accelerators {
            let (application, needed) = accelerators::application(wanted, &self.model)?;
            stated
                .push((applications.len(), OwnNeeds { bytes_per_sec: Some(needed), ..OwnNeeds::default() }));
            applications.push(application);
        }
        for (app, application) in applications.iter().enumerate() {
            let iops = application.arrivals_per_sec();
            if iops.is_some() && stated.iter().all(|(other, _)| *other != app) {
                stated.push((app, OwnNeeds { iops, ..OwnNeeds::default() }));
            }
        }
        let past = history::read(&self.from, plain, &mut applications)?;
        Ok(Asked { applications, stated, past })
    }

    fn jobs(
        &self,
        path: &Path,
        reader: impl FnOnce(&str, &str) -> Result<Import, ImportError>,
        to: &mut Vec<Application>,
    ) -> Result<(), Failure> {
        let text = read_foreign_text(path).map_err(Failure::input)?;
        let name = path.file_name().map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
        let import = reader(&name, &text).map_err(Failure::input)?;
        import.notes.iter().for_each(|note| remark(format_args!("note: {note}")));
        for step in import.steps {
            let own = step.run.iodepths.iter().copied().max();
            let iodepth = self.iodepth.or(own).unwrap_or(64).clamp(1, 4096);
            to.push(Application::new(step.workload, iodepth));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of less than a second once needed what its only second had.
    #[test]
    fn a_short_trace_has_no_busiest_second() {
        let trace = |secs: u64| TraceSummary {
            requests_per_sec_max: 700,
            span_ns: secs * 1_000_000_000,
            ..TraceSummary::default()
        };
        let rows = [(0, None), (1, None), (9, None), (10, Some(700.0)), (3_600, Some(700.0))];
        for (secs, need) in rows {
            assert_eq!(busiest_second(&trace(secs)), need, "{secs} s");
        }
    }
}
