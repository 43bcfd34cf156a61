//! Applications of an array: their arithmetic (means over all requests), and several of them as one load.

use super::PlanError;
use super::judge::Pace;
use raidlab_advisor::plan::estimate::Demand;
use raidlab_advisor::plan::{OwnNeeds, Performance};
use raidlab_hardware::DriveHistory;
use raidlab_units::{ByteCount, NanoSpan, three_digits};
use raidlab_workload::{
    AccessSpec, Actor, LagSummary, MixPart, OpSummary, Pacing, Places, RequestRate, Workload,
};

/// What the array is for.
#[derive(Clone, Debug)]
pub struct Application {
    /// What is asked.
    pub workload: Workload,
    /// Requests in flight.
    pub iodepth: u32,
    /// Whether the workload is that at its busiest, of one that changes over time.
    pub is_busiest: bool,
    /// Requests per second that arrive on average, where that is less.
    pub mean_iops: Option<f64>,
}

/// What changes over a longer time is planned at its busiest. Windows are a few of shorter times long.
const STEADY: NanoSpan = NanoSpan::from_secs(1);

/// All of `applications` at the same time: each is a part with a loop of its own and the pace given, if that is not its own. Those with a part of the capacity of their own lie one after the other on the volume, the others on all of it.
pub(super) fn together(applications: &[Application], own: &[OwnNeeds], paces: &[Pace]) -> Workload {
    let mut from = ByteCount::ZERO;
    let mut parts: Vec<MixPart> = Vec::with_capacity(applications.len());
    for (index, app) in applications.iter().enumerate() {
        let spec = &app.workload.spec;
        let mut places = spec.places.clone();
        if let Some(usable) = own.get(index).and_then(|own| own.usable) {
            let rest = usable - places.start.min(usable);
            places.size = Some(places.size.map_or(rest, |size| size.min(rest)));
            places.start += from;
            from += usable;
        }
        let iodepth = spec.iodepth.or((!spec.pacing.is_open()).then_some(paces[index].iodepth));
        let (lines, pacing, flush) = (spec.lines.clone(), paces[index].of(spec.pacing), spec.flush);
        let name = part_name(applications, index);
        parts.push(MixPart {
            name,
            weight: None,
            lines,
            places,
            pacing,
            iodepth,
            flush,
            ..MixPart::default()
        });
    }
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let spec = AccessSpec { name: names.join(" + "), ..AccessSpec::default() };
    let first = &applications[0].workload;
    Workload { spec: AccessSpec { data: first.spec.data, parts, ..spec }, ..first.clone() }
}

/// Its name, and its number where another has the same.
pub(super) fn part_name(applications: &[Application], index: usize) -> String {
    let name = applications[index].workload.name();
    let same = applications[..index].iter().filter(|other| other.workload.name() == name).count();
    if same == 0 { name.to_owned() } else { format!("{name} {}", same + 1) }
}

/// What is done to solid-state drives before, where nobody says: written in sequence where all of `specs` write in sequence only, for no
/// block then has to be moved; else overwritten at random until they are steady. Training reads what was written in sequence, even where it
/// writes nothing: where all of `specs` train, or one of them stands for the reads of what `trains`.
pub fn default_history<'a>(
    specs: impl IntoIterator<Item = &'a AccessSpec, IntoIter: Clone>,
    trains: bool,
) -> DriveHistory {
    let specs = specs.into_iter();
    let mut writers = specs.clone().filter_map(AccessSpec::writes_in_sequence).peekable();
    let is_filled = writers.peek().is_some() || trains || specs.clone().all(AccessSpec::is_training);
    if is_filled && writers.all(|is_sequential| is_sequential) {
        DriveHistory::Sequential
    } else {
        DriveHistory::default()
    }
}

impl Application {
    /// A workload with so many requests in flight, at its busiest: its parts work all the time, and requests arrive at the highest rate.
    /// Where it is one part with a loop of its own, that part is all of it, so that it can run beside others.
    pub fn new(mut workload: Workload, iodepth: u32) -> Self {
        let busiest = workload.spec.at_its_busiest(STEADY);
        let is_busiest = busiest.is_some();
        let mean_iops = arrivals_per_sec(&workload.spec).filter(|_| is_busiest);
        workload.spec = busiest.unwrap_or(workload.spec);
        let spec = &mut workload.spec;
        let is_plain = |part: &MixPart| {
            part.weight.is_none() && part.actor.is_none() && part.phase == MixPart::default().phase
        };
        if let [part] = &mut spec.parts[..]
            && is_plain(part)
        {
            let MixPart { lines, places, pacing, rhythm, iodepth, flush, .. } = std::mem::take(part);
            let plain = AccessSpec {
                lines,
                places,
                pacing,
                rhythm,
                iodepth,
                flush,
                parts: Vec::new(),
                ..std::mem::take(spec)
            };
            *spec = plain;
        }
        Self { workload, iodepth, is_busiest, mean_iops }
    }

