//! Operators' commands and answers: the messages of the control socket, and the data of `raidlab array status` and the
//! metrics.
//!
//! ```text
//! control socket, signals ──Command──► CommandQueue ── event loop ──► controller, devices
//!          ▲                              │ eventfd wakes the ring
//!          └────────────Answer────────────┘
//! ```
//! Any number of threads may hold an [`Operator`]; the array's own thread holds the one [`CommandQueue`] and answers
//! each command once. A slow command (a stop) is answered when it is done.
//!
//! Left out: who may send commands, which the socket controls.

use crate::events::EventStatus;
use raidlab_units::{ByteCount, ParseUnitError};
use raidlab_workload::toml_file;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// Version of the form of commands and answers.
pub const OPERATOR_SCHEMA: u32 = 1;

/// What an operator asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// How the array is.
    Status,
    /// Take a device out of the array.
    Fail {
        /// Its number, or its path.
        device: String,
    },
    /// Put another device in the place of one that is missing.
    Replace {
        /// Number or path of the missing device.
        device: String,
        /// The new one.
        with: PathBuf,
        /// Whether what the new one holds may be destroyed.
        #[serde(default)]
        destroy_data: bool,
        /// The server of an export was restarted since a connection to it was given up.
        #[serde(default)]
        server_restarted: bool,
    },
    /// Add a hot spare in a free slot.
    AddSpare {
        /// The new device.
        path: PathBuf,
        /// Whether what it holds may be destroyed.
        #[serde(default)]
        destroy_data: bool,
        /// The server of an export was restarted since a connection to it was given up.
        #[serde(default)]
        server_restarted: bool,
    },
    /// Bound the rate of background scans.
    #[serde(alias = "sweep-rate")]
    ScanRate {
        /// Most bytes per second that a background scan covers on each member; no bound if null. At 0 scans pause.
        #[serde(deserialize_with = "Option::deserialize")]
        bytes_per_sec: Option<ByteCount>,
    },
    /// Begin a check.
    Check,
    /// Begin a repair.
    Repair {
        /// Where nothing says what is wrong, make parity from the data and copies of the first.
        #[serde(default)]
        trust_data: bool,
    },
    /// Try all bad blocks once more.
    Recover,
    /// End a check, repair or recovery where it is.
    #[serde(alias = "stop-sweep")]
    StopScan,
    /// Read anew what may change while the array is served: the certificates of TLS.
    Reload,
    /// Stop the array cleanly; answered when it is stopped.
    Stop,
}

/// Why a line is no command.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It is not as a command is written.
    #[error("that is no command: {0}")]
    NoCommand(#[from] serde_json::Error),
    /// It is no object that names a command.
    #[error(
        "that is no command: a command is an object, such as {{\"command\":\"status\"}}; nothing was done"
    )]
    NoObject,
    /// It has a field that its command does not have. What was meant by it can't be known, so nothing is done.
    #[error("'{command}' has no field '{field}'{}; nothing was done", meant(*nearest, known))]
    UnknownField {
        /// The command.
        command: String,
        /// The field.
        field: String,
        /// The field that the name is most like.
        nearest: Option<&'static str>,
        /// All fields of the command.
        known: &'static [&'static str],
    },
}

/// What was meant, or what there is.
fn meant(nearest: Option<&str>, known: &[&str]) -> String {
    match (nearest, known) {
        (Some(name), _) => format!(": did you mean '{name}'"),
        (None, []) => ", nor any other".to_owned(),
        (None, known) => format!("; it has: {}", known.join(", ")),
    }
}

