//! Runs over a network: TCP from this process to another that serves, with the machine watched on both sides.

use crate::machine::MachineWatch;
use raidlab_load::net::{NetClient, NetError, NetEvent, NetOrder, NetSource, serve};
use raidlab_workload::{MachineLoad, RunResult};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A connection to a server of network tests, and what is sent to it.
#[derive(Debug)]
pub struct NetBench {
    client: NetClient,
    peer: String,
    source: NetSource,
    path: Option<PathBuf>,
}

impl NetBench {
    /// Connects to `peer`, a host and a port, to send from memory or from the file at `path`.
    ///
    /// # Errors
    /// [`NetError`] if there is no such server or no such file.
    pub fn connect(peer: &str, path: Option<&Path>) -> Result<Self, NetError> {
        let source = path.map_or(Ok(NetSource::Memory), NetSource::file)?;
        let client = NetClient::connect(peer)?;
        Ok(Self { client, peer: peer.to_owned(), source, path: path.map(Path::to_owned) })
    }

    /// Does a test. `tell` gets the share of it that is over.
    ///
    /// # Errors
    /// [`NetError`]; the connection is of no use after one.
    pub fn run(
        &mut self,
        order: &NetOrder,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<RunResult, NetError> {
        let watch = || watch(self.path.as_deref());
        let ran = self.client.run(order, (&self.source, self.path.as_ref()), &watch, cancel, tell)?;
        let mut result = ran.facts.into_result(format!("tcp://{}", self.peer), ran.wall);
        result.settings.insert("ramp".into(), format!("{} ms", order.ramp_ms));
        if let Some(bytes) = order.socket_buffer {
            result.settings.insert("socket buffer asked for".into(), format!("{bytes} bytes"));
        }
        Ok(result)
    }
}

/// Serves tests to clients until `cancel` is set.
///
/// # Errors
/// [`NetError`] if no connection can be taken at all.
pub fn serve_network(
    listener: &TcpListener,
    cancel: &AtomicBool,
    tell: &(dyn Fn(NetEvent<'_>) + Sync),
) -> Result<(), NetError> {
    serve(listener, &|| watch(None), cancel, tell)
}

fn watch(path: Option<&Path>) -> Box<dyn FnOnce() -> MachineLoad> {
    let watch = path.map_or_else(MachineWatch::start_machine, MachineWatch::start);
    Box::new(move || watch.end())
}
