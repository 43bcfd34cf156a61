//! Parsers of single arguments, and lookups that several verbs share.

use crate::failure::Failure;
use raidlab::{
    Catalog, CatalogChange, CatalogError, CatalogFile, DriveModel, IoPolicy, MetadataPolicy, OwnHardware,
    ReadPolicy, WritePolicy, md_setting_key,
};
use raidlab_papers::StoredFit;
use raidlab_tracefile::TraceFileError;
use raidlab_tracefile::{ReplayOrder, ReplayOrderError};
use raidlab_units::{ByteCount, NanoSpan, ParseUnitError};
use raidlab_workload::toml_file::meant;
use raidlab_workload::{
    ArrivalProcess, Arrivals, ClosedLoop, Fit, Pacing, ReplayError, RequestRate, Timing, Workload,
};
use raidlab_worlds::{Owner, TextFileError, WorkloadError, read_text};
use std::path::{Path, PathBuf};

/// Reads a number above zero, which a need or a limit is.
pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e15;
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= MOST);
    number.ok_or_else(|| {
        format!("'{text}' is no number above zero and up to 1e15: write one such as 800 or 1.5e3")
    })
}

/// Reads a size above zero.
pub(crate) fn some_bytes(text: &str) -> Result<ByteCount, String> {
    above_zero_of(text, "nothing fits into 0 bytes: write a size such as 20TB")
}

/// Reads a time above zero.
pub(crate) fn some_time(text: &str) -> Result<NanoSpan, String> {
    above_zero_of(text, "no request takes no time: write a time such as 20ms")
}

/// Reads how long a search may take, above zero.
pub(crate) fn search_time(text: &str) -> Result<NanoSpan, String> {
    above_zero_of(text, "nothing is found in no time: write a time such as 10s")
}

/// Reads the time between two checkpoints, above zero.
pub(crate) fn between_checkpoints(text: &str) -> Result<NanoSpan, String> {
    above_zero_of(text, "training has no time between two checkpoints: write a time such as 30m")
}

/// Reads the length of a window, above zero.
pub(crate) fn window(text: &str) -> Result<NanoSpan, String> {
    above_zero_of(text, "nothing is measured in no time: write a time such as 5s")
}

/// Reads what has a unit and is above zero; `refusal` is said of zero.
fn above_zero_of<T>(text: &str, refusal: &str) -> Result<T, String>
where
    T: std::str::FromStr<Err = ParseUnitError> + PartialOrd + Default,
{
    let read: T = text.parse().map_err(|error: ParseUnitError| error.to_string())?;
    if read > T::default() { Ok(read) } else { Err(refusal.to_owned()) }
}

/// Numbers of one argument, in the order given; by another name than that of a list, which clap takes for arguments one by one.
pub(crate) type Numbers<T = u32> = Vec<T>;

/// Reads `ENTRY:KEY=VALUE`, a figure of the catalogue and another value for it; or `NAME=VALUE`, a setting of Linux md where
/// that is the controller, which is a change without an entry.
pub(crate) fn catalog_change(text: &str) -> Result<CatalogChange, String> {
    let parts = text.split_once('=').map(|(place, value)| (place.split_once(':'), place, value));
    let parts = parts.map(|(place, name, value)| (place.unwrap_or(("", name)), value));
    match parts {
        Some(((entry, key), value)) if !key.is_empty() && !value.is_empty() && !text.starts_with(':') => {
            let [entry, key, value] = [entry, key, value].map(|part| part.trim().to_owned());
            Ok(CatalogChange { entry, key, value, source: None })
        }
        _ => Err(format!("'{text}' is no change: write it as perc-h800:member_command.read=7us")),
    }
}

/// How a figure is set.
const SET_HINT: &str = "write it as ENTRY:KEY=VALUE: perc-h800:member_command.read=7us";

