//! Starts an array from its devices: opens them, assembles them, and runs a controller over them.
//!
//! ```text
//! devices, NVRAM ─► assemble ─► configuration: geometry of the devices, settings of the caller ─► controller ─► world
//!                              └──────────────────────── decide ─────────────────────────────────┘
//! ```
//! `would_start` goes as far as `decide`, so that it says what a start will say.
//!
//! An array with metadata policy `none` keeps nothing to start from: it runs with all its members or not at all, and
//! counts as consistent. Such arrays are for measurements.

use crate::command::Commands;
use crate::device::{Purpose, with_patience};
use crate::error::{ArrayError, DeviceError, NvramError, RingError};
use crate::events::{Chronicle, Event, EventLevel, Kind};
use crate::examine::{Candidate, Examination, ExamineReport};
use crate::history::{History, HistoryPlace, check_history};
use crate::member_io::MemberPort;
use crate::memory::Memory;
use crate::nvram::{self, Nvram};
use crate::random::random_bytes;
use crate::ring::Ring;
use crate::status::Tally;
use crate::workers::Workers;
use crate::world::ArrayWorld;
use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, Controller, MemberCache, MetadataPolicy, Resilience,
};
use raidlab_format::{
    ArrayName, Assembly, Geometry, NvramFileHeader, NvramVerdict, Placement, StartNonce, StartOptions,
};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan, Nanos};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How an array is run, beside what its devices say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// The cache. What [`CacheMemory::BatteryBacked`] keeps is kept in the file below.
    pub cache: CacheConfig,
    /// Whether writes may rest in the devices' volatile caches until they are flushed; with [`MemberCache::Off`] every
    /// write is durable when it completes.
    pub member_cache: MemberCache,
    /// Working memory for parity and recovery.
    pub staging_size: ByteCount,
    /// Stripes that a background scan has under way at once.
    pub scan_iodepth: u32,
    /// Most bytes per second that a background scan covers on each member; no bound if none.
    pub scan_bytes_per_sec: Option<ByteCount>,
    /// The file that is the battery-backed memory. Its head says what it survives.
    pub nvram: Option<PathBuf>,
    /// Start an array whose NVRAM is gone after a crash: what was acknowledged and lay there alone is lost.
    pub accept_lost_cache: bool,
    /// How long the thread looks for the next event before it sleeps, where events have lately come that soon: less latency
    /// for more processor time. Zero sleeps at once.
    pub busy_poll: NanoSpan,
    /// Threads beside the array's own that compute parity and digests.
    pub parity_threads: usize,
    /// Threads beside the array's own that do I/O of members, each on a ring of its own.
    pub io_threads: usize,
    /// A member that leaves a request unanswered for so long is gone: an NBD export, a file or a block device.
    pub member_timeout: NanoSpan,
    /// Where the history of events is kept, if it is.
    pub history: Option<HistoryPlace>,
}

impl RunSettings {
    /// How long a member may leave a request unanswered, unless someone says otherwise: what Linux gives
    /// a disk (`drivers/scsi/sd.h`, `SD_TIMEOUT`).
    pub const MEMBER_TIMEOUT: NanoSpan = NanoSpan::from_millis(30_000);

    /// The settings that `config` has.
    pub fn of(config: &ArrayConfig) -> Self {
        let Resilience { scan_iodepth, scan_bytes_per_sec, .. } = config.resilience;
        Self {
            cache: config.cache,
            member_cache: config.member_cache,
            staging_size: config.staging_size,
            scan_iodepth,
            scan_bytes_per_sec,
            nvram: None,
            accept_lost_cache: false,
            busy_poll: NanoSpan::ZERO,
            parity_threads: 0,
            io_threads: 0,
            member_timeout: Self::MEMBER_TIMEOUT,
            history: None,
        }
    }

    /// The configuration of the array of `geometry` under these settings.
    pub fn config(&self, geometry: &Geometry) -> ArrayConfig {
        ArrayConfig {
            level: geometry.level,
            members: geometry.members,
            strip_size: geometry.strip_bytes,
            block_size: geometry.block_size,
            member_size: geometry.member_bytes,
            member_cache: self.member_cache,
            cache: self.cache,
            staging_size: self.staging_size,
            resilience: Resilience {
                spares: geometry.spares,
                metadata: geometry.metadata,
                log_size: geometry.log_bytes,
                integrity: geometry.integrity,
                scan_iodepth: self.scan_iodepth,
                scan_bytes_per_sec: self.scan_bytes_per_sec,
            },
        }
    }
}