impl Command {
    /// Reads a command as the control socket takes it.
    ///
    /// # Errors
    /// [`CommandError`]: it is none, or has a field that it should not have.
    pub fn parse(line: &[u8]) -> Result<Self, CommandError> {
        // serde takes a list for a command, too, and leaves fields of a command that has none unread.
        let said: serde_json::Value = serde_json::from_slice(line)?;
        let fields = said.as_object().ok_or(CommandError::NoObject)?;
        let command =
            fields.get("command").and_then(serde_json::Value::as_str).ok_or(CommandError::NoObject)?;
        if let Some(known) = Self::fields(command) {
            let mut names = fields.keys().filter(|name| *name != "command");
            if let Some(field) = names.find(|name| !known.contains(&name.as_str())) {
                let (command, field) = (command.to_owned(), field.clone());
                let nearest = toml_file::meant(&field, known.iter().copied());
                return Err(CommandError::UnknownField { command, field, nearest, known });
            }
        }
        Ok(serde_json::from_slice(line)?)
    }

    /// The fields of a command, if it is one.
    fn fields(command: &str) -> Option<&'static [&'static str]> {
        Some(match command {
            "fail" => &["device"],
            "replace" => &["device", "with", "destroy_data", "server_restarted"],
            "add-spare" => &["path", "destroy_data", "server_restarted"],
            "scan-rate" | "sweep-rate" => &["bytes_per_sec"],
            "repair" => &["trust_data"],
            "status" | "check" | "recover" | "stop-scan" | "stop-sweep" | "reload" | "stop" => &[],
            _ => return None,
        })
    }
}

/// What an operator is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// How the array is.
    Status(Box<ArrayStatus>),
    /// It is done, or has begun.
    Done {
        /// In words.
        message: String,
    },
    /// It is not done.
    Refused {
        /// Why, and what would help.
        reason: String,
    },
}

/// How an array is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ArrayStatus {
    /// [`OPERATOR_SCHEMA`].
    pub schema: u32,
    /// Name of the array.
    pub name: String,
    /// Identity of the array.
    pub array_uuid: String,
    /// RAID level, as raidlab prints it.
    pub level: String,
    /// Condition of the whole.
    pub condition: Condition,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Length of a strip.
    pub strip_bytes: u64,
    /// Length of a block.
    pub block_bytes: u64,
    /// What is kept on the devices against crashes.
    pub metadata: String,
    /// Whether blocks have tags.
    pub integrity: bool,
    /// Where a range of a member that became zeros, tags and all, is found; none without tags.
    #[serde(default)]
    pub zeroed_ranges: Option<ZeroedRanges>,
    /// Generation of the state on the devices.
    pub generation: u64,
    /// Roles of the layout; devices from this number on are spares' slots.
    pub members: u16,
    /// Members that may still fail before data is lost, or more of it, whichever they are. Stripes whose parity is not known to
    /// agree, and bad blocks, are counted as what they are.
    pub failures_left: u16,
    /// Blocks of the volume that are errors until they are written again, because nothing is left to make them up from.
    #[serde(default)]
    pub lost_blocks: u64,
    /// Rows that the latest check found wrong by the evidence, and left as they are; a repair writes them anew.
    #[serde(default)]
    pub wrong_rows: u64,
    /// Devices, members first.
    pub devices: Vec<DeviceStatus>,
    /// The background scan that runs or pauses.
    #[serde(alias = "sweep")]
    pub scan: Option<ScanStatus>,
    /// The check, repair or resync that waits until the rebuild that runs is over.
    #[serde(alias = "parked_sweep")]
    pub parked_scan: Option<ScanStatus>,
    /// The latest background scan that has ended, other than a recovery.
    #[serde(alias = "last_sweep")]
    pub last_scan: Option<ScanStatus>,
    /// The latest recovery that has ended: one comes by itself behind a rebuild or a repair, and whoever waits for that is to see it.
    #[serde(default)]
    pub last_recovery: Option<ScanStatus>,
    /// Where the latest check or repair could not tell what is wrong; the first of many.
    #[serde(default)]
    pub undecided: Vec<UndecidedStatus>,
    /// Most bytes per second that background scans cover on each member; no bound if none. At 0 they pause.
    #[serde(alias = "sweep_bytes_per_sec_max")]
    pub scan_bytes_per_sec_max: Option<u64>,
    /// Stripes whose redundancy is not known to agree yet.
    #[serde(alias = "unsynced_stripes")]
    pub out_of_sync_stripes: u64,
    /// The cache.
    pub cache: CacheStatus,
    /// Work since the start.
    pub counters: CounterStatus,
    /// What happened since the start, oldest first; only the latest are kept.
    pub events: Vec<EventStatus>,
    /// The file that keeps the history of events, if one does.
    #[serde(default)]
    pub history: Option<String>,
    /// Time since the start in nanoseconds.
    pub uptime_ns: u64,
}

