//! Ctrl-C and similar signals: the first asks to stop and keep what is finished, the second ends at once.

use crate::output::remark;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said where runs are kept as they end.
pub(crate) const RUNS_ARE_KEPT: &str = "stopping; finished runs are kept (once more to stop at once)";

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set, which is told with `words`. Where no handler can be set the flag stays unset and the
/// signals end the process as usual; finished runs are in the results file in either case.
pub(crate) fn cancel_flag(words: &'static str) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set_by_signal = Arc::clone(&flag);
    let handler = move || {
        if set_by_signal.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        remark(words);
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!(%error, "no handler for interrupts can be set");
    }
    flag
}