/// The catalogue, by options: somebody's own entries, and other values of figures.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Catalogue")]
pub(crate) struct CatalogArgs {
    /// Know the hardware in this file, too, or in all .toml files of this folder; may be repeated
    #[arg(long, value_name = "FILE.toml|FOLDER")]
    catalog: Vec<PathBuf>,
    /// Use the values of a fit that 'raidlab fit' stored
    #[arg(long, value_name = "FILE.toml")]
    fitted: Option<PathBuf>,
    /// Another value of a figure of the catalogue, before those of a fit; may be repeated. 'simulate' takes settings of Linux md by
    /// their own names, too: `stripe_cache_size=4096`
    #[arg(long, value_parser = catalog_change, value_name = "ENTRY:KEY=VALUE")]
    set: Vec<CatalogChange>,
}

impl CatalogArgs {
    /// These files and changes.
    pub(crate) fn of(catalog: Vec<PathBuf>, set: Vec<CatalogChange>) -> Self {
        Self { catalog, fitted: None, set }
    }

    /// Whether anything is to be other than the catalogue has it.
    pub(crate) fn is_given(&self) -> bool {
        !(self.catalog.is_empty() && self.fitted.is_none() && self.set.is_empty())
    }

    /// The same where settings of Linux md without an entry are those of `controller`.
    ///
    /// # Errors
    /// Names settings that md has not, that are not modelled, or that are given to a controller that is not md.
    pub(crate) fn load_with_md(&self, controller: &str) -> Result<Catalog, Failure> {
        let (own, of_entries): (Vec<_>, Vec<_>) =
            self.set.iter().cloned().partition(|change| change.entry.is_empty());
        let mut args = Self { set: of_entries, ..self.clone() };
        let catalog = args.load()?;
        if own.is_empty() {
            return Ok(catalog);
        }
        let model = catalog.controller(controller).map_err(Failure::input)?;
        for CatalogChange { key, value, source, .. } in own {
            if model.md.is_none() {
                let problem =
                    anyhow::anyhow!("controller '{controller}' is not Linux md, and has no setting '{key}'");
                return Err(Failure::input(problem).with_hint(SET_HINT));
            }
            let key = md_setting_key(&key).map_err(Failure::input)?.to_owned();
            args.set.push(CatalogChange { entry: controller.to_owned(), key, value, source });
        }
        args.load()
    }

    /// What of the catalogue is the user's own, where settings of Linux md without an entry are those of `controller`.
    ///
    /// # Errors
    /// As [`CatalogArgs::load_with_md`].
    pub(crate) fn own_hardware(&self, controller: Option<&str>) -> Result<OwnHardware, Failure> {
        let mut files = Vec::new();
        for path in &self.catalog {
            own_entries(path, &mut files).map_err(Failure::input)?;
        }
        let mut changes = match &self.fitted {
            Some(path) => StoredFit::read(path).map_err(Failure::input)?.changes(),
            None => Vec::new(),
        };
        for change in &self.set {
            let mut change = change.clone();
            if let Some(controller) = controller.filter(|_| change.entry.is_empty()) {
                let key = md_setting_key(&change.key).map_err(Failure::input)?.to_owned();
                change.key = key;
                controller.clone_into(&mut change.entry);
            }
            changes.push(change);
        }
        Ok(OwnHardware { files, changes, host: None })
    }

    /// Reads the files and returns the catalogue with them and with all changes.
    pub(crate) fn load(&self) -> Result<Catalog, Failure> {
        if let Some(change) = self.set.iter().find(|change| change.entry.is_empty()) {
            let problem = anyhow::anyhow!("'{}={}' does not say of which entry", change.key, change.value);
            return Err(Failure::input(problem).with_hint(SET_HINT));
        }
        let OwnHardware { files, changes, .. } = self.own_hardware(None)?;
        catalog_with(&files, &changes)
    }