/// Parses an operator's bound on the rate of background scans: bytes per second such as `100MiB`, 0, or `none` for no bound.
///
/// # Errors
/// Whatever else it is.
pub fn parse_scan_rate(text: &str) -> Result<Option<ByteCount>, ParseUnitError> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

raidlab_units::named! {
    /// Where block checksums find a range of a member that became zeros, checksums and all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ZeroedRanges {
        /// Wherever something was written.
        Found = "found",
        /// Where something was written since the array was first served by a version that records it.
        FoundIfWrittenLately = "found-if-written-lately",
        /// Where something was written since the record of what was written was lost on all devices; elsewhere where the checksums of
        /// other blocks tell of a write.
        RecordLost = "record-lost",
        /// Nowhere: the devices do not record what was written.
        Believed = "believed",
    }
}

raidlab_units::named! {
    /// Condition of an array: the worst that is so.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Condition {
        /// Reading what a crash left; the host is not served yet.
        Starting = "starting",
        /// All members are in sync, and all redundancy agrees.
        Optimal = "optimal",
        /// All members are in sync, and the redundancy of some stripes is not known to agree yet.
        Resyncing = "resyncing",
        /// All members are in sync, and the latest check or repair found stripes of which it could not tell what is wrong.
        Undecided = "undecided",
        /// All members are in sync, and the latest check found rows that are wrong on one, which a repair would write anew.
        Mismatched = "mismatched",
        /// Members are missing, all data is there.
        Degraded = "degraded",
        /// Members are missing, and one is being rebuilt.
        Rebuilding = "rebuilding",
        /// Some blocks are lost until they are written again; the rest is served.
        DataLost = "data-lost",
        /// More members are missing than the level survives.
        Failed = "failed",
        /// Being stopped.
        Stopping = "stopping",
    }
}

/// How a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeviceStatus {
    /// Its number in the array.
    pub device: u16,
    /// Where it is; nothing for an empty slot.
    pub path: Option<String>,
    /// It is a file that was removed or renamed since the array has it: the next start won't find it there, and what was removed is gone
    /// when the array is stopped.
    #[serde(default)]
    pub has_lost_its_name: bool,
    /// Which physical device it is.
    pub device_uuid: Option<String>,
    /// What it is to the array.
    pub state: DeviceCondition,
    /// The member of the layout that it plays; of one that is missing, played until another does.
    pub role: Option<u16>,
    /// While it is rebuilt: bytes of its strips that it holds, and what it is to hold.
    pub rebuilt_bytes: Option<u64>,
    /// Length of its strips.
    pub data_bytes: u64,
    /// Reads, writes and flushes that failed since the start.
    pub errors: u64,
    /// Blocks on its bad-block list.
    pub bad_blocks: u64,
    /// Those of them that are there because they could not be read; the others are lost until they are written again.
    #[serde(default)]
    pub unreadable_blocks: u64,
}

raidlab_units::named! {
    /// What a device is to the array.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum DeviceCondition {
        /// Holds what its role should hold.
        InSync = "in-sync",
        /// Is being given it.
        Rebuilding = "rebuilding",
        /// Waits to take the place of a missing member.
        Spare = "spare",
        /// Gone or failed, and no other plays its role yet.
        Missing = "missing",
        /// A free slot: nothing was ever put in, or what was there has left and the array does without it.
        Empty = "empty",
        /// Gone, and data with it, unless it comes back.
        Lost = "lost",
    }
}

