//! Commands to a served array, over its control socket.

use super::status_text::{array_status, undecided_lines, undecided_words};
use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, print_named};
use crate::patience::once_it_answers;
use crate::progress::Progress;
use crate::schema::Form;
use raidlab_control::{ControlClient, ServeError, control_socket, run_folder, served};
use raidlab_nbd::{NbdUri, Transport};
use raidlab_report::terminal::printable_lines;
use raidlab_runtime::{
    Answer, ArrayStatus, Command, Condition, DeviceStatus, ScanOutcome, ScanStatus, UndecidedStatus,
    is_nbd_uri, parse_scan_rate,
};
use raidlab_units::{ByteCount, NanoSpan, ParseUnitError, counted};
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often progress is asked for.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// An array.
#[derive(Debug, clap::Args)]
pub(crate) struct NameArgs {
    /// Name of the array, or the path of its control socket
    #[arg(value_name = "NAME")]
    name: String,
}

/// Arguments of `raidlab array status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Names of arrays, or paths of their control sockets [default: all that this user serves]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Wait so long for the named arrays to be served, for those that were started a moment ago
    #[arg(long, value_name = "TIME", requires = "names")]
    wait: Option<NanoSpan>,
}

/// Arguments of `raidlab array fail`.
#[derive(Debug, clap::Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    array: NameArgs,
    /// Number or path of the device
    #[arg(value_name = "DEVICE")]
    device: String,
}

/// A device that an array is to take.
#[derive(Debug, clap::Args)]
struct NewDeviceArgs {
    /// The new device: a block device, a file, the name of a file to be made, or an NBD URI
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Name the new device once more to destroy what it holds
    #[arg(long, value_name = "PATH")]
    destroy_data: Option<PathBuf>,
    /// The server of the NBD URI was restarted since the array gave a connection to it up, so that it does no more of what it was
    /// sent
    #[arg(long)]
    server_restarted: bool,
}

/// Arguments of `raidlab array replace`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    array: NameArgs,
    /// Number or path of the missing device
    #[arg(value_name = "DEVICE")]
    device: String,
    #[command(flatten)]
    new: NewDeviceArgs,
}

/// Arguments of `raidlab array add-spare`.
#[derive(Debug, clap::Args)]
pub(crate) struct AddSpareArgs {
    #[command(flatten)]
    array: NameArgs,
    #[command(flatten)]
    new: NewDeviceArgs,
}

/// Arguments of `raidlab array rebuild`.
#[derive(Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    #[command(flatten)]
    array: NameArgs,
    /// Most bytes of each member per second that a rebuild, resync, check or repair walks over; `none` for no bound,
    /// 0 to let them rest
    #[arg(long, value_name = "SIZE|none")]
    rate: Option<Rate>,
    /// Say so and come back at once, instead of waiting for the end
    #[arg(long)]
    no_wait: bool,
}

/// Arguments of `raidlab array check`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    array: NameArgs,
    /// Rewrite what is wrong by the evidence: checksums, most copies, or both parities. Nothing is written where that does not say
    /// what is wrong; such blocks are listed
    #[arg(long)]
    repair: bool,
    /// With `--repair`, make parity from the data and copies of the first where they disagree, whatever the evidence
    #[arg(long, requires = "repair")]
    trust_data: bool,
    /// End the check or repair that runs
    #[arg(long, conflicts_with_all = ["repair", "no_wait"])]
    stop: bool,
    /// Come back when it has begun, instead of waiting for the end
    #[arg(long)]
    no_wait: bool,
}

/// A bound of a rate, or none.
#[derive(Clone, Copy, Debug)]
struct Rate(Option<ByteCount>);

impl std::str::FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_scan_rate(text).map(Self)
    }
}

/// A line to an array that is served.
struct Line {
    client: ControlClient,
}

impl Line {
    fn open(name: &str) -> Result<Self, Failure> {
        Ok(Self { client: ControlClient::connect(&control_socket(name)).map_err(unreachable_array)? })
    }