/// What a world is made of.
pub(crate) struct Parts {
    pub(crate) ring: Ring,
    pub(crate) members: MemberPort,
    pub(crate) workers: Workers,
    pub(crate) memory: Memory,
    pub(crate) controller: Controller,
    pub(crate) name: ArrayName,
    pub(crate) commands: Commands,
    pub(crate) tally: Tally,
}

/// An array that was started, or the reason why not, beside what was found on its devices.
#[derive(Debug)]
pub struct Started {
    /// What the devices are.
    pub report: ExamineReport,
    /// The array.
    pub world: Result<ArrayWorld, ArrayError>,
}

impl ArrayWorld {
    /// Starts the array on the devices at `paths`, in any order. They are locked until it ends. Requests may be made at once
    /// and are served from when [`ArrayWorld::await_serving`] would return.
    ///
    /// # Errors
    /// In [`Started::world`]: [`ArrayError`] when the devices are no array that may be started, a device is in use, the
    /// settings do not fit, or there is no memory or `io_uring`. What has been found is in the report all the same.
    pub fn start(paths: &[PathBuf], settings: &RunSettings, options: StartOptions) -> Started {
        if let Err(error) = check_names(paths, settings) {
            return Started { report: ExamineReport::default(), world: Err(error) };
        }
        let in_use = |error: &NvramError| matches!(error, NvramError::InUse { .. });
        let open = |path| with_patience(|| Nvram::open(path, Purpose::Use), in_use);
        let kept = match settings.nvram.as_deref().map(open).transpose() {
            Ok(kept) => kept.flatten(),
            Err(error) => {
                let report = Examination::of(paths, Purpose::Look, None, options, settings.member_timeout);
                let report = report.report();
                return Started { report, world: Err(error.into()) };
            }
        };
        let examination =
            Examination::of(paths, Purpose::Use, kept.as_ref(), options, settings.member_timeout);
        let report = examination.report();
        Started { report, world: begin(examination, kept, settings) }
    }
}

/// An array that may be started: nothing was changed yet.
struct Startable {
    candidates: Vec<Candidate>,
    /// Which of them each device is.
    present: Vec<Option<usize>>,
    name: ArrayName,
    geometry: Geometry,
    config: ArrayConfig,
    controller: Controller,
    /// The NVRAM that the array uses, and what it is made for; none if it uses none.
    nvram: Option<NvramFileHeader>,
}

/// Whether an array may be started from what was found, as far as no settings matter.
fn decide_devices(
    mut examination: Examination,
    accept_lost_cache: bool,
) -> Result<(Vec<Candidate>, Assembly), ArrayError> {
    if let Some(path) = examination.in_use() {
        // Without it the array would go on as if it had failed, beside whoever has it.
        return Err(DeviceError::InUse { path: path.to_owned() }.into());
    }
    if let Some(refusal) = examination.take_refusal_to_write() {
        return Err(refusal.into());
    }
    let Examination { candidates, outcome } = examination;
    let assembly = outcome?;
    if let NvramVerdict::OtherArray { found } = assembly.kept {
        return Err(ArrayError::NvramOfOther { found });
    }
    let kept_is_missing = assembly.state.relies_on_nvram() && assembly.kept != NvramVerdict::Used;
    if kept_is_missing && !accept_lost_cache {
        return Err(ArrayError::NvramMissing { verdict: assembly.kept });
    }
    let geometry = &assembly.state.geometry;
    let absent = assembly.present.iter().filter(|present| present.is_none()).count();
    if geometry.metadata == MetadataPolicy::None && absent > 0 {
        return Err(ArrayError::NotWhole { absent });
    }
    for candidate in assembly.present.iter().flatten() {
        check_unit(&candidates[*candidate], geometry)?;
    }
    Ok((candidates, assembly))
}

