//! `raidlab array assemble`: says what devices are and whether `serve` would serve them; changes nothing.

use super::examined_text::examined;
use super::serve::CacheArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use raidlab_format::StartOptions;
use raidlab_runtime::would_start;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `raidlab array assemble`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Devices, in any order: block devices, files, or NBD URIs
    #[arg(value_name = "DEVICE", required = true)]
    devices: Vec<PathBuf>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    risks: Risks,
}

/// What an operator may accept so that an array starts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Risks {
    /// Start with half or less of the members: the absent ones are gone for good, and what was written to them alone is
    /// lost
    #[arg(long)]
    accept_minority: bool,
    /// Start though a crash may have left parity wrong and a member is missing: data of that member may be wrong
    #[arg(long)]
    accept_write_hole: bool,
}

impl Risks {
    pub(crate) fn options(self) -> StartOptions {
        let Self { accept_minority, accept_write_hole } = self;
        StartOptions { expected: None, accept_minority, accept_write_hole }
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let report = would_start(&args.devices, &args.cache.settings(), args.risks.options());
    if output.is_json() {
        print_json(&json!({ "schema": 1, "examined": report }))?;
    } else {
        print(&examined(&report, output.terminal()))?;
    }
    Ok(if report.refused.is_some() { Exit::BadInput } else { Exit::Done })
}