/// A background scan over all stripes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ScanStatus {
    /// Which it is: background scans are numbered from 1 on since the start of the array.
    pub number: u32,
    /// `rebuild`, `resync`, `check`, `repair`, `repair-trust-data` or `recovery`.
    #[serde(alias = "sweep")]
    pub scan: String,
    /// The device that is rebuilt.
    pub target: Option<u16>,
    /// Stripes done.
    pub done_stripes: u64,
    /// Stripes in all.
    pub total_stripes: u64,
    /// Bytes of each member walked over per second since it began or its bound was set.
    pub bytes_per_sec: Option<f64>,
    /// Time to the end at this rate; none while background scans pause.
    pub left_ns: Option<u64>,
    /// Rows that were found wrong, and rows of redundancy that disagreed where nothing says which side is wrong.
    pub mismatched_rows: u64,
    /// Rows of stripes of a check or repair in which nothing says what is wrong; a repair has left them as they are.
    #[serde(default)]
    pub undecided_rows: u64,
    /// Rows rewritten.
    pub rewritten_rows: u64,
    /// Rows that could not be read.
    pub unreadable_rows: u64,
    /// Bad blocks that came back by a recovery.
    #[serde(default)]
    pub recovered_rows: u64,
    /// Stripes of a check or repair of which a member was missing: not compared, or not in full.
    pub incomplete_stripes: u64,
    /// How it ended; none until it has.
    pub end: Option<ScanOutcome>,
}

/// Blocks of which copies, or parity and data, disagree, and nothing says which is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UndecidedStatus {
    /// Where the first of them begins in the volume.
    pub offset_bytes: u64,
    /// How long they are.
    pub bytes: u64,
    /// As many bytes are in question at the same place of each of so many strips, one behind the other.
    pub strips: u16,
}

/// How a background scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScanOutcome {
    /// It went over all that it was for.
    Through,
    /// An operator has stopped it.
    Stopped,
    /// Its device left the array, or more members are lost than the level survives.
    BrokenOff,
}

/// The cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CacheStatus {
    /// Its memory.
    pub size_bytes: u64,
    /// Acknowledged and not on the members yet.
    pub dirty_bytes: u64,
    /// The policy asked for.
    pub write_policy: String,
    /// Whether writes are acknowledged from the cache now.
    pub writes_back: bool,
    /// The file that keeps it, if one does.
    #[serde(alias = "kept_memory")]
    pub nvram: Option<String>,
}

/// Work since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CounterStatus {
    /// Host reads that ended.
    pub host_reads: u64,
    /// Host writes that ended.
    pub host_writes: u64,
    /// Host flushes that ended.
    pub host_flushes: u64,
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_write_bytes: u64,
    /// Host requests that failed.
    pub host_errors: u64,
    /// Member reads.
    pub member_reads: u64,
    /// Member writes.
    pub member_writes: u64,
    /// Member flushes.
    pub member_flushes: u64,
    /// Bytes that host reads found in the cache.
    pub cache_hit_bytes: u64,
    /// Bytes of parity or recovered data computed.
    pub parity_bytes: u64,
    /// Writes of metadata.
    pub metadata_writes: u64,
    /// Blocks that did not agree with their checksums; 0 without integrity. What a check compares is in
    /// [`ScanStatus::mismatched_rows`].
    pub mismatched_blocks: u64,
}

/// The array is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the array has stopped")]
pub struct ArrayStopped;

/// A command on its way, with the place for its answer.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub command: Command,
    answer: mpsc::Sender<Answer>,
}