    /// Asks for something to be done; gives what the array says to it.
    fn ask(&mut self, command: &Command) -> Result<String, Failure> {
        match self.client.ask(command).map_err(unreachable_array)? {
            Answer::Done { message } => Ok(message),
            Answer::Refused { reason } => {
                let error = anyhow::Error::msg(reason);
                // These three name a device, and are refused for what it is.
                let names_a_device = matches!(
                    command,
                    Command::Fail { .. } | Command::Replace { .. } | Command::AddSpare { .. }
                );
                Err(if names_a_device { Failure::input(error) } else { Failure::run(error) })
            }
            Answer::Status(_) => Err(Failure::run(anyhow::anyhow!("the array answered with its state"))),
        }
    }

    fn status(&mut self) -> Result<ArrayStatus, Failure> {
        match self.client.ask(&Command::Status).map_err(unreachable_array)? {
            Answer::Status(status) => Ok(*status),
            Answer::Refused { reason } => Err(Failure::run(anyhow::Error::msg(reason))),
            Answer::Done { message } => {
                Err(Failure::run(anyhow::anyhow!("the array gave no state but said: {message}")))
            }
        }
    }
}

/// Connects to an array. Whether anybody listens is known at once; one that is about to be served is waited for where that is wanted.
fn connect(socket: &Path, wait: Option<NanoSpan>) -> Result<ControlClient, ServeError> {
    let is_absent = |error: &ServeError| matches!(error, ServeError::NotServed { .. });
    let patience = Duration::from_nanos(wait.map_or(0, NanoSpan::get));
    once_it_answers(socket.display(), patience, is_absent, || ControlClient::connect(socket))
}

fn unreachable_array(error: ServeError) -> Failure {
    let is_absent = matches!(error, ServeError::NotServed { .. });
    if is_absent {
        Failure::input(error).with_hint("'raidlab array status' lists the arrays that are served")
    } else {
        Failure::run(error)
    }
}

/// Runs `status`.
pub(crate) fn status(args: &StatusArgs, output: &Output) -> Result<Exit, Failure> {
    let (sockets, are_named) = match args.names.as_slice() {
        [] => (served(), false),
        names => (names.iter().map(|name| control_socket(name)).collect(), true),
    };
    let mut states = Vec::new();
    for socket in sockets {
        match connect(&socket, args.wait) {
            Ok(client) => states.push(Line { client }.status()?),
            // What a killed array left behind is no array.
            Err(ServeError::NotServed { .. }) if !are_named => {}
            Err(error) => return Err(unreachable_array(error)),
        }
    }
    if output.is_json() {
        print_named("arrays", &states)?;
    } else if states.is_empty() {
        print(&format!("no array is served (control sockets are in {})", run_folder().display()))?;
    } else {
        let pages: Vec<String> =
            states.iter().map(|status| array_status(status, output.terminal())).collect();
        print(&pages.join("\n"))?;
    }
    let worst = states.iter().map(|status| exit_of(status.condition)).max_by_key(|exit| exit.code());
    Ok(worst.unwrap_or(Exit::Done))
}

/// What the exit code of `status` says of an array.
const fn exit_of(condition: Condition) -> Exit {
    match condition {
        Condition::Optimal => Exit::Done,
        Condition::Starting
        | Condition::Stopping
        | Condition::Resyncing
        | Condition::Undecided
        | Condition::Mismatched
        | Condition::Degraded
        | Condition::Rebuilding => Exit::ArrayAtRisk,
        Condition::DataLost | Condition::Failed => Exit::ArrayDamaged,
    }
}

/// Runs `fail`.
pub(crate) fn fail(args: &FailArgs, output: &Output) -> Result<Exit, Failure> {
    command(&args.array.name, &Command::Fail { device: args.device.clone() }, output)
}

/// Runs `replace`.
pub(crate) fn replace(args: &ReplaceArgs, output: &Output) -> Result<Exit, Failure> {
    let (with, destroy_data, server_restarted) = args.new.resolve()?;
    let device = args.device.clone();
    command(&args.array.name, &Command::Replace { device, with, destroy_data, server_restarted }, output)
}

/// Runs `add-spare`.
pub(crate) fn add_spare(args: &AddSpareArgs, output: &Output) -> Result<Exit, Failure> {
    let (path, destroy_data, server_restarted) = args.new.resolve()?;
    command(&args.array.name, &Command::AddSpare { path, destroy_data, server_restarted }, output)
}