/// Whether an array may be started from what was found. A start and a look that only asks decide here, and nowhere else; what a
/// start refuses later, the system has refused.
fn decide(
    examination: Examination,
    kept: Option<&Nvram>,
    settings: &RunSettings,
) -> Result<Startable, ArrayError> {
    let (candidates, assembly) = decide_devices(examination, settings.accept_lost_cache)?;
    let (name, present) = (assembly.name, assembly.present.clone());
    let geometry = assembly.state.geometry.clone();
    let config = settings.config(&geometry);
    check_settings(&config, settings)?;
    let controller = if geometry.metadata == MetadataPolicy::None {
        Controller::new(&config)?
    } else {
        let random = random_bytes().map_err(|source| ArrayError::NoRandom { source })?;
        Controller::start(&config, assembly, StartNonce::new(u64::from_le_bytes(random)))?
    };
    let is_kept = settings.nvram.is_some() && config.cache.memory == CacheMemory::BatteryBacked;
    let nvram = is_kept.then(|| nvram::wanted(&config, &controller.memory_needs()));
    if let (Some(kept), Some(wanted)) = (kept, &nvram) {
        kept.check(wanted)?;
    }
    Ok(Startable { candidates, present, name, geometry, config, controller, nvram })
}

/// Says what the devices at `paths` are, in any order, and whether they may be started with `options`, whatever the settings.
/// Changes nothing.
pub fn examine(paths: &[PathBuf], options: StartOptions) -> ExamineReport {
    let examination = Examination::of(paths, Purpose::Look, None, options, RunSettings::MEMBER_TIMEOUT);
    let report = examination.report();
    let refused = decide_devices(examination, false).err();
    ExamineReport { refused: refused.map(|error| error.to_string()), ..report }
}

/// The same, but whether [`ArrayWorld::start`] would start them under these settings.
pub fn would_start(paths: &[PathBuf], settings: &RunSettings, options: StartOptions) -> ExamineReport {
    if let Err(error) = check_names(paths, settings) {
        return ExamineReport { refused: Some(error.to_string()), ..ExamineReport::default() };
    }
    let limit = settings.member_timeout;
    let kept = match settings.nvram.as_deref().map(|path| Nvram::open(path, Purpose::Look)).transpose() {
        Ok(kept) => kept.flatten(),
        Err(error) => {
            let report = Examination::of(paths, Purpose::Look, None, options, limit).report();
            return ExamineReport { refused: Some(error.to_string()), ..report };
        }
    };
    let examination = Examination::of(paths, Purpose::Look, kept.as_ref(), options, limit);
    let report = examination.report();
    let refused = decide(examination, kept.as_ref(), settings).err();
    ExamineReport { refused: refused.map(|error| error.to_string()), ..report }
}

/// Checks what can be told from the names alone: devices are named once, and the history goes where nothing else is.
fn check_names(paths: &[PathBuf], settings: &RunSettings) -> Result<(), ArrayError> {
    let mut known = BTreeSet::new();
    let twice = paths.iter().find(|path| path.canonicalize().is_ok_and(|whole| !known.insert(whole)));
    if let Some(path) = twice {
        return Err(ArrayError::NamedTwice { path: path.clone() });
    }
    match &settings.history {
        Some(HistoryPlace::File(path)) => check_history(path).map_err(|path| ArrayError::NoHistory { path }),
        _ => Ok(()),
    }
}

fn begin(
    examination: Examination,
    kept: Option<Nvram>,
    settings: &RunSettings,
) -> Result<ArrayWorld, ArrayError> {
    let decided = decide(examination, kept.as_ref(), settings)?;
    let Startable { mut candidates, present, name, geometry, config, mut controller, nvram } = decided;
    let kept = match (nvram, settings.nvram.as_deref(), kept) {
        (Some(_), _, Some(found)) => Some(found),
        (Some(wanted), Some(path), None) => Some(Nvram::make(path, wanted)?),
        _ => None,
    };
    // The last place is the NVRAM's.
    let mut ring = Ring::new(present.len() as u16 + 1, settings.busy_poll)?;
    ring.start_io_threads(settings.io_threads)?;
    if let Some(kept) = &kept {
        kept.is_held_by(&mut ring, present.len() as u16)?;
    }
    let mut members = MemberPort::new(present.len() as u16, config.block_size, settings.member_timeout);
    let mut tally = Tally::new(chronicle(settings, name.as_str(), &geometry));
    for (device, candidate) in (0..).map(MemberIndex).zip(&present) {
        if let Some(candidate) = candidate {
            tell_copies(&mut tally, device, &candidates[*candidate]);
            attach(&mut members, device, &mut candidates[*candidate], &geometry, &mut ring)?;
        }
    }
    let memory = Memory::new(&mut controller, kept, &mut ring)?;
    let workers = workers(settings, &ring)?;
    let commands = Commands::new(geometry)?;
    Ok(ArrayWorld::of_parts(Parts { ring, members, workers, memory, controller, name, commands, tally }))
}