impl Asked {
    /// Answers the command. Whoever asked may have gone away.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// Asks an array that is served on another thread.
#[derive(Clone, Debug)]
pub struct Operator {
    commands: mpsc::Sender<Asked>,
    wake: Arc<OwnedFd>,
    reload: Option<Reload>,
}

/// What [`Command::Reload`] does: says in words what was read, or why not.
#[derive(Clone)]
struct Reload(Arc<dyn Fn() -> Result<String, String> + Send + Sync>);

impl std::fmt::Debug for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reload").finish_non_exhaustive()
    }
}

/// The array's end of the line.
#[derive(Debug)]
pub struct CommandQueue {
    commands: mpsc::Receiver<Asked>,
    wake: Arc<OwnedFd>,
}

/// Makes a line between operators and an array.
///
/// # Errors
/// What the system said when it refused a descriptor.
pub fn operator_line() -> io::Result<(Operator, CommandQueue)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = mpsc::channel();
    let operator = Operator { commands: sender, wake: Arc::clone(&wake), reload: None };
    Ok((operator, CommandQueue { commands: receiver, wake }))
}

/// The answer of an array that nothing was given to read anew.
pub(crate) fn nothing_to_reload() -> String {
    "there is nothing to read anew: certificates are what can be, and it is served without TLS".to_owned()
}

impl Operator {
    /// Has [`Command::Reload`] do `reload`. It is done by the thread that asks, so that files are not waited for by the
    /// array's.
    #[must_use]
    pub fn with_reload(self, reload: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self { reload: Some(Reload(Arc::new(reload))), ..self }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`ArrayStopped`] when the array ended before it answered.
    pub fn ask(&self, command: Command) -> Result<Answer, ArrayStopped> {
        if let (Command::Reload, Some(Reload(reload))) = (&command, &self.reload) {
            let done = reload().map(|message| Answer::Done { message });
            return Ok(done.unwrap_or_else(|reason| Answer::Refused { reason }));
        }
        let (answer, answers) = mpsc::channel();
        self.commands.send(Asked { command, answer }).map_err(|_| ArrayStopped)?;
        self.wake();
        answers.recv().map_err(|_| ArrayStopped)
    }

    /// Wakes the event loop. A counter that is full has woken it already.
    fn wake(&self) {
        match rustix::io::write(&*self.wake, &1_u64.to_ne_bytes()) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => tracing::error!(%error, "the array could not be woken"),
        }
    }
}