    /// What it asks for, in words.
    pub fn accesses(&self) -> String {
        let mean = self.mean_iops.map(|mean| format!(" ({} requests/s on average)", three_digits(mean)));
        let busiest = if self.is_busiest { ", at its busiest" } else { "" };
        format!("{}{busiest}{}", self.workload.accesses(), mean.unwrap_or_default())
    }

    /// Checks that it can run beside others as one stream of requests.
    pub(super) fn check_together(&self) -> Result<(), PlanError> {
        let spec = &self.workload.spec;
        let what = match (&spec.trace, &spec.parts[..]) {
            (Some(_), _) => "is a trace",
            (None, [_, ..]) => "has parts of its own",
            (None, []) => return Ok(()),
        };
        Err(PlanError::NotTogether { application: self.workload.name().to_owned(), what })
    }

    /// Refuses what has no line that says what it asks: a plan's arithmetic has nothing to go by.
    pub(super) fn check_demand(&self) -> Result<(), PlanError> {
        let spec = &self.workload.spec;
        let has_lines = spec.trace.is_some() || spec.all_lines().any(|line| line.share_pct > 0);
        let instead = match spec.actors().next() {
            Some((_, actor)) if !has_lines => match actor {
                Actor::Accelerator(_) => "plan with --accelerators KIND:N and --model",
                Actor::Checkpoint(_) => {
                    "plan for writes in sequence (storagebench-restore) at the rate needed, or with --accelerators and --checkpoint"
                }
                Actor::Log(_) | Actor::Compaction(_) | Actor::Cache(_) => {
                    "run it on arrays with 'raidlab simulate', or plan for what 'raidlab observe' sees it ask"
                }
            },
            _ => return Ok(()),
        };
        Err(PlanError::NoLines { application: self.workload.name().to_owned(), instead })
    }

    /// Whether it has a rate of its own.
    pub(super) fn has_pace(&self) -> bool {
        self.pace(1.0).is_some()
    }

    /// Requests per second of a loop that has a rate of its own.
    fn pace(&self, bytes_mean: f64) -> Option<f64> {
        let Pacing::Closed(closed) = self.workload.spec.pacing else { return self.arrivals_per_sec() };
        let by_bytes = closed.bytes_per_sec_max.map(|rate| rate.0 as f64 / bytes_mean);
        let limit = closed.rate_max.map(RequestRate::per_second).into_iter().chain(by_bytes).reduce(f64::min);
        limit.or_else(|| self.arrivals_per_sec())
    }

    /// Requests per second that arrive whatever the array does, where all of it comes so: what it needs unless less is stated.
    pub fn arrivals_per_sec(&self) -> Option<f64> {
        arrivals_per_sec(&self.workload.spec)
    }

    /// What it got of an array at a pace, beside others.
    pub(super) fn got(&self, total: &OpSummary, lag: Option<&LagSummary>, pace: Pace) -> Performance {
        let found = Performance::of_requests(total, self.workload.spec.iodepth(pace.iodepth));
        Performance { held_iops: pace.held_iops, ..self.at_own_rate(found, lag) }
    }

    /// The figures of a run of it. Of what arrives the share counts that was started: how many arrive in a short window is chance.
    pub(super) fn at_own_rate(&self, found: Performance, lag: Option<&LagSummary>) -> Performance {
        /// What starts in a window and what arrives in it differ by as much where nothing is left behind.
        const ALL: f64 = 0.98;
        let (Some(own), Some(lag)) = (self.arrivals_per_sec(), lag) else { return found };
        if found.iops == 0.0 || lag.started == 0 {
            return found;
        }
        let share = lag.started as f64 / (lag.started + lag.unserved) as f64;
        let iops = if share < ALL { own * share } else { own };
        Performance { iops, bytes_per_sec: found.bytes_per_sec * iops / found.iops, ..found }
    }

    /// What it asks on average beside others.
    pub(super) fn demand_together(&self) -> Demand {
        let demand = self.demand();
        Demand { pace: self.pace(demand.bytes_mean), ..demand }
    }

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
                pace: None,
            };
        }
        let (mut reads, mut random, mut bytes) = (0.0, 0.0, 0.0);
        for (share, line) in spec.line_shares() {
            reads += share * f64::from(line.read_pct) / 100.0;
            random += share * f64::from(line.random_pct) / 100.0;
            bytes += share * f64::from(line.bytes);
        }
        let everywhere = Places::default();
        Demand {
            read_share: reads,
            random_share: random,
            bytes_mean: bytes,
            iodepth: iodepth_of(spec, iodepth),
            is_spread: spec.places == everywhere && spec.parts.iter().all(|part| part.places == everywhere),
            metric,
            pace: None,
        }
    }
}

fn arrivals_per_sec(spec: &AccessSpec) -> Option<f64> {
    let of = |pacing: Pacing| match pacing {
        Pacing::Open(arrivals) => Some(arrivals.rate.per_second()),
        Pacing::Closed(_) => None,
    };
    let AccessSpec { parts, pacing, .. } = spec;
    // Parts with weights share the loop of the whole.
    let shares = parts.is_empty() || parts.iter().any(|part| part.weight.is_some());
    let loops = parts.iter().filter(|part| part.weight.is_none()).map(|part| part.pacing);
    loops.chain(shares.then_some(*pacing)).map(of).sum()
}

