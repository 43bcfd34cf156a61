//! The command line: one table for parsing and help.

use crate::hosts::RankArgs;
use crate::verbs::{
    array, bonnie, calibrate, catalog, compare, doctor, emulate, export, fit, import, measure, model, net,
    plan, reference, report, reproduce, risk, runs, simulate, soak, streams, studio, study, tag, torture,
    workloads,
};
use clap::{Parser, Subcommand};

/// A laboratory for storage arrays: measure, simulate, run and reproduce on one controller
#[derive(Debug, Parser)]
#[command(name = "raidlab", version, after_help = EXIT_CODES, propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print results as JSON; field names carry the units
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Log more to standard error (twice for debugging); `RAIDLAB_LOG` takes filters
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a run failed
  2    bad usage, or an input file that cannot be used
  3    done, but a bound was missed
  130  interrupted; finished runs are kept

Results go to standard output, progress and errors to standard error. NO_COLOR is honoured.
RAIDLAB_PROGRESS=json makes progress lines of JSON, for programs.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study: a matrix of measured and simulated runs, with a table, a recommendation and a report
    Study(study::Args),
    /// Measure storage as it is: a file or a block device
    Measure(measure::Args),
    /// Read files in parallel streams that start at once, on real folders or modelled arrays
    Streams(streams::Args),
    /// Write, read and seek in a file by characters and blocks, on real folders or modelled arrays
    Bonnie(bonnie::Args),
    /// Read the same data again and again, and compare every bit
    Soak(soak::Args),
    /// Measure a network: TCP from memory or a file to another process or host
    Net(net::Args),
    /// Simulate an array of modelled hardware in virtual time
    Simulate(simulate::Args),
    /// Serve a modelled array over NBD at its own speed, with real bytes behind it
    Emulate(emulate::Args),
    /// Predict published figures and compare
    Reproduce(reproduce::Args),
    /// Fit figures of the catalogue that no source gives to the rows of a paper that are marked for it
    Fit(fit::Args),
    /// Find the arrays that serve applications best, and say why
    Plan(plan::Args),
    /// Find a drive's parameters from timing alone, and write an entry of the catalogue
    Calibrate(calibrate::Args),
    /// Tell how likely an array, or a fleet of them, is to lose data
    Risk(risk::Args),
    /// Check the controller under load and faults, byte for byte, in any number of random runs
    Torture(torture::Args),
    /// Make, serve and look after arrays that hold data
    Array(array::Args),
    /// List the workloads, or show one
    Workloads(workloads::Args),
    /// Make workload files of job files of fio and Iometer, replayable files of block traces; take in runs
    Import(import::Args),
    /// List the modelled hardware, or show one entry with the source of each figure
    Catalog(catalog::Args),
    /// Check drive models against measured drives
    Model(model::Args),
    /// Say what this machine can and cannot do, and why it matters
    Doctor(doctor::Args),
    /// List the runs in a results file
    Runs(runs::ListArgs),
    /// Show one run of a results file
    Show(runs::ShowArgs),
    /// Put the figures of runs side by side, with differences and the spread of repeats
    Compare(compare::Args),
    /// Write a page of runs of a results file, with charts, tables and a conclusion; as Markdown and pictures too
    Report(report::Args),
    /// Give runs of a results file a tag, or take it away
    Tag(tag::Args),
    /// Write runs of a results file as CSV, Parquet or JSON, or as fio or Iometer do; write traces as fio does
    Export(export::Args),
    /// Make manual pages, shell completions, or the reference of all verbs as one page
    Reference(reference::Args),
    /// Serve web pages on this machine: papers, runs, live measurements, arrays, the catalogue
    Studio(studio::Args),
}

impl Command {
    /// Whether it serves until it is told to stop, and must not depend on who reads what it says.
    pub(crate) const fn serves(&self) -> bool {
        match self {
            Self::Array(args) => args.serves(),
            Self::Emulate(_) | Self::Studio(_) => true,
            _ => false,
        }
    }

    /// What its arguments say of the processes that mpirun starts; none for a verb that is for one process.
    pub(crate) fn ranks(&self) -> Option<&RankArgs> {
        match self {
            Self::Measure(args) => Some(&args.ranks),
            Self::Streams(args) => Some(&args.ranks),
            Self::Bonnie(args) => Some(&args.ranks),
            Self::Net(args) => Some(args.ranks()),
            Self::Simulate(args) => Some(&args.ranks),
            Self::Reproduce(args) => Some(&args.ranks),
            Self::Plan(args) => Some(&args.ranks),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