impl CommandQueue {
    /// Readable when there may be commands; reading it empties it.
    pub fn wake_descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the next command, if there is one.
    pub fn poll_command(&self) -> Option<Asked> {
        self.commands.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_command_wakes_the_array_and_is_answered() {
        let (operator, queue) = operator_line().expect("descriptors can be had");
        let asked = std::thread::spawn(move || operator.ask(Command::Check));
        let mut counter = [0; 8];
        while rustix::io::read(queue.wake_descriptor(), &mut counter) == Err(Errno::AGAIN) {
            std::thread::yield_now();
        }
        assert_eq!(u64::from_ne_bytes(counter), 1);
        let got = queue.poll_command().expect("what woke the array is there");
        assert_eq!(got.command, Command::Check);
        let done = Answer::Done { message: "a check has begun".into() };
        got.answer(done.clone());
        assert_eq!(asked.join().expect("the thread ends"), Ok(done));
    }

    #[test]
    fn an_array_that_ends_leaves_nobody_waiting() {
        let (operator, queue) = operator_line().expect("descriptors can be had");
        let waiting = operator.clone();
        let asked = std::thread::spawn(move || waiting.ask(Command::Stop));
        let got = loop {
            if let Some(got) = queue.poll_command() {
                break got;
            }
            std::thread::yield_now();
        };
        drop((got, queue));
        assert_eq!(asked.join().expect("the thread ends"), Err(ArrayStopped));
        assert_eq!(operator.ask(Command::Status), Err(ArrayStopped));
    }

    #[test]
    fn what_is_read_anew_is_read_by_who_asks() {
        let (operator, _queue) = operator_line().expect("descriptors can be had");
        let fails = operator.clone().with_reload(|| Err("no file".to_owned()));
        let reads = operator.with_reload(|| Ok("read".to_owned()));
        assert_eq!(reads.ask(Command::Reload), Ok(Answer::Done { message: "read".into() }));
        assert_eq!(fails.ask(Command::Reload), Ok(Answer::Refused { reason: "no file".into() }));
    }

    #[test]
    fn commands_are_read_as_written_and_unknown_ones_are_not() {
        let replace = Command::Replace {
            device: "3".into(),
            with: "/dev/sdz".into(),
            destroy_data: false,
            server_restarted: false,
        };
        let text = r#"{"command":"replace","device":"3","with":"/dev/sdz"}"#;
        assert_eq!(Command::parse(text.as_bytes()).expect("it is a command"), replace);
        for bad in [
            r#"{"command":"explode"}"#,
            r#"{"command":"fail","device":"1","device":"2"}"#,
            r#"{"command":"scan-rate"}"#,
            "",
        ] {
            assert!(matches!(Command::parse(bad.as_bytes()), Err(CommandError::NoCommand(_))), "{bad}");
        }
        for other in [
            "[]",
            r#"["stop"]"#,
            r#" ["repair",true]"#,
            "7",
            "null",
            r#""stop""#,
            "{}",
            r#"{"command":["stop"]}"#,
        ] {
            assert!(matches!(Command::parse(other.as_bytes()), Err(CommandError::NoObject)), "{other}");
        }
    }

    /// One of each; a new one fails to compile here until it is among them.
    fn all_commands() -> Vec<Command> {
        match Command::Stop {
            Command::Status
            | Command::Fail { .. }
            | Command::Replace { .. }
            | Command::AddSpare { .. }
            | Command::ScanRate { .. }
            | Command::Check
            | Command::Repair { .. }
            | Command::Recover
            | Command::StopScan
            | Command::Reload
            | Command::Stop => {}
        }
        let (device, path, (destroy_data, server_restarted)) =
            ("1".to_owned(), PathBuf::from("p"), (false, true));
        vec![
            Command::Status,
            Command::Fail { device: device.clone() },
            Command::Replace { device, with: path.clone(), destroy_data, server_restarted },
            Command::AddSpare { path, destroy_data, server_restarted },
            Command::ScanRate { bytes_per_sec: None },
            Command::Check,
            Command::Repair { trust_data: true },
            Command::Recover,
            Command::StopScan,
            Command::Reload,
            Command::Stop,
        ]
    }

    /// Defect: a command with a field that it does not have was carried out, whatever that field was to say.
    #[test]
    fn a_field_that_a_command_does_not_have_is_named_and_nothing_is_done() {
        for command in all_commands() {
            let mut written = serde_json::to_value(&command).expect("it can be written down");
            assert_eq!(Command::parse(written.to_string().as_bytes()).expect("it is one"), command);
            let fields = written.as_object_mut().expect("it is an object");
            let name = fields["command"].as_str().expect("it has a name").to_owned();
            let own: BTreeSet<&str> =
                fields.keys().map(String::as_str).filter(|it| *it != "command").collect();
            let known = Command::fields(&name).expect("it is a command");
            assert_eq!(known.iter().copied().collect::<BTreeSet<_>>(), own, "{name}");
            fields.insert("dry_run".to_owned(), true.into());
            let refused = Command::parse(written.to_string().as_bytes()).expect_err("it has no such field");
            let text = refused.to_string();
            assert!(text.starts_with(&format!("'{name}' has no field 'dry_run'")), "{text}");
            assert!(known.iter().all(|field| text.contains(field)), "{text}");
        }
        let misspelt = br#"{"command":"replace","device":"1","with":"x","destory_data":true}"#;
        let text = Command::parse(misspelt).expect_err("it is misspelt").to_string();
        assert!(text.contains("'destory_data': did you mean 'destroy_data'"), "{text}");
    }
}
