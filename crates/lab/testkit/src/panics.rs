//! Panics that are told at once.

use std::io::Write;
use std::sync::Once;

/// Has panics tell what they are at once. One in an array's thread ends the process, and what the test harness has kept goes with it.
pub fn tell_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The harness keeps what macros print.
            let _ = writeln!(std::io::stderr(), "{panic}");
            before(panic);
        }));
    });
}
