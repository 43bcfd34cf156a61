//! `raidlab array serve`: starts an array from its devices and serves it over NBD, or as a block device, until it is
//! stopped.

use super::assemble::Risks;
use super::block_device;
use super::events::HistoryArgs;
use super::examined_text::examined;
use super::operator::OperatorArgs;
use super::status_text::array_summary;
use crate::failure::{Exit, Failure};
use crate::inputs::{io_policy, member_timeout, on_or_off, read_policy, write_policy};
use crate::interrupt::cancel_flag;
use crate::output::{Output, remark, write_beside};
use crate::verbs::nbd::NbdArgs;
use raidlab::{
    ArrayConfig, CacheConfig, CacheMemory, IoPolicy, MemberCache, MetadataPolicy, ReadPolicy, Resilience,
    WritePolicy,
};
use raidlab_control::notify_stopping;
use raidlab_format::ArrayName;
use raidlab_raid::LevelVariant;
use raidlab_runtime::{
    ArrayError, ArrayStatus, ArrayWorld, Condition, DeviceReport, DeviceVerdict, ExamineReport, HostPort,
    RunSettings, is_nbd_uri, is_null, operator_line,
};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_worlds::{SOFTWARE_CACHE, STAGING_SIZE};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Arguments of `raidlab array serve`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "raidlab array serve [OPTIONS] --socket PATH <DEVICE>...\n       \
                            raidlab array serve [OPTIONS] --listen ADDRESS:PORT <DEVICE>...\n       \
                            raidlab array serve [OPTIONS] --ublk <DEVICE>...")]
pub(crate) struct Args {
    /// Devices of the array, in any order: block devices, files, or NBD URIs; or null:SIZE for members that store nothing, with
    /// --level
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    #[command(flatten)]
    exports: ExportArgs,
    #[command(flatten)]
    null: NullArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    risks: Risks,
    #[command(flatten)]
    operators: OperatorArgs,
    #[command(flatten)]
    history: HistoryArgs,
    /// Bytes of each member per second at most for background scans: rebuild, resync, scrub (check and repair); 0 pauses them
    /// [default: no bound]
    #[arg(long, value_name = "SIZE")]
    scan_rate: Option<ByteCount>,
    /// Stripes that background scans have under way at once
    #[arg(long, default_value_t = SCAN_IODEPTH, value_name = "N")]
    scan_iodepth: u32,
    /// While events come within this time of each other, look for the next one instead of sleeping: less latency for more
    /// processor time; 0s always sleeps [default: 50us where there are two processors or more]
    #[arg(long, value_name = "TIME")]
    busy_poll: Option<NanoSpan>,
    /// Threads beside the array's own that compute parity and digests, each for stripes of its own
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=64))]
    parity_threads: u8,
    /// Threads beside the array's own that do I/O of members, for devices that are faster than one thread
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=64))]
    io_threads: u8,
    /// Timeout of a member's requests: a member (NBD URI, file or block device) that exceeds it is lost
    #[arg(long, default_value_t = RunSettings::MEMBER_TIMEOUT, value_name = "TIME", value_parser = member_timeout)]
    member_timeout: NanoSpan,
}

/// Stripes that background scans have under way, unless told otherwise.
const SCAN_IODEPTH: u32 = 8;

/// The time that a served array looks for events unless told otherwise: none where the client needs the same processor.
fn default_busy_poll() -> NanoSpan {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors > 1 { NanoSpan::from_micros(50) } else { NanoSpan::ZERO }
}

/// How the volume is reached.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Export")]
#[command(group(clap::ArgGroup::new("export").required(true).multiple(true).args(["socket", "listen", "ublk"])))]
struct ExportArgs {
    #[command(flatten)]
    nbd: NbdArgs,
    /// Make a block device of the volume, /dev/ublkbN, instead of serving NBD; needs root and a kernel with ublk
    #[arg(long, conflicts_with_all = ["socket", "listen", "connections", "insecure", "tls_certificates"])]
    ublk: bool,
}

/// What an array over null members is, which no device says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Null members")]
struct NullArgs {
    /// RAID level of an array over members null:SIZE: reads give zeros, and WHATEVER IS WRITTEN IS LOST
    #[arg(long, value_name = "LEVEL")]
    level: Option<LevelVariant>,
    /// Length of a strip of such an array
    #[arg(long, default_value = "64KiB", requires = "level", value_name = "SIZE")]
    strip_size: ByteCount,
}

