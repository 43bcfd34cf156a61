//! Runs over a network: TCP from this process to a serving one, with both machines observed.

use super::together::{Share, Shared, merged_programs, run_together};
use raidlab_engines::Go;
use raidlab_engines::net::{NetClient, NetError, NetEvent, NetOrder, NetSource, serve};
use raidlab_hosts::{Hosts, HostsError, Refusal};
use raidlab_machine::MachineWatch;
use raidlab_units::NanoSpan;
use raidlab_workload::{MachineLoad, Measurement, NetworkFacts, RunResult};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Why a network can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The test failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Several hosts did not make it together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

impl Shared for NetworkError {
    fn refusal(&self) -> Refusal {
        Refusal::Failed(self.to_string())
    }
}

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

    /// Does a test, on all `hosts` at once, each with its own peer. `tell` gets the share of it that is over.
    ///
    /// # Errors
    /// [`NetworkError`]; the connection is of no use after one.
    pub fn run(
        &mut self,
        order: &NetOrder,
        hosts: &mut Hosts,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<RunResult, NetworkError> {
        let own = |begin: &mut dyn FnMut() -> Go, watch: &mut dyn FnMut()| {
            let mut tell = |fraction: f64| {
                watch();
                tell(fraction);
            };
            self.run_here(order, begin, cancel, &mut tell)
        };
        run_together(hosts, cancel, own, |shares, crew| {
            let wall = NanoSpan(shares.iter().map(|share| share.result.cost.wall_ns).max().unwrap_or(0));
            merged_programs(shares, crew, |result, ranks| {
                let all = ranks.into_iter().filter_map(|rank| rank.network).collect();
                if let Some(facts) = NetworkFacts::together(all) {
                    let (hosts, settings) = (result.hosts.take(), std::mem::take(&mut result.settings));
                    let together = facts.into_result(result.target.clone(), wall);
                    *result = RunResult { hosts, settings, machine: None, ..together };
                }
            })
        })
    }

    fn run_here(
        &mut self,
        order: &NetOrder,
        begin: &mut dyn FnMut() -> Go,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<Share, NetworkError> {
        let watch = || watch(self.path.as_deref());
        let source = (&self.source, self.path.as_ref());
        let ran = self.client.run(order, source, (&watch, begin), cancel, tell)?;
        let (started_ns, wall_ns) = (ran.late.get(), ran.flowed.get());
        let mut result = ran.facts.into_result(format!("tcp://{}", self.peer), ran.wall);
        result.settings.insert("ramp".into(), format!("{} ms", order.ramp_ms));
        if let Some(bytes) = order.socket_buffer {
            result.settings.insert("socket buffer asked for".into(), format!("{bytes} bytes"));
        }
        Ok(Share { result, measurement: Measurement::default(), started_ns, wall_ns })
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
