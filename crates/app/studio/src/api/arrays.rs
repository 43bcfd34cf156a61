//! Arrays: created and served as jobs, operated over their control sockets.
//!
//! Only arrays in this user's run folder are visible, as to `raidlab array status`. A device that replaces another or
//! becomes a spare is a file of the studio's folder; its data is destroyed only if it is named again.

use super::input::{Named, Order, one_of, size, text};
use super::live::is_named;
use super::{DryRun, SCHEMA, blocking, ok, start};
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::job::JobKind;
use axum::extract::State;
use axum::response::Response;
use raidlab_control::{ControlClient, ServeError, control_socket, served};
use raidlab_runtime::{Answer, ArrayStatus, Command, parse_scan_rate};
use raidlab_units::ByteCount;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Members at most.
const DEVICES_MAX: usize = 64;
/// Spares at most.
const SPARES_MAX: usize = 8;
/// When writes are acknowledged.
const WRITE_POLICIES: [&str; 3] = ["write-through", "write-back", "write-back-bad-battery"];
/// What is kept against crashes.
const METADATA: [&str; 4] = ["log", "bitmap", "resync", "none"];

/// An array to be made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateOrder {
    name: String,
    level: String,
    members: Vec<String>,
    #[serde(default)]
    spares: Vec<String>,
    member_size: Option<String>,
    strip_size: Option<String>,
    metadata: Option<String>,
    #[serde(default)]
    integrity: bool,
    #[serde(default)]
    zero: bool,
    #[serde(default)]
    destroy_data: Vec<String>,
}

/// An array to be served.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServeOrder {
    devices: Vec<String>,
    socket: String,
    write_policy: Option<String>,
    cache_size: Option<String>,
    scan_rate: Option<String>,
}

/// What an array is asked.
#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ArrayOrder {
    Fail {
        device: String,
    },
    Replace {
        device: String,
        with: String,
        destroy_data: Option<String>,
    },
    AddSpare {
        path: String,
        destroy_data: Option<String>,
    },
    /// Bounds the rate of rebuilds; `none` for no bound.
    Rebuild {
        rate: String,
    },
    Check {},
    Repair {},
    Recover {},
    StopCheck {},
    Stop {},
}

#[derive(Serialize)]
struct ArrayList {
    schema: u32,
    arrays: Vec<ArrayStatus>,
}

/// What an array has done for a command, and how that is written on the command line.
#[derive(Serialize)]
struct Done {
    message: String,
    command: String,
}

pub(super) async fn list() -> Result<Response, Fault> {
    blocking(|| {
        let arrays = served().iter().filter_map(|path| status(path)).collect();
        Ok(ok(&ArrayList { schema: SCHEMA, arrays }))
    })
    .await
}

/// How an array is; nothing where a killed one has left its socket.
fn status(path: &std::path::Path) -> Option<ArrayStatus> {
    match ControlClient::connect(path).and_then(|mut client| client.ask(&Command::Status)) {
        Ok(Answer::Status(status)) => Some(*status),
        _ => None,
    }
}

pub(super) async fn create(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<CreateOrder>,
) -> Result<Response, Fault> {
    array_name(&order.name)?;
    devices(&studio, "members", &order.members)?;
    if order.spares.len() > SPARES_MAX {
        let what = format!("{} spares are too many", order.spares.len());
        return Err(Fault::input(what, "spares", format!("name at most {SPARES_MAX}")));
    }
    order.spares.iter().try_for_each(|name| studio.folder.check("spares", name))?;
    for name in &order.destroy_data {
        if !order.members.contains(name) && !order.spares.contains(name) {
            let what = format!("'{name}' is neither a member nor a spare");
            return Err(Fault::input(what, "destroy_data", "name only what may be written over"));
        }
    }
    text("level", Some(&order.level))?;
    one_of("metadata", order.metadata.as_ref(), &METADATA)?;
    size("member_size", order.member_size.as_ref())?;
    size("strip_size", order.strip_size.as_ref())?;
    let mut values = vec![order.name.clone()];
    values.extend(order.members);
    let mut command = CommandLine::new(&["array", "create"])
        .values(&values)
        .option("--level", Some(order.level))
        .option("--member-size", order.member_size)
        .option("--strip-size", order.strip_size)
        .option("--metadata", order.metadata)
        .flag("--integrity", order.integrity)
        .flag("--zero", order.zero);
    for spare in order.spares {
        command = command.option("--spare", Some(spare));
    }
    for name in order.destroy_data {
        command = command.option("--destroy-data", Some(name));
    }
    start(&studio, JobKind::ArrayCreate, order.name, command, dry_run)
}

