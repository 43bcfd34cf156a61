//! Several processes started by mpirun: joining them, the verbs that support them, and their failures.
//!
//! Rank 0 keeps and shows results and reports errors. The others are silent, except for what only they know.

use crate::cli::Command;
use crate::failure::{Exit, Failure};
use crate::output::{Output, remark};
use raidlab_hosts::{Hosts, HostsError, Refusal};
use raidlab_units::NanoSpan;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a rank may be silent, unless it is said.
const RANK_LIMIT: NanoSpan = NanoSpan::from_secs(30);

/// What a verb that several processes do together is told of them.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct RankArgs {
    /// Under mpirun: how long a process may give no sign of life before the run ends with its name [default: 30s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    rank_limit: Option<NanoSpan>,
}

/// Joins the processes that mpirun started for `command`, if it did.
pub(crate) fn join(command: &Command) -> Result<Hosts, Failure> {
    let limit = command.ranks().and_then(|ranks| ranks.rank_limit).unwrap_or(RANK_LIMIT);
    raidlab_hosts::join(Duration::from_nanos(limit.get())).map_err(|error| {
        let is_not_built = error == HostsError::NotBuilt;
        let hint = "build it with 'cargo build --release --features mpi' (docs/hosts.md)";
        Failure::input(error).with_any_hint(is_not_built.then_some(hint))
    })
}

/// Refuses a verb that is for one process where there are several.
pub(crate) fn check_verb(command: &Command, hosts: &Hosts) -> Result<(), Failure> {
    if command.ranks().is_some() {
        return Ok(());
    }
    let text = format!("{command:?}");
    only_alone(&text.split(['(', ' ']).next().unwrap_or_default().to_lowercase(), hosts)
}

/// Refuses what is for one process where there are several. Every process finds this out by itself, and one says it.
pub(crate) fn only_alone(verb: &str, hosts: &Hosts) -> Result<(), Failure> {
    if hosts.is_alone() {
        return Ok(());
    }
    Err(Failure::input(HostsError::OneOnly { verb: verb.to_owned(), count: hosts.count() }))
}

/// Says on standard error which rank did how many simulations, where they were shared out.
pub(crate) fn tell_shares(hosts: &Hosts) {
    let done = hosts.jobs_done();
    if hosts.is_alone() || done.iter().all(|count| *count == 0) {
        return;
    }
    let shares = done.iter().zip(hosts.names()).enumerate();
    let shares: Vec<String> =
        shares.map(|(rank, (count, name))| format!("{count} by rank {rank} on {name}")).collect();
    remark(format_args!("shared out: {}", shares.join(", ")));
}

/// Says what went wrong, once, and ends the other processes where they can't know of it.
pub(crate) fn fail(failure: &Failure, hosts: &mut Hosts, output: &Output) -> Exit {
    let told = failure.told_by_hosts();
    let all_know = matches!(
        told,
        Some(HostsError::Failed { .. } | HostsError::Stopped { .. } | HostsError::OneOnly { .. })
    );
    if all_know && !hosts.leads() {
        return failure.exit();
    }
    output.error(failure);
    if !all_know {
        // Does not come back where there are others: they wait for this process, or for one that is lost.
        hosts.abort(failure.exit().code());
    }
    failure.exit()
}

/// Goes on where all ranks can; `own` is why this one can't. Nothing where a rank was stopped by its user.
pub(crate) fn agree(hosts: &mut Hosts, own: Result<(), Refusal>) -> Result<Option<()>, Failure> {
    match hosts.barrier(own) {
        Ok(()) => Ok(Some(())),
        Err(HostsError::Stopped { .. }) => Ok(None),
        Err(error) => Err(Failure::run(error)),
    }
}

/// The names for this rank: `{rank}` and `{host}` in them stand for its number and its host.
pub(crate) fn names_here(names: &[PathBuf], hosts: &Hosts) -> Vec<PathBuf> {
    names.iter().map(|name| name_here(name, hosts)).collect()
}

fn name_here(name: &Path, hosts: &Hosts) -> PathBuf {
    match name.to_str() {
        Some(text) => text_here(text, hosts).into(),
        None => name.to_owned(),
    }
}

/// The same for text.
pub(crate) fn text_here(text: &str, hosts: &Hosts) -> String {
    text.replace("{rank}", &hosts.rank().to_string()).replace("{host}", hosts.name())
}
