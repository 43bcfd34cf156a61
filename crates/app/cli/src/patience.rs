//! Servers that were started a moment ago, with `&`: what connects to them waits until their sockets answer.

use crate::output::remark;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long the socket of a target is waited for; an emulated array's model is ready before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// Does `connect` again for as long as `patience` while `is_absent` says that nobody answers on `place` yet, and says so once.
pub(crate) fn once_it_answers<T, E>(
    place: impl Display,
    patience: Duration,
    is_absent: impl Fn(&E) -> bool,
    mut connect: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begin = Instant::now();
    let mut is_told = false;
    loop {
        match connect() {
            Err(error) if is_absent(&error) && begin.elapsed() < patience => {}
            ended => return ended,
        }
        if !is_told {
            remark(format_args!("nobody answers on {place} yet: waiting up to {} s", patience.as_secs_f64()));
        }
        is_told = true;
        std::thread::sleep(RETRY_EVERY);
    }
}
