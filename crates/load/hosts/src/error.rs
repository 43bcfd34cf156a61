//! Errors between ranks; every variant names the rank.

use std::time::Duration;

/// Why several hosts did not do something together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// A rank sent no heartbeat.
    #[error(
        "rank {rank} on host {host} gave no sign of life for {} s: it died, or its host or network hangs",
        waited.as_secs()
    )]
    Lost {
        /// Its number.
        rank: u32,
        /// Its host.
        host: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A rank could not do its part.
    #[error("rank {rank} on host {host}: {text}")]
    Failed {
        /// Its number.
        rank: u32,
        /// Its host.
        host: String,
        /// What it said.
        text: String,
    },
    /// A rank was stopped by its user.
    #[error("rank {rank} on host {host} was stopped")]
    Stopped {
        /// Its number.
        rank: u32,
        /// Its host.
        host: String,
    },
    /// A rank said what makes no sense here: it is of another version, or does something else.
    #[error("rank {rank} on host {host} is not doing the same: {text}")]
    Garbled {
        /// Its number.
        rank: u32,
        /// Its host.
        host: String,
        /// What was wrong.
        text: String,
    },
    /// Several processes were started by a program that can't have any.
    #[error("this raidlab was built without several hosts, and mpirun started several of it")]
    NotBuilt,
    /// What came from the other end of a pipe makes no sense, or its other end is closed.
    #[error("whoever shares the jobs out has gone, or shares out others")]
    NoRounds,
    /// MPI could not be set up.
    #[error("MPI cannot be set up")]
    NoMpi,
    /// The verb is one for one host.
    #[error("'{verb}' is for one host, and mpirun started {count} processes")]
    OneOnly {
        /// The verb.
        verb: String,
        /// The processes.
        count: u32,
    },
}