/// Runs `reload`.
pub(crate) fn reload(args: &NameArgs, output: &Output) -> Result<Exit, Failure> {
    command(&args.name, &Command::Reload, output)
}

/// Runs `stop`.
pub(crate) fn stop(args: &NameArgs, output: &Output) -> Result<Exit, Failure> {
    command(&args.name, &Command::Stop, output)
}

/// Runs `rebuild`.
pub(crate) fn rebuild(args: &RebuildArgs, output: &Output) -> Result<Exit, Failure> {
    let mut line = Line::open(&args.array.name)?;
    if let Some(Rate(bytes_per_sec)) = args.rate {
        let said = line.ask(&Command::ScanRate { bytes_per_sec })?;
        if args.no_wait || bytes_per_sec == Some(ByteCount::ZERO) {
            return tell(&said, output);
        }
    }
    let status = line.status()?;
    match &status.scan {
        Some(scan) if scan.scan == "rebuild" && args.no_wait => {
            tell(&format!("a rebuild of device {} runs", scan.target.unwrap_or_default()), output)
        }
        Some(scan) if scan.scan == "rebuild" => follow(&mut line, "rebuild")?.tell(output),
        _ if args.rate.is_some() => tell("the rate is set; no rebuild runs", output),
        _ if matches!(
            status.condition,
            Condition::Optimal | Condition::Resyncing | Condition::Undecided | Condition::Mismatched
        ) =>
        {
            // One that has begun by itself may have ended before it was asked for.
            match status.last_scan.filter(|scan| scan.scan == "rebuild" && !args.no_wait) {
                Some(ended) => Watched::Ended(vec![ended]).tell(output),
                None => tell("nothing to rebuild: all members are in sync", output),
            }
        }
        _ => {
            let hint = if status.scan_bytes_per_sec_max == Some(0) {
                "rebuilds rest, since their rate is 0: '--rate none' lifts that"
            } else {
                "a rebuild begins by itself when a spare or a replacement is there: 'raidlab array add-spare' or 'replace'"
            };
            Err(Failure::run(anyhow::anyhow!("no device of {} is being rebuilt", status.name))
                .with_hint(hint))
        }
    }
}

/// Runs `check`.
pub(crate) fn check(args: &CheckArgs, output: &Output) -> Result<Exit, Failure> {
    let mut line = Line::open(&args.array.name)?;
    if args.stop {
        let said = line.ask(&Command::StopScan)?;
        return tell(&said, output);
    }
    let (asked, scan) = match (args.repair, args.trust_data) {
        (false, _) => (Command::Check, "check"),
        (true, false) => (Command::Repair { trust_data: false }, "repair"),
        (true, true) => (Command::Repair { trust_data: true }, "repair-trust-data"),
    };
    let said = line.ask(&asked)?;
    if args.no_wait {
        tell(&said, output)
    } else {
        follow(&mut line, scan)?.tell_with(&line.status()?.undecided, output)
    }
}

/// The form of what `recover` answers.
pub(crate) const RECOVERED: Form = Form::whole::<Recovered<'_>>();

/// What a recovery came to, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Recovered<'a> {
    recovered_blocks: u64,
    left: Vec<StillBad<'a>>,
}

/// How many blocks of a device are errors still, and why.
#[derive(Serialize, schemars::JsonSchema)]
struct StillBad<'a> {
    device: u16,
    path: Option<&'a str>,
    unreadable_blocks: u64,
    lost_blocks: u64,
}

/// Runs `recover`.
pub(crate) fn recover(args: &NameArgs, output: &Output) -> Result<Exit, Failure> {
    let mut line = Line::open(&args.name)?;
    line.ask(&Command::Recover)?;
    let Watched::Ended(scans) = follow(&mut line, "recovery")? else { return Ok(Exit::Interrupted) };
    let recovered_blocks: u64 = scans.iter().map(|scan| scan.recovered_rows).sum();
    let status = line.status()?;
    let is_bad = |device: &&DeviceStatus| device.bad_blocks > 0;
    let left: Vec<_> = status.devices.iter().filter(is_bad).map(StillBad::of).collect();
    let exit = if left.is_empty() { Exit::Done } else { Exit::RunFailed };
    if output.is_json() {
        print_answer(&Recovered { recovered_blocks, left })?;
    } else {
        print(&format!("{} came back", counted(recovered_blocks, "block")))?;
        left.iter().try_for_each(|device| print(&printable_lines(&device.words())))?;
    }
    Ok(exit)
}

