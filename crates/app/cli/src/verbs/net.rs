//! `raidlab net`: measures a network, from memory or a file to memory, over TCP.
//!
//! One side serves (`net serve`), the other is the client (`net HOST:PORT`). `--loopback` starts the server as a
//! separate process, which ends with this one: it serves until its standard input ends.

use super::keep::{Keeper, Planned};
use super::loads::ReportArgs;
use super::report::write_report;
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, agree, only_alone, text_here};
use crate::inputs::Numbers;
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, remark};
use crate::progress::Progress;
use crate::whole_file::check_writable;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use raidlab_engines::net::{NetError, NetEvent, NetOrder};
use raidlab_hosts::{Hosts, Refusal, is_launcher_variable};
use raidlab_machine::Environment;
use raidlab_measure::network::{NetBench, NetworkError, serve_network};
use raidlab_report::StudyReport;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{NetDirection, RunResult};
use raidlab_worlds::sweep;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// What the serving side says before its address.
const LISTENING: &str = "listening on ";

/// Arguments of `raidlab net`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    test: TestArgs,
}

impl Args {
    /// What they say of the processes that mpirun starts.
    pub(crate) fn ranks(&self) -> &RankArgs {
        &self.test.ranks
    }
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Serve tests to one client at a time, until it is told to stop
    Serve(ServeArgs),
}

/// Arguments of `raidlab net serve`.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Listen here; an address that others can reach needs --insecure
    #[arg(long, default_value = "127.0.0.1:5209", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Let whoever reaches the address use this machine's network, without encryption or a password
    #[arg(long)]
    insecure: bool,
    /// End when standard input ends
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// Reads which way data go.
fn direction() -> impl TypedValueParser<Value = NetDirection> {
    let ways = [("send", "To the server"), ("receive", "From the server"), ("both", "Both at once")];
    let values = ways.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| NetDirection::named(&name).ok_or(name))
}

/// A test from this side.
#[derive(Debug, clap::Args)]
struct TestArgs {
    /// Where 'raidlab net serve' runs
    #[arg(value_name = "HOST:PORT", required_unless_present = "loopback")]
    peer: Option<String>,
    /// Start the serving side here, as another process, and test the loopback interface
    #[arg(long, conflicts_with = "peer")]
    loopback: bool,
    /// Lengths of a send: 1472B, a list 10B,100B,1kB, or a range 1KiB..1MiB; a run for each
    #[arg(long, default_value = "10B,100B,1000B,1472B,10KiB,100KiB,1MiB", value_parser = sweep::block_sizes, value_name = "SIZE,...")]
    send: Numbers,
    /// Connections at once: 1, a list, or a range; a run for each
    #[arg(long, default_value = "1", value_parser = sweep::workers, value_name = "N,...")]
    connections: Numbers,
    /// Which way data go; a run for each that is listed
    #[arg(long, value_parser = direction(), value_delimiter = ',', default_value = "send", value_name = "WAY,...")]
    direction: Vec<NetDirection>,
    /// Length of each measured window, in seconds
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// Time before each measured window
    #[arg(long, default_value = "500ms", value_name = "TIME")]
    ramp: NanoSpan,
    /// Send from `memory`, or from this file, of which the page cache forgets first what it can
    #[arg(long, default_value = "memory", value_name = "memory|FILE")]
    from: PathBuf,
    /// Send without copying: a file by sendfile, memory by `MSG_ZEROCOPY` from 10 KiB on
    #[arg(long)]
    zero_copy: bool,
    /// Send small sends at once instead of gathering them (`TCP_NODELAY`)
    #[arg(long)]
    nodelay: bool,
    /// Size of both socket buffers on both sides [default: what the kernel chooses, and adapts]
    #[arg(long, value_name = "SIZE")]
    socket_buffer: Option<ByteCount>,
    /// Congestion control on both sides, such as cubic or reno [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Results file that every finished run is added to
    #[arg(long, default_value = "raidlab.sqlite", value_name = "FILE.sqlite")]
    db: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    ranks: RankArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    match &args.verb {
        Some(Verb::Serve(args)) => {
            only_alone("net serve", hosts)?;
            serve(args)
        }
        None => test(&args.test, output, hosts),
    }
}

