//! Several processes on several hosts that work as one: rank 0 leads, the others follow.
//!
//! ```
//! use raidlab_hosts::Hosts;
//!
//! // A single process makes the same calls as many.
//! let hosts = Hosts::alone();
//! assert!(hosts.leads());
//! ```
//!
//! ```text
//!            rank 0                      every process runs the same command with the same arguments, so all make the
//!          ╱   │   ╲                     same calls in the same order, and decide by the same data
//!     rank 1 rank 2 rank 3               messages go between rank 0 and the others only
//! ```
//! - [`Peers`] is the interface of a message transport; [`Hosts`] is everything else: gathering, broadcasting,
//!   agreeing, clocks, the common start, distributed jobs. A single process needs no messages, and makes the same
//!   calls.
//! - **Helpers** that come and go (`rounds.rs`) do jobs for a process that somebody else pairs them with.
//! - **A rank that fails** says why, and all get the same [`HostsError`] that names it.
//! - **A rank that dies or hangs** sends no heartbeat within the limit; the others end and name it. Heartbeats
//!   ([`Hosts::beat`]) go both ways about once a second while work goes on.
//!
//! Left out: continuing without a lost rank, and messages between ranks other than 0.
#![forbid(unsafe_code)]

mod clocks;
mod error;
mod hosts;
#[cfg(feature = "mpi")]
mod mpi;
mod rounds;
mod share;
#[cfg(test)]
mod tests;

pub use clocks::{ClockOffset, CommonStart, monotonic_ns};
pub use error::HostsError;
pub use hosts::{Hosts, Refusal};
pub use share::{Jobs, Stop, all_processors};

use rounds::Rounds;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::time::Duration;

/// A way to send messages between ranks; messages of one rank to another arrive in the order sent.
pub trait Peers: fmt::Debug {
    /// The number of this process, from 0.
    fn rank(&self) -> u32;
    /// How many processes there are.
    fn count(&self) -> u32;
    /// Hands a message on; says whether that was done within `limit`.
    fn send(&mut self, to: u32, message: &[u8], limit: Duration) -> bool;
    /// The next message of `from`, if it is there.
    fn poll(&mut self, from: u32) -> Option<Vec<u8>>;
    /// Ends all processes at once with the exit code `code`, this one too.
    fn abort(&mut self, code: u8) -> !;
}

/// Variables by which the common implementations tell a process how many it is one of.
const COUNT_VARIABLES: [&str; 4] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"];

/// Whether `name` is a variable by which a launcher tells a process of the others. A program that a rank starts for itself must
/// not have it, or it would take itself for that rank.
pub fn is_launcher_variable(name: &str) -> bool {
    ["OMPI_", "PMI", "MPI_", "SLURM_"].iter().any(|start| name.starts_with(start))
}

/// Number of processes that mpirun says it started; 1 where none did.
fn started_count(variable: impl Fn(&str) -> Option<String>) -> u32 {
    let counts = COUNT_VARIABLES.iter().filter_map(|name| variable(name)?.parse().ok());
    counts.max().unwrap_or(1)
}

/// Whether a launcher started this process with others.
pub fn is_one_of_several() -> bool {
    started_count(|name| std::env::var(name).ok()) > 1
}

/// Joins the processes that mpirun started; this process alone where it did not start it, or started one only. A rank may
/// send no heartbeat for `limit`.
///
/// # Errors
/// [`HostsError`]: this program was built without MPI, or it can't be set up.
pub fn join(limit: Duration) -> Result<Hosts, HostsError> {
    if let Ok(how) = std::env::var(ROUNDS_VARIABLE) {
        return in_rounds(&how).ok_or(HostsError::NoRounds);
    }
    if !is_one_of_several() {
        return Ok(Hosts::alone());
    }
    #[cfg(feature = "mpi")]
    return Hosts::meet(Box::new(mpi::MpiPeers::start()?), host_name(), limit);
    #[cfg(not(feature = "mpi"))]
    {
        let _ = limit;
        Err(HostsError::NotBuilt)
    }
}

/// Says that the jobs of this process are shared out by the one that started it: `help`, or `lead:` and the number of the file that
/// takes what it says.
const ROUNDS_VARIABLE: &str = "RAIDLAB_ROUNDS";

fn in_rounds(how: &str) -> Option<Hosts> {
    let (leads, output): (bool, Box<dyn io::Write + Send>) = match how.strip_prefix("lead:") {
        None if how == "help" => (false, Box::new(io::stdout())),
        None => return None,
        Some(number) => {
            let number: u32 = number.parse().ok()?;
            (true, Box::new(File::options().write(true).open(format!("/proc/self/fd/{number}")).ok()?))
        }
    };
    Some(Hosts::in_rounds(Rounds::new(Box::new(BufReader::new(io::stdin())), output, leads)))
}

/// The name of the host; what the user calls it (`RAIDLAB_HOST`) goes first, as containers and namespaces may share one.
#[cfg(feature = "mpi")]
fn host_name() -> String {
    std::env::var("RAIDLAB_HOST")
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