    /// The drive called `name`; or, where that is the name of a .toml file, the drive in this file.
    pub(crate) fn load_drive(&self, name: &str) -> Result<DriveModel, Failure> {
        let unknown = |error| Failure::input(error).with_hint("'raidlab catalog' lists the hardware");
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return self.load()?.drive(name).cloned().map_err(unknown);
        }
        let others = Self { catalog: self.catalog.clone(), fitted: None, set: Vec::new() }.load()?;
        let mut with_file = self.clone();
        with_file.catalog.push(path.to_owned());
        let catalog = with_file.load()?;
        let found = catalog.drives().find(|drive| others.drive(&drive.id).is_err());
        found.cloned().ok_or_else(|| Failure::input(anyhow::anyhow!("{name} holds no drive")))
    }
}

/// The catalogue that comes with the program, with `files` and `changes`.
pub(crate) fn catalog_with(files: &[CatalogFile], changes: &[CatalogChange]) -> Result<Catalog, Failure> {
    Catalog::with(files, changes).map_err(|error| {
        let is_place = matches!(error, CatalogError::UnknownId { .. } | CatalogError::UnknownKey { .. });
        let hint = is_place.then_some("'raidlab catalog ENTRY' lists the keys of an entry");
        Failure::input(error).with_any_hint(hint)
    })
}

/// Adds the file at `path`, or all .toml files of that folder in the order of their names.
fn own_entries(path: &Path, files: &mut Vec<CatalogFile>) -> Result<(), TextFileError> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        let entries = path.read_dir().and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
        });
        paths = entries.map_err(TextFileError::of(path))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        if paths.is_empty() {
            return Err(TextFileError::of(path)(std::io::Error::other("the folder has no .toml files")));
        }
    }
    for path in paths {
        files.push(CatalogFile { name: path.display().to_string(), text: read_text(&path)? });
    }
    Ok(())
}