fn serve(args: &ServeArgs) -> Result<Exit, Failure> {
    if !args.listen.ip().is_loopback() && !args.insecure {
        let error = anyhow::anyhow!("{} can be reached from other hosts", args.listen);
        return Err(Failure::input(error).with_hint(
            "give --insecure if whoever reaches it may use this network: there is no encryption and no password",
        ));
    }
    let cannot = |source| NetError::Listen { address: args.listen.to_string(), source };
    let listener = TcpListener::bind(args.listen).map_err(cannot).map_err(Failure::input)?;
    let address = listener.local_addr().map_err(cannot).map_err(Failure::run)?;
    let cancel = cancel_flag("stopping (once more to stop at once)");
    print(&format!("{LISTENING}{address}"))?;
    if args.until_stdin_ends {
        let ended = std::sync::Arc::clone(&cancel);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            ended.store(true, Ordering::Relaxed);
        });
    }
    let tell = |event: NetEvent<'_>| {
        let text = match event {
            NetEvent::Began { peer } => format!("{peer} has come"),
            NetEvent::Tested { order } => {
                let sends = ByteCount(order.send_bytes);
                format!("  {} of {sends}, {} connections: done", order.direction, order.connections)
            }
            NetEvent::Ended { peer, error: None } => format!("{peer} has left"),
            NetEvent::Ended { peer, error: Some(error) } => format!("{peer} was sent away: {error}"),
        };
        remark(text);
    };
    serve_network(&listener, &cancel, &tell).map_err(Failure::run)?;
    Ok(Exit::Done)
}

impl TestArgs {
    /// The tests in their order.
    fn orders(&self) -> Result<Vec<NetOrder>, Failure> {
        let run_ms = self.seconds * 1000.0;
        if !(100.0..=86_400_000.0).contains(&run_ms) {
            return Err(Failure::input(anyhow::anyhow!(
                "--seconds {}: 0.1 to 86400 can be measured",
                self.seconds
            )));
        }
        let mut orders = Vec::new();
        for direction in &self.direction {
            for connections in &self.connections {
                for send_bytes in &self.send {
                    orders.push(NetOrder {
                        direction: *direction,
                        send_bytes: u64::from(*send_bytes),
                        connections: *connections,
                        ramp_ms: self.ramp.get() / 1_000_000,
                        run_ms: run_ms as u64,
                        socket_buffer: self.socket_buffer.map(ByteCount::get),
                        congestion: self.congestion.clone(),
                        nodelay: self.nodelay,
                        zero_copy: self.zero_copy,
                    });
                }
            }
        }
        orders.iter().try_for_each(NetOrder::check).map_err(Failure::input)?;
        Ok(orders)
    }

    /// The file to send from, if it is not memory.
    fn file(&self) -> Result<Option<&Path>, Failure> {
        let file = (self.from.as_os_str() != "memory").then_some(self.from.as_path());
        if file.is_some() && self.direction.iter().any(|direction| *direction != NetDirection::Send) {
            return Err(Failure::input(anyhow::anyhow!(
                "a file is sent by this side only, and --direction asks for more"
            ))
            .with_hint("to receive from a file, run 'raidlab net' where the file is and serve here"));
        }
        Ok(file)
    }
}

fn test(args: &TestArgs, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    let (orders, file) = (args.orders()?, args.file()?);
    if let Some(report) = args.report.report.as_ref().filter(|_| hosts.leads()) {
        check_writable(report)?;
    }
    let cancel = cancel_flag("stopping (once more to stop at once)");
    // The serving process ends when this goes.
    let server = if args.loopback { Some(Server::start()?) } else { None };
    let peer = server.as_ref().map_or_else(|| peer_here(args, hosts), |it| it.address.clone());
    let opened = NetBench::connect(&peer, file);
    if !hosts.is_alone() {
        agree(hosts, opened.as_ref().map(|_| ()).map_err(|error| Refusal::Failed(error.to_string())))?;
    }
    let bench = opened.map_err(|error| failure(error.into()))?;
    let db = hosts.leads().then_some(&*args.db);
    let mut keeper = begin(args, (&orders, &peer), db, file)?;
    let mut progress = Progress::start_on(hosts);
    let ended = run_all(bench, &orders, hosts, &mut keeper, (&cancel, &mut progress));
    progress.end();
    let complete = ended.is_ok() && !cancel.load(Ordering::Relaxed);
    keeper.end(complete, &[])?;
    if !keeper.results.is_empty() && hosts.leads() {
        show(&keeper.results, output)?;
        if let Some(path) = &args.report.report {
            let notes = raidlab_report::hosts::notes(&keeper.results).collect();
            write_report(path, &StudyReport { notes, ..keeper.report() })?;
        }
    }
    match ended {
        _ if cancel.load(Ordering::Relaxed) => Ok(Exit::Interrupted),
        ended => ended.map(|()| Exit::Done),
    }
}