pub(super) async fn serve(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<ServeOrder>,
) -> Result<Response, Fault> {
    devices(&studio, "devices", &order.devices)?;
    studio.folder.check("socket", &order.socket)?;
    one_of("write_policy", order.write_policy.as_ref(), &WRITE_POLICIES)?;
    size("cache_size", order.cache_size.as_ref())?;
    size("scan_rate", order.scan_rate.as_ref())?;
    let subject = order.devices.join(", ");
    let command = CommandLine::new(&["array", "serve"])
        .values(&order.devices)
        .option("--socket", Some(order.socket))
        .option("--write-policy", order.write_policy)
        .option("--cache-size", order.cache_size)
        .option("--scan-rate", order.scan_rate);
    start(&studio, JobKind::ArrayServe, subject, command, dry_run)
}

pub(super) async fn command(
    State(studio): State<Arc<StudioState>>,
    Named(name): Named,
    Order { order, dry_run }: Order<ArrayOrder>,
) -> Result<Response, Fault> {
    array_name(&name)?;
    let (asked, line) = order.resolve(&studio, &name)?;
    let command = line.to_string();
    if dry_run {
        return Ok(ok(&DryRun { command }));
    }
    blocking(move || {
        let mut client = ControlClient::connect(&control_socket(&name)).map_err(unreachable_array)?;
        match client.ask(&asked).map_err(unreachable_array)? {
            Answer::Done { message } => Ok(ok(&Done { message, command })),
            Answer::Refused { reason } => {
                let remedy = "mend what it says, or look at the array's state";
                Err(Fault::conflict(reason, format!("array {name}"), remedy))
            }
            Answer::Status(_) => Err(Fault::internal("the array answered with its state", name)),
        }
    })
    .await
}

impl ArrayOrder {
    /// What is asked, and how it is written on the command line.
    fn resolve(self, studio: &StudioState, name: &str) -> Result<(Command, CommandLine), Fault> {
        let line = |verb: &str, values: &[&String]| {
            let values: Vec<String> = values.iter().map(|&value| value.clone()).collect();
            CommandLine::new(&["array", verb, name]).values(&values)
        };
        let asked = match self {
            Self::Fail { device } => {
                text("device", Some(&device))?;
                let line = line("fail", &[&device]);
                (Command::Fail { device }, line)
            }
            Self::Replace { device, with, destroy_data } => {
                text("device", Some(&device))?;
                new_device(studio, "with", &with, destroy_data.as_ref())?;
                let line = line("replace", &[&device, &with]).option("--destroy-data", destroy_data.as_ref());
                let with = studio.folder.path().join(with);
                let destroy_data = destroy_data.is_some();
                (Command::Replace { device, with, destroy_data, server_restarted: false }, line)
            }
            Self::AddSpare { path, destroy_data } => {
                new_device(studio, "path", &path, destroy_data.as_ref())?;
                let line = line("add-spare", &[&path]).option("--destroy-data", destroy_data.as_ref());
                let path = studio.folder.path().join(path);
                let destroy_data = destroy_data.is_some();
                (Command::AddSpare { path, destroy_data, server_restarted: false }, line)
            }
            Self::Rebuild { rate } => {
                let line = line("rebuild", &[]).option("--rate", Some(&rate)).flag("--no-wait", true);
                (Command::ScanRate { bytes_per_sec: scan_rate(&rate)? }, line)
            }
            Self::Check {} => (Command::Check, line("check", &[]).flag("--no-wait", true)),
            Self::Repair {} => {
                let line = line("check", &[]).flag("--repair", true).flag("--no-wait", true);
                (Command::Repair { trust_data: false }, line)
            }
            Self::Recover {} => (Command::Recover, line("recover", &[])),
            Self::StopCheck {} => (Command::StopScan, line("check", &[]).flag("--stop", true)),
            Self::Stop {} => (Command::Stop, line("stop", &[])),
        };
        Ok(asked)
    }
}

fn new_device(
    studio: &StudioState,
    field: &str,
    name: &str,
    destroy_data: Option<&String>,
) -> Result<(), Fault> {
    studio.folder.check(field, name)?;
    is_named("destroy_data", destroy_data, name)
}

fn scan_rate(text: &str) -> Result<Option<ByteCount>, Fault> {
    let remedy = "write it as 100MiB, 'none' for no bound, or 0 to let scans rest";
    parse_scan_rate(text).map_err(|error| Fault::input(error.to_string(), "rate", remedy))
}

fn devices(studio: &StudioState, field: &str, names: &[String]) -> Result<(), Fault> {
    if names.is_empty() || names.len() > DEVICES_MAX {
        let what = format!("there are 1 to {DEVICES_MAX} of them");
        return Err(Fault::input(what, field, "name files in the studio's folder"));
    }
    names.iter().try_for_each(|name| studio.folder.check(field, name))
}

/// Checks a name of an array, which names its control socket.
pub(super) fn array_name(name: &str) -> Result<(), Fault> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-+@".contains(it);
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    let what = "an array's name has 1 to 64 letters, digits and . _ - + @, and begins with no . or -";
    Err(Fault::input(what, "name", "take another name"))
}

fn unreachable_array(error: ServeError) -> Fault {
    match error {
        ServeError::NotServed { .. } => Fault::absent(error.to_string(), "array", "take one of /api/arrays"),
        other => Fault::internal(other.to_string(), "array"),
    }
}