impl<'a> StillBad<'a> {
    fn of(status: &'a DeviceStatus) -> Self {
        let DeviceStatus { device, path, bad_blocks, unreadable_blocks, .. } = status;
        Self {
            device: *device,
            path: path.as_deref(),
            unreadable_blocks: *unreadable_blocks,
            lost_blocks: bad_blocks - unreadable_blocks,
        }
    }

    fn words(&self) -> String {
        let Self { device, path, unreadable_blocks, lost_blocks } = self;
        let path = path.unwrap_or("gone");
        format!(
            "device {device} ({path}): {unreadable_blocks} blocks can't be read nor made up from the others; {lost_blocks} are lost \
             until they are written again, since a write to them failed or what stands there was given up"
        )
    }
}

/// Asks one thing and prints what the array says to it.
fn command(name: &str, command: &Command, output: &Output) -> Result<Exit, Failure> {
    let said = Line::open(name)?.ask(command)?;
    tell(&said, output)
}

fn tell(said: &str, output: &Output) -> Result<Exit, Failure> {
    if output.is_json() {
        print_named("message", said)?;
    } else {
        print(&printable_lines(said))?;
    }
    Ok(Exit::Done)
}

/// The form of what verbs that wait for scans answer.
pub(crate) const SCANNED: Form = Form::whole::<Scanned<'_>>();

/// Scans that have ended, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Scanned<'a> {
    scan: Option<&'a ScanStatus>,
    scans: &'a [ScanStatus],
    undecided: &'a [UndecidedStatus],
}

/// What came of watching scans.
enum Watched {
    /// Ctrl-C stopped the watching, not the scan.
    Interrupted,
    /// They have ended, one after the other.
    Ended(Vec<ScanStatus>),
}

/// Shows how far the latest scan of this kind is until it has ended; of rebuilds also those that come straight after it.
fn follow(line: &mut Line, kind: &str) -> Result<Watched, Failure> {
    let cancelled = cancel_flag("no more is shown; the array goes on with it");
    let mut ended = Vec::new();
    loop {
        match follow_one(line, kind, &cancelled)? {
            None => return Ok(Watched::Interrupted),
            Some(scan) => ended.push(scan),
        }
        let next = line.status()?.scan;
        if next.is_none_or(|next| kind != "rebuild" || next.scan != kind) {
            return Ok(Watched::Ended(ended));
        }
    }
}

/// Shows how far the latest scan of this kind is until it has ended; none if Ctrl-C stopped that.
fn follow_one(line: &mut Line, kind: &str, cancelled: &AtomicBool) -> Result<Option<ScanStatus>, Failure> {
    let mut progress = Progress::start();
    let mut status = line.status()?;
    let number = scans(&status).filter(|scan| scan.scan == kind).map(|scan| scan.number).max();
    let mut was_resting = false;
    let ended = loop {
        let found = scans(&status).find(|scan| Some(scan.number) == number);
        let Some(found) = found.filter(|scan| scan.end.is_none()) else { break found.cloned() };
        let rests = status.scan_bytes_per_sec_max == Some(0);
        if rests && !was_resting {
            let name = &status.name;
            progress.line(&format!(
                "the {kind} rests, since the rate of scans is 0: 'raidlab array rebuild {name} --rate none' lifts that"
            ));
        }
        was_resting = rests;
        let is_parked = status.parked_scan.as_ref().is_some_and(|parked| parked.number == found.number);
        let label = if is_parked { format!("{kind} (waits for a rebuild)") } else { kind.to_owned() };
        progress.show(&label, share(found));
        if cancelled.load(Ordering::Relaxed) {
            progress.end();
            return Ok(None);
        }
        std::thread::sleep(ASK_EVERY);
        status = line.status()?;
    };
    progress.end();
    ended.map(Some).ok_or_else(|| {
        let what = anyhow::anyhow!("how the {kind} ended is not known: another scan has ended since");
        Failure::run(what).with_hint("'raidlab array status' shows the latest events")
    })
}