/// The cache and what is promised when writes are acknowledged.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cache")]
pub(super) struct CacheArgs {
    /// When writes are acknowledged: write-through, write-back, write-back-bad-battery [default: write-through, and
    /// write-back with --nvram]
    #[arg(long, value_parser = write_policy, value_name = "POLICY")]
    write_policy: Option<WritePolicy>,
    /// Memory of the cache
    #[arg(long, default_value_t = SOFTWARE_CACHE.size, value_name = "SIZE")]
    cache_size: ByteCount,
    /// Keep the cache in this file as NVRAM: acknowledged writes survive the end of this process, and a power loss where
    /// the file's memory does
    #[arg(long, value_name = "FILE")]
    nvram: Option<PathBuf>,
    /// Start though the NVRAM is gone that held acknowledged writes when the array was last used: they are lost
    #[arg(long)]
    accept_lost_cache: bool,
    /// Read-ahead: no-read-ahead, read-ahead, adaptive [default: adaptive]
    #[arg(long, value_parser = read_policy, value_name = "POLICY")]
    read_policy: Option<ReadPolicy>,
    /// Whether reads stay in the cache: direct, cached [default: direct]
    #[arg(long, value_parser = io_policy, value_name = "POLICY")]
    io_policy: Option<IoPolicy>,
    /// Whether writes may rest in the members' own caches until a flush; off makes each write durable by itself
    #[arg(long, value_parser = on_or_off, action = clap::ArgAction::Set, default_value = "on", value_name = "on|off")]
    disk_cache: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let tls = args.exports.nbd.tls()?;
    let (mut world, report) = args.start(output)?;
    let cancel = cancel_flag("stopping the array cleanly (once more to end at once, as a crash would)");
    let (operator, queue) = operator_line().map_err(Failure::run)?;
    world.attach_operator(queue);
    let nbd = if args.exports.ublk {
        None
    } else {
        Some(args.exports.nbd.server(
            world.name(),
            (world.block_size(), world.volume_bytes()),
            tls.as_ref(),
        )?)
    };
    let operator = NbdArgs::with_reload(operator, tls.as_ref());
    let operators = args.operators.start(world.name(), operator)?;
    match world.await_serving(&cancel) {
        Ok(()) => {}
        Err(ArrayError::Cancelled) => return Ok(Exit::Interrupted),
        Err(error) => return Err(Failure::run(error)),
    }
    match &report {
        Some(report) => tell_what_lacks(&world.status(), report, output),
        None => remark(format_args!(
            "warning: null members store nothing: reads give zeros, and what is written is lost"
        )),
    }
    let announcement = operators.announcement(world.name(), world.volume_bytes(), output);
    let Some((mut server, addresses)) = nbd else {
        return block_device::serve(&mut world, args.exports.nbd.read_only, announcement, &cancel);
    };
    announcement.say(&addresses, None);
    serve_port(&mut world, &mut server, &cancel)?;
    stop(&mut world)?;
    Ok(Exit::Done)
}

/// Why an array is not served. A device that is not where it was named is the first thing to mend; an array that starts without it
/// does not come here.
fn not_started(devices: &[PathBuf], error: ArrayError) -> Failure {
    let is_absent = |path: &&PathBuf| !is_nbd_uri(path) && !path.exists();
    let absent: Vec<String> =
        devices.iter().filter(is_absent).map(|path| format!("'{}'", path.display())).collect();
    if absent.is_empty() {
        return match error {
            ArrayError::Assemble(_) => Failure::input(error)
                .with_hint("'raidlab array assemble DEVICE...' says what each of them is"),
            error => Failure::input(error),
        };
    }
    Failure::input(anyhow::Error::new(error).context(format!("there is no device {}", absent.join(", "))))
        .with_hint("name the array's devices as they are now; 'raidlab array assemble DEVICE...' says what each of them is")
}

/// Says what is not as it should be with an array that starts all the same.
fn tell_what_lacks(status: &ArrayStatus, report: &ExamineReport, output: &Output) {
    let is_present = |device: &DeviceReport| matches!(device.verdict, DeviceVerdict::Present { .. });
    let is_whole = report.array.as_ref().is_some_and(|array| array.absent.is_empty());
    if !is_whole || !report.devices.iter().all(is_present) {
        write_beside(&examined(report, output.terminal()));
    }
    if status.condition != Condition::Optimal {
        remark(format_args!("warning: {} is not optimal: {}", status.name, array_summary(status)));
    }
}