/// The threads that compute parity.
pub(crate) fn workers(settings: &RunSettings, ring: &Ring) -> Result<Workers, RingError> {
    Workers::new(settings.parity_threads, &ring.wake_up())
        .map_err(|source| RingError { doing: "start threads for parity", source })
}

/// Who tells what happens to the array.
pub(crate) fn chronicle(settings: &RunSettings, name: &str, geometry: &Geometry) -> Chronicle {
    let array_uuid = geometry.array_uuid.to_string();
    let path = settings.history.as_ref().map(|place| place.file(name, &array_uuid));
    let history = path.and_then(|path| match History::start(path) {
        Ok(history) => Some(history),
        Err(error) => {
            tracing::warn!(%error, "the history of the array can't be written; the array goes on");
            None
        }
    });
    Chronicle::new(name.to_owned(), array_uuid, history)
}

/// Mends copies of label and states that are damaged, and tells of them.
fn tell_copies(tally: &mut Tally, device: MemberIndex, candidate: &Candidate) {
    let Some((damage, mended)) = candidate.mend_copies() else { return };
    let how = match mended {
        Ok(()) => "written anew from the other copy".to_owned(),
        Err(error) => format!("can't be written: {error}"),
    };
    let text = format!("metadata of device {} was damaged at its {damage}; {how}", device.0);
    let event = Event::new(Kind::MetadataDamaged, EventLevel::Warn, text);
    tally.chronicle.tell(Nanos::ZERO, event.of_device(device, Some(candidate.path_text())));
}

pub(crate) fn check_settings(config: &ArrayConfig, settings: &RunSettings) -> Result<(), ArrayError> {
    if config.cache.mirror {
        return Err(ArrayError::NoSecondController);
    }
    let is_kept = config.cache.memory == CacheMemory::BatteryBacked;
    if is_kept && settings.nvram.is_none() {
        return Err(ArrayError::NoNvram);
    }
    if is_kept && config.resilience.metadata == MetadataPolicy::None {
        return Err(ArrayError::KeepsNothing);
    }
    // What is kept in a file may be there already, and be counted as memory in use.
    let cache = if is_kept { ByteCount::ZERO } else { config.cache.size };
    let wanted = ByteCount(cache.get().saturating_add(config.staging_size.get()));
    match available_memory() {
        Some(available) if wanted > available => Err(ArrayError::TooLittleMemory { wanted, available }),
        _ => Ok(()),
    }
}

/// What programs can have without swapping, where the system says it (proc(5)). Left out: the limits of a control group.
fn available_memory() -> Option<ByteCount> {
    std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available_of)
}

/// The same from the text of `/proc/meminfo`.
fn available_of(meminfo: &str) -> Option<ByteCount> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(ByteCount)
}

/// Whether a device can do I/O as fine as the array's block.
fn check_unit(candidate: &Candidate, geometry: &Geometry) -> Result<(), ArrayError> {
    let device = candidate.device.as_ref().expect("a device that is present was opened");
    let (needed, block) = (device.io_unit(), ByteCount(geometry.block_size.bytes()));
    if needed > block {
        return Err(ArrayError::BlockTooSmall { path: device.path().to_owned(), block, needed });
    }
    Ok(())
}

fn attach(
    members: &mut MemberPort,
    member: MemberIndex,
    candidate: &mut Candidate,
    geometry: &Geometry,
    ring: &mut Ring,
) -> Result<(), ArrayError> {
    let device = candidate.device.take().expect("a device that is present was opened");
    let placement =
        Placement::new(geometry, device.bytes()).expect("a device that is too short is not present");
    Ok(members.attach(member, device, placement, ring)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_to_spare_is_read_from_the_system_s_table() {
        let table = "MemTotal:       24619100 kB\nMemFree:  7 kB\nMemAvailable:   23000001 kB\n";
        assert_eq!(available_of(table), Some(ByteCount(23_000_001 * 1024)));
        for odd in [
            "",
            "MemTotal: 1 kB",
            "MemAvailable: x kB",
            "MemAvailable: 1 MB",
            "MemAvailable: 99999999999999999999 kB",
        ] {
            assert_eq!(available_of(odd), None, "{odd}");
        }
        assert!(available_memory().is_some_and(|available| available > ByteCount::from_mib(1)));
    }
}