impl Watched {
    /// Prints what the scans came to; one that was not through, or left something that disagrees or was not compared, is a failure.
    fn tell(self, output: &Output) -> Result<Exit, Failure> {
        self.tell_with(&[], output)
    }

    /// The same, with the blocks that a check or repair could not decide.
    fn tell_with(self, undecided: &[UndecidedStatus], output: &Output) -> Result<Exit, Failure> {
        let Self::Ended(scans) = self else { return Ok(Exit::Interrupted) };
        if output.is_json() {
            let scan = scans.last();
            print_answer(&Scanned { scan, scans: &scans, undecided })?;
        } else {
            scans.iter().try_for_each(|scan| print(&said_of(scan)))?;
            let many = scans.iter().map(|scan| scan.undecided_rows).sum();
            undecided_lines(undecided, many).iter().try_for_each(|line| print(line))?;
        }
        let is_well = |scan: &ScanStatus| {
            let left = scan.mismatched_rows.saturating_sub(scan.rewritten_rows);
            let open = left + scan.undecided_rows + scan.unreadable_rows + scan.incomplete_stripes;
            scan.end == Some(ScanOutcome::Through) && open == 0
        };
        Ok(if scans.iter().all(is_well) { Exit::Done } else { Exit::RunFailed })
    }
}

/// All scans that the array tells of.
fn scans(status: &ArrayStatus) -> impl Iterator<Item = &ScanStatus> {
    [&status.scan, &status.parked_scan, &status.last_scan, &status.last_recovery].into_iter().flatten()
}

/// What a scan that has ended came to.
fn said_of(ended: &ScanStatus) -> String {
    let (done, total) = (ended.done_stripes, ended.total_stripes);
    let how = match ended.end {
        Some(ScanOutcome::Stopped) => format!("stopped after {done} of {total} stripes"),
        Some(ScanOutcome::BrokenOff) => format!("broken off after {done} of {total} stripes"),
        Some(ScanOutcome::Through) | None => format!("done: {done} stripes"),
    };
    let lacking = match ended.incomplete_stripes {
        0 => String::new(),
        many => format!(", {many} not compared in full because a member is missing"),
    };
    let undecided = undecided_words(ended);
    format!(
        "{} {how}{lacking}, {} rows disagreed, {} rewritten, {} unreadable{undecided}",
        ended.scan, ended.mismatched_rows, ended.rewritten_rows, ended.unreadable_rows
    )
}

fn share(scan: &ScanStatus) -> f64 {
    scan.done_stripes as f64 / scan.total_stripes.max(1) as f64
}

/// The path or URI as the array's process finds it, whatever its working folder.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    if !is_nbd_uri(path) {
        return std::path::absolute(path).map_err(Failure::input);
    }
    // What is wrong with one that is none, the array says.
    let Some(Ok(mut uri)) = path.to_str().map(str::parse::<NbdUri>) else { return Ok(path.to_owned()) };
    if let Transport::Unix { path } = &mut uri.transport
        && !path.starts_with(&[0])
    {
        let socket = std::path::absolute(OsStr::from_bytes(path)).map_err(Failure::input)?;
        *path = socket.into_os_string().into_vec();
    }
    Ok(uri.to_string().into())
}

impl NewDeviceArgs {
    /// Where it is for the array's process, whether what it holds may be destroyed, which is only when it is named for that,
    /// and whether its server was restarted.
    fn resolve(&self) -> Result<(PathBuf, bool, bool), Failure> {
        let path = absolute(&self.path)?;
        if let Some(named) = self.destroy_data.as_ref().filter(|named| **named != self.path) {
            let (named, path) = (named.display(), self.path.display());
            let problem = anyhow::anyhow!("--destroy-data names {named}, but the new device is {path}");
            return Err(Failure::input(problem));
        }
        Ok((path, self.destroy_data.is_some(), self.server_restarted))
    }
}
