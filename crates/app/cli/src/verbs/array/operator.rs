//! Operation of a served array: its control socket, its metrics, and the messages about them at the start.

use crate::failure::Failure;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use raidlab_control::{ControlServer, MetricsServer, ServeError, control_socket, notify_ready};
use raidlab_runtime::{Operator, UnixSocketError};
use raidlab_units::ByteCount;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where operators reach a served array.
#[derive(Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// Control socket [default: named after the array, in this user's run folder]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve Prometheus metrics on this loopback address, such as 127.0.0.1:9178
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

/// What serves operators until it is dropped.
pub(crate) struct OperatorServers {
    control: ControlServer,
    metrics: Option<MetricsServer>,
}

impl OperatorArgs {
    /// Serves the operators of the array `name`.
    pub(crate) fn start(&self, name: &str, operator: Operator) -> Result<OperatorServers, Failure> {
        let path = self.control.clone().unwrap_or_else(|| control_socket(name));
        let control = ControlServer::start(&path, operator.clone()).map_err(|error| match error {
            ServeError::Socket(UnixSocketError::NoSocket { .. }) => Failure::input(error),
            other => Failure::run(other),
        })?;
        let metrics = self.metrics.map(|address| MetricsServer::start(address, operator)).transpose();
        Ok(OperatorServers { control, metrics: metrics.map_err(Failure::input)? })
    }
}

impl OperatorServers {
    /// Returns what is to be said when the array `name` is served.
    pub(crate) fn announcement(&self, name: &str, volume: ByteCount, output: &Output) -> Announcement {
        Announcement {
            name: name.to_owned(),
            volume,
            control: self.control.path().to_owned(),
            metrics: self.metrics.as_ref().map(|metrics| metrics.address().to_string()),
            json: output.is_json(),
        }
    }
}

/// What is said when an array is served.
pub(crate) struct Announcement {
    name: String,
    volume: ByteCount,
    control: PathBuf,
    metrics: Option<String>,
    json: bool,
}

impl Announcement {
    /// Says where it is served, to whoever reads it and to the service manager. It is served though nobody reads that.
    pub(crate) fn say(&self, nbd: &[String], block_device: Option<&Path>) {
        let Self { name, volume, control, metrics, json } = self;
        let device = block_device.map(|path| path.display().to_string());
        let served = nbd.iter().chain(&device).cloned().collect::<Vec<_>>().join(" and ");
        let told = if *json {
            let volume_bytes = volume.get();
            print_answer(&Served { name, volume_bytes, nbd, block_device: device, control, metrics })
        } else {
            let metrics = metrics
                .as_ref()
                .map_or(String::new(), |address| format!(", metrics at http://{address}/metrics"));
            let control = control.display();
            print(&format!("array {name}: {volume} served on {served}, control socket {control}{metrics}"))
        };
        if let Err(failure) = told {
            let why: Vec<_> = failure.lines().into_iter().map(|(_, text)| text).collect();
            tracing::warn!("nobody is told that the array is served: {}", why.join(": "));
        }
        notify_ready(&format!("{name}: {volume} served on {served}"));
    }
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Served<'_>>();

/// Where a served array is, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Served<'a> {
    name: &'a str,
    volume_bytes: u64,
    nbd: &'a [String],
    block_device: Option<String>,
    control: &'a Path,
    metrics: &'a Option<String>,
}