/// Reads `write-through`, `write-back` or `write-back-bad-battery`.
pub(crate) fn write_policy(text: &str) -> Result<WritePolicy, String> {
    one_of(text, &WritePolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Reads `none`, `resync`, `bitmap` or `log`.
pub(crate) fn metadata_policy(text: &str) -> Result<MetadataPolicy, String> {
    one_of(text, &MetadataPolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Reads `no-read-ahead`, `read-ahead` or `adaptive`.
pub(crate) fn read_policy(text: &str) -> Result<ReadPolicy, String> {
    one_of(text, &ReadPolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Reads `direct` or `cached`.
pub(crate) fn io_policy(text: &str) -> Result<IoPolicy, String> {
    one_of(text, &IoPolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Reads how long something may be silent.
pub(crate) fn member_timeout(text: &str) -> Result<NanoSpan, String> {
    const LEAST: NanoSpan = NanoSpan::from_millis(100);
    match text.parse::<NanoSpan>() {
        Ok(limit) if limit < LEAST => Err(format!("{LEAST} is the least")),
        Ok(limit) => Ok(limit),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `A` or `B`.
pub(crate) fn owner(text: &str) -> Result<Owner, String> {
    one_of(text, &[("A", Owner::A), ("B", Owner::B)])
}

/// Reads `on` or `off`.
pub(crate) fn on_or_off(text: &str) -> Result<bool, String> {
    one_of(text, &[("on", true), ("off", false)])
}

/// Reads one of the words that are `known`.
pub(crate) fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let meant = meant(text, names.iter().copied());
        let meant = meant.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
        format!("'{text}' is none of {}{meant}", names.join(", "))
    })
}

/// Looks up each of `names`: a built-in workload by its full or short name, or the path of a workload file.
pub(crate) fn workloads(names: &[String]) -> Result<Vec<Workload>, Failure> {
    names.iter().map(|name| workload(name)).collect()
}

/// When requests start, by options instead of by the workload's file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pacing")]
pub(crate) struct PacingArgs {
    /// Open loop: so many requests arrive per second, whatever the target does; latencies run from the arrival
    #[arg(long, value_parser = request_rate, conflicts_with = "iodepth", value_name = "PER_SECOND")]
    rate: Option<RequestRate>,
    /// How arrivals are spread over time: poisson, fixed [default: poisson]
    // What `requires` asks for is waived where it conflicts with what is given, as a rate does with these.
    #[arg(
        long,
        value_parser = arrival_process,
        requires = "rate",
        conflicts_with_all = ["rate_limit", "bytes_limit", "think", "trace", "iodepth"],
        value_name = "PROCESS"
    )]
    arrival: Option<ArrivalProcess>,
    /// Requests of an open loop in flight at most; those that arrive beyond wait [default: 256]
    #[arg(
        long,
        requires = "rate",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["rate_limit", "bytes_limit", "think", "trace", "iodepth"],
        value_name = "N"
    )]
    in_flight: Option<u32>,
    /// Closed loop: at most so many requests per second
    #[arg(long, value_parser = request_rate, conflicts_with = "rate", value_name = "PER_SECOND")]
    rate_limit: Option<RequestRate>,
    /// Closed loop: at most so many bytes per second
    #[arg(long, conflicts_with = "rate", value_name = "SIZE")]
    bytes_limit: Option<ByteCount>,
    /// Closed loop: each place is idle so long after its request has ended
    #[arg(long, conflicts_with = "rate", value_name = "TIME")]
    think: Option<NanoSpan>,
}

impl PacingArgs {
    /// Returns `workloads` with the pacing that is asked for.
    pub(crate) fn apply(&self, mut workloads: Vec<Workload>) -> Result<Vec<Workload>, Failure> {
        let closed = self.rate_limit.is_some() || self.bytes_limit.is_some() || self.think.is_some();
        let option = match (self.rate, self.rate_limit, self.bytes_limit) {
            (Some(_), ..) => "--rate",
            (_, Some(_), _) => "--rate-limit",
            (_, _, Some(_)) => "--bytes-limit",
            _ => "--think",
        };
        for workload in &mut workloads {
            let spec = &mut workload.spec;
            if (self.rate.is_some() || closed) && !spec.parts.is_empty() && !spec.has_weights() {
                let error = anyhow::anyhow!("each part of workload '{}' has a pace of its own", spec.name);
                let failure = Failure::input(error).with_option(option);
                return Err(failure.with_hint("leave the option out, or give a workload file of your own"));
            }
            if let Some(rate) = self.rate {
                let process = self.arrival.unwrap_or(ArrivalProcess::Poisson);
                spec.pacing = Pacing::Open(Arrivals { process, rate, burst: 1 });
                spec.iodepth = self.in_flight.or(spec.iodepth);
            } else if closed {
                spec.pacing = Pacing::Closed(ClosedLoop {
                    think: self.think.unwrap_or_default(),
                    rate_max: self.rate_limit,
                    bytes_per_sec_max: self.bytes_limit,
                });
            }
            spec.validate().map_err(Failure::input)?;
        }
        Ok(workloads)
    }
}

/// Reads requests per second.
fn request_rate(text: &str) -> Result<RequestRate, String> {
    let rate = text.parse::<f64>().ok().and_then(RequestRate::new);
    rate.ok_or_else(|| format!("'{text}' is no rate: write requests per second, 0.000001 to 1000000000"))
}

/// Reads `poisson` or `fixed`.
fn arrival_process(text: &str) -> Result<ArrivalProcess, String> {
    one_of(text, &[("poisson", ArrivalProcess::Poisson), ("fixed", ArrivalProcess::Fixed)])
}

/// A trace instead of workloads.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A trace instead of workloads")]
pub(crate) struct ReplayArgs {
    /// Replay this trace, which `raidlab import trace` made, instead of workloads
    #[arg(
        long,
        value_name = "FILE.parquet",
        conflicts_with_all = ["workload", "block_size", "read_pct", "rate", "rate_limit", "bytes_limit", "think", "find_load", "until"]
    )]
    trace: Option<PathBuf>,
    // What `requires` asks for is waived where it conflicts with what is given, as a trace does with a workload.
    /// When its requests start: original, scaled:2.0 (takes twice as long), or none (when others have ended)
    #[arg(
        long,
        default_value = "original",
        requires = "trace",
        conflicts_with = "workload",
        value_name = "WHEN"
    )]
    timing: Timing,
    /// What lies beyond the target: refuse, wrap (around to its start), scale (all offsets), clip (to its end)
    #[arg(long, default_value = "refuse", value_parser = fit, requires = "trace", conflicts_with = "workload", value_name = "HOW")]
    fit: Fit,
    /// Widen requests to whole blocks of the target, instead of refusing others
    #[arg(long, requires = "trace", conflicts_with = "workload")]
    whole_blocks: bool,
    /// Which device of the trace goes to which target or volume, numbered from 0: usr.1=0; may be repeated, others are left out
    /// [default: each to that of its number]
    #[arg(long, value_parser = device_target, requires = "trace", conflicts_with = "workload", value_name = "DEVICE=N")]
    map: Vec<(String, u32)>,
}