/// Serves until an operator or a signal ends it. A second signal ends the process at once; the array is then as after a
/// crash, and loses nothing that was promised.
pub(super) fn serve_port<P: HostPort>(
    world: &mut ArrayWorld,
    port: &mut P,
    cancel: &AtomicBool,
) -> Result<(), Failure> {
    match world.serve(port, cancel) {
        Ok(()) | Err(ArrayError::Cancelled) => Ok(()),
        Err(error) => Err(Failure::run(error)),
    }
}

/// Stops the array cleanly.
pub(super) fn stop(world: &mut ArrayWorld) -> Result<(), Failure> {
    notify_stopping();
    // What stops it was heard; a clean stop is not to be cut short by it.
    world.stop(&AtomicBool::new(false)).map_err(Failure::run)
}

impl Args {
    /// Starts the array, with what was found on its devices, if they are any.
    fn start(&self, output: &Output) -> Result<(ArrayWorld, Option<ExamineReport>), Failure> {
        if let Some(level) = self.null.level {
            return self.start_null(level).map(|world| (world, None));
        }
        if let Some(path) = self.devices.iter().find(|path| is_null(path)) {
            let failure = Failure::input(anyhow::anyhow!(
                "{} has no label that says what array it is of",
                path.display()
            ));
            return Err(failure
                .with_hint("--level makes an array of null members alone; it loses whatever is written"));
        }
        let started = ArrayWorld::start(&self.devices, &self.settings(), self.risks.options());
        match started.world {
            Ok(world) => Ok((world, Some(started.report))),
            Err(error) => {
                // The reason follows as the error.
                let devices = ExamineReport { refused: None, ..started.report };
                write_beside(&examined(&devices, output.terminal()));
                Err(not_started(&self.devices, error))
            }
        }
    }

    fn start_null(&self, level: LevelVariant) -> Result<ArrayWorld, Failure> {
        let settings = self.settings();
        let config = ArrayConfig {
            level,
            members: u16::try_from(self.devices.len()).unwrap_or(u16::MAX),
            strip_size: self.null.strip_size,
            block_size: BlockSize::B4096,
            member_size: ByteCount::ZERO,
            member_cache: settings.member_cache,
            cache: settings.cache,
            staging_size: settings.staging_size,
            resilience: Resilience {
                metadata: MetadataPolicy::None,
                scan_iodepth: settings.scan_iodepth,
                scan_bytes_per_sec: settings.scan_bytes_per_sec,
                ..Resilience::default()
            },
        };
        let name = ArrayName::new("null").expect("it is short");
        ArrayWorld::start_null(name, &self.devices, &config, &settings).map_err(Failure::input)
    }

    fn settings(&self) -> RunSettings {
        RunSettings {
            scan_iodepth: self.scan_iodepth,
            scan_bytes_per_sec: self.scan_rate,
            busy_poll: self.busy_poll.unwrap_or_else(default_busy_poll),
            parity_threads: self.parity_threads.into(),
            io_threads: self.io_threads.into(),
            member_timeout: self.member_timeout,
            history: self.history.place(),
            ..self.cache.settings()
        }
    }
}

impl CacheArgs {
    /// What decides whether an array may be started; the rest as it is without a word about it.
    pub(super) fn settings(&self) -> RunSettings {
        let is_kept = self.nvram.is_some();
        let default_policy = if is_kept { WritePolicy::WriteBack } else { WritePolicy::WriteThrough };
        RunSettings {
            cache: CacheConfig {
                size: self.cache_size,
                memory: if is_kept { CacheMemory::BatteryBacked } else { CacheMemory::Volatile },
                write_policy: self.write_policy.unwrap_or(default_policy),
                read_policy: self.read_policy.unwrap_or(SOFTWARE_CACHE.read_policy),
                io_policy: self.io_policy.unwrap_or(SOFTWARE_CACHE.io_policy),
                ..SOFTWARE_CACHE
            },
            member_cache: if self.disk_cache { MemberCache::On } else { MemberCache::Off },
            staging_size: STAGING_SIZE,
            scan_iodepth: SCAN_IODEPTH,
            scan_bytes_per_sec: None,
            nvram: self.nvram.clone(),
            accept_lost_cache: self.accept_lost_cache,
            busy_poll: NanoSpan::ZERO,
            parity_threads: 0,
            io_threads: 0,
            member_timeout: RunSettings::MEMBER_TIMEOUT,
            history: None,
        }
    }
}