/// Requests in flight: parts with loops of their own have theirs, those with weights share one.
fn iodepth_of(spec: &AccessSpec, iodepth: u32) -> u32 {
    let own = spec.parts.iter().filter(|part| part.weight.is_none());
    let loops: u32 = own.map(|part| part.iodepth.unwrap_or(iodepth)).sum();
    let shares = spec.parts.is_empty() || spec.parts.iter().any(|part| part.weight.is_some());
    loops + if shares { iodepth } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_worlds::find_workload;
    use std::path::Path;

    /// The desktops and the boot storm of a host of virtual machines could not be planned together.
    #[test]
    fn a_workload_of_one_part_runs_beside_others() {
        let app = |name| Application::new(find_workload(name, Path::new("")).expect("it is built in"), 64);
        for name in ["vdi-steady", "vm-boot", "md1200-oltp"] {
            assert!(app(name).check_together().is_ok(), "{name}");
        }
        assert!(app("video-surveillance").check_together().is_err(), "it has two parts");
        // A window of no length was what a plan for them ended with.
        for name in ["kv-cache", "checkpoint-llama3-8b", "mlperf-unet3d-h100"] {
            assert!(app(name).check_demand().is_err(), "{name}");
        }
        for name in ["postgresql-pgbench", "rocksdb-fill", "object-store", "md1200-oltp"] {
            assert!(app(name).check_demand().is_ok(), "{name}");
        }
        let (desktops, boot) = (app("vdi-steady"), app("vm-boot"));
        assert_eq!(desktops.demand_together().pace, Some(2000.0));
        assert_eq!(
            app("video-surveillance").arrivals_per_sec(),
            Some(381.5 + 9.54),
            "all of its parts arrive"
        );
        assert_eq!(boot.arrivals_per_sec(), None);
        assert_eq!((boot.demand().iodepth, boot.workload.spec.lines.len()), (64, 3));
    }

    /// A day's rhythm was planned at the rate of its first hour, and a part of later hours was left out.
    #[test]
    fn what_changes_is_planned_at_its_busiest() {
        let of = |head: &str, tables: &str| {
            let line = "[[line]]\nsize = \"8KiB\"\nshare_pct = 100\nread_pct = 100\nrandom_pct = 100\n";
            let text = format!(
                "schema = 1\nname = \"it\"\ntitle = \"It\"\nsource = \"made up\"\nmetric = \"iops\"\n{head}{}",
                tables.replace("LINE", line)
            );
            Application::new(Workload::from_toml("it.toml", &text).expect("it is a workload"), 8)
        };
        let day =
            of("[arrival]\nprocess = \"poisson\"\nrate = 200\nsteps = [[\"8h\", 1], [\"16h\", 4]]\n", "LINE");
        assert_eq!((day.is_busiest, day.mean_iops), (true, Some(200.0)));
        assert!((day.arrivals_per_sec().expect("they arrive") - 200.0 * 4.0 / 3.0).abs() < 1e-6);
        assert!(day.accesses().ends_with("at its busiest (200 requests/s on average)"), "{}", day.accesses());
        let part = "[[part]]\nname = \"later\"\n[part.phase]\nafter = \"8h\"\n".to_owned()
            + "[[part.line]]\nsize = \"1MiB\"\nshare_pct = 100\nread_pct = 0\nrandom_pct = 0\n";
        let later = of("", &part);
        assert!(later.is_busiest && later.mean_iops.is_none());
        assert_eq!(later.workload.spec.lines.len(), 1, "one part that always works is all of it");
        let even = of("", "LINE");
        assert!(!even.is_busiest && even.accesses() == even.workload.accesses());
    }

    /// Checkpoints got 8.1 GB/s of drives that were overwritten at random before, and 55 GB/s of such as they make of them.
    #[test]
    fn drives_are_in_the_state_that_the_applications_lead_to() {
        let sequential = DriveHistory::Sequential;
        let rows: [(&[&str], DriveHistory); 8] = [
            (&["storagebench-restore"], sequential),
            (&["md1200-sql-log", "storagebench-database-log"], sequential),
            (&["md1200-sql-log", "storagebench-streaming"], sequential),
            (&["md1200-sql-log", "md1200-oltp"], DriveHistory::default()),
            (&["storagebench-streaming"], DriveHistory::default()),
            (&["mlperf-unet3d"], sequential),
            (&["mlperf-unet3d", "storagebench-streaming"], DriveHistory::default()),
            (&["md1200-oltp"], DriveHistory::default()),
        ];
        for (names, history) in rows {
            let spec = |name: &&str| find_workload(name, Path::new("")).expect("it is built in").spec;
            let specs: Vec<AccessSpec> = names.iter().map(spec).collect();
            assert_eq!(default_history(&specs, false), history, "{names:?}");
        }
    }
}