impl ReplayArgs {
    /// What to replay, if anything.
    pub(crate) fn order(&self) -> Option<ReplayOrder> {
        let Self { timing, fit, whole_blocks, .. } = *self;
        let path = self.trace.clone()?;
        Some(ReplayOrder { path, timing, fit, whole_blocks, map: self.map.clone() })
    }
}

/// Reads `refuse`, `wrap`, `scale` or `clip`.
fn fit(text: &str) -> Result<Fit, String> {
    one_of(text, &Fit::ALL.map(|fit| (fit.name(), fit)))
}

/// Reads `DEVICE=N`.
fn device_target(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=').and_then(|(device, target)| Some((device, target.parse().ok()?)));
    match parts {
        Some((device, target)) if !device.is_empty() => Ok((device.to_owned(), target)),
        _ => Err(format!("'{text}' sends no device to a target: write it as usr.0=1")),
    }
}

/// What to do about a trace that can't be replayed on the targets there are.
pub(crate) fn bad_order(error: ReplayOrderError) -> Failure {
    let hint = match &error {
        ReplayOrderError::File(TraceFileError::Parquet { .. } | TraceFileError::Schema { .. }) => {
            Some("'raidlab import trace FILE -o TRACE.parquet' makes a trace of text")
        }
        ReplayOrderError::TooFewTargets { .. } => {
            Some("give as many targets, or choose with --map DEVICE=0; those not named there are left out")
        }
        _ => None,
    };
    Failure::input(error).with_any_hint(hint)
}

/// What to do about a trace that does not fit a target.
pub(crate) fn replay_hint(fault: &ReplayError) -> &'static str {
    match fault {
        ReplayError::Beyond { .. } => {
            "--fit wrap, --fit scale or --fit clip puts its requests where the target has room"
        }
        ReplayError::Unaligned { .. } => "--whole-blocks widens its requests to whole blocks",
        ReplayError::NoTimes => "--timing none keeps --iodepth requests in flight instead",
        ReplayError::Nothing { .. } => {
            "give as many targets as the trace has devices, or send one there with --map"
        }
        ReplayError::TooLong { .. }
        | ReplayError::Factor(_)
        | ReplayError::Read(_)
        | ReplayError::Request { .. } => "'raidlab import trace' shows what is in a trace",
    }
}

/// Looks up one workload.
pub(crate) fn workload(name: &str) -> Result<Workload, Failure> {
    raidlab::workload(name).map_err(|error| {
        let is_unknown = matches!(error, WorkloadError::Lookup(_));
        Failure::input(error).with_any_hint(is_unknown.then_some("'raidlab workloads' lists them all"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_exactly() {
        assert_eq!(write_policy("write-back"), Ok(WritePolicy::WriteBack));
        assert_eq!(read_policy("adaptive"), Ok(ReadPolicy::Adaptive));
        assert_eq!(io_policy("cached"), Ok(IoPolicy::Cached));
        assert_eq!(on_or_off("off"), Ok(false));
        assert_eq!(on_or_off("offf"), Err("'offf' is none of on, off; did you mean 'off'?".into()));
        assert_eq!(on_or_off("x"), Err("'x' is none of on, off".into()));
    }
}
