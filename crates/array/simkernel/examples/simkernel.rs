//! The hunt on simulated kernels: plans of one seed after the other.
//!
//! ```text
//! make simkernel                        five minutes from seed 1
//! make simkernel ARGS="--seconds 3600 --seed 7"
//! make simkernel ARGS="FILE..."         stored plans
//! ```
//! Runs are made by a child process, so that one that aborts, loops or overflows its stack is told with its seed. A plan that fails
//! is shrunk and stored beside the caller.

#[path = "hunt/mod.rs"]
mod hunt;

use std::process::ExitCode;

fn main() -> ExitCode {
    hunt::main(&std::env::args().skip(1).collect::<Vec<_>>(), |_| {})
}