/// The server of this rank.
fn peer_here(args: &TestArgs, hosts: &Hosts) -> String {
    text_here(&args.peer.clone().unwrap_or_default(), hosts)
}

fn begin(
    args: &TestArgs,
    (orders, peer): (&[NetOrder], &str),
    db: Option<&Path>,
    file: Option<&Path>,
) -> Result<Keeper, Failure> {
    let environment = file.map_or_else(Environment::of_machine, Environment::of_target);
    let planned = Planned {
        kind: "net",
        title: format!("net {peer}"),
        method: format!(
            "Data over TCP for {} s after a ramp of {}, a run for each direction, number of connections and length of a \
             send. A rate is what arrived at the receiver within its window.",
            args.seconds, args.ramp
        ),
        runs: orders.len() as u64,
        seed: 0,
        configuration: serde_json::to_string(orders).map_err(Failure::run)?,
    };
    Keeper::begin_planned(db, planned, environment)
}

fn run_all(
    mut bench: NetBench,
    orders: &[NetOrder],
    hosts: &mut Hosts,
    keeper: &mut Keeper,
    (cancel, progress): (&AtomicBool, &mut Progress),
) -> Result<(), Failure> {
    for (index, order) in orders.iter().enumerate() {
        let (number, all) = (index + 1, orders.len());
        let (sends, connections) = (ByteCount(order.send_bytes), order.connections);
        let label = format!("run {number} of {all}: {} of {sends} on {connections}", order.direction);
        let mut tell = |share: f64| progress.show(&label, (index as f64 + share) / all as f64);
        let started_at = SystemTime::now();
        let result = bench.run(order, hosts, cancel, &mut tell).map_err(failure)?;
        keeper.take(started_at, result)?;
    }
    Ok(())
}

fn show(results: &[RunResult], output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return print(&raidlab_report::json::runs(results));
    }
    let hosts = raidlab_report::terminal::hosts(results, output.terminal());
    print(&(raidlab_report::terminal::runs(results, output.terminal()) + &hosts))
}

fn failure(error: NetworkError) -> Failure {
    let error = match error {
        NetworkError::Hosts(error) => return Failure::run(error),
        NetworkError::Net(error) => error,
    };
    match error {
        NetError::File { .. } | NetError::FileTooShort { .. } | NetError::Order(_) => Failure::input(error),
        NetError::Connect { ref source, .. } if source.kind() == ErrorKind::InvalidInput => {
            Failure::input(error).with_hint("write HOST:PORT")
        }
        error => Failure::run(error),
    }
}

/// The serving side as a process of its own. It ends when its standard input does, so also when this process is killed.
#[derive(Debug)]
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let start = || -> std::io::Result<Self> {
            let launcher = std::env::vars_os().map(|(name, _)| name);
            let launcher = launcher.filter(|name| is_launcher_variable(&name.to_string_lossy()));
            let mut command = Command::new(std::env::current_exe()?);
            launcher.for_each(|name| {
                command.env_remove(name);
            });
            let mut child = command
                .args(["net", "serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                // Ctrl-C is for this process, which then ends the other.
                .process_group(0)
                .spawn()?;
            let mut line = String::new();
            let output = child.stdout.take().expect("standard output is a pipe");
            BufReader::new(output.take(256)).read_line(&mut line)?;
            match line.trim_end().strip_prefix(LISTENING) {
                Some(address) => Ok(Self { address: address.to_owned(), child }),
                None => Err(std::io::Error::other("it did not say where it listens")),
            }
        };
        start().map_err(|error| Failure::run(error).context("the serving side can't be started"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
